//! The runs of 2 MiB that the kernel holds in huge pages: lines in them keep their distances in physical memory.
//!
//! The model asks the kernel once, when a run is first met. From Linux 6.7 on the kernel reports runs mapped by one entry for 2 MiB
//! (`PAGEMAP_SCAN`, Documentation/admin-guide/mm/pagemap.rst), which needs no right but that to look at the process. Earlier kernels
//! report in `/proc/PID/smaps` how much of a mapping is in huge pages; all its runs then count as the larger part does.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use linux_raw_sys::general::{PAGE_IS_HUGE, page_region, pm_scan_arg};
use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};

use crate::address::page_color::PageColoring;
use crate::caches::hash::Mixing;
use crate::caches::last_lookup::LastLookup;
use crate::caches::line::{Line, PAGE_SHIFT};

mod ioctl {
    nix::ioctl_readwrite!(pagemap_scan, b'f', 16, linux_raw_sys::general::pm_scan_arg);
}

/// log2 of the bytes of a run, and of its pages.
const RUN_SHIFT: u32 = 21;
const RUN_PAGES_SHIFT: u32 = RUN_SHIFT - PAGE_SHIFT;
/// Maximum runs that are remembered: 512 GiB. Those beyond use the rule for unknown runs.
const MOST_RUNS: usize = 1 << 18;
/// Maximum page maps that are held open.
const MOST_FILES: usize = 64;
/// Maximum lists of mappings that are read in a run: each costs a walk through all pages of a process.
const MOST_LISTS: usize = 256;
/// Reading them takes at most one part in this many of the time.
const LIST_SHARE: u32 = 50;

/// The runs of 2 MiB that were met, and whether each is a huge page.
#[derive(Debug)]
pub struct HugePages {
    /// The rule for runs that are not known.
    otherwise: PageColoring,
    /// By run of an address space.
    known: HashMap<u64, bool, Mixing>,
    /// Number of runs met, and of huge ones among them.
    met: usize,
    huge: usize,
    latest: LastLookup,
    /// Runs that had no pages: the next batch asks for them again.
    absent: Vec<u64>,
    scans: bool,
    maps: HashMap<u32, File>,
    /// By address space: mappings that have pages, and whether most are huge.
    lists: HashMap<u32, Vec<Listed>>,
    lists_read: usize,
    /// Time spent reading lists, and the start of the run.
    list_time: Duration,
    begun: Instant,
}

/// A mapping that has pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listed {
    from: u64,
    to: u64,
    huge: bool,
}

impl Listed {
    /// The parts of it outside the addresses from `from` to `to`.
    fn without(self, from: u64, to: u64) -> impl Iterator<Item = Listed> {
        let (before, after) = (self.to.min(from), self.from.max(to));
        let parts = [Listed { to: before, ..self }, Listed { from: after, ..self }];
        // A mapping without overlap is whole on one side.
        parts.into_iter().filter(|part| part.from < part.to)
    }
}

impl HugePages {
    /// No runs met yet; `None` if pages are not of 4 KiB.
    pub fn new(otherwise: PageColoring) -> Option<Self> {
        if sysconf(SysconfVar::PAGE_SIZE).ok()?? != 1 << PAGE_SHIFT {
            return None;
        }
        Some(HugePages {
            otherwise,
            known: HashMap::default(),
            met: 0,
            huge: 0,
            latest: LastLookup::default(),
            absent: Vec::new(),
            scans: true,
            maps: HashMap::new(),
            lists: HashMap::new(),
            lists_read: 0,
            list_time: Duration::ZERO,
            begun: Instant::now(),
        })
    }

    /// A batch of accesses is over.
    pub fn end_batch(&mut self) {
        self.absent.drain(..).for_each(|run| self.latest.forget(run));
    }

    /// `process` has just accessed the bytes from `address` to `last` in address space `space`.
    #[inline]
    pub fn meet(&mut self, process: u32, space: u32, address: u64, last: u64) {
        for number in address >> RUN_SHIFT..=last >> RUN_SHIFT {
            let run = run_of(Line::of(number << RUN_SHIFT, space));
            if self.latest.is_new(run) && !self.meet_run(process, space, run, number << RUN_SHIFT) {
                self.absent.push(run);
            }
        }
    }

