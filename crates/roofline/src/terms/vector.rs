//! The part of a function's work that wider vectors could do: the part in loops that can be vectorised, and by how much it
//! shrinks.
//!
//! ```text
//! s        = vector instructions after / instructions before               of floating-point arithmetic; of integers element bytes / vector bytes
//! v        = iterations of loops that can be vectorised / all · coverage   coverage: share of the instructions in analysed loops
//! slots'   = slots · (1 − v · (1 − s))                                     one vector iteration stands for 1/s scalar ones
//! ```
//!
//! A loop can be vectorised if it is long enough, its branches are those of loops, no iteration needs an address that the one before
//! loaded, nor a value of the one before other than a sum.

use std::collections::BTreeMap;

use rprof_isa::facts::{AccessKind, InstructionClass};
use rprof_profile::Function;
use rprof_profile::function::{AccessEntry, Work};

use super::super::host::Host;
use super::{chain, pipe};

/// Maximum number of branches per iteration of the innermost loops; more are control flow that masks cannot follow.
const MOST_BRANCHES: f64 = 2.5;
/// A smaller share of the work is not worth vectorising.
const LEAST: f64 = 0.5;
/// A smaller share of floating-point instructions is no floating-point code.
const FLOATING: f64 = 0.01;
/// A larger share of accesses that miss L1 out of order has to be gathered.
const GATHERED: f64 = 0.05;

/// The part of a function's work that wider vectors shrink, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vector {
    /// v of the module's docstring.
    share: f64,
    /// Share of the work in loops with branches that are a loop's.
    in_loops: f64,
    /// s of floating-point arithmetic.
    floating: f64,
    /// s of integers, if the arithmetic is on integers, with the bytes of an element.
    integer: Option<(f64, u32)>,
}

impl Vector {
    /// Of `function` on `host`.
    pub fn of(function: &Function, host: Host<'_>) -> Vector {
        let none = Vector { share: 0.0, in_loops: 0.0, floating: 1.0, integer: None };
        let Some(work) = &function.work else { return none };
        let (share, in_loops) = shares(work);
        let floating = pipe::simd_shrink(&work.mix, host);
        let fp: u64 = work.mix.iter().map(|e| e.instructions).sum();
        if fp as f64 >= FLOATING * work.issue_slots as f64 && fp > 0 {
            return Vector { share, in_loops, floating, integer: None };
        }
        let integer = element(work).filter(|_| !work.chains.is_empty()).and_then(|bytes| {
            let widest = host.machine().vector_bits? / 8;
            (bytes < widest).then(|| (f64::from(bytes) / f64::from(widest), bytes))
        });
        Vector { share, in_loops, floating: 1.0, integer }
    }

    /// Vectors can shrink enough of it.
    pub fn is_possible(&self) -> bool {
        self.share >= LEAST && self.shrink() < 1.0
    }

    /// Most of its work is in loops without branches other than those of loops.
    pub fn is_loop(&self) -> bool {
        self.in_loops >= LEAST
    }

    /// s: vector iterations for each scalar one.
    pub fn shrink(&self) -> f64 {
        self.integer.map_or(self.floating, |(shrink, _)| shrink)
    }

    /// By how much its issue slots shrink.
    pub fn slots(&self) -> f64 {
        1.0 - self.share * (1.0 - self.shrink())
    }

    /// If it is integers that become vectors: the bytes of one.
    pub fn integers(&self) -> Option<u32> {
        self.integer.map(|(_, bytes)| bytes)
    }
}

/// v of the module's docstring, and the share of the work in loops.
fn shares(work: &Work) -> (f64, f64) {
    if work.chains.is_empty() {
        return (work.chain_coverage, work.chain_coverage);
    }
    let mut loops: BTreeMap<u64, (f64, bool)> = BTreeMap::new();
    for chain in &work.chains {
        let (iterations, fits) = loops.entry(chain.header).or_insert((0.0, true));
        *iterations = iterations.max(chain.iterations as f64);
        *fits &= chain::can_be_vectorised(chain);
    }
    let all: f64 = loops.values().map(|(n, _)| n).sum();
    let fitting: f64 = loops.values().filter(|(_, fits)| *fits).map(|(n, _)| n).sum();
    let of_class = |class| work.classes.iter().filter(|(c, _)| *c == class).map(|(_, n)| *n as f64).sum::<f64>();
    if all <= 0.0 || of_class(InstructionClass::Branch) > MOST_BRANCHES * all {
        return (0.0, 0.0);
    }
    let covered = work.chain_coverage.min(1.0);
    (fitting / all * covered, covered)
}

/// Bytes of the elements that an integer loop goes through: of most of its accesses; `None` if these are of no order.
fn element(work: &Work) -> Option<u32> {
    let data = || work.accesses.iter().filter(|a| matches!(a.kind, AccessKind::Load | AccessKind::Store));
    let all: u64 = data().map(|a| a.count).sum();
    let gathered = work.traffic.map_or(0.0, |t| t.strided_lines + t.random_lines + t.gathered_lines);
    if gathered > GATHERED * all as f64 {
        return None;
    }
    data().max_by_key(|a| a.count).map(|a| a.bytes).filter(|bytes| *bytes > 0)
}

/// (count, bytes, in a vector register) of an access once `vector` is used: fewer and wider ones for the same data.
pub fn widened(entry: &AccessEntry, vector: &Vector, host: Host<'_>) -> (f64, u32, bool) {
    let count = entry.count as f64;
    let unchanged = (count, entry.bytes, entry.vector);
    let widest = host.machine().vector_bits.unwrap_or(128) / 8;
    if entry.bytes == 0 || entry.bytes >= widest || !(entry.vector || vector.integers().is_some()) {
        return unchanged;
    }
    let factor = (1.0 / vector.shrink()).min(f64::from(widest / entry.bytes)).max(1.0);
    let left = count * (1.0 - vector.share * (1.0 - 1.0 / factor));
    if factor > 1.0 { (left, (f64::from(entry.bytes) * factor).round() as u32, true) } else { unchanged }
}
