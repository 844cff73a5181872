//! Streams over device memory in 16-byte vectors, and repeated reads of a working set.

use super::scalar::Precision;
use super::span::{Span, addresses, trips};
use super::text::{Bounds, Class, Finish, Text, braces};
use super::vectors::{Constants, FULL, LARGE, load, update};
use super::{Kernel, Needs, Unit, Work};

/// The operation on each vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Reads `a`: 1 array.
    Read,
    /// `a = b`: 2 arrays.
    Copy,
    /// `a = b + s × c` in f64, 2 FMAs a vector: 3 arrays.
    Triad,
    /// `a = s × a + t` in f32, 4 FMAs a vector: 2 arrays' worth.
    Update,
    /// Writes `a`: 1 array.
    Write,
}

/// The caches that loads may hit in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// `ld.global.cg`: passes L1 by.
    L2Only,
    /// `ld.global.ca`.
    L1AndL2,
}

impl Cached {
    /// The suffix of the load.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::L2Only => "cg",
            Self::L1AndL2 => "ca",
        }
    }
}

/// A stream over `count` vectors of 16 bytes, `iters` trips, grid stride, `in_flight` vectors a thread at a time.
///
/// Work: `16 B × arrays × count × iters`, exact for each `count`.
/// Launch: 2 blocks of 1,024 threads an SM, or 8 of 256; 4 in flight, 8 for reads. Arrays of at least 32 × L2.
///
/// # Panics
/// For 0 in flight.
pub fn stream(kind: Stream, in_flight: u32) -> Kernel {
    assert!(in_flight > 0, "nothing in flight");
    let (name, arrays) = match kind {
        Stream::Read => ("read", 1.0),
        Stream::Copy => ("copy", 2.0),
        Stream::Triad => ("triad", 3.0),
        Stream::Update => ("update", 2.0),
        Stream::Write => ("write", 1.0),
    };
    let name = format!("stream_{name}_f{in_flight}");
    over(name, kind, Span::Grid, in_flight, Work::PerElement(16.0 * arrays))
}

/// Each block reads its own region of `count` vectors of `a`, `iters` times, through L1. `a` has `count × blocks` vectors.
///
/// Work: `16 B × count × blocks × iters`.
/// Launch: 1 block of 1,024 threads an SM, regions of 64 to 128 KiB (`count` 4,096 to 8,192).
pub fn l1_region() -> Kernel {
    over("l1_region".into(), Stream::Read, Span::BlockRegion, 4, Work::PerBlockElement(16.0))
}

/// A kernel that does `kind` over `span`.
pub(super) fn over(name: String, kind: Stream, span: Span, in_flight: u32, work: Work) -> Kernel {
    let mut text = Text::new();
    let seen = text.register(Class::B32);
    text.line(format!("mov.b32 {seen}, 0"));
    let constants = Constants::new(&mut text);
    trips(&mut text, span, in_flight as usize, |text, offsets| match kind {
        Stream::Read => read(text, offsets, &seen),
        Stream::Copy => copy(text, offsets),
        Stream::Triad => triad(text, offsets, &constants),
        Stream::Update => update(text, offsets, &constants, Precision::F32, 1),
        Stream::Write => write(text, offsets, &constants),
    });
    text.keep(Class::B32, &[seen]);
    let bounds = match (kind, span) {
        (Stream::Read, _) => FULL,
        (Stream::Update, Span::BlockPart) => Bounds { threads: 512, blocks: 0 },
        _ => LARGE,
    };
    text.finish(Finish { name, needs: Needs::at_least(7, 0), unit: Unit::Byte, work, bounds })
}

fn read(text: &mut Text, offsets: &[String], seen: &str) {
    let places = addresses(text, "%ra", offsets);
    let vectors: Vec<_> = places.iter().map(|place| load(text, "ld.global.v4.b32", Class::B32, 4, place)).collect();
    for vector in &vectors {
        text.fold(seen, Class::B32, vector);
    }
}

fn copy(text: &mut Text, offsets: &[String]) {
    let (from, to) = (addresses(text, "%rb", offsets), addresses(text, "%ra", offsets));
    let vectors: Vec<_> = from.iter().map(|place| load(text, "ld.global.v4.b32", Class::B32, 4, place)).collect();
    for (place, vector) in to.iter().zip(&vectors) {
        text.line(format!("st.global.v4.b32 [{place}], {}", braces(vector)));
    }
}

fn triad(text: &mut Text, offsets: &[String], constants: &Constants) {
    let (add, scale) = (addresses(text, "%rb", offsets), addresses(text, "%rc", offsets));
    let to = addresses(text, "%ra", offsets);
    let adds: Vec<_> = add.iter().map(|place| load(text, "ld.global.v2.f64", Class::F64, 2, place)).collect();
    let scales: Vec<_> = scale.iter().map(|place| load(text, "ld.global.v2.f64", Class::F64, 2, place)).collect();
    for ((place, added), scaled) in to.iter().zip(&adds).zip(&scales) {
        for (b, c) in added.iter().zip(scaled) {
            text.line(format!("fma.rn.f64 {b}, {c}, {}, {b}", constants.double[0]));
        }
        text.line(format!("st.global.v2.f64 [{place}], {}", braces(added)));
    }
}

/// Writes the same four words everywhere.
fn write(text: &mut Text, offsets: &[String], constants: &Constants) {
    let words = braces(&constants.words);
    for place in addresses(text, "%ra", offsets) {
        text.line(format!("st.global.v4.b32 [{place}], {words}"));
    }
}

/// Reads `a`, a set of `count` vectors of 16 bytes, again and again: in each trip each thread reads 8 vectors, a grid
/// apart and modulo `count`, and goes on from its end.
///
/// Work: `128 B × iters × threads of the grid`, whatever `count` is.
/// Launch: 2 blocks of 1,024 threads an SM. The set is passed over `8 × threads × iters / count` times.
pub fn working_set(cached: Cached) -> Kernel {
    let mut text = Text::new();
    let [seen, count, stride, at] = std::array::from_fn(|_| text.register(Class::B32));
    text.line(format!("mov.b32 {seen}, 0"));
    text.line(format!("cvt.u32.u64 {count}, %count"));
    text.line(format!("mul.lo.u32 {stride}, %threads, %blocks"));
    text.line(format!("rem.u32 {stride}, {stride}, {count}"));
    text.line(format!("rem.u32 {at}, %global, {count}"));
    let suffix = cached.suffix();
    text.repeat("%iters", |text| {
        let vectors: Vec<_> = (0..8)
            .map(|_| {
                let (offset, beyond) = (text.register(Class::B64), text.register(Class::B32));
                text.line(format!("mul.wide.u32 {offset}, {at}, 16"));
                let place = addresses(text, "%ra", &[offset]).remove(0);
                let vector = load(text, &format!("ld.global.{suffix}.v4.b32"), Class::B32, 4, &place);
                // The lesser of the two, unsigned, is the next index modulo `count`.
                text.line(format!("add.u32 {at}, {at}, {stride}"));
                text.line(format!("sub.u32 {beyond}, {at}, {count}"));
                text.line(format!("min.u32 {at}, {at}, {beyond}"));
                vector
            })
            .collect();
        for vector in &vectors {
            text.fold(&seen, Class::B32, vector);
        }
    });
    text.keep(Class::B32, &[seen]);
    let (needs, work) = (Needs::at_least(7, 0), Work::PerThread(128.0));
    text.finish(Finish { name: format!("working_set_{suffix}"), needs, unit: Unit::Byte, work, bounds: FULL })
}
