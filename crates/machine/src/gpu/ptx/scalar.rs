//! Scalar arithmetic: independent chains of dependent operations, all in registers.

use super::text::{Bounds, Class, Finish, Text};
use super::{Kernel, Needs, Unit, Work};

/// The operation of each step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `x = x + b`, with `b` of alternating sign: 1 FLOP.
    Add,
    /// `x = x × b`, with `b` 2 and 0.5 in turn: 1 FLOP.
    Mul,
    /// `x = x × a + b`: 2 FLOPs (2 operations for integers).
    Fma,
    /// `x = 2⁻ˣ`, one operation of the special-function unit.
    Ex2,
}

/// The type of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    F64,
    F32,
    /// Two lanes in a 32-bit register.
    F16,
    /// Two lanes in a 32-bit register; add and multiply need compute capability 9.0.
    Bf16,
    /// 32-bit integers: [`Operation::Fma`] only.
    I32,
}

impl Precision {
    /// As the names of kernels spell it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F64 => "fp64",
            Self::F32 => "fp32",
            Self::F16 => "fp16",
            Self::Bf16 => "bf16",
            Self::I32 => "int32",
        }
    }

    pub(super) fn class(self) -> Class {
        match self {
            Self::F64 => Class::F64,
            Self::F32 => Class::F32,
            Self::F16 | Self::Bf16 | Self::I32 => Class::B32,
        }
    }

    /// Numbers in one register.
    fn lanes(self) -> f64 {
        if matches!(self, Self::F16 | Self::Bf16) { 2.0 } else { 1.0 }
    }
}

/// `chains` independent chains, each `unroll` operations long in one trip of the loop.
///
/// Work: `operations a step × lanes × chains × unroll × iters × threads of the grid`. `count` is not used.
/// Launch: blocks of 256 threads, 4 an SM, `iters` for some milliseconds. 8 chains × 32 reach the roof for fp64, fp32 and
/// fp16; 8 × 16 for bf16, integers and ex2. Chains 1, 2, 4, 8 give the curve of thread- and instruction-level parallelism.
///
/// # Panics
/// For a pair that has no instruction (only `Fma` of `I32`, only `Ex2` of `F32`), for no chain or no step, and for `Add`
/// and `Mul` with an odd `unroll`, which would not keep their values in place.
pub fn scalar(operation: Operation, precision: Precision, chains: u32, unroll: u32) -> Kernel {
    scalar_in_lanes(operation, precision, chains, unroll, 32)
}

/// [`scalar`] with each operation predicated: only the first `lanes` of the 32 lanes of a warp do it.
pub fn scalar_in_lanes(operation: Operation, precision: Precision, chains: u32, unroll: u32, lanes: u32) -> Kernel {
    assert!(chains > 0 && unroll > 0 && (1..=32).contains(&lanes), "a loop needs work");
    assert!(!matches!(operation, Operation::Add | Operation::Mul) || unroll.is_multiple_of(2), "odd unroll");
    let (instruction, needs) = instruction(operation, precision);
    let mut text = Text::new();
    let [first, second] = constants(&mut text, operation, precision);
    // Three registers of one bank cost an FMA a second cycle, which few chains cannot hide: then the addend is the factor.
    let addend = if chains < 4 { first.clone() } else { second.clone() };
    let values: Vec<String> = (0..chains).map(|chain| initial(&mut text, precision, chain)).collect();
    let guard = if lanes < 32 { first_lanes(&mut text, lanes) } else { String::new() };
    text.repeat("%iters", |text| {
        for step in 0..unroll {
            for x in &values {
                let operand = if step % 2 == 0 { &first } else { &second };
                match operation {
                    Operation::Add | Operation::Mul => text.line(format!("{guard}{instruction} {x}, {x}, {operand}")),
                    Operation::Fma => text.line(format!("{guard}{instruction} {x}, {x}, {first}, {addend}")),
                    Operation::Ex2 => {
                        text.line(format!("{guard}neg.f32 {x}, {x}"));
                        text.line(format!("{guard}{instruction} {x}, {x}"));
                    }
                }
            }
        }
    });
    text.keep(precision.class(), &values);
    let (verb, each) = match operation {
        Operation::Add => ("add", 1.0),
        Operation::Mul => ("mul", 1.0),
        Operation::Fma if precision == Precision::I32 => ("mad", 2.0),
        Operation::Fma => ("fma", 2.0),
        Operation::Ex2 => ("ex2", 1.0),
    };
    let mut name = format!("{}_{verb}_c{chains}_u{unroll}", precision.name());
    if lanes < 32 {
        name += &format!("_l{lanes}");
    }
    let amount = each * precision.lanes() * f64::from(chains * unroll) * f64::from(lanes) / 32.0;
    let integer = precision == Precision::I32 || operation == Operation::Ex2;
    let unit = if integer { Unit::Op } else { Unit::Flop };
    text.finish(Finish { name, needs, unit, work: Work::PerThread(amount), bounds: Bounds::default() })
}

