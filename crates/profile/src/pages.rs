//! How much memory accesses touched, in pages.

use serde::{Deserialize, Serialize};

/// Distinct pages of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pages {
    /// How many were touched.
    pub touched: u64,
    /// The model looked at a sample of the accesses only: there may be more.
    pub at_least: bool,
}

impl Pages {
    /// Bytes of one.
    pub const BYTES: u64 = 4096;

    /// Those of two address spaces together.
    pub fn beside(self, other: Pages) -> Pages {
        Pages { touched: self.touched.saturating_add(other.touched), at_least: self.at_least || other.at_least }
    }

    /// Those of the larger of two runs.
    pub fn larger(self, other: Pages) -> Pages {
        Pages { touched: self.touched.max(other.touched), at_least: self.at_least || other.at_least }
    }
}
