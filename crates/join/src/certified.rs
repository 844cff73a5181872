//! Fills in figures from certified hardware counters that neither the counted pass nor the memory model gave: FLOPs, floating-point
//! instructions, misses and bytes at the controllers, each with its origin.
//!
//! An event that did not pass the trust check fills nothing, nor does one known by its sum over the program alone.

use super::code_map::FunctionId;
use super::hardware::{FLOPS, Hardware, MISSES, UNCERTAIN};
use rprof_isa::operation::{Precision, Width};
use rprof_profile::evidence::counters::{CounterEvent, UncoreCount};
use rprof_profile::flops::MissingFlops;
use rprof_profile::function::{Bytes, CacheMisses, Flops, Function, Source};

const READS: &str = "dram_read_lines";
const WRITES: &str = "dram_write_lines";
/// Fills of L1 are its misses, and so on: field of `cache_misses`, and the role of the events that count it.
const LEVELS: [&str; 3] = ["l1_fill", "l2_fill", MISSES];

/// Fills in the missing figures of `function`. `time_share`: its share of the program's CPU time.
pub fn fill(function: &mut Function, hardware: &Hardware, id: FunctionId, time_share: Option<f64>) {
    if function.flops.is_none() {
        fill_flops(function, hardware, id);
    }
    if function.fp_instructions.is_none() {
        function.fp_instructions = instructions(function, hardware, id, "fp_instructions");
    }
    if function.simd_instructions.is_none() {
        function.simd_instructions = instructions(function, hardware, id, "simd_fp_instructions");
    }
    if function.cache_misses.is_none() {
        fill_misses(function, hardware, id);
    }
    if function.bytes.and_then(|b| b.dram).is_none() {
        fill_dram(function, hardware, id, time_share);
    }
}

/// Events of `role` with their indices.
fn of_role<'h>(hardware: &Hardware<'h>, role: &'h str) -> impl Iterator<Item = (usize, &'h CounterEvent)> {
    hardware.evidence().events.iter().enumerate().filter(move |(_, e)| e.role == role)
}

/// Whether the readings distinguish functions.
fn by_function(hardware: &Hardware) -> bool {
    !hardware.evidence().groups.is_empty()
}

fn fill_flops(function: &mut Function, hardware: &Hardware, id: FunctionId) {
    let mut events = of_role(hardware, FLOPS).peekable();
    if events.peek().is_none() || !by_function(hardware) {
        return;
    }
    if let Some(left_out) = hardware.evidence().flops_left_out() {
        function.source.insert("flops".into(), Source::not_measured(left_out));
        return;
    }
    let (mut flops, mut scaled) = (Flops::default(), false);
    let mut error: f64 = 0.0;
    flops.missing_parts = MissingFlops { rare: true, op: true, ..MissingFlops::default() };
    for (index, event) in events {
        if !event.certified || event.total.is_err() {
            return;
        }
        let unread = || (None, Source::not_measured("the counters were never read in it"));
        let (value, source) = hardware.figure(id, index, None).unwrap_or_else(unread);
        let Some(value) = value else {
            function.source.insert("flops".into(), source);
            return;
        };
        add(&mut flops, event, value.round() as u64);
        error = error.hypot(source.error.unwrap_or(0.0) * value);
        scaled |= source.how != "pmu";
    }
    let how = if scaled { "pmu, scaled" } else { "pmu" };
    let relative = (flops.total > 0 && error > 0.0).then(|| error / flops.total as f64);
    if let Some(error) = relative.filter(|e| *e > UNCERTAIN) {
        function.source.insert("flops".into(), Source::not_measured(uncertain(error)));
        return;
    }
    function.source.insert("flops".into(), Source { how: how.into(), error: relative, reason: hardware.caveats() });
    const NOT_TOLD: &str = "the counters do not separate them";
    let parts = [
        (flops.missing_parts.op, "flops.by_op", NOT_TOLD),
        (flops.missing_parts.width, "flops.by_width", NOT_TOLD),
        (flops.missing_parts.precision, "flops.dp", NOT_TOLD),
        (flops.missing_parts.rare, "flops.x87", "the counters cover double and single precision only"),
    ];
    for (_, field, reason) in parts.into_iter().filter(|(is_missing, ..)| *is_missing) {
        function.source.insert(field.into(), Source::not_measured(reason));
    }
    function.flops = Some(if flops.missing_parts.precision { Flops { dp: 0, sp: 0, ..flops } } else { flops });
}

fn add(flops: &mut Flops, event: &CounterEvent, n: u64) {
    flops.total += n;
    match event.precision {
        Some(Precision::Dp) => flops.dp += n,
        Some(Precision::Sp) => flops.sp += n,
        Some(Precision::Hp) => flops.hp += n,
        Some(Precision::Bf16) => flops.bf16 += n,
        Some(Precision::X87) => flops.x87 += n,
        None => flops.missing_parts.precision = true,
    }
    match event.width {
        Some(Width::Scalar) => flops.by_width.scalar += n,
        Some(Width::W128) => flops.by_width.w128 += n,
        Some(Width::W256) => flops.by_width.w256 += n,
        Some(Width::W512) => flops.by_width.w512 += n,
        None => flops.missing_parts.width = true,
    }
}

