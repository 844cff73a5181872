//! Which function and which thread each count of the hardware counters belongs to.
//!
//! Two successive readings of a thread tell what it counted between them; the samples tell which functions it was in at
//! both. If that is the same one, the count is its own; else each gets half, and the half is part of its error. Functions
//! that alternate faster than the readings come out of this with an error as large as their count: they get no figure.

use std::collections::{BTreeMap, HashMap};

use super::address_spaces::AddressSpaces;
use super::code_map::{CodeMap, FunctionId};
use super::modules::Pass;
use crate::profile::evidence::counters::{CounterEvidence, ThreadReading};
use crate::profile::evidence::timed::TimedEvidence;

/// Raw counts of one event in one function or thread.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Share {
    /// Counts.
    pub raw: f64,
    /// The part of them that may belong to a neighbour.
    pub mixed: f64,
    /// Nanoseconds on the PMU.
    pub running_ns: f64,
}

/// Raw counts by event of the evidence.
pub type Shares = BTreeMap<usize, Share>;

/// What belongs to whom.
#[derive(Debug, Default)]
pub struct Attribution {
    /// By function.
    pub functions: HashMap<FunctionId, Shares>,
    /// By thread of the timed evidence.
    pub threads: BTreeMap<u32, Shares>,
}

/// Where a thread stood at its last reading.
#[derive(Debug)]
struct Before {
    values: Vec<u64>,
    running_ns: u64,
    function: Option<FunctionId>,
    thread: Option<u32>,
}

/// Goes through all readings.
pub fn attribute(counters: &CounterEvidence, timed: &TimedEvidence, code: &mut CodeMap) -> Attribution {
    let mut spaces = AddressSpaces::new(&timed.mappings);
    let mut found = Attribution::default();
    let mut before: HashMap<(u32, u32), Before> = HashMap::new();
    for reading in &counters.readings {
        spaces.advance(reading.time_ns);
        let events = &counters.groups[reading.group as usize];
        let key = (reading.tid, reading.group);
        let last = before.entry(key).or_insert_with(|| Before {
            values: vec![0; reading.values.len()],
            running_ns: 0,
            function: None,
            thread: thread_at(timed, reading),
        });
        let now = reading.ip.and_then(|ip| spaces.locate(reading.pid, ip));
        let now = now.and_then(|at| code.place(Pass::Timed, at)).map(|place| code.function(place));
        let running_ns = reading.running_ns.saturating_sub(last.running_ns) as f64;
        for ((event, value), old) in events.iter().zip(&reading.values).zip(&last.values) {
            let raw = value.saturating_sub(*old) as f64;
            let mut book = |function: FunctionId, part: f64, mixed: bool| {
                let share = found.functions.entry(function).or_default().entry(*event).or_default();
                share.raw += raw * part;
                share.mixed += if mixed { raw * part } else { 0.0 };
                share.running_ns += running_ns * part;
            };
            match (last.function, now) {
                (Some(from), Some(to)) if from == to => book(to, 1.0, false),
                (Some(from), Some(to)) => {
                    book(from, 0.5, true);
                    book(to, 0.5, true);
                }
                (Some(only), None) | (None, Some(only)) => book(only, 1.0, true),
                (None, None) => {}
            }
            if let Some(thread) = last.thread {
                let share = found.threads.entry(thread).or_default().entry(*event).or_default();
                share.raw += raw;
                share.running_ns += running_ns;
            }
        }
        last.values.clone_from(&reading.values);
        last.running_ns = reading.running_ns;
        last.function = now.or(last.function);
        if reading.ip.is_none() {
            before.remove(&key);
        }
    }
    found
}

/// The thread of the timed evidence: numbers are used again, so the last one that had begun by then.
fn thread_at(timed: &TimedEvidence, reading: &ThreadReading) -> Option<u32> {
    /// The two sources see a thread's first moment at slightly different times.
    const SLACK_S: f64 = 1e-3;
    let t_s = reading.time_ns.saturating_sub(timed.start_ns) as f64 * 1e-9;
    let known = timed.threads.iter().enumerate().filter(|(_, t)| t.tid == reading.tid);
    let begun = known.filter(|(_, t)| t.start_s <= t_s + SLACK_S);
    begun.max_by(|a, b| a.1.start_s.total_cmp(&b.1.start_s)).map(|(i, _)| i as u32)
}
