/* A product of matrices of bytes: 64 filters by 16 columns of 288, four by two at a time in the published inner loop of 14
 * instructions for 32 products. Its sums must be those of plain C. */
#include "host.h"

enum { FILTERS = 64, COLUMNS = 16, LENGTH = 288 };

static int8_t weights[FILTERS][LENGTH] __attribute__((aligned(4)));
static uint8_t inputs[COLUMNS][LENGTH] __attribute__((aligned(4)));
static int32_t sums[COLUMNS][FILTERS];

static void tile(const int8_t *w, const uint8_t *x, int32_t *first, int32_t *second)
{
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    const int8_t *w0 = w, *w1 = w + LENGTH, *w2 = w1 + LENGTH, *w3 = w2 + LENGTH;
    const uint8_t *x0 = x, *x1 = x + LENGTH;
    register uint32_t count __asm__("t0") = LENGTH / 4;
    __asm__ volatile(
        ".balign 4\n.option push\n.option norvc\n.option norelax\n"
        ".4byte 0x407b | 5 << 15 | ((9f - .) / 2) << 20\n" /* lp.setup 0, t0, 9f */
        ".insn i 0x0b, 2, t1, %[w0], 4\n"                  /* p.lw t1, 4(w0!) */
        ".insn i 0x0b, 2, t2, %[w1], 4\n"
        ".insn i 0x0b, 2, t3, %[w2], 4\n"
        ".insn i 0x0b, 2, t4, %[w3], 4\n"
        ".insn i 0x0b, 2, t5, %[x0], 4\n"
        ".insn i 0x0b, 2, t6, %[x1], 4\n"
        ".insn r 0x57, 1, 0x54, %[s0], t5, t1\n" /* pv.sdotusp.b s0, t5, t1 */
        ".insn r 0x57, 1, 0x54, %[s1], t5, t2\n"
        ".insn r 0x57, 1, 0x54, %[s2], t5, t3\n"
        ".insn r 0x57, 1, 0x54, %[s3], t5, t4\n"
        ".insn r 0x57, 1, 0x54, %[s4], t6, t1\n"
        ".insn r 0x57, 1, 0x54, %[s5], t6, t2\n"
        ".insn r 0x57, 1, 0x54, %[s6], t6, t3\n"
        "9: .insn r 0x57, 1, 0x54, %[s7], t6, t4\n"
        ".option pop\n"
        : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [s4] "+r"(s4), [s5] "+r"(s5), [s6] "+r"(s6),
          [s7] "+r"(s7), [w0] "+r"(w0), [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3), [x0] "+r"(x0), [x1] "+r"(x1)
        : "r"(count)
        : "t1", "t2", "t3", "t4", "t5", "t6", "memory");
    first[0] = s0, first[1] = s1, first[2] = s2, first[3] = s3;
    second[0] = s4, second[1] = s5, second[2] = s6, second[3] = s7;
}

int main(void)
{
    uint32_t state = 1, hash = 2166136261u;
    for (int i = 0; i < FILTERS * LENGTH; i++)
        (&weights[0][0])[i] = (int8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (int i = 0; i < COLUMNS * LENGTH; i++)
        (&inputs[0][0])[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    host_mark(1);
    for (int column = 0; column < COLUMNS; column += 2)
        for (int filter = 0; filter < FILTERS; filter += 4)
            tile(weights[filter], inputs[column], &sums[column][filter], &sums[column + 1][filter]);
    host_mark(2);
    for (int column = 0; column < COLUMNS; column++)
        for (int filter = 0; filter < FILTERS; filter += 9) {
            int32_t sum = 0;
            for (int i = 0; i < LENGTH; i++)
                sum += weights[filter][i] * inputs[column][i];
            if (sum != sums[column][filter])
                return 1;
        }
    for (int i = 0; i < COLUMNS * FILTERS; i++)
        hash = (hash ^ (uint32_t)(&sums[0][0])[i]) * 16777619u;
    host_write(&hash, sizeof hash);
    return 0;
}
