//! The ladder of A.1.3, `tlp ≤ ilp ≤ simd ≤ fma ≤ peak`, and the balance ceilings without FMA.

use super::pipes::PRECISIONS;
use crate::error::MachineError;
use crate::kernels::x86_64::{fp, opcodes::Opcode, opcodes::floating};
use crate::suite::campaign::{Campaign, Label};
use rprof_isa::operation::{FpOp, Precision, Width};

/// Records `{dp,sp}.{tlp,ilp,simd,fma,peak}` and `{dp,sp}.balance.{addmul,add}` at every thread count.
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    for threads in campaign.counts.clone() {
        for precision in PRECISIONS {
            one_chain(campaign, precision, threads)?;
            let p = precision.name();
            let widths = campaign.features.widths();
            let ids = |op: FpOp| widths.iter().map(|w| format!("{p}.{}.{}", op.name(), w.name())).collect::<Vec<_>>();
            if let Some(ilp) = campaign.found(&format!("{p}.add.scalar"), threads).cloned() {
                campaign.alias(&format!("{p}.ilp"), &ilp);
            }
            if let Some(simd) = campaign.highest(&ids(FpOp::Add), threads) {
                campaign.alias(&format!("{p}.simd"), &simd);
                campaign.alias(&format!("{p}.balance.add"), &simd);
            }
            mixes(campaign, precision, threads)?;
            // Without FMA the roof is the simultaneous execution of multiplies and adds, as in the paper.
            let mut roof = ids(FpOp::Fma);
            if campaign.highest(&roof, threads).is_none() {
                roof = vec![format!("{p}.balance.addmul")];
            }
            match campaign.highest(&roof, threads) {
                Some(fma) => campaign.alias(&format!("{p}.fma"), &fma),
                None => campaign.too_late(Label::new(format!("{p}.fma"), "flop/s", threads)),
            }
            peak(campaign, precision, threads);
        }
    }
    Ok(())
}

fn one_chain(campaign: &mut Campaign, precision: Precision, threads: usize) -> Result<(), MachineError> {
    let Some(add) = floating(FpOp::Add, precision, Width::Scalar, campaign.features) else { return Ok(()) };
    let label = Label::new(format!("{}.tlp", precision.name()), "flop/s", threads);
    let kernel = |f| fp::chains("tlp", &[add], 1, precision, Width::Scalar, f);
    campaign.registers(label, kernel, |k| k.work.flops as f64)?;
    Ok(())
}

/// `balance.addmul`, and the mixes that may beat all FMA: FMA:add 1:1 and 2:1.
fn mixes(campaign: &mut Campaign, precision: Precision, threads: usize) -> Result<(), MachineError> {
    let p = precision.name();
    let candidates: [(&str, &[FpOp]); 3] = [
        ("balance.addmul", &[FpOp::Add, FpOp::Mul]),
        ("mix.fma+add", &[FpOp::Fma, FpOp::Add]),
        ("mix.fma+fma+add", &[FpOp::Fma, FpOp::Fma, FpOp::Add]),
    ];
    for (name, ops) in candidates {
        let label = Label::new(format!("{p}.{name}"), "flop/s", threads);
        let opcodes =
            |width| ops.iter().map(|op| floating(*op, precision, width, campaign.features)).collect::<Option<Vec<_>>>();
        let packed = campaign.features.widths().into_iter().filter(|w| *w != Width::Scalar);
        let ways: Vec<_> = packed.filter_map(|w| Some((w, opcodes(w)?))).collect();
        if ways.is_empty() {
            campaign.missing(label, "this CPU has no such instructions");
        } else {
            let kernel = |(w, opcodes): &(Width, Vec<Opcode>), f| fp::throughput(name, opcodes, precision, *w, f);
            campaign.best_of(label, &ways, kernel, |k| k.work.flops as f64)?;
        }
    }
    Ok(())
}

fn peak(campaign: &mut Campaign, precision: Precision, threads: usize) {
    let p = precision.name();
    let names = ["fma", "simd", "balance.addmul", "mix.fma+add", "mix.fma+fma+add"];
    let ids: Vec<String> = names.iter().map(|n| format!("{p}.{n}")).collect();
    if let Some(peak) = campaign.highest(&ids, threads) {
        campaign.alias(&format!("{p}.peak"), &peak);
    }
}
