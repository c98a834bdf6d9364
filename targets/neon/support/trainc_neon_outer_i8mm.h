/* Outer products of five to eight images by smmla (trainc_neon_outer.h): of both operands the images
 * come last, [rows or lanes][8 images], and zeros where there is no image. */
#ifndef TRAINC_NEON_OUTER_I8MM_H
#define TRAINC_NEON_OUTER_I8MM_H

#include "trainc_neon_i8mm.h"
#include "trainc_neon_rounding.h"

/* to[place][image] = x[image][place]. */
TRAINC_SHARED void trainc_eight_images(const int8_t *x, int32_t images, int32_t places, int8_t *to)
{
    if (places < 16) {
        for (int32_t place = 0; place < places; place++) {
            for (int32_t image = 0; image < 8; image++) {
                *to++ = image < images ? x[image * places + place] : 0;
            }
        }
        return;
    }
    for (int32_t first = 0; first < places; first += 16) {
        const int32_t place = trainc_minimum32(first, places - 16);
        int8_t *at = to + 8 * place;
        int8x16_t v[8];
        int8x16x2_t fours[4];
        for (int32_t i = 0; i < 8; i++) {
            v[i] = i < images ? vld1q_s8(x + i * places + place) : vdupq_n_s8(0);
        }
        for (int32_t i = 0; i < 4; i++) {
            fours[i] = vzipq_s8(v[i], v[4 + i]);
        }
        for (int32_t half = 0; half < 2; half++) {
            const int8x16x2_t even = vzipq_s8(fours[0].val[half], fours[2].val[half]);
            const int8x16x2_t odd = vzipq_s8(fours[1].val[half], fours[3].val[half]);
            for (int32_t i = 0; i < 2; i++) {
                const int8x16x2_t all = vzipq_s8(even.val[i], odd.val[i]);
                vst1q_s8(at, all.val[0]);
                vst1q_s8(at + 16, all.val[1]);
                at += 32;
            }
        }
    }
}

/* Both operands; where rows are odd in number, zeros behind the last. */
TRAINC_SHARED void trainc_outer_operands_i8mm(const int8_t *dy, const int8_t *x, int32_t images,
    int32_t rows, int32_t lanes, int8_t *errors, int8_t *operand)
{
    trainc_eight_images(dy, images, rows, errors);
    if (rows % 2 != 0) {
        vst1_s8(errors + 8 * rows, vdup_n_s8(0));
    }
    trainc_eight_images(x, images, lanes, operand);
}

/* The bits of two registers of sums. */
TRAINC_PART TRAINC_I8MM uint32x4_t trainc_outer_pair_bits(int8x16_t rows, int8x16_t a, int8x16_t b)
{
    const int32x4_t zero = vdupq_n_s32(0);
    return vreinterpretq_u32_s32(vorrq_s32(vabsq_s32(vmmlaq_s32(zero, rows, a)),
        vabsq_s32(vmmlaq_s32(zero, rows, b))));
}

/* The bits of the magnitudes of all sums. */
TRAINC_SHARED TRAINC_I8MM uint32x4_t trainc_outer_bits_i8mm(const int8_t *errors,
    const int8_t *operand, int32_t images, int32_t rows, int32_t lanes)
{
    uint32x4_t bits = vdupq_n_u32(0), others = bits;
    (void)images;
    for (int32_t row = 0; row < rows; row += 4) {
        const int8x16_t near = vld1q_s8(errors + 8 * row);
        /* The two next rows, or the same ones again. */
        const int8x16_t next = vld1q_s8(errors + 8 * (row + 2 < rows ? row + 2 : row));
        const int8_t *at = operand;
        int32_t lane = 0;
        for (; lane + 8 <= lanes; lane += 8) {
            const int8x16x4_t v = vld1q_s8_x4(at);
            at += 64;
            TRAINC_OPAQUE(at);
            bits = vorrq_u32(bits, trainc_outer_pair_bits(near, v.val[0], v.val[1]));
            others = vorrq_u32(others, trainc_outer_pair_bits(near, v.val[2], v.val[3]));
            bits = vorrq_u32(bits, trainc_outer_pair_bits(next, v.val[0], v.val[1]));
            others = vorrq_u32(others, trainc_outer_pair_bits(next, v.val[2], v.val[3]));
        }
        for (; lane < lanes; lane++) {
            /* One lane twice. */
            const int8x8_t one = vld1_s8(at);
            const int8x16_t both = vcombine_s8(one, one);
            at += 8;
            bits = vorrq_u32(bits, trainc_outer_pair_bits(near, both, both));
            others = vorrq_u32(others, trainc_outer_pair_bits(next, both, both));
        }
    }
    return vorrq_u32(bits, others);
}

/* Results of two rows and 8 lanes: pairs of lanes of one row, of the other, and so on. */
TRAINC_PART TRAINC_I8MM int16x8_t trainc_outer_two_rows(int8x16_t rows, int8x16x4_t v,
    const struct trainc_rounding *rounding, trainc_rounded *round)
{
    const int32x4_t zero = vdupq_n_s32(0);
    return vreinterpretq_s16_s8(trainc_rounded_sums(vmmlaq_s32(zero, rows, v.val[0]),
        vmmlaq_s32(zero, rows, v.val[1]), vmmlaq_s32(zero, rows, v.val[2]),
        vmmlaq_s32(zero, rows, v.val[3]), rounding, round));
}

/* The results, y[rows][lanes] of at least 16 lanes; the last 16 of a row overlap those before. */
TRAINC_PART TRAINC_I8MM void trainc_outer_results_i8mm(const int8_t *errors, const int8_t *operand,
    int32_t rows, int32_t lanes, int8_t *y, const struct trainc_rounding *rounding,
    trainc_rounded *round)
{
    const struct trainc_rounding own = *rounding;
    for (int32_t row = 0; row < rows; row += 2, y += 2 * lanes) {
        const int8x16_t two = vld1q_s8(errors + 8 * row);
        for (int32_t first = 0; first < lanes; first += 16) {
            const int32_t lane = trainc_minimum32(first, lanes - 16);
            const int8_t *const at = operand + 8 * lane;
            const int16x8x2_t q = vuzpq_s16(
                trainc_outer_two_rows(two, vld1q_s8_x4(at), &own, round),
                trainc_outer_two_rows(two, vld1q_s8_x4(at + 64), &own, round));
            vst1q_s8(y + lane, vreinterpretq_s8_s16(q.val[0]));
            if (row + 1 < rows) {
                vst1q_s8(y + lanes + lane, vreinterpretq_s8_s16(q.val[1]));
            }
        }
    }
}

#define TRAINC_OUTER_I8MM(rounding_)                                                      \
    TRAINC_SHARED TRAINC_I8MM void trainc_outer_i8mm_##rounding_(const int8_t *errors,    \
        const int8_t *operand, int32_t images, int32_t rows, int32_t lanes, int8_t *y,    \
        const struct trainc_rounding *rounding)                                           \
    {                                                                                     \
        (void)images;                                                                     \
        trainc_outer_results_i8mm(errors, operand, rows, lanes, y, rounding,              \
            trainc_##rounding_);                                                          \
    }

TRAINC_OUTER_I8MM(half_away)
TRAINC_OUTER_I8MM(pseudo_stochastic)

#undef TRAINC_OUTER_I8MM

#endif
