//! The memory that translated code shares with rprof, as offsets.
//!
//! ```text
//!  context, one per thread (GS base)          tables, one per address space
//!   0x000 saved registers                     0x00000 lookup: cache address by bits of the target
//!   0x040 mailbox                             0x80000 what to do with a system call, by its number
//!   0x080 self-description                    0x90000 populations of masks
//!   0x100 saved loop registers, an action,    0xb0000 polling: rprof reads the mailboxes; bits of mmap's arguments
//!         lines noted last, a marker call,    0xc0000 lookups of the versions that note addresses
//!         a watched call, a socket            0x2c0000 lookups of calls, for each version
//!   0x1000 counters, 8 bytes each             0x540000 lookups of returns, for each version; kinds of descriptors
//!   … at the end: known returns, ring of
//!     watched calls, two buffers
//!   0x2000000 the tables once more
//! ```
//!
//! Code reaches the tables through the GS base, too: each context of a thread has a second mapping of them at [`TABLES_AT`]. So neither
//! they nor the code need a place in the low 2 GiB of addresses, where programs place memory of their own.

use crate::tally::HIGHEST_CALL;
use crate::x86_64::lookup_index::{RETURN_ENTRIES, TARGET_ENTRIES};

/// RCX at an exit.
pub const SAVE_RCX: u32 = 0x00;
/// RDX at an exit.
pub const SAVE_RDX: u32 = 0x08;
/// Register lent to one translated instruction.
pub const SAVE_LENT: u32 = 0x10;
/// Second register lent to one translated instruction.
pub const SAVE_LENT_2: u32 = 0x18;
/// RCX before a `rep` instruction.
pub const REPEAT_FROM: u32 = 0x20;
/// Buffer addresses of the records of a `rep` instruction that may end early (`cmps`, `scas`): one for each operand.
pub const REPEAT_ENTRIES: u32 = 0xe0;
/// RAX while it holds the flags for a probe.
pub const SAVE_FLAGS: u32 = 0x28;
/// The address that a probe checks.
pub const PROBE_ADDRESS: u32 = 0x30;
/// A mask register's value in pieces.
pub const PROBE_SCRATCH: u32 = 0x38;
/// Address of the next entry of the buffer.
pub const CURSOR: u32 = 0xa0;
/// Which addresses are collected: those with zeros in these bits after mixing.
pub const SELECT_MASK: u32 = 0xa8;
/// RAX, RDI, RSI, R10 while the code stores the signal mask.
pub const SAVE_CALL: u32 = 0xc0;

/// Not 0: the thread waits for an answer.
pub const REQUEST: u32 = 0x40;
/// Exit that it waits at; 0 for a lookup.
pub const SITE: u32 = 0x48;
/// Program address that a lookup missed.
pub const TARGET: u32 = 0x50;
/// The answer: a cache address.
pub const RESPONSE: u32 = 0x58;

/// Remaining polls of the wait. In another line than the mailbox, which rprof reads meanwhile.
pub const PATIENCE: u32 = 0xf0;
/// Polls of all its waits so far.
pub const POLLS: u32 = 0xf8;

/// Signals that the thread blocks, as last stored.
pub const SIGNAL_MASK: u32 = 0x80;
/// Address of `SIGNAL_MASK`.
pub const SIGNAL_MASK_POINTER: u32 = 0x88;
/// GS base that the program set.
pub const PROGRAM_GS: u32 = 0x90;
/// The address to continue at after the signal mask was stored.
pub const CONTINUE_AT: u32 = 0x98;

/// A loop's induction register at its entry.
pub const LOOP_BASE: u32 = 0xb0;
/// Active lanes that a masked instruction adds to its sum before it is executed.
pub const LANES: u32 = 0xb8;

/// The program's values of registers that hold a loop's counters, by register number.
pub const SAVE_LOOP: u32 = 0x100;

/// A signal action to be set, in the kernel's form: 32 bytes.
pub const ACTION: u32 = 0x180;
/// Not 0: probes skip lines that the thread has recently recorded.
pub const FILTER: u32 = 0x1f8;
/// Those lines, by some of their bits.
pub const FILTERED: u32 = 0x200;
/// Their number: about as many of the lines that a sample selects as an L1 cache holds.
pub const FILTERED_LINES: u32 = 16;

