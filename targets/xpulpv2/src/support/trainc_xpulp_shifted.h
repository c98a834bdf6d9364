/* Weight gradients: each column of a window has its own copy of the operand, in whose rows the
 * elements that it meets lie side by side, as many as a row of errors has. All elements that a tap
 * meets are then side by side, too: those of the next tap below start a row further on. */
#ifndef TRAINC_XPULP_SHIFTED_H
#define TRAINC_XPULP_SHIFTED_H

#include "trainc_xpulp_rounding.h"

/* Four lanes: where in the copies the first of them begins and how far it is from each to the next,
 * and the same of their sums in a row. A lane alone is four that are the same. */
struct trainc_xpulp_lanes {
    int32_t from, stride, to, apart;
};

struct trainc_xpulp_shifted {
    /* [channels][height][width] */
    const int8_t *from;
    int32_t channels, height, width;
    /* Of a window, from one to the next, and above and before the operand. */
    int32_t taps[2], strides[2], pads[2];
    /* Of errors. */
    int32_t rows, columns;
    /* [channels][taps[1]] copies of so many bytes, in which rows a stride apart lie together, bytes
     * of as many as there are. */
    int32_t alike, copy;
    int8_t *copies;
    /* [outputs][rows][columns], and of four outputs each all first words, then all second ones; where
     * lanes are listed, of the last two likewise. */
    const int8_t *errors;
    int8_t *words;
    int32_t outputs;
    /* [outputs][channels][taps[0]][taps[1]]; whether to add to them. */
    int32_t *sums;
    int32_t adds;
    /* Where channels are no whole tiles, all lanes, and sums from a row to the next. */
    const struct trainc_xpulp_lanes *listed;
    int32_t sums_stride;
    /* Of a tap's outputs, as many fours each. */
    int32_t pieces;
    /* The largest of the sums' magnitudes, by four channels, taps and pieces. */
    uint32_t *largest;
};

/* Some copies, where what lies outside of the operand is zero already. */
static inline void trainc_xpulp_shift_channels(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_shifted *const work = (const struct trainc_xpulp_shifted *)context;
    const int32_t down = work->strides[0], right = work->strides[1];
    int32_t channel = begin / work->taps[1], tap = begin - channel * work->taps[1];
    for (int32_t n = begin; n < end; n++) {
        const int8_t *const from = work->from + channel * work->height * work->width;
        int8_t *const to = work->copies + n * work->copy;
        /* The columns of errors that meet the operand by this column. */
        const int32_t left = tap - work->pads[1];
        const int32_t first = left < 0 ? (right - 1 - left) / right : 0;
        const int32_t last = left < work->width
            ? trainc_minimum32((work->width - 1 - left) / right + 1, work->columns) : 0;
        for (int32_t alike = 0; alike < down && first < last; alike++) {
            /* Row number `alike + down * i` of the padded operand. */
            const int32_t top = alike - work->pads[0];
            const int32_t begins = top < 0 ? (down - 1 - top) / down : 0;
            const int32_t ends = top < work->height
                ? trainc_minimum32((work->height - 1 - top) / down + 1,
                    work->alike / work->columns) : 0;
            if (begins < ends) {
                trainc_xpulp_rows_apart(
                    from + (top + begins * down) * work->width + left + first * right,
                    down * work->width, right,
                    to + alike * work->alike + begins * work->columns + first, work->columns,
                    ends - begins, last - first);
            }
        }
        if (++tap == work->taps[1]) {
            tap = 0;
            channel++;
        }
    }
}

/* Some words of each of four rows of errors. */
static inline void trainc_xpulp_error_words(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_shifted *const work = (const struct trainc_xpulp_shifted *)context;
    const int32_t bytes = work->rows * work->columns, all = bytes >> 2;
    for (int32_t n = begin, count; n < end; n += count) {
        const int32_t four = n / all, first = n - four * all;
        count = trainc_minimum32(all - first, end - n);
        const int8_t *const from = work->errors + 4 * (four * bytes + first);
        int8_t *const to = work->words + 16 * n;
#if defined(TRAINC_XPULP_INSN)
        register const int8_t *x10 __asm__("x10") = from;
        register const int8_t *x11 __asm__("x11") = from + bytes;
        register const int8_t *x12 __asm__("x12") = from + 2 * bytes;
        register const int8_t *x13 __asm__("x13") = from + 3 * bytes;
        register int8_t *x14 __asm__("x14") = to;
        register int32_t x15 __asm__("x15") = count;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 15, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11) TRAINC_XPULP_LWI(x7, 4, x12)
            TRAINC_XPULP_LWI(x28, 4, x13) TRAINC_XPULP_SWI(x5, 4, x14) TRAINC_XPULP_SWI(x6, 4, x14)
            TRAINC_XPULP_SWI(x7, 4, x14) "9: " TRAINC_XPULP_SWI(x28, 4, x14) ".option pop"
            : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x13), "+r"(x14) : "r"(x15)
            : "x5", "x6", "x7", "x28", "memory");
