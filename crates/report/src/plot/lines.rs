//! Roofs, ceilings and bandwidth slopes of the machine, with labels that do not collide.

use svg::Node;
use svg::node::element::Group;

use super::axes::Axes;
use super::layout::{Area, Taken, text_width};
use super::page;
use super::scale::LogScale;
use crate::number::si;
use rprof_profile::Machine;

/// A horizontal ceiling.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// Id of the measured ceiling.
    pub id: String,
    pub label: String,
    pub value: f64,
    pub class: &'static str,
}

/// A bandwidth: rate = intensity × value.
#[derive(Debug, Clone, PartialEq)]
pub struct Slope {
    /// Id of the measured ceiling.
    pub id: String,
    pub label: String,
    pub value: f64,
    pub class: &'static str,
}

/// The in-core ceilings of `axes` with most threads.
pub fn ceilings(machine: &Machine, axes: Axes) -> Vec<Ceiling> {
    match axes {
        Axes::Dp | Axes::Sp => of_flops(machine, axes),
        Axes::Instructions => of_instructions(machine),
    }
}

/// The issue width, and the rates of programs with instructions of one kind only.
fn of_instructions(machine: &Machine) -> Vec<Ceiling> {
    let kinds = [
        ("l1.access.store.int", "stores alone", "rf-ceiling"),
        ("l1.access.load.int", "loads alone", "rf-ceiling"),
        ("int.alu.scalar", "integer arithmetic alone", "rf-ceiling"),
        ("issue", "issue width: the roof", "rf-roof"),
    ];
    let found = kinds.into_iter().filter_map(|(id, meaning, class)| {
        let value = most_threads(machine, id)?;
        Some(Ceiling { id: id.into(), label: format!("{meaning}, {}", si(value, "instr/s")), value, class })
    });
    let mut all: Vec<Ceiling> = found.collect();
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    all
}

/// The ladder of A.1.3 and the highest mix above it.
fn of_flops(machine: &Machine, axes: Axes) -> Vec<Ceiling> {
    let kinds = [
        ("tlp", "TLP only: one chain of scalar adds", "rf-ceiling"),
        ("ilp", "+ ILP: independent scalar adds", "rf-ceiling"),
        ("simd", "+ SIMD: vector adds", "rf-ceiling"),
        ("fma", "+ FMA: the roof", "rf-roof"),
        ("peak", "any mix", "rf-beyond"),
    ];
    let found = kinds.into_iter().filter_map(|(name, meaning, class)| {
        let id = format!("{}.{name}", axes.name());
        let value = most_threads(machine, &id)?;
        Some(Ceiling { id, label: format!("{meaning}, {}", si(value, "FLOP/s")), value, class })
    });
    let mut out: Vec<Ceiling> = found.collect();
    // A peak within 2 % of the roof is the roof.
    if let [.., roof, peak] = out.as_slice()
        && peak.class == "rf-beyond"
        && peak.value < 1.02 * roof.value
    {
        out.pop();
    }
    out
}

