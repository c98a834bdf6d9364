/* 8-bit integers of the sums of products, rounded as an algorithm asks. */
#ifndef TRAINC_XPULP_ROUNDING_H
#define TRAINC_XPULP_ROUNDING_H

#include "trainc_xpulp_products.h"

/* How many of a word's bytes are not 0. */
static inline int32_t trainc_xpulp_counting(const int8_t *at)
{
    const uint32_t ones = 0x01010101;
    return (int32_t)trainc_xpulp_dotup_b(trainc_xpulp_minu_b(trainc_xpulp_load(at), ones), ones);
}

/* The largest of some magnitudes. */
static inline uint32_t trainc_xpulp_largest_of(const uint32_t *magnitudes, int32_t count)
{
    uint32_t largest = 0;
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN) && !defined(__OPTIMIZE_SIZE__)
    /* There may be hundreds, which one core takes: two instructions each. */
    if (count > 3) {
        register const uint32_t *x10 __asm__("x10") = magnitudes;
        register int32_t x12 __asm__("x12") = count >> 1;
        register uint32_t x13 __asm__("x13") = 0;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            TRAINC_XPULP_SCALAR(7, x13, x13, x5) "9: " TRAINC_XPULP_SCALAR(7, x13, x13, x6)
            ".option pop"
            : "+r"(x10), "+r"(x13) : "r"(x12) : "x5", "x6", "memory");
        largest = x13;
        i = count & ~1;
    }
#endif
    for (; i < count; i++) {
        largest = trainc_xpulp_maxu(largest, magnitudes[i]);
    }
    return largest;
}

/* The largest magnitude of some sums. */
static inline uint32_t trainc_xpulp_largest_sum(const int32_t *from, int32_t count)
{
    uint32_t largest = 0;
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count > 1) {
        register const int32_t *x10 __asm__("x10") = from;
        register int32_t x12 __asm__("x12") = count >> 1;
        register uint32_t x13 __asm__("x13") = 0;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            TRAINC_XPULP_SCALAR(0, x5, x5, x0) TRAINC_XPULP_SCALAR(0, x6, x6, x0)
            TRAINC_XPULP_SCALAR(7, x13, x13, x5)
            "9: " TRAINC_XPULP_SCALAR(7, x13, x13, x6) ".option pop"
            : "+r"(x10), "+r"(x13) : "r"(x12) : "x5", "x6", "memory");
        largest = x13;
        i = count & ~1;
    }
#endif
    for (; i < count; i++) {
        largest = trainc_xpulp_maxu(largest, trainc_xpulp_abs((uint32_t)from[i]));
    }
    return largest;
}

/* A right shift of sums and the range of its results: low to 127. */
struct trainc_xpulp_rounding {
    int32_t shift, low;
    /* Half a unit; or of what is shifted out, bits of the lower half, their masks, and how much
     * shorter the lower half is. */
    uint32_t unit;
    int32_t half, odd;
    uint32_t low_mask, high_mask;
    /* Whether shifted magnitudes are known to have at most 7 bits, and to have these when they are
     * rounded, too. */
    int32_t fits, stays;
    /* Whether these are sums of at most 15 bits, of which pairs can be rounded. */
    int32_t pairs;
};

/* Whether pairs can be rounded: sums have at most 15 bits, and results, rounded up, at most 7. */
static inline int32_t trainc_xpulp_rounds_pairs(uint32_t largest, int32_t shift)
{
    return largest < 0x8000 && shift < 16 && largest >> shift < 127;
}

/* For a shift by any amount from 0 on: from 64 bits on, all is as it is by 64. */
static inline struct trainc_xpulp_rounding trainc_xpulp_rounding(int64_t amount, int32_t low)
{
    struct trainc_xpulp_rounding r;
    r.shift = amount < 64 ? (int32_t)amount : 64;
    r.low = low;
    r.unit = r.shift > 0 && r.shift <= 32 ? UINT32_C(1) << (r.shift - 1) : 0;
    r.half = r.shift >> 1;
    r.odd = r.shift & 1;
    r.low_mask = r.half < 32 ? (UINT32_C(1) << r.half) - 1 : UINT32_MAX;
    r.high_mask = r.shift - r.half < 32 ? (UINT32_C(1) << (r.shift - r.half)) - 1 : UINT32_MAX;
    r.fits = 0;
    r.stays = 0;
    r.pairs = 0;
    return r;
}

