//! Latencies of arithmetic, keyed by producer and consumer, and how many restarted chains the core overlaps.

use crate::error::MachineError;
use crate::estimate::rounds::at_one_clock;
use crate::harness::timing::{Rate, Work};
use crate::kernels::Kernel;
use crate::kernels::x86_64::{chase, fp, integer, opcodes::Opcode, opcodes::floating};
use crate::suite::campaign::{Campaign, Chain, Label};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::machine::{Ceiling, Sweep};

use super::pipes::PRECISIONS;

const CHAINED: [FpOp; 5] = [FpOp::Add, FpOp::Mul, FpOp::Fma, FpOp::Div, FpOp::Sqrt];

/// `lat.{dp,sp}.{consumer}.after.{producer}.{width}`, `lat.int.*`, `lat.forward.*`, in seconds, one thread.
///
/// A chain that alternates between a and b shows the sum of both directions. It is divided so that each keeps its own latency and both bear
/// half of the cost of the change of unit: `lat(a after b) = lat(b after b) + (sum − lat(a after a) − lat(b after b)) / 2`.
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    for precision in PRECISIONS {
        for width in campaign.features.widths() {
            // A pair needs both operations' own latency: all of them or none.
            let of_all = |to| CHAINED.map(|from| Label::new(name(to, from, precision, width), "s", 1));
            if CHAINED.into_iter().flat_map(of_all).any(|label| campaign.wants(&label)) {
                arithmetic(campaign, precision, width)?;
            }
        }
    }
    integers(campaign)
}

/// The id of the latency of `to`, which waits for `from`.
fn name(to: FpOp, from: FpOp, precision: Precision, width: Width) -> String {
    format!("lat.{}.{}.after.{}.{}", precision.name(), to.name(), from.name(), width.name())
}

/// Seconds of one step of a chain through `opcodes`.
fn step(campaign: &Campaign, opcodes: &[Opcode], precision: Precision, width: Width) -> Result<Rate, MachineError> {
    let kernel = fp::chains("latency", opcodes, 1, precision, width, campaign.features)?;
    let steps = kernel.work.payload as f64;
    campaign.watch().rate(&Work::on_registers(kernel, 1), steps, campaign.core_plan())
}

/// The name of a chain of `operations` in turn.
fn chain_of(operations: &[FpOp], precision: Precision, width: Width) -> String {
    let names: Vec<&str> = operations.iter().map(|op| op.name()).collect();
    format!("chain of {}, {} {}", names.join(" and "), precision.name(), width.name())
}

fn arithmetic(campaign: &mut Campaign, precision: Precision, width: Width) -> Result<(), MachineError> {
    let label = |to, from| Label::new(name(to, from, precision, width), "s", 1);
    let mut own: Vec<(FpOp, Opcode, Chain)> = Vec::new();
    for op in CHAINED {
        let Some(opcode) = floating(op, precision, width, campaign.features) else { continue };
        if campaign.out_of_time() {
            campaign.too_late(label(op, op));
            continue;
        }
        let rate = step(campaign, &[opcode], precision, width)?;
        own.push((op, opcode, campaign.chain(chain_of(&[op], precision, width), &rate)));
        campaign.record_time(label(op, op), &rate);
    }
    for (n, (a, first, alone_a)) in own.iter().enumerate() {
        for (b, second, alone_b) in &own[n + 1..] {
            if campaign.out_of_time() {
                campaign.too_late(label(*a, *b));
                campaign.too_late(label(*b, *a));
                continue;
            }
            let rate = step(campaign, &[*first, *second], precision, width)?;
            let turn = campaign.chain(chain_of(&[*a, *b], precision, width), &rate);
            // In cycles, since the clock moves between the three measurements.
            let change = (2.0 * turn.cycles - alone_a.cycles - alone_b.cycles) / 2.0;
            let off = turn.off + (alone_a.off + alone_b.off) / 2.0;
            for (to, from, producer) in [(*a, *b, alone_b), (*b, *a, alone_a)] {
                let latency = (producer.cycles + change).max(0.0);
                let how = "from three chains: both alone, and in turn";
                campaign.record_latency(label(to, from), (latency, off), &[alone_a, alone_b, &turn], how);
            }
        }
    }
    Ok(())
}

