//! Bandwidth of each level by kind of stream: from the sizes that sysfs names, checked by a sweep over working sets.

use std::ops::Range;

use super::arrays::{self, Shape};
use super::irregular;
use super::plateau::plateaus;
use crate::error::MachineError;
use crate::harness::arena::{Arena, PADDING, Pages};
use crate::harness::rolling_window::Windows;
use crate::harness::timing::{Plan, Rate, Work};
use crate::kernels::x86_64::stream::{Stream, Variant, stream};
use crate::suite::campaign::{Campaign, Effort, Label};
use rprof_isa::operation::Width;
use rprof_profile::machine::{ON_SMALL_PAGES, Sweep};

/// A level of the memory hierarchy with the working sets to try in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Level {
    name: &'static str,
    /// Ending of the names of its ceilings, if their pages are not huge.
    suffix: &'static str,
    /// Bytes of the working set of one thread: if there are several, the best counts.
    sets: Vec<u64>,
    beyond_l1: bool,
    beyond_l2: bool,
}

impl Level {
    fn new(name: &'static str, sets: Vec<u64>) -> Self {
        Level { name, suffix: "", sets, beyond_l1: name != "l1", beyond_l2: !matches!(name, "l1" | "l2") }
    }

    /// Memory: all of a thread's slab.
    fn far(arena: &Arena) -> Self {
        Level::new("dram", vec![arena.slab - PAD])
    }

    fn largest(&self) -> u64 {
        self.sets.iter().copied().max().unwrap_or(0)
    }
}

/// `{l1,l2,l3,dram}.{read,copy,triad,update,write}`, `dram.{copy,triad,write}.nt`, `dram.{noprefetch,prefetch}`,
/// `dram.cores.k`, in byte/s (docs/conventions.md, Bytes).
pub fn levels(campaign: &mut Campaign) -> Result<(), MachineError> {
    let counts = if campaign.effort == Effort::Quick { campaign.ends() } else { campaign.counts.clone() };
    for threads in counts {
        if !campaign
            .wants_family(&["l1.read", "l1.copy", "l1.triad", "l1.update", "l1.write", "l2.", "l3.", "dram."], threads)
        {
            continue;
        }
        let prefetched = "dram.prefetch".to_owned();
        let streams: Vec<String> =
            dram_streams("").into_iter().chain(names_of_read(threads)).chain([prefetched]).collect();
        if !campaign.wants_family_on(Pages::Huge, &streams, threads) {
            near_alone(campaign, threads)?;
            continue;
        }
        let Some(arena) = campaign.far(threads, Pages::Huge)? else {
            no_far_buffer(campaign, threads);
            near_alone(campaign, threads)?;
            continue;
        };
        campaign.fill(&arena)?;
        for level in levels_of(campaign, threads, Some(&arena)) {
            kinds(campaign, &arena, &level)?;
        }
        write_fraction(campaign, threads);
        extras(campaign, &arena)?;
    }
    affinity(campaign)
}

/// The sweeps `workingset.{kind}`; in a quick measurement, only the indispensable part.
pub fn sweeps(campaign: &mut Campaign) -> Result<(), MachineError> {
    for threads in campaign.ends() {
        let is_known = !campaign.measures_all() && campaign.swept("workingset.read", threads as u32).is_some();
        if is_known || campaign.effort == Effort::Quick && threads > 1 {
            continue;
        }
        let Some(arena) = campaign.far(threads, Pages::Huge)? else { continue };
        campaign.fill(&arena)?;
        match campaign.effort {
            Effort::Full => sweep(campaign, &arena)?,
            Effort::Quick => sweep_last_level(campaign, &arena)?,
        }
    }
    Ok(())
}