/* The same for sums whose magnitudes have so many bits. */
static inline struct trainc_xpulp_rounding trainc_xpulp_rounding_of(int64_t amount, int32_t low,
    int64_t width)
{
    struct trainc_xpulp_rounding r = trainc_xpulp_rounding(amount, low);
    r.fits = width - amount <= 7;
    return r;
}

/* Of sums of products whose largest magnitude is given: to magnitudes of so many bits, and the
 * exponent of the results. */
static inline struct trainc_xpulp_rounding trainc_xpulp_narrowed(uint32_t largest, int32_t bits,
    int32_t low, const int32_t *x0_exponent, const int32_t *x1_exponent, int32_t *y_exponent)
{
    const int64_t width = 32 - trainc_leading_zeros((int32_t)largest);
    const int64_t shift = trainc_maximum64(width - bits, 0);
    y_exponent[0] = trainc_add32(trainc_add32(x0_exponent[0], x1_exponent[0]), (int32_t)shift);
    struct trainc_xpulp_rounding r = trainc_xpulp_rounding_of(shift, low, width);
    r.stays = r.shift < 32 && (largest + r.unit) >> r.shift <= 127;
#if !defined(__OPTIMIZE_SIZE__)
    r.pairs = low == -127 && trainc_xpulp_rounds_pairs(largest, r.shift);
#endif
    return r;
}

/* The bits of rounded magnitudes in bytes: none of those that a pair's upper half leaves. */
static inline uint32_t trainc_xpulp_pair_mask(const struct trainc_xpulp_rounding *r)
{
    return 0x01010101 * (r->shift > 8 ? (UINT32_C(1) << (16 - r->shift)) - 1 : 255);
}

/* For a shift by less than 32 bits: from the lower half of what is shifted out to the upper one, as a
 * factor; and a unit less that half's last bit. */
static inline uint32_t trainc_xpulp_lift(const struct trainc_xpulp_rounding *r)
{
    return UINT32_C(1) << (r->shift - r->half);
}

static inline uint32_t trainc_xpulp_carry(const struct trainc_xpulp_rounding *r)
{
    return (UINT32_C(1) << r->shift) - r->low_mask - 1;
}

static inline uint32_t trainc_xpulp_down(uint32_t m, int32_t by)
{
    return by < 32 ? m >> by : 0;
}

/* To nearest, ties away from zero. */
static inline int8_t trainc_xpulp_half_away(int32_t x, const struct trainc_xpulp_rounding *r)
{
    const uint32_t m = trainc_xpulp_abs((uint32_t)x);
    const uint32_t q = r->shift < 32 ? (m + r->unit) >> r->shift : (r->shift == 32 ? m >> 31 : 0);
    const int32_t y = (int32_t)(x < 0 ? 0 - q : q);
    return (int8_t)trainc_maximum32(trainc_minimum32(y, 127), r->low);
}

/* Up if the upper half of the bits that are shifted out exceeds the lower half (doubled if it is a
 * bit shorter). */
static inline int8_t trainc_xpulp_pseudo_stochastic(int32_t x,
    const struct trainc_xpulp_rounding *r)
{
    const uint32_t m = trainc_xpulp_abs((uint32_t)x);
    const uint32_t upper = trainc_xpulp_down(m, r->half) & r->high_mask;
    const uint32_t lower = (m & r->low_mask) << r->odd;
    const uint32_t q = trainc_xpulp_down(m, r->shift) + (lower < upper);
    const int32_t y = (int32_t)(x < 0 ? 0 - q : q);
    return (int8_t)trainc_maximum32(trainc_minimum32(y, 127), r->low);
}

/* Rows of results: those of `sums` [matrices][rows and those that fill up][lanes likewise]. */
struct trainc_xpulp_results {
    int32_t *sums;
    int32_t rows, all_rows, lanes, all_lanes;
    void *y;
    /* Of a phase: elements of a row, of a plane of the result before the first of them, of that
     * plane, from a row to the next, and in a row. */
    int32_t columns, first, plane, down, right;
    struct trainc_xpulp_rounding rounding;
};

static inline int32_t *trainc_xpulp_result_row(const struct trainc_xpulp_results *work,
    int32_t n)
{
    const int32_t matrix = n / work->rows;
    return work->sums + (matrix * work->all_rows + n - matrix * work->rows) * work->all_lanes;
}

