//! `rprof doctor`: tries the features of this host, and says for each how to enable it and what the report gains.

mod events;
mod host;
mod rights;

use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;

use super::collect::plan::{self, Plan};
use super::cpu::{self, CpuId};
use super::group;
use super::kernel::{Linux, PerfKernel};
use super::listing;
use super::pmu::{self, Pmu};
use super::setcap_hint;
use super::table::EventTable;
use super::tables;
use super::trust::Verdict;
use rights::Rights;

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Short name, stable; of several kinds of cores `flops.PMU`.
    pub id: String,
    /// The feature tried.
    pub what: String,
    /// Whether it works.
    pub works: bool,
    /// The kernel's answer.
    pub answer: String,
    /// The command or setting that would enable it; empty if it works or if nothing would.
    pub enable: String,
    /// The report's gain from it.
    pub gain: &'static str,
    /// The substitute that rprof uses without it.
    pub instead: &'static str,
}

/// Everything that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// This CPU.
    pub cpu: Option<CpuId>,
    /// Names of its event tables.
    pub table: Option<String>,
    /// `full PMU`, `core PMU`, `no PMU`, `sandbox`.
    pub tier: &'static str,
    /// In the order of the report's needs.
    pub findings: Vec<Finding>,
}

/// Tries everything with `kernel`, and the sysfs and proc below these folders.
pub fn examine<K: PerfKernel>(kernel: &K, sysfs: &Path, proc_root: &Path) -> Diagnosis {
    let cpu = cpu::identify(sysfs);
    let all = tables::all().unwrap_or_default();
    let tables = cpu.as_ref().map(|c| plan::tables_of(&all, c)).unwrap_or_default();
    let mut diagnosis = diagnose(kernel, cpu, &tables, &pmu::list(sysfs));
    let rights = Rights::of_process(proc_root);
    diagnosis.findings.iter_mut().for_each(|f| rights.advise(f));
    diagnosis
}

fn diagnose<K: PerfKernel>(kernel: &K, cpu: Option<CpuId>, tables: &[EventTable], pmus: &[Pmu]) -> Diagnosis {
    let guest = cpu.as_ref().is_some_and(|c| c.guest);
    let tables: Vec<&EventTable> = plan::present(tables, pmus).collect();
    let mut findings = vec![events::timed(kernel), events::kernel_samples(kernel)];
    let clock = findings[0].works;
    findings.extend(events::cycles(kernel, &tables, pmus, guest, clock));
    findings.push(events::readings(kernel, clock));
    findings.extend(events::flops(kernel, &tables, pmus, guest));
    findings.push(events::dram(kernel, &tables, pmus, guest));
    let all_work = |id: &str| findings.iter().filter(|f| f.id.split('.').next() == Some(id)).all(|f| f.works);
    let tier = match (all_work("timed"), all_work("cycles"), all_work("dram")) {
        (_, true, true) => "full PMU",
        (_, true, false) => "core PMU",
        (true, false, _) => "no PMU",
        (false, false, _) => "sandbox",
    };
    Diagnosis { cpu, table: listing::names(&tables), tier, findings }
}

/// The same with the running kernel, and the other requirements of the passes.
pub fn examine_this_host() -> Diagnosis {
    let mut diagnosis = examine(&Linux, Path::new("/sys"), Path::new("/proc"));
    diagnosis.findings.extend([
        host::watchdog(Path::new("/proc")),
        open_files(),
        host::ptrace(),
        host::executable_memfd(),
        host::huge_pages(Path::new("/sys")),
    ]);
    give_together(&mut diagnosis.findings);
    diagnosis
}

/// If several findings ask for capabilities, each of them names the one command that gives them all.
fn give_together(findings: &mut [Finding]) {
    let lacks = |capability: &&str| {
        let command = setcap_hint::setcap(capability);
        findings.iter().any(|f| !f.works && f.enable.contains(&command))
    };
    let lacking: Vec<&str> = ["cap_perfmon", "cap_sys_admin"].into_iter().filter(lacks).collect();
    if lacking.len() > 1 {
        findings.iter_mut().for_each(|f| f.enable = setcap_hint::with_all(&f.enable, &lacking));
    }
}

