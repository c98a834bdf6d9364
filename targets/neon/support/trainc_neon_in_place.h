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

/* A level's tile kernel (tiles, or pairs) for stretches that end with so many words. */
#define TRAINC_TILES_IN_PLACE(level, ATTRIBUTE, kind, words)                                      \
    TRAINC_SHARED ATTRIBUTE uint32x4_t trainc_##kind##_words##words##_##level(const int8_t *rows, \
        int32_t panels, int32_t panel_bytes, const int8_t *operand, const int32_t *places,        \
        const struct trainc_stretch *s, int32_t count, int32_t blocks, int32_t *sums)             \
    {                                                                                             \
        return trainc_##kind##_##level(rows, panels, panel_bytes, operand, places, s, count,      \
            blocks, words, sums);                                                                 \
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

/* Stores 16 pixels of 16 channels at their places, or from the last to the first. */
TRAINC_PART void trainc_put_pixels(const int8_t *tile, const int32_t *places, int8_t *to,
    int32_t mirrored)
{
    /* One register, from which places are as far as they are. */
    TRAINC_OPAQUE(places);
    for (int32_t i = 0; i < 16; i++) {
        const int32_t pixel = mirrored ? 15 - i : i;
        vst1q_s8(to + places[pixel], vld1q_s8(tile + 16 * pixel));
    }
}

/* Stores 16 pixels of 16 channels behind each other, the last one first. */
TRAINC_PART void trainc_put_backwards(const int8_t *tile, int8_t *to)
{
    for (int32_t i = 0; i < 16; i += 4) {
        const int8x16_t a = vld1q_s8(tile + 240 - 16 * i), b = vld1q_s8(tile + 224 - 16 * i);
        const int8x16_t c = vld1q_s8(tile + 208 - 16 * i), d = vld1q_s8(tile + 192 - 16 * i);
        vst1q_s8(to + 16 * i, a);
        vst1q_s8(to + 16 * i + 16, b);
        vst1q_s8(to + 16 * i + 32, c);
        vst1q_s8(to + 16 * i + 48, d);
    }
}

/* Stores four pixels of 16 channels, so far apart, and returns where the next one is: each by one instruction,
 * which GCC does not find for a distance in a register. */
TRAINC_PART int8_t *trainc_put_four(int32x4x4_t v, int8_t *to, ptrdiff_t apart)
{
#if defined(__GNUC__) && !defined(__clang__)
    __asm__ volatile("st4 {%S1.s - %V1.s}[0], [%0], %2\n\tst4 {%S1.s - %V1.s}[1], [%0], %2\n\t"
        "st4 {%S1.s - %V1.s}[2], [%0], %2\n\tst4 {%S1.s - %V1.s}[3], [%0], %2"
        : "+r"(to) : "w"(v), "r"(apart) : "memory");
#else
    vst4q_lane_s32((int32_t *)(void *)to, v, 0);
    to += apart;
    vst4q_lane_s32((int32_t *)(void *)to, v, 1);
    to += apart;
    vst4q_lane_s32((int32_t *)(void *)to, v, 2);
    to += apart;
    vst4q_lane_s32((int32_t *)(void *)to, v, 3);
    to += apart;
#endif
    return to;
}

/* As trainc_transpose16, in line where it is repeated, of pixels so far apart. */
TRAINC_PART void trainc_transposed(const int8_t *src, ptrdiff_t src_stride, int8_t *dst,
    ptrdiff_t apart)
{
    int32_t half[64];
    const ptrdiff_t two = 2 * src_stride, three = 3 * src_stride;
    for (int32_t i = 0; i < 4; i++) {
        const int8x16x4_t v = {{vld1q_s8(src), vld1q_s8(src + src_stride), vld1q_s8(src + two),
            vld1q_s8(src + three)}};
        vst4q_s8((int8_t *)half + 64 * i, v);
        src += 4 * src_stride;
        TRAINC_OPAQUE(src);
    }
    for (int32_t j = 0; j < 16; j += 4) {
        const int32x4x4_t v = {{vld1q_s32(half + j), vld1q_s32(half + 16 + j),
            vld1q_s32(half + 32 + j), vld1q_s32(half + 48 + j)}};
        if (apart == 16) {
            vst4q_s32((int32_t *)(void *)(dst + 16 * j), v);
        } else {
            dst = trainc_put_four(v, dst, apart);
        }
    }
}

TRAINC_PART void trainc_tiles_of_rows(const int8_t *src, int32_t channels, int32_t plane,
    const int32_t *places, ptrdiff_t apart, int8_t *dst)
{
    const ptrdiff_t stride = plane;
    for (ptrdiff_t p = 0; p < stride; p += 16) {
        const int8_t *at = src + p;
        int8_t *to = dst + places[p];
        for (int32_t c = channels; c > 0; c -= 16) {
            trainc_transposed(at, stride, to, apart);
            at += 16 * stride;
            to += 16;
        }
    }
}

/* trainc_pixels_at of whole tiles of 16 pixels and 16 channels, all of them in one row: pixels are so far
 * apart, below zero where columns are mirrored. */
