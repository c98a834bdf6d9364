/* The tile kernels of any processor with NEON: all panels whole.
 *
 * A sum has 4 lanes of partial sums. Two products of 8-bit integers are added in 16 bits before
 * they are widened, unless the rows hold -128: -128 * -128 twice is 1 too much. */
#ifndef TRAINC_NEON_BASELINE_H
#define TRAINC_NEON_BASELINE_H

#include "trainc_neon.h"
#include "trainc_neon_packing.h"

/* Rows of a pass that keeps its sums in registers. */
#ifdef __aarch64__
#define TRAINC_PASS 4
#else
#define TRAINC_PASS 2
#endif

TRAINC_PART int16x8_t trainc_multiply_high(int8x16_t a, int8x16_t b)
{
#ifdef __aarch64__
    return vmull_high_s8(a, b);
#else
    return vmull_s8(vget_high_s8(a), vget_high_s8(b));
#endif
}

TRAINC_PART int16x8_t trainc_multiply_both(int8x16_t a, int8x16_t b)
{
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
#ifdef __aarch64__
    return vmlal_high_s8(low, a, b);
#else
    return vmlal_s8(low, vget_high_s8(a), vget_high_s8(b));
#endif
}

/* The sums of the lanes of 4 vectors. */
TRAINC_PART int32x4_t trainc_sums4(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d)
{
#ifdef __aarch64__
    return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
#else
    const int32x2_t ab = vpadd_s32(vadd_s32(vget_low_s32(a), vget_high_s32(a)),
        vadd_s32(vget_low_s32(b), vget_high_s32(b)));
    const int32x2_t cd = vpadd_s32(vadd_s32(vget_low_s32(c), vget_high_s32(c)),
        vadd_s32(vget_low_s32(d), vget_high_s32(d)));
    return vcombine_s32(ab, cd);
#endif
}

/* Keeps products of different rows apart: all of them at once are more than there are registers. */
#define TRAINC_AFTER(k, r) __asm__("" : "+w"(k) : "w"(r##0), "w"(r##1), "w"(r##2), "w"(r##3))

/* sums[row][lane] of 8 by 8 over the blocks of all runs; returns the bits of their magnitudes.
 * The sums have names, since compilers keep arrays of them in memory. */
TRAINC_PART uint32x4_t trainc_tile_widening(const int8_t *rows, const int8_t *lanes,
    const struct trainc_run *run, int32_t runs, int32_t *sums, int lowest)
{
    const int32x4_t zero = vdupq_n_s32(0);
    uint32x4_t bits = vdupq_n_u32(0);
    for (int32_t pass = 0; pass < 16 / TRAINC_PASS; pass++) {
        const int32_t row = pass / 2 * TRAINC_PASS, lane = pass % 2 * 4;
        int32x4_t a0 = zero, a1 = zero, a2 = zero, a3 = zero;
        int32x4_t b0 = zero, b1 = zero, b2 = zero, b3 = zero;
#if TRAINC_PASS == 4
        int32x4_t c0 = zero, c1 = zero, c2 = zero, c3 = zero;
        int32x4_t d0 = zero, d1 = zero, d2 = zero, d3 = zero;
#endif
        for (int32_t i = 0; i < runs; i++) {
            const int8_t *x = rows + run[i].rows + 16 * row;
            const int8_t *y = lanes + run[i].lanes + 16 * lane;
            const int8_t *const stop = x + 128 * (ptrdiff_t)run[i].blocks;
            do {
                const int8x16_t y0 = vld1q_s8(y), y1 = vld1q_s8(y + 16);
                const int8x16_t y2 = vld1q_s8(y + 32), y3 = vld1q_s8(y + 48);
                int8x16_t k;
#define TRAINC_PRODUCT(sum, l)                                                          \
    if (lowest) {                                                                       \
        sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(k), vget_low_s8(l)));               \
        sum = vpadalq_s16(sum, trainc_multiply_high(k, l));                             \
    } else {                                                                            \
        sum = vpadalq_s16(sum, trainc_multiply_both(k, l));                             \
    }
#define TRAINC_ROW(r)         \
    TRAINC_PRODUCT(r##0, y0)  \
    TRAINC_PRODUCT(r##1, y1)  \
    TRAINC_PRODUCT(r##2, y2)  \
    TRAINC_PRODUCT(r##3, y3)
                k = vld1q_s8(x);
                TRAINC_ROW(a)
                k = vld1q_s8(x + 16);
                TRAINC_AFTER(k, a);
                TRAINC_ROW(b)
#if TRAINC_PASS == 4
                k = vld1q_s8(x + 32);
                TRAINC_AFTER(k, b);
                TRAINC_ROW(c)
                k = vld1q_s8(x + 48);
                TRAINC_AFTER(k, c);
                TRAINC_ROW(d)
#endif
#undef TRAINC_ROW
#undef TRAINC_PRODUCT
                x += 128;
                y += 128;
            } while (x != stop);
        }
        int32_t *to = sums + 8 * row + lane;
#define TRAINC_ROW(r)                                                       \
    {                                                                       \
        const int32x4_t total = trainc_sums4(r##0, r##1, r##2, r##3);       \
        vst1q_s32(to, total);                                               \
        bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(total)));    \
        to += 8;                                                            \
    }
        TRAINC_ROW(a)
        TRAINC_ROW(b)
#if TRAINC_PASS == 4
        TRAINC_ROW(c)
        TRAINC_ROW(d)
#endif
#undef TRAINC_ROW
    }
    return bits;
}

TRAINC_SHARED uint32x4_t trainc_tile_any(const int8_t *rows, const int8_t *lanes,
    const struct trainc_run *run, int32_t runs, int32_t *sums)
{
    return trainc_tile_widening(rows, lanes, run, runs, sums, 1);
}

/* Of rows without -128. */
TRAINC_SHARED uint32x4_t trainc_tile_symmetric(const int8_t *rows, const int8_t *lanes,
    const struct trainc_run *run, int32_t runs, int32_t *sums)
{
    return trainc_tile_widening(rows, lanes, run, runs, sums, 0);
}

/* The tile kernel for panels of rows of so many bytes. */
TRAINC_SHARED trainc_tile *trainc_tile_for_baseline(const int8_t *rows, int32_t bytes)
{
    int8x16_t least = vdupq_n_s8(0);
    for (int32_t i = 0; i < bytes; i += 64) {
        const int8x16_t a = vminq_s8(vld1q_s8(rows + i), vld1q_s8(rows + i + 16));
        const int8x16_t b = vminq_s8(vld1q_s8(rows + i + 32), vld1q_s8(rows + i + 48));
        least = vminq_s8(least, vminq_s8(a, b));
    }
    int8_t all[16];
    int lowest = 0;
    vst1q_s8(all, least);
    for (int i = 0; i < 16; i++) {
        lowest |= all[i] == -128;
    }
    return lowest ? trainc_tile_any : trainc_tile_symmetric;
}

TRAINC_PACKING(baseline, whole, whole)

#endif
