//! Candidates of the time in the kernel: system calls by kind, and page faults.

use std::collections::BTreeMap;

use rprof_profile::confidence::Level;
use rprof_profile::function::Function;
use rprof_profile::system::SystemCall;
use rprof_profile::vocabulary::Class;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::family::Family;
use super::libraries;
use super::place::Place;
use super::program::Program;
use super::unexplained::explained;

/// Of the time in the kernel, the part that is spared at least where calls can be merged or dropped.
const SPARED: f64 = 0.75;
/// Kinds of calls below this share of the program's CPU time are left out.
const LEAST: f64 = 0.03;

/// All candidates.
pub fn candidates(program: &Program<'_>) -> Vec<Candidate> {
    let mut all = of_calls(program);
    all.extend(page_faults(program));
    all
}

/// From this share of the page faults in copies on, the copies are what new memory is for.
const COPIES: f64 = 0.5;
const FAULTS: &str =
    "Keep and reuse its memory instead of new memory each time, or put it on huge pages: first touches are page faults";
const FAULTS_OF_COPIES: &str = "Copy less: append in place, reserve memory and keep it, pass references or move; each copy goes to new memory, which faults";

/// What calls do, as far as that decides what to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Write,
    Read,
    Close,
    Open,
    Process,
    Memory,
    Clock,
    Yield,
    Other,
}

impl Kind {
    /// `None`: the calls wait, and [`waiting`](super::waiting) has them.
    fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "futex" | "futex_wait" | "futex_waitv" => return None,
            "write" | "writev" | "pwrite64" | "pwritev" | "sendto" | "sendmsg" | "fsync" | "fdatasync" => Kind::Write,
            "read" | "readv" | "pread64" | "preadv" | "recvfrom" | "recvmsg" | "lseek" | "getdents64" | "getrandom" => {
                Kind::Read
            }
            "close" | "close_range" => Kind::Close,
            "open" | "openat" | "stat" | "lstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2"
            | "readlink" | "readlinkat" | "fstat" | "unlink" | "unlinkat" => Kind::Open,
            "fork" | "vfork" | "clone" | "clone3" | "execve" | "wait4" | "waitid" | "exit_group" => Kind::Process,
            "mmap" | "munmap" | "mprotect" | "madvise" | "brk" | "mremap" => Kind::Memory,
            "clock_gettime" | "gettimeofday" | "time" | "getpid" | "gettid" | "getuid" | "times" | "getrusage" => {
                Kind::Clock
            }
            "sched_yield" => Kind::Yield,
            _ => Kind::Other,
        })
    }

    fn advice(self, call: &str) -> String {
        match self {
            Kind::Write => format!(
                "Collect the output in a buffer and write it in large parts: fewer {call} calls, no flush after each line"
            ),
            Kind::Read => format!("Read larger parts at once: fewer {call} calls"),
            Kind::Close => {
                format!("Make fewer {call} calls: close only the descriptors that are open (close_range, O_CLOEXEC)")
            }
            Kind::Open => format!("Ask the file system less: keep files open and remember what {call} said"),
            Kind::Process => format!(
                "Start processes cheaply: posix_spawn or vfork instead of fork from a large process, fewer of them ({call})"
            ),
            Kind::Memory => format!("Keep and reuse memory instead of mapping and unmapping it again ({call})"),
            Kind::Clock => format!("Ask the kernel less often: call {call} once and keep the result"),
            Kind::Yield => "Block on a lock or condition instead of yielding the CPU in a loop (sched_yield)".into(),
            Kind::Other => format!("Make fewer {call} calls: merge them, or drop those without effect"),
        }
    }
}

/// CPU seconds in the kernel of the calls that read, write and manage files.
pub fn file_calls_s(program: &Program<'_>) -> f64 {
    seconds_of(program, &[Kind::Write, Kind::Read, Kind::Close, Kind::Open])
}

