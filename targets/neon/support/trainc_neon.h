/* What the kernels of 8-bit integer products share: panels, their packing, and the rounding of
 * sums. C99 with NEON intrinsics, for AArch64 and Armv7; no global state.
 *
 * A product sums over k for a row (an output channel) and a lane (a place of the image, or an
 * input channel). Both operands are packed into panels of 8 rows or 8 lanes. A panel is a
 * sequence of blocks of 16 k: 128 bytes, in one of three orders:
 *   whole:    [8 units][16 k]
 *   halves:   [2][8 units][8 k]
 *   quarters: [4][8 units][4 k]
 * What a processor multiplies best decides the orders; the tile kernels of the other headers
 * take the rows' and lanes' panels in the orders that they state.
 */
#ifndef TRAINC_NEON_H
#define TRAINC_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "trainc_rt.h"

/* Functions that a model may do without, and that stand once however many kernels call them. */
#define TRAINC_SHARED static __attribute__((noinline, unused))
/* Those that gain nothing by a copy for some arguments' values, of which compilers grant a model only so
 * many: smaller ones that tiles and rows call for gain more. */
#if defined(__GNUC__) && !defined(__clang__)
#define TRAINC_SINGLE static __attribute__((noinline, noclone, unused))
#else
#define TRAINC_SINGLE TRAINC_SHARED
#endif
/* Parts of those. */
#define TRAINC_PART static inline __attribute__((always_inline, unused))

/* Hides from the compiler where a pointer comes from, so that it stays one register that loads step
 * forward, not two that are copied to and fro. */
#define TRAINC_OPAQUE(pointer) __asm__("" : "+r"(pointer))

/* Up to eight of what there is from a panel on. */
TRAINC_PART int32_t trainc_of_panel(int32_t count, int32_t panel)
{
    return trainc_minimum32(count - 8 * panel, 8);
}

/* The bits of all parts. */
TRAINC_PART int32_t trainc_all_bits(const int32_t *bits, int32_t parts)
{
    int32_t all = 0;
    for (int32_t part = 0; part < parts; part++) {
        all |= bits[part];
    }
    return all;
}

/* Successive blocks that a tile multiplies: offsets into the panels in bytes. */
struct trainc_run {
    int32_t rows;
    int32_t lanes;
    int32_t blocks;
};

/* A tile kernel: sums[row][lane] of 8 by 8 over the blocks of all runs of two panels. Returns the
 * bits of the sums' magnitudes. */
typedef uint32x4_t trainc_tile(const int8_t *rows, const int8_t *lanes,
    const struct trainc_run *run, int32_t runs, int32_t *sums);
/* Stores the 16 k of one unit of a block. */
typedef void trainc_put(int8_t *block, int32_t unit, int8x16_t k);
/* Packs 8 sources of 16 k a block. */
typedef void trainc_pack(const int8_t *const *sources, int32_t blocks, int8_t *panel);

TRAINC_PART void trainc_put_whole(int8_t *block, int32_t unit, int8x16_t k)
{
    vst1q_s8(block + 16 * unit, k);
}

TRAINC_PART void trainc_put_halves(int8_t *block, int32_t unit, int8x16_t k)
{
    vst1_s8(block + 8 * unit, vget_low_s8(k));
    vst1_s8(block + 64 + 8 * unit, vget_high_s8(k));
}

TRAINC_PART void trainc_put_quarters(int8_t *block, int32_t unit, int8x16_t k)
{
    int32_t *at = (int32_t *)(void *)(block + 4 * unit);
    const int32x4_t quarters = vreinterpretq_s32_s8(k);
    vst1q_lane_s32(at, quarters, 0);
    vst1q_lane_s32(at + 8, quarters, 1);
    vst1q_lane_s32(at + 16, quarters, 2);
    vst1q_lane_s32(at + 24, quarters, 3);
}

TRAINC_SHARED void trainc_pack_whole(const int8_t *const *sources, int32_t blocks, int8_t *panel)
{
    for (int32_t unit = 0; unit < 8; unit++) {
        const int8_t *from = sources[unit];
        int8_t *to = panel + 16 * unit;
        for (int32_t block = 0; block < blocks; block++) {
            vst1q_s8(to, vld1q_s8(from));
            from += 16;
            to += 128;
        }
    }
}

