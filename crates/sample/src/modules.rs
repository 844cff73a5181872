//! The modules of the sampled code: each file once, whatever the number of processes and places it is mapped at.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use nix::unistd::Pid;

use rprof_profile::code::{ANONYMOUS, ModuleInfo, ModuleKind};
use rprof_tracee::address::Address;
use rprof_tracee::image::Image;
use rprof_tracee::jit_places;
use rprof_tracee::kept_files::{self, Stamp};
use rprof_tracee::mapped_file::{self, Known, Opened};

/// Modules by identity, and the images read for them.
#[derive(Debug, Default)]
pub(super) struct Modules {
    infos: Vec<ModuleInfo>,
    index: HashMap<Key, u32>,
    images: HashMap<FileKey, (Option<Stamp>, Option<Arc<Image>>)>,
    vdso: Option<Arc<Image>>,
    /// Processes with code made at run time.
    made_code: HashSet<u32>,
}

/// (path, inode, build id): a path may lead to several files one after the other.
type FileKey = (String, Option<u64>, Option<String>);

#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    File(String, Option<String>),
    Vdso,
    /// (process, name)
    Made(u32, String),
}

/// An executable mapping as the kernel describes it.
#[derive(Debug, Clone)]
pub(super) struct MappedFile<'a> {
    /// Process.
    pub pid: u32,
    /// First run-time address.
    pub start: u64,
    /// Offset of that address in the file.
    pub file_offset: u64,
    /// Path as the kernel names it, as [`path_text`](rprof_tracee::path_text) writes it.
    pub path: &'a str,
    /// Number of the file, if the kernel gave it.
    pub inode: Option<u64>,
    /// Build id, if the kernel gave it.
    pub build_id: Option<String>,
}

impl MappedFile<'_> {
    /// Backed by a file; not the vdso, and not anonymous memory, which has a name that begins with two slashes.
    pub fn is_file(&self) -> bool {
        self.path.starts_with('/') && !self.path.starts_with("//")
    }
}

/// The module found for a mapping.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Index of the module.
    pub module: u32,
    /// Run-time address − offset in the module; 0 for code without a file.
    pub bias: u64,
    /// Its unwind tables' source.
    pub image: Option<Arc<Image>>,
}

impl Modules {
    /// The module behind a mapping.
    pub fn find(&mut self, mapped: MappedFile) -> Found {
        if mapped.path == "[vdso]" {
            return self.vdso(&mapped);
        }
        if !mapped.is_file() {
            return Found { module: self.made(mapped.pid, ANONYMOUS), bias: 0, image: None };
        }
        match self.image(&mapped) {
            Lookup::Elf(image) => {
                let bias = image.bias(mapped.start, mapped.file_offset);
                let bias = bias.unwrap_or(mapped.start.wrapping_sub(mapped.file_offset));
                let build_id = mapped.build_id.clone().or_else(|| image.layout.build_id.clone());
                Found { module: self.file(&mapped, build_id, bias), bias, image: Some(image) }
            }
            Lookup::NotElf => {
                let is_passing = mapped.path.ends_with(" (deleted)") || jit_places::is_dump(mapped.path);
                let name = if is_passing { ANONYMOUS } else { mapped.path };
                Found { module: self.made(mapped.pid, name), bias: 0, image: None }
            }
            Lookup::Unreadable => {
                let bias = mapped.start.wrapping_sub(mapped.file_offset);
                Found { module: self.file(&mapped, mapped.build_id.clone(), bias), bias, image: None }
            }
        }
    }

    /// The module of code that no file backs in process `pid`.
    pub fn anonymous(&mut self, pid: u32) -> u32 {
        self.made(pid, ANONYMOUS)
    }

    /// The module of code in process `pid` that no file backs, or the file `name`, which is no ELF image.
    fn made(&mut self, pid: u32, name: &str) -> u32 {
        if self.made_code.insert(pid) {
            jit_places::remember(pid);
        }
        self.intern(Key::Made(pid, name.to_owned()), || ModuleInfo {
            kind: ModuleKind::Anonymous,
            path: name.to_owned(),
            build_id: None,
            pid,
            bias: 0,
        })
    }

    /// Whether the module is code that no file backs.
    pub fn is_made_at_run_time(&self, module: u32) -> bool {
        self.infos.get(module as usize).is_some_and(|info| info.kind == ModuleKind::Anonymous)
    }

    /// Process `pid` executes another program.
    pub fn executed(&mut self, pid: u32) {
        self.made_code.remove(&pid);
        jit_places::executed(pid);
    }

    /// The list, in the order of the indices given out.
    pub fn into_infos(self) -> Vec<ModuleInfo> {
        self.infos
    }

