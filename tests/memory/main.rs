//! The memory model: against arithmetic, against a slow second model, against cachegrind.

mod cachegrind;
mod feed;
mod kernels;
mod reference;
mod sampled;
mod traffic;
