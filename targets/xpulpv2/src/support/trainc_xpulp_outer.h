/* Weight gradients of matrix products of at most four images: each sum is one word by one word, and
 * is rounded as it arises. */
#ifndef TRAINC_XPULP_OUTER_H
#define TRAINC_XPULP_OUTER_H

#include "trainc_xpulp_elements.h"
#include "trainc_xpulp_rounding.h"

/* Bytes [rows][lanes] of one word a row and one a lane, the rows in parts; behind the lanes' words
 * there is another. Of a single image rows and lanes are bytes, and of the lanes there are, by words,
 * their magnitudes and, in all bits of a byte, signs. */
struct trainc_xpulp_outer {
    const int8_t *rows, *lanes;
    uint16_t *magnitudes;
    int8_t *signs;
    int32_t row_count, lane_count, images, parts;
    /* Of several cores, where parts begin. */
    int32_t *begins;
    /* What the sums' magnitudes do not exceed, by parts, with as many bits as the largest one; of a single
     * image each part's largest of a row, then of a lane. */
    uint32_t *widths;
    /* The largest of those; of a single image the product. */
    uint32_t most;
    int8_t *y;
    /* What results are subtracted from, where they are an update. */
    const int8_t *weights;
    struct trainc_xpulp_rounding rounding;
};

/* The first of a part of so many. */
static inline int32_t trainc_xpulp_outer_first(const struct trainc_xpulp_outer *work, int32_t part,
    int32_t count)
{
    return part * count / work->parts;
}

/* The byte or the word that a row's lanes are multiplied by. */
static inline uint32_t trainc_xpulp_outer_factor(const struct trainc_xpulp_outer *work, int32_t n)
{
    return work->images == 1 ? (uint32_t)(int32_t)work->rows[n]
                             : trainc_xpulp_load(work->rows + 4 * n);
}

/* The first row of a part: where sums are stored, rows without errors are a twelfth of others; where
 * weights are updated, a sixth or an eighth. */
static inline int32_t trainc_xpulp_outer_row(const struct trainc_xpulp_outer *work, int32_t part)
{
    const int32_t count = work->row_count, fours = work->images == 1 ? count & ~3 : 0;
    const int32_t more = work->weights == 0 ? 11 : work->images == 1 ? 5 : 7;
    int32_t all = count, n = 0;
    if (!TRAINC_DIVIDED(1, 0) || part == 0) {
        return 0;
    }
    for (; n < fours; n += 4) {
        all += more * trainc_xpulp_counting(work->rows + n);
    }
    for (; n < count; n++) {
        all += trainc_xpulp_outer_factor(work, n) == 0 ? 0 : more;
    }
    int32_t left = part * all / work->parts;
    for (n = 0; n < fours; n += 4) {
        const int32_t four = 4 + more * trainc_xpulp_counting(work->rows + n);
        if (four > left) {
            break;
        }
        left -= four;
    }
    for (; left > 0; n++) {
        left -= trainc_xpulp_outer_factor(work, n) == 0 ? 1 : 1 + more;
    }
    return n;
}

/* Notes where some parts begin, and what that says. */
static inline void trainc_xpulp_outer_divide(const struct trainc_xpulp_outer *work, int32_t begin,
    int32_t end)
{
    for (int32_t part = begin; part < end; part++) {
        work->begins[part] = trainc_xpulp_outer_row(work, part);
    }
}

static inline int32_t trainc_xpulp_outer_begin(const struct trainc_xpulp_outer *work, int32_t part)
{
    return part == work->parts ? work->row_count : work->begins[part];
}

/* The magnitudes of a word's bytes. */
static inline uint32_t trainc_xpulp_magnitudes_of(uint32_t word)
{
    return trainc_xpulp_max_b(word, trainc_xpulp_sub_b(0, word));
}

/* The largest of the bytes of a word. */
static inline uint32_t trainc_xpulp_largest_byte(uint32_t word)
{
    word = trainc_xpulp_maxu_b(word, word >> 16);
    return trainc_xpulp_maxu_b(word, word >> 8) & 255;
}

/* A single image's largest magnitudes of some parts' rows and lanes; and these lanes' magnitudes and
 * signs. */
