//! FLOPs by precision, operation and width.
//!
//! The counted pass knows every part. Hardware counters know the sum, and in some cases precision or width: [`MissingFlops`] names the
//! parts that they do not distinguish. These are part of no sum, and a profile has `null` for them.

use serde::{Deserialize, Serialize};

/// FLOPs; `by_op` and `by_width` sum to `total` if they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Flops {
    pub total: u64,
    pub dp: u64,
    pub sp: u64,
    pub hp: u64,
    pub bf16: u64,
    pub x87: u64,
    pub by_op: FlopsByOp,
    pub by_width: FlopsByWidth,
    /// Parts that were not measured; their fields are 0 here and `null` in the file.
    pub missing_parts: MissingFlops,
}

/// Which parts of [`Flops`] were not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MissingFlops {
    /// `dp` and `sp`.
    pub precision: bool,
    /// `hp`, `bf16` and `x87`.
    pub rare: bool,
    /// `by_op`.
    pub op: bool,
    /// `by_width`.
    pub width: bool,
}

impl MissingFlops {
    /// The unknown parts of a sum of addends that lack these.
    pub fn or(self, other: MissingFlops) -> MissingFlops {
        MissingFlops {
            precision: self.precision || other.precision,
            rare: self.rare || other.rare,
            op: self.op || other.op,
            width: self.width || other.width,
        }
    }
}

/// FLOPs by operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FlopsByOp {
    pub add: u64,
    pub mul: u64,
    pub fma: u64,
    pub div: u64,
    pub sqrt: u64,
    pub other: u64,
}

/// FLOPs by width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FlopsByWidth {
    pub scalar: u64,
    #[serde(rename = "128")]
    pub w128: u64,
    #[serde(rename = "256")]
    pub w256: u64,
    #[serde(rename = "512")]
    pub w512: u64,
}

/// As the file has them.
#[derive(Serialize, Deserialize)]
struct Written {
    total: u64,
    dp: Option<u64>,
    sp: Option<u64>,
    hp: Option<u64>,
    bf16: Option<u64>,
    x87: Option<u64>,
    by_op: Option<FlopsByOp>,
    by_width: Option<FlopsByWidth>,
}

impl From<Flops> for Written {
    fn from(flops: Flops) -> Written {
        let Flops { total, dp, sp, hp, bf16, x87, by_op, by_width, missing_parts } = flops;
        Written {
            total,
            dp: (!missing_parts.precision).then_some(dp),
            sp: (!missing_parts.precision).then_some(sp),
            hp: (!missing_parts.rare).then_some(hp),
            bf16: (!missing_parts.rare).then_some(bf16),
            x87: (!missing_parts.rare).then_some(x87),
            by_op: (!missing_parts.op).then_some(by_op),
            by_width: (!missing_parts.width).then_some(by_width),
        }
    }
}

impl From<Written> for Flops {
    fn from(written: Written) -> Flops {
        let Written { total, dp, sp, hp, bf16, x87, by_op, by_width } = written;
        let missing_parts = MissingFlops {
            precision: dp.is_none() || sp.is_none(),
            rare: hp.is_none() || bf16.is_none() || x87.is_none(),
            op: by_op.is_none(),
            width: by_width.is_none(),
        };
        let part = |n: Option<u64>| n.unwrap_or(0);
        Flops {
            total,
            dp: part(dp),
            sp: part(sp),
            hp: part(hp),
            bf16: part(bf16),
            x87: part(x87),
            by_op: by_op.unwrap_or_default(),
            by_width: by_width.unwrap_or_default(),
            missing_parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_told_is_null_and_stays_so() {
        let missing_parts = MissingFlops { rare: true, op: true, ..MissingFlops::default() };
        let by_width = FlopsByWidth { w256: 7, ..FlopsByWidth::default() };
        let flops = Flops { total: 7, dp: 7, by_width, missing_parts, ..Flops::default() };
        let json = serde_json::to_value(flops).unwrap();
        assert_eq!((&json["x87"], &json["by_op"], &json["sp"]), (&().into(), &().into(), &0.into()));
        assert_eq!(serde_json::from_value::<Flops>(json).unwrap(), flops);
    }

    #[test]
    fn what_was_counted_is_written_whole() {
        let json = serde_json::to_value(Flops { total: 1, dp: 1, ..Flops::default() }).unwrap();
        assert_eq!(json["by_op"]["fma"], 0);
        assert_eq!(serde_json::from_value::<Flops>(json).unwrap().missing_parts, MissingFlops::default());
    }
}
