//! The ladder of A.1.3 as bars: the gains from thread-, instruction- and data-level parallelism and from FMA on this host.

use svg::Node;
use svg::node::element::{Group, Rectangle};

use super::layout::Area;
use super::page;
use super::scale::LogScale;
use crate::number::si;
use rprof_profile::Machine;

const WIDTH: f64 = 1000.0;
const RUNGS: [(&str, &str); 5] = [
    ("tlp", "threads only"),
    ("ilp", "+ independent"),
    ("simd", "+ vectors"),
    ("fma", "+ FMA (roof)"),
    ("peak", "any mix"),
];

/// The picture: a group of bars per precision, for one thread and for all.
pub fn svg(machine: &Machine) -> String {
    let most = machine.ceilings.iter().map(|c| c.threads).max().unwrap_or(1);
    let mut groups: Vec<(String, Vec<(&str, f64)>)> = Vec::new();
    let counts = if most > 1 { vec![1, most] } else { vec![1] };
    for precision in ["dp", "sp"] {
        for threads in &counts {
            let rungs: Vec<(&str, f64)> = RUNGS
                .into_iter()
                .filter_map(|(id, label)| machine.value(&format!("{precision}.{id}"), *threads).map(|v| (label, v)))
                .collect();
            if !rungs.is_empty() {
                groups.push((format!("{precision}, {threads} thread{}", if *threads == 1 { "" } else { "s" }), rungs));
            }
        }
    }
    let rows: usize = groups.iter().map(|(_, r)| r.len() + 1).sum();
    let height = page::TOP + 22.0 * rows.max(1) as f64 + 60.0;
    let mut doc = page::document(
        WIDTH,
        height,
        &format!("In-core ceilings of {}", machine.cpu),
        "each rung adds one kind of parallelism to those above it",
    );
    if groups.is_empty() {
        doc.append(page::text(page::LEFT, page::TOP + 20.0, "rf-note", "Not measured."));
        return format!("{doc}\n");
    }
    let values = || groups.iter().flat_map(|(_, r)| r.iter().map(|(_, v)| *v));
    let area = Area { left: 210.0, top: page::TOP, right: WIDTH - 110.0, bottom: height - 40.0 };
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let x = LogScale::new(low / 2.0, high * 1.2, area.left, area.right);
    doc.append(grid(area, &x));
    let mut y = page::TOP + 4.0;
    for (title, rungs) in &groups {
        doc.append(page::text(24.0, y + 14.0, "rf-axis", title).set("font-weight", 600));
        y += 22.0;
        for (label, value) in rungs {
            doc.append(bar(&x, y, label, *value));
            y += 22.0;
        }
    }
    format!("{doc}\n")
}

fn grid(area: Area, x: &LogScale) -> Group {
    let mut g = Group::new();
    for v in x.decades() {
        g.append(page::line((x.at(v), area.top), (x.at(v), area.bottom), "rf-grid"));
        g.append(page::anchored(
            x.at(v),
            area.bottom + 18.0,
            "rf-tick",
            "middle",
            &si(v, "FLOP/s").replace(".00 ", " ").replace(".0 ", " "),
        ));
    }
    g
}

fn bar(x: &LogScale, y: f64, label: &str, value: f64) -> Group {
    let mut g = Group::new();
    let left = x.at(x.low());
    g.append(page::anchored(left - 10.0, y + 13.0, "rf-note", "end", label));
    g.append(
        Rectangle::new()
            .set("x", page::round(left))
            .set("y", page::round(y + 2.0))
            .set("width", page::round(x.at(value) - left))
            .set("height", 16)
            .set("rx", 2)
            .set("fill", "#3b78c4"),
    );
    g.append(page::text(x.at(value) + 8.0, y + 14.0, "rf-label", &si(value, "FLOP/s")));
    g
}
