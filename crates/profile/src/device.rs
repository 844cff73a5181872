//! The activity of GPUs in a run: kernels, copies, waiting.
//!
//! Times are of the timed pass, from the GPU's own records. Counts are of a counted run of its own, if that is permitted.

mod analysis;

use serde::{Deserialize, Serialize};

use super::run::Warning;

pub use analysis::{Advice, Analysis, Finding, Rung, Term};

/// All that GPUs did in a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Devices {
    /// One entry for each GPU that the program used.
    pub devices: Vec<Device>,
    /// Kernels by descending time.
    pub kernels: Vec<Kernel>,
    /// CUDA graphs of which a launch was counted as a whole, in the order of their first launches; at most 4 a process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<Graph>,
    /// Copies and fills by descending time, one entry for each direction and pair of kinds of memory.
    pub copies: Vec<Copies>,
    /// Waiting of the host.
    pub waits: Vec<Wait>,
    /// Limits of these figures.
    pub warnings: Vec<Warning>,
    /// Why there are no counts, if there are none.
    pub uncounted: Option<Uncounted>,
    /// The model's findings on the whole program, by descending seconds; empty until the model ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Work of a CUDA graph: that of one launch, times its launches. Its tensor operations are not counted, since that takes several runs of a
/// launch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Graph {
    /// Its number, from 1.
    pub number: u32,
    /// Launches in the counted run.
    pub launches: u64,
    /// The work of all of them; `seconds` is 0.
    pub counts: Counts,
}

/// One GPU in a run. All times are seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Device {
    /// Its number as the driver counts.
    pub index: u32,
    /// From the start of the first record to the end of the last.
    pub span_s: f64,
    /// At least one kernel ran.
    pub kernels_s: f64,
    /// A copy or fill ran and no kernel.
    pub copies_s: f64,
    /// Nothing ran.
    pub idle: Idle,
    /// The longest launch-bound stretches, in the order of time; at most 5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stretches: Vec<Stretch>,
}

/// Time in which short work came one after the other and the GPU waited for launches in between: records of less than 20 µs, gaps of
/// less than 20 µs that are at least half as long as these together, 50 records at least.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stretch {
    /// Seconds from the start of the GPU's first record.
    pub start_s: f64,
    /// Its length in seconds.
    pub span_s: f64,
    /// Seconds in which nothing ran.
    pub idle_s: f64,
    /// Launches, copies and fills; those that overlap count once.
    pub launches: u64,
}

/// Time within the span in which nothing ran on the GPU, by the host's activity meanwhile. Seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Idle {
    /// Gaps below 20 µs: the next launch came late (launch-bound).
    pub launch_s: f64,
    /// Longer gaps in which no thread waited for the GPU: the host did other work.
    pub host_s: f64,
    /// Longer gaps in which a thread waited for the GPU: it returned from waiting late, or the driver was busy.
    pub waiting_s: f64,
    /// Loading of modules and functions by the driver, in any of these.
    pub loading_s: f64,
}

impl Idle {
    /// All of it.
    pub fn total_s(&self) -> f64 {
        self.launch_s + self.host_s + self.waiting_s
    }
}

/// One kernel function in one launch shape's family: all launches of a name on a device.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// Device number.
    pub device: u32,
    /// Demangled name.
    pub name: String,
    /// The name in its module.
    pub symbol: String,
    /// Launches, those out of graphs too.
    pub launches: u64,
    /// Those that were nodes of CUDA graphs.
    pub graph_launches: u64,
    /// Seconds of all launches; overlapping launches count each.
    pub seconds: f64,
    /// Seconds of the shortest launch.
    pub shortest_s: f64,
    /// Seconds of the longest launch.
    pub longest_s: f64,
    /// Shapes in which it was launched, by descending time; at most 16.
    pub shapes: Vec<Shape>,
    /// Counts; `None` if it was not counted.
    pub counts: Option<Counts>,
    /// The model's verdict; `None` until the model ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
}

/// A launch shape of a kernel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Shape {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of static and dynamic shared memory of a block.
    pub shared: u32,
    /// Bytes of local memory of a thread (spills, arrays).
    pub local: u32,
    /// Launches.
    pub launches: u64,
    /// Their seconds.
    pub seconds: f64,
    /// Share of a multiprocessor's resident threads that it can fill, 0 to 1; `None` if the device is not known.
    pub occupancy: Option<f64>,
    /// Waves of blocks over all multiprocessors, for instance 1.2; `None` if the device is not known.
    pub waves: Option<f64>,
}

