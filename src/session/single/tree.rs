//! The processes of a program that is visited.

use std::collections::HashMap;

use nix::unistd::Pid;

use crate::tracee::proc_status::{family, read_process_cpu_seconds};

/// Most processes that one visit stops together.
const MOST: usize = 64;

/// The processes of a program at one moment.
#[derive(Debug)]
pub struct Look {
    /// All of them.
    pub family: Vec<Pid>,
    /// Those that used CPU time since the last look, the busiest first; a single process also at the first look.
    pub busy: Vec<Pid>,
}

/// The processes of a program, and how much CPU time each had used when it was looked at last.
#[derive(Debug)]
pub struct Tree {
    first: Pid,
    cpu_s: HashMap<Pid, f64>,
}

impl Tree {
    /// The program with the first process `first`.
    pub fn new(first: Pid) -> Self {
        Tree { first, cpu_s: HashMap::new() }
    }

    /// Looks at the program now.
    pub fn look(&mut self) -> Look {
        let family = family(self.first);
        let now: HashMap<Pid, f64> =
            family.iter().filter_map(|&pid| Some((pid, read_process_cpu_seconds(pid)?))).collect();
        let used = |pid: &Pid| now.get(pid).map_or(0.0, |n| n - self.cpu_s.get(pid).copied().unwrap_or(0.0));
        let is_new = |pid: &Pid| !self.cpu_s.contains_key(pid) && family.len() == 1;
        let all = family.iter().map(|pid| (used(pid), *pid));
        let mut busy: Vec<(f64, Pid)> = all.filter(|(n, pid)| *n > 0.0 || is_new(pid)).collect();
        busy.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        busy.truncate(MOST);
        self.cpu_s = now;
        Look { busy: busy.into_iter().map(|(_, pid)| pid).collect(), family }
    }
}
