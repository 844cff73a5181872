//! Hot code, written a second time: in a better order, with callees inlined, targets predicted and lookups ordered.

pub mod hot_code;
pub mod huge;
pub mod inline_analysis;
pub mod inline_emit;
pub mod lookup_order;
pub mod pettis_hansen;
pub mod rcx_elision;
pub mod target_prediction;
