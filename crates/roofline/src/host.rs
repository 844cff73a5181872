//! The host's ceilings, looked up by id and thread count; every lookup records which ceilings it used and which were missing.

use std::collections::{BTreeSet, HashMap};

use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::clock::{self, ClockSource};
use rprof_profile::{Ceiling, Function, Machine, Run};

use super::controllers;

/// Which ceilings an estimate was made from, and which it would have needed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Ids of ceilings that were used.
    pub from: BTreeSet<String>,
    /// Descriptions of missing ceilings; an estimate with an entry here is a lower bound, or absent.
    pub missing: BTreeSet<String>,
}

impl Trace {
    /// Notes that something was not available.
    pub fn lacks(&mut self, what: impl Into<String>) {
        self.missing.insert(what.into());
    }

    /// The missing things as one sentence part, or `None`.
    pub fn reason(&self) -> Option<String> {
        if self.missing.is_empty() {
            return None;
        }
        Some(self.missing.iter().cloned().collect::<Vec<_>>().join("; "))
    }
}

/// How a ceiling behaves between and beyond the thread counts that it was measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// A resource that every core has for itself: proportional to threads.
    PerCore,
    /// A resource that cores share: constant beyond the last measured count.
    Shared,
}

/// A ceiling with its value.
#[derive(Debug, Clone, Copy)]
struct Listed<'a> {
    ceiling: &'a Ceiling,
    value: f64,
    /// Width of the registers that it works on.
    width: Width,
}

/// A machine and those of its ceilings that have a value, by id: a profile asks for them hundreds of times a function.
#[derive(Debug)]
pub struct Ceilings<'a> {
    machine: &'a Machine,
    /// Balance of the memory controllers during the run; `None` if they were not measured or were even.
    balance: Option<f64>,
    by_id: HashMap<&'a str, Vec<Listed<'a>>>,
    /// By width of its registers: the highest reference clock while a ceiling was measured.
    fastest: HashMap<Width, f64>,
    /// By register width: clock under such arithmetic divided by the reference clock, if it is below 1.
    lowered: HashMap<Width, f64>,
    /// The functions' clocks are those at which they worked, not reference clocks.
    at_work: bool,
}

impl<'a> Ceilings<'a> {
    /// Sorts the ceilings of `machine`.
    pub fn of(machine: &'a Machine) -> Self {
        let mut by_id: HashMap<_, Vec<_>> = HashMap::new();
        let mut fastest: HashMap<Width, f64> = HashMap::new();
        for ceiling in &machine.ceilings {
            let width = width_of(&ceiling.id, machine);
            let hz = fastest.entry(width).or_default();
            *hz = hz.max(ceiling.reference_clock_hz().unwrap_or(0.0));
            if let Some(value) = ceiling.value.filter(|v| v.is_finite() && *v > 0.0) {
                by_id.entry(&*ceiling.id).or_default().push(Listed { ceiling, value, width });
            }
        }
        let lowering = |width: Width| {
            let ids = ["fma", "add"].map(|op| format!("dp.{op}.{}", width.name()));
            let of = ids.iter().find_map(|id| by_id.get(id.as_str())?.iter().min_by_key(|l| l.ceiling.threads))?;
            Some((width, of.ceiling.license_ratio())).filter(|(_, factor)| *factor < 1.0)
        };
        let lowered = [Width::W256, Width::W512].into_iter().filter_map(lowering).collect();
        Ceilings { machine, balance: None, by_id, fastest, lowered, at_work: false }
    }

    /// The ceilings with the balance of the memory controllers during a run, and the source of its clocks.
    pub fn during(self, run: &Run) -> Self {
        let at_work = run.passes.iter().any(|pass| pass.clock_source == Some(ClockSource::SampledCycles));
        Ceilings { balance: controllers::uneven(&run.counters), at_work, ..self }
    }
}

