//! Which part of a process's memory lies on huge pages: transparent ones, or those that were set aside.

use std::io;

use nix::unistd::Pid;

use super::address::Address;

/// Of one mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugeShare {
    /// First address.
    pub start: Address,
    /// One past the last address.
    pub end: Address,
    /// Bytes that are resident.
    pub resident: u64,
    /// Those of them on huge pages.
    pub huge: u64,
}

/// Reads `/proc/PID/smaps`; mappings of which nothing is resident are left out. The kernel walks all pages of the process:
/// about a millisecond for a quarter of a gigabyte on small ones.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn read_huge_shares(pid: Pid) -> io::Result<Vec<HugeShare>> {
    let maps = procfs::process::Process::new(pid.as_raw()).and_then(|p| p.smaps()).map_err(io::Error::other)?;
    let of_mapping = |map: procfs::process::MemoryMap| {
        let bytes = |names: &[&str]| -> u64 { names.iter().filter_map(|name| map.extension.map.get(*name)).sum() };
        let set_aside = bytes(&["Private_Hugetlb", "Shared_Hugetlb"]);
        let huge = set_aside + bytes(&["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"]);
        let resident = set_aside + bytes(&["Rss"]);
        let (start, end) = map.address;
        (resident > 0).then_some(HugeShare { start: Address::new(start), end: Address::new(end), resident, huge })
    };
    Ok(maps.into_iter().filter_map(of_mapping).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_heap_is_resident_and_a_huge_part_of_it_is_no_more_than_that() {
        let heap = vec![1u8; 8 << 20];
        let at = Address::new(heap.as_ptr() as u64 + (4 << 20));
        let shares = read_huge_shares(nix::unistd::getpid()).unwrap();
        let here = shares.iter().find(|s| s.start <= at && at < s.end).unwrap();
        assert!(here.resident >= 4 << 20, "{here:?}");
        assert!(shares.iter().all(|s| s.huge <= s.resident), "{shares:?}");
        assert!(read_huge_shares(Pid::from_raw(i32::MAX)).is_err());
    }
}
