//! The program's actions for the two signals that rprof's own traps also raise.
//!
//! If a trap or a fault occurs while its signal is blocked or ignored, the kernel resets the signal's action and unblocks it
//! (`force_sig_info_to_task`). rprof therefore keeps the program's action, and sets it again after each trap.

use crate::translator::kernel::signal_bits::bit;

/// An action as `rt_sigaction` has it: handler, flags, restorer, mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Action(pub(crate) [u64; 4]);

const IGNORED: Action = Action([libc::SIG_IGN as u64, 0, 0, 0]);

impl Action {
    /// From the words of the kernel's structure.
    pub fn from_words(words: [u64; 4]) -> Self {
        Action(words)
    }

    /// That of a signal without a handler.
    pub fn without_handler(is_ignored: bool) -> Self {
        if is_ignored { IGNORED } else { Action::default() }
    }

    pub(crate) fn is_default(self) -> bool {
        self.0[0] == libc::SIG_DFL as u64
    }

    pub(crate) fn is_ignored(self) -> bool {
        self.0[0] == libc::SIG_IGN as u64
    }

    pub(crate) fn lasts_once(self) -> bool {
        self.0[1] & libc::SA_RESETHAND as u64 != 0
    }
}

/// The actions of SIGTRAP and SIGSEGV in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dispositions {
    trap: Action,
    fault: Action,
}

impl Dispositions {
    /// Those of a program that was just executed: `ignored` has the bits of the signals that it inherited as ignored.
    pub fn inherited(ignored: u64) -> Self {
        let of = |signal| if ignored & bit(signal) != 0 { IGNORED } else { Action::default() };
        Dispositions { trap: of(libc::SIGTRAP), fault: of(libc::SIGSEGV) }
    }

    /// Those of a running process: the actions of SIGTRAP and SIGSEGV.
    pub fn of_running(trap: Action, fault: Action) -> Self {
        Dispositions { trap, fault }
    }

    /// The bits of the signals that are ignored.
    pub fn ignored(mut self) -> u64 {
        let is_ignored = |signal: &i32| self.of(*signal).is_some_and(|action| action.is_ignored());
        RAISED_BY_US.into_iter().filter(is_ignored).map(bit).sum()
    }

    pub(crate) fn of(&mut self, signal: i32) -> Option<&mut Action> {
        match signal {
            libc::SIGTRAP => Some(&mut self.trap),
            libc::SIGSEGV => Some(&mut self.fault),
            _ => None,
        }
    }
}

/// The signals that traps of rprof's raise, too.
pub const RAISED_BY_US: [i32; 2] = [libc::SIGTRAP, libc::SIGSEGV];

/// The effect of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalEffect {
    /// Its default action.
    Default,
    /// Nothing.
    Ignored,
    /// A handler is called.
    Caught,
}

impl SignalEffect {
    /// Whether the kernel drops `signal`, with this effect, at once if no tracer is to see it.
    pub fn drops(self, signal: i32) -> bool {
        match self {
            SignalEffect::Default => matches!(signal, libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH),
            SignalEffect::Ignored => true,
            SignalEffect::Caught => false,
        }
    }
}
