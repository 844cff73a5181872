//! Distinguishes waiting from work: barriers and locks by name, spin loops by structure.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use rprof_isa::x86_64::classify;
use rprof_isa::x86_64::dataflow::GENERAL_CHANGED_BY_CALLS;

/// The reason for which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For the other threads of its team.
    Barrier,
    /// For its turn, or for another thread to wake it.
    Lock,
    /// In a function of MPI: for other ranks, and for the transfer.
    Ranks,
}

/// Number of frames from the leaf in which a waiting function's name counts: it may have called `syscall` or `sched_yield`.
pub const FRAMES: usize = 3;

/// Spin loops are small; a larger loop with a `pause` also does other work.
const LARGEST_SPIN: usize = 32;

/// Those of run-time libraries look at a dozen settings in each round.
const LARGEST_SPIN_WITH_CALLS: usize = 256;

/// Bytes of a function that only looks something up: it has no more instructions than a spin loop.
pub const LARGEST_LOOKER: u64 = 15 * LARGEST_SPIN as u64;

/// Functions that read the clock: the C library's, the kernel's, OpenMP's, those of C++ and Rust.
const CLOCKS: &[&str] = &[
    "clock_gettime",
    "__clock_gettime",
    "gettimeofday",
    "__gettimeofday",
    "time",
    "__vdso_clock_gettime",
    "__vdso_gettimeofday",
    "__vdso_time",
    "omp_get_wtime",
    "std::chrono::_V2::steady_clock::now()",
    "std::chrono::_V2::system_clock::now()",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
];

/// Names (or beginnings that end in `*`) of functions that wait for a team: GNU, LLVM and Intel OpenMP, pthread, MPI.
const BARRIERS: &[&str] = &[
    "gomp_barrier_wait*",
    "gomp_team_barrier_wait*",
    "gomp_team_barrier_cancel*",
    "gomp_simple_barrier_wait*",
    "GOMP_barrier*",
    "do_spin",
    "do_wait",
    "__kmp_barrier*",
    "__kmp_hyper_barrier*",
    "__kmp_hierarchical_barrier*",
    "__kmp_tree_barrier*",
    "__kmp_linear_barrier*",
    "__kmp_dist_barrier*",
    "__kmp_fork_barrier*",
    "__kmp_join_barrier*",
    "__kmp_wait_*",
    "__kmpc_barrier*",
    "kmp_flag_*",
    "_kmp_flag_*",
    "__kmp_execute_tasks*",
    "__kmp_suspend*",
    "__kmp_launch_worker",
    "pthread_barrier_wait*",
    "__pthread_barrier_wait*",
    "opal_progress*",
    "MPIDI_CH3I_Progress*",
    "ucp_worker_progress*",
];

/// The same for locks, conditions and yielding.
const LOCKS: &[&str] = &[
    "pthread_mutex_lock*",
    "__pthread_mutex_lock*",
    "___pthread_mutex_lock*",
    "__lll_lock_wait*",
    "lll_mutex_lock*",
    "pthread_spin_lock*",
    "__pthread_spin_lock*",
    "pthread_rwlock_rdlock*",
    "pthread_rwlock_wrlock*",
    "pthread_cond_wait*",
    "pthread_cond_timedwait*",
    "__pthread_cond_wait*",
    "__futex_abstimed_wait*",
    "__new_sem_wait*",
    "sem_wait*",
    "sem_timedwait*",
    "omp_set_lock*",
    "omp_set_nest_lock*",
    "GOMP_critical_start*",
    "GOMP_critical_name_start*",
    "GOMP_atomic_start*",
    "gomp_mutex_lock*",
    "gomp_sem_wait*",
    "__kmp_acquire_*",
    "__kmpc_critical*",
    "__kmp_yield*",
    "futex",
    "futex_wait*",
    "futexwait*",
    "sched_yield*",
    "__sched_yield*",
    "std::sys::sync::mutex::futex::Mutex::lock_contended*",
    "std::sys::pal::unix::futex::futex_wait*",
    "parking_lot::raw_mutex::RawMutex::lock_slow*",
    "parking_lot_core::parking_lot::park*",
];

/// Whether the function called `name` gives the CPU to others.
pub fn yields(name: &str) -> bool {
    let name = name.strip_suffix("@plt").unwrap_or(name);
    ["sched_yield", "__sched_yield", "pthread_yield", "thrd_yield"].contains(&name)
}

/// Whether the function called `name` reads the clock.
pub fn reads_the_clock(name: &str) -> bool {
    CLOCKS.contains(&name.strip_suffix("@plt").unwrap_or(name))
}

