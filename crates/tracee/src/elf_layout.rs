//! The facts in an ELF file for its mapping: its segments and build id.

use std::io;
use std::path::Path;

use goblin::elf::program_header::{PF_X, PT_LOAD, PT_NOTE};

use super::address::Address;
use super::build_id;
use super::elf_reader::ElfReader;
use super::maps::Mapping;

const PAGE: u64 = 4096;
/// No note segment of a sane file is larger.
const MAX_NOTES: u64 = 1 << 20;

/// A PT_LOAD segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The offset of its bytes in the file.
    pub file_offset: u64,
    /// The number of those bytes.
    pub file_size: u64,
    /// The virtual address of the first.
    pub address: u64,
    /// Holds code.
    pub executable: bool,
}

impl Segment {
    /// Whether the page of the file at `offset` is mapped for it. Zero-initialised data alone has no bytes in the file, wherever
    /// its header says that they begin.
    fn covers(&self, offset: u64) -> bool {
        let end = self.file_offset.saturating_add(self.file_size);
        self.file_size > 0 && (page_of(self.file_offset)..end).contains(&offset)
    }

    /// Run-time address − virtual address, if it is mapped with `offset` at `start`.
    fn bias(&self, start: Address, offset: u64) -> u64 {
        start.get().wrapping_sub(self.address.wrapping_add(offset).wrapping_sub(self.file_offset))
    }
}

fn page_of(at: u64) -> u64 {
    at & !(PAGE - 1)
}

/// Segments and build id of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElfLayout {
    /// GNU build id in lower-case hexadecimal.
    pub build_id: Option<String>,
    /// Its loadable segments.
    pub segments: Vec<Segment>,
}

impl ElfLayout {
    /// Reads the program headers of the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is not a 64-bit little-endian ELF file (`InvalidData`).
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::of(&ElfReader::open(path)?)
    }

    /// Reads the program headers of an image.
    ///
    /// # Errors
    /// They are not there.
    pub fn of(image: &ElfReader) -> io::Result<Self> {
        let mut layout = ElfLayout::default();
        for p in image.programs()? {
            match p.p_type {
                PT_LOAD => layout.segments.push(Segment {
                    file_offset: p.p_offset,
                    file_size: p.p_filesz,
                    address: p.p_vaddr,
                    executable: p.p_flags & PF_X != 0,
                }),
                PT_NOTE if layout.build_id.is_none() && p.p_filesz < MAX_NOTES => {
                    if let Ok(notes) = image.bytes(p.p_offset, p.p_filesz) {
                        layout.build_id = build_id::from_notes(&notes);
                    }
                }
                _ => {}
            }
        }
        Ok(layout)
    }

    /// Run-time address − virtual address, if the file's bytes from `offset` on are mapped at `start` as code; `None` if no segment
    /// covers that part of the file.
    pub fn bias(&self, start: Address, offset: u64) -> Option<u64> {
        let covering = self.segments.iter().filter(|s| s.covers(offset));
        let segment = covering.max_by_key(|s| (s.executable, s.file_offset))?;
        Some(segment.bias(start, offset))
    }

    /// Whether several segments are mapped from there, with different biases.
    pub fn is_ambiguous(&self, start: Address, offset: u64) -> bool {
        let mut biases = self.segments.iter().filter(|s| s.covers(offset)).map(|s| s.bias(start, offset));
        biases.next().is_some_and(|first| biases.any(|bias| bias != first))
    }

    /// The bias of a mapping with rights that may have changed, by the other `mappings` of the file in the process:
    /// neighbouring segments may share a page of the file, and lld and mold put all segments of a small program into one.
    pub fn bias_among(&self, start: Address, offset: u64, mappings: &[&Mapping]) -> Option<u64> {
        let mut covering: Vec<&Segment> = self.segments.iter().filter(|s| s.covers(offset)).collect();
        covering.sort_by_key(|s| std::cmp::Reverse((s.executable, s.file_offset)));
        let mut biases = covering.iter().map(|s| s.bias(start, offset));
        let is_mapped = |s: &Segment, bias: u64| {
            let (address, first) = (bias.wrapping_add(page_of(s.address)), page_of(s.file_offset));
            mappings.iter().any(|m| {
                let inside = address.wrapping_sub(m.start.get());
                m.contains(Address::new(address)) && m.offset.get().wrapping_add(inside) == first
            })
        };
        let all_mapped = |bias: &u64| self.segments.iter().filter(|s| s.file_size > 0).all(|s| is_mapped(s, *bias));
        biases.clone().find(all_mapped).or_else(|| biases.next())
    }

    /// The segment that holds the virtual address `at`.
    pub fn segment_at(&self, at: u64) -> Option<Segment> {
        let holds = |s: &&Segment| (s.address..s.address.saturating_add(s.file_size)).contains(&at);
        self.segments.iter().find(holds).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::FileOffset;

    #[test]
    fn a_segment_without_bytes_in_the_file_is_mapped_from_nowhere() {
        let text = Segment { file_offset: 0x1000, file_size: 0x200, address: 0x40_1000, executable: true };
        let zeros = Segment { file_offset: 0x1000, file_size: 0, address: 0x40_4000, executable: false };
        let layout = ElfLayout { build_id: None, segments: vec![text, zeros] };
        assert_eq!(layout.bias(Address::new(0x40_1000), 0x1000), Some(0));
    }

    #[test]
    fn segments_in_one_page_of_the_file_are_told_apart_by_the_other_mappings() {
        // As lld lays out a small program: read-only data, code and data begin in the first page. Then the code as the counting
        // engine leaves it, without its right.
        let segment = |file_offset, address, executable| Segment { file_offset, file_size: 0x300, address, executable };
        let segments = vec![segment(0, 0, false), segment(0x5c0, 0x15c0, true), segment(0x8c0, 0x28c0, false)];
        let layout = ElfLayout { build_id: None, segments };
        let base = 0x5555_0000_0000;
        assert_eq!(layout.bias(Address::new(base + 0x1000), 0), Some(base));
        let mapping = |page: u64| Mapping {
            start: Address::new(base + page * PAGE),
            end: Address::new(base + (page + 1) * PAGE),
            readable: true,
            writable: false,
            executable: false,
            shared: false,
            offset: FileOffset::new(0),
            device: "fe:00".into(),
            inode: 1,
            path: "/program".into(),
        };
        let mappings = [mapping(0), mapping(1), mapping(2)];
        let all: Vec<&Mapping> = mappings.iter().collect();
        for m in &mappings {
            assert_eq!(layout.bias_among(m.start, 0, &all), Some(base), "{m:?}");
        }
        assert_eq!(layout.bias_among(mappings[1].start, 0, &[]), Some(base), "without them: the code's");
    }

    #[test]
    fn our_own_file_has_segments_and_what_is_no_elf_file_is_refused() {
        let layout = ElfLayout::read(Path::new("/proc/self/exe")).unwrap();
        let first = layout.segments[0];
        assert_eq!(layout.bias(Address::new(0x5000_0000), first.file_offset), Some(0x5000_0000 - first.address));
        assert_eq!(layout.segment_at(first.address), Some(first));
        assert_eq!(ElfLayout::read(Path::new("/proc/self/status")).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
