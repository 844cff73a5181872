//! Functions as dots: area by share, colour by class, a ring for each other memory level, a whisker up to the bound.

use svg::Node;
use svg::node::element::{Circle, Element, Group, Polygon};

use super::axes::{Axes, Place};
use super::layout::{Area, Taken};
use super::lines::Frame;
use super::page;
use crate::number::{percent, si, significant};
use crate::{name, palette, table};
use rprof_profile::Function;

/// A function's place in the picture.
#[derive(Clone, Copy)]
pub struct Dot<'a> {
    pub function: &'a Function,
    /// Its index in the profile.
    pub index: usize,
    /// Operational intensity at the outermost measured level.
    pub intensity: f64,
    /// Operations per second.
    pub rate: f64,
    /// What both count.
    pub axes: Axes,
    /// Its intensities at all levels.
    pub place: Place,
}

/// Functions that have a place on `axes`, hottest first; the others are returned by name with the reason.
pub fn placed<'a>(axes: Axes, functions: impl Iterator<Item = (usize, &'a Function)>) -> (Vec<Dot<'a>>, Vec<String>) {
    let (mut dots, mut others) = (Vec::new(), Vec::new());
    for (index, f) in functions {
        let place = axes.place(f);
        match place.and_then(|place| Some((place, place.rate.filter(|r| *r > 0.0)?, place.outermost()?.1))) {
            Some((place, rate, intensity)) => dots.push(Dot { function: f, index, intensity, rate, axes, place }),
            None => others.push(format!("{} ({})", name::of(f, 32), absence(f, place))),
        }
    }
    (dots, others)
}

/// Why a function is not on the axes.
fn absence(f: &Function, place: Option<Place>) -> &'static str {
    match (place, f.analysis.axis.as_deref()) {
        (Some(Place { rate: None, .. }), _) => "time not measured",
        (Some(_), _) => "bytes not measured",
        (None, Some("flop")) => "instructions not counted",
        (None, Some(_)) => "next to no FLOPs",
        (None, None) => "not counted",
    }
}

/// Radius of its dot: area by share.
pub fn radius(f: &Function) -> f64 {
    4.0 + 14.0 * f.share.unwrap_or(0.0).clamp(0.0, 1.0).sqrt()
}

/// Whether it is beyond the right end of the axis.
pub fn is_beyond(frame: &Frame, d: &Dot<'_>) -> bool {
    d.intensity > frame.x.high()
}

/// The position of `d`; at the right edge if its intensity is beyond the axis.
pub fn spot(frame: &Frame, d: &Dot<'_>) -> (f64, f64) {
    let edge = frame.area.right - radius(d.function) - 2.0;
    (frame.x.at(d.intensity.min(frame.x.high())).min(edge), frame.y.at(d.rate))
}

