//! The class that each kernel must come out as on a given host, from that host's measured ceilings.
//!
//! A kernel is built to hit one ceiling, but the class that results can depend on the host: a kernel of adds only is
//! `fma-balance` if adds and FMAs share pipes of equal width, and so on.

use std::collections::BTreeMap;

use rprof_profile::Machine;
use rprof_profile::vocabulary::Class;

use super::kernels::{BuiltFor, Code, KERNELS};
use super::variant::Variant;

/// Gains below this share are none (docs/conventions.md, Model).
const GAIN: f64 = 1.03;
/// `fma-balance` only below this share of the all-FMA rate (docs/conventions.md, Model).
const BALANCED: f64 = 0.97;

/// Function name → class, for every kernel that a CPU like `machine`'s runs. Leaves out a kernel if its class depends on
/// a ceiling without a measurement.
pub fn expected(machine: &Machine) -> BTreeMap<String, Class> {
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
            Some((code.symbol.to_owned(), class))
        })
        .collect()
}

fn class(built_for: BuiltFor, code: &Code, machine: &Machine) -> Option<Class> {
    // Per cycle: compares ceilings of one core, which may have been measured at different clocks.
    let rate = |id: String| {
        let ceiling = machine.ceiling(&id, 1)?;
        Some(ceiling.value? / ceiling.clock_hz.unwrap_or(1.0))
    };
    let width = code.variant.width();
    let vector = code.variant.vector_bytes() as f64;
    let roof = |precision: &str| rate(format!("{precision}.fma"));
    let all_fma = |precision: &str| rate(format!("{precision}.fma.{width}"));
    Some(match built_for {
        BuiltFor::Class(class) => class,
        BuiltFor::Peak => match all_fma("dp") {
            Some(own) => either(own * GAIN < roof("dp")?, Class::Simd, Class::Peak),
            // Adds and multiplies in even shares are the roof of a CPU without FMA.
            None => Class::Peak,
        },
        BuiltFor::Width(width) => {
            either(rate(format!("sp.fma.{width}"))? * GAIN < roof("sp")?, Class::Simd, Class::Peak)
        }
        BuiltFor::OneOperation(precision, operation) => {
            let own = rate(format!("{precision}.{operation}.{width}"))?;
            let balanced = all_fma(precision).or_else(|| rate(format!("{precision}.balance.addmul")))?;
            either(own < BALANCED * balanced, Class::FmaBalance, Class::Peak)
        }
        BuiltFor::AddMul => match all_fma("dp") {
            Some(balanced) => {
                either(rate("dp.balance.addmul".into())? < BALANCED * balanced, Class::FmaBalance, Class::Peak)
            }
            None => Class::Peak,
        },
        BuiltFor::Filler(filler, count) => {
            // Seconds that one FMA takes in its pipe, and that it and its fillers take.
            let fma = 2.0 * vector / 8.0 / all_fma("dp").or_else(|| roof("dp"))?;
            let mix = f64::from(count) / rate(format!("mix.{filler}.{count}"))?;
            either(GAIN * fma < mix, Class::InstructionMix, Class::Peak)
        }
        BuiltFor::Accesses { loads, stores } => {
            // Seconds that one add takes in its pipe, and that its accesses take.
            let add = vector / 8.0 / rate(format!("dp.add.{width}"))?;
            let accesses = |kind: &str, count: u32| match count {
                0 => Some(0.0),
                _ => Some(f64::from(count) / rate(format!("l1.access.{kind}.fp.{width}"))?),
            };
            let accesses = accesses("load", loads)?.max(accesses("store", stores)?);
            either(GAIN * add < accesses, Class::L1Bandwidth, Class::FmaBalance)
        }
        BuiltFor::Integer => {
            either(GAIN * rate("int.alu.scalar".into())? < rate("issue".into())?, Class::Peak, Class::InstructionMix)
        }
    })
}

