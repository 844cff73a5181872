//! Which file a mapping belongs to: build ids and load biases, and the table of modules that evidence refers to.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use goblin::elf::program_header::{PT_LOAD, PT_NOTE};
use goblin::elf64::header::Header;
use goblin::elf64::program_header::ProgramHeader;
use nix::unistd::Pid;

use super::address::Address;
use super::build_id;
use super::maps::Mapping;
use crate::profile::code::{CodeRef, ModuleInfo, ModuleKind};

const PAGE: u64 = 4096;
/// No header table of a sane file is larger.
const MAX_HEADERS: usize = 4096;

/// What rprof needs to know of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElfLayout {
    /// GNU build id in lower-case hexadecimal.
    pub build_id: Option<String>,
    /// (file offset, virtual address, size in the file) of each loadable segment.
    pub segments: Vec<(u64, u64, u64)>,
}

impl ElfLayout {
    /// Reads the program headers of a 64-bit ELF file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a 64-bit ELF file (`InvalidData`).
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut bytes = [0; size_of::<Header>()];
        file.read_exact_at(&mut bytes, 0)?;
        if &bytes[..5] != b"\x7fELF\x02" {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a 64-bit ELF file"));
        }
        let header = Header::from_bytes(&bytes);
        let count = usize::from(header.e_phnum).min(MAX_HEADERS);
        let mut table = vec![0; count * size_of::<ProgramHeader>()];
        file.read_exact_at(&mut table, header.e_phoff)?;
        let mut layout = ElfLayout::default();
        for p in ProgramHeader::from_bytes(&table, count) {
            match p.p_type {
                PT_LOAD => layout.segments.push((p.p_offset, p.p_vaddr, p.p_filesz)),
                PT_NOTE if layout.build_id.is_none() && p.p_filesz < 1 << 20 => {
                    let mut notes = vec![0; p.p_filesz as usize];
                    if file.read_exact_at(&mut notes, p.p_offset).is_ok() {
                        layout.build_id = build_id::from_notes(&notes);
                    }
                }
                _ => {}
            }
        }
        Ok(layout)
    }

    /// Run-time address − virtual address, where the file's bytes from `offset` on are mapped at `start`.
    pub fn bias(&self, start: Address, offset: u64) -> Option<u64> {
        let holds = |&&(at, _, size): &&(u64, u64, u64)| (at & !(PAGE - 1)..at + size).contains(&offset);
        // Neighbours may share a page of the file; the mapping that starts there is the later one's.
        let (at, vaddr, _) = self.segments.iter().filter(holds).max_by_key(|s| s.0)?;
        Some(start.get().wrapping_sub(vaddr.wrapping_add(offset).wrapping_sub(*at)))
    }
}

/// A mapping's module, and how to turn its addresses into module offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// Index into the table.
    pub module: u32,
    /// Run-time address − module offset.
    pub bias: u64,
}

impl Located {
    /// Where the run-time address `at` stands.
    pub fn code_ref(&self, at: Address) -> CodeRef {
        CodeRef { module: self.module, offset: at.get().wrapping_sub(self.bias) }
    }
}

/// The modules that a pass saw; evidence refers to them by index.
#[derive(Debug, Default)]
pub struct ModuleTable {
    modules: Vec<ModuleInfo>,
    by_file: HashMap<(String, u64, String), (u32, Option<ElfLayout>)>,
    by_name: HashMap<(String, u32), u32>,
}

impl ModuleTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds or enters the module of `mapping` in process `pid`.
    pub fn locate(&mut self, pid: Pid, mapping: &Mapping) -> Located {
        let process = pid.as_raw() as u32;
        if mapping.is_file() {
            let key = (mapping.device.clone(), mapping.inode, mapping.path.clone());
            if !self.by_file.contains_key(&key) {
                let layout = read_layout(pid, &mapping.path);
                let info = ModuleInfo {
                    kind: if layout.is_some() { ModuleKind::File } else { ModuleKind::Anonymous },
                    path: mapping.path.clone(),
                    build_id: layout.as_ref().and_then(|l| l.build_id.clone()),
                    pid: process,
                    bias: layout.as_ref().and_then(|l| l.bias(mapping.start, mapping.offset.get())).unwrap_or(0),
                };
                self.modules.push(info);
                self.by_file.insert(key.clone(), (self.modules.len() as u32 - 1, layout));
            }
            let (module, layout) = &self.by_file[&key];
            let bias = layout.as_ref().and_then(|l| l.bias(mapping.start, mapping.offset.get())).unwrap_or(0);
            return Located { module: *module, bias };
        }
        let (kind, path) = match mapping.path.as_str() {
            "[vdso]" => (ModuleKind::Vdso, "[vdso]"),
            "[vsyscall]" => (ModuleKind::Kernel, "[vsyscall]"),
            _ => (ModuleKind::Anonymous, "[anon]"),
        };
        // The vdso stands at another address in each process, but is one module: offsets count from its start.
        let bias = if kind == ModuleKind::Vdso { mapping.start.get() } else { 0 };
        let owner = if kind == ModuleKind::Anonymous { process } else { 0 };
        let modules = &mut self.modules;
        let module = *self.by_name.entry((path.to_owned(), owner)).or_insert_with(|| {
            modules.push(ModuleInfo { kind, path: path.to_owned(), build_id: None, pid: process, bias });
            modules.len() as u32 - 1
        });
        Located { module, bias }
    }

    /// The modules so far.
    pub fn modules(&self) -> &[ModuleInfo] {
        &self.modules
    }

    /// Ends the table.
    pub fn into_modules(self) -> Vec<ModuleInfo> {
        self.modules
    }
}

fn read_layout(pid: Pid, path: &str) -> Option<ElfLayout> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let inside = PathBuf::from(format!("/proc/{pid}/root{path}"));
    ElfLayout::read(&inside).or_else(|_| ElfLayout::read(Path::new(path))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::maps::read_maps;
    use goblin::elf::note::NT_GNU_BUILD_ID;

    #[test]
    fn our_own_text_has_a_module_whose_bias_fits() {
        let here = Address::new(our_own_text_has_a_module_whose_bias_fits as *const () as u64);
        let maps = read_maps(Pid::this()).unwrap();
        let mut table = ModuleTable::new();
        let mapping = maps.iter().find(|m| m.contains(here)).unwrap();
        let located = table.locate(Pid::this(), mapping);
        let layout = ElfLayout::read(&std::env::current_exe().unwrap()).unwrap();
        let offset = located.code_ref(here).offset;
        assert!(layout.segments.iter().any(|&(_, vaddr, size)| (vaddr..vaddr + size).contains(&offset)));
        assert_eq!(table.locate(Pid::this(), mapping), located);
        assert_eq!(table.modules()[0].kind, ModuleKind::File);
    }

    #[test]
    fn a_build_id_is_found_behind_another_note() {
        let mut notes = Vec::new();
        for (kind, content) in [(5u32, [1u8, 2, 3, 4]), (NT_GNU_BUILD_ID, [0xab, 0xcd, 0xef, 0x01])] {
            notes.extend(4u32.to_le_bytes());
            notes.extend(4u32.to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(b"GNU\0");
            notes.extend(content);
        }
        assert_eq!(build_id::from_notes(&notes).as_deref(), Some("abcdef01"));
        assert_eq!(build_id::from_notes(&notes[..20]), None);
    }
}
