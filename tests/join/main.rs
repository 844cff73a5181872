//! The join on hand-made evidence with known answers.

mod counts;
mod evidence;
mod time;
