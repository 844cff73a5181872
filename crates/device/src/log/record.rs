//! The records of a log, as `crates/embedded/programs/collector/log.rs` writes them.

use super::Damage;

const MAGIC: &[u8; 8] = b"RPROFGP\x01";

/// Shape of a launch: blocks and threads of a block, each in x, y, z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Launched {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
}

/// Times of a record in nanoseconds of the GPU's clock; 0 if it was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Start.
    pub start: u64,
    /// End.
    pub end: u64,
}

impl Span {
    /// Whether both were taken.
    pub fn is_known(&self) -> bool {
        self.start > 0 && self.end >= self.start
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.start) as f64 * 1e-9
    }
}

/// Readings of three clocks at one moment, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clocks {
    /// The clock of the records.
    pub gpu: u64,
    /// CLOCK_REALTIME.
    pub realtime: u64,
    /// CLOCK_MONOTONIC.
    pub monotonic: u64,
}

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The collector is in a process.
    Start {
        /// The process.
        pid: u64,
        /// CUPTI's version.
        cupti: u64,
        /// The driver's version.
        driver: u64,
        /// The clocks.
        clocks: Clocks,
        /// The program had loaded CUPTI itself.
        was_loaded: bool,
    },
    /// A name and its number.
    Name {
        /// Number.
        id: u32,
        /// Text; bytes that are not UTF-8 are replaced.
        text: String,
    },
    /// A kernel ran.
    Kernel {
        /// When.
        span: Span,
        /// Number of its node in a CUDA graph, or 0.
        node: u64,
        /// Number of its name.
        name: u32,
        /// Device.
        device: u32,
        /// Shape.
        launched: Launched,
        /// Registers of a thread.
        registers: u32,
        /// Bytes of shared memory of a block, static and dynamic.
        shared: u32,
        /// Bytes of local memory of a thread.
        local: u32,
    },
    /// A copy.
    Copy {
        /// When.
        span: Span,
        /// Bytes.
        bytes: u64,
        /// CUPTI's numbers for the direction, the source's and the destination's kind of memory.
        kinds: [u32; 3],
        /// Device.
        device: u32,
    },
    /// A fill.
    Fill {
        /// When.
        span: Span,
        /// Bytes.
        bytes: u64,
        /// CUPTI's number for the kind of memory.
        memory: u32,
        /// Device.
        device: u32,
    },
    /// A host thread waited.
    Wait {
        /// When.
        span: Span,
        /// CUPTI's number for the thing that it waited on.
        on: u32,
    },
    /// The driver or CUPTI itself took time.
    Overhead {
        /// When.
        span: Span,
        /// 1 to 3 and 7: CUPTI's own; 4 and 5: loading of modules and functions; 6: the command buffer was full.
        kind: u32,
    },
    /// The process ended.
    End {
        /// The clocks.
        clocks: Clocks,
        /// Buffers that CUPTI asked for and completed.
        buffers: [u64; 2],
        /// Records in them, and records that CUPTI lost.
        records: [u64; 2],
        /// Nanoseconds in the collector's own callbacks.
        callback_ns: u64,
    },
    /// A step of the collector failed.
    Failed {
        /// Which (`crates/embedded/programs/collector/log.rs`).
        step: u32,
        /// A group or kind that it concerns.
        detail: u32,
        /// CUPTI's result.
        result: u32,
    },
    /// Number of passes that a group of metrics needs.
    Passes {
        /// Group.
        group: u32,
        /// Passes.
        passes: u32,
    },
    /// Counts of one launch.
    Range {
        /// Group.
        group: u32,
        /// Number of its name.
        name: u32,
        /// Shape.
        launched: Launched,
        /// Values in the order of the group's metrics.
        values: Vec<f64>,
    },
    /// Counts of one launch of a graph.
    GraphRange {
        /// Group.
        group: u32,
        /// Number of the graph in its process.
        graph: u32,
        /// Values in the order of the group's metrics.
        values: Vec<f64>,
    },
    /// A graph was launched so often.
    Graph {
        /// Its number in its process.
        graph: u32,
        /// Launches.
        launches: u32,
    },
    /// Launches that were not counted: in a captured stream, in another context, of graphs without any counts; ranges that were dropped; launches after the
    /// last one that a process counts.
    Uncounted([u32; 5]),
    /// The chip's name.
    Chip(String),
    /// The next metric of a group.
    Metric {
        /// Group.
        group: u32,
        /// Name.
        name: String,
    },
}

