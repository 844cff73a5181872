//! What calls of all watched families have in common: which ones a thread is in.

pub mod open_calls;
