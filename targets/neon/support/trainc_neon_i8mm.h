/* The tile kernel of processors with smmla (FEAT_I8MM): all panels in halves.
 *
 * One smmla adds the 2 by 2 products of two rows with two lanes over 8 k. */
#ifndef TRAINC_NEON_I8MM_H
#define TRAINC_NEON_I8MM_H

#include "trainc_neon.h"
#include "trainc_neon_in_place.h"
#include "trainc_neon_packing.h"

#ifdef __ARM_FEATURE_MATMUL_INT8
#define TRAINC_I8MM
#else
#define TRAINC_I8MM __attribute__((target("arch=armv8.2-a+i8mm")))
#endif

/* Keeps loads behind it there, for compilers would move them forward until registers are spilled. */
#define TRAINC_BEHIND __asm__ volatile("" : : : "memory")

/* 16 registers of zeros, where sums start: loads of pairs of registers are half as many instructions as moves. */
static const int32_t trainc_no_sums[64] __attribute__((unused)) = {0};

/* The rows of two registers of 2 by 2 sums; returns the bits of their magnitudes. */
TRAINC_PART uint32x4_t trainc_store_2x4(int32_t *sums, int32x4_t left, int32x4_t right)
{
    const int64x2_t l = vreinterpretq_s64_s32(left), r = vreinterpretq_s64_s32(right);
    vst1q_s32(sums, vreinterpretq_s32_s64(vzip1q_s64(l, r)));
    vst1q_s32(sums + 8, vreinterpretq_s32_s64(vzip2q_s64(l, r)));
    return vreinterpretq_u32_s32(vorrq_s32(vabsq_s32(left), vabsq_s32(right)));
}

/* The sums of the rows 0 and 1, 2 and 3, ..; each with the lanes 0 and 1, 2 and 3, ..: they have names, since
 * compilers keep arrays of them in memory. */
#define TRAINC_TILE_SUMS                                                    \
    const int32_t *none = trainc_no_sums;                                   \
    TRAINC_OPAQUE(none);                                                    \
    int32x4_t a0 = vld1q_s32(none), a1 = vld1q_s32(none + 4);               \
    int32x4_t a2 = vld1q_s32(none + 8), a3 = vld1q_s32(none + 12);          \
    int32x4_t b0 = vld1q_s32(none + 16), b1 = vld1q_s32(none + 20);         \
    int32x4_t b2 = vld1q_s32(none + 24), b3 = vld1q_s32(none + 28);         \
    int32x4_t c0 = vld1q_s32(none + 32), c1 = vld1q_s32(none + 36);         \
    int32x4_t c2 = vld1q_s32(none + 40), c3 = vld1q_s32(none + 44);         \
    int32x4_t d0 = vld1q_s32(none + 48), d1 = vld1q_s32(none + 52);         \
    int32x4_t d2 = vld1q_s32(none + 56), d3 = vld1q_s32(none + 60);
#define TRAINC_ROWS(r, k)                       \
    r##0 = vmmlaq_s32(r##0, k, y.val[0]);       \
    r##1 = vmmlaq_s32(r##1, k, y.val[1]);       \
    r##2 = vmmlaq_s32(r##2, k, y.val[2]);       \
    r##3 = vmmlaq_s32(r##3, k, y.val[3])
#define TRAINC_HALF                                 \
    {                                               \
        const int8x16x4_t x = vld1q_s8_x4(row);     \
        const int8x16x4_t y = vld1q_s8_x4(lane);    \
        row += 64;                                  \
        lane += 64;                                 \
        TRAINC_OPAQUE(row);                         \
        TRAINC_OPAQUE(lane);                        \
        TRAINC_ROWS(a, x.val[0]);                   \
        TRAINC_ROWS(b, x.val[1]);                   \
        TRAINC_ROWS(c, x.val[2]);                   \
        TRAINC_ROWS(d, x.val[3]);                   \
    }
#define TRAINC_BLOCK                                \
    TRAINC_HALF                                     \
    TRAINC_HALF
/* Stores them as [8 rows][8 lanes]; the bits of their magnitudes. */
#define TRAINC_TILE_STORED                                              \
    uint32x4_t bits = trainc_store_2x4(sums, a0, a1);                   \
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 4, a2, a3));         \
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 16, b0, b1));        \
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 20, b2, b3));        \
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 32, c0, c1));        \
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 36, c2, c3));        \
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 48, d0, d1));        \
    bits = vorrq_u32(bits, trainc_store_2x4(sums + 52, d2, d3));

