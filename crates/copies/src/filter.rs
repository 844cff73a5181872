//! The seccomp filter of a copy: harmless system calls run at once, all others stop for rprof.
//!
//! ```text
//!  another architecture ─▶ killed      in HARMLESS ─▶ runs
//!  mmap without MAP_SHARED ─▶ runs     all others  ─▶ PTRACE_EVENT_SECCOMP, see calls
//! ```

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_TRACE, sock_filter,
};

/// `AUDIT_ARCH_X86_64`
const ARCHITECTURE: u32 = 0xc000_003e;
/// Numbers of the x32 ABI begin here.
const X32: u32 = 0x4000_0000;
/// Offsets in `seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FLAGS_OF_MMAP: u32 = 16 + 3 * 8;

/// Calls that concern the copy alone, or only ask.
const HARMLESS: [i64; 53] = [
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_getcwd,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_getpriority,
    libc::SYS_getrlimit,
    libc::SYS_get_mempolicy,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_restart_syscall,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_statx,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_close,
];

/// The filter's program.
pub fn program() -> Vec<sock_filter> {
    let harmless = HARMLESS.len();
    let mut program = vec![
        load(ARCH),
        jump(BPF_JEQ, ARCHITECTURE, 1, 0),
        end(SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        // To "traced" behind the list; 5 further instructions and the list lie between.
        jump(BPF_JGE, X32, harmless as u8 + 3, 0),
        jump(BPF_JEQ, libc::SYS_mmap as u32, 0, 2),
        load(FLAGS_OF_MMAP),
        jump(BPF_JSET, libc::MAP_SHARED as u32, harmless as u8, harmless as u8 + 1),
    ];
    for (at, number) in HARMLESS.into_iter().enumerate() {
        // To "allowed", the last instruction; "traced" is before it.
        program.push(jump(BPF_JEQ, number as u32, (harmless - at) as u8, 0));
    }
    program.push(end(SECCOMP_RET_TRACE));
    program.push(end(SECCOMP_RET_ALLOW));
    program
}

fn load(offset: u32) -> sock_filter {
    sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
}

fn jump(kind: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | kind | BPF_K) as u16, jt, jf, k }
}

fn end(action: u32) -> sock_filter {
    sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: action }
}

/// The program's bytes as the kernel reads them.
pub fn bytes(program: &[sock_filter]) -> Vec<u8> {
    let bytes = |f: &sock_filter| {
        let mut out = [0u8; 8];
        out[..2].copy_from_slice(&f.code.to_le_bytes());
        (out[2], out[3]) = (f.jt, f.jf);
        out[4..].copy_from_slice(&f.k.to_le_bytes());
        out
    };
    program.iter().flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter answers to call `number` of this architecture with mmap's `flags`.
    fn answer(architecture: u32, number: u32, flags: u32) -> u32 {
        let program = program();
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let f = program[at];
            at += 1;
            match u32::from(f.code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    accumulator = match f.k {
                        NUMBER => number,
                        ARCH => architecture,
                        _ => flags,
                    }
                }
                code if code == BPF_RET | BPF_K => return f.k,
                code => {
                    let holds = match code & 0xf0 {
                        BPF_JEQ => accumulator == f.k,
                        BPF_JGE => accumulator >= f.k,
                        _ => accumulator & f.k != 0,
                    };
                    at += usize::from(if holds { f.jt } else { f.jf });
                }
            }
        }
    }

    #[test]
    fn harmless_calls_run_and_others_stop() {
        let of = |number: i64| answer(ARCHITECTURE, number as u32, 0);
        assert!(HARMLESS.iter().all(|number| of(*number) == SECCOMP_RET_ALLOW));
        for number in [libc::SYS_write, libc::SYS_read, libc::SYS_openat, libc::SYS_kill, libc::SYS_clone, 511] {
            assert_eq!(of(number), SECCOMP_RET_TRACE, "{number}");
        }
        assert_eq!(answer(ARCHITECTURE, libc::SYS_mmap as u32, libc::MAP_PRIVATE as u32), SECCOMP_RET_ALLOW);
        assert_eq!(answer(ARCHITECTURE, libc::SYS_mmap as u32, libc::MAP_SHARED as u32), SECCOMP_RET_TRACE);
        assert_eq!(answer(ARCHITECTURE, X32 + libc::SYS_brk as u32, 0), SECCOMP_RET_TRACE);
        assert_eq!(answer(0x4000_0003, libc::SYS_brk as u32, 0), SECCOMP_RET_KILL_PROCESS);
    }
}
