/* Rows of sums and of rounded results, by loops of XpulpV2's instructions where there are any,
 * beside plain C: all shifts, odd lengths and places, sums that a draw just carries and just does
 * not. Writes the number of rows, of those that differ, and what the first of these was. */
#include "trainc_xpulp_added.h"
#include "trainc_xpulp_channels.h"
#include "trainc_xpulp_losses.h"
#include "trainc_xpulp_outer_update.h"
#include "trainc_xpulp_shifted.h"

#ifdef __riscv
#include "host.h"
#define PUT(place, bytes) host_write(place, bytes)
#else
#include <stdio.h>
#define PUT(place, bytes) fwrite(place, 1, bytes, stdout)
#endif

enum { MOST = 24 };

static int32_t report[5];

static uint32_t next(void)
{
    static uint32_t at = 2463534242u;
    at ^= at << 13;
    at ^= at >> 17;
    at ^= at << 5;
    return at;
}

/* Numbers of the kinds of rows, below. */
enum { SUMS, EXTREME_BYTES, HALF_AWAY, LINE_SUMS, LINE_DITHER, DITHER, MAGNITUDES, PSEUDO_STOCHASTIC, OUTER, UPDATE, EIGHTS,
    WHOLE, CLIP, BETWEEN, ADDED, POWER, LOGARITHM, PAIRS, BELOW };

static void check(int equal, int32_t kind, int32_t count, int32_t shift)
{
    report[0]++;
    if (!equal && report[1]++ == 0) {
        report[2] = kind;
        report[3] = count;
        report[4] = shift;
    }
}

static int same(const int8_t *a, const int8_t *b, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            return 0;
        }
    }
    /* Nothing is written behind a row. */
    return b[count] == 99;
}

static void fill(int8_t *bytes)
{
    for (int32_t i = 0; i < MOST + 4; i++) {
        const uint32_t word = next();
        bytes[i] = (int8_t)((word >> 8 & 7) == 0 ? (word & 1 ? -128 : 127) : (int32_t)(word & 255) - 128);
    }
}

static uint32_t uniform(uint32_t counter, int32_t shift)
{
    uint32_t hash = (counter ^ counter >> 16) * TRAINC_XPULP_HASH_FIRST;
    hash = (hash ^ hash >> 15) * TRAINC_XPULP_HASH_SECOND;
    return (uint32_t)((uint64_t)(hash ^ hash >> 16) >> (32 - shift));
}

/* Rounded up in magnitude where of what is shifted out the upper half exceeds the lower one. */
static int8_t pseudo_stochastic(int64_t sum, int32_t shift)
{
    const int64_t m = sum < 0 ? -sum : sum, rest = m & ((INT64_C(1) << shift) - 1);
    const int64_t lower = rest & ((INT64_C(1) << (shift >> 1)) - 1);
    const int64_t q = (m >> shift) + (rest >> (shift >> 1) > lower << (shift & 1));
    const int64_t kept = q > 127 ? 127 : q;
    return (int8_t)(sum < 0 ? -kept : kept);
}

/* Rounded to nearest, ties away from zero. */
static int8_t half_away(int64_t sum, int32_t shift)
{
    const int64_t m = sum < 0 ? -sum : sum;
    const int64_t q = (m + (shift > 0 ? INT64_C(1) << (shift - 1) : 0)) >> shift;
    const int64_t kept = q > 127 ? 127 : q;
    return (int8_t)(sum < 0 ? -kept : kept);
}

/* Rows of sums, those of whose halves that are shifted out some are equal or just not. */
static void pseudo_stochastic_rows(int32_t count, int32_t shift)
{
    int32_t words[MOST + 4];
    int8_t found[MOST + 4], expected[MOST + 4];
    for (int32_t fits = 0; fits < 2; fits++) {
        const struct trainc_xpulp_rounding r = trainc_xpulp_rounding_of(shift, -127,
            fits ? shift + 7 : shift + 8);
        for (int32_t i = 0; i < count; i++) {
            const int32_t half = shift >> 1;
            const uint32_t lower = next() & ((UINT32_C(1) << half) - 1);
            const uint32_t upper = (lower << (shift & 1)) + (next() & 1);
            const uint32_t rest = (upper << half | lower) & ((UINT32_C(1) << shift) - 1);
            const uint32_t any = next() & ((UINT32_C(1) << shift) - 1);
            const uint32_t m = (next() & (fits ? 127 : 63)) << shift | (next() & 1 ? rest : any);
            words[i] = next() & 1 ? -(int32_t)m : (int32_t)m;
            if (!fits && next() % 8 == 0) {
                words[i] = next() & 1 ? INT32_MIN : INT32_MAX;
            }
            expected[i] = pseudo_stochastic(words[i], shift);
        }
        words[count] = 0;
        found[count] = 99;
        trainc_xpulp_row_pseudo_stochastic(words, found, count, &r);
        check(same(expected, found, count), PSEUDO_STOCHASTIC, count, shift);
    }
}

