//! The bytes that a call passes, from its arguments.

use std::collections::{HashMap, HashSet};

use rprof_profile::evidence::mpi::Made;

use super::communicators::Communicators;
use super::datatypes::Family;
use super::functions::{Buffer, Constructor, Function, Peer, Shape};

/// Most elements of an array that a call passes.
const LONGEST_ARRAY: usize = 1 << 20;

/// No process can address more memory: nothing longer is a buffer.
const LARGEST_BUFFER: u64 = 1 << 56;

/// What is known of the handles of one process.
#[derive(Debug, Clone, Default)]
pub struct Handles {
    /// The library.
    pub family: Family,
    /// There is more than one: no handle is understood.
    pub is_mixed: bool,
    /// Bytes of the datatypes, by handle.
    pub datatypes: HashMap<u64, u64>,
    /// Handles of `MPI_COMM_WORLD`.
    pub worlds: Vec<u64>,
    /// Ranks of communicators.
    pub sizes: HashMap<u64, u32>,
    /// The own rank in them.
    pub ranks: HashMap<u64, u32>,
    /// How they were made.
    pub communicators: Communicators,
    /// Those between two groups of ranks.
    pub intercommunicators: HashSet<u64>,
    /// Prepared messages and collective calls, by request.
    pub prepared: HashMap<u64, Prepared>,
}

/// A message or collective call that is prepared, and started later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Bytes that each start passes; `None`: not known.
    pub bytes: Option<u64>,
    /// The other sides of a message in one part.
    pub sides: Sides,
    /// The communicator of such a message.
    pub comm: Option<u64>,
}

/// Reads the program's memory from an address on; false: it cannot be read.
pub type Read<'c> = &'c dyn Fn(u64, &mut [u8]) -> bool;

/// The ranks on the other side of a call, each with a tag; in its communicator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sides {
    /// It sends to this one.
    pub to: Option<(i32, i32)>,
    /// It receives from this one.
    pub from: Option<(i32, i32)>,
    /// The root of a collective call.
    pub root: Option<i32>,
}

/// Arguments of a call, and the program's memory.
pub struct Call<'c> {
    /// The function.
    pub function: &'c Function,
    /// Its arguments, as many as there are.
    pub arguments: &'c [u64],
    /// Counts have 64 bits.
    pub wide: bool,
    /// Its memory.
    pub read: Read<'c>,
}

impl Call<'_> {
    fn argument(&self, i: u8) -> Option<u64> {
        self.arguments.get(usize::from(i)).copied()
    }

    /// Argument `i` as an int.
    pub fn int(&self, i: u8) -> Option<i32> {
        self.argument(i).map(|value| value as i32)
    }

    /// A count; `None` if it is negative.
    fn count(&self, i: u8) -> Option<u64> {
        let value = self.argument(i)?;
        let count = if self.wide { value as i64 } else { i64::from(value as i32) };
        u64::try_from(count).ok()
    }

    /// `n` counts at the address that argument `i` is.
    fn counts(&self, i: u8, n: u64) -> Option<Vec<u64>> {
        let size = if self.wide { 8 } else { 4 };
        let mut bytes = vec![0; usize::try_from(n).ok().filter(|n| *n <= LONGEST_ARRAY)? * size];
        (self.read)(self.argument(i)?, &mut bytes).then_some(())?;
        let number = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(chunk);
            let value = i64::from_le_bytes(word);
            u64::try_from(if self.wide { value } else { i64::from(value as i32) }).ok()
        };
        bytes.chunks_exact(size).map(number).collect()
    }
}

impl Handles {
    /// A handle as it is passed: those of MPICH have 32 bits.
    pub fn handle(&self, value: u64) -> u64 {
        if self.family == Family::Mpich { u64::from(value as u32) } else { value }
    }

    /// Bytes of an element of a datatype.
    pub fn datatype(&self, handle: u64) -> Option<u64> {
        let handle = self.handle(handle);
        let known = || self.family.bytes_in_handle(handle).or_else(|| self.datatypes.get(&handle).copied());
        if self.is_mixed { None } else { known() }
    }

