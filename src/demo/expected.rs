//! The class that each kernel must come out as on a given host, from that host's measured ceilings.
//!
//! A kernel is built to hit one ceiling, but which class that makes can depend on the host: a kernel of adds only is
//! `fma-balance` where adds and FMAs share pipes of equal width, and so on.

use std::collections::BTreeMap;

use crate::profile::Machine;

use super::kernels::{BuiltFor, Code, KERNELS};
use super::variant::Variant;

/// Gains below this share are none (DESIGN section 7).
const GAIN: f64 = 1.03;
/// `fma-balance` only below this share of the all-FMA rate (DESIGN section 7).
const BALANCED: f64 = 0.97;

/// Function name → class, for every kernel that a CPU like `machine`'s runs. A kernel whose class depends on a ceiling
/// that was not measured is left out.
pub fn expected(machine: &Machine) -> BTreeMap<String, String> {
    let variant = match machine.vector_bits {
        Some(bits) if bits >= 512 => Variant::Avx512,
        Some(bits) if bits >= 256 => Variant::Avx2,
        Some(_) => Variant::Sse2,
        None => Variant::detect(),
    };
    KERNELS
        .iter()
        .filter_map(|kernel| {
            let code = kernel.code(variant)?;
            let class = class(kernel.built_for, code, machine)?;
            Some((code.symbol.to_owned(), class.to_owned()))
        })
        .collect()
}

fn class(built_for: BuiltFor, code: &Code, machine: &Machine) -> Option<&'static str> {
    let one = |id: &str| machine.value(id, 1);
    let width = code.variant.width();
    let roof = |precision: &str| one(&format!("{precision}.fma"));
    let wide = |precision: &str| one(&format!("{precision}.fma.{width}"));
    Some(match built_for {
        BuiltFor::Class(class) => class,
        BuiltFor::Peak if code.variant == Variant::Sse2 => "peak",
        BuiltFor::Peak => if_less(wide("dp")?, roof("dp")? / GAIN, "simd", "peak"),
        BuiltFor::Width(width) => if_less(one(&format!("sp.fma.{width}"))?, roof("sp")? / GAIN, "simd", "peak"),
        BuiltFor::OneOperation(precision, operation) => {
            let all_fma = wide(precision).or_else(|| one(&format!("{precision}.balance.addmul")))?;
            if_less(one(&format!("{precision}.{operation}.{width}"))?, BALANCED * all_fma, "fma-balance", "peak")
        }
        BuiltFor::AddMul => match wide("dp") {
            Some(all_fma) => if_less(one("dp.balance.addmul")?, BALANCED * all_fma, "fma-balance", "peak"),
            None => "peak",
        },
        BuiltFor::Filler(filler, count) => {
            if_less(one(&format!("mix.{filler}.{count}"))?, roof("dp")? / GAIN, "instruction-mix", "peak")
        }
        BuiltFor::Accesses { loads, stores } => {
            // Seconds that one add takes in its pipe, and that its accesses take.
            let bytes = code.variant.vector_bytes() as f64;
            let add = bytes / 8.0 / one(&format!("dp.add.{width}"))?;
            let load = f64::from(loads) * bytes / one("l1.read")?;
            let store = if stores == 0 { 0.0 } else { f64::from(stores) * bytes / one("l1.write")? };
            if_less(GAIN * add, load.max(store), "l1-bandwidth", "fma-balance")
        }
        BuiltFor::Integer => if_less(one("int.alu")?, one("issue")? / GAIN, "peak", "instruction-mix"),
    })
}

fn if_less(a: f64, b: f64, then: &'static str, otherwise: &'static str) -> &'static str {
    if a < b { then } else { otherwise }
}
