//! Hardware counters of the timed pass: which events this CPU's tables offer, whether they are believed, and their count.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::counters::collect::plan::{self, Plan};
use crate::counters::collect::{CollectOptions, Collector};
use crate::counters::cpu;
use crate::counters::group::nmi_watchdog;
use crate::counters::kernel::Linux;
use crate::counters::pmu::{self, Pmu};
use crate::counters::refusal::Refusal;
use crate::counters::table::{self, Event, EventTable, Role, UncoreEvent};
use crate::counters::trust::{Certificate, Verdict};
use crate::counters::uncore::{self, OpenUncore};
use crate::profile::evidence::counters::{CounterEvent, CounterEvidence, UncoreBytes, UncoreCount};

use super::error::SessionError;

/// How long the host's background traffic is watched before and after the run.
const BACKGROUND: Duration = Duration::from_millis(100);
/// The greatest rate at which counters are read: beyond it reading them costs more than 1 %.
const GREATEST_HZ: f64 = 10_000.0;

/// What this host could count.
pub struct Hardware {
    tables: Vec<EventTable>,
    pmus: Vec<Pmu>,
    nmi_watchdog: bool,
    trust: Trust,
}

/// On what belief in an event rests.
enum Trust {
    /// The tables' owner vouches for them.
    Vouched,
    /// Known work that ran through them.
    Checked(Vec<Certificate>),
}

/// Counters that are armed on a program.
pub struct Armed {
    collector: Collector<Linux>,
    no_table: bool,
    uncore: Vec<ArmedUncore>,
    pmus: Vec<Pmu>,
}

struct ArmedUncore {
    event: UncoreEvent,
    /// Background before the run in bytes per second.
    before: Result<f64, Refusal>,
    boxes: OpenUncore<std::os::fd::OwnedFd>,
    start: Instant,
}

impl Hardware {
    /// Looks at this host, or at the tables and the `sysfs` of `folder` in its place.
    ///
    /// # Errors
    /// The folder's tables cannot be used.
    pub fn prepare(folder: Option<&Path>) -> Result<Hardware, SessionError> {
        let nmi_watchdog = nmi_watchdog(Path::new("/proc"));
        if let Some(folder) = folder {
            let tables = table::from_folder(folder).map_err(|e| SessionError::Events(e.to_string()))?;
            let pmus = pmu::list(&folder.join("sysfs"));
            return Ok(Hardware { tables, pmus, nmi_watchdog, trust: Trust::Vouched });
        }
        let sysfs = PathBuf::from("/sys");
        let all = table::all().map_err(|e| SessionError::Events(e.to_string()))?;
        let tables = cpu::identify(&sysfs).map(|id| plan::tables_of(&all, &id)).unwrap_or_default();
        let pmus = pmu::list(&sysfs);
        let certificates = tables.iter().flat_map(|t| certificates(t, &pmus, nmi_watchdog)).collect();
        Ok(Hardware { tables, pmus, nmi_watchdog, trust: Trust::Checked(certificates) })
    }

    /// Arms everything on `child`, to start when it executes a program. Nothing here fails: what is refused is told at
    /// the end.
    pub fn arm(&self, child: Pid, frequency_hz: f64) -> Armed {
        let plan = Plan::new(&self.tables, &self.pmus, self.nmi_watchdog, |event, pmu| self.verdict(event, pmu));
        let cpus = sysconf(SysconfVar::_NPROCESSORS_CONF).ok().flatten().unwrap_or(1) as u32;
        let frequency_hz = frequency_hz.min(GREATEST_HZ);
        let options = CollectOptions { frequency_hz, cpus, sums_alone: false };
        let uncore =
            self.tables.iter().flat_map(|t| &t.uncore).filter(is_traffic).map(|e| self.arm_uncore(e)).collect();
        let collector = Collector::arm(Linux, plan, child.as_raw(), options);
        Armed { collector, no_table: self.tables.is_empty(), uncore, pmus: self.pmus.clone() }
    }