/// The machine's ceilings as the terms ask for them.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    ceilings: &'a Ceilings<'a>,
    clock: Option<Clock>,
    /// [`Host::useful_width`] of multiply-adds in double precision, which every mix of instructions asks for; `None` before it is known.
    of_fma: Option<Option<Width>>,
}

/// The core's clock while a function ran.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// The reference clock: a probe between two stretches of its work sees it, or would have seen it.
    reference_clock_hz: f64,
    /// The widest registers computed with: wider ones may lower it.
    widest: Width,
    /// Factor by which the function's own registers lowered the clock, relative to `reference_clock_hz`.
    lowered: f64,
}

/// Number of instructions among which one arithmetic instruction of a width keeps the clock lowered: seen with one in 512.
const KEEPS_LOWERED: u64 = 512;

/// All register widths, narrow to wide.
pub const WIDTHS: [Width; 4] = [Width::Scalar, Width::W128, Width::W256, Width::W512];

impl<'a> Host<'a> {
    /// A view of `ceilings`.
    pub fn new(ceilings: &'a Ceilings<'a>) -> Self {
        Host { ceilings, clock: None, of_fma: None }
    }

    /// The view for `function`: with the CPUs' clock while it ran.
    pub fn of(self, function: &'a Function) -> Self {
        let mix = || function.work.iter().flat_map(|w| &w.mix);
        let widest = mix().map(|e| e.width).max().unwrap_or(Width::Scalar);
        let of_width = |width| mix().filter(|e| e.width == width).map(|e| e.instructions).sum::<u64>();
        let slots = function.work.as_ref().map_or(0, |work| work.issue_slots);
        let lowered =
            self.ceilings.lowered.iter().filter(|(width, _)| of_width(**width) * KEEPS_LOWERED >= slots.max(1));
        let lowered = lowered.map(|(_, factor)| *factor).fold(1.0, f64::min);
        // clock at work = reference clock · lowered
        let already = if self.ceilings.at_work { lowered } else { 1.0 };
        let clock = function.clock_hz.map(|hz| Clock { reference_clock_hz: hz / already, widest, lowered });
        let host = Host { clock, of_fma: None, ..self };
        Host { of_fma: Some(host.useful_width(FpOp::Fma, Precision::Dp)), ..host }
    }

    /// CPUs of the host that the program may use; at least 1.
    pub fn cores(&self) -> u32 {
        self.ceilings.machine.cores.max(1)
    }

    /// Mean / greatest load of the memory controllers during the run, if they were uneven.
    pub fn controller_balance(&self) -> Option<f64> {
        self.ceilings.balance
    }

