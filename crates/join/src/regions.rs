//! Marked regions: seconds from the timed pass's calls and samples, counts from the counted pass's blocks by path.
//!
//! A region's bytes are those of its instructions: the memory model's bytes of an instruction in the whole run, times the share of its
//! executions that was in the region.

use std::collections::{BTreeMap, HashMap};

use super::Evidence;
use super::blocks::ExecutedBlocks;
use super::code_map::{CodeMap, FunctionId};
use super::counts::{Counts, FunctionCounts};
use super::sampled::Sampled;
use super::shown_names::ShownNames;
use super::traffic::{self, FunctionTraffic};
use rprof_profile::evidence::blocks::{BlockCount, DynamicCount};
use rprof_profile::evidence::counted::CountedEvidence;
use rprof_profile::evidence::marks::{CountedMarks, Marked, TimedMarks};
use rprof_profile::evidence::memory::Traffic;
use rprof_profile::function::{Bytes, Source};
use rprof_profile::region::{Marker, Region, RegionPart, Work};
use rprof_profile::run::Warning;

/// Maximum functions listed of a region.
const PARTS: usize = 10;
/// From this share of a region's bytes in instructions that other code executes, too, the report says so.
const SPLIT: f64 = 0.01;

/// The regions of a run.
pub struct Found {
    /// The program first, if it has any marks.
    pub regions: Vec<Region>,
    /// Doubts about the calls.
    pub warnings: Vec<Warning>,
}

/// The inputs for regions.
pub struct Basis<'b, 'e> {
    evidence: &'b Evidence<'e>,
    sampled: Option<&'b Sampled<'e>>,
    executed: Option<&'b ExecutedBlocks<'e>>,
    traffic: Option<&'b HashMap<FunctionId, FunctionTraffic>>,
    names: &'b ShownNames,
    /// Counts of whole functions that have traffic.
    whole: HashMap<FunctionId, Counts>,
}

impl<'b, 'e> Basis<'b, 'e> {
    /// For a run in which markers were called; `None` if none was.
    pub fn new(
        evidence: &'b Evidence<'e>,
        sampled: Option<&'b Sampled<'e>>,
        executed: Option<&'b ExecutedBlocks<'e>>,
        traffic: Option<&'b HashMap<FunctionId, FunctionTraffic>>,
        names: &'b ShownNames,
    ) -> Option<Self> {
        let timed = evidence.timed.and_then(|t| t.marks.as_ref());
        let counted = evidence.counted.and_then(|c| c.marks.as_ref());
        if counted.is_none_or(|c| c.marked.is_empty()) && timed.is_none_or(|t| t.marked.is_empty()) {
            return None;
        }
        let ids = traffic.into_iter().flat_map(HashMap::keys).copied();
        let counts = |id| Some((id, FunctionCounts::of(executed?.of(id), executed?, None).whole));
        Some(Basis { evidence, sampled, executed, traffic, names, whole: ids.filter_map(counts).collect() })
    }
}

/// The index of a region in the marks of each pass.
#[derive(Debug, Default, Clone, Copy)]
struct InPasses {
    timed: Option<u32>,
    counted: Option<u32>,
}

/// Joins the regions of both passes.
pub fn regions(basis: &Basis, code: &mut CodeMap) -> Found {
    let timed = basis.evidence.timed.and_then(|t| t.marks.as_ref());
    let counted = basis.evidence.counted.and_then(|c| c.marks.as_ref()).filter(|c| !c.marked.is_empty());
    let calls: Option<&Marked> = counted.map(|c| &c.marked).or(timed.map(|t| &t.marked));
    let warnings = calls.map(|m| m.warnings.clone()).unwrap_or_default();
    let mut found = vec![program(basis, calls, code)];
    for (key, found_in) in in_passes(timed, counted) {
        let mut region = blank(key.0, key.1);
        region.entries = entries(found_in, timed, counted);
        let work = |marked: &Marked, index: u32| work_in(marked, &marked.holding(index));
        region.work = match (found_in.counted.zip(counted), found_in.timed.zip(timed)) {
            (Some((index, c)), _) => work(&c.marked, index),
            (None, Some((index, t))) => work(&t.marked, index),
            (None, None) => Vec::new(),
        };
        let mut parts = HashMap::new();
        of_time(&mut region, found_in.timed, timed, basis, &mut parts);
        of_counts(&mut region, found_in.counted, counted, basis, (code, &mut parts));
        region.functions = listed(parts, basis.names, code);
        found.push(region);
    }
    Found { regions: found, warnings }
}

