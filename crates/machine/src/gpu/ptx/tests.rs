//! Formulas by hand; every kernel through `ptxas` and `nvdisasm` if `RPROF_PTXAS` and `RPROF_NVDISASM` name them.

use super::catalogue::all;
use super::tools::{Code, architecture, assemble, begins, disassemble, is_move, joined, tool};
use super::*;

const CAPABILITIES: [(u32, u32); 5] = [(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)];

const SMALL: Launch = Launch { blocks: 2, threads: 64, iters: 3, count: 10 };

fn everything() -> impl Iterator<Item = Kernel> {
    all().into_iter().chain(yard().into_iter().map(|known| known.kernel))
}

#[test]
fn work_is_what_one_counts_by_hand() {
    let work = |kernel: Kernel| kernel.work(&SMALL);
    // 2 FLOPs × 8 chains × 4 steps × 3 trips × 128 threads
    assert_eq!(work(scalar(Operation::Fma, Precision::F64, 8, 4)), 24_576.0);
    assert_eq!(work(scalar(Operation::Add, Precision::F32, 8, 4)), 12_288.0);
    assert_eq!(work(scalar(Operation::Mul, Precision::F16, 8, 4)), 24_576.0);
    assert_eq!(work(scalar(Operation::Fma, Precision::Bf16, 1, 1)), 1_536.0);
    assert_eq!(work(scalar(Operation::Fma, Precision::I32, 1, 1)), 768.0);
    assert_eq!(work(scalar(Operation::Ex2, Precision::F32, 1, 1)), 384.0);
    assert_eq!(work(scalar_in_lanes(Operation::Fma, Precision::F32, 8, 4, 8)), 6_144.0);
    // 2 × 16 × 8 × 16 FLOPs × 3 trips × 4 warps
    assert_eq!(work(mma(Type::Bf16, 1, 1)), 49_152.0);
    assert_eq!(work(mma(Type::Tf32, 2, 1)), 49_152.0);
    assert_eq!(work(mma(Type::S8, 1, 1)), 98_304.0);
    // 2 × 8 × 8 × 4 and 2 × 16 × 8 × 16 FLOPs × 3 trips × 4 warps
    assert_eq!(work(dmma(Shape::M8N8K4, 1, 1)), 6_144.0);
    assert_eq!(work(dmma(Shape::M16N8K16, 1, 1)), 49_152.0);
    // 2 × 64 × 256 × 16 FLOPs × 16 in a group × 3 trips × 1 warpgroup
    assert_eq!(work(wgmma(Type::Bf16)), 25_165_824.0);
    // bytes of a vector × arrays × 10 vectors × 3 trips
    assert_eq!(work(stream(Stream::Copy, 4)), 960.0);
    assert_eq!(work(stream(Stream::Triad, 4)), 1_440.0);
    assert_eq!(work(stream(Stream::Write, 4)), 480.0);
    // 8 vectors × 3 trips × 128 threads
    assert_eq!(work(working_set(Cached::L2Only)), 49_152.0);
    assert_eq!(work(l1_region()), 960.0);
    assert_eq!(work(shared(Access::Read)), 49_152.0);
    assert_eq!(work(shared(Access::Stride32)), 12_288.0);
    assert_eq!(work(trials_update()), 960.0);
    assert_eq!(work(staged()), 480.0);
    // 16 FLOPs × 4 elements × 10 vectors × 3 trips, and for each of 2 blocks
    assert_eq!(work(flops_per_element(Precision::F32, 16, Data::FromDram)), 1_920.0);
    assert_eq!(work(flops_per_element(Precision::F32, 16, Data::FromL1)), 3_840.0);
    assert_eq!(work(chase(Cached::L2Only)), 10.0);
    assert_eq!(work(link()), 80.0);
    assert_eq!(work(empty()), 0.0);
    // 1 + 2 + 2 × 3 FLOPs of double, 4 + 5 + 2 × 6 of single, 2 × (7 + 8 + 2 × 9) of half precision
    assert_eq!(mix().work(&MIX), f64::from(9 + 21 + 66) * 8.0 * 64.0 * 4.0);
    assert_eq!((mix_counts()[0], mix_counts()[5]), (2048.0, 12_288.0));
}

