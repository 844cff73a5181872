//! The log: a header, then records. Numbers are in the machine's byte order.
//!
//! No descriptor is kept: the program may close it and open a file of its own with the same number.
//!
//! A record is its kind (`u32`), the bytes that follow (`u32`), and these. `crates/device/src/log/record.rs` has the same list.
//!
//! | kind | content |
//! | --- | --- |
//! | 1 start | u64: process, CUPTI's version, driver's version, its clock, realtime, monotonic (ns), loaded before us (0, 1) |
//! | 2 name | u32 id, then the text |
//! | 3 kernel | u64 start, end (ns), graph node; u32 name, device, context, stream, grid ×3, block ×3, registers, shared static and dynamic, local |
//! | 4 copy | u64 start, end, bytes; u32 copy kind, from, to, device, context, stream |
//! | 5 fill | u64 start, end, bytes; u32 memory kind, device, context, stream |
//! | 6 wait | u64 start, end; u32 type, context, stream |
//! | 7 overhead | u64 start, end; u32 kind |
//! | 8 end | u64: CUPTI's clock, realtime, monotonic, buffers asked for, buffers completed, records, records lost, ns in callbacks |
//! | 9 failed | u32 step, result |
//! | 10 passes | u32 group, passes |
//! | 11 range | u32 group, name, grid ×3, block ×3, 0; then f64 values in the order of the metrics |
//! | 12 uncounted | u32: launches during a capture, launches in other contexts, launches of graphs of which none was counted, ranges dropped, launches after the last counted one |
//! | 13 chip | text |
//! | 14 metric | u32 group, then text: the next metric of that group |
//! | 15 graph range | u32 group, number of the graph; then f64 values of one launch, in the order of the metrics |
//! | 16 graph | u32 number, launches |

use core::ffi::c_char;

use crate::cupti;
use crate::system::{self, Locked};

/// Begins every log; the last byte is the version.
const MAGIC: [u8; 8] = *b"RPROFGP\x01";
const BUFFER: usize = 64 << 10;
const PATH: usize = 4096;
/// Attempts to write a part: signals interrupt.
const ATTEMPTS: u32 = 16;
/// Longest text in a record; longer names end there.
const TEXT: usize = 16 << 10;

#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Kind {
    Start = 1,
    Name = 2,
    Kernel = 3,
    Copy = 4,
    Fill = 5,
    Wait = 6,
    Overhead = 7,
    End = 8,
    Failed = 9,
    Passes = 10,
    Range = 11,
    Uncounted = 12,
    Chip = 13,
    Group = 14,
    GraphRange = 15,
    Graph = 16,
}

/// The step that failed; the numbers are in the log.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Step {
    /// No libcupti was found.
    NoLibrary = 1,
    /// libcupti lacks a function that is needed.
    NoFunction = 2,
    /// The callbacks for buffers were refused.
    Register = 3,
    /// A kind of record was refused; the kind is added times 256.
    Enable = 4,
    /// Another client subscribed to callbacks first.
    Subscribe = 5,
    /// Counting: initialisation.
    Initialize = 6,
    /// Counting: chip name.
    Chip = 7,
    /// Counting: the metrics of a group were refused.
    Metrics = 8,
    /// Counting in this context was refused.
    Context = 9,
    /// Counting: memory for the counters.
    Image = 10,
    /// Counting: the configuration was refused.
    Configure = 11,
    /// Counting: start.
    Start = 12,
    /// Counting: stop.
    Stop = 13,
    /// Counting: decoding.
    Decode = 14,
    /// Counting: evaluation.
    Evaluate = 15,
    /// The file of groups could not be read.
    Groups = 16,
    /// Counting is not supported on this device; the result has four bits for each obstacle.
    Unsupported = 17,
}

struct Log {
    /// Its path; empty: none.
    path: [u8; PATH],
    used: usize,
    buffer: [u8; BUFFER],
}

static LOG: Locked<Log> = Locked::new(Log { path: [0; PATH], used: 0, buffer: [0; BUFFER] });

