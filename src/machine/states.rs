//! States of the memory that earlier runs met: on a shared host DRAM and the last cache change between a few, for seconds to
//! minutes each, with where the hypervisor puts the CPUs and what the neighbours do.
//!
//! ```text
//! CPUs, dram.read ─ as cached? ──────────────────▶ nothing to do
//!                 ─ as in a kept state? ─────────▶ its ceilings, nothing measured
//!                 ─ else ─▶ what is cached is kept as a state, the memory is measured again
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::doubt;
use super::lab::moments::another_best;
use super::lab::placed;
use super::lab::{Steadiness, is_of_given_pages};
use crate::profile::machine::{Ceiling, Machine, ON_SMALL_PAGES, bring_small_pages_along};
use crate::profile::placement::{self, CoreToCore, Placed};

/// Reading differs by less than this between two moments of one state.
const SAME: f64 = 0.12;

/// States that are kept, and for how long: neighbours of another day are others.
const KEPT: usize = 4;
const AGE: Duration = Duration::from_secs(24 * 3600);

/// A ceiling that differs by more than this between states says so.
const WORTH_TELLING: f64 = 0.10;

/// How the reason of a ceiling begins of which another state shows more.
const ELSEWHERE: &str = "in another state of the memory";

/// The ceilings that neighbours are part of, in one state of the memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Where the CPUs were.
    #[serde(default)]
    pub core_to_core: Option<CoreToCore>,
    /// `dram.read` at most threads, in byte/s, by which it is recognised among those of one placement.
    pub read: f64,
    /// When it was met last, in seconds since 1970.
    pub seen_s: u64,
    /// Its ceilings.
    pub ceilings: Vec<Ceiling>,
}

/// Whether neighbours are part of a ceiling.
pub fn is_shared(ceiling: &Ceiling) -> bool {
    Steadiness::of(&ceiling.id) == Steadiness::Shared
}

/// Whether a ceiling has a value, of the state that its list is of.
fn is_of_now(ceiling: &Ceiling) -> bool {
    ceiling.value.is_some() && !doubt::is_earlier(ceiling) && !placed::is_elsewhere(ceiling)
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Whether both are readings of one placement of the CPUs, as far as there are readings.
fn placed_alike(a: Option<&CoreToCore>, b: Option<&CoreToCore>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a.is_same(b))
}

/// How the memory looks now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Looks {
    /// Where the CPUs are, if that is known.
    pub core_to_core: Option<CoreToCore>,
    /// What reading from DRAM at most threads gives, in byte/s; `None` where there was no time to look.
    pub read: Option<f64>,
}

impl Looks {
    /// Whether the CPUs are placed otherwise than while `machine` was measured.
    pub fn has_moved(&self, machine: &Machine) -> bool {
        !placed_alike(machine.core_to_core.as_ref(), self.core_to_core.as_ref())
    }
}

/// Leaves the state that `machine` is in for the one that `looks` so: the old one is kept in `states`, and where the new one
/// is among them its ceilings are taken over. Whether it was.
pub fn change(states: &mut Vec<State>, machine: &mut Machine, looks: &Looks, seen_s: u64) -> bool {
    keep(states, machine, seen_s);
    let here = looks.core_to_core.as_ref();
    if here.is_some() {
        machine.core_to_core = looks.core_to_core.clone();
    }
    let apart = |state: &State| looks.read.map_or(0.0, |read| (state.read / read - 1.0).abs());
    let alike = |state: &State| placed_alike(state.core_to_core.as_ref(), here) && apart(state) <= SAME;
    let known = states.iter_mut().filter(|s| alike(s)).min_by(|a, b| apart(a).total_cmp(&apart(b)));
    let Some(known) = known else { return false };
    known.seen_s = seen_s;
    let before = machine.ceilings.clone();
    for ceiling in &known.ceilings {
        match of(&mut machine.ceilings, ceiling) {
            Some(old) => *old = ceiling.clone(),
            None => machine.ceilings.push(ceiling.clone()),
        }
    }
    bring_small_pages_along(&mut machine.ceilings, &before);
    true
}