/// The levels before DRAM, in a buffer of their own.
fn near_alone(campaign: &mut Campaign, threads: usize) -> Result<(), MachineError> {
    // Twice the set holds its arrays and their padding.
    let bytes = |level: &Level| 2 * level.largest() * threads as u64 + (1 << 20);
    let (near, large): (Vec<_>, Vec<_>) =
        levels_of(campaign, threads, None).into_iter().partition(|level| bytes(level) <= campaign.memory / 4);
    for (level, kind) in large.iter().flat_map(|l| Stream::ALL.map(|kind| (l, kind))) {
        let reason =
            format!("its arrays need more than a quarter of the available memory ({} MiB)", campaign.memory >> 20);
        campaign.missing(Label::new(format!("{}.{}", level.name, kind.name()), "byte/s", threads), reason);
    }
    if campaign.out_of_time() {
        for (level, kind) in near.iter().flat_map(|l| Stream::ALL.map(|kind| (l, kind))) {
            campaign.leaves_out(&Label::new(format!("{}.{}", level.name, kind.name()), "byte/s", threads));
        }
        return Ok(());
    }
    let Some(total) = near.iter().map(bytes).max() else { return Ok(()) };
    let arena = Arena::new(campaign.team(), threads, total, Pages::Huge, false)?;
    campaign.fill(&arena)?;
    near.iter().try_for_each(|level| kinds(campaign, &arena, level))
}

/// A short measurement of `dram.read`, in byte/s; `None` if it needs more than `largest` bytes.
///
/// # Errors
/// As any measurement.
pub fn probe(campaign: &Campaign, threads: usize, largest: u64) -> Result<Option<Rate>, MachineError> {
    let Some(total) = campaign.far_bytes().map(|b| b.min(largest)).filter(|b| *b >= 2 * campaign.topology.llc_total)
    else {
        return Ok(None);
    };
    let arena = Arena::new(campaign.team(), threads, total, Pages::Huge, false)?;
    // Empty the caches of the arena, which is walked only once: caches keep part of a stream that goes round in so small a buffer.
    irregular::flush(campaign, &arena)?;
    let plan = Plan { seconds: 4e-4, pieces: 1, repetitions: 4, fastest: 2 };
    let variant = Variant::plain(campaign.features.widest());
    let Some((work, elements)) = work(campaign, &arena, Stream::Read, Walk::far(variant, &arena))? else {
        return Ok(None);
    };
    let rate = campaign.watch().rate(&work, elements, plan)?;
    Ok(Some(rate.scaled(8.0)))
}

/// Records the DRAM ceilings as missing.
fn no_far_buffer(campaign: &mut Campaign, threads: usize) {
    for id in dram_streams("").into_iter().chain(names_of_read(threads)) {
        no_buffer(campaign, Label::new(id, "byte/s", threads));
    }
    let prefetch = Label::new("dram.prefetch", "byte/s", threads);
    if !campaign.is_left_out(&prefetch) {
        no_buffer(campaign, prefetch);
    }
}

/// Largest working set in L3, as a multiple of L2. At this size the start of a stream costs nothing any more, and of a last level of
/// hundreds of MiB a guest gets only a part.
const LARGEST_IN_L2S: u64 = 16;

/// The working sets; only the first ones if time is short. L1: three quarters, since the end of a pass costs less there, and half. L2:
/// half, which Zen 5 reads steadily at 64 bytes a cycle, and a quarter, which it reads sometimes at that rate and sometimes at 48. The
/// quarter is there because the sets of L2 fill unevenly on small pages, since physical addresses index it. L3: no one size is best for
/// every kind of stream, so from not much more than L2 to half of this thread's share or [`LARGEST_IN_L2S`]. DRAM: one window of the slab
/// after the other.
fn levels_of(campaign: &Campaign, threads: usize, far: Option<&Arena>) -> Vec<Level> {
    let size = |level| campaign.topology.cache(level).map(|c| c.size);
    let in_time = |sets: &[u64], quick: usize| {
        let tried = if campaign.effort == Effort::Full { sets.len() } else { quick };
        sets[..tried].to_vec()
    };
    let mut levels = Vec::new();
    if let Some(l1) = size(1) {
        levels.push(Level::new("l1", in_time(&[l1 * 3 / 4, l1 / 2], 1)));
    }
    if let Some(l2) = size(2) {
        levels.push(Level::new("l2", in_time(&[l2 / 2, l2 / 4], 1)));
    }
    if let Some(l3) = campaign.topology.cache(3) {
        let sharers = (l3.shared_by as usize).min(threads).max(1) as u64;
        let share = l3.size / sharers;
        let l2 = size(2).unwrap_or(share / 8);
        let (least, most) = ((3 * l2).min(share), (share / 2).min(LARGEST_IN_L2S * l2).max(l2));
        let between = ((l2 as f64 * share as f64).sqrt() as u64).max(5 * l2).clamp(least.min(most), most);
        let mut sets = in_time(&[between, least, most], 2);
        sets.dedup();
        levels.push(Level::new("l3", sets));
    }
    if let Some(far) = far {
        levels.push(Level::far(far));
    }
    levels
}

