//! The program with all its threads stopped, for a millisecond or less: the moment that copies are made of.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;
use rprof_tracee::proc_status::threads_of;
use rprof_tracee::restarts::{keep_call, repeat_ended_call, restart_call};
use rprof_tracee::thread::{Registers, Running, Stopped, TraceError};
use rprof_tracee::wait::{Event, Stop, wait_for};

use crate::error::{CopyError, ProcessEnd};

/// A thread that does not stop in this time is in the kernel for long.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes of the largest XSAVE area.
const LARGEST_STATE: usize = 16 << 10;

/// What a thread was at the moment of the stop.
#[derive(Debug, Clone)]
pub struct ThreadState {
    /// Its id in the program.
    pub tid: Pid,
    /// Registers with which it goes on in a copy: a call that the stop interrupted is made again.
    pub registers: Registers,
    /// The XSAVE area.
    pub extended: Vec<u8>,
    /// The signals that it blocks.
    pub mask: u64,
    /// It was in a system call.
    pub in_call: bool,
    /// It waits in a call with a time limit that cannot be made again: its copy waits for good.
    pub waits: bool,
}

/// A stopped program. Dropped, it goes on as if nothing had been.
#[derive(Debug)]
pub struct Halted {
    /// The process.
    pub pid: Pid,
    /// Its threads and the signals that they stopped for, which are delivered when they go on.
    threads: Vec<(Stopped, i32)>,
    /// Their states, in the same order.
    pub states: Vec<ThreadState>,
    /// Threads that were asked to stop, and have not done so in time.
    late: Vec<Pid>,
    /// Its memory.
    pub memory: Memory,
    since: Instant,
}

impl Halted {
    /// Stops all threads of `pid`.
    ///
    /// # Errors
    /// It may not be traced, has ended, or is in a state that no copy is made of.
    pub fn stop(pid: Pid) -> Result<Halted, CopyError> {
        let memory = Memory::open(pid).map_err(|e| CopyError::Proc("open the program's memory", e))?;
        let since = Instant::now();
        let mut halted = Halted { pid, threads: Vec::new(), states: Vec::new(), late: Vec::new(), memory, since };
        halted.take_threads()?;
        for (thread, _) in &halted.threads {
            halted.states.push(state_of(thread, &halted.memory)?);
        }
        Ok(halted)
    }

