/* Normalizations of channels: exact sums of bytes, and bytes by factors of their channel, rounded
 * as an algorithm asks. */
#ifndef TRAINC_XPULP_CHANNELS_H
#define TRAINC_XPULP_CHANNELS_H

#include "trainc_xpulp_dither.h"
#include "trainc_xpulp_elements.h"
#include "trainc_xpulp_number.h"

#if defined(TRAINC_XPULP_INSN)
/* a factor + b turn of two elements. */
#define TRAINC_XPULP_LINES(p, q) \
    TRAINC_XPULP_LBSI(p, 1, x10) TRAINC_XPULP_LBSI(x7, 1, x11) \
    TRAINC_XPULP_LBSI(q, 1, x10) TRAINC_XPULP_LBSI(x28, 1, x11) \
    "mul " #p ", " #p ", x13\n\tmul " #q ", " #q ", x13\n\t" \
    TRAINC_XPULP_MAC(p, x7, x14) TRAINC_XPULP_MAC(q, x28, x14)
#endif

/* Of what is emitted once: GCC would make copies for sizes that callers have in common. */
#if defined(__GNUC__) && !defined(__clang__)
#define TRAINC_XPULP_ONCE __attribute__((noclone))
#else
#define TRAINC_XPULP_ONCE
#endif

/* [images][channels][space] elements, at most 2^16 of a channel. */
struct trainc_xpulp_sizes {
    int32_t images, channels, space;
    /* Of a channel; its reciprocal where that is exact, else 0. */
    float count, reciprocal;
};

/* A whole number, to nearest with ties to even; its magnitude is below 2^48. */
static inline float trainc_xpulp_float_of(int64_t x)
{
    const uint32_t sign = x < 0 ? UINT32_C(0x80000000) : 0;
    const uint64_t m = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    uint32_t word = (uint32_t)m, high = (uint32_t)(m >> 32);
    if (m == 0) {
        return 0.0f;
    }
    int32_t exponent = 158;
    if (high != 0) {
        /* The upper 32 bits, the last of which stands for all that lies below, too. */
        const int32_t up = 31 - trainc_xpulp_highest(high);
        const uint32_t lost = word << up;
        word = (up == 0 ? high : high << up | word >> (32 - up)) | (lost != 0);
        exponent += 32 - up;
    } else {
        const int32_t up = 31 - trainc_xpulp_highest(word);
        word <<= up;
        exponent -= up;
    }
    const uint32_t rest = word & 255, kept = word >> 8;
    const uint32_t bits = (((uint32_t)exponent - 1) << 23) + kept + (rest + (kept & 1) > 128);
    return trainc_float((int32_t)(sign | bits));
}

/* 2^exponent as two factors that are normal numbers, clamped; where the second one is 1, also the
 * first one's exponent. */
struct trainc_xpulp_power {
    float first, second;
    int32_t exponent;
};

static inline struct trainc_xpulp_power trainc_xpulp_power(int32_t exponent)
{
    struct trainc_xpulp_power power;
    const int32_t e = trainc_maximum32(trainc_minimum32(exponent, 1000), -1000);
    const int32_t first = trainc_maximum32(trainc_minimum32(e, 127), -126);
    const int32_t second = trainc_maximum32(trainc_minimum32(e - first, 127), -126);
    power.first = trainc_float((first + 127) << 23);
    power.second = trainc_float((second + 127) << 23);
    power.exponent = second == 0 ? first : 0;
    return power;
}

static inline float trainc_xpulp_scaled_by(float x, const struct trainc_xpulp_power *power)
{
    float moved;
    if (trainc_bits(power->second) == 0x3f800000 && trainc_xpulp_moved(x, power->exponent, &moved)) {
        return moved;
    }
    return x * power->first * power->second;
}

/* x / count. */
static inline float trainc_xpulp_average(float x, const struct trainc_xpulp_sizes *sizes)
{
    const int32_t reciprocal = trainc_bits(sizes->reciprocal);
    float moved;
    if (reciprocal != 0 && trainc_xpulp_moved(x, (reciprocal >> 23) - 127, &moved)) {
        return moved;
    }
    return reciprocal != 0 ? x * sizes->reciprocal : x / sizes->count;
}

/* The exponent of a reciprocal of a count that is exact. */
static inline int32_t trainc_xpulp_share(const struct trainc_xpulp_sizes *sizes)
{
    return (trainc_bits(sizes->reciprocal) >> 23) - 127;
}

/* Whether a chain of numbers may be tried, where exponents are given by these. */
static inline int32_t trainc_xpulp_chains(const struct trainc_xpulp_power *power)
{
    return TRAINC_XPULP_CHAINS && trainc_bits(power->second) == 0x3f800000;
}

/* sums[0] += the elements of a, sums[1] += their products with those of b. */
static inline void trainc_xpulp_dots(const int8_t *a, const int8_t *b, int32_t count,
    int32_t *sums)
{
    int32_t i = 0;
    int32_t sum = sums[0], products = sums[1];
#if defined(TRAINC_XPULP_INSN)
    if (count > 3) {
        register const int8_t *x10 __asm__("x10") = a;
        register const int8_t *x11 __asm__("x11") = b;
        register int32_t x12 __asm__("x12") = count >> 2;
        register int32_t x13 __asm__("x13") = sum;
        register int32_t x14 __asm__("x14") = products;
        register uint32_t x15 __asm__("x15") = 0x01010101;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11)
            TRAINC_XPULP_SDOT(x13, x5, x15) "9: " TRAINC_XPULP_SDOT(x14, x5, x6) ".option pop"
            : "+r"(x10), "+r"(x11), "+r"(x13), "+r"(x14) : "r"(x12), "r"(x15)
            : "x5", "x6", "memory");
        sum = x13;
        products = x14;
        i = count & ~3;
    }
#else
    for (; i + 4 <= count; i += 4) {
        const uint32_t word = trainc_xpulp_load(a + i);
        sum = (int32_t)trainc_xpulp_sdotsp_b((uint32_t)sum, word, 0x01010101);
        products = (int32_t)trainc_xpulp_sdotsp_b((uint32_t)products, word,
            trainc_xpulp_load(b + i));
    }
#endif
    for (; i < count; i++) {
        sum += a[i];
        products += a[i] * b[i];
    }
    sums[0] = sum;
    sums[1] = products;
}

/* The same of a and a. */
static inline void trainc_xpulp_squares(const int8_t *a, int32_t count, int32_t *sums)
{
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count > 7) {
        register const int8_t *x10 __asm__("x10") = a;
        register int32_t x12 __asm__("x12") = count >> 3;
        register int32_t x13 __asm__("x13") = sums[0];
        register int32_t x14 __asm__("x14") = sums[1];
        register uint32_t x15 __asm__("x15") = 0x01010101;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            TRAINC_XPULP_SDOT(x13, x5, x15) TRAINC_XPULP_SDOT(x14, x5, x5)
            TRAINC_XPULP_SDOT(x13, x6, x15) "9: " TRAINC_XPULP_SDOT(x14, x6, x6) ".option pop"
            : "+r"(x10), "+r"(x13), "+r"(x14) : "r"(x12), "r"(x15) : "x5", "x6", "memory");
        sums[0] = x13;
        sums[1] = x14;
        i = count & ~7;
    }
#endif
    if (i < count) {
        trainc_xpulp_dots(a + i, a + i, count - i, sums);
    }
}

/* What sums of channels are made of, and become. */
struct trainc_xpulp_channel_sums {
    struct trainc_xpulp_sizes sizes;
    const int8_t *x, *dy;
    struct trainc_xpulp_power x_power, dy_power;
    const float *mean, *inverse;
    float *first, *second;
};

/* Elements of a channel whose sum, and by whose count that of their squares, have 31 bits at most. */
#define TRAINC_XPULP_SHORT 256

/* A channel's mean and variance of such sums; 0 where floats have to make these. */
static inline int32_t trainc_xpulp_short_statistics(const struct trainc_xpulp_channel_sums *work,
    int32_t c, const int32_t *sums)
{
    const struct trainc_xpulp_sizes *const sizes = &work->sizes;
    const int32_t share = trainc_xpulp_share(sizes), power = work->x_power.exponent;
    const int32_t spread = sizes->images * sizes->space * sums[1] - sums[0] * sums[0];
    uint32_t largest = 0;
    const struct trainc_xpulp_number mean =
        trainc_xpulp_whole_number(sums[0], share + power, &largest);
    const struct trainc_xpulp_number variance =
        trainc_xpulp_whole_number(spread, 2 * (share + power), &largest);
    work->first[c] = trainc_xpulp_float(mean);
    work->second[c] = trainc_xpulp_float(variance);
    return largest <= TRAINC_XPULP_MOST_EXPONENT;
}

