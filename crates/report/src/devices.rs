//! The GPUs of a run: a line for each, tables of kernels, copies and waiting, and advice; the same for text, Markdown and HTML.
//!
//! ```text
//! Devices ─▶ lines, kernels, copies, waits (Rows) ─┬▶ text
//!            advice, missing                       ├▶ markdown
//!                                                  └▶ html, with a roofline for each GPU
//! ```

mod html;
mod label;

pub use html::section as html;

use label::label;
use rprof_profile::Profile;
use rprof_profile::device::{Analysis, Counts, Device, Devices, Graph, Kernel, Shape};
use rprof_profile::vocabulary::Class;

use super::number::{NOT_MEASURED, percent, seconds, si, significant};
use super::regions::{self, Rows};
use super::{View, name, summary, wrap};

/// The heading in plain text.
const TITLE: &str = "\nGPU\n";
/// Kernels that a table shows at most; `profile.json` has all.
const ROWS: usize = 20;
/// Kernels below this share of the GPUs' kernel time are left out, but for the first five.
const LEAST_SHARE: f64 = 0.005;
/// Kernels with at least this share are explained below the table.
const EXPLAINED_SHARE: f64 = 0.05;
/// How many are explained at most.
const EXPLAINED: usize = 6;

/// The section as plain text, empty if no GPU was used.
pub fn text(profile: &Profile, view: &View, width: usize) -> String {
    let Some(devices) = &profile.devices else { return String::new() };
    let mut out = String::from(TITLE);
    for line in lines(profile, devices) {
        out += &wrap::hanging(&line, width, 2);
    }
    // A name has a quarter of the line.
    out.extend(tables(devices, view, (width / 4).clamp(18, 60)).map(|rows| regions::text(&rows, width)));
    for kernel in explained(devices, view) {
        out += &format!("\n{}\n", label(devices, kernel, width));
        out += &wrap::hanging(&format!("  {}", holding(kernel)), width, 4);
        for advice in advice_of(devices, kernel) {
            out += &wrap::hanging(&format!("  {advice}"), width, 4);
        }
    }
    let told = findings(devices);
    if !told.is_empty() {
        out.push('\n');
        out.extend(told.iter().map(|line| wrap::hanging(line, width, 2)));
    }
    out.extend(doubts(devices).iter().map(|line| wrap::hanging(line, width, 2)));
    if out == TITLE { String::new() } else { out }
}

/// The section as Markdown; `escape` makes text safe in a cell.
pub fn markdown(profile: &Profile, view: &View, escape: fn(&str) -> String) -> String {
    let Some(devices) = &profile.devices else { return String::new() };
    let list = |lines: Vec<String>| lines.iter().map(|line| format!("- {}\n", escape(line))).collect::<String>();
    let mut out = format!("\n#### GPU\n\n{}", list(lines(profile, devices)));
    for rows in tables(devices, view, 60) {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        out += &format!("\n{}:\n\n", rows.title);
        out += &row(rows.titles.iter().map(|t| (*t).to_owned()).collect());
        out += &format!("|{}\n", " --- |".repeat(rows.titles.len()));
        out.extend(rows.rows.iter().map(|cells| row(cells.iter().map(|c| escape(c)).collect())));
        out.extend(rows.notes.iter().map(|note| format!("\n{}\n", escape(note))));
    }
    let mut told: Vec<String> = Vec::new();
    for kernel in explained(devices, view) {
        told.extend(advice_of(devices, kernel).iter().map(|line| format!("{}: {line}", label(devices, kernel, 40))));
    }
    told.extend(findings(devices));
    told.extend(doubts(devices));
    if told.is_empty() { out } else { format!("{out}\n{}", list(told)) }
}

/// The busiest GPU's use and the class of its largest kernel, in a sentence; `None` if no GPU was used.
pub fn verdict(profile: &Profile) -> Option<String> {
    let devices = profile.devices.as_ref()?;
    let device =
        devices.devices.iter().max_by(|a, b| a.kernels_s.total_cmp(&b.kernels_s)).filter(|d| d.span_s > 0.0)?;
    let part = |s: f64| percent(s / device.span_s);
    let mut out = format!(
        "GPU {} runs kernels for {} of {} and is idle for {}",
        device.index,
        part(device.kernels_s),
        seconds(device.span_s),
        part(device.idle.total_s())
    );
    if let Some(k) =
        devices.kernels.iter().filter(|k| k.device == device.index).max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    {
        let held = k.analysis.as_ref().map_or(String::new(), |a| format!(", held by {}", a.class));
        out += &format!("; {} of the kernels' time is in {}{held}", percent(share(devices, k)), label(devices, k, 36));
    }
    let finding = devices.findings.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let most =
        finding.map_or(String::new(), |f| format!(" Most to save on it: at most {}, {}.", seconds(f.seconds), f.cause));
    Some(format!("{out}.{most}"))
}

