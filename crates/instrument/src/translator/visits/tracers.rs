//! Programs that trace others themselves: a process can have only one tracer, so none of their processes is visited.

use std::collections::HashMap;
use std::path::PathBuf;

use nix::unistd::Pid;

use super::{Refused, Visitor};
use rprof_tracee::elf_reader::names_symbol;
use rprof_tracee::maps::read_maps;
use rprof_tracee::proc_status::read_start_ticks;

/// The function of the C library.
const PTRACE: &str = "ptrace";
/// Files that name it and leave it to others whether it is called: C libraries, and libraries that debuggers are made of.
const NOT_TRACERS: [&str; 6] = ["libc.so", "libc-2", "libc.musl", "ld-musl", "libdw", "libunwind-ptrace"];

/// What is known of the processes of a program.
#[derive(Debug, Default)]
pub(super) struct Tracers {
    /// Whether a file names the function, by path.
    files: HashMap<String, bool>,
    /// Why a process is taken for a tracer, or that it is none, with when it began and what it executes.
    processes: HashMap<Pid, (Identity, Option<String>)>,
}

/// Changes if a process executes another program, or another has its id.
type Identity = (Option<u64>, Option<PathBuf>);

impl Tracers {
    /// Why `pid` may trace others, as a clause; `again`: even if it was looked at before, since it may have loaded a library.
    fn reason(&mut self, pid: Pid, again: bool) -> Option<String> {
        let identity = (read_start_ticks(pid), std::fs::read_link(format!("/proc/{pid}/exe")).ok());
        if let Some((known, reason)) = self.processes.get(&pid)
            && *known == identity
            && (reason.is_some() || !again)
        {
            return reason.clone();
        }
        let maps = read_maps(pid).unwrap_or_default();
        let mut files = maps.iter().filter(|m| m.executable && m.is_file()).map(|m| m.path.as_str());
        let reason = files.find(|path| self.names_it(pid, path)).map(|path| {
            format!(
                "{path} has ptrace, so it may trace the program's processes, and a process can have only one tracer"
            )
        });
        self.processes.insert(pid, (identity, reason.clone()));
        reason
    }

    fn names_it(&mut self, pid: Pid, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        if NOT_TRACERS.iter().any(|other| name.starts_with(other)) {
            return false;
        }
        let inside = format!("/proc/{pid}/root{path}");
        *self.files.entry(path.to_owned()).or_insert_with(|| names_symbol(inside.as_ref(), PTRACE))
    }

    /// Forgets processes that are gone.
    fn retain(&mut self, family: &[Pid]) {
        self.processes.retain(|pid, _| family.contains(pid));
    }
}

impl Visitor {
    /// The process of `family`, which is a program's, that may trace others: then none of them may be visited. Those that are `busy`
    /// may have loaded libraries since the last look.
    pub fn tracer_among(&mut self, family: &[Pid], busy: &[Pid]) -> Option<Refused> {
        self.tracers.retain(family);
        self.run.tracers.retain(|pid| family.contains(pid));
        if let Some(&pid) = self.run.tracers.first() {
            return Some(Refused { pid, why: "it uses ptrace itself, and a process can have only one tracer".into() });
        }
        let mut tracers = std::mem::take(&mut self.tracers);
        let found = family.iter().find_map(|pid| {
            let why = tracers.reason(*pid, busy.contains(pid))?;
            Some(Refused { pid: *pid, why })
        });
        self.tracers = tracers;
        found
    }
}
