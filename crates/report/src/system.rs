//! System calls, page faults and waiting as lines of text: of a function if they are a part of its time, and of the program.

use rprof_profile::system::{Caller, Faults, System, SystemCall, Wait};
use rprof_profile::{Function, Profile};

use super::name;
use super::number::{NOT_MEASURED, percent, seconds};

/// From this share of a function's time on they are mentioned.
const LEAST: f64 = 0.05;
/// How wide the name of a caller may be.
const NAME_WIDTH: usize = 40;
/// Maximum number of calls and reasons listed for a function.
const OF_FUNCTION: usize = 3;
/// Maximum number of calls and reasons listed for the program.
const OF_PROGRAM: usize = 6;

/// `system calls: read 310 ms (1,000 calls)` and `off the CPU: 1.20 s: read() of a pipe 1.20 s`, each if it is 5 % of a function's time.
pub fn of_function(function: &Function) -> Vec<String> {
    let Some(system) = &function.system else { return Vec::new() };
    let busy_s = function.cpu_s.unwrap_or(0.0) + function.kernel_s.unwrap_or(0.0);
    lines(system, busy_s, OF_FUNCTION, false)
}

/// The same of the program, and its page faults.
pub fn of_program(profile: &Profile) -> Vec<String> {
    let Some(system) = &profile.run.system else { return Vec::new() };
    let timed = profile.run.timed_pass();
    let mut told = lines(system, timed.map_or(0.0, |pass| pass.cpu_s), OF_PROGRAM, true);
    if let (Some(reason), Some(_)) = (&system.waits_missing, timed) {
        told.push(format!("off the CPU: {NOT_MEASURED} ({reason})"));
    }
    told
}

fn lines(system: &System, busy_s: f64, most: usize, with_faults: bool) -> Vec<String> {
    let waited_s = system.waited_s().unwrap_or(0.0);
    let least = LEAST * (busy_s + waited_s);
    let in_calls: f64 = system.calls.iter().filter_map(|c| c.kernel_s).sum();
    let mut lines = Vec::new();
    if in_calls > 0.0 && in_calls >= least {
        let shown = system.calls.iter().filter(|c| c.kernel_s.is_some_and(|s| s > 0.02 * in_calls)).take(most);
        let shown: Vec<String> = shown.map(call).collect();
        lines.push(format!("system calls: {} in the kernel: {}", seconds(in_calls), shown.join(", ")));
    }
    let waits = system.waits.as_deref().unwrap_or_default();
    let off_s: f64 = waits.iter().map(|w| w.seconds).sum();
    if off_s > 0.0 && off_s >= least {
        let shown: Vec<String> = waits.iter().filter(|w| w.seconds > 0.02 * off_s).take(most).map(wait).collect();
        let share = if with_faults {
            String::new()
        } else {
            format!(" ({} of its time)", percent(waited_s / (busy_s + waited_s).max(f64::MIN_POSITIVE)))
        };
        lines.push(format!("off the CPU: {}{share}: {}", seconds(off_s), shown.join(", ")));
    }
    let dear = |c: &&Caller| c.seconds > LEAST * (in_calls + waited_s) && c.seconds >= least / 2.0;
    let shown = system.callers.iter().filter(dear).take(OF_FUNCTION);
    let shown: Vec<String> =
        shown.map(|c| format!("{} {}", name::shorten(&c.name, NAME_WIDTH), seconds(c.seconds))).collect();
    if !lines.is_empty() && !shown.is_empty() {
        lines.push(format!("called for: {}", shown.join(", ")));
    }
    let faults = system.faults.filter(|f| with_faults && f.sampled_s.or(f.expected_s).is_some_and(|s| s >= least));
    lines.extend(faults.map(of_faults));
    lines
}

fn call(call: &SystemCall) -> String {
    let name = call.name.as_deref().unwrap_or("calls of unknown number");
    let divided = if call.divided { ", divided by counts" } else { "" };
    let count = match call.count {
        Some(n) if call.estimated => format!(" (about {} calls, estimated", grouped(n)),
        Some(1) => " (1 call".into(),
        Some(n) => format!(" ({} calls", grouped(n)),
        None => " (not counted".into(),
    };
    format!("{name} {}{count}{divided})", seconds(call.kernel_s.unwrap_or(0.0)))
}

fn wait(wait: &Wait) -> String {
    format!("{} {}", wait.words(), seconds(wait.seconds))
}

/// `page faults: 20,123 minor, 0 major; 95 ms at the cost measured here, 110 ms ± 20 ms sampled`
fn of_faults(faults: Faults) -> String {
    let expected = faults.expected_s.map(|s| format!("{} at the cost that was measured here", seconds(s)));
    let sampled = faults.sampled_s.map(|s| {
        let error = faults.sampled_ci95_s.map_or(String::new(), |ci| format!(" ± {}", seconds(ci)));
        format!("{}{error} sampled", seconds(s))
    });
    let times: Vec<String> = expected.into_iter().chain(sampled).collect();
    let verdict =
        if faults.disagree() { ", which is more than chance: its pages are dearer or cheaper ones" } else { "" };
    format!(
        "page faults: {} minor, {} major; {}{verdict}",
        grouped(faults.minor),
        grouped(faults.major),
        times.join(", ")
    )
}

/// `12,345`
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::system::{FileKind, Reason};

    #[test]
    fn what_is_most_comes_first_and_what_is_little_is_left_out() {
        let read =
            SystemCall { name: Some("read".into()), count: Some(1000), kernel_s: Some(0.31), ..SystemCall::default() };
        let estimated = SystemCall { estimated: true, ..read.clone() };
        assert_eq!(call(&estimated), "read 310 ms (about 1,000 calls, estimated)");
        let wait = |reason, call: &str, file, seconds| Wait { reason, call: Some(call.into()), file, seconds };
        let waits = vec![
            wait(Reason::Read, "read", Some(FileKind::Pipe), 1.2),
            wait(Reason::Sleep, "clock_nanosleep", None, 0.01),
        ];
        let system = System { calls: vec![read], waits: Some(waits), ..System::default() };
        let function = Function { cpu_s: Some(0.1), kernel_s: Some(0.31), system: Some(system), ..Function::default() };
        assert_eq!(
            of_function(&function),
            [
                "system calls: 310 ms in the kernel: read 310 ms (1,000 calls)",
                "off the CPU: 1.21 s (75 % of its time): read() of a pipe 1.20 s"
            ]
        );
        assert!(of_function(&Function { cpu_s: Some(100.0), ..function }).is_empty());
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }
}
