//! The memory behind the load and store ports: latency, outstanding misses, bandwidth, prefetchers, translation.

use crate::levels::{Level, Levels};
use crate::parameters::CoreParameters;
use rprof_profile::account::Cause;
use rprof_profile::evidence::bursts::{BurstAccess, Found, Translation};

use super::bandwidth::Channel;
use super::change::Change;
use super::graph::index;
use super::lines::Lines;

const LINE_BITS: u32 = 6;
/// Lines that a stream is foreseen ahead into L2, and into L1; assumed.
const STREAM_AHEAD: u64 = 20;
const STREAM_AHEAD_L1: u64 = 3;
/// Lines of a page.
const PAGE_LINES: u64 = 64;
/// Executions that a stride of one instruction is foreseen ahead, and the longest one in bytes; assumed.
const STRIDE_AHEAD: usize = 8;
const LONGEST_STRIDE: u64 = 2048;

/// Time at which an access has its data, and the parts of its wait. They come on top of the latency of L1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Cycles from issue on.
    pub takes: u32,
    pub translation: u32,
    pub level: u32,
    pub bandwidth: u32,
    /// Cause of `level` and of `bandwidth`.
    pub level_cause: u8,
    pub bandwidth_cause: u8,
}

/// The memory side of a core.
#[derive(Debug, Clone)]
pub(super) struct Memory<'a> {
    core: &'a CoreParameters,
    levels: &'a Levels,
    change: Change,
    lines: Lines,
    strides: Vec<Stride>,
    l1_misses: Vec<u32>,
    l2_misses: Vec<u32>,
    walks: Vec<u32>,
    l2: Channel,
    l3: Channel,
    dram: Channel,
    random: u64,
}

/// The addresses of one instruction.
#[derive(Debug, Clone, Copy)]
struct Stride {
    generation: u32,
    last: u64,
    stride: i64,
    repeated: u32,
    times: [u32; STRIDE_AHEAD],
}

