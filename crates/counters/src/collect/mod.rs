//! Counting while a program runs: groups on every CPU, inherited by every thread, read at samples and at each thread's end.
//!
//! ```text
//!  plan ─▶ open (clock + events, every CPU) ─▶ program runs ─▶ rings ─▶ records ─▶ log ─┐
//!             │ no readings of inherited events here (Linux before 6.12)               ├─▶ CounterEvidence
//!             └▶ sums alone: one inherited event each ───────────────▶ totals ─────────┘
//! ```

pub mod descriptors;
pub mod kernel;
pub mod log;
pub mod open;
pub mod plan;
pub mod record;
mod sums;
#[cfg(test)]
mod tests;
mod totals;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rprof_profile::evidence::counters::{CounterEvent, CounterEvidence};
use rprof_profile::run::Warning;

use super::refusal::Refusal;
use descriptors::Descriptors;
use kernel::{GroupKernel, Ring};
use log::Log;
use open::{NoReadings, Opened};
use plan::Plan;
use sums::Sums;

/// How often the buffers are emptied.
const ROUND: Duration = Duration::from_millis(50);

/// How to count.
#[derive(Debug, Clone, Copy)]
pub struct CollectOptions {
    /// Readings per second of each thread's CPU time.
    pub frequency_hz: f64,
    /// CPUs that the host may have.
    pub cpus: u32,
    /// Do without the readings of threads, as on kernels that do not have them.
    pub sums_alone: bool,
}

/// Counters armed on a program that has not started yet, or counting it.
pub struct Collector<K: GroupKernel> {
    kernel: K,
    plan: Plan,
    child: u32,
    what: Counting<K>,
    /// Held as long as events are open.
    _descriptors: Option<Descriptors>,
}

enum Counting<K: GroupKernel> {
    Readings {
        opened: Opened<K>,
        drain: Drain,
    },
    Sums(Sums<K>),
    /// Nothing, for this reason.
    Nothing(Refusal),
}

/// The thread that empties the buffers.
struct Drain {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Log>>,
}

impl<K> Collector<K>
where
    K: GroupKernel,
    K::Ring: Send + 'static,
{
    /// Arms the plan's events on `child`, to start when it executes a program. Nothing here fails: [`finish`](Self::finish)
    /// reports the refusals.
    pub fn arm(kernel: K, plan: Plan, child: i32, options: CollectOptions) -> Collector<K> {
        let descriptors = Descriptors::room_for(plan.descriptors(options.cpus));
        let what = match &descriptors {
            Err(refusal) => Counting::Nothing(refusal.clone()),
            Ok(_) => readings(&kernel, &plan, child, options)
                .unwrap_or_else(|_| Counting::Sums(Sums::arm(&kernel, &plan, child))),
        };
        Collector { kernel, plan, child: child as u32, what, _descriptors: descriptors.ok() }
    }

    /// The counts, after the program has ended.
    pub fn finish(self) -> CounterEvidence {
        let mut events: Vec<CounterEvent> = self.plan.wanted.iter().map(plan::Wanted::uncounted).collect();
        let missing = self.plan.missing;
        match self.what {
            Counting::Nothing(refusal) => {
                for (event, wanted) in events.iter_mut().zip(&self.plan.wanted) {
                    event.total = Err(wanted.refusal.as_ref().unwrap_or(&refusal).to_string());
                }
                events.extend(missing);
                CounterEvidence { events, ..CounterEvidence::default() }
            }
            Counting::Sums(sums) => {
                sums.finish(&self.kernel, &mut events);
                events.extend(missing);
                CounterEvidence { events, ..CounterEvidence::default() }
            }
            Counting::Readings { opened, drain } => {
                let mut evidence = with_readings(&self.kernel, &opened, drain, self.child, events);
                evidence.events.extend(missing);
                evidence
            }
        }
    }
}

fn readings<K>(kernel: &K, plan: &Plan, child: i32, options: CollectOptions) -> io::Result<Counting<K>>
where
    K: GroupKernel,
    K::Ring: Send + 'static,
{
    if options.sums_alone {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let opened = open::open(kernel, plan, child, options.cpus, options.frequency_hz);
    let mut opened = opened.map_err(|NoReadings(e)| e)?;
    let log = Log::new(opened.slots(kernel)?);
    let groups = opened.groups.iter_mut().flat_map(|g| &mut g.on_cpus);
    let rings: Vec<K::Ring> = groups.filter_map(|g| g.ring.take()).collect();
    Ok(Counting::Readings { opened, drain: Drain::start(rings, log)? })
}

fn with_readings<K: GroupKernel>(
    kernel: &K,
    opened: &Opened<K>,
    drain: Drain,
    child: u32,
    mut events: Vec<CounterEvent>,
) -> CounterEvidence {
    for (index, refusal) in &opened.refused {
        events[*index].total = Err(refusal.to_string());
    }
    let members: Vec<usize> = opened.groups.iter().map(|g| g.members.len()).collect();
    let mut warnings = Vec::new();
    let mut readings = match drain.stop() {
        Some(log) => {
            warnings.extend(lost(log.lost));
            log.into_readings(&members)
        }
        None => Vec::new(),
    };
    for (number, group) in opened.groups.iter().enumerate() {
        let sums = totals::read(kernel, group).and_then(|t| Ok((t, totals::reference_time(kernel, group)?)));
        match sums {
            Err(refusal) => {
                group.members.iter().for_each(|m| events[*m].total = Err(refusal.to_string()));
                readings.retain(|r| r.group != number as u32);
            }
            Ok((total, reference_ns)) => {
                totals::end_of_first(&mut readings, number as u32, &total, child);
                let totals = totals::totals(&readings, number as u32, &total, reference_ns);
                for (member, total) in group.members.iter().zip(totals) {
                    events[*member].total = total.map_err(|r: Refusal| r.to_string());
                }
            }
        }
    }
    let groups = opened.groups.iter().map(|g| g.members.clone()).collect();
    CounterEvidence { events, groups, readings, uncore: Vec::new(), warnings }
}

fn lost(records: u64) -> Option<Warning> {
    (records > 0).then(|| {
        Warning::new(
            "counter-records-lost",
            format!("the kernel lost {records} readings of the counters"),
            "sums over the program are complete; counts of functions and threads near the lost readings are less precise",
            "allow larger buffers (kernel.perf_event_mlock_kb)",
        )
    })
}

impl Drain {
    fn start<R: Ring + Send + 'static>(mut rings: Vec<R>, mut log: Log) -> io::Result<Drain> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || {
            loop {
                let last = stopped.load(Ordering::Acquire);
                for ring in &mut rings {
                    ring.drain(|bytes| record::parse(bytes).into_iter().for_each(|r| log.add(r)));
                }
                if last {
                    return log;
                }
                std::thread::park_timeout(ROUND);
            }
        };
        let thread = std::thread::Builder::new().name("counters".into()).spawn(body)?;
        Ok(Drain { stop, thread: Some(thread) })
    }

    /// Empties the buffers a last time. `None` if the thread died.
    fn stop(mut self) -> Option<Log> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}