/// CPU seconds in the kernel of the calls that start processes and end them.
pub fn starting_s(program: &Program<'_>) -> f64 {
    seconds_of(program, &[Kind::Process])
}

/// CPU seconds in the kernel of the calls of `kinds`.
fn seconds_of(program: &Program<'_>, kinds: &[Kind]) -> f64 {
    let calls = program.profile.run.system.as_ref().map_or(&[][..], |system| &system.calls);
    let is_one = |call: &&SystemCall| call.name.as_deref().and_then(Kind::of).is_some_and(|kind| kinds.contains(&kind));
    calls.iter().filter(is_one).filter_map(|call| call.kernel_s).sum()
}

/// The calls of one kind.
#[derive(Default)]
struct Sum {
    kernel_s: f64,
    count: u64,
    calls: BTreeMap<String, f64>,
    /// The user's functions that made them, with their seconds.
    places: Vec<(Place, f64)>,
    /// CPU seconds in user mode of the library functions that do nothing but make the calls.
    wrappers_s: f64,
}

fn of_calls(program: &Program<'_>) -> Vec<Candidate> {
    let mut sums: BTreeMap<Kind, Sum> = BTreeMap::new();
    for f in &program.profile.functions {
        let Some(system) = &f.system else { continue };
        let mut own: Vec<(Kind, &SystemCall)> = Vec::new();
        for call in &system.calls {
            let name = call.name.as_deref().unwrap_or("?");
            if let (Some(kind), Some(_)) = (Kind::of(name), call.kernel_s.filter(|s| *s > 0.0)) {
                own.push((kind, call));
            }
        }
        let all: f64 = own.iter().filter_map(|(_, call)| call.kernel_s).sum();
        for (kind, call) in own {
            let kernel_s = call.kernel_s.unwrap_or(0.0);
            let sum = sums.entry(kind).or_default();
            sum.kernel_s += kernel_s;
            sum.count += call.count.unwrap_or(0);
            *sum.calls.entry(call.name.clone().unwrap_or_default()).or_default() += kernel_s;
            for (place, share) in places(program, f) {
                Place::add(&mut sum.places, place, share * kernel_s);
            }
            if !program.is_own(f) {
                sum.wrappers_s += f.cpu_s.unwrap_or(0.0) * kernel_s / all;
            }
        }
    }
    through_pipes(&mut sums);
    let large = sums.into_iter().filter(|(_, sum)| sum.kernel_s >= LEAST * program.cpu_s);
    large.map(|(kind, sum)| candidate(program, kind, sum)).collect()
}

/// What some processes write and others read in as many calls goes through a pipe: larger parts spare both.
fn through_pipes(sums: &mut BTreeMap<Kind, Sum>) {
    /// Counts that differ by no more are of the same parts.
    const AS_MANY: f64 = 0.2;
    let count = |kind: Kind| sums.get(&kind).map_or(0.0, |sum| sum.count as f64);
    let (written, read) = (count(Kind::Write), count(Kind::Read));
    if written <= 0.0 || (written - read).abs() > AS_MANY * written {
        return;
    }
    let readers = sums.remove(&Kind::Read);
    if let Some((readers, writers)) = readers.zip(sums.get_mut(&Kind::Write)) {
        writers.kernel_s += readers.kernel_s;
        writers.wrappers_s += readers.wrappers_s;
        writers.count += readers.count;
    }
}

