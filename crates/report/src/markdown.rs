//! Markdown: the table, advice and warnings, for issues and pull requests.

use rprof_model::ranking;
use rprof_profile::{Function, Profile};

use super::number::{self, NOT_MEASURED};
use super::table::{COLUMNS, savings};
use super::trust::Trust;
use super::{View, blas, counters, devices, mpi, name, regions, summary, system, verdict};

/// The report as GitHub-flavoured Markdown.
pub fn text(profile: &Profile, view: &View) -> String {
    let mut out = format!("### `{}`\n\n", name::printable(&profile.run.command.join(" ")).replace('`', "'"));
    out += &format!("**{}**\n\n{}\n", escape(&verdict::sentence(profile)), escape(&Trust::of(profile).line()));
    let titles: Vec<&str> = COLUMNS.iter().map(|c| c.title).collect();
    out += &format!("\n| function | {} |\n| --- |{}\n", titles.join(" | "), " ---: |".repeat(titles.len()));
    for gain in ranking::by_gain(view.functions(profile)) {
        let f = gain.function;
        let cells: Vec<String> =
            COLUMNS.iter().map(|c| (c.cell)(f).unwrap_or_else(|| NOT_MEASURED.into())).map(|c| escape(&c)).collect();
        out += &format!("| `{}` | {} |\n", code(&name::of(f, view.name_width(60))), cells.join(" | "));
    }
    out += &devices::markdown(profile, view, escape);
    let is_advised = |f: &&Function| !savings(f).is_empty() || !f.analysis.remarks.is_empty();
    let advised: Vec<_> = view.explained(profile).filter(is_advised).collect();
    if !advised.is_empty() {
        out += "\nWhat to do next:\n\n";
        for f in advised {
            let name = code(&name::of(f, 40));
            for s in savings(f) {
                out += &format!("- `{name}`: {} ({})\n", escape(&s.advice), number::range(s.seconds, s.seconds_max));
            }
            for remark in &f.analysis.remarks {
                out += &format!("- `{name}`: {}\n", escape(remark));
            }
        }
    }
    let in_system: Vec<String> = system::of_program(profile).iter().map(|l| escape(l)).collect();
    if !in_system.is_empty() {
        out += &format!("\n- {}\n", in_system.join("\n- "));
    }
    let products = blas::rows(profile, blas::ROWS).into_iter();
    for rows in products.chain(mpi::tables(profile, mpi::ROWS)).chain(regions::tables(profile)) {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        out += &format!("\n{}:\n\n", rows.title);
        out += &row(rows.titles.iter().map(|t| (*t).to_owned()).collect());
        out += &format!("|{}\n", " --- |".repeat(rows.titles.len()));
        out.extend(rows.rows.iter().map(|cells| row(cells.iter().map(|c| escape(c)).collect())));
        out.extend(rows.notes.iter().map(|note| format!("\n{}\n", escape(note))));
    }
    let told = counters::of_program(profile);
    if !told.is_empty() {
        out += &format!("\n{}\n", told.iter().map(|l| escape(l.trim_start())).collect::<Vec<_>>().join("\n- "));
    }
    out + &experiment(profile)
}

/// The run, its passes, the machine and all doubts, folded.
fn experiment(profile: &Profile) -> String {
    let lines: Vec<String> = summary::lines(profile).iter().map(|line| format!("- {}\n", escape(line))).collect();
    let doubts: Vec<String> =
        profile.run.warnings.iter().map(|w| format!("- {}\n", escape(&summary::doubt(w)))).collect();
    let doubts = if doubts.is_empty() { String::new() } else { format!("\nDoubts:\n\n{}", doubts.concat()) };
    format!("\n<details><summary>The experiment</summary>\n\n{}{doubts}\n</details>\n", lines.concat())
}

/// Text in a cell or list item.
fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

/// Text between backquotes in a table cell.
fn code(text: &str) -> String {
    text.replace('`', "'").replace('|', "\\|")
}
