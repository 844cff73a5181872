//! Doubts that the passes, taken together, leave.

use super::counts::Counts;
use super::time::Elapsed;
use super::timeline::stretches;
use rprof_profile::counters::Counter;
use rprof_profile::evidence::counted::{CountedEvidence, Missing};
use rprof_profile::evidence::timed::{OnCpu, TimedEvidence};
use rprof_profile::machine::Machine;
use rprof_profile::run::{TOO_FEW_SAMPLES_CODE, Warning};

/// Fewer samples than this are too few for a report.
pub const TOO_FEW_SAMPLES: usize = 20;
/// No CPU known to rprof completes more instructions per second and thread than this.
const FASTEST_CORE: f64 = 8e10;
/// Code of the warning that hardware counters and counted pass disagree.
pub const COUNTERS_DISAGREE: &str = "counters-disagree";
/// FLOPs of hardware counters and of the counted pass agree this well.
const COUNTERS_AGREE: f64 = 0.005;
/// Fewer FLOPs come from start-up and libraries, which differ from run to run.
const ENOUGH_FLOPS: f64 = 1e6;
/// Threads that are kept off their CPUs for more than this share of their possible running time are worth a warning.
const KEPT_OFF: f64 = 0.05;
/// Seconds of CPU time that no sample met, from which on a program with few samples is not called short.
const MUCH_MISSED_S: f64 = 0.5;
/// Why the samples of a function say nothing of its time.
pub const MISSED: &str = "its samples have less time than its counts take: the sampler hardly meets threads that are shorter than its period";
/// A function with this many samples must have been executed in the other pass, too.
const SURE_SAMPLES: u64 = 20;

/// The greatest rate at which one thread can execute instructions, with a margin for boost clocks.
pub fn fastest_rate(machine: &Machine) -> f64 {
    let issue = machine.ceilings.iter().filter(|c| c.id == "issue" && c.threads >= 1);
    let rates = issue.filter_map(|c| c.value.map(|v| v / f64::from(c.threads)));
    let fastest = rates.fold(0.0, f64::max);
    if fastest > 0.0 { 1.5 * fastest } else { FASTEST_CORE }
}

/// Why the counts of a function contradict its samples, if they do. No sample met `missed_s` of the program's CPU time.
pub fn contradiction(
    elapsed: &Elapsed,
    counts: Option<&Counts>,
    (period_s, missed_s): (f64, f64),
    fastest: f64,
) -> Option<String> {
    let Some(counts) = counts else {
        let sampled = elapsed.samples >= SURE_SAMPLES;
        return sampled.then(|| "the counted pass did not execute it".to_owned());
    };
    // Spinning and kernel entries take time without being counted as work; they only make the limit wider.
    let longest =
        elapsed.cpu_s + elapsed.cpu_ci95_s + elapsed.waiting_s + elapsed.kernel_s + 10.0 * period_s + missed_s;
    let least = counts.tally.instructions as f64 / fastest;
    (least > longest).then(|| {
        format!(
            "the counted pass executed {least:.3} s worth of instructions in it, the timed pass at most {longest:.3} s"
        )
    })
}

