//! Dependency cycles of loop bodies with a known critical path.

use rprof::isa::dependency::{BodyDependencies, ChainStep, Cycle};
use rprof::isa::operation::{FpOp, Precision, Width};
use rprof::isa::x86_64::analyse_body;

use crate::assemble;
use crate::assemble::instructions;

const ADD: ChainStep = ChainStep::arithmetic(FpOp::Add, Precision::Dp, Width::Scalar);
const MUL: ChainStep = ChainStep::arithmetic(FpOp::Mul, Precision::Dp, Width::Scalar);
const FMA: ChainStep = ChainStep::arithmetic(FpOp::Fma, Precision::Dp, Width::Scalar);
const PACKED_FMA: ChainStep = ChainStep::arithmetic(FpOp::Fma, Precision::Sp, Width::W512);
const X87_ADD: ChainStep = ChainStep::arithmetic(FpOp::Add, Precision::X87, Width::Scalar);

fn analyse(source: &str) -> BodyDependencies {
    analyse_body(&instructions(source)).expect("a short body")
}

fn has(found: &BodyDependencies, steps: &[ChainStep], distance: u32) -> bool {
    found.cycles.contains(&Cycle { steps: steps.to_vec(), distance })
}

#[test]
fn one_accumulator_is_a_chain_of_one_add() {
    let found = analyse("1: vaddsd xmm0, xmm0, [rax]; add rax, 8; cmp rax, rcx; jne 1b");
    assert!(has(&found, &[ADD], 1), "{found:?}");
    assert_eq!((found.fp_instructions, &found.restarted), (1, &None));
}

#[test]
fn four_accumulators_are_the_same_cycle_as_one() {
    let found = analyse(
        "1: vfmadd231ps zmm0, zmm8, [rax]; vfmadd231ps zmm1, zmm8, [rax+64]; vfmadd231ps zmm2, zmm8, [rax+128]
         vfmadd231ps zmm3, zmm8, [rax+192]; add rax, 256; cmp rax, rcx; jne 1b",
    );
    assert!(has(&found, &[PACKED_FMA], 1), "{found:?}");
    assert_eq!(found.fp_instructions, 4);
}

#[test]
fn a_multiply_add_of_a_sum_is_told_from_one_that_scales() {
    use rprof::isa::dependency::are_serial;
    let of = |instruction: &str| {
        let found = analyse(&format!("1: {instruction}; dec rcx; jne 1b"));
        let with = |step: ChainStep| has(&found, &[step], 1);
        assert!(with(FMA) != with(FMA.of_factor()), "{found:?}");
        (with(FMA.of_factor()), are_serial(&found.cycles, found.stored))
    };
    // s = a·b + s, s = b·c + s.
    assert_eq!(of("vfmadd231sd xmm0, xmm1, xmm2"), (false, false));
    assert_eq!(of("vfnmadd231sd xmm0, xmm1, [rax]"), (false, false));
    // x = x·c + b, x = b·x + c, x = b·x + [m].
    assert_eq!(of("vfmadd132sd xmm0, xmm1, xmm2"), (true, true));
    assert_eq!(of("vfmadd213sd xmm0, xmm1, xmm2"), (true, true));
    assert_eq!(of("vfmsub213sd xmm0, xmm1, [rax]"), (true, true));
    // x = b·c + x and x = b·a + x with the sum as another operand.
    assert_eq!(of("vfmadd213sd xmm1, xmm2, xmm0; vmovapd xmm0, xmm1; vmovapd xmm1, xmm3"), (false, false));
}

#[test]
fn an_unrolled_chain_has_all_its_steps() {
    let found = analyse("1: addsd xmm0, xmm1; addsd xmm0, xmm2; mulsd xmm0, xmm3; dec rcx; jne 1b");
    assert!(has(&found, &[ADD, ADD, MUL], 1), "{found:?}");
}

#[test]
fn rotated_registers_span_iterations() {
    // Two values in turn: each is used again two iterations later.
    let found = analyse("1: vaddsd xmm2, xmm0, xmm5; vmovapd xmm0, xmm1; vmovapd xmm1, xmm2; dec rcx; jne 1b");
    assert!(has(&found, &[ADD], 2), "{found:?}");
}

#[test]
fn zeroing_breaks_the_chain_and_leaves_a_restarted_one() {
    let found =
        analyse("1: vxorpd xmm0, xmm0, xmm0; vaddsd xmm0, xmm0, xmm1; vaddsd xmm0, xmm0, xmm2; dec rcx; jne 1b");
    assert!(!found.cycles.iter().any(|cycle| cycle.steps.contains(&ADD)), "{found:?}");
    assert_eq!(found.restarted, Some(Cycle { steps: vec![ADD, ADD], distance: 1 }));
}

