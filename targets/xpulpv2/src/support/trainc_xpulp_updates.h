/* Updates of parameters of 16 and 32 bits, and the upper bytes of the former. */
#ifndef TRAINC_XPULP_UPDATES_H
#define TRAINC_XPULP_UPDATES_H

#include "trainc_xpulp_dither.h"

/* Steps with momentum: a factor of 256 of the last ones and gradients, shifted, both rounded by
 * chance. */
struct trainc_xpulp_momentum {
    const void *m;
    const int32_t *g;
    void *y;
    int32_t factor;
    uint32_t key;
    /* To the right if positive, else to the left; then gradients are limited before. */
    int32_t shift, most;
};

/* Of gradients and steps of these exponents, the latter of so many bits; the bits of the learning
 * rate, which counts as the nearest power of two. */
static inline void trainc_xpulp_momentum_start(struct trainc_xpulp_momentum *work, int32_t e,
    int32_t gradient_e, int32_t rate, int32_t bits)
{
    const int32_t biased = rate >> 23;
    if (biased <= 0 || biased >= 255) {
        work->shift = work->most = 0;
        return;
    }
    const int32_t exponent = biased - 127 + ((rate & 0x7fffff) > 0x3504f3);
    const int64_t shift = (int64_t)e - gradient_e - exponent;
    work->shift = (int32_t)trainc_maximum64(trainc_minimum64(shift, 62), 2 - bits);
    work->most = INT32_MAX >> (32 - bits) >> (work->shift < 0 ? -work->shift : 0);
}

static inline uint32_t trainc_xpulp_momentum_hash(const struct trainc_xpulp_momentum *work,
    int32_t i)
{
    const uint32_t counter = work->key + (uint32_t)i;
    uint32_t hash = (counter ^ counter >> 16) * TRAINC_XPULP_HASH_FIRST;
    hash = (hash ^ hash >> 15) * TRAINC_XPULP_HASH_SECOND;
    return hash ^ hash >> 16;
}

/* The part of a gradient. */
static inline int32_t trainc_xpulp_momentum_step(const struct trainc_xpulp_momentum *work,
    int32_t i, uint32_t hash)
{
    const int32_t most = work->most;
    int32_t step = work->g[i];
    if (work->shift > 0) {
        const int32_t shift = trainc_minimum32(work->shift, 31);
        step >>= work->shift - shift;
        const uint32_t uniform = hash >> 1 >> (31 - shift);
        const uint32_t low = ((uint32_t)step & ((UINT32_C(1) << shift) - 1)) + uniform;
        step = (step >> shift) + (int32_t)(low >> shift);
    }
    step = trainc_maximum32(trainc_minimum32(step, most), -most);
    return work->shift < 0 ? step * (1 << -work->shift) : step;
}

/* a + b and a - b within the symmetric range. */
static inline int32_t trainc_xpulp_limited_sum(int32_t a, int32_t b)
{
    const int32_t sum = trainc_add32(a, b);
    if (((a ^ sum) & (b ^ sum)) < 0) {
        return a < 0 ? -INT32_MAX : INT32_MAX;
    }
    return trainc_maximum32(sum, -INT32_MAX);
}

static inline int32_t trainc_xpulp_limited_difference(int32_t a, int32_t b)
{
    const int32_t difference = trainc_subtract32(a, b);
    if (((a ^ b) & (a ^ difference)) < 0) {
        return a < 0 ? -INT32_MAX : INT32_MAX;
    }
    return trainc_maximum32(difference, -INT32_MAX);
}

/* Some steps of 32 bits: of the last ones' products with the factor, the lowest 8 bits by
 * themselves. */
static inline void trainc_xpulp_momentum_words(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_momentum work = *(const struct trainc_xpulp_momentum *)context;
    for (int32_t i = begin; i < end; i++) {
        const uint32_t hash = trainc_xpulp_momentum_hash(&work, i);
        const int32_t m = ((const int32_t *)work.m)[i];
        const int32_t low = (m & 255) * work.factor + (int32_t)(hash & 255);
        const int32_t kept = (m >> 8) * work.factor + (low >> 8);
        ((int32_t *)work.y)[i] =
            trainc_xpulp_limited_sum(kept, trainc_xpulp_momentum_step(&work, i, hash));
    }
}

