//! Counting: CUPTI's range profiler, one automatic range for each launch.
//!
//! Groups of metrics take turns. A session counts one group: it begins with a launch whose kernel and shape lack that group and ends after
//! [`BATCH`] launches, or when several launches in a row do not lack it (at once, if the group makes a launch run several times). A group
//! can have a condition: it is counted for kernels in which that metric of another group was not 0. All metrics of a group are added in one call (one at a time they
//! all show the first one's value). One launch runs at a time, from callback to callback: ranges come in the order of launches, and a launch that
//! failed has none. Launches in a stream that is being captured, launches of graphs and launches in a second context are not
//! counted, and their numbers go to the log.

use core::ffi::{c_char, c_int, c_void};

use crate::cupti::functions;
use crate::launches::{Counted, GROUPS, Launch};
use crate::log::{self, Kind, Step};
use crate::names;
use crate::system::{self, Locked, Turn};

/// Most launches of a session.
const BATCH: usize = 64;
/// Most metrics of a group.
const METRICS: usize = 32;
/// Most launches that a process counts.
const MOST: u32 = 2048;
/// Launches in a row that do not lack a group, after which its turn ends: ending a session and starting one costs as much as counting 20
/// launches, another group's as much as 150.
const IDLE: u32 = 8;
/// Longest file of groups.
const FILE: usize = 16 << 10;

/// Domains and callbacks of CUPTI.
const DRIVER_API: u32 = 1;
const RESOURCE: u32 = 3;
const CONTEXT_DESTROYED: u32 = 2;
const LAUNCH_KERNEL: [u32; 4] = [307, 442, 477, 478];
const LAUNCH_KERNEL_EX: [u32; 2] = [652, 653];
const LAUNCH_GRAPH: [u32; 2] = [514, 515];
const BEGIN_CAPTURE: [u32; 6] = [495, 496, 539, 540, 720, 721];

/// Values of CUPTI's enumerations.
const RANGE_PROFILER: u64 = 0;
const AUTO_RANGE: u64 = 1;
const KERNEL_REPLAY: u64 = 2;
/// From here on counting works, with fewer metrics above it.
const SUPPORTED: u32 = 3;

/// A group of metrics.
#[derive(Clone, Copy)]
struct Group {
    /// Launches of each kernel and shape that are counted; 0: not usable.
    wanted: u16,
    /// The metric of another group that must not be 0, or null.
    condition: *const c_char,
    /// Times that a launch runs in a session.
    passes: u32,
    names: [*const c_char; METRICS],
    metrics: usize,
    /// Address of an array of `names` that stays where it is.
    kept_names: u64,
    host: u64,
    config: *mut u8,
    config_size: usize,
    data: *mut u8,
    data_size: usize,
}

const NO_GROUP: Group = Group {
    wanted: 0,
    condition: core::ptr::null(),
    passes: 0,
    names: [core::ptr::null(); METRICS],
    metrics: 0,
    kept_names: 0,
    host: 0,
    config: core::ptr::null_mut(),
    config_size: 0,
    data: core::ptr::null_mut(),
    data_size: 0,
};

#[derive(PartialEq)]
enum State {
    /// Nothing is counted. (First, so that the whole static is zero and takes no room in the file.)
    Off,
    /// Nothing was set up yet.
    New,
    /// Ready to count in `context`.
    Ready,
    /// That context is gone.
    Gone,
}

struct Ranges {
    state: State,
    groups: [Group; GROUPS],
    context: *mut c_void,
    profiler: u64,
    /// The group that `profiler` has counted, or none yet.
    configured: Option<usize>,
    /// The group of the session under way.
    session: Option<usize>,
    /// Launches since the last one that was wanted.
    idle: u32,
    batch: [Launch; BATCH],
    in_batch: usize,
    counted: Counted,
    total: u32,
    captured: u32,
    elsewhere: u32,
    graphs: u32,
    lost: u32,
    /// Launches after the last that was counted.
    over: u32,
    text: [u8; FILE],
}