fn integers(campaign: &mut Campaign) -> Result<(), MachineError> {
    use integer::Scalar;
    let features = campaign.features;
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
        if campaign.leaves_out(&label) {
            continue;
        }
        let steps = kernel.work.payload as f64;
        let rate = campaign.watch().rate(&Work::on_registers(kernel, 1), steps, campaign.core_plan())?;
        campaign.record_time(label, &rate);
    }
    through_memory(campaign)
}

/// `lat.dp.{op}.after.load.scalar`: the latency that an operation adds to a cycle through memory beside the forwarding itself.
fn through_memory(campaign: &mut Campaign) -> Result<(), MachineError> {
    let label = |op: FpOp| Label::new(format!("lat.dp.{}.after.load.scalar", op.name()), "s", 1);
    let operations = [FpOp::Add, FpOp::Mul, FpOp::Fma];
    if !operations.iter().any(|op| campaign.wants(&label(*op))) {
        return Ok(());
    }
    let alone = if campaign.out_of_time() { None } else { Some(cycle_through_memory(campaign, None)?) };
    for op in operations {
        let Some(opcode) = floating(op, Precision::Dp, Width::Scalar, campaign.features) else { continue };
        let late = campaign.leaves_out(&label(op));
        let Some(alone) = alone.as_ref().filter(|_| !late) else { continue };
        let with = cycle_through_memory(campaign, Some((op, opcode)))?;
        let latency = (with.cycles - alone.cycles).max(0.0);
        // Some cores forward in two ways, and each chain may meet a different one.
        let off = alone.off + with.off;
        let how = "from two chains: with the operation, and without";
        campaign.record_latency(label(op), (latency, off), &[alone, &with], how);
    }
    Ok(())
}

/// A chain through memory, with an operation in it or without.
fn cycle_through_memory(campaign: &mut Campaign, operation: Option<(FpOp, Opcode)>) -> Result<Chain, MachineError> {
    let kernel = chase::through_memory(operation.map(|(_, opcode)| opcode), campaign.features)?;
    let steps = kernel.work.payload as f64;
    let rate = campaign.watch().rate(&Work::on_registers(kernel, 1), steps, campaign.core_plan())?;
    let id = format!("chain through memory, {}", operation.map_or("plain", |(op, _)| op.name()));
    Ok(campaign.chain(id, &rate))
}

/// Numbers of chains side by side in the sweep, at most as many as there are registers for.
const SIDE_BY_SIDE: [usize; 9] = [1, 2, 3, 4, 5, 6, 8, 10, 12];

/// Share of the best rate, per cycle, at which chains saturate the pipes: Zen 5 reaches 0.92 to 1 with four chains of additions, 0.71 with
/// three.
const SATURATED: f64 = 0.85;

