/* Weight gradients of matrix products of at most four images: each sum is one word by one word, and
 * is rounded as it arises. */
#ifndef TRAINC_XPULP_OUTER_H
#define TRAINC_XPULP_OUTER_H

#include "trainc_xpulp_rounding.h"

/* Bytes [rows][lanes] of one word a row and one a lane, the rows in parts; behind the lanes' words
 * there is another. Of a single image also the lanes' magnitudes and, in all bits of a byte, signs. */
struct trainc_xpulp_outer {
    const int8_t *rows, *lanes;
    uint16_t *magnitudes;
    int8_t *signs;
    int32_t row_count, lane_count, images, parts;
    /* The bits of the sums' magnitudes, by parts. */
    uint32_t *widths;
    /* All of them. */
    uint32_t bits;
    int8_t *y;
    struct trainc_xpulp_rounding rounding;
};

/* The largest magnitude of words that hold a byte each. */
static inline uint32_t trainc_xpulp_most(const int8_t *words, int32_t count)
{
    uint32_t most = 0;
    for (int32_t i = 0; i < count; i++) {
        most = trainc_xpulp_max(most, trainc_xpulp_abs((uint32_t)(int32_t)words[4 * i]));
    }
    return most;
}

/* The magnitudes and signs of a single image's lanes. */
static inline void trainc_xpulp_outer_single(const struct trainc_xpulp_outer *work)
{
    for (int32_t i = 0; i < work->lane_count; i++) {
        const int32_t lane = work->lanes[4 * i];
        work->magnitudes[i] = (uint16_t)trainc_xpulp_abs((uint32_t)lane);
        work->signs[i] = (int8_t)(lane >> 31);
    }
}

/* Sums of a row, one after the other. */
static inline void trainc_xpulp_outer_sums(uint32_t row, const int8_t *lanes, int32_t count,
    int32_t *to)
{
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = lanes;
    register int32_t *x11 __asm__("x11") = to;
    register int32_t x12 __asm__("x12") = count;
    register uint32_t x13 __asm__("x13") = row;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LOOP(0, 12, 9)
        TRAINC_XPULP_PV(1, 0x4c, x6, x5, x13) TRAINC_XPULP_LWI(x5, 4, x10)
        "9: " TRAINC_XPULP_SWI(x6, 4, x11) ".option pop"
        : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13) : "x5", "x6", "memory");
#else
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int32_t)trainc_xpulp_dotsp_b(trainc_xpulp_load(lanes + 4 * i), row);
    }
#endif
}

/* The bits of the magnitudes of a row's sums. */
static inline uint32_t trainc_xpulp_outer_width(uint32_t row, const int8_t *lanes, int32_t count)
{
    uint32_t bits = 0;
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = lanes;
    register uint32_t x11 __asm__("x11") = bits;
    register int32_t x12 __asm__("x12") = count;
    register uint32_t x13 __asm__("x13") = row;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LOOP(0, 12, 9)
        TRAINC_XPULP_PV(1, 0x4c, x6, x5, x13) TRAINC_XPULP_LWI(x5, 4, x10)
        TRAINC_XPULP_SCALAR(0, x6, x6, x0) "9: or x11, x11, x6\n\t.option pop"
        : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13) : "x5", "x6", "memory");
    return x11;
#else
    for (int32_t i = 0; i < count; i++) {
        bits |= trainc_xpulp_abs(trainc_xpulp_dotsp_b(trainc_xpulp_load(lanes + 4 * i), row));
    }
    return bits;
#endif
}

/* The rows of a part. */
static inline int32_t trainc_xpulp_outer_first(const struct trainc_xpulp_outer *work, int32_t part)
{
    return part * work->row_count / work->parts;
}

/* The bits of some parts' sums. */
static inline void trainc_xpulp_outer_widths(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_outer *const work = (const struct trainc_xpulp_outer *)context;
    for (int32_t part = begin; part < end; part++) {
        const int32_t first = trainc_xpulp_outer_first(work, part);
        const int32_t last = trainc_xpulp_outer_first(work, part + 1);
        uint32_t bits = 0;
        if (work->images == 1) {
            /* The largest of all products is that of the largest factors. */
            bits = trainc_xpulp_most(work->rows + 4 * first, last - first)
                * trainc_xpulp_most(work->lanes, work->lane_count);
        } else {
            for (int32_t n = first; n < last; n++) {
                const uint32_t row = trainc_xpulp_load(work->rows + 4 * n);
                bits |= row == 0 ? 0 : trainc_xpulp_outer_width(row, work->lanes, work->lane_count);
            }
        }
        work->widths[part] = bits;
    }
}

