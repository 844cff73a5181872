//! The launches of the program, as CUPTI calls back at their begin and end.
//!
//! One launch runs at a time, from callback to callback; a graph's launch that is counted is waited for. No launch is counted while a stream
//! is being captured: to begin or end a session waits for the context, which would break the capture, whichever thread it belongs to.

use core::ffi::{c_char, c_void};

use crate::cupti::functions;
use crate::launches::Launch;
use crate::log::{self, Step};
use crate::names;
use crate::ranges::{RANGES, Ranges};
use crate::system::Turn;

/// Domains and callbacks of CUPTI.
const DRIVER_API: u32 = 1;
const RESOURCE: u32 = 3;
const CONTEXT_DESTROYED: u32 = 2;
const LAUNCH_KERNEL: [u32; 4] = [307, 442, 477, 478];
const LAUNCH_KERNEL_EX: [u32; 2] = [652, 653];
const LAUNCH_GRAPH: [u32; 2] = [514, 515];
const BEGIN_CAPTURE: [u32; 8] = [495, 496, 539, 540, 720, 721, 846, 847];
const END_CAPTURE: [u32; 2] = [497, 498];
/// Of these functions those that use the thread's own default stream if none is given, and that stream.
const PER_THREAD: [u32; 3] = [442, 478, 653];
const PER_THREAD_STREAM: usize = 2;
const NO_ERROR: u32 = 0;
/// Errors with which a capture is over all the same: it was broken before, or joins no other stream's work.
const BROKEN_CAPTURE: [u32; 2] = [901, 904];

/// Subscribes to launches; `groups` is the path of the file of groups.
pub unsafe fn start(groups: *const c_char) {
    unsafe {
        let read = RANGES.with(|r| r.groups.read(groups)).unwrap_or(false);
        log::failed(Step::Groups, 0, u32::from(!read));
        let (Some(subscribe), Some(enable)) = (functions().subscribe, functions().enable_callback) else {
            return log::failed(Step::NoFunction, 0, 2);
        };
        if functions().range_enable.is_none() || functions().evaluate.is_none() {
            return log::failed(Step::NoFunction, 0, 3);
        }
        let mut subscriber = core::ptr::null_mut();
        let result = subscribe(&mut subscriber, callback, core::ptr::null_mut());
        log::failed(Step::Subscribe, 0, result);
        if result != 0 || !read {
            return;
        }
        RANGES.with(Ranges::begin);
        let watched = [&LAUNCH_KERNEL[..], &LAUNCH_KERNEL_EX, &LAUNCH_GRAPH, &BEGIN_CAPTURE, &END_CAPTURE];
        for id in watched.into_iter().flatten() {
            // Versions before 12 do not know all of them.
            enable(1, subscriber, DRIVER_API, *id);
        }
        enable(1, subscriber, RESOURCE, CONTEXT_DESTROYED);
    }
}

/// Ends a session under way.
pub unsafe fn end() {
    // A thread that never comes back from its launch must not keep the program from ending.
    let (mine, is_free) = unsafe { LAUNCHING.take_soon() };
    RANGES.with(|r| unsafe { r.end(is_free) });
    if mine {
        LAUNCHING.give();
    }
}

/// The parts of `CUpti_CallbackData` that are used.
#[repr(C)]
struct Call {
    site: u32,
    function: *const c_char,
    parameters: *const u8,
    result: *const c_void,
    symbol: *const c_char,
    context: *mut c_void,
}