/// Draws the dots. The hottest get rings and whiskers; labels go to free places.
pub fn draw(frame: &Frame, dots: &[Dot<'_>], taken: &mut Taken) -> Group {
    let mut g = Group::new();
    // Labels are placed in the order of the dots, hottest first; small dots are drawn on top of large ones.
    let hot = |d: &Dot<'_>| d.function.share.unwrap_or(0.0) >= 0.05;
    for (i, d) in dots.iter().enumerate() {
        let at = spot(frame, d);
        let mut all = Group::new().set("class", "rf-pt").set("data-f", d.index);
        if hot(d) && dots[..i].iter().filter(|d| hot(d)).count() < 8 {
            all.append(levels(frame, d).set("class", "rf-levels"));
            all.append(whisker(frame, d, at));
        }
        all.append(dot(d, at, is_beyond(frame, d)));
        label(&mut all, d, at, taken);
        g.append(all);
    }
    g
}

/// A circle, or a triangle that points to the right.
pub(super) fn dot(d: &Dot<'_>, at: (f64, f64), beyond: bool) -> Element {
    let colour = palette::hex(d.function.analysis.class);
    let r = radius(d.function);
    let mut shape: Element = if beyond {
        let corner = |x: f64, y: f64| format!("{},{}", page::round(at.0 + x * r), page::round(at.1 + y * r));
        let corners = [corner(-0.8, -0.9), corner(-0.8, 0.9), corner(1.0, 0.0)].join(" ");
        Polygon::new().set("points", corners).into()
    } else {
        Circle::new().set("cx", page::round(at.0)).set("cy", page::round(at.1)).set("r", page::round(r)).into()
    };
    shape.assign("class", "rf-dot");
    shape.assign("fill", colour);
    let (f, unit) = (d.function, d.axes.unit());
    let fraction = f.analysis.roof_fraction.map_or("not measured".into(), percent);
    let told = format!(
        "{}\n{} of the time, {}, {} {unit}/B\n{} at {fraction} of its bound",
        name::of(f, 500),
        f.share.map_or("unknown share".into(), percent),
        si(d.rate, &format!("{unit}/s")),
        significant(d.intensity),
        table::class(f)
    );
    page::tooltip(&mut shape, &told);
    shape
}

/// Rings at the intensities of the other memory levels, on a dotted thread.
fn levels(frame: &Frame, d: &Dot<'_>) -> Group {
    let mut g = Group::new();
    let colour = palette::hex(d.function.analysis.class);
    let (oi, unit) = (d.place.oi, d.axes.unit());
    let inside = |oi: &f64| *oi >= frame.x.low() && *oi <= frame.x.high();
    let rings: Vec<(&str, f64)> = [("L1", oi.l1), ("L2", oi.l2), ("L3", oi.l3)]
        .into_iter()
        .filter_map(|(level, v)| v.filter(|v| inside(v) && (v / d.intensity - 1.0).abs() > 0.05).map(|v| (level, v)))
        .collect();
    let y = frame.y.at(d.rate);
    let ends = rings.iter().map(|(_, v)| frame.x.at(*v)).chain([spot(frame, d).0]);
    let (left, right) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, r), x| (l.min(x), r.max(x)));
    if right > left {
        g.append(page::line((left, y), (right, y), "rf-thread").set("stroke", colour.clone()));
    }
    for (level, v) in rings {
        let mut ring = Circle::new()
            .set("cx", page::round(frame.x.at(v)))
            .set("cy", page::round(y))
            .set("r", 3.6)
            .set("class", "rf-ring")
            .set("stroke", colour.clone());
        page::tooltip(&mut ring, &format!("{}: {} {unit}/B at {level}", name::of(d.function, 500), significant(v)));
        g.append(ring);
    }
    g
}

/// From the dot up to its bound B.
fn whisker(frame: &Frame, d: &Dot<'_>, at: (f64, f64)) -> Group {
    let mut g = Group::new();
    let Some(fraction) = d.function.analysis.roof_fraction.filter(|x| *x > 0.0 && *x < 1.0) else { return g };
    let y = frame.y.at(d.rate / fraction).max(frame.area.top);
    let start = at.1 - radius(d.function);
    if y < start - 2.0 {
        let colour = palette::hex(d.function.analysis.class);
        g.append(page::line((at.0, start), (at.0, y), "rf-gap").set("stroke", colour.clone()));
        g.append(page::line((at.0 - 5.0, y), (at.0 + 5.0, y), "rf-gap").set("stroke", colour));
    }
    g
}

pub(super) fn label(g: &mut Group, d: &Dot<'_>, at: (f64, f64), taken: &mut Taken) {
    labelled(g, &d.function.name, radius(d.function), at, taken);
}

/// Writes `name` beside a dot of radius `r` at `at`, in a free place.
pub(super) fn labelled(g: &mut Group, name: &str, r: f64, at: (f64, f64), taken: &mut Taken) {
    const SIZE: f64 = 12.0;
    let text = name::shorten(name, 28);
    let chars = text.chars().count();
    let width = super::layout::text_width(chars, SIZE * 1.08);
    let mut candidates = Vec::new();
    for far in [4.0, 14.0, 28.0, 46.0, 70.0] {
        let reach = r + far;
        let around = [
            (reach, 4.0),
            (reach * 0.7, -reach * 0.7),
            (reach * 0.7, reach * 0.7 + 8.0),
            (-width / 2.0, -reach - 2.0),
            (-width / 2.0, reach + 10.0),
            (-reach - width, 4.0),
            (-reach * 0.7 - width, -reach * 0.7),
            (-reach * 0.7 - width, reach * 0.7 + 8.0),
        ];
        candidates.extend(around.iter().map(|(dx, dy)| (far, Area::of_text(at.0 + dx, at.1 + dy, chars, SIZE * 1.08))));
    }
    let areas: Vec<Area> = candidates.iter().map(|(_, a)| *a).collect();
    // No room: the dot keeps its tooltip.
    let Some(i) = taken.place(&areas) else { return };
    let area = areas[i];
    if candidates[i].0 > 14.0 {
        let x = at.0.clamp(area.left, area.right);
        let y = at.1.clamp(area.top, area.bottom);
        g.append(page::line(at, (x, y), "rf-leader"));
    }
    g.append(page::text(area.left, area.bottom - 0.25 * SIZE, "rf-name", &text));
}
