/* Convolutions of each channel by itself whose taps lie apart or are many: of each plane a copy with room around its
 * elements, and of that one of words, each of which holds four taps of a window; a window's other taps lie in words
 * further on. */
#ifndef TRAINC_XPULP_DEPTHWISE_APART_H
#define TRAINC_XPULP_DEPTHWISE_APART_H

#include "trainc_xpulp_depthwise.h"

/* Words of a window that are taken at once. */
#define TRAINC_XPULP_WORDS_AT_ONCE 3

struct trainc_xpulp_depthwise_apart {
    /* Behind each copy of x one of words. */
    struct trainc_xpulp_depthwise planes;
    /* Taps that words hold, weights and bytes of a copy from one to the next; and how many such rows there are, weights
     * and words from one to the next. */
    int32_t inner, inner_weight, inner_step, outer, outer_weight, outer_step;
    /* Words from four taps to the next four; rows of words, rows of a copy from one to the next, and rows of words from
     * a row of windows to the next. */
    int32_t four_taps, word_rows, word_step, window_step;
};

/* Words of a plane: those of a place hold its element and up to three that lie one, two and three steps further on. */
static inline void trainc_xpulp_words_of_taps(const struct trainc_xpulp_depthwise_apart *work,
    const int8_t *copy, uint32_t *words)
{
    const int8_t *from[4];
    for (int32_t i = 0; i < 4; i++) {
        /* Others count nothing. */
        const int32_t tap = work->inner <= 4 ? trainc_minimum32(i, work->inner - 1) : i;
        from[i] = copy + tap * work->inner_step;
    }
#if defined(TRAINC_XPULP_INSN)
    /* 18 instructions for four words. */
    register const int8_t *x10 __asm__("x10") = from[0];
    register const int8_t *x11 __asm__("x11") = from[1];
    register const int8_t *x12 __asm__("x12") = from[2];
    register const int8_t *x13 __asm__("x13") = from[3];
    register uint32_t *x14 __asm__("x14") = words;
    register int32_t x15 __asm__("x15") = work->word_rows;
    register int32_t x16 __asm__("x16") = work->planes.row >> 2;
    register int32_t x17 __asm__("x17") = (work->word_step - 1) * work->planes.row;
    register uint32_t x18 __asm__("x18") = 0x05010400;
    register uint32_t x19 __asm__("x19") = 0x07030602;
    register uint32_t x20 __asm__("x20") = 0x07060302;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 15, 8) TRAINC_XPULP_LOOP(0, 16, 9)
        TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11) TRAINC_XPULP_LWI(x7, 4, x12)
        TRAINC_XPULP_LWI(x28, 4, x13) "mv x29, x5\n\tmv x30, x7\n\t"
        TRAINC_XPULP_PV(1, 0x64, x29, x6, x18) TRAINC_XPULP_PV(1, 0x64, x30, x28, x18)
        TRAINC_XPULP_PV(1, 0x64, x5, x6, x19) TRAINC_XPULP_PV(1, 0x64, x7, x28, x19)
        TRAINC_XPULP_PV(0, 0x68, x6, x30, x29) TRAINC_XPULP_PV(0, 0x68, x28, x7, x5)
        TRAINC_XPULP_PV(1, 0x64, x29, x30, x20) TRAINC_XPULP_PV(1, 0x64, x5, x7, x20)
        TRAINC_XPULP_SWI(x6, 4, x14) TRAINC_XPULP_SWI(x29, 4, x14) TRAINC_XPULP_SWI(x28, 4, x14)
        "9: " TRAINC_XPULP_SWI(x5, 4, x14)
        "add x10, x10, x17\n\tadd x11, x11, x17\n\tadd x12, x12, x17\n\t8: add x13, x13, x17\n\t"
        ".option pop"
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x13), "+r"(x14)
        : "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19), "r"(x20)
        : "x5", "x6", "x7", "x28", "x29", "x30", "memory");
