//! Filters of system calls (seccomp): a filter's answer to a call, and whether it would let a call of rprof's pass.
//!
//! A filter is a classic BPF program over the number, the address and the arguments of a call (`struct seccomp_data`). The address
//! of a translated call is not the program's own, so a filter that reads it cannot be followed. A filter stays for ever, and rprof
//! must not make a call in the program's name that it forbids: the call might end the program.

use std::sync::Arc;

use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;

/// Most instructions in a filter (`BPF_MAXINSNS`).
const LONGEST: u16 = 4096;
/// `AUDIT_ARCH_X86_64`
const ARCH: u32 = 0xc000_003e;
/// Bytes of `struct seccomp_data` that hold the address of the call.
const ADDRESS: std::ops::Range<u32> = 8..16;
/// Size of `struct seccomp_data`.
const DATA: u32 = 64;
/// Classes and modes of classic BPF (`linux/bpf_common.h`).
mod bpf {
    pub const LD_ABSOLUTE: u16 = 0x20;
    pub const RETURN: u16 = 0x06;
    pub const RETURN_A: u16 = 0x16;
    pub const CLASS: u16 = 0x07;
    pub const MODE: u16 = 0xe0;
    pub const SOURCE_X: u16 = 0x08;
}

/// One instruction (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    k: u32,
}

/// A system call that rprof is about to make in the program's name.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Its name, for messages.
    pub name: &'static str,
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// `SECCOMP_MODE_STRICT`: read, write, exit and sigreturn only.
    Strict,
    /// A program.
    Program(Program),
}

/// A filter's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(Vec<Step>);

/// The filters of a process, from the first to the last.
#[derive(Debug, Clone, Default)]
pub struct Filters(Vec<Arc<Filter>>);

impl Filters {
    /// The process installs one more.
    pub fn add(&mut self, filter: Filter) {
        self.0.push(Arc::new(filter));
    }

    /// The first of `calls` that one of the filters does not let pass.
    pub fn forbidden<'c>(&self, calls: impl IntoIterator<Item = &'c Call>) -> Option<&'c Call> {
        calls.into_iter().find(|call| self.0.iter().any(|filter| !filter.lets_pass(call)))
    }
}

impl Filter {
    /// The program that `struct sock_fprog` at `at` describes; `None` if the kernel could not read it, either.
    pub fn read(memory: &Memory, at: Address) -> Option<Filter> {
        let mut head = [0; 16];
        memory.read(at, &mut head).ok()?;
        let length = u16::from_le_bytes([head[0], head[1]]);
        let steps = u64::from_le_bytes(head[8..16].try_into().ok()?);
        if length == 0 || length > LONGEST {
            return None;
        }
        let mut bytes = vec![0; 8 * usize::from(length)];
        memory.read(Address::new(steps), &mut bytes).ok()?;
        let step = |b: &[u8]| Step {
            code: u16::from_le_bytes([b[0], b[1]]),
            jump_true: b[2],
            jump_false: b[3],
            k: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        };
        Some(Filter::Program(Program(bytes.chunks_exact(8).map(step).collect())))
    }

    /// Whether it depends on the address of the call.
    pub fn reads_address(&self) -> bool {
        match self {
            Filter::Strict => false,
            Filter::Program(Program(steps)) => {
                steps.iter().any(|s| s.code == bpf::LD_ABSOLUTE && ADDRESS.contains(&s.k))
            }
        }
    }

    fn lets_pass(&self, call: &Call) -> bool {
        match self {
            Filter::Strict => {
                matches!(call.number, libc::SYS_read | libc::SYS_write | libc::SYS_exit | libc::SYS_rt_sigreturn)
            }
            Filter::Program(program) => {
                matches!(program.verdict(call), Some(libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG))
            }
        }
    }
}

