//! A copy of the program, which runs until its time is over or it would have an effect, and is killed when it is dropped.
//!
//! ```text
//!  Born ─▶ Draft: shared memory private ─▶ (the program goes on) ─▶ filter, threads ─▶ Copy ─ run ─▶ Came
//! ```

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;
use rprof_tracee::proc_status::{is_runnable, read_state};
use rprof_tracee::remote::Remote;
use rprof_tracee::thread::{Mode, Running, Stopped};
use rprof_tracee::wait::{Event, Stop, wait_any, wait_for};

use crate::calls::{Answer, answer};
use crate::error::{CopyError, Ended, ProcessEnd};
use crate::filter;
use crate::halt::{Halted, ThreadState};
use crate::make::{self, Born};
use crate::shared;

/// Bytes of a page for rprof's own data in a copy.
const ROOM: u64 = 16 << 10;
/// Interval between two looks at a running copy.
const LOOK: Duration = Duration::from_micros(100);
/// Looks after which a copy is asked whether anything of it still runs.
const ASK_AFTER: u32 = 100;

/// What a thread of a copy is doing.
#[derive(Debug)]
enum Doing {
    /// Stopped by rprof, to go on.
    Stopped(Stopped),
    /// Running.
    Runs,
    /// In a call that opens a file, until its end.
    Opens,
    /// Left where it is: it waits for others, or rprof keeps it.
    Waits,
}

/// What a run of a copy came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// A thread came to a breakpoint; all are stopped.
    Passed(Pid),
    /// The time is over; all are stopped.
    Late,
}

/// A copy.
#[derive(Debug)]
pub struct Copy {
    pid: Pid,
    /// Its threads by id; the first is that of the process.
    threads: BTreeMap<Pid, Doing>,
    /// Ids of the program's threads, by those of the copy's.
    originals: BTreeMap<Pid, Pid>,
    memory: Memory,
    site: Address,
    /// Scratch memory of rprof in it.
    room: Address,
    /// Offsets of the program's regular files at the moment of the copy.
    offsets: Vec<(i32, u64)>,
    /// Descriptors that the copy has opened itself.
    own: HashSet<i32>,
    /// Old and new addresses of instructions that were written anew.
    moved: Vec<(u64, u64)>,
    is_over: bool,
}

/// A copy that is not prepared yet. It is killed when it is dropped.
#[derive(Debug)]
pub struct Draft {
    copy: Copy,
    states: Vec<ThreadState>,
    maker: usize,
}

impl Draft {
    /// Makes a copy of `program` and takes out of it what others share. The program may go on afterwards.
    ///
    /// # Errors
    /// As [`make::copy`]; shared memory could not be made private.
    pub fn make(program: &Halted, site: Address, offsets: &[(i32, u64)]) -> Result<Draft, CopyError> {
        let maker = program.maker();
        let Born { thread } = make::copy(program, maker, site)?;
        let pid = thread.tid();
        let memory = match Memory::open(pid) {
            Ok(memory) => memory,
            Err(error) => {
                end(pid);
                return Err(CopyError::Proc("open a copy's memory", error));
            }
        };
        let originals = BTreeMap::from([(pid, program.states[maker].tid)]);
        let threads = BTreeMap::from([(pid, Doing::Stopped(thread))]);
        let offsets = offsets.to_vec();
        let own = HashSet::new();
        let room = Address::new(0);
        let moved = Vec::new();
        let copy = Copy { pid, threads, originals, memory, site, room, offsets, own, moved, is_over: false };
        let mut draft = Draft { copy, states: program.states.clone(), maker };
        // It is the first that the kernel ends when memory runs out. Where that is refused, it is an equal of the program.
        let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
        draft.copy.as_stopped(&draft.states[maker])?;
        let program_pid = program.pid;
        let program_memory = &program.memory;
        draft.copy.on_behalf(|remote| shared::make_private(remote, pid, program_pid, program_memory))?;
        Ok(draft)
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.copy.pid
    }