/// A line for each GPU: `GPU 0, NVIDIA H200: span 1.24 s: kernels 812 ms (65 %), …`.
fn lines(profile: &Profile, devices: &Devices) -> Vec<String> {
    let name = |index: u32| {
        let gpu = profile.machine.gpus.iter().find(|gpu| gpu.index == index);
        gpu.map_or(String::new(), |gpu| format!(", {}", name::printable(&gpu.name)))
    };
    devices.devices.iter().map(|d| format!("GPU {}{}: {}", d.index, name(d.index), line(d))).collect()
}

fn line(device: &Device) -> String {
    let part = |s: f64| format!("{} ({})", seconds(s), percent(s / device.span_s.max(f64::MIN_POSITIVE)));
    let idle = &device.idle;
    let kinds = [
        (idle.launch_s, "between launches (gaps below 20 µs)"),
        (idle.host_s, "while the host did other work"),
        (idle.waiting_s, "while the host waited for it"),
    ];
    let kinds: Vec<String> =
        kinds.into_iter().filter(|(s, _)| *s > 0.0).map(|(s, words)| format!("{} {words}", seconds(s))).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
    let loading = if idle.loading_s > 0.0 {
        format!("; {} of it while the driver loaded modules", seconds(idle.loading_s))
    } else {
        String::new()
    };
    format!(
        "kernels {}, copies alone {} of {}; idle {}{kinds}{loading}",
        part(device.kernels_s),
        part(device.copies_s),
        seconds(device.span_s),
        part(idle.total_s())
    )
}

/// Kernels to show, by descending time.
fn shown<'a>(devices: &'a Devices, view: &'a View) -> impl Iterator<Item = &'a Kernel> + 'a {
    let kept = move |k: &&Kernel| view.keeps_name(&k.name);
    let all = devices.kernels.iter().filter(kept).enumerate();
    let large = move |(i, k): &(usize, &Kernel)| *i < 5 || view.keep.is_some() || share(devices, k) >= LEAST_SHARE;
    all.filter(large).map(|(_, k)| k).take(ROWS)
}

/// Kernels that get sentences.
fn explained<'a>(devices: &'a Devices, view: &'a View) -> impl Iterator<Item = &'a Kernel> + 'a {
    let large = move |k: &&Kernel| view.keep.is_some() || share(devices, k) >= EXPLAINED_SHARE;
    shown(devices, view).filter(large).take(EXPLAINED)
}

/// Share of the time in which its GPU's kernels ran. Kernels that overlap have more than all of it together.
fn share(devices: &Devices, kernel: &Kernel) -> f64 {
    let device = devices.devices.iter().find(|d| d.index == kernel.device);
    device.filter(|d| d.kernels_s > 0.0).map_or(0.0, |d| kernel.seconds / d.kernels_s)
}

fn kernels(devices: &Devices, view: &View, name_width: usize) -> Option<Rows> {
    if devices.kernels.is_empty() {
        return None;
    }
    let rows: Vec<Vec<String>> = shown(devices, view).map(|k| row(devices, k, view.name_width(name_width))).collect();
    let hidden = devices.kernels.len() - rows.len();
    let mut notes = Vec::new();
    if hidden > 0 {
        notes.push(format!("… and {hidden} more"));
    }
    notes.push("share: of the time in which the GPU's kernels ran. at: least time of the binding ceiling / time. –: not measured.".into());
    let mut titles = vec![
        "kernel",
        "launches",
        "time",
        "share",
        "held by",
        "at",
        "occ.",
        "grid × block",
        "FLOP/s",
        "DRAM",
        "of graphs",
    ];
    titles.truncate(if rows.iter().any(|row| row.len() > 10) { 11 } else { 10 });
    Some(Rows { title: "Kernels".into(), titles, rows: even(rows), words: vec![4], notes })
}

/// Rows of equal length.
fn even(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    rows.iter_mut().for_each(|row| row.resize(most, "–".into()));
    rows
}

