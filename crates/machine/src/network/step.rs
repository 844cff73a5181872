//! The next step of all ranks. Rank 0 decides, and sends it to the others.

use serde::{Deserialize, Serialize};

use super::collective::Collective;

/// Ranks of `MPI_COMM_WORLD`: the first sends, the second answers.
pub type Pair = (u32, u32);

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Messages go to and fro.
    Messages {
        /// Between these, all at the same time.
        pairs: Vec<Pair>,
        /// How.
        pattern: Pattern,
        /// Bytes of a message.
        bytes: u64,
        /// Exchanges that are timed as one.
        inner: u32,
        /// How many times.
        rounds: u32,
        /// About how long it will take: the other ranks sleep meanwhile, in seconds.
        expected_s: f64,
    },
    /// Messages follow one another in one direction; their arrivals are timed.
    Stream {
        /// From the first to the second of each.
        pairs: Vec<Pair>,
        /// Bytes of a message.
        bytes: u64,
        /// Messages.
        messages: u32,
        /// As above.
        expected_s: f64,
    },
    /// A collective call.
    Collective {
        /// The function.
        call: Collective,
        /// Ranks of a communicator: the first of the job are one, the next another; all that are complete call at the same time.
        members: u32,
        /// Bytes that a rank hands over.
        bytes: u64,
        /// How many times.
        rounds: u32,
    },
    /// Nothing, for some seconds.
    Rest(f64),
    /// The measurement is over.
    End,
}

/// How two ranks exchange messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// A message, and one of the same size back.
    PingPong,
    /// Both send this number of bytes first, which are not timed; then a message, and an empty one back.
    Drained(u64),
    /// Both send at the same time.
    Exchange,
}

impl Step {
    /// Stamps that each rank reports: pairs of start and end of a round, or the start and the arrivals of a stream.
    pub fn stamps(&self) -> usize {
        match self {
            Step::Messages { rounds, .. } | Step::Collective { rounds, .. } => 2 * *rounds as usize,
            Step::Stream { messages, .. } => 1 + *messages as usize,
            Step::Rest(_) | Step::End => 0,
        }
    }

    /// Bytes of the buffers that are sent from and received into.
    pub fn buffers(&self) -> (u64, u64) {
        match self {
            Step::Messages { bytes, pattern, .. } => {
                let most = if let Pattern::Drained(drain) = pattern { *drain.max(bytes) } else { *bytes };
                (most, most)
            }
            Step::Stream { bytes, .. } => (*bytes, *bytes),
            Step::Collective { call, members, bytes, .. } => {
                let shape = call.shape(*bytes, *members);
                (shape.send, shape.receive)
            }
            Step::Rest(_) | Step::End => (0, 0),
        }
    }
}
