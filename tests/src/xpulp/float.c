/* Sums, products and quotients of floats by trainc_xpulp_float.h beside this machine's own, on pairs of numbers
 * near each other, near the ends of the range, and of few bits; ends with 0 if all agree. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "trainc_xpulp_float.h"

static float number(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int agrees(const char *name, uint32_t a, uint32_t b, uint32_t found, float expected)
{
    uint32_t bits;
    memcpy(&bits, &expected, sizeof bits);
    if (found == bits || (expected != expected && number(found) != number(found))) {
        return 1;
    }
    printf("%s of %08x and %08x: %08x, not %08x\n", name, (unsigned)a, (unsigned)b, (unsigned)found,
        (unsigned)bits);
    return 0;
}

int main(void)
{
    static const uint32_t ends[] = { 0, 1, 2, 0x7fffff, 0x800000, 0x800001, 0xffffff, 0x1000000,
        0x3f800000, 0x3f7fffff, 0x3f800001, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7f000000,
        0x7effffff, 0x400000, 0x34000000, 0x33ffffff, 0x33800000, 0x33800001 };
    const uint32_t count = sizeof ends / sizeof ends[0];
    uint64_t state = UINT64_C(88172645463325252);
    for (uint32_t n = 0; n < 3000000; n++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint32_t a = (uint32_t)state, b = (uint32_t)(state >> 32);
        const uint32_t kind = (uint32_t)(state >> 20) & 7, more = (uint32_t)(state >> 40) & 63;
        if (n < 4 * count * count) {
            a = ends[n % count] | (n / count / count & 1) << 31;
            b = ends[n / count % count] | (n / count / count & 2) << 30;
        } else if (kind < 3) {
            /* Exponents near each other. */
            b = (b & 0x807fffff) | (((a >> 23) + more - 32) & 255) << 23;
        } else if (kind == 3) {
            a &= 0x80ffffff;
            b &= 0x81ffffff;
        } else if (kind == 4) {
            b = (a ^ 0x80000000) + more % 9 - 4;
        } else if (kind == 5) {
            /* Products near the least numbers. */
            b = (b & 0x807fffff) | ((104 + more % 28 - (a >> 23)) & 255) << 23;
        } else if (kind == 6) {
            a &= 0xffff0000;
            b &= 0xfff00000;
        }
        const float x = number(a), y = number(b);
        if (!agrees("sum", a, b, trainc_xpulp_float_add(a, b), x + y)
            || !agrees("product", a, b, trainc_xpulp_float_multiply(a, b), x * y)
            || !agrees("quotient", a, b, trainc_xpulp_float_divide(a, b), x / y)) {
            return 1;
        }
    }
    return 0;
}
