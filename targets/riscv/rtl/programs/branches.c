/* Taken branches and jumps before instructions that take long: what stands behind them is not executed, but a division has
 * begun. Each mark ends 100 rounds with each divisor. */
#include "host.h"

static const uint32_t divisors[] = { 0, 1, 7, 100, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 0xffff0000 };

#define ROUNDS(text) \
    for (uint32_t i = 0; i < sizeof divisors / sizeof *divisors; i++) { \
        uint32_t divisor = divisors[i]; \
        for (int round = 0; round < 100; round++) { \
            __asm__ volatile(".balign 4\n.option push\n.option norelax\n" text "\n.option pop" \
                             : "+r"(divisor) \
                             : "r"(divisors + i) \
                             : "t0", "t1", "t2", "a5", "ra"); \
        } \
    } \
    host_mark(label++);

int main(void)
{
    int32_t label = 0;
    /* Divisions of each kind. */
    ROUNDS("li t0, 99\n beqz x0, 1f\n div t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS("li t0, 99\n beqz x0, 1f\n divu t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS("li t0, -99\n beqz x0, 1f\n rem t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS("li t0, 99\n beqz x0, 1f\n remu t1, t0, %0\n1: addi t2, t0, 1")
    /* Behind one more instruction; the upper half of a product; a jump; a return. */
    ROUNDS("li t0, 99\n beqz x0, 1f\n nop\n div t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS("li t0, 99\n beqz x0, 1f\n mulh t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS("li t0, 99\n j 1f\n div t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS("la ra, 1f\n li t0, 99\n nop\n nop\n ret\n div t1, t0, %0\n1: addi t2, t0, 1")
    /* The branch is a target itself, not aligned, or both; its target is not aligned, of 4 bytes and of 2. */
    ROUNDS("li t0, 99\n j 2f\n nop\n 2: beqz x0, 1f\n div t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS(".option norvc\n li t0, 99\n.option rvc\n c.nop\n beqz x0, 1f\n div t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS(".option norvc\n li t0, 99\n j 2f\n.option rvc\n c.nop\n2: beqz x0, 1f\n div t1, t0, %0\n1: addi t2, t0, 1")
    ROUNDS(".option norvc\n li t0, 99\n beqz x0, 1f\n div t1, t0, %0\n.option rvc\n c.nop\n1: addi t2, t0, 1")
    ROUNDS(".option norvc\n li t0, 99\n beqz x0, 1f\n div t1, t0, %0\n.option rvc\n c.nop\n1: c.nop\n addi t2, t0, 1")
    /* A compressed branch. */
    ROUNDS("c.li a5, 0\n c.beqz a5, 1f\n div t1, t0, %0\n1: addi t2, t0, 1\n c.nop")
    /* The divisor is computed or loaded shortly before; the quotient's register is read at the target. */
    ROUNDS("li t0, 99\n addi t2, %0, 1\n beqz x0, 1f\n div t1, t0, t2\n1: addi t2, t1, 1")
    ROUNDS("li t0, 99\n lw t2, 0(%1)\n beqz x0, 1f\n div t1, t0, t2\n1: addi t2, t1, 1")
    ROUNDS("li t0, 99\n lw t2, 0(%1)\n beq t2, t2, 1f\n div t1, t0, t2\n1: addi t2, t1, 1")
    /* At the target, another branch, a jump, a division, a load. */
    ROUNDS("li t0, 99\n beqz x0, 1f\n div t1, t0, %0\n1: beqz x0, 1f\n nop\n 1: nop")
    ROUNDS("li t0, 99\n beqz x0, 1f\n div t1, t0, %0\n1: j 1f\n nop\n 1: nop")
    ROUNDS("li t0, 99\n beqz x0, 1f\n div t1, t0, %0\n1: div t1, t0, %0")
    ROUNDS("li t0, 99\n beqz x0, 1f\n div t1, t0, %0\n1: lw t1, 0(%1)\n addi t2, t1, 1")
    /* Branches that are not taken. */
    ROUNDS("li t0, 99\n bnez x0, 1f\n div t1, t0, %0\n1: addi t2, t0, 1")
    return 0;
}
