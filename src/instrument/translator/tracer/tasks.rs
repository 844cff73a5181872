//! Threads and processes that begin, execute another program, end, or are released.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicU32;

use nix::unistd::{Pid, getegid, geteuid};

use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::code_cache::version::Version;
use crate::instrument::translator::kernel::dispositions::Dispositions;
use crate::instrument::translator::kernel::prepare_image::{self, Prepared};
use crate::instrument::translator::program::address_space::AddressSpace;
use crate::instrument::translator::program::excursions::Transitions;
use crate::instrument::translator::program::image::ImageRef;
use crate::instrument::translator::program::thread::Thread;
use crate::instrument::translator::sampling::access_buffer::{AccessBuffer, enter};
use crate::instrument::translator::tracer::run::{Run, RunError, kill_process_of, process_of};
use crate::instrument::translator::tracer::stop_the_world::Held;
use crate::instrument::translator::tracer::uncounted::Release;
use crate::instrument::translator::translate::ahead::Ahead;
use crate::instrument::translator::translate::text_ranges::{Treatment, find_text};
use crate::profile::run::Warning;
use crate::tracee::address::Address;
use crate::tracee::memory::Memory;
use crate::tracee::proc_status::{read_name, read_status};
use crate::tracee::remote::{Remote, RemoteError};
use crate::tracee::thread::{Mode, Registers, Stopped};
use crate::tracee::wait::{Event, Stop, wait_for};

/// `cs` of 64-bit code.
pub(crate) const CS_64: u64 = 0x33;

