//! The changes that are worth a try at a hot loop.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess};

use rprof_profile::trial::Change;
use rprof_tracee::memory::Memory;

use crate::hot::HotLoop;
use crate::loops;
use crate::rewrite;

/// Private memory of fewer bytes is within reach of the TLBs.
const TLB_REACH: u64 = 8 << 20;

/// The changes for `hot`, of a process with so many bytes of private memory, `huge` of them on huge pages.
pub fn of(hot: &HotLoop, memory: &Memory, private_bytes: u64, huge: u64) -> Vec<Change> {
    let code: Vec<Instruction> =
        hot.code.as_ref().and_then(|code| loops::instructions(memory, code)).unwrap_or_default();
    let computes = code.iter().any(is_floating);
    let calls = code.iter().any(|i| i.mnemonic() == Mnemonic::Call);
    let accesses = calls || code.iter().any(accesses_memory);
    let mut changes = Vec::new();
    if computes || calls || code.is_empty() {
        changes.push(Change::FlushDenormals);
    }
    if (accesses || code.is_empty()) && private_bytes > TLB_REACH && huge < private_bytes / 2 {
        changes.push(Change::HugePages);
    }
    if hot.threads > 1 {
        changes.push(Change::OtherThreadsStopped);
    }
    changes.extend(rewrite::suggested(&code));
    changes
}

/// Whether it is floating-point arithmetic or a conversion, by its name.
fn is_floating(instruction: &Instruction) -> bool {
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let ends = ["ss", "sd", "ps", "pd"].iter().any(|end| name.ends_with(end));
    let begins = ["add", "sub", "mul", "div", "sqrt", "fmadd", "fmsub", "fnmadd", "fnmsub", "cvt", "min", "max"];
    ends && begins.iter().any(|start| name.starts_with(start)) || name.starts_with("cvt")
}

fn accesses_memory(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_memory().iter().any(|m| m.access() != OpAccess::NoMemAccess)
}
