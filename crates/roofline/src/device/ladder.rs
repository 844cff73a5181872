//! The ladder of a kernel: the least time of all its launches as one obstacle after the other is gone.
//!
//! ```text
//! tail            time − time that the last waves waste
//! gpu-latency     the largest term: nothing waits, all overlaps
//! class of term   the next term, in descending order, down to the last
//! ```

use rprof_profile::device::{Kernel, Rung, Term};
use rprof_profile::vocabulary::Class;

use super::terms::{self, CHAIN, LAUNCH};

/// The rungs, by descending seconds; none without counts.
pub fn ladder(kernel: &Kernel, terms: &[Term], tail_s: Option<f64>) -> Vec<Rung> {
    let usable = |t: &&Term| !t.refuted && ![LAUNCH, CHAIN].contains(&t.ceiling.as_str());
    let terms: Vec<&Term> = terms.iter().filter(usable).collect();
    let Some(largest) = terms.first() else { return Vec::new() };
    let rung = |without: &str, seconds: f64| Rung { without: without.into(), seconds };
    let mut rungs: Vec<Rung> = tail_s.map(|saved| rung("tail", kernel.seconds - saved)).into_iter().collect();
    rungs.push(rung(Class::GpuLatency.name(), largest.seconds.min(kernel.seconds)));
    rungs.extend(terms.windows(2).map(|pair| rung(terms::class(&pair[0].ceiling).name(), pair[1].seconds)));
    rungs
}
