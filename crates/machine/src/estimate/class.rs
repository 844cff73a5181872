//! Classes of ceilings: how much two measurements of one may differ, and from which difference on it is noisy.

use rprof_profile::clock;

/// The part of the machine that a ceiling limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Registers.
    Core,
    /// L1 and L2, and code that comes from L1I or L2.
    Near,
    /// L3, DRAM, and costs of events: neighbours are a part of it.
    Beyond,
    /// A GPU's L2 and DRAM, which it does not share.
    Device,
    /// Page-locked copies, launches, and other work of the GPU's driver.
    Link,
    /// Copies of pageable and managed memory: a CPU core does a part.
    HostLink,
}

impl Class {
    /// The class of the ceiling `id`.
    pub fn of(id: &str) -> Self {
        if let Some(of_gpu) = id.strip_prefix("gpu.") {
            return Self::of_gpu(of_gpu);
        }
        let of_all = clock::of_all_cpus(id);
        if !clock::follows(id) || of_all == "mispredict" {
            return Class::Beyond;
        }
        let near = ["l1.", "l2.", "lat.l1", "lat.l2"].iter().any(|prefix| of_all.starts_with(prefix));
        let code = [".l1i", ".l2"].iter().any(|suffix| of_all.ends_with(suffix));
        if near || code { Class::Near } else { Class::Core }
    }

    fn of_gpu(id: &str) -> Self {
        let begins = |all: &[&str]| all.iter().any(|prefix| id.starts_with(prefix));
        match () {
            _ if id.contains("pageable") || id.contains("managed") => Class::HostLink,
            _ if begins(&["link.", "launch", "lat.l1"]) => Class::Link,
            _ if begins(&["dram.", "l2.", "lat.", "workingset.", "trials."]) => Class::Device,
            _ => Class::Core,
        }
    }

    /// The least interval to either side, relative to the value; `guest`: other guests may use the same caches and memory.
    pub fn least_interval(self, guest: bool) -> f64 {
        match self {
            Class::Core => 0.01,
            Class::Near => 0.03,
            Class::Beyond if guest => 0.10,
            Class::Beyond => 0.03,
            Class::Device => 0.015,
            Class::Link => 0.05,
            Class::HostLink => 0.15,
        }
    }

    /// A ceiling is noisy if the median of its rounds lies below the best one by more than this share.
    pub fn noisy_from(self) -> f64 {
        match self {
            Class::Core => 0.03,
            Class::Near => 0.10,
            Class::Beyond => 0.25,
            Class::Device => 0.05,
            Class::Link => 0.15,
            Class::HostLink => 0.40,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_the_class() {
        for (class, ids) in [
            (Class::Core, ["dp.fma.512", "issue", "mix.load.4", "smt.dp.tlp", "lat.forward"]),
            (Class::Near, ["l1.read", "smt.l2.read", "lat.l2", "mix.mov.2.l1i", "mix.alu.4.l2"]),
            (Class::Beyond, ["l3.copy", "dram.chase.4", "lat.dram", "mispredict", "slow.dram.read"]),
        ] {
            assert_eq!(ids.map(Class::of), [class; 5]);
        }
        for (class, ids) in [
            (Class::Core, ["gpu.fp32.fma", "gpu.l1.read", "gpu.shared.read"]),
            (Class::Device, ["gpu.dram.copy", "gpu.l2.read", "gpu.lat.dram"]),
            (Class::Link, ["gpu.link.h2d.pinned", "gpu.launch", "gpu.lat.l1"]),
            (Class::HostLink, ["gpu.link.h2d.pageable", "gpu.link.managed.to-cpu", "gpu.link.d2h.pageable"]),
        ] {
            assert_eq!(ids.map(Class::of), [class; 3]);
        }
    }
}
