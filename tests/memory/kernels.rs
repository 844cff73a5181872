//! Known kernels as access streams, with the DRAM traffic that arithmetic says they cause.

use rprof::isa::facts::AccessKind::{self, Gather, Load, NtStore, Prefetch, Store};
use rprof::memory::{Geometry, LastLevelPolicy, Level};
use rprof::profile::evidence::memory::Access;

/// Receiver of a kernel's accesses.
pub type Emit<'a> = &'a mut dyn FnMut(Access);

/// One kernel.
pub struct Kernel {
    /// Its name in tables.
    pub name: &'static str,
    /// Emits its accesses.
    pub run: fn(Emit),
    /// DRAM bytes, both directions, by arithmetic for [`host`]; `None` if only a simulation can determine them.
    pub dram: Option<f64>,
}

/// The caches that the kernels are sized for: 32 KiB, 512 KiB, 4 MiB.
pub fn host(policy: LastLevelPolicy) -> Geometry {
    Geometry {
        l1: Level { size: 32 << 10, ways: 8, shared_by: 1 },
        l2: Some(Level { size: 512 << 10, ways: 8, shared_by: 1 }),
        last: Level { size: 4 << 20, ways: 16, shared_by: 2 },
        policy,
        l2_inclusive: policy == LastLevelPolicy::Victim,
        cores: 2,
    }
}

/// All kernels of the table.
pub fn all() -> Vec<Kernel> {
    let stream = |name, run, bytes: f64| Kernel { name, run, dram: Some(bytes * N as f64) };
    vec![
        stream("read", read, 8.0),
        stream("copy", copy, 24.0),
        stream("copy NT", copy_nt, 16.0),
        stream("triad", triad, 32.0),
        stream("update", update, 16.0),
        stream("write", write, 16.0),
        stream("write NT", write_nt, 8.0),
        stream("read with prefetch", read_prefetched, 8.0),
        Kernel { name: "stencil 7-point", run: stencil, dram: Some(24.0 * (NX * NY * NZ) as f64) },
        Kernel { name: "transpose, rows of 8 KiB", run: transpose_naive, dram: Some(136.0 * (1u64 << 20) as f64) },
        Kernel { name: "transpose, rows padded", run: transpose_padded, dram: Some(24.0 * (1u64 << 20) as f64) },
        Kernel { name: "transpose, blocked", run: transpose_blocked, dram: Some(24.0 * (1u64 << 20) as f64) },
        Kernel { name: "matmul ijk", run: matmul_naive, dram: Some(8.0 * (M * (K * J + K + 2 * J)) as f64) },
        Kernel { name: "matmul blocked", run: matmul_blocked, dram: None },
        Kernel { name: "spmv", run: spmv, dram: Some((ROWS * (NNZ * 12 + 8 + 24)) as f64) },
        Kernel { name: "power-of-two stride", run: conflict, dram: Some(64.0 * 4096.0 * 10.0) },
        Kernel { name: "the same, padded", run: conflict_padded, dram: Some(64.0 * 4096.0) },
    ]
}

const A: u64 = 0x1000_0000;
const B: u64 = 0x5000_0000;
const C: u64 = 0x9000_0000;
const D: u64 = 0xd000_0000;

/// Elements of 8 bytes in the streams: 8 MiB an array.
pub const N: u64 = 1 << 20;

fn at(address: u64, bytes: u32, site: u32, kind: AccessKind) -> Access {
    Access { address, bytes, site, kind }
}

/// Emits, for each vector of 32 bytes, one access per (array, site, kind).
fn stream(emit: Emit, parts: &[(u64, u32, AccessKind)]) {
    for i in 0..N / 4 {
        for &(array, site, kind) in parts {
            emit(at(array + i * 32, 32, site, kind));
        }
    }
}

fn read(emit: Emit) {
    stream(emit, &[(A, 0, Load)]);
}

pub fn copy(emit: Emit) {
    stream(emit, &[(A, 0, Load), (B, 1, Store)]);
}

pub fn copy_nt(emit: Emit) {
    stream(emit, &[(A, 0, Load), (B, 1, NtStore)]);
}

fn triad(emit: Emit) {
    stream(emit, &[(A, 0, Load), (B, 1, Load), (C, 2, Store)]);
}

fn update(emit: Emit) {
    stream(emit, &[(A, 0, Load), (A, 1, Store)]);
}

fn write(emit: Emit) {
    stream(emit, &[(A, 0, Store)]);
}

fn write_nt(emit: Emit) {
    stream(emit, &[(A, 0, NtStore)]);
}

