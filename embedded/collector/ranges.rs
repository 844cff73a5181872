//! Which launches are counted, with which group of metrics.
//!
//! Groups of metrics take turns. A session counts one group: it begins with a launch whose kernel and shape lack that group and ends after
//! [`BATCH`] launches, or when several launches in a row do not lack it (at once, if the group makes a launch run several times). A group
//! can have a condition: it is counted for kernels in which that metric of another group was not 0. Ranges come in the order of launches,
//! and a launch that failed has none. Launches in a second context are not counted; the numbers of launches that are not counted go to the
//! log.

use core::ffi::c_void;

use crate::groups::Groups;
use crate::launches::{Counted, GROUPS, Launch};
use crate::log::{self, Kind, Step};
use crate::profiler::{BATCH, Begun, Profiler};
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
    pub captured: u32,
    elsewhere: u32,
    pub graphs: u32,
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
    captured: 0,
    elsewhere: 0,
    graphs: 0,
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
                let numbers = [self.captured, self.elsewhere, self.graphs, self.lost, self.over];
                log::record(Kind::Uncounted, &[], &numbers, &[]);
            }
        }
        self.state = State::Off;
    }

    /// `context` is about to be destroyed.
    pub unsafe fn lose(&mut self, context: *mut c_void) {
        if self.profiler.context == context && self.state == State::Ready {
            unsafe { self.stop() };
            self.profiler.context = core::ptr::null_mut();
            self.state = State::Gone;
        }
    }

    /// A launch begins in `context`.
    pub unsafe fn launched(&mut self, context: *mut c_void, launch: Launch) {
        unsafe {
            if self.state == State::New {
                let is_set_up = self.profiler.set_up(context, &mut self.groups);
                self.state = if is_set_up { State::Ready } else { State::Off };
            }
            if self.state == State::Gone || self.state == State::Ready && context != self.profiler.context {
                self.elsewhere += 1;
                return;
            }
            if self.state != State::Ready {
                return;
            }
            let enough = self.total >= MOST;
            let (groups, profiler) = (&self.groups.list, &self.profiler);
            let Some(known) = self.counted.of(&launch) else { return };
            let lacks = |g: &usize| !enough && groups[*g].is_lacked_by(known, *g);
            // Another group's turn comes when no launch has lacked this one's for a while: it takes a new profiler.
            let wanted = profiler.configured.filter(lacks).or_else(|| {
                let may_change = profiler.configured.is_none() || self.idle >= IDLE;
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
        match unsafe { self.profiler.begin(&self.groups.list[g], g) } {
            Begun::Started => self.session = Some(g),
            Begun::Refused => self.groups.list[g].wanted = 0,
            Begun::Broken => {
                self.state = State::Off;
                return;
            }
        }
        self.in_batch = 0;
    }

    /// Ends the session under way and writes its values down.
    pub unsafe fn stop(&mut self) {
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
            // Fewer ranges than launches: which is whose is not known.
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
