/* Sums of bytes with two exponents, of which the operands are aligned and, where a sum does not fit
 * into a byte, all sums are divided by 4. */
#ifndef TRAINC_XPULP_SUM_H
#define TRAINC_XPULP_SUM_H

#include "trainc_xpulp_elements.h"

/* Lanes of bytes, and of halves. */
#define TRAINC_XPULP_BELOW(lane) (trainc_xpulp_u8(a, lane) < trainc_xpulp_u8(b, lane) ? 0xff : 0)
TRAINC_XPULP_TWO(below_b, TRAINC_XPULP_EACH(TRAINC_XPULP_BELOW),
    TRAINC_XPULP_EACH(TRAINC_XPULP_BELOW), (0x57, 1, 0x22), TRAINC_XPULP_EACH(TRAINC_XPULP_BELOW))
#define TRAINC_XPULP_HALVES(name, funct7, f) \
    TRAINC_XPULP_TWO(name, TRAINC_XPULP_BOTH(f), TRAINC_XPULP_BOTH(f), (0x57, 0, funct7), \
        TRAINC_XPULP_BOTH(f))
#define TRAINC_XPULP_BOTH(f) (((uint32_t)f(0) & 0xffff) | (uint32_t)f(1) << 16)
#define TRAINC_XPULP_ADD_H(lane) (trainc_xpulp_s16(a, lane) + trainc_xpulp_s16(b, lane))
#define TRAINC_XPULP_SUB_H(lane) (trainc_xpulp_s16(a, lane) - trainc_xpulp_s16(b, lane))
#define TRAINC_XPULP_MAX_H(lane) \
    (trainc_xpulp_s16(a, lane) > trainc_xpulp_s16(b, lane) ? trainc_xpulp_s16(a, lane) \
                                                           : trainc_xpulp_s16(b, lane))
#define TRAINC_XPULP_SLL_H(lane) \
    ((uint32_t)trainc_xpulp_s16(a, lane) << (trainc_xpulp_s16(b, lane) & 15))
#define TRAINC_XPULP_SRA_H(lane) (trainc_xpulp_s16(a, lane) >> (trainc_xpulp_s16(b, lane) & 15))
#define TRAINC_XPULP_SAME_H(lane) (trainc_xpulp_s16(a, lane) == trainc_xpulp_s16(b, lane) ? -1 : 0)
TRAINC_XPULP_HALVES(add_h, 0x00, TRAINC_XPULP_ADD_H)
TRAINC_XPULP_HALVES(sub_h, 0x04, TRAINC_XPULP_SUB_H)
TRAINC_XPULP_HALVES(max_h, 0x18, TRAINC_XPULP_MAX_H)
TRAINC_XPULP_HALVES(sra_h, 0x24, TRAINC_XPULP_SRA_H)
TRAINC_XPULP_HALVES(sll_h, 0x28, TRAINC_XPULP_SLL_H)
TRAINC_XPULP_HALVES(same_h, 0x02, TRAINC_XPULP_SAME_H)

/* The sum of a, which has the larger exponent, and b; the words in parts. */
struct trainc_xpulp_sum {
    const int8_t *a, *b;
    int8_t *y;
    int32_t count, parts;
    /* How far apart the exponents are, at most 16. */
    int32_t distance;
    /* Whether sums are divided by 4. */
    int32_t divides;
    /* Bits by parts: whether any sum exceeds 127. */
    uint32_t *exceeds;
};

/* Amounts and masks of a shift to the right by 2 to 16 of bytes, for each byte. */
struct trainc_xpulp_byte_shift {
    uint32_t shift, half, odd, mask, low_mask, high_mask;
};

static inline struct trainc_xpulp_byte_shift trainc_xpulp_byte_shift(int32_t distance)
{
    const uint32_t each = 0x01010101, d = (uint32_t)distance;
    struct trainc_xpulp_byte_shift s = { (d & 7) * each, (d >> 1 & 7) * each, (d & 1) * each,
        d < 8 ? 0xffffffff : 0, ((1u << (d >> 1 & 7)) - 1) * each,
        (((1u << (d - (d >> 1))) - 1) & 0xff) * each };
    if (d > 15) {
        s.low_mask = s.high_mask = 0;
    }
    return s;
}

