//! The executions that were reported to the access sink.

/// The counter values of one code cache that the access sink has received.
#[derive(Debug, Default)]
pub struct ExecutionDeltas {
    /// By counter, of threads that have ended.
    ended: Vec<u64>,
    /// By counter, of all threads, at the last report.
    told: Vec<u64>,
}

impl ExecutionDeltas {
    /// Adds the final `value` of a counter of a thread that has ended.
    pub fn end(&mut self, slot: u32, value: u64) {
        add(&mut self.ended, slot, value);
    }

    /// The counters of threads that have ended, as the first part of the values that [`since`](Self::since) takes.
    pub fn ended(&self, slots: u32) -> Vec<u64> {
        let mut ended = self.ended.clone();
        ended.resize(slots as usize, 0);
        ended
    }

    /// The increase of each counter since the last call, if the counters are at `now`.
    pub fn since(&mut self, now: Vec<u64>) -> Vec<u64> {
        let before = std::mem::replace(&mut self.told, now.clone());
        let mut since = now;
        since.iter_mut().zip(before).for_each(|(value, before)| *value = value.wrapping_sub(before));
        since
    }
}

/// Adds to a counter, which may be a new one.
pub fn add(to: &mut Vec<u64>, slot: u32, value: u64) {
    let at = slot as usize;
    if to.len() <= at {
        to.resize(at + 1, 0);
    }
    to[at] = to[at].wrapping_add(value);
}
