//! Calls of MPI in two profiles, by function of MPI and by the function that calls it: callers keep their names when lines move.
//!
//! Calls and bytes are exact, unless a process ran natively from some time on, or windows estimate them. Seconds are sums of one run, with
//! an unknown error.

use std::collections::BTreeMap;

use crate::name;
use crate::number::{seconds, si};
use crate::regions::Rows;
use crate::table;
use rprof_profile::Profile;
use rprof_profile::mpi::{CallSite, Mpi};
use rprof_profile::source::Source;

use super::reading::Reading;
use super::words;

/// Before and after.
pub type Sides<'p> = [Reading<'p>; 2];

/// The calls of one function of MPI by one function, in both profiles.
#[derive(Debug, Clone, Copy)]
pub struct CallsChange<'p> {
    pub call: &'p str,
    pub caller: &'p str,
    pub calls: Sides<'p>,
    pub bytes: Sides<'p>,
    /// Seconds in them, of the counted pass.
    pub time: Sides<'p>,
    /// Seconds of them in which another rank was not there yet.
    pub waiting: Sides<'p>,
}

impl CallsChange<'_> {
    /// Whether the number of calls or their bytes changed.
    pub fn is_changed(&self) -> bool {
        let changed = |sides: &Sides<'_>| matches!(sides, [Reading::Exact(old), Reading::Exact(new)] if old != new);
        changed(&self.calls) || changed(&self.bytes)
    }

    /// Seconds by which time or waiting differ.
    fn moved_s(&self) -> f64 {
        let by = |[old, new]: Sides<'_>| old.value().zip(new.value()).map_or(0.0, |(old, new)| (new - old).abs());
        by(self.time).max(by(self.waiting))
    }
}

#[derive(Debug, Clone, Copy)]
struct Sum {
    calls: Estimate,
    bytes: Estimate,
    time_s: Option<f64>,
    waiting_s: Option<f64>,
}

impl Sum {
    /// Of a function that makes no such calls.
    const NOTHING: Sum =
        Sum { calls: Estimate::NOTHING, bytes: Estimate::NOTHING, time_s: Some(0.0), waiting_s: Some(0.0) };

    fn plus(self, site: &CallSite) -> Sum {
        let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        Sum {
            calls: self.calls.plus(site.calls, site.source.get("calls")),
            bytes: self.bytes.plus(site.bytes, site.source.get("bytes")),
            time_s: both(self.time_s, site.time_s),
            waiting_s: both(self.waiting_s, site.waiting_s),
        }
    }
}

/// A sum of counts, as far as all of them are known.
#[derive(Debug, Clone, Copy)]
enum Estimate {
    Exact(u64),
    /// And half the width of its interval.
    Within(u64, f64),
    /// Windows met too few calls to say how well.
    NoInterval(u64),
    Missing,
}

impl Estimate {
    const NOTHING: Estimate = Estimate::Exact(0);

    fn plus(self, value: Option<u64>, source: Option<&Source>) -> Estimate {
        let Some(more) = value else { return Estimate::Missing };
        let half = match source {
            None => Some(0.0),
            Some(source) => source.error.map(|error| error * more as f64),
        };
        match (self, half) {
            (Estimate::Exact(n), Some(_)) if source.is_none() => Estimate::Exact(n + more),
            (Estimate::Exact(n), Some(half)) => Estimate::Within(n + more, half),
            (Estimate::Within(n, before), Some(half)) => Estimate::Within(n + more, before + half),
            (Estimate::Exact(n) | Estimate::Within(n, _) | Estimate::NoInterval(n), _) => {
                Estimate::NoInterval(n + more)
            }
            (Estimate::Missing, _) => Estimate::Missing,
        }
    }
}

fn count(value: Estimate, mpi: &Mpi) -> Reading<'_> {
    match value {
        Estimate::Missing => Reading::Missing("some calls, or their bytes, are not known"),
        Estimate::Exact(value) if mpi.at_least => Reading::AtLeast(value),
        Estimate::Exact(value) => Reading::Exact(value),
        Estimate::Within(value, half) => Reading::Within { value: value as f64, half },
        Estimate::NoInterval(value) => Reading::NoInterval(value as f64),
    }
}

fn of_run(value: Option<f64>, why: &str) -> Reading<'_> {
    value.map_or(Reading::Missing(why), Reading::NoInterval)
}

