//! Kernels, copies and waiting out of the logs of a timed pass.

use std::collections::{BTreeMap, HashMap};

use super::log::Log;
use super::log::record::{Launched, Record, Span};
use super::refusals;
use super::timeline::{self, Spans};
use rprof_profile::device::{Copies, Device, Devices, Direction, Kernel, MemoryKind, Shape, Wait};

/// Shapes of a kernel that are kept; the others are in its sums.
const SHAPES: usize = 16;

/// CUPTI's number for a stream that waits for an event: no thread waits.
const STREAM_WAITS_FOR_EVENT: u32 = 2;

/// Devices, kernels, copies and waiting from the logs; `None` if no process got as far as CUPTI. Processes are summed, since
/// they share the GPUs.
pub fn devices(logs: &[Log], demangled: &dyn Fn(&str) -> String) -> Option<Devices> {
    if logs.is_empty() {
        return None;
    }
    let mut sums = Sums::default();
    logs.iter().for_each(|log| sums.add_log(log));
    let untimed = sums.untimed;
    let mut devices = sums.finish(demangled);
    devices.warnings = refusals::warnings(logs, devices.kernels.iter().map(|kernel| kernel.launches).sum());
    devices.warnings.extend(refusals::without_times(untimed));
    Some(devices)
}

#[derive(Default)]
struct Sums {
    devices: BTreeMap<u32, Busy>,
    kernels: HashMap<(u32, String), KernelSum>,
    copies: BTreeMap<(u32, Direction, MemoryKind, MemoryKind), Copies>,
    waits: BTreeMap<u32, Wait>,
    waited: Spans,
    loading: Spans,
    /// Launches without a recorded start or end.
    untimed: u64,
}

#[derive(Default)]
struct Busy {
    kernels: Spans,
    copies: Spans,
}

#[derive(Default)]
struct KernelSum {
    total: Kernel,
    shapes: HashMap<(Launched, u32, u32, u32), Shape>,
}

impl Sums {
    fn add_log(&mut self, log: &Log) {
        let mut names: HashMap<u32, &str> = HashMap::new();
        for record in &log.records {
            match record {
                Record::Name { id, text } => {
                    names.insert(*id, text);
                }
                Record::Kernel { name, .. } => {
                    self.add_kernel(record, names.get(name).copied().unwrap_or("unknown kernel"))
                }
                Record::Copy { span, bytes, kinds, device } => {
                    let key = (*device, direction(kinds[0]), memory(kinds[1]), memory(kinds[2]));
                    self.add_copy(key, *span, *bytes);
                }
                Record::Fill { span, bytes, memory: kind, device } => {
                    self.add_copy((*device, Direction::Fill, MemoryKind::Unknown, memory(*kind)), *span, *bytes);
                }
                Record::Wait { span, on } => {
                    let wait = self.waits.entry(*on).or_default();
                    wait.count += 1;
                    wait.seconds += span.seconds();
                    if *on != STREAM_WAITS_FOR_EVENT {
                        self.waited.add(*span);
                    }
                }
                Record::Overhead { span, kind: 4 | 5 } => self.loading.add(*span),
                _ => {}
            }
        }
    }

    fn add_kernel(&mut self, record: &Record, name: &str) {
        let Record::Kernel { span, node, device, launched, registers, shared, local, .. } = record else { return };
        if !span.is_known() {
            self.untimed += 1;
            return;
        }
        self.devices.entry(*device).or_default().kernels.add(*span);
        let seconds = span.seconds();
        let sum = self.kernels.entry((*device, name.to_owned())).or_default();
        let total = &mut sum.total;
        total.shortest_s = if total.launches == 0 { seconds } else { total.shortest_s.min(seconds) };
        total.longest_s = total.longest_s.max(seconds);
        total.launches += 1;
        total.graph_launches += u64::from(*node != 0);
        total.seconds += seconds;
        let shape = sum.shapes.entry((*launched, *registers, *shared, *local)).or_default();
        shape.launches += 1;
        shape.seconds += seconds;
    }

    fn add_copy(&mut self, key: (u32, Direction, MemoryKind, MemoryKind), span: Span, bytes: u64) {
        self.devices.entry(key.0).or_default().copies.add(span);
        let sum = self.copies.entry(key).or_default();
        sum.count += 1;
        sum.bytes += bytes;
        sum.seconds += span.seconds();
    }

    fn finish(self, demangled: &dyn Fn(&str) -> String) -> Devices {
        let (waited, loading) = (self.waited.union(), self.loading.union());
        let device = |(index, busy): (u32, Busy)| {
            let kernels = busy.kernels.union();
            let all = timeline::either(&kernels, &busy.copies.union());
            let span_s = match (all.first(), all.last()) {
                (Some(first), Some(last)) => Span { start: first.start, end: last.end }.seconds(),
                _ => 0.0,
            };
            let kernels_s = timeline::seconds(&kernels);
            let copies_s = timeline::seconds(&all) - kernels_s;
            let (idle, stretches) = (timeline::idle(&all, &waited, &loading), timeline::stretches(&all));
            Device { index, span_s, kernels_s, copies_s, idle, stretches }
        };
        let kernel = |((device, symbol), sum): ((u32, String), KernelSum)| {
            let mut shapes: Vec<Shape> = sum.shapes.into_iter().map(|(key, shape)| shaped(key, shape)).collect();
            shapes
                .sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.grid.cmp(&b.grid)).then(a.block.cmp(&b.block)));
            shapes.truncate(SHAPES);
            Kernel { device, name: demangled(&symbol), symbol, shapes, ..sum.total }
        };
        let copies = |((device, direction, from, to), sum)| Copies { device, direction, from, to, ..sum };
        let mut kernels: Vec<Kernel> = self.kernels.into_iter().map(kernel).collect();
        kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.symbol.cmp(&b.symbol)));
        let mut copied: Vec<Copies> = self.copies.into_iter().map(copies).collect();
        copied.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let mut waits: Vec<Wait> =
            self.waits.into_iter().map(|(on, wait)| Wait { on: waited_on(on).into(), ..wait }).collect();
        waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Devices {
            devices: self.devices.into_iter().map(device).collect(),
            kernels,
            copies: copied,
            waits,
            ..Devices::default()
        }
    }
}

fn shaped((launched, registers, shared, local): (Launched, u32, u32, u32), shape: Shape) -> Shape {
    Shape { grid: launched.grid, block: launched.block, registers, shared, local, ..shape }
}

/// CUPTI's number of a copy's direction.
fn direction(kind: u32) -> Direction {
    match kind {
        1 | 3 => Direction::HostToDevice,
        2 | 4 => Direction::DeviceToHost,
        5..=8 => Direction::DeviceToDevice,
        9 => Direction::HostToHost,
        10 => Direction::PeerToPeer,
        _ => Direction::Other,
    }
}

/// CUPTI's number of a kind of memory.
fn memory(kind: u32) -> MemoryKind {
    match kind {
        1 => MemoryKind::Pageable,
        2 => MemoryKind::Pinned,
        3 | 6 => MemoryKind::Device,
        4 => MemoryKind::Array,
        5 | 7 => MemoryKind::Managed,
        _ => MemoryKind::Unknown,
    }
}

/// CUPTI's number of the thing that a thread waited on.
fn waited_on(kind: u32) -> &'static str {
    match kind {
        1 => "event",
        2 => "stream-event",
        3 => "stream",
        4 => "context",
        _ => "other",
    }
}
