//! The processes and threads of the program, with their memory, text and code caches.

pub mod address_space;
pub mod excursions;
pub mod heap;
pub mod hot_blocks;
pub mod image;
pub mod thread;