impl<'a> Memory<'a> {
    pub(super) fn new(core: &'a CoreParameters, levels: &'a Levels, sites: usize, change: Change) -> Memory<'a> {
        let never = Stride { generation: 0, last: 0, stride: 0, repeated: 0, times: [0; STRIDE_AHEAD] };
        Memory {
            core,
            levels,
            change,
            lines: Lines::new(),
            strides: vec![never; sites],
            l1_misses: vec![0; core.l1_misses as usize],
            l2_misses: vec![0; core.l2_misses as usize],
            walks: vec![0; core.walks as usize],
            l2: Channel::new(core.l2_line, core.l2_banks),
            l3: Channel::new(core.l3_line, core.l3_banks),
            dram: Channel::new(core.dram_line, core.l3_banks),
            random: 0,
        }
    }

    /// A burst begins. The same seed draws the same levels.
    pub(super) fn begin(&mut self, seed: u64) {
        self.lines.clear();
        for slots in [&mut self.l1_misses, &mut self.l2_misses, &mut self.walks] {
            slots.fill(0);
        }
        for channel in [&mut self.l2, &mut self.l3, &mut self.dram] {
            channel.clear();
        }
        self.random = seed.wrapping_mul(0xd134_2543_de82_ef95);
    }

    /// An access of instruction `site`, the `number`th of the burst, issued at `time`. `l1` is the latency of a hit.
    #[inline]
    pub(super) fn access(
        &mut self,
        access: &BurstAccess,
        (site, number, generation): (u32, u32, u32),
        time: u32,
        l1: u32,
        writes: bool,
    ) -> Arrival {
        let line = access.access.address >> LINE_BITS;
        self.follow(access.access.address, site, generation, time);
        let mut arrival = Arrival { takes: l1, level_cause: index(Cause::L2), ..Arrival::default() };
        arrival.bandwidth_cause = arrival.level_cause;
        if self.change.hits_l1 || access.found == Found::L1 {
            if access.translation != Translation::First {
                self.translate(access, (site, number), time, false, &mut arrival);
            }
            if !self.change.hits_l1
                && let Some(held) = self.lines.get(line)
                && held.arrives > time + arrival.takes
            {
                arrival.level = held.arrives - time - arrival.takes;
                (arrival.level_cause, arrival.bandwidth_cause) = (held.level, held.level);
                arrival.takes += arrival.level;
            }
            return arrival;
        }
        self.miss(access, (site, number, generation), time, l1, writes, arrival)
    }

    fn miss(
        &mut self,
        access: &BurstAccess,
        (site, number, generation): (u32, u32, u32),
        time: u32,
        l1: u32,
        writes: bool,
        mut arrival: Arrival,
    ) -> Arrival {
        let line = access.access.address >> LINE_BITS;
        if let Some(held) = self.lines.get(line).copied()
            && (held.early || held.arrives > time + l1)
        {
            self.lines.use_early(line);
            arrival.level = held.arrives.saturating_sub(time + l1);
            (arrival.level_cause, arrival.bandwidth_cause) = (held.level, held.level);
            arrival.takes += arrival.level;
            return arrival;
        }
        let level = match self.level(access, site, number) {
            Level::L1 => {
                self.translate(access, (site, number), time, false, &mut arrival);
                self.lines.insert(line, time, time + arrival.takes, index(Cause::L1), false);
                return arrival;
            }
            _ if self.change.hits_l2 => Level::L2,
            level => level,
        };
        let own_line = self.strides[site as usize].stride.unsigned_abs() >= 1 << LINE_BITS;
        if self.change.unit_stride && (own_line || !self.in_stream(line)) {
            // One line serves as many accesses as it has elements.
            if self.draw(number ^ 0x4000_0000) % (1 << LINE_BITS) >= access.access.bytes.clamp(1, 1 << LINE_BITS) {
                return arrival;
            }
        }
        let asked_before =
            self.change.unit_stride || self.change.prefetched && matches!(level, Level::L3 | Level::Dram);
        let foreseen = if asked_before { Some(self.long_ago(time)) } else { self.foreseen(line, (site, generation)) };
        let far = level == Level::Dram && foreseen.is_none();
        self.translate(access, (site, number), time, far, &mut arrival);
        let start = time + arrival.translation;
        let cause = cause(level);
        (arrival.level_cause, arrival.bandwidth_cause) = (cause, cause);
        if level == Level::Dram {
            arrival.bandwidth_cause = index(Cause::DramBandwidth);
        }
        // Lines that follow each other fall to banks in turn.
        let place = if self.change.unit_stride { u64::from(number) } else { line };
        let (arrives, queued) = match foreseen {
            Some((into_l2, into_l1)) => self.prefetched((level, place), into_l2.min(start), into_l1.min(start), writes),
            None => self.demanded((level, place), start, arrival.translation > self.core.second_tlb, writes),
        };
        let waits = arrives.saturating_sub(start + l1);
        arrival.bandwidth = queued.min(waits);
        arrival.level = waits - arrival.bandwidth;
        arrival.takes = l1 + arrival.translation + waits;
        self.lines.insert(line, time, start + l1 + waits, cause, false);
        arrival
    }

    /// A load on a wrong path: brings its line, if it is not there, at `time`. Returns when its data can be used.
    pub(super) fn early(&mut self, access: &BurstAccess, site: u32, number: u32, time: u32, l1: u32) -> u32 {
        let line = access.access.address >> LINE_BITS;
        if let Some(held) = self.lines.get(line).filter(|held| held.early || held.arrives > time + l1) {
            return held.arrives.max(time + l1);
        }
        if access.found == Found::L1 || self.change.hits_l1 {
            return time + l1;
        }
        let level = match self.level(access, site, number) {
            Level::L1 => return time + l1,
            _ if self.change.hits_l2 => Level::L2,
            level => level,
        };
        let mut arrival = Arrival::default();
        self.translate(access, (site, number), time, level == Level::Dram, &mut arrival);
        let walks = arrival.translation > self.core.second_tlb;
        let (arrives, _) = self.demanded((level, line), time + arrival.translation, walks, false);
        self.lines.insert(line, time, arrives, cause(level), true);
        arrives
    }

    /// The level that holds the line of the burst's `number`th access, which missed L1 in the burst. A line that follows others has not
    /// been used before.
    fn level(&self, access: &BurstAccess, site: u32, number: u32) -> Level {
        let random = self.draw(number);
        let line = access.access.address >> LINE_BITS;
        if self.levels.is_in_l1(site, access.found, random) && !self.in_stream(line) {
            return Level::L1;
        }
        let level = self.levels.draw(site, access.found, random);
        if self.change.no_conflicts { self.levels.without_conflicts(site, level, random) } else { level }
    }

    /// Line number `line`, which no prefetcher asked for: waits for a free miss buffer, then for its level. `walks`: its page had to be
    /// looked up. Returns when it arrives, and how much of that is waiting for bandwidth.
    fn demanded(&mut self, (level, line): (Level, u64), time: u32, walks: bool, writes: bool) -> (u32, u32) {
        let buffer = earliest(&self.l1_misses);
        let start = time.max(self.l1_misses[buffer]);
        let (arrives, queued) = match level {
            Level::L1 | Level::L2 => {
                let begins = self.l2.transfer(line, start, writes, None);
                (begins + self.core.l2, begins - start)
            }
            Level::L3 => self.beyond_l2((level, line), start, writes, None),
            Level::Dram => {
                let cost = self.core.dram_random[usize::from(walks)].max(self.core.dram_line[usize::from(writes)]);
                self.beyond_l2((level, line), start, writes, Some(cost))
            }
        };
        self.l1_misses[buffer] = arrives;
        (arrives, queued)
    }

    /// `cost`: cycles × 16 of bandwidth, if they differ from those of a stream's line.
    fn beyond_l2(&mut self, (level, line): (Level, u64), time: u32, writes: bool, cost: Option<u32>) -> (u32, u32) {
        let buffer = earliest(&self.l2_misses);
        let start = time.max(self.l2_misses[buffer]);
        let (channel, latency) = match level {
            Level::Dram => (&mut self.dram, self.core.dram),
            _ => (&mut self.l3, self.core.l3),
        };
        let begins = channel.transfer(line, start, writes, cost);
        self.l2_misses[buffer] = begins + latency;
        (begins + latency, begins - time)
    }

    /// A line that prefetchers ask for at `into_l2`, and for L1 at `into_l1`.
    fn prefetched(&mut self, (level, line): (Level, u64), into_l2: u32, into_l1: u32, writes: bool) -> (u32, u32) {
        let (in_l2, queued) = match level {
            Level::L1 | Level::L2 => (0, 0),
            Level::L3 | Level::Dram => self.beyond_l2((level, line), into_l2, writes, None),
        };
        let begins = self.l2.transfer(line, into_l1, writes, None);
        let in_l1 = (begins + self.core.l2).max(in_l2);
        (in_l1, queued.max(begins - into_l1))
    }

    /// Request times, into L2 and into L1, of a line that was known long before `time`.
    fn long_ago(&self, time: u32) -> (u32, u32) {
        (time.saturating_sub(self.core.dram + 200), time.saturating_sub(self.core.l2))
    }

    /// Times at which a prefetcher asked for the line, into L2 and into L1. `None` if no prefetcher foresaw it.
    fn foreseen(&self, line: u64, (site, generation): (u32, u32)) -> Option<(u32, u32)> {
        let stride = &self.strides[site as usize];
        let step = stride.stride.unsigned_abs();
        if stride.generation == generation && stride.repeated >= 3 && step > 1 << LINE_BITS && step <= LONGEST_STRIDE {
            let ahead = (stride.repeated as usize - 1).min(STRIDE_AHEAD) - 1;
            let oldest = stride.times[ahead];
            return Some((oldest, stride.times[ahead.min(2)]));
        }
        self.stream(line, 1).or_else(|| self.stream(line, u64::MAX))
    }

    /// Whether the line follows others in either direction.
    fn in_stream(&self, line: u64) -> bool {
        self.stream(line, 1).or_else(|| self.stream(line, u64::MAX)).is_some()
    }

    /// A run of lines that lie one after the other and end before `line`; `back` is 1 or −1.
    fn stream(&self, line: u64, step: u64) -> Option<(u32, u32)> {
        let before = |n: u64| line.wrapping_sub(step.wrapping_mul(n));
        // Prefetchers know physical addresses: a run ends with its page.
        let in_page = |n: u64| before(n) / PAGE_LINES == line / PAGE_LINES;
        let in_run = |n: u64| self.lines.get(before(n)).filter(|held| in_page(n) && !held.early).map(|held| held.asked);
        in_run(2)?;
        let near = in_run(1)?;
        let mut into_l2 = near;
        let mut into_l1 = near;
        for n in 2..=STREAM_AHEAD {
            // Two lines are enough to recognise a run.
            let Some(asked) = in_run(n).filter(|_| in_run(n + 1).is_some()) else { break };
            into_l2 = into_l2.min(asked);
            if n <= STREAM_AHEAD_L1 {
                into_l1 = into_l1.min(asked);
            }
        }
        Some((into_l2, into_l1))
    }

    /// Learns the strides of an instruction.
    #[inline]
    fn follow(&mut self, address: u64, site: u32, generation: u32, time: u32) {
        let own = &mut self.strides[site as usize];
        let stride = address.wrapping_sub(own.last) as i64;
        if own.generation != generation {
            *own = Stride { generation, last: address, stride: 0, repeated: 0, times: [time; STRIDE_AHEAD] };
            return;
        }
        own.repeated = if stride == own.stride { own.repeated + 1 } else { 0 };
        (own.stride, own.last) = (stride, address);
        if own.stride.unsigned_abs() > 1 << LINE_BITS {
            own.times.copy_within(0..STRIDE_AHEAD - 1, 1);
            own.times[0] = time;
        }
    }

    fn translate(
        &mut self,
        access: &BurstAccess,
        (site, number): (u32, u32),
        time: u32,
        far: bool,
        arrival: &mut Arrival,
    ) {
        if self.change.no_tlb || access.translation == Translation::First {
            return;
        }
        let random = self.draw(number ^ 0x8000_0000);
        if !self.levels.small_page(site, random) {
            return;
        }
        arrival.translation = match access.translation {
            Translation::Walk => {
                let cycles = if far { self.core.far_walk } else { self.core.walk };
                let walker = earliest(&self.walks);
                let start = time.max(self.walks[walker]);
                // `tlb.walks` was measured with entries in the caches. Farther entries never kept a walker busy for their whole latency.
                self.walks[walker] = start + self.core.walk;
                start + cycles - time
            }
            _ => self.core.second_tlb,
        };
        arrival.takes += arrival.translation;
    }

    /// A random number for the `number`th access of the burst: the same in each replay.
    fn draw(&self, number: u32) -> u32 {
        let mixed = (self.random ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32
    }

    /// Cycles × 16 that `lines` lines of a string take at the level that `access` finds them in.
    pub(super) fn string(&self, access: &BurstAccess, site: u32, number: u32, writes: bool) -> (u32, u8) {
        let lines = access.access.bytes.div_ceil(64).max(1);
        let level = self.level(access, site, number);
        let cost = match level {
            _ if access.found == Found::L1 || self.change.hits_l1 => return (0, index(Cause::L1)),
            Level::L1 => return (0, index(Cause::L1)),
            Level::Dram if !self.change.hits_l2 => &self.core.dram_line,
            Level::L3 if !self.change.hits_l2 => &self.core.l3_line,
            _ => &self.core.l2_line,
        };
        (lines.saturating_mul(cost[usize::from(writes)]), cause(level))
    }
}

fn cause(level: Level) -> u8 {
    match level {
        Level::L1 => index(Cause::L1),
        Level::L2 => index(Cause::L2),
        Level::L3 => index(Cause::L3),
        Level::Dram => index(Cause::DramLatency),
    }
}

fn earliest(slots: &[u32]) -> usize {
    let mut best = 0;
    for (n, &time) in slots.iter().enumerate() {
        if time < slots[best] {
            best = n;
        }
    }
    best
}
