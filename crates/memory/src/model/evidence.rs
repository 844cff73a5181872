//! The model's evidence at the end of a run.

use crate::attribution::tallies::Stratum;
use crate::attribution::tally::Tally;
use crate::caches::line::Owner;
use crate::calibration;
use crate::estimate::ablation::Estimator;
use crate::estimate::beyond_l1::BeyondL1;
use crate::estimate::scaling::{Beyond, near, relative_error, windows_error};
use crate::hierarchy::writebacks::KnownFills;
use crate::sampling::executions::{Factors, Times};
use rprof_profile::code::CodeRef;
use rprof_profile::evidence::memory::{FirstTouches, MemoryEvidence, SiteTraffic, Traffic};
use rprof_profile::evidence::pages::PagesEvidence;
use rprof_profile::run::Warning;

use super::CacheModel;

/// rprof warns if more than this share of the accesses was extrapolated from too little.
const EXTRAPOLATED: f64 = 0.1;
/// rprof warns if more than this share of the accesses is of instructions for which there was no room.
const UNTRACKED: f64 = 0.01;

impl CacheModel {
    /// All evidence at the end of the program; `sites` has the code of each instruction.
    pub(super) fn evidence(mut self, sites: &[CodeRef]) -> MemoryEvidence {
        if let Some(sampled) = &mut self.sampled {
            sampled.close_window(self.classes);
            sampled.pace.finish();
        }
        self.weigh();
        let sampled = self.sampled.iter_mut().map(|sampled| &mut sampled.hierarchy);
        for hierarchy in sampled.chain([&mut self.full]) {
            hierarchy.tallies.note_apart(false);
            hierarchy.tallies.open(Stratum::End);
            hierarchy.flush();
        }
        let residencies = self.sampled.as_mut().and_then(|s| s.hierarchy.residencies()).map(std::mem::take);
        let scales = self.first_level_scales();
        let hierarchy = self.sampled.as_ref().map_or(&self.full, |s| &s.hierarchy);
        let first = &self.full.tallies;
        // A program that ends before its first pause was simulated without a gap.
        let windows = self.sampled.is_some() && self.executed.extrapolated() > 0.0 && self.uses(Estimator::Stays);
        let beyond = Beyond { has_l2: self.has_l2, conflict_share: hierarchy.tallies.conflict_share(), windows };
        let lines = self.classes.count() as f64;
        let total = self.executed.total();
        // With fewer than two windows, the difference between windows is unknown.
        let of_windows = self.sampled.as_ref().map_or(0.0, |s| windows_error(s.pace.windows()).unwrap_or(1.0));
        let behind = |owner: Owner, factors: &Factors| {
            let mean_weight = self.strata.mean_weight(self.owners.pairs()[owner.0 as usize].0);
            BeyondL1::of(&hierarchy.tallies, owner, factors, mean_weight, lines, self.has_l2)
        };
        // Other windows may differ from the ones seen by as much as the opening or the warm-up does. If those saw too little, the error is
        // that of the whole program.
        let error =
            |owner: Owner, behind: &BeyondL1, factors: &Factors, own: Option<f64>, events: fn(&Tally) -> u64| {
                let in_others = || behind.changed(self.executed.by_phase(owner), events).unwrap_or(of_windows);
                let own = own.unwrap_or_else(|| in_others() * factors.between_windows());
                own.hypot(factors.without_windows())
            };
        let known_fills = |owner: Owner| {
            let factors = self.executed.factors(owner);
            let behind = behind(owner, &factors);
            let (site, _) = self.owners.pairs()[owner.0 as usize];
            let of_windows = error(owner, &behind, &factors, self.strata.scatter(site).l3, |t| t.last_fills);
            let cold = behind.events(|t| t.cold) / behind.events(|t| t.last_fills).max(1.0);
            KnownFills {
                stands_for: Stratum::ALL.map(|stratum| behind.stands_for(stratum)),
                error: of_windows.hypot(cold),
            }
        };
        let written = residencies.map(|residencies| residencies.written(known_fills)).unwrap_or_default();
        let (mut traffic, mut unseen) = (Vec::new(), 0.0);
        for (i, (&(site, thread), scale)) in self.owners.pairs().iter().zip(scales).enumerate() {
            let Some(&at) = sites.get(site as usize) else { continue };
            let owner = Owner(i as u32);
            let factors = self.executed.factors(owner);
            let behind = behind(owner, &factors);
            let (mut near_core, l1_error) = match scale {
                Some(scale) => self.near_of(owner, scale, &behind),
                None => (behind.near(), 0.0),
            };
            near_core.add(&near(&first.end(owner), 1.0));
            if !self.uses(Estimator::BurstConflicts) {
                near_core.pushed_out = 0.0;
                near_core.traffic.l2_conflict = 0.0;
            }
            let mut figures =
                beyond.join(&near_core, &behind.traffic(&beyond, written.get(&owner).copied().unwrap_or_default()));
            let scatter = self.strata.scatter(site);
            let error = |own, events| error(owner, &behind, &factors, own, events);
            figures.l1_scatter = (error(scatter.l1, |t| t.l1_fills) * figures.l1_misses).max(l1_error);
            figures.l2_scatter = error(scatter.l2, |t| t.l2_fills + t.l2_dirtied) * figures.l2_misses;
            figures.l3_scatter = error(scatter.l3, |t| t.last_fills) * figures.l3_misses;
            if !hierarchy.knows_frames() {
                // Pages lie at random, or in sequence: the figures assume the former.
                figures.l2_scatter = figures.l2_scatter.hypot(behind.of_placement[0]);
                figures.l3_scatter = figures.l3_scatter.hypot(behind.of_placement[1]);
            }
            // Events seen in warm-ups but never in windows may be as frequent in pauses.
            let executed = self.executed.by_phase(owner);
            figures.l2_scatter += behind.only_in_warm_ups(executed, |t| t.l2_fills);
            figures.l3_scatter += behind.only_in_warm_ups(executed, |t| t.last_fills);
            if let Some((read, write)) = self.executed.bytes(owner) {
                (figures.l1_read, figures.l1_write) = (read, write);
                // The sample may contain none of its few lines, and no burst may have met it.
                let seen = behind.saw_any() || first.plain_of(owner).accesses > 0;
                figures.unseen = if seen { 0.0 } else { read + write };
                unseen += figures.unseen;
            }
            figures.dram_overwritten = figures.dram_fill * first.plain_of(owner).overwritten_share();
            traffic.push(SiteTraffic { at, thread, traffic: figures });
        }
        for (site, (thread, [l1_read, l1_write])) in self.executed.nowhere() {
            let Some(&at) = sites.get(site as usize) else { continue };
            let all = l1_read + l1_write;
            let figures = Traffic { l1_read, l1_write, unseen: all, untracked: all, ..Traffic::default() };
            traffic.push(SiteTraffic { at, thread, traffic: figures });
        }
        let page_placement = hierarchy.placement_in_words();
        self.warn_of_limits(&total);
        self.warnings.extend(self.executed.warning(unseen));
        self.warn_of_few_windows();
        let ratios = calibration::ratios(&self.geometry, self.placement);
        let own = calibration::worst(&ratios);
        let (mode, error) = match &self.sampled {
            None => ("exact", Some(own)),
            // If nothing comes from memory, no group of lines differs from others.
            Some(sampled) => ("sampled", Some(relative_error(sampled.hierarchy.groups()).unwrap_or(0.0).hypot(own))),
        };
        let pairs = self.owners.pairs();
        let place = |owner: Owner| sites.get(pairs.get(owner.0 as usize)?.0 as usize).copied();
        let arrivals = self.sampled.as_ref().and_then(|s| s.arrivals.as_ref());
        let at_most = arrivals.and_then(|arrivals| arrivals.pages()).map(|pages| pages as f64);
        let pages = PagesEvidence { at_most, ..self.pages.evidence(place) };
        let touched = pages.union(pages.sites.iter()).pages.ceil() as u64;
        let lines_of_pages = arrivals.and_then(|arrivals| arrivals.lines(touched)).map(|lines| lines as f64);
        let first_touches = lines_of_pages.map(|lines| FirstTouches {
            lines,
            missing: self.sampled.as_ref().and_then(|sampled| sampled.missing(self.classes)).unwrap_or(1.0),
        });
        first_touches.iter().for_each(|limit| limit.apply(&mut traffic));
        let weights = |owner| {
            let each = self.executed.factors(owner).each();
            each.map(|factor| lines * factor)
        };
        MemoryEvidence {
            mode: mode.into(),
            error,
            page_placement,
            one_in: self.classes.count() as u32,
            one_core: self.geometry.cores == 1 && self.few_cores && self.owners.threads() > 1,
            calibration: ratios.into_iter().map(|(id, ratio)| (id.into(), ratio)).collect(),
            sites: traffic,
            pages,
            first_touches,
            data: self.data.map(|data| data.evidence(place, weights)).unwrap_or_default(),
            warnings: self.warnings,
        }
    }

