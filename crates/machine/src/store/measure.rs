//! The entry: uses the cached ceilings if they still hold and measures the others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::drift::{self, Drift};
use super::{Entry, Key, Unusable};
use crate::error::MachineError;
use crate::estimate::class::Class;
use crate::estimate::{self, Keys};
use crate::harness::priority::Priority;
use crate::host::features::Features;
use crate::host::limits::Limits;
use crate::host::topology::{Identity, Topology, cpulist};
use crate::progress::Progress;
use crate::suite;
use crate::suite::campaign::{Campaign, Effort};
use rprof_profile::clock;
use rprof_profile::machine::{Ceiling, Machine, Missing, Quality};
use rprof_profile::run::Warning;
use rprof_tracee::whole_file;

/// Version of the set of ceilings and of their measurement; grows with every change.
const CEILINGS_VERSION: u32 = 38;

/// Number of later runs that retry ceilings that did not fit the time or were noisy.
const RETRIES: u32 = 8;

/// Time that one later run spends on these retries.
const RETRY_BUDGET: Duration = Duration::from_millis(300);

/// Time for these retries if the first run did not get its memory: a hypervisor may hand memory to this host at half a GiB per second,
/// once.
const UNFINISHED_BUDGET: Duration = Duration::from_millis(4000);

/// Time that a run spends on ceilings that have moved since.
const MOVED_BUDGET: Duration = Duration::from_millis(1000);

/// A request for ceilings.
#[derive(Debug, Clone)]
pub struct Request {
    /// CPUs of the program; `None`: those this process may use.
    pub cpus: Option<Vec<usize>>,
    /// Most threads; `None`: one for each CPU.
    pub threads: Option<usize>,
    /// How thoroughly.
    pub effort: Effort,
    /// Ignore the cached ceilings.
    pub refresh: bool,
    /// The cache's folder; `None`: [`super::directory`].
    pub cache: Option<PathBuf>,
    /// Bytes of available memory; `None`: the amount that the limits of this process leave.
    pub memory: Option<u64>,
    /// The root of sysfs (tests fake it).
    pub sysfs: PathBuf,
    /// Instruction sets to use (tests leave some out).
    pub features: Features,
    /// The CPU's own description of itself (tests leave it empty).
    pub identity: Identity,
}

impl Request {
    /// This process's CPUs, all threads, the user's cache.
    pub fn new(effort: Effort) -> Self {
        Request {
            cpus: None,
            threads: None,
            effort,
            refresh: false,
            cache: None,
            memory: None,
            sysfs: "/sys".into(),
            features: Features::detect(),
            identity: Identity::ask(),
        }
    }
}

/// The host's topology, without any measurement: for sizes and placement.
pub fn topology(sysfs: &Path) -> Topology {
    Topology::detect(sysfs, &Limits::read().cpus).0
}