#if defined(TRAINC_XPULP_INSN)
/* A gradient, shifted: to the right by at most 16, after which it has 16 bits, and rounded; by 17 to
 * 31, where what is shifted out, and the hash, carry from a word's highest bits; to the left. x13 and
 * x14 are its limits before, x18 is the shift, x19 what a word has besides. */
#define TRAINC_XPULP_STEP_LIMITED(g) \
    TRAINC_XPULP_SCALAR(6, g, g, x13) TRAINC_XPULP_SCALAR(4, g, g, x14)
#define TRAINC_XPULP_STEP_NEAR(g, hash) \
    TRAINC_XPULP_STEP_LIMITED(g) "srl x31, " #hash ", x19\n\t" TRAINC_XPULP_ADD_SHIFT(g, x31, x18)
#define TRAINC_XPULP_STEP_FAR(g, hash) \
    "sll x31, " #g ", x19\n\tadd x31, x31, " #hash "\n\tsltu x31, x31, " #hash "\n\t" \
    "sra " #g ", " #g ", x18\n\tadd " #g ", " #g ", x31\n\t"
#define TRAINC_XPULP_STEP_LEFT(g, hash) \
    TRAINC_XPULP_STEP_LIMITED(g) "sll " #g ", " #g ", x18\n\t"
/* The last step's part, which lies in a half of x12, is added: p.macsN and p.machhsN by 8. */
#define TRAINC_XPULP_STEP(half, g, hash, shifted) \
    shifted(g, hash) "andi " #hash ", " #hash ", 255\n\t" \
    ".insn r 0x5b, 1, " #half " + 0x48, " #hash ", x12, x15\n\t" \
    "add " #g ", " #g ", " #hash "\n\t.insn r 0x33, 1, 0x0a, " #g ", " #g ", x16\n\t"
#define TRAINC_XPULP_STEP_PAIR(a, b, to) \
    TRAINC_XPULP_PV(0, 0x68, to, b, a) TRAINC_XPULP_PV(4, 0x18, to, to, x23)
#define TRAINC_XPULP_STEPS(shifted) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
        TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_LWI(x1, 4, x10) \
        TRAINC_XPULP_LWI(x9, 4, x10) TRAINC_XPULP_LWI(x12, 4, x11) TRAINC_XPULP_HASHES_OF_32 \
        TRAINC_XPULP_STEP(0x00, x5, x7, shifted) TRAINC_XPULP_STEP(0x20, x6, x28, shifted) \
        TRAINC_XPULP_LWI(x12, 4, x11) TRAINC_XPULP_STEP_PAIR(x5, x6, x5) \
        TRAINC_XPULP_STEP(0x00, x1, x29, shifted) TRAINC_XPULP_STEP(0x20, x9, x30, shifted) \
        TRAINC_XPULP_SWI(x5, 4, x17) TRAINC_XPULP_STEP_PAIR(x1, x9, x6) \
        "9: " TRAINC_XPULP_SWI(x6, 4, x17) ".option pop" \
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x16), "+r"(x17) \
        : "r"(x13), "r"(x14), "r"(x15), "r"(x18), "r"(x19), "r"(x20), "r"(x21), "r"(x23), \
          "r"(x25), "r"(x26), "r"(x27) \
        : TRAINC_XPULP_DITHER_CLOBBERS)