/// (name, marker) of the regions of either pass, in the order of their first beginning, and the index in each pass.
fn in_passes(timed: Option<&TimedMarks>, counted: Option<&CountedMarks>) -> Vec<((String, Marker), InPasses)> {
    let mut found: Vec<((String, Marker), InPasses)> = Vec::new();
    let marked = [counted.map(|c| &c.marked), timed.map(|t| &t.marked)];
    for (is_timed, marked) in [false, true].into_iter().zip(marked) {
        let regions = marked.map_or(&[][..], |m| &m.regions);
        for (index, region) in regions.iter().enumerate().filter(|(_, r)| r.entries > 0) {
            let key = (region.name.clone(), Marker::from(region.api));
            let at = found.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                found.push((key, InPasses::default()));
                found.len() - 1
            });
            let found_in = &mut found[at].1;
            *(if is_timed { &mut found_in.timed } else { &mut found_in.counted }) = Some(index as u32);
        }
    }
    found
}

fn entries(found_in: InPasses, timed: Option<&TimedMarks>, counted: Option<&CountedMarks>) -> Option<u64> {
    let in_counted = found_in.counted.zip(counted).map(|(i, c)| c.marked.regions[i as usize].entries);
    in_counted.or(found_in.timed.zip(timed).map(|(i, t)| t.marked.regions[i as usize].entries))
}

fn blank(name: String, marker: Marker) -> Region {
    Region {
        name,
        marker,
        source: BTreeMap::new(),
        entries: None,
        time_s: None,
        cpu_s: None,
        samples: None,
        instructions: None,
        flops: None,
        bytes: None,
        functions: Vec::new(),
        work: Vec::new(),
    }
}

/// The work on the paths that are `held`.
fn work_in(marked: &Marked, held: &[bool]) -> Vec<Work> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for work in marked.work.iter().filter(|w| held[w.path as usize]) {
        *sums.entry(&work.unit).or_default() += work.amount;
    }
    sums.into_iter().map(|(unit, amount)| Work { unit: unit.into(), amount }).collect()
}

/// The program as a region.
fn program(basis: &Basis, calls: Option<&Marked>, code: &mut CodeMap) -> Region {
    let mut region = blank("whole program".into(), Marker::Program);
    region.work = calls.map(|m| work_in(m, &vec![true; m.paths.len()])).unwrap_or_default();
    let mut parts = HashMap::new();
    if let Some((timed, sampled)) = basis.evidence.timed.zip(basis.sampled) {
        region.time_s = Some(timed.wall_s);
        add_samples(&mut region, sampled, |_| true, &mut parts);
        for field in ["time_s", "cpu_s"] {
            put(&mut region, field, "sampled", None);
        }
    } else {
        for field in ["time_s", "cpu_s"] {
            missing(&mut region, field, "there was no timed pass");
        }
    }
    match basis.executed {
        Some(executed) => add_counts(&mut region, executed, basis, &mut parts),
        None => no_counts(&mut region, &counts_missing(basis)),
    }
    region.functions = listed(parts, basis.names, code);
    region
}

fn counts_missing(basis: &Basis) -> String {
    basis.evidence.counted_missing.clone().unwrap_or_else(|| "there was no counted pass".into())
}

