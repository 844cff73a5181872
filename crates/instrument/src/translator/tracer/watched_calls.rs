//! Calls that are watched: the recorder to notify of a thread that waits in one, and the rings of threads.

use crate::translator::blas::recorder::BlasRecorder;
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::call_record::{ROOM, SOCKET, Words};
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::layout;
use crate::translator::kernel::marks::Marks;
use crate::translator::mpi::recorder::MpiRecorder;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use rprof_profile::evidence::blas::BlasEvidence;
use rprof_profile::evidence::mpi::MpiEvidence;
use rprof_profile::evidence::windows::SiteCalls;
use rprof_tracee::clock::{TimeStamps, time_stamp};

/// `thread` waits in a call of a marker function, or in one that is recorded.
pub fn note_call(marks: &mut Marks, calls: &mut CallRecorder, address_space: &AddressSpace, thread: &Thread) {
    let at = thread.contexts.borrow().get(thread.context, layout::MARKER);
    let is_marker = address_space.image.cache.borrow().markers.contains_key(&at);
    if is_marker {
        marks.called(address_space, thread);
    } else {
        calls.drain(address_space, &mut address_space.image.cache.borrow_mut(), thread);
    }
}

/// The recorded calls of a run.
#[derive(Debug, Default)]
pub struct CallRecorder {
    mpi: MpiRecorder,
    blas: BlasRecorder,
    clock: Option<TimeStamps>,
    /// Memory for a ring.
    ring: Vec<u8>,
}

impl CallRecorder {
    /// Of a program that is counted in windows, as rank `launched.0` of `launched.1`.
    pub fn of_windows(launched: Option<(u32, u32)>) -> Self {
        CallRecorder { mpi: MpiRecorder::of_windows(launched), ..CallRecorder::default() }
    }

    /// A window has ended; returns its calls of MPI.
    pub fn end_window(&mut self) -> Vec<SiteCalls> {
        self.blas = BlasRecorder::default();
        self.mpi.end_window()
    }

    /// Reads the ring of a thread that waits or is stopped. Call sites that were not seen before are watched from now on.
    pub fn drain(&mut self, address_space: &AddressSpace, cache: &mut CodeCache, thread: &Thread) {
        let contexts = thread.contexts.borrow();
        let start = contexts.base(thread.context).get() + u64::from(layout::CALL_RING);
        let bytes = contexts.get(thread.context, layout::CALL_CURSOR).wrapping_sub(start);
        if bytes == 0 || bytes > u64::from(layout::CALL_RING_SIZE) {
            return;
        }
        let mut ring = std::mem::take(&mut self.ring);
        ring.resize(bytes as usize, 0);
        if contexts.read(thread.context, layout::CALL_RING, &mut ring).is_err() {
            return;
        }
        self.clock.get_or_insert_with(TimeStamps::now);
        self.read(address_space, cache, thread, &contexts, &mut Words::new(&ring));
        self.ring = ring;
        empty(&contexts, thread.context);
    }

    fn read(
        &mut self,
        address_space: &AddressSpace,
        cache: &mut CodeCache,
        thread: &Thread,
        contexts: &Contexts,
        words: &mut Words<'_>,
    ) {
        let mut of_mpi = self.mpi.lend(address_space, cache, thread);
        while let Some(place) = words.place() {
            if place == SOCKET {
                let Some(record) = words.socket() else { break };
                self.mpi.moved((address_space, cache, thread), &mut of_mpi, &record);
                continue;
            }
            let returns_to = if let Some(entry) = cache.watched.mpi.entry(place) {
                let Some(record) = words.call(entry.on_stack()) else { break };
                self.mpi.called((address_space, cache, thread), &mut of_mpi, entry, &record);
                record.returns_to
            } else if let Some(entry) = cache.watched.blas.entry(place) {
                let Some(record) = words.call(entry.behind().len() as u8) else { break };
                self.blas.called((address_space, cache, thread), entry, &record);
                record.returns_to
            } else {
                let Some(record) = words.returned() else { break };
                self.mpi.returned(address_space, &mut of_mpi, &record);
                self.blas.returned(thread, &record);
                continue;
            };
            contexts.set(thread.context, layout::known_return(returns_to), returns_to);
        }
        self.mpi.take_back(address_space, thread, of_mpi);
    }

    /// A thread goes over to another version of the program.
    pub fn turned(&mut self, thread: &Thread) {
        self.blas.turned(thread.ordinal, time_stamp(), thread.version.collects());
    }

    /// A thread got a signal: its handler may leave calls by a jump.
    pub fn got_signal(&mut self, thread: &Thread) {
        self.mpi.got_signal(thread.ordinal);
        self.blas.got_signal(thread.ordinal);
    }

    /// Ends the run. `None`: nothing of the kind was called.
    pub fn finish(self) -> (Option<MpiEvidence>, Option<BlasEvidence>) {
        let Some(clock) = self.clock else { return (None, None) };
        (self.mpi.finish(&clock), self.blas.finish(&clock))
    }
}

/// Empties a ring.
fn empty(contexts: &Contexts, context: u32) {
    contexts.set(context, layout::CALL_CURSOR, contexts.base(context).get() + u64::from(layout::CALL_RING));
    contexts.set(context, layout::CALLS_LEFT, ROOM);
}
