/* The rounding of sums to 8-bit integers, and the order of results. */
#ifndef TRAINC_NEON_ROUNDING_H
#define TRAINC_NEON_ROUNDING_H

#include "trainc_neon.h"

/* The bits of the largest magnitude of all lanes. */
TRAINC_PART int32_t trainc_magnitude_bits(uint32x4_t bits)
{
    const uint32x2_t two = vorr_u32(vget_low_u32(bits), vget_high_u32(bits));
    return (int32_t)(vget_lane_u32(two, 0) | vget_lane_u32(two, 1));
}

/* The rounding of 16-bit magnitudes: see trainc_rounding. */
struct trainc_rounding16 {
    int16x8_t shift, half_shift, odd;
    uint16x8_t low_mask, high_mask;
};

/* A right shift of sums and the range of its results. */
struct trainc_rounding {
    /* Negative: NEON shifts left. */
    int32x4_t shift, half_shift;
    int32x4_t odd;
    uint32x4_t low_mask, high_mask;
    int8x16_t low;
    /* Whether all magnitudes have 16 bits at most, and how these are rounded. */
    int32_t short_sums;
    struct trainc_rounding16 of16;
    /* How sums are rounded half away from zero as numbers with signs: not at all, by a product, or by
     * shifts; half the product's factor, by 2^30, and what brings a result and 8 bits below it into the
     * upper half of a sum. */
    enum { TRAINC_BY_MAGNITUDES, TRAINC_BY_PRODUCTS, TRAINC_BY_SUMS } way;
    int32x4_t factor;
    int32x4_t align;
    /* Whether pseudo-stochastic rounding takes both halves of what is shifted out from the halves of a
     * sum, what brings their border there, and the shifts of the upper half: up, and out. Results have
     * 15 bits at most before they are limited to 127, and none is below -127. */
    int32_t by_parts;
    int32x4_t border;
    int16x8_t up, out;
};

TRAINC_PART int16x8_t trainc_narrow(int32x4_t x)
{
    return vcombine_s16(vmovn_s32(x), vmovn_s32(x));
}

TRAINC_PART struct trainc_rounding16 trainc_rounding_of16(const struct trainc_rounding *r)
{
    struct trainc_rounding16 own;
    own.shift = trainc_narrow(r->shift);
    own.half_shift = trainc_narrow(r->half_shift);
    own.odd = trainc_narrow(r->odd);
    own.low_mask = vreinterpretq_u16_s16(trainc_narrow(vreinterpretq_s32_u32(r->low_mask)));
    own.high_mask = vreinterpretq_u16_s16(trainc_narrow(vreinterpretq_s32_u32(r->high_mask)));
    return own;
}

/* For a shift by any amount from 0 on (from 64 bits on, all is as it is by 64) and results from low
 * to 127. */
TRAINC_SHARED void trainc_set_rounding(struct trainc_rounding *rounding, int64_t amount,
    int32_t low)
{
    const int32_t shift = (int32_t)trainc_minimum64(amount, 64), half = shift >> 1;
    const int32_t high = shift - half;
    rounding->shift = vdupq_n_s32(-shift);
    rounding->half_shift = vdupq_n_s32(-half);
    rounding->odd = vdupq_n_s32(shift & 1);
    rounding->low_mask = vdupq_n_u32(half < 32 ? (UINT32_C(1) << half) - 1 : UINT32_MAX);
    rounding->high_mask = vdupq_n_u32(high < 32 ? (UINT32_C(1) << high) - 1 : UINT32_MAX);
    /* Magnitudes are 127 at most. */
    rounding->low = vdupq_n_s8((int8_t)trainc_maximum32(low, -127));
    rounding->short_sums = 0;
    rounding->of16 = trainc_rounding_of16(rounding);
    rounding->way = TRAINC_BY_MAGNITUDES;
    rounding->align = vdupq_n_s32(24 - shift);
    /* A bit more than 2^-shift, so that halves go away from zero: see trainc_round_short. */
    rounding->factor =
        vdupq_n_s32(shift >= 1 && shift <= 31 ? (INT32_C(1) << (31 - shift)) + 1 : 0);
    rounding->by_parts = 0;
    rounding->border = vdupq_n_s32(16 - half);
    rounding->up = vdupq_n_s16((int16_t)(16 - high));
    rounding->out = vdupq_n_s16((int16_t)-high);
}

