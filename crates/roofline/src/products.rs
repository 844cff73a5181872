//! Matrix products against the peak and against the memory that their operands come from.

use rprof_profile::Machine;
use rprof_profile::blas::{Dimensions, ProductCalls};

/// Below this share of the peak a bound is worth a word.
const FAR_BELOW: f64 = 0.5;
/// Calls that are shorter, in seconds, are mostly overhead if they are far below the peak.
const SHORT_S: f64 = 2e-6;
/// A dimension that is shorter leaves a part of the kernels' tiles empty.
const NARROW: u64 = 16;

/// A memory level that all operands of a product fit in, and its bandwidth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    /// `L1`, `L2`, `L3`, `DRAM`.
    pub name: &'static str,
    /// Bytes a second.
    pub bandwidth: f64,
}

/// A product's share of the peak of `threads` threads.
pub fn share_of_peak(product: &ProductCalls, machine: &Machine, threads: u32) -> Option<f64> {
    let shape = product.shape.as_ref()?;
    let seconds = product.median_s.filter(|s| *s > 0.0)?;
    Some(shape.flops() / seconds / peak(shape, machine, threads)?)
}

/// FLOP/s of fused multiply-adds in `threads` threads; of fewer or, if there are none, of more, if just these were not measured.
pub fn peak(shape: &Dimensions, machine: &Machine, threads: u32) -> Option<f64> {
    nearest(machine, if shape.is_double { "dp.fma" } else { "sp.fma" }, threads)
}

fn nearest(machine: &Machine, id: &str, threads: u32) -> Option<f64> {
    let measured = machine.ceilings.iter().filter(|c| c.id == id && c.value.is_some());
    measured.min_by_key(|c| (c.threads > threads, c.threads.abs_diff(threads))).and_then(|c| c.value)
}

/// The nearest memory that holds all operands of `shape`.
pub fn source(shape: &Dimensions, machine: &Machine, threads: u32) -> Option<Source> {
    let holds = |level: u32| {
        let cache = machine.caches.iter().find(|cache| cache.level == level)?;
        let instances = f64::from((threads / cache.shared_by.max(1)).max(1));
        (shape.bytes() <= cache.size as f64 * instances).then_some(())
    };
    let levels = [(1, "L1", "l1.read"), (2, "L2", "l2.read"), (3, "L3", "l3.read")];
    let cached = levels.into_iter().find_map(|(level, name, id)| holds(level).map(|()| (name, id)));
    let (name, id) = cached.unwrap_or(("DRAM", "dram.read"));
    Some(Source { name, bandwidth: nearest(machine, id, threads)? })
}

/// The highest share of the peak that the bandwidth of `source` allows.
pub fn bound(shape: &Dimensions, source: Source, peak: f64) -> f64 {
    (shape.flops() / shape.bytes() * source.bandwidth / peak).min(1.0)
}

/// Advice on a better shape. `None`: nothing that is known.
pub fn advice(product: &ProductCalls, machine: &Machine, threads: u32) -> Option<String> {
    let shape = product.shape.as_ref()?;
    let reached = share_of_peak(product, machine, threads)?;
    let source = source(shape, machine, threads)?;
    let bound = bound(shape, source, peak(shape, machine, threads)?);
    let limit = format!("{} bandwidth allows at most {:.0} % of peak", source.name, 100.0 * bound);
    let one = |name: &str| {
        format!(
            "{name} = 1: a matrix-vector product, which uses each element of the matrix once; {limit}. A batch uses it once for each vector."
        )
    };
    let short = [("m", Some(shape.m)), ("n", Some(shape.n)), ("k", shape.k)]
        .into_iter()
        .filter_map(|(name, size)| Some((name, size?)))
        .min_by_key(|(_, size)| *size)?;
    match (shape.k, short) {
        (_, (_, 0)) => None,
        (None, _) => Some(format!(
            "a matrix-vector product, which uses each element of the matrix once; {limit}. Several vectors in one GEMM use it once for each."
        )),
        (Some(_), (name @ ("m" | "n"), 1)) if bound < FAR_BELOW => Some(one(name)),
        (Some(_), (name, size)) if bound < FAR_BELOW => {
            Some(format!("{name} = {size}: operands are used {size} times only; {limit}. A larger {name} raises that."))
        }
        _ if reached >= FAR_BELOW => None,
        _ if product.median_s? < SHORT_S => {
            Some("calls this short are mostly the call's own cost: put several products into one call.".into())
        }
        (_, (name, size)) if size < NARROW => Some(format!(
            "{name} = {size} is shorter than the tiles of the library's kernels: a larger {name} fills them."
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::Ceiling;
    use rprof_profile::machine::Cache;

    fn machine() -> Machine {
        let cache = |level, size| Cache { level, size, ways: 8, line: 64, shared_by: 1 };
        let ceilings = [("dp.fma", 1e11, 1), ("dp.fma", 2e11, 2), ("l2.read", 1e11, 1), ("dram.read", 2e10, 1)];
        Machine {
            caches: vec![cache(1, 32 << 10), cache(2, 1 << 20)],
            ceilings: ceilings.iter().map(|(id, value, n)| Ceiling::reproduced(id, *value, "", *n)).collect(),
            ..Machine::default()
        }
    }

    fn product(m: u64, n: u64, k: Option<u64>, median_s: f64) -> ProductCalls {
        let transposes = if k.is_some() { "NN" } else { "N" };
        let shape = Dimensions {
            m,
            n,
            k,
            transposes: transposes.into(),
            is_row_major: true,
            is_double: true,
            is_complex: false,
        };
        ProductCalls { shape: Some(shape), median_s: Some(median_s), calls: 1, ..ProductCalls::default() }
    }

    #[test]
    fn peak_is_that_of_the_threads() {
        // 2e9 FLOPs in 0.04 s: half of one thread's peak, a quarter of two threads'.
        let large = product(1000, 1000, Some(1000), 0.04);
        let share = |threads| share_of_peak(&large, &machine(), threads);
        assert_eq!([share(1), share(2), share(3)], [Some(0.5), Some(0.25), Some(0.25)]);
        assert_eq!(advice(&large, &machine(), 1), None);
    }

    #[test]
    fn a_vector_is_bound_by_the_memory_that_holds_the_matrix() {
        // 2 FLOPs for 8 bytes and little more: 2e10 B/s allow 5e9 FLOP/s.
        let advice_on = |m, n, k, s| advice(&product(m, n, k, s), &machine(), 1).unwrap_or_default();
        let text = advice_on(1000, 1000, None, 1e-3);
        assert!(text.contains("DRAM bandwidth allows at most 5 % of peak"), "{text}");
        let text = advice_on(1, 300, Some(300), 1e-3);
        assert!(text.starts_with("m = 1") && text.contains("L2 bandwidth allows at most 25 % of peak"), "{text}");
        let text = advice_on(2000, 4, Some(2000), 1e-3);
        assert!(text.starts_with("n = 4") && text.contains("at most 20 %"), "{text}");
    }
}
