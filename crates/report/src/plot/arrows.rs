//! Two profiles on one roofline: a ring for a function's old place, a dot for the new one, an arrow between them.

use svg::Node;
use svg::node::element::{Circle, Group, Polygon};

use super::axes::Axes;
use super::dots::{self, Dot};
use super::layout::{Area, Taken};
use super::lines::{self, Frame};
use super::page;
use super::roofline;
use crate::number::{si, significant};
use crate::{Precision, name, palette};
use rprof_profile::{Function, Profile};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 640.0;
/// Functions at most.
const MOST: usize = 24;
/// Length and half width of an arrow's head.
const HEAD: (f64, f64) = (9.0, 4.5);

/// A function in both profiles, or in one of them.
#[derive(Debug, Clone, Copy)]
pub struct Moved<'a> {
    pub old: Option<&'a Function>,
    pub new: Option<&'a Function>,
    /// By more than the error of its figures; others are faint and have no arrow.
    pub is_changed: bool,
}

/// The picture: ceilings of `new`, or of `old` if the former has none.
pub fn svg(old: &Profile, new: &Profile, moved: &[Moved<'_>]) -> String {
    let moved = &moved[..moved.len().min(MOST)];
    let axes = Axes::of(new, Precision::Mixed);
    let (before, no_place_before) = dots::placed(axes, moved.iter().enumerate().filter_map(|(i, m)| Some((i, m.old?))));
    let (after, no_place) = dots::placed(axes, moved.iter().enumerate().filter_map(|(i, m)| Some((i, m.new?))));
    let host = if new.machine.ceilings.is_empty() { old } else { new };
    let (ceilings, slopes) = (lines::ceilings(&host.machine, axes), lines::slopes(&host.machine));
    let title = format!("Before and after: {}", name::shorten(&new.run.command.join(" "), 80));
    let note = format!("{} · ceilings: {}", name::shorten(&host.machine.cpu, 90), axes.name());
    let mut picture = page::document(WIDTH, HEIGHT, &title, &note);
    let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - page::RIGHT, bottom: HEIGHT - 110.0 };
    let all: Vec<Dot<'_>> = before.iter().chain(&after).copied().collect();
    let frame = roofline::frame(area, &all, &ceilings, &slopes);
    picture.append(page::axes(
        area,
        (&frame.x, &axes.horizontal(), ""),
        (&frame.y, "performance", &format!("{}/s", axes.unit())),
    ));
    let mut taken = Taken::new(area);
    for d in &all {
        let (x, y) = dots::spot(&frame, d);
        taken.take(Area::around(x, y, dots::radius(d.function)));
    }
    picture.append(lines::draw_slopes(&frame, &slopes, &ceilings, &mut taken));
    picture.append(lines::draw_ceilings(&frame, &ceilings, &slopes, &mut taken));
    let of = |dots: &'_ [Dot<'_>], i: usize| dots.iter().position(|d| d.index == i);
    for (i, _) in moved.iter().enumerate().filter(|(_, m)| m.is_changed) {
        if let (Some(a), Some(b)) = (of(&before, i), of(&after, i)) {
            take_line(&mut taken, dots::spot(&frame, &before[a]), dots::spot(&frame, &after[b]));
        }
    }
    // The first functions changed most: drawn last, they lie on top; their labels are placed first.
    let mut groups: Vec<Group> = Vec::new();
    for (i, m) in moved.iter().enumerate() {
        let (a, b) = (of(&before, i).map(|at| &before[at]), of(&after, i).map(|at| &after[at]));
        groups.push(function(&frame, a, b, m.is_changed, &mut taken));
    }
    groups.into_iter().rev().for_each(|g| picture.append(g));
    let mut notes = vec![
        "Ring: before. Dot: now; its area is its share of the CPU time. Faint: within the error of the figures."
            .to_owned(),
    ];
    if all.is_empty() {
        notes = vec![format!("No function has both {} in one of the profiles.", axes.needed())];
    }
    let mut others: Vec<String> = no_place;
    others.extend(no_place_before.into_iter().filter(|_| after.is_empty()));
    if !others.is_empty() {
        let more = if others.len() > 4 { format!(" and {} more", others.len() - 4) } else { String::new() };
        notes.push(name::shorten(
            &format!("Not on these axes: {}{more}.", others[..others.len().min(4)].join(", ")),
            150,
        ));
    }
    for (i, text) in notes.iter().enumerate() {
        picture.append(page::text(page::LEFT, area.bottom + 66.0 + 16.0 * i as f64, "rf-note", text));
    }
    format!("{picture}\n")
}

/// Labels leave an arrow free.
fn take_line(taken: &mut Taken, from: (f64, f64), to: (f64, f64)) {
    const STEP: f64 = 8.0;
    let steps = ((to.0 - from.0).hypot(to.1 - from.1) / STEP).ceil().clamp(1.0, 200.0);
    for i in 0..=steps as u32 {
        let share = f64::from(i) / steps;
        let at = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
        taken.take(Area::around(at.0, at.1, STEP / 2.0));
    }
}

