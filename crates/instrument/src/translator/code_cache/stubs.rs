//! The stubs that all code of an arena shares: the way to rprof and back, without changing a flag, and the lookup of returns
//! that is not in line.
//!
//! ```text
//!  indirect:  target ─▶ mailbox, RDX back, site 0 ┐        returned, called: the same behind
//!                                                 │        what makes the stack the program's again
//!  direct:    RCX = site ─────────────────────────┴▶ request ─▶ wait: answered? ─▶ RCX back, jump to the answer
//!                                                               not polled, or out of patience ─▶ int3 (a ptrace stop)
//! ```

use crate::translator::code_cache::call_record::{SOCKET, SOCKET_CALL};
use crate::translator::code_cache::layout;
use crate::translator::code_cache::syscall_table::CallClass;
use crate::translator::code_cache::version::Version;
use crate::x86_64::emit::{Code, Gpr, R10, RAX, RCX, RDI, RDX, RSI, RSP};
use rprof_tracee::address::CacheAddress;

/// The site of a request to drain the buffer of addresses.
pub const DRAIN: u32 = u32::MAX;
/// The site of a marker call; `TARGET` is the cache address to continue at.
pub const MARK: u32 = u32::MAX - 3;
/// The site of a return's lookup.
pub const RETURN: u32 = u32::MAX - 1;
/// The site of an indirect call's lookup.
pub const CALLEE: u32 = u32::MAX - 2;

const R11: Gpr = Gpr(11);

/// Name of rprof's memory in the program's maps; follows the gadget.
const ARENA_NAME: &str = "rprof-code";
/// The beginning of its path there.
pub const ARENA_PATH: &str = "/memfd:rprof-code";
/// Folders for files that hold code, if `vm.memfd_noexec` forbids executable memfds: in memory, if its files may be executed.
const FOLDERS: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