/* Mean and variance of some channels. */
static inline void trainc_xpulp_statistics(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_channel_sums *const work =
        (const struct trainc_xpulp_channel_sums *)context;
    const struct trainc_xpulp_sizes *const sizes = &work->sizes;
    const int32_t few = trainc_xpulp_chains(&work->x_power) && trainc_bits(sizes->reciprocal) != 0
        && sizes->images * sizes->space <= TRAINC_XPULP_SHORT;
    for (int32_t c = begin; c < end; c++) {
        int32_t sums[2] = { 0, 0 };
        for (int32_t n = 0; n < sizes->images; n++) {
            const int8_t *const x = work->x + (n * sizes->channels + c) * sizes->space;
            if (TRAINC_XPULP_CHAINS) {
                trainc_xpulp_squares(x, sizes->space, sums);
            } else {
                trainc_xpulp_dots(x, x, sizes->space, sums);
            }
        }
        if (TRAINC_XPULP_MOSTLY(few && trainc_xpulp_short_statistics(work, c, sums))) {
            continue;
        }
        const float mean = trainc_xpulp_average(trainc_xpulp_float_of(sums[0]), sizes);
        work->first[c] = trainc_xpulp_scaled_by(mean, &work->x_power);
        const int64_t spread = (int64_t)(sizes->images * sizes->space) * sums[1]
            - (int64_t)sums[0] * sums[0];
        const float squared = trainc_xpulp_average(trainc_xpulp_float_of(spread), sizes);
        const float variance = trainc_xpulp_scaled_by(trainc_xpulp_average(squared, sizes),
            &work->x_power);
        work->second[c] = trainc_xpulp_scaled_by(variance, &work->x_power);
    }
}

/* What centred elements of channels are multiplied by. */
struct trainc_xpulp_inverses {
    const float *variance;
    float *inverse;
    float epsilon;
};

static inline void trainc_xpulp_inverse_deviations(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_inverses *const work = (const struct trainc_xpulp_inverses *)context;
    uint32_t first = 0;
    const struct trainc_xpulp_number epsilon = trainc_xpulp_number(work->epsilon, &first);
    for (int32_t c = begin; c < end; c++) {
        float square = 0.0f;
        uint32_t largest = first;
        if (TRAINC_XPULP_CHAINS) {
            square = trainc_xpulp_float(trainc_xpulp_plus(
                trainc_xpulp_number(work->variance[c], &largest), epsilon, &largest));
        }
        if (!TRAINC_XPULP_CHAINS || largest > TRAINC_XPULP_MOST_EXPONENT) {
            square = work->variance[c] + work->epsilon;
        }
        const int32_t bits = trainc_bits(square);
        work->inverse[c] = TRAINC_XPULP_MOSTLY(bits >= 0x800000 && bits < 0x7f800000)
            ? trainc_xpulp_inverse_root(square) : 1.0f / trainc_sqrt(square);
    }
}

/* A channel's gradients of these sums; 0 where floats have to make these. */
static inline int32_t trainc_xpulp_chained_gradients(const struct trainc_xpulp_channel_sums *work,
    int32_t c, const int32_t *sums)
{
    uint32_t largest = 0;
    const struct trainc_xpulp_number mean = trainc_xpulp_number(work->mean[c], &largest);
    const struct trainc_xpulp_number inverse = trainc_xpulp_number(work->inverse[c], &largest);
    const struct trainc_xpulp_number bias =
        trainc_xpulp_whole_number(sums[0], work->dy_power.exponent, &largest);
    const struct trainc_xpulp_number products = trainc_xpulp_times_power(
        trainc_xpulp_whole_number(sums[1], work->dy_power.exponent, &largest),
        work->x_power.exponent, &largest);
    const struct trainc_xpulp_number centred =
        trainc_xpulp_minus(products, trainc_xpulp_times(mean, bias, &largest), &largest);
    work->first[c] = trainc_xpulp_float(trainc_xpulp_times(centred, inverse, &largest));
    work->second[c] = trainc_xpulp_float(bias);
    return largest <= TRAINC_XPULP_MOST_EXPONENT;
}

/* Gradients of some channels' factors and of what is added. */
static inline void trainc_xpulp_error_sums(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_channel_sums *const work =
        (const struct trainc_xpulp_channel_sums *)context;
    const struct trainc_xpulp_sizes *const sizes = &work->sizes;
    const int32_t chains =
        trainc_xpulp_chains(&work->x_power) && trainc_xpulp_chains(&work->dy_power);
    for (int32_t c = begin; c < end; c++) {
        int32_t sums[2] = { 0, 0 };
        for (int32_t n = 0; n < sizes->images; n++) {
            const int32_t start = (n * sizes->channels + c) * sizes->space;
            trainc_xpulp_dots(work->dy + start, work->x + start, sizes->space, sums);
        }
        if (TRAINC_XPULP_MOSTLY(chains && trainc_xpulp_chained_gradients(work, c, sums))) {
            continue;
        }
        const float bias = trainc_xpulp_scaled_by(trainc_xpulp_float_of(sums[0]), &work->dy_power);
        const float products = trainc_xpulp_scaled_by(
            trainc_xpulp_scaled_by(trainc_xpulp_float_of(sums[1]), &work->dy_power),
            &work->x_power);
        work->first[c] = (products - work->mean[c] * bias) * work->inverse[c];
        work->second[c] = bias;
    }
}

/* Parts in which channels are taken, one of them is measured, and all elements are rounded by chance. */
#define TRAINC_XPULP_PARTS 8

/* What is known of some parts of the channels: the first one of what a core takes has it of all of these,
 * the others have zeros. */
struct trainc_xpulp_lines_part {
    /* The largest bits of factors, turns and offsets, doubled. */
    uint32_t factors, turns, offsets;
    /* The largest width, that of which channel, and the next one. */
    uint32_t first, second;
    int32_t channel;
};

/* Sums a factor + b turn + offset of elements of a channel; a is dy, or x where there is no dy. */
struct trainc_xpulp_lines {
    struct trainc_xpulp_sizes sizes;
    const int8_t *a, *b;
    int32_t a_exponent, b_exponent;
    const float *scale, *bias, *mean, *inverse, *dscale, *dbias;
    /* Whether mean and variance are the batch's own. */
    int32_t batch;
    /* By channels: the bits of floats, then whole numbers. No turns where there is no dy. */
    int32_t *factors, *turns, *offsets;
    /* What whole numbers are scaled by, as powers of two. */
    int32_t factor_power, turn_power, offset_power;
    /* What the magnitudes of each channel's sums do not exceed, of the largest with as many bits as it
     * has; none where sums are the results. Of sums that are rounded by chance, behind them for each
     * channel its offset, and its factor above its turn. */
    uint32_t *widths;
    int32_t *lines;
    /* Of one operand that is rounded to nearest, the least and the greatest byte of each channel. */
    int8_t *ranges;
    struct trainc_xpulp_rounding rounding;
    /* Up to what magnitude all sums become bytes that need no clamp, and what none exceeds. */
    uint32_t bytes, most;
    int8_t *y;
    /* Where they are kept. */
    int32_t *sums;
    struct trainc_xpulp_lines_part parts[TRAINC_XPULP_PARTS];
    /* Of sums that are rounded by chance: the channel that is measured and its parts' largest
     * magnitudes; the shift, whether results may exceed a byte, and the first element's counter. Fours
     * of elements begin so many ahead of multiples of 4: where nothing is clamped, words of memory are
     * such fours, else the first one's counter is a multiple of 4. */
    int32_t measured;
    uint32_t largest[TRAINC_XPULP_PARTS];
    int32_t shift, clamps, ahead;
    uint32_t key;
};

/* A channel's floats; 0 where floats have to make these. */
static inline int32_t trainc_xpulp_chained_line(const struct trainc_xpulp_lines *work, int32_t c)
{
    uint32_t largest = 0;
    const struct trainc_xpulp_number inverse = trainc_xpulp_number(work->inverse[c], &largest);
    const struct trainc_xpulp_number mean = trainc_xpulp_number(work->mean[c], &largest);
    const struct trainc_xpulp_number slope =
        trainc_xpulp_times(trainc_xpulp_number(work->scale[c], &largest), inverse, &largest);
    struct trainc_xpulp_number offset;
    if (work->turns == 0) {
        offset = trainc_xpulp_minus(trainc_xpulp_number(work->bias[c], &largest),
            trainc_xpulp_times(mean, slope, &largest), &largest);
    } else {
        const struct trainc_xpulp_number share =
            trainc_xpulp_times_power(slope, trainc_xpulp_share(&work->sizes), &largest);
        const struct trainc_xpulp_number dscale = trainc_xpulp_number(work->dscale[c], &largest);
        const struct trainc_xpulp_number dbias = trainc_xpulp_number(work->dbias[c], &largest);
        const struct trainc_xpulp_number turn = trainc_xpulp_negative(trainc_xpulp_times(
            trainc_xpulp_times(share, dscale, &largest), inverse, &largest));
        offset = trainc_xpulp_minus(
            trainc_xpulp_negative(trainc_xpulp_times(share, dbias, &largest)),
            trainc_xpulp_times(turn, mean, &largest), &largest);
        work->turns[c] = trainc_bits(trainc_xpulp_float(turn));
    }
    work->factors[c] = trainc_bits(trainc_xpulp_float(slope));
    work->offsets[c] = trainc_bits(trainc_xpulp_float(offset));
    return largest <= TRAINC_XPULP_MOST_EXPONENT;
}

/* The first channel of a part. */
static inline int32_t trainc_xpulp_first_channel(const struct trainc_xpulp_lines *work, int32_t part)
{
    return part * work->sizes.channels / TRAINC_XPULP_PARTS;
}

