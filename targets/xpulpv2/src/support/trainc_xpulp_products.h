/* Products of 8-bit integers: sums [rows][lanes] of the products of two sets of vectors, whose
 * bytes lie in words; and what makes vectors of tensors.
 *
 * Rows and lanes are taken four at a time: a tile is 4 by 4 sums. Sets are filled up to whole tiles
 * and vectors to whole words, by zeros. */
#ifndef TRAINC_XPULP_PRODUCTS_H
#define TRAINC_XPULP_PRODUCTS_H

#include "trainc_rt.h"
#include "trainc_xpulp.h"

/* A tile, and where its sums go. Strides are in bytes. */
struct trainc_xpulp_tile {
    const int8_t *rows, *lanes;
    /* Of vectors to the next. */
    int32_t stride;
    int32_t words;
    /* Sums to add to. */
    const int32_t *start;
    int32_t start_stride;
    int32_t *sums;
    int32_t sums_stride;
    /* The bits of the magnitudes of all sums so far. */
    uint32_t bits;
};

#if defined(TRAINC_XPULP_INSN)
#define TRAINC_XPULP_BEGIN \
    ".balign 4\n\t.option push\n\t.option norvc\n\t.option norelax\n\t"
/* A hardware loop from the next instruction up to and with that at the label; count is the number
 * of a register. At least three instructions, at least one round. */
#define TRAINC_XPULP_LOOP(loop, count, label) \
    ".4byte 0x407b | (" #loop " << 7) | (" #count " << 15) | (((" #label "f - .) / 2) << 20)\n\t"
/* Loads and stores that move the pointer on, by a register or a number. */
#define TRAINC_XPULP_LW(rd, step, at) ".insn r 0x0b, 7, 0x10, " #rd ", " #at ", " #step "\n\t"
#define TRAINC_XPULP_LWI(rd, step, at) ".insn i 0x0b, 2, " #rd ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_LHI(rd, step, at) ".insn i 0x0b, 5, " #rd ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_LBI(rd, step, at) ".insn i 0x0b, 4, " #rd ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_SWI(rs, step, at) ".insn s 0x2b, 2, " #rs ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_SHI(rs, step, at) ".insn s 0x2b, 1, " #rs ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_SBI(rs, step, at) ".insn s 0x2b, 0, " #rs ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_SDOT(rd, a, b) ".insn r 0x57, 1, 0x5c, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_SCALAR(funct3, rd, a, b) \
    ".insn r 0x33, " #funct3 ", 0x02, " #rd ", " #a ", " #b "\n\t"

/* Sums of a row from x5 on, by x6. */
#define TRAINC_XPULP_START(a, b, c, d) \
    "lw " #a ", 0(x5)\n\tlw " #b ", 4(x5)\n\tlw " #c ", 8(x5)\n\tlw " #d ", 12(x5)\n\t" \
    "add x5, x5, x6\n\t"
/* A word of each row, in x28 to x31, by one of a lane. */
#define TRAINC_XPULP_LANE(a, b, c, d, word) \
    TRAINC_XPULP_SDOT(a, x28, word) TRAINC_XPULP_SDOT(b, x29, word) \
    TRAINC_XPULP_SDOT(c, x30, word) TRAINC_XPULP_SDOT(d, x31, word)
#define TRAINC_XPULP_WIDTH(a) TRAINC_XPULP_SCALAR(0, x5, a, x0) "or x11, x11, x5\n\t"
#define TRAINC_XPULP_STORE(a, b, c, d) \
    "sw " #a ", 0(x7)\n\tsw " #b ", 4(x7)\n\tsw " #c ", 8(x7)\n\tsw " #d ", 12(x7)\n\t" \
    "add x7, x7, x9\n\t" TRAINC_XPULP_WIDTH(a) TRAINC_XPULP_WIDTH(b) TRAINC_XPULP_WIDTH(c) \
    TRAINC_XPULP_WIDTH(d)

