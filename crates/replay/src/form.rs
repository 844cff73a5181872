//! Forms: groups of instructions that a core executes alike, by which latencies and execution ports are measured.

use rprof_isa::operation::Width;

/// Forms without their widths, in the order of [`Kind::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Integer addition, subtraction, logic, comparison; `lea` of two components.
    Add,
    /// Integer multiplication.
    Imul,
    /// Integer division of 64 bits.
    Div64,
    /// Integer division of 32 bits and fewer.
    Div32,
    /// Shifts and rotations.
    Shift,
    /// Shifts by a count in a register that change flags.
    ShiftCl,
    /// `lea` of three components.
    Lea3,
    /// BMI1 and BMI2.
    Bmi,
    /// `popcnt`, `lzcnt`, `tzcnt`, `bsf`, `bsr`.
    Popcnt,
    Cmov,
    Setcc,
    /// `adc`, `sbb`.
    Adc,
    /// Jumps, calls, returns.
    Branch,
    /// Read-modify-write with a bus lock, fences.
    Locked,
    /// Slow instructions that no other form describes.
    Special,
    /// Vector integer addition, comparison, minimum.
    VAdd,
    /// Vector integer multiplication.
    VMul,
    VShift,
    VLogic,
    /// Permutation within 128 bits.
    Shuffle,
    /// Permutation across 128 bits.
    Permute,
    Blend,
    FAdd,
    FMul,
    FFma,
    /// Division in double precision.
    FDiv,
    /// Square root in double precision.
    FSqrt,
    /// Division in single precision.
    FDivs,
    /// Square root in single precision.
    FSqrts,
    /// FP comparison that yields a mask.
    FCmp,
    FMinmax,
    FRound,
    /// Conversion within vector registers.
    Cvt,
    /// Conversion from or to a general register.
    CvtInt,
    MovGprVec,
    MovVecGpr,
    /// FP comparison that sets flags.
    Fcomi,
    /// Operations on mask registers.
    Kop,
    /// Rounds of SHA-1 and SHA-256.
    Sha,
    /// Rounds of AES.
    Aes,
    /// Multiplication without carries.
    Clmul,
}

impl Kind {
    /// All of them, each with its name in `form.NAME.lat`, whether its name has a width, the latency in cycles and the executions a
    /// cycle that are assumed if neither is measured.
    pub const ALL: [(Kind, &'static str, bool, f64, f64); 41] = [
        (Kind::Add, "add", false, 1.0, 4.0),
        (Kind::Imul, "imul", false, 3.0, 1.0),
        (Kind::Div64, "div64", false, 14.0, 0.15),
        (Kind::Div32, "div32", false, 12.0, 0.17),
        (Kind::Shift, "shift", false, 1.0, 2.0),
        (Kind::ShiftCl, "shiftcl", false, 1.0, 1.0),
        (Kind::Lea3, "lea3", false, 1.0, 2.0),
        (Kind::Bmi, "bmi", false, 1.0, 2.0),
        (Kind::Popcnt, "popcnt", false, 3.0, 1.0),
        (Kind::Cmov, "cmov", false, 1.0, 2.0),
        (Kind::Setcc, "setcc", false, 1.0, 2.0),
        (Kind::Adc, "adc", false, 1.0, 2.0),
        (Kind::Branch, "branch", false, 1.0, 2.0),
        (Kind::Locked, "locked", false, 18.0, 0.06),
        (Kind::Special, "special", false, 25.0, 0.05),
        (Kind::VAdd, "vadd", true, 1.0, 2.0),
        (Kind::VMul, "vmul", true, 5.0, 1.0),
        (Kind::VShift, "vshift", true, 1.0, 2.0),
        (Kind::VLogic, "vlogic", true, 1.0, 3.0),
        (Kind::Shuffle, "shuffle", true, 1.0, 2.0),
        (Kind::Permute, "permute", true, 3.0, 1.0),
        (Kind::Blend, "blend", true, 1.0, 3.0),
        (Kind::FAdd, "fadd", true, 4.0, 2.0),
        (Kind::FMul, "fmul", true, 4.0, 2.0),
        (Kind::FFma, "ffma", true, 4.0, 2.0),
        (Kind::FDiv, "fdiv", true, 14.0, 0.25),
        (Kind::FSqrt, "fsqrt", true, 18.0, 0.17),
        (Kind::FDivs, "fdivs", true, 11.0, 0.33),
        (Kind::FSqrts, "fsqrts", true, 12.0, 0.33),
        (Kind::FCmp, "fcmp", true, 3.0, 2.0),
        (Kind::FMinmax, "fminmax", true, 3.0, 2.0),
        (Kind::FRound, "fround", true, 8.0, 1.0),
        (Kind::Cvt, "cvt", true, 4.0, 2.0),
        (Kind::CvtInt, "cvtint", true, 6.0, 1.0),
        (Kind::MovGprVec, "movgprvec", false, 2.0, 1.0),
        (Kind::MovVecGpr, "movvecgpr", false, 2.0, 1.0),
        (Kind::Fcomi, "fcomi", false, 4.0, 1.0),
        (Kind::Kop, "kop", false, 1.0, 1.0),
        (Kind::Sha, "sha", true, 4.0, 0.5),
        (Kind::Aes, "aes", true, 4.0, 1.0),
        (Kind::Clmul, "clmul", true, 4.0, 1.0),
    ];

    /// Whether it runs on vector ports.
    pub fn is_vector(self) -> bool {
        self as u8 >= Kind::VAdd as u8
    }
}

/// A form: a kind at a width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form(pub u8);

/// Number of forms.
pub const FORMS: usize = Kind::ALL.len() * 4;

impl Form {
    /// `kind` on scalars, or without a width.
    pub fn scalar(kind: Kind) -> Form {
        Form::new(kind, Width::Scalar)
    }

    pub fn new(kind: Kind, width: Width) -> Form {
        Form(kind as u8 * 4 + width_index(width) as u8)
    }

    /// All forms with their kinds and widths.
    pub fn all() -> impl Iterator<Item = (Form, Kind, Width)> {
        let widths = [Width::Scalar, Width::W128, Width::W256, Width::W512];
        Kind::ALL.iter().flat_map(move |row| widths.map(|width| (Form::new(row.0, width), row.0, width)))
    }

    pub fn kind(self) -> Kind {
        Kind::ALL[self.0 as usize / 4].0
    }
}

/// 0 for scalars, 1, 2, 3 for 128, 256, 512 bits.
pub fn width_index(width: Width) -> usize {
    match width {
        Width::Scalar => 0,
        Width::W128 => 1,
        Width::W256 => 2,
        Width::W512 => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        assert!(Kind::ALL.iter().enumerate().all(|(n, row)| row.0 as usize == n));
        assert_eq!(Form::new(Kind::FFma, Width::W256).kind(), Kind::FFma);
    }
}
