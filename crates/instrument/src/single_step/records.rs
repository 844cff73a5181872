//! The instructions of one address space, and their executions.

use std::collections::{BTreeMap, HashMap};

use iced_x86::{Decoder, DecoderOptions, Instruction};
use nix::unistd::Pid;

use crate::modules::Modules;
use crate::tally::{HIGHEST_CALL, Tally};
use crate::x86_64::operands::{Operand, operands};
use rprof_isa::facts::Dynamic;
use rprof_isa::x86_64::classify;
use rprof_profile::code::CodeRef;
use rprof_tracee::address::Address;
use rprof_tracee::maps::{Mapping, read_maps};
use rprof_tracee::memory::Memory;

const MAX_LENGTH: usize = 15;

/// The counts of a run so far, by place.
#[derive(Debug, Default)]
pub struct RunCounts {
    /// The counts.
    pub tally: Tally,
    /// The modules that they are in.
    pub modules: Modules,
    /// The places of instructions, by the numbers that the access sink knows.
    pub sites: Vec<CodeRef>,
}

/// One instruction of the program.
#[derive(Debug)]
pub struct Record {
    /// Decoded.
    pub instruction: Instruction,
    /// Its bytes.
    code: Vec<u8>,
    at: CodeRef,
    /// Number of the reading of the maps that `at` is from.
    generation: u32,
    /// Memory operands.
    pub operands: Vec<Operand>,
    /// The quantity that is known only at run time.
    pub dynamic: Option<Dynamic>,
    /// Its number for the access sink.
    pub site: u32,
    /// (thread, executions, run-time sum).
    counts: Vec<(u32, u64, u64)>,
    /// Executions of a `syscall` by number.
    calls: BTreeMap<u32, u64>,
}

impl Record {
    /// One more execution as the system call `number`.
    pub fn count_call(&mut self, number: i64) {
        *self.calls.entry((number as u64).min(HIGHEST_CALL.into()) as u32).or_default() += 1;
    }

    /// One more execution.
    pub fn count(&mut self, thread: u32, sum: u64) {
        match self.counts.iter_mut().find(|c| c.0 == thread) {
            Some(c) => {
                c.1 += 1;
                c.2 += sum;
            }
            None => self.counts.push((thread, 1, sum)),
        }
    }

    fn harvest(self, tally: &mut Tally) {
        for (thread, executions, sum) in self.counts {
            let dynamic = self.dynamic.map(|_| (0, sum));
            tally.add(self.at, &self.code, thread, executions, dynamic.as_slice());
        }
        for (number, count) in self.calls {
            tally.add_calls(self.at, &self.code, number, count);
        }
    }
}

/// An address space: its memory, maps and instructions.
#[derive(Debug)]
pub struct Space {
    pid: Pid,
    memory: Option<Memory>,
    maps: Vec<Mapping>,
    generation: u32,
    records: HashMap<Address, Record>,
}

impl Space {
    /// The address space of process `pid` with its present program.
    pub fn new(pid: Pid) -> Self {
        Space { pid, memory: Memory::open(pid).ok(), maps: Vec::new(), generation: 0, records: HashMap::new() }
    }

    /// The record of the instruction at `at`; `None` if it cannot be read (vsyscall) or decoded.
    pub fn record(&mut self, at: Address, run_counts: &mut RunCounts) -> Option<&mut Record> {
        let mut bytes = [0; MAX_LENGTH];
        let size = self.memory.as_ref()?.read_some(at, &mut bytes).ok()?;
        let bytes = &bytes[..size];
        let generation = self.generation;
        let current = |r: &Record| r.generation == generation && bytes.starts_with(&r.code);
        let fresh = !self.records.get(&at).is_some_and(current);
        if fresh {
            if let Some(old) = self.records.remove(&at) {
                old.harvest(&mut run_counts.tally);
            }
            let instruction = Decoder::with_ip(64, bytes, at.get(), DecoderOptions::NONE).decode();
            if instruction.is_invalid() {
                return None;
            }
            let facts = classify(&instruction);
            let at_module = self.locate(at, &mut run_counts.modules)?;
            run_counts.sites.push(at_module);
            let record = Record {
                code: bytes[..instruction.len()].to_vec(),
                at: at_module,
                generation,
                operands: operands(&instruction, &facts),
                dynamic: facts.dynamic,
                site: run_counts.sites.len() as u32 - 1,
                counts: Vec::new(),
                calls: BTreeMap::new(),
                instruction,
            };
            self.records.insert(at, record);
        }
        self.records.get_mut(&at)
    }

    /// The record of an instruction that was prepared.
    pub fn known(&mut self, at: Address) -> Option<&mut Record> {
        self.records.get_mut(&at)
    }

    /// Mappings may have changed.
    pub fn forget_maps(&mut self) {
        self.maps.clear();
        self.generation += 1;
    }

    fn locate(&mut self, at: Address, modules: &mut Modules) -> Option<CodeRef> {
        if !self.maps.iter().any(|m| m.contains(at)) {
            self.maps = read_maps(self.pid).ok()?;
        }
        let mapping = self.maps.iter().find(|m| m.contains(at))?;
        Some(modules.locate(self.pid, mapping).code_ref(at))
    }

    /// Hands the counts over to the tally.
    pub fn harvest(self, tally: &mut Tally) {
        for record in self.records.into_values() {
            record.harvest(tally);
        }
    }
}