/// Reads records one after another.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// # Errors
    /// [`Damage::NoLog`]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Damage> {
        Ok(Reader { rest: bytes.strip_prefix(MAGIC).ok_or(Damage::NoLog)? })
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// [`Damage`], after which nothing more can be read.
    pub fn take(&mut self) -> Result<Option<Record>, Damage> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut head = Fields(self.rest);
        let (Some(kind), Some(length)) = (head.narrow(), head.narrow()) else { return Err(Damage::Truncated) };
        let Some((content, rest)) = head.0.split_at_checked(length as usize) else { return Err(Damage::Truncated) };
        self.rest = rest;
        record(kind, Fields(content)).map(Some).ok_or(Damage::Unknown { kind, length })
    }
}

fn record(kind: u32, mut f: Fields<'_>) -> Option<Record> {
    Some(match kind {
        1 => {
            let (pid, cupti, driver) = (f.wide()?, f.wide()?, f.wide()?);
            Record::Start { pid, cupti, driver, clocks: f.clocks()?, was_loaded: f.wide()? != 0 }
        }
        2 => Record::Name { id: f.narrow()?, text: f.text() },
        3 => {
            let (span, node) = (f.span()?, f.wide()?);
            let (name, device, _context, _stream) = (f.narrow()?, f.narrow()?, f.narrow()?, f.narrow()?);
            let (launched, registers) = (f.launched()?, f.narrow()?);
            let shared = f.narrow()?.saturating_add(f.narrow()?);
            Record::Kernel { span, node, name, device, launched, registers, shared, local: f.narrow()? }
        }
        4 => {
            let (span, bytes) = (f.span()?, f.wide()?);
            Record::Copy { span, bytes, kinds: [f.narrow()?, f.narrow()?, f.narrow()?], device: f.narrow()? }
        }
        5 => {
            let (span, bytes) = (f.span()?, f.wide()?);
            Record::Fill { span, bytes, memory: f.narrow()?, device: f.narrow()? }
        }
        6 => Record::Wait { span: f.span()?, on: f.narrow()? },
        7 => {
            let (span, kind) = (f.span()?, f.narrow()?);
            // The upper half holds the kind since CUPTI 12.
            Record::Overhead { span, kind: if kind > 0xffff { kind >> 16 } else { kind } }
        }
        8 => {
            let (clocks, buffers, records) = (f.clocks()?, [f.wide()?, f.wide()?], [f.wide()?, f.wide()?]);
            Record::End { clocks, buffers, records, callback_ns: f.wide()? }
        }
        9 => {
            let step = f.narrow()?;
            Record::Failed { step: step & 255, detail: step >> 8, result: f.narrow()? }
        }
        10 => Record::Passes { group: f.narrow()?, passes: f.narrow()? },
        11 => {
            let (group, name, launched) = (f.narrow()?, f.narrow()?, f.launched()?);
            f.narrow()?;
            Record::Range { group, name, launched, values: f.floats() }
        }
        12 => Record::Uncounted([f.narrow()?, f.narrow()?, f.narrow()?, f.narrow()?, f.narrow().unwrap_or(0)]),
        13 => Record::Chip(f.text()),
        14 => Record::Metric { group: f.narrow()?, name: f.text() },
        15 => Record::GraphRange { group: f.narrow()?, graph: f.narrow()?, values: f.floats() },
        16 => Record::Graph { graph: f.narrow()?, launches: f.narrow()? },
        _ => return None,
    })
}

/// The fields of a record, taken from its front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn narrow(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*bytes))
    }

    fn wide(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*bytes))
    }

    fn span(&mut self) -> Option<Span> {
        Some(Span { start: self.wide()?, end: self.wide()? })
    }

    fn clocks(&mut self) -> Option<Clocks> {
        Some(Clocks { gpu: self.wide()?, realtime: self.wide()?, monotonic: self.wide()? })
    }

    fn launched(&mut self) -> Option<Launched> {
        let grid = [self.narrow()?, self.narrow()?, self.narrow()?];
        Some(Launched { grid, block: [self.narrow()?, self.narrow()?, self.narrow()?] })
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }

    fn floats(&mut self) -> Vec<f64> {
        self.0.as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect()
    }
}
