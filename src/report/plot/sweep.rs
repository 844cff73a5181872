//! Measured curves of the machine: bandwidth over working set, FLOP rate over FLOPs per element.

use svg::Node;
use svg::node::element::{Circle, Group, Polyline};

use super::layout::{Area, Taken};
use super::page;
use super::scale::LogScale;
use crate::profile::Machine;
use crate::profile::machine::Sweep;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 520.0;
const COLOURS: [&str; 8] = ["#2d70cd", "#e2583e", "#24a082", "#d6781c", "#6c4cc4", "#ce426c", "#3c9e48", "#8a8f98"];

/// One picture of all curves whose id starts with `family` (`workingset`); `None` if the machine has none.
pub fn svg(machine: &Machine, family: &str) -> Option<String> {
    let prefix = format!("{family}.");
    let sweeps: Vec<&Sweep> =
        machine.sweeps.iter().filter(|s| (s.id == family || s.id.starts_with(&prefix)) && drawable(s)).collect();
    let first = *sweeps.first()?;
    let mut doc = page::document(
        WIDTH,
        HEIGHT,
        &format!("{} of {}", title(family), machine.cpu),
        "measured on this host; each curve one kind of access",
    );
    let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - 210.0, bottom: HEIGHT - 64.0 };
    let points = || sweeps.iter().flat_map(|s| s.points.iter().filter(|p| p.0 > 0.0 && p.1 > 0.0));
    let range =
        |get: fn(&(f64, f64)) -> f64| points().map(get).fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let ((x0, x1), (y0, y1)) = (range(|p| p.0), range(|p| p.1));
    let x = LogScale::new(x0 / 1.2, x1 * 1.2, area.left, area.right);
    let y = LogScale::new(y0 / 1.5, y1 * 1.5, area.bottom, area.top);
    let unit = |u: &str| u.replace("byte", "B").replace("flop", "FLOP");
    doc.append(page::axes(
        area,
        (&x, axis(&first.x_unit), &unit(&first.x_unit)),
        (&y, axis(&first.y_unit), &unit(&first.y_unit)),
    ));
    doc.append(caches(machine, &first.x_unit, area, &x));
    let mut taken = Taken::new(Area { left: area.right, right: WIDTH, ..area });
    for (i, sweep) in sweeps.iter().enumerate() {
        doc.append(curve(sweep, COLOURS[i % COLOURS.len()], (&x, &y), area, &prefix, &mut taken));
    }
    Some(format!("{doc}\n"))
}

/// The families of curves that the machine has, in order of their first appearance.
pub fn families(machine: &Machine) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for sweep in machine.sweeps.iter().filter(|s| drawable(s)) {
        let family = sweep.id.split('.').next().unwrap_or(&sweep.id).to_owned();
        if !out.contains(&family) {
            out.push(family);
        }
    }
    out
}

/// Curves that logarithmic axes can show whole; the plateaus are points of the working-set curves.
fn drawable(s: &Sweep) -> bool {
    let whole = s.points.iter().all(|p| p.0 > 0.0 && p.1 > 0.0);
    s.points.len() >= 2 && whole && !s.id.starts_with("plateaus.")
}

fn title(family: &str) -> String {
    match family {
        "workingset" => "Bandwidth over working set".into(),
        "flops-per-element" => "FLOP rate over FLOPs per element of an array in L1".into(),
        "overlap" => "Restarted dependency chains under way at once".into(),
        "chains" => "FLOP rate over independent chains".into(),
        "prefetch-distance" => "Bandwidth over software prefetch distance".into(),
        other => other.to_owned(),
    }
}

fn axis(unit: &str) -> &str {
    match unit {
        "byte" => "working set",
        "chains" => "independent chains",
        "byte/s" => "bandwidth, towards the core",
        "flop/s" => "performance",
        other => other,
    }
}

/// Where the caches end.
fn caches(machine: &Machine, x_unit: &str, area: Area, x: &LogScale) -> Group {
    let mut g = Group::new();
    if x_unit != "byte" {
        return g;
    }
    for cache in &machine.caches {
        let at = x.at(cache.size as f64);
        if at > area.left && at < area.right {
            g.append(page::line((at, area.top), (at, area.bottom), "rf-beyond"));
            g.append(page::text(at + 4.0, area.bottom - 8.0, "rf-label", &format!("L{}", cache.level)));
        }
    }
    g
}

fn curve(
    s: &Sweep,
    colour: &str,
    scales: (&LogScale, &LogScale),
    area: Area,
    prefix: &str,
    taken: &mut Taken,
) -> Group {
    let mut g = Group::new();
    let at: Vec<(f64, f64)> =
        s.points.iter().filter(|p| p.0 > 0.0 && p.1 > 0.0).map(|p| (scales.0.at(p.0), scales.1.at(p.1))).collect();
    let path: Vec<String> = at.iter().map(|(x, y)| format!("{:.1},{:.1}", x, y)).collect();
    g.append(
        Polyline::new().set("points", path.join(" ")).set("fill", "none").set("stroke", colour).set("stroke-width", 2),
    );
    for (x, y) in &at {
        g.append(Circle::new().set("cx", page::round(*x)).set("cy", page::round(*y)).set("r", 2.4).set("fill", colour));
    }
    let label =
        format!("{}, {} thread{}", s.id.trim_start_matches(prefix), s.threads, if s.threads == 1 { "" } else { "s" });
    if let Some(last) = at.last() {
        let places: Vec<Area> = (0..40)
            .map(|i| if i % 2 == 0 { f64::from(i / 2) } else { -f64::from(i / 2 + 1) })
            .map(|n| Area::of_text(area.right + 14.0, last.1 + 4.0 + 7.0 * n, label.chars().count(), 11.0))
            .collect();
        if let Some(i) = taken.place(&places) {
            let y = places[i].bottom - 0.25 * 11.0;
            g.append(page::line(*last, (area.right + 12.0, y - 4.0), "rf-leader"));
            g.append(page::text(area.right + 14.0, y, "rf-label", &label).set("fill", colour));
        }
    }
    g
}
