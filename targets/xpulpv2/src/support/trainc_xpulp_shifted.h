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

#if defined(__OPTIMIZE_SIZE__)
#define TRAINC_XPULP_TAPS_BELOW(below, otherwise) otherwise
#else
#define TRAINC_XPULP_TAPS_BELOW(below, otherwise) below
#endif

/* Two rows of errors by two channels' copies of the same column of windows, by all three taps below each
 * other; blocks of assembler know the places. */
struct trainc_xpulp_below {
    /* Of two rows, for each word of a line all lines' pairs. */
    const int8_t *errors;
    /* From a line of the copies to the next, and from behind the last to the first's next word. */
    int32_t down, turn;
    const int8_t *first, *second;
    /* Threes of lines behind the first ones, which are one to three, and words of a line but the first. */
    int32_t threes, words;
    /* Sums: from each of six to the next, and from the last to the next row's. */
    int32_t *sums;
    int32_t apart, jump;
    uint32_t largest;
    /* The errors behind the last rows. */
    const int8_t *behind;
};

#if !defined(__OPTIMIZE_SIZE__) && defined(TRAINC_XPULP_INSN)
/* A line of errors, in x30 and x31, meets three lines of each copy, of which the last is loaded now: 16
 * instructions for 48 products. Two lines stay for the next one. */
#define TRAINC_XPULP_BELOW_LINE(of, a, b, c, d, e, f) \
    TRAINC_XPULP_LW(c, x11, x9) TRAINC_XPULP_LWI(x30, 4, x7) \
    TRAINC_XPULP_LW(f, x11, x5) TRAINC_XPULP_LWI(x31, 4, x7) \
    of(x12, a, x30) of(x13, b, x30) of(x14, c, x30) of(x15, d, x30) of(x16, e, x30) of(x17, f, x30) \
    of(x18, a, x31) of(x19, b, x31) of(x20, c, x31) of(x21, d, x31) of(x22, e, x31)
#define TRAINC_XPULP_BELOW_LAST(of, f) of(x23, f, x31)
/* The same where the two lines that stayed lie in the first registers, the next ones, or the last. */
#define TRAINC_XPULP_BELOW_A(of) TRAINC_XPULP_BELOW_LINE(of, x24, x25, x26, x27, x28, x29)
#define TRAINC_XPULP_BELOW_B(of) TRAINC_XPULP_BELOW_LINE(of, x25, x26, x24, x28, x29, x27)
#define TRAINC_XPULP_BELOW_C(of) TRAINC_XPULP_BELOW_LINE(of, x26, x24, x25, x29, x27, x28)
#define TRAINC_XPULP_BELOW_THREE \
    TRAINC_XPULP_BELOW_A(TRAINC_XPULP_SDOT) TRAINC_XPULP_BELOW_LAST(TRAINC_XPULP_SDOT, x29) \
    TRAINC_XPULP_BELOW_B(TRAINC_XPULP_SDOT) TRAINC_XPULP_BELOW_LAST(TRAINC_XPULP_SDOT, x27) \
    TRAINC_XPULP_BELOW_C(TRAINC_XPULP_SDOT)
/* What comes before whole threes of lines: two lines of the copies, then one, two or three lines. */
#define TRAINC_XPULP_BELOW_ABOVE(a, b, d, e) \
    TRAINC_XPULP_LW(a, x11, x9) TRAINC_XPULP_LW(b, x11, x9) \
    TRAINC_XPULP_LW(d, x11, x5) TRAINC_XPULP_LW(e, x11, x5)
#define TRAINC_XPULP_BELOW_1(of) \
    TRAINC_XPULP_BELOW_ABOVE(x26, x24, x29, x27) \
    TRAINC_XPULP_BELOW_C(of) TRAINC_XPULP_BELOW_LAST(of, x28)
#define TRAINC_XPULP_BELOW_2(of) \
    TRAINC_XPULP_BELOW_ABOVE(x25, x26, x28, x29) \
    TRAINC_XPULP_BELOW_B(of) TRAINC_XPULP_BELOW_LAST(of, x27) \
    TRAINC_XPULP_BELOW_C(TRAINC_XPULP_SDOT) TRAINC_XPULP_BELOW_LAST(TRAINC_XPULP_SDOT, x28)
#define TRAINC_XPULP_BELOW_3(of) \
    TRAINC_XPULP_BELOW_ABOVE(x24, x25, x27, x28) \
    TRAINC_XPULP_BELOW_A(of) TRAINC_XPULP_BELOW_LAST(of, x29) \
    TRAINC_XPULP_BELOW_B(TRAINC_XPULP_SDOT) TRAINC_XPULP_BELOW_LAST(TRAINC_XPULP_SDOT, x27) \
    TRAINC_XPULP_BELOW_C(TRAINC_XPULP_SDOT) TRAINC_XPULP_BELOW_LAST(TRAINC_XPULP_SDOT, x28)
#define TRAINC_XPULP_BELOW_WORD(lines, of) \
    lines(of) TRAINC_XPULP_LOOP(0, 1, 9) TRAINC_XPULP_BELOW_THREE \
    "9: " TRAINC_XPULP_BELOW_LAST(TRAINC_XPULP_SDOT, x28) "add x9, x9, x6\n\t"