#else
    for (int32_t row = 0; row < work->word_rows; row++) {
        const int32_t at = row * work->word_step * work->planes.row;
        for (int32_t i = 0; i < work->planes.row; i++) {
            uint32_t word = 0;
            for (int32_t byte = 0; byte < 4; byte++) {
                word |= (uint32_t)(uint8_t)from[byte][at + i] << (8 * byte);
            }
            *words++ = word;
        }
    }
#endif
}

/* Some words of all windows of a plane, and their weights. */
struct trainc_xpulp_windows_by_words {
    const uint32_t *words[TRAINC_XPULP_WORDS_AT_ONCE];
    uint32_t weights[TRAINC_XPULP_WORDS_AT_ONCE];
    /* Bytes from a window to the next, and from the end of a row of them to the next. */
    int32_t right, down;
    int32_t rows, columns;
    int32_t *sums;
};

#if defined(TRAINC_XPULP_INSN)
#define TRAINC_XPULP_WINDOWS_BY_WORDS(old, first) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 14, 8) TRAINC_XPULP_LOOP(0, 17, 9) \
        old TRAINC_XPULP_LW(x5, x15, x10) TRAINC_XPULP_LW(x6, x15, x11) \
        TRAINC_XPULP_LW(x7, x15, x12) \
        first(x22, x5, x18) TRAINC_XPULP_SDOT(x22, x6, x19) TRAINC_XPULP_SDOT(x22, x7, x20) \
        "9: " TRAINC_XPULP_SWI(x22, 4, x13) \
        "add x10, x10, x16\n\tadd x11, x11, x16\n\t8: add x12, x12, x16\n\t.option pop" \
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x13) \
        : "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19), "r"(x20) \
        : "x5", "x6", "x7", "x22", "memory")
#define TRAINC_XPULP_WINDOWS_BY_ONE(old, first) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 14, 8) TRAINC_XPULP_LOOP(0, 17, 9) \
        TRAINC_XPULP_LW(x5, x15, x10) old \
        first(x22, x5, x18) \
        "9: " TRAINC_XPULP_SWI(x22, 4, x13) \
        "nop\n\tnop\n\t8: add x10, x10, x16\n\t.option pop" \
        : "+r"(x10), "+r"(x13) \
        : "r"(x14), "r"(x15), "r"(x16), "r"(x17), "r"(x18) \
        : "x5", "x22", "memory")

/* Seven instructions for a window where sums begin, eight where they go on; of one word four. */
static inline void trainc_xpulp_windows_by_words(const struct trainc_xpulp_windows_by_words *work,
    int32_t count, int32_t begins)
{
    register const uint32_t *x10 __asm__("x10") = work->words[0];
    register const uint32_t *x11 __asm__("x11") = work->words[1];
    register const uint32_t *x12 __asm__("x12") = work->words[2];
    register int32_t *x13 __asm__("x13") = work->sums;
    register int32_t x14 __asm__("x14") = work->rows;
    register int32_t x15 __asm__("x15") = work->right;
    register int32_t x16 __asm__("x16") = work->down;
    register int32_t x17 __asm__("x17") = work->columns;
    register uint32_t x18 __asm__("x18") = work->weights[0];
    register uint32_t x19 __asm__("x19") = work->weights[1];
    register uint32_t x20 __asm__("x20") = work->weights[2];
    if (count == 1 && begins) {
        TRAINC_XPULP_WINDOWS_BY_ONE("nop\n\t", TRAINC_XPULP_DOT);
    } else if (count == 1) {
        TRAINC_XPULP_WINDOWS_BY_ONE("lw x22, 0(x13)\n\t", TRAINC_XPULP_SDOT);
    } else if (begins) {
        TRAINC_XPULP_WINDOWS_BY_WORDS("", TRAINC_XPULP_DOT);
    } else {
        TRAINC_XPULP_WINDOWS_BY_WORDS("lw x22, 0(x13)\n\t", TRAINC_XPULP_SDOT);
    }
}
#else
static inline void trainc_xpulp_windows_by_words(const struct trainc_xpulp_windows_by_words *work,
    int32_t count, int32_t begins)
{
    for (int32_t i = 0; i < count; i++) {
        const int8_t *from = (const int8_t *)work->words[i];
        int32_t *to = work->sums;
        for (int32_t row = 0; row < work->rows; row++, from += work->down) {
            for (int32_t column = 0; column < work->columns; column++, from += work->right, to++) {
                const uint32_t old = begins && i == 0 ? 0 : (uint32_t)*to;
                *to = (int32_t)trainc_xpulp_sdotsp_b(old, trainc_xpulp_load(from), work->weights[i]);
            }
        }
    }
}
#endif

