//! The program's sums alone, for kernels that do not report the readings of inherited events: one event each, on any CPU.

use super::kernel::GroupKernel;
use super::plan::Plan;
use super::totals::total_of;
use crate::group::Free;
use crate::kernel::{Flags, Scope};
use crate::open::{self, Opened};
use rprof_profile::evidence::counters::CounterEvent;

/// Keeps a group whole if its members fit together already.
const AS_PLANNED: Free = Free { general: 64 };

/// Open events, with the index in the plan of each group's members.
pub struct Sums<K: GroupKernel> {
    groups: Vec<(Vec<usize>, Opened<K::Handle>)>,
}

impl<K: GroupKernel> Sums<K> {
    /// Arms the plan's events on `child`.
    pub fn arm(kernel: &K, plan: &Plan, child: i32) -> Sums<K> {
        let flags =
            Flags { inherit: true, enable_on_exec: true, disabled: true, exclude_kernel: true, ..Flags::default() };
        let scope = Scope { pid: child, cpu: -1 };
        let open = |members: &Vec<usize>, constant: bool| {
            let flags = Flags { pinned: constant, ..flags };
            let events: Vec<_> = members.iter().map(|m| plan.wanted[*m].event.clone()).collect();
            let pmu = members.first().and_then(|m| plan.wanted[*m].pmu.as_ref());
            (members.clone(), open::open(kernel, pmu.as_slice(), &events, AS_PLANNED, scope, flags))
        };
        let groups = plan.groups.iter().map(|g| open(&g.members, g.constant)).collect();
        Sums { groups }
    }

    /// Reads everything into `events`, which are those of the plan.
    pub fn finish(self, kernel: &K, events: &mut [CounterEvent]) {
        for (members, opened) in self.groups {
            for measured in opened.read(kernel) {
                let event = &mut events[members[measured.event]];
                event.total = measured.count.map(total_of).map_err(|refusal| refusal.to_string());
            }
        }
    }
}
