//! Reports the place of a fault that ended a process, so that the user can compare it with the program's end without
//! rprof.

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::translator::kernel::program_state::{State, is_fault};
use crate::translator::kernel::signal_bits::SI_KERNEL;
use rprof_profile::run::Warning;
use rprof_tracee::address::Address;
use rprof_tracee::maps::read_maps;
use rprof_tracee::proc_status::read_name;
use rprof_tracee::thread::SignalInfo;

/// Most crashes reported in one run; further ones add no information.
const MOST: usize = 4;

/// Code of the warning that a fault ended a process.
pub const CODE: &str = "crashed";

/// Warns that `signal` is about to end the process of `tid`; `state` is the program's state at its program counter
/// `at`.
pub(crate) fn note_crash(
    warnings: &mut Vec<Warning>,
    tid: Pid,
    (signal, info): (i32, &SignalInfo),
    state: &State,
    at: Address,
) {
    if !is_fault(signal, info) || warnings.iter().filter(|w| w.code == CODE).count() >= MOST {
        return;
    }
    let name = read_name(tid).unwrap_or_default();
    let signal_name = Signal::try_from(signal).map_or("a signal", Signal::as_str);
    let place = match state {
        State::Between | State::Continued => "in code of rprof's own".to_owned(),
        State::Program | State::Outside => format!("at {}", place(tid, at)),
    };
    // The message leaves out a non-canonical address.
    let access = match (signal, info.si_code) {
        // SAFETY: these signals' siginfo holds an address.
        (libc::SIGSEGV | libc::SIGBUS, 1..SI_KERNEL) => {
            format!(", on an access to {:#x}", unsafe { info.si_addr() } as u64)
        }
        _ => String::new(),
    };
    warnings.push(Warning::new(
        CODE,
        format!("process {tid} ({name}) was ended by {signal_name} {place}{access}"),
        "work after that point is not counted",
        "run it without rprof; if it does not end there, report this line",
    ));
}

/// `at` as a file and the offset in it.
fn place(tid: Pid, at: Address) -> String {
    let maps = read_maps(tid).unwrap_or_default();
    match maps.iter().find(|m| m.contains(at) && !m.path.is_empty()) {
        Some(m) => {
            let file = m.path.rsplit('/').next().unwrap_or_default();
            format!("{file}+{:#x}", at - m.start + m.offset.get())
        }
        None => format!("{:#x}", at.get()),
    }
}
