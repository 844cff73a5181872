//! Changes, made in a copy before it runs.

use std::ops::Range;

use rprof_profile::trial::Change;
use rprof_tracee::address::Address;
use rprof_tracee::maps::{Mapping, read_maps};
use rprof_tracee::remote::{Remote, RemoteError};

use crate::copy::Copy;
use crate::error::CopyError;
use crate::loops::{self, LoopCode};
use crate::pages;
use crate::plan::{Failed, Plan};
use crate::rewrite::{self, is_of_code};

/// The most bytes that are put on huge pages.
const MOST_COLLAPSED: u64 = 1536 << 20;
/// Offset of MXCSR in the XSAVE area, and its bits FTZ and DAZ.
const MXCSR: usize = 24;
const FLUSH: u32 = 0x8040;
/// Offset of the bits that say which parts of the XSAVE area count, and the bit of the vector registers.
const PARTS: usize = 512;
const VECTORS: u8 = 1 << 1;

/// Makes `change` in a stopped copy.
///
/// # Errors
/// It cannot be made.
pub fn make(copy: &mut Copy, plan: &Plan, change: Option<Change>) -> Result<(), Failed> {
    if let Some(code) = &plan.code {
        lay_out(copy, code, change.filter(|change| is_of_code(*change)))?;
    }
    match change {
        Some(Change::FlushDenormals) => flush_denormals(copy),
        Some(Change::HugePages) => huge_pages(copy),
        // The others stop at the end of the warm-up; changes of code are made.
        _ => Ok(()),
    }
}

/// Writes the loop `code` anew near itself, with `change` or as it is, and moves the threads that are in it.
///
/// # Errors
/// It cannot be moved, or the change changes nothing in it.
pub fn lay_out(copy: &mut Copy, code: &LoopCode, change: Option<Change>) -> Result<(), Failed> {
    /// Bytes for the code, and as many behind it for data.
    const ROOM: u64 = 32 << 10;
    let old = loops::instructions(copy.memory(), code)
        .ok_or_else(|| Failed::Change("its code could not be decoded".into()))?;
    let maps = read_maps(copy.pid()).map_err(|e| CopyError::Proc("read a copy's maps", e))?;
    let to = room_near(&maps, code.header, 2 * ROOM)
        .ok_or_else(|| Failed::Change("there is no room near its code".into()))?;
    // At the same place in its line.
    let to = to + code.header % 64;
    let base = to / pages::PAGE * pages::PAGE;
    let new = rewrite::rewrite(&old, change, to, base + ROOM).map_err(|why| Failed::Change(why.to_string()))?;
    if new.code.len() as u64 + 64 > ROOM {
        return Err(Failed::Change("the loop is too long".into()));
    }
    copy.on_behalf(|remote| {
        let rights = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        remote.call("mmap", libc::SYS_mmap, [base, 2 * ROOM, rights, flags, u64::MAX, 0])?;
        Ok(())
    })?;
    let failed = |e| CopyError::Proc("write to a copy", e);
    copy.memory().write(Address::new(to), &new.code).map_err(failed)?;
    // Its first touch is no part of the time.
    copy.memory().write(Address::new(base + ROOM), &[0; 64]).map_err(failed)?;
    copy.memory().write(Address::new(code.header), &new.jump).map_err(failed)?;
    copy.move_threads(&new.moved)?;
    Ok(())
}

/// A free place of `bytes` within reach of jumps from `at`.
fn room_near(maps: &[Mapping], at: u64, bytes: u64) -> Option<u64> {
    const REACH: u64 = 1 << 30;
    const ALIGNED: u64 = 1 << 16;
    let is_free = |start: u64| maps.iter().all(|m| m.end.get() <= start || start + bytes <= m.start.get());
    let below = maps.iter().rev().filter(|m| m.start.get() <= at).map(|m| m.start.get());
    let below = below.filter_map(|start| Some(start.checked_sub(bytes)? / ALIGNED * ALIGNED));
    let above = maps.iter().filter(|m| m.end.get() > at).map(|m| m.end.get().next_multiple_of(ALIGNED));
    above.chain(below).find(|start| *start >= ALIGNED && is_free(*start) && start.abs_diff(at) < REACH)
}

fn flush_denormals(copy: &mut Copy) -> Result<(), Failed> {
    for tid in copy.threads() {
        let Some(thread) = copy.stopped(tid) else { continue };
        let mut area = vec![0; 16 << 10];
        let length = thread.extended_state(&mut area).map_err(CopyError::from)?;
        area.truncate(length);
        let Some(field) = area.get_mut(MXCSR..MXCSR + 4) else { continue };
        let value = u32::from_le_bytes([field[0], field[1], field[2], field[3]]) | FLUSH;
        field.copy_from_slice(&value.to_le_bytes());
        if let Some(parts) = area.get_mut(PARTS) {
            *parts |= VECTORS;
        }
        thread.set_extended_state(&area).map_err(CopyError::from)?;
    }
    Ok(())
}

fn huge_pages(copy: &mut Copy) -> Result<(), Failed> {
    let pid = copy.pid();
    let maps = read_maps(pid).map_err(|e| CopyError::Proc("read a copy's maps", e))?;
    let is_data = |m: &&Mapping| {
        m.writable && !m.shared && (m.path.is_empty() || m.path == "[heap]" || m.path.starts_with("[anon"))
    };
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for mapping in maps.iter().filter(is_data) {
        let runs = pages::present(pid, mapping).map_err(|e| CopyError::Proc("read a copy's page map", e))?;
        ranges.extend(runs.iter().filter_map(|run| pages::aligned(&run.range)));
    }
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    if bytes == 0 {
        return Err(Failed::Change("no 2 MB of its memory are in one piece".into()));
    }
    if bytes > MOST_COLLAPSED {
        return Err(Failed::Change(format!("it has {} MB of memory", bytes >> 20)));
    }
    let done = copy.on_behalf(|remote| {
        let mut done = Ok(());
        for range in &ranges {
            done = done.and(collapse(remote, range));
        }
        Ok(done)
    })?;
    done.map_err(|error| Failed::Change(error.to_string()))?;
    let huge = pages::huge_bytes(pid);
    if huge < bytes / 2 { Err(Failed::Change("the kernel gave no huge pages".into())) } else { Ok(()) }
}

/// Puts the memory at `range` on huge pages.
///
/// # Errors
/// The kernel refuses: it has none, or is older than 6.1.
pub fn collapse(remote: &mut Remote<'_>, range: &Range<u64>) -> Result<(), RemoteError> {
    /// `MADV_HUGEPAGE`
    const WANTED: u64 = 14;
    /// `MADV_COLLAPSE`
    const COLLAPSE: u64 = 25;
    let length = range.end - range.start;
    remote.call("madvise", libc::SYS_madvise, [range.start, length, WANTED, 0, 0, 0])?;
    remote.call("madvise", libc::SYS_madvise, [range.start, length, COLLAPSE, 0, 0, 0])?;
    Ok(())
}
