//! The reference core of `rprof gate`: a file in `cores/`, read as the machine that bursts are replayed on.

mod file;

use rprof_profile::Machine;
use rprof_profile::ceiling::Ceiling;

use file::File;
pub use file::{Feature, Leaf, Register};

/// The reference core that this version of rprof has. Results of two different ones are not compared, so it changes with every value
/// in the file.
pub const REFERENCE: &str = "amd-zen3/1";
const TEXT: &str = include_str!("../../../../cores/amd-zen3.toml");

/// A cycle in seconds: ceilings are kept in seconds, and the file in cycles.
const CYCLE_S: f64 = 1e-9;

/// Why a core cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// No TOML, or a field is missing, unknown or mistyped.
    #[error("{0}")]
    Syntax(String),
    /// A figure that no core can have.
    #[error("{id} = {value}: a figure above 0 is expected")]
    Figure {
        /// Its name.
        id: String,
        /// As the file has it.
        value: f64,
    },
}

/// A core, and what programs read of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceCore {
    /// What it is called.
    pub name: String,
    /// Its ceilings at a clock of 1 GHz, so that a nanosecond is a cycle.
    pub machine: Machine,
    /// Features that a program is told of if the host has them.
    pub features: Vec<Feature>,
    /// Everything else that `cpuid` answers.
    pub leaves: Vec<Leaf>,
    /// Leaves that the host answers.
    pub host_leaves: Vec<u32>,
}

impl ReferenceCore {
    /// The one that rprof carries.
    pub fn embedded() -> Result<ReferenceCore, CoreError> {
        ReferenceCore::parse(TEXT)
    }

    /// The core that `text` describes.
    pub fn parse(text: &str) -> Result<ReferenceCore, CoreError> {
        let file: File = toml::from_str(text).map_err(|error| CoreError::Syntax(error.to_string()))?;
        let groups = [(&file.cycles, CYCLE_S, "s"), (&file.rates, 1.0 / CYCLE_S, "op/s"), (&file.entries, 1.0, "op")];
        let mut ceilings = Vec::new();
        for (group, scale, unit) in groups {
            for (id, &value) in group {
                if !(value.is_finite() && value > 0.0) {
                    return Err(CoreError::Figure { id: id.clone(), value });
                }
                let ceiling = Ceiling::reproduced(id, value * scale, unit, 1);
                ceilings.push(Ceiling { clock_hz: Some(1.0 / CYCLE_S), ..ceiling });
            }
        }
        let machine = Machine {
            cpu: file.name.clone(),
            cores: 1,
            ceilings,
            caches: file.caches,
            vector_bits: Some(file.vector_bits),
            ..Machine::default()
        };
        let (features, leaves, host_leaves) = (file.cpuid.features, file.cpuid.leaves, file.cpuid.host);
        let features = features.into_iter().map(|(name, bit)| Feature { name, bit }).collect();
        Ok(ReferenceCore { name: file.name, machine, features, leaves, host_leaves })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Form, Kind};
    use crate::parameters::CoreParameters;

    #[test]
    fn the_file_gives_the_core_that_it_describes() {
        let reference = ReferenceCore::embedded().unwrap();
        let (core, assumed) = CoreParameters::new(&reference.machine, 1);
        assert_eq!((core.width, core.reorder, core.l1[0], core.l2, core.l3, core.dram), (6, 256, 4, 12, 46, 385));
        assert_eq!((core.loads, core.stores, core.refill, core.vector_bits), (116, 64, 13, 256));
        assert_eq!(core.load_ports.map(u32::count_ones), [3, 2, 2, 2, core.load_ports[4].count_ones()]);
        let of = |kind| core.forms[Form::scalar(kind).0 as usize];
        assert_eq!(of(Kind::FAdd).latency, 48);
        assert_eq!(of(Kind::Imul).ports, 1);
        // What no core of x86 has, or no ceiling tells.
        let is_expected =
            |line: &String| line.starts_with("form.") || line.starts_with("bytes of ") || line.contains(".512");
        let unexpected: Vec<&String> = assumed.iter().filter(|line| !is_expected(line)).collect();
        assert!(unexpected.is_empty(), "{unexpected:?}");
    }

    #[test]
    fn the_model_reads_every_figure_of_the_file() {
        let machine = ReferenceCore::embedded().unwrap().machine;
        let whole = CoreParameters::new(&machine, 1);
        // The recorder of bursts reads it.
        let of_recorder = "predictor.outcomes";
        let is_idle = |n: &usize| {
            let mut other = machine.clone();
            let other_with = |factor: f64| {
                other.ceilings[*n].value = machine.ceilings[*n].value.map(|value| factor * value);
                CoreParameters::new(&other, 1)
            };
            machine.ceilings[*n].id != of_recorder && [0.3, 3.0].map(other_with).iter().all(|core| *core == whole)
        };
        let idle = (0..machine.ceilings.len()).filter(is_idle).map(|n| machine.ceilings[n].id.to_string());
        assert_eq!(idle.collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn a_misspelt_field_and_an_impossible_figure_are_refused() {
        let misspelt = TEXT.replace("[cycles]", "[cycels]");
        assert!(matches!(ReferenceCore::parse(&misspelt), Err(CoreError::Syntax(_))));
        let impossible = TEXT.replace("\"lat.l1\" = 4", "\"lat.l1\" = 0");
        let error = ReferenceCore::parse(&impossible).unwrap_err();
        assert_eq!(error.to_string(), "lat.l1 = 0: a figure above 0 is expected");
    }
}
