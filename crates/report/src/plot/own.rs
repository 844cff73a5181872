//! Figure A6 of the roofline paper: the ceilings as they hold for one function, in colour, on those of the machine, in grey.
//!
//! ```text
//! base      work / max(in-core terms)            the ceiling as it is
//! rung k    ladder value of the profile          with the k lowest deficiencies removed; equal rungs are one line
//! slope     ladder value / intensity there       bandwidth with its own threads, access class and pages
//! after     rate × time / (time − saving)        its place after each change
//!
//! On axes of instructions nothing is above the issue width: what would be faster does the same with fewer of them.
//! ```

use rprof_profile::function::{FunctionCeiling, Saving};
use rprof_profile::{Function, Machine};

use super::axes::{Axes, Place};
use super::lines;
use crate::table;

/// Rungs closer than this are one line.
const SAME: f64 = 0.01;

/// A horizontal ceiling of the function.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// Operations per second.
    pub value: f64,
    /// The deficiency that makes it; `None` for its roof.
    pub lacks: Option<String>,
}

/// A bandwidth (or latency) of the function, at its own intensity there.
#[derive(Debug, Clone, PartialEq)]
pub struct Slope {
    /// `dram`, `l3`, …
    pub id: String,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Operations per byte at that level.
    pub intensity: f64,
    pub binds: bool,
}

/// Its place after the change.
#[derive(Debug, Clone, PartialEq)]
pub struct After<'f> {
    pub saving: &'f Saving,
    /// Operations per second.
    pub rate: f64,
}

/// All that the picture shows of a function.
#[derive(Debug, Clone)]
pub struct Own<'f> {
    pub function: &'f Function,
    /// What it counts.
    pub axes: Axes,
    /// Its place.
    pub place: Place,
    /// Measured operations per second.
    pub rate: f64,
    /// The level that its dot is drawn by, and the operational intensity there: the outermost one with bytes to speak of.
    pub level: Option<(&'static str, f64)>,
    /// The dot is not drawn by memory: next to no bytes come from there, though they were counted.
    pub keeps_in: bool,
    /// Operations per second that its bound allows.
    pub bound: Option<f64>,
    pub rungs: Vec<Rung>,
    /// Single-feature ceilings of A.3 below its roof: id and value, highest first.
    pub alone: Vec<(String, f64)>,
    pub slopes: Vec<Slope>,
    pub after: Vec<After<'f>>,
}

