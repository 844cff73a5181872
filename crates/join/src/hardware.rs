//! Hardware counters of the program and of its functions, beside the counted figures.

use std::collections::HashMap;

use super::attribution::{Attribution, Share, attribute};
use super::code_map::{CodeMap, FunctionId};
use rprof_profile::counters::{Counter, ThreadCount};
use rprof_profile::evidence::counters::{CounterEvent, CounterEvidence, CounterTotal, UncoreCount};
use rprof_profile::evidence::timed::TimedEvidence;
use rprof_profile::function::Source;

/// Above this share of time in which another function may have counted, a function has no figure; nor does any figure use a count with a
/// greater relative error.
pub const UNCERTAIN: f64 = 0.5;
/// Turns of a shared counter take about this long.
const MUX_WINDOW_NS: f64 = 4e6;
/// The sum of the events that make the FLOPs.
pub const FLOPS: &str = "flops";
pub const MISSES: &str = "llc_miss";
const QUEUE: &str = "queue_occupancy";

/// The counters of a run, divided among functions.
pub struct Hardware<'e> {
    evidence: &'e CounterEvidence,
    attribution: Attribution,
}

impl<'e> Hardware<'e> {
    /// Attributes every count.
    pub fn new(evidence: &'e CounterEvidence, timed: &TimedEvidence, code: &mut CodeMap) -> Self {
        Hardware { evidence, attribution: attribute(evidence, timed, code) }
    }

    /// Functions that some count belongs to.
    pub fn functions(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.attribution.functions.keys().copied()
    }

    /// The program's counters. `counted` is its FLOPs by the counted pass.
    pub fn of_program(&self, counted: Option<f64>) -> Vec<Counter> {
        let mut counters: Vec<Counter> = Vec::new();
        for (index, event) in self.evidence.events.iter().enumerate() {
            counters.push(self.event_of_program(index, event));
        }
        if let Some(mut flops) = sum_of_flops(&counters) {
            if flops.value.is_some() {
                flops.source.reason = self.caveats();
            }
            if let Some(left_out) = flops.value.and_then(|_| self.evidence.flops_left_out()) {
                (flops.value, flops.source) = (None, Source::not_measured(left_out));
            }
            set_beside(&mut flops, counted);
            counters.insert(0, flops);
        }
        counters.extend(self.evidence.uncore.iter().map(uncore_of_program));
        counters
    }

    /// One function's counters: `time_share` is its share of the program's CPU time, `counted` its FLOPs by the counted pass. Events that
    /// were not measured at all are listed for the program only.
    pub fn of_function(&self, id: FunctionId, time_share: Option<f64>, counted: Option<f64>) -> Vec<Counter> {
        let mut counters: Vec<Counter> = Vec::new();
        for (index, event) in self.evidence.events.iter().enumerate() {
            let figure = self.figure(id, index, time_share);
            counters.extend(figure.map(|(value, source)| Counter {
                event: event.name.clone(),
                role: event.role.clone(),
                unit: event.unit.clone(),
                value,
                source,
                ..Counter::default()
            }));
        }
        let counted_all = self.evidence.events.iter().all(|e| e.role != FLOPS || e.total.is_ok());
        let complete = counted_all && self.evidence.flops_left_out().is_none();
        if let Some(mut flops) = sum_of_flops(&counters).filter(|_| complete) {
            set_beside(&mut flops, counted);
            counters.insert(0, flops);
        }
        counters.extend(self.evidence.uncore.iter().filter_map(|u| self.uncore_of(u, id, time_share)));
        counters
    }

    /// The count of event `index` in a function, weighted; `None` if it was not counted at all or never in this function.
    pub fn figure(&self, id: FunctionId, index: usize, time_share: Option<f64>) -> Option<(Option<f64>, Source)> {
        let event = self.evidence.events.get(index)?;
        let total = event.total.as_ref().ok()?;
        let (value, source) = match self.evidence.groups.is_empty() {
            true => by_time(total, time_share),
            false => self.by_readings(id, index, total),
        }?;
        Some((value.map(|v| v * event.weight), source))
    }