/* Some rows of 32-bit results. */
static inline void trainc_xpulp_store_sums(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_results *const work = (const struct trainc_xpulp_results *)context;
    for (int32_t n = begin; n < end; n++) {
        const int32_t *const from = trainc_xpulp_result_row(work, n);
        int32_t *const to = (int32_t *)work->y + n * work->lanes;
        for (int32_t i = 0; i < work->lanes; i++) {
            to[i] = from[i];
        }
    }
}

#if defined(TRAINC_XPULP_INSN)
/* The sum in x5 is replaced by the next one; its magnitude in x6 and its sign in x7. */
#define TRAINC_XPULP_NEXT \
    TRAINC_XPULP_SCALAR(0, x6, x5, x0) "srai x7, x5, 31\n\t" TRAINC_XPULP_LWI(x5, 4, x10)
/* The rounded magnitude in x6 with its sign: within the range; where that is -127 to 127. */
#define TRAINC_XPULP_WITHIN \
    "xor x6, x6, x7\n\tsub x6, x6, x7\n\t" \
    TRAINC_XPULP_SCALAR(4, x6, x6, x13) TRAINC_XPULP_SCALAR(6, x6, x6, x14)
#define TRAINC_XPULP_WITHIN_127 \
    TRAINC_XPULP_SCALAR(5, x6, x6, x13) "xor x6, x6, x7\n\tsub x6, x6, x7\n\t"
#define TRAINC_XPULP_ROUND(each, ...) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LWI(x5, 4, x10) \
        TRAINC_XPULP_LOOP(0, 12, 9) each "9: " TRAINC_XPULP_SBI(x6, 1, x11) ".option pop" \
        : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), "r"(x14), "r"(x15), __VA_ARGS__ \
        : "x5", "x6", "x7", "x28", "x29", "memory")
#define TRAINC_XPULP_ROUND_ROW(from, to, count, r) \
    register const int32_t *x10 __asm__("x10") = (from); \
    register int8_t *x11 __asm__("x11") = (to); \
    register int32_t x12 __asm__("x12") = (count); \
    register int32_t x13 __asm__("x13") = 127; \
    register int32_t x14 __asm__("x14") = (r)->low; \
    register int32_t x15 __asm__("x15") = (r)->shift
#define TRAINC_XPULP_HALF_AWAY "add x6, x6, x16\n\tsrl x6, x6, x15\n\t"
/* The lower half of the bits that are shifted out is subtracted at the upper one's place, where a
 * unit less that half's last bit is added: that carries where the difference of both is above 0. x16
 * is the power of two that lifts it, x17 what is added, x15 the shift. */
#define TRAINC_XPULP_UP(m, lower, mask) \
    "and " #lower ", " #m ", " #mask "\n\t" TRAINC_XPULP_MSU(m, lower, x16) \
    TRAINC_XPULP_ADDU_SHIFT(m, x17, x15)

/* Four sums in x5, x6, x7 and x28 become bytes in x5; the rest of a round. */
#define TRAINC_XPULP_FOUR \
    TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_LWI(x7, 4, x10) \
    TRAINC_XPULP_LWI(x28, 4, x10)
#define TRAINC_XPULP_QUADS(each, ...) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) TRAINC_XPULP_FOUR each \
        "9: " TRAINC_XPULP_SWI(x5, 4, x11) ".option pop" \
        : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), __VA_ARGS__ \
        : "x5", "x6", "x7", "x9", "x28", "x29", "x30", "x31", "memory")
#define TRAINC_XPULP_QUADS_OF(from, to, quads, x13_is, r) \
    register const int32_t *x10 __asm__("x10") = (from); \
    register int8_t *x11 __asm__("x11") = (to); \
    register int32_t x12 __asm__("x12") = (quads); \
    register uint32_t x13 __asm__("x13") = (x13_is); \
    register int32_t x15 __asm__("x15") = (r)->shift

/* Half a unit is added by the shift itself, below zero one less: 19 instructions. Clamped before,
 * to 127 units, nothing exceeds 32 bits. Of non-negative results, or where none has to be clamped: 15
 * instructions; where both is so, 12, as a tie below zero does not count. */