static RANGES: Locked<Ranges> = Locked::new(Ranges {
    state: State::Off,
    groups: [NO_GROUP; GROUPS],
    context: core::ptr::null_mut(),
    profiler: 0,
    configured: None,
    session: None,
    idle: 0,
    batch: [Launch { name: 0, shape: [0; 6] }; BATCH],
    in_batch: 0,
    counted: Counted::EMPTY,
    total: 0,
    captured: 0,
    elsewhere: 0,
    graphs: 0,
    lost: 0,
    over: 0,
    text: [0; FILE],
});

/// Subscribes to launches; `groups` is the path of the file of groups.
pub unsafe fn start(groups: *const c_char) {
    unsafe {
        let read = RANGES.with(|r| r.read_groups(groups)).unwrap_or(false);
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
        RANGES.with(|r| r.state = State::New);
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
    RANGES.with(|r| unsafe {
        if is_free {
            r.stop();
        }
        if r.state != State::Off {
            log::record(Kind::Uncounted, &[], &[r.captured, r.elsewhere, r.graphs, r.lost, r.over], &[]);
        }
        r.state = State::Off;
    });
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
            alone(|r| {
                if r.context == context && r.state == State::Ready {
                    r.stop();
                    r.context = core::ptr::null_mut();
                    r.state = State::Gone;
                }
            });
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

impl Ranges {
    unsafe fn launched(&mut self, context: *mut c_void, launch: Launch) {
        unsafe {
            if self.state == State::New {
                self.context = context;
                self.state = if self.set_up() { State::Ready } else { State::Off };
            }
            if self.state == State::Gone || self.state == State::Ready && context != self.context {
                self.elsewhere += 1;
                return;
            }
            if self.state != State::Ready {
                return;
            }
            let enough = self.total >= MOST;
            let groups = self.groups;
            let Some(known) = self.counted.of(&launch) else { return };
            let lacks = |g: &usize| {
                let group = &groups[*g];
                !enough && known.counts[*g] < group.wanted && (group.condition.is_null() || known.meets & 1 << *g != 0)
            };
            // Another group's turn comes when no launch has lacked this one's for a while: it takes a new profiler.
            let wanted = self.configured.filter(lacks).or_else(|| {
                let may_change = self.configured.is_none() || self.idle >= IDLE;
                (0..GROUPS).find(|g| may_change && lacks(g))
            });
            self.idle = if wanted.is_some() { 0 } else { self.idle + 1 };
            let rides = self.session.filter(|g| groups[*g].passes <= 1 && self.idle <= IDLE && !enough);
            let session = wanted.or(rides);
            if session != self.session {
                self.stop();
                if let Some(g) = session {
                    self.begin(g);
                }
            }
            if let Some(g) = self.session {
                if let Some(known) = self.counted.of(&launch) {
                    known.counts[g] = known.counts[g].saturating_add(1);
                }
                if let Some(place) = self.batch.get_mut(self.in_batch) {
                    *place = launch;
                    self.in_batch += 1;
                    self.total += 1;
                }
            }
        }
    }

    /// Whether launches are of any interest.
    fn may_count(&mut self) -> bool {
        self.over += u32::from(self.state == State::Ready && self.total >= MOST);
        self.state != State::Off && (self.total < MOST || self.session.is_some())
    }

    /// The launch that was noted last is over. One that failed has no range.
    unsafe fn left(&mut self, failed: bool) {
        if failed && self.in_batch > 0 && let Some(g) = self.session {
            self.in_batch -= 1;
            self.uncount(self.in_batch, g);
        }
        if self.in_batch >= BATCH {
            unsafe { self.stop() };
        }
    }

    /// Launch `i` of the batch has no counts of group `g` after all.
    fn uncount(&mut self, i: usize, g: usize) {
        let launch = self.batch[i];
        if let Some(known) = self.counted.of(&launch) {
            known.counts[g] = known.counts[g].saturating_sub(1);
        }
    }

    /// Reads lines of `launches [if:metric] metric metric …`.
    unsafe fn read_groups(&mut self, path: *const c_char) -> bool {
        unsafe {
            let fd = system::open(path, system::READ_ONLY, 0);
            if fd < 0 {
                return false;
            }
            let mut length = 0;
            while length < FILE - 1 {
                match system::read(fd, self.text.as_mut_ptr().add(length), FILE - 1 - length) {
                    n if n > 0 => length += n as usize,
                    _ => break,
                }
            }
            system::close(fd);
            self.text[length] = b'\n';
            let (mut group, mut start, mut first) = (0, 0, true);
            for i in 0..=length {
                let byte = self.text[i];
                if byte != b' ' && byte != b'\n' {
                    continue;
                }
                let word = start..i;
                start = i + 1;
                self.text[i] = 0;
                if !word.is_empty() && group < GROUPS {
                    let g = &mut self.groups[group];
                    if first {
                        let digits = self.text[word].iter();
                        g.wanted = digits.fold(0, |n: u16, d| n.saturating_mul(10).saturating_add(u16::from(d.wrapping_sub(b'0'))));
                        first = false;
                    } else if self.text[word.start..].starts_with(b"if:") {
                        g.condition = self.text.as_ptr().add(word.start + 3).cast();
                    } else if g.metrics < METRICS {
                        g.names[g.metrics] = self.text.as_ptr().add(word.start).cast();
                        g.metrics += 1;
                    }
                }
                if byte == b'\n' && !first {
                    group += 1;
                    first = true;
                }
            }
            group > 0
        }
    }

    unsafe fn set_up(&mut self) -> bool {
        unsafe {
            let f = functions();
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
            self.profiler = enable[3];
            for g in 0..GROUPS {
                if self.groups[g].wanted > 0 && !self.prepare(g, chip[3], availability) {
                    self.groups[g].wanted = 0;
                }
            }
            self.groups.iter().any(|group| group.wanted > 0)
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

    unsafe fn prepare(&mut self, g: usize, chip: u64, availability: u64) -> bool {
        unsafe {
            let (f, number) = (functions(), g as u32);
            let profiler = self.profiler;
            let group = &mut self.groups[g];
            for i in 0..group.metrics {
                log::record(Kind::Group, &[], &[number], system::text(group.names[i]));
            }
            // Size 48 as in 12.6 to 13.0; later versions have a further field, which may be left out.
            let mut host = [48, 0, RANGE_PROFILER, chip, availability, 0];
            if !ok(Step::Metrics, number, f.host, &mut host) {
                return false;
            }
            group.host = host[5];
            let names = group.names.as_ptr() as u64;
            let kept = system::memory(size_of::<[u64; METRICS]>());
            if kept.is_null() {
                return false;
            }
            core::ptr::copy_nonoverlapping(names as *const u8, kept, size_of::<[u64; METRICS]>());
            let (names, metrics) = (kept as u64, group.metrics as u64);
            if !ok(Step::Metrics, number, f.add_metrics, &mut [40, 0, group.host, names, metrics]) {
                return false;
            }
            let mut size = [32, 0, group.host, 0];
            if !ok(Step::Metrics, number, f.config_size, &mut size) {
                return false;
            }
            group.config_size = size[3] as usize;
            group.config = system::memory(group.config_size);
            if group.config.is_null() || !ok(Step::Metrics, number, f.config, &mut [40, 0, group.host, size[3], group.config as u64]) {
                return false;
            }
            let mut passes = [40, 0, size[3], group.config as u64, 0];
            if ok(Step::Metrics, number, f.passes, &mut passes) {
                group.passes = passes[4] as u32;
                log::record(Kind::Passes, &[], &[number, group.passes], &[]);
            }
            let mut size = [64, 0, profiler, names, metrics, BATCH as u64, BATCH as u64, 0];
            if !ok(Step::Image, number, f.data_size, &mut size) {
                return false;
            }
            group.kept_names = names;
            group.data_size = size[7] as usize;
            group.data = system::memory(group.data_size);
            !group.data.is_null()
        }
    }

    unsafe fn begin(&mut self, g: usize) {
        unsafe {
            let (f, number) = (functions(), g as u32);
            // A profiler that has counted one group gives no values of another.
            if self.configured.is_some_and(|other| other != g) {
                let mut enable = [32, 0, self.context as u64, 0];
                let renewed = ok(Step::Context, number, f.range_disable, &mut [24, 0, self.profiler])
                    && ok(Step::Context, number, f.range_enable, &mut enable);
                if !renewed {
                    self.state = State::Off;
                    return;
                }
                self.profiler = enable[3];
            }
            self.configured = Some(g);
            let group = &self.groups[g];
            let (config, data) = (group.config as u64, group.data as u64);
            let (config_size, data_size) = (group.config_size as u64, group.data_size as u64);
            let mut image = [40, 0, self.profiler, data_size, data];
            // Size 90: the last field has 16 bits. One level of nesting, which begins at 1.
            let levels = 1 | 1 << 16;
            let replay = AUTO_RANGE | KERNEL_REPLAY << 32;
            let mut settings = [90, 0, self.profiler, config_size, config, data_size, data, replay, BATCH as u64, levels, 0, 0];
            // What an earlier session left in the image would show where this one counts nothing.
            core::ptr::write_bytes(group.data, 0, group.data_size);
            // The profiler initialises images for the metrics that it was asked about last.
            let mut size = [64, 0, self.profiler, group.kept_names, group.metrics as u64, BATCH as u64, BATCH as u64, 0];
            let started = ok(Step::Image, number, f.data_size, &mut size)
                && size[7] <= data_size
                && ok(Step::Image, number, f.data_initialize, &mut image)
                && ok(Step::Configure, number, f.set_config, &mut settings)
                && ok(Step::Start, number, f.range_start, &mut [24, 0, self.profiler]);
            if started {
                self.session = Some(g);
            } else {
                self.groups[g].wanted = 0;
            }
            self.in_batch = 0;
        }
    }

    unsafe fn stop(&mut self) {
        unsafe {
            let Some(g) = self.session.take() else { return };
            let (f, number) = (functions(), g as u32);
            let n = core::mem::take(&mut self.in_batch);
            let profiler = self.profiler;
            if !ok(Step::Stop, number, f.range_stop, &mut [41, 0, profiler, 0, 0, 0]) {
                self.groups[g].wanted = 0;
                return;
            }
            let mut decoded = [32, 0, profiler, 0];
            if !ok(Step::Decode, number, f.decode, &mut decoded) {
                return;
            }
            self.lost += decoded[3] as u32;
            let group = &self.groups[g];
            let (data, data_size) = (group.data as u64, group.data_size as u64);
            let mut info = [40, 0, data, data_size, 0];
            if !ok(Step::Decode, number, f.data_info, &mut info) {
                return;
            }
            // Fewer ranges than launches: which is whose is not known.
            if (info[4] as usize) < n {
                self.lost += n as u32;
                (0..n).for_each(|i| self.uncount(i, g));
                return log::failed(Step::Decode, number, 0x1000 + info[4] as u32);
            }
            for i in 0..n {
                let mut values = [0f64; METRICS];
                let (names, metrics) = (group.names.as_ptr() as u64, group.metrics as u64);
                let mut evaluation =
                    [72, 0, group.host, data, data_size, i as u64, names, metrics, values.as_mut_ptr() as u64];
                if !ok(Step::Evaluate, number, f.evaluate, &mut evaluation) {
                    return;
                }
                let launch = self.batch[i];
                let [a, b, c, d, e, f] = launch.shape;
                let bytes = core::slice::from_raw_parts(values.as_ptr().cast::<u8>(), group.metrics * 8);
                let met = met(&self.groups, g, &values);
                if let Some(known) = self.counted.of(&launch) {
                    known.meets |= met;
                }
                log::record(Kind::Range, &[], &[number, launch.name, a, b, c, d, e, f, 0], bytes);
            }
            log::flush();
        }
    }
}

/// A bit for each group whose condition is a metric of group `g` that is not 0.
unsafe fn met(groups: &[Group; GROUPS], g: usize, values: &[f64; METRICS]) -> u8 {
    let text = |name: *const c_char| unsafe { system::text(name) };
    let mut met = 0;
    for i in (0..groups[g].metrics).filter(|i| values[*i] > 0.0) {
        for (other, group) in groups.iter().enumerate().filter(|(_, group)| !group.condition.is_null()) {
            if text(group.condition) == text(groups[g].names[i]) {
                met |= 1 << other;
            }
        }
    }
    met
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
