/* Products of packed bits that stand for 1 and -1: exclusive or, and counts of ones (`cnt`). C99
 * with NEON intrinsics, for AArch64 and Armv7; no global state. */
#ifndef TRAINC_NEON_BITS_H
#define TRAINC_NEON_BITS_H

#include "trainc_neon.h"

/* How many bits of a window differ from those of its weights: `rows` rows of `bytes` bytes each,
 * `x_step` and `w_step` bytes from a row to the next. */
TRAINC_PART int32_t trainc_bits_that_differ(const uint8_t *x, int32_t x_step, const uint8_t *w,
    int32_t w_step, int32_t rows, int32_t bytes)
{
    uint32x4_t sum = vdupq_n_u32(0);
    for (int32_t row = 0; row < rows; row++) {
        const uint8_t *a = x;
        const uint8_t *b = w;
        int32_t left = bytes;
        while (left >= 16) {
            /* A count is at most 8: a byte holds the sum of 31. */
            int32_t blocks = left / 16 < 31 ? left / 16 : 31;
            uint8x16_t counts = vdupq_n_u8(0);
            left -= 16 * blocks;
            for (; blocks > 0; blocks--) {
                counts = vaddq_u8(counts, vcntq_u8(veorq_u8(vld1q_u8(a), vld1q_u8(b))));
                a += 16;
                b += 16;
            }
            sum = vpadalq_u16(sum, vpaddlq_u8(counts));
        }
        if (left >= 8) {
            const uint8x8_t counts = vcnt_u8(veor_u8(vld1_u8(a), vld1_u8(b)));
            sum = vaddw_u16(sum, vpaddl_u8(counts));
            a += 8;
            b += 8;
            left -= 8;
        }
        if (left > 0) {
            uint64_t rest = 0;
            for (int32_t i = 0; i < left; i++) {
                rest |= (uint64_t)(uint8_t)(a[i] ^ b[i]) << (8 * i);
            }
            sum = vaddw_u16(sum, vpaddl_u8(vcnt_u8(vcreate_u8(rest))));
        }
        x += x_step;
        w += w_step;
    }
    const uint64x2_t pairs = vpaddlq_u32(sum);
    return (int32_t)(vgetq_lane_u64(pairs, 0) + vgetq_lane_u64(pairs, 1));
}

#endif
