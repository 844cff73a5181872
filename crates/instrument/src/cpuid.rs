//! What `cpuid` answers a counted program in place of the host's answers: libraries that choose their code by it then choose alike on
//! every host.

use std::arch::x86_64::__cpuid_count;
use std::collections::HashMap;

/// eax, ebx, ecx, edx.
pub type Answer = [u32; 4];

/// Fixed answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FixedCpuid {
    /// By leaf (`eax`) and subleaf (`ecx`).
    answers: HashMap<(u32, u32), Answer>,
    /// Leaves that the host answers.
    host: Vec<u32>,
}

impl FixedCpuid {
    /// These answers by leaf and subleaf; `host` are leaves that the host answers. All others are 0, as AMD's processors have it.
    pub fn new(answers: HashMap<(u32, u32), Answer>, host: Vec<u32>) -> FixedCpuid {
        FixedCpuid { answers, host }
    }

    /// The answer for a program with these registers.
    pub fn answer(&self, leaf: u32, subleaf: u32) -> Answer {
        if self.host.contains(&leaf) {
            return host_answer(leaf, subleaf);
        }
        // Other leaves do not read `ecx`.
        let subleaf = if has_subleaves(leaf) { subleaf } else { 0 };
        self.answers.get(&(leaf, subleaf)).copied().unwrap_or_default()
    }
}

/// The host's own answer.
pub fn host_answer(leaf: u32, subleaf: u32) -> Answer {
    let found = __cpuid_count(leaf, subleaf);
    [found.eax, found.ebx, found.ecx, found.edx]
}

fn has_subleaves(leaf: u32) -> bool {
    matches!(
        leaf,
        0x4 | 0x7 | 0xb | 0xd | 0xf | 0x10 | 0x12 | 0x14 | 0x17
            ..=0x20 | 0x23 | 0x24 | 0x8000_001d | 0x8000_0020 | 0x8000_0026
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_leaves_are_answered_and_others_are_0_or_the_hosts() {
        let answers = HashMap::from([((1, 0), [1, 2, 3, 4]), ((7, 0), [0, 5, 6, 7])]);
        let fixed = FixedCpuid::new(answers, vec![0xd]);
        assert_eq!(fixed.answer(1, 0x77), [1, 2, 3, 4], "ecx does not matter");
        assert_eq!(
            (fixed.answer(7, 0), fixed.answer(7, 1), fixed.answer(0x4000_0000, 0)),
            ([0, 5, 6, 7], [0; 4], [0; 4])
        );
        assert_eq!(fixed.answer(0xd, 0), host_answer(0xd, 0));
    }
}
