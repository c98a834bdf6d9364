/* The tile kernel of processors with sdot (FEAT_DotProd): rows' panels whole, lanes' in quarters.
 *
 * One sdot adds the products of 4 lanes with one row over 4 k: the row's 4 bytes are a word of
 * the register that holds 16 k of it. */
#ifndef TRAINC_NEON_DOTPROD_H
#define TRAINC_NEON_DOTPROD_H

#include "trainc_neon.h"
#include "trainc_neon_in_place.h"
#include "trainc_neon_packing.h"

#ifdef __ARM_FEATURE_DOTPROD
#define TRAINC_DOTPROD
#else
#define TRAINC_DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#endif

/* sums[row][lane] of 8 by 8 over the blocks of all runs; returns the bits of their magnitudes.
 * The sums have names, since compilers keep arrays of them in memory. */
TRAINC_SHARED TRAINC_DOTPROD uint32x4_t trainc_tile_dotprod(const int8_t *rows,
    const int8_t *lanes, const struct trainc_run *run, int32_t runs, int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    /* Of lanes 0 to 3, and of lanes 4 to 7. */
    int32x4_t l0 = zero, l1 = zero, l2 = zero, l3 = zero, l4 = zero, l5 = zero, l6 = zero,
              l7 = zero;
    int32x4_t h0 = zero, h1 = zero, h2 = zero, h3 = zero, h4 = zero, h5 = zero, h6 = zero,
              h7 = zero;
    for (const struct trainc_run *end = run + runs; run != end; run++) {
        const int8_t *a = rows + run->rows, *b = lanes + run->lanes;
        const int8_t *const stop = a + 128 * (ptrdiff_t)run->blocks;
        do {
            const int8x16x4_t b0 = vld1q_s8_x4(b);
            b += 64;
            TRAINC_OPAQUE(b);
            const int8x16x4_t b1 = vld1q_s8_x4(b);
            b += 64;
            const int8x16x4_t a0 = vld1q_s8_x4(a);
            a += 64;
            TRAINC_OPAQUE(a);
#define TRAINC_ROW(r, k)                                  \
    l##r = vdotq_laneq_s32(l##r, b0.val[0], k, 0);        \
    h##r = vdotq_laneq_s32(h##r, b0.val[1], k, 0);        \
    l##r = vdotq_laneq_s32(l##r, b0.val[2], k, 1);        \
    h##r = vdotq_laneq_s32(h##r, b0.val[3], k, 1);        \
    l##r = vdotq_laneq_s32(l##r, b1.val[0], k, 2);        \
    h##r = vdotq_laneq_s32(h##r, b1.val[1], k, 2);        \
    l##r = vdotq_laneq_s32(l##r, b1.val[2], k, 3);        \
    h##r = vdotq_laneq_s32(h##r, b1.val[3], k, 3)
            TRAINC_ROW(0, a0.val[0]);
            TRAINC_ROW(1, a0.val[1]);
            TRAINC_ROW(2, a0.val[2]);
            TRAINC_ROW(3, a0.val[3]);
            const int8x16x4_t a1 = vld1q_s8_x4(a);
            a += 64;
            TRAINC_ROW(4, a1.val[0]);
            TRAINC_ROW(5, a1.val[1]);
            TRAINC_ROW(6, a1.val[2]);
            TRAINC_ROW(7, a1.val[3]);
#undef TRAINC_ROW
        } while (a != stop);
    }
    uint32x4_t bits = vdupq_n_u32(0);
#define TRAINC_ROW(r)                                                \
    vst1q_s32(sums + 8 * r, l##r);                                   \
    vst1q_s32(sums + 8 * r + 4, h##r);                               \
    bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(l##r)));  \
    bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(h##r)))
    TRAINC_ROW(0);
    TRAINC_ROW(1);
    TRAINC_ROW(2);
    TRAINC_ROW(3);
    TRAINC_ROW(4);
    TRAINC_ROW(5);
    TRAINC_ROW(6);
    TRAINC_ROW(7);
#undef TRAINC_ROW
    return bits;
}

/* sums[panel][lane][row] of panels of rows, each 8 by 8, over all stretches; returns the bits of
 * their magnitudes. Rows are packed in quarters, panels panel_bytes apart. The sums have names,
 * since compilers keep arrays of them in memory; each number of words has a function of its own,
 * since they move them to and fro between branches. */
TRAINC_PART TRAINC_DOTPROD uint32x4_t trainc_tiles_dotprod(const int8_t *rows, int32_t panels,
    int32_t panel_bytes, const int8_t *operand, const int32_t *places,
    const struct trainc_stretch *s, int32_t count, int32_t blocks, int32_t words, int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    const int8_t *const x0 = operand + places[0], *const x1 = operand + places[1];
    const int8_t *const x2 = operand + places[2], *const x3 = operand + places[3];
    const int8_t *const x4 = operand + places[4], *const x5 = operand + places[5];
    const int8_t *const x6 = operand + places[6], *const x7 = operand + places[7];
    uint32x4_t bits = vdupq_n_u32(0);
#define TRAINC_WORD(lane, k, x, low, high)      \
    l##lane = vdotq_laneq_s32(l##lane, low, x, k); \
    h##lane = vdotq_laneq_s32(h##lane, high, x, k)
#define TRAINC_LANES(LANE) \
    LANE(0);               \
    LANE(1);               \
    LANE(2);               \
    LANE(3);               \
    LANE(4);               \
    LANE(5);               \
    LANE(6);               \
    LANE(7)
    for (int32_t panel = 0; panel < panels; panel++) {
        /* Of rows 0 to 3, and of rows 4 to 7. */
        int32x4_t l0 = zero, l1 = zero, l2 = zero, l3 = zero, l4 = zero, l5 = zero, l6 = zero,
                  l7 = zero;
        int32x4_t h0 = zero, h1 = zero, h2 = zero, h3 = zero, h4 = zero, h5 = zero, h6 = zero,
                  h7 = zero;
        for (const struct trainc_stretch *at = s, *end = s + count; at != end; at++) {
            const int8_t *b = rows + at->rows;
            ptrdiff_t k = at->lanes;
            for (int32_t block = blocks; block > 0; block--) {
                const int8x16x4_t b0 = vld1q_s8_x4(b);
                b += 64;
                TRAINC_OPAQUE(b);
                const int8x16x4_t b1 = vld1q_s8_x4(b);
                b += 64;
#define TRAINC_LANE(lane)                              \
    {                                                  \
        const int8x16_t x = vld1q_s8(x##lane + k);     \
        TRAINC_WORD(lane, 0, x, b0.val[0], b0.val[1]); \
        TRAINC_WORD(lane, 1, x, b0.val[2], b0.val[3]); \
        TRAINC_WORD(lane, 2, x, b1.val[0], b1.val[1]); \
        TRAINC_WORD(lane, 3, x, b1.val[2], b1.val[3]); \
    }
            TRAINC_LANES(TRAINC_LANE);
#undef TRAINC_LANE
                k += 16;
            }
            if (words >= 2) {
                const int8x16x4_t b0 = vld1q_s8_x4(b);
                b += 64;
#define TRAINC_LANE(lane)                                               \
    {                                                                   \
        const int8x16_t x = vcombine_s8(vld1_s8(x##lane + k), vdup_n_s8(0)); \
        TRAINC_WORD(lane, 0, x, b0.val[0], b0.val[1]);                  \
        TRAINC_WORD(lane, 1, x, b0.val[2], b0.val[3]);                  \
    }
            TRAINC_LANES(TRAINC_LANE);
#undef TRAINC_LANE
                k += 8;
            }
            if ((words & 1) != 0) {
                const int8x16x2_t b0 = vld1q_s8_x2(b);
#define TRAINC_LANE(lane)                                                              \
    {                                                                                  \
        const int8x16_t x = vreinterpretq_s8_s32(                                      \
            vld1q_lane_s32((const int32_t *)(const void *)(x##lane + k), zero, 0));    \
        TRAINC_WORD(lane, 0, x, b0.val[0], b0.val[1]);                                 \
    }
            TRAINC_LANES(TRAINC_LANE);
#undef TRAINC_LANE
            }
        }
#define TRAINC_LANE(lane)                                              \
    vst1q_s32(sums + 8 * lane, l##lane);                               \
    vst1q_s32(sums + 8 * lane + 4, h##lane);                           \
    bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(l##lane))); \
    bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(h##lane)))
    TRAINC_LANES(TRAINC_LANE);
#undef TRAINC_LANE
        rows += panel_bytes;
        sums += 64;
    }
#undef TRAINC_WORD
#undef TRAINC_LANES
    return bits;
}

TRAINC_TILES_IN_PLACE(dotprod, TRAINC_DOTPROD, tiles, 0)
TRAINC_TILES_IN_PLACE(dotprod, TRAINC_DOTPROD, tiles, 1)
TRAINC_TILES_IN_PLACE(dotprod, TRAINC_DOTPROD, tiles, 2)
TRAINC_TILES_IN_PLACE(dotprod, TRAINC_DOTPROD, tiles, 3)

/* Where a lane's sum of a row is in a tile of these. */
#define TRAINC_AT_DOTPROD(lane, row) (8 * (lane) + (row))
TRAINC_STORES_IN_PLACE(dotprod, turn, TRAINC_AT_DOTPROD)

/* The tile kernel for panels of rows: always this one. */
TRAINC_PART trainc_tile *trainc_tile_for_dotprod(const int8_t *rows, int32_t bytes)
{
    (void)rows;
    (void)bytes;
    return trainc_tile_dotprod;
}

TRAINC_ROWS_IN_PLACE(dotprod, quarters)
TRAINC_PACKING(dotprod, whole, quarters)

#endif
