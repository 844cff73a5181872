//! Runs the machine's ceiling kernels through the model and compares its traffic with the known one.
//!
//! Streams with the loads and stores of the `dram.*` ceilings repeatedly traverse twice the size of the caches. The error is the model's
//! traffic divided by the traffic that the kernel moves by definition. It contains the effects of page placement and replacement on
//! streams, but not those of real prefetchers and replacement policies.

use rprof_basics::on_all_cpus::on_all_cpus;

use crate::address::page_color::{PageColoring, SetSample};
use crate::caches::geometry::Geometry;
use crate::caches::line::{Bytes, Line, Owner};
use crate::hierarchy::{Hierarchy, Scope};

/// A ceiling kernel.
struct Kernel {
    id: &'static str,
    /// Arrays that it loads.
    loads: u64,
    store: Store,
}

/// Target of a kernel's stores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Store {
    /// It does not.
    None,
    /// The array that it loads.
    InPlace,
    /// An array of its own, with lines that are filled.
    Filled,
    /// An array of its own, past the caches.
    Past,
}

const KERNELS: [Kernel; 8] = [
    Kernel { id: "dram.read", loads: 1, store: Store::None },
    Kernel { id: "dram.copy", loads: 1, store: Store::Filled },
    Kernel { id: "dram.triad", loads: 2, store: Store::Filled },
    Kernel { id: "dram.update", loads: 1, store: Store::InPlace },
    Kernel { id: "dram.write", loads: 0, store: Store::Filled },
    Kernel { id: "dram.copy.nt", loads: 1, store: Store::Past },
    Kernel { id: "dram.triad.nt", loads: 2, store: Store::Past },
    Kernel { id: "dram.write.nt", loads: 0, store: Store::Past },
];

impl Kernel {
    /// Arrays that caches hold; all its arrays if they hold none.
    fn cached_arrays(&self) -> u64 {
        (self.loads + u64::from(self.store == Store::Filled)).max(1)
    }

    /// Lines that cross the memory's pins for each line of an array: loads, and for stores a fill and a write-back.
    fn known(&self) -> u64 {
        self.loads
            + match self.store {
                Store::None => 0,
                Store::InPlace | Store::Past => 1,
                Store::Filled => 2,
            }
    }

    /// Lines that the model moves, divided by the known number.
    fn ratio(&self, geometry: &Geometry, placement: PageColoring) -> f64 {
        let classes = SetSample::for_sets(geometry.l2.unwrap_or(geometry.last).sets());
        let mut caches = Hierarchy::new(geometry.clone(), placement, Scope::OneClass(classes));
        caches.add_core(0);
        let owner = caches.tallies.add();
        // Arrays of whole pages, far apart.
        let lines = (2 * caches.last_level_lines() * classes.count() / self.cached_arrays()).next_multiple_of(64);
        // The first pass fills the caches.
        self.pass(&mut caches, owner, lines, classes);
        let before = moved_lines(&caches, owner);
        let measured = self.pass(&mut caches, owner, lines, classes);
        (moved_lines(&caches, owner) - before) as f64 / (measured * self.known()) as f64
    }

    /// Traverses the lines of class 0 in all arrays. Returns their number in each array.
    fn pass(&self, caches: &mut Hierarchy, owner: Owner, lines: u64, classes: SetSample) -> u64 {
        let place = |array: u64, line: u64| Line((array + 1) << 36 | line);
        // Arrays have the same alignment: lines of one number are all in the class, or none is.
        let admitted = (0..lines).filter(|&line| classes.of(place(0, line)) == 0);
        let step = |line: u64| {
            (0..self.loads).for_each(|array| _ = caches.access(0, owner, place(array, line), false));
            match self.store {
                Store::None => {}
                Store::InPlace => _ = caches.access(0, owner, place(0, line), true),
                Store::Filled => _ = caches.access(0, owner, place(self.loads, line), true),
                Store::Past => _ = caches.store_past(0, owner, place(self.loads, line), Bytes::MAX),
            }
        };
        admitted.map(step).count() as u64
    }
}

fn moved_lines(caches: &Hierarchy, owner: Owner) -> u64 {
    let tally = caches.tallies.plain()[owner.0 as usize];
    tally.last_fills + tally.last_writebacks + tally.nt_lines
}

/// Modelled over known traffic of each ceiling kernel, by the ceiling's id.
pub fn ratios(geometry: &Geometry, placement: PageColoring) -> Vec<(&'static str, f64)> {
    on_all_cpus(KERNELS.iter(), |kernel| (kernel.id, kernel.ratio(geometry, placement)))
}

/// The relative error of the ratio that is furthest from 1.
pub fn worst(ratios: &[(&'static str, f64)]) -> f64 {
    ratios.iter().map(|(_, ratio)| (ratio - 1.0).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LastLevelPolicy;

    #[test]
    fn ceiling_kernels_move_what_they_are_defined_to_move() {
        for policy in [LastLevelPolicy::Victim, LastLevelPolicy::NonInclusive, LastLevelPolicy::Inclusive] {
            let geometry = Geometry { policy, ..Geometry::assumed(2) };
            for placement in [PageColoring::SmallPages, PageColoring::HugePages] {
                let ratios = ratios(&geometry, placement);
                println!("{policy:?} {placement:?} {ratios:?}");
                assert!(worst(&ratios) < 0.02, "{policy:?} {placement:?} {ratios:?}");
            }
        }
    }

    #[test]
    fn a_model_that_forgets_write_backs_is_found_out() {
        // An update without write-backs moves half of its known traffic.
        let wrong = Kernel { id: "dram.update", loads: 1, store: Store::None };
        let right = Kernel { store: Store::InPlace, ..wrong };
        let geometry = Geometry::assumed(1);
        let found = wrong.ratio(&geometry, PageColoring::SmallPages) * wrong.known() as f64 / right.known() as f64;
        assert!((found - 0.5).abs() < 0.02, "{found}");
    }
}
