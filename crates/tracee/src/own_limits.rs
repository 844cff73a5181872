//! Limits meant for the program that would end rprof, or limit the files and memory that it writes and maps. rprof lifts them
//! for itself as far as it may, while a child that is about to execute the program gets the original limits.

use std::mem::zeroed;
use std::sync::OnceLock;
use std::time::Duration;

use libc::{RLIM_INFINITY, RLIMIT_AS, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE, rlimit};

/// Sizes of files, address space, data; CPU time.
const LIFTED: [libc::__rlimit_resource_t; 4] = [RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_CPU];

static GIVEN: OnceLock<Given> = OnceLock::new();

/// The limits that rprof was started with.
struct Given {
    /// In the order of `LIFTED`.
    limits: [rlimit; LIFTED.len()],
    /// SIGXFSZ, which a write beyond the limit raises, was ignored.
    ignored: bool,
}

/// Raises our own limit on open descriptors as far as we may: events of many threads take one each on every CPU.
pub fn open_descriptors() {
    let limit = get(libc::RLIMIT_NOFILE);
    // With fewer, the kernel refuses the last ones.
    let _ = set(libc::RLIMIT_NOFILE, &rlimit { rlim_cur: limit.rlim_max, ..limit });
}

/// Raises our soft limits to the hard ones, and lifts these if we have the right to. From now on the kernel refuses a write
/// that is still too large for a file with EFBIG, instead of a signal that ends us.
pub fn lift() {
    GIVEN.get_or_init(|| {
        let limits = LIFTED.map(get);
        for (resource, limit) in LIFTED.into_iter().zip(&limits) {
            let highest = [RLIM_INFINITY, limit.rlim_max];
            // The last one is allowed to everybody.
            let _ = highest.into_iter().any(|most| set(resource, &rlimit { rlim_cur: most, rlim_max: most }));
        }
        // SAFETY: ignoring a signal needs no handler; the result is the action before.
        let ignored = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_IGN;
        Given { limits, ignored }
    });
}

/// Undoes [`lift`]; for a child that is about to `execve`. Async-signal-safe.
pub fn restore() {
    let Some(given) = GIVEN.get() else { return };
    for (resource, limit) in LIFTED.into_iter().zip(&given.limits) {
        set(resource, limit);
    }
    if !given.ignored {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
}

/// Bytes of address space that we have, if [`lift`] could not do more.
pub fn own_address_space() -> u64 {
    get(RLIMIT_AS).rlim_cur
}

/// CPU time after which the kernel ends each of our processes, if [`lift`] could not do more; `None`: never.
pub fn own_cpu_limit() -> Option<Duration> {
    let limit = get(RLIMIT_CPU).rlim_cur;
    (limit != RLIM_INFINITY).then(|| Duration::from_secs(limit))
}

/// Bytes of address space that we, and the program, were started with the right to.
pub fn address_space() -> u64 {
    let given = GIVEN.get().and_then(|g| LIFTED.iter().zip(g.limits).find(|(r, _)| **r == RLIMIT_AS));
    given.map_or_else(|| get(RLIMIT_AS), |(_, limit)| limit).rlim_cur
}

fn get(resource: libc::__rlimit_resource_t) -> rlimit {
    // SAFETY: an rlimit of zeroes is valid; the kernel fills it, and knows all the resources that are asked for.
    unsafe {
        let mut now: rlimit = zeroed();
        libc::getrlimit(resource, &raw mut now);
        now
    }
}

fn set(resource: libc::__rlimit_resource_t, to: &rlimit) -> bool {
    // SAFETY: reads a live variable.
    unsafe { libc::setrlimit(resource, to) == 0 }
}
