/* Largest of windows of two rows by two columns that do not overlap, and their errors (trainc_neon.h),
 * of planes without a row or column beyond the windows: all pairs of rows lie one behind the other. */
#ifndef TRAINC_NEON_POOL_H
#define TRAINC_NEON_POOL_H

#include "trainc_neon.h"

/* How many of some pairs of rows can be read and written by vectors of 16 windows of which `columns` (16 at
 * most) are their own: what lies behind them is written by the pairs that follow. */
TRAINC_PART int32_t trainc_whole_pairs(int32_t pairs, int32_t columns)
{
    /* From a second row on 32 bytes, from results on 16. */
    const int32_t behind = trainc_maximum32((16 + columns - 1) / columns,
        (32 + 2 * columns + 4 * columns - 1) / (4 * columns));
    return trainc_maximum32(pairs - behind + 1, 0);
}

/* y[pair][column] of x[pair][2][2 columns]. */
TRAINC_SINGLE void trainc_pool_pairs(const int8_t *x, int32_t pairs, int32_t columns, int8_t *y)
{
    int32_t left = trainc_whole_pairs(pairs, columns);
    pairs -= left;
    for (; left > 0; left--) {
        const int8x16x2_t a = vld2q_s8(x), b = vld2q_s8(x + 2 * columns);
        vst1q_s8(y, vmaxq_s8(vmaxq_s8(a.val[0], a.val[1]), vmaxq_s8(b.val[0], b.val[1])));
        x += 4 * columns;
        y += columns;
    }
    for (; pairs > 0; pairs--) {
        for (int32_t c = 0; c < columns; c++) {
            const int8_t *const top = x + 2 * c, *const bottom = top + 2 * columns;
            y[c] = (int8_t)trainc_maximum32(trainc_maximum32(top[0], top[1]),
                trainc_maximum32(bottom[0], bottom[1]));
        }
        x += 4 * columns;
        y += columns;
    }
}

/* dx[pair][2][2 columns]: a window's error, -127 at least, where its first largest element is, zeros beside
 * it. */
TRAINC_SINGLE void trainc_pool_errors(const int8_t *x, const int8_t *dy, int32_t pairs,
    int32_t columns, int8_t *dx)
{
    int32_t left = trainc_whole_pairs(pairs, columns);
    pairs -= left;
    for (; left > 0; left--) {
        const int8x16x2_t a = vld2q_s8(x), b = vld2q_s8(x + 2 * columns);
        const int8x16_t error = vmaxq_s8(vld1q_s8(dy), vdupq_n_s8(-127));
        const int8x16_t most =
            vmaxq_s8(vmaxq_s8(a.val[0], a.val[1]), vmaxq_s8(b.val[0], b.val[1]));
        /* Whether it is the first, one of the first two, or of the first three. */
        const int8x16_t one = vreinterpretq_s8_u8(vceqq_s8(a.val[0], most));
        const int8x16_t two = vorrq_s8(one, vreinterpretq_s8_u8(vceqq_s8(a.val[1], most)));
        const int8x16_t three = vorrq_s8(two, vreinterpretq_s8_u8(vceqq_s8(b.val[0], most)));
        const int8x16x2_t top = {{vandq_s8(error, one), vandq_s8(error, vbicq_s8(two, one))}};
        const int8x16x2_t bottom = {{vandq_s8(error, vbicq_s8(three, two)), vbicq_s8(error, three)}};
        vst2q_s8(dx, top);
        vst2q_s8(dx + 2 * columns, bottom);
        x += 4 * columns;
        dy += columns;
        dx += 4 * columns;
    }
    for (; pairs > 0; pairs--) {
        for (int32_t c = 0; c < columns; c++) {
            const int32_t places[4] = {2 * c, 2 * c + 1, 2 * (columns + c), 2 * (columns + c) + 1};
            int32_t winner = 0;
            for (int32_t i = 1; i < 4; i++) {
                winner = x[places[i]] > x[places[winner]] ? i : winner;
            }
            for (int32_t i = 0; i < 4; i++) {
                dx[places[i]] = i == winner ? (int8_t)trainc_maximum32(dy[c], -127) : 0;
            }
        }
        x += 4 * columns;
        dy += columns;
        dx += 4 * columns;
    }
}

#endif
