//! Bounds of functions by the unwind tables, which stripped binaries keep.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};

use super::elf_file::ElfFile;

/// Address ranges of the `.eh_frame` entries, unsorted. Entries of the procedure linkage table, which cover it as a
/// whole, are left out. Stops at the first damaged entry.
pub fn unwind_ranges(elf: &ElfFile) -> Vec<(u64, u64)> {
    let Some(section) = elf.section(".eh_frame") else { return Vec::new() };
    let Ok(bytes) = elf.contents(section) else { return Vec::new() };
    let address = |name: &str| elf.section(name).map_or(0, |s| s.header.sh_addr);
    let bases = BaseAddresses::default()
        .set_eh_frame(section.header.sh_addr)
        .set_text(address(".text"))
        .set_got(address(".got"));
    let frames = EhFrame::new(&bytes, LittleEndian);
    let linkage = elf.sections().iter().filter(|s| s.name.starts_with(".plt"));
    let linkage: Vec<_> = linkage.map(|s| (s.header.sh_addr, s.end())).collect();
    let mut entries = frames.entries(&bases);
    let mut ranges = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let (start, end) = (entry.initial_address(), entry.initial_address().saturating_add(entry.len()));
        let in_linkage = linkage.iter().any(|(s, e)| *s <= start && start < *e);
        if start < end && start != 0 && !in_linkage {
            ranges.push((start, end));
        }
    }
    ranges
}
