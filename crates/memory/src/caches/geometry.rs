//! The caches of a host as plain numbers, which the model simulates.

use rprof_profile::machine::Cache;
use rprof_profile::run::Warning;

/// Bytes of a cache line. Every x86-64 CPU has 64; [`Geometry::from_caches`] warns if a host claims otherwise.
pub const LINE_BYTES: u64 = 64;
/// log2 of [`LINE_BYTES`].
pub const LINE_SHIFT: u32 = 6;

/// The data caches from the core to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// First level, one per core, indexed by virtual address.
    pub l1: Level,
    /// Second level, one per core, if a shared level follows it.
    pub l2: Option<Level>,
    /// The last level before memory.
    pub last: Level,
    /// How the last level relates to the ones before it.
    pub policy: LastLevelPolicy,
    /// L2 holds all lines of L1 (AMD); otherwise it is neither inclusive nor exclusive (Intel).
    pub l2_inclusive: bool,
    /// Cores that the program's threads are spread over.
    pub cores: u32,
}

/// One cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Bytes of one instance.
    pub size: u64,
    /// Ways of a set.
    pub ways: u32,
    /// Cores that share one instance.
    pub shared_by: u32,
}

/// Relation of a last-level cache to the lines of private caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLevelPolicy {
    /// Holds all lines of the private caches; its evictions remove them there (Intel up to Broadwell, clients later).
    Inclusive,
    /// Filled on the way in, evicts on its own (cachegrind assumes this, too).
    NonInclusive,
    /// Filled with the lines that L2 evicts; a hit moves the line back to L2 (AMD Zen, Intel servers since Skylake).
    Victim,
}

impl Level {
    /// Sets of one instance: size / (ways × line), at least 1.
    pub fn sets(&self) -> u32 {
        u32::try_from((self.lines() / u64::from(self.ways.max(1))).max(1)).unwrap_or(u32::MAX)
    }

    /// The same with at most `bytes`: that number of whole sets, at least one.
    pub fn of_bytes(self, bytes: u64) -> Self {
        let set = u64::from(self.ways.max(1)) * LINE_BYTES;
        Level { size: (bytes / set).max(1) * set, ..self }
    }

    /// Lines of one instance.
    pub fn lines(&self) -> u64 {
        self.size / LINE_BYTES
    }
}

impl Geometry {
    /// The geometry assumed for a host that hides its caches: 32 KiB, 1 MiB, 32 MiB shared by all.
    pub fn assumed(cores: u32) -> Self {
        let cores = cores.max(1);
        Geometry {
            l1: Level { size: 32 << 10, ways: 8, shared_by: 1 },
            l2: Some(Level { size: 1 << 20, ways: 8, shared_by: 1 }),
            last: Level { size: 32 << 20, ways: 16, shared_by: cores },
            policy: LastLevelPolicy::NonInclusive,
            l2_inclusive: false,
            cores,
        }
    }

    /// Builds the geometry from the caches that the machine's topology lists, for a program on `cores` CPUs.
    ///
    /// [`Geometry::assumed`] replaces levels that the list lacks or states in an unusable way; each replacement is a warning.
    pub fn from_caches(
        caches: &[Cache],
        policy: LastLevelPolicy,
        l2_inclusive: bool,
        cores: u32,
    ) -> (Self, Vec<Warning>) {
        let mut warnings = Vec::new();
        let mut geometry = Geometry { policy, l2_inclusive, ..Geometry::assumed(cores) };
        let usable = |level: u32| {
            caches.iter().find(|c| c.level == level && c.size >= LINE_BYTES && c.ways > 0).map(|c| Level {
                size: c.size,
                ways: c.ways,
                shared_by: c.shared_by.max(1),
            })
        };
        if let Some(odd) = caches.iter().find(|c| c.line != 0 && u64::from(c.line) != LINE_BYTES) {
            warnings.push(Warning::new(
                "cache-line-size",
                format!("the level-{} cache is listed with lines of {} bytes", odd.level, odd.line),
                "traffic is simulated with lines of 64 bytes",
                "report the host's CPU model",
            ));
        }
        match usable(1) {
            Some(l1) => geometry.l1 = l1,
            None => warnings.push(assumed_warning("level-1 data cache", geometry.l1)),
        }
        match (usable(2), usable(3)) {
            (Some(l2), Some(l3)) => (geometry.l2, geometry.last) = (Some(l2), l3),
            (Some(l2), None) => {
                (geometry.l2, geometry.last) = (None, l2);
                geometry.policy = LastLevelPolicy::NonInclusive;
            }
            (None, Some(l3)) => {
                geometry.last = l3;
                warnings.push(assumed_warning("level-2 cache", geometry.l2.unwrap_or(geometry.last)));
            }
            (None, None) => warnings.push(assumed_warning("last-level cache", geometry.last)),
        }
        (geometry, warnings)
    }

