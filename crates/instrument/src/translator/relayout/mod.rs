//! Hot code, written a second time: in a better order, with callees inlined and usual targets compared in place.

pub mod chain_writer;
mod execution;
pub mod hot_code;
pub mod huge;
pub mod inline_analysis;
pub mod inline_emit;
pub mod pettis_hansen;
pub mod rcx_elision;
pub mod target_prediction;
