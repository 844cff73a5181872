//! What was measured in each placement of the CPUs: the ceilings of several threads beyond L2.
//!
//! ```text
//! rate in placement p ─ the main one? ──▶ recorded
//!                     └ every p ────────▶ kept apart ─ at the end one with the best memory is the main one: the best known of them
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Lab;
use crate::machine::doubt;
use crate::machine::error::MachineError;
use crate::profile::machine::Ceiling;
use crate::profile::placement::{CoreToCore, Placed, depends};

/// How the reason of a ceiling begins that was measured in another placement than its neighbours in the list.
const ELSEWHERE: &str = "with the CPUs placed otherwise";

/// Time between two looks for another placement.
const LOOK: Duration = Duration::from_millis(20);

/// The ceiling whose best value names the main placement.
const NAMED_BY: &str = "dram.read";

/// Placements in which that differs by no more than this factor are as good as each other.
const AS_GOOD: f64 = 1.1;

/// Ceilings by placement.
#[derive(Debug, Default)]
pub struct ByPlacement {
    /// The placement that the list of ceilings is of.
    main: Option<usize>,
    /// Of each placement that the stopwatch knows.
    all: Vec<Vec<Ceiling>>,
}

impl ByPlacement {
    fn of(&mut self, placement: usize) -> &mut Vec<Ceiling> {
        if self.all.len() <= placement {
            self.all.resize_with(placement + 1, Vec::new);
        }
        &mut self.all[placement]
    }

    /// Whether `placement` is the main one; the first one is at first.
    pub fn is_main(&mut self, placement: usize) -> bool {
        *self.main.get_or_insert(placement) == placement
    }

    /// What is known of ceiling `like` in `placement`.
    pub fn found(&self, placement: usize, like: &Ceiling) -> Option<&Ceiling> {
        self.all.get(placement)?.iter().find(|c| c.is_same(like))
    }

    /// The ceilings of each placement but the main one.
    pub fn others(&mut self) -> impl Iterator<Item = &mut Vec<Ceiling>> {
        let main = self.main;
        self.all.iter_mut().enumerate().filter(move |(at, _)| Some(*at) != main).map(|(_, there)| there)
    }

    /// Keeps `ceiling` as what `placement` shows.
    pub fn keep(&mut self, placement: usize, ceiling: Ceiling) {
        put(self.of(placement), ceiling);
    }

    /// The placement to show, if it is not the main one: of those in which [`NAMED_BY`] at `threads` is best, or as good, the one in
    /// which most is settled, at least half as much as in the main one.
    fn better(&self, threads: usize) -> Option<usize> {
        let main = self.main?;
        let read = |at: usize| {
            let found = self.all.get(at)?.iter().find(|c| c.is(NAMED_BY, threads as u32))?;
            found.value
        };
        let known = |at: usize| self.all.get(at).map_or(0, |all| all.iter().filter(|c| c.settled).count());
        let enough: Vec<(usize, f64)> = (0..self.all.len())
            .filter(|at| 2 * known(*at) >= known(main))
            .filter_map(|at| Some((at, read(at)?)))
            .collect();
        let highest = enough.iter().map(|(_, read)| *read).fold(0.0, f64::max);
        let as_good = enough.iter().filter(|(_, read)| highest <= AS_GOOD * read);
        let best = as_good.max_by(|(a, reads_a), (b, reads_b)| {
            let most = |at: usize| (known(at), at == main);
            most(*a).cmp(&most(*b)).then(reads_a.total_cmp(reads_b))
        });
        best.map(|(at, _)| *at).filter(|at| *at != main)
    }
}

fn put(all: &mut Vec<Ceiling>, ceiling: Ceiling) {
    match all.iter_mut().find(|c| c.is_same(&ceiling)) {
        Some(old) => *old = ceiling,
        None => all.push(ceiling),
    }
}

/// Whether a ceiling is of another placement than the list that it stands in.
pub fn is_elsewhere(ceiling: &Ceiling) -> bool {
    ceiling.reason.as_deref().is_some_and(|r| r.starts_with(ELSEWHERE))
}

/// Marks a ceiling as one of another placement than the list that it stands in.
pub fn elsewhere(ceiling: Ceiling) -> Ceiling {
    let reason = Some(format!("{ELSEWHERE}; a later run measures it again"));
    Ceiling { settled: false, reason, ..ceiling }
}

impl Lab {
    /// Takes over that what was resumed was measured with the CPUs at `core_to_core`.
    pub(super) fn resume_placement(&mut self, core_to_core: &CoreToCore) {
        let main = self.watch.know(core_to_core);
        self.by_placement.main = Some(main);
        let measured = |c: &&Ceiling| depends(c) && c.value.is_some() && !doubt::is_alias(c) && !doubt::is_earlier(c);
        for ceiling in self.ceilings.iter().filter(measured) {
            self.by_placement.keep(main, ceiling.clone());
        }
    }