impl<'f> Own<'f> {
    /// Of `f` on `machine`; `None` if it has no rate.
    pub fn of(machine: &Machine, f: &'f Function) -> Option<Own<'f>> {
        let a = &f.analysis;
        let axes = Axes::of_function(f);
        let place = axes.place(f)?;
        let rate = place.rate.filter(|r| *r > 0.0)?;
        let time = f.time_s.filter(|s| *s > 0.0)?;
        // The profile's ceilings count operations of the function's own.
        let scale = rate / a.flop_rate.filter(|r| *r > 0.0)?;
        let most = match axes {
            Axes::Instructions => lines::ceilings(machine, axes).last().map_or(f64::INFINITY, |roof| roof.value),
            Axes::Dp | Axes::Sp => f64::INFINITY,
        };
        let drawn = |value: f64| (scale * value).min(most);
        let far = furthest(machine, axes);
        let level = place.levels().find(|(_, intensity)| *intensity <= far).or_else(|| place.levels().last());
        let counted = f.bytes.is_some_and(|bytes| bytes.dram.is_some());
        let bound = a.roof_fraction.filter(|at| *at > 0.0).map(|at| rate / at);
        let rungs = rungs(f, rate * time, drawn);
        let roof = rungs.last().map_or(f64::INFINITY, |rung| rung.value);
        let alone = |c: &&FunctionCeiling| c.kind != "memory" && c.id != "peak" && !c.refuted;
        let mut alone: Vec<(String, f64)> = a
            .ceilings
            .iter()
            .filter(alone)
            .filter_map(|c| {
                Some((c.id.clone(), c.value_alone.map(drawn).filter(|v| *v > 0.0 && *v < (1.0 - SAME) * roof)?))
            })
            .collect();
        alone.sort_by(|a, b| b.1.total_cmp(&a.1));
        let after = table::savings(f).iter().filter(|s| s.seconds > 0.0 && s.seconds < time);
        let after = after
            .map(|saving| After { saving, rate: (rate * time / (time - saving.seconds)).min(most.max(rate)) })
            .collect();
        Some(Own {
            function: f,
            axes,
            place,
            rate,
            level,
            keeps_in: counted && level.is_some_and(|(level, _)| level != "DRAM"),
            bound,
            rungs,
            alone,
            slopes: slopes(f, place, scale),
            after,
        })
    }
}

/// The intensity beyond which memory makes no difference: so many times that of the ridge point of the slowest memory.
pub const BEYOND_RIDGE: f64 = 100.0;

/// The intensity up to which the picture of a function on `machine` goes.
pub fn furthest(machine: &Machine, axes: Axes) -> f64 {
    let top = lines::ceilings(machine, axes).last().map_or(f64::INFINITY, |roof| roof.value);
    let slowest = lines::slopes(machine).iter().map(|slope| slope.value).fold(f64::INFINITY, f64::min);
    if slowest.is_finite() && top.is_finite() { BEYOND_RIDGE * top / slowest } else { f64::INFINITY }
}

/// The ladder with equal rungs joined, from its present limit up to its roof.
fn rungs(f: &Function, work: f64, drawn: impl Fn(f64) -> f64) -> Vec<Rung> {
    let a = &f.analysis;
    let t = a.terms;
    let refuted = |id: &str| a.ceilings.iter().any(|c| c.id == id && c.refuted);
    let core = [(t.pipe, "peak"), (t.chain, "ilp"), (t.issue, "mix"), (t.access, "access")];
    let slowest = core.into_iter().filter(|(_, id)| !refuted(id)).filter_map(|(term, _)| term).fold(0.0, f64::max);
    let ladder: Vec<(&str, f64)> = a
        .ceilings
        .iter()
        .filter(|c| c.kind != "memory")
        .filter_map(|c| Some((c.id.as_str(), drawn(c.value?))))
        .collect();
    let Some((_, first)) = ladder.first() else { return Vec::new() };
    let mut height = if slowest > 0.0 { (work / slowest).min(*first) } else { *first };
    let mut out = Vec::new();
    for (id, value) in ladder {
        if value > height * (1.0 + SAME) {
            out.push(Rung { value: height, lacks: Some(id.to_owned()) });
            height = value;
        }
    }
    out.push(Rung { value: height, lacks: None });
    out
}

fn slopes(f: &Function, place: Place, scale: f64) -> Vec<Slope> {
    let a = &f.analysis;
    let at = |id: &str| match id {
        "l1" => place.oi.l1,
        "l2" => place.oi.l2,
        "l3" => place.oi.l3,
        _ => place.oi.dram,
    };
    let all = a.ceilings.iter().filter(|c| c.kind == "memory" && !c.refuted);
    let slope = |c: &FunctionCeiling| {
        let (value, intensity) = (scale * c.value?, at(&c.id).filter(|i| *i > 0.0 && i.is_finite())?);
        let binds = a.binding.as_deref() == Some(&c.id);
        Some(Slope { id: c.id.clone(), bandwidth: value / intensity, intensity, binds })
    };
    all.filter_map(slope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn host() -> Machine {
        sample::profile().machine
    }

    fn of(name: &str) -> Function {
        sample::profile().functions.into_iter().find(|f| f.name == name).unwrap()
    }

    #[test]
    fn equal_rungs_are_one_and_none_falls() {
        for f in sample::profile().functions {
            let Some(own) = Own::of(&host(), &f) else { continue };
            assert!(own.rungs.windows(2).all(|pair| pair[1].value > pair[0].value), "{}: {:?}", f.name, own.rungs);
            assert!(
                own.rungs.iter().rev().skip(1).all(|rung| rung.lacks.is_some())
                    && own.rungs.last().unwrap().lacks.is_none()
            );
        }
        let f = of("dot_reduce");
        let own = Own::of(&host(), &f).unwrap();
        assert_eq!(own.rungs[0].lacks.as_deref(), Some("ilp"), "{:?}", own.rungs);
        // A limit within the core is its bound.
        assert!((own.rungs[0].value / own.bound.unwrap() - 1.0).abs() < 0.01);
    }

    #[test]
    fn no_line_is_above_the_issue_width_on_axes_of_instructions() {
        let mut profile = sample::profile();
        for f in &mut profile.functions {
            f.flops = None;
            f.fp_instructions = f.fp_instructions.map(|_| 0);
        }
        rprof_model::analyse(&mut profile);
        let issue = lines::most_threads(&profile.machine, "issue").unwrap();
        let drawn: Vec<Own<'_>> = profile.functions.iter().filter_map(|f| Own::of(&profile.machine, f)).collect();
        assert!(drawn.len() >= 8 && drawn.iter().all(|own| own.axes == Axes::Instructions));
        for own in drawn {
            let lines = own.rungs.iter().map(|rung| rung.value).chain(own.alone.iter().map(|(_, value)| *value));
            let lines = lines.chain(own.after.iter().map(|after| after.rate));
            assert!(lines.clone().all(|value| value <= issue.max(own.rate)), "{}", own.function.name);
            // A bandwidth is the same in every unit.
            let ceilings = &own.function.analysis.ceilings;
            for slope in &own.slopes {
                let value = ceilings.iter().find(|c| c.id == slope.id).unwrap().value.unwrap();
                let bytes_s = value / own.function.analysis.flop_rate.unwrap() * own.rate / slope.intensity;
                assert!((slope.bandwidth / bytes_s - 1.0).abs() < 1e-9, "{}: {slope:?}", own.function.name);
            }
        }
    }

    #[test]
    fn without_bytes_of_memory_it_is_drawn_by_the_innermost_level_that_has_some() {
        let mut f = of("triad");
        let own = Own::of(&host(), &f).unwrap();
        assert_eq!((own.level.map(|(level, _)| level), own.keeps_in), (Some("DRAM"), false));
        let l1 = f.analysis.oi.l1.unwrap();
        // A few lines at the start.
        let oi = &mut f.analysis.oi;
        (oi.l2, oi.l3, oi.dram) = (Some(1e7), Some(1e8), Some(1e9));
        let own = Own::of(&host(), &f).unwrap();
        assert_eq!((own.level, own.keeps_in), (Some(("L1", l1)), true));
        // Bytes that nobody counted are no bytes that stay away.
        f.bytes = None;
        assert!(!Own::of(&host(), &f).unwrap().keeps_in);
    }

    #[test]
    fn its_slopes_pass_through_the_ladder_at_its_intensities() {
        let f = of("triad");
        let own = Own::of(&host(), &f).unwrap();
        let dram = own.slopes.iter().find(|s| s.id == "dram").unwrap();
        let value = f.analysis.ceilings.iter().find(|c| c.id == "dram").unwrap().value.unwrap();
        assert!(dram.binds && (dram.bandwidth * f.analysis.oi.dram.unwrap() / value - 1.0).abs() < 1e-9);
        assert!((own.after[0].rate / own.rate - 0.82 / (0.82 - own.after[0].saving.seconds)).abs() < 1e-6);
        assert!(Own::of(&host(), &of("jit_code")).is_none());
    }
}
