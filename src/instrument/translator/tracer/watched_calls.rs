//! A thread waits at the start of a function whose calls are watched, or where one returned: whose turn it is.

use crate::instrument::translator::code_cache::layout;
use crate::instrument::translator::kernel::marks::Marks;
use crate::instrument::translator::mpi::recorder::MpiRecorder;
use crate::instrument::translator::program::process::Process;
use crate::instrument::translator::program::thread::Thread;

/// `thread` waits in a call of a marker function, or of MPI.
pub fn note_call(marks: &mut Marks, mpi: &mut MpiRecorder, process: &Process, thread: &Thread) {
    let at = thread.regions.borrow().get(thread.region, layout::MARKER);
    let is_marker = process.image.space.borrow().markers.contains_key(&at);
    if is_marker {
        marks.called(process, thread);
    } else {
        mpi.drain(process, &mut process.image.space.borrow_mut(), thread);
    }
}