static inline void trainc_xpulp_quads_half_away(const int32_t *from, int8_t *to, int32_t quads,
    const struct trainc_xpulp_rounding *r)
{
    TRAINC_XPULP_QUADS_OF(from, to, quads, UINT32_C(127) << r->shift, r);
    if (r->low == 0 && r->stays) {
        TRAINC_XPULP_QUADS(TRAINC_XPULP_ADD_ROUND(x5, x0, x15) TRAINC_XPULP_ADD_ROUND(x6, x0, x15)
            TRAINC_XPULP_ADD_ROUND(x7, x0, x15) TRAINC_XPULP_ADD_ROUND(x28, x0, x15)
            TRAINC_XPULP_BYTES(x5, x5, x6, x7, x28) TRAINC_XPULP_PV(5, 0x18, x5, x5, x0), "r"(x15));
        return;
    }
    if (r->low == 0) {
        TRAINC_XPULP_QUADS(TRAINC_XPULP_CLIPU(x5, x5, x13) TRAINC_XPULP_CLIPU(x6, x6, x13)
            TRAINC_XPULP_CLIPU(x7, x7, x13) TRAINC_XPULP_CLIPU(x28, x28, x13)
            TRAINC_XPULP_ADDU_ROUND(x5, x0, x15) TRAINC_XPULP_ADDU_ROUND(x6, x0, x15)
            TRAINC_XPULP_ADDU_ROUND(x7, x0, x15) TRAINC_XPULP_ADDU_ROUND(x28, x0, x15)
            TRAINC_XPULP_BYTES(x5, x5, x6, x7, x28), "r"(x15));
        return;
    }
#define TRAINC_XPULP_QUAD_AWAY \
    "srai x29, x5, 31\n\tsrai x30, x6, 31\n\tsrai x31, x7, 31\n\tsrai x9, x28, 31\n\t" \
    TRAINC_XPULP_ADD_ROUND(x5, x29, x15) TRAINC_XPULP_ADD_ROUND(x6, x30, x15) \
    TRAINC_XPULP_ADD_ROUND(x7, x31, x15) TRAINC_XPULP_ADD_ROUND(x28, x9, x15) \
    TRAINC_XPULP_BYTES(x5, x5, x6, x7, x28)
    if (r->stays) {
        TRAINC_XPULP_QUADS(TRAINC_XPULP_QUAD_AWAY, "r"(x15));
        return;
    }
    TRAINC_XPULP_QUADS(TRAINC_XPULP_CLIPR(x5, x5, x13) TRAINC_XPULP_CLIPR(x6, x6, x13)
        TRAINC_XPULP_CLIPR(x7, x7, x13) TRAINC_XPULP_CLIPR(x28, x28, x13) TRAINC_XPULP_QUAD_AWAY,
        "r"(x15));
#undef TRAINC_XPULP_QUAD_AWAY
}

/* Two pairs of sums' magnitudes in x6 and x28, and the sums in x5 and x7, of four sums. */
#define TRAINC_XPULP_PAIRS_OF_SUMS \
    TRAINC_XPULP_PV(0, 0x68, x5, x6, x5) TRAINC_XPULP_PV(0, 0x68, x7, x28, x7) \
    TRAINC_XPULP_PV(0, 0x38, x6, x5, x0) TRAINC_XPULP_PV(0, 0x38, x28, x7, x0)
/* The signs of those sums, in all bits of a byte of x5. */
#define TRAINC_XPULP_OUTER_SIGNS \
    TRAINC_XPULP_PV(1, 0x64, x5, x7, x18) TRAINC_XPULP_PV(7, 0x25, x5, x5, x3)
/* Two pairs of rounded magnitudes as bytes in x; with signs, in all bits of a byte. */
#define TRAINC_XPULP_JOIN(x, y) TRAINC_XPULP_PV(1, 0x64, x, y, x19) "and " #x ", " #x ", x14\n\t"
#define TRAINC_XPULP_WITH_SIGNS(x, signs) \
    "xor " #x ", " #x ", " #signs "\n\t" TRAINC_XPULP_PV(1, 0x04, x, x, signs)

/* Magnitudes of x5, x6, x7 and x28 in x29, x30, x31 and x9; the former become their upper bytes, in
 * x5: signs, with x14 as the lanes 3 and 7, twice. */
