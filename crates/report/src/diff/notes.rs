//! Limits of a comparison: figures not compared, assumptions, questions that one run cannot answer.

use std::collections::BTreeMap;
use std::fmt;

use crate::name::{printable, shorten};
use crate::number::percent;
use crate::trust::{Level, Trust};
use rprof_profile::{Function, Profile};

use super::Diff;
use super::change::{Change, Presence};
use super::class::ClassOutcome;
use super::difference::{Difference, Outcome, Unknown};
use super::figure::Figure;
use super::modules::{self, offset};
use super::program;
use super::reading::Reading;
use super::words::several;

/// Characters of a name in a note.
const NAME: usize = 60;
/// From this number of figures on, at least one is expected to change by chance.
const MANY: usize = 20;
/// Names in a note.
const NAMES: usize = 4;
/// Most reasons listed; the others are counted.
const REASONS: usize = 4;

/// A limit.
#[derive(Debug, Clone, PartialEq)]
pub enum Note<'p> {
    /// The profiles have next to no function in common.
    OtherProgram { old: String, new: String, common: Option<f64> },
    /// One of the runs failed.
    Ended { side: Sides, how: End },
    /// A profile that can hardly be trusted.
    Poor { side: Sides, facts: String },
    /// The profiles are of two hosts.
    OtherHost { old: &'p str, new: &'p str },
    /// The same CPU with ceilings that were measured anew.
    OtherCeilings,
    /// MPI ranks, none of which is in both.
    OtherRanks { old: Vec<u32>, new: Vec<u32> },
    /// Different arguments.
    OtherArguments { old: String, new: String },
    /// A different number of threads.
    OtherThreads { old: usize, new: usize },
    /// A module is under a new name.
    Renamed { old: &'p str, new: &'p str, functions: usize },
    /// A module has several possible new names.
    Undecided { old: &'p str, candidates: Vec<&'p str> },
    /// Functions of one name.
    Alike { name: &'p str, old: usize, new: usize, groups: usize },
    /// Loops of one line, or that moved too far.
    LoopsAlike { loops: usize, first: &'p str },
    /// Functions without a symbol.
    ByAddress { functions: usize },
    /// A figure that a profile does not have.
    NotMeasured { figures: Vec<Figure>, sides: Sides, reason: &'p str, functions: usize, first: &'p str },
    /// Further reasons.
    MoreReasons { reasons: usize },
    /// A figure without a known error, or of which a part was counted.
    NotComparable { figures: Vec<Figure>, why: Unknown, functions: usize, first: &'p str },
    /// Classes that are as likely another one.
    DoubtfulClass { functions: usize, first: &'p str },
    /// Times of one run each.
    OneRun,
    /// Enough figures that some differ by chance.
    Chance { figures: usize },
    /// Counts are compared exactly.
    Exact,
}

/// One of the profiles, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sides {
    Both,
    Old,
    New,
}

/// How a run ended that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Status(i32),
    Signal(i32),
}

impl Sides {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Sides::Both => "both profiles",
            Sides::Old => "the old profile",
            Sides::New => "the new profile",
        }
    }
}

impl Note<'_> {
    /// Stable short name.
    pub fn code(&self) -> &'static str {
        match self {
            Note::OtherProgram { .. } => "other-program",
            Note::Ended { .. } => "run-failed",
            Note::Poor { .. } => "poor",
            Note::OtherHost { .. } => "other-host",
            Note::OtherCeilings => "other-ceilings",
            Note::OtherRanks { .. } => "other-ranks",
            Note::OtherArguments { .. } => "other-arguments",
            Note::OtherThreads { .. } => "other-threads",
            Note::Renamed { .. } => "renamed",
            Note::Undecided { .. } => "ambiguous-module",
            Note::Alike { .. } => "ambiguous-function",
            Note::LoopsAlike { .. } => "ambiguous-loops",
            Note::ByAddress { .. } => "by-address",
            Note::NotMeasured { .. } => "not-measured",
            Note::MoreReasons { .. } => "more-not-measured",
            Note::NotComparable { why: Unknown::Part, .. } => "part-counted",
            Note::NotComparable { .. } => "no-interval",
            Note::DoubtfulClass { .. } => "doubtful-class",
            Note::OneRun => "one-run",
            Note::Chance { .. } => "chance",
            Note::Exact => "exact",
        }
    }

    /// Whether it concerns the comparison as a whole and comes before it.
    pub fn is_grave(&self) -> bool {
        matches!(
            self,
            Note::OtherProgram { .. } | Note::OtherArguments { .. } | Note::Ended { .. } | Note::OtherRanks { .. }
        )
    }
}

