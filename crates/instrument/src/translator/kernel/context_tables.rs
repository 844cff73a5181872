//! The tables in the contexts: code reaches them through the GS base, so each context that a thread has needs a mapping of them.

use crate::translator::code_cache::layout;
use crate::translator::kernel::prepare_image::Deferred;
use crate::translator::program::address_space::AddressSpace;
use rprof_tracee::remote::{Remote, RemoteError};
use rprof_tracee::thread::Stopped;

/// Maps the tables into the contexts `contexts` of `address_space` that have none, with the help of a stopped thread of it.
///
/// # Errors
/// The thread is gone, or the kernel refuses.
pub fn map_tables(
    address_space: &mut AddressSpace,
    contexts: impl IntoIterator<Item = u32>,
    stopped: Stopped,
) -> Result<(Stopped, Deferred), RemoteError> {
    let bare: Vec<u32> = contexts.into_iter().filter(|c| !address_space.with_tables.contains(c)).collect();
    let gadget = address_space.gadget();
    let (false, Some(gadget)) = (bare.is_empty(), gadget) else { return Ok((stopped, Deferred::new())) };
    let from = address_space.image.cache.borrow().tables.base;
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    let mut remote = Remote::new(stopped, &address_space.memory, gadget)?;
    for context in bare {
        let at = address_space.image.contexts.borrow().base(context) + u64::from(layout::TABLES_AT);
        // The old size 0 makes a second mapping of shared memory.
        remote.call("mremap", libc::SYS_mremap, [from.get(), 0, layout::TABLES, flags, at.get(), 0])?;
        address_space.with_tables.insert(context);
    }
    remote.finish()
}
