//! The pages of a process: which it has, which are its alone, which are huge.
//!
//! `/proc/PID/pagemap` has eight bytes for each page of 4 KiB: bit 63 says that it is in memory, bit 56 that only this process maps it
//! (Documentation/admin-guide/mm/pagemap.rst).

use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use nix::unistd::Pid;

use rprof_tracee::address::Address;
use rprof_tracee::maps::Mapping;

/// Bytes of a small page.
pub const PAGE: u64 = 4096;
/// Bytes of a huge page.
pub const HUGE: u64 = 2 << 20;

const PRESENT: u64 = 1 << 63;
const EXCLUSIVE: u64 = 1 << 56;

/// Pages that are read from the page map at once.
const AT_ONCE: u64 = 1 << 16;

/// Consecutive pages of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Their addresses.
    pub range: Range<u64>,
    /// Those among them that only this process maps.
    pub exclusive: u64,
}

/// The runs of pages in memory of a private `mapping` that may be written.
///
/// # Errors
/// The page map cannot be read.
pub fn present(pid: Pid, mapping: &Mapping) -> io::Result<Vec<Run>> {
    let file = fs::File::open(format!("/proc/{pid}/pagemap"))?;
    let (mut page, end) = (mapping.start.get() / PAGE, mapping.end.get() / PAGE);
    let mut runs: Vec<Run> = Vec::new();
    let mut entries = Vec::new();
    while page < end {
        let count = (end - page).min(AT_ONCE);
        entries.resize(8 * count as usize, 0);
        file.read_exact_at(&mut entries, 8 * page)?;
        for (number, entry) in (page..).zip(entries.chunks_exact(8)) {
            let entry = entry.try_into().map_or(0, u64::from_le_bytes);
            if entry & PRESENT == 0 {
                continue;
            }
            let at = number * PAGE;
            let exclusive = u64::from(entry & EXCLUSIVE != 0);
            match runs.last_mut() {
                Some(run) if run.range.end == at => {
                    run.range.end += PAGE;
                    run.exclusive += exclusive;
                }
                _ => runs.push(Run { range: at..at + PAGE, exclusive }),
            }
        }
        page += count;
    }
    Ok(runs)
}

/// Bytes of anonymous huge pages of a process; 0 if the kernel does not tell.
pub fn huge_bytes(pid: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    kilobytes(&text, "AnonHugePages:") << 10
}

/// The private anonymous mappings of a process with at least half of their memory on huge pages.
pub fn huge_ranges(pid: Pid) -> Vec<Range<Address>> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut found = Vec::new();
    let mut current: Option<(Range<Address>, u64)> = None;
    for line in text.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-')
            && let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        {
            current = Some((Address::new(start)..Address::new(end), 0));
        } else if let Some((_, resident)) = current.as_mut().filter(|_| line.starts_with("Rss:")) {
            *resident = kilobytes(line, "Rss:");
        } else if let Some((range, resident)) = current.as_ref().filter(|_| line.starts_with("AnonHugePages:"))
            && 2 * kilobytes(line, "AnonHugePages:") >= *resident
            && *resident > 0
        {
            found.push(range.clone());
        }
    }
    found
}

fn kilobytes(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The whole huge pages in `range`.
pub fn aligned(range: &Range<u64>) -> Option<Range<u64>> {
    let (start, end) = (range.start.next_multiple_of(HUGE), range.end / HUGE * HUGE);
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_tracee::maps::read_maps;

    #[test]
    fn our_own_written_pages_are_present_and_ours() {
        let data = vec![1u8; 64 * PAGE as usize];
        let own = Pid::this();
        let at = Address::new(data.as_ptr() as u64 + PAGE);
        let maps = read_maps(own).unwrap();
        let mapping = maps.iter().find(|m| m.contains(at)).unwrap();
        let runs = present(own, mapping).unwrap();
        let run = runs.iter().find(|r| r.range.contains(&at.get())).unwrap();
        assert!(run.range.end - run.range.start >= 62 * PAGE && run.exclusive >= 62, "{run:?}");
    }

    #[test]
    fn huge_pages_are_aligned() {
        assert_eq!(aligned(&(HUGE + 1..4 * HUGE - 1)), Some(2 * HUGE..3 * HUGE));
        assert_eq!(aligned(&(HUGE + 1..2 * HUGE)), None);
    }
}