TRAINC_SINGLE void trainc_pixels_of_rows(const int8_t *src, int32_t channels, int32_t plane,
    const int32_t *places, int32_t apart, int8_t *dst)
{
    if (apart == 16) {
        trainc_tiles_of_rows(src, channels, plane, places, 16, dst);
    } else {
        trainc_tiles_of_rows(src, channels, plane, places, apart, dst);
    }
}

/* Whether 16 pixels from each multiple of 16 on are as far apart as the first two. */
TRAINC_PART int32_t trainc_rows_of_tiles(const int32_t *places, int32_t plane)
{
    const int32_t apart = places[1] - places[0];
    for (int32_t p = 0; p < plane; p += 16) {
        if (places[p + 15] - places[p] != 15 * apart) {
            return 0;
        }
    }
    return 1;
}

/* Channels come last: dst[places[p] + c] = src[c][p] of an image's planes. Behind the last channel
 * of a pixel up to 15 bytes become zero before the next pixels are written: places rise with p, or
 * fall where columns are mirrored and pixels are written from the last to the first. */
TRAINC_SINGLE void trainc_pixels_at(const int8_t *src, int32_t channels, int32_t plane,
    const int32_t *places, int32_t mirrored, int8_t *dst)
{
    int8_t from[256], tile[256];
    if (channels % 16 == 0 && plane % 16 == 0 && trainc_rows_of_tiles(places, plane)) {
        /* No pixel has zeros behind it, so that their order is free. */
        trainc_pixels_of_rows(src, channels, plane, places, places[1] - places[0], dst);
        return;
    }
    trainc_zero(from, 256);
    const int32_t pixels = trainc_minimum32(plane, 16);
    for (int32_t first = 0; first < plane; first += 16) {
        const int32_t begin = trainc_minimum32(first, plane - pixels);
        const int32_t p = mirrored ? plane - pixels - begin : begin;
        for (int32_t c = (channels - 1) / 16 * 16; c >= 0; c -= 16) {
            const int32_t count = trainc_minimum32(channels - c, 16);
            const int8_t *const at = src + c * plane + p;
            int8_t *const to = dst + c;
            if (count == 16 && pixels == 16) {
                /* Pixels of 16 bytes or more: where the last one is so near, they lie without gaps. */
                const int32_t apart = places[p + 15] - places[p];
                if (apart == 15 * 16) {
                    trainc_transpose16(at, plane, to + places[p]);
                    continue;
                }
                trainc_transpose16(at, plane, tile);
                if (apart == -15 * 16) {
                    trainc_put_backwards(tile, to + places[p + 15]);
                    continue;
                }
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
            if (pixels == 16 && mirrored) {
                trainc_put_pixels(tile, places + p, to, 1);
            } else if (pixels == 16) {
                trainc_put_pixels(tile, places + p, to, 0);
            } else {
                for (int32_t i = 0; i < pixels; i++) {
                    const int32_t pixel = mirrored ? pixels - 1 - i : i;
                    vst1q_s8(to + places[p + pixel], vld1q_s8(tile + 16 * pixel));
                }
            }
        }
    }
}

/* The same of up to four channels, 16 columns or more, in pixels of 4 bytes: row r of the planes from
 * dst + r row_bytes on. */
TRAINC_SHARED void trainc_four_channels(const int8_t *src, int32_t channels, int32_t rows,
    int32_t columns, int8_t *dst, int32_t row_bytes)
{
    const int32_t plane = rows * columns;
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t first = 0; first < columns; first += 16) {
            const int32_t column = trainc_minimum32(first, columns - 16);
            int8x16x4_t v;
            for (int32_t c = 0; c < 4; c++) {
                v.val[c] = c < channels ? vld1q_s8(src + c * plane + column) : vdupq_n_s8(0);
            }
            vst4q_s8(dst + 4 * column, v);
        }
        src += columns;
        dst += row_bytes;
    }
}

/* Pixels two by two, for processors with smmla: pixel i and the one `apart` behind it (1 or more, or
 * -1) lie as [units of 8 bytes][both][8]. Pixels themselves, of `bytes` (a multiple of 8), are from
 * pixels + 1 of them on in the same memory, where the last pairs are written when all before have been
 * read. Pixels whose partner is not there are left as they are. */
