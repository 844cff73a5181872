//! Compares the counts of `rprof demo --gpu` with the known work of its kernels: `gpu_check PROFILE.json`; those of the products of
//! `fixtures/gpu/train.py` with theirs: `gpu_check --products PROFILE.json`; the bytes that multiprocessors received from L2 with the known
//! ones: `gpu_check --received PROFILE.json` (counted with `--gpu-counts l2`); or two outputs of `rprof machine --gpu --json` with one another
//! and with the limits of the clock: `gpu_check --ceilings A.json B.json`. Prints a line for each
//! kernel or ceiling and ends with 1 where a figure is off by more than its tolerance.
//!
//! Tolerances (docs/conventions.md, GPU): FLOPs none; DRAM reads 0.1 %; L1 one KiB a launch; L2 0.1 % on streams, a lower bound within
//! 1.5 % where several multiprocessors read the same lines; shared memory 0.2 %. Bytes written to DRAM may still lie in L2 at the end of
//! a launch: 8 %; all streams and the kernels after them 0.5 %.

use std::process::ExitCode;

use rprof::machine::gpu::known;
use rprof::machine::gpu::ptx::{Known, yard};
use rprof::profile::Machine;
use rprof::profile::device::{Counts, Kernel};
use rprof::profile::gpu::Gpu;

/// Bytes beside a kernel's own: its clock record and parameters.
const BESIDE: f64 = 1024.0;

/// FLOPs of half precision without the move of a constant that every thread makes once with an FMA (`HFMA2 R, -RZ, RZ, c, c`), which
/// counts as four.
fn moves(counted: Option<f64>, launches: f64, known: &Known) -> Option<f64> {
    let moves = 4.0 * launches * f64::from(known.launch.blocks * known.launch.threads);
    let counted = counted.unwrap_or(moves);
    Some(if counted - launches * known.flops_fp16 as f64 == moves { counted - moves } else { counted })
}

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
        flops("fp16", moves(counts.fp16, n, known), known.flops_fp16),
        flops("tensor", Some(tensor), known.flops_tensor),
    ];
    let mut bytes = |name, counted: Option<f64>, each: Option<u64>, share: f64| {
        if let Some(each) = each {
            all.push(Figure { name, counted, known: n * each as f64, tolerance: n * (share * each as f64 + BESIDE) });
        }
    };
    let warm = merged || name.contains("l1_read");
    bytes("dram read", counts.dram_read, known.dram_read.filter(|bytes| !warm && *bytes > 0), 0.001);
    bytes("dram written", counts.dram_write, known.dram_write.filter(|bytes| *bytes > 0), 0.08);
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
    let class = kernel.analysis.as_ref().map_or(rprof::profile::vocabulary::Class::Unknown, |analysis| analysis.class);
    let expected = known::expected(&kernel.symbol);
    let verdict = match expected {
        Some(expected) if expected != class => format!("class {class} instead of {expected} WRONG"),
        _ => format!("class {class}"),
    };
    right &= expected.is_none_or(|expected| expected == class);
    println!("{:24} {:2} of {:2} launches{text}  {verdict}", known.kernel.name, counts.launches, kernel.launches);
    right
}

/// The kernel of a profile that is a known one.
fn found<'k>(known: &Known, kernels: &'k [Kernel]) -> Option<&'k Kernel> {
    kernels.iter().find(|kernel| kernel.symbol == known.kernel.name)
}

/// Whether the known kernels with traffic between L2 and multiprocessors have exactly that.
fn received(yard: &[Known], kernels: &[Kernel]) -> bool {
    let mut right = true;
    for (known, each) in yard.iter().filter_map(|known| Some((known, known.l2?))) {
        let counts = found(known, kernels).and_then(|kernel| kernel.counts.as_ref());
        let off = counts.and_then(|counts| {
            let launches = counts.launches as f64;
            Some((counts.l2_received? - launches * each as f64, launches * BESIDE))
        });
        let fits = off.is_some_and(|(off, most)| (0.0..=most).contains(&off));
        right &= fits;
        let shown = off.map_or("not counted".into(), |(off, _)| format!("{off:+.0} B"));
        println!("{:24} received from L2 {shown}{}", known.kernel.name, if fits { "" } else { " WRONG" });
    }
    right
}

/// The share by which bytes written to DRAM by all streams, and by the kernels after them, may be off.
const WRITTEN: f64 = 0.005;

