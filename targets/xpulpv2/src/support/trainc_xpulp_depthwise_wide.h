/* Convolutions of each channel by itself, by windows of up to eight rows and five columns: two words hold a row of
 * a window wherever it begins in the first, and rows of weights are taken one after the other. */
#ifndef TRAINC_XPULP_DEPTHWISE_WIDE_H
#define TRAINC_XPULP_DEPTHWISE_WIDE_H

#include "trainc_xpulp_depthwise.h"

/* Rows of weights at most. */
#define TRAINC_XPULP_ROWS_OF_WEIGHTS 8

/* A row of a channel's weights as two words, whose other bytes are 0. */
struct trainc_xpulp_row_of_weights {
    uint32_t low, high;
};

static inline struct trainc_xpulp_row_of_weights trainc_xpulp_row_of_weights(
    const struct trainc_xpulp_depthwise *work, int32_t c, int32_t row)
{
    const int32_t taps = work->taps[1];
    const int8_t *const at = work->weights
        + (c * work->taps[0] + (work->reverse ? work->taps[0] - 1 - row : row)) * taps;
    struct trainc_xpulp_row_of_weights words = { 0, 0 };
    if (taps == 5) {
        words.low = trainc_xpulp_load(at);
        words.high = (uint8_t)at[4];
        if (work->reverse) {
            words.low = trainc_xpulp_shuffle_b(trainc_xpulp_load(at + 1), 0x00010203);
            words.high = (uint8_t)at[0];
        }
        return words;
    }
    for (int32_t i = 0; i < taps; i++) {
        const uint32_t byte = (uint8_t)at[work->reverse ? taps - 1 - i : i];
        if (i < 4) {
            words.low |= byte << (8 * i);
        } else {
            words.high |= byte << (8 * (i - 4));
        }
    }
    return words;
}

#if defined(TRAINC_XPULP_INSN)
#define TRAINC_XPULP_OLD_SUMS "lw x22, 0(x13)\n\tlw x23, 4(x13)\n\tlw x24, 8(x13)\n\tlw x25, 12(x13)\n\t"
#define TRAINC_XPULP_NEW_SUMS(label) \
    TRAINC_XPULP_SWI(x22, 4, x13) TRAINC_XPULP_SWI(x23, 4, x13) TRAINC_XPULP_SWI(x24, 4, x13) \
    label TRAINC_XPULP_SW(x25, x14, x13)

/* Windows side by side, by a row of weights: 18 instructions for four windows, 14 where sums begin. The
 * words serve all four, for which the weights lie a byte further on each. */
#define TRAINC_XPULP_ROW_CLOSE(old, first) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 15, 9) \
        TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LW(x6, x11, x10) old \
        first(x22, x5, x16) first(x23, x5, x17) first(x24, x5, x18) first(x25, x5, x19) \
        TRAINC_XPULP_SDOT(x22, x6, x20) TRAINC_XPULP_SDOT(x23, x6, x21) \
        TRAINC_XPULP_SDOT(x24, x6, x28) TRAINC_XPULP_SDOT(x25, x6, x29) \
        TRAINC_XPULP_NEW_SUMS("9: ") ".option pop" \
        : "+r"(x10), "+r"(x13) \
        : "r"(x11), "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19), "r"(x20), "r"(x21), \
          "r"(x28), "r"(x29) \
        : "x5", "x6", "x22", "x23", "x24", "x25", "memory")

static inline void trainc_xpulp_row_close(const struct trainc_xpulp_windows_of *work,
    struct trainc_xpulp_row_of_weights words, int32_t begins)
{
    register const int8_t *x10 __asm__("x10") = work->x;
    register int32_t x11 __asm__("x11") = work->row - 4;
    register int32_t *x13 __asm__("x13") = work->sums;
    register int32_t x14 __asm__("x14") = 4 * work->sums_row - 12;
    register int32_t x15 __asm__("x15") = work->rounds;
    register uint32_t x16 __asm__("x16") = words.low;
    register uint32_t x17 __asm__("x17") = words.low << 8;
    register uint32_t x18 __asm__("x18") = words.low << 16;
    register uint32_t x19 __asm__("x19") = words.low << 24;
    register uint32_t x20 __asm__("x20") = words.high;
    register uint32_t x21 __asm__("x21") = words.high << 8 | words.low >> 24;
    register uint32_t x28 __asm__("x28") = words.high << 16 | words.low >> 16;
    register uint32_t x29 __asm__("x29") = words.high << 24 | words.low >> 8;
    if (begins) {
        TRAINC_XPULP_ROW_CLOSE("", TRAINC_XPULP_DOT);
    } else {
        TRAINC_XPULP_ROW_CLOSE(TRAINC_XPULP_OLD_SUMS, TRAINC_XPULP_SDOT);
    }
}

/* Windows apart, by a row of weights: 24 instructions for four windows, 20 where sums begin. */
#define TRAINC_XPULP_TWO_WINDOWS(first, a, b, next) \
    TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LW(x6, x12, x10) \
    TRAINC_XPULP_LWI(x7, 4, x10) TRAINC_XPULP_LW(x9, next, x10) \
    first(a, x5, x16) first(b, x7, x16) TRAINC_XPULP_SDOT(a, x6, x20) TRAINC_XPULP_SDOT(b, x9, x20)
