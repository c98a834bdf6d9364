/* Sums of products on their way to activations: biases, bounds, bytes, and what bytes add up to. */
#ifndef TRAINC_XPULP_ACTIVATIONS_H
#define TRAINC_XPULP_ACTIVATIONS_H

#include "trainc_xpulp_dither.h"

/* Sums [planes][plane] and a bias for each plane, of which there are as many as channels. */
struct trainc_xpulp_biased {
    const int32_t *x, *b;
    int32_t *y;
    int32_t channels, plane;
    /* Sums go to the right by `down`; biases to the right by `right`, or to the left. */
    int32_t down, right, left;
};

/* How both are aligned, and the result's exponent. */
static inline int32_t trainc_xpulp_biased_start(struct trainc_xpulp_biased *work, int32_t e,
    int32_t bias_e)
{
    const uint32_t largest = trainc_xpulp_largest_sum(work->b, work->channels);
    const int64_t width = 32 - trainc_leading_zeros((int32_t)largest);
    const int64_t exponent = trainc_maximum64(e, bias_e + width - 30);
    const int64_t distance = exponent - bias_e;
    work->down = (int32_t)trainc_minimum64(exponent - e, 31);
    work->right = (int32_t)trainc_maximum64(trainc_minimum64(distance, 32), 0);
    work->left = (int32_t)trainc_maximum64(trainc_minimum64(-distance, 31), 0);
    return (int32_t)exponent;
}

/* To nearest, ties away from zero. */
static inline uint32_t trainc_xpulp_aligned(const struct trainc_xpulp_biased *work, int32_t bias)
{
    if (work->right == 0) {
        return (uint32_t)bias << work->left;
    }
    const uint32_t m = trainc_xpulp_abs((uint32_t)bias);
    const uint32_t q = ((m >> (work->right - 1)) + 1) >> 1;
    return bias < 0 ? 0 - q : q;
}

#if defined(TRAINC_XPULP_INSN)
/* Pairs of words in x5 and x6. */
#define TRAINC_XPULP_PAIRS(each, ...) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) TRAINC_XPULP_LWI(x5, 4, x10) \
        TRAINC_XPULP_LWI(x6, 4, x10) each(x5) each(x6) TRAINC_XPULP_SWI(x5, 4, x11) \
        "9: " TRAINC_XPULP_SWI(x6, 4, x11) ".option pop" \
        : "+r"(x10), "+r"(x11) : "r"(x12), __VA_ARGS__ : "x5", "x6", "memory")
#define TRAINC_XPULP_PAIRS_OF(from, to, pairs) \
    register const int32_t *x10 __asm__("x10") = (from); \
    register int32_t *x11 __asm__("x11") = (to); \
    register int32_t x12 __asm__("x12") = (pairs)
#define TRAINC_XPULP_ADD_BIAS(x) "add " #x ", " #x ", x13\n\t"
#define TRAINC_XPULP_SHIFT_ADD_BIAS(x) \
    "sra " #x ", " #x ", x14\n\tadd " #x ", " #x ", x13\n\t"
#define TRAINC_XPULP_BOUND(x) TRAINC_XPULP_SCALAR(6, x, x, x13) TRAINC_XPULP_SCALAR(4, x, x, x14)
#endif

/* Some planes: 3 instructions for an element, or 4. */
static inline void trainc_xpulp_add_biases(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_biased work = *(const struct trainc_xpulp_biased *)context;
    int32_t channel = begin % work.channels;
    for (int32_t n = begin; n < end; n++) {
        const int32_t *const x = work.x + n * work.plane;
        int32_t *const y = work.y + n * work.plane;
        const uint32_t bias = trainc_xpulp_aligned(&work, work.b[channel]);
        int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
        if (work.plane > 1) {
            TRAINC_XPULP_PAIRS_OF(x, y, work.plane >> 1);
            register uint32_t x13 __asm__("x13") = bias;
            register int32_t x14 __asm__("x14") = work.down;
            if (work.down == 0) {
                TRAINC_XPULP_PAIRS(TRAINC_XPULP_ADD_BIAS, "r"(x13));
            } else {
                TRAINC_XPULP_PAIRS(TRAINC_XPULP_SHIFT_ADD_BIAS, "r"(x13), "r"(x14));
            }
            i = work.plane & ~1;
        }
#endif
        for (; i < work.plane; i++) {
            y[i] = trainc_add32(x[i] >> work.down, (int32_t)bias);
        }
        channel = channel + 1 < work.channels ? channel + 1 : 0;
    }
}

