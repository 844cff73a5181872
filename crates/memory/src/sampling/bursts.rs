//! The schedule of bursts, short collections of all accesses for L1, which the sampled lines do not describe.
//!
//! One line in 32 is collected throughout a window and simulates L2 and the last level at that part of their size: whole sets, always the
//! same ones, so that no line is forgotten and none counted twice. Such lines are weak evidence about L1: they fill its sets only in
//! part. L1 is therefore sampled in time: now and then all accesses of all threads are collected for a short while; its lines, some
//! hundreds, are warm again after a small part of it.

use rprof_basics::random::mix;

/// Accesses of one burst, each thread.
const BURST: u64 = 16_384;
/// Accesses at the start of a burst that warm L1 up and are not counted.
const WARM_UP: u64 = 4_096;
/// A burst lasts up to this many times as long for threads that have not had theirs: they notice it when their buffers of selected
/// accesses are full.
const PATIENCE: u64 = 8;
/// Selected accesses between two bursts, on average, all threads together: about a million accesses.
const BETWEEN: u64 = 32_768;

/// The schedule of bursts, common to all threads so that the bursts of all threads overlap.
#[derive(Debug)]
pub struct BurstSchedule {
    bursting: bool,
    /// Selected accesses until the next burst, or remaining accesses of this one.
    left: u64,
    bursts: u64,
    threads: Vec<Progress>,
}

/// Progress of a thread in its present burst.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    collected: u64,
    /// Whether it was in selected collection before: its L1 is stale at the start.
    stale: bool,
    seen: bool,
}

impl BurstSchedule {
    /// Starts with a burst, so that short programs are covered.
    pub fn new() -> Self {
        BurstSchedule { bursting: true, left: BURST, bursts: 1, threads: Vec::new() }
    }

    /// Maximum lines of a batch that count as part of a burst: a batch may hold strings of any length, collected before the engine could
    /// learn that the burst is over.
    pub const LONGEST: u64 = PATIENCE * BURST;

    /// Whether all accesses are to be collected next.
    pub fn bursting(&self) -> bool {
        self.bursting
    }

    /// A pause ends: the caches are stale, and the window measures a burst first, so that a program which selects little
    /// (few lines, again and again) has one in each window.
    pub fn begin_window(&mut self) {
        self.threads.iter_mut().filter(|p| p.seen).for_each(|p| (p.collected, p.stale) = (0, true));
        self.begin_burst();
    }

    /// Time has passed in a window or at the start, which continue: starts a burst, unless there is one. Threads that access few lines may
    /// never have any of them selected, and would otherwise have no burst.
    pub fn go_on(&mut self) {
        if !self.bursting {
            self.begin_window();
        }
    }

    /// The engine collects `thread` from now on.
    pub fn meet(&mut self, thread: u32) {
        let fresh = !self.progress(thread).seen;
        if fresh && self.bursting && self.threads_seen() > 0 {
            self.left += BURST;
        }
        self.progress(thread).seen = true;
    }

    /// Ends `thread`: the present burst does not wait for it, nor do later ones.
    pub fn end(&mut self, thread: u32) {
        let progress = self.progress(thread);
        let missing = if progress.seen { BURST.saturating_sub(progress.collected) } else { 0 };
        progress.seen = false;
        if self.bursting {
            self.spend(missing, false);
        }
    }

    fn begin_burst(&mut self) {
        self.bursting = true;
        self.bursts += 1;
        self.left = BURST * self.threads_seen().max(1);
    }

    fn threads_seen(&self) -> u64 {
        self.threads.iter().filter(|p| p.seen).count() as u64
    }

    /// Notes `accesses` of `thread`, all collected or selected ones; returns how many of them only warm L1 up.
    pub fn note(&mut self, thread: u32, selected: bool, accesses: u64) -> u64 {
        if selected {
            self.selected(thread, accesses);
            return 0;
        }
        self.all(thread, accesses)
    }

    /// Notes the next `accesses`, all collected, of `thread`; returns how many of them only warm the caches up.
    pub fn all(&mut self, thread: u32, accesses: u64) -> u64 {
        self.meet(thread);
        let progress = self.progress(thread);
        let warm_up = if progress.stale { WARM_UP.saturating_sub(progress.collected).min(accesses) } else { 0 };
        let share = BURST.saturating_sub(progress.collected).min(accesses);
        progress.collected += accesses;
        let is_alone = progress.collected >= PATIENCE * BURST;
        if self.bursting {
            self.spend(share, is_alone);
        }
        warm_up
    }

