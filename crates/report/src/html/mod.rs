//! `report.html`: one file that loads nothing. The pictures, the table of the hottest functions and the details of the first ones are
//! made here; the script selects, sorts and searches them, with the columns of all functions from the embedded data.
//!
//! ```text
//! Profile ─┬▶ roofline, table, flame graph, text   ─┐
//!          ├▶ details: 200 sections, most of them packed ─┼▶ page, at most 1 MB for 5,000 functions
//!          └▶ data: columns of all functions        ─┘
//! ```

mod data;
mod details;
mod instructions;
mod listing;
mod packed;
mod roofs;
mod rounded;
mod script;
mod sources;

use std::fmt::Write;

use rprof_model::ranking::{self, Gain};
use rprof_profile::{Function, Machine, Profile};

use super::error::ReportError;
use super::number::{NOT_MEASURED, seconds};
use super::trust::Trust;
use super::{
    View, blas, counters, devices, flamegraph, machine, mpi, name, palette, plot, regions, summary, system, table,
    verdict,
};

const CSS: &str = include_str!("report.css");
/// Turns the communication-aware roofline.
const VOLUME: &str = include_str!("volume.js");
const TOOLBAR: &str = include_str!("toolbar.html");
/// Buttons on the roofline.
const ZOOM: &str = "<span class=\"zoom buttons\"><button id=\"in\" title=\"zoom in ( + )\">+</button> \
    <button id=\"out\" title=\"zoom out ( - )\">\u{2212}</button> <button id=\"reset\" title=\"show all ( 0 )\" hidden>reset</button></span>";

/// The page of a profile.
///
/// # Errors
/// [`ReportError::Render`] if the flame graph cannot be made.
pub fn page(profile: &Profile, view: &View) -> Result<String, ReportError> {
    let command = name::printable(&profile.run.command.join(" "));
    let mut body = format!("<h1>{}</h1>\n", escape(&command));
    let _ = writeln!(body, "<p class=\"verdict\">{}</p>", escape(&verdict::sentence(profile)));
    body += &experiment(profile);
    // A program that uses a GPU is about that.
    body += &devices::html(profile, view);
    if profile.functions.is_empty() {
        body += "<p>No function was seen: too little to measure.</p>\n";
    } else {
        body += TOOLBAR;
        let picture = plot::roofline::svg(profile, view);
        let _ = writeln!(
            body,
            "<div class=\"both\"><div class=\"card\" id=\"roofline\">{picture}{ZOOM}<p class=\"place\" id=\"levelnote\"></p></div>\n\
             <div class=\"card scroll\">{}<button id=\"more\" hidden></button><p class=\"place\" id=\"count\"></p></div></div>",
            functions(profile, view)
        );
        body += "<div id=\"tip\" role=\"tooltip\" hidden></div>\n<h2 id=\"one\">What holds a function</h2>\n<p class=\"place\" id=\"nodetail\"></p>\n";
        body += DETAILS;
    }
    let in_system: Vec<String> = system::of_program(profile).iter().map(|line| escape(line)).collect();
    if !in_system.is_empty() {
        let lines = in_system.join("<br>\n");
        let _ = writeln!(body, "<h2>System calls and waiting</h2>\n<div class=\"card\">{lines}</div>");
    }
    body += &marked(profile);
    let told = counters::of_program(profile);
    if !told.is_empty() {
        let lines: Vec<String> = told.iter().map(|line| escape(line.trim_start())).collect();
        let _ = writeln!(body, "<h2>Hardware counters</h2>\n<div class=\"card\">{}</div>", lines.join("<br>\n"));
    }
    let (columns, name_width) = data::columns(profile, view);
    let flames = flamegraph::within(profile, MOST_FLAMES, name_width)?;
    let frame = frame("flames", "flame graph", &flames);
    let _ = writeln!(body, "<h2>Flame graph</h2>\n<div class=\"card\">{frame}</div>");
    body += &host(profile);
    let room = MOST_BYTES.saturating_sub(body.len() + columns.len() + script::TEXT.len() + CSS.len());
    let sections = details::sections(profile, view, room);
    let body = body.replacen(DETAILS, &sections.open, 1);
    let script = if profile.functions.is_empty() {
        String::new()
    } else {
        let volume = if body.contains("class=\"rf-volume\"") { VOLUME } else { "" };
        format!(
            "<script type=\"application/json\" id=\"data\">{columns}</script>\n\
             <script type=\"text/plain\" id=\"packed\" data-detailed=\"{}\">{}</script>\n<script>\n{}{volume}</script>\n",
            sections.number,
            sections.packed,
            script::TEXT
        )
    };
    Ok(document(&command, &body, &script))
}

