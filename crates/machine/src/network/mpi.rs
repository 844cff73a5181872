//! One rank: a library of MPI in a process of its own, and the calls of it that a measurement needs.

use std::collections::HashMap;
use std::time::Duration;

use super::NetworkError;
use super::collective::Collective;
use super::handles::Handles;
use super::library::{self, Loaded};
use crate::loader::{CALLS, Call, Remote};

/// Limit of `MPI_Init`: thousands of ranks meet there.
const INIT_LIMIT: Duration = Duration::from_secs(60);
/// Limit of any other request: also of those in which a rank waits for rank 0 and the step that others make.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Limit of `MPI_Finalize`: everything is known by then.
const FINALIZE_LIMIT: Duration = Duration::from_secs(5);
/// Scratch memory of the library's process: results of calls, a status, the time stamps of a request.
const SCRATCH: u64 = 8192;
const STATUS_AT: u64 = 64;
const STAMPS_AT: u64 = 4096;
/// Bytes of a `struct timespec`.
const STAMP: u64 = 16;
const CLOCK_MONOTONIC: u64 = 1;
/// Tag of our messages.
const TAG: u64 = 7;

/// A communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comm(u64);

/// Memory of the library's process that messages are sent from, or received into.
#[derive(Debug, Clone, Copy, Default)]
struct Buffer {
    at: u64,
    bytes: u64,
}

/// A call that is part of a request.
#[derive(Debug, Clone)]
pub struct Made {
    name: String,
    call: Call,
}

/// The library, initialised.
pub struct Mpi {
    remote: Remote,
    loaded: Loaded,
    handles: Handles,
    functions: HashMap<String, u64>,
    scratch: u64,
    touch: u64,
    pause: u64,
    send: Buffer,
    receive: Buffer,
    /// The own rank.
    pub rank: u32,
    /// Ranks of the job.
    pub ranks: u32,
}