#define TRAINC_XPULP_MAGNITUDES \
    TRAINC_XPULP_SCALAR(0, x29, x5, x0) TRAINC_XPULP_SCALAR(0, x30, x6, x0) \
    TRAINC_XPULP_SCALAR(0, x31, x7, x0) TRAINC_XPULP_SCALAR(0, x9, x28, x0) \
    TRAINC_XPULP_PV(1, 0x64, x5, x6, x14) TRAINC_XPULP_PV(1, 0x64, x7, x28, x14) \
    TRAINC_XPULP_PV(0, 0x68, x5, x7, x5) TRAINC_XPULP_PV(7, 0x25, x5, x5, x3)
/* Magnitudes in x6, and signs. */
#define TRAINC_XPULP_SIGNED \
    TRAINC_XPULP_PV(5, 0x14, x6, x6, x13) "xor x6, x6, x5\n\t" TRAINC_XPULP_PV(1, 0x04, x5, x6, x5)

/* Of shifted magnitudes that are bytes: 30 instructions. */
static inline void trainc_xpulp_quads_pseudo_stochastic(const int32_t *from, int8_t *to,
    int32_t quads, const struct trainc_xpulp_rounding *r)
{
    /* Before the registers are taken: a call would change them. */
    const uint32_t lift = trainc_xpulp_lift(r), carry = trainc_xpulp_carry(r);
    TRAINC_XPULP_QUADS_OF(from, to, quads, 127, r);
    register uint32_t x14 __asm__("x14") = 0x07030703;
    register uint32_t x16 __asm__("x16") = lift;
    register uint32_t x17 __asm__("x17") = carry;
    register uint32_t x20 __asm__("x20") = r->low_mask;
    TRAINC_XPULP_QUADS(TRAINC_XPULP_MAGNITUDES TRAINC_XPULP_UP(x29, x7, x20)
        TRAINC_XPULP_UP(x30, x28, x20) TRAINC_XPULP_UP(x31, x7, x20) TRAINC_XPULP_UP(x9, x28, x20)
        TRAINC_XPULP_BYTES(x6, x29, x30, x31, x9) TRAINC_XPULP_SIGNED,
        "r"(x15), "r"(x14), "r"(x16), "r"(x17), "r"(x20));
}

#if !defined(__OPTIMIZE_SIZE__)
/* Of sums of at most 15 bits, by pairs: 21 instructions. */
static inline void trainc_xpulp_pairs_pseudo_stochastic(const int32_t *from, int8_t *to,
    int32_t quads, const struct trainc_xpulp_rounding *r)
{
    const uint32_t lift = trainc_xpulp_lift(r), carry = trainc_xpulp_carry(r) * 0x10001;
    const uint32_t mask = trainc_xpulp_pair_mask(r);
    TRAINC_XPULP_QUADS_OF(from, to, quads, 0x06040200, r);
    register uint32_t x14 __asm__("x14") = mask;
    register uint32_t x16 __asm__("x16") = lift;
    register uint32_t x17 __asm__("x17") = carry;
    register uint32_t x18 __asm__("x18") = 0x07050301;
    register uint32_t x19 __asm__("x19") = x13;
    register uint32_t x20 __asm__("x20") = r->low_mask * 0x10001;
    TRAINC_XPULP_QUADS(TRAINC_XPULP_PAIRS_OF_SUMS TRAINC_XPULP_UP(x6, x29, x20)
        TRAINC_XPULP_UP(x28, x29, x20) TRAINC_XPULP_JOIN(x6, x28) TRAINC_XPULP_OUTER_SIGNS
        "xor x6, x6, x5\n\t" TRAINC_XPULP_PV(1, 0x04, x5, x6, x5),
        "r"(x15), "r"(x14), "r"(x16), "r"(x17), "r"(x18), "r"(x19), "r"(x20));
}
#endif