#if defined(TRAINC_XPULP_INSN)
/* A pair of sums, in halves of x, to their rounded magnitudes with signs in y; x29 and x9 are free. */
#define TRAINC_XPULP_PAIR(x, y, round) \
    TRAINC_XPULP_PV(0, 0x38, y, x, x0) round(y) \
    TRAINC_XPULP_PV(4, 0x10, y, y, x14) TRAINC_XPULP_PV(4, 0x24, x, x, x18) \
    "xor " #y ", " #y ", " #x "\n\t" TRAINC_XPULP_PV(0, 0x04, y, y, x)
#define TRAINC_XPULP_PAIR_HALF_AWAY(y) \
    TRAINC_XPULP_PV(4, 0x00, y, y, x30) TRAINC_XPULP_PV(4, 0x20, y, y, x15)
#define TRAINC_XPULP_PAIR_PSEUDO_STOCHASTIC(y) \
    TRAINC_XPULP_PV(4, 0x20, x29, y, x16) "and x29, x29, x31\n\t" \
    "and x9, " #y ", x30\n\t" TRAINC_XPULP_PV(4, 0x28, x9, x9, x17) \
    TRAINC_XPULP_PV(0, 0x22, x9, x9, x29) TRAINC_XPULP_PV(4, 0x20, y, y, x15) \
    TRAINC_XPULP_PV(0, 0x04, y, y, x9)
/* A pair of magnitudes. */
#define TRAINC_XPULP_ROUNDED(y, round) round(y) TRAINC_XPULP_PV(4, 0x10, y, y, x14)
/* Four lanes at a time of products of at most 15 bits: one multiplication makes two magnitudes; 26
 * instructions, or 16. */
#define TRAINC_XPULP_SINGLE_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_single_##name(int32_t row, \
        const struct trainc_xpulp_outer *work, int32_t words, int8_t *to) \
    { \
        const struct trainc_xpulp_rounding *const r = &work->rounding; \
        /* Before the registers are taken: a call would change them. */ \
        const uint32_t magnitude = trainc_xpulp_abs((uint32_t)row); \
        register const uint16_t *x10 __asm__("x10") = work->magnitudes; \
        register int8_t *x11 __asm__("x11") = to; \
        register int32_t x12 __asm__("x12") = words; \
        register uint32_t x13 __asm__("x13") = magnitude; \
        register int32_t x14 __asm__("x14") = 127; \
        register int32_t x15 __asm__("x15") = r->shift; \
        register int32_t x16 __asm__("x16") = r->half; \
        register int32_t x17 __asm__("x17") = r->odd; \
        register int32_t x18 __asm__("x18") = row >> 31; \
        register uint32_t x19 __asm__("x19") = 0x06040200; \
        register const int8_t *x20 __asm__("x20") = work->signs; \
        register uint32_t x30 __asm__("x30") = (x30_is) * 0x10001; \
        register uint32_t x31 __asm__("x31") = r->high_mask * 0x10001; \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_LWI(x7, 4, x20) \
            "mul x5, x5, x13\n\tmul x6, x6, x13\n\t" \
            TRAINC_XPULP_ROUNDED(x5, round) TRAINC_XPULP_ROUNDED(x6, round) \
            TRAINC_XPULP_PV(1, 0x64, x5, x6, x19) "xor x7, x7, x18\n\txor x5, x5, x7\n\t" \
            TRAINC_XPULP_PV(1, 0x04, x5, x5, x7) "9: " TRAINC_XPULP_SWI(x5, 4, x11) \
            ".option pop" \
            : "+r"(x10), "+r"(x11), "+r"(x20) \
            : "r"(x12), "r"(x13), "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19), \
              "r"(x30), "r"(x31) \
            : "x5", "x6", "x7", "x9", "x28", "x29", "memory"); \
    }
/* Four lanes at a time of sums of at most 15 bits; 36 instructions, or 26. */
#define TRAINC_XPULP_OUTER_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_outer_##name(uint32_t row, const int8_t *lanes, \
        int32_t words, const struct trainc_xpulp_rounding *r, int8_t *to) \
    { \
        register const int8_t *x10 __asm__("x10") = lanes; \
        register int8_t *x11 __asm__("x11") = to; \
        register int32_t x12 __asm__("x12") = words; \
        register uint32_t x13 __asm__("x13") = row; \
        register int32_t x14 __asm__("x14") = 127; \
        register int32_t x15 __asm__("x15") = r->shift; \
        register int32_t x16 __asm__("x16") = r->half; \
        register int32_t x17 __asm__("x17") = r->odd; \
        register int32_t x18 __asm__("x18") = 15; \
        register uint32_t x19 __asm__("x19") = 0x06040200; \
        register uint32_t x30 __asm__("x30") = (x30_is) * 0x10001; \
        register uint32_t x31 __asm__("x31") = r->high_mask * 0x10001; \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) \
            TRAINC_XPULP_LWI(x7, 4, x10) TRAINC_XPULP_LWI(x28, 4, x10) \
            TRAINC_XPULP_PV(1, 0x4c, x5, x5, x13) TRAINC_XPULP_PV(1, 0x4c, x6, x6, x13) \
            TRAINC_XPULP_PV(1, 0x4c, x7, x7, x13) TRAINC_XPULP_PV(1, 0x4c, x28, x28, x13) \
            TRAINC_XPULP_PV(0, 0x68, x5, x6, x5) TRAINC_XPULP_PV(0, 0x68, x7, x28, x7) \
            TRAINC_XPULP_PAIR(x5, x6, round) TRAINC_XPULP_PAIR(x7, x28, round) \
            TRAINC_XPULP_PV(1, 0x64, x6, x28, x19) "9: " TRAINC_XPULP_SWI(x6, 4, x11) \
            ".option pop" \
            : "+r"(x10), "+r"(x11) \
            : "r"(x12), "r"(x13), "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19), \
              "r"(x30), "r"(x31) \
            : "x5", "x6", "x7", "x9", "x28", "x29", "memory"); \
    }