#[test]
fn merge_masking_reads_the_target_and_zero_masking_does_not() {
    let merged = analyse("1: vaddps zmm0{k1}, zmm1, zmm2; dec rcx; jne 1b");
    assert!(merged.cycles.iter().any(|cycle| matches!(cycle.steps[..], [ChainStep::Fp { .. }])), "{merged:?}");
    let zeroed = analyse("1: vaddps zmm0{k1}{z}, zmm1, zmm2; dec rcx; jne 1b");
    assert!(!zeroed.cycles.iter().any(|cycle| matches!(cycle.steps[..], [ChainStep::Fp { .. }])), "{zeroed:?}");
}

#[test]
fn memory_carries_a_chain() {
    // An accumulator in memory.
    let found = analyse("1: vaddsd xmm0, xmm1, [rsi]; vmovsd [rsi], xmm0; dec rcx; jne 1b");
    assert!(has(&found, &[ChainStep::Forward, ADD], 1), "{found:?}");
    // a[i] = a[i-1] * x + y
    let found = analyse(
        "1: vmovsd xmm0, [rdi+rax*8-8]; vfmadd213sd xmm0, xmm1, xmm2; vmovsd [rdi+rax*8], xmm0; inc rax; cmp rax, rcx; jne 1b",
    );
    assert!(has(&found, &[ChainStep::Forward, FMA.of_factor()], 1), "{found:?}");
    // a[i] = a[i-2] + y, with the pointer moved between the load and the store
    let found = analyse(
        "1: vmovsd xmm0, [rdi-16]; vaddsd xmm0, xmm0, xmm1; add rdi, 8; vmovsd [rdi-8], xmm0; cmp rdi, rcx; jne 1b",
    );
    assert!(has(&found, &[ChainStep::Forward, ADD], 2), "{found:?}");
    // a[i] = a[i] + y carries nothing.
    let found =
        analyse("1: vmovsd xmm0, [rdi]; vaddsd xmm0, xmm0, xmm1; vmovsd [rdi], xmm0; add rdi, 8; cmp rdi, rcx; jne 1b");
    assert!(found.cycles.iter().all(|cycle| cycle.steps == [ChainStep::Integer]), "{found:?}");
}

#[test]
fn a_value_that_passes_memory_within_an_iteration() {
    let found = analyse("1: mov [rsp-8], rax; mov rdx, [rsp-8]; imul rdx, rbx; mov rax, rdx; dec rcx; jne 1b");
    assert!(has(&found, &[ChainStep::Forward, ChainStep::IntegerMultiply], 1), "{found:?}");
}

#[test]
fn what_is_stored_in_each_iteration_is_a_result() {
    let stored = |source: &str| analyse(source).stored;
    let next = "inc rax; cmp rax, rcx; jne 1b";
    // y[i] = s = a * s + x[i], through a move, too; a[i] = a[i-1] * x + y
    assert!(stored(&format!("1: mulsd xmm0, xmm1; addsd xmm0, [rsi+rax*8]; movsd [rdi+rax*8], xmm0; {next}")));
    assert!(stored(&format!(
        "1: mulsd xmm0, xmm1; addsd xmm0, xmm2; movapd xmm3, xmm0; movsd [rdi+rax*8], xmm3; {next}"
    )));
    assert!(stored(&format!(
        "1: vmovsd xmm0, [rdi+rax*8-8]; vfmadd213sd xmm0, xmm1, xmm2; vmovsd [rdi+rax*8], xmm0; {next}"
    )));
    // A sum in a register or in memory; a product beside a sum; a value made of the loop's counter.
    assert!(!stored(&format!("1: addsd xmm0, [rsi+rax*8]; {next}")));
    assert!(!stored("1: vaddsd xmm0, xmm1, [rsi]; vmovsd [rsi], xmm0; dec rcx; jne 1b"));
    assert!(!stored(&format!(
        "1: movsd xmm1, [rsi+rax*8]; addsd xmm0, xmm1; mulsd xmm1, xmm1; movsd [rdi+rax*8], xmm1; {next}"
    )));
    assert!(!stored(&format!(
        "1: pxor xmm0, xmm0; cvtsi2sd xmm0, rax; mulsd xmm0, xmm1; movsd [rdi+rax*8], xmm0; {next}"
    )));
}

