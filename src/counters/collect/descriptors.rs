//! Room for open events: one descriptor an event and CPU soon passes the usual limit of 1024.

use libc::{RLIMIT_NOFILE, rlimit};

/// Descriptors that are left to everything else in this process.
const OTHERS: u64 = 256;

/// The raised limit of open files; dropped, it is as before. Programs that were started before do not see it.
#[derive(Debug)]
pub struct Descriptors {
    before: Option<rlimit>,
}

impl Descriptors {
    /// Makes room for `wanted` more descriptors. `None` if the hard limit does not allow it, for then the program's
    /// sampler, too, would run out of them.
    pub fn room_for(wanted: u64) -> Option<Descriptors> {
        let before = limit()?;
        if before.rlim_cur >= wanted + OTHERS {
            return Some(Descriptors { before: None });
        }
        if before.rlim_max < wanted + OTHERS {
            return None;
        }
        set(rlimit { rlim_cur: wanted + OTHERS, ..before }).then_some(Descriptors { before: Some(before) })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set(before);
        }
    }
}

fn limit() -> Option<rlimit> {
    let mut now = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills a live variable.
    (unsafe { libc::getrlimit(RLIMIT_NOFILE, &raw mut now) } == 0).then_some(now)
}

fn set(to: rlimit) -> bool {
    // SAFETY: reads a live variable.
    unsafe { libc::setrlimit(RLIMIT_NOFILE, &raw const to) == 0 }
}
