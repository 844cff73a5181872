//! One section for each of the first functions: its own roofline, and the parts of [`explain`].

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::profile::{Function, Profile};
use crate::report::regions::Rows;
use crate::report::{View, explain, name, palette, plot, table};

use super::listing::{self, Files};
use super::{escape, packed, without_style};

/// Functions that have a picture.
pub const PICTURES: usize = 10;
/// Functions whose sections have all figures with their sources, and are there for readers without a script.
const WITH_FIGURES: usize = 20;
/// Functions that have a section at most.
pub const MOST: usize = 200;

/// The sections of a page.
#[derive(Debug, Default)]
pub struct Sections {
    /// Markup of the first ones.
    pub open: String,
    /// The others by index of their function, packed; the script opens them when they are selected.
    pub packed: String,
    /// Functions that have one.
    pub number: usize,
}

/// The sections within `room` bytes.
pub fn sections(profile: &Profile, view: &View, room: usize) -> Sections {
    let mut out = Sections::default();
    let mut rest: Vec<(usize, String)> = Vec::new();
    let files = Files::default();
    for (rank, f) in view.kept(profile).take(MOST).enumerate() {
        let index = profile.functions.iter().position(|other| std::ptr::eq(other, f)).unwrap_or(0);
        let section = section(profile, f, index, view, rank, &files);
        if rank >= WITH_FIGURES {
            rest.push((index, section));
        } else if out.open.len() + section.len() <= room {
            out.open += &section;
            out.number += 1;
        } else {
            return out;
        }
    }
    let room = room - out.open.len();
    // Fewer if they do not fit: markup of sections packs to about a sixth.
    while !rest.is_empty() {
        let all: Map<String, Value> =
            rest.iter().map(|(index, markup)| (index.to_string(), markup.as_str().into())).collect();
        let packed = packed::pack(&Value::Object(all).to_string());
        if packed.len() <= room {
            out.packed = packed;
            out.number += rest.len();
            break;
        }
        rest.truncate(rest.len() * 3 / 4);
    }
    out
}

fn section(profile: &Profile, f: &Function, index: usize, view: &View, rank: usize, files: &Files) -> String {
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
        if part.title == "Source lines" {
            out += &listing::markup(f, files);
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
