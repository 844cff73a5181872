//! Divides the counts of hardware counters among functions and threads.
//!
//! Two successive readings of a thread give its counts between them; the samples show the thread's functions at both. If both are the same
//! function, the count belongs to it. Otherwise the two share the count in proportion to the rates of their own counts, and their part is
//! included in their error. Functions that alternate faster than the readings are never met at both ends: they have no figure.

use std::collections::{BTreeMap, HashMap};

use super::address_spaces::AddressSpaces;
use super::code_map::{CodeMap, FunctionId};
use super::modules::Pass;
use rprof_profile::evidence::counters::{CounterEvidence, ThreadReading};
use rprof_profile::evidence::timed::TimedEvidence;

/// Raw counts of one event in one function or thread.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Share {
    /// Counts.
    pub raw: f64,
    /// The part of them that may belong to another function.
    pub mixed: f64,
    /// Nanoseconds on the PMU.
    pub running_ns: f64,
    /// The part of them in which another function was at work, too.
    pub mixed_ns: f64,
}

/// Raw counts by event of the evidence.
pub type Shares = BTreeMap<usize, Share>;

/// The shares of functions and threads.
#[derive(Debug, Default)]
pub struct Attribution {
    /// By function.
    pub functions: HashMap<FunctionId, Shares>,
    /// By thread of the timed evidence.
    pub threads: BTreeMap<u32, Shares>,
}

/// The state of a thread at its last reading.
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
    let mut shared: HashMap<(FunctionId, FunctionId, usize), Share> = HashMap::new();
    for reading in &counters.readings {
        spaces.advance(reading.time_ns);
        let Some(events) = counters.groups.get(reading.group as usize) else { continue };
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
            match (last.function, now) {
                (Some(from), Some(to)) if from == to => {
                    let share = found.functions.entry(to).or_default().entry(*event).or_default();
                    share.raw += raw;
                    share.running_ns += running_ns;
                }
                (Some(from), Some(to)) => {
                    let between = shared.entry((from, to, *event)).or_default();
                    between.raw += raw;
                    between.running_ns += running_ns;
                }
                (Some(only), None) | (None, Some(only)) => found.book_mixed(only, *event, raw, running_ns),
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
    found.divide(&shared);
    found
}

impl Attribution {
    /// Divides shared counts between two functions by the rates of their own counts; evenly if no rate is known.
    fn divide(&mut self, shared: &HashMap<(FunctionId, FunctionId, usize), Share>) {
        let own = |function: FunctionId, event: usize| {
            let share = self.functions.get(&function)?.get(&event).filter(|s| s.running_ns > s.mixed_ns)?;
            Some((share.raw - share.mixed) / (share.running_ns - share.mixed_ns))
        };
        let parts: Vec<_> = shared
            .iter()
            .map(|((from, to, event), between)| {
                let part = match (own(*from, *event), own(*to, *event)) {
                    (Some(a), Some(b)) if a + b > 0.0 => a / (a + b),
                    _ => 0.5,
                };
                (*from, *to, *event, *between, part)
            })
            .collect();
        for (from, to, event, between, part) in parts {
            let half_ns = 0.5 * between.running_ns;
            self.book_mixed(from, event, between.raw * part, half_ns);
            self.book_mixed(to, event, between.raw * (1.0 - part), half_ns);
        }
    }

    fn book_mixed(&mut self, function: FunctionId, event: usize, raw: f64, running_ns: f64) {
        let share = self.functions.entry(function).or_default().entry(event).or_default();
        share.raw += raw;
        share.mixed += raw;
        share.running_ns += running_ns;
        share.mixed_ns += running_ns;
    }
}

/// The thread of the timed evidence: thread ids are reused, so it is the last one that had begun by then.
fn thread_at(timed: &TimedEvidence, reading: &ThreadReading) -> Option<u32> {
    /// The two sources see a thread's first moment at slightly different times.
    const SLACK_S: f64 = 1e-3;
    let t_s = reading.time_ns.saturating_sub(timed.start_ns) as f64 * 1e-9;
    let known = timed.threads.iter().enumerate().filter(|(_, t)| t.tid == reading.tid);
    let begun = known.filter(|(_, t)| t.start_s <= t_s + SLACK_S);
    begun.max_by(|a, b| a.1.start_s.total_cmp(&b.1.start_s)).map(|(i, _)| i as u32)
}