/* Fours of elements from i on, whose counters have one upper half: 19 to 20 instructions each. */
static inline void trainc_xpulp_momentum_fours(const struct trainc_xpulp_momentum *work, int32_t i,
    int32_t fours)
{
    const uint32_t counter = work->key + (uint32_t)i;
    const uint32_t lowest = counter >> 16 & 3;
    const int32_t shift = work->shift;
    /* Of what is shifted by 16, not to exceed 32 bits with what is added. */
    const int32_t most = shift > 0 && shift <= 16 ? 32767 * (1 << shift) : work->most;
    register const int32_t *x10 __asm__("x10") = work->g + i;
    register const int16_t *x11 __asm__("x11") = (const int16_t *)work->m + i;
    register int32_t x12 __asm__("x12") = fours;
    register int32_t x13 __asm__("x13") = -most;
    register int32_t x14 __asm__("x14") = most;
    register uint32_t x15 __asm__("x15") = (uint32_t)work->factor * 0x10001;
    register uint32_t x16 __asm__("x16") = counter;
    register int16_t *x17 __asm__("x17") = (int16_t *)work->y + i;
    register int32_t x18 __asm__("x18") = shift > 0 ? shift : -shift;
    register int32_t x19 __asm__("x19") = 32 - shift;
    register uint32_t x20 __asm__("x20") = TRAINC_XPULP_HASH_FIRST;
    register uint32_t x21 __asm__("x21") = TRAINC_XPULP_HASH_SECOND;
    register int32_t x23 __asm__("x23") = -32767;
    register uint32_t x25 __asm__("x25") = TRAINC_XPULP_HASH_STEP(lowest, 1);
    register uint32_t x26 __asm__("x26") = TRAINC_XPULP_HASH_STEP(lowest, 2);
    register uint32_t x27 __asm__("x27") = TRAINC_XPULP_HASH_STEP(lowest, 3);
    if (shift > 16) {
        TRAINC_XPULP_STEPS(TRAINC_XPULP_STEP_FAR);
    } else if (shift > 0) {
        TRAINC_XPULP_STEPS(TRAINC_XPULP_STEP_NEAR);
    } else {
        TRAINC_XPULP_STEPS(TRAINC_XPULP_STEP_LEFT);
    }
}
#endif

/* Some steps of 16 bits. */
static inline void trainc_xpulp_momentum_steps(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_momentum work = *(const struct trainc_xpulp_momentum *)context;
    for (int32_t i = begin; i < end; i++) {
#if defined(TRAINC_XPULP_INSN)
        const int32_t fours = work.shift < 32
            ? trainc_xpulp_dither_fours(end - i, work.key + (uint32_t)i) : 0;
        if (fours > 0) {
            trainc_xpulp_momentum_fours(&work, i, fours);
            i += 4 * fours - 1;
            continue;
        }
#endif
        const uint32_t hash = trainc_xpulp_momentum_hash(&work, i);
        const int32_t kept = ((const int16_t *)work.m)[i] * work.factor + (int32_t)(hash & 255);
        const int32_t step = trainc_xpulp_momentum_step(&work, i, hash) + (kept >> 8);
        ((int16_t *)work.y)[i] =
            (int16_t)trainc_maximum32(trainc_minimum32(step, 32767), -32767);
    }
}

/* Operands and result of 16 bits; so many elements. */
struct trainc_xpulp_halves {
    const int16_t *a, *b;
    int16_t *y;
    int32_t count;
};

/* Some words of a - b, clamped to -32767..=32767. */
static inline void trainc_xpulp_subtract_halves(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_halves work = *(const struct trainc_xpulp_halves *)context;
    const int32_t last = trainc_minimum32(2 * end, work.count);
    int32_t i = 2 * begin;
#if defined(TRAINC_XPULP_INSN)
    if (last - i > 1) {
        /* b is first brought to where the difference needs no clamping: 10 instructions. */
        register const int16_t *x10 __asm__("x10") = work.a + i;
        register const int16_t *x11 __asm__("x11") = work.b + i;
        register int16_t *x12 __asm__("x12") = work.y + i;
        register int32_t x13 __asm__("x13") = (last - i) >> 1;
        register int32_t x14 __asm__("x14") = 32767;
        register int32_t x15 __asm__("x15") = -1;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 13, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11)
            TRAINC_XPULP_PV(4, 0x18, x7, x5, x15) TRAINC_XPULP_PV(4, 0x10, x28, x5, x0)
            TRAINC_XPULP_PV(4, 0x04, x7, x7, x14) TRAINC_XPULP_PV(4, 0x00, x28, x28, x14)
            TRAINC_XPULP_PV(0, 0x18, x6, x6, x7) TRAINC_XPULP_PV(0, 0x10, x6, x6, x28)
            TRAINC_XPULP_PV(0, 0x04, x5, x5, x6) "9: " TRAINC_XPULP_SWI(x5, 4, x12) ".option pop"
            : "+r"(x10), "+r"(x11), "+r"(x12) : "r"(x13), "r"(x14), "r"(x15)
            : "x5", "x6", "x7", "x28", "memory");
        i += (last - i) & ~1;
    }
