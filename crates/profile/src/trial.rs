//! Trials: a change that was made in copies of the running program, and the time of a hot loop with and without it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::vocabulary::Class;

/// Declares the changes with everything that a change has.
macro_rules! changes {
    ($($(#[doc = $doc:literal])* $variant:ident $name:literal $words:literal $keeps:literal $cause:expr;)*) => {
        /// A change that is made in a copy.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Change {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Change {
            /// All of them, in the order in which they are tried.
            pub const ALL: &[Change] = &[$(Change::$variant),*];

            /// Its name in `profile.json`.
            pub fn name(self) -> &'static str {
                match self { $(Change::$variant => $name),* }
            }

            /// The words for it in a report.
            pub fn words(self) -> &'static str {
                match self { $(Change::$variant => $words),* }
            }

            /// Whether the program computes the same with it, up to rounding: its gain can be had. Else it is an upper bound.
            pub fn keeps_meaning(self) -> bool {
                match self { $(Change::$variant => $keeps),* }
            }

            /// The cause that it removes; `None`: it removes more than one.
            pub fn cause(self) -> Option<Class> {
                match self { $(Change::$variant => $cause),* }
            }
        }
    };
}

changes! {
    /// MXCSR has FTZ and DAZ set: denormal numbers are zero.
    FlushDenormals "flush-denormals" "denormal numbers flushed to zero" true Some(Class::Assists);
    /// The private memory is on huge pages.
    HugePages "huge-pages" "huge pages" true Some(Class::Tlb);
    /// The other threads stand still: nobody writes its lines, holds its locks or uses its bandwidth.
    OtherThreadsStopped "other-threads-stopped" "the other threads stopped" false None;
    /// A register that an instruction only writes in part is cleared before it.
    ZeroedDestinations "zeroed-destinations" "a zeroing idiom before merging instructions" true Some(Class::Ilp);
    /// Loads take their values from one line in L1.
    LoadsFromL1 "loads-from-l1" "all loads from L1" false None;
    /// Divisions and square roots are multiplications.
    NoDivisions "no-divisions" "multiplications instead of divisions" false Some(Class::DivSqrt);
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A ratio of times with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The geometric mean of the pairs' ratios.
    pub value: f64,
    /// Lower end.
    pub least: f64,
    /// Upper end.
    pub most: f64,
}

impl Ratio {
    /// Half the width of its interval, as a part of its value.
    pub fn half_width(&self) -> f64 {
        (self.most - self.least) / (2.0 * self.value)
    }

    /// Whether the whole interval lies below 1 − `least_gain`.
    pub fn is_gain(&self, least_gain: f64) -> bool {
        self.most < 1.0 - least_gain
    }
}

/// A change that was tried at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The function of the place.
    pub function: String,
    /// Its module's file name.
    pub module: String,
    /// Source file of the place.
    pub file: Option<String>,
    /// Source line of the place.
    pub line: Option<u32>,
    /// The change; `None`: two copies without any were compared.
    #[serde(deserialize_with = "Option::deserialize")]
    pub change: Option<Change>,
    /// Share of the program's CPU time in the stretch that was timed.
    pub share: f64,
    /// Time with the change ÷ time without; `None`: it was not measured, for `reason`.
    pub ratio: Option<Ratio>,
    /// The same of two copies without any change, made at the same moments.
    pub unchanged: Option<Ratio>,
    /// Seconds of a passing without the change and with it, for each pair.
    pub pairs: Vec<(f64, f64)>,
    /// CPU seconds of the program that the change saves, least and most; `None` without a ratio.
    #[serde(deserialize_with = "Option::deserialize")]
    pub saves_s: Option<(f64, f64)>,
    /// Why there is no ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A gain of less than this part of the time is none.
pub const LEAST_GAIN: f64 = 0.03;

impl Trial {
    /// Whether the change shortened the loop.
    pub fn gains(&self) -> bool {
        self.change.is_some() && self.ratio.is_some_and(|ratio| ratio.is_gain(LEAST_GAIN))
    }

    /// Whether the change was measured, closely enough to say that it does not help.
    pub fn gains_nothing(&self) -> bool {
        self.change.is_some()
            && self.ratio.is_some_and(|ratio| !ratio.is_gain(LEAST_GAIN) && ratio.least > 1.0 - 3.0 * LEAST_GAIN)
    }
}

/// All trials of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trials {
    /// Those that were made, the hottest places first.
    pub made: Vec<Trial>,
    /// Copies that were made of the program.
    pub copies: u64,
    /// Seconds that the program stood still for them.
    pub stopped_s: f64,
    /// Seconds by which it is estimated to have been delayed, with the pages that it had to copy.
    pub delayed_s: f64,
    /// Why nothing, or no more, was tried.
    #[serde(default)]
    pub reasons: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_outside_of_the_noise() {
        let trial = |value, least, most| Trial {
            function: "f".into(),
            module: "m".into(),
            file: None,
            line: None,
            change: Some(Change::HugePages),
            share: 0.5,
            ratio: Some(Ratio { value, least, most }),
            unchanged: None,
            pairs: Vec::new(),
            saves_s: None,
            reason: None,
        };
        assert!(trial(0.5, 0.48, 0.52).gains() && !trial(0.5, 0.48, 0.52).gains_nothing());
        assert!(!trial(0.96, 0.90, 1.02).gains() && !trial(0.96, 0.90, 1.02).gains_nothing());
        assert!(trial(1.0, 0.97, 1.03).gains_nothing());
        for change in Change::ALL {
            assert_eq!(serde_json::to_value(change).unwrap(), change.name());
        }
    }
}