fn either(condition: bool, then: Class, otherwise: Class) -> Class {
    if condition { then } else { otherwise }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::machine::Ceiling;

    /// Rates per cycle at 1 Hz.
    fn machine(vector_bits: u32, rates: &[(&str, f64)]) -> Machine {
        let ceiling = |(id, value): &(&str, f64)| Ceiling::reproduced(id, *value, "flop/s", 1);
        Machine { vector_bits: Some(vector_bits), ceilings: rates.iter().map(ceiling).collect(), ..Machine::default() }
    }

    const COMMON: &[(&str, f64)] = &[("dp.fma", 32.0), ("sp.fma", 64.0), ("issue", 7.8), ("int.alu.scalar", 5.5)];

    #[test]
    fn separate_full_width_pipes() {
        // Zen 5: two FMA and two add pipes of 512 bits.
        let mut rates = COMMON.to_vec();
        rates.extend([
            ("dp.fma.512", 32.0),
            ("sp.fma.128", 16.0),
            ("sp.fma.256", 32.0),
            ("sp.fma.512", 64.0),
            ("dp.add.512", 16.0),
            ("sp.mul.512", 32.0),
            ("dp.balance.addmul", 32.0),
            ("mix.mov.8", 6.7),
            ("l1.access.load.fp.512", 2.0),
            ("l1.access.store.fp.512", 1.0),
        ]);
        let expected = expected(&machine(512, &rates));
        for (symbol, class) in [
            ("demo_peak_avx512", Class::Peak),
            ("demo_simd_half_avx512", Class::Simd),
            ("demo_balance_add_avx512", Class::FmaBalance),
            ("demo_balance_mul_avx512", Class::FmaBalance),
            ("demo_add_mul_avx512", Class::Peak),
            ("demo_mix_mov_avx512", Class::InstructionMix),
            ("demo_l1_loads_avx512", Class::L1Bandwidth),
            ("demo_l1_store_avx512", Class::L1Bandwidth),
            ("demo_int", Class::Peak),
            ("demo_mispredict", Class::Mispredict),
        ] {
            assert_eq!(expected.get(symbol), Some(&class), "{symbol}");
        }
        assert!(!expected.contains_key("demo_peak_avx2"), "the kernels of another instruction set do not run");
        assert!(!expected.contains_key("demo_mix_add_avx512"), "mix.alu.16 was not measured");
    }

    #[test]
    fn the_host_decides_the_class() {
        // Zen 4: 512-bit instructions take two turns of 256-bit pipes.
        let halves = [("sp.fma.256", 64.0), ("sp.fma.512", 64.0), ("dp.fma.512", 32.0)];
        let zen4 = expected(&machine(512, &[COMMON, &halves].concat()));
        assert_eq!(zen4["demo_simd_half_avx512"], Class::Peak);
        // Shared pipes: adds and multiplies exclude one another.
        let shared = [("dp.fma.256", 32.0), ("dp.balance.addmul", 16.0), ("dp.add.256", 16.0)];
        let shared = expected(&machine(256, &[COMMON, &shared].concat()));
        assert_eq!(shared["demo_add_mul_avx2"], Class::FmaBalance);
        // A CPU with adds as wide as the only mix it has.
        let plain = [("dp.balance.addmul", 4.0), ("dp.add.128", 4.0), ("issue", 4.0), ("int.alu.scalar", 4.0)];
        let plain = expected(&machine(128, &plain));
        assert_eq!(plain["demo_peak_sse2"], Class::Peak);
        assert_eq!(plain["demo_balance_add_sse2"], Class::Peak);
        assert_eq!(plain["demo_int"], Class::InstructionMix);
    }

    #[test]
    fn a_measured_host_has_every_ceiling_that_a_class_rests_on() {
        let text = include_str!("../../../fixtures/machines/zen4-guest.json");
        let expected = expected(&serde_json::from_str(text).unwrap());
        let shown = KERNELS.iter().filter(|k| k.in_demo).filter_map(|k| k.code(Variant::Avx512));
        let lacking: Vec<&str> = shown.map(|code| code.symbol).filter(|s| !expected.contains_key(*s)).collect();
        assert!(lacking.is_empty(), "no class for {lacking:?}");
        assert_eq!(expected["demo_l1_loads_avx512"], Class::L1Bandwidth);
    }
}
