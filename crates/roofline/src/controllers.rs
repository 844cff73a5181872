//! The balance of the memory controllers (A.3).

use rprof_profile::counters::Counter;

/// Controllers are even if their mean is at least this share of the busiest.
const EVEN: f64 = 0.95;

/// The balance of the controllers with the most traffic, if it was certified, mostly the program's own, and uneven.
pub fn uneven(counters: &[Counter]) -> Option<f64> {
    let own = |c: &&Counter| c.certified && c.unit == "byte" && c.value.unwrap_or(0.0) > c.background.unwrap_or(0.0);
    let traffic = counters.iter().filter(own).filter(|c| c.balance.is_some());
    let most = traffic.max_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)))?;
    most.balance.filter(|b| *b > 0.0 && *b < EVEN)
}