/* A row of results; a word behind the sums is read, too. */
static inline void trainc_xpulp_row_half_away(const int32_t *from, int8_t *to, int32_t count,
    const struct trainc_xpulp_rounding *r)
{
    if (count >= 4 && r->shift > 1 && r->shift <= 24 && (r->low == 0 || r->low == -127)) {
        trainc_xpulp_quads_half_away(from, to, count >> 2, r);
        if ((count & 3) != 0) {
            /* The last four overlap others: in place, too, where sums lie further on than bytes. */
            trainc_xpulp_quads_half_away(from + count - 4, to + count - 4, 1, r);
        }
        return;
    }
    if (r->shift < 32) {
        TRAINC_XPULP_ROUND_ROW(from, to, count, r);
        register uint32_t x16 __asm__("x16") = r->unit;
        if (r->low == 0) {
            /* Negative sums are 0. */
            TRAINC_XPULP_ROUND(TRAINC_XPULP_SCALAR(6, x6, x5, x0) TRAINC_XPULP_LWI(x5, 4, x10)
                TRAINC_XPULP_HALF_AWAY TRAINC_XPULP_SCALAR(5, x6, x6, x13), "r"(x16));
            return;
        }
        TRAINC_XPULP_ROUND(TRAINC_XPULP_NEXT TRAINC_XPULP_HALF_AWAY TRAINC_XPULP_WITHIN, "r"(x16));
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = trainc_xpulp_half_away(from[i], r);
    }
}

static inline void trainc_xpulp_row_pseudo_stochastic(const int32_t *from, int8_t *to,
    int32_t count, const struct trainc_xpulp_rounding *r)
{
#if !defined(__OPTIMIZE_SIZE__)
    if (count >= 4 && r->pairs) {
        trainc_xpulp_pairs_pseudo_stochastic(from, to, count >> 2, r);
        if ((count & 3) != 0) {
            trainc_xpulp_pairs_pseudo_stochastic(from + count - 4, to + count - 4, 1, r);
        }
        return;
    }
#endif
    if (count >= 4 && r->shift > 0 && r->shift < 32 && r->fits != 0 && r->low == -127) {
        trainc_xpulp_quads_pseudo_stochastic(from, to, count >> 2, r);
        if ((count & 3) != 0) {
            trainc_xpulp_quads_pseudo_stochastic(from + count - 4, to + count - 4, 1, r);
        }
        return;
    }
    if (r->shift < 32) {
        const uint32_t lift = trainc_xpulp_lift(r), carry = trainc_xpulp_carry(r);
        TRAINC_XPULP_ROUND_ROW(from, to, count, r);
        register uint32_t x16 __asm__("x16") = lift;
        register uint32_t x17 __asm__("x17") = carry;
        register uint32_t x30 __asm__("x30") = r->low_mask;
        if (r->low == -127) {
            TRAINC_XPULP_ROUND(TRAINC_XPULP_NEXT TRAINC_XPULP_UP(x6, x28, x30)
                TRAINC_XPULP_WITHIN_127, "r"(x16), "r"(x17), "r"(x30));
            return;
        }
        TRAINC_XPULP_ROUND(TRAINC_XPULP_NEXT TRAINC_XPULP_UP(x6, x28, x30) TRAINC_XPULP_WITHIN,
            "r"(x16), "r"(x17), "r"(x30));
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        to[i] = trainc_xpulp_pseudo_stochastic(from[i], r);
    }
}
#else
static inline void trainc_xpulp_row_half_away(const int32_t *from, int8_t *to, int32_t count,
    const struct trainc_xpulp_rounding *r)
{
    for (int32_t i = 0; i < count; i++) {
        to[i] = trainc_xpulp_half_away(from[i], r);
    }
}

static inline void trainc_xpulp_row_pseudo_stochastic(const int32_t *from, int8_t *to,
    int32_t count, const struct trainc_xpulp_rounding *r)
{
    for (int32_t i = 0; i < count; i++) {
        to[i] = trainc_xpulp_pseudo_stochastic(from[i], r);
    }
}
#endif

/* How many rows go in one, of so many that a core takes: all where nothing fills them up and one core
 * has them, for others share rows that are long; short code has no such rows. */
static inline int32_t trainc_xpulp_rows_in_one(const struct trainc_xpulp_results *work, int32_t rows)
{
#if defined(__OPTIMIZE_SIZE__)
    (void)work;
    (void)rows;
    return 1;
#else
    return work->rows == work->all_rows && work->lanes == work->all_lanes
        ? TRAINC_DIVIDED(1, rows)
        : 1;
#endif
}

/* Some rows of 8-bit results. */
static inline void trainc_xpulp_store_half_away(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_results *const work = (const struct trainc_xpulp_results *)context;
    const int32_t step = trainc_xpulp_rows_in_one(work, end - begin);
    for (int32_t n = begin; n < end; n += step) {
        trainc_xpulp_row_half_away(trainc_xpulp_result_row(work, n),
            (int8_t *)work->y + n * work->lanes, step * work->lanes, &work->rounding);
    }
}

