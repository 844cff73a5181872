//! The comparison as one page that loads nothing and needs no script: both profiles on one roofline, the figures of all functions, the
//! difference as a flame graph.

use std::fmt::Write;

use crate::error::ReportError;
use crate::html::{document, escape, frame};
use crate::name::{printable, shorten};
use crate::number::NOT_MEASURED;
use crate::plot::arrows::{self, Moved};
use crate::{flamegraph, palette};
use rprof_model::rough;

use super::change::{Change, Presence};
use super::class::ClassOutcome;
use super::difference::{Difference, Outcome};
use super::figure::Figure;
use super::notes::{self, Note};
use super::reading::Reading;
use super::words::{self, NONE, several};
use super::{Diff, compare, mpi, verdict};

const CSS: &str = include_str!("diff.css");
/// Functions in the table at most.
const FUNCTIONS: usize = 200;
/// Changed loops of a function at most.
const LOOPS: usize = 5;
/// Kernels of GPUs at most.
const KERNELS: usize = 60;
/// Calls of MPI at most.
const CALLS: usize = 60;
/// Largest size of the flame graph in bytes.
const MOST_FLAMES: usize = 200_000;
/// Characters of a name.
const NAME: usize = 70;
/// Characters of a name in a tooltip.
const TOOLTIP: usize = 500;

/// The page.
///
/// # Errors
/// [`ReportError::Render`] if the flame graph cannot be made.
pub fn page(diff: &Diff<'_>) -> Result<String, ReportError> {
    let command = |profile: &rprof_profile::Profile| shorten(&profile.run.command.join(" "), 160);
    let title = format!("{} → {}", command(diff.old), command(diff.new));
    let mut body = format!("<style>\n{CSS}</style>\n<h1>{}</h1>\n", escape(&title));
    let _ = writeln!(body, "<p class=\"verdict\">{}</p>", escape(&verdict::sentence(diff)));
    let notes = notes::of(diff);
    let (grave, others): (Vec<&Note>, Vec<&Note>) = notes.iter().partition(|note| note.is_grave());
    for note in grave {
        let _ = writeln!(body, "<p class=\"grave\">{}</p>", escape(&note.to_string()));
    }
    // Dots stand at figures that the profiles' own reports show.
    let (old, new) = (rough::known(diff.old), rough::known(diff.new));
    let known = compare(&old, &new);
    let moved: Vec<Moved<'_>> = known.changes.iter().filter(|c| is_drawn(c)).map(moved).collect();
    let limits: String = others.iter().map(|note| format!("<li>{}</li>\n", escape(&note.to_string()))).collect();
    let limits = if limits.is_empty() { "<li>none known</li>".into() } else { limits };
    let _ = writeln!(
        body,
        "<div class=\"both\"><div class=\"card picture\">{}</div>\n<div class=\"card\"><h3>Limits</h3>\n<ul class=\"limits\">\n{limits}</ul></div></div>\n\
         <h2>Functions</h2>\n<div class=\"card\">{}</div>",
        arrows::svg(&old, &new, &moved),
        functions(diff)
    );
    body += &kernels(diff);
    body += &calls(diff);
    let flames = flamegraph::difference_within(diff.old, diff.new, MOST_FLAMES, NAME)?;
    let _ = writeln!(
        body,
        "<h2>Flame graph of the difference</h2>\n<div class=\"card\">{}</div>",
        frame("flames", "flame graph", &flames)
    );
    Ok(document(&format!("diff {title}"), &body, ""))
}

/// Whether the picture has room for it: functions that changed, and those with a part of the time.
fn is_drawn(change: &Change<'_>) -> bool {
    let share = |f: Option<&rprof_profile::Function>| f.and_then(|f| f.share).unwrap_or(0.0);
    change.is_changed() || share(change.old).max(share(change.new)) >= 0.02
}

fn moved<'p>(change: &Change<'p>) -> Moved<'p> {
    // A dot moves with the rate and the intensity: with time, FLOPs and bytes.
    let moves = |d: &Difference<'_>| d.figure != Figure::RoofFraction && d.figure != Figure::Instructions;
    Moved { old: change.old, new: change.new, is_changed: change.changed().any(moves) }
}

fn functions(diff: &Diff<'_>) -> String {
    let shown: Vec<&Change<'_>> = diff.changes.iter().take(FUNCTIONS).collect();
    let known = |figure: &Figure| {
        shown.iter().any(|change| !matches!(change.difference(*figure).outcome(), Outcome::Unknown(_)))
    };
    let figures: Vec<Figure> = Figure::ALL.into_iter().filter(known).collect();
    let mut out = String::from("<table id=\"changes\">\n<thead><tr><th>function</th>");
    figures.iter().for_each(|figure| out += &format!("<th>{}</th>", figure.title()));
    out += "<th class=\"words\">held by</th></tr></thead>\n<tbody>\n";
    for change in &shown {
        let quiet = if change.is_changed() { "" } else { "quiet" };
        out += &row(change, &figures, quiet);
        for inner in change.loops.iter().filter(|inner| inner.is_changed()).take(LOOPS) {
            out += &row(inner, &figures, "inner-loop");
        }
    }
    out += "</tbody></table>\n";
    let hidden = diff.changes.len() - shown.len();
    if hidden > 0 {
        let _ = writeln!(
            out,
            "<p class=\"place\">… and {}; --format json has those that changed</p>",
            several(hidden, "more function")
        );
    }
    out
}

