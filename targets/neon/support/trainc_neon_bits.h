/* Products of packed bits that stand for 1 and -1: exclusive or, and counts of ones (`cnt`). C99
 * with NEON intrinsics, for AArch64 and Armv7; no global state. */
#ifndef TRAINC_NEON_BITS_H
#define TRAINC_NEON_BITS_H

#include "trainc_neon.h"

/* A convolution of bits; what of a window lies beside the map adds nothing. */
struct trainc_bits {
    /* The map: images, height, width, bytes of a pixel, and channels that are no filling. */
    int32_t batch, height, width, bytes, channels;
    /* The weights: features, each of rows and columns of pixels. */
    int32_t features, rows, columns;
    int32_t y_height, y_width;
    /* Strides, and pads above and at the left. */
    int32_t down, right, top, left;
};

/* Features whose sums are made together. */
#define TRAINC_BITS_FEATURES 8
/* Pixels likewise: as many sums as there are registers for. */
#if defined(__aarch64__)
#define TRAINC_BITS_PIXELS 2
#else
#define TRAINC_BITS_PIXELS 1
#endif
/* Blocks of 16 bytes that are counted before sums are widened: a count is at most 8. */
#define TRAINC_BITS_BLOCKS 31
/* Bytes of a window that is laid out in a row. */
#define TRAINC_BITS_LAID 640

/* `count` bytes, 1 to 15 of them, and zeros. */
TRAINC_PART uint8x16_t trainc_bits_few(const uint8_t *from, int32_t count)
{
    uint64_t low = 0, high = 0;
    if (count >= 8) {
        __builtin_memcpy(&low, from, 8);
        if (count > 8) {
            __builtin_memcpy(&high, from + count - 8, 8);
            high >>= 8 * (16 - count);
        }
    } else if (count >= 4) {
        uint32_t first, last;
        __builtin_memcpy(&first, from, 4);
        __builtin_memcpy(&last, from + count - 4, 4);
        low = first | (uint64_t)last << (8 * (count - 4));
    } else {
        low = from[0] | (uint64_t)from[count / 2] << (8 * (count / 2))
            | (uint64_t)from[count - 1] << (8 * (count - 1));
    }
    return vcombine_u8(vcreate_u8(low), vcreate_u8(high));
}

/* Copies bytes that do not overlap. */
TRAINC_PART void trainc_bits_copy(uint8_t *to, const uint8_t *from, int32_t count)
{
    int32_t at = 0;
    for (; at + 8 <= count; at += 8) {
        vst1_u8(to + at, vld1_u8(from + at));
    }
    if (at + 4 <= count) {
        uint32_t word;
        __builtin_memcpy(&word, from + at, 4);
        __builtin_memcpy(to + at, &word, 4);
        at += 4;
    }
    for (; at < count; at++) {
        to[at] = from[at];
    }
}

/* The sum of each of eight vectors of bytes. */
TRAINC_PART uint16x8_t trainc_bits_across(const uint8x16_t counts[TRAINC_BITS_FEATURES])
{
    uint16x8_t pairs[TRAINC_BITS_FEATURES];
    for (int k = 0; k < TRAINC_BITS_FEATURES; k++) {
        pairs[k] = vpaddlq_u8(counts[k]);
    }
#if defined(__aarch64__)
    for (int left = TRAINC_BITS_FEATURES / 2; left > 0; left /= 2) {
        for (int k = 0; k < left; k++) {
            pairs[k] = vpaddq_u16(pairs[2 * k], pairs[2 * k + 1]);
        }
    }
    return pairs[0];
#else
    uint16x4_t halves[TRAINC_BITS_FEATURES];
    for (int k = 0; k < TRAINC_BITS_FEATURES; k++) {
        halves[k] = vpadd_u16(vget_low_u16(pairs[k]), vget_high_u16(pairs[k]));
    }
    for (int left = TRAINC_BITS_FEATURES / 2; left > 1; left /= 2) {
        for (int k = 0; k < left; k++) {
            halves[k] = vpadd_u16(halves[2 * k], halves[2 * k + 1]);
        }
    }
    return vcombine_u16(halves[0], halves[1]);
#endif
}

/* Adds the counts of each pixel to its sums, and starts again. */
TRAINC_PART void trainc_bits_widen(int pixels,
    uint8x16_t counts[TRAINC_BITS_PIXELS][TRAINC_BITS_FEATURES],
    uint32x4_t differ[TRAINC_BITS_PIXELS][2])
{
    for (int p = 0; p < pixels; p++) {
        const uint16x8_t sums = trainc_bits_across(counts[p]);
        differ[p][0] = vaddw_u16(differ[p][0], vget_low_u16(sums));
        differ[p][1] = vaddw_u16(differ[p][1], vget_high_u16(sums));
        for (int k = 0; k < TRAINC_BITS_FEATURES; k++) {
            counts[p][k] = vdupq_n_u8(0);
        }
    }
}

