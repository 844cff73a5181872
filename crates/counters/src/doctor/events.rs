//! Opening events: clocks, cycles, FLOPs on every kind of core, boxes of the memory controllers.

use super::Finding;
use crate::collect::plan;
use crate::encode::{Encoding, encode};
use crate::kernel::{Flags, PerfKernel, Scope};
use crate::pmu::Pmu;
use crate::refusal::Refusal;
use crate::table::{EventTable, Role};
use crate::uncore;

const SELF: Scope = Scope { pid: 0, cpu: -1 };
const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
/// Generic hardware events carry the type of one of several core PMUs in these bits of their config.
const PMU_TYPE_SHIFT: u32 = 32;

/// The gain from an event, and the substitute without it.
pub(super) struct Worth {
    pub(super) gain: &'static str,
    pub(super) instead: &'static str,
}

fn try_open<K: PerfKernel>(kernel: &K, kind: u32, config: u64, exclude_kernel: bool) -> Result<(), Refusal> {
    let flags = Flags { exclude_kernel, disabled: true, ..Flags::default() };
    match kernel.open(Encoding { kind, config, config1: 0, config2: 0 }, SELF, None, flags) {
        Ok(_) => Ok(()),
        Err(e) => Err(Refusal::of_open(&e)),
    }
}

pub(super) fn finding(
    id: impl Into<String>,
    what: impl Into<String>,
    result: Result<String, Refusal>,
    worth: Worth,
) -> Finding {
    let (works, answer, enable) = match result {
        Ok(answer) => (true, answer, String::new()),
        Err(refusal) => (false, refusal.to_string(), refusal.hint()),
    };
    Finding { id: id.into(), what: what.into(), works, answer, enable, gain: worth.gain, instead: worth.instead }
}

pub fn timed<K: PerfKernel>(kernel: &K) -> Finding {
    let worth = Worth {
        gain: "time per function to a millisecond, with intervals on a CPU",
        instead: "samples through ptrace, at a lower rate and a higher cost",
    };
    let result = try_open(kernel, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true);
    finding("timed", "sample by cpu-clock with perf_event_open", result.map(|()| "works".into()), worth)
}

pub fn kernel_samples<K: PerfKernel>(kernel: &K) -> Finding {
    let worth = Worth {
        gain: "kernel time apart, by the function that asked for it",
        instead: "kernel time is known in sum only",
    };
    let result = try_open(kernel, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false);
    finding("kernel", "sample in the kernel, too", result.map(|()| "works".into()), worth)
}

/// One finding for each core PMU: hybrid CPUs have two. `clock`: whether cpu-clock may be sampled.
pub fn cycles<K: PerfKernel>(
    kernel: &K,
    tables: &[&EventTable],
    pmus: &[Pmu],
    guest: bool,
    clock: bool,
) -> Vec<Finding> {
    let cores: Vec<&Pmu> = tables.iter().filter_map(|t| plan::core_pmu(&t.cpu, pmus)).collect();
    let one = |pmu: Option<&Pmu>| {
        let kind = pmu.map_or(0, |p| u64::from(p.kind) << PMU_TYPE_SHIFT);
        let result = try_open(kernel, PERF_TYPE_HARDWARE, kind | PERF_COUNT_HW_CPU_CYCLES, true);
        let (id, what) = of_cores("cycles", "count cycles", pmu);
        let worth = Worth {
            gain: "hardware counters: one native run is enough where they pass the trust check",
            instead: match clock {
                true => "cpu-clock for time, the counted pass for operations",
                false => "samples through ptrace for time, the counted pass for operations",
            },
        };
        let mut finding = finding(id, what, result.map(|()| "works".into()), worth);
        if !finding.works && !guest && finding.enable.contains("virtual machine") {
            finding.enable = DRIVER.into();
        }
        finding
    };
    match cores.len() {
        0 | 1 => vec![one(None)],
        _ => cores.into_iter().map(|pmu| one(Some(pmu))).collect(),
    }
}

#[cfg(target_arch = "x86_64")]
const DRIVER: &str = "switch the PMU on in the BIOS, and load the kernel's driver: sudo modprobe -a intel_uncore amd_uncore; \
                      dmesg | grep -i 'perf\\|pmu' says what the kernel found";
#[cfg(not(target_arch = "x86_64"))]
const DRIVER: &str = "switch the PMU on in the firmware, and load the kernel's driver: sudo modprobe -a arm-cmn \
                      arm_dmc620_pmu nvidia_cspmu; dmesg | grep -i 'perf\\|pmu' says what the kernel found";

/// Short name and words for a test on the cores of `pmu`, or on all of them.
fn of_cores(id: &str, what: &str, pmu: Option<&Pmu>) -> (String, String) {
    match pmu {
        None => (id.to_owned(), format!("{what} on the core PMU")),
        Some(pmu) => (format!("{id}.{}", pmu.name), format!("{what} on the cores of {}", pmu.name)),
    }
}

