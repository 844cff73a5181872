//! Facts of chosen instructions: masks, broadcasts, gathers, string instructions, fusion.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rprof::isa::facts::{AccessFact, AccessKind, Dynamic, FlopFact, InstructionClass};
use rprof::isa::operation::{FpOp, Precision, Width};
use rprof::isa::x86_64::{block_issue_slots, classify};

use crate::assemble;

fn at(base: Register) -> MemoryOperand {
    MemoryOperand::with_base_displ_size(base, 64, 1)
}

fn access(kind: AccessKind, bytes: u32, vector: bool, masked: bool) -> AccessFact {
    AccessFact { kind, bytes, vector, masked }
}

#[test]
fn masked_add_depends_on_its_mask() {
    let mut add = Instruction::with3(
        Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
        Register::ZMM1,
        Register::ZMM2,
        at(Register::RAX),
    )
    .unwrap();
    let unmasked = classify(&add);
    assert_eq!(
        unmasked.flops,
        [FlopFact { op: FpOp::Add, precision: Precision::Dp, width: Width::W512, flops: 8, lanes: 8 }]
    );
    assert_eq!(unmasked.dynamic, None);
    assert_eq!(unmasked.accesses, [access(AccessKind::Load, 64, true, false)]);

    add.set_op_mask(Register::K3);
    let masked = classify(&add);
    assert_eq!(masked.flops, unmasked.flops);
    assert_eq!(masked.dynamic, Some(Dynamic::Mask { k: 3, lanes: 8 }));
    assert_eq!(masked.accesses, [access(AccessKind::Load, 64, true, true)]);

    add.set_is_broadcast(true);
    assert_eq!(classify(&add).accesses, [access(AccessKind::Load, 8, true, false)]);
}

#[test]
fn scalar_masked_fma_has_one_lane() {
    let mut fma = Instruction::with3(
        Code::EVEX_Vfmadd231ss_xmm_k1z_xmm_xmmm32_er,
        Register::XMM1,
        Register::XMM2,
        Register::XMM3,
    )
    .unwrap();
    fma.set_op_mask(Register::K1);
    let facts = classify(&fma);
    assert_eq!(
        facts.flops,
        [FlopFact { op: FpOp::Fma, precision: Precision::Sp, width: Width::Scalar, flops: 2, lanes: 1 }]
    );
    assert_eq!(facts.dynamic, Some(Dynamic::Mask { k: 1, lanes: 1 }));
    assert!(facts.fp_instruction && !facts.simd_instruction);
}

#[test]
fn masked_moves_count_active_bytes() {
    let mut store = Instruction::with2(Code::EVEX_Vmovdqu8_zmmm512_k1z_zmm, at(Register::RDI), Register::ZMM0).unwrap();
    store.set_op_mask(Register::K2);
    let facts = classify(&store);
    assert_eq!(facts.accesses, [access(AccessKind::Store, 64, true, true)]);
    assert_eq!(facts.dynamic, Some(Dynamic::Mask { k: 2, lanes: 64 }));
    assert_eq!(facts.class, InstructionClass::Store);

    let sign = Instruction::with3(Code::VEX_Vmaskmovps_ymm_ymm_m256, Register::YMM0, Register::YMM7, at(Register::RSI))
        .unwrap();
    assert_eq!(classify(&sign).dynamic, Some(Dynamic::VectorMask { register: 7, element: 4, lanes: 8 }));
    assert_eq!(classify(&sign).accesses, [access(AccessKind::Load, 32, true, true)]);

    let bytes = Instruction::with_maskmovdqu(64, Register::XMM1, Register::XMM9, Register::None).unwrap();
    assert_eq!(classify(&bytes).dynamic, Some(Dynamic::VectorMask { register: 9, element: 1, lanes: 16 }));
    assert_eq!(classify(&bytes).accesses, [access(AccessKind::NtStore, 16, true, true)]);
}

#[test]
fn masked_broadcast_load_and_shift_count_are_read_whole() {
    let mut broadcast =
        Instruction::with2(Code::EVEX_Vbroadcastf32x4_zmm_k1z_m128, Register::ZMM0, at(Register::RSI)).unwrap();
    broadcast.set_op_mask(Register::K1);
    assert_eq!(classify(&broadcast).accesses, [access(AccessKind::Load, 16, true, false)]);

    let mut shift =
        Instruction::with3(Code::EVEX_Vpslld_zmm_k1z_zmm_xmmm128, Register::ZMM0, Register::ZMM1, at(Register::RSI))
            .unwrap();
    shift.set_op_mask(Register::K1);
    let facts = classify(&shift);
    assert_eq!(facts.accesses, [access(AccessKind::Load, 16, true, false)]);
    assert_eq!((facts.int_ops, facts.dynamic), (16, Some(Dynamic::Mask { k: 1, lanes: 16 })));
}

