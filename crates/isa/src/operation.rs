//! The vocabulary of floating-point work: operation, precision, width. docs/conventions.md, Operations, defines the counts.

use serde::{Deserialize, Serialize};

/// The operation of a floating-point instruction on each lane, as far as FLOPs are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FpOp {
    /// Addition or subtraction: 1 FLOP per active lane.
    Add,
    /// Multiplication: 1 FLOP per active lane.
    Mul,
    /// Fused multiply-add in any sign combination: 2 FLOPs per active lane.
    Fma,
    /// Division: 1 FLOP per active lane.
    Div,
    /// Square root: 1 FLOP per active lane.
    Sqrt,
    /// Reciprocal approximations, x87 transcendentals, dot products and other mixed forms.
    Other,
}

/// The number format that an operation computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// IEEE binary64.
    Dp,
    /// IEEE binary32.
    Sp,
    /// IEEE binary16.
    Hp,
    /// bfloat16 (dot products, AMX).
    Bf16,
    /// x87 extended.
    X87,
}

/// The width of the operation: how many bits of the vector register it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Width {
    /// One lane.
    #[serde(rename = "scalar")]
    Scalar,
    /// 128 bits (64-bit MMX-register forms too).
    #[serde(rename = "128")]
    W128,
    /// 256 bits.
    #[serde(rename = "256")]
    W256,
    /// 512 bits (AMX tiles are booked here).
    #[serde(rename = "512")]
    W512,
}

impl Precision {
    /// Bytes of one element.
    pub fn bytes(self) -> u32 {
        match self {
            Precision::Dp => 8,
            Precision::Sp => 4,
            Precision::Hp | Precision::Bf16 => 2,
            Precision::X87 => 10,
        }
    }
}

impl Width {
    /// Lanes of an operation of this width in `precision`.
    pub fn lanes(self, precision: Precision) -> u32 {
        let bits = match self {
            Width::Scalar => return 1,
            Width::W128 => 128,
            Width::W256 => 256,
            Width::W512 => 512,
        };
        if precision == Precision::X87 { 1 } else { bits / (8 * precision.bytes()) }
    }

    /// The name used in ceiling ids and in the profile: `scalar`, `128`, `256`, `512`.
    pub fn name(self) -> &'static str {
        match self {
            Width::Scalar => "scalar",
            Width::W128 => "128",
            Width::W256 => "256",
            Width::W512 => "512",
        }
    }
}

impl FpOp {
    /// The name used in ceiling ids and in the profile.
    pub fn name(self) -> &'static str {
        match self {
            FpOp::Add => "add",
            FpOp::Mul => "mul",
            FpOp::Fma => "fma",
            FpOp::Div => "div",
            FpOp::Sqrt => "sqrt",
            FpOp::Other => "other",
        }
    }
}

impl Precision {
    /// The name used in ceiling ids and in the profile.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Dp => "dp",
            Precision::Sp => "sp",
            Precision::Hp => "hp",
            Precision::Bf16 => "bf16",
            Precision::X87 => "x87",
        }
    }
}
