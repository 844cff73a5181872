//! When a GPU worked: busy and idle time out of the spans of its records.

use super::log::record::Span;
use rprof_profile::device::{Idle, Stretch};

/// A gap below this many nanoseconds is the time between two launches that the host makes one after the other.
const LAUNCH_GAP_NS: u64 = 20_000;

/// Work of less than this many nanoseconds may wait for its launch.
const SHORT_NS: u64 = LAUNCH_GAP_NS;
/// Least number of such pieces of work in a stretch, and least time of the gaps in relation to them.
const LEAST_LAUNCHES: usize = 50;
const LEAST_GAPS: f64 = 0.5;
/// Stretches that are kept.
const STRETCHES: usize = 5;

/// Spans that grow from their records; overlapping ones are one.
#[derive(Debug, Clone, Default)]
pub struct Spans(Vec<Span>);

impl Spans {
    /// Adds a span.
    pub fn add(&mut self, span: Span) {
        if !span.is_known() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.start <= span.start && span.start <= last.end => last.end = last.end.max(span.end),
            _ => self.0.push(span),
        }
    }

    /// The union: in order, without overlaps.
    pub fn union(mut self) -> Vec<Span> {
        self.0.sort_unstable_by_key(|span| (span.start, span.end));
        let mut joined: Vec<Span> = Vec::with_capacity(self.0.len());
        for span in self.0 {
            match joined.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                _ => joined.push(span),
            }
        }
        joined
    }
}

/// The union of two unions.
pub fn either(a: &[Span], b: &[Span]) -> Vec<Span> {
    Spans([a, b].concat()).union()
}

/// Seconds of a union.
pub fn seconds(spans: &[Span]) -> f64 {
    // An empty sum is -0.
    spans.iter().map(Span::seconds).sum::<f64>() + 0.0
}

/// The gaps between the spans of a union.
pub fn gaps(busy: &[Span]) -> Vec<Span> {
    busy.windows(2).map(|pair| Span { start: pair[0].end, end: pair[1].start }).collect()
}

/// Splits the gaps between `busy` by the host's activity: `waits` are spans in which a thread waited for the GPU, `loading` those in which
/// the driver loaded code. All three are unions.
pub fn idle(busy: &[Span], waits: &[Span], loading: &[Span]) -> Idle {
    let gaps = gaps(busy);
    let (short, long): (Vec<Span>, Vec<Span>) = gaps.iter().partition(|gap| gap.end - gap.start < LAUNCH_GAP_NS);
    let waiting_s = overlap(&long, waits);
    Idle {
        launch_s: seconds(&short),
        waiting_s,
        host_s: seconds(&long) - waiting_s,
        loading_s: overlap(&gaps, loading),
    }
}

/// The longest launch-bound stretches of a union, in the order of time.
pub fn stretches(busy: &[Span]) -> Vec<Stretch> {
    let Some(first) = busy.first() else { return Vec::new() };
    let is_short = |span: &Span| span.end - span.start < SHORT_NS;
    let runs = busy.chunk_by(|a, b| is_short(a) && is_short(b) && b.start - a.end < LAUNCH_GAP_NS);
    let stretch = |run: &[Span]| {
        let whole = Span { start: run.first()?.start, end: run.last()?.end };
        let (span_s, busy_s) = (whole.seconds(), seconds(run));
        let is_bound = run.len() >= LEAST_LAUNCHES && span_s - busy_s >= LEAST_GAPS * busy_s;
        let start_s = (whole.start - first.start) as f64 * 1e-9;
        is_bound.then_some(Stretch { start_s, span_s, idle_s: span_s - busy_s, launches: run.len() as u64 })
    };
    let mut found: Vec<Stretch> = runs.filter_map(stretch).collect();
    found.sort_by(|a, b| b.span_s.total_cmp(&a.span_s));
    found.truncate(STRETCHES);
    found.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    found
}

/// Seconds that two unions have in common.
fn overlap(a: &[Span], b: &[Span]) -> f64 {
    let (mut i, mut j, mut ns) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        ns += x.end.min(y.end).saturating_sub(x.start.max(y.start));
        if x.end <= y.end { i += 1 } else { j += 1 }
    }
    ns as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(list: &[(u64, u64)]) -> Vec<Span> {
        let mut spans = Spans::default();
        list.iter().for_each(|(start, end)| spans.add(Span { start: *start, end: *end }));
        spans.union()
    }

    #[test]
    fn overlapping_spans_are_one_whatever_their_order() {
        assert_eq!(spans(&[(50, 60), (10, 20), (15, 30), (30, 40), (55, 58)]), spans(&[(10, 40), (50, 60)]));
        assert!((seconds(&spans(&[(10, 20), (15, 30)])) - 20e-9).abs() < 1e-15);
        assert_eq!(spans(&[(0, 5), (9, 3)]), [], "no start, or an end before it");
    }

    #[test]
    fn gaps_are_split_by_length_and_by_what_the_host_did() {
        let us = 1000;
        let busy = spans(&[(us, 10 * us), (15 * us, 20 * us), (120 * us, 130 * us), (230 * us, 240 * us)]);
        let waits = spans(&[(5 * us, 60 * us), (225 * us, 300 * us)]);
        let idle = idle(&busy, &waits, &spans(&[(100 * us, 110 * us)]));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        close(idle.launch_s, 5e-6);
        close(idle.waiting_s, 45e-6);
        close(idle.host_s, 155e-6);
        close(idle.loading_s, 10e-6);
        close(idle.total_s(), 205e-6);
    }

    #[test]
    fn a_stretch_is_short_work_with_gaps_that_matter() {
        let us = 1000;
        // From `start` on: 60 pieces of `busy` µs, each `gap` µs after the one before.
        let pieces = |start: u64, busy: u64, gap: u64| {
            (0..60).map(move |n| ((start + n * (busy + gap)) * us, (start + n * (busy + gap) + busy) * us))
        };
        let list = |pieces: &[(u64, u64)]| stretches(&spans(pieces));
        let mut all: Vec<(u64, u64)> = vec![(us, 500 * us)];
        all.extend(pieces(505, 1, 3));
        all.push((1_000 * us, 2_000 * us));
        all.extend(pieces(3_000, 10, 1));
        let found = list(&all);
        assert_eq!(found.len(), 1, "long work, and short work without gaps, is none: {found:?}");
        let stretch = &found[0];
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
        close(stretch.start_s, 504e-6);
        close(stretch.span_s, 237e-6);
        close(stretch.idle_s, 177e-6);
        assert_eq!(stretch.launches, 60);
        assert_eq!(list(&pieces(1, 1, 30).collect::<Vec<_>>()), [], "gaps in which the host did something else");
        let many: Vec<_> = (0..8).flat_map(|n| pieces(1 + n * 10_000, 1, 3 + n)).collect();
        let longest = list(&many);
        assert_eq!(longest.len(), STRETCHES);
        assert!(longest.windows(2).all(|pair| pair[0].start_s < pair[1].start_s) && longest[0].start_s > 0.02);
        assert_eq!(stretches(&[]), []);
    }
}
