//! The three roofs at once (Cardwell 2019, Figure 2.13): performance over both intensities, in logarithms.
//!
//! ```text
//! performance ≤ min(compute, memory · OI, network · CAI)
//! ```
//!
//! `report.html` turns the picture: elements with `data-p` have their points in the unit cube there.

use svg::Node;
use svg::node::element::{Circle, Group, Polyline};

use super::layout::Area;
use super::page;
use super::spots::{Roofs, Spot, dot, stem};
use crate::name;
use crate::number::{si, significant};

/// Lines of the surface along each axis.
const LINES: u32 = 16;
/// Points of a line.
const STEPS: u32 = 48;
/// Turn of the picture, and the share of depth that is height.
const TURN: f64 = 0.6;
const TILT: f64 = 0.45;

/// Least and greatest value of an axis.
#[derive(Debug, Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        Axis { low: low / 2.0, high: high * 2.0 }
    }

    /// From 0 to 1.
    fn share(self, value: f64) -> f64 {
        ((value / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }

    fn value(self, share: f64) -> f64 {
        self.low * (self.high / self.low).powf(share)
    }
}

/// The roof that holds at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Roof {
    Compute,
    Memory,
    Network,
}

impl Roof {
    fn class(self) -> &'static str {
        match self {
            Roof::Compute => "rf-ceiling",
            Roof::Memory => "rf-slope",
            Roof::Network => "rf-fan rf-roof",
        }
    }
}

fn lowest(roofs: &Roofs, oi: f64, cai: f64) -> (Roof, f64) {
    let all = [(Roof::Compute, roofs.compute), (Roof::Memory, roofs.memory * oi), (Roof::Network, roofs.network * cai)];
    all.into_iter().fold(all[0], |lowest, one| if one.1 < lowest.1 { one } else { lowest })
}

/// The unit cube's place in the picture.
struct View {
    area: Area,
}

impl View {
    fn at(&self, [x, y, z]: [f64; 3]) -> (f64, f64) {
        let (sin, cos) = TURN.sin_cos();
        let (x, y) = (x - 0.5, y - 0.5);
        let (across, depth) = (x * cos - y * sin, x * sin + y * cos);
        let scale = (self.area.bottom - self.area.top) / (1.0 + 1.42 * TILT);
        let middle = (self.area.left + self.area.right) / 2.0;
        let floor = self.area.bottom - 0.71 * TILT * scale;
        (middle + across * scale * 1.35, floor - z * scale + depth * TILT * scale)
    }
}

