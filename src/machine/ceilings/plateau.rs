//! The levels of a working-set sweep, found from the data alone, and what they say about the sizes that sysfs names.

use crate::machine::topology::Topology;
use crate::profile::run::Warning;

/// Neighbouring points of a sweep with about the same bandwidth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plateau {
    /// Smallest working set on it, in bytes.
    pub from: f64,
    /// Largest working set on it, in bytes.
    pub to: f64,
    /// Its median bandwidth, in byte/s.
    pub value: f64,
}

/// Points may differ by this much from the first of their plateau.
const LEVEL: f64 = 0.12;

/// Points that make a plateau.
const FEWEST: usize = 3;

/// The plateaus of `points` (ascending x), from small sets to large. Slopes between them belong to none.
pub fn plateaus(points: &[(f64, f64)]) -> Vec<Plateau> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < points.len() {
        let level = points[start].1;
        let length = points[start..].iter().take_while(|(_, y)| (y / level - 1.0).abs() < LEVEL).count().max(1);
        if length >= FEWEST {
            let run = &points[start..start + length];
            let mut values: Vec<f64> = run.iter().map(|p| p.1).collect();
            values.sort_unstable_by(f64::total_cmp);
            found.push(Plateau { from: run[0].0, to: run[length - 1].0, value: values[length / 2] });
            start += length;
        } else {
            start += 1;
        }
    }
    found
}

/// Doubts where the bandwidth of sets well beyond the size of a cache is no less than that of sets well inside: medians of `points`,
/// since a level need not be a plateau (Zen 5 reads a quarter of L2 now at 64 bytes a cycle and now at 48).
pub fn doubts(points: &[(f64, f64)], topology: &Topology) -> Vec<Warning> {
    let median = |from: f64, to: f64| {
        let mut values: Vec<f64> = points.iter().filter(|(x, _)| (from..to).contains(x)).map(|p| p.1).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let falls = |size: f64| match (median(0.2 * size, 0.75 * size), median(1.5 * size, 4.0 * size)) {
        (Some(inside), Some(beyond)) => beyond < (1.0 - LEVEL) * inside,
        _ => true,
    };
    let missing = topology.caches.iter().filter(|c| c.level <= 2 && !falls(c.size as f64));
    missing
        .map(|cache| {
            Warning::new(
                "cache-size-not-confirmed",
                format!("L{} has {} KiB says sysfs, but the bandwidth does not fall there", cache.level, cache.size >> 10),
                format!("the ceilings of L{} may belong to another level", cache.level),
                "look at the working-set sweep of `rprof machine`; a hypervisor may state sizes that are not the host's",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::topology::Topology;
    use crate::profile::machine::Cache;

    /// 100 to 32 KiB, 50 to 1 MiB, 10 beyond, with slopes between.
    fn sweep() -> Vec<(f64, f64)> {
        (0..16)
            .map(|n| 4096.0 * 2_f64.powi(n))
            .map(|x| {
                (
                    x,
                    if x <= 32768.0 {
                        100.0
                    } else if x <= 1048576.0 {
                        50.0
                    } else if x <= 2097152.0 {
                        25.0
                    } else {
                        10.0
                    },
                )
            })
            .collect()
    }

    #[test]
    fn three_levels_are_found_and_the_slope_is_none() {
        let found = plateaus(&sweep());
        assert_eq!(
            found.iter().map(|p| (p.to, p.value)).collect::<Vec<_>>()[..2],
            [(32768.0, 100.0), (1048576.0, 50.0)]
        );
        assert_eq!(found.len(), 3);
        assert!(plateaus(&[]).is_empty());
    }

    #[test]
    fn a_size_that_the_data_contradict_is_doubted() {
        let cache = |level, size| Cache { level, size, ways: 8, line: 64, shared_by: 1 };
        let topology = |l2| Topology {
            cpu: "test".into(),
            cpus: Vec::new(),
            caches: vec![cache(1, 32 << 10), cache(2, l2)],
            l1i_bytes: 32 << 10,
            llc_total: l2,
            nodes: vec![0],
        };
        assert!(doubts(&sweep(), &topology(1 << 20)).is_empty());
        assert_eq!(doubts(&sweep(), &topology(256 << 10)).len(), 1);
        assert!(doubts(&[], &topology(1 << 20)).is_empty(), "nothing was measured");
    }
}
