//! What the bench records: measured, derived and missing ceilings, one for each id and thread count.

use std::time::Instant;

use super::{Effort, Lab, Label, Steadiness, Verdict, is_of_given_pages, placed};
use crate::machine::bench::timing::{Rate, SAME_CLOCK};
use crate::machine::doubt::{self, ALIAS};
use crate::profile::clock;
use crate::profile::machine::Ceiling;
use crate::profile::placement;

/// What the core does is not settled where the clock that it did it at is known no better than this.
const UNSTEADY: f64 = 0.005;

impl Lab {
    /// Records a measured rate.
    pub fn record(&mut self, label: Label, rate: Rate) {
        let value = rate.best;
        self.measured(label, value, rate);
    }

    /// Records the time of one event whose measured rate (events a second) is `rate`.
    pub fn record_time(&mut self, label: Label, rate: Rate) {
        let value = 1.0 / rate.best;
        self.measured(label, value, rate);
    }

    fn measured(&mut self, label: Label, value: f64, rate: Rate) {
        let reason = unsettled_because(&rate, Steadiness::of(&label.id));
        let fresh = Ceiling {
            value: Some(value),
            spread: Some(rate.spread),
            settled: reason.is_none(),
            reason,
            ..clocked(label, &rate)
        };
        let of_placement = placement::depends(&fresh) && self.watch.knows_placements();
        let placement = rate.placement.filter(|_| of_placement);
        let is_main = placement.is_some_and(|p| self.by_placement.is_main(p));
        let steadiness = Steadiness::of(&fresh.id);
        let has_doubt = !self.tells_a_moment(&rate, steadiness);
        if of_placement && !is_main && (has_doubt || placement.is_none()) {
            // Doubtful, or of no placement: better than nothing.
            if self.found(&fresh.id, fresh.threads as usize).is_none() {
                self.replace(placed::elsewhere(fresh));
            }
            return;
        }
        if has_doubt {
            // A mean is not replaced by one buffer that was better.
            let stays = is_of_given_pages(&fresh.id) && self.found(&fresh.id, fresh.threads as usize).is_some();
            if !stays {
                self.keep_better(fresh);
            }
            return;
        }
        let key = (fresh.id.clone(), fresh.threads, placement);
        let compared = steadiness.compared(rate.best, rate.clock_hz);
        self.moments.note(key.clone(), Some(Instant::now()), (compared, rate.each), fresh.clone());
        let verdict = self.moments.verdict(&key);
        match (placement, verdict) {
            (Some(placement), verdict) => self.keep_placed(fresh, verdict, placement),
            (None, None) if steadiness != Steadiness::Shared => self.keep_better(fresh),
            (None, verdict) => {
                let old = self.slot(&fresh.id, fresh.threads).map(|old| old.clone());
                self.replace(standing(old, fresh, verdict));
            }
        }
    }

    /// Whether `rate` says what there was to be had at its moment.
    pub(super) fn tells_a_moment(&self, rate: &Rate, steadiness: Steadiness) -> bool {
        let unsteady = steadiness != Steadiness::Shared && rate.clock_doubt > UNSTEADY;
        // A quick measurement has no time for another moment of what a core does by itself.
        let at_once = steadiness != Steadiness::Shared && self.effort == Effort::Quick;
        !(rate.disturbed || rate.shared || unsteady || at_once)
    }

    /// Keeps what `placement` shows: in the list if that is the main one, or if there is nothing else.
    fn keep_placed(&mut self, fresh: Ceiling, verdict: Option<(Verdict, Ceiling)>, placement: usize) {
        let listed = self.slot(&fresh.id, fresh.threads).map(|old| old.clone()).filter(|c| c.value.is_some());
        let is_main = self.by_placement.is_main(placement);
        let old = match &listed {
            Some(listed) if is_main && !placed::is_elsewhere(listed) => Some(listed.clone()),
            _ => self.by_placement.found(placement, &fresh).cloned(),
        };
        let best = standing(old, fresh, verdict);
        self.by_placement.keep(placement, best.clone());
        if is_main {
            self.replace(best);
        } else if listed.as_ref().is_none_or(placed::is_elsewhere) {
            self.replace(placed::elsewhere(best));
        }
    }

    /// Has streams on pages that the kernel handed out stand where all moments say: when one was measured last, those of the others, by
    /// which its interval is told, were not all known.
    pub(super) fn judge_given_pages(&mut self) {
        for key in self.moments.of_given_pages() {
            let Some((verdict, stands)) = self.moments.verdict(&key) else { continue };
            let stands = doubt::by_moments(stands, verdict);
            let is_listed = key.2.is_none_or(|placement| self.by_placement.is_main(placement));
            if let Some(placement) = key.2 {
                self.by_placement.keep(placement, stands.clone());
            }
            if is_listed {
                self.replace(stands);
            }
        }
    }

    fn keep_better(&mut self, fresh: Ceiling) {
        match self.slot(&fresh.id, fresh.threads) {
            Some(old) => *old = doubt::better(old.clone(), fresh),
            None => self.ceilings.push(fresh),
        }
    }

