//! Code of a file that was copied into anonymous memory at its own addresses, as loaders do that want it on huge pages. The same code
//! has the same names.
//!
//! ```text
//!  program r--   program r-x   [anonymous r-x]   program r-x   program r--
//!                               └ same bytes as the file has for this place? then it is the file's
//! ```

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use nix::unistd::Pid;

use super::address::{Address, FileOffset};
use super::elf_layout::{ElfLayout, Segment};
use super::elf_reader::ElfReader;
use super::mapped_file::{self, Known};
use super::maps::Mapping;

const PAGE: u64 = 4096;

/// The most pages that are compared.
const MOST_COMPARED: u64 = 64;

/// The mapping of the file with the code that the anonymous `range` holds a copy of, for that part of the range: `maps` are all
/// mappings of process `pid`, in order of address. `None` if the range is of a file, or no copy of the file that lies around it.
pub fn original(pid: Pid, range: &Mapping, maps: &[Mapping]) -> Option<Mapping> {
    if range.is_file() {
        return None;
    }
    let below = maps.iter().rfind(|m| m.is_file() && m.end <= range.start)?;
    let above = maps.iter().find(|m| m.is_file() && range.end <= m.start)?;
    // Code made at run time lies between different files, as a rule: nothing is read then.
    if !below.is_of_same_file(above) {
        return None;
    }
    let file = mapped_file::open(pid, below.start, &below.path, Known::Inode(below.inode)).ok()?.file;
    let layout = ElfLayout::of(&ElfReader::at(file.try_clone().ok()?, 0).ok()?).ok()?;
    let of_file: Vec<&Mapping> = maps.iter().filter(|m| m.is_of_same_file(below)).collect();
    let bias = layout.bias_among(below.start, below.offset.get(), &of_file)?;
    let code = layout.segments.iter().filter(|s| s.executable);
    code.into_iter().find_map(|segment| copy_of_segment(pid, range, &file, segment, bias, below))
}

fn copy_of_segment(
    pid: Pid,
    range: &Mapping,
    file: &File,
    segment: &Segment,
    bias: u64,
    of: &Mapping,
) -> Option<Mapping> {
    let loaded = segment.address.wrapping_add(bias);
    let (from, to) = (range.start.get().max(loaded), range.end.get().min(loaded.wrapping_add(segment.file_size)));
    let in_file = |address: u64| segment.file_offset.wrapping_add(address.wrapping_sub(loaded));
    if from >= to || !is_copy(pid, from..to, file, in_file(from)).unwrap_or(false) {
        return None;
    }
    // Segments begin anywhere in a page; mappings with it.
    let start = Address::new(from).align_down(PAGE);
    let (device, path) = (of.device.clone(), of.path.clone());
    Some(Mapping {
        start,
        offset: FileOffset::new(in_file(start.get())),
        device,
        inode: of.inode,
        path,
        ..range.clone()
    })
}

/// Whether memory has the bytes that `file` has from `offset` on, by pages all over the `range`.
fn is_copy(pid: Pid, range: Range<u64>, file: &File, offset: u64) -> io::Result<bool> {
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let length = range.end.saturating_sub(range.start);
    let step = (length.div_ceil(MOST_COMPARED)).max(PAGE).next_multiple_of(PAGE);
    let mut compared = 0;
    for from in (0..length).step_by(step as usize) {
        let size = PAGE.min(length - from) as usize;
        let (mut ours, mut theirs) = (vec![0; size], vec![0; size]);
        memory.read_exact_at(&mut ours, range.start + from)?;
        file.read_exact_at(&mut theirs, offset + from)?;
        if ours != theirs {
            return Ok(false);
        }
        compared += size;
    }
    Ok(compared > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::read_maps;

    /// A page of our own text, in a copy of our maps that has it as anonymous.
    fn with_a_hole() -> (Mapping, Vec<Mapping>) {
        let here = Address::new(with_a_hole as *const () as u64).align_down(PAGE);
        let mut maps = read_maps(Pid::this()).unwrap();
        let at = maps.iter().position(|m| m.contains(here)).unwrap();
        let whole = maps[at].clone();
        let piece = |from: Address, to: Address| Mapping {
            start: from,
            end: to,
            offset: FileOffset::new(whole.offset.get() + (from - whole.start)),
            ..whole.clone()
        };
        let next = here + PAGE;
        let hole = Mapping { inode: 0, path: String::new(), offset: FileOffset::new(0), ..piece(here, next) };
        maps.splice(at..=at, [piece(whole.start, here), hole.clone(), piece(next, whole.end)]);
        maps.retain(|m| m.start < m.end);
        (hole, maps)
    }

    #[test]
    fn a_copy_of_a_files_code_is_the_files() {
        let (hole, maps) = with_a_hole();
        let found = original(Pid::this(), &hole, &maps).unwrap();
        assert_eq!(found.path, std::env::current_exe().unwrap().to_str().unwrap());
        let real = read_maps(Pid::this()).unwrap();
        let mapping = real.iter().find(|m| m.contains(hole.start)).unwrap();
        assert_eq!((found.start, found.end), (hole.start, hole.end));
        assert_eq!(found.offset.get(), mapping.offset.get() + (hole.start - mapping.start));
        assert!(original(Pid::this(), mapping, &real).is_none(), "it is the file itself");
    }

    #[test]
    fn other_bytes_are_other_code() {
        let (hole, mut maps) = with_a_hole();
        // As if the file were mapped a page further up: the same memory is another place of it.
        let path = maps.iter().find(|m| m.contains(hole.end)).unwrap().path.clone();
        for m in maps.iter_mut().filter(|m| m.path == path) {
            (m.start, m.end) = (m.start + PAGE, m.end + PAGE);
        }
        let hole = Mapping { start: hole.start + PAGE / 2, end: hole.end, ..hole };
        maps.retain(|m| m.path != path || m.end <= hole.start || hole.end <= m.start);
        assert!(original(Pid::this(), &hole, &maps).is_none());
    }

    #[test]
    fn memory_between_different_files_is_no_copy() {
        let maps = read_maps(Pid::this()).unwrap();
        let mut between = maps.iter().filter(|m| !m.is_file() && m.path.is_empty());
        assert!(between.all(|m| original(Pid::this(), m, &maps).is_none()));
    }
}