/* For sums whose magnitudes have these bits at most. */
TRAINC_SHARED void trainc_round_short(struct trainc_rounding *rounding, int32_t bits)
{
    const int32_t shift = -vgetq_lane_s32(rounding->shift, 0);
    rounding->short_sums = (uint32_t)bits <= UINT16_MAX;
    /* Where no aligned sum overflows, and nothing is lost below it. */
    if (shift <= 24 && (uint32_t)bits >> (shift + 7) == 0) {
        /* Sums below 2^(31 - shift): what the factor has too much adds less than 2^-shift, the least
         * that a result before its rounding is apart from a half. */
        rounding->way = shift >= 1 && shift <= 12 ? TRAINC_BY_PRODUCTS : TRAINC_BY_SUMS;
    }
    rounding->by_parts = shift >= 3 && shift <= 32
        && (uint64_t)(uint32_t)bits >> (16 + shift / 2) == 0
        && vgetq_lane_s8(rounding->low, 0) == -127;
}

/* A rounded magnitude: to nearest, ties away from zero. */
TRAINC_PART uint32x4_t trainc_half_away(int32x4_t x, const struct trainc_rounding *rounding)
{
    return vrshlq_u32(vreinterpretq_u32_s32(vabsq_s32(x)), rounding->shift);
}

/* A rounded magnitude: up if the upper half of the bits that are shifted out exceeds the lower half
 * (doubled if it is a bit shorter). */
TRAINC_PART uint32x4_t trainc_pseudo_stochastic(int32x4_t x,
    const struct trainc_rounding *rounding)
{
    const uint32x4_t m = vreinterpretq_u32_s32(vabsq_s32(x));
    const uint32x4_t upper = vandq_u32(vshlq_u32(m, rounding->half_shift), rounding->high_mask);
    const uint32x4_t lower = vshlq_u32(vandq_u32(m, rounding->low_mask), rounding->odd);
    return vsubq_u32(vshlq_u32(m, rounding->shift), vcgtq_u32(upper, lower));
}

TRAINC_PART uint16x8_t trainc_half_away16(uint16x8_t m, const struct trainc_rounding16 *r)
{
    return vrshlq_u16(m, r->shift);
}

TRAINC_PART uint16x8_t trainc_pseudo_stochastic16(uint16x8_t m, const struct trainc_rounding16 *r)
{
    const uint16x8_t upper = vandq_u16(vshlq_u16(m, r->half_shift), r->high_mask);
    const uint16x8_t lower = vshlq_u16(vandq_u16(m, r->low_mask), r->odd);
    return vsubq_u16(vshlq_u16(m, r->shift), vcgtq_u16(upper, lower));
}

typedef uint16x8_t trainc_rounded_of16(uint16x8_t m, const struct trainc_rounding16 *r);

typedef uint32x4_t trainc_rounded(int32x4_t x, const struct trainc_rounding *rounding);

/* Magnitudes of at most 16 bits. */
TRAINC_PART uint16x8_t trainc_short_magnitudes(int32x4_t x0, int32x4_t x1)
{
    return vuzpq_u16(vreinterpretq_u16_s32(vabsq_s32(x0)),
        vreinterpretq_u16_s32(vabsq_s32(x1))).val[0];
}

/* Numbers less 1 where below zero, so that halves go away from zero when halves go up: of those that
 * are aligned, nothing else changes its result. */
TRAINC_PART int32x4_t trainc_aligned(int32x4_t x, const struct trainc_rounding *rounding)
{
    const int32x4_t aligned = vshlq_s32(x, rounding->align);
    return vsraq_n_s32(aligned, aligned, 31);
}