fn kinds(campaign: &mut Campaign, arena: &Arena, level: &Level) -> Result<(), MachineError> {
    for kind in Stream::ALL {
        let id = format!("{}.{}{}", level.name, kind.name(), level.suffix);
        let label = Label::new(id, "byte/s", arena.threads);
        if campaign.leaves_out(&label) {
            continue;
        }
        let plan = plan(campaign, level);
        let walks = walks(campaign, arena, level, kind);
        let best = campaign.best_way(&label, &walks, |campaign, walk| elements(campaign, arena, kind, *walk, plan))?;
        match best {
            Some(rate) => {
                let bytes = kind.bytes_per_element(level.beyond_l1, false) as f64;
                campaign.record(label, &rate.scaled(bytes));
            }
            None => campaign.missing(label, "its arrays do not fit the buffer"),
        }
    }
    Ok(())
}

/// The ways to walk that are tried: loops × working sets × paddings.
fn walks(campaign: &Campaign, arena: &Arena, level: &Level, kind: Stream) -> Vec<Walk> {
    let mut walks = Vec::new();
    for (variant, set) in
        variants(campaign, level, kind).into_iter().flat_map(|v| level.sets.iter().map(move |s| (v, *s)))
    {
        if level.name == "dram" {
            walks.push(Walk::far(variant, arena));
            continue;
        }
        let skip = place(campaign, level, arena.slab.saturating_sub(set + PAD));
        let of = |padding: &u64| Walk { variant, set, skip, padding: *padding, windows: 1 };
        walks.extend(paddings(campaign, level, kind).iter().map(of));
    }
    walks
}

/// Paddings of arrays. Near the core, they decide how the banks of loads and stores follow each other (Zen 5, triad in L1: 160 to 181 bytes
/// a cycle, most of them 165 to 175, the most with three to nine lines).
const PADDINGS: [u64; 4] = [PADDING, 4 * 64, 7 * 64, 9 * 64];

fn paddings(campaign: &Campaign, level: &Level, kind: Stream) -> &'static [u64] {
    let several = !level.beyond_l2 && kind.arrays() > 1 && campaign.effort == Effort::Full;
    if several { &PADDINGS } else { &PADDINGS[..1] }
}

/// The ways to try: the two widest widths, and near the core two lengths of the loop. If time is short, only the widest one beyond L2,
/// except for reads and writes of DRAM, which are faster with narrower ones on some cores (Zen 5: by 5 %).
fn variants(campaign: &Campaign, level: &Level, kind: Stream) -> Vec<Variant> {
    let mut widths = campaign.features.widths();
    widths.retain(|w| *w != Width::Scalar);
    widths.reverse();
    let near = !level.beyond_l2;
    let both = near
        || campaign.effort == Effort::Full
        || (level.name == "dram" && matches!(kind, Stream::Read | Stream::Write));
    widths.truncate(if both { 2 } else { 1 });
    let lengths: &[usize] = if near { &[2, 8] } else { &[16] };
    widths.iter().flat_map(|w| lengths.iter().map(|unroll| Variant { unroll: *unroll, ..Variant::plain(*w) })).collect()
}

fn plan(campaign: &Campaign, level: &Level) -> Plan {
    match level.name {
        "l1" | "l2" => campaign.core_plan(),
        "l3" => Plan { seconds: campaign.shared_plan().seconds / 4.0, ..campaign.shared_plan() },
        _ => campaign.shared_plan(),
    }
}

