# Kernels bound by a level of the memory hierarchy, \r = zmm or ymm, \w = its bytes.

# sum += a[i]: as many accumulators as vectors in a body, one load each; a turn is eight vectors
.macro AVX_READ_BY name, r, w, vectors, accumulators:vararg
FUNCTION \name
    AVX_ZERO \accumulators
    imul rcx, rcx, 8 / \vectors
2:  mov rax, rdi
    mov r9, rcx
    .p2align 6
3:  .irp i, \accumulators
    vaddpd \r\()\i, \r\()\i, [rax + \w * \i]
    .endr
    add rax, \vectors * \w
    dec r9
    jnz 3b
    dec r8
    jnz 2b
    AVX_RETURN
END \name
.endm

.macro AVX_READ name, r, w
AVX_READ_BY \name, \r, \w, 8, 0, 1, 2, 3, 4, 5, 6, 7
.endm

# a[i] = b[i] + s * c[i]; \mov = the store
.macro AVX_TRIAD name, r, w, load, fma, store
FUNCTION \name
    AVX_ONE \r
2:  mov r9, rdi
    mov r10, rsi
    mov r11, rdx
    mov rax, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3
    \load \r\()\i, [r10 + \w * \i]
    \fma \r\()\i, \r\()15, [r11 + \w * \i]
    \store [r9 + \w * \i], \r\()\i
    .endr
    add r9, 4 * \w
    add r10, 4 * \w
    add r11, 4 * \w
    dec rax
    jnz 3b
    dec r8
    jnz 2b
    sfence
    AVX_RETURN
END \name
.endm

# a[i] = s * a[i]
.macro AVX_UPDATE name, r, w
FUNCTION \name
    AVX_ONE \r
2:  mov r9, rdi
    mov rax, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3
    vmulpd \r\()\i, \r\()15, [r9 + \w * \i]
    vmovapd [r9 + \w * \i], \r\()\i
    .endr
    add r9, 4 * \w
    dec rax
    jnz 3b
    dec r8
    jnz 2b
    AVX_RETURN
END \name
.endm

# a[i] = s + b[i], single precision
.macro AVX_COPY_ADD name, r, w
FUNCTION \name
    AVX_ONE \r
2:  mov r9, rdi
    mov r10, rsi
    mov rax, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3
    vaddps \r\()\i, \r\()15, [r10 + \w * \i]
    vmovaps [r9 + \w * \i], \r\()\i
    .endr
    add r9, 4 * \w
    add r10, 4 * \w
    dec rax
    jnz 3b
    dec r8
    jnz 2b
    AVX_RETURN
END \name
.endm

# two loads, one add of them into one of eight accumulators; the end of the array costs no mispredicted branch
.macro AVX_L1_LOADS name, r, w
FUNCTION \name
    AVX_ZERO 0, 1, 2, 3, 4, 5, 6, 7
    mov rax, rdi
    imul r9, rcx, 16 * \w
    add r9, rdi
    imul r8, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    vmovapd \r\()8, [rax + \w * 2 * \i]
    vmovapd \r\()9, [rax + \w * 2 * \i + \w]
    vaddpd \r\()\i, \r\()\i, \r\()8
    .endr
    add rax, 16 * \w
    cmp rax, r9
    cmove rax, rdi
    dec r8
    jnz 3b
    AVX_RETURN
END \name
.endm

# a[i] = s + t: one add, one store
.macro AVX_L1_STORE name, r, w
FUNCTION \name
    AVX_ONE \r
2:  mov rax, rdi
    mov r9, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    vaddpd \r\()\i, \r\()15, \r\()15
    vmovapd [rax + \w * \i], \r\()\i
    .endr
    add rax, 8 * \w
    dec r9
    jnz 3b
    dec r8
    jnz 2b
    AVX_RETURN
END \name
.endm

# scalar: two loads (one of them in the add) for one add
.macro AVX_L1_ACCESS name
FUNCTION \name
    AVX_ZERO 0, 1, 2, 3, 4, 5, 6, 7
2:  mov rax, rdi
    mov r9, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    vmovsd xmm8, [rax + 16 * \i]
    vaddsd xmm\i, xmm\i, [rax + 16 * \i + 8]
    .endr
    add rax, 128
    dec r9
    jnz 3b
    dec r8
    jnz 2b
    AVX_RETURN
END \name
.endm

.macro AVX_STREAM isa, r, w
AVX_READ demo_dram_read_\isa, \r, \w
AVX_READ demo_l3_read_\isa, \r, \w
AVX_TRIAD demo_dram_triad_\isa, \r, \w, vmovapd, vfmadd231pd, vmovapd
AVX_TRIAD demo_dram_triad_nt_\isa, \r, \w, vmovaps, vfmadd231ps, vmovntps
AVX_UPDATE demo_dram_update_\isa, \r, \w
AVX_UPDATE demo_l3_update_\isa, \r, \w
AVX_COPY_ADD demo_l2_copy_\isa, \r, \w
AVX_L1_LOADS demo_l1_loads_\isa, \r, \w
AVX_L1_STORE demo_l1_store_\isa, \r, \w
AVX_L1_ACCESS demo_l1_access_\isa
.endm

