//! x86-64: blocks of a burst → operations of the core model.

mod decode;
mod fusing;
mod registers;
mod work;

pub use decode::program;
