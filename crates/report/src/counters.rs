//! Hardware counters as text: beside the counted figures, with their source, their error, and the reason if there is none.

use std::collections::BTreeMap;

use rprof_profile::Profile;
use rprof_profile::counters::Counter;
use rprof_profile::function::Function;

use super::number::{NOT_MEASURED, percent, si, significant};

/// Counters of one function that are shown at most.
const OF_FUNCTION: usize = 4;

/// The program's counters, a line each; those that were not measured share a line with their reason.
pub fn of_program(profile: &Profile) -> Vec<String> {
    let counters = &profile.run.counters;
    let mut lines: Vec<String> = Vec::new();
    for counter in counters.iter().filter(|c| c.value.is_some()) {
        let mut line = format!("  {}", one(counter));
        if let Some(trust) = counter.trust.as_deref().filter(|t| *t != "trusted") {
            line += &format!("; {trust}");
        }
        if let Some(note) = &counter.source.reason {
            line += &format!("; {note}");
        }
        if let Some(share) = counter.unattributed.filter(|s| *s > 0.005) {
            line += &format!("; {} in threads that ended before a reading", percent(share));
        }
        if let Some(cycles) = waited(counter, counters) {
            line += &format!("; a read waited {} controller cycles", significant(cycles));
        }
        if let Some(balance) = counter.balance {
            line += &format!("; the controllers' mean is {} of the busiest", percent(balance));
        }
        lines.push(line);
    }
    let missing = missing(counters);
    if lines.is_empty() {
        return match common(&missing) {
            Some(reason) => vec![format!("hardware counters: {NOT_MEASURED}, because {reason}")],
            None if missing.is_empty() => Vec::new(),
            None => std::iter::once("hardware counters:".to_owned()).chain(told(&missing)).collect(),
        };
    }
    std::iter::once("hardware counters:".to_owned()).chain(lines).chain(told(&missing)).collect()
}

/// Controller cycles that a read of 64 bytes was in the queue: entries summed over cycles / reads (Little).
fn waited(counter: &Counter, all: &[Counter]) -> Option<f64> {
    const LINE: f64 = 64.0;
    let is_reads = |c: &&Counter| c.role == "dram_read_lines" && c.pmu == counter.pmu && c.unit == "byte";
    let reads = all.iter().filter(is_reads).find_map(|c| c.value).filter(|bytes| *bytes > 0.0)?;
    counter.value.filter(|_| counter.role == "queue_occupancy" && counter.unit == "count").map(|n| n * LINE / reads)
}

/// A function's counters on one line; `None` if it has none.
pub fn of_function(function: &Function) -> Option<String> {
    let known = function.counters.iter().filter(|c| c.value.is_some()).take(OF_FUNCTION);
    let told: Vec<String> = known.map(one).collect();
    let unknown = function.counters.iter().find(|c| c.value.is_none()).and_then(|c| c.source.reason.clone());
    match (told.is_empty(), unknown) {
        (false, _) => Some(format!("hardware counters: {}", told.join(", "))),
        (true, Some(reason)) => Some(format!("hardware counters: {NOT_MEASURED}, because {reason}")),
        (true, None) => None,
    }
}

/// `flops 1.00 GFLOP (pmu ± 0.4 %; the counted pass has 1.00 GFLOP, ratio 1.0000)`
fn one(counter: &Counter) -> String {
    let value = counter.value.map(|v| si(v, unit(counter))).unwrap_or_default();
    let error = counter.source.error.map_or(String::new(), |e| format!(" ± {}", percent(e)));
    let counted = counter.counted.zip(counter.ratio);
    let beside = counted.map_or(String::new(), |(counted, ratio)| {
        format!("; the counted pass has {}, ratio {ratio:.4}", si(counted, unit(counter)))
    });
    format!("{} {value} ({}{error}{beside})", counter.event, counter.source.how)
}

fn unit(counter: &Counter) -> &str {
    match counter.unit.as_str() {
        "flop" => "FLOP",
        "byte" => "B",
        _ => "",
    }
}

/// The one reason of all; PMUs that are not there are named together.
fn common(missing: &BTreeMap<&str, Vec<&str>>) -> Option<String> {
    const NO_PMU: &str = "the kernel lists no PMU ";
    if missing.len() == 1 {
        return missing.keys().next().map(|reason| (*reason).to_owned());
    }
    let absent: Option<Vec<&str>> = missing.keys().map(|reason| reason.strip_prefix(NO_PMU)).collect();
    absent.filter(|pmus| !pmus.is_empty()).map(|pmus| format!("{NO_PMU}{}", pmus.join(", ")))
}

/// Events without a count, by reason.
fn missing(counters: &[Counter]) -> BTreeMap<&str, Vec<&str>> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for counter in counters.iter().filter(|c| c.value.is_none()) {
        let reason = counter.source.reason.as_deref().unwrap_or("the reason is not known");
        by_reason.entry(reason).or_default().push(&counter.event);
    }
    by_reason
}

fn told<'a>(missing: &'a BTreeMap<&str, Vec<&str>>) -> impl Iterator<Item = String> + 'a {
    missing.iter().map(|(reason, events)| format!("  {NOT_MEASURED}: {}, because {reason}", events.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;
    use rprof_profile::function::Source;

    fn counter(event: &str, value: Option<f64>, how: &str, reason: Option<&str>) -> Counter {
        let source = Source { how: how.into(), error: None, reason: reason.map(str::to_owned) };
        Counter { event: event.into(), role: event.into(), unit: "flop".into(), value, source, ..Counter::default() }
    }

    #[test]
    fn one_reason_for_all_is_one_line() {
        let mut profile = sample::profile();
        assert!(of_program(&profile).is_empty(), "a profile without counters says nothing of them");
        let none = |e| counter(e, None, "not measured", Some("the kernel lists no PMU cpu"));
        profile.run.counters = vec![none("flops"), none("l2_lines_in")];
        assert_eq!(of_program(&profile), ["hardware counters: not measured, because the kernel lists no PMU cpu"]);
        profile.run.counters.push(counter("umc", None, "not measured", Some("the kernel lists no PMU amd_umc")));
        assert_eq!(
            of_program(&profile),
            ["hardware counters: not measured, because the kernel lists no PMU amd_umc, cpu"]
        );
    }

    #[test]
    fn counts_stand_beside_the_counted_pass_with_source_and_error() {
        let mut profile = sample::profile();
        let mut flops = counter("flops", Some(2e9), "pmu, scaled", None);
        flops.source.error = Some(0.02);
        (flops.counted, flops.ratio) = (Some(1e9), Some(2.0));
        profile.run.counters = vec![flops, counter("misses", None, "not measured", Some("no counter is free"))];
        let text = of_program(&profile).join("\n");
        assert!(text.contains("flops 2.00 GFLOP (pmu, scaled ± 2.0 %; the counted pass has 1.00 GFLOP, ratio 2.0000)"));
        assert!(text.contains("not measured: misses, because no counter is free"), "{text}");
        let uncore = |event, role: &str, unit: &str, value| Counter {
            role: role.into(),
            unit: unit.into(),
            pmu: Some("uncore_imc".into()),
            ..counter(event, Some(value), "uncore, background subtracted", None)
        };
        profile.run.counters =
            vec![uncore("cas", "dram_read_lines", "byte", 6400.0), uncore("rpq", "queue_occupancy", "count", 2500.0)];
        assert!(of_program(&profile).join("\n").contains("a read waited 25.0 controller cycles"));
    }
}