/* Sums within bounds. */
struct trainc_xpulp_bounded {
    const int32_t *x;
    int32_t *y;
    int32_t count, low, high;
};

/* mantissa 2^power, whose magnitude is below 2^24 before, rounded down and up, of 32 bits. */
static inline int32_t trainc_xpulp_floor32(int32_t mantissa, int64_t power)
{
    if (power <= 0) {
        return mantissa >> (power < -31 ? 31 : -power);
    }
    const int64_t moved = (int64_t)mantissa * ((int64_t)1 << (power > 31 ? 31 : power));
    return (int32_t)trainc_maximum64(trainc_minimum64(moved, INT32_MAX), INT32_MIN);
}

static inline int32_t trainc_xpulp_ceiling32(int32_t mantissa, int64_t power)
{
    if (power <= 0) {
        return -trainc_xpulp_floor32(-mantissa, power);
    }
    return trainc_xpulp_floor32(mantissa, power);
}

/* Some pairs: 4 instructions for an element. */
static inline void trainc_xpulp_bound_pairs(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_bounded work = *(const struct trainc_xpulp_bounded *)context;
    const int32_t last = trainc_minimum32(2 * end, work.count);
    int32_t i = 2 * begin;
#if defined(TRAINC_XPULP_INSN)
    if (last - i > 1) {
        TRAINC_XPULP_PAIRS_OF(work.x + i, work.y + i, (last - i) >> 1);
        register int32_t x13 __asm__("x13") = work.low;
        register int32_t x14 __asm__("x14") = work.high;
        TRAINC_XPULP_PAIRS(TRAINC_XPULP_BOUND, "r"(x13), "r"(x14));
        i += (last - i) & ~1;
    }
#endif
    for (; i < last; i++) {
        work.y[i] = trainc_minimum32(trainc_maximum32(work.x[i], work.low), work.high);
    }
}

/* Sums that become bytes by as many bits as their largest has above those that are kept: of either
 * sign, or what is above zero without a sign. */
struct trainc_xpulp_quantized {
    const int32_t *x;
    void *y;
    int32_t count, parts;
    /* By parts: bits of magnitudes, or the largest. */
    uint32_t *widths;
    struct trainc_xpulp_rounding rounding;
};

/* The first element of a part; they are as long as each other, but for the last. */
static inline int32_t trainc_xpulp_quantized_first(const struct trainc_xpulp_quantized *work,
    int32_t part)
{
    const int32_t each = (work->count + work->parts - 1) / work->parts;
    return trainc_minimum32(part * each, work->count);
}

static inline void trainc_xpulp_quantized_magnitudes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_quantized *const work =
        (const struct trainc_xpulp_quantized *)context;
    for (int32_t n = begin; n < end; n++) {
        const int32_t first = trainc_xpulp_quantized_first(work, n);
        work->widths[n] = trainc_xpulp_largest_sum(work->x + first,
            trainc_xpulp_quantized_first(work, n + 1) - first);
    }
}

static inline void trainc_xpulp_quantized_largest(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_quantized *const work =
        (const struct trainc_xpulp_quantized *)context;
    for (int32_t n = begin; n < end; n++) {
        const int32_t last = trainc_xpulp_quantized_first(work, n + 1);
        int32_t i = trainc_xpulp_quantized_first(work, n), largest = 0;
#if defined(TRAINC_XPULP_INSN)
        if (last - i > 1) {
            register const int32_t *x10 __asm__("x10") = work->x + i;
            register int32_t x12 __asm__("x12") = (last - i) >> 1;
            register int32_t x13 __asm__("x13") = 0;
            __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
                TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
                TRAINC_XPULP_SCALAR(6, x13, x13, x5) "9: " TRAINC_XPULP_SCALAR(6, x13, x13, x6)
                ".option pop" : "+r"(x10), "+r"(x13) : "r"(x12) : "x5", "x6", "memory");
            largest = x13;
            i += (last - i) & ~1;
        }
#endif
        for (; i < last; i++) {
            largest = trainc_maximum32(largest, work->x[i]);
        }
        work->widths[n] = (uint32_t)largest;
    }
}

static inline uint8_t trainc_xpulp_quantized_unsigned(int32_t x,
    const struct trainc_xpulp_rounding *r)
{
    return (uint8_t)trainc_minimum32(
        (int32_t)(((uint32_t)trainc_maximum32(x, 0) + r->unit) >> r->shift), 255);
}