fn name(text: &str) -> String {
    shorten(text, NAME)
}

fn titles(figures: &[Figure]) -> String {
    figures.iter().map(|figure| figure.title()).collect::<Vec<_>>().join(", ")
}

/// `f`, or `f and 3 more functions`.
fn first_of(first: &str, functions: usize) -> String {
    match functions {
        0 | 1 => name(first),
        n => format!("{} and {}", name(first), several(n - 1, "more function")),
    }
}

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::OtherProgram { old, new, common } => {
                let why = match common {
                    Some(share) => format!("{} of their work is in functions of both", percent(*share)),
                    None => "they have other names, and no function of their own is in both".into(),
                };
                write!(f, "These are profiles of different programs, {} and {}: {why}.", name(old), name(new))
            }
            Note::Ended { side, how: End::Status(status) } => {
                write!(f, "The run of {} failed with exit status {status}: it may have done less work.", side.words())
            }
            Note::Ended { side, how: End::Signal(signal) } => {
                write!(f, "The run of {} was ended by signal {signal}: it may have done less work.", side.words())
            }
            Note::Poor { side, facts } => write!(f, "Little can be said from {}: {}.", side.words(), printable(facts)),
            Note::OtherHost { old, new } => {
                write!(f, "The profiles are of two hosts ({}, {}): times compare the hosts, too.", name(old), name(new))
            }
            Note::OtherCeilings => {
                write!(
                    f,
                    "The ceilings were measured anew between the profiles; their intervals are in those of the bounds."
                )
            }
            Note::OtherRanks { old, new } => {
                write!(
                    f,
                    "The profiles are of different MPI ranks ({}, {}), which may do different work.",
                    ranks(old),
                    ranks(new)
                )
            }
            Note::OtherArguments { old, new } => {
                write!(
                    f,
                    "The programs had different arguments, and so perhaps other work: {}; {}.",
                    name(old),
                    name(new)
                )
            }
            Note::OtherThreads { old, new } => write!(f, "The runs had {old} and {}.", several(*new, "thread")),
            Note::Renamed { old, new, functions } => {
                write!(f, "{} is compared with {} ({}).", name(new), name(old), several(*functions, "function"))
            }
            Note::Undecided { old, candidates } => {
                let all: Vec<String> = candidates.iter().take(NAMES).map(|module| name(module)).collect();
                write!(f, "{} may be {} now: not compared.", name(old), all.join(" or "))
            }
            Note::Alike { name: first, old, new, groups } => {
                let more =
                    if *groups > 1 { format!(", and {}", several(groups - 1, "more name")) } else { String::new() };
                write!(f, "Not told apart and not compared: {old} and {new} functions called {}{more}.", name(first))
            }
            Note::LoopsAlike { loops, first } => {
                write!(f, "{} not told apart and not compared, the first in {}.", several(*loops, "loop"), name(first))
            }
            Note::ByAddress { functions } => write!(
                f,
                "{} without a symbol compared by address: right only if the code there is the same.",
                several(*functions, "function")
            ),
            Note::NotMeasured { figures, sides, reason, functions, first } => {
                let (sides, who) = (sides.words(), first_of(first, *functions));
                write!(f, "Not measured in {sides}: {} of {who} ({}).", titles(figures), printable(reason))
            }
            Note::MoreReasons { reasons } => {
                write!(f, "{} for figures that were not measured.", several(*reasons, "more reason"))
            }
            Note::NotComparable { figures, why, functions, first } => {
                write!(f, "Not compared: {} of {} ({}).", titles(figures), first_of(first, *functions), why.words())
            }
            Note::DoubtfulClass { functions, first } => write!(
                f,
                "Held by another class, which is as likely another one (low): {}; not taken for a change.",
                first_of(first, *functions)
            ),
            Note::OneRun => {
                write!(
                    f,
                    "Intervals of times are of sampling; how runs of one program differ among themselves is not in them."
                )
            }
            Note::Chance { figures } => {
                write!(
                    f,
                    "{figures} figures are compared by 95 % intervals: about {} of them change by chance.",
                    figures.div_ceil(20)
                )
            }
            Note::Exact => write!(
                f,
                "Exact counts are compared exactly; work that depends on time, addresses or the order of threads differs from run to run."
            ),
        }
    }
}

