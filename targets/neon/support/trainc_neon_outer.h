/* Weight gradients of matrix products of few images: outer products, whose sums are rounded as they
 * arise: y[rows][lanes] of dy[images][rows] and x[images][lanes]. */
#ifndef TRAINC_NEON_OUTER_H
#define TRAINC_NEON_OUTER_H

#include "trainc_neon_rounding.h"

/* 16 results of one image: products have at most 15 bits. */
TRAINC_PART int8x16_t trainc_outer16(int8x16_t x, int8x8_t dy, const struct trainc_rounding16 *r,
    trainc_rounded_of16 *round)
{
    const int16x8_t a = vmull_s8(vget_low_s8(x), dy), b = vmull_s8(vget_high_s8(x), dy);
    const uint16x8_t q0 = round(vreinterpretq_u16_s16(vabsq_s16(a)), r);
    const uint16x8_t q1 = round(vreinterpretq_u16_s16(vabsq_s16(b)), r);
    const uint8x16_t q = vminq_u8(vcombine_u8(vqmovn_u16(q0), vqmovn_u16(q1)), vdupq_n_u8(127));
    const int8x16_t upper = vuzpq_s8(vreinterpretq_s8_s16(a), vreinterpretq_s8_s16(b)).val[1];
    const int8x16_t sign = vshrq_n_s8(upper, 7);
    return vsubq_s8(veorq_s8(vreinterpretq_s8_u8(q), sign), sign);
}

/* 16 sums of a row. */
TRAINC_PART void trainc_outer_sums(const int8_t *dy, const int8_t *x, int32_t images, int32_t rows,
    int32_t lanes, int32x4_t sums[4])
{
    for (int32_t i = 0; i < 4; i++) {
        sums[i] = vdupq_n_s32(0);
    }
    for (int32_t image = 0; image < images; image++) {
        const int8x8_t row = vdup_n_s8(dy[image * rows]);
        const int8x16_t lane = vld1q_s8(x + image * lanes);
        const int16x8_t a = vmull_s8(vget_low_s8(lane), row);
        const int16x8_t b = vmull_s8(vget_high_s8(lane), row);
        sums[0] = vaddw_s16(sums[0], vget_low_s16(a));
        sums[1] = vaddw_s16(sums[1], vget_high_s16(a));
        sums[2] = vaddw_s16(sums[2], vget_low_s16(b));
        sums[3] = vaddw_s16(sums[3], vget_high_s16(b));
    }
}

/* Whether a row has errors in any image. */
TRAINC_PART int32_t trainc_outer_counts(const int8_t *dy, int32_t images, int32_t rows)
{
    int32_t any = 0;
    for (int32_t image = 0; image < images; image++) {
        any |= dy[image * rows];
    }
    return any;
}

/* The largest magnitude. */
TRAINC_PART uint32_t trainc_outer_most(const int8_t *at, int32_t count)
{
    uint8x16_t most = vdupq_n_u8(0);
    int32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        most = vmaxq_u8(most, vreinterpretq_u8_s8(vabsq_s8(vld1q_s8(at + i))));
    }
    uint8_t each[16];
    vst1q_u8(each, most);
    uint32_t all = 0;
    for (int32_t l = 0; l < 16; l++) {
        all = each[l] > all ? each[l] : all;
    }
    for (; i < count; i++) {
        const uint32_t m = (uint32_t)(at[i] < 0 ? -at[i] : at[i]);
        all = m > all ? m : all;
    }
    return all;
}

/* The bits of the magnitudes of all sums, of at least 16 lanes. */
TRAINC_SHARED uint32x4_t trainc_outer_bits(const int8_t *dy, const int8_t *x, int32_t images,
    int32_t rows, int32_t lanes)
{
    uint32x4_t bits = vdupq_n_u32(0);
    if (images == 1) {
        /* The largest of all products is that of the largest factors. */
        return vdupq_n_u32(trainc_outer_most(dy, rows) * trainc_outer_most(x, lanes));
    }
    for (int32_t row = 0; row < rows; row++) {
        if (trainc_outer_counts(dy + row, images, rows) == 0) {
            continue;
        }
        for (int32_t lane = 0; lane < lanes; lane += 16) {
            int32x4_t sums[4];
            const int32_t at = lane + 16 <= lanes ? lane : lanes - 16;
            trainc_outer_sums(dy + row, x + at, images, rows, lanes, sums);
            for (int32_t i = 0; i < 4; i++) {
                bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(sums[i])));
            }
        }
    }
    return bits;
}

/* Results of at least 16 lanes; the last 16 of a row overlap those before. */
TRAINC_PART void trainc_outer(const int8_t *dy, const int8_t *x, int32_t images, int32_t rows,
    int32_t lanes, int8_t *y, const struct trainc_rounding *rounding, trainc_rounded *round,
    trainc_rounded_of16 *round16)
{
    const struct trainc_rounding own = *rounding;
    const struct trainc_rounding16 own16 = trainc_rounding_of16(rounding);
    for (int32_t row = 0; row < rows; row++, y += lanes) {
        const int32_t counts = trainc_outer_counts(dy + row, images, rows);
        const int8x8_t single = vdup_n_s8(dy[row]);
        for (int32_t lane = 0; lane < lanes; lane += 16) {
            const int32_t at = lane + 16 <= lanes ? lane : lanes - 16;
            int8x16_t q = vdupq_n_s8(0);
            if (counts != 0 && images == 1) {
                q = trainc_outer16(vld1q_s8(x + at), single, &own16, round16);
            } else if (counts != 0) {
                int32x4_t sums[4];
                int32_t kept[16];
                trainc_outer_sums(dy + row, x + at, images, rows, lanes, sums);
                for (int32_t i = 0; i < 4; i++) {
                    vst1q_s32(kept + 4 * i, sums[i]);
                }
                q = trainc_rounded16(kept, kept + 8, &own, round);
            }
            vst1q_s8(y + at, q);
        }
    }
}

TRAINC_SHARED void trainc_outer_half_away(const int8_t *dy, const int8_t *x, int32_t images,
    int32_t rows, int32_t lanes, int8_t *y, const struct trainc_rounding *rounding)
{
    trainc_outer(dy, x, images, rows, lanes, y, rounding, trainc_half_away, trainc_half_away16);
}

TRAINC_SHARED void trainc_outer_pseudo_stochastic(const int8_t *dy, const int8_t *x,
    int32_t images, int32_t rows, int32_t lanes, int8_t *y, const struct trainc_rounding *rounding)
{
    trainc_outer(dy, x, images, rows, lanes, y, rounding, trainc_pseudo_stochastic,
        trainc_pseudo_stochastic16);
}

#endif
