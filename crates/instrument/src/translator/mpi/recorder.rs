//! Adds the calls of MPI up by call site.

use std::collections::HashMap;
use std::path::Path;

use nix::unistd::Pid;

use super::call::{OpenCall, Returns};
use super::socket_traffic::SocketTraffic;
use crate::translator::calls::open_calls::{Open, OpenCalls};
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::call_record::{CallRecord, ReturnRecord, SocketRecord};
use crate::translator::code_cache::hash::AddressMap;
use crate::translator::code_cache::mpi_places::Entry;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::mpi::{
    MpiCall, MpiEvidence, MpiSite, NetworkEvidence, NetworkMissing, OfWindows, SIZES, Traffic,
};
use rprof_profile::evidence::windows::SiteCalls;
use rprof_tracee::address::Address;
use rprof_tracee::clock::TimeStamps;
use rprof_tracee::memory::Memory;
use rprof_tracee::mpi::functions::{Binding, FUNCTIONS, Shape};
use rprof_tracee::mpi::making;
use rprof_tracee::mpi::volume::{Call, Handles, Read, Sides};
use rprof_tracee::rdma_ports;

/// The index of `MPI_COMM_WORLD` among communicators.
const WORLD: u32 = 0;

/// The calls of a run.
#[derive(Debug, Default)]
pub struct MpiRecorder {
    sites: Vec<MpiSite>,
    by_key: HashMap<(u32, CodeRef, u16, bool), u32>,
    calls: Vec<(MpiCall, u64, u64)>,
    left_out: u64,
    /// By address space.
    handles: HashMap<Pid, Handles>,
    /// Sites by return address: of the thread that was last there.
    recent: AddressMap<u64, Recent>,
    /// By thread.
    threads: HashMap<u32, OpenCalls<OpenCall>>,
    first: Option<Pid>,
    sockets: SocketTraffic,
    /// Bytes to and from other hosts, outside of calls.
    outside: Traffic,
    /// The counters of RDMA ports when the first call was read.
    ports: Option<Traffic>,
    /// The program is counted in windows; how many calls of each site, and bytes, those before had.
    windows: Option<Vec<(u64, u64)>>,
    /// The own rank in `MPI_COMM_WORLD` and how many there are, as the launcher says.
    launched: Option<(u32, u32)>,
}

/// What is known of one thread and its process.
#[derive(Debug)]
pub struct Lent {
    open: OpenCalls<OpenCall>,
    handles: Handles,
}

/// A call site that was met before.
#[derive(Debug, Clone, Copy)]
struct Recent {
    address_space: Pid,
    thread: u32,
    place: u64,
    site: u32,
}

impl MpiRecorder {
    /// A program that is counted in windows, as rank `launched.0` of `launched.1`.
    pub fn of_windows(launched: Option<(u32, u32)>) -> Self {
        MpiRecorder { windows: Some(Vec::new()), launched, ..MpiRecorder::default() }
    }

    /// A window has ended: returns its calls. Calls that are going on return unseen, and handles may be freed and come again.
    pub fn end_window(&mut self) -> Vec<SiteCalls> {
        for open in std::mem::take(&mut self.threads).into_values() {
            // A call of Fortran with its C call behind the window has no bytes: it counts as one after it.
            for site in open.all().filter(|call| call.is_undecided).filter_map(|call| call.site) {
                self.sites[site as usize].calls -= 1;
            }
        }
        self.handles.clear();
        let now: Vec<(u64, u64)> = self.sites.iter().map(|site| (site.calls, site.bytes)).collect();
        let before = self.windows.replace(now.clone()).unwrap_or_default();
        let before = before.into_iter().chain(std::iter::repeat((0, 0)));
        let of_site = |((site, now), before): ((u32, (u64, u64)), (u64, u64))| SiteCalls {
            site,
            calls: now.0 - before.0,
            bytes: now.1 - before.1,
        };
        (0..).zip(now).zip(before).map(of_site).filter(|of| of.calls > 0).collect()
    }

    /// Lends the state for a thread while its ring is read.
    pub fn lend(&mut self, address_space: &AddressSpace, cache: &CodeCache, thread: &Thread) -> Lent {
        let mut handles = self.handles.remove(&address_space.pid).unwrap_or_default();
        let mpi = &cache.watched.mpi;
        (handles.family, handles.is_mixed) = (mpi.family.unwrap_or_default(), mpi.is_mixed);
        handles.worlds.clone_from(&mpi.worlds);
        if handles.datatypes.len() < mpi.datatypes.len() {
            handles.datatypes.extend(mpi.datatypes.iter().map(|(at, bytes)| (*at, u64::from(*bytes))));
        }
        if let Some((rank, ranks)) = self.launched {
            handles.know_world(rank, ranks);
        }
        Lent { open: self.threads.remove(&thread.ordinal).unwrap_or_default(), handles }
    }