fn row(change: &Change<'_>, figures: &[Figure], class: &str) -> String {
    let mark = match change.presence() {
        Presence::Both => "",
        Presence::New => "<span class=\"mark\">new</span>",
        Presence::Gone => "<span class=\"mark\">gone</span>",
    };
    let module = change.old_module().map_or(change.module().to_owned(), |old| format!("{old} → {}", change.module()));
    let mut out = format!(
        "<tr class=\"{class}\"><td class=\"named\" title=\"{}\"><span class=\"dot\" style=\"background:{}\"></span>{}{mark}<br><span class=\"place\">{}</span></td>",
        escape(&shorten(change.name(), TOOLTIP)),
        palette::hex(change.class.1.class.or(change.class.0.class)),
        escape(&shorten(change.name(), NAME)),
        escape(&shorten(&module, NAME)),
    );
    figures.iter().for_each(|figure| out += &cell(change.difference(*figure), change.presence()));
    let (old, new) = (change.class.0.words(), change.class.1.words());
    let held = match change.class_outcome() {
        ClassOutcome::Same => escape(&new),
        ClassOutcome::Changed => format!("<b>{} → {}</b>", escape(&old), escape(&new)),
        ClassOutcome::Unknown if old == NONE || new == NONE => escape(if new == NONE { &old } else { &new }),
        ClassOutcome::Doubtful | ClassOutcome::Unknown => format!("{} → {}", escape(&old), escape(&new)),
    };
    let _ = writeln!(out, "<td class=\"words\">{held}</td></tr>");
    out
}

fn cell(d: &Difference<'_>, presence: Presence) -> String {
    let side = |reading: &Reading<'_>| escape(&words::reading(d.figure, reading));
    let why = |reading: &Reading<'_>| match reading {
        Reading::Missing(why) => Some(printable(why)),
        _ => None,
    };
    let values = match presence {
        Presence::Both => format!("{} → {}", side(&d.old), side(&d.new)),
        Presence::New => side(&d.new),
        Presence::Gone => side(&d.old),
    };
    match d.outcome() {
        Outcome::Unchanged => {
            format!(
                "<td class=\"still\" title=\"unchanged, {}\"><span class=\"v\">{values}</span></td>",
                escape(&words::error(d))
            )
        }
        Outcome::Unknown(_) => match why(&d.old).or(why(&d.new)) {
            Some(why) if d.old.value().or(d.new.value()).is_none() => {
                format!(
                    "<td title=\"{}\"><span class=\"absent\">{NOT_MEASURED}</span></td>",
                    escape(&shorten(&why, TOOLTIP))
                )
            }
            why => {
                let why = why.unwrap_or_default();
                format!(
                    "<td title=\"{}\">{values}<br><span class=\"error\">not compared</span></td>",
                    escape(&shorten(&why, TOOLTIP))
                )
            }
        },
        outcome => {
            let sign = if outcome == Outcome::Grew { "▲" } else { "▼" };
            // Nearer to a bound is neither more nor less work.
            let class = match outcome {
                _ if d.figure == Figure::RoofFraction => "moved",
                Outcome::Grew => "more",
                _ => "fewer",
            };
            format!(
                "<td><span class=\"v\">{values}</span><br><span class=\"{class} v\">{sign} {}</span> <span class=\"error v\">{}</span></td>",
                escape(&words::change(d)),
                escape(&words::error(d))
            )
        }
    }
}

fn calls(diff: &Diff<'_>) -> String {
    let Some(rows) = mpi::rows(&diff.mpi, CALLS, NAME) else { return String::new() };
    let cells = |tag: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let mut out = format!("<h2>{}</h2>\n<div class=\"card\"><table>\n", escape(&rows.title));
    out += &cells("th", rows.titles.iter().map(|title| (*title).to_owned()).collect());
    rows.rows.into_iter().for_each(|row| out += &cells("td", row));
    out += "</table>\n";
    rows.notes.iter().for_each(|note| out += &format!("<p class=\"place\">{}</p>\n", escape(note)));
    out + "</div>\n"
}

fn kernels(diff: &Diff<'_>) -> String {
    if diff.kernels.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h2>Kernels of the GPUs</h2>\n<div class=\"card\"><table>\n<tr><th>kernel</th><th>time</th><th>launches</th></tr>\n",
    );
    for kernel in diff.kernels.iter().take(KERNELS) {
        let presence = match kernel.launches {
            (Some(0), _) => Presence::New,
            (_, Some(0)) => Presence::Gone,
            _ => Presence::Both,
        };
        let launches = |n: Option<u64>| n.map_or_else(|| NONE.into(), |n| n.to_string());
        let _ = writeln!(
            out,
            "<tr><td title=\"{}\">{}</td>{}<td>{} → {}</td></tr>",
            escape(&shorten(kernel.name, TOOLTIP)),
            escape(&shorten(kernel.name, NAME)),
            cell(&kernel.time, presence),
            launches(kernel.launches.0),
            launches(kernel.launches.1)
        );
    }
    out += "</table>\n";
    if diff.kernels.len() > KERNELS {
        let _ = writeln!(out, "<p class=\"place\">… and {}</p>", several(diff.kernels.len() - KERNELS, "more kernel"));
    }
    out + "</div>\n"
}