impl Program {
    /// The action that it returns for `call`; `None` if it is no valid filter.
    fn verdict(&self, call: &Call) -> Option<u32> {
        let (mut a, mut x, mut kept) = (0u32, 0u32, [0u32; 16]);
        let mut at = 0;
        loop {
            let &Step { code, jump_true, jump_false, k } = self.0.get(at)?;
            at += 1;
            let operand = if code & bpf::SOURCE_X != 0 { x } else { k };
            // Loads: a word of the data, a constant, a kept value, the size of the data.
            let loaded = || match code & bpf::MODE {
                0x00 => Some(k),
                0x20 => word(call, k),
                0x60 => kept.get(k as usize).copied(),
                0x80 => Some(DATA),
                _ => None,
            };
            match code & bpf::CLASS {
                0 => a = loaded()?,
                1 => x = loaded()?,
                2 => *kept.get_mut(k as usize)? = a,
                3 => *kept.get_mut(k as usize)? = x,
                4 => a = calculate(code, a, operand)?,
                5 if code & 0xf0 == 0 => at += k as usize,
                5 => {
                    let holds = match code & 0xf0 {
                        0x10 => a == operand,
                        0x20 => a > operand,
                        0x30 => a >= operand,
                        0x40 => a & operand != 0,
                        _ => return None,
                    };
                    at += usize::from(if holds { jump_true } else { jump_false });
                }
                6 => {
                    let value = if code == bpf::RETURN_A { a } else { k };
                    return (code == bpf::RETURN || code == bpf::RETURN_A)
                        .then_some(value & libc::SECCOMP_RET_ACTION_FULL);
                }
                _ if code & 0xf8 == 0x80 => a = x,
                _ => x = a,
            }
        }
    }
}

/// The word at byte `at` of the `struct seccomp_data` of `call`, with 0 as its instruction pointer.
fn word(call: &Call, at: u32) -> Option<u32> {
    let half = |value: u64| if at & 4 == 0 { value as u32 } else { (value >> 32) as u32 };
    match at {
        0 => Some(call.number as u32),
        4 => Some(ARCH),
        8 | 12 => Some(0),
        _ if at < DATA && at.is_multiple_of(4) => Some(half(call.arguments[(at as usize - 16) / 8])),
        _ => None,
    }
}

fn calculate(code: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match code & 0xf0 {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.checked_shl(operand).unwrap_or(0),
        0x70 => a.checked_shr(operand).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ operand,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Step {
        Step { code, jump_true, jump_false, k }
    }

    fn call(number: i64, arguments: [u64; 6]) -> Call {
        Call { name: "", number, arguments }
    }

    /// Allows `write`, and `mprotect` without PROT_EXEC.
    fn filter() -> Filter {
        Filter::Program(Program(vec![
            step(0x20, 0, 0, 0),
            step(0x15, 3, 0, libc::SYS_write as u32),
            step(0x15, 0, 3, libc::SYS_mprotect as u32),
            step(0x20, 0, 0, 32),
            step(0x45, 1, 0, libc::PROT_EXEC as u32),
            step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
            step(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | 1),
        ]))
    }

    #[test]
    fn a_filter_decides_by_number_and_argument() {
        let read = call(libc::SYS_mprotect, [4096, 4096, libc::PROT_READ as u64, 0, 0, 0]);
        let execute = call(libc::SYS_mprotect, [4096, 4096, libc::PROT_EXEC as u64, 0, 0, 0]);
        let (write, mmap) = (call(libc::SYS_write, [0; 6]), call(libc::SYS_mmap, [0; 6]));
        let mut filters = Filters::default();
        assert!(filters.forbidden([&execute, &mmap]).is_none());
        filters.add(filter());
        assert!(filters.forbidden([&write, &read]).is_none());
        assert_eq!(filters.forbidden([&read, &execute]).map(|c| c.arguments[2]), Some(libc::PROT_EXEC as u64));
        assert!(filters.forbidden([&mmap]).is_some());
        filters.add(Filter::Strict);
        assert!(filters.forbidden([&read]).is_some() && filters.forbidden([&write]).is_none());
    }

    #[test]
    fn only_a_filter_that_loads_the_address_depends_on_it() {
        assert!(!filter().reads_address() && !Filter::Strict.reads_address());
        for at in ADDRESS.step_by(4) {
            assert!(Filter::Program(Program(vec![step(0x20, 0, 0, at), step(0x16, 0, 0, 0)])).reads_address());
        }
    }

    #[test]
    fn a_program_that_runs_over_its_end_allows_nothing() {
        let endless = Filter::Program(Program(vec![step(0x20, 0, 0, 0)]));
        assert!(!endless.lets_pass(&call(libc::SYS_write, [0; 6])));
        let calculated = [step(0x00, 0, 0, 0x7fff_0000), step(0x07, 0, 0, 0), step(0x04, 0, 0, 0), step(0x0c, 0, 0, 0)];
        let halves = [step(0x34, 0, 0, 2), step(0x16, 0, 0, 0)];
        let program = Program(calculated.into_iter().chain(halves).collect());
        assert_eq!(program.verdict(&call(1, [0; 6])), Some(libc::SECCOMP_RET_ALLOW));
    }
}
