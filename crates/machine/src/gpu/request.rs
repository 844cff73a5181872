//! The entry: kept ceilings, or a measurement. It never fails: errors become warnings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::campaign::Campaign;
use super::driver::{self, Cuda, Identity};
use super::error::GpuError;
use super::ledger::Ledger;
use super::{catalogue, codes, kept, log, measure, order};
use crate::loader::Remote;
use crate::progress::Progress;
use crate::store;
use crate::suite::campaign::Effort;
use rprof_profile::gpu::Gpu;
use rprof_profile::machine::Missing;
use rprof_profile::run::Warning;

/// Most GPUs that are measured.
const MOST_GPUS: u32 = 4;

/// A request for the ceilings of GPUs.
#[derive(Debug, Clone)]
pub struct GpuRequest {
    /// How thoroughly.
    pub effort: Effort,
    /// Ignore kept ceilings.
    pub refresh: bool,
    /// Folder of the kept ceilings; `None`: that of the CPU's.
    pub cache: Option<PathBuf>,
    /// The driver's library; `None`: as the dynamic linker finds it.
    pub library: Option<PathBuf>,
}

impl GpuRequest {
    /// Of all GPUs, kept beside the CPU's ceilings.
    pub fn new(effort: Effort) -> Self {
        let library = std::env::var_os(driver::LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        GpuRequest { effort, refresh: false, cache: None, library }
    }
}

/// The GPUs of this host with their ceilings: kept ones, or measured now, up to four GPUs one after another. Empty if there is no
/// driver. Whatever goes wrong is a warning.
pub fn load_or_measure(request: &GpuRequest, progress: &mut dyn Progress) -> Vec<Gpu> {
    let mut cuda = match usable(request) {
        Ok(cuda) => cuda,
        Err(error) => {
            let is_none = matches!(error, GpuError::Start(_)) && !Path::new("/dev/nvidiactl").exists();
            log::line(|| error.to_string());
            if !is_none {
                progress.warn(unusable("the GPUs of this host", &error));
            }
            return Vec::new();
        }
    };
    let Some(first) = cuda.as_mut() else { return Vec::new() };
    let facts = match all_facts(first) {
        Ok(facts) => facts,
        Err(error) => {
            progress.warn(unusable("the GPUs of this host", &error));
            return Vec::new();
        }
    };
    let mut gpus = Vec::new();
    for (gpu, identity) in facts {
        if gpu.index >= MOST_GPUS {
            continue;
        }
        if identity.is_shared {
            progress.warn(shared(&gpu));
        }
        let directory = request.cache.clone().or_else(store::directory);
        let key = kept::Key::of(&gpu, &identity);
        let known = directory.as_deref().filter(|_| !request.refresh);
        if let Some(known) = known.and_then(|directory| kept::load(directory, &key, request.effort)) {
            gpus.push(Gpu { index: gpu.index, ..known });
            continue;
        }
        warn_of_slices(&gpu, progress);
        // A process for each GPU: a lost context stays lost.
        let driver = match cuda.take().map_or_else(|| usable(request), |cuda| Ok(Some(cuda))) {
            Ok(Some(driver)) => driver,
            Ok(None) => break,
            Err(error) => {
                progress.warn(unusable(&format!("GPU {}", gpu.index), &error));
                break;
            }
        };
        let (gpu, is_whole) = one(driver, gpu, identity, request.effort, progress);
        if let Some(directory) = directory.as_deref().filter(|_| is_whole) {
            keep(directory, &key, request.effort, &gpu, progress);
        }
        gpus.push(gpu);
    }
    gpus
}

/// The same for a profiled program that used a GPU: quick, and kept ceilings if there are any.
pub fn for_a_run(progress: &mut dyn Progress) -> Vec<Gpu> {
    load_or_measure(&GpuRequest::new(Effort::Quick), progress)
}

/// The driver, initialised; `None` if there is none. The GPUs without any ceiling; `None` where there is no driver.
///
/// # Errors
/// [`GpuError`]: there is a driver, but it or its GPUs cannot be used.
pub fn facts(request: &GpuRequest) -> Result<Option<Vec<Gpu>>, GpuError> {
    let Some(mut cuda) = usable(request)? else { return Ok(None) };
    Ok(Some(all_facts(&mut cuda)?.into_iter().map(|(gpu, _)| gpu).collect()))
}

/// The first of these libraries that the dynamic linker finds.
pub fn first_that_loads(names: &[&'static str]) -> Option<&'static str> {
    let mut remote = Remote::start().ok()?;
    names.iter().copied().find(|name| remote.open(name).is_ok())
}

fn usable(request: &GpuRequest) -> Result<Option<Cuda>, GpuError> {
    let Some(mut cuda) = Cuda::start(request.library.as_deref())? else { return Ok(None) };
    let version = cuda.version()?;
    if version < driver::OLDEST {
        return Err(GpuError::OldDriver { version });
    }
    Ok(Some(cuda))
}

fn all_facts(cuda: &mut Cuda) -> Result<Vec<(Gpu, Identity)>, GpuError> {
    let version = cuda.version()?;
    let count = cuda.count()?;
    if count == 0 {
        return Err(GpuError::Failed { what: "counting GPUs".into(), code: codes::NO_DEVICE });
    }
    (0..count.min(MOST_GPUS)).map(|index| cuda.facts(index, version)).collect()
}

/// Measures one GPU; false if it was lost on the way, or could not be opened.
fn one(cuda: Cuda, gpu: Gpu, identity: Identity, effort: Effort, progress: &mut dyn Progress) -> (Gpu, bool) {
    let name = format!("GPU {} ({})", gpu.index, gpu.name);
    let budget = Duration::from_secs_f64(measure::plan::budget(effort));
    let facts = gpu.clone();
    log::line(|| format!("{name}: {:.1} s are planned", measure::plan::seconds(effort)));
    let mut campaign = match Campaign::open(cuda, gpu, identity, effort, budget) {
        Ok(campaign) => campaign,
        Err(error) => {
            progress.warn(unusable(&name, &error));
            let ledger = Ledger::new(facts.index, facts.clock_hz);
            return (finished(facts, ledger, Missing::Host, &error.to_string()), false);
        }
    };
    for doubt in std::mem::take(&mut campaign.doubts) {
        progress.warn(Warning::new(
            "gpu-in-use",
            format!("{name}: {doubt}"),
            "its ceilings may be wrong",
            "measure again with `rprof machine --refresh` when the GPU is idle",
        ));
    }
    let done = measure::all(&mut campaign, progress);
    let (gpu, ledger) = campaign.close();
    match done {
        Ok(()) if effort == Effort::Quick => {
            (finished(gpu, ledger, Missing::Effort, "a quick measurement leaves it out"), true)
        }
        Ok(()) => (finished(gpu, ledger, Missing::Host, "this GPU or its memory does not allow it"), true),
        Err(error) => {
            progress.warn(Warning::new(
                "gpu-lost",
                format!("{name}: {error}"),
                "the ceilings measured before stand, the others are missing",
                "measure again with `rprof machine --refresh`",
            ));
            (finished(gpu, ledger, Missing::Host, &error.to_string()), false)
        }
    }
}

/// The GPU with all its ceilings, in the order of the catalogue; those without a value say why.
fn finished(gpu: Gpu, mut ledger: Ledger, why: Missing, reason: &str) -> Gpu {
    for (id, unit) in catalogue::ALL {
        ledger.missing(id, unit, why, reason);
    }
    let (mut ceilings, sweeps) = ledger.finish();
    ceilings.sort_by_key(|ceiling| catalogue::place(&ceiling.id));
    let mut gpu = Gpu { ceilings, sweeps, ..gpu };
    order::settle(&mut gpu);
    gpu
}

fn keep(directory: &Path, key: &kept::Key, effort: Effort, gpu: &Gpu, progress: &mut dyn Progress) {
    if let Err(error) = kept::save(directory, key, effort, gpu) {
        progress.warn(Warning::new(
            "machine-cache",
            format!("the ceilings of GPU {} are not kept in {}: {error}", gpu.index, directory.display()),
            "they are measured again at the next run",
            "set XDG_CACHE_HOME to a writable directory",
        ));
    }
}

fn warn_of_slices(gpu: &Gpu, progress: &mut dyn Progress) {
    let part = match () {
        _ if gpu.name.contains(" MIG ") => "a MIG slice",
        _ if gpu.name.starts_with("GRID ") || gpu.name.contains("vGPU") => "a virtual GPU",
        _ => return,
    };
    progress.warn(Warning::new(
        "gpu-slice",
        format!("GPU {} ({}) is {part}", gpu.index, gpu.name),
        "its ceilings are those of the part, which may share L2 and memory bandwidth with others",
        "nothing: compare programs on the same part only",
    ));
}

/// Programs that an MPS server runs together share the GPU at any moment.
fn shared(gpu: &Gpu) -> Warning {
    Warning::new(
        "gpu-mps",
        format!("GPU {} ({}) is shared by an MPS server", gpu.index, gpu.name),
        "ceilings and times are those beside the other programs, and counts may contain their work",
        "end the server while you measure: echo quit | nvidia-cuda-mps-control",
    )
}

fn unusable(what: &str, error: &GpuError) -> Warning {
    Warning::new(
        "gpu-unusable",
        format!("{what} cannot be measured: {error}"),
        "there are no ceilings of GPUs",
        "nvidia-smi shows whether the driver works",
    )
}
