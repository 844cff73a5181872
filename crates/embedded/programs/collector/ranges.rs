//! Which launches are counted, with which group of metrics.
//!
//! Groups of metrics take turns. A session counts one group: it begins with a launch that lacks that group (by kernel and shape) and ends
//! after [`BATCH`] launches, or when several launches in a row do not lack it (at once, if the group makes a launch run several times). A
//! group can have a condition: it is counted for kernels in which that metric of another group was not 0. Ranges come in the order of
//! launches, and a launch that failed has none. A launch of a graph is one range of its own, for the groups that need no second run of it.
//! Launches in a second context are not counted; the numbers of launches that are not counted go to the log.

use core::ffi::c_void;

use crate::cupti::{self, functions};
use crate::graphs::Graphs;
use crate::groups::Groups;
use crate::launches::{Counted, GROUPS, Launch};
use crate::log::{self, Kind, Step};
use crate::profiler::{BATCH, Begun, Of, Profiler};
use crate::system::Locked;

/// Most launches that a process counts.
const MOST: u32 = 2048;
/// Launches in a row that do not lack a group, after which its turn ends: ending a session and starting one costs as much as counting 20
/// launches, another group's as much as 150.
const IDLE: u32 = 8;

#[derive(PartialEq)]
enum State {
    /// Nothing is counted. (First, so that the whole static is zero and takes no room in the file.)
    Off,
    /// Nothing was set up yet.
    New,
    /// Ready to count in the profiler's context.
    Ready,
    /// That context is gone.
    Gone,
}

/// The state of counting.
pub struct Ranges {
    state: State,
    pub groups: Groups,
    profiler: Profiler,
    /// The group of the session under way.
    session: Option<usize>,
    /// Launches since the last one that was wanted.
    idle: u32,
    batch: [Launch; BATCH],
    in_batch: usize,
    counted: Counted,
    total: u32,
    /// Captures of streams that are under way, of any thread.
    pub captures: u32,
    /// Launches meanwhile.
    pub captured: u32,
    elsewhere: u32,
    graphs: Graphs,
    /// The graph that is launched and counted, and the group.
    graph: Option<(usize, usize)>,
    /// Launches of graphs that are not among those.
    other_graphs: u32,
    lost: u32,
    /// Launches after the last that was counted.
    over: u32,
}

/// The one of this process.
pub static RANGES: Locked<Ranges> = Locked::new(Ranges {
    state: State::Off,
    groups: Groups::NONE,
    profiler: Profiler::NONE,
    session: None,
    idle: 0,
    batch: [Launch { name: 0, shape: [0; 6] }; BATCH],
    in_batch: 0,
    counted: Counted::EMPTY,
    total: 0,
    captures: 0,
    captured: 0,
    elsewhere: 0,
    graphs: Graphs::NONE,
    graph: None,
    other_graphs: 0,
    lost: 0,
    over: 0,
});

impl Ranges {
    /// From now on launches are counted.
    pub fn begin(&mut self) {
        self.state = State::New;
    }

    /// Nothing is counted any more. `is_free`: no launch is under way, so that a session can end.
    pub unsafe fn end(&mut self, is_free: bool) {
        unsafe {
            if is_free {
                self.stop();
            }
            if self.state != State::Off {
                let mut uncounted = self.other_graphs;
                for (number, graph) in self.graphs.all().iter().enumerate() {
                    log::record(Kind::Graph, &[], &[number as u32, graph.launches], &[]);
                    uncounted += if graph.has_counts { 0 } else { graph.launches };
                }
                let numbers = [self.captured, self.elsewhere, uncounted, self.lost, self.over];
                log::record(Kind::Uncounted, &[], &numbers, &[]);
            }
        }
        self.state = State::Off;
    }

    /// `context` is about to be destroyed.
    pub unsafe fn lose(&mut self, context: *mut c_void) {
        if self.profiler.context == context && self.state == State::Ready {
            // It is still there, but no longer to be made current.
            unsafe { self.finish() };
            self.profiler.context = core::ptr::null_mut();
            self.state = State::Gone;
        }
    }

    /// Whether launches in `context` can be counted; the first one sets the profiler up.
    unsafe fn is_ready(&mut self, context: *mut c_void) -> bool {
        if self.state == State::New {
            let is_set_up = unsafe { self.profiler.set_up(context, &mut self.groups) };
            self.state = if is_set_up { State::Ready } else { State::Off };
        }
        let is_elsewhere = self.state == State::Gone || self.state == State::Ready && context != self.profiler.context;
        self.elsewhere += u32::from(is_elsewhere);
        self.state == State::Ready && !is_elsewhere
    }