/* Counts what differs of a block of each pixel and one of a feature's weights. */
TRAINC_PART void trainc_bits_count(int pixels,
    uint8x16_t counts[TRAINC_BITS_PIXELS][TRAINC_BITS_FEATURES], int k,
    const uint8x16_t pixel[TRAINC_BITS_PIXELS], uint8x16_t weights)
{
    for (int p = 0; p < pixels; p++) {
        counts[p][k] = vaddq_u8(counts[p][k], vcntq_u8(veorq_u8(pixel[p], weights)));
    }
}

/* How many bits of pixels' windows, which begin at `x`, differ from those of eight features: `rows`
 * rows of `bytes` bytes, `x_step` and `w_step` bytes from a row to the next. The first feature is
 * at `w`, the others `window` bytes behind each other; those beyond number `last` are it again. */
TRAINC_PART void trainc_bits_differ(int pixels, const uint8_t *const x[TRAINC_BITS_PIXELS],
    int32_t x_step, const uint8_t *w, int32_t window, int32_t last, int32_t w_step, int32_t rows,
    int32_t bytes, uint32x4_t differ[TRAINC_BITS_PIXELS][2])
{
    /* From number n on: zeros, but for the last n. */
    static const uint8_t masks[32] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };
    uint8x16_t counts[TRAINC_BITS_PIXELS][TRAINC_BITS_FEATURES];
    uint32x4_t sums[TRAINC_BITS_PIXELS][2];
    for (int p = 0; p < pixels; p++) {
        sums[p][0] = sums[p][1] = vdupq_n_u32(0);
        for (int k = 0; k < TRAINC_BITS_FEATURES; k++) {
            counts[p][k] = vdupq_n_u8(0);
        }
    }
    const int32_t rest = bytes % 16;
    const uint8x16_t mask = vld1q_u8(masks + rest);
    int32_t free = TRAINC_BITS_BLOCKS;
    const uint8_t *a[TRAINC_BITS_PIXELS];
    const uint8_t *b[TRAINC_BITS_FEATURES];
    for (int p = 0; p < pixels; p++) {
        a[p] = x[p];
    }
    b[0] = w;
    for (int k = 1; k < TRAINC_BITS_FEATURES; k++) {
        b[k] = k > last ? b[k - 1] : b[k - 1] + window;
    }
    for (int32_t row = 0; row < rows; row++) {
        int32_t at = 0;
        while (at + 16 <= bytes) {
            const int32_t blocks = (bytes - at) / 16 < free ? (bytes - at) / 16 : free;
            const int32_t end = at + 16 * blocks;
            free -= blocks;
            for (; at < end; at += 16) {
                uint8x16_t pixel[TRAINC_BITS_PIXELS];
                for (int p = 0; p < pixels; p++) {
                    pixel[p] = vld1q_u8(a[p] + at);
                }
                trainc_bits_count(pixels, counts, 0, pixel, vld1q_u8(b[0] + at));
                trainc_bits_count(pixels, counts, 1, pixel, vld1q_u8(b[1] + at));
                trainc_bits_count(pixels, counts, 2, pixel, vld1q_u8(b[2] + at));
                trainc_bits_count(pixels, counts, 3, pixel, vld1q_u8(b[3] + at));
                __asm__("" : "+r"(at) : "w"(counts[0][2]));
                trainc_bits_count(pixels, counts, 4, pixel, vld1q_u8(b[4] + at));
                trainc_bits_count(pixels, counts, 5, pixel, vld1q_u8(b[5] + at));
                trainc_bits_count(pixels, counts, 6, pixel, vld1q_u8(b[6] + at));
                trainc_bits_count(pixels, counts, 7, pixel, vld1q_u8(b[7] + at));
            }
            if (free == 0) {
                trainc_bits_widen(pixels, counts, sums);
                free = TRAINC_BITS_BLOCKS;
            }
        }
        if (rest > 0) {
            /* The last 16 bytes, without those that were counted. */
            const int whole = bytes > 16;
            uint8x16_t pixel[TRAINC_BITS_PIXELS];
            for (int p = 0; p < pixels; p++) {
                pixel[p] = whole ? vandq_u8(vld1q_u8(a[p] + bytes - 16), mask)
                                 : trainc_bits_few(a[p], rest);
            }
            for (int k = 0; k < TRAINC_BITS_FEATURES; k++) {
                trainc_bits_count(pixels, counts, k, pixel,
                    whole ? vandq_u8(vld1q_u8(b[k] + bytes - 16), mask)
                          : trainc_bits_few(b[k], rest));
            }
            if (--free == 0) {
                trainc_bits_widen(pixels, counts, sums);
                free = TRAINC_BITS_BLOCKS;
            }
        }
        for (int p = 0; p < pixels; p++) {
            a[p] += x_step;
        }
        for (int k = 0; k < TRAINC_BITS_FEATURES; k++) {
            b[k] += w_step;
        }
    }
    if (free < TRAINC_BITS_BLOCKS) {
        trainc_bits_widen(pixels, counts, sums);
    }
    for (int p = 0; p < pixels; p++) {
        differ[p][0] = sums[p][0];
        differ[p][1] = sums[p][1];
    }
}

