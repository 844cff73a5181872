//! Tracing: CUPTI fills buffers with records of what the GPU did; each goes to the log in short form.
//!
//! The offsets of the fields used are the same in all versions of the records since CUDA 11 (`tests/gpu/records.rs` compares them with
//! NVIDIA's headers).

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cupti::{self, functions};
use crate::log::{self, Kind, Step};
use crate::names;
use crate::system::{self, Locked};

/// Kinds of records: copies, fills, kernels, overhead, waiting.
const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const KERNEL: u32 = 10;
const OVERHEAD: u32 = 17;
const MEMCPY_PEER: u32 = 22;
const SYNCHRONIZATION: u32 = 38;
const KINDS: [u32; 6] = [MEMCPY, MEMSET, KERNEL, OVERHEAD, MEMCPY_PEER, SYNCHRONIZATION];

const BUFFER: usize = 2 << 20;
/// Buffers that are kept for the next request.
const KEPT: usize = 64;
/// Most records that a log takes, some half a GiB; the others are counted as lost.
const MOST: u64 = 5_000_000;
/// Milliseconds after which CUPTI hands over complete records, so that a killed program leaves most of its log.
const PERIOD: u32 = 500;
/// CUPTI hands over incomplete buffers, too.
const FORCED: u32 = 1;

static REQUESTED: AtomicU64 = AtomicU64::new(0);
static COMPLETED: AtomicU64 = AtomicU64::new(0);
static RECORDS: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
static CALLBACK_NS: AtomicU64 = AtomicU64::new(0);
static FREE: Locked<([usize; KEPT], usize)> = Locked::new(([0; KEPT], 0));

/// Begins to trace.
pub unsafe fn start() {
    unsafe {
        let (Some(register), Some(enable), Some(_)) = (functions().register, functions().enable, functions().next) else {
            return log::failed(Step::NoFunction, 0, 1);
        };
        let registered = register(request, completed);
        log::failed(Step::Register, 0, registered);
        if registered != 0 {
            return;
        }
        for kind in KINDS {
            log::failed(Step::Enable, kind, enable(kind));
        }
        if let Some(period) = functions().flush_period {
            period(PERIOD);
        }
    }
}

/// Takes the records that are still on their way.
pub unsafe fn end() {
    unsafe {
        if REQUESTED.load(Relaxed) > 0
            && let Some(flush) = functions().flush_all
        {
            flush(FORCED);
        }
        let clocks =
            [cupti::timestamp(), system::now(system::CLOCK_REALTIME), system::now(system::CLOCK_MONOTONIC)];
        let [a, b, c] = clocks;
        let sums = [&REQUESTED, &COMPLETED, &RECORDS, &LOST, &CALLBACK_NS].map(|n| n.load(Relaxed));
        let [d, e, f, g, h] = sums;
        log::record(Kind::End, &[a, b, c, d, e, f, g, h], &[], &[]);
    }
}

unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    REQUESTED.fetch_add(1, Relaxed);
    if !crate::is_ours() {
        unsafe { (*buffer, *size, *most) = (core::ptr::null_mut(), 0, 0) };
        return;
    }
    let kept = FREE.with(|(list, used)| {
        *used = used.checked_sub(1)?;
        Some(list[*used] as *mut u8)
    });
    let kept = kept.flatten();
    unsafe {
        *buffer = kept.unwrap_or_else(|| system::memory(BUFFER));
        *size = if (*buffer).is_null() { 0 } else { BUFFER };
        *most = 0;
    }
}

unsafe extern "C" fn completed(context: *mut c_void, stream: u32, buffer: *mut u8, _: usize, valid: usize) {
    unsafe {
        if !crate::is_ours() {
            return;
        }
        let start = system::now(system::CLOCK_MONOTONIC);
        COMPLETED.fetch_add(1, Relaxed);
        if let Some(next) = functions().next {
            let mut record = core::ptr::null_mut();
            while valid > 0 && next(buffer, valid, &mut record) == 0 {
                if RECORDS.fetch_add(1, Relaxed) < MOST {
                    note(record);
                } else {
                    LOST.fetch_add(1, Relaxed);
                }
            }
        }
        if let Some(dropped) = functions().dropped {
            let mut n = 0;
            if dropped(context, stream, &mut n) == 0 {
                LOST.fetch_add(n as u64, Relaxed);
            }
        }
        let kept = FREE.with(|(list, used)| {
            let has_room = *used < KEPT;
            if has_room {
                list[*used] = buffer as usize;
                *used += 1;
            }
            has_room
        });
        if kept == Some(false) {
            system::give_back(buffer, BUFFER);
        }
        log::flush();
        CALLBACK_NS.fetch_add(system::now(system::CLOCK_MONOTONIC) - start, Relaxed);
    }
}

/// A field of a record.
unsafe fn at<T: Copy>(record: *const u8, offset: usize) -> T {
    unsafe { record.add(offset).cast::<T>().read_unaligned() }
}

unsafe fn note(r: *const u8) {
    unsafe {
        match at::<u32>(r, 0) {
            KERNEL => {
                let name = names::id(at(r, 104));
                let wide = [at(r, 16), at(r, 24), at(r, 144)];
                let [gx, gy, gz, bx, by, bz]: [u32; 6] = at(r, 52);
                let registers = u32::from(at::<u16>(r, 6));
                let narrow = [
                    name, at(r, 40), at(r, 44), at(r, 48), gx, gy, gz, bx, by, bz, registers, at(r, 76), at(r, 80), at(r, 84),
                ];
                log::record(Kind::Kernel, &wide, &narrow, &[]);
            }
            MEMCPY | MEMCPY_PEER => {
                let [kind, from, to] = [4, 5, 6].map(|offset| u32::from(at::<u8>(r, offset)));
                let narrow = [kind, from, to, at(r, 32), at(r, 36), at(r, 40)];
                log::record(Kind::Copy, &[at(r, 16), at(r, 24), at(r, 8)], &narrow, &[]);
            }
            MEMSET => {
                let narrow = [u32::from(at::<u16>(r, 50)), at(r, 32), at(r, 36), at(r, 40)];
                log::record(Kind::Fill, &[at(r, 16), at(r, 24), at(r, 8)], &narrow, &[]);
            }
            SYNCHRONIZATION => {
                log::record(Kind::Wait, &[at(r, 8), at(r, 16)], &[at(r, 4), at(r, 28), at(r, 32)], &[]);
            }
            OVERHEAD => log::record(Kind::Overhead, &[at(r, 24), at(r, 32)], &[at::<u32>(r, 4)], &[]),
            _ => {}
        }
    }
}
