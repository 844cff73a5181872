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
pub mod demangle;
pub mod dwarf;
pub mod elf_data;
pub mod elf_file;
pub mod elf_symbols;
pub mod error;
pub mod linkage;
pub mod module;
pub mod perf_map;
pub mod table;
pub mod unwind_ranges;
pub mod vdso;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::join::resolver::{DataAt, FunctionAt, InlinedAt, Resolver, SourceLine};
use crate::profile::code::{ModuleInfo, ModuleKind};
use crate::profile::run::Warning;

use error::SymbolError;
use module::ElfModule;
use perf_map::PerfMap;

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
    Elf { module: Box<ElfModule>, bias: u64 },
    Jit(PerfMap),
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
        ModuleKind::File => {
            let path = info.path.strip_suffix(" (deleted)").unwrap_or(&info.path);
            match ElfModule::open(Path::new(path), info.build_id.as_deref(), targets, debug_root) {
                Ok(module) => Content::Elf { module: Box::new(module), bias: 0 },
                Err(error) => Content::Unreadable(error),
            }
        }
        ModuleKind::Vdso => match vdso::image() {
            Some(elf) => Content::Elf { module: Box::new(ElfModule::new(elf, &[], debug_root)), bias: info.bias },
            None => Content::Jit(PerfMap::default()),
        },
        ModuleKind::Anonymous => Content::Jit(PerfMap::of_process(info.pid)),
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
            Content::Elf { module, bias } => match module.function(offset.wrapping_sub(*bias)) {
                Some(found) => {
                    let at = |address: u64| address.wrapping_add(*bias);
                    let mut function = unnamed(found.start, at(found.part_start), at(found.part_end));
                    if let Some(name) = found.name {
                        function.named = true;
                        function.name = name;
                    } else if let Some(name) = as_a_whole(&self.display) {
                        return FunctionAt { name: name.into(), named: true, ..unnamed(0, 0, u64::MAX) };
                    }
                    FunctionAt { start: at(found.start), ..function }
                }
                None => self.between_targets(offset, unnamed),
            },
            Content::Jit(map) => match map.find(offset) {
                Some((start, end, name)) => FunctionAt { name: name.into(), named: true, ..unnamed(start, start, end) },
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

    fn elf(&self) -> Option<(&ElfModule, u64)> {
        match &self.content {
            Content::Elf { module, bias } => Some((module, *bias)),
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
        let Some((elf, bias)) = self.load(module).elf() else { return Vec::new() };
        elf.lines().map_or_else(Vec::new, |lines| lines.inlined(offset.wrapping_sub(bias)))
    }

    fn line(&mut self, module: &ModuleInfo, offset: u64) -> Option<SourceLine> {
        let (elf, bias) = self.load(module).elf()?;
        elf.lines()?.line(offset.wrapping_sub(bias))
    }

    fn host_line(&mut self, module: &ModuleInfo, offset: u64) -> Option<SourceLine> {
        let (elf, bias) = self.load(module).elf()?;
        elf.lines()?.host_line(offset.wrapping_sub(bias))
    }

    fn code(&mut self, module: &ModuleInfo, start: u64, end: u64) -> Option<Vec<u8>> {
        let (elf, bias) = self.load(module).elf()?;
        elf.code(start.wrapping_sub(bias), end.wrapping_sub(bias))
    }

    fn data(&mut self, module: &ModuleInfo, offset: u64) -> DataAt {
        let loaded = self.load(module);
        match loaded.elf() {
            Some((elf, bias)) => elf.data(offset.wrapping_sub(bias)),
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

/// One name for all code without symbols of a library that is shipped without any: its offsets mean nothing to anybody.
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
        Content::Elf { module, .. } => module.damage().map(|error| {
            Warning::new(
                "debug-info-unreadable",
                error.to_string(),
                format!("{} has no source lines and no inline frames", info.file_name()),
                "rebuild it with debug information (-g)",
            )
        }),
        _ => None,
    }
}
