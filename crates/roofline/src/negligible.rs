//! Functions and loops that are too small to be analysed: a large program has thousands of them, and none of them can be
//! the reason why it is slow.

use rprof_profile::Profile;
use rprof_profile::function::{Analysis, Function, Source};
use rprof_profile::vocabulary::Class;

/// A part of the run's work below which a function is not analysed if no sample fell into it.
const SHARE: f64 = 1e-4;

/// Totals of the whole run: instructions executed and bytes moved.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    instructions: f64,
    dram_bytes: f64,
}

impl Run {
    /// All functions of `profile` together.
    pub fn of(profile: &Profile) -> Self {
        let sum = |value: fn(&Function) -> Option<u64>| profile.functions.iter().filter_map(value).sum::<u64>() as f64;
        Run { instructions: sum(|f| f.instructions), dram_bytes: sum(|f| f.bytes.and_then(|b| b.dram)) }
    }

    /// Whether `function` was executed, but too little, and no sample fell into it.
    pub fn is_cold(&self, function: &Function) -> bool {
        let sampled = function.time_s.is_some_and(|t| t > 0.0) || function.cpu_s.is_some_and(|t| t > 0.0);
        let little = |part: u64, whole: f64| (part as f64) < SHARE * whole;
        !sampled
            && function.instructions.is_some_and(|n| little(n, self.instructions))
            && function.bytes.and_then(|b| b.dram).is_none_or(|b| b == 0 || little(b, self.dram_bytes))
    }
}

/// Leaves a cold function, and its loops, without an analysis, and says so.
pub fn leave_out(function: &mut Function) {
    function.source.retain(|key, _| !key.starts_with("terms."));
    let reason = format!("less than {} % of the run's instructions, and no sample", 100.0 * SHARE);
    let source = Source { how: "not analysed".into(), error: None, reason: Some(reason) };
    function.source.insert("class".into(), source.clone());
    function.source.insert("ilp".into(), source);
    let expected = function.analysis.expected.take();
    function.analysis = Analysis { expected, class: Some(Class::Unknown), ..Analysis::default() };
    function.loops.iter_mut().for_each(leave_out);
}
