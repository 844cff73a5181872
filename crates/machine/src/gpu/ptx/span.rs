//! Loops over parts of an array in 16-byte vectors: grid stride, a part for each block, a region for each block.

use super::text::{Class, Text};

/// Which vectors a thread meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    /// All `count` vectors, shared out over the grid: a step is the whole grid.
    Grid,
    /// `count` vectors cut into one contiguous part for each block.
    BlockPart,
    /// Each block has its own region of `count` vectors.
    BlockRegion,
}

/// Bytes from the begin of an array, as registers.
pub(super) struct Extent {
    pub start: String,
    pub end: String,
    pub step: String,
}

/// Computes a thread's begin, end and step.
pub(super) fn extent(text: &mut Text, span: Span) -> Extent {
    let (start, end, step) = (text.register(Class::B64), text.register(Class::B64), text.register(Class::B64));
    let (count, first, width) = (text.register(Class::B32), text.register(Class::B32), text.register(Class::B32));
    text.line(format!("cvt.u32.u64 {count}, %count"));
    match span {
        Span::Grid => {
            text.line(format!("mul.lo.u32 {width}, %threads, %blocks"));
            text.line(format!("mul.wide.u32 {start}, %global, 16"));
            text.line(format!("mul.wide.u32 {end}, {count}, 16"));
            text.line(format!("mul.wide.u32 {step}, {width}, 16"));
        }
        Span::BlockPart => {
            let part = text.register(Class::B32);
            text.line(format!("add.u32 {part}, {count}, %blocks"));
            text.line(format!("add.u32 {part}, {part}, -1"));
            text.line(format!("div.u32 {part}, {part}, %blocks"));
            text.line(format!("mul.lo.u32 {first}, %block, {part}"));
            text.line(format!("add.u32 {part}, {part}, {first}"));
            text.line(format!("min.u32 {part}, {part}, {count}"));
            text.line(format!("add.u32 {first}, {first}, %thread"));
            text.line(format!("mul.wide.u32 {start}, {first}, 16"));
            text.line(format!("mul.wide.u32 {end}, {part}, 16"));
            text.line(format!("mul.wide.u32 {step}, %threads, 16"));
        }
        Span::BlockRegion => {
            let bytes = text.register(Class::B64);
            text.line(format!("mul.lo.u32 {first}, %block, {count}"));
            text.line(format!("mul.wide.u32 {end}, {first}, 16"));
            text.line(format!("mul.wide.u32 {start}, %thread, 16"));
            text.line(format!("add.u64 {start}, {start}, {end}"));
            text.line(format!("mul.wide.u32 {bytes}, {count}, 16"));
            text.line(format!("add.u64 {end}, {end}, {bytes}"));
            text.line(format!("mul.wide.u32 {step}, %threads, 16"));
        }
    }
    Extent { start, end, step }
}

/// `iters` trips over `span`: `body` gets the byte offsets of the vectors in flight, `in_flight` of them in the main loop
/// and one in the tail, so that every vector is met exactly once a trip.
pub(super) fn trips(text: &mut Text, span: Span, in_flight: usize, body: impl FnMut(&mut Text, &[String])) {
    let extent = extent(text, span);
    text.repeat("%iters", |text| once(text, &extent, in_flight, body));
}

/// One trip over an extent.
pub(super) fn once(text: &mut Text, extent: &Extent, in_flight: usize, mut body: impl FnMut(&mut Text, &[String])) {
    let Extent { start, end, step } = extent;
    let (ahead, last) = (text.register(Class::B64), text.register(Class::B64));
    let (more, done) = (text.register(Class::Pred), text.register(Class::Pred));
    let offsets = text.registers(Class::B64, in_flight);
    let here = &offsets[0];
    let (main, tail, tail_top, out) = (text.label(), text.label(), text.label(), text.label());
    text.line(format!("mov.b64 {here}, {start}"));
    if in_flight > 1 {
        text.line(format!("mul.lo.u64 {ahead}, {step}, {}", in_flight - 1));
        text.line(format!("add.u64 {last}, {here}, {ahead}"));
        text.line(format!("setp.ge.u64 {done}, {last}, {end}"));
        text.line(format!("@{done} bra {tail}"));
        text.place(&main);
        text.line(".pragma \"nounroll\"");
        for pair in offsets.windows(2) {
            text.line(format!("add.u64 {}, {}, {step}", pair[1], pair[0]));
        }
        body(text, &offsets);
        text.line(format!("add.u64 {here}, {}, {step}", offsets[in_flight - 1]));
        text.line(format!("add.u64 {last}, {here}, {ahead}"));
        text.line(format!("setp.lt.u64 {more}, {last}, {end}"));
        text.line(format!("@{more} bra {main}"));
        text.place(&tail);
    }
    text.line(format!("setp.ge.u64 {done}, {here}, {end}"));
    text.line(format!("@{done} bra {out}"));
    text.place(&tail_top);
    text.line(".pragma \"nounroll\"");
    body(text, &offsets[..1]);
    text.line(format!("add.u64 {here}, {here}, {step}"));
    text.line(format!("setp.lt.u64 {more}, {here}, {end}"));
    text.line(format!("@{more} bra {tail_top}"));
    text.place(&out);
}

/// Addresses in `array` (`%ra`, …) of byte offsets.
pub(super) fn addresses(text: &mut Text, array: &str, offsets: &[String]) -> Vec<String> {
    let addresses = text.registers(Class::B64, offsets.len());
    for (address, offset) in addresses.iter().zip(offsets) {
        text.line(format!("add.u64 {address}, {array}, {offset}"));
    }
    addresses
}
