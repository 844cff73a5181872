//! The facts in an ELF file for its mapping: its segments and build id.

use std::io;
use std::path::Path;

use goblin::elf::program_header::{PT_LOAD, PT_NOTE};

use super::address::Address;
use super::build_id;
use super::elf_reader::ElfReader;

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
                PT_LOAD => {
                    layout.segments.push(Segment { file_offset: p.p_offset, file_size: p.p_filesz, address: p.p_vaddr })
                }
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

    /// Run-time address − virtual address, if the file's bytes from `offset` on are mapped at `start`; `None` if no segment
    /// covers that part of the file.
    pub fn bias(&self, start: Address, offset: u64) -> Option<u64> {
        let covers = |s: &&Segment| {
            let first = s.file_offset & !(PAGE - 1);
            // Zero-initialised data alone has no bytes in the file, wherever its header says that they begin.
            s.file_size > 0 && (first..s.file_offset.saturating_add(s.file_size)).contains(&offset)
        };
        // Neighbours may share a page of the file; the mapping that starts there is the later one's.
        let segment = self.segments.iter().filter(covers).max_by_key(|s| s.file_offset)?;
        let address = segment.address.wrapping_add(offset).wrapping_sub(segment.file_offset);
        Some(start.get().wrapping_sub(address))
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

    #[test]
    fn a_segment_without_bytes_in_the_file_is_mapped_from_nowhere() {
        let text = Segment { file_offset: 0x1000, file_size: 0x200, address: 0x40_1000 };
        let zeros = Segment { file_offset: 0x1000, file_size: 0, address: 0x40_4000 };
        let layout = ElfLayout { build_id: None, segments: vec![text, zeros] };
        assert_eq!(layout.bias(Address::new(0x40_1000), 0x1000), Some(0));
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