/* The same of sums of at most 15 bits, by pairs. */
static void pairs_of_rows(int32_t count, int32_t shift)
{
    int32_t words[MOST + 4];
    int8_t found[MOST + 4], expected[MOST + 4];
    struct trainc_xpulp_rounding r = trainc_xpulp_rounding_of(shift, -127, 15);
    const uint32_t units = shift > 8 ? UINT32_C(0x7fff) >> shift : 126;
    r.pairs = 1;
    for (int32_t i = 0; i < count; i++) {
        const int32_t half = shift >> 1;
        const uint32_t lower = next() & ((UINT32_C(1) << half) - 1);
        const uint32_t upper = (lower << (shift & 1)) + (next() & 1);
        const uint32_t rest = (next() & 1 ? upper << half | lower : next())
            & ((UINT32_C(1) << shift) - 1);
        uint32_t m = (next() % (units + 1)) << shift | rest;
        m = next() % 8 == 0 ? (units << shift) + (UINT32_C(1) << shift) - 1 : m;
        m = m < 0x7fff ? m : 0x7fff;
        words[i] = next() & 1 ? -(int32_t)m : (int32_t)m;
        expected[i] = pseudo_stochastic(words[i], shift);
    }
    words[count] = 0;
    found[count] = 99;
    trainc_xpulp_row_pseudo_stochastic(words, found, count, &r);
    check(trainc_xpulp_rounds_pairs(units << shift, shift) && same(expected, found, count), PAIRS,
        count, shift);
}

enum { BELOW_CHANNELS = 4, BELOW_OUTPUTS = 4, BELOW_ROWS = 9, BELOW_COLUMNS = 12, BELOW_TAPS = 3 };

/* Gradients of weights by all three taps of a column of windows at a time, from zeros and added. */
static void taps_below(int32_t rows, int32_t columns, int32_t across, int32_t pieces)
{
    static int8_t errors[BELOW_OUTPUTS * BELOW_ROWS * BELOW_COLUMNS];
    static int8_t words[BELOW_OUTPUTS * BELOW_ROWS * BELOW_COLUMNS];
    static int8_t copies[BELOW_CHANNELS * BELOW_TAPS * (BELOW_ROWS + 2) * BELOW_COLUMNS];
    int32_t sums[BELOW_OUTPUTS * BELOW_CHANNELS * 3 * BELOW_TAPS];
    int32_t expected[BELOW_OUTPUTS * BELOW_CHANNELS * 3 * BELOW_TAPS];
    uint32_t largest[BELOW_CHANNELS * BELOW_TAPS], most = 0, found = 0;
    struct trainc_xpulp_shifted work = { .channels = BELOW_CHANNELS, .taps = { 3, across },
        .strides = { 1, 1 }, .rows = rows, .columns = columns, .alike = (rows + 2) * columns,
        .copy = (rows + 2) * columns, .copies = copies, .errors = errors, .words = words,
        .outputs = BELOW_OUTPUTS, .sums = sums, .pieces = pieces, .largest = largest };
    const int32_t parts = TRAINC_XPULP_TAPS_BELOW(BELOW_CHANNELS / 2 * across * pieces,
        BELOW_CHANNELS / 4 * 3 * across);
    int32_t equal = 1;
#if defined(__OPTIMIZE_SIZE__)
    work.pieces = 1;
#endif
    for (int32_t adds = 0; adds < 2; adds++) {
        for (int32_t i = 0; i < (int32_t)sizeof errors; i++) {
            errors[i] = (int8_t)next();
        }
        for (int32_t i = 0; i < (int32_t)sizeof copies; i++) {
            copies[i] = (int8_t)next();
        }
        most = 0;
        for (int32_t n = 0; n < BELOW_OUTPUTS * BELOW_CHANNELS * 3 * across; n++) {
            const int32_t right = n % across, down = n / across % 3;
            const int32_t channel = n / across / 3 % BELOW_CHANNELS;
            const int32_t output = n / across / 3 / BELOW_CHANNELS;
            int32_t sum = adds ? expected[n] : 0;
            for (int32_t i = 0; i < rows * columns; i++) {
                sum += errors[output * rows * columns + i]
                    * copies[(channel * across + right) * work.copy + down * columns + i];
            }
            expected[n] = sum;
            most = trainc_xpulp_maxu(most, trainc_xpulp_abs((uint32_t)sum));
        }
        for (int32_t i = 0; i < parts; i++) {
            largest[i] = 0;
        }
        work.adds = adds;
        trainc_xpulp_error_lines(&work, 0, TRAINC_XPULP_TAPS_BELOW(BELOW_OUTPUTS / 2 * columns / 4,
            BELOW_OUTPUTS / 4 * rows * columns / 4));
        trainc_xpulp_multiply_below(&work, 0, parts / 2);
        trainc_xpulp_multiply_below(&work, parts / 2, parts);
        for (int32_t n = 0; n < BELOW_OUTPUTS * BELOW_CHANNELS * 3 * across; n++) {
            equal = equal && sums[n] == expected[n];
        }
    }
    found = trainc_xpulp_largest_of(largest, parts);
    check(equal && found == most, BELOW, rows, columns);
}

