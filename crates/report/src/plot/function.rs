//! The picture of one function: Figure A6 ([`Own`]) with its dot, its bound, and its place after each change.

use svg::Node;
use svg::node::element::{Circle, Group};

use super::axes::Axes;
use super::layout::{Area, Taken, text_width};
use super::lines::{self, Frame};
use super::own::{After, Own, Rung, Slope, furthest};
use super::page;
use super::scale::LogScale;
use crate::number::{percent, seconds, si, significant};
use crate::{name, palette, table, words};
use rprof_profile::vocabulary::Class;
use rprof_profile::{Function, Profile};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 640.0;
/// Space for the single-feature ceilings at the right.
const MARGIN: f64 = 214.0;
const SIZE: f64 = 11.0;
/// Distance of two lines of text.
const LINE: f64 = 13.0;
/// Changes that are drawn at most.
const MOST_AFTER: usize = 5;

/// The picture; without rate or ceilings it names the missing one.
pub fn svg(profile: &Profile, f: &Function) -> String {
    let title = format!("{}: its own roofline", name::shorten(&f.name, 84));
    let share = f.share.map_or(String::new(), |share| format!("{} of the CPU time · ", percent(share)));
    let at = f
        .analysis
        .roof_fraction
        .map_or(String::new(), |at| format!(" at {}{} of its bound", table::at_least(f), percent(at)));
    let note = format!("{share}{}{at}", table::class(f));
    let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - MARGIN, bottom: HEIGHT - 118.0 };
    let Some(own) = Own::of(&profile.machine, f) else {
        let mut page = page::document(WIDTH, HEIGHT, &title, &note);
        page.append(page::text(area.left, area.top + 30.0, "rf-note", &missing(f)));
        return format!("{page}\n");
    };
    let unit = own.axes.unit();
    let level = own.level.map_or("bytes not measured", |(level, _)| level);
    let kept = if own.keeps_in {
        format!(" · next to no bytes from beyond {level}: drawn by its own")
    } else {
        String::new()
    };
    let mut page = page::document(WIDTH, HEIGHT, &title, &format!("{note}{kept}"));
    let frame = frame(profile, &own, area);
    page.append(page::axes(
        area,
        (&frame.x, &format!("{} · dot: {}, rings: inner levels", own.axes.horizontal(), level), ""),
        (&frame.y, "performance", &format!("{unit}/s")),
    ));
    let mut taken = Taken::new(area);
    reserve(&frame, &own, &mut taken);
    keep_off_slopes(profile, &frame, &own, &mut taken);
    page.append(machine(profile, own.axes, &frame));
    page.append(slopes(&frame, &own, &mut taken));
    page.append(rungs(&frame, &own, unit, &mut taken));
    page.append(fan(&frame, &own, unit, &mut taken));
    page.append(alone(&frame, &own, unit));
    page.append(dot(&frame, &own, unit, &mut taken));
    page.append(names_of_machine(profile, &own, &frame, &mut taken));
    let lines = [
        "Grey: this machine's ceilings. Colour: those of this function, each named after what its code lacks; the lowest line holds its core now.",
        "Slopes: the bandwidth of each level for its own threads, accesses and pages. Bar: its bound. Open circles: after each change alone.",
        "Right: the ceiling that one deficiency alone would leave, all else perfect (A.3).",
    ];
    for (i, line) in lines.iter().enumerate() {
        page.append(page::text(page::LEFT, area.bottom + 64.0 + 16.0 * i as f64, "rf-note", line));
    }
    format!("{page}\n")
}

/// Dots claim their places first, and labels avoid the lines if they can.
fn reserve(frame: &Frame, own: &Own<'_>, taken: &mut Taken) {
    let at = spot(frame, own);
    taken.take(Area::around(at.0, at.1, 10.0));
    for rate in own.after.iter().take(MOST_AFTER).map(|after| after.rate).chain(own.bound) {
        taken.take(Area::around(at.0, frame.y.at(rate).max(frame.area.top), 6.0));
    }
    for rung in &own.rungs {
        let y = frame.y.at(rung.value);
        taken.prefer_free(Area { left: frame.area.left, top: y - 2.0, right: frame.area.right, bottom: y + 2.0 });
    }
}