/* Four results, halves away from zero: above it by the product's rounding, below by its factor. */
TRAINC_PART int16x8_t trainc_four_by_products(int32x4_t x, const struct trainc_rounding *rounding)
{
    return vreinterpretq_s16_s32(vqrdmulhq_s32(x, rounding->factor));
}

TRAINC_PART int16x8_t trainc_eight_by_products(int32x4_t x0, int32x4_t x1,
    const struct trainc_rounding *rounding)
{
    return vuzpq_s16(trainc_four_by_products(x0, rounding),
        trainc_four_by_products(x1, rounding)).val[0];
}

/* 16 results of 16 bits each. */
TRAINC_PART int8x16_t trainc_sixteen_short(int16x8_t low, int16x8_t high,
    const struct trainc_rounding *rounding)
{
    return vmaxq_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)), rounding->low);
}

/* 8 results with 8 bits below them, of 16 bits. */
TRAINC_PART int16x8_t trainc_eight_by_sums(int32x4_t x0, int32x4_t x1,
    const struct trainc_rounding *rounding)
{
    return vuzpq_s16(vreinterpretq_s16_s32(trainc_aligned(x0, rounding)),
        vreinterpretq_s16_s32(trainc_aligned(x1, rounding))).val[1];
}

/* 16 results without the 8 bits below them. */
TRAINC_PART int8x16_t trainc_sixteen(int16x8_t low, int16x8_t high,
    const struct trainc_rounding *rounding)
{
    return vmaxq_s8(vcombine_s8(vqrshrn_n_s16(low, 8), vqrshrn_n_s16(high, 8)), rounding->low);
}

/* Sums' magnitudes with the border between both halves of what is shifted out in their middle. */
TRAINC_PART uint16x8_t trainc_bordered_magnitudes(int32x4_t x, const struct trainc_rounding *rounding)
{
    return vreinterpretq_u16_u32(vshlq_u32(vreinterpretq_u32_s32(vabsq_s32(x)),
        rounding->border));
}

/* Magnitudes of 8 results from the upper and lower halves of those: up where the upper half of what
 * is shifted out exceeds the lower, both of them from the highest bit on. */
TRAINC_PART uint16x8_t trainc_by_parts(uint16x8_t upper, uint16x8_t lower,
    const struct trainc_rounding *rounding)
{
    const uint16x8_t up = vcgtq_u16(vshlq_u16(upper, rounding->up), lower);
    return vsubq_u16(vshlq_u16(upper, rounding->out), up);
}

TRAINC_PART uint16x8_t trainc_eight_by_parts(int32x4_t x0, int32x4_t x1,
    const struct trainc_rounding *rounding)
{
    const uint16x8x2_t halves = vuzpq_u16(trainc_bordered_magnitudes(x0, rounding),
        trainc_bordered_magnitudes(x1, rounding));
    return trainc_by_parts(halves.val[1], halves.val[0], rounding);
}

/* 16 results of magnitudes and of their sums' upper bytes. */
TRAINC_PART int8x16_t trainc_with_signs(uint16x8_t low, uint16x8_t high, int8x16_t upper,
    const struct trainc_rounding *rounding)
{
    const int8x16_t magnitudes = vreinterpretq_s8_u8(vminq_u8(
        vcombine_u8(vqmovn_u16(low), vqmovn_u16(high)), vdupq_n_u8(127)));
    const int8x16_t sign = vshrq_n_s8(upper, 7);
    return vmaxq_s8(vsubq_s8(veorq_s8(magnitudes, sign), sign), rounding->low);
}

/* The same of magnitudes by parts. */
TRAINC_PART int8x16_t trainc_parts_with_signs(uint16x8_t low, uint16x8_t high, int8x16_t upper)
{
    const int8x16_t magnitudes = vcombine_s8(vqmovn_s16(vreinterpretq_s16_u16(low)),
        vqmovn_s16(vreinterpretq_s16_u16(high)));
    const int8x16_t sign = vshrq_n_s8(upper, 7);
    return vsubq_s8(veorq_s8(magnitudes, sign), sign);
}

