//! The watched calls that a thread is in.

/// A call that has not returned, or has an unwatched return.
#[derive(Debug, Clone, PartialEq)]
pub struct Open<W> {
    /// Start of the function.
    pub place: u64,
    /// Stack pointer at its entry: the return address is there.
    pub stack: u64,
    /// Its return address.
    pub returns_to: u64,
    /// Time stamp counter at its entry.
    pub time: u64,
    /// Executions of the function before, if they are counted.
    pub executed: Option<u64>,
    /// Its thread has got a signal since: the handler may have left it by a jump.
    pub may_be_left: bool,
    /// Its family's facts about it.
    pub what: W,
}

/// The calls that one thread is in, outermost first.
#[derive(Debug)]
pub struct OpenCalls<W>(Vec<Open<W>>);

impl<W> Default for OpenCalls<W> {
    fn default() -> Self {
        OpenCalls(Vec::new())
    }
}

impl<W> OpenCalls<W> {
    /// A function begins with its stack pointer at `stack`: calls that began at or below have ended without a record.
    pub fn enter(&mut self, stack: u64) {
        while self.0.last().is_some_and(|open| open.stack <= stack) {
            self.0.pop();
        }
    }

    /// Adds a call.
    pub fn push(&mut self, open: Open<W>) {
        self.0.push(open);
    }

    /// The thread has got a signal.
    pub fn got_signal(&mut self) {
        self.0.iter_mut().for_each(|open| open.may_be_left = true);
    }

    /// The facts about all of them.
    pub fn all(&self) -> impl Iterator<Item = &W> {
        self.0.iter().map(|open| &open.what)
    }

    /// The innermost call that is going on and of which `is_it` holds.
    pub fn innermost(&mut self, is_it: impl Fn(&W) -> bool) -> Option<&mut Open<W>> {
        self.0.iter_mut().rev().find(|open| is_it(&open.what))
    }

    /// Whether the function at `place` was jumped to at the end of the innermost call: it then has the same return
    /// address.
    pub fn is_jump(&self, place: u64, stack: u64, returns_to: u64) -> bool {
        self.0.last().is_some_and(|last| (last.stack, last.returns_to) == (stack, returns_to) && last.place != place)
    }

    /// Whether the innermost one is this call, recorded once more: the thread was put back to the function's start. Returns are watched from
    /// the first call of a site on, so a call that is still open has not returned. One that a signal's handler may have left by a jump is
    /// another if the function was executed since; the number of executions begins anew when rprof takes the counts.
    pub fn repeats(&self, (place, stack, returns_to): (u64, u64, u64), executed: Option<u64>) -> bool {
        self.0.last().is_some_and(|last| {
            (last.place, last.stack, last.returns_to) == (place, stack, returns_to)
                && (!last.may_be_left || last.executed.zip(executed).is_none_or(|(before, now)| now <= before))
        })
    }

    /// A call has returned to `place` with its stack pointer at `stack`.
    pub fn leave(&mut self, place: u64, stack: u64) -> Option<Open<W>> {
        // Calls below have been left by a jump.
        while self.0.last().is_some_and(|open| open.stack + 8 < stack) {
            self.0.pop();
        }
        let is_it = |open: &Open<W>| open.stack + 8 == stack && open.returns_to == place;
        if self.0.last().is_some_and(is_it) { self.0.pop() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(stack: u64, returns_to: u64) -> Open<()> {
        Open { place: 0, stack, returns_to, time: 0, executed: None, may_be_left: false, what: () }
    }

    #[test]
    fn calls_nest_and_are_left() {
        let mut calls = OpenCalls::default();
        calls.enter(0x1000);
        calls.push(open(0x1000, 1));
        calls.enter(0x800);
        calls.push(open(0x800, 2));
        assert_eq!(calls.leave(3, 0x808), None, "another place");
        assert_eq!(calls.leave(2, 0x808).map(|c| c.returns_to), Some(2));
        assert_eq!(calls.leave(1, 0x1008).map(|c| c.returns_to), Some(1));
        assert_eq!(calls.leave(1, 0x1008), None, "once");
    }

    #[test]
    fn a_call_that_is_recorded_once_more_is_the_same() {
        let mut calls = OpenCalls::default();
        calls.push(Open { executed: Some(7), ..open(0x1000, 1) });
        let repeats = |calls: &OpenCalls<()>, executed| calls.repeats((0, 0x1000, 1), executed);
        assert!(repeats(&calls, Some(8)), "no handler has left it");
        calls.got_signal();
        assert_eq!(
            [Some(7), Some(0), None, Some(8)].map(|executed| repeats(&calls, executed)),
            [true, true, true, false]
        );
        assert!(!calls.repeats((0, 0x1000, 2), Some(7)), "from elsewhere");
        assert!(!calls.repeats((0, 0x0ff0, 1), Some(7)), "deeper");
    }

    #[test]
    fn a_jump_out_of_calls_ends_them() {
        let mut calls = OpenCalls::default();
        calls.push(open(0x1000, 1));
        calls.push(open(0x800, 2));
        assert_eq!(calls.leave(1, 0x1008).map(|c| c.returns_to), Some(1));
        calls.push(open(0x800, 2));
        calls.enter(0x900);
        assert_eq!(calls.innermost(|()| true), None);
    }

    #[test]
    fn a_jump_at_the_end_is_no_call_of_its_own() {
        let mut calls = OpenCalls::default();
        assert!(!calls.is_jump(7, 0x800, 2));
        calls.push(open(0x800, 2));
        assert!(calls.is_jump(7, 0x800, 2));
        assert!(!calls.is_jump(0, 0x800, 2), "the same function once more: its return was not seen");
        assert!(!calls.is_jump(7, 0x700, 2));
    }
}
