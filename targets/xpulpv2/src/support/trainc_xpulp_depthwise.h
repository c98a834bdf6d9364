/* Convolutions of each channel by itself, by windows of at most three by three, and gradients of any weights: of each
 * plane a copy with room around and between its elements, in which a word holds a row of a window. */
#ifndef TRAINC_XPULP_DEPTHWISE_H
#define TRAINC_XPULP_DEPTHWISE_H

#include "trainc_xpulp_rounding.h"

#if defined(__GNUC__)
#define TRAINC_XPULP_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define TRAINC_XPULP_ALWAYS_INLINE inline
#endif

/* Planes, and where their elements go in a copy of each. */
struct trainc_xpulp_placing {
    /* [planes], of which a copy takes so many rows and columns. */
    const int8_t *from;
    int32_t plane, width, rows, columns;
    /* Bytes of a copy before the first element, from a row to the next and in a row. */
    int32_t before, down, right;
};

/* Elements of a row that lie side by side. */
static inline void trainc_xpulp_place_row(const int8_t *from, int8_t *to, int32_t count)
{
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count >= 16) {
        register const int8_t *x10 __asm__("x10") = from;
        register int8_t *x11 __asm__("x11") = to;
        register int32_t x12 __asm__("x12") = count >> 3;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_SWI(x5, 4, x11)
            "9: " TRAINC_XPULP_SWI(x6, 4, x11) ".option pop"
            : "+r"(x10), "+r"(x11) : "r"(x12) : "x5", "x6", "memory");
        i = count & ~7;
    }
#endif
    for (; i + 4 <= count; i += 4) {
        trainc_xpulp_store(to + i, trainc_xpulp_load(from + i));
    }
    for (; i < count; i++) {
        to[i] = from[i];
    }
}

/* Elements of a row that lie apart. */
static inline void trainc_xpulp_spread_row(const int8_t *from, int8_t *to, int32_t count,
    int32_t step)
{
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count >= 2) {
        register const int8_t *x10 __asm__("x10") = from;
        register int8_t *x11 __asm__("x11") = to;
        register int32_t x12 __asm__("x12") = count >> 1;
        register int32_t x13 __asm__("x13") = step;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LBI(x5, 1, x10) TRAINC_XPULP_LBI(x6, 1, x10) TRAINC_XPULP_SB(x5, x13, x11)
            "9: " TRAINC_XPULP_SB(x6, x13, x11) ".option pop"
            : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13) : "x5", "x6", "memory");
        i = count & ~1;
    }
#endif
    for (; i < count; i++) {
        to[i * step] = from[i];
    }
}

/* A plane's elements go to its copy, where all else is zeros. */
static inline void trainc_xpulp_place(const struct trainc_xpulp_placing *placing, int32_t n,
    int8_t *to)
{
    const int8_t *from = placing->from + n * placing->plane;
    to += placing->before;
#if defined(TRAINC_XPULP_INSN)
    if (placing->right == 1 && placing->columns >= 8 && (placing->columns & 7) == 0) {
        register const int8_t *x10 __asm__("x10") = from;
        register int8_t *x11 __asm__("x11") = to;
        register int32_t x12 __asm__("x12") = placing->rows;
        register int32_t x13 __asm__("x13") = placing->columns >> 3;
        register int32_t x14 __asm__("x14") = placing->width - placing->columns;
        register int32_t x15 __asm__("x15") = placing->down - placing->columns;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 12, 8) TRAINC_XPULP_LOOP(0, 13, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_SWI(x5, 4, x11)
            "9: " TRAINC_XPULP_SWI(x6, 4, x11)
            "add x10, x10, x14\n\t8: add x11, x11, x15\n\t.option pop"
            : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), "r"(x14), "r"(x15)
            : "x5", "x6", "memory");
        return;
    }
    if (placing->right == 1 && placing->columns == 4) {
        register const int8_t *x10 __asm__("x10") = from;
        register int8_t *x11 __asm__("x11") = to;
        register int32_t x12 __asm__("x12") = placing->rows;
        register int32_t x14 __asm__("x14") = placing->width;
        register int32_t x15 __asm__("x15") = placing->down;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LW(x5, x14, x10) "nop\n\t9: " TRAINC_XPULP_SW(x5, x15, x11) ".option pop"
            : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x14), "r"(x15) : "x5", "memory");
        return;
    }
