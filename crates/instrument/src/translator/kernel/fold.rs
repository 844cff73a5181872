//! Between two visits only the first page of each of rprof's mappings stays in the program: it cannot lock, inherit or count the rest,
//! and nothing is in its way. The next visit extends the pages to the whole mappings, which still hold what they held.
//!
//! ```text
//!  window:   [tables······] [contexts·····························] [arena·········]
//!  natively: [t]            [c]                                      [syscall]
//! ```

use crate::translator::kernel::memory_locks::unlock;
use crate::translator::kernel::prepare_image::Deferred;
use crate::translator::program::address_space::AddressSpace;
use rprof_tracee::address::Address;
use rprof_tracee::maps::Mapping;
use rprof_tracee::proc_status::read_locked_bytes;
use rprof_tracee::remote::{Remote, RemoteError};
use rprof_tracee::thread::Stopped;

const PAGE: u64 = 4096;

/// Unmaps all but the first pages, with the help of a stopped thread. No thread is in the code cache.
pub fn fold(address_space: &mut AddressSpace, stopped: Stopped) -> Result<(Stopped, Deferred), RemoteError> {
    let Some(gadget) = address_space.gadget() else { return Ok((stopped, Deferred::new())) };
    address_space.with_tables.clear();
    let mut remote = Remote::new(stopped, &address_space.memory, gadget)?;
    for (at, size) in address_space.mappings() {
        let arguments = [at.get() + PAGE, size - PAGE, 0, 0, 0, 0];
        leave_refused(remote.call("munmap", libc::SYS_munmap, arguments))?;
    }
    remote.finish()
}

/// Maps everything again; `maps` are the mappings of the process. Returns whether that was possible: something may have been mapped there
/// meanwhile.
pub fn unfold(
    address_space: &AddressSpace,
    maps: &[Mapping],
    stopped: Stopped,
) -> Result<(bool, Stopped, Deferred), RemoteError> {
    let is_mapped = |at: Address| maps.iter().any(|m| m.contains(at));
    let folded: Vec<_> = address_space.mappings().filter(|&(at, size)| !is_mapped(at + (size - 1))).collect();
    let (false, Some(gadget)) = (folded.is_empty(), address_space.gadget()) else {
        return Ok((true, stopped, Deferred::new()));
    };
    let locked = read_locked_bytes(address_space.pid) > 0;
    let mut remote = Remote::new(stopped, &address_space.memory, gadget)?;
    let mut is_whole = true;
    for (at, size) in folded {
        if locked {
            leave_refused(unlock(&mut remote, at.get(), PAGE).map(|()| 0))?;
        }
        let extended = remote.call("mremap", libc::SYS_mremap, [at.get(), PAGE, size, 0, 0, 0]);
        is_whole &= leave_refused(extended)?;
        if !is_whole {
            break;
        }
    }
    let (stopped, signals) = remote.finish()?;
    Ok((is_whole, stopped, signals))
}

/// Whether a call succeeded; `Err` if the thread cannot be driven.
fn leave_refused(result: Result<u64, RemoteError>) -> Result<bool, RemoteError> {
    match result {
        Ok(_) => Ok(true),
        Err(RemoteError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