    fn verdict(&self, event: &Event, pmu: &Pmu) -> Verdict {
        match &self.trust {
            Trust::Vouched => Verdict::NotChecked { why: "its table was given with --counters-from".into() },
            Trust::Checked(certificates) => {
                let found = certificates.iter().find(|c| c.event == event.name && c.pmu == pmu.name);
                found.map_or(Verdict::NotChecked { why: "no known work".into() }, |c| c.verdict.clone())
            }
        }
    }

    fn arm_uncore(&self, event: &UncoreEvent) -> ArmedUncore {
        let before = uncore::background(&Linux, &self.pmus, event, BACKGROUND);
        let mut boxes = uncore::open(&Linux, &self.pmus, event);
        boxes.enable(&Linux);
        ArmedUncore { event: event.clone(), before, boxes, start: Instant::now() }
    }
}

fn is_traffic(event: &&UncoreEvent) -> bool {
    matches!(event.role, Role::DramReadLines | Role::DramWriteLines | Role::QueueOccupancy)
}

#[cfg(target_arch = "x86_64")]
fn certificates(table: &EventTable, pmus: &[Pmu], nmi_watchdog: bool) -> Vec<Certificate> {
    use crate::counters::{check, group::Free};
    if plan::core_pmu(&table.cpu, pmus).is_none() {
        return Vec::new();
    }
    let mut headline = EventTable { uncore: Vec::new(), ..table.clone() };
    headline.events.retain(|e| e.headline);
    check::certify(&Linux, pmus, &headline, Free::of(&table.cpu, nmi_watchdog), &mut super::known_work::kernels())
}

#[cfg(not(target_arch = "x86_64"))]
fn certificates(_: &EventTable, _: &[Pmu], _: bool) -> Vec<Certificate> {
    Vec::new()
}

impl Armed {
    /// After the program has ended: what was counted.
    pub fn finish(self) -> CounterEvidence {
        // The controllers count on while the other counters are read.
        let during: Vec<_> = self.uncore.into_iter().map(ArmedUncore::stop).collect();
        let mut evidence = self.collector.finish();
        if self.no_table {
            evidence.events.push(no_table());
        }
        evidence.uncore = during.into_iter().map(|stopped| stopped.finish(&self.pmus)).collect();
        evidence
    }
}

fn no_table() -> CounterEvent {
    CounterEvent {
        name: "flops".into(),
        role: Role::Flops.name(),
        pmu: String::new(),
        unit: Role::Flops.unit().into(),
        weight: 1.0,
        trust: "not checked".into(),
        total: Err("rprof has no event table for this CPU".into()),
    }
}

/// Boxes after the run, before the second look at the background.
struct StoppedUncore {
    event: UncoreEvent,
    before: Result<f64, Refusal>,
    during: Result<uncore::Traffic, Refusal>,
    seconds: f64,
}

impl ArmedUncore {
    fn stop(self) -> StoppedUncore {
        let during = self.boxes.read(&Linux, self.event.bytes);
        let seconds = self.start.elapsed().as_secs_f64();
        StoppedUncore { event: self.event, before: self.before, during, seconds }
    }
}

impl StoppedUncore {
    fn finish(self, pmus: &[Pmu]) -> UncoreCount {
        let bytes = self.bytes(pmus).map_err(|refusal| refusal.to_string());
        UncoreCount { name: self.event.name, role: self.event.role.name(), pmu: self.event.pmu, bytes }
    }

    fn bytes(&self, pmus: &[Pmu]) -> Result<UncoreBytes, Refusal> {
        let before = self.before.clone()?;
        let during = self.during.clone()?;
        let after = uncore::background(&Linux, pmus, &self.event, BACKGROUND)?;
        let net = uncore::subtract_background(&during, self.seconds, before, after);
        Ok(UncoreBytes {
            net: net.bytes,
            background: net.background,
            error: net.error_bytes,
            balance: uncore::controller_balance(&during),
            boxes: during.by_box.len() as u32,
            phantom: during.phantom,
        })
    }
}
