/* Matrix products of five to eight images by smmla, as those of trainc_neon_matrix.h: weights are read where
 * they lie, images in blocks of 8 k, [blocks][8 images][8 k], zeros where there is no image. */
#ifndef TRAINC_NEON_MATRIX_I8MM_H
#define TRAINC_NEON_MATRIX_I8MM_H

#include "trainc_neon_i8mm.h"
#include "trainc_neon_rounding.h"

/* Where a block of 8 of `count` (8 at least) starts: the last one overlaps the one before. */
TRAINC_PART int32_t trainc_block_of_eight(int32_t first, int32_t count)
{
    return trainc_minimum32(first, count - 8);
}

/* to[block][8 images][8] of x[images][count]; zeros where a block overlaps the one before. */
TRAINC_SHARED void trainc_in_eights(const int8_t *x, int32_t images, int32_t count, int8_t *to)
{
    static const int8_t ramp[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int32_t first = 0; first < count; first += 8) {
        const int32_t start = trainc_block_of_eight(first, count);
        const int8x8_t own = vreinterpret_s8_u8(
            vcge_s8(vld1_s8(ramp), vdup_n_s8((int8_t)(first - start))));
        const int8_t *from = x + start;
        for (int32_t image = 0; image < 8; image++) {
            vst1_s8(to, image < images ? vand_s8(vld1_s8(from), own) : vdup_n_s8(0));
            from += image + 1 < images ? count : 0;
            to += 8;
        }
    }
}

/* What is done for each pair of images: a to d. */
#define TRAINC_IMAGES(IMAGES) \
    IMAGES(a, 0);             \
    IMAGES(b, 1);             \
    IMAGES(c, 2);             \
    IMAGES(d, 3)
