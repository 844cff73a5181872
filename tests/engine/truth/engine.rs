//! FLOPs of a program's kernels from a counting engine's counts.

use std::ops::Range;
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions};
use object::{Object, ObjectSymbol};
use rprof::instrument::CountingEngine;
use rprof::isa::facts::Dynamic;
use rprof::isa::x86_64::classify;
use rprof::profile::evidence::blocks::BlockCount;
use rprof::tracee::launch::{Program, Streams, spawn_gated};

use super::program::Figures;

/// Runs `program` under `engine` and adds up the FLOPs of the functions called `kernel_…`.
pub fn flops(program: &Path, engine: &mut dyn CountingEngine) -> Figures {
    let sink = std::fs::File::create("/dev/null").expect("/dev/null is writable");
    let streams = Streams { stdout: Some(sink.into()), ..Streams::default() };
    let child = spawn_gated(&Program { path: program.into(), argv: vec![program.into()] }, streams).expect("it starts");
    let counted = engine.run(child, None, None).expect("it can be counted");
    assert_eq!(counted.status, 0, "the program ends well");
    let path = program.to_string_lossy();
    let kernels = kernels(program);
    let mut figures = Figures::new();
    for block in &counted.evidence.blocks {
        if counted.evidence.modules[block.at.module as usize].path == path {
            add(block, &kernels, &mut figures);
        }
    }
    figures
}

/// Address ranges of the kernels in the file.
fn kernels(program: &Path) -> Vec<Range<u64>> {
    let bytes = std::fs::read(program).expect("the compiler wrote it");
    let file = object::File::parse(&*bytes).expect("an object file");
    let named = |symbol: &object::Symbol<'_, '_>| symbol.name().is_ok_and(|name| name.starts_with("kernel_"));
    let ranges: Vec<_> =
        file.symbols().filter(named).map(|symbol| symbol.address()..symbol.address() + symbol.size()).collect();
    assert!(!ranges.is_empty(), "{} has no kernels", program.display());
    ranges
}

fn add(block: &BlockCount, kernels: &[Range<u64>], figures: &mut Figures) {
    let executions: u64 = block.executions.iter().map(|(_, count)| count).sum();
    for instruction in &mut Decoder::with_ip(64, &block.code, block.at.offset, DecoderOptions::NONE) {
        if !kernels.iter().any(|kernel| kernel.contains(&instruction.ip())) {
            continue;
        }
        let facts = classify(&instruction);
        let offset = (instruction.ip() - block.at.offset) as u32;
        let sums: Vec<u64> =
            block.dynamic.iter().filter(|count| count.offset == offset).map(|count| count.sum).collect();
        assert!(facts.dynamic.is_none() || !sums.is_empty(), "{instruction}: its lanes were not counted");
        let lanes_run: u64 = sums.iter().sum();
        for flop in &facts.flops {
            let flops = match facts.dynamic {
                None => executions * u64::from(flop.flops),
                Some(Dynamic::Mask { lanes, .. }) => lanes_run * u64::from(flop.flops) / u64::from(lanes),
                other => panic!("{instruction}: FLOPs that depend on {other:?}"),
            };
            if flops > 0 {
                for name in [flop.precision.name(), flop.op.name(), flop.width.name()] {
                    *figures.entry(name.into()).or_default() += flops;
                }
            }
        }
    }
}
