//! Elementwise operations: own loops over arrays of single precision, as a compiler makes them. A program's own may be faster or slower.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use super::repeat;

/// An operation on each element of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// max(x, 0)
    Relu,
    /// 1 / (1 + exp(−x))
    Sigmoid,
    /// exp(x)
    Exp,
    /// tanh(x)
    Tanh,
    /// x + y
    Add,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 5] =
        [Operation::Relu, Operation::Sigmoid, Operation::Exp, Operation::Tanh, Operation::Add];

    /// Its name in tables of layers.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Relu => "relu",
            Operation::Sigmoid => "sigmoid",
            Operation::Exp => "exp",
            Operation::Tanh => "tanh",
            Operation::Add => "add",
        }
    }
}

/// Most elements of an array.
pub const MOST: u64 = 1 << 26;
/// Most bytes of all arrays.
const MOST_BYTES: u64 = 1 << 30;

/// Most pairs of arrays that are used in turn.
const PAIRS: u64 = 4096;

/// Seconds of an operation on `elements` elements, in a program that uses `footprint` bytes in turn: arrays are as far away as memory that
/// was used that long ago. At most [`MOST`] elements are measured, more are extrapolated.
pub fn seconds(operation: Operation, elements: u64, footprint: u64) -> f64 {
    if elements == 0 {
        return 0.0;
    }
    let measured = elements.min(MOST);
    let pairs = (footprint.min(MOST_BYTES) / (8 * measured)).clamp(1, PAIRS);
    let length = measured as usize;
    let all = pairs as usize * length;
    let from: Vec<f32> = (0..all).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect();
    // Zeroed memory would have no pages yet.
    let mut to = from.clone();
    let mut next = 0;
    let timed = repeat::seconds(|rounds| {
        let begun = Instant::now();
        for _ in 0..rounds {
            apply(operation, black_box(&from[next..][..length]), black_box(&mut to[next..][..length]));
            next = if next + length == all { 0 } else { next + length };
        }
        Ok::<_, Infallible>(begun.elapsed())
    });
    let Ok(seconds) = timed;
    seconds * elements as f64 / measured as f64
}

// The C library's, called once an element: `f32::exp` is unrolled, which C compilers do not do without -ffast-math.
unsafe extern "C" {
    fn expf(x: f32) -> f32;
    fn tanhf(x: f32) -> f32;
}

#[inline(never)]
fn apply(operation: Operation, from: &[f32], to: &mut [f32]) {
    match operation {
        Operation::Relu => each(from, to, |x, _| x.max(0.0)),
        // SAFETY: functions of numbers alone.
        Operation::Sigmoid => each(from, to, |x, _| 1.0 / (1.0 + unsafe { expf(-x) })),
        // SAFETY: as above.
        Operation::Exp => each(from, to, |x, _| unsafe { expf(x) }),
        // SAFETY: as above.
        Operation::Tanh => each(from, to, |x, _| unsafe { tanhf(x) }),
        Operation::Add => each(from, to, |x, y| x + y),
    }
}

fn each(from: &[f32], to: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = f(*from, *to));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_what_they_say() {
        let of = |operation| {
            let mut to = [1.0];
            apply(operation, &[-2.0], &mut to);
            to[0]
        };
        let expected = [0.0, 1.0 / (1.0 + 2f32.exp()), (-2f32).exp(), (-2f32).tanh(), -1.0];
        assert_eq!(Operation::ALL.map(of), expected);
    }

    #[test]
    fn more_elements_take_longer() {
        assert_eq!(seconds(Operation::Exp, 0, 0), 0.0);
        assert!(seconds(Operation::Exp, 20_000, 0) > 3.0 * seconds(Operation::Exp, 1000, 1 << 20));
    }
}
