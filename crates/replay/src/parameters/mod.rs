//! The core in cycles: read from this machine's ceilings, assumed if one is missing. No table of CPU models.

mod forms;
mod source;

pub use forms::{Bypass, FormCost, PER_CYCLE};

use rprof_profile::Machine;

use super::form::FORMS;
use source::Source;

/// Lines that L2 waits for at least; assumed. And at most, as far as ceilings say: latency and bandwidth of one level are measured apart.
const L2_MISSES: f64 = 48.0;
const MOST_L2_MISSES: f64 = 256.0;

/// A core. Times are cycles, sizes are entries unless stated otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreParameters {
    /// Slots that are dispatched in a cycle, and retired.
    pub width: u32,
    pub retire_width: u32,
    /// Taken branches that are fetched in a cycle, as long as there are no more than `near_targets` of them; cycles × 16 that one takes
    /// beyond.
    pub taken: u32,
    pub near_targets: u32,
    pub far_taken: u32,
    /// Cycles × 16 for which a call or a return stops fetch, beside being a taken branch.
    pub call_bubble: u32,
    /// Slots that are fetched in a cycle, and how many may wait for dispatch.
    pub fetch_width: u32,
    pub fetch_queue: u32,
    /// Reorder buffer in slots; schedulers; buffers of loads and stores; registers that can be renamed.
    pub reorder: u32,
    pub integer_window: u32,
    pub vector_window: u32,
    /// Whether integer and vector operations wait in one scheduler: both alone fill about as many entries.
    pub one_window: bool,
    pub loads: u32,
    pub stores: u32,
    pub integer_registers: u32,
    pub vector_registers: u32,
    /// By [`Form`](super::form::Form).
    pub forms: [FormCost; FORMS],
    pub bypass: Bypass,
    /// Ports of loads and of stores by [`Op::data_width`](super::op::Op::data_width).
    pub load_ports: [u32; 5],
    pub store_ports: [u32; 5],
    /// Load to use in L1 by the same.
    pub l1: [u32; 5],
    /// Load to use in L2, L3 and memory.
    pub l2: u32,
    pub l3: u32,
    pub dram: u32,
    /// Cycles from the data of a store to a load of it, by a vector register of one lane.
    pub forward: u32,
    /// By a general register: its operand ([`Renaming`](super::op::Renaming)) is plain and written the same way; with another base;
    /// has four bytes; is computed with at once; is never renamed.
    pub renamed_forward: u32,
    pub rebased_forward: u32,
    pub narrow_forward: u32,
    pub computed_forward: u32,
    pub indexed_forward: u32,
    /// The same for vectors of 128, 256, 512 bits; and of two stores to one load of both.
    pub wide_forward: [u32; 3],
    pub merged_forward: u32,
    /// Cycles from a branch's execution to the dispatch of the right instructions; the same for a jump with a computed target.
    pub refill: u32,
    pub indirect_refill: u32,
    /// Lines that L1 can wait for, and L2.
    pub l1_misses: u32,
    pub l2_misses: u32,
    /// Cycles × 16 of bandwidth that a line takes that is read, or written (filled and written back).
    pub l2_line: [u32; 2],
    pub l3_line: [u32; 2],
    pub dram_line: [u32; 2],
    /// The same for lines from memory that no prefetcher foresees, by pages: huge ones, small ones without a kept translation.
    pub dram_random: [u32; 2],
    /// Banks that lines of L2 and of L3 fall to in turn, a power of two, and cycles × 16 that one of them takes for a line.
    pub l2_banks: Banks,
    pub l3_banks: Banks,
    /// Further cycles of a hit in the second-level TLB, of a walk with its entries in caches, and of one for a line from memory.
    pub second_tlb: u32,
    pub walk: u32,
    pub far_walk: u32,
    /// Walks under way at a time.
    pub walks: u32,
    /// Bytes of code kept in decoded form, and bytes of L1I.
    pub decoded_bytes: u32,
    pub l1i_bytes: u32,
    /// Slots × 16 a cycle of code that is not kept decoded, and that comes from L2.
    pub l1i_rate: u32,
    pub l2_rate: u32,
    /// Whether renaming adds small constants: rotations, exclusive ors and such additions in turn run faster than the ALU ports allow.
    pub renames_additions: bool,
    /// Whether `nop` takes a slot.
    pub nop_slots: bool,
    /// Bytes that a string instruction moves a cycle.
    pub string_bytes: u32,
    /// Bits of the widest useful vectors.
    pub vector_bits: u32,
}