/// Instructions of `role`, over all its events (widths, kinds of cores), with their difference from the counted pass's definition as the
/// reason; `None` if one of the events is not certified or has no figure.
fn instructions(function: &mut Function, hardware: &Hardware, id: FunctionId, role: &'static str) -> Option<u64> {
    if !by_function(hardware) {
        return None;
    }
    let (mut sum, mut absolute, mut source) = (0.0, 0.0_f64, None);
    for (index, event) in of_role(hardware, role) {
        let certified = event.certified && event.total.is_ok();
        let (value, found) = hardware.figure(id, index, None).filter(|_| certified)?;
        let value = value?;
        sum += value;
        absolute = absolute.hypot(found.error.unwrap_or(0.0) * value);
        source = source.or(Some(Source { reason: event.caveat.clone(), ..found }));
    }
    let error = (sum > 0.0 && absolute > 0.0).then(|| absolute / sum);
    let field = if role == "fp_instructions" { "fp_instructions" } else { "simd_instructions" };
    if let Some(error) = error.filter(|e| *e > UNCERTAIN) {
        function.source.insert(field.into(), Source::not_measured(uncertain(error)));
        return None;
    }
    function.source.insert(field.into(), Source { error, ..source? });
    Some(sum.round() as u64)
}

fn fill_misses(function: &mut Function, hardware: &Hardware, id: FunctionId) {
    let misses = LEVELS.map(|role| level(hardware, id, role));
    if misses.iter().all(Option::is_none) {
        return;
    }
    let missing = |field: &str| Source::not_measured(format!("no certified counter of {field}"));
    let lines = |found: &Option<(u64, Source)>| found.as_ref().map(|(n, _)| *n);
    function.cache_misses = Some(CacheMisses { l1: lines(&misses[0]), l2: lines(&misses[1]), l3: lines(&misses[2]) });
    function.source.remove("cache_misses");
    for (found, field) in misses.into_iter().zip(["cache_misses.l1", "cache_misses.l2", "cache_misses.l3"]) {
        let source = found.map_or_else(|| missing(field), |(_, source)| source);
        function.source.insert(field.into(), source);
    }
}

/// Misses of one level, over all kinds of cores; if a PMU has several events, the first one counts.
fn level(hardware: &Hardware, id: FunctionId, role: &'static str) -> Option<(u64, Source)> {
    if !by_function(hardware) {
        return None;
    }
    let mut sum: Option<(u64, Source)> = None;
    let mut pmus: Vec<&str> = Vec::new();
    for (index, event) in of_role(hardware, role) {
        if pmus.contains(&event.pmu.as_str()) || !event.certified {
            continue;
        }
        pmus.push(&event.pmu);
        let (value, source) = hardware.figure(id, index, None)?;
        let firm = source.error.is_none_or(|e| e <= UNCERTAIN);
        let value = value.filter(|_| firm)?.round() as u64;
        sum = Some(sum.map_or((value, source.clone()), |(n, first)| (n + value, first)));
    }
    sum
}

fn fill_dram(function: &mut Function, hardware: &Hardware, id: FunctionId, time_share: Option<f64>) {
    let Some(pairs) = controllers(&hardware.evidence().uncore) else { return };
    let of = |uncore: &UncoreCount| {
        let counter = hardware.uncore_of(uncore, id, time_share)?;
        let believed = counter.source.error.is_some_and(|e| e <= UNCERTAIN);
        Some((counter.value.filter(|v| believed && *v >= 0.0)?.round() as u64, counter.source))
    };
    let (mut all, mut read_bytes, mut written) = (0, Some(0), Some(0));
    let mut source = None;
    for (read, write) in pairs {
        let Some((bytes, found)) = of(read) else { return };
        source = source.or(Some(found));
        all += bytes;
        let Some(write) = write else {
            (read_bytes, written) = (None, None);
            continue;
        };
        let Some((write_bytes, _)) = of(write) else { return };
        all += write_bytes;
        (read_bytes, written) = (read_bytes.map(|n| n + bytes), written.map(|n| n + write_bytes));
    }
    let bytes = function.bytes.unwrap_or_default();
    let (dram_read, dram_write) = (read_bytes.or(bytes.dram_read), written.or(bytes.dram_write));
    function.bytes = Some(Bytes { dram: Some(all), dram_read, dram_write, ..bytes });
    function.source.extend(source.map(|s| ("bytes.dram".into(), s)));
}

/// Reads, and writes if they are not in the same count.
type Pair<'u> = (&'u UncoreCount, Option<&'u UncoreCount>);

/// The first certified count of reads with that of writes on the same kind of box, or one of both directions; with it those of every
/// further memory. `None` if a memory has none: the traffic of the others is incomplete.
pub fn controllers(uncore: &[UncoreCount]) -> Option<Vec<Pair<'_>>> {
    let usable = |u: &&UncoreCount| u.certified && u.bytes.is_ok();
    let pair = |read: &'_ UncoreCount| {
        let write = uncore.iter().filter(usable).find(|u| u.role == WRITES && u.pmu == read.pmu);
        (read.both_directions || write.is_some()).then_some(write.filter(|_| !read.both_directions))
    };
    let of = |further: bool| {
        let reads = uncore.iter().filter(usable).filter(move |u| u.role == READS && u.further == further);
        reads.filter_map(|read| Some((read, pair(read)?))).next()
    };
    let main = of(false)?;
    match uncore.iter().any(|u| u.further) {
        true => Some(vec![main, of(true)?]),
        false => Some(vec![main]),
    }
}

/// Most of the count may belong to other functions, or the turns of a shared counter missed it.
fn uncertain(error: f64) -> String {
    format!("the counters give them to ± {:.0} % only: they were read too rarely in it (-F), or shared", 100.0 * error)
}