/// What a fresh measurement and `states` say together: of each ceiling the best value that was settled, or that came back, with
/// the CPUs where they were. The fresh one is kept as a state of its own, and so is each of `others`, in which it met the CPUs
/// placed otherwise.
pub fn remember(states: &mut Vec<State>, machine: &mut Machine, others: Vec<Placed>, seen_s: u64) {
    let before = states.clone();
    keep_placed(states, others, seen_s);
    keep(states, machine, seen_s);
    let recent = before.iter().filter(|s| seen_s.saturating_sub(s.seen_s) < AGE.as_secs());
    let (here, mut alone) = (machine.core_to_core.clone(), machine.ceilings.clone());
    for known in recent.flat_map(|s| comparable(s, here.as_ref())) {
        let Some(fresh) = of(&mut machine.ceilings, known).filter(|c| c.value.is_some()) else { continue };
        let gain = gain(fresh, known);
        let comes_again = gain <= Steadiness::Shared.state();
        let by_pages = is_of_given_pages(&known.id);
        if known.id.ends_with(ON_SMALL_PAGES) && (comes_again || (known.settled && !by_pages)) {
            // As good as in any state, as those on huge pages are: they need not follow these.
            alone.retain(|c| !c.is_same(known));
        }
        if by_pages {
            // What pages the kernel had at hand is no state of the memory.
            continue;
        }
        if gain.abs() <= Steadiness::Shared.state() {
            came_back(fresh, known, gain);
        } else if gain > 0.0 && known.settled {
            let (now, unit) = (fresh.value.unwrap_or(0.0), &fresh.unit);
            let told = (gain > WORTH_TELLING).then(|| format!("{ELSEWHERE}; now {now:.3e} {unit}"));
            // Another name stays one.
            let reason = if doubt::is_alias(known) { known.reason.clone() } else { told };
            *fresh = Ceiling { reason, ..known.clone() };
        }
    }
    bring_small_pages_along(&mut machine.ceilings, &alone);
}

/// Keeps each of `others` as a state.
pub fn keep_placed(states: &mut Vec<State>, others: Vec<Placed>, seen_s: u64) {
    for Placed { core_to_core, ceilings } in others {
        keep(states, &Machine { ceilings, core_to_core: Some(core_to_core), ..Machine::default() }, seen_s);
    }
}

/// `fresh` shows the state that `known` was of, `gain` from it: the better value stands, and where neither was settled by
/// itself, it is if two moments so close promise an interval that is narrow enough.
fn came_back(fresh: &mut Ceiling, known: &Ceiling, gain: f64) {
    let of_both = [&*fresh, known].into_iter().filter(|c| c.settled).filter_map(|c| c.spread).reduce(f64::min);
    let spread = of_both.unwrap_or(0.0).max(another_best(2) * gain.abs());
    let reason = match (doubt::is_alias(fresh), fresh.settled) {
        (true, _) | (_, true) => fresh.reason.clone(),
        _ => Some("as an earlier run found it; at other moments less".into()),
    };
    let settled = fresh.settled || known.settled || spread <= Steadiness::Shared.tolerance();
    if !settled {
        return;
    }
    // Where one is settled, the other moves its interval no further than a settled one's may be.
    let spread = spread.min(Steadiness::Shared.tolerance());
    let best = if gain > 0.0 { known } else { &*fresh };
    let (value, clock_hz, resting_hz) = (best.value, best.clock_hz, best.resting_hz);
    *fresh = Ceiling { value, clock_hz, resting_hz, spread: Some(spread), settled, reason, ..fresh.clone() };
}

/// Widens the interval of each ceiling that is better in one of `states`, so that it covers that, and says so.
pub fn tell(states: &[State], machine: &mut Machine) {
    let here = machine.core_to_core.clone();
    for known in states.iter().flat_map(|s| comparable(s, here.as_ref())).filter(|c| c.settled) {
        let Some(ceiling) = of(&mut machine.ceilings, known) else { continue };
        if gain(ceiling, known) <= WORTH_TELLING {
            continue;
        }
        let (Some(value), Some(best)) = (ceiling.value, known.value) else { continue };
        let (apart, spread) = ((best / value - 1.0).abs(), ceiling.spread.unwrap_or(0.0));
        (ceiling.settled, ceiling.spread) = (false, Some(spread.max(apart)));
        if spread < apart && !doubt::is_alias(ceiling) {
            ceiling.reason = Some(format!("{ELSEWHERE} {best:.3e} {}", ceiling.unit));
        }
    }
}