impl Log {
    unsafe fn put(&mut self, bytes: &[u8]) {
        if self.used + bytes.len() > BUFFER {
            unsafe { self.flush() };
        }
        if bytes.len() > BUFFER {
            return;
        }
        self.buffer[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    unsafe fn flush(&mut self) {
        if self.path[0] == 0 || self.used == 0 {
            self.used = 0;
            return;
        }
        unsafe {
            let fd = system::open(self.path.as_ptr().cast(), system::APPEND, 0);
            if fd < 0 {
                self.path[0] = 0;
                return;
            }
            let (mut done, mut failures) = (0, 0);
            while done < self.used && failures < ATTEMPTS {
                match system::write(fd, self.buffer.as_ptr().add(done), self.used - done) {
                    n if n > 0 => done += n as usize,
                    _ => failures += 1,
                }
            }
            if done < self.used {
                // A full disk: later records would not fit to the one that was cut.
                self.path[0] = 0;
            }
            system::close(fd);
        }
        self.used = 0;
    }
}

/// Makes the log of this process; whether there is one.
pub unsafe fn open() -> bool {
    unsafe {
        let folder = system::variable(c"RPROF_GPU_LOG");
        if folder.is_null() {
            return false;
        }
        let folder = system::text(folder);
        for attempt in 0..100 {
            let mut path = [0u8; PATH];
            if folder.len() > path.len() - 64 {
                return false;
            }
            path[..folder.len()].copy_from_slice(folder);
            let mut used = folder.len();
            for part in [&b"/gpu-"[..], &digits(system::getpid() as u64), b"-", &digits(attempt), b".log"] {
                for byte in part.iter().filter(|b| **b != 0) {
                    path[used] = *byte;
                    used += 1;
                }
            }
            let fd = system::open(path.as_ptr().cast::<c_char>(), system::NEW_FILE, 0o600);
            if fd >= 0 {
                system::close(fd);
                LOG.with(|log| {
                    log.path = path;
                    log.put(&MAGIC);
                });
                return true;
            }
        }
        false
    }
}

/// Decimal digits, zero bytes before them.
fn digits(mut n: u64) -> [u8; 20] {
    let mut out = [0; 20];
    for place in out.iter_mut().rev() {
        *place = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out
}

/// The first record.
pub unsafe fn start() {
    unsafe {
        let (version, driver) = (cupti::version(), cupti::driver_version());
        cupti::timestamp();
        let (clock, real, mono) =
            (cupti::timestamp(), system::now(system::CLOCK_REALTIME), system::now(system::CLOCK_MONOTONIC));
        let values =
            [system::getpid() as u64, version, driver, clock, real, mono, u64::from(cupti::was_loaded())];
        record(Kind::Start, &values, &[], &[]);
        flush();
    }
}

/// Writes a record of 64-bit numbers, 32-bit numbers and bytes.
pub unsafe fn record(kind: Kind, wide: &[u64], narrow: &[u32], bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(TEXT)];
    let length = wide.len() * 8 + narrow.len() * 4 + bytes.len();
    LOG.with(|log| unsafe {
        if log.used + 8 + length > BUFFER {
            log.flush();
        }
        log.put(&(kind as u32).to_ne_bytes());
        log.put(&(length as u32).to_ne_bytes());
        wide.iter().for_each(|n| log.put(&n.to_ne_bytes()));
        narrow.iter().for_each(|n| log.put(&n.to_ne_bytes()));
        log.put(bytes);
    });
}

/// A step that failed; results of 0 are none.
pub unsafe fn failed(step: Step, detail: u32, result: u32) {
    if result != 0 {
        unsafe {
            record(Kind::Failed, &[], &[step as u32 + detail * 256, result], &[]);
            flush();
        }
    }
}

pub unsafe fn flush() {
    LOG.with(|log| unsafe { log.flush() });
}

/// Ends the log.
pub unsafe fn end() {
    LOG.with(|log| unsafe {
        log.flush();
        log.path[0] = 0;
    });
}