/* The sums of a pair of images with four pairs of rows of weights, or of lanes. */
#define TRAINC_SUMS_OF(i, n) int32x4_t i##0 = zero, i##1 = zero, i##2 = zero, i##3 = zero
/* Stores them, images `stride` apart, if they are there. */
#define TRAINC_STORED(i, n)                                                                  \
    if (2 * (n) < images) {                                                                  \
        int32_t *const to = sums + 2 * (n) * (ptrdiff_t)stride;                              \
        bits = vorrq_u32(bits, trainc_store_images(to, i##0, i##1, 2 * (n) + 1 < images, stride)); \
        bits = vorrq_u32(bits,                                                               \
            trainc_store_images(to + 4, i##2, i##3, 2 * (n) + 1 < images, stride));          \
    }

/* Four sums of one image and, if it is there, of the next; returns the bits of the magnitudes. */
TRAINC_PART uint32x4_t trainc_store_images(int32_t *sums, int32x4_t left, int32x4_t right,
    int32_t both, int32_t stride)
{
    const int64x2_t l = vreinterpretq_s64_s32(left), r = vreinterpretq_s64_s32(right);
    vst1q_s32(sums, vreinterpretq_s32_s64(vzip1q_s64(l, r)));
    if (both) {
        vst1q_s32(sums + stride, vreinterpretq_s32_s64(vzip2q_s64(l, r)));
    }
    return vreinterpretq_u32_s32(vorrq_s32(vabsq_s32(left), vabsq_s32(right)));
}

/* sums[images][stride] of 8 rows of weights, k apart. */
TRAINC_PART TRAINC_I8MM uint32x4_t trainc_eight_rows(const int8_t *x, const int8_t *w,
    int32_t images, int32_t k, int32_t stride, int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    TRAINC_IMAGES(TRAINC_SUMS_OF);
    int32_t i = 0;
#define TRAINC_PAIR_OF_ROWS(n, x0, x1)                                                       \
    {                                                                                        \
        const int8_t *const row = w + 2 * (n) * (ptrdiff_t)k + i;                            \
        const int64x2_t u = vreinterpretq_s64_s8(vld1q_s8(row));                             \
        const int64x2_t v = vreinterpretq_s64_s8(vld1q_s8(row + k));                         \
        const int8x16_t low = vreinterpretq_s8_s64(vzip1q_s64(u, v));                        \
        const int8x16_t high = vreinterpretq_s8_s64(vzip2q_s64(u, v));                       \
        TRAINC_WITH(n, x0, low);                                                             \
        TRAINC_WITH(n, x1, high);                                                            \
    }
#define TRAINC_WITH(n, x, y)                   \
    a##n = vmmlaq_s32(a##n, x.val[0], y);      \
    b##n = vmmlaq_s32(b##n, x.val[1], y);      \
    c##n = vmmlaq_s32(c##n, x.val[2], y);      \
    d##n = vmmlaq_s32(d##n, x.val[3], y)
    for (; i + 16 <= k; i += 16) {
        const int8x16x4_t x0 = vld1q_s8_x4(x), x1 = vld1q_s8_x4(x + 64);
        x += 128;
        TRAINC_PAIR_OF_ROWS(0, x0, x1)
        TRAINC_PAIR_OF_ROWS(1, x0, x1)
        TRAINC_PAIR_OF_ROWS(2, x0, x1)
        TRAINC_PAIR_OF_ROWS(3, x0, x1)
    }
#undef TRAINC_PAIR_OF_ROWS
#define TRAINC_PAIR_OF_ROWS(n)                                                               \
    {                                                                                        \
        const int8_t *const row = w + 2 * (n) * (ptrdiff_t)k + start;                        \
        const int8x16_t both = vcombine_s8(vld1_s8(row), vld1_s8(row + k));                  \
        TRAINC_WITH(n, x0, both);                                                            \
    }
    for (; i < k; i += 8) {
        const int32_t start = trainc_block_of_eight(i, k);
        const int8x16x4_t x0 = vld1q_s8_x4(x);
        x += 64;
        TRAINC_PAIR_OF_ROWS(0)
        TRAINC_PAIR_OF_ROWS(1)
        TRAINC_PAIR_OF_ROWS(2)
        TRAINC_PAIR_OF_ROWS(3)
    }
#undef TRAINC_PAIR_OF_ROWS
    uint32x4_t bits = vdupq_n_u32(0);
    TRAINC_IMAGES(TRAINC_STORED)
    return bits;
}

/* The bytes of two rows in turns. */
TRAINC_PART int8x16_t trainc_two_rows(const int8_t *a, const int8_t *b)
{
    const int8x8_t zero = vdup_n_s8(0);
    return vzip1q_s8(vcombine_s8(vld1_s8(a), zero), vcombine_s8(vld1_s8(b), zero));
}

/* sums[images][k] of 8 lanes of weights w[outputs][k], over the outputs. */
TRAINC_PART TRAINC_I8MM uint32x4_t trainc_eight_lanes(const int8_t *dy, const int8_t *w,
    int32_t images, int32_t outputs, int32_t k, int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    const int32_t stride = k;
    TRAINC_IMAGES(TRAINC_SUMS_OF);
    for (int32_t first = 0; first < outputs; first += 8) {
        const int8_t *const row = w + trainc_block_of_eight(first, outputs) * (ptrdiff_t)k;
        const int8x16x4_t x = vld1q_s8_x4(dy);
        dy += 64;
        /* Rows 4 apart, 2 apart, and neighbours: of each lane 8 outputs. */
#define TRAINC_ROWS_OF(n) trainc_two_rows(row + (n) * (ptrdiff_t)k, row + (4 + (n)) * (ptrdiff_t)k)
        const int8x16_t r0 = TRAINC_ROWS_OF(0), r1 = TRAINC_ROWS_OF(1);
        const int8x16_t r2 = TRAINC_ROWS_OF(2), r3 = TRAINC_ROWS_OF(3);
#undef TRAINC_ROWS_OF
        const int8x16_t even0 = vzip1q_s8(r0, r2), even1 = vzip2q_s8(r0, r2);
        const int8x16_t odd0 = vzip1q_s8(r1, r3), odd1 = vzip2q_s8(r1, r3);
        TRAINC_WITH(0, x, vzip1q_s8(even0, odd0));
        TRAINC_WITH(1, x, vzip2q_s8(even0, odd0));
        TRAINC_WITH(2, x, vzip1q_s8(even1, odd1));
        TRAINC_WITH(3, x, vzip2q_s8(even1, odd1));
    }
    uint32x4_t bits = vdupq_n_u32(0);
    TRAINC_IMAGES(TRAINC_STORED)
    return bits;
}

#undef TRAINC_IMAGES
#undef TRAINC_SUMS_OF
#undef TRAINC_STORED
#undef TRAINC_WITH

/* The bits of the magnitudes of the sums of units begin to end of 8 rows; the last unit also has the rows that
 * fill none. sums[images][outputs]. */
TRAINC_SHARED TRAINC_I8MM int32_t trainc_dots_i8mm(const int8_t *x, const int8_t *w, int32_t images,
    int32_t outputs, int32_t k, int32_t begin, int32_t end, int32_t *sums)
{
    uint32x4_t bits = vdupq_n_u32(0);
    const int32_t last = end == outputs / 8 && outputs % 8 != 0 ? end + 1 : end;
    for (int32_t unit = begin; unit < last; unit++) {
        const int32_t row = trainc_block_of_eight(8 * unit, outputs);
        bits = vorrq_u32(bits,
            trainc_eight_rows(x, w + row * (ptrdiff_t)k, images, k, outputs, sums + row));
    }
    return trainc_magnitude_bits(bits);
}

/* The same of an error: units of 8 lanes. sums[images][k]. */
TRAINC_SHARED TRAINC_I8MM int32_t trainc_errors_i8mm(const int8_t *dy, const int8_t *w,
    int32_t images, int32_t outputs, int32_t k, int32_t begin, int32_t end, int32_t *sums)
{
    uint32x4_t bits = vdupq_n_u32(0);
    const int32_t last = end == k / 8 && k % 8 != 0 ? end + 1 : end;
    for (int32_t unit = begin; unit < last; unit++) {
        const int32_t lane = trainc_block_of_eight(8 * unit, k);
        bits = vorrq_u32(bits,
            trainc_eight_lanes(dy, w + lane, images, outputs, k, sums + lane));
    }
    return trainc_magnitude_bits(bits);
}

#endif