#[test]
fn capabilities_decide() {
    let [scalar, tensor, exact] = [empty(), mma(Type::Bf16, 8, 4), wgmma(Type::Bf16)];
    assert!(scalar.runs_on(7, 0) && scalar.runs_on(12, 0) && !scalar.runs_on(6, 1));
    assert!(!tensor.runs_on(7, 5) && tensor.runs_on(8, 0) && tensor.runs_on(10, 0));
    assert!(!exact.runs_on(8, 9) && exact.runs_on(9, 0) && !exact.runs_on(10, 0));
    let imitated = mma(Type::E4m3, 8, 4);
    assert!(imitated.runs_on(8, 9) && !imitated.runs_on(9, 0) && !imitated.runs_on(10, 0) && imitated.runs_on(12, 0));
}

#[test]
fn names_are_short_ids_of_one_kernel_each() {
    let mut names: Vec<_> = everything().map(|kernel| kernel.name).collect();
    for name in &names {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{name}");
    }
    let number = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), number);
    assert!(everything().all(|kernel| kernel.ptx.contains(&format!(".entry {}(\n", kernel.name))));
}

#[test]
fn yard_expects_the_published_counts() {
    let yard = yard();
    assert_eq!(yard.len(), 23);
    let find = |name: &str| yard.iter().find(|known| known.kernel.name == format!("y_{name}")).expect("a kernel");
    assert_eq!(find("fp64_fma").flops_fp64, 3_460_300_800);
    assert_eq!(find("fp64_add").flops_fp64, 1_730_150_400);
    assert_eq!(find("fp32_mul").flops_fp32, 1_730_150_400);
    assert_eq!(find("fp32_fma_8of32").flops_fp32, 865_075_200);
    assert_eq!(find("bf16_fma").flops_fp16, 6_920_601_600);
    assert_eq!(find("mma_bf16").flops_tensor, 55_364_812_800);
    assert_eq!(find("mma_tf32").flops_tensor, 27_682_406_400);
    assert_eq!(find("mma_s8").flops_tensor, 110_729_625_600);
    assert_eq!(find("dmma").flops_tensor, 6_920_601_600);
    assert_eq!(find("wgmma_f16").flops_tensor, 221_459_251_200);
    assert_eq!(find("wgmma_tf32").flops_tensor, 110_729_625_600);
    assert_eq!(find("wgmma_s8").flops_tensor, 442_918_502_400);
    assert_eq!(find("wgmma_s8").shared, Some(33_792_000 * 128));
    assert_eq!(find("triad").l1, Some(48 << 24));
    assert_eq!(find("copy").l2, Some(32 << 24));
    assert_eq!((find("l2_read").l2, find("l2_read").dram_read), (Some(138_412_032), Some(8_388_608)));
    assert_eq!((find("l1_read").l1, find("l1_read").l2), (Some(138_412_032), Some(2_162_688)));
    assert_eq!(find("shared").shared, Some(17_301_504 * 128));
    assert_eq!(find("shared_stride32").shared, Some(138_412_032 * 128));
}

