//! Execution that is not in the counts: native code, and processes that were released.

use std::collections::BTreeMap;

use crate::translator::translate::text_ranges::{Untranslated, WITHOUT_JIT};
use rprof_profile::evidence::counted::Missing;
use rprof_profile::run::{RELEASED_CODE, Warning};

/// Effect of native execution on the counts, for warnings.
const NOT_COUNTED: &str = "its instructions are not in the counts";
/// Why a process was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Transitions slowed it down too much.
    Unbearable,
    /// It makes a task that no tracer may follow (`CLONE_UNTRACED`): as a rule one that will trace it with ptrace.
    Untraced,
    /// It has the kernel dispatch its system calls by their addresses (`PR_SET_SYSCALL_USER_DISPATCH`).
    Dispatch,
    /// It installs a seccomp filter that reads the address of a system call, or hands calls to a listener, which can.
    FilterByAddress,
    /// It forbids itself memory that becomes executable (`PR_SET_MDWE`): its text is not, while it is counted.
    DenyWriteExecute,
}

impl Release {
    /// All of them.
    pub(crate) const ALL: [Release; 5] = [
        Release::Unbearable,
        Release::Untraced,
        Release::Dispatch,
        Release::FilterByAddress,
        Release::DenyWriteExecute,
    ];

    /// The program's action.
    pub fn reason(self) -> &'static str {
        match self {
            Release::Unbearable => {
                "going between counted code and code that is not translated slowed it down more than threefold"
            }
            Release::Untraced => {
                "it made a task that no tracer may follow (CLONE_UNTRACED), as the leak check of a sanitizer does at exit"
            }
            Release::Dispatch => {
                "it dispatches its system calls by their addresses (PR_SET_SYSCALL_USER_DISPATCH), which are others in \
                 translated code"
            }
            Release::FilterByAddress => {
                "it filters its system calls (seccomp) by their addresses, or by a listener that can see these; they are others in \
                 translated code"
            }
            Release::DenyWriteExecute => {
                "it forbids memory to become executable (PR_SET_MDWE), and the text of a counted program is not executable"
            }
        }
    }

    /// The remedy.
    fn hint(self) -> &'static str {
        match self {
            Release::Unbearable => WITHOUT_JIT,
            Release::Untraced => {
                "ASAN_OPTIONS=detect_leaks=0 (LSAN_OPTIONS for -fsanitize=leak) leaves the leak check out"
            }
            Release::Dispatch | Release::FilterByAddress | Release::DenyWriteExecute => {
                "run the program without that restriction, where it has such a switch; hardware counters count all of it"
            }
        }
    }
}

/// The execution that was not counted in a run.
#[derive(Debug, Default)]
pub struct Uncounted {
    /// By reason: (transitions to native code, CPU seconds there).
    pub(crate) native: BTreeMap<Untranslated, (u64, f64)>,
    /// Released processes: (reason, seconds since the start of the run).
    pub(crate) released: Vec<(Release, f64)>,
    /// A program that a process executed was not followed.
    pub unfollowed: bool,
}

impl Uncounted {
    /// The part that the counts lack.
    pub fn missing(&self) -> Missing {
        let executions = self.unfollowed || !self.released.is_empty();
        if executions { Missing::Executions } else { Missing::OtherCode }
    }

    /// Adds a transition to native code.
    pub fn note(&mut self, why: Untranslated) {
        self.native.entry(why).or_default().0 += 1;
    }

    /// Adds CPU seconds in native code.
    pub(crate) fn add_time(&mut self, why: Untranslated, cpu_s: f64) {
        self.native.entry(why).or_default().1 += cpu_s;
    }

    /// CPU seconds in native code.
    pub fn native_s(&self) -> f64 {
        self.native.values().map(|(_, cpu_s)| cpu_s).sum()
    }

    /// The warnings about native code.
    pub(crate) fn doubts_of_native(&self) -> impl Iterator<Item = Warning> + '_ {
        self.native.iter().map(|(why, (transitions, cpu_s))| {
            let (what, hint) = why.words();
            let text = format!("{what} was executed natively ({transitions} transitions, {cpu_s:.3} s)");
            Warning::new("native-code", text, NOT_COUNTED, hint)
        })
    }

    /// The warning about processes released for that reason; `beyond` are the CPU seconds of all released processes.
    pub(crate) fn doubt(&self, why: Release, beyond: f64) -> Option<Warning> {
        let mut times = self.released.iter().filter(|r| r.0 == why).map(|r| r.1);
        let first = times.next()?;
        let who = match times.count() {
            0 => "the program ran natively".to_owned(),
            others => format!("{} processes ran natively, the first", others + 1),
        };
        let text = format!("{}: {who} from {first:.2} s on, {beyond:.3} s of CPU time", why.reason());
        Some(Warning::new(RELEASED_CODE, text, NOT_COUNTED, why.hint()))
    }
}
