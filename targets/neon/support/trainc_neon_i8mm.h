/* The tile kernel of processors with smmla (FEAT_I8MM): all panels in halves.
 *
 * One smmla adds the 2 by 2 products of two rows with two lanes over 8 k. */
#ifndef TRAINC_NEON_I8MM_H
#define TRAINC_NEON_I8MM_H

#include "trainc_neon.h"
#include "trainc_neon_in_place.h"
#include "trainc_neon_packing.h"

#ifdef __ARM_FEATURE_MATMUL_INT8
#define TRAINC_I8MM
#else
#define TRAINC_I8MM __attribute__((target("arch=armv8.2-a+i8mm")))
#endif

/* The rows of two registers of 2 by 2 sums; returns the bits of their magnitudes. */
TRAINC_PART uint32x4_t trainc_store_2x4(int32_t *sums, int32x4_t left, int32x4_t right)
{
    const int64x2_t l = vreinterpretq_s64_s32(left), r = vreinterpretq_s64_s32(right);
    vst1q_s32(sums, vreinterpretq_s32_s64(vzip1q_s64(l, r)));
    vst1q_s32(sums + 8, vreinterpretq_s32_s64(vzip2q_s64(l, r)));
    return vreinterpretq_u32_s32(vorrq_s32(vabsq_s32(left), vabsq_s32(right)));
}

/* sums[row][lane] of 8 by 8 over the blocks of all runs; returns the bits of their magnitudes.
 * The sums have names, since compilers keep arrays of them in memory. */
TRAINC_SHARED TRAINC_I8MM uint32x4_t trainc_tile_i8mm(const int8_t *rows, const int8_t *lanes,
    const struct trainc_run *run, int32_t runs, int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    /* Of the rows 0 and 1, 2 and 3, ..; each with the lanes 0 and 1, 2 and 3, .. */
    int32x4_t a0 = zero, a1 = zero, a2 = zero, a3 = zero;
    int32x4_t b0 = zero, b1 = zero, b2 = zero, b3 = zero;
    int32x4_t c0 = zero, c1 = zero, c2 = zero, c3 = zero;
    int32x4_t d0 = zero, d1 = zero, d2 = zero, d3 = zero;
    for (const struct trainc_run *end = run + runs; run != end; run++) {
        const int8_t *row = rows + run->rows, *lane = lanes + run->lanes;
        const int8_t *const stop = row + 128 * (ptrdiff_t)run->blocks;
        do {
#define TRAINC_ROWS(r, k)                       \
    r##0 = vmmlaq_s32(r##0, k, y.val[0]);       \
    r##1 = vmmlaq_s32(r##1, k, y.val[1]);       \
    r##2 = vmmlaq_s32(r##2, k, y.val[2]);       \
    r##3 = vmmlaq_s32(r##3, k, y.val[3])
#define TRAINC_HALF                                 \
    {                                               \
        const int8x16x4_t x = vld1q_s8_x4(row);     \
        const int8x16x4_t y = vld1q_s8_x4(lane);    \
        row += 64;                                  \
        lane += 64;                                 \
        TRAINC_OPAQUE(row);                         \
        TRAINC_OPAQUE(lane);                        \
        TRAINC_ROWS(a, x.val[0]);                   \
        TRAINC_ROWS(b, x.val[1]);                   \
        TRAINC_ROWS(c, x.val[2]);                   \
        TRAINC_ROWS(d, x.val[3]);                   \
    }
            TRAINC_HALF
            TRAINC_HALF
#undef TRAINC_HALF
#undef TRAINC_ROWS
        } while (row != stop);
    }
    uint32x4_t bits = trainc_store_2x4(sums, a0, a1);
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 4, a2, a3));
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 16, b0, b1));
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 20, b2, b3));
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 32, c0, c1));
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 36, c2, c3));
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 48, d0, d1));
    return vorrq_u32(bits, trainc_store_2x4(sums + 52, d2, d3));
}

/* sums[panel][lane][row] of panels of rows, each 8 by 8, over all stretches, whose words are even in
 * number; returns the bits of their magnitudes. Rows are packed in halves, panels panel_bytes
 * apart. */