/// Upright labels stand on no slope, if there is another place.
fn keep_off_slopes(profile: &Profile, frame: &Frame, own: &Own<'_>, taken: &mut Taken) {
    let roof = own.rungs.last().map_or(frame.y.high(), |rung| rung.value);
    let of_function = own.slopes.iter().map(|slope| segment(frame, slope.bandwidth, roof));
    let of_machine = lines::slopes(&profile.machine);
    let of_machine = of_machine.iter().map(|slope| segment(frame, slope.value, frame.y.high()));
    for (from, to) in of_function.chain(of_machine).flatten() {
        lines::keep_labels_off(taken, from, to);
    }
}

fn missing(f: &Function) -> String {
    match (f.time_s, f.analysis.axis.as_deref()) {
        (None, _) => "No picture: its time was not measured.".into(),
        (_, None) => "No picture: its work was not counted.".into(),
        _ => "No picture: it has no operations.".into(),
    }
}

/// Axes that hold the dot, its ceilings and the machine's roof.
fn frame(profile: &Profile, own: &Own<'_>, area: Area) -> Frame {
    let grey = lines::ceilings(&profile.machine, own.axes);
    let tops = own.rungs.iter().map(|r| r.value).chain(grey.iter().map(|c| c.value));
    let afters = own.after.iter().take(MOST_AFTER).map(|a| a.rate);
    let top = tops.chain(afters).chain([own.rate]).fold(0.0, f64::max);
    let lows = own.rungs.iter().map(|r| r.value).chain([own.rate]).chain(own.bound);
    let bottom = lows.fold(f64::INFINITY, f64::min).min(top / 100.0);
    let oi = own.place.oi;
    let known = || {
        let of_level = own.level.map(|(_, intensity)| intensity);
        let inner = [oi.l1, oi.l2, oi.l3].into_iter().flatten().filter(move |i| of_level.is_none_or(|most| *i <= most));
        of_level.into_iter().chain(inner).filter(|i| *i > 0.0 && i.is_finite())
    };
    let (least, most) = known().fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
    let (least, most) = if most > 0.0 { (least, most) } else { (0.1, 10.0) };
    // Further right than this, memory makes no difference.
    let least = least.min(furthest(&profile.machine, own.axes) / 10.0);
    // Ridge points of its own slopes, as far as they are not absurdly far away.
    let roof = own.rungs.last().map_or(top, |r| r.value);
    let ridges = own.slopes.iter().map(|s| roof / s.bandwidth).filter(|r| r.is_finite() && *r < 1000.0 * most);
    let right = ridges.fold(most * 4.0, f64::max);
    Frame {
        area,
        x: LogScale::new((least / 6.0).max(right * 1e-8), right * 2.0, area.left, area.right),
        y: LogScale::new(bottom / 2.5, top * 1.8, area.bottom, area.top),
    }
}

/// At the axis' middle if no bytes are known.
fn spot(frame: &Frame, own: &Own<'_>) -> (f64, f64) {
    let x = own.level.map_or((frame.area.left + frame.area.right) / 2.0, |(_, i)| frame.x.at(i));
    (x.clamp(frame.area.left, frame.area.right - 12.0), frame.y.at(own.rate))
}

/// The machine's ceilings and bandwidths, with tooltips.
fn machine(profile: &Profile, axes: Axes, frame: &Frame) -> Group {
    let mut g = Group::new();
    for c in lines::ceilings(&profile.machine, axes) {
        let y = frame.y.at(c.value);
        let mut line = page::line((frame.area.left, y), (frame.area.right, y), "rf-grey");
        page::tooltip(&mut line, &format!("machine: {}", c.label));
        g.append(line);
    }
    for s in lines::slopes(&profile.machine) {
        if let Some((from, to)) = segment(frame, s.value, frame.y.high()) {
            let mut line = page::line(from, to, "rf-grey");
            page::tooltip(&mut line, &format!("machine: {}", s.label));
            g.append(line);
        }
    }
    g
}

/// A line of the machine this near to one of the function is hidden below it, in pixels.
const HIDDEN: f64 = 2.0;

/// The ceilings of the machine that none of the function hides.
fn seen_of_machine(profile: &Profile, own: &Own<'_>, frame: &Frame) -> Vec<lines::Ceiling> {
    let hides =
        |c: &lines::Ceiling| own.rungs.iter().any(|rung| (frame.y.at(rung.value) - frame.y.at(c.value)).abs() < HIDDEN);
    lines::ceilings(&profile.machine, own.axes).into_iter().filter(|c| !hides(c)).collect()
}

