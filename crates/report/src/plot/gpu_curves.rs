//! Pictures of a GPU that was measured: its roofline without kernels, and its curves.

use super::sweep;
use rprof_profile::Machine;
use rprof_profile::gpu::Gpu;
use rprof_profile::machine::{Cache, Sweep};

/// The pictures of a GPU as (file name, SVG): the roofline, and one for each family of curves.
pub fn pictures(gpu: &Gpu) -> Vec<(String, String)> {
    let name = |of: &str| format!("machine-gpu{}-{of}.svg", gpu.index);
    let roofline = super::gpu::of_machine(gpu).map(|svg| (name("roofline"), svg));
    let mut all: Vec<(String, String)> = roofline.into_iter().collect();
    let curves = as_machine(gpu);
    for family in sweep::families(&curves) {
        // The pictures of the link are those of Lo et al., Figure 7, one for each size.
        let file = match family.trim_start_matches("gpu-") {
            "link" => "copies".to_owned(),
            other => other.replacen("reuse", "link", 1),
        };
        all.extend(sweep::svg(&curves, &family).map(|svg| (name(&file), svg)));
    }
    all
}

/// The GPU's curves as those of a machine: `gpu.reuse.pinned` becomes `gpu-reuse.pinned`.
fn as_machine(gpu: &Gpu) -> Machine {
    let renamed = |sweep: &Sweep| Sweep { id: sweep.id.replacen("gpu.", "gpu-", 1), ..sweep.clone() };
    let shared_by = gpu.multiprocessors;
    let caches = vec![Cache { level: 2, size: gpu.l2_bytes, ways: 0, line: 128, shared_by }];
    let sweeps = gpu.sweeps.iter().map(renamed).collect();
    Machine { cpu: format!("GPU {}, {}", gpu.index, gpu.name), sweeps, caches, ..Machine::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::Ceiling;

    fn gpu() -> Gpu {
        let of = |id: &str, value: f64, unit: &str| Ceiling::reproduced(id, value, unit, 0);
        let ceilings = vec![
            of("gpu.fp32.fma", 66e12, "flop/s"),
            of("gpu.tensor.bf16", 967e12, "flop/s"),
            of("gpu.dram.read", 4.54e12, "byte/s"),
            of("gpu.l2.read", 9.1e12, "byte/s"),
        ];
        let curve = |id: &str, x_unit: &str, points: &[(f64, f64)]| {
            let (id, x_unit, y_unit) = (id.into(), x_unit.into(), "byte/s".into());
            Sweep { id, x_unit, y_unit, threads: 0, points: points.to_vec() }
        };
        let sweeps = vec![
            curve("gpu.reuse.pinned", "kernels", &[(1.0, 20e9), (8.0, 105e9), (64.0, 575e9)]),
            curve("gpu.reuse.zerocopy", "kernels", &[(1.0, 25e9), (8.0, 52e9), (64.0, 71e9)]),
            curve("gpu.reuse-1m.pinned", "kernels", &[(1.0, 12e9), (8.0, 40e9), (64.0, 120e9)]),
            curve("gpu.workingset.l2", "byte", &[(8e6, 9.3e12), (2e9, 4.54e12)]),
        ];
        Gpu { name: "NVIDIA H200".into(), l2_bytes: 60 << 20, ceilings, sweeps, ..Gpu::default() }
    }

    #[test]
    fn a_gpu_has_a_roofline_the_picture_of_its_link_and_its_curves() {
        let all = pictures(&gpu());
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["roofline", "link", "link-1m", "workingset"];
        assert_eq!(names, expected.map(|of| format!("machine-gpu0-{of}.svg")));
        assert!(all[0].1.contains("tensor bf16 967 TFLOP/s") && all[0].1.contains("DRAM 4.54 TB/s"));
        assert!(all[1].1.contains("zerocopy") && all[2].1.contains("1 MiB") && !all[1].1.contains("0 threads"));
        assert_eq!(pictures(&Gpu::default()), []);
    }
}
