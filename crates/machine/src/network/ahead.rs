//! Measures ahead of other work, if this user may: a ceiling is what the network can do, not what other programs leave of it.

use crate::harness::priority::Priority;

/// The nice value of ranks that share CPUs.
const NICE: libc::c_int = -10;

/// While it lives, the calling thread and the process of its rank come before others.
pub struct Ahead {
    _own: Option<Priority>,
    before: libc::c_int,
}

impl Ahead {
    /// Asks for it for this thread and for the process `pid`: in a real-time class; or, if ranks that spin while they wait have to take
    /// turns on too few CPUs (`takes_turns`), by a nice value. If that is refused (ordinary users), nothing changes.
    pub fn of_others(pid: u32, takes_turns: bool) -> Ahead {
        // SAFETY: queries the nice value of the calling thread.
        let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        if takes_turns {
            if before > NICE {
                // SAFETY: changes the nice values of the calling thread and of a child; a refusal is no error here.
                unsafe {
                    libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
                    libc::setpriority(libc::PRIO_PROCESS, pid, NICE);
                }
            }
            return Ahead { _own: None, before };
        }
        let own = Priority::raise();
        if own.granted() {
            // SAFETY: copies the scheduling of the calling thread to a child; the structure is plain data.
            unsafe {
                let mut param: libc::sched_param = std::mem::zeroed();
                if libc::sched_getparam(0, &mut param) == 0 {
                    libc::sched_setscheduler(pid as libc::pid_t, libc::sched_getscheduler(0), &param);
                }
            }
        }
        Ahead { _own: Some(own), before }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // SAFETY: restores the nice value of the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.before) };
    }
}