    /// The machine itself.
    pub fn machine(&self) -> &'a Machine {
        self.ceilings.machine
    }

    fn entries(&self, id: &str) -> impl Iterator<Item = (&'a Ceiling, f64)> + use<'a> {
        let host = *self;
        self.listed(id).iter().map(move |listed| (listed.ceiling, host.clocked(listed)))
    }

    /// The ceilings `id` with a value, as they were measured.
    fn listed(&self, id: &str) -> &'a [Listed<'a>] {
        self.ceilings.by_id.get(id).map_or(&[], |all| all.as_slice())
    }

    /// The value of a ceiling at the clock of the run.
    fn clocked(&self, listed: &Listed<'a>) -> f64 {
        let Some(hz) = self.clock_for(listed.width) else { return listed.value };
        clock::value_at(listed.ceiling, listed.value, hz * self.license_ratio(listed.ceiling))
    }

    /// Frequency reduction to apply to `ceiling`, beyond the one that it was already measured with.
    fn license_ratio(&self, ceiling: &Ceiling) -> f64 {
        self.clock.map_or(1.0, |clock| (clock.lowered / ceiling.license_ratio()).min(1.0))
    }

    /// The reference clock that the run would have had during work on registers of `width`. If these are wider than those that
    /// the function used, the clock is at most the highest reference clock with such registers.
    fn clock_for(&self, width: Width) -> Option<f64> {
        let Clock { reference_clock_hz: hz, widest, .. } = self.clock?;
        let limit = self.ceilings.fastest.get(&width).filter(|fastest| width > widest && **fastest > 0.0);
        Some(limit.map_or(hz, |fastest| hz.min(*fastest)))
    }

    /// Whether ceiling `id` has a value at any thread count.
    pub fn has(&self, id: &str) -> bool {
        !self.listed(id).is_empty()
    }

    /// The unit of ceiling `id`.
    pub fn unit(&self, id: &str) -> Option<&'a str> {
        self.listed(id).first().map(|l| l.ceiling.unit.as_str())
    }

    /// Relative spread of ceiling `id`, the largest over thread counts; 0 if it is not known.
    pub fn spread(&self, id: &str) -> f64 {
        self.listed(id).iter().filter_map(|l| l.ceiling.spread).fold(0.0, f64::max)
    }

    /// Core clock in Hz during the run for work of the kind of `id`; if it is not known, the clock at which `id` was measured
    /// with the fewest threads.
    pub fn clock(&self, id: &str) -> Option<f64> {
        let Listed { ceiling, width, .. } = *self.listed(id).iter().min_by_key(|l| l.ceiling.threads)?;
        let measured = ceiling.clock_hz?;
        Some(self.clock_for(width).map_or(measured, |hz| hz * ceiling.license_ratio() * self.license_ratio(ceiling)))
    }

    /// The value of `id` without a trace entry: exact at a measured thread count, linear between two of them, by
    /// `scaling` outside.
    pub fn peek(&self, id: &str, threads: u32, scaling: Scaling) -> Option<f64> {
        let threads = threads.max(1);
        let (below, above) = around(self.entries(id).map(|(c, v)| (c.threads.max(1), v)), threads);
        let per_core = scaling == Scaling::PerCore;
        match (below, above) {
            (Some((k, v)), _) if k == threads => Some(v),
            (Some((k, v)), Some((l, w))) => Some(v + (w - v) * f64::from(threads - k) / f64::from(l - k)),
            (Some((k, v)), None) if per_core => Some(v * f64::from(threads.min(self.cores().max(k))) / f64::from(k)),
            (Some((_, v)), None) => Some(v),
            (None, Some((l, w))) if per_core => Some(w * f64::from(threads) / f64::from(l)),
            (None, Some((_, w))) => Some(w),
            (None, None) => None,
        }
    }

    /// Ceiling `id` over ceiling `of`, at most 1: exact if both were measured at `threads`, linear between two such counts;
    /// `None` beyond them, since `of` would scale on and `id` not.
    pub fn share_of(&self, id: &str, of: &str, threads: u32) -> Option<f64> {
        let threads = threads.clamp(1, self.cores().max(1));
        let at = |n: u32| self.entries(of).find(|(c, _)| c.threads.max(1) == n).map(|(_, v)| v);
        let share = |(c, v): (&Ceiling, f64)| {
            let n = c.threads.max(1);
            Some((n, (v / at(n)?).min(1.0)))
        };
        let (below, above) = around(self.entries(id).filter_map(share), threads);
        let ((k, v), (l, w)) = below.zip(above)?;
        Some(v + (w - v) * f64::from(threads - k) / f64::from((l - k).max(1)))
    }

    /// The value of `id` at `threads`, noted in `trace`.
    pub fn value(&self, id: &str, threads: u32, scaling: Scaling, trace: &mut Trace) -> Option<f64> {
        let found = self.peek(id, threads, scaling);
        match found {
            Some(_) => trace.from.insert(id.to_owned()),
            None => trace.missing.insert(format!("{id} not measured")),
        };
        found
    }

    /// A value that does not depend on the thread count (latencies): that with the fewest threads, noted in `trace`.
    pub fn latency(&self, id: &str, trace: &mut Trace) -> Option<f64> {
        let found = self.entries(id).min_by_key(|(c, _)| c.threads).map(|(_, v)| v);
        match found {
            Some(_) => trace.from.insert(id.to_owned()),
            None => trace.missing.insert(format!("{id} not measured")),
        };
        found
    }

    /// One core cycle in seconds, from the clock that ran beside the roof; `None` if no clock was measured.
    pub fn cycle(&self, trace: &mut Trace) -> Option<f64> {
        for id in ["dp.fma", "dp.simd", "dp.ilp", "dp.tlp", "issue"] {
            if let Some(hz) = self.clock(id).filter(|hz| *hz > 0.0) {
                return Some(1.0 / hz);
            }
        }
        trace.lacks("core clock not measured");
        None
    }

    /// Id of the throughput ceiling for arithmetic of this kind; approximations and dot forms are rated as multiplies,
    /// x87 as scalar double precision. Of bfloat16 there are dot products alone.
    pub fn throughput_id(op: FpOp, precision: Precision, width: Width) -> String {
        let op = if op == FpOp::Other { FpOp::Mul } else { op };
        match precision {
            Precision::X87 => format!("dp.{}.scalar", op.name()),
            Precision::Bf16 => format!("bf16.dot.{}", width.name()),
            _ => format!("{}.{}.{}", precision.name(), op.name(), width.name()),
        }
    }

    /// Instructions per second of one kind of arithmetic, all lanes active, without a trace entry.
    ///
    /// `instructions/s = (flop/s) / (FLOPs of one instruction)`
    pub fn peek_instructions(&self, op: FpOp, precision: Precision, width: Width, threads: u32) -> Option<f64> {
        let id = Self::throughput_id(op, precision, width);
        let value = self.peek(&id, threads, Scaling::PerCore)?;
        Some(match self.unit(&id) {
            Some("instr/s" | "op/s") => value,
            _ => value / full_flops(op, precision, width),
        })
    }

    /// [`peek_instructions`](Self::peek_instructions), noted in `trace`.
    pub fn instructions(
        &self,
        op: FpOp,
        precision: Precision,
        width: Width,
        threads: u32,
        trace: &mut Trace,
    ) -> Option<f64> {
        self.value(&Self::throughput_id(op, precision, width), threads, Scaling::PerCore, trace)?;
        self.peek_instructions(op, precision, width, threads)
    }

    /// The narrowest width with a FLOP rate within 3 % of the best for this operation: the widest that is useful.
    pub fn useful_width(&self, op: FpOp, precision: Precision) -> Option<Width> {
        if precision == Precision::X87 {
            return Some(Width::Scalar);
        }
        if let (FpOp::Fma, Precision::Dp, Some(known)) = (op, precision, self.of_fma) {
            return known;
        }
        let rate = |w: Width| self.peek_instructions(op, precision, w, 1).map(|i| i * full_flops(op, precision, w));
        let rates = WIDTHS.map(rate);
        let best = rates.into_iter().flatten().fold(0.0, f64::max);
        WIDTHS.into_iter().zip(rates).find(|(_, rate)| rate.is_some_and(|r| r >= 0.97 * best)).map(|(w, _)| w)
    }

    /// The roof in FLOP/s for a precision at `threads`: `{dp,sp}.fma`, the best `bf16.dot`, without a trace entry.
    pub fn roof(&self, precision: Precision, threads: u32) -> Option<f64> {
        if precision == Precision::Bf16 {
            let dot = |w| self.peek(&Self::throughput_id(FpOp::Other, precision, w), threads, Scaling::PerCore);
            return WIDTHS.into_iter().filter_map(dot).reduce(f64::max);
        }
        let name = if precision == Precision::X87 { "dp" } else { precision.name() };
        self.peek(&format!("{name}.fma"), threads, Scaling::PerCore)
    }
}

