//! FLOPs, instructions, loops, lines, chains and traffic.

use rprof::join::{Evidence, join};
use rprof::profile::CodeRef;
use rprof::profile::code::ModuleKind;
use rprof::profile::data::DataKind;
use rprof::profile::evidence::counted::{CountedEvidence, Missing};
use rprof::profile::evidence::data::{Backing, DataEvidence, DataMapping, DataSample, SiteData};
use rprof::profile::evidence::memory::{MemoryEvidence, SiteTraffic, Traffic};
use rprof::profile::evidence::pages::{Mark, PagesEvidence, SitePages};
use rprof::profile::pages::Pages;
use rprof::profile::{Machine, Run};

use crate::join::evidence::*;

/// 0: vfmadd231pd zmm0,zmm1,[rdi]; 6: add rdi,64; a: dec rcx; d: jne 0
const FMA_LOOP: [u8; 15] = [0x62, 0xf2, 0xf5, 0x48, 0xb8, 0x07, 0x48, 0x83, 0xc7, 0x40, 0x48, 0xff, 0xc9, 0x75, 0xf1];

#[test]
fn counts_of_overlapping_blocks_add_up() {
    // The same loop entered at its top, and once behind the FMA.
    let blocks = vec![block(at(1), &FMA_LOOP, &[990, 10]), block(plus(at(1), 6), &FMA_LOOP[6..], &[1])];
    let profile = joined(None, Some(&counted(blocks, 2)));
    let work = function(&profile, "work");
    assert_eq!(work.instructions, Some(4003));
    assert_eq!(work.fp_instructions, Some(1000));
    assert_eq!(work.simd_instructions, Some(1000));
    let flops = work.flops.unwrap();
    assert_eq!((flops.total, flops.dp, flops.by_op.fma, flops.by_width.w512), (16_000, 16_000, 16_000, 16_000));
    assert_eq!(work.bytes.unwrap().l1, Some(64_000));
    assert_eq!(work.bytes.unwrap().dram, None);
    assert_eq!((work.time_s, work.team), (None, Some(2)));
    assert_eq!(work.source["time_s"].reason.as_deref(), Some("there was no timed pass"));
    assert_eq!(work.source["bytes.dram"].reason.as_deref(), Some("the memory model was off"));
    let details = work.work.as_ref().unwrap();
    assert_eq!(details.code_bytes, 15);
    assert_eq!(details.issue_slots, 3002); // dec and jne fuse
    assert_eq!(work.per_thread[1].flops, Some(160));
    let fma_line = work.lines.iter().find(|l| l.line == 1).unwrap();
    assert_eq!((fma_line.instructions, fma_line.flops), (Some(1000), Some(16_000)));
}

#[test]
fn a_loop_has_its_own_figures_and_chain() {
    // 0: xor eax,eax (4×) then the loop of 250 iterations each
    let blocks = vec![
        block(at(1), &[&[0x31, 0xc0][..], &FMA_LOOP].concat(), &[4]),
        block(plus(at(1), 2), &FMA_LOOP, &[996]),
        block(plus(at(1), 17), &[0xc3], &[4]),
    ];
    let profile = joined(None, Some(&counted(blocks, 1)));
    let work = function(&profile, "work");
    assert_eq!(work.instructions, Some(4 * 2 + 4 * 1000));
    assert_eq!(work.loops.len(), 1);
    let inner = &work.loops[0];
    assert_eq!((inner.name.as_str(), inner.instructions), ("work:3", Some(4000)));
    assert_eq!(inner.flops.unwrap().total, 16_000);
    let chains = &work.work.as_ref().unwrap().chains;
    let chain = chains.iter().find(|c| c.restart_every != Some(1.0)).expect("the FMA's accumulator");
    assert_eq!((chain.header, chain.iterations, chain.entries, chain.line), (0x102, 1000, 4, Some(3)));
    close(chain.restart_every, 250.0, 1e-9);
    close(chain.fp_per_iteration, 1.0, 1e-9);
    close(work.work.as_ref().unwrap().chain_coverage, 4000.0 / 4008.0, 1e-9);
}

