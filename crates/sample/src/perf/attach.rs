//! Samples a process that runs already, with its descendants, until that is ended from outside or the process ends.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use perf_event::Counter;

use super::open::{Opened, Terms, greatest_rate, on_running_thread, open_on_running, wanted};
use super::sampled::SampledEvent;
use super::setter::Outlet;
use super::{Blocked, CycleClock, Drain, Markers, Pass, probe};
use crate::modules::MappedFile;
use crate::recorder::Recorder;
use crate::{Gate, SampleError, SampleOptions, Timed, reap};
use rprof_tracee::clock::monotonic_ns;
use rprof_tracee::maps::read_maps;
use rprof_tracee::perf_ring::send_records;
use rprof_tracee::proc_status::{family, is_runnable, read_name, read_process_cpu_seconds, threads_of};

/// The longest time between two rounds of reading.
const ROUND: Duration = Duration::from_millis(20);

/// Samples all threads of `pid` and of its descendants, and all that they create, until `gate` is over or the process has ended.
pub(crate) fn attach(pid: Pid, options: &SampleOptions, gate: &Gate) -> Result<Timed, SampleError> {
    let refused = |source: io::Error| SampleError::Refused { sampler: "perf", source };
    let terms = wanted(probe::cycles_interrupt(), options, greatest_rate());
    let Opened { mut rings, cpus, terms } = open_on_running(terms, pid).map_err(refused)?;
    let family = family(pid);
    let others = on_other_threads(&family, &cpus, &rings, terms).map_err(refused)?;
    let start_ns = monotonic_ns();
    for ring in &mut rings {
        ring.enable().map_err(refused)?;
    }
    let mut recorder = Recorder::new();
    family.iter().for_each(|process| meet(&mut recorder, *process, start_ns));
    let by_cpu = cpus.into_iter().zip(rings.iter().map(AsRawFd::as_raw_fd)).collect();
    let mut pass = Pass {
        drain: Drain::new(rings),
        recorder,
        blocked: Blocked::new(start_ns),
        markers: Markers::new(Outlet { rings: by_cpu, terms }),
        clock: CycleClock::default(),
        terms,
        lost: 0,
        throttled: false,
        begun: Instant::now(),
    };
    let before_s: HashMap<Pid, f64> =
        family.iter().filter_map(|pid| Some((*pid, read_process_cpu_seconds(*pid)?))).collect();
    let exit = reap::exit_descriptor(pid).ok();
    gate.begin();
    while !gate.is_over() {
        let mut polled: Vec<libc::pollfd> = exit.iter().map(|fd| pollable(fd.as_raw_fd())).collect();
        // SAFETY: `polled` is a live array of the length given.
        let ended = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ROUND.as_millis() as i32) };
        pass.read(monotonic_ns());
        pass.blocked.look(monotonic_ns(), &mut pass.recorder);
        if ended > 0 {
            gate.end();
        }
    }
    drop(others);
    let used_s = |process: &Pid| {
        let before_s = before_s.get(process).copied().unwrap_or(0.0);
        read_process_cpu_seconds(*process).map_or(0.0, |now_s| (now_s - before_s).max(0.0))
    };
    Ok(pass.finish_detached(self::family(pid).iter().map(used_s).sum()))
}

fn pollable(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// The same events on all threads of `family` but the first, which has those of the rings.
fn on_other_threads(family: &[Pid], cpus: &[usize], rings: &[SampledEvent], terms: Terms) -> io::Result<Vec<Counter>> {
    let first = family[0];
    if threads_of(first).is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let mut counters = Vec::new();
    for tid in family.iter().flat_map(|process| threads_of(*process)).filter(|tid| *tid != first) {
        for (&cpu, ring) in cpus.iter().zip(rings) {
            match on_running_thread(tid, cpu, terms) {
                Ok(counter) => {
                    send_records(&counter, ring.as_raw_fd())?;
                    counters.push(counter);
                }
                // It has ended.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => break,
                Err(e) => return Err(e),
            }
        }
    }
    counters.iter_mut().try_for_each(Counter::enable)?;
    Ok(counters)
}

/// Takes in the threads and the code that are there at the beginning.
fn meet(recorder: &mut Recorder, pid: Pid, now_ns: u64) {
    let process = pid.as_raw() as u32;
    recorder.exec(now_ns, process, process);
    let mut tids = threads_of(pid);
    tids.sort_unstable_by_key(|tid| (*tid != pid, *tid));
    for tid in tids {
        if let Some(name) = read_name(tid) {
            recorder.name(now_ns, process, tid.as_raw() as u32, name);
        }
        if is_runnable(tid) {
            recorder.enter_cpu(now_ns, process, tid.as_raw() as u32);
        }
    }
    for map in read_maps(pid).unwrap_or_default().iter().filter(|m| m.executable) {
        let path = if map.path.is_empty() { "//anon" } else { &map.path };
        let file = MappedFile {
            pid: process,
            start: map.start.get(),
            file_offset: map.offset.get(),
            path,
            inode: Some(map.inode).filter(|n| *n != 0),
            build_id: None,
        };
        recorder.map(now_ns, file, map.end - map.start);
    }
}