/// Whether DRAM got all that the streams write: lines that one launch leaves in L2 leave it in a later one.
fn written(yard: &[Known], kernels: &[Kernel]) -> bool {
    let writes = |known: &&Known| known.dram_write.is_some_and(|bytes| bytes > 0);
    let (mut asked, mut seen) = (0.0, 0.0);
    for known in yard.iter().skip_while(|known| !writes(known)) {
        let counts = found(known, kernels).and_then(|kernel| kernel.counts.as_ref());
        let Some((counts, bytes)) = counts.and_then(|counts| Some((counts, counts.dram_write?))) else {
            println!("bytes written to DRAM in all: {} not counted WRONG", known.kernel.name);
            return false;
        };
        asked += counts.launches as f64 * known.dram_write.unwrap_or(0) as f64;
        seen += bytes;
    }
    let off = seen / asked - 1.0;
    let right = off.abs() <= WRITTEN;
    let wrong = if right { "" } else { " WRONG" };
    println!("bytes written to DRAM by all streams: {:+.2} %, asked {:.1}{wrong}", 100.0 * off, 100.0 * WRITTEN);
    right
}

/// How far apart two measurements of a ceiling may be; `None`: nothing is promised.
fn repeats(id: &str) -> Option<f64> {
    match id {
        "gpu.lat.l1" => Some(0.05),
        "gpu.lat.l2" | "gpu.lat.dram" => Some(0.02),
        "gpu.l2.read" => Some(0.015),
        _ if id.starts_with("gpu.tensor.") => Some(0.015),
        _ if id.starts_with("gpu.launch") || id.starts_with("gpu.link.") => None,
        _ => Some(0.01),
    }
}

/// Operations or bytes of a multiprocessor of compute capability 9.0 in a clock, and the share of it that a ceiling must reach.
const REACH: [(&str, f64, f64); 12] = [
    ("gpu.fp64.fma", 128.0, 0.98),
    ("gpu.fp32.fma", 256.0, 0.98),
    ("gpu.fp16.fma", 512.0, 0.98),
    ("gpu.bf16.fma", 512.0, 0.96),
    ("gpu.tensor.fp64", 256.0, 0.98),
    ("gpu.tensor.bf16", 4096.0, 0.98),
    ("gpu.tensor.f16", 4096.0, 0.98),
    ("gpu.tensor.tf32", 2048.0, 0.98),
    ("gpu.tensor.fp8", 8192.0, 0.98),
    ("gpu.tensor.int8", 8192.0, 0.98),
    ("gpu.shared.read", 128.0, 0.98),
    ("gpu.l1.read", 128.0, 0.96),
];
/// The share of its bus that reading DRAM must reach.
const BUS: f64 = 0.94;

/// Whether the ceilings of a GPU come near the limits of its clock and its bus. Other GPUs than those of 9.0 have no figures here.
fn reaches(gpu: &Gpu) -> bool {
    if gpu.capability != (9, 0) {
        return true;
    }
    let clocked = REACH.iter().filter_map(|(id, each, least)| {
        let ceiling = gpu.ceilings.iter().find(|c| c.id == *id)?;
        let most = each * f64::from(gpu.multiprocessors) * ceiling.clock_hz?;
        Some((*id, ceiling.value? / most, *least))
    });
    let bus = gpu.value("gpu.dram.read").zip(gpu.bus_bytes_per_s).map(|(read, bus)| ("gpu.dram.read", read / bus, BUS));
    let mut right = true;
    for (id, share, least) in clocked.chain(bus) {
        let wrong = if share >= least { "" } else { " WRONG" };
        right &= share >= least;
        println!("{id:30} reaches {:.1} %, asked {:.0}{wrong}", 100.0 * share, 100.0 * least);
    }
    right
}

/// A product of two matrices of 4,096 × 4,096, and the FLOPs that a library adds for the factor of the result in single precision.
const PRODUCT: f64 = 2.0 * 4096.0 * 4096.0 * 4096.0;
const FACTOR: f64 = 2.0 * 4096.0 * 4096.0;

