//! The vdso as an ELF file. The kernel gives every process the same image, so rprof reads its own instead of the target's.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::elf_file::ElfFile;

/// Copies this process's vdso into a file in memory; `None` if the kernel maps none.
pub fn image() -> Option<ElfFile> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|l| l.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    let mut file = File::from(memfd_create("vdso", MFdFlags::MFD_CLOEXEC).ok()?);
    file.write_all(&bytes).ok()?;
    ElfFile::from_file(Path::new("[vdso]"), file).ok()
}
