//! The events that a run asks for, and their groups.

use crate::cpu::CpuId;
use crate::group::{self, Free, Schedule};
use crate::pmu::Pmu;
use crate::refusal::Refusal;
use crate::table::{CpuMatch, Event, EventTable, Role};
use crate::trust::Verdict;
use rprof_profile::evidence::counters::{CounterEvent, LeftOut};

/// An event on a PMU.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// From the table.
    pub event: Event,
    /// The PMU that it is opened on; `None` if the kernel lists no such PMU.
    pub pmu: Option<Pmu>,
    /// The verdict of the trust check.
    pub verdict: Verdict,
    /// Known before it is opened not to be had.
    pub refusal: Option<Refusal>,
    /// How its FLOPs differ from those of the counted pass.
    pub caveat: Option<String>,
    /// The FLOPs that it shows and the others leave out.
    pub betrays: Option<LeftOut>,
}

/// Events of one PMU that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Indices into [`Plan::wanted`].
    pub members: Vec<usize>,
    /// CPUs that have the PMU; empty: all.
    pub cpus: Vec<u32>,
    /// It is on the PMU all the time; the others take turns beside it.
    pub constant: bool,
}

/// The events to open.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Everything asked for.
    pub wanted: Vec<Wanted>,
    /// By PMU, FLOPs first.
    pub groups: Vec<Group>,
    /// FLOPs that a kind of core cannot count, with the reason: without them the program's sum is not known.
    pub missing: Vec<CounterEvent>,
}

/// The core PMU of `cpu` that the kernel lists: the first of its names.
pub fn core_pmu<'a>(cpu: &CpuMatch, pmus: &'a [Pmu]) -> Option<&'a Pmu> {
    cpu.pmu.iter().find_map(|name| pmus.iter().find(|p| p.name == *name))
}

/// The tables of a CPU; hybrid CPUs have one for each kind of core.
pub fn tables_of(tables: &[EventTable], id: &CpuId) -> Vec<EventTable> {
    let fits =
        |t: &&EventTable| t.cpu.vendor == id.vendor && t.cpu.family == id.family && t.cpu.models.contains(&id.model);
    tables.iter().filter(fits).cloned().collect()
}

/// The tables of cores for which the kernel lists a PMU; all of them if it lists none.
pub fn present<'t>(tables: &'t [EventTable], pmus: &[Pmu]) -> impl Iterator<Item = &'t EventTable> {
    let listed: Vec<bool> = tables.iter().map(|t| core_pmu(&t.cpu, pmus).is_some()).collect();
    let none = !listed.contains(&true);
    tables.iter().zip(listed).filter(move |(_, listed)| none || *listed).map(|(table, _)| table)
}