    /// How the FLOPs counted differ from those of docs/conventions.md, over all events.
    pub fn caveats(&self) -> Option<String> {
        let mut parts: Vec<&str> = Vec::new();
        for part in self
            .evidence
            .events
            .iter()
            .filter(|e| e.role == FLOPS)
            .filter_map(|e| e.caveat.as_deref())
            .flat_map(|c| c.split(", "))
        {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The evidence that it is based on.
    pub fn evidence(&self) -> &'e CounterEvidence {
        self.evidence
    }

    fn event_of_program(&self, index: usize, event: &CounterEvent) -> Counter {
        let attributed: f64 = self.attribution.functions.values().filter_map(|s| s.get(&index)).map(|s| s.raw).sum();
        let total = event.total.as_ref().ok();
        let scale = total.map_or(0.0, |t| scale(t) * event.weight);
        let threads = self.attribution.threads.iter().filter_map(|(t, shares)| Some((*t, shares.get(&index)?)));
        Counter {
            event: event.name.clone(),
            role: event.role.clone(),
            unit: event.unit.clone(),
            value: total.map(|t| t.value * event.weight),
            source: match &event.total {
                Ok(total) => measured(total, None),
                Err(reason) => Source::not_measured(reason),
            },
            pmu: (!event.pmu.is_empty()).then(|| event.pmu.clone()),
            raw: total.map(|t| t.raw),
            running_share: total.map(|t| t.running_share),
            trust: Some(event.trust.clone()),
            certified: event.certified,
            unattributed: total
                .filter(|t| t.raw > 0 && !self.evidence.groups.is_empty())
                .map(|t| (1.0 - attributed / t.raw as f64).max(0.0)),
            per_thread: threads.map(|(thread, s)| ThreadCount { thread, value: s.raw * scale }).collect(),
            ..Counter::default()
        }
    }

    fn by_readings(&self, id: FunctionId, index: usize, total: &CounterTotal) -> Option<(Option<f64>, Source)> {
        let share = self.attribution.functions.get(&id)?.get(&index)?;
        let Share { raw, mixed, running_ns, mixed_ns } = *share;
        if mixed_ns > UNCERTAIN * running_ns {
            let reason = "it ran too briefly between the readings of the counters: try a higher rate (-F)";
            return Some((None, Source::not_measured(reason)));
        }
        let neighbours = if raw > 0.0 { mixed / raw } else { 0.0 };
        let scaling = (1.0 - total.running_share) / (running_ns / MUX_WINDOW_NS).max(1.0).sqrt();
        Some((Some(raw * scale(total)), measured(total, Some(neighbours.hypot(scaling)))))
    }

    /// A function's share of the misses of the last cache, over the PMUs of all kinds of cores; if a PMU has several events, the first one
    /// counts. `None` if one PMU has no count of them, or none has any.
    fn share_of_misses(&self, id: FunctionId) -> Option<f64> {
        let (mut own, mut all) = (0.0, 0.0);
        let mut pmus: Vec<&str> = Vec::new();
        let events = || self.evidence.events.iter().enumerate().filter(|(_, e)| e.role == MISSES);
        for (index, event) in events() {
            let Ok(total) = &event.total else { continue };
            if pmus.contains(&event.pmu.as_str()) {
                continue;
            }
            pmus.push(&event.pmu);
            let share = self.attribution.functions.get(&id).and_then(|s| s.get(&index));
            own += share.map_or(0.0, |s| s.raw) * scale(total) * event.weight;
            all += total.value * event.weight;
        }
        let complete = events().all(|(_, e)| pmus.contains(&e.pmu.as_str()));
        (complete && all > 0.0).then(|| own / all)
    }

    /// Bytes at the controllers have no function: they are divided in proportion to the functions' misses of the last cache, otherwise to
    /// their time.
    pub fn uncore_of(&self, uncore: &UncoreCount, id: FunctionId, time_share: Option<f64>) -> Option<Counter> {
        let bytes = uncore.bytes.as_ref().ok().filter(|_| unit_of(uncore) == "byte")?;
        let (share, how) = match self.share_of_misses(id) {
            Some(share) => (share, "uncore, split by last-level misses"),
            None => (time_share?, "uncore, split by time"),
        };
        let error = (bytes.net > 0.0).then_some(bytes.error / bytes.net);
        Some(Counter {
            event: uncore.name.clone(),
            role: uncore.role.clone(),
            unit: "byte".into(),
            value: Some(bytes.net * share),
            source: Source { how: how.into(), error, reason: None },
            ..Counter::default()
        })
    }
}

/// Queues count entries and belong to no function.
fn unit_of(uncore: &UncoreCount) -> &'static str {
    if uncore.role == QUEUE { "count" } else { "byte" }
}

