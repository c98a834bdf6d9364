/* Weight gradients by copies of the operand, one for each column of taps, for processors with sdot or
 * smmla (trainc_neon.h).
 *
 * In a copy, what a column of taps meets is where the result's errors are. Rows of taps start further
 * down in it, whole rows. A panel of 8 channels is [rows][units of 8 columns][8 channels][8], k in
 * halves, or [rows][units of 4 columns][8 channels][4], k in quarters. */
#ifndef TRAINC_NEON_SHIFTED_H
#define TRAINC_NEON_SHIFTED_H

#include "trainc_neon_in_place.h"

/* Rows and columns of a copy: row r is the plane's row top + r down, column c its column
 * left + c right, or zeros where that is beyond a border. */
struct trainc_shifted {
    int32_t height, width;
    int32_t top, down;
    int32_t right;
    int32_t rows, units;
};

/* Up to 16 columns: `span` bytes from x on, those that `places` name if they are not as they lie. */
TRAINC_PART int8x16_t trainc_columns_of(const int8_t *x, int32_t span, int shifted, uint8x16_t places)
{
    if (span == 32) {
        return vqtbl2q_s8(vld1q_s8_x2(x), places);
    }
    const int8x16_t v = span == 16 ? vld1q_s8(x) : vcombine_s8(vld1_s8(x), vdup_n_s8(0));
    return shifted ? vqtbl1q_s8(v, places) : v;
}

/* The orders of k. */
enum trainc_order { TRAINC_HALVES, TRAINC_QUARTERS };

/* Stores one or two units of 8 channels' columns. */
TRAINC_PART void trainc_put_units(const int8x16_t *v, int32_t units, enum trainc_order order,
    int8_t *to)
{
    int8x16x4_t low, high;
    if (order == TRAINC_HALVES) {
        for (int32_t i = 0; i < 4; i++) {
            const int64x2_t a = vreinterpretq_s64_s8(v[2 * i]);
            const int64x2_t b = vreinterpretq_s64_s8(v[2 * i + 1]);
            low.val[i] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
            high.val[i] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
        }
    } else {
        for (int32_t i = 0; i < 2; i++) {
            const int32x4x2_t even = vzipq_s32(vreinterpretq_s32_s8(v[4 * i]),
                vreinterpretq_s32_s8(v[4 * i + 2]));
            const int32x4x2_t odd = vzipq_s32(vreinterpretq_s32_s8(v[4 * i + 1]),
                vreinterpretq_s32_s8(v[4 * i + 3]));
            const int32x4x2_t first = vzipq_s32(even.val[0], odd.val[0]);
            const int32x4x2_t second = vzipq_s32(even.val[1], odd.val[1]);
            low.val[i] = vreinterpretq_s8_s32(first.val[0]);
            low.val[2 + i] = vreinterpretq_s8_s32(first.val[1]);
            high.val[i] = vreinterpretq_s8_s32(second.val[0]);
            high.val[2 + i] = vreinterpretq_s8_s32(second.val[1]);
        }
    }
    vst1q_s8_x4(to, low);
    if (units == 2) {
        vst1q_s8_x4(to + 64, high);
    }
}

/* The rows of one or two units from x on: of 8 planes, so many bytes apart, from row to row `down`. */
TRAINC_PART void trainc_shifted_rows(const int8_t *x, int32_t plane, int32_t down, int32_t rows,
    int32_t units, int32_t span, int shifted, uint8x16_t places, enum trainc_order order,
    int8_t *to, int32_t row_bytes)
{
    const int8_t *const x0 = x, *const x1 = x0 + plane, *const x2 = x1 + plane;
    const int8_t *const x3 = x2 + plane, *const x4 = x3 + plane, *const x5 = x4 + plane;
    const int8_t *const x6 = x5 + plane, *const x7 = x6 + plane;
    ptrdiff_t k = 0;
    for (; rows > 0; rows--) {
#define TRAINC_CHANNEL(n) trainc_columns_of(x##n + k, span, shifted, places)
        const int8x16_t v[8] = {TRAINC_CHANNEL(0), TRAINC_CHANNEL(1), TRAINC_CHANNEL(2),
            TRAINC_CHANNEL(3), TRAINC_CHANNEL(4), TRAINC_CHANNEL(5), TRAINC_CHANNEL(6),
            TRAINC_CHANNEL(7)};
#undef TRAINC_CHANNEL
        trainc_put_units(v, units, order, to);
        k += down;
        to += row_bytes;
    }
}

/* Packs a copy of 8 planes whose first column is at `left` (which may be beyond the border). Planes are
 * as wide as two units' columns, or one's where the copy has no more. */
TRAINC_PART void trainc_shifted_panel(const struct trainc_shifted *shifted, int32_t left,
    const int8_t *planes, int8_t *panel, enum trainc_order order)
{
    /* A copy, which stores of bytes cannot change. */
    const struct trainc_shifted own = *shifted, *const s = &own;
    const int32_t row_bytes = 64 * s->units, plane = s->height * s->width;
    int32_t first = 0, end = s->rows;
    while (first < end && s->top + first * s->down < 0) {
        first++;
    }
    while (end > first && s->top + (end - 1) * s->down >= s->height) {
        end--;
    }
    trainc_zero(panel, first * row_bytes);
    trainc_zero(panel + end * row_bytes, (s->rows - end) * row_bytes);
    const int8_t *const row = planes + (s->top + first * s->down) * s->width;
    const int32_t down = s->down * s->width, rows = end - first;
    for (int32_t unit = 0; unit < s->units; unit += 2) {
        const int32_t units = trainc_minimum32(s->units - unit, 2), span = 8 * units * s->right;
        const int32_t at = left + 8 * unit * s->right;
        /* What is read is of the row; where columns begin from there. */
        const int32_t from = trainc_maximum32(trainc_minimum32(at, s->width - span), 0);
        uint8_t named[16];
        for (int32_t i = 0; i < 16; i++) {
            const int32_t place = at - from + i * s->right;
            named[i] = (uint8_t)(i < 8 * units && place >= 0 && place < span ? place : 255);
        }
        const uint8x16_t places = vld1q_u8(named);
        int8_t *const to = panel + first * row_bytes + 64 * unit;
        const int8_t *const x = row + from;
        if (span == 32) {
            trainc_shifted_rows(x, plane, down, rows, 2, 32, 1, places, order, to,
                row_bytes);
        } else if (units == 2) {
            if (at == from) {
                trainc_shifted_rows(x, plane, down, rows, 2, 16, 0, places, order, to,
                row_bytes);
            } else {
                trainc_shifted_rows(x, plane, down, rows, 2, 16, 1, places, order, to,
                row_bytes);
            }
        } else if (span == 16) {
            trainc_shifted_rows(x, plane, down, rows, 1, 16, 1, places, order, to,
                row_bytes);
        } else if (at == from) {
            trainc_shifted_rows(x, plane, down, rows, 1, 8, 0, places, order, to,
                row_bytes);
        } else {
            trainc_shifted_rows(x, plane, down, rows, 1, 8, 1, places, order, to,
                row_bytes);
        }
    }
}

TRAINC_SHARED void trainc_shifted_panel_halves(const struct trainc_shifted *shifted, int32_t left,
    const int8_t *planes, int8_t *panel)
{
    trainc_shifted_panel(shifted, left, planes, panel, TRAINC_HALVES);
}

TRAINC_SHARED void trainc_shifted_panel_quarters(const struct trainc_shifted *shifted,
    int32_t left, const int8_t *planes, int8_t *panel)
{
    trainc_shifted_panel(shifted, left, planes, panel, TRAINC_QUARTERS);
}

#endif