/* 24 instructions for 64 products. */
static inline void trainc_xpulp_multiply(struct trainc_xpulp_tile *tile)
{
    register struct trainc_xpulp_tile *x10 __asm__("x10") = tile;
    __asm__ volatile(TRAINC_XPULP_BEGIN
        "lw x5, 16(x10)\n\tlw x6, 20(x10)\n\tlw x7, 0(x10)\n\tlw x9, 4(x10)\n\tlw x11, 8(x10)\n\t"
        TRAINC_XPULP_START(x12, x13, x14, x15) TRAINC_XPULP_START(x16, x17, x18, x19)
        TRAINC_XPULP_START(x20, x21, x22, x23) TRAINC_XPULP_START(x24, x25, x26, x27)
        "lw x5, 12(x10)\n\t"
        "slli x1, x11, 1\n\tadd x1, x1, x11\n\tneg x1, x1\n\taddi x1, x1, 4\n\t"
        TRAINC_XPULP_LOOP(0, 5, 9)
        TRAINC_XPULP_LW(x28, x11, x7) TRAINC_XPULP_LW(x29, x11, x7)
        TRAINC_XPULP_LW(x30, x11, x7) TRAINC_XPULP_LW(x31, x1, x7)
        TRAINC_XPULP_LW(x5, x11, x9) TRAINC_XPULP_LW(x6, x11, x9)
        TRAINC_XPULP_LANE(x12, x16, x20, x24, x5)
        TRAINC_XPULP_LW(x5, x11, x9)
        TRAINC_XPULP_LANE(x13, x17, x21, x25, x6)
        TRAINC_XPULP_LW(x6, x1, x9)
        TRAINC_XPULP_LANE(x14, x18, x22, x26, x5)
        TRAINC_XPULP_SDOT(x15, x28, x6) TRAINC_XPULP_SDOT(x19, x29, x6)
        TRAINC_XPULP_SDOT(x23, x30, x6) "9: " TRAINC_XPULP_SDOT(x27, x31, x6)
        "lw x7, 24(x10)\n\tlw x9, 28(x10)\n\tlw x11, 32(x10)\n\t"
        TRAINC_XPULP_STORE(x12, x13, x14, x15) TRAINC_XPULP_STORE(x16, x17, x18, x19)
        TRAINC_XPULP_STORE(x20, x21, x22, x23) TRAINC_XPULP_STORE(x24, x25, x26, x27)
        "sw x11, 32(x10)\n\t"
        ".option pop"
        : : "r"(x10)
        : "x1", "x5", "x6", "x7", "x9", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18",
          "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "x31",
          "memory");
}

/* A word, the rest of a piece, and the gap behind it. */
#define TRAINC_XPULP_PIECES(words, loads, stores) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 13, 8) \
        words loads stores "8: add x10, x10, x12\n\t.option pop" \
        : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), "r"(x14) : "x5", "x6", "x7", "memory")
#define TRAINC_XPULP_WORDS \
    TRAINC_XPULP_LOOP(0, 14, 9) TRAINC_XPULP_LWI(x5, 4, x10) "nop\n\t" \
    "9: " TRAINC_XPULP_SWI(x5, 4, x11)
#define TRAINC_XPULP_LW1 TRAINC_XPULP_LWI(x5, 4, x10)
#define TRAINC_XPULP_SW1 TRAINC_XPULP_SWI(x5, 4, x11)
#define TRAINC_XPULP_LH1 TRAINC_XPULP_LHI(x6, 2, x10)
#define TRAINC_XPULP_SH1 TRAINC_XPULP_SHI(x6, 2, x11)
#define TRAINC_XPULP_LB1 TRAINC_XPULP_LBI(x7, 1, x10)
#define TRAINC_XPULP_SB1 TRAINC_XPULP_SBI(x7, 1, x11)

/* Copies pieces of some bytes, which lie stride apart, to places one behind the other; gives the
 * place behind the last. */
