//! A function or loop before and after: all its figures and its class.

use rprof_profile::Function;

use super::ceilings::Moved;
use super::class::{self, ClassOutcome, Held};
use super::difference::Difference;
use super::figure::Figure;
use super::loops;
use super::pairs::Pair;
use super::reading::{Coverage, Reading};

/// The profiles' part in every comparison.
#[derive(Debug)]
pub struct Setting<'p> {
    pub old: Coverage,
    pub new: Coverage,
    pub moved: Moved<'p>,
}

/// A function or loop in both profiles, or in one of them.
#[derive(Debug, Clone)]
pub struct Change<'p> {
    pub old: Option<&'p Function>,
    pub new: Option<&'p Function>,
    /// In the order of [`Figure::ALL`].
    pub differences: Vec<Difference<'p>>,
    pub class: (Held, Held),
    /// Loops of a function, inner ones included.
    pub loops: Vec<Change<'p>>,
    /// Loops that could not be distinguished.
    pub loops_alike: usize,
}

/// In which of the profiles a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Both,
    New,
    Gone,
}

impl<'p> Change<'p> {
    /// Of a function.
    pub fn of(pair: Pair<'p>, setting: &Setting<'_>) -> Change<'p> {
        let none = Reading::Missing("the function is in neither profile");
        let absent = |coverage: &Coverage, figure| pair.new.or(pair.old).map_or(none, |f| coverage.absent(figure, f));
        let mut change = compared(pair, setting, absent);
        if let (Some(old), Some(new)) = (pair.old, pair.new) {
            // Cold functions have no loops in a profile: that a loop is not there says nothing of it.
            let absent = |_: &Coverage, _| Reading::Missing("the loop is not in this profile");
            let found = loops::of(old, new);
            let pairs = found.pairs.into_iter().map(|(old, new)| Pair { old, new });
            change.loops = pairs.map(|pair| compared(pair, setting, absent)).collect();
            change.loops_alike = found.alike;
        }
        change
    }

    /// The function as the new profile has it, else as the old one has.
    pub fn function(&self) -> Option<&'p Function> {
        self.new.or(self.old)
    }

    /// Its name.
    pub fn name(&self) -> &'p str {
        self.function().map_or("", |f| f.name.as_str())
    }

    /// File name of its module.
    pub fn module(&self) -> &'p str {
        self.function().map_or("", |f| f.module.as_str())
    }

    /// The old name of its module, if that is another.
    pub fn old_module(&self) -> Option<&'p str> {
        self.old.map(|f| f.module.as_str()).filter(|module| *module != self.module())
    }

    /// In which of the profiles it is.
    pub fn presence(&self) -> Presence {
        match (self.old, self.new) {
            (None, _) => Presence::New,
            (_, None) => Presence::Gone,
            _ => Presence::Both,
        }
    }

    /// One of its figures.
    pub fn difference(&self, figure: Figure) -> &Difference<'p> {
        &self.differences[figure as usize]
    }

    /// The figures that changed.
    pub fn changed(&self) -> impl Iterator<Item = &Difference<'p>> {
        self.differences.iter().filter(|difference| difference.is_changed())
    }

    /// Whether something else holds it.
    pub fn class_outcome(&self) -> ClassOutcome {
        class::outcome(self.class.0, self.class.1)
    }

    /// Whether one of its figures or its class changed.
    pub fn is_changed(&self) -> bool {
        self.changed().next().is_some() || self.class_outcome() == ClassOutcome::Changed
    }
}

fn compared<'p>(
    pair: Pair<'p>,
    setting: &Setting<'_>,
    absent: impl Fn(&Coverage, Figure) -> Reading<'p>,
) -> Change<'p> {
    let reading = |coverage: &Coverage, f: Option<&'p Function>, figure| match f {
        Some(f) => coverage.reading(f, figure),
        None => absent(coverage, figure),
    };
    let difference = |figure| Difference {
        figure,
        old: reading(&setting.old, pair.old, figure),
        new: reading(&setting.new, pair.new, figure),
        between: if figure == Figure::RoofFraction { setting.moved.error(pair.old, pair.new) } else { 0.0 },
    };
    Change {
        old: pair.old,
        new: pair.new,
        differences: Figure::ALL.into_iter().map(difference).collect(),
        class: (Held::of(pair.old), Held::of(pair.new)),
        loops: Vec::new(),
        loops_alike: 0,
    }
}