fn ranks(all: &[u32]) -> String {
    let shown: Vec<String> = all.iter().take(NAMES).map(u32::to_string).collect();
    format!("{}{}", shown.join(" "), if all.len() > NAMES { " …" } else { "" })
}

/// The limits of a comparison, the gravest first.
pub fn of<'p>(diff: &Diff<'p>) -> Vec<Note<'p>> {
    let (old, new) = (diff.old, diff.new);
    let mut notes = Vec::new();
    if diff.is_other_program() {
        let command = |profile: &Profile| modules::program(profile).unwrap_or("a program without a name").to_owned();
        let common = program::common_share(&diff.changes);
        notes.push(Note::OtherProgram { old: command(old), new: command(new), common });
    }
    notes.extend(
        [(Sides::Old, old), (Sides::New, new)]
            .into_iter()
            .filter_map(|(side, profile)| Some(Note::Ended { side, how: end(profile)? })),
    );
    for (side, profile) in [(Sides::Old, old), (Sides::New, new)] {
        let trust = Trust::of(profile);
        if trust.level == Level::Poor {
            notes.push(Note::Poor { side, facts: trust.facts.join("; ") });
        }
    }
    let (ranks_old, ranks_new) = (ranks_of(old), ranks_of(new));
    if !ranks_old.is_empty() && !ranks_new.is_empty() && !ranks_old.iter().any(|rank| ranks_new.contains(rank)) {
        notes.push(Note::OtherRanks { old: ranks_old, new: ranks_new });
    }
    let arguments = |profile: &Profile| profile.run.command.iter().skip(1).cloned().collect::<Vec<_>>().join(" ");
    if arguments(old) != arguments(new) {
        notes.push(Note::OtherArguments { old: arguments(old), new: arguments(new) });
    }
    let threads = (old.run.threads.len(), new.run.threads.len());
    if threads.0 != threads.1 {
        notes.push(Note::OtherThreads { old: threads.0, new: threads.1 });
    }
    let compared = |figure: Figure| diff.changes.iter().any(|change| change.difference(figure).half().is_some());
    if old.machine.cpu != new.machine.cpu {
        notes.push(Note::OtherHost { old: &old.machine.cpu, new: &new.machine.cpu });
    } else if !diff.same_ceilings && compared(Figure::RoofFraction) {
        notes.push(Note::OtherCeilings);
    }
    notes.extend(matched(diff));
    notes.extend(unknown(diff));
    if compared(Figure::Time) {
        notes.push(Note::OneRun);
    }
    let uncertain = |d: &&Difference<'_>| !d.is_exact() && d.half().is_some();
    let figures = diff.changes.iter().flat_map(|change| &change.differences).filter(uncertain).count();
    if figures >= MANY && diff.changed().next().is_some() {
        notes.push(Note::Chance { figures });
    }
    if diff.changed().any(|change| change.changed().any(|d| d.is_exact())) {
        notes.push(Note::Exact);
    }
    notes
}

fn end(profile: &Profile) -> Option<End> {
    match (profile.run.signal, profile.run.exit_status) {
        (Some(signal), _) => Some(End::Signal(signal)),
        (None, Some(status)) if status != 0 => Some(End::Status(status)),
        _ => None,
    }
}

