//! The levels of a working-set sweep, found from the data alone, and their agreement with the sizes in sysfs.

use crate::host::topology::Topology;
use crate::suite::campaign::Campaign;
use rprof_profile::run::Warning;

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

/// [`doubts`] about the sizes of the caches, if the necessary sweeps were measured.
pub fn doubts_of(campaign: &Campaign) -> Vec<Warning> {
    let [bandwidths, latencies] = ["workingset.read", "latency.huge"].map(|id| campaign.swept(id, 1));
    bandwidths.zip(latencies).map_or(Vec::new(), |(b, l)| doubts(&b.points, &l.points, &campaign.topology))
}

/// Doubts if sets well beyond the size of a cache have no less bandwidth and no more latency than those well inside. Medians of
/// `bandwidths` count, since a level need not be a plateau (Zen 5 reads a quarter of L2 sometimes at 64 bytes a cycle and sometimes at 48).
/// Bandwidths alone are not enough, since a core may load no more from L1 than L2 delivers (Zen 1).
fn doubts(bandwidths: &[(f64, f64)], latencies: &[(f64, f64)], topology: &Topology) -> Vec<Warning> {
    let median = |points: &[(f64, f64)], from: f64, to: f64| {
        let mut values: Vec<f64> = points.iter().filter(|(x, _)| (from..to).contains(x)).map(|p| p.1).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let around = |points, size| median(points, 0.2 * size, 0.75 * size).zip(median(points, 1.5 * size, 4.0 * size));
    let confirmed = |size: f64| {
        let (bandwidth, latency) = (around(bandwidths, size), around(latencies, size));
        bandwidth.is_none_or(|(inside, beyond)| beyond < (1.0 - LEVEL) * inside)
            || latency.is_some_and(|(inside, beyond)| inside < (1.0 - LEVEL) * beyond)
    };
    let missing = topology.caches.iter().filter(|c| c.level <= 2 && !confirmed(c.size as f64));
    missing
        .map(|cache| {
            Warning::new(
                "cache-size-not-confirmed",
                format!(
                    "sysfs reports an L{} of {} KiB, but neither bandwidth nor latency changes at that size",
                    cache.level,
                    cache.size >> 10
                ),
                format!("the ceilings of L{} may belong to another level", cache.level),
                "look at the working-set sweep of `rprof machine`; a hypervisor may state sizes that are not the host's",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::topology::Topology;
    use rprof_profile::machine::Cache;

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
            l1i_way_bytes: 4096,
            llc_total: l2,
            nodes: vec![0],
        };
        let inverse: Vec<(f64, f64)> = sweep().iter().map(|(x, y)| (*x, 1.0 / y)).collect();
        let of = |bandwidths: &[(f64, f64)], latencies: &[(f64, f64)], l2| {
            doubts(bandwidths, latencies, &topology(l2)).len()
        };
        assert_eq!(of(&sweep(), &[], 1 << 20), 0);
        assert_eq!(of(&sweep(), &[], 256 << 10), 1);
        assert_eq!(of(&sweep(), &inverse, 256 << 10), 1);
        assert_eq!(of(&[], &[], 1 << 20), 0, "nothing was measured");
        let level: Vec<(f64, f64)> = sweep().iter().map(|(x, _)| (*x, 80.0)).collect();
        assert_eq!(of(&level, &inverse, 1 << 20), 0, "a core that loads from L1 as fast as from L2");
        assert_eq!(of(&level, &[], 1 << 20), 2);
    }
}