/* All windows of a plane. */
static inline void trainc_xpulp_depthwise_apart_plane(
    const struct trainc_xpulp_depthwise_apart *work, int32_t n, int32_t c, const uint32_t *words)
{
    const struct trainc_xpulp_depthwise *const planes = &work->planes;
    const int32_t taps = planes->taps[0] * planes->taps[1];
    const int8_t *const weights = planes->weights + c * taps;
    const int32_t count = (work->inner + 3) / 4 * work->outer;
    struct trainc_xpulp_windows_by_words windows;
    windows.right = 4 * planes->strides[1];
    windows.down = 4 * (work->window_step * planes->row - planes->columns * planes->strides[1]);
    windows.rows = planes->rows;
    windows.columns = planes->columns;
    windows.sums = planes->sums + n * planes->rows * planes->columns;
    int32_t outer = 0, inner = 0, taken = 0;
    for (int32_t word = 0; word < count; word++) {
        uint32_t bytes = 0;
        for (int32_t i = 0; i < 4 && inner + i < work->inner; i++) {
            const int32_t tap = (inner + i) * work->inner_weight + outer * work->outer_weight;
            bytes |= (uint32_t)(uint8_t)weights[planes->reverse ? taps - 1 - tap : tap] << (8 * i);
        }
        windows.words[taken] = words + inner / 4 * work->four_taps + outer * work->outer_step;
        windows.weights[taken++] = bytes;
        if (++outer == work->outer) {
            outer = 0;
            inner += 4;
        }
        if (taken == TRAINC_XPULP_WORDS_AT_ONCE || word + 1 == count) {
            const int32_t begins = word < TRAINC_XPULP_WORDS_AT_ONCE;
            /* Of two words three, the last of which counts nothing. */
            for (int32_t i = taken; i > 1 && i < TRAINC_XPULP_WORDS_AT_ONCE; i++) {
                windows.words[i] = words;
                windows.weights[i] = 0;
            }
            trainc_xpulp_windows_by_words(&windows, taken == 1 ? 1 : TRAINC_XPULP_WORDS_AT_ONCE,
                begins);
            taken = 0;
        }
    }
}

/* Convolutions of some parts' planes. */
static inline void trainc_xpulp_depthwise_apart_planes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_depthwise_apart *const work =
        (const struct trainc_xpulp_depthwise_apart *)context;
    const struct trainc_xpulp_depthwise *const planes = &work->planes;
    const int32_t count = planes->images * planes->channels;
    const int32_t size = planes->rows * planes->columns;
    for (int32_t part = begin; part < end; part++) {
        int8_t *const copy = planes->copies + part * (planes->x_copy + planes->other_copy);
        uint32_t *const words = (uint32_t *)(void *)(copy + planes->x_copy);
        const int32_t first = part * count / planes->parts;
        const int32_t last = (part + 1) * count / planes->parts;
        int32_t c = first % planes->channels;
        trainc_xpulp_zero(copy, planes->x_copy);
        for (int32_t n = first; n < last; n++) {
            trainc_xpulp_place(&planes->x, n, copy);
            trainc_xpulp_words_of_taps(work, copy, words);
            trainc_xpulp_depthwise_apart_plane(work, n, c, words);
            c = c + 1 < planes->channels ? c + 1 : 0;
        }
        planes->largest[part] =
            trainc_xpulp_largest_sum(planes->sums + first * size, (last - first) * size);
    }
}

#endif