    /// Notes that `accesses` of this burst are done or will not come. `enough`: it ends in any case.
    fn spend(&mut self, accesses: u64, enough: bool) {
        self.left = self.left.saturating_sub(accesses);
        if self.left == 0 || enough {
            self.bursting = false;
            // Not strictly periodic: a program's own period must not coincide with this one.
            self.left = BETWEEN / 2 + mix(self.bursts) % BETWEEN;
        }
    }

    /// Notes `accesses` selected ones of `thread`.
    pub fn selected(&mut self, thread: u32, accesses: u64) {
        *self.progress(thread) = Progress { collected: 0, stale: true, seen: true };
        if !self.bursting {
            self.left = self.left.saturating_sub(accesses);
            if self.left == 0 {
                self.begin_burst();
            }
        }
    }

    /// Whether `thread` was ever collected in part.
    pub fn was_sampled(&self, thread: u32) -> bool {
        self.threads.get(thread as usize).is_some_and(|p| p.stale)
    }

    fn progress(&mut self, thread: u32) -> &mut Progress {
        let index = thread as usize;
        if self.threads.len() <= index {
            self.threads.resize(index + 1, Progress::default());
        }
        &mut self.threads[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_come_and_go_and_warm_up() {
        let mut rhythm = BurstSchedule::new();
        let (mut all, mut selected, mut warm_up) = (0, 0, 0);
        for _ in 0..10_000 {
            if rhythm.bursting() {
                warm_up += rhythm.all(0, 1024);
                all += 1024;
            } else {
                rhythm.selected(0, 1024);
                selected += 1024;
            }
        }
        // Every burst but the first, which starts with the program, is warmed up.
        let bursts = all / BURST;
        assert!(warm_up <= (bursts + 1) * WARM_UP && warm_up >= (bursts - 1) * WARM_UP, "{bursts} {warm_up}");
        let duty = all as f64 / (all + selected * 32) as f64;
        assert!((0.01..0.03).contains(&duty), "{duty}");
        assert!(rhythm.was_sampled(0) && !rhythm.was_sampled(1));
    }

    #[test]
    fn a_burst_waits_for_threads_that_have_not_had_theirs() {
        let mut rhythm = BurstSchedule::new();
        rhythm.all(0, BURST);
        (0..2).for_each(|thread| rhythm.selected(thread, 1));
        rhythm.begin_window();
        rhythm.all(0, 2 * BURST);
        assert!(rhythm.bursting());
        rhythm.all(1, BURST);
        assert!(!rhythm.bursting());
        rhythm.begin_window();
        rhythm.all(0, PATIENCE * BURST);
        assert!(!rhythm.bursting(), "the other one may be gone");
    }

    #[test]
    fn a_burst_does_not_wait_for_threads_that_ended() {
        let mut rhythm = BurstSchedule::new();
        (0..3).for_each(|thread| rhythm.meet(thread));
        rhythm.all(0, BURST);
        rhythm.all(1, BURST / 2);
        rhythm.end(1);
        assert!(rhythm.bursting(), "the third one's is missing");
        rhythm.end(2);
        assert!(!rhythm.bursting());
        rhythm.begin_window();
        rhythm.all(0, BURST);
        assert!(!rhythm.bursting(), "it is the only one left");
    }

    #[test]
    fn a_window_begins_with_a_burst() {
        let mut rhythm = BurstSchedule::new();
        rhythm.all(0, BURST);
        assert!(!rhythm.bursting());
        rhythm.begin_window();
        assert!(rhythm.bursting() && rhythm.was_sampled(0));
        assert_eq!((rhythm.all(0, WARM_UP + 10), rhythm.all(0, 10)), (WARM_UP, 0));
    }

    #[test]
    fn a_thread_that_is_always_collected_is_never_warmed_up() {
        let mut rhythm = BurstSchedule::new();
        assert_eq!((0..1000).map(|_| rhythm.all(3, 1000)).sum::<u64>(), 0);
    }
    #[test]
    fn threads_that_nothing_is_selected_of_have_bursts() {
        let mut rhythm = BurstSchedule::new();
        rhythm.all(0, BURST);
        assert!(!rhythm.bursting());
        (1..3).for_each(|thread| rhythm.meet(thread));
        rhythm.go_on();
        assert!(rhythm.bursting());
        rhythm.all(1, BURST);
        rhythm.go_on();
        assert!(rhythm.bursting(), "it waits for the others");
        assert_eq!(rhythm.all(2, BURST), WARM_UP);
        rhythm.all(0, BURST);
        assert!(!rhythm.bursting());
    }
}