/* The floats of some parts' channels, and the largest of them. */
static inline void trainc_xpulp_line_floats(void *context, int32_t begin, int32_t end)
{
    struct trainc_xpulp_lines *const work = (struct trainc_xpulp_lines *)context;
    const int32_t first = trainc_xpulp_first_channel(work, begin);
    const int32_t behind = trainc_xpulp_first_channel(work, end);
    const int32_t chains = TRAINC_XPULP_CHAINS
        && (work->turns == 0 || (work->batch && trainc_bits(work->sizes.reciprocal) != 0));
    for (int32_t c = first; c < behind; c++) {
        if (TRAINC_XPULP_MOSTLY(chains && trainc_xpulp_chained_line(work, c))) {
            continue;
        }
        const float inverse = work->inverse[c];
        const float slope = work->scale[c] * inverse;
        float turn = 0.0f, offset = 0.0f;
        if (work->turns == 0) {
            offset = work->bias[c] - work->mean[c] * slope;
        } else if (work->batch) {
            const float share = trainc_xpulp_average(slope, &work->sizes);
            turn = -(share * work->dscale[c] * inverse);
            offset = -(share * work->dbias[c]) - turn * work->mean[c];
        }
        work->factors[c] = trainc_bits(slope);
        if (work->turns != 0) {
            work->turns[c] = trainc_bits(turn);
        }
        work->offsets[c] = trainc_bits(offset);
    }
    const struct trainc_xpulp_lines_part none = { 0, 0, 0, 0, 0, 0 };
    for (int32_t n = begin; n < end; n++) {
        work->parts[n] = none;
    }
    struct trainc_xpulp_lines_part *const part = &work->parts[begin];
    part->factors = trainc_xpulp_most_bits(work->factors + first, behind - first);
    part->offsets = trainc_xpulp_most_bits(work->offsets + first, behind - first);
    if (work->turns != 0) {
        part->turns = trainc_xpulp_most_bits(work->turns + first, behind - first);
    }
}

/* The least power of two that no finite magnitude of the channels' floats exceeds, as its exponent;
 * -149 of zeros. The largest of all bits, doubled. */
static inline int32_t trainc_xpulp_exponent(const int32_t *floats, int32_t count, uint32_t most)
{
    const int32_t largest = trainc_maximum32(trainc_xpulp_finite(floats, count, most), 1);
    const int32_t biased = largest >> 23, mantissa = largest & 0x7fffff;
    return biased > 0 ? biased - 127 + (mantissa != 0)
        : 32 - trainc_leading_zeros(mantissa) - 150 + ((mantissa & (mantissa - 1)) != 0);
}

/* trainc_xpulp_whole of what is no normal number or remains one of more bits than it has. */
static inline uint32_t trainc_xpulp_whole_special(uint32_t bits, int32_t up, uint32_t limit)
{
    const uint32_t biased = trainc_xpulp_extractu(bits, 8, 23), fraction = bits & 0x7fffff;
    const uint32_t mantissa = biased > 0 ? fraction | 0x800000 : fraction;
    if (biased == 255) {
        return fraction == 0 ? limit : 0;
    }
    /* The magnitude is mantissa 2^up. */
    up += biased > 0 ? 0 : 1;
    if (up > 0) {
        return up < 32 && mantissa <= limit >> up ? mantissa << up : mantissa > 0 ? limit : 0;
    }
    if (up <= -26) {
        return 0;
    }
    const uint32_t even = up < 0 ? (mantissa >> -up) & 1 : 0;
    return up < 0 ? (mantissa + (UINT32_C(1) << (-up - 1)) - 1 + even) >> -up : mantissa;
}

/* The float of these bits by 2^power to nearest, ties to even, within +-limit; 0 for NaN. */
static inline int32_t trainc_xpulp_whole(int32_t of, int32_t power, uint32_t limit)
{
    const uint32_t bits = (uint32_t)of, biased = trainc_xpulp_extractu(bits, 8, 23);
    const int32_t down = 156 - power - (int32_t)biased;
    uint32_t q;
    if (TRAINC_XPULP_MOSTLY(biased - 1 < 254 && down > 0)) {
        /* By six bits more. */
        const uint32_t mantissa = (trainc_xpulp_extractu(bits, 23, 0) | 0x800000) << 6;
        q = trainc_xpulp_nearest_by(mantissa, (int32_t)trainc_xpulp_minu((uint32_t)down, 31));
    } else {
        q = trainc_xpulp_whole_special(bits, 6 - down, limit);
    }
    q = trainc_xpulp_minu(q, limit);
    const uint32_t sign = (uint32_t)(of >> 31);
    return (int32_t)((q ^ sign) - sign);
}

/* The least and the greatest of bytes, four of each in a word. */
static inline void trainc_xpulp_byte_extremes(const int8_t *x, int32_t count, uint32_t *extremes)
{
    int32_t i = 0;
    uint32_t least = extremes[0], greatest = extremes[1];
#if defined(TRAINC_XPULP_INSN)
    if (count > 7) {
        register const int8_t *x10 __asm__("x10") = x;
        register int32_t x12 __asm__("x12") = count >> 3;
        register uint32_t x13 __asm__("x13") = least;
        register uint32_t x14 __asm__("x14") = greatest;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            TRAINC_XPULP_PV(1, 0x10, x13, x13, x5) TRAINC_XPULP_PV(1, 0x18, x14, x14, x5)
            TRAINC_XPULP_PV(1, 0x10, x13, x13, x6) "9: " TRAINC_XPULP_PV(1, 0x18, x14, x14, x6)
            ".option pop"
            : "+r"(x10), "+r"(x13), "+r"(x14) : "r"(x12) : "x5", "x6", "memory");
        least = x13;
        greatest = x14;
        i = count & ~7;
    }
#endif
    for (; i + 4 <= count; i += 4) {
        const uint32_t word = trainc_xpulp_load(x + i);
        least = trainc_xpulp_min_b(least, word);
        greatest = trainc_xpulp_max_b(greatest, word);
    }
    for (; i < count; i++) {
        const uint32_t word = (uint8_t)x[i] * UINT32_C(0x01010101);
        least = trainc_xpulp_min_b(least, word);
        greatest = trainc_xpulp_max_b(greatest, word);
    }
    extremes[0] = least;
    extremes[1] = greatest;
}

#if TRAINC_XPULP_CHAINS
/* The least and the greatest of bytes that are whole words, at least one. */
static inline void trainc_xpulp_word_extremes(const int8_t *x, int32_t words, int8_t *extremes)
{
    uint32_t least = 0x7f7f7f7f, greatest = 0x80808080;
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = x;
    register int32_t x12 __asm__("x12") = words;
    register uint32_t x13 __asm__("x13") = least;
    register uint32_t x14 __asm__("x14") = greatest;
    if (TRAINC_XPULP_MOSTLY((words & 1) == 0)) {
        x12 >>= 1;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            TRAINC_XPULP_PV(1, 0x10, x13, x13, x5) TRAINC_XPULP_PV(1, 0x18, x14, x14, x5)
            TRAINC_XPULP_PV(1, 0x10, x13, x13, x6) "9: " TRAINC_XPULP_PV(1, 0x18, x14, x14, x6)
            ".option pop"
            : "+r"(x10), "+r"(x13), "+r"(x14) : "r"(x12) : "x5", "x6", "memory");
    } else {
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) "nop\n\t"
            TRAINC_XPULP_PV(1, 0x10, x13, x13, x5) "9: " TRAINC_XPULP_PV(1, 0x18, x14, x14, x5)
            ".option pop"
            : "+r"(x10), "+r"(x13), "+r"(x14) : "r"(x12) : "x5", "memory");
    }
    least = x13;
    greatest = x14;
#else
    for (int32_t i = 0; i < words; i++) {
        const uint32_t word = trainc_xpulp_load(x + 4 * i);
        least = trainc_xpulp_min_b(least, word);
        greatest = trainc_xpulp_max_b(greatest, word);
    }
#endif
    least = trainc_xpulp_min_b(least, least >> 16);
    greatest = trainc_xpulp_max_b(greatest, greatest >> 16);
    least = trainc_xpulp_min_b(least, least >> 8);
    greatest = trainc_xpulp_max_b(greatest, greatest >> 8);
    extremes[0] = (int8_t)(least & 255);
    extremes[1] = (int8_t)(greatest & 255);
}
#endif

/* The least and the greatest byte of a channel. */
static inline void trainc_xpulp_channel_extremes(const struct trainc_xpulp_sizes *sizes,
    const int8_t *x, int32_t c, int8_t *extremes)
{
#if TRAINC_XPULP_CHAINS
    if (TRAINC_XPULP_MOSTLY(sizes->images == 1 && (sizes->space & 3) == 0)) {
        trainc_xpulp_word_extremes(x + c * sizes->space, sizes->space >> 2, extremes);
        return;
    }
#endif
    uint32_t bytes[2] = { 0x7f7f7f7f, 0x80808080 };
    for (int32_t n = 0; n < sizes->images; n++) {
        trainc_xpulp_byte_extremes(x + (n * sizes->channels + c) * sizes->space, sizes->space, bytes);
    }
    for (int32_t i = 0; i < 2; i++) {
        uint32_t all = bytes[i];
        for (int32_t by = 16; by >= 8; by -= 8) {
            all = i == 0 ? trainc_xpulp_min_b(all, all >> by) : trainc_xpulp_max_b(all, all >> by);
        }
        extremes[i] = (int8_t)(all & 255);
    }
}

/* What the magnitude of no sum of a channel exceeds, by its least and greatest bytes: of one operand,
 * the largest one, as a sum moves one way with its byte. The second operand's bytes do not matter where
 * any of them leave sums within what is enough. */
