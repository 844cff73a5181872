//! The cost of copies, launches and idle time on each GPU, with one sentence of advice each.
//!
//! Seconds are upper limits, and not additive: one gap may have several remedies.

use rprof_profile::device::{Copies, Device, Devices, Direction, Finding, Kernel, MemoryKind};
use rprof_profile::gpu::Gpu;
use rprof_profile::names;
use rprof_profile::number::{percent, seconds, si};

use super::class;

/// Findings below this share of the GPU's span are left out.
const LEAST: f64 = 0.01;

/// All findings by descending seconds.
pub fn of(devices: &Devices, gpus: &[Gpu]) -> Vec<Finding> {
    let mut all: Vec<Finding> = devices.devices.iter().flat_map(|device| of_device(device, devices, gpus)).collect();
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    all
}

fn of_device(device: &Device, devices: &Devices, gpus: &[Gpu]) -> Vec<Finding> {
    let gpu = gpus.iter().find(|gpu| gpu.index == device.index);
    let copies = devices.copies.iter().filter(|copies| copies.device == device.index);
    let mut found: Vec<(&str, f64, String)> = copies.filter_map(|copies| page_lock(copies, gpu?)).collect();
    let share = |s: f64| percent(s / device.span_s.max(f64::MIN_POSITIVE));
    let idle = &device.idle;
    found.push((
        "gpu-copy",
        device.copies_s.min(device.kernels_s),
        format!(
            "For {} ({} of its span) the GPU only copied: copy from page-locked memory in a second stream while kernels run.",
            seconds(device.copies_s),
            share(device.copies_s)
        ),
    ));
    found.push(("gpu-launch", idle.launch_s, launches(device, &devices.kernels)));
    found.push((
        "gpu-idle",
        idle.host_s,
        format!(
            "For {} ({} of its span) the GPU had nothing to do while no thread waited for it: launch the next kernels before the \
             host's own work, or do that in another thread.",
            seconds(idle.host_s),
            share(idle.host_s)
        ),
    ));
    found.push((
        "gpu-idle",
        idle.waiting_s,
        format!(
            "For {} ({} of its span) the GPU had nothing to do while the host was in a call that waits for it{}: launch more \
             before waiting, and wait less often.",
            seconds(idle.waiting_s),
            share(idle.waiting_s),
            devices.waits.first().map_or(String::new(), |w| format!(" (mostly on {}, {} calls)", w.on, w.count))
        ),
    ));
    found.push((
        "gpu-idle",
        idle.loading_s,
        format!(
            "For {} of the idle time the driver loaded modules and functions: run each kernel once before the part that \
             counts, or load them at the start with CUDA_MODULE_LOADING=EAGER.",
            seconds(idle.loading_s)
        ),
    ));
    let worth = |f: &(&str, f64, String)| f.1 > 0.0 && f.1 >= LEAST * device.span_s;
    let finding = |(cause, seconds, advice): (&str, f64, String)| Finding {
        cause: cause.into(),
        device: device.index,
        seconds,
        advice,
    };
    found.into_iter().filter(worth).map(finding).collect()
}

/// Copies to or from pageable memory, at this GPU's rates: seconds · (1 − pageable / page-locked).
fn page_lock(copies: &Copies, gpu: &Gpu) -> Option<(&'static str, f64, String)> {
    let (way, end) = match copies.direction {
        Direction::HostToDevice => ("h2d", copies.from),
        Direction::DeviceToHost => ("d2h", copies.to),
        _ => return None,
    };
    let pageable = gpu.value(&format!("gpu.link.{way}.pageable"))?;
    let pinned = gpu.value(&format!("gpu.link.{way}.pinned"))?;
    if end != MemoryKind::Pageable || pageable >= pinned {
        return None;
    }
    let advice = format!(
        "Page-lock the host's memory (cudaHostAlloc, cudaHostRegister; pin_memory in PyTorch): {} copies of {} {} pageable memory \
         took {} at {}, and page-locked memory reaches {} here.",
        copies.count,
        si(copies.bytes as f64, "B"),
        if way == "h2d" { "from" } else { "to" },
        seconds(copies.seconds),
        si(copies.bytes as f64 / copies.seconds.max(f64::MIN_POSITIVE), "B/s"),
        si(pinned, "B/s")
    );
    Some(("gpu-copy", copies.seconds * (1.0 - pageable / pinned), advice))
}

/// Advice on gaps below 20 µs.
fn launches(device: &Device, kernels: &[Kernel]) -> String {
    let own: Vec<&Kernel> = kernels.iter().filter(|k| k.device == device.index).collect();
    let all: u64 = own.iter().map(|k| k.launches).sum();
    let short: Vec<&&Kernel> = own.iter().filter(|k| class::is_short(k)).collect();
    let count: u64 = short.iter().map(|k| k.launches).sum();
    let in_graphs: u64 = own.iter().map(|k| k.graph_launches).sum();
    let mean_s = short.iter().map(|k| k.seconds).sum::<f64>() / count.max(1) as f64;
    let most = short.iter().max_by_key(|k| k.launches);
    let evidence = most.map_or(String::new(), |k| {
        let name = names::shorten(&k.name, 40);
        format!(
            ", and {count} of {all} launches take less than 5 µs ({} on the mean; most are of {name})",
            seconds(mean_s)
        )
    });
    // Half of the launches are in graphs already.
    let remedy = match 2 * in_graphs > all {
        true => "fuse kernels, so that each has more to do",
        false => "fuse kernels, or put the launches into a CUDA graph",
    };
    format!(
        "The GPU waited {} for launches in gaps below 20 µs{evidence}: {remedy}.{} Tracing itself lengthens each gap, by about 1 µs in a \
         program of the driver's API and by 3 to 5 µs in PyTorch.",
        seconds(device.idle.launch_s),
        longest(device)
    )
}

/// ` The longest stretch of such launches begins 44 ms after …`
fn longest(device: &Device) -> String {
    let longest = device.stretches.iter().max_by(|a, b| a.span_s.total_cmp(&b.span_s));
    longest.map_or(String::new(), |s| {
        format!(
            " The longest stretch of such launches begins {} after the GPU's first work and lasts {}: {} launches, and nothing runs for {} of \
             it.",
            seconds(s.start_s),
            seconds(s.span_s),
            s.launches,
            percent(s.idle_s / s.span_s.max(f64::MIN_POSITIVE))
        )
    })
}