/// The reason for waiting of the function called `name`, if it waits.
pub fn by_name(name: &str) -> Option<Wait> {
    let name = name.strip_suffix("@plt").unwrap_or(name);
    let among = |list: &[&str]| {
        list.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *pattern,
        })
    };
    if among(BARRIERS) {
        Some(Wait::Barrier)
    } else if among(LOCKS) {
        Some(Wait::Lock)
    } else {
        None
    }
}

/// Whether a loop of these instructions spins: it is small, does no floating-point work, and either pauses or only
/// reads the same memory again until another thread changes it.
pub fn spins<'a>(instructions: impl Iterator<Item = &'a Instruction>) -> bool {
    let body = effective(instructions, LARGEST_SPIN).filter(|body| !has_fp_work(body));
    body.is_some_and(|body| body.iter().any(|i| pauses(i)) || only_polls(&body, |_| false))
}

/// Whether a loop of all these instructions only polls: it is small, changes no memory, and does the same in each round until memory changes or
/// time passes. It may compute with what it finds, and call functions that only look something up: `looks`.
pub fn polls_with_calls<'a>(
    instructions: impl Iterator<Item = &'a Instruction>,
    looks: impl Fn(&Instruction) -> bool,
) -> bool {
    effective(instructions, LARGEST_SPIN).is_some_and(|body| only_polls(&body, looks))
}

/// Whether a loop with these instructions as its usual way spins, calls included: it pauses or yields each time and changes no memory but
/// its own stack, or only to the same constants again. `yields`: whether an instruction calls a function that gives the CPU away.
pub fn spins_with_calls<'a>(
    usual_way: impl Iterator<Item = &'a Instruction>,
    yields: impl Fn(&Instruction) -> bool,
) -> bool {
    let body = effective(usual_way, LARGEST_SPIN_WITH_CALLS).filter(|body| !has_fp_work(body));
    let mut factory = InstructionInfoFactory::new();
    // LLVM's marks its thread as waiting in each round, with the same constant.
    let same_again = |i: &Instruction| i.mnemonic() == Mnemonic::Mov && is_immediate(i);
    body.is_some_and(|body| {
        body.iter().any(|i| pauses(i) || yields(i))
            && body.iter().all(|i| same_again(i) || keeps_memory(&mut factory, i, true))
    })
}

/// Whether a loop of these instructions only lets time pass: it counts in a register, and touches no memory.
pub fn only_counts<'a>(instructions: impl Iterator<Item = &'a Instruction>) -> bool {
    let counts = |i: &&Instruction| match i.flow_control() {
        FlowControl::Next => {
            let in_register = i.op_count() > 0 && i.op0_kind() == OpKind::Register;
            let counts = matches!(i.mnemonic(), Mnemonic::Add | Mnemonic::Sub | Mnemonic::Cmp);
            in_register && (counts && is_immediate(i) || matches!(i.mnemonic(), Mnemonic::Inc | Mnemonic::Dec))
        }
        flow => matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch),
    };
    effective(instructions, LARGEST_SPIN).is_some_and(|body| body.iter().all(counts))
}

/// Whether a function of these instructions, called by a loop that waits, is part of its waiting: it is small, has no loop, and only looks at
/// memory or the clock. The caller sees to its calls.
pub fn only_looks(instructions: &[Instruction]) -> bool {
    let has_frame = instructions.iter().any(|i| {
        i.mnemonic() == Mnemonic::Mov && i.op0_register() == Register::RBP && i.op1_register() == Register::RSP
    });
    let Some(start) = instructions.first().map(Instruction::ip) else { return false };
    let mut factory = InstructionInfoFactory::new();
    let looks = |i: &&Instruction| match i.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            !(start..=i.ip()).contains(&i.near_branch_target())
        }
        FlowControl::Next | FlowControl::Call | FlowControl::Return => keeps_memory(&mut factory, i, has_frame),
        _ => false,
    };
    effective(instructions.iter(), LARGEST_SPIN).is_some_and(|body| body.iter().all(looks))
}

/// The instructions but for `nop`s; `None` if there are none, or more than `largest`.
fn effective<'a>(instructions: impl Iterator<Item = &'a Instruction>, largest: usize) -> Option<Vec<&'a Instruction>> {
    let is_of_use = |i: &&Instruction| !matches!(i.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64);
    let body: Vec<_> = instructions.filter(is_of_use).take(largest + 1).collect();
    (!body.is_empty() && body.len() <= largest).then_some(body)
}

fn has_fp_work(body: &[&Instruction]) -> bool {
    body.iter().any(|i| classify(i).fp_instruction)
}

fn is_immediate(instruction: &Instruction) -> bool {
    instruction.op_count() == 2 && instruction.try_immediate(1).is_ok()
}