/// Returns the cached ceilings if they still hold, else measures. Doubts and progress go to `progress`.
///
/// # Errors
/// [`MachineError`], each variant with its hint. A cache that cannot be read or written is only a warning.
pub fn load_or_measure(request: &Request, progress: &mut dyn Progress) -> Result<Machine, MachineError> {
    let limits = Limits::read();
    let cpus = usable(request, &limits)?;
    let (topology, doubts) = Topology::detect_of(request.identity.clone(), &request.sysfs, &cpus);
    doubts.into_iter().for_each(|w| progress.warn(w));
    let threads = thread_limit(request, &limits, cpus.len(), progress);
    let memory = request.memory.unwrap_or(limits.memory);
    let dram = 4 * topology.llc_total <= memory / 4;
    if !dram {
        progress.warn(Warning::new(
            "too-little-memory",
            format!("{} MiB of memory are available", memory >> 20),
            "DRAM bandwidth and latency cannot be measured: a buffer of four times the last-level caches would be more than a quarter of it",
            "raise the memory limit",
        ));
    }
    let key = key(&topology, threads, dram, request.features);
    let directory = request.cache.clone().or_else(super::directory);
    if directory.is_none() {
        progress.warn(Warning::new(
            "machine-cache",
            "the ceilings are not kept: neither XDG_CACHE_HOME nor HOME is set",
            "they are measured again at the next run",
            "set XDG_CACHE_HOME to a writable directory",
        ));
    }
    let _ahead = Priority::raise();
    let (mut unusable, mut known) = (None, None);
    if let Some(directory) = directory.as_ref().filter(|_| !request.refresh) {
        match super::load(directory, &key) {
            Ok(entry) if entry.satisfies(request.effort) => known = Some((entry, directory)),
            Ok(_) => {}
            Err(why) => unusable = Some(why),
        }
    }
    // A thorough measurement is repeated as thoroughly.
    let is_full = known.as_ref().is_some_and(|(entry, _)| entry.satisfies(Effort::Full));
    let effort = if is_full { Effort::Full } else { request.effort };
    let mut campaign = Campaign::new(request.features, topology.clone(), threads, memory, effort)?;
    if let Some((entry, directory)) = known {
        return still_good(entry, campaign, directory, progress);
    }
    suite::measure_all(&mut campaign, progress)?;
    let machine = assemble(campaign, &topology, request.features)?;
    let entry = Entry { key, effort: request.effort.name().into(), retries: 0, machine };
    if keep(directory.as_deref(), &entry, progress)
        && let Some(warning) = unusable.and_then(replaced)
    {
        progress.warn(warning);
    }
    Ok(entry.machine)
}