/// A call of a marker function: which one, as its address, and rdi, rsi, rdx, rcx.
pub const MARKER: u32 = 0x280;
/// Those four registers.
pub const MARKER_ARGUMENTS: u32 = 0x288;
/// And rsp.
pub const MARKER_STACK: u32 = 0x2a8;

/// Address for the next record of a watched call.
pub const CALL_CURSOR: u32 = 0x2b0;
/// How many records more until rprof is to read them.
pub const CALLS_LEFT: u32 = 0x2b8;

/// A system call that may move bytes of a socket: the kind of its descriptor, as in [`DESCRIPTORS`].
pub const SOCKET_KIND: u32 = 0x2c0;
/// Its number.
pub const SOCKET_NUMBER: u32 = 0x2c8;
/// Its `syscall` in the block.
pub const SOCKET_NATIVE: u32 = 0x2d0;

/// The first counter.
pub const COUNTERS: u32 = 0x1000;
/// Bytes of a context's own memory.
const OWN: u32 = 32 << 20;
/// Offset of the tables in a context.
pub const TABLES_AT: u32 = OWN;
/// Bytes from one context to the next. Bits 0 to 23 of their addresses are the same.
pub const CONTEXT: u64 = OWN as u64 + (16 << 20);
/// Contexts that one program image has room for.
pub const CONTEXTS: u64 = 4096;
/// Counters that a context has room for.
pub const MAX_SLOTS: u32 = (KNOWN_RETURNS - COUNTERS) / 8;
/// The buffer of addresses, at a multiple of 64 KiB.
pub const BUFFER: u32 = OWN - 0x2_0000;
/// Bytes of the buffer.
pub const BUFFER_SIZE: u32 = 0x1_0000;
/// Room for the largest record.
pub const BUFFER_MARGIN: u32 = 0x1000;
/// Bits of cursor + margin that are 0 when the buffer is full.
pub const BUFFER_FULL: u32 = 0xf000;

/// The buffer of a thread that is traced: about a quarter of a burst, so that a thread seldom waits for rprof.
pub const TRACE_BUFFER: u32 = BUFFER - TRACE_BUFFER_SIZE;
/// Its bytes.
pub const TRACE_BUFFER_SIZE: u32 = 0x8_0000;
/// Room for all records of a traced block: 200 instructions, each with one record of the longest kind, or two of others.
pub const TRACE_BUFFER_MARGIN: u32 = 0x1_0000;

/// The ring of watched calls.
pub const CALL_RING: u32 = TRACE_BUFFER - CALL_RING_SIZE;
/// Its bytes: a thread waits for rprof when it is full, which takes milliseconds if ranks occupy all CPUs.
pub const CALL_RING_SIZE: u32 = 0x40_0000;

/// Return addresses of watched calls that rprof knows, by their low 16 bits.
pub const KNOWN_RETURNS: u32 = CALL_RING - 0x8_0000;

/// Offset of the entry that holds a return address if rprof knows it.
pub const fn known_return(returns_to: u64) -> u32 {
    KNOWN_RETURNS + 8 * (returns_to as u32 & 0xffff)
}

/// Counters of a `syscall` with a number known only at run time: one for each number, the last for all higher ones.
pub const CALL_NUMBERS: u32 = HIGHEST_CALL + 1;

/// Offset of a counter in its context.
pub const fn counter(slot: u32) -> u32 {
    COUNTERS + slot * 8
}

/// Lookup table.
pub const LOOKUP: u32 = 0;
/// Bytes of a lookup table.
pub const LOOKUP_SIZE: u32 = 8 * TARGET_ENTRIES;
/// Table of [`CallClass`](crate::translator::code_cache::syscall_table::CallClass) by the low 16 bits of RAX.
pub const CALLS: u32 = 0x8_0000;
/// Populations of 8-bit masks, of their low 1, 2, 4 and 8 bits: 256 bytes each.
pub const POPULATION_8: u32 = 0x9_0000;
/// Populations of 16-bit masks.
pub const POPULATION_16: u32 = 0xa_0000;
/// `PROT_EXEC` of the lowest byte of a protection.
pub const EXECUTABLE: u32 = 0xb_1000;
/// `MAP_FIXED` of the lowest byte of a mapping's flags.
pub const FIXED: u32 = 0xb_1100;
/// By bits 16 to 23 of the cursor: not 0 if the buffer has room for all records of a traced block.
pub const HAS_ROOM: u32 = 0xb_1200;
/// The bits of a return address that its entry depends on.
pub const RETURN_MASK: u32 = 0xb_2000;
/// The same for the target of an indirect jump or call.
pub const TARGET_MASK: u32 = 0xb_2008;
/// Not 0 while rprof polls the mailboxes.
pub const POLLING: u32 = 0xb_0000;
/// The lookup tables of the versions that record addresses.
pub const MORE_LOOKUPS: u32 = 0xc_0000;
/// The lookup tables of indirect calls, of each version.
pub const CALLEES: u32 = MORE_LOOKUPS + 4 * LOOKUP_SIZE;
/// The lookup tables of returns, of each version.
pub const RETURNS: u32 = CALLEES + 5 * LOOKUP_SIZE;
/// Bytes of one.
pub const RETURNS_SIZE: u32 = 8 * RETURN_ENTRIES;
/// The kinds of descriptors, by their low 16 bits.
pub const DESCRIPTORS: u32 = RETURNS + 5 * RETURNS_SIZE;
/// Bytes of the tables.
pub const TABLES: u64 = DESCRIPTORS as u64 + 0x1_0000;