/* The upper byte of each sum. */
TRAINC_PART int8x16_t trainc_sums_upper_bytes(int32x4_t x0, int32x4_t x1, int32x4_t x2, int32x4_t x3)
{
    const int16x8_t upper01 = vuzpq_s16(vreinterpretq_s16_s32(x0), vreinterpretq_s16_s32(x1)).val[1];
    const int16x8_t upper23 = vuzpq_s16(vreinterpretq_s16_s32(x2), vreinterpretq_s16_s32(x3)).val[1];
    return vuzpq_s8(vreinterpretq_s8_s16(upper01), vreinterpretq_s8_s16(upper23)).val[1];
}

/* 16 results. */
TRAINC_PART int8x16_t trainc_rounded_sums(int32x4_t x0, int32x4_t x1, int32x4_t x2, int32x4_t x3,
    const struct trainc_rounding *rounding, trainc_rounded *round)
{
    uint16x8_t low, high;
    if (round == trainc_half_away && rounding->way == TRAINC_BY_SUMS) {
        return trainc_sixteen(trainc_eight_by_sums(x0, x1, rounding),
            trainc_eight_by_sums(x2, x3, rounding), rounding);
    }
    if (round == trainc_half_away && rounding->way == TRAINC_BY_PRODUCTS) {
        return trainc_sixteen_short(trainc_eight_by_products(x0, x1, rounding),
            trainc_eight_by_products(x2, x3, rounding), rounding);
    }
    if (round == trainc_pseudo_stochastic && rounding->by_parts != 0) {
        return trainc_parts_with_signs(trainc_eight_by_parts(x0, x1, rounding),
            trainc_eight_by_parts(x2, x3, rounding), trainc_sums_upper_bytes(x0, x1, x2, x3));
    }
    if (rounding->short_sums != 0) {
        trainc_rounded_of16 *const round16 = round == trainc_half_away ? trainc_half_away16
                                                                       : trainc_pseudo_stochastic16;
        low = round16(trainc_short_magnitudes(x0, x1), &rounding->of16);
        high = round16(trainc_short_magnitudes(x2, x3), &rounding->of16);
    } else {
        low = vcombine_u16(vqmovn_u32(round(x0, rounding)), vqmovn_u32(round(x1, rounding)));
        high = vcombine_u16(vqmovn_u32(round(x2, rounding)), vqmovn_u32(round(x3, rounding)));
    }
    return trainc_with_signs(low, high, trainc_sums_upper_bytes(x0, x1, x2, x3), rounding);
}

/* 16 results: of 8 sums at a, and of 8 at b. */
TRAINC_PART int8x16_t trainc_rounded16(const int32_t *a, const int32_t *b,
    const struct trainc_rounding *rounding, trainc_rounded *round)
{
    return trainc_rounded_sums(vld1q_s32(a), vld1q_s32(a + 4), vld1q_s32(b), vld1q_s32(b + 4),
        rounding, round);
}

/* Stores the results of the sums [rows][8 lanes] of a panel: lane l of row r at
 * y[offsets[l] + r row_stride]. */
TRAINC_PART void trainc_store_lanes(const int32_t *sums, int32_t rows, int32_t row_stride,
    const int32_t *offsets, int32_t lanes, int8_t *y, const struct trainc_rounding *rounding,
    trainc_rounded *round)
{
    /* A copy, which stores of bytes cannot change, stays in registers. */
    const struct trainc_rounding own = *rounding;
    const int dense = lanes == 8 && offsets[7] - offsets[0] == 7;
    for (int32_t r = 0; r < rows; r += 2) {
        const int32_t *const next = r + 1 < rows ? sums + 8 : sums;
        const int8x16_t q = trainc_rounded16(sums, next, &own, round);
        sums += 16;
        if (dense) {
            vst1_s8(y + offsets[0], vget_low_s8(q));
            if (r + 1 < rows) {
                vst1_s8(y + offsets[0] + row_stride, vget_high_s8(q));
            }
        } else {
            int8_t two[16];
            vst1q_s8(two, q);
            for (int32_t l = 0; l < lanes; l++) {
                y[offsets[l]] = two[l];
            }
            for (int32_t l = 0; r + 1 < rows && l < lanes; l++) {
                y[offsets[l] + row_stride] = two[8 + l];
            }
        }
        y += 2 * row_stride;
    }
}

