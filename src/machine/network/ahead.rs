//! Measures ahead of other work, where this user may. The ranks stay in the usual class of scheduling: libraries wait by spinning, and in
//! a real-time class they would keep the kernel's own threads from moving their messages.

/// The nice value of a rank.
const NICE: libc::c_int = -10;

/// While it lives, the calling thread, and processes that it starts, come before others.
#[derive(Debug)]
pub struct Ahead {
    before: libc::c_int,
}

impl Ahead {
    /// Asks for it. Where that is refused (ordinary users), nothing changes.
    pub fn of_others() -> Ahead {
        // SAFETY: queries and changes the nice value of the calling thread.
        unsafe {
            let before = libc::getpriority(libc::PRIO_PROCESS, 0);
            if before > NICE {
                libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
            }
            Ahead { before }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // SAFETY: restores the nice value of the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.before) };
    }
}