#[test]
fn a_hot_loop_is_disassembled_with_executions_and_time() {
    // 0: xor eax,eax, which is no part of the loop
    let blocks = vec![
        block(at(1), &[&[0x31, 0xc0][..], &FMA_LOOP].concat(), &[4]),
        block(plus(at(1), 2), &FMA_LOOP, &[990, 6]),
        block(plus(at(1), 17), &[0xc3], &[4]),
    ];
    let samples =
        vec![sample(0.1, 0, &[plus(at(1), 2)]), sample(0.2, 0, &[plus(at(1), 8)]), sample(0.3, 0, &[plus(at(1), 8)])];
    let (timed, counted) = (timed(samples), counted(blocks, 2));
    let profile = joined(Some(&timed), Some(&counted));
    let code = function(&profile, "work").loops[0].disassembly.as_ref().unwrap();
    let rows: Vec<_> = code.instructions.iter().map(|i| (i.offset, i.length, i.text.as_str(), i.executions)).collect();
    assert_eq!(
        rows,
        [
            (0x102, 6, "vfmadd231pd zmm0,zmm1,[rdi]", Some(1000)),
            (0x108, 4, "add rdi,0x40", Some(1000)),
            (0x10c, 3, "dec rcx", Some(1000)),
            (0x10f, 2, "jne 0x102", Some(1000)),
        ]
    );
    assert_eq!(code.instructions.iter().map(|i| i.cpu_s).collect::<Vec<_>>(), [Some(1e-3), Some(2e-3), None, None]);
    assert_eq!(code.left_out, 0);
    // Without counts: the code of the file, and no executions.
    let mut names = Names { code: [&FMA_LOOP[..], &[0xc3]].concat() };
    let profile = joined_with(&mut names, Some(&timed), None);
    let code = function(&profile, "work").loops[0].disassembly.as_ref().unwrap();
    assert_eq!(code.instructions.len(), 4);
    assert!(code.instructions.iter().all(|i| i.executions.is_none()));
}

#[test]
fn called_functions_have_their_names_and_inner_loops_are_no_part() {
    // 0: call fib; 5: dec eax; 7: jne 5; 9: dec rcx; c: jne 0; e: ret
    let code = [0xe8, 0xfb, 0x03, 0x00, 0x00, 0xff, 0xc8, 0x75, 0xfc, 0x48, 0xff, 0xc9, 0x75, 0xf2, 0xc3];
    let blocks = vec![
        block(at(1), &code[..9], &[10]),
        block(plus(at(1), 5), &code[5..9], &[90]),
        block(plus(at(1), 9), &code[9..14], &[10]),
        block(plus(at(1), 14), &code[14..], &[1]),
    ];
    let profile = joined(None, Some(&counted(blocks, 1)));
    let outer = &function(&profile, "work").loops[0];
    let text = |f: &rprof::profile::Function| -> Vec<String> {
        f.disassembly.as_ref().unwrap().instructions.iter().map(|i| i.text.clone()).collect()
    };
    assert_eq!(text(outer), ["call 0x500 <fib>", "dec rcx", "jne 0x100"]);
    assert_eq!(text(&outer.loops[0]), ["dec eax", "jne 0x105"]);
}

#[test]
fn code_made_at_run_time_is_not_disassembled() {
    let mut counted = counted(vec![block(at(1), &FMA_LOOP, &[1000])], 1);
    counted.modules[0].kind = ModuleKind::Anonymous;
    let profile = joined(None, Some(&counted));
    let inner = &function(&profile, "work").loops[0];
    assert_eq!(inner.disassembly, None);
    let reason = inner.source["disassembly"].reason.as_deref().unwrap();
    assert!(reason.starts_with("its code was made at run time"), "{reason}");
}

#[test]
fn of_long_loops_the_hottest_stretch_is_kept_and_of_many_loops_the_hottest() {
    // 100 × `dec eax` (2 bytes) before dec rcx; jne -205
    let long: Vec<u8> = [[0xff, 0xc8].repeat(100), vec![0x48, 0xff, 0xc9, 0x0f, 0x85, 0x2f, 0xff, 0xff, 0xff]].concat();
    let blocks = vec![block(at(1), &long, &[50])];
    let samples = vec![sample(0.1, 0, &[plus(at(1), 160)])];
    let (timed, of_long) = (timed(samples), counted(blocks, 1));
    let profile = joined(Some(&timed), Some(&of_long));
    let code = function(&profile, "work").loops[0].disassembly.as_ref().unwrap();
    assert_eq!((code.instructions.len(), code.left_out), (60, 42));
    assert!(code.instructions.iter().any(|i| i.offset == 0x1a0 && i.cpu_s == Some(1e-3)));
    // 50 loops of 4 bytes each; loop number i is executed 1000 + i times.
    let blocks = (0..50).map(|i| block(plus(at(1), 4 * i), &[0xff, 0xc8, 0x75, 0xfc], &[1000 + i])).collect();
    let profile = joined(None, Some(&counted(blocks, 1)));
    let loops = &function(&profile, "work").loops;
    let listed: Vec<u64> = loops.iter().filter_map(|l| l.disassembly.as_ref()?.start()).collect();
    assert_eq!(loops.len(), 50);
    assert_eq!(listed, (10..50).map(|i| 0x100 + 4 * i).collect::<Vec<u64>>());
}

