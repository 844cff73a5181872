//! The memory model: against arithmetic, against a slow second model, against cachegrind, on a real program.

mod cachegrind;
mod coherence;
mod data;
mod end_to_end;
mod feed;
mod footprint;
mod kernels;
mod pages;
mod programs;
mod reference;
mod sampled;
mod traffic;
mod windows;
