//! `rprof doctor`: the possibilities of the CPU's side, and the needs of a GPU.

use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use crate::counters::doctor::{Diagnosis, Finding, examine_this_host};
use crate::device::cupti;
use crate::machine::gpu::{self, GpuRequest};
use crate::machine::suite::campaign::Effort;
use crate::profile::device::Uncounted;
use crate::profile::gpu::Gpu;
use crate::tracee::proc_status::read_status;

/// The driver's parameters, and the variable with another file of them, for tests.
const PARAMETERS: &str = "/proc/driver/nvidia/params";
const PARAMETERS_VARIABLE: &str = "RPROF_NVIDIA_PARAMS";
/// Capabilities that permit counters if they are reserved: CAP_SYS_ADMIN and, from driver 565 on, CAP_PERFMON.
const ADMIN: u32 = 21;
const PERFMON: u32 = 38;
/// The first driver API that comes with driver 565.
const PERFMON_FROM: u32 = 12_070;

/// Tries everything.
pub fn examine() -> Diagnosis {
    let mut diagnosis = examine_this_host();
    diagnosis.findings.extend(findings());
    diagnosis
}

fn findings() -> Vec<Finding> {
    let (driver, gpus) = driver();
    let mut all = vec![driver];
    if let Some(first) = gpus.first() {
        all.push(library(first.driver));
        all.push(counters(cupti::admin_only(&parameters()), capabilities(), first.driver));
    }
    all
}

fn parameters() -> PathBuf {
    std::env::var_os(PARAMETERS_VARIABLE).map_or_else(|| PARAMETERS.into(), PathBuf::from)
}

fn driver() -> (Finding, Vec<Gpu>) {
    let finding = |works, answer: String, enable: &str| Finding {
        id: "gpu.driver".into(),
        what: "use a GPU".into(),
        works,
        answer,
        enable: enable.into(),
        gain: "ceilings of the GPU and of its link (`rprof machine --gpu`)",
        instead: "the report is of the CPU",
    };
    match gpu::facts(&GpuRequest::new(Effort::Quick)) {
        Ok(Some(gpus)) => {
            let names: Vec<String> =
                gpus.iter().map(|gpu| format!("{} ({}.{})", gpu.name, gpu.capability.0, gpu.capability.1)).collect();
            let version = gpus.first().map_or(0, |gpu| gpu.driver);
            let answer = format!("{}, driver for CUDA {}.{}", names.join(", "), version / 1000, version % 1000 / 10);
            (finding(true, answer, ""), gpus)
        }
        Ok(None) => (
            finding(
                false,
                "there is no NVIDIA driver (libcuda.so.1)".into(),
                "install NVIDIA's driver where there is a GPU",
            ),
            Vec::new(),
        ),
        Err(error) => (finding(false, error.to_string(), "see the hint"), Vec::new()),
    }
}

/// `driver` is the version of its API.
fn library(driver: u32) -> Finding {
    let found = cupti::candidates(Path::new("/usr/bin/python3")).first().map(|path| path.display().to_string());
    let found = found
        .or_else(|| gpu::first_that_loads(&cupti::NAMES).map(|name| format!("{name}, as the dynamic linker finds it")));
    // CUPTI's version is that of CUDA, which must not be newer than the driver's.
    let package = if driver < 13_000 { "nvidia-cuda-cupti-cu12" } else { "nvidia-cuda-cupti" };
    Finding {
        id: "gpu.cupti".into(),
        what: "trace kernels with CUPTI".into(),
        works: found.is_some(),
        enable: match found {
            Some(_) => String::new(),
            None => format!("pip install {package}, or name the file in RPROF_CUPTI"),
        },
        answer: found.unwrap_or_else(|| {
            "no libcupti in toolkits, Python packages, RPROF_CUPTI or the linker's folders; a program may bring its own".into()
        }),
        gain: "time of every kernel and copy, idle time of the GPU",
        instead: "programs that bring libcupti (PyTorch, JAX, CuPy) are traced with theirs",
    }
}

fn counters(admin_only: Option<bool>, capabilities: u64, driver: u32) -> Finding {
    let has = |bit: u32| capabilities & 1 << bit != 0;
    let entitled = has(ADMIN) || has(PERFMON) && driver >= PERFMON_FROM;
    let works = admin_only == Some(false) || entitled;
    let answer = match (admin_only, entitled) {
        (Some(false), _) => "the driver lets every user count",
        (_, true) => "this process has the right",
        (Some(true), false) => "the driver reserves counters for administrators (RmProfilingAdminOnly: 1)",
        (None, false) => "the driver does not say who may count, and this process has no special rights",
    };
    Finding {
        id: "gpu.counters".into(),
        what: "count the work of kernels".into(),
        works,
        answer: answer.into(),
        enable: if works {
            String::new()
        } else {
            "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/rprof.conf and reboot; or run as root or with \
             CAP_PERFMON; in a container add --cap-add=PERFMON (or --cap-add=SYS_ADMIN before driver 565)"
                .into()
        },
        gain: "FLOPs and bytes of each kernel, and the ceiling that holds it",
        instead: "times of kernels and copies",
    }
}

/// Why kernels cannot be counted here, if that is known before a run. `driver` is the version of its API.
pub fn uncountable(driver: u32) -> Option<Uncounted> {
    let admin_only = cupti::admin_only(&parameters());
    let finding = counters(admin_only, capabilities(), driver);
    (admin_only == Some(true) && !finding.works).then_some(Uncounted { reason: finding.answer, fix: finding.enable })
}

/// The effective capabilities of this process, as bits.
fn capabilities() -> u64 {
    read_status(Pid::this()).map_or(0, |status| status.capabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_need_the_drivers_leave_or_a_capability() {
        let works = |admin_only, capabilities, driver| counters(admin_only, capabilities, driver).works;
        assert!(works(Some(false), 0, 13_000));
        assert!(!works(Some(true), 0, 13_000));
        assert!(!works(None, 0, 13_000));
        assert!(works(Some(true), 1 << ADMIN, 12_000));
        assert!(works(Some(true), 1 << PERFMON, 13_000));
        assert!(!works(Some(true), 1 << PERFMON, 12_000), "drivers before 565 do not know it");
        assert!(counters(Some(true), 0, 13_000).enable.contains("NVreg_RestrictProfilingToAdminUsers=0"));
    }
}