static inline void trainc_xpulp_outer_single(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_outer *const work = (const struct trainc_xpulp_outer *)context;
    const int32_t row_words = (work->row_count + 3) >> 2, words = (work->lane_count + 3) >> 2;
    trainc_xpulp_outer_divide(work, begin, end);
    for (int32_t part = begin; part < end; part++) {
        uint32_t most = 0;
        for (int32_t i = trainc_xpulp_outer_first(work, part, row_words);
             i < trainc_xpulp_outer_first(work, part + 1, row_words); i++) {
            most = trainc_xpulp_maxu_b(most, trainc_xpulp_magnitudes_of(
                trainc_xpulp_word(work->rows, 4 * i, work->row_count)));
        }
        work->widths[part] = trainc_xpulp_largest_byte(most);
        most = 0;
        for (int32_t i = trainc_xpulp_outer_first(work, part, words);
             i < trainc_xpulp_outer_first(work, part + 1, words); i++) {
            const uint32_t word = trainc_xpulp_word(work->lanes, 4 * i, work->lane_count);
            const uint32_t magnitudes = trainc_xpulp_magnitudes_of(word);
            most = trainc_xpulp_maxu_b(most, magnitudes);
            trainc_xpulp_store(work->magnitudes + 4 * i,
                (magnitudes & 0xff) | (magnitudes & 0xff00) << 8);
            trainc_xpulp_store(work->magnitudes + 4 * i + 2,
                (magnitudes >> 16 & 0xff) | (magnitudes >> 24) << 16);
            trainc_xpulp_store(work->signs + 4 * i, trainc_xpulp_sra_b(word, 0x07070707));
        }
        work->widths[work->parts + part] = trainc_xpulp_largest_byte(most);
    }
}

/* What no magnitude of all sums exceeds, with as many bits as the largest one; of a single image the
 * product of the largest factors. */
static inline uint32_t trainc_xpulp_outer_most(const struct trainc_xpulp_outer *work)
{
    uint32_t most[2] = { 0, work->images > 1 };
    for (int32_t i = 0; i < (work->images > 1 ? 1 : 2) * work->parts; i++) {
        uint32_t *const to = most + (i >= work->parts);
        *to = work->widths[i] > *to ? work->widths[i] : *to;
    }
    return most[0] * most[1];
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

/* The largest magnitude of a row's sums. */
static inline uint32_t trainc_xpulp_outer_largest(uint32_t row, const int8_t *lanes, int32_t count)
{
    uint32_t most = 0;
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = lanes;
    register uint32_t x11 __asm__("x11") = most;
    register int32_t x12 __asm__("x12") = count;
    register uint32_t x13 __asm__("x13") = row;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LOOP(0, 12, 9)
        TRAINC_XPULP_PV(1, 0x4c, x6, x5, x13) TRAINC_XPULP_LWI(x5, 4, x10)
        TRAINC_XPULP_SCALAR(0, x6, x6, x0) "9: " TRAINC_XPULP_SCALAR(7, x11, x11, x6) ".option pop"
        : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13) : "x5", "x6", "memory");
    return x11;
#else
    for (int32_t i = 0; i < count; i++) {
        const uint32_t sum = trainc_xpulp_dotsp_b(trainc_xpulp_load(lanes + 4 * i), row);
        most = trainc_xpulp_abs(sum) > most ? trainc_xpulp_abs(sum) : most;
    }
    return most;
#endif
}

/* The largest magnitudes of all lanes' bytes, by images. */
static inline uint32_t trainc_xpulp_outer_lanes(const struct trainc_xpulp_outer *work)
{
    uint32_t most = 0;
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = work->lanes;
    register uint32_t x11 __asm__("x11") = most;
    register int32_t x12 __asm__("x12") = work->lane_count;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LOOP(0, 12, 9)
        TRAINC_XPULP_PV(1, 0x38, x6, x5, x0) TRAINC_XPULP_LWI(x5, 4, x10)
        "9: " TRAINC_XPULP_PV(1, 0x1c, x11, x11, x6) ".option pop"
        : "+r"(x10), "+r"(x11) : "r"(x12) : "x5", "x6", "memory");
    return x11;
#else
    for (int32_t i = 0; i < work->lane_count; i++) {
        most = trainc_xpulp_maxu_b(most,
            trainc_xpulp_magnitudes_of(trainc_xpulp_load(work->lanes + 4 * i)));
    }
    return most;
#endif
}

/* What no magnitude of a row's sums exceeds. */
static inline uint32_t trainc_xpulp_outer_bound(const struct trainc_xpulp_outer *work, int32_t n,
    uint32_t lanes)
{
    return trainc_xpulp_dotup_b(
        trainc_xpulp_magnitudes_of(trainc_xpulp_load(work->rows + 4 * n)), lanes);
}

/* What no magnitude of some parts' sums exceeds, with as many bits as the largest of them has: sums of a
 * row whose bound has no more bits than those so far are not worked out. The row with the largest bound
 * comes first. */
