//! CUPTI's range profiler: the images of each group, and a session that counts one group.
//!
//! A session has an automatic range for each launch, or one range of its own around the launch of a graph. All metrics of a group are added in one call (one at a time they all show the first
//! one's value).

use core::ffi::{c_char, c_int, c_void};

use crate::cupti::functions;
use crate::groups::{Group, Groups, METRICS};
use crate::launches::GROUPS;
use crate::log::{self, Kind, Step};
use crate::system;

/// Most launches of a session.
pub const BATCH: usize = 64;

/// Values of CUPTI's enumerations.
const RANGE_PROFILER: u64 = 0;
const AUTO_RANGE: u64 = 1;
const USER_RANGE: u64 = 2;
const KERNEL_REPLAY: u64 = 2;
const USER_REPLAY: u64 = 3;
/// From here on counting works, with fewer metrics above it.
const SUPPORTED: u32 = 3;

/// Kind of the ranges of a session.
#[derive(Clone, Copy, PartialEq)]
pub enum Of {
    Launches,
    /// From [`Profiler::push`] to [`Profiler::pop`]; nothing runs again.
    Graph,
}

/// The profiler's data of a group.
#[derive(Clone, Copy)]
struct Images {
    /// Times that a launch runs in a session.
    passes: u32,
    /// Address of an array of the names that stays where it is.
    kept_names: u64,
    host: u64,
    config: *mut u8,
    config_size: usize,
    data: *mut u8,
    data_size: usize,
}

const NO_IMAGES: Images = Images {
    passes: 0,
    kept_names: 0,
    host: 0,
    config: core::ptr::null_mut(),
    config_size: 0,
    data: core::ptr::null_mut(),
    data_size: 0,
};

/// The profiler of one context.
pub struct Profiler {
    pub context: *mut c_void,
    handle: u64,
    /// The group that it has counted, or none yet.
    configured: Option<usize>,
    /// Whether for graphs. (Not beside the group in one `Option`: nothing of the static may be other than zero.)
    of_graphs: bool,
    images: [Images; GROUPS],
}

/// How a session began.
pub enum Begun {
    Started,
    /// The group cannot be counted.
    Refused,
    /// Nothing can be counted any more.
    Broken,
}

impl Profiler {
    pub const NONE: Profiler =
        Profiler { context: core::ptr::null_mut(), handle: 0, configured: None, of_graphs: false, images: [NO_IMAGES; GROUPS] };

    /// The group that it has counted for launches.
    pub fn counts(&self) -> Option<usize> {
        self.configured.filter(|_| !self.of_graphs)
    }

    /// Whether a launch runs once in a session of group `g`.
    pub fn runs_once(&self, g: usize) -> bool {
        self.images[g].passes <= 1
    }

    /// Starts the profiler in `context` and prepares the `groups`; those that it refuses are not wanted any more. False if none is left.
    pub unsafe fn set_up(&mut self, context: *mut c_void, groups: &mut Groups) -> bool {
        unsafe {
            let f = functions();
            self.context = context;
            if !ok(Step::Initialize, 0, f.initialize, &mut [16, 0]) {
                return false;
            }
            let mut device: c_int = 0;
            if let Some(ask) = f.context_device {
                ask(&mut device);
            }
            // structSize, pPriv, device and overall level, then architecture, SLI, vGPU, confidential computing, CMP, WSL, and the API (0: ranges).
            // Size 52: 12.6 to 13.0 refuse any other (48 among them). Later versions have a further field.
            let mut levels = [52, 0, device as u32 as u64, 0, 0, 0, 0];
            if let Some(ask) = f.supported
                && ask(levels.as_mut_ptr()) == 0
                && ((levels[2] >> 32) as u32) < SUPPORTED
            {
                let each = [levels[3] as u32, (levels[3] >> 32) as u32, levels[4] as u32, (levels[4] >> 32) as u32, levels[5] as u32, (levels[5] >> 32) as u32];
                log::failed(Step::Unsupported, 0, each.iter().fold(1, |n, level| n << 4 | level & 15));
            }
            let mut chip = [32, 0, device as u32 as u64, 0];
            if !ok(Step::Chip, 0, f.chip, &mut chip) {
                return false;
            }
            log::record(Kind::Chip, &[], &[], system::text(chip[3] as *const c_char));
            let availability = self.availability();
            let mut enable = [32, 0, self.context as u64, 0];
            if !ok(Step::Context, 0, f.range_enable, &mut enable) {
                return false;
            }
            self.handle = enable[3];
            for g in 0..GROUPS {
                if groups.list[g].wanted > 0 && !self.prepare(&groups.list[g], g, chip[3], availability) {
                    groups.list[g].wanted = 0;
                }
            }
            groups.list.iter().any(|group| group.wanted > 0)
        }
    }

