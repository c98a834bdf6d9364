/* Floats taken apart, for chains of sums and products without a call and without putting each result
 * together: every result is rounded as binary32 rounds it, and is a normal number or gives the chain
 * up. What begins again by arithmetic of floats then has all other cases. */
#ifndef TRAINC_XPULP_NUMBER_H
#define TRAINC_XPULP_NUMBER_H

#include "trainc_rt.h"
#include "trainc_xpulp.h"

/* Where code is to be short, nothing is tried twice, and what others can do has no loop of its own. */
#if defined(__OPTIMIZE_SIZE__)
#define TRAINC_XPULP_CHAINS 0
#else
#define TRAINC_XPULP_CHAINS 1
#endif

/* Steps of chains, which compilers otherwise call where there are many. */
#if defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define TRAINC_XPULP_CHAINED __attribute__((always_inline)) inline
#else
#define TRAINC_XPULP_CHAINED inline
#endif

/* What is so but for few numbers: compilers then lay the common way out in line. */
#if defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define TRAINC_XPULP_MOSTLY(condition) __builtin_expect(condition, 1)
#else
#define TRAINC_XPULP_MOSTLY(condition) (condition)
#endif

/* A normal number mantissa 2^(exponent - 149). */
struct trainc_xpulp_number {
    /* Of which the highest bit counts. */
    uint32_t sign;
    /* One less than a float has it. */
    int32_t exponent;
    /* From 2^23 to 2^24. */
    uint32_t mantissa;
};

/* The largest of the exponents of a chain, those below 0 the largest of all. */
#define TRAINC_XPULP_MOST_EXPONENT 252

static inline void trainc_xpulp_note(uint32_t *largest, int32_t exponent)
{
    *largest = trainc_xpulp_maxu(*largest, (uint32_t)exponent);
}

/* x / 2^bits to nearest, ties to even; bits is constant. */
#if defined(TRAINC_XPULP_INSN)
#define trainc_xpulp_nearest(x, bits) \
    __extension__({ \
        const uint32_t nearest_of = (x); \
        const uint32_t less = trainc_xpulp_extractu(nearest_of, 1, bits) - 1; \
        uint32_t nearest_is; \
        __asm__(".insn r 0x5b, 6, %3, %0, %1, %2" : "=r"(nearest_is) \
                : "r"(nearest_of), "r"(less), "i"(0x40 | (bits))); \
        nearest_is; \
    })
#else
static inline uint32_t trainc_xpulp_nearest(uint32_t x, int bits)
{
    return (x + (UINT32_C(1) << (bits - 1)) - 1 + ((x >> bits) & 1)) >> bits;
}
#endif

/* The same for a shift by 1 to 31, of at most 31 bits. */
static inline uint32_t trainc_xpulp_nearest_by(uint32_t x, int32_t bits)
{
    const uint32_t odd = (x >> bits) & 1;
#if defined(TRAINC_XPULP_INSN)
    __asm__(".insn r 0x5b, 6, 0x60, %0, %1, %2" : "+r"(x) : "r"(odd - 1), "r"(bits));
    return x;
#else
    return (x + (UINT32_C(1) << (bits - 1)) - 1 + odd) >> bits;
#endif
}

static inline struct trainc_xpulp_number trainc_xpulp_number(float x, uint32_t *largest)
{
    const uint32_t bits = (uint32_t)trainc_bits(x);
    struct trainc_xpulp_number number;
    number.sign = bits;
    number.exponent = (int32_t)trainc_xpulp_extractu(bits, 8, 23) - 1;
    number.mantissa = trainc_xpulp_extractu(bits, 23, 0) | 0x800000;
    trainc_xpulp_note(largest, number.exponent);
    return number;
}

static inline float trainc_xpulp_float(struct trainc_xpulp_number x)
{
    return trainc_float((int32_t)((x.sign & UINT32_C(0x80000000))
        | (((uint32_t)x.exponent << 23) + x.mantissa)));
}

/* x 2^exponent; x has at most 31 bits. */
static inline struct trainc_xpulp_number trainc_xpulp_whole_number(int32_t x, int32_t exponent,
    uint32_t *largest)
{
    const uint32_t magnitude = trainc_xpulp_abs((uint32_t)x);
    const int32_t up = trainc_xpulp_room(magnitude);
    struct trainc_xpulp_number number;
    number.sign = (uint32_t)x;
    number.exponent = x == 0 ? -1 : 156 + exponent - up;
    number.mantissa = trainc_xpulp_nearest(magnitude << up, 7);
    trainc_xpulp_note(largest, number.exponent);
    return number;
}

static inline struct trainc_xpulp_number trainc_xpulp_negative(struct trainc_xpulp_number x)
{
    x.sign = ~x.sign;
    return x;
}

/* x 2^exponent. */
static inline struct trainc_xpulp_number trainc_xpulp_times_power(struct trainc_xpulp_number x,
    int32_t exponent, uint32_t *largest)
{
    x.exponent += exponent;
    trainc_xpulp_note(largest, x.exponent);
    return x;
}

static TRAINC_XPULP_CHAINED struct trainc_xpulp_number trainc_xpulp_times(struct trainc_xpulp_number x,
    struct trainc_xpulp_number y, uint32_t *largest)
{
    const uint32_t a = x.mantissa << 6, b = y.mantissa << 6;
    uint32_t high = (uint32_t)(((uint64_t)a * b) >> 32);
    /* The lower half decides where the upper one is a tie. */
    high |= a * b != 0;
    x.sign ^= y.sign;
    x.exponent += y.exponent - 125;
    if (high < UINT32_C(1) << 27) {
        high <<= 1;
        x.exponent--;
    }
    x.mantissa = trainc_xpulp_nearest(high, 4);
    trainc_xpulp_note(largest, x.exponent);
    return x;
}

