//! Tensor instructions with operands in shared memory: `wgmma`, compute capability 9.0 exactly.

use super::mma::{random, seed};
use super::text::{Bounds, Class, Finish, Text, braces};
use super::{Kernel, Needs, Type, Work};

/// Instructions in a group: one trip of the loop.
pub(super) const GROUP: u32 = 16;

/// Bytes of shared memory: 8 KiB of A for each of two warpgroups, 32 KiB of B for both.
const SHARED: u32 = 48 * 1024;

/// 16 `wgmma` m64n256k{16; 8; 32} in a group, into the same 128 accumulators a thread, random operands.
///
/// Work: `2 × 64 × 256 × k × 16 × iters × warpgroups of the grid`. `count` is not used.
/// Launch: exactly 256 threads (2 warpgroups), 1 block an SM. A burst is launches of 4 ms after 0.8 s without tensor work.
pub fn wgmma(kind: Type) -> Kernel {
    let depth = kind.depth();
    let (operand, accumulator) = (kind.name(), kind.accumulator());
    let class = if kind == Type::S8 { Class::B32 } else { Class::F32 };
    let mut text = Text::new();
    text.declare(&format!(".shared .align 1024 .b8 operands[{SHARED}]"));
    let base = fill_operands(&mut text, kind);
    let [left, right] = descriptors(&mut text, &base);
    let accumulators = text.registers(class, 128);
    for value in &accumulators {
        text.line(format!("mov.b32 {value}, 0"));
    }
    let add = text.register(Class::Pred);
    text.line(format!("setp.ne.b32 {add}, 1, 0"));
    // Signs and transpositions exist only for some types.
    let tail = match kind {
        Type::Bf16 | Type::F16 => ", 1, 1, 0, 0",
        Type::Tf32 | Type::E4m3 => ", 1, 1",
        Type::S8 => "",
    };
    let instruction = format!("wgmma.mma_async.sync.aligned.m64n256k{depth}.{accumulator}.{operand}.{operand}");
    let all = braces(&accumulators);
    text.repeat("%iters", |text| {
        text.line("wgmma.fence.sync.aligned");
        for step in 0..GROUP as usize {
            let (left, right) = (&left[step % 4], &right[step % 4]);
            text.line(format!("{instruction} {all}, {left}, {right}, {add}{tail}"));
        }
        text.line("wgmma.commit_group.sync.aligned");
        text.line("wgmma.wait_group.sync.aligned 0");
    });
    text.keep(class, &accumulators);
    let needs = Needs { major: 9, minor: 0, exact: true };
    let amount = f64::from(2 * 64 * 256 * depth * GROUP) / 128.0;
    let bounds = Bounds { threads: 256, blocks: 0 };
    let name = format!("wgmma_{operand}");
    text.finish(Finish { name, needs, unit: kind.unit(), work: Work::PerThread(amount), bounds })
}

/// Fills the operands with random numbers and makes them visible to the tensor core. Returns the address in shared memory.
fn fill_operands(text: &mut Text, kind: Type) -> String {
    let (base, address, trips) = (text.register(Class::B32), text.register(Class::B32), text.register(Class::B32));
    text.line(format!("mov.u32 {base}, operands"));
    text.line(format!("mad.lo.u32 {address}, %thread, 4, {base}"));
    text.line(format!("mov.u32 {trips}, {}", SHARED / 4 / 256));
    let state = seed(text);
    text.repeat(&trips, |text| {
        let word = random(text, &state, kind.operand_bits());
        text.line(format!("st.shared.b32 [{address}], {word}"));
        text.line(format!("add.u32 {address}, {address}, 1024"));
    });
    text.line("bar.sync 0");
    text.line("fence.proxy.async.shared::cta");
    text.line("bar.sync 0");
    base
}

/// Descriptors of A (of this warpgroup) and B for four steps of K. Rows of 128 bytes, 128-byte swizzle: address / 16 in
/// bits 0–13, 1 in 16–29, 1024 / 16 in 32–45, 1 in 62–63; a step of K is 32 bytes.
fn descriptors(text: &mut Text, base: &str) -> [Vec<String>; 2] {
    let (group, left) = (text.register(Class::B32), text.register(Class::B32));
    text.line(format!("shr.u32 {group}, %thread, 7"));
    text.line(format!("mad.lo.u32 {left}, {group}, 8192, {base}"));
    let right = text.register(Class::B32);
    text.line(format!("add.u32 {right}, {base}, 16384"));
    [left, right].map(|address| {
        let (bits, first) = (text.register(Class::B64), text.register(Class::B64));
        text.line(format!("shr.u32 {address}, {address}, 4"));
        text.line(format!("cvt.u64.u32 {bits}, {address}"));
        text.line(format!("or.b64 {first}, {bits}, {:#x}", 1_u64 << 62 | 64 << 32 | 1 << 16));
        let mut steps = vec![first];
        for _ in 1..4 {
            let next = text.register(Class::B64);
            text.line(format!("add.u64 {next}, {}, 2", steps[steps.len() - 1]));
            steps.push(next);
        }
        steps
    })
}