fn ranks_of(profile: &Profile) -> Vec<u32> {
    let mut all: Vec<u32> = profile.run.threads.iter().filter_map(|thread| thread.rank).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// How functions were found to be the same, if that may be wrong.
fn matched<'p>(diff: &Diff<'p>) -> Vec<Note<'p>> {
    let mut notes = Vec::new();
    let both = || diff.changes.iter().filter_map(|change| Some((change.old?, change.new?)));
    for renamed in &diff.modules.renamed {
        let functions = both().filter(|(old, new)| old.module == renamed.old && new.module == renamed.new).count();
        notes.push(Note::Renamed { old: renamed.old, new: renamed.new, functions });
    }
    for undecided in &diff.modules.undecided {
        notes.push(Note::Undecided { old: undecided.old, candidates: undecided.candidates.clone() });
    }
    if let Some(first) = diff.alike.first() {
        let groups = diff.alike.len();
        notes.push(Note::Alike { name: first.name(), old: first.old.len(), new: first.new.len(), groups });
    }
    let loops: usize = diff.changes.iter().map(|change| change.loops_alike).sum();
    if let Some(first) = diff.changes.iter().find(|change| change.loops_alike > 0) {
        notes.push(Note::LoopsAlike { loops, first: first.name() });
    }
    // In one build the code at an address is the same, which only its count can show.
    let other_code =
        |(old, new): &(&Function, &Function)| offset(old).is_some() && old.instructions != new.instructions;
    match both().filter(other_code).count() {
        0 => {}
        functions => notes.push(Note::ByAddress { functions }),
    }
    notes
}

/// Figures and the functions that lack them.
#[derive(Default)]
struct Lacking<'c, 'p>(BTreeMap<Figure, Vec<&'c Change<'p>>>);

impl<'c, 'p> Lacking<'c, 'p> {
    fn add(&mut self, figure: Figure, change: &'c Change<'p>) {
        self.0.entry(figure).or_default().push(change);
    }

    fn figures(&self) -> Vec<Figure> {
        self.0.keys().copied().collect()
    }

    /// How many functions lack one of them at least, and the first one.
    fn functions(&self) -> (usize, &'p str) {
        let most = self.0.values().max_by_key(|changes| changes.len());
        most.map_or((0, ""), |changes| (changes.len(), changes.first().map_or("", |change| change.name())))
    }
}

/// Figures that were not compared, by reason.
fn unknown<'p>(diff: &Diff<'p>) -> Vec<Note<'p>> {
    let mut missing: BTreeMap<(Sides, &str), Lacking> = BTreeMap::new();
    let mut others: BTreeMap<Unknown, Lacking> = BTreeMap::new();
    // A figure that an absent function lacks is no limit of the profile.
    for change in diff.changes.iter().filter(|change| change.presence() == Presence::Both) {
        // A bound follows from the other figures.
        for d in change.differences.iter().filter(|d| d.figure != Figure::RoofFraction) {
            let Outcome::Unknown(why) = d.outcome() else { continue };
            let lacking = match (d.old, d.new) {
                (Reading::Missing(old), Reading::Missing(new)) if old == new => missing.entry((Sides::Both, old)),
                (Reading::Missing(reason), _) => missing.entry((Sides::Old, reason)),
                (_, Reading::Missing(reason)) => missing.entry((Sides::New, reason)),
                _ => {
                    others.entry(why).or_default().add(d.figure, change);
                    continue;
                }
            };
            lacking.or_default().add(d.figure, change);
        }
    }
    let mut missing: Vec<_> = missing.into_iter().collect();
    missing.sort_by_key(|(_, lacking)| std::cmp::Reverse(lacking.functions().0));
    let reasons = missing.len();
    let mut notes = Vec::new();
    for ((sides, reason), lacking) in missing.iter().take(REASONS) {
        let (functions, first) = lacking.functions();
        let figures = lacking.figures();
        notes.push(Note::NotMeasured { figures, sides: *sides, reason, functions, first });
    }
    if reasons > REASONS {
        notes.push(Note::MoreReasons { reasons: reasons - REASONS });
    }
    for (why, lacking) in &others {
        let (functions, first) = lacking.functions();
        notes.push(Note::NotComparable { figures: lacking.figures(), why: *why, functions, first });
    }
    let mut doubtful = diff.changes.iter().filter(|change| change.class_outcome() == ClassOutcome::Doubtful);
    if let Some(first) = doubtful.next() {
        notes.push(Note::DoubtfulClass { functions: 1 + doubtful.count(), first: first.name() });
    }
    notes
}
