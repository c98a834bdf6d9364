/* 8-bit integers of sums, rounded by chance: by a hash of an element's place and of one draw. */
#ifndef TRAINC_XPULP_DITHER_H
#define TRAINC_XPULP_DITHER_H

#include "trainc_xpulp_rounding.h"

#define TRAINC_XPULP_HASH_FIRST UINT32_C(0x7feb352d)
#define TRAINC_XPULP_HASH_SECOND UINT32_C(0x846ca68b)

/* The first draw of a stream in a step: Philox 4x32 of ten rounds. */
static inline uint32_t trainc_xpulp_draw(const int32_t *run, uint32_t stream)
{
    return (uint32_t)trainc_draw(run, stream, 0);
}

/* x / 2^shift, shift being 0 to 31, up or down by the hash of the counter; -127 to 127. */
static inline int8_t trainc_xpulp_dither(int32_t x, int32_t shift, uint32_t counter)
{
    uint32_t hash = (counter ^ counter >> 16) * TRAINC_XPULP_HASH_FIRST;
    hash = (hash ^ hash >> 15) * TRAINC_XPULP_HASH_SECOND;
    hash ^= hash >> 16;
    const uint32_t uniform = hash >> 1 >> (31 - shift);
    const uint32_t low = ((uint32_t)x & ((UINT32_C(1) << shift) - 1)) + uniform;
    const int32_t q = (x >> shift) + (int32_t)(low >> shift);
    return (int8_t)trainc_maximum32(trainc_minimum32(q, 127), -127);
}

#if defined(TRAINC_XPULP_INSN)
/* Hashes of four counters, of which the first is a multiple of 4, in x7 and x28 to x30. The upper
 * half of a counter is the same for all of a block, so that the last two bits of the other three are
 * known from the first one's: x25 to x27 hold the first factor's products by how these differ. The
 * upper half of the last step does not change the upper half of a hash. */
#define TRAINC_XPULP_HASHES \
    "srli x31, x16, 16\n\txor x31, x31, x16\n\tmul x31, x31, x20\n\taddi x16, x16, 4\n\t" \
    "add x28, x31, x25\n\tadd x29, x31, x26\n\tadd x30, x31, x27\n\t" \
    "srli x7, x31, 15\n\txor x7, x7, x31\n\tsrli x31, x28, 15\n\txor x28, x28, x31\n\t" \
    "srli x31, x29, 15\n\txor x29, x29, x31\n\tsrli x31, x30, 15\n\txor x30, x30, x31\n\t" \
    "mul x7, x7, x21\n\tmul x28, x28, x21\n\tmul x29, x29, x21\n\tmul x30, x30, x21\n\t"
#define TRAINC_XPULP_HASHES_OF_32 \
    TRAINC_XPULP_HASHES \
    "srli x31, x7, 16\n\txor x7, x7, x31\n\tsrli x31, x28, 16\n\txor x28, x28, x31\n\t" \
    "srli x31, x29, 16\n\txor x29, x29, x31\n\tsrli x31, x30, 16\n\txor x30, x30, x31\n\t"
/* The sums in x5, x6, x1 and x9, below 2^31 with what is added, rounded and stored. */
#define TRAINC_XPULP_DITHERED \
    "srl x7, x7, x19\n\tsrl x28, x28, x19\n\tsrl x29, x29, x19\n\tsrl x30, x30, x19\n\t" \
    TRAINC_XPULP_ADD_SHIFT(x5, x7, x18) TRAINC_XPULP_ADD_SHIFT(x6, x28, x18) \
    TRAINC_XPULP_ADD_SHIFT(x1, x29, x18) TRAINC_XPULP_ADD_SHIFT(x9, x30, x18) \
    TRAINC_XPULP_CLIP8(x5, x5) TRAINC_XPULP_CLIP8(x6, x6) TRAINC_XPULP_CLIP8(x1, x1) \
    TRAINC_XPULP_CLIP8(x9, x9) TRAINC_XPULP_BYTES(x5, x5, x6, x1, x9) \
    TRAINC_XPULP_PV(5, 0x18, x5, x5, x23) "9: " TRAINC_XPULP_SWI(x5, 4, x17)
/* What both take: x12 counts fours, x17 is the result's place. */
#define TRAINC_XPULP_DITHER_REGISTERS(fours, to, shift, counter) \
    register int32_t x12 __asm__("x12") = (fours); \
    register uint32_t x16 __asm__("x16") = (counter); \
    register int8_t *x17 __asm__("x17") = (to); \
    register int32_t x18 __asm__("x18") = (shift); \
    register int32_t x19 __asm__("x19") = 32 - (shift); \
    register uint32_t x20 __asm__("x20") = TRAINC_XPULP_HASH_FIRST; \
    register uint32_t x21 __asm__("x21") = TRAINC_XPULP_HASH_SECOND; \
    register int32_t x23 __asm__("x23") = -127; \
    const uint32_t trainc_lowest = (counter) >> 16 & 3; \
    register uint32_t x25 __asm__("x25") = TRAINC_XPULP_HASH_STEP(trainc_lowest, 1); \
    register uint32_t x26 __asm__("x26") = TRAINC_XPULP_HASH_STEP(trainc_lowest, 2); \
    register uint32_t x27 __asm__("x27") = TRAINC_XPULP_HASH_STEP(trainc_lowest, 3)
