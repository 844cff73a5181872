//! Source lines and inline frames from DWARF, read at the first query.

use std::path::PathBuf;

use addr2line::{Context, LookupContinuation, LookupResult};

use super::debug_sections::{Reader, has_section, section};
use super::demangle::{Dialect, demangle};
use super::elf_file::ElfFile;
use super::error::SymbolError;
use super::split_dwarf::SplitDwarf;
use rprof_join::resolver::{InlinedAt, SourceLine};

/// The debug information of one module.
pub struct LineInfo {
    context: Context<Reader>,
    split: SplitDwarf,
    dialect: Dialect,
}

impl std::fmt::Debug for LineInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineInfo").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

impl LineInfo {
    /// Reads the debug sections of `debug`; `supplementary` is the file that dwz moved common parts to, `split` finds what the
    /// compiler left in files of their own. `None` if the file has no debug information.
    ///
    /// # Errors
    /// If a debug section is damaged.
    pub fn load(
        debug: &ElfFile,
        supplementary: Option<&ElfFile>,
        split: SplitDwarf,
        dialect: Dialect,
    ) -> Result<Option<Self>, SymbolError> {
        if !has_section(debug, ".debug_info") && !has_section(debug, ".debug_line") {
            return Ok(None);
        }
        let mut dwarf = gimli::Dwarf::load(|id| section(debug, id.name()))?;
        if let Some(file) = supplementary {
            dwarf.load_sup(|id| section(file, id.name()))?;
        }
        let context = Context::from_dwarf(dwarf).map_err(|e| SymbolError::Damaged {
            path: debug.path().to_owned(),
            part: "the debug information".into(),
            detail: e.to_string(),
        })?;
        Ok(Some(LineInfo { context, split, dialect }))
    }

    /// The source line of the instruction at `address`, innermost inline frame.
    pub fn line(&self, address: u64) -> Option<SourceLine> {
        if address == u64::MAX {
            return None; // addr2line looks up address..address + 1
        }
        source_line(self.context.find_location(address).ok()??)
    }

    /// The line of the host function at `address`: that of the call if something was inlined.
    pub fn host_line(&self, address: u64) -> Option<SourceLine> {
        self.frames(address).pop()?.line
    }

    /// Functions inlined at `address`, innermost first, without the host.
    pub fn inlined(&self, address: u64) -> Vec<InlinedAt> {
        let mut found = self.frames(address);
        found.pop(); // the last frame is the host function
        found
    }

    /// Functions at `address`, innermost first, the host function last.
    fn frames(&self, address: u64) -> Vec<InlinedAt> {
        if address == u64::MAX {
            return Vec::new();
        }
        let Ok(mut frames) = self.loaded(self.context.find_frames(address)) else { return Vec::new() };
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|f| f.raw_name().ok());
            let name = name.map_or_else(|| "[inlined]".to_owned(), |n| demangle(&n, self.dialect));
            found.push(InlinedAt { name: name.into(), line: frame.location.and_then(source_line) });
        }
        found
    }

    /// Files with debug information that were looked for and not found.
    pub fn missing_files(&self) -> Vec<PathBuf> {
        self.split.missing()
    }

    /// The result of a look-up that may need split debug information.
    fn loaded<L: LookupContinuation<Buf = Reader>>(&self, mut result: LookupResult<L>) -> L::Output {
        loop {
            result = match result {
                LookupResult::Output(output) => return output,
                LookupResult::Load { load, continuation } => continuation.resume(self.split.load(&load)),
            };
        }
    }
}

fn source_line(location: addr2line::Location) -> Option<SourceLine> {
    // Line 0 marks code that belongs to no line.
    let line = location.line.filter(|l| *l > 0)?;
    Some(SourceLine { file: location.file?.into(), line })
}
