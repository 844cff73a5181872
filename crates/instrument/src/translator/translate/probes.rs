//! Inline code that records run-time quantities: sums of active lanes and iterations, and addresses for the access sink.
//!
//! ```text
//!  hot:   lea t, [operand]; test t, bytes − 1; jnz ─▶ tail
//!         u = page × factor; t ^= u; test gs:[mask], t; jz ─▶ cold          cold: noted a short while ago? ─▶ back
//!         back: the instruction                                                   buffer[cursor++] = (address, site)
//!                                                                                 full? ─▶ rprof drains it
//!                                                                           tail: the same check of the line it starts in, and of
//!                                                                                 the next one where it crosses into that
//! ```

use iced_x86::{Instruction, Register};

use crate::translator::code_cache::counters::{DynamicSlot, Sum};
use crate::translator::code_cache::layout;
use crate::translator::code_cache::probe_site::{ProbeSite, Shape};
use crate::translator::code_cache::records::{ENTRY, REPEATED_COUNT, size};
use crate::translator::translate::block_emitter::Writer;
use crate::x86_64::emit::{Code, Gpr, RAX, RCX, RDX, relative};
use crate::x86_64::liveness::Dead;
use crate::x86_64::operands::{Operand, is_dynamic, operands};
use crate::x86_64::rewrite::{free_gpr, load_address, store_vector, used_gprs};
use rprof_isa::facts::{AccessKind, Dynamic, InstructionFacts};
use rprof_isa::x86_64::classify;
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::memory::{PAGE_FACTOR, PRODUCT_SHIFT};
use rprof_tracee::address::CacheAddress;

/// Two registers lent to a probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lent {
    pub(crate) t: Gpr,
    pub(crate) u: Gpr,
    /// Their values are saved at the loop's entry.
    stolen: bool,
}

/// The values to record behind a `rep` instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Iterations {
    /// The counter of the iterations.
    slot: u32,
    /// Number of buffer entries that still lack the iteration count.
    entries: u32,
}

/// Jumps of the check of an access's two lines: rel32s in the cold part, to be filled in.
#[derive(Debug, Clone, Copy)]
struct Tail {
    /// The line that the access starts in is selected.
    by_its_start: CacheAddress,
    /// The other line is selected.
    noted: CacheAddress,
}

/// Bytes of a cache line.
const LINE: u32 = 64;

/// Sets the zero flag if the line of the address in `t` is selected; `t ^= u` restores the address.
fn select(code: &mut Code, t: Gpr, u: Gpr) {
    code.rotate(u, t, 12);
    code.multiply(u, PAGE_FACTOR);
    code.rotate(u, u, PRODUCT_SHIFT as u8);
    code.exclusive_or(t, u);
    code.test_slot(layout::SELECT_MASK, t);
}

