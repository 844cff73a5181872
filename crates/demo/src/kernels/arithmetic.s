# Kernels bound in the core, without memory accesses, and the macros of their loops. Accumulators 0 … 11, operands 14 and 15.

# One loop, not passes of loops: the chains run through it without a restart.
.macro LOOP_BEGIN
    imul rcx, r8
    .p2align 6
3:
.endm
.macro LOOP_END
    dec rcx
    jnz 3b
.endm

.macro AVX_BEGIN name, r
FUNCTION \name
    AVX_ONE \r
    AVX_ZERO 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
    LOOP_BEGIN
.endm
.macro AVX_END name
    LOOP_END
    AVX_RETURN
END \name
.endm

# twelve chains of one three-operand instruction
.macro AVX_TWELVE name, r, operation
AVX_BEGIN \name, \r
    .rept 2
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    \operation \r\()\i, \r\()14, \r\()15
    .endr
    .endr
AVX_END \name
.endm

# twelve chains dst = dst op one
.macro AVX_TWELVE_2 name, r, operation
AVX_BEGIN \name, \r
    .rept 2
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    \operation \r\()\i, \r\()\i, \r\()15
    .endr
    .endr
AVX_END \name
.endm

# six chains of adds, six of multiplies; even shares of both
.macro AVX_ADD_MUL name, r
AVX_BEGIN \name, \r
    .rept 2
    .irp i, 0, 1, 2, 3, 4, 5
    vaddpd \r\()\i, \r\()\i, \r\()15
    .endr
    .irp i, 6, 7, 8, 9, 10, 11
    vmulpd \r\()\i, \r\()\i, \r\()15
    .endr
    .endr
AVX_END \name
.endm

# the low half of the lanes
.macro AVX_MASKED name, r, operation
FUNCTION \name
    mov eax, 15
    kmovw k1, eax
    AVX_ONE \r
    AVX_ZERO 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14
    LOOP_BEGIN
    .rept 2
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    \operation \r\()\i {k1}, \r\()14, \r\()15
    .endr
    .endr
AVX_END \name
.endm

# one chain
.macro AVX_ONE_CHAIN name
AVX_BEGIN \name, ymm
    .rept 16
    vaddsd xmm0, xmm0, xmm15
    .endr
AVX_END \name
.endm

# two chains of FMAs
.macro AVX_TWO_CHAINS name, r
AVX_BEGIN \name, \r
    .rept 8
    vfmadd231ps \r\()0, \r\()14, \r\()15
    vfmadd231ps \r\()1, \r\()14, \r\()15
    .endr
AVX_END \name
.endm

# a sum kept in memory: one chain through store forwarding
.macro AVX_MEMORY_CHAIN name
AVX_BEGIN \name, ymm
    vaddsd xmm0, xmm15, [rdi]
    vmovsd [rdi], xmm0
AVX_END \name
.endm

# a chain of 256 adds, begun anew each iteration
.macro AVX_RESTART name
AVX_BEGIN \name, ymm
    vxorpd xmm0, xmm0, xmm0
    .rept 256
    vaddsd xmm0, xmm0, xmm15
    .endr
AVX_END \name
.endm

.macro SEVEN_MOVES
    mov eax, 1
    mov edx, 2
    mov esi, 3
    mov edi, 4
    mov r10d, 5
    mov r11d, 6
    mov eax, 7
.endm
.macro FIFTEEN_ADDS
    .irp g, rax, rdx, rsi, rdi, r10, r11, rax, rdx, rsi, rdi, r10, r11, rax, rdx, rsi
    add \g, 1
    .endr
.endm

# one FMA and fillers
.macro AVX_MIX name, r, filler
AVX_BEGIN \name, \r
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    vfmadd231pd \r\()\i, \r\()14, \r\()15
    \filler
    .endr
AVX_END \name
.endm

# eight independent divisions
.macro AVX_DIV name, r
AVX_BEGIN \name, \r
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    vdivpd \r\()\i, \r\()15, \r\()15
    .endr
AVX_END \name
.endm

# scalar divisions and square roots in turn
.macro AVX_DIV_SQRT name
AVX_BEGIN \name, ymm
    .irp i, 0, 1, 2, 3
    vdivsd xmm\i, xmm15, xmm15
    vsqrtsd xmm1\i, xmm15, xmm15
    .endr
AVX_END \name
.endm

