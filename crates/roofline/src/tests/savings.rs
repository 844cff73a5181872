//! Random functions: whatever the model says of them, no saving is longer than the elapsed time that it can come from.

use std::collections::{BTreeMap, BTreeSet};

use super::kernel::{Kernel, profile, zen5};
use super::random;
use crate::analyse;
use crate::deficiency::Deficiency;
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::Profile;
use rprof_profile::function::Saving;
use rprof_profile::run::Pass;

/// Random profiles that are analysed.
const PROFILES: u64 = 1500;

/// The elapsed seconds that removing `saving` can come from at most.
fn room(profile: &Profile, saving: &Saving) -> f64 {
    let f = &profile.functions[0];
    match saving.remove[0].as_str() {
        "page-faults" => f.fault_time_s.expect("drawn"),
        "waiting-for-ranks" => profile.run.passes[0].wall_s,
        _ => f.time_s.expect("drawn"),
    }
}

#[test]
fn no_saving_is_longer_than_the_time_in_which_the_function_ran() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..PROFILES {
        let mut made = random::profile(seed);
        analyse(&mut made);
        for saving in &made.functions[0].analysis.savings {
            let most = room(&made, saving) * (1.0 + 1e-9);
            let figures = [Some(saving.seconds), Some(saving.seconds_max), saving.program_seconds];
            let longest = figures.into_iter().flatten().fold(0.0, f64::max);
            assert!(longest <= most, "seed {seed}: {most} s, {saving:?}");
            assert!(saving.seconds_max >= saving.seconds, "seed {seed}: {saving:?}");
            saving.remove.iter().for_each(|name| *seen.entry(name.clone()).or_default() += 1);
        }
    }
    let by_bound: BTreeSet<&str> = Deficiency::ALL.iter().map(|d| d.name()).collect();
    let replayed = ["mispredict", "cache-misses", "l2-misses", "store-forwarding", "front-end", "branchless"];
    // Fused loops need a second function.
    let wanted = by_bound.into_iter().filter(|name| *name != Deficiency::SeparatePasses.name());
    let others = ["page-faults", "no-prefetch", "waiting-for-ranks"];
    let never: Vec<&str> = wanted.chain(replayed).chain(others).filter(|name| !seen.contains_key(*name)).collect();
    assert!(never.is_empty(), "never drawn: {never:?} of {seen:?}");
}

#[test]
fn faults_of_two_threads_at_once_are_half_of_their_seconds() {
    // Two threads that touch new memory for 0.42 s: 0.53 s in the kernel, hardly any in the program.
    let mut f = Kernel::new("touch").fp(1, FpOp::Add, Precision::Dp, Width::Scalar).threads(2, 2).took(100.0).function;
    (f.time_s, f.cpu_s, f.exclusive_s) = (Some(0.1), Some(0.1), Some(0.1));
    f.concurrency = vec![1.0, 0.0];
    (f.kernel_s, f.fault_s, f.fault_time_s) = (Some(0.53), Some(0.53), Some(0.265));
    let mut made = profile(vec![f], zen5());
    made.run.passes.push(Pass { kind: "timed".into(), wall_s: 0.42, ..Pass::default() });
    let saved = |made: &mut Profile| {
        analyse(made);
        let all = &made.functions[0].analysis.savings;
        all.iter().find(|s| s.remove == ["page-faults"]).expect("a saving").seconds
    };
    assert!((saved(&mut made) - 0.265).abs() < 1e-9);
    // Profiles without the elapsed seconds: no more than the run.
    made.functions[0].fault_time_s = None;
    assert!((saved(&mut made) - 0.42).abs() < 1e-9);
}
