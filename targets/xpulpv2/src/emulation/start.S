/* Start-up of a program without an operating system: its memory ends with the stack. */
    .section .text.start, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, trainc_stack_end
    call trainc_start

    .section .bss
    .balign 16
    .space 1 << 20
trainc_stack_end:
