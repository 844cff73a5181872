//! Latencies of arithmetic, keyed by producer and consumer, and how many restarted chains the core overlaps.

use crate::isa::operation::{FpOp, Precision, Width};
use crate::machine::bench::timing::{Plan, Rate, Work};
use crate::machine::error::MachineError;
use crate::machine::kernels::Kernel;
use crate::machine::kernels::x86_64::{chase, fp, integer, opcodes::Opcode, opcodes::floating};
use crate::machine::lab::{Effort, Lab, Label};
use crate::profile::machine::{Ceiling, Sweep};

use super::pipes::PRECISIONS;

const CHAINED: [FpOp; 5] = [FpOp::Add, FpOp::Mul, FpOp::Fma, FpOp::Div, FpOp::Sqrt];

/// `lat.{dp,sp}.{consumer}.after.{producer}.{width}`, `lat.int.*`, `lat.forward.*`, in seconds, one thread.
///
/// A chain that alternates between a and b shows the sum of both directions. It is divided so that each keeps its
/// own latency and both bear half of what the change of unit costs:
/// `lat(a after b) = lat(b after b) + (sum − lat(a after a) − lat(b after b)) / 2`.
pub fn measure(lab: &mut Lab) -> Result<(), MachineError> {
    for precision in PRECISIONS {
        let family = format!("lat.{}.", precision.name());
        for width in lab.features.widths() {
            // A pair needs both operations' own latency: all of them or none.
            if !lab.wants_family(&[&family], 1) {
                continue;
            }
            arithmetic(lab, precision, width)?;
        }
    }
    integers(lab)
}

/// How far the cycles of a chain differ from one run to the next, at least.
const RESOLUTION: f64 = 0.006;

/// Seconds of one step of a chain through `opcodes`.
fn step(lab: &Lab, opcodes: &[Opcode], precision: Precision, width: Width) -> Result<Rate, MachineError> {
    let kernel = fp::chains("latency", opcodes, 1, precision, width, lab.features)?;
    let steps = kernel.work.payload as f64;
    let plan = match lab.effort {
        Effort::Quick => lab.core_plan(),
        Effort::Full => Plan { repetitions: 24, rounds: 1, ..lab.core_plan() },
    };
    lab.watch().rate(&Work::on_registers(kernel, 1), steps, plan)
}

fn arithmetic(lab: &mut Lab, precision: Precision, width: Width) -> Result<(), MachineError> {
    let name =
        |to: FpOp, from: FpOp| format!("lat.{}.{}.after.{}.{}", precision.name(), to.name(), from.name(), width.name());
    let mut own: Vec<(FpOp, Opcode, Rate)> = Vec::new();
    for op in CHAINED {
        let Some(opcode) = floating(op, precision, width, lab.features) else { continue };
        let label = Label::new(name(op, op), "s", 1);
        if lab.out_of_time() {
            lab.missing(label, lab.too_late());
            continue;
        }
        let rate = step(lab, &[opcode], precision, width)?;
        lab.record_time(label, rate.clone());
        own.push((op, opcode, rate));
    }
    for (n, (a, first, rate_a)) in own.iter().enumerate() {
        for (b, second, rate_b) in &own[n + 1..] {
            if lab.out_of_time() {
                lab.missing(Label::new(name(*a, *b), "s", 1), lab.too_late());
                lab.missing(Label::new(name(*b, *a), "s", 1), lab.too_late());
                continue;
            }
            let both = step(lab, &[*first, *second], precision, width)?;
            // In cycles, since the clock moves between the three measurements; the mean, since a chain through the divider now
            // and then runs in step for a while, which no loop can count on.
            let cycles = |rate: &Rate| rate.clock_hz / rate.typical;
            let change = (2.0 * cycles(&both) - cycles(rate_a) - cycles(rate_b)) / 2.0;
            // What the three may be off by, in cycles: how far the mean is from the best, and the clock from what it was.
            let relative = |rate: &Rate| (rate.best / rate.typical - 1.0).max(rate.spread).max(RESOLUTION);
            let doubt = |rate: &Rate| (relative(rate) + rate.clock_doubt) * cycles(rate);
            let off = doubt(&both) + (doubt(rate_a) + doubt(rate_b)) / 2.0;
            for (to, from, producer) in [(*a, *b, rate_b), (*b, *a, rate_a)] {
                let latency = (cycles(producer) + change).max(0.0);
                let label = Label::new(name(to, from), "s", 1);
                let how = "from three chains: both alone, and in turn";
                lab.record_time_from(label, latency / both.clock_hz, both.clone(), off / latency.max(1.0), how);
            }
        }
    }
    Ok(())
}

