//! Threads that serve the mailboxes of a code cache while the tracer serves those of another (see
//! [`handoff`](crate::translator::tracer::handoff)). They make no ptrace request, and sleep while they have nothing
//! to serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::Pid;

use crate::translator::code_cache::contexts::Request;
use crate::translator::code_cache::stubs::{DRAIN, MARK};
use crate::translator::code_cache::version::Version;
use crate::translator::program::address_space::{AddressSpace, Destination};
use crate::translator::program::excursions::Excursion;

/// How long a worker polls mailboxes without a request.
const QUIET: Duration = Duration::from_micros(300);

/// The mailbox of a thread.
#[derive(Debug)]
pub struct Mailbox {
    /// The thread.
    pub tid: Pid,
    /// Its address space.
    pub address_space: Pid,
    /// Its context.
    pub context: u32,
    /// The version that it executes.
    pub version: Version,
}

/// Everything needed to serve the threads of one code cache. Only its owner serves them.
#[derive(Debug)]
pub struct Batch {
    /// The processes that share it, by their names.
    pub address_spaces: Vec<(Pid, AddressSpace)>,
    /// Their threads.
    pub mailboxes: Vec<Mailbox>,
    /// Threads that left the cache meanwhile: for code that is not translated, or for an address without code.
    pub left: Vec<(Pid, Option<Excursion>)>,
}

/// The result of a look at the mailboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// A thread was answered.
    Answered,
    /// No thread asks.
    Nothing,
    /// A thread has a request that only the tracer can serve.
    Beyond,
}

impl Batch {
    fn set_polling(&self, polling: bool) {
        if let Some((_, address_space)) = self.address_spaces.first() {
            address_space.image.cache.borrow().set_polling(polling);
        }
    }

    fn answer_all(&mut self) -> Round {
        let mut round = Round::Nothing;
        for mailbox in &self.mailboxes {
            let member = self.address_spaces.iter_mut().find(|(id, _)| *id == mailbox.address_space);
            let Some((_, address_space)) = member else { continue };
            let contexts = address_space.image.contexts.clone();
            let contexts = contexts.borrow();
            let Some(Request { site, target }) = contexts.request(mailbox.context) else { continue };
            if site == DRAIN || site == MARK {
                return Round::Beyond;
            }
            let Ok(destination) = address_space.answer(mailbox.version, site, target) else {
                return Round::Beyond;
            };
            if let Destination::Native(at) = destination {
                let excursion = address_space.untranslated(at).map(|why| Excursion::begin(mailbox.tid, why));
                self.left.push((mailbox.tid, excursion));
            }
            contexts.respond(mailbox.context, destination.get());
            round = Round::Answered;
        }
        round
    }