#endif
    for (int32_t row = 0; row < placing->rows; row++, from += placing->width, to += placing->down) {
        if (placing->right == 1) {
            trainc_xpulp_place_row(from, to, placing->columns);
        } else {
            trainc_xpulp_spread_row(from, to, placing->columns, placing->right);
        }
    }
}

struct trainc_xpulp_depthwise {
    struct trainc_xpulp_placing x, dy;
    int32_t images, channels, parts;
    /* Copies of x for each part and, behind each, of dy for gradients of weights; bytes of each, and of a row. */
    int8_t *copies;
    int32_t x_copy, other_copy, row;
    /* Of a channel, and whether they are in reverse. */
    const int8_t *weights;
    int32_t taps[2], reverse;
    /* From a window to the next, and from a tap to the next. */
    int32_t strides[2], dilations[2];
    /* Windows. */
    int32_t rows, columns;
    /* [images][channels][rows][columns], or of gradients [channels][taps]. */
    int32_t *sums;
    /* The largest of their magnitudes, by parts. */
    uint32_t *largest;
};

/* A channel's weights: a word for each row of a window, whose last byte is 0. Called, this would be most of what a small
 * plane takes. */
static TRAINC_XPULP_ALWAYS_INLINE void trainc_xpulp_window_words(
    const struct trainc_xpulp_depthwise *work, int32_t c, uint32_t words[3])
{
    const int8_t *at = work->weights + c * work->taps[0] * work->taps[1];
    if (work->taps[0] == 3 && work->taps[1] == 3) {
        uint32_t first = trainc_xpulp_load(at), last = trainc_xpulp_load(at + 5) >> 8;
        uint32_t middle = trainc_xpulp_load(at + 3);
        if (work->reverse) {
            const uint32_t other = trainc_xpulp_shuffle_b(first, 0x03000102);
            first = trainc_xpulp_shuffle_b(last, 0x03000102);
            middle = trainc_xpulp_shuffle_b(middle, 0x03000102);
            last = other;
        }
        words[0] = first & 0xffffff;
        words[1] = middle & 0xffffff;
        words[2] = last & 0xffffff;
        return;
    }
    words[0] = words[1] = words[2] = 0;
    for (int32_t down = 0; down < work->taps[0]; down++) {
        for (int32_t right = 0; right < work->taps[1]; right++) {
            const int32_t row = work->reverse ? 2 - down : down;
            const int32_t byte = work->reverse ? 2 - right : right;
            words[row] |= (uint32_t)(uint8_t)*at++ << (8 * byte);
        }
    }
}

/* Four columns of windows, those of some pairs of rows, or of some rows. */
struct trainc_xpulp_windows_of {
    const int8_t *x;
    int32_t row, rounds;
    int32_t *sums;
    /* From a row of sums to the next, in words. */
    int32_t sums_row;
    int32_t strides[2];
    uint32_t words[3];
    uint32_t largest;
};

#if defined(TRAINC_XPULP_INSN)
#define TRAINC_XPULP_MAGNITUDE_OF(a) TRAINC_XPULP_SCALAR(0, x7, a, x0) TRAINC_XPULP_SCALAR(7, x30, x30, x7)
#define TRAINC_XPULP_ROW_OF_SUMS(a, b, c, d) \
    TRAINC_XPULP_SWI(a, 4, x13) TRAINC_XPULP_SWI(b, 4, x13) TRAINC_XPULP_SWI(c, 4, x13) \
    TRAINC_XPULP_SW(d, x14, x13) TRAINC_XPULP_MAGNITUDE_OF(a) TRAINC_XPULP_MAGNITUDE_OF(b) \
    TRAINC_XPULP_MAGNITUDE_OF(c)