TRAINC_SHARED void trainc_pack_halves(const int8_t *const *sources, int32_t blocks, int8_t *panel)
{
    for (int32_t unit = 0; unit < 8; unit += 2) {
        const int8_t *from0 = sources[unit], *from1 = sources[unit + 1];
        int8_t *to = panel + 8 * unit;
        for (int32_t block = 0; block < blocks; block++) {
            const int8x16_t a = vld1q_s8(from0), b = vld1q_s8(from1);
            vst1q_s8(to, vcombine_s8(vget_low_s8(a), vget_low_s8(b)));
            vst1q_s8(to + 64, vcombine_s8(vget_high_s8(a), vget_high_s8(b)));
            from0 += 16;
            from1 += 16;
            to += 128;
        }
    }
}

TRAINC_SHARED void trainc_pack_quarters(const int8_t *const *sources, int32_t blocks,
    int8_t *panel)
{
    for (int32_t unit = 0; unit < 8; unit += 4) {
        const int8_t *from0 = sources[unit], *from1 = sources[unit + 1];
        const int8_t *from2 = sources[unit + 2], *from3 = sources[unit + 3];
        int8_t *to = panel + 4 * unit;
        for (int32_t block = 0; block < blocks; block++) {
            /* A transposition of 4 by 4 words. */
            const int32x4x2_t ac = vzipq_s32(vreinterpretq_s32_s8(vld1q_s8(from0)),
                vreinterpretq_s32_s8(vld1q_s8(from2)));
            const int32x4x2_t bd = vzipq_s32(vreinterpretq_s32_s8(vld1q_s8(from1)),
                vreinterpretq_s32_s8(vld1q_s8(from3)));
            const int32x4x2_t low = vzipq_s32(ac.val[0], bd.val[0]);
            const int32x4x2_t high = vzipq_s32(ac.val[1], bd.val[1]);
            vst1q_s8(to, vreinterpretq_s8_s32(low.val[0]));
            vst1q_s8(to + 32, vreinterpretq_s8_s32(low.val[1]));
            vst1q_s8(to + 64, vreinterpretq_s8_s32(high.val[0]));
            vst1q_s8(to + 96, vreinterpretq_s8_s32(high.val[1]));
            from0 += 16;
            from1 += 16;
            from2 += 16;
            from3 += 16;
            to += 128;
        }
    }
}

TRAINC_SHARED void trainc_zero(int8_t *place, int32_t bytes)
{
    const int8x16_t zero = vdupq_n_s8(0);
    int32_t i = 0;
    for (; i + 64 <= bytes; i += 64) {
        vst1q_s8(place + i, zero);
        vst1q_s8(place + i + 16, zero);
        vst1q_s8(place + i + 32, zero);
        vst1q_s8(place + i + 48, zero);
    }
    for (; i + 16 <= bytes; i += 16) {
        vst1q_s8(place + i, zero);
    }
    for (; i < bytes; i++) {
        place[i] = 0;
    }
}

/* dst[j][i] = src[i][j] of 16 by 16 bytes; rows of src lie src_stride bytes apart, dst is dense.
 * Each of the two passes moves two of the four bits of i. */
TRAINC_SHARED void trainc_transpose16(const int8_t *src, ptrdiff_t src_stride, int8_t *dst)
{
    /* [4 fours of rows][16 columns], words of four rows. */
    int32_t half[64];
    for (int32_t i = 0; i < 4; i++) {
        int8x16x4_t v;
        for (int32_t r = 0; r < 4; r++) {
            v.val[r] = vld1q_s8(src);
            src += src_stride;
        }
        vst4q_s8((int8_t *)half + 64 * i, v);
    }
    for (int32_t j = 0; j < 16; j += 4) {
        int32x4x4_t v;
        for (int32_t i = 0; i < 4; i++) {
            v.val[i] = vreinterpretq_s32_s8(vld1q_s8((int8_t *)half + 64 * i + 4 * j));
        }
        vst4q_s32((int32_t *)(void *)(dst + 16 * j), v);
    }
}

#endif
