//! A hand-made function: the instructions of one iteration, the number of iterations, and the time.

use rprof_isa::facts::{AccessKind, InstructionClass};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::{
    AccessEntry, Bytes, Chain, ChainStep, Cycle, Flops, FlopsByOp, FlopsByWidth, Function, MixEntry, Work,
};
use rprof_profile::{Machine, Profile};

/// Clock of the recorded machine.
pub const HZ: f64 = 4.2e9;
/// Iterations of every kernel.
pub const ITERATIONS: u64 = 100_000_000;

pub fn zen5() -> Machine {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines/zen5-guest.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Starts with nothing executed, one thread on one allowed CPU.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub function: Function,
}

impl Kernel {
    pub fn new(name: &str) -> Kernel {
        let function = Function {
            name: name.into(),
            team: Some(1),
            concurrency: vec![1.0],
            allowed_cpus: Some(1),
            lambda: Some(1.0),
            instructions: Some(0),
            fp_instructions: Some(0),
            int_ops: Some(0),
            flops: Some(Flops::default()),
            work: Some(Work { chain_coverage: 1.0, code_bytes: 200, ..Work::default() }),
            ..Function::default()
        };
        // Loop control: an add and a fused compare-and-branch.
        Kernel { function }.filler(InstructionClass::Alu, 0)
    }

    fn work(&mut self) -> &mut Work {
        self.function.work.as_mut().unwrap()
    }

    /// `n` arithmetic instructions an iteration with `lanes` of their lanes active.
    pub fn lanes(mut self, n: u64, op: FpOp, p: Precision, w: Width, lanes: u32) -> Kernel {
        let instructions = n * ITERATIONS;
        let flops = instructions * u64::from(lanes) * if op == FpOp::Fma { 2 } else { 1 };
        self.work().mix.push(MixEntry { op, precision: p, width: w, instructions, flops });
        let total = self.function.flops.as_mut().unwrap();
        total.total += flops;
        *(if p == Precision::Sp { &mut total.sp } else { &mut total.dp }) += flops;
        let FlopsByOp { add, mul, fma, div, sqrt, other } = &mut total.by_op;
        *(match op {
            FpOp::Add => add,
            FpOp::Mul => mul,
            FpOp::Fma => fma,
            FpOp::Div => div,
            FpOp::Sqrt => sqrt,
            FpOp::Other => other,
        }) += flops;
        let FlopsByWidth { scalar, w128, w256, w512 } = &mut total.by_width;
        *(match w {
            Width::Scalar => scalar,
            Width::W128 => w128,
            Width::W256 => w256,
            Width::W512 => w512,
        }) += flops;
        *self.function.fp_instructions.as_mut().unwrap() += instructions;
        self.filler(InstructionClass::Fp, n)
    }

    /// `n` arithmetic instructions an iteration, all lanes active.
    pub fn fp(self, n: u64, op: FpOp, p: Precision, w: Width) -> Kernel {
        self.lanes(n, op, p, w, w.lanes(p))
    }

    /// `n` instructions of `class` an iteration.
    pub fn filler(mut self, class: InstructionClass, n: u64) -> Kernel {
        let executed = n * ITERATIONS;
        self.work().classes.push((class, executed));
        self.work().issue_slots += executed;
        *self.function.instructions.as_mut().unwrap() += executed;
        if class == InstructionClass::Alu {
            *self.function.int_ops.as_mut().unwrap() += executed;
        }
        self
    }

    /// `n` memory operands an iteration.
    pub fn access(mut self, n: u64, kind: AccessKind, bytes: u32, vector: bool) -> Kernel {
        self.work().accesses.push(AccessEntry { kind, bytes, vector, count: n * ITERATIONS });
        let (read, written) =
            if kind == AccessKind::Load { (n * u64::from(bytes), 0) } else { (0, n * u64::from(bytes)) };
        let t = self.work().traffic.get_or_insert_default();
        t.l1_read += (read * ITERATIONS) as f64;
        t.l1_write += (written * ITERATIONS) as f64;
        let total = t.l1_read + t.l1_write;
        self.function.bytes.get_or_insert_default().l1 = Some(total as u64);
        self
    }

