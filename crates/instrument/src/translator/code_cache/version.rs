//! The versions in which a code cache holds the program's blocks. They execute the same code and count alike; only some record
//! addresses. Each has its own exits, lookups and counters, so that a thread stays in one until rprof moves it to another, and so
//! that executions are counted by phase.

use crate::translator::code_cache::layout;
use rprof_profile::evidence::memory::Phase;
use rprof_tracee::address::Address;

/// A version of the program's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// Counts only.
    #[default]
    Plain,
    /// Records addresses from the program's start on.
    Opening,
    /// Records addresses to bring the access sink's state up to date.
    Warming,
    /// Records addresses as a sample of the unrecorded ones.
    Measuring,
    /// Records all blocks and addresses, for bursts.
    Tracing,
}

/// A program address in one version: the key of maps of translations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(u64);

impl Version {
    /// All of them.
    pub const ALL: [Version; 5] =
        [Version::Plain, Version::Opening, Version::Warming, Version::Measuring, Version::Tracing];

    /// The version for a phase of the access sink; never the one that traces.
    pub fn of(phase: Phase) -> Version {
        match phase {
            Phase::Opening => Version::Opening,
            Phase::Pause => Version::Plain,
            Phase::Warming => Version::Warming,
            Phase::Measuring => Version::Measuring,
        }
    }

    /// The phase that executions in it belong to.
    pub fn phase(self) -> Phase {
        match self {
            Version::Plain | Version::Tracing => Phase::Pause,
            Version::Opening => Phase::Opening,
            Version::Warming => Phase::Warming,
            Version::Measuring => Phase::Measuring,
        }
    }

    /// Whether it records addresses.
    pub fn collects(self) -> bool {
        self != Version::Plain
    }

    /// Whether it records all addresses and blocks, for bursts.
    pub fn traces(self) -> bool {
        self == Version::Tracing
    }

    /// Offset of its records in a thread's context.
    pub fn buffer(self) -> u32 {
        if self.traces() { layout::TRACE_BUFFER } else { layout::BUFFER }
    }

    /// Its lookup table's offset in the tables.
    pub fn lookup(self) -> u32 {
        match self {
            Version::Plain => layout::LOOKUP,
            other => layout::MORE_LOOKUPS + (other as u32 - 1) * layout::LOOKUP_SIZE,
        }
    }

    /// Its lookup table for returns.
    pub fn returns(self) -> u32 {
        layout::RETURNS + self as u32 * layout::RETURNS_SIZE
    }

    /// Its lookup table for indirect calls.
    pub fn callees(self) -> u32 {
        layout::CALLEES + self as u32 * layout::LOOKUP_SIZE
    }

    /// `at` in this version. User addresses leave the upper bits free.
    pub fn place(self, at: Address) -> Place {
        Place(at.get() | (self as u64) << 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_keep_their_tables_and_places_apart() {
        let of_version = |v: &Version| {
            let size = layout::LOOKUP_SIZE;
            [(v.lookup(), size), (v.callees(), size), (v.returns(), layout::RETURNS_SIZE)]
        };
        let mut tables: Vec<(u32, u32)> = Version::ALL.iter().flat_map(of_version).collect();
        tables.sort_unstable();
        for pair in tables.windows(2) {
            assert!(pair[1].0 - pair[0].0 >= pair[0].1, "{tables:?}");
        }
        assert!(tables.iter().all(|(at, size)| u64::from(at + size) <= layout::TABLES));
        let at = Address::new(0x7fff_ffff_f000);
        let places: std::collections::HashSet<Place> = Version::ALL.iter().map(|v| v.place(at)).collect();
        assert_eq!(places.len(), 5);
        assert!(Version::ALL.iter().filter(|v| !v.traces()).all(|v| Version::of(v.phase()) == *v));
        assert_eq!(Version::Tracing.phase(), Phase::Pause);
    }
}
