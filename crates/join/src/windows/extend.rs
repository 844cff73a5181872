//! Multiplies what windows met by the factors of its strata.

use std::collections::HashMap;

use super::attribute::Attributed;
use super::strata::StratumId;
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::blocks::BlockCount;
use rprof_profile::evidence::memory::MemoryEvidence;

/// The factors by place.
#[derive(Debug)]
pub struct Factors {
    by_place: HashMap<CodeRef, f64>,
    of_program: f64,
}

impl Factors {
    /// Those of `attributed`, for the `instructions` of all windows; `by_place` has the strata of the places.
    pub fn new(
        attributed: &Attributed,
        instructions: &HashMap<StratumId, f64>,
        by_place: HashMap<CodeRef, StratumId>,
    ) -> Self {
        let factor = |id: StratumId| attributed.factor(id, instructions.get(&id).copied().unwrap_or(0.0));
        let by_place = by_place.into_iter().map(|(at, id)| (at, factor(id))).collect();
        Factors { by_place, of_program: 1.0 + attributed.expansion }
    }

    fn of(&self, at: CodeRef) -> f64 {
        self.by_place.get(&at).copied().unwrap_or(self.of_program)
    }

    /// Extends counts.
    pub fn apply(&self, blocks: &mut [BlockCount]) {
        for block in blocks {
            let factor = self.of(block.at);
            let more = |n: u64| (n as f64 * factor).round() as u64;
            block.executions.iter_mut().for_each(|(_, n)| *n = more(*n));
            block.dynamic.iter_mut().for_each(|d| d.sum = more(d.sum));
            block.calls.iter_mut().for_each(|c| c.count = more(c.count));
        }
    }

    /// Extends traffic.
    pub fn apply_to_traffic(&self, mut memory: MemoryEvidence) -> MemoryEvidence {
        for site in &mut memory.sites {
            site.traffic = site.traffic.extended(self.of(site.at));
        }
        for site in &mut memory.data.sites {
            site.lines *= self.of(site.at);
        }
        memory.first_touches.iter().for_each(|limit| limit.apply(&mut memory.sites));
        memory
    }
}
