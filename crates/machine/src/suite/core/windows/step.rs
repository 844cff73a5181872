//! The steps of a curve from one level to another.

/// Of two levels, how much higher the upper one must be.
const HIGHER: f64 = 1.4;

/// Searches, each with fresh values, before a step that is not reproduced is given up.
const SEARCHES: usize = 3;

/// Distance from the step, as a share of it, at which the curve must be on its levels.
const BESIDE: f64 = 0.04;

/// Why no step was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoStep {
    /// The curve is as high at the end as at the beginning.
    Flat,
    /// It goes up and down.
    Noisy,
    /// There was no time.
    Late,
}

/// The last place between `first` and `last` at which `height` is nearer to its value at `first` than to the upper level. That level is the
/// value at `last`, or `most` times the lower one if that is less. `None` from `height`: no time is left.
///
/// # Errors
/// [`NoStep`].
pub fn find(
    (first, last): (usize, usize),
    most: f64,
    mut height: impl FnMut(usize) -> Option<f64>,
) -> Result<usize, NoStep> {
    for _ in 0..SEARCHES {
        let mut at = |n| height(n).ok_or(NoStep::Late);
        let (low, high) = (at(first)?, at(last)?);
        if high < HIGHER * low {
            return Err(NoStep::Flat);
        }
        let middle = (low + high.min(most * low)) / 2.0;
        let (mut below, mut above) = (first, last);
        while above - below > 1 {
            let n = below.midpoint(above);
            if at(n)? < middle {
                below = n;
            } else {
                above = n;
            }
        }
        let beside = ((below as f64 * BESIDE) as usize).max(2);
        let before = at(below.saturating_sub(beside).max(first))?;
        let behind = at((above + beside).min(last))?;
        if before < middle && behind > middle {
            return Ok(below);
        }
    }
    Err(NoStep::Noisy)
}

/// Position at which a curve that is `low` at `x` and `high` at `y` reaches `middle`, if it rises with the logarithm.
pub fn between((x, low): (f64, f64), (y, high): (f64, f64), middle: f64) -> f64 {
    let part = ((middle - low) / (high - low)).clamp(0.0, 1.0);
    x * (y / x).powf(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers from 0 to 1.
    fn random() -> impl FnMut() -> f64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / (1 << 24) as f64
        }
    }

    #[test]
    fn a_step_is_found_exactly() {
        for step in [3, 84, 97, 447, 511] {
            let height = |n: usize| Some(if n <= step { 100.0 + n as f64 / 20.0 } else { 200.0 + n as f64 / 10.0 });
            assert_eq!(find((1, 1024), 2.0, height), Ok(step));
        }
    }

    #[test]
    fn a_ramp_is_cut_in_its_middle() {
        let height = |n: usize| Some(100.0 + 100.0 * ((n as f64 - 80.0) / 8.0).clamp(0.0, 1.0));
        let found = find((1, 512), 2.0, height).expect("a step");
        assert!((82..=86).contains(&found), "{found}");
    }

    #[test]
    fn a_step_of_many_times_is_cut_in_its_middle() {
        let height = |n: usize| Some(if n <= 1000 { 8.0 } else { 8.0 + 52.0 * ((n - 1000) as f64 / 100.0).min(1.0) });
        assert_eq!(find((1, 8192), f64::INFINITY, height), Ok(1049));
        assert_eq!(find((1, 8192), 2.0, height), Ok(1007));
    }

    #[test]
    fn noise_that_only_adds_moves_it_little() {
        let mut random = random();
        let height = |n: usize| Some((if n <= 200 { 100.0 } else { 195.0 }) * (1.0 + 0.2 * random()));
        let found = find((1, 1024), 2.0, height).expect("a step");
        assert!((196..=204).contains(&found), "{found}");
    }

    #[test]
    fn what_is_no_step_is_none() {
        assert_eq!(find((1, 512), 2.0, |n| Some(100.0 + n as f64 / 20.0)), Err(NoStep::Flat));
        assert_eq!(find((1, 512), 2.0, |_| None), Err(NoStep::Late));
        // Low during the search for the step, high when it is checked.
        let mut looks = 0;
        let wild = |n: usize| {
            looks = if n == 512 { 0 } else { looks + 1 };
            Some(if n == 512 || looks > 9 { 200.0 } else { 100.0 })
        };
        assert_eq!(find((1, 512), 2.0, wild), Err(NoStep::Noisy));
    }
}