#endif
    for (; i < last; i++) {
        const int32_t difference = work.a[i] - work.b[i];
        work.y[i] = (int16_t)trainc_maximum32(trainc_minimum32(difference, 32767), -32767);
    }
}

/* Operands and result of 32 bits. */
struct trainc_xpulp_differences {
    const int32_t *a, *b;
    int32_t *y;
};

/* Some of a - b, clamped to the symmetric range. */
static inline void trainc_xpulp_subtract_each(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_differences work =
        *(const struct trainc_xpulp_differences *)context;
    for (int32_t i = begin; i < end; i++) {
        work.y[i] = trainc_xpulp_limited_difference(work.a[i], work.b[i]);
    }
}

/* Halves of words that become bytes, shifted to the right by 1 to 8. */
struct trainc_xpulp_narrow {
    const int16_t *x;
    int8_t *y;
    int32_t count, shift;
};

/* Some words of bytes, rounded to nearest, ties away from zero, and clamped to -127..=127. */
static inline void trainc_xpulp_narrow_words(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_narrow work = *(const struct trainc_xpulp_narrow *)context;
    const int32_t last = trainc_minimum32(4 * end, work.count);
    const int32_t most = 127 << work.shift, half = 1 << (work.shift - 1);
    int32_t i = 4 * begin;
#if defined(TRAINC_XPULP_INSN)
    if (last - i > 3) {
        /* With the half added, less one below zero, they fit 16 bits yet: 16 instructions. */
        register const int16_t *x10 __asm__("x10") = work.x + i;
        register int8_t *x11 __asm__("x11") = work.y + i;
        register int32_t x12 __asm__("x12") = (last - i) >> 2;
        register int32_t x13 __asm__("x13") = -most;
        register int32_t x14 __asm__("x14") = most;
        register int32_t x15 __asm__("x15") = half;
        register int32_t x16 __asm__("x16") = work.shift;
        register uint32_t x17 __asm__("x17") = 0x06040200;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            TRAINC_XPULP_PV(4, 0x18, x5, x5, x13) TRAINC_XPULP_PV(4, 0x18, x6, x6, x13)
            TRAINC_XPULP_PV(4, 0x10, x5, x5, x14) TRAINC_XPULP_PV(4, 0x10, x6, x6, x14)
            TRAINC_XPULP_PV(6, 0x25, x7, x5, x7) TRAINC_XPULP_PV(6, 0x25, x28, x6, x7)
            TRAINC_XPULP_PV(4, 0x00, x5, x5, x15) TRAINC_XPULP_PV(4, 0x00, x6, x6, x15)
            TRAINC_XPULP_PV(0, 0x00, x5, x5, x7) TRAINC_XPULP_PV(0, 0x00, x6, x6, x28)
            TRAINC_XPULP_PV(4, 0x24, x5, x5, x16) TRAINC_XPULP_PV(4, 0x24, x6, x6, x16)
            TRAINC_XPULP_PV(1, 0x64, x5, x6, x17) "9: " TRAINC_XPULP_SWI(x5, 4, x11) ".option pop"
            : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), "r"(x14), "r"(x15), "r"(x16), "r"(x17)
            : "x5", "x6", "x7", "x28", "memory");
        i += (last - i) & ~3;
    }
#endif
    for (; i < last; i++) {
        const int32_t x = trainc_maximum32(trainc_minimum32(work.x[i], most), -most);
        work.y[i] = (int8_t)((x + half - (x < 0)) >> work.shift);
    }
}

#endif