TRAINC_SHARED void trainc_pixels_in_pairs(int8_t *to, int32_t pixels, int32_t bytes, int32_t apart)
{
    const int32_t first = apart < 0 ? -apart : 0, last = apart > 0 ? pixels - apart : pixels;
    const ptrdiff_t partner = apart * (ptrdiff_t)bytes;
    const int8_t *from = to + (pixels + 1 + first) * (ptrdiff_t)bytes;
    /* Pixels lie without gaps, and so do pairs. */
    int32_t left = (last - first) * bytes;
    to += 2 * first * (ptrdiff_t)bytes;
    const int8_t *other = from + partner;
    /* Each pointer is one register, which loads and stores step forward. */
#define TRAINC_UNITS(n, to_, first)                                             \
    {                                                                           \
        const int64x2_t u = vreinterpretq_s64_s8(a.val[n]);                     \
        const int64x2_t v = vreinterpretq_s64_s8(b.val[n]);                     \
        to_.val[first] = vreinterpretq_s8_s64(vzip1q_s64(u, v));                \
        to_.val[first + 1] = vreinterpretq_s8_s64(vzip2q_s64(u, v));            \
    }
#define TRAINC_BLOCK                                                            \
    {                                                                           \
        const int8x16x4_t a = vld1q_s8_x4(from), b = vld1q_s8_x4(other);        \
        int8x16x4_t low, high;                                                  \
        from += 64;                                                             \
        other += 64;                                                            \
        TRAINC_OPAQUE(from);                                                    \
        TRAINC_OPAQUE(other);                                                   \
        TRAINC_UNITS(0, low, 0)                                                 \
        TRAINC_UNITS(1, low, 2)                                                 \
        TRAINC_UNITS(2, high, 0)                                                \
        TRAINC_UNITS(3, high, 2)                                                \
        vst1q_s8_x4(to, low);                                                   \
        to += 64;                                                               \
        TRAINC_OPAQUE(to);                                                      \
        vst1q_s8_x4(to, high);                                                  \
        to += 64;                                                               \
        TRAINC_OPAQUE(to);                                                      \
    }
    for (int32_t rounds = left / 128; rounds > 0; rounds--) {
        TRAINC_BLOCK
        TRAINC_BLOCK
    }
    if ((left & 64) != 0) {
        TRAINC_BLOCK
    }
#undef TRAINC_BLOCK
#undef TRAINC_UNITS
    left &= 63;
    for (; left > 0; left -= 8) {
        vst1q_s8(to, vcombine_s8(vld1_s8(from), vld1_s8(from + partner)));
        from += 8;
        to += 16;
    }
}

/* The same of windows over pixels of few bytes: of pixel `first` and of the one `apart` behind it, and so
 * on every `step` pixels, the `bytes` (8 or 16) from there on. */
TRAINC_SHARED void trainc_windows_in_pairs(const int8_t *from, int32_t pixels, int32_t pixel_bytes,
    int32_t bytes, int32_t apart, int32_t first, int32_t step, int8_t *to)
{
    const int32_t from_step = step * pixel_bytes, to_step = step * 2 * bytes;
    from += first * pixel_bytes;
    to += first * 2 * bytes;
    const int8_t *other = from + apart * pixel_bytes;
    int32_t left = pixels - apart - first;
#ifdef __aarch64__
    if (pixel_bytes == 1 && bytes == 8 && apart == 1 && step == 2) {
        /* What four pairs read lies in 16 bytes. */
        static const uint8_t order[16] = {0, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 8};
        const uint8x16_t order0 = vld1q_u8(order), two = vdupq_n_u8(2);
        const uint8x16_t order2 = vaddq_u8(order0, two), order4 = vaddq_u8(order2, two);
        const uint8x16_t order6 = vaddq_u8(order4, two);
        for (; left >= 8; left -= 8) {
            const int8x16_t near = vld1q_s8(from);
            vst1q_s8(to, vqtbl1q_s8(near, order0));
            vst1q_s8(to + 32, vqtbl1q_s8(near, order2));
            vst1q_s8(to + 64, vqtbl1q_s8(near, order4));
            vst1q_s8(to + 96, vqtbl1q_s8(near, order6));
            from += 8;
            other += 8;
            to += 128;
        }
    }
#endif
    for (; left > 0; left -= step) {
        if (bytes == 8) {
            vst1q_s8(to, vcombine_s8(vld1_s8(from), vld1_s8(other)));
        } else {
            const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(from));
            const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(other));
            vst1q_s8(to, vreinterpretq_s8_s64(vzip1q_s64(a, b)));
            vst1q_s8(to + 16, vreinterpretq_s8_s64(vzip2q_s64(a, b)));
        }
        from += from_step;
        other += from_step;
        to += to_step;
    }
}

/* Zeros around rows that lie row_bytes apart from `first` on, each of some bytes, in memory of all_bytes:
 * rows are written later, and zeros may reach into them. */
TRAINC_SHARED void trainc_zero_around(int8_t *place, int32_t first, int32_t rows, int32_t row_bytes,
    int32_t bytes, int32_t all_bytes)
{
    const int8x16_t zero = vdupq_n_s8(0);
    const int32_t gap = row_bytes - bytes;
    int8_t *at = place + first + bytes;
    trainc_zero(place, first);
    for (int32_t row = 1; row < rows; row++) {
        for (int32_t i = 0; i < gap; i += 16) {
            vst1q_s8(at + i, zero);
        }
        at += row_bytes;
    }
    trainc_zero(at, (int32_t)(place + all_bytes - at));
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

/* Rows of 4, 8, 16, or 32 neighbours, in line: compilers grant a model only so many copies of a function
 * for its arguments' values. */
#define TRAINC_COPY(count, MOVE)                                                            \
    TRAINC_PART void trainc_copy_rows##count(const int8_t *x, int32_t x_step, int8_t *y,    \
        int32_t y_step, int32_t rows)                                                       \
    {                                                                                       \
        for (; rows > 0; rows--, x += x_step, y += y_step) {                                \
            MOVE                                                                            \
        }                                                                                   \
    }
