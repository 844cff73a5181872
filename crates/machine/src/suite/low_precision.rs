//! Integer arithmetic and the low precisions, if the ISA has them.

use crate::error::MachineError;
use crate::kernels::x86_64::fp;
use crate::kernels::x86_64::integer::{Scalar, throughput as scalar_throughput};
use crate::kernels::x86_64::opcodes::{self, IntegerOp, Opcode, floating};
use crate::suite::campaign::{Campaign, Label};
use rprof_isa::operation::{FpOp, Precision, Width};

/// `int.{add,mul,logic,alu}.scalar`, `int.{add,mul,logic}.{128,256,512}`, `int8.dot.{128,256,512}` in op/s;
/// `hp.{fma,add,mul}.512`, `bf16.dot.{128,256,512}` in flop/s.
pub fn measure(campaign: &mut Campaign) -> Result<(), MachineError> {
    for threads in campaign.ends() {
        integers(campaign, threads)?;
        for op in [FpOp::Fma, FpOp::Add, FpOp::Mul] {
            let label = Label::new(format!("hp.{}.512", op.name()), "flop/s", threads);
            let opcode = floating(op, Precision::Hp, Width::W512, campaign.features);
            one(campaign, label, Width::W512, opcode, "AVX512-FP16")?;
        }
        for width in [Width::W512, Width::W256, Width::W128] {
            let id = |name| format!("{name}.{}", width.name());
            let (bf16, int8) =
                (opcodes::bf16_dot(width, campaign.features), opcodes::int8_dot(width, campaign.features));
            one(campaign, Label::new(id("bf16.dot"), "flop/s", threads), width, bf16, "AVX512-BF16 at this width")?;
            one(campaign, Label::new(id("int8.dot"), "op/s", threads), width, int8, "VNNI at this width")?;
        }
    }
    Ok(())
}

/// The best of these mixes gives the rate of integer instructions: some cores execute those with an immediate at rename (Golden Cove),
/// but with extra cost before a shift; on others only some of the pipes rotate.
const ALU_MIXES: [&[Scalar]; 2] =
    [&[Scalar::Rotate, Scalar::Logic, Scalar::Add], &[Scalar::AddImmediate, Scalar::LogicImmediate]];

fn integers(campaign: &mut Campaign, threads: usize) -> Result<(), MachineError> {
    for (name, op) in [("add", Scalar::Add), ("mul", Scalar::Mul), ("logic", Scalar::Logic)] {
        let label = Label::new(format!("int.{name}.scalar"), "op/s", threads);
        campaign.registers(label, |f| scalar_throughput(&[op], f), |k| k.work.int_ops as f64)?;
    }
    let alu = Label::new("int.alu.scalar", "op/s", threads);
    campaign.best_of(alu, &ALU_MIXES, |ops, features| scalar_throughput(ops, features), |k| k.work.int_ops as f64)?;
    for width in campaign.features.widths().into_iter().filter(|w| *w != Width::Scalar) {
        for (name, op) in [("add", IntegerOp::Add), ("mul", IntegerOp::Mul), ("logic", IntegerOp::Logic)] {
            let Some(opcode) = opcodes::integer(op, width, campaign.features) else { continue };
            let label = Label::new(format!("int.{name}.{}", width.name()), "op/s", threads);
            let kernel = |f| fp::throughput("integer", &[opcode], Precision::Sp, width, f);
            campaign.registers(label, kernel, |k| k.work.int_ops as f64)?;
        }
    }
    Ok(())
}

fn one(
    campaign: &mut Campaign,
    label: Label,
    width: Width,
    opcode: Option<Opcode>,
    isa: &str,
) -> Result<(), MachineError> {
    let Some(opcode) = opcode else {
        campaign.missing(label, format!("this CPU has no {isa}"));
        return Ok(());
    };
    let kernel = |f| fp::throughput("low precision", &[opcode], Precision::Sp, width, f);
    campaign.registers(label, kernel, |k| (k.work.flops + k.work.int_ops) as f64)?;
    Ok(())
}
