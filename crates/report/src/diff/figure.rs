//! The figures by which functions of two profiles are compared.

use crate::number::{percent, seconds, si};
use rprof_profile::Function;

/// A figure of a function. Its order is that of the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Elapsed seconds with at least one thread at work in it.
    Time,
    /// Executed instructions.
    Instructions,
    /// FLOPs.
    Flops,
    /// Bytes of loads and stores.
    L1,
    /// Bytes between L1 and L2.
    L2,
    /// Bytes between L2 and L3.
    L3,
    /// Bytes between the last cache and memory.
    Dram,
    /// Least time of the binding term / measured time.
    RoofFraction,
}

impl Figure {
    /// All of them, in the order of the enum.
    pub const ALL: [Figure; 8] = [
        Figure::Time,
        Figure::Instructions,
        Figure::Flops,
        Figure::L1,
        Figure::L2,
        Figure::L3,
        Figure::Dram,
        Figure::RoofFraction,
    ];

    /// The name in `--fail-if` and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Time => "time",
            Figure::Instructions => "instructions",
            Figure::Flops => "flops",
            Figure::L1 => "bytes.l1",
            Figure::L2 => "bytes.l2",
            Figure::L3 => "bytes.l3",
            Figure::Dram => "bytes.dram",
            Figure::RoofFraction => "roof_fraction",
        }
    }

    /// The figure of that name; `time_s`, the name in a profile, is `time`.
    pub fn named(name: &str) -> Option<Figure> {
        let name = if name == "time_s" { "time" } else { name };
        Figure::ALL.into_iter().find(|figure| figure.name() == name)
    }

    /// The heading in tables.
    pub fn title(self) -> &'static str {
        match self {
            Figure::Time => "time",
            Figure::Instructions => "instructions",
            Figure::Flops => "FLOPs",
            Figure::L1 => "L1 bytes",
            Figure::L2 => "L2 bytes",
            Figure::L3 => "L3 bytes",
            Figure::Dram => "DRAM bytes",
            Figure::RoofFraction => "of its bound",
        }
    }

    /// Whether the figures of all functions add up to one of the program. Elapsed times of threads overlap.
    pub fn adds_up(self) -> bool {
        !matches!(self, Figure::Time | Figure::RoofFraction)
    }

    /// Its count in `f`; `None` for figures that are no counts.
    pub fn count(self, f: &Function) -> Option<u64> {
        match self {
            Figure::Instructions => f.instructions,
            Figure::Flops => f.flops.map(|flops| flops.total),
            Figure::L1 => f.bytes.and_then(|bytes| bytes.l1),
            Figure::L2 => f.bytes.and_then(|bytes| bytes.l2),
            Figure::L3 => f.bytes.and_then(|bytes| bytes.l3),
            Figure::Dram => f.bytes.and_then(|bytes| bytes.dram),
            Figure::Time | Figure::RoofFraction => None,
        }
    }

    /// Its key in [`Function::source`].
    pub fn source(self) -> &'static str {
        match self {
            Figure::Time => "time_s",
            other => other.name(),
        }
    }

    /// `value` for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Figure::Time => seconds(value),
            Figure::Instructions | Figure::Flops => si(value, ""),
            Figure::RoofFraction => percent(value),
            Figure::L1 | Figure::L2 | Figure::L3 | Figure::Dram => si(value, "B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_found_by_its_name() {
        for figure in Figure::ALL {
            assert_eq!(Figure::named(figure.name()), Some(figure));
        }
        assert_eq!((Figure::named("time_s"), Figure::named("bytes")), (Some(Figure::Time), None));
        assert!(Figure::ALL.is_sorted());
    }
}