    /// Changes the traffic beyond L1, per iteration.
    pub fn traffic(mut self, change: impl FnOnce(&mut Traffic)) -> Kernel {
        let mut per = Traffic::default();
        change(&mut per);
        let n = ITERATIONS as f64;
        let t = self.work().traffic.get_or_insert_default();
        *t = Traffic {
            l1_read: t.l1_read,
            l1_write: t.l1_write,
            l2_read: per.l2_read * n,
            l2_write: per.l2_write * n,
            l3_read: per.l3_read * n,
            l3_write: per.l3_write * n,
            dram_read: per.dram_read * n,
            dram_write: per.dram_write * n,
            dram_fill: per.dram_fill * n,
            dram_overwritten: per.dram_overwritten * n,
            dram_used_again: per.dram_used_again * n,
            dram_nt: per.dram_nt * n,
            l1_misses: per.l1_misses * n,
            l2_misses: per.l2_misses * n,
            l3_misses: per.l3_misses * n,
            compulsory: per.compulsory * n,
            capacity: per.capacity * n,
            conflict: per.conflict * n,
            l1_conflict: per.l1_conflict * n,
            l2_conflict: per.l2_conflict * n,
            coherence: per.coherence * n,
            unit_lines: per.unit_lines * n,
            strided_lines: per.strided_lines * n,
            random_lines: per.random_lines * n,
            gathered_lines: per.gathered_lines * n,
            seen_lines: per.seen_lines * n,
            l1_scatter: per.l1_scatter * n,
            l2_scatter: per.l2_scatter * n,
            l3_scatter: per.l3_scatter * n,
            dram_write_scatter: per.dram_write_scatter * n,
            l3_seen_lines: per.l3_seen_lines * n,
            stale_lines: per.stale_lines * n,
            l3_stale_lines: per.l3_stale_lines * n,
            cold_lines: per.cold_lines * n,
            small_page_lines: per.small_page_lines * n,
            huge_page_lines: per.huge_page_lines * n,
            unseen: per.unseen * n,
            untracked: per.untracked * n,
        };
        let t = *t;
        self.function.bytes = Some(Bytes {
            l1: Some((t.l1_read + t.l1_write) as u64),
            l2: Some((t.l2_read + t.l2_write) as u64),
            l3: Some((t.l3_read + t.l3_write) as u64),
            dram: Some((t.dram_read + t.dram_write) as u64),
            dram_read: Some(t.dram_read as u64),
            dram_write: Some(t.dram_write as u64),
        });
        self
    }

    /// `cycles` independent dependency cycles of these steps, one iteration each.
    pub fn chain(self, cycles: usize, steps: &[ChainStep]) -> Kernel {
        self.restarted(cycles, steps, None)
    }

    /// Like [`chain`](Self::chain), restarted after `restart_every` iterations.
    pub fn restarted(mut self, cycles: usize, steps: &[ChainStep], restart_every: Option<f64>) -> Kernel {
        let fp = steps.iter().filter(|s| matches!(s, ChainStep::Fp { .. })).count() * cycles;
        self.work().chains.push(Chain {
            header: 0x1000,
            line: Some(7),
            file: None,
            iterations: ITERATIONS,
            entries: 1,
            threads: 1,
            cycles: vec![Cycle { steps: steps.to_vec(), distance: 1 }; cycles],
            fp_per_iteration: fp as f64,
            restart_every,
            stored: false,
        });
        self
    }

    /// Ran on `k` threads all the time, `allowed` CPUs.
    pub fn threads(mut self, k: u32, allowed: u32) -> Kernel {
        self.function.team = Some(k);
        self.function.allowed_cpus = Some(allowed);
        self.function.concurrency = vec![0.0; k as usize];
        self.function.concurrency[k as usize - 1] = 1.0;
        self
    }

    /// Measured cycles an iteration (elapsed).
    pub fn took(mut self, cycles: f64) -> Kernel {
        let seconds = cycles * ITERATIONS as f64 / HZ;
        self.function.time_s = Some(seconds);
        self.function.cpu_s = Some(seconds);
        self.function.exclusive_s = Some(seconds);
        self.function.share = Some(1.0);
        self.function.time_ci95_s = Some(0.01 * seconds);
        self
    }

    /// Analysed on the recorded machine.
    pub fn analysed(self) -> Function {
        let mut profile = profile(vec![self.function], zen5());
        super::super::analyse(&mut profile);
        profile.functions.remove(0)
    }
}

pub fn profile(functions: Vec<Function>, machine: Machine) -> Profile {
    Profile { schema: rprof_profile::SCHEMA.into(), machine, functions, ..Profile::default() }
}
