/* Convolutions of each channel by itself, for processors with sdot (trainc_neon.h).
 *
 * A plane is copied with a border. Four neighbours' windows of a row are one register: table lookups
 * gather up to four places for each, which one sdot multiplies by a row of taps. */
#ifndef TRAINC_NEON_DEPTHWISE_H
#define TRAINC_NEON_DEPTHWISE_H

#include "trainc_neon_dotprod.h"
#include "trainc_neon_in_place.h"
#include "trainc_neon_matrix.h"

/* Copies rows of places to every other place of rows, zeros between them. Zeros may also be written
 * to one place behind a row. */
TRAINC_SHARED void trainc_spread_rows(const int8_t *x, int32_t x_step, int8_t *y, int32_t y_step,
    int32_t rows, int32_t count)
{
    const int8x16_t zero = vdupq_n_s8(0);
    for (; rows > 0; rows--, x += x_step, y += y_step) {
        int32_t i = 0;
        for (; i + 16 <= count; i += 16) {
            const int8x16_t v = vld1q_s8(x + i);
            vst1q_s8(y + 2 * i, vzip1q_s8(v, zero));
            vst1q_s8(y + 2 * i + 16, vzip2q_s8(v, zero));
        }
        for (; i + 8 <= count; i += 8) {
            vst1q_s8(y + 2 * i, vzip1q_s8(vcombine_s8(vld1_s8(x + i), vdup_n_s8(0)), zero));
        }
        if (i + 4 <= count) {
            vst1_s8(y + 2 * i, vget_low_s8(vzip1q_s8(trainc_word(x + i), zero)));
            i += 4;
        }
        for (; i < count; i++) {
            y[2 * i] = x[i];
        }
    }
}

/* A channel's taps, w[high][wide] of up to 4 by 4: a word of four taps for each row, zeros behind the
 * last. Backwards from the last tap to the first. */
TRAINC_SHARED int8x16_t trainc_taps(const int8_t *w, int32_t high, int32_t wide, int32_t backwards)
{
    if (high == 3 && wide == 3) {
        /* Eight taps, and the last eight. */
        static const uint8_t ways[2][16] = {
            {0, 1, 2, 255, 3, 4, 5, 255, 6, 7, 15, 255, 255, 255, 255, 255},
            {15, 7, 6, 255, 5, 4, 3, 255, 2, 1, 0, 255, 255, 255, 255, 255}};
        return vqtbl1q_s8(vcombine_s8(vld1_s8(w), vld1_s8(w + 1)), vld1q_u8(ways[backwards]));
    }
    int8_t words[16] = {0};
    const int32_t last = high * wide - 1;
    for (int32_t i = 0; i < high; i++) {
        for (int32_t j = 0; j < wide; j++) {
            const int32_t tap = i * wide + j;
            words[4 * i + j] = w[backwards ? last - tap : tap];
        }
    }
    return vld1q_s8(words);
}

/* The windows of four places. */
TRAINC_PART int8x16_t trainc_four_windows(const int8_t *x, uint8x16_t order)
{
    return vqtbl1q_s8(vld1q_s8(x), order);
}

TRAINC_PART uint32x4_t trainc_with_bits(uint32x4_t bits, int32x4_t sums)
{
    return vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(sums)));
}

/* Where the windows of four neighbours are in 16 bytes: 0 1 2 3, 1 2 3 4, .. */
TRAINC_PART uint8x16_t trainc_near_order(void)
{
    static const uint8_t order[16] = {0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6};
    return vld1q_u8(order);
}

/* Sums of three rows of taps in some columns of y[rows][..], from x with a border; returns the bits of
 * their magnitudes. A row's windows serve three rows of sums, which wait in turn. `QUADS` names what is
 * done for each four columns. */