/* Rounded up in magnitude if the upper half of the bits that are shifted out exceeds the lower. */
static inline uint32_t trainc_xpulp_shift_bytes(uint32_t b, struct trainc_xpulp_byte_shift s)
{
    const uint32_t m = trainc_xpulp_max_b(b, trainc_xpulp_sub_b(0, b));
    const uint32_t upper = trainc_xpulp_srl_b(m, s.half) & s.high_mask;
    const uint32_t lower = trainc_xpulp_sll_b(m & s.low_mask, s.odd);
    const uint32_t up = trainc_xpulp_below_b(lower, upper);
    const uint32_t q = trainc_xpulp_sub_b(trainc_xpulp_srl_b(m, s.shift) & s.mask, up);
    const uint32_t sign = trainc_xpulp_sra_b(b, 0x07070707);
    return trainc_xpulp_sub_b(q ^ sign, sign);
}

/* Two sums divided by 4; the remainder 2 is rounded up in magnitude. */
static inline uint32_t trainc_xpulp_quarter(uint32_t sum)
{
    const uint32_t m = trainc_xpulp_max_h(sum, trainc_xpulp_sub_h(0, sum));
    const uint32_t up = trainc_xpulp_same_h(m & 0x00030003, 0x00020002);
    const uint32_t q = trainc_xpulp_sub_h((m >> 2) & 0x3fff3fff, up);
    const uint32_t sign = trainc_xpulp_sra_h(sum, 0x000f000f);
    return trainc_xpulp_sub_h(q ^ sign, sign);
}

/* A word of a and of what is added to it. */
static inline void trainc_xpulp_sum_word(const struct trainc_xpulp_sum *work, int32_t i,
    uint32_t *a, uint32_t *b)
{
    if (i + 4 <= work->count) {
        *a = trainc_xpulp_load(work->a + i);
        *b = trainc_xpulp_load(work->b + i);
    } else {
        *a = trainc_xpulp_word(work->a, i, work->count);
        *b = trainc_xpulp_word(work->b, i, work->count);
    }
}

/* Words from begin up to end of sums that fit, as far as they do: up to the first that does not,
 * which gives bits. */
static inline uint32_t trainc_xpulp_sum_bytes(const struct trainc_xpulp_sum *work, int32_t begin,
    int32_t end)
{
    const struct trainc_xpulp_byte_shift s = trainc_xpulp_byte_shift(work->distance);
    const int32_t shifts = work->distance > 1;
    uint32_t exceeds = 0;
    for (int32_t i = 4 * begin; i < 4 * end && exceeds == 0; i += 4) {
        uint32_t a, b;
        trainc_xpulp_sum_word(work, i, &a, &b);
        if (shifts) {
            b = trainc_xpulp_shift_bytes(b, s);
        }
        const uint32_t high = trainc_xpulp_sub_b(0x7f7f7f7f, trainc_xpulp_max_b(a, 0));
        const uint32_t low = trainc_xpulp_sub_b(0x81818181, trainc_xpulp_min_b(a, 0));
        const uint32_t fits = trainc_xpulp_min_b(trainc_xpulp_max_b(b, low), high);
        exceeds = fits ^ b;
        trainc_xpulp_put_word(work->y, i, work->count, trainc_xpulp_add_b(a, fits));
    }
    return exceeds;
}

/* Words of sums in halves, divided as they are to be; otherwise up to the first whose magnitude
 * exceeds a byte, which gives bits. */
static inline uint32_t trainc_xpulp_sum_halves(const struct trainc_xpulp_sum *work, int32_t begin,
    int32_t end)
{
    const struct trainc_xpulp_byte_shift s = trainc_xpulp_byte_shift(work->distance);
    const uint32_t eight = 0x00080008, a_shift = work->distance == 1 ? 0x00070007 : eight;
    const int32_t shifts = work->distance > 1, divides = work->divides;
    uint32_t exceeds = 0;
    for (int32_t i = 4 * begin; i < 4 * end && exceeds == 0; i += 4) {
        uint32_t a, b;
        trainc_xpulp_sum_word(work, i, &a, &b);
        if (shifts) {
            b = trainc_xpulp_shift_bytes(b, s);
        }
        uint32_t even = trainc_xpulp_add_h(
            trainc_xpulp_sra_h(trainc_xpulp_sll_h(a, eight), a_shift),
            trainc_xpulp_sra_h(trainc_xpulp_sll_h(b, eight), eight));
        uint32_t odd = trainc_xpulp_add_h(trainc_xpulp_sra_h(a & 0xff00ff00, a_shift),
            trainc_xpulp_sra_h(b, eight));
        if (divides) {
            even = trainc_xpulp_quarter(even);
            odd = trainc_xpulp_quarter(odd);
        } else {
            exceeds = (trainc_xpulp_max_h(even, trainc_xpulp_sub_h(0, even))
                | trainc_xpulp_max_h(odd, trainc_xpulp_sub_h(0, odd))) & 0xff80ff80;
        }
        trainc_xpulp_put_word(work->y, i, work->count,
            trainc_xpulp_shuffle2_b(even, odd, 0x06020400));
    }
    return exceeds;
}

