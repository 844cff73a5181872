//! Two profiles side by side: which functions and loops changed, by more than the error of their figures.
//!
//! ```text
//!  old ─┐  modules ─▶ pairs, loops ─▶ reading ─▶ difference ─┐
//!       ├▶ (renamed)  (the same one)  (with its error)       ├▶ Diff ─┬▶ text, markdown, json, html
//!  new ─┘             kernels ──────▶ reading ─▶ difference ─┤        └▶ condition: --fail-if
//!                     mpi ──────────▶ reading ───────────────┘
//! ```

mod ceilings;
mod change;
mod class;
mod condition;
mod difference;
mod figure;
mod html;
mod json;
mod judge;
mod kernels;
mod loops;
mod markdown;
mod modules;
mod mpi;
mod notes;
mod pairs;
mod program;
mod reading;
mod text;
mod unique;
mod verdict;
mod words;

use rprof_profile::Profile;

use change::Setting;
use kernels::KernelChange;
use modules::Modules;
use mpi::CallsChange;
use pairs::Alike;
use program::Total;
use reading::Coverage;

pub use change::{Change, Presence};
pub use class::ClassOutcome;
pub use condition::Condition;
pub use difference::{Difference, Outcome};
pub use figure::Figure;
pub use html::page;
pub use json::{SCHEMA, json};
pub use judge::{Judgement, judge, told};
pub use markdown::markdown;
pub use reading::Reading;
pub use text::{changes as changes_text, text};

/// Two profiles compared.
#[derive(Debug)]
pub struct Diff<'p> {
    pub old: &'p Profile,
    pub new: &'p Profile,
    /// All functions that could be distinguished, the greatest change first.
    pub changes: Vec<Change<'p>>,
    /// Functions of one name that could not.
    pub alike: Vec<Alike<'p>>,
    pub modules: Modules<'p>,
    pub kernels: Vec<KernelChange<'p>>,
    /// Calls of MPI, if both profiles have some.
    pub mpi: Vec<CallsChange<'p>>,
    /// Sums over the program.
    pub totals: Vec<Total<'p>>,
    /// Whether the ceilings are the same in both.
    pub same_ceilings: bool,
    told: usize,
}

/// Compares two profiles.
pub fn compare<'p>(old: &'p Profile, new: &'p Profile) -> Diff<'p> {
    let found = pairs::of(old, new);
    let setting = Setting {
        old: Coverage::of(old),
        new: Coverage::of(new),
        moved: ceilings::Moved::between(&old.machine, &new.machine),
    };
    let mut changes: Vec<Change<'p>> = found.pairs.into_iter().map(|pair| Change::of(pair, &setting)).collect();
    let totals = program::totals(&changes, &found.alike, (&setting.old, &setting.new));
    let told = order(&mut changes);
    Diff {
        old,
        new,
        changes,
        alike: found.alike,
        modules: found.modules,
        kernels: kernels::changes(old, new),
        mpi: mpi::changes(old, new),
        totals,
        same_ceilings: setting.moved.is_empty(),
        told,
    }
}

impl<'p> Diff<'p> {
    /// The functions that changed.
    pub fn changed(&self) -> impl Iterator<Item = &Change<'p>> {
        self.changes.iter().filter(|change| change.is_changed())
    }

    /// The first of them, which are a part of the program worth telling.
    pub fn worth_telling(&self) -> impl Iterator<Item = &Change<'p>> {
        self.changes.iter().take(self.told)
    }

    /// A figure of the whole program; `None` for those that do not add up.
    pub fn total(&self, figure: Figure) -> Option<&Total<'p>> {
        self.totals.iter().find(|total| total.difference.figure == figure)
    }

    /// One sentence on the changes.
    pub fn verdict(&self) -> String {
        verdict::sentence(self)
    }

    /// Whether the profiles are of different programs altogether.
    pub fn is_other_program(&self) -> bool {
        program::is_other(self.old, self.new, &self.changes)
    }
}

/// A change below this part of the program is counted, but not shown to people.
const WORTH_TELLING: f64 = 1e-3;

/// Number of changes that are shown in any case.
const ALWAYS_TOLD: usize = 5;

/// The part of the program that each change is: that of the figure which changed most, and that of its greatest figure.
struct Parts {
    sums: Vec<f64>,
}

impl Parts {
    fn of(changes: &[Change<'_>]) -> Parts {
        let sum = |figure: Figure| changes.iter().map(|change| greater(change.difference(figure))).sum();
        Parts { sums: Figure::ALL.into_iter().map(sum).collect() }
    }

    fn part(&self, d: &Difference<'_>, by: f64) -> f64 {
        match self.sums[d.figure as usize] {
            sum if sum > 0.0 && d.figure != Figure::RoofFraction => by / sum,
            _ => 0.0,
        }
    }

    fn changed(&self, change: &Change<'_>) -> f64 {
        let of = |d: &Difference<'_>| self.part(d, d.absolute().map_or(0.0, f64::abs));
        change.changed().map(of).fold(0.0, f64::max)
    }

    fn greatest(&self, change: &Change<'_>) -> f64 {
        change.differences.iter().map(|d| self.part(d, greater(d))).fold(0.0, f64::max)
    }
}

/// The greater of both values.
fn greater(d: &Difference<'_>) -> f64 {
    d.old.value().unwrap_or(0.0).max(d.new.value().unwrap_or(0.0))
}

/// Sorts changes by the greatest part of the program that one of their figures changed by; those that did not change come after them, by
/// the part that they have. Returns how many of the first ones are worth telling.
fn order(changes: &mut Vec<Change<'_>>) -> usize {
    let parts = Parts::of(changes);
    let key = |change: &Change<'_>| (change.is_changed(), parts.changed(change), parts.greatest(change));
    let mut keyed: Vec<((bool, f64, f64), Change<'_>)> =
        changes.drain(..).map(|change| (key(&change), change)).collect();
    keyed.sort_by(|(a, _), (b, _)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(b.2.total_cmp(&a.2)));
    // A function with another class is recognised by its size.
    let is_told = |(changed, by, part): &(bool, f64, f64)| {
        *changed && (*by >= WORTH_TELLING || *by == 0.0 && *part >= WORTH_TELLING)
    };
    keyed.sort_by_key(|(key, _)| (!key.0, !is_told(key)));
    let changed = keyed.iter().filter(|(key, _)| key.0).count();
    let told = keyed.iter().filter(|(key, _)| is_told(key)).count().max(changed.min(ALWAYS_TOLD));
    changes.extend(keyed.into_iter().map(|(_, change)| change));
    told
}
