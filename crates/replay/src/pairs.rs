//! Pairs of changes to replay together: the causes of both are large, and neither change alone gains anything.

use std::collections::HashMap;

use rprof_profile::account::{Cause, Changes};

use super::changes::{Outcomes, WORTH, causes};
use super::op::Program;

/// Pairs that are replayed at most.
pub(super) const PAIRS: usize = 3;
/// Bytes of a stretch of code, as a power of two: the model looks at stretches, since it does not know functions.
const STRETCH_BITS: u32 = 9;
/// Stretches of code with a smaller share of the cycles are not looked at.
const HOT: f64 = 0.03;

/// Cycles of a stretch of code.
#[derive(Debug, Clone, Default)]
struct Stretch {
    by_cause: [f64; Cause::ALL.len()],
    changed: Vec<f64>,
}

/// At most [`PAIRS`] pairs of `singles`, those with the most cycles of hot code first.
pub(super) fn worth_trying(
    singles: &[Changes],
    bursts: &[usize],
    outcomes: &Outcomes,
    program: &Program,
) -> Vec<Changes> {
    let stretches = stretches(singles, bursts, outcomes, program);
    let all: f64 = stretches.iter().flat_map(|stretch| stretch.by_cause).sum();
    let mut cycles: HashMap<Changes, f64> = HashMap::new();
    for stretch in &stretches {
        let own: f64 = stretch.by_cause.iter().sum();
        let gains_alone = stretch.changed.iter().any(|left| *left < (1.0 - WORTH) * own);
        if own < HOT * all || gains_alone {
            continue;
        }
        let share = |change: &Changes| -> f64 {
            causes(change.first).iter().map(|cause| stretch.by_cause[*cause as usize]).sum::<f64>() / own
        };
        let large: Vec<&Changes> = singles.iter().filter(|change| share(change) >= WORTH).collect();
        for (n, first) in large.iter().enumerate() {
            for second in &large[n + 1..] {
                let pair = Changes { first: first.first, second: Some(second.first) };
                *cycles.entry(pair).or_default() += own;
            }
        }
    }
    let mut pairs: Vec<(Changes, f64)> = cycles.into_iter().collect();
    pairs.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    pairs.into_iter().map(|(pair, _)| pair).take(PAIRS).collect()
}

fn stretches(singles: &[Changes], bursts: &[usize], outcomes: &Outcomes, program: &Program) -> Vec<Stretch> {
    let mut stretches: HashMap<(u32, u64), Stretch> = HashMap::new();
    let of = |site: u32| {
        let at = program.sites[site as usize];
        (at.module, at.offset >> STRETCH_BITS)
    };
    for &burst in bursts {
        for (site, _, _, cycles) in outcomes.get(&(burst, None)).iter().flat_map(|outcome| &outcome.instructions) {
            let stretch = stretches.entry(of(*site)).or_default();
            stretch.by_cause.iter_mut().zip(cycles).for_each(|(sum, own)| *sum += f64::from(*own));
        }
        for (n, change) in singles.iter().enumerate() {
            let changed = outcomes.get(&(burst, Some(*change)));
            for (site, _, _, cycles) in changed.iter().flat_map(|outcome| &outcome.instructions) {
                let stretch = stretches.entry(of(*site)).or_default();
                stretch.changed.resize(singles.len(), 0.0);
                stretch.changed[n] += cycles.iter().map(|own| f64::from(*own)).sum::<f64>();
            }
        }
    }
    stretches.into_values().collect()
}