#[test]
fn every_kernel_assembles_without_spills() {
    let Some(ptxas) = tool("RPROF_PTXAS", "every_kernel_assembles_without_spills") else { return };
    let mut faults = Vec::new();
    for kernel in everything() {
        for (major, minor) in CAPABILITIES {
            let Some(architecture) = architecture(&kernel, major, minor) else { continue };
            let assembled = assemble(&ptxas, &kernel.name, &kernel.ptx, &architecture);
            if assembled.local != [0; 3] {
                faults.push(format!("{} for {architecture}:\n{}", kernel.name, assembled.messages));
            }
            // The launches are laid out for SMs of 2,048 threads.
            let most = if minor == 0 && major <= 10 { most_registers(&kernel.name) } else { 168 };
            if assembled.registers > most {
                faults.push(format!("{} for {architecture}: {} registers", kernel.name, assembled.registers));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Registers with which the recommended launch still fits.
fn most_registers(name: &str) -> u32 {
    let starts = |stems: &[&str]| stems.iter().any(|stem| name.trim_start_matches("y_").starts_with(stem));
    match () {
        () if starts(&["wgmma"]) => 168,
        () if starts(&["mma_bf16_c16", "dmma_m16"]) => 112,
        () if starts(&["fp", "bf16", "int32", "shared", "chase", "empty"]) => 32,
        () => 64,
    }
}

#[test]
fn loops_contain_what_the_formulas_say() {
    let test = "loops_contain_what_the_formulas_say";
    let Some(ptxas) = tool("RPROF_PTXAS", test) else { return };
    let Some(nvdisasm) = tool("RPROF_NVDISASM", test) else { return };
    let mut faults = Vec::new();
    for (major, minor) in CAPABILITIES {
        let kernels: Vec<_> = everything().filter(|kernel| kernel.runs_on(major, minor)).collect();
        for (place, (members, text)) in joined(&kernels).iter().enumerate() {
            let Some(architecture) = architecture(members[0], major, minor) else { continue };
            let assembled = assemble(&ptxas, &format!("joined{place}"), text, &architecture);
            let functions = disassemble(&nvdisasm, &assembled);
            for kernel in members {
                let code = &functions[&kernel.name];
                let native = (major, minor) == (9, 0);
                for fault in [check_loops(&kernel.name, code, native), check_everywhere(&kernel.name, code)].concat() {
                    faults.push(format!("{} for {architecture}: {fault}", kernel.name));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Numbers that a name carries: `c8` and `u32` in `fp32_fma_c8_u32`.
fn number(name: &str, letter: char) -> Option<usize> {
    name.split('_').find_map(|word| word.strip_prefix(letter)?.parse().ok())
}

/// The instructions that a kernel is about, and how many of them its main loop has; `native`: on 9.0.
fn check_loops(name: &str, code: &Code, native: bool) -> Vec<String> {
    const HALF: &[&str] = &["HFMA2", "HADD2", "HMUL2"];
    let bare = name.trim_start_matches("y_");
    // Those of the yard have 8 chains × 16, with tensor instructions 8 × 4.
    let product = |unroll| number(bare, 'c').unwrap_or(8) * number(bare, 'u').unwrap_or(unroll);
    let flight = number(bare, 'f').unwrap_or(4);
    let expected: Vec<(&[&str], usize)> = match bare {
        _ if bare.starts_with("fp64_fma") => vec![(&["DFMA"], product(16))],
        _ if bare.starts_with("fp64_add") => vec![(&["DADD"], product(16))],
        _ if bare.starts_with("fp64_mul") => vec![(&["DMUL"], product(16))],
        _ if bare.starts_with("fp32_fma") => vec![(&["FFMA"], product(16))],
        _ if bare.starts_with("fp32_add") => vec![(&["FADD"], product(16))],
        _ if bare.starts_with("fp32_mul") => vec![(&["FMUL"], product(16))],
        _ if bare.starts_with("fp32_ex2") => vec![(&["MUFU.EX2"], product(16))],
        _ if bare.starts_with("fp16") || bare.starts_with("bf16") => vec![(HALF, product(16))],
        _ if bare.starts_with("int32") => vec![(&["IMAD"], product(16))],
        // Other devices do an m16n8k16 as eight m8n8k4.
        _ if bare.starts_with("dmma_m16") && !native => vec![(&["DMMA.8x8x4"], 8 * product(4))],
        _ if bare.starts_with("dmma") => vec![(&["DMMA"], product(4))],
        _ if bare.starts_with("mma") => vec![(&["HMMA", "IMMA", "QMMA"], product(4))],
        _ if bare.starts_with("wgmma") => vec![(&["HGMMA", "QGMMA", "IGMMA"], 16)],
        _ if bare.starts_with("fpe_fp32") => {
            let n: usize = bare.split('_').nth(2).and_then(|word| word.parse().ok()).expect("FLOPs");
            vec![(&["FFMA"], 4 * n), (&["LDG.E.128"], 2), (&["STG.E.128"], 2)]
        }
        _ if bare.starts_with("fpe_fp64") => {
            let n: usize = bare.split('_').nth(2).and_then(|word| word.parse().ok()).expect("FLOPs");
            vec![(&["DFMA"], 2 * n), (&["LDG.E.128"], 2), (&["STG.E.128"], 2)]
        }
        "stream_read_f8" | "working_set_cg" | "working_set_ca" | "l2_read" => vec![(&["LDG.E.128"], 8)],
        "l1_region" | "l1_read" | "trials_a_read" => vec![(&["LDG.E.128"], 4)],
        "stream_copy_f4" | "copy" => vec![(&["LDG.E.128"], flight), (&["STG.E.128"], flight)],
        "stream_triad_f4" | "triad" => vec![(&["LDG.E.128"], 8), (&["STG.E.128"], 4), (&["DFMA"], 8)],
        "stream_update_f4" | "trials_a_update" | "trials_b_update" => {
            vec![(&["LDG.E.128"], 4), (&["STG.E.128"], 4), (&["FFMA"], 16)]
        }
        "stream_write_f4" | "write" | "flush" => vec![(&["STG.E.128"], 4)],
        "shared_read" | "shared" => vec![(&["LDS.128"], 8)],
        "shared_write" => vec![(&["STS.128"], 8)],
        "shared_stride2" | "shared_stride32" => vec![(&["LDS"], 8)],
        "trials_c_staged" => vec![(&["LDS.128"], 4)],
        "chase_ca" | "chase_cg" => vec![(&["LDG.E.64"], 16)],
        "fill_f32" => vec![(&["STG.E.128"], 1)],
        "link" => vec![(&["STG.E.64"], 1)],
        "counts_mix" => vec![
            (&["DADD"], 1),
            (&["DMUL"], 2),
            (&["DFMA"], 3),
            (&["FADD"], 4),
            (&["FMUL"], 5),
            (&["FFMA"], 6),
            (HALF, 7 + 8 + 9),
        ],
        "empty" => vec![],
        _ => panic!("nothing is expected of {name}"),
    };
    let mut faults = Vec::new();
    for (stems, number) in expected {
        if code.most(stems) != number {
            faults.push(format!("{} {stems:?}, expected {number}", code.most(stems)));
        }
    }
    if bare.ends_with("_l8") || bare.ends_with("8of32") {
        let guarded = code.instructions.iter().filter(|line| line.starts_with('@') && begins(line, &["FFMA"]));
        faults.extend((guarded.count() != 128).then(|| "FFMA without a guard".to_owned()));
    }
    faults
}

/// Rules for all kernels: clocks around the loops, no constant made in a loop, no arithmetic outside the loops.
fn check_everywhere(name: &str, code: &Code) -> Vec<String> {
    const ARITHMETIC: &[&str] = &["DADD", "DMUL", "DFMA", "FADD", "FMUL", "FFMA", "HADD2", "HMUL2", "HFMA2"];
    let mut faults = Vec::new();
    // Long branches of 8.x are spelt as calls that never return; there are no functions.
    let returns = code.instructions.iter().find(|line| begins(line, &["RET"]));
    faults.extend(returns.map(|line| format!("{line}: a function")));
    let outside = code.outside().find(|line| begins(line, ARITHMETIC) && !is_move(line));
    faults.extend(outside.map(|line| format!("{line} outside the loops")));
    for range in &code.loops {
        let strange = |line: &&String| is_move(line) || begins(line, &["LDL", "STL"]);
        faults.extend(code.instructions[range.clone()].iter().find(strange).map(|line| format!("{line} in a loop")));
    }
    if name != "empty" {
        let clocks = code.instructions.iter().enumerate().filter(|(_, line)| line.contains("SR_CLOCKLO"));
        let clocks: Vec<_> = clocks.map(|(place, _)| place).collect();
        let around = |range: &std::ops::Range<usize>| {
            clocks.first().is_some_and(|first| *first < range.start)
                && clocks.last().is_some_and(|last| range.end <= *last)
        };
        if code.loops.is_empty() || !code.loops.iter().all(around) {
            faults.push(format!("clocks at {clocks:?}, loops at {:?}", code.loops));
        }
    }
    faults
}
