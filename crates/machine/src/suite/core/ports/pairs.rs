//! Mixes of two forms, in proportion to their rates.

use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::Kernel;
use crate::suite::core::emission::{Body, looped};
use crate::suite::core::forms::{Form, branch_without_flags};

/// Instructions of a loop, about.
const INSTRUCTIONS: usize = 224;

/// Largest number of one form for one of the other, and largest number of both in turn if these are near.
const MOST: usize = 40;
const TURN: usize = 12;

/// Largest relative distance of the counts from the proportion.
const NEAR: f64 = 0.05;

/// Counts of two forms with rates `a` and `b`, so that both alone would take equally long.
pub fn proportion(a: f64, b: f64) -> [usize; 2] {
    if a < b {
        let [more, fewer] = proportion(b, a);
        return [fewer, more];
    }
    let off = |[x, y]: [usize; 2]| (x as f64 / y as f64 / (a / b) - 1.0).abs();
    let turns = (1..TURN).flat_map(|y| (y..=TURN - y).map(move |x| [x, y]));
    // The shortest turn that is near.
    let near = turns.filter(|counts| off(*counts) <= NEAR).min_by_key(|[x, y]| x + y);
    near.unwrap_or([((a / b).round() as usize).clamp(1, MOST), 1])
}

/// The kernel of `counts` of each form in turn, evenly mixed.
///
/// # Errors
/// As [`looped`].
pub fn mixed(forms: [&Form; 2], counts: [usize; 2], features: Features) -> Result<Option<Kernel>, MachineError> {
    let [Ok(a), Ok(b)] = forms.map(|form| form.rate.as_ref()) else { return Ok(None) };
    let without_flags = branch_without_flags();
    let has_branch = forms.iter().any(|form| form.name == "branch");
    let body = |n: usize| match (has_branch && forms[n].name == "add", n) {
        (true, _) => &without_flags,
        (_, 0) => a,
        _ => b,
    };
    let bodies: [&Body; 2] = [body(0), body(1)];
    let turn = counts[0] + counts[1];
    let mut done = [0; 2];
    let mut steps = Vec::new();
    for n in 0..(INSTRUCTIONS / turn).max(1) * turn {
        // The first form whenever it is behind its share.
        let which = usize::from(done[0] * turn > n * counts[0] || counts[0] == 0);
        steps.push((bodies[which], done[which]));
        done[which] += 1;
    }
    let name = format!("{} {} and {} {}", counts[0], forms[0].name, counts[1], forms[1].name);
    let vectors = forms.iter().find_map(|form| form.vectors);
    looped(&name, features, vectors, (&steps, steps.len() as u64), |_| ()).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_in_proportion_to_the_rates() {
        assert_eq!(proportion(5.0, 1.0), [5, 1]);
        assert_eq!(proportion(2.96, 1.98), [3, 2]);
        assert_eq!(proportion(1.98, 1.99), [1, 1]);
        assert_eq!(proportion(0.25, 2.0), [1, 8]);
        assert_eq!(proportion(0.0625, 2.0), [1, 32]);
        assert_eq!(proportion(0.01, 3.0), [1, MOST]);
    }
}
