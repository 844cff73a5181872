//! Common parts of all pictures: ground, fonts, axes, colours for light and dark.

use svg::node::element::{Element, Group, Line, Rectangle, Style, Text};
use svg::{Document, Node};

use super::layout::Area;
use super::scale::LogScale;
use crate::number::si;

/// Colours as CSS variables; the picture follows the reader's preference. A renderer without variables (librsvg) takes the colour
/// before each. Class names start with `rf-` so that a page may contain several pictures.
const STYLE: &str = "
.rf { font-family: system-ui, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif;
  --ground: #ffffff; --ink: #1d2430; --soft: #5b6472; --grid: #e3e6eb; --fine: #f1f3f6; --dim: #c3c8d0; --roof: #1d2430; --ceiling: #6a7383; --memory: #3b6ea8 }
@media (prefers-color-scheme: dark) { .rf { --ground: #14181f; --ink: #e8ebf0; --soft: #a4adba; --grid: #2b323d; --fine: #1d232c; --dim: #454e5c;
  --roof: #f0f2f6; --ceiling: #99a3b3; --memory: #7fb0e6 } }
.rf-ground { fill: #ffffff; fill: var(--ground) } .rf-title { font-size: 17px; font-weight: 600; fill: #1d2430; fill: var(--ink) }
.rf-note { font-size: 12px; fill: #5b6472; fill: var(--soft) } .rf-axis { font-size: 12.5px; fill: #1d2430; fill: var(--ink) } .rf-tick { font-size: 11px; fill: #5b6472; fill: var(--soft) }
.rf-grid { stroke: #e3e6eb; stroke: var(--grid); stroke-width: 1 } .rf-fine { stroke: #f1f3f6; stroke: var(--fine); stroke-width: 1 }
.rf-frame { fill: none; stroke: #5b6472; stroke: var(--soft); stroke-width: 1 }
.rf-roof { fill: none; stroke: #1d2430; stroke: var(--roof); stroke-width: 2.4 } .rf-ceiling { fill: none; stroke: #6a7383; stroke: var(--ceiling); stroke-width: 1.3 }
.rf-beyond { fill: none; stroke: #6a7383; stroke: var(--ceiling); stroke-width: 1.2; stroke-dasharray: 6 4 }
.rf-slope { fill: none; stroke: #3b6ea8; stroke: var(--memory); stroke-width: 1.3 } .rf-dram { fill: none; stroke: #1d2430; stroke: var(--roof); stroke-width: 2.4 }
.rf-label { font-size: 11px; fill: #5b6472; fill: var(--soft) } .rf-slope-label { font-size: 11px; fill: #3b6ea8; fill: var(--memory) }
.rf-name { font-size: 12px; font-weight: 600; fill: #1d2430; fill: var(--ink); paint-order: stroke; stroke: #ffffff; stroke: var(--ground); stroke-width: 3px; stroke-linejoin: round }
.rf-halo { paint-order: stroke; stroke: #ffffff; stroke: var(--ground); stroke-width: 4px; stroke-linejoin: round }
.rf-dot { stroke: #ffffff; stroke: var(--ground); stroke-width: 1.5; fill-opacity: 0.92 } .rf-ring { fill: #ffffff; fill: var(--ground); stroke-width: 1.6 }
.rf-thread { stroke-width: 1.1; stroke-dasharray: 2 3; fill: none } .rf-gap { stroke-width: 1.6; fill: none }
.rf-grey { fill: none; stroke: #c3c8d0; stroke: var(--dim); stroke-width: 1.2 } .rf-own { fill: none; stroke-width: 1.7 } .rf-binds { stroke-width: 3 }
.rf-fan { stroke-dasharray: 2 3; stroke-width: 1.2 } .rf-bound { stroke-width: 3.4; fill: none } .rf-after { fill: #ffffff; fill: var(--ground); stroke-width: 1.8 }
.rf-arrow { stroke: #1d2430; stroke: var(--ink); stroke-width: 1.8 } .rf-head { fill: #1d2430; fill: var(--ink) } .rf-before { fill: #ffffff; fill: var(--ground); stroke-width: 2.2 } .rf-still { opacity: 0.3 }
.rf-leader { stroke: #5b6472; stroke: var(--soft); stroke-width: 0.8 }
";

/// Margins around the drawing area.
pub const LEFT: f64 = 104.0;
/// Space above it.
pub const TOP: f64 = 66.0;
/// Space to its right.
pub const RIGHT: f64 = 26.0;

/// A picture of `width` × `height` with title and note.
pub fn document(width: f64, height: f64, title: &str, note: &str) -> Document {
    let mut page = Document::new()
        .set("viewBox", (0, 0, width as i32, height as i32))
        .set("width", width as i32)
        .set("height", height as i32)
        .set("class", "rf")
        .set("role", "img")
        .set("aria-label", title);
    page.append(Style::new(STYLE));
    page.append(Rectangle::new().set("class", "rf-ground").set("width", "100%").set("height", "100%").set("rx", 6));
    page.append(text(LEFT, 28.0, "rf-title", title));
    page.append(text(LEFT, 48.0, "rf-note", note));
    page
}

/// A text with its baseline from (x, y).
pub fn text(x: f64, y: f64, class: &str, content: &str) -> Text {
    Text::new(content).set("x", round(x)).set("y", round(y)).set("class", class)
}

/// A text anchored at its middle or end.
pub fn anchored(x: f64, y: f64, class: &str, anchor: &str, content: &str) -> Text {
    text(x, y, class, content).set("text-anchor", anchor)
}

/// A straight line.
pub fn line(from: (f64, f64), to: (f64, f64), class: &str) -> Line {
    Line::new()
        .set("x1", round(from.0))
        .set("y1", round(from.1))
        .set("x2", round(to.0))
        .set("y2", round(to.1))
        .set("class", class)
}

/// A tooltip for `node`.
pub fn tooltip(node: &mut impl Node, content: &str) {
    let mut title = Element::new("title");
    title.append(svg::node::Text::new(content));
    node.append(title);
}

/// Coordinates with one decimal: pictures stay the same across hosts.
pub fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

/// Grid, frame, ticks and titles of a log-log drawing area.
pub fn axes(area: Area, x: (&LogScale, &str, &str), y: (&LogScale, &str, &str)) -> Group {
    let mut g = Group::new();
    let (xs, ys) = (x.0, y.0);
    let vertical = |v: f64| ((xs.at(v), area.top), (xs.at(v), area.bottom));
    let horizontal = |v: f64| ((area.left, ys.at(v)), (area.right, ys.at(v)));
    for v in xs.minors() {
        g.append(line(vertical(v).0, vertical(v).1, "rf-fine"));
    }
    for v in ys.minors() {
        g.append(line(horizontal(v).0, horizontal(v).1, "rf-fine"));
    }
    for v in xs.decades() {
        g.append(line(vertical(v).0, vertical(v).1, "rf-grid"));
    }
    for v in ys.decades() {
        g.append(line(horizontal(v).0, horizontal(v).1, "rf-grid"));
    }
    for v in xs.labels() {
        g.append(anchored(xs.at(v), area.bottom + 18.0, "rf-tick", "middle", &tick(v, x.2, xs)));
    }
    for v in ys.labels() {
        g.append(anchored(area.left - 8.0, ys.at(v) + 4.0, "rf-tick", "end", &tick(v, y.2, ys)));
    }
    g.append(frame(area));
    g.append(anchored((area.left + area.right) / 2.0, area.bottom + 40.0, "rf-axis", "middle", x.1));
    let middle = (area.top + area.bottom) / 2.0;
    g.append(
        anchored(18.0, middle, "rf-axis", "middle", y.1).set("transform", format!("rotate(-90 18 {})", round(middle))),
    );
    g
}

/// The border of the drawing area.
pub fn frame(area: Area) -> Rectangle {
    Rectangle::new()
        .set("x", area.left)
        .set("y", area.top)
        .set("width", area.right - area.left)
        .set("height", area.bottom - area.top)
        .set("class", "rf-frame")
}

/// A label on an axis: `100 GFLOP/s` rather than `1.00e11`, `256 KiB` if the axis has powers of two.
pub fn tick(value: f64, unit: &str, scale: &LogScale) -> String {
    if scale.is_binary() && unit == "B" {
        return binary(value);
    }
    if unit.is_empty() {
        return if (0.001..10_000.0).contains(&value) { format!("{value}") } else { format!("{value:e}") };
    }
    si(value, unit).replace(".00 ", " ").replace(".0 ", " ")
}

/// Bytes with a binary prefix.
fn binary(bytes: f64) -> String {
    let (mut value, mut prefixes) = (bytes, ["", "Ki", "Mi", "Gi", "Ti"].into_iter());
    let mut prefix = prefixes.next().unwrap_or_default();
    while value >= 1024.0 {
        let Some(next) = prefixes.next() else { break };
        (value, prefix) = (value / 1024.0, next);
    }
    format!("{value} {prefix}B")
}
