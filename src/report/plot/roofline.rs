//! `roofline.svg`: the machine's ceilings and the profile's functions on log-log axes.

use svg::Node;
use svg::node::element::{Circle, Group};

use super::dots::{self, Dot};
use super::layout::{Area, Taken, text_width};
use super::lines::{self, Ceiling, Frame, Slope};
use super::page;
use super::scale::LogScale;
use crate::profile::{Function, Profile};
use crate::report::{Precision, View, name, palette, summary, wrap};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 666.0;
/// Least share of a dot that the picture shows.
const LEAST_SHARE: f64 = 0.005;
/// Maximum number of dots.
const MOST_DOTS: usize = 40;
/// Characters of a line of notes.
const NOTE_WIDTH: usize = 120;
/// The intensity axis ends this far beyond the ridge: further right, memory makes no difference.
const BEYOND_RIDGE: f64 = 300.0;

/// The functions that are dots, and the names of those that are not, with the reason.
fn dots<'a>(profile: &'a Profile, view: &'a View) -> (Vec<Dot<'a>>, Vec<String>) {
    let index = |f: &Function| profile.functions.iter().position(|other| std::ptr::eq(other, f)).unwrap_or(0);
    dots::placed(
        view.functions(profile)
            .filter(|f| f.share.unwrap_or(0.0) >= LEAST_SHARE || f.analysis.expected.is_some())
            .take(MOST_DOTS)
            .map(|f| (index(f), f)),
    )
}

/// The drawing area.
fn area() -> Area {
    Area { left: page::LEFT, top: page::TOP, right: WIDTH - page::RIGHT, bottom: HEIGHT - 156.0 }
}

/// Axes of the picture with the ceilings of `precision` (`dp`, `sp`): lowest and highest intensity, lowest and highest rate.
pub fn ranges(profile: &Profile, view: &View, precision: &str) -> [f64; 4] {
    let (ceilings, slopes) = (lines::ceilings(&profile.machine, precision), lines::slopes(&profile.machine));
    let frame = frame(area(), &dots(profile, view).0, &ceilings, &slopes);
    [frame.x.low(), frame.x.high(), frame.y.low(), frame.y.high()]
}

/// The line below the title, up to the precision of the ceilings.
pub fn note(profile: &Profile) -> String {
    format!("{} · ceilings: ", summary::machine(profile).trim_start_matches("machine: "))
}

/// The picture.
pub fn svg(profile: &Profile, view: &View) -> String {
    let precision = precision(profile, view.precision);
    let (dots, others) = dots(profile, view);
    let ceilings = lines::ceilings(&profile.machine, precision);
    let slopes = lines::slopes(&profile.machine);
    let title = format!("Roofline of {}", name::shorten(&profile.run.command.join(" "), 90));
    let mut page = page::document(WIDTH, HEIGHT, &title, &format!("{}{precision}", note(profile)));

    let area = area();
    let frame = frame(area, &dots, &ceilings, &slopes);
    let mut taken = Taken::new(area);
    let levels = match dots.is_empty() {
        true => "",
        false => " · hierarchical roofline: dot DRAM, rings L3, L2 · cache-aware roofline: ring L1",
    };
    let axes = page::axes(
        area,
        (&frame.x, &format!("operational intensity [FLOP/byte]{levels}"), ""),
        (&frame.y, "performance", "FLOP/s"),
    );
    // The script of report.html draws these axes, and the body below, again when they change.
    page.append(axes.set("data-x", frame.x.ends()).set("data-y", frame.y.ends()));
    // Labels give way to dots, so dots claim their places first.
    for d in &dots {
        let (x, y) = dots::spot(&frame, d);
        taken.take(Area::around(x, y, dots::radius(d.function)));
    }
    let mut body = Group::new().set("class", "rf-body");
    body.append(lines::draw_slopes(&frame, &slopes, &ceilings, &mut taken));
    body.append(lines::draw_ceilings(&frame, &ceilings, &slopes, &mut taken));
    body.append(dots::draw(&frame, &dots, &mut taken));
    page.append(body);
    let (legend, rows) = legend(&dots, area.bottom + 62.0);
    page.append(legend);
    let beyond = dots.iter().any(|d| dots::is_beyond(&frame, d));
    if !profile.functions.is_empty() || ceilings.is_empty() {
        page.append(footnotes(&dots, beyond, &others, &ceilings, area.bottom + 66.0 + 17.0 * f64::from(rows)));
    }
    format!("{page}\n")
}

