//! Finds the usual targets of indirect jumps and calls
//! ([`inline_cache`](crate::instrument::translator::translate::inline_cache)).

use std::time::Duration;

use crate::instrument::translator::code_cache::cache::CodeCache;
use crate::instrument::translator::code_cache::contexts::Contexts;
use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::version::Version;
use crate::tracee::address::Address;

/// Number of reads of a jump's last target, and the pause between them: not a multiple of the duration of a loop's pass.
const LOOKS: usize = 8;
const PAUSE: Duration = Duration::from_micros(30);
/// Of these reads, so many must find a jump that was executed since the one before: the target of a thread that waits would always
/// pass for usual, and each call of another one would miss the return predictor.
const LEAST: usize = 3;

/// A jump whose target is recorded.
#[derive(Debug)]
struct Site {
    /// Where its block starts.
    start: Address,
    /// The counter of its block, and the one that holds the last target.
    slots: (u32, u32),
    /// Executions by context at the last look.
    before: Vec<u64>,
    /// The targets of looks before which it was executed.
    seen: Vec<u64>,
}

impl Site {
    fn look(&mut self, all: &Contexts, of: &[u32]) {
        let (counter, target) = (layout::counter(self.slots.0), layout::counter(self.slots.1));
        for (before, &context) in self.before.iter_mut().zip(of) {
            let executed = all.get(context, counter);
            if std::mem::replace(before, executed) != executed {
                self.seen.push(all.get(context, target));
            }
        }
    }

    /// The target of at least three quarters of the looks.
    fn usual(&self) -> Option<Address> {
        let times = |target: &u64| self.seen.iter().filter(|at| *at == target).count();
        let most = self.seen.iter().copied().max_by_key(times)?;
        (self.seen.len() >= LEAST && times(&most) * 4 >= self.seen.len() * 3).then(|| Address::new(most))
    }
}

/// Samples the targets of those jumps whose blocks have been executed `worth` times by `counts`, in the threads of the contexts `of`; whether
/// any jump was executed meanwhile, or there is none.
pub(crate) fn look_where_jumps_go(
    cache: &mut CodeCache,
    all: &Contexts,
    (counts, of): (&[u64], &[u32]),
    worth: u64,
) -> bool {
    let mut sites: Vec<Site> = Vec::new();
    for (start, target) in cache.usual.recorded() {
        // Only first copies record targets.
        let Some(block) = cache.find(Version::Plain, start).map(|id| cache.block(id)).filter(|b| b.placed == 0) else {
            continue;
        };
        if counts.get(block.slot as usize).is_some_and(|n| *n >= worth) {
            let before = of.iter().map(|&context| all.get(context, layout::counter(block.slot))).collect();
            sites.push(Site { start, slots: (block.slot, target), before, seen: Vec::new() });
        }
    }
    if sites.is_empty() {
        return true;
    }
    for _ in 0..LOOKS {
        std::thread::sleep(PAUSE);
        sites.iter_mut().for_each(|site| site.look(all, of));
    }
    for site in &sites {
        if let Some(target) = site.usual().filter(|at| cache.find(Version::Plain, *at).is_some()) {
            cache.usual.learn(site.start, target);
        }
    }
    sites.iter().any(|site| !site.seen.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_usual_if_most_looks_at_a_moving_thread_met_it() {
        let usual = |seen: &[u64]| {
            let seen = seen.to_vec();
            Site { start: Address::new(1), slots: (0, 1), before: Vec::new(), seen }.usual().map(Address::get)
        };
        assert_eq!(usual(&[5, 5, 7, 5]), Some(5));
        assert_eq!(usual(&[5, 5, 7]), None, "two of three");
        assert_eq!(usual(&[5, 5]), None, "too few looks");
        assert_eq!(usual(&[]), None);
    }
}
