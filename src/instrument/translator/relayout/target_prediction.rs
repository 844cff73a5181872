//! Finds the usual targets of indirect jumps and calls
//! ([`inline_cache`](crate::instrument::translator::translate::inline_cache)).

use std::time::Duration;

use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::contexts::Contexts;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::version::Version;
use crate::tracee::address::Address;

/// Number of reads of a jump's last target, and the pause between them: not a multiple of the duration of a loop's pass.
const LOOKS: u32 = 8;
const PAUSE: Duration = Duration::from_micros(30);

/// The address that makes up at least three quarters of `seen`.
fn usual(seen: &[u64]) -> Option<Address> {
    let most = seen.iter().copied().max_by_key(|at| seen.iter().filter(|s| *s == at).count())?;
    let times = seen.iter().filter(|s| **s == most).count();
    (times * 4 >= seen.len() * 3).then(|| Address::new(most))
}

/// Samples the targets of the jumps that end the blocks at `starts`, in the threads of the contexts `of`.
pub(crate) fn look_where_jumps_go(cache: &mut CodeCache, all: &Contexts, starts: &[Address], of: &[u32]) {
    // Only first copies record targets: that of a later copy is old, and would always pass for usual.
    let records = |at: &&Address| cache.find(Version::Plain, **at).is_some_and(|id| cache.block(id).placed == 0);
    let recorded = starts.iter().filter(records);
    let slots: Vec<(Address, u32)> = recorded.filter_map(|at| Some((*at, cache.usual.slot(*at)?))).collect();
    if slots.is_empty() {
        return;
    }
    let mut seen: Vec<Vec<u64>> = vec![Vec::new(); slots.len()];
    for _ in 0..LOOKS {
        for (seen, (_, slot)) in seen.iter_mut().zip(&slots) {
            let targets = of.iter().map(|&context| all.get(context, layout::counter(*slot)));
            seen.extend(targets.filter(|&at| at != 0));
        }
        std::thread::sleep(PAUSE);
    }
    for ((start, _), seen) in slots.iter().zip(&seen) {
        if let Some(target) = usual(seen).filter(|at| cache.find(Version::Plain, *at).is_some()) {
            cache.usual.learn(*start, target);
        }
    }
}
