//! Work of kernels out of the logs of counted runs.
//!
//! A counted launch represents all launches of its kernel and shape: its counts are averaged over the launches counted and multiplied by
//! the launches of the timed pass.

use std::collections::{BTreeMap, HashMap};

use super::groups;
use super::log::Log;
use super::log::record::{Launched, Record};
use super::refusals;
use rprof_profile::device::{Counts, Devices, Graph, Kernel, Shape, TensorWork, Uncounted};
use rprof_profile::run::Warning;

/// The collector's result if ranges are missing; their number is added (`crates/embedded/programs/collector/ranges.rs`).
const FEWER_RANGES: u32 = 0x1000;

/// Compilers make constants, of integers too, with an FMA of half precision, which counts as one. Nothing else of half precision in a
/// kernel, and fewer such FMAs than this share of its instructions: they may all be such moves, and the number of FLOPs is not known.
const MOVES: f64 = 0.1;

/// Sums of the values of one metric and how many launches they are of.
pub(super) type Means = HashMap<String, (f64, u64)>;

/// Counts by kernel and shape.
type Ranges = HashMap<(String, Launched), Means>;

/// Adds the counts in `logs` to the kernels of `devices`, and says why there are none or not all.
pub fn add(logs: &[Log], devices: &mut Devices) {
    if logs.is_empty() {
        return;
    }
    let ranges = ranges(logs);
    if is_defective(&ranges) {
        devices.warnings.push(Warning::new(
            "gpu-equal-counts",
            "the nine counts of floating point of every kernel are equal",
            "they are one count shown nine times; no FLOPs are reported",
            "use another version of CUPTI (RPROF_CUPTI)",
        ));
        devices.uncounted =
            Some(Uncounted { reason: "CUPTI's counts contradict one another".into(), fix: "use another CUPTI".into() });
        return;
    }
    for kernel in &mut devices.kernels {
        kernel.counts = counts(kernel, &ranges);
    }
    if devices.kernels.iter().all(|kernel| kernel.counts.is_none()) {
        devices.uncounted = Some(reason(logs));
    }
    devices.warnings.extend(left_out(logs));
}

/// The mean values of metrics, for each kernel and shape that was counted.
pub fn means_by_kernel(logs: &[Log]) -> Vec<HashMap<String, f64>> {
    let means = |means: Means| means.into_iter().map(|(metric, (sum, n))| (metric, sum / n as f64)).collect();
    ranges(logs).into_values().map(means).collect()
}

/// The counts of a kernel by its symbol, of one of its shapes.
pub(super) fn means_of(logs: &[Log], symbol: &str) -> Option<Means> {
    ranges(logs).into_iter().find(|((name, _), _)| name == symbol).map(|(_, means)| means)
}

fn ranges(logs: &[Log]) -> Ranges {
    let mut ranges = Ranges::new();
    for log in logs {
        let mut names: HashMap<u32, &str> = HashMap::new();
        let mut metrics: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for record in &log.records {
            match record {
                Record::Name { id, text } => {
                    names.insert(*id, text);
                }
                Record::Metric { group, name } => metrics.entry(*group).or_default().push(name),
                Record::Range { group, name, launched, values } => {
                    let key = (names.get(name).copied().unwrap_or_default().to_owned(), *launched);
                    let means = ranges.entry(key).or_default();
                    let named = metrics.get(group).into_iter().flatten().zip(values);
                    for (metric, value) in named.filter(|(_, value)| value.is_finite()) {
                        let mean = means.entry((*metric).to_owned()).or_default();
                        mean.0 += value;
                        mean.1 += 1;
                    }
                }
                _ => {}
            }
        }
    }
    ranges
}

/// Whether every kernel with FLOPs shows nine equal counts: metrics that were added one at a time all have the first one's value.
fn is_defective(ranges: &Ranges) -> bool {
    let nine = |means: &Means| -> Option<Vec<f64>> {
        groups::FLOATING_POINT.iter().map(|(name, _)| mean(means, name)).collect()
    };
    let mut with_flops = ranges.values().filter_map(nine).filter(|nine| nine.iter().any(|n| *n > 0.0)).peekable();
    with_flops.peek().is_some() && with_flops.all(|nine| nine.iter().all(|n| *n == nine[0]))
}