#define TRAINC_XPULP_BELOW_SIX(of, a, b, c, d, e, f) \
    of(a, x25, x24) of(b, x25, x24) of(c, x25, x24) of(d, x25, x24) of(e, x25, x24) of(f, x26, x24)
#define TRAINC_XPULP_BELOW_WIDTHS(a, b, c, d, e, f) \
    TRAINC_XPULP_WIDTH(a) TRAINC_XPULP_WIDTH(b) TRAINC_XPULP_WIDTH(c) \
    TRAINC_XPULP_WIDTH(d) TRAINC_XPULP_WIDTH(e) TRAINC_XPULP_WIDTH(f)
/* All pairs of rows; from zeros, or from the sums that are there. */
#define TRAINC_XPULP_MULTIPLY_BELOW(name, lines, of, ...) \
    static inline void name(struct trainc_xpulp_below *below) \
    { \
        register struct trainc_xpulp_below *x10 __asm__("x10") = below; \
        __asm__ volatile(TRAINC_XPULP_BEGIN "lw x7, 0(x10)\n\tlw x11, 4(x10)\n\tlw x6, 8(x10)\n\t" \
            "lw x9, 12(x10)\n\tlw x5, 16(x10)\n\tlw x1, 20(x10)\n\t7: " __VA_ARGS__ \
            TRAINC_XPULP_BELOW_WORD(lines, of) \
            "lw x30, 24(x10)\n\tadd x5, x5, x6\n\t" TRAINC_XPULP_LOOP(1, 30, 8) \
            TRAINC_XPULP_BELOW_WORD(lines, TRAINC_XPULP_SDOT) "8: add x5, x5, x6\n\t" \
            "lw x24, 28(x10)\n\tlw x25, 32(x10)\n\tlw x26, 36(x10)\n\tlw x28, 40(x10)\n\t" \
            TRAINC_XPULP_BELOW_SIX(TRAINC_XPULP_SW, x12, x13, x14, x15, x16, x17) \
            TRAINC_XPULP_BELOW_SIX(TRAINC_XPULP_SW, x18, x19, x20, x21, x22, x23) \
            TRAINC_XPULP_BELOW_WIDTHS(x12, x13, x14, x15, x16, x17) \
            TRAINC_XPULP_BELOW_WIDTHS(x18, x19, x20, x21, x22, x23) \
            "lw x30, 44(x10)\n\tsw x24, 28(x10)\n\tsw x28, 40(x10)\n\tsub x9, x9, x11\n\t" \
            "sub x5, x5, x11\n\tbne x7, x30, 7b\n\t.option pop" \
            : : "r"(x10) \
            : "x1", "x5", "x6", "x7", "x9", "x11", "x12", "x13", "x14", "x15", "x16", "x17", \
              "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", \
              "x30", "x31", "memory"); \
    }
#define TRAINC_XPULP_BELOW_SUMS \
    "lw x24, 28(x10)\n\tlw x25, 32(x10)\n\tlw x26, 36(x10)\n\t" \
    TRAINC_XPULP_BELOW_SIX(TRAINC_XPULP_LW, x12, x13, x14, x15, x16, x17) \
    TRAINC_XPULP_BELOW_SIX(TRAINC_XPULP_LW, x18, x19, x20, x21, x22, x23)
#define TRAINC_XPULP_MULTIPLY_BELOW_BOTH(lines) \
    TRAINC_XPULP_MULTIPLY_BELOW(trainc_xpulp_multiply_below_##lines, TRAINC_XPULP_BELOW_##lines, \
        TRAINC_XPULP_DOT, ) \
    TRAINC_XPULP_MULTIPLY_BELOW(trainc_xpulp_add_below_##lines, TRAINC_XPULP_BELOW_##lines, \
        TRAINC_XPULP_SDOT, TRAINC_XPULP_BELOW_SUMS)
TRAINC_XPULP_MULTIPLY_BELOW_BOTH(1)
TRAINC_XPULP_MULTIPLY_BELOW_BOTH(2)
TRAINC_XPULP_MULTIPLY_BELOW_BOTH(3)

