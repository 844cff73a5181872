//! Marker calls of the timed pass: the regions that a thread is in at a sample, and the duration of each region.

use std::collections::BTreeMap;

use rprof_profile::evidence::marks::{Api, TimedMarks};
use rprof_tracee::markers::call::Mark;
use rprof_tracee::markers::tracker::{Change, Tracker};

/// Follows the calls in order of time. Threads are indices into the evidence's.
#[derive(Debug, Default)]
pub(super) struct Marks {
    tracker: Tracker,
    /// By region.
    spans: Vec<Span>,
    /// Interfaces with calls that rprof does not see, with the reason.
    pub refused: BTreeMap<Api, String>,
}

/// When threads are in a region.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    /// How often it is open now.
    open: u64,
    /// Since when.
    since_s: f64,
    /// Seconds for which it was open.
    seconds: f64,
}

impl Marks {
    /// The path that `thread` is on.
    pub fn path(&self, thread: u32) -> u32 {
        self.tracker.path(thread)
    }

    /// `thread` made a marker call.
    pub fn called(&mut self, now_s: f64, thread: u32, mark: Mark) {
        match self.tracker.note(thread, mark) {
            Change::Opened(region) => self.open(now_s, region),
            Change::Closed(region) => self.close(now_s, region),
            Change::None => {}
        }
    }

    /// `child` is the first thread of a process that `parent` forked.
    pub fn forked(&mut self, now_s: f64, parent: u32, child: u32) {
        for region in self.tracker.forked(parent, child) {
            self.open(now_s, region);
        }
    }

    /// `thread` is over, or executes a program.
    pub fn ended(&mut self, now_s: f64, thread: u32) {
        for region in self.tracker.ended(thread) {
            self.close(now_s, region);
        }
    }

    fn open(&mut self, now_s: f64, region: u32) {
        let region = region as usize;
        if self.spans.len() <= region {
            self.spans.resize(region + 1, Span::default());
        }
        let span = &mut self.spans[region];
        if span.open == 0 {
            span.since_s = now_s;
        }
        span.open += 1;
    }

    fn close(&mut self, now_s: f64, region: u32) {
        let Some(span) = self.spans.get_mut(region as usize).filter(|s| s.open > 0) else { return };
        span.open -= 1;
        if span.open == 0 {
            span.seconds += now_s - span.since_s;
        }
    }

    /// Notes that `records` were lost. Their calls may belong to any thread, so that no thread's region is known.
    pub fn lose(&mut self, records: u64) {
        let why = format!(
            "{records} records were lost, and calls of markers may be among them: they come too fast for this host"
        );
        for api in self.tracker.interfaces() {
            self.refused.entry(api).or_insert_with(|| why.clone());
        }
    }

    /// Ends the pass at `end_s`; `None` if no marker was called.
    pub fn finish(mut self, end_s: f64) -> Option<TimedMarks> {
        self.spans.iter_mut().filter(|s| s.open > 0).for_each(|s| s.seconds += (end_s - s.since_s).max(0.0));
        let marked = self.tracker.finish();
        let mut seconds: Vec<f64> = self.spans.iter().map(|s| s.seconds).collect();
        seconds.resize(marked.regions.len(), 0.0);
        let marks = TimedMarks { marked, seconds, refused: self.refused };
        (!marks.refused.is_empty() || !marks.marked.is_empty()).then_some(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_lasts_while_at_least_one_thread_is_in_it() {
        let mut marks = Marks::default();
        let name = || Some("a".to_owned());
        marks.called(1.0, 0, Mark::Begin(Api::Rprof, name()));
        marks.called(2.0, 1, Mark::Begin(Api::Rprof, name()));
        marks.called(3.0, 0, Mark::End(Api::Rprof, name()));
        assert_eq!((marks.path(0), marks.path(1)), (0, 1));
        marks.called(5.0, 1, Mark::End(Api::Rprof, name()));
        marks.called(6.0, 1, Mark::Begin(Api::Rprof, name()));
        marks.forked(6.5, 1, 2);
        marks.ended(7.0, 1);
        let marks = marks.finish(8.0).unwrap();
        assert_eq!(marks.seconds, [4.0 + 2.0]);
        assert_eq!(marks.marked.regions[0].entries, 3);
    }
}
