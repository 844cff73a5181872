//! System calls by which a program rules its later ones: filters (seccomp), and dispatch by address
//! (`PR_SET_SYSCALL_USER_DISPATCH`).
//!
//! Translated calls have other addresses. If a rule depends on them, rprof releases the process before the rule holds: the program
//! runs on natively, and its result is its own. Other filters stay in force, and rprof makes no call in the program's name that
//! they forbid.

use nix::unistd::Pid;

use crate::translator::code_cache::block::CallSite;
use crate::translator::kernel::context_tables::map_tables;
use crate::translator::kernel::filters::{Call, Filter};
use crate::translator::kernel::prepare_image::Deferred;
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::system_calls::succeeded;
use crate::translator::tracer::uncounted::Release;
use crate::translator::translate::system_calls::SET_DISPATCH;
use rprof_tracee::address::Address;
use rprof_tracee::thread::{Registers, Stopped};

/// `PR_SYS_DISPATCH_OFF`
const DISPATCH_OFF: u64 = 0;

const PAGE: u64 = 4096;
const READ: u64 = libc::PROT_READ as u64;
const WRITE: u64 = libc::PROT_WRITE as u64;
const PRIVATE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const EXECUTE: u64 = libc::PROT_EXEC as u64;
const SHARED: u64 = (libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE) as u64;

/// The calls that change the protection of text.
const PROTECT: [Call; 2] = [
    Call { name: "mprotect", number: libc::SYS_mprotect, arguments: [PAGE, PAGE, READ | EXECUTE, 0, 0, 0] },
    Call { name: "mprotect", number: libc::SYS_mprotect, arguments: [PAGE, PAGE, READ, 0, 0, 0] },
];

/// The calls that map memory which rprof shares.
const MAP: [Call; 6] = [
    Call { name: "memfd_create", number: libc::SYS_memfd_create, arguments: [PAGE, 1, 0, 0, 0, 0] },
    Call { name: "mmap", number: libc::SYS_mmap, arguments: [PAGE, PAGE, READ | EXECUTE, SHARED, 3, 0] },
    Call { name: "madvise", number: libc::SYS_madvise, arguments: [PAGE, PAGE, libc::MADV_DONTDUMP as u64, 0, 0, 0] },
    Call { name: "mmap", number: libc::SYS_mmap, arguments: [0, PAGE, READ | WRITE, PRIVATE, u64::MAX, 0] },
    Call { name: "munmap", number: libc::SYS_munmap, arguments: [PAGE, PAGE, 0, 0, 0, 0] },
    Call { name: "close", number: libc::SYS_close, arguments: [3, 0, 0, 0, 0, 0] },
];