    /// The rule for the page of `line`.
    pub fn placement(&self, line: Line) -> PageColoring {
        match self.known.get(&run_of(line)) {
            Some(true) => PageColoring::HugePages,
            Some(false) => PageColoring::SmallPages,
            None => self.otherwise,
        }
    }

    /// Whether `line` lies in a huge page; `None` if that is not known.
    pub fn holds(&self, line: Line) -> Option<bool> {
        self.known.get(&run_of(line)).copied()
    }

    /// Addresses `from` to `to` of address space `space` were unmapped: a new mapping there may have pages of another kind.
    pub fn forget(&mut self, space: u32, from: u64, to: u64) {
        let run = |address| run_of(Line::of(address, space));
        let gone = run(from)..run(to.saturating_sub(1)) + 1;
        self.latest = LastLookup::default();
        if let Some(list) = self.lists.get_mut(&space) {
            *list = list.iter().flat_map(|listed| listed.without(from, to)).collect();
        }
        if gone.end.saturating_sub(gone.start) > self.known.len() as u64 {
            self.known.retain(|run, _| !gone.contains(run));
        } else {
            gone.for_each(|run| _ = self.known.remove(&run));
        }
    }

    /// In words: the addresses that index the levels beyond L1.
    pub fn in_words(&self) -> String {
        let percent = 100.0 * self.huge as f64 / self.met as f64;
        match (self.huge, self.met - self.huge) {
            (0, 0) => self.otherwise.in_words().into(),
            (0, _) => PageColoring::SmallPages.in_words().into(),
            (_, 0) => PageColoring::HugePages.in_words().into(),
            _ => format!(
                "pseudo-random, runs of 2 MiB together where the kernel has huge pages ({percent:.0} % of those met), else \
                each 4 KiB page for itself"
            ),
        }
    }

    /// False if the run has no pages yet: it was prefetched, or is about to be accessed.
    #[cold]
    fn meet_run(&mut self, process: u32, space: u32, run: u64, address: u64) -> bool {
        if self.known.contains_key(&run) || self.known.len() >= MOST_RUNS {
            return true;
        }
        let huge = match self.scan(process, address) {
            Err(Errno::ENOTTY | Errno::EINVAL) => {
                self.scans = false;
                self.in_list(process, space, address)
            }
            Ok(None) => return false,
            scanned => scanned.ok().flatten(),
        };
        if let Some(huge) = huge {
            self.known.insert(run, huge);
            self.met += 1;
            self.huge += usize::from(huge);
        }
        true
    }

    /// Whether the run at `address` of `process` is mapped as a huge page now; `None` if it has no pages.
    fn scan(&mut self, process: u32, address: u64) -> nix::Result<Option<bool>> {
        if !self.scans {
            return Err(Errno::ENOTTY);
        }
        let map = self.map(process)?.as_raw_fd();
        match scan(map, address) {
            // Opened before the process replaced its program: that address space has no pages any more.
            Ok(None) => {
                self.maps.remove(&process);
                let map = self.map(process)?.as_raw_fd();
                scan(map, address)
            }
            found => found,
        }
    }

    fn map(&mut self, process: u32) -> nix::Result<&File> {
        if !self.maps.contains_key(&process) {
            if self.maps.len() == MOST_FILES {
                self.maps.clear();
            }
            let file = File::open(format!("/proc/{process}/pagemap"));
            self.maps.insert(process, file.map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)))?);
        }
        self.maps.get(&process).ok_or(Errno::ESRCH)
    }

    /// The same from the list of mappings; `None` if the list has no mapping there.
    fn in_list(&mut self, process: u32, space: u32, address: u64) -> Option<bool> {
        // The run's middle: a mapping may begin or end in it.
        let middle = address.wrapping_add(1 << (RUN_SHIFT - 1));
        // They are listed in the order of their addresses.
        let find = |list: &Vec<Listed>| {
            let before = list.partition_point(|l| l.to <= middle);
            list.get(before).filter(|l| l.from <= middle).map(|l| l.huge)
        };
        if let Some(huge) = self.lists.get(&space).and_then(find) {
            return Some(huge);
        }
        let begin = Instant::now();
        if self.lists_read == MOST_LISTS || begin - self.begun < self.list_time * LIST_SHARE {
            return None;
        }
        self.lists_read += 1;
        let list = listed(process);
        self.list_time += begin.elapsed();
        let list = list?;
        let found = find(&list);
        if self.lists.len() == MOST_FILES {
            self.lists.clear();
        }
        self.lists.insert(space, list);
        found
    }
}

