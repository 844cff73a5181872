//! Unit-stride streams over arrays: read, copy, triad, update, write; plain or non-temporal stores, software prefetch.

use iced_x86::{Code, Register};

use super::emit::{Emitter, INNER, POINTERS, vector, vector_bytes};
use crate::error::MachineError;
use crate::host::features::Features;
use crate::kernels::{Kernel, PerIteration};
use rprof_isa::operation::{FpOp, Precision, Width};

/// The operation of a stream on each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Loads a.
    Read,
    /// a = b
    Copy,
    /// a = b + s·c
    Triad,
    /// a = s·a without the multiplication, which with wide vectors would lower the clock.
    Update,
    /// a = s
    Write,
}

impl Stream {
    /// All of them.
    pub const ALL: [Stream; 5] = [Stream::Read, Stream::Copy, Stream::Triad, Stream::Update, Stream::Write];

    /// The name used in ceiling ids.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Read => "read",
            Stream::Copy => "copy",
            Stream::Triad => "triad",
            Stream::Update => "update",
            Stream::Write => "write",
        }
    }

    /// Arrays it walks over.
    pub fn arrays(self) -> u64 {
        match self {
            Stream::Read | Stream::Update | Stream::Write => 1,
            Stream::Copy => 2,
            Stream::Triad => 3,
        }
    }

    /// (loads, stores) of one element.
    pub fn accesses(self) -> (u64, u64) {
        match self {
            Stream::Read => (1, 0),
            Stream::Copy | Stream::Update => (1, 1),
            Stream::Triad => (2, 1),
            Stream::Write => (0, 1),
        }
    }

    /// Bytes per 8-byte element across a boundary beyond L1 (`beyond_l1`), or as executed.
    ///
    /// Beyond L1: loads + fills for stores + write-backs; non-temporal stores need no fill (docs/conventions.md, Bytes).
    pub fn bytes_per_element(self, beyond_l1: bool, non_temporal: bool) -> u64 {
        let (loads, stores) = self.accesses();
        // An update's store finds its line loaded already.
        let fills = if beyond_l1 && !non_temporal && self != Stream::Update { stores } else { 0 };
        8 * (loads + stores + fills)
    }
}

/// How a stream is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Vector width of loads and stores.
    pub width: Width,
    /// Non-temporal stores.
    pub non_temporal: bool,
    /// Software prefetch of the loaded arrays, this number of bytes ahead.
    pub prefetch: Option<u32>,
    /// Vectors in one loop body.
    pub unroll: usize,
}

impl Variant {
    /// Plain loads and stores of `width`, one kilobyte or less in a body.
    pub fn plain(width: Width) -> Self {
        Variant { width, non_temporal: false, prefetch: None, unroll: 16 }
    }

    /// Bytes of one array that one inner iteration covers.
    pub fn body_bytes(&self) -> u64 {
        vector_bytes(self.width) * self.unroll as u64
    }
}

const BASES: [Register; 3] = [Register::R8, Register::R9, Register::R10];

/// Emits a stream. One outer iteration is a pass: `inner` bodies from the `pointers` on.
///
/// Array 0 is the target of stores; reads begin at array 0 for [`Stream::Read`] and [`Stream::Update`], else at array 1.
///
/// # Errors
/// As [`Emitter::finish`].
pub fn stream(kind: Stream, variant: Variant, features: Features) -> Result<Kernel, MachineError> {
    let mut e = Emitter::new(format!("stream {} {variant:?}", kind.name()), features);
    let arrays = kind.arrays() as usize;
    e.load_operands(Precision::Dp, variant.width);
    let outer = e.label();
    for (n, base) in BASES.iter().enumerate().take(arrays) {
        e.load(Code::Mov_r64_rm64, *base, Register::RSI, POINTERS + 8 * n as i64);
    }
    e.load(Code::Mov_r64_rm64, Register::RBX, Register::RSI, INNER);
    let head = e.loop_head();
    let before = e.count();
    for n in 0..variant.unroll {
        element(&mut e, kind, variant, n);
    }
    for base in BASES.iter().take(arrays) {
        e.immediate(Code::Add_rm64_imm32, *base, variant.body_bytes() as i64);
    }
    e.loop_end(Register::RBX, head);
    let instructions = (e.count() - before) as u64;
    e.loop_end(Register::RDI, outer);
    if variant.non_temporal {
        e.push(iced_x86::Instruction::with(Code::Sfence));
    }
    let (loads, stores) = kind.accesses();
    let (vectors, bytes) = (variant.unroll as u64, vector_bytes(variant.width));
    let lanes = vectors * u64::from(variant.width.lanes(Precision::Dp));
    e.finish(PerIteration {
        instructions,
        payload: vectors * (loads + stores),
        flops: match kind {
            Stream::Triad => 2 * lanes,
            _ => 0,
        },
        int_ops: 0,
        loads: vectors * loads,
        stores: vectors * stores,
        bytes_loaded: vectors * loads * bytes,
        bytes_stored: vectors * stores * bytes,
    })
}

