//! How a counted run uses the time: looks at clocks, and calls that set timers or wait until a time.

use iced_x86::{Code, Decoder, DecoderOptions};

use rprof_isa::x86_64::system_call;
use rprof_profile::evidence::counted::CountedEvidence;

/// Calls that return the time.
const CLOCKS: [i64; 5] =
    [libc::SYS_clock_gettime, libc::SYS_gettimeofday, libc::SYS_time, libc::SYS_times, libc::SYS_getrusage];
/// Calls after which a time passes, or a signal or an event comes at a time.
const TIMERS: [i64; 6] = [
    libc::SYS_alarm,
    libc::SYS_setitimer,
    libc::SYS_timer_settime,
    libc::SYS_timerfd_settime,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
];
/// A program that takes its own time looks at the clock less often than this.
const OFTEN: u64 = 10;

/// Executions that concern the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeUse {
    /// Looks at a clock: reads of the time stamp counter, which the C library makes for most looks, and system calls.
    pub looks: u64,
    /// Calls that set a timer, or wait.
    pub timers: u64,
}

impl TimeUse {
    /// In the run that `counted` counts.
    pub fn of(counted: &CountedEvidence) -> Self {
        let mut time_use = TimeUse::default();
        for block in &counted.blocks {
            let executions: u64 = block.executions.iter().map(|(_, n)| n).sum();
            let instructions: Vec<_> = Decoder::with_ip(64, &block.code, 0, DecoderOptions::NONE).into_iter().collect();
            let reads = instructions.iter().filter(|i| matches!(i.code(), Code::Rdtsc | Code::Rdtscp)).count();
            time_use.looks += reads as u64 * executions;
            let Some((_, before)) = instructions.split_last().filter(|(last, _)| last.code() == Code::Syscall) else {
                continue;
            };
            let told = block.calls.iter().map(|call| (call.number, call.count));
            let constant = system_call::number(before.iter()).filter(|_| block.calls.is_empty());
            for (number, count) in told.chain(constant.map(|number| (number, executions))) {
                if CLOCKS.contains(&i64::from(number)) {
                    time_use.looks += count;
                } else if TIMERS.contains(&i64::from(number)) {
                    time_use.timers += count;
                }
            }
        }
        time_use
    }

    /// Whether the amount of work may depend on it.
    pub fn may_decide(self) -> bool {
        self.looks >= OFTEN || self.timers > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::code::CodeRef;
    use rprof_profile::evidence::blocks::{BlockCount, CallCount};

    #[test]
    fn clocks_and_timers_are_seen_in_the_code() {
        let block = |code: &[u8], n: u64, calls: &[(u32, u64)]| BlockCount {
            at: CodeRef { module: 0, offset: 0 },
            code: code.to_vec(),
            executions: vec![(0, n)],
            dynamic: Vec::new(),
            calls: calls.iter().map(|&(number, count)| CallCount { number, count }).collect(),
        };
        let blocks = vec![
            // rdtsc; ret
            block(&[0x0f, 0x31, 0xc3], 7, &[]),
            // mov eax, 35 (nanosleep); syscall
            block(&[0xb8, 35, 0, 0, 0, 0x0f, 0x05], 2, &[]),
            // syscall, by number: 3 looks, 1 alarm, 9 others
            block(&[0x0f, 0x05], 13, &[(228, 3), (37, 1), (0, 9)]),
        ];
        let time_use = TimeUse::of(&CountedEvidence { blocks, ..CountedEvidence::default() });
        assert_eq!(time_use, TimeUse { looks: 10, timers: 3 });
        assert!(time_use.may_decide() && !TimeUse { looks: 9, timers: 0 }.may_decide());
    }
}
