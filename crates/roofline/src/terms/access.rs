//! T_access: loads and stores per second by width and register file.
//!
//! ```text
//! T_load   = max( Σ over vector loads of count / rate(width),  Σ over all loads of count / best rate )
//! T_store  = Σ over stores of count / rate(width, file)
//! T_access = max(T_load, T_store, u · (T_load + T_store))        u from a measured mix of both
//! ```
//!
//! Vector loads use a subset of the load ports; general-purpose ones can use all.

use rprof_isa::facts::AccessKind;
use rprof_profile::function::AccessEntry;

use super::super::deficiency::{Deficiency, Removed};
use super::super::host::{Host, Scaling, Trace};
use super::{Subject, vector};

/// T_access at `threads`, in seconds.
pub fn seconds(subject: &Subject<'_>, threads: u32, removed: Removed, trace: &mut Trace) -> Option<f64> {
    let Some(work) = &subject.function.work else {
        trace.lacks("accesses not counted");
        return None;
    };
    let host = subject.host;
    let widened = |entry: &AccessEntry| match removed.has(Deficiency::Simd) {
        true => vector::widened(entry, &subject.vector, host),
        false => (entry.count as f64, entry.bytes, entry.vector),
    };
    let (mut vector_loads, mut all_loads, mut stores) = (0.0, 0.0, 0.0);
    for entry in &work.accesses {
        let (count, bytes, in_vector) = widened(entry);
        match entry.kind {
            AccessKind::Load | AccessKind::Gather => {
                let Some(rate) = rate(host, "load", bytes, in_vector, threads, trace) else { continue };
                let integer = if in_vector { best_load_rate(host, threads).max(rate) } else { rate };
                all_loads += count / integer;
                if in_vector {
                    vector_loads += count / rate;
                }
            }
            AccessKind::Store | AccessKind::NtStore | AccessKind::Scatter => {
                if let Some(rate) = rate(host, "store", bytes, in_vector, threads, trace) {
                    stores += count / rate;
                }
            }
            AccessKind::Prefetch => {}
        }
    }
    let nothing_known = !work.accesses.is_empty() && trace.from.is_empty();
    let loads = vector_loads.max(all_loads);
    let in_vectors = work.accesses.iter().max_by_key(|a| a.count).is_some_and(|a| widened(a).2);
    let bytes = work.accesses.iter().map(|a| widened(a).1).max().unwrap_or(8);
    let together = shared_ports(loads, stores, bytes, in_vectors, host) * (loads + stores);
    (!nothing_known).then(|| loads.max(stores).max(together))
}

/// u of loads and stores that share address ports: `time of a measured mix / (time of its loads + time of its stores)`; 0
/// if the mix is as fast as its slower half. Uses the measured mix nearest to the ratio.
fn shared_ports(loads: f64, stores: f64, bytes: u32, vector: bool, host: Host<'_>) -> f64 {
    let find = |way: &str| host.peek(&id(way, bytes, vector), 1, Scaling::PerCore);
    let (Some(load), Some(store)) = (find("load"), find("store")) else { return 0.0 };
    let (way, a, b) =
        if loads * load > 1.5 * stores * store { ("load2store1", 2.0, 1.0) } else { ("load1store1", 1.0, 1.0) };
    let Some(mixed) = find(way) else { return 0.0 };
    let (time_loads, time_stores, together) = (a / load, b / store, (a + b) / mixed);
    if together <= 1.03 * time_loads.max(time_stores) { 0.0 } else { (together / (time_loads + time_stores)).min(1.0) }
}

/// Accesses per second for one direction, width in bytes and register file.
fn rate(host: Host<'_>, way: &str, bytes: u32, vector: bool, threads: u32, trace: &mut Trace) -> Option<f64> {
    let id = id(way, bytes, vector);
    if !host.has(&id) {
        trace.lacks(format!("{way}s per second of {bytes} bytes not measured"));
        return None;
    }
    host.value(&id, threads, Scaling::PerCore, trace)
}

/// `l1.access.load.fp.512`, `l1.access.store.int` and so on.
fn id(way: &str, bytes: u32, vector: bool) -> String {
    let width = match bytes {
        64.. => "512",
        32..64 => "256",
        16..32 => "128",
        _ => "scalar",
    };
    if vector { format!("l1.access.{way}.fp.{width}") } else { format!("l1.access.{way}.int") }
}

fn best_load_rate(host: Host<'_>, threads: u32) -> f64 {
    host.peek(&id("load", 8, false), threads, Scaling::PerCore).unwrap_or(0.0)
}
