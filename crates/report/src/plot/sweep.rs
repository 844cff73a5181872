//! Measured curves of the machine: bandwidth over working set, FLOP rate over FLOPs per element.

use svg::Node;
use svg::node::element::{Circle, Group, Polyline};

use super::family::Family;
use super::layout::{Area, Taken};
use super::page;
use super::scale::LogScale;
use rprof_profile::machine::{Cache, Sweep};
use rprof_profile::{Machine, last_level};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 520.0;
const COLOURS: [&str; 8] = ["#2d70cd", "#e2583e", "#24a082", "#d6781c", "#6c4cc4", "#ce426c", "#3c9e48", "#8a8f98"];

/// One picture of all curves of `family` (`workingset`); `None` if the machine has none.
pub fn svg(machine: &Machine, family: &str) -> Option<String> {
    let family = Family::named(family);
    let prefix = format!("{}.", family.name);
    let sweeps: Vec<&Sweep> =
        machine.sweeps.iter().filter(|s| Family::of(&s.id) == family.name && drawable(s)).collect();
    let first = *sweeps.first()?;
    let mut doc = page::document(WIDTH, HEIGHT, &format!("{}: {}", machine.cpu, family.title), family.note);
    let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - 210.0, bottom: HEIGHT - 64.0 };
    let points = || sweeps.iter().flat_map(|s| s.points.iter().filter(|p| p.0 > 0.0 && p.1 > 0.0));
    let range =
        |get: fn(&(f64, f64)) -> f64| points().map(get).fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let ((x0, x1), (y0, y1)) = (range(|p| p.0), range(|p| p.1));
    let x = LogScale::new(x0 / 1.2, x1 * 1.2, area.left, area.right);
    let x = if first.x_unit == "byte" { x.binary() } else { x };
    let y = LogScale::new(y0 / 1.5, y1 * 1.5, area.bottom, area.top);
    doc.append(page::axes(
        area,
        (&x, family.horizontal, tick_unit(&first.x_unit)),
        (&y, vertical(&first.y_unit, first.threads), tick_unit(&first.y_unit)),
    ));
    if family.of_sets {
        doc.append(caches(machine, area, &x));
    }
    let kinds = kinds(&sweeps);
    let mut taken = Taken::new(Area { left: area.right, right: WIDTH, ..area });
    for sweep in &sweeps {
        let kind = kinds.iter().position(|k| *k == sweep.id).unwrap_or(0);
        let style = Style { colour: COLOURS[kind % COLOURS.len()], dashed: sweep.threads == 1 && several(&sweeps) };
        doc.append(curve(sweep, style, (&x, &y), area, &prefix, &mut taken));
    }
    Some(format!("{doc}\n"))
}

/// The families of curves that the machine has, in order of their first appearance.
pub fn families(machine: &Machine) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for sweep in machine.sweeps.iter().filter(|s| drawable(s)) {
        let family = Family::of(&sweep.id).to_owned();
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

/// The ids of the curves, each once: they have a colour each.
fn kinds<'a>(sweeps: &[&'a Sweep]) -> Vec<&'a str> {
    let mut kinds: Vec<&str> = Vec::new();
    for sweep in sweeps {
        if !kinds.contains(&sweep.id.as_str()) {
            kinds.push(&sweep.id);
        }
    }
    kinds
}

/// Whether there are curves of one thread and of several.
fn several(sweeps: &[&Sweep]) -> bool {
    sweeps.iter().any(|s| s.threads == 1) && sweeps.iter().any(|s| s.threads > 1)
}

/// The title of the vertical axis; curves of a GPU have no threads.
fn vertical(unit: &str, threads: u32) -> &str {
    match unit {
        "byte/s" if threads == 0 => "bandwidth",
        "byte/s" => "bandwidth, towards the core",
        "flop/s" => "performance",
        "s" => "latency of a load",
        other => other,
    }
}

/// The unit of tick labels; none for plain numbers, which the axis' title explains.
fn tick_unit(unit: &str) -> &str {
    match unit {
        "byte" => "B",
        "byte/s" => "B/s",
        "flop/s" => "FLOP/s",
        "s" => "s",
        _ => "",
    }
}

/// Bytes.
const MIB: f64 = 1024.0 * 1024.0;

/// How a curve is drawn.
#[derive(Debug, Clone, Copy)]
struct Style {
    colour: &'static str,
    dashed: bool,
}

/// The end of a cache in bytes: that of the last level as it was measured, and what the host says, if that is much more.
fn end(machine: &Machine, cache: &Cache) -> (f64, Option<u64>) {
    let size = |level: u32| machine.caches.iter().find(|c| c.level == level).map(|c| c.size);
    let told = cache.size;
    let is_last = machine.caches.iter().all(|other| other.level <= cache.level);
    let private = size(cache.level - 1).filter(|_| is_last && cache.level > 1);
    match private.and_then(|private| last_level::available(machine, private, size(2), told)) {
        Some(bytes) => (bytes, Some(told)),
        None => (told as f64, None),
    }
}

