//! Savings from the account of a function: the model's time that remains with one cause removed.
//!
//! ```text
//! seconds_max = (1 − what_if_s / model_s) · time_s     at most: what takes the cause's place is not known
//! seconds     = the same, if the model is near; else, where it is off by the factor r, the part of the time that it explains: · min(r, 1/r)
//! ```

use rprof_profile::account::{Account, Cause, Changes, HotBranch, WhatIf};
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::Saving;

use super::account;
use super::class;
use super::deficiency::Deficiency;
use super::prefetch;
use super::reuse::Reuse;
use super::terms::Subject;

/// Share of lines out of order from which a report suggests another order.
const LEAST_OUT_OF_ORDER: f64 = 0.2;
/// Used part of each line up to which a report suggests an order that packs the used data.
const MOST_USED: f64 = 0.3;
/// A change is listed if it gains this share of the time.
const WORTHWHILE: f64 = 0.05;

/// Savings from the account, if its model is near enough to the measured time, and the measured cost of page faults.
pub fn savings(subject: &Subject<'_>) -> Vec<Saving> {
    let f = subject.function;
    let mut all: Vec<Saving> = page_faults(subject).into_iter().collect();
    let (Some((account, ratio)), Some(time)) = (account::usable(f), f.time_s) else { return all };
    let sure = if account::is_near(ratio - 1.0) { 1.0 } else { ratio.min(1.0 / ratio) };
    let share_of = |left: f64| (1.0 - left / account.model_s).clamp(0.0, 1.0);
    let possible = |changes: &Changes| changes.iter().all(|change| is_possible(subject, change));
    let gains = |change: &Changes| {
        possible(change) && account.what_if_s.get(change).is_some_and(|left| share_of(*left) >= WORTHWHILE)
    };
    // List two changes at once only if neither gains anything alone.
    let news = |changes: &Changes| changes.second.is_none() || !changes.iter().any(|one| gains(&one.into()));
    let changes = account.what_if_s.iter().filter(|(changes, _)| gains(changes) && news(changes));
    let replayed = changes.map(|(changes, left)| {
        let share = share_of(*left);
        let seconds = share * time * sure;
        Saving {
            remove: changes.iter().map(|change| removes(change).to_owned()).collect(),
            seconds,
            seconds_max: share * time,
            program_seconds: subject.alone_share().map(|alone| seconds * alone),
            advice: advice(subject, *changes, account, share),
        }
    });
    all.extend(replayed);
    all
}

/// The names of all single changes that were replayed, whatever they gain; none if the model is not near enough.
pub fn replayed(subject: &Subject<'_>) -> Vec<String> {
    let account = account::usable(subject.function).map(|(account, _)| account);
    let changes = account.into_iter().flat_map(|account| account.what_if_s.keys());
    changes.filter(|changes| changes.second.is_none()).map(|changes| removes(changes.first).to_owned()).collect()
}

/// Elapsed seconds in the kernel that page faults took on its behalf.
fn page_faults(subject: &Subject<'_>) -> Option<Saving> {
    let f = subject.function;
    let (fault_s, cpu_s) = (f.fault_s?, f.cpu_s?);
    if fault_s < WORTHWHILE * (fault_s + cpu_s) || cpu_s <= 0.0 {
        return None;
    }
    let seconds = match f.fault_time_s {
        Some(elapsed) => elapsed.min(fault_s),
        // Profiles without it: its threads faulted together as they worked together.
        None => {
            let threads = f64::from(f.team.unwrap_or(1)).max(1.0);
            fault_s / (cpu_s / f.time_s.filter(|s| *s > 0.0)?).clamp(1.0, threads)
        }
    };
    Some(Saving {
        remove: vec!["page-faults".to_owned()],
        seconds,
        seconds_max: seconds,
        program_seconds: subject.alone_share().map(|alone| seconds * alone),
        advice: format!(
            "{fault_s:.3} s in the kernel are page faults of memory that it touches first: use buffers again instead of new ones \
             (GLIBC_TUNABLES=glibc.malloc.mmap_threshold=… keeps large ones), or huge pages, or touch the memory before."
        ),
    })
}

/// The name of the cause that a change removes; equal to the name of the bound's deficiency, if there is one.
fn removes(change: WhatIf) -> &'static str {
    match change {
        WhatIf::PerfectPrediction => "mispredict",
        WhatIf::IndependentIterations => Deficiency::Ilp.name(),
        WhatIf::AllLanes => Deficiency::Simd.name(),
        WhatIf::HitsInL1 => "cache-misses",
        WhatIf::HitsInL2 => "l2-misses",
        WhatIf::UnitStride => Deficiency::Strides.name(),
        WhatIf::Fused => Deficiency::Fma.name(),
        WhatIf::NoTlbMisses => Deficiency::SmallPages.name(),
        WhatIf::NoForwarding => "store-forwarding",
        WhatIf::PerfectFrontEnd => "front-end",
        WhatIf::NoDivider => Deficiency::DivSqrt.name(),
        WhatIf::Branchless => "branchless",
        WhatIf::NoConflicts => Deficiency::PrivateConflicts.name(),
        WhatIf::Prefetched => prefetch::SAVING,
    }
}