.macro AVX_ARITHMETIC isa, r
AVX_TWELVE demo_peak_\isa, \r, vfmadd231pd
AVX_TWELVE demo_peak_sp_\isa, \r, vfmadd231ps
AVX_TWELVE demo_one_thread_\isa, \r, vfmadd231pd
AVX_TWELVE demo_uneven_\isa, \r, vfmadd231pd
AVX_TWELVE demo_uneven_spin_\isa, \r, vfmadd231pd
AVX_TWELVE demo_simd_scalar_\isa, xmm, vfmadd231sd
AVX_TWELVE demo_simd_narrow_\isa, xmm, vfmadd231ps
AVX_TWELVE_2 demo_balance_add_\isa, \r, vaddpd
AVX_TWELVE_2 demo_balance_mul_\isa, \r, vmulps
AVX_ADD_MUL demo_add_mul_\isa, \r
AVX_ONE_CHAIN demo_ilp_chain_\isa
AVX_TWO_CHAINS demo_ilp_two_\isa, \r
AVX_MEMORY_CHAIN demo_ilp_memory_\isa
AVX_RESTART demo_ilp_restart_\isa
AVX_MIX demo_mix_mov_\isa, \r, SEVEN_MOVES
AVX_MIX demo_mix_add_\isa, \r, FIFTEEN_ADDS
AVX_DIV demo_div_\isa, \r
AVX_DIV_SQRT demo_div_sqrt_\isa
.endm

AVX_ARITHMETIC avx512, zmm
AVX_ARITHMETIC avx2, ymm
AVX_MASKED demo_simd_masked_avx512, zmm, vfmadd231pd
AVX_TWELVE demo_simd_half_avx512, ymm, vfmadd231ps

# --- SSE2: no FMA, so the roof is adds and multiplies in even shares ---

.macro SSE_BEGIN name
FUNCTION \name
    SSE_ONE
    SSE_ZERO 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
    LOOP_BEGIN
.endm
.macro SSE_END name
    LOOP_END
    SSE_RETURN
END \name
.endm

# six chains of each of two operations
.macro SSE_TWELVE name, first, second
SSE_BEGIN \name
    .rept 2
    .irp i, 0, 1, 2, 3, 4, 5
    \first xmm\i, xmm15
    .endr
    .irp i, 6, 7, 8, 9, 10, 11
    \second xmm\i, xmm15
    .endr
    .endr
SSE_END \name
.endm

SSE_TWELVE demo_peak_sse2, addpd, mulpd
SSE_TWELVE demo_peak_sp_sse2, addps, mulps
SSE_TWELVE demo_one_thread_sse2, addpd, mulpd
SSE_TWELVE demo_uneven_sse2, addpd, mulpd
SSE_TWELVE demo_uneven_spin_sse2, addpd, mulpd
SSE_TWELVE demo_simd_scalar_sse2, addsd, mulsd
SSE_TWELVE demo_balance_add_sse2, addpd, addpd
SSE_TWELVE demo_balance_mul_sse2, mulps, mulps
SSE_TWELVE demo_add_mul_sse2, addpd, mulpd

SSE_BEGIN demo_ilp_chain_sse2
    .rept 16
    addsd xmm0, xmm15
    .endr
SSE_END demo_ilp_chain_sse2

SSE_BEGIN demo_ilp_two_sse2
    .rept 8
    addps xmm0, xmm15
    mulps xmm1, xmm15
    .endr
SSE_END demo_ilp_two_sse2

SSE_BEGIN demo_ilp_memory_sse2
    movsd xmm0, [rdi]
    addsd xmm0, xmm15
    movsd [rdi], xmm0
SSE_END demo_ilp_memory_sse2

SSE_BEGIN demo_ilp_restart_sse2
    xorpd xmm0, xmm0
    .rept 256
    addsd xmm0, xmm15
    .endr
SSE_END demo_ilp_restart_sse2

.macro SSE_MIX name, filler
SSE_BEGIN \name
    .irp i, 0, 1, 2, 3, 4, 5
    addpd xmm\i, xmm15
    \filler
    .endr
    .irp i, 6, 7, 8, 9, 10, 11
    mulpd xmm\i, xmm15
    \filler
    .endr
SSE_END \name
.endm
SSE_MIX demo_mix_mov_sse2, SEVEN_MOVES
SSE_MIX demo_mix_add_sse2, FIFTEEN_ADDS

# the dividend is the destination: it is renewed, so that the divisions are independent
SSE_BEGIN demo_div_sse2
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    movapd xmm\i, xmm15
    divpd xmm\i, xmm15
    .endr
SSE_END demo_div_sse2

SSE_BEGIN demo_div_sqrt_sse2
    .irp i, 0, 1, 2, 3
    movapd xmm\i, xmm15
    divsd xmm\i, xmm15
    sqrtsd xmm1\i, xmm15
    .endr
SSE_END demo_div_sqrt_sse2
