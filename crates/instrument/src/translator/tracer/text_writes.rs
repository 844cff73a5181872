//! Text that changes without a store of the program: by a write to `/proc/PID/mem`, by `process_vm_writev`, or because `madvise` takes a
//! private change back.
//!
//! ```text
//!  opens /proc/PID/mem for writing ─▶ its writes stop   ┐
//!  writes its translated text      ─▶ its madvise stops ├─▶ translations of changed text are dropped
//!  process_vm_writev, process_madvise ─▶ always stop    ┘
//! ```

use std::str::FromStr;

use nix::unistd::Pid;

use crate::translator::code_cache::block::CallSite;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::syscall_table::{CallClass, records_sockets, stop_at_advice};
use crate::translator::kernel::proc_path::{ProcFile, proc_file};
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run::Run;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::system_calls::succeeded;
use crate::translator::translate::text_ranges::Treatment;
use rprof_tracee::address::{Address, CacheAddress};
use rprof_tracee::thread::{Registers, Stopped};

/// Most pieces that one call takes (`UIO_MAXIOV`).
const PIECES: u64 = 1024;
/// (address, bytes) of all memory.
const EVERYTHING: (u64, u64) = (0, u64::MAX);
/// `MADV_DONTNEED_LOCKED`
const DONTNEED_LOCKED: i32 = 24;

impl Run {
    /// A call that writes to a descriptor, in a process that has opened the memory of a process for writing.
    pub fn write_to_descriptor(
        &mut self,
        stopped: Stopped,
        registers: Registers,
        site: CallSite,
    ) -> Result<(), RunError> {
        let tid = stopped.tid();
        let descriptor = registers.rdi as i32;
        let Some(written) = memory_behind(tid, descriptor) else {
            return self.program.rest_of_write(stopped, registers, site);
        };
        let (stopped, after) = self.program.execute(stopped, registers, site)?;
        let own_offset = [libc::SYS_pwrite64, libc::SYS_pwritev].contains(&(registers.rax as i64))
            || registers.rax as i64 == libc::SYS_pwritev2 && registers.r10 != u64::MAX;
        let piece = match (succeeded(&after), own_offset) {
            // Bytes written before the failure stay.
            (false, _) => EVERYTHING,
            (true, true) => (registers.r10, after.rax),
            (true, false) => (position(tid, descriptor).unwrap_or(0).wrapping_sub(after.rax), after.rax),
        };
        let stopped = self.text_written(stopped, written, &[piece])?;
        self.program.go_on(stopped)
    }

    /// `process_vm_writev`.
    pub fn process_vm_writev(
        &mut self,
        stopped: Stopped,
        registers: Registers,
        site: CallSite,
    ) -> Result<(), RunError> {
        let mut bytes = vec![0; 16 * registers.r8.min(PIECES) as usize];
        let address_space = self.program.address_space(stopped.tid())?;
        let read = address_space.memory.read_some(Address::new(registers.r10), &mut bytes).unwrap_or(0);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let pieces: Vec<(u64, u64)> =
            bytes[..read].chunks_exact(16).map(|piece| (word(&piece[..8]), word(&piece[8..]))).collect();
        let (stopped, _) = self.program.execute(stopped, registers, site)?;
        let stopped = self.text_written(stopped, Pid::from_raw(registers.rdi as i32), &pieces)?;
        self.program.go_on(stopped)
    }

    /// `process_madvise`.
    pub fn process_madvise(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let process = process_behind(stopped.tid(), registers.rdi as i32);
        let (stopped, _) = self.program.execute(stopped, registers, site)?;
        let stopped = match process {
            Some(process) => self.text_written(stopped, process, &[EVERYTHING])?,
            None => stopped,
        };
        self.program.go_on(stopped)
    }

    /// `madvise`, in a process that has written its text.
    pub fn madvise(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let advice = registers.rdx as i32;
        if ![libc::MADV_DONTNEED, libc::MADV_FREE, DONTNEED_LOCKED].contains(&advice) {
            return self.program.rest_in_cache(stopped, registers, site.native);
        }
        let pid = self.program.thread(stopped.tid())?.pid;
        let (stopped, _) = self.program.execute(stopped, registers, site)?;
        let stopped = self.text_written(stopped, pid, &[(registers.rdi, registers.rsi)])?;
        self.program.go_on(stopped)
    }

