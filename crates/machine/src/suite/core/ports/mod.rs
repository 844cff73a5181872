//! `form.NAME.ports`: which forms share execution ports, from how fast pairs of them run.
//!
//! Bits 0 to 7 are ports of the integer units, bits 8 to 15 those of the vector units. The order of the bits means nothing. The bits do not
//! show whether a port of one kind is also one of the other kind.

mod pairs;
mod solver;

use std::time::Instant;

use super::forms::{Form, suffix};
use super::found::{Found, Unit, Value};
use super::rounds::{self, Piece};
use crate::error::MachineError;
use crate::harness::ClockChain;
use crate::host::features::Features;
use rprof_isa::operation::Width;
use solver::{Mix, Rates, Solution, alike};

/// Forms of one micro-operation on general registers.
const INTEGER: [&str; 8] = ["add", "imul", "shift", "lea3", "branch", "bmi", "popcnt", "cmov"];

/// Forms on vectors.
const VECTOR: [&str; 10] = ["fadd", "fmul", "ffma", "vadd", "vlogic", "shuffle", "permute", "fcmp", "cvt", "fdiv"];

/// The first bit of vector ports.
const VECTOR_BIT: u32 = 8;

/// Rounds in which all pairs are timed.
const ROUNDS: usize = 16;

/// Residual error from which on it is reported.
const TOLD: f64 = 0.05;

/// Rate of 256-bit additions, as a share of that of 128-bit ones, from which on they are one micro-operation.
const WHOLE: f64 = 0.75;

/// Forms that are compared with each other, by their names.
struct Group {
    /// `None`: integer forms.
    width: Option<Width>,
    names: Vec<String>,
    mixes: Vec<Mix>,
    /// Index of the first of their pieces.
    first: usize,
}

/// Measures pairs of `forms` (their own rates are in `found`) until `end`.
///
/// # Errors
/// A kernel that cannot be mapped.
pub fn measure(
    clock: &ClockChain,
    features: Features,
    forms: &[Form],
    end: Instant,
    found: &mut Found,
) -> Result<(), MachineError> {
    let mut pieces = Vec::new();
    let narrow = narrow_width(found, features);
    let groups = [None, Some(narrow), Some(Width::W512)].map(|width| emit(width, features, forms, found, &mut pieces));
    let groups = groups.into_iter().collect::<Result<Vec<Group>, _>>()?;
    let timed = rounds::time(clock, pieces, ROUNDS, end);
    let width = found.value("width.dispatch").map_or(f64::INFINITY, |v| v.value);
    let mut narrow_sets: Vec<(String, u32)> = Vec::new();
    for mut group in groups {
        let mut complete = true;
        for (mix, timed) in group.mixes.iter_mut().zip(timed.iter().skip(group.first)) {
            complete &= timed.is_some();
            mix.rate = timed.map_or(0.0, |timed| 1.0 / timed.cycles);
        }
        let alone = |name: &String| found.value(&format!("form.{name}.rate")).map_or(0.0, |v| v.value);
        let rates = Rates { alone: group.names.iter().map(alone).collect(), mixes: group.mixes, width };
        let solution = if complete { rates.solve() } else { None };
        let Some(solution) = solution else {
            note_missing(group.width, complete, found);
            continue;
        };
        let solution = match group.width {
            Some(Width::W512) => named_alike(&group.names, solution, &narrow_sets),
            _ => solution,
        };
        if group.width == Some(narrow) {
            narrow_sets = stems(&group.names).into_iter().zip(solution.sets.iter().copied()).collect();
        }
        note(group.width, &group.names, &solution, found);
        note_absent(group.width, &group.names, found);
    }
    Ok(())
}

/// 256 bits if all forms have them, as one micro-operation; else 128.
fn narrow_width(found: &Found, features: Features) -> Width {
    let rate = |id: &str| found.value(id).map_or(0.0, |v| v.value);
    let is_whole = rate("form.fadd.256.rate") >= WHOLE * rate("form.fadd.128.rate");
    if features.avx2 && is_whole { Width::W256 } else { Width::W128 }
}

