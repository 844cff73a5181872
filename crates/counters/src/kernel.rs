//! The system calls, behind a trait so that their refusals can be tested on any host.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::encode::Encoding;

/// The task and CPU that an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Task; −1: every task (needs rights).
    pub pid: i32,
    /// CPU; −1: any.
    pub cpu: i32,
}

/// How an event is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Children and threads made later are counted, too.
    pub inherit: bool,
    /// Starts when the task executes a program.
    pub enable_on_exec: bool,
    /// Opened disabled.
    pub disabled: bool,
    /// Leaves kernel mode out (an unprivileged user must ask for this).
    pub exclude_kernel: bool,
    /// Must always be on the PMU or fail.
    pub pinned: bool,
    /// Nanoseconds between two samples of a clock event; 0: it counts only.
    pub sample_period_ns: u64,
    /// Records each thread's readings at every sample and at the thread's end (Linux 6.12 for inherited events).
    pub readings: bool,
}

/// The result of a read: the count and how long it was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Raw count.
    pub value: u64,
    /// Nanoseconds enabled.
    pub enabled_ns: u64,
    /// Nanoseconds on the PMU.
    pub running_ns: u64,
}

/// The calls that the counters make to the kernel.
pub trait PerfKernel {
    /// An open event.
    type Handle;
    /// `perf_event_open`.
    fn open(
        &self,
        encoding: Encoding,
        scope: Scope,
        leader: Option<&Self::Handle>,
        flags: Flags,
    ) -> io::Result<Self::Handle>;
    /// `read`: an error, or fewer bytes than asked (as `UnexpectedEof`).
    fn read(&self, handle: &Self::Handle) -> io::Result<Reading>;
    /// `PERF_EVENT_IOC_ENABLE`, for the whole group.
    fn enable(&self, handle: &Self::Handle) -> io::Result<()>;
    /// `PERF_EVENT_IOC_DISABLE`, for the whole group.
    fn disable(&self, handle: &Self::Handle) -> io::Result<()>;
}

/// The running kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Linux;

const READING_BYTES: usize = 24;

/// Breakpoints take their kind from `config` and their address from `config1` of the encoding.
const PERF_TYPE_BREAKPOINT: u32 = 5;

impl PerfKernel for Linux {
    type Handle = OwnedFd;

    fn open(&self, encoding: Encoding, scope: Scope, leader: Option<&OwnedFd>, flags: Flags) -> io::Result<OwnedFd> {
        use perf_event_open_sys::bindings as sys;
        let mut attr = sys::perf_event_attr::default();
        attr.type_ = encoding.kind;
        attr.size = std::mem::size_of::<sys::perf_event_attr>() as u32;
        attr.config = encoding.config;
        attr.read_format = u64::from(sys::PERF_FORMAT_TOTAL_TIME_ENABLED | sys::PERF_FORMAT_TOTAL_TIME_RUNNING);
        attr.set_inherit(flags.inherit.into());
        attr.set_enable_on_exec(flags.enable_on_exec.into());
        attr.set_disabled(flags.disabled.into());
        attr.set_exclude_kernel(flags.exclude_kernel.into());
        attr.set_exclude_hv(flags.exclude_kernel.into());
        attr.set_pinned(flags.pinned.into());
        if flags.readings {
            attr.read_format |= u64::from(sys::PERF_FORMAT_GROUP | sys::PERF_FORMAT_ID);
            attr.sample_type =
                u64::from(sys::PERF_SAMPLE_IP | sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_READ);
            attr.__bindgen_anon_1.sample_period = flags.sample_period_ns;
            attr.set_inherit_stat(1);
            attr.set_sample_id_all(1);
            attr.set_use_clockid(1);
            attr.clockid = libc::CLOCK_MONOTONIC;
        }
        if encoding.kind == PERF_TYPE_BREAKPOINT {
            attr.bp_type = encoding.config as u32;
            attr.config = 0;
            attr.__bindgen_anon_3.bp_addr = encoding.config1;
            attr.__bindgen_anon_4.bp_len = std::mem::size_of::<libc::c_long>() as u64;
        } else {
            attr.__bindgen_anon_3.config1 = encoding.config1;
            attr.__bindgen_anon_4.config2 = encoding.config2;
        }
        let group = leader.map_or(-1, |l| l.as_raw_fd());
        // SAFETY: `attr` is a fully initialised attribute of the size that it states.
        let fd = unsafe {
            perf_event_open_sys::perf_event_open(
                &raw mut attr,
                scope.pid,
                scope.cpu,
                group,
                libc::c_ulong::from(sys::PERF_FLAG_FD_CLOEXEC),
            )
        };
        // SAFETY: a descriptor that the kernel has just given us.
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
    }

    fn read(&self, handle: &OwnedFd) -> io::Result<Reading> {
        let mut bytes = [0u8; READING_BYTES];
        // SAFETY: reads at most READING_BYTES into a buffer of that size.
        let got = unsafe { libc::read(handle.as_raw_fd(), bytes.as_mut_ptr().cast(), READING_BYTES) };
        match got {
            n if n < READING_BYTES as isize => Err(too_little(n)),
            _ => {
                let word = |i: usize| u64::from_ne_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap_or_default());
                Ok(Reading { value: word(0), enabled_ns: word(1), running_ns: word(2) })
            }
        }
    }

    fn enable(&self, handle: &OwnedFd) -> io::Result<()> {
        use perf_event_open_sys::ioctls;
        // SAFETY: a perf descriptor; the argument is a flag.
        check(unsafe { ioctls::ENABLE(handle.as_raw_fd(), 1) })
    }

    fn disable(&self, handle: &OwnedFd) -> io::Result<()> {
        use perf_event_open_sys::ioctls;
        // SAFETY: a perf descriptor; the argument is a flag.
        check(unsafe { ioctls::DISABLE(handle.as_raw_fd(), 1) })
    }
}

/// Why a read that gave `got` is no count. A pinned event that lost its counter answers with an end of file.
pub(super) fn too_little(got: isize) -> io::Error {
    match got {
        n if n < 0 => io::Error::last_os_error(),
        0 => io::Error::from_raw_os_error(libc::EIO),
        _ => io::ErrorKind::UnexpectedEof.into(),
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
