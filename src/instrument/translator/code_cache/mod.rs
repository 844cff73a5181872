//! The translations of an address space, and their memory.

pub mod arena;
pub mod block;
pub mod cache;
pub mod chunks;
pub mod hash;
pub mod layout;
pub mod shared;
pub mod stubs;
pub mod version;
