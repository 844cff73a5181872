//! `work.svg`: for each unit that the program names, how fast it was done over how much of it a byte brings. There is no roof of
//! FLOPs; the bandwidths are the ceilings, as in §7 of the roofline paper.

use svg::Node;
use svg::node::element::{Circle, Group};

use super::layout::{Area, Taken, text_width};
use super::lines::{self, Frame, Slope};
use super::page;
use super::scale::LogScale;
use crate::name;
use crate::number::si;
use rprof_profile::Profile;
use rprof_profile::region::{Marker, Region, Work};

const WIDTH: f64 = 1000.0;
/// Height of one unit's picture.
const PANEL: f64 = 540.0;
/// Units that are drawn at most.
const MOST: usize = 6;
/// Regions that are drawn at most of a unit.
const MOST_DOTS: usize = 12;
const PROGRAM: &str = "#2d70cd";
const REGION: &str = "#d6781c";

/// A region's place in the picture of a unit.
struct Dot<'p> {
    region: &'p Region,
    /// Units a second.
    rate: f64,
    /// Units for each byte at L1, L2, L3 and DRAM.
    intensities: [Option<f64>; 4],
}

/// The pictures, one below the other; `None` if the program names no work.
pub fn svg(profile: &Profile) -> Option<String> {
    let mut units: Vec<&str> = profile.regions.iter().flat_map(|r| &r.work).map(|w| w.unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    let left_out = units.len().saturating_sub(MOST);
    units.truncate(MOST);
    if units.is_empty() {
        return None;
    }
    let title = format!("Work of {}", name::shorten(&profile.run.command.join(" "), 90));
    let mut note = "rate over intensity; the diagonals are this host's bandwidths".to_owned();
    if left_out > 0 {
        note += &format!("; {left_out} more of its units are in profile.json alone");
    }
    let mut page = page::document(WIDTH, PANEL * units.len() as f64, &title, &note);
    let slopes = lines::slopes(&profile.machine);
    for (i, unit) in units.iter().enumerate() {
        let top = PANEL * i as f64;
        let area =
            Area { left: page::LEFT, top: top + page::TOP, right: WIDTH - page::RIGHT, bottom: top + PANEL - 88.0 };
        page.append(panel(profile, unit, &slopes, area));
    }
    Some(format!("{page}\n"))
}

fn panel(profile: &Profile, unit: &str, slopes: &[Slope], area: Area) -> Group {
    let mut g = Group::new();
    let dots = dots(profile, unit);
    let shown = name::shorten(&name::printable(unit), 40);
    let frame = frame(area, &dots, slopes);
    let mut taken = Taken::new(area);
    g.append(page::axes(
        area,
        (&frame.x, &format!("{shown} per byte · dot DRAM, rings L3, L2, L1"), ""),
        (&frame.y, &format!("{shown} a second"), "/s"),
    ));
    for dot in &dots {
        let (x, y) = spot(&frame, dot);
        taken.take(Area::around(x, y, 8.0));
    }
    g.append(lines::draw_slopes(&frame, slopes, &[], &mut taken));
    for dot in &dots {
        g.append(drawn(&frame, dot, unit, &mut taken));
    }
    let note = match dots.is_empty() {
        true => missing(profile, unit),
        false => "Blue: the whole program. Orange: a region. A dot below its diagonal has bandwidth left.".into(),
    };
    g.append(page::text(page::LEFT, area.bottom + 62.0, "rf-note", &note));
    g
}

fn dots<'p>(profile: &'p Profile, unit: &str) -> Vec<Dot<'p>> {
    let of = |region: &'p Region, work: &Work| {
        let bytes = region.bytes.unwrap_or_default();
        let per = |bytes: Option<u64>| bytes.filter(|b| *b > 0).map(|b| work.amount / b as f64).filter(|p| *p > 0.0);
        let intensities = [bytes.l1, bytes.l2, bytes.l3, bytes.dram].map(per);
        let rate = region.rate(work).filter(|r| *r > 0.0)?;
        intensities.iter().any(Option::is_some).then_some(Dot { region, rate, intensities })
    };
    let work = profile.regions.iter().filter_map(|r| Some((r, r.work.iter().find(|w| w.unit == unit)?)));
    work.filter_map(|(region, work)| of(region, work)).take(MOST_DOTS).collect()
}