#else
        for (int32_t i = 0; i < 16 * count; i++) {
            to[i] = from[(i >> 2 & 3) * bytes + ((i >> 4) << 2) + (i & 3)];
        }
#endif
    }
}

/* Some pieces of taps of four channels each. */
static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_shifted(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_shifted *const work = (const struct trainc_xpulp_shifted *)context;
    const int32_t taps = work->taps[0] * work->taps[1], bytes = work->rows * work->columns;
    const int32_t pieces = work->pieces, each = (work->outputs >> 2) / pieces;
    int32_t four = begin / pieces / taps, tap = begin / pieces - four * taps;
    int32_t piece = begin - (four * taps + tap) * pieces;
    for (int32_t n = begin; n < end; n++) {
        const int32_t first = piece * each;
        const int32_t down = tap / work->taps[1], right = tap - down * work->taps[1];
        const int32_t row = down / work->strides[0], alike = down - row * work->strides[0];
        struct trainc_xpulp_tile tile;
        tile.rows = work->words + 4 * first * bytes;
        tile.lanes = work->copies + (4 * four * work->taps[1] + right) * work->copy
            + alike * work->alike + row * work->columns;
        tile.stride = work->taps[1] * work->copy;
        tile.words = bytes >> 2;
        tile.sums = work->sums + 4 * (first * work->channels + four) * taps + tap;
        tile.apart = 4 * taps;
        tile.next = 4 * (work->channels - 3) * taps;
        tile.largest = 0;
        if (work->adds) {
            trainc_xpulp_add_tiles_apart(&tile, each);
        } else {
            trainc_xpulp_multiply_tiles_apart(&tile, each);
        }
        work->largest[n] = trainc_xpulp_maxu(work->adds ? 0 : work->largest[n], tile.largest);
        if (++piece == pieces) {
            piece = 0;
            if (++tap == taps) {
                tap = 0;
                four++;
            }
        }
    }
}

/* Some words of each of the last two rows of errors. */
static inline void trainc_xpulp_error_pairs(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_shifted *const work = (const struct trainc_xpulp_shifted *)context;
    const int32_t bytes = work->rows * work->columns, first = (work->outputs & ~3) * bytes;
    const int8_t *from = work->errors + first + 4 * begin;
    int8_t *to = work->words + first + 8 * begin;
    for (int32_t i = begin; i < end; i++, from += 4, to += 8) {
        const uint32_t word = trainc_xpulp_load(from);
        trainc_xpulp_store(to + 4, trainc_xpulp_load(from + bytes));
        trainc_xpulp_store(to, word);
    }
}

/* Some pieces of lanes that are listed. */
static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_listed(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_shifted *const work = (const struct trainc_xpulp_shifted *)context;
    const int32_t bytes = work->rows * work->columns;
    const int32_t pieces = work->pieces, each = (work->outputs >> 2) / pieces;
    for (int32_t n = begin; n < end; n++) {
        const struct trainc_xpulp_lanes *const lanes = work->listed + n / pieces;
        const int32_t first = n % pieces * each;
        struct trainc_xpulp_tile tile;
        tile.rows = work->words + 4 * first * bytes;
        tile.lanes = work->copies + lanes->from;
        tile.stride = lanes->stride;
        tile.words = bytes >> 2;
        tile.sums = work->sums + 4 * first * work->sums_stride + lanes->to;
        tile.apart = 4 * lanes->apart;
        tile.next = 4 * work->sums_stride - 3 * tile.apart;
        tile.largest = 0;
        const int32_t pair = (work->outputs & 2) != 0 && n % pieces == pieces - 1;
        if (work->adds) {
            trainc_xpulp_add_tiles_apart(&tile, each);
            if (pair) {
                trainc_xpulp_add_pairs_apart(&tile, 1);
            }
        } else {
            trainc_xpulp_multiply_tiles_apart(&tile, each);
            if (pair) {
                trainc_xpulp_multiply_pairs_apart(&tile, 1);
            }
        }
        work->largest[n] = trainc_xpulp_maxu(work->adds ? 0 : work->largest[n], tile.largest);
    }
}

#endif
