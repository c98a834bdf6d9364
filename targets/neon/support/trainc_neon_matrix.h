/* Matrix products of few images by sdot, with nothing packed: y[images][outputs] of x[images][k] and
 * w[outputs][k], the error of x, and the gradient of w. */
#ifndef TRAINC_NEON_MATRIX_H
#define TRAINC_NEON_MATRIX_H

#include "trainc_neon_dotprod.h"
#include "trainc_neon_outer.h"

/* 4 bytes at a place, and zeros. */
TRAINC_PART int8x16_t trainc_word(const int8_t *at)
{
    return vreinterpretq_s8_s32(
        vld1q_lane_s32((const int32_t *)(const void *)at, vdupq_n_s32(0), 0));
}

/* The products of what is left behind whole words. */
TRAINC_PART int32_t trainc_rest(const int8_t *a, const int8_t *b, int32_t k)
{
    int32_t sum = 0;
    for (int32_t i = k & ~3; i < k; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* The four sums of four registers' lanes. */
TRAINC_PART int32x4_t trainc_across(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d)
{
    return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
}

/* sums[8] of one image and 8 rows of weights, k apart; returns the bits of their magnitudes. */
TRAINC_SHARED TRAINC_DOTPROD uint32x4_t trainc_dot8(const int8_t *x, const int8_t *w, int32_t k,
    int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    int32x4_t s0 = zero, s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero,
              s7 = zero;
    const int8_t *const w0 = w, *const w1 = w0 + k, *const w2 = w1 + k, *const w3 = w2 + k;
    const int8_t *const w4 = w3 + k, *const w5 = w4 + k, *const w6 = w5 + k, *const w7 = w6 + k;
#define TRAINC_STEP(load)                \
    {                                    \
        const int8x16_t v = load(x + i); \
        s0 = vdotq_s32(s0, v, load(w0 + i)); \
        s1 = vdotq_s32(s1, v, load(w1 + i)); \
        s2 = vdotq_s32(s2, v, load(w2 + i)); \
        s3 = vdotq_s32(s3, v, load(w3 + i)); \
        s4 = vdotq_s32(s4, v, load(w4 + i)); \
        s5 = vdotq_s32(s5, v, load(w5 + i)); \
        s6 = vdotq_s32(s6, v, load(w6 + i)); \
        s7 = vdotq_s32(s7, v, load(w7 + i)); \
    }
    ptrdiff_t i = 0;
    for (; i + 16 <= k; i += 16) {
        TRAINC_STEP(vld1q_s8)
    }
    for (; i + 4 <= k; i += 4) {
        TRAINC_STEP(trainc_word)
    }
#undef TRAINC_STEP
    int32x4_t low = trainc_across(s0, s1, s2, s3), high = trainc_across(s4, s5, s6, s7);
    if ((k & 3) != 0) {
        int32_t rest[8];
        for (int32_t row = 0; row < 8; row++) {
            rest[row] = trainc_rest(x, w + row * k, k);
        }
        low = vaddq_s32(low, vld1q_s32(rest));
        high = vaddq_s32(high, vld1q_s32(rest + 4));
    }
    vst1q_s32(sums, low);
    vst1q_s32(sums + 4, high);
    return vreinterpretq_u32_s32(vorrq_s32(vabsq_s32(low), vabsq_s32(high)));
}

/* sums[image * stride + row] of up to 4 images and 4 rows of weights, both k apart; returns the bits
 * of their magnitudes. */
TRAINC_SHARED TRAINC_DOTPROD uint32x4_t trainc_dot4x4(const int8_t *x, int32_t images,
    const int8_t *w, int32_t k, int32_t *sums, int32_t stride)
{
    const int32x4_t zero = vdupq_n_s32(0);
    int32x4_t a0 = zero, a1 = zero, a2 = zero, a3 = zero;
    int32x4_t b0 = zero, b1 = zero, b2 = zero, b3 = zero;
    int32x4_t c0 = zero, c1 = zero, c2 = zero, c3 = zero;
    int32x4_t d0 = zero, d1 = zero, d2 = zero, d3 = zero;
    const int8_t *const w0 = w, *const w1 = w0 + k, *const w2 = w1 + k, *const w3 = w2 + k;
    /* Missing images repeat the first. */
    const int8_t *const xa = x, *const xb = images > 1 ? x + k : x;
    const int8_t *const xc = images > 2 ? x + 2 * k : x, *const xd = images > 3 ? x + 3 * k : x;
#define TRAINC_IMAGE(image, load)                   \
    {                                               \
        const int8x16_t v = load(x##image + i);     \
        image##0 = vdotq_s32(image##0, v, v0);      \
        image##1 = vdotq_s32(image##1, v, v1);      \
        image##2 = vdotq_s32(image##2, v, v2);      \
        image##3 = vdotq_s32(image##3, v, v3);      \
    }
#define TRAINC_STEP(load)                                              \
    {                                                                  \
        const int8x16_t v0 = load(w0 + i), v1 = load(w1 + i);          \
        const int8x16_t v2 = load(w2 + i), v3 = load(w3 + i);          \
        TRAINC_IMAGE(a, load)                                          \
        TRAINC_IMAGE(b, load)                                          \
        TRAINC_IMAGE(c, load)                                          \
        TRAINC_IMAGE(d, load)                                          \
    }
    ptrdiff_t i = 0;
    for (; i + 16 <= k; i += 16) {
        TRAINC_STEP(vld1q_s8)
    }
    for (; i + 4 <= k; i += 4) {
        TRAINC_STEP(trainc_word)
    }
#undef TRAINC_STEP
#undef TRAINC_IMAGE
    int32x4_t all[4] = {trainc_across(a0, a1, a2, a3), trainc_across(b0, b1, b2, b3),
        trainc_across(c0, c1, c2, c3), trainc_across(d0, d1, d2, d3)};
    uint32x4_t bits = vdupq_n_u32(0);
    for (int32_t image = 0; image < images; image++) {
        if ((k & 3) != 0) {
            int32_t rest[4];
            for (int32_t row = 0; row < 4; row++) {
                rest[row] = trainc_rest(x + image * k, w + row * k, k);
            }
            all[image] = vaddq_s32(all[image], vld1q_s32(rest));
        }
        vst1q_s32(sums + image * stride, all[image]);
        bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(all[image])));
    }
    return bits;
}

/* sums[image * k + lane] of 16 lanes and up to 4 images: over the outputs, of which dy has
 * outputs16 (a multiple of 16) an image, zeros behind the last. w is the weights' first row at those
 * lanes, and k their distance. Returns the bits of the magnitudes. */
TRAINC_SHARED TRAINC_DOTPROD uint32x4_t trainc_columns(const int8_t *dy, int32_t images,
    int32_t outputs, int32_t outputs16, const int8_t *w, int32_t k, int32_t *sums)
{
    const int32x4_t zero = vdupq_n_s32(0);
    int32x4_t a0 = zero, a1 = zero, a2 = zero, a3 = zero;
    int32x4_t b0 = zero, b1 = zero, b2 = zero, b3 = zero;
    int32x4_t c0 = zero, c1 = zero, c2 = zero, c3 = zero;
    int32x4_t d0 = zero, d1 = zero, d2 = zero, d3 = zero;
    for (int32_t o = 0; o < outputs; o += 4) {
        /* Rows that are not there are multiplied by zeros. */
        const int32_t left = outputs - o;
        const int8_t *const w0 = w + o * (ptrdiff_t)k;
        const int8_t *const w1 = left > 1 ? w0 + k : w0, *const w2 = left > 2 ? w1 + k : w1;
        const int8_t *const w3 = left > 3 ? w2 + k : w2;
        const int8x16x2_t even = vzipq_s8(vld1q_s8(w0), vld1q_s8(w2));
        const int8x16x2_t odd = vzipq_s8(vld1q_s8(w1), vld1q_s8(w3));
        const int8x16x2_t low = vzipq_s8(even.val[0], odd.val[0]);
        const int8x16x2_t high = vzipq_s8(even.val[1], odd.val[1]);
#define TRAINC_IMAGE(image, n)                                                              \
    {                                                                                       \
        const int8x16_t e = vreinterpretq_s8_s32(                                           \
            vld1q_dup_s32((const int32_t *)(const void *)(dy + (n) * outputs16 + o)));      \
        image##0 = vdotq_s32(image##0, low.val[0], e);                                      \
        image##1 = vdotq_s32(image##1, low.val[1], e);                                      \
        image##2 = vdotq_s32(image##2, high.val[0], e);                                     \
        image##3 = vdotq_s32(image##3, high.val[1], e);                                     \
    }
        TRAINC_IMAGE(a, 0)
        if (images > 1) {
            TRAINC_IMAGE(b, 1)
        }
        if (images > 2) {
            TRAINC_IMAGE(c, 2)
            TRAINC_IMAGE(d, 3)
        }
#undef TRAINC_IMAGE
    }
    uint32x4_t bits = vdupq_n_u32(0);
#define TRAINC_IMAGE(image, n)                                                    \
    if (images > (n)) {                                                           \
        int32_t *const to = sums + (n) * (ptrdiff_t)k;                            \
        vst1q_s32(to, image##0);                                                  \
        vst1q_s32(to + 4, image##1);                                              \
        vst1q_s32(to + 8, image##2);                                              \
        vst1q_s32(to + 12, image##3);                                             \
        bits = vorrq_u32(bits, vreinterpretq_u32_s32(vorrq_s32(                   \
            vorrq_s32(vabsq_s32(image##0), vabsq_s32(image##1)),                  \
            vorrq_s32(vabsq_s32(image##2), vabsq_s32(image##3)))));               \
    }
    TRAINC_IMAGE(a, 0)
    TRAINC_IMAGE(b, 1)
    TRAINC_IMAGE(c, 2)
    TRAINC_IMAGE(d, 3)
#undef TRAINC_IMAGE
    return bits;
}

/* The bits of the magnitudes of the sums of units begin to end, of eight rows each for one image, of
 * four for more; the last unit also has the rows that fill none. sums[images][outputs]. */
TRAINC_SHARED int32_t trainc_dots(const int8_t *x, const int8_t *w, int32_t images,
    int32_t outputs, int32_t k, int32_t begin, int32_t end, int32_t *sums)
{
    const int32_t rows = images == 1 ? 8 : 4, units = outputs / rows;
    uint32x4_t bits = vdupq_n_u32(0);
    const int32_t last = end == units && outputs % rows != 0 ? end + 1 : end;
    for (int32_t unit = begin; unit < last; unit++) {
        const int32_t row = trainc_minimum32(unit * rows, outputs - rows);
        if (images == 1) {
            bits = vorrq_u32(bits, trainc_dot8(x, w + row * (ptrdiff_t)k, k, sums + row));
            continue;
        }
        for (int32_t image = 0; image < images; image += 4) {
            bits = vorrq_u32(bits, trainc_dot4x4(x + image * k,
                trainc_minimum32(images - image, 4), w + row * (ptrdiff_t)k, k,
                sums + image * outputs + row, outputs));
        }
    }
    return trainc_magnitude_bits(bits);
}

/* The same of an error: units of 16 lanes. sums[images][k]; dy has outputs16 an image, of images in
 * whole fours. */
TRAINC_SHARED int32_t trainc_errors(const int8_t *dy, const int8_t *w, int32_t images,
    int32_t outputs, int32_t outputs16, int32_t k, int32_t begin, int32_t end, int32_t *sums)
{
    const int32_t units = k / 16;
    uint32x4_t bits = vdupq_n_u32(0);
    const int32_t last = end == units && k % 16 != 0 ? end + 1 : end;
    for (int32_t unit = begin; unit < last; unit++) {
        const int32_t lane = trainc_minimum32(unit * 16, k - 16);
        for (int32_t image = 0; image < images; image += 4) {
            bits = vorrq_u32(bits, trainc_columns(dy + image * outputs16,
                trainc_minimum32(images - image, 4), outputs, outputs16, w + lane, k,
                sums + image * k + lane));
        }
    }
    return trainc_magnitude_bits(bits);
}

/* to[image][padded] of from[image][count], zeros behind. */
TRAINC_SHARED void trainc_padded(const int8_t *from, int32_t images, int32_t count, int8_t *to,
    int32_t padded)
{
    for (int32_t image = 0; image < images; image++) {
        for (int32_t i = 0; i < padded; i++) {
            to[i] = i < count ? from[i] : 0;
        }
        from += count;
        to += padded;
    }
}

/* Rounds sums that lie together. */
TRAINC_PART void trainc_store_all(const int32_t *sums, int32_t count, int8_t *y,
    const struct trainc_rounding *rounding, trainc_rounded *round)
{
    const struct trainc_rounding own = *rounding;
    int32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        vst1q_s8(y + i, trainc_rounded16(sums + i, sums + i + 8, &own, round));
    }
    if (i < count) {
        int32_t last[16] = {0};
        int8_t results[16];
        for (int32_t l = 0; i + l < count; l++) {
            last[l] = sums[i + l];
        }
        vst1q_s8(results, trainc_rounded16(last, last + 8, &own, round));
        for (int32_t l = 0; i + l < count; l++) {
            y[i + l] = results[l];
        }
    }
}

TRAINC_SHARED void trainc_store_all_half_away(const int32_t *sums, int32_t count, int8_t *y,
    const struct trainc_rounding *rounding)
{
    trainc_store_all(sums, count, y, rounding, trainc_half_away);
}

TRAINC_SHARED void trainc_store_all_pseudo_stochastic(const int32_t *sums, int32_t count,
    int8_t *y, const struct trainc_rounding *rounding)
{
    trainc_store_all(sums, count, y, rounding, trainc_pseudo_stochastic);
}

/* Sums as they are. */
TRAINC_SHARED void trainc_store_all_sums(const int32_t *sums, int32_t count, int32_t *y)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = sums[i];
    }
}

/* For outer products of two to eight images by sdot: x by 16 lanes, [lanes][words of 4 images][16
 * lanes][4 images], the last 16 overlapping those before, and dy as [rows][8 images]; zeros where
 * there is no image. */
TRAINC_SHARED void trainc_outer_operands_dotprod(const int8_t *dy, const int8_t *x, int32_t images,
    int32_t rows, int32_t lanes, int8_t *errors, int8_t *operand)
{
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t image = 0; image < 8; image++) {
            errors[8 * row + image] = image < images ? dy[image * rows + row] : 0;
        }
    }
    for (int32_t lane = 0; lane < lanes; lane += 16) {
        const int8_t *const from = x + (lane + 16 <= lanes ? lane : lanes - 16);
        for (int32_t first = 0; first < images; first += 4) {
            int8x16_t v[4];
            for (int32_t i = 0; i < 4; i++) {
                v[i] = first + i < images ? vld1q_s8(from + (first + i) * lanes) : vdupq_n_s8(0);
            }
            const int8x16x2_t even = vzipq_s8(v[0], v[2]), odd = vzipq_s8(v[1], v[3]);
            const int8x16x2_t low = vzipq_s8(even.val[0], odd.val[0]);
            const int8x16x2_t high = vzipq_s8(even.val[1], odd.val[1]);
            vst1q_s8(operand, low.val[0]);
            vst1q_s8(operand + 16, low.val[1]);
            vst1q_s8(operand + 32, high.val[0]);
            vst1q_s8(operand + 48, high.val[1]);
            operand += 64;
        }
    }
}

/* 16 sums of each of two rows over up to 8 images, whose errors are [rows][words]. */
TRAINC_PART TRAINC_DOTPROD void trainc_outer_dot(const int8_t *operand, int8x16_t errors[2][2],
    int32_t words, int32x4_t sums[2][4])
{
    const int32x4_t zero = vdupq_n_s32(0);
    for (int32_t i = 0; i < 4; i++) {
        const int8x16_t first = vld1q_s8(operand + 16 * i);
        for (int32_t row = 0; row < 2; row++) {
            sums[row][i] = vdotq_s32(zero, first, errors[row][0]);
        }
        if (words == 2) {
            const int8x16_t second = vld1q_s8(operand + 64 + 16 * i);
            for (int32_t row = 0; row < 2; row++) {
                sums[row][i] = vdotq_s32(sums[row][i], second, errors[row][1]);
            }
        }
    }
}

TRAINC_PART int8x16_t trainc_dup_word(const int8_t *at)
{
    return vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)at));
}

/* The errors of a row and of the next, or of the last one twice. */
TRAINC_PART void trainc_two_errors(const int8_t *errors, int32_t row, int32_t rows,
    int8x16_t two[2][2])
{
    const int32_t next = row + 1 < rows ? row + 1 : row;
    for (int32_t word = 0; word < 2; word++) {
        two[0][word] = trainc_dup_word(errors + 8 * row + 4 * word);
        two[1][word] = trainc_dup_word(errors + 8 * next + 4 * word);
    }
}

/* The bits of the magnitudes of all sums. */
TRAINC_PART TRAINC_DOTPROD uint32x4_t trainc_outer_dots(const int8_t *errors,
    const int8_t *operand, int32_t words, int32_t rows, int32_t lanes)
{
    uint32x4_t bits = vdupq_n_u32(0);
    for (int32_t row = 0; row < rows; row += 2) {
        int8x16_t two[2][2];
        trainc_two_errors(errors, row, rows, two);
        const int8_t *at = operand;
        for (int32_t lane = 0; lane < lanes; lane += 16) {
            int32x4_t sums[2][4];
            trainc_outer_dot(at, two, words, sums);
            at += 64 * words;
            for (int32_t i = 0; i < 4; i++) {
                bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(sums[0][i])));
                bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(sums[1][i])));
            }
        }
    }
    return bits;
}

