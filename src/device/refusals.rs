//! Warnings of steps that were refused and records that were lost while a GPU was observed.

use super::log::record::Record;
use super::log::{Damage, Log};
use crate::profile::run::Warning;

/// Steps of the collector (`embedded/collector/log.rs`).
mod step {
    pub const NO_LIBRARY: u32 = 1;
    pub const NO_FUNCTION: u32 = 2;
    pub const SUBSCRIBE: u32 = 5;
}

/// The GPU's clock is CLOCK_REALTIME, which time servers steer by at most 500 millionths.
const CLOCK_DRIFT: f64 = 1e-3;
/// The first readings lie this far apart at most.
const CLOCK_TOLERANCE_NS: f64 = 2e6;

/// Warnings about the logs of a timed pass, in which `kernels` launches were seen.
pub fn warnings(logs: &[Log], kernels: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let records = || logs.iter().flat_map(|log| &log.records);
    let failed = |wanted: u32| records().any(|r| matches!(r, Record::Failed { step, .. } if *step == wanted));
    if failed(step::NO_LIBRARY) {
        warnings.push(Warning::new(
            "gpu-no-cupti",
            "the program uses a GPU, but no libcupti was found",
            "kernels and copies of the GPU are not measured",
            "install it (`pip install nvidia-cuda-cupti` or the CUDA toolkit) and name it in RPROF_CUPTI",
        ));
    } else if let Some((step, detail, result)) = records().find_map(refusal) {
        warnings.push(Warning::new(
            "gpu-refused",
            format!("CUPTI refused step {step} of tracing (detail {detail}): {}", result_name(result)),
            "kernels and copies of the GPU are not measured, or not all of them",
            fix(step, result),
        ));
    }
    let [asked, completed] = sum(records(), |r| match r {
        Record::End { buffers, .. } => Some(*buffers),
        _ => None,
    });
    if asked > 0 && completed == 0 && kernels == 0 {
        warnings.push(Warning::new(
            "gpu-other-client",
            "another client of CUPTI in the program took the GPU's records",
            "kernels and copies of the GPU are not measured, and the program's own profile of them (torch.profiler?) was empty, too",
            "switch the program's own GPU profiler off",
        ));
    }
    let [_, lost] = sum(records(), |r| match r {
        Record::End { records, .. } => Some(*records),
        _ => None,
    });
    if lost > 0 {
        warnings.push(Warning::new(
            "gpu-lost-records",
            format!("{lost} records of the GPU were lost, or came after the first 5 million of a process"),
            "times and numbers of kernels and copies are too low",
            "profile a shorter part of the program",
        ));
    }
    if let Some(seconds) = logs.iter().filter_map(clock_jump).reduce(f64::max) {
        warnings.push(Warning::new(
            "gpu-clock",
            format!("the clock of the GPU's records jumped by {seconds:.3} s during the run"),
            "idle times and the order of kernels are wrong",
            "profile again while nothing sets the clock",
        ));
    }
    for damage in logs.iter().filter_map(|log| log.damage.as_ref()) {
        let (effect, hint) = match damage {
            Damage::Truncated => (
                "what the GPU did at the end is missing",
                "see that the program ends by itself and the disk is not full",
            ),
            _ => ("it is left out", "use one version of rprof for one output folder"),
        };
        warnings.push(Warning::new("gpu-log", damage.to_string(), effect, hint));
    }
    let cut = logs.iter().filter(|log| log.damage.is_none() && !log.is_complete()).count();
    if cut > 0 && !failed(step::NO_LIBRARY) {
        warnings.push(Warning::new(
            "gpu-cut-log",
            format!("{cut} process{} with a GPU ended without its exit handlers", if cut == 1 { "" } else { "es" }),
            "up to half a second of its last kernels and copies is missing",
            "let the program end by itself",
        ));
    }
    warnings
}

/// By how many seconds the clock of the records left the monotonic one between the first and the last reading of both.
fn clock_jump(log: &Log) -> Option<f64> {
    let start = log.records.iter().find_map(|record| match record {
        Record::Start { clocks, .. } => Some(clocks),
        _ => None,
    })?;
    let end = log.records.iter().find_map(|record| match record {
        Record::End { clocks, .. } => Some(clocks),
        _ => None,
    })?;
    let passed = end.monotonic.saturating_sub(start.monotonic) as f64;
    let jump = (end.gpu as f64 - start.gpu as f64 - passed).abs();
    (start.gpu > 0 && jump > CLOCK_TOLERANCE_NS + CLOCK_DRIFT * passed).then_some(jump * 1e-9)
}

