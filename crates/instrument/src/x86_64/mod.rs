//! The x86-64 part of the counting engines: operands' addresses, run-time values, and (translator) the rules.

pub mod compare;
pub mod decode;
pub mod emit;
pub mod induction;
pub mod liveness;
pub mod lookup_index;
pub mod observe;
pub mod operands;
pub mod quick;
pub mod registers;

pub mod rewrite;
