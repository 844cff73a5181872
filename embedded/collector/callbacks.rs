//! The launches of the program, as CUPTI calls back at their begin and end.
//!
//! One launch runs at a time, from callback to callback. Launches in a stream that is being captured and launches of graphs are not
//! counted.

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
const BEGIN_CAPTURE: [u32; 6] = [495, 496, 539, 540, 720, 721];

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
        let watched = [&LAUNCH_KERNEL[..], &LAUNCH_KERNEL_EX, &LAUNCH_GRAPH, &BEGIN_CAPTURE];
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
        if BEGIN_CAPTURE.contains(&id) || LAUNCH_GRAPH.contains(&id) {
            if entered {
                alone(|r| {
                    r.stop();
                    r.graphs += u32::from(LAUNCH_GRAPH.contains(&id));
                });
            }
        } else if entered {
            let (launch, stream) = launch(id, call);
            if is_captured(stream) {
                RANGES.with(|r| r.captured += 1);
            } else if RANGES.with(|r| r.may_count()).unwrap_or(false) {
                // Until it is over: a launch that is under way when another thread opens a session would be in it.
                LAUNCHING.take();
                RANGES.with(|r| r.launched(call.context, launch));
            }
        } else if LAUNCHING.is_mine() {
            let failed = !call.result.is_null() && *call.result.cast::<u32>() != 0;
            RANGES.with(|r| r.left(failed));
            LAUNCHING.give();
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
        (launch, stream.cast::<*mut c_void>().read_unaligned())
    }
}

unsafe fn is_captured(stream: *mut c_void) -> bool {
    let mut status = 0;
    match functions().capturing {
        Some(ask) => unsafe { ask(stream, &mut status) != 0 || status != 0 },
        None => false,
    }
}
