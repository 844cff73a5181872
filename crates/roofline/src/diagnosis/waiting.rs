//! Candidates of the time off the CPU: threads that wait for one another, for files, sockets, children, or sleep.
//!
//! ```text
//! held = elapsed · (1 − CPUs at work / CPUs that its threads could use)      waiting while all CPUs work costs nothing
//! threads that could use CPUs = (Σ CPU time)² / Σ (CPU time)²               a helper that sleeps has nothing to do
//! ```

use rprof_profile::confidence::Level;
use rprof_profile::function::Function;
use rprof_profile::system::{FileKind, Reason, Wait};
use rprof_profile::vocabulary::Class;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::family::Family;
use super::kernel::{file_calls_s, starting_s};
use super::place::Place;
use super::processes::{self, Started};
use super::program::Program;
use super::regions;

/// Waiting from this share of the elapsed time on explains why threads have uneven work.
const EXPLAINS_IMBALANCE: f64 = 0.15;

/// Uneven work and unused CPUs are no cause where threads wait for a lock or for one another's results.
pub fn drop_what_only_waits(program: &Program<'_>, waiting: Option<&Candidate>, all: &mut Vec<Candidate>) {
    let explains = |candidate: &Candidate| candidate.held_s >= EXPLAINS_IMBALANCE * program.wall_s;
    if waiting.is_some_and(explains) && !is_parallel_region(program) {
        all.retain(|candidate| !matches!(candidate.class, Class::LoadImbalance | Class::Threads));
    }
}

/// The candidate of the reason for most waiting.
pub fn candidate(program: &Program<'_>) -> Option<Candidate> {
    let system = program.profile.run.system.as_ref()?;
    let waits: Vec<&Wait> = system.waits.as_ref()?.iter().filter(|wait| is_of_program(wait)).collect();
    let waited: f64 = waits.iter().map(|wait| wait.seconds).sum();
    let longest = waits.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let futex_s: f64 =
        system.calls.iter().filter(|call| call.name.as_deref() == Some("futex")).filter_map(|call| call.kernel_s).sum();
    let threads =
        program.profile.run.threads.iter().filter(|thread| thread.cpu_s > 0.01 * program.cpu_s).count().max(1);
    let allowed = program.profile.functions.iter().filter_map(|f| f.allowed_cpus).max().unwrap_or(1) as usize;
    let usable = sharing_the_work(program).min(allowed as f64).max(1.0);
    let quiet_wall = program.wall_s / program.stretch;
    let idle = (program.wall_s * (1.0 - program.cpu_s / quiet_wall / usable)).max(0.0);
    // Each of the threads waited for that long, on average.
    let each = waited * if threads == 1 { idle / waited.max(idle / 4.0).max(f64::MIN_POSITIVE) } else { 1.0 };
    let is_lock = longest.reason == Reason::Lock;
    let held_s = idle.min(each) + if is_lock { program.elapsed(futex_s) } else { 0.0 };
    if held_s < 0.1 * program.wall_s || is_lock && is_parallel_region(program) {
        return None;
    }
    let wakes: u64 =
        system.calls.iter().filter(|call| call.name.as_deref() == Some("futex")).filter_map(|call| call.count).sum();
    let place = place(program, longest);
    let started = processes::awaited(program, longest).filter(|_| held_s > program.elapsed(starting_s(program)));
    let words = match started {
        Some(Started { number, each_s, .. }) => format!(
            "Start fewer programs: do their work in the process itself, or give one of them many inputs ({number} processes of {:.1} ms)",
            1e3 * each_s
        ),
        None => words(longest, wakes as f64 / program.wall_s),
    };
    let saves = match is_lock && threads > 1 {
        // Who waits less takes and gives back less, too.
        true => Interval::narrow(0.65 * held_s, held_s + program.elapsed(locking_s(program)), program.wall_s),
        false => {
            // Calls that wait for a file come with others, which fewer of them spare as well.
            let with_calls = if longest.reason == Reason::Write { program.elapsed(file_calls_s(program)) } else { 0.0 };
            // The process that starts others does little else.
            let with_starts = started.map_or(0.0, |started| started.starter_s * program.stretch);
            let most = (held_s + with_calls + with_starts).min(program.wall_s);
            Interval::narrow(0.75 * held_s, most, program.wall_s)
        }
    };
    let because = format!(
        "its threads wait {:.2} s for {}; the program takes {:.2} s",
        longest.seconds,
        longest.words(),
        program.wall_s
    );
    Some(Candidate {
        class: Class::Waiting,
        advice: Some(advice::sentence(&words, place.as_ref())),
        place,
        held_s,
        saves_s: Some(saves),
        confidence: Level::High,
        because: vec![
            because,
            format!("{:.2} CPUs of {usable:.1} that its threads could use are at work", program.cpu_s / quiet_wall),
        ],
    })
}

