//! Functions that mark regions and work of a program when called. rprof knows them by their names; the program is not
//! changed.
//!
//! ```text
//!  ELF symbols ─ find ─▶ Marker at an address ─ a call's arguments ─▶ call: Mark ─▶ tracker: regions, paths, work
//! ```

pub mod call;
pub mod find;
pub mod tracker;

use rprof_profile::evidence::marks::Api;

/// The effect of a call of a marker function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// A region begins.
    Begin(Name),
    /// The region of this name ends.
    End(Name),
    /// The latest region of this interface ends.
    EndLatest,
    /// `rprof_mark`: the first argument gives the effect.
    Mark,
}

/// The place of the region's name in a call. Arguments count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Name {
    /// An argument points to it.
    At(usize),
    /// An argument points to a pointer to it (`__itt_string_handle`).
    Behind(usize),
    /// An argument points to `nvtxEventAttributes_t`.
    InAttributes(usize),
}

/// A marker function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The interface that it belongs to.
    pub api: Api,
    /// The effect of its call.
    pub act: Act,
}

/// All of them, by symbol.
const MARKERS: [(&str, Api, Act); 10] = [
    ("rprof_mark", Api::Rprof, Act::Mark),
    ("likwid_markerStartRegion", Api::Likwid, Act::Begin(Name::At(0))),
    ("likwid_markerStopRegion", Api::Likwid, Act::End(Name::At(0))),
    ("__itt_task_begin", Api::Itt, Act::Begin(Name::Behind(3))),
    ("__itt_task_end", Api::Itt, Act::EndLatest),
    ("nvtxRangePushA", Api::Nvtx, Act::Begin(Name::At(0))),
    ("nvtxRangePushEx", Api::Nvtx, Act::Begin(Name::InAttributes(0))),
    ("nvtxRangePop", Api::Nvtx, Act::EndLatest),
    ("nvtxDomainRangePushEx", Api::Nvtx, Act::Begin(Name::InAttributes(1))),
    ("nvtxDomainRangePop", Api::Nvtx, Act::EndLatest),
];

impl Marker {
    /// The marker function that is called so.
    pub fn named(symbol: &[u8]) -> Option<Marker> {
        let found = MARKERS.iter().find(|(name, ..)| name.as_bytes() == symbol)?;
        Some(Marker { api: found.1, act: found.2 })
    }
}
