//! What the counting engines know of x86-64: operands' addresses, run-time values, and (translator) the rules.

pub mod observe;
pub mod operands;
pub mod registers;