/* The same of one pixel. */
TRAINC_SHARED void trainc_bits_of_one(const uint8_t *const x[TRAINC_BITS_PIXELS], int32_t x_step,
    const uint8_t *w, int32_t window, int32_t last, int32_t w_step, int32_t rows, int32_t bytes,
    uint32x4_t differ[TRAINC_BITS_PIXELS][2])
{
    trainc_bits_differ(1, x, x_step, w, window, last, w_step, rows, bytes, differ);
}

#if TRAINC_BITS_PIXELS > 1
/* The same of two pixels. */
TRAINC_SHARED void trainc_bits_of_two(const uint8_t *const x[TRAINC_BITS_PIXELS], int32_t x_step,
    const uint8_t *w, int32_t window, int32_t last, int32_t w_step, int32_t rows, int32_t bytes,
    uint32x4_t differ[TRAINC_BITS_PIXELS][2])
{
    trainc_bits_differ(2, x, x_step, w, window, last, w_step, rows, bytes, differ);
}
#endif

/* Stores what becomes of eight features' sums of a pixel, the first of them `first`: the sums, of
 * those that there are, or a bit for each that reaches its least, or whose complement does where
 * the flip is -1. */
TRAINC_PART void trainc_bits_finish(const struct trainc_bits *s, int32_t pixel, int32_t first,
    const int32x4_t sum[2], const int32_t *least, const int32_t *flips, int32_t *sums,
    uint8_t *bits)
{
    if (sums != NULL) {
        int32_t *const to = sums + pixel * s->features + first;
        if (first + TRAINC_BITS_FEATURES <= s->features) {
            vst1q_s32(to, sum[0]);
            vst1q_s32(to + 4, sum[1]);
            return;
        }
        int32_t all[TRAINC_BITS_FEATURES];
        vst1q_s32(all, sum[0]);
        vst1q_s32(all + 4, sum[1]);
        for (int32_t k = 0; first + k < s->features; k++) {
            to[k] = all[k];
        }
        return;
    }
    static const uint32_t places[TRAINC_BITS_FEATURES] = { 1, 2, 4, 8, 16, 32, 64, 128 };
    int32x4_t low = sum[0], high = sum[1];
    if (flips != NULL) {
        low = veorq_s32(low, vld1q_s32(flips + first));
        high = veorq_s32(high, vld1q_s32(flips + first + 4));
    }
    const uint32x4_t first_four = vcgeq_s32(low, vld1q_s32(least + first));
    const uint32x4_t last_four = vcgeq_s32(high, vld1q_s32(least + first + 4));
    const uint32x4_t reached = vorrq_u32(
        vandq_u32(first_four, vld1q_u32(places)), vandq_u32(last_four, vld1q_u32(places + 4)));
#if defined(__aarch64__)
    const uint32_t byte = vaddvq_u32(reached);
#else
    const uint32x2_t half = vadd_u32(vget_low_u32(reached), vget_high_u32(reached));
    const uint32_t byte = vget_lane_u32(vpadd_u32(half, half), 0);
#endif
    bits[(pixel * s->features + first) / 8] = (uint8_t)byte;
}

/* Where a window lies. */
struct trainc_bits_place {
    /* The first row and the first column of it that lie in the map, and how many do. */
    int32_t kh, kw, rows, columns;
    /* The map's pixel of its first row and column, which may lie beside the map. */
    int32_t top, left;
};

