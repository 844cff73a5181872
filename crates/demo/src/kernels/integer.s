# Kernels whose work is integers and branches; the same on every CPU.

# eight chains of subtract, exclusive or, add
FUNCTION demo_int
    imul rcx, r8
    .p2align 6
3:  .rept 6
    .irp g, rax, rdx, rsi, rdi, r8, r9, r10, r11
    sub \g, 0x7
    xor \g, 0x55
    add \g, 0x12
    .endr
    .endr
    dec rcx
    jnz 3b
    ret
END demo_int

# a random bit decides whether one add is done: about one branch in two is mispredicted
FUNCTION demo_mispredict
    mov rdx, 0x9e3779b97f4a7c15
    xorpd xmm0, xmm0
    xorpd xmm1, xmm1
    imul rcx, r8
    .p2align 6
3:  mov rax, rdx
    shl rax, 13
    xor rdx, rax
    mov rax, rdx
    shr rax, 7
    xor rdx, rax
    mov rax, rdx
    shl rax, 17
    xor rdx, rax
    mov rax, rdx
    .rept 32
    shr rax, 1
    jnc 4f
    addsd xmm0, xmm1
4:
    .endr
    dec rcx
    jnz 3b
    movq rax, xmm0
    ret
END demo_mispredict
