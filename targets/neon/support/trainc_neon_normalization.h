/* The rounding of batch normalizations' sums to 8-bit integers. */
#ifndef TRAINC_NEON_NORMALIZATION_H
#define TRAINC_NEON_NORMALIZATION_H

#include "trainc_neon.h"
#include "trainc_neon_rounding.h"

/* Multipliers of the hash whose bits round: lowbias32 (numeric/dither.rs). */
#define TRAINC_FIRST_MULTIPLIER UINT32_C(0x7feb352d)
#define TRAINC_SECOND_MULTIPLIER UINT32_C(0x846ca68b)

/* How sums are rounded by random bits. */
struct trainc_dither {
    uint32_t key;
    /* Shifts by more than 16 bits, in words, take all bits of the hash. */
    int32_t wide;
    int32x4_t align, mask, minus_shift, minus_spread;
};

/* Four sums with what they keep in their upper halves, from hashes after their first multiplication. */
TRAINC_PART int16x8_t trainc_dithered_sum(int32x4_t sum, uint32x4_t hash, int32x4_t align)
{
    hash = vmulq_n_u32(veorq_u32(hash, vshrq_n_u32(hash, 15)), TRAINC_SECOND_MULTIPLIER);
    /* The last step of the hash leaves the upper half as it is. */
    return vreinterpretq_s16_u32(
        vsraq_n_u32(vreinterpretq_u32_s32(vshlq_s32(sum, align)), hash, 16));
}

/* 16 results of numbers whose upper halves are kept. */
TRAINC_PART int8x16_t trainc_upper_bytes(int16x8_t a, int16x8_t b, int16x8_t c, int16x8_t d)
{
    return vmaxq_s8(vcombine_s8(vqmovn_s16(vuzpq_s16(a, b).val[1]),
        vqmovn_s16(vuzpq_s16(c, d).val[1])), vdupq_n_s8(-127));
}

/* Four results of a wide shift, in words. */
TRAINC_PART int32x4_t trainc_dithered_word(int32x4_t sum, uint32x4_t hash,
    const struct trainc_dither *d)
{
    hash = vmulq_n_u32(veorq_u32(hash, vshrq_n_u32(hash, 15)), TRAINC_SECOND_MULTIPLIER);
    hash = veorq_u32(hash, vshrq_n_u32(hash, 16));
    const uint32x4_t uniform = vshlq_u32(vshrq_n_u32(hash, 1), d->minus_spread);
    const uint32x4_t low =
        vaddq_u32(vreinterpretq_u32_s32(vandq_s32(sum, d->mask)), uniform);
    return vaddq_s32(vshlq_s32(sum, d->minus_shift),
        vreinterpretq_s32_u32(vshlq_u32(low, d->minus_shift)));
}

/* 16 results from element i on, wherever that is. */
TRAINC_SINGLE int8x16_t trainc_dithered16(const int32_t *sums, int32_t i,
    const struct trainc_dither *d)
{
    static const uint32_t ramp[4] = {0, 1, 2, 3};
    uint32x4_t counter = vaddq_u32(vdupq_n_u32(d->key + (uint32_t)i), vld1q_u32(ramp));
    uint32x4_t hash[4];
    for (int32_t n = 0; n < 4; n++) {
        hash[n] = vmulq_n_u32(veorq_u32(counter, vshrq_n_u32(counter, 16)),
            TRAINC_FIRST_MULTIPLIER);
        counter = vaddq_u32(counter, vdupq_n_u32(4));
    }
    const int32x4_t s0 = vld1q_s32(sums + i), s1 = vld1q_s32(sums + i + 4);
    const int32x4_t s2 = vld1q_s32(sums + i + 8), s3 = vld1q_s32(sums + i + 12);
    if (d->wide == 0) {
        return trainc_upper_bytes(trainc_dithered_sum(s0, hash[0], d->align),
            trainc_dithered_sum(s1, hash[1], d->align), trainc_dithered_sum(s2, hash[2], d->align),
            trainc_dithered_sum(s3, hash[3], d->align));
    }
    const int16x8_t low = vcombine_s16(vqmovn_s32(trainc_dithered_word(s0, hash[0], d)),
        vqmovn_s32(trainc_dithered_word(s1, hash[1], d)));
    const int16x8_t high = vcombine_s16(vqmovn_s32(trainc_dithered_word(s2, hash[2], d)),
        vqmovn_s32(trainc_dithered_word(s3, hash[3], d)));
    return vmaxq_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)), vdupq_n_s8(-127));
}

