//! A kernel for tests: a few counters, and any refusal on demand.

use std::cell::{Cell, RefCell};
use std::io;

use super::encode::Encoding;
use super::kernel::{Flags, PerfKernel, Reading, Scope};

/// Answers as it is told.
#[derive(Debug, Default)]
pub struct Fake {
    /// `errno` for opens of this config.
    pub refuse: Vec<(u64, i32)>,
    /// `errno` for opens as a group member of this config.
    pub refuse_in_group: Vec<(u64, i32)>,
    /// What reads of this config answer.
    pub readings: Vec<(u64, Result<Reading, i32>)>,
    /// Descriptors left; `None`: any number.
    pub descriptors: Option<Cell<u32>>,
    /// What was opened: config, scope, whether it had a leader.
    pub opened: RefCell<Vec<(u64, Scope, bool)>>,
}

/// Stands for an open event.
#[derive(Debug, Clone, Copy)]
pub struct FakeHandle(u64);

/// A read of fewer bytes than asked, among the `errno`s of [`Fake::readings`].
pub const SHORT: i32 = -1;

fn refusal(list: &[(u64, i32)], config: u64) -> io::Result<()> {
    match list.iter().find(|(c, _)| *c == config) {
        Some((_, errno)) => Err(io::Error::from_raw_os_error(*errno)),
        None => Ok(()),
    }
}

impl PerfKernel for Fake {
    type Handle = FakeHandle;

    fn open(&self, e: Encoding, scope: Scope, leader: Option<&FakeHandle>, _: Flags) -> io::Result<FakeHandle> {
        refusal(&self.refuse, e.config)?;
        if leader.is_some() {
            refusal(&self.refuse_in_group, e.config)?;
        }
        if let Some(left) = &self.descriptors {
            let left_now = left.get().checked_sub(1).ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
            left.set(left_now);
        }
        self.opened.borrow_mut().push((e.config, scope, leader.is_some()));
        Ok(FakeHandle(e.config))
    }

    fn read(&self, handle: &FakeHandle) -> io::Result<Reading> {
        match self.readings.iter().find(|(c, _)| *c == handle.0) {
            Some((_, Ok(reading))) => Ok(*reading),
            Some((_, Err(SHORT))) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some((_, Err(errno))) => Err(io::Error::from_raw_os_error(*errno)),
            None => Ok(Reading { value: handle.0, enabled_ns: 1000, running_ns: 1000 }),
        }
    }

    fn enable(&self, _: &FakeHandle) -> io::Result<()> {
        Ok(())
    }

    fn disable(&self, _: &FakeHandle) -> io::Result<()> {
        Ok(())
    }
}