/// Bytes between two places in a slab that the arrays of L2 use in turn: enough pages for the arrays, and no round number. The place
/// of the arrays decides in which address hashes they collide.
const BETWEEN_PLACES: u64 = 1061 * 4096;

/// The bytes to skip of a slab that has `room` beside the arrays, in this round.
fn place(campaign: &Campaign, level: &Level, room: u64) -> u64 {
    let places = if level.name == "l2" { room / BETWEEN_PLACES + 1 } else { 1 };
    campaign.round() as u64 % places * BETWEEN_PLACES
}

/// How a stream walks: the loop, the bytes of one thread's working set, the bytes before it in the thread's slab, the padding of its
/// arrays, and the number of consecutive windows.
#[derive(Debug, Clone, Copy)]
struct Walk {
    variant: Variant,
    set: u64,
    skip: u64,
    padding: u64,
    windows: u64,
}

impl Walk {
    /// Through all of the slab.
    fn far(variant: Variant, arena: &Arena) -> Self {
        Walk::of_set(variant, arena, arena.slab - PAD)
    }

    /// Walks the first `set` bytes of the slab, in windows if it is large.
    fn of_set(variant: Variant, arena: &Arena, set: u64) -> Self {
        Walk { variant, set, skip: 0, padding: PADDING, windows: set.div_ceil(arena.window()).max(1) }
    }
}

/// Bytes that arrays may be apart from each other, altogether.
const PAD: u64 = 4 * 8192;

/// Elements (of eight bytes) a second, all threads together.
fn elements(
    campaign: &Campaign,
    arena: &Arena,
    kind: Stream,
    walk: Walk,
    plan: Plan,
) -> Result<Option<Rate>, MachineError> {
    let Some((work, elements)) = work(campaign, arena, kind, walk)? else { return Ok(None) };
    campaign.watch().rate(&work, elements, plan).map(Some)
}

/// The kernel on the arrays of each thread, and the elements that all threads together process in one pass.
fn work(
    campaign: &Campaign,
    arena: &Arena,
    kind: Stream,
    Walk { variant, set, skip, padding, windows }: Walk,
) -> Result<Option<(Work, f64)>, MachineError> {
    let window = set / windows;
    let array_bytes = if windows > 1 { window - PAD } else { window } / kind.arrays();
    let shape = Shape { arrays: kind.arrays(), body_bytes: variant.body_bytes(), array_bytes, skip, padding };
    let Some((arguments, inner)) = arrays::arguments(arena, shape) else { return Ok(None) };
    let kernel = stream(kind, variant, campaign.features)?;
    let elements = (inner * variant.body_bytes() / 8) as f64 * arena.threads as f64;
    let work = Work::new(kernel, arguments);
    let apart = Windows { count: windows, bytes: window / 4096 * 4096, stride: 8, walked: arena.walked() };
    Ok(Some((if windows > 1 { work.through(apart) } else { work }, elements)))
}

/// Other names of `dram.read`: without software prefetches, and by the number of cores that generate traffic.
fn names_of_read(threads: usize) -> [String; 2] {
    ["dram.noprefetch".into(), format!("dram.cores.{threads}")]
}

/// Kinds with stores that go past the caches.
const NON_TEMPORAL: [Stream; 3] = [Stream::Copy, Stream::Triad, Stream::Write];