/// Why there is no dot.
fn missing(profile: &Profile, unit: &str) -> String {
    let with_unit = profile.regions.iter().find(|r| r.work.iter().any(|w| w.unit == unit));
    let mut reasons = with_unit.into_iter().flat_map(|r| r.source.values()).filter_map(|s| s.reason.as_deref());
    let reason = reasons.next_back().unwrap_or("neither its time nor its bytes are known");
    name::shorten(&format!("No dot: {reason}."), 150)
}

/// Axes that hold all dots and a part of each diagonal.
fn frame(area: Area, dots: &[Dot<'_>], slopes: &[Slope]) -> Frame {
    let rates = || dots.iter().map(|d| d.rate);
    let all = || dots.iter().flat_map(|d| d.intensities).flatten();
    let fold = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), v| (low.min(v), high.max(v)))
    };
    let (slowest, fastest) = fold(&mut slopes.iter().map(|s| s.value));
    let (left, right) = match fold(&mut all()) {
        (low, high) if low.is_finite() => (low / 6.0, high * 6.0),
        _ => (1e-4, 1.0),
    };
    let (bottom, top) = fold(&mut rates());
    // The slowest bandwidth comes in at the left edge, the fastest leaves at the top.
    let (low, high) = if fastest > 0.0 { (left * slowest, left * fastest) } else { (f64::INFINITY, 0.0) };
    let (bottom, top) = (bottom.min(low) / 3.0, (20.0 * top).max(20.0 * high));
    let (bottom, top) = if top > 0.0 { (bottom, top) } else { (1.0, 1e9) };
    Frame {
        area,
        x: LogScale::new(left, right, area.left, area.right),
        y: LogScale::new(bottom, top, area.bottom, area.top),
    }
}

/// At DRAM, else at the outermost level that is known.
fn spot(frame: &Frame, dot: &Dot<'_>) -> (f64, f64) {
    let outermost = dot.intensities.iter().rev().flatten().next().copied().unwrap_or(frame.x.low());
    (frame.x.at(outermost), frame.y.at(dot.rate))
}

fn drawn(frame: &Frame, dot: &Dot<'_>, unit: &str, taken: &mut Taken) -> Group {
    let mut g = Group::new();
    let color = if dot.region.marker == Marker::Program { PROGRAM } else { REGION };
    let (x, y) = spot(frame, dot);
    let circle = |x: f64, r: f64, class: &str| {
        Circle::new().set("cx", page::round(x)).set("cy", page::round(y)).set("r", r).set("class", class)
    };
    let outermost = dot.intensities.iter().rposition(Option::is_some);
    for (_, intensity) in dot.intensities.iter().enumerate().filter(|(i, _)| Some(*i) != outermost) {
        if let Some(intensity) = intensity {
            g.append(circle(frame.x.at(*intensity), 4.0, "rf-ring").set("stroke", color));
        }
    }
    let mut mark = circle(x, 7.0, "rf-dot").set("fill", color);
    let label = name::shorten(&name::printable(&dot.region.name), 28);
    page::tooltip(&mut mark, &format!("{label}: {}", si(dot.rate, &format!("{unit}/s"))));
    g.append(mark);
    let text = format!("{label}: {}", si(dot.rate, "/s"));
    let left = x - 11.0 - text_width(text.chars().count(), 12.0);
    let sides = [(x + 11.0, y - 9.0), (x + 11.0, y + 17.0), (left, y - 9.0), (left, y + 17.0), (x + 11.0, y + 34.0)];
    let candidates = sides.map(|(x, y)| Area::of_text(x, y, text.chars().count(), 12.0));
    if let Some(i) = taken.place(&candidates) {
        g.append(page::text(sides[i].0, sides[i].1, "rf-name", &text));
    }
    g
}
