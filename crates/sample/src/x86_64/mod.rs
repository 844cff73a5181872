//! x86-64: the registers that the unwinder needs and their places in the kernel's records.

pub mod registers;
