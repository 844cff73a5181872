//! Loop-carried dependency cycles of a loop body, for T_chain (docs/conventions.md, Model).
//!
//! ```text
//!  instructions ─▶ uses (what each reads and writes)       ─┐
//!               ─▶ affine (addresses as sums of registers) ─┴─▶ graph (operations, edges within and across iterations)
//!               ─▶ cycles (slowest cycle under several assumptions about latencies)
//! ```
//!
//! The body is a straight sequence: the path that most iterations take. The analysis assumes that a call in it clobbers everything
//! that the System V ABI lets it clobber; it does not see a chain through the callee.

mod addresses;
mod affine;
mod cycles;
mod factors;
mod graph;
mod latency;
mod memory;
mod restarted;
mod step;
mod stored;
mod uses;

use iced_x86::Instruction;

use crate::dependency::BodyDependencies;

pub use addresses::address_origins;
pub use uses::GENERAL_CHANGED_BY_CALLS;

/// Bodies of more instructions than this are not analysed.
pub const LONGEST_BODY: usize = 4096;

/// The dependencies of a loop body, given in execution order from the loop's header to the jump back to it.
/// `None` if it is longer than [`LONGEST_BODY`].
pub fn analyse_body(body: &[Instruction]) -> Option<BodyDependencies> {
    if body.len() > LONGEST_BODY {
        return None;
    }
    let graph = graph::Graph::new(body);
    Some(BodyDependencies {
        cycles: cycles::candidates(&graph),
        restarted: restarted::restarted(&graph),
        fp_instructions: graph.fp_instructions,
        stored: stored::is_stored(&graph),
    })
}