    /// Takes back what [`lend`](Self::lend) gave.
    pub fn take_back(&mut self, address_space: &AddressSpace, thread: &Thread, lent: Lent) {
        self.threads.insert(thread.ordinal, lent.open);
        self.handles.insert(address_space.pid, lent.handles);
    }

    /// The first record of a run is read.
    fn begin(&mut self, address_space: &AddressSpace) {
        if self.first.is_none() {
            self.first = Some(address_space.pid);
            self.ports = rdma_ports::bytes(Path::new(rdma_ports::SYS));
        }
    }

    /// A thread has got a signal.
    pub fn got_signal(&mut self, thread: u32) {
        self.threads.get_mut(&thread).map(OpenCalls::got_signal);
    }

    /// Notes what a system call moved.
    pub fn moved(
        &mut self,
        (address_space, cache, thread): (&AddressSpace, &mut CodeCache, &Thread),
        lent: &mut Lent,
        record: &SocketRecord,
    ) {
        self.begin(address_space);
        let moved = self.sockets.note((address_space, cache, thread), record);
        let site = lent.open.innermost(|call| call.site.is_some()).and_then(|open| open.what.site);
        match site.and_then(|site| self.sites.get_mut(site as usize)) {
            Some(site) => site.network += moved,
            None => self.outside += moved,
        }
    }

    /// Notes a call, and watches its return.
    pub fn called(
        &mut self,
        (address_space, cache, thread): (&AddressSpace, &mut CodeCache, &Thread),
        Lent { open, handles }: &mut Lent,
        entry: Entry,
        record: &CallRecord,
    ) {
        self.begin(address_space);
        let function = entry.function();
        let returns_to = record.returns_to;
        // A signal has put the thread back to the function's start: the same call once more.
        if open.repeats((record.place, record.stack, returns_to), record.executed) {
            return;
        }
        open.enter(record.stack);
        let is_c = matches!(entry.binding, Binding::C { .. });
        let wide = entry.binding == Binding::C { wide: true };
        let outer = open.innermost(|call| call.site.is_some()).map(|outer| &mut outer.what);
        // A call by the program's own code within a call, after a jump out of one, or in a handler, is the program's, too.
        let site = match &outer {
            Some(_) if cache.watched.mpi.is_linked_in => None,
            _ => self.own_site((address_space, cache, thread), (record, entry.function, wide)),
        };
        let outer = outer.filter(|_| site.is_none());
        let read = |at: u64, buffer: &mut [u8]| read_memory(&address_space.memory, at, buffer);
        let arguments = &record.arguments[..usize::from(function.arguments).min(record.arguments.len())];
        let call = Call { function, arguments, wide, read: &read };
        let describes = is_c && (site.is_some() || outer.as_ref().is_some_and(|outer| outer.is_undecided));
        let bytes = if describes { handles.bytes(&call) } else { None };
        let bytes_of_root = if describes && bytes.is_none() { handles.bytes_of_root(&call) } else { None };
        let sides = if describes { handles.sides(&call) } else { Sides::default() };
        let comm = handles.communicator(&call).filter(|_| describes);
        let communicator = comm.and_then(|comm| handles.communicator_index(comm));
        let result = if is_c { result_of(handles, &call) } else { None };
        if let Shape::TypeFree | Shape::CommFree = function.shape
            && is_c
            && let Some(handle) = handles.handle_behind(&read, arguments.first().copied().unwrap_or(0))
        {
            match function.shape {
                Shape::TypeFree => _ = handles.datatypes.remove(&handle),
                _ => handles.freed(handle),
            }
        }
        // The work of a Fortran call is described by the C call within.
        if let Some(outer) = outer.filter(|_| describes) {
            (outer.bytes, outer.is_undecided, outer.sides, outer.communicator) = (bytes, false, sides, communicator);
            outer.bytes_of_root = bytes_of_root;
            self.add_bytes(outer.site, bytes);
            if let Some(site) = outer.site.filter(|_| communicator == Some(WORLD)) {
                self.sites[site as usize].world_calls += 1;
            }
        }
        if let Some(site) = site {
            self.sites[site as usize].calls += 1;
            self.sites[site as usize].world_calls += u64::from(communicator == Some(WORLD));
            if is_c {
                self.add_bytes(Some(site), bytes);
            }
        }
        if site.is_none() && result.is_none() {
            return;
        }
        let at_once = result.is_some();
        open.push(Open {
            place: record.place,
            stack: record.stack,
            returns_to,
            time: record.time,
            executed: record.executed,
            may_be_left: false,
            what: OpenCall { site, bytes, bytes_of_root, is_undecided: !is_c, sides, communicator, result },
        });
        if cache.watched.watch_return(returns_to, at_once) {
            cache.invalidate(Address::new(returns_to), Address::new(returns_to + 1));
        }
    }

