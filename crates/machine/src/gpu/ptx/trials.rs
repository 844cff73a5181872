//! Kernels A, B, C of Lo et al., "Roofline Model Toolkit" (2014), section 5: the loop over trials in the block, around the
//! launches, and in the block with the data staged in shared memory.

use super::span::{Extent, Span, addresses, extent};
use super::stream::{Stream, over};
use super::text::{Bounds, Class, Finish, Text, braces};
use super::{Kernel, Needs, Unit, Work};

/// Kernel A: `count` vectors of `a` cut into a contiguous part for each block, which updates its part `iters` times.
///
/// Work: `32 B × count × iters` (read and written).
/// Launch: 2 blocks of 512 threads an SM; `iters` for about 1 ms.
pub fn trials_update() -> Kernel {
    over("trials_a_update".into(), Stream::Update, Span::BlockPart, 4, Work::PerElement(32.0))
}

/// Kernel A that only reads its part. Work: `16 B × count × iters`. Launch: as [`trials_update`].
pub fn trials_read() -> Kernel {
    over("trials_a_read".into(), Stream::Read, Span::BlockPart, 4, Work::PerElement(16.0))
}

/// Kernel B: one update of `count` vectors of `a`, shared out over the grid; the host launches it once for each trial, with
/// `iters` 1.
///
/// Work: `32 B × count × iters`. Launch: 2 blocks of 512 threads an SM.
pub fn launches_update() -> Kernel {
    over("trials_b_update".into(), Stream::Update, Span::Grid, 4, Work::PerElement(32.0))
}

/// Kernel C: a contiguous part of `a` for each block, staged piece by piece in 32 KiB of shared memory; each piece is read
/// there `iters` times.
///
/// Work: `16 B × count × iters` read from shared memory; the copy into it (16 B × count) is left out.
/// Launch: at most 512 threads; 2 blocks of 512 an SM; `iters` at least 64 and enough for 0.7 ms.
pub fn staged() -> Kernel {
    let mut text = Text::new();
    text.declare(".shared .align 128 .b8 stage[32768]");
    let Extent { start, end, step } = extent(&mut text, Span::BlockPart);
    let [base, width, slot, seen] = std::array::from_fn(|_| text.register(Class::B32));
    text.line(format!("mov.u32 {base}, stage"));
    text.line(format!("mad.lo.u32 {base}, %thread, 16, {base}"));
    text.line(format!("mul.lo.u32 {width}, %threads, 16"));
    text.line(format!("mov.b32 {seen}, 0"));
    let slots: Vec<(String, String)> = (0..4)
        .map(|k| {
            let place = text.register(Class::B32);
            text.line(format!("mad.lo.u32 {place}, {width}, {k}, {base}"));
            (place, text.register(Class::Pred))
        })
        .collect();
    let vectors: Vec<Vec<String>> = slots.iter().map(|_| text.registers(Class::B32, 4)).collect();
    for word in vectors.iter().flatten() {
        text.line(format!("mov.b32 {word}, 0"));
    }
    // The piece begins at the same place for the whole block: the barriers need all threads.
    let (piece, more) = (text.register(Class::B64), text.register(Class::Pred));
    let (top, out) = (text.label(), text.label());
    let thread = text.register(Class::B64);
    text.line(format!("mul.wide.u32 {thread}, %thread, 16"));
    text.line(format!("sub.u64 {piece}, {start}, {thread}"));
    text.line(format!("setp.ge.u64 {more}, {piece}, {end}"));
    text.line(format!("@{more} bra {out}"));
    text.place(&top);
    text.line(".pragma \"nounroll\"");
    let offsets = text.registers(Class::B64, 4);
    text.line(format!("add.u64 {}, {piece}, {thread}", offsets[0]));
    for pair in offsets.windows(2) {
        text.line(format!("add.u64 {}, {}, {step}", pair[1], pair[0]));
    }
    for ((_, inside), offset) in slots.iter().zip(&offsets) {
        text.line(format!("setp.lt.u64 {inside}, {offset}, {end}"));
    }
    let places = addresses(&mut text, "%ra", &offsets);
    for (((_, inside), from), vector) in slots.iter().zip(&places).zip(&vectors) {
        text.line(format!("@{inside} ld.global.v4.b32 {}, [{from}]", braces(vector)));
    }
    for ((slot, inside), vector) in slots.iter().zip(&vectors) {
        text.line(format!("@{inside} st.shared.v4.b32 [{slot}], {}", braces(vector)));
    }
    text.line("bar.sync 0");
    text.repeat("%iters", |text| {
        for ((slot, inside), vector) in slots.iter().zip(&vectors) {
            let instruction = format!("@{inside} ld.volatile.shared.v4.b32");
            text.line(format!("{instruction} {}, [{slot}]", braces(vector)));
        }
        text.fold(&seen, Class::B32, &vectors.concat());
    });
    text.line("bar.sync 0");
    text.line(format!("mad.lo.u32 {slot}, %threads, 64, 0"));
    let ahead = text.register(Class::B64);
    text.line(format!("cvt.u64.u32 {ahead}, {slot}"));
    text.line(format!("add.u64 {piece}, {piece}, {ahead}"));
    text.line(format!("setp.lt.u64 {more}, {piece}, {end}"));
    text.line(format!("@{more} bra {top}"));
    text.place(&out);
    text.keep(Class::B32, &[seen]);
    let bounds = Bounds { threads: 512, blocks: 0 };
    let (needs, work) = (Needs::at_least(7, 0), Work::PerElement(16.0));
    text.finish(Finish { name: "trials_c_staged".into(), needs, unit: Unit::Byte, work, bounds })
}
