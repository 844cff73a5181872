//! f(m, n, k): the time of a matrix product, in the library that a program uses.
//!
//! The library is loaded by the loader's process, and its Fortran functions are called: every BLAS has them, and all their arguments are
//! pointers. Operands are as far away as memory of the program that was used as many bytes ago: copies of them are used in turn.

use std::time::Duration;

use super::error::ProductError;
use super::repeat;
use crate::loader::{CALLS, Call, Library, LoaderError, Remote};
use rprof_profile::blas::Dimensions;

/// Limit of one request, of at least one product.
const LIMIT: Duration = Duration::from_secs(120);
/// Most bytes of operands.
const MOST: u64 = 4 << 30;
const PAGE: u64 = 4096;
/// Bytes of the scalar arguments, before the operands: integers of 64 bits; their lower halves are integers of 32 bits, too.
const SCALARS: u64 = PAGE;
/// Offsets among them.
const SIZES: u64 = 0;
const TRANSPOSES: u64 = 128;
const ONE: u64 = 192;
const ZERO: u64 = 256;
const STEP: u64 = 320;

/// Libraries to try if none is named.
pub const USUAL: [&str; 5] = ["libopenblas.so.0", "libblas.so.3", "libmkl_rt.so.2", "libblis.so.4", "libopenblas.so"];

/// A BLAS in a process of its own.
pub struct Blas {
    remote: Remote,
    library: Library,
    /// Its path or name.
    pub path: String,
    touch: u64,
}

impl Blas {
    /// The first of `paths` that can be loaded, with that number of threads, if the library can set it.
    ///
    /// # Errors
    /// [`ProductError::NoLibrary`], or the loader failed.
    pub fn open(paths: &[String], threads: Option<u32>) -> Result<Blas, ProductError> {
        let mut remote = Remote::start()?;
        let mut reasons = Vec::new();
        for path in paths {
            match remote.open(path) {
                Ok(library) => {
                    let [touch, _] = remote.own()?;
                    let mut blas = Blas { remote, library, path: path.clone(), touch };
                    if let Some(threads) = threads {
                        blas.set_threads(threads)?;
                    }
                    return Ok(blas);
                }
                Err(LoaderError::Library { reason, .. }) => reasons.push(reason),
                Err(other) => return Err(other.into()),
            }
        }
        Err(ProductError::NoLibrary(reasons.join("; ")))
    }

    /// Libraries without such a function stay as they are.
    fn set_threads(&mut self, threads: u32) -> Result<(), ProductError> {
        let names = [
            "openblas_set_num_threads",
            "openblas_set_num_threads64_",
            "scipy_openblas_set_num_threads64_",
            "scipy_openblas_set_num_threads",
            "MKL_Set_Num_Threads",
            "bli_thread_set_num_threads",
        ];
        if let Some(function) = self.first(&names)? {
            let call = Call::new(function, &[u64::from(threads)]);
            self.remote.void_calls("setting the number of threads", LIMIT, 1, &[call])?;
        }
        Ok(())
    }