static inline uint32_t trainc_xpulp_line_bound(const struct trainc_xpulp_lines *work, int32_t c,
    uint32_t enough)
{
    const int32_t factor = work->factors[c];
    int32_t least = work->offsets[c], greatest = least;
    int8_t bytes[2];
    trainc_xpulp_channel_extremes(&work->sizes, work->a, c, bytes);
    if (work->ranges != 0) {
        work->ranges[2 * c] = bytes[0];
        work->ranges[2 * c + 1] = bytes[1];
    }
    least += (factor < 0 ? bytes[1] : bytes[0]) * factor;
    greatest += (factor < 0 ? bytes[0] : bytes[1]) * factor;
    if (work->turns != 0) {
        const int32_t turn = work->turns[c];
        const uint32_t most = 128 * trainc_xpulp_abs((uint32_t)turn)
            + trainc_xpulp_maxu(trainc_xpulp_abs((uint32_t)least),
                trainc_xpulp_abs((uint32_t)greatest));
        if (most <= enough) {
            return most;
        }
        trainc_xpulp_channel_extremes(&work->sizes, work->b, c, bytes);
        least += (turn < 0 ? bytes[1] : bytes[0]) * turn;
        greatest += (turn < 0 ? bytes[0] : bytes[1]) * turn;
    }
    return trainc_xpulp_maxu(trainc_xpulp_abs((uint32_t)least), trainc_xpulp_abs((uint32_t)greatest));
}

#if TRAINC_XPULP_CHAINS
/* Those of one operand whose channels have one image of whole words each. */
static inline void trainc_xpulp_line_integers_of_words(const struct trainc_xpulp_lines *work,
    int32_t first, int32_t behind, struct trainc_xpulp_lines_part *part)
{
    int32_t *const factors = work->factors, *const offsets = work->offsets;
    uint32_t *const widths = work->widths;
    int8_t *const ranges = work->ranges;
    const int32_t factor_power = work->factor_power, offset_power = work->offset_power;
    const int32_t space = work->sizes.space, words = space >> 2;
    const int8_t *x = work->a + first * space;
    uint32_t largest = 0, second = 0;
    int32_t channel = 0;
    for (int32_t c = first; c < behind; c++, x += space) {
        const int32_t factor = trainc_xpulp_whole(factors[c], factor_power, 32767);
        const int32_t offset = trainc_xpulp_whole(offsets[c], offset_power, UINT32_C(1) << 30);
        int8_t bytes[2];
        trainc_xpulp_word_extremes(x, words, bytes);
        const uint32_t width = trainc_xpulp_maxu(
            trainc_xpulp_abs((uint32_t)(bytes[0] * factor + offset)),
            trainc_xpulp_abs((uint32_t)(bytes[1] * factor + offset)));
        factors[c] = factor;
        offsets[c] = offset;
        ranges[2 * c] = bytes[0];
        ranges[2 * c + 1] = bytes[1];
        widths[c] = width;
        if (TRAINC_XPULP_MOSTLY(width <= largest)) {
            second = trainc_xpulp_maxu(second, width);
        } else {
            second = largest;
            largest = width;
            channel = c;
        }
    }
    part->first = largest;
    part->second = second;
    part->channel = channel;
}

/* Those of two operands, whose sums are rounded by chance. */
static inline void trainc_xpulp_line_integers_of_two(const struct trainc_xpulp_lines *work,
    int32_t first, int32_t behind, struct trainc_xpulp_lines_part *part)
{
    int32_t *const factors = work->factors, *const turns = work->turns;
    int32_t *const offsets = work->offsets, *const lines = work->lines;
    uint32_t *const widths = work->widths;
    const int32_t factor_power = work->factor_power, turn_power = work->turn_power;
    const int32_t offset_power = work->offset_power;
    uint32_t largest = 0, second = 0;
    int32_t channel = 0;
    for (int32_t c = first; c < behind; c++) {
        const int32_t factor = trainc_xpulp_whole(factors[c], factor_power, 32767);
        const int32_t turn = trainc_xpulp_whole(turns[c], turn_power, 32767);
        const int32_t offset = trainc_xpulp_whole(offsets[c], offset_power, UINT32_C(1) << 30);
        const uint32_t width = 128 * (trainc_xpulp_abs((uint32_t)factor)
            + trainc_xpulp_abs((uint32_t)turn)) + trainc_xpulp_abs((uint32_t)offset);
        factors[c] = factor;
        turns[c] = turn;
        offsets[c] = offset;
        lines[2 * c] = offset;
        lines[2 * c + 1] = (int32_t)((uint32_t)factor << 16 | ((uint32_t)turn & 0xffff));
        widths[c] = width;
        if (TRAINC_XPULP_MOSTLY(width <= largest)) {
            second = trainc_xpulp_maxu(second, width);
        } else {
            second = largest;
            largest = width;
            channel = c;
        }
    }
    part->first = largest;
    part->second = second;
    part->channel = channel;
}
#endif

/* The whole numbers of some parts' channels, and what their sums do not exceed: of one operand by the
 * bytes that there are, else of any bytes. */
static inline void trainc_xpulp_line_integers(void *context, int32_t begin, int32_t end)
{
    struct trainc_xpulp_lines *const work = (struct trainc_xpulp_lines *)context;
    const int32_t first = trainc_xpulp_first_channel(work, begin);
    const int32_t behind = trainc_xpulp_first_channel(work, end);
    uint32_t largest = 0, second = 0;
    int32_t channel = 0;
#if TRAINC_XPULP_CHAINS
    if (work->ranges != 0 && work->sizes.images == 1 && (work->sizes.space & 3) == 0) {
        trainc_xpulp_line_integers_of_words(work, first, behind, &work->parts[begin]);
        return;
    }
    if (work->lines != 0 && work->turns != 0) {
        trainc_xpulp_line_integers_of_two(work, first, behind, &work->parts[begin]);
        return;
    }
#endif
    for (int32_t c = first; c < behind; c++) {
        const int32_t factor = trainc_xpulp_whole(work->factors[c], work->factor_power, 32767);
        const int32_t offset = trainc_xpulp_whole(work->offsets[c], work->offset_power,
            UINT32_C(1) << 30);
        uint32_t width = trainc_xpulp_abs((uint32_t)factor);
        int32_t line = (int32_t)((uint32_t)factor << 16);
        work->factors[c] = factor;
        work->offsets[c] = offset;
        if (work->turns != 0) {
            const int32_t turn = trainc_xpulp_whole(work->turns[c], work->turn_power, 32767);
            work->turns[c] = turn;
            width += trainc_xpulp_abs((uint32_t)turn);
            line = (int32_t)((uint32_t)factor << 16 | ((uint32_t)turn & 0xffff));
        }
        if (TRAINC_XPULP_CHAINS && work->lines != 0) {
            work->lines[2 * c] = offset;
            work->lines[2 * c + 1] = line;
        }
        if (work->widths == 0) {
            continue;
        }
        width = work->ranges != 0 ? trainc_xpulp_line_bound(work, c, 0)
            : 128 * width + trainc_xpulp_abs((uint32_t)offset);
        work->widths[c] = width;
        if (width > largest) {
            second = largest;
            largest = width;
            channel = c;
        } else {
            second = trainc_xpulp_maxu(second, width);
        }
    }
    struct trainc_xpulp_lines_part *const part = &work->parts[begin];
    part->first = largest;
    part->second = second;
    part->channel = channel;
}

/* All channels' whole numbers; returns the exponent of sums. */
static TRAINC_XPULP_ONCE inline int64_t trainc_xpulp_lines_start(struct trainc_xpulp_lines *work)
{
    const int32_t channels = work->sizes.channels;
    TRAINC_PARALLEL_FOR(work, TRAINC_XPULP_PARTS, trainc_xpulp_line_floats);
    uint32_t factors = 0, turns = 0, offsets = 0;
    for (int32_t part = 0; part < TRAINC_XPULP_PARTS; part++) {
        factors = trainc_xpulp_maxu(factors, work->parts[part].factors);
        turns = trainc_xpulp_maxu(turns, work->parts[part].turns);
        offsets = trainc_xpulp_maxu(offsets, work->parts[part].offsets);
    }
    const int64_t a = work->a_exponent, b = work->b_exponent;
    int64_t e = trainc_xpulp_exponent(work->offsets, channels, offsets) - 30;
    e = trainc_maximum64(e, a + trainc_xpulp_exponent(work->factors, channels, factors) - 15);
    if (work->turns != 0) {
        e = trainc_maximum64(e, b + trainc_xpulp_exponent(work->turns, channels, turns) - 15);
    }
    work->factor_power = (int32_t)trainc_maximum64(trainc_minimum64(a - e, 1000), -1000);
    work->turn_power = (int32_t)trainc_maximum64(trainc_minimum64(b - e, 1000), -1000);
    work->offset_power = (int32_t)trainc_maximum64(trainc_minimum64(-e, 1000), -1000);
    TRAINC_PARALLEL_FOR(work, TRAINC_XPULP_PARTS, trainc_xpulp_line_integers);
    return e;
}