#if defined(TRAINC_XPULP_INSN)
/* 15 instructions, as of non-negative results of either sign. */
static inline void trainc_xpulp_quads_unsigned(const int32_t *from, uint8_t *to, int32_t quads,
    const struct trainc_xpulp_rounding *r)
{
    TRAINC_XPULP_QUADS_OF(from, (int8_t *)to, quads, UINT32_C(255) << r->shift, r);
    TRAINC_XPULP_QUADS(TRAINC_XPULP_CLIPU(x5, x5, x13) TRAINC_XPULP_CLIPU(x6, x6, x13)
        TRAINC_XPULP_CLIPU(x7, x7, x13) TRAINC_XPULP_CLIPU(x28, x28, x13)
        TRAINC_XPULP_ADDU_ROUND(x5, x0, x15) TRAINC_XPULP_ADDU_ROUND(x6, x0, x15)
        TRAINC_XPULP_ADDU_ROUND(x7, x0, x15) TRAINC_XPULP_ADDU_ROUND(x28, x0, x15)
        TRAINC_XPULP_BYTES(x5, x5, x6, x7, x28), "r"(x15));
}
#endif

static inline void trainc_xpulp_quantized_unsigned_parts(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_quantized work = *(const struct trainc_xpulp_quantized *)context;
    uint8_t *const y = (uint8_t *)work.y;
    for (int32_t n = begin; n < end; n++) {
        int32_t i = trainc_xpulp_quantized_first(&work, n);
        const int32_t last = trainc_xpulp_quantized_first(&work, n + 1);
#if defined(TRAINC_XPULP_INSN)
        if (last - i > 3 && work.rounding.shift > 0) {
            trainc_xpulp_quads_unsigned(work.x + i, y + i, (last - i) >> 2, &work.rounding);
            i += (last - i) & ~3;
        }
#endif
        for (; i < last; i++) {
            y[i] = trainc_xpulp_quantized_unsigned(work.x[i], &work.rounding);
        }
    }
}

static inline void trainc_xpulp_quantized_half_away(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_quantized work = *(const struct trainc_xpulp_quantized *)context;
    int8_t *const y = (int8_t *)work.y;
    for (int32_t n = begin; n < end; n++) {
        int32_t i = trainc_xpulp_quantized_first(&work, n);
        const int32_t last = trainc_xpulp_quantized_first(&work, n + 1);
#if defined(TRAINC_XPULP_INSN)
        if (last - i > 3 && work.rounding.shift > 1 && work.rounding.shift <= 24) {
            trainc_xpulp_quads_half_away(work.x + i, y + i, (last - i) >> 2, &work.rounding);
            i += (last - i) & ~3;
        }
#endif
        for (; i < last; i++) {
            y[i] = trainc_xpulp_half_away(work.x[i], &work.rounding);
        }
    }
}

/* The shift that leaves so many bits; low to the largest. */
static inline int32_t trainc_xpulp_quantized_shift(struct trainc_xpulp_quantized *work,
    int32_t bits, int32_t low)
{
    const uint32_t all = trainc_xpulp_largest_of(work->widths, work->parts);
    const int32_t shift = 32 - bits - trainc_leading_zeros((int32_t)all);
    work->rounding = trainc_xpulp_rounding(trainc_maximum32(shift, 0), low);
    return work->rounding.shift;
}

/* Sums of bytes of two exponents, in 32 bits: each has 21 of them to its left. */
struct trainc_xpulp_added_bytes {
    const void *a, *b;
    int32_t *y;
    /* Whether they are unsigned. */
    int32_t a_unsigned, b_unsigned;
    /* To the left by so many bits, or to the right by the others. */
    int32_t a_left, b_left, a_right, b_right;
};

static inline int32_t trainc_xpulp_added_bytes_start(struct trainc_xpulp_added_bytes *work,
    int32_t a_e, int32_t b_e)
{
    const int64_t exponent = (int64_t)(a_e > b_e ? a_e : b_e) - 21;
    const int64_t a = a_e - exponent, b = b_e - exponent;
    work->a_left = (int32_t)trainc_maximum64(a, 0);
    work->b_left = (int32_t)trainc_maximum64(b, 0);
    work->a_right = (int32_t)trainc_maximum64(trainc_minimum64(-a, 31), 0);
    work->b_right = (int32_t)trainc_maximum64(trainc_minimum64(-b, 31), 0);
    return (int32_t)exponent;
}

