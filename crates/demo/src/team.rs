//! Runs one kernel with the threads that it asks for.

use std::thread;
use std::time::{Duration, Instant};

use rprof_tracee::clock::own_cpu_time;

use super::error::DemoError;
use super::host::{Host, pin};
use super::kernels::{Code, Data, Kernel, Level, Team};
use super::meeting::{Meeting, StartingGate};
use super::memory::Arguments;
use super::variant::Variant;

/// An uneven team meets this often.
const ROUNDS: u64 = 16;

/// A kernel that can run on this host.
#[derive(Debug, Clone, Copy)]
pub struct Runnable<'a> {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// The code that this CPU runs.
    pub code: &'static Code,
    host: &'a Host,
    variant: Variant,
}

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// From the first thread's start to the last one's end, without preparation.
    pub elapsed: Duration,
    /// CPU time of the busiest thread in it: equal to `elapsed` on a host with nothing else to do.
    pub busy: Duration,
    /// The return values of the code, over all threads.
    pub checksum: u64,
}

impl<'a> Runnable<'a> {
    /// Gives the reason if the kernel cannot run.
    pub fn new(kernel: &'static Kernel, host: &'a Host, variant: Variant) -> Result<Self, DemoError> {
        let unavailable = |reason| DemoError::Unavailable { kernel: kernel.name, reason };
        let code = kernel.code(variant).ok_or_else(|| unavailable("the CPU lacks the instructions"))?;
        if host.cpus.len() < 2 && matches!(kernel.team, Team::OneFree | Team::Uneven | Team::UnevenSpin) {
            return Err(unavailable("it needs two CPUs"));
        }
        if host.l3.is_none() && kernel.data.level() == Some(Level::L3) {
            return Err(unavailable("there is no L3 cache"));
        }
        Ok(Runnable { kernel, code, host, variant: code.variant })
    }

    /// Runs it; each thread makes `passes` passes (an uneven team: the first one does).
    pub fn run(&self, passes: u64) -> Result<Outcome, DemoError> {
        let threads = match self.kernel.team {
            Team::One | Team::OneFree => 1,
            Team::All | Team::Uneven | Team::UnevenSpin => self.host.cpus.len(),
        };
        let start = StartingGate::new(threads);
        let meet = Meeting::new(threads, self.kernel.team == Team::UnevenSpin);
        let parts = thread::scope(|scope| {
            let handles = (0..threads)
                .map(|index| {
                    let (start, meet) = (&start, &meet);
                    thread::Builder::new()
                        .name(self.kernel.name.to_owned())
                        .spawn_scoped(scope, move || self.member(index, threads, passes, start, meet))
                        .map_err(|source| {
                            start.abandon();
                            DemoError::Thread(source)
                        })
                })
                .collect::<Vec<_>>();
            handles
                .into_iter()
                .map(|handle| handle?.join().unwrap_or(Err(DemoError::Team(self.kernel.name))))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let began = parts.iter().map(|p| p.began).min();
        let ended = parts.iter().map(|p| p.ended).max();
        let elapsed = ended.zip(began).map_or(Duration::ZERO, |(e, b)| e - b);
        let busy = parts.iter().map(|p| p.busy).max().unwrap_or_default();
        Ok(Outcome { elapsed, busy, checksum: parts.iter().fold(0, |sum, p| sum.rotate_left(1) ^ p.checksum) })
    }

    fn member(
        &self,
        index: usize,
        threads: usize,
        passes: u64,
        start: &StartingGate,
        meet: &Meeting,
    ) -> Result<Part, DemoError> {
        let prepared = self.prepare(index, threads);
        if prepared.is_err() {
            start.abandon();
        }
        let all_ready = start.pass();
        let (arguments, iterations) = prepared?;
        if !all_ready {
            return Err(DemoError::Team(self.kernel.name));
        }
        let [a, b, c] = arguments.pointers;
        // SAFETY: prepare() made the arrays that this kernel's code walks in `iterations` steps; the code matches the
        // CPU (Kernel::code), follows the C calling convention and leaves all memory but its arrays alone.
        let call = |passes| unsafe { (self.code.entry)(a, b, c, iterations, passes) };
        let (began, busy_before) = (Instant::now(), own_cpu_time());
        let checksum = match self.kernel.team {
            Team::One | Team::OneFree | Team::All => call(passes),
            Team::Uneven | Team::UnevenSpin => {
                let share = (passes / ROUNDS).max(3);
                (0..ROUNDS).fold(0, |_, _| {
                    let result = call(if index == 0 { share } else { share / 3 });
                    meet.wait();
                    result
                })
            }
        };
        Ok(Part { began, ended: Instant::now(), busy: own_cpu_time() - busy_before, checksum })
    }

    /// Pins the calling thread and makes its data; yields the iterations of a pass.
    fn prepare(&self, index: usize, threads: usize) -> Result<(Arguments, u64), DemoError> {
        if self.kernel.team != Team::OneFree {
            pin(&self.host.cpus[index..=index])?;
        }
        let whole = |level| self.host.working_set(level) / if level == Level::Dram { threads } else { 1 };
        Ok(match self.kernel.data {
            Data::Registers { iterations } => (Arguments::none(), iterations),
            Data::Arrays { level, arrays, vectors } => {
                let step = vectors * self.variant.vector_bytes();
                let iterations = (whole(level) / arrays / step).max(1);
                (Arguments::arrays(arrays, iterations * step)?, iterations as u64)
            }
            Data::Bytes { level, bytes } => {
                let iterations = (whole(level) / bytes).max(1);
                (Arguments::arrays(1, iterations * bytes)?, iterations as u64)
            }
            Data::Ring { level: Level::L2, iterations } => (Arguments::ring(whole(Level::L2) / 2)?, iterations),
            Data::Ring { level, iterations } => (Arguments::ring(whole(level))?, iterations),
            Data::Table { level, iterations } => (Arguments::table(whole(level))?, iterations),
        })
    }
}

impl Data {
    /// The level that holds the data, if there is any.
    pub fn level(self) -> Option<Level> {
        match self {
            Data::Registers { .. } => None,
            Data::Arrays { level, .. }
            | Data::Bytes { level, .. }
            | Data::Ring { level, .. }
            | Data::Table { level, .. } => Some(level),
        }
    }
}

struct Part {
    began: Instant,
    ended: Instant,
    busy: Duration,
    checksum: u64,
}
