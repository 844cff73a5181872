//! `form.NAME.lat` and `form.NAME.rate`.

use super::emission::{Body, looped};
use super::forms::{Chain, Form};
use super::found::{Found, Unit, Value};
use super::rounds::{Piece, Timed};
use crate::error::MachineError;
use crate::host::features::Features;

/// Steps of a loop: of a chain, and of independent instructions. The loop overhead must not lower the rate of the latter.
const LINKS: usize = 32;
const INDEPENDENT: usize = 224;

/// The kernels of all forms, and their places among the pieces.
pub struct Suite {
    forms: Vec<Form>,
    /// For each form, the indices of the pieces with its chain and its independent instructions.
    places: Vec<[Option<usize>; 2]>,
}

impl Suite {
    /// Emits the kernels of `forms` after `pieces`.
    ///
    /// # Errors
    /// As [`looped`].
    pub fn emit(forms: Vec<Form>, features: Features, pieces: &mut Vec<Piece>) -> Result<Self, MachineError> {
        let mut places = Vec::new();
        for form in &forms {
            let mut place = |body: Option<&Body>, times: usize| {
                let Some(body) = body else { return Ok(None) };
                let steps: Vec<(&Body, usize)> = (0..times).map(|n| (body, n)).collect();
                let kernel = looped(&form.name, features, form.vectors, (&steps, times as u64), &*form.setup)?;
                pieces.push(Piece::new(kernel)?);
                Ok::<_, MachineError>(Some(pieces.len() - 1))
            };
            let chain = form.chain.as_ref().ok().map(|chain| &chain.body);
            places.push([place(chain, LINKS)?, place(form.rate.as_ref().ok(), INDEPENDENT)?]);
        }
        Ok(Suite { forms, places })
    }

    /// The forms.
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// Notes the times of the pieces.
    pub fn note(&self, timed: &[Option<Timed>], found: &mut Found) {
        let at = |place: Option<usize>| place.and_then(|place| timed.get(place).copied().flatten());
        for (form, [_, rate]) in self.forms.iter().zip(&self.places) {
            let id = format!("form.{}.rate", form.name);
            match &form.rate {
                Ok(_) => found.rate_of(id, at(*rate)),
                Err(reason) => found.missing(id, Unit::Rate, reason),
            }
        }
        // Those that others are part of first.
        let mut order: Vec<_> = self.forms.iter().zip(&self.places).collect();
        order.sort_by_key(|(form, _)| form.chain.as_ref().is_ok_and(|chain| !chain.minus_forms.is_empty()));
        for (form, [chain, _]) in order {
            let id = format!("form.{}.lat", form.name);
            match (&form.chain, at(*chain)) {
                (Err(reason), _) => found.missing(id, Unit::Time, reason),
                (Ok(_), None) => found.no_time(id, Unit::Time),
                (Ok(chain), Some(timed)) => latency(id, chain, timed, found),
            }
        }
    }
}

fn latency(id: String, chain: &Chain, timed: Timed, found: &mut Found) {
    let Timed { cycles, clock_hz, spread } = timed;
    let others = chain.minus_forms.iter().map(|name| found.value(&format!("form.{name}.lat")).map(|v| v.value));
    let Some(others) = others.sum::<Option<f64>>() else {
        found.missing(id, Unit::Time, "another form in its chain was not measured");
        return;
    };
    let value = Value { value: (cycles - chain.minus - others) / chain.times, clock_hz, spread };
    match chain.how {
        Some(how) => found.derived(id, Unit::Time, value, how),
        None => found.measured(id, Unit::Time, value),
    }
}
