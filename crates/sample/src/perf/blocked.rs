//! Looks at blocked threads, which take no samples: from time to time it reads their system calls from `/proc`.
//!
//! Each look represents the time since the previous one. The distances are random, so that they follow no program's rhythm.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use nix::unistd::Pid;

use crate::context::Context;
use crate::recorder::{Observation, Recorder};
use crate::thread_files::BlockedAt;

/// The mean distance of two looks.
const EVERY_NS: u64 = 20_000_000;
/// A look at this many threads at most costs rprof 1 to 2 % of a CPU; more threads take turns.
const AT_ONCE: usize = 8;
/// Stack bytes that are read of each.
const STACK_BYTES: u32 = 4096;

/// Who is looked at when.
pub(super) struct Blocked {
    files: HashMap<u32, File>,
    context: Context,
    last_ns: u64,
    next_ns: u64,
    turn: usize,
    random: u64,
    /// Why we may not look, if that is so.
    refusal: Option<io::Error>,
    seen: bool,
}

impl Blocked {
    /// From `now_ns` on.
    pub fn new(now_ns: u64) -> Blocked {
        Blocked {
            files: HashMap::new(),
            context: Context::new(STACK_BYTES),
            last_ns: now_ns,
            next_ns: now_ns + EVERY_NS,
            turn: 0,
            random: now_ns | 1,
            refusal: None,
            seen: false,
        }
    }

    /// Milliseconds until the next look.
    pub fn due_in_ms(&self, now_ns: u64) -> i32 {
        (self.next_ns.saturating_sub(now_ns) / 1_000_000 + 1) as i32
    }

    /// Looks, if it is time.
    pub fn look(&mut self, now_ns: u64, recorder: &mut Recorder) {
        if now_ns < self.next_ns {
            return;
        }
        let since_s = now_ns.saturating_sub(self.last_ns) as f64 * 1e-9;
        self.last_ns = now_ns;
        self.next_ns = now_ns + EVERY_NS / 2 + self.random() % EVERY_NS;
        let infos = recorder.threads.infos();
        let mut threads: Vec<(u32, u32, u32)> =
            recorder.threads.alive().map(|(tid, index)| (index, infos[index as usize].pid, tid)).collect();
        threads.sort_unstable();
        self.files.retain(|tid, _| threads.iter().any(|(.., known)| known == tid));
        let looked = threads.len().min(AT_ONCE);
        let period = since_s * threads.len() as f64 / looked.max(1) as f64;
        for i in 0..looked {
            let (_, pid, tid) = threads[(self.turn + i) % threads.len()];
            self.look_at(now_ns, (pid, tid), period, recorder);
        }
        self.turn = (self.turn + looked) % threads.len().max(1);
    }

    /// Why nothing was seen, if rprof was not allowed to look.
    pub fn missing(&self) -> Option<String> {
        let refusal = self.refusal.as_ref().filter(|_| !self.seen)?;
        Some(format!("/proc/PID/task/TID/syscall cannot be read here ({refusal})"))
    }

    fn look_at(&mut self, now_ns: u64, (pid, tid): (u32, u32), period: f64, recorder: &mut Recorder) {
        if !self.files.contains_key(&tid) {
            let file = match File::open(format!("/proc/{pid}/task/{tid}/syscall")) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound && std::fs::metadata(format!("/proc/{tid}")).is_err() => {
                    return; // it has ended
                }
                Err(e) => {
                    self.refusal.get_or_insert(e);
                    return;
                }
            };
            if self.files.len() >= 4 * AT_ONCE {
                self.files.clear();
            }
            self.files.insert(tid, file);
        }
        let blocked = match BlockedAt::read(self.files.get(&tid)) {
            Ok(blocked) => blocked,
            // It has ended.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return,
            Err(e) => {
                self.refusal.get_or_insert(e);
                return;
            }
        };
        self.seen = true;
        let Some(blocked) = blocked else { return };
        self.context.take_at(Pid::from_raw(tid as i32), blocked.registers);
        recorder.sample(Observation {
            time_ns: now_ns,
            pid,
            tid,
            period,
            kernel: true,
            off_cpu: true,
            blocked: Some(blocked.in_call(pid)),
            cpu: None,
            ip: Some(blocked.registers.ip()),
            registers: Some(blocked.registers),
            stack: self.context.stack(),
            chain: &[],
        });
    }

    /// Marsaglia's xorshift.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