    /// Bytes that the call passes; `None`: not known. A receive passes none, and neither does a call that prepares another.
    pub fn bytes(&self, call: &Call<'_>) -> Option<u64> {
        if call.function.request().is_some() { Some(0) } else { self.passes(call) }
    }

    /// Bytes that the call passes, or one that it prepares.
    fn passes(&self, call: &Call<'_>) -> Option<u64> {
        if self.depends_on_the_other_group(call) {
            return None;
        }
        match call.function.shape {
            Shape::Send { buffer, to, .. } => {
                if call.int(to.rank)? == self.family.nobody() {
                    Some(0)
                } else {
                    self.of_buffer(call, buffer)
                }
            }
            Shape::OneSided { buffer, target } => {
                if call.int(target)? == self.family.nobody() {
                    Some(0)
                } else {
                    self.of_buffer(call, buffer)
                }
            }
            Shape::OneElement { datatype, .. } => self.datatype(call.argument(datatype)?),
            // Without another buffer nothing is passed: the root of a gather has its part in place.
            Shape::Each { buffer, in_place, .. } => match self.buffer(call, buffer, in_place) {
                Some(buffer) => self.of_buffer(call, buffer),
                None => Some(0),
            },
            Shape::FromRoot { buffer, root, comm } => {
                let rank = *self.ranks.get(&self.handle(call.argument(comm)?))?;
                if rank as i32 == call.int(root)? { self.of_buffer(call, buffer) } else { Some(0) }
            }
            Shape::Undescribed => None,
            Shape::ForEach { buffer, in_place, comm } => {
                let ranks = u64::from(*self.sizes.get(&self.handle(call.argument(comm)?))?);
                self.of_buffer(call, self.buffer(call, buffer, in_place)?)?.checked_mul(ranks)
            }
            Shape::Counts { buffer, in_place, comm } => {
                self.of_counts(call, self.buffer(call, buffer, in_place)?, comm)
            }
            Shape::Scatter { buffer, counts, root, comm } => {
                let comm_handle = self.handle(call.argument(comm)?);
                if *self.ranks.get(&comm_handle)? as i32 != call.int(root)? {
                    return Some(0);
                }
                if counts {
                    return self.of_counts(call, buffer, comm);
                }
                self.of_buffer(call, buffer)?.checked_mul(u64::from(*self.sizes.get(&comm_handle)?))
            }
            Shape::Start => self.started(call, call.argument(0)?, 1),
            Shape::StartAll => self.started(call, call.argument(1)?, u64::from(call.int(0)?.max(0) as u32)),
            Shape::Receive { .. } | Shape::Prepare { .. } | Shape::PrepareParts { .. } | Shape::Wait => Some(0),
            Shape::Type(..) | Shape::TypeFree => Some(0),
            Shape::Communicator(..)
            | Shape::Intercommunicator(..)
            | Shape::CommFree
            | Shape::CommSize
            | Shape::CommRank => Some(0),
        }
    }

    /// Whether the call passes as much as the other group of an intercommunicator has ranks, or is its root: neither is known.
    fn depends_on_the_other_group(&self, call: &Call<'_>) -> bool {
        let depends = match call.function.shape {
            Shape::FromRoot { .. } | Shape::ForEach { .. } | Shape::Counts { .. } | Shape::Scatter { .. } => true,
            _ => self.sides(call).root.is_some(),
        };
        depends && self.communicator(call).is_some_and(|comm| self.intercommunicators.contains(&comm))
    }

    /// Bytes of the buffer that a root passes, whether this rank is the root or not: to one rank, if it scatters.
    pub fn bytes_of_root(&self, call: &Call<'_>) -> Option<u64> {
        match call.function.shape {
            Shape::FromRoot { buffer, .. } | Shape::Scatter { buffer, counts: false, .. } => {
                self.of_buffer(call, buffer)
            }
            _ => None,
        }
    }

    /// The message or collective call that the call prepares.
    pub fn prepares(&self, call: &Call<'_>) -> Prepared {
        let bytes = self.prepared_bytes(call);
        let Shape::Prepare { buffer, peer, .. } = call.function.shape else {
            return Prepared { bytes, ..Prepared::default() };
        };
        let side = self.side(call, peer);
        let (to, from) = if buffer.is_some() { (side, None) } else { (None, side) };
        Prepared { bytes, sides: Sides { to, from, root: None }, comm: self.communicator(call) }
    }

