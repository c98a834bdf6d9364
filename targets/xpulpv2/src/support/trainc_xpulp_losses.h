/* Losses of classes: the mean cross-entropy of floats, and NITI's gradient of it from bytes. */
#ifndef TRAINC_XPULP_LOSSES_H
#define TRAINC_XPULP_LOSSES_H

#include "trainc_xpulp_elements.h"

/* NITI's gradient, by rows. */
struct trainc_xpulp_shares {
    /* [rows][classes] */
    const int8_t *x;
    const int32_t *labels;
    int8_t *y;
    /* Of each class, what it takes of 2048; before, its weight. */
    uint32_t *shares;
    int32_t classes, exponent;
    const int32_t *run;
    uint32_t stream;
};

/* trainc_draw of four neighbours. */
static inline void trainc_xpulp_draw_four(const int32_t *run, uint32_t stream, uint32_t block,
    uint32_t draws[4])
{
    uint32_t c0 = block, c1 = (uint32_t)run[2], c2 = stream, c3 = 0;
    uint32_t k0 = (uint32_t)run[0], k1 = (uint32_t)run[1];
    for (int32_t round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)c0 * UINT32_C(0xd2511f53);
        const uint64_t p1 = (uint64_t)c2 * UINT32_C(0xcd9e8d57);
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += UINT32_C(0x9e3779b9);
        k1 += UINT32_C(0xbb67ae85);
    }
    draws[0] = c0;
    draws[1] = c1;
    draws[2] = c2;
    draws[3] = c3;
}

/* A logit by the binary logarithm of e and by 2^exponent, whole numbers toward zero at each step; from
 * 2^4 on, neighbours are further apart than weights reach. */
static inline int32_t trainc_xpulp_binary(int32_t x, int32_t exponent)
{
    const int32_t binary = x * 47274 / 32768;
    if (exponent >= 0) {
        return binary * (1 << trainc_minimum32(exponent, 4));
    }
    return (binary + (binary >> 31 & ((1 << -exponent) - 1))) >> -exponent;
}

/* 2 (1 + z + z^2 / 2) = (1 + z)^2 + 1 of z = x / 2^down, by 2^(2 down). */
static inline uint64_t trainc_xpulp_parabola(int32_t x, int32_t down)
{
    const int32_t sum = x + (1 << down);
    return (uint64_t)((int64_t)sum * sum) + (UINT64_C(1) << 2 * down);
}

/* The shares of a row's weights, whole numbers of 2048; returns their sum. */
static inline uint32_t trainc_xpulp_row_shares(const int8_t *x, int32_t classes, int32_t exponent,
    uint32_t *shares)
{
    uint32_t sum = 0, total = 0;
    if (exponent >= -25 && exponent < -9) {
        /* Weights of more than 20 bits: quotients of what 32 bits hold are at most one too small. */
        const int32_t down = -exponent;
        const int32_t beyond =
            trainc_maximum32(15 - trainc_leading_zeros(classes) + 2 * down, 0);
        uint64_t all = 0;
        for (int32_t i = 0; i < classes; i++) {
            all += trainc_xpulp_parabola(x[i], down);
        }
        const uint32_t divisor = (uint32_t)(all >> beyond) + (beyond > 0);
        for (int32_t i = 0; i < classes; i++) {
            const uint64_t weight = trainc_xpulp_parabola(x[i], down);
            const uint32_t share = ((uint32_t)(weight >> beyond) << 11) / divisor;
            shares[i] = share + ((weight << 11) - share * all >= all);
            total += shares[i];
        }
        return total;
    }
    if (exponent > -7) {
        int32_t largest = -128;
        for (int32_t i = 0; i < classes; i++) {
            largest = trainc_maximum32(largest, x[i]);
        }
        const int32_t bottom = trainc_xpulp_binary(largest, exponent) - 10;
        for (int32_t i = 0; i < classes; i++) {
            const int32_t above = trainc_xpulp_binary(x[i], exponent) - bottom;
            shares[i] = (UINT32_C(1) << trainc_maximum32(above, 0)) - 1;
            sum += shares[i];
        }
    } else {
        for (int32_t i = 0; i < classes; i++) {
            shares[i] =
                exponent < -25 ? 1 : (uint32_t)trainc_xpulp_parabola(x[i], -exponent);
            sum += shares[i];
        }
    }
    for (int32_t i = 0; i < classes; i++) {
        if (shares[i] != 0) {
            shares[i] = (shares[i] << 11) / sum;
            total += shares[i];
        }
    }
    return total;
}

/* Some rows: shares less what a label takes, by 16, rounded by chance; zeros where no class is the
 * label. */
