//! Separate debug files: found by build id, else by `.gnu_debuglink`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::elf_file::ElfFile;

/// Where distributions put debug files.
pub const SYSTEM_DEBUG: &str = "/usr/lib/debug";

/// The file that holds the debug information split off from `elf`, if it is installed. A file found by name must carry
/// the same build id or, if there is none, the checksum that the link states.
pub fn find(elf: &ElfFile, debug_root: &Path) -> Option<ElfFile> {
    let build_id = elf.build_id();
    let by_id = build_id.as_deref().and_then(|id| build_id_path(id, debug_root)).and_then(|p| ElfFile::open(&p).ok());
    if let Some(file) = by_id.filter(|f| f.build_id() == build_id) {
        return Some(file);
    }
    let (name, checksum) = debug_link(elf)?;
    let found = link_candidates(elf.path(), &name, debug_root).into_iter().find(|path| {
        let Ok(candidate) = ElfFile::open(path) else { return false };
        match (&build_id, candidate.build_id()) {
            (Some(ours), Some(theirs)) => *ours == theirs,
            _ => std::fs::read(path).is_ok_and(|bytes| crc32(&bytes) == checksum),
        }
    })?;
    ElfFile::open(&found).ok()
}

/// The supplementary file that `dwz` moved common debug information to (`.gnu_debugaltlink` of `debug`).
pub fn supplementary(debug: &ElfFile, debug_root: &Path) -> Option<ElfFile> {
    let link = debug.contents_of(".gnu_debugaltlink").ok()?;
    let end = link.iter().position(|b| *b == 0)?;
    let id: String = link[end + 1..].iter().map(|b| format!("{b:02x}")).collect();
    let stated = debug.path().parent()?.join(OsStr::from_bytes(&link[..end]));
    let candidates = [Some(stated), build_id_path(&id, debug_root)].into_iter().flatten();
    let mut files = candidates.filter_map(|path| ElfFile::open(&path).ok());
    files.find(|file| file.build_id().as_deref() == Some(id.as_str()))
}

fn build_id_path(id: &str, debug_root: &Path) -> Option<PathBuf> {
    if !id.is_ascii() || id.len() < 4 {
        return None;
    }
    let (head, tail) = id.split_at(2);
    Some(debug_root.join(".build-id").join(head).join(format!("{tail}.debug")))
}

fn debug_link(elf: &ElfFile) -> Option<(PathBuf, u32)> {
    let link = elf.contents_of(".gnu_debuglink").ok()?;
    let end = link.iter().position(|b| *b == 0)?;
    let at = (end + 1).next_multiple_of(4);
    let checksum = u32::from_le_bytes(link.get(at..at + 4)?.try_into().ok()?);
    // Only a file name is meant; a path would lead out of the places that are searched.
    let name = Path::new(OsStr::from_bytes(&link[..end])).file_name()?.to_owned();
    Some((name.into(), checksum))
}

fn link_candidates(program: &Path, name: &Path, debug_root: &Path) -> Vec<PathBuf> {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let Some(folder) = program.parent() else { return Vec::new() };
    let below_root = folder.strip_prefix("/").unwrap_or(folder);
    let mut places = vec![folder.join(name), folder.join(".debug").join(name), debug_root.join(below_root).join(name)];
    places.retain(|p| *p != program);
    places
}

/// CRC-32 as zlib computes it, which `.gnu_debuglink` states.
fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] =
        std::array::from_fn(|i| (0..8).fold(i as u32, |c, _| if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 }));
    !bytes.iter().fold(!0, |crc, byte| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_the_one_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