/// The surface, its axes and the functions.
pub fn draw(area: Area, roofs: &Roofs, spots: &[Spot<'_>]) -> Group {
    let ridge = |slope: f64| roofs.compute / slope;
    let around = |middle: f64| [middle / 30.0, middle * 10.0].into_iter();
    let oi = Axis::of(spots.iter().map(|spot| spot.oi).chain(around(ridge(roofs.memory))));
    let cai = Axis::of(spots.iter().map(|spot| spot.cai).chain(around(ridge(roofs.network))));
    let corner = lowest(roofs, oi.low, cai.low).1;
    let least = corner.max(roofs.compute * 1e-4);
    let rate = Axis::of([least, roofs.compute].into_iter().chain(spots.iter().map(|spot| spot.rate)));
    let view = View { area };
    let mut g = Group::new().set("class", "rf-volume").set("data-view", turned(area));
    let point = |x: f64, y: f64| {
        let (roof, value) = lowest(roofs, oi.value(x), cai.value(y));
        (roof, [x, y, rate.share(value)])
    };
    for line in 0..=LINES {
        let fixed = f64::from(line) / f64::from(LINES);
        for along_x in [true, false] {
            let points = (0..=STEPS).map(|step| {
                let moving = f64::from(step) / f64::from(STEPS);
                if along_x { point(moving, fixed) } else { point(fixed, moving) }
            });
            surface_line(&mut g, &view, points);
        }
    }
    axes(&mut g, &view, (oi, cai, rate), roofs);
    for spot in spots {
        let (x, y) = (oi.share(spot.oi), cai.share(spot.cai));
        let place = [x, y, rate.share(spot.rate)];
        let roof = [x, y, rate.share(lowest(roofs, spot.oi, spot.cai).1)];
        let mut line = stem(view.at(place), view.at(roof));
        line = line.set("data-p", data(&[place, roof]));
        g.append(line);
        let (px, py) = view.at(place);
        let circle: Circle = dot(px, py, spot);
        g.append(circle.set("data-p", data(&[place])));
        let label = page::text(px + 9.0, py + 4.0, "rf-name", &name::shorten(&spot.of.name, 26));
        g.append(label.set("data-p", data(&[place])).set("data-shift", "9 4"));
    }
    g
}

/// Parts of a line of the surface, each below one roof.
fn surface_line(g: &mut Group, view: &View, points: impl Iterator<Item = (Roof, [f64; 3])>) {
    let points: Vec<(Roof, [f64; 3])> = points.collect();
    let mut start = 0;
    for i in 1..=points.len() {
        if i == points.len() || points[i].0 != points[start].0 {
            // Up to the first point below the next roof, so that no gap is left.
            let part: Vec<[f64; 3]> = points[start..(i + 1).min(points.len())].iter().map(|p| p.1).collect();
            g.append(
                polyline(view, &part, points[start].0.class())
                    .set("stroke-width", 0.8)
                    .set("style", "stroke-width:0.8"),
            );
            start = i;
        }
    }
}

fn polyline(view: &View, points: &[[f64; 3]], class: &str) -> Polyline {
    let places: Vec<String> = points
        .iter()
        .map(|p| {
            let (x, y) = view.at(*p);
            format!("{},{}", page::round(x), page::round(y))
        })
        .collect();
    Polyline::new().set("points", places.join(" ")).set("class", class).set("fill", "none").set("data-p", data(points))
}

/// Points of the unit cube for the script.
fn data(points: &[[f64; 3]]) -> String {
    let three = |p: &[f64; 3]| p.map(|v| format!("{:.3}", v)).join(",");
    points.iter().map(three).collect::<Vec<_>>().join(" ")
}

/// `left top right bottom turn tilt` for the script.
fn turned(area: Area) -> String {
    format!("{} {} {} {} {TURN} {TILT}", area.left, area.top, area.right, area.bottom)
}

/// The floor, the vertical axis, and titles with the ends of each axis.
fn axes(g: &mut Group, view: &View, (oi, cai, rate): (Axis, Axis, Axis), roofs: &Roofs) {
    let floor = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]];
    g.append(polyline(view, &floor, "rf-grid"));
    g.append(polyline(view, &[[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]], "rf-frame"));
    let ends = |axis: Axis| format!("{} … {}", significant(axis.low), significant(axis.high));
    let titles = [
        ([0.5, 1.12, 0.0], format!("FLOP/byte of memory: {}", ends(oi))),
        ([1.16, 0.5, 0.0], format!("FLOP/byte handed over: {}", ends(cai))),
        ([0.0, 0.0, 1.05], format!("up to {}", si(rate.high, "FLOP/s"))),
    ];
    for (place, title) in titles {
        let (x, y) = view.at(place);
        let text = page::anchored(x, y, "rf-axis rf-halo", "middle", &title);
        g.append(text.set("data-p", data(&[place])).set("data-shift", "0 0"));
    }
    let note = format!(
        "performance below all three roofs: {} · memory {} · {} {} (dashed)",
        si(roofs.compute, "FLOP/s"),
        si(roofs.memory, "B/s"),
        roofs.between.words(),
        si(roofs.network, "B/s")
    );
    g.append(page::text(view.area.left, view.area.bottom + 16.0, "rf-note", &note));
}