#define TRAINC_SLIDE(columns, QUADS, LOAD)                                                        \
    TRAINC_PART TRAINC_DOTPROD uint32x4_t trainc_slide##columns(const int8_t *x, int32_t pitch,   \
        int8x16_t taps, int32_t rows, int32_t *y, int32_t y_step)                                 \
    {                                                                                             \
        const int32x4_t zero = vdupq_n_s32(0);                                                    \
        const uint8x16_t order0 = trainc_near_order();                                            \
        const uint8x16_t order4 = vaddq_u8(order0, vdupq_n_u8(4));                                \
        const uint8x16_t order8 = vaddq_u8(order0, vdupq_n_u8(8));                                \
        (void)order4, (void)order8;                                                               \
        int32x4_t a0 = zero, a1 = zero, a2 = zero, a3 = zero, b0 = zero, b1 = zero, b2 = zero,    \
                  b3 = zero, c0 = zero, c1 = zero, c2 = zero, c3 = zero;                          \
        (void)a1, (void)a2, (void)a3, (void)b1, (void)b2, (void)b3, (void)c1, (void)c2, (void)c3; \
        uint32x4_t bits = vdupq_n_u32(0);                                                         \
        {                                                                                         \
            LOAD                                                                                  \
            QUADS(TRAINC_SLIDE_FIRST, a, b, c)                                                    \
            x += pitch;                                                                           \
        }                                                                                         \
        {                                                                                         \
            LOAD                                                                                  \
            QUADS(TRAINC_SLIDE_SECOND, a, b, c)                                                   \
            x += pitch;                                                                           \
        }                                                                                         \
        for (; rows >= 3; rows -= 3) {                                                            \
            TRAINC_SLIDE_ROW(QUADS, LOAD, a, b, c)                                                \
            TRAINC_SLIDE_ROW(QUADS, LOAD, b, c, a)                                                \
            TRAINC_SLIDE_ROW(QUADS, LOAD, c, a, b)                                                \
        }                                                                                         \
        if (rows >= 1) {                                                                          \
            TRAINC_SLIDE_ROW(QUADS, LOAD, a, b, c)                                                \
        }                                                                                         \
        if (rows == 2) {                                                                          \
            TRAINC_SLIDE_ROW(QUADS, LOAD, b, c, a)                                                \
        }                                                                                         \
        return bits;                                                                              \
    }

#define TRAINC_SLIDE_ROW(QUADS, LOAD, a, b, c) \
    {                                          \
        LOAD                                   \
        QUADS(TRAINC_SLIDE_NEXT, a, b, c)      \
        x += pitch;                            \
        y += y_step;                           \
    }

#define TRAINC_SLIDE_FIRST(n, a, b, c) a##n = vdotq_laneq_s32(zero, t##n, taps, 0);

#define TRAINC_SLIDE_SECOND(n, a, b, c)             \
    a##n = vdotq_laneq_s32(a##n, t##n, taps, 1); \
    b##n = vdotq_laneq_s32(zero, t##n, taps, 0);