/// Parts of a cache that lines fall to in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Banks {
    /// Number of banks, a power of two; 1: the cache has no banks.
    pub count: u32,
    /// Cycles × 16 that one of them takes for a line.
    pub line: u32,
}

impl CoreParameters {
    /// The core of `machine` while `threads` threads run, and the assumptions behind it, in words.
    pub fn new(machine: &Machine, threads: u32) -> (CoreParameters, Vec<String>) {
        let source = Source::new(machine);
        let parameters = read(&source, threads);
        (parameters, source.assumed())
    }
}

fn read(source: &Source, threads: u32) -> CoreParameters {
    let whole = |x: f64| x.round().max(1.0) as u32;
    let cycles = |id: &str, otherwise: f64| whole(source.or(id, source.cycles(id), otherwise));
    let count = |id: &str, otherwise: f64| whole(source.or(id, source.count(id), otherwise));
    let width = source.rate("width.dispatch").or_else(|| source.rate("issue"));
    let width = whole(source.or("width.dispatch", width, 4.0));
    let l1 = cycles("lat.l1", 5.0);
    let vector_l1 = |name: &str, more: f64| {
        let id = format!("form.load.{name}.lat");
        whole(source.or(&id, source.cycles(&id), f64::from(l1) + more))
    };
    let l3 = cycles("lat.l3", 60.0);
    let dram = cycles("lat.dram", 350.0);
    let far_walk = source.cycles("lat.dram.4k").map(|small| small - f64::from(dram)).filter(|more| *more > 0.0);
    let reorder = count("window.rob", 224.0);
    let fetched = |suffix: &str, otherwise: f64| {
        let id = format!("mix.mov.16{suffix}");
        (source.or(&id, source.rate(&id), otherwise) * 16.0) as u32
    };
    let nop_slots = source.rate("issue.nop").zip(source.rate("issue")).is_none_or(|(nop, issue)| nop < 1.2 * issue);
    let integer_window = count("window.int", 97.0);
    let vector_window = count("window.vector", f64::from(integer_window));
    let forward = forward(source);
    // Half a cycle of it is the cost of the chain's moves if renaming hands values on.
    let renamed = |id: &str| source.or(id, source.cycles(id), f64::from(forward)).floor() as u32;
    let refill = source.or("mispredict", source.cycles("mispredict"), 18.0);
    CoreParameters {
        width,
        retire_width: width.max(8),
        taken: whole(source.or("width.taken", source.rate("width.taken"), 1.0)),
        near_targets: count("btb.first.entries", 4096.0),
        far_taken: source.cycles("btb.second").map_or(0, |cycles| (cycles * 16.0).round() as u32),
        call_bubble: call_bubble(source),
        fetch_width: width.max(8),
        fetch_queue: 12 * width,
        reorder,
        integer_window,
        vector_window,
        one_window: vector_window.abs_diff(integer_window) <= integer_window / 5,
        loads: count("window.loads", 128.0),
        stores: count("window.stores", 72.0),
        integer_registers: count("window.registers", 0.8 * f64::from(reorder)),
        vector_registers: count("window.vector.registers", 0.8 * f64::from(reorder)),
        forms: forms::forms(source),
        bypass: forms::bypass(source),
        load_ports: ports(source, "load", 16, 2.0),
        store_ports: ports(source, "store", 20, 1.0),
        l1: [l1, vector_l1("s", 1.0), vector_l1("128", 1.0), vector_l1("256", 2.0), vector_l1("512", 2.0)],
        l2: cycles("lat.l2", 14.0),
        l3,
        dram,
        forward,
        renamed_forward: renamed("lat.forward.gpr"),
        rebased_forward: renamed("forward.base"),
        narrow_forward: renamed("forward.narrow"),
        // In its kernel an addition lies in the chain.
        computed_forward: cycles("forward.computed", f64::from(forward + 1)).saturating_sub(1),
        indexed_forward: cycles("forward.indexed", f64::from(forward)),
        wide_forward: ["128", "256", "512"].map(|width| {
            let id = format!("forward.vector.{width}");
            source.cycles(&id).map_or(forward, whole)
        }),
        merged_forward: whole(source.or("forward.wide", source.cycles("forward.wide"), 14.0)),
        // The ceiling's kernel includes the branch itself and the step from dispatch to issue.
        refill: whole(refill - 2.0),
        // In its kernel a comparison and a conditional move lie before the jump.
        indirect_refill: whole(source.cycles("mispredict.indirect").map_or(refill - 2.0, |cycles| cycles - 4.0)),
        l1_misses: count("misses.l1", 12.0),
        l2_misses: l2_misses(source),
        l2_line: lines(source, "l2", threads, 32.0),
        l3_line: lines(source, "l3", threads, 12.0),
        dram_line: lines(source, "dram", threads, 4.0),
        dram_random: random_lines(source, threads),
        l2_banks: banks(source, "l2"),
        l3_banks: banks(source, "l3"),
        second_tlb: whole(source.or("tlb.second", source.cycles("tlb.second"), 7.0)),
        walk: whole(source.or("tlb.walk", source.cycles("tlb.walk"), 30.0)),
        walks: count("tlb.walks", 4.0),
        far_walk: far_walk.map_or(70, whole),
        decoded_bytes: whole(source.or("bytes of decoded code", None, 16_384.0)),
        l1i_bytes: whole(source.or("bytes of L1I", None, 32_768.0)),
        l1i_rate: fetched(".l1i", 4.0),
        l2_rate: fetched(".l2", 2.0),
        renames_additions: source
            .rate("int.alu.scalar")
            .zip(source.rate("form.add.rate").or_else(|| source.rate("int.add.scalar")))
            .is_some_and(|(mixed, adds)| mixed > adds.ceil() + 0.3),
        nop_slots,
        string_bytes: whole(source.or("bytes of a string instruction a cycle", None, 32.0)),
        vector_bits: source.machine().vector_bits.unwrap_or(128),
    }
}

