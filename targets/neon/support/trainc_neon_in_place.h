/* Products whose lanes are read where they lie, for processors with sdot or smmla (trainc_neon.h).
 *
 * Rows are packed into panels of 8 as for other products. A lane is a place of the operand from
 * which a stretch of k lies together: the channels of a row of a window where channels come last,
 * or the pixels of a row of a plane. Eight lanes are eight places; all read the same stretches. */
#ifndef TRAINC_NEON_IN_PLACE_H
#define TRAINC_NEON_IN_PLACE_H

#include "trainc_neon.h"
#include "trainc_neon_packing.h"
#include "trainc_neon_rounding.h"

/* Stretches of k, all of them some blocks of 16 and then some words of 4: where each starts in a
 * panel of rows and, from a lane's place on, in the operand. Outer times inner of them by steps. */
struct trainc_stretch {
    int32_t rows, lanes;
};

TRAINC_SHARED void trainc_stretches(struct trainc_stretch *s, int32_t outer, int32_t outer_rows,
    int32_t outer_lanes, int32_t inner, int32_t inner_rows, int32_t inner_lanes)
{
    for (int32_t i = 0; i < outer; i++) {
        for (int32_t j = 0; j < inner; j++) {
            s->rows = i * outer_rows + j * inner_rows;
            s->lanes = i * outer_lanes + j * inner_lanes;
            s++;
        }
    }
}

/* A level's tile kernel for stretches that end with so many words. */
#define TRAINC_TILES_IN_PLACE(level, ATTRIBUTE, words)                                            \
    TRAINC_SHARED ATTRIBUTE uint32x4_t trainc_tiles_words##words##_##level(const int8_t *rows,    \
        int32_t panels, int32_t panel_bytes, const int8_t *operand, const int32_t *places,        \
        const struct trainc_stretch *s, int32_t count, int32_t blocks, int32_t *sums)             \
    {                                                                                             \
        return trainc_tiles_##level(rows, panels, panel_bytes, operand, places, s, count, blocks, \
            words, sums);                                                                         \
    }

/* places[row * columns + column] = first + row * down + column * right. */
TRAINC_SHARED void trainc_places(int32_t *places, int32_t rows, int32_t columns, int32_t first,
    int32_t down, int32_t right)
{
    for (int32_t row = 0; row < rows; row++) {
        int32_t place = first + row * down;
        for (int32_t column = 0; column < columns; column++) {
            *places++ = place;
            place += right;
        }
    }
}

/* The first of panel p's 8 places of so many (at least 8): the last panel overlaps the one before. */
TRAINC_PART int32_t trainc_first_place(int32_t p, int32_t places)
{
    return trainc_minimum32(8 * p, places - 8);
}

/* Rows of windows and of the operand: row i of the taps of a lane in row r of so many columns reads
 * row start + r down + i tap_down, or the border (tap_down is 1 or more: where taps run backwards,
 * rows are counted from the last). */
struct trainc_rows_met {
    int32_t columns, start, down, tap_down, taps, rows;
};

/* Rows of taps: the first, and how many from there on. */
struct trainc_met {
    int32_t first, count;
};

/* Those that any of the 8 lanes from a place on meets. */
TRAINC_PART struct trainc_met trainc_meet(const struct trainc_rows_met *w, int32_t place)
{
    const int32_t a = w->start + place / w->columns * w->down;
    const int32_t b = w->start + (place + 7) / w->columns * w->down;
    const int32_t least = trainc_minimum32(a, b), most = trainc_maximum32(a, b);
    const int32_t behind = least < w->rows ? (w->rows - 1 - least) / w->tap_down + 1 : 0;
    struct trainc_met met;
    met.first = most < 0 ? (-most + w->tap_down - 1) / w->tap_down : 0;
    met.count = trainc_maximum32(trainc_minimum32(behind, w->taps) - met.first, 0);
    return met;
}

/* Channels come last: dst[places[p] + c] = src[c][p] of an image's planes. Behind the last channel
 * of a pixel up to 15 bytes become zero before the next pixels are written: places rise with p, or
 * fall where columns are mirrored and pixels are written from the last to the first. */