#if defined(TRAINC_XPULP_INSN)
/* Four sums in x5, x6, x7 and x28. */
#define TRAINC_XPULP_LINE_OF_ONE \
    TRAINC_XPULP_LBSI(x5, 1, x10) TRAINC_XPULP_LBSI(x6, 1, x10) \
    TRAINC_XPULP_LBSI(x7, 1, x10) TRAINC_XPULP_LBSI(x28, 1, x10) \
    "mul x5, x5, x13\n\tmul x6, x6, x13\n\tmul x7, x7, x13\n\tmul x28, x28, x13\n\t"
#define TRAINC_XPULP_FOUR_OF(x, each) each(x5, x) each(x6, x) each(x7, x) each(x28, x)
#define TRAINC_XPULP_UP_BY(x, a) TRAINC_XPULP_ADD_SHIFT(x, a, x15)
#define TRAINC_XPULP_TO_127(x, a) TRAINC_XPULP_CLIPU(x, x, a)
#define TRAINC_XPULP_PLUS(x, a) "add " #x ", " #x ", " #a "\n\t"
/* Less one below zero. */
#define TRAINC_XPULP_AWAY(x, a) \
    "slt x29, " #x ", " #a "\n\t" TRAINC_XPULP_SUB_SHIFT(x, x29, x15)
#define TRAINC_XPULP_WITHIN_BYTE(x, a) TRAINC_XPULP_CLIP8(x, x)
/* Negative sums are 0. */
#define TRAINC_XPULP_LINE_POSITIVE \
    TRAINC_XPULP_LINE_OF_ONE TRAINC_XPULP_FOUR_OF(x14, TRAINC_XPULP_UP_BY) \
    TRAINC_XPULP_FOUR_OF(x16, TRAINC_XPULP_TO_127) \
    TRAINC_XPULP_BYTES(x5, x5, x6, x7, x28) "9: " TRAINC_XPULP_SWI(x5, 4, x11)
#define TRAINC_XPULP_LINE_BYTES_OF_ONE \
    TRAINC_XPULP_LINE_OF_ONE TRAINC_XPULP_FOUR_OF(x14, TRAINC_XPULP_PLUS) \
    TRAINC_XPULP_FOUR_OF(x18, TRAINC_XPULP_AWAY) \
    TRAINC_XPULP_BYTES(x5, x5, x6, x7, x28) "9: " TRAINC_XPULP_SWI(x5, 4, x11)
/* Below zero, half a unit less the least. */
#define TRAINC_XPULP_LINE_WITHIN \
    TRAINC_XPULP_LINE_OF_ONE TRAINC_XPULP_FOUR_OF(x14, TRAINC_XPULP_PLUS) \
    TRAINC_XPULP_FOUR_OF(x18, TRAINC_XPULP_AWAY) \
    TRAINC_XPULP_FOUR_OF(x0, TRAINC_XPULP_WITHIN_BYTE) \
    TRAINC_XPULP_BYTES(x5, x5, x6, x7, x28) TRAINC_XPULP_PV(5, 0x18, x5, x5, x17) \
    "9: " TRAINC_XPULP_SWI(x5, 4, x11)
#endif

/* Sums of one operand in a row, rounded to nearest, ties away from zero; whether results may exceed
 * a byte. */
static inline void trainc_xpulp_line_half_away(const int8_t *a, int8_t *y, int32_t count,
    int32_t factor, int32_t offset, int32_t clamps, const struct trainc_xpulp_rounding *r)
{
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (r->shift > 0 && count > 3) {
        register const int8_t *x10 __asm__("x10") = a;
        register int8_t *x11 __asm__("x11") = y;
        register int32_t x12 __asm__("x12") = count >> 2;
        register int32_t x13 __asm__("x13") = factor;
        register int32_t x14 __asm__("x14") = offset + (int32_t)r->unit;
        register int32_t x15 __asm__("x15") = r->shift;
        register int32_t x16 __asm__("x16") = 127;
        register int32_t x17 __asm__("x17") = r->low;
        register int32_t x18 __asm__("x18") = (int32_t)r->unit;
#define TRAINC_XPULP_LINE(each) \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) each ".option pop" \
            : "+r"(x10), "+r"(x11) \
            : "r"(x12), "r"(x13), "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18) \
            : "x5", "x6", "x7", "x28", "x29", "memory")
        if (r->low == 0) {
            TRAINC_XPULP_LINE(TRAINC_XPULP_LINE_POSITIVE);
        } else if (!clamps && TRAINC_XPULP_CHAINS) {
            TRAINC_XPULP_LINE(TRAINC_XPULP_LINE_BYTES_OF_ONE);
        } else {
            TRAINC_XPULP_LINE(TRAINC_XPULP_LINE_WITHIN);
        }
#undef TRAINC_XPULP_LINE
        i = count & ~3;
    }
#else
    (void)clamps;
#endif
    for (; i < count; i++) {
        y[i] = trainc_xpulp_half_away(a[i] * factor + offset, r);
    }
}

#if defined(TRAINC_XPULP_INSN) && TRAINC_XPULP_CHAINS
/* The same of some rows side by side that are whole words, each by its channel's factor and offset. */
static inline void trainc_xpulp_few_half_away(const int8_t *a, int8_t *y, int32_t rows, int32_t words,
    const int32_t *factors, const int32_t *offsets, int32_t clamps,
    const struct trainc_xpulp_rounding *r)
{
    register const int8_t *x10 __asm__("x10") = a;
    register int8_t *x11 __asm__("x11") = y;
    register int32_t x12 __asm__("x12") = words;
    register int32_t x15 __asm__("x15") = r->shift;
    register int32_t x16 __asm__("x16") = 127;
    register int32_t x17 __asm__("x17") = r->low;
    register int32_t x18 __asm__("x18") = (int32_t)r->unit;
    register int32_t x19 __asm__("x19") = rows;
    register const int32_t *x20 __asm__("x20") = factors;
    register const int32_t *x21 __asm__("x21") = offsets;
#define TRAINC_XPULP_LINES_OF(each) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 19, 8) \
        TRAINC_XPULP_LWI(x14, 4, x21) TRAINC_XPULP_LWI(x13, 4, x20) "add x14, x14, x18\n\t" \
        TRAINC_XPULP_LOOP(0, 12, 9) each "8: nop\n\t.option pop" \
        : "+r"(x10), "+r"(x11), "+r"(x20), "+r"(x21) \
        : "r"(x12), "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19) \
        : "x5", "x6", "x7", "x13", "x14", "x28", "x29", "memory")
    if (r->low == 0) {
        TRAINC_XPULP_LINES_OF(TRAINC_XPULP_LINE_POSITIVE);
    } else if (!clamps) {
        TRAINC_XPULP_LINES_OF(TRAINC_XPULP_LINE_BYTES_OF_ONE);
    } else {
        TRAINC_XPULP_LINES_OF(TRAINC_XPULP_LINE_WITHIN);
    }
#undef TRAINC_XPULP_LINES_OF
}
#endif
#if defined(TRAINC_XPULP_INSN)
#undef TRAINC_XPULP_LINE_OF_ONE
#undef TRAINC_XPULP_FOUR_OF
#undef TRAINC_XPULP_UP_BY
#undef TRAINC_XPULP_TO_127
#undef TRAINC_XPULP_PLUS
#undef TRAINC_XPULP_AWAY
#undef TRAINC_XPULP_WITHIN_BYTE
#undef TRAINC_XPULP_LINE_POSITIVE
#undef TRAINC_XPULP_LINE_BYTES_OF_ONE
#undef TRAINC_XPULP_LINE_WITHIN
#endif

/* Sums of two operands in a row. */
static inline void trainc_xpulp_line_sums(const int8_t *a, const int8_t *b, int32_t *y,
    int32_t count, const int32_t *line)
{
    const int32_t factor = line[0], turn = line[1], offset = line[2];
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count > 1) {
        register const int8_t *x10 __asm__("x10") = a;
        register const int8_t *x11 __asm__("x11") = b;
        register int32_t x12 __asm__("x12") = count >> 1;
        register int32_t x13 __asm__("x13") = factor;
        register int32_t x14 __asm__("x14") = turn;
        register int32_t x15 __asm__("x15") = offset;
        register int32_t *x17 __asm__("x17") = y;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) TRAINC_XPULP_LINES(x5, x6)
            "add x5, x5, x15\n\tadd x6, x6, x15\n\t" TRAINC_XPULP_SWI(x5, 4, x17)
            "9: " TRAINC_XPULP_SWI(x6, 4, x17) ".option pop"
            : "+r"(x10), "+r"(x11), "+r"(x17) : "r"(x12), "r"(x13), "r"(x14), "r"(x15)
            : "x5", "x6", "x7", "x28", "memory");
        i = count & ~1;
    }
#endif
    for (; i < count; i++) {
        y[i] = a[i] * factor + b[i] * turn + offset;
    }
}

/* The largest magnitude of such sums. */
static inline uint32_t trainc_xpulp_line_largest(const int8_t *a, const int8_t *b, int32_t count,
    const int32_t *line)
{
    const int32_t factor = line[0], turn = line[1], offset = line[2];
    int32_t least = INT32_MAX, greatest = INT32_MIN, i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count > 1) {
        register const int8_t *x10 __asm__("x10") = a;
        register const int8_t *x11 __asm__("x11") = b;
        register int32_t x12 __asm__("x12") = count >> 1;
        register int32_t x13 __asm__("x13") = factor;
        register int32_t x14 __asm__("x14") = turn;
        register int32_t x15 __asm__("x15") = least;
        register int32_t x16 __asm__("x16") = greatest;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9) TRAINC_XPULP_LINES(x5, x6)
            TRAINC_XPULP_SCALAR(4, x15, x15, x5) TRAINC_XPULP_SCALAR(6, x16, x16, x5)
            TRAINC_XPULP_SCALAR(4, x15, x15, x6) "9: " TRAINC_XPULP_SCALAR(6, x16, x16, x6)
            ".option pop"
            : "+r"(x10), "+r"(x11), "+r"(x15), "+r"(x16) : "r"(x12), "r"(x13), "r"(x14)
            : "x5", "x6", "x7", "x28", "memory");
        least = x15;
        greatest = x16;
        i = count & ~1;
    }