static inline void trainc_xpulp_store_pseudo_stochastic(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_results *const work = (const struct trainc_xpulp_results *)context;
    const int32_t step = trainc_xpulp_rows_in_one(work, end - begin);
    for (int32_t n = begin; n < end; n += step) {
        trainc_xpulp_row_pseudo_stochastic(trainc_xpulp_result_row(work, n),
            (int8_t *)work->y + n * work->lanes, step * work->lanes, &work->rounding);
    }
}

/* A row of a phase, of 32-bit results, and of 8-bit results. */
#define TRAINC_XPULP_PLACE(name, type) \
    static inline void name(const struct trainc_xpulp_results *work, int32_t n, const type *from) \
    { \
        type *row = (type *)work->y + n * work->plane + work->first; \
        for (int32_t i = 0; i < work->lanes; i += work->columns, row += work->down) { \
            type *to = row; \
            for (int32_t column = 0; column < work->columns; column++, to += work->right) { \
                *to = *from++; \
            } \
        } \
    }
TRAINC_XPULP_PLACE(trainc_xpulp_place_words, int32_t)
#if defined(TRAINC_XPULP_INSN)
/* Lines of pairs of bytes, and of one more. */
#define TRAINC_XPULP_PLACE_LINES(more) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 12, 8) TRAINC_XPULP_LOOP(0, 13, 9) \
        TRAINC_XPULP_LBI(x5, 1, x10) TRAINC_XPULP_LBI(x6, 1, x10) TRAINC_XPULP_SB(x5, x14, x11) \
        "9: " TRAINC_XPULP_SB(x6, x14, x11) more "8: add x11, x11, x15\n\t.option pop" \
        : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), "r"(x14), "r"(x15) : "x5", "x6", "memory")
static inline void trainc_xpulp_place_bytes(const struct trainc_xpulp_results *work, int32_t n,
    const int8_t *from)
{
    int8_t *to = (int8_t *)work->y + n * work->plane + work->first;
    if (work->columns == 1) {
        for (int32_t i = 0; i < work->lanes; i++, to += work->down) {
            *to = *from++;
        }
        return;
    }
    register const int8_t *x10 __asm__("x10") = from;
    register int8_t *x11 __asm__("x11") = to;
    register int32_t x12 __asm__("x12") = work->lanes / work->columns;
    register int32_t x13 __asm__("x13") = work->columns >> 1;
    register int32_t x14 __asm__("x14") = work->right;
    register int32_t x15 __asm__("x15") = work->down - work->columns * work->right;
    if ((work->columns & 1) != 0) {
        TRAINC_XPULP_PLACE_LINES(TRAINC_XPULP_LBI(x5, 1, x10) TRAINC_XPULP_SB(x5, x14, x11));
    } else {
        TRAINC_XPULP_PLACE_LINES("nop\n\t");
    }
}
#else
TRAINC_XPULP_PLACE(trainc_xpulp_place_bytes, int8_t)
#endif

static inline void trainc_xpulp_place_sums(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_results *const work = (const struct trainc_xpulp_results *)context;
    for (int32_t n = begin; n < end; n++) {
        trainc_xpulp_place_words(work, n, trainc_xpulp_result_row(work, n));
    }
}

/* Bytes lie where their sums were: of a row, each is written after its sum was read. */
#define TRAINC_XPULP_PLACE_ROUNDED(rounding_name) \
    static inline void trainc_xpulp_place_##rounding_name(void *context, int32_t begin, \
        int32_t end) \
    { \
        const struct trainc_xpulp_results *const work = \
            (const struct trainc_xpulp_results *)context; \
        for (int32_t n = begin; n < end; n++) { \
            int32_t *const row = trainc_xpulp_result_row(work, n); \
            trainc_xpulp_row_##rounding_name(row, (int8_t *)row, work->lanes, &work->rounding); \
            trainc_xpulp_place_bytes(work, n, (const int8_t *)row); \
        } \
    }
TRAINC_XPULP_PLACE_ROUNDED(half_away)
TRAINC_XPULP_PLACE_ROUNDED(pseudo_stochastic)

#endif