/// All that both profiles show, the greatest difference in seconds first. None unless both have calls of MPI.
pub fn changes<'p>(old: &'p Profile, new: &'p Profile) -> Vec<CallsChange<'p>> {
    let (Some(old), Some(new)) = (&old.mpi, &new.mpi) else { return Vec::new() };
    let mut sums: BTreeMap<(&str, &str), [Sum; 2]> = BTreeMap::new();
    for (side, mpi) in [old, new].into_iter().enumerate() {
        for site in mpi.sites.iter().filter(|site| site.is_communication()) {
            let sum = &mut sums.entry((&site.caller, &site.call)).or_insert([Sum::NOTHING; 2])[side];
            *sum = sum.plus(site);
        }
    }
    let one = |((caller, call), [before, after]): ((&'p str, &'p str), [Sum; 2])| {
        let unsplit = |mpi: &'p Mpi| mpi.split_missing.as_deref().unwrap_or("it is known of merged ranks alone");
        CallsChange {
            call,
            caller,
            calls: [count(before.calls, old), count(after.calls, new)],
            bytes: [count(before.bytes, old), count(after.bytes, new)],
            time: [before, after].map(|sum| of_run(sum.time_s, "no call's return was seen")),
            waiting: [of_run(before.waiting_s, unsplit(old)), of_run(after.waiting_s, unsplit(new))],
        }
    };
    let mut all: Vec<CallsChange<'p>> = sums.into_iter().map(one).collect();
    all.sort_by(|a, b| b.is_changed().cmp(&a.is_changed()).then(b.moved_s().total_cmp(&a.moved_s())));
    all
}

/// Those that differ as a table of at most `most` rows with names of at most `width` characters. `None`: there are none.
pub fn rows(all: &[CallsChange<'_>], most: usize, width: usize) -> Option<Rows> {
    let differing: Vec<&CallsChange<'_>> = all.iter().filter(|c| c.is_changed() || c.moved_s() > 0.0).collect();
    let both = |show: fn(f64) -> String, sides: &Sides<'_>| {
        let [old, new] = sides.each_ref().map(|reading| words::reading_as(show, reading));
        if old == new { new } else { format!("{old} → {new}") }
    };
    let row = |c: &&CallsChange<'_>| {
        vec![
            name::shorten(&format!("{} in {}", c.call, c.caller), width),
            both(|n| n.to_string(), &c.calls),
            both(|n| si(n, "B"), &c.bytes),
            both(seconds, &c.waiting),
        ]
    };
    let mut notes = vec!["~: seconds of one run, without an error.".to_owned()];
    notes.extend(table::rest(differing.len().saturating_sub(most), "call"));
    (!differing.is_empty()).then(|| Rows {
        title: "Calls of MPI".into(),
        titles: vec!["call", "calls", "bytes", "waiting"],
        rows: differing.iter().take(most).map(row).collect(),
        words: vec![0],
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(caller: &str, line: u32, calls: u64, waiting_s: Option<f64>) -> CallSite {
        CallSite {
            caller: caller.into(),
            line: Some(line),
            call: "MPI_Send".into(),
            calls: Some(calls),
            bytes: Some(8 * calls),
            time_s: Some(1.0),
            waiting_s,
            ..CallSite::default()
        }
    }

    fn profile(sites: Vec<CallSite>) -> Profile {
        Profile { mpi: Some(Mpi { sites, ..Mpi::default() }), ..Profile::default() }
    }

    #[test]
    fn call_sites_of_one_caller_are_one_wherever_they_are() {
        let old =
            profile(vec![site("halo", 3, 10, Some(0.5)), site("halo", 9, 5, Some(0.25)), site("sum", 1, 7, None)]);
        let new = profile(vec![site("halo", 30, 20, Some(0.75)), site("sum", 2, 7, None)]);
        let all = changes(&old, &new);
        let halo = all.iter().find(|c| c.caller == "halo").unwrap();
        assert_eq!(halo.calls, [Reading::Exact(15), Reading::Exact(20)]);
        assert_eq!(halo.bytes, [Reading::Exact(120), Reading::Exact(160)]);
        assert_eq!(halo.waiting, [Reading::NoInterval(0.75); 2]);
        let sum = all.iter().find(|c| c.caller == "sum").unwrap();
        assert!(!sum.is_changed() && matches!(sum.waiting[0], Reading::Missing(_)));
        let table = rows(&all, 5, 40).unwrap();
        assert_eq!(table.rows, [["MPI_Send in halo", "15 → 20", "120 B → 160 B", "~750 ms"].map(String::from)]);
    }

    #[test]
    fn what_is_new_was_nothing_and_parts_are_not_compared() {
        let old = profile(vec![site("halo", 3, 10, None)]);
        let mut new = profile(vec![site("halo", 3, 9, None), site("extra", 1, 2, None)]);
        let of = |all: &[CallsChange<'_>], caller: &str| all.iter().find(|c| c.caller == caller).unwrap().is_changed();
        assert!(of(&changes(&old, &new), "halo"), "9 calls instead of 10");
        assert!(of(&changes(&old, &new), "extra"));
        new.mpi.as_mut().unwrap().at_least = true;
        assert!(!of(&changes(&old, &new), "halo"), "the rest of the calls was not seen");
        assert!(changes(&old, &Profile::default()).is_empty(), "one profile has none");
        assert!(rows(&changes(&old, &old), 5, 40).is_none(), "nothing differs");
    }

    #[test]
    fn the_table_is_bounded() {
        let many = |calls| profile((0..50).map(|i| site(&format!("f{i}"), 1, calls, None)).collect());
        let (old, new) = (many(1), many(2));
        let table = rows(&changes(&old, &new), 10, 40).unwrap();
        assert_eq!((table.rows.len(), table.notes[1].as_str()), (10, "… and 40 more calls"));
    }
}
