# Every kernel is one function:
#     u64 kernel(rdi = a, rsi = b, rdx = c, rcx = iterations of a pass, r8 = passes)
# It returns the low lane of an accumulator, so that the work has a result. No kernel uses the stack or a
# register that the caller keeps. Numeric labels start at 2: "0b" and "1b" read as numbers in this syntax.

.macro FUNCTION name
    .section .text.\name, "ax", @progbits
    .p2align 6
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .cfi_startproc
.endm

.macro END name
    .cfi_endproc
    .size \name, . - \name
.endm

# register 15 = 1.0000002 in every double lane, 1 and 1.875 in the single ones; clobbers rax
.macro AVX_ONE r
    mov rax, 0x3ff000003f800000
    vmovq xmm15, rax
    .ifc \r, xmm
    vmovddup xmm15, xmm15
    .else
    vbroadcastsd \r\()15, xmm15
    .endif
.endm

.macro SSE_ONE
    mov rax, 0x3ff000003f800000
    movq xmm15, rax
    unpcklpd xmm15, xmm15
.endm

.macro AVX_ZERO registers:vararg
    .irp i, \registers
    vxorpd xmm\i, xmm\i, xmm\i
    .endr
.endm

.macro SSE_ZERO registers:vararg
    .irp i, \registers
    xorpd xmm\i, xmm\i
    .endr
.endm

.macro AVX_RETURN
    vmovq rax, xmm0
    vzeroupper
    ret
.endm

.macro SSE_RETURN
    movq rax, xmm0
    ret
.endm
