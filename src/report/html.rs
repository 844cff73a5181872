//! `report.html`: table, both pictures, explanations and doubts in one file that loads nothing.

use std::fmt::Write;

use crate::profile::{Function, Machine, Profile};
use crate::roofline::ranking;

use super::error::ReportError;
use super::number::{self, NOT_MEASURED, or_unmeasured, percent, seconds, si};
use super::table::{self, COLUMNS};
use super::trust::Trust;
use super::{
    View, counters, devices, flamegraph, machine, name, palette, plot, regions, summary, system, text, traffic, verdict,
};

const CSS: &str = include_str!("report.css");

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
    body += "<h2>Functions</h2>\n";
    if profile.functions.is_empty() {
        body += "<p>No function was seen: too little to measure.</p>\n";
    } else {
        body += &functions(profile, view);
        let _ = writeln!(body, "<h2>Roofline</h2>\n<div class=\"card\">{}</div>", plot::roofline::svg(profile, view));
        let _ =
            writeln!(body, "<h2>What holds each function</h2>\n<div class=\"card\">{}</div>", details(profile, view));
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
    let flames = flamegraph::svg(profile)?;
    let _ = writeln!(body, "<h2>Flame graph</h2>\n<div class=\"card\">{}</div>", frame(&flames));
    Ok(document(&command, &body))
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
    for rows in regions::tables(profile) {
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
    if let Some(picture) = plot::work::svg(profile) {
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
    document(&host.cpu, &body)
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>rprof: {}</title>\n\
         <style>\n{CSS}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

fn words(title: &str) -> &'static str {
    if matches!(title, "held by" | "saves" | "built for") { " class=\"words\"" } else { "" }
}

fn functions(profile: &Profile, view: &View) -> String {
    let with_expected = profile.functions.iter().any(|f| f.analysis.expected.is_some());
    let mut out = String::from("<div class=\"card\"><table>\n<tr><th>function</th>");
    for c in COLUMNS {
        let _ = write!(out, "<th{} title=\"{}\">{}</th>", words(c.title), escape(c.meaning), c.title);
    }
    out += if with_expected { "<th class=\"words\">built for</th></tr>\n" } else { "</tr>\n" };
    for gain in ranking::by_gain(view.functions(profile)) {
        let f = gain.function;
        let _ = write!(
            out,
            "<tr><td class=\"named\" title=\"{}\"><span class=\"dot\" style=\"background:{}\"></span>{}{}</td>",
            escape(&f.name),
            palette::hex(f.analysis.class.as_deref()),
            escape(&name::shorten(&f.name, view.name_width(70))),
            place(f)
        );
        for c in COLUMNS {
            let cell =
                (c.cell)(f).map_or_else(|| format!("<span class=\"absent\">{NOT_MEASURED}</span>"), |t| escape(&t));
            let _ = write!(out, "<td{}>{cell}</td>", words(c.title));
        }
        if with_expected {
            let expected = f.analysis.expected.as_deref();
            let mark = match f.analysis.class.as_deref() {
                None => "",
                class if class == expected => "✓",
                _ => "✗",
            };
            let cell = expected.map_or(String::new(), |e| format!("{} {mark}", escape(e)));
            let _ = write!(out, "<td class=\"words\">{cell}</td>");
        }
        out += "</tr>\n";
    }
    out + "</table></div>\n"
}

fn place(f: &Function) -> String {
    match (&f.file, f.line) {
        (Some(file), Some(line)) => {
            format!("<br><span class=\"place\">{}:{line}</span>", escape(file.rsplit('/').next().unwrap_or(file)))
        }
        _ => format!("<br><span class=\"place\">{}</span>", escape(&f.module)),
    }
}

fn details(profile: &Profile, view: &View) -> String {
    let mut out = String::new();
    for (i, f) in view.functions(profile).enumerate() {
        let open = if i < 2 { " open" } else { "" };
        let short = escape(&name::shorten(&f.name, view.name_width(80)));
        let _ = writeln!(
            out,
            "<details{open}><summary><span class=\"dot\" style=\"background:{}\"></span><b>{short}</b>: {}</summary>",
            palette::hex(f.analysis.class.as_deref()),
            escape(&table::class(f))
        );
        let _ = writeln!(out, "<p>{}</p>", escape(&text::holding(f)));
        out += &savings(f);
        for remark in &f.analysis.remarks {
            let _ = writeln!(out, "<p>{}</p>", escape(remark));
        }
        out += &ceilings(f);
        out += &measures(f);
        for line in system::of_function(f).into_iter().chain(traffic::of_function(f)).chain(counters::of_function(f)) {
            let _ = writeln!(out, "<p>{}</p>", escape(&line));
        }
        out += "</details>\n";
    }
    out
}

fn savings(f: &Function) -> String {
    if table::savings(f).is_empty() {
        return String::new();
    }
    let mut out = String::from("<ul>\n");
    for s in table::savings(f) {
        let _ = writeln!(
            out,
            "<li><b>{}</b>, saves {}: {}</li>",
            escape(&s.remove.join(" + ")),
            number::range(s.seconds, s.seconds_max),
            escape(&s.advice)
        );
    }
    out + "</ul>\n"
}

fn ceilings(f: &Function) -> String {
    let unit = format!("{}/s", table::operations(f.analysis.axis.as_deref()));
    let mut out = String::from(
        "<table class=\"inner\"><tr><th>ceiling</th><th title=\"with this and everything above it removed; memory: at this \
         level's bandwidth\">bound</th><th title=\"with only this as it is and all else perfect\">alone</th><th class=\"words\">from</th></tr>\n",
    );
    for c in &f.analysis.ceilings {
        let Some(value) = c.value else { continue };
        let binding = if f.analysis.binding.as_deref() == Some(&c.id) { " ◀ binds" } else { "" };
        let refuted = if c.refuted { " (refuted)" } else { "" };
        let _ = writeln!(
            out,
            "<tr><td>{}{binding}{refuted}</td><td>{}</td><td>{}</td><td class=\"words\">{}</td></tr>",
            escape(&c.id),
            si(value, &unit),
            or_unmeasured(c.value_alone, |v| si(v, &unit)),
            escape(&c.from.join(", "))
        );
    }
    if f.analysis.ceilings.is_empty() { String::new() } else { out + "</table>\n" }
}

/// The figures beside the model, each with its source.
fn measures(f: &Function) -> String {
    let a = &f.analysis;
    let bytes = f.bytes.unwrap_or_default();
    let count = |n: Option<u64>, unit: &'static str| or_unmeasured(n.map(|n| n as f64), move |v| si(v, unit));
    let rows: Vec<(&str, &str, String)> = vec![
        (
            "time",
            "time_s",
            or_unmeasured(f.time_s, seconds) + &f.time_ci95_s.map_or(String::new(), |c| format!(" ± {}", seconds(c))),
        ),
        ("CPU time", "cpu_s", or_unmeasured(f.cpu_s, seconds)),
        ("instructions", "instructions", count(f.instructions, "")),
        ("FLOPs", "flops", count(f.flops.map(|x| x.total), "")),
        ("bytes L1", "bytes.l1", count(bytes.l1, "B")),
        ("bytes L2", "bytes.l2", count(bytes.l2, "B")),
        ("bytes L3", "bytes.l3", count(bytes.l3, "B")),
        ("bytes DRAM", "bytes.dram", count(bytes.dram, "B")),
        ("pages touched", "pages", f.pages.map_or_else(|| NOT_MEASURED.into(), traffic::touched)),
        ("SIMD lanes used", "instructions", or_unmeasured(a.simd_use, percent)),
        ("FMA balance", "instructions", or_unmeasured(a.fma_balance, percent)),
        ("ILP", "instructions", or_unmeasured(a.ilp, percent)),
        ("FP fraction", "instructions", or_unmeasured(a.fp_fraction, percent)),
        ("load balance", "per_thread", or_unmeasured(a.load_balance, percent)),
    ];
    let mut out =
        String::from("<table class=\"inner\"><tr><th>figure</th><th>value</th><th class=\"words\">source</th></tr>\n");
    for (title, key, value) in rows {
        let source = f.source.get(key).map_or(String::new(), |s| {
            let error = s.error.map_or(String::new(), |e| format!(" ± {}", percent(e)));
            let reason = s.reason.as_ref().map_or(String::new(), |r| format!(": {r}"));
            format!("{}{error}{reason}", s.how)
        });
        let _ = writeln!(
            out,
            "<tr><td>{title}</td><td>{}</td><td class=\"words\">{}</td></tr>",
            escape(&value),
            escape(&source)
        );
    }
    out + "</table>\n"
}

/// The flame graph in a frame of its own: its script and ids stay apart from the page's.
fn frame(svg: &str) -> String {
    let height = attribute(svg, "height").unwrap_or(400.0).min(2000.0) + 10.0;
    format!(
        "<iframe title=\"flame graph\" height=\"{height}\" src=\"data:image/svg+xml;charset=utf-8,{}\"></iframe>",
        percent_encoded(svg)
    )
}

fn attribute(svg: &str, name: &str) -> Option<f64> {
    let tag = &svg[svg.find("<svg")?..];
    let value = &tag[tag.find(&format!(" {name}=\""))? + name.len() + 3..];
    value.split('"').next()?.parse().ok()
}

/// `text` with the characters that a URL inside an attribute may not contain as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'.'
            | b'~'
            | b' '
            | b'/'
            | b':'
            | b'='
            | b','
            | b';'
            | b'('
            | b')' => {
                out.push(byte as char);
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
