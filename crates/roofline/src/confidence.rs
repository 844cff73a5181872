//! How sure a class is: from the number of samples behind its time, from the CPU time that other programs took, and from how well a
//! ceiling or an account explains its time.

use rprof_profile::Function;
use rprof_profile::confidence::{Confidence, Doubt, Level};

use super::account;
use super::class::{AT_ITS_BOUND, Verdict};
use super::surroundings::Surroundings;

/// Fewer samples leave a class low, or medium: the standard error of a time is then 25 %, or 12 %.
const FEW: f64 = 16.0;
const ENOUGH: f64 = 64.0;
/// Threads kept off their CPUs for a larger share leave a class medium, or low.
const LOADED: f64 = 0.1;
const OVERLOADED: f64 = 0.4;

/// Of the class in `verdict`; `None` if there is none.
pub fn of(function: &Function, verdict: &Verdict, around: &Surroundings) -> Option<Confidence> {
    verdict.class.filter(|class| class.is_known())?;
    let mut doubts: Vec<(Level, Doubt)> = Vec::new();
    if let Some(samples) = around.samples(function).filter(|n| *n < ENOUGH) {
        let level = if samples < FEW { Level::Low } else { Level::Medium };
        doubts.push((level, Doubt::FewSamples { samples: samples.round().max(1.0) as u64 }));
    }
    if around.kept_off > LOADED {
        let level = if around.kept_off > OVERLOADED { Level::Low } else { Level::Medium };
        doubts.push((level, Doubt::Load { share: around.kept_off }));
    }
    if let Some(fraction) = verdict.roof_fraction.filter(|fraction| *fraction < AT_ITS_BOUND) {
        match account::error(function) {
            Some(error) if !account::is_near(error) => doubts.push((Level::Low, Doubt::ModelError { error })),
            Some(_) => {}
            None if verdict.is_guess => doubts.push((Level::Low, Doubt::FarFromBound { fraction })),
            None => doubts.push((Level::Medium, Doubt::FarFromBound { fraction })),
        }
    }
    doubts.sort_by_key(|(level, _)| *level);
    let level = doubts.first().map_or(Level::High, |(level, _)| *level);
    Some(Confidence { level, reasons: doubts.into_iter().map(|(_, doubt)| doubt).collect() })
}
