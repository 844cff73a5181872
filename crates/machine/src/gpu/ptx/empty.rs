//! A kernel that does nothing, to measure launches.

use super::text::{Bounds, Finish, module};
use super::{Kernel, Needs, Unit, Work};

/// Returns at once and writes nothing, not even the clock record. Launch: 1 block × 1 thread or any.
pub fn empty() -> Kernel {
    let (needs, bounds) = (Needs::at_least(7, 0), Bounds::default());
    let finish = Finish { name: "empty".into(), needs, unit: Unit::Nothing, work: Work::Nothing, bounds };
    module(finish, "", "\tret;\n")
}