    /// Bytes of the message, or of the collective call, that the call prepares. `None`: not known.
    fn prepared_bytes(&self, call: &Call<'_>) -> Option<u64> {
        let (buffer, peer, parts, wide) = match call.function.shape {
            Shape::Prepare { buffer, peer, .. } => (buffer, peer, 1, call.wide),
            Shape::PrepareParts { buffer, peer, .. } => (buffer, peer, u64::try_from(call.int(1)?).ok()?, true),
            _ => return self.passes(call),
        };
        let Some(buffer) = buffer else { return Some(0) };
        if call.int(peer.rank)? == self.family.nobody() {
            return Some(0);
        }
        self.of_buffer(&Call { wide, ..*call }, buffer)?.checked_mul(parts)
    }

    /// The communicator of the call: for one that makes another, its parent.
    pub fn communicator(&self, call: &Call<'_>) -> Option<u64> {
        let comm = match call.function.shape {
            Shape::Send { comm, .. }
            | Shape::Receive { comm, .. }
            | Shape::Each { comm, .. }
            | Shape::FromRoot { comm, .. }
            | Shape::ForEach { comm, .. }
            | Shape::Counts { comm, .. }
            | Shape::Scatter { comm, .. }
            | Shape::Prepare { comm, .. }
            | Shape::PrepareParts { comm, .. } => comm,
            Shape::Start | Shape::StartAll => return self.only_started(call)?.comm,
            Shape::Wait if matches!(call.function.name, "Barrier" | "Ibarrier") => 0,
            Shape::Communicator(..) => 0,
            _ => return None,
        };
        Some(self.handle(call.argument(comm)?))
    }

    /// The index of a communicator among [`communicators`](Self::communicators).
    pub fn communicator_index(&self, comm: u64) -> Option<u32> {
        if self.is_world(comm) { Some(0) } else { self.communicators.index(comm) }
    }

    /// Whether a communicator is `MPI_COMM_WORLD`.
    pub fn is_world(&self, comm: u64) -> bool {
        self.family.world() == Some(comm) || self.worlds.contains(&comm)
    }

    /// Ranks of `MPI_COMM_WORLD` and the own rank there, as far as the program asked.
    pub fn world(&self) -> (Option<u32>, Option<u32>) {
        let of_world =
            |known: &HashMap<u64, u32>| known.iter().find(|(comm, _)| self.is_world(**comm)).map(|(_, n)| *n);
        (of_world(&self.sizes), of_world(&self.ranks))
    }

    /// The own rank in `MPI_COMM_WORLD` and how many there are, if the program did not say.
    pub fn know_world(&mut self, rank: u32, ranks: u32) {
        let worlds: Vec<u64> = self.family.world().into_iter().chain(self.worlds.iter().copied()).collect();
        for world in worlds {
            if !self.ranks.contains_key(&world) {
                self.has_rank(world, rank);
                self.has_size(world, ranks);
            }
        }
    }

    /// A communicator was made.
    pub fn made(&mut self, handle: u64, parent: u32, made: Made) {
        self.freed(handle);
        self.communicators.add(handle, parent, made);
    }

    /// A communicator between two groups was made.
    pub fn made_between_groups(&mut self, handle: u64) {
        self.freed(handle);
        self.intercommunicators.insert(handle);
    }

    /// A communicator ends: its handle may come again, for one created by a call that is not followed.
    pub fn freed(&mut self, handle: u64) {
        self.sizes.remove(&handle);
        self.ranks.remove(&handle);
        self.intercommunicators.remove(&handle);
        self.communicators.remove(handle);
    }

    /// The number of ranks of a communicator.
    pub fn has_size(&mut self, comm: u64, size: u32) {
        self.sizes.insert(comm, size);
        if let Some(known) = self.communicator_index(comm).and_then(|i| self.communicators.get_mut(i)) {
            known.size = Some(size);
        }
    }

    /// The own rank in a communicator.
    pub fn has_rank(&mut self, comm: u64, rank: u32) {
        self.ranks.insert(comm, rank);
        if let Some(known) = self.communicator_index(comm).and_then(|i| self.communicators.get_mut(i)) {
            known.rank = Some(rank);
        }
    }