fn refusal(record: &Record) -> Option<(u32, u32, u32)> {
    match record {
        Record::Failed { step, detail, result } if *step != step::NO_LIBRARY => Some((*step, *detail, *result)),
        _ => None,
    }
}

fn sum<'a>(records: impl Iterator<Item = &'a Record>, pair: impl Fn(&Record) -> Option<[u64; 2]>) -> [u64; 2] {
    records.filter_map(pair).fold([0, 0], |sum, pair| [sum[0] + pair[0], sum[1] + pair[1]])
}

/// The name of a result of CUPTI.
pub fn result_name(result: u32) -> String {
    let name = match result {
        1 => "invalid parameter",
        2 => "invalid device",
        3 => "invalid context",
        7 => "hardware busy",
        8 => "out of memory",
        14 => "not compatible with what else is switched on",
        15 => "not initialized",
        24 => "insufficient privileges",
        28 => "not supported on this device",
        35 => "insufficient privileges for hardware counters",
        36 => "old profiling API",
        39 => "another profiler has subscribed",
        999 => "unknown error of the driver",
        0xffff => "a function that this CUPTI does not have",
        _ => return format!("result {result} of CUPTI"),
    };
    format!("{name} (result {result} of CUPTI)")
}

/// The remedy for a refused step.
pub fn fix(step: u32, result: u32) -> String {
    match (step, result) {
        (_, 24 | 35) => "let all users count (`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, then reboot), or run \
                         as root or with CAP_PERFMON; in a container add `--cap-add=CAP_PERFMON`"
            .into(),
        (step::SUBSCRIBE, _) | (_, 14 | 39) => "switch the program's own GPU profiler off, and end other profilers of this GPU".into(),
        (step::NO_FUNCTION, _) | (_, 0xffff) => "use a newer CUPTI: name one of CUDA 12.6 or later in RPROF_CUPTI".into(),
        (_, 7) => "end other profilers of this GPU (nsys, ncu, DCGM)".into(),
        (_, 28) => "this device offers no counters (MIG slice, vGPU or confidential computing); profile on a whole GPU".into(),
        (_, 999 | 15) => "see that libcupti is not newer than the driver; name an older one in RPROF_CUPTI".into(),
        _ => "name another libcupti in RPROF_CUPTI".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(records: Vec<Record>) -> Log {
        Log { records, damage: None }
    }

    fn end(buffers: [u64; 2], records: [u64; 2]) -> Record {
        Record::End { clocks: Default::default(), buffers, records, callback_ns: 0 }
    }

    fn codes(logs: &[Log], kernels: u64) -> Vec<String> {
        warnings(logs, kernels).into_iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn a_complete_log_has_no_warning() {
        assert_eq!(codes(&[log(vec![end([3, 3], [100, 0])])], 100), [""; 0]);
        assert_eq!(codes(&[log(vec![end([0, 0], [0, 0])])], 0), [""; 0], "a program that launches nothing");
    }

    #[test]
    fn each_loss_is_named() {
        assert_eq!(codes(&[log(vec![end([2, 0], [0, 0])])], 0), ["gpu-other-client"]);
        assert_eq!(codes(&[log(vec![end([2, 2], [10, 7])])], 10), ["gpu-lost-records"]);
        assert_eq!(codes(&[log(vec![])], 5), ["gpu-cut-log"]);
        let missing = Record::Failed { step: step::NO_LIBRARY, detail: 0, result: 1 };
        assert_eq!(codes(&[log(vec![missing])], 0), ["gpu-no-cupti"]);
        let refused = Record::Failed { step: 4, detail: 10, result: 14 };
        assert_eq!(codes(&[log(vec![refused, end([0, 0], [0, 0])])], 0), ["gpu-refused"]);
        let damaged = Log { records: vec![], damage: Some(Damage::Truncated) };
        assert_eq!(codes(&[damaged], 0), ["gpu-log"]);
    }
}