static inline void trainc_xpulp_share_rows(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_shares work = *(const struct trainc_xpulp_shares *)context;
    uint32_t draws[4], block = UINT32_MAX;
    for (int32_t row = begin; row < end; row++) {
        const int32_t first = row * work.classes, label = work.labels[row];
        uint32_t *const shares = work.shares + first;
        if ((uint32_t)label >= (uint32_t)work.classes) {
            for (int32_t i = 0; i < work.classes; i++) {
                work.y[first + i] = 0;
            }
            continue;
        }
        const uint32_t total =
            trainc_xpulp_row_shares(work.x + first, work.classes, work.exponent, shares);
        shares[label] -= total;
        for (int32_t i = 0; i < work.classes; i++) {
            const uint32_t share = shares[i], magnitude = trainc_xpulp_abs(share);
            uint32_t rounded = magnitude >> 4;
            if ((magnitude & 15) != 0) {
                const uint32_t element = (uint32_t)(first + i);
                if (element >> 2 != block) {
                    block = element >> 2;
                    trainc_xpulp_draw_four(work.run, work.stream, block, draws);
                }
                rounded += draws[element & 3] >> 28 < (magnitude & 15);
            }
            rounded = trainc_xpulp_minu(rounded, 127);
            work.y[first + i] = (int8_t)((int32_t)share < 0 ? 0 - rounded : rounded);
        }
    }
}

/* The mean cross-entropy. */
struct trainc_xpulp_entropy {
    /* [rows][classes] */
    const float *x;
    const int32_t *labels;
    /* Of each element, e to what it lies above the largest of its row; of each row this, then its
     * value. */
    float *powers, *values;
    int32_t classes;
};

/* A number of a float's bits, for tables. */
#define TRAINC_XPULP_NUMBER_OF(bits) \
    { bits, (int32_t)((bits) >> 23 & 255) - 1, ((bits) & 0x7fffff) | 0x800000 }

/* sum of c[i] x^(count - 1 - i). */
static inline struct trainc_xpulp_number trainc_xpulp_polynomial(
    const struct trainc_xpulp_number *c, int32_t count, struct trainc_xpulp_number x,
    uint32_t *largest)
{
    struct trainc_xpulp_number sum = c[0];
    for (int32_t i = 1; i < count; i++) {
        sum = trainc_xpulp_plus(trainc_xpulp_times(sum, x, largest), c[i], largest);
    }
    return sum;
}

/* k by the two parts of the logarithm of 2, the second one's magnitude; k has at most 7 bits. */
static inline struct trainc_xpulp_number trainc_xpulp_upper_ln2(int32_t k, uint32_t *largest)
{
    return trainc_xpulp_whole_number(k * 355, -9, largest);
}

static inline struct trainc_xpulp_number trainc_xpulp_lower_ln2(int32_t k, uint32_t *largest)
{
    return trainc_xpulp_whole_number(k * 14581891, -36, largest);
}

/* e^x of an x not above 0, or a NaN, within one unit of the last place: with k = x log2 e, rounded, and r = x - k ln 2, in two parts,
 * (r^2 p(r) + r + 1) 2^k. */
static inline float trainc_xpulp_exp(float x)
{
    const uint32_t bits = (uint32_t)trainc_bits(x), magnitude = bits & INT32_MAX;
    if (magnitude == 0) {
        return 1.0f;
    }
    if (TRAINC_XPULP_CHAINS && magnitude < 0x42ae0000) {
        static const struct trainc_xpulp_number one = TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3f800000));
        static const struct trainc_xpulp_number log2 = TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3fb8aa3b));
        static const struct trainc_xpulp_number p[] = {
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3ab51131)),
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3c091d82)),
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3d2aac7c)),
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3e2aaa48)),
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3efffffe)),
        };
        uint32_t largest = 0;
        struct trainc_xpulp_number r = trainc_xpulp_number(x, &largest);
        const struct trainc_xpulp_number binary = trainc_xpulp_times(r, log2, &largest);
        const int32_t down = trainc_minimum32(149 - binary.exponent, 31);
        const int32_t whole = (int32_t)trainc_xpulp_nearest_by(binary.mantissa, down);
        const int32_t k = (int32_t)bits < 0 ? -whole : whole;
        if (k != 0) {
            r = trainc_xpulp_minus(r, trainc_xpulp_upper_ln2(k, &largest), &largest);
            r = trainc_xpulp_plus(r, trainc_xpulp_lower_ln2(k, &largest), &largest);
        }
        const struct trainc_xpulp_number square = trainc_xpulp_times(r, r, &largest);
        const struct trainc_xpulp_number part = trainc_xpulp_plus(
            trainc_xpulp_times(square, trainc_xpulp_polynomial(p, 5, r, &largest), &largest), r,
            &largest);
        const float y = trainc_xpulp_float(trainc_xpulp_times_power(
            trainc_xpulp_plus(part, one, &largest), k, &largest));
        if (largest <= TRAINC_XPULP_MOST_EXPONENT) {
            return y;
        }
    }
    const float c = trainc_maximum(x, -104.0f);
    const float k = trainc_round(c * 0x1.715476p+0f);
    const float r = c - k * 0x1.63p-1f - k * -0x1.bd0106p-13f;
    const float p = (((0x1.6a2262p-10f * r + 0x1.123b04p-7f) * r + 0x1.5558f8p-5f) * r
        + 0x1.55549p-3f) * r + 0x1.fffffcp-2f;
    const int32_t n = trainc_to_integer(k), half = n >> 1;
    if (magnitude > 0x7f800000) {
        return trainc_float(0x7fc00000);
    }
    return (r * r * p + r + 1.0f) * trainc_float((int32_t)((uint32_t)(half + 127) << 23))
        * trainc_float((int32_t)((uint32_t)(n - half + 127) << 23));
}