    /// The handle behind the pointer `at`, in memory that `read` reads.
    pub fn handle_behind(&self, read: Read<'_>, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        read(at, &mut bytes[..self.family.handle_bytes()]).then(|| u64::from_le_bytes(bytes))
    }

    /// The i-th handle of the array at `at`.
    fn handle_in_array(&self, read: Read<'_>, at: u64, i: u64) -> Option<u64> {
        self.handle_behind(read, at.checked_add(i * self.family.handle_bytes() as u64)?)
    }

    /// The other sides of the call.
    pub fn sides(&self, call: &Call<'_>) -> Sides {
        let side = |peer: Peer| self.side(call, peer);
        let root = |argument: u8| Sides { root: call.int(argument), ..Sides::default() };
        match (call.function.shape, call.function.name) {
            (Shape::Send { buffer, to, from, .. }, _) => {
                // With a negative count the call fails and sends nothing.
                let sends = call.count(buffer.count).is_some();
                Sides { to: side(to).filter(|_| sends), from: from.and_then(side), root: None }
            }
            (Shape::Receive { from, .. }, _) => Sides { from: side(from), ..Sides::default() },
            (Shape::Start | Shape::StartAll, _) => self.only_started(call).map_or(Sides::default(), |one| one.sides),
            (Shape::FromRoot { root: argument, .. } | Shape::Scatter { root: argument, .. }, _) => root(argument),
            (_, "Reduce" | "Ireduce") => root(5),
            (_, "Gather" | "Igather") => root(6),
            (_, "Gatherv" | "Igatherv") => root(7),
            _ => Sides::default(),
        }
    }

    /// Rank and tag of another side of the call; `None`: there is none.
    fn side(&self, call: &Call<'_>, peer: Peer) -> Option<(i32, i32)> {
        let rank = call.int(peer.rank).filter(|rank| *rank != self.family.nobody())?;
        Some((rank, call.int(peer.tag)?))
    }

    fn buffer(&self, call: &Call<'_>, buffer: Buffer, in_place: Option<Buffer>) -> Option<Buffer> {
        if call.argument(buffer.data)? == self.family.in_place() { in_place } else { Some(buffer) }
    }

    fn of_buffer(&self, call: &Call<'_>, buffer: Buffer) -> Option<u64> {
        let count = call.count(buffer.count)?;
        if count == 0 {
            return Some(0);
        }
        let bytes = count.checked_mul(self.datatype(call.argument(buffer.datatype)?)?);
        bytes.filter(|bytes| *bytes <= LARGEST_BUFFER)
    }

    fn of_counts(&self, call: &Call<'_>, buffer: Buffer, comm: u8) -> Option<u64> {
        let ranks = *self.sizes.get(&self.handle(call.argument(comm)?))?;
        let all = total(call.counts(buffer.count, u64::from(ranks))?)?;
        if all == 0 { Some(0) } else { all.checked_mul(self.datatype(call.argument(buffer.datatype)?)?) }
    }

    fn started(&self, call: &Call<'_>, at: u64, number: u64) -> Option<u64> {
        (0..number.min(LONGEST_ARRAY as u64)).try_fold(0u64, |all, i| {
            let one = self.prepared.get(&self.handle_in_array(call.read, at, i)?)?;
            all.checked_add(one.bytes?)
        })
    }

    /// The one that the call starts, if it starts one alone.
    fn only_started(&self, call: &Call<'_>) -> Option<Prepared> {
        let at = match call.function.shape {
            Shape::StartAll if call.int(0)? == 1 => call.argument(1)?,
            Shape::StartAll => return None,
            _ => call.argument(0)?,
        };
        self.prepared.get(&self.handle_in_array(call.read, at, 0)?).copied()
    }

