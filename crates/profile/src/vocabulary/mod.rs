//! The names that a profile uses, each with its words.

mod class;

pub use class::Class;
