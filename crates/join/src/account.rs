//! The account of a function's or loop's time: replayed cycles an instruction × instructions that were counted.

use std::collections::{BTreeMap, HashMap};

use super::code_map::{CodeMap, FunctionId};
use super::modules::{Pass, Place};
use rprof_profile::account::{Account, Cause, Changes, HotBranch};
use rprof_profile::evidence::replayed::{ReplayedEvidence, ReplayedInstruction};
use rprof_profile::function::Function;
use rprof_profile::machine::Machine;

/// Fewer replayed instructions are too few for a function.
const ENOUGH_INSTRUCTIONS: u64 = 1_000;
/// Maximum number of a function's branches listed.
const MOST_BRANCHES: usize = 5;

/// Replayed instructions of one function: (offset, burst, figures).
pub type FunctionReplay<'e> = Vec<(u64, u32, &'e ReplayedInstruction)>;

/// Divides the instructions of `replayed` among functions.
pub fn by_function<'e>(replayed: &'e ReplayedEvidence, code: &mut CodeMap) -> HashMap<FunctionId, FunctionReplay<'e>> {
    let mut functions: HashMap<FunctionId, FunctionReplay> = HashMap::new();
    for (number, burst) in replayed.bursts.iter().enumerate() {
        for instruction in &burst.instructions {
            let Some(place) = code.place(Pass::Counted, instruction.at) else { continue };
            functions.entry(code.function(place)).or_default().push((place.offset, number as u32, instruction));
        }
    }
    functions
}

/// Cycles per second for functions without an observed clock: that of the machine's scalar additions, otherwise of any ceiling.
pub fn usual_clock(machine: &Machine) -> Option<f64> {
    let of = |id: &str| machine.ceilings.iter().find(|c| c.is(id, 1)).and_then(|c| c.clock_hz);
    of("dp.ilp").or_else(|| machine.ceilings.iter().find_map(|c| c.clock_hz))
}

/// The sums over those instructions of a function that `wanted` chooses by offset.
///
/// ```text
/// model_s = instructions counted × (Σ cycles / Σ executions of instructions, over all bursts) / clock_hz
/// error   = √(k/(k−1) · Σ_bursts (cycles − CPI · executions)²) / Σ cycles
/// ```
pub fn account(
    replay: &FunctionReplay<'_>,
    what_ifs: &[Changes],
    wanted: impl Fn(u64) -> bool,
    counted: u64,
    clock_hz: f64,
) -> Option<Account> {
    let mut by_burst: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    let mut cycles = [0.0f64; Cause::ALL.len()];
    let mut changed = vec![0.0f64; what_ifs.len()];
    let mut base_of_changed = 0.0;
    let mut executed = 0u64;
    // By offset: executions, and those that were predicted wrongly.
    let mut branches: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (offset, burst, figures) in replay.iter().filter(|(at, ..)| wanted(*at)) {
        let own: f64 = figures.cycles.iter().map(|c| f64::from(*c)).sum();
        let entry = by_burst.entry(*burst).or_default();
        entry.0 += own;
        entry.1 += f64::from(figures.executed);
        executed += u64::from(figures.executed);
        cycles.iter_mut().zip(figures.cycles).for_each(|(sum, c)| *sum += f64::from(c));
        if figures.changed.len() == what_ifs.len() && !what_ifs.is_empty() {
            base_of_changed += own;
            changed.iter_mut().zip(&figures.changed).for_each(|(sum, c)| *sum += f64::from(*c));
        }
        if figures.mispredicted > 0 {
            branches.entry(*offset).or_default().1 += u64::from(figures.mispredicted);
        }
    }
    if executed < ENOUGH_INSTRUCTIONS || counted == 0 || clock_hz <= 0.0 {
        return None;
    }
    for (offset, _, figures) in replay.iter() {
        branches.entry(*offset).and_modify(|branch| branch.0 += u64::from(figures.executed));
    }
    let all: f64 = cycles.iter().sum();
    let seconds_a_cycle = counted as f64 / executed as f64 / clock_hz;
    let parts = Cause::ALL.iter().zip(cycles).filter(|(_, c)| *c > 0.0);
    let what_if_s = what_ifs.iter().zip(&changed).filter(|_| base_of_changed > 0.0);
    Some(Account {
        model_s: all * seconds_a_cycle,
        error: relative_error(by_burst.values().copied(), all, executed as f64),
        parts: parts.map(|(cause, c)| (*cause, c * seconds_a_cycle)).collect(),
        bursts: by_burst.len() as u32,
        instructions: executed,
        what_if_s: what_if_s.map(|(change, c)| (*change, c / base_of_changed * all * seconds_a_cycle)).collect(),
        branches: hot_branches(branches, cycles[Cause::Mispredict as usize] * seconds_a_cycle),
    })
}