/// The best bandwidth of each level with most threads.
pub fn slopes(machine: &Machine) -> Vec<Slope> {
    let best = |level: &str| {
        ["read", "copy", "triad", "update"]
            .iter()
            .filter_map(|kind| Some((*kind, most_threads(machine, &format!("{level}.{kind}"))?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    };
    [("l1", "L1", "rf-slope"), ("l2", "L2", "rf-slope"), ("l3", "L3", "rf-slope"), ("dram", "DRAM", "rf-dram")]
        .into_iter()
        .filter_map(|(level, name, class)| {
            best(level).map(|(kind, value)| Slope {
                id: format!("{level}.{kind}"),
                label: format!("{name} {} ({kind})", si(value, "B/s")),
                value,
                class,
            })
        })
        .collect()
}

/// The value of `id` at the highest thread count that has one.
pub fn most_threads(machine: &Machine, id: &str) -> Option<f64> {
    measured(machine, id)?.value
}

/// The ceiling `id` at the highest thread count that has a value.
pub fn measured<'a>(machine: &'a Machine, id: &str) -> Option<&'a rprof_profile::Ceiling> {
    machine.ceilings.iter().filter(|c| c.id == id && c.value.is_some()).max_by_key(|c| c.threads)
}

/// The y range's limits and the drawing area of a roofline.
pub struct Frame {
    pub area: Area,
    pub x: LogScale,
    pub y: LogScale,
}

/// `label` along the line from `from` to `to`, in a free place; `None` if it is too long for it.
pub fn along((from, to): ((f64, f64), (f64, f64)), label: &str, taken: &mut Taken) -> Option<svg::node::element::Text> {
    let angle = (to.1 - from.1).atan2(to.0 - from.0);
    let length = text_width(label.chars().count(), 11.0);
    let run = ((to.0 - from.0).powi(2) + (to.1 - from.1).powi(2)).sqrt();
    if run < length + 40.0 {
        return None;
    }
    // Candidates along the line, above and below it; the rotated label is approximated by small boxes.
    let boxes = |(side, along): &(f64, f64)| rotated(from, angle, *along, length, *side);
    let places = [1.0, -1.0]
        .into_iter()
        .flat_map(|side| (0..12).map(move |i| (side, 18.0 + f64::from(i) * (run - length - 36.0) / 11.0)));
    let free = places.filter(|place| boxes(place).iter().all(|b| taken.is_free(b)));
    let place @ (side, along) =
        free.min_by_key(|place| boxes(place).iter().map(|b| taken.covered(b)).sum::<usize>())?;
    boxes(&place).into_iter().for_each(|b| taken.take(b));
    let at = (from.0 + along * angle.cos(), from.1 + along * angle.sin());
    let lift = if side > 0.0 { 6.0 } else { -13.0 };
    let lifted = (at.0 + lift * angle.sin(), at.1 - lift * angle.cos());
    let degrees = page::round(angle.to_degrees());
    let turn = format!("rotate({degrees} {} {})", page::round(lifted.0), page::round(lifted.1));
    Some(page::text(lifted.0, lifted.1, "rf-label rf-halo", label).set("transform", turn))
}

/// Whether there is a place for `label` as [`at_right`] puts it that no slope crosses.
fn fits(frame: &Frame, y: f64, label: &str, taken: &Taken) -> bool {
    places(frame, y, label).iter().any(|(_, area)| taken.is_free(area) && !taken.is_crossed(area))
}

/// Places for `label` above and below a horizontal line at `y`, from the right to the left, with the distance from the right.
fn places(frame: &Frame, y: f64, label: &str) -> Vec<(f64, Area)> {
    // Capitals are wider than the mean letter.
    let chars = label.chars().count() + label.chars().filter(|c| c.is_uppercase()).count() / 2;
    let x = frame.area.right - 8.0 - text_width(chars, 11.0);
    let shifts = (0..90).map(|i| 10.0 * f64::from(i));
    shifts.flat_map(|s| [-5.0, 13.0].map(|d| (s, Area::of_text(x - s, y + d, chars, 11.0)))).collect()
}

/// `label` above or below a horizontal line at `y`, as far right as there is room.
pub fn at_right(frame: &Frame, y: f64, label: &str, taken: &mut Taken) -> Option<svg::node::element::Text> {
    let candidates = places(frame, y, label);
    let areas: Vec<Area> = candidates.iter().map(|(_, a)| *a).collect();
    let i = taken.place(&areas)?;
    let end = frame.area.right - 8.0 - candidates[i].0;
    Some(page::anchored(end, areas[i].bottom - 0.25 * 11.0, "rf-label rf-halo", "end", label))
}

/// Draws the slopes up to the highest ceiling, labelled along them near the left end.
pub fn draw_slopes(frame: &Frame, slopes: &[Slope], ceilings: &[Ceiling], taken: &mut Taken) -> Group {
    let highest = |class: Option<&str>| {
        let all = ceilings.iter().filter(|c| class.is_none_or(|wanted| c.class == wanted)).map(|c| c.value);
        all.max_by(f64::total_cmp).unwrap_or(frame.y.high())
    };
    let (top, roof) = (highest(None), highest(Some("rf-roof")));
    let mut g = Group::new();
    for slope in slopes {
        let Some((start, end)) = ends(frame, slope.value, top) else { continue };
        let point = |oi: f64| (frame.x.at(oi), frame.y.at(oi * slope.value));
        avoid(taken, point(start), point(end));
    }
    for slope in slopes {
        let Some((start, end)) = ends(frame, slope.value, top) else { continue };
        let point = |oi: f64| (frame.x.at(oi), frame.y.at(oi * slope.value));
        // Bold up to the roof, thin on to the highest mix.
        let knee = (roof / slope.value).clamp(start, end);
        let mut both = Group::new().set("data-level", slope.label.split(' ').next().unwrap_or_default().to_lowercase());
        both.append(page::line(point(start), point(knee), slope.class));
        both.append(page::line(point(knee), point(end), "rf-slope"));
        if let Some(label) = along((point(start), point(end)), &slope.label, taken) {
            both.append(label.set("class", "rf-slope-label rf-halo"));
        }
        g.append(both);
    }
    g
}

/// Intensities between which a bandwidth is drawn, up to the rate `top`.
fn ends(frame: &Frame, bandwidth: f64, top: f64) -> Option<(f64, f64)> {
    let start = (frame.y.low() / bandwidth).max(frame.x.low());
    let end = (top / bandwidth).min(frame.x.high());
    (end > start).then_some((start, end))
}

/// Labels leave a line free if they can.
fn avoid(taken: &mut Taken, from: (f64, f64), to: (f64, f64)) {
    along_line(from, to, 0.5).for_each(|area| taken.prefer_free(area));
}

/// Upright labels cross a line only if there is no other place.
pub fn keep_labels_off(taken: &mut Taken, from: (f64, f64), to: (f64, f64)) {
    along_line(from, to, 2.5).for_each(|area| taken.keep_off(area));
}

/// Small areas of this radius on a line, nearer to one another than a label is high.
fn along_line(from: (f64, f64), to: (f64, f64), radius: f64) -> impl Iterator<Item = Area> {
    const STEP: f64 = 4.0;
    let steps = ((to.0 - from.0).hypot(to.1 - from.1) / STEP).ceil().clamp(1.0, 400.0) as u32;
    (0..=steps).map(move |i| {
        let share = f64::from(i) / f64::from(steps);
        Area::around(from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1), radius)
    })
}