/// Ceilings of `state` that say something of those with the CPUs at `here`.
fn comparable<'s>(state: &'s State, here: Option<&'s CoreToCore>) -> impl Iterator<Item = &'s Ceiling> {
    let alike = placed_alike(state.core_to_core.as_ref(), here);
    state.ceilings.iter().filter(move |c| alike || !placement::depends(c))
}

/// The ceilings that depend on the placement of the CPUs, in that of `machine` and in each other one of `states`; nothing where
/// only one was met. Of several states of one placement the best.
pub fn placements(states: &[State], machine: &Machine) -> Vec<Placed> {
    let of = |core_to_core: &CoreToCore, ceilings: &[Ceiling]| {
        let ceilings = ceilings.iter().filter(|c| placement::depends(c) && is_of_now(c)).cloned().collect();
        Placed { core_to_core: core_to_core.clone(), ceilings }
    };
    let Some(here) = &machine.core_to_core else { return Vec::new() };
    let mut placements = vec![of(here, &machine.ceilings)];
    let mut others: Vec<&State> = states.iter().collect();
    others.sort_by(|a, b| b.read.total_cmp(&a.read));
    for state in others {
        let Some(there) = &state.core_to_core else { continue };
        if !placements.iter().any(|p| p.core_to_core.is_same(there)) {
            placements.push(of(there, &state.ceilings));
        }
    }
    if placements.len() > 1 { placements } else { Vec::new() }
}

/// Keeps what `machine` shows now among `states`, in place of the same state or of what is oldest.
fn keep(states: &mut Vec<State>, machine: &Machine, seen_s: u64) {
    let all = machine.ceilings.iter().filter(|c| c.id == "dram.read");
    let Some(read) = all.max_by_key(|c| c.threads).and_then(|c| c.value) else { return };
    let ceilings = machine.ceilings.iter().filter(|c| is_shared(c) && is_of_now(c)).cloned().collect();
    let core_to_core = machine.core_to_core.clone();
    let is_it =
        |s: &State| placed_alike(s.core_to_core.as_ref(), core_to_core.as_ref()) && (s.read / read - 1.0).abs() <= SAME;
    states.retain(|s| !is_it(s) && seen_s.saturating_sub(s.seen_s) < AGE.as_secs());
    states.sort_by_key(|s| std::cmp::Reverse(s.seen_s));
    states.truncate(KEPT - 1);
    states.push(State { core_to_core, read, seen_s, ceilings });
}

/// The entry of `ceilings` for the same id and threads as `like`.
fn of<'a>(ceilings: &'a mut [Ceiling], like: &Ceiling) -> Option<&'a mut Ceiling> {
    ceilings.iter_mut().find(|c| c.is_same(like))
}