TRAINC_SHARED void trainc_pixels_at(const int8_t *src, int32_t channels, int32_t plane,
    const int32_t *places, int32_t mirrored, int8_t *dst)
{
    int8_t from[256], tile[256];
    trainc_zero(from, 256);
    const int32_t pixels = trainc_minimum32(plane, 16), step = mirrored ? -1 : 1;
    for (int32_t first = 0; first < plane; first += 16) {
        const int32_t begin = trainc_minimum32(first, plane - pixels);
        const int32_t p = mirrored ? plane - pixels - begin : begin;
        for (int32_t c = (channels - 1) / 16 * 16; c >= 0; c -= 16) {
            const int32_t count = trainc_minimum32(channels - c, 16);
            const int8_t *const at = src + c * plane + p;
            if (count == 16 && pixels == 16) {
                trainc_transpose16(at, plane, tile);
            } else {
                for (int32_t i = 0; i < 16; i++) {
                    if (i >= count) {
                        vst1q_s8(from + 16 * i, vdupq_n_s8(0));
                    } else if (pixels == 16) {
                        vst1q_s8(from + 16 * i, vld1q_s8(at + i * plane));
                    } else {
                        for (int32_t j = 0; j < pixels; j++) {
                            from[16 * i + j] = at[i * plane + j];
                        }
                    }
                }
                trainc_transpose16(from, 16, tile);
            }
            int8_t *const to = dst + c;
            const int32_t *place = mirrored ? places + p + pixels - 1 : places + p;
            const int8_t *pixel = mirrored ? tile + 16 * (pixels - 1) : tile;
            for (int32_t i = 0; i < pixels; i++) {
                vst1q_s8(to + *place, vld1q_s8(pixel));
                place += step;
                pixel += 16 * step;
            }
        }
    }
}

/* A plane with a border, apart by remainders of its rows and columns: place (h, w) is at row
 * (h + top) / down and column (w + left) / right of the part ((h + top) % down, (w + left) % right),
 * if the part is there. Parts lie one behind the other, high times wide of them. */
struct trainc_border {
    int32_t height, width;
    int32_t top, left;
    int32_t down, right;
    int32_t high, wide;
    int32_t rows, columns;
};

/* Rows of so many neighbours, by the longest moves that fit; the last move overlaps the one before. */
TRAINC_SHARED void trainc_copy_rows(const int8_t *x, int32_t x_step, int8_t *y, int32_t y_step,
    int32_t rows, int32_t count)
{
    if (count == 32) {
        for (; rows > 0; rows--, x += x_step, y += y_step) {
            const int8x16_t low = vld1q_s8(x), high = vld1q_s8(x + 16);
            vst1q_s8(y, low);
            vst1q_s8(y + 16, high);
        }
    } else if (count >= 16) {
        const ptrdiff_t last = count - 16;
        for (; rows > 0; rows--, x += x_step, y += y_step) {
            for (ptrdiff_t i = 0; i < last; i += 16) {
                vst1q_s8(y + i, vld1q_s8(x + i));
            }
            vst1q_s8(y + last, vld1q_s8(x + last));
        }
    } else if (count >= 8) {
        const ptrdiff_t last = count - 8;
        for (; rows > 0; rows--, x += x_step, y += y_step) {
            const int8x8_t low = vld1_s8(x), high = vld1_s8(x + last);
            vst1_s8(y, low);
            vst1_s8(y + last, high);
        }
    } else if (count >= 4) {
        const ptrdiff_t last = count - 4;
        for (; rows > 0; rows--, x += x_step, y += y_step) {
            uint32_t low, high;
            __builtin_memcpy(&low, x, 4);
            __builtin_memcpy(&high, x + last, 4);
            __builtin_memcpy(y, &low, 4);
            __builtin_memcpy(y + last, &high, 4);
        }
    } else {
        for (; rows > 0; rows--, x += x_step, y += y_step) {
            for (int32_t i = 0; i < count; i++) {
                y[i] = x[i];
            }
        }
    }
}

/* The same of every other place of a row, of which the first is `odd` places behind the pairs' first;
 * `whole` says whether the last pair has both places. */
