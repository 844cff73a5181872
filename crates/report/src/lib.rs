//! Reports from a profile: text, JSON, HTML, SVG, CSV, Markdown, folded stacks, flame graph, Firefox profiler, pprof.
//!
//! ```text
//!  profile.json ─▶ json::read (schema, strict) ─▶ roofline::analyse ─┐
//!  session ─────────────────────────────────────▶ roofline::analyse ─┴▶ Profile ─▶ render(Format) ─▶ text
//! ```
//!
//! Everything here works from the profile alone, on any machine. Reports mark missing values as not measured, never as 0.

mod account;
mod blas;
mod brief;
mod conforms;
pub mod counters;
pub mod csv;
pub mod devices;
pub mod diff;
mod disassembly;
pub mod error;
pub mod explain;
pub mod firefox;
pub mod flamegraph;
pub mod folded;
pub mod gpu;
pub mod html;
pub mod json;
pub mod machine;
pub mod machine_files;
pub mod markdown;
pub mod merge;
pub mod mpi;
pub mod name;
pub mod near;
pub mod network;
pub mod palette;
pub mod plot;
pub mod pprof;
pub mod query;
pub mod regions;
pub mod schema;
pub mod stacks;
pub mod summary;
mod system;
pub mod table;
pub mod text;
pub mod traffic;
mod tried;
pub mod trust;
pub mod verdict;
pub mod view;
pub mod words;
pub mod wrap;

#[cfg(test)]
mod tests;

use rprof_model::rough;
use rprof_profile::Profile;

pub use rprof_profile::number;

pub use error::ReportError;
pub use flamegraph::Flames;
pub use view::{Extent, Precision, View};

/// The formats of `rprof report --format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    Html,
    Svg,
    Work,
    Communication,
    Csv,
    Md,
    Folded,
    Flamegraph,
    Firefox,
    Pprof,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 12] = [
        Format::Text,
        Format::Json,
        Format::Html,
        Format::Svg,
        Format::Work,
        Format::Communication,
        Format::Csv,
        Format::Md,
        Format::Folded,
        Format::Flamegraph,
        Format::Firefox,
        Format::Pprof,
    ];

    /// Whether it is text, which a terminal can show.
    pub fn is_text(self) -> bool {
        self != Format::Pprof
    }

    /// Whether it can show some functions alone. Formats for scripts and other tools are whole.
    pub fn has_part(self) -> bool {
        matches!(self, Format::Text | Format::Html | Format::Svg | Format::Csv | Format::Md)
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Json => "json",
            Format::Html => "html",
            Format::Svg => "svg",
            Format::Work => "work",
            Format::Communication => "communication",
            Format::Csv => "csv",
            Format::Md => "md",
            Format::Folded => "folded",
            Format::Flamegraph => "flamegraph",
            Format::Firefox => "firefox",
            Format::Pprof => "pprof",
        }
    }
}

/// The profile in one format, as the content of a file.
///
/// # Errors
/// [`ReportError::Render`].
pub fn bytes(profile: &Profile, format: Format, view: &View) -> Result<Vec<u8>, ReportError> {
    match format {
        Format::Pprof => pprof::bytes(&rough::known(profile)),
        _ => render(profile, format, view).map(String::into_bytes),
    }
}

/// The profile in one format of text.
///
/// # Errors
/// [`ReportError::Render`], for [`Format::Pprof`], too, which is no text.
pub fn render(profile: &Profile, format: Format, view: &View) -> Result<String, ReportError> {
    match format {
        Format::Json => drawn(profile, format, view),
        _ => drawn(&rough::known(profile), format, view),
    }
}

/// The same of a profile that has no figures but those to be shown.
fn drawn(profile: &Profile, format: Format, view: &View) -> Result<String, ReportError> {
    Ok(match format {
        Format::Text => match view.extent {
            Extent::Brief => brief::report(profile, view),
            Extent::Function => explain::text(profile, view),
            Extent::All => text::report(profile, view),
        },
        Format::Json => json::text(profile)?,
        Format::Html => html::page(profile, view)?,
        Format::Svg => match view.only(profile) {
            Some(function) => plot::function::svg(profile, function),
            None => plot::roofline::svg(profile, view),
        },
        Format::Work => plot::work::svg(profile).ok_or(ReportError::Render {
            what: "picture of work",
            problem: "the program names none (rprof_work in include/rprof.h)".into(),
        })?,
        Format::Communication => plot::communication::svg(profile).ok_or(ReportError::Render {
            what: "communication-aware roofline",
            problem: "it needs a merged profile of MPI ranks with FLOPs, and ceilings of the network (docs/mpi.md)"
                .into(),
        })?,
        Format::Csv => csv::table(profile, view),
        Format::Md => markdown::text(profile, view),
        Format::Folded => folded::text(profile),
        Format::Flamegraph => flamegraph::svg(profile, view.flames)?,
        Format::Firefox => firefox::text(profile),
        Format::Pprof => {
            return Err(ReportError::Render {
                what: "pprof profile",
                problem: "it is no text: ask for its bytes".into(),
            });
        }
    })
}

const WORK_FILE: &str = "work.svg";
const COMMUNICATION_FILE: &str = "communication.svg";
/// The names of [`files`] that not every report has.
pub const SOMETIMES: [&str; 2] = [WORK_FILE, COMMUNICATION_FILE];

/// The file of the communication-aware roofline, if there is one.
fn communication(profile: &Profile) -> Option<(&'static str, Format)> {
    plot::communication::is_drawn(profile).then_some((COMMUNICATION_FILE, Format::Communication))
}

/// The files of a report's folder, each made on demand: `profile.json` first, so that a failing picture loses
/// nothing.
///
/// # Errors
/// [`ReportError::Render`], of each file.
pub fn files<'a>(
    profile: &'a Profile,
    view: &'a View,
) -> impl Iterator<Item = Result<(&'static str, String), ReportError>> + 'a {
    let files = [
        ("profile.json", Format::Json),
        ("report.html", Format::Html),
        ("roofline.svg", Format::Svg),
        ("flamegraph.svg", Format::Flamegraph),
    ];
    let work = (WORK_FILE, Format::Work);
    let named = profile.regions.iter().any(|r| !r.work.is_empty());
    let files = files.into_iter().chain(named.then_some(work)).chain(communication(profile));
    let known = rough::known(profile);
    files.map(move |(name, format)| {
        let shown = if format == Format::Json { profile } else { &*known };
        Ok((name, drawn(shown, format, view)?))
    })
}
