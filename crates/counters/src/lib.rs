//! Hardware counters: the events of a CPU, the meaning of one count, and the trust in this host's answers.
//!
//! ```text
//!  events/*.toml ─▶ tables ─▶ check: known work runs through it ─▶ trust ─┐ (kept in store)
//!        │                                                              ▼
//!        └─▶ group: what fits the PMU ───────────────────────────▶ collect ─▶ CounterEvidence
//!             cpu, pmu, encode: sysfs      refused: the reason ─────▶  uncore ─┘
//!  doctor, listing: what this host allows, and what its tables offer
//! ```
//!
//! rprof guesses nothing from `perf_event_paranoid`: it opens every event, and the kernel's answer decides.

pub mod check;
pub mod collect;
pub mod count;
pub mod cpu;
pub mod doctor;
pub mod encode;
#[cfg(test)]
mod fake;
pub mod group;
pub mod kernel;
pub mod listing;
pub mod open;
pub mod pmu;
pub mod refusal;
mod setcap_hint;
pub mod store;
pub mod table;
#[cfg(test)]
mod table_tests;
pub mod tables;
pub mod trust;
pub mod uncore;