    /// The image that says which counters this process may use, or 0.
    unsafe fn availability(&self) -> u64 {
        unsafe {
            let Some(ask) = functions().availability else { return 0 };
            let mut parameters = [40, 0, self.context as u64, 0, 0, 0];
            if ask(parameters.as_mut_ptr()) != 0 {
                parameters[0] = 41;
                if ask(parameters.as_mut_ptr()) != 0 {
                    return 0;
                }
            }
            parameters[4] = system::memory(parameters[3] as usize) as u64;
            if parameters[4] == 0 || ask(parameters.as_mut_ptr()) != 0 { 0 } else { parameters[4] }
        }
    }

    /// Makes the images of group `g`.
    unsafe fn prepare(&mut self, group: &Group, g: usize, chip: u64, availability: u64) -> bool {
        unsafe {
            let (f, number) = (functions(), g as u32);
            let images = &mut self.images[g];
            for i in 0..group.metrics {
                log::record(Kind::Group, &[], &[number], system::text(group.names[i]));
            }
            // Size 48 as in 12.6 to 13.0; later versions have a further field, which may be left out.
            let mut host = [48, 0, RANGE_PROFILER, chip, availability, 0];
            if !ok(Step::Metrics, number, f.host, &mut host) {
                return false;
            }
            images.host = host[5];
            let names = group.names.as_ptr() as u64;
            let kept = system::memory(size_of::<[u64; METRICS]>());
            if kept.is_null() {
                return false;
            }
            core::ptr::copy_nonoverlapping(names as *const u8, kept, size_of::<[u64; METRICS]>());
            let (names, metrics) = (kept as u64, group.metrics as u64);
            if !ok(Step::Metrics, number, f.add_metrics, &mut [40, 0, images.host, names, metrics]) {
                return false;
            }
            let mut size = [32, 0, images.host, 0];
            if !ok(Step::Metrics, number, f.config_size, &mut size) {
                return false;
            }
            images.config_size = size[3] as usize;
            images.config = system::memory(images.config_size);
            if images.config.is_null() || !ok(Step::Metrics, number, f.config, &mut [40, 0, images.host, size[3], images.config as u64]) {
                return false;
            }
            let mut passes = [40, 0, size[3], images.config as u64, 0];
            if ok(Step::Metrics, number, f.passes, &mut passes) {
                images.passes = passes[4] as u32;
                log::record(Kind::Passes, &[], &[number, images.passes], &[]);
            }
            let mut size = [64, 0, self.handle, names, metrics, BATCH as u64, BATCH as u64, 0];
            if !ok(Step::Image, number, f.data_size, &mut size) {
                return false;
            }
            images.kept_names = names;
            images.data_size = size[7] as usize;
            images.data = system::memory(images.data_size);
            !images.data.is_null()
        }
    }

