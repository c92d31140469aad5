/* The bottom frame of every fiber on x86_64. Entered by a jump with rsp 16-byte aligned, the C
 * function to call in rbp and the passed pointer in rdx. There is no caller: the return address is
 * undefined, so unwinders stop here, and the function finds a frame pointer of zero.
 */
        .text
        .globl  weft__context_entry
        .hidden weft__context_entry
        .type   weft__context_entry, @function
        .p2align 4
weft__context_entry:
        .cfi_startproc
        .cfi_undefined rip
        endbr64
        movq    %rbp, %rax
        xorl    %ebp, %ebp
        movq    %rdx, %rdi
        callq   *%rax
        ud2
        .cfi_endproc
        .size   weft__context_entry, . - weft__context_entry

/* Return their argument; see context/context.h. notrack: a return address carries no endbr64. */
        .globl  weft__context_return, weft__context_return_long
        .hidden weft__context_return, weft__context_return_long
        .type   weft__context_return, @function
        .type   weft__context_return_long, @function
        .p2align 4
weft__context_return:
weft__context_return_long:
        .cfi_startproc
        endbr64
        movq    %rdi, %rax
        popq    %rcx
        .cfi_adjust_cfa_offset -8
        .cfi_register rip, rcx
        notrack jmpq *%rcx
        .cfi_endproc
        .size   weft__context_return, . - weft__context_return
        .size   weft__context_return_long, . - weft__context_return_long

        .section .note.GNU-stack, "", @progbits

/* IBT is supported, SHSTK is not: the shadow stack is not switched. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4
        .long   16
        .long   5
        .asciz  "GNU"
        .long   0xc0000002
        .long   4
        .long   1
        .long   0
