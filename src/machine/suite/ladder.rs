//! The ladder of A.1.3, `tlp ≤ ilp ≤ simd ≤ fma ≤ peak`, and the balance ceilings without FMA.

use super::pipes::PRECISIONS;
use crate::isa::operation::{FpOp, Precision, Width};
use crate::machine::error::MachineError;
use crate::machine::kernels::x86_64::{fp, opcodes::Opcode, opcodes::floating};
use crate::machine::suite::lab::{Lab, Label};

/// Records `{dp,sp}.{tlp,ilp,simd,fma,peak}` and `{dp,sp}.balance.{addmul,add}` at every thread count.
pub fn measure(lab: &mut Lab) -> Result<(), MachineError> {
    for threads in lab.counts.clone() {
        for precision in PRECISIONS {
            one_chain(lab, precision, threads)?;
            let p = precision.name();
            let widths = lab.features.widths();
            let ids = |op: FpOp| widths.iter().map(|w| format!("{p}.{}.{}", op.name(), w.name())).collect::<Vec<_>>();
            if let Some(ilp) = lab.found(&format!("{p}.add.scalar"), threads).cloned() {
                lab.alias(&format!("{p}.ilp"), &ilp);
            }
            if let Some(simd) = lab.highest(&ids(FpOp::Add), threads) {
                lab.alias(&format!("{p}.simd"), &simd);
                lab.alias(&format!("{p}.balance.add"), &simd);
            }
            mixes(lab, precision, threads)?;
            // Without FMA the roof is the simultaneous execution of multiplies and adds, as in the paper.
            let mut roof = ids(FpOp::Fma);
            if lab.highest(&roof, threads).is_none() {
                roof = vec![format!("{p}.balance.addmul")];
            }
            match lab.highest(&roof, threads) {
                Some(fma) => lab.alias(&format!("{p}.fma"), &fma),
                None => lab.too_late(Label::new(format!("{p}.fma"), "flop/s", threads)),
            }
            peak(lab, precision, threads);
        }
    }
    Ok(())
}

fn one_chain(lab: &mut Lab, precision: Precision, threads: usize) -> Result<(), MachineError> {
    let Some(add) = floating(FpOp::Add, precision, Width::Scalar, lab.features) else { return Ok(()) };
    let label = Label::new(format!("{}.tlp", precision.name()), "flop/s", threads);
    let kernel = |f| fp::chains("tlp", &[add], 1, precision, Width::Scalar, f);
    lab.registers(label, kernel, |k| k.work.flops as f64)?;
    Ok(())
}

/// `balance.addmul`, and the mixes that may beat all FMA: FMA:add 1:1 and 2:1.
fn mixes(lab: &mut Lab, precision: Precision, threads: usize) -> Result<(), MachineError> {
    let p = precision.name();
    let candidates: [(&str, &[FpOp]); 3] = [
        ("balance.addmul", &[FpOp::Add, FpOp::Mul]),
        ("mix.fma+add", &[FpOp::Fma, FpOp::Add]),
        ("mix.fma+fma+add", &[FpOp::Fma, FpOp::Fma, FpOp::Add]),
    ];
    for (name, ops) in candidates {
        let label = Label::new(format!("{p}.{name}"), "flop/s", threads);
        let opcodes =
            |width| ops.iter().map(|op| floating(*op, precision, width, lab.features)).collect::<Option<Vec<_>>>();
        let packed = lab.features.widths().into_iter().filter(|w| *w != Width::Scalar);
        let ways: Vec<_> = packed.filter_map(|w| Some((w, opcodes(w)?))).collect();
        if ways.is_empty() {
            lab.missing(label, "this CPU has no such instructions");
        } else {
            let kernel = |(w, opcodes): &(Width, Vec<Opcode>), f| fp::throughput(name, opcodes, precision, *w, f);
            lab.best_of(label, &ways, kernel, |k| k.work.flops as f64)?;
        }
    }
    Ok(())
}

fn peak(lab: &mut Lab, precision: Precision, threads: usize) {
    let p = precision.name();
    let names = ["fma", "simd", "balance.addmul", "mix.fma+add", "mix.fma+fma+add"];
    let ids: Vec<String> = names.iter().map(|n| format!("{p}.{n}")).collect();
    if let Some(peak) = lab.highest(&ids, threads) {
        lab.alias(&format!("{p}.peak"), &peak);
    }
}
