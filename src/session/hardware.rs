//! Hardware counters of the timed pass: the events in this CPU's tables, the trust in them, and their counts.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::counters::collect::plan::{self, Plan};
use crate::counters::collect::{CollectOptions, Collector};
use crate::counters::cpu;
use crate::counters::group::nmi_watchdog;
use crate::counters::kernel::Linux;
use crate::counters::pmu::{self, Pmu};
use crate::counters::refusal::Refusal;
use crate::counters::store;
use crate::counters::table::{Event, EventTable, Medium, Role, UncoreEvent};
use crate::counters::tables;
use crate::counters::trust::{Certificate, Verdict};
use crate::counters::uncore::{self, OpenUncore};
use crate::profile::evidence::counters::{CounterEvent, CounterEvidence, UncoreBytes, UncoreCount};
use crate::profile::run::Warning;
use crate::tracee::affinity;

use super::certificates::{self, Kept};
use super::error::SessionError;

/// Time for which rprof watches the host's background traffic before and after the run.
const BACKGROUND: Duration = Duration::from_millis(100);
/// The greatest rate at which rprof reads counters: beyond it reading them costs more than 1 %.
const GREATEST_HZ: f64 = 10_000.0;

/// Certificates of a folder of tables.
const RECORDED: &str = "certificates.json";

/// The events that this host could count.
pub struct Hardware {
    tables: Vec<EventTable>,
    pmus: Vec<Pmu>,
    nmi_watchdog: bool,
    certificates: Vec<Certificate>,
    /// The reason given for an event without a certificate.
    unchecked: &'static str,
    /// The reason given if there is no table.
    no_table: &'static str,
    kept: Option<Kept>,
}

/// Counters that are armed on a program.
pub struct Armed {
    collector: Collector<Linux>,
    /// Why there is no table.
    no_table: Option<&'static str>,
    uncore: Vec<ArmedUncore>,
    pmus: Vec<Pmu>,
}

struct ArmedUncore {
    event: UncoreEvent,
    verdict: Verdict,
    /// Background before the run in bytes per second.
    before: Result<f64, Refusal>,
    boxes: OpenUncore<std::os::fd::OwnedFd>,
    start: Instant,
}

impl Hardware {
    /// Looks at this host, or at the tables, the `sysfs` and the recorded certificates of `folder` instead. Checks the events
    /// that this host has not certified yet.
    ///
    /// # Errors
    /// The folder's tables or certificates cannot be used.
    pub fn prepare(folder: Option<&Path>, warnings: &mut Vec<Warning>) -> Result<Hardware, SessionError> {
        let nmi_watchdog = nmi_watchdog(Path::new("/proc"));
        if let Some(folder) = folder {
            let tables = tables::from_folder(folder).map_err(|e| SessionError::Events(e.to_string()))?;
            let pmus = pmu::list(&folder.join("sysfs"));
            let recorded = folder.join(RECORDED);
            let certificates = match recorded.exists() {
                true => store::recorded(&recorded).map_err(|e| SessionError::Events(e.to_string()))?,
                false => Vec::new(),
            };
            let no_table = "the folder given with --counters-from holds no event table (*.toml)";
            let unchecked = "its table was given with --counters-from";
            return Ok(Hardware { tables, pmus, nmi_watchdog, certificates, unchecked, no_table, kept: None });
        }
        let sysfs = Path::new("/sys");
        let all = tables::all().map_err(|e| SessionError::Events(e.to_string()))?;
        let tables = cpu::identify(sysfs).map(|id| plan::tables_of(&all, &id)).unwrap_or_default();
        let pmus = pmu::list(sysfs);
        let kept = Kept::of_host(&tables, &pmus);
        let certificates = certificates::of_tables(&tables, &pmus, kept.as_ref(), warnings);
        let (unchecked, no_table) = ("no known work", "rprof has no event table for this CPU");
        Ok(Hardware { tables, pmus, nmi_watchdog, certificates, unchecked, no_table, kept })
    }

    /// The counted pass contradicts the certificates: they are made anew at the next run.
    pub fn distrust(&self) {
        self.kept.iter().for_each(Kept::forget);
    }

    /// The worth of each event that the run asks for, before any is opened.
    pub fn outlook(&self) -> CounterEvidence {
        // The program will have the affinity of this thread.
        let plan = self.plan(Pid::from_raw(0));
        let events = plan.wanted.iter().map(|w| w.uncounted()).chain(plan.missing.clone()).collect();
        let uncore = self.traffic_events().into_iter().map(|e| {
            let why = Err(Refusal::NeverRan.to_string());
            uncore_count(e, &self.verdict(&e.name, &e.pmu), why)
        });
        CounterEvidence { events, uncore: uncore.collect(), ..CounterEvidence::default() }
    }

    /// Arms everything on `child`, to start when it executes a program. Nothing here fails: the end reports the refusals.
    pub fn arm(&self, child: Pid, frequency_hz: f64) -> Armed {
        let plan = self.plan(child);
        let cpus = sysconf(SysconfVar::_NPROCESSORS_CONF).ok().flatten().unwrap_or(1) as u32;
        let frequency_hz = frequency_hz.min(GREATEST_HZ);
        let options = CollectOptions { frequency_hz, cpus, sums_alone: false };
        let uncore = self.traffic_events().into_iter().map(|e| self.arm_uncore(e)).collect();
        let no_table = self.tables.is_empty().then_some(self.no_table);
        let collector = Collector::arm(Linux, plan, child.as_raw(), options);
        Armed { collector, no_table, uncore, pmus: self.pmus.clone() }
    }

