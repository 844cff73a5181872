//! The marker functions of the processes of the run, and the marks in the records of their calls.
//!
//! ```text
//!  mapping ─ markers of its file ─▶ setter ─▶ rings of the samples ─▶ period 1, at a marker: a call ─▶ Mark
//! ```
//!
//! The records are in the rings of the samples, so that both are in one order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use framehop::x86_64::Reg;
use nix::unistd::Pid;
use perf_event::Counter;

use super::event::RawSample;
use super::setter::{Outlet, Place, Setter};
use rprof_profile::evidence::marks::Api;
use rprof_tracee::address::Address;
use rprof_tracee::elf_layout::ElfLayout;
use rprof_tracee::markers::call::{Call, Mark};
use rprof_tracee::markers::{Marker, find};
use rprof_tracee::memory::Memory;
use rprof_tracee::path_text;
use rprof_tracee::proc_status::threads_of;

/// Calls that are remembered of a process.
const MOST_KNOWN: usize = 4096;

/// The breakpoints and uprobes set, and the processes that they are set in.
#[derive(Debug)]
pub(super) struct Markers {
    setter: Setter,
    outlet: Outlet,
    set: Vec<Counter>,
    files: HashMap<String, ElfFile>,
    /// Files with uprobes on their markers; these apply to every process that maps them.
    probed: HashSet<PathBuf>,
    processes: HashMap<u32, Process>,
    /// Interfaces with calls that rprof does not see, with the reason.
    pub refused: BTreeMap<Api, String>,
}

#[derive(Debug, Default)]
struct ElfFile {
    layout: Option<ElfLayout>,
    markers: Vec<(u64, Marker)>,
    path: PathBuf,
}

/// The kind of a record in the rings.
pub(super) enum Seen {
    /// A sample.
    Sample,
    /// A call of a marker.
    Call(Mark),
    /// A call by a process that is none of the run's.
    Foreign,
}

/// A marker function in a file.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Offset in the file.
    offset: u64,
    /// Its address in a process, if it is mapped already.
    address: Option<u64>,
    marker: Marker,
}

#[derive(Debug, Default)]
struct Process {
    /// By address.
    markers: HashMap<u64, Marker>,
    /// (file, bias).
    modules: Vec<(String, u64)>,
    memory: Option<Memory>,
    /// The marks of calls, for those that rprof reads after the process is gone.
    known: HashMap<Call, Mark>,
}

