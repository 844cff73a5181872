//! One counted run: the traced program, its records, and the order in which it is served.

use std::collections::BTreeSet;

use nix::unistd::Pid;

use crate::cpuid::FixedCpuid;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::syscall_table::allow_rseq;
use crate::translator::program::image::ImageRef;
use crate::translator::relayout::hot_code::{HotnessPoll, PlacingSettings};
use crate::translator::sampling::access_buffer::AccessBuffer;
use crate::translator::sampling::bursts::Bursts;
use crate::translator::tracer::handoffs::Handoffs;
use crate::translator::tracer::polling::Polling;
use crate::translator::tracer::program::Program;
use crate::translator::tracer::recorded::Recorded;
use crate::translator::tracer::run_evidence::RunEvidence;
use rprof_tracee::affinity::CpuPin;

/// One run.
pub(crate) struct Run {
    pub first: Pid,
    pub program: Program,
    pub recorded: Recorded,
    pub evidence: RunEvidence,
    /// When to look for hot blocks.
    pub looks: HotnessPoll,
    /// Code caches that workers serve.
    pub handoffs: Handoffs,
    /// When rprof polls, and which mailboxes.
    pub polling: Polling,
    /// The program runs natively and is only visited (`visits`): its text stays executable, and it is never killed.
    pub visits: bool,
    /// Threads that ended in the present visit: their counts are its own.
    pub ended_threads: Vec<EndedThread>,
    /// Processes that were about to call ptrace.
    pub tracers: BTreeSet<Pid>,
    /// What `cpuid` answers in place of the host.
    pub cpuid: Option<FixedCpuid>,
}

/// A thread that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedThread {
    pub tid: Pid,
    pub ordinal: u32,
    /// All its CPU seconds, as far as its last look saw them: at its exit, unless nothing announced that.
    pub cpu_s: f64,
}

impl Run {
    /// A run with the first process `first`; see [`Translator`](crate::Translator) for the rest.
    pub fn new(
        first: Pid,
        sinks: (Option<AccessBuffer>, Option<Bursts>),
        placing: PlacingSettings,
        before_handoff: Option<fn()>,
        visits: bool,
    ) -> Self {
        let pin = CpuPin::new();
        Run {
            first,
            program: Program::default(),
            recorded: Recorded::new(sinks, visits),
            evidence: RunEvidence::default(),
            looks: HotnessPoll::new(placing),
            handoffs: Handoffs::new(&pin, before_handoff),
            polling: Polling::new(pin),
            visits,
            ended_threads: Vec::new(),
            tracers: BTreeSet::new(),
            cpuid: None,
        }
    }

    /// A new code cache and its contexts, as this run needs them.
    pub fn image(&self, mut cache: CodeCache, contexts: Contexts) -> ImageRef {
        cache.has_sink = self.recorded.samples.drain.is_some();
        cache.answers_cpuid = self.cpuid.is_some();
        cache.set_polling(self.polling.is_on);
        cache.prepare_traces(&contexts);
        self.program.prepare_to_judge(&cache);
        if self.visits {
            allow_rseq(&cache.tables);
        }
        ImageRef::new(cache, contexts, self.looks.settings)
    }

    pub fn set_polling(&mut self, polling: bool) {
        let polling = polling && self.polling.is_of_use();
        if self.polling.is_on != polling {
            self.polling.is_on = polling;
            self.program.address_spaces.values().for_each(|p| p.image.cache.borrow().set_polling(polling));
        }
    }
}

/// Kills the process of a thread that rprof traces; it may be gone already.
pub(crate) fn kill_process_of(tid: Pid) {
    let _ = nix::sys::signal::kill(process_of(tid), nix::sys::signal::Signal::SIGKILL);
}

/// The id of the process that a task belongs to.
pub(crate) fn process_of(tid: Pid) -> Pid {
    rprof_tracee::proc_status::read_status(tid).map_or(tid, |s| Pid::from_raw(s.tgid))
}
