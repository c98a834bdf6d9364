/* Rows of sums and of rounded results, by loops of XpulpV2's instructions where there are any,
 * beside plain C: all shifts, odd lengths and places, sums that a draw just carries and just does
 * not. Writes the number of rows, of those that differ, and what the first of these was. */
#include "trainc_xpulp_channels.h"

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
enum { SUMS, EXTREME_BYTES, EXTREME_LINES, HALF_AWAY, LINE_DITHER, LINE_SUMS, DITHER, MAGNITUDES };

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

    int32_t sums[2] = { 5, -7 }, least = INT32_MAX, greatest = INT32_MIN, all = 5, products = -7;
    int32_t least_byte = 127, greatest_byte = -128, lines[2] = { INT32_MAX, INT32_MIN };
    uint32_t bytes[2] = { 0x7f7f7f7f, 0x80808080 }, magnitudes = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t sum = x[i] * line[0] + z[i] * line[1];
        all += x[i];
        products += x[i] * z[i];
        least = sum < least ? sum : least;
        greatest = sum > greatest ? sum : greatest;
        least_byte = x[i] < least_byte ? x[i] : least_byte;
        greatest_byte = x[i] > greatest_byte ? x[i] : greatest_byte;
    }
    trainc_xpulp_dots(x, z, count, sums);
    check(sums[0] == all && sums[1] == products, SUMS, count, shift);
    trainc_xpulp_byte_extremes(x, count, bytes);
    int32_t low = 127, high = -128;
    for (int32_t i = 0; i < 4; i++) {
        low = trainc_minimum32(low, (int8_t)(bytes[0] >> 8 * i & 255));
        high = trainc_maximum32(high, (int8_t)(bytes[1] >> 8 * i & 255));
    }
    check(low == least_byte && high == greatest_byte, EXTREME_BYTES, count, shift);
    trainc_xpulp_line_extremes(x, z, count, line[0], line[1], lines);
    check(lines[0] == least && lines[1] == greatest, EXTREME_LINES, count, shift);

    for (int32_t lowest = -127; lowest <= 0; lowest += 127) {
        const struct trainc_xpulp_rounding r = trainc_xpulp_rounding(shift, lowest);
        /* A tie, where the offset can make one. */
        const int32_t tie = shift > 0 ? (1 << (shift - 1)) - x[0] * line[0] : 0;
        const int32_t offset = next() & 1 ? line[2] : -tie * (next() & 1 ? 1 : -1);
        for (int32_t i = 0; i < count; i++) {
            const int64_t sum = (int64_t)x[i] * line[0] + offset, m = sum < 0 ? -sum : sum;
            const int64_t q = (m + (shift > 0 ? INT64_C(1) << (shift - 1) : 0)) >> shift;
            const int64_t y = sum < 0 ? -q : q;
            expected[i] = (int8_t)(y > 127 ? 127 : y < lowest ? lowest : y);
        }
        found[count] = 99;
        trainc_xpulp_line_half_away(x, found, count, line[0], offset, &r);
        check(same(expected, found, count), HALF_AWAY, count, shift);
    }

    const uint32_t counter = next();
    for (int32_t i = 0; i < count; i++) {
        const int64_t sum = x[i] * line[0] + z[i] * line[1] + line[2];
        const int64_t q = (sum + uniform(counter + (uint32_t)i, shift)) >> shift;
        expected[i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
    found[count] = 99;
    trainc_xpulp_line_dither(x, z, found, count, line, shift, counter);
    check(same(expected, found, count), LINE_DITHER, count, shift);
    /* By an offset that lets the draw of one element just carry. */
    if (count > 0) {
        const int32_t n = (int32_t)(next() % (uint32_t)count), own = x[n] * line[0] + z[n] * line[1];
        line[2] = (int32_t)((UINT32_C(3) << shift) - uniform(counter + (uint32_t)n, shift)
            - (next() & 1)) - own;
        for (int32_t i = 0; i < count; i++) {
            const int64_t sum = x[i] * line[0] + z[i] * line[1] + line[2];
            const int64_t q = (sum + uniform(counter + (uint32_t)i, shift)) >> shift;
            expected[i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
        }
        trainc_xpulp_line_dither(x, z, found, count, line, shift, counter);
        check(same(expected, found, count), LINE_DITHER, count, shift);
    }
    trainc_xpulp_line_sums(x, z, words, count, line);
    int equal = 1;
    for (int32_t i = 0; i < count; i++) {
        equal &= words[i] == x[i] * line[0] + z[i] * line[1] + line[2];
    }
    check(equal, LINE_SUMS, count, shift);

    for (int32_t i = 0; i < count; i++) {
        const int32_t top = 31 - 25 + shift < 31 ? 31 - 25 + shift : 31;
        const uint32_t draw = uniform(counter + (uint32_t)i, shift);
        /* Of 7 bits more than the shift; or with the draw just a whole unit, or the least below. */
        words[i] = next() & 1 ? (int32_t)next() >> (31 - top)
            : (int32_t)((next() & 63) << shift) - (int32_t)draw - (int32_t)(next() & 1);
        words[i] = next() % 16 == 0 && shift > 23 ? INT32_MAX : words[i];
        magnitudes |= words[i] < 0 ? 0 - (uint32_t)words[i] : (uint32_t)words[i];
        const int64_t q = ((int64_t)words[i] + draw) >> shift;
        expected[i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
    trainc_xpulp_row_dither(words, found, count, shift, counter);
    check(same(expected, found, count), DITHER, count, shift);
    check(trainc_xpulp_magnitudes(words, count) == magnitudes, MAGNITUDES, count, shift);
}

int main(void)
{
    for (int32_t round = 0; round < 12; round++) {
        for (int32_t shift = 0; shift <= 24; shift++) {
            one(round < 2 ? round + 1 : (int32_t)(next() % (MOST + 1)), shift);
        }
    }
    PUT(report, sizeof report);
    return 0;
}