/// `dram.{read,copy,triad,update,write}.4k` and `dram.{copy,triad,write}.nt.4k`: the streams of DRAM on pages of 4 KiB; some prefetchers
/// stop at the ends of pages. The memory behind them is contiguous 2 MiB at a time, so that the values are reproducible. If the kernel
/// hands out single pages, streams may be slower (Zen 1: reads by up to a third, Zen 5: by 3 %).
pub fn on_small_pages(campaign: &mut Campaign) -> Result<(), MachineError> {
    let ids = dram_streams(ON_SMALL_PAGES);
    for threads in campaign.ends() {
        // They are compared with those on huge pages of the same measurement.
        if campaign.effort == Effort::Quick {
            ids.iter().for_each(|id| campaign.left_out(Label::new(id.clone(), "byte/s", threads)));
            continue;
        }
        if !campaign.wants_family_on(Pages::Split, &ids, threads) {
            continue;
        }
        let Some(arena) = campaign.far(threads, Pages::Split)? else {
            ids.iter().for_each(|id| no_buffer(campaign, Label::new(id.clone(), "byte/s", threads)));
            continue;
        };
        campaign.fill(&arena)?;
        kinds(campaign, &arena, &Level { suffix: ON_SMALL_PAGES, ..Level::far(&arena) })?;
        non_temporal(campaign, &arena, &NON_TEMPORAL, ON_SMALL_PAGES)?;
    }
    Ok(())
}

/// The ids of the streams of DRAM, with `suffix`.
fn dram_streams(suffix: &str) -> Vec<String> {
    let plain = Stream::ALL.map(|kind| format!("dram.{}{suffix}", kind.name()));
    let past_caches = NON_TEMPORAL.map(|kind| format!("dram.{}.nt{suffix}", kind.name()));
    plain.into_iter().chain(past_caches).collect()
}

/// Records that `label` has no far buffer, for lack of memory or of time.
fn no_buffer(campaign: &mut Campaign, label: Label) {
    if !campaign.wants(&label) {
        return;
    }
    let (quarter_mib, llc_mib) = ((campaign.memory / 4) >> 20, campaign.topology.llc_total >> 20);
    match campaign.far_bytes() {
        Some(_) => campaign.too_late(label),
        None => campaign.missing(
            label,
            format!(
                "a quarter of the available memory ({quarter_mib} MiB) is less than four times the last-level caches ({llc_mib} MiB)"
            ),
        ),
    }
}

/// `dram.{copy,triad,write}.nt` for `kinds`, with `suffix`.
fn non_temporal(campaign: &mut Campaign, arena: &Arena, kinds: &[Stream], suffix: &str) -> Result<(), MachineError> {
    let width = campaign.features.widest();
    for &kind in kinds {
        let label = Label::new(format!("dram.{}.nt{suffix}", kind.name()), "byte/s", arena.threads);
        if campaign.leaves_out(&label) {
            continue;
        }
        let variant = Variant { non_temporal: true, ..Variant::plain(width) };
        if let Some(rate) = elements(campaign, arena, kind, Walk::far(variant, arena), campaign.shared_plan())? {
            campaign.record(label, &rate.scaled(kind.bytes_per_element(true, true) as f64));
        }
    }
    Ok(())
}

/// Non-temporal stores, software prefetch, and the number of cores that generate traffic.
fn extras(campaign: &mut Campaign, arena: &Arena) -> Result<(), MachineError> {
    let threads = arena.threads;
    non_temporal(campaign, arena, &NON_TEMPORAL, "")?;
    let read = campaign.found("dram.read", threads).cloned();
    for id in names_of_read(threads) {
        match &read {
            Some(read) => campaign.alias(&id, read),
            None => no_buffer(campaign, Label::new(id, "byte/s", threads)),
        }
    }
    prefetch(campaign, arena)
}

/// Sweep `writefraction.dram`: bytes a second over the share of writes among them (a fill for a store is a read). Other mixes are
/// interpolated between its points.
fn write_fraction(campaign: &mut Campaign, threads: usize) {
    let share = |kind: Stream| kind.accesses().1 as f64 * 8.0 / kind.bytes_per_element(true, false) as f64;
    let mut points: Vec<(f64, f64)> = [Stream::Read, Stream::Triad, Stream::Copy, Stream::Update]
        .iter()
        .filter_map(|kind| Some((share(*kind), campaign.found(&format!("dram.{}", kind.name()), threads)?.value?)))
        .collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (x_unit, y_unit) = ("write share".into(), "byte/s".into());
    campaign.sweep(Sweep { id: "writefraction.dram".into(), x_unit, y_unit, threads: threads as u32, points });
}

