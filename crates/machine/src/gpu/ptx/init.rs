//! Filling memory before a measurement: numbers for the streams, links for the chase.

use super::span::{Span, addresses, trips};
use super::text::{Bounds, Class, Finish, Text, braces};
use super::vectors::LARGE;
use super::{Kernel, Needs, Unit, Work};

/// Writes `count` vectors of four f32 in [1, 2), another one in each place, at `a`, `iters` times (use 1).
///
/// Work: `16 B × count × iters`. Launch: 2 blocks of 1,024 threads an SM.
pub fn fill() -> Kernel {
    let mut text = Text::new();
    let congruence = [1_664_525, 1_013_904_223].map(|bits| text.unknown(bits));
    trips(&mut text, Span::Grid, 1, |text, offsets| {
        let words = words(text, &offsets[0], &congruence);
        let place = addresses(text, "%ra", offsets).remove(0);
        text.line(format!("st.global.v4.b32 [{place}], {}", braces(&words)));
    });
    let (needs, work) = (Needs::at_least(7, 0), Work::PerElement(16.0));
    text.finish(Finish { name: "fill_f32".into(), needs, unit: Unit::Byte, work, bounds: LARGE })
}

/// The four words of the vector at a byte offset.
fn words(text: &mut Text, offset: &str, [factor, addend]: &[String; 2]) -> [String; 4] {
    let state = text.register(Class::B32);
    text.line(format!("cvt.u32.u64 {state}, {offset}"));
    text.line(format!("mul.lo.u32 {state}, {state}, 0x9e3779b1"));
    std::array::from_fn(|_| {
        let word = text.register(Class::B32);
        text.line(format!("mad.lo.u32 {state}, {state}, {factor}, {addend}"));
        text.line(format!("and.b32 {word}, {state}, 0x007fffff"));
        text.line(format!("or.b32 {word}, {word}, 0x3f800000"));
        word
    })
}

/// Builds a chain for [`chase`](super::chase) in `a`: `b` holds `count` u64, the byte offsets of the links in the order in
/// which they shall be met (the host shuffles them). The u64 at each offset becomes the address of the next link, and the
/// last one that of the first. The chase begins at `a + b[0]`.
///
/// Work: `count` links, 8 B each. `iters` is not used. Launch: any grid, 256 threads a block; `count` must not be 0.
pub fn link() -> Kernel {
    let mut text = Text::new();
    let [at, next, count, width] = std::array::from_fn(|_| text.register(Class::B32));
    let [place, value, generic] = std::array::from_fn(|_| text.register(Class::B64));
    let more = text.register(Class::Pred);
    let (top, out) = (text.label(), text.label());
    text.line(format!("cvt.u32.u64 {count}, %count"));
    text.line(format!("mul.lo.u32 {width}, %threads, %blocks"));
    text.line(format!("mov.b32 {at}, %global"));
    // The chase takes its first address as a generic one: links are generic, too.
    text.line(format!("cvta.global.u64 {generic}, %ra"));
    text.line(format!("setp.ge.u32 {more}, {at}, {count}"));
    text.line(format!("@{more} bra {out}"));
    text.place(&top);
    text.line(format!("add.u32 {next}, {at}, 1"));
    text.line(format!("setp.eq.u32 {more}, {next}, {count}"));
    text.line(format!("selp.b32 {next}, 0, {next}, {more}"));
    text.line(format!("mad.wide.u32 {place}, {at}, 8, %rb"));
    text.line(format!("ld.global.u64 {place}, [{place}]"));
    text.line(format!("add.u64 {place}, {place}, %ra"));
    text.line(format!("mad.wide.u32 {value}, {next}, 8, %rb"));
    text.line(format!("ld.global.u64 {value}, [{value}]"));
    text.line(format!("add.u64 {value}, {value}, {generic}"));
    text.line(format!("st.global.u64 [{place}], {value}"));
    text.line(format!("add.u32 {at}, {at}, {width}"));
    text.line(format!("setp.lt.u32 {more}, {at}, {count}"));
    text.line(format!("@{more} bra {top}"));
    text.place(&out);
    let (needs, bounds) = (Needs::at_least(7, 0), Bounds::default());
    text.finish(Finish { name: "link".into(), needs, unit: Unit::Byte, work: Work::PerCount(8.0), bounds })
}