    /// Gives the copy its filter and its other threads.
    ///
    /// # Errors
    /// The kernel refuses a thread or the filter, or the copy has ended.
    pub fn prepare(self) -> Result<Copy, CopyError> {
        let Draft { mut copy, states, maker } = self;
        copy.room = copy.on_behalf(|remote| map_room(remote, ROOM))?;
        copy.install_filter()?;
        let mut waiting = Vec::new();
        for (at, state) in states.iter().enumerate() {
            if at != maker {
                copy.add_thread(state, &states[maker])?;
            }
            if let (true, Some(tid)) = (state.waits, copy.thread_of(state.tid)) {
                waiting.push(tid);
            }
        }
        for tid in waiting {
            copy.threads.insert(tid, Doing::Waits);
        }
        Ok(copy)
    }
}

fn map_room(remote: &mut Remote<'_>, bytes: u64) -> Result<Address, CopyError> {
    let rights = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    Ok(Address::new(remote.call("mmap", libc::SYS_mmap, [0, bytes, rights, flags, u64::MAX, 0])?))
}

impl Copy {
    /// Its process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Its thread that is a copy of the program's thread `original`.
    pub fn thread_of(&self, original: Pid) -> Option<Pid> {
        self.originals.iter().find(|(_, of)| **of == original).map(|(tid, _)| *tid)
    }

    /// Its threads.
    pub fn threads(&self) -> Vec<Pid> {
        self.threads.keys().copied().collect()
    }

    /// A thread of it, while it is stopped by rprof.
    pub fn stopped(&self, tid: Pid) -> Option<&Stopped> {
        match self.threads.get(&tid)? {
            Doing::Stopped(stopped) => Some(stopped),
            _ => None,
        }
    }

    /// Puts threads that are at the first of each pair of addresses to the second; breakpoints as well, see [`moved`](Self::moved).
    ///
    /// # Errors
    /// A thread cannot be driven.
    pub fn move_threads(&mut self, moved: &[(u64, u64)]) -> Result<(), CopyError> {
        self.moved.extend(moved);
        for tid in self.stopped_threads() {
            let thread = Stopped::still(tid);
            let mut registers = thread.registers()?;
            let to = self.moved(registers.rip);
            if to != registers.rip {
                registers.rip = to;
                thread.set_registers(&registers)?;
            }
        }
        Ok(())
    }

    /// Where the program's instruction at `address` is in the copy.
    pub fn moved(&self, address: u64) -> u64 {
        self.moved.iter().find(|(from, _)| *from == address).map_or(address, |(_, to)| *to)
    }

    /// Leaves all its threads but `kept` where they are, for good.
    pub fn keep_only(&mut self, kept: Pid) {
        for (tid, doing) in &mut self.threads {
            if *tid != kept && matches!(doing, Doing::Stopped(_)) {
                *doing = Doing::Waits;
            }
        }
    }

    /// Makes system calls in its name. All its threads are stopped.
    ///
    /// # Errors
    /// Those of `work`; no thread of it can be driven.
    pub fn on_behalf<T>(&mut self, work: impl FnOnce(&mut Remote<'_>) -> Result<T, CopyError>) -> Result<T, CopyError> {
        // A thread in a stop of its filter would make its call.
        let free = self.threads.iter().find(|(_, doing)| matches!(doing, Doing::Stopped(_))).map(|(tid, _)| *tid);
        let tid = free.ok_or(CopyError::Ended(Ended::Waits))?;
        let mut remote = Remote::new(Stopped::still(tid), &self.memory, self.site)?;
        let result = work(&mut remote);
        match remote.finish() {
            Ok((stopped, _)) => {
                self.threads.insert(tid, Doing::Stopped(stopped));
                result
            }
            Err(error) => {
                self.is_over = true;
                result.and(Err(error.into()))
            }
        }
    }

    /// Gives its first thread the registers and signal mask of `state`.
    fn as_stopped(&self, state: &ThreadState) -> Result<(), CopyError> {
        let Some(stopped) = self.stopped(self.pid) else { return Err(CopyError::Ended(Ended::Lost)) };
        stopped.set_registers(&state.registers)?;
        stopped.set_signal_mask(state.mask)?;
        Ok(())
    }

    fn install_filter(&mut self) -> Result<(), CopyError> {
        let program = filter::program();
        let room = self.room;
        self.on_behalf(|remote| {
            let bytes = filter::bytes(&program);
            let at = room.get() + 64;
            remote.memory().write(Address::new(at), &bytes).map_err(|e| CopyError::Proc("write to a copy", e))?;
            // struct sock_fprog
            let mut head = [0u8; 16];
            head[..2].copy_from_slice(&(program.len() as u16).to_le_bytes());
            head[8..].copy_from_slice(&at.to_le_bytes());
            remote.memory().write(room, &head).map_err(|e| CopyError::Proc("write to a copy", e))?;
            remote.call("prctl", libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0])?;
            let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
            remote.call("seccomp", libc::SYS_seccomp, [mode, 0, room.get(), 0, 0, 0])?;
            Ok(())
        })
    }