/// Seconds and samples of a region.
fn of_time(
    region: &mut Region,
    index: Option<u32>,
    timed: Option<&TimedMarks>,
    basis: &Basis,
    parts: &mut HashMap<FunctionId, RegionPart>,
) {
    let reason = match (basis.evidence.timed, timed) {
        (None, _) => "there was no timed pass".to_owned(),
        (Some(pass), None) if pass.source == "ptrace" => {
            "the program was sampled through ptrace, which does not see calls of markers".into()
        }
        (_, timed) => {
            let refused = timed.and_then(|t| t.refused.iter().find(|(api, _)| Marker::from(**api) == region.marker));
            refused.map_or_else(|| "the timed pass saw no call that begins it".into(), |(_, why)| why.clone())
        }
    };
    let is_seen = |t: &&TimedMarks| t.refused.keys().all(|api| Marker::from(*api) != region.marker);
    let known = timed.filter(is_seen).zip(index).zip(basis.sampled);
    let Some(((timed, index), sampled)) = known else {
        for field in ["time_s", "cpu_s"] {
            missing(region, field, &reason);
        }
        return;
    };
    region.time_s = Some(timed.seconds[index as usize]);
    put(region, "time_s", "marker calls", None);
    let held = timed.marked.holding(index);
    add_samples(region, sampled, |path| held.get(path as usize).copied().unwrap_or(false), parts);
    let error = region.samples.filter(|n| *n > 0).map(|n| (n as f64).sqrt().recip());
    put(region, "cpu_s", "sampled", error);
}

fn add_samples(
    region: &mut Region,
    sampled: &Sampled,
    held: impl Fn(u32) -> bool,
    parts: &mut HashMap<FunctionId, RegionPart>,
) {
    let (mut seconds, mut samples) = (0.0, 0);
    for sample in sampled.samples.iter().filter(|s| held(s.path)) {
        seconds += sample.weight_s;
        samples += 1;
        let part = parts.entry(sample.function).or_default();
        part.cpu_s = Some(part.cpu_s.unwrap_or(0.0) + sample.weight_s);
    }
    (region.cpu_s, region.samples) = (Some(seconds), Some(samples));
}

/// Counts and bytes of a region.
fn of_counts(
    region: &mut Region,
    index: Option<u32>,
    counted: Option<&CountedMarks>,
    basis: &Basis,
    (code, parts): (&mut CodeMap, &mut HashMap<FunctionId, RegionPart>),
) {
    let reason = match (basis.evidence.counted, counted, index) {
        (None, ..) => counts_missing(basis),
        (_, Some(CountedMarks { withheld: Some(why), .. }), _) => why.clone(),
        (Some(pass), None, _) if pass.marks.is_none() => format!("the {} engine does not follow markers", pass.source),
        _ => "the counted pass saw no call that begins it".into(),
    };
    let known = counted.filter(|c| c.withheld.is_none()).zip(index);
    let Some((counted, index)) = known else { return no_counts(region, &reason) };
    let held = counted.marked.holding(index);
    let blocks = counted.blocks.iter().filter_map(|block| in_paths(block, &held)).collect();
    let inside = CountedEvidence { blocks, ..CountedEvidence::default() };
    add_counts(region, &ExecutedBlocks::new(&inside, code), basis, parts);
}

/// The part of a block's counts on the paths that are `held`, as if one thread had executed it.
fn in_paths(block: &BlockCount, held: &[bool]) -> Option<BlockCount> {
    let executions: u64 = block.executions.iter().filter(|(path, _)| held[*path as usize]).map(|(_, n)| n).sum();
    let dynamic = block.dynamic.iter().filter(|d| held[d.thread as usize]);
    let dynamic: Vec<DynamicCount> = dynamic.map(|d| DynamicCount { thread: 0, ..*d }).collect();
    let any = executions > 0 || dynamic.iter().any(|d| d.sum > 0);
    any.then(|| BlockCount {
        at: block.at,
        code: block.code.clone(),
        executions: vec![(0, executions)],
        dynamic,
        calls: Vec::new(),
    })
}