/* The window of a pixel of the result. */
TRAINC_PART struct trainc_bits_place trainc_bits_place(
    const struct trainc_bits *s, int32_t row, int32_t column)
{
    struct trainc_bits_place at;
    at.top = row % s->y_height * s->down - s->top;
    at.left = column * s->right - s->left;
    at.kh = at.top < 0 ? -at.top : 0;
    at.kw = at.left < 0 ? -at.left : 0;
    at.rows = trainc_maximum32(trainc_minimum32(s->height - at.top, s->rows) - at.kh, 0);
    at.columns = trainc_maximum32(trainc_minimum32(s->width - at.left, s->columns) - at.kw, 0);
    return at;
}

/* The sums of a convolution, `[batch, y_height, y_width, features]`, in `sums`; or, where that is
 * NULL, bits of them (see trainc_bits_finish; features are then a multiple of eight). Two
 * neighbouring pixels with whole rows of windows share what is loaded of the weights. Windows whose
 * rows are no whole vectors are laid out first, a row behind the other. */
TRAINC_PART void trainc_bits_convolution(const struct trainc_bits *s, const uint8_t *x,
    const uint8_t *w, const int32_t *least, const int32_t *flips, int32_t *sums, uint8_t *bits)
{
    const int32_t line = s->columns * s->bytes;
    const int32_t window = s->rows * line;
    const int32_t blocks = (s->features + TRAINC_BITS_FEATURES - 1) / TRAINC_BITS_FEATURES;
    const int lays = s->rows > 1 && line % 16 != 0 && window <= TRAINC_BITS_LAID;
    /* A block's weights serve all pixels, or a window that is laid out all blocks. */
    const int32_t outer = lays ? 1 : blocks, inner = lays ? blocks : 1;
    const int32_t x_step = s->width * s->bytes;
    uint8_t laid[TRAINC_BITS_PIXELS][TRAINC_BITS_LAID];
    for (int32_t pass = 0; pass < outer; pass++) {
        for (int32_t row = 0; row < s->batch * s->y_height; row++) {
            int32_t pixels;
            for (int32_t ow = 0; ow < s->y_width; ow += pixels) {
                const struct trainc_bits_place at = trainc_bits_place(s, row, ow);
                const int32_t taps = at.rows * at.columns;
                const uint8_t *from[TRAINC_BITS_PIXELS];
                int32_t rows = at.rows, bytes = at.columns * s->bytes;
                int32_t tap = at.kh * line + at.kw * s->bytes;
                pixels = 1;
                from[0] = x;
                if (taps == 0) {
                    tap = rows = bytes = 0;
                } else {
                    const int32_t image = row / s->y_height * s->height;
                    from[0] += (image + at.top + at.kh) * x_step + (at.left + at.kw) * s->bytes;
#if TRAINC_BITS_PIXELS > 1
                    /* The next one's window has all columns as well. */
                    if (ow + 1 < s->y_width && at.kw == 0
                        && at.left + s->right + s->columns <= s->width) {
                        pixels = 2;
                        from[1] = from[0] + s->right * s->bytes;
                    }
#endif
                }
                if (lays && taps == s->rows * s->columns) {
                    for (int p = 0; p < pixels; p++) {
                        for (int32_t r = 0; r < rows; r++) {
                            trainc_bits_copy(laid[p] + r * line, from[p] + r * x_step, line);
                        }
                        from[p] = laid[p];
                    }
                    rows = 1;
                    bytes = window;
                }
                for (int32_t i = 0; i < inner; i++) {
                    const int32_t first = TRAINC_BITS_FEATURES * (pass + i);
                    const int32x4_t most = vdupq_n_s32(taps * s->channels);
                    uint32x4_t differ[TRAINC_BITS_PIXELS][2];
                    const uint8_t *const weights = w + first * window + tap;
                    const int32_t last = s->features - 1 - first;
#if TRAINC_BITS_PIXELS > 1
                    if (pixels == 2) {
                        trainc_bits_of_two(
                            from, x_step, weights, window, last, line, rows, bytes, differ);
                    } else
#endif
                    {
                        trainc_bits_of_one(
                            from, x_step, weights, window, last, line, rows, bytes, differ);
                    }
                    for (int32_t p = 0; p < pixels; p++) {
                        int32x4_t sum[2];
                        for (int half = 0; half < 2; half++) {
                            const uint32x4_t twice = vshlq_n_u32(differ[p][half], 1);
                            sum[half] = vsubq_s32(most, vreinterpretq_s32_u32(twice));
                        }
                        trainc_bits_finish(s, row * s->y_width + ow + p, first, sum, least, flips,
                            sums, bits);
                    }
                }
            }
        }
    }
}

#endif
