//! Warnings of steps that were refused and records that were lost while a GPU was observed.

use super::log::record::Record;
use super::log::{Damage, Log};
use rprof_profile::run::Warning;

/// Steps of the collector (`crates/embedded/programs/collector/log.rs`).
pub(super) mod step {
    pub const NO_LIBRARY: u32 = 1;
    pub const NO_FUNCTION: u32 = 2;
    pub const ENABLE: u32 = 4;
    pub const SUBSCRIBE: u32 = 5;
    pub const GROUPS: u32 = 16;
    pub const UNSUPPORTED: u32 = 17;
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
            format!("CUPTI refused to record {}: {}", recorded(step, detail), reason(step, result)),
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

/// A program that ends without waiting for the GPU leaves launches behind.
pub fn without_times(launches: u64) -> Option<Warning> {
    let what =
        if launches == 1 { "1 launch has no times".into() } else { format!("{launches} launches have no times") };
    (launches > 0).then(|| {
        Warning::new(
            "gpu-untimed",
            format!("{what}: the program ended before they did, or the GPU was lost"),
            "they are left out of the number and the time of their kernels",
            "let the program wait for the GPU before it ends (cudaDeviceSynchronize)",
        )
    })
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

/// The records that are missing because this step of tracing was refused.
fn recorded(step: u32, kind: u32) -> &'static str {
    match (step, kind) {
        (step::ENABLE, 1 | 22) => "copies",
        (step::ENABLE, 2) => "fills",
        (step::ENABLE, 10) => "kernels",
        (step::ENABLE, 17) => "its own cost",
        (step::ENABLE, 38) => "waiting",
        _ => "anything",
    }
}

/// Why a step was refused.
pub fn reason(step: u32, result: u32) -> String {
    match step {
        step::NO_LIBRARY => "no libcupti was found".into(),
        step::NO_FUNCTION => LACKS.into(),
        step::UNSUPPORTED => obstacle(result).0,
        step::GROUPS => "the file with the metrics could not be read".into(),
        _ => result_name(result),
    }
}

/// Obstacles to counting on a device, in the order in which the collector notes it: four bits each, from the architecture on.
const OBSTACLES: [(&str, &str); 6] = [
    ("the architecture is older than compute capability 7.0", "profile on a newer GPU"),
    ("SLI is switched on", "switch SLI off"),
    (
        "the virtual GPU does not let its guests count",
        "have the hypervisor's administrator enable profiling for this virtual machine",
    ),
    ("confidential computing is switched on", "switch confidential computing off"),
    ("mining processors have no counters", "profile on another GPU"),
    (
        "the Windows Subsystem for Linux does not let programs count",
        "allow counters to all users in NVIDIA's control panel, under Developer",
    ),
];
/// CUPTI's levels: not supported, and disabled.
const ABSENT: [u32; 2] = [1, 2];

/// Why a device that offers no counters does so, and the remedy. `levels`: a leading 1, then four bits for each of [`OBSTACLES`].
fn obstacle(levels: u32) -> (String, String) {
    let level = |place: usize| levels >> (4 * (OBSTACLES.len() - 1 - place)) & 15;
    let found = (0..OBSTACLES.len()).find(|place| ABSENT.contains(&level(*place))).map(|place| OBSTACLES[place]);
    let (reason, fix) = found.unwrap_or((
        "the driver does not say why (a MIG slice?)",
        "profile on a whole GPU, or on a MIG slice that spans it",
    ));
    (format!("this device offers no counters: {reason}"), fix.into())
}

/// Results of CUPTI with their meaning (`tests/gpu/records.rs` compares them with NVIDIA's headers).
const RESULTS: [(u32, &str); 26] = [
    (1, "invalid parameter"),
    (2, "invalid device"),
    (3, "invalid context"),
    (7, "invalid operation"),
    (8, "out of memory"),
    (9, "hardware error"),
    (10, "size of parameters not sufficient"),
    (11, "not implemented"),
    (12, "limit reached"),
    (13, "not ready"),
    (14, "not compatible with what else is switched on"),
    (15, "not initialized"),
    (17, "invalid metric"),
    (26, "hardware busy"),
    (27, "not supported"),
    (33, "not supported on virtual GPUs"),
    (35, "insufficient privileges for hardware counters"),
    (36, "old profiling API initialized"),
    (39, "another profiler has subscribed"),
    (40, "the hypervisor forbids it"),
    (41, "not supported with confidential computing"),
    (42, "not supported on mining processors"),
    (43, "not supported on this MIG slice"),
    (44, "not supported with SLI"),
    (45, "not supported under WSL"),
    (999, "unknown error of the driver"),
];
/// The collector's own: the function is missing.
const NO_SUCH_FUNCTION: u32 = 0xffff;
const LACKS: &str = "this version of CUPTI lacks a function that is needed";

/// Whether a step was refused because of the host, whichever CUPTI asks: no right to count, or a device without counters.
pub fn is_of_the_host(step: u32, result: u32) -> bool {
    step == step::UNSUPPORTED || matches!(result, 33 | 35 | 40..=45)
}

/// The name of a result of CUPTI.
fn result_name(result: u32) -> String {
    if result == NO_SUCH_FUNCTION {
        return LACKS.into();
    }
    match RESULTS.iter().find(|(known, _)| *known == result) {
        Some((_, name)) => format!("{name} (result {result} of CUPTI)"),
        None => format!("result {result} of CUPTI"),
    }
}

/// The remedy for a refused step.
pub fn fix(step: u32, result: u32) -> String {
    match (step, result) {
        (step::UNSUPPORTED, levels) => obstacle(levels).1,
        (step::NO_FUNCTION, _) | (_, NO_SUCH_FUNCTION) => {
            "use a CUPTI of CUDA 12.6 or later: a newer one where the program brings its own, else name it in RPROF_CUPTI".into()
        }
        (_, 35) => "let all users count (`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, then reboot), or run \
                    as root or with CAP_PERFMON; in a container add `--cap-add=CAP_PERFMON`"
            .into(),
        (_, 40) => OBSTACLES[2].1.into(),
        (step::SUBSCRIBE, _) | (_, 14 | 36 | 39) => {
            "switch the program's own GPU profiler off, and end other profilers of this GPU".into()
        }
        (_, 26) => "end other profilers of this GPU (nsys, ncu, DCGM)".into(),
        (_, 27 | 33 | 41..=45) => "profile on a whole GPU without virtualisation, or on another one".into(),
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

    #[test]
    fn a_device_without_counters_names_its_obstacle() {
        let levels = |obstacle: usize, level: u32| {
            (0..6).fold(1, |levels, place| levels << 4 | if place == obstacle { level } else { 3 })
        };
        for (place, word) in
            ["architecture", "SLI", "virtual GPU", "confidential", "mining", "Windows"].iter().enumerate()
        {
            let (reason, fix) = obstacle(levels(place, 1));
            assert!(reason.contains(word) && fix.len() > 10, "{reason}: {fix}");
            assert_eq!(fix, self::fix(step::UNSUPPORTED, levels(place, 1)));
        }
        assert!(obstacle(levels(2, 2)).0.contains("virtual GPU"), "disabled by the hypervisor");
        assert!(obstacle(levels(9, 1)).0.contains("MIG"), "no field says why");
    }
}