    /// Begins a session that counts `group`, which has number `g`.
    pub unsafe fn begin(&mut self, group: &Group, g: usize, of: Of) -> Begun {
        unsafe {
            let (f, number) = (functions(), g as u32);
            // A profiler that has counted one group gives no values of another; of the kinds of ranges that is not known.
            if self.configured.is_some_and(|other| other != g || self.of_graphs != (of == Of::Graph)) {
                let mut enable = [32, 0, self.context as u64, 0];
                let renewed = ok(Step::Context, number, f.range_disable, &mut [24, 0, self.handle])
                    && ok(Step::Context, number, f.range_enable, &mut enable);
                if !renewed {
                    return Begun::Broken;
                }
                self.handle = enable[3];
            }
            (self.configured, self.of_graphs) = (Some(g), of == Of::Graph);
            let images = &self.images[g];
            let (config, data) = (images.config as u64, images.data as u64);
            let (config_size, data_size) = (images.config_size as u64, images.data_size as u64);
            let mut image = [40, 0, self.handle, data_size, data];
            // Size 90: the last field has 16 bits. One level of nesting, which begins at 1.
            let levels = 1 | 1 << 16;
            let replay = match of {
                Of::Launches => AUTO_RANGE | KERNEL_REPLAY << 32,
                Of::Graph => USER_RANGE | USER_REPLAY << 32,
            };
            let mut settings = [90, 0, self.handle, config_size, config, data_size, data, replay, BATCH as u64, levels, 0, 0];
            // What an earlier session left in the image would show if this one counts nothing.
            core::ptr::write_bytes(images.data, 0, images.data_size);
            // The profiler initialises images for the metrics that it was asked about last.
            let mut size = [64, 0, self.handle, images.kept_names, group.metrics as u64, BATCH as u64, BATCH as u64, 0];
            let started = ok(Step::Image, number, f.data_size, &mut size)
                && size[7] <= data_size
                && ok(Step::Image, number, f.data_initialize, &mut image)
                && ok(Step::Configure, number, f.set_config, &mut settings)
                && ok(Step::Start, number, f.range_start, &mut [24, 0, self.handle]);
            if started { Begun::Started } else { Begun::Refused }
        }
    }

    /// Begins the range of a graph; false if that failed.
    pub unsafe fn push(&mut self, g: usize) -> bool {
        unsafe { ok(Step::Start, g as u32, functions().push, &mut [32, 0, self.handle, c"graph".as_ptr() as u64]) }
    }

    /// Ends it.
    pub unsafe fn pop(&mut self, g: usize) -> bool {
        unsafe { ok(Step::Stop, g as u32, functions().pop, &mut [24, 0, self.handle]) }
    }

    /// Ends the session of group `g`; false if that failed.
    pub unsafe fn stop(&mut self, g: usize) -> bool {
        unsafe { ok(Step::Stop, g as u32, functions().range_stop, &mut [41, 0, self.handle, 0, 0, 0]) }
    }

    /// Decodes what the session of group `g` counted; the number of ranges that were lost.
    pub unsafe fn decode(&mut self, g: usize) -> Option<u32> {
        let mut decoded = [32, 0, self.handle, 0];
        unsafe { ok(Step::Decode, g as u32, functions().decode, &mut decoded) }.then_some(decoded[3] as u32)
    }

    /// The number of ranges that group `g` has.
    pub unsafe fn ranges(&self, g: usize) -> Option<u64> {
        let Images { data, data_size, .. } = self.images[g];
        let mut info = [40, 0, data as u64, data_size as u64, 0];
        unsafe { ok(Step::Decode, g as u32, functions().data_info, &mut info) }.then_some(info[4])
    }

    /// The values of `group`, which has number `g`, in one range.
    pub unsafe fn values(&self, group: &Group, g: usize, range: usize) -> Option<[f64; METRICS]> {
        let mut values = [0f64; METRICS];
        let Images { host, data, data_size, .. } = self.images[g];
        let (names, metrics) = (group.names.as_ptr() as u64, group.metrics as u64);
        let mut evaluation =
            [72, 0, host, data as u64, data_size as u64, range as u64, names, metrics, values.as_mut_ptr() as u64];
        unsafe { ok(Step::Evaluate, g as u32, functions().evaluate, &mut evaluation) }.then_some(values)
    }
}

/// Calls a function of the profiler with its parameters; the first is their size. Failure goes to the log.
unsafe fn ok(step: Step, group: u32, function: Option<unsafe extern "C" fn(*mut u64) -> u32>, parameters: &mut [u64]) -> bool {
    unsafe {
        let result = match function {
            Some(call) => call(parameters.as_mut_ptr()),
            None => 0xffff,
        };
        log::failed(step, group, result);
        result == 0
    }
}