/* Rows of sums that are rounded to 7 bits, by what their largest magnitude tells: where `stays` no more
 * than 127.4 units. */
static void half_away_rows(int32_t count, int32_t shift, int32_t stays, int32_t low)
{
    int32_t words[MOST + 4], x0_exponent = 0, x1_exponent = 0, exponent;
    int8_t found[MOST + 4], expected[MOST + 4];
    const uint32_t most = (UINT32_C(1) << (shift + 7)) - 1
        - (stays ? (UINT32_C(1) << shift >> 1) + 1 : 0);
    uint32_t largest = 0;
    for (int32_t i = 0; i < count; i++) {
        const uint32_t m = i == 0 ? most : next() % (most + 1);
        largest = m > largest ? m : largest;
        words[i] = next() & 1 ? -(int32_t)m : (int32_t)m;
    }
    const struct trainc_xpulp_rounding r =
        trainc_xpulp_narrowed(largest, 7, low, &x0_exponent, &x1_exponent, &exponent);
    for (int32_t i = 0; i < count; i++) {
        expected[i] = (int8_t)trainc_maximum32(half_away(words[i], r.shift), low);
    }
    words[count] = 0;
    found[count] = 99;
    trainc_xpulp_row_half_away(words, found, count, &r);
    check(same(expected, found, count) && r.stays == stays && exponent == shift, HALF_AWAY, count,
        shift);
}

/* Lanes that are columns of eight elements: whole tiles of them and others, by any rows. */
static void eights(void)
{
    enum { ROWS = 6, LANES = 15, STRIDE = 19, TILES = 4 };
    int8_t rows[8 * (ROWS + 2)], lanes[8 * STRIDE], packed[2 * 32];
    int32_t sums[(ROWS + 2) * 4 * TILES], equal = 1;
    uint32_t widths[TILES], most = 0;
    struct trainc_xpulp_product work;
    work.row_count = 1 + (int32_t)(next() % ROWS);
    work.lanes.count = 1 + (int32_t)(next() % LANES);
    for (int32_t i = 0; i < 8 * (ROWS + 2); i++) {
        rows[i] = i < 8 * work.row_count ? (int8_t)((int32_t)(next() & 255) - 128) : 0;
    }
    for (int32_t i = 0; i < 8 * STRIDE; i++) {
        lanes[i] = (int8_t)((int32_t)(next() & 255) - 128);
    }
    work.rows = rows;
    work.lanes.kind = TRAINC_XPULP_COLUMNS;
    work.lanes.from = lanes;
    work.lanes.length = 8;
    work.lanes.bytes = 8;
    work.lanes.stride = LANES + (int32_t)(next() % (STRIDE - LANES));
    work.lanes.windows = 0;
    work.lane_tiles = (work.lanes.count + 3) >> 2;
    work.parts = work.lane_tiles < 2 ? 1 : 2;
    work.pieces = 1;
    work.packed = packed;
    work.sums = sums;
    work.sums_stride = 4 * work.lane_tiles;
    work.adds = 0;
    work.largest = widths;
    for (int32_t i = 0; i < TILES; i++) {
        widths[i] = 0;
    }
    trainc_xpulp_multiply_all(&work);
    for (int32_t row = 0; row < work.row_count; row++) {
        for (int32_t lane = 0; lane < work.lanes.count; lane++) {
            int32_t sum = 0;
            for (int32_t i = 0; i < 8; i++) {
                sum += rows[8 * row + i] * lanes[work.lanes.stride * i + lane];
            }
            const uint32_t magnitude = sum < 0 ? 0 - (uint32_t)sum : (uint32_t)sum;
            most = magnitude > most ? magnitude : most;
            equal &= sums[row * work.sums_stride + lane] == sum;
        }
    }
    equal &= trainc_xpulp_largest_of(widths, work.lane_tiles) == most;
    check(equal, EIGHTS, work.lanes.count, work.row_count);
}

