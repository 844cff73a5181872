//! A kernel in which every instruction of floating point has another count: a counter that mixes them up shows.

use super::scalar::{Operation, Precision, constants, initial, instruction};
use super::text::{Bounds, Finish, Text};
use super::{Kernel, Launch, Needs, Unit, Work};

/// Its nine kinds of instructions, in the order of the counters; a trip has one of the first, two of the second, and so on.
const KINDS: [(Operation, Precision); 9] = [
    (Operation::Add, Precision::F64),
    (Operation::Mul, Precision::F64),
    (Operation::Fma, Precision::F64),
    (Operation::Add, Precision::F32),
    (Operation::Mul, Precision::F32),
    (Operation::Fma, Precision::F32),
    (Operation::Add, Precision::F16),
    (Operation::Mul, Precision::F16),
    (Operation::Fma, Precision::F16),
];

/// Its launch: few trips, so that no value overflows.
pub const MIX: Launch = Launch { blocks: 8, threads: 64, iters: 4, count: 0 };

/// Name of its entry.
pub const MIX_NAME: &str = "counts_mix";

/// One chain of each kind. Work: 96 FLOPs × iters × threads of the grid. Launch: [`MIX`].
pub fn mix() -> Kernel {
    let mut text = Text::new();
    let chains = KINDS.map(|(operation, precision)| {
        (
            constants(&mut text, operation, precision),
            initial(&mut text, precision, 0),
            instruction(operation, precision).0,
        )
    });
    text.repeat("%iters", |text| {
        for (n, ((operation, _), ([first, second], x, instruction))) in KINDS.iter().zip(&chains).enumerate() {
            for step in 0..=n {
                let operand = if step % 2 == 0 { first } else { second };
                match operation {
                    Operation::Fma => text.line(format!("{instruction} {x}, {x}, {first}, {second}")),
                    _ => text.line(format!("{instruction} {x}, {x}, {operand}")),
                }
            }
        }
    });
    for ((_, precision), (_, x, _)) in KINDS.iter().zip(&chains) {
        text.keep(precision.class(), std::slice::from_ref(x));
    }
    let (needs, work) = (Needs::at_least(7, 0), Work::PerThread(96.0));
    text.finish(Finish { name: MIX_NAME.into(), needs, unit: Unit::Flop, work, bounds: Bounds::default() })
}

/// Instructions of threads of each kind in one launch of [`MIX`].
pub fn mix_counts() -> [f64; KINDS.len()] {
    let threads = f64::from(MIX.blocks * MIX.threads * MIX.iters);
    std::array::from_fn(|n| threads * (n + 1) as f64)
}