static TRAINC_XPULP_INLINE void trainc_xpulp_all_below(struct trainc_xpulp_below *below, int32_t rows,
    int32_t adds)
{
    /* Of these there are some before whole threes, so that there is at least one of the latter. */
    const int32_t lines = (rows - 1) % 3;
    below->threes = (rows - 1) / 3;
    if (adds) {
        if (lines == 0) {
            trainc_xpulp_add_below_1(below);
        } else if (lines == 1) {
            trainc_xpulp_add_below_2(below);
        } else {
            trainc_xpulp_add_below_3(below);
        }
    } else if (lines == 0) {
        trainc_xpulp_multiply_below_1(below);
    } else if (lines == 1) {
        trainc_xpulp_multiply_below_2(below);
    } else {
        trainc_xpulp_multiply_below_3(below);
    }
}
#elif !defined(__OPTIMIZE_SIZE__)
static TRAINC_XPULP_INLINE void trainc_xpulp_all_below(struct trainc_xpulp_below *below, int32_t rows,
    int32_t adds)
{
    for (const int8_t *errors = below->errors; errors != below->behind; ) {
        int32_t sums[12];
        for (int32_t n = 0; n < 12; n++) {
            const int8_t *at = (n % 6 < 3 ? below->first : below->second) + n % 3 * below->down;
            const int8_t *error = errors + n / 6 * 4;
            uint32_t sum = 0;
            for (int32_t word = 0; word <= below->words; word++, at += below->turn + 2 * below->down) {
                for (int32_t row = 0; row < rows; row++, at += below->down, error += 8) {
#if defined(TRAINC_XPULP_BUILTINS)
                    sum = trainc_xpulp_sdotsp_b(sum, trainc_xpulp_load(error),
                        trainc_xpulp_load(at));
#else
                    for (int32_t k = 0; k < 4; k++) {
                        sum += (uint32_t)(error[k] * at[k]);
                    }
#endif
                }
            }
            sums[n] = (int32_t)sum;
        }
        errors += 8 * rows * (below->words + 1);
        for (int32_t n = 0; n < 12; n++) {
            const uint32_t sum = (uint32_t)sums[n] + (adds ? (uint32_t)*below->sums : 0);
            *below->sums = (int32_t)sum;
            below->sums += (n % 6 < 5 ? below->apart : below->jump) / 4;
            below->largest = trainc_xpulp_maxu(below->largest, trainc_xpulp_abs(sum));
        }
    }
}
#endif

#if !defined(__OPTIMIZE_SIZE__)
/* For some words of a line of two rows of errors each, all lines' pairs. */
static inline void trainc_xpulp_error_lines(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_shifted *const work = (const struct trainc_xpulp_shifted *)context;
    const int32_t bytes = work->rows * work->columns, words = work->columns >> 2;
    int32_t pair = begin / words, word = begin - pair * words;
    for (int32_t n = begin; n < end; n++) {
        const int8_t *const from = work->errors + 2 * pair * bytes + 4 * word;
        int8_t *const to = work->words + 8 * n * work->rows;
#if defined(TRAINC_XPULP_INSN)
        register const int8_t *x10 __asm__("x10") = from;
        register const int8_t *x11 __asm__("x11") = from + bytes;
        register int8_t *x12 __asm__("x12") = to;
        register int32_t x13 __asm__("x13") = work->columns;
        register int32_t x14 __asm__("x14") = work->rows;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 14, 9)
            TRAINC_XPULP_LW(x5, x13, x10) TRAINC_XPULP_LW(x6, x13, x11)
            TRAINC_XPULP_SWI(x5, 4, x12) "9: " TRAINC_XPULP_SWI(x6, 4, x12) ".option pop"
            : "+r"(x10), "+r"(x11), "+r"(x12) : "r"(x13), "r"(x14) : "x5", "x6", "memory");
#else
        for (int32_t row = 0; row < work->rows; row++) {
            trainc_xpulp_store(to + 8 * row, trainc_xpulp_load(from + row * work->columns));
            trainc_xpulp_store(to + 8 * row + 4,
                trainc_xpulp_load(from + bytes + row * work->columns));
        }
#endif
        if (++word == words) {
            word = 0;
            pair++;
        }
    }
}

/* Some pieces of two channels' columns of windows. */
static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_below(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_shifted *const work = (const struct trainc_xpulp_shifted *)context;
    const int32_t across = work->taps[1], bytes = work->rows * work->columns;
    const int32_t pieces = work->pieces, each = work->outputs / pieces;
    int32_t pair = begin / pieces / across, right = begin / pieces - pair * across;
    int32_t piece = begin - (pair * across + right) * pieces;
    for (int32_t n = begin; n < end; n++) {
        struct trainc_xpulp_below below;
        below.errors = work->words + piece * each * bytes;
        below.down = work->columns;
        below.turn = 4 - (work->rows + 2) * work->columns;
        below.first = work->copies + (2 * pair * across + right) * work->copy;
        below.second = below.first + across * work->copy;
        below.words = (work->columns >> 2) - 1;
        below.sums = work->sums + 3 * (piece * each * work->channels + 2 * pair) * across + right;
        below.apart = 4 * across;
        below.jump = 4 * (3 * work->channels - 5) * across;
        below.largest = 0;
        below.behind = below.errors + each * bytes;
        trainc_xpulp_all_below(&below, work->rows, work->adds);
        work->largest[n] = trainc_xpulp_maxu(work->adds ? 0 : work->largest[n], below.largest);
        if (++piece == pieces) {
            piece = 0;
            if (++right == across) {
                right = 0;
                pair++;
            }
        }
    }
}
#else
static inline void trainc_xpulp_error_lines(void *context, int32_t begin, int32_t end)
{
    trainc_xpulp_error_words(context, begin, end);
}

static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_below(void *context, int32_t begin, int32_t end)
{
    trainc_xpulp_multiply_shifted(context, begin, end);
}
#endif

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