TRAINC_SHARED void trainc_store_lanes_half_away(const int32_t *sums, int32_t rows,
    int32_t row_stride, const int32_t *offsets, int32_t lanes, int8_t *y,
    const struct trainc_rounding *rounding)
{
    trainc_store_lanes(sums, rows, row_stride, offsets, lanes, y, rounding, trainc_half_away);
}

TRAINC_SHARED void trainc_store_lanes_pseudo_stochastic(const int32_t *sums, int32_t rows,
    int32_t row_stride, const int32_t *offsets, int32_t lanes, int8_t *y,
    const struct trainc_rounding *rounding)
{
    trainc_store_lanes(sums, rows, row_stride, offsets, lanes, y, rounding,
        trainc_pseudo_stochastic);
}

/* The same for sums as they are. */
TRAINC_SHARED void trainc_store_lanes_sums(const int32_t *sums, int32_t rows, int32_t row_stride,
    const int32_t *offsets, int32_t lanes, int32_t *y)
{
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t l = 0; l < lanes; l++) {
            y[r * row_stride + offsets[l]] = sums[8 * r + l];
        }
    }
}

/* src[t][c] of 16 channels and 9 taps to dst[c][t]. */
TRAINC_PART void trainc_nine_together(const int8_t *src, int8_t *dst)
{
#ifdef __aarch64__
    /* Bytes 0, 16, 32, 1, 17, .. */
    static const uint8_t order[48] = {0, 16, 32, 1, 17, 33, 2, 18, 34, 3, 19, 35, 4, 20, 36, 5, 21,
        37, 6, 22, 38, 7, 23, 39, 8, 24, 40, 9, 25, 41, 10, 26, 42, 11, 27, 43, 12, 28, 44, 13, 29,
        45, 14, 30, 46, 15, 31, 47};
    const uint8x16_t order0 = vld1q_u8(order), order1 = vld1q_u8(order + 16);
    const uint8x16_t order2 = vld1q_u8(order + 32);
    int8x16x3_t a, b, c;
    for (int32_t kw = 0; kw < 3; kw++) {
        const int8x16x3_t column = {{vld1q_s8(src + 16 * kw), vld1q_s8(src + 16 * (3 + kw)),
            vld1q_s8(src + 16 * (6 + kw))}};
        a.val[kw] = vqtbl3q_s8(column, order0);
        b.val[kw] = vqtbl3q_s8(column, order1);
        c.val[kw] = vqtbl3q_s8(column, order2);
    }
    vst3q_s8(dst, a);
    vst3q_s8(dst + 48, b);
    vst3q_s8(dst + 96, c);
#else
    for (int32_t c = 0; c < 16; c++) {
        for (int32_t t = 0; t < 9; t++) {
            dst[9 * c + t] = src[16 * t + c];
        }
    }
#endif
}

/* Stores the results of the sums [panels of 8 channels][taps][8 rows][8 channels] of a weight
 * gradient's 8 rows: y[rows][channels][taps], rows row_bytes apart. temporary takes 16 bytes a
 * tap. */
