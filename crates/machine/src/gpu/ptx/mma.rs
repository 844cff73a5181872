//! Tensor instructions with operands in registers: `mma.sync`.

use super::text::{Bounds, Class, Finish, Text, braces};
use super::{Kernel, Needs, Type, Unit, Work};

/// Shape of an FP64 tensor instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// From compute capability 8.0 on; half the roof on 9.0.
    M8N8K4,
    /// From compute capability 9.0 on; an instruction of its own only there (10.0 and 12.0 do eight m8n8k4).
    M16N8K16,
}

/// Seed of the random operands: another one in each thread.
pub(super) fn seed(text: &mut Text) -> String {
    let state = text.register(Class::B32);
    text.line(format!("mad.lo.u32 {state}, %global, 0x9e3779b1, %spare"));
    state
}

/// The next random word of a linear congruence, in a register of its own, with `kept` bits of it and `set` bits set.
pub(super) fn random(text: &mut Text, state: &str, (kept, set): (u32, u32)) -> String {
    let word = text.register(Class::B32);
    text.line(format!("mad.lo.u32 {state}, {state}, 1664525, 1013904223"));
    text.line(format!("shr.u32 {word}, {state}, 15"));
    text.line(format!("xor.b32 {word}, {word}, {state}"));
    text.line(format!("and.b32 {word}, {word}, {kept:#x}"));
    text.line(format!("or.b32 {word}, {word}, {set:#x}"));
    word
}

/// `chains` independent accumulators, each met `unroll` times in one trip: m16n8k16 for bf16 and f16, k8 for tf32, k32 for
/// e4m3 and s8, accumulators of 32 bits, random operands.
///
/// Work: `2 × 16 × 8 × k × chains × unroll × iters × warps of the grid`. `count` is not used.
/// Launch: blocks of 256 threads, 4 an SM with 8 chains × 4, or 2 an SM with 16 × 2. On compute capability 9.0 this reaches
/// two thirds of the roof that [`wgmma`](super::wgmma()) reaches. e4m3 runs on 8.9 and 12.x: for 9.x, 10.x and 11.x the
/// compiler converts the operands to f16.
pub fn mma(kind: Type, chains: u32, unroll: u32) -> Kernel {
    let depth = kind.depth();
    let (operand, accumulator) = (kind.name(), kind.accumulator());
    let class = if kind == Type::S8 { Class::B32 } else { Class::F32 };
    let mut text = Text::new();
    let state = seed(&mut text);
    let left: Vec<String> = (0..4).map(|_| random(&mut text, &state, kind.operand_bits())).collect();
    let right: Vec<String> = (0..2).map(|_| random(&mut text, &state, kind.operand_bits())).collect();
    // Accumulators begin with different numbers: a compiler may merge equal chains.
    let accumulators: Vec<String> = (0..4 * chains)
        .map(|_| {
            let (word, value) = (random(&mut text, &state, (0x807f_ffff, 0x3f00_0000)), text.register(class));
            text.line(format!("mov.b32 {value}, {word}"));
            value
        })
        .collect();
    let instruction = format!("mma.sync.aligned.m16n8k{depth}.row.col.{accumulator}.{operand}.{operand}.{accumulator}");
    fill_loop(&mut text, &instruction, &accumulators, 4, unroll, (&left, &right));
    text.keep(class, &accumulators);
    let needs = if kind == Type::E4m3 { Needs::at_least(8, 9) } else { Needs::at_least(8, 0) };
    let amount = f64::from(2 * 16 * 8 * depth * chains * unroll) / 32.0;
    let mut kernel = finish(text, format!("mma_{operand}_c{chains}_u{unroll}"), needs, kind.unit(), amount);
    if kind == Type::E4m3 {
        kernel.imitated = &[9, 10, 11];
    }
    kernel
}

/// The same for FP64.
///
/// Work: `2 × m × n × k × chains × unroll × iters × warps of the grid`. `count` is not used.
/// Launch: blocks of 256 threads; m16n8k16 with 4 chains × 4 and 4 blocks an SM, m8n8k4 with 8 × 4 and 4 blocks an SM.
pub fn dmma(shape: Shape, chains: u32, unroll: u32) -> Kernel {
    let (name, [lefts, rights, each], flops, needs) = match shape {
        Shape::M8N8K4 => ("m8n8k4", [1, 1, 2], 2 * 8 * 8 * 4, Needs::at_least(8, 0)),
        Shape::M16N8K16 => ("m16n8k16", [8, 4, 4], 2 * 16 * 8 * 16, Needs::at_least(9, 0)),
    };
    let mut text = Text::new();
    let state = seed(&mut text);
    let left: Vec<String> = (0..lefts).map(|_| random_f64(&mut text, &state)).collect();
    let right: Vec<String> = (0..rights).map(|_| random_f64(&mut text, &state)).collect();
    let accumulators: Vec<String> = (0..each * chains as usize).map(|_| random_f64(&mut text, &state)).collect();
    let instruction = format!("mma.sync.aligned.{name}.row.col.f64.f64.f64.f64");
    fill_loop(&mut text, &instruction, &accumulators, each, unroll, (&left, &right));
    text.keep(Class::F64, &accumulators);
    let amount = f64::from(flops * chains * unroll) / 32.0;
    finish(text, format!("dmma_{name}_c{chains}_u{unroll}"), needs, Unit::Flop, amount)
}

/// `unroll` rounds over all accumulators, `each` registers to a chain.
fn fill_loop(
    text: &mut Text,
    instruction: &str,
    accumulators: &[String],
    each: usize,
    unroll: u32,
    (left, right): (&[String], &[String]),
) {
    assert!(!accumulators.is_empty() && unroll > 0, "a loop needs work");
    let (left, right) = (braces(left), braces(right));
    text.repeat("%iters", |text| {
        for _ in 0..unroll {
            for chain in accumulators.chunks(each) {
                let chain = braces(chain);
                text.line(format!("{instruction} {chain}, {left}, {right}, {chain}"));
            }
        }
    });
}

fn finish(text: Text, name: String, needs: Needs, unit: Unit, amount: f64) -> Kernel {
    let bounds = Bounds { threads: 256, blocks: 0 };
    text.finish(Finish { name, needs, unit, work: Work::PerThread(amount), bounds })
}

/// A random double of magnitude [0.5, 1) and random sign.
fn random_f64(text: &mut Text, state: &str) -> String {
    let low = random(text, state, (0xffff_ffff, 0));
    let high = random(text, state, (0x800f_ffff, 0x3fe0_0000));
    let value = text.register(Class::F64);
    text.line(format!("mov.b64 {value}, {{{low}, {high}}}"));
    value
}
