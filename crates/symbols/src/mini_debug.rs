//! `.gnu_debugdata`: the names of functions that a distribution stripped (Fedora, SUSE), as an ELF file packed with xz in a section.

use std::io::Read;

use lzma_rust2::XzReader;

use super::elf_file::ElfFile;

/// More than any such table expands to; keeps a damaged one from exhausting memory.
const LARGEST: u64 = 1 << 30;

/// Memory limit of the decoder: a dictionary of 64 MiB is the largest that xz makes without being asked for more.
const DECODER_KIB: u32 = 128 << 10;

/// The ELF file in the section; `None` if there is none or it is damaged.
pub fn unpack(elf: &ElfFile) -> Option<ElfFile> {
    let packed = elf.contents_of(".gnu_debugdata").ok().filter(|bytes| !bytes.is_empty())?;
    let mut bytes = Vec::new();
    XzReader::new_mem_limit(&packed[..], true, DECODER_KIB).take(LARGEST).read_to_end(&mut bytes).ok()?;
    ElfFile::from_bytes(elf.path(), &bytes).ok()
}