static inline void trainc_xpulp_outer_widths(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_outer *const work = (const struct trainc_xpulp_outer *)context;
    const int32_t first = trainc_xpulp_outer_first(work, begin, work->row_count);
    const int32_t behind = trainc_xpulp_outer_first(work, end, work->row_count);
    trainc_xpulp_outer_divide(work, begin, end);
    const uint32_t lanes = trainc_xpulp_outer_lanes(work);
    uint32_t largest = 0, most = 0;
    int32_t start = first;
    for (int32_t n = first; n < behind; n++) {
        const uint32_t bound = trainc_xpulp_outer_bound(work, n, lanes);
        if (bound > largest) {
            largest = bound;
            start = n;
        }
    }
    for (int32_t left = behind - first, n = start; left > 0; left--) {
        uint32_t bound = trainc_xpulp_outer_bound(work, n, lanes);
        if ((bound & ~most) > most) {
            bound = trainc_xpulp_outer_largest(trainc_xpulp_load(work->rows + 4 * n), work->lanes,
                work->lane_count);
        }
        most = bound > most ? bound : most;
        n = n + 1 < behind ? n + 1 : first;
    }
    for (int32_t part = begin; part < end; part++) {
        work->widths[part] = most;
    }
}

#if defined(TRAINC_XPULP_INSN)
/* Two magnitudes of at most 15 bits in y, rounded as one number of 32 bits: above the lower one lie
 * bits of the other. x29 is free. As TRAINC_XPULP_UP does it. */
#define TRAINC_XPULP_PAIR_HALF_AWAY(y) TRAINC_XPULP_ADDU_SHIFT(y, x30, x15)
#define TRAINC_XPULP_PAIR_PSEUDO_STOCHASTIC(y) TRAINC_XPULP_UP(y, x29, x30)
/* What all take: x12 counts words. */
#define TRAINC_XPULP_PAIR_REGISTERS(words, to, r, mask, lift, carry, x30_is) \
    register int8_t *x11 __asm__("x11") = (to); \
    register int32_t x12 __asm__("x12") = (words); \
    register uint32_t x14 __asm__("x14") = (mask); \
    register int32_t x15 __asm__("x15") = (r)->shift; \
    register uint32_t x16 __asm__("x16") = (lift); \
    register uint32_t x17 __asm__("x17") = (carry) * 0x10001; \
    register uint32_t x19 __asm__("x19") = 0x06040200; \
    register uint32_t x30 __asm__("x30") = (x30_is) * 0x10001
/* Worked out before the registers are taken, which a call would change. */
#define TRAINC_XPULP_PAIR_NUMBERS(r) \
    const uint32_t mask = trainc_xpulp_pair_mask(r), lift = trainc_xpulp_lift(r); \
    const uint32_t carry = trainc_xpulp_carry(r)
#define TRAINC_XPULP_PAIR_OPERANDS \
    "r"(x12), "r"(x13), "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19), "r"(x30)
/* Two pairs of products, of lanes' magnitudes, in x5 and x6, and signs in x7. */
#define TRAINC_XPULP_SINGLE_PAIRS \
    TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_LWI(x7, 4, x20) \
    "mul x5, x5, x13\n\tmul x6, x6, x13\n\t"
/* Two pairs of sums' magnitudes in x6 and x28, and the sums in x5 and x7. */
#define TRAINC_XPULP_OUTER_PAIRS \
    TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) \
    TRAINC_XPULP_LWI(x7, 4, x10) TRAINC_XPULP_LWI(x28, 4, x10) \
    TRAINC_XPULP_PV(1, 0x4c, x5, x5, x13) TRAINC_XPULP_PV(1, 0x4c, x6, x6, x13) \
    TRAINC_XPULP_PV(1, 0x4c, x7, x7, x13) TRAINC_XPULP_PV(1, 0x4c, x28, x28, x13) \
    TRAINC_XPULP_PAIRS_OF_SUMS
/* Four lanes at a time of products of at most 15 bits; one multiplication makes two magnitudes: 17
 * instructions, or 13. */
#define TRAINC_XPULP_SINGLE_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_single_##name(int32_t row, const uint16_t *magnitudes, \
        const int8_t *signs, int32_t words, const struct trainc_xpulp_rounding *r, int8_t *to) \
    { \
        const uint32_t magnitude = trainc_xpulp_abs((uint32_t)row); \
        TRAINC_XPULP_PAIR_NUMBERS(r); \
        register const uint16_t *x10 __asm__("x10") = magnitudes; \
        register uint32_t x13 __asm__("x13") = magnitude; \
        register int32_t x18 __asm__("x18") = row >> 31; \
        register const int8_t *x20 __asm__("x20") = signs; \
        TRAINC_XPULP_PAIR_REGISTERS(words, to, r, mask, lift, carry, x30_is); \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
            TRAINC_XPULP_SINGLE_PAIRS round(x5) round(x6) \
            TRAINC_XPULP_JOIN(x5, x6) "xor x7, x7, x18\n\t" TRAINC_XPULP_WITH_SIGNS(x5, x7) \
            "9: " TRAINC_XPULP_SWI(x5, 4, x11) ".option pop" \
            : "+r"(x10), "+r"(x11), "+r"(x20) : TRAINC_XPULP_PAIR_OPERANDS \
            : "x5", "x6", "x7", "x29", "memory"); \
    }
