//! Which events run together: groups that fit the counters that are free.
//!
//! Events of one group are on the PMU at the same time, so that their ratio needs no scaling. Events that do not fit
//! form further groups, which the kernel multiplexes.

use super::table::{CpuMatch, Event};

/// Counters that are left for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// General-purpose counters.
    pub general: u32,
}

impl Free {
    /// All counters of the CPU less one for the NMI watchdog where it is on.
    pub fn of(cpu: &CpuMatch, nmi_watchdog: bool) -> Free {
        Free { general: cpu.general_counters.saturating_sub(nmi_watchdog.into()) }
    }
}

/// Whether the NMI watchdog is on (it takes one counter). Unreadable: taken as on.
pub fn nmi_watchdog(proc_root: &std::path::Path) -> bool {
    std::fs::read_to_string(proc_root.join("sys/kernel/nmi_watchdog")).map_or(true, |t| t.trim() != "0")
}

/// Packs `events` into groups, in order, first fit. Returns indices into `events`; the second part holds the events
/// that fit in no group at all.
pub fn plan(events: &[Event], free: Free) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut impossible = Vec::new();
    for i in 0..events.len() {
        if !fits(events, &[i], free) {
            impossible.push(i);
            continue;
        }
        let with = |group: &Vec<usize>| group.iter().copied().chain([i]).collect::<Vec<_>>();
        match groups.iter_mut().find(|g| fits(events, &with(g), free)) {
            Some(group) => group.push(i),
            None => groups.push(vec![i]),
        }
    }
    (groups, impossible)
}

/// Whether the events can be on the PMU at once: every one gets a counter that it is allowed on (an augmenting-path
/// matching), and events that take two get a second one anywhere.
fn fits(events: &[Event], group: &[usize], free: Free) -> bool {
    let needed: u32 = group.iter().map(|i| events[*i].takes).sum();
    if needed > free.general {
        return false;
    }
    let mut holder: Vec<Option<usize>> = vec![None; free.general as usize];
    group.iter().all(|i| seat(events, *i, &mut holder, &mut vec![false; free.general as usize]))
}

fn seat(events: &[Event], event: usize, holder: &mut [Option<usize>], visited: &mut [bool]) -> bool {
    let allowed = |c: usize| events[event].counters.is_empty() || events[event].counters.contains(&(c as u32));
    for counter in 0..holder.len() {
        if !allowed(counter) || visited[counter] {
            continue;
        }
        visited[counter] = true;
        let can_move = match holder[counter] {
            None => true,
            Some(other) => seat(events, other, holder, visited),
        };
        if can_move {
            holder[counter] = Some(event);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::table::{Role, all, for_cpu};

    fn event(counters: &[u32], takes: u32) -> Event {
        let tables = all().unwrap();
        let mut event = tables[0].events[0].clone();
        event.counters = counters.to_vec();
        event.takes = takes;
        event
    }

    #[test]
    fn restricted_events_find_their_counter() {
        let events = [event(&[], 1), event(&[2], 1), event(&[2], 1), event(&[0, 2], 1)];
        let (groups, impossible) = plan(&events, Free { general: 3 });
        assert_eq!(groups, [vec![0, 1, 3], vec![2]], "the free one moves to counter 1");
        assert!(impossible.is_empty());
    }

    #[test]
    fn paired_events_take_two() {
        let events = [event(&[], 2), event(&[], 2), event(&[], 2), event(&[], 2)];
        let (groups, _) = plan(&events, Free { general: 6 });
        assert_eq!(groups, [vec![0, 1, 2], vec![3]], "at most three large-increment events at once");
        assert_eq!(plan(&events, Free { general: 1 }).1, [0, 1, 2, 3]);
    }

    #[test]
    fn skylake_flops_do_not_fit_beside_the_watchdog() {
        let table = for_cpu(&all().unwrap(), "GenuineIntel", 6, 0x55).unwrap();
        let flops: Vec<Event> = table.events.into_iter().filter(|e| e.role == Role::Flops && e.headline).collect();
        assert_eq!(flops.len(), 8);
        assert_eq!(plan(&flops, Free::of(&table.cpu, true)).0.len(), 3);
        assert_eq!(plan(&flops, Free::of(&table.cpu, false)).0.len(), 2);
    }
}
