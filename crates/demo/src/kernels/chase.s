# Kernels bound by latency. a points to eight start addresses (chases) or to the table (random).

# one chain of dependent loads, one add a hop
.macro CHASE name, add:vararg
FUNCTION \name
    mov rax, [rdi]
    xorpd xmm0, xmm0
    xorpd xmm1, xmm1
    imul rcx, r8
    .p2align 6
3:  .rept 8
    mov rax, [rax]
    \add
    .endr
    dec rcx
    jnz 3b
    movq rax, xmm0
    ret
END \name
.endm

# eight such chains, interleaved
.macro CHASE_8 name, add:vararg
FUNCTION \name
    xorpd xmm0, xmm0
    xorpd xmm1, xmm1
    mov rax, r8
    push rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    mov rbx, rdi
    mov rdx, [rbx]
    mov rsi, [rbx + 8]
    mov rdi, [rbx + 16]
    mov r8, [rbx + 24]
    mov r10, [rbx + 40]
    mov r11, [rbx + 48]
    mov r9, [rbx + 32]
    mov rbx, [rbx + 56]
    imul rcx, rax
    .p2align 6
3:  .irp r, rdx, rsi, rdi, r8, r9, r10, r11, rbx
    mov \r, [\r]
    \add
    .endr
    dec rcx
    jnz 3b
    pop rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    movq rax, xmm0
    ret
END \name
.endm

# sum += a[random]: rdx masks the byte offset, rax is a congruential generator; eight accumulators
.macro RANDOM name, add
FUNCTION \name
    mov rax, 0x9e3779b97f4a7c15
    mov r10, 6364136223846793005
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    xorpd xmm\i, xmm\i
    .endr
    imul rcx, r8
    .p2align 6
3:  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    imul rax, r10
    add rax, rcx
    mov rsi, rax
    shr rsi, 24
    and rsi, rdx
    \add \i
    .endr
    dec rcx
    jnz 3b
    movq rax, xmm0
    ret
END \name
.endm

.macro AVX_RANDOM_ADD i
    vaddsd xmm\i, xmm\i, [rdi + rsi]
.endm
.macro SSE_RANDOM_ADD i
    addsd xmm\i, [rdi + rsi]
.endm

.macro LATENCY isa, random, add:vararg
CHASE demo_dram_chase_\isa, \add
CHASE demo_l2_chase_\isa, \add
CHASE_8 demo_dram_chase8_\isa, \add
RANDOM demo_dram_random_\isa, \random
.endm

LATENCY avx512, AVX_RANDOM_ADD, vaddsd xmm0, xmm0, xmm1
LATENCY avx2, AVX_RANDOM_ADD, vaddsd xmm0, xmm0, xmm1
LATENCY sse2, SSE_RANDOM_ADD, addsd xmm0, xmm1