/* Four lanes at a time of sums of at most 15 bits; 25 instructions, or 21. */
#define TRAINC_XPULP_OUTER_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_outer_##name(uint32_t row, const int8_t *lanes, \
        int32_t words, const struct trainc_xpulp_rounding *r, int8_t *to) \
    { \
        TRAINC_XPULP_PAIR_NUMBERS(r); \
        register const int8_t *x10 __asm__("x10") = lanes; \
        register uint32_t x13 __asm__("x13") = row; \
        register uint32_t x18 __asm__("x18") = 0x07050301; \
        TRAINC_XPULP_PAIR_REGISTERS(words, to, r, mask, lift, carry, x30_is); \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) \
            TRAINC_XPULP_OUTER_PAIRS round(x6) round(x28) TRAINC_XPULP_JOIN(x6, x28) \
            TRAINC_XPULP_OUTER_SIGNS TRAINC_XPULP_WITH_SIGNS(x6, x5) \
            "9: " TRAINC_XPULP_SWI(x6, 4, x11) ".option pop" \
            : "+r"(x10), "+r"(x11) : TRAINC_XPULP_PAIR_OPERANDS \
            : "x5", "x6", "x7", "x28", "x29", "memory"); \
    }
#else
#define TRAINC_XPULP_SINGLE_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_single_##name(int32_t row, const uint16_t *magnitudes, \
        const int8_t *signs, int32_t words, const struct trainc_xpulp_rounding *r, int8_t *to) \
    { \
        for (int32_t i = 0; i < 4 * words; i++) { \
            const int32_t product = (int32_t)magnitudes[i] * row; \
            to[i] = trainc_xpulp_##name(signs[i] < 0 ? -product : product, r); \
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

/* A row's sums from lane i on, one after the other, of a single image or more. */
static inline void trainc_xpulp_outer_some(const struct trainc_xpulp_outer *work, uint32_t row,
    int32_t i, int32_t count, int32_t *sums)
{
    if (work->images > 1) {
        trainc_xpulp_outer_sums(row, work->lanes + 4 * i, count, sums);
        return;
    }
    for (int32_t n = 0; n < count; n++) {
        sums[n] = (int32_t)row * work->lanes[i + n];
    }
}

static inline int32_t trainc_xpulp_outer_pairs(const struct trainc_xpulp_outer *work)
{
    return trainc_xpulp_rounds_pairs(work->most, work->rounding.shift);
}

/* A row, of which 64 sums at a time are kept where pairs are not rounded; and some parts. The last
 * lanes of a row overlap others. */
#define TRAINC_XPULP_OUTER(name, round, x30_is) \
    TRAINC_XPULP_SINGLE_ROW(name, round, x30_is) \
    TRAINC_XPULP_OUTER_ROW(name, round, x30_is) \
    static inline void trainc_xpulp_outer_words_##name(const struct trainc_xpulp_outer *work, \
        uint32_t row, int32_t i, int32_t words, int8_t *to) \
    { \
        if (work->images == 1) { \
            trainc_xpulp_single_##name((int32_t)row, work->magnitudes + i, work->signs + i, words, \
                &work->rounding, to + i); \
        } else { \
            trainc_xpulp_outer_##name(row, work->lanes + 4 * i, words, &work->rounding, to + i); \
        } \
    } \
    static inline void trainc_xpulp_outer_row_##name(const struct trainc_xpulp_outer *work, \
        uint32_t row, int8_t *to) \
    { \
        const int32_t lanes = work->lane_count; \
        if (trainc_xpulp_outer_pairs(work) && lanes >= 4) { \
            for (int32_t i = 0; i < lanes; i = i == 0 && (lanes & 3) != 0 ? lanes - 4 : lanes) { \
                trainc_xpulp_outer_words_##name(work, row, i, i == 0 ? lanes >> 2 : 1, to); \
            } \
            return; \
        } \
        int32_t sums[65]; \
        sums[64] = 0; \
        for (int32_t i = 0; i < lanes; i += 64) { \
            const int32_t count = trainc_minimum32(lanes - i, 64); \
            trainc_xpulp_outer_some(work, row, i, count, sums); \
            sums[count] = 0; \
            trainc_xpulp_row_##name(sums, to + i, count, &work->rounding); \
        } \
    } \
    static inline void trainc_xpulp_store_outer_##name(void *context, int32_t begin, int32_t end) \
    { \
        const struct trainc_xpulp_outer *const work = (const struct trainc_xpulp_outer *)context; \
        const int32_t behind = trainc_xpulp_outer_begin(work, end); \
        for (int32_t n = trainc_xpulp_outer_begin(work, begin); n < behind; n++) { \
            const uint32_t row = trainc_xpulp_outer_factor(work, n); \
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