fn usable(request: &Request, limits: &Limits) -> Result<Vec<usize>, MachineError> {
    let Some(asked) = &request.cpus else {
        return if limits.cpus.is_empty() { Ok(vec![0]) } else { Ok(limits.cpus.clone()) };
    };
    let mut cpus: Vec<usize> = asked.iter().copied().filter(|c| limits.cpus.contains(c)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() { Err(MachineError::NoCpu { asked: cpulist::format(asked) }) } else { Ok(cpus) }
}

fn thread_limit(request: &Request, limits: &Limits, cpus: usize, progress: &mut dyn Progress) -> usize {
    let mut threads = request.threads.unwrap_or(cpus).clamp(1, cpus);
    if let Some(quota) = limits.cpu_quota
        && quota < threads as f64
    {
        threads = (quota.ceil() as usize).max(1);
        progress.warn(Warning::new(
            "cpu-quota",
            format!("the cgroup grants the time of {quota:.2} CPUs on {cpus} CPUs"),
            format!("ceilings are measured for at most {threads} thread{}", if threads == 1 { "" } else { "s" }),
            "raise cpu.max for ceilings of all CPUs",
        ));
    }
    threads
}

fn key(topology: &Topology, threads: usize, dram: bool, features: Features) -> Key {
    let ids: Vec<usize> = topology.cpus.iter().map(|c| c.id).collect();
    let caches: Vec<String> = topology.caches.iter().map(|c| format!("{}/{}", c.size, c.shared_by)).collect();
    let kernel = nix::sys::utsname::uname().map(|u| u.release().to_string_lossy().into_owned()).unwrap_or_default();
    let version = format!("{} {CEILINGS_VERSION} {features:?}", env!("CARGO_PKG_VERSION"));
    let cpus = format!("{} on {} cores", cpulist::format(&ids), topology.cores());
    Key { cpu: topology.cpu.clone(), cpus, caches: caches.join(" "), kernel, threads, dram, version }
}

/// The warning about a useless cache file that has been replaced. If it could not be replaced either, [`keep`] has already warned.
fn replaced(unusable: Unusable) -> Option<Warning> {
    let text = match unusable {
        Unusable::Absent => return None,
        Unusable::Broken(what) => format!("the cache of ceilings is broken: {what}"),
        Unusable::Foreign => "the cache of ceilings belongs to another machine".into(),
    };
    Some(Warning::new("machine-cache", text, "the ceilings were measured again", "the file has been replaced"))
}

/// Returns the cached ceilings. Measures again those that have moved, as many as fit [`MOVED_BUDGET`]. Retries those that did not fit the
/// time or were noisy, a few times.
fn still_good(
    mut entry: Entry,
    mut campaign: Campaign,
    directory: &Path,
    progress: &mut dyn Progress,
) -> Result<Machine, MachineError> {
    let drift = drift::check(&campaign, &entry.machine)?;
    let outdated = outdate(drift, &mut entry.machine.ceilings);
    let late = |c: &Ceiling| c.quality == Quality::Missing(Missing::Time);
    let noisy = |c: &Ceiling| c.quality == Quality::Noisy;
    let is_unfinished = entry.machine.ceilings.iter().any(|c| c.id == "dram.read" && late(c));
    let mut wanted = outdated.clone();
    if entry.retries < RETRIES {
        wanted.extend(estimate::keys(&entry.machine.ceilings, |c| late(c) || noisy(c)));
    }
    if wanted.is_empty() {
        return Ok(entry.machine);
    }
    let Machine { ceilings, sweeps, .. } = &mut entry.machine;
    campaign.resume(std::mem::take(ceilings), std::mem::take(sweeps));
    campaign.only(
        wanted,
        match () {
            _ if is_unfinished => UNFINISHED_BUDGET,
            _ if !outdated.is_empty() => MOVED_BUDGET,
            _ => RETRY_BUDGET,
        },
    );
    suite::measure_again(&mut campaign, progress)?;
    if !outdated.is_empty() {
        entry.machine.core_to_core = campaign.core_to_core()?;
    }
    (entry.machine.ceilings, entry.machine.sweeps) = campaign.finish();
    entry.retries = if outdated.is_empty() { entry.retries + 1 } else { 0 };
    keep(Some(directory), &entry, progress);
    Ok(entry.machine)
}

/// Marks the ceilings that have moved and returns their keys.
fn outdate(drift: Drift, ceilings: &mut [Ceiling]) -> Keys {
    let mut outdated = Keys::new();
    for ceiling in ceilings.iter_mut().filter(|c| c.value.is_some() && !clock::is_parameter(&c.id)) {
        let class = Class::of(&ceiling.id);
        if let Some(factor) = drift.of(class) {
            estimate::outdate(ceiling, if class == Class::Beyond { "the memory" } else { "the core" }, factor);
            outdated.insert((ceiling.id.clone(), ceiling.threads as usize));
        }
    }
    outdated
}

/// Writes the cache and returns whether that succeeded. Warns if it did not.
fn keep(directory: Option<&Path>, entry: &Entry, progress: &mut dyn Progress) -> bool {
    let Some(directory) = directory else { return false };
    let Err(error) = super::save(directory, entry) else { return true };
    let elsewhere = "set XDG_CACHE_HOME to a writable directory";
    let remedy = match &error {
        MachineError::CacheWrite { source, .. } => whole_file::remedy(source, elsewhere),
        _ => elsewhere,
    };
    progress.warn(Warning::new(
        "machine-cache",
        error.to_string(),
        "the ceilings are measured again at the next run",
        remedy,
    ));
    false
}

fn assemble(campaign: Campaign, topology: &Topology, features: Features) -> Result<Machine, MachineError> {
    let cores = topology.cpus.len() as u32;
    let (huge_pages, core_to_core) = (campaign.huge_pages(), campaign.core_to_core()?);
    let (ceilings, sweeps) = campaign.finish();
    let vector_bits = Some(match features.widest() {
        rprof_isa::operation::Width::W512 => 512,
        rprof_isa::operation::Width::W256 => 256,
        _ => 128,
    });
    let (cpu, caches) = (topology.cpu.clone(), topology.caches.clone());
    Ok(Machine { cpu, cores, ceilings, sweeps, caches, vector_bits, huge_pages, core_to_core, gpus: Vec::new() })
}