#if defined(TRAINC_XPULP_INSN)
/* Words of a and b in x5 and x6 become their sums in x5; x14 gathers what exceeds. */
#define TRAINC_XPULP_SUM_LOOP(...) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 13, 9) TRAINC_XPULP_LWI(x5, 4, x10) \
        TRAINC_XPULP_LWI(x6, 4, x11) __VA_ARGS__ "9: " TRAINC_XPULP_SWI(x5, 4, x12) ".option pop" \
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x14) \
        : "r"(x13), "r"(x18), "r"(x19), "r"(x20), "r"(x21), \
          "r"(x22), "r"(x23) \
        : "x5", "x6", "x7", "x28", "x29", "x30", "memory")
/* trainc_xpulp_shift_bytes. */
#define TRAINC_XPULP_SHIFT_BYTES \
    TRAINC_XPULP_PV(1, 0x38, x7, x6, x0) TRAINC_XPULP_PV(1, 0x20, x28, x7, x19) \
    "and x28, x28, x23\n\tand x29, x7, x22\n\t" TRAINC_XPULP_PV(1, 0x28, x29, x29, x20) \
    TRAINC_XPULP_PV(1, 0x22, x29, x29, x28) TRAINC_XPULP_PV(1, 0x20, x7, x7, x18) \
    "and x7, x7, x21\n\t" TRAINC_XPULP_PV(1, 0x04, x7, x7, x29) \
    TRAINC_XPULP_PV(7, 0x25, x6, x6, x3) "xor x7, x7, x6\n\t" TRAINC_XPULP_PV(1, 0x04, x6, x7, x6)
/* A sum exceeds where its sign is neither operand's, or it is -128. */
#define TRAINC_XPULP_SUM_BYTES \
    TRAINC_XPULP_PV(1, 0x00, x7, x5, x6) "xor x28, x5, x7\n\txor x29, x6, x7\n\t" \
    "and x28, x28, x29\n\t" TRAINC_XPULP_PV(1, 0x38, x29, x7, x0) \
    "or x14, x14, x28\n\tor x14, x14, x29\n\tmv x5, x7\n\t"
/* The same of doubled bytes of a: half a sum, even one that does not fit, shows whether it exceeds. */
#define TRAINC_XPULP_DOUBLED_BYTES \
    TRAINC_XPULP_PV(7, 0x25, x7, x6, x0) TRAINC_XPULP_PV(7, 0x35, x6, x6, x0) \
    TRAINC_XPULP_PV(1, 0x00, x7, x7, x5) TRAINC_XPULP_PV(1, 0x00, x5, x7, x7) \
    "xor x7, x7, x5\n\tor x5, x5, x6\n\tor x14, x14, x7\n\t" \
    TRAINC_XPULP_PV(1, 0x38, x7, x5, x0) "or x14, x14, x7\n\t"
/* To a quarter of a sum in x5, rounded down, comes 1 where one below 0 leaves an odd number, and where
 * another one leaves 2: the lowest bits of x7 are whether 2 is left, those of x30 whether 1 is. */
#define TRAINC_XPULP_QUARTERS_UP \
    TRAINC_XPULP_PV(7, 0x25, x6, x5, x3) "or x7, x7, x30\n\txor x28, x7, x30\n\t" \
    "and x7, x7, x6\n\txor x28, x28, x7\n\t" TRAINC_XPULP_PV(7, 0x35, x28, x28, x0) \
    TRAINC_XPULP_PV(1, 0x00, x5, x5, x28)
/* Half of the sum of x and y in x, rounded down; `both` holds their common bits. */
#define TRAINC_XPULP_HALF_SUM(x, y, both) \
    TRAINC_XPULP_PV(7, 0x25, x, x, x0) TRAINC_XPULP_PV(7, 0x25, y, y, x0) \
    TRAINC_XPULP_PV(7, 0x35, both, both, x0) TRAINC_XPULP_PV(1, 0x00, x, x, y) \
    TRAINC_XPULP_PV(1, 0x00, x, x, both)
#define TRAINC_XPULP_SUM_QUARTERS \
    "xor x30, x5, x6\n\tand x7, x5, x6\n\t" TRAINC_XPULP_HALF_SUM(x5, x6, x7) \
    "mv x7, x5\n\t" TRAINC_XPULP_PV(7, 0x25, x5, x5, x0) TRAINC_XPULP_QUARTERS_UP