TRAINC_PART TRAINC_I8MM uint32x4_t trainc_tiles_i8mm(const int8_t *rows, int32_t panels,
    int32_t panel_bytes, const int8_t *operand, const int32_t *places,
    const struct trainc_stretch *s, int32_t count, int32_t blocks, int32_t words, int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    const int8_t *const x0 = operand + places[0], *const x1 = operand + places[1];
    const int8_t *const x2 = operand + places[2], *const x3 = operand + places[3];
    const int8_t *const x4 = operand + places[4], *const x5 = operand + places[5];
    const int8_t *const x6 = operand + places[6], *const x7 = operand + places[7];
    uint32x4_t bits = vdupq_n_u32(0);
#define TRAINC_PAIR(l, x, y)                    \
    l##0 = vmmlaq_s32(l##0, x, y.val[0]);       \
    l##1 = vmmlaq_s32(l##1, x, y.val[1]);       \
    l##2 = vmmlaq_s32(l##2, x, y.val[2]);       \
    l##3 = vmmlaq_s32(l##3, x, y.val[3])
    for (int32_t panel = 0; panel < panels; panel++) {
        /* Of the lanes 0 and 1, 2 and 3, ..; each with the rows 0 and 1, 2 and 3, .. */
        int32x4_t a0 = zero, a1 = zero, a2 = zero, a3 = zero;
        int32x4_t b0 = zero, b1 = zero, b2 = zero, b3 = zero;
        int32x4_t c0 = zero, c1 = zero, c2 = zero, c3 = zero;
        int32x4_t d0 = zero, d1 = zero, d2 = zero, d3 = zero;
        for (const struct trainc_stretch *at = s, *end = s + count; at != end; at++) {
            const int8_t *y = rows + at->rows;
            ptrdiff_t k = at->lanes;
            for (int32_t block = blocks; block > 0; block--) {
                const int8x16x4_t y0 = vld1q_s8_x4(y);
                y += 64;
                TRAINC_OPAQUE(y);
                const int8x16x4_t y1 = vld1q_s8_x4(y);
                y += 64;
#define TRAINC_LANES(l, first, second)                                           \
        {                                                                            \
            const int64x2_t u = vreinterpretq_s64_s8(vld1q_s8(first + k));           \
            const int64x2_t v = vreinterpretq_s64_s8(vld1q_s8(second + k));          \
            TRAINC_PAIR(l, vreinterpretq_s8_s64(vzip1q_s64(u, v)), y0);              \
            TRAINC_PAIR(l, vreinterpretq_s8_s64(vzip2q_s64(u, v)), y1);              \
        }
                TRAINC_LANES(a, x0, x1);
                TRAINC_LANES(b, x2, x3);
                TRAINC_LANES(c, x4, x5);
                TRAINC_LANES(d, x6, x7);
#undef TRAINC_LANES
                k += 16;
            }
            if (words != 0) {
                const int8x16x4_t y0 = vld1q_s8_x4(y);
                TRAINC_PAIR(a, vcombine_s8(vld1_s8(x0 + k), vld1_s8(x1 + k)), y0);
                TRAINC_PAIR(b, vcombine_s8(vld1_s8(x2 + k), vld1_s8(x3 + k)), y0);
                TRAINC_PAIR(c, vcombine_s8(vld1_s8(x4 + k), vld1_s8(x5 + k)), y0);
                TRAINC_PAIR(d, vcombine_s8(vld1_s8(x6 + k), vld1_s8(x7 + k)), y0);
            }
        }
        bits = vorrq_u32(bits, trainc_store_2x4(sums, a0, a1));
        bits = vorrq_u32(bits, trainc_store_2x4(sums + 4, a2, a3));
        bits = vorrq_u32(bits, trainc_store_2x4(sums + 16, b0, b1));
        bits = vorrq_u32(bits, trainc_store_2x4(sums + 20, b2, b3));
        bits = vorrq_u32(bits, trainc_store_2x4(sums + 32, c0, c1));
        bits = vorrq_u32(bits, trainc_store_2x4(sums + 36, c2, c3));
        bits = vorrq_u32(bits, trainc_store_2x4(sums + 48, d0, d1));
        bits = vorrq_u32(bits, trainc_store_2x4(sums + 52, d2, d3));
        rows += panel_bytes;
        sums += 64;
    }
#undef TRAINC_PAIR
    return bits;
}

TRAINC_TILES_IN_PLACE(i8mm, TRAINC_I8MM, 0)
TRAINC_TILES_IN_PLACE(i8mm, TRAINC_I8MM, 2)

/* The tile kernel for panels of rows: always this one. */
TRAINC_PART trainc_tile *trainc_tile_for_i8mm(const int8_t *rows, int32_t bytes)
{
    (void)rows;
    (void)bytes;
    return trainc_tile_i8mm;
}

TRAINC_ROWS_IN_PLACE(i8mm, halves)
TRAINC_PACKING(i8mm, halves, halves)

#endif