impl Writer<'_> {
    /// Writes the probes before step `i`; returns the values that a `rep` instruction needs behind it.
    pub(crate) fn probe(&mut self, i: usize) -> Option<Iterations> {
        let instruction = self.block.steps[i].instruction;
        let dynamic = is_dynamic(&instruction);
        let notes = self.cache.has_sink || self.unit.version.traces();
        if !dynamic && !notes {
            return None;
        }
        let facts = classify(&instruction);
        let sum = facts.dynamic.and_then(|d| self.sum(i, d));
        let mut entries = 0;
        if notes {
            for operand in operands(&instruction, &facts) {
                self.access(i, &instruction, &facts, &operand, (sum, &mut entries));
            }
        }
        let repeated = matches!(facts.dynamic, Some(Dynamic::Repeat));
        if repeated {
            self.unit.hot.save(layout::REPEAT_FROM, RCX);
            self.again(i);
        }
        sum.filter(|_| repeated).map(|slot| Iterations { slot, entries })
    }

    /// Adds a point before step `i`, with the program's state known again.
    pub(crate) fn again(&mut self, i: usize) {
        let plain = self.plain();
        self.point(self.block.steps[i].offset, plain);
    }

    /// A counter for the instruction's run-time sum; active lanes are added here, iterations behind the instruction.
    fn sum(&mut self, i: usize, dynamic: Dynamic) -> Option<u32> {
        let slot = self.cache.new_slot()?;
        let offset = u32::from(self.block.steps[i].offset);
        let sum = if let Dynamic::Repeat = dynamic { Sum::Iterations } else { Sum::Lanes };
        let noted = DynamicSlot { slot, block: self.block_id(), offset, sum, added_at: 0 };
        if let Dynamic::Repeat = dynamic {
            self.cache.counters.dynamic.push(noted);
            return Some(slot);
        }
        let dead = self.dead_flags.get(i).copied().unwrap_or(Dead::None);
        self.unit.hot.save(layout::SAVE_LENT, RCX);
        let lanes = self.active_to_rcx(dynamic);
        if dead == Dead::None || !is_x86_feature_detected!("popcnt") {
            self.add_by_table(slot, lanes);
        } else {
            self.add_population(slot, lanes, dead);
        }
        self.unit.hot.load(RCX, layout::SAVE_LENT);
        self.cache.counters.dynamic.push(DynamicSlot { added_at: self.offset(), ..noted });
        self.again(i);
        Some(slot)
    }

    /// Writes the active lanes to the low bits of RCX, with undefined bits above them; returns the number of lanes.
    fn active_to_rcx(&mut self, dynamic: Dynamic) -> u32 {
        let hot = &mut self.unit.hot;
        match dynamic {
            Dynamic::Mask { k, lanes } => {
                hot.mask_to(RCX, k, lanes);
                u32::from(lanes)
            }
            Dynamic::VectorMask { register, element, lanes } => {
                hot.signs_to(RCX, register, element, lanes);
                u32::from(lanes)
            }
            Dynamic::Repeat => 0,
        }
    }

    /// Adds the active lanes in RCX to a counter with these flags `dead`, except perhaps the carry.
    fn add_population(&mut self, slot: u32, lanes: u32, dead: Dead) {
        let hot = &mut self.unit.hot;
        if dead == Dead::AllButCarry {
            hot.save_carry(layout::PROBE_SCRATCH);
        }
        match lanes {
            0..8 => hot.and_small(RCX, (1 << lanes) - 1),
            8 => hot.raw(&[0x0f, 0xb6, 0xc9]), // movzx ecx, cl
            _ => {}
        }
        hot.population(RCX);
        hot.save(layout::LANES, RCX);
        hot.add_slot(RCX, layout::counter(slot));
        hot.save(layout::counter(slot), RCX);
        if dead == Dead::AllButCarry {
            hot.carry_again(layout::PROBE_SCRATCH);
        }
    }

    /// As [`add_population`](Self::add_population) if all flags are live, or the CPU has no `popcnt`.
    fn add_by_table(&mut self, slot: u32, lanes: u32) {
        let hot = &mut self.unit.hot;
        hot.save(layout::SAVE_LENT_2, RDX);
        match lanes {
            32 | 64 => {
                hot.save(layout::PROBE_SCRATCH, RCX);
                hot.load_word(RCX, layout::PROBE_SCRATCH);
                hot.look_up_byte(RCX, layout::TABLES_AT + layout::POPULATION_16);
                for word in 1..lanes / 16 {
                    hot.load_word(RDX, layout::PROBE_SCRATCH + 2 * word);
                    hot.look_up_byte(RDX, layout::TABLES_AT + layout::POPULATION_16);
                    hot.sum(RCX, RCX, RDX, 0);
                }
            }
            16 => hot.look_up_byte(RCX, layout::TABLES_AT + layout::POPULATION_16),
            _ => {
                let table = lanes.max(1).ilog2();
                hot.raw(&[0x0f, 0xb6, 0xc9]); // movzx ecx, cl
                hot.look_up_byte(RCX, layout::TABLES_AT + layout::POPULATION_8 + 256 * table);
            }
        }
        hot.save(layout::LANES, RCX);
        hot.load(RDX, layout::counter(slot));
        hot.sum(RDX, RDX, RCX, 0);
        hot.save(layout::counter(slot), RDX);
        hot.load(RDX, layout::SAVE_LENT_2);
    }

    /// Behind a `rep` instruction: counter += RCX before − RCX now; also writes that count to its entries if the instruction may
    /// end early.
    pub(crate) fn add_iterations(&mut self, Iterations { slot, entries }: Iterations) {
        let hot = &mut self.unit.hot;
        hot.save(layout::SAVE_LENT, RCX);
        hot.save(layout::SAVE_LENT_2, RDX);
        hot.not(RCX);
        hot.load(RDX, layout::REPEAT_FROM);
        hot.sum(RCX, RCX, RDX, 1);
        for entry in 0..entries {
            // If the buffer was emptied since, this place holds no record yet.
            hot.load(RDX, layout::REPEAT_ENTRIES + 8 * entry);
            hot.store_at(RDX, REPEATED_COUNT as i8, RCX);
        }
        hot.load(RDX, layout::counter(slot));
        hot.sum(RDX, RDX, RCX, 0);
        hot.save(layout::counter(slot), RDX);
        hot.load(RCX, layout::SAVE_LENT);
        hot.load(RDX, layout::SAVE_LENT_2);
    }

    /// Registers one operand, and writes its probe in versions that collect addresses.
    fn access(
        &mut self,
        i: usize,
        instruction: &Instruction,
        facts: &InstructionFacts,
        operand: &Operand,
        (sum, entries): (Option<u32>, &mut u32),
    ) {
        if operand.memory.segment() == Register::GS {
            return;
        }
        let shape = shape(instruction, facts, operand);
        let offset = self.block.steps[i].offset;
        let at = CodeRef { offset: self.at.offset + u64::from(offset), ..self.at };
        let site = self.cache.counters.probe_sites.len() as u32;
        let (kind, bytes) = (operand.fact.kind, operand.fact.bytes);
        let (version, scale) = (self.unit.version, self.induction.map_or(1, |n| n.step));
        self.cache.counters.probe_sites.push(ProbeSite {
            at,
            offset,
            version,
            slot: self.slot,
            scale,
            sum,
            kind,
            bytes,
            shape,
        });
        if !version.collects() {
            return;
        }
        let Some(lent) = self.lend(i, instruction) else { return };
        if version.traces() {
            self.trace_access(i, operand, lent, entries, &Noted { site, shape, facts, instruction });
            return;
        }
        let (t, u) = (lent.t, lent.u);
        let dead = self.dead_flags.get(i) == Some(&Dead::All);
        let hot = &mut self.unit.hot;
        if !lent.stolen {
            hot.save(layout::SAVE_LENT, t);
            hot.save(layout::SAVE_LENT_2, u);
        }
        if !load_address(hot, t, &operand.memory) {
            // The address depends on EIP: rprof does not record it.
            if !lent.stolen {
                hot.load(t, layout::SAVE_LENT);
                hot.load(u, layout::SAVE_LENT_2);
            }
            self.again(i);
            return;
        }
        if operand.memory.segment() == Register::FS {
            hot.thread_base(u);
            hot.sum(t, t, u, 0);
        }
        if !dead {
            hot.save(layout::PROBE_ADDRESS, t);
            hot.save(layout::SAVE_FLAGS, RAX);
            hot.flags_to_ax();
        }
        let chosen = matches!(shape, Shape::Plain | Shape::Masked { .. }) && bytes <= LINE;
        let crossing = chosen && bytes > 1;
        let crosses = crossing.then(|| {
            // An access aligned to its length lies in one line.
            hot.test_byte(t, (bytes.next_power_of_two() - 1) as u8);
            hot.raw(&[0x0f, 0x85]); // jnz
            hot.relative_later()
        });
        if chosen {
            select(hot, t, u);
            hot.raw(&[0x0f, 0x84]); // jz
        } else {
            hot.raw(&[0xe9]); // jmp
        }
        let noted = hot.relative_later();
        let back = hot.here();
        if !dead {
            hot.flags_from_ax();
            hot.load(RAX, layout::SAVE_FLAGS);
        }
        if !lent.stolen {
            hot.load(t, layout::SAVE_LENT);
            hot.load(u, layout::SAVE_LENT_2);
        }
        self.again(i);
        let by_its_tail = crosses.map(|crosses| {
            self.unit.lead_to_cold(crosses);
            self.tail(lent, bytes, back)
        });
        let by_its_start = by_its_tail.map(|tail| tail.by_its_start);
        [Some(noted), by_its_start].into_iter().flatten().for_each(|jump| self.unit.lead_to_cold(jump));
        self.address_again(t, u, operand, dead);
        if chosen && kind != AccessKind::NtStore {
            self.filter(lent, kind, site, back);
        }
        if let Some(Tail { noted, .. }) = by_its_tail {
            self.unit.lead_to_cold(noted);
        }
        append(&mut self.unit.cold, lent, entries, &Noted { site, shape, facts, instruction });
        let drain = self.cache.arenas[self.unit.arena].stubs.drain;
        let cold = &mut self.unit.cold;
        cold.add_far(t, u, layout::BUFFER_MARGIN);
        cold.test_constant(t, layout::BUFFER_FULL);
        cold.raw(&[0x0f, 0x85]); // jnz
        let at = cold.here();
        cold.raw(&relative(at, back).to_le_bytes());
        cold.constant(t, back.get());
        cold.save(layout::TARGET, t);
        cold.jump(drain);
    }

    /// Writes to the cold part the check of an access of `bytes` at `t` that may cross into another line; the access is recorded
    /// if either line is selected. Its two jumps are filled in later; at the second one, `t` holds the access's address.
    fn tail(&mut self, lent: Lent, bytes: u32, back: CacheAddress) -> Tail {
        let (t, u) = (lent.t, lent.u);
        let further = (bytes - 1) as i8;
        let cold = &mut self.unit.cold;
        select(cold, t, u);
        cold.raw(&[0x0f, 0x84]); // jz
        let by_its_start = cold.relative_later();
        cold.exclusive_or(t, u);
        cold.add_to(u, t, further);
        cold.exclusive_or(u, t);
        cold.test_byte(u, LINE as u8);
        cold.raw(&[0x0f, 0x84]); // jz
        cold.relative(back);
        cold.add_small(t, further);
        select(cold, t, u);
        cold.raw(&[0x0f, 0x85]); // jnz
        cold.relative(back);
        cold.exclusive_or(t, u);
        cold.add_small(t, -further);
        cold.raw(&[0xe9]); // jmp
        Tail { by_its_start, noted: cold.relative_later() }
    }

    /// Restores the address in `t`, which the check has changed, in the cold part.
    fn address_again(&mut self, t: Gpr, u: Gpr, operand: &Operand, dead: bool) {
        let cold = &mut self.unit.cold;
        if !dead {
            // The address may depend on RAX, which holds the flags here.
            cold.load(t, layout::PROBE_ADDRESS);
            return;
        }
        // This succeeded in the hot part, so it succeeds here.
        load_address(cold, t, &operand.memory);
        if operand.memory.segment() == Register::FS {
            cold.thread_base(u);
            cold.sum(t, t, u, 0);
        }
    }

    /// Skips lines in the table of recently recorded lines, because they are in L1; keeps `t`.
    fn filter(&mut self, lent: Lent, kind: AccessKind, site: u32, back: CacheAddress) {
        let (t, u) = (lent.t, lent.u);
        let cold = &mut self.unit.cold;
        cold.test_slot_constant(layout::FILTER, 1);
        cold.raw(&[0x0f, 0x84]); // jz
        let unfiltered = cold.relative_later();
        // The key is the line and the storing instruction: a line that was only read is not dirty yet, and the model needs its
        // last writer.
        cold.copy(u, t);
        cold.and_small(t, -64);
        cold.exclusive_or(u, t); // position in the line, to restore `t`
        cold.save(layout::PROBE_SCRATCH, u);
        if let AccessKind::Store | AccessKind::Scatter = kind {
            cold.add_small(t, 1 + 2 * (site % 32) as i8);
        }
        cold.rotate(u, t, 11);
        cold.and_small(u, layout::FILTERED_LINES as i8 - 1);
        cold.compare_indexed(t, u, layout::FILTERED);
        cold.raw(&[0x0f, 0x84]); // je
        cold.relative(back);
        cold.save_indexed(u, layout::FILTERED, t);
        cold.and_small(t, -64);
        cold.load(u, layout::PROBE_SCRATCH);
        cold.sum(t, t, u, 0);
        self.unit.lead_to_cold(unfiltered);
    }

    /// Two registers that the instruction does not use.
    fn lend(&mut self, i: usize, instruction: &Instruction) -> Option<Lent> {
        if let Some((t, u)) = self.loop_probes {
            return Some(Lent { t, u, stolen: true });
        }
        let mut used = used_gprs(&mut self.unit.factory, instruction) | 1 << 4 | 1;
        if let Some(counter) = self.loop_counter {
            used |= 1 << counter.0;
        }
        if self.block.steps[i].instruction.is_string_instruction() {
            used |= 1 << RCX.0;
        }
        let t = free_gpr(used)?;
        let u = free_gpr(used | 1 << t.0)?;
        Some(Lent { t, u, stolen: false })
    }
}

