//! Hardware counters: which events a CPU has, what one count means, and whether this host's answers can be believed.
//!
//! ```text
//!  events/*.toml ─▶ tables ─▶ check: known work runs through it ─▶ trust ─┐ (kept in store)
//!        │                                                              ▼
//!        └─▶ group: what fits the PMU ───────────────────────────▶ collect ─▶ CounterEvidence
//!             cpu, pmu, encode: sysfs      refused: the reason ─────▶  uncore ─┘
//!  doctor, listing: what this host allows, and what its tables offer
//! ```
//!
//! Nothing is guessed from `perf_event_paranoid`: every event is opened, and what the kernel answers is what counts.

pub mod check;
pub mod collect;
pub mod count;
pub mod cpu;
pub mod doctor;
pub mod encode;
#[cfg(test)]
mod fake;
pub mod group;
mod itself;
pub mod kernel;
pub mod listing;
pub mod open;
pub mod pmu;
pub mod refusal;
pub mod store;
pub mod table;
#[cfg(test)]
mod table_tests;
pub mod tables;
pub mod trust;
pub mod uncore;