/// Whether all that a run would open fits below the limit of open files.
fn open_files() -> Finding {
    let sysfs = Path::new("/sys");
    let all = tables::all().unwrap_or_default();
    let tables = cpu::identify(sysfs).map(|id| plan::tables_of(&all, &id)).unwrap_or_default();
    let watchdog = group::nmi_watchdog(Path::new("/proc"));
    let plan = Plan::new(&tables, &pmu::list(sysfs), watchdog, |_, _| Verdict::Trusted);
    let cpus = sysconf(SysconfVar::_NPROCESSORS_CONF).ok().flatten().unwrap_or(1) as u32;
    host::open_files(plan.descriptors(cpus), cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::refusal::Refusal;
    use std::collections::BTreeMap;

    #[test]
    fn a_sandbox_is_recognised_and_told_what_helps() {
        let fake = Fake { refuse: vec![(0, libc::ENOSYS)], ..Fake::default() };
        let diagnosis = examine(&fake, Path::new("/nonexistent"), Path::new("/nonexistent"));
        assert_eq!(diagnosis.tier, "sandbox");
        let timed = &diagnosis.findings[0];
        assert!(!timed.works && timed.enable.contains("seccomp"), "{timed:?}");
        let cycles = found(&diagnosis, "cycles");
        assert!(cycles.instead.starts_with("samples through ptrace for time"), "cpu-clock is refused, too: {cycles:?}");
        let open = examine(&Fake::default(), Path::new("/nonexistent"), Path::new("/nonexistent"));
        assert!(found(&open, "cycles").instead.starts_with("cpu-clock for time"));
        for finding in &diagnosis.findings {
            assert!(!finding.gain.is_empty() && !finding.instead.is_empty() && !finding.answer.is_empty());
        }
    }

    #[test]
    fn capabilities_are_given_by_one_command() {
        let lacking = |capability: &str| {
            let worth = events::Worth { gain: "g", instead: "i" };
            let mut finding = events::finding("x", "x", Err(Refusal::NeverRan), worth);
            finding.enable = format!("{}, or run as root", setcap_hint::setcap(capability));
            finding
        };
        let mut findings = [lacking("cap_perfmon"), lacking("cap_sys_admin"), lacking("cap_perfmon")];
        give_together(&mut findings[1..2]);
        assert!(findings[1].enable.contains("cap_sys_admin+ep"), "it is alone: {}", findings[1].enable);
        give_together(&mut findings);
        assert!(findings.iter().all(|f| f.enable.starts_with("sudo setcap cap_perfmon,cap_sys_admin+ep")));
        assert!(findings.iter().all(|f| f.enable == findings[0].enable));
    }

    #[test]
    fn this_host_is_examined_without_panic() {
        let diagnosis = examine_this_host();
        assert_eq!(diagnosis.findings.len(), 11);
        for finding in diagnosis.findings {
            assert!(finding.works || !finding.answer.is_empty(), "{}", finding.id);
        }
    }

    fn pmu(name: &str, kind: u32, cpus: &[u32]) -> Pmu {
        let format = [("event", "config:0-7"), ("umask", "config:8-15"), ("cmask", "config:24-31")];
        Pmu {
            name: name.into(),
            kind,
            cpus: cpus.to_vec(),
            per_socket: name.starts_with("uncore"),
            format: format.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            events: BTreeMap::new(),
        }
    }

    fn intel(model: u32) -> (Option<CpuId>, Vec<EventTable>) {
        let id = CpuId { vendor: "GenuineIntel".into(), family: 6, model, name: "an Intel".into(), guest: false };
        let tables = plan::tables_of(&tables::all().unwrap(), &id);
        (Some(id), tables)
    }

    fn found<'d>(diagnosis: &'d Diagnosis, id: &str) -> &'d Finding {
        diagnosis.findings.iter().find(|f| f.id == id).unwrap_or_else(|| panic!("no {id} in {diagnosis:?}"))
    }

    #[test]
    fn each_kind_of_core_is_tried() {
        let (cpu, tables) = intel(0x97);
        let pmus = [pmu("cpu_core", 4, &[0, 1]), pmu("cpu_atom", 10, &[2, 3])];
        let fake = Fake::default();
        let diagnosis = diagnose(&fake, cpu, &tables, &pmus);
        assert!(found(&diagnosis, "flops.cpu_core").works);
        let atom = found(&diagnosis, "flops.cpu_atom");
        assert!(!atom.works && atom.answer.contains("FLOP"), "{atom:?}");
        assert!(diagnosis.table.as_deref().is_some_and(|t| t.contains(" + ")), "{:?}", diagnosis.table);
        let cycles: Vec<u64> = fake.opened.borrow().iter().map(|o| o.0.config).filter(|c| *c >> 32 > 0).collect();
        assert_eq!(cycles, [4 << 32, 10 << 32], "each PMU is asked for its own cycles");
        let refusing = Fake { refuse: vec![(10 << 32, libc::ENOENT)], ..Fake::default() };
        let (cpu, tables) = intel(0x97);
        assert_eq!(diagnose(&refusing, cpu, &tables, &pmus).tier, "no PMU", "half of the cores are not the CPU");
    }

    #[test]
    fn flops_are_tried_where_some_are_left_out() {
        let core = [pmu("cpu", 4, &[])];
        for model in [0x8f, 0xcf, 0xad] {
            let (cpu, tables) = intel(model);
            let fake = Fake::default();
            let diagnosis = diagnose(&fake, cpu, &tables, &core);
            let flops = found(&diagnosis, "flops");
            assert!(flops.works && flops.answer.contains("AMX has no FLOP event: exe.amx_busy shows"), "{flops:?}");
            assert!(fake.opened.borrow().iter().any(|o| o.0.config == 0x40c7), "fp_arith.512_dp was opened");
        }
    }

    #[test]
    fn nothing_is_advised_where_nothing_would_help() {
        let id = CpuId { vendor: "GenuineIntel".into(), family: 6, model: 0xff, name: "new".into(), guest: false };
        let listed = [pmu("cpu", 4, &[]), pmu("uncore_imc", 20, &[0])];
        let unknown = diagnose(&Fake::default(), Some(id), &[], &listed);
        let dram = found(&unknown, "dram");
        assert_eq!(dram.answer, "rprof's tables do not define the events of uncore_imc on this CPU");
        assert_eq!(dram.enable, "", "the kernel lists it: no driver is missing");
        let (cpu, tables) = intel(0xbe);
        let e_cores = diagnose(&Fake::default(), cpu, &tables, &[pmu("cpu", 4, &[])]);
        let flops = found(&e_cores, "flops");
        assert!(!flops.works && flops.answer.starts_with("Gracemont has no FLOP event"), "{flops:?}");
        assert_eq!(flops.enable, "", "nothing in the BIOS would help");
    }

    #[test]
    fn tiers_of_hosts_with_a_pmu() {
        let tier = |fake: &Fake, pmus: &[Pmu]| {
            let (cpu, tables) = intel(0x6a);
            diagnose(fake, cpu, &tables, pmus)
        };
        let core = [pmu("cpu", 4, &[])];
        assert_eq!(tier(&Fake::default(), &core).tier, "core PMU");
        let full = [pmu("cpu", 4, &[]), pmu("uncore_imc_0", 20, &[0])];
        assert_eq!(tier(&Fake::default(), &full).tier, "full PMU");
        let forbidden = Fake { refuse: vec![(0x0f04, libc::EACCES), (0xe3, libc::EACCES)], ..Fake::default() };
        let diagnosis = tier(&forbidden, &full);
        assert_eq!(diagnosis.tier, "core PMU");
        assert!(found(&diagnosis, "dram").answer.ends_with("does not allow it to this user"));
    }
}