#[test]
fn pointer_chasing_is_a_load() {
    let found = analyse("1: mov rax, [rax]; vaddsd xmm0, xmm0, [rax+8]; dec rcx; jne 1b");
    assert!(has(&found, &[ChainStep::Load], 1), "{found:?}");
    let offset = analyse("1: mov rax, [rax+8]; lea rax, [rax+16]; dec rcx; jne 1b");
    assert!(has(&offset, &[ChainStep::Load, ChainStep::Integer], 1), "{offset:?}");
}

#[test]
fn integer_chains_leave_flags_out_unless_carry_is_added() {
    let found = analyse("1: imul rax, rbx; add rax, 1; dec rcx; jne 1b");
    assert!(has(&found, &[ChainStep::IntegerMultiply, ChainStep::Integer], 1), "{found:?}");
    // Carries: the sum of one word enters the next.
    let found = analyse("1: adc r8, [rsi]; adc r9, [rsi+8]; adc r10, [rsi+16]; lea rsi, [rsi+24]; dec rcx; jne 1b");
    assert!(has(&found, &[ChainStep::Integer; 3], 1), "{found:?}");
    let found = analyse("1: add r8, [rsi]; add r9, [rsi+8]; add r10, [rsi+16]; lea rsi, [rsi+24]; dec rcx; jne 1b");
    assert!(found.cycles.iter().all(|cycle| cycle.steps.len() == 1), "{found:?}");
}

#[test]
fn x87_stack_is_followed() {
    // sum += x[i]
    let found = analyse("1: fld qword ptr [rax]; faddp st(1), st; add rax, 8; cmp rax, rcx; jne 1b");
    assert!(has(&found, &[X87_ADD], 1), "{found:?}");
    // Two sums in turn: exchanging makes each wait only every second time.
    let found = analyse("1: fadd qword ptr [rax]; fxch st(1); dec rcx; jne 1b");
    assert!(has(&found, &[X87_ADD], 2), "{found:?}");
}

#[test]
fn a_call_ends_what_it_may_clobber() {
    let found = analyse("1: addsd xmm0, xmm1; call 2f; imul rbx, rbx; dec rbp; jne 1b; 2:");
    assert!(!found.cycles.iter().any(|cycle| cycle.steps.contains(&ADD)), "{found:?}");
    assert!(has(&found, &[ChainStep::IntegerMultiply], 1), "{found:?}");
}

#[test]
fn legacy_conversions_wait_for_their_target() {
    let found = analyse("1: cvtsi2sd xmm0, rax; movsd [rdi], xmm0; dec rcx; jne 1b");
    assert!(has(&found, &[ChainStep::Vector], 1), "{found:?}");
}

#[test]
fn code_is_cut_into_blocks_and_loops() {
    use rprof::isa::control_flow::loops;
    use rprof::isa::x86_64::CodeGraph;

    let bytes = assemble::machine_code(
        "xor eax, eax; 1: xor ecx, ecx; 2: inc ecx; cmp ecx, 10; jne 2b; inc eax; cmp eax, 10; jne 1b; ret",
    );
    let whole = CodeGraph::new([(0, &bytes[..])]);
    // The same code as an engine counts it: the blocks that jumps enter overlap those before them.
    let inner = 4;
    let parts = CodeGraph::new([
        (0, &bytes[..11]),
        (2, &bytes[2..11]),
        (inner, &bytes[inner as usize..11]),
        (11, &bytes[11..]),
    ]);
    assert_eq!(whole.blocks, parts.blocks);
    let found = loops(&whole.blocks, 0);
    assert_eq!(found.len(), 2);
    assert_eq!((whole.blocks[found[0].header].start, found[0].depth, found[0].blocks.len()), (2, 1, 3));
    assert_eq!((whole.blocks[found[1].header].start, found[1].depth, found[1].blocks.len()), (4, 2, 1));
    assert_eq!(whole.block_instructions(found[1].header).len(), 3);
}

#[test]
fn what_follows_the_last_operation_is_no_part_of_a_restarted_chain() {
    let found = analyse(
        "1: vmovupd zmm0{k3}{z}, [rdx]; vmulpd zmm0, zmm0, zmm4; vaddpd zmm0{k1}, zmm0, zmm5; vmovupd [rdx]{k3}, zmm0
         add rdx, 64; cmp rdx, rcx; jne 1b",
    );
    let packed = |op| ChainStep::arithmetic(op, Precision::Dp, Width::W512);
    assert_eq!(found.restarted.map(|cycle| cycle.steps), Some(vec![packed(FpOp::Mul), packed(FpOp::Add)]));
}
