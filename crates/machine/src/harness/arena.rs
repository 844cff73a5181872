//! Memory for arrays: a slab for each thread, touched first by that thread.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::Team;
use crate::error::MachineError;

/// Huge pages are this large on x86-64.
const HUGE: u64 = 2 << 20;

/// Which pages a buffer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// 4 KiB, from anywhere in physical memory.
    Small,
    /// 4 KiB pages in contiguous pieces of 2 MiB, if the kernel grants huge pages: huge pages that are mapped in small pieces. Only
    /// address translation makes them slower than [`Huge`](Self::Huge), and by the same amount from run to run.
    Split,
    /// 2 MiB if the kernel grants them.
    Huge,
}

impl Pages {
    /// Whether the CPU translates their addresses 4 KiB at a time.
    pub fn are_small(self) -> bool {
        self != Pages::Huge
    }
}

/// A private anonymous mapping.
#[derive(Debug)]
pub struct Buffer {
    base: *mut u8,
    length: usize,
}

// SAFETY: plain memory; `Arena` decides what each thread writes to, and its slabs do not overlap.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Maps `bytes`, aligned to 2 MiB, untouched.
    ///
    /// # Errors
    /// [`MachineError::Buffer`] if the kernel refuses.
    pub fn new(bytes: u64, pages: Pages) -> Result<Self, MachineError> {
        let length = (bytes.next_multiple_of(HUGE) + HUGE) as usize;
        // SAFETY: a fresh private anonymous mapping; no existing memory is touched.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(MachineError::Buffer { bytes, source: io::Error::last_os_error() });
        }
        let advice = if pages == Pages::Small { libc::MADV_NOHUGEPAGE } else { libc::MADV_HUGEPAGE };
        // SAFETY: advice on our own mapping. Kernels without huge pages refuse it, which changes nothing but speed.
        unsafe { libc::madvise(base, length, advice) };
        Ok(Buffer { base: base.cast(), length })
    }

    /// Maps the touched huge pages as small ones, at the same physical addresses.
    fn split(&self) {
        let end = self.base as u64 + self.length as u64;
        for piece in (self.address()..=end - HUGE).step_by(HUGE as usize) {
            for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
                // SAFETY: inside our own mapping, which no thread writes meanwhile. A page with a protection of its own gets a mapping of
                // its own, and so do the pages beside it. If the kernel refuses, they stay unchanged.
                unsafe { libc::mprotect(piece as *mut libc::c_void, 4096, protection) };
            }
        }
        // SAFETY: advice on our own mapping, against putting them together again.
        unsafe { libc::madvise(self.base.cast(), self.length, libc::MADV_NOHUGEPAGE) };
    }

    /// First address that is a multiple of 2 MiB.
    pub fn address(&self) -> u64 {
        (self.base as u64).next_multiple_of(HUGE)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping of `new`; kernels that use it have returned, since they run under a borrow.
        unsafe { libc::munmap(self.base.cast(), self.length) };
    }
}

/// The content of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Zeros, or anything.
    Any,
    /// Ones, of eight bytes.
    Ones,
    /// A cycle through the first `nodes` lines of each of `slabs` slabs.
    Cycles {
        /// Slabs.
        slabs: usize,
        /// Lines of one.
        nodes: u64,
    },
}

/// Most bytes of a window: one pass takes some milliseconds.
const WINDOW: u64 = 32 << 20;

/// Fewest windows of a slab.
const WINDOWS: u64 = 8;

/// A slab for each of `threads` threads.
#[derive(Debug, Clone)]
pub struct Arena {
    buffer: Arc<Buffer>,
    content: Arc<Mutex<Content>>,
    walked: Arc<AtomicU64>,
    /// Bytes of one slab, a multiple of 4 KiB.
    pub slab: u64,
    /// Threads that have one.
    pub threads: usize,
}

impl Arena {
    /// Maps `total` bytes, divides them, and has each thread touch its own slab; `one_node`: the first thread
    /// touches all, so that all memory is on its node.
    ///
    /// # Errors
    /// [`MachineError::Buffer`], [`MachineError::Thread`].
    pub fn new(team: &Team, threads: usize, total: u64, pages: Pages, one_node: bool) -> Result<Self, MachineError> {
        let arena = Arena::untouched(threads, total, pages)?;
        let slab = arena.slab;
        let touched = arena.clone();
        let touch = Arc::new(move |rank: usize| {
            let (first, bytes) = if one_node { (0, slab * threads as u64) } else { (rank as u64 * slab, slab) };
            if one_node && rank > 0 {
                return;
            }
            let base = (touched.buffer.address() + first) as *mut u8;
            for offset in (0..bytes as usize).step_by(4096) {
                // SAFETY: inside the mapping (slab · threads bytes behind its address), and no other thread has this slab.
                unsafe { base.add(offset).write_volatile(0) };
            }
        });
        team.run(threads, touch)?;
        arena.settle(pages);
        Ok(arena)
    }