static inline int8_t *trainc_xpulp_pieces(const int8_t *from, int32_t stride, int32_t count,
    int32_t bytes, int8_t *to)
{
    register const int8_t *x10 __asm__("x10") = from;
    register int8_t *x11 __asm__("x11") = to;
    register int32_t x12 __asm__("x12") = stride - bytes;
    register int32_t x13 __asm__("x13") = count;
    register int32_t x14 __asm__("x14") = bytes >> 2;
    if (x14 >= 2) {
        switch (bytes & 3) {
        case 0: TRAINC_XPULP_PIECES(TRAINC_XPULP_WORDS, , ); break;
        case 1:
            TRAINC_XPULP_PIECES(TRAINC_XPULP_WORDS, TRAINC_XPULP_LB1, TRAINC_XPULP_SB1);
            break;
        case 2:
            TRAINC_XPULP_PIECES(TRAINC_XPULP_WORDS, TRAINC_XPULP_LH1, TRAINC_XPULP_SH1);
            break;
        default:
            TRAINC_XPULP_PIECES(TRAINC_XPULP_WORDS, TRAINC_XPULP_LH1 TRAINC_XPULP_LB1,
                TRAINC_XPULP_SH1 TRAINC_XPULP_SB1);
        }
        return x11;
    }
    switch (bytes) {
    case 1: TRAINC_XPULP_PIECES(, TRAINC_XPULP_LB1, TRAINC_XPULP_SB1); break;
    case 2: TRAINC_XPULP_PIECES(, TRAINC_XPULP_LH1, TRAINC_XPULP_SH1); break;
    case 3:
        TRAINC_XPULP_PIECES(, TRAINC_XPULP_LH1 TRAINC_XPULP_LB1, TRAINC_XPULP_SH1 TRAINC_XPULP_SB1);
        break;
    case 4: TRAINC_XPULP_PIECES(, TRAINC_XPULP_LW1, TRAINC_XPULP_SW1); break;
    case 5:
        TRAINC_XPULP_PIECES(, TRAINC_XPULP_LW1 TRAINC_XPULP_LB1, TRAINC_XPULP_SW1 TRAINC_XPULP_SB1);
        break;
    case 6:
        TRAINC_XPULP_PIECES(, TRAINC_XPULP_LW1 TRAINC_XPULP_LH1, TRAINC_XPULP_SW1 TRAINC_XPULP_SH1);
        break;
    default:
        TRAINC_XPULP_PIECES(, TRAINC_XPULP_LW1 TRAINC_XPULP_LH1 TRAINC_XPULP_LB1,
            TRAINC_XPULP_SW1 TRAINC_XPULP_SH1 TRAINC_XPULP_SB1);
    }
    return x11;
}

/* The same by planes: an inner and an outer loop. */
#define TRAINC_XPULP_PLANES(loads, stores) \
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 14, 8) TRAINC_XPULP_LOOP(0, 13, 9) \
        loads stores "9: add x10, x10, x12\n\t" "8: add x10, x10, x15\n\t.option pop" \
        : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), "r"(x14), "r"(x15) \
        : "x5", "x6", "x7", "memory")

/* trainc_xpulp_pieces of less than 8 bytes, from some planes. */
static inline void trainc_xpulp_planes(const int8_t *from, int32_t plane, int32_t planes,
    int32_t stride, int32_t count, int32_t bytes, int8_t *to)
{
    register const int8_t *x10 __asm__("x10") = from;
    register int8_t *x11 __asm__("x11") = to;
    register int32_t x12 __asm__("x12") = stride - bytes;
    register int32_t x13 __asm__("x13") = count;
    register int32_t x14 __asm__("x14") = planes;
    register int32_t x15 __asm__("x15") = plane - count * stride;
    switch (bytes) {
    case 1: TRAINC_XPULP_PLANES(TRAINC_XPULP_LB1, TRAINC_XPULP_SB1); break;
    case 2: TRAINC_XPULP_PLANES(TRAINC_XPULP_LH1, TRAINC_XPULP_SH1); break;
    case 3:
        TRAINC_XPULP_PLANES(TRAINC_XPULP_LH1 TRAINC_XPULP_LB1, TRAINC_XPULP_SH1 TRAINC_XPULP_SB1);
        break;
    case 4: TRAINC_XPULP_PLANES(TRAINC_XPULP_LW1, TRAINC_XPULP_SW1); break;
    case 5:
        TRAINC_XPULP_PLANES(TRAINC_XPULP_LW1 TRAINC_XPULP_LB1, TRAINC_XPULP_SW1 TRAINC_XPULP_SB1);
        break;
    case 6:
        TRAINC_XPULP_PLANES(TRAINC_XPULP_LW1 TRAINC_XPULP_LH1, TRAINC_XPULP_SW1 TRAINC_XPULP_SH1);
        break;
    default:
        TRAINC_XPULP_PLANES(TRAINC_XPULP_LW1 TRAINC_XPULP_LH1 TRAINC_XPULP_LB1,
            TRAINC_XPULP_SW1 TRAINC_XPULP_SH1 TRAINC_XPULP_SB1);
    }
}
#else
static inline void trainc_xpulp_multiply(struct trainc_xpulp_tile *tile)
{
    for (int32_t row = 0; row < 4; row++) {
        for (int32_t lane = 0; lane < 4; lane++) {
            const int8_t *const a = tile->rows + row * tile->stride;
            const int8_t *const b = tile->lanes + lane * tile->stride;
            uint32_t sum = (uint32_t)tile->start[row * (tile->start_stride / 4) + lane];
#if defined(TRAINC_XPULP_BUILTINS)
            for (int32_t i = 0; i < 4 * tile->words; i += 4) {
                sum = trainc_xpulp_sdotsp_b(sum, trainc_xpulp_load(a + i), trainc_xpulp_load(b + i));
            }
#else
            for (int32_t i = 0; i < 4 * tile->words; i++) {
                sum += (uint32_t)(a[i] * b[i]);
            }
#endif
            tile->sums[row * (tile->sums_stride / 4) + lane] = (int32_t)sum;
            tile->bits |= trainc_xpulp_abs(sum);
        }
    }
}