    /// The site of a call that is the program's own; `None` if MPI itself calls.
    fn own_site(
        &mut self,
        (address_space, cache, thread): (&AddressSpace, &CodeCache, &Thread),
        (record, function, wide): (&CallRecord, u16, bool),
    ) -> Option<u32> {
        let returns_to = record.returns_to;
        let of = (address_space.pid, thread.ordinal, record.place);
        if let Some(recent) = self.recent.get(&returns_to)
            && (recent.address_space, recent.thread, recent.place) == of
        {
            return Some(recent.site);
        }
        if cache.watched.mpi.is_inside(returns_to) {
            return None;
        }
        let at = address_space.place(Address::new(returns_to.wrapping_sub(1)))?;
        let site = self.site(thread.ordinal, at, function, wide);
        let (address_space, thread, place) = of;
        self.recent.insert(returns_to, Recent { address_space, thread, place, site });
        Some(site)
    }

    /// Notes that a call has returned, if it is one of MPI.
    pub fn returned(&mut self, address_space: &AddressSpace, Lent { open, handles }: &mut Lent, record: &ReturnRecord) {
        let Some(Open { what: call, time: begun, .. }) = open.leave(record.place, record.stack) else { return };
        if let Some(result) = call.result {
            learn(handles, &|at, buffer| read_memory(&address_space.memory, at, buffer), result);
        }
        // In windows long calls seldom return: those that do say nothing of time.
        let Some(site) = call.site.filter(|_| self.windows.is_none()) else { return };
        let totals = &mut self.sites[site as usize];
        totals.timed += 1;
        // In ticks until the run has ended.
        totals.time_s += record.time.wrapping_sub(begun) as f64;
        if self.calls.len() < MpiEvidence::CALLS {
            let Sides { to, from, root } = call.sides;
            let (bytes, bytes_of_root, communicator) = (call.bytes, call.bytes_of_root, call.communicator);
            let call = MpiCall { site, start_ns: 0, end_ns: 0, bytes, bytes_of_root, to, from, root, communicator };
            self.calls.push((call, begun, record.time));
        } else {
            self.left_out += 1;
        }
    }

    fn site(&mut self, thread: u32, at: CodeRef, function: u16, wide: bool) -> u32 {
        let next = self.sites.len() as u32;
        let site = *self.by_key.entry((thread, at, function, wide)).or_insert(next);
        if site == next {
            self.sites.push(MpiSite {
                at,
                function: format!("MPI_{}{}", FUNCTIONS[usize::from(function)].name, if wide { "_c" } else { "" }),
                thread,
                calls: 0,
                bytes: 0,
                unknown: 0,
                timed: 0,
                time_s: 0.0,
                sizes: vec![0; SIZES],
                size_bytes: vec![0; SIZES],
                network: Traffic::default(),
                world_calls: 0,
                errors: None,
            });
        }
        site
    }

    fn add_bytes(&mut self, site: Option<u32>, bytes: Option<u64>) {
        let Some(site) = site.and_then(|site| self.sites.get_mut(site as usize)) else { return };
        match bytes {
            Some(bytes) => {
                site.bytes = site.bytes.saturating_add(bytes);
                let size = ((u64::BITS - bytes.leading_zeros()) as usize).min(SIZES - 1);
                site.sizes[size] += 1;
                site.size_bytes[size] = site.size_bytes[size].saturating_add(bytes);
            }
            None => site.unknown += 1,
        }
    }

