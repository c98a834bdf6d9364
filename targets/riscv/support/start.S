/* Start-up: stack and global pointer, zeros in .bss, main(), exit with what it returns.
 *
 * The simulator takes each `ecall` itself. On a core, `trap` passes it on to a device at HOST, which acts on the store
 * of a7; the registers that it needs are saved below the stack pointer.
 */
#define HOST 0x70000000

    .section .text.start, "ax"
    .globl _start
    .type _start, @function
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stack_top
    la t0, trap
    csrw mtvec, t0
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  li a0, 0
    li a1, 0
    call main
    li a7, 93
    ecall
3:  j 3b

    /* Alone in its page, so that a harness can tell its cycles from the program's. */
    .section .text.trap, "ax"
    .balign 4096
    .globl trap
    .type trap, @function
trap:
    sw t0, -4(sp)
    li t0, HOST
    sw a0, 0(t0)
    sw a1, 4(t0)
    sw a2, 8(t0)
    sw a7, 12(t0)
    lw a0, 0(t0)
    csrr t0, mepc
    addi t0, t0, 4
    csrw mepc, t0
    lw t0, -4(sp)
    mret
    .balign 4096