fn row(devices: &Devices, k: &Kernel, name_width: usize) -> Vec<String> {
    let a = k.analysis.as_ref();
    let cell = |text: Option<String>| text.unwrap_or_else(|| "–".into());
    let several = if devices.devices.len() > 1 { format!("{}: ", k.device) } else { String::new() };
    let mut row = vec![
        format!("{several}{}", label(devices, k, name_width.saturating_sub(several.len()))),
        k.launches.to_string(),
        seconds(k.seconds),
        percent(share(devices, k)),
        a.map_or("–".into(), class),
        cell(
            a.and_then(|a| a.roof_fraction)
                .map(|at| format!("{}{}", if is_partial(k) { "≥ " } else { "" }, percent(at))),
        ),
        cell(k.shapes.first().and_then(|s| s.occupancy).map(percent)),
        cell(k.shapes.first().map(|s| shape(s, k.shapes.len()))),
        cell(rate(k)),
        cell(a.and_then(|a| a.bytes_per_s).map(|rate| si(rate, "B/s"))),
    ];
    if k.graph_launches > 0 {
        row.push(k.graph_launches.to_string());
    }
    row
}

/// FLOPs per second; operations if most of the work is that of the tensor cores on integers.
fn rate(k: &Kernel) -> Option<String> {
    let flops = k.analysis.as_ref()?.flops_per_s?;
    let counts = k.counts.as_ref()?;
    match counts.is_integer() && counts.seconds > 0.0 {
        true => Some(si(counts.integer() / counts.seconds, "op")),
        false => Some(si(flops, "")),
    }
}

/// Whether bytes or FLOPs of a counted kernel are missing: a term may be missing, too.
fn is_partial(k: &Kernel) -> bool {
    k.counts.as_ref().is_some_and(|c| c.dram_read.is_none() || c.l2.is_none() || c.fp32.is_none() || c.fp64.is_none())
}

/// The class, and for a known kernel whether it is the one that it was built for.
fn class(analysis: &Analysis) -> String {
    let Analysis { class, expected, .. } = analysis;
    match expected {
        None => class.name().to_owned(),
        Some(expected) if expected == class => format!("{class} ✓"),
        Some(expected) => format!("{class} ✗ {expected}"),
    }
}

/// `1056×256`, `16·4×128` if a side is not 1; `…` if there are more shapes.
fn shape(shape: &Shape, shapes: usize) -> String {
    let sides = |sides: [u32; 3]| {
        let used = 1 + sides.iter().rposition(|n| *n != 1).unwrap_or(0);
        sides[..used].iter().map(u32::to_string).collect::<Vec<_>>().join("·")
    };
    format!("{}×{}{}", sides(shape.grid), sides(shape.block), if shapes > 1 { " …" } else { "" })
}

/// `gpu-dram-bandwidth: at 99 % of gpu.dram.triad; without that 177 µs in all; 351 GFLOP/s, …; 1056×256 threads, …`
fn holding(k: &Kernel) -> String {
    let Some(a) = &k.analysis else { return NOT_MEASURED.into() };
    let place = a.roof_fraction.zip(a.binding.as_ref());
    let place = place.map_or(String::new(), |(f, id)| format!(": at {} of {id}", percent(f)));
    let next = a.ladder.iter().find(|rung| rung.without == a.class.name() && a.class != Class::GpuLatency);
    let next = next.map_or(String::new(), |rung| format!("; without that {} in all", seconds(rung.seconds)));
    let received = k.counts.as_ref().filter(|counts| counts.seconds > 0.0);
    let received = received.and_then(|counts| Some(counts.l2_received? / counts.seconds));
    let rates = [
        a.flops_per_s.map(|r| si(r, "FLOP/s")),
        a.bytes_per_s.map(|r| format!("{} of DRAM", si(r, "B/s"))),
        a.intensity.map(|i| format!("{} FLOP/B", significant(i))),
        received.map(|r| format!("{} between L2 and multiprocessors", si(r, "B/s"))),
    ];
    let rates: Vec<String> = rates.into_iter().flatten().collect();
    let rates = if rates.is_empty() { String::new() } else { format!("; {}", rates.join(", ")) };
    let launch = k.shapes.first().map_or(String::new(), |s| {
        let filled = s.occupancy.zip(s.waves).map_or(String::new(), |(occupancy, waves)| {
            let waves = if waves < 0.01 { "below 0.01".into() } else { significant(waves) };
            format!(", occupancy {}, {waves} waves", percent(occupancy))
        });
        let memory =
            if s.shared > 0 { format!(", {} of shared memory", si(f64::from(s.shared), "B")) } else { String::new() };
        format!("; {} threads, {} registers{memory}{filled}", shape(s, k.shapes.len()), s.registers)
    });
    format!("{}{place}{next}{rates}{launch}", a.class)
}

/// Sentences with the seconds that they save, without those that a line below has once for all kernels.
fn advice_of(devices: &Devices, k: &Kernel) -> Vec<String> {
    let Some(a) = &k.analysis else { return Vec::new() };
    let said_once = a.class == Class::Unknown && k.counts.is_none() && devices.uncounted.is_some();
    let told = a.advice.iter().filter(|advice| !said_once || advice.cause != a.class.name());
    let saved = |s: f64| format!(" (at most {})", seconds(s));
    told.map(|x| format!("→ {}{}: {}", x.cause, x.seconds.map_or(String::new(), saved), x.text)).collect()
}

fn findings(devices: &Devices) -> Vec<String> {
    let place = |device: u32| if devices.devices.len() > 1 { format!("GPU {device}, ") } else { String::new() };
    let line = |f: &rprof_profile::device::Finding| {
        format!("→ {}{} (at most {}): {}", place(f.device), f.cause, seconds(f.seconds), f.advice)
    };
    devices.findings.iter().map(line).map(|text| name::printable(&text)).collect()
}

/// Figures that were not measured, and limits of the others.
fn doubts(devices: &Devices) -> Vec<String> {
    let some = devices.kernels.iter().filter(|k| k.counts.is_none()).count();
    let uncounted = devices.uncounted.as_ref().filter(|_| some > 0).map(|why| {
        let kernels = if some == 1 { "1 kernel".into() } else { format!("{some} kernels") };
        format!("{NOT_MEASURED}: FLOPs and bytes of {kernels} ({}). {}", why.reason, summary::sentence(&why.fix))
    });
    let told = devices.warnings.iter().map(|w| format!("! {}", summary::doubt(w)));
    uncounted.into_iter().chain(told).map(|text| name::printable(&text)).collect()
}

fn copies(devices: &Devices) -> Option<Rows> {
    let row = |c: &rprof_profile::device::Copies| {
        let rate = if c.seconds > 0.0 { si(c.bytes as f64 / c.seconds, "B/s") } else { "–".into() };
        let words = if devices.devices.len() > 1 { format!("{}: ", c.device) } else { String::new() };
        vec![
            format!("{words}{}", c.direction.words()),
            c.from.words().into(),
            c.to.words().into(),
            c.count.to_string(),
            si(c.bytes as f64, "B"),
            seconds(c.seconds),
            rate,
        ]
    };
    (!devices.copies.is_empty()).then(|| Rows {
        title: "Copies and fills".into(),
        titles: vec!["direction", "from", "to", "number", "bytes", "time", "rate"],
        rows: devices.copies.iter().take(ROWS).map(row).collect(),
        words: vec![1, 2],
        notes: Vec::new(),
    })
}

/// All tables, with names of at most `name_width` characters.
fn tables(devices: &Devices, view: &View, name_width: usize) -> impl Iterator<Item = Rows> {
    kernels(devices, view, name_width).into_iter().chain(beside_kernels(devices))
}

/// The tables that follow that of the kernels.
fn beside_kernels(devices: &Devices) -> impl Iterator<Item = Rows> {
    [graphs(devices), copies(devices), waits(devices)].into_iter().flatten()
}

/// Graphs that were counted as a whole. Their tensor operations are not among the FLOPs.
fn graphs(devices: &Devices) -> Option<Rows> {
    let cell = |value: Option<f64>, unit: &str| value.map_or("–".into(), |value| si(value, unit));
    let row = |graph: &Graph| {
        let Graph { number, launches, counts } = graph;
        let scalar = Counts { tensor: Vec::new(), ..counts.clone() };
        vec![
            format!("graph {number}"),
            launches.to_string(),
            cell(scalar.flops(), ""),
            cell(counts.dram(), "B"),
            cell(counts.l2, "B"),
            cell(counts.instructions, ""),
        ]
    };
    (!devices.graphs.is_empty()).then(|| Rows {
        title: "CUDA graphs, counted as a whole".into(),
        titles: vec!["graph", "launches", "FLOPs", "DRAM", "L2", "warp instructions"],
        rows: devices.graphs.iter().map(row).collect(),
        words: Vec::new(),
        notes: vec!["All launches of each; without tensor operations.".into()],
    })
}

fn waits(devices: &Devices) -> Option<Rows> {
    let row = |w: &rprof_profile::device::Wait| vec![name::printable(&w.on), w.count.to_string(), seconds(w.seconds)];
    (!devices.waits.is_empty()).then(|| Rows {
        title: "Waiting of the host for GPUs".into(),
        titles: vec!["for", "calls", "time"],
        rows: devices.waits.iter().map(row).collect(),
        words: Vec::new(),
        notes: Vec::new(),
    })
}
