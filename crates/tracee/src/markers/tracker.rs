//! The regions that each thread is in: follows the marks of a run, and keeps their content.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::call::Mark;
use rprof_profile::evidence::marks::{Api, Marked, MarkedRegion, MarkedWork};
use rprof_profile::run::Warning;

/// Names that are distinguished; all others are one region.
const MOST_NAMES: usize = 1024;
/// Regions that one thread is in at the same time; the tracker counts deeper ones and does not follow them.
const DEEPEST: usize = 64;
/// Sets of regions that are distinguished.
const MOST_PATHS: usize = 1 << 16;
/// Units that are distinguished.
const MOST_UNITS: usize = 64;
/// The name of regions beyond those.
const OTHERS: &str = "(other names)";
/// The name of a region with an unreadable name.
const UNREADABLE: &str = "(unreadable name)";

/// Region that a mark opened or closed for a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is in that region, once more.
    Opened(u32),
    /// It has left it, once.
    Closed(u32),
    /// Nothing changes.
    None,
}

/// Regions and paths so far. Threads are named by any number.
#[derive(Debug)]
pub struct Tracker {
    regions: Vec<MarkedRegion>,
    by_name: HashMap<(Api, String), u32>,
    paths: Vec<Vec<u32>>,
    by_path: HashMap<Vec<u32>, u32>,
    open: HashMap<u32, Open>,
    work: BTreeMap<(String, u32), f64>,
    units: usize,
    doubts: Doubts,
}

/// The regions that one thread is in.
#[derive(Debug, Clone, Default)]
struct Open {
    regions: Vec<u32>,
    path: u32,
    /// Begun beyond the deepest that is followed.
    deeper: u64,
}

/// Counts of marks that were not as they should be, and the user's remedy.
#[derive(Debug, Default)]
struct Doubts {
    /// Ends of regions that were not open, and the first one's name.
    unbegun: (u64, String),
    /// Regions that threads were in when they ended.
    unended: (u64, String),
    unreadable: u64,
    deeper: u64,
    other_names: bool,
    other_units: bool,
    amounts: u64,
    unknown: u64,
}

impl Default for Tracker {
    fn default() -> Self {
        Tracker {
            regions: Vec::new(),
            by_name: HashMap::new(),
            paths: vec![Vec::new()],
            by_path: HashMap::from([(Vec::new(), 0)]),
            open: HashMap::new(),
            work: BTreeMap::new(),
            units: 0,
            doubts: Doubts::default(),
        }
    }
}

impl Tracker {
    /// The path that `thread` is on.
    pub fn path(&self, thread: u32) -> u32 {
        self.open.get(&thread).map_or(0, |open| open.path)
    }

    /// The interfaces that the regions belong to.
    pub fn interfaces(&self) -> BTreeSet<Api> {
        self.regions.iter().map(|r| r.api).collect()
    }

    /// `thread` made a marker call.
    pub fn note(&mut self, thread: u32, mark: Mark) -> Change {
        match mark {
            Mark::Begin(api, name) => {
                let region = self.region(api, name);
                self.regions[region as usize].entries += 1;
                self.begin(thread, region)
            }
            Mark::End(api, name) => {
                let region = self.region(api, name);
                self.end(thread, api, Some(region))
            }
            Mark::EndLatest(api) => self.end(thread, api, None),
            Mark::Work { unit, amount } => {
                self.work(thread, unit, amount);
                Change::None
            }
            Mark::Unknown => {
                self.doubts.unknown += 1;
                Change::None
            }
        }
    }

    fn region(&mut self, api: Api, name: Option<String>) -> u32 {
        self.doubts.unreadable += u64::from(name.is_none());
        let mut key = (api, name.unwrap_or_else(|| UNREADABLE.into()));
        if let Some(&known) = self.by_name.get(&key) {
            return known;
        }
        if self.regions.len() >= MOST_NAMES {
            self.doubts.other_names = true;
            key.1 = OTHERS.into();
        }
        *self.by_name.entry(key).or_insert_with_key(|(api, name)| {
            self.regions.push(MarkedRegion { name: name.clone(), api: *api, entries: 0 });
            self.regions.len() as u32 - 1
        })
    }

    fn begin(&mut self, thread: u32, region: u32) -> Change {
        let open = self.open.entry(thread).or_default();
        if open.regions.len() >= DEEPEST {
            open.deeper += 1;
            self.doubts.deeper += 1;
            return Change::None;
        }
        open.regions.push(region);
        self.follow(thread);
        Change::Opened(region)
    }

