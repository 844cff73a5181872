//! The comparison for a terminal: the verdict, a row for each figure that changed, limits.

use crate::name;
use crate::regions::{self, Rows};
use crate::wrap;

use super::change::{Change, Presence};
use super::class::ClassOutcome;
use super::difference::Difference;
use super::notes::{self, Note};
use super::words::{self, NONE, several};
use super::{Diff, mpi, verdict};

/// Functions that are listed at most.
const FUNCTIONS: usize = 30;
/// Loops of a function.
const LOOPS: usize = 3;
/// Figures of a function that is in one profile alone.
const ALONE: usize = 2;
/// Kernels of GPUs.
const KERNELS: usize = 20;
/// Calls of MPI.
const CALLS: usize = 10;
/// Columns that the figures need beside the name.
const FIGURES: usize = 58;

/// All of it.
pub fn text(diff: &Diff<'_>, width: usize) -> String {
    let told = |profile: &rprof_profile::Profile| name::shorten(&profile.run.command.join(" "), width / 2 - 8);
    let mut out = format!("rprof diff: {} → {}\n", told(diff.old), told(diff.new));
    let notes = notes::of(diff);
    let (grave, others): (Vec<&Note>, Vec<&Note>) = notes.iter().partition(|note| note.is_grave());
    grave.iter().for_each(|note| out += &wrap::hanging(&format!("! {note}"), width, 2));
    out += &wrap::hanging(&verdict::sentence(diff), width, 0);
    out += &changes(diff, FUNCTIONS, width);
    let shown = diff.worth_telling().take(FUNCTIONS).count();
    let hidden = diff.changed().count() - shown;
    if hidden > 0 {
        out += &format!(" … and {} (--format json)\n", several(hidden, "more function"));
    }
    out += &kernels(diff, width);
    out.extend(mpi::rows(&diff.mpi, CALLS, (width / 3).clamp(24, 60)).iter().map(|rows| regions::text(rows, width)));
    if !others.is_empty() {
        out.push('\n');
        others.iter().for_each(|note| out += &wrap::hanging(&format!("· {note}"), width, 2));
    }
    out
}

/// The changed functions, at most `most`, and classes that changed; empty if none did.
pub fn changes(diff: &Diff<'_>, most: usize, width: usize) -> String {
    let mut rows = Rows {
        title: String::new(),
        titles: vec!["function", "figure", "before", "after", "change", "95 %"],
        rows: Vec::new(),
        words: vec![1],
        notes: Vec::new(),
    };
    let name_width = width.saturating_sub(FIGURES).clamp(16, 70);
    for change in diff.worth_telling().take(most) {
        rows.rows.extend(function(change, name_width));
    }
    let mut out = if rows.rows.is_empty() { String::new() } else { format!("\n{}", regions::table(&rows, width)) };
    let classes: Vec<String> = diff.worth_telling().take(most).filter_map(class).collect();
    if !classes.is_empty() {
        out += "\nHeld by something else:\n";
        classes.iter().for_each(|line| out += &wrap::hanging(&format!(" {line}"), width, 3));
    }
    out
}

/// A row for each figure that changed, and those of its loops.
fn function(change: &Change<'_>, name_width: usize) -> Vec<Vec<String>> {
    let mark = match change.presence() {
        Presence::Both => "",
        Presence::New => " (new)",
        Presence::Gone => " (gone)",
    };
    let named = |text: &str, mark: &str| {
        let room = name_width.saturating_sub(mark.chars().count());
        format!("{}{mark}", name::shorten(text, room))
    };
    let mut rows = figures(change, &named(change.name(), mark), change.presence());
    let loops = change.loops.iter().filter(|inner| inner.old.is_some() && inner.new.is_some() && inner.is_changed());
    for inner in loops.take(LOOPS) {
        rows.extend(figures(inner, &named(&format!("  {}", inner.name()), ""), Presence::Both));
    }
    rows
}

fn figures(change: &Change<'_>, name: &str, presence: Presence) -> Vec<Vec<String>> {
    let mut name = name.to_owned();
    let row = |d: &Difference<'_>| {
        let (old, new) = sides(d, presence);
        vec![std::mem::take(&mut name), d.figure.title().into(), old, new, words::change(d), words::error(d)]
    };
    let most = if presence == Presence::Both { usize::MAX } else { ALONE };
    change.changed().take(most).map(row).collect()
}

/// Before and after; a function that is not there has no figure.
fn sides(d: &Difference<'_>, presence: Presence) -> (String, String) {
    let (old, new) = (words::reading(d.figure, &d.old), words::reading(d.figure, &d.new));
    match presence {
        Presence::Both => (old, new),
        Presence::New => (NONE.into(), new),
        Presence::Gone => (old, NONE.into()),
    }
}

/// `triad: dram-bandwidth → ilp`.
fn class(change: &Change<'_>) -> Option<String> {
    let (old, new) = (change.class.0.words(), change.class.1.words());
    (change.class_outcome() == ClassOutcome::Changed)
        .then(|| format!("{}: {old} → {new}", name::shorten(change.name(), 60)))
}

/// Kernels of GPUs with a time that changed, or may have.
fn kernels(diff: &Diff<'_>, width: usize) -> String {
    let shown: Vec<_> = diff
        .kernels
        .iter()
        .filter(|k| k.is_changed() || k.time.half().is_none() && k.time.absolute() != Some(0.0))
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    let launches = |n: Option<u64>| n.map_or_else(|| NONE.into(), |n| n.to_string());
    let row = |k: &&&super::kernels::KernelChange<'_>| {
        vec![
            name::shorten(k.name, width.saturating_sub(FIGURES + 2).clamp(16, 70)),
            words::reading(k.time.figure, &k.time.old),
            words::reading(k.time.figure, &k.time.new),
            words::change(&k.time),
            words::error(&k.time),
            format!("{} → {}", launches(k.launches.0), launches(k.launches.1)),
        ]
    };
    let mut rows = Rows {
        title: "Kernels of the GPUs".into(),
        titles: vec!["kernel", "before", "after", "change", "95 %", "launches"],
        rows: shown.iter().take(KERNELS).map(|k| row(&k)).collect(),
        words: Vec::new(),
        notes: vec!["~: a kernel that was launched once has no interval.".into()],
    };
    if shown.len() > KERNELS {
        rows.notes.push(format!("… and {}", several(shown.len() - KERNELS, "more kernel")));
    }
    regions::text(&rows, width)
}