    /// Bytes of an element of the datatype that a constructor makes.
    pub fn constructed(&self, call: &Call<'_>, constructor: Constructor) -> Option<u64> {
        let old = |i| self.datatype(call.argument(i)?);
        match constructor {
            Constructor::Contiguous => call.count(0)?.checked_mul(old(1)?),
            Constructor::Vector => call.count(0)?.checked_mul(call.count(1)?)?.checked_mul(old(3)?),
            Constructor::IndexedBlock => call.count(0)?.checked_mul(call.count(1)?)?.checked_mul(old(3)?),
            Constructor::Indexed => total(call.counts(1, call.count(0)?)?)?.checked_mul(old(3)?),
            Constructor::Struct => {
                let types = call.argument(3)?;
                let lengths = call.counts(1, call.count(0)?)?;
                (0..).zip(lengths).try_fold(0u64, |all, (i, length)| {
                    let element = self.datatype(self.handle_in_array(call.read, types, i)?)?;
                    all.checked_add(length.checked_mul(element)?)
                })
            }
            Constructor::Resized | Constructor::Dup => old(0),
            Constructor::Subarray => {
                let elements = call.counts(2, call.count(0)?)?.into_iter().try_fold(1u64, u64::checked_mul)?;
                elements.checked_mul(old(5)?)
            }
        }
    }
}

