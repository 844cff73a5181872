//! One section for each of the first functions: its own roofline, and the parts of [`explain`].

use std::fmt::Write;

use crate::profile::{Function, Profile};
use crate::report::regions::Rows;
use crate::report::{View, explain, name, palette, plot, table};

use super::{escape, without_style};

/// Functions that have a picture.
pub const PICTURES: usize = 10;
/// Functions whose sections have all figures with their sources.
const WITH_FIGURES: usize = 20;
/// Functions that have a section at most.
pub const MOST: usize = 200;

/// The sections within `room` bytes, and how many functions have one.
pub fn sections(profile: &Profile, view: &View, room: usize) -> (String, usize) {
    let mut out = String::new();
    let mut detailed = 0;
    for (rank, f) in view.kept(profile).take(MOST).enumerate() {
        let index = profile.functions.iter().position(|other| std::ptr::eq(other, f)).unwrap_or(0);
        let section = section(profile, f, index, view, rank);
        if out.len() + section.len() > room {
            break;
        }
        out += &section;
        detailed += 1;
    }
    (out, detailed)
}

fn section(profile: &Profile, f: &Function, index: usize, view: &View, rank: usize) -> String {
    let mut out = format!(
        "<section class=\"function card\" data-f=\"{index}\">\n<h3><span class=\"dot\" style=\"background:{}\"></span>{}</h3>\n\
         <p class=\"place\">{} · {}</p>\n<div class=\"parts\">\n",
        palette::hex(f.analysis.class.as_deref()),
        escape(&name::shorten(&f.name, view.name_width(200))),
        escape(&name::shorten(&explain::place(f), 200)),
        escape(&table::class_and_doubt(f)),
    );
    if rank < PICTURES {
        let _ = writeln!(out, "<div class=\"own\">{}</div>", without_style(&plot::function::svg(profile, f)));
    }
    let left_out = |title: &str| rank >= WITH_FIGURES && ["Figures", "Not measured"].contains(&title);
    for part in explain::parts(profile, f, view).into_iter().filter(|part| !left_out(part.title)) {
        let _ = write!(out, "<div><h4>{}</h4>", part.title);
        for line in &part.lines {
            let _ = write!(out, "<p>{}</p>", escape(&name::printable(line)));
        }
        if let Some(rows) = &part.rows {
            out += &inner(rows);
        }
        out += "</div>\n";
    }
    if rank >= WITH_FIGURES {
        out += "<p class=\"place\">All figures with their sources: rprof report PROFILE --function NAME</p>\n";
    }
    out + "</div></section>\n"
}

/// A table of a part, without the end tags that HTML does not need: there are thousands of cells.
fn inner(rows: &Rows) -> String {
    let words: String = rows.words.iter().map(|column| format!(" w{column}")).collect();
    let mut out = format!("<table class=\"inner{words}\"><tr>");
    for title in &rows.titles {
        let _ = write!(out, "<th>{title}");
    }
    for row in &rows.rows {
        out += "<tr>";
        for cell in row {
            let _ = write!(out, "<td>{}", escape(cell));
        }
    }
    out += "</table>";
    for note in &rows.notes {
        let _ = write!(out, "<p class=\"place\">{}</p>", escape(note));
    }
    out
}