    /// Records `value` as computed from `source`, whose conditions it inherits.
    pub fn derive(&mut self, label: Label, value: f64, source: &Ceiling, reason: impl Into<String>) {
        self.replace(Ceiling {
            id: label.id,
            value: Some(value),
            unit: label.unit.into(),
            threads: label.threads as u32,
            how: "derived".into(),
            reason: Some(reason.into()),
            ..source.clone()
        });
    }

    /// Records under `label` what another bench found.
    pub fn take_over(&mut self, label: Label, found: Ceiling) {
        // The name that it was an alias of means something else here.
        let reason = found.reason.filter(|r| !r.starts_with(ALIAS));
        self.keep_better(Ceiling { id: label.id, reason, ..found });
    }

    /// Records another name for a measured ceiling.
    pub fn alias(&mut self, id: &str, source: &Ceiling) {
        self.replace(Ceiling {
            id: id.into(),
            reason: Some(doubt::alias_of(doubt::measured_as(source))),
            ..source.clone()
        });
    }

    /// Records that there is no value, and why; a value that is there stays.
    pub fn missing(&mut self, label: Label, reason: impl Into<String>) {
        if self.found(&label.id, label.threads).is_none() {
            self.replace(Ceiling { reason: Some(reason.into()), ..blank(label) });
        }
    }

    /// Records a parameter of the core, which `machine/core/` judges by a rule of its own.
    pub fn record_parameter(&mut self, parameter: Ceiling) {
        self.replace(parameter);
    }

    pub(super) fn replace(&mut self, ceiling: Ceiling) {
        match self.slot(&ceiling.id, ceiling.threads) {
            Some(old) => *old = ceiling,
            None => self.ceilings.push(ceiling),
        }
    }

    fn slot(&mut self, id: &str, threads: u32) -> Option<&mut Ceiling> {
        self.ceilings.iter_mut().find(|c| c.is(id, threads))
    }

    /// The reason of what did not fit the time; a later run tries it again.
    pub fn too_late(&self) -> String {
        format!("{} of a {} measurement; a later run measures it", doubt::TOO_LATE, self.effort.name())
    }

    /// The reason of what a quick measurement is not for.
    pub fn left_out(&self) -> String {
        "left out of a quick measurement; `rprof machine` measures it".into()
    }

    /// What was recorded under `id` at `threads`, if it has a value.
    pub fn found(&self, id: &str, threads: usize) -> Option<&Ceiling> {
        self.ceilings.iter().find(|c| c.is(id, threads as u32) && c.value.is_some())
    }

    /// The highest of `ids` at `threads`, at one clock where they follow it.
    pub fn highest(&self, ids: &[String], threads: usize) -> Option<Ceiling> {
        let found: Vec<&Ceiling> = ids.iter().filter_map(|id| self.found(id, threads)).collect();
        let looked_hz = found.first().and_then(|c| c.looked_hz()).unwrap_or(0.0);
        let value = |c: &Ceiling| clock::value_at(c, c.value.unwrap_or(0.0), looked_hz);
        found.into_iter().max_by(|a, b| value(a).total_cmp(&value(b))).cloned()
    }
}

/// What stands of a ceiling: what all its moments say, or, of what neighbours are part of, the better of `old` and `fresh`.
fn standing(old: Option<Ceiling>, fresh: Ceiling, verdict: Option<(Verdict, Ceiling)>) -> Ceiling {
    match (verdict, old) {
        (Some((verdict, stands)), _) => doubt::by_moments(stands, verdict),
        (None, Some(old)) => doubt::better_value(old, fresh),
        (None, None) => fresh,
    }
}

/// A measured ceiling without a value yet, at the clock of `rate`.
pub(super) fn clocked(label: Label, rate: &Rate) -> Ceiling {
    let differs = (rate.resting_hz / rate.clock_hz - 1.0).abs() > SAME_CLOCK;
    let resting_hz = Some(rate.resting_hz).filter(|hz| *hz > 0.0 && differs);
    Ceiling { clock_hz: Some(rate.clock_hz), resting_hz, ..blank(label) }
}

/// A measured ceiling without a value.
fn blank(label: Label) -> Ceiling {
    Ceiling {
        id: label.id,
        value: None,
        unit: label.unit.into(),
        threads: label.threads as u32,
        clock_hz: None,
        resting_hz: None,
        spread: None,
        settled: false,
        how: "measured".into(),
        reason: None,
        device: "cpu".into(),
    }
}

/// Why a rate is not settled, if it is not.
pub(super) fn unsettled_because(rate: &Rate, steadiness: Steadiness) -> Option<String> {
    let tolerance = steadiness.tolerance();
    let stolen = match rate.stolen_s {
        s if s > 0.0 => format!("; the hypervisor took {:.0} ms meanwhile", s * 1e3),
        _ => String::new(),
    };
    if rate.disturbed {
        return Some(format!("other work took its CPUs in almost every repetition{stolen}"));
    }
    if rate.shared {
        return Some(format!("{}{stolen}", doubt::SHARED_CORES));
    }
    if steadiness != Steadiness::Shared && rate.clock_doubt > UNSTEADY {
        return Some(format!("{} {:.1} % during the measurement{stolen}", doubt::CLOCK, 100.0 * rate.clock_doubt));
    }
    let differ = || format!("{} by {:.0} %{stolen}", doubt::DIFFER, 100.0 * rate.spread);
    (rate.spread > tolerance).then(differ)
}