/// The page may have so many bytes.
const MOST_BYTES: usize = 960_000;
/// Its flame graph may have so many.
const MOST_FLAMES: usize = 120_000;
/// Where the sections of functions go.
const DETAILS: &str = "<!-- details -->";

/// The ceilings of the machine, folded.
fn host(profile: &Profile) -> String {
    if profile.machine.ceilings.is_empty() {
        return String::new();
    }
    let text: Vec<String> = machine::text(&profile.machine, 110).lines().map(name::printable).collect();
    format!(
        "<details class=\"machine\"><summary>Ceilings of this machine</summary>\n<pre>{}</pre></details>\n",
        escape(&text.join("\n"))
    )
}

/// How far it can be trusted, in one line; the run, the machine and all doubts where it is opened.
fn experiment(profile: &Profile) -> String {
    let mut out = format!("<details class=\"trust\"><summary>{}</summary>\n", escape(&Trust::of(profile).line()));
    for line in summary::lines(profile) {
        let _ = writeln!(out, "<p>{}</p>", escape(&line));
    }
    if !profile.run.warnings.is_empty() {
        out += "<ul>\n";
        for w in &profile.run.warnings {
            let _ = writeln!(out, "<li class=\"warn\">{}</li>", escape(&summary::doubt(w)));
        }
        out += "</ul>\n";
    }
    out + "</details>\n"
}

/// Regions and work that the program marks.
fn marked(profile: &Profile) -> String {
    let mut out = String::new();
    let products = blas::rows(profile, blas::ROWS).into_iter();
    for rows in products.chain(mpi::tables(profile, mpi::ROWS)).chain(regions::tables(profile)) {
        let _ = write!(out, "<h2>{}</h2>\n<div class=\"card\"><table>\n<tr>", escape(&rows.title));
        let class = |i: usize| if rows.words.contains(&i) { " class=\"words\"" } else { "" };
        for (i, title) in rows.titles.iter().enumerate() {
            let _ = write!(out, "<th{}>{title}</th>", class(i));
        }
        out += "</tr>\n";
        for row in &rows.rows {
            let cells = row.iter().enumerate().map(|(i, c)| format!("<td{}>{}</td>", class(i), escape(c)));
            let _ = writeln!(out, "<tr>{}</tr>", cells.collect::<String>());
        }
        out += "</table>\n";
        for note in &rows.notes {
            let _ = writeln!(out, "<p class=\"place\">{}</p>", escape(note));
        }
        out += "</div>\n";
    }
    let pictures = [plot::communication::svg(profile), plot::work::svg(profile)];
    for picture in pictures.into_iter().flatten() {
        let _ = writeln!(out, "<div class=\"card\" style=\"margin:14px 0\">{picture}</div>");
    }
    out
}

/// The page of a machine.
pub fn machine_page(host: &Machine) -> String {
    let mut body = format!("<h1>{}</h1>\n", escape(&host.cpu));
    for (_, svg) in machine::pictures(host) {
        let _ = writeln!(body, "<div class=\"card\" style=\"margin:14px 0\">{svg}</div>");
    }
    let _ =
        writeln!(body, "<h2>Ceilings</h2>\n<div class=\"card\"><pre>{}</pre></div>", escape(&machine::text(host, 110)));
    document(&host.cpu, &body, "")
}

/// A page that loads nothing: `body` and `script` are markup.
pub fn document(title: &str, body: &str, script: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data: blob:; frame-src 'self'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>rprof: {}</title>\n\
         <style>\n{CSS}</style>\n</head>\n<body>\n<main>\n{body}</main>\n{script}</body>\n</html>\n",
        escape(title)
    )
}