#else
#define TRAINC_XPULP_SINGLE_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_single_##name(int32_t row, \
        const struct trainc_xpulp_outer *work, int32_t words, int8_t *to) \
    { \
        for (int32_t i = 0; i < 4 * words; i++) { \
            const int32_t product = (int32_t)work->magnitudes[i] * row; \
            to[i] = trainc_xpulp_##name(work->signs[i] < 0 ? -product : product, &work->rounding); \
        } \
    }
#define TRAINC_XPULP_OUTER_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_outer_##name(uint32_t row, const int8_t *lanes, \
        int32_t words, const struct trainc_xpulp_rounding *r, int8_t *to) \
    { \
        int32_t sum; \
        for (int32_t i = 0; i < 4 * words; i++) { \
            trainc_xpulp_outer_sums(row, lanes + 4 * i, 1, &sum); \
            to[i] = trainc_xpulp_##name(sum, r); \
        } \
    }
#endif

/* A row, of which 64 sums at a time are kept where they have more than 15 bits; and some parts. */
#define TRAINC_XPULP_OUTER(name, round, x30_is) \
    TRAINC_XPULP_SINGLE_ROW(name, round, x30_is) \
    TRAINC_XPULP_OUTER_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_outer_row_##name(const struct trainc_xpulp_outer *work, \
        uint32_t row, int8_t *to) \
    { \
        int32_t sums[65], i = 0; \
        if (work->bits < 0x8000 && work->rounding.shift < 16 && work->lane_count >= 4) { \
            i = work->lane_count & ~3; \
            if (work->images == 1) { \
                trainc_xpulp_single_##name((int8_t)(row & 0xff), work, i >> 2, to); \
            } else { \
                trainc_xpulp_outer_##name(row, work->lanes, i >> 2, &work->rounding, to); \
            } \
        } \
        sums[64] = 0; \
        for (; i < work->lane_count; i += 64) { \
            const int32_t count = work->lane_count - i < 64 ? work->lane_count - i : 64; \
            trainc_xpulp_outer_sums(row, work->lanes + 4 * i, count, sums); \
            sums[count] = 0; \
            trainc_xpulp_row_##name(sums, to + i, count, &work->rounding); \
        } \
    } \
    static inline void trainc_xpulp_store_outer_##name(void *context, int32_t begin, int32_t end) \
    { \
        const struct trainc_xpulp_outer *const work = (const struct trainc_xpulp_outer *)context; \
        for (int32_t n = trainc_xpulp_outer_first(work, begin); \
             n < trainc_xpulp_outer_first(work, end); n++) { \
            const uint32_t row = trainc_xpulp_load(work->rows + 4 * n); \
            int8_t *const to = work->y + n * work->lane_count; \
            if (row == 0) { \
                trainc_xpulp_zero(to, work->lane_count); \
            } else { \
                trainc_xpulp_outer_row_##name(work, row, to); \
            } \
        } \
    }
TRAINC_XPULP_OUTER(half_away, TRAINC_XPULP_PAIR_HALF_AWAY, r->unit)
TRAINC_XPULP_OUTER(pseudo_stochastic, TRAINC_XPULP_PAIR_PSEUDO_STOCHASTIC, r->low_mask)

#endif