/// The names of the machine's lines, in the room that those of the function leave.
fn names_of_machine(profile: &Profile, own: &Own<'_>, frame: &Frame, taken: &mut Taken) -> Group {
    let mut g = Group::new();
    for c in seen_of_machine(profile, own, frame).iter().rev() {
        let label = format!("machine: {}", c.label.trim_start_matches("+ "));
        if let Some(text) = lines::at_right(frame, frame.y.at(c.value), &label, taken) {
            g.append(text);
        }
    }
    for s in lines::slopes(&profile.machine) {
        let ends = segment(frame, s.value, frame.y.high());
        if let Some(text) = ends.and_then(|ends| lines::along(ends, &format!("machine: {}", s.label), taken)) {
            g.append(text);
        }
    }
    g
}

/// The part of `rate = intensity × bandwidth` below `top` that the picture holds.
fn segment(frame: &Frame, bandwidth: f64, top: f64) -> Option<((f64, f64), (f64, f64))> {
    let start = (frame.y.low() / bandwidth).max(frame.x.low());
    let end = (top / bandwidth).min(frame.x.high());
    let point = |i: f64| (frame.x.at(i), frame.y.at(i * bandwidth));
    (end > start).then(|| (point(start), point(end)))
}

fn colour(id: &str) -> String {
    palette::hex(Some(match id {
        "ilp" => Class::Ilp,
        "mix" => Class::InstructionMix,
        "simd" => Class::Simd,
        "fma" => Class::FmaBalance,
        "divsqrt" => Class::DivSqrt,
        "access" | "l1" => Class::L1Bandwidth,
        "imbalance" => Class::LoadImbalance,
        "threads" => Class::Threads,
        "dram" | "memory-imbalance" => Class::DramBandwidth,
        "latency" => Class::DramLatency,
        "l2" => Class::L2Bandwidth,
        "l3" => Class::L3Bandwidth,
        _ => Class::Peak,
    }))
}

/// A ceiling by what the code lacks, as the paper names them.
fn words_of(id: &str) -> &str {
    match id {
        "ilp" => "no ILP",
        "mix" => "instruction mix",
        "simd" => "no SIMD",
        "fma" => "no FMA balance",
        "divsqrt" => "divisions and roots",
        "access" => "narrow accesses",
        "imbalance" => "no load balance",
        "threads" => "not all CPUs",
        "dram" => "DRAM",
        "memory-imbalance" => "DRAM, no memory balance",
        "latency" => "DRAM, latency of its misses",
        "l1" => "L1",
        "l2" => "L2",
        "l3" => "L3",
        other => other,
    }
}

fn slopes(frame: &Frame, own: &Own<'_>, taken: &mut Taken) -> Group {
    let mut g = Group::new();
    let roof = own.rungs.last().map_or(frame.y.high(), |rung| rung.value);
    for slope in &own.slopes {
        let Some((from, to)) = segment(frame, slope.bandwidth, roof) else { continue };
        let class = if slope.binds { "rf-own rf-binds" } else { "rf-own" };
        let mut line = page::line(from, to, class).set("stroke", colour(&slope.id));
        page::tooltip(&mut line, &of_slope(slope));
        g.append(line);
        let label = format!(
            "{} {}{}",
            words_of(&slope.id),
            si(slope.bandwidth, "B/s"),
            if slope.binds { " ◀ binds" } else { "" }
        );
        let label = lines::along((from, to), &label, taken);
        if let Some(label) = label {
            g.append(label.set("style", format!("fill: {}", colour(&slope.id))));
        }
    }
    g
}

fn of_slope(slope: &Slope) -> String {
    format!(
        "{}: {} for this function, at {} per byte{}",
        words_of(&slope.id),
        si(slope.bandwidth, "B/s"),
        significant(slope.intensity),
        if slope.binds { "; binds" } else { "" }
    )
}

