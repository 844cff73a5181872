//! Compares two measurements of one host: `cargo run --release --example machine_compare -- FIRST.json SECOND.json`.
//!
//! Both are what `rprof machine --refresh --json` prints. What the core does is compared per cycle (1 %; a latency that is the
//! difference of chains, and a mispredicted branch, by its interval), and so are its own caches, code from L1I and L2 included (3 %). Beyond
//! them, and for page faults, sizes and numbers of operations, the second value should lie inside the first's interval (of
//! bandwidths and latencies at most 10 %). An unsettled ceiling promises nothing: it is listed apart. What depends on where the CPUs are is compared with the second's
//! value in the first's placement, if it met that. Exit status 1: a value is outside.

use std::process::ExitCode;

use rprof::profile::clock;
use rprof::profile::placement::depends;
use rprof::profile::{Ceiling, Machine};

/// What two values of a ceiling may differ by.
enum Allowed {
    PerCycle(f64),
    /// The first one's interval.
    Interval(f64),
}

fn allowed(first: &Ceiling) -> Allowed {
    let id = clock::of_all_cpus(&first.id);
    let begins = |prefixes: &[&str]| prefixes.iter().any(|p| id.starts_with(p));
    if id == "mispredict" {
        Allowed::PerCycle(first.spread.unwrap_or(0.0))
    } else if begins(&["l3.", "dram.", "lat.l3", "lat.dram", "pagefault", "tlb.reach", "chains.", "overlap."]) {
        Allowed::Interval(first.spread.unwrap_or(0.0))
    } else if begins(&["l1.", "l2.", "lat.l1", "lat.l2"]) || [".l1i", ".l2"].iter().any(|code| first.id.ends_with(code))
    {
        Allowed::PerCycle(0.03)
    } else if first.how == "derived" && begins(&["lat."]) {
        // A difference of chains that are several times as long.
        Allowed::PerCycle(first.spread.unwrap_or(0.0).max(0.01))
    } else {
        Allowed::PerCycle(0.01)
    }
}

/// A rate per cycle, or a time in cycles; counts and what has no clock stay as they are.
fn per_cycle(ceiling: &Ceiling, value: f64) -> f64 {
    match (ceiling.clock_hz, ceiling.unit.as_str()) {
        (Some(hz), "s") => value * hz,
        (Some(_), "op" | "byte") | (None, _) => value,
        (Some(hz), _) => value / hz,
    }
}

fn read(path: &str) -> Result<Machine, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{path}: {e}"))
}

fn compare(first: &Machine, second: &Machine) -> bool {
    let (mut compared, mut outside, mut unsettled) = (0, 0, 0);
    let mut elsewhere = 0;
    for a in &first.ceilings {
        let same = |b: &&Ceiling| b.is_same(a);
        let b = match first.core_to_core.as_ref().filter(|_| depends(a)) {
            Some(here) => {
                let there = second.ceilings_at(here);
                elsewhere += usize::from(there.is_none());
                there.and_then(|there| there.iter().find(same))
            }
            None => second.ceilings.iter().find(same),
        };
        let Some(b) = b else { continue };
        let (Some(x), Some(y)) = (a.value, b.value) else { continue };
        // Another name of a ceiling repeats what was said of it.
        if a.reason.as_deref().is_some_and(|r| r.starts_with("is ")) {
            continue;
        }
        compared += 1;
        let (limit, apart) = match allowed(a) {
            Allowed::PerCycle(limit) => (limit, per_cycle(b, y) / per_cycle(a, x) - 1.0),
            Allowed::Interval(limit) => (limit, y / x - 1.0),
        };
        let doubted = !a.settled || !b.settled;
        let is_outside = apart.abs() > limit && !doubted;
        outside += usize::from(is_outside);
        unsettled += usize::from(doubted);
        if is_outside || doubted {
            let why = a.reason.as_deref().or(b.reason.as_deref()).unwrap_or("");
            let verdict = if is_outside { "OUTSIDE" } else { "unsettled" };
            println!(
                "{verdict:9} {:32} {:2}  {x:11.4e} {y:11.4e}  {:+6.1} % (at most {:.1} %)  {why}",
                a.id,
                a.threads,
                100.0 * apart,
                100.0 * limit
            );
        }
    }
    if elsewhere > 0 {
        println!("{elsewhere} ceilings depend on where the CPUs are, and the second never met the first's placement");
    }
    println!("{compared} ceilings measured twice: {outside} outside, {unsettled} unsettled in one or both");
    outside == 0
}

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [first, second] = paths.as_slice() else {
        eprintln!("usage: machine_compare FIRST.json SECOND.json");
        return ExitCode::from(2);
    };
    match (read(first), read(second)) {
        (Ok(first), Ok(second)) => ExitCode::from(u8::from(!compare(&first, &second))),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("machine_compare: {error}");
            ExitCode::from(125)
        }
    }
}
