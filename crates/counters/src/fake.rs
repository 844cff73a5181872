//! A kernel for tests: a few counters, and any refusal on demand.

use std::cell::{Cell, RefCell};
use std::io;

use super::collect::kernel::{GroupKernel, GroupReading, Ring};
use super::collect::record::{Record, written};
use super::encode::Encoding;
use super::kernel::{Flags, PerfKernel, Reading, Scope};

/// A kernel with answers that the test sets.
#[derive(Debug, Default)]
pub struct Fake {
    /// `errno` for opens of this config.
    pub refuse: Vec<(u64, i32)>,
    /// `errno` for opens as a group member of this config.
    pub refuse_in_group: Vec<(u64, i32)>,
    /// Answers to reads of this config.
    pub readings: Vec<(u64, Result<Reading, i32>)>,
    /// Descriptors left; `None`: any number.
    pub descriptors: Option<Cell<u32>>,
    /// The events opened: config words, scope, whether each had a leader.
    pub opened: RefCell<Vec<(Encoding, Scope, bool)>>,
    /// Configs of the events opened to be on the PMU all the time.
    pub pinned: RefCell<Vec<u64>>,
    /// CPU and nanoseconds between two samples of the events opened to sample.
    pub periods: RefCell<Vec<(i32, u64)>>,
    /// CPUs that are offline.
    pub offline: Vec<i32>,
    /// `errno` for opens that ask for readings, as kernels without them answer.
    pub refuse_readings: Option<i32>,
    /// Answers to reads of whole groups, on each CPU.
    pub groups: Vec<(i32, Result<GroupReading, i32>)>,
    /// Records in each CPU's buffer.
    pub records: Vec<(i32, Record)>,
    /// Opens of this config on this CPU fail with this `errno`.
    pub refuse_on: Vec<(u64, i32, i32)>,
    /// `errno` for enabling the events opened on this CPU.
    pub refuse_enable: Vec<(i32, i32)>,
    /// `errno` for reading the events opened on this CPU.
    pub refuse_read: Vec<(i32, i32)>,
    /// Counts that reads of boxes of this kind (PMU type) return.
    pub counts_of_kind: Vec<(u32, u64)>,
    /// Events opened on these CPUs read 0.
    pub silent_on: Vec<i32>,
}

/// Represents an open event.
#[derive(Debug, Clone, Copy)]
pub struct FakeHandle(u64, i32, u32);

/// A buffer of records that were written before.
#[derive(Debug)]
pub struct FakeRing(Vec<Vec<u8>>);

impl Ring for FakeRing {
    fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        self.0.drain(..).for_each(|bytes| take(&bytes));
    }
}

/// A read of fewer bytes than asked, among the `errno`s of [`Fake::readings`].
pub const SHORT: i32 = -1;

fn refusal(list: &[(u64, i32)], config: u64) -> io::Result<()> {
    match list.iter().find(|(c, _)| *c == config) {
        Some((_, errno)) => Err(io::Error::from_raw_os_error(*errno)),
        None => Ok(()),
    }
}

fn on_cpu(list: &[(i32, i32)], handle: &FakeHandle) -> io::Result<()> {
    match list.iter().find(|(cpu, _)| *cpu == handle.1) {
        Some((_, SHORT)) => Err(io::ErrorKind::UnexpectedEof.into()),
        Some((_, errno)) => Err(io::Error::from_raw_os_error(*errno)),
        None => Ok(()),
    }
}

impl PerfKernel for Fake {
    type Handle = FakeHandle;

    fn open(&self, e: Encoding, scope: Scope, leader: Option<&FakeHandle>, flags: Flags) -> io::Result<FakeHandle> {
        if self.offline.contains(&scope.cpu) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        if let Some(errno) = self.refuse_readings.filter(|_| flags.readings) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if let Some((.., errno)) = self.refuse_on.iter().find(|(c, cpu, _)| (*c, *cpu) == (e.config, scope.cpu)) {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        refusal(&self.refuse, e.config)?;
        if leader.is_some() {
            refusal(&self.refuse_in_group, e.config)?;
        }
        if let Some(left) = &self.descriptors {
            let left_now = left.get().checked_sub(1).ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
            left.set(left_now);
        }
        self.opened.borrow_mut().push((e, scope, leader.is_some()));
        if flags.pinned {
            self.pinned.borrow_mut().push(e.config);
        }
        if flags.sample_period_ns > 0 {
            self.periods.borrow_mut().push((scope.cpu, flags.sample_period_ns));
        }
        Ok(FakeHandle(e.config, scope.cpu, e.kind))
    }

    fn read(&self, handle: &FakeHandle) -> io::Result<Reading> {
        on_cpu(&self.refuse_read, handle)?;
        if self.silent_on.contains(&handle.1) {
            return Ok(Reading { value: 0, enabled_ns: 1000, running_ns: 1000 });
        }
        if let Some((_, value)) = self.counts_of_kind.iter().find(|(kind, _)| *kind == handle.2) {
            return Ok(Reading { value: *value, enabled_ns: 1000, running_ns: 1000 });
        }
        match self.readings.iter().find(|(c, _)| *c == handle.0) {
            Some((_, Ok(reading))) => Ok(*reading),
            Some((_, Err(SHORT))) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some((_, Err(errno))) => Err(io::Error::from_raw_os_error(*errno)),
            None => Ok(Reading { value: handle.0, enabled_ns: 1000, running_ns: 1000 }),
        }
    }

    fn enable(&self, handle: &FakeHandle) -> io::Result<()> {
        on_cpu(&self.refuse_enable, handle)
    }

    fn disable(&self, _: &FakeHandle) -> io::Result<()> {
        Ok(())
    }
}

impl GroupKernel for Fake {
    type Ring = FakeRing;

    fn id(&self, handle: &FakeHandle) -> io::Result<u64> {
        Ok(Fake::id_of(handle.0, handle.1))
    }

    fn read_group(&self, leader: &FakeHandle, events: usize) -> io::Result<GroupReading> {
        match self.groups.iter().find(|(cpu, _)| *cpu == leader.1) {
            Some((_, Ok(reading))) => Ok(reading.clone()),
            Some((_, Err(SHORT))) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some((_, Err(errno))) => Err(io::Error::from_raw_os_error(*errno)),
            None => Ok(GroupReading { enabled_ns: 1000, running_ns: 1000, values: vec![1; events] }),
        }
    }

    fn ring(&self, handle: &FakeHandle, _: usize) -> io::Result<FakeRing> {
        let of_cpu = self.records.iter().filter(|(cpu, _)| *cpu == handle.1);
        Ok(FakeRing(of_cpu.map(|(_, record)| written::record(record)).collect()))
    }

    fn redirect(&self, _: &FakeHandle, _: &FakeHandle) -> io::Result<()> {
        Ok(())
    }
}

impl Fake {
    /// The event id of a config on a CPU.
    pub fn id_of(config: u64, cpu: i32) -> u64 {
        config << 8 | cpu as u64
    }
}