static TRAINC_XPULP_CHAINED struct trainc_xpulp_number trainc_xpulp_plus(struct trainc_xpulp_number x,
    struct trainc_xpulp_number y, uint32_t *largest)
{
    int32_t apart = x.exponent - y.exponent;
    if (apart < 0) {
        const struct trainc_xpulp_number other = x;
        x = y;
        y = other;
        apart = 0 - apart;
    }
    /* Six bits more, of which the last one stands for all that lies below, too. */
    uint32_t sum = x.mantissa << 6;
    const uint32_t b = y.mantissa << 6;
    apart = (int32_t)trainc_xpulp_minu((uint32_t)apart, 31);
    const uint32_t shifted = b >> apart;
    const uint32_t term = shifted | (shifted << apart != b);
    if ((int32_t)(x.sign ^ y.sign) < 0) {
        sum -= term;
        x.sign ^= sum;
        sum = trainc_xpulp_abs(sum);
        x.exponent = sum == 0 ? -2 : x.exponent;
    } else {
        sum += term;
    }
    /* As of bits with a sign: 0 for what is 2^31. */
    const int32_t up = trainc_xpulp_room(sum);
    x.exponent += 1 - up;
    x.mantissa = trainc_xpulp_nearest(sum << up, 7);
    trainc_xpulp_note(largest, x.exponent);
    return x;
}

static TRAINC_XPULP_CHAINED struct trainc_xpulp_number trainc_xpulp_minus(struct trainc_xpulp_number x,
    struct trainc_xpulp_number y, uint32_t *largest)
{
    return trainc_xpulp_plus(x, trainc_xpulp_negative(y), largest);
}

/* A number to divide by, and 2^54 by its mantissa, rounded down. */
struct trainc_xpulp_divisor {
    int32_t exponent;
    uint32_t reciprocal;
};

/* Of a float that is positive and normal. */
static inline struct trainc_xpulp_divisor trainc_xpulp_divisor(float x)
{
    const uint32_t bits = (uint32_t)trainc_bits(x), mantissa = (bits & 0x7fffff) | 0x800000;
    struct trainc_xpulp_divisor divisor;
    uint32_t rest = UINT32_C(1) << 30, part = rest / mantissa;
    divisor.exponent = (int32_t)(bits >> 23) - 1;
    divisor.reciprocal = part;
    for (int32_t i = 0; i < 3; i++) {
        rest = trainc_xpulp_msu(rest, part, mantissa) << 8;
        part = rest / mantissa;
        divisor.reciprocal = divisor.reciprocal << 8 | part;
    }
    return divisor;
}

/* x / divisor of floats; gives up where that lies near the middle of two numbers. */
static inline struct trainc_xpulp_number trainc_xpulp_over(struct trainc_xpulp_number x,
    const struct trainc_xpulp_divisor *divisor, uint32_t *largest)
{
    /* The quotient by 2^30, or up to 2 less. */
    const uint32_t quotient =
        (uint32_t)(((uint64_t)(x.mantissa << 8) * divisor->reciprocal) >> 32);
    int32_t down = 7;
    x.exponent += 126 - divisor->exponent;
    if (quotient < UINT32_C(1) << 30) {
        down = 6;
        x.exponent--;
    }
    const uint32_t half = UINT32_C(1) << (down - 1);
    x.mantissa = (quotient + half) >> down;
    if ((quotient + half + 2) >> down != x.mantissa) {
        x.exponent = -1;
    }
    trainc_xpulp_note(largest, x.exponent);
    return x;
}

/* The reciprocal of the root of a float that is positive and normal, the root rounded, too. */
static inline float trainc_xpulp_inverse_root(float x)
{
    const int32_t bits = trainc_bits(x), odd = ~(bits >> 23) & 1;
    /* x = whole 2^(2 half), whole of 25 or 26 bits. */
    const uint32_t whole = ((uint32_t)(bits & 0x7fffff) | 0x800000) << (1 + odd);
    const int32_t half = ((bits >> 23) - 151 - odd) / 2;
    /* Steps of Newton's for 1 / sqrt(whole / 2^26), from a parabola that is 1 in 41 off: by 14 bits
     * behind the point, the last one by 29. */
    const uint32_t word = whole << 6, upper = word >> 16;
    uint32_t y = 43759 - ((53827 - (26846 * upper >> 16)) * upper >> 16);
    for (int32_t i = 0; i < 2; i++) {
        const uint32_t square = (uint32_t)(((uint64_t)(y * y) * word) >> 32);
        y = y * (((UINT32_C(3) << 28) - square) >> 14) >> 15;
    }
    const uint32_t square = (uint32_t)(((uint64_t)(y * y << 1) * word) >> 32);
    y = (uint32_t)(((uint64_t)(y << 16) * (((UINT32_C(3) << 29) - square) << 1)) >> 32);
    /* The root, and what is left of the number. */
    int32_t root = (int32_t)(((uint32_t)(((uint64_t)word * y) >> 32) + 16) >> 5);
    int32_t rest = (int32_t)((whole << 22) - (uint32_t)root * (uint32_t)root);
    if (rest > root) {
        root++;
    } else if (rest <= -root) {
        root--;
    }
    /* Its reciprocal, and what is left of 2^47. */
    uint32_t inverse = (y + 32) >> 6;
    rest = (int32_t)(0 - inverse * (uint32_t)root);
    for (; 2 * rest > root; rest -= root) {
        inverse++;
    }
    for (; 2 * rest < -root; rest += root) {
        inverse--;
    }
    return trainc_float((int32_t)(((uint32_t)(113 - half) << 23) + inverse));
}

#endif
