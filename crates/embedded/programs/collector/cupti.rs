//! The functions of CUPTI and of the driver, found at run time. Declarations are of CUPTI 11.1 to 13.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use crate::log::{self, Step};
use crate::system;

/// RTLD_NOW, and RTLD_NOLOAD. Not RTLD_GLOBAL: the program's own libraries must not find these symbols.
const NOW: i32 = 2;
const ALREADY: i32 = NOW | 4;

const NAMES: [&CStr; 4] = [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so.11.8", c"libcupti.so"];

pub type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);

macro_rules! table {
    ($($field:ident $symbol:literal $library:ident ($($argument:ty),*);)*) => {
        /// The functions; those that a version lacks are `None`.
        pub struct Functions { $(pub $field: Option<unsafe extern "C" fn($($argument),*) -> u32>,)* }

        impl Functions {
            const NONE: Functions = Functions { $($field: None,)* };

            unsafe fn find(&mut self, cupti: *mut c_void, driver: *mut c_void) {
                $(
                    let library = if stringify!($library).as_bytes()[0] == b'c' { cupti } else { driver };
                    let at = unsafe { system::dlsym(library, concat!($symbol, "\0").as_ptr().cast()) };
                    self.$field = unsafe { core::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn($($argument),*) -> u32>>(at) };
                )*
            }
        }
    };
}

table! {
    version "cuptiGetVersion" c (*mut u32);
    timestamp "cuptiGetTimestamp" c (*mut u64);
    register "cuptiActivityRegisterCallbacks" c (Request, Completed);
    enable "cuptiActivityEnable" c (u32);
    next "cuptiActivityGetNextRecord" c (*mut u8, usize, *mut *mut u8);
    dropped "cuptiActivityGetNumDroppedRecords" c (*mut c_void, u32, *mut usize);
    flush_all "cuptiActivityFlushAll" c (u32);
    flush_period "cuptiActivityFlushPeriod" c (u32);
    subscribe "cuptiSubscribe" c (*mut *mut c_void, Callback, *mut c_void);
    enable_callback "cuptiEnableCallback" c (u32, *mut c_void, u32, u32);
    initialize "cuptiProfilerInitialize" c (*mut u64);
    supported "cuptiProfilerDeviceSupported" c (*mut u64);
    chip "cuptiDeviceGetChipName" c (*mut u64);
    availability "cuptiProfilerGetCounterAvailability" c (*mut u64);
    host "cuptiProfilerHostInitialize" c (*mut u64);
    add_metrics "cuptiProfilerHostConfigAddMetrics" c (*mut u64);
    config_size "cuptiProfilerHostGetConfigImageSize" c (*mut u64);
    config "cuptiProfilerHostGetConfigImage" c (*mut u64);
    passes "cuptiProfilerHostGetNumOfPasses" c (*mut u64);
    evaluate "cuptiProfilerHostEvaluateToGpuValues" c (*mut u64);
    range_enable "cuptiRangeProfilerEnable" c (*mut u64);
    range_disable "cuptiRangeProfilerDisable" c (*mut u64);
    data_size "cuptiRangeProfilerGetCounterDataSize" c (*mut u64);
    data_initialize "cuptiRangeProfilerCounterDataImageInitialize" c (*mut u64);
    set_config "cuptiRangeProfilerSetConfig" c (*mut u64);
    range_start "cuptiRangeProfilerStart" c (*mut u64);
    range_stop "cuptiRangeProfilerStop" c (*mut u64);
    decode "cuptiRangeProfilerDecodeData" c (*mut u64);
    data_info "cuptiRangeProfilerGetCounterDataInfo" c (*mut u64);
    push "cuptiRangeProfilerPushRange" c (*mut u64);
    pop "cuptiRangeProfilerPopRange" c (*mut u64);
    context_device "cuCtxGetDevice" d (*mut i32);
    context_synchronize "cuCtxSynchronize" d ();
    push_context "cuCtxPushCurrent_v2" d (*mut c_void);
    pop_context "cuCtxPopCurrent_v2" d (*mut *mut c_void);
    capturing "cuStreamIsCapturing" d (*mut c_void, *mut u32);
    driver_version "cuDriverGetVersion" d (*mut i32);
}

struct Table(UnsafeCell<Functions>);
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new(Functions::NONE));
static LOADED_BEFORE: AtomicBool = AtomicBool::new(false);

/// The functions; all `None` before [`load`].
pub fn functions() -> &'static Functions {
    unsafe { &*TABLE.0.get() }
}

/// Finds CUPTI: the program's own if it has loaded one, else the first that opens.
pub unsafe fn load() -> bool {
    unsafe {
        let mut library = open_first(ALREADY);
        LOADED_BEFORE.store(!library.is_null(), Ordering::Relaxed);
        if library.is_null() {
            library = from_list(system::variable(c"RPROF_CUPTI"));
        }
        if library.is_null() {
            library = open_first(NOW);
        }
        let driver = system::dlopen(c"libcuda.so.1".as_ptr(), ALREADY);
        if library.is_null() {
            log::failed(Step::NoLibrary, 0, 1);
            return false;
        }
        (*TABLE.0.get()).find(library, driver);
        true
    }
}

unsafe fn open_first(flags: i32) -> *mut c_void {
    let open = |name: &&CStr| unsafe { system::dlopen(name.as_ptr(), flags) };
    NAMES.iter().map(open).find(|library| !library.is_null()).unwrap_or(core::ptr::null_mut())
}

unsafe fn from_list(list: *const c_char) -> *mut c_void {
    unsafe {
        if list.is_null() {
            return core::ptr::null_mut();
        }
        for path in system::text(list).split(|byte| *byte == b':') {
            let mut text = [0u8; 4096];
            if path.is_empty() || path.len() >= text.len() {
                continue;
            }
            text[..path.len()].copy_from_slice(path);
            let library = system::dlopen(text.as_ptr().cast(), NOW);
            if !library.is_null() {
                return library;
            }
        }
        core::ptr::null_mut()
    }
}

/// Whether the program had loaded CUPTI before us.
pub fn was_loaded() -> bool {
    LOADED_BEFORE.load(Ordering::Relaxed)
}

/// CUPTI's version, or 0.
pub unsafe fn version() -> u64 {
    let mut version = 0;
    if let Some(ask) = functions().version {
        unsafe { ask(&mut version) };
    }
    u64::from(version)
}

/// The driver's version, or 0.
pub unsafe fn driver_version() -> u64 {
    let mut version = 0;
    if let Some(ask) = functions().driver_version {
        unsafe { ask(&mut version) };
    }
    version as u64
}

/// Runs `f` with `context` current in this thread, if the driver still allows that, and restores the one that was current before.
pub unsafe fn within(context: *mut c_void, f: impl FnOnce()) {
    let is_current = functions().push_context.is_some_and(|push| unsafe { push(context) } == 0);
    f();
    if let (true, Some(pop)) = (is_current, functions().pop_context) {
        let mut before = core::ptr::null_mut();
        unsafe { pop(&mut before) };
    }
}

/// CUPTI's clock in nanoseconds, or 0.
pub unsafe fn timestamp() -> u64 {
    let mut time = 0;
    if let Some(ask) = functions().timestamp {
        unsafe { ask(&mut time) };
    }
    time
}
