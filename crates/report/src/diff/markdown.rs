//! The comparison for a pull request: a verdict, a short table of the functions that changed, limits folded away.

use crate::name::{printable, shorten};
use rprof_profile::Profile;

use super::change::{Change, Presence};
use super::class::ClassOutcome;
use super::difference::{Difference, Outcome};
use super::figure::Figure;
use super::notes::{self, Note};
use super::words::{self, NONE, several};
use super::{Diff, mpi, verdict};

/// Functions that are listed at most.
const FUNCTIONS: usize = 15;
/// Kernels of GPUs.
const KERNELS: usize = 10;
/// Calls of MPI.
const CALLS: usize = 10;
/// Characters of a name.
const NAME: usize = 60;

/// All of it, as GitHub-flavoured Markdown.
pub fn markdown(diff: &Diff<'_>) -> String {
    let command = |profile: &Profile| code(&shorten(&profile.run.command.join(" "), NAME));
    let mut out = format!("### rprof diff: `{}` → `{}`\n\n", command(diff.old), command(diff.new));
    out += &format!("**{}**\n", plain(&verdict::sentence(diff)));
    let notes = notes::of(diff);
    let (grave, others): (Vec<&Note>, Vec<&Note>) = notes.iter().partition(|note| note.is_grave());
    grave.iter().for_each(|note| out += &format!("\n> {}\n", plain(&note.to_string())));
    out += &functions(diff);
    out += &kernels(diff);
    out += &calls(diff);
    if !others.is_empty() {
        let list: String = others.iter().map(|note| format!("- {}\n", plain(&note.to_string()))).collect();
        out += &format!("\n<details><summary>Limits</summary>\n\n{list}\n</details>\n");
    }
    out
}

fn functions(diff: &Diff<'_>) -> String {
    let shown: Vec<&Change<'_>> = diff.worth_telling().take(FUNCTIONS).collect();
    if shown.is_empty() {
        return String::new();
    }
    let has = |figure: &Figure| {
        let mut both = shown.iter().filter(|change| change.presence() == Presence::Both);
        both.any(|change| change.difference(*figure).is_changed())
    };
    let mut figures: Vec<Figure> = Figure::ALL.into_iter().filter(has).collect();
    if figures.is_empty() {
        // Functions of one profile alone.
        figures = shown[0].changed().map(|d| d.figure).take(2).collect();
    }
    let titles: Vec<&str> = figures.iter().map(|figure| figure.title()).collect();
    let mut out = format!(
        "\n| function | {} |\n|{}\n",
        [&titles[..], &["held by"]].concat().join(" | "),
        " --- |".repeat(figures.len() + 2)
    );
    for change in &shown {
        let cells: Vec<String> = figures.iter().map(|figure| cell(change.difference(*figure), change)).collect();
        let mark = match change.presence() {
            Presence::Both => "",
            Presence::New => " (new)",
            Presence::Gone => " (gone)",
        };
        let name = code(&shorten(change.name(), NAME));
        out += &format!("| `{name}`{mark} | {} | {} |\n", cells.join(" | "), class(change));
    }
    let hidden = diff.changed().count() - shown.len();
    if hidden > 0 {
        out += &format!("\n… and {}.\n", several(hidden, "more function"));
    }
    out
}

fn cell(d: &Difference<'_>, change: &Change<'_>) -> String {
    let side = |reading| plain(&words::reading(d.figure, reading));
    match (d.outcome(), change.presence()) {
        (Outcome::Unchanged, _) => "unchanged".into(),
        (Outcome::Unknown(why), _) => why.words().into(),
        (_, Presence::New) => format!("{} (new)", side(&d.new)),
        (_, Presence::Gone) => format!("{} before", side(&d.old)),
        (..) => format!("{} → {} (**{}**, {})", side(&d.old), side(&d.new), words::change(d), words::error(d)),
    }
}

fn class(change: &Change<'_>) -> String {
    let (old, new) = (change.class.0.words(), change.class.1.words());
    match change.class_outcome() {
        ClassOutcome::Same => new,
        ClassOutcome::Unknown if new == NONE => old,
        ClassOutcome::Unknown if old == NONE => new,
        _ => format!("{old} → {new}"),
    }
}

fn kernels(diff: &Diff<'_>) -> String {
    let changed: Vec<_> = diff.kernels.iter().filter(|kernel| kernel.is_changed()).collect();
    if changed.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n| GPU kernel | time | launches |\n| --- | --- | --- |\n");
    for kernel in changed.iter().take(KERNELS) {
        let d = &kernel.time;
        let side = |reading| plain(&words::reading(d.figure, reading));
        let launches = |n: Option<u64>| n.map_or_else(|| NONE.into(), |n| n.to_string());
        out += &format!(
            "| `{}` | {} → {} ({}, {}) | {} → {} |\n",
            code(&shorten(kernel.name, NAME)),
            side(&d.old),
            side(&d.new),
            words::change(d),
            words::error(d),
            launches(kernel.launches.0),
            launches(kernel.launches.1)
        );
    }
    if changed.len() > KERNELS {
        out += &format!("\n… and {}.\n", several(changed.len() - KERNELS, "more kernel"));
    }
    out
}

fn calls(diff: &Diff<'_>) -> String {
    let Some(rows) = mpi::rows(&diff.mpi, CALLS, NAME) else { return String::new() };
    let line = |cells: &[String]| format!("| {} |\n", cells.iter().map(|c| plain(c)).collect::<Vec<_>>().join(" | "));
    let titles: Vec<String> = rows.titles.iter().map(|title| (*title).to_owned()).collect();
    let mut out = format!("\n{}:\n\n{}|{}\n", rows.title, line(&titles), " --- |".repeat(titles.len()));
    out.extend(rows.rows.iter().map(|cells| line(cells)));
    out.extend(rows.notes.iter().map(|note| format!("\n{}\n", plain(note))));
    out
}

/// Text that stays text: no markup, no link, and no mention of a user.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '@' => out += "@\u{200b}",
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// Text between backquotes in a table cell.
fn code(text: &str) -> String {
    text.replace('`', "'").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_markup_or_a_mention() {
        assert_eq!(plain("a|b <i> *x* [l](u) @me"), "a\\|b &lt;i&gt; \\*x\\* \\[l\\](u) @\u{200b}me");
        assert_eq!(plain("a\n\u{202e}b"), "a??b");
        assert_eq!(code("`a`|b"), "'a'\\|b");
    }
}