/// The names of a group; `None`: of integer forms.
fn all_names(width: Option<Width>) -> Vec<String> {
    match width {
        None => INTEGER.map(String::from).to_vec(),
        Some(width) => VECTOR.iter().map(|stem| format!("{stem}.{}", suffix(width))).collect(),
    }
}

/// Names without their widths.
fn stems(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.split('.').next().unwrap_or(name).to_owned()).collect()
}

/// Emits the pairs of the forms of a group that have a rate.
fn emit(
    width: Option<Width>,
    features: Features,
    forms: &[Form],
    found: &Found,
    pieces: &mut Vec<Piece>,
) -> Result<Group, MachineError> {
    let rate = |name: &str| found.value(&format!("form.{name}.rate")).map(|v| v.value);
    let names = all_names(width);
    let there: Vec<(&Form, f64)> =
        names.iter().filter_map(|name| Some((forms.iter().find(|form| form.name == *name)?, rate(name)?))).collect();
    let (first, mut mixes) = (pieces.len(), Vec::new());
    for (a, (form, alone)) in there.iter().enumerate() {
        for (b, (other, of_other)) in there.iter().enumerate().skip(a + 1) {
            let counts = pairs::proportion(*alone, *of_other);
            let Some(kernel) = pairs::mixed([form, other], counts, features)? else { continue };
            pieces.push(Piece::new(kernel)?);
            mixes.push(Mix { classes: [a, b], counts, rate: 0.0 });
        }
    }
    let names = there.iter().map(|(form, _)| form.name.clone()).collect();
    Ok(Group { width, names, mixes, first })
}

/// The solution with its ports renamed like those of the same forms at the other width.
fn named_alike(names: &[String], solution: Solution, others: &[(String, u32)]) -> Solution {
    let model = |stem: &String| others.iter().find(|(other, _)| other == stem).map_or(0, |(_, set)| *set);
    let model: Vec<u32> = stems(names).iter().map(model).collect();
    Solution { sets: alike(&solution.sets, &model), ..solution }
}

/// The ids of a form's ports; at the narrow width, for all narrow widths, since they use the same ports.
fn ids(width: Option<Width>, name: &str) -> Vec<String> {
    let stem = name.split('.').next().unwrap_or(name);
    match width {
        None | Some(Width::W512) => vec![format!("form.{name}.ports")],
        Some(_) => ["s", "128", "256"].map(|width| format!("form.{stem}.{width}.ports")).to_vec(),
    }
}

fn note(width: Option<Width>, names: &[String], solution: &Solution, found: &mut Found) {
    for ((name, set), error) in names.iter().zip(&solution.sets).zip(&solution.errors) {
        let Some(rate) = found.value(&format!("form.{name}.rate")) else { continue };
        let bits = if width.is_some() { set << VECTOR_BIT } else { *set };
        for id in ids(width, name) {
            if found.value(&id.replace(".ports", ".rate")).is_none() {
                continue;
            }
            let off = if *error > TOLD { format!("; a pair is off by {:.0} %", 100.0 * error) } else { String::new() };
            let how = format!("ports that explain how fast pairs with {name} run{off}");
            let value = Value { value: f64::from(bits), spread: *error, ..rate };
            found.derived(id, Unit::Count, value, how);
        }
    }
}

/// Notes the forms that were not compared with others.
fn note_absent(width: Option<Width>, names: &[String], found: &mut Found) {
    for name in all_names(width).iter().filter(|name| !names.contains(name)) {
        found.missing(format!("form.{name}.ports"), Unit::Count, "its rate is not known");
    }
}

fn note_missing(width: Option<Width>, complete: bool, found: &mut Found) {
    for id in all_names(width).iter().flat_map(|name| ids(width, name)) {
        if complete {
            found.missing(id, Unit::Count, "this CPU has no such instructions");
        } else {
            found.no_time(id, Unit::Count);
        }
    }
}
