//! The host and its ceilings (docs/conventions.md, Ceilings).

use serde::{Deserialize, Serialize};

pub use super::ceiling::{Ceiling, CeilingId, How, Missing, ON_SMALL_PAGES, Quality};
use super::core_to_core::CoreToCore;
use super::gpu::Gpu;
pub use super::sweep::Sweep;

/// A host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// CPU model as it names itself.
    pub cpu: String,
    /// CPUs that the program may use.
    pub cores: u32,
    /// Ceilings; several entries of one id differ in `threads`.
    pub ceilings: Vec<Ceiling>,
    /// Working-set sweeps and other curves that ceilings were read from.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// Data caches from the core outwards.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// Widest vector width in bits that the CPU has for floating point.
    #[serde(default)]
    pub vector_bits: Option<u32>,
    /// Least share of a DRAM buffer that really was on huge pages; `None` if the kernel does not report it or none was used.
    #[serde(default)]
    pub huge_pages: Option<f64>,
    /// The places of its CPUs while `ceilings` were measured; `None` for one CPU, or if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_to_core: Option<CoreToCore>,
    /// GPUs that the program may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
}

/// A data or unified cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u32,
    /// Bytes of one instance.
    pub size: u64,
    /// Ways.
    pub ways: u32,
    /// Line bytes.
    pub line: u32,
    /// How many of the host's CPUs share one instance.
    pub shared_by: u32,
}

impl Machine {
    /// The value of ceiling `id` at exactly `threads`, if measured.
    pub fn value(&self, id: &str, threads: u32) -> Option<f64> {
        self.ceiling(id, threads).and_then(|c| c.value)
    }

    /// Ceiling `id` at exactly `threads`, measured or not.
    pub fn ceiling(&self, id: &str, threads: u32) -> Option<&Ceiling> {
        self.ceilings.iter().find(|c| c.is(id, threads))
    }

    /// Sweep `id` at exactly `threads`, if it was measured.
    pub fn sweep(&self, id: &str, threads: u32) -> Option<&Sweep> {
        self.sweeps.iter().find(|sweep| sweep.id == id && sweep.threads == threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_read_between_its_points_and_beyond_them() {
        let points = vec![(1.0, 10.0), (4.0, 20.0), (16.0, 40.0)];
        let (x_unit, y_unit) = ("byte".into(), "s".into());
        let sweep = Sweep { id: "latency.4k".into(), x_unit, y_unit, threads: 1, points };
        let read = |x| sweep.at(x).expect("three points");
        assert_eq!([0.5, 1.0, 4.0, 16.0, f64::INFINITY].map(read), [10.0, 10.0, 20.0, 40.0, 40.0]);
        assert!((read(2.0) - 15.0).abs() < 1e-9 && (read(8.0) - 30.0).abs() < 1e-9);
        assert_eq!(Sweep { points: Vec::new(), ..sweep.clone() }.at(1.0), None);
    }
}
