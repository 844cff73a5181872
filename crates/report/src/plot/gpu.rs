//! The roofline of each GPU: its roofs by precision, its memory, and the counted kernels as dots.

use svg::Node;
use svg::node::element::{Circle, Element, Group};

use super::dots;
use super::layout::{Area, Taken};
use super::lines::{self, Ceiling, Frame, Slope};
use super::page;
use super::scale::LogScale;
use crate::number::{percent, seconds, si, significant};
use crate::{View, name, palette};
use rprof_profile::Profile;
use rprof_profile::device::{Analysis, Counts, Kernel};
use rprof_profile::gpu::Gpu;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 560.0;
/// Maximum number of dots.
const MOST_DOTS: usize = 24;
/// The intensity axis ends this far beyond the highest ridge.
const BEYOND_RIDGE: f64 = 30.0;

/// A counted kernel with FLOPs and bytes of DRAM. Those with integer work have no place: the axis is of FLOPs.
struct Dot<'a> {
    kernel: &'a Kernel,
    analysis: &'a Analysis,
    intensity: f64,
    rate: f64,
    /// Share of the kernels' time.
    share: f64,
}

/// A picture for each GPU on which kernels were counted.
pub fn pictures(profile: &Profile, view: &View) -> Vec<String> {
    let Some(devices) = &profile.devices else { return Vec::new() };
    let picture = |gpu: &Gpu| {
        let kept = |k: &&Kernel| k.device == gpu.index && view.keeps_name(&k.name);
        let whole = devices.devices.iter().find(|d| d.index == gpu.index).map_or(0.0, |d| d.kernels_s);
        let dots = devices.kernels.iter().filter(kept).filter_map(|k| dot(k, whole)).take(MOST_DOTS);
        let dots: Vec<Dot<'_>> = dots.collect();
        (!dots.is_empty()).then(|| svg(gpu, &dots))
    };
    profile.machine.gpus.iter().filter_map(picture).collect()
}

/// The same without kernels, for a GPU that was measured; `None` if it has no roofs or no bandwidths.
pub fn of_machine(gpu: &Gpu) -> Option<String> {
    (!ceilings(gpu).is_empty() && !slopes(gpu).is_empty()).then(|| svg(gpu, &[]))
}

fn dot(kernel: &Kernel, whole_s: f64) -> Option<Dot<'_>> {
    let analysis = kernel.analysis.as_ref().filter(|_| !kernel.counts.as_ref().is_some_and(Counts::is_integer))?;
    let (intensity, rate) = (analysis.intensity?, analysis.flops_per_s?);
    let share = if whole_s > 0.0 { kernel.seconds / whole_s } else { 0.0 };
    (intensity > 0.0 && rate > 0.0).then_some(Dot { kernel, analysis, intensity, rate, share })
}

