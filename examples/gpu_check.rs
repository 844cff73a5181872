//! Compares the counts of `rprof demo --gpu` with the known work of its kernels: `gpu_check PROFILE.json`. Prints a line for each
//! kernel and ends with 1 where a figure is off by more than its tolerance.
//!
//! Tolerances (docs/conventions.md, GPU): FLOPs none; DRAM reads 0.1 %; L1 one KiB a launch; L2 0.1 % on streams, a lower bound within
//! 1.5 % where several multiprocessors read the same lines; shared memory 0.2 %. What is written to DRAM may still lie in L2 at the end of
//! a launch.

use std::process::ExitCode;

use rprof::machine::gpu::known;
use rprof::machine::gpu::ptx::{Known, yard};
use rprof::profile::device::{Counts, Kernel};

/// Bytes beside a kernel's own: its clock record and parameters.
const BESIDE: f64 = 1024.0;

/// A figure that is compared.
struct Figure {
    name: &'static str,
    counted: Option<f64>,
    known: f64,
    tolerance: f64,
}

fn figures(known: &Known, counts: &Counts) -> Vec<Figure> {
    let n = counts.launches as f64;
    let name = known.kernel.name.as_str();
    let tensor = counts.tensor.iter().map(|work| work.operations).sum::<f64>();
    let merged = name.contains("l2_read");
    let flops = |name, counted, each: u64| Figure { name, counted, known: n * each as f64, tolerance: 0.0 };
    let mut all = vec![
        flops("fp64", counts.fp64, known.flops_fp64),
        flops("fp32", counts.fp32, known.flops_fp32),
        flops("fp16", counts.fp16.or((known.flops_fp16 == 0).then_some(0.0)), known.flops_fp16),
        flops("tensor", Some(tensor), known.flops_tensor),
    ];
    let mut bytes = |name, counted: Option<f64>, each: Option<u64>, share: f64| {
        if let Some(each) = each {
            all.push(Figure { name, counted, known: n * each as f64, tolerance: n * (share * each as f64 + BESIDE) });
        }
    };
    let warm = merged || name.contains("l1_read");
    bytes("dram read", counts.dram_read, known.dram_read.filter(|_| !warm), 0.001);
    bytes("dram written", counts.dram_write, known.dram_write.filter(|bytes| *bytes > 0), 0.05);
    bytes("l2", counts.l2, known.l2, if merged { 0.015 } else { 0.001 });
    bytes("l1", counts.l1, known.l1, 0.0);
    bytes("shared", counts.shared, known.shared, 0.002);
    all
}

fn check(known: &Known, kernel: &Kernel) -> bool {
    let Some(counts) = &kernel.counts else {
        println!("{:24} not counted", known.kernel.name);
        return false;
    };
    let mut text = String::new();
    let mut right = true;
    for figure in figures(known, counts).iter().filter(|figure| figure.known > 0.0 || figure.counted != Some(0.0)) {
        let off = figure.counted.map(|counted| counted - figure.known);
        let fits = off.is_some_and(|off| off.abs() <= figure.tolerance);
        right &= fits;
        let shown = match (off, figure.known > 0.0) {
            (None, _) => "not counted".into(),
            (Some(0.0), _) => "exact".into(),
            (Some(off), true) => format!("{:+.4} %", 100.0 * off / figure.known),
            (Some(off), false) => format!("{off:+.0}"),
        };
        text += &format!("  {} {shown}{}", figure.name, if fits { "" } else { " WRONG" });
    }
    let class = kernel.analysis.as_ref().map_or("", |analysis| analysis.class.as_str());
    let expected = known::expected(&kernel.symbol);
    let verdict = match expected {
        Some(expected) if expected != class => format!("class {class} instead of {expected} WRONG"),
        _ => format!("class {class}"),
    };
    right &= expected.is_none_or(|expected| expected == class);
    println!("{:24} {:2} of {:2} launches{text}  {verdict}", known.kernel.name, counts.launches, kernel.launches);
    right
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: gpu_check PROFILE.json");
        return ExitCode::from(2);
    };
    let profile = match rprof::report::json::read(path.as_ref()) {
        Ok(profile) => profile,
        Err(error) => {
            eprintln!("gpu_check: {error}");
            return ExitCode::from(2);
        }
    };
    let kernels = profile.devices.map(|devices| devices.kernels).unwrap_or_default();
    let mut right = !kernels.is_empty();
    for known in yard() {
        match kernels.iter().find(|kernel| kernel.symbol == known.kernel.name) {
            Some(kernel) => right &= check(&known, kernel),
            None => println!("{:24} did not run", known.kernel.name),
        }
    }
    println!("{}", if right { "all figures are within their tolerances" } else { "SOME FIGURES ARE WRONG" });
    ExitCode::from(u8::from(!right))
}
