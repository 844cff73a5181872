//! This host's ceilings for a run: from the cache, or measured now.

use crate::profile::machine::Machine;
use crate::profile::run::Warning;

use super::progress::Notices;

/// The ceilings that the first run of a program needs.
pub fn for_a_run(_notices: &Notices, _warnings: &mut Vec<Warning>) -> Machine {
    Machine::default()
}
