//! Pages of a file's private mapping that are no longer the file's, because the process has written them.
//!
//! `/proc/PID/pagemap` has eight bytes for each page: bit 63 says that it is in memory, bit 62 that it is swapped out, bit 61 that it is a page of
//! a file or shared (Documentation/admin-guide/mm/pagemap.rst). No right is needed but that to look at the process.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use nix::unistd::Pid;

use crate::address::Address;

const PAGE: u64 = 4096;
const IN_MEMORY: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

/// Numbers of the private pages of process `pid` in `range`, of a file's private mapping; `None` if they cannot be known.
pub fn private_pages(pid: Pid, range: Range<Address>) -> Option<Vec<u64>> {
    let file = File::open(format!("/proc/{pid}/pagemap")).ok()?;
    let first = range.start.get() / PAGE;
    let count = range.end.get().div_ceil(PAGE).checked_sub(first)?;
    let mut entries = vec![0; 8 * usize::try_from(count).ok()?];
    file.read_exact_at(&mut entries, 8 * first).ok()?;
    let is_private = |entry: &[u8]| {
        let entry = entry.try_into().map_or(0, u64::from_le_bytes);
        entry & (IN_MEMORY | SWAPPED) != 0 && entry & OF_FILE == 0
    };
    Some((first..).zip(entries.chunks_exact(8)).filter(|(_, entry)| is_private(entry)).map(|(page, _)| page).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::read_maps;

    /// Data that the linker writes are private, and text is not.
    #[test]
    fn what_a_process_wrote_is_its_own() {
        static mut WRITTEN: [u64; 1024] = [1; 1024];
        let written = (&raw mut WRITTEN).cast::<u64>();
        // SAFETY: no other thread uses it.
        unsafe { written.add(512).write_volatile(2) };
        let own = Pid::this();
        let page = written as u64 / PAGE + 1;
        let found = private_pages(own, Address::new(page * PAGE)..Address::new((page + 1) * PAGE)).unwrap();
        assert_eq!(found, [page]);
        let maps = read_maps(own).unwrap();
        let at = Address::new(what_a_process_wrote_is_its_own as *const () as u64);
        let text = maps.iter().find(|m| m.contains(at)).unwrap();
        assert_eq!(private_pages(own, text.range()), Some(Vec::new()));
    }
}