/// The distances that are tried.
const DISTANCES: [u32; 6] = [256, 512, 1024, 2048, 4096, 8192];

/// `dram.prefetch`: the best of several distances, which the sweep `prefetch-distance` shows.
fn prefetch(campaign: &mut Campaign, arena: &Arena) -> Result<(), MachineError> {
    let label = Label::new("dram.prefetch", "byte/s", arena.threads);
    if campaign.is_left_out(&label) || campaign.leaves_out(&label) {
        return Ok(());
    }
    let width = campaign.features.widest();
    let walk = |distance| Walk::far(Variant { prefetch: Some(distance), ..Variant::plain(width) }, arena);
    let mut points = Vec::new();
    let best = campaign.best_way(&label, &DISTANCES, |campaign, distance| {
        let rate = elements(campaign, arena, Stream::Read, walk(*distance), campaign.shared_plan())?;
        points.extend(rate.iter().map(|rate| (f64::from(*distance), 8.0 * rate.best)));
        Ok(rate)
    })?;
    if let Some(rate) = best {
        campaign.record(label, &rate.scaled(8.0));
    }
    if points.len() == DISTANCES.len() {
        campaign.sweep(curve("prefetch-distance", arena.threads, points));
    }
    Ok(())
}

/// `workingset.{kind}`: bytes a second over the bytes of all threads' sets, 4 KiB a thread up to the slab.
fn sweep(campaign: &mut Campaign, arena: &Arena) -> Result<(), MachineError> {
    for kind in Stream::ALL.into_iter().filter(|kind| *kind == Stream::Read || arena.threads == 1) {
        let points = working_sets(campaign, arena, kind, 4096..arena.slab - PAD)?;
        if kind == Stream::Read {
            let found = plateaus(&points);
            let ends = found.iter().map(|p| (p.to, p.value)).collect();
            campaign.sweep(curve("plateaus.read", arena.threads, ends));
        }
        let id = format!("workingset.{}", kind.name());
        campaign.sweep(curve(&id, arena.threads, points));
    }
    Ok(())
}

/// The part of `workingset.read` that a first run needs: how much of the last-level cache this host gets
/// (`memory/caches/effective_llc.rs`), and how much it keeps of streams (`roofline/terms/llc_retention.rs`).
fn sweep_last_level(campaign: &mut Campaign, arena: &Arena) -> Result<(), MachineError> {
    let (Some(l2), Some(l3)) = (campaign.topology.cache(2).map(|c| c.size), campaign.topology.cache(3).map(|c| c.size))
    else {
        return Ok(());
    };
    let sets = (4 * l2).max(l3 / 16)..(4 * l3 + 1).min(arena.slab - PAD);
    let points = working_sets(campaign, arena, Stream::Read, sets)?;
    campaign.sweep(curve("workingset.read", arena.threads, points));
    Ok(())
}

/// Points of `workingset.{kind}` for sets of these bytes a thread, each larger by the square root of two than the one before. For kinds
/// other than reads (their plateaus are not searched) the factor is two, and four if a point takes long.
fn working_sets(
    campaign: &mut Campaign,
    arena: &Arena,
    kind: Stream,
    sets: Range<u64>,
) -> Result<Vec<(f64, f64)>, MachineError> {
    let variant = Variant { unroll: 8, ..Variant::plain(campaign.features.widest()) };
    let far = campaign.topology.cache(2).map_or(1 << 20, |c| 2 * c.size);
    let mut points = Vec::new();
    let mut set = sets.start as f64;
    while (set as u64) < sets.end && !campaign.out_of_time() {
        let plan = Plan { seconds: (set / 20e9).clamp(50e-6, 2e-3), pieces: 1, repetitions: 4, fastest: 2 };
        let walk = Walk::of_set(variant, arena, set as u64);
        if walk.windows > 1
            && let Some((once, _)) = work(campaign, arena, kind, walk)?
        {
            // The timed parts belong to the set, so the part that a cache keeps has to be there.
            let caches = campaign.topology.llc_total * 5 / 4 / arena.threads as u64;
            let kept = caches.div_ceil(set as u64 / walk.windows);
            campaign.watch().plan(caches as f64 / PLANNED_STREAM);
            campaign.watch().time(&once, walk.windows.min(kept), 1)?;
        }
        if let Some(rate) = elements(campaign, arena, kind, walk, plan)? {
            let beyond_l1 = set as u64 > campaign.topology.cache(1).map_or(32 << 10, |c| c.size);
            let bytes = kind.bytes_per_element(beyond_l1, false) as f64;
            points.push((set.floor() * arena.threads as f64, rate.best * bytes));
        }
        set *= match kind {
            Stream::Read => std::f64::consts::SQRT_2,
            _ if (set as u64) < far => 2.0,
            _ => 4.0,
        };
    }
    Ok(points)
}