fn uncore_of_program(uncore: &UncoreCount) -> Counter {
    let bytes = uncore.bytes.as_ref().ok();
    let source = match &uncore.bytes {
        Ok(bytes) => {
            let error = (bytes.net > 0.0).then_some(bytes.error / bytes.net);
            let phantom = (!bytes.phantom.is_empty()).then(|| format!("left out: {}", bytes.phantom.join(", ")));
            Source { how: "uncore, background subtracted".into(), error, reason: phantom }
        }
        Err(reason) => Source::not_measured(reason),
    };
    Counter {
        event: uncore.name.clone(),
        role: uncore.role.clone(),
        unit: unit_of(uncore).into(),
        value: bytes.map(|b| b.net),
        source,
        pmu: Some(uncore.pmu.clone()),
        trust: Some(uncore.trust.clone()),
        certified: uncore.certified,
        background: bytes.map(|b| b.background),
        balance: bytes.and_then(|b| b.balance),
        ..Counter::default()
    }
}

fn by_time(total: &CounterTotal, time_share: Option<f64>) -> Option<(Option<f64>, Source)> {
    let source = Source { how: "pmu, split by time".into(), error: None, reason: None };
    time_share.map(|share| (Some(total.value * share), source))
}

/// The factor from raw counts to scaled ones.
fn scale(total: &CounterTotal) -> f64 {
    if total.raw > 0 { total.value / total.raw as f64 } else { 1.0 }
}

fn measured(total: &CounterTotal, error: Option<f64>) -> Source {
    let how = if total.running_share < 1.0 { "pmu, scaled" } else { "pmu" };
    let error = error.unwrap_or(total.error);
    Source { how: how.into(), error: (error > 0.0).then_some(error), reason: None }
}

/// The sum of the FLOP events' counts, or why one of them is missing; `None` without such events.
fn sum_of_flops(counters: &[Counter]) -> Option<Counter> {
    let parts: Vec<&Counter> = counters.iter().filter(|c| c.role == FLOPS).collect();
    let first = parts.first()?;
    let mut sum = Counter { event: FLOPS.into(), role: FLOPS.into(), unit: first.unit.clone(), ..Counter::default() };
    if let Some(missing) = parts.iter().find(|c| c.value.is_none()) {
        sum.source = missing.source.clone();
        return Some(sum);
    }
    let value: f64 = parts.iter().filter_map(|c| c.value).sum();
    let absolute = parts.iter().filter_map(|c| Some(c.value? * c.source.error?)).fold(0.0, f64::hypot);
    let scaled = parts.iter().find(|c| c.source.how != "pmu");
    sum.source = Source {
        how: scaled.unwrap_or(first).source.how.clone(),
        error: (value > 0.0 && absolute > 0.0).then(|| absolute / value),
        reason: None,
    };
    sum.value = Some(value);
    Some(sum)
}

fn set_beside(counter: &mut Counter, counted: Option<f64>) {
    counter.counted = counted;
    counter.ratio = counter.value.zip(counted).filter(|(_, c)| *c > 0.0).map(|(v, c)| v / c);
}

/// The shares of CPU time of functions, for events known by their sum alone.
pub fn time_shares(seconds: &HashMap<FunctionId, f64>) -> HashMap<FunctionId, f64> {
    let total: f64 = seconds.values().sum();
    seconds.iter().filter(|_| total > 0.0).map(|(id, s)| (*id, s / total)).collect()
}