/// Address spaces without processes whose counts are kept for later.
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
    let gadget = parent.image.cache.borrow().arenas.first().map(|a| a.stubs.gadget).ok_or(RunError::Gone)?;
    // Nothing is written: the instruction is there, in the memory of both.
    let mut remote = Remote::new(stopped, &parent.memory, Address::new(gadget.get()))?;
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
    /// A thread is about to make a task that no tracer may follow. The task would run in the cache without answers, so rprof
    /// releases the process before.
    pub fn make_untraced(&mut self, stopped: Stopped, registers: Registers) -> Result<(), RunError> {
        self.release_before(stopped, registers, Release::Untraced)
    }

    /// A thread made a thread or a process.
    pub fn new_task(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let parent = stopped.tid();
        let shares_memory = self.shares_memory(&stopped)?;
        let child = Pid::from_raw(stopped.event_message()? as i32);
        let first_stop = match self.orphans.remove(&child) {
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
        self.go_on(stopped)
    }

    /// Whether the task that a thread has just made runs in its address space (`CLONE_VM`).
    fn shares_memory(&mut self, stopped: &Stopped) -> Result<bool, RunError> {
        let registers = stopped.registers()?;
        let address_space = self.address_space(stopped.tid())?;
        let flags = match registers.orig_rax as i64 {
            libc::SYS_clone => registers.rdi,
            libc::SYS_clone3 => address_space.memory.read_u64(Address::new(registers.rdi)).unwrap_or(0),
            libc::SYS_vfork => libc::CLONE_VM as u64,
            _ => 0,
        };
        Ok(flags & libc::CLONE_VM as u64 != 0)
    }

    fn adopt(&mut self, parent: Pid, shares_memory: bool, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        let pid = process_of(tid);
        let (parent_group, space) =
            self.threads.get(&parent).map(|t| (t.pid, t.address_space)).ok_or(RunError::Gone)?;
        let address_space = self.address_space(parent)?;
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
            let (image, pages, transitions) = (image.clone(), RefCell::default(), Transitions::new());
            let ahead = Ahead::default();
            let rewrites = address_space.rewrites.clone();
            let begins_natively = address_space.begins_natively;
            let child = AddressSpace {
                pid,
                memory,
                text,
                pages,
                modules: self.modules.clone(),
                image,
                begins_natively,
                rewrites,
                transitions,
                ahead,
                asked: None,
            };
            self.make_way(pid);
            self.address_spaces.insert(pid, child);
            self.recording.drain.iter_mut().for_each(|drain| drain.forked(space.as_raw() as u32, pid.as_raw() as u32));
            pid
        };
        if pid != parent_group
            && let Some(inherited) = self.process_settings.get(&parent_group).cloned()
        {
            self.process_settings.insert(pid, inherited);
        }
        let region = image.regions.borrow_mut().take()?;
        if let Some(old) = self.threads.get(&parent) {
            let regions = image.regions.borrow();
            regions.set(region, layout::PROGRAM_GS, regions.get(old.region, layout::PROGRAM_GS));
        }
        let ordinal = self.roster.enter(pid, tid);
        let forks = pid != parent_group && !shares_memory;
        let forked = self.threads.get(&parent).filter(|_| forks).map(|parent| parent.ordinal);
        let path = forked.map_or(0, |parent| self.marks.forked(parent, ordinal));
        // It begins where its parent is.
        let version = self.threads.get(&parent).map_or(Version::default(), |t| t.version);
        enter(&mut self.recording.drain, &image.regions.borrow(), region, ordinal, version);
        let mut thread = Thread::new(pid, space, ordinal, region, image.regions.clone(), version);
        thread.path = AtomicU32::new(path);
        deferred.into_iter().for_each(|(signal, info)| thread.defer(signal, info));
        self.threads.insert(tid, thread);
        self.note_mask(&stopped)?;
        let mut registers = stopped.registers()?;
        registers.gs_base = image.regions.borrow().base(region).get();
        stopped.set_registers(&registers)?;
        if self.watches_calls(parent) {
            self.enter_native(tid, Address::new(registers.rip));
        }
        self.go_on(stopped)
    }

    /// A process executes a program; its other threads are gone.
    pub fn on_exec(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        if self.visits {
            return self.executed_in_visit(stopped);
        }
        let former = Pid::from_raw(stopped.event_message()? as i32);
        let ordinal = self.threads.get(&former).map(|t| t.ordinal);
        let gone: Vec<(Pid, Pid)> =
            self.threads.iter().filter(|(_, t)| t.pid == tid).map(|(&id, t)| (id, t.address_space)).collect();
        for (thread, space) in gone {
            self.harvest(thread, false);
            if thread != former {
                self.roster.leave(thread);
            }
            self.drop_unused(space);
        }
        self.make_way(tid);
        self.tell_unmapped(tid, Address::new(0), Address::new(u64::MAX));
        let ignored = read_status(tid).map_err(|_| RunError::Gone)?.ignored;
        self.process_settings.entry(tid).or_default().dispositions = Some(Dispositions::inherited(ignored));
        let ordinal = match ordinal {
            Some(ordinal) => {
                self.roster.rename(former, tid);
                ordinal
            }
            None => self.roster.enter(tid, tid),
        };
        let (stopped, _) = self.until(stopped, Mode::Syscall, 0, |s| *s == Stop::Syscall)?;
        if let Some(why) = obstacle(tid, stopped.registers()?.cs) {
            return self.not_followed(stopped, why);
        }
        if let Some(call) = self.forbidden_preparation(tid) {
            let why = format!("a seccomp filter forbids {call}, which rprof needs in its name");
            return self.not_followed(stopped, &why);
        }
        let limit = self.open_address_space(tid);
        let (mut image, stopped) = match prepare_image::prepare(tid, stopped)? {
            Prepared::Image(image, stopped) => (image, stopped),
            Prepared::NoRoom(error, stopped) if tid != self.first => {
                let why = match error {
                    RemoteError::NoRoomBelow => "its static data leave no room for our tables in the low 2 GiB",
                    _ => "its limit on address space (ulimit -v) leaves no room for its code",
                };
                return self.not_followed(stopped, why);
            }
            Prepared::NoRoom(error, _) => return Err(error.into()),
        };
        image.cache.watched.mpi.sees_sockets = true;
        image.cache.has_sink = self.recording.drain.is_some();
        image.cache.set_polling(self.is_polling());
        image.cache.prepare_traces(&image.regions);
        let shared = ImageRef::new(image.cache, image.regions, self.looks.settings);
        let region = shared.regions.borrow_mut().take()?;
        // A burst does not begin in the kernel or the loader.
        let version = self.recording.drain.as_ref().map_or(Version::default(), AccessBuffer::wanted);
        enter(&mut self.recording.drain, &shared.regions.borrow(), region, ordinal, version);
        self.threads.insert(tid, Thread::new(tid, tid, ordinal, region, shared.regions.clone(), version));
        let base = shared.regions.borrow().base(region);
        let begins_natively = find_text(&image.text, stopped.program_counter()?).is_none();
        let address_space = AddressSpace {
            pid: tid,
            memory: image.memory,
            text: image.text,
            pages: RefCell::default(),
            modules: self.modules.clone(),
            image: shared,
            begins_natively,
            rewrites: HashMap::new(),
            transitions: Transitions::new(),
            ahead: Ahead::default(),
            asked: None,
        };
        self.address_spaces.insert(tid, address_space);
        self.close_address_space(tid, limit);
        self.note_mask(&stopped)?;
        let mut registers = stopped.registers()?;
        registers.gs_base = base.get();
        let stopped = self.redirect(stopped, registers, Address::new(registers.rip))?;
        self.go_on(stopped)
    }

    /// A process executes a program during a visit: the new program is not visited yet.
    fn executed_in_visit(&mut self, stopped: Stopped) -> Result<(), RunError> {
        let tid = stopped.tid();
        let gone: Vec<Pid> = self.threads.iter().filter(|(_, t)| t.pid == tid).map(|(&id, _)| id).collect();
        gone.into_iter().for_each(|thread| self.ended(thread));
        Ok(stopped.detach(0)?)
    }

    /// A process executed a program that cannot be followed: a descendant runs on natively, the first process cannot be counted.
    fn not_followed(&mut self, stopped: Stopped, why: &str) -> Result<(), RunError> {
        let tid = stopped.tid();
        if tid == self.first {
            return Err(RunError::Unsupported(why.into()));
        }
        self.uncounted.unfollowed = true;
        let name = read_name(tid).unwrap_or_default();
        self.warnings.push(Warning::new(
            "child-not-counted",
            format!("process {tid} ({name}) was not counted: {why}"),
            "its work is missing from all counts and from the sums over the run",
            "profile that program by itself, as far as it can be counted",
        ));
        self.ended(tid);
        self.roster.leave(tid);
        Ok(stopped.detach(0)?)
    }

    /// A thread ended.
    pub fn ended(&mut self, tid: Pid) {
        self.roster.leave(tid);
        self.orphans.remove(&tid);
        let Some((pid, space)) = self.threads.get(&tid).map(|t| (t.pid, t.address_space)) else { return };
        self.harvest(tid, true);
        if !self.threads.values().any(|t| t.pid == pid) {
            self.process_settings.remove(&pid);
        }
        self.drop_unused(space);
    }

    /// Drops an address space in which no thread runs any more, or names another of its processes if the first has left it.
    fn drop_unused(&mut self, space: Pid) {
        let mut left = self.threads.values().filter(|t| t.address_space == space).map(|t| t.pid);
        match left.next() {
            None => self.drop_process(space),
            Some(one) => {
                let there = one == space || left.any(|pid| pid == space);
                if let Some(address_space) = self.address_spaces.get_mut(&space).filter(|_| !there) {
                    address_space.pid = one;
                }
            }
        }
    }

    /// Frees the key `id` for a new address space: one that outlived the process of that id gets another key.
    fn make_way(&mut self, id: Pid) {
        self.bring_home(id);
        let Some(address_space) = self.address_spaces.remove(&id) else { return };
        let other = address_space.pid;
        self.threads.values_mut().filter(|t| t.address_space == id).for_each(|t| t.address_space = other);
        self.address_spaces.insert(other, address_space);
    }

    /// Reads a thread's counters, and removes the thread.
    pub fn harvest(&mut self, tid: Pid, ended: bool) {
        self.end_burst(tid);
        self.drain_buffer(tid);
        self.recording.bursts.iter_mut().for_each(|bursts| bursts.left(tid));
        self.leave_native(tid);
        let Some(thread) = self.threads.remove(&tid) else { return };
        if let Some(address_space) = self.address_spaces.get(&thread.address_space) {
            self.marks.ended(address_space, &thread);
            self.calls.drain(address_space, &mut address_space.image.cache.borrow_mut(), &thread);
        }
        if ended && let Some(drain) = &mut self.recording.drain {
            drain.ended(thread.ordinal);
        }
        if let Some(address_space) = self.address_spaces.get(&thread.address_space) {
            // Addresses and bursts are recorded under each thread's own ordinal, so its counts need the same ordinal.
            let own = !ended || self.recording.drain.is_some() || self.recording.bursts.is_some();
            let charged = if own { thread.ordinal } else { self.roster.charge(thread.ordinal) };
            address_space.image.cache.borrow_mut().take_counters(&thread.regions.borrow(), thread.region, charged);
        }
        thread.regions.borrow_mut().give_back(thread.region);
    }

    fn drop_process(&mut self, pid: Pid) {
        let Some(address_space) = self.address_spaces.remove(&pid) else { return };
        if !address_space.image.is_shared() {
            // A thread that waits for its end continues meanwhile, and may need translations.
            self.finished.push_back(address_space.image.cache);
            if self.finished.len() > FINISHED {
                self.finish_one();
            }
        }
    }

    /// Adds the counts of one finished address space to the tally, if any is left.
    pub fn finish_one(&mut self) -> bool {
        let Some(cache) = self.finished.pop_front() else { return false };
        if let Some(drain) = &mut self.recording.drain {
            cache.borrow_mut().report_deltas(std::iter::empty(), drain);
        }
        cache.borrow_mut().finish(&mut self.tally, &mut self.recording.drain);
        true
    }

    /// Lets the process of `tid` run on natively.
    pub fn release(&mut self, tid: Pid) {
        let Some(space) = self.threads.get(&tid).map(|t| t.address_space) else { return };
        let held = self.hold(space, None);
        self.detach(space, held);
    }

    /// Lets the stopped threads of `space` run on natively.
    pub fn detach(&mut self, space: Pid, held: Vec<Held>) {
        let members: Vec<Pid> =
            self.threads.iter().filter(|(_, t)| t.address_space == space).map(|(&t, _)| t).collect();
        let mut unprotected = false;
        for Held { stopped, signal, .. } in held {
            let Ok(stopped) = self.leave_cache(stopped) else { continue };
            let stopped = if unprotected { Ok(stopped) } else { self.unprotect(space, stopped) };
            unprotected = true;
            if let Ok(stopped) = stopped {
                // If it is gone, nothing is left to do.
                let _ = stopped.detach(signal.map_or(0, |s| s.0));
            }
        }
        for member in members {
            self.roster.look(member);
            self.ended(member);
        }
    }

    /// Gives its text back the execute permission.
    fn unprotect(&mut self, pid: Pid, stopped: Stopped) -> Result<Stopped, RunError> {
        let address_space = self.address_spaces.get(&pid).ok_or(RunError::Gone)?;
        let gadget = address_space.image.cache.borrow().arenas.first().map(|a| a.stubs.gadget);
        let gadget = gadget.ok_or(RunError::Gone)?;
        let mut remote = Remote::new(stopped, &address_space.memory, Address::new(gadget.get()))?;
        for text in address_space.text.iter().filter(|t| t.treatment == Treatment::Translate) {
            let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
            let arguments = [text.start.get(), text.end - text.start, protection, 0, 0, 0];
            // A sealed mapping was never changed.
            let _ = remote.call("mprotect", libc::SYS_mprotect, arguments);
        }
        Ok(remote.finish()?.0)
    }
}
