//! x86-64: which registers the unwinder needs and where the kernel puts them.

pub mod registers;
