//! Threads and processes that begin, execute another program, end, or are released.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use atomic_refcell::AtomicRefCell;
use nix::unistd::{Pid, getegid, geteuid};

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::layout;
use crate::translator::kernel::context_tables::map_tables;
use crate::translator::kernel::dispositions::Dispositions;
use crate::translator::kernel::prepare_image::{self, Prepared};
use crate::translator::program::address_space::{AddressSpace, Destination, open_for_writing};
use crate::translator::program::thread::Thread;
use crate::translator::sampling::access_buffer::enter;
use crate::translator::tracer::program::{Program, remote_in};
use crate::translator::tracer::run::{EndedThread, Run, kill_process_of, process_of};
use crate::translator::tracer::run_error::RunError;
use crate::translator::translate::text_ranges::find_text;
use rprof_profile::run::Warning;
use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;
use rprof_tracee::proc_status::{read_name, read_status};
use rprof_tracee::thread::{Mode, Stopped};
use rprof_tracee::wait::{Event, Stop, wait_for};

/// `cs` of 64-bit code.
pub(crate) const CS_64: u64 = 0x33;

/// Address spaces without processes, with counts kept for later.
const FINISHED: usize = 4;

/// Whether the file that a process executes would change its user or group.
fn gains_privileges(pid: Pid) -> bool {
    let file = std::fs::metadata(format!("/proc/{pid}/exe"));
    file.is_ok_and(|f| {
        f.mode() & libc::S_ISUID != 0 && f.uid() != geteuid().as_raw()
            || f.mode() & libc::S_ISGID != 0 && f.gid() != getegid().as_raw()
    })
}

/// Why a process that has just executed a program, with `cs`, cannot be counted.
fn obstacle(pid: Pid, cs: u64) -> Option<&'static str> {
    if cs != CS_64 {
        return Some("it is a 32-bit program");
    }
    if gains_privileges(pid) && !geteuid().is_root() {
        return Some("it is setuid or setgid, and a traced program does not get the privileges of its file's owner");
    }
    Memory::open(pid).is_err().then_some("its memory cannot be read, as its file may be executed but not read")
}

/// The memory of a new process that is undumpable, as `parent` was when it made it: it is dumpable while rprof opens it. Returns
/// the memory, the process, and the signals that arrived for it meanwhile.
fn open_undumpable(
    parent: &AddressSpace,
    stopped: Stopped,
) -> Result<(Memory, (Stopped, prepare_image::Deferred)), RunError> {
    let child = stopped.tid();
    // Nothing is written: the instruction is there, in the memory of both.
    let mut remote = remote_in(parent, stopped)?;
    let mut set_dumpable = |value| {
        let arguments = [libc::PR_SET_DUMPABLE as u64, value, 0, 0, 0, 0];
        remote.call("prctl(PR_SET_DUMPABLE)", libc::SYS_prctl, arguments)
    };
    set_dumpable(1)?;
    let memory = Memory::open(child);
    set_dumpable(0)?;
    let memory =
        memory.map_err(|e| RunError::Unsupported(format!("the memory of its child {child} cannot be read: {e}")))?;
    Ok((memory, remote.finish()?))
}

impl Run {
    /// A thread made a thread or a process.
    pub fn new_task(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let parent = stopped.tid();
        let shares_memory = self.program.shares_memory(&stopped)?;
        let child = Pid::from_raw(stopped.event_message()? as i32);
        let first_stop = match self.program.orphans.remove(&child) {
            Some(stop) => Some(stop),
            None => match wait_for(child, true) {
                Some(Event::Stopped(stop, _)) => Some(stop),
                _ => None,
            },
        };
        if let Some(first_stop) = first_stop {
            match self.adopt(parent, shares_memory, first_stop) {
                Ok(()) | Err(RunError::Gone) => {}
                Err(error) => {
                    // It is stopped, and `threads` does not contain it yet.
                    kill_process_of(child);
                    return Err(error);
                }
            }
        }
        self.program.go_on(stopped)
    }

