//! Properties of an address: the place of its page in physical memory, and its mapping.

pub mod huge_pages;
pub mod mappings;
pub mod page_color;
pub mod page_frames;
pub mod physical;
