//! The code of all bursts, as the core model needs it.

use rprof_profile::evidence::bursts::BurstEvidence;

use super::hammocks::Hammocks;
use super::op::Program;
use super::paths::Paths;

/// Instructions, with the paths and hammocks of their branches.
#[derive(Debug, Clone, Default)]
pub struct Code {
    pub program: Program,
    pub paths: Paths,
    pub hammocks: Hammocks,
}

impl Code {
    /// Analyses the branches of `program` as `bursts` recorded them.
    pub fn new(program: Program, bursts: &BurstEvidence) -> Code {
        Code { paths: Paths::new(&program, bursts), hammocks: Hammocks::new(&program, bursts), program }
    }
}
