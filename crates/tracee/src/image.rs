//! The parts of an ELF image that unwinding its stacks needs: segments, build id, unwind tables.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use goblin::elf::program_header::PT_GNU_EH_FRAME;
use goblin::elf::program_header::program_header64::ProgramHeader;
use nix::unistd::Pid;

use super::address::Address;
use super::elf_layout::ElfLayout;
use super::elf_reader::ElfReader;
use super::maps::read_maps;

/// An ELF image, read once per file.
#[derive(Debug, Default)]
pub struct Image {
    /// Segments and build id.
    pub layout: ElfLayout,
    sections: Sections,
}

/// Unwind tables and the address ranges that their encodings refer to, all as the file states them.
#[derive(Debug, Default)]
struct Sections {
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Option<Table>,
    eh_frame_hdr: Option<Table>,
    debug_frame: Option<Arc<[u8]>>,
}

#[derive(Debug, Clone)]
struct Table {
    range: Range<u64>,
    bytes: Arc<[u8]>,
}

impl Image {
    /// Reads the file at `path`. Errors: it cannot be read, or is not a 64-bit little-endian ELF file.
    pub fn read(path: &Path) -> io::Result<Image> {
        Image::parse(&ElfReader::open(path)?)
    }

    /// Reads an open file. Errors: it cannot be read, or is not a 64-bit little-endian ELF file.
    pub fn of_file(file: File) -> io::Result<Image> {
        Image::parse(&ElfReader::at(file, 0)?)
    }

    /// Reads the vdso of this process; every process of the same kind on this kernel has the same one.
    pub fn vdso() -> io::Result<Image> {
        let maps = read_maps(Pid::this())?;
        let vdso = maps.iter().find(|m| m.path == "[vdso]");
        let base = vdso.ok_or(io::ErrorKind::NotFound)?.start.get();
        Image::parse(&ElfReader::at(File::open("/proc/self/mem")?, base)?)
    }

    fn parse(image: &ElfReader) -> io::Result<Image> {
        let layout = ElfLayout::of(image)?;
        let mut sections = Sections::from_section_headers(image).unwrap_or_default();
        if sections.eh_frame_hdr.is_none()
            && let Some(p) = image.programs()?.iter().find(|p| p.p_type == PT_GNU_EH_FRAME)
        {
            sections.add_from_segments(image, p, &layout);
        }
        Ok(Image { layout, sections })
    }

    /// The load bias of an executable mapping: run-time address − ELF address. `None` if no segment covers that part of the file.
    pub fn bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        self.layout.bias(Address::new(start), file_offset)
    }

    /// The image's unwind tables in framehop's terms.
    pub fn unwind_sections(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        let s = &self.sections;
        ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: s.text.clone(),
            got_svma: s.got.clone(),
            eh_frame_svma: s.eh_frame.as_ref().map(|t| t.range.clone()),
            eh_frame: s.eh_frame.as_ref().map(|t| t.bytes.clone()),
            eh_frame_hdr_svma: s.eh_frame_hdr.as_ref().map(|t| t.range.clone()),
            eh_frame_hdr: s.eh_frame_hdr.as_ref().map(|t| t.bytes.clone()),
            debug_frame: s.debug_frame.clone(),
            ..Default::default()
        }
    }
}

impl Sections {
    fn from_section_headers(image: &ElfReader) -> io::Result<Sections> {
        let headers = image.sections()?;
        let names = image.section_names(&headers)?;
        let named = |name: &str| {
            headers.iter().find(|h| {
                let rest = names.get(h.sh_name as usize..).unwrap_or_default();
                rest.strip_prefix(name.as_bytes()).is_some_and(|after| after.first() == Some(&0))
            })
        };
        let range = |name| named(name).map(|h| h.sh_addr..h.sh_addr.saturating_add(h.sh_size));
        let bytes = |name| named(name).and_then(|h| image.bytes(h.sh_offset, h.sh_size).ok()).map(Arc::from);
        let table = |name| Some(Table { range: range(name)?, bytes: bytes(name)? });
        let eh_frame = table(".eh_frame");
        let debug_frame = if eh_frame.is_none() { bytes(".debug_frame") } else { None };
        Ok(Sections {
            text: range(".text"),
            got: range(".got"),
            eh_frame,
            eh_frame_hdr: table(".eh_frame_hdr"),
            debug_frame,
        })
    }

    /// Without section headers the tables are found as the C++ run-time does: PT_GNU_EH_FRAME points to `.eh_frame`.
    fn add_from_segments(&mut self, image: &ElfReader, hdr: &ProgramHeader, layout: &ElfLayout) {
        const PC_RELATIVE_SIGNED_4: u8 = 0x1b;
        let Ok(bytes) = image.bytes(hdr.p_offset, hdr.p_filesz) else { return };
        let Some(&[1, PC_RELATIVE_SIGNED_4, _, _, a, b, c, d]) = bytes.first_chunk::<8>() else { return };
        let at = hdr.p_vaddr.wrapping_add(4).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into());
        let Some(load) = layout.segment_at(at) else { return };
        let end = load.address + load.file_size;
        let Ok(frames) = image.bytes(load.file_offset + (at - load.address), end - at) else { return };
        self.eh_frame = Some(Table { range: at..end, bytes: frames.into() });
        self.eh_frame_hdr = Some(Table { range: hdr.p_vaddr..hdr.p_vaddr + hdr.p_filesz, bytes: bytes.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_file_and_vdso_have_unwind_tables() {
        let image = Image::read(Path::new("/proc/self/exe")).unwrap();
        assert!(image.sections.eh_frame.is_some() && image.sections.eh_frame_hdr.is_some());
        let vdso = Image::vdso().unwrap();
        assert!(vdso.sections.eh_frame.is_some());
        assert_eq!(vdso.bias(0x7000_0000_0000, 0), Some(0x7000_0000_0000));
        assert!(Image::read(Path::new("/proc/self/status")).is_err());
    }

    #[test]
    fn tables_found_without_section_headers_are_the_same() {
        let path = Path::new("/proc/self/exe");
        let with = Image::read(path).unwrap();
        let source = ElfReader::open(path).unwrap();
        let programs = source.programs().unwrap();
        let hdr = programs.iter().find(|p| p.p_type == PT_GNU_EH_FRAME).unwrap();
        let mut found = Sections::default();
        found.add_from_segments(&source, hdr, &with.layout);
        let (expected, found) = (with.sections.eh_frame.unwrap(), found.eh_frame.unwrap());
        assert_eq!(expected.range.start, found.range.start);
        assert!(found.bytes.starts_with(&expected.bytes));
    }
}