/// The operand that a record describes.
pub(crate) struct Noted<'a> {
    pub(crate) site: u32,
    pub(crate) shape: Shape,
    pub(crate) facts: &'a InstructionFacts,
    pub(crate) instruction: &'a Instruction,
}

/// `buffer[cursor] = (t, site, extra)`; leaves the new cursor in `u`. Changes no flags. If the repeat count is known only behind
/// the instruction, the code saves the record's address as one more of its `entries`.
pub(crate) fn append(code: &mut Code, lent: Lent, entries: &mut u32, noted: &Noted<'_>) {
    let (t, u) = (lent.t, lent.u);
    code.load(u, layout::CURSOR);
    if let Shape::Repeated { may_end_early: true } = noted.shape {
        code.save(layout::REPEAT_ENTRIES + 8 * *entries, u);
        *entries += 1;
    }
    code.store_at(u, 0, t);
    code.store_constant_at(u, 8, noted.site);
    match noted.shape {
        Shape::Plain => {}
        Shape::Repeated { .. } => code.store_at(u, REPEATED_COUNT as i8, RCX),
        Shape::Masked { .. } | Shape::Indexed { .. } => {
            match noted.facts.dynamic {
                Some(Dynamic::Mask { k, lanes }) => code.mask_to(t, k, lanes.min(if lanes > 16 { 32 } else { 16 })),
                Some(Dynamic::VectorMask { register, element, lanes }) => code.signs_to(t, register, element, lanes),
                _ => code.constant(t, u64::from(u32::MAX)),
            }
            code.store_low_at(u, 12, t);
        }
    }
    if let Shape::Indexed { .. } = noted.shape {
        store_vector(code, u, ENTRY.into(), noted.instruction.memory_index());
    }
    code.add_small(u, size(noted.shape) as i8);
    code.save(layout::CURSOR, u);
}

/// Whether `instruction`, repeated, may end early because of the data that it compares.
fn may_end_early(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic::{Cmpsb, Cmpsd, Cmpsq, Cmpsw, Scasb, Scasd, Scasq, Scasw};
    matches!(instruction.mnemonic(), Cmpsb | Cmpsw | Cmpsd | Cmpsq | Scasb | Scasw | Scasd | Scasq)
}

fn shape(instruction: &Instruction, facts: &InstructionFacts, operand: &Operand) -> Shape {
    let lanes = match facts.dynamic {
        Some(Dynamic::Mask { lanes, .. } | Dynamic::VectorMask { lanes, .. }) => lanes,
        _ => 0,
    };
    match operand.fact.kind {
        AccessKind::Gather | AccessKind::Scatter => Shape::Indexed {
            lanes: lanes.min(16),
            index: if instruction.is_vsib32() { 4 } else { 8 },
            scale: instruction.memory_index_scale() as u8,
        },
        _ if matches!(facts.dynamic, Some(Dynamic::Repeat)) => {
            Shape::Repeated { may_end_early: may_end_early(instruction) }
        }
        _ if operand.fact.masked && (1..=32).contains(&lanes) => Shape::Masked { lanes },
        _ => Shape::Plain,
    }
}
