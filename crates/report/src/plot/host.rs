//! The roofline of a machine alone, with all the ceilings that were measured: the in-core ladder of A.1.3, fractions of
//! floating-point instructions (A.1.4), the bandwidth of each level, and DRAM without streams.

use svg::Node;

use super::axes::Axes;
use super::layout::{Area, Taken};
use super::lines::{self, Ceiling, Frame, Slope};
use super::page;
use super::scale::LogScale;
use crate::number::si;
use rprof_profile::Machine;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 700.0;

/// The picture, in double precision with most threads.
pub fn svg(machine: &Machine) -> String {
    let ceilings = ceilings(machine);
    let slopes = slopes(machine);
    let note = "double precision, all threads; below the roof, each ceiling lacks one kind of optimization";
    let mut page = page::document(WIDTH, HEIGHT, &format!("Ceilings of {}", machine.cpu), note);
    let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - page::RIGHT, bottom: HEIGHT - 60.0 };
    let frame = frame(area, &ceilings, &slopes);
    page.append(page::axes(
        area,
        (&frame.x, "operational intensity [FLOP/byte]", ""),
        (&frame.y, "performance", "FLOP/s"),
    ));
    if ceilings.is_empty() {
        page.append(page::text(area.left + 20.0, area.top + 30.0, "rf-note", "Not measured."));
    }
    let mut taken = Taken::new(area);
    page.append(lines::draw_ceilings(&frame, &ceilings, &slopes, &mut taken));
    page.append(lines::draw_slopes(&frame, &slopes, &ceilings, &mut taken));
    format!("{page}\n")
}

/// Axes from the crossing of the lowest ceiling and the fastest slope to that of the highest ceiling and the slowest one.
pub fn frame(area: Area, ceilings: &[Ceiling], slopes: &[Slope]) -> Frame {
    let top = ceilings.iter().map(|c| c.value).fold(1e9, f64::max);
    let bottom = ceilings.iter().map(|c| c.value).fold(top, f64::min).min(top / 100.0);
    let slowest = slopes.iter().map(|s| s.value).fold(f64::INFINITY, f64::min);
    let fastest = slopes.iter().map(|s| s.value).fold(0.0, f64::max);
    let (left, right) = if fastest > 0.0 { (bottom / fastest, top / slowest) } else { (0.01, 100.0) };
    Frame {
        area,
        x: LogScale::new(left / 2.0, right * 1.6, area.left, area.right),
        y: LogScale::new(bottom / 2.0, top * 2.0, area.bottom, area.top),
    }
}

/// Lines closer than this are one.
const SAME: f64 = 0.03;

/// The ladder, and between its rungs the fractions of floating-point instructions that lower it.
fn ceilings(machine: &Machine) -> Vec<Ceiling> {
    let ladder = lines::ceilings(machine, Axes::Dp);
    let is_rung = |value: f64| ladder.iter().any(|c| (value / c.value - 1.0).abs() < SAME);
    let mut all = ladder.clone();
    for k in [2, 4, 8, 16] {
        let id = format!("dp.fraction.{k}");
        let Some(value) = lines::most_threads(machine, &id) else { continue };
        if is_rung(value) {
            continue;
        }
        let label = format!("1 FP instruction in {k}, {}", si(value, "FLOP/s"));
        all.push(Ceiling { id, label, value, class: "rf-beyond" });
    }
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    all
}

/// The bandwidth of each level, and of DRAM by accesses that form no stream.
fn slopes(machine: &Machine) -> Vec<Slope> {
    let others = [
        ("dram.read", "DRAM read"),
        ("dram.random", "DRAM, independent random lines"),
        ("dram.chase.4", "DRAM, 4 chains of pointers a thread"),
        ("dram.chase.1", "DRAM, 1 chain of pointers a thread"),
    ];
    let others = others.into_iter().filter_map(|(id, name)| {
        let value = lines::most_threads(machine, id)?;
        Some(Slope { id: id.into(), label: format!("{name} {}", si(value, "B/s")), value, class: "rf-slope" })
    });
    lines::slopes(machine).into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::example;

    #[test]
    fn labels_of_ceilings_are_on_no_slope_and_the_picture_ends_with_the_data() {
        for threads in [1, 4, 8, 16, 64] {
            let machine = example::machine(threads);
            let (ceilings, slopes) = (ceilings(&machine), slopes(&machine));
            let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - page::RIGHT, bottom: HEIGHT - 60.0 };
            let frame = frame(area, &ceilings, &slopes);
            let mut taken = Taken::new(area);
            lines::draw_ceilings(&frame, &ceilings, &slopes, &mut taken);
            let labels = taken.hard();
            assert_eq!(labels.len(), ceilings.len(), "{threads} threads: a label each");
            let top = ceilings.iter().map(|c| c.value).fold(0.0, f64::max);
            for slope in &slopes {
                for step in 0..=2000 {
                    let rate = frame.y.low() * (top / frame.y.low()).powf(f64::from(step) / 2000.0);
                    let at = Area::around(frame.x.at(rate / slope.value), frame.y.at(rate), 0.1);
                    let crossed = labels.iter().find(|label| label.overlap(&at) > 0.0);
                    assert_eq!(crossed, None, "{threads} threads: {} crosses a label", slope.label);
                }
            }
            let slowest = slopes.iter().map(|s| s.value).fold(f64::INFINITY, f64::min);
            let last = top / slowest;
            assert!((last..2.0 * last).contains(&frame.x.high()), "{threads}: {} of {last}", frame.x.high());
        }
    }
}
