//! How control gets to an address that is looked up, and transfers of control that are nearly complete.

use crate::translator::code_cache::block::SiteId;
use crate::translator::code_cache::stubs::{CALLEE, RETURN};
use rprof_tracee::address::Address;

/// How control gets to an address that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// By an indirect jump, or a return that drops arguments.
    Jump,
    /// By an indirect call, which left the cache's return address on the stack.
    Call,
    /// By a return; its slot on the stack held the cache's address for a moment.
    Return,
}

impl Arrival {
    /// How control got to the lookup that asks with the number `site`; `None` if that is an exit.
    pub fn of(site: SiteId) -> Option<Arrival> {
        match site {
            0 => Some(Arrival::Jump),
            CALLEE => Some(Arrival::Call),
            RETURN => Some(Arrival::Return),
            _ => None,
        }
    }
}

/// A transfer of control of the program that only lacks the cache's own part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// A call of this address.
    Call(Address),
    /// A call of the address in RDX; RCX and RDX are saved.
    CallOfRdx,
    /// A return: the stack pointer is still at the return address.
    Return {
        /// RCX is saved.
        rcx_is_saved: bool,
    },
}
