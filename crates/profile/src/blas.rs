//! Matrix products that a program called of a BLAS, by call site and shape (docs/layers.md).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::grouped;

/// Calls of GEMM and GEMV.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Blas {
    /// One for each call site and shape, those with most time first.
    pub products: Vec<ProductCalls>,
    /// Threads that the library's functions computed in; `null` if FLOPs were not counted.
    #[serde(default)]
    pub threads: Option<u32>,
    /// A process ran natively from some time on: calls and times are those before.
    #[serde(default)]
    pub at_least: bool,
}

/// The shape of a product, as the caller gave it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dimensions {
    /// Rows of the result, or of GEMV's matrix.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// Terms of each sum; `null` for GEMV.
    pub k: Option<u64>,
    /// `N`, `T` or `C` of A and B; GEMV has one.
    pub transposes: String,
    /// Matrices are stored by rows (C), else by columns (Fortran).
    pub is_row_major: bool,
    /// Elements of double precision, else single.
    pub is_double: bool,
    /// Complex elements.
    pub is_complex: bool,
}

impl Dimensions {
    /// FLOPs of a call: a multiplication and an addition for each term of each sum; six and two of complex numbers.
    pub fn flops(&self) -> f64 {
        let each = if self.is_complex { 8.0 } else { 2.0 };
        each * self.m as f64 * self.n as f64 * self.k.unwrap_or(1) as f64
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> f64 {
        f64::from(4 << (u32::from(self.is_double) + u32::from(self.is_complex)))
    }

    /// Bytes of a call at least: each element of the operands is read once, each of the result is read and written.
    pub fn bytes(&self) -> f64 {
        let [m, n] = [self.m, self.n].map(|d| d as f64);
        let elements = match self.k {
            Some(k) => m * k as f64 + k as f64 * n + 2.0 * m * n,
            None if self.transposes == "N" => m * n + n + 2.0 * m,
            None => m * n + m + 2.0 * n,
        };
        elements * self.element_bytes()
    }
}

impl fmt::Display for Dimensions {
    /// `128 × 50 × 784 NT`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.m, self.n)?;
        if let Some(k) = self.k {
            write!(f, " × {k}")?;
        }
        write!(f, " {}", self.transposes)
    }
}

/// Calls of one function from one place with one shape.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProductCalls {
    /// The function's symbol: `cblas_sgemm`.
    pub call: String,
    /// The library's path, as the process mapped it.
    pub library: String,
    /// The function that calls.
    pub caller: String,
    /// Its module.
    pub module: String,
    /// Source file, if known.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// The place of the call in its module: hexadecimal offset.
    pub site: String,
    /// The shape; `null`: all shapes of the site beyond those that are kept apart.
    pub shape: Option<Dimensions>,
    /// Calls.
    pub calls: u64,
    /// Seconds from call to return in the counted pass, of the calls with an observed return; `null`: of none.
    pub time_s: Option<f64>,
    /// Calls with an observed return.
    pub timed_calls: u64,
    /// Median of their seconds. Unlike the mean it is without the translation that the first call waits for.
    pub median_s: Option<f64>,
    /// Threads that called.
    pub threads: u32,
}

/// The key by which calls are put together: site, function and shape.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    call: String,
    library: String,
    caller: String,
    module: String,
    site: String,
    shape: Option<Dimensions>,
}

impl ProductCalls {
    /// Seconds of all calls at their median: without the translation of the code, and without single long calls.
    pub fn usual_s(&self) -> Option<f64> {
        self.median_s.map(|median| median * self.calls as f64)
    }

    /// The library's file name.
    pub fn library_name(&self) -> &str {
        self.library.rsplit('/').next().unwrap_or(&self.library)
    }

    fn key(&self) -> Key {
        Key {
            call: self.call.clone(),
            library: self.library.clone(),
            caller: self.caller.clone(),
            module: self.module.clone(),
            site: self.site.clone(),
            shape: self.shape.clone(),
        }
    }

    /// Adds the calls of another thread or rank.
    fn plus(&mut self, other: &ProductCalls) {
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b).or(a).or(b);
        // The median of both is not known; it is between the two medians.
        let mean = |(a, b): (f64, f64)| {
            let (own, others) = (self.timed_calls as f64, other.timed_calls as f64);
            (a * own + b * others) / (own + others)
        };
        self.median_s = self.median_s.zip(other.median_s).map(mean).or(self.median_s).or(other.median_s);
        self.calls += other.calls;
        self.timed_calls += other.timed_calls;
        self.time_s = sum(self.time_s, other.time_s);
        self.threads += other.threads;
    }
}

impl Blas {
    /// Adds calls; those of one place and shape are one entry. Most time comes first.
    pub fn add(&mut self, products: impl IntoIterator<Item = ProductCalls>) {
        grouped::add(&mut self.products, products, ProductCalls::key, ProductCalls::plus);
        self.products.sort_by(|a, b| b.usual_s().unwrap_or(0.0).total_cmp(&a.usual_s().unwrap_or(0.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gemm(m: u64, n: u64, k: u64) -> Dimensions {
        Dimensions { m, n, k: Some(k), transposes: "NN".into(), is_row_major: true, is_double: true, is_complex: false }
    }

    #[test]
    fn work_of_a_shape() {
        // The first layer of the thesis' network: 128 × 50 × 784 multiplications and additions.
        let fc1 = gemm(128, 50, 784);
        assert_eq!((fc1.flops(), fc1.bytes()), (10_035_200.0, 8.0 * (100_352 + 39_200 + 12_800) as f64));
        let gemv = Dimensions { k: None, transposes: "T".into(), is_double: false, is_complex: true, ..gemm(3, 5, 0) };
        assert_eq!((gemv.flops(), gemv.bytes()), (120.0, 8.0 * (15 + 3 + 10) as f64));
    }

    #[test]
    fn threads_are_put_together() {
        let of = |m, time_s| ProductCalls {
            shape: Some(gemm(m, 1, 1)),
            calls: 2,
            time_s: Some(time_s),
            timed_calls: 1,
            median_s: Some(time_s),
            threads: 1,
            ..ProductCalls::default()
        };
        let mut blas = Blas::default();
        blas.add([of(1, 1.0), of(2, 3.0), of(1, 5.0)]);
        let found: Vec<_> = blas.products.iter().map(|p| (p.calls, p.time_s, p.median_s, p.threads)).collect();
        assert_eq!(found, [(4, Some(6.0), Some(3.0), 2), (2, Some(3.0), Some(3.0), 1)]);
    }
}
