//! T_l1 … T_dram: bytes over the bandwidth of the function's own read/write mix.
//!
//! ```text
//! T_level = bytes / B(w)       w = bytes written / bytes,  1/B linear in w between the measured kinds
//! T_dram  = plain bytes / B(w) + NT bytes / B_nt(w)
//! ```
//!
//! Bytes are those of docs/conventions.md, Bytes (towards the core; from L2 on with write-allocate fills and write-backs), so the
//! kinds have these write shares: at L1 read 0, triad 1/3, copy and update 1/2, write 1; beyond it read 0, triad 1/4,
//! copy 1/3, update and write 1/2; with non-temporal stores triad 1/3, copy 1/2, write 1. Data on pages of 4 KiB comes from
//! DRAM at the bandwidth of such pages (`paging.rs`).

use rprof_profile::evidence::memory::Traffic;

use super::super::deficiency::{Deficiency, Removed};
use super::super::host::{Host, Scaling, Trace};
use super::{Subject, TermId, misses, paging, zeroed};

/// A measured kind and the share of its bytes that are written.
type Kind = (&'static str, f64);

const L1_KINDS: [Kind; 5] = [("read", 0.0), ("triad", 1.0 / 3.0), ("copy", 0.5), ("update", 0.5), ("write", 1.0)];
const FILLED_KINDS: [Kind; 5] = [("read", 0.0), ("triad", 0.25), ("copy", 1.0 / 3.0), ("update", 0.5), ("write", 0.5)];
const NT_KINDS: [Kind; 4] = [("read", 0.0), ("triad.nt", 1.0 / 3.0), ("copy.nt", 0.5), ("write.nt", 1.0)];

/// T_l1, T_l2 or T_l3 at `threads`, in seconds.
pub fn cache_seconds(
    subject: &Subject<'_>,
    id: TermId,
    threads: u32,
    removed: Removed,
    trace: &mut Trace,
) -> Option<f64> {
    let level = id.name();
    let left = traffic(subject).map(|t| misses::without(subject, t, removed));
    let (read, written) = match (left, id) {
        (Some(t), TermId::L1) => (t.l1_read, t.l1_write),
        (Some(t), TermId::L2) => (t.l2_read, t.l2_write),
        (Some(t), _) => (t.l3_read, t.l3_write),
        (None, _) => {
            let bytes = subject.function.bytes.unwrap_or_default();
            let bytes = match id {
                TermId::L1 => bytes.l1,
                TermId::L2 => bytes.l2,
                _ => bytes.l3,
            };
            return undivided(level, bytes, threads, subject.host, trace);
        }
    };
    let scaling = if id == TermId::L3 { Scaling::Shared } else { Scaling::PerCore };
    let kinds = if id == TermId::L1 { &L1_KINDS[..] } else { &FILLED_KINDS[..] };
    over_bandwidth(&Flow { level, kinds, scaling, read, written, small_share: 0.0 }, threads, subject.host, trace)
}

/// T_dram at `threads`, in seconds, with write-allocate fills, avoidable misses or small pages in `removed` gone.
pub fn dram_seconds(subject: &Subject<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Option<f64> {
    let Some(mut t) = traffic(subject) else {
        let bytes = subject.function.bytes.unwrap_or_default();
        return match (bytes.dram_read, bytes.dram_write) {
            (Some(r), Some(w)) => {
                over_bandwidth(&dram(&FILLED_KINDS, r as f64, w as f64, 0.0), threads, subject.host, trace)
            }
            _ => undivided("dram", bytes.dram, threads, subject.host, trace),
        };
    };
    t = zeroed::without(subject, misses::without(subject, t, removed));
    let small_share = paging::small_share(subject, removed);
    let plain = traffic_seconds(&t, small_share, threads, subject.host, trace)?;
    if !removed.has(Deficiency::WriteAllocate) || t.needless_fills() <= 0.0 {
        return Some(plain);
    }
    // Streaming stores, if lines are overwritten whole: no fill, and they go past the caches. On some hosts they are slower.
    t = past_the_caches(t);
    Some(traffic_seconds(&t, small_share, threads, subject.host, trace)?.min(plain))
}

/// The same traffic with stores past the caches if they avoid fills. Other functions may have written back this function's lines.
pub fn past_the_caches(mut t: Traffic) -> Traffic {
    let needless = t.needless_fills();
    t.dram_nt += needless;
    t.dram_write = t.dram_write.max(t.dram_nt);
    t.dram_read = (t.dram_read - needless).max(0.0);
    t.dram_fill = (t.dram_fill - needless).max(0.0);
    t
}

/// The best measured bandwidth of any kind of stream at `level` (`l1` … `dram`) on up to `threads` threads, in bytes a second.
pub fn best(level: &str, threads: u32, host: Host<'_>) -> Option<f64> {
    let kinds = L1_KINDS.iter().chain(&NT_KINDS).map(|(kind, _)| format!("{level}.{kind}"));
    let scaling = if matches!(level, "l1" | "l2") { Scaling::PerCore } else { Scaling::Shared };
    let rates = kinds.flat_map(|id| (1..=threads).filter_map(move |k| host.peek(&id, k, scaling)));
    rates.reduce(f64::max)
}

/// Seconds for traffic with known stores, filled and non-temporal, with a share on small pages.
fn traffic_seconds(t: &Traffic, small_share: f64, threads: u32, host: Host<'_>, trace: &mut Trace) -> Option<f64> {
    let total = t.dram_read + t.dram_write;
    if total <= 0.0 {
        return Some(0.0);
    }
    // Reads are shared out between the two kinds of stores by their written bytes.
    let nt = if t.dram_write > 0.0 { (t.dram_nt / t.dram_write).clamp(0.0, 1.0) } else { 0.0 };
    let mut seconds = 0.0;
    if nt < 1.0 {
        let kinds = if fills_most(t) { &FILLED_KINDS[..] } else { &FILLED_KINDS[..4] };
        let flow = dram(kinds, t.dram_read * (1.0 - nt), t.dram_write * (1.0 - nt), small_share);
        seconds += over_bandwidth(&flow, threads, host, trace)?;
    }
    if nt > 0.0 {
        let kinds = if host.has("dram.copy.nt") { &NT_KINDS[..] } else { &FILLED_KINDS[..] };
        let flow = dram(kinds, t.dram_read * nt, t.dram_write * nt, small_share);
        seconds += over_bandwidth(&flow, threads, host, trace)?;
    }
    Some(seconds)
}

/// Whether most of the written lines were filled for the store alone (`write`) rather than loaded before (`update`).
fn fills_most(t: &Traffic) -> bool {
    t.dram_fill > 0.5 * (t.dram_write - t.dram_nt).max(0.0)
}

fn traffic(subject: &Subject<'_>) -> Option<Traffic> {
    subject.function.work.as_ref().and_then(|w| w.traffic)
}

/// Bytes of unknown direction, over the best bandwidth of any kind: the loosest bound.
fn undivided(level: &str, bytes: Option<u64>, threads: u32, host: Host<'_>, trace: &mut Trace) -> Option<f64> {
    let Some(bytes) = bytes else {
        trace.lacks(format!("bytes at {level} not measured"));
        return None;
    };
    let ids = ["read", "copy", "triad", "update"].map(|kind| format!("{level}.{kind}"));
    let best = ids
        .iter()
        .filter_map(|id| host.peek(id, threads, Scaling::PerCore).map(|v| (id, v)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        Some((id, rate)) => {
            trace.from.insert(id.clone());
            trace.lacks(format!("read and write bytes at {level} are not separated"));
            Some(bytes as f64 / rate)
        }
        None => {
            trace.lacks(format!("{level}.read not measured"));
            None
        }
    }
}

fn dram(kinds: &[Kind], read: f64, written: f64, small_share: f64) -> Flow<'_> {
    Flow { level: "dram", kinds, scaling: Scaling::Shared, read, written, small_share }
}

/// Bytes at one level by direction, and the kinds of stream that bound them by their bandwidth.
struct Flow<'k> {
    level: &'k str,
    kinds: &'k [Kind],
    scaling: Scaling,
    read: f64,
    written: f64,
    /// Share of them on small pages.
    small_share: f64,
}

/// The least time of a byte of one kind of stream.
struct Point {
    /// Share of its bytes that are written.
    written: f64,
    /// Seconds.
    per_byte: f64,
    /// Ceilings that say so.
    ids: Vec<String>,
}

impl Flow<'_> {
    /// Of one of its kinds; `None` if that was not measured.
    fn point(&self, (kind, written): Kind, threads: u32, host: Host<'_>) -> Option<Point> {
        let id = format!("{}.{kind}", self.level);
        let huge_rate = host.peek(&id, threads, self.scaling)?;
        let small_id = paging::small_id(&id);
        let slower = if self.small_share > 0.0 { host.share_of(&small_id, &id, threads) } else { None };
        Some(match slower.filter(|share| *share < 1.0) {
            Some(slower) => {
                let per_byte = paging::per_unit(huge_rate, slower * huge_rate, self.small_share);
                Point { written, per_byte, ids: vec![id, small_id] }
            }
            None => Point { written, per_byte: 1.0 / huge_rate, ids: vec![id] },
        })
    }
}