TRAINC_SHARED TRAINC_DOTPROD uint32x4_t trainc_outer_bits_dotprod(const int8_t *errors,
    const int8_t *operand, int32_t images, int32_t rows, int32_t lanes)
{
    return images > 4 ? trainc_outer_dots(errors, operand, 2, rows, lanes)
                      : trainc_outer_dots(errors, operand, 1, rows, lanes);
}

/* The results: y[rows][lanes]. */
TRAINC_PART TRAINC_DOTPROD void trainc_outer_results(const int8_t *errors, const int8_t *operand,
    int32_t words, int32_t rows, int32_t lanes, int8_t *y, const struct trainc_rounding *rounding,
    trainc_rounded *round)
{
    const struct trainc_rounding own = *rounding;
    for (int32_t row = 0; row < rows; row += 2, y += 2 * lanes) {
        int8x16_t two[2][2];
        trainc_two_errors(errors, row, rows, two);
        int8_t *const next = row + 1 < rows ? y + lanes : y;
        const int8_t *at = operand;
        for (int32_t lane = 0; lane < lanes; lane += 16) {
            const int32_t place = lane + 16 <= lanes ? lane : lanes - 16;
            int32x4_t sums[2][4];
            trainc_outer_dot(at, two, words, sums);
            at += 64 * words;
            vst1q_s8(y + place, trainc_rounded_sums(sums[0][0], sums[0][1], sums[0][2],
                sums[0][3], &own, round));
            vst1q_s8(next + place, trainc_rounded_sums(sums[1][0], sums[1][1], sums[1][2],
                sums[1][3], &own, round));
        }
    }
}

#define TRAINC_OUTER(rounding_)                                                                   \
    TRAINC_SHARED TRAINC_DOTPROD void trainc_outer_dotprod_##rounding_(const int8_t *errors,      \
        const int8_t *operand, int32_t images, int32_t rows, int32_t lanes, int8_t *y,            \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        if (images > 4) {                                                                         \
            trainc_outer_results(errors, operand, 2, rows, lanes, y, rounding, trainc_##rounding_); \
        } else {                                                                                  \
            trainc_outer_results(errors, operand, 1, rows, lanes, y, rounding, trainc_##rounding_); \
        }                                                                                         \
    }

TRAINC_OUTER(half_away)
TRAINC_OUTER(pseudo_stochastic)

#endif
