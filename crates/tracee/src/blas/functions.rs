//! The matrix products of BLAS by their names: GEMM and GEMV, in C's and Fortran's calling conventions, of all element types.

/// The product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// C (m × n) = α A (m × k) B (k × n) + β C.
    Gemm,
    /// y = α A x + β y, with A of m × n.
    Gemv,
}

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// `s`
    Single,
    /// `d`
    Double,
    /// `c`
    ComplexSingle,
    /// `z`
    ComplexDouble,
}

impl Element {
    /// The element that a name's letter means.
    fn of_letter(letter: u8) -> Option<Element> {
        match letter {
            b's' => Some(Element::Single),
            b'd' => Some(Element::Double),
            b'c' => Some(Element::ComplexSingle),
            b'z' => Some(Element::ComplexDouble),
            _ => None,
        }
    }
}

/// How a function takes its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Convention {
    /// C: order, transposes and dimensions are values.
    Cblas,
    /// Fortran: all arguments are pointers.
    Fortran,
    /// oneDNN's C: transposes are characters, dimensions are values of 64 bits.
    Dnnl,
}

/// A matrix product of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlasFunction {
    /// The product.
    pub product: Product,
    /// Its elements.
    pub element: Element,
    /// Its arguments.
    pub convention: Convention,
    /// Dimensions have 64 bits; else 32.
    pub is_wide: bool,
}

/// The bytes to read behind a pointer argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A character.
    Byte,
    /// A 32-bit integer.
    Four,
    /// A 64-bit integer.
    Eight,
}

/// A pointer argument to a part of the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Position of the argument, from 0; all are in registers.
    pub argument: u8,
    /// Bytes of its target.
    pub size: Size,
}

const fn behind(argument: u8, size: Size) -> Behind {
    Behind { argument, size }
}

/// `dgemm_(transa, transb, m, n, k, …)`
const GEMM: [[Behind; 5]; 2] = [gemm(Size::Four), gemm(Size::Eight)];
/// `dgemv_(trans, m, n, …)`
const GEMV: [[Behind; 3]; 2] = [gemv(Size::Four), gemv(Size::Eight)];

const fn gemm(size: Size) -> [Behind; 5] {
    [behind(0, Size::Byte), behind(1, Size::Byte), behind(2, size), behind(3, size), behind(4, size)]
}

const fn gemv(size: Size) -> [Behind; 3] {
    [behind(0, Size::Byte), behind(1, size), behind(2, size)]
}

impl BlasFunction {
    /// The pointers to read behind: transposes, then dimensions. Empty if the registers hold them.
    pub fn behind(&self) -> &'static [Behind] {
        let wide = usize::from(self.is_wide);
        match (self.convention, self.product) {
            (Convention::Fortran, Product::Gemm) => &GEMM[wide],
            (Convention::Fortran, Product::Gemv) => &GEMV[wide],
            _ => &[],
        }
    }
}

/// The function that a symbol names. Names without an underscore (MKL's `dgemm`) may be others' outside of a library.
pub fn named(symbol: &str) -> Option<BlasFunction> {
    if symbol == "dnnl_sgemm" {
        let (product, element) = (Product::Gemm, Element::Single);
        return Some(BlasFunction { product, element, convention: Convention::Dnnl, is_wide: true });
    }
    // Wheels of NumPy and SciPy prefix all names of their OpenBLAS.
    let name = symbol.strip_prefix("scipy_").unwrap_or(symbol);
    let (convention, name) = match name.strip_prefix("cblas_") {
        Some(name) => (Convention::Cblas, name),
        None => (Convention::Fortran, name),
    };
    let element = Element::of_letter(*name.as_bytes().first()?)?;
    let is_complex = matches!(element, Element::ComplexSingle | Element::ComplexDouble);
    let rest = name.get(1..)?;
    let (product, suffix) = [("gemm3m", Product::Gemm), ("gemm", Product::Gemm), ("gemv", Product::Gemv)]
        .into_iter()
        .filter(|(stem, _)| is_complex || *stem != "gemm3m")
        .find_map(|(stem, product)| Some((product, rest.strip_prefix(stem)?)))?;
    let is_wide = match (convention, suffix) {
        (_, "") | (Convention::Fortran, "_" | "__") => false,
        (_, "64_" | "_64") | (Convention::Fortran, "_64_") => true,
        _ => return None,
    };
    Some(BlasFunction { product, element, convention, is_wide })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_libraries_are_known() {
        use {Convention::*, Element::*, Product::*};
        let of = |name| named(name).map(|f| (f.product, f.element, f.convention, f.is_wide));
        assert_eq!(of("cblas_dgemm"), Some((Gemm, Double, Cblas, false)));
        assert_eq!(of("dgemm_"), Some((Gemm, Double, Fortran, false)));
        assert_eq!(of("sgemm"), Some((Gemm, Single, Fortran, false)));
        assert_eq!(of("scipy_cblas_sgemm64_"), Some((Gemm, Single, Cblas, true)));
        assert_eq!(of("scipy_dgemm_64_"), Some((Gemm, Double, Fortran, true)));
        assert_eq!(of("dgemm_64_"), Some((Gemm, Double, Fortran, true)));
        assert_eq!(of("cblas_zgemm3m"), Some((Gemm, ComplexDouble, Cblas, false)));
        assert_eq!(of("cgemv_"), Some((Gemv, ComplexSingle, Fortran, false)));
        assert_eq!(of("dnnl_sgemm"), Some((Gemm, Single, Dnnl, true)));
        for other in ["dgemm_nn", "cblas_dgemmt", "dgemm_batch_", "gemm_", "xgemm_", "dgemm3m_", "cblas_dgemm_", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn pointers_are_read_in_the_order_of_the_shape() {
        let sizes = |name| named(name).map(|f| f.behind().iter().map(|b| (b.argument, b.size)).collect::<Vec<_>>());
        assert_eq!(sizes("dgemv_"), Some(vec![(0, Size::Byte), (1, Size::Four), (2, Size::Four)]));
        assert_eq!(sizes("dgemm_64_").map(|s| s[4]), Some((4, Size::Eight)));
        assert_eq!(sizes("cblas_dgemm"), Some(Vec::new()));
    }
}
