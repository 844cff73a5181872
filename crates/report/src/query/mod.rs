//! Answers for scripts and assistants, as text or JSON: the verdict, which functions have most to save, why one is held, ceilings, another profile.
//!
//! Every list is bounded; `total` is its whole length and `cut` what was left out. Base SI units; what was not measured is `null`.

mod ceilings;
mod compare;
mod explain;
mod mpi;
mod top;
pub mod verdict;

use serde_json::{Value, json};

use rprof_model::rough;
use rprof_profile::{Function, Profile};

use super::near::NoSuchName;
use super::{View, trust::Trust};

pub use top::By;

/// A question about a profile.
pub enum Query<'q> {
    /// What the first lines of a report say; `source` names the profile in the next command.
    Verdict { source: &'q str },
    /// The first functions.
    Top { by: By, limit: usize },
    /// Why a function is held.
    Explain { name: &'q str },
    /// The machine's ceilings with this prefix.
    Ceilings { prefix: &'q str, limit: usize },
    /// The first call sites of MPI.
    Mpi { limit: usize },
    /// Changes since an earlier profile.
    Compare { new: &'q Profile, limit: usize },
}

/// The answer as text.
///
/// # Errors
/// [`NoSuchName`].
pub fn text(profile: &Profile, query: &Query<'_>, view: &View) -> Result<String, NoSuchName> {
    let profile = &*rough::known(profile);
    Ok(match query {
        Query::Verdict { .. } => verdict::text(profile, view),
        Query::Top { by, limit } => top::text(profile, *by, *limit, view),
        Query::Explain { name } => explain::text(profile, name, view)?,
        Query::Ceilings { prefix, limit } => ceilings::text(&profile.machine, prefix, *limit, view),
        Query::Mpi { limit } => mpi::text(profile, *limit, view),
        Query::Compare { new, limit } => compare::text(profile, new, *limit, view),
    })
}

/// The answer as JSON.
///
/// # Errors
/// [`NoSuchName`].
pub fn json(profile: &Profile, query: &Query<'_>) -> Result<Value, NoSuchName> {
    Ok(match query {
        Query::Verdict { source } => verdict::json(profile, source),
        Query::Top { by, limit } => top::json(profile, *by, *limit),
        Query::Explain { name } => explain::json(profile, name)?,
        Query::Ceilings { prefix, limit } => ceilings::json(&profile.machine, prefix, *limit),
        Query::Mpi { limit } => mpi::json(profile, *limit),
        Query::Compare { new, limit } => compare::json(profile, new, *limit),
    })
}

/// The program, and how far its figures can be trusted.
fn run(profile: &Profile) -> Value {
    let trust = Trust::of(profile);
    json!({
        "command": profile.run.command,
        "wall_s": crate::verdict::wall_s(profile),
        "verdict": crate::verdict::sentence(profile),
        "trust": trust.word(),
        "facts": trust.facts,
        "warnings": profile.run.warnings.iter().map(|w| &w.code).collect::<Vec<_>>(),
    })
}

/// A list that says how long it was.
fn list(items: Vec<Value>, total: usize) -> Value {
    json!({ "cut": total - items.len(), "total": total, "items": items })
}

/// `… and 12 of 19 more (--limit)`, empty if nothing was cut.
fn cut(shown: usize, total: usize) -> String {
    if total > shown { format!("… and {} more of {total} (--limit N)\n", total - shown) } else { String::new() }
}

/// The function of that name, else the hottest one with a name that contains it, and the others that do.
fn find<'p>(profile: &'p Profile, name: &str) -> Result<(&'p Function, Vec<&'p Function>), NoSuchName> {
    let is_named = |f: &&Function| f.is_called(name);
    let is_shown = |f: &&Function| f.is_shown_as(name);
    if let Some(f) = profile.functions.iter().find(is_named).or_else(|| profile.functions.iter().find(is_shown)) {
        return Ok((f, Vec::new()));
    }
    let small = name.to_lowercase();
    let mut matching = profile.functions.iter().filter(|f| f.name.to_lowercase().contains(&small));
    let refused = || NoSuchName::of(profile, name.to_owned(), name);
    let first = matching.next().ok_or_else(refused)?;
    Ok((first, matching.collect()))
}