fn function(frame: &Frame, old: Option<&Dot<'_>>, new: Option<&Dot<'_>>, is_changed: bool, taken: &mut Taken) -> Group {
    let mut g = Group::new().set("class", if is_changed { "rf-pair" } else { "rf-pair rf-still" });
    if let Some(d) = old {
        g.append(ring(d, dots::spot(frame, d)));
    }
    if let (Some(a), Some(b), true) = (old, new, is_changed) {
        let ends = (dots::spot(frame, a), dots::spot(frame, b));
        g.append(arrow(ends, (dots::radius(a.function), dots::radius(b.function)), (a, b)));
    }
    if let Some(d) = new {
        g.append(dots::dot(d, dots::spot(frame, d), dots::is_beyond(frame, d)));
    }
    if let Some(d) = new.or(old).filter(|_| is_changed) {
        dots::label(&mut g, d, dots::spot(frame, d), taken);
    }
    g
}

/// A function's old place.
fn ring(d: &Dot<'_>, at: (f64, f64)) -> Circle {
    let mut ring = Circle::new()
        .set("cx", page::round(at.0))
        .set("cy", page::round(at.1))
        .set("r", page::round(dots::radius(d.function)))
        .set("class", "rf-before")
        .set("stroke", palette::hex(d.function.analysis.class));
    let unit = d.axes.unit();
    let told = format!(
        "{}, before\n{}, {} {unit}/B",
        name::shorten(&d.function.name, 500),
        si(d.rate, &format!("{unit}/s")),
        significant(d.intensity)
    );
    page::tooltip(&mut ring, &told);
    ring
}

/// From the edge of the ring to that of the dot; nothing if they touch.
fn arrow((from, to): ((f64, f64), (f64, f64)), (r_from, r_to): (f64, f64), (old, new): (&Dot<'_>, &Dot<'_>)) -> Group {
    let mut g = Group::new();
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length <= r_from + r_to + HEAD.0 {
        return g;
    }
    let (ux, uy) = (dx / length, dy / length);
    let start = (from.0 + ux * r_from, from.1 + uy * r_from);
    let tip = (to.0 - ux * (r_to + 1.0), to.1 - uy * (r_to + 1.0));
    let foot = (tip.0 - ux * HEAD.0, tip.1 - uy * HEAD.0);
    let unit = new.axes.unit();
    let told = format!(
        "{}: {} → {}, {} → {} {unit}/B",
        name::shorten(&new.function.name, 500),
        si(old.rate, &format!("{unit}/s")),
        si(new.rate, &format!("{unit}/s")),
        significant(old.intensity),
        significant(new.intensity)
    );
    g.append(page::line(start, foot, "rf-arrow"));
    let corner = |x: f64, y: f64| format!("{},{}", page::round(x), page::round(y));
    let corners = [
        corner(tip.0, tip.1),
        corner(foot.0 - uy * HEAD.1, foot.1 + ux * HEAD.1),
        corner(foot.0 + uy * HEAD.1, foot.1 - ux * HEAD.1),
    ];
    g.append(Polygon::new().set("points", corners.join(" ")).set("class", "rf-head"));
    page::tooltip(&mut g, &told);
    g
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn picture(new_rate: f64, is_changed: bool) -> String {
        let old = sample::profile();
        let mut new = old.clone();
        let at = new.functions.iter().position(|f| f.name == "triad").unwrap();
        new.functions[at].analysis.flop_rate = Some(new_rate);
        let moved = [Moved { old: Some(&old.functions[at]), new: Some(&new.functions[at]), is_changed }];
        svg(&old, &new, &moved)
    }

    /// y of the foot and of the tip of the arrow.
    fn arrow_ends(svg: &str) -> Option<(f64, f64)> {
        let line = svg.split('<').find(|tag| tag.contains("class=\"rf-arrow\""))?;
        let head = svg.split('<').find(|tag| tag.contains("class=\"rf-head\""))?;
        let y1 = line.split("y1=\"").nth(1)?.split('"').next()?.parse().ok()?;
        let tip = head.split("points=\"").nth(1)?.split([' ', ',']).nth(1)?.parse().ok()?;
        Some((y1, tip))
    }

    #[test]
    fn arrows_point_from_old_to_new() {
        let (from, tip) = arrow_ends(&picture(2.94e10, true)).unwrap();
        assert!(tip < from - 20.0, "up: {from} to {tip}");
        let (from, tip) = arrow_ends(&picture(2.94e8, true)).unwrap();
        assert!(tip > from + 20.0, "down: {from} to {tip}");
        assert_eq!(arrow_ends(&picture(2.94e8, false)), None, "within noise");
        assert!(picture(2.94e8, false).contains("rf-still"));
    }

    #[test]
    fn a_function_of_one_profile_has_one_place() {
        let old = sample::profile();
        let triad = old.functions.iter().find(|f| f.name == "triad");
        let of = |old_f, new_f| svg(&old, &old, &[Moved { old: old_f, new: new_f, is_changed: true }]);
        let (gone, new) = (of(triad, None), of(None, triad));
        assert!(
            gone.contains("class=\"rf-before\"")
                && !gone.contains("class=\"rf-dot\"")
                && gone.contains("class=\"rf-name\"")
        );
        assert!(!new.contains("class=\"rf-before\"") && new.contains("class=\"rf-dot\""));
        assert!(svg(&old, &old, &[]).contains("No function has both FLOPs and bytes"));
    }
}
