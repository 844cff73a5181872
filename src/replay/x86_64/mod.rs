//! x86-64: blocks of a burst → what the core model executes.

mod decode;
mod fusing;
mod registers;
mod work;

pub use decode::program;
