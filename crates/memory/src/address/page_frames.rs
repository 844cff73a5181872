//! The frames of pages in physical memory, read from the page maps of the processes.
//!
//! `/proc/PID/pagemap` has eight bytes for each 4 KiB page of a process: bit 63 says that it is in memory, bits 0–54 are the number of its
//! frame (Documentation/admin-guide/mm/pagemap.rst). Without CAP_SYS_ADMIN the kernel shows 0 in its place.
//!
//! A page is looked up when it is first accessed, and keeps its frame: caches find a line at the place they put it. In
//! a guest frames are the guest's; the host keeps at least their order within its own (mostly huge) pages.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::unistd::{SysconfVar, sysconf};

use crate::address::page_color::PageColoring;
use crate::caches::hash::Mixing;
use crate::caches::last_lookup::LastLookup;
use crate::caches::line::Line;

/// Bytes of one page in a page map, and in the kernel's flags of frames.
const ENTRY: usize = 8;
const PRESENT: u64 = 1 << 63;
/// A file's page, or shared memory.
const OF_FILE: u64 = 1 << 61;
/// Mapped here alone.
const EXCLUSIVE: u64 = 1 << 56;
const FRAME: u64 = (1 << 55) - 1;
/// Flag of the page of zeros, which represents all pages that were only read yet.
const ZERO_PAGE: u64 = 1 << 24;
/// Pages that are read at a time, aligned: programs mostly touch neighbouring pages together.
const RUN: u64 = 64;
/// Maximum frames that are remembered: 36 MB. Pages beyond use the rule for unknown pages.
const MOST_PAGES: usize = 1 << 20;
/// The same if only the latest are wanted: 5 MB.
const MOST_LATEST: usize = 1 << 17;
/// Maximum page maps that are held open.
const MOST_FILES: usize = 64;

/// The frames of pages, as far as they are known.
#[derive(Debug, Default)]
pub struct Frames {
    /// Whether all known frames are forgotten when there are too many.
    forgets: bool,
    /// By page of an address space.
    known: HashMap<u64, Known, Mixing>,
    files: HashMap<u32, File>,
    /// `/proc/kpageflags`.
    flags: Option<File>,
    /// Pages of the present batch that were only read yet: all other pages may have been written since they were met.
    unwritten: HashSet<u64, Mixing>,
    latest: LastLookup,
    /// Number of pages met, number of frames found for them, and whether there were more than there is room for.
    met: u64,
    told: u64,
    too_many: bool,
}

/// A page's frame: the low 31 bits of its number, all set if it is unknown; above them whether the page was accessed, not only read from
/// the map with a neighbour.
#[derive(Debug, Clone, Copy)]
struct Known(u32);

const MET: u32 = 1 << 31;

impl Known {
    const UNTOLD: Known = Known(MET - 1);

    fn told(frame: u64) -> Self {
        Known(frame as u32 & Known::UNTOLD.0)
    }

    fn frame(self) -> Option<u64> {
        let frame = self.0 & !MET;
        (frame != Known::UNTOLD.0).then_some(u64::from(frame))
    }
}

impl Frames {
    /// No frames yet; `None` if this process may not see frames, as its own pages show.
    pub fn readable() -> Option<Self> {
        if sysconf(SysconfVar::PAGE_SIZE).ok()?? != 1 << 12 {
            return None;
        }
        let here = Box::new(1u8);
        let own = File::open("/proc/self/pagemap").ok()?;
        let page = std::ptr::from_ref(&*here) as u64 >> 12;
        frame(*read(&own, page, 1)?.first()?)?;
        Some(Frames { flags: File::open("/proc/kpageflags").ok(), ..Frames::default() })
    }

    /// The same for accesses of one short interval at a time, with less room.
    pub fn of_the_latest(self) -> Self {
        Frames { forgets: true, ..self }
    }

    /// Made-up frames of the first pages of an address space.
    #[cfg(test)]
    pub fn made_up(pages: u64, frame: impl Fn(u64) -> u64) -> Self {
        let known = |page| (page, Known::told(frame(page)));
        Frames { known: (0..pages).map(known).collect(), ..Frames::default() }
    }

    /// `process` accesses `line`, so its page has a frame by now.
    #[inline]
    pub fn meet(&mut self, process: u32, line: Line) {
        self.meet_if(process, line, || true);
    }

    /// The same if the page is `wanted`.
    #[inline]
    pub fn meet_if(&mut self, process: u32, line: Line, wanted: impl FnOnce() -> bool) {
        if self.latest.is_new(line.page()) && wanted() {
            self.meet_page(process, line);
        }
    }

    /// A batch of accesses is over.
    pub fn end_batch(&mut self) {
        if !self.unwritten.is_empty() {
            self.unwritten.clear();
            self.latest = LastLookup::default();
        }
    }

