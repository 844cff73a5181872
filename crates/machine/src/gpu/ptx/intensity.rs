//! A chosen number of FLOPs on each element read and written: the slope and the ridge of the roofline.

use super::scalar::Precision;
use super::span::{Span, trips};
use super::text::{Finish, Text};
use super::vectors::{Constants, LARGE, update};
use super::{Kernel, Needs, Unit, Work};

/// The place of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// One array for the grid.
    FromDram,
    /// A region for each block, small enough for L1 (stores still go on to L2).
    FromL1,
}

/// Each element of `a` is read, goes through `n / 2` dependent FMAs, and is written back, `iters` times; 2 vectors of 16
/// bytes in flight.
///
/// Work: `n × (4 for f32, 2 for f64) × count × iters`, and for `FromL1` `× blocks`: there each block has its own `count`
/// vectors. Bytes read and written: 8 an f32, 16 an f64.
/// Launch: `FromDram` 8 blocks of 256 threads an SM; `FromL1` 4 of 256, regions of 16 KiB (`count` 1,024).
///
/// # Panics
/// For other precisions than F32 and F64, and for `n` odd or 0.
pub fn flops_per_element(precision: Precision, n: u32, data: Data) -> Kernel {
    assert!(n >= 2 && n.is_multiple_of(2), "an FMA is two FLOPs");
    let lanes = match precision {
        Precision::F32 => 4.0,
        Precision::F64 => 2.0,
        _ => panic!("no kernel for {precision:?}"),
    };
    let amount = f64::from(n) * lanes;
    let (span, work, place) = match data {
        Data::FromDram => (Span::Grid, Work::PerElement(amount), "dram"),
        Data::FromL1 => (Span::BlockRegion, Work::PerBlockElement(amount), "l1"),
    };
    let mut text = Text::new();
    let constants = Constants::new(&mut text);
    trips(&mut text, span, 2, |text, offsets| update(text, offsets, &constants, precision, n / 2));
    let name = format!("fpe_{}_{n}_{place}", precision.name());
    text.finish(Finish { name, needs: Needs::at_least(7, 0), unit: Unit::Flop, work, bounds: LARGE })
}