unsafe extern "C" fn callback(_: *mut c_void, domain: u32, id: u32, data: *const c_void) {
    unsafe {
        if !crate::is_ours() {
            return;
        }
        if domain == RESOURCE {
            let context = data.cast::<*mut c_void>().read();
            alone(|r| r.lose(context));
            return;
        }
        let call = &*data.cast::<Call>();
        let entered = call.site == 0;
        match (id, entered) {
            (id, true) if LAUNCH_GRAPH.contains(&id) => {
                LAUNCHING.take();
                let executable = call.parameters.cast::<usize>().read();
                if RANGES.with(|r| r.graph_launched(call.context, executable)) != Some(true) {
                    LAUNCHING.give();
                }
            }
            (id, false) if LAUNCH_GRAPH.contains(&id) => {
                if LAUNCHING.is_mine() {
                    let failed = result(call) != NO_ERROR;
                    RANGES.with(|r| r.graph_left(failed));
                    LAUNCHING.give();
                }
            }
            (id, true) if BEGIN_CAPTURE.contains(&id) => alone(|r| {
                r.stop();
                r.captures += 1;
            }),
            (id, false) if BEGIN_CAPTURE.contains(&id) && result(call) != NO_ERROR => end_capture(),
            (id, false) if END_CAPTURE.contains(&id) && is_over(result(call)) => end_capture(),
            (id, _) if is_launch(id) => launching(id, call, entered),
            _ => {}
        }
    }
}

fn is_launch(id: u32) -> bool {
    LAUNCH_KERNEL.contains(&id) || LAUNCH_KERNEL_EX.contains(&id)
}

/// Whether a capture is over after its end was asked for with this result: not if another thread asked, or another stream was named.
fn is_over(result: u32) -> bool {
    result == NO_ERROR || BROKEN_CAPTURE.contains(&result)
}

fn end_capture() {
    RANGES.with(|r| r.captures = r.captures.saturating_sub(1));
}

/// The result of a call that is over.
unsafe fn result(call: &Call) -> u32 {
    if call.result.is_null() { NO_ERROR } else { unsafe { *call.result.cast::<u32>() } }
}

unsafe fn launching(id: u32, call: &Call, entered: bool) {
    unsafe {
        if !entered {
            if LAUNCHING.is_mine() {
                let failed = result(call) != NO_ERROR;
                RANGES.with(|r| r.left(failed));
                LAUNCHING.give();
            }
            return;
        }
        let (launch, stream) = launch(id, call);
        if is_captured(stream) {
            RANGES.with(|r| r.captured += 1);
        } else if RANGES.with(|r| r.may_count()).unwrap_or(false) {
            // Until it is over: a launch that is under way when another thread opens a session would be in it.
            LAUNCHING.take();
            RANGES.with(|r| r.launched(call.context, launch));
        }
    }
}

/// The thread that is between the two callbacks of a launch.
static LAUNCHING: Turn = Turn::new();

/// Runs `f` while no launch is under way.
unsafe fn alone(f: impl FnOnce(&mut Ranges)) {
    unsafe {
        let mine = LAUNCHING.take();
        RANGES.with(f);
        if mine {
            LAUNCHING.give();
        }
    }
}

/// The launch of a call and its stream.
unsafe fn launch(id: u32, call: &Call) -> (Launch, *mut c_void) {
    unsafe {
        let shape = if LAUNCH_KERNEL_EX.contains(&id) {
            call.parameters.cast::<*const u8>().read()
        } else {
            call.parameters.add(8)
        };
        let stream = shape.add(if LAUNCH_KERNEL_EX.contains(&id) { 32 } else { 28 });
        // In `cuLaunchKernel` the stream follows at the next multiple of 8 of the parameters.
        let stream = if LAUNCH_KERNEL_EX.contains(&id) { stream } else { call.parameters.add(40) };
        let launch = Launch { name: names::id(call.symbol), shape: shape.cast::<[u32; 6]>().read_unaligned() };
        let stream = stream.cast::<*mut c_void>().read_unaligned();
        let is_default = stream.is_null() && PER_THREAD.contains(&id);
        (launch, if is_default { core::ptr::without_provenance_mut(PER_THREAD_STREAM) } else { stream })
    }
}

unsafe fn is_captured(stream: *mut c_void) -> bool {
    let mut status = 0;
    match functions().capturing {
        Some(ask) => unsafe { ask(stream, &mut status) != 0 || status != 0 },
        None => false,
    }
}
