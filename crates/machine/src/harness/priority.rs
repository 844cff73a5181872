//! Runs measurements ahead of other work, if this user may: a ceiling is the machine's full capacity, not its momentary rest.

/// Raises the calling thread, and the threads that it starts, to round-robin real-time scheduling until it is dropped.
/// If that is refused (ordinary users), nothing changes.
#[derive(Debug)]
pub struct Priority {
    before: Option<(libc::c_int, libc::sched_param)>,
}

impl Priority {
    /// Asks for it.
    pub fn raise() -> Self {
        // SAFETY: queries and changes the scheduling of the calling thread alone; the structures are plain data.
        unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            let policy = libc::sched_getscheduler(0);
            if policy < 0 || libc::sched_getparam(0, &mut param) != 0 {
                return Priority { before: None };
            }
            let mut raised = param;
            raised.sched_priority = 1;
            let granted = libc::sched_setscheduler(0, libc::SCHED_RR, &raised) == 0;
            Priority { before: granted.then_some((policy, param)) }
        }
    }

    /// Whether it was granted.
    pub fn granted(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some((policy, param)) = self.before {
            // SAFETY: restores the policy that `raise` replaced, for the calling thread alone.
            unsafe { libc::sched_setscheduler(0, policy, &param) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_comes_back() {
        // SAFETY: queries the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        let raised = Priority::raise();
        if raised.granted() {
            assert_eq!(policy(), libc::SCHED_RR);
        } else {
            println!("SKIPPED: root: real-time scheduling is not granted here");
        }
        drop(raised);
        assert_eq!(policy(), before);
    }
}
