//! How well counts that were extended from windows are known.

use std::collections::HashMap;

use super::modules::Place;
use rprof_profile::evidence::estimate::{Estimate, Figures, Interval};

/// The intervals of an estimate.
#[derive(Debug)]
pub struct Intervals {
    /// By the function's start.
    functions: HashMap<Place, (Interval, Figures)>,
    /// By the loop's start.
    loops: HashMap<Place, Interval>,
}

impl Intervals {
    /// Those of `estimate`.
    pub fn of(estimate: &Estimate) -> Self {
        let (mut functions, mut loops) = (HashMap::new(), HashMap::new());
        for f in &estimate.functions {
            let at = |offset| Place { module: f.module, offset };
            functions.insert(at(f.start), (f.interval, f.figures));
            loops.extend(f.loops.iter().map(|of| (at(of.header), of.interval)));
        }
        Intervals { functions, loops }
    }

    /// The half-width of the interval of the function at `place`, relative.
    ///
    /// # Errors
    /// Why it has none.
    pub fn of_function(&self, place: Option<Place>) -> Result<f64, String> {
        half_width(place.and_then(|place| self.functions.get(&place)).map(|(interval, _)| interval))
    }

    /// Those of its FLOPs and of its bytes of loads and stores.
    pub fn figures_of_function(&self, place: Option<Place>) -> Figures {
        place.and_then(|place| self.functions.get(&place)).map(|(_, figures)| *figures).unwrap_or_default()
    }

    /// The same of the loop at `header` of the function at `place`: its own, or else its function's.
    ///
    /// # Errors
    /// Why it, or its function, has none.
    pub fn of_loop(&self, place: Option<Place>, header: u64) -> Result<f64, String> {
        let of_function = self.of_function(place)?;
        let own = place.and_then(|place| self.loops.get(&Place { offset: header, ..place }));
        own.map_or(Ok(of_function), |own| half_width(Some(own)))
    }
}

fn half_width(interval: Option<&Interval>) -> Result<f64, String> {
    match interval {
        Some(Interval::Within(error)) => Ok(*error),
        Some(Interval::NoSample) => {
            Err("windows met it, but no sample did: how much of it the rest of the run executed is not known".into())
        }
        Some(Interval::Unmet(share)) => {
            Err(format!("{:.0} % of its time is in a part of it that no window met", 100.0 * share))
        }
        Some(Interval::FewWindows) | None => Err("too few windows met it for an interval".into()),
    }
}
