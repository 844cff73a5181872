//! The effect of one execution of an instruction, read from the registers of a thread that is about to execute it.

use iced_x86::{Instruction, Register};

use super::operands::{Operand, address};
use super::registers::{ExtendedState, MAX_AREA, general};
use rprof_isa::facts::{AccessKind, Dynamic};
use rprof_profile::evidence::memory::Access;
use rprof_tracee::thread::{Registers, Stopped, TraceError};

/// The part of a thread's state that operands depend on; reads the vector part on demand.
pub struct State<'a> {
    thread: &'a Stopped,
    registers: &'a Registers,
    extended: Option<ExtendedState>,
}

impl<'a> State<'a> {
    /// The state of a stopped thread with these registers.
    pub fn new(thread: &'a Stopped, registers: &'a Registers) -> Self {
        State { thread, registers, extended: None }
    }

    fn extended(&mut self) -> Result<&ExtendedState, TraceError> {
        let state = match self.extended.take() {
            Some(state) => state,
            None => {
                let mut area = vec![0; MAX_AREA];
                let size = self.thread.extended_state(&mut area)?;
                area.truncate(size);
                ExtendedState::new(area)
            }
        };
        Ok(self.extended.insert(state))
    }

    /// Active lanes as bits; `None` if nothing masks the instruction.
    pub fn active_lanes(&mut self, dynamic: Option<Dynamic>) -> Result<Option<u64>, TraceError> {
        Ok(match dynamic {
            Some(Dynamic::Mask { k, lanes }) => Some(self.extended()?.mask(k) & ones(lanes)),
            Some(Dynamic::VectorMask { register, element, lanes }) => {
                let state = self.extended()?;
                let sign = u32::from(element) * 8 - 1;
                Some(
                    (0..lanes)
                        .filter(|&i| state.vector_lane(register, element, i) >> sign & 1 == 1)
                        .map(|i| 1 << i)
                        .sum(),
                )
            }
            Some(Dynamic::Repeat) | None => None,
        })
    }

    /// Appends the accesses of one execution; for a `rep` instruction, those of the first iteration (their number is known
    /// only behind it). `active`: its active lanes.
    pub fn accesses(
        &mut self,
        instruction: &Instruction,
        operands: &[Operand],
        active: Option<u64>,
        site: u32,
        out: &mut Vec<Access>,
    ) -> Result<(), TraceError> {
        for operand in operands {
            let (kind, bytes) = (operand.fact.kind, operand.fact.bytes);
            let vector_index = operand.memory.index().is_vector_register();
            if vector_index || matches!(kind, AccessKind::Gather | AccessKind::Scatter) {
                self.extended()?;
            }
            let (registers, extended) = (self.registers, &self.extended);
            let at = |element: usize| {
                address(&operand.memory, element, |register, index| match register {
                    Register::RIP | Register::EIP => Some(instruction.next_ip()),
                    r if r.is_vector_register() => {
                        let number = r.number() as u8;
                        let size = if instruction.is_vsib32() { 4 } else { 8 };
                        let lane = extended.as_ref()?.vector_lane(number, size, index as u8);
                        Some(if size == 4 { lane as u32 as i32 as i64 as u64 } else { lane })
                    }
                    r => general(registers, r),
                })
            };
            let mut push = |address: Option<u64>, bytes: u64| {
                if let Some(address) = address {
                    out.push(Access { address, bytes: bytes as u32, site, kind });
                }
            };
            match (kind, active) {
                (AccessKind::Gather | AccessKind::Scatter, active) => {
                    let lanes = element_count(instruction, active);
                    let element = bytes / lanes.max(1);
                    for lane in (0..lanes).filter(|&i| active.is_none_or(|a| a >> i & 1 == 1)) {
                        push(at(lane as usize), u64::from(element));
                    }
                }
                (_, Some(mask)) if operand.fact.masked && mask != 0 => {
                    // From the first to the last active lane (a compressed store starts at the first).
                    let element = u64::from(bytes) / u64::from(lanes_of(instruction)).max(1);
                    let first = u64::from(mask.trailing_zeros());
                    let last = 63 - u64::from(mask.leading_zeros());
                    push(at(0).map(|a| a + first * element), (last + 1 - first) * element);
                }
                (_, Some(_)) if operand.fact.masked => {}
                _ => push(at(0), u64::from(bytes)),
            }
        }
        Ok(())
    }
}

/// The direction flag.
pub const DIRECTION: u64 = 1 << 10;

fn element_count(instruction: &Instruction, active: Option<u64>) -> u32 {
    let lanes = lanes_of(instruction);
    if lanes > 0 { lanes } else { active.map_or(0, |a| 64 - a.leading_zeros()) }
}

fn lanes_of(instruction: &Instruction) -> u32 {
    match rprof_isa::x86_64::classify(instruction).dynamic {
        Some(Dynamic::Mask { lanes, .. } | Dynamic::VectorMask { lanes, .. }) => u32::from(lanes),
        _ => 1,
    }
}

fn ones(lanes: u8) -> u64 {
    if lanes >= 64 { u64::MAX } else { (1 << lanes) - 1 }
}