fn rungs(frame: &Frame, own: &Own<'_>, unit: &str, taken: &mut Taken) -> Group {
    let mut g = Group::new();
    let fastest = own.slopes.iter().map(|s| s.bandwidth).fold(0.0, f64::max);
    for (n, rung) in own.rungs.iter().enumerate().rev() {
        let y = frame.y.at(rung.value);
        let left = if fastest > 0.0 {
            frame.x.at((rung.value / fastest).clamp(frame.x.low(), frame.x.high()))
        } else {
            frame.area.left
        };
        let id = rung.lacks.as_deref().unwrap_or("peak");
        let class = if rung.lacks.is_none() { "rf-own rf-binds" } else { "rf-own" };
        let mut line =
            page::line((left.min(frame.area.right - 40.0), y), (frame.area.right, y), class).set("stroke", colour(id));
        page::tooltip(&mut line, &of_rung(rung, unit));
        g.append(line);
        let crowd = crowd(frame, own, n);
        // The highest line of a crowd has the names of all.
        if crowd.last() != Some(&n) {
            continue;
        }
        let names: Vec<String> = crowd.iter().rev().map(|n| of_rung(&own.rungs[*n], unit)).collect();
        if let Some(text) = lines::at_right(frame, y, &names.join(" · "), taken) {
            g.append(text.set("style", format!("fill: {}", colour(id))));
        }
    }
    g
}

/// Lines nearer than this share a label, in pixels.
const CROWD: f64 = 13.0;

/// The rungs that share a label with rung `n`, upwards: a crowd begins where there is room below.
fn crowd(frame: &Frame, own: &Own<'_>, n: usize) -> Vec<usize> {
    let mut crowd: Vec<usize> = Vec::new();
    for (i, rung) in own.rungs.iter().enumerate() {
        let is_near =
            crowd.first().is_some_and(|first| frame.y.at(own.rungs[*first].value) - frame.y.at(rung.value) < CROWD);
        if !is_near {
            if crowd.contains(&n) {
                break;
            }
            crowd.clear();
        }
        crowd.push(i);
    }
    crowd
}

fn of_rung(rung: &Rung, unit: &str) -> String {
    let value = si(rung.value, &format!("{unit}/s"));
    match &rung.lacks {
        Some(id) if id == "peak" => format!("with all of these: {value}"),
        Some(id) => format!("{}: {value}", words_of(id)),
        None => format!("its roof: {value}"),
    }
}

/// The rest of its roof when only some of its threads work, down to the share that its balance leaves.
fn fan(frame: &Frame, own: &Own<'_>, unit: &str, taken: &mut Taken) -> Group {
    let mut g = Group::new();
    let f = own.function;
    let team = f64::from(f.team.unwrap_or(1));
    let Some((roof, lambda)) = own.rungs.last().map(|r| r.value).zip(f.lambda).filter(|(_, l)| team > 1.0 && *l < 0.97)
    else {
        return g;
    };
    let mut part = 2.0;
    while part <= team && 1.0 / part > lambda / 2.0 {
        let y = frame.y.at(roof / part);
        let line = page::line((frame.area.right - 130.0, y), (frame.area.right, y), "rf-own rf-fan")
            .set("stroke", colour("imbalance"));
        g.append(line);
        let label = format!("{} of {team} threads: {}", threads_of(team / part), si(roof / part, &format!("{unit}/s")));
        if let Some(text) = lines::at_right(frame, y, &label, taken) {
            g.append(text.set("style", format!("fill: {}", colour("imbalance"))));
        }
        part *= 2.0;
    }
    g
}

/// `32`, `1.5`
fn threads_of(n: f64) -> String {
    if n.fract() == 0.0 { format!("{n:.0}") } else { significant(n) }
}

/// The single-feature ceilings beside the picture.
fn alone(frame: &Frame, own: &Own<'_>, unit: &str) -> Group {
    let mut g = Group::new();
    let x = frame.area.right;
    let mut above = f64::NEG_INFINITY;
    for (id, value) in &own.alone {
        let y = frame.y.at(*value);
        if y > frame.area.bottom {
            continue;
        }
        let at = (y + 4.0).max(above + 13.0);
        above = at;
        g.append(page::line((x, y), (x + 8.0, y), "rf-own").set("stroke", colour(id)));
        g.append(page::line((x + 8.0, y), (x + 16.0, at - 4.0), "rf-leader"));
        let label = format!("{} {}", words_of(id), si(*value, &format!("{unit}/s")));
        g.append(page::text(x + 19.0, at, "rf-label", &label).set("style", format!("fill: {}", colour(id))));
    }
    g
}

