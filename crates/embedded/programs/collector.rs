//! The library that a CUDA program under rprof loads (`CUDA_INJECTION64_PATH`): it writes down what the GPU did.
//!
//! The driver calls [`InitializeInjection`] in `cuInit`. From then on kernels, copies, fills and waiting go to a log
//! (`collector/log.rs`; `crates/device/src/log/` reads it), or the first launches of each kernel are counted (`collector/ranges.rs`). It
//! uses the program's own CUPTI, or the first that `RPROF_CUPTI` names, and never ends or changes the program: failures become records in
//! the log.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `RPROF_GPU_LOG` | folder of the logs, one for each process |
//! | `RPROF_GPU_COUNT` | file with a group of metrics on each line: launches of each kernel and shape to count, names; absent: trace |
//! | `RPROF_CUPTI` | paths of libcupti to try, separated by colons |

#![no_std]

#[path = "collector/activity.rs"]
mod activity;
#[path = "collector/callbacks.rs"]
mod callbacks;
#[path = "collector/cupti.rs"]
mod cupti;
#[path = "collector/graphs.rs"]
mod graphs;
#[path = "collector/groups.rs"]
mod groups;
#[path = "collector/launches.rs"]
mod launches;
#[path = "collector/log.rs"]
mod log;
#[path = "collector/names.rs"]
mod names;
#[path = "collector/profiler.rs"]
mod profiler;
#[path = "collector/ranges.rs"]
mod ranges;
#[path = "collector/system.rs"]
mod system;

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

/// The process that the driver initialised us in; a fork of it is none of our business.
static OWNER: AtomicI32 = AtomicI32::new(0);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        unsafe { system::sched_yield() };
    }
}

/// The precompiled core library names it; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Called by the driver in `cuInit`. Always reports success: a program must not fail because it is looked at.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    unsafe {
        let pid = system::getpid();
        if OWNER.swap(pid, Ordering::SeqCst) == pid || !log::open() {
            return 1;
        }
        if !cupti::load() {
            return 1;
        }
        log::start();
        let counted = system::variable(c"RPROF_GPU_COUNT");
        if counted.is_null() { activity::start() } else { callbacks::start(counted) }
        system::__cxa_atexit(at_exit, core::ptr::null_mut(), core::ptr::null_mut());
    }
    1
}

/// Whether this is the process that the driver initialised us in, and not a fork of it.
fn is_ours() -> bool {
    OWNER.load(Ordering::SeqCst) == unsafe { system::getpid() }
}

unsafe extern "C" fn at_exit(_: *mut c_void) {
    unsafe {
        if is_ours() {
            callbacks::end();
            activity::end();
            log::end();
        }
    }
}