#[test]
fn masked_lanes_count_as_the_engine_saw_them() {
    // vaddpd zmm0{k1},zmm1,zmm2
    let code = [0x62, 0xf1, 0xf5, 0x49, 0x58, 0xc2];
    let blocks = vec![with_dynamic(block(at(1), &code, &[100]), 0, 350)];
    let profile = joined(None, Some(&counted(blocks, 1)));
    assert_eq!(function(&profile, "work").flops.unwrap().total, 350);
    // If the engine could not count them, the report says so.
    let profile = joined(None, Some(&counted(vec![block(at(1), &code, &[100])], 1)));
    let work = function(&profile, "work");
    assert_eq!(work.flops.unwrap().total, 800);
    assert!(work.source["flops"].reason.is_some());
    assert!(profile.run.warnings.iter().any(|w| w.code == "lanes-not-counted"));
}

/// The `rep` goes on in a block of its own, and its work so far belongs to a block that was not executed to its end.
#[test]
fn an_interrupted_rep_has_all_its_bytes() {
    let code = [0x90, 0xf3, 0xaa, 0x90]; // nop; rep stosb; nop
    let begun = with_dynamic(block(at(1), &code, &[]), 1, 300);
    let ended = with_dynamic(block(plus(at(1), 1), &code[1..], &[1]), 0, 212);
    let profile = joined(None, Some(&counted(vec![begun, ended], 1)));
    let f = function(&profile, "work");
    assert_eq!(f.bytes.unwrap().l1, Some(512));
    assert_eq!(f.instructions, Some(2), "the nop of the first part is told by a part of its block");
}

#[test]
fn waiting_loops_are_no_work() {
    // pause; mov eax,[rdi]; test eax,eax; je -8
    let spin = [0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0xf8];
    let blocks = vec![block(at(1), &FMA_LOOP, &[10]), block(plus(at(1), 15), &spin, &[1_000_000])];
    let profile = joined(None, Some(&counted(blocks, 1)));
    assert_eq!(function(&profile, "work").instructions, Some(40));
}

#[test]
fn a_block_that_runs_into_the_next_function_is_divided() {
    let blocks = vec![block(plus(at(1), 0xfe), &[0x90, 0x90, 0x90, 0x90], &[5])];
    let profile = joined(None, Some(&counted(blocks, 1)));
    assert_eq!(function(&profile, "work").instructions, Some(10));
    assert_eq!(function(&profile, "other").instructions, Some(10));
}

#[test]
fn impossible_counts_are_not_believed() {
    let samples = (0..100).map(|i| sample(f64::from(i) * 1e-3, 0, &[at(1)])).collect();
    let timed = timed(samples);
    let impossible = counted(vec![block(at(1), &FMA_LOOP, &[1 << 40])], 1);
    let profile = joined(Some(&timed), Some(&impossible));
    let work = function(&profile, "work");
    assert_eq!(work.instructions, None);
    assert!(work.source["flops"].reason.as_ref().unwrap().contains("worth of instructions"), "{:?}", work.source);
    assert!(profile.run.warnings.iter().any(|w| w.code == "passes-disagree" && w.text.contains("work")));
    assert_eq!(profile.run.quality, Some(0.0));
    // Nor is a function that only one of the runs executed.
    let elsewhere = counted(vec![block(at(2), &FMA_LOOP, &[1000])], 1);
    let profile = joined(Some(&timed), Some(&elsewhere));
    let reason = function(&profile, "work").source["instructions"].reason.clone();
    assert_eq!(reason.as_deref(), Some("the counted pass did not execute it"));
    // A possible count is.
    let possible = counted(vec![block(at(1), &FMA_LOOP, &[1_000_000])], 1);
    let profile = joined(Some(&timed), Some(&possible));
    assert_eq!(function(&profile, "work").instructions, Some(4_000_000));
    assert_eq!(profile.run.quality, Some(1.0));
    assert!(profile.run.warnings.is_empty(), "{:?}", profile.run.warnings);
}

#[test]
fn a_share_that_ran_natively_is_told_with_its_figure() {
    for (share, told) in [(0.0, None), (0.02, None), (0.03, Some("3 % ")), (0.5, Some("50 % ")), (1.0, Some("100 % "))]
    {
        let evidence = CountedEvidence { uncounted_share: share, ..counted(vec![block(at(1), &FMA_LOOP, &[1000])], 1) };
        let run = joined(None, Some(&evidence)).run;
        assert_eq!(run.passes[0].uncounted_share, Some(share));
        let warning = run.warnings.iter().find(|w| w.code == "code-not-counted");
        assert_eq!(warning.is_some(), told.is_some(), "{share}: {:?}", run.warnings);
        assert!(warning.is_none_or(|w| w.text.starts_with(told.unwrap_or_default())), "{share}: {warning:?}");
    }
}