/// The ends of the caches.
fn caches(machine: &Machine, area: Area, x: &LogScale) -> Group {
    let mut g = Group::new();
    for cache in &machine.caches {
        let (bytes, told) = end(machine, cache);
        let at = x.at(bytes);
        if at > area.left && at < area.right {
            g.append(page::line((at, area.top), (at, area.bottom), "rf-beyond"));
            let size = |bytes: f64| page::tick((bytes / MIB).round().max(1.0) * MIB, "B", x);
            let label = match told {
                Some(told) => format!("L{} {} measured, of {}", cache.level, size(bytes), size(told as f64)),
                None => format!("L{} {}", cache.level, page::tick(bytes, "B", x)),
            };
            g.append(page::anchored(at - 5.0, area.bottom - 8.0, "rf-label rf-halo", "end", &label));
        }
    }
    g
}

fn curve(
    s: &Sweep,
    style: Style,
    scales: (&LogScale, &LogScale),
    area: Area,
    prefix: &str,
    taken: &mut Taken,
) -> Group {
    let mut g = Group::new();
    let at: Vec<(f64, f64)> =
        s.points.iter().filter(|p| p.0 > 0.0 && p.1 > 0.0).map(|p| (scales.0.at(p.0), scales.1.at(p.1))).collect();
    let path: Vec<String> = at.iter().map(|(x, y)| format!("{:.1},{:.1}", x, y)).collect();
    let colour = style.colour;
    let line = Polyline::new().set("points", path.join(" ")).set("fill", "none").set("stroke", colour);
    let line = line.set("stroke-width", if style.dashed { 1.4 } else { 2.0 });
    g.append(if style.dashed { line.set("stroke-dasharray", "5 3") } else { line });
    for (x, y) in &at {
        g.append(Circle::new().set("cx", page::round(*x)).set("cy", page::round(*y)).set("r", 2.4).set("fill", colour));
    }
    let name = s.id.trim_start_matches(prefix);
    let label = match s.threads {
        0 => name.to_owned(),
        1 => format!("{name}, 1 thread"),
        n => format!("{name}, {n} threads"),
    };
    if let Some(last) = at.last() {
        let places: Vec<Area> = (0..40)
            .map(|i| if i % 2 == 0 { f64::from(i / 2) } else { -f64::from(i / 2 + 1) })
            .map(|n| Area::of_text(area.right + 14.0, last.1 + 4.0 + 7.0 * n, label.chars().count(), 11.0))
            .collect();
        if let Some(i) = taken.place(&places) {
            let y = places[i].bottom - 0.25 * 11.0;
            g.append(page::line(*last, (area.right + 12.0, y - 4.0), "rf-leader"));
            g.append(page::text(area.right + 14.0, y, "rf-label", &label).set("style", format!("fill: {colour}")));
        }
    }
    g
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_level_ends_where_it_was_measured_to() {
        let cache = |level, size| Cache { level, size, ways: 16, line: 64, shared_by: 2 };
        let sweep = |points: &[(f64, f64)]| Sweep {
            id: "workingset.read".into(),
            x_unit: "byte".into(),
            y_unit: "byte/s".into(),
            threads: 1,
            points: points.iter().map(|(mib, rate)| (mib * MIB, rate * 1e9)).collect(),
        };
        let host = |points: &[(f64, f64)]| Machine {
            caches: vec![cache(1, 48 << 10), cache(2, 2 << 20), cache(3, 480 << 20)],
            sweeps: vec![sweep(points)],
            ..Machine::default()
        };
        // Most of it is full of other guests' lines.
        let crowded = host(&[(8.0, 30.2), (64.0, 29.9), (128.0, 27.7), (181.0, 20.5), (512.0, 16.5), (1024.0, 16.5)]);
        let (bytes, told) = end(&crowded, &crowded.caches[2]);
        assert!((160.0..185.0).contains(&(bytes / MIB)) && told == Some(480 << 20), "{} MiB", bytes / MIB);
        assert_eq!(end(&crowded, &crowded.caches[1]), (2.0 * MIB, None), "only the last one is shared with others");
        let picture = svg(&crowded, "workingset").expect("a sweep");
        assert!(picture.contains("MiB measured, of 480 MiB"), "{picture}");
        let quiet = host(&[(8.0, 30.2), (128.0, 29.9), (400.0, 28.0), (512.0, 17.0), (2048.0, 16.5)]);
        assert_eq!(end(&quiet, &quiet.caches[2]), (480.0 * MIB, None));
    }
}
