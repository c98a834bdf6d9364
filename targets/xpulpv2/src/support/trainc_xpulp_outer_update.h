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

/* Two rows at once, for which lanes are loaded once, where code need not be short. */
#if !defined(__OPTIMIZE_SIZE__)
#define TRAINC_XPULP_UPDATE_PAIRS
/* Of products x and y, signs, weights and a place; x7 has the lanes' signs. */
#define TRAINC_XPULP_SINGLE_OF(round, magnitude, sign, weights, to) \
    "mul x1, x5, " #magnitude "\n\tmul x9, x6, " #magnitude "\n\t" \
    TRAINC_XPULP_LWI(x28, 4, weights) round(x1) round(x9) TRAINC_XPULP_JOIN(x1, x9) \
    "xor x9, x7, " #sign "\n\t" TRAINC_XPULP_LESS(x28, x1, x9)
/* 43 instructions for eight weights, or 35. */
#define TRAINC_XPULP_SINGLE_UPDATES(name, round, x30_is) \
    static inline void trainc_xpulp_single_updates_##name(int32_t row, int32_t second, \
        const struct trainc_xpulp_outer *work, int32_t words, const int8_t *weights, int8_t *to, \
        int32_t apart) \
    { \
        const struct trainc_xpulp_rounding *const r = &work->rounding; \
        const uint32_t magnitude = trainc_xpulp_abs((uint32_t)row); \
        const uint32_t other = trainc_xpulp_abs((uint32_t)second); \
        TRAINC_XPULP_PAIR_NUMBERS(r); \
        register const uint16_t *x10 __asm__("x10") = work->magnitudes; \
        register uint32_t x13 __asm__("x13") = magnitude; \
        register int32_t x18 __asm__("x18") = row >> 31; \
        register const int8_t *x20 __asm__("x20") = work->signs; \
        register uint32_t x23 __asm__("x23") = other; \
        register int32_t x24 __asm__("x24") = second >> 31; \
        register int8_t *x25 __asm__("x25") = to + apart; \
        register const int8_t *x26 __asm__("x26") = weights + apart; \
        TRAINC_XPULP_PAIR_REGISTERS(words, to, r, mask, lift, carry, x30_is); \
        TRAINC_XPULP_LESS_REGISTERS(weights); \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_LWI(x7, 4, x20) \
            TRAINC_XPULP_SINGLE_OF(round, x13, x18, x22, x11) TRAINC_XPULP_SWI(x28, 4, x11) \
            TRAINC_XPULP_SINGLE_OF(round, x23, x24, x26, x25) \
            "9: " TRAINC_XPULP_SWI(x28, 4, x25) ".option pop" \
            : "+r"(x10), "+r"(x11), "+r"(x20), "+r"(x22), "+r"(x25), "+r"(x26) \
            : TRAINC_XPULP_PAIR_OPERANDS, "r"(x21), "r"(x23), "r"(x24) \
            : "x1", "x5", "x6", "x7", "x9", "x28", "x29", "memory"); \
    }
/* Sums of a row by lanes in x5, x6, x7 and x28. */
#define TRAINC_XPULP_SUMS_OF(round, row, weights) \
    TRAINC_XPULP_PV(1, 0x4c, x1, x5, row) TRAINC_XPULP_PV(1, 0x4c, x9, x6, row) \
    TRAINC_XPULP_PV(1, 0x4c, x23, x7, row) TRAINC_XPULP_PV(1, 0x4c, x24, x28, row) \
    TRAINC_XPULP_PV(0, 0x68, x1, x9, x1) TRAINC_XPULP_PV(0, 0x68, x23, x24, x23) \
    TRAINC_XPULP_PV(0, 0x38, x9, x1, x0) TRAINC_XPULP_PV(0, 0x38, x24, x23, x0) \
    round(x9) round(x24) TRAINC_XPULP_JOIN(x9, x24) TRAINC_XPULP_LWI(x24, 4, weights) \
    TRAINC_XPULP_PV(1, 0x64, x1, x23, x18) TRAINC_XPULP_PV(7, 0x25, x1, x1, x3) \
    TRAINC_XPULP_LESS(x24, x9, x1)
/* 58 instructions for eight weights, or 50. */
#define TRAINC_XPULP_SUMS_UPDATES(name, round, x30_is) \
    static inline void trainc_xpulp_sums_updates_##name(uint32_t row, uint32_t second, \
        const struct trainc_xpulp_outer *work, int32_t words, const int8_t *weights, int8_t *to, \
        int32_t apart) \
    { \
        const struct trainc_xpulp_rounding *const r = &work->rounding; \
        TRAINC_XPULP_PAIR_NUMBERS(r); \
        register const int8_t *x10 __asm__("x10") = work->lanes; \
        register uint32_t x13 __asm__("x13") = row; \
        register uint32_t x18 __asm__("x18") = 0x07050301; \
        register uint32_t x25 __asm__("x25") = second; \
        register int8_t *x26 __asm__("x26") = to + apart; \
        register const int8_t *x27 __asm__("x27") = weights + apart; \
        TRAINC_XPULP_PAIR_REGISTERS(words, to, r, mask, lift, carry, x30_is); \
        TRAINC_XPULP_LESS_REGISTERS(weights); \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) \
            TRAINC_XPULP_LWI(x7, 4, x10) TRAINC_XPULP_LWI(x28, 4, x10) \
            TRAINC_XPULP_SUMS_OF(round, x13, x22) TRAINC_XPULP_SWI(x24, 4, x11) \
            TRAINC_XPULP_SUMS_OF(round, x25, x27) \
            "9: " TRAINC_XPULP_SWI(x24, 4, x26) ".option pop" \
            : "+r"(x10), "+r"(x11), "+r"(x22), "+r"(x26), "+r"(x27) \
            : TRAINC_XPULP_PAIR_OPERANDS, "r"(x21), "r"(x25) \
            : "x1", "x5", "x6", "x7", "x9", "x23", "x24", "x28", "x29", "memory"); \
    }