fn read_prefetched(emit: Emit) {
    for i in 0..N / 4 {
        emit(at(A + (i * 32 + 1024).min(N * 8 - 8), 0, 1, Prefetch));
        emit(at(A + i * 32, 32, 0, Load));
    }
}

const NX: u64 = 130;
const NY: u64 = 130;
const NZ: u64 = 100;

/// out = Σ of the point and its six neighbours; three planes fit the last level.
fn stencil(emit: Emit) {
    let index = |x: u64, y: u64, z: u64| A + 8 * (x + NX * (y + NY * z));
    for z in 1..NZ - 1 {
        for y in 1..NY - 1 {
            for x in 1..NX - 1 {
                let points = [
                    (x, y, z),
                    (x - 1, y, z),
                    (x + 1, y, z),
                    (x, y - 1, z),
                    (x, y + 1, z),
                    (x, y, z - 1),
                    (x, y, z + 1),
                ];
                for (site, (x, y, z)) in points.into_iter().enumerate() {
                    emit(at(index(x, y, z), 8, site as u32, Load));
                }
                emit(at(index(x, y, z) - A + C, 8, 7, Store));
            }
        }
    }
}

fn transpose(emit: Emit, row: u64, block: u64) {
    let n = 1024;
    for (bi, bj) in (0..n / block).flat_map(|bi| (0..n / block).map(move |bj| (bi, bj))) {
        for (i, j) in (0..block).flat_map(|i| (0..block).map(move |j| (bi * block + i, bj * block + j))) {
            emit(at(A + i * row + j * 8, 8, 0, Load));
            emit(at(B + j * row + i * 8, 8, 1, Store));
        }
    }
}

/// b[j][i] = a[i][j]: the 1,024 lines of a column fall into 32 of the last level's 64 page colours, 512 ways in all.
pub fn transpose_naive(emit: Emit) {
    transpose(emit, 8192, 1024);
}

pub fn transpose_padded(emit: Emit) {
    transpose(emit, 8192 + 64, 1024);
}

fn transpose_blocked(emit: Emit) {
    transpose(emit, 8192, 8);
}

const M: u64 = 12;
const K: u64 = 1000;
const J: u64 = 1000;

/// c[i][j] = Σ a[i][k] b[k][j], b of 8 MB walked by columns for each of 12 rows: 1,000 lines a column are used eight times.
fn matmul_naive(emit: Emit) {
    for (i, j) in (0..M).flat_map(|i| (0..J).map(move |j| (i, j))) {
        for k in 0..K {
            emit(at(A + 8 * (i * K + k), 8, 0, Load));
            emit(at(B + 8 * (k * J + j), 8, 1, Load));
        }
        emit(at(C + 8 * (i * J + j), 8, 2, Store));
    }
}

/// The same with blocks of 100 columns and rows of b, used for all 12 rows before the next.
fn matmul_blocked(emit: Emit) {
    for (kk, jj) in (0..K / 100).flat_map(|k| (0..J / 100).map(move |j| (k * 100, j * 100))) {
        for (i, j) in (0..M).flat_map(|i| (jj..jj + 100).map(move |j| (i, j))) {
            emit(at(C + 8 * (i * J + j), 8, 2, Load));
            for k in kk..kk + 100 {
                emit(at(A + 8 * (i * K + k), 8, 0, Load));
                emit(at(B + 8 * (k * J + j), 8, 1, Load));
            }
            emit(at(C + 8 * (i * J + j), 8, 3, Store));
        }
    }
}

const ROWS: u64 = 60_000;
const NNZ: u64 = 16;

/// y = A x in CSR: values and columns stream, x (480 KB) stays in the cache; row pointers 8 bytes, y 16 with its fill.
fn spmv(emit: Emit) {
    let mut seed = 1u64;
    for row in 0..ROWS {
        emit(at(D + row * 8, 8, 0, Load));
        for k in row * NNZ..(row + 1) * NNZ {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            emit(at(A + k * 8, 8, 1, Load));
            emit(at(B + k * 4, 4, 2, Load));
            emit(at(C + (seed >> 33) % ROWS * 8, 8, 3, Gather));
        }
        emit(at(D + 0x1000_0000 + row * 8, 8, 4, Store));
    }
}

fn strided(emit: Emit, stride: u64) {
    for _ in 0..10 {
        (0..4096).for_each(|i| emit(at(A + i * stride, 8, 0, Load)));
    }
}

/// 256 KB of data in 4,096 lines, of which 512 fit.
pub fn conflict(emit: Emit) {
    strided(emit, 8192);
}

pub fn conflict_padded(emit: Emit) {
    strided(emit, 8192 + 64);
}