    fn adopt(&mut self, parent: Pid, shares_memory: bool, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        let pid = process_of(tid);
        let (parent_group, space) = self.program.thread(parent).map(|t| (t.pid, t.address_space))?;
        let address_space = self.program.address_space(parent)?;
        let image = address_space.image.clone();
        let (mut stopped, mut deferred) = (stopped, Vec::new());
        let space = if shares_memory {
            space
        } else {
            let memory = match Memory::open(pid) {
                Ok(memory) => memory,
                Err(_) => {
                    let memory;
                    (memory, (stopped, deferred)) = open_undumpable(address_space, stopped)?;
                    memory
                }
            };
            let text = address_space.text.clone();
            let child = AddressSpace {
                begins_natively: address_space.begins_natively,
                rewrites: address_space.rewrites.clone(),
                with_tables: address_space.with_tables.clone(),
                ..AddressSpace::new(pid, memory, text, &address_space.modules, image.clone())
            };
            self.make_way(pid);
            self.program.address_spaces.insert(pid, child);
            if let Some(drain) = &mut self.recorded.samples.drain {
                drain.forked(space.as_raw() as u32, pid.as_raw() as u32);
            }
            pid
        };
        if pid != parent_group
            && let Some(inherited) = self.program.settings.get(&parent_group).cloned()
        {
            self.program.settings.insert(pid, inherited);
        }
        let context = image.contexts.borrow_mut().take()?;
        let (stopped, signals) = self.program.map_tables(space, pid, context, stopped)?;
        deferred.extend(signals);
        let old = self.program.thread(parent)?;
        let contexts = image.contexts.borrow();
        contexts.set(context, layout::PROGRAM_GS, contexts.get(old.context, layout::PROGRAM_GS));
        let ordinal = self.evidence.roster.enter(pid, tid);
        let forks = pid != parent_group && !shares_memory;
        let path = if forks { self.recorded.marks.forked(old.ordinal, ordinal) } else { 0 };
        // It begins at its parent's place.
        enter(&mut self.recorded.samples.drain, &contexts, context, ordinal, old.version);
        let mut thread = Thread::new(pid, space, ordinal, context, image.contexts.clone(), old.version);
        thread.path = AtomicU32::new(path);
        deferred.into_iter().for_each(|(signal, info)| thread.defer(signal, info));
        self.program.threads.insert(tid, thread);
        self.program.note_mask(&stopped)?;
        let stopped = if pid != parent_group { self.program.inherit_actions(stopped)? } else { stopped };
        let mut registers = stopped.registers()?;
        registers.gs_base = contexts.base(context).get();
        stopped.set_registers(&registers)?;
        if self.program.watches_calls(parent) {
            self.note_native(tid, Destination::Native(Address::new(registers.rip)));
        }
        self.program.go_on(stopped)
    }

