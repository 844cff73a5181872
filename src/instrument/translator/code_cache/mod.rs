//! What is translated for an address space, and where it lies.

pub mod arena;
pub mod block;
pub mod cache;
pub mod chunks;
pub mod hash;
pub mod layout;
pub mod shared;
pub mod stubs;
pub mod version;
