//! The features of the reference core that this host has, and what `cpuid` answers the program.

use std::collections::HashMap;

use crate::instrument::cpuid::{Answer, FixedCpuid, host_answer};
use crate::replay::reference::ReferenceCore;

/// What the program is told.
#[derive(Debug, Clone)]
pub struct Features {
    /// Names of features that both have.
    pub told: Vec<String>,
    /// Names of those that this host lacks.
    pub missing: Vec<String>,
    pub cpuid: FixedCpuid,
}

impl Features {
    /// The features of `core` on this host.
    pub fn of_host(core: &ReferenceCore) -> Features {
        Features::on(core, host_answer)
    }

    /// The same on a host with these answers by leaf and subleaf.
    fn on(core: &ReferenceCore, host: impl Fn(u32, u32) -> Answer) -> Features {
        let mut answers: HashMap<(u32, u32), Answer> =
            core.leaves.iter().map(|leaf| ((leaf.leaf, leaf.subleaf), leaf.registers)).collect();
        let (mut told, mut missing) = (Vec::new(), Vec::new());
        for feature in &core.features {
            let (leaf, subleaf) = feature.place();
            let is_here = host(leaf, subleaf)[feature.register()] & feature.mask() != 0;
            if is_here {
                answers.entry((leaf, subleaf)).or_default()[feature.register()] |= feature.mask();
                told.push(feature.name.clone());
            } else {
                missing.push(feature.name.clone());
            }
        }
        Features { told, missing, cpuid: FixedCpuid::new(answers, core.host_leaves.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit of leaf 7, ebx.
    const AVX2: u32 = 1 << 5;
    const AVX512F: u32 = 1 << 16;

    #[test]
    fn a_program_sees_what_both_have() {
        let core = ReferenceCore::embedded().unwrap();
        let rich = Features::on(&core, |_, _| [u32::MAX; 4]);
        let seen = rich.cpuid.answer(7, 0)[1];
        assert!(rich.missing.is_empty() && seen & AVX2 != 0 && seen & AVX512F == 0, "{seen:#x}");
        let poor = Features::on(&core, |leaf, _| if leaf == 7 { [0; 4] } else { [u32::MAX; 4] });
        assert_eq!((poor.missing.len(), poor.cpuid.answer(7, 0)[1] & AVX2), (3, 0));
        assert!(
            poor.missing.iter().all(|name| ["avx2", "bmi1", "bmi2"].contains(&name.as_str())),
            "{:?}",
            poor.missing
        );
        assert_eq!(rich.cpuid.answer(0, 0)[1].to_le_bytes(), *b"Auth");
    }
}
