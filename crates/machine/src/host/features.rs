//! Which instruction sets the microkernels may use.

use rprof_isa::operation::{FpOp, Width};

/// Instruction sets of this CPU that its operating system has enabled, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Rounding and blends.
    pub sse41: bool,
    /// Counting of set bits.
    pub popcnt: bool,
    /// `andn` and others.
    pub bmi1: bool,
    /// Rounds of SHA-1 and SHA-256.
    pub sha: bool,
    /// Rounds of AES.
    pub aes: bool,
    /// Multiplication without carries.
    pub pclmulqdq: bool,
    /// VEX-encoded 128- and 256-bit floating point.
    pub avx: bool,
    /// 256-bit integers and gathers.
    pub avx2: bool,
    /// Fused multiply-add.
    pub fma: bool,
    /// 512-bit vectors and masks.
    pub avx512f: bool,
    /// 64-bit multiplies and more.
    pub avx512dq: bool,
    /// Masks at 128 and 256 bits.
    pub avx512vl: bool,
    /// bfloat16 dot products.
    pub avx512bf16: bool,
    /// binary16 arithmetic.
    pub avx512fp16: bool,
    /// Integer dot products.
    pub avx512vnni: bool,
    /// VEX-encoded integer dot products, up to 256 bits.
    pub avxvnni: bool,
    /// Lines put out of the caches without waiting for one another.
    pub clflushopt: bool,
}

impl Features {
    /// Asks the CPU (CPUID and XCR0).
    #[cfg(target_arch = "x86_64")]
    pub fn detect() -> Self {
        use std::arch::is_x86_feature_detected as has;
        Features {
            sse41: has!("sse4.1"),
            popcnt: has!("popcnt"),
            bmi1: has!("bmi1"),
            sha: has!("sha"),
            aes: has!("aes"),
            pclmulqdq: has!("pclmulqdq"),
            avx: has!("avx"),
            avx2: has!("avx2"),
            fma: has!("fma"),
            avx512f: has!("avx512f"),
            avx512dq: has!("avx512dq"),
            avx512vl: has!("avx512vl"),
            avx512bf16: has!("avx512bf16"),
            avx512fp16: has!("avx512fp16"),
            avx512vnni: has!("avx512vnni"),
            avxvnni: has!("avxvnni"),
            clflushopt: raw_cpuid::CpuId::new().get_extended_feature_info().is_some_and(|f| f.has_clflushopt()),
        }
    }

    /// No instruction set of x86-64.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn detect() -> Self {
        Features::default()
    }

    /// Vector widths for floating point, ascending, scalar first.
    pub fn widths(&self) -> Vec<Width> {
        let mut widths = vec![Width::Scalar, Width::W128];
        if self.avx {
            widths.push(Width::W256);
        }
        if self.avx512f {
            widths.push(Width::W512);
        }
        widths
    }

    /// The widest vector.
    pub fn widest(&self) -> Width {
        self.widths().last().copied().unwrap_or(Width::Scalar)
    }

    /// Whether `op` exists at `width`.
    pub fn has(&self, op: FpOp, width: Width) -> bool {
        let fused = op != FpOp::Fma || self.fma || (self.avx512f && width == Width::W512);
        fused && op != FpOp::Other && self.widths().contains(&width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sse_alone_has_two_widths_and_no_fma() {
        let sse = Features::default();
        assert_eq!(sse.widths(), [Width::Scalar, Width::W128]);
        assert!(!sse.has(FpOp::Fma, Width::W128));
        assert!(sse.has(FpOp::Div, Width::Scalar));
    }
}