/* Weights less what was expected before: of results that replace them, and of others. */
static void update(struct trainc_xpulp_outer work, const int8_t *rounded, int32_t count,
    int32_t shift, int32_t nearest)
{
    int8_t weights[3 * MOST + 1], apart[3 * MOST + 1], expected[3 * MOST + 1];
    for (int32_t i = 0; i < 3 * count; i++) {
        const uint32_t kind = next() & 7;
        weights[i] = (int8_t)(kind == 0 ? -128 : kind == 1 ? 127 : kind == 2 ? -127
            : (int32_t)(next() & 255) - 128);
        const int32_t y = weights[i] - rounded[i];
        expected[i] = (int8_t)(y > 127 ? 127 : y < -127 ? -127 : y);
    }
    work.weights = weights;
    weights[3 * count] = 99;
    apart[3 * count] = 99;
    for (int32_t in_place = 0; in_place < 2; in_place++) {
        work.y = in_place ? weights : apart;
        if (nearest) {
            trainc_xpulp_update_outer_half_away(&work, 0, 3);
        } else {
            trainc_xpulp_update_outer_pseudo_stochastic(&work, 0, 3);
        }
        check(same(expected, work.y, 3 * count), UPDATE, count, shift);
    }
}

/* Three rows by lanes, of up to four images, from the widths of their sums on. */
static void outer(int32_t images, int32_t count, int32_t shift)
{
    int8_t rows[16], lanes[4 * (MOST + 4)], signs[MOST + 4];
    int8_t found[3 * MOST + 1], expected[2][3 * MOST + 1];
    uint16_t magnitudes[MOST + 4];
    uint32_t widths[6], most = 0;
    int32_t begins[3];
    struct trainc_xpulp_outer work;
    const int32_t bytes = images == 1 ? 1 : 4, largest = (int32_t)(next() & 127) + 1;
    for (int32_t i = 0; i < 16; i++) {
        rows[i] = i % bytes >= images ? 0 : (int8_t)((int32_t)(next() & 255) - 128);
    }
    for (int32_t i = 0; i < 4 * (MOST + 4); i++) {
        lanes[i] = i % bytes >= images ? 0
            : (int8_t)((int32_t)(next() % (uint32_t)(2 * largest)) - largest);
    }
    if (next() % 2 == 0) {
        /* The largest sum, 8190, is rounded up to more than 7 bits by a shift of 6. */
        for (int32_t i = 0; i < 16; i++) {
            rows[i] = (int8_t)(i == 0 ? 91 : i < bytes ? 0 : rows[i] % 23);
        }
        for (int32_t i = 0; i < 4 * (MOST + 4); i++) {
            lanes[i] = (int8_t)(i == 0 ? 90 : i < bytes ? 0 : lanes[i] % 91);
        }
    }
    const int32_t zeros = next() % 4 == 0;
    for (int32_t i = 0; i < bytes; i++) {
        rows[bytes + i] = zeros ? 0 : rows[bytes + i];
    }
    for (int32_t row = 0; row < 3; row++) {
        for (int32_t lane = 0; lane < count; lane++) {
            int32_t sum = 0;
            for (int32_t i = 0; i < images; i++) {
                sum += rows[row * bytes + i] * lanes[lane * bytes + i];
            }
            const uint32_t magnitude = sum < 0 ? 0 - (uint32_t)sum : (uint32_t)sum;
            most = magnitude > most ? magnitude : most;
            expected[0][row * count + lane] = pseudo_stochastic(sum, shift);
            expected[1][row * count + lane] = half_away(sum, shift);
        }
    }
    work.rows = rows;
    work.lanes = lanes;
    work.magnitudes = magnitudes;
    work.signs = signs;
    work.row_count = 3;
    work.lane_count = count;
    work.images = images;
    work.parts = 3;
    work.widths = widths;
    work.begins = begins;
    work.weights = 0;
    if (images == 1) {
        trainc_xpulp_outer_single(&work, 0, 3);
    } else {
        trainc_xpulp_outer_widths(&work, 0, 3);
    }
    work.most = trainc_xpulp_outer_most(&work);
    /* Of several images a bound, which has the same bits. */
    const int same_bits = (work.most & ~most) <= most && (most & ~work.most) <= work.most;
    check(images == 1 ? work.most == most : work.most >= most && same_bits, OUTER, count, -1);
    work.rounding = trainc_xpulp_rounding(shift, -127);
    for (int32_t nearest = 0; nearest < 2; nearest++) {
        work.y = found;
        found[3 * count] = 99;
        if (nearest) {
            trainc_xpulp_store_outer_half_away(&work, 0, 3);
        } else {
            trainc_xpulp_store_outer_pseudo_stochastic(&work, 0, 3);
        }
        check(same(expected[nearest], found, 3 * count), OUTER, count, shift);
        update(work, expected[nearest], count, shift, nearest);
    }
}