/* Windows side by side, 60 instructions for two rows: a word serves two windows, for one of which the
 * weights lie a byte further on. */
static inline void trainc_xpulp_windows_close(struct trainc_xpulp_windows_of *work)
{
#define TRAINC_XPULP_FOUR_WINDOWS(of, a, b, c, d, low, high) \
    of(a, x5, low) of(b, x5, high) of(c, x6, low) of(d, x6, high)
    register const int8_t *x10 __asm__("x10") = work->x;
    register int32_t x11 __asm__("x11") = work->row - 2;
    register int32_t x12 __asm__("x12") = -work->row - 2;
    register int32_t *x13 __asm__("x13") = work->sums;
    register int32_t x14 __asm__("x14") = 4 * work->sums_row - 12;
    register int32_t x15 __asm__("x15") = work->rounds;
    register uint32_t x16 __asm__("x16") = work->words[0];
    register uint32_t x17 __asm__("x17") = work->words[0] << 8;
    register uint32_t x18 __asm__("x18") = work->words[1];
    register uint32_t x19 __asm__("x19") = work->words[1] << 8;
    register uint32_t x20 __asm__("x20") = work->words[2];
    register uint32_t x21 __asm__("x21") = work->words[2] << 8;
    register uint32_t x30 __asm__("x30") = work->largest;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 15, 9)
        TRAINC_XPULP_LWI(x5, 2, x10) TRAINC_XPULP_LW(x6, x11, x10)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_DOT, x22, x23, x24, x25, x16, x17)
        TRAINC_XPULP_LWI(x5, 2, x10) TRAINC_XPULP_LW(x6, x11, x10)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_SDOT, x22, x23, x24, x25, x18, x19)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_DOT, x26, x27, x28, x29, x16, x17)
        TRAINC_XPULP_LWI(x5, 2, x10) TRAINC_XPULP_LW(x6, x11, x10)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_SDOT, x22, x23, x24, x25, x20, x21)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_SDOT, x26, x27, x28, x29, x18, x19)
        TRAINC_XPULP_LWI(x5, 2, x10) TRAINC_XPULP_LW(x6, x12, x10)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_SDOT, x26, x27, x28, x29, x20, x21)
        TRAINC_XPULP_ROW_OF_SUMS(x22, x23, x24, x25) TRAINC_XPULP_MAGNITUDE_OF(x25)
        TRAINC_XPULP_ROW_OF_SUMS(x26, x27, x28, x29)
        TRAINC_XPULP_SCALAR(0, x7, x29, x0)
        "9: " TRAINC_XPULP_SCALAR(7, x30, x30, x7) ".option pop"
        : "+r"(x10), "+r"(x13), "+r"(x30)
        : "r"(x11), "r"(x12), "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19), "r"(x20),
          "r"(x21)
        : "x5", "x6", "x7", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "memory");
    work->largest = x30;
#undef TRAINC_XPULP_FOUR_WINDOWS
}