/// The call that maps the tables into the context of one more thread.
const MAP_TABLES: [Call; 1] = [Call {
    name: "mremap",
    number: libc::SYS_mremap,
    arguments: [PAGE, 0, PAGE, (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64, PAGE, 0],
}];

/// Threads at once that a program can have if its filter forbids that call.
const FILTERED_THREADS: u32 = 64;

/// The request of such a call.
enum Asked {
    /// Nothing that concerns rprof.
    Nothing,
    /// A filter.
    Filter(Filter),
    /// A filter that hands calls, and with them their addresses, to a listener.
    Listener,
    /// Dispatch by address.
    Dispatch,
    /// No memory may become executable that was not.
    DenyWriteExecute,
}

/// The request of the call with these registers; `read` reads a filter's program.
fn asked(registers: &Registers, read: impl Fn(u64) -> Option<Filter>) -> Asked {
    let filter = |at| read(at).map_or(Asked::Nothing, Asked::Filter);
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32;
    match (registers.rax as i64, registers.rdi as i32, registers.rsi as u32) {
        (libc::SYS_prctl, SET_DISPATCH, _) if registers.rsi != DISPATCH_OFF => Asked::Dispatch,
        (libc::SYS_prctl, libc::PR_SET_MDWE, flags) if flags != 0 => Asked::DenyWriteExecute,
        (libc::SYS_prctl, libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) => Asked::Filter(Filter::Strict),
        (libc::SYS_prctl, libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER) => filter(registers.rdx),
        (libc::SYS_seccomp, 0, _) => Asked::Filter(Filter::Strict),
        (libc::SYS_seccomp, 1, flags) if flags & listener != 0 => Asked::Listener,
        (libc::SYS_seccomp, 1, _) => filter(registers.rdx),
        _ => Asked::Nothing,
    }
}

impl Program {
    /// `prctl` or `seccomp`. A call that translated code must not make is left to the caller, which releases the process before.
    pub fn call_rule(
        &mut self,
        stopped: Stopped,
        registers: Registers,
        site: CallSite,
    ) -> Result<Option<(Stopped, Release)>, RunError> {
        let tid = stopped.tid();
        let address_space = self.address_space(tid)?;
        let filter = match asked(&registers, |at| Filter::read(&address_space.memory, Address::new(at))) {
            Asked::Dispatch => return Ok(Some((stopped, Release::Dispatch))),
            Asked::DenyWriteExecute => return Ok(Some((stopped, Release::DenyWriteExecute))),
            Asked::Listener => return Ok(Some((stopped, Release::FilterByAddress))),
            Asked::Filter(filter) if filter.reads_address() => return Ok(Some((stopped, Release::FilterByAddress))),
            Asked::Filter(filter) => Some(filter),
            Asked::Nothing => None,
        };
        let (pid, space) = self.thread(tid).map(|t| (t.pid, t.address_space))?;
        let stopped = if filter.is_some() { self.map_tables_ahead(space, pid, stopped)? } else { stopped };
        let (stopped, after) = self.execute(stopped, registers, site)?;
        if let Some(filter) = filter.filter(|_| succeeded(&after)) {
            self.settings.entry(pid).or_default().filters.get_or_insert_default().add(filter);
        }
        self.go_on(stopped).map(|()| None)
    }

    /// The first call that rprof needs to follow a new program of process `pid` and that a filter of the process forbids.
    pub fn forbidden_preparation(&self, pid: Pid) -> Option<&'static str> {
        let filters = self.settings.get(&pid)?.filters.as_ref()?;
        filters.forbidden(MAP.iter().chain(&PROTECT)).map(|call| call.name)
    }

    /// Fails if a filter of process `pid` forbids the calls for more shared memory.
    pub fn ensure_room_allowed(&self, pid: Pid) -> Result<(), RunError> {
        self.ensure_allowed(pid, &MAP)
    }

    /// Fails if a filter of process `pid` forbids the calls that give its text back.
    pub fn ensure_release_allowed(&self, pid: Pid) -> Result<(), RunError> {
        self.ensure_allowed(pid, &PROTECT)
    }

    /// Maps the tables into `context`, which a thread of process `pid` in address space `space` is about to use.
    pub fn map_tables(
        &mut self,
        space: Pid,
        pid: Pid,
        context: u32,
        stopped: Stopped,
    ) -> Result<(Stopped, Deferred), RunError> {
        let is_there = self.address_spaces.get(&space).is_some_and(|s| s.with_tables.contains(&context));
        if is_there {
            return Ok((stopped, Deferred::new()));
        }
        self.ensure_allowed(pid, &MAP_TABLES)?;
        let address_space = self.address_spaces.get_mut(&space).ok_or(RunError::Gone)?;
        Ok(map_tables(address_space, [context], stopped)?)
    }

    /// Does so for threads to come, before a filter that may forbid it.
    fn map_tables_ahead(&mut self, space: Pid, pid: Pid, stopped: Stopped) -> Result<Stopped, RunError> {
        if self.ensure_allowed(pid, &MAP_TABLES).is_err() {
            return Ok(stopped);
        }
        let tid = stopped.tid();
        let address_space = self.address_spaces.get_mut(&space).ok_or(RunError::Gone)?;
        let contexts = 0..FILTERED_THREADS.min(address_space.image.contexts.borrow().count());
        let (stopped, signals) = map_tables(address_space, contexts, stopped)?;
        self.defer_all(tid, signals);
        Ok(stopped)
    }

    fn ensure_allowed(&self, pid: Pid, calls: &'static [Call]) -> Result<(), RunError> {
        match self.settings.get(&pid).and_then(|g| g.filters.as_ref()?.forbidden(calls)) {
            Some(call) => Err(RunError::Unsupported(format!(
                "a seccomp filter that it installed forbids {}, which rprof needs in its name",
                call.name
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(number: i64, rdi: u64, rsi: u64) -> Registers {
        // SAFETY: plain integers.
        let zero: Registers = unsafe { std::mem::zeroed() };
        Registers { rax: number as u64, rdi, rsi, ..zero }
    }

    #[test]
    fn only_calls_that_set_rules_ask_for_something() {
        let none = |_| None;
        let is_dispatch = |r: &Registers| matches!(asked(r, none), Asked::Dispatch);
        assert!(is_dispatch(&registers(libc::SYS_prctl, SET_DISPATCH as u64, 1)));
        assert!(is_dispatch(&registers(libc::SYS_prctl, SET_DISPATCH as u64, 2)), "an inclusive range");
        assert!(!is_dispatch(&registers(libc::SYS_prctl, SET_DISPATCH as u64, 0)), "off");
        let is_filter = |r: &Registers, read: Option<Filter>| matches!(asked(r, |_| read.clone()), Asked::Filter(_));
        let strict = || Some(Filter::Strict);
        assert!(is_filter(&registers(libc::SYS_prctl, 22, 1), None), "strict");
        assert!(is_filter(&registers(libc::SYS_prctl, 22, 2), strict()));
        assert!(is_filter(&registers(libc::SYS_seccomp, 1, 0), strict()));
        assert!(matches!(asked(&registers(libc::SYS_seccomp, 1, 8), |_| strict()), Asked::Listener));
        assert!(!is_filter(&registers(libc::SYS_seccomp, 1, 0), None), "the kernel cannot read it, either");
        assert!(!is_filter(&registers(libc::SYS_seccomp, 2, 0), strict()), "SECCOMP_GET_ACTION_AVAIL");
        assert!(!is_filter(&registers(libc::SYS_prctl, libc::PR_SET_NAME as u64, 2), strict()));
    }
}
