//! Finds the usual targets of indirect jumps and calls
//! ([`inline_cache`](crate::translator::translate::inline_cache)).

use std::time::Duration;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::version::Version;
use rprof_tracee::address::Address;

/// Number of reads of a jump's last target, and the pause between them: not a multiple of the duration of a loop's pass.
const LOOKS: usize = 24;
const PAUSE: Duration = Duration::from_micros(30);
/// At least this number of reads must find a jump that was executed since the one before: the target of a thread that waits would
/// always count as usual.
const LEAST: usize = 10;
/// One in this number may find another target. With a wrong usual target, each call of another one misses the return predictor (`perl`
/// takes twice as long), so chance must not choose it: a jump that goes one way in half of the cases passes once in a thousand times.
const ONE_OTHER_IN: usize = 16;
/// After this number of reads without any jump executed, all threads wait.
const STILL: usize = 3;

/// A jump with a recorded target.
#[derive(Debug)]
struct Site {
    /// Start of its block.
    start: Address,
    /// The counter of its block, and the one that holds the last target.
    slots: (u32, u32),
    /// Executions by context at the last look.
    before: Vec<u64>,
    /// The targets of looks before which it was executed.
    seen: Vec<u64>,
}

impl Site {
    /// Whether it was executed since the last look.
    fn look(&mut self, all: &Contexts, of: &[u32]) -> bool {
        let seen = self.seen.len();
        let (counter, target) = (layout::counter(self.slots.0), layout::counter(self.slots.1));
        for (before, &context) in self.before.iter_mut().zip(of) {
            let executed = all.get(context, counter);
            if std::mem::replace(before, executed) != executed {
                self.seen.push(all.get(context, target));
            }
        }
        self.seen.len() > seen
    }

    /// The target of nearly all looks.
    fn usual(&self) -> Option<Address> {
        let times = |target: &u64| self.seen.iter().filter(|at| *at == target).count();
        let most = self.seen.iter().copied().max_by_key(times)?;
        let others = self.seen.len() - times(&most);
        (self.seen.len() >= LEAST && others * ONE_OTHER_IN <= self.seen.len()).then(|| Address::new(most))
    }
}

/// Samples the targets of the jumps in blocks that have been executed `worth` times by `counts` (since the last look: jumps of a phase that
/// is over do not move), in the threads of the contexts `of`; whether that sufficed for any of them, or there is none.
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
    let mut still = 0;
    for _ in 0..LOOKS {
        std::thread::sleep(PAUSE);
        let mut moved = false;
        for site in &mut sites {
            moved |= site.look(all, of);
        }
        still = if moved { 0 } else { still + 1 };
        if still == STILL {
            break;
        }
    }
    for site in &sites {
        if let Some(target) = site.usual().filter(|at| cache.find(Version::Plain, *at).is_some()) {
            cache.usual.learn(site.start, target);
        }
    }
    sites.iter().any(|site| site.seen.len() >= LEAST)
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
        let mut seen = vec![5; 15];
        assert_eq!(usual(&seen), Some(5));
        seen.push(7);
        assert_eq!(usual(&seen), Some(5), "fifteen of sixteen");
        seen.pop();
        seen[3] = 7;
        assert_eq!(usual(&seen), None, "fourteen of fifteen");
        assert_eq!(usual(&[5; 9]), None, "too few looks");
        assert_eq!(usual(&[]), None);
    }
}