/// Its dot with rings for inner levels, the bar up to its bound, open circles after each change.
fn dot(frame: &Frame, own: &Own<'_>, unit: &str, taken: &mut Taken) -> Group {
    let mut g = Group::new();
    let f = own.function;
    let at = spot(frame, own);
    let fill = palette::hex(f.analysis.class);
    let circle = |x: f64, y: f64, r: f64, class: &str| {
        Circle::new().set("cx", page::round(x)).set("cy", page::round(y)).set("r", r).set("class", class)
    };
    let oi = own.place.oi;
    for (level, i) in [("L1", oi.l1), ("L2", oi.l2), ("L3", oi.l3)] {
        let Some(i) =
            i.filter(|i| Some(*i) != own.level.map(|(_, i)| i) && *i >= frame.x.low() && *i <= frame.x.high())
        else {
            continue;
        };
        g.append(page::line((frame.x.at(i), at.1), at, "rf-thread").set("stroke", fill.clone()));
        let mut ring = circle(frame.x.at(i), at.1, 3.6, "rf-ring").set("stroke", fill.clone());
        page::tooltip(&mut ring, &format!("{level}: {} {unit}/B", significant(i)));
        g.append(ring);
    }
    if let Some(bound) = own.bound {
        let y = frame.y.at(bound).clamp(frame.area.top, frame.area.bottom);
        g.append(page::line(at, (at.0, y), "rf-gap").set("stroke", fill.clone()));
        let mut bar = page::line((at.0 - 12.0, y), (at.0 + 12.0, y), "rf-bound").set("stroke", fill.clone());
        page::tooltip(&mut bar, &format!("its bound: {}", si(bound, &format!("{unit}/s"))));
        g.append(bar);
    }
    for group in together(frame, &own.after[..own.after.len().min(MOST_AFTER)]) {
        let y = frame.y.at(group[0].rate).max(frame.area.top);
        let mut open = circle(at.0, y, 5.0, "rf-after").set("stroke", fill.clone());
        let names: Vec<String> = group.iter().map(|after| of_change(after)).collect();
        page::tooltip(&mut open, &format!("{}, {}", names.join("; "), si(group[0].rate, &format!("{unit}/s"))));
        g.append(open);
        let short: Vec<String> = names.iter().map(|label| name::shorten(label, 48)).collect();
        beside(&mut g, (at.0, y), 9.0, &short, taken);
    }
    let mut mark = circle(at.0, at.1, 8.0, "rf-dot").set("fill", fill);
    let told = format!("{}, measured", si(own.rate, &format!("{unit}/s")));
    page::tooltip(&mut mark, &told);
    g.append(mark);
    beside(&mut g, at, 12.0, &[told], taken);
    g
}

/// `no load balance: 120 ms less`
fn of_change(after: &After<'_>) -> String {
    format!("{}: {} less", words::removals(&after.saving.remove), seconds(after.saving.seconds))
}

