//! The events that run together: groups that fit the free counters.
//!
//! Events of one group are on the PMU at the same time, so that their ratio needs no scaling. Events that do not fit form
//! further groups, which the kernel multiplexes. If the FLOPs fit together, they stay on the PMU all the time and only the
//! others take turns on the counters beside them: a function's FLOPs are then no extrapolation.
//!
//! ```text
//! counters   0 1 │ 2 3 4 5                 0 1 2 3 4 5
//! time  │    F F │ a b c d        or       F F F F a b     where the FLOPs do not fit, or would leave nothing
//!       ▼    F F │ e f g h                 F F F c d e
//! ```

use super::table::{CpuMatch, Event, Role};

/// Counters that are left for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// General-purpose counters.
    pub general: u32,
}

impl Free {
    /// All counters of the CPU, less one for the NMI watchdog if it is on.
    pub fn of(cpu: &CpuMatch, nmi_watchdog: bool) -> Free {
        Free { general: cpu.general_counters.saturating_sub(nmi_watchdog.into()) }
    }
}

/// File below the root of proc in which the kernel says whether the NMI watchdog is on.
pub const NMI_WATCHDOG: &str = "sys/kernel/nmi_watchdog";

/// Whether the NMI watchdog is on (it takes one counter). Unreadable: taken as on.
pub fn nmi_watchdog(proc_root: &std::path::Path) -> bool {
    std::fs::read_to_string(proc_root.join(NMI_WATCHDOG)).map_or(true, |t| t.trim() != "0")
}

/// The events that run together, as indices into the events asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Whether the first group is on the PMU all the time.
    pub constant: bool,
    /// Groups; all but a constant one take turns.
    pub groups: Vec<Vec<usize>>,
    /// Events that fit in no group.
    pub impossible: Vec<usize>,
}

/// Divides `events` among the counters. The FLOPs are on all the time if all of them fit and each of the others still fits
/// beside them; else all events take turns.
pub fn schedule(events: &[Event], free: Free) -> Schedule {
    let (groups, impossible) = plan(events, free);
    let in_turns = Schedule { constant: false, groups, impossible };
    let (flops, others): (Vec<usize>, Vec<usize>) = (0..events.len()).partition(|i| events[*i].role == Role::Flops);
    if in_turns.groups.len() < 2 || flops.is_empty() || !fits(events, &flops, free) {
        return in_turns;
    }
    let taken: u32 = flops.iter().map(|i| events[*i].takes).sum();
    let beside: Vec<Event> = others.iter().map(|i| events[*i].clone()).collect();
    let (turns, left_out) = plan(&beside, Free { general: free.general - taken });
    if left_out.len() > in_turns.impossible.len() {
        return in_turns;
    }
    let named = |group: Vec<usize>| group.into_iter().map(|i| others[i]).collect();
    let groups = std::iter::once(flops).chain(turns.into_iter().map(named)).collect();
    Schedule { constant: true, groups, impossible: in_turns.impossible }
}

/// How well a schedule of them would count the FLOPs among `events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    /// They do not fit on the counters together.
    Apart,
    /// They are on the PMU together, in turns with the others.
    Together,
    /// They are on the PMU all the time.
    AllTheTime,
}

fn hold(events: &[Event], free: Free) -> Hold {
    let flops: Vec<usize> = (0..events.len()).filter(|i| events[*i].role == Role::Flops).collect();
    let Schedule { constant, groups, .. } = schedule(events, free);
    match (constant || groups.len() < 2, fits(events, &flops, free)) {
        (_, false) => Hold::Apart,
        (true, true) => Hold::AllTheTime,
        (false, true) => Hold::Together,
    }
}

