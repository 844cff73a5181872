//! The machine's microkernels as known work for the trust check of hardware counters.

mod arithmetic;
mod traffic;

use crate::counters::trust::KnownWork;
use crate::machine::host::features::Features;
use crate::machine::host::limits::Limits;
use crate::profile::machine::Cache;

/// All checks that are possible on a CPU with these caches.
pub fn kernels(caches: &[Cache]) -> Vec<Box<dyn KnownWork>> {
    let features = Features::detect();
    let mut works = arithmetic::kernels(features);
    works.extend(traffic::kernels(caches, Limits::read().memory, features));
    works
}