/// The events to ask for: FLOPs merged if that keeps them on the PMU better and no trust check contradicts it.
fn asked_for<'t>(
    table: &'t EventTable,
    pmu: Option<&Pmu>,
    free: Free,
    verdict: &impl Fn(&Event, &Pmu) -> Verdict,
) -> Vec<&'t Event> {
    let full: Vec<&Event> = table.asked_for().collect();
    let (Some(merged), Some(pmu)) = (table.merged(), pmu) else { return full };
    let owned = |events: &[&Event]| events.iter().map(|e| (*e).clone()).collect::<Vec<Event>>();
    let flops = |events: &[&'t Event]| events.iter().copied().filter(|e| e.role == Role::Flops).collect::<Vec<_>>();
    let certified = |events: &[&'t Event]| flops(events).iter().all(|e| verdict(e, pmu).is_certified());
    let as_good = certified(&merged) || !certified(&full);
    if as_good && group::is_better_merged(&owned(&full), &owned(&merged), free) { merged } else { full }
}

impl Plan {
    /// Asks for the headline events of `tables`. `verdict` returns the verdict on an event on a PMU.
    pub fn new(
        tables: &[EventTable],
        pmus: &[Pmu],
        nmi_watchdog: bool,
        verdict: impl Fn(&Event, &Pmu) -> Verdict,
    ) -> Plan {
        let mut plan = Plan::default();
        for table in present(tables, pmus) {
            plan.add(table, pmus, Free::of(&table.cpu, nmi_watchdog), &verdict);
        }
        plan
    }

    fn add(&mut self, table: &EventTable, pmus: &[Pmu], free: Free, verdict: &impl Fn(&Event, &Pmu) -> Verdict) {
        let pmu = core_pmu(&table.cpu, pmus);
        let mut events = asked_for(table, pmu, free, verdict);
        events.sort_by_key(|e| e.role != Role::Flops);
        let first = self.wanted.len();
        for event in events {
            let missing = Refusal::not_listed(table.cpu.pmu.join(" or "), pmus);
            let (verdict, refusal) = match pmu {
                None => (Verdict::NotChecked { why: missing.to_string() }, Some(missing)),
                Some(pmu) => match verdict(event, pmu) {
                    Verdict::Refuted { found } => {
                        (Verdict::Refuted { found: found.clone() }, Some(Refusal::NotTrusted { found }))
                    }
                    other => (other, None),
                },
            };
            let betrays = table.betrays(event).map(|m| LeftOut { reason: sentence(&m.reason), at_most: m.at_most });
            let caveat = match event.role {
                Role::FpInstructions | Role::SimdFpInstructions => event.notes.clone(),
                _ => table.caveat(event),
            };
            self.wanted.push(Wanted { event: event.clone(), pmu: pmu.cloned(), verdict, refusal, caveat, betrays });
        }
        let Some(pmu) = pmu else { return };
        self.missing.extend(table.no_flops().map(|m| no_flops(&pmu.name, &pmu.name, sentence(&m.reason))));
        let open: Vec<usize> = (first..self.wanted.len()).filter(|i| self.wanted[*i].refusal.is_none()).collect();
        let events: Vec<Event> = open.iter().map(|i| self.wanted[*i].event.clone()).collect();
        let Schedule { constant, groups, impossible } = group::schedule(&events, free);
        for i in impossible {
            self.wanted[open[i]].refusal = Some(Refusal::CountersTaken);
        }
        let cpus = if pmu.per_socket { Vec::new() } else { pmu.cpus.clone() };
        let members = |(n, group): (usize, Vec<usize>)| Group {
            members: group.iter().map(|i| open[*i]).collect(),
            cpus: cpus.clone(),
            constant: constant && n == 0,
        };
        self.groups.extend(groups.into_iter().enumerate().map(members));
    }
}

/// FLOPs of `cores` that nothing counts.
fn no_flops(cores: &str, pmu: &str, reason: String) -> CounterEvent {
    CounterEvent {
        name: format!("flops of {cores}"),
        role: Role::Flops.name(),
        pmu: pmu.into(),
        unit: Role::Flops.unit().into(),
        weight: 1.0,
        trust: "no such event".into(),
        certified: false,
        precision: None,
        width: None,
        caveat: None,
        betrays: None,
        total: Err(reason),
    }
}

/// A sentence of a table within another one.
fn sentence(text: &str) -> String {
    text.trim_end_matches('.').to_owned()
}

impl Plan {
    /// The plan for a program that may run on the CPUs `allowed`. If none of its PMUs is on one of them (the kernel lists the
    /// PMU of one kind of core and not that of the other), it opens nothing: the program's work there would be missing from
    /// every sum, and a program that runs only there would read 0.
    pub fn for_a_program_on(mut self, allowed: &[u32]) -> Plan {
        let pmus: Vec<&Pmu> = self.wanted.iter().filter_map(|w| w.pmu.as_ref()).collect();
        let counts_on = |cpu: &u32| pmus.iter().any(|p| p.per_socket || p.cpus.is_empty() || p.cpus.contains(cpu));
        let cpus: Vec<u32> = allowed.iter().copied().filter(|cpu| !counts_on(cpu)).collect();
        if pmus.is_empty() || cpus.is_empty() {
            return self;
        }
        let refusal = Refusal::NoPmuOn { cpus };
        for wanted in &mut self.wanted {
            wanted.refusal.get_or_insert_with(|| refusal.clone());
        }
        self.groups.clear();
        self.missing.push(no_flops("cores without a PMU", "", refusal.to_string()));
        self
    }

    /// Descriptors that its groups take on a host of `cpus` CPUs.
    pub fn descriptors(&self, cpus: u32) -> u64 {
        let of_group = |g: &Group| {
            let cpus = if g.cpus.is_empty() { cpus as usize } else { g.cpus.len() };
            // its clock, and a second one that measures the time there if the group is on some CPUs only
            cpus * (1 + usize::from(!g.cpus.is_empty()) + g.members.len())
        };
        self.groups.iter().map(of_group).sum::<usize>() as u64
    }
}

impl Wanted {
    /// As evidence, with the reason why it has no count yet.
    pub fn uncounted(&self) -> CounterEvent {
        let divisor = self.verdict.divisor();
        CounterEvent {
            name: self.event.name.clone(),
            role: self.event.role.name(),
            pmu: self.pmu.as_ref().map(|p| p.name.clone()).unwrap_or_default(),
            unit: self.event.unit().into(),
            weight: self.event.weight / divisor,
            trust: self.verdict.to_string(),
            certified: self.verdict.is_certified(),
            precision: self.event.precision,
            width: self.event.width,
            caveat: self.caveat.clone(),
            betrays: self.betrays.clone(),
            total: Err(self.refusal.as_ref().unwrap_or(&Refusal::NeverRan).to_string()),
        }
    }
}