/* A row of sums that are rounded by chance as they arise, within what a core has: whole fours overlap
 * what lies beside the row, which stays. Of sums that are `full` the largest is just below a power of
 * two, so that it is rounded to more than 7 bits. */
static void line_dither(const int32_t *given, int32_t count, int32_t full)
{
    enum { AROUND = 12 };
    int32_t line[3] = { given[0], given[1], given[2] }, shift;
    uint32_t most = 0;
    int8_t a[MOST + AROUND], b[MOST + AROUND], found[MOST + AROUND + 1], expected[MOST + AROUND];
    struct trainc_xpulp_lines work;
    const int32_t from = 4 + (int32_t)(next() & 3), to = from + count;
    for (int32_t i = 0; i < MOST + AROUND; i++) {
        a[i] = (int8_t)(next() & 255);
        b[i] = (int8_t)(next() & 255);
        found[i] = (int8_t)(next() & 255);
        expected[i] = found[i];
    }
    if (full) {
        const int32_t sign = next() & 1 ? 1 : -1;
        int32_t greatest = INT32_MIN;
        for (int32_t i = from; i < to; i++) {
            greatest = trainc_maximum32(greatest, sign * (a[i] * line[0] + b[i] * line[1]));
        }
        const int32_t bits = 10 + 32 - trainc_leading_zeros(line[0] | -line[1]);
        line[2] = sign * ((1 << bits) - 1 - (int32_t)(next() & 3) - (count > 0 ? greatest : 0));
    }
    for (int32_t i = from; i < to; i++) {
        const int64_t sum = (int64_t)a[i] * line[0] + b[i] * line[1] + line[2];
        const uint32_t magnitude = (uint32_t)(sum < 0 ? -sum : sum);
        most = magnitude > most ? magnitude : most;
    }
    /* As a normalization's error takes it. */
    shift = trainc_maximum32(25 - trainc_leading_zeros((int32_t)most), 0);
    work.a = a;
    work.b = b;
    work.y = found;
    work.shift = shift;
    work.clamps = most > UINT32_C(127) << shift;
    work.key = next();
    work.ahead = 0;
#if defined(TRAINC_XPULP_INSN)
    if (work.clamps || !TRAINC_XPULP_LINE_WORDS) {
        work.ahead = (int32_t)(work.key & 3);
    }
#endif
    work.factors = line;
    work.turns = line + 1;
    work.offsets = line + 2;
    work.sizes.channels = 1;
    work.sizes.space = MOST + AROUND;
    for (int32_t i = from; i < to; i++) {
        const int64_t sum = (int64_t)a[i] * line[0] + b[i] * line[1] + line[2];
        const int64_t q = (sum + uniform(work.key + (uint32_t)i, shift)) >> shift;
        expected[i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
    found[MOST + AROUND] = 99;
    trainc_xpulp_line_dither(&work, 0, from, to, from - (int32_t)(next() & 3),
        to + (int32_t)(next() & 3));
    check(same(expected, found, MOST + AROUND), LINE_DITHER, count, shift);
}

static void one(int32_t count, int32_t shift)
{
    int8_t a[MOST + 4], b[MOST + 4], found[MOST + 4], expected[MOST + 4];
    int32_t words[MOST + 4], line[3];
    fill(a);
    fill(b);
    const int8_t *const x = a + (next() & 3), *const z = b + (next() & 3);
    line[0] = (int32_t)(next() & 0xffff) % 32768;
    line[1] = -(int32_t)(next() & 0xffff) % 32768;
    line[2] = (int32_t)next() >> (1 + next() % 30);
    line[2] = trainc_maximum32(trainc_minimum32(line[2], 1 << 30), -(1 << 30));

    int32_t sums[2] = { 5, -7 }, all = 5, products = -7, least_byte = 127, greatest_byte = -128;
    uint32_t bytes[2] = { 0x7f7f7f7f, 0x80808080 }, greatest = 0;
    for (int32_t i = 0; i < count; i++) {
        all += x[i];
        products += x[i] * z[i];
        least_byte = x[i] < least_byte ? x[i] : least_byte;
        greatest_byte = x[i] > greatest_byte ? x[i] : greatest_byte;
    }
    trainc_xpulp_dots(x, z, count, sums);
    check(sums[0] == all && sums[1] == products, SUMS, count, shift);
    int32_t squares[2] = { 0, 0 }, own[2] = { 0, 0 };
    trainc_xpulp_squares(x, count, squares);
    for (int32_t i = 0; i < count; i++) {
        own[0] += x[i];
        own[1] += x[i] * x[i];
    }
    check(squares[0] == own[0] && squares[1] == own[1], SUMS, count, shift);
    trainc_xpulp_byte_extremes(x, count, bytes);
    int32_t low = 127, high = -128;
    for (int32_t i = 0; i < 4; i++) {
        low = trainc_minimum32(low, (int8_t)(bytes[0] >> 8 * i & 255));
        high = trainc_maximum32(high, (int8_t)(bytes[1] >> 8 * i & 255));
    }
    check(low == least_byte && high == greatest_byte, EXTREME_BYTES, count, shift);

    for (int32_t lowest = -127; lowest <= 0; lowest += 127) {
        const struct trainc_xpulp_rounding r = trainc_xpulp_rounding(shift, lowest);
        /* A tie, where the offset can make one. */
        const int32_t tie = shift > 0 ? (1 << (shift - 1)) - x[0] * line[0] : 0;
        const int32_t offset = next() & 1 ? line[2] : -tie * (next() & 1 ? 1 : -1);
        int32_t clamps = 0;
        for (int32_t i = 0; i < count; i++) {
            const int64_t sum = (int64_t)x[i] * line[0] + offset, m = sum < 0 ? -sum : sum;
            const int64_t q = (m + (shift > 0 ? INT64_C(1) << (shift - 1) : 0)) >> shift;
            const int64_t y = sum < 0 ? -q : q;
            expected[i] = (int8_t)(y > 127 ? 127 : y < lowest ? lowest : y);
            clamps |= expected[i] != y;
        }
        for (; clamps < 2; clamps++) {
            found[count] = 99;
            trainc_xpulp_line_half_away(x, found, count, line[0], offset, clamps, &r);
            check(same(expected, found, count), HALF_AWAY, count, shift);
        }
    }

    const uint32_t counter = next();
    uint32_t largest = 0;
    int equal = 1;
    trainc_xpulp_line_sums(x, z, words, count, line);
    for (int32_t i = 0; i < count; i++) {
        const int32_t sum = x[i] * line[0] + z[i] * line[1] + line[2];
        const uint32_t magnitude = sum < 0 ? 0 - (uint32_t)sum : (uint32_t)sum;
        equal &= words[i] == sum;
        largest = magnitude > largest ? magnitude : largest;
    }
    equal &= trainc_xpulp_line_largest(x, z, count, line) == largest;
    check(equal, LINE_SUMS, count, shift);
    line_dither(line, count, 0);
    /* Sums of all widths. */
    const int32_t down = trainc_maximum32(17 - shift, 0), most = 1 << trainc_minimum32(shift + 6, 30);
    const int32_t narrow[3] = { line[0] >> down, line[1] >> down,
        trainc_maximum32(trainc_minimum32(line[2], most), -most) };
    line_dither(narrow, count, 0);
    line_dither(narrow, count, 1);

    for (int32_t i = 0; i < count; i++) {
        const int32_t top = 31 - 25 + shift < 31 ? 31 - 25 + shift : 31;
        const uint32_t draw = uniform(counter + (uint32_t)i, shift);
        /* Of 7 bits more than the shift; or with the draw just a whole unit, or the least below. */
        words[i] = next() & 1 ? (int32_t)next() >> (31 - top)
            : (int32_t)((next() & 63) << shift) - (int32_t)draw - (int32_t)(next() & 1);
        words[i] = next() % 16 == 0 && shift > 23 ? INT32_MAX : words[i];
        const uint32_t magnitude = words[i] < 0 ? 0 - (uint32_t)words[i] : (uint32_t)words[i];
        greatest = magnitude > greatest ? magnitude : greatest;
        const int64_t q = ((int64_t)words[i] + draw) >> shift;
        expected[i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
    trainc_xpulp_row_dither(words, found, count, shift, counter);
    check(same(expected, found, count), DITHER, count, shift);
    check(trainc_xpulp_largest_sum(words, count) == greatest, MAGNITUDES, count, shift);
    if (count > 0) {
        pseudo_stochastic_rows(count, shift);
        if (shift < 16) {
            pairs_of_rows(count, shift);
        }
        if (shift > 0) {
            for (int32_t stays = 0; stays < 2; stays++) {
                half_away_rows(count, shift, stays, -127);
                half_away_rows(count, shift, stays, 0);
            }
        }
        eights();
        for (int32_t images = 1; images <= 4; images++) {
            outer(images, count, shift);
        }
    }
}

/* Floats of all sizes, zeros, infinities and no numbers as whole numbers: to nearest, ties to even. */
static void whole(void)
{
    static const uint32_t edges[] = { 0, 1, 0x7fffff, 0x800000, 0x800001, 0x3f000000, 0x3fc00000,
        0x3f7fffff, 0x3f800000, 0x40200000, 0x4b000001, 0x4affffff, 0x7f7fffff, 0x7f800000, 0x7fc00000 };
    const uint32_t of = next(), kind = next() & 3;
    /* Any bits; an edge; near a tie of a small number. */
    const uint32_t bits = kind == 0 ? of : kind == 1 ? edges[of % 15] | (next() & UINT32_C(0x80000000))
        : (of & UINT32_C(0x803fffff)) | (120 + next() % 30) << 23 | (next() & 1 ? 0 : 0x400000);
    const uint32_t cut = kind == 3 ? bits & ~((UINT32_C(1) << next() % 23) - 1) : bits;
    const int32_t power = next() & 3 ? (int32_t)(next() % 80) - 40 : (int32_t)(next() % 2001) - 1000;
    const uint32_t limit = next() & 1 ? 32767 : UINT32_C(1) << 30;
    const int32_t biased = (int32_t)(cut >> 23 & 255), up = power - 150 + (biased > 0 ? biased : 1);
    const uint32_t fraction = cut & 0x7fffff;
    const uint64_t m = fraction | (biased > 0 ? 0x800000 : 0);
    uint64_t q = 0;
    if (biased == 255) {
        q = fraction == 0 ? limit : 0;
    } else if (up >= 0) {
        q = m == 0 ? 0 : up > 32 ? limit : m << up;
    } else if (up > -40) {
        const uint64_t rest = m & ((UINT64_C(1) << -up) - 1), half = UINT64_C(1) << (-up - 1);
        q = m >> -up;
        q += rest > half || (rest == half && (q & 1) != 0);
    }
    q = q < limit ? q : limit;
    const int32_t expected = cut >> 31 ? -(int32_t)q : (int32_t)q;
    check(trainc_xpulp_whole((int32_t)cut, power, limit) == expected, WHOLE, power, (int32_t)cut);
}

/* Bytes within bounds, and what is kept beside those that are. */
static void clips(int32_t count)
{
    int8_t a[MOST + 4], b[MOST + 4], found[MOST + 4], expected[MOST + 4];
    fill(a);
    fill(b);
    int32_t low = (int32_t)(next() % 256) - 128, high = (int32_t)(next() % 256) - 128;
    struct trainc_xpulp_clip work = { b, a, found, count, low < high ? low : high, low < high ? high : low };
    const int32_t words = (count + 3) / 4, middle = words > 0 ? (int32_t)(next() % (uint32_t)words) : 0;
    for (int32_t i = 0; i < count; i++) {
        expected[i] = (int8_t)(a[i] < work.low ? work.low : a[i] > work.high ? work.high : a[i]);
    }
    found[count] = 99;
    trainc_xpulp_clip_words(&work, 0, middle);
    trainc_xpulp_clip_words(&work, middle, words);
    check(same(expected, found, count), CLIP, count, 0);
    /* Bounds of all kinds: none lies within, all do, beyond all bytes. */
    for (int32_t without_sign = 0; without_sign < 2; without_sign++) {
        work.low = (int32_t)(next() % 1027) - 513;
        work.high = next() & 1 ? (int32_t)(next() % 1027) - 513 : work.low + (int32_t)(next() % 260);
        for (int32_t i = 0; i < count; i++) {
            const int32_t x = without_sign ? (uint8_t)b[i] : b[i];
            expected[i] = x >= work.low && x <= work.high ? a[i] : 0;
        }
        found[count] = 99;
        if (without_sign) {
            trainc_xpulp_within_unsigned_words(&work, 0, middle);
            trainc_xpulp_within_unsigned_words(&work, middle, words);
        } else {
            trainc_xpulp_within_words(&work, 0, middle);
            trainc_xpulp_within_words(&work, middle, words);
        }
        check(same(expected, found, count), BETWEEN, count, without_sign);
    }
}

/* Errors of some images by the rows of weights, in as many parts as are possible. */
static void added(void)
{
    enum { ROWS = 13, LANES = 35, STRIDE = 36 };
    int8_t weights[ROWS * LANES], errors[4 * ROWS], factors[16 * ((ROWS + 3) / 4)];
    int32_t listed[ROWS + 3], sums[4 * STRIDE];
    uint32_t largest[8], most = 0, found = 0;
    struct trainc_xpulp_added work;
    work.images = 1 + (int32_t)(next() % 4);
    const int32_t single = work.images == 1, fewest = single ? 1 : 4;
    work.row_count = fewest + (int32_t)(next() % (uint32_t)(ROWS + 1 - fewest));
    work.lane_count = 8 + (int32_t)(next() % (LANES - 7));
    work.parts = trainc_minimum32(work.lane_count / (single ? 8 : 4), 8);
    work.weights = weights;
    work.errors = errors;
    work.listed = listed;
    work.factors = factors;
    work.sums = sums;
    work.stride = STRIDE;
    work.largest = largest;
    for (int32_t i = 0; i < ROWS * LANES; i++) {
        weights[i] = (int8_t)(next() % 9 == 0 ? -128 : (int32_t)(next() & 255) - 128);
    }
    const uint32_t zeros = next() % 4;
    for (int32_t i = 0; i < 4 * ROWS; i++) {
        errors[i] = (int8_t)(next() % 4 < zeros || zeros == 3 ? 0 : (int32_t)(next() & 255) - 128);
    }
    for (int32_t i = 0; i < 4 * STRIDE; i++) {
        sums[i] = 99;
    }
    if (single) {
        trainc_xpulp_list_rows(&work);
        trainc_xpulp_add_rows(&work, 0, work.parts);
    } else {
        trainc_xpulp_list_words(&work);
        trainc_xpulp_add_rows_of_images(&work, 0, work.parts);
    }
    int equal = 1;
    for (int32_t image = 0; image < 4; image++) {
        for (int32_t lane = 0; lane < STRIDE; lane++) {
            int32_t sum = 0;
            for (int32_t row = 0; row < work.row_count; row++) {
                sum += lane < work.lane_count ? errors[image * work.row_count + row]
                    * weights[row * work.lane_count + lane] : 0;
            }
            /* Nothing is written beside the sums. */
            const int there = image < work.images && lane < work.lane_count;
            equal = equal && sums[image * STRIDE + lane] == (there ? sum : 99);
            most = there ? trainc_xpulp_maxu(most, trainc_xpulp_abs((uint32_t)sum)) : most;
        }
    }
    for (int32_t part = 0; part < work.parts; part++) {
        found = trainc_xpulp_maxu(found, largest[part]);
    }
    check(equal && found == most, ADDED, work.lane_count, work.images);
}

/* Powers of e up to 1 and logarithms from 1 on, beside floats whose every step is rounded. */
static void powers(void)
{
    const uint32_t below = UINT32_C(0xbf800000) + (next() % 16 << 23) - (next() % 12 << 23);
    const float x = trainc_float((int32_t)((next() % 8 == 0 ? next() & 0x7fffffff : below)
        | UINT32_C(0x80000000) | (next() & 0x7fffff)));
    const float c = trainc_maximum(x, -104.0f), n = trainc_round(c * 0x1.715476p+0f);
    const float r = c - n * 0x1.63p-1f - n * -0x1.bd0106p-13f;
    const int32_t whole = trainc_to_integer(n), part = whole >> 1;
    float y = (r * r * ((((0x1.6a2262p-10f * r + 0x1.123b04p-7f) * r + 0x1.5558f8p-5f) * r
        + 0x1.55549p-3f) * r + 0x1.fffffcp-2f) + r + 1.0f) * trainc_float((part + 127) * (1 << 23))
        * trainc_float((whole - part + 127) * (1 << 23));
    y = x != x ? trainc_float(0x7fc00000) : y;
    check(trainc_bits(trainc_xpulp_exp(x)) == trainc_bits(y), POWER, trainc_bits(x), 0);
    const int32_t bits = 0x3f800000 + (int32_t)(next() % (next() & 1 ? 0x2000000 : 0x40000000));
    const float z = trainc_float(bits);
    const int32_t exponent = (bits - 0x3f3504f3) >> 23;
    const float k = (float)exponent, f = trainc_float(bits - exponent * (1 << 23)) - 1.0f;
    const float s = f / (f + 2.0f), t = s * s, h = 0.5f * f * f;
    y = k * 0x1.63p-1f - (h - (s * (h + t * (((0x1.e30546p-3f * t + 0x1.24387ap-2f) * t + 0x1.999a7cp-2f) * t
        + 0x1.555554p-1f)) + k * -0x1.bd0106p-13f) - f);
    check(trainc_bits(trainc_xpulp_log(z)) == trainc_bits(y), LOGARITHM, bits, 0);
}

int main(void)
{
    for (int32_t round = 0; round < 1000; round++) {
        added();
        powers();
    }
    for (int32_t round = 0; round < 4000; round++) {
        whole();
        clips(round % (MOST + 1));
    }
    for (int32_t round = 0; round < 12; round++) {
        for (int32_t shift = 0; shift <= 24; shift++) {
            one(round < 2 ? round + 1 : (int32_t)(next() % (MOST + 1)), shift);
        }
    }
    for (int32_t rows = 4; rows <= BELOW_ROWS; rows++) {
        for (int32_t across = 1; across <= BELOW_TAPS; across++) {
            taps_below(rows, 8, across, 1);
            taps_below(rows, BELOW_COLUMNS, across, 2);
        }
    }
    PUT(report, sizeof report);
    return 0;
}