/// Doubts about the timed pass.
pub fn about_time(timed: &TimedEvidence, on_cpu_samples: usize, sampled_s: f64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if on_cpu_samples < TOO_FEW_SAMPLES {
        let samples = if on_cpu_samples == 1 { "sample" } else { "samples" };
        let missed_s = timed.cpu_s - sampled_s;
        let (means, remedy) = if missed_s > 0.5 * timed.cpu_s && missed_s > MUCH_MISSED_S {
            (
                "the program used far more CPU time than samples met: threads that take less than a sample's period each are hardly met",
                "let each thread do more, or sample faster with -F",
            )
        } else {
            (
                "times and shares are uncertain within their intervals",
                "run it longer or on a larger input, or sample faster with -F",
            )
        };
        warnings.push(Warning::new(
            TOO_FEW_SAMPLES_CODE,
            format!("too little to measure: {on_cpu_samples} {samples} in {:.3} s", timed.wall_s),
            means,
            remedy,
        ));
    }
    let all = on_cpu_samples as u64 + timed.lost;
    if timed.lost * 50 > all && timed.marks.is_some() {
        warnings.push(Warning::new(
            "samples-lost",
            format!("{} records were lost: samples, or calls of markers that came too fast", timed.lost),
            "times may be too low, and regions have none",
            "mark longer regions, so that there are fewer calls",
        ));
    } else if timed.lost * 50 > all {
        warnings.push(Warning::new(
            "samples-lost",
            format!("{} of {all} samples were lost", timed.lost),
            "times are too low by about that share",
            "sample more slowly with -F",
        ));
    }
    let gap = (timed.cpu_s - sampled_s).abs();
    if on_cpu_samples >= TOO_FEW_SAMPLES && gap > 0.1 * timed.cpu_s && gap > 0.05 {
        warnings.push(Warning::new(
            "samples-incomplete",
            format!("samples cover {sampled_s:.2} s of {:.2} s of CPU time", timed.cpu_s),
            "times of single functions may be off by that share",
            "use a quieter machine, or a lower sampling rate (-F)",
        ));
    }
    let (running_s, kept_off_s) = kept_off(&timed.on_cpu);
    if kept_off_s > KEPT_OFF * (running_s + kept_off_s) && kept_off_s > 0.05 {
        warnings.push(Warning::new(
            "cpus-contended",
            format!("runnable threads waited {kept_off_s:.2} s for a CPU, and ran for {running_s:.2} s"),
            "elapsed times include these waits, and threads that wait for the delayed ones look unbalanced",
            "run it without other work on its CPUs, and with at most one thread per CPU",
        ));
    }
    warnings
}

/// Seconds kept off a CPU / seconds that could have run; `None` if the stretches on CPUs were not recorded.
pub fn kept_off_share(timed: &TimedEvidence) -> Option<f64> {
    let (running_s, kept_off_s) = kept_off(&timed.on_cpu);
    (running_s > 0.0).then(|| kept_off_s / (running_s + kept_off_s))
}

/// Seconds on a CPU, and seconds from being preempted to being on a CPU again, of all threads together.
fn kept_off(on_cpu: &[OnCpu]) -> (f64, f64) {
    let threads = on_cpu.iter().map(|s| s.thread + 1).max().unwrap_or(0) as usize;
    let running = stretches(on_cpu, threads);
    let running_s = running.iter().flatten().map(|s| s.end_s - s.start_s).sum();
    let returns = running.iter().flat_map(|of_thread| of_thread.windows(2)).filter(|w| w[0].preempted);
    (running_s, returns.map(|w| (w[1].start_s - w[0].end_s).max(0.0)).sum())
}

/// Doubts about the counted pass.
pub fn about_counts(counted: &CountedEvidence, undecoded: u64, uncounted_dynamic: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if undecoded > 0 {
        warnings.push(Warning::new(
            "code-not-decoded",
            format!("rprof does not know the instructions in {undecoded} bytes of executed code"),
            "counts lack these instructions and the rest of their blocks",
            "report the program as a defect of rprof",
        ));
    }
    if uncounted_dynamic > 0 {
        warnings.push(Warning::new(
            "lanes-not-counted",
            format!("the active lanes of {uncounted_dynamic} masked or repeated instructions were not counted"),
            "their FLOPs and bytes assume that all lanes were active, once each",
            "report the program as a defect of rprof",
        ));
    }
    if counted.uncounted_share > 0.02 {
        warnings.push(Warning::new(
            "code-not-counted",
            format!("{:.0} % of the counted pass's CPU time ran natively", 100.0 * counted.uncounted_share),
            match counted.missing {
                Missing::OtherCode => "counts lack that code",
                Missing::Executions | Missing::Work => "all counts are lower bounds",
            },
            "see the other warnings for which code it is",
        ));
    }
    warnings
}

