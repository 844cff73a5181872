//! Core clocks: which ceilings follow them, and the values of those at another clock.
//!
//! Work of a core by itself, and with its own caches, takes a fixed number of cycles; the number of cycles per second varies with
//! the neighbours and the temperature (docs/conventions.md, Ceilings).

use serde::{Deserialize, Serialize};

use super::machine::Ceiling;

/// How the CPUs' clocks were seen while a program ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// By short probes on its CPUs. If wide vectors lower the clock, a probe sees it after it has risen again, as
    /// [`Ceiling::reference_clock_hz`] did.
    Probes,
    /// From the cycles between two samples of the program: the clock at which it worked.
    SampledCycles,
}

/// The id of the same ceiling on all CPUs: without the prefix for a subset of them.
pub fn of_all_cpus(id: &str) -> &str {
    ["smt.", "slow."].iter().find_map(|subset| id.strip_prefix(subset)).unwrap_or(id)
}

/// Prefixes of the ids of the core's parameters: each is measured beside the clock that it states, and none is scaled to another.
pub const PARAMETERS: [&str; 12] = [
    "width.",
    "window.",
    "misses.",
    "banks.",
    "mispredict.indirect",
    "predictor.",
    "btb.",
    "forward.",
    "tlb.first",
    "tlb.second",
    "tlb.walk",
    "form.",
];

/// Whether `id` is a parameter of the core.
pub fn is_parameter(id: &str) -> bool {
    PARAMETERS.iter().any(|family| id.starts_with(family))
}

/// Whether the ceiling `id` is of a core's own resources: registers, L1, L2; or of a GPU's multiprocessors.
pub fn follows(id: &str) -> bool {
    if let Some(of_gpu) = id.strip_prefix("gpu.") {
        let shared = ["dram.", "l2.", "lat.l2", "lat.dram", "launch", "link.", "workingset.", "trials.", "reuse."];
        return !shared.iter().any(|prefix| of_gpu.starts_with(prefix));
    }
    let id = of_all_cpus(id);
    let shared = ["l3.", "dram.", "lat.l3", "lat.dram", "pagefault"];
    !shared.iter().any(|prefix| id.starts_with(prefix))
}

/// `value` of `ceiling` with the core at this reference clock; unchanged if it does not follow the clock, or if the reference clock of
/// its own measurement is not known.
pub fn value_at(ceiling: &Ceiling, value: f64, reference_clock_hz: f64) -> f64 {
    match ceiling.reference_clock_hz().filter(|own| *own > 0.0 && reference_clock_hz > 0.0 && follows(&ceiling.id)) {
        Some(own) => scaled(&ceiling.unit, value, reference_clock_hz / own),
        None => value,
    }
}

/// `value` in `unit` at `factor` times the clock.
pub fn scaled(unit: &str, value: f64, factor: f64) -> f64 {
    match unit {
        "s" => value / factor,
        // Counts of operations and bytes that the core holds.
        "op" | "byte" => value,
        _ => value * factor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(id: &str, unit: &str, clock_hz: Option<f64>) -> Ceiling {
        Ceiling { clock_hz, ..Ceiling::reproduced(id, 8.0, unit, 1) }
    }

    #[test]
    fn what_a_core_does_by_itself_follows_its_clock() {
        let twice = |id, unit| value_at(&at(id, unit, Some(2e9)), 8.0, 4e9);
        assert_eq!(
            ["dp.fma", "issue", "l1.read", "l2.triad", "smt.dp.add.512"].map(|id| twice(id, "flop/s")),
            [16.0; 5]
        );
        assert_eq!(["lat.l2", "lat.forward", "mispredict"].map(|id| twice(id, "s")), [4.0; 3]);
        assert_eq!(["l3.read", "dram.triad", "slow.dram.read"].map(|id| twice(id, "byte/s")), [8.0; 3]);
        assert_eq!(["lat.dram", "pagefault"].map(|id| twice(id, "s")), [8.0; 2]);
        assert_eq!([twice("gpu.fp32.fma", "flop/s"), twice("gpu.dram.read", "byte/s")], [16.0, 8.0]);
        assert_eq!((twice("overlap.window", "op"), twice("reach", "byte")), (8.0, 8.0));
    }

    #[test]
    fn looks_are_compared_with_looks() {
        // Wide vectors at 3.8 GHz; a look comes too late to see that, here as in the run.
        let wide = Ceiling { idle_clock_hz: Some(4.2e9), ..at("dp.fma.512", "flop/s", Some(3.8e9)) };
        assert_eq!(value_at(&wide, 8.0, 4.2e9), 8.0);
        assert_eq!(value_at(&wide, 8.0, 2.1e9), 4.0);
    }

    #[test]
    fn without_both_clocks_a_value_stands() {
        assert_eq!(value_at(&at("dp.fma", "flop/s", None), 8.0, 4e9), 8.0);
        assert_eq!(value_at(&at("dp.fma", "flop/s", Some(2e9)), 8.0, 0.0), 8.0);
    }
}