    /// A process executes a program; its other threads are gone.
    pub fn on_exec(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        if self.visits {
            return self.executed_in_visit(stopped);
        }
        let former = Pid::from_raw(stopped.event_message()? as i32);
        let ordinal = self.program.threads.get(&former).map(|t| t.ordinal);
        let gone: Vec<(Pid, Pid)> =
            self.program.threads.iter().filter(|(_, t)| t.pid == tid).map(|(&id, t)| (id, t.address_space)).collect();
        for (thread, space) in gone {
            self.harvest(thread, false);
            if thread != former {
                self.evidence.roster.leave(thread);
            }
            self.drop_unused(space);
        }
        self.make_way(tid);
        self.recorded.tell_unmapped(&self.program, tid, Address::new(0), Address::new(u64::MAX));
        let ignored = read_status(tid).map_err(|_| RunError::Gone)?.ignored;
        let kept = &mut self.program.settings.entry(tid).or_default().dispositions;
        // A trap of rprof's may have reset the action.
        let also = kept.map_or(0, Dispositions::ignored);
        *kept = Some(Dispositions::inherited(ignored | also));
        let ordinal = match ordinal {
            Some(ordinal) => {
                self.evidence.roster.rename(former, tid);
                ordinal
            }
            None => self.evidence.roster.enter(tid, tid),
        };
        let (stopped, _) = self.program.until(stopped, Mode::Syscall, 0, |s| *s == Stop::Syscall)?;
        if let Some(why) = obstacle(tid, stopped.registers()?.cs) {
            return self.not_followed(stopped, why);
        }
        if let Some(call) = self.program.forbidden_preparation(tid) {
            let why = format!("a seccomp filter forbids {call}, which rprof needs in its name");
            return self.not_followed(stopped, &why);
        }
        let limit = self.program.open_address_space(tid);
        let (mut image, stopped) = match prepare_image::prepare(tid, stopped)? {
            Prepared::Image(image, stopped) => (image, stopped),
            Prepared::NoRoom(_, stopped) if tid != self.first => {
                return self
                    .not_followed(stopped, "its limit on address space (ulimit -v) leaves no room for its code");
            }
            Prepared::NoRoom(error, _) => return Err(error.into()),
        };
        image.cache.watched.mpi.sees_sockets = true;
        let shared = self.image(image.cache, image.contexts);
        let context = shared.contexts.borrow_mut().take()?;
        let version = self.recorded.samples.first_version();
        enter(&mut self.recorded.samples.drain, &shared.contexts.borrow(), context, ordinal, version);
        self.program.threads.insert(tid, Thread::new(tid, tid, ordinal, context, shared.contexts.clone(), version));
        let base = shared.contexts.borrow().base(context);
        let begins_natively = find_text(&image.text, stopped.program_counter()?).is_none();
        let mut address_space = AddressSpace {
            begins_natively,
            ..AddressSpace::new(tid, image.memory, image.text, &self.program.modules, shared)
        };
        address_space.watch_writes(&open_for_writing(tid));
        let (stopped, signals) = map_tables(&mut address_space, [context], stopped)?;
        self.program.defer_all(tid, signals);
        self.program.address_spaces.insert(tid, address_space);
        self.program.close_address_space(tid, limit);
        self.program.note_mask(&stopped)?;
        let mut registers = stopped.registers()?;
        registers.gs_base = base.get();
        self.go_on_as_program(stopped, registers)
    }

    /// A process executes a program during a visit: the new program is not visited yet.
    fn executed_in_visit(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        let gone: Vec<Pid> = self.program.threads.iter().filter(|(_, t)| t.pid == tid).map(|(&id, _)| id).collect();
        self.evidence.roster.look(tid);
        gone.into_iter().for_each(|thread| self.ended(thread));
        Ok(stopped.detach(0)?)
    }

    /// A process executed a program that cannot be followed: a descendant runs on natively, the first process cannot be counted.
    fn not_followed(&mut self, stopped: Stopped, why: &str) -> Result<(), RunError> {
        let tid = stopped.tid();
        if tid == self.first {
            return Err(RunError::Unsupported(why.into()));
        }
        self.program.ensure_seen(why)?;
        self.evidence.uncounted.unfollowed = true;
        let name = read_name(tid).unwrap_or_default();
        self.evidence.warnings.push(Warning::new(
            "child-not-counted",
            format!("process {tid} ({name}) was not counted: {why}"),
            "its work is missing from all counts and from the sums over the run",
            "profile that program by itself, as far as it can be counted",
        ));
        self.ended(tid);
        self.evidence.roster.leave(tid);
        Ok(stopped.detach(0)?)
    }

    /// A thread ended.
    pub fn ended(&mut self, tid: Pid) {
        self.evidence.roster.leave(tid);
        self.program.orphans.remove(&tid);
        let Ok((pid, space, ordinal)) = self.program.thread(tid).map(|t| (t.pid, t.address_space, t.ordinal)) else {
            return;
        };
        if self.visits {
            self.ended_threads.push(EndedThread { tid, ordinal, cpu_s: self.evidence.roster.cpu_s(ordinal) });
        }
        self.harvest(tid, true);
        if !self.program.threads.values().any(|t| t.pid == pid) {
            self.program.settings.remove(&pid);
        }
        self.drop_unused(space);
    }