#[test]
fn gathers_and_scatters() {
    let vsib = |index| MemoryOperand::new(Register::RAX, index, 8, 0, 1, false, Register::None);
    let avx2 =
        Instruction::with3(Code::VEX_Vgatherdpd_ymm_vm32x_ymm, Register::YMM1, vsib(Register::XMM2), Register::YMM3)
            .unwrap();
    assert_eq!(classify(&avx2).dynamic, Some(Dynamic::VectorMask { register: 3, element: 8, lanes: 4 }));
    assert_eq!(classify(&avx2).accesses, [access(AccessKind::Gather, 32, true, true)]);

    let mut avx512 =
        Instruction::with2(Code::EVEX_Vgatherqps_ymm_k1_vm64z, Register::YMM1, vsib(Register::ZMM2)).unwrap();
    avx512.set_op_mask(Register::K5);
    assert_eq!(classify(&avx512).dynamic, Some(Dynamic::Mask { k: 5, lanes: 8 }));
    assert_eq!(classify(&avx512).accesses, [access(AccessKind::Gather, 32, true, true)]);

    let mut scatter =
        Instruction::with2(Code::EVEX_Vscatterdpd_vm32y_k1_zmm, vsib(Register::YMM2), Register::ZMM1).unwrap();
    scatter.set_op_mask(Register::K1);
    assert_eq!(classify(&scatter).accesses, [access(AccessKind::Scatter, 64, true, true)]);
}

#[test]
fn dot_products_count_selected_lanes() {
    let flops = |imm: u32| {
        let dp = Instruction::with3(Code::Dpps_xmm_xmmm128_imm8, Register::XMM0, Register::XMM1, imm).unwrap();
        classify(&dp).flops.iter().map(|f| f.flops).sum::<u32>()
    };
    assert_eq!([flops(0xff), flops(0x71), flops(0x1f), flops(0x0f)], [7, 5, 1, 0]);
}

#[test]
fn string_instructions_count_one_iteration() {
    let movs = Instruction::with_rep_movsb(64).unwrap();
    let facts = classify(&movs);
    assert_eq!(facts.dynamic, Some(Dynamic::Repeat));
    assert_eq!(facts.accesses, [access(AccessKind::Load, 1, false, false), access(AccessKind::Store, 1, false, false)]);

    let stos = Instruction::with_rep_stosq(64).unwrap();
    assert_eq!(classify(&stos).accesses, [access(AccessKind::Store, 8, false, false)]);

    let scas = Instruction::with_repne_scasb(64).unwrap();
    assert_eq!((classify(&scas).dynamic, classify(&scas).int_ops), (Some(Dynamic::Repeat), 1));

    // Same mnemonic as the string compare.
    let compare = Instruction::with3(Code::Cmpsd_xmm_xmmm64_imm8, Register::XMM0, Register::XMM1, 1u32).unwrap();
    assert!(classify(&compare).fp_instruction && classify(&compare).int_ops == 0);
}

#[test]
fn stack_and_address_instructions() {
    let push = Instruction::with1(Code::Push_r64, Register::RAX).unwrap();
    assert_eq!(classify(&push).accesses, [access(AccessKind::Store, 8, false, false)]);
    let lea = Instruction::with2(Code::Lea_r64_m, Register::RAX, at(Register::RSI)).unwrap();
    assert_eq!((classify(&lea).int_ops, classify(&lea).class), (0, InstructionClass::Mov));
    assert!(classify(&lea).accesses.is_empty());
    let modify = Instruction::with2(Code::Add_rm64_r64, at(Register::RSI), Register::RAX).unwrap();
    assert_eq!(
        classify(&modify).accesses,
        [access(AccessKind::Load, 8, false, false), access(AccessKind::Store, 8, false, false)]
    );
    let prefetch = Instruction::with1(Code::Prefetcht0_m8, at(Register::RSI)).unwrap();
    assert_eq!(classify(&prefetch).accesses, [access(AccessKind::Prefetch, 0, false, false)]);
    let stream = Instruction::with2(Code::VEX_Vmovntpd_m256_ymm, at(Register::RSI), Register::YMM0).unwrap();
    assert_eq!(classify(&stream).accesses, [access(AccessKind::NtStore, 32, true, false)]);
}

