//! Room for open events: one descriptor an event and CPU soon passes the usual limit of 1024.

use libc::{RLIMIT_NOFILE, rlimit};

use crate::refusal::Refusal;

/// Descriptors reserved for the rest of this process while the program runs.
const OTHERS: u64 = 32;

/// The raised limit of open files; dropped, it is as before. Programs that were started before do not see it.
#[derive(Debug)]
pub struct Descriptors {
    before: Option<rlimit>,
}

impl Descriptors {
    /// Makes room for `wanted` descriptors beside those that are open.
    ///
    /// # Errors
    /// The hard limit does not allow it: the program's sampler would run out of them, too.
    pub fn room_for(wanted: u64) -> Result<Descriptors, Refusal> {
        let (open, before) = (open_now(), limit());
        let least = open + wanted + OTHERS;
        if before.rlim_cur >= least {
            return Ok(Descriptors { before: None });
        }
        shortage(wanted, open, before.rlim_max)?;
        let raised = set(rlimit { rlim_cur: least, ..before });
        raised.then_some(Descriptors { before: Some(before) }).ok_or(Refusal::OutOfDescriptors)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set(before);
        }
    }
}

/// Whether `wanted` more descriptors fit beside the `open` ones below a limit of `most`.
///
/// # Errors
/// They do not fit: how many are wanted, how many are free, and the limit that would be enough.
fn shortage(wanted: u64, open: u64, most: u64) -> Result<(), Refusal> {
    let (free, least) = (most.saturating_sub(open + OTHERS), open + wanted + OTHERS);
    if most >= least { Ok(()) } else { Err(Refusal::TooFewDescriptors { wanted, free, least }) }
}

/// Whether this process could open `wanted` more descriptors; the answer is the most that it may open.
///
/// # Errors
/// As [`Descriptors::room_for`].
pub fn would_fit(wanted: u64) -> Result<u64, Refusal> {
    let most = limit().rlim_max;
    shortage(wanted, open_now(), most).map(|()| most)
}

/// Descriptors that this process holds; 0 if proc is not mounted.
fn open_now() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |fds| fds.count() as u64)
}

/// If the kernel does not report it, there is none.
fn limit() -> rlimit {
    let mut now = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills a live variable.
    match unsafe { libc::getrlimit(RLIMIT_NOFILE, &raw mut now) } {
        0 => now,
        _ => rlimit { rlim_cur: u64::MAX, rlim_max: u64::MAX },
    }
}

fn set(to: rlimit) -> bool {
    // SAFETY: reads a live variable.
    unsafe { libc::setrlimit(RLIMIT_NOFILE, &raw const to) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_and_what_is_wanted_is_reserved_and_a_little_more() {
        assert_eq!(shortage(100, 20, 20 + 100 + OTHERS), Ok(()));
        let refusal = shortage(100, 20, 20 + 99 + OTHERS).unwrap_err();
        let least = 20 + 100 + OTHERS;
        assert_eq!(refusal, Refusal::TooFewDescriptors { wanted: 100, free: 99, least });
        assert_eq!(
            refusal.to_string(),
            format!(
                "the counters need 100 more open files and the limit leaves 99: raise the hard limit (as root: ulimit -n \
                 {least})"
            )
        );
        assert!(shortage(1, 20, 10).unwrap_err().to_string().contains("leaves 0"));
        assert!(would_fit(1).is_ok());
        assert_eq!(would_fit(u64::MAX / 2).is_err(), limit().rlim_max < u64::MAX / 2);
    }
}
