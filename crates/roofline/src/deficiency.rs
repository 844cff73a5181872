//! Deficiencies of a function, and sets of deficiencies that the model assumes removed.

/// One thing that holds a function below the roof, in the order of effort in which the ladder removes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deficiency {
    /// Fewer threads than allowed CPUs.
    Threads,
    /// Threads of its team without work while others had some.
    Imbalance,
    /// Dependency chains (T_chain).
    Ilp,
    /// Instructions that do no arithmetic (T_issue).
    Mix,
    /// Lanes not used.
    Simd,
    /// Adds and multiplies that are not fused.
    Fma,
    /// The divider.
    DivSqrt,
    /// Narrow loads and stores (T_access).
    Access,
    /// Misses with a latency that is not hidden (T_latency).
    Latency,
    /// Fills for lines that are overwritten anyway.
    WriteAllocate,
    /// Last-level capacity misses.
    CapacityMisses,
    /// Last-level conflict misses.
    ConflictMisses,
    /// Conflict misses of L1 and L2.
    PrivateConflicts,
    /// Lines that one visit uses only in part, and the next visit comes too late.
    Strides,
    /// Data that another function had in the caches before.
    SeparatePasses,
    /// One memory controller carries more than the others.
    MemoryImbalance,
    /// Memory on pages of 4 KiB: their addresses take longer to translate, and some prefetchers stop at their ends.
    SmallPages,
}

impl Deficiency {
    /// All of them, low effort first.
    pub const ALL: [Deficiency; 17] = [
        Deficiency::Threads,
        Deficiency::Imbalance,
        Deficiency::Ilp,
        Deficiency::Mix,
        Deficiency::Simd,
        Deficiency::Fma,
        Deficiency::DivSqrt,
        Deficiency::Access,
        Deficiency::Latency,
        Deficiency::WriteAllocate,
        Deficiency::CapacityMisses,
        Deficiency::ConflictMisses,
        Deficiency::PrivateConflicts,
        Deficiency::Strides,
        Deficiency::SeparatePasses,
        Deficiency::MemoryImbalance,
        Deficiency::SmallPages,
    ];

    /// The name in `savings[].remove`; for parallel and core deficiencies also the id of their ceiling.
    pub fn name(self) -> &'static str {
        match self {
            Deficiency::Threads => "threads",
            Deficiency::Imbalance => "imbalance",
            Deficiency::Ilp => "ilp",
            Deficiency::Mix => "mix",
            Deficiency::Simd => "simd",
            Deficiency::Fma => "fma",
            Deficiency::DivSqrt => "divsqrt",
            Deficiency::Access => "access",
            Deficiency::Latency => "latency",
            Deficiency::WriteAllocate => "write-allocate",
            Deficiency::CapacityMisses => "capacity-misses",
            Deficiency::ConflictMisses => "conflict-misses",
            Deficiency::PrivateConflicts => "private-conflicts",
            Deficiency::Strides => "strides",
            Deficiency::SeparatePasses => "separate-passes",
            Deficiency::MemoryImbalance => "memory-imbalance",
            Deficiency::SmallPages => "small-pages",
        }
    }
}

/// A set of deficiencies that are imagined away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Removed(u32);

impl Removed {
    /// Nothing removed: the function as it is.
    pub const NONE: Removed = Removed(0);

    /// Only `deficiency`.
    pub fn only(deficiency: Deficiency) -> Removed {
        Removed::NONE.and(deficiency)
    }

    /// This set and `deficiency`.
    pub fn and(self, deficiency: Deficiency) -> Removed {
        Removed(self.0 | 1 << deficiency as u32)
    }

    /// This set without `deficiency`.
    pub fn but(self, deficiency: Deficiency) -> Removed {
        Removed(self.0 & !(1 << deficiency as u32))
    }

    /// The intersection of both sets.
    pub fn within(self, other: Removed) -> Removed {
        Removed(self.0 & other.0)
    }

    /// Whether `deficiency` is in the set.
    pub fn has(self, deficiency: Deficiency) -> bool {
        self.0 & (1 << deficiency as u32) != 0
    }
}

impl FromIterator<Deficiency> for Removed {
    fn from_iter<T: IntoIterator<Item = Deficiency>>(all: T) -> Self {
        all.into_iter().fold(Removed::NONE, Removed::and)
    }
}