/// By how much `b` is better than `a`, relative to `a`; 0 where one has no value.
fn gain(a: &Ceiling, b: &Ceiling) -> f64 {
    match (a.value, b.value) {
        (Some(a), Some(b)) if a <= 0.0 || b <= 0.0 => 0.0,
        (Some(x), Some(y)) if a.unit == "s" => x / y - 1.0,
        (Some(x), Some(y)) => y / x - 1.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(id: &str, value: f64) -> Ceiling {
        let unit = if id.starts_with("lat") { "s" } else { "byte/s" };
        Ceiling { clock_hz: Some(1e9), spread: Some(0.03), ..Ceiling::settled(id, value, unit, 2) }
    }

    fn machine(read: f64, copy: f64, latency: f64) -> Machine {
        let mut alias = ceiling("dram.noprefetch", read);
        alias.reason = Some(doubt::alias_of("dram.read"));
        let ceilings = vec![
            ceiling("dram.read", read),
            ceiling("dram.copy", copy),
            ceiling("lat.dram", latency),
            ceiling("dp.fma", 7.0),
            alias,
        ];
        Machine { ceilings, ..Machine::default() }
    }

    fn reads(read: f64) -> Looks {
        Looks { read: Some(read), ..Looks::default() }
    }

    fn by<'a>(machine: &'a Machine, id: &str) -> &'a Ceiling {
        machine.ceilings.iter().find(|c| c.id == id).expect("an entry")
    }

    #[test]
    fn a_state_that_was_met_before_is_taken_over_without_measuring() {
        let (mut states, mut host) = (Vec::new(), machine(70e9, 80e9, 1e-7));
        assert!(!change(&mut states, &mut host, &reads(37e9), 100), "the first time it is not known");
        host = machine(37e9, 40e9, 2e-7);
        assert!(change(&mut states, &mut host, &reads(69e9), 200));
        assert_eq!((host.value("dram.copy", 2), host.value("lat.dram", 2)), (Some(80e9), Some(1e-7)));
        assert!(change(&mut states, &mut host, &reads(38e9), 300));
        assert_eq!((host.value("dram.copy", 2), host.value("dp.fma", 2)), (Some(40e9), Some(7.0)));
        assert!(!change(&mut states, &mut host, &reads(50e9), 400), "between two states is neither");
        assert_eq!(states.len(), 2);
    }

    #[test]
    fn states_of_another_day_and_too_many_are_dropped() {
        let (mut states, day) = (Vec::new(), AGE.as_secs());
        for (n, read) in [10e9, 20e9, 30e9, 40e9, 50e9, 60e9].into_iter().enumerate() {
            change(&mut states, &mut machine(read, 1.0, 1.0), &reads(1.0), n as u64);
        }
        assert_eq!(states.len(), KEPT);
        assert!(states.iter().all(|s| s.read >= 30e9));
        change(&mut states, &mut machine(80e9, 1.0, 1.0), &reads(1.0), 2 * day);
        assert_eq!(states.len(), 1);
    }

    #[test]
    fn the_interval_of_the_worse_state_covers_the_better_one() {
        let (mut states, mut host) = (Vec::new(), machine(70e9, 42e9, 1e-7));
        change(&mut states, &mut host, &reads(37e9), 100);
        host = machine(37e9, 40e9, 2e-7);
        tell(&states, &mut host);
        let reaches =
            |id: &str| by(&host, id).value.expect("a value") * (1.0 + by(&host, id).spread.expect("a spread"));
        assert!(reaches("dram.read") >= 69.9e9 && !by(&host, "dram.read").settled);
        assert!(by(&host, "lat.dram").spread >= Some(0.5) && !by(&host, "lat.dram").settled);
        assert!(by(&host, "dram.read").reason.as_deref().is_some_and(|r| r.starts_with(ELSEWHERE)));
        assert!(doubt::is_alias(by(&host, "dram.noprefetch")));
        // Five per cent are not another state; the core has none.
        assert!(by(&host, "dram.copy").settled && by(&host, "dp.fma").settled);
    }

    #[test]
    fn a_fresh_measurement_in_a_worse_state_does_not_lower_the_ceiling_and_is_kept() {
        let (mut states, mut fresh) = (Vec::new(), machine(70e9, 80e9, 1e-7));
        remember(&mut states, &mut fresh, Vec::new(), 100);
        assert_eq!((states.len(), by(&fresh, "dram.read").reason.as_deref()), (1, None));
        let mut worse = machine(37e9, 82e9, 2e-7);
        remember(&mut states, &mut worse, Vec::new(), 200);
        assert_eq!((worse.value("dram.read", 2), worse.value("lat.dram", 2)), (Some(70e9), Some(1e-7)));
        assert_eq!(worse.value("dram.copy", 2), Some(82e9));
        assert!(by(&worse, "dram.read").reason.as_deref().is_some_and(|r| r.contains("now 3.7")));
        // A run that finds the memory like that takes it over.
        assert!(change(&mut states, &mut worse, &reads(37e9), 300));
        assert_eq!(worse.value("dram.read", 2), Some(37e9));
        // What did not settle at once, but came back, is settled; what differs by more is not.
        let mut unsettled = machine(70e9, 80e9, 1e-7);
        unsettled.ceilings.iter_mut().for_each(|c| (c.settled, c.spread) = (false, Some(0.6)));
        let (mut states, mut again) = (Vec::new(), unsettled.clone());
        remember(&mut states, &mut unsettled, Vec::new(), 100);
        (again.ceilings[0].value, again.ceilings[1].value) = (Some(69e9), Some(75.5e9));
        remember(&mut states, &mut again, Vec::new(), 200);
        assert!(by(&again, "dram.read").settled && again.value("dram.read", 2) == Some(70e9), "{again:?}");
        assert!(by(&again, "dram.read").spread.is_some_and(|s| s > 0.028 && s < 0.03), "twice 1.4 %");
        assert!(!by(&again, "dram.copy").settled, "5.6 % away is another state");
        // What did not settle is no ceiling of another state.
        let mut doubted = machine(90e9, 90e9, 1e-7);
        doubted.ceilings.iter_mut().for_each(|c| c.settled = false);
        let (mut states, mut fresh) = (Vec::new(), machine(70e9, 80e9, 1e-7));
        remember(&mut states, &mut doubted, Vec::new(), 100);
        remember(&mut states, &mut fresh, Vec::new(), 200);
        assert_eq!(fresh.value("dram.read", 2), Some(70e9));
    }

    #[test]
    fn small_pages_of_a_slow_moment_do_not_stand_beside_huge_ones_of_a_better_state() {
        let with_small = |read: f64, small: f64| {
            let mut host = machine(read, read, 1e-7);
            host.ceilings.extend([ceiling("dram.read.4k", small), ceiling("dram.random.4k", small)]);
            host
        };
        let (mut states, mut better) = (Vec::new(), with_small(70e9, 60e9));
        remember(&mut states, &mut better, Vec::new(), 100);
        let mut slow = with_small(35e9, 30e9);
        remember(&mut states, &mut slow, Vec::new(), 200);
        assert_eq!(slow.value("dram.read.4k", 2), Some(60e9), "in proportion");
        assert!(!by(&slow, "dram.read.4k").settled);
        assert_eq!((slow.value("dram.random.4k", 2), by(&slow, "dram.random.4k").settled), (Some(60e9), true), "known");
        let mut alike = with_small(71e9, 59e9);
        remember(&mut states, &mut alike, Vec::new(), 300);
        assert_eq!((alike.value("dram.read.4k", 2), by(&alike, "dram.read.4k").settled), (Some(59e9), true));
    }

    #[test]
    fn states_of_another_placement_of_the_cpus_say_nothing_of_this_one() {
        let at = |ns: f64| CoreToCore::of(vec![ns * 1e-9]);
        let placed = |read, ns| Machine { core_to_core: Some(at(ns)), ..machine(read, 2.0 * read, 1e-7) };
        let (mut states, mut near) = (Vec::new(), placed(38e9, 45.0));
        let far = Placed { core_to_core: at(205.0), ceilings: placed(70e9, 205.0).ceilings };
        remember(&mut states, &mut near, vec![far], 100);
        assert_eq!((near.value("dram.read", 2), states.len()), (Some(38e9), 2));
        tell(&states, &mut near);
        assert!(by(&near, "dram.read").settled, "where the CPUs are now, it is this");
        let both = placements(&states, &near);
        let reads: Vec<_> = both.iter().map(|p| p.value("dram.read", 2)).collect();
        assert_eq!(reads, [Some(38e9), Some(70e9)]);
        assert!(both.iter().all(|p| p.value("dp.fma", 2).is_none()), "the core does not depend on it");
        // The CPUs are moved: its ceilings are known, without a look at the memory.
        let looks = Looks { core_to_core: Some(at(198.0)), read: None };
        assert!(change(&mut states, &mut near, &looks, 200));
        assert_eq!((near.value("dram.read", 2), near.core_to_core.clone()), (Some(70e9), Some(at(198.0))));
        // As far as another pair of CPUs: nothing is known.
        let unknown = Looks { core_to_core: Some(at(600.0)), read: Some(70e9) };
        assert!(!change(&mut states, &mut near, &unknown, 300));
        // One placement alone is no choice.
        assert!(placements(&[], &near).is_empty());
    }
}