/// Lines that L2 can wait for. No ceiling says how many; but those of the measured streams are under way together, for as long as their
/// level takes (Little's law), so there are at least as many.
fn l2_misses(source: &Source) -> u32 {
    let under_way =
        |level: &str| Some(source.rate(&format!("{level}.read"))? / 64.0 * source.cycles(&format!("lat.{level}"))?);
    let streams = ["l3", "dram"].into_iter().filter_map(under_way).reduce(f64::max);
    source.or("misses.l2", streams.map(|lines| lines.clamp(L2_MISSES, MOST_L2_MISSES)), L2_MISSES).round() as u32
}

/// Cycles × 16 that a line takes at `level`: read, and filled for a store with its write-back. The latter has two lines' bytes.
fn lines(source: &Source, level: &str, threads: u32, otherwise: f64) -> [u32; 2] {
    let at = |kind: &str| {
        let id = format!("{level}.{kind}");
        source.rate_at(&id, threads).or_else(|| source.rate(&id))
    };
    let read = source.or(&format!("{level}.read"), at("read"), otherwise);
    let write = at("update").or_else(|| at("write")).unwrap_or(read);
    [64.0 / read, 128.0 / write].map(|cycles| (cycles * 16.0).round().clamp(1.0, 65_535.0) as u32)
}

/// A cache without measured banks has one bank that takes no time.
fn banks(source: &Source, level: &str) -> Banks {
    let count =
        source.count(&format!("banks.{level}")).map_or(1, |count| (count.round().max(1.0) as u32).next_power_of_two());
    let line = source.cycles(&format!("banks.{level}.line")).filter(|_| count > 1);
    Banks { count, line: line.map_or(0, |cycles| (cycles * 16.0).round() as u32) }
}

/// Cycles × 16 that a line of memory takes in random order: on huge pages, on small ones.
fn random_lines(source: &Source, threads: u32) -> [u32; 2] {
    let at = |id: &str| source.rate_at(id, threads).or_else(|| source.rate(id));
    let huge = source.or("dram.random", at("dram.random"), 1.0);
    let small = at("dram.random.4k").unwrap_or(huge).min(huge);
    [huge, small].map(|rate| (64.0 / rate * 16.0).round().clamp(1.0, 65_535.0) as u32)
}