#[test]
fn fused_pairs_and_nops_take_no_slot() {
    let jump = |code| Instruction::with_branch(code, 0x1000).unwrap();
    let compare = Instruction::with2(Code::Cmp_r64_rm64, Register::RAX, Register::RCX).unwrap();
    let decrement = Instruction::with1(Code::Dec_rm64, Register::RCX).unwrap();
    let nop = Instruction::with(Code::Nopd);
    assert_eq!(block_issue_slots(&[nop, compare, jump(Code::Jne_rel8_64)]), [0, 1, 0]);
    assert_eq!(block_issue_slots(&[compare, jump(Code::Js_rel8_64)]), [1, 1]);
    assert_eq!(block_issue_slots(&[decrement, jump(Code::Jb_rel8_64)]), [1, 1]);
    assert_eq!(block_issue_slots(&[decrement, jump(Code::Jne_rel8_64)]), [1, 0]);
    let memory = Instruction::with2(Code::Cmp_rm64_imm8, at(Register::RAX), 1).unwrap();
    assert_eq!(block_issue_slots(&[memory, jump(Code::Jne_rel8_64)]), [1, 1]);
}

#[test]
fn integer_operations_by_lane() {
    for (source, operations) in [
        ("add rax, rbx", 1),
        ("lea rax, [rbx+rcx*8+8]", 0),
        ("mov rax, rbx", 0),
        ("shl eax, 3", 1),
        ("imul rax, rbx, 7", 1),
        ("cmp rax, [rbx]", 1),
        ("jne .", 0),
        ("pxor xmm0, xmm1", 2),
        ("vpaddd zmm0, zmm1, zmm2", 16),
        ("vpaddb ymm0, ymm1, ymm2", 32),
        ("vpcmpeqw k1, ymm0, ymm1", 16),
        ("vpternlogd xmm0, xmm1, xmm2, 0x96", 4),
        ("vpmaddwd xmm0, xmm1, xmm2", 12),
        ("vpdpbusd zmm0, zmm1, zmm2", 128),
        ("vpdpwssd zmm0, zmm1, zmm2", 64),
        ("vpsadbw xmm0, xmm1, xmm2", 30),
        ("vpmadd52luq zmm0, zmm1, zmm2", 16),
        ("tdpbssd tmm0, tmm1, tmm2", 32768),
        ("vpshufb zmm0, zmm1, zmm2", 0),
        ("kandw k1, k2, k3", 1),
        ("vaddpd zmm0, zmm1, zmm2", 0),
        ("vandpd zmm0, zmm1, zmm2", 0),
    ] {
        let instruction = assemble::instructions(source)[0];
        assert_eq!(classify(&instruction).int_ops, operations, "{source}");
    }
}

#[test]
fn filler_classes() {
    use InstructionClass::*;
    for (source, class) in [
        ("vfmadd231pd ymm0, ymm1, [rax]", Fp),
        ("vucomisd xmm0, xmm1", Fp),
        ("fild dword ptr [rax]", Fp),
        ("vmovapd ymm0, ymm1", Mov),
        ("vpermpd ymm0, ymm1, 0", Mov),
        ("cmovne rax, rbx", Mov),
        ("fld1", Mov),
        ("vxorps xmm0, xmm0, xmm0", Alu),
        ("vpaddd xmm0, xmm1, xmm2", Alu),
        ("add [rax], rbx", Alu),
        ("vmovupd ymm0, [rax]", Load),
        ("pop rax", Load),
        ("vgatherdpd ymm0, [rax+xmm1*8], ymm2", Load),
        ("vmovntps [rax], ymm0", Store),
        ("push rax", Store),
        ("call .", Branch),
        ("ret", Branch),
        ("loop .", Branch),
        ("nop word ptr [rax+rax]", Nop),
        ("endbr64", Nop),
        ("syscall", Other),
        ("cpuid", Other),
        ("vzeroupper", Other),
    ] {
        let facts = classify(&assemble::instructions(source)[0]);
        assert_eq!((facts.class, facts.issue_slots), (class, u8::from(class != Nop)), "{source}");
    }
}
