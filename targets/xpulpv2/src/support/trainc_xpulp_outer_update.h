/* Updates by outer products: weights less the rounded sums, which are nowhere kept. */
#ifndef TRAINC_XPULP_OUTER_UPDATE_H
#define TRAINC_XPULP_OUTER_UPDATE_H

#include "trainc_xpulp_outer.h"

#if defined(TRAINC_XPULP_INSN)
/* Weights in w less the magnitudes q with signs, in all bits of a byte, clamped to -127..=127; x29 is
 * free, x21 is -127 in each byte. Where a sign is set, all is done with the complement of the weights,
 * which then are -128 at least: so only the lower end clamps. A weight of -128 is left by 0 with a
 * sign. */
#define TRAINC_XPULP_LESS(w, q, signs) \
    TRAINC_XPULP_PV(1, 0x00, x29, signs, x21) "xor " #w ", " #w ", " #signs "\n\t" \
    TRAINC_XPULP_PV(1, 0x00, x29, x29, q) TRAINC_XPULP_PV(1, 0x18, w, w, x29) \
    TRAINC_XPULP_PV(1, 0x04, w, w, q) "xor " #w ", " #w ", " #signs "\n\t" \
    TRAINC_XPULP_PV(1, 0x18, w, w, x21)
#define TRAINC_XPULP_LESS_REGISTERS(weights) \
    register const int8_t *x22 __asm__("x22") = (weights); \
    register uint32_t x21 __asm__("x21") = 0x81818181
/* Four lanes at a time as TRAINC_XPULP_SINGLE_ROW: 23 instructions, or 19. */
#define TRAINC_XPULP_SINGLE_UPDATE(name, round, x30_is) \
    static inline void trainc_xpulp_single_update_##name(int32_t row, const uint16_t *magnitudes, \
        const int8_t *signs, int32_t words, const struct trainc_xpulp_rounding *r, \
        const int8_t *weights, int8_t *to) \
    { \
        const uint32_t magnitude = trainc_xpulp_abs((uint32_t)row); \
        TRAINC_XPULP_PAIR_NUMBERS(r); \
        register const uint16_t *x10 __asm__("x10") = magnitudes; \
        register uint32_t x13 __asm__("x13") = magnitude; \
        register int32_t x18 __asm__("x18") = row >> 31; \
        register const int8_t *x20 __asm__("x20") = signs; \
        TRAINC_XPULP_PAIR_REGISTERS(words, to, r, mask, lift, carry, x30_is); \
        TRAINC_XPULP_LESS_REGISTERS(weights); \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
            TRAINC_XPULP_SINGLE_PAIRS TRAINC_XPULP_LWI(x28, 4, x22) round(x5) round(x6) \
            TRAINC_XPULP_JOIN(x5, x6) "xor x7, x7, x18\n\t" TRAINC_XPULP_LESS(x28, x5, x7) \
            "9: " TRAINC_XPULP_SWI(x28, 4, x11) ".option pop" \
            : "+r"(x10), "+r"(x11), "+r"(x20), "+r"(x22) : TRAINC_XPULP_PAIR_OPERANDS, "r"(x21) \
            : "x5", "x6", "x7", "x28", "x29", "memory"); \
    }
/* As TRAINC_XPULP_OUTER_ROW: 31 instructions, or 27. */
#define TRAINC_XPULP_SUMS_UPDATE(name, round, x30_is) \
    static inline void trainc_xpulp_sums_update_##name(uint32_t row, const int8_t *lanes, \
        int32_t words, const struct trainc_xpulp_rounding *r, const int8_t *weights, int8_t *to) \
    { \
        TRAINC_XPULP_PAIR_NUMBERS(r); \
        register const int8_t *x10 __asm__("x10") = lanes; \
        register uint32_t x13 __asm__("x13") = row; \
        register uint32_t x18 __asm__("x18") = 0x07050301; \
        TRAINC_XPULP_PAIR_REGISTERS(words, to, r, mask, lift, carry, x30_is); \
        TRAINC_XPULP_LESS_REGISTERS(weights); \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
            TRAINC_XPULP_OUTER_PAIRS round(x6) round(x28) TRAINC_XPULP_JOIN(x6, x28) \
            TRAINC_XPULP_LWI(x28, 4, x22) TRAINC_XPULP_OUTER_SIGNS \
            TRAINC_XPULP_LESS(x28, x6, x5) "9: " TRAINC_XPULP_SWI(x28, 4, x11) ".option pop" \
            : "+r"(x10), "+r"(x11), "+r"(x22) : TRAINC_XPULP_PAIR_OPERANDS, "r"(x21) \
            : "x5", "x6", "x7", "x28", "x29", "memory"); \
    }