/// Sweeps `chains.{dp,sp}.{op}.{width}`: flop/s over the number of independent chains, scalar and at the widest width. The ceilings of
/// these names are the fewest chains that reach 85 % of the best, which is the parallelism that the operation needs.
pub fn saturation(campaign: &mut Campaign) -> Result<(), MachineError> {
    let widths = [Width::Scalar, campaign.features.widest()];
    for (precision, width) in PRECISIONS.iter().flat_map(|p| widths.map(|w| (*p, w))) {
        for op in [FpOp::Add, FpOp::Mul, FpOp::Fma] {
            let Some(opcode) = floating(op, precision, width, campaign.features) else { continue };
            let id = format!("chains.{}.{}.{}", precision.name(), op.name(), width.name());
            let label = Label::new(id.clone(), "op", 1);
            if campaign.is_left_out(&label) {
                continue;
            }
            if campaign.leaves_out(&label) {
                continue;
            }
            let mut rates = Vec::new();
            for chains in SIDE_BY_SIDE {
                if campaign.out_of_time() {
                    break;
                }
                let kernel = fp::chains("side by side", &[opcode], chains, precision, width, campaign.features)?;
                let flops = kernel.work.flops as f64;
                let rate = campaign.watch().rate(&Work::on_registers(kernel, 1), flops, campaign.core_plan())?;
                rates.push((chains as f64, rate));
            }
            if rates.len() < SIDE_BY_SIDE.len() {
                campaign.too_late(label);
                continue;
            }
            let points = at_one_clock(rates);
            let best = points.iter().map(|p| p.1).fold(0.0, f64::max);
            let needed = points.iter().position(|p| p.1 >= SATURATED * best);
            let source = campaign.found(&format!("{}.{}.{}", precision.name(), op.name(), width.name()), 1).cloned();
            if let (Some(at), Some(source)) = (needed, source) {
                let needed = SIDE_BY_SIDE[at] as f64;
                // To a step of the sweep, either way.
                let near = [at.saturating_sub(1), (at + 1).min(SIDE_BY_SIDE.len() - 1)].map(|n| SIDE_BY_SIDE[n] as f64);
                let spread = near.iter().map(|n| (n / needed - 1.0).abs()).fold(0.0, f64::max);
                let source = Ceiling { spread: Some(spread), ..source };
                campaign.derive(label, needed, &source, "fewest independent chains that reach 85 % of the best rate");
            }
            campaign.sweep(Sweep { id, x_unit: "chains".into(), y_unit: "flop/s".into(), threads: 1, points });
        }
    }
    Ok(())
}

/// Lengths of chains that are restarted.
const LENGTHS: [usize; 14] = [4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024];

/// Sweeps `overlap.{add,fma}.scalar`: the number of restarted chains under way at once, over their length n: `k(n) = n · latency / time of
/// one chain`.
pub fn restarted(campaign: &mut Campaign) -> Result<(), MachineError> {
    if !campaign.wants_family(&["overlap."], 1) || campaign.leaves_out(&Label::new("overlap.window", "op", 1)) {
        return Ok(());
    }
    for op in [FpOp::Add, FpOp::Fma] {
        let Some(opcode) = floating(op, Precision::Dp, Width::Scalar, campaign.features) else { continue };
        let rate = step(campaign, &[opcode], Precision::Dp, Width::Scalar)?;
        let latency = campaign.chain(chain_of(&[op], Precision::Dp, Width::Scalar), &rate);
        let mut points = Vec::new();
        for length in LENGTHS {
            if campaign.out_of_time() {
                break;
            }
            let kernel = fp::restarted("restarted", opcode, length, campaign.features)?;
            let steps = kernel.work.payload as f64;
            let rate = campaign.watch().rate(&Work::on_registers(kernel, 1), steps, campaign.core_plan())?;
            let step = campaign.chain(format!("{length} of {}, restarted", op.name()), &rate);
            points.push((length as f64, latency.cycles / step.cycles));
        }
        if points.len() < LENGTHS.len() {
            break;
        }
        if op == FpOp::Add {
            window(campaign, &points);
        }
        let (x_unit, y_unit) = ("operations in a chain".into(), "chains at once".into());
        campaign.sweep(Sweep { id: format!("overlap.{}.scalar", op.name()), x_unit, y_unit, threads: 1, points });
    }
    Ok(())
}

/// `overlap.window`: the operations W that the core looks ahead, from long chains, with `k(n) = n / (n − W)`.
fn window(campaign: &mut Campaign, points: &[(f64, f64)]) {
    let mut windows: Vec<f64> =
        points.iter().filter(|(n, k)| *n >= 128.0 && *k > 1.0).map(|(n, k)| n * (1.0 - 1.0 / k)).collect();
    windows.sort_unstable_by(f64::total_cmp);
    let label = Label::new("overlap.window", "op", 1);
    let (Some(window), Some(source)) = (windows.get(windows.len() / 2), campaign.found("dp.tlp", 1).cloned()) else {
        return campaign.too_late(label);
    };
    let spread = (windows[windows.len() - 1] - windows[0]) / window;
    let source = Ceiling { spread: Some(spread), ..source };
    campaign.derive(label, *window, &source, "from the sweep overlap.add.scalar");
}