    /// Addresses `from` to `to` of address space `space` were unmapped: a new mapping there has frames of its own.
    pub fn forget(&mut self, space: u32, from: u64, to: u64) {
        let page = |address| Line::of(address, space).page();
        let gone = page(from)..page(to.saturating_sub(1)) + 1;
        self.latest = LastLookup::default();
        if gone.end.saturating_sub(gone.start) > self.known.len() as u64 {
            self.known.retain(|page, _| !gone.contains(page));
        } else {
            gone.for_each(|page| _ = self.known.remove(&page));
        }
    }

    /// The number of the frame of `line`'s page, the low 31 bits of it.
    pub fn of(&self, line: Line) -> Option<u64> {
        self.known.get(&line.page())?.frame()
    }

    /// In words: the addresses that index the levels beyond L1; `otherwise` is the rule for pages without a frame.
    pub fn in_words(&self, otherwise: PageColoring) -> String {
        let share = if self.met == 0 { 0.0 } else { self.told as f64 / self.met as f64 };
        match share {
            1.0 if !self.too_many => "the frames of the page map".into(),
            0.0 => format!("{}; the page map gave no frame", otherwise.in_words()),
            // A share below 100 % is never rounded up to 100 %.
            share => format!(
                "the frames of the page map for {:.1} % of the {}pages, else {}",
                (1000.0 * share).floor() / 10.0,
                if self.too_many { format!("first {MOST_PAGES} ") } else { String::new() },
                otherwise.in_words()
            ),
        }
    }

    fn meet_page(&mut self, process: u32, line: Line) {
        if self.unwritten.contains(&line.page()) {
            return;
        }
        if !self.known.contains_key(&line.page()) {
            if self.forgets && self.known.len() >= MOST_LATEST - RUN as usize {
                self.known.clear();
                self.latest = LastLookup::default();
            }
            if self.known.len() >= MOST_PAGES {
                self.too_many = true;
                return;
            }
            self.look_up(process, line);
        }
        let Some(known) = self.known.get_mut(&line.page()) else { return };
        if known.0 & MET == 0 {
            self.met += 1;
            self.told += u64::from(known.frame().is_some());
            known.0 |= MET;
        }
    }

    /// Reads the frames of `line`'s page and its neighbours. A page that was only read yet has no frame of its own: it is looked up again
    /// when another batch meets it.
    #[cold]
    fn look_up(&mut self, process: u32, line: Line) {
        let first = line.virtual_page() & !(RUN - 1);
        let wanted = (line.virtual_page() - first) as usize;
        // A map opened before the process executed another program shows the old program's pages.
        let entries = (self.entries(process, first).filter(|all| all.get(wanted).is_some_and(|e| frame(*e).is_some())))
            .or_else(|| self.files.remove(&process).and_then(|_| self.entries(process, first)));
        let space = line.page() - line.virtual_page();
        for (number, entry) in entries.iter().flatten().enumerate() {
            // Otherwise a page of zeros, or one shared by a fork.
            let own = entry & (OF_FILE | EXCLUSIVE) != 0;
            match frame(*entry) {
                Some(frame) if number == wanted && !own && self.is_zeros(frame) => {
                    self.unwritten.insert(line.page());
                    return;
                }
                Some(frame) if number == wanted || own => {
                    self.known.entry(space | (first + number as u64)).or_insert(Known::told(frame));
                }
                _ => {}
            }
        }
        self.known.entry(line.page()).or_insert(Known::UNTOLD);
    }

    fn is_zeros(&self, frame: u64) -> bool {
        let flags = self.flags.as_ref().and_then(|file| read(file, frame, 1));
        flags.is_some_and(|flags| flags[0] & ZERO_PAGE != 0)
    }

    /// The entries of the run of pages that begins at `first`.
    fn entries(&mut self, process: u32, first: u64) -> Option<Vec<u64>> {
        if !self.files.contains_key(&process) {
            if self.files.len() == MOST_FILES {
                self.files.clear();
            }
            self.files.insert(process, File::open(format!("/proc/{process}/pagemap")).ok()?);
        }
        read(self.files.get(&process)?, first, RUN as usize)
    }
}

/// The frame that an entry names.
fn frame(entry: u64) -> Option<u64> {
    let frame = entry & FRAME;
    (entry & PRESENT != 0 && frame != 0).then_some(frame)
}

