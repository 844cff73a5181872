//! Compares two measurements of one host: `cargo run --release --example tools -- machine_compare FIRST.json SECOND.json`.
//!
//! Both files are outputs of `rprof machine --refresh --json`. Ceilings of the core and of its own caches are compared per cycle. The
//! second value should lie inside the first one's interval (docs/ceilings.md). A noisy ceiling promises nothing: the output lists it
//! separately, and gives the share of noisy ones by class. Exit status 1: a value is outside.

use std::process::ExitCode;

use rprof::machine::estimate::class::Class;
use rprof::profile::machine::{Ceiling, How, Machine, Quality};

/// A core's rate per cycle, or its time in cycles; all other ceilings, counts, and ceilings without a clock are unchanged.
fn compared(ceiling: &Ceiling, value: f64) -> f64 {
    match (ceiling.clock_hz, ceiling.unit.as_str()) {
        _ if Class::of(&ceiling.id) == Class::Beyond => value,
        (Some(hz), "s") => value * hz,
        (Some(_), "op" | "byte") | (None, _) => value,
        (Some(hz), _) => value / hz,
    }
}

fn read(path: &str) -> Result<Machine, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{path}: {e}"))
}

/// Result of one class of ceilings.
#[derive(Default)]
struct Tally {
    compared: usize,
    outside: usize,
    noisy: usize,
    apart: Vec<f64>,
}

fn compare(first: &Machine, second: &Machine) -> bool {
    let mut tallies = [Class::Core, Class::Near, Class::Beyond].map(|class| (class, Tally::default()));
    // Aliases and derived ceilings repeat the result of their sources.
    for a in first.ceilings.iter().filter(|a| a.how == How::Measured && !is_alias(first, a)) {
        let Some(b) = second.ceilings.iter().find(|b| b.is_same(a)) else { continue };
        let (Some(x), Some(y)) = (a.value, b.value) else { continue };
        let limit = a.spread.unwrap_or(0.0);
        let apart = compared(b, y) / compared(a, x) - 1.0;
        let is_noisy = [a, b].iter().any(|c| c.quality == Quality::Noisy);
        let is_outside = apart.abs() > limit && !is_noisy;
        let Some((_, tally)) = tallies.iter_mut().find(|(class, _)| *class == Class::of(&a.id)) else { continue };
        tally.compared += 1;
        tally.outside += usize::from(is_outside);
        tally.noisy += usize::from(a.quality == Quality::Noisy);
        tally.apart.push(apart.abs());
        if is_outside || is_noisy {
            let why = a.reason.as_deref().or(b.reason.as_deref()).unwrap_or("");
            let verdict = if is_outside { "OUTSIDE" } else { "noisy" };
            let (apart, limit) = (100.0 * apart, 100.0 * limit);
            println!(
                "{verdict:8} {:32} {:2}  {x:11.4e} {y:11.4e}  {apart:+6.1} % (at most {limit:.1} %)  {why}",
                a.id, a.threads
            );
        }
    }
    let mut outside = 0;
    for (class, mut tally) in tallies {
        tally.apart.sort_unstable_by(f64::total_cmp);
        let at =
            |share: f64| 100.0 * tally.apart.get((share * tally.apart.len() as f64) as usize).copied().unwrap_or(0.0);
        println!(
            "{class:?}: {} compared, {} outside, {} noisy in the first; apart by {:.2} % (median), {:.2} % (19 of 20)",
            tally.compared,
            tally.outside,
            tally.noisy,
            at(0.5),
            at(0.95)
        );
        outside += tally.outside;
    }
    outside == 0
}

/// Whether a ceiling has exactly the value of an earlier one, and so is another name of it.
fn is_alias(machine: &Machine, ceiling: &Ceiling) -> bool {
    let same = |c: &&Ceiling| c.threads == ceiling.threads && c.value == ceiling.value && c.unit == ceiling.unit;
    machine.ceilings.iter().find(same).is_some_and(|c| c.id != ceiling.id)
}

pub fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(2).collect();
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