    /// A graph is about to be launched in `context`; whether that is counted, so that [`Ranges::graph_left`] must follow.
    pub unsafe fn graph_launched(&mut self, context: *mut c_void, executable: usize) -> bool {
        unsafe {
            self.stop();
            let place = self.graphs.of(executable).filter(|_| self.captures == 0 && self.total < MOST);
            let Some(place) = place.filter(|_| self.is_ready(context)) else {
                self.other_graphs += 1;
                return false;
            };
            let graph = self.graphs.at(place);
            graph.launches += 1;
            let (tried, groups, profiler) = (graph.tried, &self.groups, &self.profiler);
            // Groups that need several runs of a launch are left out: a graph cannot be run again.
            let fits = |g: &usize| groups.is_for_graphs(*g) && profiler.runs_once(*g) && tried & 1 << g == 0;
            let Some(g) = (0..GROUPS).find(fits) else { return false };
            // Whatever comes of it, it is not tried again.
            self.graphs.at(place).tried |= 1 << g;
            let began = self.profiler.begin(&self.groups.list[g], g, Of::Graph);
            if matches!(began, Begun::Broken) {
                self.state = State::Off;
            }
            let has_begun = matches!(began, Begun::Started);
            let is_open = has_begun && self.profiler.push(g);
            if has_begun && !is_open {
                self.profiler.stop(g);
            }
            self.graph = is_open.then_some((place, g));
            is_open
        }
    }

    /// The launch of that graph was made, or failed.
    pub unsafe fn graph_left(&mut self, failed: bool) {
        unsafe {
            let Some((place, g)) = self.graph.take() else { return };
            let is_done = functions().context_synchronize.is_some_and(|wait| wait() == 0);
            let is_counted = self.profiler.pop(g) & self.profiler.stop(g) && is_done && !failed;
            if !is_counted || self.profiler.decode(g) != Some(0) || self.profiler.ranges(g) != Some(1) {
                return;
            }
            let group = &self.groups.list[g];
            let Some(values) = self.profiler.values(group, g, 0) else { return };
            let bytes = core::slice::from_raw_parts(values.as_ptr().cast::<u8>(), group.metrics * 8);
            log::record(Kind::GraphRange, &[], &[g as u32, place as u32], bytes);
            log::flush();
            self.graphs.at(place).has_counts = true;
        }
    }

    /// A launch begins in `context`.
    pub unsafe fn launched(&mut self, context: *mut c_void, launch: Launch) {
        unsafe {
            if self.captures > 0 {
                self.captured += 1;
                return;
            }
            if !self.is_ready(context) {
                return;
            }
            let enough = self.total >= MOST;
            let (groups, profiler) = (&self.groups.list, &self.profiler);
            let Some(known) = self.counted.of(&launch) else { return };
            let lacks = |g: &usize| !enough && groups[*g].is_lacked_by(known, *g);
            // Another group's turn comes when no launch has lacked this one's for a while: it takes a new profiler.
            let wanted = profiler.counts().filter(lacks).or_else(|| {
                let may_change = profiler.counts().is_none() || self.idle >= IDLE;
                (0..GROUPS).find(|g| may_change && lacks(g))
            });
            self.idle = if wanted.is_some() { 0 } else { self.idle + 1 };
            let rides = self.session.filter(|g| self.profiler.runs_once(*g) && self.idle <= IDLE && !enough);
            let session = wanted.or(rides);
            if session != self.session {
                self.stop();
                if let Some(g) = session {
                    self.open(g);
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
    pub fn may_count(&mut self) -> bool {
        self.over += u32::from(self.state == State::Ready && self.total >= MOST);
        self.state != State::Off && (self.total < MOST || self.session.is_some())
    }

    /// The launch that was noted last is over. One that failed has no range.
    pub unsafe fn left(&mut self, failed: bool) {
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

    /// Begins a session of group `g`.
    unsafe fn open(&mut self, g: usize) {
        match unsafe { self.profiler.begin(&self.groups.list[g], g, Of::Launches) } {
            Begun::Started => self.session = Some(g),
            Begun::Refused => self.groups.list[g].wanted = 0,
            Begun::Broken => {
                self.state = State::Off;
                return;
            }
        }
        self.in_batch = 0;
    }

    /// Ends the session under way and writes its values down, in the context to which it belongs: the thread may have another, or none.
    pub unsafe fn stop(&mut self) {
        if self.session.is_some() {
            unsafe { cupti::within(self.profiler.context, || self.finish()) };
        }
    }

    /// The same in whatever context is current.
    unsafe fn finish(&mut self) {
        unsafe {
            let Some(g) = self.session.take() else { return };
            let n = core::mem::take(&mut self.in_batch);
            if !self.profiler.stop(g) {
                self.groups.list[g].wanted = 0;
                return;
            }
            let Some(lost) = self.profiler.decode(g) else { return };
            self.lost += lost;
            let Some(ranges) = self.profiler.ranges(g) else { return };
            // Fewer ranges than launches: which belongs to which is not known.
            if (ranges as usize) < n {
                self.lost += n as u32;
                (0..n).for_each(|i| self.uncount(i, g));
                return log::failed(Step::Decode, g as u32, 0x1000 + ranges as u32);
            }
            let group = &self.groups.list[g];
            for (i, launch) in self.batch[..n].iter().enumerate() {
                let Some(values) = self.profiler.values(group, g, i) else { return };
                let [a, b, c, d, e, f] = launch.shape;
                let bytes = core::slice::from_raw_parts(values.as_ptr().cast::<u8>(), group.metrics * 8);
                let met = self.groups.met(g, &values);
                if let Some(known) = self.counted.of(launch) {
                    known.meets |= met;
                }
                log::record(Kind::Range, &[], &[g as u32, launch.name, a, b, c, d, e, f, 0], bytes);
            }
            log::flush();
        }
    }
}