    /// Limits the CPUs that share the last level to `cpus`, if those are fewer than its topology says, and returns a warning then.
    pub fn shared_by(mut self, cpus: u32) -> (Self, Option<Warning>) {
        let cpus = cpus.max(1);
        if cpus >= self.last.shared_by.min(self.cores) {
            return (self, None);
        }
        let words =
            if cpus == 1 { "each had a last-level cache to itself".to_owned() } else { format!("{cpus} shared one") };
        let warning = Warning::new(
            "memory-placement",
            format!(
                "{} CPUs are reported to share the last-level cache, but while the program ran, {words}",
                self.last.shared_by
            ),
            "the memory model has as many last-level caches as were seen for most of the run",
            "use whole cores that the provider pins",
        );
        self.last.shared_by = cpus;
        (self, Some(warning))
    }

    /// Divides the last level among `ranks` of one job on a host with `cpus` CPUs: they are spread evenly over its last-level caches, and
    /// each has an equal part of one. Returns a note if ranks share one.
    pub fn divided_among(mut self, ranks: u32, cpus: u32) -> (Self, Option<Warning>) {
        let caches = cpus.div_ceil(self.last.shared_by.max(1)).max(1);
        let sharers = u64::from(ranks.div_ceil(caches).max(1));
        if sharers == 1 {
            return (self, None);
        }
        let whole = self.last.size;
        self.last = self.last.of_bytes(whole / sharers);
        let warning = Warning::new(
            "memory-ranks",
            format!(
                "{sharers} of the {ranks} ranks of a host share a last-level cache of {} KiB: the memory model gives each {} KiB",
                whole >> 10,
                self.last.size >> 10
            ),
            "a rank that uses more of it than the others has less traffic to memory than the model says",
            "where ranks need the cache, start fewer of them on a host, with more threads each",
        );
        (self, Some(warning))
    }

    /// Limits the number of last-level caches, and if necessary that of cores, until all caches together hold at most `lines` lines;
    /// returns a warning if anything is missing. There is always one last-level cache, and a quarter of the room is for private ones,
    /// because threads take lines from each other there.
    pub fn within(self, lines: u64) -> (Self, Option<Warning>) {
        let (cores, last) = (u64::from(self.cores.max(1)), self.last.lines().max(1));
        let shared = u64::from(self.last.shared_by).clamp(1, cores);
        let private = (self.l1.lines() + self.l2.map_or(0, |l2| l2.lines())).max(1);
        let kept = cores.min(lines.saturating_sub(last).max(lines / 4) / private).max(1);
        let lasts = (lines.saturating_sub(kept * private) / last).clamp(1, kept.div_ceil(shared));
        let shared_by = if lasts < kept.div_ceil(shared) { kept.div_ceil(lasts) } else { shared };
        let warning = |text: String, effect: String| {
            Some(Warning::new("memory-cores", text, effect, "--memory sampled has room for all"))
        };
        let warning = if kept < cores {
            warning(
                format!("the caches of {cores} CPUs are more than the memory model has room for"),
                match shared_by > shared {
                    true => {
                        format!("the program's threads are simulated on {kept} of them, {shared_by} to a last level")
                    }
                    false => format!("the program's threads are simulated on {kept} of them"),
                },
            )
        } else if shared_by > shared {
            warning(
                format!("the last-level caches of {cores} CPUs are more than the memory model has room for"),
                format!("up to {shared_by} threads share one in the model, and have less of it each"),
            )
        } else {
            return (self, None);
        };
        let last = Level { shared_by: shared_by as u32, ..self.last };
        (Geometry { cores: kept as u32, last, ..self }, warning)
    }
}