/// The instruction of PTX, and the least device that has it.
pub(super) fn instruction(operation: Operation, precision: Precision) -> (&'static str, Needs) {
    let old = Needs::at_least(7, 0);
    match (operation, precision) {
        (Operation::Add, Precision::F64) => ("add.rn.f64", old),
        (Operation::Mul, Precision::F64) => ("mul.rn.f64", old),
        (Operation::Fma, Precision::F64) => ("fma.rn.f64", old),
        (Operation::Add, Precision::F32) => ("add.rn.f32", old),
        (Operation::Mul, Precision::F32) => ("mul.rn.f32", old),
        (Operation::Fma, Precision::F32) => ("fma.rn.f32", old),
        // Without flushing, small results need a multiplication more.
        (Operation::Ex2, Precision::F32) => ("ex2.approx.ftz.f32", old),
        (Operation::Add, Precision::F16) => ("add.rn.f16x2", old),
        (Operation::Mul, Precision::F16) => ("mul.rn.f16x2", old),
        (Operation::Fma, Precision::F16) => ("fma.rn.f16x2", old),
        (Operation::Add, Precision::Bf16) => ("add.rn.bf16x2", Needs::at_least(9, 0)),
        (Operation::Mul, Precision::Bf16) => ("mul.rn.bf16x2", Needs::at_least(9, 0)),
        (Operation::Fma, Precision::Bf16) => ("fma.rn.bf16x2", Needs::at_least(8, 0)),
        (Operation::Fma, Precision::I32) => ("mad.lo.s32", old),
        _ => panic!("no instruction for {operation:?} of {precision:?}"),
    }
}

/// Two constants: factor and addend of an FMA, or the operands of even and odd steps. A factor just below 1 and a small
/// addend let an FMA converge to a normal number; addends of both signs and factors 2 and 0.5 return exactly.
pub(super) fn constants(text: &mut Text, operation: Operation, precision: Precision) -> [String; 2] {
    let reals = match operation {
        Operation::Add => [1.0 / 128.0, -1.0 / 128.0],
        Operation::Mul => [2.0, 0.5],
        Operation::Fma | Operation::Ex2 => [1.0 - 1.0 / 65536.0, 1.0 / 1024.0],
    };
    match precision {
        Precision::F64 => reals.map(|real| text.unknown_f64(real)),
        Precision::F32 => reals.map(|real| text.unknown_f32(real as f32)),
        Precision::I32 => [1_664_525, 1_013_904_223].map(|bits| text.unknown(bits)),
        Precision::F16 | Precision::Bf16 => {
            let halves = match (precision, operation) {
                (Precision::F16, Operation::Add) => [0x2000, 0xa000],
                (Precision::F16, Operation::Mul) => [0x4000, 0x3800],
                (Precision::F16, _) => [0x3bff, 0x1400],
                (_, Operation::Add) => [0x3c00, 0xbc00],
                (_, Operation::Mul) => [0x4000, 0x3f00],
                _ => [0x3f7f, 0x3a80],
            };
            halves.map(|half: u32| text.unknown(half << 16 | half))
        }
    }
}

/// A first value in [1, 2), another one in each chain and lane, made without floating-point operations.
pub(super) fn initial(text: &mut Text, precision: Precision, chain: u32) -> String {
    let (bits, lane, value) = (text.register(Class::B32), text.register(Class::B32), text.register(precision.class()));
    text.line(format!("and.b32 {lane}, %thread, 31"));
    let (factor, base) = match precision {
        Precision::F64 => (1 << 14, 0x3ff0_0000 + (chain << 4)),
        Precision::F32 => (1 << 16, 0x3f80_0000 + (chain << 4)),
        Precision::F16 => (0x0010_0010, 0x3c00_3c00 + chain * 0x0001_0001),
        Precision::Bf16 => (0x0002_0002, 0x3f80_3f80 + chain * 0x0001_0001),
        Precision::I32 => (40_503, 1 + 2 * chain),
    };
    text.line(format!("mad.lo.u32 {bits}, {lane}, {factor:#x}, {base:#x}"));
    match precision {
        Precision::F64 => text.line(format!("mov.b64 {value}, {{{lane}, {bits}}}")),
        _ => text.line(format!("mov.b32 {value}, {bits}")),
    }
    value
}

/// The guard `@p ` that holds in the first `lanes` lanes of each warp.
fn first_lanes(text: &mut Text, lanes: u32) -> String {
    let (lane, holds) = (text.register(Class::B32), text.register(Class::Pred));
    text.line(format!("and.b32 {lane}, %thread, 31"));
    text.line(format!("setp.lt.u32 {holds}, {lane}, {lanes}"));
    format!("@{holds} ")
}
