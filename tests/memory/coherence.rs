//! Coherence misses of threads that share lines, sampled against exact.

use crate::kernels::host;
use rprof::isa::facts::AccessKind;
use rprof::memory::{CacheModel, LastLevelPolicy, PageColoring};
use rprof::profile::code::CodeRef;
use rprof::profile::evidence::memory::{Access, AccessSink, Executed, Phase, Traffic, selected};

/// Accesses of each thread, within the opening.
const ACCESSES: u64 = 1_900_000;
/// Entries of a thread's buffer.
const BUFFER: usize = 4096;

/// Address of a thread's `i`th access: (thread, i).
type Place = fn(u64, u64) -> u64;

/// A thread's buffer.
struct Buffer {
    entries: Vec<Access>,
    mask: u64,
    /// Entry from which on nothing was left out.
    complete_from: Option<usize>,
}

/// Coherence misses, and bytes that leave L2, of two threads with their `i`th accesses, of equal times, at `place(thread,
/// i)`. `joins`: a running thread leaves nothing out as soon as the sink wants that, as the translator does.
fn coherence(model: CacheModel, place: Place, joins: bool) -> (f64, f64) {
    let mut sink: Box<dyn AccessSink> = Box::new(model);
    let mut buffers =
        [0, 1].map(|thread| Buffer { entries: Vec::new(), mask: sink.collect(thread).mask(), complete_from: None });
    for i in 0..ACCESSES {
        for thread in 0..2 {
            let address = 0x4000_0000 + place(thread as u64, i);
            let access = Access { address, bytes: 8, site: 0, kind: AccessKind::Store };
            let buffer = &mut buffers[thread];
            if selected(address, buffer.mask) {
                buffer.entries.push(access);
            }
            if buffer.entries.len() < BUFFER {
                continue;
            }
            hand_over(sink.as_mut(), thread as u32, buffer);
            buffer.mask = sink.collect(thread as u32).mask();
            for (other, buffer) in (0..).zip(&mut buffers).filter(|_| joins) {
                if buffer.mask != 0 && sink.collect(other).mask() == 0 {
                    buffer.mask = 0;
                    buffer.complete_from = Some(buffer.entries.len());
                }
            }
        }
    }
    for (thread, buffer) in (0..).zip(&mut buffers) {
        hand_over(sink.as_mut(), thread, buffer);
        let (accesses, phase, kind) = (ACCESSES, Phase::Opening, AccessKind::Store);
        sink.executed(Executed { thread, site: 0, phase, kind, accesses, bytes: 8 * accesses, strings: false });
    }
    let evidence = sink.finish(&[CodeRef { module: 0, offset: 0 }]);
    let of_all = |(misses, bytes), Traffic { coherence, l3_write, .. }: Traffic| (misses + coherence, bytes + l3_write);
    evidence.sites.iter().map(|s| s.traffic).fold((0.0, 0.0), of_all)
}

fn hand_over(sink: &mut dyn AccessSink, thread: u32, buffer: &mut Buffer) {
    let whole = if buffer.mask == 0 { 0 } else { buffer.entries.len() };
    let (some, all) = buffer.entries.split_at(buffer.complete_from.take().unwrap_or(whole));
    if !some.is_empty() {
        sink.record_selected(thread, 1, some);
    }
    if !all.is_empty() {
        sink.record(thread, 1, all);
    }
    buffer.entries.clear();
}

#[test]
fn threads_that_share_lines_take_them_from_each_other_as_often_in_a_sample() {
    // Neighbouring words of the same lines; the same with one thread ahead; one hot line among lines of their own, which is in the
    // sample of lines or not.
    let places: [(&str, Place); 4] = [
        ("words of lines", |thread, i| i / 2 % 16_384 * 16 + thread * 8),
        ("one ahead", |thread, i| (i + thread * 40) / 2 % 16_384 * 16 + thread * 8),
        ("a hot line", |thread, i| if i % 8 == 0 { 0 } else { ((1 + thread) << 24) | (i % 65_536 * 8) }),
        ("another one", |thread, i| if i % 8 == 0 { 7 * 64 } else { ((1 + thread) << 24) | (i % 65_536 * 8) }),
    ];
    for (name, place) in places {
        let model = |sampled| {
            let make = if sampled { CacheModel::sampled } else { CacheModel::exact };
            make(host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new())
        };
        let exact = coherence(model(false), place, false);
        let [apart, joined] = [false, true].map(|joins| coherence(model(true), place, joins));
        println!("{name}: {exact:.0?} exact, sampled {joined:.0?} ({apart:.0?} with bursts at different times)");
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.25;
        assert!(exact.0 > 10_000.0 && near(joined.0, exact.0), "{name}: {joined:?} of {exact:?} misses");
        assert!(near(joined.1, exact.1), "{name}: {joined:?} of {exact:?} bytes out of L2");
    }
}