/// One vector of each array.
fn element(e: &mut Emitter, kind: Stream, variant: Variant, n: usize) {
    let Variant { width, .. } = variant;
    let at = n as i64 * vector_bytes(width) as i64;
    let register = vector(width, n % e.free_registers(width));
    let (scale, _) = e.operands(width);
    let load = e.move_load(width);
    let source = if matches!(kind, Stream::Read | Stream::Update) { BASES[0] } else { BASES[1] };
    if let Some(distance) = variant.prefetch
        && at % 64 == 0
        && kind != Stream::Write
    {
        e.memory(Code::Prefetcht0_m8, source, at + i64::from(distance));
        if kind == Stream::Triad {
            e.memory(Code::Prefetcht0_m8, BASES[2], at + i64::from(distance));
        }
    }
    match kind {
        Stream::Read => return e.load(load, register, source, at),
        Stream::Write => return store(e, variant, at, scale),
        Stream::Copy | Stream::Update => e.load(load, register, source, at),
        Stream::Triad if e.features().has(FpOp::Fma, width) => {
            e.load(load, register, BASES[2], at);
            let code = match width {
                Width::Scalar => Code::VEX_Vfmadd213sd_xmm_xmm_xmmm64,
                Width::W128 => Code::VEX_Vfmadd213pd_xmm_xmm_xmmm128,
                Width::W256 => Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256,
                Width::W512 => Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            };
            e.load3(code, register, scale, source, at);
        }
        Stream::Triad => {
            e.load(load, register, BASES[2], at);
            multiply(e, width, register);
            add_from_memory(e, width, register, source, at);
        }
    }
    store(e, variant, at, register);
}

fn multiply(e: &mut Emitter, width: Width, register: Register) {
    let (scale, _) = e.operands(width);
    match (width, e.features().avx) {
        (Width::Scalar, false) => e.two(Code::Mulsd_xmm_xmmm64, register, scale),
        (Width::W128, false) => e.two(Code::Mulpd_xmm_xmmm128, register, scale),
        (Width::Scalar, true) => e.three(Code::VEX_Vmulsd_xmm_xmm_xmmm64, register, register, scale),
        (Width::W128, true) => e.three(Code::VEX_Vmulpd_xmm_xmm_xmmm128, register, register, scale),
        (Width::W256, _) => e.three(Code::VEX_Vmulpd_ymm_ymm_ymmm256, register, register, scale),
        (Width::W512, _) => e.three(Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er, register, register, scale),
    }
}

fn add_from_memory(e: &mut Emitter, width: Width, register: Register, base: Register, at: i64) {
    match (width, e.features().avx) {
        (Width::Scalar, false) => e.load(Code::Addsd_xmm_xmmm64, register, base, at),
        (Width::W128, false) => e.load(Code::Addpd_xmm_xmmm128, register, base, at),
        (Width::Scalar, true) => e.load3(Code::VEX_Vaddsd_xmm_xmm_xmmm64, register, register, base, at),
        (Width::W128, true) => e.load3(Code::VEX_Vaddpd_xmm_xmm_xmmm128, register, register, base, at),
        (Width::W256, _) => e.load3(Code::VEX_Vaddpd_ymm_ymm_ymmm256, register, register, base, at),
        (Width::W512, _) => e.load3(Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, register, register, base, at),
    }
}

fn store(e: &mut Emitter, variant: Variant, at: i64, register: Register) {
    let code = match (variant.non_temporal, variant.width, e.features().avx) {
        (false, width, _) => e.move_store(width),
        (true, Width::Scalar | Width::W128, false) => Code::Movntpd_m128_xmm,
        (true, Width::Scalar | Width::W128, true) => Code::VEX_Vmovntpd_m128_xmm,
        (true, Width::W256, _) => Code::VEX_Vmovntpd_m256_ymm,
        (true, Width::W512, _) => Code::EVEX_Vmovntpd_m512_zmm,
    };
    e.store(code, BASES[0], at, register);
}