TRAINC_PART void trainc_copy_pairs(const int8_t *x, int32_t x_step, int8_t *y, int32_t y_step,
    int32_t rows, int32_t count, int32_t odd, int32_t whole)
{
    const int32_t pairs = whole ? count : count - 1;
    for (; rows > 0; rows--, x += x_step, y += y_step) {
        int32_t i = 0;
        for (; pairs >= 8 && i < pairs; i += 8) {
            i = trainc_minimum32(i, pairs - 8);
            const int8x8x2_t both = vld2_s8(x - odd + 2 * i);
            vst1_s8(y + i, odd != 0 ? both.val[1] : both.val[0]);
        }
        for (; i < count; i++) {
            y[i] = x[2 * i];
        }
    }
}

/* The first row of a part that has one of the plane, and behind the last. */
TRAINC_PART int32_t trainc_first_row(const struct trainc_border *b, int32_t upper)
{
    return b->top > upper ? (b->top - upper + b->down - 1) / b->down : 0;
}

TRAINC_PART int32_t trainc_last_row(const struct trainc_border *b, int32_t upper)
{
    return trainc_minimum32((b->height + b->top - upper + b->down - 1) / b->down, b->rows);
}

/* Copies a plane; zeros are there before. */
TRAINC_SHARED void trainc_bordered(const struct trainc_border *border, const int8_t *src, int8_t *dst)
{
    /* A copy, which stores of bytes cannot change. */
    const struct trainc_border own = *border, *const b = &own;
    for (int32_t part = 0; part < b->high * b->wide; part++) {
        const int32_t upper = part / b->wide, column = part % b->wide;
        /* The first column of the part, and where it comes from. */
        const int32_t to = b->left > column ? (b->left - column + b->right - 1) / b->right : 0;
        const int32_t from = to * b->right + column - b->left;
        const int32_t all = (b->width - from + b->right - 1) / b->right;
        const int32_t count = trainc_minimum32(all, b->columns - to);
        const int32_t first = trainc_first_row(b, upper), last = trainc_last_row(b, upper);
        const int32_t x_step = b->down * b->width;
        const int8_t *x = src + (first * b->down + upper - b->top) * b->width + from;
        int8_t *y = dst + (part * b->rows + first) * b->columns + to;
        if (b->right == 1) {
            trainc_copy_rows(x, x_step, y, b->columns, last - first, count);
        } else if (b->right == 2) {
            const int32_t odd = from & 1;
            trainc_copy_pairs(x, x_step, y, b->columns, last - first, count, odd,
                from - odd + 2 * count <= b->width);
        } else {
            for (int32_t r = first; r < last; r++) {
                for (int32_t i = 0; i < count; i++) {
                    y[i] = x[i * b->right];
                }
                x += x_step;
                y += b->columns;
            }
        }
    }
}

/* Where the weights of a panel's rows are: row r's of channel c and tap (i, j) are at
 * r row + i high_step + j wide_step + c channel. */
struct trainc_weights {
    int32_t high, high_step;
    int32_t wide, wide_step;
    int32_t channels, channel;
    int32_t row;
    /* Bytes of a tap's channels, of a row of taps, and of k that lie together in a block. */
    int32_t tap_bytes, stretch_bytes, unit;
};

/* Where k is in a row of a panel. */
TRAINC_PART int32_t trainc_of_unit(int32_t k, int32_t unit)
{
    return 8 * (k & -unit) + (k & (unit - 1));
}

/* Packs up to 8 rows: [high][stretch_bytes / unit][8 rows][unit], zeros where no weight is. */
TRAINC_SHARED void trainc_pack_weights(const struct trainc_weights *s, const int8_t *w,
    int32_t rows, int8_t *panel)
{
    trainc_zero(panel, 8 * s->high * s->stretch_bytes);
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t i = 0; i < s->high; i++) {
            int8_t *const to = panel + 8 * i * s->stretch_bytes + r * s->unit;
            for (int32_t j = 0; j < s->wide; j++) {
                const int8_t *from = w + r * s->row + i * s->high_step + j * s->wide_step;
                int32_t k = j * s->tap_bytes, c = 0;
                if (s->channel == 1 && (k & 3) == 0) {
                    for (; c + 4 <= s->channels; c += 4) {
                        const int8x8_t four = vreinterpret_s8_s32(
                            vld1_dup_s32((const int32_t *)(const void *)from));
                        vst1_lane_s32((int32_t *)(void *)(to + trainc_of_unit(k, s->unit)),
                            vreinterpret_s32_s8(four), 0);
                        from += 4;
                        k += 4;
                    }
                }
                for (; c < s->channels; c++) {
                    to[trainc_of_unit(k, s->unit)] = *from;
                    from += s->channel;
                    k++;
                }
            }
        }
    }
}

