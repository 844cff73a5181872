//! The processes and threads of the program, with their memory, text and code caches.

pub mod excursions;
pub mod image;
pub mod process;
pub mod thread;