    /// Ends `region`, or the latest one of `api`. Regions may overlap: it need not be the latest of all.
    fn end(&mut self, thread: u32, api: Api, region: Option<u32>) -> Change {
        let regions = &self.regions;
        let wanted = |&open: &u32| match region {
            Some(region) => open == region,
            None => regions[open as usize].api == api,
        };
        let name = region.map_or_else(|| format!("({api:?})"), |r| regions[r as usize].name.clone());
        let unbegun = &mut self.doubts.unbegun;
        let mut refuse = || {
            unbegun.0 += 1;
            if unbegun.0 == 1 {
                unbegun.1 = name.clone();
            }
            Change::None
        };
        let Some(open) = self.open.get_mut(&thread) else { return refuse() };
        if open.deeper > 0 {
            open.deeper -= 1;
            return Change::None;
        }
        let Some(at) = open.regions.iter().rposition(wanted) else { return refuse() };
        let closed = open.regions.remove(at);
        self.follow(thread);
        Change::Closed(closed)
    }

    fn work(&mut self, thread: u32, unit: Option<String>, amount: f64) {
        self.doubts.unreadable += u64::from(unit.is_none());
        if !amount.is_finite() || amount < 0.0 {
            self.doubts.amounts += 1;
            return;
        }
        let mut unit = unit.unwrap_or_else(|| UNREADABLE.into());
        if self.work.range((unit.clone(), 0)..=(unit.clone(), u32::MAX)).next().is_none() {
            if self.units >= MOST_UNITS {
                self.doubts.other_units = true;
                unit = OTHERS.into();
            }
            self.units += 1;
        }
        let path = self.path(thread);
        let sum = self.work.entry((unit, path)).or_default();
        if (*sum + amount).is_finite() {
            *sum += amount;
        } else {
            self.doubts.amounts += 1;
        }
    }

    /// Finds the number of the path that a thread is on now.
    fn follow(&mut self, thread: u32) {
        let Some(open) = self.open.get_mut(&thread) else { return };
        open.path = match self.by_path.get(&open.regions) {
            Some(&path) => path,
            None if self.paths.len() >= MOST_PATHS => {
                self.doubts.deeper += 1;
                // The outermost region's own path is there: it was entered first.
                self.by_path.get(&open.regions[..1]).copied().unwrap_or(0)
            }
            None => {
                self.paths.push(open.regions.clone());
                self.by_path.insert(open.regions.clone(), self.paths.len() as u32 - 1);
                self.paths.len() as u32 - 1
            }
        };
    }

    /// `child` is the first thread of a process that `parent` forked: it is in the same regions as that one. Returns these
    /// regions.
    pub fn forked(&mut self, parent: u32, child: u32) -> Vec<u32> {
        let open = self.open.get(&parent).cloned().unwrap_or_default();
        self.open.insert(child, open.clone());
        open.regions
    }

    /// `thread` is over; returns the regions that it was still in.
    pub fn ended(&mut self, thread: u32) -> Vec<u32> {
        let left = self.open.remove(&thread).unwrap_or_default().regions;
        if let Some(&first) = left.first() {
            if self.doubts.unended.0 == 0 {
                self.doubts.unended.1.clone_from(&self.regions[first as usize].name);
            }
            self.doubts.unended.0 += left.len() as u64;
        }
        left
    }

    /// Ends the run.
    pub fn finish(mut self) -> Marked {
        let threads: Vec<u32> = self.open.keys().copied().collect();
        threads.into_iter().for_each(|thread| drop(self.ended(thread)));
        let work = self.work.into_iter().map(|((unit, path), amount)| MarkedWork { path, unit, amount }).collect();
        Marked { regions: self.regions, paths: self.paths, work, warnings: self.doubts.warnings() }
    }
}