fn ports(source: &Source, access: &str, first: u32, assumed: f64) -> [u32; 5] {
    ["int", "fp.scalar", "fp.128", "fp.256", "fp.512"].map(|file| {
        let id = format!("l1.access.{access}.{file}");
        let ports = (source.or(&id, source.rate(&id), assumed) - 0.1).ceil().clamp(1.0, 4.0) as u32;
        ((1 << ports) - 1) << first
    })
}

/// Cycles × 16 that a call or a return costs beyond a taken branch; a pair is two taken branches.
fn call_bubble(source: &Source) -> u32 {
    source.rate("form.call.rate").map_or(0, |pairs| ((1.0 / pairs - 2.0).max(0.0) / 2.0 * 16.0).round() as u32)
}

/// Store to load: a cycle through memory with an operation takes the forwarding and the operation's latency.
fn forward(source: &Source) -> u32 {
    let with = |op: &str| {
        let through = source.cycles("lat.forward")? + source.cycles(&format!("lat.dp.{op}.after.load.scalar"))?;
        Some(through - source.cycles(&format!("lat.dp.{op}.after.{op}.scalar"))?)
    };
    let least = ["mul", "fma"].into_iter().filter_map(with).min_by(f64::total_cmp);
    let measured = least.or_else(|| source.cycles("lat.forward"));
    source.or("lat.forward", measured, 5.0).round().max(1.0) as u32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rprof_profile::machine::Ceiling;

    /// A core with only these ceilings, at 1 GHz.
    pub(crate) fn machine(ceilings: &[(&str, f64, &str)]) -> Machine {
        let at = |&(id, value, unit): &(&str, f64, &str)| {
            let scale = match unit {
                "op" | "byte" => 1.0,
                "s" => 1e-9,
                _ => 1e9,
            };
            Ceiling { clock_hz: Some(1e9), ..Ceiling::reproduced(id, value * scale, unit, 1) }
        };
        Machine { ceilings: ceilings.iter().map(at).collect(), ..Machine::default() }
    }

    #[test]
    fn l2_waits_for_the_lines_that_pass_in_a_latency() {
        // 8 bytes a cycle for 640 cycles are 80 lines; 16 for 40 are 10.
        let known = |dram| {
            [
                ("dram.read", dram, "byte/s"),
                ("lat.dram", 640.0, "s"),
                ("l3.read", 16.0, "byte/s"),
                ("lat.l3", 40.0, "s"),
            ]
        };
        let misses = |dram| CoreParameters::new(&machine(&known(dram)), 1).0.l2_misses;
        assert_eq!([8.0, 1.0, 1000.0].map(misses), [80, 48, 256]);
    }

    #[test]
    fn ceilings_are_read_in_cycles_and_the_rest_is_assumed() {
        let known = [
            ("issue", 5.99, "instr/s"),
            ("lat.l1", 4.97, "s"),
            ("lat.dp.add.after.add.scalar", 2.01, "s"),
            ("lat.dp.mul.after.mul.scalar", 3.0, "s"),
            ("lat.dp.add.after.mul.scalar", 3.5, "s"),
            ("lat.dp.mul.after.add.scalar", 2.5, "s"),
            ("dp.add.256", 7.99, "flop/s"),
            ("dp.div.scalar", 0.25, "flop/s"),
            ("window.rob", 512.0, "op"),
            ("form.shift.ports", 3.0, "op"),
        ];
        let (core, assumed) = CoreParameters::new(&machine(&known), 1);
        assert_eq!((core.width, core.l1[0], core.reorder), (6, 5, 512));
        assert_eq!(core.l2_misses, 48);
        use crate::form::{Form, Kind};
        use rprof_isa::operation::Width;
        let of = |kind, width| core.forms[Form::new(kind, width).0 as usize];
        assert_eq!(of(Kind::FAdd, Width::W256).ports, 0x300);
        assert_eq!(of(Kind::FAdd, Width::Scalar).latency, 32);
        assert_eq!(of(Kind::FDiv, Width::Scalar).occupies, 64);
        assert_eq!(of(Kind::Shift, Width::Scalar).ports, 3);
        assert_eq!(core.bypass[1], [16, 0, 16, 0], "an addition is quicker to another addition");
        assert!(assumed.iter().any(|line| line.starts_with("window.loads")));
        assert!(!assumed.iter().any(|line| line.starts_with("window.rob")));
    }
}
