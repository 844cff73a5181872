//! What a pass measures: everything, or only what is in doubt.

use super::Doubtful;

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

    /// Whether any ceiling at `threads` whose id begins with one of `prefixes` is measured.
    pub fn includes_family(&self, prefixes: &[&str], threads: usize) -> bool {
        match self {
            Aim::All => true,
            Aim::Only(doubtful) => {
                doubtful.iter().any(|(id, n)| *n == threads && prefixes.iter().any(|p| id.starts_with(p)))
            }
        }
    }
}