/// Whether an instruction lets the other thread of its core, or the time, go on.
pub fn pauses(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Pause | Mnemonic::Tpause | Mnemonic::Umwait)
}

/// Whether an instruction writes no memory but the stack of its function, where calls leave their return addresses. RBP points there if it
/// `has_frame`.
fn keeps_memory(factory: &mut InstructionInfoFactory, instruction: &Instruction, has_frame: bool) -> bool {
    factory.info(instruction).used_memory().iter().all(|memory| {
        let reads = matches!(memory.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
        let is_on_stack = memory.base() == Register::RSP || has_frame && memory.base() == Register::RBP;
        let own = is_on_stack && memory.index() == Register::None;
        reads || own
    })
}

/// Whether an instruction is an attempt to take a lock, which leaves memory as it is while another thread has the lock.
fn takes_a_lock(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Xchg => true,
        Mnemonic::Cmpxchg | Mnemonic::Bts => instruction.has_lock_prefix(),
        _ => false,
    }
}

/// A loop that writes no memory (but for attempts to take a lock), calls only what `looks` something up, and sets its registers only from
/// memory that it loads or from the clock: every iteration does the same until the memory changes.
fn only_polls(body: &[&Instruction], looks_up: impl Fn(&Instruction) -> bool) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let mut looks = false;
    let mut written = Vec::new();
    let mut read_first = Vec::new();
    for instruction in body {
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {}
            FlowControl::Call if looks_up(instruction) => {
                looks = true;
                written.extend(GENERAL_CHANGED_BY_CALLS);
                written.extend((0..32).map(|n| Register::ZMM0 + n));
                continue;
            }
            _ => return false,
        }
        let info = factory.info(instruction);
        for memory in info.used_memory() {
            match memory.access() {
                OpAccess::Read | OpAccess::CondRead => looks = true,
                OpAccess::NoMemAccess => {}
                // Taking a lock changes memory once, in its last round.
                _ if takes_a_lock(instruction) => looks = true,
                _ => return false,
            }
        }
        looks |= matches!(instruction.mnemonic(), Mnemonic::Rdtsc | Mnemonic::Rdtscp);
        // All reads of an instruction come before its writes.
        let registers = || info.used_registers().iter().filter(|r| r.register() != Register::RIP);
        let reads = registers().filter(|r| !matches!(r.access(), OpAccess::Write | OpAccess::CondWrite));
        read_first.extend(reads.map(|r| r.register().full_register()).filter(|r| !written.contains(r)));
        let writes = registers().filter(|r| !matches!(r.access(), OpAccess::Read | OpAccess::CondRead));
        written.extend(writes.map(|r| r.register().full_register()));
    }
    // A register that is read before it is written and written later carries progress from one iteration to the next.
    looks && read_first.iter().all(|r| !written.contains(r))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn spin(bytes: &[u8]) -> bool {
        let code: Vec<Instruction> = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).iter().collect();
        assert!(code.iter().all(|i| !i.is_invalid()));
        spins(code.iter())
    }

    #[test]
    fn names_of_runtime_libraries() {
        assert_eq!(by_name("gomp_team_barrier_wait_end"), Some(Wait::Barrier));
        assert_eq!(by_name("pthread_mutex_lock@plt"), Some(Wait::Lock));
        assert_eq!(by_name("do_spin"), Some(Wait::Barrier));
        assert_eq!(by_name("do_spinning_top_model"), None);
        assert_eq!(by_name("triad"), None);
    }

    #[test]
    fn spin_loops_by_structure() {
        // pause; mov eax,[rdi]; test eax,eax; je -8
        assert!(spin(&[0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0xf8]));
        // mov eax,[rdi]; test eax,eax; je -6
        assert!(spin(&[0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa]));
        // cmp dword [rdi],0; je -5
        assert!(spin(&[0x83, 0x3f, 0x00, 0x74, 0xfb]));
        // rdtsc; shl rdx,32; or rax,rdx; sub rax,rcx; cmp rax,1999; jbe: a pause by the clock
        assert!(spin(&[
            0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0x48, 0x29, 0xc8, 0x48, 0x3d, 0xcf, 0x07, 0, 0, 0x76,
            0xec
        ]));
        // mov eax,1; xchg [rdi],eax; test eax,eax; jne · mov eax,edx; lock cmpxchg [rdi],ecx; jne
        assert!(spin(&[0xb8, 1, 0, 0, 0, 0x87, 0x07, 0x85, 0xc0, 0x75, 0xf5]));
        assert!(spin(&[0x89, 0xd0, 0xf0, 0x0f, 0xb1, 0x0f, 0x75, 0xf8]));
    }

    #[test]
    fn idle_threads_that_read_the_clock_spin() {
        // rdtsc; shl rdx,32; or rax,rdx; sub rax,rbx; cmp rax,r12; ja; nop ×8; mov rax,[rdi]; test rax,rax; je: OpenBLAS's
        let mut idle =
            vec![0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0x48, 0x29, 0xd8, 0x4c, 0x39, 0xe0, 0x77, 0x10];
        idle.extend([0x90; 8]);
        idle.extend([0x48, 0x8b, 0x07, 0x48, 0x85, 0xc0, 0x74, 0xdd]);
        assert!(spin(&idle));
        let code = |bytes: &'static [u8]| {
            Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).into_iter().collect::<Vec<_>>()
        };
        // pause; mov [rsp+12],eax; call; test al,al; je
        let round = code(&[0xf3, 0x90, 0x89, 0x44, 0x24, 0x0c, 0xe8, 0, 1, 0, 0, 0x84, 0xc0, 0x74, 0xf1]);
        assert!(
            spins_with_calls(round.iter(), |_| false) && !spins_with_calls(round[1..].iter(), |_| false),
            "without a pause it may be work"
        );
        // the same with mov [rdi+12],eax
        assert!(!spins_with_calls(code(&[0xf3, 0x90, 0x89, 0x47, 0x0c, 0xe8, 0, 1, 0, 0, 0x74, 0xf4]).iter(), |_| {
            false
        }));
        // rdtsc; shl rdx,32; or rax,rdx; ret · mov [rdi],eax; ret
        assert!(only_looks(&code(&[0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3])));
        assert!(!only_looks(&code(&[0x89, 0x07, 0xc3])));
    }

    #[test]
    fn loops_that_only_call_what_looks_something_up_poll() {
        let polls = |bytes: &[u8], looks: bool| {
            let code: Vec<Instruction> = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).iter().collect();
            polls_with_calls(code.iter(), |_| looks)
        };
        // call; test eax,eax; je
        let round = [0xe8, 0, 1, 0, 0, 0x85, 0xc0, 0x74, 0xf7];
        assert!(polls(&round, true) && !polls(&round, false));
        // lea rsi,[rsp+16]; mov edi,1; call; mov rax,[rsp+16]; pxor xmm0,xmm0; cvtsi2sd xmm0,rax; comisd xmm1,xmm0; ja
        let clock = [
            &[0x48, 0x8d, 0x74, 0x24, 0x10, 0xbf, 1, 0, 0, 0, 0xe8, 0, 1, 0, 0, 0x48, 0x8b, 0x44, 0x24, 0x10][..],
            &[0x66, 0x0f, 0xef, 0xc0, 0xf2, 0x48, 0x0f, 0x2a, 0xc0, 0x66, 0x0f, 0x2f, 0x44, 0x24, 0x20, 0x77, 0xd9],
        ]
        .concat();
        assert!(polls(&clock, true));
        // mov rdi,rbx; add rbx,8; call; test eax,eax; je: one after the other
        assert!(!polls(&[0x48, 0x89, 0xdf, 0x48, 0x83, 0xc3, 8, 0xe8, 0, 1, 0, 0, 0x85, 0xc0, 0x74, 0xf0], true));
        // movsd xmm0,[rsp]; call; movsd [rsp],xmm0; jmp: it goes on with what it found
        assert!(!polls(
            &[0xf2, 0x0f, 0x10, 0x04, 0x24, 0xe8, 0, 1, 0, 0, 0xf2, 0x0f, 0x11, 0x04, 0x24, 0xeb, 0xef],
            true
        ));
        assert!(reads_the_clock("clock_gettime@plt") && !reads_the_clock("clock_settime"));
    }

    #[test]
    fn work_does_not_spin() {
        // add rax,[rdi]; add rdi,8; cmp rdi,rsi; jne: a sum
        assert!(!spin(&[0x48, 0x03, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75, 0xf4]));
        // mov rdi,[rdi]; test rdi,rdi; jne: a list walk
        assert!(!spin(&[0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf8]));
        // dec ecx; jne: a delay loop
        assert!(!spin(&[0xff, 0xc9, 0x75, 0xfc]));
        // pause; addsd xmm0,xmm1; jmp: work with a pause
        assert!(!spin(&[0xf3, 0x90, 0xf2, 0x0f, 0x58, 0xc1, 0xeb, 0xf8]));
        // mov ecx,eax; inc ecx; lock cmpxchg [rdi],ecx; jne: adds to what it last found there
        assert!(!spin(&[0x89, 0xc1, 0xff, 0xc1, 0xf0, 0x0f, 0xb1, 0x0f, 0x75, 0xf6]));
        // mov [rdi],eax; jmp: stores
        assert!(!spin(&[0x89, 0x07, 0xeb, 0xfc]));
    }
}
