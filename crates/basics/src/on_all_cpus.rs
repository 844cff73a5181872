//! Independent pieces of work, spread over the CPUs.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does `work` on each of `items`: each CPU takes one after the other. Returns the results in the order of the items; a panic of `work` goes on
/// in the caller.
pub fn on_all_cpus<T: Send, R: Send>(items: impl Iterator<Item = T> + Send, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let items = Mutex::new(items.enumerate());
    let take = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one_cpu = || std::iter::from_fn(take).map(|(i, item)| (i, work(item))).collect::<Vec<_>>();
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus).map(|_| scope.spawn(one_cpu)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    done.sort_unstable_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        assert_eq!(on_all_cpus(0..1000, |n| 2 * n), (0..1000).map(|n| 2 * n).collect::<Vec<_>>());
        assert!(on_all_cpus(std::iter::empty::<u8>(), |n| n).is_empty());
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let panics = std::panic::catch_unwind(|| on_all_cpus(0..10, |n| assert_ne!(n, 7)));
        assert!(panics.is_err());
    }
}