#endif
    for (; i < count; i++) {
        const int32_t sum = a[i] * factor + b[i] * turn;
        least = trainc_minimum32(least, sum);
        greatest = trainc_maximum32(greatest, sum);
    }
    return count > 0 ? trainc_xpulp_maxu(trainc_xpulp_abs((uint32_t)(least + offset)),
                           trainc_xpulp_abs((uint32_t)(greatest + offset)))
                     : 0;
}

/* Bytes of a row by a table, in whose middle 0 has its place. */
static inline void trainc_xpulp_line_by_table(const int8_t *a, int8_t *y, int32_t count,
    const int8_t *middle)
{
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count > 3) {
        register const int8_t *x10 __asm__("x10") = a;
        register int8_t *x11 __asm__("x11") = y;
        register int32_t x12 __asm__("x12") = count >> 2;
        register const int8_t *x13 __asm__("x13") = middle;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LBSI(x5, 1, x10) TRAINC_XPULP_LBSI(x6, 1, x10)
            TRAINC_XPULP_LBSI(x7, 1, x10) TRAINC_XPULP_LBSI(x28, 1, x10)
            TRAINC_XPULP_LB_AT(x5, x5, x13) TRAINC_XPULP_LB_AT(x6, x6, x13)
            TRAINC_XPULP_LB_AT(x7, x7, x13) TRAINC_XPULP_LB_AT(x28, x28, x13)
            TRAINC_XPULP_BYTES(x5, x5, x6, x7, x28) "9: " TRAINC_XPULP_SWI(x5, 4, x11)
            ".option pop"
            : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13) : "x5", "x6", "x7", "x28", "memory");
        i = count & ~3;
    }
#endif
    for (; i < count; i++) {
        y[i] = middle[a[i]];
    }
}

/* The sums of one operand in a channel's rows, rounded to nearest: where these have more elements
 * than there are bytes from the least to the greatest, by a table of what becomes of each of these. */
static inline void trainc_xpulp_channel_half_away(const struct trainc_xpulp_lines *work, int32_t c)
{
    const struct trainc_xpulp_sizes *const sizes = &work->sizes;
    const int32_t factor = work->factors[c], offset = work->offsets[c];
    const int32_t least = work->ranges[2 * c], bytes = work->ranges[2 * c + 1] - least + 1;
    const int32_t clamps = work->widths[c] > work->bytes;
    const int32_t tabled = 2 * sizes->images * sizes->space > 3 * bytes + 64;
    int8_t table[256], all[256];
    if (tabled) {
        uint32_t word = trainc_xpulp_add_b((uint8_t)least * UINT32_C(0x01010101), 0x03020100);
        for (int32_t i = 0; i < bytes; i += 4) {
            trainc_xpulp_store(all + i, word);
            word = trainc_xpulp_add_b(word, 0x04040404);
        }
        trainc_xpulp_line_half_away(all, table + 128 + least, bytes, factor, offset, clamps,
            &work->rounding);
    }
    for (int32_t n = 0; n < sizes->images; n++) {
        const int32_t start = (n * sizes->channels + c) * sizes->space;
        if (tabled) {
            trainc_xpulp_line_by_table(work->a + start, work->y + start, sizes->space, table + 128);
        } else {
            trainc_xpulp_line_half_away(work->a + start, work->y + start, sizes->space, factor,
                offset, clamps, &work->rounding);
        }
    }
}

/* Results of some channels: of few elements each, which have no tables, all in one go. */
static inline void trainc_xpulp_lines_half_away_of(void *context, int32_t begin, int32_t end)
{
#if defined(TRAINC_XPULP_INSN) && TRAINC_XPULP_CHAINS
    const struct trainc_xpulp_lines *const work = (const struct trainc_xpulp_lines *)context;
    const struct trainc_xpulp_sizes *const sizes = &work->sizes;
    if ((sizes->space & 3) == 0 && sizes->images * sizes->space <= 64 && work->rounding.shift > 0) {
        for (int32_t n = 0; n < sizes->images; n++) {
            const int32_t start = (n * sizes->channels + begin) * sizes->space;
            trainc_xpulp_few_half_away(work->a + start, work->y + start, end - begin,
                sizes->space >> 2, work->factors + begin, work->offsets + begin,
                work->most > work->bytes, &work->rounding);
        }
        return;
    }
#endif
    for (int32_t c = begin; c < end; c++) {
        trainc_xpulp_channel_half_away((const struct trainc_xpulp_lines *)context, c);
    }
}

/* A channel's factor, turn and offset. */
static inline void trainc_xpulp_line_of(const struct trainc_xpulp_lines *work, int32_t c,
    int32_t *line)
{
    line[0] = work->factors[c];
    line[1] = work->turns != 0 ? work->turns[c] : 0;
    line[2] = work->offsets[c];
}

/* Sums of some channels. */
static inline void trainc_xpulp_lines_sums_of(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_lines *const work = (const struct trainc_xpulp_lines *)context;
    const struct trainc_xpulp_sizes *const sizes = &work->sizes;
    for (int32_t c = begin; c < end; c++) {
        int32_t line[3];
        trainc_xpulp_line_of(work, c, line);
        for (int32_t n = 0; n < sizes->images; n++) {
            const int32_t start = (n * sizes->channels + c) * sizes->space;
            trainc_xpulp_line_sums(work->a + start, work->b + start, work->sums + start,
                sizes->space, line);
        }
    }
}

/* The largest magnitude of sums of a channel, of so many elements of each image from one on. */
static inline uint32_t trainc_xpulp_channel_largest(const struct trainc_xpulp_lines *work, int32_t c,
    int32_t first, int32_t count)
{
    const struct trainc_xpulp_sizes *const sizes = &work->sizes;
    uint32_t largest = 0;
    int32_t line[3];
    trainc_xpulp_line_of(work, c, line);
    for (int32_t n = 0; n < sizes->images; n++) {
        const int32_t start = (n * sizes->channels + c) * sizes->space + first;
        largest = trainc_xpulp_maxu(largest,
            trainc_xpulp_line_largest(work->a + start, work->b + start, count, line));
    }
    return largest;
}

/* Some parts of the channel that is measured. */
static inline void trainc_xpulp_measure_parts(void *context, int32_t begin, int32_t end)
{
    struct trainc_xpulp_lines *const work = (struct trainc_xpulp_lines *)context;
    const int32_t space = work->sizes.space, first = begin * space / TRAINC_XPULP_PARTS;
    work->largest[begin] = trainc_xpulp_channel_largest(work, work->measured, first,
        end * space / TRAINC_XPULP_PARTS - first);
}

/* The shift of sums of so many bits to seven. */
static inline int32_t trainc_xpulp_lines_shift_of(uint32_t bits)
{
    return trainc_maximum32(25 - trainc_leading_zeros((int32_t)bits), 0);
}

/* Up to what sums matter neither for the shift nor for whether results may exceed a byte, where one is
 * so large. */
static inline uint32_t trainc_xpulp_lines_enough(uint32_t known)
{
    return trainc_xpulp_maxu(known, UINT32_C(127) << trainc_xpulp_lines_shift_of(known));
}

/* Of the channels of some parts, each PARTS-th one, those whose sums may matter beside the largest one
 * that is known. */
static inline void trainc_xpulp_measure_channels(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_lines *const work = (const struct trainc_xpulp_lines *)context;
    uint32_t enough = trainc_xpulp_lines_enough(work->widths[work->measured]);
    for (int32_t part = begin; part < end; part++) {
        for (int32_t c = part; c < work->sizes.channels; c += TRAINC_XPULP_PARTS) {
            uint32_t width = work->widths[c];
            if (width > enough) {
                width = TRAINC_XPULP_CHAINS ? trainc_xpulp_line_bound(work, c, enough) : width;
                if (width > enough) {
                    width = trainc_xpulp_channel_largest(work, c, 0, work->sizes.space);
                    enough = trainc_xpulp_maxu(enough, trainc_xpulp_lines_enough(width));
                }
                work->widths[c] = width;
            }
        }
    }
}

/* Measures the channel whose sums may be the largest, then others that still may have more bits;
 * returns what no sum's magnitude exceeds, with as many bits as the largest one has. */