#endif
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

/* Two rows without their last lanes, which fill no word, and whether that was done; as a row. */
#if defined(TRAINC_XPULP_UPDATE_PAIRS)
#define TRAINC_XPULP_PAIRED 1
#define TRAINC_XPULP_TWO_UPDATES(name, round, x30_is) \
    TRAINC_XPULP_SINGLE_UPDATES(name, round, x30_is) \
    TRAINC_XPULP_SUMS_UPDATES(name, round, x30_is) \
    static inline int trainc_xpulp_update_rows_##name(const struct trainc_xpulp_outer *work, \
        int32_t row, int32_t second) \
    { \
        const int32_t lanes = work->lane_count, at = row * lanes, apart = (second - row) * lanes; \
        const uint32_t a = trainc_xpulp_outer_factor(work, row); \
        const uint32_t b = trainc_xpulp_outer_factor(work, second); \
        if (!trainc_xpulp_outer_pairs(work) || lanes < 4) { \
            return 0; \
        } \
        if (work->images == 1) { \
            trainc_xpulp_single_updates_##name((int32_t)a, (int32_t)b, work, lanes >> 2, \
                work->weights + at, work->y + at, apart); \
        } else { \
            trainc_xpulp_sums_updates_##name(a, b, work, lanes >> 2, work->weights + at, \
                work->y + at, apart); \
        } \
        return 1; \
    }
#else
#define TRAINC_XPULP_PAIRED 0
#define TRAINC_XPULP_TWO_UPDATES(name, round, x30_is) \
    static inline int trainc_xpulp_update_rows_##name(const struct trainc_xpulp_outer *work, \
        int32_t row, int32_t second) \
    { \
        (void)work; \
        (void)row; \
        (void)second; \
        return 0; \
    }
#endif

/* A row, of which 64 sums at a time are kept where pairs are not rounded, and the last lanes that
 * fill no word, or these alone; and some parts. */
#define TRAINC_XPULP_OUTER_UPDATE(name, round, x30_is) \
    TRAINC_XPULP_TWO_UPDATES(name, round, x30_is) \
    TRAINC_XPULP_SINGLE_UPDATE(name, round, x30_is) \
    TRAINC_XPULP_SUMS_UPDATE(name, round, x30_is) \
    static inline void trainc_xpulp_update_row_##name(const struct trainc_xpulp_outer *work, \
        uint32_t row, const int8_t *from, int8_t *to, int32_t i) \
    { \
        const int32_t lanes = work->lane_count; \
        const struct trainc_xpulp_rounding *const r = &work->rounding; \
        if (i == 0 && trainc_xpulp_outer_pairs(work) && lanes >= 4) { \
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
        const int32_t behind = trainc_xpulp_outer_begin(work, end), lanes = work->lane_count; \
        int32_t waiting = -1; \
        for (int32_t n = trainc_xpulp_outer_begin(work, begin); n < behind; n++) { \
            const uint32_t row = trainc_xpulp_outer_factor(work, n); \
            const int8_t *const from = work->weights + n * lanes; \
            int8_t *const to = work->y + n * lanes; \
            if (row == 0) { \
                trainc_xpulp_clamped(from, to, lanes); \
            } else if (!TRAINC_XPULP_PAIRED) { \
                trainc_xpulp_update_row_##name(work, row, from, to, 0); \
            } else if (waiting < 0) { \
                waiting = n; \
            } else { \
                const int32_t done = \
                    trainc_xpulp_update_rows_##name(work, waiting, n) ? lanes & ~3 : 0; \
                if (done < lanes) { \
                    trainc_xpulp_update_row_##name(work, trainc_xpulp_outer_factor(work, waiting), \
                        work->weights + waiting * lanes, work->y + waiting * lanes, done); \
                    trainc_xpulp_update_row_##name(work, row, from, to, done); \
                } \
                waiting = -1; \
            } \
        } \
        if (waiting >= 0) { \
            trainc_xpulp_update_row_##name(work, trainc_xpulp_outer_factor(work, waiting), \
                work->weights + waiting * lanes, work->y + waiting * lanes, 0); \
        } \
    }
TRAINC_XPULP_OUTER_UPDATE(half_away, TRAINC_XPULP_PAIR_HALF_AWAY, r->unit)
TRAINC_XPULP_OUTER_UPDATE(pseudo_stochastic, TRAINC_XPULP_PAIR_PSEUDO_STOCHASTIC, r->low_mask)

#endif