fn run_of(line: Line) -> u64 {
    line.page() >> RUN_PAGES_SHIFT
}

/// Whether the run at `address` is mapped as a huge page; `None` if it has no pages.
fn scan(map: std::os::fd::RawFd, address: u64) -> nix::Result<Option<bool>> {
    const PAGE_IS_PRESENT: u64 = linux_raw_sys::general::PAGE_IS_PRESENT as u64;
    const HUGE: u64 = PAGE_IS_HUGE as u64;
    let mut region = page_region { start: 0, end: 0, categories: 0 };
    let mut argument = pm_scan_arg {
        size: size_of::<pm_scan_arg>() as u64,
        flags: 0,
        start: address,
        end: address.wrapping_add(1 << RUN_SHIFT),
        walk_end: 0,
        vec: std::ptr::from_mut(&mut region) as u64,
        vec_len: 1,
        max_pages: 0,
        category_inverted: 0,
        category_mask: PAGE_IS_PRESENT,
        category_anyof_mask: 0,
        return_mask: PAGE_IS_PRESENT | HUGE,
    };
    // SAFETY: `argument` is the structure that this request takes, and points to one region, as `vec_len` says; both outlive the call.
    let regions = unsafe { ioctl::pagemap_scan(map, &raw mut argument) }?;
    Ok((regions > 0).then_some(region.categories & HUGE != 0))
}

