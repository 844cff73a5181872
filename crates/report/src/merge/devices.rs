//! GPUs of several profiles.
//!
//! Runs of a program on one host, one after another, used the same GPUs: those of one number and name are added up. Ranks are kept
//! apart, because launchers number the GPUs of each rank anew: GPU 0 of two ranks may be one GPU or two.

use rprof_profile::device::{Copies, Counts, Device, Devices, Graph, Kernel, Shape, Stretch, TensorWork, Wait};
use rprof_profile::run::Warning;
use rprof_profile::{Profile, Run};

/// Code of the warning that GPUs have new numbers.
const RENUMBERED: &str = "gpus-renumbered";
/// Shapes of a kernel that are kept.
const SHAPES: usize = 16;

/// Adds the GPUs of `part` to those of `whole`. Call it before the threads of `part` move.
pub fn add(whole: &mut Profile, part: &mut Profile, are_ranks: bool) {
    let Some(mut devices) = part.devices.take() else { return };
    if are_ranks || !is_same_host(&whole.run, &part.run) || !same_gpus(whole, part, &devices) {
        keep_apart(whole, part, &mut devices);
    }
    match &mut whole.devices {
        None => whole.devices = Some(devices),
        Some(into) => plus(into, devices),
    }
}

fn is_same_host(whole: &Run, part: &Run) -> bool {
    let host = |run: &Run| run.threads.first().map(|thread| thread.host.clone());
    host(whole) == host(part)
}

/// Whether the GPUs of `devices` have the same names in both profiles.
fn same_gpus(whole: &Profile, part: &Profile, devices: &Devices) -> bool {
    let name = |profile: &Profile, index: u32| {
        profile.machine.gpus.iter().find(|gpu| gpu.index == index).map(|gpu| gpu.name.clone())
    };
    devices.devices.iter().all(|d| name(whole, d.index) == name(part, d.index))
}

/// Gives the GPUs of `devices` numbers beyond those of `whole`, and takes their ceilings along.
fn keep_apart(whole: &mut Profile, part: &mut Profile, devices: &mut Devices) {
    let used = whole.devices.iter().flat_map(|d| d.devices.iter().map(|d| d.index + 1));
    let next = used.chain(whole.machine.gpus.iter().map(|gpu| gpu.index + 1)).max().unwrap_or(0);
    if next == 0 {
        whole.machine.gpus.append(&mut part.machine.gpus);
        return;
    }
    devices.devices.iter_mut().for_each(|d| d.index += next);
    devices.kernels.iter_mut().for_each(|k| k.device += next);
    devices.copies.iter_mut().for_each(|c| c.device += next);
    for mut gpu in std::mem::take(&mut part.machine.gpus) {
        gpu.index += next;
        gpu.ceilings.iter_mut().for_each(|c| c.device = format!("gpu{}", gpu.index));
        whole.machine.gpus.push(gpu);
    }
    if whole.run.warnings.iter().all(|w| w.code != RENUMBERED) {
        whole.run.warnings.push(Warning::new(
            RENUMBERED,
            "the GPUs of each profile have numbers of their own: those of the second and later ones were counted on",
            "a GPU that several ranks used appears once for each, with the kernels of that rank",
            "compare the time of one rank with the span of its GPU, and not the sum",
        ));
    }
}

fn plus(into: &mut Devices, other: Devices) {
    for device in other.devices {
        match into.devices.iter_mut().find(|d| d.index == device.index) {
            Some(known) => add_device(known, &device),
            None => into.devices.push(device),
        }
    }
    for kernel in other.kernels {
        match into.kernels.iter_mut().find(|k| k.device == kernel.device && k.symbol == kernel.symbol) {
            Some(known) => add_kernel(known, kernel),
            None => into.kernels.push(kernel),
        }
    }
    into.kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for copies in other.copies {
        let ends = |c: &Copies| (c.device, c.direction, c.from, c.to);
        match into.copies.iter_mut().find(|c| ends(c) == ends(&copies)) {
            Some(known) => {
                known.count += copies.count;
                known.bytes += copies.bytes;
                known.seconds += copies.seconds;
            }
            None => into.copies.push(copies),
        }
    }
    into.copies.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let graphs = into.graphs.len() as u32;
    into.graphs.extend(other.graphs.into_iter().map(|graph| Graph { number: graph.number + graphs, ..graph }));
    for wait in other.waits {
        match into.waits.iter_mut().find(|w: &&mut Wait| w.on == wait.on) {
            Some(known) => {
                known.count += wait.count;
                known.seconds += wait.seconds;
            }
            None => into.waits.push(wait),
        }
    }
    let new: Vec<Warning> = other.warnings.into_iter().filter(|w| !into.warnings.contains(w)).collect();
    into.warnings.extend(new);
    into.uncounted = into.uncounted.take().or(other.uncounted);
}

/// Spans of runs in turn do not overlap.
fn add_device(into: &mut Device, other: &Device) {
    let before = into.span_s;
    into.stretches.extend(other.stretches.iter().map(|s| Stretch { start_s: s.start_s + before, ..s.clone() }));
    into.span_s += other.span_s;
    into.kernels_s += other.kernels_s;
    into.copies_s += other.copies_s;
    into.idle.launch_s += other.idle.launch_s;
    into.idle.host_s += other.idle.host_s;
    into.idle.waiting_s += other.idle.waiting_s;
    into.idle.loading_s += other.idle.loading_s;
}

