//! How calls of marker functions make records: by uprobes if we may set them, else by hardware breakpoints.
//!
//! A uprobe needs CAP_PERFMON, and is set in the file: every process that has it mapped makes records, and rprof leaves out
//! those of other processes. The kernel puts a trap into the process's copy of the function's page; the program does not notice
//! it unless it reads its own code. A breakpoint needs no right, but one of the processor's four debug registers. rprof does
//! not use breakpoints in virtual machines: on some, debug exceptions come without their cause when several threads have
//! breakpoints, and the kernel then ends the program by SIGTRAP (measured: once in some hundred thousand calls).

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::unistd::Pid;
use perf_event::Counter;

use super::open::{Terms, marker_event};
use rprof_tracee::perf_ring::send_records;

/// Debug registers of a processor.
const REGISTERS: usize = 4;

/// The mechanism that makes a record of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setter {
    /// A uprobe; with the number of the kernel's event source.
    Uprobe(u32),
    /// A breakpoint.
    Breakpoint,
    /// Nothing may.
    Nothing,
}

/// A place in code.
#[derive(Debug, Clone)]
pub(super) struct Place<'p> {
    /// Its file.
    pub path: &'p Path,
    /// Offset in that.
    pub offset: u64,
    /// Its address in a process, if it is mapped already.
    pub address: Option<u64>,
}

/// The rings and the way in which records are made.
#[derive(Debug)]
pub(super) struct Outlet {
    /// (CPU, its ring).
    pub rings: Vec<(usize, RawFd)>,
    /// How the rings' samples look.
    pub terms: Terms,
}

impl Setter {
    /// The mechanism that this host allows, as far as that is known before something is set.
    pub fn of_host() -> Setter {
        let source = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type");
        match source.ok().and_then(|s| s.trim().parse().ok()) {
            Some(source) => Setter::Uprobe(source),
            None => Setter::without_uprobes(),
        }
    }

    /// The mechanism that remains if the kernel refuses uprobes.
    pub fn without_uprobes() -> Setter {
        #[cfg(target_arch = "x86_64")]
        let is_guest = raw_cpuid::CpuId::new().get_feature_info().is_none_or(|features| features.has_hypervisor());
        #[cfg(not(target_arch = "x86_64"))]
        let is_guest = true;
        if is_guest { Setter::Nothing } else { Setter::Breakpoint }
    }

    /// How many functions of one process can have one.
    pub fn room(self) -> usize {
        match self {
            Setter::Uprobe(_) => usize::MAX,
            Setter::Breakpoint => REGISTERS,
            Setter::Nothing => 0,
        }
    }

    /// Why no more than those.
    pub fn limit(self) -> String {
        match self {
            Setter::Breakpoint => {
                "the processor has four debug registers, too few for all marker functions of the program".into()
            }
            _ => "calls of markers are seen by uprobes, which need CAP_PERFMON, or on a host that is no virtual machine by \
                  breakpoints"
                .into(),
        }
    }

    /// Sets a breakpoint in the thread `tid` and all that it will create; a uprobe in all processes. (One that is inherited would
    /// make the program's `clone` fail: the kernel would read its file's name in the program's memory.)
    pub fn set(self, tid: Option<i32>, place: &Place, outlet: &Outlet) -> io::Result<Vec<Counter>> {
        let path = CString::new(place.path.as_os_str().as_bytes())?;
        outlet.rings.iter().map(|&(cpu, ring)| self.set_one(tid, (cpu, ring), (&path, place), outlet.terms)).collect()
    }

    fn set_one(
        self,
        tid: Option<i32>,
        (cpu, ring): (usize, RawFd),
        (path, place): (&CString, &Place),
        terms: Terms,
    ) -> io::Result<Counter> {
        let address = place.address.unwrap_or(0);
        let mut event = marker_event(tid.map(Pid::from_raw), cpu, terms, address);
        if let Setter::Uprobe(source) = self {
            let attributes = event.attrs_mut();
            (attributes.type_, attributes.bp_type) = (source, 0);
            // `uprobe_path` and `probe_offset`.
            attributes.__bindgen_anon_3.config1 = path.as_ptr() as u64;
            attributes.__bindgen_anon_4.config2 = place.offset;
        }
        let counter = event.build()?;
        send_records(&counter, ring)?;
        Ok(counter)
    }
}