    fn plan(&self, program: Pid) -> Plan {
        let verdict = |event: &Event, pmu: &Pmu| self.verdict(&event.name, &pmu.name);
        Plan::new(&self.tables, &self.pmus, self.nmi_watchdog, verdict).for_a_program_on(&affinity::cpus_of(program))
    }

    fn verdict(&self, event: &str, pmu: &str) -> Verdict {
        let found = self.certificates.iter().find(|c| c.event == event && c.pmu == pmu);
        found.map_or_else(|| Verdict::NotChecked { why: self.unchecked.into() }, |c| c.verdict.clone())
    }

    /// Events of memory controllers; the kinds of cores of a CPU share them. Leaves out memory that few parts have, unless this
    /// one has it.
    fn traffic_events(&self) -> Vec<&UncoreEvent> {
        let mut events: Vec<&UncoreEvent> = Vec::new();
        let here =
            |e: &&UncoreEvent| e.medium != Medium::HighBandwidth || self.pmus.iter().any(|pmu| pmu.is_box_of(&e.pmu));
        for event in self.tables.iter().flat_map(|t| &t.uncore).filter(is_traffic).filter(here) {
            if !events.iter().any(|e| e.name == event.name && e.pmu == event.pmu) {
                events.push(event);
            }
        }
        events
    }

    fn arm_uncore(&self, event: &UncoreEvent) -> ArmedUncore {
        let verdict = self.verdict(&event.name, &event.pmu);
        let before = match &verdict {
            Verdict::Refuted { found } => Err(Refusal::NotTrusted { found: found.clone() }),
            _ => uncore::background(&Linux, &self.pmus, event, BACKGROUND),
        };
        let mut boxes = uncore::open(&Linux, &self.pmus, event);
        boxes.enable(&Linux);
        ArmedUncore { event: event.clone(), verdict, before, boxes, start: Instant::now() }
    }
}

fn is_traffic(event: &&UncoreEvent) -> bool {
    matches!(event.role, Role::DramReadLines | Role::DramWriteLines | Role::QueueOccupancy)
}

impl Armed {
    /// The counts, after the program has ended.
    pub fn finish(self) -> CounterEvidence {
        // The controllers count on while the other counters are read.
        let during: Vec<_> = self.uncore.into_iter().map(ArmedUncore::stop).collect();
        let mut evidence = self.collector.finish();
        evidence.events.extend(self.no_table.map(no_table));
        evidence.uncore = during.into_iter().map(|stopped| stopped.finish(&self.pmus)).collect();
        evidence
    }
}

fn no_table(why: &str) -> CounterEvent {
    CounterEvent {
        name: "flops".into(),
        role: Role::Flops.name(),
        pmu: String::new(),
        unit: Role::Flops.unit().into(),
        weight: 1.0,
        trust: "not checked".into(),
        certified: false,
        precision: None,
        width: None,
        caveat: None,
        betrays: None,
        total: Err(why.into()),
    }
}

/// Boxes after the run, before the second look at the background.
struct StoppedUncore {
    event: UncoreEvent,
    verdict: Verdict,
    before: Result<f64, Refusal>,
    during: Result<uncore::Traffic, Refusal>,
    seconds: f64,
}

impl ArmedUncore {
    fn stop(self) -> StoppedUncore {
        let during = self.boxes.read(&Linux, self.event.bytes);
        let seconds = self.start.elapsed().as_secs_f64();
        StoppedUncore { event: self.event, verdict: self.verdict, before: self.before, during, seconds }
    }
}

impl StoppedUncore {
    fn finish(self, pmus: &[Pmu]) -> UncoreCount {
        let bytes = self.bytes(pmus).map_err(|refusal| refusal.to_string());
        uncore_count(&self.event, &self.verdict, bytes)
    }

    fn bytes(&self, pmus: &[Pmu]) -> Result<UncoreBytes, Refusal> {
        let before = self.before.clone()?;
        let during = self.during.clone()?;
        let after = uncore::background(&Linux, pmus, &self.event, BACKGROUND)?;
        let net = uncore::subtract_background(&during, self.seconds, before, after);
        let divisor = self.verdict.divisor();
        Ok(UncoreBytes {
            net: net.bytes / divisor,
            background: net.background / divisor,
            error: net.error_bytes / divisor,
            balance: uncore::controller_balance(&during),
            boxes: during.by_box.len() as u32,
            phantom: during.phantom,
        })
    }
}

fn uncore_count(event: &UncoreEvent, verdict: &Verdict, bytes: Result<UncoreBytes, String>) -> UncoreCount {
    UncoreCount {
        name: event.name.clone(),
        role: event.role.name(),
        pmu: event.pmu.clone(),
        trust: verdict.to_string(),
        certified: verdict.is_certified(),
        both_directions: event.both_directions,
        further: event.medium == Medium::HighBandwidth,
        bytes,
    }
}
