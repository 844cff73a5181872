//! The choice of one of three instruction sets that the kernels use on this CPU.

/// The instruction set that a kernel is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// 128 bits, no FMA: every x86-64.
    Sse2,
    /// 256 bits with FMA.
    Avx2,
    /// 512 bits.
    Avx512,
}

impl Variant {
    /// The widest that this CPU and its kernel allow.
    pub fn detect() -> Variant {
        if is_x86_feature_detected!("avx512f") {
            Variant::Avx512
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            Variant::Avx2
        } else {
            Variant::Sse2
        }
    }

    /// The one of this name: `sse2`, `avx2`, `avx512`.
    pub fn named(name: &str) -> Option<Variant> {
        match name {
            "sse2" => Some(Variant::Sse2),
            "avx2" => Some(Variant::Avx2),
            "avx512" => Some(Variant::Avx512),
            _ => None,
        }
    }

    /// Bytes of a vector register.
    pub fn vector_bytes(self) -> usize {
        match self {
            Variant::Sse2 => 16,
            Variant::Avx2 => 32,
            Variant::Avx512 => 64,
        }
    }

    /// The width as ceiling ids spell it.
    pub fn width(self) -> &'static str {
        match self {
            Variant::Sse2 => "128",
            Variant::Avx2 => "256",
            Variant::Avx512 => "512",
        }
    }
}
