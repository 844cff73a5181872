//! Records of the perf ring buffers as the recorder needs them.

use perf_event::data::endian::Native;
use perf_event::data::parse::{ParseConfig, Parser};
use perf_event::data::{Comm, Exit, Fork, Lost, LostSamples, Mmap2, RecordMetadata};
use perf_event::data::{Sample, SampleId, Throttle, Visitor};

use crate::x86_64::registers::{self, Registers};
use rprof_tracee::build_id::hex;
use rprof_tracee::path_text;

/// A record and when the kernel wrote it (nanoseconds of CLOCK_MONOTONIC).
#[derive(Debug)]
pub(super) struct Event {
    pub time_ns: u64,
    pub kind: Kind,
}

/// The content of a record.
#[derive(Debug)]
pub(super) enum Kind {
    /// Executable memory was mapped.
    Map {
        pid: u32,
        start: u64,
        length: u64,
        file_offset: u64,
        path: String,
        inode: Option<u64>,
        build_id: Option<String>,
    },
    /// A process or thread was created.
    Fork { parent: u32, parent_tid: u32, pid: u32, tid: u32 },
    /// A thread ended.
    Exit { tid: u32 },
    /// A thread was named.
    Name { pid: u32, tid: u32, name: String },
    /// A process executed a program.
    Exec { pid: u32, tid: u32, name: String },
    /// A thread was put on a CPU, or taken off it; `preempted`: taken off although it could have run on.
    Switch { pid: u32, tid: u32, on: bool, preempted: bool },
    /// Records were lost, samples or others.
    Lost { records: u64 },
    /// The kernel held samples back to save time.
    Throttled,
    /// A sample.
    Sample(Box<RawSample>),
}

/// A sample with the user's context.
#[derive(Debug)]
pub(super) struct RawSample {
    pub pid: u32,
    pub tid: u32,
    pub period: u64,
    pub kernel: bool,
    pub cpu: Option<u32>,
    pub registers: Option<Registers>,
    /// From the stack pointer upwards.
    pub stack: Vec<u8>,
    /// The user-space instruction, then return addresses.
    pub chain: Vec<u64>,
}

/// Parses a record with its header; `None` for kinds that rprof does not use, and for damaged ones.
pub(super) fn read(bytes: &[u8], config: &ParseConfig<Native>) -> Option<Event> {
    let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let mut parser = Parser::new(bytes, config.clone());
    if kind == RECORD_SWITCH {
        // Only its metadata, which the parser of whole records does not expect.
        let (_, metadata) = parser.parse_metadata().ok()?;
        return switch(&metadata);
    }
    parser.parse_record(ToEvent).ok().flatten()
}

// include/uapi/linux/perf_event.h
const RECORD_SWITCH: u32 = 14;
const MISC_COMM_EXEC: u16 = 1 << 13;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
const MISC_CPUMODE: u16 = 7;
const MISC_USER: u16 = 2;
const CONTEXT_MAX: u64 = -4095i64 as u64;
const PROT_EXEC: u32 = 4;

struct ToEvent;

fn at(id: &SampleId, kind: Kind) -> Option<Event> {
    Some(Event { time_ns: id.time()?, kind })
}

fn switch(metadata: &RecordMetadata) -> Option<Event> {
    let id = metadata.sample_id();
    let on = metadata.misc() & MISC_SWITCH_OUT == 0;
    // Set since Linux 4.17.
    let preempted = !on && metadata.misc() & MISC_SWITCH_OUT_PREEMPT != 0;
    at(id, Kind::Switch { pid: id.pid()?, tid: id.tid()?, on, preempted })
}

impl<'a> Visitor<'a> for ToEvent {
    type Output = Option<Event>;

    fn visit_unimplemented(self, _: RecordMetadata) -> Self::Output {
        None
    }

    fn visit_mmap2(self, r: Mmap2<'a>, metadata: RecordMetadata) -> Self::Output {
        if r.prot & PROT_EXEC == 0 {
            return None;
        }
        let path = path_text::encode(&r.filename);
        let inode = r.ino().filter(|number| *number != 0);
        let build_id = r.build_id().filter(|id| !id.is_empty()).map(hex);
        let (pid, start, length, file_offset) = (r.pid, r.addr, r.len, r.pgoff);
        at(metadata.sample_id(), Kind::Map { pid, start, length, file_offset, path, inode, build_id })
    }

    fn visit_fork(self, r: Fork, _: RecordMetadata) -> Self::Output {
        let kind = Kind::Fork { parent: r.ppid, parent_tid: r.ptid, pid: r.pid, tid: r.tid };
        Some(Event { time_ns: r.time, kind })
    }

    fn visit_exit(self, r: Exit, _: RecordMetadata) -> Self::Output {
        Some(Event { time_ns: r.time, kind: Kind::Exit { tid: r.tid } })
    }

    fn visit_comm(self, r: Comm<'a>, metadata: RecordMetadata) -> Self::Output {
        let name = String::from_utf8_lossy(&r.comm).into_owned();
        let (pid, tid) = (r.pid, r.tid);
        let exec = metadata.misc() & MISC_COMM_EXEC != 0;
        let kind = if exec { Kind::Exec { pid, tid, name } } else { Kind::Name { pid, tid, name } };
        at(metadata.sample_id(), kind)
    }

    fn visit_lost(self, r: Lost, metadata: RecordMetadata) -> Self::Output {
        at(metadata.sample_id(), Kind::Lost { records: r.lost })
    }

    fn visit_lost_samples(self, r: LostSamples, metadata: RecordMetadata) -> Self::Output {
        at(metadata.sample_id(), Kind::Lost { records: r.lost })
    }

    fn visit_throttle(self, _: Throttle, metadata: RecordMetadata) -> Self::Output {
        at(metadata.sample_id(), Kind::Throttled)
    }

    fn visit_sample(self, r: Sample<'a>, metadata: RecordMetadata) -> Self::Output {
        let chain = r.callchain().unwrap_or_default();
        let registers = r.regs_user().and_then(|regs| registers::from_perf(regs.mask, &regs.regs));
        let sample = RawSample {
            pid: r.pid()?,
            tid: r.tid()?,
            period: r.period()?,
            kernel: metadata.misc() & MISC_CPUMODE != MISC_USER,
            cpu: r.cpu(),
            registers,
            stack: r.stack_user().map(<[u8]>::to_vec).unwrap_or_default(),
            // Values this high are no addresses; they mark the kind of the frames that follow.
            chain: chain.iter().copied().filter(|a| *a < CONTEXT_MAX).collect(),
        };
        Some(Event { time_ns: r.time()?, kind: Kind::Sample(Box::new(sample)) })
    }
}
