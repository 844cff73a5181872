//! The vdso as an ELF file. The kernel gives every process the same image, so rprof reads its own instead of the target's.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::unistd::Pid;

use super::elf_file::ElfFile;
use rprof_tracee::maps::read_maps;

/// Copies this process's vdso into a file in memory; `None` if the kernel maps none.
pub fn image() -> Option<ElfFile> {
    let maps = read_maps(Pid::this()).ok()?;
    let vdso = maps.iter().find(|m| m.path == "[vdso]")?;
    let mut bytes = vec![0; (vdso.end - vdso.start) as usize];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, vdso.start.get()).ok()?;
    ElfFile::from_bytes(Path::new("[vdso]"), &bytes).ok()
}
