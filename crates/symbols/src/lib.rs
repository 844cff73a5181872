//! Addresses to functions, inline frames and source lines.
//!
//! ```text
//!  module ─▶ ELF file ─▶ symbols, linkage table, unwind ranges ─▶ function table   (at the first look-up)
//!               └─▶ separate debug file ─▶ DWARF ─▶ lines, inline frames           (at the first line asked for)
//! ```
//!
//! Nothing here fails towards the outside: a module without symbols yields functions named `module+0xSTART`, and
//! [`warnings`](Resolver::warnings) lists everything that could not be read.

pub mod call_targets;
pub mod debug_file;
pub mod debug_sections;
pub mod demangle;
mod dlang;
pub mod dwarf;
pub mod elf_data;
pub mod elf_file;
pub mod elf_symbols;
pub mod error;
pub mod go_functions;
pub mod jit_dump;
pub mod jit_image;
pub mod jit_names;
pub mod linkage;
mod little_endian;
pub mod mini_debug;
pub mod module;
pub mod perf_map;
pub mod split_dwarf;
pub mod table;
pub mod unwind_ranges;
pub mod vdso;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rprof_join::resolver::{DataAt, FunctionAt, InlinedAt, Resolver, SourceLine};
use rprof_profile::code::{ModuleInfo, ModuleKind};
use rprof_profile::run::Warning;

use error::SymbolError;
use jit_names::JitNames;
use module::ElfModule;

/// The symbols of all modules of a program.
#[derive(Debug)]
pub struct Symbols {
    debug_root: PathBuf,
    loaded: HashMap<ModuleInfo, Loaded>,
    targets: HashMap<ModuleInfo, Vec<u64>>,
}

#[derive(Debug)]
struct Loaded {
    display: Arc<str>,
    content: Content,
    /// Sorted places where functions begin, for code that `content` does not know.
    targets: Vec<u64>,
}

#[derive(Debug)]
enum Content {
    Elf(Box<ElfModule>),
    Jit(JitNames),
    Kernel,
    Unreadable(SymbolError),
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new(Path::new(debug_file::SYSTEM_DEBUG))
    }
}

impl Symbols {
    /// Symbols with separate debug files looked for below `debug_root`.
    pub fn new(debug_root: &Path) -> Self {
        Symbols { debug_root: debug_root.to_owned(), loaded: HashMap::new(), targets: HashMap::new() }
    }

    fn load(&mut self, info: &ModuleInfo) -> &Loaded {
        if !self.loaded.contains_key(info) {
            let targets = self.targets.remove(info).unwrap_or_default();
            let content = load_content(info, &targets, &self.debug_root);
            let loaded = Loaded { display: info.file_name().into(), content, targets };
            self.loaded.insert(info.clone(), loaded);
        }
        &self.loaded[info]
    }
}

fn load_content(info: &ModuleInfo, targets: &[u64], debug_root: &Path) -> Content {
    match info.kind {
        ModuleKind::File => match ElfModule::open(&info.path, info.build_id.as_deref(), targets, debug_root) {
            Ok(module) => Content::Elf(Box::new(module)),
            Err(error) => Content::Unreadable(error),
        },
        ModuleKind::Vdso => match vdso::image() {
            Some(elf) => Content::Elf(Box::new(ElfModule::new(elf, &[], debug_root))),
            None => Content::Jit(JitNames::default()),
        },
        ModuleKind::Anonymous => Content::Jit(JitNames::of_process(info.pid)),
        ModuleKind::Kernel => Content::Kernel,
    }
}

impl Loaded {
    fn function(&self, offset: u64) -> FunctionAt {
        let unnamed = |start: u64, part_start: u64, part_end: u64| FunctionAt {
            start,
            part_start,
            part_end,
            name: format!("{}+{start:#x}", self.display).into(),
            named: false,
            module: self.display.clone(),
        };
        match &self.content {
            Content::Elf(module) => match module.function(offset) {
                Some(found) => {
                    let mut function = unnamed(found.start, found.part_start, found.part_end);
                    if let Some(name) = found.name {
                        function.named = true;
                        function.name = name;
                    } else if let Some(name) = as_a_whole(&self.display) {
                        return FunctionAt { name: name.into(), named: true, ..unnamed(0, 0, u64::MAX) };
                    }
                    function
                }
                None => {
                    // Not code, as far as the file says; the code next to it has names all the same.
                    let (from, to) = module.gap(offset);
                    let found = self.between_targets(offset, unnamed);
                    FunctionAt { part_start: found.part_start.max(from), part_end: found.part_end.min(to), ..found }
                }
            },
            Content::Jit(map) => match map.find(offset) {
                Some(s) => FunctionAt { name: s.name.as_str().into(), named: true, ..unnamed(s.start, s.start, s.end) },
                None => self.between_targets(offset, unnamed),
            },
            Content::Kernel => FunctionAt { name: self.display.clone(), named: true, ..unnamed(0, 0, u64::MAX) },
            Content::Unreadable(_) => self.between_targets(offset, unnamed),
        }
    }