TRAINC_COPY(4, __builtin_memcpy(y, x, 4);)
TRAINC_COPY(8, vst1_s8(y, vld1_s8(x));)
TRAINC_COPY(16, vst1q_s8(y, vld1q_s8(x));)
TRAINC_COPY(32, const int8x16_t low = vld1q_s8(x); const int8x16_t high = vld1q_s8(x + 16);
    vst1q_s8(y, low); vst1q_s8(y + 16, high);)
#undef TRAINC_COPY

/* Rows of so many neighbours, by the longest moves that fit; the last move overlaps the one before. */
TRAINC_SHARED void trainc_copy_some_rows(const int8_t *x, int32_t x_step, int8_t *y, int32_t y_step,
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

/* The same, where the number is known when a model is compiled. */
TRAINC_PART void trainc_copy_rows(const int8_t *x, int32_t x_step, int8_t *y, int32_t y_step,
    int32_t rows, int32_t count)
{
    switch (count) {
    case 4:
        trainc_copy_rows4(x, x_step, y, y_step, rows);
        return;
    case 8:
        trainc_copy_rows8(x, x_step, y, y_step, rows);
        return;
    case 16:
        trainc_copy_rows16(x, x_step, y, y_step, rows);
        return;
    case 32:
        trainc_copy_rows32(x, x_step, y, y_step, rows);
        return;
    default:
        trainc_copy_some_rows(x, x_step, y, y_step, rows, count);
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

/* Packs up to 8 rows: [high][stretch_bytes / unit][8 rows][unit], zeros where no weight is. In line, for
 * it takes a fifth of the instructions where compilers know the order. */
TRAINC_PART void trainc_pack_weights(const struct trainc_weights *s, const int8_t *w,
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

/* 16 rounded sums. */
typedef int8x16_t trainc_sixteen_sums(int32x4_t x0, int32x4_t x1, int32x4_t x2, int32x4_t x3,
    const struct trainc_rounding *rounding);

/* In order. */
TRAINC_PART int8x16_t trainc_order_by_sums(int32x4_t x0, int32x4_t x1, int32x4_t x2, int32x4_t x3,
    const struct trainc_rounding *rounding)
{
    return trainc_sixteen(trainc_eight_by_sums(x0, x1, rounding),
        trainc_eight_by_sums(x2, x3, rounding), rounding);
}

TRAINC_PART int8x16_t trainc_order_by_products(int32x4_t x0, int32x4_t x1, int32x4_t x2,
    int32x4_t x3, const struct trainc_rounding *rounding)
{
    return trainc_sixteen_short(trainc_eight_by_products(x0, x1, rounding),
        trainc_eight_by_products(x2, x3, rounding), rounding);
}

TRAINC_PART int8x16_t trainc_order_by_parts(int32x4_t x0, int32x4_t x1, int32x4_t x2,
    int32x4_t x3, const struct trainc_rounding *rounding)
{
    return trainc_parts_with_signs(trainc_eight_by_parts(x0, x1, rounding),
        trainc_eight_by_parts(x2, x3, rounding), trainc_sums_upper_bytes(x0, x1, x2, x3));
}

TRAINC_PART int8x16_t trainc_order_half_away(int32x4_t x0, int32x4_t x1, int32x4_t x2,
    int32x4_t x3, const struct trainc_rounding *rounding)
{
    return trainc_rounded_sums(x0, x1, x2, x3, rounding, trainc_half_away);
}

TRAINC_PART int8x16_t trainc_order_pseudo_stochastic(int32x4_t x0, int32x4_t x1, int32x4_t x2,
    int32x4_t x3, const struct trainc_rounding *rounding)
{
    return trainc_rounded_sums(x0, x1, x2, x3, rounding, trainc_pseudo_stochastic);
}

/* The first eight and the last, in turn. */
TRAINC_PART int8x16_t trainc_turn_by_sums(int32x4_t x0, int32x4_t x1, int32x4_t x2, int32x4_t x3,
    const struct trainc_rounding *rounding)
{
    const int16x8_t a0 = vreinterpretq_s16_s32(trainc_aligned(x0, rounding));
    const int16x8_t a4 = vreinterpretq_s16_s32(trainc_aligned(x1, rounding));
    const int16x8_t b0 = vreinterpretq_s16_s32(trainc_aligned(x2, rounding));
    const int16x8_t b4 = vreinterpretq_s16_s32(trainc_aligned(x3, rounding));
    return trainc_sixteen(vtrn2q_s16(a0, b0), vtrn2q_s16(a4, b4), rounding);
}

TRAINC_PART int8x16_t trainc_turn_by_products(int32x4_t x0, int32x4_t x1, int32x4_t x2,
    int32x4_t x3, const struct trainc_rounding *rounding)
{
    const int16x8_t a0 = trainc_four_by_products(x0, rounding);
    const int16x8_t a4 = trainc_four_by_products(x1, rounding);
    const int16x8_t b0 = trainc_four_by_products(x2, rounding);
    const int16x8_t b4 = trainc_four_by_products(x3, rounding);
    return trainc_sixteen_short(vtrn1q_s16(a0, b0), vtrn1q_s16(a4, b4), rounding);
}

TRAINC_PART int8x16_t trainc_turn_by_parts(int32x4_t x0, int32x4_t x1, int32x4_t x2, int32x4_t x3,
    const struct trainc_rounding *rounding)
{
    const uint16x8_t ma0 = trainc_bordered_magnitudes(x0, rounding);
    const uint16x8_t ma4 = trainc_bordered_magnitudes(x1, rounding);
    const uint16x8_t mb0 = trainc_bordered_magnitudes(x2, rounding);
    const uint16x8_t mb4 = trainc_bordered_magnitudes(x3, rounding);
    const int16x8_t upper0 = vtrn2q_s16(vreinterpretq_s16_s32(x0), vreinterpretq_s16_s32(x2));
    const int16x8_t upper4 = vtrn2q_s16(vreinterpretq_s16_s32(x1), vreinterpretq_s16_s32(x3));
    return trainc_parts_with_signs(
        trainc_by_parts(vtrn2q_u16(ma0, mb0), vtrn1q_u16(ma0, mb0), rounding),
        trainc_by_parts(vtrn2q_u16(ma4, mb4), vtrn1q_u16(ma4, mb4), rounding),
        vuzp2q_s8(vreinterpretq_s8_s16(upper0), vreinterpretq_s8_s16(upper4)));
}

TRAINC_PART int8x16_t trainc_turn_half_away(int32x4_t x0, int32x4_t x1, int32x4_t x2,
    int32x4_t x3, const struct trainc_rounding *rounding)
{
    const int8x16_t two = trainc_order_half_away(x0, x1, x2, x3, rounding);
    return vzip1q_s8(two, vextq_s8(two, two, 8));
}

TRAINC_PART int8x16_t trainc_turn_pseudo_stochastic(int32x4_t x0, int32x4_t x1, int32x4_t x2,
    int32x4_t x3, const struct trainc_rounding *rounding)
{
    const int8x16_t two = trainc_order_pseudo_stochastic(x0, x1, x2, x3, rounding);
    return vzip1q_s8(two, vextq_s8(two, two, 8));
}

/* A tile's rounded sums. */
typedef int8x16x4_t trainc_rounded_tile(const int32_t *sums,
    const struct trainc_rounding *rounding, trainc_sixteen_sums *sixteen);

/* Of [8 lanes][8 rows], lane after lane rounded in turn with the one four behind: the rows 0 and 1,
 * 2 and 3, 4 and 5, 6 and 7. */
TRAINC_PART int8x16x4_t trainc_tile_in_turn(const int32_t *sums,
    const struct trainc_rounding *rounding, trainc_sixteen_sums *sixteen)
{
#define TRAINC_TWO(at)                                                                      \
    sixteen(vld1q_s32(sums + (at)), vld1q_s32(sums + (at) + 4), vld1q_s32(sums + (at) + 32), \
        vld1q_s32(sums + (at) + 36), rounding)
    const int8x16_t a = TRAINC_TWO(0), b = TRAINC_TWO(8), c = TRAINC_TWO(16), d = TRAINC_TWO(24);
#undef TRAINC_TWO
    const int8x16_t even = vzip1q_s8(a, c), odd = vzip1q_s8(b, d);
    const int8x16_t even4 = vzip2q_s8(a, c), odd4 = vzip2q_s8(b, d);
    const int8x16x4_t rows = {{vzip1q_s8(even, odd), vzip2q_s8(even, odd), vzip1q_s8(even4, odd4),
        vzip2q_s8(even4, odd4)}};
    return rows;
}

/* Of [4 pairs of lanes][4 pairs of rows][2 lanes][2 rows], a pair of rows after the other: the rows 0
 * and 2, 1 and 3, 4 and 6, 5 and 7. */
TRAINC_PART int8x16x4_t trainc_tile_in_order(const int32_t *sums,
    const struct trainc_rounding *rounding, trainc_sixteen_sums *sixteen)
{
#define TRAINC_TWO(at)                                                                      \
    sixteen(vld1q_s32(sums + (at)), vld1q_s32(sums + (at) + 16), vld1q_s32(sums + (at) + 32), \
        vld1q_s32(sums + (at) + 48), rounding)
    const int8x16_t a = TRAINC_TWO(0), b = TRAINC_TWO(4), c = TRAINC_TWO(8), d = TRAINC_TWO(12);
#undef TRAINC_TWO
    const int8x16x4_t rows = {{vuzp1q_s8(a, b), vuzp2q_s8(a, b), vuzp1q_s8(c, d),
        vuzp2q_s8(c, d)}};
    return rows;
}

/* Where a row is: the register, and whether its upper half. */
TRAINC_PART int32_t trainc_register_of(trainc_rounded_tile *tile, int32_t row)
{
    return tile == trainc_tile_in_order ? row / 4 * 2 + row % 2 : row / 2;
}

TRAINC_PART int32_t trainc_half_of(trainc_rounded_tile *tile, int32_t row)
{
    return tile == trainc_tile_in_order ? row / 2 % 2 : row % 2;
}

/* Calls `store` of arguments, of a tile's order and of what rounds 16 sums half away from zero in turn
 * or in order. Each has loops of its own, for compilers would do parts of all before they ask which it
 * is. */
#define TRAINC_STORE_HALF_AWAY(order, rounding, store, ...)                                 \
    do {                                                                                    \
        if ((rounding)->way == TRAINC_BY_PRODUCTS) {                                        \
            store(__VA_ARGS__, trainc_tile_in_##order, trainc_##order##_by_products);       \
        } else if ((rounding)->way == TRAINC_BY_SUMS) {                                     \
            store(__VA_ARGS__, trainc_tile_in_##order, trainc_##order##_by_sums);           \
        } else {                                                                            \
            store(__VA_ARGS__, trainc_tile_in_##order, trainc_##order##_half_away);         \
        }                                                                                   \
    } while (0)

/* The same pseudo-stochastically. */
#define TRAINC_STORE_PSEUDO_STOCHASTIC(order, rounding, store, ...)                         \
    do {                                                                                    \
        if ((rounding)->by_parts != 0) {                                                    \
            store(__VA_ARGS__, trainc_tile_in_##order, trainc_##order##_by_parts);          \
        } else {                                                                            \
            store(__VA_ARGS__, trainc_tile_in_##order, trainc_##order##_pseudo_stochastic); \
        }                                                                                   \
    } while (0)

/* Fewer than eight rows of a tile, one behind the other, so that each is known where it is. */
#define TRAINC_FIRST_ROWS(left)    \
    TRAINC_ROW(0)                  \
    if ((left) > 1) TRAINC_ROW(1)  \
    if ((left) > 2) TRAINC_ROW(2)  \
    if ((left) > 3) TRAINC_ROW(3)  \
    if ((left) > 4) TRAINC_ROW(4)  \
    if ((left) > 5) TRAINC_ROW(5)  \
    if ((left) > 6) TRAINC_ROW(6)

/* Stores tiles of rows panel by panel: row r's 8 lanes at y + r row_stride. */
TRAINC_PART void trainc_store_panel(const int32_t *sums, int32_t rows, int32_t row_stride,
    int8_t *y, const struct trainc_rounding *own, trainc_rounded_tile *tile,
    trainc_sixteen_sums *sixteen)
{
    for (int32_t r = 0; r < rows; r += 8) {
        const int8x16x4_t q = tile(sums, own, sixteen);
        const int32_t left = rows - r;
        sums += 64;
        if (left >= 8) {
#define TRAINC_ROW(row)                                                                     \
    {                                                                                       \
        const int64x2_t both = vreinterpretq_s64_s8(q.val[trainc_register_of(tile, row)]);  \
        if (trainc_half_of(tile, row) != 0) {                                               \
            vst1q_lane_s64((int64_t *)(void *)y, both, 1);                                  \
        } else {                                                                            \
            vst1q_lane_s64((int64_t *)(void *)y, both, 0);                                  \
        }                                                                                   \
        y += row_stride;                                                                    \
    }
            TRAINC_ROW(0)
            TRAINC_ROW(1)
            TRAINC_ROW(2)
            TRAINC_ROW(3)
            TRAINC_ROW(4)
            TRAINC_ROW(5)
            TRAINC_ROW(6)
            TRAINC_ROW(7)
        } else {
            TRAINC_FIRST_ROWS(left)
        }
#undef TRAINC_ROW
    }
}

/* The same of two panels of lanes, step sums apart, whose results lie behind each other. */
TRAINC_PART void trainc_store_two_panels(const int32_t *sums, ptrdiff_t step, int32_t rows,
    int32_t row_stride, int8_t *y, const struct trainc_rounding *own, trainc_rounded_tile *tile,
    trainc_sixteen_sums *sixteen)
{
    for (int32_t r = 0; r < rows; r += 8) {
        const int8x16x4_t q = tile(sums, own, sixteen), p = tile(sums + step, own, sixteen);
        const int32_t left = rows - r;
        sums += 64;
#define TRAINC_ROW(row)                                                                     \
    {                                                                                       \
        const int64x2_t a = vreinterpretq_s64_s8(q.val[trainc_register_of(tile, row)]);     \
        const int64x2_t b = vreinterpretq_s64_s8(p.val[trainc_register_of(tile, row)]);     \
        vst1q_s8(y, vreinterpretq_s8_s64(trainc_half_of(tile, row) != 0                     \
            ? vzip2q_s64(a, b) : vzip1q_s64(a, b)));                                        \
        y += row_stride;                                                                    \
    }
        if (left >= 8) {
            TRAINC_ROW(0)
            TRAINC_ROW(1)
            TRAINC_ROW(2)
            TRAINC_ROW(3)
            TRAINC_ROW(4)
            TRAINC_ROW(5)
            TRAINC_ROW(6)
            TRAINC_ROW(7)
        } else {
            TRAINC_FIRST_ROWS(left)
        }
#undef TRAINC_ROW
    }
}

/* The same of panels of lanes whose results lie behind each other. */
TRAINC_PART void trainc_store_places(const int32_t *sums, int32_t panels, int32_t rows,
    int32_t row_stride, int8_t *y, const struct trainc_rounding *rounding,
    trainc_rounded_tile *tile, trainc_sixteen_sums *sixteen)
{
    /* A copy, which stores of bytes cannot change, stays in registers. */
    const struct trainc_rounding own = *rounding;
    const ptrdiff_t step = 64 * (ptrdiff_t)((rows + 7) / 8);
    for (; panels >= 2; panels -= 2) {
        trainc_store_two_panels(sums, step, rows, row_stride, y, &own, tile, sixteen);
        sums += 2 * step;
        y += 16;
    }
    if (panels > 0) {
        trainc_store_panel(sums, rows, row_stride, y, &own, tile, sixteen);
    }
}

/* The same for lanes whose results are apart: lane l's of row r at y[results[l] + r row_stride]. */
TRAINC_PART void trainc_store_apart(const int32_t *sums, int32_t rows, int32_t row_stride,
    const int32_t *results, int8_t *y, const struct trainc_rounding *rounding,
    trainc_rounded_tile *tile, trainc_sixteen_sums *sixteen)
{
    const struct trainc_rounding own = *rounding;
    int8_t *y0 = y + results[0], *y1 = y + results[1], *y2 = y + results[2], *y3 = y + results[3];
    int8_t *y4 = y + results[4], *y5 = y + results[5], *y6 = y + results[6], *y7 = y + results[7];
    for (int32_t r = 0; r < rows; r += 8) {
        const int8x16x4_t q = tile(sums, &own, sixteen);
        const int32_t left = trainc_minimum32(rows - r, 8);
        sums += 64;
        for (int32_t i = 0; i < left; i++) {
            const int8x16_t two = q.val[trainc_register_of(tile, i)];
            const int8x8_t v = trainc_half_of(tile, i) != 0 ? vget_high_s8(two) : vget_low_s8(two);
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

/* The same for 8 lanes whose results are two bytes apart from y on, between those of the tiles at odd (or
 * zeros, if that is NULL). */
TRAINC_PART void trainc_store_twos(const int32_t *even, const int32_t *odd, int32_t rows,
    int32_t row_stride, int8_t *y, const struct trainc_rounding *rounding,
    trainc_rounded_tile *tile, trainc_sixteen_sums *sixteen)
{
    const struct trainc_rounding own = *rounding;
    for (int32_t r = 0; r < rows; r += 8) {
        const int8x16_t zero = vdupq_n_s8(0);
        int8x16x4_t p = {{zero, zero, zero, zero}};
        const int8x16x4_t q = tile(even, &own, sixteen);
        even += 64;
        if (odd != NULL) {
            p = tile(odd, &own, sixteen);
            odd += 64;
        }
        const int32_t left = rows - r;
#define TRAINC_ROWS                                                                             \
    TRAINC_ROW(0)                                                                               \
    TRAINC_ROW(1)                                                                               \
    TRAINC_ROW(2)                                                                               \
    TRAINC_ROW(3)                                                                               \
    TRAINC_ROW(4)                                                                               \
    TRAINC_ROW(5)                                                                               \
    TRAINC_ROW(6)                                                                               \
    TRAINC_ROW(7)
        if (left >= 8) {
#define TRAINC_ROW(row)                                                                         \
    {                                                                                           \
        const int8x16_t a = q.val[trainc_register_of(tile, row)];                               \
        const int8x16_t b = p.val[trainc_register_of(tile, row)];                               \
        vst1q_s8(y, trainc_half_of(tile, row) != 0 ? vzip2q_s8(a, b) : vzip1q_s8(a, b));        \
        y += row_stride;                                                                        \
    }
            TRAINC_ROWS
        } else {
            for (int32_t i = 0; i < left; i++) {
                const int8x16_t a = q.val[trainc_register_of(tile, i)];
                const int8x16_t b = p.val[trainc_register_of(tile, i)];
                vst1q_s8(y, trainc_half_of(tile, i) != 0 ? vzip2q_s8(a, b) : vzip1q_s8(a, b));
                y += row_stride;
            }
        }
#undef TRAINC_ROWS
#undef TRAINC_ROW
    }
}

/* The storing functions of a level: of its tiles' order, and where in a tile a lane's sum of a row is. */
#define TRAINC_STORES_IN_PLACE(level, order, at)                                                  \
    /* Few rows are worth a copy that knows their number. */                                      \
    TRAINC_SINGLE void trainc_store_many_half_away_##level(const int32_t *sums,                   \
        int32_t panels, int32_t rows, int32_t row_stride, int8_t *y,                              \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        TRAINC_STORE_HALF_AWAY(order, rounding, trainc_store_places, sums, panels, rows,          \
            row_stride, y, rounding);                                                             \
    }                                                                                             \
    TRAINC_SHARED void trainc_store_few_half_away_##level(const int32_t *sums,                    \
        int32_t panels, int32_t rows, int32_t row_stride, int8_t *y,                              \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        TRAINC_STORE_HALF_AWAY(order, rounding, trainc_store_places, sums, panels, rows,          \
            row_stride, y, rounding);                                                             \
    }                                                                                             \
    TRAINC_PART void trainc_store_places_half_away_##level(const int32_t *sums,                   \
        int32_t panels, int32_t rows, int32_t row_stride, int8_t *y,                              \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        if (rows <= 16) {                                                                         \
            trainc_store_few_half_away_##level(sums, panels, rows, row_stride, y, rounding);      \
        } else {                                                                                  \
            trainc_store_many_half_away_##level(sums, panels, rows, row_stride, y, rounding);     \
        }                                                                                         \
    }                                                                                             \
    TRAINC_SINGLE void trainc_store_many_pseudo_stochastic_##level(const int32_t *sums,           \
        int32_t panels, int32_t rows, int32_t row_stride, int8_t *y,                              \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        TRAINC_STORE_PSEUDO_STOCHASTIC(order, rounding, trainc_store_places, sums, panels, rows,  \
            row_stride, y, rounding);                                                             \
    }                                                                                             \
    TRAINC_SHARED void trainc_store_few_pseudo_stochastic_##level(const int32_t *sums,            \
        int32_t panels, int32_t rows, int32_t row_stride, int8_t *y,                              \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        TRAINC_STORE_PSEUDO_STOCHASTIC(order, rounding, trainc_store_places, sums, panels, rows,  \
            row_stride, y, rounding);                                                             \
    }                                                                                             \
    TRAINC_PART void trainc_store_places_pseudo_stochastic_##level(const int32_t *sums,           \
        int32_t panels, int32_t rows, int32_t row_stride, int8_t *y,                              \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        if (rows <= 16) {                                                                         \
            trainc_store_few_pseudo_stochastic_##level(sums, panels, rows, row_stride, y,         \
                rounding);                                                                        \
        } else {                                                                                  \
            trainc_store_many_pseudo_stochastic_##level(sums, panels, rows, row_stride, y,        \
                rounding);                                                                        \
        }                                                                                         \
    }                                                                                             \
    /* The same for sums as they are. */                                                          \
    TRAINC_SHARED void trainc_store_places_sums_##level(const int32_t *sums, int32_t panels,      \
        int32_t rows, int32_t row_stride, int32_t *y)                                             \
    {                                                                                             \
        for (; panels > 0; panels--) {                                                            \
            for (int32_t r = 0; r < rows; r++) {                                                  \
                for (int32_t l = 0; l < 8; l++) {                                                 \
                    y[r * row_stride + l] = sums[64 * (r / 8) + at(l, r % 8)];                    \
                }                                                                                 \
            }                                                                                     \
            sums += 64 * (ptrdiff_t)((rows + 7) / 8);                                             \
            y += 8;                                                                               \
        }                                                                                         \
    }                                                                                             \
    TRAINC_SINGLE void trainc_store_between_half_away_##level(const int32_t *even,                \
        const int32_t *odd, int32_t rows, int32_t row_stride, int8_t *y,                          \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        if (odd == NULL) {                                                                        \
            TRAINC_STORE_HALF_AWAY(order, rounding, trainc_store_twos, even, NULL, rows,          \
                row_stride, y, rounding);                                                         \
        } else {                                                                                  \
            TRAINC_STORE_HALF_AWAY(order, rounding, trainc_store_twos, even, odd, rows,           \
                row_stride, y, rounding);                                                         \
        }                                                                                         \
    }                                                                                             \
    TRAINC_SINGLE void trainc_store_between_pseudo_stochastic_##level(const int32_t *even,        \
        const int32_t *odd, int32_t rows, int32_t row_stride, int8_t *y,                          \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        if (odd == NULL) {                                                                        \
            TRAINC_STORE_PSEUDO_STOCHASTIC(order, rounding, trainc_store_twos, even, NULL, rows,  \
                row_stride, y, rounding);                                                         \
        } else {                                                                                  \
            TRAINC_STORE_PSEUDO_STOCHASTIC(order, rounding, trainc_store_twos, even, odd, rows,   \
                row_stride, y, rounding);                                                         \
        }                                                                                         \
    }                                                                                             \
    TRAINC_SINGLE void trainc_store_apart_half_away_##level(const int32_t *sums, int32_t rows,    \
        int32_t row_stride, const int32_t *results, int8_t *y,                                    \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        TRAINC_STORE_HALF_AWAY(order, rounding, trainc_store_apart, sums, rows, row_stride,       \
            results, y, rounding);                                                                \
    }                                                                                             \
    TRAINC_SINGLE void trainc_store_apart_pseudo_stochastic_##level(const int32_t *sums,          \
        int32_t rows, int32_t row_stride, const int32_t *results, int8_t *y,                      \
        const struct trainc_rounding *rounding)                                                   \
    {                                                                                             \
        TRAINC_STORE_PSEUDO_STOCHASTIC(order, rounding, trainc_store_apart, sums, rows,           \
            row_stride, results, y, rounding);                                                    \
    }                                                                                             \
    TRAINC_SHARED void trainc_store_apart_sums_##level(const int32_t *sums, int32_t rows,         \
        int32_t row_stride, const int32_t *results, int32_t *y)                                   \
    {                                                                                             \
        for (int32_t r = 0; r < rows; r++) {                                                      \
            for (int32_t l = 0; l < 8; l++) {                                                     \
                y[results[l] + r * row_stride] = sums[64 * (r / 8) + at(l, r % 8)];               \
            }                                                                                     \
        }                                                                                         \
    }

#endif