    /// Ends the run; its time stamps are those of `clock`. `None`: nothing of MPI was called.
    pub fn finish(mut self, clock: &TimeStamps) -> Option<MpiEvidence> {
        self.first?;
        let ticks_per_ns = clock.ticks_per_ns();
        for site in &mut self.sites {
            site.time_s /= ticks_per_ns * 1e9;
            // Calls of Fortran with work that no C call has described.
            let described = site.sizes.iter().sum::<u64>() + site.unknown;
            site.unknown += site.calls.saturating_sub(described);
        }
        let at_ns = |ticks: u64| clock.at_ns(ticks, ticks_per_ns);
        let mut calls: Vec<MpiCall> = self
            .calls
            .into_iter()
            .map(|(call, start, end)| MpiCall { start_ns: at_ns(start), end_ns: at_ns(end), ..call })
            .collect();
        calls.sort_by_key(|call| call.end_ns);
        let handles = self.first.and_then(|first| self.handles.remove(&first)).unwrap_or_default();
        let (rank, ranks) = self.launched.unzip();
        let (of_world, own) = handles.world();
        let (ranks, rank) = (of_world.or(ranks), own.or(rank));
        let communicators = handles.communicators.into_all();
        let ports = self.ports.zip(rdma_ports::bytes(Path::new(rdma_ports::SYS))).map(|(before, now)| Traffic {
            sent: now.sent.wrapping_sub(before.sent),
            received: now.received.wrapping_sub(before.received),
        });
        let moved = ports.is_some_and(|ports| ports != Traffic::default());
        let network = NetworkEvidence {
            outside: self.outside,
            within_host: self.sockets.within_host,
            host_ports: ports,
            missing: self.sockets.missing.or(moved.then_some(NetworkMissing::KernelBypass)),
        };
        Some(MpiEvidence {
            sites: self.sites,
            calls,
            calls_left_out: self.left_out,
            communicators,
            ranks,
            rank,
            network,
            windows: self.windows.is_some().then_some(OfWindows::Extended),
        })
    }
}

fn read_memory(memory: &Memory, at: u64, buffer: &mut [u8]) -> bool {
    memory.read(Address::new(at), buffer).is_ok()
}

/// The values to be read behind the pointers of `call` when it returns.
fn result_of(handles: &Handles, call: &Call<'_>) -> Option<Returns> {
    let argument = |i: u8| call.arguments.get(usize::from(i)).copied();
    if let Some(request) = call.function.request() {
        return Some(Returns::Prepared(argument(request)?, handles.prepares(call)));
    }
    match call.function.shape {
        Shape::Type(constructor, new) => {
            Some(Returns::Datatype(argument(new)?, handles.constructed(call, constructor)))
        }
        Shape::Intercommunicator(new) => Some(Returns::Intercommunicator(argument(new)?)),
        Shape::Communicator(_, new) if handles.intercommunicators.contains(&handles.handle(argument(0)?)) => {
            Some(Returns::Intercommunicator(argument(new)?))
        }
        Shape::Communicator(_, new) => {
            let (parent, made) = making::made(handles, call)?;
            Some(Returns::Communicator(argument(new)?, parent, made))
        }
        Shape::CommSize => Some(Returns::Size(handles.handle(argument(0)?), argument(1)?)),
        Shape::CommRank => Some(Returns::Rank(handles.handle(argument(0)?), argument(1)?)),
        _ => None,
    }
}

fn learn(handles: &mut Handles, read: Read<'_>, result: Returns) {
    let int = |at: u64| {
        let mut bytes = [0; 4];
        read(at, &mut bytes).then(|| u32::from_le_bytes(bytes))
    };
    match result {
        Returns::Size(comm, at) => {
            if let Some(size) = int(at) {
                handles.has_size(comm, size);
            }
        }
        Returns::Rank(comm, at) => {
            if let Some(rank) = int(at) {
                handles.has_rank(comm, rank);
            }
        }
        Returns::Communicator(at, parent, made) => {
            if let Some(handle) = handles.handle_behind(read, at) {
                handles.made(handle, parent, made);
            }
        }
        Returns::Intercommunicator(at) => {
            if let Some(handle) = handles.handle_behind(read, at) {
                handles.made_between_groups(handle);
            }
        }
        Returns::Datatype(at, bytes) => {
            if let (Some(handle), Some(bytes)) = (handles.handle_behind(read, at), bytes) {
                handles.datatypes.insert(handle, bytes);
            }
        }
        Returns::Prepared(at, prepared) => {
            if let Some(request) = handles.handle_behind(read, at) {
                handles.prepared.insert(request, prepared);
            }
        }
    }
}