    /// Code that no table knows: from one call target to the next; the module as a whole if nothing was called in it.
    fn between_targets(&self, offset: u64, unnamed: impl Fn(u64, u64, u64) -> FunctionAt) -> FunctionAt {
        let at = self.targets.partition_point(|t| *t <= offset);
        let start = if at == 0 { 0 } else { self.targets[at - 1] };
        unnamed(start, start, self.targets.get(at).copied().unwrap_or(u64::MAX))
    }

    fn elf(&self) -> Option<&ElfModule> {
        match &self.content {
            Content::Elf(module) => Some(module),
            _ => None,
        }
    }
}

impl Resolver for Symbols {
    fn call_targets(&mut self, module: &ModuleInfo, addresses: &[u64]) {
        if !self.loaded.contains_key(module) {
            let known = self.targets.entry(module.clone()).or_default();
            known.extend_from_slice(addresses);
            known.sort_unstable();
            known.dedup();
        }
    }

    fn function(&mut self, module: &ModuleInfo, offset: u64) -> FunctionAt {
        self.load(module).function(offset)
    }

    fn inlined(&mut self, module: &ModuleInfo, offset: u64) -> Vec<InlinedAt> {
        let Some(elf) = self.load(module).elf() else { return Vec::new() };
        elf.lines().map_or_else(Vec::new, |lines| lines.inlined(offset))
    }

    fn line(&mut self, module: &ModuleInfo, offset: u64) -> Option<SourceLine> {
        let elf = self.load(module).elf()?;
        elf.lines()?.line(offset)
    }

    fn host_line(&mut self, module: &ModuleInfo, offset: u64) -> Option<SourceLine> {
        let elf = self.load(module).elf()?;
        elf.lines()?.host_line(offset)
    }

    fn code(&mut self, module: &ModuleInfo, start: u64, end: u64) -> Option<Vec<u8>> {
        let elf = self.load(module).elf()?;
        elf.code(start, end)
    }

    fn data(&mut self, module: &ModuleInfo, offset: u64) -> DataAt {
        let loaded = self.load(module);
        match loaded.elf() {
            Some(elf) => elf.data(offset),
            None => DataAt::Outside,
        }
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings: Vec<Warning> = self.loaded.iter().filter_map(|(info, l)| doubt(info, l)).collect();
        warnings.sort_by(|a, b| a.text.cmp(&b.text));
        warnings.dedup();
        warnings
    }
}

/// One name for all code without symbols of a library that is shipped without any: its offsets mean nothing to a
/// reader.
fn as_a_whole(module: &str) -> Option<&'static str> {
    let is = |names: &[&str]| names.iter().any(|name| module.starts_with(name));
    match () {
        () if is(&["libcuda.so", "libcudart.so", "libnvidia-"]) => Some("[CUDA driver]"),
        () if is(&["libcupti.so", "libnvperf_", "collector.so"]) => Some("[CUPTI, for rprof]"),
        () => None,
    }
}

fn doubt(info: &ModuleInfo, loaded: &Loaded) -> Option<Warning> {
    match &loaded.content {
        Content::Unreadable(error) => Some(Warning::new(
            "symbols-unreadable",
            error.to_string(),
            format!("functions of {} are named by module and offset", info.file_name()),
            "profile again with the file that runs in its place",
        )),
        Content::Elf(module) => match module.damage() {
            Some(error) => Some(Warning::new(
                "debug-info-unreadable",
                error.to_string(),
                format!("{} has no source lines and no inline frames", info.file_name()),
                "rebuild it with debug information (-g)",
            )),
            None => split_doubt(info, &module.missing_files()),
        },
        _ => None,
    }
}

/// Debug information that the compiler left in files which are not there.
fn split_doubt(info: &ModuleInfo, missing: &[PathBuf]) -> Option<Warning> {
    let first = missing.first()?.display();
    let others = match missing.len() - 1 {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Some(Warning::new(
        "split-debug-info-missing",
        format!("{first}{others} with debug information of {} was not found", info.file_name()),
        "functions compiled there have no inline frames, and loops may have no lines",
        "keep .dwo files where the compiler wrote them, or pack them with dwp into a file beside the program; or compile without -gsplit-dwarf",
    ))
}