/// `sampled`: whether cpu-clock may be sampled.
pub fn readings<K: PerfKernel>(kernel: &K, sampled: bool) -> Finding {
    let flags = Flags {
        inherit: true,
        exclude_kernel: true,
        disabled: true,
        readings: true,
        sample_period_ns: 1_000_000,
        ..Flags::default()
    };
    let clock = Encoding { kind: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_CPU_CLOCK, config1: 0, config2: 0 };
    let result = kernel.open(clock, Scope { pid: 0, cpu: 0 }, None, flags).map_err(|e| Refusal::of_open(&e));
    let worth = Worth {
        gain: "counts by function and by thread",
        instead: match sampled {
            true => "the program's sums alone, split over functions by their time",
            false => "no counts of hardware: the counted pass counts every instruction",
        },
    };
    let what = "read counters of inherited events at samples";
    let mut finding = finding("readings", what, result.map(|_| "works".into()), worth);
    if finding.answer == Refusal::NotSupported.to_string() {
        finding.enable = "Linux 6.12 or later".into();
    }
    finding
}

/// One finding for each kind of core.
pub fn flops<K: PerfKernel>(kernel: &K, tables: &[&EventTable], pmus: &[Pmu], guest: bool) -> Vec<Finding> {
    if tables.is_empty() {
        let why = "rprof has no event table for this CPU".to_owned();
        return vec![of_flops(None, Err(Refusal::NoEvent { why }))];
    }
    let one = |table: &&EventTable| {
        let pmu = plan::core_pmu(&table.cpu, pmus);
        let mut finding = of_flops(pmu.filter(|_| tables.len() > 1), try_flops(kernel, table, pmus));
        let countable = table.no_flops().next().is_none();
        if !finding.works && pmu.is_none() && !guest && countable {
            finding.enable = DRIVER.into();
        }
        finding
    };
    let mut findings: Vec<Finding> = tables.iter().map(one).collect();
    // The kernel lists no PMU for some kinds of cores: nothing distinguishes their findings.
    findings.dedup_by(|a, b| a.id == b.id);
    findings
}

fn of_flops(pmu: Option<&Pmu>, result: Result<String, Refusal>) -> Finding {
    let worth = Worth {
        gain: "FLOPs, SIMD use and precision from the native run",
        instead: "the counted pass counts every instruction exactly",
    };
    let (id, what) = of_cores("flops", "count FLOPs", pmu);
    finding(id, what, result, worth)
}

fn try_flops<K: PerfKernel>(kernel: &K, table: &EventTable, pmus: &[Pmu]) -> Result<String, Refusal> {
    if let Some(missing) = table.no_flops().next() {
        return Err(Refusal::NoEvent { why: missing.reason.clone() });
    }
    let pmu = plan::core_pmu(&table.cpu, pmus).ok_or_else(|| Refusal::not_listed(table.cpu.pmu.join(" or "), pmus))?;
    let mut opened = 0;
    let mut left_out = String::new();
    for event in table.asked_for().filter(|e| e.role == Role::Flops || table.betrays(e).is_some()) {
        let encoding = encode(event, pmu).map_err(|e| Refusal::NoEncoding { field: e.field.into() })?;
        let flags = Flags { exclude_kernel: true, disabled: true, ..Flags::default() };
        kernel.open(encoding, SELF, None, flags).map_err(|e| Refusal::of_open(&e))?;
        opened += 1;
        if let Some(missing) = table.betrays(event) {
            left_out +=
                &format!("; {}: {} shows whether there are any", missing.reason.trim_end_matches('.'), event.name);
        }
    }
    Ok(format!("{opened} events open; rprof events --check validates them{left_out}"))
}

/// A memory controller's PMU that the kernel lists and for which no table has events.
fn controller_without_table(tables: &[&EventTable], pmus: &[Pmu]) -> Option<Refusal> {
    const CONTROLLERS: [&str; 7] =
        ["uncore_imc", "uncore_imc_free_running", "amd_umc", "amd_df", "arm_cmn", "arm_dmc620", "nvidia_scf_pmu"];
    let told = |pmu: &Pmu| tables.iter().flat_map(|t| &t.uncore).any(|event| pmu.is_box_of(&event.pmu));
    let pmu = pmus.iter().find(|p| CONTROLLERS.iter().any(|c| p.is_box_of(c)) && !told(p))?;
    Some(Refusal::NoEvent { why: format!("rprof's tables do not define the events of {} on this CPU", pmu.name) })
}

pub fn dram<K: PerfKernel>(kernel: &K, tables: &[&EventTable], pmus: &[Pmu], guest: bool) -> Finding {
    let without_table = controller_without_table(tables, pmus);
    let mut result = Err(without_table.clone().unwrap_or(Refusal::not_listed("of a memory controller", pmus)));
    for event in tables.iter().flat_map(|t| &t.uncore).filter(|e| e.role == Role::DramReadLines) {
        let opened = uncore::open(kernel, pmus, event);
        match opened.lacks() {
            None => {
                result = Ok(format!("{} boxes of {}", opened.boxes.len(), event.pmu));
                break;
            }
            Some(Refusal::NoPmu { .. } | Refusal::NoList) => {}
            Some(refusal) => result = Err(refusal),
        }
    }
    let worth = Worth {
        gain: "measured bytes instead of simulated ones",
        instead: "a cache model of this host, fed by the counted pass, labelled simulated",
    };
    let mut finding = finding("dram", "count DRAM traffic at the memory controllers", result, worth);
    if !finding.works && finding.enable.contains("pmu=on") {
        finding.enable = match guest {
            true => "not to be had in a virtual machine: use the bare-metal host".into(),
            false => DRIVER.into(),
        };
    }
    finding
}
