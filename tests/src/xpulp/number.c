/* Chains of trainc_xpulp_number.h beside the functions of trainc_xpulp_float.h, on pairs of numbers
 * near each other, near the ends of the range, and of few bits: what is not given up has their bits,
 * and among middling numbers hardly any is given up. Ends with 0 if all agree. */
#include "trainc_xpulp_float.h"
#include "trainc_xpulp_number.h"

#ifndef ROUNDS
#define ROUNDS 3000000
#endif

typedef struct trainc_xpulp_number number;

static const uint32_t ends[] = { 0, 1, 0x7fffff, 0x800000, 0x800001, 0xffffff, 0x3f800000, 0x3f7fffff,
    0x3f800001, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7f000000, 0x34000000, 0x33ffffff, 0x33800000 };
static uint32_t middling, kept;

/* Whether a number has these bits, or was given up. */
static int agrees(number x, const uint32_t *largest, uint32_t expected)
{
    if (*largest > TRAINC_XPULP_MOST_EXPONENT) {
        return 1;
    }
    kept++;
    return (uint32_t)trainc_bits(trainc_xpulp_float(x)) == expected;
}

static int chains(uint32_t a, uint32_t b)
{
    uint32_t both = 0, largest;
    const number x = trainc_xpulp_number(trainc_float((int32_t)a), &both);
    const number y = trainc_xpulp_number(trainc_float((int32_t)b), &both);
    const uint32_t sum = trainc_xpulp_float_add(a, b), product = trainc_xpulp_float_multiply(a, b);
    const uint32_t sign = UINT32_C(0x80000000);
    largest = both;
    if (!agrees(trainc_xpulp_plus(x, y, &largest), &largest, sum)) {
        return 1;
    }
    largest = both;
    if (!agrees(trainc_xpulp_times(x, y, &largest), &largest, product)) {
        return 2;
    }
    largest = both;
    const number difference = trainc_xpulp_minus(trainc_xpulp_times(x, y, &largest), y, &largest);
    if (!agrees(difference, &largest, trainc_xpulp_float_add(product, b ^ sign))) {
        return 3;
    }
    largest = both;
    const number total = trainc_xpulp_plus(x, y, &largest);
    const number square = trainc_xpulp_times(trainc_xpulp_times(x, y, &largest), total, &largest);
    if (!agrees(square, &largest, trainc_xpulp_float_multiply(product, sum))) {
        return 4;
    }
    b &= INT32_MAX;
    if (b >= 0x800000 && b < TRAINC_XPULP_INFINITY) {
        const struct trainc_xpulp_divisor divisor = trainc_xpulp_divisor(trainc_float((int32_t)b));
        largest = both;
        const number quotient = trainc_xpulp_over(x, &divisor, &largest);
        if (!agrees(quotient, &largest, trainc_xpulp_float_divide(a, b))) {
            return 5;
        }
    }
    return 0;
}

/* Of a whole number that a float has exactly, 2^power times. */
static int whole(int32_t a, int32_t power)
{
    uint32_t largest = 0;
    const number x = trainc_xpulp_whole_number(a, power, &largest);
    const uint32_t sign = (uint32_t)a & UINT32_C(0x80000000);
    const uint32_t m = trainc_xpulp_abs((uint32_t)a);
    return a == 0 ? largest <= TRAINC_XPULP_MOST_EXPONENT
        : !agrees(x, &largest, trainc_xpulp_round_float(sign, m << (31 - trainc_xpulp_highest(m)),
            127 + trainc_xpulp_highest(m) + power));
}

/* The root's own rounding: the number lies between the squares of the middles around it. */
static int inverse_root(uint32_t bits)
{
    const uint32_t odd = ~(bits >> 23) & 1;
    const uint64_t square = (uint64_t)((bits & 0x7fffff) | 0x800000) << (23 + odd);
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 23; bit > 0; bit >>= 1) {
        if ((root | bit) * (root | bit) <= square) {
            root |= bit;
        }
    }
    root += square - root * root > root;
    const uint32_t half = (uint32_t)((int32_t)(bits >> 23) - 151 - (int32_t)odd) / 2;
    const uint32_t expected = trainc_xpulp_float_divide(0x3f800000,
        ((half + 138) << 23) + (uint32_t)root);
    return (uint32_t)trainc_bits(trainc_xpulp_inverse_root(trainc_float((int32_t)bits))) != expected;
}

int main(void)
{
    const uint32_t count = sizeof ends / sizeof ends[0];
    uint64_t state = UINT64_C(88172645463325252);
    for (uint32_t n = 0; n < ROUNDS; n++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint32_t a = (uint32_t)state, b = (uint32_t)(state >> 32);
        const uint32_t kind = (uint32_t)(state >> 20) & 7, more = (uint32_t)(state >> 40) & 63;
        if (n < 4 * count * count) {
            a = ends[n % count] | (n / count / count & 1) << 31;
            b = ends[n / count % count] | (n / count / count & 2) << 30;
        } else if (kind < 3) {
            /* Middling, with exponents near each other. */
            a = (a & 0x8fffffff) | 0x30000000;
            b = (b & 0x807fffff) | (((a >> 23) + more % 16 - 8) & 255) << 23;
            middling += 5;
        } else if (kind == 3) {
            /* That may round up to a power of two. */
            a |= 0x7ffff8;
            b = (b & 0x807fffff) | 0x7ffff0 | (((a >> 23) + more % 8 - 4) & 255) << 23;
        } else if (kind == 4) {
            b = (a ^ 0x80000000) + more % 9 - 4;
        } else if (kind == 5) {
            /* Products near the least numbers. */
            b = (b & 0x807fffff) | ((104 + more % 28 - (a >> 23)) & 255) << 23;
        } else if (kind == 6) {
            a &= 0xffff0000;
            b &= 0xfff00000;
        }
        const int failed = chains(a, b);
        if (failed != 0) {
            return failed;
        }
        if (whole((int32_t)a >> (1 + (more & 30)), (int32_t)(b & 63) - 32) != 0) {
            return 6;
        }
        const uint32_t positive = a & INT32_MAX;
        if (positive >= 0x800000 && positive < TRAINC_XPULP_INFINITY && inverse_root(positive)) {
            return 7;
        }
    }
    return kept > middling / 8 * 7 ? 0 : 8;
}