fn over_bandwidth(flow: &Flow<'_>, threads: u32, host: Host<'_>, trace: &mut Trace) -> Option<f64> {
    let bytes = flow.read + flow.written;
    if bytes <= 0.0 {
        return Some(0.0);
    }
    let share = flow.written / bytes;
    let mut points: Vec<Point> = Vec::new();
    for &kind in flow.kinds {
        let Some(point) = flow.point(kind, threads, host) else { continue };
        let filled_write = kind.0 == "write" && flow.level != "l1";
        match points.iter_mut().find(|known| known.written == point.written) {
            // Two kinds with the same share: the faster one is the bound, but for stores to lines that are not loaded before.
            Some(known) if filled_write || point.per_byte < known.per_byte => *known = point,
            Some(_) => {}
            None => points.push(point),
        }
    }
    if points.is_empty() {
        trace.lacks(format!("{} bandwidth not measured", flow.level));
        return None;
    }
    let (low, high) = neighbours(&points, share);
    trace.from.extend(low.ids.iter().chain(&high.ids).cloned());
    let per_byte = if high.written > low.written {
        let way = ((share - low.written) / (high.written - low.written)).clamp(0.0, 1.0);
        low.per_byte + (high.per_byte - low.per_byte) * way
    } else {
        low.per_byte
    };
    Some(bytes * per_byte)
}

/// The measured points on both sides of `share`; the outermost one twice outside their range.
fn neighbours(points: &[Point], share: f64) -> (&Point, &Point) {
    const SAME: f64 = 0.01;
    if let Some(exact) = points.iter().find(|p| (p.written - share).abs() < SAME) {
        return (exact, exact);
    }
    let below = points.iter().filter(|p| p.written <= share).max_by(|a, b| a.written.total_cmp(&b.written));
    let above = points.iter().filter(|p| p.written >= share).min_by(|a, b| a.written.total_cmp(&b.written));
    match (below, above) {
        (Some(b), Some(a)) => (b, a),
        (Some(b), None) => (b, b),
        (None, Some(a)) => (a, a),
        (None, None) => (&points[0], &points[0]),
    }
}
