//! Forms that go to memory: all to lines that stay in L1.

use std::cell::Cell;
use std::rc::Rc;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::moves::movq;
use super::{Chain, Form, absent, suffix};
use crate::host::features::Features;
use crate::kernels::x86_64::emit::{Emitter, Label, SCRATCH, vector, vector_bytes};
use crate::suite::core::emission::{Body, Vectors, general};
use rprof_isa::operation::{Precision, Width};

/// The lines for loads, those for pointers, and those for stores.
const READ: i64 = SCRATCH;
const POINTER: i64 = SCRATCH + 1024;
const WRITTEN: i64 = SCRATCH + 2048;

/// Lines of the ring for chains of loads: no divisor of the links, so that no load meets the same line each time. The core may predict a
/// load that does (1.2 instead of 5 cycles on an Intel server of 2024).
const RING: i64 = 7;

pub(super) fn forms(features: Features) -> Vec<Form> {
    let mut forms = Vec::new();
    for width in super::vector::WIDTHS {
        let there = features.widths().contains(&width);
        if there {
            forms.extend([load(width, features), store(width)]);
        } else {
            let names = ["load", "store"].map(|name| format!("{name}.{}", suffix(width)));
            forms.extend(names.map(|name| absent(name, "such instruction at this width")));
        }
        if width != Width::Scalar {
            forms.push(gather(width, features));
        }
    }
    forms.extend([push(), call()]);
    forms
}

fn vectors(width: Width) -> Option<Vectors> {
    (width != Width::Scalar).then_some(Vectors { precision: Precision::Dp, width })
}

/// A load of a general register (`s`) or a vector.
fn load(width: Width, features: Features) -> Form {
    let name = format!("load.{}", suffix(width));
    let setup = |e: &mut Emitter| {
        for n in 0..RING {
            e.load(Code::Lea_r64_m, Register::RAX, Register::RSI, POINTER + 64 * ((n + 3) % RING));
            e.store(Code::Mov_rm64_r64, Register::RSI, POINTER + 64 * n, Register::RAX);
        }
    };
    let [_, from_vector] = movq(features);
    let (chain, rate): (Chain, Body) = match width {
        Width::Scalar => (
            Chain::of(Box::new(|e, _| e.load(Code::Mov_r64_rm64, Register::RAX, Register::RAX, 0))),
            Box::new(|e, n| e.load(Code::Mov_r64_rm64, general(n), Register::RSI, READ + 8 * (n % 64) as i64)),
        ),
        _ => (
            Chain {
                minus_forms: &["movvecgpr"],
                how: Some("a chain of it and `movq`, less that"),
                ..Chain::of(Box::new(move |e, _| {
                    let load = e.move_load(width);
                    e.load(load, vector(width, 0), Register::RAX, 0);
                    e.two(from_vector, Register::RAX, Register::XMM0);
                }))
            },
            Box::new(move |e, n| {
                let load = e.move_load(width);
                // At successive places: at the same place in several lines, some cores load fewer.
                let at = READ + (vector_bytes(width) * (n % 16) as u64) as i64;
                e.load(load, vector(width, n % 14), Register::RSI, at);
            }),
        ),
    };
    Form { setup: Box::new(setup), ..Form::new(name, vectors(width), Ok(chain), rate) }
}

fn store(width: Width) -> Form {
    let name = format!("store.{}", suffix(width));
    let rate: Body = match width {
        Width::Scalar => {
            Box::new(|e, n| e.store(Code::Mov_rm64_r64, Register::RSI, WRITTEN + 8 * (n % 64) as i64, Register::RAX))
        }
        _ => Box::new(move |e, n| {
            let store = e.move_store(width);
            let at = WRITTEN + (vector_bytes(width) * (n % 8) as u64) as i64;
            e.store(store, Register::RSI, at, vector(width, 0));
        }),
    };
    let chain = Err("a store has no result; lat.forward and forward.vector are stores with their loads".into());
    Form::new(name, vectors(width), chain, rate)
}

/// 64-bit lanes, each from a line of its own. Each of these lines holds its own offset, so that the loaded value gives the next address.
fn gather(width: Width, features: Features) -> Form {
    let name = format!("gather.{}", suffix(width));
    let there = if width == Width::W512 { features.avx512f } else { features.avx2 };
    if !there {
        return absent(name, "gathers at this width");
    }
    let step = move |e: &mut Emitter, to: usize, index: Register| {
        let from = MemoryOperand::with_base_index(Register::R8, index);
        let dst = vector(width, to);
        if width == Width::W512 {
            e.three(Code::VEX_Kxnorw_kr_kr_kr, Register::K2, Register::K0, Register::K0);
            e.checked(Instruction::with2(Code::EVEX_Vpgatherqq_zmm_k1_vm64z, dst, from).map(|mut instruction| {
                instruction.set_op_mask(Register::K2);
                instruction
            }));
            return;
        }
        let mask = e.operands(width).0;
        let (ones, code) = match width {
            Width::W256 => (Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256, Code::VEX_Vpgatherqq_ymm_vm64y_ymm),
            _ => (Code::VEX_Vpcmpeqq_xmm_xmm_xmmm128, Code::VEX_Vpgatherqq_xmm_vm64x_xmm),
        };
        e.three(ones, mask, mask, mask);
        e.checked(Instruction::with3(code, dst, from, mask));
    };
    let setup = move |e: &mut Emitter| {
        e.load(Code::Lea_r64_m, Register::R8, Register::RSI, READ);
        for lane in 0..8_i64 {
            e.immediate(Code::Mov_r32_imm32, Register::EAX, 64 * lane);
            e.store(Code::Mov_rm64_r64, Register::RSI, READ + 64 * lane, Register::RAX);
            // The offsets side by side, too: the first index.
            e.store(Code::Mov_rm64_r64, Register::RSI, POINTER + 8 * lane, Register::RAX);
        }
        let load = e.move_load(width);
        e.load(load, vector(width, 0), Register::RSI, POINTER);
    };
    let chain = Chain::of(Box::new(move |e, n| step(e, (n + 1) % 2, vector(width, n % 2))));
    let rate: Body = Box::new(move |e, n| step(e, 1 + n % 12, vector(width, 0)));
    Form { setup: Box::new(setup), ..Form::new(name, vectors(width), Ok(chain), rate) }
}

/// Eight `push`, then eight `pop`.
fn push() -> Form {
    let rate: Body = Box::new(|e, n| match n / 8 % 2 {
        0 => e.one(Code::Push_r64, Register::RAX),
        _ => e.one(Code::Pop_r64, general(1 + n % 8)),
    });
    let chain = Err("its result is in memory; lat.forward is a store with its load".into());
    Form::new("push", None, chain, rate)
}

/// `call` of a function that only returns.
fn call() -> Form {
    let function: Rc<Cell<Option<Label>>> = Rc::default();
    let called = function.clone();
    let setup = move |e: &mut Emitter| {
        let behind = e.forward();
        e.branch(Code::Jmp_rel32_64, behind);
        function.set(Some(e.label()));
        e.push(Instruction::with(Code::Retnq));
        e.place(behind);
        e.push(Instruction::with(Code::Nopd));
    };
    let rate: Body = Box::new(move |e, _| {
        if let Some(function) = called.get() {
            e.branch(Code::Call_rel32_64, function);
        }
    });
    let chain = Err("its result is the place where the program goes on".into());
    Form { setup: Box::new(setup), ..Form::new("call", None, chain, rate) }
}
