//! The first copy of a hot loop: how the passings of a place are counted, and which pages the program writes.
//!
//! A place of the right rate is passed some hundred to some ten thousand times a second: more would cost a part of the time, as each is an
//! exception, and fewer would take long. Where all loops are faster, iterations are counted by a register that changes by the same number in
//! each.
//!
//! Instruction breakpoints slow down the code around them (on an AMD EPYC a loop beside one takes 2.4 times as long). So the hot loop is
//! written anew on pages of its own in all copies, and breakpoints stay in the old text.

use std::time::Duration;

use nix::unistd::Pid;

use rprof_tracee::address::Address;
use rprof_tracee::maps::read_maps;
use rprof_tracee::proc_status::read_cpu_seconds;
use rprof_tracee::thread::Registers;

use crate::breakpoint::Breakpoint;
use crate::copy::{Came, Copy};
use crate::error::{CopyError, Ended};
use crate::hot::HotLoop;
use crate::loops::LoopCode;
use crate::pages;
use crate::plan::{Failed, Findings, Progress};
use crate::variant;

/// Passings of a place a second.
const LEAST_RATE: f64 = 25.0;
const MOST_RATE: f64 = 25_000.0;
/// How long passings are counted.
const COUNTED_FOR: Duration = Duration::from_millis(8);
const COUNTED_FOR_LONGER: Duration = Duration::from_millis(80);
/// Runs until that time has been on a CPU, where others have the CPUs.
const MOST_RUNS: usize = 8;
/// How long the pages that the copy writes are watched.
const WATCHED_FOR: Duration = Duration::from_millis(40);
/// Iterations in which a register has to change by the same number.
const SAME_STEPS: usize = 12;
/// A thread that does not come to a place in this time does not come.
pub const PATIENCE: Duration = Duration::from_millis(400);
/// The most bytes that a copy writes before it is timed.
const MOST_POPULATED: u64 = 1536 << 20;
/// Of a stretch of pages, the part that must have been written for all of it to be taken for written.
const WRITTEN_PART: u64 = 100;

/// General registers that may count, in a fixed order.
pub fn counting_registers(r: &Registers) -> [u64; 14] {
    [r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15]
}

/// Why a loop cannot be timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untimed {
    /// No loop around it is passed often enough, and none has a register that counts.
    NoPlace,
    /// Its copies end too early.
    Short(Ended),
    /// It writes more memory than is copied.
    Writes(u64),
    /// Its code cannot be written anew.
    Fixed(String),
}

impl std::fmt::Display for Untimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Untimed::NoPlace => f.write_str("no loop around it comes round at a rate that can be timed"),
            Untimed::Short(ended) => write!(f, "its copies end too early: {ended}"),
            Untimed::Fixed(why) => write!(f, "its code cannot be moved: {why}"),
            Untimed::Writes(bytes) => write!(f, "it writes {} MB within 40 ms", bytes >> 20),
        }
    }
}

/// Uses up `copy` to learn how `hot` is timed.
///
/// # Errors
/// The copy cannot be driven; `Ok(Err)`: the loop cannot be timed.
pub fn explore(mut copy: Copy, hot: &HotLoop) -> Result<Result<Findings, Untimed>, CopyError> {
    let Some(tid) = copy.thread_of(hot.tid) else { return Ok(Err(Untimed::NoPlace)) };
    let ended = |error: CopyError| match error {
        CopyError::Ended(ended) => Ok(Err(Untimed::Short(ended))),
        other => Err(other),
    };
    // Breakpoints slow code on their page down.
    match hot.code.as_ref().map(|code| variant::lay_out(&mut copy, code, None)) {
        None | Some(Ok(())) => {}
        Some(Err(Failed::Copy(error))) => return ended(error),
        Some(Err(failed)) => return Ok(Err(Untimed::Fixed(failed.to_string()))),
    }
    if let Err(error) = copy.run(WATCHED_FOR) {
        return ended(error);
    }
    let (written, private_bytes) = match written_pages(copy.pid()) {
        Ok(found) => found,
        Err(error) => return Err(CopyError::Proc("read a copy's page map", error)),
    };
    let bytes: u64 = written.iter().map(|(start, end)| end - start).sum();
    if bytes > MOST_POPULATED {
        return Ok(Err(Untimed::Writes(bytes)));
    }
    match find_progress(&mut copy, tid, &hot.around) {
        Ok(Some(progress)) => Ok(Ok(Findings { progress, written, private_bytes })),
        Ok(None) => Ok(Err(Untimed::NoPlace)),
        Err(error) => ended(error),
    }
}