AVX_STREAM avx512, zmm, 64
AVX_STREAM avx2, ymm, 32
# Some cores take more from L2 in short loops; four chains of additions are as fast as L2 with vectors of 64 bytes alone.
AVX_READ_BY demo_l2_read_avx512, zmm, 64, 4, 0, 1, 2, 3
AVX_READ demo_l2_read_avx2, ymm, 32

.macro SSE_READ name
FUNCTION \name
    SSE_ZERO 0, 1, 2, 3, 4, 5, 6, 7
2:  mov rax, rdi
    mov r9, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    addpd xmm\i, [rax + 16 * \i]
    .endr
    add rax, 128
    dec r9
    jnz 3b
    dec r8
    jnz 2b
    SSE_RETURN
END \name
.endm

.macro SSE_TRIAD name, load, mul, add, store
FUNCTION \name
    SSE_ONE
2:  mov r9, rdi
    mov r10, rsi
    mov r11, rdx
    mov rax, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3
    \load xmm\i, [r11 + 16 * \i]
    \mul xmm\i, xmm15
    \add xmm\i, [r10 + 16 * \i]
    \store [r9 + 16 * \i], xmm\i
    .endr
    add r9, 64
    add r10, 64
    add r11, 64
    dec rax
    jnz 3b
    dec r8
    jnz 2b
    sfence
    SSE_RETURN
END \name
.endm

.macro SSE_UPDATE name
FUNCTION \name
    SSE_ONE
2:  mov r9, rdi
    mov rax, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3
    movapd xmm\i, [r9 + 16 * \i]
    mulpd xmm\i, xmm15
    movapd [r9 + 16 * \i], xmm\i
    .endr
    add r9, 64
    dec rax
    jnz 3b
    dec r8
    jnz 2b
    SSE_RETURN
END \name
.endm

.macro SSE_COPY_ADD name
FUNCTION \name
    SSE_ONE
2:  mov r9, rdi
    mov r10, rsi
    mov rax, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3
    movaps xmm\i, [r10 + 16 * \i]
    addps xmm\i, xmm15
    movaps [r9 + 16 * \i], xmm\i
    .endr
    add r9, 64
    add r10, 64
    dec rax
    jnz 3b
    dec r8
    jnz 2b
    SSE_RETURN
END \name
.endm

.macro SSE_L1_LOADS name
FUNCTION \name
    SSE_ZERO 0, 1, 2, 3, 4, 5, 6, 7
    mov rax, rdi
    imul r9, rcx, 256
    add r9, rdi
    imul r8, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    movapd xmm8, [rax + 32 * \i]
    movapd xmm9, [rax + 32 * \i + 16]
    addpd xmm\i, xmm8
    .endr
    add rax, 256
    cmp rax, r9
    cmove rax, rdi
    dec r8
    jnz 3b
    SSE_RETURN
END \name
.endm

.macro SSE_L1_STORE name
FUNCTION \name
    SSE_ONE
    SSE_ZERO 0, 1, 2, 3, 4, 5, 6, 7
2:  mov rax, rdi
    mov r9, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    addpd xmm\i, xmm15
    movapd [rax + 16 * \i], xmm\i
    .endr
    add rax, 128
    dec r9
    jnz 3b
    dec r8
    jnz 2b
    SSE_RETURN
END \name
.endm

.macro SSE_L1_ACCESS name
FUNCTION \name
    SSE_ZERO 0, 1, 2, 3, 4, 5, 6, 7
2:  mov rax, rdi
    mov r9, rcx
    .p2align 6
3:  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    movsd xmm8, [rax + 16 * \i]
    addsd xmm\i, [rax + 16 * \i + 8]
    .endr
    add rax, 128
    dec r9
    jnz 3b
    dec r8
    jnz 2b
    SSE_RETURN
END \name
.endm

SSE_READ demo_dram_read_sse2
SSE_READ demo_l3_read_sse2
SSE_READ demo_l2_read_sse2
SSE_TRIAD demo_dram_triad_sse2, movapd, mulpd, addpd, movapd
SSE_TRIAD demo_dram_triad_nt_sse2, movaps, mulps, addps, movntps
SSE_UPDATE demo_dram_update_sse2
SSE_UPDATE demo_l3_update_sse2
SSE_COPY_ADD demo_l2_copy_sse2
SSE_L1_LOADS demo_l1_loads_sse2
SSE_L1_STORE demo_l1_store_sse2
SSE_L1_ACCESS demo_l1_access_sse2
