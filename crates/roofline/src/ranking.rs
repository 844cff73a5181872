//! Functions by the seconds of the whole program that their first removal saves.
//!
//! ```text
//! gain(f) = program_seconds (else seconds) of the first saving       the time counts only while no other function runs
//! ```

use rprof_profile::Function;
use rprof_profile::function::Saving;

/// A function and its first saving.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain<'p> {
    pub function: &'p Function,
    /// `None`: nothing worthwhile, or its time is not known.
    pub saving: Option<&'p Saving>,
}

impl<'p> Gain<'p> {
    /// Of `function`.
    pub fn of(function: &'p Function) -> Gain<'p> {
        // If its own time is not known, what the program gains may be: of calls of MPI, which take no CPU time.
        let is_known = |saving: &&Saving| function.time_s.is_some() || saving.program_seconds.is_some();
        let mut known = function.analysis.savings.iter().filter(is_known);
        Gain { function, saving: known.find(|saving| of_program(saving) > 0.0) }
    }

    /// Seconds of the program; 0 without a saving.
    pub fn seconds(&self) -> f64 {
        self.saving.map_or(0.0, of_program)
    }

    /// Whether [`seconds`](Self::seconds) is an upper limit: how much of the saving the program gains is not known.
    pub fn is_limit(&self) -> bool {
        self.saving.is_some_and(|saving| saving.program_seconds.is_none())
    }
}

/// Seconds of the program that a saving is worth; those of the function if the program's are not known.
pub fn of_program(saving: &Saving) -> f64 {
    saving.program_seconds.unwrap_or(saving.seconds)
}

/// `functions` by descending gain, and by descending share if the gain is equal.
pub fn by_gain<'p>(functions: impl Iterator<Item = &'p Function>) -> Vec<Gain<'p>> {
    let mut all: Vec<Gain<'p>> = functions.map(Gain::of).collect();
    let share = |gain: &Gain<'_>| gain.function.share.unwrap_or(-1.0);
    all.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()).then(share(b).total_cmp(&share(a))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::function::Analysis;

    fn function(name: &str, share: f64, savings: &[(f64, Option<f64>)]) -> Function {
        let saving = |(seconds, program_seconds): &(f64, Option<f64>)| Saving {
            remove: vec!["simd".into()],
            seconds: *seconds,
            seconds_max: *seconds,
            program_seconds: *program_seconds,
            advice: String::new(),
        };
        let analysis = Analysis { savings: savings.iter().map(saving).collect(), ..Analysis::default() };
        Function { name: name.into(), share: Some(share), time_s: Some(1.0), analysis, ..Function::default() }
    }

    #[test]
    fn what_the_program_gains_decides() {
        let all = [
            function("hot", 0.6, &[]),
            function("overlapped", 0.3, &[(0.9, Some(0.1))]),
            function("alone", 0.05, &[(0.2, Some(0.2)), (0.5, Some(0.05))]),
            function("unknown", 0.04, &[(0.15, None)]),
            Function { time_s: None, ..function("counted", 0.9, &[(5.0, None)]) },
        ];
        let ranked = by_gain(all.iter());
        let names: Vec<&str> = ranked.iter().map(|gain| gain.function.name.as_str()).collect();
        assert_eq!(names, ["alone", "unknown", "overlapped", "counted", "hot"]);
        assert_eq!((ranked[0].seconds(), ranked[0].is_limit(), ranked[1].is_limit()), (0.2, false, true));
    }
}
