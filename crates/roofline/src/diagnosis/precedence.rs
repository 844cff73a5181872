//! Which change of a function is named first: balance and the chain that holds it before higher rungs of the ladder, which may save more
//! at most (see [`order`](crate::order)).

use rprof_profile::vocabulary::Class;

use super::candidate::Candidate;
use super::program::Program;

/// Share of the gain of a higher rung from which a lower one is named before it.
const QUARTER: f64 = 0.25;
/// Rungs above a chain.
const ABOVE_CHAINS: [Class; 5] =
    [Class::InstructionMix, Class::Simd, Class::FmaBalance, Class::DivSqrt, Class::L1Bandwidth];

/// Moves candidates, which are in order of their worth, before those of the same place that are higher rungs.
pub fn put_lower_rungs_first(program: &Program<'_>, all: &mut [Candidate]) {
    for high in 0..all.len() {
        let least = QUARTER * all[high].worth();
        let own = own_class(program, &all[high]);
        let before = |low: &Candidate| {
            let same = low.place == all[high].place && low.place.is_some() && low.saves_s.is_some();
            let is_lower = match low.class {
                Class::LoadImbalance => all[high].class == Class::Ilp || ABOVE_CHAINS.contains(&all[high].class),
                Class::Ilp => own == Some(Class::Ilp) && ABOVE_CHAINS.contains(&all[high].class),
                _ => false,
            };
            same && is_lower && low.worth() >= least
        };
        let lower = (high + 1..all.len()).filter(|i| before(&all[*i]));
        // Balance before the chain.
        if let Some(low) = lower.min_by_key(|i| all[*i].class != Class::LoadImbalance) {
            all[high..=low].rotate_right(1);
        }
    }
}

/// The class of the function that a candidate is of.
fn own_class(program: &Program<'_>, candidate: &Candidate) -> Option<Class> {
    program.function(candidate.place.as_ref()?)?.analysis.class
}
