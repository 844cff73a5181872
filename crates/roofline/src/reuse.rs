//! Earlier uses of lines that come from memory again, and how a program could keep them in a cache.
//!
//! ```text
//! lines    = pages touched · 64                      what the function goes over, at least; at most the size of its data
//! rounds   = calls / threads of its team
//! passes   = lines from memory / lines / rounds      within one call
//! ```
//!
//! passes > 3: the same call uses its data again and again: blocking can keep a part of them in a cache. Otherwise a call goes over
//! its data about once, and blocking keeps nothing. If another function moves as much of the same data (by name and size) as often,
//! both can be fused. If sampled windows saw too few pages to decide, the report says nothing. The evidence is the calls, which are
//! counted, the pages, of which sampled windows see some or all, and the names of data.

use rprof_profile::Function;
use rprof_profile::evidence::memory::LINE_BYTES;
use rprof_profile::pages::Pages;

use super::surroundings::Surroundings;

/// Number of passes from which blocking helps: sampled windows may miss some pages, and a pass may use some lines twice.
const AGAIN: f64 = 3.0;
/// The same if windows may have seen only a part of the pages.
const SURELY_AGAIN: f64 = 30.0;
/// Least share of repeated lines among the misses that a report mentions.
const WORTH: f64 = 0.3;
const PAGE_LINES: f64 = Pages::BYTES as f64 / LINE_BYTES;

/// The earlier use of lines from memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Reuse {
    /// New, for the most part, or not known.
    #[default]
    Unknown,
    /// The same call had them.
    SameCall {
        /// How often one call goes over them.
        passes: f64,
    },
    /// Another function had them.
    OtherFunction {
        /// Its name.
        name: String,
        /// Name of the data.
        data: String,
        /// Part of the lines from memory that are of such data.
        share: f64,
    },
    /// An earlier call had them, which goes over all of them.
    EarlierCall {
        /// Bytes of one pass.
        bytes: f64,
    },
}

/// Bytes of the data that at least a twentieth of the lines of `function` belong to; `None` if a name covers several
/// pieces, or has no size.
fn size_of_data(function: &Function) -> Option<f64> {
    let told = function.data.iter().filter(|data| data.share >= 0.05);
    let sizes = told.map(|data| data.bytes.filter(|_| data.pieces == 1).map(|bytes| bytes as f64));
    sizes.sum::<Option<f64>>().filter(|bytes| *bytes > 0.0)
}

impl Reuse {
    /// Of the lines that `function` brings from memory.
    pub fn of(function: &Function, around: &Surroundings) -> Reuse {
        let Some(work) = &function.work else { return Reuse::Unknown };
        let Some(traffic) = work.traffic.filter(|t| t.capacity > WORTH * t.misses()) else { return Reuse::Unknown };
        let Some(pages) = function.pages.filter(|pages| pages.touched > 0) else { return Reuse::Unknown };
        let (seen, exact) = (pages.touched as f64 * PAGE_LINES, size_of_data(function));
        let lines = exact.map_or(seen, |bytes| seen.max(bytes / LINE_BYTES));
        let rounds = function.rounds();
        let passes = traffic.misses() / lines / rounds.unwrap_or(1.0);
        if passes > AGAIN {
            // Few pages may have been seen, of many.
            let sure = rounds.is_some() && (exact.is_some() || !pages.at_least || passes > SURELY_AGAIN);
            return if sure { Reuse::SameCall { passes } } else { Reuse::Unknown };
        }
        match around.sharing(function) {
            Some(shared) => {
                Reuse::OtherFunction { name: shared.with.into(), data: shared.data.into(), share: shared.share }
            }
            None => {
                let rounds = rounds.unwrap_or(passes.max(1.0));
                Reuse::EarlierCall { bytes: LINE_BYTES * traffic.misses() / rounds }
            }
        }
    }

    /// Part of its repeated lines that another function had.
    pub fn shared(&self) -> f64 {
        if let Reuse::OtherFunction { share, .. } = self { *share } else { 0.0 }
    }
}