static inline int8_t *trainc_xpulp_pieces(const int8_t *from, int32_t stride, int32_t count,
    int32_t bytes, int8_t *to)
{
    for (; count > 0; count--, from += stride) {
        for (int32_t i = 0; i < bytes; i++) {
            *to++ = from[i];
        }
    }
    return to;
}

static inline void trainc_xpulp_planes(const int8_t *from, int32_t plane, int32_t planes,
    int32_t stride, int32_t count, int32_t bytes, int8_t *to)
{
    for (; planes > 0; planes--, from += plane) {
        to = trainc_xpulp_pieces(from, stride, count, bytes, to);
    }
}
#endif

/* Vectors that are pieces of a volume: vector (a, b, c) starts at the sum of a, b and c by their
 * strides; element (a, b, c) of it lies as far from there as the sum of these by theirs. */
struct trainc_xpulp_windows {
    int32_t vectors[2], vector_strides[3];
    int32_t counts[3], strides[3];
};

/* What the vectors of a set are: in words already; rows of a matrix, or its columns; pieces of a
 * volume; input channels of a convolution's weights, by output channels and taps in reverse. */
enum trainc_xpulp_kind {
    TRAINC_XPULP_IN_PLACE,
    TRAINC_XPULP_ROWS,
    TRAINC_XPULP_COLUMNS,
    TRAINC_XPULP_WINDOWS,
    TRAINC_XPULP_CHANNELS
};

/* A set of vectors. */
struct trainc_xpulp_set {
    enum trainc_xpulp_kind kind;
    const int8_t *from;
    /* Vectors; their elements; bytes of a vector in words. */
    int32_t count, length, bytes;
    /* Of the matrix' rows, or of the weights' output channels. */
    int32_t stride;
    /* Of a channel. */
    int32_t taps;
    const struct trainc_xpulp_windows *windows;
};

