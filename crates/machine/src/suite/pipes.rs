//! Throughput of each operation and width, and of pairs of operations side by side: the pipe groups of T_pipe.

use crate::error::MachineError;
use crate::kernels::x86_64::{fp, opcodes::floating};
use crate::suite::campaign::{Campaign, Effort, Label};
use rprof_isa::operation::{FpOp, Precision, Width};

/// The operations of the ids, most important first.
pub const OPS: [FpOp; 5] = [FpOp::Fma, FpOp::Add, FpOp::Mul, FpOp::Div, FpOp::Sqrt];

/// The precisions of the ladder.
pub const PRECISIONS: [Precision; 2] = [Precision::Dp, Precision::Sp];

const WIDTHS: [Width; 4] = [Width::Scalar, Width::W128, Width::W256, Width::W512];

/// `{dp,sp}.{fma,add,mul,div,sqrt}.{scalar,128,256,512}` in flop/s; `.masked` beside 512 with half of the lanes on.
pub fn throughput(campaign: &mut Campaign) -> Result<(), MachineError> {
    for threads in campaign.counts.clone() {
        for precision in PRECISIONS {
            for (op, width) in OPS.iter().flat_map(|op| WIDTHS.map(|w| (*op, w))) {
                let id = format!("{}.{}.{}", precision.name(), op.name(), width.name());
                let label = Label::new(id, "flop/s", threads);
                let Some(opcode) = floating(op, precision, width, campaign.features) else {
                    campaign.missing(label, "this CPU has no such instruction");
                    continue;
                };
                let kernel = |f| fp::throughput("throughput", &[opcode], precision, width, f);
                campaign.registers(label, kernel, |k| k.work.flops as f64)?;
            }
            if campaign.features.avx512f && (threads == 1 || campaign.effort == Effort::Full) {
                masked(campaign, precision, threads)?;
            }
        }
    }
    Ok(())
}

fn masked(campaign: &mut Campaign, precision: Precision, threads: usize) -> Result<(), MachineError> {
    for op in [FpOp::Fma, FpOp::Add, FpOp::Mul] {
        let Some(opcode) = floating(op, precision, Width::W512, campaign.features) else { continue };
        let label = Label::new(format!("{}.{}.512.masked", precision.name(), op.name()), "flop/s", threads);
        let kernel = |f| fp::masked("masked", opcode, precision, Width::W512, f);
        campaign.registers(label, kernel, |k| k.work.flops as f64)?;
    }
    Ok(())
}

/// `{dp,sp}.coissue.{a}+{b}.{width}`: instructions a second of a 1:1 mix of independent a and b.
pub fn co_issue(campaign: &mut Campaign) -> Result<(), MachineError> {
    for threads in campaign.ends() {
        for precision in PRECISIONS {
            for width in campaign.features.widths() {
                for (first, a) in OPS.iter().enumerate() {
                    for b in &OPS[first + 1..] {
                        pair(campaign, *a, *b, precision, width, threads)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn pair(
    campaign: &mut Campaign,
    a: FpOp,
    b: FpOp,
    precision: Precision,
    width: Width,
    threads: usize,
) -> Result<(), MachineError> {
    let of = |op| floating(op, precision, width, campaign.features);
    let (Some(first), Some(second)) = (of(a), of(b)) else { return Ok(()) };
    let id = format!("{}.coissue.{}+{}.{}", precision.name(), a.name(), b.name(), width.name());
    let label = Label::new(id, "instr/s", threads);
    // Several threads: the peak needs only the pairs without a divider; the others follow from one thread.
    let divider = |op| matches!(op, FpOp::Div | FpOp::Sqrt);
    if threads > 1 && campaign.effort == Effort::Quick && (divider(a) || divider(b)) {
        return Ok(());
    }
    // In pairs: of the orders tried, this one most often fills all pipes if there are two for each.
    let order = [first, first, second, second];
    campaign.registers(label, |f| fp::throughput("pair", &order, precision, width, f), |k| k.work.payload as f64)
}