/* Windows apart: 36 instructions for a row. */
static inline void trainc_xpulp_windows_apart(struct trainc_xpulp_windows_of *work)
{
#define TRAINC_XPULP_FOUR_WINDOWS(of, next, words) \
    TRAINC_XPULP_LW(x5, x11, x10) TRAINC_XPULP_LW(x6, x11, x10) TRAINC_XPULP_LW(x7, x11, x10) \
    TRAINC_XPULP_LW(x9, next, x10) \
    of(x22, x5, words) of(x23, x6, words) of(x24, x7, words) of(x25, x9, words)
    register const int8_t *x10 __asm__("x10") = work->x;
    register int32_t x11 __asm__("x11") = work->strides[1];
    register int32_t x12 __asm__("x12") = work->row - 3 * work->strides[1];
    register int32_t *x13 __asm__("x13") = work->sums;
    register int32_t x14 __asm__("x14") = 4 * work->sums_row - 12;
    register int32_t x15 __asm__("x15") = work->rounds;
    register uint32_t x16 __asm__("x16") = work->words[0];
    register uint32_t x17 __asm__("x17") = work->words[1];
    register uint32_t x18 __asm__("x18") = work->words[2];
    register int32_t x19 __asm__("x19") =
        (work->strides[0] - 2) * work->row - 3 * work->strides[1];
    register uint32_t x30 __asm__("x30") = work->largest;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 15, 9)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_DOT, x12, x16)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_SDOT, x12, x17)
        TRAINC_XPULP_FOUR_WINDOWS(TRAINC_XPULP_SDOT, x19, x18)
        TRAINC_XPULP_ROW_OF_SUMS(x22, x23, x24, x25)
        TRAINC_XPULP_SCALAR(0, x7, x25, x0)
        "9: " TRAINC_XPULP_SCALAR(7, x30, x30, x7) ".option pop"
        : "+r"(x10), "+r"(x13), "+r"(x30)
        : "r"(x11), "r"(x12), "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19)
        : "x5", "x6", "x7", "x9", "x22", "x23", "x24", "x25", "memory");
    work->largest = x30;
#undef TRAINC_XPULP_FOUR_WINDOWS
}

/* Adds to the sums of three rows of three taps, `columns` apart, those of a plane: each word of three rows of x, `down` bytes
 * apart, by one of dy that lies there, and by those that lie `right` and twice as many bytes further on. 15 instructions for
 * 36 products. */
static inline void trainc_xpulp_taps_of(const int8_t *x, const int8_t *dy, int32_t down,
    int32_t right, int32_t row, int32_t rows, int32_t stride, int32_t *sums, int32_t columns)
{
    register const int8_t *x10 __asm__("x10") = x;
    register const int8_t *x11 __asm__("x11") = x + down;
    register const int8_t *x12 __asm__("x12") = x + 2 * down;
    register const int8_t *x13 __asm__("x13") = dy;
    register int32_t x14 __asm__("x14") = rows;
    register int32_t x15 __asm__("x15") = row >> 2;
    register int32_t x9 __asm__("x9") = (stride - 1) * row;
    register int32_t x16 __asm__("x16") = sums[0];
    register int32_t x17 __asm__("x17") = sums[1];
    register int32_t x18 __asm__("x18") = sums[2];
    register int32_t x19 __asm__("x19") = sums[columns];
    register int32_t x20 __asm__("x20") = sums[columns + 1];
    register int32_t x21 __asm__("x21") = sums[columns + 2];
    register int32_t x22 __asm__("x22") = sums[2 * columns];
    register int32_t x23 __asm__("x23") = sums[2 * columns + 1];
    register int32_t x24 __asm__("x24") = sums[2 * columns + 2];
    register int32_t x25 __asm__("x25") = right;
    __asm__ volatile(TRAINC_XPULP_BEGIN "add x26, x25, x25\n\t"
        TRAINC_XPULP_LOOP(1, 14, 8) TRAINC_XPULP_LOOP(0, 15, 9)
        TRAINC_XPULP_LW_AT(x6, x25, x13) TRAINC_XPULP_LW_AT(x7, x26, x13)
        TRAINC_XPULP_LWI(x5, 4, x13)
        TRAINC_XPULP_LWI(x28, 4, x10) TRAINC_XPULP_LWI(x29, 4, x11) TRAINC_XPULP_LWI(x30, 4, x12)
        TRAINC_XPULP_SDOT(x16, x28, x7) TRAINC_XPULP_SDOT(x17, x28, x6)
        TRAINC_XPULP_SDOT(x18, x28, x5) TRAINC_XPULP_SDOT(x19, x29, x7)
        TRAINC_XPULP_SDOT(x20, x29, x6) TRAINC_XPULP_SDOT(x21, x29, x5)
        TRAINC_XPULP_SDOT(x22, x30, x7) TRAINC_XPULP_SDOT(x23, x30, x6)
        "9: " TRAINC_XPULP_SDOT(x24, x30, x5)
        "add x10, x10, x9\n\tadd x11, x11, x9\n\t8: add x12, x12, x9\n\t.option pop"
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x13), "+r"(x16), "+r"(x17), "+r"(x18), "+r"(x19),
          "+r"(x20), "+r"(x21), "+r"(x22), "+r"(x23), "+r"(x24)
        : "r"(x9), "r"(x14), "r"(x15), "r"(x25)
        : "x5", "x6", "x7", "x26", "x28", "x29", "x30", "memory");
    sums[0] = x16;
    sums[1] = x17;
    sums[2] = x18;
    sums[columns] = x19;
    sums[columns + 1] = x20;
    sums[columns + 2] = x21;
    sums[2 * columns] = x22;
    sums[2 * columns + 1] = x23;
    sums[2 * columns + 2] = x24;
}
#else
static inline void trainc_xpulp_windows_some(struct trainc_xpulp_windows_of *work, int32_t rows,
    int32_t down, int32_t right)
{
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t column = 0; column < 4; column++) {
            const int8_t *at = work->x + row * down * work->row + column * right;
            uint32_t sum = 0;
            for (int32_t i = 0; i < 3; i++, at += work->row) {
                sum = trainc_xpulp_sdotsp_b(sum, trainc_xpulp_load(at), work->words[i]);
            }
            work->sums[row * work->sums_row + column] = (int32_t)sum;
            work->largest = trainc_xpulp_maxu(work->largest, trainc_xpulp_abs(sum));
        }
    }
}