fn find_progress(copy: &mut Copy, tid: Pid, around: &[LoopCode]) -> Result<Option<Progress>, CopyError> {
    let mut fast: Vec<(f64, &LoopCode)> = Vec::new();
    for code in around {
        let rate = rate(copy, tid, code.header)?;
        if (LEAST_RATE..=MOST_RATE).contains(&rate) {
            return Ok(Some(Progress::Passings { code: code.clone(), at: code.header, rate }));
        }
        if rate <= MOST_RATE {
            continue;
        }
        // How often the loop is left.
        let left = self::rate(copy, tid, code.end)?;
        if (LEAST_RATE..=MOST_RATE).contains(&left) {
            return Ok(Some(Progress::Passings { code: code.clone(), at: code.end, rate: left }));
        }
        if left < LEAST_RATE {
            fast.push((rate, code));
        }
    }
    // The slowest of the fast ones covers most.
    fast.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, code) in fast {
        if let Some((register, step)) = counting_register(copy, tid, code)? {
            return Ok(Some(Progress::Register { code: code.clone(), register, step }));
        }
    }
    Ok(None)
}

/// How often the thread passes `at`, a second of its CPU time.
fn rate(copy: &mut Copy, tid: Pid, at: u64) -> Result<f64, CopyError> {
    let rate = passings(copy, tid, at, COUNTED_FOR)?;
    if rate < 2.0 / COUNTED_FOR.as_secs_f64() { passings(copy, tid, at, COUNTED_FOR_LONGER) } else { Ok(rate) }
}

fn passings(copy: &mut Copy, tid: Pid, at: u64, time: Duration) -> Result<f64, CopyError> {
    let Ok(breakpoint) = Breakpoint::counting(tid, Address::new(copy.moved(at))) else { return Ok(0.0) };
    let before = read_cpu_seconds(tid).unwrap_or(0.0);
    let mut seconds = 0.0;
    for _ in 0..MOST_RUNS {
        copy.run(time)?;
        seconds = read_cpu_seconds(tid).unwrap_or(0.0) - before;
        if seconds >= 0.5 * time.as_secs_f64() {
            break;
        }
    }
    Ok(if seconds > 0.0 { breakpoint.count() as f64 / seconds } else { 0.0 })
}

/// A register that changes by the same number in each iteration, and by how much.
fn counting_register(copy: &mut Copy, tid: Pid, code: &LoopCode) -> Result<Option<(usize, i64)>, CopyError> {
    let mut seen: Vec<[u64; 14]> = Vec::new();
    for _ in 0..=SAME_STEPS {
        match stop_at(copy, tid, code)? {
            Some(registers) => seen.push(counting_registers(&registers)),
            None => return Ok(None),
        }
    }
    let steps = |register: usize| {
        let mut steps = seen.windows(2).map(move |two| two[1][register].wrapping_sub(two[0][register]) as i64);
        let first = steps.next()?;
        (first != 0 && steps.all(|step| step == first)).then_some((register, first))
    };
    Ok((0..14).filter_map(steps).min_by_key(|(_, step)| step.unsigned_abs()))
}

/// Runs until the thread is at the first instruction of `code`; its registers there.
pub fn stop_at(copy: &mut Copy, tid: Pid, code: &LoopCode) -> Result<Option<Registers>, CopyError> {
    let Ok(_breakpoint) = Breakpoint::stopping(tid, Address::new(copy.moved(code.header)), 1) else { return Ok(None) };
    match copy.run(PATIENCE)? {
        Came::Passed(_) => Ok(copy.stopped(tid).map(|stopped| stopped.registers()).transpose()?),
        Came::Late => Ok(None),
    }
}

/// The pages that a copy has written, as addresses, and the bytes of its private memory.
fn written_pages(pid: Pid) -> std::io::Result<(Vec<(u64, u64)>, u64)> {
    let mut written: Vec<(u64, u64)> = Vec::new();
    let mut all = 0;
    for mapping in read_maps(pid)?.iter().filter(|m| m.writable && !m.shared && !m.path.starts_with("[v")) {
        for run in pages::present(pid, mapping)? {
            let bytes = run.range.end - run.range.start;
            all += bytes;
            if run.exclusive * WRITTEN_PART >= bytes / pages::PAGE && run.exclusive > 0 {
                written.push((run.range.start, run.range.end));
            }
        }
    }
    Ok((written, all))
}