/* sums[row][lane] of 8 by 8 over the blocks of all runs; returns the bits of their magnitudes. */
TRAINC_SHARED TRAINC_I8MM uint32x4_t trainc_tile_i8mm(const int8_t *rows, const int8_t *lanes,
    const struct trainc_run *run, int32_t runs, int32_t *sums)
{
    TRAINC_TILE_SUMS
    for (const struct trainc_run *end = run + runs; run != end; run++) {
        const int8_t *row = rows + run->rows, *lane = lanes + run->lanes;
        const int8_t *const stop = row + 128 * (ptrdiff_t)run->blocks;
        if ((run->blocks & 1) != 0) {
            TRAINC_BLOCK
        }
        while (row != stop) {
            TRAINC_BLOCK
            TRAINC_BEHIND;
            TRAINC_BLOCK
        }
    }
    TRAINC_TILE_STORED
    return bits;
}

/* The same over images of so many blocks each, which lie one behind the other in panels of rows and have a
 * gap behind each in panels of lanes. */
TRAINC_SHARED TRAINC_I8MM uint32x4_t trainc_images_i8mm(const int8_t *row, const int8_t *lane,
    int32_t images, int32_t blocks, int32_t gap, int32_t *sums)
{
    TRAINC_TILE_SUMS
    for (; images > 0; images--) {
        if ((blocks & 1) != 0) {
            TRAINC_BLOCK
            TRAINC_BEHIND;
        }
        if ((blocks & 2) != 0) {
            TRAINC_BLOCK
            TRAINC_BEHIND;
            TRAINC_BLOCK
            TRAINC_BEHIND;
        }
        for (int32_t fours = blocks / 4; fours > 0; fours--) {
            TRAINC_BLOCK
            TRAINC_BEHIND;
            TRAINC_BLOCK
            TRAINC_BEHIND;
            TRAINC_BLOCK
            TRAINC_BEHIND;
            TRAINC_BLOCK
        }
        lane += gap;
    }
    TRAINC_TILE_STORED
    return bits;
}

#undef TRAINC_TILE_SUMS
#undef TRAINC_ROWS
#undef TRAINC_HALF
#undef TRAINC_BLOCK
#undef TRAINC_TILE_STORED

/* Two registers of 2 by 2 sums as they are; returns the bits of their magnitudes. */
TRAINC_PART uint32x4_t trainc_store_2x2x2(int32_t *sums, int32x4_t first, int32x4_t second)
{
    vst1q_s32(sums, first);
    vst1q_s32(sums + 4, second);
    return vreinterpretq_u32_s32(vorrq_s32(vabsq_s32(first), vabsq_s32(second)));
}

/* What is done for each pair of lanes: a to d. */
#define TRAINC_PAIRS(LANES) \
    LANES(a, 0, 1);         \
    LANES(b, 2, 3);         \
    LANES(c, 4, 5);         \
    LANES(d, 6, 7)
/* The sums of lanes l with four pairs of rows, of which there are none yet. */
#define TRAINC_FOUR_SUMS(l, first, second)                                                    \
    int32x4_t l##0 = vld1q_s32(none + 8 * (first)), l##1 = vld1q_s32(none + 8 * (first) + 4); \
    int32x4_t l##2 = vld1q_s32(none + 8 * (first) + 8), l##3 = vld1q_s32(none + 8 * (first) + 12)
#define TRAINC_PAIR(l, x, y)                    \
    l##0 = vmmlaq_s32(l##0, x, y.val[0]);       \
    l##1 = vmmlaq_s32(l##1, x, y.val[1]);       \
    l##2 = vmmlaq_s32(l##2, x, y.val[2]);       \
    l##3 = vmmlaq_s32(l##3, x, y.val[3])