/* The packing of weights with whole blocks of channels, by the order of a level's panels. */
#define TRAINC_ROWS_IN_PLACE(level, order)                                                        \
    TRAINC_SHARED void trainc_taps_in_place_##level(const int8_t *src, int32_t channels,          \
        int32_t taps, int8_t *panel, int32_t row, int8_t *temporary)                              \
    {                                                                                             \
        trainc_row_of_taps(src, channels, taps, panel, row, temporary, trainc_put_##order);       \
    }                                                                                             \
    TRAINC_SHARED void trainc_errors_in_place_##level(const int8_t *w, int32_t outputs,           \
        int32_t channels, int32_t taps, int32_t w_stride, int8_t *panels, int32_t panel_bytes,    \
        int8_t *temporary)                                                                        \
    {                                                                                             \
        trainc_rows_of_errors(w, outputs, channels, taps, w_stride, panels, panel_bytes,          \
            temporary, trainc_put_##order);                                                       \
    }

/* Bytes of the lanes 0 and 4, 1 and 5, 2 and 6, 3 and 7 of a tile, [8 rows][2] each, as [8 rows][8
 * lanes]. */
TRAINC_PART int8x16x4_t trainc_lanes_together(int8x16_t a, int8x16_t b, int8x16_t c, int8x16_t d)
{
    const int8x16_t even = vzip1q_s8(a, c), odd = vzip1q_s8(b, d);
    const int8x16_t even4 = vzip2q_s8(a, c), odd4 = vzip2q_s8(b, d);
    const int8x16x4_t rows = {{vzip1q_s8(even, odd), vzip2q_s8(even, odd), vzip1q_s8(even4, odd4),
        vzip2q_s8(even4, odd4)}};
    return rows;
}

/* The results of the lanes at a and at b, [8 rows][2]. */
TRAINC_PART int8x16_t trainc_two_by_sums(const int32_t *a, const int32_t *b,
    const struct trainc_rounding *rounding)
{
    const int16x8_t a0 = vreinterpretq_s16_s32(trainc_aligned(vld1q_s32(a), rounding));
    const int16x8_t a4 = vreinterpretq_s16_s32(trainc_aligned(vld1q_s32(a + 4), rounding));
    const int16x8_t b0 = vreinterpretq_s16_s32(trainc_aligned(vld1q_s32(b), rounding));
    const int16x8_t b4 = vreinterpretq_s16_s32(trainc_aligned(vld1q_s32(b + 4), rounding));
    return trainc_sixteen(vtrn2q_s16(a0, b0), vtrn2q_s16(a4, b4), rounding);
}

TRAINC_PART int8x16_t trainc_two_by_halves(const int32_t *a, const int32_t *b,
    const struct trainc_rounding *rounding)
{
    const int16x8_t a0 = vreinterpretq_s16_s32(vld1q_s32(a));
    const int16x8_t a4 = vreinterpretq_s16_s32(vld1q_s32(a + 4));
    const int16x8_t b0 = vreinterpretq_s16_s32(vld1q_s32(b));
    const int16x8_t b4 = vreinterpretq_s16_s32(vld1q_s32(b + 4));
    return trainc_sixteen(trainc_aligned16(vtrn1q_s16(a0, b0), rounding),
        trainc_aligned16(vtrn1q_s16(a4, b4), rounding), rounding);
}

TRAINC_PART int8x16_t trainc_two_by_parts(const int32_t *a, const int32_t *b,
    const struct trainc_rounding *rounding)
{
    const int32x4_t a0 = vld1q_s32(a), a4 = vld1q_s32(a + 4);
    const int32x4_t b0 = vld1q_s32(b), b4 = vld1q_s32(b + 4);
    const uint16x8_t ma0 = trainc_bordered_magnitudes(a0, rounding);
    const uint16x8_t ma4 = trainc_bordered_magnitudes(a4, rounding);
    const uint16x8_t mb0 = trainc_bordered_magnitudes(b0, rounding);
    const uint16x8_t mb4 = trainc_bordered_magnitudes(b4, rounding);
    const int16x8_t upper0 = vtrn2q_s16(vreinterpretq_s16_s32(a0), vreinterpretq_s16_s32(b0));
    const int16x8_t upper4 = vtrn2q_s16(vreinterpretq_s16_s32(a4), vreinterpretq_s16_s32(b4));
    return trainc_with_signs(
        trainc_by_parts(vtrn2q_u16(ma0, mb0), vtrn1q_u16(ma0, mb0), rounding),
        trainc_by_parts(vtrn2q_u16(ma4, mb4), vtrn1q_u16(ma4, mb4), rounding),
        vuzp2q_s8(vreinterpretq_s8_s16(upper0), vreinterpretq_s8_s16(upper4)), rounding);
}

TRAINC_PART int8x16_t trainc_two_half_away(const int32_t *a, const int32_t *b,
    const struct trainc_rounding *rounding)
{
    const int8x16_t two = trainc_rounded16(a, b, rounding, trainc_half_away);
    return vzip1q_s8(two, vextq_s8(two, two, 8));
}

TRAINC_PART int8x16_t trainc_two_pseudo_stochastic(const int32_t *a, const int32_t *b,
    const struct trainc_rounding *rounding)
{
    const int8x16_t two = trainc_rounded16(a, b, rounding, trainc_pseudo_stochastic);
    return vzip1q_s8(two, vextq_s8(two, two, 8));
}

typedef int8x16_t trainc_two_lanes(const int32_t *a, const int32_t *b,
    const struct trainc_rounding *rounding);

/* The rounded sums of a tile, [8 lanes][8 rows], as bytes [8 rows][8 lanes]. */
TRAINC_PART int8x16x4_t trainc_rounded_tile(const int32_t *sums,
    const struct trainc_rounding *rounding, trainc_two_lanes *two)
{
    const int8x16_t a = two(sums, sums + 32, rounding), b = two(sums + 8, sums + 40, rounding);
    const int8x16_t c = two(sums + 16, sums + 48, rounding);
    return trainc_lanes_together(a, b, c, two(sums + 24, sums + 56, rounding));
}

/* Calls `store` of arguments and of what rounds two lanes half away from zero. Each has loops of its
 * own, for compilers would do parts of all before they ask which it is. */
#define TRAINC_TWO_HALF_AWAY(rounding, store, ...)          \
    do {                                                    \
        if ((rounding)->way == TRAINC_BY_SUMS) {            \
            store(__VA_ARGS__, trainc_two_by_sums);         \
        } else if ((rounding)->way == TRAINC_BY_HALVES) {   \
            store(__VA_ARGS__, trainc_two_by_halves);       \
        } else {                                            \
            store(__VA_ARGS__, trainc_two_half_away);       \
        }                                                   \
    } while (0)

/* The same pseudo-stochastically. */
#define TRAINC_TWO_PSEUDO_STOCHASTIC(rounding, store, ...)  \
    do {                                                    \
        if ((rounding)->by_parts != 0) {                    \
            store(__VA_ARGS__, trainc_two_by_parts);        \
        } else {                                            \
            store(__VA_ARGS__, trainc_two_pseudo_stochastic); \
        }                                                   \
    } while (0)

/* Stores tiles of rows panel by panel: row r's 8 lanes at y + r row_stride. */
TRAINC_PART void trainc_store_places(const int32_t *sums, int32_t rows, int32_t row_stride,
    int8_t *y, const struct trainc_rounding *rounding, trainc_two_lanes *two)
{
    /* A copy, which stores of bytes cannot change, stays in registers. */
    const struct trainc_rounding own = *rounding;
    for (int32_t r = 0; r < rows; r += 8) {
        const int8x16x4_t q = trainc_rounded_tile(sums, &own, two);
        const int32_t left = rows - r;
        sums += 64;
        if (left >= 8) {
            for (int32_t i = 0; i < 4; i++) {
                vst1_s8(y, vget_low_s8(q.val[i]));
                y += row_stride;
                vst1_s8(y, vget_high_s8(q.val[i]));
                y += row_stride;
            }
        } else {
            for (int32_t i = 0; i < left; i++) {
                const int8x16_t pair = q.val[i / 2];
                vst1_s8(y, i % 2 == 0 ? vget_low_s8(pair) : vget_high_s8(pair));
                y += row_stride;
            }
        }
    }
}

TRAINC_SHARED void trainc_store_places_half_away(const int32_t *sums, int32_t rows,
    int32_t row_stride, int8_t *y, const struct trainc_rounding *rounding)
{
    TRAINC_TWO_HALF_AWAY(rounding, trainc_store_places, sums, rows, row_stride, y, rounding);
}

TRAINC_SHARED void trainc_store_places_pseudo_stochastic(const int32_t *sums, int32_t rows,
    int32_t row_stride, int8_t *y, const struct trainc_rounding *rounding)
{
    TRAINC_TWO_PSEUDO_STOCHASTIC(rounding, trainc_store_places, sums, rows, row_stride, y, rounding);
}

/* The same for sums as they are. */
TRAINC_SHARED void trainc_store_places_sums(const int32_t *sums, int32_t rows, int32_t row_stride,
    int32_t *y)
{
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t l = 0; l < 8; l++) {
            y[r * row_stride + l] = sums[64 * (r / 8) + 8 * l + r % 8];
        }
    }
}

