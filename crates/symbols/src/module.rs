//! All known facts about one module's code: its function table, and its debug information on demand.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::call_targets::call_targets;
use super::debug_file;
use super::demangle::{Dialect, cold_host, demangle, unless_taken};
use super::dwarf::LineInfo;
use super::elf_data::{self, DataSymbol};
use super::elf_file::ElfFile;
use super::elf_symbols::{code_symbols, dynamic_names};
use super::error::SymbolError;
use super::go_functions::go_functions;
use super::linkage::linkage_symbols;
use super::mini_debug;
use super::split_dwarf::SplitDwarf;
use super::table::{FunctionTable, TableInput};
use super::unwind_ranges::unwind_ranges;
use rprof_join::resolver::DataAt;
use rprof_tracee::kept_files::{self, Reopened};
use rprof_tracee::path_text;

/// A module that is an ELF file (or the vdso, which looks like one).
#[derive(Debug)]
pub struct ElfModule {
    elf: ElfFile,
    debug: Option<ElfFile>,
    debug_root: PathBuf,
    dialect: Dialect,
    table: FunctionTable,
    names: Vec<OnceCell<Arc<str>>>,
    /// The symbols of its functions.
    raw_names: OnceCell<HashSet<Box<str>>>,
    lines: OnceCell<Result<Option<LineInfo>, SymbolError>>,
    data: OnceCell<Vec<DataSymbol>>,
}

/// A function of the module around an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// First address of the function.
    pub start: u64,
    /// First address of the part that holds the address.
    pub part_start: u64,
    /// First address after that part.
    pub part_end: u64,
    /// Demangled name; `None` if no symbol names the function.
    pub name: Option<Arc<str>>,
}

impl ElfModule {
    /// Reads the symbols of the file that ran as `path` (as evidence has it) and had the build id `expected`, if that is known.
    ///
    /// # Errors
    /// If the file cannot be read, is foreign, damaged, or another one than the one that ran.
    pub fn open(path: &str, expected: Option<&str>, targets: &[u64], debug_root: &Path) -> Result<Self, SymbolError> {
        let deleted = path.strip_suffix(" (deleted)");
        let name = path_text::decode(deleted.unwrap_or(path));
        let opened = kept_files::open(path, expected).or_else(|error| match expected {
            // An update puts the same file there again, if the build id says so.
            Some(_) if deleted.is_some() => File::open(&name).map(Reopened::Same),
            _ => Err(error),
        });
        let elf = match opened {
            Ok(Reopened::Same(file)) => ElfFile::from_file(&name, file)?,
            Ok(Reopened::Changed) => return Err(SymbolError::Rewritten { path: name }),
            Err(source) => return Err(SymbolError::Read { path: name, source }),
        };
        let found = elf.build_id();
        match expected {
            Some(expected) if found.as_deref() != Some(expected) => Err(SymbolError::Changed {
                path: name,
                expected: expected.to_owned(),
                found: found.unwrap_or_else(|| "none".into()),
            }),
            _ => Ok(Self::new(elf, targets, debug_root)),
        }
    }

    /// Builds the function table of `elf`; `targets` are addresses that were seen to be called.
    pub fn new(elf: ElfFile, targets: &[u64], debug_root: &Path) -> Self {
        let debug = debug_file::find(&elf, debug_root);
        let mut symbols = code_symbols(&elf);
        if let Some(debug) = &debug {
            symbols.extend(code_symbols(debug));
        }
        if let Some(packed) = mini_debug::unpack(&elf) {
            symbols.extend(code_symbols(&packed));
        }
        if elf.section(".symtab").is_none() {
            symbols.extend(go_functions(&elf));
        }
        let imported = dynamic_names(&elf);
        let dialect = Dialect::of(symbols.iter().map(|s| s.name.as_str()).chain(imported.iter().map(String::as_str)));
        symbols.extend(linkage_symbols(&elf, &symbols));
        let unwind = unwind_ranges(&elf);
        let mut targets = targets.to_vec();
        if unwind.is_empty() {
            targets.extend(call_targets(&elf));
        }
        let mut table = FunctionTable::new(TableInput { symbols, unwind, targets, code: elf.code_ranges() });
        join_cold_parts(&mut table);
        let names = table.functions().iter().map(|_| OnceCell::new()).collect();
        ElfModule {
            elf,
            debug,
            debug_root: debug_root.to_owned(),
            dialect,
            table,
            names,
            raw_names: OnceCell::new(),
            lines: OnceCell::new(),
            data: OnceCell::new(),
        }
    }

