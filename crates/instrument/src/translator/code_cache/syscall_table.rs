//! How translated code treats a system call, decided in line by its number: the classes, the class of each number, and the tables that the
//! code reads.

use crate::translator::code_cache::layout;
use crate::translator::code_cache::shared::Shared;

/// How a system call leaves the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CallClass {
    /// Executed in the cache.
    Native = 0,
    /// rprof looks at it first; at `clone` and `clone3` only if they make a task that cannot be traced, at `open` and `openat` only if
    /// the path may be of /proc.
    Stop = 1,
    /// Answered with ENOSYS in line (`rseq`).
    Absent = 2,
    /// Executed in the cache; then the code stores the signal mask.
    Mask = 3,
    /// `rt_sigaction`: rprof looks at it first if it concerns a signal that rprof's traps also raise.
    Action = 4,
    /// `mmap`: rprof looks at it first if the mapping is executable, may replace another one, or is a large allocation and the
    /// access sink wants to know of those.
    Map = 5,
    /// `prctl`: rprof looks at it first if it sets a filter of system calls, or dispatches them by their address.
    Rule = 6,
    /// If calls of MPI are seen: moves bytes of its first argument. Executed by a stub that records it if that is a socket.
    Moves = 7,
    /// The same for a call that may change what a descriptor is, or has a record that rprof must see at once; always
    /// recorded.
    Changes = 8,
    /// The same, recorded if its first argument is a socket.
    ChangesSocket = 9,
    /// rprof looks at it first, always.
    Judged = 10,
}

/// Calls that move bytes of the socket in their first argument.
const MOVES: [i64; 9] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendfile,
];

/// Calls that make a descriptor, or may change it, and those that move a number of bytes not found in a register.
const CHANGES: [i64; 11] = [
    libc::SYS_socket,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_splice,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_io_uring_setup,
];

/// Has calls that concern sockets recorded from now on.
pub fn record_sockets(tables: &Shared) {
    // A write that stops is recorded behind the stop.
    let stops = tables.load(u64::from(layout::CALLS) + libc::SYS_write as u64) == CallClass::Stop as u8;
    // Judged ones are not recorded.
    let is_judged = |number| tables.load(u64::from(layout::CALLS) + number as u64) == CallClass::Judged as u8;
    let record = |number, class| {
        if !is_judged(number) {
            set(tables, number, class)
        }
    };
    MOVES.into_iter().for_each(|number| record(number, CallClass::Moves));
    CHANGES.into_iter().for_each(|number| record(number, CallClass::Changes));
    [libc::SYS_close, libc::SYS_fcntl].into_iter().for_each(|number| record(number, CallClass::ChangesSocket));
    if stops {
        stop_at_writes(tables);
    }
}

/// Whether `number` is recorded if it concerns a socket.
pub fn records_sockets(tables: &Shared, number: i64) -> bool {
    let has_sockets = tables.load(u64::from(layout::CALLS) + libc::SYS_read as u64) == CallClass::Moves as u8;
    has_sockets && MOVES.contains(&number)
}

/// Calls that write to a descriptor.
const WRITES: [i64; 5] = [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev, libc::SYS_pwritev, libc::SYS_pwritev2];

/// Has writes stop from now on.
pub fn stop_at_writes(tables: &Shared) {
    WRITES.into_iter().for_each(|number| set(tables, number, CallClass::Stop));
}

/// Has `madvise` stop from now on.
pub fn stop_at_advice(tables: &Shared) {
    set(tables, libc::SYS_madvise, CallClass::Stop);
}

/// Has `calls` stop from now on, whatever their arguments.
pub fn judge(tables: &Shared, calls: impl Iterator<Item = i64>) {
    calls.for_each(|number| set(tables, number, CallClass::Judged));
}

/// Takes over what `from` decides by what its program did.
pub fn copy_classes(from: &Shared, to: &Shared) {
    for number in 0..CALLS {
        let at = u64::from(layout::CALLS) + number;
        to.store(at, from.load(at));
    }
}

fn set(tables: &Shared, number: i64, class: CallClass) {
    tables.store(u64::from(layout::CALLS) + number as u64, class as u8);
}

/// Numbers in the table.
const CALLS: u64 = 1024;

/// Calls that rprof must see: those that protect, move, unmap, replace or write text, set the GS base, return from a signal, trace, make
/// a task, lock all memory, limit it, filter calls, or open a file of /proc. rprof assumes that text does not change while it is not
/// writable: it does not see changes of the file by others.
const STOP: [i64; 21] = [
    libc::SYS_ptrace,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_shmat,
    libc::SYS_pkey_mprotect,
    libc::SYS_remap_file_pages,
    libc::SYS_rt_sigreturn,
    libc::SYS_arch_prctl,
    libc::SYS_mlockall,
    libc::SYS_getrlimit,
    libc::SYS_setrlimit,
    libc::SYS_prlimit64,
    libc::SYS_seccomp,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
];

/// The class of call `number`.
pub fn class(number: i64) -> CallClass {
    match number {
        libc::SYS_rseq => CallClass::Absent,
        libc::SYS_rt_sigprocmask => CallClass::Mask,
        libc::SYS_rt_sigaction => CallClass::Action,
        libc::SYS_mmap => CallClass::Map,
        libc::SYS_prctl => CallClass::Rule,
        n if STOP.contains(&n) => CallClass::Stop,
        _ => CallClass::Native,
    }
}

/// Lets `rseq` reach the kernel, for a program that ran before and may have registered threads: a library that could register
/// one thread and not the next ends the program.
pub fn allow_rseq(tables: &Shared) {
    tables.write(u64::from(layout::CALLS) + libc::SYS_rseq as u64, &[CallClass::Native as u8]);
}

/// Fills the tables that translated code reads.
pub fn write_tables(tables: &Shared) {
    for number in 0..CALLS {
        tables.write(u64::from(layout::CALLS) + number, &[class(number as i64) as u8]);
    }
    let bits: Vec<u8> = (0..256u32).map(|n| (n & libc::PROT_EXEC as u32) as u8).collect();
    tables.write(u64::from(layout::EXECUTABLE), &bits);
    let bits: Vec<u8> = (0..256u32).map(|n| (n & libc::MAP_FIXED as u32) as u8).collect();
    tables.write(u64::from(layout::FIXED), &bits);
    for (i, lanes) in [1u32, 2, 4, 8].into_iter().enumerate() {
        let table: Vec<u8> = (0..256u32).map(|m| (m & ((1 << lanes) - 1)).count_ones() as u8).collect();
        tables.write(u64::from(layout::POPULATION_8) + 256 * i as u64, &table);
    }
    let table: Vec<u8> = (0..=u16::MAX).map(|m| m.count_ones() as u8).collect();
    tables.write(u64::from(layout::POPULATION_16), &table);
}