/// Strings that rprof's system calls need in the program's memory: the name and the folders, each with the offset of its first
/// byte and a terminating zero.
pub fn names() -> (Vec<u8>, Vec<u64>) {
    let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
    for name in std::iter::once(ARENA_NAME).chain(FOLDERS) {
        offsets.push(bytes.len() as u64);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    (bytes, offsets)
}

/// Number of polls for an answer before the wait traps: on a busy host, rprof needs the processor.
const PATIENCE: u32 = 8000;

/// Addresses of the stubs.
#[derive(Debug, Clone, Copy)]
pub struct Stubs {
    /// A lookup missed: RDX is the target; RCX and RDX are saved.
    pub indirect: CacheAddress,
    /// The same for a return: the target is on top of the stack; RCX is saved.
    pub returned: CacheAddress,
    /// The same for an indirect call: drops the cache's return address.
    pub called: CacheAddress,
    /// A direct exit: ECX is the site; RCX is saved.
    pub direct: CacheAddress,
    /// The buffer of addresses is full; `TARGET` is the cache address to continue at.
    pub drain: CacheAddress,
    /// A marker is called: RCX is saved; `TARGET` is the cache address to continue at.
    pub mark: CacheAddress,
    /// The whole wait for an answer, `direct` included.
    pub wait: (CacheAddress, CacheAddress),
    /// The `int3` of an exit with a mailbox that rprof does not poll.
    pub trap: CacheAddress,
    /// ECX is a system call's site; `CONTINUE_AT` is the address of the call, for calls that rprof need not handle.
    pub call: CacheAddress,
    /// The same, without a look at the call.
    pub judged_call: CacheAddress,
    /// Its `int3`.
    pub call_trap: CacheAddress,
    /// Read at addresses that the program passes: the arguments of `clone3`, the paths of `open` and `openat`.
    pub peeks: [CacheAddress; 3],
    /// Executes the system call, then stores the signal mask; continues at `CONTINUE_AT`.
    pub mask_call: CacheAddress,
    /// The system calls in it.
    pub mask_syscalls: [CacheAddress; 2],
    /// Executes a system call that may move bytes of a socket or change a descriptor, and records it; continues at `CONTINUE_AT`.
    /// `SOCKET_NATIVE` is its `syscall` in the block, `SOCKET_KIND` its class, less that of stops.
    pub socket: CacheAddress,
    /// The system call in it.
    pub socket_call: CacheAddress,
    /// Lookups of a return after the word on top of the stack was pushed once more: one saves RCX, one expects it
    /// saved.
    pub returns: [CacheAddress; 2],
    /// `syscall` for calls that rprof makes.
    pub gadget: CacheAddress,
}

impl Stubs {
    /// Writes them for `base`; `gadget` is what [`gadget`] wrote.
    pub fn write(base: CacheAddress, gadget: CacheAddress) -> (Stubs, Code) {
        let mut code = Code::new(base);
        let indirect = code.here();
        code.save(layout::TARGET, RDX);
        code.load(RDX, layout::SAVE_RDX);
        code.constant(RCX, 0);
        let direct = code.here();
        code.save(layout::SITE, RCX);
        code.store(layout::RESPONSE, 0);
        code.store(layout::PATIENCE, PATIENCE);
        code.store(layout::REQUEST, 1);
        let spin = code.here();
        code.load(RCX, layout::RESPONSE);
        let unanswered = code.jump_if_rcx_zero();
        code.load(RCX, layout::SAVE_RCX);
        code.jump_through(layout::RESPONSE);
        code.land(unanswered);
        code.load(RCX, layout::TABLES_AT + layout::POLLING);
        let unpolled = code.jump_if_rcx_zero();
        code.load(RCX, layout::PATIENCE);
        let impatient = code.jump_if_rcx_zero();
        code.add_small(RCX, -1);
        code.save(layout::PATIENCE, RCX);
        code.load(RCX, layout::POLLS);
        code.add_small(RCX, 1);
        code.save(layout::POLLS, RCX);
        code.raw(&[0xf3, 0x90]); // pause
        code.jump(spin);
        code.land(impatient);
        code.land(unpolled);
        let trap = code.here();
        code.raw(&[0xcc]); // int3
        code.jump(spin);
        let wait_end = code.here();
        let drain = code.here();
        code.save(layout::SAVE_RCX, RCX);
        code.constant(RCX, u64::from(DRAIN));
        code.jump(direct);
        let mark = code.here();
        code.constant(RCX, u64::from(MARK));
        code.jump(direct);

        let returned = code.here();
        code.load_at(RCX, RSP, 0);
        code.add_small(RSP, 8);
        code.save(layout::TARGET, RCX);
        code.constant(RCX, u64::from(RETURN));
        code.jump(direct);

        let called = code.here();
        code.add_small(RSP, 8);
        code.save(layout::TARGET, RDX);
        code.load(RDX, layout::SAVE_RDX);
        code.constant(RCX, u64::from(CALLEE));
        code.jump(direct);

        let call = code.here();
        code.save(layout::SITE, RCX);
        code.raw(&[0x8d, 0x88]); // lea ecx, [rax - SYS_clone]
        code.word(-libc::SYS_clone as u32);
        let clone = code.jump_if_ecx_zero();
        code.raw(&[0x8d, 0x88]); // lea ecx, [rax - SYS_clone3]
        code.word(-libc::SYS_clone3 as u32);
        let clone3 = code.jump_if_ecx_zero();
        code.add_to(RCX, RAX, -libc::SYS_open as i8);
        let open = code.jump_if_ecx_zero();
        code.raw(&[0x8d, 0x88]); // lea ecx, [rax - SYS_openat]
        code.word(-libc::SYS_openat as u32);
        let openat = code.jump_if_ecx_zero();
        let call_trap = code.here();
        code.raw(&[0xcc, 0x0f, 0x0b]); // int3; ud2
        let judged_call = code.here();
        code.save(layout::SITE, RCX);
        code.jump(call_trap);
        code.land(clone);
        code.raw(&[0x89, 0xf9]); // mov ecx, edi
        unless_untraced(&mut code, call_trap);
        code.land(clone3);
        let clone3 = code.here();
        code.raw(&[0x8b, 0x0f]); // mov ecx, [rdi]
        unless_untraced(&mut code, call_trap);
        code.land(open);
        let open = code.here();
        code.raw(&[0x8b, 0x0f]); // mov ecx, [rdi]
        unless_of_proc(&mut code, call_trap);
        code.land(openat);
        let openat = code.here();
        code.raw(&[0x8b, 0x0e]); // mov ecx, [rsi]
        unless_of_proc(&mut code, call_trap);

        // rt_sigprocmask: the program's own, then one that only queries.
        code.align(16);
        let mask_call = code.here();
        let first = code.here();
        code.raw(&[0x0f, 0x05]); // syscall
        for (i, register) in [RAX, RDI, RSI, RDX, R10].into_iter().enumerate() {
            code.save(layout::SAVE_CALL + 8 * i as u32, register);
        }
        code.save(layout::SAVE_LENT, R11);
        code.constant(RAX, libc::SYS_rt_sigprocmask as u64);
        code.constant(RDI, 0);
        code.constant(RSI, 0);
        code.load(RDX, layout::SIGNAL_MASK_POINTER);
        code.constant(R10, 8);
        let second = code.here();
        code.raw(&[0x0f, 0x05]); // syscall
        for (i, register) in [RAX, RDI, RSI, RDX, R10].into_iter().enumerate() {
            code.load(register, layout::SAVE_CALL + 8 * i as u32);
        }
        code.load(R11, layout::SAVE_LENT);
        code.jump_through(layout::CONTINUE_AT);

        let (socket, socket_call) = write_socket_calls(&mut code, mark);

        code.align(64);
        let returns_saving = code.here();
        code.save(layout::SAVE_RCX, RCX);
        let returns_saved = code.here();
        code.load_at(RCX, RSP, 0);
        code.lookup_index_to_rcx(RCX, layout::TABLES_AT + layout::RETURN_MASK);
        code.return_by_top(layout::TABLES_AT + Version::Plain.returns());

        let stubs = Stubs {
            indirect,
            returned,
            called,
            direct,
            drain,
            mark,
            wait: (indirect, wait_end),
            trap,
            call,
            judged_call,
            call_trap,
            peeks: [clone3, open, openat],
            mask_call,
            mask_syscalls: [first, second],
            socket,
            socket_call,
            returns: [returns_saving, returns_saved],
            gadget,
        };
        (stubs, code)
    }
}

/// `syscall` for calls that rprof makes, with the strings that they need: neither the program nor rprof in its name can write here.
pub fn gadget(at: CacheAddress) -> Code {
    let mut code = Code::new(at);
    code.raw(&[0x0f, 0x05]); // syscall
    code.raw(&names().0);
    code
}

/// Writes [`Stubs::socket`]; returns it and its system call.
///
/// ```text
/// moves, changes a socket:  kind of the first argument is 0? ─▶ the block's own syscall
/// moves:                    kind of the record = that kind       else: 0
/// all:                      syscall; ring[cursor++] = (SOCKET, number, rdi, rsi, rdx, r10, kind, result)
///                           ring full, kind 0 or NEW? ─▶ rprof reads the ring
/// ```
fn write_socket_calls(code: &mut Code, mark: CacheAddress) -> (CacheAddress, CacheAddress) {
    let above_stop = |class: CallClass| CallClass::Stop as i8 - class as i8;
    code.align(16);
    let socket = code.here();
    code.load(RCX, layout::SOCKET_KIND);
    code.add_small(RCX, above_stop(CallClass::Changes));
    let changes = code.jump_if_rcx_zero();
    code.low_16_to_ecx(RDI);
    code.look_up_byte(RCX, layout::TABLES_AT + layout::DESCRIPTORS);
    let other = code.jump_if_rcx_zero();
    code.save(layout::SOCKET_NUMBER, RCX);
    code.load(RCX, layout::SOCKET_KIND);
    code.add_small(RCX, above_stop(CallClass::Moves));
    let moves = code.jump_if_rcx_zero();
    code.constant(RCX, 0);
    let looks = code.jump_short();
    code.land(other);
    code.jump_through(layout::SOCKET_NATIVE);
    code.land(moves);
    code.load(RCX, layout::SOCKET_NUMBER);
    code.land(changes);
    code.land(looks);
    code.save(layout::SOCKET_KIND, RCX);
    code.save(layout::SOCKET_NUMBER, RAX);
    let syscall = code.here();
    code.raw(&[0x0f, 0x05]);
    code.save(layout::SAVE_LENT, R11);
    code.load(RCX, layout::CALL_CURSOR);
    code.constant(R11, SOCKET);
    code.store_at(RCX, 0, R11);
    code.load(R11, layout::SOCKET_NUMBER);
    code.store_at(RCX, 8, R11);
    for (i, register) in [RDI, RSI, RDX, R10].into_iter().enumerate() {
        code.store_at(RCX, 16 + 8 * i as i8, register);
    }
    code.load(R11, layout::SOCKET_KIND);
    code.store_at(RCX, 48, R11);
    code.store_at(RCX, 56, RAX);
    code.add_far(RCX, RCX, 8 * SOCKET_CALL as u32);
    code.save(layout::CALL_CURSOR, RCX);
    code.load(RCX, layout::CALLS_LEFT);
    code.add_small(RCX, -1);
    code.save(layout::CALLS_LEFT, RCX);
    let full = code.jump_if_rcx_zero();
    code.copy(RCX, R11);
    code.load(R11, layout::SAVE_LENT);
    let changed = code.jump_if_rcx_zero();
    code.add_small(RCX, -1);
    let new = code.jump_if_rcx_zero();
    code.jump_through(layout::CONTINUE_AT);
    code.land(full);
    code.load(R11, layout::SAVE_LENT);
    code.land(changed);
    code.land(new);
    code.constant(RCX, 0);
    code.save(layout::MARKER, RCX);
    code.load(RCX, layout::CONTINUE_AT);
    code.save(layout::TARGET, RCX);
    code.jump(mark);
    (socket, syscall)
}

/// Continues at `CONTINUE_AT`, or at `else_to` if the path that begins with the bytes in ECX may be of /proc, or of maps or memory
/// from a folder there.
fn unless_of_proc(code: &mut Code, else_to: CacheAddress) {
    let of_proc = u32::from_le_bytes(*b"/pro");
    code.raw(&[0x8d, 0x89]); // lea ecx, [rcx - "/pro"]
    code.word(of_proc.wrapping_neg());
    let other = code.jump_if_ecx_zero();
    code.raw(&[0x8d, 0x89]); // lea ecx, [rcx + "/pro" - "maps"]
    code.word(of_proc.wrapping_sub(u32::from_le_bytes(*b"maps")));
    let maps = code.jump_if_ecx_zero();
    code.raw(&[0x8d, 0x89]); // lea ecx, [rcx + "maps" - "mem\0"]
    code.word(u32::from_le_bytes(*b"maps").wrapping_sub(u32::from_le_bytes(*b"mem\0")));
    let memory = code.jump_if_ecx_zero();
    code.jump_through(layout::CONTINUE_AT);
    code.land(other);
    code.land(maps);
    code.land(memory);
    code.jump(else_to);
}

/// Continues at `CONTINUE_AT`, or at `else_to` if the flags in ECX have `CLONE_UNTRACED`, which is bit 23.
fn unless_untraced(code: &mut Code, else_to: CacheAddress) {
    code.raw(&[0x0f, 0xc9]); // bswap ecx
    code.raw(&[0x0f, 0xb6, 0xcd]); // movzx ecx, ch
    code.raw(&[0x8d, 0x0c, 0x09]); // lea ecx, [rcx + rcx]
    code.raw(&[0x0f, 0xb6, 0xcd]); // movzx ecx, ch
    let traced = code.jump_if_ecx_zero();
    code.jump(else_to);
    code.land(traced);
    code.jump_through(layout::CONTINUE_AT);
}
