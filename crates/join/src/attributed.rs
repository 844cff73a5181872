//! A sample with its place in the code, its thread's activity and its view of the other threads.

use super::code_map::FunctionId;
use super::modules::Place;
use super::waiting::Wait;

/// No loop, or no function.
pub const NONE: u32 = u32::MAX;

/// Activity of a thread when it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Its own work.
    Work,
    /// Waiting in a barrier or for a lock.
    Waiting(Wait),
    /// In the kernel.
    Kernel(Entry),
}

/// How a thread got into the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// By a system call.
    SystemCall,
    /// At any other instruction: a page fault, for the most part.
    Fault,
}

/// A sample on a CPU.
///
/// Its function is known first, its loop once the functions have been analysed, its peers once the activity of all samples is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttributedSample {
    /// Seconds since the start of the pass.
    pub t_s: f64,
    /// CPU seconds that it represents.
    pub weight_s: f64,
    /// Thread.
    pub thread: u32,
    /// Number of the CPU it was on, if known.
    pub cpu: Option<u32>,
    /// The marked regions its thread was in: index into the paths of the evidence's marks.
    pub path: u32,
    /// Index into [`Sampled::stacks`](super::sampled::Sampled::stacks).
    pub stack: u32,
    /// Function of the sampled instruction; a stand-in if the sample has no stack.
    pub function: FunctionId,
    /// The sampled instruction.
    pub place: Option<Place>,
    /// Innermost loop it was in, numbered over the whole program; [`NONE`] outside of loops.
    pub innermost: u32,
    /// Activity of the thread.
    pub activity: Activity,
    /// The other threads at that time.
    pub peers: Peers,
}

/// The other threads, as one sample saw them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peers {
    /// Threads on a CPU at the same time.
    pub running: u16,
    /// In the same function.
    pub in_function: Team,
    /// In the same innermost loop.
    pub in_loop: Team,
    /// Another thread was at work in another function.
    pub others_elsewhere: bool,
    /// Another thread was waiting for a lock.
    pub locked_out: bool,
    /// Greatest distance to a peer's sample that was used, in seconds.
    pub distance_s: f32,
}

/// The threads in one function or loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Team {
    /// At work, the sampled thread included.
    pub at_work: u16,
    /// At work, but another thread had their CPU.
    pub kept_off: u16,
    /// In the kernel for a fault of it, the sampled thread not included.
    pub others_in_fault: u16,
}

impl Peers {
    /// No other thread was there.
    pub const ALONE: Peers = Peers {
        running: 0,
        in_function: Team { at_work: 1, kept_off: 0, others_in_fault: 0 },
        in_loop: Team { at_work: 1, kept_off: 0, others_in_fault: 0 },
        others_elsewhere: false,
        locked_out: false,
        distance_s: 0.0,
    };
}

impl AttributedSample {
    /// Taken in the kernel.
    pub fn in_kernel(&self) -> bool {
        matches!(self.activity, Activity::Kernel(_))
    }

    /// Its thread was at work.
    pub fn works(&self) -> bool {
        self.activity == Activity::Work
    }
}