    fn add_thread(&mut self, state: &ThreadState, maker: &ThreadState) -> Result<(), CopyError> {
        const FLAGS: i32 = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM;
        let born = make::injected_clone(Stopped::still(self.pid), &maker.registers, self.site, FLAGS as u64)?;
        let tid = born.thread.tid();
        self.originals.insert(tid, state.tid);
        let set = born.thread.set_registers(&state.registers).and_then(|()| {
            born.thread.set_extended_state(&state.extended)?;
            born.thread.set_signal_mask(state.mask)
        });
        self.threads.insert(tid, Doing::Stopped(born.thread));
        set?;
        self.as_stopped(maker)
    }

    /// Lets it run until a thread comes to a breakpoint, or for `most`. Afterwards all its threads are stopped.
    ///
    /// # Errors
    /// [`CopyError::Ended`] with the reason if it runs no further.
    pub fn run(&mut self, most: Duration) -> Result<Came, CopyError> {
        let since = Instant::now();
        let ready: Vec<Pid> = self.stopped_threads();
        for tid in ready {
            self.resume(tid, Mode::Continue, 0)?;
        }
        let mut idle = 0;
        let came = loop {
            match wait_any(false) {
                Some(event) => {
                    idle = 0;
                    if let Some(tid) = self.take(event)? {
                        break Came::Passed(tid);
                    }
                }
                None if since.elapsed() >= most => break Came::Late,
                None => {
                    idle += 1;
                    if idle % ASK_AFTER == 0 && !self.does_anything_run() {
                        return Err(CopyError::Ended(Ended::Waits));
                    }
                    std::thread::sleep(LOOK.min(most.saturating_sub(since.elapsed())));
                }
            }
            if self.threads.values().all(|doing| matches!(doing, Doing::Waits)) {
                return Err(CopyError::Ended(Ended::Waits));
            }
        };
        self.interrupt()?;
        Ok(came)
    }

    fn stopped_threads(&self) -> Vec<Pid> {
        let stopped = |doing: &Doing| matches!(doing, Doing::Stopped(_));
        self.threads.iter().filter(|(_, doing)| stopped(doing)).map(|(tid, _)| *tid).collect()
    }

    fn does_anything_run(&self) -> bool {
        self.threads.iter().any(|(tid, doing)| !matches!(doing, Doing::Waits) && is_runnable(*tid))
    }

    /// Stops all its threads.
    fn interrupt(&mut self) -> Result<(), CopyError> {
        let running = |doing: &Doing| matches!(doing, Doing::Runs | Doing::Opens);
        let asked: Vec<Pid> = self.threads.iter().filter(|(_, doing)| running(doing)).map(|(tid, _)| *tid).collect();
        for tid in &asked {
            // One that has stopped by itself is met below.
            let _ = Running::resumed(*tid).interrupt();
        }
        let since = Instant::now();
        for tid in asked {
            loop {
                match wait_for(tid, false) {
                    Some(Event::Stopped(stopped, Stop::Group(_))) => {
                        crate::restart::repeat_call(&stopped)?;
                        self.threads.insert(tid, Doing::Stopped(stopped));
                        break;
                    }
                    Some(event) => {
                        self.take(event)?;
                        let settled = matches!(self.threads.get(&tid), Some(Doing::Stopped(_) | Doing::Waits) | None);
                        if settled {
                            break;
                        }
                        // The interruption may have ended a call that was made in its name.
                        let _ = Running::resumed(tid).interrupt();
                    }
                    // The first thread of a process is reported when the others have gone.
                    None if read_state(tid).is_none_or(|state| state == 'Z') => {
                        self.threads.remove(&tid);
                        break;
                    }
                    None if since.elapsed() > Duration::from_secs(1) => return Err(CopyError::Ended(Ended::Lost)),
                    None => std::thread::sleep(Duration::from_micros(20)),
                }
            }
        }
        Ok(())
    }