/// Work of a kernel, counted for some launches and scaled to `launches`. A `None` was not counted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Launches that the counts represent: all of the shapes of which some were counted.
    pub launches: u64,
    /// Launches that were counted.
    pub counted: u64,
    /// Their seconds in the timed pass, by shape.
    pub seconds: f64,
    /// FLOPs of double precision, outside the tensor cores.
    pub fp64: Option<f64>,
    /// FLOPs of single precision, outside the tensor cores.
    pub fp32: Option<f64>,
    /// Instructions of threads that made `fp64`; an FMA is one with two FLOPs.
    pub fp64_instructions: Option<f64>,
    /// Instructions of threads that made `fp32`.
    pub fp32_instructions: Option<f64>,
    /// FLOPs of half precision and bfloat16, outside the tensor cores.
    pub fp16: Option<f64>,
    /// Operations of the tensor cores, by type of the operands.
    pub tensor: Vec<TensorWork>,
    /// Bytes read from DRAM.
    pub dram_read: Option<f64>,
    /// Bytes written to DRAM.
    pub dram_write: Option<f64>,
    /// Bytes that L2 served to the multiprocessors: a lower bound of the bytes that these received.
    pub l2: Option<f64>,
    /// Bytes that the multiprocessors received from L2 and sent there; counted on demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_received: Option<f64>,
    /// Bytes between multiprocessor and L1; `None` for code that copies past it (TMA).
    pub l1: Option<f64>,
    /// Bytes of shared memory, at 128 a wavefront.
    pub shared: Option<f64>,
    /// Warp instructions.
    pub instructions: Option<f64>,
    /// Sectors of 32 bytes that accesses to global memory touched.
    pub global_sectors: Option<f64>,
    /// Warp instructions that accessed global memory, each 16 sectors at most if its threads' accesses are neighbours.
    pub global_instructions: Option<f64>,
    /// Thread instructions with a true predicate.
    pub thread_instructions: Option<f64>,
}

impl Counts {
    /// FLOPs of all precisions and of the tensor cores; `None` if none of them was counted.
    pub fn flops(&self) -> Option<f64> {
        let scalar = [self.fp64, self.fp32, self.fp16];
        let known = scalar.iter().any(Option::is_some) || !self.tensor.is_empty();
        let tensor = self.tensor.iter().filter(|work| work.operand != "int8").map(|work| work.operations);
        known.then(|| scalar.into_iter().flatten().chain(tensor).sum())
    }

    /// Operations of the tensor cores on integers.
    pub fn integer(&self) -> f64 {
        self.tensor.iter().filter(|work| work.operand == "int8").map(|work| work.operations).sum()
    }

    /// Whether these are most of the work: its FLOPs then say little of it.
    pub fn is_integer(&self) -> bool {
        self.integer() > self.flops().unwrap_or(0.0)
    }

    /// Bytes read from DRAM and written to it; `None` unless both were counted.
    pub fn dram(&self) -> Option<f64> {
        self.dram_read.zip(self.dram_write).map(|(read, write)| read + write)
    }
}

/// Work of the tensor cores.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TensorWork {
    /// Type of the operands: `bf16 f16 tf32 fp64 fp8 int8`.
    pub operand: String,
    /// Multiplications and additions.
    pub operations: f64,
}

/// Copies in one direction between two kinds of memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Copies {
    /// Device number.
    pub device: u32,
    /// From where to where.
    pub direction: Direction,
    /// Kind of memory that is read; [`MemoryKind::Unknown`] for fills.
    pub from: MemoryKind,
    /// Kind of memory that is written.
    pub to: MemoryKind,
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Seconds of all.
    pub seconds: f64,
}

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the GPU.
    HostToDevice,
    /// From the GPU.
    DeviceToHost,
    /// Within a GPU.
    DeviceToDevice,
    /// Between two GPUs.
    PeerToPeer,
    /// Within the host.
    HostToHost,
    /// A fill with a value.
    Fill,
    /// None of these.
    #[default]
    Other,
}

impl Direction {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Direction::HostToDevice => "host to GPU",
            Direction::DeviceToHost => "GPU to host",
            Direction::DeviceToDevice => "within the GPU",
            Direction::PeerToPeer => "GPU to GPU",
            Direction::HostToHost => "within the host",
            Direction::Fill => "fill",
            Direction::Other => "other",
        }
    }
}

/// Kind of memory of a copy's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Ordinary memory of the host.
    Pageable,
    /// Page-locked memory of the host.
    Pinned,
    /// Memory of the GPU.
    Device,
    /// An array of the GPU.
    Array,
    /// Unified memory.
    Managed,
    /// Not known.
    #[default]
    Unknown,
}

impl MemoryKind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            MemoryKind::Pageable => "pageable",
            MemoryKind::Pinned => "page-locked",
            MemoryKind::Device => "device",
            MemoryKind::Array => "array",
            MemoryKind::Managed => "managed",
            MemoryKind::Unknown => "–",
        }
    }
}

/// Waiting of host threads for the GPU, by the function called.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Wait {
    /// `event`, `stream-event`, `stream`, `context`.
    pub on: String,
    /// Calls.
    pub count: u64,
    /// Seconds of all.
    pub seconds: f64,
}

/// Why kernels were not counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncounted {
    /// The reason.
    pub reason: String,
    /// Advice.
    pub fix: String,
}
