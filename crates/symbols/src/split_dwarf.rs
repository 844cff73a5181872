//! Split debug information (`-gsplit-dwarf`): the program has lines, files beside it have functions and inline frames.
//!
//! ```text
//!  unit of the program ─ id ─▶ packed file (PROGRAM.dwp), else its own file (.dwo), if that has the same id ─▶ DWARF
//! ```

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, DwarfPackage, LittleEndian, Reader as _};

use super::debug_sections::{Reader, section};
use super::elf_file::{ElfFile, Section};
use super::error::SymbolError;

/// The files with a program's split debug information.
pub struct SplitDwarf {
    /// The files that the program's own information may be in.
    programs: Vec<PathBuf>,
    package: OnceCell<Option<DwarfPackage<Reader>>>,
    missing: RefCell<BTreeSet<PathBuf>>,
}

impl SplitDwarf {
    /// Of the program with its file, and separate debug file, at `programs`.
    pub fn new(programs: Vec<PathBuf>) -> Self {
        SplitDwarf { programs, package: OnceCell::new(), missing: RefCell::default() }
    }

    /// The debug information of one unit; `None` if no file has it.
    pub fn load(&self, load: &SplitDwarfLoad<Reader>) -> Option<Arc<Dwarf<Reader>>> {
        let found = self.packed(load).or_else(|| self.unpacked(load));
        if found.is_none() {
            let name = text(load.path.as_ref()).unwrap_or_else(|| format!("{:016x}.dwo", load.dwo_id.0).into());
            self.missing.borrow_mut().insert(name);
        }
        found.map(Arc::new)
    }

    /// The files that were looked for and not found.
    pub fn missing(&self) -> Vec<PathBuf> {
        self.missing.borrow().iter().cloned().collect()
    }

    fn packed(&self, load: &SplitDwarfLoad<Reader>) -> Option<Dwarf<Reader>> {
        let package =
            self.package.get_or_init(|| self.programs.iter().flat_map(|p| packages(p)).find_map(|p| open_package(&p)));
        package.as_ref()?.find_cu(load.dwo_id, &load.parent).ok()?
    }

    fn unpacked(&self, load: &SplitDwarfLoad<Reader>) -> Option<Dwarf<Reader>> {
        let name = text(load.path.as_ref())?;
        let compiled_in = text(load.comp_dir.as_ref());
        let beside = self.programs.iter().filter_map(|p| p.parent());
        // The compiled-in place, then beside the program, if both were moved.
        let mut places: Vec<PathBuf> = compiled_in.iter().map(|folder| folder.join(&name)).collect();
        places.extend(beside.flat_map(|folder| {
            [Some(folder.join(&name)), name.file_name().map(|n| folder.join(n))].into_iter().flatten()
        }));
        places.iter().find_map(|path| open_unit(path, load))
    }
}

/// Names of the packed file of the program at `path`: `dwp` appends to the name of the program, not to that of its debug file.
fn packages(path: &Path) -> Vec<PathBuf> {
    let with_suffix = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".dwp");
        PathBuf::from(name)
    };
    let bare = (path.extension() == Some(OsStr::new("debug"))).then(|| with_suffix(&path.with_extension("")));
    iter::once(with_suffix(path)).chain(bare).collect()
}

fn open_package(path: &Path) -> Option<DwarfPackage<Reader>> {
    let file = ElfFile::open(path).ok()?;
    // The two indices have no other name. A damaged section is as good as none.
    let load = |id: gimli::SectionId| {
        Ok::<_, gimli::Error>(section(&file, id.dwo_name().unwrap_or(id.name())).unwrap_or_else(|_| empty()))
    };
    DwarfPackage::load(load, empty()).ok()
}

/// The file at `path`, from the unit on that is asked for, if it has that. Units of types lie before it: in its section (Clang), or in others
/// of the same name (GCC).
fn open_unit(path: &Path, load: &SplitDwarfLoad<Reader>) -> Option<Dwarf<Reader>> {
    let file = ElfFile::open(path).ok()?;
    let of_units = gimli::SectionId::DebugInfo;
    let name = of_units.dwo_name()?;
    let contents = |at: &Section| Some(Reader::new(Arc::from(file.contents(at).ok()?), LittleEndian));
    let with_units = |info: Reader| {
        let of_dwo = |id: gimli::SectionId| match id.dwo_name() {
            Some(_) if id == of_units => Ok(info.clone()),
            Some(name) => section(&file, name),
            None => Ok(empty()),
        };
        let mut dwarf = Dwarf::load::<_, SymbolError>(of_dwo).ok()?;
        dwarf.make_dwo(&load.parent);
        Some(dwarf)
    };
    let sections = file.sections().iter().filter(|s| s.name == name);
    let mut sections = sections.filter_map(contents).chain(iter::once_with(|| section(&file, name).ok()).flatten());
    sections.find_map(|info| {
        let all = with_units(info.clone())?;
        let at = offset_of(&all, load.dwo_id)?;
        let mut from_there = info;
        from_there.skip(at).ok()?;
        if at == 0 { Some(all) } else { with_units(from_there) }
    })
}

/// Where the unit with this id begins in its section.
fn offset_of(dwarf: &Dwarf<Reader>, id: gimli::DwoId) -> Option<usize> {
    let mut units = dwarf.units();
    while let Some(header) = units.next().ok()? {
        let at = header.debug_info_offset()?.0;
        if dwarf.unit(header).ok().and_then(|unit| unit.dwo_id) == Some(id) {
            return Some(at);
        }
    }
    None
}

fn empty() -> Reader {
    Reader::new(Arc::from([]), LittleEndian)
}

fn text(name: Option<&Reader>) -> Option<PathBuf> {
    let bytes = name?.to_slice().ok()?;
    Some(PathBuf::from(OsStr::from_bytes(&bytes)))
}