    /// Handles an event; the thread that came to a breakpoint, if it is that.
    fn take(&mut self, event: Event) -> Result<Option<Pid>, CopyError> {
        match event {
            Event::Stopped(stopped, stop) => {
                let tid = stopped.tid();
                if !self.threads.contains_key(&tid) {
                    return Ok(None);
                }
                match stop {
                    Stop::Other => self.at_call(stopped).map(|()| None),
                    Stop::Syscall => self.after_open(stopped).map(|()| None),
                    Stop::Signal(libc::SIGTRAP) => {
                        let is_passing = is_breakpoint(&stopped);
                        self.threads.insert(tid, Doing::Stopped(stopped));
                        if is_passing { Ok(Some(tid)) } else { Err(CopyError::Ended(Ended::Signal(libc::SIGTRAP))) }
                    }
                    Stop::Signal(signal) => Err(CopyError::Ended(Ended::Signal(signal))),
                    // Left over from an interruption.
                    Stop::Group(_) => {
                        self.threads.insert(tid, Doing::Stopped(stopped));
                        self.resume(tid, Mode::Continue, 0).map(|()| None)
                    }
                    Stop::NewTask | Stop::Exec | Stop::Exit => Err(CopyError::Ended(Ended::Call(libc::SYS_clone))),
                }
            }
            Event::Ended(tid, ..) if tid == self.pid => {
                self.is_over = true;
                Err(CopyError::Ended(Ended::Exited))
            }
            Event::Ended(tid, ..) if self.threads.remove(&tid).is_some() => Ok(None),
            // The program, which is kept stopped, was killed.
            Event::Ended(pid, status, cpu_s) => {
                Err(CopyError::Gone(Some(ProcessEnd { pid, status, cpu_s: cpu_s.unwrap_or(0.0) })))
            }
        }
    }

    /// A thread is about to make a call that its filter has stopped.
    fn at_call(&mut self, stopped: Stopped) -> Result<(), CopyError> {
        let tid = stopped.tid();
        let registers = stopped.registers()?;
        let call = registers.orig_rax as i64;
        let own = |descriptor: i32| self.own.contains(&descriptor);
        let answer = answer(self.pid, &self.memory, &registers, &own);
        self.threads.insert(tid, Doing::Stopped(stopped));
        match answer {
            Answer::Make => self.resume(tid, Mode::Continue, 0),
            Answer::Open => {
                self.resume(tid, Mode::Syscall, 0)?;
                self.threads.insert(tid, Doing::Opens);
                Ok(())
            }
            Answer::Pretend(result) => {
                let mut skipped = registers;
                (skipped.orig_rax, skipped.rax) = (u64::MAX, result);
                Stopped::still(tid).set_registers(&skipped)?;
                self.resume(tid, Mode::Continue, 0)
            }
            Answer::Anew(descriptor) => self.open_anew(tid, descriptor),
            Answer::Wait => {
                self.threads.insert(tid, Doing::Waits);
                Ok(())
            }
            Answer::End => Err(CopyError::Ended(Ended::Call(call))),
        }
    }

    /// The end of a call that opens a file.
    fn after_open(&mut self, stopped: Stopped) -> Result<(), CopyError> {
        let tid = stopped.tid();
        let result = stopped.registers()?.rax as i64;
        let is_opening = matches!(self.threads.get(&tid), Some(Doing::Opens));
        self.threads.insert(tid, Doing::Stopped(stopped));
        if is_opening && result >= 0 {
            self.own.insert(result as i32);
        }
        self.resume(tid, Mode::Continue, 0)
    }

