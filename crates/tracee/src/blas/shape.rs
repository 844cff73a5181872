//! The shape of a matrix product, from the arguments of its call.

use super::functions::{BlasFunction, Convention, Product, Size};

/// A shape as the caller gave it: in the caller's own order of rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Rows of the result, or of GEMV's matrix.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// Terms of each sum; `None` for GEMV.
    pub k: Option<u64>,
    /// `N`, `T` or `C` of A and B; GEMV has one.
    pub transposes: [u8; 2],
    /// Matrices are stored by rows.
    pub is_row_major: bool,
}

/// `CblasRowMajor`.
const ROW_MAJOR: u32 = 101;
/// `CblasColMajor`.
const COLUMN_MAJOR: u32 = 102;

/// Fills a buffer with the program's memory at an address; false if it cannot be read.
pub type Read<'r> = &'r dyn Fn(u64, &mut [u8]) -> bool;

/// The values behind the pointer arguments of a call. `None`: memory that cannot be read.
pub fn values_behind(function: &BlasFunction, arguments: &[u64], read: Read<'_>) -> Option<Vec<u64>> {
    let value = |behind: &super::functions::Behind| {
        let mut bytes = [0; 8];
        let length = match behind.size {
            Size::Byte => 1,
            Size::Four => 4,
            Size::Eight => 8,
        };
        let at = *arguments.get(usize::from(behind.argument))?;
        read(at, &mut bytes[..length]).then(|| u64::from_le_bytes(bytes))
    };
    function.behind().iter().map(value).collect()
}

/// The shape of a call: `arguments` are those in registers, `behind` the values behind pointers in the order of
/// [`BlasFunction::behind`]. `None`: no valid call, which the library refuses, or a function of another meaning.
pub fn shape(function: &BlasFunction, arguments: &[u64], behind: &[u64]) -> Option<Shape> {
    let narrow = |value: u64| if function.is_wide { value as i64 } else { i64::from(value as i32) };
    let size = |value: Option<&u64>| u64::try_from(narrow(*value?)).ok();
    let enumerated = |value: Option<&u64>| match *value? as u32 {
        111 => Some(b'N'),
        112 => Some(b'T'),
        // CblasConjNoTrans, which OpenBLAS and MKL add.
        113 | 114 => Some(b'C'),
        _ => None,
    };
    let character = |value: Option<&u64>| match (*value? as u8).to_ascii_uppercase() {
        letter @ (b'N' | b'T' | b'C') => Some(letter),
        // OpenBLAS: conjugated without a transpose.
        b'R' => Some(b'C'),
        _ => None,
    };
    let a = arguments;
    let (transposes, sizes) = match function.convention {
        Convention::Cblas => {
            if !matches!(*a.first()? as u32, ROW_MAJOR | COLUMN_MAJOR) {
                return None;
            }
            match function.product {
                Product::Gemm => ([enumerated(a.get(1))?, enumerated(a.get(2))?], &a[3..]),
                Product::Gemv => ([enumerated(a.get(1))?, 0], &a[2..]),
            }
        }
        Convention::Dnnl => ([character(a.first())?, character(a.get(1))?], &a[2..]),
        Convention::Fortran => match function.product {
            Product::Gemm => ([character(behind.first())?, character(behind.get(1))?], behind.get(2..)?),
            Product::Gemv => ([character(behind.first())?, 0], behind.get(1..)?),
        },
    };
    let k = match function.product {
        Product::Gemm => Some(size(sizes.get(2))?),
        Product::Gemv => None,
    };
    let is_row_major = match function.convention {
        Convention::Cblas => *a.first()? as u32 == ROW_MAJOR,
        Convention::Dnnl => true,
        Convention::Fortran => false,
    };
    Some(Shape { m: size(sizes.first())?, n: size(sizes.get(1))?, k, transposes, is_row_major })
}

#[cfg(test)]
mod tests {
    use super::super::functions::named;
    use super::*;

    #[test]
    fn c_has_values() {
        let gemm = named("cblas_dgemm").unwrap();
        // The upper halves of 32-bit arguments are not defined.
        let arguments = [101, 111, 112, 0xdead_0000_0080, 50, 784];
        let found = shape(&gemm, &arguments, &[]);
        assert_eq!(found, Some(Shape { m: 0x80, n: 50, k: Some(784), transposes: *b"NT", is_row_major: true }));
        let gemv = named("cblas_sgemv64_").unwrap();
        let found = shape(&gemv, &[102, 112, 5, 1 << 33, 0, 0], &[]);
        assert_eq!(found, Some(Shape { m: 5, n: 1 << 33, k: None, transposes: [b'T', 0], is_row_major: false }));
    }

    #[test]
    fn fortran_has_pointers() {
        let gemm = named("dgemm_").unwrap();
        let memory = |at: u64, buffer: &mut [u8]| {
            let value: u32 = match at {
                0x10 => u32::from(b't'),
                0x20 => u32::from(b'N'),
                _ => at as u32 / 0x100,
            };
            buffer.copy_from_slice(&value.to_le_bytes()[..buffer.len()]);
            at != 0
        };
        let arguments = [0x10, 0x20, 0x300, 0x400, 0x500, 0];
        let behind = values_behind(&gemm, &arguments, &memory).unwrap();
        let found = shape(&gemm, &arguments, &behind);
        assert_eq!(found, Some(Shape { m: 3, n: 4, k: Some(5), transposes: *b"TN", is_row_major: false }));
        assert_eq!(values_behind(&gemm, &[0; 6], &memory), None);
    }

    #[test]
    fn what_is_no_product_has_no_shape() {
        let gemm = named("cblas_dgemm").unwrap();
        for wrong in [[7, 111, 111, 1, 1, 1], [101, 1, 111, 1, 1, 1], [101, 111, 111, 1, u64::MAX, 1]] {
            assert_eq!(shape(&gemm, &wrong, &[]), None, "{wrong:?}");
        }
        let fortran = named("zgemv_").unwrap();
        assert_eq!(shape(&fortran, &[], &[u64::from(b'x'), 1, 1]), None);
        assert_eq!(shape(&fortran, &[], &[]), None);
    }
}
