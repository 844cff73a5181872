//! The table of modules that evidence refers to: the file that a mapping belongs to, and the offset in it.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;

use nix::unistd::Pid;

use super::address::Address;
use super::elf_layout::ElfLayout;
use super::elf_reader::ElfReader;
use super::kept_files::Stamp;
use super::mapped_file::{self, Known};
use super::maps::{Mapping, read_maps};
use super::{copied_text, jit_places, kept_files};
use rprof_profile::code::{ANONYMOUS, CodeRef, ModuleInfo, ModuleKind};

/// A mapping's module, and the conversion of its addresses into module offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// Index into the table.
    pub module: u32,
    /// Run-time address − module offset.
    pub bias: u64,
}

impl Located {
    /// The module and offset of the run-time address `at`.
    pub fn code_ref(&self, at: Address) -> CodeRef {
        CodeRef { module: self.module, offset: at.get().wrapping_sub(self.bias) }
    }
}

/// A file that is a module.
#[derive(Debug)]
struct File {
    module: u32,
    layout: Option<ElfLayout>,
    /// `None`: nothing led to it.
    stamp: Option<Stamp>,
}

/// The modules that a pass saw; evidence refers to them by index.
#[derive(Debug, Default)]
pub struct ModuleTable {
    modules: Vec<ModuleInfo>,
    by_file: HashMap<(String, u64, String), File>,
    by_name: HashMap<(String, u32), u32>,
    /// Anonymous memory that was found to be no copy of a file's code.
    no_copies: HashSet<(Pid, Address, Address)>,
}

impl ModuleTable {
    /// Finds or enters the module of `mapping` in process `pid`.
    pub fn locate(&mut self, pid: Pid, mapping: &Mapping) -> Located {
        let process = pid.as_raw() as u32;
        if mapping.is_file() {
            let key = (mapping.device.clone(), mapping.inode, mapping.path.clone());
            // The number of a removed file goes to the next one that is made, and a file can be written anew.
            let stamp = mapped_file::metadata(pid, &mapping.path).filter(|data| data.ino() == mapping.inode);
            let stamp = stamp.as_ref().map(Stamp::of);
            let is_it = |known: &File| stamp.is_none() || known.stamp.is_none() || known.stamp == stamp;
            if !self.by_file.get(&key).is_some_and(is_it) {
                let layout = read_layout(pid, mapping);
                let info = ModuleInfo {
                    kind: if layout.is_some() { ModuleKind::File } else { ModuleKind::Anonymous },
                    path: mapping.path.clone(),
                    build_id: layout.as_ref().and_then(|l| l.build_id.clone()),
                    pid: process,
                    bias: bias(pid, layout.as_ref(), mapping),
                };
                self.modules.push(info);
                let module = self.modules.len() as u32 - 1;
                self.by_file.insert(key.clone(), File { module, layout, stamp });
            }
            let File { module, layout, .. } = &self.by_file[&key];
            return Located { module: *module, bias: bias(pid, layout.as_ref(), mapping) };
        }
        if let Some(original) = self.original(pid, mapping) {
            return self.locate(pid, &original);
        }
        let (kind, path) = match mapping.path.as_str() {
            "[vdso]" => (ModuleKind::Vdso, "[vdso]"),
            "[vsyscall]" => (ModuleKind::Kernel, "[vsyscall]"),
            _ => (ModuleKind::Anonymous, ANONYMOUS),
        };
        // The vdso has another address in each process, but is one module: offsets count from its start.
        let bias = if kind == ModuleKind::Vdso { mapping.start.get() } else { 0 };
        let owner = if kind == ModuleKind::Anonymous { process } else { 0 };
        let modules = &mut self.modules;
        let module = *self.by_name.entry((path.to_owned(), owner)).or_insert_with(|| {
            if kind == ModuleKind::Anonymous {
                jit_places::remember(process);
            }
            modules.push(ModuleInfo { kind, path: path.to_owned(), build_id: None, pid: process, bias });
            modules.len() as u32 - 1
        });
        if kind == ModuleKind::Anonymous {
            jit_places::look(process);
        }
        Located { module, bias }
    }

    /// The mapping of the file that anonymous memory has a copy of, if it has one.
    fn original(&mut self, pid: Pid, mapping: &Mapping) -> Option<Mapping> {
        let key = (pid, mapping.start, mapping.end);
        if self.no_copies.contains(&key) {
            return None;
        }
        let original = copied_text::original(pid, mapping, &read_maps(pid).ok()?);
        if original.is_none() {
            self.no_copies.insert(key);
        }
        original
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

/// If no segment is mapped from there, as in object files that a program maps as they are, module offsets are those in the file.
fn bias(pid: Pid, layout: Option<&ElfLayout>, mapping: &Mapping) -> u64 {
    let Some(layout) = layout else { return 0 };
    let as_in_file = || mapping.start.get().wrapping_sub(mapping.offset.get());
    if !layout.is_ambiguous(mapping.start, mapping.offset.get()) {
        return layout.bias(mapping.start, mapping.offset.get()).unwrap_or_else(as_in_file);
    }
    let maps = read_maps(pid).unwrap_or_default();
    let of_file: Vec<&Mapping> = maps.iter().filter(|m| m.is_of_same_file(mapping)).collect();
    layout.bias_among(mapping.start, mapping.offset.get(), &of_file).unwrap_or_else(as_in_file)
}

fn read_layout(pid: Pid, mapping: &Mapping) -> Option<ElfLayout> {
    let opened = mapped_file::open(pid, mapping.start, &mapping.path, Known::Inode(mapping.inode)).ok()?;
    if jit_places::is_dump(&mapping.path) {
        jit_places::remember_dump(pid.as_raw() as u32, opened.file.try_clone().ok()?);
    }
    let layout = ElfLayout::of(&ElfReader::at(opened.file.try_clone().ok()?, 0).ok()?).ok()?;
    kept_files::remember(&mapping.path, layout.build_id.as_deref(), opened);
    Some(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_text_has_a_module_whose_bias_fits() {
        let here = Address::new(our_own_text_has_a_module_whose_bias_fits as *const () as u64);
        let maps = read_maps(Pid::this()).unwrap();
        let mut table = ModuleTable::default();
        let mapping = maps.iter().find(|m| m.contains(here)).unwrap();
        let located = table.locate(Pid::this(), mapping);
        let layout = ElfLayout::read(&std::env::current_exe().unwrap()).unwrap();
        let offset = located.code_ref(here).offset;
        assert!(layout.segment_at(offset).is_some());
        assert_eq!(table.locate(Pid::this(), mapping), located);
        assert_eq!(table.modules()[0].kind, ModuleKind::File);
    }

    #[test]
    fn a_file_that_is_written_anew_is_another_module() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        std::fs::copy("/proc/self/exe", &path).unwrap();
        let mut table = ModuleTable::default();
        let maps = read_maps(Pid::this()).unwrap();
        let text = maps.iter().find(|m| m.is_file() && m.executable).unwrap().clone();
        let inode = std::fs::metadata(&path).unwrap().ino();
        let mapping = Mapping { path: path.to_str().unwrap().into(), inode, ..text };
        let first = table.locate(Pid::this(), &mapping);
        assert_eq!(table.locate(Pid::this(), &mapping), first);
        let longer = [std::fs::read("/proc/self/exe").unwrap(), vec![0; 64]].concat();
        std::fs::write(&path, longer).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode);
        assert_eq!([first, table.locate(Pid::this(), &mapping)].map(|located| located.module), [0, 1]);
    }
}
