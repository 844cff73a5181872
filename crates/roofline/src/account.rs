//! The class of a function by the account of its time (docs/conventions.md, Account).
//!
//! ```text
//! cause of most seconds ─▶ class          seconds of one class are added: L2 and L3 are both cache latency
//! |model_s / cpu_s − 1| ≤ 0.25            else the class has low confidence, and no saving is stated
//! ```

use rprof_profile::Function;
use rprof_profile::account::{Account, Cause};
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::system::System;
use rprof_profile::vocabulary::Class;

/// A model that is off by more explains nothing.
const NEAR: f64 = 0.25;
/// From this share of a level's misses on conflicts make them.
const MOST: f64 = 0.5;

/// The least share of lines that follow the one before where prefetchers bring them.
const IN_ORDER: f64 = 0.9;

/// The evidence for a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// This one.
    Class(Class),
    /// The class of the core deficiency that gains most when removed.
    Pipes,
}

/// `model_s / cpu_s − 1` of an account; `None` without one, or without a time.
pub fn error(function: &Function) -> Option<f64> {
    let (account, cpu_s) = (function.account.as_ref()?, function.cpu_s.filter(|s| *s > 0.0)?);
    (account.model_s > 0.0).then(|| account.model_s / cpu_s - 1.0)
}

/// Whether a model with this error explains a function.
pub fn is_near(error: f64) -> bool {
    error.abs() <= NEAR
}

/// A model that is off by more than this factor says nothing of a change's gain.
const FAR: f64 = 2.0;

/// The account of `function` and the time that the model gives / the measured time, if savings can be stated by it at all.
pub fn usable(function: &Function) -> Option<(&Account, f64)> {
    let ratio = 1.0 + error(function)?;
    let account = function.account.as_ref()?;
    (1.0 / FAR..=FAR).contains(&ratio).then_some((account, ratio))
}

/// The account of `function`, if its model is near enough to state savings by it without a wider interval.
pub fn trusted(function: &Function) -> Option<&Account> {
    function.account.as_ref().filter(|_| error(function).is_some_and(is_near))
}

/// The class that most seconds of the account belong to; `None` without an account.
pub fn largest(function: &Function) -> Option<Named> {
    let account = function.account.as_ref().filter(|account| account.model_s > 0.0)?;
    let traffic = function.work.as_ref().and_then(|work| work.traffic);
    let mut by_class: Vec<(Named, f64)> = Vec::new();
    for cause in Cause::ALL {
        let (named, seconds) = (named(cause, traffic.as_ref()), account.part(cause));
        match by_class.iter_mut().find(|(known, _)| *known == named) {
            Some((_, sum)) => *sum += seconds,
            None => by_class.push((named, seconds)),
        }
    }
    by_class.into_iter().filter(|(_, s)| *s > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(named, _)| named)
}

fn named(cause: Cause, traffic: Option<&Traffic>) -> Named {
    let conflicts = |part: fn(&Traffic) -> (f64, f64)| {
        traffic.map(part).is_some_and(|(conflicts, misses)| conflicts > MOST * misses)
    };
    let cached = |by_conflict: bool| if by_conflict { Class::PrivateCacheConflict } else { Class::CacheLatency };
    Named::Class(match cause {
        Cause::Ports => return Named::Pipes,
        Cause::Base => Class::InstructionMix,
        Cause::Chain => Class::Ilp,
        Cause::Mispredict => Class::Mispredict,
        Cause::FrontEnd => Class::FrontEnd,
        Cause::Forwarding => Class::StoreForwarding,
        Cause::L1 => Class::L1Bandwidth,
        // Lines that L2 serves are L1 misses.
        Cause::L2 => cached(conflicts(|t| (t.l1_conflict, t.l1_misses))),
        Cause::L3 => cached(conflicts(|t| (t.l2_conflict, t.l2_misses))),
        // What the latency of lines that follow one another costs is the bandwidth that one core gets.
        Cause::DramLatency if traffic.is_some_and(follow_one_another) => Class::DramBandwidth,
        Cause::DramLatency => Class::DramLatency,
        Cause::DramBandwidth => Class::DramBandwidth,
        Cause::Tlb => Class::Tlb,
    })
}

/// Whether nearly all lines follow the one before, so that prefetchers bring them.
fn follow_one_another(traffic: &Traffic) -> bool {
    traffic.unit_lines > IN_ORDER * traffic.lines_of_known_order().max(1.0)
}

/// The class of a function for which the kernel worked longer than it did itself, or which was off the CPU for longer than both; `None`
/// for others.
pub fn of_kernel(function: &Function) -> Option<Class> {
    if waited_s(function) > function.kernel_s.unwrap_or(0.0) + function.cpu_s.unwrap_or(0.0) {
        return Some(Class::Waiting);
    }
    function.kernel_s.filter(|s| *s > function.cpu_s.unwrap_or(0.0))?;
    Some(if are_page_faults(function) { Class::PageFaults } else { Class::SystemCalls })
}

/// Seconds off the CPU in which it waited for something other than a CPU; 0 if the sampler did not watch that.
pub fn waited_s(function: &Function) -> f64 {
    function.system.as_ref().and_then(System::waited_s).unwrap_or(0.0)
}

/// Whether most of the time in the kernel on its behalf began with a fault.
pub fn are_page_faults(function: &Function) -> bool {
    function.fault_s.zip(function.kernel_s).is_some_and(|(faults, all)| faults > all / 2.0)
}
