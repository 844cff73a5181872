//! The code caches that workers have.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::translator::program::address_space::AddressSpace;
use crate::translator::tracer::workers::{Handoff, Workers};
use rprof_tracee::affinity::CpuPin;
use rprof_tracee::wait::Event;

/// Another code cache that got a request within this time is likely to get the next one before this answer is complete.
const AT_ONCE: Duration = Duration::from_millis(2);
/// More workers than this are not worth their memory.
const MOST: usize = 64;

/// The code caches that workers have.
#[derive(Debug)]
pub struct Handoffs {
    pub(crate) workers: Workers,
    pub(crate) out: Vec<Handoff>,
    /// Deferred events of threads with a code cache that a worker had at the time, in order.
    pub(crate) put_off: VecDeque<Event>,
    /// A worker failed.
    pub(crate) lost: bool,
}

impl Handoffs {
    /// Starts with no handoffs. There is a worker for each CPU but the tracer's; see
    /// [`Translator`](crate::Translator) for `before`.
    pub fn new(pin: &CpuPin, before: Option<fn()>) -> Self {
        let workers = Workers::new((pin.cpus() - 1).min(MOST), before);
        Handoffs { workers, out: Vec::new(), put_off: VecDeque::new(), lost: false }
    }

    /// Whether another batch can be handed off beside the present ones and `more`.
    pub fn has_room(&self, more: usize) -> bool {
        self.out.len() + more < self.workers.most()
    }

    /// Whether a recalled batch is about to return: then the tracer does not sleep.
    pub fn are_awaited(&self) -> bool {
        !self.put_off.is_empty() || self.out.iter().any(Handoff::is_recalled)
    }

    /// The index of the batch that `address_space` is in.
    pub(crate) fn with(&self, address_space: Pid) -> Option<usize> {
        self.out.iter().position(|handoff| handoff.members.contains(&address_space))
    }
}

/// Whether to hand off the code cache of `address_space`, which has a request `now`: another one at home got a request just before, and
/// the look for hot blocks is not due.
pub(crate) fn is_to_be_handed_off<'a>(
    mut home: impl Iterator<Item = &'a AddressSpace>,
    address_space: &AddressSpace,
    now: Instant,
) -> bool {
    let lately = |asked: Instant| now.saturating_duration_since(asked) < AT_ONCE;
    home.any(|p| p.asked.is_some_and(lately) && !Arc::ptr_eq(&p.image.cache, &address_space.image.cache))
        && now < address_space.image.placing.borrow().due()
}
