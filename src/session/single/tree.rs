//! The processes of a program that is visited.

use std::collections::HashMap;

use nix::unistd::Pid;

use crate::tracee::proc_status::{read_process_cpu_seconds, read_status};

/// Most processes that one visit stops together.
const MOST: usize = 64;

/// `first` and its living descendants.
fn family(first: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<Pid>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let pid = Pid::from_raw(pid);
        if let Ok(status) = read_status(pid) {
            children.entry(status.ppid).or_default().push(pid);
        }
    }
    let mut found = vec![first];
    let mut at = 0;
    while let Some(&pid) = found.get(at) {
        found.extend(children.get(&pid.as_raw()).into_iter().flatten());
        at += 1;
    }
    found
}

/// The processes of a program, and how much CPU time each had used when it was looked at last.
#[derive(Debug)]
pub struct Tree {
    first: Pid,
    cpu_s: HashMap<Pid, f64>,
}

impl Tree {
    /// The program whose first process is `first`.
    pub fn new(first: Pid) -> Self {
        Tree { first, cpu_s: HashMap::new() }
    }

    /// The processes that ran since the last look, `first` always among them if it is alone; the busiest first.
    pub fn busy(&mut self) -> Vec<Pid> {
        let family = family(self.first);
        if family.len() == 1 {
            return family;
        }
        let now: HashMap<Pid, f64> =
            family.iter().filter_map(|&pid| Some((pid, read_process_cpu_seconds(pid)?))).collect();
        let used = |pid: &Pid| now.get(pid).map_or(0.0, |n| n - self.cpu_s.get(pid).copied().unwrap_or(0.0));
        let mut busy: Vec<(f64, Pid)> = family.iter().map(|pid| (used(pid), *pid)).filter(|(n, _)| *n > 0.0).collect();
        busy.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        busy.truncate(MOST);
        self.cpu_s = now;
        busy.into_iter().map(|(_, pid)| pid).collect()
    }
}
