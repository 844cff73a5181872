//! Forms of instructions: the latency of each as a link of a chain, and the throughput of independent ones.
//!
//! | form | instruction |
//! | --- | --- |
//! | `add imul div64 div32 shift shiftcl` | `add r,r`, `imul r,r,imm`, `div r64`, `div r32`, `shl r,imm`, `shl r,cl` |
//! | `lea3 bmi popcnt cmov setcc adc bsf` | `lea r,[r+r*2+8]`, `andn`, `popcnt`, `cmovne`, `setne`, `adc`, `bsf` |
//! | `vadd vmul vshift vlogic` | `paddd`, `pmuludq`, `psllq imm`, `pxor` |
//! | `shuffle permute blend` | `shufpd` (within 128 bits), `vpermpd` (across), `blendpd` |
//! | `fadd fmul ffma fdiv fsqrt` | double precision; `fdivs`, `fsqrts`: single |
//! | `fcmp fminmax fround` | `cmppd` (512 bits: into a mask), `maxpd`, `roundpd` |
//! | `sha aes clmul` | `sha256rnds2`, `aesenc`, `pclmulqdq` (128 bits) |
//! | `cvt cvtint` | double ↔ float, double ↔ 32-bit integer, in turn |
//! | `movgprvec movvecgpr fcomi kop` | `movq xmm,r`, `movq r,xmm`, `ucomisd`, `kandw` |
//! | `gather load store push call` | `vpgatherqq`, a load, a store, `push` and `pop` in turn, `call` with its `ret` |

mod integer;
mod memory;
mod moves;
mod vector;

pub use integer::branch_without_flags;

use crate::host::features::Features;
use crate::kernels::x86_64::emit::Emitter;
use rprof_isa::operation::Width;

use super::emission::{Body, Vectors};

/// A form of one width.
pub struct Form {
    /// Its name in ids: `fadd.256`.
    pub name: String,
    /// The initial content of the vector registers.
    pub vectors: Option<Vectors>,
    /// A chain through the form, or why there is none.
    pub chain: Result<Chain, String>,
    /// Independent instructions, or why there are none.
    pub rate: Result<Body, String>,
    /// Emits the code before the loop.
    pub setup: Box<dyn Fn(&mut Emitter)>,
}

impl Form {
    fn new(name: impl Into<String>, vectors: Option<Vectors>, chain: Result<Chain, String>, rate: Body) -> Self {
        Form { name: name.into(), vectors, chain, rate: Ok(rate), setup: Box::new(|_| ()) }
    }
}

/// A chain with a form in each step.
pub struct Chain {
    /// One step.
    pub body: Body,
    /// Number of the form's latencies in a step.
    pub times: f64,
    /// Cycles of the step that one-cycle instructions take.
    pub minus: f64,
    /// Other forms with latencies that are part of the step.
    pub minus_forms: &'static [&'static str],
    /// The content of the step, if it is more than the form.
    pub how: Option<&'static str>,
}

impl Chain {
    /// A chain of nothing but the form.
    fn of(body: Body) -> Self {
        Chain { body, times: 1.0, minus: 0.0, minus_forms: &[], how: None }
    }
}

/// All forms; those that this CPU lacks carry the reason.
pub fn all(features: Features) -> Vec<Form> {
    let mut forms = integer::forms(features);
    forms.extend(vector::forms(features));
    forms.extend(moves::forms(features));
    forms.extend(memory::forms(features));
    forms
}

/// The ending of form names for `width`.
pub fn suffix(width: Width) -> &'static str {
    if width == Width::Scalar { "s" } else { width.name() }
}

/// A form that this CPU lacks.
fn absent(name: impl Into<String>, isa: &str) -> Form {
    let why = || format!("this CPU has no {isa}");
    Form { name: name.into(), vectors: None, chain: Err(why()), rate: Err(why()), setup: Box::new(|_| ()) }
}
