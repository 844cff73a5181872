//! An event with the ring buffer that its records go to.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use perf_event::Counter;
use perf_event::data::endian::Native;
use perf_event::data::parse::ParseConfig;

use rprof_tracee::perf_ring::PerfRing;

/// An open event and its ring.
pub(super) struct SampledEvent {
    counter: Counter,
    ring: PerfRing,
}

impl SampledEvent {
    /// Gives `counter` a ring of `bytes`, a power of two of pages.
    ///
    /// # Errors
    /// As of [`PerfRing::map`].
    pub fn new(counter: Counter, bytes: usize) -> io::Result<SampledEvent> {
        let ring = PerfRing::map(&counter, bytes)?;
        Ok(SampledEvent { counter, ring })
    }

    /// Starts the event.
    pub fn enable(&mut self) -> io::Result<()> {
        self.counter.enable()
    }

    /// Hands over the new records, each with its header, and the fields that they have.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8], &ParseConfig<Native>)) {
        let config = self.counter.config();
        self.ring.drain(|bytes| take(bytes, config));
    }

    /// Drops the new records; whether there was any.
    pub fn discard(&mut self) -> bool {
        let mut any = false;
        self.ring.drain(|_| any = true);
        any
    }
}

impl AsRawFd for SampledEvent {
    fn as_raw_fd(&self) -> RawFd {
        self.counter.as_raw_fd()
    }
}
