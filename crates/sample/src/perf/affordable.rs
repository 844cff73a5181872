//! The event of the samples, at a rate that costs little.

use std::io;

use nix::unistd::Pid;

use super::open::{Opened, Terms, greatest_rate, open_on, wanted};
use super::{probe, sample_cost};
use crate::SampleOptions;

/// Opens the event on `child` and all it will create, at the usual rate. If no rate is asked for and the usual one costs too
/// much, takes a lower one. The error is the last refusal.
pub(super) fn open(child: Pid, options: &SampleOptions) -> io::Result<Opened> {
    let opened = open_on(wanted(probe::cycles_interrupt(), options, greatest_rate()), child)?;
    let terms = opened.terms;
    if options.frequency_hz.is_some() {
        return Ok(opened);
    }
    let found = sample_cost::affordable_rate(terms);
    if found.is_some_and(|hz| hz >= terms.frequency_hz) {
        return Ok(opened);
    }
    // Its rings may be all the memory that we may lock.
    drop(opened);
    let affordable_hz = found.or_else(|| sample_cost::affordable_rate(terms)).unwrap_or(terms.frequency_hz);
    open_on(Terms { frequency_hz: affordable_hz.min(terms.frequency_hz), ..terms }, child)
}