impl Doubts {
    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut tell =
            |code: &str, text: String, effect: &str, hint: &str| warnings.push(Warning::new(code, text, effect, hint));
        if self.unbegun.0 > 0 {
            tell(
                "marker-not-begun",
                format!(
                    "{} region ends have no beginning in their thread, the first one of {}",
                    self.unbegun.0, self.unbegun.1
                ),
                "they are left out",
                "each thread must begin a region itself before it ends it",
            );
        }
        if self.unended.0 > 0 {
            tell(
                "marker-not-ended",
                format!("{} regions were not ended by their threads, first {}", self.unended.0, self.unended.1),
                "they last until their thread's end",
                "end a region on every way out of it",
            );
        }
        if self.unreadable > 0 {
            tell(
                "marker-name",
                format!("the names in {} marker calls could not be read", self.unreadable),
                "their regions are named (unreadable name)",
                "give a C string that stays as it is, best a literal",
            );
        }
        if self.other_names || self.other_units {
            tell(
                "marker-names",
                format!("the program has more than {MOST_NAMES} names of regions or {MOST_UNITS} of units"),
                "further ones are together in (other names)",
                "leave numbers out of names",
            );
        }
        if self.deeper > 0 {
            tell(
                "marker-depth",
                format!("{} times regions were nested deeper than {DEEPEST}, or in too many ways", self.deeper),
                "their work belongs to the enclosing regions",
                "end regions before they are begun again",
            );
        }
        if self.amounts > 0 {
            tell(
                "marker-amount",
                format!("{} amounts of work were negative or not finite", self.amounts),
                "they are left out",
                "rprof_work takes the amount since the last call",
            );
        }
        if self.unknown > 0 {
            tell(
                "marker-unknown",
                format!("{} calls of rprof_mark have an operation that this version does not know", self.unknown),
                "they are left out",
                "rprof header prints the header of this version",
            );
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(name: &str) -> Mark {
        Mark::Begin(Api::Rprof, Some(name.into()))
    }

    fn end(name: &str) -> Mark {
        Mark::End(Api::Rprof, Some(name.into()))
    }

    fn codes(marked: &Marked) -> Vec<&str> {
        marked.warnings.iter().map(|w| w.code.as_str()).collect()
    }

    #[test]
    fn regions_nest_overlap_and_are_each_threads_own() {
        let mut t = Tracker::default();
        assert_eq!(t.note(1, begin("a")), Change::Opened(0));
        assert_eq!(t.note(1, begin("b")), Change::Opened(1));
        assert_eq!((t.path(2), t.paths[t.path(1) as usize].as_slice()), (0, &[0, 1][..]));
        t.note(1, Mark::Work { unit: Some("x".into()), amount: 2.0 });
        t.note(2, Mark::Work { unit: Some("x".into()), amount: 0.5 });
        assert_eq!(t.note(1, end("a")), Change::Closed(0), "not the latest");
        assert_eq!(t.note(1, Mark::EndLatest(Api::Nvtx)), Change::None, "of another interface");
        assert_eq!(t.note(1, Mark::EndLatest(Api::Rprof)), Change::Closed(1));
        assert_eq!(t.path(1), 0);
        let marked = t.finish();
        assert_eq!(codes(&marked), ["marker-not-begun"]);
        let in_b = marked.holding(1);
        let amounts: Vec<_> = marked.work.iter().map(|w| (in_b[w.path as usize], w.amount)).collect();
        assert_eq!(amounts, [(false, 0.5), (true, 2.0)]);
    }

    #[test]
    fn bad_calls_are_told_once_and_nothing_is_lost() {
        let mut t = Tracker::default();
        t.note(1, end("never"));
        t.note(1, end("never"));
        t.note(1, Mark::Begin(Api::Likwid, None));
        t.note(1, Mark::Work { unit: Some("x".into()), amount: f64::NAN });
        t.note(1, Mark::Unknown);
        (0..3000).for_each(|i| {
            t.note(2, begin(&i.to_string()));
            t.note(2, end(&i.to_string()));
        });
        (0..100).for_each(|_| {
            t.note(3, begin("deep"));
        });
        (0..100).for_each(|_| {
            t.note(3, end("deep"));
        });
        assert_eq!(t.path(3), 0);
        assert_eq!(t.ended(1).len(), 1);
        let marked = t.finish();
        let told = ["not-begun", "not-ended", "name", "names", "depth", "amount", "unknown"];
        assert_eq!(codes(&marked), told.map(|code| format!("marker-{code}")));
        assert!(marked.regions.len() <= MOST_NAMES + 2);
        assert_eq!(marked.regions.iter().map(|r| r.entries).sum::<u64>(), 3101);
    }

    #[test]
    fn a_forked_process_is_where_its_parent_was() {
        let mut t = Tracker::default();
        t.note(1, begin("a"));
        t.forked(1, 2);
        t.note(2, end("a"));
        assert_eq!((t.path(1) != 0, t.path(2)), (true, 0));
    }
}