static inline void trainc_xpulp_windows_close(struct trainc_xpulp_windows_of *work)
{
    trainc_xpulp_windows_some(work, 2 * work->rounds, 1, 1);
}

static inline void trainc_xpulp_windows_apart(struct trainc_xpulp_windows_of *work)
{
    trainc_xpulp_windows_some(work, work->rounds, work->strides[0], work->strides[1]);
}

static inline void trainc_xpulp_taps_of(const int8_t *x, const int8_t *dy, int32_t down,
    int32_t right, int32_t row, int32_t rows, int32_t stride, int32_t *sums, int32_t columns)
{
    for (int32_t n = 0; n < rows; n++, x += (stride - 1) * row) {
        for (int32_t i = 0; i < row; i += 4, x += 4, dy += 4) {
            for (int32_t tap = 0; tap < 9; tap++) {
                int32_t *const sum = sums + tap / 3 * columns + tap % 3;
                *sum = (int32_t)trainc_xpulp_sdotsp_b((uint32_t)*sum,
                    trainc_xpulp_load(x + tap / 3 * down),
                    trainc_xpulp_load(dy + (2 - tap % 3) * right));
            }
        }
    }
}
#endif

/* All windows of a plane. */
static inline uint32_t trainc_xpulp_depthwise_plane(const struct trainc_xpulp_depthwise *work,
    int32_t n, int32_t c, const int8_t *copy)
{
    struct trainc_xpulp_windows_of windows;
    int32_t *const sums = work->sums + n * work->rows * work->columns;
    const int32_t close = work->strides[0] == 1 && work->strides[1] == 1;
    trainc_xpulp_window_words(work, c, windows.words);
    windows.row = work->row;
    windows.sums_row = work->columns;
    windows.strides[0] = work->strides[0];
    windows.strides[1] = work->strides[1];
    windows.largest = 0;
    for (int32_t column = 0; column < work->columns; column += 4) {
        /* The last windows overlap those before. */
        const int32_t from = trainc_minimum32(column, work->columns - 4);
        windows.x = copy + from * work->strides[1];
        windows.sums = sums + from;
        if (!close) {
            windows.rounds = work->rows;
            trainc_xpulp_windows_apart(&windows);
            continue;
        }
        windows.rounds = work->rows >> 1;
        trainc_xpulp_windows_close(&windows);
        if ((work->rows & 1) != 0) {
            windows.x += (work->rows - 2) * work->row;
            windows.sums += (work->rows - 2) * work->columns;
            windows.rounds = 1;
            trainc_xpulp_windows_close(&windows);
        }
    }
    return windows.largest;
}