/// The products in a profile of `fixtures/gpu/train.py`: each has exactly its work, and no kernel is above its roof.
fn products(kernels: &[Kernel]) -> bool {
    let mut right = true;
    let mut found = 0;
    for kernel in kernels {
        let Some(counts) = &kernel.counts else { continue };
        let n = counts.launches as f64;
        let name: String = kernel.name.chars().take(40).collect();
        let tensor = counts.tensor.iter().map(|work| (work.operand.as_str(), work.operations / n, PRODUCT));
        let is_fp32 = counts.tensor.is_empty() && kernel.name.contains("gemm");
        let fp32 = counts.fp32.filter(|_| is_fp32).map(|flops| ("fp32", flops / n, PRODUCT + FACTOR));
        for (operand, seen, asked) in tensor.chain(fp32) {
            found += 1;
            right &= seen == asked;
            println!("{name:40} {operand} {seen} a launch, asked {asked}{}", if seen == asked { "" } else { " WRONG" });
        }
        let above = kernel.analysis.as_ref().and_then(|a| a.roof_fraction).filter(|share| *share > 1.02);
        if let Some(share) = above {
            right = false;
            println!("{name:40} is at {:.0} % of its roof WRONG", 100.0 * share);
        }
        if kernel.name.contains("distribution_elementwise") && counts.fp16.is_some_and(|flops| flops > 0.0) {
            right = false;
            println!("{name:40} has half-precision FLOPs, which are moves of constants WRONG");
        }
    }
    right && found >= 3
}

fn ceilings(paths: [&str; 2]) -> Result<bool, String> {
    let read = |path: &str| -> Result<Machine, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
        // Notices come before the object.
        let json = text.find('{').map_or("", |at| &text[at..]);
        let mut values = serde_json::Deserializer::from_str(json).into_iter();
        values.next().unwrap_or_else(|| Err(serde::de::Error::custom("no object"))).map_err(|e| format!("{path}: {e}"))
    };
    let [first, second] = [read(paths[0])?, read(paths[1])?];
    let mut right = !first.gpus.is_empty();
    for (a, b) in first.gpus.iter().zip(&second.gpus) {
        right &= reaches(a);
        println!("{} ({}.{}), {} multiprocessors", a.name, a.capability.0, a.capability.1, a.multiprocessors);
        for ceiling in &a.ceilings {
            let (Some(x), Some(y)) = (ceiling.value, b.value(&ceiling.id)) else {
                println!("{:30} {}", ceiling.id, ceiling.reason.as_deref().unwrap_or("no value"));
                continue;
            };
            // Latencies are clocks: an idle GPU's clock differs.
            let per_clock = |value: f64, hz: Option<f64>| {
                if ceiling.id.starts_with("gpu.lat.") { value * hz.unwrap_or(1.0) } else { value }
            };
            let later = b.ceilings.iter().find(|c| c.id == ceiling.id).and_then(|c| c.clock_hz);
            let apart = (per_clock(y, later) / per_clock(x, ceiling.clock_hz) - 1.0).abs();
            let fits = repeats(&ceiling.id).is_none_or(|most| apart <= most);
            right &= fits;
            let clock = ceiling.clock_hz.map_or(String::new(), |hz| format!("{:.0} MHz", hz * 1e-6));
            let wrong = if fits { "" } else { "WRONG" };
            println!(
                "{:30} {x:10.4e} {y:10.4e} {:<8} apart {:.2} % {clock} {wrong}",
                ceiling.id,
                ceiling.unit,
                100.0 * apart
            );
        }
    }
    Ok(right)
}

/// The part of a profile that is compared.
enum What {
    Demo,
    Products,
    Received,
}

pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (path, what) = match arguments[..] {
        ["--ceilings", a, b] => {
            return match ceilings([a, b]) {
                Ok(right) => ExitCode::from(u8::from(!right)),
                Err(error) => {
                    eprintln!("gpu_check: {error}");
                    ExitCode::from(2)
                }
            };
        }
        ["--products", path] => (path, What::Products),
        ["--received", path] => (path, What::Received),
        [path] => (path, What::Demo),
        _ => {
            eprintln!(
                "usage: gpu_check PROFILE.json | --products PROFILE.json | --received PROFILE.json | --ceilings A.json B.json"
            );
            return ExitCode::from(2);
        }
    };
    let profile = match rprof::report::json::read(path.as_ref()) {
        Ok(profile) => profile,
        Err(error) => {
            eprintln!("gpu_check: {error}");
            return ExitCode::from(2);
        }
    };
    let kernels = profile.devices.map(|devices| devices.kernels).unwrap_or_default();
    let yard = yard();
    match what {
        What::Products => return ExitCode::from(u8::from(!products(&kernels))),
        What::Received => return ExitCode::from(u8::from(!received(&yard, &kernels))),
        What::Demo => {}
    }
    let mut right = !kernels.is_empty() && written(&yard, &kernels);
    for known in &yard {
        match found(known, &kernels) {
            Some(kernel) => right &= check(known, kernel),
            None => println!("{:24} did not run", known.kernel.name),
        }
    }
    println!("{}", if right { "all figures are within their tolerances" } else { "SOME FIGURES ARE WRONG" });
    ExitCode::from(u8::from(!right))
}