    fn untouched(threads: usize, total: u64, pages: Pages) -> Result<Self, MachineError> {
        let slab = (total / threads as u64).next_multiple_of(HUGE);
        let buffer = Arc::new(Buffer::new(slab * threads as u64, pages)?);
        let content = Arc::new(Mutex::new(Content::Any));
        Ok(Arena { buffer, content, walked: Arc::default(), slab, threads })
    }

    /// The same memory, filled with ones at the first touch; `None` if that is not done before `end`. If a hypervisor has not yet given
    /// the memory to this host, half a GiB may take a second.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn filled(
        team: &Team,
        threads: usize,
        total: u64,
        pages: Pages,
        end: Instant,
    ) -> Result<Option<Self>, MachineError> {
        let arena = Arena::untouched(threads, total, pages)?;
        if !arena.fill_until(team, Some(end))? {
            return Ok(None);
        }
        arena.settle(pages);
        Ok(Some(arena))
    }

    /// Makes the touched pages `pages`.
    fn settle(&self, pages: Pages) {
        if pages == Pages::Split {
            self.buffer.split();
        }
    }

    /// The same memory, divided among `threads` threads; it stays on the nodes of the threads that touched it.
    pub fn divided(&self, threads: usize) -> Self {
        Arena { slab: self.total() / threads as u64 / HUGE * HUGE, threads, ..self.clone() }
    }

    /// Fills all slabs with ones, of eight bytes, each by its own thread, unless they hold them already. Kernels that store their loaded
    /// values must not do so to fresh pages: memory takes lines of zeros faster than others (Zen 5 stores them at 1.2 times the rate, past
    /// the caches at 2.2 times), while the data of programs is not zero.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn fill(&self, team: &Team) -> Result<(), MachineError> {
        if !self.holds_ones() {
            self.fill_until(team, None)?;
        }
        Ok(())
    }

    /// Fills as long as there is time; returns whether all of it is filled.
    fn fill_until(&self, team: &Team, end: Option<Instant>) -> Result<bool, MachineError> {
        let (filled, late) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let told = late.clone();
        let fill = move |rank: usize| {
            let base = filled.slab_address(rank) as *mut f64;
            for offset in (0..filled.slab).step_by(HUGE as usize) {
                if end.is_some_and(|end| Instant::now() >= end) {
                    return told.store(true, Ordering::Relaxed);
                }
                let first = offset as usize / size_of::<f64>();
                for n in first..first + HUGE as usize / size_of::<f64>() {
                    // SAFETY: inside this thread's slab, a multiple of 2 MiB, which is aligned and which no other thread has.
                    unsafe { base.add(n).write(1.0) };
                }
            }
        };
        team.run(self.threads, Arc::new(fill))?;
        let all = !late.load(Ordering::Relaxed);
        self.note_content(if all { Content::Ones } else { Content::Any });
        Ok(all)
    }

    /// The content of this memory.
    pub fn content(&self) -> Content {
        *self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is filled with ones.
    pub fn holds_ones(&self) -> bool {
        self.content() == Content::Ones
    }

    /// Notes the content that was written to this memory.
    pub fn note_content(&self, content: Content) {
        *self.content.lock().unwrap_or_else(PoisonError::into_inner) = content;
    }

    /// A new number for this memory on each call.
    pub fn turn(&self) -> u64 {
        self.walked.fetch_add(1, Ordering::Relaxed)
    }

    /// Most bytes of one window of a slab.
    pub fn window(&self) -> u64 {
        (self.slab / WINDOWS).clamp(HUGE, WINDOW) / HUGE * HUGE
    }

    /// Windows that were walked in this memory.
    pub fn walked(&self) -> Arc<AtomicU64> {
        self.walked.clone()
    }

    /// Address of the slab of `rank`.
    pub fn slab_address(&self, rank: usize) -> u64 {
        self.buffer.address() + rank as u64 * self.slab
    }

    /// Bytes of all slabs together; they are contiguous from the first one's address.
    pub fn total(&self) -> u64 {
        self.slab * self.threads as u64
    }

    /// Share of the slabs on huge pages, as the kernel reports it; `None` if it reports none.
    pub fn huge_share(&self) -> Option<f64> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let huge = huge_kib(&maps, self.buffer.base as u64)? << 10;
        Some((huge as f64 / self.total() as f64).min(1.0))
    }

    /// Addresses of `arrays` arrays of `bytes`, `skip` bytes into the slab of `rank`, each `padding` bytes further than whole pages
    /// from the one before it; `None` if the slab is too small.
    pub fn arrays(&self, rank: usize, (skip, padding): (u64, u64), arrays: u64, bytes: u64) -> Option<[u64; 4]> {
        let pitch = bytes.next_multiple_of(4096) + padding;
        if arrays == 0 || skip + (arrays - 1) * pitch + bytes > self.slab {
            return None;
        }
        Some(std::array::from_fn(|n| self.slab_address(rank) + skip + (n as u64).min(arrays - 1) * pitch))
    }
}

