//! A program that loads shared libraries and calls their functions for rprof, which need not be able to: a static program cannot load
//! any, and a driver that crashes must not take rprof with it.
//!
//! It knows nothing of the libraries. Requests come on standard input, answers go to standard output, both in the byte order of the
//! machine; `crates/machine/src/loader/remote.rs` is the other end and describes them. Every number is a `u64`.
//!
//! | request | then | answer |
//! | --- | --- | --- |
//! | 1 open | length, path | handle or 0, then length and text of the error |
//! | 2 symbol | handle, length, name | address or 0 |
//! | 3 memory | bytes | address of zeroed pages or 0 |
//! | 4 write | address, length, bytes | 0 |
//! | 5 read | address, length | the bytes |
//! | 6 calls | rounds, n, then n times: address, 16 arguments | index of the failed call or n, its result, nanoseconds of all rounds |
//! | 7 own functions | | addresses of `touch` and `pause` |
//! | 8 calls without results | as 6 | as 6; no call fails |
//!
//! It links no symbol version of the C library, so it runs on every one since 2.2.5.

#![no_std]
#![no_main]

use core::arch::global_asm;
use core::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
    fn read(fd: c_int, to: *mut u8, length: usize) -> isize;
    fn write(fd: c_int, from: *const u8, length: usize) -> isize;
    fn mmap(at: *mut c_void, length: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn clock_gettime(clock: c_int, to: *mut [i64; 2]) -> c_int;
    fn nanosleep(time: *const [i64; 2], left: *mut [i64; 2]) -> c_int;
    fn prctl(option: c_int, a: u64, b: u64, c: u64, d: u64) -> c_int;
    fn exit(status: c_int) -> !;
    fn _exit(status: c_int) -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe { _exit(101) }
}

/// RTLD_NOW | RTLD_GLOBAL: CUPTI's parts find one another that way.
const NOW_AND_GLOBAL: c_int = 0x102;
/// PROT_READ | PROT_WRITE; MAP_PRIVATE | MAP_ANONYMOUS.
const READ_WRITE: c_int = 3;
const PRIVATE_ANONYMOUS: c_int = 0x22;
const CLOCK_MONOTONIC: c_int = 1;
const PR_SET_PDEATHSIG: c_int = 1;
const SIGKILL: u64 = 9;
/// Most arguments of one call.
const ARGUMENTS: usize = 16;
/// Most calls in one request.
const CALLS: usize = 64;
/// Longest name or path, with its closing zero.
const NAME: usize = 4096;

#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "xor %ebp, %ebp", "and $-16, %rsp", "call {serve}", "ud2", serve = sym serve, options(att_syntax));

#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x29, #0", "bl {serve}", "brk #1", serve = sym serve);

/// One call of a request.
#[derive(Clone, Copy)]
#[repr(C)]
struct Call {
    function: u64,
    arguments: [u64; ARGUMENTS],
}

type Function =
    unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

extern "C" fn serve() -> ! {
    unsafe {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        loop {
            match number() {
                1 => open(),
                2 => symbol(),
                3 => memory(),
                4 => {
                    let (to, length) = (number(), number());
                    take(to as *mut u8, length as usize);
                    give(0);
                }
                5 => {
                    let (from, length) = (number(), number());
                    put(from as *const u8, length as usize);
                }
                6 => calls(true),
                8 => calls(false),
                7 => {
                    give(touch as *const () as u64);
                    give(pause as *const () as u64);
                }
                _ => _exit(2),
            }
        }
    }
}

unsafe fn open() {
    unsafe {
        let path = name();
        let library = dlopen(path.as_ptr(), NOW_AND_GLOBAL);
        give(library as u64);
        if library.is_null() {
            let text = dlerror();
            let mut length = 0;
            while !text.is_null() && *text.add(length) != 0 {
                length += 1;
            }
            give(length as u64);
            put(text.cast(), length);
        } else {
            give(0);
        }
    }
}

unsafe fn symbol() {
    unsafe {
        let library = number() as *mut c_void;
        let name = name();
        give(dlsym(library, name.as_ptr()) as u64);
    }
}

unsafe fn memory() {
    unsafe {
        let length = number() as usize;
        let at = mmap(core::ptr::null_mut(), length, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
        give(if at as isize == -1 { 0 } else { at as u64 });
    }
}

unsafe fn calls(have_results: bool) {
    unsafe {
        let (rounds, n) = (number(), number() as usize);
        if n > CALLS {
            _exit(3);
        }
        let mut list = [Call { function: 0, arguments: [0; ARGUMENTS] }; CALLS];
        take(list.as_mut_ptr().cast(), n * size_of::<Call>());
        let (mut failed, mut code) = (n, 0);
        let start = now();
        'rounds: for _ in 0..rounds {
            for (i, call) in list[..n].iter().enumerate() {
                let function: Function = core::mem::transmute(call.function as usize);
                let a = &call.arguments;
                let result = function(
                    a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15],
                );
                if have_results && result != 0 {
                    (failed, code) = (i, result);
                    break 'rounds;
                }
            }
        }
        let end = now();
        give(failed as u64);
        give(u64::from(code));
        give(end - start);
    }
}

/// Adds 1 to each double of `length` bytes at `at`: one core's pass over data.
unsafe extern "C" fn touch(at: *mut f64, length: u64) -> u32 {
    for i in 0..length as usize / 8 {
        unsafe { at.add(i).write(at.add(i).read() + 1.0) };
    }
    0
}

/// Sleeps for some nanoseconds.
unsafe extern "C" fn pause(ns: u64) -> u32 {
    unsafe { nanosleep(&[(ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64], core::ptr::null_mut()) };
    0
}

unsafe fn now() -> u64 {
    let mut t = [0i64; 2];
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut t) };
    t[0] as u64 * 1_000_000_000 + t[1] as u64
}

unsafe fn name() -> [c_char; NAME] {
    unsafe {
        let length = number() as usize;
        if length >= NAME {
            _exit(4);
        }
        let mut name = [0; NAME];
        take(name.as_mut_ptr().cast(), length);
        name
    }
}

unsafe fn number() -> u64 {
    let mut n = 0u64;
    unsafe { take((&raw mut n).cast(), 8) };
    n
}

unsafe fn give(n: u64) {
    unsafe { put((&raw const n).cast(), 8) };
}

/// Reads exactly `length` bytes; the end of the requests ends the program.
unsafe fn take(to: *mut u8, length: usize) {
    let mut done = 0;
    while done < length {
        match unsafe { read(0, to.add(done), length - done) } {
            n if n > 0 => done += n as usize,
            // With exit handlers: the driver has some, and so has a profiler that looks at us.
            _ => unsafe { exit(0) },
        }
    }
}

unsafe fn put(from: *const u8, length: usize) {
    let mut done = 0;
    while done < length {
        match unsafe { write(1, from.add(done), length - done) } {
            n if n > 0 => done += n as usize,
            _ => unsafe { _exit(0) },
        }
    }
}