#define TRAINC_XPULP_DOUBLED_QUARTERS \
    "mv x30, x6\n\t" TRAINC_XPULP_PV(7, 0x25, x6, x6, x0) "xor x7, x5, x6\n\tand x28, x5, x6\n\t" \
    TRAINC_XPULP_HALF_SUM(x5, x6, x28) TRAINC_XPULP_QUARTERS_UP

/* Some whole words, at least one, and whether their sums exceed a byte: 10 instructions for four
 * elements, or up to 31. */
static inline uint32_t trainc_xpulp_sum_words(const struct trainc_xpulp_sum *work, int32_t first,
    int32_t words)
{
    const struct trainc_xpulp_byte_shift s = trainc_xpulp_byte_shift(work->distance);
    register const int8_t *x10 __asm__("x10") = work->a + 4 * first;
    register const int8_t *x11 __asm__("x11") = work->b + 4 * first;
    register int8_t *x12 __asm__("x12") = work->y + 4 * first;
    register int32_t x13 __asm__("x13") = words;
    register uint32_t x14 __asm__("x14") = 0;
    register uint32_t x18 __asm__("x18") = s.shift;
    register uint32_t x19 __asm__("x19") = s.half;
    register uint32_t x20 __asm__("x20") = s.odd;
    register uint32_t x21 __asm__("x21") = s.mask;
    register uint32_t x22 __asm__("x22") = s.low_mask;
    register uint32_t x23 __asm__("x23") = s.high_mask;
    if (work->divides) {
        if (work->distance > 1) {
            TRAINC_XPULP_SUM_LOOP(TRAINC_XPULP_SHIFT_BYTES TRAINC_XPULP_SUM_QUARTERS);
        } else if (work->distance == 1) {
            TRAINC_XPULP_SUM_LOOP(TRAINC_XPULP_DOUBLED_QUARTERS);
        } else {
            TRAINC_XPULP_SUM_LOOP(TRAINC_XPULP_SUM_QUARTERS);
        }
        return 0;
    }
    if (work->distance == 1) {
        TRAINC_XPULP_SUM_LOOP(TRAINC_XPULP_DOUBLED_BYTES);
        return x14 & 0x80808080;
    }
    if (work->distance > 1) {
        TRAINC_XPULP_SUM_LOOP(TRAINC_XPULP_SHIFT_BYTES TRAINC_XPULP_SUM_BYTES);
    } else {
        TRAINC_XPULP_SUM_LOOP(TRAINC_XPULP_SUM_BYTES);
    }
    return x14 & 0x80808080;
}
#endif

static inline void trainc_xpulp_sum_parts(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_sum *const work = (const struct trainc_xpulp_sum *)context;
    const int32_t words = (work->count + 3) >> 2;
    for (int32_t part = begin; part < end; part++) {
        int32_t first = part * (words / work->parts);
        const int32_t last = part + 1 < work->parts ? first + words / work->parts : words;
        uint32_t exceeds = 0;
#if defined(TRAINC_XPULP_INSN)
        /* As far as they fit, by pieces. */
        const int32_t whole = last == words ? work->count >> 2 : last;
        for (; first < whole && exceeds == 0; first += 128) {
            exceeds = trainc_xpulp_sum_words(work, first, trainc_minimum32(whole - first, 128));
        }
        first = trainc_minimum32(first, whole);
#endif
        if (exceeds == 0) {
            exceeds = work->divides || work->distance == 1
                ? trainc_xpulp_sum_halves(work, first, last)
                : trainc_xpulp_sum_bytes(work, first, last);
        }
        work->exceeds[part] = exceeds;
    }
}

/* The result's exponent before sums are divided. */
static inline int32_t trainc_xpulp_sum_start(struct trainc_xpulp_sum *work, const int8_t *x0,
    int32_t e0, const int8_t *x1, int32_t e1)
{
    const int32_t larger = e0 > e1 ? e0 : e1, smaller = e0 > e1 ? e1 : e0;
    const uint32_t distance = (uint32_t)larger - (uint32_t)smaller;
    work->a = e0 >= e1 ? x0 : x1;
    work->b = e0 >= e1 ? x1 : x0;
    work->distance = distance < 16 ? (int32_t)distance : 16;
    work->divides = 0;
    return distance > 1 ? larger : smaller;
}

/* Whether sums exceed 127, by parts. */
static inline int32_t trainc_xpulp_sum_exceeds(const struct trainc_xpulp_sum *work)
{
    uint32_t any = 0;
    for (int32_t part = 0; part < work->parts; part++) {
        any |= work->exceeds[part];
    }
    return any != 0;
}

#endif