/// As many of the `pages` entries from page `first` on as there are; `None` if there are none.
fn read(map: &File, first: u64, pages: usize) -> Option<Vec<u64>> {
    let mut bytes = vec![0; pages * ENTRY];
    let got = map.read_at(&mut bytes, first * ENTRY as u64).ok()?;
    let entries = bytes[..got].as_chunks::<ENTRY>().0;
    (!entries.is_empty()).then(|| entries.iter().map(|entry| u64::from_ne_bytes(*entry)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous};
    use std::num::NonZeroUsize;

    const PAGE: usize = 4096;

    /// Two views of one file of `pages` pages, written to.
    fn two_views(pages: usize) -> [u64; 2] {
        let file = File::from(memfd_create(c"frames", MFdFlags::empty()).unwrap());
        file.set_len((pages * PAGE) as u64).unwrap();
        let length = NonZeroUsize::new(pages * PAGE).unwrap();
        [(); 2].map(|()| {
            // SAFETY: a mapping of its own, anywhere, that stays.
            let view = unsafe {
                mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, &file, 0)
                    .unwrap()
            };
            for page in 0..pages {
                // SAFETY: inside the mapping, which no other code knows of.
                unsafe { view.cast::<u8>().add(page * PAGE).write_volatile(1) };
            }
            view.as_ptr() as u64
        })
    }

    #[test]
    fn two_views_of_a_page_have_one_frame_and_two_pages_have_two() {
        let Some(mut frames) = Frames::readable() else {
            return println!("SKIPPED: root: this process may not see page frames");
        };
        let process = std::process::id();
        let views = two_views(100);
        let mut met = std::collections::HashSet::new();
        for page in 0..100 {
            let [one, other] = views.map(|view| Line::of(view + page * PAGE as u64 + 64, 0));
            frames.meet(process, one);
            frames.meet(process, other);
            assert!(frames.of(one).is_some() && frames.of(one) == frames.of(other), "{frames:?}");
            met.insert(frames.of(one));
        }
        assert_eq!(met.len(), 100);
        assert_eq!(frames.in_words(PageColoring::SmallPages), "the frames of the page map");
    }

    #[test]
    fn a_page_that_was_only_read_has_no_frame_until_it_is_written() {
        let Some(mut frames) = Frames::readable().filter(|frames| frames.flags.is_some()) else {
            return println!("SKIPPED: root: this process may not see page frames");
        };
        let process = std::process::id();
        let length = NonZeroUsize::new(2 * PAGE).unwrap();
        let (rights, kind) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        // SAFETY: a mapping of its own, anywhere, that stays.
        let fresh = unsafe { mmap_anonymous(None, length, rights, kind).unwrap() }.cast::<u8>();
        let lines = [0, PAGE].map(|offset| Line::of(fresh.as_ptr() as u64 + offset as u64, 0));
        // SAFETY: inside the mapping, which no other code knows of.
        unsafe { assert_eq!((fresh.read_volatile(), fresh.add(PAGE).read_volatile()), (0, 0)) };
        lines.iter().for_each(|line| frames.meet(process, *line));
        assert_eq!(lines.map(|line| frames.of(line)), [None; 2]);
        // SAFETY: as above.
        unsafe { (fresh.write_volatile(1), fresh.add(PAGE).write_volatile(1)) };
        frames.end_batch();
        lines.iter().for_each(|line| frames.meet(process, *line));
        let [first, second] = lines.map(|line| frames.of(line));
        assert!(first.is_some() && second.is_some() && first != second, "{frames:?}");
    }

    #[test]
    fn what_is_unmapped_is_forgotten() {
        let page = |number: u64| Line::of(number << 12, 0);
        for (from, to, left) in [(2 << 12, 4 << 12, 98), (2 << 12, 1 << 40, 2), (1 << 40, 1 << 41, 100)] {
            let mut frames = Frames::made_up(100, |page| page + 7);
            frames.forget(0, from, to);
            assert_eq!((0..100).filter(|n| frames.of(page(*n)).is_some()).count(), left);
            assert_eq!(frames.of(page(1)), Some(8));
        }
    }

    #[test]
    fn a_page_that_is_not_there_has_no_frame_and_is_not_asked_for_again() {
        let mut frames = Frames::default();
        let (nowhere, nobody) = (Line::of(0x1000, 0), Line::of(0x1000, 1));
        for (process, line) in [(std::process::id(), nowhere), (u32::MAX, nobody), (std::process::id(), nowhere)] {
            frames.meet(process, line);
            assert_eq!(frames.of(line), None);
        }
        assert_eq!((frames.met, frames.told), (2, 0));
        assert!(frames.in_words(PageColoring::HugePages).ends_with("gave no frame"));
        let some = Frames { met: 10_000, told: 9_999, ..Frames::default() };
        assert!(some.in_words(PageColoring::SmallPages).contains("for 99.9 % of the pages"), "never told as all");
        let many = Frames { met: 1 << 20, told: 1 << 20, too_many: true, ..Frames::default() };
        assert!(many.in_words(PageColoring::SmallPages).contains("of the first 1048576 pages"));
    }

    #[test]
    fn entries_without_a_frame_tell_none() {
        assert_eq!(frame(PRESENT | 77), Some(77));
        // Swapped out; not shown to those without the right to see it.
        assert_eq!((frame(77), frame(PRESENT)), (None, None));
    }
}
