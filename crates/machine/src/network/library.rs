//! Which file is the MPI library: of a program as its dynamic linker finds it, or of the launcher as this host's does.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use goblin::elf::program_header::PT_INTERP;

use super::NetworkError;
use crate::loader::{Library, Remote};
use rprof_tracee::elf_layout::ElfLayout;
use rprof_tracee::elf_reader::{ElfReader, FUNCTION};
use rprof_tracee::mpi::datatypes::Family;

/// The function by which a library of MPI is known.
const INIT: &[u8] = b"PMPI_Init";

/// Names of libraries by family: Debian's, upstream's, the ABI's of MPICH (Intel MPI, MVAPICH, Cray), that of MPI 5.
const OF_OPEN_MPI: [&str; 2] = ["libmpi.so.40", "libmpi.so"];
const OF_MPICH: [&str; 5] = ["libmpich.so.12", "libmpi.so.12", "libmpich.so", "libmpi_abi.so.0", "libmpi.so"];

/// A loaded library.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// For symbols.
    pub library: Library,
    /// Its file.
    pub file: PathBuf,
    /// Build id of the file.
    pub build_id: Option<String>,
}

/// Names to try for the launcher's library; `None`: its family is not known.
pub fn names(family: Option<Family>) -> Vec<String> {
    let names: Vec<&str> = match family {
        Some(Family::OpenMpi) => OF_OPEN_MPI.to_vec(),
        Some(Family::Mpich | Family::Abi) => OF_MPICH.to_vec(),
        None => OF_OPEN_MPI.into_iter().chain(OF_MPICH).collect(),
    };
    names.into_iter().map(str::to_owned).collect()
}

/// The library that `program` loads when it starts. `None`: it loads none then, as an interpreter, or is a script.
///
/// # Errors
/// [`NetworkError::Static`], [`NetworkError::Unlisted`].
pub fn of_program(program: &Path) -> Result<Option<PathBuf>, NetworkError> {
    let shown = || program.display().to_string();
    let Ok(elf) = ElfReader::open(program) else { return Ok(None) };
    let interpreter = elf.programs().ok().and_then(|all| {
        let header = all.into_iter().find(|header| header.p_type == PT_INTERP)?;
        let text = elf.bytes(header.p_offset, header.p_filesz).ok()?;
        Some(PathBuf::from(String::from_utf8_lossy(&text).trim_end_matches('\0')))
    });
    let Some(linker) = interpreter else { return Err(NetworkError::Static { program: shown() }) };
    let unlisted = |reason: String| NetworkError::Unlisted { program: shown(), reason };
    let listed = Command::new(&linker).arg("--list").arg(program).output();
    let listed = listed.map_err(|e| unlisted(format!("{}: {e}", linker.display())))?;
    if !listed.status.success() {
        let reason = String::from_utf8_lossy(&listed.stderr);
        return Err(unlisted(reason.lines().next().unwrap_or("no reason given").trim().to_owned()));
    }
    let found = files(&String::from_utf8_lossy(&listed.stdout)).into_iter().find(|file| has_init(file));
    match found {
        None if has_init(program) => Err(NetworkError::Static { program: shown() }),
        found => Ok(found),
    }
}

/// Files in the list of a dynamic linker: `libc.so.6 => /lib/libc.so.6 (0x7f…)`, or the path alone if the program names it so.
fn files(list: &str) -> Vec<PathBuf> {
    let file = |line: &str| {
        let (found, _) = line.rsplit_once(" (0x")?;
        let path = found.split_once(" => ").map_or(found, |(_, path)| path).trim();
        path.contains('/').then(|| PathBuf::from(path))
    };
    list.lines().filter_map(file).collect()
}

fn has_init(file: &Path) -> bool {
    let mut is_there = false;
    let looked = ElfReader::open(file)
        .and_then(|elf| elf.defined_symbols(|symbol| is_there |= symbol.kind == FUNCTION && symbol.name == INIT));
    looked.is_ok() && is_there
}

/// Loads the first of `names`, files or names for the dynamic linker, that is a library of MPI.
///
/// # Errors
/// [`NetworkError::NoLibrary`], or the process is lost.
pub fn load(remote: &mut Remote, names: &[String]) -> Result<Loaded, NetworkError> {
    let mut failed = None;
    for name in names {
        let library = match remote.open(name) {
            Ok(library) => library,
            Err(error) => {
                // A file that is there says more than a name that is not.
                failed = failed.or_else(|| name.contains('/').then_some(error));
                continue;
            }
        };
        if remote.symbol(library, "PMPI_Init").is_err() {
            continue;
        }
        let file = mapped(remote.pid(), name).unwrap_or_else(|| PathBuf::from(name));
        let build_id = File::open(&file).and_then(|f| ElfReader::at(f, 0)).ok().and_then(|elf| build_id(&elf));
        return Ok(Loaded { library, file, build_id });
    }
    Err(failed.map_or_else(|| NetworkError::NoLibrary { names: names.to_vec() }, NetworkError::Loader))
}

fn build_id(elf: &ElfReader) -> Option<String> {
    ElfLayout::of(elf).ok()?.build_id
}

/// The file that process `pid` has mapped for the library `name`.
fn mapped(pid: u32, name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return std::fs::canonicalize(name).ok();
    }
    // Links lead from `libmpi.so.40` to `libmpi.so.40.30.4`, and from `libmpi.so` anywhere.
    let maps = procfs::process::Process::new(pid as i32).and_then(|process| process.maps()).ok()?;
    let paths = maps.into_iter().filter_map(|map| match map.pathname {
        procfs::process::MMapPath::Path(path) => Some(path),
        _ => None,
    });
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.dedup();
    paths
        .into_iter()
        .find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("libmp")) && has_init(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_linker_s_list() {
        let list = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibmpi.so.40 => /opt/a b/libmpi.so.40 (0x00007f12)\n\
                    \tlibnot.so => not found\n\t./libown.so (0x00007f99)\n";
        assert_eq!(files(list), [PathBuf::from("/opt/a b/libmpi.so.40"), "./libown.so".into()]);
    }

    #[test]
    fn what_is_no_program_has_no_library() {
        assert_eq!(of_program(Path::new("/etc/passwd")), Ok(None), "a script");
        assert_eq!(of_program(Path::new("/bin/sh")), Ok(None), "no MPI");
    }
}