/* The same for lanes whose results are apart: lane l's of row r at y[results[l] + r row_stride]. */
TRAINC_PART void trainc_store_apart(const int32_t *sums, int32_t rows, int32_t row_stride,
    const int32_t *results, int8_t *y, const struct trainc_rounding *rounding,
    trainc_two_lanes *two)
{
    const struct trainc_rounding own = *rounding;
    int8_t *y0 = y + results[0], *y1 = y + results[1], *y2 = y + results[2], *y3 = y + results[3];
    int8_t *y4 = y + results[4], *y5 = y + results[5], *y6 = y + results[6], *y7 = y + results[7];
    for (int32_t r = 0; r < rows; r += 8) {
        const int8x16x4_t q = trainc_rounded_tile(sums, &own, two);
        const int32_t left = trainc_minimum32(rows - r, 8);
        sums += 64;
        for (int32_t i = 0; i < left; i++) {
            const int8x16_t pair = q.val[i / 2];
            const int8x8_t v = i % 2 == 0 ? vget_low_s8(pair) : vget_high_s8(pair);
#define TRAINC_LANE(l)       \
    vst1_lane_s8(y##l, v, l); \
    y##l += row_stride
            TRAINC_LANE(0);
            TRAINC_LANE(1);
            TRAINC_LANE(2);
            TRAINC_LANE(3);
            TRAINC_LANE(4);
            TRAINC_LANE(5);
            TRAINC_LANE(6);
            TRAINC_LANE(7);
#undef TRAINC_LANE
        }
    }
}

TRAINC_SHARED void trainc_store_apart_half_away(const int32_t *sums, int32_t rows,
    int32_t row_stride, const int32_t *results, int8_t *y, const struct trainc_rounding *rounding)
{
    TRAINC_TWO_HALF_AWAY(rounding, trainc_store_apart, sums, rows, row_stride, results, y, rounding);
}

TRAINC_SHARED void trainc_store_apart_pseudo_stochastic(const int32_t *sums, int32_t rows,
    int32_t row_stride, const int32_t *results, int8_t *y, const struct trainc_rounding *rounding)
{
    TRAINC_TWO_PSEUDO_STOCHASTIC(rounding, trainc_store_apart, sums, rows, row_stride, results, y, rounding);
}

TRAINC_SHARED void trainc_store_apart_sums(const int32_t *sums, int32_t rows, int32_t row_stride,
    const int32_t *results, int32_t *y)
{
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t l = 0; l < 8; l++) {
            y[results[l] + r * row_stride] = sums[64 * (r / 8) + 8 * l + r % 8];
        }
    }
}

#endif
