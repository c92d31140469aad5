/* The bottom frame of every fiber on aarch64. Entered by `br` with sp 16-byte aligned, the C
 * function to call in x29 and the passed pointer in x2. There is no caller: the return address is
 * undefined, so unwinders stop here, and the function finds a frame pointer of zero.
 */
        .text
        .globl  weft__context_entry
        .hidden weft__context_entry
        .type   weft__context_entry, %function
        .p2align 4
weft__context_entry:
        .cfi_startproc
        .cfi_undefined x30
        hint    #36             /* bti j */
        mov     x9, x29
        mov     x29, xzr
        mov     x30, xzr
        mov     x0, x2
        blr     x9
        brk     #0xf1
        .cfi_endproc
        .size   weft__context_entry, . - weft__context_entry

        .section .note.GNU-stack, "", %progbits

/* BTI is supported. */
        .section .note.gnu.property, "a"
        .p2align 3
        .word   4
        .word   16
        .word   5
        .asciz  "GNU"
        .word   0xc0000000
        .word   4
        .word   1
        .word   0
