//! The buffers that no cache holds. They are made once and kept, because the first touch of memory costs most: a second for each half a GiB
//! if the hypervisor has not yet given it to this host.

use std::time::{Duration, Instant};

use super::{Campaign, Effort};
use crate::error::MachineError;
use crate::harness::arena::{Arena, Pages};

/// Number of CPUs that may have a last-level cache each: a hypervisor may place them so, even if it reports otherwise.
const APART: u64 = 4;

/// Buffers of this size are made in time.
const LARGE: u64 = 2 << 30;

/// Least time for making a buffer. Later runs have little time, but get to one in the end, since a hypervisor need not hand over the same
/// memory twice.
const MAKING: Duration = Duration::from_millis(400);

/// The existing buffers: one on each kind of pages, the oldest first.
#[derive(Debug, Default)]
pub struct DramBuffers {
    held: Vec<(Pages, Arena)>,
}

impl Campaign {
    /// Bytes of a buffer that no cache holds: eight times the last-level caches (of each of a few CPUs); four times if that is more than
    /// [`LARGE`] or has to be quick. It is a power of two, since scattered accesses reach no other size; `None` if it is more than a
    /// quarter of the memory. A cache without LRU replacement keeps its share of a cyclic stream (Zen 5, 32 MiB: half of a stream of 64
    /// MiB, a quarter of 128 MiB, a sixteenth of 512 MiB).
    pub fn far_bytes(&self) -> Option<u64> {
        let told = self.topology.llc_total.max(8 << 20);
        let each = self.topology.caches.last().map_or(0, |c| c.size) * (self.topology.cpus.len() as u64).min(APART);
        let fits = |bytes: &u64| *bytes <= self.memory / 4;
        let all = [8, 4].map(|times| (times * told.max(each)).next_power_of_two()).into_iter();
        let least = [(4 * told).next_power_of_two(), 4 * told];
        let is_quick = self.effort == Effort::Quick;
        all.filter(|bytes| *bytes <= LARGE && !is_quick).chain(least).find(fits)
    }

    /// A far buffer for `threads` threads, filled with ones until something else is written to it. `None` if there is too little memory or
    /// no time, or if making it takes more than three quarters of the remaining time and [`MAKING`].
    ///
    /// # Errors
    /// As [`Arena::new`].
    pub fn far(&mut self, threads: usize, pages: Pages) -> Result<Option<Arena>, MachineError> {
        let Some(bytes) = self.far_bytes().filter(|_| !self.out_of_time()) else { return Ok(None) };
        let several_nodes = self.topology.nodes.len() > 1;
        let serves = |arena: &Arena| arena.threads == threads || !several_nodes;
        let is_it = |held: &&(Pages, Arena)| held.0 == pages && serves(&held.1);
        if let Some((_, arena)) = self.far.held.iter().find(is_it) {
            return Ok(Some(arena.divided(threads)));
        }
        self.far.held.retain(|held| held.0 != pages);
        while !self.far.held.is_empty() && (self.far.held.len() as u64 + 1) * bytes > self.memory / 3 {
            self.far.held.remove(0);
        }
        // More threads touch it sooner; it matters which ones if there are several nodes.
        let touching = if several_nodes { threads } else { self.most() };
        let most = (self.time_left() * 3 / 4).max(MAKING);
        if self.watch.plans_longer(2 * bytes, most) {
            return Ok(None);
        }
        let end = Instant::now() + most;
        let Some(arena) = Arena::filled(self.team(), touching, bytes, pages, end)? else { return Ok(None) };
        if pages == Pages::Huge && self.watch.planned().is_none() {
            self.note_huge_pages(arena.huge_share());
        }
        self.far.held.push((pages, arena.clone()));
        Ok(Some(arena.divided(threads)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::features::Features;
    use crate::host::topology::{Cpu, Topology};
    use rprof_profile::machine::Cache;

    fn campaign(llc: u64, shared_by: u32, cpus: usize, memory: u64) -> Campaign {
        let cpu = crate::host::limits::Limits::read().cpus[0];
        let topology = Topology {
            cpu: "test".into(),
            cpus: (0..cpus).map(|n| Cpu { id: cpu, core: (0, n), node: 0, capacity: 1024 }).collect(),
            caches: vec![Cache { level: 3, size: llc, ways: 16, line: 64, shared_by }],
            l1i_bytes: 32 << 10,
            l1i_way_bytes: 4096,
            llc_total: llc,
            nodes: vec![0],
        };
        Campaign::new(Features::default(), topology, 1, memory, Effort::Full).expect("one thread")
    }

    #[test]
    fn the_buffer_is_many_times_the_caches_that_there_may_be() {
        let of = |llc_mib: u64, cpus, memory_gib: u64| {
            campaign(llc_mib << 20, cpus as u32, cpus, memory_gib << 30).far_bytes().map(|bytes| bytes >> 20)
        };
        assert_eq!(of(32, 2, 24), Some(512), "a hypervisor may have put two CPUs on a cache each");
        assert_eq!(of(32, 64, 24), Some(1024), "a few of many");
        assert_eq!(of(32, 2, 1), Some(256), "half of it where memory is short");
        assert_eq!(of(480, 2, 24), Some(2048), "what is told, where all would take too long");
        assert_eq!(of(480, 2, 7), None, "more than a quarter of the memory");
        assert_eq!(of(300, 2, 5), Some(1200), "what is told, if it fits in no round number");
    }

    #[test]
    fn a_buffer_is_made_once() {
        let mut campaign = campaign(1 << 20, 1, 1, 4 << 30);
        let address =
            |campaign: &mut Campaign, pages| campaign.far(1, pages).expect("32 MiB").map(|arena| arena.slab_address(0));
        let first = address(&mut campaign, Pages::Huge);
        let small = address(&mut campaign, Pages::Split);
        assert!(first.is_some() && small.is_some() && first != small);
        assert_eq!((address(&mut campaign, Pages::Huge), address(&mut campaign, Pages::Split)), (first, small));
    }

    #[test]
    fn only_as_many_are_held_as_a_third_of_the_memory_takes() {
        let mut campaign = campaign(1 << 20, 1, 1, 480 << 20);
        for (pages, held) in [(Pages::Huge, 1), (Pages::Split, 2), (Pages::Small, 2), (Pages::Huge, 2)] {
            assert!(campaign.far(1, pages).expect("64 MiB").is_some());
            assert_eq!(campaign.far.held.len(), held, "{pages:?}");
        }
    }
}