/// `None`: an overflow, so they are no counts.
fn total(counts: Vec<u64>) -> Option<u64> {
    counts.into_iter().try_fold(0u64, u64::checked_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::functions::{FUNCTIONS, named};

    /// MPI_DOUBLE, MPI_INT and MPI_COMM_WORLD of MPICH.
    const DOUBLE: u64 = 0x4c00_080b;
    const INT: u64 = 0x4c00_0405;
    const WORLD: u64 = 0x4400_0000;

    fn handles() -> Handles {
        let mut handles = Handles { family: Family::Mpich, ..Handles::default() };
        handles.sizes.insert(WORLD, 4);
        handles.ranks.insert(WORLD, 1);
        handles
    }

    fn call<'c>(name: &str, arguments: &'c [u64], read: &'c dyn Fn(u64, &mut [u8]) -> bool) -> Call<'c> {
        let function = &FUNCTIONS[named(name).unwrap().0 as usize];
        Call { function, arguments, wide: name.ends_with("_c"), read }
    }

    fn bytes(name: &str, arguments: &[u64]) -> Option<u64> {
        // Four counts of 1, 2, 3, 4 at 0x1000.
        let memory = |at: u64, buffer: &mut [u8]| {
            let all: Vec<u8> = [1i32, 2, 3, 4].iter().flat_map(|n| n.to_le_bytes()).collect();
            let ok = at == 0x1000 && buffer.len() <= all.len();
            if ok {
                buffer.copy_from_slice(&all[..buffer.len()]);
            }
            ok
        };
        handles().bytes(&call(name, arguments, &memory))
    }

    #[test]
    fn calls_pass_what_their_arguments_say() {
        let nobody = (-1i32) as u32 as u64;
        assert_eq!(bytes("MPI_Send", &[9, 0xffff_ffff_0000_03e8, DOUBLE, 1, 7, WORLD]), Some(8000), "32 bits count");
        assert_eq!(bytes("MPI_Send_c", &[9, 3 << 31, INT, 1, 7, WORLD]), Some(3 << 33));
        assert_eq!(bytes("MPI_Send", &[9, 5, DOUBLE, nobody, 7, WORLD]), Some(0), "to nobody");
        assert_eq!(bytes("MPI_Send", &[9, nobody, DOUBLE, 1, 7, WORLD]), None, "a negative count");
        assert_eq!(bytes("MPI_Send", &[9, 5, 0x1234, 1, 7, WORLD]), None, "an unknown type");
        assert_eq!(bytes("MPI_Allreduce", &[u64::MAX, 8, 5, DOUBLE, 3, WORLD]), Some(40), "in place");
        assert_eq!(bytes("MPI_Alltoall", &[8, 2, INT, 8, 2, INT, WORLD]), Some(32));
        assert_eq!(bytes("MPI_Alltoallv", &[8, 0x1000, 0, INT, 8, 0, 0, INT, WORLD]), Some(40));
        assert_eq!(bytes("MPI_Alltoall", &[8, 2, INT, 8, 2, INT, 99]), None, "an unknown communicator");
        assert_eq!(bytes("MPI_Scatter", &[8, 2, INT, 8, 2, INT, 1, WORLD]), Some(32), "the root");
        assert_eq!(bytes("MPI_Scatter", &[8, 2, INT, 8, 2, INT, 0, WORLD]), Some(0));
        assert_eq!(bytes("MPI_Recv", &[8, 2, INT, 0, 7, WORLD, 0]), Some(0));
    }

    #[test]
    fn arguments_that_are_none_are_not_measured() {
        let garbage = i64::MAX as u64;
        assert_eq!(bytes("MPI_Send_c", &[9, garbage, DOUBLE, 1, 7, WORLD]), None);
        assert_eq!(bytes("MPI_Send_c", &[9, 1 << 60, INT, 1, 7, WORLD]), None, "longer than any memory");
        assert_eq!(bytes("MPI_Alltoall_c", &[8, 1 << 55, INT, 8, 2, INT, WORLD]), None);
        let no_memory = |_: u64, _: &mut [u8]| false;
        let unreadable = call("MPI_Alltoallv", &[8, 0x1000, 0, INT, 8, 0, 0, INT, WORLD], &no_memory);
        assert_eq!(handles().bytes(&unreadable), None);
        let large = |_: u64, buffer: &mut [u8]| {
            let count = i64::MAX.to_le_bytes();
            buffer.iter_mut().zip(count.iter().cycle()).for_each(|(to, from)| *to = *from);
            true
        };
        let arguments = [8, 0x1000, 0, INT, 8, 0, 0, INT, WORLD];
        assert_eq!(handles().bytes(&call("MPI_Alltoallv_c", &arguments, &large)), None);
        let mixed = Handles { is_mixed: true, ..handles() };
        assert_eq!(mixed.bytes(&call("MPI_Send", &[9, 5, INT, 1, 7, WORLD], &no_memory)), None, "of two libraries");
    }

    #[test]
    fn a_handle_that_comes_again_is_another_communicator() {
        let mut handles = handles();
        let half = 0x8400_0002;
        handles.made(half, 0, Made::Same);
        handles.has_size(half, 2);
        let passes =
            |handles: &Handles| handles.bytes(&call("MPI_Alltoall", &[8, 2, INT, 8, 2, INT, half], &|_, _| false));
        assert_eq!((passes(&handles), handles.communicator_index(half)), (Some(16), Some(1)));
        handles.freed(half);
        assert_eq!((passes(&handles), handles.communicator_index(half)), (None, None));
    }

    #[test]
    fn a_call_that_fails_sends_to_nobody() {
        let to = |count: i32| {
            let arguments = [9, u64::from(count as u32), DOUBLE, 1, 7, WORLD];
            handles().sides(&call("MPI_Send", &arguments, &|_, _| false)).to
        };
        assert_eq!([to(5), to(-1)], [Some((1, 7)), None]);
    }

    #[test]
    fn what_depends_on_the_other_group_is_not_measured() {
        let mut handles = handles();
        let between = 0x8400_0002;
        handles.made_between_groups(between);
        handles.has_size(between, 2);
        handles.has_rank(between, 0);
        let passes = |name, arguments: &[u64]| handles.bytes(&call(name, arguments, &|_, _| false));
        assert_eq!(passes("MPI_Alltoall", &[8, 2, INT, 8, 2, INT, between]), None);
        assert_eq!(passes("MPI_Bcast", &[8, 100, DOUBLE, 0, between]), None);
        assert_eq!(passes("MPI_Gather", &[8, 2, INT, 8, 2, INT, 0, between]), None);
        assert_eq!(passes("MPI_Allreduce", &[8, 8, 5, DOUBLE, 3, between]), Some(40), "each has one contribution");
        assert_eq!(passes("MPI_Send", &[9, 5, DOUBLE, 1, 7, between]), Some(40));
        handles.made(between, 0, Made::Same);
        handles.has_size(between, 2);
        let all = handles.bytes(&call("MPI_Alltoall", &[8, 2, INT, 8, 2, INT, between], &|_, _| false));
        assert_eq!(all, Some(16), "the handle came again");
    }

    #[test]
    fn parts_of_a_message_are_added_up() {
        let prepares = |name, arguments: &[u64]| handles().prepares(&call(name, arguments, &|_, _| false)).bytes;
        assert_eq!(prepares("MPI_Psend_init", &[8, 4, 100, DOUBLE, 1, 7, WORLD, 0, 0]), Some(3200));
        assert_eq!(prepares("MPI_Psend_init", &[8, 2, 3 << 30, INT, 1, 7, WORLD, 0, 0]), Some(3 << 33));
        assert_eq!(prepares("MPI_Bcast_init", &[8, 100, DOUBLE, 1, WORLD, 0, 0]), Some(800), "of a collective call");
        assert_eq!(
            prepares("MPI_Bcast_init", &[8, 100, DOUBLE, 0, WORLD, 0, 0]),
            Some(0),
            "of which this is not the root"
        );
        assert_eq!(bytes("MPI_Bcast_init", &[8, 100, DOUBLE, 1, WORLD, 0, 0]), Some(0));
        assert_eq!(prepares("MPI_Precv_init", &[8, 4, 100, DOUBLE, 1, 7, WORLD, 0, 0]), Some(0));
        assert_eq!(prepares("MPI_Psend_init", &[8, 4, 100, DOUBLE, u64::from(u32::MAX), 7, WORLD, 0, 0]), Some(0));
    }

    #[test]
    fn a_start_has_the_sides_of_what_was_prepared() {
        let mut handles = handles();
        // MPICH's handles have 32 bits: a request at 0x1000, another behind it.
        let memory = |at: u64, buffer: &mut [u8]| {
            let request: u32 = if at == 0x1000 { 5 } else { 6 };
            buffer.copy_from_slice(&request.to_le_bytes()[..buffer.len()]);
            true
        };
        let none = |_: u64, _: &mut [u8]| false;
        let prepared = |handles: &Handles, name, arguments: &[u64]| handles.prepares(&call(name, arguments, &none));
        let send = prepared(&handles, "MPI_Send_init", &[8, 100, DOUBLE, 1, 7, WORLD, 0]);
        let receive = prepared(&handles, "MPI_Recv_init", &[8, 100, DOUBLE, 2, 9, WORLD, 0]);
        handles.prepared.extend([(5, send), (6, receive)]);
        let started = |name, arguments: &[u64]| {
            let call = call(name, arguments, &memory);
            (handles.bytes(&call), handles.sides(&call), handles.communicator(&call))
        };
        let to = Sides { to: Some((1, 7)), ..Sides::default() };
        let from = Sides { from: Some((2, 9)), ..Sides::default() };
        assert_eq!(started("MPI_Start", &[0x1000]), (Some(800), to, Some(WORLD)));
        assert_eq!(started("MPI_Startall", &[1, 0x1004]), (Some(0), from, Some(WORLD)));
        assert_eq!(started("MPI_Startall", &[2, 0x1000]), (Some(800), Sides::default(), None), "of both");
        let collective = prepared(&handles, "MPI_Bcast_init", &[8, 100, DOUBLE, 1, WORLD, 0, 0]);
        assert_eq!((collective.sides, collective.comm), (Sides::default(), None));
    }

    #[test]
    fn made_types_have_the_size_of_their_parts() {
        let memory = |at: u64, buffer: &mut [u8]| {
            let words: Vec<u32> = match at {
                0x1000 => vec![2, 3],
                0x2000 => vec![DOUBLE as u32],
                0x2004 => vec![INT as u32],
                _ => return false,
            };
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            buffer.copy_from_slice(&bytes[..buffer.len()]);
            true
        };
        let made = |name: &str, arguments: &[u64]| {
            let call = call(name, arguments, &memory);
            let Shape::Type(constructor, _) = call.function.shape else { panic!("{name}") };
            handles().constructed(&call, constructor)
        };
        assert_eq!(made("MPI_Type_vector", &[10, 5, 100, DOUBLE, 0]), Some(400));
        assert_eq!(made("MPI_Type_create_struct", &[2, 0x1000, 0, 0x2000, 0]), Some(2 * 8 + 3 * 4));
        assert_eq!(made("MPI_Type_indexed", &[2, 0x1000, 0, INT, 0]), Some(20));
        assert_eq!(made("MPI_Type_create_subarray", &[2, 0, 0x1000, 0, 56, DOUBLE, 0]), Some(48));
        assert_eq!(made("MPI_Type_contiguous", &[3, 0x777, 0]), None);
    }
}