#[test]
fn counts_of_a_run_that_was_not_counted_to_its_end_are_lower_bounds() {
    let whole = CountedEvidence { uncounted_share: 0.5, ..counted(vec![block(at(1), &FMA_LOOP, &[1000])], 1) };
    let of = |evidence: &CountedEvidence| {
        let profile = joined(None, Some(evidence));
        let source = function(&profile, "work").source["flops"].clone();
        (source.error, source.reason.unwrap_or_default(), profile.run.warnings)
    };
    let (error, reason, _) = of(&whole);
    assert_eq!((error, reason.as_str()), (None, ""), "other code ran natively");
    let (error, reason, warnings) = of(&CountedEvidence { missing: Missing::Executions, ..whole });
    assert!(error == Some(0.5) && reason.starts_with("a lower bound"), "{error:?} {reason}");
    assert!(warnings.iter().any(|w| w.effect.contains("lower bounds")), "{warnings:?}");
}

#[test]
fn traffic_goes_to_the_function_and_loop_of_its_instruction() {
    let counted = counted(vec![block(at(1), &FMA_LOOP, &[1000]), block(at(2), &[0xc3], &[1])], 1);
    let traffic =
        Traffic { l2_read: 64_000.4, dram_read: 64_000.0, dram_write: 1.0, l1_misses: 1000.0, ..Traffic::default() };
    let site = |at: CodeRef| SiteTraffic { at, thread: 0, traffic };
    let pages = SitePages { at: at(1), thinned: 0, marks: (7..17).map(Mark::page_seen).collect() };
    let mapping = |bytes, backing| DataMapping { bytes, backing };
    // Asked for in line 10 of `fib`.
    let asked = Backing::Allocated { frames: vec![plus(at(5), 9)], stack: false };
    let mappings = vec![mapping(1 << 20, asked), mapping(1 << 16, Backing::Heap)];
    let sample = |mapping| DataSample { address: 0, mapping };
    let samples = vec![sample(Some(0)), sample(Some(1)), sample(Some(0)), sample(None)];
    let data = SiteData { at: at(1), lines: 1000.0, samples, complete: true };
    let memory = MemoryEvidence {
        first_touches: None,
        mode: "sampled".into(),
        error: Some(0.03),
        one_in: 1,
        one_core: false,
        page_placement: String::new(),
        calibration: vec![],
        sites: vec![site(at(1))],
        pages: PagesEvidence { sites: vec![pages], sampled_lines: Some(2), at_most: None },
        data: DataEvidence { modules: vec![], mappings, sites: vec![data] },
        warnings: vec![],
    };
    let evidence = Evidence { counted: Some(&counted), memory: Some(&memory), ..Evidence::default() };
    let profile = join(&evidence, Run::default(), Machine::default(), &mut Names::default(), false);
    let work = function(&profile, "work");
    let bytes = work.bytes.unwrap();
    assert_eq!(
        (bytes.l1, bytes.l2, bytes.dram, bytes.dram_read),
        (Some(64_000), Some(64_000), Some(64_001), Some(64_000))
    );
    assert_eq!(work.loops[0].bytes.unwrap().dram, Some(64_001));
    let touched = Some(Pages { touched: 10, at_least: true });
    assert_eq!((work.pages, work.loops[0].pages, profile.run.pages), (touched, touched, touched));
    assert_eq!(work.source["pages"].how, "simulated");
    let data: Vec<_> = work.data.iter().map(|d| (d.name.as_str(), d.kind, d.share, d.bytes)).collect();
    assert_eq!(
        data,
        [
            ("fib:10", DataKind::Allocated, 0.5, Some(1 << 20)),
            ("heap", DataKind::Heap, 0.25, Some(1 << 16)),
            ("memory unmapped since", DataKind::Unknown, 0.25, None),
        ]
    );
    assert_eq!(work.loops[0].data, work.data);
    let other = function(&profile, "other");
    assert_eq!((other.pages.map(|p| p.touched), other.source["pages"].reason.as_deref()), (Some(0), None));
    assert_eq!(work.source["bytes.dram"].error, Some(0.03));
    assert_eq!(work.per_thread[0].dram_bytes, Some(64_001));
    assert_eq!(work.lines[0].dram_bytes, Some(64_001));
    assert_eq!(work.work.as_ref().unwrap().traffic.unwrap().l1_misses, 1000.0);
    assert_eq!(function(&profile, "other").bytes.unwrap().dram, Some(0));
    assert_eq!(profile.run.passes[0].memory.as_deref(), Some("sampled"));
}

#[test]
fn inlined_functions_are_listed_in_their_host() {
    let blocks = vec![block(plus(at(1), 0x40), &FMA_LOOP, &[100])];
    let profile = joined(None, Some(&counted(blocks, 1)));
    let work = function(&profile, "work");
    assert_eq!(work.inlined.len(), 1);
    assert_eq!((work.inlined[0].name.as_str(), work.inlined[0].instructions), ("helper", Some(400)));
    assert_eq!(work.inlined[0].flops, Some(1600));
}
