//! What stands behind an address: where its page lies in physical memory, and what is mapped there.

pub mod huge_pages;
pub mod mappings;
pub mod page_color;
pub mod page_frames;
pub mod physical;