/// Whether `merged`, in which fewer events count the same FLOPs as in `full`, keeps these on the PMU better: then the loss of
/// the precisions is worth it.
pub fn is_better_merged(full: &[Event], merged: &[Event], free: Free) -> bool {
    hold(merged, free) > hold(full, free)
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

/// Whether the events can be on the PMU at once: every one gets a counter that it may use (an augmenting-path matching), and
/// events that take two get a second one anywhere.
fn fits(events: &[Event], group: &[usize], free: Free) -> bool {
    let needed: u32 = group.iter().map(|i| events[*i].takes).sum();
    if needed > free.general {
        return false;
    }
    let mut holder: Vec<Option<usize>> = vec![None; free.general as usize];
    group.iter().all(|i| assign(events, *i, &mut holder, &mut vec![false; free.general as usize]))
}

fn assign(events: &[Event], event: usize, holder: &mut [Option<usize>], visited: &mut [bool]) -> bool {
    let allowed = |c: usize| events[event].counters.is_empty() || events[event].counters.contains(&(c as u32));
    for counter in 0..holder.len() {
        if !allowed(counter) || visited[counter] {
            continue;
        }
        visited[counter] = true;
        let can_move = match holder[counter] {
            None => true,
            Some(other) => assign(events, other, holder, visited),
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
    use crate::table::Role;
    use crate::tables::{all, for_cpu};

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
    fn flops_that_fit_stay_while_the_others_take_turns() {
        let headline = |family, model| -> Vec<Event> {
            let vendor = if family == 6 { "GenuineIntel" } else { "AuthenticAMD" };
            let table = for_cpu(&all().unwrap(), vendor, family, model).unwrap();
            table.events.into_iter().filter(|e| e.headline).collect()
        };
        // Zen 4: one FLOP event, which takes two of five counters.
        let zen4 = headline(0x19, 0x11);
        let found = schedule(&zen4, Free { general: 5 });
        assert!(found.constant && found.impossible.is_empty(), "{found:?}");
        assert!(found.groups[0].iter().all(|i| zen4[*i].role == Role::Flops));
        assert!(found.groups.len() > 1 && found.groups[1..].iter().all(|g| g.len() <= 3), "{found:?}");
        let seen: usize = found.groups.iter().map(Vec::len).sum();
        assert_eq!(seen, zen4.len(), "every event once");
        // Skylake: eight events of FLOPs on four counters take turns.
        assert!(!schedule(&headline(6, 0x55), Free { general: 4 }).constant);
        // Ice Lake: eight on eight would leave the others nothing.
        assert!(!schedule(&headline(6, 0x6a), Free { general: 8 }).constant);
        // With room for all events, none takes turns.
        let few = &zen4[..3];
        assert!(!schedule(few, Free { general: 6 }).constant);
    }

    #[test]
    fn flops_are_merged_where_it_keeps_them_on_the_pmu() {
        let tables = all().unwrap();
        let better = |model, general| {
            let table = for_cpu(&tables, "GenuineIntel", 6, model).unwrap();
            let events = |events: Vec<&Event>| events.into_iter().cloned().collect::<Vec<_>>();
            let (full, merged) = (events(table.asked_for().collect()), events(table.merged().unwrap()));
            let free = Free { general };
            (is_better_merged(&full, &merged, free), hold(&full, free), hold(&merged, free))
        };
        // Broadwell: four events on four counters instead of six.
        assert_eq!(better(0x4f, 4), (true, Hold::Apart, Hold::Together));
        assert_eq!(better(0x4f, 3), (false, Hold::Apart, Hold::Apart), "the watchdog has the fourth");
        // Skylake: five do not fit on four either.
        assert_eq!(better(0x55, 4), (false, Hold::Apart, Hold::Apart));
        // Ice Lake: five on eight leave three for the others; eight would leave none.
        assert_eq!(better(0x6a, 8), (true, Hold::Together, Hold::AllTheTime));
        assert_eq!(better(0x6a, 7), (true, Hold::Apart, Hold::AllTheTime));
        // Golden Cove: six leave room enough.
        assert_eq!(better(0x97, 8), (false, Hold::AllTheTime, Hold::AllTheTime));
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