fn svg(gpu: &Gpu, dots: &[Dot<'_>]) -> String {
    let (ceilings, slopes) = (ceilings(gpu), slopes(gpu));
    let title = format!("Roofline of GPU {}, {}", gpu.index, name::shorten(&gpu.name, 60));
    let note = "roofs: bursts of multiply-adds and of the tensor cores, measured on this GPU";
    let mut page = page::document(WIDTH, HEIGHT, &title, note);
    let area = Area { left: page::LEFT, top: page::TOP, right: WIDTH - page::RIGHT, bottom: HEIGHT - 90.0 };
    let frame = frame(area, dots, &ceilings, &slopes);
    page.append(page::axes(
        area,
        (&frame.x, "operational intensity [FLOP/byte of DRAM]", ""),
        (&frame.y, "performance", "FLOP/s"),
    ));
    let mut taken = Taken::new(area);
    for d in dots {
        let (x, y) = spot(&frame, d);
        taken.take(Area::around(x, y, radius(d)));
    }
    page.append(lines::draw_slopes(&frame, &slopes, &ceilings, &mut taken));
    page.append(lines::draw_ceilings(&frame, &ceilings, &slopes, &mut taken));
    page.append(drawn(&frame, dots, &mut taken));
    if dots.is_empty() {
        return format!("{page}\n");
    }
    let beyond = dots.iter().any(|d| d.intensity > frame.x.high());
    let edge = if beyond { " Dots at the right edge are further right." } else { "" };
    page.append(page::text(
        page::LEFT,
        HEIGHT - 24.0,
        "rf-note",
        &format!("Dot area: share of the kernels' time; colour: class.{edge}"),
    ));
    format!("{page}\n")
}

fn ceilings(gpu: &Gpu) -> Vec<Ceiling> {
    let scalar = [("FP64", "gpu.fp64.fma"), ("FP32", "gpu.fp32.fma"), ("FP16", "gpu.fp16.fma")];
    let scalar = scalar.into_iter().filter_map(|(words, id)| Some((words.to_owned(), id.to_owned(), gpu.value(id)?)));
    let operands = ["fp64", "tf32", "bf16", "f16", "fp8"];
    let tensor = operands.into_iter().filter_map(|operand| {
        let (id, roof) = rprof_model::device::terms::tensor_roof(operand, gpu)?;
        Some((format!("tensor {operand}"), id.to_string(), roof))
    });
    let mut all: Vec<(String, String, f64)> = scalar.chain(tensor).collect();
    all.sort_by(|a, b| a.2.total_cmp(&b.2));
    let roof = all.len().saturating_sub(1);
    let line = |(i, (words, id, value)): (usize, (String, String, f64))| Ceiling {
        id,
        label: format!("{words} {}", si(value, "FLOP/s")),
        value,
        class: if i == roof { "rf-roof" } else { "rf-ceiling" },
    };
    all.into_iter().enumerate().map(line).collect()
}

fn slopes(gpu: &Gpu) -> Vec<Slope> {
    [("gpu.l2.read", "L2", "rf-slope"), ("gpu.dram.read", "DRAM", "rf-dram")]
        .into_iter()
        .filter_map(|(id, words, class)| {
            let value = gpu.value(id)?;
            Some(Slope { id: id.to_owned(), label: format!("{words} {} (read)", si(value, "B/s")), value, class })
        })
        .collect()
}

/// Axes that hold all dots and roofs.
fn frame(area: Area, dots: &[Dot<'_>], ceilings: &[Ceiling], slopes: &[Slope]) -> Frame {
    let rates = || ceilings.iter().map(|c| c.value).chain(dots.iter().map(|d| d.rate));
    let top = rates().fold(1e9, f64::max);
    let bottom = rates().fold(f64::INFINITY, f64::min).min(top / 100.0).max(top * 1e-7);
    let slowest = slopes.iter().map(|s| s.value).fold(f64::INFINITY, f64::min);
    let ridge = if slowest.is_finite() { top / slowest } else { 100.0 };
    let intensities = || dots.iter().map(|d| d.intensity);
    let left = intensities().fold(ridge / 1000.0, f64::min).max(ridge * 1e-7);
    let right = intensities().fold(ridge * 4.0, f64::max).min(ridge * BEYOND_RIDGE);
    Frame {
        area,
        x: LogScale::new(left / 1.6, right * 1.6, area.left, area.right),
        y: LogScale::new(bottom / 2.0, top * 2.0, area.bottom, area.top),
    }
}

fn radius(d: &Dot<'_>) -> f64 {
    4.0 + 14.0 * d.share.clamp(0.0, 1.0).sqrt()
}

/// At the edge if it is beyond the axes.
fn spot(frame: &Frame, d: &Dot<'_>) -> (f64, f64) {
    let edge = frame.area.right - radius(d) - 2.0;
    (frame.x.at(d.intensity).min(edge), frame.y.at(d.rate).min(frame.area.bottom - 2.0))
}

fn drawn(frame: &Frame, dots: &[Dot<'_>], taken: &mut Taken) -> Group {
    let mut g = Group::new();
    for d in dots {
        let (x, y) = spot(frame, d);
        let mut circle: Element = Circle::new()
            .set("cx", page::round(x))
            .set("cy", page::round(y))
            .set("r", page::round(radius(d)))
            .set("class", "rf-dot")
            .set("fill", palette::hex(Some(d.analysis.class)))
            .into();
        let fraction = d.analysis.roof_fraction.map_or("not measured".into(), percent);
        let told = format!(
            "{}\n{} in {} launches, {}, {} FLOP/B\n{} at {fraction} of its ceiling",
            name::shorten(&d.kernel.name, 300),
            seconds(d.kernel.seconds),
            d.kernel.launches,
            si(d.rate, "FLOP/s"),
            significant(d.intensity),
            d.analysis.class
        );
        page::tooltip(&mut circle, &told);
        g.append(circle);
    }
    for d in dots {
        dots::labelled(&mut g, &d.kernel.name, radius(d), spot(frame, d), taken);
    }
    g
}