    fn vdso(&mut self, mapped: &MappedFile) -> Found {
        if self.vdso.is_none() {
            self.vdso = Image::vdso().ok().map(Arc::new);
        }
        let module = self.intern(Key::Vdso, || ModuleInfo {
            kind: ModuleKind::Vdso,
            path: "[vdso]".into(),
            build_id: None,
            pid: mapped.pid,
            bias: mapped.start,
        });
        Found { module, bias: mapped.start.wrapping_sub(mapped.file_offset), image: self.vdso.clone() }
    }

    fn file(&mut self, mapped: &MappedFile, build_id: Option<String>, bias: u64) -> u32 {
        self.intern(Key::File(mapped.path.to_owned(), build_id.clone()), || ModuleInfo {
            kind: ModuleKind::File,
            path: mapped.path.to_owned(),
            build_id,
            pid: mapped.pid,
            bias,
        })
    }

    fn image(&mut self, mapped: &MappedFile) -> Lookup {
        let key = (mapped.path.to_owned(), mapped.inode, mapped.build_id.clone());
        let opened = open(mapped);
        // The number of a removed file goes to the next one that is made.
        let metadata = opened.as_ref().ok().and_then(|opened| opened.file.metadata().ok());
        let stamp = metadata.as_ref().map(Stamp::of);
        // A file that can no longer be opened counts as unchanged.
        let known = self.images.get(&key).filter(|known| stamp.is_none() || known.0 == stamp);
        if let Some((_, known)) = known {
            return known.clone().map_or(Lookup::NotElf, Lookup::Elf);
        }
        let image = match opened.and_then(|opened| read(mapped, opened)) {
            Ok(image) => Some(Arc::new(image)),
            Err(e) if is_foreign(&e) => None,
            Err(_) if mapped.path.ends_with(" (deleted)") => None,
            Err(_) => return Lookup::Unreadable,
        };
        self.images.insert(key, (stamp, image.clone()));
        image.map_or(Lookup::NotElf, Lookup::Elf)
    }

    fn intern(&mut self, key: Key, info: impl FnOnce() -> ModuleInfo) -> u32 {
        *self.index.entry(key).or_insert_with(|| {
            self.infos.push(info());
            self.infos.len() as u32 - 1
        })
    }
}

/// Opens the file behind a mapping.
fn open(mapped: &MappedFile) -> io::Result<Opened> {
    let pid = Pid::from_raw(mapped.pid as i32);
    let known = match (&mapped.build_id, mapped.inode) {
        (Some(id), _) => Known::BuildId(id),
        (None, Some(inode)) => Known::Inode(inode),
        (None, None) => Known::Nothing,
    };
    mapped_file::open(pid, Address::new(mapped.start), mapped.path, known)
}

/// Reads the file behind a mapping, and remembers it for those that look names up.
fn read(mapped: &MappedFile, opened: Opened) -> io::Result<Image> {
    if jit_places::is_dump(mapped.path) {
        jit_places::remember_dump(mapped.pid, opened.file.try_clone()?);
    }
    let image = Image::of_file(opened.file.try_clone()?)?;
    let build_id = mapped.build_id.as_deref().or(image.layout.build_id.as_deref());
    kept_files::remember(mapped.path, build_id, opened);
    Ok(image)
}

/// The file could be read but is no ELF image: code that was made at run time and mapped through a file.
fn is_foreign(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

enum Lookup {
    Elf(Arc<Image>),
    NotElf,
    Unreadable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_one_module_wherever_it_is_mapped_and_anonymous_code_is_one_per_process() {
        let exe = std::env::current_exe().unwrap();
        let path = exe.to_str().unwrap();
        let mut modules = Modules::default();
        let mapped = |pid, start| MappedFile { pid, start, file_offset: 0, path, inode: None, build_id: None };
        let a = modules.find(mapped(1, 0x5000_0000));
        let b = modules.find(mapped(2, 0x6000_0000));
        assert_eq!(a.module, b.module);
        assert_eq!(b.bias - a.bias, 0x1000_0000);
        assert!(a.image.is_some());
        let anon = |pid| MappedFile { pid, start: 0x7000, file_offset: 0, path: "//anon", inode: None, build_id: None };
        let (x, y) = (modules.find(anon(1)), modules.find(anon(2)));
        assert_ne!(x.module, y.module);
        assert_eq!(x.bias, 0);
        let infos = modules.into_infos();
        assert_eq!(infos[a.module as usize].kind, ModuleKind::File);
        assert!(infos[a.module as usize].build_id.is_some());
        assert_eq!(infos[x.module as usize].kind, ModuleKind::Anonymous);
    }
}
