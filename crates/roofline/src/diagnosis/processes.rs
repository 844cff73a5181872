//! Programs that start many short processes, and wait for each.

use std::collections::BTreeMap;

use rprof_profile::system::{FileKind, Reason, Wait};

use super::program::Program;

/// Fewer processes than that are no habit.
const MANY: usize = 20;
/// CPU seconds of a process up to which starting it is a good part of its work.
const SHORT_S: f64 = 0.05;

/// The processes that a program started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Started {
    /// How many.
    pub number: usize,
    /// CPU seconds of one, on average.
    pub each_s: f64,
    /// CPU seconds of the process that started them.
    pub starter_s: f64,
}

/// The short processes that `program` started and waits for by `wait`; `None` where it started few, or long ones, or where it waits for
/// something else.
pub fn awaited(program: &Program<'_>, wait: &Wait) -> Option<Started> {
    let is_for_child = match wait.reason {
        Reason::Child | Reason::Poll => true,
        Reason::Read => wait.file == Some(FileKind::Pipe),
        _ => false,
    };
    let mut processes: BTreeMap<u32, f64> = BTreeMap::new();
    for thread in &program.profile.run.threads {
        *processes.entry(thread.pid).or_default() += thread.cpu_s;
    }
    let first = program.profile.run.threads.iter().min_by_key(|thread| thread.id)?.pid;
    let starter_s = processes.remove(&first).unwrap_or(0.0);
    let number = processes.len();
    let each_s = processes.values().sum::<f64>() / number.max(1) as f64;
    (is_for_child && number >= MANY && each_s <= SHORT_S).then_some(Started { number, each_s, starter_s })
}