fn integers(lab: &mut Lab) -> Result<(), MachineError> {
    use integer::Scalar;
    let features = lab.features;
    let kernels: [(&str, Result<Kernel, MachineError>); 6] = [
        ("lat.int.add", integer::chain(Scalar::Add, features)),
        ("lat.int.mul", integer::chain(Scalar::Mul, features)),
        ("lat.int.div", integer::chain(Scalar::Divide, features)),
        ("lat.forward.gpr", chase::forward(features)),
        ("lat.forward", chase::through_memory(None, features)),
        ("lat.vector", fp::shuffle_chain(features)),
    ];
    for (id, kernel) in kernels {
        let (kernel, label) = (kernel?, Label::new(id, "s", 1));
        if lab.leaves_out(&label) {
            continue;
        }
        let steps = kernel.work.payload as f64;
        let rate = lab.watch().rate(&Work::on_registers(kernel, 1), steps, lab.core_plan())?;
        lab.record_time(label, rate);
    }
    through_memory(lab)
}

/// `lat.dp.{op}.after.load.scalar`: what an operation adds to a cycle through memory beside the forwarding itself.
fn through_memory(lab: &mut Lab) -> Result<(), MachineError> {
    let Some(alone) = lab.found("lat.forward", 1).cloned() else { return Ok(()) };
    let Some((forward, off)) = alone.value.zip(alone.clock_hz).map(|(s, hz)| (s * hz, alone.spread.unwrap_or(1.0)))
    else {
        return Ok(());
    };
    for op in [FpOp::Add, FpOp::Mul, FpOp::Fma] {
        let Some(opcode) = floating(op, Precision::Dp, Width::Scalar, lab.features) else { continue };
        let label = Label::new(format!("lat.dp.{}.after.load.scalar", op.name()), "s", 1);
        if lab.leaves_out(&label) {
            continue;
        }
        let kernel = chase::through_memory(Some(opcode), lab.features)?;
        let steps = kernel.work.payload as f64;
        let rate = lab.watch().rate(&Work::on_registers(kernel, 1), steps, lab.core_plan())?;
        let both = rate.clock_hz / rate.best;
        let latency = (both - forward).max(0.0);
        // Some cores forward in two ways, and either chain may meet the other one.
        let doubt = rate.spread.max(RESOLUTION) + rate.clock_doubt;
        let spread = (off * forward + doubt * both) / latency.max(1.0);
        let how = "from two chains: with the operation, and without";
        lab.record_time_from(label, latency / rate.clock_hz, rate, spread, how);
    }
    Ok(())
}

/// Chains side by side in the sweep: as many as there are registers for, at most.
const SIDE_BY_SIDE: [usize; 9] = [1, 2, 3, 4, 5, 6, 8, 10, 12];

/// Share of the best rate, per cycle, at which chains saturate the pipes: of four chains of additions Zen 5 makes 0.92 to 1, of
/// three 0.71.
const SATURATED: f64 = 0.85;