fn add_counts(
    region: &mut Region,
    inside: &ExecutedBlocks,
    basis: &Basis,
    parts: &mut HashMap<FunctionId, RegionPart>,
) {
    let (mut instructions, mut flops, mut l1) = (0, 0, 0);
    let (mut sum, mut split, mut whole) = (Traffic::default(), 0.0, 0.0);
    for (&id, spans) in &inside.spans {
        let counts = FunctionCounts::of(spans, inside, None);
        let tally = &counts.whole.tally;
        instructions += tally.instructions;
        flops += tally.flops.total;
        l1 += tally.l1_bytes;
        let part = parts.entry(id).or_default();
        part.instructions = Some(tally.instructions);
        part.flops = Some(tally.flops.total);
        let (Some(traffic), Some(all)) = (basis.traffic.and_then(|t| t.get(&id)), basis.whole.get(&id)) else {
            continue;
        };
        for (at, _, bytes) in &traffic.sites {
            let executions = all.executions(*at);
            if executions == 0 {
                continue;
            }
            let share = counts.whole.executions(*at) as f64 / executions as f64;
            let bytes = scaled(bytes, share);
            let beyond = bytes.l2_read + bytes.l2_write;
            whole += beyond;
            split += if share < 1.0 { beyond } else { 0.0 };
            sum.add(&bytes);
        }
    }
    (region.instructions, region.flops) = (Some(instructions), Some(flops));
    let with_memory = basis.traffic.map(|_| traffic::bytes(&sum)).unwrap_or_default();
    region.bytes = Some(Bytes { l1: Some(l1), ..with_memory });
    for field in ["instructions", "flops", "bytes.l1"] {
        put(region, field, "counted", None);
    }
    for field in ["bytes.l2", "bytes.l3", "bytes.dram"] {
        match basis.traffic {
            Some(_) if split > SPLIT * whole => put(region, field, "simulated, split by executions", None),
            Some(_) => put(region, field, "simulated", None),
            None => missing(region, field, "there was no memory model (--memory off)"),
        }
    }
}

/// The bytes beyond L1 of this `share` of an instruction's executions.
fn scaled(traffic: &Traffic, share: f64) -> Traffic {
    Traffic {
        l2_read: share * traffic.l2_read,
        l2_write: share * traffic.l2_write,
        l3_read: share * traffic.l3_read,
        l3_write: share * traffic.l3_write,
        dram_read: share * traffic.dram_read,
        dram_write: share * traffic.dram_write,
        ..Traffic::default()
    }
}

fn no_counts(region: &mut Region, reason: &str) {
    for field in ["instructions", "flops", "bytes"] {
        missing(region, field, reason);
    }
}

/// The largest parts, named.
fn listed(parts: HashMap<FunctionId, RegionPart>, names: &ShownNames, code: &mut CodeMap) -> Vec<RegionPart> {
    let named = |(id, part): (FunctionId, RegionPart)| RegionPart { name: names.of(&code.known(id).name), ..part };
    let mut parts: Vec<RegionPart> = parts.into_iter().map(named).collect();
    parts.sort_by(|a, b| {
        let key = |p: &RegionPart| (p.cpu_s.unwrap_or(0.0), p.instructions.unwrap_or(0));
        key(b).0.total_cmp(&key(a).0).then(key(b).1.cmp(&key(a).1)).then_with(|| a.name.cmp(&b.name))
    });
    parts.truncate(PARTS);
    parts
}

fn put(region: &mut Region, field: &str, how: &str, error: Option<f64>) {
    region.source.insert(field.into(), Source { how: how.into(), error, reason: None });
}

fn missing(region: &mut Region, field: &str, reason: &str) {
    region.source.insert(field.into(), Source::not_measured(reason));
}
