//! Fetch: the earliest times at which instructions can be dispatched.

use crate::op::{Block, Op, kind};
use crate::parameters::CoreParameters;
use crate::sets::Sets;

/// Time is kept in sixteenths of a cycle.
const PART: u32 = 16;
const LINE_BITS: u32 = 6;
const WAYS: usize = 8;
const TARGET_WAYS: usize = 4;

/// Fetch of one thread.
#[derive(Debug, Clone)]
pub(super) struct FrontEnd {
    /// Time of the next instruction, in sixteenths of a cycle.
    time: u32,
    /// Parts of a cycle for each slot of the present block.
    per_slot: u32,
    /// Time at which the last taken branches were fetched.
    last_taken: u32,
    /// Taken branches with targets in the first level of the branch target buffer.
    targets: Sets,
    decoded: Sets,
    l1i: Sets,
    generation: u64,
}

impl FrontEnd {
    pub(super) fn new(core: &CoreParameters) -> FrontEnd {
        FrontEnd {
            time: 0,
            per_slot: 1,
            last_taken: 0,
            targets: Sets::new(core.near_targets as usize, TARGET_WAYS),
            decoded: Sets::new(core.decoded_bytes as usize >> LINE_BITS, WAYS),
            l1i: Sets::new(core.l1i_bytes as usize >> LINE_BITS, WAYS),
            generation: 0,
        }
    }

    pub(super) fn begin(&mut self, time: u32) {
        (self.time, self.last_taken) = (time * PART, 0);
        self.generation += 1;
    }

    /// A block begins.
    #[inline]
    pub(super) fn block(&mut self, core: &CoreParameters, block: &Block) {
        let (mut decoded, mut near) = (true, true);
        for line in block.start >> LINE_BITS..=(block.end - 1) >> LINE_BITS {
            let key = line | self.generation << 48;
            if !self.decoded.meet(line, key) {
                decoded = false;
                near &= self.l1i.meet(line, key);
            }
        }
        let rate = match (decoded, near) {
            (true, _) => core.fetch_width * PART,
            (false, true) => core.l1i_rate,
            (false, false) => core.l2_rate,
        };
        self.per_slot = (PART * PART / rate.max(1)).max(1);
    }

    /// The cycle in which the next instruction is ready for dispatch, if the last dispatch was at `dispatched`.
    #[inline]
    pub(super) fn fetch(&mut self, core: &CoreParameters, op: &Op, dispatched: u32) -> u32 {
        // It runs ahead no farther than its queue.
        let earliest = dispatched.saturating_sub(core.fetch_queue / core.width) * PART;
        if earliest > self.time {
            self.time = earliest;
        }
        let cycle = self.time / PART;
        self.time += self.per_slot * u32::from(op.slots);
        cycle
    }

    /// The last instruction was a taken branch.
    #[inline]
    pub(super) fn taken(&mut self, core: &CoreParameters, op: &Op) {
        let place = u64::from(op.site);
        let near = self.targets.meet(place, place | self.generation << 48);
        let takes = if near { PART / core.taken } else { core.far_taken.max(PART / core.taken) };
        self.time = self.time.max(self.last_taken + takes);
        self.last_taken = self.time;
        if op.is(kind::CALL | kind::RETURN) {
            self.time += core.call_bubble;
        }
    }

    /// Fetch begins anew at `cycle`.
    #[inline]
    pub(super) fn restart(&mut self, cycle: u32) {
        self.time = self.time.max(cycle * PART);
    }
}
