//! A run that repeats another one: it ends before the first call that would have an effect twice.

use std::collections::BTreeSet;

use nix::unistd::Pid;

use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::syscall_table::judge;
use crate::translator::effects::{Caller, Effects, Unrepeatable};
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run::{Run, kill_process_of};
use crate::translator::tracer::run_error::RunError;
use rprof_profile::run::Warning;
use rprof_tracee::thread::{Mode, Registers, Stopped};
use rprof_tracee::wait::{Event, Stop, wait_any};

impl Program {
    /// Has the calls of a new code cache stop that may have such an effect.
    pub fn prepare_to_judge(&self, cache: &CodeCache) {
        if let Some(effects) = &self.effects {
            judge(&cache.tables, effects.judged_calls());
        }
    }

    /// Judges call `number` of a thread, with its arguments in `registers`.
    ///
    /// # Errors
    /// The run may not make it.
    pub fn judge(&mut self, tid: Pid, number: i64, registers: &Registers) -> Result<(), RunError> {
        let Some(mut effects) = self.effects.take() else { return Ok(()) };
        let before = effects.judged_calls().count();
        let judged = self.thread_and_space(tid).map(|(thread, space)| {
            let Registers { rdi, rsi, rdx, r10, r8, r9, .. } = *registers;
            let own: BTreeSet<Pid> = self.threads.iter().flat_map(|(&tid, thread)| [tid, thread.pid]).collect();
            let arguments = [rdi, rsi, rdx, r10, r8, r9];
            effects.judge(&Caller { tid, pid: thread.pid, memory: &space.memory, number, arguments, own: &own })
        });
        // A call that it makes may have others judged from now on.
        let calls: Vec<i64> = effects.judged_calls().collect();
        if calls.len() > before {
            let caches = self.address_spaces.values().map(|space| space.image.cache.borrow());
            caches.for_each(|cache| judge(&cache.tables, calls.iter().copied()));
        }
        self.effects = Some(effects);
        judged?.map_err(RunError::Unrepeatable)
    }

    /// Fails if the run repeats another one: a process of it would go on natively, for this reason.
    pub fn ensure_seen(&self, why: &str) -> Result<(), RunError> {
        match self.effects {
            Some(_) => Err(RunError::Unrepeatable(Unrepeatable::Unseen(why.to_owned()))),
            None => Ok(()),
        }
    }
}

impl Run {
    /// Ends the program before what it may not repeat. Its threads are still to be seen as they end.
    pub fn end_before(&mut self, reason: Unrepeatable) {
        self.evidence.ended_before = Some(reason);
        let groups: Vec<Pid> = self.program.threads.values().map(|thread| thread.pid).collect();
        groups.into_iter().chain([self.first]).for_each(kill_process_of);
        self.program.orphans.keys().copied().for_each(kill_process_of);
    }

    /// A thread stopped after the program was to end: it ends now.
    pub fn end_stopped(&mut self, stopped: Stopped, stop: Stop) {
        if stop == Stop::Exit {
            // An error is its end.
            let _ = self.stopped(stopped, stop);
            return;
        }
        kill_process_of(stopped.tid());
        let _ = stopped.resume(Mode::Continue, None);
    }

    /// Ends the processes that outlive the first one: the leftovers of a repeated run are of no use.
    pub fn end_rest(&mut self) {
        let groups: Vec<Pid> = self.program.threads.values().map(|thread| thread.pid).collect();
        groups.into_iter().for_each(kill_process_of);
        while !self.program.threads.is_empty() {
            match self.program.backlog.pop_front().or_else(|| wait_any(true)) {
                Some(Event::Ended(tid, _, _)) => self.ended(tid),
                Some(Event::Stopped(stopped, stop)) => self.end_stopped(stopped, stop),
                None => break,
            }
        }
    }

    /// Puts files back as the first run left them, and names those for which that failed. Whether there were any.
    pub fn take_effects_back(&mut self) -> bool {
        let any = self.program.effects.as_ref().is_some_and(Effects::changed_files);
        let failed = self.program.effects.take().map(|effects| effects.take_back()).unwrap_or_default();
        self.evidence.warnings.extend(failed.into_iter().map(|(path, error)| {
            Warning::new(
                "file-not-put-back",
                format!("{} could not be put back as the first run left it: {error}", path.display()),
                "the file is as the second run left it",
                "run the program once more without rprof; --once runs it once",
            )
        }));
        any
    }
}
