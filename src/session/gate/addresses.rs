//! The kernel gives a program random addresses, unless its persona forbids that.

use nix::sys::personality::{self, Persona};

/// While it lives, programs that this thread starts get the same addresses in every run.
#[derive(Debug)]
pub struct FixedAddresses {
    before: Persona,
}

impl FixedAddresses {
    /// `None` if the kernel, or the container's filter, refuses.
    pub fn hold() -> Option<FixedAddresses> {
        let before = personality::get().ok()?;
        personality::set(before | Persona::ADDR_NO_RANDOMIZE).ok()?;
        Some(FixedAddresses { before })
    }
}

impl Drop for FixedAddresses {
    fn drop(&mut self) {
        // What was the persona before can be it again.
        let _ = personality::set(self.before);
    }
}
