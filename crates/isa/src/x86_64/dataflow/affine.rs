//! General-purpose registers as sums: value = Σ coefficient × symbol + constant; a symbol is a register's value at the start
//! of the iteration or an unknown. The analysis assumes that arithmetic does not wrap.

use std::collections::BTreeMap;

use iced_x86::{Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic, OpKind, Register};

use super::uses;

/// A symbol: 0 to 15 the registers at the start of the iteration, above that unknowns.
type Symbol = u32;
const REGISTERS: Symbol = 16;
/// Number of RSP.
const STACK_POINTER: usize = 4;

/// A sum of symbols and a constant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Affine {
    pub terms: BTreeMap<Symbol, i64>,
    pub constant: i64,
}

impl Affine {
    fn symbol(symbol: Symbol) -> Affine {
        Affine { terms: BTreeMap::from([(symbol, 1)]), constant: 0 }
    }

    pub(super) fn constant(constant: i64) -> Affine {
        Affine { terms: BTreeMap::new(), constant }
    }

    fn plus(&self, other: &Affine, times: i64) -> Affine {
        let mut sum = self.clone();
        for (&symbol, &coefficient) in &other.terms {
            let entry = sum.terms.entry(symbol).or_insert(0);
            *entry = entry.wrapping_add(coefficient.wrapping_mul(times));
        }
        sum.terms.retain(|_, coefficient| *coefficient != 0);
        sum.constant = sum.constant.wrapping_add(other.constant.wrapping_mul(times));
        sum
    }
}

/// The registers while a body is followed.
pub(super) struct Registers {
    values: Vec<Affine>,
    next_symbol: Symbol,
    factory: InstructionInfoFactory,
}

impl Registers {
    pub(super) fn at_start() -> Registers {
        let values = (0..REGISTERS).map(Affine::symbol).collect();
        Registers { values, next_symbol: REGISTERS, factory: InstructionInfoFactory::new() }
    }

    fn value(&self, register: Register) -> Affine {
        match register {
            Register::None | Register::RIP | Register::EIP => Affine::default(),
            _ => self.values[register.full_register().number()].clone(),
        }
    }

    /// The value of an address; `None` with a vector index.
    pub(super) fn address(&self, memory: &MemoryOperand) -> Option<Affine> {
        if memory.index.is_vector_register() {
            return None;
        }
        let base = Affine::constant(memory.displacement).plus(&self.value(memory.base), 1);
        Some(base.plus(&self.value(memory.index), i64::from(memory.scale)))
    }

    /// Follows one instruction.
    pub(super) fn step(&mut self, instruction: &Instruction) {
        if uses::is_call(instruction) {
            [0, 1, 2, 6, 7, 8, 9, 10, 11].into_iter().for_each(|n| self.forget(n));
            return;
        }
        let stack =
            self.values[STACK_POINTER].plus(&Affine::constant(i64::from(instruction.stack_pointer_increment())), 1);
        let moves_stack = matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Pop);
        let known = self.known_result(instruction);
        let written: Vec<usize> = self
            .factory
            .info(instruction)
            .used_registers()
            .iter()
            .filter(|used| used.register().is_gpr() && uses::is_write(used.access()))
            .map(|used| used.register().full_register().number())
            .collect();
        for register in written {
            self.forget(register);
        }
        if moves_stack {
            self.values[STACK_POINTER] = stack;
        }
        if let Some((register, value)) = known {
            self.values[register] = value;
        }
    }

    fn forget(&mut self, register: usize) {
        self.values[register] = Affine::symbol(self.next_symbol);
        self.next_symbol += 1;
    }

    /// The target register's value after an instruction with a sum as its result.
    fn known_result(&self, instruction: &Instruction) -> Option<(usize, Affine)> {
        let target = instruction.op0_register();
        if instruction.op0_kind() != OpKind::Register || !(target.is_gpr32() || target.is_gpr64()) {
            return None;
        }
        let old = self.value(target);
        let source = || self.source(instruction, 1);
        let value = match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movsxd => source()?,
            Mnemonic::Add => old.plus(&source()?, 1),
            Mnemonic::Sub | Mnemonic::Xor if uses::clears(instruction) => Affine::default(),
            Mnemonic::Sub => old.plus(&source()?, -1),
            Mnemonic::Inc => old.plus(&Affine::constant(1), 1),
            Mnemonic::Dec => old.plus(&Affine::constant(1), -1),
            Mnemonic::Shl => {
                Affine::default().plus(&old, 1i64.checked_shl(self.source(instruction, 1)?.as_constant()? as u32)?)
            }
            Mnemonic::Imul if instruction.op_count() == 3 => {
                Affine::default().plus(&self.source(instruction, 1)?, self.source(instruction, 2)?.as_constant()?)
            }
            Mnemonic::Lea => self.address(&memory_operand(instruction))?,
            _ => return None,
        };
        Some((target.full_register().number(), value))
    }

    /// The value of a register or immediate operand.
    fn source(&self, instruction: &Instruction, operand: u32) -> Option<Affine> {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                (register.is_gpr32() || register.is_gpr64()).then(|| self.value(register))
            }
            OpKind::Memory => None,
            _ => instruction.try_immediate(operand).ok().map(|value| Affine::constant(value as i64)),
        }
    }

    /// After the body: by how much each register changes in an iteration, if that is constant.
    pub(super) fn steps(&self) -> Vec<Option<i64>> {
        (0..REGISTERS).map(|n| step_of(n, &self.values[n as usize])).collect()
    }
}

impl Affine {
    fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// By how much the value grows from one iteration to the next, if all its symbols change by constants.
    pub(super) fn growth(&self, steps: &[Option<i64>]) -> Option<i64> {
        self.terms.iter().try_fold(0i64, |sum, (&symbol, &coefficient)| {
            let step = *steps.get(symbol as usize)?;
            sum.checked_add(coefficient.checked_mul(step?)?)
        })
    }
}

fn step_of(register: Symbol, end: &Affine) -> Option<i64> {
    (end.terms == Affine::symbol(register).terms).then_some(end.constant)
}

/// The memory operand of an instruction.
pub(super) fn memory_operand(instruction: &Instruction) -> MemoryOperand {
    MemoryOperand::new(
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64() as i64,
        instruction.memory_displ_size(),
        instruction.is_broadcast(),
        instruction.segment_prefix(),
    )
}