/// `AnonHugePages` of the mapping that holds `address`, in KiB.
fn huge_kib(smaps: &str, address: u64) -> Option<u64> {
    let holds = |line: &str| {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        Some((from..to).contains(&address))
    };
    let mut lines = smaps.lines().skip_while(|line| holds(line) != Some(true));
    lines.find_map(|l| l.strip_prefix("AnonHugePages:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// Padding between arrays, so that neither their cache sets nor the low 12 bits of loads and preceding stores coincide: 21 lines, a third
/// of a page, which spreads three arrays over the page's offsets.
pub const PADDING: u64 = 21 * 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_read_from_the_mapping_that_holds_the_address() {
        let smaps = "10000-20000 rw-p 0 00:00 0\nAnonHugePages:   0 kB\n20000-90000 rw-p 0 00:00 0\nRss: 1 kB\nAnonHugePages:  4096 kB\n";
        assert_eq!(huge_kib(smaps, 0x30000), Some(4096));
        assert_eq!(huge_kib(smaps, 0x10000), Some(0));
        assert_eq!(huge_kib(smaps, 0x90000), None);
    }

    #[test]
    fn small_pages_are_small() {
        let team = Team::new(&crate::host::limits::Limits::read().cpus[..1]).expect("one thread");
        let share = |arena: &Arena| match arena.huge_share() {
            Some(share) => share,
            None => {
                println!("SKIPPED: huge-pages: /proc/self/smaps does not report huge pages");
                0.0
            }
        };
        let arena = |pages| Arena::new(&team, 1, 8 << 20, pages, false).expect("8 MiB");
        assert_eq!((share(&arena(Pages::Small)), share(&arena(Pages::Split))), (0.0, 0.0));
        let huge = arena(Pages::Huge);
        if share(&huge) == 0.0 {
            println!("SKIPPED: huge-pages: the kernel grants no huge pages to split");
        }
        huge.fill(&team).expect("the thread runs");
        huge.settle(Pages::Split);
        assert_eq!((share(&huge), huge.content()), (0.0, Content::Ones));
        // SAFETY: inside the mapping, which no thread writes now.
        assert_eq!(unsafe { (huge.slab_address(0) as *const f64).read() }, 1.0, "what it held, it holds");
    }

    #[test]
    fn what_is_not_filled_in_time_is_not_given_out() {
        let team = Team::new(&crate::host::limits::Limits::read().cpus[..1]).expect("one thread");
        let now = Instant::now();
        assert!(Arena::filled(&team, 1, 4 << 20, Pages::Huge, now).expect("4 MiB").is_none());
        let filled = Arena::filled(&team, 1, 4 << 20, Pages::Huge, now + std::time::Duration::from_secs(60));
        assert_eq!(filled.expect("4 MiB").map(|arena| arena.content()), Some(Content::Ones));
    }

    #[test]
    fn a_filled_arena_has_no_zeros() {
        let team = Team::new(&crate::host::limits::Limits::read().cpus[..1]).expect("one thread");
        let arena = Arena::new(&team, 1, 4 << 20, Pages::Small, false).expect("4 MiB");
        // SAFETY: the mapping holds as many bytes behind its address, and no thread writes them now.
        let all = || unsafe {
            std::slice::from_raw_parts(arena.slab_address(0) as *const f64, arena.total() as usize / size_of::<f64>())
        };
        assert!(all().iter().all(|x| *x == 0.0));
        arena.fill(&team).expect("the thread runs");
        assert!(all().iter().all(|x| *x == 1.0));
    }

    #[test]
    fn arrays_lie_in_their_slab_and_do_not_overlap() {
        let team = Team::new(&crate::host::limits::Limits::read().cpus[..1]).expect("one thread");
        let arena = Arena::new(&team, 1, 4 << 20, Pages::Small, false).expect("4 MiB");
        let at = arena.arrays(0, (4096, PADDING), 3, 1 << 20).expect("fits");
        assert!(at[0] >= arena.slab_address(0) && at[2] + (1 << 20) <= arena.slab_address(0) + arena.slab);
        assert!(at[1] >= at[0] + (1 << 20) && at[2] >= at[1] + (1 << 20));
        assert!(at.iter().all(|a| a % 64 == 0));
        assert!(arena.arrays(0, (0, PADDING), 3, 2 << 20).is_none());
    }
}