impl Mpi {
    /// Loads the first of `names` that is a library of MPI, and initialises it.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn start(names: &[String]) -> Result<Mpi, NetworkError> {
        let mut remote = Remote::start()?;
        let loaded = library::load(&mut remote, names)?;
        let name = loaded.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let handles = Handles::of(&mut remote, loaded.library, &name)?;
        let scratch = remote.memory(SCRATCH)?;
        let [touch, pause] = remote.own()?;
        let mut mpi = Mpi {
            remote,
            loaded,
            handles,
            functions: HashMap::new(),
            scratch,
            touch,
            pause,
            send: Buffer::default(),
            receive: Buffer::default(),
            rank: 0,
            ranks: 0,
        };
        let init = mpi.made("PMPI_Init", &[0, 0])?;
        mpi.make(INIT_LIMIT, &[init])?;
        let bytes = mpi.asked("PMPI_Type_size", handles.byte)?;
        if bytes != 1 {
            return Err(NetworkError::Family { library: mpi.file(), bytes: i64::from(bytes as i32) });
        }
        (mpi.rank, mpi.ranks) =
            (mpi.asked("PMPI_Comm_rank", handles.world)?, mpi.asked("PMPI_Comm_size", handles.world)?);
        // By itself a library ends its process, and with it the job, if a call fails, without a word on which.
        let returns = mpi.made("PMPI_Comm_set_errhandler", &[handles.world, handles.errors_return])?;
        mpi.make(LIMIT, &[returns])?;
        Ok(mpi)
    }

    /// The process that has the library.
    pub fn pid(&self) -> u32 {
        self.remote.pid()
    }

    /// The library's file.
    pub fn file(&self) -> String {
        self.loaded.file.display().to_string()
    }

    /// Its build id.
    pub fn build_id(&self) -> Option<String> {
        self.loaded.build_id.clone()
    }

    /// `MPI_COMM_WORLD`.
    pub fn world(&self) -> Comm {
        Comm(self.handles.world)
    }

    /// The communicator of the ranks with the same `color`.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn split(&mut self, color: u32) -> Result<Comm, NetworkError> {
        let at = self.scratch;
        self.remote.write(at, &[0; 8])?;
        let call = self.made("PMPI_Comm_split", &[self.handles.world, u64::from(color), u64::from(self.rank), at])?;
        self.make(LIMIT, &[call])?;
        let bytes = self.remote.read(at, 8)?;
        Ok(Comm(self.handles.written(bytes.try_into().map_or(0, u64::from_ne_bytes))))
    }

    /// Sends the bytes of rank 0 to all; returns them.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn broadcast(&mut self, bytes: &[u8]) -> Result<Vec<u8>, NetworkError> {
        let length = self.broadcast_exactly(&(bytes.len() as u64).to_ne_bytes())?;
        let length = length.try_into().map_or(0, u64::from_ne_bytes) as usize;
        let mut whole = bytes.to_vec();
        whole.resize(length, 0);
        self.broadcast_exactly(&whole)
    }

    fn broadcast_exactly(&mut self, bytes: &[u8]) -> Result<Vec<u8>, NetworkError> {
        let length = bytes.len() as u64;
        self.buffers(length, 0)?;
        self.remote.write(self.send.at, bytes)?;
        let call = self.collective(Collective::Bcast, length, 1, self.world())?;
        self.make(LIMIT, &[call])?;
        Ok(self.remote.read(self.send.at, bytes.len())?)
    }

    /// Collects equally many bytes of each rank in rank 0, which gets them by rank; the others get nothing.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, NetworkError> {
        let (own, all) = (bytes.len() as u64, bytes.len() as u64 * u64::from(self.ranks));
        self.buffers(own, all)?;
        self.remote.write(self.send.at, bytes)?;
        let call = self.collective(Collective::Gather, own, self.ranks, self.world())?;
        self.make(LIMIT, &[call])?;
        if self.rank > 0 || bytes.is_empty() {
            return Ok(Vec::new());
        }
        let all = self.remote.read(self.receive.at, all as usize)?;
        Ok(all.chunks(bytes.len()).map(<[u8]>::to_vec).collect())
    }

    /// Provides buffers of these sizes in bytes, with pages of their own.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn buffers(&mut self, send: u64, receive: u64) -> Result<(), NetworkError> {
        let grown = |mpi: &mut Mpi, buffer: Buffer, bytes: u64| -> Result<Buffer, NetworkError> {
            if buffer.at != 0 && buffer.bytes >= bytes {
                return Ok(buffer);
            }
            let bytes = bytes.max(4096).next_power_of_two();
            let at = mpi.remote.memory(bytes)?;
            let touch = Made { name: "touch".into(), call: Call::new(mpi.touch, &[at, bytes]) };
            mpi.make(LIMIT, &[touch])?;
            if buffer.at != 0 {
                let unmap = mpi.made("munmap", &[buffer.at, buffer.bytes])?;
                mpi.make(LIMIT, &[unmap])?;
            }
            Ok(Buffer { at, bytes })
        };
        self.send = grown(self, self.send, send)?;
        self.receive = grown(self, self.receive, receive)?;
        Ok(())
    }

    /// Sends `bytes` to rank `to`.
    ///
    /// # Errors
    /// As [`made`](Self::made); so for all calls below.
    pub fn send(&mut self, bytes: u64, to: u32) -> Result<Made, NetworkError> {
        let (h, at) = (self.handles, self.send.at);
        self.made("PMPI_Send", &[at, bytes, h.byte, u64::from(to), TAG, h.world])
    }

    /// Receives `bytes` from rank `from`.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub fn receive(&mut self, bytes: u64, from: u32) -> Result<Made, NetworkError> {
        let (h, at, status) = (self.handles, self.receive.at, self.scratch + STATUS_AT);
        self.made("PMPI_Recv", &[at, bytes, h.byte, u64::from(from), TAG, h.world, status])
    }

    /// Sends to rank `with` and receives from it at the same time.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub fn exchange(&mut self, bytes: u64, with: u32) -> Result<Made, NetworkError> {
        let (h, with, status) = (self.handles, u64::from(with), self.scratch + STATUS_AT);
        let to = [self.send.at, bytes, h.byte, with, TAG];
        let from = [self.receive.at, bytes, h.byte, with, TAG, h.world, status];
        self.made("PMPI_Sendrecv", &[&to[..], &from].concat())
    }

    /// A collective call with which each rank of `comm`, which has `members`, hands over about `bytes`.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub fn collective(&mut self, call: Collective, bytes: u64, members: u32, comm: Comm) -> Result<Made, NetworkError> {
        let (h, n, comm) = (self.handles, call.shape(bytes, members).count, comm.0);
        let (send, receive) = (self.send.at, self.receive.at);
        let both = [send, n, h.byte, receive, n, h.byte];
        let reduced = [send, receive, n, h.double, h.sum];
        let arguments = match call {
            Collective::Barrier => vec![comm],
            Collective::Bcast => vec![send, n, h.byte, 0, comm],
            Collective::Reduce => [&reduced[..], &[0, comm]].concat(),
            Collective::Allreduce | Collective::ReduceScatter | Collective::Scan | Collective::Exscan => {
                [&reduced[..], &[comm]].concat()
            }
            Collective::Gather | Collective::Scatter => [&both[..], &[0, comm]].concat(),
            Collective::Allgather | Collective::Alltoall => [&both[..], &[comm]].concat(),
        };
        self.made(&format!("P{}", call.name()), &arguments)
    }

    /// Notes the time as stamp number `i` of the request.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub fn stamp(&mut self, i: usize) -> Result<Made, NetworkError> {
        let at = self.scratch + STAMPS_AT + STAMP * i as u64;
        self.made("clock_gettime", &[CLOCK_MONOTONIC, at])
    }

    /// Makes calls in the longest possible requests, and splits no block between two. Each of `blocks` has `stamps` stamps, which `block`
    /// numbers from 0 in each request; it gets the number of its first. Returns all stamps, in nanoseconds of this host's clock.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn blocks(
        &mut self,
        blocks: u32,
        stamps: usize,
        mut block: impl FnMut(&mut Mpi, usize) -> Result<Vec<Made>, NetworkError>,
    ) -> Result<Vec<u64>, NetworkError> {
        let (mut all, mut waiting, mut noted) = (Vec::new(), Vec::new(), 0);
        for _ in 0..blocks {
            let mut next = block(self, noted)?;
            if waiting.len() + next.len() > CALLS {
                self.flush(&mut waiting, &mut noted, &mut all)?;
                next = block(self, noted)?;
            }
            waiting.append(&mut next);
            noted += stamps;
        }
        self.flush(&mut waiting, &mut noted, &mut all)?;
        Ok(all)
    }

    fn flush(&mut self, calls: &mut Vec<Made>, noted: &mut usize, all: &mut Vec<u64>) -> Result<(), NetworkError> {
        if calls.is_empty() {
            return Ok(());
        }
        self.make(LIMIT, calls)?;
        let bytes = self.remote.read(self.scratch + STAMPS_AT, *noted * STAMP as usize)?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        all.extend(bytes.chunks_exact(STAMP as usize).map(|time| word(&time[..8]) * 1_000_000_000 + word(&time[8..])));
        calls.clear();
        *noted = 0;
        Ok(())
    }

    /// Waits until all ranks do.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn barrier(&mut self) -> Result<(), NetworkError> {
        let call = self.collective(Collective::Barrier, 0, 1, self.world())?;
        self.make(LIMIT, &[call])
    }

    /// Sleeps, outside of MPI.
    ///
    /// # Errors
    /// The process is lost.
    pub fn sleep(&mut self, seconds: f64) -> Result<(), NetworkError> {
        let ns = (seconds.clamp(0.0, 10.0) * 1e9) as u64;
        let call = Made { name: "pause".into(), call: Call::new(self.pause, &[ns]) };
        self.make(LIMIT, &[call])
    }

    /// Ends MPI.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn finish(mut self) -> Result<(), NetworkError> {
        let call = self.made("PMPI_Finalize", &[])?;
        self.make(FINALIZE_LIMIT, &[call])
    }

    /// An `int` that a function writes for a handle.
    fn asked(&mut self, function: &str, handle: u64) -> Result<u32, NetworkError> {
        let at = self.scratch;
        self.remote.write(at, &[0xff; 4])?;
        let call = self.made(function, &[handle, at])?;
        self.make(LIMIT, &[call])?;
        Ok(self.remote.read(at, 4)?.try_into().map_or(0, u32::from_ne_bytes))
    }

    /// A call of one of the library's functions.
    ///
    /// # Errors
    /// The library has no such function, or the process is lost.
    fn made(&mut self, name: &str, arguments: &[u64]) -> Result<Made, NetworkError> {
        let function = match self.functions.get(name) {
            Some(address) => *address,
            None => {
                let address = self.remote.symbol(self.loaded.library, name)?;
                self.functions.insert(name.to_owned(), address);
                address
            }
        };
        Ok(Made { name: name.to_owned(), call: Call::new(function, arguments) })
    }

    fn make(&mut self, limit: Duration, calls: &[Made]) -> Result<(), NetworkError> {
        let plain: Vec<Call> = calls.iter().map(|made| made.call).collect();
        let about = calls.first().map_or("", |made| made.name.as_str());
        let failed = self.remote.calls(about, limit, 1, &plain)?.failed;
        match failed.and_then(|(index, code)| Some((calls.get(index)?, code))) {
            Some((made, code)) => Err(NetworkError::Failed { call: made.name.clone(), library: self.file(), code }),
            None => Ok(()),
        }
    }
}
