//! Advice on a deficiency, with its evidence: which loop, which chain, which stores.

use rprof_isa::facts::AccessKind;
use rprof_isa::operation::{FpOp, Width};
use rprof_profile::Function;
use rprof_profile::function::{Chain, ChainStep, Cycle};

use super::bound::Bound;
use super::deficiency::{Deficiency, Removed};
use super::host::Trace;
use super::memory_side;
use super::reuse::Reuse;
use super::terms::{Subject, TermId, bandwidth, chain};

/// Advice for removing one deficiency or a pair.
pub fn for_removal(subject: &Subject<'_>, bound: &Bound, remove: &[Deficiency]) -> String {
    let parts: Vec<String> = remove.iter().map(|d| sentence(subject, bound, *d)).collect();
    parts.join(" Also: ")
}

fn sentence(subject: &Subject<'_>, bound: &Bound, d: Deficiency) -> String {
    let f = subject.function;
    match d {
        Deficiency::Threads => format!(
            "It ran on {} of {} allowed CPUs: share its work among more threads.",
            subject.team.most(),
            subject.team.allowed.unwrap_or(subject.team.most())
        ),
        Deficiency::Imbalance => match f.lambda {
            Some(l) => format!(
                "Its {} threads were busy {:.0} % of the time of the busiest: distribute the work more evenly (dynamic schedule, smaller chunks).",
                subject.team.size,
                100.0 * l
            ),
            None => format!("Its {} threads were not at work all the time: distribute the work more evenly.", subject.team.size),
        },
        Deficiency::Ilp => ilp(subject),
        Deficiency::Mix => mix(subject),
        Deficiency::Simd => simd(subject),
        Deficiency::Fma => fma(f),
        Deficiency::DivSqrt => div_sqrt(f),
        Deficiency::Access => format!("{}: load and store whole vectors, keep values in registers.", accesses(f)),
        Deficiency::Latency => format!("{}{}", latency_advice(subject), room(subject)),
        Deficiency::WriteAllocate => write_allocate(subject),
        Deficiency::CapacityMisses => format!(
            "{} of its memory lines were loaded before and had been evicted{}: block the loop for the cache{}.",
            share_of_misses(f, |t| t.capacity),
            match subject.reuse {
                Reuse::SameCall { passes } => format!(", each about {passes:.0} times in one call"),
                _ => String::new(),
            },
            at_loop(f)
        ),
        Deficiency::SeparatePasses => separate_passes(subject),
        Deficiency::PrivateConflicts => private_conflicts(f),
        Deficiency::Strides => strides(f),
        Deficiency::MemoryImbalance if subject.spread.is_uneven() => format!(
            "One of its {} threads moved {:.0} % of its bytes from memory, at the bandwidth of one core: share the data out, so \
             that all threads move as much.",
            subject.team.size,
            100.0 * subject.spread.busiest
        ),
        Deficiency::MemoryImbalance => format!(
            "The busiest memory controller carried {:.2} times the mean of all (hardware counters): let each thread touch \
             its own data first, or interleave it over the nodes (numactl --interleave=all).",
            1.0 / subject.uneven.unwrap_or(1.0)
        ),
        Deficiency::SmallPages => format!(
            "{:.0} % of its lines from memory lie on pages of 4 KiB, each of which has to be translated, and stops prefetchers at \
             its end: put its large data on huge pages \
             (GLIBC_TUNABLES=glibc.malloc.hugetlb=1 for what malloc gives, madvise(MADV_HUGEPAGE), or \
             /sys/kernel/mm/transparent_hugepage/enabled).",
            100.0 * f.work.as_ref().and_then(|w| w.traffic?.small_page_share()).unwrap_or(1.0)
        ),
        Deficiency::ConflictMisses => format!(
            "{} of its memory lines were evicted by others of the same set: pad the leading dimension or the arrays.",
            share_of_misses(f, |t| t.conflict)
        ),
    }
    .trim()
    .to_owned()
    .replace("  ", " ")
        + if bound.refuted.is_empty() { "" } else { " (A ceiling was refuted; see the warnings.)" }
}