/// CPU seconds in user mode of the functions that take and give back locks, those of the library's generator of random numbers among them.
fn locking_s(program: &Program<'_>) -> f64 {
    let locks = |f: &&Function| {
        !program.is_own(f) && matches!(Family::of(&f.name, &f.module), Some(Family::Locks | Family::Random))
    };
    program.profile.functions.iter().filter(locks).filter_map(|f| f.cpu_s).sum()
}

/// The number of threads among which the work is divided: one that does a hundredth of it counts next to nothing.
fn sharing_the_work(program: &Program<'_>) -> f64 {
    let (sum, squares) = program
        .profile
        .run
        .threads
        .iter()
        .fold((0.0, 0.0), |(sum, squares), thread| (sum + thread.cpu_s, squares + thread.cpu_s * thread.cpu_s));
    if squares > 0.0 { sum * sum / squares } else { 1.0 }
}

/// Waiting for a CPU says nothing of the program.
fn is_of_program(wait: &Wait) -> bool {
    !matches!(wait.reason, Reason::RunQueue | Reason::Unknown)
}

/// Whether the threads wait in the runtime of a parallel region: for the others of their team.
fn is_parallel_region(program: &Program<'_>) -> bool {
    let of = |in_runtime: bool| -> f64 {
        let all = program.profile.functions.iter().filter(|f| regions::is_runtime(f) == in_runtime);
        all.filter_map(|f| f.system.as_ref()?.waited_s()).sum()
    };
    of(true) > of(false)
}

/// The user's function below which the threads wait.
fn place(program: &Program<'_>, longest: &Wait) -> Option<Place> {
    let waited = |f: &Function| -> f64 {
        let waits = f.system.as_ref().and_then(|system| system.waits.as_deref()).unwrap_or_default();
        waits
            .iter()
            .filter(|wait| wait.reason == longest.reason && wait.call == longest.call)
            .map(|wait| wait.seconds)
            .sum()
    };
    // Who waits for the end of another thread waits for what holds that one.
    let joins = |f: &&Function| f.name.contains("pthread_join") || f.name.contains("pthread_clockjoin");
    let functions = &program.profile.functions;
    let most =
        functions.iter().filter(|f| waited(f) > 0.0 && !joins(f)).max_by(|a, b| waited(a).total_cmp(&waited(b)))?;
    let callers = most.system.as_ref().map_or(&[][..], |system| &system.callers);
    let by_caller = callers.iter().find_map(|caller| program.own_function(&caller.name));
    let home = Some(program.home(most)).filter(|home| home.function != most.name || program.is_own(most));
    by_caller.or(home).or_else(|| program.main()).or_else(|| Some(Place::of(most)))
}

fn words(wait: &Wait, wakes_per_s: f64) -> String {
    let call = wait.call.as_deref().unwrap_or("?");
    match wait.reason {
        Reason::Lock if wakes_per_s > 10_000.0 => {
            "Hand over several items at once (a batch, a queue with room): its threads lock and wake one another for each one".into()
        }
        Reason::Lock => "Hold the lock for shorter, divide it, or give threads (or processes) data of their own: they wait for one another".into(),
        Reason::Write if call.contains("sync") => format!("Call {call} less often: put many changes into one transaction or batch"),
        Reason::Write => format!("Write larger parts, or let another thread write ({call})"),
        Reason::Read if wait.file == Some(FileKind::Socket) => format!(
            "Batch its requests, or keep several under way, and set TCP_NODELAY for small messages: each {call} waits for a round trip"
        ),
        Reason::Read => format!("Ask for several things at once, or read ahead while it works ({call})"),
        Reason::Poll => format!("Let it have several requests under way, so that work is there when {call} returns"),
        Reason::Sleep => format!("Wait for the event itself instead of sleeping for a time ({call})"),
        Reason::Child => "Let the processes that it starts run at the same time, or start fewer of them (posix_spawn instead of fork)".into(),
        Reason::PageFault => "Read the file ahead (madvise, readahead), or keep it in memory".into(),
        _ => format!("Make fewer {call} calls, or let another thread make them"),
    }
}