/// Changes by their places: those that lead to one dot, or nearly so, are together.
fn together<'a, 'f>(frame: &Frame, after: &'a [After<'f>]) -> Vec<Vec<&'a After<'f>>> {
    /// Dots nearer than this are one, in pixels.
    const SAME: f64 = 6.0;
    let mut groups: Vec<Vec<&After<'f>>> = Vec::new();
    for one in after {
        let at = |after: &After<'_>| frame.y.at(after.rate).max(frame.area.top);
        match groups.iter_mut().find(|group| (at(group[0]) - at(one)).abs() < SAME) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Names beside a point, one below the other, if there is room, with a line to them if they are far away.
fn beside(g: &mut Group, at: (f64, f64), reach: f64, names: &[String], taken: &mut Taken) {
    let chars = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let width = text_width(chars, SIZE);
    let below = (names.len().max(1) - 1) as f64 * LINE;
    let rows = [4.0, -10.0, 18.0, -24.0, 32.0, -38.0, 46.0, -52.0, 60.0];
    let candidates: Vec<Area> = rows
        .iter()
        .flat_map(|dy| [reach, reach + 30.0, -reach - width, -reach - 30.0 - width].map(|dx| (dx, *dy)))
        .map(|(dx, dy)| {
            let first = Area::of_text(at.0 + dx, at.1 + dy, chars, SIZE);
            Area { bottom: first.bottom + below, ..first }
        })
        .collect();
    let Some(i) = taken.place(&candidates) else { return };
    let area = candidates[i];
    let y = area.bottom - below - 0.25 * SIZE;
    if (y - at.1 - 4.0).abs() > 8.0 {
        g.append(page::line(at, (at.0.clamp(area.left, area.right), y - 4.0), "rf-leader"));
    }
    for (n, name) in names.iter().enumerate() {
        g.append(page::text(area.left, y + n as f64 * LINE, "rf-label rf-halo", name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn of(name: &str) -> (Profile, Function) {
        let profile = sample::profile();
        let f = profile.functions.iter().find(|f| f.name == name).unwrap().clone();
        (profile, f)
    }

    /// The texts of a picture, without its tooltips.
    fn texts(picture: &str) -> Vec<&str> {
        let parts = picture.split("<text").skip(1);
        parts.filter_map(|part| part.split_once('>')?.1.split("</text>").next()).map(str::trim).collect()
    }

    #[test]
    fn ceilings_are_named_by_what_the_code_lacks_and_those_of_the_machine_have_names() {
        let (profile, f) = of("dot_reduce");
        let picture = svg(&profile, &f);
        let texts = texts(&picture);
        assert!(texts.iter().any(|text| text.contains("no ILP: ")), "{texts:?}");
        assert!(texts.iter().all(|text| !text.contains("without ")), "{texts:?}");
        let of_machine = texts.iter().filter(|text| text.starts_with("machine: ")).count();
        let own = Own::of(&profile.machine, &f).unwrap();
        let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - MARGIN, bottom: HEIGHT - 118.0 };
        let seen = seen_of_machine(&profile, &own, &frame(&profile, &own, area)).len();
        let lines = seen + lines::slopes(&profile.machine).len();
        assert!(seen >= 2 && of_machine + 1 >= lines, "{of_machine} names of {lines} lines: {texts:?}");
    }

    #[test]
    fn crowded_ceilings_share_a_label_and_changes_of_one_place_a_dot() {
        let (profile, f) = of("dot_reduce");
        let mut own = Own::of(&profile.machine, &f).unwrap();
        let rung = |value, lacks: Option<&str>| Rung { value, lacks: lacks.map(str::to_owned) };
        own.rungs = vec![rung(1e9, Some("ilp")), rung(1.05e9, Some("simd")), rung(4e9, Some("fma")), rung(16e9, None)];
        let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - MARGIN, bottom: HEIGHT - 118.0 };
        let frame = frame(&profile, &own, area);
        assert_eq!([0, 1, 2, 3].map(|n| crowd(&frame, &own, n)), [vec![0, 1], vec![0, 1], vec![2], vec![3]]);
        let drawn = rungs(&frame, &own, "FLOP", &mut Taken::new(area)).to_string();
        let label = "no SIMD: 1.05 GFLOP/s · no ILP: 1.00 GFLOP/s";
        assert!(texts(&drawn).contains(&label), "{:?}", texts(&drawn));
        assert_eq!(texts(&drawn).len(), 3, "{drawn}");
        let saving = f.analysis.savings.first().expect("a saving");
        let after = [1e9, 4e9, 1.01e9].map(|rate| After { saving, rate });
        assert_eq!(together(&frame, &after).iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn a_fan_counts_whole_threads_and_says_where_a_function_keeps_in() {
        assert_eq!([32.0, 1.0, 1.5].map(threads_of), ["32", "1", "1.50"]);
        for team in [4u32, 8, 16, 64] {
            let (profile, mut f) = of("triad");
            (f.team, f.lambda) = (Some(team), Some(1.0 / f64::from(team)));
            let own = Own::of(&profile.machine, &f).unwrap();
            let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - MARGIN, bottom: 4.0 * HEIGHT };
            let frame = frame(&profile, &own, area);
            let drawn = fan(&frame, &own, "FLOP", &mut Taken::new(area)).to_string();
            let texts = texts(&drawn);
            for part in (1..=team.ilog2()).map(|i| team >> i) {
                let label = format!("{part} of {team} threads: ");
                assert_eq!(texts.iter().filter(|text| text.starts_with(&label)).count(), 1, "{label}: {texts:?}");
            }
        }
        let (profile, mut f) = of("triad");
        let oi = &mut f.analysis.oi;
        (oi.l2, oi.l3, oi.dram) = (Some(1e7), Some(1e8), Some(1e9));
        assert!(svg(&profile, &f).contains("next to no bytes from beyond L1: drawn by its own"));
    }
}
