//! Addresses to functions, inline frames and source lines.