pub(super) fn mean(means: &Means, metric: &str) -> Option<f64> {
    means.get(metric).map(|(sum, n)| sum / *n as f64)
}

/// A kernel's counts: those of its counted shapes.
fn counts(kernel: &Kernel, ranges: &Ranges) -> Option<Counts> {
    let launched = |shape: &Shape| Launched { grid: shape.grid, block: shape.block };
    let counted: Vec<(&Shape, &Means)> = kernel
        .shapes
        .iter()
        .filter_map(|shape| Some((shape, ranges.get(&(kernel.symbol.clone(), launched(shape)))?)))
        .collect();
    if counted.is_empty() {
        return None;
    }
    // A count is of all counted shapes or it is none.
    let sum = |metric: &str| -> Option<f64> {
        counted.iter().map(|(shape, means)| Some(mean(means, metric)? * shape.launches as f64)).sum()
    };
    Some(Counts {
        launches: counted.iter().map(|(shape, _)| shape.launches).sum(),
        counted: counted.iter().filter_map(|(_, means)| means.values().map(|(_, n)| *n).max()).sum(),
        seconds: counted.iter().map(|(shape, _)| shape.seconds).sum(),
        ..work(&sum)
    })
}

/// Work of the graphs in the logs of one counted run.
pub fn graphs(logs: &[Log]) -> Vec<Graph> {
    let mut graphs = Vec::new();
    for log in logs {
        let mut metrics: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        let mut values: BTreeMap<u32, HashMap<&str, f64>> = BTreeMap::new();
        for record in &log.records {
            match record {
                Record::Metric { group, name } => metrics.entry(*group).or_default().push(name),
                Record::GraphRange { group, graph, values: counts } => {
                    let named = metrics.get(group).into_iter().flatten().zip(counts);
                    let finite = named.filter(|(_, value)| value.is_finite()).map(|(metric, value)| (*metric, *value));
                    values.entry(*graph).or_default().extend(finite);
                }
                _ => {}
            }
        }
        for record in &log.records {
            let Record::Graph { graph, launches } = record else { continue };
            let Some(values) = values.get(graph) else { continue };
            let sum = |metric: &str| values.get(metric).map(|value| value * f64::from(*launches));
            let launches = u64::from(*launches);
            let counts = Counts { launches, counted: 1, ..work(&sum) };
            graphs.push(Graph { number: graphs.len() as u32 + 1, launches, counts });
        }
    }
    graphs
}

/// The work of all launches, by the sums of their metrics.
fn work(sum: &dyn Fn(&str) -> Option<f64>) -> Counts {
    let flops = |range: std::ops::Range<usize>| -> Option<f64> {
        groups::FLOATING_POINT[range].iter().map(|(name, factor)| Some(sum(name)? * factor)).sum()
    };
    let l2 = sum(groups::L2_SECTORS).map(|sectors| 32.0 * sectors);
    let mut tensor: Vec<TensorWork> = Vec::new();
    for (operand, operations) in groups::TENSOR.iter().filter_map(|(operand, metric)| Some((*operand, sum(metric)?))) {
        match tensor.iter_mut().find(|work| work.operand == operand) {
            Some(work) => work.operations += operations,
            None if operations > 0.0 => tensor.push(TensorWork { operand: operand.into(), operations }),
            None => {}
        }
    }
    let instructions = |range: std::ops::Range<usize>| -> Option<f64> {
        groups::FLOATING_POINT[range].iter().map(|(name, _)| sum(name)).sum()
    };
    let (fp64, fp32, fp16) = (flops(0..3), flops(3..6), flops(6..9));
    let (apart, fmas) = (instructions(6..8), instructions(8..9));
    let all = sum(groups::THREAD_INSTRUCTIONS).or(instructions(0..9)).unwrap_or(0.0);
    let may_be_moves = apart == Some(0.0) && fmas.is_some_and(|n| n > 0.0 && n < MOVES * all);
    Counts {
        fp64,
        fp32,
        fp64_instructions: instructions(0..3),
        fp32_instructions: instructions(3..6),
        fp16: fp16.filter(|_| !may_be_moves),
        tensor,
        dram_read: sum(groups::DRAM_READ),
        dram_write: sum(groups::DRAM_WRITE),
        l2,
        l2_received: sum(groups::RECEIVED).zip(sum(groups::SENT)).map(|(received, sent)| received + sent),
        // Bytes that a multiprocessor copies past L1 (TMA) are not in its count, which is then below the bytes that came from L2.
        l1: sum(groups::L1_BYTES).filter(|bytes| l2.is_none_or(|l2| *bytes >= 0.5 * l2)),
        shared: sum(groups::SHARED_WAVEFRONTS).map(|wavefronts| 128.0 * wavefronts),
        instructions: sum(groups::INSTRUCTIONS),
        global_sectors: sum(groups::GLOBAL_SECTORS),
        global_instructions: sum(groups::GLOBAL_INSTRUCTIONS),
        thread_instructions: sum(groups::THREAD_INSTRUCTIONS),
        ..Counts::default()
    }
}

