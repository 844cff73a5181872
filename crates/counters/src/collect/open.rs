//! Opening a plan's groups on every CPU, each led by a clock that samples.
//!
//! ```text
//!  cpu-clock (samples, reads the group) ─┬─ event ─ event …      on every CPU, inherited by every new thread
//!        its ring buffer ◀───────────────┴─ told to write there, too: what a thread had counted when it ended
//! ```
//!
//! The clock stops while its group is off the PMU, so that it never samples counts that do not advance. The sampler that finds
//! where the time goes is another one and is not touched by it. The clock is armed after that sampler, at its rate. It
//! therefore expires while the sampler takes its sample, and costs no interrupt of its own, until context switches shift the
//! two too far apart.

use std::collections::HashMap;
use std::io;

use super::kernel::GroupKernel;
use super::log::EventSlot;
use super::plan::{Group, Plan, Wanted};
use crate::encode::{Encoding, encode};
use crate::kernel::{Flags, Scope};
use crate::refusal::Refusal;
use rprof_tracee::sampling_clock;

/// PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK.
const CLOCK: Encoding = Encoding { kind: 1, config: 0, config1: 0, config2: 0 };

/// It only counts.
const WITNESS: Flags = Flags {
    inherit: true,
    enable_on_exec: true,
    disabled: true,
    exclude_kernel: true,
    pinned: false,
    sample_period_ns: 0,
    readings: false,
};

/// It leads a group and reads it.
const CLOCK_FLAGS: Flags = Flags { readings: true, ..WITNESS };

/// Bytes of a buffer, and the least that rprof tries if little memory may be locked.
const RING_BYTES: usize = 128 << 10;
const RING_BYTES_LEAST: usize = 8 << 10;

/// A group on one CPU.
pub struct OpenGroup<K: GroupKernel> {
    /// CPU.
    pub cpu: u32,
    /// The clock.
    pub leader: K::Handle,
    /// Its buffer; taken by who drains it.
    pub ring: Option<K::Ring>,
    /// (index into [`Plan::wanted`], event), in the order in which they joined.
    pub members: Vec<(usize, K::Handle)>,
}

/// A group on all its CPUs.
pub struct GroupOnAllCpus<K: GroupKernel> {
    /// Events that are open on all of them, as indices into [`Plan::wanted`].
    pub members: Vec<usize>,
    /// One a CPU.
    pub on_cpus: Vec<OpenGroup<K>>,
    /// Clocks that measure how long the program was on these CPUs. A group that is open on all CPUs measures it itself.
    pub reference_clocks: Vec<K::Handle>,
}

/// The events opened.
pub struct Opened<K: GroupKernel> {
    /// In the order of the plan; those without any member left out.
    pub groups: Vec<GroupOnAllCpus<K>>,
    /// Reasons of the events that are not open, by index into [`Plan::wanted`].
    pub refused: HashMap<usize, Refusal>,
}

/// Why the readings of threads are not to be had at all.
#[derive(Debug)]
pub struct NoReadings(pub io::Error);

/// Opens every group of `plan` on `child` and all that it will create, on the first `cpus` CPUs, to start when it executes
/// a program.
///
/// # Errors
/// The kernel refuses the clock with its readings, or its buffer: then the program's sums may still be available.
pub fn open<K: GroupKernel>(
    kernel: &K,
    plan: &Plan,
    child: i32,
    cpus: u32,
    frequency_hz: f64,
) -> Result<Opened<K>, NoReadings> {
    let mut opened = Opened { groups: Vec::new(), refused: HashMap::new() };
    for group in &plan.groups {
        let mut everywhere =
            GroupOnAllCpus { members: group.members.clone(), on_cpus: Vec::new(), reference_clocks: Vec::new() };
        for cpu in cpus_of(group, cpus) {
            let scope = Scope { pid: child, cpu: cpu as i32 };
            let sample_period_ns = sampling_clock::period_ns(frequency_hz, cpu);
            let clock = Flags { pinned: group.constant, sample_period_ns, ..CLOCK_FLAGS };
            match on_cpu(kernel, plan, &everywhere.members, scope, clock, &mut opened.refused) {
                Ok(open) => {
                    everywhere.on_cpus.push(open);
                    if !group.cpus.is_empty() {
                        everywhere.reference_clocks.push(kernel.open(CLOCK, scope, None, WITNESS).map_err(NoReadings)?);
                    }
                }
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {} // offline
                Err(e) => return Err(NoReadings(e)),
            }
            // An event that one CPU refuses is of no use on the others: a part of a count is a wrong count.
            everywhere.members.retain(|m| !opened.refused.contains_key(m));
        }
        let open = everywhere.members.clone();
        everywhere.on_cpus.iter_mut().for_each(|g| g.members.retain(|(m, _)| open.contains(m)));
        if everywhere.on_cpus.is_empty() {
            opened.refused.extend(open.iter().map(|m| (*m, Refusal::CpuOffline)));
        } else if !open.is_empty() {
            opened.groups.push(everywhere);
        }
    }
    Ok(opened)
}

fn cpus_of(group: &Group, cpus: u32) -> Vec<u32> {
    if group.cpus.is_empty() { (0..cpus).collect() } else { group.cpus.clone() }
}

fn on_cpu<K: GroupKernel>(
    kernel: &K,
    plan: &Plan,
    members: &[usize],
    scope: Scope,
    clock: Flags,
    refused: &mut HashMap<usize, Refusal>,
) -> io::Result<OpenGroup<K>> {
    let member = Flags { inherit: true, exclude_kernel: true, readings: true, ..Flags::default() };
    let leader = kernel.open(CLOCK, scope, None, clock)?;
    let ring = largest_ring(kernel, &leader)?;
    let mut group = OpenGroup { cpu: scope.cpu as u32, leader, ring: Some(ring), members: Vec::new() };
    for index in members {
        let Wanted { event, pmu: Some(pmu), .. } = &plan.wanted[*index] else { continue };
        let opened = match encode(event, pmu) {
            Ok(encoding) => kernel.open(encoding, scope, Some(&group.leader), member).map_err(|e| Refusal::of_open(&e)),
            Err(e) => Err(Refusal::NoEncoding { field: e.field.into() }),
        };
        let opened = opened.and_then(|handle| {
            kernel.redirect(&handle, &group.leader).map_err(|e| Refusal::of_open(&e))?;
            Ok(handle)
        });
        match opened {
            Ok(handle) => group.members.push((*index, handle)),
            Err(refusal) => {
                refused.insert(*index, refusal);
            }
        }
    }
    Ok(group)
}

fn largest_ring<K: GroupKernel>(kernel: &K, leader: &K::Handle) -> io::Result<K::Ring> {
    let mut bytes = RING_BYTES;
    loop {
        match kernel.ring(leader, bytes) {
            Err(_) if bytes > RING_BYTES_LEAST => bytes /= 2,
            other => return other,
        }
    }
}

impl<K: GroupKernel> Opened<K> {
    /// The slot of each event id.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn slots(&self, kernel: &K) -> io::Result<HashMap<u64, EventSlot>> {
        let mut slots = HashMap::new();
        for (group, everywhere) in self.groups.iter().enumerate() {
            for open in &everywhere.on_cpus {
                let slot = |member| EventSlot { group: group as u32, cpu: open.cpu, member };
                slots.insert(kernel.id(&open.leader)?, slot(None));
                for (index, handle) in &open.members {
                    let member = everywhere.members.iter().position(|m| m == index);
                    slots.insert(kernel.id(handle)?, slot(member.map(|m| m as u32)));
                }
            }
        }
        Ok(slots)
    }
}
