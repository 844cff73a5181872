//! Random profiles of one function on a recorded machine: equal seeds draw equal ones.

use super::kernel::{self, Kernel, zen5};
use rprof_basics::random::SplitMix;
use rprof_isa::dependency::ChainStep;
use rprof_isa::facts::{AccessKind, InstructionClass};
use rprof_isa::operation::{FpOp, Precision, Width};
use rprof_profile::account::{Account, Cause, Changes, WhatIf};
use rprof_profile::function::PerThread;
use rprof_profile::mpi::{CallSite, Mpi};
use rprof_profile::pages::Pages;
use rprof_profile::prefetch::Prefetch;
use rprof_profile::run::{Pass, Rank};
use rprof_profile::{Ceiling, Function, Profile};

/// The profile with this number.
pub fn profile(seed: u64) -> Profile {
    Draw(SplitMix::new(seed)).profile()
}

/// Draws of one profile.
struct Draw(SplitMix);

impl Draw {
    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.0.unit() * n as f64) as u64
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A share that is 0 every second time.
    fn share(&mut self) -> f64 {
        if self.below(2) == 0 { 0.0 } else { self.0.unit() }
    }

    fn work(&mut self) -> Kernel {
        let op = self.one(&[FpOp::Add, FpOp::Mul, FpOp::Fma, FpOp::Div]);
        let (precision, width) = (self.one(&[Precision::Dp, Precision::Sp]), self.one(&[Width::Scalar, Width::W256]));
        let mut kernel = Kernel::new("random").fp(1 + self.below(8), op, precision, width);
        kernel = kernel.filler(InstructionClass::Alu, self.below(20)).filler(InstructionClass::Branch, self.below(3));
        let reads = self.below(6);
        kernel = kernel.access(reads, AccessKind::Load, self.one(&[4, 8, 32]), true).access(
            self.below(4),
            AccessKind::Store,
            8,
            true,
        );
        if self.below(2) == 0 {
            let step = ChainStep::arithmetic(op, precision, width);
            let chains = 1 + self.below(3) as usize;
            kernel = kernel.chain(chains, &vec![step; 1 + self.below(4) as usize]);
        }
        kernel.traffic(|t| {
            let bytes = self.within(0.0, 64.0);
            (t.l2_read, t.l2_write) = (bytes, bytes * self.share());
            (t.l3_read, t.l3_write) = (t.l2_read * self.0.unit(), t.l2_write * self.0.unit());
            (t.dram_read, t.dram_write) = (t.l3_read * self.0.unit(), t.l3_write * self.0.unit());
            t.dram_fill = t.dram_write.min(t.dram_read) * self.share();
            t.dram_overwritten = t.dram_fill * self.share();
            (t.l1_misses, t.l2_misses, t.l3_misses) = (t.l2_read / 64.0, t.l3_read / 64.0, t.dram_read / 64.0);
            let kinds = [self.0.unit(), self.share(), self.share()];
            let all: f64 = kinds.iter().sum();
            let of = |n: usize| t.l3_misses * kinds[n] / all.max(1e-9);
            (t.compulsory, t.capacity, t.conflict) = (of(0), of(1), of(2));
            (t.l1_conflict, t.l2_conflict) = (t.l1_misses * self.share(), t.l2_misses * self.share());
            let lines = [self.0.unit(), self.share(), self.share(), self.share()];
            let all: f64 = lines.iter().sum();
            let of = |n: usize| t.l1_misses * lines[n] / all.max(1e-9);
            (t.unit_lines, t.strided_lines, t.random_lines, t.gathered_lines) = (of(0), of(1), of(2), of(3));
            (t.small_page_lines, t.huge_page_lines) = (t.l3_misses * self.share(), t.l3_misses * 0.1);
        })
    }

    fn account(&mut self, cpu_s: f64) -> Account {
        let weights: Vec<f64> = Cause::ALL.iter().map(|_| self.share()).collect();
        let all: f64 = weights.iter().sum::<f64>().max(1e-9);
        let model_s = cpu_s * self.within(0.4, 2.2);
        let parts = Cause::ALL.iter().zip(&weights).map(|(cause, weight)| (*cause, model_s * weight / all)).collect();
        let singles = WhatIf::ALL.iter().map(|change| Changes::from(*change));
        let what_if_s = singles.map(|change| (change, model_s * self.within(0.0, 1.1))).collect();
        Account { model_s, parts, what_if_s, ..Account::default() }
    }

    /// A function of `team` threads that lasted `time_s` seconds.
    fn function(&mut self) -> Function {
        let mut f = self.work().function;
        let team = self.one(&[1, 2, 4]);
        let busy = self.within(1.0 / f64::from(team), 1.0);
        let time_s = self.within(0.01, 0.3);
        let mean = (busy * f64::from(team)).max(1.0);
        (f.team, f.allowed_cpus, f.lambda) = (Some(team), Some(team + self.one(&[0, 4])), Some(busy));
        f.concurrency = vec![0.0; team as usize];
        if team > 1 {
            f.concurrency[0] = (f64::from(team) - mean) / f64::from(team - 1);
        }
        f.concurrency[team as usize - 1] += 1.0 - f.concurrency[0];
        (f.time_s, f.cpu_s, f.exclusive_s) = (Some(time_s), Some(time_s * mean), Some(time_s * self.0.unit()));
        f.pages = Some(Pages { touched: 100, ..Pages::default() });
        f.work.iter_mut().for_each(|work| work.calls = Some(1));
        let dram = f.bytes.and_then(|bytes| bytes.dram).unwrap_or(0) as f64;
        let of_first = if self.below(2) == 0 { 1.0 / f64::from(team) } else { self.within(1.0 / f64::from(team), 1.0) };
        let part = |thread: u32| match (thread, team) {
            (0, 1) => 1.0,
            (0, _) => of_first,
            _ => (1.0 - of_first) / f64::from(team - 1),
        };
        let of_thread =
            |thread| PerThread { thread, dram_bytes: Some((dram * part(thread)) as u64), ..PerThread::default() };
        f.per_thread = (0..team).map(of_thread).collect();
        // Threads that fault together: their CPU seconds are as many times the elapsed ones.
        let fault_time_s = self.share() * time_s;
        f.fault_time_s = Some(fault_time_s);
        f.fault_s = Some(fault_time_s * self.within(1.0, f64::from(team)));
        f.kernel_s = f.fault_s;
        f.prefetch = Some(Prefetch { lines: 100.0, foreseen: 20.0, computable: 80.0 * self.0.unit(), chased: 0.0 });
        f.account = (self.below(3) > 0).then(|| self.account(time_s * mean));
        f
    }

    /// A run with one function, which two ranks may call MPI in.
    fn profile(&mut self) -> Profile {
        let function = self.function();
        let elapsed = function.time_s.unwrap_or(0.0) + function.fault_time_s.unwrap_or(0.0);
        let mut made = kernel::profile(vec![function], zen5());
        made.machine.ceilings.push(Ceiling::reproduced("pagefault", 2.5e-7, "s", 1));
        let in_mpi = if self.below(3) == 0 { self.within(0.0, 3.0) * elapsed } else { 0.0 };
        made.run.passes.push(Pass { kind: "timed".into(), wall_s: elapsed + in_mpi, ..Pass::default() });
        if in_mpi > 0.0 {
            let rank = Rank { wall_s: Some(elapsed + in_mpi), ..Rank::default() };
            made.run.ranks = vec![rank; 2];
            let site = CallSite {
                caller: "random".into(),
                call: "MPI_Allreduce".into(),
                calls: Some(100),
                // Of both ranks, and in the counted pass: longer than the run.
                time_s: Some(4.0 * in_mpi),
                waiting_s: Some(4.0 * in_mpi * self.0.unit()),
                ..CallSite::default()
            };
            made.mpi = Some(Mpi { sites: vec![site], ..Mpi::default() });
        }
        made
    }
}