static inline uint32_t trainc_xpulp_lines_most(struct trainc_xpulp_lines *work)
{
    uint32_t *const widths = work->widths;
    uint32_t first = 0, second = 0, most = 0;
    work->measured = 0;
    for (int32_t n = 0; n < TRAINC_XPULP_PARTS; n++) {
        const struct trainc_xpulp_lines_part *const part = &work->parts[n];
        second = trainc_xpulp_maxu(second,
            trainc_xpulp_maxu(part->second, trainc_xpulp_minu(first, part->first)));
        if (part->first > first) {
            first = part->first;
            work->measured = part->channel;
        }
        work->largest[n] = 0;
    }
    TRAINC_PARALLEL_FOR(work, TRAINC_XPULP_PARTS, trainc_xpulp_measure_parts);
    for (int32_t part = 0; part < TRAINC_XPULP_PARTS; part++) {
        most = trainc_xpulp_maxu(most, work->largest[part]);
    }
    if (second > trainc_xpulp_lines_enough(most)) {
        widths[work->measured] = most;
        TRAINC_PARALLEL_FOR(work, TRAINC_XPULP_PARTS, trainc_xpulp_measure_channels);
        second = trainc_xpulp_largest_of(widths, work->sizes.channels);
    }
    return trainc_xpulp_maxu(most, second);
}

/* The first element of a part of all; but for the first part's, it begins a four. */
static inline int32_t trainc_xpulp_part(const struct trainc_xpulp_lines *work, int32_t part)
{
    const int32_t count = work->sizes.images * work->sizes.channels * work->sizes.space;
    const int32_t each = (count + TRAINC_XPULP_PARTS - 1) / TRAINC_XPULP_PARTS;
    const int32_t first = ((part * each + work->ahead) & ~3) - work->ahead;
    return part == 0 ? 0 : part == TRAINC_XPULP_PARTS ? count
        : trainc_maximum32(trainc_minimum32(first, count), 0);
}

/* Of what is to be no part of its callers: their registers are spilled around it then, and only there. */
#if defined(__GNUC__)
#define TRAINC_XPULP_APART __attribute__((noinline, unused))
#else
#define TRAINC_XPULP_APART inline
#endif

/* Sums of a channel's row, from one element to another, rounded by chance, one by one. */
static TRAINC_XPULP_APART void trainc_xpulp_line_ones(const struct trainc_xpulp_lines *work,
    int32_t c, int32_t from, int32_t to)
{
    const int32_t factor = work->factors[c], turn = work->turns != 0 ? work->turns[c] : 0;
    const int32_t offset = work->offsets[c];
    for (int32_t i = from; i < to; i++) {
        work->y[i] = trainc_xpulp_dither(work->a[i] * factor + work->b[i] * turn + offset,
            work->shift, work->key + (uint32_t)i);
    }
}

#if defined(TRAINC_XPULP_INSN)
/* The lowest bytes of a, so many, and the others of b. */
static inline uint32_t trainc_xpulp_joined(uint32_t a, uint32_t b, int32_t bytes)
{
    const uint32_t mask = (UINT32_C(1) << 8 * bytes) - 1;
    return (a & mask) | (b & ~mask);
}

/* To what is added by chance come the products of two elements and of those of b below them, in the
 * halves of `pair`, by both factors, times 256: even elements are lifted, of odd ones' halves the
 * lower bytes are no part. */
#define TRAINC_XPULP_LINE_ON(p, q, pair) \
    "and x9, " #pair ", x22\n\t" TRAINC_XPULP_PV(6, 0x28, pair, pair, x4) \
    TRAINC_XPULP_SDOT_H(p, pair, x13) TRAINC_XPULP_SDOT_H(q, x9, x13)
/* Whether fours may be words of memory whatever their counters are; short code has no loops for these,
 * nor for bytes that need no clamping. */
#if defined(__OPTIMIZE_SIZE__)
#define TRAINC_XPULP_LINE_WORDS 0
#else
#define TRAINC_XPULP_LINE_WORDS 1
#endif
/* Hashes of an element's counter, x31 being the first factor's product of the last multiple of 4. */
#define TRAINC_XPULP_LINE_HASH(x) "srli x9, " #x ", 15\n\txor " #x ", " #x ", x9\n\t"
#define TRAINC_XPULP_LINE_HASH0(x) "srli " #x ", x31, 15\n\txor " #x ", " #x ", x31\n\t"
#define TRAINC_XPULP_LINE_HASH1(x) "add " #x ", x31, x25\n\t" TRAINC_XPULP_LINE_HASH(x)
#define TRAINC_XPULP_LINE_HASH2(x) "add " #x ", x31, x26\n\t" TRAINC_XPULP_LINE_HASH(x)
#define TRAINC_XPULP_LINE_HASH3(x) "add " #x ", x31, x27\n\t" TRAINC_XPULP_LINE_HASH(x)
/* To that of the next one. */
#define TRAINC_XPULP_LINE_HASH_ON "xor x31, x16, x24\n\tmul x31, x31, x20\n\taddi x16, x16, 4\n\t"
/* By what the first one's counter is above a multiple of 4. */
#define TRAINC_XPULP_LINE_HASHES0 TRAINC_XPULP_LINE_HASH0(x7) TRAINC_XPULP_LINE_HASH1(x28) \
    TRAINC_XPULP_LINE_HASH2(x29) TRAINC_XPULP_LINE_HASH3(x30) TRAINC_XPULP_LINE_HASH_ON
#define TRAINC_XPULP_LINE_HASHES1 TRAINC_XPULP_LINE_HASH1(x7) TRAINC_XPULP_LINE_HASH2(x28) \
    TRAINC_XPULP_LINE_HASH3(x29) TRAINC_XPULP_LINE_HASH_ON TRAINC_XPULP_LINE_HASH0(x30)
#define TRAINC_XPULP_LINE_HASHES2 TRAINC_XPULP_LINE_HASH2(x7) TRAINC_XPULP_LINE_HASH3(x28) \
    TRAINC_XPULP_LINE_HASH_ON TRAINC_XPULP_LINE_HASH0(x29) TRAINC_XPULP_LINE_HASH1(x30)
#define TRAINC_XPULP_LINE_HASHES3 TRAINC_XPULP_LINE_HASH3(x7) TRAINC_XPULP_LINE_HASH_ON \
    TRAINC_XPULP_LINE_HASH0(x28) TRAINC_XPULP_LINE_HASH1(x29) TRAINC_XPULP_LINE_HASH2(x30)
/* 41 instructions for four elements; hashes have some bits below a 256th of a unit, too. */
#define TRAINC_XPULP_LINE_FOUR(hashes, ...) \
        TRAINC_XPULP_LOOP(0, 12, 9) \
        TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11) hashes \
        "mul x7, x7, x21\n\tmul x28, x28, x21\n\tmul x29, x29, x21\n\tmul x30, x30, x21\n\t" \
        "srl x7, x7, x19\n\tsrl x28, x28, x19\n\tsrl x29, x29, x19\n\tsrl x30, x30, x19\n\t" \
        TRAINC_XPULP_PV(0, 0x68, x1, x5, x6) TRAINC_XPULP_PV(1, 0x64, x6, x5, x14) \
        TRAINC_XPULP_LINE_ON(x7, x28, x1) TRAINC_XPULP_LINE_ON(x29, x30, x6) \
        TRAINC_XPULP_ADD_SHIFT(x7, x15, x18) TRAINC_XPULP_ADD_SHIFT(x28, x15, x18) \
        TRAINC_XPULP_ADD_SHIFT(x29, x15, x18) TRAINC_XPULP_ADD_SHIFT(x30, x15, x18) \
        __VA_ARGS__ "9: " TRAINC_XPULP_SWI(x5, 4, x17)
#define TRAINC_XPULP_LINE_DITHER(hashes, ...) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LINE_FOUR(hashes, __VA_ARGS__) ".option pop" \
        : "+r"(x10), "+r"(x11), "+r"(x16), "+r"(x17), "+r"(x31) \
        : TRAINC_XPULP_DITHER_OPERANDS, "r"(x13), "r"(x14), "r"(x15), "r"(x22), "r"(x24) \
        : "x1", "x5", "x6", "x7", "x9", "x28", "x29", "x30", "memory")
#define TRAINC_XPULP_LINE_BYTES(hashes) \
    TRAINC_XPULP_LINE_DITHER(hashes, TRAINC_XPULP_BYTES(x5, x7, x28, x29, x30))
/* Whole rows of some channels, x13 of them, whose lines x23 points to: 6 instructions for each. */
#define TRAINC_XPULP_LINE_ROWS(hashes) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 13, 8) \
        TRAINC_XPULP_LWI(x15, 4, x23) TRAINC_XPULP_LWI(x13, 4, x23) "slli x15, x15, 8\n\t" \
        TRAINC_XPULP_LINE_FOUR(hashes, TRAINC_XPULP_BYTES(x5, x7, x28, x29, x30)) \
        "8: nop\n\t.option pop" \
        : "+r"(x10), "+r"(x11), "+r"(x13), "+r"(x15), "+r"(x16), "+r"(x17), "+r"(x23), "+r"(x31) \
        : "r"(x12), "r"(x14), "r"(x18), "r"(x19), "r"(x20), "r"(x21), "r"(x22), "r"(x24), "r"(x25), \
          "r"(x26), "r"(x27) \
        : "x1", "x5", "x6", "x7", "x9", "x28", "x29", "x30", "memory")

/* By 256 sums have 32 bits, before they are clamped one more. */
static inline int32_t trainc_xpulp_goes_by_fours(const struct trainc_xpulp_lines *work)
{
    return work->shift > 0 && work->shift <= (work->clamps ? 15 : 16);
}

/* Fours of such sums, at least one, rounded by chance: of a channel's row there are `left` elements,
 * the others are the next rows'. */