/// Planned bandwidth for bringing a set into the caches, in bytes a second.
const PLANNED_STREAM: f64 = 5e9;

/// A curve of bandwidth over bytes.
fn curve(id: &str, threads: usize, points: Vec<(f64, f64)>) -> Sweep {
    Sweep { id: id.into(), x_unit: "byte".into(), y_unit: "byte/s".into(), threads: threads as u32, points }
}

/// `dram.noaffinity`: all memory on the node of the first thread. `dram.snoop`: the smallest set beyond the caches, which a snoop filter
/// may cover. Both concern hosts with several nodes, all threads.
fn affinity(campaign: &mut Campaign) -> Result<(), MachineError> {
    let threads = campaign.most();
    let ids = ["dram.noaffinity", "dram.snoop"];
    if !campaign.wants_family(&ids, threads) {
        return Ok(());
    }
    let labels = ids.map(|id| Label::new(id, "byte/s", threads));
    if campaign.topology.nodes.len() < 2 {
        for label in labels {
            campaign.missing(label, "this host has one memory node: memory cannot be on the wrong one");
        }
        return Ok(());
    }
    let Some(total) = campaign.far_bytes().filter(|_| !campaign.out_of_time()) else {
        labels.into_iter().for_each(|label| no_buffer(campaign, label));
        return Ok(());
    };
    let variant = Variant::plain(campaign.features.widest());
    for (id, bytes, one_node) in [(ids[0], total, true), (ids[1], total / 2, false)] {
        campaign.watch().plan_bytes(bytes);
        let arena = Arena::new(campaign.team(), threads, bytes, Pages::Huge, one_node)?;
        if let Some(rate) =
            elements(campaign, &arena, Stream::Read, Walk::far(variant, &arena), campaign.shared_plan())?
        {
            campaign.record(Label::new(id, "byte/s", threads), &rate.scaled(8.0));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::features::Features;
    use crate::host::limits::Limits;
    use crate::host::topology::Topology;

    #[test]
    fn windows_cover_the_slab() {
        let cpus = &Limits::read().cpus[..1];
        let topology = Topology::detect("/sys".as_ref(), cpus).0;
        let campaign = Campaign::new(Features::detect(), topology, 1, 4 << 30, Effort::Quick).expect("one thread");
        let arena = Arena::new(campaign.team(), 1, 40 << 20, Pages::Small, false).expect("40 MiB");
        arena.fill(campaign.team()).expect("fill");
        let walk = Walk::far(Variant::plain(Width::W128), &arena);
        assert!(walk.windows > 8, "{walk:?}");
        let (write, elements) = work(&campaign, &arena, Stream::Write, walk).expect("encodes").expect("fits");
        campaign.watch().time(&write, walk.windows, 1).expect("runs");
        // SAFETY: the mapping holds as many bytes behind its address, and no thread writes them now.
        let all = unsafe { std::slice::from_raw_parts(arena.slab_address(0) as *const f64, arena.slab as usize / 8) };
        let written = all.iter().filter(|x| **x != 1.0).count();
        assert_eq!(written as f64, elements * walk.windows as f64, "each window once");
        assert!(written as f64 > 0.98 * all.len() as f64, "{written} of {}", all.len());
    }
}
