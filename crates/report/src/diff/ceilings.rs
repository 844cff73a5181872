//! Ceilings with a value that differs between two profiles: another machine, or measured anew. Their intervals are errors of every
//! comparison of roof fractions; ceilings that both profiles share cancel out.

use std::collections::HashMap;

use rprof_profile::function::FunctionCeiling;
use rprof_profile::{Function, Machine};

/// Relative intervals of the ceilings that differ, by id.
#[derive(Debug, Clone, Default)]
pub struct Moved<'p>(HashMap<&'p str, f64>);

impl<'p> Moved<'p> {
    /// Of two machines, or of one with ceilings measured twice.
    pub fn between(old: &'p Machine, new: &'p Machine) -> Moved<'p> {
        let values: HashMap<_, _> = new.ceilings.iter().map(|c| ((&*c.id, c.threads), c.value)).collect();
        let mut moved: HashMap<&str, f64> = HashMap::new();
        for c in old.ceilings.iter().filter(|c| values.get(&(&*c.id, c.threads)) != Some(&c.value)) {
            let widest = moved.entry(&c.id).or_default();
            *widest = widest.max(c.spread.unwrap_or(0.0));
        }
        Moved(moved)
    }

    /// Whether none differs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Relative error of comparing the roof fractions of a function: the widest interval among the ceilings behind its binding ones.
    pub fn error(&self, old: Option<&Function>, new: Option<&Function>) -> f64 {
        let binding = |f: &Function, c: &FunctionCeiling| f.analysis.binding.as_ref() == Some(&c.id);
        let behind = [old, new].into_iter().flatten().flat_map(|f| {
            let of = f.analysis.ceilings.iter().filter(move |c| binding(f, c));
            of.flat_map(|c| &c.from)
        });
        behind.filter_map(|id| self.0.get(id.as_str())).fold(0.0, |widest, spread| spread.max(widest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    #[test]
    fn only_ceilings_that_differ_are_an_error() {
        let old = sample::profile();
        let triad = old.functions.iter().find(|f| f.name == "triad").unwrap();
        assert!(Moved::between(&old.machine, &old.machine).is_empty());
        let mut new = old.clone();
        for c in new.machine.ceilings.iter_mut().filter(|c| c.id.starts_with("dram.")) {
            c.value = c.value.map(|value| 1.1 * value);
        }
        let moved = Moved::between(&old.machine, &new.machine);
        let behind =
            |id: &str| old.machine.ceilings.iter().filter(|c| c.id == id).filter_map(|c| c.spread).fold(0.0, f64::max);
        let from = triad.analysis.ceilings.iter().find(|c| Some(&c.id) == triad.analysis.binding.as_ref()).unwrap();
        let widest = from.from.iter().map(|id| behind(id)).fold(0.0, f64::max);
        assert!(widest > 0.0, "{:?}", from.from);
        assert_eq!(moved.error(Some(triad), Some(triad)), widest);
        let held_in_the_core = old.functions.iter().find(|f| f.name == "gemm_block").unwrap();
        assert_eq!(moved.error(Some(held_in_the_core), None), 0.0);
    }
}
