//! `roofline.svg`: the machine's ceilings and the profile's functions on log-log axes.

use svg::Node;
use svg::node::element::{Circle, Group};

use super::axes::Axes;
use super::dots::{self, Dot};
use super::layout::{Area, Taken, text_width};
use super::lines::{self, Ceiling, Frame, Slope};
use super::page;
use super::scale::LogScale;
use crate::words;
use crate::{View, name, palette, summary, wrap};
use rprof_profile::{Function, Profile};

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

/// The functions that are dots on `axes`, and the names of those that are not, with the reason.
fn dots<'a>(profile: &'a Profile, view: &'a View, axes: Axes) -> (Vec<Dot<'a>>, Vec<String>) {
    let index = |f: &Function| profile.functions.iter().position(|other| std::ptr::eq(other, f)).unwrap_or(0);
    dots::placed(
        axes,
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

/// Ends of `axes`: lowest and highest intensity, lowest and highest rate.
pub fn ranges(profile: &Profile, view: &View, axes: Axes) -> [f64; 4] {
    let (ceilings, slopes) = (lines::ceilings(&profile.machine, axes), lines::slopes(&profile.machine));
    let frame = frame(area(), &dots(profile, view, axes).0, &ceilings, &slopes);
    [frame.x.low(), frame.x.high(), frame.y.low(), frame.y.high()]
}

/// The line below the title, up to the name of the axes.
pub fn note(profile: &Profile) -> String {
    format!("{} · ceilings: ", summary::machine(profile).trim_start_matches("machine: "))
}

/// The picture.
pub fn svg(profile: &Profile, view: &View) -> String {
    let axes = Axes::of(profile, view.precision);
    let (dots, others) = dots(profile, view, axes);
    let ceilings = lines::ceilings(&profile.machine, axes);
    let slopes = lines::slopes(&profile.machine);
    let title = format!("Roofline of {}", name::shorten(&profile.run.command.join(" "), 90));
    let mut page = page::document(WIDTH, HEIGHT, &title, &format!("{}{}", note(profile), axes.name()));

    let area = area();
    let frame = frame(area, &dots, &ceilings, &slopes);
    let mut taken = Taken::new(area);
    let levels = levels(&dots);
    let drawn = page::axes(
        area,
        (&frame.x, &format!("{}{levels}", axes.horizontal()), ""),
        (&frame.y, "performance", &format!("{}/s", axes.unit())),
    );
    // The script of report.html draws these axes, and the body below, again when they change.
    page.append(drawn.set("data-x", frame.x.ends()).set("data-y", frame.y.ends()));
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
        page.append(footnotes(axes, (&dots, beyond), &others, &ceilings, area.bottom + 66.0 + 17.0 * f64::from(rows)));
    }
    format!("{page}\n")
}

/// What dots and rings are: `· hierarchical roofline: dot DRAM, rings inner levels · cache-aware roofline: ring L1`
fn levels(dots: &[Dot<'_>]) -> String {
    let mut outermost: Vec<&str> = dots.iter().filter_map(|d| Some(d.place.outermost()?.0)).collect();
    outermost.sort_unstable();
    outermost.dedup();
    match outermost[..] {
        [] => String::new(),
        ["L1"] => " · cache-aware roofline: dot L1".into(),
        [level] => format!(" · hierarchical roofline: dot {level}, rings inner levels · cache-aware roofline: ring L1"),
        _ => " · hierarchical roofline: dot at the outermost level measured, rings inner levels · cache-aware: ring L1"
            .into(),
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
        let of = d.place.oi;
        [of.l1, of.l2, of.l3, Some(d.intensity)].into_iter().flatten().filter(|v| *v > 0.0).collect::<Vec<_>>()
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
    for class in palette::legend() {
        if !dots.iter().any(|d| d.function.analysis.class == class) {
            continue;
        }
        let name = words::name_of(class);
        let width = 34.0 + text_width(name.chars().count(), 12.0);
        if x + width > WIDTH - page::RIGHT {
            (x, y, rows) = (page::LEFT, y + 17.0, rows + 1);
        }
        g.append(
            Circle::new()
                .set("cx", page::round(x + 5.0))
                .set("cy", y - 4.0)
                .set("r", 5)
                .set("fill", palette::hex(class)),
        );
        g.append(page::text(x + 15.0, y, "rf-note", name));
        x += width;
    }
    (g, rows)
}

/// Notes on everything that the picture does not show.
fn footnotes(axes: Axes, (dots, beyond): (&[Dot<'_>], bool), others: &[String], ceilings: &[Ceiling], y: f64) -> Group {
    let mut g = Group::new();
    let (mut lines, mut absent) = (Vec::new(), Vec::new());
    if ceilings.is_empty() {
        lines.push("The machine's ceilings were not measured.".to_owned());
    }
    if dots.is_empty() {
        lines.push(format!("No function has both {}.", axes.needed()));
    } else {
        let edge = if beyond { " Triangle: further right than the axis goes." } else { "" };
        lines.push(format!("Dot area: share of CPU time. Whisker: up to the function's own bound.{edge}"));
        if axes == Axes::Instructions {
            lines.push("Instructions: two that the processor fuses are one, as in the issue width.".into());
        }
    }
    if !others.is_empty() {
        let more = if others.len() > 4 { format!(" and {} more", others.len() - 4) } else { String::new() };
        let shown = others[..others.len().min(4)].join(", ");
        let text = format!("Not on these axes: {shown}{more}.");
        absent.extend(wrap::hanging(&text, NOTE_WIDTH, 2).lines().take(2).map(str::to_owned));
    }
    let notes = lines.iter().map(|text| ("rf-note", text)).chain(absent.iter().map(|text| ("rf-note rf-others", text)));
    for (i, (class, text)) in notes.enumerate() {
        g.append(page::text(page::LEFT, y + 15.0 * i as f64, class, text));
    }
    g
}