/// The mappings of `process` that have pages.
fn listed(process: u32) -> Option<Vec<Listed>> {
    let maps = procfs::process::Process::new(process as i32).and_then(|p| p.smaps()).ok()?;
    let list = maps.into_iter().filter_map(|map| {
        let bytes = |name: &str| map.extension.map.get(name).copied().unwrap_or(0);
        let as_huge = bytes("AnonHugePages") + bytes("ShmemPmdMapped") + bytes("FilePmdMapped");
        let huge = 2 * as_huge > bytes("Rss") || bytes("KernelPageSize") >= 1 << RUN_SHIFT;
        let (from, to) = map.address;
        (huge || bytes("Rss") > 0).then_some(Listed { from, to, huge })
    });
    Some(list.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};
    use std::num::NonZeroUsize;

    const RUN: usize = 1 << RUN_SHIFT;

    /// The addresses of two runs of 2 MiB that were written to, the first asked to be a huge page, the second not to be one.
    fn two_runs() -> [u64; 2] {
        let length = NonZeroUsize::new(3 * RUN).unwrap();
        let (rights, kind) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        // SAFETY: a mapping of its own, anywhere, that stays.
        let mapped = unsafe { mmap_anonymous(None, length, rights, kind).unwrap() };
        let first = mapped.as_ptr().align_offset(RUN);
        [(first, MmapAdvise::MADV_HUGEPAGE), (first + RUN, MmapAdvise::MADV_NOHUGEPAGE)].map(|(at, advice)| {
            // SAFETY: inside the mapping, which no other code knows of.
            unsafe {
                let run = mapped.byte_add(at);
                let _ = madvise(run, RUN, advice);
                for page in 0..RUN >> PAGE_SHIFT {
                    run.cast::<u8>().add(page << PAGE_SHIFT).write_volatile(1);
                }
                run.as_ptr() as u64
            }
        })
    }

    /// For both runs whether they are huge pages, according to the one or the other source.
    fn found(scans: bool) -> [Option<bool>; 2] {
        let runs = two_runs();
        let mut pages = HugePages { scans, ..HugePages::new(PageColoring::Identity).unwrap() };
        runs.map(|at| {
            pages.meet(std::process::id(), 0, at + 100, at + 200);
            pages.known.get(&run_of(Line::of(at, 0))).copied()
        })
    }

    #[test]
    fn both_sources_know_huge_pages() {
        let [by_scan, by_list] = [found(true), found(false)];
        println!("scan: {by_scan:?}, list: {by_list:?}");
        assert_eq!(by_list[1], Some(false));
        assert!(by_scan[1].is_none_or(|huge| !huge));
        match by_list[0] {
            Some(true) => assert!(by_scan[0].is_none_or(|huge| huge), "a kernel without the scan asks the list"),
            _ => println!("SKIPPED: huge-pages: the kernel gave no huge page"),
        }
    }

    #[test]
    fn what_has_no_pages_yet_is_asked_for_again_with_the_next_batch() {
        let length = NonZeroUsize::new(2 * RUN).unwrap();
        let (rights, kind) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        // SAFETY: a mapping of its own, anywhere, that stays.
        let mapped = unsafe { mmap_anonymous(None, length, rights, kind).unwrap() };
        // SAFETY: inside the mapping, which no other code knows of.
        let run = unsafe { mapped.cast::<u8>().add(mapped.as_ptr().align_offset(RUN)) };
        let address = run.as_ptr() as u64;
        let mut pages = HugePages::new(PageColoring::Identity).unwrap();
        let known = |pages: &mut HugePages| {
            pages.meet(std::process::id(), 0, address, address);
            pages.known.get(&run_of(Line::of(address, 0))).copied()
        };
        assert_eq!(known(&mut pages), None);
        if !pages.scans {
            return println!("SKIPPED: kernel: the kernel has no PAGEMAP_SCAN");
        }
        // SAFETY: as above.
        unsafe { run.write_volatile(1) };
        assert_eq!(known(&mut pages), None, "a prefetch that runs ahead asks once");
        pages.end_batch();
        assert!(known(&mut pages).is_some());
    }

    #[test]
    fn lists_lose_what_is_unmapped() {
        let listed = |from, to| Listed { from, to, huge: true };
        let mut pages = HugePages::new(PageColoring::Identity).unwrap();
        pages.lists = [0, 1].map(|space| (space, vec![listed(0, 100), listed(200, 300), listed(300, 400)])).into();
        pages.forget(0, 50, 350);
        assert_eq!(pages.lists[&0], [listed(0, 50), listed(350, 400)]);
        pages.forget(0, 10, 20);
        assert_eq!(pages.lists[&0], [listed(0, 10), listed(20, 50), listed(350, 400)]);
        assert_eq!(pages.lists[&1].len(), 3);
    }

    #[test]
    fn what_is_unmapped_is_forgotten() {
        let mut pages = HugePages::new(PageColoring::Identity).unwrap();
        let run = |space, number: u64| run_of(Line::of(number << RUN_SHIFT, space));
        for (from, to) in [(2 << RUN_SHIFT, (3 << RUN_SHIFT) + 1), (1 << 30, 1 << 40), (7, 7)] {
            pages.known =
                [run(0, 1), run(0, 2), run(0, 3), run(0, 4), run(1, 2)].map(|run| (run, true)).into_iter().collect();
            pages.forget(0, from, to);
            let left: Vec<_> = (1..5).filter(|&n| pages.known.contains_key(&run(0, n))).collect();
            assert_eq!(left, if from == 2 << RUN_SHIFT { vec![1, 4] } else { vec![1, 2, 3, 4] });
            assert!(pages.known.contains_key(&run(1, 2)));
        }
    }

    #[test]
    fn lines_are_placed_as_their_pages_are() {
        let mut pages = HugePages::new(PageColoring::SmallPages).unwrap();
        pages.known.extend([(0, true), (1, false)]);
        (pages.met, pages.huge) = (2, 1);
        let line = |run: u64| Line::of(run * RUN as u64 + 0x4_5678, 0);
        let placements = [0, 1, 2].map(|run| pages.placement(line(run)));
        assert_eq!(placements, [PageColoring::HugePages, PageColoring::SmallPages, PageColoring::SmallPages]);
        assert!(pages.in_words().contains("(50 % of those met)"), "{}", pages.in_words());
    }

    #[test]
    fn who_cannot_be_asked_is_placed_by_the_rule() {
        let mut pages = HugePages::new(PageColoring::Identity).unwrap();
        pages.meet(u32::MAX, 0, 0x1000, 0x2000);
        assert!(pages.known.is_empty());
        assert_eq!(pages.in_words(), PageColoring::Identity.in_words());
        let mut listing = HugePages { scans: false, ..HugePages::new(PageColoring::Identity).unwrap() };
        listing.meet(u32::MAX, 0, 0x1000, 0x2000);
        assert!(listing.known.is_empty());
    }
}
