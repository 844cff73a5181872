//! A machine with computed ceilings, for pictures of more CPUs than the test has.

use rprof_profile::{Ceiling, Machine};

/// Bandwidth of memory with all threads, and of one core, in byte/s.
const DRAM: f64 = 200e9;
const ONE_CORE: f64 = 15e9;

/// Bytes a second that `cores` cores read together.
pub fn read(cores: u32) -> f64 {
    (f64::from(cores) * ONE_CORE).min(DRAM)
}

/// A machine of `threads` CPUs: each has its core, all share the memory.
pub fn machine(threads: u32) -> Machine {
    let n = f64::from(threads);
    let all = |id: &str, value: f64, unit: &str| Ceiling::reproduced(id, value, unit, threads);
    let mut ceilings = vec![
        all("dp.tlp", 1e9 * n, "flop/s"),
        all("dp.ilp", 6e9 * n, "flop/s"),
        all("dp.simd", 24e9 * n, "flop/s"),
        all("dp.fma", 48e9 * n, "flop/s"),
        all("dp.peak", 64e9 * n, "flop/s"),
        all("l1.read", 200e9 * n, "byte/s"),
        all("l2.read", 100e9 * n, "byte/s"),
        all("l3.read", 30e9 * n, "byte/s"),
        all("dram.read", read(threads), "byte/s"),
        // Better than reads, as on hosts that evade fills.
        all("dram.copy", 1.2 * read(threads), "byte/s"),
        all("dram.random", 0.3 * read(threads), "byte/s"),
        all("dram.chase.4", 0.2e9 * n, "byte/s"),
        all("dram.chase.1", 0.05e9 * n, "byte/s"),
    ];
    let mut part = 2;
    while part <= threads {
        let busy = f64::from(threads.div_ceil(part));
        ceilings.push(all(&format!("imbalance.{part}"), 48e9 * busy, "flop/s"));
        part *= 2;
    }
    let mut cores = 1;
    while cores <= threads {
        ceilings.push(Ceiling::reproduced(&format!("dram.cores.{cores}"), read(cores), "byte/s", cores));
        cores *= 2;
    }
    Machine { cpu: format!("{threads} CPUs"), cores: threads, ceilings, ..Machine::default() }
}