    /// Waits until the hypervisor has placed the CPUs as nothing was measured yet, by keeping them busy, upon which it tends to
    /// move them apart, and then idle, upon which it tends to move them together; either for at most `patience`. Whether it did.
    ///
    /// # Errors
    /// [`MachineError::Thread`].
    pub fn meet_another_placement(&self, patience: Duration) -> Result<bool, MachineError> {
        if !self.watch.knows_placements() {
            return Ok(false);
        }
        let is_new = |at: usize| self.by_placement.all.get(at).is_none_or(Vec::is_empty);
        for busy in [true, false] {
            let end = Instant::now() + patience;
            while Instant::now() < end {
                if self.watch.placement()?.is_some_and(is_new) {
                    return Ok(true);
                }
                let look = Instant::now() + LOOK;
                if busy {
                    let spin = move |_| while Instant::now() < look {};
                    self.team().run(self.most(), Arc::new(spin))?;
                } else {
                    std::thread::sleep(LOOK / 2);
                }
            }
        }
        Ok(false)
    }

    /// Has the list show the placement in which the memory is best, or the best known of several such. What was not measured there is marked.
    pub(super) fn choose_placement(&mut self) {
        let Some(best) = self.by_placement.better(self.most()) else { return };
        self.by_placement.main = Some(best);
        let there = self.by_placement.all[best].clone();
        for ceiling in self.ceilings.iter_mut().filter(|c| depends(c) && c.value.is_some() && !doubt::is_alias(c)) {
            *ceiling = match there.iter().find(|c| c.is_same(ceiling)) {
                Some(known) => known.clone(),
                None => elsewhere(ceiling.clone()),
            };
        }
        there.into_iter().for_each(|ceiling| put(&mut self.ceilings, ceiling));
        for alias in aliases(&self.ceilings, &self.ceilings) {
            put(&mut self.ceilings, alias);
        }
    }

    /// The placement that the list shows, and what was measured in others.
    pub fn take_placements(&mut self) -> (Option<CoreToCore>, Vec<Placed>) {
        let known = self.watch.placements();
        let by_placement = std::mem::take(&mut self.by_placement);
        let main = by_placement.main;
        let others = by_placement.all.into_iter().enumerate().filter(|(at, all)| Some(*at) != main && !all.is_empty());
        let others = others.filter_map(|(at, mut ceilings)| {
            let names = aliases(&self.ceilings, &ceilings);
            ceilings.extend(names);
            Some(Placed { core_to_core: known.get(at)?.clone(), ceilings })
        });
        let others = others.collect();
        (main.and_then(|at| known.get(at).cloned()), others)
    }
}

/// The other names that `list` has for ceilings that depend on the placement, with the values of `measured`.
fn aliases(list: &[Ceiling], measured: &[Ceiling]) -> Vec<Ceiling> {
    let names = list.iter().filter(|c| depends(c) && doubt::is_alias(c));
    let of = |name: &Ceiling| {
        let source = measured.iter().find(|c| c.is(doubt::measured_as(name), name.threads))?;
        Some(Ceiling { id: name.id.clone(), reason: name.reason.clone(), ..source.clone() })
    };
    names.filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(id: &str, value: f64) -> Ceiling {
        Ceiling { clock_hz: Some(1e9), spread: Some(0.01), ..Ceiling::settled(id, value, "byte/s", 2) }
    }

    #[test]
    fn the_placement_with_the_best_memory_is_shown_if_enough_was_measured_there() {
        let mut all = ByPlacement::default();
        assert!(all.is_main(0) && !all.is_main(1));
        for id in ["dram.read", "dram.copy", "dram.triad", "l3.read"] {
            all.keep(0, ceiling(id, 40e9));
        }
        assert_eq!(all.better(2), None);
        all.keep(1, ceiling("dram.read", 70e9));
        assert_eq!(all.better(2), None, "too little is known there");
        all.keep(1, ceiling("dram.copy", 80e9));
        assert_eq!(all.better(2), Some(1));
        for id in ["dram.read", "dram.copy", "dram.triad", "l3.read", "l3.copy"] {
            all.keep(2, ceiling(id, 66e9));
        }
        assert_eq!(all.better(2), Some(2), "as good, and more is known there");
        all.keep(0, ceiling("dram.read", 65e9));
        assert_eq!(all.better(2), Some(2));
        all.keep(0, ceiling("l3.copy", 40e9));
        assert_eq!(all.better(2), None, "as much is known of the main one");
        all.keep(0, Ceiling { settled: false, ..ceiling("l3.copy", 40e9) });
        assert_eq!(all.better(2), Some(2), "what is in doubt is not known");
        assert_eq!(all.found(1, &ceiling("dram.read", 0.0)).and_then(|c| c.value), Some(70e9));
    }

    #[test]
    fn other_names_have_the_values_of_their_placement() {
        let name = Ceiling { reason: Some(doubt::alias_of("dram.read")), ..ceiling("dram.cores.2", 40e9) };
        let found = aliases(&[name, ceiling("dram.read", 40e9)], &[ceiling("dram.read", 70e9)]);
        assert_eq!(found.iter().map(|c| (c.id.as_str(), c.value)).collect::<Vec<_>>(), [("dram.cores.2", Some(70e9))]);
    }
}
