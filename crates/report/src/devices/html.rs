//! The section of GPUs in `report.html`: full names in tooltips, a roofline for each GPU.

use std::fmt::Write;

use crate::html::escape;
use crate::number::{percent, seconds};
use crate::regions::Rows;
use crate::{View, name, palette, plot};
use rprof_model::device::terms::LAUNCH;
use rprof_profile::Profile;
use rprof_profile::device::{Devices, Kernel};

/// The longest name in a tooltip: the profile has it whole.
const TOOLTIP: usize = 500;

/// The section, empty if no GPU was used.
pub fn section(profile: &Profile, view: &View) -> String {
    let Some(devices) = &profile.devices else { return String::new() };
    let mut out = String::from("<h2>GPU</h2>\n");
    for line in super::lines(profile, devices) {
        let _ = writeln!(out, "<p class=\"summary\">{}</p>", escape(&line));
    }
    if let Some(rows) = super::kernels(devices, view, 70) {
        let kernels: Vec<_> = super::shown(devices, view).collect();
        out += &table(&rows, |i| {
            let class = kernels[i].analysis.as_ref().map(|a| a.class);
            let dot = format!("<span class=\"dot\" style=\"background:{}\"></span>", palette::hex(class));
            (name::shorten(&kernels[i].name, TOOLTIP), dot)
        });
    }
    for picture in plot::gpu::pictures(profile, view) {
        let _ = writeln!(out, "<div class=\"card\" style=\"margin:14px 0\">{picture}</div>");
    }
    for rows in super::beside_kernels(devices) {
        out += &table(&rows, |_| (String::new(), String::new()));
    }
    out + &sentences(devices, view)
}

/// A table; `of(row)` is the tooltip of a row's name, and the text before it.
fn table(rows: &Rows, of: impl Fn(usize) -> (String, String)) -> String {
    let class = |i: usize| if i == 0 || rows.words.contains(&i) { " class=\"words\"" } else { "" };
    let mut out = format!("<h3>{}</h3>\n<div class=\"card\"><table>\n<tr>", escape(&rows.title));
    for (i, title) in rows.titles.iter().enumerate() {
        let _ = write!(out, "<th{}>{title}</th>", class(i));
    }
    out += "</tr>\n";
    for (n, row) in rows.rows.iter().enumerate() {
        let (tooltip, before) = of(n);
        let named = if tooltip.is_empty() {
            " class=\"words\"".into()
        } else {
            format!(" class=\"named\" title=\"{}\"", escape(&tooltip))
        };
        let _ = write!(out, "<tr><td{named}>{before}{}</td>", escape(&row[0]));
        for (i, cell) in row.iter().enumerate().skip(1) {
            let _ = write!(out, "<td{}>{}</td>", class(i), escape(cell));
        }
        out += "</tr>\n";
    }
    out += "</table>\n";
    for note in &rows.notes {
        let _ = writeln!(out, "<p class=\"place\">{}</p>", escape(note));
    }
    out + "</div>\n"
}

/// The terms of a kernel: the time that each ceiling takes.
fn terms(k: &Kernel) -> String {
    let Some(a) = k.analysis.as_ref().filter(|a| !a.terms.is_empty()) else { return String::new() };
    let mut out = String::from(
        "<table class=\"inner\"><tr><th>ceiling</th><th title=\"least time of all launches\">least time</th><th>of the time</th></tr>\n",
    );
    for term in &a.terms {
        let binds = if Some(&term.ceiling) == a.binding.as_ref() { " ◀ binds" } else { "" };
        let refuted = if term.refuted { " (refuted)" } else { "" };
        let host = if term.ceiling == LAUNCH { " (the host's time, beside the kernel's)" } else { "" };
        let share = if k.seconds > 0.0 { percent(term.seconds / k.seconds) } else { String::new() };
        let name = escape(&term.ceiling);
        let _ = writeln!(
            out,
            "<tr><td>{name}{binds}{refuted}{host}</td><td>{}</td><td>{share}</td></tr>",
            seconds(term.seconds)
        );
    }
    out + "</table>\n"
}

/// What holds each kernel, what the whole program loses, and doubts.
fn sentences(devices: &Devices, view: &View) -> String {
    let mut out = String::from("<h3>What holds the GPU</h3>\n<div class=\"card\">\n");
    for k in super::explained(devices, view) {
        let class = k.analysis.as_ref().map(|a| a.class);
        let _ = writeln!(
            out,
            "<details open><summary><span class=\"dot\" style=\"background:{}\"></span><b>{}</b></summary>\n<p>{}</p>",
            palette::hex(class),
            escape(&super::label(devices, k, 80)),
            escape(&super::holding(k))
        );
        for line in super::advice_of(devices, k) {
            let _ = writeln!(out, "<p>{}</p>", escape(&line));
        }
        out += &terms(k);
        out += "</details>\n";
    }
    for line in super::findings(devices) {
        let _ = writeln!(out, "<p>{}</p>", escape(&line));
    }
    for line in super::doubts(devices) {
        let _ = writeln!(out, "<p class=\"warn\">{}</p>", escape(&line));
    }
    out + "</div>\n"
}
