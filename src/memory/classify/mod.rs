//! What kind a miss is, and in which pattern memory is touched.

pub mod access_pattern;
pub mod compulsory;
pub mod fully_associative;
pub mod overwriting;