fn add_kernel(into: &mut Kernel, other: Kernel) {
    into.launches += other.launches;
    into.graph_launches += other.graph_launches;
    into.seconds += other.seconds;
    into.shortest_s = into.shortest_s.min(other.shortest_s);
    into.longest_s = into.longest_s.max(other.longest_s);
    for shape in other.shapes {
        let sides = |s: &Shape| (s.grid, s.block, s.registers, s.shared, s.local);
        match into.shapes.iter_mut().find(|s| sides(s) == sides(&shape)) {
            Some(known) => {
                known.launches += shape.launches;
                known.seconds += shape.seconds;
            }
            None => into.shapes.push(shape),
        }
    }
    into.shapes.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    into.shapes.truncate(SHAPES);
    // Counted launches represent all: those of one run are enough.
    into.counts = match (into.counts.take(), other.counts) {
        (Some(a), Some(b)) => Some(add_counts(a, b)),
        (a, b) => a.or(b),
    };
}

fn add_counts(a: Counts, b: Counts) -> Counts {
    let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    let mut tensor: Vec<TensorWork> = a.tensor;
    for work in b.tensor {
        match tensor.iter_mut().find(|t| t.operand == work.operand) {
            Some(known) => known.operations += work.operations,
            None => tensor.push(work),
        }
    }
    Counts {
        launches: a.launches + b.launches,
        counted: a.counted + b.counted,
        seconds: a.seconds + b.seconds,
        fp64: sum(a.fp64, b.fp64),
        fp32: sum(a.fp32, b.fp32),
        fp64_instructions: sum(a.fp64_instructions, b.fp64_instructions),
        fp32_instructions: sum(a.fp32_instructions, b.fp32_instructions),
        fp16: sum(a.fp16, b.fp16),
        tensor,
        dram_read: sum(a.dram_read, b.dram_read),
        dram_write: sum(a.dram_write, b.dram_write),
        l2: sum(a.l2, b.l2),
        l2_received: sum(a.l2_received, b.l2_received),
        l1: sum(a.l1, b.l1),
        shared: sum(a.shared, b.shared),
        instructions: sum(a.instructions, b.instructions),
        global_sectors: sum(a.global_sectors, b.global_sectors),
        global_instructions: sum(a.global_instructions, b.global_instructions),
        thread_instructions: sum(a.thread_instructions, b.thread_instructions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;
    use rprof_model::device::example::{self, h200};

    fn profile(rank: Option<u32>) -> Profile {
        let mut profile = sample::profile();
        profile.machine.gpus = vec![h200()];
        profile.devices = Some(example::devices());
        profile.run.threads.iter_mut().for_each(|t| t.rank = rank);
        profile
    }

    #[test]
    fn runs_of_one_host_add_up() {
        let merged = crate::merge::merge(vec![profile(None), profile(None)], false).unwrap();
        let (one, both) = (example::devices(), merged.devices.unwrap());
        assert_eq!((both.devices.len(), both.kernels.len(), merged.machine.gpus.len()), (1, one.kernels.len(), 1));
        assert!((both.devices[0].span_s - 2.0 * one.devices[0].span_s).abs() < 1e-12);
        let triad = both.kernels.iter().find(|k| k.name == "triad").unwrap();
        let counts = triad.counts.as_ref().unwrap();
        assert_eq!((triad.launches, triad.shapes.len(), counts.launches), (4, 1, 4));
        assert_eq!(counts.fp64, example::triad().counts.unwrap().fp64.map(|x| 2.0 * x));
        assert_eq!(both.copies[0].count, 2 * one.copies[0].count);
        assert!(merged.run.warnings.iter().all(|w| w.code != RENUMBERED));
    }

    #[test]
    fn gpus_of_ranks_are_kept_apart() {
        let ranks = vec![profile(Some(0)), profile(Some(1)), profile(Some(2))];
        let mut merged = crate::merge::merge(ranks, false).unwrap();
        rprof_model::analyse(&mut merged);
        let devices = merged.devices.unwrap();
        assert_eq!(devices.devices.iter().map(|d| d.index).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(merged.machine.gpus.iter().map(|g| g.index).collect::<Vec<_>>(), [0, 1, 2]);
        let triads: Vec<_> = devices.kernels.iter().filter(|k| k.name == "triad").collect();
        assert!(triads.len() == 3 && triads.iter().all(|k| k.launches == 2));
        assert!(
            triads
                .iter()
                .all(|k| k.analysis.as_ref().unwrap().class == rprof_profile::vocabulary::Class::GpuDramBandwidth)
        );
        assert_eq!(merged.run.warnings.iter().filter(|w| w.code == RENUMBERED).count(), 1);
    }

    #[test]
    fn a_profile_without_gpus_changes_nothing() {
        let merged = crate::merge::merge(vec![sample::profile(), profile(None), sample::profile()], false).unwrap();
        assert_eq!(merged.devices.unwrap().kernels.len(), example::devices().kernels.len());
        assert_eq!(merged.machine.gpus.len(), 1);
    }
}
