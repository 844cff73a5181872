//! Parts of kernels on vectors of 16 bytes: launch bounds, constants, loads, the update of a vector.

use super::scalar::Precision;
use super::span::addresses;
use super::text::{Bounds, Class, Text, braces};

/// Launches of 1,024 threads must be possible.
pub(super) const LARGE: Bounds = Bounds { threads: 1024, blocks: 0 };

/// Two blocks of 1,024 threads must fit on an SM: at most 32 registers.
pub(super) const FULL: Bounds = Bounds { threads: 1024, blocks: 2 };

/// Numbers that the compiler does not know: a factor just below 1, a small addend.
pub(super) struct Constants {
    /// Four words, 1.0 and its neighbours: different ones, or the compiler would copy one register again and again.
    pub words: Vec<String>,
    /// Factor and addend in f32.
    pub single: [String; 2],
    /// Factor and addend in f64.
    pub double: [String; 2],
}

impl Constants {
    pub fn new(text: &mut Text) -> Self {
        Self {
            words: (0..4).map(|k| text.unknown(1.0_f32.to_bits() + k)).collect(),
            single: [1.0 - 1.0 / 65536.0, 1.0 / 1024.0].map(|value| text.unknown_f32(value)),
            double: [1.0 - 1.0 / 65536.0, 1.0 / 1024.0].map(|value| text.unknown_f64(value)),
        }
    }
}

pub(super) fn load(text: &mut Text, instruction: &str, class: Class, lanes: usize, place: &str) -> Vec<String> {
    let vector = text.registers(class, lanes);
    text.line(format!("{instruction} {}, [{place}]", braces(&vector)));
    vector
}

/// `fmas` dependent FMAs on each number of the vectors of `a` at `offsets`, in place.
pub(super) fn update(text: &mut Text, offsets: &[String], constants: &Constants, precision: Precision, fmas: u32) {
    let (class, kind, lanes, [factor, addend]) = match precision {
        Precision::F64 => (Class::F64, "f64", 2, &constants.double),
        _ => (Class::F32, "f32", 4, &constants.single),
    };
    let places = addresses(text, "%ra", offsets);
    let read = format!("ld.global.v{lanes}.{kind}");
    let vectors: Vec<_> = places.iter().map(|place| load(text, &read, class, lanes, place)).collect();
    for _ in 0..fmas {
        for x in vectors.iter().flatten() {
            text.line(format!("fma.rn.{kind} {x}, {x}, {factor}, {addend}"));
        }
    }
    for (place, vector) in places.iter().zip(&vectors) {
        text.line(format!("st.global.v{lanes}.{kind} [{place}], {}", braces(vector)));
    }
}
