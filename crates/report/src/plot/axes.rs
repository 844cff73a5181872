//! What the axes of a roofline count: FLOPs, or instructions if next to no FLOPs are executed. One picture has one unit.
//!
//! ```text
//! rate        operations / time          the same operations on both axes
//! intensity   operations / bytes
//! bound       rate / roof fraction       a share of the bound is the same in every unit
//! ```
//!
//! Instructions are issue slots: two that the processor fuses are one, as in the ceiling `issue`, so that no bound is above it.

use crate::Precision;
use rprof_model::metrics;
use rprof_profile::function::{Flops, Oi};
use rprof_profile::{Function, Profile};

/// With less than this share of the analysed time in functions that compute, the program is drawn in instructions.
const NEARLY_NONE: f64 = 0.1;

/// The operations of a roofline, and the ceilings that belong to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axes {
    /// FLOPs, ceilings of double precision.
    Dp,
    /// FLOPs, ceilings of single precision.
    Sp,
    /// Instructions.
    Instructions,
}

/// A function on some axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Operations per second; `None` if its time was not measured.
    pub rate: Option<f64>,
    /// Operations per byte.
    pub oi: Oi,
}

impl Place {
    /// The level furthest from the core that has bytes, and the intensity there.
    pub fn outermost(&self) -> Option<(&'static str, f64)> {
        self.levels().next()
    }

    /// The levels that have bytes, from memory inwards, and the intensities there.
    pub fn levels(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let oi = self.oi;
        let levels = [("DRAM", oi.dram), ("L3", oi.l3), ("L2", oi.l2), ("L1", oi.l1)];
        levels.into_iter().filter_map(|(level, i)| Some((level, i.filter(|i| *i > 0.0 && i.is_finite())?)))
    }
}

impl Axes {
    /// All of them.
    pub const ALL: [Axes; 3] = [Axes::Dp, Axes::Sp, Axes::Instructions];

    /// The user's choice, else those of the operations that take the time of `profile`.
    pub fn of(profile: &Profile, choice: Precision) -> Axes {
        let share_of = |wanted: fn(&Function) -> bool| -> f64 {
            profile.functions.iter().filter(|f| wanted(f)).filter_map(|f| f.share).sum()
        };
        let analysed = share_of(|f| f.analysis.axis.is_some());
        match choice {
            Precision::Instructions => Axes::Instructions,
            Precision::Mixed if share_of(computes) < NEARLY_NONE * analysed => Axes::Instructions,
            _ => Axes::of_flops(profile, choice),
        }
    }

    /// The user's choice, else the precision of most FLOPs.
    pub fn of_flops(profile: &Profile, choice: Precision) -> Axes {
        match choice {
            Precision::Dp => Axes::Dp,
            Precision::Sp => Axes::Sp,
            Precision::Mixed | Precision::Instructions => {
                of_most(profile.functions.iter().filter_map(|f| f.flops.as_ref()))
            }
        }
    }

    /// Those of one function alone.
    pub fn of_function(f: &Function) -> Axes {
        if computes(f) { of_most(f.flops.iter()) } else { Axes::Instructions }
    }

    /// `dp`, `sp` or `instructions`: in notes, in the page's data and its address.
    pub fn name(self) -> &'static str {
        match self {
            Axes::Dp => "dp",
            Axes::Sp => "sp",
            Axes::Instructions => "instructions",
        }
    }

    /// The unit of one operation.
    pub fn unit(self) -> &'static str {
        match self {
            Axes::Dp | Axes::Sp => "FLOP",
            Axes::Instructions => "instr",
        }
    }

    /// `operational intensity [FLOP/byte]`
    pub fn horizontal(self) -> String {
        let operations = if self == Axes::Instructions { "instructions" } else { "FLOP" };
        format!("operational intensity [{operations}/byte]")
    }

    /// The figures that a function must have for a place.
    pub fn needed(self) -> &'static str {
        match self {
            Axes::Dp | Axes::Sp => "FLOPs and bytes",
            Axes::Instructions => "counted instructions and bytes",
        }
    }

    /// The place of `f`; `None` if it has no such operations, or next to none.
    pub fn place(self, f: &Function) -> Option<Place> {
        match self {
            Axes::Dp | Axes::Sp => computes(f).then_some(Place { rate: f.analysis.flop_rate, oi: f.analysis.oi }),
            Axes::Instructions => {
                let instructions = f.work.as_ref().map(|work| work.issue_slots as f64).filter(|n| *n > 0.0)?;
                let rate = f.time_s.filter(|s| *s > 0.0).map(|s| instructions / s);
                Some(Place { rate, oi: metrics::per_byte(f, instructions) })
            }
        }
    }
}

/// Whether its operations are FLOPs.
fn computes(f: &Function) -> bool {
    f.analysis.axis.as_deref() == Some("flop")
}

fn of_most<'f>(all: impl Iterator<Item = &'f Flops>) -> Axes {
    let (double, single) = all.fold((0, 0), |(d, s), f| (d + f.dp + f.x87, s + f.sp));
    if single > double { Axes::Sp } else { Axes::Dp }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    /// The sample, every function of which executes `slots` instructions and no FLOP.
    fn of_integers(slots: u64) -> Profile {
        let mut profile = sample::profile();
        for f in &mut profile.functions {
            if let Some(work) = &mut f.work {
                work.issue_slots = slots;
            }
            f.analysis.axis = f.analysis.axis.as_ref().map(|_| "int".into());
        }
        profile
    }

    #[test]
    fn instructions_where_next_to_nothing_computes() {
        let mut profile = of_integers(1000);
        assert_eq!(Axes::of(&profile, Precision::Mixed), Axes::Instructions);
        assert_eq!(Axes::of(&profile, Precision::Sp), Axes::Sp, "the user's choice");
        let hottest = &mut profile.functions[0];
        hottest.analysis.axis = Some("flop".into());
        assert!(hottest.share.unwrap() > NEARLY_NONE);
        assert_eq!(Axes::of(&profile, Precision::Mixed), Axes::Dp);
        assert_eq!(Axes::of(&profile, Precision::Instructions), Axes::Instructions);
        profile.functions.clear();
        assert_eq!(Axes::of(&profile, Precision::Mixed), Axes::Dp, "nothing was analysed");
    }

    #[test]
    fn both_axes_count_the_same_operations() {
        let profile = of_integers(1000);
        let f = profile.functions.iter().find(|f| f.work.is_some() && f.time_s.is_some()).unwrap();
        let place = Axes::Instructions.place(f).unwrap();
        assert_eq!(place.rate, Some(1000.0 / f.time_s.unwrap()));
        let bytes = f.bytes.unwrap();
        assert_eq!(place.oi.l1, Some(1000.0 / bytes.l1.unwrap() as f64));
        assert_eq!(place.oi.dram, bytes.dram.filter(|b| *b > 0).map(|b| 1000.0 / b as f64));
        assert_eq!(Axes::Dp.place(f), None, "no FLOPs");
        let uncounted = profile.functions.iter().find(|f| f.work.is_none()).unwrap();
        assert_eq!(Axes::Instructions.place(uncounted), None);
    }
}
