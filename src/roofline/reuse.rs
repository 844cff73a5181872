//! Where lines that come from memory once more were before: what could be done that they still were in a cache.
//!
//! ```text
//! lines    = pages touched · 64                      what the function goes over, or the size of its data, whichever is more
//! rounds   = calls / threads of its team
//! passes   = lines from memory / lines / rounds      within one call
//! ```
//!
//! passes > 3: the same call meets its data again and again: blocking can keep a part of them in a cache. Otherwise a call goes over
//! its data about once, and blocking keeps nothing. If another function moves as much of the same data (by name and size),
//! both can be fused. This rests on the calls, which are counted, on the pages, of which sampled windows see some or all, and
//! on the names of data.

use crate::profile::Function;
use crate::profile::evidence::memory::LINE_BYTES;
use crate::profile::pages::Pages;

use super::surroundings::Surroundings;

/// Sampled windows may miss some pages, and some lines are met twice in a pass: from here on blocking has something to keep.
const AGAIN: f64 = 3.0;
/// Below this part of the misses those of what was there before are not worth a word.
const WORTH: f64 = 0.3;
const PAGE_LINES: f64 = Pages::BYTES as f64 / LINE_BYTES;

/// What lines from memory were before.
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

/// Bytes of the data that at least a twentieth of the lines of `function` belong to, each piece as large as the largest of its name.
fn size_of_data(function: &Function) -> f64 {
    let told = function.data.iter().filter(|data| data.share >= 0.05);
    told.filter_map(|data| Some(data.bytes? as f64 * f64::from(data.pieces.max(1)))).sum()
}

impl Reuse {
    /// Of the lines that `function` brings from memory.
    pub fn of(function: &Function, around: &Surroundings) -> Reuse {
        let Some(work) = &function.work else { return Reuse::Unknown };
        let Some(traffic) = work.traffic.filter(|t| t.capacity > WORTH * t.misses()) else { return Reuse::Unknown };
        let Some(pages) = function.pages.filter(|pages| pages.touched > 0) else { return Reuse::Unknown };
        let lines = (pages.touched as f64 * PAGE_LINES).max(size_of_data(function) / LINE_BYTES);
        let rounds = work.calls.map(|calls| (calls as f64 / f64::from(function.team.unwrap_or(1).max(1))).max(1.0));
        let passes = traffic.misses() / lines / rounds.unwrap_or(1.0);
        if passes > AGAIN {
            return if rounds.is_some() { Reuse::SameCall { passes } } else { Reuse::Unknown };
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
