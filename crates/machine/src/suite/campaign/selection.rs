//! The aim of a measurement: all ceilings, or only some.

use crate::estimate::Keys;
use crate::harness::arena::Pages;
use rprof_profile::machine::ON_SMALL_PAGES;

/// The ceilings that are measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Selection {
    /// Everything.
    All,
    /// These alone.
    Only(Keys),
}

impl Selection {
    /// Whether the ceiling `id` at `threads` is measured.
    pub fn includes(&self, id: &str, threads: usize) -> bool {
        match self {
            Selection::All => true,
            Selection::Only(keys) => keys.contains(&(id.into(), threads)),
        }
    }

    /// Whether any ceiling on `pages` at `threads` with one of `prefixes` is measured: those on small pages need another
    /// buffer.
    pub fn includes_family(&self, pages: Pages, prefixes: &[impl AsRef<str>], threads: usize) -> bool {
        match self {
            Selection::All => true,
            Selection::Only(keys) => {
                let on_them = |id: &str| id.ends_with(ON_SMALL_PAGES) == pages.are_small();
                let meant = |id: &str| on_them(id) && prefixes.iter().any(|p| id.starts_with(p.as_ref()));
                keys.iter().any(|(id, n)| *n == threads && meant(id))
            }
        }
    }
}