    /// The function at `address`.
    pub fn function(&self, address: u64) -> Option<Found> {
        let (part, function) = self.table.find(address)?;
        let name = function.name.as_deref().map(|raw| {
            let cell = &self.names[part.function as usize];
            cell.get_or_init(|| unless_taken(raw, self.dialect, |name| self.has_function(name)).into()).clone()
        });
        Some(Found { start: function.start, part_start: part.start, part_end: part.end, name })
    }

    /// Whether a symbol of a function has this raw name.
    fn has_function(&self, name: &str) -> bool {
        let raw = || self.table.functions().iter().filter_map(|function| function.name.as_deref());
        self.raw_names.get_or_init(|| raw().map(Box::from).collect()).contains(name)
    }

    /// The addresses around `address` that are no code of a function.
    pub fn gap(&self, address: u64) -> (u64, u64) {
        self.table.gap(address)
    }

    /// The data that the memory at `address` belongs to.
    pub fn data(&self, address: u64) -> DataAt {
        let files = || std::iter::once(&self.elf).chain(&self.debug);
        let symbols = self.data.get_or_init(|| elf_data::data_symbols(files()));
        match elf_data::find(symbols, address) {
            Some(symbol) => DataAt::Variable { name: demangle(&symbol.name, self.dialect).into(), bytes: symbol.size },
            None if self.elf.is_in_memory(address) => DataAt::Unnamed,
            None => DataAt::Outside,
        }
    }

    /// Debug information, read at the first call. `None` if there is none or it is damaged.
    pub fn lines(&self) -> Option<&LineInfo> {
        let load = || {
            let source = self.debug.as_ref().unwrap_or(&self.elf);
            let supplementary = debug_file::supplementary(source, &self.debug_root);
            let files = std::iter::once(&self.elf).chain(&self.debug).map(|file| file.path().to_owned());
            LineInfo::load(source, supplementary.as_ref(), SplitDwarf::new(files.collect()), self.dialect)
        };
        self.lines.get_or_init(load).as_ref().ok()?.as_ref()
    }

    /// Why the debug information could not be read, if it was needed and is damaged.
    pub fn damage(&self) -> Option<&SymbolError> {
        self.lines.get()?.as_ref().err()
    }

    /// Files with debug information that were needed and not found.
    pub fn missing_files(&self) -> Vec<PathBuf> {
        let lines = self.lines.get().and_then(|lines| lines.as_ref().ok()?.as_ref());
        lines.map(LineInfo::missing_files).unwrap_or_default()
    }

    /// Code bytes at `start..end`.
    pub fn code(&self, start: u64, end: u64) -> Option<Vec<u8>> {
        self.elf.loaded(start, end)
    }
}

/// Makes detached cold parts (`f.cold`) parts of their host. Where several functions share a name (file-local ones),
/// the parts are matched in address order, which is the order of the object files for both.
fn join_cold_parts(table: &mut FunctionTable) {
    let mut by_name: HashMap<&str, Vec<u32>> = HashMap::new();
    let mut cold: HashMap<&str, Vec<u32>> = HashMap::new();
    for (i, function) in table.functions().iter().enumerate() {
        let Some(name) = function.name.as_deref() else { continue };
        match cold_host(name) {
            Some(host) => cold.entry(host).or_default().push(i as u32),
            None => by_name.entry(name).or_default().push(i as u32),
        }
    }
    let mut into: Vec<u32> = (0..table.functions().len() as u32).collect();
    for (host, parts) in &cold {
        match by_name.get(host).map(Vec::as_slice) {
            Some([only]) => parts.iter().for_each(|p| into[*p as usize] = *only),
            Some(hosts) if hosts.len() == parts.len() => {
                parts.iter().zip(hosts).for_each(|(part, host)| into[*part as usize] = *host);
            }
            _ => {}
        }
    }
    if !cold.is_empty() {
        table.merge_all(&into);
    }
}