    /// Opens the file of `descriptor` anew, so that its offset is the copy's alone, and lets `tid` make its call again.
    fn open_anew(&mut self, tid: Pid, descriptor: i32) -> Result<(), CopyError> {
        let failed = CopyError::Ended(Ended::File(descriptor));
        let Some(&(_, offset)) = self.offsets.iter().find(|(number, _)| *number == descriptor) else {
            return Err(failed);
        };
        // The stopped call is left out, and made again afterwards.
        let thread = Stopped::still(tid);
        let mut registers = thread.registers()?;
        let call = registers.orig_rax;
        let mut skipped = registers;
        skipped.orig_rax = u64::MAX;
        thread.set_registers(&skipped)?;
        thread.resume(Mode::Syscall, None)?;
        let stopped = loop {
            match wait_for(tid, true) {
                Some(Event::Stopped(stopped, Stop::Syscall)) => break stopped,
                Some(Event::Stopped(stopped, Stop::Group(_))) => {
                    stopped.resume(Mode::Syscall, None)?;
                }
                _ => return Err(CopyError::Ended(Ended::Lost)),
            }
        };
        registers.rip -= 2;
        registers.rax = call;
        registers.orig_rax = u64::MAX;
        stopped.set_registers(&registers)?;
        let room = self.room;
        let mut remote = Remote::new(stopped, &self.memory, self.site)?;
        let path = format!("/proc/self/fd/{descriptor}\0");
        let mut open = || -> Result<(), CopyError> {
            remote.memory().write(room, path.as_bytes()).map_err(|e| CopyError::Proc("write to a copy", e))?;
            let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
            let new = remote.call("openat", libc::SYS_openat, [libc::AT_FDCWD as u64, room.get(), flags, 0, 0, 0])?;
            remote.call("lseek", libc::SYS_lseek, [new, offset, libc::SEEK_SET as u64, 0, 0, 0])?;
            remote.call("dup2", libc::SYS_dup2, [new, descriptor as u64, 0, 0, 0, 0])?;
            remote.call("close", libc::SYS_close, [new, 0, 0, 0, 0, 0])?;
            Ok(())
        };
        let opened = open();
        let (stopped, _) = remote.finish()?;
        self.threads.insert(tid, Doing::Stopped(stopped));
        opened.map_err(|_| failed)?;
        self.own.insert(descriptor);
        self.resume(tid, Mode::Continue, 0)
    }

    fn resume(&mut self, tid: Pid, mode: Mode, signal: i32) -> Result<(), CopyError> {
        if let Some(Doing::Stopped(_)) = self.threads.get(&tid) {
            Stopped::still(tid).resume_raw(mode, signal)?;
            self.threads.insert(tid, Doing::Runs);
        }
        Ok(())
    }
}

/// Whether a thread stopped for a breakpoint of rprof's.
fn is_breakpoint(stopped: &Stopped) -> bool {
    /// `TRAP_PERF`
    const BY_PERF: i32 = 6;
    stopped.signal_info().is_ok_and(|info| info.si_code == BY_PERF)
}

/// Kills the copy `pid` and waits until it is gone.
fn end(pid: Pid) {
    // It may be gone.
    let _ = kill(pid, Signal::SIGKILL);
    loop {
        match wait_for(pid, true) {
            Some(Event::Ended(..)) | None => return,
            Some(Event::Stopped(stopped, _)) => drop(stopped.resume(Mode::Continue, None)),
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The kernel reports the end of a process's first thread when the others were waited for.
        let others: Vec<Pid> = self.threads.keys().copied().filter(|tid| *tid != self.pid).collect();
        let _ = kill(self.pid, Signal::SIGKILL);
        for tid in others {
            while let Some(Event::Stopped(stopped, _)) = wait_for(tid, true) {
                let _ = stopped.resume(Mode::Continue, None);
            }
        }
        end(self.pid);
    }
}