    fn take_threads(&mut self) -> Result<(), CopyError> {
        let mut known: BTreeSet<Pid> = BTreeSet::new();
        loop {
            let new: Vec<Pid> = threads_of(self.pid).into_iter().filter(|tid| known.insert(*tid)).collect();
            if new.is_empty() {
                break;
            }
            let mut asked = Vec::new();
            let mut failure = None;
            for tid in new {
                match Running::visit(tid).and_then(|running| running.interrupt()) {
                    Ok(()) => asked.push(tid),
                    // It has ended meanwhile.
                    Err(error) if error.is_gone() => {}
                    Err(error) => failure = Some(CopyError::Trace(error)),
                }
            }
            for tid in asked {
                match self.await_stop(tid) {
                    Ok(()) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        if self.threads.is_empty() { Err(CopyError::Gone(None)) } else { Ok(()) }
    }

    fn await_stop(&mut self, tid: Pid) -> Result<(), CopyError> {
        let since = Instant::now();
        loop {
            match wait_for(tid, false) {
                Some(Event::Stopped(thread, Stop::Signal(signal))) => {
                    self.threads.push((thread, signal));
                    return Err(CopyError::Moment("a signal arrived"));
                }
                Some(Event::Stopped(thread, Stop::Group(libc::SIGTRAP))) => {
                    self.threads.push((thread, 0));
                    return Ok(());
                }
                Some(Event::Stopped(thread, _)) => {
                    self.threads.push((thread, 0));
                    return Err(CopyError::Moment("job control has stopped it"));
                }
                Some(Event::Ended(tid, status, cpu_s)) if tid == self.pid => {
                    let end = ProcessEnd { pid: tid, status, cpu_s: cpu_s.unwrap_or(0.0) };
                    return Err(CopyError::Gone(Some(end)));
                }
                Some(Event::Ended(..)) => return Ok(()),
                None if since.elapsed() > PATIENCE => {
                    self.late.push(tid);
                    return Err(CopyError::Moment("a thread is in the kernel for long"));
                }
                None if since.elapsed() > PATIENCE / 1000 => std::thread::sleep(Duration::from_micros(30)),
                None => std::hint::spin_loop(),
            }
        }
    }

    /// How long it has been stopped.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// The thread that makes the copies: one that was not in a system call, if there is one. Its place in `states`.
    pub fn maker(&self) -> usize {
        self.states.iter().position(|state| !state.in_call).unwrap_or(0)
    }

    /// The thread at place `at`.
    pub fn thread(&self, at: usize) -> &Stopped {
        &self.threads[at].0
    }

    /// Offsets of its open regular files, by descriptor.
    pub fn file_offsets(&self) -> Vec<(i32, u64)> {
        const MOST: usize = 256;
        let folder = fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten().flatten();
        let numbers = folder.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let regular = numbers.take(MOST).filter(|number| {
            fs::metadata(format!("/proc/{}/fd/{number}", self.pid)).is_ok_and(|about| about.is_file())
        });
        regular.filter_map(|number| Some((number, offset_of(self.pid, number)?))).collect()
    }

    /// Lets it go on; returns how long it stood still.
    pub fn release(self) -> Duration {
        let since = self.since;
        drop(self);
        since.elapsed()
    }
}

fn offset_of(pid: Pid, descriptor: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}

fn state_of(thread: &Stopped, memory: &Memory) -> Result<ThreadState, TraceError> {
    let mut registers = thread.registers()?;
    let in_call = (registers.orig_rax as i64) >= 0;
    let mut waits = false;
    if in_call {
        /// `restart_syscall` belongs to the thread that was interrupted: the copy's makes the call itself again.
        const RESTART_BLOCK: i64 = -516;
        if registers.rax as i64 == RESTART_BLOCK {
            registers.rip -= 2;
            let call = Some(registers.orig_rax).filter(|call| *call != libc::SYS_restart_syscall as u64);
            match call.or_else(|| call_before(memory, registers.rip)) {
                Some(call) => registers.rax = call,
                None => waits = true,
            }
        } else {
            restart_call(&mut registers);
            repeat_ended_call(&mut registers);
        }
    }
    registers.orig_rax = u64::MAX;
    let mut extended = vec![0; LARGEST_STATE];
    let length = thread.extended_state(&mut extended)?;
    extended.truncate(length);
    Ok(ThreadState { tid: thread.tid(), registers, extended, mask: thread.signal_mask()?, in_call, waits })
}

/// The number of the call at `at`, where the instruction before it loads that: `mov eax, N; syscall`. A call that was interrupted twice is
/// `restart_syscall` in the registers.
fn call_before(memory: &Memory, at: u64) -> Option<u64> {
    let mut code = [0u8; 5];
    memory.read(Address::new(at.checked_sub(5)?), &mut code).ok()?;
    (code[0] == 0xb8).then(|| u64::from(u32::from_le_bytes([code[1], code[2], code[3], code[4]])))
}

impl Drop for Halted {
    fn drop(&mut self) {
        for (thread, signal) in self.threads.drain(..) {
            if signal == 0 {
                keep_call(&thread);
            }
            // One that is gone needs no release.
            let _ = thread.detach(signal);
        }
        // The others run on meanwhile.
        for tid in self.late.drain(..) {
            if let Some(Event::Stopped(thread, stop)) = wait_for(tid, true) {
                keep_call(&thread);
                let _ = thread.detach(if let Stop::Signal(signal) = stop { signal } else { 0 });
            }
        }
    }
}