/// Whether anything can be done to that effect.
fn is_possible(subject: &Subject<'_>, change: WhatIf) -> bool {
    match change {
        WhatIf::IndependentIterations => class::is_candidate(subject, Deficiency::Ilp),
        WhatIf::AllLanes => class::is_candidate(subject, Deficiency::Simd),
        WhatIf::Fused => class::is_candidate(subject, Deficiency::Fma),
        // Prefetches and shorter ways help against latency, not if the bandwidth is used up.
        WhatIf::HitsInL1 => {
            matches!(subject.reuse, Reuse::SameCall { .. }) || account::trusted(subject.function).is_some_and(waits)
        }
        // Caching does not help data that a call uses once.
        WhatIf::HitsInL2 => matches!(subject.reuse, Reuse::SameCall { .. }),
        WhatIf::UnitStride => {
            let wasteful = |t: &Traffic| used_of_lines(t) <= MOST_USED;
            traffic_of(subject).is_some_and(|t| out_of_order(&t) >= LEAST_OUT_OF_ORDER || wasteful(&t))
        }
        // The replay does not know how many lines have an address that is known ahead.
        WhatIf::Prefetched => false,
        _ => true,
    }
}

/// Whether it waits longer for the latency of lines than for bandwidth.
fn waits(account: &Account) -> bool {
    let latency = [Cause::L2, Cause::L3, Cause::DramLatency].map(|cause| account.part(cause));
    latency.into_iter().sum::<f64>() > account.part(Cause::DramBandwidth)
}

fn traffic_of(subject: &Subject<'_>) -> Option<Traffic> {
    subject.function.work.as_ref()?.traffic
}

/// Bytes accessed over those of the lines that they missed L1 for.
fn used_of_lines(t: &Traffic) -> f64 {
    (t.l1_read + t.l1_write) / (64.0 * t.l1_misses).max(1.0)
}

/// Share of the lines that do not follow one another.
fn out_of_order(t: &Traffic) -> f64 {
    let others = t.strided_lines + t.random_lines + t.gathered_lines;
    others / t.lines_of_known_order().max(1.0)
}

fn advice(subject: &Subject<'_>, changes: Changes, account: &Account, share: f64) -> String {
    let all: Vec<String> = changes.iter().map(|change| capital(&words(subject, change, account))).collect();
    let limit = match changes.first {
        // Such a change of the code brings others with it: a compiler that vectorises unrolls and fuses, too.
        WhatIf::Branchless | WhatIf::AllLanes => format!("Replayed so, {:.0} % of its time is gone", 100.0 * share),
        _ => format!("At most {:.0} % of its time", 100.0 * share),
    };
    match all.as_slice() {
        [one] => format!("{one}. {limit}."),
        several => format!("Neither alone gains, both at once do. {}. {limit}.", several.join(". ")),
    }
}

fn capital(words: &str) -> String {
    let (first, rest) = words.split_at(words.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}", first.to_uppercase())
}

fn words(subject: &Subject<'_>, change: WhatIf, account: &Account) -> String {
    let cost = |cause: Cause| 100.0 * account.part(cause) / account.model_s;
    match change {
        WhatIf::PerfectPrediction => format!(
            "{}: sort or split the data by the tested value, or choose without a branch (tables, masks, conditional moves)",
            branches(account)
        ),
        WhatIf::IndependentIterations => format!(
            "{:.0} % of its time is latency of operations that wait for one another: unroll with several partial results",
            cost(Cause::Chain)
        ),
        WhatIf::AllLanes => {
            let order = super::advice::another_order(subject);
            format!("its arithmetic does not fill the vector registers: vectorise its loop{order}")
        }
        WhatIf::HitsInL1 => format!(
            "{:.0} % of its time it waits for L2, L3 and memory: keep reused data close together, or prefetch them",
            cost(Cause::L2) + cost(Cause::L3) + cost(Cause::DramLatency) + cost(Cause::DramBandwidth)
        ),
        WhatIf::HitsInL2 => format!(
            "{:.0} % of its time it waits for L3 and memory: work on parts that L2 holds",
            cost(Cause::L3) + cost(Cause::DramLatency) + cost(Cause::DramBandwidth)
        ),
        WhatIf::UnitStride => {
            "its accesses do not follow one another, or use little of each line: change the order of its loops, or pack its data"
                .into()
        }
        WhatIf::Fused => "adds and multiplies are not fused: fuse them (-ffp-contract=fast, -mfma)".into(),
        WhatIf::NoTlbMisses => {
            format!(
                "{:.0} % of its time is translation of addresses: put its large data on huge pages",
                cost(Cause::Tlb)
            )
        }
        WhatIf::NoForwarding => format!(
            "{:.0} % of its time loads wait for stores to the same address: keep the value in a register",
            cost(Cause::Forwarding)
        ),
        WhatIf::PerfectFrontEnd => format!(
            "{:.0} % of its time instructions did not arrive: make its hot code smaller and straighter",
            cost(Cause::FrontEnd)
        ),
        WhatIf::NoDivider => "the divider holds it: multiply by reciprocals".into(),
        WhatIf::Branchless => {
            "the code that its wrongly predicted branches jump over is short: execute it always and choose the result \
             (masks, conditional moves, min and max)"
                .into()
        }
        WhatIf::NoConflicts => {
            "its data meet in the same sets of the caches: pad rows and arrays so that their distance is no power of two"
                .into()
        }
        WhatIf::Prefetched => "its lines can be prefetched".into(),
    }
}

/// `31 % of the time: the branch at line 412 is mispredicted 29 % of the time`
fn branches(account: &Account) -> String {
    let Some(worst) = account.branches.first() else {
        let share = 100.0 * account.part(Cause::Mispredict) / account.model_s;
        return format!("{share:.0} % of its time follows branches that are predicted wrongly");
    };
    format!(
        "{:.0} % of its time: the branch {} is predicted wrongly {:.0} % of the time",
        100.0 * worst.seconds / account.model_s,
        place(worst),
        100.0 * worst.mispredicted
    )
}

fn place(branch: &HotBranch) -> String {
    let file = branch.file.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    match (file, branch.line) {
        (Some(file), Some(line)) => format!("at {file}:{line}"),
        (None, Some(line)) => format!("at line {line}"),
        _ => format!("at {:#x}", branch.offset),
    }
}