#define TRAINC_SLIDE_NEXT(n, a, b, c)               \
    a##n = vdotq_laneq_s32(a##n, t##n, taps, 2); \
    b##n = vdotq_laneq_s32(b##n, t##n, taps, 1); \
    c##n = vdotq_laneq_s32(zero, t##n, taps, 0); \
    vst1q_s32(y + 4 * n, a##n);                  \
    bits = trainc_with_bits(bits, a##n);

#define TRAINC_ONE_QUAD(STEP, a, b, c) STEP(0, a, b, c)
#define TRAINC_TWO_QUADS(STEP, a, b, c) STEP(0, a, b, c) STEP(1, a, b, c)
#define TRAINC_FOUR_QUADS(STEP, a, b, c) \
    STEP(0, a, b, c) STEP(1, a, b, c) STEP(2, a, b, c) STEP(3, a, b, c)

#define TRAINC_ONE_LOAD const int8x16_t t0 = trainc_four_windows(x, order0);
#define TRAINC_TWO_LOADS                                   \
    const int8x16_t row = vld1q_s8(x);                     \
    const int8x16_t t0 = vqtbl1q_s8(row, order0);          \
    const int8x16_t t1 = vqtbl1q_s8(row, order4);
#define TRAINC_FOUR_LOADS                                  \
    TRAINC_TWO_LOADS                                       \
    const int8x16_t t2 = vqtbl1q_s8(row, order8);          \
    const int8x16_t t3 = trainc_four_windows(x + 8, order4);

TRAINC_SLIDE(4, TRAINC_ONE_QUAD, TRAINC_ONE_LOAD)
TRAINC_SLIDE(8, TRAINC_TWO_QUADS, TRAINC_TWO_LOADS)
TRAINC_SLIDE(16, TRAINC_FOUR_QUADS, TRAINC_FOUR_LOADS)

#undef TRAINC_ONE_LOAD
#undef TRAINC_TWO_LOADS
#undef TRAINC_FOUR_LOADS
#undef TRAINC_ONE_QUAD
#undef TRAINC_TWO_QUADS
#undef TRAINC_FOUR_QUADS
#undef TRAINC_SLIDE_FIRST
#undef TRAINC_SLIDE_SECOND
#undef TRAINC_SLIDE_NEXT
#undef TRAINC_SLIDE_ROW
#undef TRAINC_SLIDE

/* y[rows][columns] of at least four columns, whose windows are next to each other and have three rows
 * of taps: that at (r, c) starts at x + r pitch + c. Up to 15 bytes behind the last window are read.
 * Returns the bits of the sums' magnitudes. */
TRAINC_SHARED TRAINC_DOTPROD uint32x4_t trainc_near_windows(const int8_t *x, int32_t pitch,
    int8x16_t taps, int32_t rows, int32_t columns, int32_t *y)
{
    uint32x4_t bits = vdupq_n_u32(0);
    int32_t at = 0;
    for (; at + 16 <= columns; at += 16) {
        bits = vorrq_u32(bits, trainc_slide16(x + at, pitch, taps, rows, y + at, columns));
    }
    if (at + 8 <= columns) {
        bits = vorrq_u32(bits, trainc_slide8(x + at, pitch, taps, rows, y + at, columns));
        at += 8;
    }
    for (; at < columns; at += 4) {
        /* The last four overlap those before them. */
        at = trainc_minimum32(at, columns - 4);
        bits = vorrq_u32(bits, trainc_slide4(x + at, pitch, taps, rows, y + at, columns));
    }
    return bits;
}

/* The same of windows `down` rows and `right` columns (1 or 2) apart, with so many rows of taps. */
TRAINC_PART TRAINC_DOTPROD uint32x4_t trainc_windows_apart(const int8_t *x, int32_t pitch,
    int8x16_t taps, int32_t high, int32_t down, int32_t right, int32_t rows, int32_t columns,
    int32_t *y)
{
    static const uint8_t apart[16] = {0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9};
    const uint8x16_t order = right == 1 ? trainc_near_order() : vld1q_u8(apart);
    uint32x4_t bits = vdupq_n_u32(0);
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t c = 0; c < columns; c += 4) {
            c = trainc_minimum32(c, columns - 4);
            const int8_t *const at = x + c * right;
            int32x4_t sums = vdupq_n_s32(0);
            sums = vdotq_laneq_s32(sums, trainc_four_windows(at, order), taps, 0);
            if (high > 1) {
                sums = vdotq_laneq_s32(sums, trainc_four_windows(at + pitch, order), taps, 1);
            }
            if (high > 2) {
                sums = vdotq_laneq_s32(sums, trainc_four_windows(at + 2 * pitch, order), taps, 2);
            }
            if (high > 3) {
                sums = vdotq_laneq_s32(sums, trainc_four_windows(at + 3 * pitch, order), taps, 3);
            }
            vst1q_s32(y + c, sums);
            bits = trainc_with_bits(bits, sums);
        }
        x += down * pitch;
        y += columns;
    }
    return bits;
}