TRAINC_PART void trainc_store_each_tap(const int32_t *sums, int32_t rows, int32_t channels,
    int32_t taps, int8_t *y, int32_t row_bytes, int8_t *temporary,
    const struct trainc_rounding *rounding, trainc_rounded *round)
{
    const struct trainc_rounding own = *rounding;
    for (int32_t c = 0; c < channels; c += 16) {
        const int32_t count = channels - c < 16 ? channels - c : 16;
        const int32_t *const first = sums + 8 * c * taps;
        const int32_t *const second = count > 8 ? first + 64 * taps : first;
        for (int32_t r = 0; r < rows; r++) {
            int8_t *const to = y + r * row_bytes + c * taps;
            if (taps == 1 && count == 16) {
                vst1q_s8(to, trainc_rounded16(first + 8 * r, second + 8 * r, &own, round));
                continue;
            }
            for (int32_t t = 0; t < taps; t++) {
                vst1q_s8(temporary + 16 * t, trainc_rounded16(first + 64 * t + 8 * r,
                    second + 64 * t + 8 * r, &own, round));
            }
            if (taps == 9 && count == 16) {
                trainc_nine_together(temporary, to);
            } else {
                for (int32_t i = 0; i < count; i++) {
                    for (int32_t t = 0; t < taps; t++) {
                        to[i * taps + t] = temporary[16 * t + i];
                    }
                }
            }
        }
    }
}

/* One tap, whose order needs no other; and more of them, by what their numbers are. */
TRAINC_SINGLE void trainc_store_points_half_away(const int32_t *sums, int32_t rows,
    int32_t channels, int8_t *y, int32_t row_bytes, int8_t *temporary,
    const struct trainc_rounding *rounding)
{
    trainc_store_each_tap(sums, rows, channels, 1, y, row_bytes, temporary, rounding,
        trainc_half_away);
}

TRAINC_SHARED void trainc_store_windows_half_away(const int32_t *sums, int32_t rows,
    int32_t channels, int32_t taps, int8_t *y, int32_t row_bytes, int8_t *temporary,
    const struct trainc_rounding *rounding)
{
    trainc_store_each_tap(sums, rows, channels, taps, y, row_bytes, temporary, rounding,
        trainc_half_away);
}

TRAINC_PART void trainc_store_taps_half_away(const int32_t *sums, int32_t rows,
    int32_t channels, int32_t taps, int8_t *y, int32_t row_bytes, int8_t *temporary,
    const struct trainc_rounding *rounding)
{
    if (taps == 1) {
        trainc_store_points_half_away(sums, rows, channels, y, row_bytes, temporary, rounding);
    } else {
        trainc_store_windows_half_away(sums, rows, channels, taps, y, row_bytes, temporary,
            rounding);
    }
}

TRAINC_SINGLE void trainc_store_points_pseudo_stochastic(const int32_t *sums, int32_t rows,
    int32_t channels, int8_t *y, int32_t row_bytes, int8_t *temporary,
    const struct trainc_rounding *rounding)
{
    trainc_store_each_tap(sums, rows, channels, 1, y, row_bytes, temporary, rounding,
        trainc_pseudo_stochastic);
}

TRAINC_SHARED void trainc_store_windows_pseudo_stochastic(const int32_t *sums, int32_t rows,
    int32_t channels, int32_t taps, int8_t *y, int32_t row_bytes, int8_t *temporary,
    const struct trainc_rounding *rounding)
{
    trainc_store_each_tap(sums, rows, channels, taps, y, row_bytes, temporary, rounding,
        trainc_pseudo_stochastic);
}

TRAINC_PART void trainc_store_taps_pseudo_stochastic(const int32_t *sums, int32_t rows,
    int32_t channels, int32_t taps, int8_t *y, int32_t row_bytes, int8_t *temporary,
    const struct trainc_rounding *rounding)
{
    if (taps == 1) {
        trainc_store_points_pseudo_stochastic(sums, rows, channels, y, row_bytes, temporary, rounding);
    } else {
        trainc_store_windows_pseudo_stochastic(sums, rows, channels, taps, y, row_bytes, temporary,
            rounding);
    }
}

/* The same for sums as they are. */
TRAINC_SHARED void trainc_store_taps_sums(const int32_t *sums, int32_t rows, int32_t channels,
    int32_t taps, int32_t *y, int32_t row_stride)
{
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t c = 0; c < channels; c++) {
            for (int32_t t = 0; t < taps; t++) {
                y[r * row_stride + c * taps + t] =
                    sums[64 * (c / 8 * taps + t) + 8 * r + c % 8];
            }
        }
    }
}

#endif
