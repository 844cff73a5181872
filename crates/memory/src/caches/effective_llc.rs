//! The part of the last-level cache that this host gets: a guest sees the size of the whole cache, but other guests fill a part of it.

use crate::caches::geometry::Geometry;
use rprof_profile::last_level;
use rprof_profile::machine::Machine;
use rprof_profile::run::Warning;

impl Geometry {
    /// Shrinks the last level to the measured effective size if that is smaller than the reported size; returns a warning in that case.
    pub fn as_measured(mut self, machine: &Machine) -> (Self, Option<Warning>) {
        let told = self.last.size;
        let (private, l2) = (self.l2.unwrap_or(self.l1).size, self.l2.map(|l2| l2.size));
        let Some(bytes) = last_level::available(machine, private, l2, told) else { return (self, None) };
        self.last = self.last.of_bytes(bytes as u64);
        let warning = Warning::new(
            "memory-share",
            format!(
                "the last-level cache is reported as {} MiB, but only {} MiB of it were measured to be available",
                told >> 20,
                self.last.size >> 20
            ),
            "the memory model uses a last-level cache of that size; the share that other guests leave varies",
            "`rprof machine --refresh` measures again",
        );
        (self, Some(warning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::machine::{Cache, Sweep};

    /// A host with an L3 of 480 MiB, most of which other guests fill: readings of such a host, in GB/s over MiB.
    fn crowded() -> Machine {
        let points =
            [(8.0, 30.2), (64.0, 29.9), (128.0, 27.7), (181.0, 20.5), (256.0, 19.1), (512.0, 16.5), (1024.0, 16.5)];
        let sweep = Sweep {
            id: "workingset.read".into(),
            x_unit: "byte".into(),
            y_unit: "byte/s".into(),
            threads: 1,
            points: points.map(|(mib, rate)| (mib * f64::from(1 << 20), rate * 1e9)).to_vec(),
        };
        let cache = |level, size, ways| Cache { level, size, ways, line: 64, shared_by: 2 };
        Machine {
            sweeps: vec![sweep],
            caches: vec![cache(1, 48 << 10, 12), cache(2, 2 << 20, 16), cache(3, 480 << 20, 16)],
            cores: 2,
            ..Machine::default()
        }
    }

    fn last_mib(machine: &Machine) -> (u64, bool) {
        let (geometry, warning) = Geometry::of_host(&machine.caches, machine.cores).0.as_measured(machine);
        assert_eq!(geometry.last.size % (64 * u64::from(geometry.last.ways)), 0, "whole sets");
        (geometry.last.size >> 20, warning.is_some())
    }

    #[test]
    fn what_neighbours_leave_of_the_last_level_is_its_size() {
        let (mib, told) = last_mib(&crowded());
        assert!((165..181).contains(&mib) && told, "{mib} MiB");
    }

    #[test]
    fn a_cache_that_is_as_large_as_told_is_left_so() {
        let mut machine = crowded();
        machine.caches[2].size = 200 << 20;
        assert_eq!(last_mib(&machine), (200, false));
        let recorded = include_str!("../../../../fixtures/machines/zen4-guest.json");
        let recorded: Machine = serde_json::from_str(recorded).expect("a machine");
        assert_eq!(last_mib(&recorded), (32, false));
    }

    /// A sweep of an L3 of 8 MiB with 16 ways on small pages, from when memory was slow, and ceilings of a fast moment.
    #[test]
    fn memory_that_became_faster_leaves_the_cache_as_large_as_it_is() {
        let points = [
            (0.25, 72.0),
            (0.71, 55.1),
            (1.41, 53.4),
            (2.83, 53.3),
            (4.0, 48.7),
            (5.66, 25.9),
            (8.0, 18.4),
            (64.0, 14.3),
        ];
        let mut machine = crowded();
        machine.sweeps[0].points = points.map(|(mib, rate)| (mib * f64::from(1 << 20), rate * 1e9)).to_vec();
        machine.ceilings = vec![rprof_profile::machine::Ceiling::reproduced("dram.read", 18.3e9, "byte/s", 1)];
        (machine.caches[1].size, machine.caches[2].size) = (512 << 10, 8 << 20);
        assert_eq!(last_mib(&machine), (8, false));
    }

    #[test]
    fn a_disturbed_sweep_says_nothing() {
        let mut machine = crowded();
        machine.sweeps[0].points.iter_mut().for_each(|p| p.1 = 20e9);
        machine.sweeps[0].points.insert(0, (f64::from(3 << 20), 30e9));
        assert_eq!(last_mib(&machine), (480, false));
    }

    #[test]
    fn what_was_not_measured_is_as_told() {
        let machine = Machine { sweeps: Vec::new(), ..crowded() };
        assert_eq!(last_mib(&machine), (480, false));
    }
}
