//! One ceiling of the host (docs/conventions.md, Ceilings).

use serde::{Deserialize, Serialize};

/// How ids of ceilings end whose pages have 4 KiB; without it they are those on huge pages.
pub const ON_SMALL_PAGES: &str = ".4k";

/// Ceilings of one id that differ by more than this are of different states of the memory.
const ANOTHER_STATE: f64 = 0.05;

/// How the reason of a ceiling begins that was measured before the core or the memory moved.
pub const EARLIER: &str = "from before";

/// Has each ceiling on small pages that is the measurement of `before`, while that on huge pages is of another state, follow that one:
/// they are compared with each other, and that would compare two states of the memory. The value is in proportion, and unsettled by
/// as much as the states differ.
pub fn bring_small_pages_along(ceilings: &mut [Ceiling], before: &[Ceiling]) {
    let value = |all: &[Ceiling], id: &str, threads: u32| all.iter().find(|c| c.is(id, threads)).and_then(|c| c.value);
    let left_behind = |c: &Ceiling| {
        let on_huge = c.id.strip_suffix(ON_SMALL_PAGES)?;
        let moved = value(ceilings, on_huge, c.threads)? / value(before, on_huge, c.threads)?;
        let is_behind = (moved - 1.0).abs() > ANOTHER_STATE && value(before, &c.id, c.threads) == c.value;
        is_behind.then(|| (on_huge.to_owned(), moved))
    };
    let moved: Vec<_> = ceilings.iter().map(left_behind).collect();
    for (ceiling, moved) in ceilings.iter_mut().zip(moved) {
        let (Some((on_huge, moved)), Some(value)) = (moved, ceiling.value) else { continue };
        let spread = ceiling.spread.unwrap_or(0.0).max((moved - 1.0).abs());
        (ceiling.value, ceiling.spread, ceiling.settled) = (Some(value * moved), Some(spread), false);
        ceiling.reason =
            Some(format!("{EARLIER} the memory moved, in proportion to {on_huge}; a later run measures it again"));
    }
}

/// One ceiling at one thread count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Id of docs/conventions.md, Ceilings, for instance `dp.fma`, `l2.triad`, `lat.dram`.
    pub id: String,
    /// Value in `unit` for all `threads` together (latencies: one access); `null` with a reason.
    pub value: Option<f64>,
    /// `flop/s op/s instr/s access/s byte/s s`; `op` for counts such as `overlap.window`.
    pub unit: String,
    /// Threads it was measured with.
    pub threads: u32,
    /// Core clock while it ran.
    pub clock_hz: Option<f64>,
    /// The core's clock some fifty microseconds later, where it was another one by then: wide vectors lower the clock of many
    /// CPUs, some of which raise it again as soon. It is what a look at the clock between such work sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resting_hz: Option<f64>,
    /// (max − min) / median over the fastest repetitions (one in eight in the core and near caches, half beyond; at least three),
    /// or what several moments of it, or copies of its code, differ by.
    pub spread: Option<f64>,
    /// The repetitions agreed.
    pub settled: bool,
    /// `measured` or `derived`.
    pub how: String,
    /// Why `value` is null, or what it was derived from.
    pub reason: Option<String>,
    /// Device: `cpu`, later others.
    #[serde(default = "cpu")]
    pub device: String,
}

impl Ceiling {
    /// What such work lowers the clock to, of what looks at the core see: 1 unless it has wide vectors and the CPU minds them.
    pub fn lowering(&self) -> f64 {
        self.clock_hz
            .zip(self.looked_hz())
            .filter(|(_, looked)| *looked > 0.0)
            .map_or(1.0, |(own, looked)| own / looked)
    }

    /// The clock that a look at the core sees that does such work.
    pub fn looked_hz(&self) -> Option<f64> {
        self.resting_hz.or(self.clock_hz)
    }

    /// A measured one that has settled, for tests.
    #[cfg(test)]
    pub fn settled(id: &str, value: f64, unit: &str, threads: u32) -> Self {
        Ceiling {
            id: id.into(),
            value: Some(value),
            unit: unit.into(),
            threads,
            clock_hz: None,
            resting_hz: None,
            spread: None,
            settled: true,
            how: "measured".into(),
            reason: None,
            device: cpu(),
        }
    }

    /// Whether it is ceiling `id` at `threads`.
    pub fn is(&self, id: &str, threads: u32) -> bool {
        self.id == id && self.threads == threads
    }

    /// Whether `other` is a value of the same ceiling at the same thread count.
    pub fn is_same(&self, other: &Ceiling) -> bool {
        self.is(&other.id, other.threads)
    }
}

fn cpu() -> String {
    "cpu".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_on_small_pages_are_not_compared_with_another_state_of_the_memory() {
        let at = |id: &str, value: f64| Ceiling::settled(id, value, "byte/s", 1);
        let before = [at("dram.read", 36e9), at("dram.read.4k", 30e9), at("dram.copy", 40e9), at("dram.copy.4k", 38e9)];
        let after = |read: f64, small: f64| {
            let mut now = [at("dram.read", read), at("dram.read.4k", small), before[2].clone(), before[3].clone()];
            bring_small_pages_along(&mut now, &before);
            now
        };
        let values = |now: &[Ceiling; 4]| now.clone().map(|c| c.value.expect("measured") / 1e9);
        let moved = after(72e9, 30e9);
        assert_eq!(values(&moved), [72.0, 60.0, 40.0, 38.0]);
        assert!(!moved[1].settled && moved[1].spread == Some(1.0) && moved[3].settled, "{moved:?}");
        assert!(moved[1].reason.as_deref().is_some_and(|r| r.starts_with(EARLIER) && r.contains("dram.read;")));
        assert_eq!(values(&after(72e9, 65e9)), [72.0, 65.0, 40.0, 38.0], "both of the new state");
        assert_eq!(values(&after(72e9, 30.1e9)), [72.0, 30.1, 40.0, 38.0], "measured there");
        assert_eq!(values(&after(36.5e9, 30e9)), [36.5, 30.0, 40.0, 38.0], "the same state");
    }
}
