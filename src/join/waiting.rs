//! Distinguishes waiting from work: barriers and locks by name, spin loops by structure.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use crate::isa::x86_64::classify;

/// The reason for which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For the other threads of its team.
    Barrier,
    /// For its turn, or for another thread to wake it.
    Lock,
}

/// Number of frames from the leaf in which a waiting function's name counts: it may have called `syscall` or `sched_yield`.
pub const FRAMES: usize = 3;

/// Spin loops are small; a larger loop with a `pause` also does other work.
const LARGEST_SPIN: usize = 32;

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
    "MPI_Barrier*",
    "MPI_Wait*",
    "PMPI_Barrier*",
    "PMPI_Wait*",
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
    let body: Vec<&Instruction> = instructions.take(LARGEST_SPIN + 1).collect();
    if body.is_empty() || body.len() > LARGEST_SPIN || body.iter().any(|i| classify(i).fp_instruction) {
        return false;
    }
    body.iter().any(|i| i.mnemonic() == Mnemonic::Pause) || only_polls(&body)
}

/// A loop that writes no memory, calls nothing, and sets its registers only from memory that it loads: every iteration does the same until
/// the memory changes.
fn only_polls(body: &[&Instruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let mut loads = false;
    let mut written = Vec::new();
    let mut read_first = Vec::new();
    for instruction in body {
        let flow = instruction.flow_control();
        if !matches!(flow, FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
            return false;
        }
        let info = factory.info(instruction);
        for memory in info.used_memory() {
            match memory.access() {
                OpAccess::Read | OpAccess::CondRead => loads = true,
                OpAccess::NoMemAccess => {}
                _ => return false,
            }
        }
        // All reads of an instruction come before its writes.
        let registers = || info.used_registers().iter().filter(|r| r.register() != Register::RIP);
        let reads = registers().filter(|r| !matches!(r.access(), OpAccess::Write | OpAccess::CondWrite));
        read_first.extend(reads.map(|r| r.register().full_register()).filter(|r| !written.contains(r)));
        let writes = registers().filter(|r| !matches!(r.access(), OpAccess::Read | OpAccess::CondRead));
        written.extend(writes.map(|r| r.register().full_register()));
    }
    // A register that is read before it is written and written later carries progress from one iteration to the next.
    loads && read_first.iter().all(|r| !written.contains(r))
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
        // mov [rdi],eax; jmp: stores
        assert!(!spin(&[0x89, 0x07, 0xeb, 0xfc]));
    }
}