/* Four columns as vectors. */
static inline void trainc_xpulp_columns(const int8_t *from, int32_t stride, int32_t length,
    int8_t *to, int32_t bytes)
{
    int32_t i = 0;
    for (; i + 4 <= length; i += 4) {
        const uint32_t a = trainc_xpulp_load(from), b = trainc_xpulp_load(from + stride);
        const uint32_t c = trainc_xpulp_load(from + 2 * stride);
        const uint32_t d = trainc_xpulp_load(from + 3 * stride);
        const uint32_t ab0 = trainc_xpulp_shuffle2_b(a, b, 0x05010400);
        const uint32_t ab1 = trainc_xpulp_shuffle2_b(a, b, 0x07030602);
        const uint32_t cd0 = trainc_xpulp_shuffle2_b(c, d, 0x05010400);
        const uint32_t cd1 = trainc_xpulp_shuffle2_b(c, d, 0x07030602);
        trainc_xpulp_store(to + i, trainc_xpulp_pack_h(cd0, ab0));
        trainc_xpulp_store(to + bytes + i, trainc_xpulp_shuffle2_b(ab0, cd0, 0x07060302));
        trainc_xpulp_store(to + 2 * bytes + i, trainc_xpulp_pack_h(cd1, ab1));
        trainc_xpulp_store(to + 3 * bytes + i, trainc_xpulp_shuffle2_b(ab1, cd1, 0x07060302));
        from += 4 * stride;
    }
    for (; i < length; i++, from += stride) {
        for (int32_t l = 0; l < 4; l++) {
            to[l * bytes + i] = from[l];
        }
    }
}

static inline void trainc_xpulp_window(const struct trainc_xpulp_windows *w, const int8_t *from,
    int8_t *to)
{
    if (w->strides[2] == 1 && w->counts[2] < 8) {
        trainc_xpulp_planes(from, w->strides[0], w->counts[0], w->strides[1], w->counts[1],
            w->counts[2], to);
        return;
    }
    for (int32_t a = 0; a < w->counts[0]; a++, from += w->strides[0]) {
        if (w->strides[2] == 1) {
            to = trainc_xpulp_pieces(from, w->strides[1], w->counts[1], w->counts[2], to);
            continue;
        }
        for (int32_t b = 0; b < w->counts[1]; b++) {
            const int8_t *at = from + b * w->strides[1];
            for (int32_t c = 0; c < w->counts[2]; c++, at += w->strides[2]) {
                *to++ = *at;
            }
        }
    }
}

/* Some windows from number n on, vectors of that many bytes. */
static inline void trainc_xpulp_windows_from(const struct trainc_xpulp_windows *w,
    const int8_t *from, int32_t n, int32_t count, int8_t *to, int32_t bytes)
{
    int32_t a = 0, b = n / w->vectors[1], c = n - b * w->vectors[1];
    if (b >= w->vectors[0]) {
        a = b / w->vectors[0];
        b -= a * w->vectors[0];
    }
    for (; count > 0; count--, to += bytes) {
        trainc_xpulp_window(w, from + a * w->vector_strides[0] + b * w->vector_strides[1]
            + c * w->vector_strides[2], to);
        if (++c == w->vectors[1]) {
            c = 0;
            if (++b == w->vectors[0]) {
                b = 0;
                a++;
            }
        }
    }
}

/* Vector number `n` of a set that has it and is none of windows. */
static inline void trainc_xpulp_vector(const struct trainc_xpulp_set *set, int32_t n, int8_t *to)
{
    const int8_t *from = set->from;
    switch (set->kind) {
    case TRAINC_XPULP_COLUMNS:
        for (int32_t i = 0; i < set->length; i++) {
            to[i] = from[n + i * set->stride];
        }
        break;
    case TRAINC_XPULP_CHANNELS:
        for (int32_t i = 0; i < set->length; i += set->taps) {
            for (int32_t tap = 0; tap < set->taps; tap++) {
                to[i + tap] = from[(n + 1) * set->taps - 1 - tap];
            }
            from += set->stride;
        }
        break;
    default:
        trainc_xpulp_pieces(from + n * set->stride, 0, 1, set->length, to);
    }
}

/* The four vectors of a tile. */
static inline void trainc_xpulp_pack(const struct trainc_xpulp_set *set, int32_t tile, int8_t *to)
{
    const int32_t bytes = set->bytes, left = set->count - 4 * tile;
    for (int32_t l = 0; l < 4; l++) {
        /* All of a vector that is none, of others the last word. */
        for (int32_t i = l < left ? set->length & ~3 : 0; i < bytes; i += 4) {
            trainc_xpulp_store(to + l * bytes + i, 0);
        }
    }
    if (set->kind == TRAINC_XPULP_COLUMNS && left >= 4) {
        trainc_xpulp_columns(set->from + 4 * tile, set->stride, set->length, to, bytes);
        return;
    }
    if (set->kind == TRAINC_XPULP_WINDOWS) {
        trainc_xpulp_windows_from(set->windows, set->from, 4 * tile, left < 4 ? left : 4, to, bytes);
        return;
    }
    for (int32_t l = 0; l < 4 && l < left; l++) {
        trainc_xpulp_vector(set, 4 * tile + l, to + l * bytes);
    }
}