TRAINC_SHARED TRAINC_DOTPROD uint32x4_t trainc_three_rows_apart(const int8_t *x, int32_t pitch,
    int8x16_t taps, int32_t down, int32_t right, int32_t rows, int32_t columns, int32_t *y)
{
    return trainc_windows_apart(x, pitch, taps, 3, down, right, rows, columns, y);
}

TRAINC_SHARED TRAINC_DOTPROD uint32x4_t trainc_rows_apart(const int8_t *x, int32_t pitch,
    int8x16_t taps, int32_t high, int32_t down, int32_t right, int32_t rows, int32_t columns,
    int32_t *y)
{
    return trainc_windows_apart(x, pitch, taps, high, down, right, rows, columns, y);
}

/* sums[tap] over images of the products of errors[count] (a multiple of 16, zeros where there is no
 * error) with x[offsets[tap]..]; images are some bytes apart. */
TRAINC_SHARED TRAINC_DOTPROD void trainc_tap_gradients(const int8_t *errors, int32_t errors_step,
    const int8_t *x, int32_t x_step, int32_t images, int32_t count, const int32_t *offsets,
    int32_t taps, int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    int32_t tap = 0;
    for (; tap + 9 <= taps; tap += 9) {
        int32x4_t s0 = zero, s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero,
                  s7 = zero, s8 = zero;
        const int32_t *const at = offsets + tap;
        for (int32_t image = 0; image < images; image++) {
            const int8_t *const of = errors + image * errors_step, *const from = x + image * x_step;
            const int8_t *const x0 = from + at[0], *const x1 = from + at[1];
            const int8_t *const x2 = from + at[2], *const x3 = from + at[3];
            const int8_t *const x4 = from + at[4], *const x5 = from + at[5];
            const int8_t *const x6 = from + at[6], *const x7 = from + at[7];
            const int8_t *const x8 = from + at[8];
            for (ptrdiff_t i = 0; i < count; i += 16) {
                const int8x16_t e = vld1q_s8(of + i);
                s0 = vdotq_s32(s0, e, vld1q_s8(x0 + i));
                s1 = vdotq_s32(s1, e, vld1q_s8(x1 + i));
                s2 = vdotq_s32(s2, e, vld1q_s8(x2 + i));
                s3 = vdotq_s32(s3, e, vld1q_s8(x3 + i));
                s4 = vdotq_s32(s4, e, vld1q_s8(x4 + i));
                s5 = vdotq_s32(s5, e, vld1q_s8(x5 + i));
                s6 = vdotq_s32(s6, e, vld1q_s8(x6 + i));
                s7 = vdotq_s32(s7, e, vld1q_s8(x7 + i));
                s8 = vdotq_s32(s8, e, vld1q_s8(x8 + i));
            }
        }
        vst1q_s32(sums + tap, trainc_across(s0, s1, s2, s3));
        vst1q_s32(sums + tap + 4, trainc_across(s4, s5, s6, s7));
        sums[tap + 8] = vaddvq_s32(s8);
    }
    for (; tap < taps; tap++) {
        int32x4_t s = zero;
        for (int32_t image = 0; image < images; image++) {
            const int8_t *const of = errors + image * errors_step;
            const int8_t *const from = x + image * x_step + offsets[tap];
            for (ptrdiff_t i = 0; i < count; i += 16) {
                s = vdotq_s32(s, vld1q_s8(of + i), vld1q_s8(from + i));
            }
        }
        sums[tap] = vaddvq_s32(s);
    }
}

/* The bits of the magnitudes of sums. */
TRAINC_SHARED int32_t trainc_bits_of_sums(const int32_t *sums, int32_t count)
{
    uint32x4_t all = vdupq_n_u32(0);
    uint32_t bits = 0;
    int32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        all = trainc_with_bits(all, vld1q_s32(sums + i));
    }
    for (; i < count; i++) {
        bits |= sums[i] < 0 ? 0 - (uint32_t)sums[i] : (uint32_t)sums[i];
    }
    return trainc_magnitude_bits(all) | (int32_t)bits;
}

#endif
