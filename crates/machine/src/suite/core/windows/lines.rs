//! Lines that are in no cache: pointer chases in which every hop misses all of them.

use std::arch::x86_64::{_mm_clflush, _mm_mfence};

use crate::error::MachineError;
use crate::harness::arena::{Buffer, Pages};

/// Bytes from one line to another, far enough apart for prefetchers not to connect them.
const APART: u64 = 2048 + 64;

/// Lines, in rings.
pub struct Lines {
    buffer: Buffer,
    rings: u64,
    nodes: u64,
}

impl Lines {
    /// `rings` rings of `nodes` nodes, one line each, linked in scattered order.
    ///
    /// # Errors
    /// [`MachineError::Buffer`].
    pub fn new(rings: u64, nodes: u64) -> Result<Self, MachineError> {
        let buffer = Buffer::new(rings * nodes * APART + 64, Pages::Huge)?;
        let lines = Lines { buffer, rings, nodes };
        for ring in 0..rings {
            for n in 0..nodes {
                let (from, to) = (lines.node(ring, n), lines.node(ring, (n + 1) % nodes));
                // SAFETY: `node` stays inside the buffer, and no other code knows it yet.
                unsafe { (from as *mut u64).write(to) };
            }
        }
        Ok(lines)
    }

    /// Address of the n-th node of a ring.
    pub fn node(&self, ring: u64, n: u64) -> u64 {
        // The numbers of nodes have no factor in common with 13, so the ring visits all of them.
        let scattered = (n * 13) % self.nodes;
        self.buffer.address() + (scattered * self.rings + ring) * APART
    }

    /// Flushes the lines out of the caches.
    pub fn flush(&self) {
        for ring in 0..self.rings {
            for n in 0..self.nodes {
                // SAFETY: inside the buffer; flushing changes no memory.
                unsafe { _mm_clflush(self.node(ring, n) as *const u8) };
            }
        }
        // SAFETY: a fence.
        unsafe { _mm_mfence() };
    }
}
