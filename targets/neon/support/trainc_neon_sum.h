/* Sums of two tensors with exponents of their own, by bytes: what exceeds them is asked before. */
#ifndef TRAINC_NEON_SUM_H
#define TRAINC_NEON_SUM_H

#include "trainc_neon.h"

#ifdef __aarch64__
/* How the operand with the smaller exponent is brought to the other's: it is as it is, the other one is
 * doubled, or it is shifted right, which a table of all codes says. */
enum trainc_aligning { TRAINC_AS_IS, TRAINC_DOUBLED, TRAINC_SHIFTED };

/* What each code becomes, by quarters of the bytes that they are. */
struct trainc_shifted_codes {
    int8x16x4_t quarter[4];
};

/* Codes shifted right by 2 bits or more: up if the upper half of the bits that are shifted out exceeds the
 * lower half (doubled if it is a bit shorter). */
TRAINC_PART void trainc_shift_codes(int32_t amount, int8_t *table)
{
    static const uint8_t ramp[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    /* From 16 bits on nothing is left of a code. */
    const int32_t shift = trainc_minimum32(amount, 16), half = shift >> 1;
    const uint8x16_t high_mask = vdupq_n_u8((uint8_t)((1 << (shift - half)) - 1));
    const uint8x16_t low_mask = vdupq_n_u8((uint8_t)((1 << half) - 1));
    const int8x16_t out = vdupq_n_s8((int8_t)-shift), half_out = vdupq_n_s8((int8_t)-half);
    const int8x16_t odd = vdupq_n_s8((int8_t)(shift & 1));
    int8x16_t code = vreinterpretq_s8_u8(vld1q_u8(ramp));
    for (int32_t n = 0; n < 256; n += 16) {
        const uint8x16_t m = vreinterpretq_u8_s8(vabsq_s8(code));
        const uint8x16_t upper = vandq_u8(vshlq_u8(m, half_out), high_mask);
        const uint8x16_t lower = vshlq_u8(vandq_u8(m, low_mask), odd);
        const int8x16_t q = vreinterpretq_s8_u8(vsubq_u8(vshlq_u8(m, out), vcgtq_u8(upper, lower)));
        const int8x16_t sign = vshrq_n_s8(code, 7);
        vst1q_s8(table + n, vsubq_s8(veorq_s8(q, sign), sign));
        code = vaddq_s8(code, vdupq_n_s8(16));
    }
}

TRAINC_PART int8x16_t trainc_shifted_code(int8x16_t code, const struct trainc_shifted_codes *codes)
{
    const uint8x16_t quarter = vdupq_n_u8(64);
    uint8x16_t at = vreinterpretq_u8_s8(code);
    int8x16_t q = vqtbl4q_s8(codes->quarter[0], at);
    for (int32_t n = 1; n < 4; n++) {
        at = vsubq_u8(at, quarter);
        q = vqtbx4q_s8(q, codes->quarter[n], at);
    }
    return q;
}

/* The operand with the smaller exponent as it is added. */
TRAINC_PART int8x16_t trainc_addend(int8x16_t b, enum trainc_aligning aligning,
    const struct trainc_shifted_codes *codes)
{
    return aligning == TRAINC_SHIFTED ? trainc_shifted_code(b, codes) : b;
}

/* An operand as often as it broadcasts: each byte for a run of neighbours; writes up to 15 bytes behind. */
TRAINC_PART void trainc_repeat(const int8_t *x, int32_t images, int32_t channels, int32_t run,
    int8_t *to)
{
    for (int32_t image = 0; image < images; image++) {
        if (run == 1) {
            for (int32_t n = 0; n < channels; n++) {
                to[n] = x[n];
            }
            to += channels;
            continue;
        }
        for (int32_t n = 0; n < channels; n++, to += run) {
            const int8x16_t all = vdupq_n_s8(x[n]);
            for (int32_t i = 0; i < run; i += 16) {
                vst1q_s8(to + i, all);
            }
        }
    }
}

/* Bounds of sums' halves, or of the quarters of a doubled operand's. */
struct trainc_sum_bounds {
    int8x16_t most, least;
};

/* With 16 sums more. */
TRAINC_PART void trainc_bound(struct trainc_sum_bounds *bounds, int8x16_t a, int8x16_t b,
    enum trainc_aligning aligning, const struct trainc_shifted_codes *codes)
{
    int8x16_t v = trainc_addend(b, aligning, codes), w = v;
    if (aligning == TRAINC_DOUBLED) {
        w = vrshrq_n_s8(v, 1);
        v = vshrq_n_s8(v, 1);
    }
    bounds->most = vmaxq_s8(bounds->most, vhaddq_s8(a, v));
    bounds->least = vminq_s8(bounds->least, vrhaddq_s8(a, w));
}

/* Whether a sum of the two has a magnitude above 127. What bounds a sum from above is the half (or, of
 * a doubled operand, the quarter) of the largest, rounded down, and from below that of the least, rounded
 * up. */
TRAINC_PART int32_t trainc_sums_exceed(const int8_t *a, const int8_t *b, int32_t count,
    enum trainc_aligning aligning, const struct trainc_shifted_codes *codes)
{
    const int32_t limit = aligning == TRAINC_DOUBLED ? 32 : 64;
    struct trainc_sum_bounds bounds = {vdupq_n_s8(0), vdupq_n_s8(0)};
    const int8_t *const end = a + count;
    if (count % 64 != 0) {
        trainc_bound(&bounds, vld1q_s8(a), vld1q_s8(b), aligning, codes);
        trainc_bound(&bounds, vld1q_s8(a + 16), vld1q_s8(b + 16), aligning, codes);
        a += 32;
        b += 32;
    }
    while (a != end) {
        /* So many more before it is asked whether one was found. */
        const int8_t *const some = end - a > 1024 ? a + 1024 : end;
        do {
            const int8x16x4_t u = vld1q_s8_x4(a), v = vld1q_s8_x4(b);
            a += 64;
            b += 64;
            TRAINC_OPAQUE(a);
            TRAINC_OPAQUE(b);
            trainc_bound(&bounds, u.val[0], v.val[0], aligning, codes);
            trainc_bound(&bounds, u.val[1], v.val[1], aligning, codes);
            trainc_bound(&bounds, u.val[2], v.val[2], aligning, codes);
            trainc_bound(&bounds, u.val[3], v.val[3], aligning, codes);
        } while (a != some);
        if (vmaxvq_s8(bounds.most) >= limit || vminvq_s8(bounds.least) <= -limit) {
            return 1;
        }
    }
    return vmaxvq_s8(bounds.most) >= limit || vminvq_s8(bounds.least) <= -limit;
}

/* A quarter of a sum: up if the upper bit that is shifted out exceeds the lower. From the quarter rounded
 * down and from these bits, each the lowest of a byte: below zero every odd sum goes up, others where they
 * are 2 more than a multiple of 4. */
TRAINC_PART int8x16_t trainc_quarter_up(int8x16_t negative, int8x16_t upper, int8x16_t lower)
{
    const int8x16_t up = vbslq_s8(vreinterpretq_u8_s8(vshrq_n_s8(negative, 7)), lower,
        vbicq_s8(upper, lower));
    return vandq_s8(up, vdupq_n_s8(1));
}

/* 16 sums. */
TRAINC_PART int8x16_t trainc_sums16(int8x16_t u, int8x16_t b, int8x16_t least,
    enum trainc_aligning aligning, int32_t exceed, const struct trainc_shifted_codes *codes)
{
    const int8x16_t v = trainc_addend(b, aligning, codes);
    int8x16_t q;
    if (exceed == 0) {
        q = vaddq_s8(aligning == TRAINC_DOUBLED ? vaddq_s8(u, u) : u, v);
    } else if (aligning == TRAINC_DOUBLED) {
        const int8x16_t half = vshrq_n_s8(v, 1), down = vhaddq_s8(u, half);
        q = vaddq_s8(down, trainc_quarter_up(down, veorq_s8(u, half), v));
    } else {
        const int8x16_t half = vhaddq_s8(u, v);
        q = vsraq_n_s8(trainc_quarter_up(half, half, veorq_s8(u, v)), half, 1);
    }
    return vmaxq_s8(q, least);
}

TRAINC_PART void trainc_sums(const int8_t *a, const int8_t *b, int32_t count, int32_t low,
    enum trainc_aligning aligning, int32_t exceed, const struct trainc_shifted_codes *codes,
    int8_t *y)
{
    const int8x16_t least = vdupq_n_s8((int8_t)low);
#define TRAINC_SUMS16(u, v) trainc_sums16(u, v, least, aligning, exceed, codes)
    if (count % 64 != 0) {
        vst1q_s8(y, TRAINC_SUMS16(vld1q_s8(a), vld1q_s8(b)));
        vst1q_s8(y + 16, TRAINC_SUMS16(vld1q_s8(a + 16), vld1q_s8(b + 16)));
        a += 32;
        b += 32;
        y += 32;
    }
    for (int32_t left = count / 64; left > 0; left--) {
        const int8x16x4_t u = vld1q_s8_x4(a), v = vld1q_s8_x4(b);
        int8x16x4_t q;
        a += 64;
        b += 64;
        TRAINC_OPAQUE(a);
        TRAINC_OPAQUE(b);
        q.val[0] = TRAINC_SUMS16(u.val[0], v.val[0]);
        q.val[1] = TRAINC_SUMS16(u.val[1], v.val[1]);
        q.val[2] = TRAINC_SUMS16(u.val[2], v.val[2]);
        q.val[3] = TRAINC_SUMS16(u.val[3], v.val[3]);
        vst1q_s8_x4(y, q);
        y += 64;
        TRAINC_OPAQUE(y);
    }
#undef TRAINC_SUMS16
}

/* y = a + b of operands with these exponents, at least `low`, of a number of elements that is a multiple
 * of 32; returns the results' exponent. y may be a or b. */
TRAINC_SINGLE int32_t trainc_aligned_sums(const int8_t *a, int32_t a_exponent, const int8_t *b,
    int32_t b_exponent, int32_t count, int32_t low, int8_t *y)
{
    const int8_t *const larger = a_exponent < b_exponent ? b : a;
    const int8_t *const smaller = a_exponent < b_exponent ? a : b;
    const int32_t most = trainc_maximum32(a_exponent, b_exponent);
    const int64_t distance = (int64_t)most - trainc_minimum32(a_exponent, b_exponent);
    struct trainc_shifted_codes codes;
    int8_t table[256];
    int32_t exceed;
    if (distance == 0) {
        exceed = trainc_sums_exceed(larger, smaller, count, TRAINC_AS_IS, &codes);
        if (exceed != 0) {
            trainc_sums(larger, smaller, count, low, TRAINC_AS_IS, 1, &codes, y);
        } else {
            trainc_sums(larger, smaller, count, low, TRAINC_AS_IS, 0, &codes, y);
        }
    } else if (distance == 1) {
        exceed = trainc_sums_exceed(larger, smaller, count, TRAINC_DOUBLED, &codes);
        if (exceed != 0) {
            trainc_sums(larger, smaller, count, low, TRAINC_DOUBLED, 1, &codes, y);
        } else {
            trainc_sums(larger, smaller, count, low, TRAINC_DOUBLED, 0, &codes, y);
        }
    } else {
        trainc_shift_codes((int32_t)trainc_minimum64(distance, 31), table);
        for (int32_t n = 0; n < 4; n++) {
            codes.quarter[n] = vld1q_s8_x4(table + 64 * n);
        }
        exceed = trainc_sums_exceed(larger, smaller, count, TRAINC_SHIFTED, &codes);
        if (exceed != 0) {
            trainc_sums(larger, smaller, count, low, TRAINC_SHIFTED, 1, &codes, y);
        } else {
            trainc_sums(larger, smaller, count, low, TRAINC_SHIFTED, 0, &codes, y);
        }
    }
    const int32_t exponent = distance == 1 ? trainc_subtract32(most, 1) : most;
    return trainc_add32(exponent, exceed != 0 ? 2 : 0);
}
#endif

#endif
