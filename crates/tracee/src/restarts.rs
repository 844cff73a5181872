//! System calls that a stop interrupted: the program's own instruction repeats them, instead of the kernel stepping back in the
//! cache.

use super::proc_status::read_status;
use super::thread::{Registers, Stopped};

/// `syscall`
const SYSCALL_SIZE: u64 = 2;
/// Internal kernel results for a system call that the kernel restarts unchanged.
const RESTART: [i64; 3] = [-512, -513, -514];
/// The same for one that the kernel restarts as `restart_syscall`.
const RESTART_BLOCK: i64 = -516;
/// Calls that end with EINTR when a tracer stops their thread (signal(7), "Interruption of system calls and library functions by
/// stop signals"), and calls that do so on descriptors with a time limit. Each has done nothing by then.
const ENDED_BY_STOPS: [i64; 22] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept4,
    libc::SYS_accept,
    libc::SYS_readv,
    libc::SYS_recvmmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_splice,
];

/// Whether a stop would end this system call, which would have to begin again, with all of its time limit.
pub fn is_ended_by_stops(call: i64) -> bool {
    ENDED_BY_STOPS.contains(&call)
}

/// Whether the thread was stopped in a system call that is to be restarted, or that the stop has ended.
pub fn is_interrupted(registers: &Registers) -> bool {
    let result = registers.rax as i64;
    (registers.orig_rax as i64) >= 0
        && (RESTART.contains(&result) || result == RESTART_BLOCK || is_ended_by_stop(registers))
}

/// Whether the stop has ended the thread's system call: the program must not see that.
pub fn is_ended_by_stop(registers: &Registers) -> bool {
    registers.rax as i64 == i64::from(-libc::EINTR) && ENDED_BY_STOPS.contains(&(registers.orig_rax as i64))
}

/// Whether a thread right after a system call has moved no bytes in it, or will repeat it.
pub fn ended_without_bytes(registers: &Registers) -> bool {
    (-4095..=0).contains(&(registers.rax as i64))
}

/// Makes the program's own instruction repeat an interrupted system call.
pub fn restart_call(registers: &mut Registers) {
    let (result, call) = (registers.rax as i64, registers.orig_rax);
    if (call as i64) < 0 {
        return;
    }
    if RESTART.contains(&result) {
        registers.rax = call;
    } else if result == RESTART_BLOCK {
        registers.rax = libc::SYS_restart_syscall as u64;
    } else {
        return;
    }
    step_back(registers);
}

/// Makes the program repeat a system call that a stop has ended.
pub fn repeat_ended_call(registers: &mut Registers) {
    if is_ended_by_stop(registers) {
        registers.rax = registers.orig_rax;
        step_back(registers);
    }
}

/// Makes a thread repeat its system call that a stop has just ended, unless a signal waits that may have ended it, too.
pub fn keep_call(stopped: &Stopped) {
    let Ok(mut registers) = stopped.registers() else { return };
    if is_ended_by_stop(&registers) && !read_status(stopped.tid()).is_ok_and(|s| s.is_about_to_be_signalled()) {
        repeat_ended_call(&mut registers);
        // If it is gone, nothing is left to repeat.
        let _ = stopped.set_registers(&registers);
    }
}

fn step_back(registers: &mut Registers) {
    registers.rip -= SYSCALL_SIZE;
    registers.orig_rax = u64::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped_in(call: i64, result: i64) -> Registers {
        // SAFETY: registers of zeroes are valid.
        let zeroes: Registers = unsafe { std::mem::zeroed() };
        Registers { rip: 0x1002, rax: result as u64, orig_rax: call as u64, ..zeroes }
    }

    #[test]
    fn interrupted_calls_are_repeated_and_finished_ones_are_not() {
        let after = |call, result| {
            let mut registers = stopped_in(call, result);
            restart_call(&mut registers);
            repeat_ended_call(&mut registers);
            (registers.rip, registers.rax as i64)
        };
        assert_eq!(after(libc::SYS_read, -512), (0x1000, libc::SYS_read));
        assert_eq!(after(libc::SYS_nanosleep, -516), (0x1000, libc::SYS_restart_syscall));
        assert_eq!(after(libc::SYS_epoll_wait, -4), (0x1000, libc::SYS_epoll_wait));
        assert_eq!(after(libc::SYS_close, -4), (0x1002, -4), "its descriptor is closed");
        assert_eq!(after(libc::SYS_read, 7), (0x1002, 7));
        assert_eq!(after(-1, -512), (0x1002, -512), "no system call");
    }
}
