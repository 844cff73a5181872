//! The instructions of a hot loop, each with its executions and its time.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Own instructions of a loop; those of its inner loops are not among them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Disassembly {
    /// By ascending address. Code that did not run in the counted pass is not among them.
    pub instructions: Vec<LoopInstruction>,
    /// Further instructions of the loop, which took less time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoopInstruction {
    /// Its virtual address as the module's ELF file states it.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u8,
    /// In Intel syntax; targets of jumps and calls are addresses like `offset`.
    pub text: String,
    /// Executions of all threads; `null` if that was not counted.
    pub executions: Option<u64>,
    /// CPU seconds of the samples that fell on it; `null` if none did. They may belong to the instruction before it.
    pub cpu_s: Option<f64>,
}

impl Disassembly {
    /// The `most` consecutive instructions with most time, else most executions.
    pub fn hottest(&self, most: usize) -> &[LoopInstruction] {
        &self.instructions[hottest(&self.instructions, most, |i| (i.cpu_s.unwrap_or(0.0), i.executions.unwrap_or(0)))]
    }

    /// The address of its first instruction.
    pub fn start(&self) -> Option<u64> {
        self.instructions.first().map(|i| i.offset)
    }

    /// Adds the figures of `other`; `None` if that is other code.
    pub fn plus(mut self, other: &Disassembly) -> Option<Disassembly> {
        let is_same = |(a, b): (&LoopInstruction, &LoopInstruction)| (a.offset, &a.text) == (b.offset, &b.text);
        let all_same = self.instructions.iter().zip(&other.instructions).all(is_same);
        if self.instructions.len() != other.instructions.len() || !all_same {
            return None;
        }
        for (a, b) in self.instructions.iter_mut().zip(&other.instructions) {
            a.executions = a.executions.zip(b.executions).map(|(a, b)| a + b);
            a.cpu_s = a.cpu_s.into_iter().chain(b.cpu_s).reduce(|a, b| a + b);
        }
        Some(self)
    }
}

/// The indices of the `most` consecutive ones of `all` with the greatest sum of (seconds, executions).
pub fn hottest<T>(all: &[T], most: usize, heat: impl Fn(&T) -> (f64, u64)) -> Range<usize> {
    if all.len() <= most {
        return 0..all.len();
    }
    let sum = |from: usize| {
        all[from..from + most].iter().map(&heat).fold((0.0, 0u64), |a, b| (a.0 + b.0, a.1.saturating_add(b.1)))
    };
    let mut best = (0, sum(0));
    for from in 1..=all.len() - most {
        let here = sum(from);
        if here.0.total_cmp(&best.1.0).then(here.1.cmp(&best.1.1)).is_gt() {
            best = (from, here);
        }
    }
    best.0..best.0 + most
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(figures: &[(Option<f64>, u64)]) -> Disassembly {
        let instruction = |(i, (cpu_s, n)): (usize, &(Option<f64>, u64))| LoopInstruction {
            offset: 0x1000 + 4 * i as u64,
            length: 4,
            text: format!("op{i}"),
            executions: Some(*n),
            cpu_s: *cpu_s,
        };
        Disassembly { instructions: figures.iter().enumerate().map(instruction).collect(), left_out: 0 }
    }

    #[test]
    fn the_hottest_stretch_is_that_of_most_time_then_of_most_executions() {
        let of = |all: &Disassembly, most| all.hottest(most).iter().map(|i| i.text.clone()).collect::<Vec<_>>();
        let all = code(&[(None, 9), (Some(1.0), 1), (Some(3.0), 1), (None, 50), (None, 50)]);
        assert_eq!(of(&all, 2), ["op1", "op2"]);
        assert_eq!(of(&all, 3), ["op1", "op2", "op3"], "as much time as op0 to op2, and more executions");
        assert_eq!(of(&all, 9).len(), 5);
        assert_eq!(of(&code(&[(None, 1), (None, 5), (None, 4)]), 1), ["op1"]);
        assert!(code(&[]).hottest(3).is_empty());
    }

    #[test]
    fn figures_of_the_same_code_add_up() {
        let sum = code(&[(Some(1.0), 3), (None, 4)]).plus(&code(&[(Some(0.5), 1), (Some(2.0), 1)])).unwrap();
        let figures: Vec<_> = sum.instructions.iter().map(|i| (i.cpu_s, i.executions)).collect();
        assert_eq!(figures, [(Some(1.5), Some(4)), (Some(2.0), Some(5))]);
        assert_eq!(code(&[(None, 1)]).plus(&code(&[(None, 1), (None, 1)])), None);
        let mut other = code(&[(None, 1)]);
        other.instructions[0].text = "another".into();
        assert_eq!(code(&[(None, 1)]).plus(&other), None);
    }
}