    fn first(&mut self, names: &[impl AsRef<str>]) -> Result<Option<u64>, ProductError> {
        for name in names {
            match self.remote.symbol(self.library, name.as_ref()) {
                Ok(address) => return Ok(Some(address)),
                Err(LoaderError::Symbol { .. }) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(None)
    }

    fn function(&mut self, shape: &Dimensions) -> Result<u64, ProductError> {
        let letter = match (shape.is_double, shape.is_complex) {
            (false, false) => 's',
            (true, false) => 'd',
            (false, true) => 'c',
            (true, true) => 'z',
        };
        let stem = format!("{letter}{}", if shape.k.is_some() { "gemm" } else { "gemv" });
        let names =
            ["{}_", "{}_64_", "{}64_", "scipy_{}_64_", "scipy_{}_", "scipy_{}64_"].map(|n| n.replace("{}", &stem));
        self.first(&names)?.ok_or_else(|| LoaderError::Symbol { name: names[0].clone() }.into())
    }

    /// Seconds of one call, in a program that uses `footprint` bytes in turn.
    ///
    /// # Errors
    /// The operands are too large, or the library lacks the function, crashed or took too long.
    pub fn seconds(&mut self, shape: &Dimensions, footprint: u64) -> Result<f64, ProductError> {
        let plan = Plan::new(shape);
        let what = format!("a product of {} × {} × {}", shape.m, shape.n, shape.k.unwrap_or(1));
        let page = u128::from(PAGE);
        let bytes = plan.operands.iter().map(|bytes| bytes.div_ceil(page)).sum::<u128>().saturating_mul(page);
        if bytes > u128::from(MOST) {
            let shape = format!("{} × {} × {}", shape.m, shape.n, shape.k.unwrap_or(1));
            return Err(ProductError::TooLarge { shape, bytes, limit: MOST });
        }
        let function = self.function(shape)?;
        let bytes = bytes as u64;
        let copies = (footprint.min(MOST) / bytes.max(1)).clamp(1, CALLS as u64);
        let base = self.remote.memory(SCALARS + copies * bytes)?;
        self.remote.write(base, &plan.scalars(shape))?;
        // Pages that were never written are all the same one.
        let touch = Call::new(self.touch, &[base + SCALARS, copies * bytes]);
        self.remote.void_calls(&what, LIMIT, 1, &[touch])?;
        let call = |copy| Call::new(function, &plan.arguments(base, base + SCALARS + copy * bytes));
        let calls: Vec<Call> = (0..copies).map(call).collect();
        let remote = &mut self.remote;
        let seconds = repeat::seconds(|rounds| remote.void_calls(&what, LIMIT, rounds, &calls))?;
        Ok(seconds / copies as f64)
    }
}

/// A call in Fortran's order of rows and columns.
struct Plan {
    is_matrix: bool,
    /// m, n, k.
    sizes: [u64; 3],
    transposes: [u8; 2],
    /// Leading dimensions of A, B and C.
    leading: [u64; 3],
    /// Bytes of A, B and C.
    operands: [u128; 3],
}

impl Plan {
    fn new(shape: &Dimensions) -> Plan {
        let letter = |i: usize| shape.transposes.as_bytes().get(i).copied().unwrap_or(b'N');
        let element = shape.element_bytes() as u128;
        let bytes = |a: u64, b: u64| (u128::from(a) * u128::from(b)).saturating_mul(element);
        match shape.k {
            Some(k) => {
                // A matrix stored by rows is the transposed one by columns: Cᵀ = Bᵀ Aᵀ.
                let (m, n, transposes) = match shape.is_row_major {
                    true => (shape.n, shape.m, [letter(1), letter(0)]),
                    false => (shape.m, shape.n, [letter(0), letter(1)]),
                };
                let a = if transposes[0] == b'N' { m } else { k };
                let b = if transposes[1] == b'N' { k } else { n };
                let leading = [a, b, m].map(|size| size.max(1));
                Plan {
                    is_matrix: true,
                    sizes: [m, n, k],
                    transposes,
                    leading,
                    operands: [bytes(m, k), bytes(k, n), bytes(m, n)],
                }
            }
            None => {
                let is_transposed = (letter(0) != b'N') != shape.is_row_major;
                let (m, n) = if shape.is_row_major { (shape.n, shape.m) } else { (shape.m, shape.n) };
                let (x, y) = if is_transposed { (m, n) } else { (n, m) };
                Plan {
                    is_matrix: false,
                    sizes: [m, n, 0],
                    transposes: [if is_transposed { b'T' } else { b'N' }, 0],
                    leading: [m.max(1), 1, 1],
                    operands: [bytes(m, n), bytes(x, 1), bytes(y, 1)],
                }
            }
        }
    }

    /// The page of scalars.
    fn scalars(&self, shape: &Dimensions) -> Vec<u8> {
        let mut page = vec![0; SCALARS as usize];
        let mut put = |at: u64, bytes: &[u8]| page[at as usize..][..bytes.len()].copy_from_slice(bytes);
        for (i, word) in self.sizes.iter().chain(&self.leading).enumerate() {
            put(SIZES + 8 * i as u64, &word.to_le_bytes());
        }
        put(TRANSPOSES, &self.transposes[..1]);
        put(TRANSPOSES + 8, &self.transposes[1..]);
        if shape.is_double {
            put(ONE, &1f64.to_le_bytes())
        } else {
            put(ONE, &1f32.to_le_bytes())
        }
        put(STEP, &1u64.to_le_bytes());
        page
    }

    /// Scalars are at `base`, operands from `next` on.
    fn arguments(&self, base: u64, mut next: u64) -> Vec<u64> {
        let at = |offset: u64| base + offset;
        let [m, n, k, lda, ldb, ldc] = [0, 1, 2, 3, 4, 5].map(|i| at(SIZES + 8 * i));
        let [a, b, c] = self.operands.map(|bytes| {
            let operand = next;
            next += (bytes as u64).next_multiple_of(PAGE);
            operand
        });
        let (one, zero, step) = (at(ONE), at(ZERO), at(STEP));
        let (ta, tb) = (at(TRANSPOSES), at(TRANSPOSES + 8));
        match self.is_matrix {
            true => vec![ta, tb, m, n, k, one, a, lda, b, ldb, zero, c, ldc, 1, 1],
            false => vec![ta, m, n, one, a, lda, b, step, zero, c, step, 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(m: u64, n: u64, k: Option<u64>, transposes: &str, is_row_major: bool) -> Dimensions {
        Dimensions { m, n, k, transposes: transposes.into(), is_row_major, is_double: true, is_complex: false }
    }

    #[test]
    fn rows_become_columns() {
        let plan = |m, n, k, transposes, rows| {
            let plan = Plan::new(&shape(m, n, k, transposes, rows));
            (plan.sizes, plan.transposes, plan.leading)
        };
        assert_eq!(plan(2, 3, Some(4), "NN", false), ([2, 3, 4], *b"NN", [2, 4, 2]));
        assert_eq!(plan(2, 3, Some(4), "TC", false), ([2, 3, 4], *b"TC", [4, 3, 2]));
        assert_eq!(plan(2, 3, Some(4), "NN", true), ([3, 2, 4], *b"NN", [3, 4, 3]));
        assert_eq!(plan(2, 3, Some(4), "NT", true), ([3, 2, 4], *b"TN", [4, 4, 3]));
        assert_eq!(plan(2, 3, None, "N", true), ([3, 2, 0], [b'T', 0], [3, 1, 1]));
        assert_eq!(plan(2, 3, None, "T", false), ([2, 3, 0], [b'T', 0], [2, 1, 1]));
    }

    #[test]
    fn what_is_too_large_or_missing_is_said() {
        let missing = Blas::open(&["no such library.so".into()], None).err().map(|e| e.to_string());
        assert!(missing.as_ref().is_some_and(|text| text.contains("no such library.so")), "{missing:?}");
        let Ok(mut blas) = Blas::open(&USUAL.map(String::from), Some(1)) else { return };
        let huge = blas.seconds(&shape(1 << 40, 2, Some(1 << 40), "NN", true), 0);
        assert!(matches!(huge, Err(ProductError::TooLarge { .. })), "{huge:?}");
        let more = blas.seconds(&shape(1 << 63, 1 << 63, Some(1 << 63), "NN", true), u64::MAX);
        assert!(matches!(more, Err(ProductError::TooLarge { .. })), "{more:?}");
        let (small, large) = (shape(20, 20, Some(20), "NT", true), shape(400, 400, Some(400), "TN", false));
        assert!(blas.seconds(&large, 0).unwrap() > 20.0 * blas.seconds(&small, 1 << 20).unwrap());
    }
}