    /// Warns if the extrapolation rests on fewer than two windows, the minimum for an error.
    fn warn_of_few_windows(&mut self) {
        let extrapolated = self.executed.extrapolated();
        let Some(sampled) = self.sampled.as_ref().filter(|_| extrapolated > EXTRAPOLATED) else { return };
        let percent = 100.0 * extrapolated;
        let (code, text, effect) = match sampled.pace.windows().len() {
            0 => (
                "memory-opening",
                format!(
                    "the collection ended before the memory accesses were sampled a second time for long enough; {percent:.0} % \
                    of them are taken to be like those seen until then, most of them at its start"
                ),
                "bytes beyond L1 may be those of cold caches",
            ),
            1 => (
                "memory-window",
                format!(
                    "the collection ended after one window of memory sampling; {percent:.0} % of the accesses are taken to be \
                    like those of that window and of its start"
                ),
                "how windows differ is not known: the error stated for bytes beyond L1 is how far its start differs, up to all",
            ),
            _ => return,
        };
        self.warnings.push(Warning::new(code, text, effect, "run longer, or with --memory exact"));
    }

    fn warn_of_limits(&mut self, total: &Times) {
        self.warnings.extend(self.owners.warning(self.executed.elsewhere()));
        let nowhere = self.owners.nowhere().and_then(|owner| self.executed.accesses(owner)).unwrap_or(0);
        let share = nowhere as f64 / total.all().max(1) as f64;
        if share > UNTRACKED {
            self.warnings.push(Warning::new(
                "memory-sites",
                format!(
                    "too many memory instructions to track; {:.1} % of its \
                    accesses are not attributed",
                    100.0 * share
                ),
                "the memory traffic of some functions is missing",
                "run a part of it",
            ));
        }
        let hierarchy = self.sampled.as_ref().map_or(&self.full, |s| &s.hierarchy);
        let false_seen = hierarchy.seen().false_seen();
        if false_seen > 0.0 {
            self.warnings.push(Warning::new(
                "compulsory-misses",
                "the program touched more than 14 GiB",
                format!("up to {:.2} % of compulsory misses are counted as capacity misses", 100.0 * false_seen),
                "no action needed; byte counts are unaffected",
            ));
        }
    }
}