/// Why nothing was counted.
fn reason(logs: &[Log]) -> Uncounted {
    refused(logs, |_, _| true).unwrap_or_else(|| Uncounted {
        reason: "the counted run launched no kernel that could be counted".into(),
        fix: "see that the program does the same in every run".into(),
    })
}

/// The first step of counting that was refused, of those that `matters` takes by step and result.
pub(super) fn refused(logs: &[Log], matters: impl Fn(u32, u32) -> bool) -> Option<Uncounted> {
    let failed = logs.iter().flat_map(|log| &log.records).find_map(|record| match record {
        Record::Failed { step, result, .. } if matters(*step, *result) => Some((*step, *result)),
        _ => None,
    });
    failed.map(|(step, result)| match result {
        FEWER_RANGES..0xffff => Uncounted {
            reason: "CUPTI gave fewer ranges than there were launches".into(),
            fix: "profile again; if it stays so, name another libcupti in RPROF_CUPTI".into(),
        },
        _ => Uncounted {
            reason: format!("CUPTI refused to count: {}", refusals::reason(step, result)),
            fix: refusals::fix(step, result),
        },
    })
}

fn left_out(logs: &[Log]) -> Vec<Warning> {
    let sums = logs.iter().flat_map(|log| &log.records).fold([0u64; 5], |mut sums, record| {
        if let Record::Uncounted(numbers) = record {
            sums.iter_mut().zip(numbers).for_each(|(sum, n)| *sum += u64::from(*n));
        }
        sums
    });
    // Several runs count: numbers would be those of all of them.
    let [_captured, elsewhere, graphs, lost, over] = sums;
    let warning = |n: u64, code: &str, what: &str, effect: &str, hint: &str| {
        (n > 0).then(|| Warning::new(code, what, effect, hint))
    };
    [
        warning(
            graphs,
            "gpu-graphs-uncounted",
            "launches of some CUDA graphs were not counted, not even as a whole",
            "kernels that run only in them have times but no FLOPs and bytes",
            "run the program once without graphs to count them",
        ),
        warning(
            elsewhere,
            "gpu-contexts-uncounted",
            "launches in a second context (on another GPU, for instance) were not counted",
            "their kernels may have no FLOPs and bytes",
            "profile with one GPU visible (CUDA_VISIBLE_DEVICES)",
        ),
        warning(
            lost,
            "gpu-ranges-lost",
            "CUPTI lost the counts of some launches",
            "their kernels may have no FLOPs and bytes",
            "profile the program again",
        ),
        warning(
            over,
            "gpu-launches-beyond-counting",
            "launches beyond the 2,048 that a process counts were not counted",
            "kernels that came first after them have no FLOPs and bytes",
            "run a shorter part of the program to count these",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