/// The error of a ratio of sums (Cochran, Sampling Techniques, 6.4), with bursts as units; `None` for one burst.
fn relative_error(bursts: impl Iterator<Item = (f64, f64)>, cycles: f64, executed: f64) -> Option<f64> {
    let cpi = cycles / executed;
    let (n, squares) = bursts.fold((0.0, 0.0), |(n, sum), (c, i)| (n + 1.0, sum + (c - cpi * i).powi(2)));
    (n > 1.0 && cycles > 0.0).then(|| (n / (n - 1.0) * squares).sqrt() / cycles)
}

/// The branches that are predicted wrongly most often. The replay charges resolving and refilling to the instructions that wait, so each
/// branch gets a share of all `mispredict_s` seconds: its part of all wrong predictions.
fn hot_branches(branches: BTreeMap<u64, (u64, u64)>, mispredict_s: f64) -> Vec<HotBranch> {
    let all: u64 = branches.values().map(|(_, mispredicted)| mispredicted).sum();
    let branch = |(offset, (executed, mispredicted)): (u64, (u64, u64))| HotBranch {
        offset,
        file: None,
        line: None,
        mispredicted: mispredicted as f64 / executed.max(1) as f64,
        seconds: mispredict_s * mispredicted as f64 / all as f64,
    };
    let mut hot: Vec<HotBranch> = branches.into_iter().map(branch).collect();
    hot.sort_unstable_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.offset.cmp(&b.offset)));
    hot.truncate(MOST_BRANCHES);
    hot
}

/// Adds the source lines of the branches of `function`; its code is in `module`.
pub fn name_branches(function: &mut Function, module: u32, code: &mut CodeMap) {
    for branch in function.account.iter_mut().flat_map(|account| &mut account.branches) {
        if let Some(line) = code.line(Place { module, offset: branch.offset }) {
            (branch.file, branch.line) = (Some(line.file.to_string()), Some(line.line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::account::WhatIf;
    use rprof_profile::code::CodeRef;

    fn instruction(offset: u64, executed: u32, base: f32, mispredict: f32) -> ReplayedInstruction {
        let mut cycles = [0.0; Cause::ALL.len()];
        cycles[Cause::Base as usize] = base;
        cycles[Cause::Mispredict as usize] = mispredict;
        let mispredicted = if mispredict > 0.0 { executed / 4 } else { 0 };
        let at = CodeRef { module: 0, offset };
        ReplayedInstruction { at, executed, mispredicted, cycles, changed: vec![base] }
    }

    #[test]
    fn seconds_are_replayed_cycles_of_counted_instructions() {
        let first = [instruction(0x10, 1000, 500.0, 0.0), instruction(0x14, 1000, 500.0, 2000.0)];
        let second = [instruction(0x10, 1000, 700.0, 0.0), instruction(0x14, 1000, 300.0, 2000.0)];
        let replay: FunctionReplay =
            (first.iter().map(|i| (i.at.offset, 0, i))).chain(second.iter().map(|i| (i.at.offset, 1, i))).collect();
        let what_ifs = [WhatIf::PerfectPrediction.into()];
        let whole = account(&replay, &what_ifs, |_| true, 8_000_000, 1e9).unwrap();
        // 6,000 cycles of 4,000 instructions, 8 million of which take 12 million cycles.
        assert!((whole.model_s - 0.012).abs() < 1e-12);
        assert!((whole.parts.values().sum::<f64>() - whole.model_s).abs() < 1e-12);
        assert!((whole.part(Cause::Mispredict) - 0.008).abs() < 1e-12);
        assert_eq!((whole.bursts, whole.instructions, whole.error), (2, 4000, Some(0.0)));
        assert!((whole.what_if_s[&WhatIf::PerfectPrediction.into()] - 0.004).abs() < 1e-12);
        assert_eq!(whole.branches.len(), 1);
        assert!((whole.branches[0].mispredicted - 0.25).abs() < 1e-12);
        assert!((whole.branches[0].seconds - 0.008).abs() < 1e-12, "it is the only one");
        let part = account(&replay, &what_ifs, |at| at == 0x10, 1_000_000, 1e9).unwrap();
        assert!((part.model_s - 0.0006).abs() < 1e-12 && part.branches.is_empty());
        assert!(part.error.unwrap() > 0.1, "its two bursts differ");
        assert_eq!(account(&replay, &what_ifs, |at| at == 0x18, 1_000_000, 1e9), None, "no burst met it");
    }
}
