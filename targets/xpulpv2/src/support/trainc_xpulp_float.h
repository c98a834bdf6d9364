/* Sums, products and quotients of floats for cores that have no arithmetic of them: IEEE 754
 * binary32, to nearest with ties to even, subnormal numbers included. What compilers call for `+`,
 * `-`, `*` and `/` then takes a third of the time of their own libraries' functions, whose place
 * these take. */
#ifndef TRAINC_XPULP_FLOAT_H
#define TRAINC_XPULP_FLOAT_H

#include "trainc_rt.h"
#include "trainc_xpulp.h"

#define TRAINC_XPULP_INFINITY UINT32_C(0x7f800000)
#define TRAINC_XPULP_NAN UINT32_C(0x7fc00000)

/* A magnitude of any exponent: mantissa 2^(exponent - 158), its highest bit being 31, where bit 0
 * stands for all that lies below it. */
static inline uint32_t trainc_xpulp_round_float(uint32_t sign, uint32_t mantissa, int32_t exponent)
{
    if (exponent >= 255) {
        return sign | TRAINC_XPULP_INFINITY;
    }
    if (exponent <= 0) {
        /* A subnormal number. */
        const int32_t down = 1 - exponent;
        mantissa = down > 31 ? 1 : mantissa >> down | (mantissa << (32 - down) != 0);
        exponent = 1;
    }
    const uint32_t rest = mantissa & 255, kept = mantissa >> 8;
    /* The mantissa's own highest bit counts one exponent. */
    return sign | ((((uint32_t)exponent - 1) << 23) + kept + (rest + (kept & 1) > 128));
}

/* Products with a factor that is 0, subnormal, infinite or no number. */
static inline uint32_t trainc_xpulp_multiply_special(uint32_t a, uint32_t b)
{
    const uint32_t sign = (a ^ b) & UINT32_C(0x80000000);
    a &= INT32_MAX;
    b &= INT32_MAX;
    if (a > TRAINC_XPULP_INFINITY || b > TRAINC_XPULP_INFINITY) {
        return TRAINC_XPULP_NAN;
    }
    if (a == TRAINC_XPULP_INFINITY || b == TRAINC_XPULP_INFINITY) {
        return a == 0 || b == 0 ? TRAINC_XPULP_NAN : sign | TRAINC_XPULP_INFINITY;
    }
    if (a == 0 || b == 0) {
        return sign;
    }
    int32_t ea = (int32_t)(a >> 23), eb = (int32_t)(b >> 23);
    uint32_t ma = a << 8 | UINT32_C(0x80000000), mb = b << 8 | UINT32_C(0x80000000);
    if (ea == 0) {
        ea = trainc_xpulp_highest(a) - 22;
        ma = a << (9 - ea);
    }
    if (eb == 0) {
        eb = trainc_xpulp_highest(b) - 22;
        mb = b << (9 - eb);
    }
    const uint64_t product = (uint64_t)ma * mb;
    const uint32_t high = (uint32_t)(product >> 32), rest = (uint32_t)product != 0;
    return (high >> 31) == 1 ? trainc_xpulp_round_float(sign, high | rest, ea + eb - 126)
        : trainc_xpulp_round_float(sign, high << 1 | rest, ea + eb - 127);
}

static inline uint32_t trainc_xpulp_float_multiply(uint32_t a, uint32_t b)
{
    const uint32_t ea = trainc_xpulp_extractu(a, 8, 23), eb = trainc_xpulp_extractu(b, 8, 23);
    if (ea - 1 > 253 || eb - 1 > 253) {
        return trainc_xpulp_multiply_special(a, b);
    }
    const uint32_t sign = (a ^ b) & UINT32_C(0x80000000);
    const uint32_t ma = a << 8 | UINT32_C(0x80000000), mb = b << 8 | UINT32_C(0x80000000);
    uint32_t high = (uint32_t)(((uint64_t)ma * mb) >> 32);
    int32_t exponent = (int32_t)(ea + eb) - 126;
    /* The lower half decides where the upper one is a tie; its last 16 bits are 0. */
    high |= ma * mb != 0;
    if ((int32_t)high > 0) {
        high <<= 1;
        exponent--;
    }
    if (exponent <= 0 || exponent >= 255) {
        return trainc_xpulp_round_float(sign, high, exponent);
    }
    const uint32_t rest = high & 255, kept = high >> 8;
    return sign | ((((uint32_t)exponent - 1) << 23) + kept + (rest + (kept & 1) > 128));
}

/* Sums with a term that is infinite or no number, or where the smaller one is 0 or subnormal; the
 * larger one comes first. */
static inline uint32_t trainc_xpulp_add_special(uint32_t a, uint32_t b)
{
    const uint32_t ma = a & INT32_MAX, mb = b & INT32_MAX;
    if (ma > TRAINC_XPULP_INFINITY) {
        return TRAINC_XPULP_NAN;
    }
    if (ma == TRAINC_XPULP_INFINITY) {
        return mb == TRAINC_XPULP_INFINITY && a != b ? TRAINC_XPULP_NAN : a;
    }
    if (mb == 0) {
        /* Of two zeros, -0 if both are. */
        return ma == 0 ? a & b : a;
    }
    const uint32_t sign = a & UINT32_C(0x80000000);
    const int32_t ea = (int32_t)(ma >> 23), eb = (int32_t)(mb >> 23);
    uint32_t x = (ma & 0x7fffff) << 6, y = (mb & 0x7fffff) << 6;
    if (ea > 0) {
        x |= UINT32_C(1) << 29;
    }
    if (eb > 0) {
        y |= UINT32_C(1) << 29;
    }
    const int32_t apart = (ea > 0 ? ea : 1) - (eb > 0 ? eb : 1);
    y = apart > 31 ? 1 : apart > 0 ? y >> apart | (y << (32 - apart) != 0) : y;
    const uint32_t sum = (a ^ b) >> 31 ? x - y : x + y;
    if (sum == 0) {
        return 0;
    }
    const int32_t up = 31 - trainc_xpulp_highest(sum);
    return trainc_xpulp_round_float(sign, sum << up, (ea > 0 ? ea : 1) + 2 - up);
}