/* Convolutions of some parts' planes. */
static inline void trainc_xpulp_depthwise_planes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_depthwise *const work =
        (const struct trainc_xpulp_depthwise *)context;
    const int32_t planes = work->images * work->channels;
    for (int32_t part = begin; part < end; part++) {
        int8_t *const copy = work->copies + part * work->x_copy;
        const int32_t first = part * planes / work->parts;
        const int32_t last = (part + 1) * planes / work->parts;
        int32_t c = first % work->channels;
        uint32_t largest = 0;
        trainc_xpulp_zero(copy, work->x_copy);
        for (int32_t n = first; n < last; n++) {
            trainc_xpulp_place(&work->x, n, copy);
            largest = trainc_xpulp_maxu(largest, trainc_xpulp_depthwise_plane(work, n, c, copy));
            c = c + 1 < work->channels ? c + 1 : 0;
        }
        work->largest[part] = largest;
    }
}

/* Gradients of some parts' weights, by blocks of three by three taps. */
static inline void trainc_xpulp_depthwise_weights(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_depthwise *const work =
        (const struct trainc_xpulp_depthwise *)context;
    const int32_t rows = work->taps[0], columns = work->taps[1], taps = rows * columns;
    const int32_t down = work->dilations[0] * work->row, right = work->dilations[1];
    for (int32_t part = begin; part < end; part++) {
        int8_t *const x = work->copies + part * (work->x_copy + work->other_copy);
        int8_t *const dy = x + work->x_copy;
        /* Zeros lie before a row of errors, as far as whole blocks reach. */
        const int8_t *const last_tap = dy + ((columns + 2) / 3 * 3 - 3) * right;
        const int32_t first = part * work->channels / work->parts;
        const int32_t last = (part + 1) * work->channels / work->parts;
        int32_t *const sums = work->sums + first * taps;
        trainc_xpulp_zero(x, work->x_copy + work->other_copy);
        trainc_xpulp_zero(sums, (last - first) * taps * 4);
        for (int32_t c = first; c < last; c++) {
            for (int32_t n = c; n < work->images * work->channels; n += work->channels) {
                trainc_xpulp_place(&work->x, n, x);
                trainc_xpulp_place(&work->dy, n, dy);
                for (int32_t i = 0; i < rows; i += 3) {
                    for (int32_t j = 0; j < columns; j += 3) {
                        /* Elsewhere some of the block's taps are none. */
                        const int32_t whole = i + 3 <= rows && j + 3 <= columns;
                        int32_t *const to = work->sums + (c * rows + i) * columns + j;
                        int32_t block[9];
                        if (!whole) {
                            trainc_xpulp_zero(block, (int32_t)sizeof block);
                        }
                        trainc_xpulp_taps_of(x + i * down, last_tap - j * right, down, right,
                            work->row, work->rows, work->strides[0], whole ? to : block,
                            whole ? columns : 3);
                        for (int32_t tap = 0; tap < 9 && !whole; tap++) {
                            if (i + tap / 3 < rows && j + tap % 3 < columns) {
                                int32_t *const sum = to + tap / 3 * columns + tap % 3;
                                *sum = (int32_t)((uint32_t)*sum + (uint32_t)block[tap]);
                            }
                        }
                    }
                }
            }
        }
        work->largest[part] = trainc_xpulp_largest_sum(sums, (last - first) * taps);
    }
}

#endif