/// Offset and bytes of what a context holds, in their order.
const CONTEXT_FIELDS: [(u32, u32); 38] = [
    (SAVE_RCX, 8),
    (SAVE_RDX, 8),
    (SAVE_LENT, 8),
    (SAVE_LENT_2, 8),
    (REPEAT_FROM, 8),
    (SAVE_FLAGS, 8),
    (PROBE_ADDRESS, 8),
    (PROBE_SCRATCH, 8),
    (REQUEST, 8),
    (SITE, 8),
    (TARGET, 8),
    (RESPONSE, 8),
    (SIGNAL_MASK, 8),
    (SIGNAL_MASK_POINTER, 8),
    (PROGRAM_GS, 8),
    (CONTINUE_AT, 8),
    (CURSOR, 8),
    (SELECT_MASK, 8),
    (LOOP_BASE, 8),
    (LANES, 8),
    (SAVE_CALL, 32),
    (REPEAT_ENTRIES, 16),
    (PATIENCE, 8),
    (POLLS, 8),
    (SAVE_LOOP, 16 * 8),
    (ACTION, 32),
    (FILTER, 8),
    (FILTERED, 8 * FILTERED_LINES),
    (MARKER, 8),
    (MARKER_ARGUMENTS, 32),
    (MARKER_STACK, 8),
    (CALL_CURSOR, 8),
    (CALLS_LEFT, 8),
    (SOCKET_KIND, 8),
    (SOCKET_NUMBER, 8),
    (SOCKET_NATIVE, 8),
    (COUNTERS, 8 * MAX_SLOTS),
    (KNOWN_RETURNS, 8 << 16),
];

/// The same of the end of a context, and of the tables.
const CONTEXT_END: [(u32, u32); 3] =
    [(CALL_RING, CALL_RING_SIZE), (TRACE_BUFFER, TRACE_BUFFER_SIZE), (BUFFER, BUFFER_SIZE)];
const TABLE_FIELDS: [(u32, u32); 13] = [
    (LOOKUP, LOOKUP_SIZE),
    (CALLS, 0x1_0000),
    (POPULATION_8, 4 << 8),
    (POPULATION_16, 1 << 16),
    (POLLING, 8),
    (EXECUTABLE, 0x100),
    (FIXED, 0x100),
    (HAS_ROOM, 0x100),
    (RETURN_MASK, 8),
    (TARGET_MASK, 8),
    (MORE_LOOKUPS, 4 * LOOKUP_SIZE),
    (CALLEES, 5 * LOOKUP_SIZE),
    (RETURNS, 5 * RETURNS_SIZE),
];

/// The compiler refuses a field that overlaps the next one.
const fn end_of(fields: &[(u32, u32)], from: u32) -> u32 {
    let (mut end, mut i) = (from, 0);
    while i < fields.len() {
        assert!(fields[i].0 >= end, "two fields overlap");
        end = fields[i].0 + fields[i].1;
        i += 1;
    }
    end
}
const _: () = assert!(end_of(&CONTEXT_END, end_of(&CONTEXT_FIELDS, 0)) <= OWN);
const _: () = assert!(TABLES_AT as u64 + TABLES <= CONTEXT && CONTEXT.is_multiple_of(1 << 24));
const _: () = assert!(end_of(&TABLE_FIELDS, 0) <= DESCRIPTORS);