#define TRAINC_XPULP_HASH_STEP(lowest, by) \
    ((((lowest) ^ (by)) - (lowest)) * TRAINC_XPULP_HASH_FIRST)
#define TRAINC_XPULP_DITHER_OPERANDS \
    "r"(x12), "r"(x18), "r"(x19), "r"(x20), "r"(x21), "r"(x23), "r"(x25), "r"(x26), "r"(x27)
#define TRAINC_XPULP_DITHER_CLOBBERS \
    "x1", "x5", "x6", "x7", "x9", "x28", "x29", "x30", "x31", "memory"
#define TRAINC_XPULP_DITHER_FOURS(hashes) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) TRAINC_XPULP_LWI(x5, 4, x10) \
        TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_LWI(x1, 4, x10) TRAINC_XPULP_LWI(x9, 4, x10) \
        hashes TRAINC_XPULP_DITHERED ".option pop" \
        : "+r"(x10), "+r"(x16), "+r"(x17) : TRAINC_XPULP_DITHER_OPERANDS \
        : TRAINC_XPULP_DITHER_CLOBBERS)

/* How many fours of elements have counters from this one on whose upper half is the same; 0 where
 * it is no multiple of 4 or there are less. */
static inline int32_t trainc_xpulp_dither_fours(int32_t count, uint32_t counter)
{
    if ((counter & 3) != 0) {
        return 0;
    }
    return trainc_minimum32(count, (int32_t)(UINT32_C(0x10000) - (counter & 0xffff))) >> 2;
}
#endif

/* Some 32-bit sums in a row; the first one's counter. */
static inline void trainc_xpulp_row_dither(const int32_t *from, int8_t *to, int32_t count,
    int32_t shift, uint32_t counter)
{
    for (int32_t i = 0; i < count; i++) {
#if defined(TRAINC_XPULP_INSN)
        const int32_t fours = shift > 0 && shift <= 23
            ? trainc_xpulp_dither_fours(count - i, counter + (uint32_t)i) : 0;
        if (fours > 0) {
            register const int32_t *x10 __asm__("x10") = from + i;
            TRAINC_XPULP_DITHER_REGISTERS(fours, to + i, shift, counter + (uint32_t)i);
            if (shift <= 16) {
                TRAINC_XPULP_DITHER_FOURS(TRAINC_XPULP_HASHES);
            } else {
                TRAINC_XPULP_DITHER_FOURS(TRAINC_XPULP_HASHES_OF_32);
            }
            i += 4 * fours - 1;
            continue;
        }
#endif
        to[i] = trainc_xpulp_dither(from[i], shift, counter + (uint32_t)i);
    }
}

/* Sums that parts of the cores round. */
struct trainc_xpulp_dithered {
    const int32_t *x;
    int8_t *y;
    int32_t count, parts;
    /* By parts. */
    uint32_t *widths;
    int32_t shift;
    uint32_t key;
};

/* The first element of a part; they are as long as each other, but for the last. */
static inline int32_t trainc_xpulp_dithered_first(const struct trainc_xpulp_dithered *work,
    int32_t part)
{
    const int32_t each = (work->count + work->parts - 1) / work->parts;
    return trainc_minimum32(part * each, work->count);
}

static inline void trainc_xpulp_dithered_widths(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_dithered *const work = (const struct trainc_xpulp_dithered *)context;
    for (int32_t n = begin; n < end; n++) {
        const int32_t first = trainc_xpulp_dithered_first(work, n);
        work->widths[n] = trainc_xpulp_largest_sum(work->x + first,
            trainc_xpulp_dithered_first(work, n + 1) - first);
    }
}

static inline void trainc_xpulp_dithered_parts(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_dithered *const work = (const struct trainc_xpulp_dithered *)context;
    for (int32_t n = begin; n < end; n++) {
        const int32_t first = trainc_xpulp_dithered_first(work, n);
        trainc_xpulp_row_dither(work->x + first, work->y + first,
            trainc_xpulp_dithered_first(work, n + 1) - first, work->shift,
            work->key + (uint32_t)first);
    }
}

/* Rounds sums to 7 bits of magnitude; returns by how many bits they are shifted. */
static inline int32_t trainc_xpulp_dithered(struct trainc_xpulp_dithered *work)
{
    TRAINC_PARALLEL_FOR(work, work->parts, trainc_xpulp_dithered_widths);
    const uint32_t bits = trainc_xpulp_largest_of(work->widths, work->parts);
    work->shift = trainc_maximum32(25 - trainc_leading_zeros((int32_t)bits), 0);
    TRAINC_PARALLEL_FOR(work, work->parts, trainc_xpulp_dithered_parts);
    return work->shift;
}

#endif
