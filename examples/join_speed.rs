//! How long the join takes on evidence of a large program: `join_speed FILE [SAMPLES] [BLOCKS]`.
//!
//! Samples and blocks are spread over the code of FILE (an ELF file with many symbols) by a fixed pseudo-random sequence,
//! nine samples in ten over a thousandth of it, as profiles are.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use rprof::join::{Evidence, join};
use rprof::profile::code::{CodeRef, ModuleInfo, ModuleKind};
use rprof::profile::evidence::ThreadInfo;
use rprof::profile::evidence::blocks::BlockCount;
use rprof::profile::evidence::counted::CountedEvidence;
use rprof::profile::evidence::timed::{Sample, TimedEvidence};
use rprof::profile::{Machine, Run};
use rprof::symbols::Symbols;
use rprof::symbols::elf_file::ElfFile;

const THREADS: u32 = 8;
const DEPTH: usize = 12;
const STACKS: usize = 50_000;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().context("no file was given")?);
    let samples: u32 = arguments.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let blocks: u32 = arguments.next().map_or(Ok(200_000), |n| n.parse())?;
    let elf = ElfFile::open(&path)?;
    let (start, end) = elf.code_ranges().into_iter().max_by_key(|(s, e)| e - s).context("no code")?;
    let modules = vec![ModuleInfo {
        kind: ModuleKind::File,
        path: path.to_string_lossy().into(),
        build_id: elf.build_id(),
        pid: 1,
        bias: 0,
    }];
    let mut state = 1u64;
    let mut random = move |limit: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 20) % limit
    };
    let mut place = || {
        let span = if random(10) > 0 { (end - start) / 1000 } else { end - start };
        CodeRef { module: 0, offset: start + random(span) }
    };
    let stacks: Vec<Vec<CodeRef>> = (0..STACKS).map(|_| (0..DEPTH).map(|_| place()).collect()).collect();
    let sample = |i: u32| Sample {
        t_s: f64::from(i) * 1e-4,
        weight_s: 1e-3,
        thread: i % THREADS,
        stack: stacks[(i as usize).wrapping_mul(2_654_435_761) % STACKS].clone(),
        kernel: false,
        cpu: None,
        blocked: None,
        path: 0,
        off_cpu: false,
    };
    let timed = TimedEvidence {
        frequency_hz: 1000.0,
        modules: modules.clone(),
        threads: threads(),
        samples: (0..samples).map(sample).collect(),
        ..TimedEvidence::default()
    };
    let text = elf.loaded(start, end).context("no code in the file")?;
    let block = |i: u32| {
        let at = u64::from(i) * ((end - start - 64) / u64::from(blocks));
        BlockCount {
            calls: Vec::new(),
            at: CodeRef { module: 0, offset: start + at },
            code: text[at as usize..at as usize + 24].to_vec(),
            executions: vec![(i % THREADS, 1 + u64::from(i))],
            dynamic: Vec::new(),
        }
    };
    let counted = CountedEvidence {
        modules,
        threads: threads(),
        blocks: (0..blocks).map(block).collect(),
        ..CountedEvidence::default()
    };
    let begun = Instant::now();
    let evidence = Evidence { timed: Some(&timed), counted: Some(&counted), ..Evidence::default() };
    let profile = join(&evidence, Run::default(), Machine::default(), &mut Symbols::default(), false);
    println!(
        "{samples} samples, {blocks} blocks: {} functions, {} stacks in {:.2} s",
        profile.functions.len(),
        profile.stacks.len(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn threads() -> Vec<ThreadInfo> {
    let thread = |ordinal| ThreadInfo {
        ordinal,
        pid: 1,
        tid: ordinal,
        name: None,
        start_s: 0.0,
        end_s: 1.0,
        cpu_s: 1.0,
        allowed_cpus: None,
    };
    (0..THREADS).map(thread).collect()
}
