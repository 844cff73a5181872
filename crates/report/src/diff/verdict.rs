//! One sentence on a comparison: how many functions changed and which way, and the change of the whole program.

use crate::number::seconds;
use crate::verdict;

use super::Diff;
use super::change::{Change, Presence};
use super::difference::Outcome;
use super::figure::Figure;
use super::words::{self, several};

/// Functions that changed, in the order in which readers ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub slower: usize,
    pub faster: usize,
    /// Their time did not change, but another figure or the class did.
    pub otherwise: usize,
    pub new: usize,
    pub gone: usize,
    pub unchanged: usize,
}

impl Counts {
    /// Of all functions that could be distinguished.
    pub fn of(diff: &Diff<'_>) -> Counts {
        let mut counts = Counts::default();
        for change in &diff.changes {
            *counts.of_change(change) += 1;
        }
        counts
    }

    fn of_change(&mut self, change: &Change<'_>) -> &mut usize {
        match (change.is_changed(), change.presence(), change.difference(Figure::Time).outcome()) {
            (false, ..) => &mut self.unchanged,
            (true, Presence::New, _) => &mut self.new,
            (true, Presence::Gone, _) => &mut self.gone,
            (true, Presence::Both, Outcome::Grew) => &mut self.slower,
            (true, Presence::Both, Outcome::Fell) => &mut self.faster,
            (true, Presence::Both, _) => &mut self.otherwise,
        }
    }

    /// All that changed.
    pub fn changed(&self) -> usize {
        self.slower + self.faster + self.otherwise + self.new + self.gone
    }
}

/// The sentence.
pub fn sentence(diff: &Diff<'_>) -> String {
    let counts = Counts::of(diff);
    let mut out = match counts.changed() {
        0 => format!("No change: {} within the error of their figures.", several(counts.unchanged, "function")),
        changed => {
            let all = changed + counts.unchanged;
            let parts = [
                (counts.slower, "slower"),
                (counts.faster, "faster"),
                (counts.otherwise, "with other work"),
                (counts.new, "new"),
                (counts.gone, "gone"),
            ];
            let parts: Vec<String> =
                parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
            format!("{changed} of {} changed: {}.", several(all, "function"), parts.join(", "))
        }
    };
    if let (Some(old), Some(new)) = (verdict::wall_s(diff.old), verdict::wall_s(diff.new)) {
        out += &format!(" The program ran {} before and {} now (one run each).", seconds(old), seconds(new));
    }
    if let Some(told) = total(diff, Figure::Instructions) {
        out += &format!(" {told}.");
    }
    let kernels = diff.kernels.iter().filter(|kernel| kernel.is_changed()).count();
    if !diff.kernels.is_empty() {
        out += &format!(" {kernels} of {} changed.", several(diff.kernels.len(), "GPU kernel"));
    }
    out
}

/// `Instructions +20 % (1.20 G → 1.44 G, exact)`; `None` if they were not measured in both.
pub fn total(diff: &Diff<'_>, figure: Figure) -> Option<String> {
    let total = diff.total(figure)?;
    let d = &total.difference;
    d.old.value()?;
    d.new.value()?;
    let mut title = figure.title().to_owned();
    title[..1].make_ascii_uppercase();
    let left_out = match total.left_out {
        0 => String::new(),
        n => format!(", without {} not counted in both", several(n, "function")),
    };
    let (old, new) = (words::reading(figure, &d.old), words::reading(figure, &d.new));
    Some(match d.outcome() {
        Outcome::Unchanged if d.is_exact() => format!("{title}: exactly {old} in both{left_out}"),
        Outcome::Unchanged => format!("{title}: unchanged ({old}, {}{left_out})", words::error(d)),
        _ => format!("{title}: {} ({old} → {new}, {}{left_out})", words::change(d), words::error(d)),
    })
}