/// Small boxes that together cover a rotated label's height, above (`side` 1) or below its line (−1).
fn rotated(start: (f64, f64), angle: f64, along: f64, length: f64, side: f64) -> Vec<Area> {
    let steps = (length / 9.0).ceil() as u32;
    (0..=steps)
        .map(|i| {
            let d = along - 4.0 + (length + 12.0) * f64::from(i) / f64::from(steps.max(1));
            let (x, y) = (start.0 + d * angle.cos(), start.1 + d * angle.sin());
            Area::around(x + side * 10.0 * angle.sin(), y - side * 10.0 * angle.cos(), 6.5)
        })
        .collect()
}

/// Draws the ceilings from the highest slope to the right edge, labelled at their right end.
pub fn draw_ceilings(frame: &Frame, ceilings: &[Ceiling], slopes: &[Slope], taken: &mut Taken) -> Group {
    let mut g = Group::new();
    let fastest = slopes.iter().map(|s| s.value).fold(0.0, f64::max);
    let top = ceilings.iter().map(|c| c.value).fold(0.0, f64::max);
    for slope in slopes {
        let Some((start, end)) = ends(frame, slope.value, top) else { continue };
        let point = |oi: f64| (frame.x.at(oi), frame.y.at(oi * slope.value));
        keep_labels_off(taken, point(start), point(end));
    }
    for c in ceilings.iter().rev() {
        let y = frame.y.at(c.value);
        let left = if fastest > 0.0 { frame.x.at((c.value / fastest).max(frame.x.low())) } else { frame.area.left };
        if left >= frame.area.right {
            continue;
        }
        g.append(page::line((left, y), (frame.area.right, y), c.class));
        taken.prefer_free(Area { left, top: y - 1.5, right: frame.area.right, bottom: y + 1.5 });
        let short = short(&c.label);
        let form = if fits(frame, y, &c.label, taken) { &c.label } else { &short };
        if let Some(label) = at_right(frame, y, form, taken) {
            g.append(label);
        }
    }
    g
}

/// `+ ILP, 6.00 GFLOP/s` for `+ ILP: independent scalar adds, 6.00 GFLOP/s`
fn short(label: &str) -> String {
    match label.split_once(": ").zip(label.rsplit_once(", ")) {
        Some(((name, _), (_, value))) => format!("{name}, {value}"),
        None => label.to_owned(),
    }
}