impl Markers {
    /// None yet.
    pub fn new(outlet: Outlet) -> Self {
        Markers {
            setter: Setter::of_host(),
            outlet,
            set: Vec::new(),
            files: HashMap::new(),
            probed: HashSet::new(),
            processes: HashMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// A child at the gate will execute the file at `path`: sets uprobes in it, which need no addresses.
    pub fn expected(&mut self, child: Pid, path: &Path) {
        let Ok(path) = path.canonicalize() else { return };
        let name = path_text::encode(path.as_os_str().as_bytes());
        let name = name.as_str();
        let child = child.as_raw() as u32;
        let file = self.files.entry(name.to_owned()).or_insert_with(|| ElfFile::read(child, name));
        if !file.markers.is_empty() && matches!(self.setter, Setter::Uprobe(_)) {
            let markers = file.by_interface(None);
            self.set_all(child, name, markers);
        }
    }

    /// Whether a stop at the start of the program is of use: breakpoints need its addresses.
    pub fn want_a_stop(&self) -> bool {
        self.setter == Setter::Breakpoint
    }

    /// A file was mapped as code: makes records of calls of its markers in all threads of the process.
    pub fn mapped(&mut self, pid: u32, start: u64, file_offset: u64, path: &str) {
        if !path.starts_with('/') || path.starts_with("//") {
            return;
        }
        let file = self.files.entry(path.to_owned()).or_insert_with(|| ElfFile::read(pid, path));
        let Some(bias) = file.layout.as_ref().and_then(|l| l.bias(Address::new(start), file_offset)) else { return };
        let process = self.processes.entry(pid).or_default();
        if process.modules.iter().any(|(known, b)| known == path && *b == bias) {
            return;
        }
        process.modules.push((path.to_owned(), bias));
        if !file.markers.is_empty() {
            let markers = file.by_interface(Some(bias));
            self.set_all(pid, path, markers);
        }
    }

    /// Sets the missing uprobes or breakpoints for the markers of a file, by interface, and enters those that are mapped.
    fn set_all(&mut self, pid: u32, path: &str, markers: BTreeMap<Api, Vec<Found>>) {
        let Some(inside) = self.files.get(path).map(|file| file.path.clone()) else { return };
        let is_probed = self.probed.contains(&inside);
        let mut by_uprobes = false;
        for (api, functions) in markers {
            let set = if is_probed { Ok(()) } else { self.set_interface(pid, &inside, &functions) };
            by_uprobes |= set.is_ok() && matches!(self.setter, Setter::Uprobe(_));
            match set {
                Ok(()) => {
                    let mapped = functions.iter().filter_map(|f| Some((f.address?, f.marker)));
                    self.processes.entry(pid).or_default().markers.extend(mapped);
                }
                Err(reason) => drop(self.refused.entry(api).or_insert(reason)),
            }
        }
        if by_uprobes {
            self.probed.insert(inside);
        }
    }

    /// Sets up records of calls of all these functions.
    ///
    /// # Errors
    /// Why this is not possible.
    fn set_interface(&mut self, pid: u32, path: &Path, functions: &[Found]) -> Result<(), String> {
        let has = self.processes.get(&pid).map_or(0, |p| p.markers.len());
        if functions.len() > self.setter.room().saturating_sub(has) {
            return Err(self.setter.limit());
        }
        for found in functions {
            let place = Place { path, offset: found.offset, address: found.address };
            match self.set(pid, &place) {
                Ok(()) => {}
                Err(error) if matches!(self.setter, Setter::Uprobe(_)) && is_denied(&error) => {
                    self.setter = Setter::without_uprobes();
                    // At the gate there are no addresses yet: breakpoints are set when there are.
                    let later = found.address.is_none() && self.setter == Setter::Breakpoint;
                    return if later { Ok(()) } else { self.set_interface(pid, path, functions) };
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => return Err(self.setter.limit()),
                Err(error) => return Err(format!("the kernel refuses to record calls of a marker function ({error})")),
            }
        }
        Ok(())
    }

    fn set(&mut self, pid: u32, place: &Place) -> io::Result<()> {
        if let Setter::Uprobe(_) = self.setter {
            self.set.extend(self.setter.set(None, place, &self.outlet)?);
            return Ok(());
        }
        for tid in threads_of(Pid::from_raw(pid as i32)) {
            match self.setter.set(Some(tid.as_raw()), place, &self.outlet) {
                Ok(set) => self.set.extend(set),
                // The thread is over.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A process was forked; it has the same mappings as its parent.
    pub fn forked(&mut self, parent: u32, child: u32) {
        if let Some(process) = self.processes.get(&parent) {
            let copy =
                Process { markers: process.markers.clone(), modules: process.modules.clone(), ..Process::default() };
            self.processes.insert(child, copy);
        }
    }

    /// A process executed a program: its old mappings are gone. Mappings of the new one seen before this record stay.
    pub fn executed(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.memory = None;
        }
    }

    /// The kind of a sample. A call counts as a period of 1.
    pub fn look(&mut self, sample: &RawSample) -> Seen {
        if sample.period != 1 || sample.kernel {
            return Seen::Sample;
        }
        if matches!(self.setter, Setter::Uprobe(_)) && !self.processes.contains_key(&sample.pid) {
            return Seen::Foreign;
        }
        self.call(sample).map_or(Seen::Sample, Seen::Call)
    }

    fn call(&mut self, sample: &RawSample) -> Option<Mark> {
        let registers = sample.registers?;
        let process = self.processes.get_mut(&sample.pid)?;
        let marker = *process.markers.get(&registers.ip())?;
        let arguments = [Reg::RDI, Reg::RSI, Reg::RDX, Reg::RCX].map(|r| registers.get(r));
        if process.memory.is_none() {
            process.memory = Memory::open(Pid::from_raw(sample.pid as i32)).ok();
        }
        let (files, call) = (&self.files, Call { marker, arguments });
        let mut is_gone = false;
        let mut read = |at, buffer: &mut [u8]| {
            let memory = process.memory.as_ref().ok_or(io::ErrorKind::NotFound.into());
            let live = memory.and_then(|m| m.read_some(Address::new(at), buffer));
            is_gone |= live.as_ref().is_ok_and(|n| *n == 0)
                || live.as_ref().is_err_and(|e| e.raw_os_error() != Some(libc::EIO));
            // Short programs are over before their records are read; literals are in their files.
            live.ok().filter(|n| *n > 0).unwrap_or_else(|| from_files(files, &process.modules, at, buffer))
        };
        let mark = call.mark(&mut read);
        if is_gone {
            return Some(process.known.get(&call).cloned().unwrap_or(mark));
        }
        if process.known.len() < MOST_KNOWN {
            process.known.insert(call, mark.clone());
        }
        Some(mark)
    }
}

impl ElfFile {
    fn read(pid: u32, path: &str) -> ElfFile {
        let path = path_text::decode(path);
        let mut inside = OsString::from(format!("/proc/{pid}/root"));
        inside.push(&path);
        let inside = PathBuf::from(inside);
        let path = if inside.exists() { inside } else { path };
        let markers = find::markers(&path).unwrap_or_default();
        ElfFile { layout: ElfLayout::read(&path).ok(), markers, path }
    }

    /// Its markers by interface; with their addresses if it is mapped with this bias.
    fn by_interface(&self, bias: Option<u64>) -> BTreeMap<Api, Vec<Found>> {
        let mut found: BTreeMap<Api, Vec<Found>> = BTreeMap::new();
        for &(at, marker) in &self.markers {
            let Some(segment) = self.layout.as_ref().and_then(|l| l.segment_at(at)) else { continue };
            let offset = at - segment.address + segment.file_offset;
            let address = bias.map(|bias| at.wrapping_add(bias));
            found.entry(marker.api).or_default().push(Found { offset, address, marker });
        }
        found
    }
}

/// The bytes that the files of a process have at an address.
fn from_files(files: &HashMap<String, ElfFile>, modules: &[(String, u64)], at: u64, buffer: &mut [u8]) -> usize {
    for (name, bias) in modules {
        let Some(file) = files.get(name) else { continue };
        let virtual_at = at.wrapping_sub(*bias);
        let Some(segment) = file.layout.as_ref().and_then(|l| l.segment_at(virtual_at)) else { continue };
        let inside = virtual_at - segment.address;
        let room = buffer.len().min((segment.file_size - inside) as usize);
        let path = if file.path.exists() { file.path.clone() } else { path_text::decode(name) };
        let open = std::fs::File::open(path);
        return open.and_then(|f| f.read_at(&mut buffer[..room], segment.file_offset + inside)).unwrap_or(0);
    }
    0
}

fn is_denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOENT | libc::EOPNOTSUPP))
}