/* Four sums with what is shifted out of them rounded, by a shift that is known. */
#define TRAINC_ROUNDED_SUM(sum, hash, shift)                                                    \
    vreinterpretq_s32_u32(vsraq_n_u32(vreinterpretq_u32_s32(sum),                               \
        vmulq_n_u32(veorq_u32(hash, vshrq_n_u32(hash, 15)), TRAINC_SECOND_MULTIPLIER), 32 - (shift)))

/* 16 results of these. */
#define TRAINC_SHIFTED_BYTES(s, shift)                                                          \
    vmaxq_s8(vcombine_s8(                                                                       \
        vqmovn_s16(vcombine_s16(vshrn_n_s32(s##0, shift), vshrn_n_s32(s##1, shift))),           \
        vqmovn_s16(vcombine_s16(vshrn_n_s32(s##2, shift), vshrn_n_s32(s##3, shift)))),          \
        vdupq_n_s8(-127))
#define TRAINC_UPPER_BYTES(s, shift)                                                            \
    trainc_upper_bytes(vreinterpretq_s16_s32(s##0), vreinterpretq_s16_s32(s##1),                \
        vreinterpretq_s16_s32(s##2), vreinterpretq_s16_s32(s##3))

/* 16 results from sums on. */
#define TRAINC_SIXTEEN(s, sums, first, n, shift)                                                \
    TRAINC_FOUR_VECTORS(s, sums)                                                                \
    TRAINC_DITHER(s, first, 0, n, shift)                                                        \
    TRAINC_DITHER(s, first, 1, n, shift)                                                        \
    TRAINC_DITHER(s, first, 2, n, shift)                                                        \
    TRAINC_DITHER(s, first, 3, n, shift)
#define TRAINC_DITHER(s, first, i, n, shift)                                                    \
    const uint32x4_t h##s##i = vaddq_u32(first, k[n + i]);                                      \
    s##i = TRAINC_ROUNDED_SUM(s##i, h##s##i, shift);
/* Pairs, that compilers load at once where they are wanted at once. */
#define TRAINC_FOUR_VECTORS(s, from)                                                            \
    int32x4_t s##0 = vld1q_s32(from), s##1 = vld1q_s32((from) + 4);                             \
    __asm__("" : "+w"(s##0), "+w"(s##1));                                                       \
    int32x4_t s##2 = vld1q_s32((from) + 8), s##3 = vld1q_s32((from) + 12);                      \
    __asm__("" : "+w"(s##2), "+w"(s##3));

/* 64 results a round of blocks. */
#define TRAINC_BLOCKS(shift, BYTES)                                                             \
    for (; blocks > 0; blocks--) {                                                              \
        const uint32x4_t low = vdupq_n_u32((counter ^ above) * TRAINC_FIRST_MULTIPLIER);        \
        const uint32x4_t high = vaddq_u32(low, half);                                           \
        TRAINC_SIXTEEN(s, sums, low, 0, shift)                                                  \
        TRAINC_SIXTEEN(t, sums + 16, low, 4, shift)                                             \
        vst1q_s8(y, BYTES(s, shift));                                                           \
        vst1q_s8(y + 16, BYTES(t, shift));                                                      \
        TRAINC_SIXTEEN(u, sums + 32, high, 0, shift)                                            \
        TRAINC_SIXTEEN(v, sums + 48, high, 4, shift)                                            \
        vst1q_s8(y + 32, BYTES(u, shift));                                                      \
        vst1q_s8(y + 48, BYTES(v, shift));                                                      \
        counter += 64;                                                                          \
        sums += 64;                                                                             \
        y += 64;                                                                                \
    }

/* Blocks whose counters, key + i, start at multiples of 64 and have one upper
 * half. There `counter ^ counter >> 16` is that of the first counter of half a block, without its five lowest
 * bits, plus that of the five, so that a multiplication for all makes the hashes. Shifts that are most
 * frequent, of sums of 24 bits at most, are known. */
TRAINC_PART void trainc_dithered_blocks(const int32_t *sums, int32_t blocks, uint32_t counter,
    int32_t shift, int8_t *y)
{
    const uint32_t upper = counter >> 16, above = upper & ~UINT32_C(31), own = upper & 31;
    /* From the first half of a block to the second bit 5 changes. */
    const uint32_t step = 32 * TRAINC_FIRST_MULTIPLIER;
    const uint32x4_t half = vdupq_n_u32((above & 32) != 0 ? 0 - step : step);
    uint32_t place[32];
    for (uint32_t n = 0; n < 32; n++) {
        place[n] = (n ^ own) * TRAINC_FIRST_MULTIPLIER;
    }
    uint32x4_t k[8];
    for (int32_t n = 0; n < 8; n++) {
        k[n] = vld1q_u32(place + 4 * n);
    }
    switch (shift) {
    case 12:
        TRAINC_BLOCKS(12, TRAINC_SHIFTED_BYTES)
        return;
    case 13:
        TRAINC_BLOCKS(13, TRAINC_SHIFTED_BYTES)
        return;
    case 14:
        TRAINC_BLOCKS(14, TRAINC_SHIFTED_BYTES)
        return;
    case 15:
        TRAINC_BLOCKS(15, TRAINC_SHIFTED_BYTES)
        return;
    case 16:
        TRAINC_BLOCKS(16, TRAINC_UPPER_BYTES)
        return;
    default:
        break;
    }
    const int32x4_t align = vdupq_n_s32(16 - shift);
#undef TRAINC_DITHER
#define TRAINC_DITHER(s, first, i, n, shift)                                                    \
    const uint32x4_t h##s##i = vaddq_u32(first, k[n + i]);                                      \
    s##i = TRAINC_ROUNDED_SUM(vshlq_s32(s##i, align), h##s##i, 16);
    TRAINC_BLOCKS(16, TRAINC_UPPER_BYTES)
}

#undef TRAINC_ROUNDED_SUM
#undef TRAINC_SHIFTED_BYTES
#undef TRAINC_UPPER_BYTES
#undef TRAINC_SIXTEEN
#undef TRAINC_DITHER
#undef TRAINC_FOUR_VECTORS
#undef TRAINC_BLOCKS

/* 8-bit results of sums, shifted by rounding[0] and rounded by the hash of rounding[1] + i. */
TRAINC_SINGLE void trainc_dithered(const int32_t *sums, int32_t count, const int32_t *rounding,
    int8_t *y)
{
    const int32_t shift = rounding[0];
    struct trainc_dither own;
    own.key = (uint32_t)rounding[1];
    own.wide = shift > 16;
    own.align = vdupq_n_s32(16 - shift);
    own.mask = vdupq_n_s32((int32_t)((UINT32_C(1) << shift) - 1));
    own.minus_shift = vdupq_n_s32(-shift);
    own.minus_spread = vdupq_n_s32(shift - 31);
    const struct trainc_dither *const d = &own;
    int32_t i = 0;
    if (count < 64) {
        /* Sixteen at a time, the last of them from copies. */
        int32_t some[16];
        int8_t results[16];
        for (; i < count; i += 16) {
            const int32_t left = trainc_minimum32(count - i, 16);
            for (int32_t n = 0; n < left; n++) {
                some[n] = sums[i + n];
            }
            for (int32_t n = left; n < 16; n++) {
                some[n] = 0;
            }
            own.key = (uint32_t)rounding[1] + (uint32_t)i;
            vst1q_s8(results, trainc_dithered16(some, 0, d));
            for (int32_t n = 0; n < left; n++) {
                y[i + n] = results[n];
            }
        }
        return;
    }
    if (own.wide != 0) {
        for (; i + 16 <= count; i += 16) {
            vst1q_s8(y + i, trainc_dithered16(sums, i, d));
        }
    } else {
        /* Up to a counter that is a multiple of 64; what is beyond is made again. */
        const int32_t before = (int32_t)(-own.key & 63);
        for (; i < before; i += 16) {
            vst1q_s8(y + i, trainc_dithered16(sums, i, d));
        }
        i = before;
        while (i + 64 <= count) {
            const uint32_t counter = own.key + (uint32_t)i;
            const int32_t same = (int32_t)(65536 - (counter & 65535)) / 64;
            const int32_t blocks = trainc_minimum32((count - i) / 64, same);
            trainc_dithered_blocks(sums + i, blocks, counter, shift, y + i);
            i += 64 * blocks;
        }
    }
    /* The last ones overlap those before them. */
    for (; i < count; i += 16) {
        const int32_t last = trainc_minimum32(i, count - 16);
        vst1q_s8(y + last, trainc_dithered16(sums, last, d));
    }
}

/* How far sums of such magnitudes are shifted to 7 bits. */
TRAINC_PART int32_t trainc_error_shift(uint32x4_t bits)
{
    return trainc_maximum32(32 - trainc_leading_zeros(trainc_magnitude_bits(bits)) - 7, 0);
}

/* The sums of a channel of a normalization's error: of planes plane_step apart, code0 * factor0 +
 * code1 * factor1 + offset, factors within 16 bits. Returns the bits of their magnitudes. */
TRAINC_SINGLE uint32x4_t trainc_error_sums(const int8_t *x0, const int8_t *x1, int32_t planes,
    int32_t space, int32_t plane_step, int32_t factor0, int32_t factor1, int32_t offset,
    int32_t *sums)
{
    const int32x4_t added = vdupq_n_s32(offset);
    const int16x8_t f0 = vdupq_n_s16((int16_t)factor0), f1 = vdupq_n_s16((int16_t)factor1);
    int32x4_t bits0 = vdupq_n_s32(0), bits1 = bits0, bits2 = bits0, bits3 = bits0;
#define TRAINC_LOW(s, a, b)                                                                     \
    const int32x4_t s = vaddq_s32(                                                              \
        vmlal_s16(vmull_s16(vget_low_s16(a), vget_low_s16(f0)), vget_low_s16(b), vget_low_s16(f1)), added)
#ifdef __aarch64__
#define TRAINC_HIGH(s, a, b)                                                                    \
    const int32x4_t s = vaddq_s32(vmlal_high_s16(vmull_high_s16(a, f0), b, f1), added)
#else
#define TRAINC_HIGH(s, a, b)                                                                    \
    const int32x4_t s = vaddq_s32(vmlal_s16(vmull_s16(vget_high_s16(a), vget_low_s16(f0)),      \
        vget_high_s16(b), vget_low_s16(f1)), added)
#endif
#define TRAINC_ERRORS(x, z)                                                                     \
    {                                                                                           \
        const int8x16_t codes0 = x, codes1 = z;                                                 \
        const int16x8_t a = vmovl_s8(vget_low_s8(codes0)), b = vmovl_s8(vget_low_s8(codes1));   \
        const int16x8_t c = vmovl_s8(vget_high_s8(codes0)), e = vmovl_s8(vget_high_s8(codes1)); \
        TRAINC_LOW(s0, a, b);                                                                   \
        TRAINC_HIGH(s1, a, b);                                                                  \
        TRAINC_LOW(s2, c, e);                                                                   \
        TRAINC_HIGH(s3, c, e);                                                                  \
        bits0 = vorrq_s32(bits0, vabsq_s32(s0));                                                \
        bits1 = vorrq_s32(bits1, vabsq_s32(s1));                                                \
        bits2 = vorrq_s32(bits2, vabsq_s32(s2));                                                \
        bits3 = vorrq_s32(bits3, vabsq_s32(s3));                                                \
        vst1q_s32(to, s0);                                                                      \
        vst1q_s32(to + 4, s1);                                                                  \
        vst1q_s32(to + 8, s2);                                                                  \
        vst1q_s32(to + 12, s3);                                                                 \
        to += 16;                                                                               \
        TRAINC_OPAQUE(to);                                                                      \
    }
    for (; planes > 0; planes--) {
        const int8_t *p = x0, *q = x1;
        int32_t *to = sums;
        int32_t left = space;
        for (; left >= 32; left -= 32) {
#ifdef __aarch64__
            const int8x16x2_t x = vld1q_s8_x2(p), z = vld1q_s8_x2(q);
#else
            const int8x16x2_t x = {{vld1q_s8(p), vld1q_s8(p + 16)}};
            const int8x16x2_t z = {{vld1q_s8(q), vld1q_s8(q + 16)}};
#endif
            p += 32;
            q += 32;
            TRAINC_OPAQUE(p);
            TRAINC_OPAQUE(q);
            TRAINC_ERRORS(x.val[0], z.val[0])
            TRAINC_ERRORS(x.val[1], z.val[1])
        }
        if (left >= 16) {
            TRAINC_ERRORS(vld1q_s8(p), vld1q_s8(q))
            p += 16;
            q += 16;
            left -= 16;
        }
        if (left > 0) {
            /* The last ones overlap those before them, of which there are 16 at least. */
            const int32_t back = 16 - left;
            p -= back;
            q -= back;
            to -= back;
            TRAINC_ERRORS(vld1q_s8(p), vld1q_s8(q))
        }
        x0 += plane_step;
        x1 += plane_step;
        sums += plane_step;
    }
#undef TRAINC_LOW
#undef TRAINC_HIGH
#undef TRAINC_ERRORS
    return vreinterpretq_u32_s32(vorrq_s32(vorrq_s32(bits0, bits1), vorrq_s32(bits2, bits3)));
}

#ifdef __aarch64__
/* One channel of a normalization: of planes plane_step apart, each code's sum code * factor + offset,
 * shifted right by an amount of 24 bits at most, rounded half away from zero. All that a code may become
 * is made first. */
TRAINC_SINGLE void trainc_normalized(const int8_t *x, int32_t planes, int32_t space,
    int32_t plane_step, int32_t factor, int32_t offset, int32_t shift, int32_t low, int8_t *y)
{
    static const int8_t ramp[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const int32x4_t align = vdupq_n_s32(24 - trainc_minimum32(shift, 24));
    const int32x4_t added = vdupq_n_s32(offset);
    const int16x8_t factors = vdupq_n_s16((int16_t)factor);
    const int8x16_t least = vdupq_n_s8((int8_t)low);
    int8_t table[256];
    int8x16_t code = vld1q_s8(ramp);
    for (int32_t n = 0; n < 256; n += 16) {
        const int16x8_t a = vmovl_s8(vget_low_s8(code)), b = vmovl_high_s8(code);
        int32x4_t s0 = vshlq_s32(vmlal_s16(added, vget_low_s16(a), vget_low_s16(factors)), align);
        int32x4_t s1 = vshlq_s32(vmlal_high_s16(added, a, factors), align);
        int32x4_t s2 = vshlq_s32(vmlal_s16(added, vget_low_s16(b), vget_low_s16(factors)), align);
        int32x4_t s3 = vshlq_s32(vmlal_high_s16(added, b, factors), align);
        /* Less where below zero, so that halves go away from zero. */
        s0 = vsraq_n_s32(s0, s0, 31);
        s1 = vsraq_n_s32(s1, s1, 31);
        s2 = vsraq_n_s32(s2, s2, 31);
        s3 = vsraq_n_s32(s3, s3, 31);
        const int16x8_t u0 = vuzp2q_s16(vreinterpretq_s16_s32(s0), vreinterpretq_s16_s32(s1));
        const int16x8_t u1 = vuzp2q_s16(vreinterpretq_s16_s32(s2), vreinterpretq_s16_s32(s3));
        vst1q_s8(table + n,
            vmaxq_s8(vqrshrn_high_n_s16(vqrshrn_n_s16(u0, 8), u1, 8), least));
        code = vaddq_s8(code, vdupq_n_s8(16));
    }
    const int8x16x4_t t0 = vld1q_s8_x4(table), t1 = vld1q_s8_x4(table + 64);
    const int8x16x4_t t2 = vld1q_s8_x4(table + 128), t3 = vld1q_s8_x4(table + 192);
    const uint8x16_t quarter = vdupq_n_u8(64);
    for (; planes > 0; planes--) {
        int32_t i = 0;
        const int8_t *from = x;
        int8_t *to = y;
#define TRAINC_LOOKUP(result, codes)                              \
    {                                                             \
        uint8x16_t at = vreinterpretq_u8_s8(codes);               \
        int8x16_t q = vqtbl4q_s8(t0, at);                         \
        at = vsubq_u8(at, quarter);                               \
        q = vqtbx4q_s8(q, t1, at);                                \
        at = vsubq_u8(at, quarter);                               \
        q = vqtbx4q_s8(q, t2, at);                                \
        at = vsubq_u8(at, quarter);                               \
        result = vqtbx4q_s8(q, t3, at);                           \
    }
        for (; i + 64 <= space; i += 64) {
            int8x16_t q0, q1, q2, q3;
            TRAINC_LOOKUP(q0, vld1q_s8(from))
            TRAINC_LOOKUP(q1, vld1q_s8(from + 16))
            vst1q_s8(to, q0);
            vst1q_s8(to + 16, q1);
            TRAINC_LOOKUP(q2, vld1q_s8(from + 32))
            TRAINC_LOOKUP(q3, vld1q_s8(from + 48))
            vst1q_s8(to + 32, q2);
            vst1q_s8(to + 48, q3);
            from += 64;
            to += 64;
            TRAINC_OPAQUE(from);
            TRAINC_OPAQUE(to);
        }
        for (; i + 16 <= space; i += 16) {
            int8x16_t result;
            TRAINC_LOOKUP(result, vld1q_s8(from))
            vst1q_s8(to, result);
            from += 16;
            to += 16;
        }
#undef TRAINC_LOOKUP
        for (; i < space; i++) {
            y[i] = table[(uint8_t)x[i]];
        }
        x += plane_step;
        y += plane_step;
    }
}
#endif

#endif