/* The logarithm of a finite float from 1 on, or a NaN, within one unit of the last place: x = 2^k m with m from
 * sqrt(1/2) to sqrt 2, f = m - 1, s = f / (2 + f), z = s^2, h = f^2 / 2; then
 * k ln 2 - ((h - s (h + z p(z))) - f), with the two parts of ln 2 apart. */
static inline float trainc_xpulp_log(float x)
{
    const int32_t bits = trainc_bits(x), whole = (bits - 0x3f3504f3) >> 23;
    if (bits < 0 || bits > 0x7f800000) {
        return trainc_float(0x7fc00000);
    }
    if (bits == 0x3f800000) {
        return 0.0f;
    }
    const float f = trainc_float(bits - (int32_t)((uint32_t)whole << 23)) - 1.0f;
    const float s = f / (f + 2.0f);
    if (TRAINC_XPULP_CHAINS) {
        static const struct trainc_xpulp_number p[] = {
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3e7182a3)),
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3e921c3d)),
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3ecccd3e)),
            TRAINC_XPULP_NUMBER_OF(UINT32_C(0x3f2aaaaa)),
        };
        uint32_t largest = 0;
        const struct trainc_xpulp_number of = trainc_xpulp_number(f, &largest);
        const struct trainc_xpulp_number by = trainc_xpulp_number(s, &largest);
        const struct trainc_xpulp_number z = trainc_xpulp_times(by, by, &largest);
        const struct trainc_xpulp_number h =
            trainc_xpulp_times(trainc_xpulp_times_power(of, -1, &largest), of, &largest);
        struct trainc_xpulp_number y = trainc_xpulp_times(by, trainc_xpulp_plus(h,
            trainc_xpulp_times(z, trainc_xpulp_polynomial(p, 4, z, &largest), &largest), &largest),
            &largest);
        if (whole != 0) {
            y = trainc_xpulp_minus(y, trainc_xpulp_lower_ln2(whole, &largest), &largest);
        }
        y = trainc_xpulp_negative(trainc_xpulp_minus(trainc_xpulp_minus(h, y, &largest), of,
            &largest));
        if (whole != 0) {
            y = trainc_xpulp_plus(trainc_xpulp_upper_ln2(whole, &largest), y, &largest);
        }
        if (largest <= TRAINC_XPULP_MOST_EXPONENT) {
            return trainc_xpulp_float(y);
        }
    }
    const float k = (float)whole, z = s * s, h = 0.5f * f * f;
    const float p = ((0x1.e30546p-3f * z + 0x1.24387ap-2f) * z + 0x1.999a7cp-2f) * z + 0x1.555554p-1f;
    return k * 0x1.63p-1f - (h - (s * (h + z * p) + k * -0x1.bd0106p-13f) - f);
}

/* The largest float of a row, of which NaNs do not count. */
static inline float trainc_xpulp_row_largest(const float *x, int32_t count)
{
    int32_t most = (int32_t)0x807fffff;
    for (int32_t i = 0; i < count; i++) {
        const int32_t bits = trainc_bits(x[i]);
        if ((uint32_t)bits << 1 <= UINT32_C(0xff000000)) {
            most = trainc_maximum32(most, bits < 0 ? bits ^ INT32_MAX : bits);
        }
    }
    return trainc_float(most < 0 ? most ^ INT32_MAX : most);
}

/* Some elements' powers. */
static inline void trainc_xpulp_entropy_powers(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_entropy work = *(const struct trainc_xpulp_entropy *)context;
    int32_t left = 0, row = begin / work.classes;
    float largest = 0.0f;
    for (int32_t i = begin; i < end; i++) {
        if (left == 0) {
            largest = trainc_xpulp_row_largest(work.x + row * work.classes, work.classes);
            row++;
            left = row * work.classes - i;
        }
        left--;
        work.powers[i] = trainc_xpulp_exp(work.x[i] - largest);
    }
}

/* Some rows' values. */
static inline void trainc_xpulp_entropy_rows(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_entropy work = *(const struct trainc_xpulp_entropy *)context;
    for (int32_t row = begin; row < end; row++) {
        const int32_t first = row * work.classes, label = work.labels[row];
        float value = 0.0f;
        if ((uint32_t)label < (uint32_t)work.classes) {
            float sum = 0.0f;
            for (int32_t i = 0; i < work.classes; i++) {
                sum += work.powers[first + i];
            }
            value = trainc_xpulp_log(sum) - (work.x[first + label]
                - trainc_xpulp_row_largest(work.x + first, work.classes));
        }
        work.values[row] = value;
    }
}

#endif