fn assumed_warning(what: &str, level: Level) -> Warning {
    Warning::new(
        "cache-topology",
        format!("the {what} of this host is unknown"),
        format!("traffic is simulated with {} KiB, {} ways", level.size >> 10, level.ways),
        "mount /sys/devices/system/cpu in the container",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: u32, size: u64, ways: u32) -> Cache {
        Cache { level, size, ways, line: 64, shared_by: if level == 3 { 8 } else { 1 } }
    }

    #[test]
    fn ranks_of_a_host_divide_its_last_levels() {
        let of = |ranks, cpus| {
            let last = Level { size: 32 << 20, ways: 16, shared_by: 8 };
            let (geometry, note) = Geometry { last, ..Geometry::assumed(1) }.divided_among(ranks, cpus);
            assert_eq!(note.is_some(), geometry.last.size < 32 << 20);
            geometry.last.size
        };
        assert_eq!(of(1, 8), 32 << 20);
        assert_eq!(of(4, 8), 8 << 20);
        assert_eq!(of(2, 16), 32 << 20, "a cache for each");
        assert_eq!(of(5, 16), (32 << 20) / 3 / 1024 * 1024, "three in one of them");
        assert_eq!(of(64, 4), 512 << 10);
        assert_eq!(of(u32::MAX, 1), 1024);
    }

    #[test]
    fn three_levels() {
        let list = [cache(1, 48 << 10, 12), cache(2, 2 << 20, 16), cache(3, 60 << 20, 15)];
        let (g, warnings) = Geometry::from_caches(&list, LastLevelPolicy::Victim, true, 4);
        assert_eq!((g.l1.sets(), g.l2.unwrap().sets(), g.last.sets()), (64, 2048, 65536));
        assert_eq!(g.policy, LastLevelPolicy::Victim);
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_last_level_is_shared_as_it_was_seen() {
        let geometry = Geometry::assumed(2);
        assert_eq!(geometry.clone().shared_by(2), (geometry.clone(), None));
        let (apart, warning) = geometry.shared_by(1);
        assert_eq!((apart.last.shared_by, warning.map(|w| w.code)), (1, Some("memory-placement".into())));
    }

    #[test]
    fn large_hosts_are_cut_down_to_what_there_is_room_for() {
        // 16,896 lines of private caches a core, and 524,288 of a last level that eight cores share.
        let geometry = Geometry { cores: 96, ..Geometry::assumed(8) };
        let within = |lines: u64| {
            let (cut, warning) = geometry.clone().within(lines);
            (cut.cores, cut.last.shared_by, warning.map(|w| w.code))
        };
        let warned = Some("memory-cores".to_owned());
        assert_eq!(within(1 << 23), (96, 8, None));
        assert_eq!(within(5 << 20), (96, 16, warned.clone()));
        assert_eq!(within(1 << 20), (31, 31, warned.clone()));
        assert_eq!(within(1 << 10), (1, 8, warned));
        // One last level larger than that leaves room for the private caches of both.
        let large = Level { size: 480 << 20, ways: 15, shared_by: 2 };
        let geometry = Geometry { last: large, ..Geometry::assumed(2) };
        assert_eq!(geometry.clone().within(5 << 20), (geometry, None));
    }

    #[test]
    fn a_host_without_l3_ends_at_l2() {
        let (g, warnings) =
            Geometry::from_caches(&[cache(1, 32768, 8), cache(2, 1 << 20, 16)], LastLevelPolicy::Victim, true, 1);
        assert_eq!((g.l2, g.last.size), (None, 1 << 20));
        assert_eq!(g.policy, LastLevelPolicy::NonInclusive);
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_hidden_topology_is_assumed_and_said() {
        let (g, warnings) = Geometry::from_caches(&[], LastLevelPolicy::NonInclusive, false, 2);
        assert_eq!(g, Geometry::assumed(2));
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].effect.contains("32 KiB"));
    }
}