/// ` (triad.c:12)`: the most expensive loop, if its line is known.
pub(super) fn at_loop(f: &Function) -> String {
    let chain = f.work.as_ref().and_then(|w| w.chains.iter().max_by_key(|c| c.iterations));
    let place = chain.and_then(|c| Some((c.line?, file_of(f, c)))).or(f.line.map(|line| (line, f.file.as_deref())));
    match place {
        Some((line, Some(file))) => format!(" ({}:{line})", last_part(file)),
        _ => String::new(),
    }
}

pub(super) fn chain_place(f: &Function, c: &Chain) -> String {
    match (c.line, file_of(f, c)) {
        (Some(line), Some(file)) => format!("the loop at {}:{line}", last_part(file)),
        (Some(line), None) => format!("the loop at line {line}"),
        _ => format!("the loop at {:#x}", c.header),
    }
}

fn file_of<'a>(f: &'a Function, c: &'a Chain) -> Option<&'a str> {
    c.file.as_deref().or(f.file.as_deref())
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn describe(step: &ChainStep) -> String {
    match step {
        ChainStep::Fp { op, precision, .. } => format!("{} {}", precision.name(), op.name()),
        ChainStep::Vector => "vector operation".into(),
        ChainStep::Integer => "integer operation".into(),
        ChainStep::Compare => "compare".into(),
        ChainStep::Select => "conditional move".into(),
        ChainStep::IntegerMultiply => "integer multiply".into(),
        ChainStep::IntegerDivide => "integer divide".into(),
        ChainStep::Load => "load".into(),
        ChainStep::Forward => "store and reload of the same address".into(),
    }
}

/// `3 × dp add → store and reload of the same address`
fn describe_cycle(steps: &[ChainStep]) -> String {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for name in steps.iter().map(describe) {
        match runs.last_mut() {
            Some((last, n)) if *last == name => *n += 1,
            _ => runs.push((name, 1)),
        }
    }
    let words: Vec<String> = runs.into_iter().map(|(w, n)| if n > 1 { format!("{n} × {w}") } else { w }).collect();
    words.join(" → ")
}

fn ilp(subject: &Subject<'_>) -> String {
    let f = subject.function;
    let mut trace = Trace::default();
    let chains = f.work.as_ref().map_or(&[][..], |w| &w.chains);
    let worst = chains
        .iter()
        .filter_map(|c| chain::critical(c, subject.host, &mut Trace::default()).map(|(cycle, s)| (c, cycle, s)))
        .max_by(|a, b| {
            let t = |x: &Chain| chain::chain_seconds(x, subject.host, &mut Trace::default());
            t(a.0).total_cmp(&t(b.0))
        });
    let Some((c, cycle, seconds)) = worst else {
        return "A dependency chain holds it: keep several partial results.".into();
    };
    let period = subject.host.cycle(&mut trace).filter(|s| *s > 0.0);
    let cost = period.map_or(String::new(), |p| format!(", {:.1} cycles an iteration", seconds / p));
    format!(
        "Each iteration of {} waits for the one before ({}{cost}): unroll it with several independent partial results.",
        chain_place(f, c),
        describe_cycle(&cycle.steps)
    )
}

fn mix(subject: &Subject<'_>) -> String {
    let f = subject.function;
    if !subject.vector.is_loop() {
        let calls = f.work.as_ref().and_then(|w| w.calls).filter(|n| *n > 1);
        let calls = calls.map_or(String::new(), |n| format!(" in {} calls", count(n)));
        return format!(
            "The number of its instructions holds it ({}{calls}), and they are in no loop to speak of: do less, or do more at a time.",
            count(f.instructions.unwrap_or(0))
        );
    }
    let share = f.fp_instructions.zip(f.instructions).map(|(fp, n)| 100.0 * fp as f64 / (n.max(1)) as f64);
    let large = f.work.as_ref().filter(|w| w.code_bytes > 32 << 10).map(|w| w.code_bytes >> 10);
    match (large, share) {
        (_, Some(s)) if s < 1.0 && large.is_none() => format!(
            "The number of its instructions holds it ({} of them): hoist address arithmetic, moves and tests out of the loop{}; unroll.",
            count(f.instructions.unwrap_or(0)),
            at_loop(f)
        ),
        (Some(kib), _) => format!(
            "Its hot code is {kib} KiB, more than the instruction cache holds: unroll less, split cold code off."
        ),
        (None, Some(s)) => format!(
            "Only {s:.0} % of its instructions do floating-point arithmetic: hoist address arithmetic, moves and tests out of the loop{}; unroll.",
            at_loop(f)
        ),
        _ => "Most of its instructions do no arithmetic: hoist them out of the loop; unroll.".into(),
    }
}

/// Advice for data that another function had in the caches before.
fn separate_passes(subject: &Subject<'_>) -> String {
    let Reuse::OtherFunction { name, data, share } = &subject.reuse else { return String::new() };
    format!(
        "{:.0} % of its memory lines belong to data ({data}) that {name} moves as well: fuse the two loops, so that each part is used \
         while a cache still has it. (By the names of data.)",
        100.0 * share
    )
}

fn private_conflicts(f: &Function) -> String {
    let t = f.work.as_ref().and_then(|w| w.traffic).unwrap_or_default();
    let level = |name: &str, part: f64, all: f64| {
        (part > 0.05 * all).then(|| format!("{:.0} % of its {name} misses", 100.0 * part / all))
    };
    let levels: Vec<String> = [level("L1", t.l1_conflict, t.l1_misses), level("L2", t.l2_conflict, t.l2_misses)]
        .into_iter()
        .flatten()
        .collect();
    format!(
        "{} are of lines that others of the same set had pushed out, as distances of a power of two make them do: pad rows or \
         arrays by a cache line{}.",
        levels.join(" and "),
        at_loop(f)
    )
}

fn strides(f: &Function) -> String {
    let t = f.work.as_ref().and_then(|w| w.traffic).unwrap_or_default();
    let known = t.lines_of_known_order();
    format!(
        "{:.0} % of the lines that it brings to L1 come with a stride, and a visit uses a part of each{}: change the order of the \
         loops or of the data to go through them one after the other, or work in blocks that a cache holds.",
        100.0 * t.strided_lines / known.max(1.0),
        at_loop(f)
    )
}

fn simd(subject: &Subject<'_>) -> String {
    let f = subject.function;
    let Some(work) = &f.work else { return "Vectorise it.".into() };
    if let Some(bytes) = subject.vector.integers() {
        let bits = subject.host.machine().vector_bits.unwrap_or(128);
        return format!(
            "Its loop works on integers of {bytes} bytes one after the other: vectorise it{} for {bits}-bit registers, {} at once.",
            at_loop(f),
            bits / 8 / bytes
        );
    }
    let all: u64 = work.mix.iter().map(|e| e.instructions).sum();
    let scalar: u64 = work.mix.iter().filter(|e| e.width == Width::Scalar).map(|e| e.instructions).sum();
    let useful = work.mix.first().and_then(|e| subject.host.useful_width(e.op, e.precision));
    let width = useful.map_or("vector registers".into(), |w| format!("{}-bit registers", w.name()));
    let place = at_loop(f);
    let order = another_order(subject);
    match 100 * scalar / all.max(1) {
        50.. => format!(
            "{} % of its floating-point arithmetic is scalar: vectorise the loop{place} for {width}{order}.",
            100 * scalar / all.max(1)
        ),
        _ => format!(
            "Its arithmetic uses narrower registers or masked-off lanes: use all lanes of {width}{place}{order}."
        ),
    }
}

/// What vectors do to the order of a floating-point sum, if the loop has one.
pub(super) fn another_order(subject: &Subject<'_>) -> &'static str {
    if chain::is_reordered(subject) {
        ", with partial results that are put together at the end (-fassociative-math, or by hand): its last digits change"
    } else {
        ""
    }
}

fn fma(f: &Function) -> String {
    let by = f.flops.map(|x| x.by_op).unwrap_or_default();
    format!(
        "{} adds and {} multiplies are not fused, beside {} FLOPs in fused multiply-adds: combine them (-ffp-contract=fast, -mfma), or balance adds and multiplies.",
        count(by.add),
        count(by.mul),
        count(by.fma)
    )
}

fn div_sqrt(f: &Function) -> String {
    let of = |op| f.work.as_ref().map_or(0, |w| w.mix.iter().filter(|e| e.op == op).map(|e| e.instructions).sum());
    format!(
        "{} divisions and {} square roots keep the divider busy{}: multiply by a reciprocal computed once, or use the approximation with Newton steps (as the saving assumes).",
        count(of(FpOp::Div)),
        count(of(FpOp::Sqrt)),
        at_loop(f)
    )
}

fn accesses(f: &Function) -> String {
    let all = f.work.as_ref().map_or(&[][..], |w| &w.accesses);
    let sum = |store: bool| -> u64 {
        let is_store = |k| matches!(k, AccessKind::Store | AccessKind::NtStore | AccessKind::Scatter);
        all.iter().filter(|a| is_store(a.kind) == store).map(|a| a.count).sum()
    };
    format!("{} loads and {} stores keep the L1 ports busy{}", count(sum(false)), count(sum(true)), at_loop(f))
}

fn latency_advice(subject: &Subject<'_>) -> String {
    let f = subject.function;
    let chase = f
        .work
        .as_ref()
        .and_then(|w| w.chains.iter().filter(|c| c.cycles.iter().any(Cycle::is_chase)).max_by_key(|c| c.iterations));
    match chase {
        Some(c) => format!(
            "In {} each load's address comes from the load before, one walk at a time: with several lists 16 walks could go on at once, as \
             the saving assumes; of one list, store the nodes in the order of their use.",
            chain_place(f, c)
        ),
        None => format!("Its misses follow no stride{}: sort the accesses, or prefetch ahead.", at_loop(f)),
    }
}

/// The room for software prefetching that the miss queues show (A.3).
fn room(subject: &Subject<'_>) -> String {
    memory_side::room(subject).map_or(String::new(), |room| {
        format!(
            " In {:.0} % of the cycles in which it waited for memory the queue of misses had room (hardware counters, not \
             certified): prefetching can gain {:.2} s at most.",
            100.0 * room.share,
            room.seconds
        )
    })
}

fn write_allocate(subject: &Subject<'_>) -> String {
    let f = subject.function;
    let traffic = f.work.as_ref().and_then(|w| w.traffic).unwrap_or_default();
    let stores: u64 =
        f.work.as_ref().map_or(0, |w| w.accesses.iter().filter(|a| a.kind == AccessKind::Store).map(|a| a.count).sum());
    let bytes = traffic.dram_read + traffic.dram_write;
    let spared = bandwidth::past_the_caches(traffic);
    let over = |bytes: f64, removed: Removed| {
        let seconds = subject.term(TermId::Dram, removed).seconds.filter(|s| *s > 0.0);
        let rate = seconds.map_or(String::new(), |s| format!(" at {:.1} GB/s", bytes / s / 1e9));
        format!("{:.2} GB{rate}", bytes / 1e9)
    };
    format!(
        "Its {} stores made memory send {:.2} GB of lines that they overwrite whole{}: use non-temporal stores of whole vectors; memory \
        then moves {} instead of {}.",
        count(stores),
        traffic.needless_fills() / 1e9,
        at_loop(f),
        over(spared.dram_read + spared.dram_write, Removed::only(Deficiency::WriteAllocate)),
        over(bytes, Removed::NONE)
    )
}

fn share_of_misses(f: &Function, part: impl Fn(&rprof_profile::evidence::memory::Traffic) -> f64) -> String {
    let Some(t) = f.work.as_ref().and_then(|w| w.traffic) else { return "Many".into() };
    let all = t.misses();
    if all <= 0.0 { "None".into() } else { format!("{:.0} %", 100.0 * part(&t) / all) }
}

/// A count for people: three significant digits and words for powers of a thousand.
fn count(n: u64) -> String {
    let (scale, word) = match n {
        0..1_000 => return n.to_string(),
        1_000..1_000_000 => (1e3, "thousand"),
        1_000_000..1_000_000_000 => (1e6, "million"),
        _ => (1e9, "billion"),
    };
    let scaled = n as f64 / scale;
    let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.decimals$} {word}")
}
