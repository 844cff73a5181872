//! Arguments of kernels that walk over arrays.

use crate::harness::arena::Arena;
use crate::kernels::Arguments;

/// The arrays of one thread.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of arrays.
    pub arrays: u64,
    /// Bytes of one array that an inner iteration covers.
    pub body_bytes: u64,
    /// Bytes of one array; rounded down to whole bodies.
    pub array_bytes: u64,
    /// Bytes of the slab before the first one.
    pub skip: u64,
    /// Bytes that one is further than whole pages from the one before it.
    pub padding: u64,
}

/// Arguments for each thread of `arena`, and the inner iterations of a pass; `None` if the slabs are too small.
pub fn arguments(arena: &Arena, shape: Shape) -> Option<(Vec<Box<Arguments>>, u64)> {
    let inner = (shape.array_bytes / shape.body_bytes).max(1);
    let bytes = inner * shape.body_bytes;
    let sets = (0..arena.threads).map(|rank| {
        let mut arguments = Arguments::new();
        arguments.pointers = arena.arrays(rank, (shape.skip, shape.padding), shape.arrays, bytes)?;
        arguments.inner = inner;
        Some(arguments)
    });
    Some((sets.collect::<Option<Vec<_>>>()?, inner))
}