/// `dp` or `sp`: the user's choice, else that of most FLOPs.
pub fn precision(profile: &Profile, choice: Precision) -> &'static str {
    match choice {
        Precision::Dp => "dp",
        Precision::Sp => "sp",
        Precision::Mixed => {
            let sum = |part: fn(&crate::profile::function::Flops) -> u64| -> u64 {
                profile.functions.iter().filter_map(|f| f.flops.as_ref()).map(part).sum()
            };
            if sum(|f| f.sp) > sum(|f| f.dp + f.x87) { "sp" } else { "dp" }
        }
    }
}

/// Axes that hold all dots, the lowest and the highest ceiling, and the ridge points.
pub(super) fn frame(area: Area, dots: &[Dot<'_>], ceilings: &[Ceiling], slopes: &[Slope]) -> Frame {
    let top = ceilings.iter().map(|c| c.value).chain(dots.iter().map(|d| d.rate)).fold(1e9, f64::max);
    let rates = ceilings.iter().map(|c| c.value).chain(dots.iter().map(|d| d.rate));
    let bottom = rates.fold(f64::INFINITY, f64::min).min(top / 100.0);
    let slowest = slopes.iter().map(|s| s.value).fold(f64::INFINITY, f64::min);
    let ridge = if slowest.is_finite() { top / slowest } else { 10.0 };
    let oi = |d: &Dot<'_>| {
        let a = d.function.analysis.oi;
        [a.l1, a.l2, a.l3, Some(d.intensity)].into_iter().flatten().filter(|v| *v > 0.0).collect::<Vec<_>>()
    };
    let all: Vec<f64> = dots.iter().flat_map(oi).collect();
    let left = all.iter().copied().fold(ridge / 300.0, f64::min).max(ridge * 1e-6);
    let right = all.iter().copied().fold(ridge * 8.0, f64::max).min(ridge * BEYOND_RIDGE);
    Frame {
        area,
        x: LogScale::new(left / 1.6, right * 1.6, area.left, area.right),
        y: LogScale::new(bottom / 2.0, top * 2.0, area.bottom, area.top),
    }
}

/// The classes that occur, each with its colour, and how many rows they take.
fn legend(dots: &[Dot<'_>], top: f64) -> (Group, u32) {
    let mut g = Group::new();
    let (mut x, mut y, mut rows) = (page::LEFT, top, 1);
    for (class, _) in palette::CLASSES {
        if !dots.iter().any(|d| d.function.analysis.class.as_deref().unwrap_or("not counted") == class) {
            continue;
        }
        let width = 34.0 + text_width(class.chars().count(), 12.0);
        if x + width > WIDTH - page::RIGHT {
            (x, y, rows) = (page::LEFT, y + 17.0, rows + 1);
        }
        g.append(
            Circle::new()
                .set("cx", page::round(x + 5.0))
                .set("cy", y - 4.0)
                .set("r", 5)
                .set("fill", palette::hex(Some(class))),
        );
        g.append(page::text(x + 15.0, y, "rf-note", class));
        x += width;
    }
    (g, rows)
}

/// Notes on everything that the picture does not show.
fn footnotes(dots: &[Dot<'_>], beyond: bool, others: &[String], ceilings: &[Ceiling], y: f64) -> Group {
    let mut g = Group::new();
    let mut lines = Vec::new();
    if ceilings.is_empty() {
        lines.push("The machine's ceilings were not measured.".to_owned());
    }
    if dots.is_empty() {
        lines.push("No function has both FLOPs and bytes. The picture of each function has its own axes.".to_owned());
    } else {
        let edge = if beyond { " Triangle: further right than the axis goes." } else { "" };
        lines.push(format!("Dot area: share of CPU time. Whisker: up to the function's own bound.{edge}"));
    }
    if !others.is_empty() {
        let more = if others.len() > 4 { format!(" and {} more", others.len() - 4) } else { String::new() };
        let shown = others[..others.len().min(4)].join(", ");
        let text = format!("Not on these axes: {shown}{more}.");
        lines.extend(wrap::hanging(&text, NOTE_WIDTH, 2).lines().take(2).map(str::to_owned));
    }
    for (i, text) in lines.iter().enumerate() {
        g.append(page::text(page::LEFT, y + 15.0 * i as f64, "rf-note", text));
    }
    g
}