#if defined(TRAINC_XPULP_INSN)
#define TRAINC_XPULP_ADD_BYTES(load_a, load_b) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 13, 9) \
        load_a(x5, 1, x10) load_b(x6, 1, x11) load_a(x7, 1, x10) load_b(x28, 1, x11) \
        "mul x5, x5, x14\n\tmul x7, x7, x14\n\t" TRAINC_XPULP_MAC(x5, x6, x15) \
        TRAINC_XPULP_MAC(x7, x28, x15) TRAINC_XPULP_SWI(x5, 4, x12) \
        "9: " TRAINC_XPULP_SWI(x7, 4, x12) ".option pop" \
        : "+r"(x10), "+r"(x11), "+r"(x12) : "r"(x13), "r"(x14), "r"(x15) \
        : "x5", "x6", "x7", "x28", "memory")
/* Pairs of elements, of which none is shifted to the right: 5 instructions for one. */
static inline void trainc_xpulp_add_byte_pairs(const struct trainc_xpulp_added_bytes *work,
    int32_t i, int32_t pairs)
{
    register const int8_t *x10 __asm__("x10") = (const int8_t *)work->a + i;
    register const int8_t *x11 __asm__("x11") = (const int8_t *)work->b + i;
    register int32_t *x12 __asm__("x12") = work->y + i;
    register int32_t x13 __asm__("x13") = pairs;
    register int32_t x14 __asm__("x14") = 1 << work->a_left;
    register int32_t x15 __asm__("x15") = 1 << work->b_left;
    if (work->a_unsigned) {
        if (work->b_unsigned) {
            TRAINC_XPULP_ADD_BYTES(TRAINC_XPULP_LBI, TRAINC_XPULP_LBI);
        } else {
            TRAINC_XPULP_ADD_BYTES(TRAINC_XPULP_LBI, TRAINC_XPULP_LBSI);
        }
    } else if (work->b_unsigned) {
        TRAINC_XPULP_ADD_BYTES(TRAINC_XPULP_LBSI, TRAINC_XPULP_LBI);
    } else {
        TRAINC_XPULP_ADD_BYTES(TRAINC_XPULP_LBSI, TRAINC_XPULP_LBSI);
    }
}
#endif

static inline int32_t trainc_xpulp_byte(const void *x, int32_t without_sign, int32_t i)
{
    return without_sign ? ((const uint8_t *)x)[i] : ((const int8_t *)x)[i];
}

/* Some elements. */
static inline void trainc_xpulp_add_bytes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_added_bytes work =
        *(const struct trainc_xpulp_added_bytes *)context;
    int32_t i = begin;
#if defined(TRAINC_XPULP_INSN)
    if (end - i > 1 && work.a_right == 0 && work.b_right == 0) {
        trainc_xpulp_add_byte_pairs(&work, i, (end - i) >> 1);
        i += (end - i) & ~1;
    }
#endif
    for (; i < end; i++) {
        const int32_t a = trainc_xpulp_byte(work.a, work.a_unsigned, i) * (1 << work.a_left);
        const int32_t b = trainc_xpulp_byte(work.b, work.b_unsigned, i) * (1 << work.b_left);
        work.y[i] = trainc_add32(a >> work.a_right, b >> work.b_right);
    }
}

/* Parts of sums, of which the first counts twice; so many elements. */
struct trainc_xpulp_doubled {
    const int32_t *a, *b;
    int32_t *y;
};

/* Some elements: 4 instructions for one. */
static inline void trainc_xpulp_double_and_add(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_doubled work = *(const struct trainc_xpulp_doubled *)context;
    int32_t i = begin;
#if defined(TRAINC_XPULP_INSN)
    if (end - i > 1) {
        register const int32_t *x10 __asm__("x10") = work.a + i;
        register const int32_t *x11 __asm__("x11") = work.b + i;
        register int32_t *x12 __asm__("x12") = work.y + i;
        register int32_t x13 __asm__("x13") = (end - i) >> 1;
        register int32_t x14 __asm__("x14") = 2;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 13, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            TRAINC_XPULP_LWI(x7, 4, x11) TRAINC_XPULP_LWI(x28, 4, x11)
            TRAINC_XPULP_MAC(x7, x5, x14) TRAINC_XPULP_MAC(x28, x6, x14)
            TRAINC_XPULP_SWI(x7, 4, x12) "9: " TRAINC_XPULP_SWI(x28, 4, x12) ".option pop"
            : "+r"(x10), "+r"(x11), "+r"(x12) : "r"(x13), "r"(x14)
            : "x5", "x6", "x7", "x28", "memory");
        i += (end - i) & ~1;
    }
#endif
    for (; i < end; i++) {
        work.y[i] = (int32_t)(2 * (uint32_t)work.a[i] + (uint32_t)work.b[i]);
    }
}

#endif