static TRAINC_XPULP_APART void trainc_xpulp_line_fours(const struct trainc_xpulp_lines *work,
    int32_t c, int32_t left, int32_t first, int32_t behind)
{
    const int32_t channels = work->sizes.channels, space = work->sizes.space;
    for (int32_t i = first; i < behind;) {
        const uint32_t counter = work->key + (uint32_t)i;
        const uint32_t above = TRAINC_XPULP_LINE_WORDS ? counter & 3 : 0, lowest = counter - above;
        /* Those, and the multiple of 4 behind them that some belong to, have the same upper half. */
        int32_t some = 4 * trainc_xpulp_dither_fours(behind - i + 4, lowest) - (above != 0 ? 4 : 0);
        some = trainc_minimum32(some, behind - i);
        if (TRAINC_XPULP_LINE_WORDS && some == 0) {
            trainc_xpulp_line_ones(work, c, i, i + 4);
            i += 4;
            left -= 4;
            if (left <= 0) {
                left = space;
                c = c + 1 < channels ? c + 1 : 0;
            }
            continue;
        }
        register const int8_t *x10 __asm__("x10") = work->a + i;
        register const int8_t *x11 __asm__("x11") = work->b + i;
        register uint32_t x13 __asm__("x13");
        register uint32_t x14 __asm__("x14") = 0x07060302;
        register uint32_t x15 __asm__("x15");
        register uint32_t x22 __asm__("x22") = 0xff00ff00;
        register uint32_t x24 __asm__("x24") = lowest >> 16;
        register uint32_t x31 __asm__("x31") = (lowest ^ x24) * TRAINC_XPULP_HASH_FIRST;
        TRAINC_XPULP_DITHER_REGISTERS(0, work->y + i, work->shift + 8, lowest);
        x16 += 4;
        i += some;
        /* No calls, which would change the registers. */
        while (some > 0) {
            if (TRAINC_XPULP_LINE_WORDS && left == space && some >= space && !work->clamps) {
                const int32_t rows = trainc_minimum32(some / space, channels - c);
                some -= rows * space;
                x12 = space >> 2;
                x13 = (uint32_t)rows;
                x15 = 0;
                x23 = (int32_t)(intptr_t)(work->lines + 2 * c);
                c = c + rows < channels ? c + rows : 0;
                if (above == 0) {
                    TRAINC_XPULP_LINE_ROWS(TRAINC_XPULP_LINE_HASHES0);
                } else if (above == 1) {
                    TRAINC_XPULP_LINE_ROWS(TRAINC_XPULP_LINE_HASHES1);
                } else if (above == 2) {
                    TRAINC_XPULP_LINE_ROWS(TRAINC_XPULP_LINE_HASHES2);
                } else {
                    TRAINC_XPULP_LINE_ROWS(TRAINC_XPULP_LINE_HASHES3);
                }
                continue;
            }
            const int32_t now = TRAINC_XPULP_LINE_WORDS && left < some ? left : some;
            const uint32_t turn = work->turns != 0 ? (uint32_t)work->turns[c] & 0xffff : 0;
            x12 = now >> 2;
            x13 = (uint32_t)work->factors[c] << 16 | turn;
            x15 = (uint32_t)work->offsets[c] << 8;
            some -= now;
            left -= now;
            if (TRAINC_XPULP_LINE_WORDS && left == 0) {
                left = space;
                c = c + 1 < channels ? c + 1 : 0;
            }
            if (work->clamps || !TRAINC_XPULP_LINE_WORDS) {
                TRAINC_XPULP_LINE_DITHER(TRAINC_XPULP_LINE_HASHES0,
                    TRAINC_XPULP_CLIP8(x7, x7) TRAINC_XPULP_CLIP8(x28, x28)
                    TRAINC_XPULP_CLIP8(x29, x29) TRAINC_XPULP_CLIP8(x30, x30)
                    TRAINC_XPULP_BYTES(x5, x7, x28, x29, x30)
                    TRAINC_XPULP_PV(5, 0x18, x5, x5, x23));
            } else if (above == 0) {
                TRAINC_XPULP_LINE_BYTES(TRAINC_XPULP_LINE_HASHES0);
            } else if (above == 1) {
                TRAINC_XPULP_LINE_BYTES(TRAINC_XPULP_LINE_HASHES1);
            } else if (above == 2) {
                TRAINC_XPULP_LINE_BYTES(TRAINC_XPULP_LINE_HASHES2);
            } else {
                TRAINC_XPULP_LINE_BYTES(TRAINC_XPULP_LINE_HASHES3);
            }
        }
    }
}
#endif

/* Such sums of a channel's row, from one element to another, rounded by chance; those of begin to end
 * are this core's. */
static inline void trainc_xpulp_line_dither(const struct trainc_xpulp_lines *work, int32_t c,
    int32_t from, int32_t to, int32_t begin, int32_t end)
{
#if defined(TRAINC_XPULP_INSN)
    /* Whole fours, which overlap other rows: what lies there stays as it is. */
    int32_t first = from - ((from + work->ahead) & 3), behind = to + (-(to + work->ahead) & 3);
    first += first < begin ? 4 : 0;
    behind -= behind > end ? 4 : 0;
    if (first < behind && trainc_xpulp_goes_by_fours(work)) {
        int8_t *const last = work->y + behind - 4;
        const uint32_t before = trainc_xpulp_load(work->y + first);
        const uint32_t after = trainc_xpulp_load(last);
        trainc_xpulp_line_fours(work, c, behind - first, first, behind);
        if (behind > to) {
            trainc_xpulp_store(last,
                trainc_xpulp_joined(trainc_xpulp_load(last), after, to - behind + 4));
        }
        if (first < from) {
            trainc_xpulp_store(work->y + first, trainc_xpulp_joined(before,
                trainc_xpulp_load(work->y + first), from - first));
        }
        trainc_xpulp_line_ones(work, c, from, first);
        from = trainc_maximum32(from, behind);
    }
#else
    (void)begin;
    (void)end;
#endif
    trainc_xpulp_line_ones(work, c, from, to);
}

/* Some parts of all elements. */
static inline void trainc_xpulp_lines_dithered_of(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_lines *const work = (const struct trainc_xpulp_lines *)context;
    const int32_t channels = work->sizes.channels, space = work->sizes.space;
    const int32_t first = trainc_xpulp_part(work, begin), last = trainc_xpulp_part(work, end);
    int32_t row = first / space, c = row % channels;
#if defined(TRAINC_XPULP_INSN)
    if (TRAINC_XPULP_LINE_WORDS && (space & 3) == 0 && work->ahead == 0
        && trainc_xpulp_goes_by_fours(work)) {
        trainc_xpulp_line_fours(work, c, (row + 1) * space - first, first, last);
        return;
    }
#endif
    for (int32_t i = first; i < last; c = c + 1 < channels ? c + 1 : 0) {
        const int32_t behind = trainc_minimum32(++row * space, last);
        trainc_xpulp_line_dither(work, c, i, behind, first, last);
        i = behind;
    }
}

/* The largest of all channels' sums. */
static inline uint32_t trainc_xpulp_lines_largest(const struct trainc_xpulp_lines *work)
{
    uint32_t largest = 0;
    for (int32_t part = 0; part < TRAINC_XPULP_PARTS; part++) {
        largest = trainc_xpulp_maxu(largest, work->parts[part].first);
    }
    return largest;
}

static inline void trainc_xpulp_lines_half_away(struct trainc_xpulp_lines *work, int32_t low,
    int32_t *y_exponent)
{
    work->lines = 0;
    const int64_t exponent = trainc_xpulp_lines_start(work);
    work->most = trainc_xpulp_lines_largest(work);
    const int32_t shift = trainc_xpulp_lines_shift_of(work->most);
    work->rounding = trainc_xpulp_rounding(shift, low);
    work->bytes = low <= -127 ? (UINT32_C(128) << shift) - work->rounding.unit - 1 : 0;
    y_exponent[0] = trainc_add32((int32_t)exponent, shift);
    TRAINC_PARALLEL_FOR(work, work->sizes.channels, trainc_xpulp_lines_half_away_of);
}

static inline void trainc_xpulp_lines_dither(struct trainc_xpulp_lines *work, uint32_t key,
    int32_t *y_exponent)
{
    work->lines = (int32_t *)work->widths + work->sizes.channels;
    const int64_t exponent = trainc_xpulp_lines_start(work);
    const uint32_t most = trainc_xpulp_lines_most(work);
    const int32_t shift = trainc_xpulp_lines_shift_of(most);
    work->shift = shift;
    work->clamps = most > UINT32_C(127) << shift;
#if defined(TRAINC_XPULP_INSN)
    work->ahead = work->clamps || !TRAINC_XPULP_LINE_WORDS ? (int32_t)(key & 3) : 0;
#else
    work->ahead = 0;
#endif
    work->key = key;
    y_exponent[0] = trainc_add32((int32_t)exponent, shift);
    TRAINC_PARALLEL_FOR(work, TRAINC_XPULP_PARTS, trainc_xpulp_lines_dithered_of);
}

static inline void trainc_xpulp_lines_sums(struct trainc_xpulp_lines *work, int32_t *y_exponent)
{
    work->lines = 0;
    y_exponent[0] = (int32_t)trainc_xpulp_lines_start(work);
    TRAINC_PARALLEL_FOR(work, work->sizes.channels, trainc_xpulp_lines_sums_of);
}

#endif
