//! Figures with an interval wider than they are: they may be of any size. `profile.json` keeps them with their intervals; nothing is
//! concluded from such counts, and no report for people shows such figures.

use std::borrow::Cow;

use rprof_profile::Profile;
use rprof_profile::function::{Bytes, CacheMisses, Function, Source};
use rprof_profile::number::percent;

/// Relative half-width of a 95 % interval above which a figure is not known.
pub const ROUGH: f64 = 1.0;

fn half_width(f: &Function, key: &str) -> Option<f64> {
    f.source.get(key)?.error.filter(|error| *error > ROUGH)
}

/// The relative half-width of the interval of `f`'s counts if they are not known.
pub fn of_counts(f: &Function) -> Option<f64> {
    f.instructions.and_then(|_| half_width(f, "instructions"))
}

/// Why `f`'s counts are not known, if they are not, as a clause.
pub fn why_unknown(f: &Function) -> Option<String> {
    of_counts(f).map(|half_width| format!("its counts are estimated {}", reason(half_width)))
}

/// Why a figure with an interval of this relative half-width is not known, as a clause.
fn reason(half_width: f64) -> String {
    format!("within ± {} only: it may be of any size", percent(half_width))
}

/// `f` without its loops, as if it had not been counted.
pub fn without_counts(f: &Function) -> Function {
    let mut bare = Function { loops: Vec::new(), ..f.clone() };
    drop_counts(&mut bare);
    bare
}

fn drop_counts(f: &mut Function) {
    (f.instructions, f.fp_instructions, f.simd_instructions, f.int_ops) = (None, None, None, None);
    (f.flops, f.work, f.account) = (None, None, None);
    (f.bytes, f.cache_misses, f.misses, f.pages) = (None, None, None, None);
    for thread in &mut f.per_thread {
        (thread.instructions, thread.flops, thread.dram_bytes) = (None, None, None);
    }
    for line in &mut f.lines {
        (line.instructions, line.flops, line.dram_bytes) = (None, None, None);
    }
    for inlined in &mut f.inlined {
        (inlined.instructions, inlined.flops) = (None, None);
    }
    for instruction in f.disassembly.iter_mut().flat_map(|d| &mut d.instructions) {
        instruction.executions = None;
    }
}

/// `profile` without the figures that are not known, each with the reason.
pub fn known(profile: &Profile) -> Cow<'_, Profile> {
    if !profile.functions.iter().any(has_rough) {
        return Cow::Borrowed(profile);
    }
    let mut known = profile.clone();
    known.functions.iter_mut().for_each(drop_rough);
    Cow::Owned(known)
}

fn has_rough(f: &Function) -> bool {
    f.source.values().any(|source| source.error.is_some_and(|error| error > ROUGH)) || f.loops.iter().any(has_rough)
}

fn drop_rough(f: &mut Function) {
    if of_counts(f).is_some() {
        drop_counts(f);
    }
    let mut bytes = f.bytes.unwrap_or_default();
    let mut misses = f.cache_misses.unwrap_or_default();
    let mut oi = f.analysis.oi;
    if half_width(f, "bytes.l2").is_some() {
        (bytes.l2, misses.l1, oi.l2) = (None, None, None);
    }
    if half_width(f, "bytes.l3").is_some() {
        (bytes.l3, misses.l2, oi.l3) = (None, None, None);
    }
    if half_width(f, "bytes.dram").is_some() {
        (bytes.dram, bytes.dram_read, bytes.dram_write) = (None, None, None);
        (misses.l3, oi.dram) = (None, None);
    }
    if half_width(f, "misses").is_some() {
        f.misses = None;
    }
    if half_width(f, "pages").is_some() {
        f.pages = None;
    }
    f.analysis.oi = oi;
    f.bytes = f.bytes.map(|_| bytes).filter(|bytes| *bytes != Bytes::default());
    f.cache_misses = f.cache_misses.map(|_| misses).filter(|misses| *misses != CacheMisses::default());
    for source in f.source.values_mut() {
        if let Some(error) = source.error.filter(|error| *error > ROUGH) {
            *source = Source::not_measured(format!("{} {}", source.how, reason(error)));
        }
    }
    f.loops.iter_mut().for_each(drop_rough);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(of_counts: f64, of_dram: f64) -> Function {
        let source = |how: &str, error| Source { how: how.into(), error: Some(error), reason: None };
        let bytes = Bytes { l1: Some(800), dram: Some(64), ..Bytes::default() };
        let mut f = Function { instructions: Some(100), bytes: Some(bytes), ..Function::default() };
        f.source.insert("instructions".into(), source("estimated", of_counts));
        f.source.insert("bytes.dram".into(), source("simulated", of_dram));
        f
    }

    fn shown(f: &Function) -> Function {
        let profile = Profile { functions: vec![f.clone()], ..Profile::default() };
        known(&profile).functions[0].clone()
    }

    #[test]
    fn a_figure_within_more_than_itself_is_not_shown() {
        let good = function(0.3, 0.9);
        assert_eq!(shown(&good), good);
        let far = shown(&function(0.3, 1.6));
        assert_eq!((far.instructions, far.bytes.unwrap().l1, far.bytes.unwrap().dram), (Some(100), Some(800), None));
        assert_eq!(
            far.source["bytes.dram"].reason.as_deref(),
            Some("simulated within ± 160 % only: it may be of any size")
        );
        let nothing = shown(&function(2.8, 2.9));
        assert_eq!((nothing.instructions, nothing.bytes), (None, None));
        assert_eq!(nothing.source["instructions"].error, None);
    }

    #[test]
    fn nothing_is_concluded_from_counts_that_may_be_of_any_size() {
        let mut outer = function(2.0, 2.0);
        outer.loops = vec![function(2.0, 2.0)];
        assert_eq!(of_counts(&outer), Some(2.0));
        let bare = without_counts(&outer);
        assert_eq!((bare.instructions, bare.bytes, bare.loops.len()), (None, None, 0));
    }
}