    /// A stopped thread has changed `pieces`, (address, bytes), of the memory of process `pid`.
    fn text_written(&mut self, stopped: Stopped, pid: Pid, pieces: &[(u64, u64)]) -> Result<Stopped, RunError> {
        let own = self.program.thread(stopped.tid())?.address_space;
        // In a namespace of its own a process has another number there.
        let space = self.program.threads.values().find(|t| t.pid == pid).map_or(own, |t| t.address_space);
        self.bring_home(space);
        let Some(address_space) = self.program.address_spaces.get(&space) else { return Ok(stopped) };
        let mut changed = Vec::new();
        for &(at, size) in pieces {
            let (from, to) = (Address::new(at), Address::new(at.saturating_add(size)));
            let text = address_space.text.iter().filter(|t| t.is_translated_in(from, to));
            changed.extend(text.map(|t| (t.start.max(from), t.end.min(to))));
        }
        if changed.is_empty() {
            return Ok(stopped);
        }
        stop_at_advice(&address_space.image.cache.borrow().tables);
        let differs = |&(from, to): &(Address, Address)| {
            self.program.differs_from_relatives(space, from, to, Treatment::Translate)
        };
        let parts = changed.iter().any(differs);
        let address_space = self.program.address_spaces.get_mut(&space).ok_or(RunError::Gone)?;
        for (from, to) in changed {
            address_space.note_written(from, to);
            address_space.compare_text(from, to, parts);
        }
        match (parts, space == own) {
            (false, _) => Ok(stopped),
            (true, true) => self.part(stopped),
            (true, false) => self.part_other(space).map(|()| stopped),
        }
    }
}

impl Program {
    /// Resumes a thread at a call that begins at `at` in the cache; it may wait there.
    pub fn rest_in_cache(&mut self, stopped: Stopped, registers: Registers, at: CacheAddress) -> Result<(), RunError> {
        stopped.set_registers(&Registers { rip: at.get(), orig_rax: u64::MAX, ..registers })?;
        self.go_on(stopped)
    }

    /// The same for a write that changes no memory: if calls that concern sockets are recorded, so is this one.
    fn rest_of_write(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let (thread, address_space) = self.thread_and_space(stopped.tid())?;
        let cache = address_space.image.cache.borrow();
        let arena = cache.arenas.first().filter(|_| records_sockets(&cache.tables, registers.rax as i64));
        let stub = arena.map(|arena| arena.stubs.socket);
        if stub.is_some() {
            let kind = CallClass::Moves as u64 - CallClass::Stop as u64;
            let contexts = thread.contexts.borrow();
            contexts.set(thread.context, layout::SOCKET_KIND, kind);
            contexts.set(thread.context, layout::SOCKET_NATIVE, site.native.get());
            contexts.set(thread.context, layout::CONTINUE_AT, site.after.get());
        }
        drop(cache);
        self.rest_in_cache(stopped, registers, stub.unwrap_or(site.native))
    }
}

/// The process with the memory that a descriptor of thread `tid` refers to.
fn memory_behind(tid: Pid, descriptor: i32) -> Option<Pid> {
    let link = std::fs::read_link(format!("/proc/{tid}/fd/{descriptor}")).ok()?;
    match proc_file(link.as_os_str().as_encoded_bytes(), tid)? {
        (pid, ProcFile::Memory) => Some(pid),
        (_, ProcFile::Maps) => None,
    }
}

/// The process that a descriptor of thread `tid` is a handle of (`pidfd_open`).
fn process_behind(tid: Pid, descriptor: i32) -> Option<Pid> {
    about_descriptor(tid, descriptor, "Pid:").map(Pid::from_raw)
}

/// The position of a descriptor of thread `tid` in its file.
fn position(tid: Pid, descriptor: i32) -> Option<u64> {
    about_descriptor(tid, descriptor, "pos:")
}

/// A number that the kernel shows of a descriptor of thread `tid`.
fn about_descriptor<N: FromStr>(tid: Pid, descriptor: i32, label: &str) -> Option<N> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(label))?.trim().parse().ok()
}