/// A thread count, and a value at it.
type At = (u32, f64);

/// The values at the nearest thread counts up to `threads` and from `threads` on; both are the value at `threads` if there is one.
fn around(values: impl Iterator<Item = At>, threads: u32) -> (Option<At>, Option<At>) {
    let (mut below, mut above): (Option<At>, Option<At>) = (None, None);
    for at in values {
        if at.0 <= threads && below.is_none_or(|b| at.0 > b.0) {
            below = Some(at);
        }
        if at.0 >= threads && above.is_none_or(|a| at.0 < a.0) {
            above = Some(at);
        }
    }
    (below, above)
}

/// The register width of ceiling `id`: the widest for ceilings of the ladder, scalar for ids that name no width.
fn width_of(id: &str, machine: &Machine) -> Width {
    let named = WIDTHS.into_iter().find(|w| id.split('.').any(|part| part == w.name()));
    let of_ladder = || ["simd", "fma", "peak", "balance"].iter().any(|rung| id.split('.').nth(1) == Some(*rung));
    let widest = || match machine.vector_bits {
        Some(512) => Width::W512,
        Some(256) => Width::W256,
        _ => Width::W128,
    };
    named.unwrap_or_else(|| if of_ladder() { widest() } else { Width::Scalar })
}

/// FLOPs of one instruction with all lanes active: lanes, times two for a fused multiply-add and for dot products of bfloat16.
pub fn full_flops(op: FpOp, precision: Precision, width: Width) -> f64 {
    f64::from(width.lanes(precision)) * if op == FpOp::Fma || precision == Precision::Bf16 { 2.0 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::function::{MixEntry, Work};

    #[test]
    fn bfloat16_is_rated_by_its_dot_products() {
        let ceiling = |id: &str, value: f64| Ceiling {
            clock_hz: Some(1e9),
            spread: Some(0.01),
            ..Ceiling::reproduced(id, value, "flop/s", 1)
        };
        // Two instructions a cycle at 512 and at 256 bits.
        let ceilings = vec![ceiling("bf16.dot.512", 128e9), ceiling("bf16.dot.256", 64e9)];
        let machine = Machine { cores: 1, ceilings, ..Machine::default() };
        let ceilings = Ceilings::of(&machine);
        let host = Host::new(&ceilings);
        let rate = |width| host.peek_instructions(FpOp::Other, Precision::Bf16, width, 1);
        assert_eq!((rate(Width::W512), rate(Width::W256), rate(Width::W128)), (Some(2e9), Some(2e9), None));
        assert_eq!(host.roof(Precision::Bf16, 1), Some(128e9));
        assert_eq!(host.roof(Precision::Hp, 1), None);
    }

    #[test]
    fn a_share_of_another_ceiling_is_told_between_thread_counts_that_both_have() {
        let ceilings = [("dram.read", 1, 20e9), ("dram.read", 2, 40e9), ("dram.read", 4, 40e9), ("dram.read", 8, 40e9)]
            .into_iter()
            .chain([("dram.read.4k", 1, 10e9), ("dram.read.4k", 8, 44e9), ("dram.copy.4k", 1, 10e9)])
            .chain([("dram.copy", 1, 20e9), ("dram.copy", 8, 80e9)]);
        let ceilings = ceilings.map(|(id, threads, rate)| Ceiling::reproduced(id, rate, "byte/s", threads)).collect();
        let machine = Machine { cores: 8, ceilings, ..Machine::default() };
        let ceilings = Ceilings::of(&machine);
        let share = |kind: &str, threads| {
            Host::new(&ceilings).share_of(&format!("dram.{kind}.4k"), &format!("dram.{kind}"), threads)
        };
        assert_eq!([1, 8, 16].map(|n| share("read", n)), [Some(0.5), Some(1.0), Some(1.0)], "never more than all");
        assert!(share("read", 2).is_some_and(|s| (s - (0.5 + 0.5 / 7.0)).abs() < 1e-12), "{:?}", share("read", 2));
        assert_eq!([1, 2, 8].map(|n| share("copy", n)), [Some(0.5), None, None], "nothing is known of more threads");
    }

    #[test]
    fn ceilings_of_the_core_are_those_at_the_clock_of_the_run() {
        let ceiling = |id: &str, unit: &str, value: f64, ghz: f64| Ceiling {
            clock_hz: Some(ghz * 1e9),
            ..Ceiling::reproduced(id, value, unit, 1)
        };
        let ceilings = vec![
            ceiling("dp.add.scalar", "flop/s", 6e9, 3.0),
            ceiling("dp.add.512", "flop/s", 40e9, 2.5),
            ceiling("dp.fma", "flop/s", 80e9, 2.5),
            ceiling("lat.l2", "s", 4e-9, 3.0),
            ceiling("dram.read", "byte/s", 10e9, 3.0),
        ];
        let machine = Machine { cores: 1, vector_bits: Some(512), ceilings, ..Machine::default() };
        let ceilings = Ceilings::of(&machine);
        let add = |width| MixEntry { op: FpOp::Add, precision: Precision::Dp, width, instructions: 1, flops: 1 };
        let at = |ghz: f64, width| {
            let work = Some(Work { mix: vec![add(width)], ..Work::default() });
            let function = Function { clock_hz: Some(ghz * 1e9), work, ..Function::default() };
            let host = Host::new(&ceilings).of(&function);
            let value = |id| host.peek(id, 1, Scaling::PerCore).unwrap();
            let cycle = (host.cycle(&mut Trace::default()).unwrap() * 1e12).round();
            (["dp.add.scalar", "dp.add.512", "dp.fma", "dram.read"].map(|id| (value(id) * 1e-8).round()), cycle)
        };
        assert_eq!(at(1.5, Width::W512), ([30.0, 240.0, 480.0, 100.0], 667.0));
        assert_eq!(at(3.0, Width::W512), ([60.0, 480.0, 960.0, 100.0], 333.0), "it did run so with wide registers");
        assert_eq!(at(3.6, Width::Scalar), ([72.0, 400.0, 800.0, 100.0], 400.0), "wide registers never did");
        // Looks come too late to see how wide vectors lower the clock; the core's other work slows down, too.
        let mut machine = machine.clone();
        machine.ceilings[1].idle_clock_hz = Some(3.0e9);
        let ceilings = Ceilings::of(&machine);
        let beside = |slots| {
            let work = Some(Work { mix: vec![add(Width::W512)], issue_slots: slots, ..Work::default() });
            let function = Function { clock_hz: Some(3.0e9), work, ..Function::default() };
            let host = Host::new(&ceilings).of(&function);
            ["dp.add.scalar", "dp.add.512", "dram.read"]
                .map(|id| (host.peek(id, 1, Scaling::PerCore).unwrap() * 1e-8).round())
        };
        assert_eq!(beside(512), [50.0, 400.0, 100.0]);
        assert_eq!(beside(100_000), [60.0, 400.0, 100.0], "too rarely");
        // Cycles between samples have that in them: the clock that they give is not lowered once more.
        let pass = serde_json::json!({"kind": "timed", "source": "perf:cycles", "wall_s": 1.0, "cpu_s": 1.0,
            "clock_source": "sampled_cycles"});
        let run = Run { passes: vec![serde_json::from_value(pass).expect("a pass")], ..Run::default() };
        let sampled = Ceilings::of(&machine).during(&run);
        let work = Some(Work { mix: vec![add(Width::W512)], issue_slots: 512, ..Work::default() });
        let function = Function { clock_hz: Some(2.5e9), work, ..Function::default() };
        let host = Host::new(&sampled).of(&function);
        let at_work = ["dp.add.scalar", "dp.add.512", "dram.read"]
            .map(|id| (host.peek(id, 1, Scaling::PerCore).unwrap() * 1e-8).round());
        assert_eq!(at_work, beside(512), "2.5 GHz at work is 3.0 GHz between stretches of it");
        let function = Function { clock_hz: Some(1.5e9), ..Function::default() };
        let latency = Host::new(&ceilings).of(&function).latency("lat.l2", &mut Trace::default());
        assert_eq!(latency, Some(8e-9));
    }
}