/// Sweeps `chains.{dp,sp}.{op}.{width}`: flop/s over the number of independent chains, scalar and at the widest width; and as
/// ceilings of these names the fewest that reach 85 % of the best, which is the parallelism that the operation needs.
pub fn saturation(lab: &mut Lab) -> Result<(), MachineError> {
    if !lab.measures_all() {
        return Ok(());
    }
    let widths = [Width::Scalar, lab.features.widest()];
    for (precision, width) in PRECISIONS.iter().flat_map(|p| widths.map(|w| (*p, w))) {
        for op in [FpOp::Add, FpOp::Mul, FpOp::Fma] {
            let Some(opcode) = floating(op, precision, width, lab.features) else { continue };
            let id = format!("chains.{}.{}.{}", precision.name(), op.name(), width.name());
            let label = Label::new(id.clone(), "op", 1);
            if lab.effort == Effort::Quick {
                lab.missing(label, lab.left_out());
                continue;
            }
            let (mut points, mut per_cycle) = (Vec::new(), Vec::new());
            for chains in SIDE_BY_SIDE {
                if lab.leaves_out(&label) {
                    break;
                }
                let kernel = fp::chains("side by side", &[opcode], chains, precision, width, lab.features)?;
                let flops = kernel.work.flops as f64;
                let rate = lab.watch().rate(&Work::on_registers(kernel, 1), flops, lab.core_plan())?;
                points.push((chains as f64, rate.best));
                per_cycle.push((chains as f64, rate.best / rate.clock_hz));
            }
            let best = per_cycle.iter().map(|p| p.1).fold(0.0, f64::max);
            let needed = per_cycle.iter().position(|p| p.1 >= SATURATED * best);
            let source = lab.found(&format!("{}.{}.{}", precision.name(), op.name(), width.name()), 1).cloned();
            if let (Some(at), Some(source)) = (needed, source) {
                let needed = SIDE_BY_SIDE[at] as f64;
                // To a step of the sweep, either way.
                let near = [at.saturating_sub(1), (at + 1).min(SIDE_BY_SIDE.len() - 1)].map(|n| SIDE_BY_SIDE[n] as f64);
                let spread = near.iter().map(|n| (n / needed - 1.0).abs()).fold(0.0, f64::max);
                let source = Ceiling { spread: Some(spread), ..source };
                lab.derive(label, needed, &source, "fewest independent chains that reach 85 % of the best rate");
            }
            lab.sweep(Sweep { id, x_unit: "chains".into(), y_unit: "flop/s".into(), threads: 1, points });
        }
    }
    Ok(())
}

/// Sweeps `overlap.{add,fma}.scalar`: over the length n of a chain that is then restarted, how many such chains are
/// under way at once: `k(n) = n · latency / time of one chain`.
pub fn restarted(lab: &mut Lab) -> Result<(), MachineError> {
    if !lab.wants_family(&["overlap."], 1) {
        return Ok(());
    }
    for op in [FpOp::Add, FpOp::Fma] {
        let Some(opcode) = floating(op, Precision::Dp, Width::Scalar, lab.features) else { continue };
        let latency = step(lab, &[opcode], Precision::Dp, Width::Scalar)?;
        let mut points = Vec::new();
        for length in [4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024] {
            if lab.out_of_time() {
                break;
            }
            let kernel = fp::restarted("restarted", opcode, length, lab.features)?;
            let steps = kernel.work.payload as f64;
            let rate = lab.watch().rate(&Work::on_registers(kernel, 1), steps, lab.core_plan())?;
            let per_cycle = |r: &Rate| r.best / r.clock_hz;
            points.push((length as f64, per_cycle(&rate) / per_cycle(&latency)));
        }
        if op == FpOp::Add {
            window(lab, &points);
        }
        let (x_unit, y_unit) = ("operations in a chain".into(), "chains at once".into());
        lab.sweep(Sweep { id: format!("overlap.{}.scalar", op.name()), x_unit, y_unit, threads: 1, points });
    }
    Ok(())
}

/// `overlap.window`: the operations W that the core looks ahead, from long chains, where `k(n) = n / (n − W)`.
fn window(lab: &mut Lab, points: &[(f64, f64)]) {
    let mut windows: Vec<f64> =
        points.iter().filter(|(n, k)| *n >= 128.0 && *k > 1.0).map(|(n, k)| n * (1.0 - 1.0 / k)).collect();
    windows.sort_unstable_by(f64::total_cmp);
    let label = Label::new("overlap.window", "op", 1);
    match (windows.get(windows.len() / 2), lab.found("dp.tlp", 1).cloned()) {
        (Some(window), Some(source)) => {
            let spread = (windows[windows.len() - 1] - windows[0]) / window;
            let source = Ceiling { spread: Some(spread), ..source };
            lab.derive(label, *window, &source, "from the sweep overlap.add.scalar");
        }
        _ => lab.missing(label, lab.too_late()),
    }
}
