//! Figures of one function by source line and by inlined function.

use std::collections::HashMap;

use super::code_map::CodeMap;
use super::modules::Place;
use super::resolver::SourceLine;
use super::shown_names::ShownNames;
use rprof_profile::function::{InlineFacts, LineFacts};

/// Maximum lines and inlined functions listed, most expensive first.
const KEPT: usize = 60;

/// Figures of one instruction; `None` if that pass is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AtInstruction {
    /// CPU seconds of samples that fell on it. They may belong to the instruction before (skid).
    pub cpu_s: Option<f64>,
    /// Executions.
    pub instructions: Option<u64>,
    /// FLOPs.
    pub flops: Option<u64>,
    /// DRAM bytes.
    pub dram_bytes: Option<f64>,
}

impl AtInstruction {
    /// Adds `other`; a figure counts as measured if either side has it.
    pub fn add(&mut self, other: &AtInstruction) {
        fn sum<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            }
        }
        self.cpu_s = sum(self.cpu_s, other.cpu_s);
        self.instructions = sum(self.instructions, other.instructions);
        self.flops = sum(self.flops, other.flops);
        self.dram_bytes = sum(self.dram_bytes, other.dram_bytes);
    }

    fn rank(&self) -> (f64, u64) {
        (self.cpu_s.unwrap_or(0.0), self.instructions.unwrap_or(0))
    }
}

/// Sums `instructions` (offset, figures) in `module` by line and by inlined function.
pub fn by_line(
    instructions: &[(u64, AtInstruction)],
    module: u32,
    code: &mut CodeMap,
    names: &ShownNames,
) -> (Vec<LineFacts>, Vec<InlineFacts>) {
    let mut lines: HashMap<SourceLine, AtInstruction> = HashMap::new();
    let mut inlined: HashMap<_, (Option<SourceLine>, AtInstruction)> = HashMap::new();
    for (offset, figures) in instructions {
        let place = Place { module, offset: *offset };
        if let Some(line) = code.line(place) {
            lines.entry(line).or_default().add(figures);
        }
        let mut frames = code.inlined(place);
        frames.sort_by(|a, b| a.name.cmp(&b.name));
        frames.dedup_by(|a, b| a.name == b.name);
        for frame in frames {
            let entry = inlined.entry(frame.name).or_insert((frame.line, AtInstruction::default()));
            entry.1.add(figures);
        }
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_unstable_by(|a, b| descending(&a.1, &b.1).then_with(|| a.0.cmp(&b.0)));
    lines.truncate(KEPT);
    let mut inlined: Vec<_> = inlined.into_iter().collect();
    inlined.sort_unstable_by(|a, b| descending(&a.1.1, &b.1.1).then_with(|| a.0.cmp(&b.0)));
    inlined.truncate(KEPT);
    let line_facts = |(line, figures): (SourceLine, AtInstruction)| LineFacts {
        file: Some(line.file.to_string()),
        line: line.line,
        cpu_s: figures.cpu_s,
        instructions: figures.instructions,
        flops: figures.flops,
        dram_bytes: figures.dram_bytes.map(super::traffic::whole),
    };
    let inline_facts =
        |(name, (line, figures)): (std::sync::Arc<str>, (Option<SourceLine>, AtInstruction))| InlineFacts {
            name: names.of(&name),
            file: line.as_ref().map(|l| l.file.to_string()),
            line: line.map(|l| l.line),
            cpu_s: figures.cpu_s,
            instructions: figures.instructions,
            flops: figures.flops,
        };
    (lines.into_iter().map(line_facts).collect(), inlined.into_iter().map(inline_facts).collect())
}

fn descending(a: &AtInstruction, b: &AtInstruction) -> std::cmp::Ordering {
    let (a, b) = (a.rank(), b.rank());
    b.0.total_cmp(&a.0).then(b.1.cmp(&a.1))
}