#else
#define TRAINC_XPULP_SINGLE_UPDATE(name, round, x30_is) \
    static inline void trainc_xpulp_single_update_##name(int32_t row, const uint16_t *magnitudes, \
        const int8_t *signs, int32_t words, const struct trainc_xpulp_rounding *r, \
        const int8_t *weights, int8_t *to) \
    { \
        int8_t sums[4]; \
        for (int32_t i = 0; i < 4 * words; i += 4) { \
            trainc_xpulp_single_##name(row, magnitudes + i, signs + i, 1, r, sums); \
            trainc_xpulp_store(to + i, trainc_xpulp_subtract(trainc_xpulp_load(weights + i), \
                trainc_xpulp_load(sums))); \
        } \
    }
#define TRAINC_XPULP_SUMS_UPDATE(name, round, x30_is) \
    static inline void trainc_xpulp_sums_update_##name(uint32_t row, const int8_t *lanes, \
        int32_t words, const struct trainc_xpulp_rounding *r, const int8_t *weights, int8_t *to) \
    { \
        int8_t sums[4]; \
        for (int32_t i = 0; i < 4 * words; i += 4) { \
            trainc_xpulp_outer_##name(row, lanes + 4 * i, 1, r, sums); \
            trainc_xpulp_store(to + i, trainc_xpulp_subtract(trainc_xpulp_load(weights + i), \
                trainc_xpulp_load(sums))); \
        } \
    }
#endif

/* Weights of a row without an error: they are clamped as others are. */
static inline void trainc_xpulp_clamped(const int8_t *from, int8_t *to, int32_t count)
{
    const uint32_t least = 0x81818181;
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count >= 8) {
        register const int8_t *x10 __asm__("x10") = from;
        register int8_t *x11 __asm__("x11") = to;
        register int32_t x12 __asm__("x12") = (count >> 2) - 1;
        register uint32_t x13 __asm__("x13") = least;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_PV(1, 0x18, x6, x5, x13) TRAINC_XPULP_LWI(x5, 4, x10)
            "9: " TRAINC_XPULP_SWI(x6, 4, x11) TRAINC_XPULP_PV(1, 0x18, x6, x5, x13)
            TRAINC_XPULP_SWI(x6, 4, x11) ".option pop"
            : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13) : "x5", "x6", "memory");
        i = count & ~3;
    }
#endif
    for (; i < count; i += 4) {
        trainc_xpulp_put_word(to, i, count,
            trainc_xpulp_max_b(trainc_xpulp_word(from, i, count), least));
    }
}

/* A row, of which 64 sums at a time are kept where pairs are not rounded, and the last lanes that
 * fill no word; and some parts. */
#define TRAINC_XPULP_OUTER_UPDATE(name, round, x30_is) \
    TRAINC_XPULP_SINGLE_UPDATE(name, round, x30_is) \
    TRAINC_XPULP_SUMS_UPDATE(name, round, x30_is) \
    static inline void trainc_xpulp_update_row_##name(const struct trainc_xpulp_outer *work, \
        uint32_t row, const int8_t *from, int8_t *to) \
    { \
        const int32_t lanes = work->lane_count; \
        const struct trainc_xpulp_rounding *const r = &work->rounding; \
        int32_t i = 0; \
        if (trainc_xpulp_outer_pairs(work) && lanes >= 4) { \
            i = lanes & ~3; \
            if (work->images == 1) { \
                trainc_xpulp_single_update_##name((int32_t)row, work->magnitudes, work->signs, \
                    lanes >> 2, r, from, to); \
            } else { \
                trainc_xpulp_sums_update_##name(row, work->lanes, lanes >> 2, r, from, to); \
            } \
        } \
        int32_t sums[65]; \
        int8_t rounded[64]; \
        for (int32_t count; i < lanes; i += count) { \
            count = trainc_minimum32(lanes - i, 64); \
            trainc_xpulp_outer_some(work, row, i, count, sums); \
            sums[count] = 0; \
            trainc_xpulp_row_##name(sums, rounded, count, r); \
            struct trainc_xpulp_bytes piece = { from + i, rounded, to + i, count }; \
            trainc_xpulp_subtract_words(&piece, 0, (count + 3) >> 2); \
        } \
    } \
    static inline void trainc_xpulp_update_outer_##name(void *context, int32_t begin, int32_t end) \
    { \
        const struct trainc_xpulp_outer *const work = (const struct trainc_xpulp_outer *)context; \
        const int32_t behind = trainc_xpulp_outer_begin(work, end); \
        for (int32_t n = trainc_xpulp_outer_begin(work, begin); n < behind; n++) { \
            const uint32_t row = trainc_xpulp_outer_factor(work, n); \
            const int8_t *const from = work->weights + n * work->lane_count; \
            int8_t *const to = work->y + n * work->lane_count; \
            if (row == 0) { \
                trainc_xpulp_clamped(from, to, work->lane_count); \
            } else { \
                trainc_xpulp_update_row_##name(work, row, from, to); \
            } \
        } \
    }
TRAINC_XPULP_OUTER_UPDATE(half_away, TRAINC_XPULP_PAIR_HALF_AWAY, r->unit)
TRAINC_XPULP_OUTER_UPDATE(pseudo_stochastic, TRAINC_XPULP_PAIR_PSEUDO_STOCHASTIC, r->low_mask)

#endif
