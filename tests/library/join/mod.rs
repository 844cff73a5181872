//! The join on hand-made evidence with known answers.

mod counters;
mod counts;
mod evidence;
mod time;