/// Hardware counters and counted pass disagree about the FLOPs of the program.
pub fn about_counters(counters: &[Counter], uncounted_share: f64) -> Option<Warning> {
    let flops = counters.iter().find(|c| c.counted.is_some())?;
    let (value, counted, ratio) = (flops.value?, flops.counted?, flops.ratio?);
    if counted.max(value) < ENOUGH_FLOPS {
        return None;
    }
    let limit = COUNTERS_AGREE + flops.source.error.unwrap_or(0.0) + uncounted_share;
    ((ratio - 1.0).abs() > limit).then(|| {
        Warning::new(
            COUNTERS_DISAGREE,
            format!("hardware counters report {value:.4e} FLOPs, the counted pass {counted:.4e} (ratio {ratio:.4})"),
            "the counted FLOPs are used, and the counters' are shown beside them; minima, maxima and lanes that a \
             mask switches off are FLOPs for some counters and none here",
            "validate the counters with rprof events --check; they also differ if the program's two runs do",
        )
    })
}

/// The passes ran the program differently.
pub fn about_both(timed: &TimedEvidence, counted: &CountedEvidence, disagreeing: &[String]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let is_part = counted.missing == Missing::Executions;
    if !disagreeing.is_empty() {
        let listed = disagreeing.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let more = disagreeing.len().saturating_sub(3);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        warnings.push(Warning::new(
            "passes-disagree",
            format!("the two runs differ in {listed}{rest}"),
            "counted values of these functions are omitted",
            match is_part {
                true => "a part of the counted run was not counted: see the other warnings",
                false => "make the program deterministic (seeds, time limits), or restore its state with --between",
            },
        ));
    }
    if counted.estimate.is_some() {
        return warnings;
    }
    let (there, here) = (timed.threads.len(), counted.threads.len());
    // A run without threads ended before it executed anything: there is nothing to fix about their number.
    if there != here && there > 0 && here > 0 && !is_part {
        let threads = if there == 1 { "thread" } else { "threads" };
        warnings.push(Warning::new(
            "threads-differ",
            format!("{there} {threads} in the timed run, {here} in the counted one"),
            "per-thread figures are matched by the order of thread creation",
            "fix the number of threads (OMP_NUM_THREADS)",
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_many_short_threads_is_no_short_program() {
        let remedy = |cpu_s, sampled_s| {
            let timed = TimedEvidence { cpu_s, wall_s: 11.0, ..TimedEvidence::default() };
            about_time(&timed, 1, sampled_s).remove(0).hint
        };
        assert!(remedy(7.0, 0.001).contains("each thread"));
        assert!(remedy(0.002, 0.001).contains("longer"));
    }

    #[test]
    fn time_between_preemption_and_return_is_told() {
        let stretch = |thread, start_s, end_s, preempted| OnCpu { thread, start_s, end_s, preempted };
        let contended = [
            stretch(0, 0.0, 1.0, true),
            stretch(1, 0.0, 1.5, false),
            stretch(0, 3.0, 4.0, true),
            stretch(1, 2.5, 3.0, true),
        ];
        assert_eq!(kept_off(&contended), (4.0, 2.0), "waiting is no preemption, and the end is none");
        assert_eq!(kept_off(&[]), (0.0, 0.0));
        let told = |on_cpu: &[OnCpu]| {
            let timed = TimedEvidence { cpu_s: 4.0, wall_s: 4.0, on_cpu: on_cpu.to_vec(), ..TimedEvidence::default() };
            about_time(&timed, 4000, 4.0).iter().any(|w| w.code == "cpus-contended")
        };
        assert!(told(&contended));
        assert!(!told(&contended.map(|s| OnCpu { preempted: false, ..s })));
    }
}