/// The table of the functions with most time; the script replaces its rows by all functions.
fn functions(profile: &Profile, view: &View) -> String {
    let with_expected = profile.functions.iter().any(|f| f.analysis.expected.is_some());
    let mut out = String::from("<table id=\"functions\">\n<thead><tr>");
    for (key, title, meaning) in COLUMNS {
        let words = if matches!(key, "name" | "by" | "held") { " class=\"words\"" } else { "" };
        let _ = write!(out, "<th{words} data-key=\"{key}\" title=\"{meaning}\">{title}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for gain in ranking::by_gain(view.functions(profile)) {
        out += &row(&gain, view, with_expected);
    }
    out + "</tbody></table>\n"
}

/// Key, heading and meaning of each column.
const COLUMNS: [(&str, &str, &str); 9] = [
    ("name", "function", "self figures; inlined code belongs to its host"),
    ("saves", "saves", "seconds of the whole program that its best change saves"),
    ("by", "by", "the change"),
    ("share", "share", "CPU time / CPU time of the program"),
    ("time", "time", "elapsed time with at least one thread in it"),
    ("rate", "rate", "operations per second of elapsed time"),
    ("oi", "op/byte", "operational intensity at the chosen level"),
    ("held", "held by", "class of the binding ceiling"),
    ("at", "at", "least time of the binding term / measured time"),
];

fn row(gain: &Gain<'_>, view: &View, with_expected: bool) -> String {
    let f = gain.function;
    let mut out = format!(
        "<tr><td class=\"named\" title=\"{}\"><span class=\"dot\" style=\"background:{}\"></span>{}{}</td>",
        escape(&name::of(f, 500)),
        palette::hex(f.analysis.class),
        escape(&name::of(f, view.name_width(70))),
        place(f)
    );
    let of_table = |title: &str| table::COLUMNS.iter().find(|c| c.title == title).and_then(|c| (c.cell)(f));
    let most = if gain.is_limit() || !table::at_least(f).is_empty() { "≤ " } else { "" };
    for (key, title, _) in COLUMNS.iter().skip(1) {
        let cell = match *key {
            "saves" => gain.saving.map(|_| format!("{most}{}", seconds(gain.seconds()))),
            "by" => gain.saving.map(|s| s.remove.join("+")),
            _ => of_table(title),
        };
        let words = if matches!(*key, "by" | "held") { " class=\"words\"" } else { "" };
        let mark = match (with_expected && *key == "at", f.analysis.expected.as_ref()) {
            (true, Some(expected)) if Some(expected) == f.analysis.class.as_ref() => " ✓",
            (true, Some(_)) => " ✗",
            _ => "",
        };
        let cell = cell.map_or_else(|| format!("<span class=\"absent\">{NOT_MEASURED}</span>"), |t| escape(&t));
        let _ = write!(out, "<td{words} data-key=\"{key}\">{cell}{mark}</td>");
    }
    out + "</tr>\n"
}

fn place(f: &Function) -> String {
    let text = name::place(f.file.as_deref(), f.line).unwrap_or_else(|| f.module.clone());
    format!("<span class=\"place\">{}</span>", escape(&name::shorten(&text, 80)))
}

/// A picture without its style sheet, for pages that have another picture with it.
fn without_style(svg: &str) -> String {
    match (svg.find("<style>"), svg.find("</style>")) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &svg[..from], &svg[to + 8..]),
        _ => svg.to_owned(),
    }
}

/// A picture with a script in a frame of its own, which the page's script can reach.
pub fn frame(id: &str, title: &str, svg: &str) -> String {
    let height = attribute(svg, "height").unwrap_or(400.0).min(2000.0) + 10.0;
    let svg = svg.find("<svg").map_or(svg, |at| &svg[at..]);
    let document = format!(
        "<!DOCTYPE html><html><head><style>:root {{ color-scheme: light dark }} body {{ margin: 0 }} body > svg {{ width: 100%; display: block }}</style>{QUIET}</head><body>{svg}</body></html>"
    );
    let document = document.replace('&', "&amp;").replace('"', "&quot;");
    format!("<iframe id=\"{id}\" title=\"{title}\" height=\"{height}\" srcdoc=\"{document}\"></iframe>")
}

/// inferno's script keeps its zoom in the address; a frame has none.
const QUIET: &str = "<script>history.replaceState = () => {};</script>";

fn attribute(svg: &str, name: &str) -> Option<f64> {
    let tag = &svg[svg.find("<svg")?..];
    let value = &tag[tag.find(&format!(" {name}=\""))? + name.len() + 3..];
    value.split('"').next()?.parse().ok()
}

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
