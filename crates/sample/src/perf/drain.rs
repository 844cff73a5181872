//! Emptying the ring buffers of all CPUs into one sequence ordered by time.
//!
//! Each buffer is in order, but a mapping made on one CPU may belong to a sample taken on another. A round of reading yields,
//! in order, the records written before the round began. Newer records wait for the next round, when every buffer that could
//! hold an older one has been read.

use super::event::{self, Event};
use super::sampled::SampledEvent;

/// A record's time is taken before the record can be read; it is readable at most this much later.
const COMMIT_NS: u64 = 1_000_000;

/// The buffers and the records read too early.
pub(super) struct Drain {
    rings: Vec<SampledEvent>,
    pending: Vec<Event>,
}

impl Drain {
    /// Takes the buffers over.
    pub fn new(rings: Vec<SampledEvent>) -> Drain {
        Drain { rings, pending: Vec::new() }
    }

    /// The buffers, for polling.
    pub fn rings(&self) -> &[SampledEvent] {
        &self.rings
    }

    /// Reads all buffers at time `now_ns` and passes on, in order of time, the records that have their final place in
    /// it; all records if `now_ns` is `u64::MAX`.
    pub fn round(&mut self, now_ns: u64, take: impl FnMut(Event)) {
        self.read();
        self.hand_over(now_ns.saturating_sub(COMMIT_NS), take);
    }

    fn read(&mut self) {
        let Drain { rings, pending } = self;
        for ring in rings {
            ring.drain(|bytes, config| pending.extend(event::read(bytes, config)));
        }
    }

    fn hand_over(&mut self, before_ns: u64, take: impl FnMut(Event)) {
        self.pending.sort_by_key(|e| e.time_ns);
        let settled = self.pending.partition_point(|e| e.time_ns < before_ns);
        self.pending.drain(..settled).for_each(take);
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Kind;
    use super::*;

    #[test]
    fn what_is_newer_than_the_round_waits() {
        let mut drain = Drain::new(Vec::new());
        let event = |time_ns| Event { time_ns, kind: Kind::Throttled };
        drain.pending.extend([event(5), event(3), event(9), event(4)]);
        let mut seen = Vec::new();
        drain.hand_over(5, |e| seen.push(e.time_ns));
        assert_eq!(seen, [3, 4]);
        drain.pending.push(event(1));
        drain.round(u64::MAX, |e| seen.push(e.time_ns));
        assert_eq!(seen, [3, 4, 1, 5, 9]);
    }
}
