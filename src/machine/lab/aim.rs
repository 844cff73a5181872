//! What a pass measures: everything, or only what is in doubt.

use super::Doubtful;
use crate::profile::machine::ON_SMALL_PAGES;

/// The ceilings that a pass is for.
#[derive(Debug, Clone, PartialEq)]
pub enum Aim {
    /// Everything.
    All,
    /// These alone.
    Only(Doubtful),
}

impl Aim {
    /// Whether the ceiling `id` at `threads` is measured.
    pub fn includes(&self, id: &str, threads: usize) -> bool {
        match self {
            Aim::All => true,
            Aim::Only(doubtful) => doubtful.contains(&(id.to_owned(), threads)),
        }
    }

    /// Whether any ceiling at `threads` whose id begins with one of `prefixes` is measured. One on small pages is meant only by a
    /// prefix that says so: they need another buffer.
    pub fn includes_family(&self, prefixes: &[&str], threads: usize) -> bool {
        match self {
            Aim::All => true,
            Aim::Only(doubtful) => {
                let small = |id: &str| id.ends_with(ON_SMALL_PAGES);
                let meant = |id: &str| prefixes.iter().any(|p| id.starts_with(p) && small(id) == small(p));
                doubtful.iter().any(|(id, n)| *n == threads && meant(id))
            }
        }
    }
}
