//! One section for each of the first functions: its own roofline, and the parts of [`explain`].

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::regions::Rows;
use crate::{View, explain, name, palette, plot, table};
use rprof_profile::{Function, Profile};

use super::instructions;
use super::listing::{self, Files};
use super::{escape, packed, without_style};

/// Functions that have a picture.
pub const PICTURES: usize = 10;
/// Functions whose sections have all figures with their sources; they are open, for readers without a script, where there is room.
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

/// The sections within `room` bytes. As many of the first as fit are open; fewer if the others, packed, would not fit beside them.
pub fn sections(profile: &Profile, view: &View, room: usize) -> Sections {
    let files = Files::default();
    let index = |f: &Function| profile.functions.iter().position(|other| std::ptr::eq(other, f)).unwrap_or(0);
    let shown = view.kept(profile).take(MOST).enumerate();
    let mut all: Vec<(usize, String)> =
        shown.map(|(rank, f)| (index(f), section(profile, f, index(f), view, rank, &files))).collect();
    let size = |sections: &[(usize, String)]| sections.iter().map(|(_, markup)| markup.len()).sum::<usize>();
    let mut open = WITH_FIGURES.min(all.len());
    while size(&all[..open]) > room {
        open -= 1;
    }
    let mut packed = packed_sections(&all[open..]);
    let over = |open: &[(usize, String)], packed: &str| (size(open) + packed.len()).saturating_sub(room);
    while open > 0 && over(&all[..open], &packed) > 0 {
        let mut over = over(&all[..open], &packed);
        while over > 0 && open > 0 {
            open -= 1;
            over = over.saturating_sub(all[open].1.len() / 2); // Markup packs to less than a half.
        }
        packed = packed_sections(&all[open..]);
    }
    let room = room - size(&all[..open]);
    while packed.len() > room {
        all.truncate(open + (all.len() - open) * 3 / 4);
        packed = packed_sections(&all[open..]);
    }
    let number = all.len();
    Sections { open: all.drain(..open).map(|(_, markup)| markup).collect(), packed, number }
}

/// Sections by index of their function, packed; nothing for none.
fn packed_sections(sections: &[(usize, String)]) -> String {
    let all: Map<String, Value> =
        sections.iter().map(|(index, markup)| (index.to_string(), markup.as_str().into())).collect();
    if all.is_empty() { String::new() } else { packed::pack(&Value::Object(all).to_string()) }
}

fn section(profile: &Profile, f: &Function, index: usize, view: &View, rank: usize, files: &Files) -> String {
    let mut out = format!(
        "<section class=\"function card\" data-f=\"{index}\">\n<h3><span class=\"dot\" style=\"background:{}\"></span>{}</h3>\n\
         <p class=\"place\">{} · {}</p>\n<div class=\"parts\">\n",
        palette::hex(f.analysis.class),
        escape(&name::of(f, view.name_width(200))),
        escape(&name::shorten(&explain::place(f), 200)),
        escape(&table::class_and_doubt(f)),
    );
    if rank < PICTURES {
        let _ = writeln!(out, "<div class=\"own\">{}</div>", without_style(&plot::function::svg(profile, f)));
    }
    let left_out = |title: &str| rank >= WITH_FIGURES && ["Figures", "Not measured"].contains(&title);
    let source = listing::markup(f, files);
    for part in explain::parts(profile, f, view).into_iter().filter(|part| !left_out(part.title)) {
        if part.title == explain::INSTRUCTIONS {
            out += &instructions::markup(f, !source.is_empty(), rank < PICTURES);
            continue;
        }
        let _ = write!(out, "<div><h4>{}</h4>", part.title);
        for line in &part.lines {
            let _ = write!(out, "<p>{}</p>", escape(&name::printable(line)));
        }
        if let Some(rows) = &part.rows {
            out += &inner(rows);
        }
        if part.title == "Source lines" {
            out += &source;
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
