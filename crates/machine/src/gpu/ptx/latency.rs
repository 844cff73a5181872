//! Latency: one thread follows a chain of pointers. A second kernel empties L2 of them before.

use super::span::Span;
use super::stream::{Cached, Stream, over};
use super::text::{Bounds, Class, Finish, Text};
use super::{Kernel, Needs, Unit, Work};

/// Dependent loads in one trip of the main loop.
const UNROLL: u32 = 16;

/// Follows `count` hops from address `a`: each u64 met is the address of the next. Stores the last into `out[8]`, always.
/// The clocks of the hops are `out[1] − out[0]`. `iters` is not used.
///
/// Work: `count` hops. Launch: 1 block × 1 thread. [`link`](super::link) builds the chain. For DRAM call [`flush`] before,
/// and meet each line once.
pub fn chase(cached: Cached) -> Kernel {
    let suffix = cached.suffix();
    let mut text = Text::new();
    let here = text.register(Class::B64);
    let [rounds, left] = std::array::from_fn(|_| text.register(Class::B32));
    text.line(format!("mov.b64 {here}, %ra"));
    text.line(format!("cvt.u32.u64 {left}, %count"));
    text.line(format!("shr.u32 {rounds}, {left}, {}", UNROLL.ilog2()));
    text.line(format!("and.b32 {left}, {left}, {}", UNROLL - 1));
    let hop = format!("ld.global.{suffix}.u64 {here}, [{here}]");
    text.repeat(&rounds, |text| (0..UNROLL).for_each(|_| text.line(&hop)));
    text.repeat(&left, |text| text.line(&hop));
    text.line(format!("st.global.u64 [%rout+64], {here}"));
    let (needs, bounds) = (Needs::at_least(7, 0), Bounds::default());
    text.finish(Finish { name: format!("chase_{suffix}"), needs, unit: Unit::Hop, work: Work::PerCount(1.0), bounds })
}

/// Writes `count` vectors of 16 bytes at `a`, `iters` times, so that L2 holds nothing else: 512 MiB at least.
///
/// Work: `16 B × count × iters`. Launch: 2 blocks of 1,024 threads an SM, `iters` 1.
pub fn flush() -> Kernel {
    over("flush".into(), Stream::Write, Span::Grid, 4, Work::PerElement(16.0))
}
