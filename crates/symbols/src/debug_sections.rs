//! Debug sections of a file as gimli reads them.

use std::sync::Arc;

use gimli::{EndianArcSlice, LittleEndian};

use super::elf_file::ElfFile;
use super::error::SymbolError;

/// A section, or a part of one.
pub type Reader = EndianArcSlice<LittleEndian>;

/// Contents of the section called `name`, also if an old toolchain compressed it; empty if there is none.
///
/// # Errors
/// If the section is damaged.
pub fn section(file: &ElfFile, name: &str) -> Result<Reader, SymbolError> {
    let mut bytes = file.contents_of(name)?;
    if bytes.is_empty() {
        bytes = old_compressed(file, name)?;
    }
    Ok(Reader::new(Arc::from(bytes), LittleEndian))
}

/// Whether `file` has the debug section `name`, compressed or not.
pub fn has_section(file: &ElfFile, name: &str) -> bool {
    let old = name.strip_prefix(".debug_").map(|rest| format!(".zdebug_{rest}"));
    file.section(name).is_some() || old.is_some_and(|old| file.section(&old).is_some())
}

/// `.zdebug_*`: the compression of old toolchains, `ZLIB` and a big-endian size before the data.
fn old_compressed(file: &ElfFile, name: &str) -> Result<Vec<u8>, SymbolError> {
    let Some(rest) = name.strip_prefix(".debug_") else { return Ok(Vec::new()) };
    let bytes = file.contents_of(&format!(".zdebug_{rest}"))?;
    let Some(size) = bytes.strip_prefix(b"ZLIB").and_then(|b| b.first_chunk::<8>()).copied() else {
        return Ok(Vec::new());
    };
    let size = u64::from_be_bytes(size);
    let damaged = |detail: String| SymbolError::Damaged { path: file.path().to_owned(), part: name.to_owned(), detail };
    if size / 2048 > bytes.len() as u64 {
        return Err(damaged(format!("claims to expand to {size} bytes")));
    }
    let data =
        object::CompressedData { format: object::CompressionFormat::Zlib, data: &bytes[12..], uncompressed_size: size };
    Ok(data.decompress().map_err(|e| damaged(e.to_string()))?.into_owned())
}