    /// Serves until no thread has asked for a while, until a thread has a request that only the tracer can serve, or until the
    /// batch is recalled. A thread that asks afterwards finds that polling has ended, and traps.
    fn serve(&mut self, recalled: &AtomicBool) {
        self.set_polling(true);
        let mut active = Instant::now();
        while !recalled.load(Ordering::Acquire) {
            match self.answer_all() {
                Round::Answered => active = Instant::now(),
                Round::Nothing if self.address_spaces.iter_mut().any(|(_, p)| p.translate_ahead()) => {
                    active = Instant::now()
                }
                Round::Nothing => {}
                Round::Beyond => return self.set_polling(false),
            }
            if active.elapsed() > QUIET {
                self.set_polling(false);
                // Answers threads that asked before they could see that polling ended.
                fence(Ordering::SeqCst);
                if self.answer_all() != Round::Answered {
                    return;
                }
                self.set_polling(true);
                active = Instant::now();
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }
}

struct Job {
    batch: Batch,
    recalled: Arc<AtomicBool>,
    back: Sender<Batch>,
}

/// A batch that a worker has.
#[derive(Debug)]
pub struct Handoff {
    /// The processes in it.
    pub members: Vec<Pid>,
    /// When the tracer recalls it.
    pub until: Instant,
    recalled: Arc<AtomicBool>,
    back: Receiver<Batch>,
}

/// A worker failed, and its batch is lost.
#[derive(Debug)]
pub struct Lost;

impl Handoff {
    /// Recalls it; the worker returns it after its present piece of work.
    pub fn recall(&self) {
        self.recalled.store(true, Ordering::Release);
    }

    /// Whether it was recalled.
    pub fn is_recalled(&self) -> bool {
        self.recalled.load(Ordering::Relaxed)
    }

    /// The batch, if the worker has given it back.
    pub fn returned(&self) -> Result<Option<Batch>, Lost> {
        match self.back.try_recv() {
            Ok(batch) => Ok(Some(batch)),
            Err(crossbeam_channel::TryRecvError::Empty) => Ok(None),
            Err(crossbeam_channel::TryRecvError::Disconnected) => Err(Lost),
        }
    }

    /// Waits for the batch.
    pub fn wait(self) -> Result<Batch, Lost> {
        self.recall();
        self.back.recv().map_err(|_| Lost)
    }
}

/// The worker threads. They begin when first needed, and end when this is dropped and their work is done.
#[derive(Debug)]
pub struct Workers {
    most: usize,
    running: usize,
    jobs: Sender<Job>,
    taken: Receiver<Job>,
    before: Option<fn()>,
}

impl Workers {
    /// `most` threads at the same time; each calls `before` when it takes up a batch.
    pub fn new(most: usize, before: Option<fn()>) -> Self {
        let (jobs, taken) = unbounded();
        Workers { most, running: 0, jobs, taken, before }
    }

    /// The number of batches that can be served at the same time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Gives `batch`, to be recalled at `until`, to a worker while `busy` others have one; returns it if there is no thread for it.
    pub fn serve(&mut self, batch: Batch, until: Instant, busy: usize) -> Result<Handoff, Batch> {
        if self.running <= busy && !self.begin_another() {
            return Err(batch);
        }
        let (back, returned) = bounded(1);
        let recalled = Arc::new(AtomicBool::new(false));
        let members = batch.address_spaces.iter().map(|&(id, _)| id).collect();
        let job = Job { batch, recalled: recalled.clone(), back };
        self.jobs.send(job).map_err(|refused| refused.0.batch)?;
        Ok(Handoff { members, until, recalled, back: returned })
    }

    fn begin_another(&mut self) -> bool {
        let (taken, before) = (self.taken.clone(), self.before);
        let body = move || {
            for Job { mut batch, recalled, back } in taken {
                if let Some(before) = before {
                    before();
                }
                batch.serve(&recalled);
                // The tracer no longer receives it if the run has failed.
                let _ = back.send(batch);
            }
        };
        // Workers must not take signals meant for other threads.
        let Ok(before) = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return false };
        let begun =
            self.running < self.most && std::thread::Builder::new().name("rprof-translate".into()).spawn(body).is_ok();
        self.running += usize::from(begun);
        // Restores the previous mask.
        let _ = before.thread_set_mask();
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        Batch { address_spaces: Vec::new(), mailboxes: Vec::new(), left: Vec::new() }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[test]
    fn a_lot_comes_back_when_nobody_asks() {
        let mut workers = Workers::new(1, None);
        let handoff = workers.serve(batch(), soon(), 0).ok().unwrap();
        while handoff.returned().unwrap().is_none() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn there_are_no_more_workers_than_wanted() {
        let mut workers = Workers::new(2, None);
        let handoffs = [0, 1].map(|busy| workers.serve(batch(), soon(), busy).ok().unwrap());
        assert!(workers.serve(batch(), soon(), 2).is_err());
        assert!(handoffs.map(Handoff::wait).iter().all(Result::is_ok));
        assert!(workers.serve(batch(), soon(), 0).is_ok());
    }

    #[test]
    fn what_a_worker_that_fails_had_is_lost() {
        let mut workers = Workers::new(1, Some(|| panic!("a test of failure")));
        let handoff = workers.serve(batch(), soon(), 0).ok().unwrap();
        assert!(handoff.wait().is_err());
    }
}
