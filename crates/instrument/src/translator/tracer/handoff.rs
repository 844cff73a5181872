//! Several processes at the same time: when two code caches get requests at once, the tracer serves one of them and hands the
//! others off, with all that their mailboxes need, to [`workers`](crate::translator::tracer::workers).
//!
//! ```text
//!          somebody asks, and so does another code cache ─▶ lent ─▶ a worker: mailboxes, ahead, placing
//!   home ◀─ quiet, or only the tracer can do it ──────────────────────┤
//!   home ◀─ recalled ◀─ one of its threads stopped: its event is put off until then, those of others are not
//! ```
//!
//! Only the owner of a code cache touches it. The tracer makes all ptrace requests, so it does everything that a stop needs, with
//! the code cache at home. As long as only one code cache gets requests, the tracer hands off nothing.

use std::sync::Arc;
use std::time::Instant;

use nix::unistd::Pid;

use crate::CountError;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use crate::translator::tracer::run::Run;
use crate::translator::tracer::workers::{Batch, Handoff, Lost, Mailbox};
use rprof_tracee::wait::{Event, Stop};

impl Run {
    /// Hands off the code cache of address space `id`, if it is at home.
    pub(crate) fn hand_off(&mut self, id: Pid) {
        let Some(address_space) = self.program.address_spaces.get(&id) else { return };
        let (cache, until) = (Arc::as_ptr(&address_space.image.cache), address_space.image.placing.borrow().due());
        let shares = |_: &Pid, other: &mut AddressSpace| Arc::as_ptr(&other.image.cache) == cache;
        let mut address_spaces: Vec<(Pid, AddressSpace)> = self.program.address_spaces.extract_if(shares).collect();
        let is_member = |id: Pid| address_spaces.iter().any(|(member, _)| *member == id);
        let threads = self.program.threads.iter().filter(|(_, t)| is_member(t.address_space) && !t.is_stalled());
        let mailbox = |(&tid, t): (&Pid, &Thread)| Mailbox {
            tid,
            address_space: t.address_space,
            context: t.context,
            version: t.version,
        };
        let mailboxes = threads.map(mailbox).collect();
        address_spaces.iter_mut().for_each(|(_, p)| p.locate());
        let batch = Batch { address_spaces, mailboxes, left: Vec::new() };
        match self.handoffs.workers.serve(batch, until, self.handoffs.out.len()) {
            Ok(handoff) => self.handoffs.out.push(handoff),
            Err(batch) => self.take_home(batch),
        }
    }

    /// Takes a returned batch home.
    fn take_home(&mut self, batch: Batch) {
        for (id, address_space) in batch.address_spaces {
            address_space.image.cache.borrow().set_polling(self.polling.is_on);
            self.program.address_spaces.insert(id, address_space);
        }
        for (tid, excursion) in batch.left {
            if let Some(excursion) = &excursion {
                self.evidence.uncounted.note(excursion.why);
            }
            if let Ok(thread) = self.program.thread_mut(tid) {
                thread.native = excursion;
            }
            self.recorded.end_burst(&self.program, tid);
        }
    }

    fn close_loan(&mut self, batch: Result<Batch, Lost>) {
        match batch {
            Ok(batch) => self.take_home(batch),
            Err(Lost) => self.handoffs.lost = true,
        }
    }

    /// Takes home the batches that workers have returned, and recalls those with a look for hot blocks due.
    pub(crate) fn look_after_loans(&mut self) -> Result<(), CountError> {
        let mut i = 0;
        while let Some(handoff) = self.handoffs.out.get(i) {
            if let Some(batch) = handoff.returned().transpose() {
                self.handoffs.out.swap_remove(i);
                self.close_loan(batch);
                continue;
            }
            if Instant::now() >= handoff.until {
                handoff.recall();
            }
            i += 1;
        }
        if self.handoffs.lost {
            return Err(CountError::Unsupported("a thread that translates it failed".into()));
        }
        Ok(())
    }

    /// Waits until address space `id` is at home.
    pub(crate) fn bring_home(&mut self, id: Pid) {
        if let Some(i) = self.handoffs.with(id) {
            let batch = self.handoffs.out.swap_remove(i).wait();
            self.close_loan(batch);
        }
    }

    /// Waits until everything is at home.
    pub(crate) fn take_all_back(&mut self) {
        self.handoffs.out.iter().for_each(Handoff::recall);
        for handoff in std::mem::take(&mut self.handoffs.out) {
            self.close_loan(handoff.wait());
        }
    }

    /// Returns `event`, unless a worker has the code cache that it needs: then recalls that and defers the event.
    pub(crate) fn unless_lent(&mut self, event: Event) -> Option<Event> {
        if self.handoffs.out.is_empty() || !self.is_lent(&event) {
            return Some(event);
        }
        self.handoffs.put_off.push_back(event);
        None
    }

    /// The first deferred event with its code cache at home again.
    pub(crate) fn no_longer_put_off(&mut self) -> Option<Event> {
        let put_off = std::mem::take(&mut self.handoffs.put_off);
        let first = put_off.iter().position(|event| !self.is_lent(event));
        self.handoffs.put_off = put_off;
        self.handoffs.put_off.remove(first?)
    }

    /// Whether a worker has a code cache that handling `event` needs; recalls it if so.
    fn is_lent(&self, event: &Event) -> bool {
        let (tid, executes) = match event {
            Event::Ended(tid, ..) => (*tid, false),
            Event::Stopped(stopped, stop) => (stopped.tid(), *stop == Stop::Exec),
        };
        let of_group = self.program.threads.values().filter(|t| executes && t.pid == tid);
        let own = self.program.threads.get(&tid);
        let lent: Vec<usize> = of_group.chain(own).filter_map(|t| self.handoffs.with(t.address_space)).collect();
        lent.iter().for_each(|&i| self.handoffs.out[i].recall());
        !lent.is_empty()
    }
}