fn candidate(program: &Program<'_>, kind: Kind, sum: Sum) -> Candidate {
    let call = sum.calls.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or("?", |(name, _)| name.as_str());
    let place = Place::most(&sum.places).cloned();
    let held_s = program.elapsed(sum.kernel_s + sum.wrappers_s);
    let times = if sum.count > 0 { format!(", {} calls", sum.count) } else { String::new() };
    let because = format!("{:.2} s in the kernel are {call}{times}", sum.kernel_s);
    // Calls for small parts of a text come with what makes the parts.
    let streams_s = match (kind, &place) {
        (Kind::Write | Kind::Read, Some(place)) => libraries::seconds_below(program, Family::Streams, place),
        _ => 0.0,
    };
    let most_s = held_s + program.elapsed(streams_s);
    Candidate {
        class: Class::SystemCalls,
        advice: Some(advice::sentence(&kind.advice(call), place.as_ref())),
        place,
        held_s,
        saves_s: Some(Interval::narrow(SPARED * held_s, most_s, program.wall_s)),
        confidence: Level::High,
        because: vec![because],
    }
}

/// The user's functions that made the calls of `f`.
fn places(program: &Program<'_>, f: &Function) -> Vec<(Place, f64)> {
    if program.is_own(f) {
        return vec![(Place::of(f), 1.0)];
    }
    let homes = program.homes(f);
    if homes.iter().any(|(place, _)| place.function != f.name) {
        return homes;
    }
    let callers = f.system.as_ref().map_or(&[][..], |system| &system.callers);
    let all: f64 = callers.iter().map(|caller| caller.seconds).sum();
    let own = callers.iter().filter_map(|caller| Some((program.own_function(&caller.name)?, caller.seconds / all)));
    let own: Vec<(Place, f64)> = own.collect();
    match program.main() {
        _ if !own.is_empty() => own,
        Some(main) => vec![(main, 1.0)],
        None => homes,
    }
}

/// Page faults of memory that is touched first.
fn page_faults(program: &Program<'_>) -> Option<Candidate> {
    let of = |f: &Function| f.fault_s.unwrap_or(0.0);
    let all: f64 = program.profile.functions.iter().map(of).sum();
    if all < LEAST * program.cpu_s {
        return None;
    }
    let most = program.profile.functions.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let place = program.home(most);
    // Memory that is kept is not mapped again either.
    let held_s = program.elapsed(all + seconds_of(program, &[Kind::Memory]));
    let in_copies: f64 = program.profile.functions.iter().filter(|f| copies(f)).map(of).sum();
    let (words, most_s) = if in_copies >= COPIES * all {
        let copied_s = libraries::seconds_below(program, Family::Copying, &place);
        (FAULTS_OF_COPIES, held_s + program.elapsed(copied_s))
    } else {
        (FAULTS, held_s + program.elapsed(beside_faults_s(program)))
    };
    let number = program.profile.run.system.as_ref().and_then(|system| system.faults).map(|faults| faults.minor);
    let number = number.map_or(String::new(), |n| format!(", {n} faults"));
    Some(Candidate {
        class: Class::PageFaults,
        advice: Some(advice::sentence(words, Some(&place))),
        place: Some(place),
        held_s,
        saves_s: Some(Interval::narrow(SPARED * held_s, most_s, program.wall_s)),
        confidence: Level::High,
        because: vec![format!("{all:.2} s in the kernel are page faults{number}")],
    })
}

/// Whether `f` copies memory that was written before.
fn copies(f: &Function) -> bool {
    const NAMES: [&str; 3] = ["memcpy", "memmove", "mempcpy"];
    let plain = f.name.trim_start_matches('_');
    NAMES.iter().any(|name| plain.starts_with(name)) && Family::of(&f.name, &f.module) == Some(Family::Copying)
}

/// CPU seconds in user mode, beyond what the model explains, of functions that fault often: they find caches and translations
/// emptied by the kernel.
fn beside_faults_s(program: &Program<'_>) -> f64 {
    /// The least share of a function's time in page faults.
    const OFTEN: f64 = 0.2;
    let beside = |f: &Function| {
        let (fault_s, cpu_s) = (f.fault_s?, f.cpu_s?);
        (fault_s >= OFTEN * (fault_s + cpu_s)).then(|| cpu_s * (1.0 - explained(f)))
    };
    program.profile.functions.iter().filter_map(beside).sum()
}