    /// Drops an address space if no thread runs in it any more.
    fn drop_unused(&mut self, space: Pid) {
        // A thread that waits for its end continues meanwhile, and may need translations.
        self.evidence.finished.extend(self.program.drop_unused(space));
        if self.evidence.finished.len() > FINISHED {
            self.evidence.finish_one(&mut self.recorded.samples.drain);
        }
    }

    /// Frees the key `id` for a new address space: one that outlived the process of that id gets another key.
    fn make_way(&mut self, id: Pid) {
        self.bring_home(id);
        let Some(address_space) = self.program.address_spaces.remove(&id) else { return };
        let other = address_space.pid;
        self.program.threads.values_mut().filter(|t| t.address_space == id).for_each(|t| t.address_space = other);
        self.program.address_spaces.insert(other, address_space);
    }

    /// Reads a thread's counters, and removes the thread.
    pub fn harvest(&mut self, tid: Pid, ended: bool) {
        self.recorded.end_burst(&self.program, tid);
        self.recorded.drain_buffer(&self.program, tid);
        self.recorded.samples.bursts.iter_mut().for_each(|bursts| bursts.left(tid));
        self.program.leave_native(tid, &mut self.evidence.uncounted);
        let Some(thread) = self.program.threads.remove(&tid) else { return };
        if ended && let Some(drain) = &mut self.recorded.samples.drain {
            drain.ended(thread.ordinal);
        }
        if let Some(address_space) = self.program.address_spaces.get(&thread.address_space) {
            self.recorded.marks.ended(address_space, &thread);
            let mut cache = address_space.image.cache.borrow_mut();
            self.recorded.calls.drain(address_space, &mut cache, &thread);
            // Addresses and bursts are recorded under each thread's own ordinal, so its counts need the same ordinal.
            let own = !ended || self.recorded.samples.drain.is_some() || self.recorded.samples.bursts.is_some();
            let charged = if own { thread.ordinal } else { self.evidence.roster.charge(thread.ordinal) };
            cache.take_counters(&thread.contexts.borrow(), thread.context, charged);
        }
        self.polling.polls += thread.contexts.borrow().get(thread.context, layout::POLLS);
        thread.contexts.borrow_mut().give_back(thread.context);
    }
}

impl Program {
    /// Whether the task that a thread has just made runs in its address space (`CLONE_VM`).
    fn shares_memory(&self, stopped: &Stopped) -> Result<bool, RunError> {
        let registers = stopped.registers()?;
        let (_, address_space) = self.thread_and_space(stopped.tid())?;
        let flags = match registers.orig_rax as i64 {
            libc::SYS_clone => registers.rdi,
            libc::SYS_clone3 => address_space.memory.read_u64(Address::new(registers.rdi)).unwrap_or(0),
            libc::SYS_vfork => libc::CLONE_VM as u64,
            _ => 0,
        };
        Ok(flags & libc::CLONE_VM as u64 != 0)
    }

    /// Drops an address space in which no thread runs any more, or names another of its processes if the first has left it. Returns
    /// its code cache if no other shares that.
    fn drop_unused(&mut self, space: Pid) -> Option<Arc<AtomicRefCell<CodeCache>>> {
        let mut left = self.threads.values().filter(|t| t.address_space == space).map(|t| t.pid);
        let Some(one) = left.next() else {
            let image = self.address_spaces.remove(&space)?.image;
            return (!image.is_shared()).then_some(image.cache);
        };
        let there = one == space || left.any(|pid| pid == space);
        if let Some(address_space) = self.address_spaces.get_mut(&space).filter(|_| !there) {
            address_space.pid = one;
        }
        None
    }
}