/* The packing of a set. */
struct trainc_xpulp_packing {
    struct trainc_xpulp_set set;
    int8_t *to;
};

/* Packs some of a set's tiles. */
static inline void trainc_xpulp_pack_tiles(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_packing *const work = (const struct trainc_xpulp_packing *)context;
    for (int32_t tile = begin; tile < end; tile++) {
        trainc_xpulp_pack(&work->set, tile, work->to + 4 * tile * work->set.bytes);
    }
}

/* The product of two sets. */
struct trainc_xpulp_product {
    /* In words, as long as the lanes'. */
    const int8_t *rows;
    int32_t row_tiles;
    struct trainc_xpulp_set lanes;
    /* Room for the lanes, if they are not in place. */
    int8_t *packed;
    /* [rows][lanes], whole tiles each; whether to add to them. */
    int32_t *sums;
    int32_t sums_stride, adds;
    /* The bits of the sums' magnitudes, by tiles of lanes. */
    uint32_t *bits;
};

static const int32_t trainc_xpulp_zeros[4] = { 0, 0, 0, 0 };

/* Some tiles of lanes by all rows. */
static inline void trainc_xpulp_multiply_tiles(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_product *const work = (const struct trainc_xpulp_product *)context;
    const int32_t bytes = work->lanes.bytes;
    for (int32_t n = begin; n < end; n++) {
        struct trainc_xpulp_tile tile;
        if (work->lanes.kind == TRAINC_XPULP_IN_PLACE) {
            tile.lanes = work->lanes.from + 4 * n * bytes;
        } else {
            /* Nobody else has the room of this range's first tile. */
            int8_t *const packed = work->packed + 4 * begin * bytes;
            trainc_xpulp_pack(&work->lanes, n, packed);
            tile.lanes = packed;
        }
        tile.rows = work->rows;
        tile.stride = bytes;
        tile.words = bytes >> 2;
        tile.sums = work->sums + 4 * n;
        tile.sums_stride = 4 * work->sums_stride;
        tile.start = work->adds ? tile.sums : trainc_xpulp_zeros;
        tile.start_stride = work->adds ? tile.sums_stride : 0;
        tile.bits = 0;
        for (int32_t row = 0; row < work->row_tiles; row++) {
            trainc_xpulp_multiply(&tile);
            tile.rows += 4 * bytes;
            tile.sums += work->sums_stride * 4;
            tile.start = work->adds ? tile.sums : tile.start;
        }
        work->bits[n] = (work->adds ? 0 : work->bits[n]) | tile.bits;
    }
}

/* A volume with room around its planes, and between its elements, of zeros. */
struct trainc_xpulp_volume {
    const int8_t *from;
    int8_t *to;
    int32_t height, width, down, right;
    /* Bytes of a row and of a plane there, and of what is above and left of the first element. */
    int32_t row, plane, before;
};

static inline void trainc_xpulp_zero(void *to, int32_t bytes)
{
    uint8_t *const at = (uint8_t *)to;
    int32_t i = 0;
    for (; i + 4 <= bytes; i += 4) {
        trainc_xpulp_store(at + i, 0);
    }
    for (; i < bytes; i++) {
        at[i] = 0;
    }
}

/* Places some planes; the rest was set to zeros before. */
static inline void trainc_xpulp_place_planes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_volume *const work = (const struct trainc_xpulp_volume *)context;
    for (int32_t n = begin; n < end; n++) {
        const int8_t *from = work->from + n * work->height * work->width;
        int8_t *to = work->to + n * work->plane + work->before;
        for (int32_t h = 0; h < work->height; h++, from += work->width, to += work->down) {
            if (work->right == 1) {
                trainc_xpulp_pieces(from, 0, 1, work->width, to);
                continue;
            }
            for (int32_t w = 0; w < work->width; w++) {
                to[w * work->right] = from[w];
            }
        }
    }
}

#endif
