//! GPUs, with stand-ins for the driver and for CUPTI, and with what real ones once said.

#[path = "../common/shared.rs"]
mod shared;
#[path = "../common/stray.rs"]
mod stray;

mod ceilings;
mod recorded;
mod records;
mod trace;