#define TRAINC_STORE_FOUR(l, first, second)                                    \
    bits = vorrq_u32(bits, trainc_store_2x2x2(sums + 8 * first, l##0, l##1));  \
    bits = vorrq_u32(bits, trainc_store_2x2x2(sums + 8 * first + 8, l##2, l##3))

/* sums[panel] of panels of rows, each 8 by 8, over all stretches, whose words are even in number;
 * returns the bits of their magnitudes. Sums are [4 pairs of lanes][4 pairs of rows][2 lanes][2 rows].
 * Rows are packed in halves, panels panel_bytes apart. */
TRAINC_PART TRAINC_I8MM uint32x4_t trainc_tiles_i8mm(const int8_t *rows, int32_t panels,
    int32_t panel_bytes, const int8_t *operand, const int32_t *places,
    const struct trainc_stretch *s, int32_t count, int32_t blocks, int32_t words, int32_t *sums)
{
    const int32_t *none = trainc_no_sums;
    const int8_t *const x0 = operand + places[0], *const x1 = operand + places[1];
    const int8_t *const x2 = operand + places[2], *const x3 = operand + places[3];
    const int8_t *const x4 = operand + places[4], *const x5 = operand + places[5];
    const int8_t *const x6 = operand + places[6], *const x7 = operand + places[7];
    uint32x4_t bits = vdupq_n_u32(0);
    TRAINC_OPAQUE(none);
    for (int32_t panel = 0; panel < panels; panel++) {
        TRAINC_PAIRS(TRAINC_FOUR_SUMS);
        for (const struct trainc_stretch *at = s, *end = s + count; at != end; at++) {
            const int8_t *y = rows + at->rows;
            ptrdiff_t k = at->lanes;
            for (int32_t block = blocks; block > 0; block--) {
                const int8x16x4_t y0 = vld1q_s8_x4(y);
                y += 64;
                TRAINC_OPAQUE(y);
                const int8x16x4_t y1 = vld1q_s8_x4(y);
                y += 64;
                TRAINC_OPAQUE(y);
                TRAINC_BEHIND;
#define TRAINC_LANES(l, first, second)                                           \
    {                                                                            \
        const int64x2_t u = vreinterpretq_s64_s8(vld1q_s8(x##first + k));        \
        const int64x2_t v = vreinterpretq_s64_s8(vld1q_s8(x##second + k));       \
        TRAINC_PAIR(l, vreinterpretq_s8_s64(vzip1q_s64(u, v)), y0);              \
        TRAINC_PAIR(l, vreinterpretq_s8_s64(vzip2q_s64(u, v)), y1);              \
        TRAINC_BEHIND;                                                           \
    }
                TRAINC_PAIRS(TRAINC_LANES);
#undef TRAINC_LANES
                k += 16;
            }
            if (words != 0) {
                const int8x16x4_t y0 = vld1q_s8_x4(y);
                TRAINC_BEHIND;
#define TRAINC_LANES(l, first, second)                                                  \
    TRAINC_PAIR(l, vcombine_s8(vld1_s8(x##first + k), vld1_s8(x##second + k)), y0);     \
    TRAINC_BEHIND
                TRAINC_PAIRS(TRAINC_LANES);
#undef TRAINC_LANES
            }
        }
        TRAINC_PAIRS(TRAINC_STORE_FOUR);
        rows += panel_bytes;
        sums += 64;
    }
    return bits;
}

TRAINC_TILES_IN_PLACE(i8mm, TRAINC_I8MM, tiles, 0)
TRAINC_TILES_IN_PLACE(i8mm, TRAINC_I8MM, tiles, 2)

#define TRAINC_HALF_OF_ROWS(n)                \
    const int8x16x4_t y##n = vld1q_s8_x4(y);  \
    y += 64;                                  \
    TRAINC_OPAQUE(y);
/* Of six rows at most, three pairs of rows are there. */
#define TRAINC_PAIR_OF(l, x, y)               \
    l##0 = vmmlaq_s32(l##0, x, y.val[0]);     \
    l##1 = vmmlaq_s32(l##1, x, y.val[1]);     \
    l##2 = vmmlaq_s32(l##2, x, y.val[2]);     \
    if (rows_in_all > 6) {                    \
        l##3 = vmmlaq_s32(l##3, x, y.val[3]); \
    }
#define TRAINC_STORE_OF(l, first, second)                                             \
    bits = vorrq_u32(bits, trainc_store_2x2x2(sums + 8 * first, l##0, l##1));         \
    if (rows_in_all > 6) {                                                            \
        bits = vorrq_u32(bits, trainc_store_2x2x2(sums + 8 * first + 8, l##2, l##3)); \
    } else {                                                                          \
        vst1q_s32(sums + 8 * first + 8, l##2);                                        \
        bits = vorrq_u32(bits, vreinterpretq_u32_s32(vabsq_s32(l##2)));               \
    }

/* Loads one, two, or three registers of lanes, and steps their pointer forward: behind them, or as far as
 * `onward` says. That is one instruction, which GCC does not find for a distance in a register. */
#if defined(__GNUC__) && !defined(__clang__)
#define TRAINC_ONWARD(list)                                                                 \
    __asm__("ld1 " list ", [%1], %2" : "=w"(u), "+r"(*at)                                   \
        : "r"(onward), "m"(*(const int8_t(*)[sizeof(u)])*at))
#else
#define TRAINC_ONWARD(list) *at += onward
#endif
#define TRAINC_LOADS_OF_LANES(name, type, load, list)                                       \
    TRAINC_PART type trainc_load_##name(const int8_t **at)                                  \
    {                                                                                       \
        const type u = load(*at);                                                           \
        *at += sizeof(u);                                                                   \
        TRAINC_OPAQUE(*at);                                                                 \
        return u;                                                                           \
    }                                                                                       \
    TRAINC_PART type trainc_load_##name##_onward(const int8_t **at, ptrdiff_t onward)       \
    {                                                                                       \
        type u = load(*at);                                                                 \
        TRAINC_ONWARD(list);                                                                \
        return u;                                                                           \
    }
TRAINC_LOADS_OF_LANES(one, int8x16_t, vld1q_s8, "{%0.16b}")
TRAINC_LOADS_OF_LANES(two, int8x16x2_t, vld1q_s8_x2, "{%S0.16b - %T0.16b}")
TRAINC_LOADS_OF_LANES(three, int8x16x3_t, vld1q_s8_x3, "{%S0.16b - %U0.16b}")
#undef TRAINC_LOADS_OF_LANES
#undef TRAINC_ONWARD

/* One, two, and three halves of a block: 16 registers have the sums, 12 the rows at most. The last halves
 * of a stretch among even ones step on to the next. */
#define TRAINC_LANES_OF(name, first, last) \
    (last) ? trainc_load_##name##_onward(&u##first, onward) : trainc_load_##name(&u##first)
#define TRAINC_LANES_OF_ONE(l, first, last)                          \
    {                                                                \
        const int8x16_t u = TRAINC_LANES_OF(one, first, last);       \
        TRAINC_PAIR_OF(l, u, y0);                                    \
        TRAINC_BEHIND;                                               \
    }
#define TRAINC_LANES_OF_TWO(l, first, last)                          \
    {                                                                \
        const int8x16x2_t u = TRAINC_LANES_OF(two, first, last);     \
        TRAINC_PAIR_OF(l, u.val[0], y0);                             \
        TRAINC_PAIR_OF(l, u.val[1], y1);                             \
        TRAINC_BEHIND;                                               \
    }
#define TRAINC_LANES_OF_THREE(l, first, last)                        \
    {                                                                \
        const int8x16x3_t u = TRAINC_LANES_OF(three, first, last);   \
        TRAINC_PAIR_OF(l, u.val[0], y0);                             \
        TRAINC_PAIR_OF(l, u.val[1], y1);                             \
        TRAINC_PAIR_OF(l, u.val[2], y2);                             \
        TRAINC_BEHIND;                                               \
    }
#define TRAINC_EVEN_LANES(LANES, last) \
    LANES(a, 0, last)                  \
    LANES(b, 2, last)                  \
    LANES(c, 4, last)                  \
    LANES(d, 6, last)
#define TRAINC_ONE_HALF(last)                         \
    {                                                 \
        TRAINC_HALF_OF_ROWS(0)                        \
        TRAINC_BEHIND;                                \
        TRAINC_EVEN_LANES(TRAINC_LANES_OF_ONE, last)  \
    }
#define TRAINC_TWO_HALVES(last)                       \
    {                                                 \
        TRAINC_HALF_OF_ROWS(0)                        \
        TRAINC_HALF_OF_ROWS(1)                        \
        TRAINC_BEHIND;                                \
        TRAINC_EVEN_LANES(TRAINC_LANES_OF_TWO, last)  \
    }
#define TRAINC_THREE_HALVES(last)                      \
    {                                                  \
        TRAINC_HALF_OF_ROWS(0)                         \
        TRAINC_HALF_OF_ROWS(1)                         \
        TRAINC_HALF_OF_ROWS(2)                         \
        TRAINC_BEHIND;                                 \
        TRAINC_EVEN_LANES(TRAINC_LANES_OF_THREE, last) \
    }

/* The same of lanes that lie in pairs (trainc_pixels_in_pairs): an even lane's place is that of itself
 * with the next one, and all that lies together is twice as far apart. A stretch is so many rounds of
 * so many halves of blocks, of which compilers know the number; of six rows in all or fewer what would be
 * rows 6 and 7 of sums is left as it is. `eights` times 8 places, one behind the other, and so are their
 * sums. Even stretches need no table: they lie one behind the other in panels, are of one round each, and
 * `step` bytes apart in the operand. */
TRAINC_PART TRAINC_I8MM uint32x4_t trainc_pairs_i8mm(int32_t rows_in_all, const int8_t *rows,
    int32_t panels, int32_t panel_bytes, const int8_t *operand, const int32_t *places, int32_t eights,
    int32_t even, const struct trainc_stretch *s, int32_t count, ptrdiff_t step, int32_t rounds,
    int32_t halves, int32_t *sums)
{
    /* Three at a time where that leaves none alone, for each load of rows and of lanes counts. */
    const int32_t twos = halves % 3 == 0 || halves == 1 ? 0 : halves % 3 == 2 ? 1 : 2;
    const int32_t threes = (halves - 2 * twos) / 3;
    /* From a stretch's last load on. */
    const ptrdiff_t onward = step - 16 * (halves - (halves == 1 ? 1 : twos > 0 ? 2 : 3));
    const int32_t *none = trainc_no_sums;
    uint32x4_t bits = vdupq_n_u32(0);
    TRAINC_OPAQUE(none);
    for (; eights > 0; eights--) {
        const int8_t *x0 = operand + places[0], *x2 = operand + places[2];
        const int8_t *x4 = operand + places[4], *x6 = operand + places[6];
        places += 8;
        TRAINC_OPAQUE(x0);
        TRAINC_OPAQUE(x2);
        TRAINC_OPAQUE(x4);
        TRAINC_OPAQUE(x6);
        const int8_t *row = rows;
        for (int32_t panel = 0; panel < panels; panel++) {
            TRAINC_PAIRS(TRAINC_FOUR_SUMS);
            const int8_t *y = row, *u0 = x0, *u2 = x2, *u4 = x4, *u6 = x6;
            const struct trainc_stretch *at = s;
            for (int32_t left = count; left > 0; left--) {
                int32_t round = rounds;
                if (!even) {
                    const ptrdiff_t k = at->lanes;
                    y = row + at->rows;
                    u0 = x0 + k;
                    u2 = x2 + k;
                    u4 = x4 + k;
                    u6 = x6 + k;
                    at++;
                    TRAINC_OPAQUE(at);
                }
                do {
                    if (halves == 1) {
                        TRAINC_ONE_HALF(even)
                    }
                    if (threes > 0) {
                        TRAINC_THREE_HALVES(even && threes == 1 && twos == 0)
                    }
                    if (threes > 1) {
                        TRAINC_THREE_HALVES(even && threes == 2 && twos == 0)
                    }
                    if (threes > 2) {
                        TRAINC_THREE_HALVES(even && threes == 3 && twos == 0)
                    }
                    if (threes > 3) {
                        TRAINC_THREE_HALVES(even && threes == 4 && twos == 0)
                    }
                    if (threes > 4) {
                        TRAINC_THREE_HALVES(even && threes == 5)
                    }
                    if (threes > 5) {
                        TRAINC_THREE_HALVES(even && threes == 6)
                    }
                    if (threes > 6) {
                        TRAINC_THREE_HALVES(even && threes == 7)
                    }
                    if (threes > 7) {
                        TRAINC_THREE_HALVES(even)
                    }
                    if (twos > 0) {
                        TRAINC_TWO_HALVES(even && twos == 1)
                    }
                    if (twos > 1) {
                        TRAINC_TWO_HALVES(even)
                    }
                } while (--round != 0);
            }
            TRAINC_PAIRS(TRAINC_STORE_OF);
            row += panel_bytes;
            sums += 64;
        }
    }
    return bits;
}

/* The functions for stretches of so many halves, those for several rounds of these, and those for even
 * ones; of panels of 8 rows, and of six rows at most. */
#define TRAINC_PAIRS_OF_ROWS(kind, rows_in_all, halves)                                           \
    TRAINC_SHARED TRAINC_I8MM uint32x4_t trainc_##kind##_once##halves##_i8mm(const int8_t *rows,  \
        int32_t panels, int32_t panel_bytes, const int8_t *operand, const int32_t *places,        \
        int32_t eights, const struct trainc_stretch *s, int32_t count, int32_t rounds,            \
        int32_t *sums)                                                                            \
    {                                                                                             \
        (void)rounds;                                                                             \
        return trainc_pairs_i8mm(rows_in_all, rows, panels, panel_bytes, operand, places, eights, \
            0, s, count, 0, 1, halves, sums);                                                      \
    }                                                                                             \
    TRAINC_SHARED TRAINC_I8MM uint32x4_t trainc_##kind##_rounds##halves##_i8mm(                   \
        const int8_t *rows, int32_t panels, int32_t panel_bytes, const int8_t *operand,           \
        const int32_t *places, int32_t eights, const struct trainc_stretch *s, int32_t count,     \
        int32_t rounds, int32_t *sums)                                                            \
    {                                                                                             \
        return trainc_pairs_i8mm(rows_in_all, rows, panels, panel_bytes, operand, places, eights, \
            0, s, count, 0, rounds, halves, sums);                                                \
    }
#define TRAINC_EVEN_OF_ROWS(kind, rows_in_all, halves)                                            \
    TRAINC_SHARED TRAINC_I8MM uint32x4_t trainc_##kind##_even##halves##_i8mm(const int8_t *rows,  \
        int32_t panels, int32_t panel_bytes, const int8_t *operand, const int32_t *places,        \
        int32_t eights, int32_t count, int32_t step, int32_t *sums)                               \
    {                                                                                             \
        return trainc_pairs_i8mm(rows_in_all, rows, panels, panel_bytes, operand, places, eights, \
            1, NULL, count, step, 1, halves, sums);                                               \
    }
#define TRAINC_EVEN_OF(halves)               \
    TRAINC_EVEN_OF_ROWS(pairs, 8, halves)    \
    TRAINC_EVEN_OF_ROWS(six, 6, halves)
#define TRAINC_PAIRS_OF(halves)              \
    TRAINC_PAIRS_OF_ROWS(pairs, 8, halves)   \
    TRAINC_PAIRS_OF_ROWS(six, 6, halves)     \
    TRAINC_EVEN_OF(halves)

TRAINC_PAIRS_OF(1)
TRAINC_PAIRS_OF(2)
TRAINC_PAIRS_OF(3)
TRAINC_PAIRS_OF(4)
TRAINC_PAIRS_OF(5)
TRAINC_PAIRS_OF(6)
TRAINC_PAIRS_OF(7)
TRAINC_PAIRS_OF(8)
TRAINC_PAIRS_OF(9)
TRAINC_PAIRS_OF(10)
TRAINC_PAIRS_OF(11)
TRAINC_PAIRS_OF(12)
TRAINC_EVEN_OF(15)
TRAINC_EVEN_OF(18)
TRAINC_EVEN_OF(21)
TRAINC_EVEN_OF(24)

#undef TRAINC_PAIRS_OF
#undef TRAINC_EVEN_OF
#undef TRAINC_PAIRS_OF_ROWS
#undef TRAINC_EVEN_OF_ROWS
#undef TRAINC_PAIR_OF
#undef TRAINC_STORE_OF
#undef TRAINC_HALF_OF_ROWS
#undef TRAINC_LANES_OF
#undef TRAINC_EVEN_LANES
#undef TRAINC_LANES_OF_ONE
#undef TRAINC_LANES_OF_TWO
#undef TRAINC_LANES_OF_THREE
#undef TRAINC_ONE_HALF
#undef TRAINC_TWO_HALVES
#undef TRAINC_THREE_HALVES
#undef TRAINC_PAIRS
#undef TRAINC_FOUR_SUMS
#undef TRAINC_PAIR
#undef TRAINC_STORE_FOUR
#undef TRAINC_BEHIND

/* Where a lane's sum of a row is in a tile of these. */
#define TRAINC_AT_I8MM(lane, row) (16 * ((lane) / 2) + 4 * ((row) / 2) + 2 * ((lane) % 2) + (row) % 2)
TRAINC_STORES_IN_PLACE(i8mm, order, TRAINC_AT_I8MM)

/* The tile kernel for panels of rows: always this one. */
TRAINC_PART trainc_tile *trainc_tile_for_i8mm(const int8_t *rows, int32_t bytes)
{
    (void)rows;
    (void)bytes;
    return trainc_tile_i8mm;
}

TRAINC_ROWS_IN_PLACE(i8mm, halves)
TRAINC_PACKING(i8mm, halves, halves)

#endif