static inline uint32_t trainc_xpulp_float_add(uint32_t a, uint32_t b)
{
    if (a << 1 < b << 1) {
        const uint32_t other = a;
        a = b;
        b = other;
    }
    const int32_t ea = (int32_t)trainc_xpulp_extractu(a, 8, 23);
    const int32_t eb = (int32_t)trainc_xpulp_extractu(b, 8, 23);
    if (eb == 0 || ea == 255) {
        return trainc_xpulp_add_special(a, b);
    }
    const uint32_t sign = a & UINT32_C(0x80000000);
    const int32_t apart = ea - eb;
    /* Of 30 bits, 6 of them below the last place. */
    uint32_t sum = (a << 8 | UINT32_C(0x80000000)) >> 2;
    uint32_t y = (b << 8 | UINT32_C(0x80000000)) >> 2;
    if (apart >= 26) {
        /* Less than half of the last place, even of the next smaller exponent. */
        return a;
    }
    const uint32_t shifted = y >> apart;
    y = shifted | (shifted << apart != y);
    int32_t exponent = ea;
    if ((int32_t)(a ^ b) >= 0) {
        sum += y;
        if (sum >> 30 != 0) {
            sum = sum >> 1 | (sum & 1);
            exponent++;
            if (exponent == 255) {
                return sign | TRAINC_XPULP_INFINITY;
            }
        }
    } else {
        sum -= y;
        if (sum == 0) {
            return 0;
        }
        const int32_t up = 29 - trainc_xpulp_highest(sum);
        sum <<= up;
        exponent -= up;
        if (exponent <= 0) {
            /* A sum of subnormal size is exact. */
            return sign | sum >> (7 - exponent);
        }
    }
    const uint32_t rest = sum & 63, kept = sum >> 6;
    return sign | ((((uint32_t)exponent - 1) << 23) + kept + (rest + (kept & 1) > 32));
}

static inline uint32_t trainc_xpulp_float_divide(uint32_t a, uint32_t b)
{
    const uint32_t sign = (a ^ b) & UINT32_C(0x80000000);
    int32_t ea = (int32_t)trainc_xpulp_extractu(a, 8, 23);
    int32_t eb = (int32_t)trainc_xpulp_extractu(b, 8, 23);
    uint32_t ma = (a & 0x7fffff) | 0x800000, mb = (b & 0x7fffff) | 0x800000;
    if ((uint32_t)ea - 1 > 253 || (uint32_t)eb - 1 > 253) {
        a &= INT32_MAX;
        b &= INT32_MAX;
        const int both = a == b && (a == 0 || a == TRAINC_XPULP_INFINITY);
        if (a > TRAINC_XPULP_INFINITY || b > TRAINC_XPULP_INFINITY || both) {
            return TRAINC_XPULP_NAN;
        }
        if (a == TRAINC_XPULP_INFINITY || b == 0) {
            return sign | TRAINC_XPULP_INFINITY;
        }
        if (a == 0 || b == TRAINC_XPULP_INFINITY) {
            return sign;
        }
        if (ea == 0) {
            ea = trainc_xpulp_highest(a) - 22;
            ma = a << (1 - ea);
        }
        if (eb == 0) {
            eb = trainc_xpulp_highest(b) - 22;
            mb = b << (1 - eb);
        }
    }
    int32_t exponent = ea - eb + 127;
    if (ma < mb) {
        ma <<= 1;
        exponent--;
    }
    /* 24 bits by three divisions, the next one, and whether anything is left; what compilers would
     * make a remainder, another division, is none of theirs. */
    uint32_t q = (ma << 7) / mb;
    uint32_t rest = trainc_xpulp_msu(ma << 7, q, mb);
    for (int32_t i = 0; i < 2; i++) {
        const uint32_t part = (rest << 8) / mb;
        rest = trainc_xpulp_msu(rest << 8, part, mb);
        q = q << 8 | part;
    }
    const uint32_t half = 2 * rest >= mb;
    q = q << 8 | half << 7 | (2 * rest != (half ? mb : 0));
    return trainc_xpulp_round_float(sign, q, exponent);
}

#if defined(TRAINC_XPULP_INSN) && !defined(__riscv_flen)
/* By the names under which compilers call them. */
#define TRAINC_XPULP_LIBRARY(name, body) \
    float name(float a, float b); \
    __attribute__((weak)) float name(float a, float b) \
    { \
        const uint32_t x = (uint32_t)trainc_bits(a), y = (uint32_t)trainc_bits(b); \
        return trainc_float((int32_t)(body)); \
    }
TRAINC_XPULP_LIBRARY(__addsf3, trainc_xpulp_float_add(x, y))
TRAINC_XPULP_LIBRARY(__subsf3, trainc_xpulp_float_add(x, y ^ UINT32_C(0x80000000)))
TRAINC_XPULP_LIBRARY(__mulsf3, trainc_xpulp_float_multiply(x, y))
TRAINC_XPULP_LIBRARY(__divsf3, trainc_xpulp_float_divide(x, y))
#endif

#endif
