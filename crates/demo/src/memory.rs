//! The kernels' arrays: mapped memory, touched by the thread that uses it, and the random cycle of the chases.

use std::io;
use std::ptr::{self, NonNull};

use super::error::DemoError;

/// Line size that nodes of the cycle are laid out for.
const LINE: usize = 64;
/// Arrays start this much further than page boundaries, so that equal indices of two arrays do not share a set.
const STAGGER: usize = 21 * LINE;

/// Anonymous zeroed memory, present and, if the host grants it, in huge pages.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` and touches every page from the calling thread.
    pub fn new(bytes: usize) -> Result<Mapping, DemoError> {
        let bytes = bytes.next_multiple_of(2 << 20);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping touches no memory of ours.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        let failed = |source| DemoError::Map { bytes, source };
        let start = match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => start,
            _ => return Err(failed(io::Error::last_os_error())),
        };
        let mapping = Mapping { start, bytes };
        // SAFETY: the range is the mapping just made; both advices keep its contents.
        let populated = unsafe {
            libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
            libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) == 0
        };
        if !populated {
            for offset in (0..bytes).step_by(4096) {
                // SAFETY: offset < bytes, the mapping is writable and no other code has it.
                unsafe { start.as_ptr().add(offset).write_volatile(0) };
            }
        }
        Ok(mapping)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.bytes);
        self.start.as_ptr().wrapping_add(offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and bytes are those of a mapping that only this value owns.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The arguments a, b and c of a kernel, with the memory behind them.
#[derive(Debug)]
pub struct Arguments {
    /// The three pointers.
    pub pointers: [*mut u8; 3],
    _memory: Option<Mapping>,
    _starts: Option<Box<[*mut u8; 8]>>,
}

impl Arguments {
    /// No data.
    pub fn none() -> Arguments {
        Arguments { pointers: [ptr::null_mut(); 3], _memory: None, _starts: None }
    }

    /// `count` (1 to 3) arrays of `bytes` each, full of ones: memory takes lines of zeros faster than those of programs.
    pub fn arrays(count: usize, bytes: usize) -> Result<Arguments, DemoError> {
        let step = bytes.next_multiple_of(4096) + STAGGER;
        let memory = Mapping::new(step * count)?;
        // SAFETY: the mapping is page-aligned, holds that many bytes and no other code has it.
        unsafe { std::slice::from_raw_parts_mut(memory.at(0).cast::<f64>(), step * count / size_of::<f64>()) }
            .fill(1.0);
        let pointers = [0, 1, 2].map(|i| if i < count { memory.at(i * step) } else { ptr::null_mut() });
        Ok(Arguments { pointers, _memory: Some(memory), _starts: None })
    }

    /// A cycle through all lines of `bytes` (rounded down to a power of two) in random order; a points to the eight
    /// addresses at which eight chases start, evenly apart on the cycle.
    pub fn ring(bytes: usize) -> Result<Arguments, DemoError> {
        let order = Permutation::new((bytes / LINE).ilog2());
        let memory = Mapping::new(order.len() * LINE)?;
        for node in 0..order.len() {
            let next = order.place((order.turn(node) + 1) % order.len());
            // SAFETY: node and next are below len, the mapping holds len lines and a line holds a pointer.
            unsafe { memory.at(node * LINE).cast::<*mut u8>().write(memory.at(next * LINE)) };
        }
        let mut starts = Box::new([0, 1, 2, 3, 4, 5, 6, 7].map(|i| memory.at(order.place(i * order.len() / 8) * LINE)));
        let a = starts.as_mut_ptr().cast();
        Ok(Arguments { pointers: [a, ptr::null_mut(), ptr::null_mut()], _memory: Some(memory), _starts: Some(starts) })
    }

    /// A zeroed table of `bytes` (rounded down to a power of two); c is the mask of a byte offset in it, to 8 bytes.
    pub fn table(bytes: usize) -> Result<Arguments, DemoError> {
        let bytes = 1usize << bytes.ilog2();
        let memory = Mapping::new(bytes)?;
        let mask = ptr::without_provenance_mut(bytes - 8);
        Ok(Arguments { pointers: [memory.at(0), ptr::null_mut(), mask], _memory: Some(memory), _starts: None })
    }
}

/// A pseudo-random bijection on `0..2^bits`, computable both ways, so that the cycle is written in address order.
struct Permutation {
    bits: u32,
}

impl Permutation {
    /// One round each: a few lines in a thousand at most are followed by their neighbour, even in small rings.
    const FACTORS: [u64; 4] =
        [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];

    /// Of the factors, modulo 2^64.
    const INVERSES: [u64; 4] = {
        let [a, b, c, d] = Self::FACTORS;
        [inverse(a), inverse(b), inverse(c), inverse(d)]
    };

    fn new(bits: u32) -> Permutation {
        Permutation { bits: bits.max(3) }
    }

    fn len(&self) -> usize {
        1 << self.bits
    }

    /// x ^ x >> s is its own inverse for s ≥ bits / 2.
    fn fold(&self, x: u64) -> u64 {
        x ^ (x >> self.bits.div_ceil(2))
    }

    fn times(&self, x: u64, factor: u64) -> u64 {
        x.wrapping_mul(factor) & (self.len() as u64 - 1)
    }

    /// The line that is visited in turn `turn`.
    fn place(&self, turn: usize) -> usize {
        Self::FACTORS.iter().fold(turn as u64, |x, factor| self.fold(self.times(x, *factor))) as usize
    }

    /// The turn in which line `place` is visited.
    fn turn(&self, place: usize) -> usize {
        Self::INVERSES.iter().rev().fold(place as u64, |x, inverse| self.times(self.fold(x), *inverse)) as usize
    }
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the correct bits (3 at first).
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut steps = 0;
    while steps < 5 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        steps += 1;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permutation_is_undone_by_its_inverse() {
        for bits in [3, 4, 7, 12] {
            let order = Permutation::new(bits);
            let mut seen = vec![false; order.len()];
            for turn in 0..order.len() {
                let place = order.place(turn);
                assert_eq!(order.turn(place), turn);
                assert!(!std::mem::replace(&mut seen[place], true), "{place} twice");
            }
        }
    }

    #[test]
    fn neighbours_on_the_cycle_are_no_neighbours_in_memory() {
        for bits in [9, 12, 13, 20] {
            let order = Permutation::new(bits);
            let close = |turn: usize| order.place(turn).abs_diff(order.place((turn + 1) % order.len())) <= 1;
            let share = (0..order.len()).filter(|t| close(*t)).count() as f64 / order.len() as f64;
            assert!(share < 0.02, "2^{bits} lines: {share} next to their predecessor");
        }
    }

    #[test]
    fn the_ring_is_one_cycle_through_every_line() {
        let bytes = 1 << 18;
        let ring = Arguments::ring(bytes).unwrap();
        // SAFETY: a points to eight pointers into the ring, each line of which holds a pointer into it.
        unsafe {
            let start = ring.pointers[0].cast::<*mut u8>().read();
            let (mut at, mut hops) = (start, 0);
            loop {
                at = at.cast::<*mut u8>().read();
                hops += 1;
                if at == start || hops > bytes {
                    break;
                }
            }
            assert_eq!(hops, bytes / LINE);
        }
    }
}