#define TRAINC_XPULP_ROW_APART(old, first) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 15, 9) old \
        TRAINC_XPULP_TWO_WINDOWS(first, x22, x23, x12) TRAINC_XPULP_TWO_WINDOWS(first, x24, x25, x11) \
        TRAINC_XPULP_NEW_SUMS("9: ") ".option pop" \
        : "+r"(x10), "+r"(x13) \
        : "r"(x11), "r"(x12), "r"(x14), "r"(x15), "r"(x16), "r"(x20) \
        : "x5", "x6", "x7", "x9", "x22", "x23", "x24", "x25", "memory")

static inline void trainc_xpulp_row_apart(const struct trainc_xpulp_windows_of *work,
    struct trainc_xpulp_row_of_weights words, int32_t begins)
{
    register const int8_t *x10 __asm__("x10") = work->x;
    register int32_t x11 __asm__("x11") = work->strides[0] * work->row - 3 * work->strides[1] - 4;
    register int32_t x12 __asm__("x12") = work->strides[1] - 4;
    register int32_t *x13 __asm__("x13") = work->sums;
    register int32_t x14 __asm__("x14") = 4 * work->sums_row - 12;
    register int32_t x15 __asm__("x15") = work->rounds;
    register uint32_t x16 __asm__("x16") = words.low;
    register uint32_t x20 __asm__("x20") = words.high;
    if (begins) {
        TRAINC_XPULP_ROW_APART("", TRAINC_XPULP_DOT);
    } else {
        TRAINC_XPULP_ROW_APART(TRAINC_XPULP_OLD_SUMS, TRAINC_XPULP_SDOT);
    }
}
#else
static inline void trainc_xpulp_row_apart(const struct trainc_xpulp_windows_of *work,
    struct trainc_xpulp_row_of_weights words, int32_t begins)
{
    for (int32_t row = 0; row < work->rounds; row++) {
        for (int32_t column = 0; column < 4; column++) {
            const int8_t *const at =
                work->x + row * work->strides[0] * work->row + column * work->strides[1];
            int32_t *const sum = work->sums + row * work->sums_row + column;
            const uint32_t old = begins ? 0 : (uint32_t)*sum;
            const uint32_t low = trainc_xpulp_sdotsp_b(old, trainc_xpulp_load(at), words.low);
            *sum = (int32_t)trainc_xpulp_sdotsp_b(low, trainc_xpulp_load(at + 4), words.high);
        }
    }
}

static inline void trainc_xpulp_row_close(const struct trainc_xpulp_windows_of *work,
    struct trainc_xpulp_row_of_weights words, int32_t begins)
{
    trainc_xpulp_row_apart(work, words, begins);
}
#endif

/* All windows of a plane. */
static inline void trainc_xpulp_depthwise_wide_plane(const struct trainc_xpulp_depthwise *work,
    int32_t n, int32_t c, const int8_t *copy)
{
    struct trainc_xpulp_row_of_weights words[TRAINC_XPULP_ROWS_OF_WEIGHTS];
    struct trainc_xpulp_windows_of windows;
    int32_t *const sums = work->sums + n * work->rows * work->columns;
    const int32_t close = work->strides[0] == 1 && work->strides[1] == 1;
    windows.row = work->row;
    windows.rounds = work->rows;
    windows.sums_row = work->columns;
    windows.strides[0] = work->strides[0];
    windows.strides[1] = work->strides[1];
    for (int32_t row = 0; row < work->taps[0]; row++) {
        words[row] = trainc_xpulp_row_of_weights(work, c, row);
    }
    for (int32_t column = 0; column < work->columns; column += 4) {
        /* The last windows overlap those before, whose sums begin anew. */
        const int32_t from = trainc_minimum32(column, work->columns - 4);
        windows.sums = sums + from;
        for (int32_t row = 0; row < work->taps[0]; row++) {
            windows.x = copy + row * work->row + from * work->strides[1];
            if (close) {
                trainc_xpulp_row_close(&windows, words[row], row == 0);
            } else {
                trainc_xpulp_row_apart(&windows, words[row], row == 0);
            }
        }
    }
}

/* Convolutions of some parts' planes. */
static inline void trainc_xpulp_depthwise_wide_planes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_depthwise *const work =
        (const struct trainc_xpulp_depthwise *)context;
    const int32_t planes = work->images * work->channels, size = work->rows * work->columns;
    for (int32_t part = begin; part < end; part++) {
        int8_t *const copy = work->copies + part * work->x_copy;
        const int32_t first = part * planes / work->parts;
        const int32_t last = (part + 1) * planes / work->parts;
        int32_t c = first % work->channels;
        trainc_xpulp_zero(copy, work->x_copy);
        for (int32_t n = first; n < last; n++) {
            trainc_xpulp_place(&work->x, n, copy);
            trainc_xpulp_depthwise_wide_plane(work, n, c, copy);
            c = c + 1 < work->channels ? c + 1 : 0;
        }
        work->largest[part] =
            trainc_xpulp_largest_sum(work->sums + first * size, (last - first) * size);
    }
}

#endif
