/* Products of 8-bit integers: sums [rows][lanes] of the products of two sets of vectors, whose
 * bytes lie in words; and what makes vectors of tensors.
 *
 * Rows and lanes are taken four at a time: a tile is 4 by 4 sums, of the last rows 1 or 2 by 4. Sets
 * are filled up to whole tiles and vectors to whole words, by zeros. */
#ifndef TRAINC_XPULP_PRODUCTS_H
#define TRAINC_XPULP_PRODUCTS_H

#include "trainc_rt.h"
#include "trainc_xpulp.h"

/* Of functions to which a kernel's numbers are known where they are called: by name, on one core. */
#if defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__) && !TRAINC_DIVIDED(1, 0)
#define TRAINC_XPULP_INLINE __attribute__((always_inline)) inline
#else
#define TRAINC_XPULP_INLINE inline
#endif

/* A tile, and where its sums go. Strides are in bytes; blocks of assembler know the places. */
struct trainc_xpulp_tile {
    const int8_t *rows, *lanes;
    /* Of vectors to the next. */
    int32_t stride;
    int32_t words;
    /* Sums to add to. */
    const int32_t *start;
    int32_t start_stride;
    int32_t *sums;
    /* From a row's sum of the last of four lanes to the next row's of the first. */
    int32_t next;
    /* The largest magnitude of all sums so far. */
    uint32_t largest;
    /* Of vectors in segments, of `words` each: how many; from the end of a lane's segment to its
     * next; from the end of a tile's last row word to the next tile's rows; the rows behind those of
     * tiles below each other; and from a word of the last lane to the next word of the first. */
    int32_t segments, jump, rest;
    const int8_t *behind;
    int32_t back;
    /* From a lane's sum to the next lane's, where these do not lie side by side. */
    int32_t apart;
    /* From the end of a segment of a tile's row words to the next, where taps are left out. */
    int32_t skip;
};

#if defined(TRAINC_XPULP_INSN)
/* Sums of a row from x5 on, by x6. */
#define TRAINC_XPULP_START(a, b, c, d) \
    "lw " #a ", 0(x5)\n\tlw " #b ", 4(x5)\n\tlw " #c ", 8(x5)\n\tlw " #d ", 12(x5)\n\t" \
    "add x5, x5, x6\n\t"
/* A word of each row, in x28 to x31, by one of a lane. */
#define TRAINC_XPULP_LANE(a, b, c, d, word) \
    TRAINC_XPULP_SDOT(a, x28, word) TRAINC_XPULP_SDOT(b, x29, word) \
    TRAINC_XPULP_SDOT(c, x30, word) TRAINC_XPULP_SDOT(d, x31, word)
/* Of all sums so far the largest magnitude is in x28. */
#define TRAINC_XPULP_WIDTH(a) TRAINC_XPULP_SCALAR(0, x29, a, x0) TRAINC_XPULP_SCALAR(7, x28, x28, x29)
#define TRAINC_XPULP_STORE(a, b, c, d) \
    TRAINC_XPULP_SWI(a, 4, x9) TRAINC_XPULP_SWI(b, 4, x9) TRAINC_XPULP_SWI(c, 4, x9) \
    TRAINC_XPULP_SW(d, x5, x9) TRAINC_XPULP_WIDTH(a) TRAINC_XPULP_WIDTH(b) TRAINC_XPULP_WIDTH(c) \
    TRAINC_XPULP_WIDTH(d)

/* The first loads of a tile of rows; and what stores need, in place of the lanes and of words. */
#define TRAINC_XPULP_OPEN \
    "lw x5, 16(x10)\n\tlw x6, 20(x10)\n\tlw x7, 0(x10)\n\tlw x9, 4(x10)\n\tlw x11, 8(x10)\n\t"
#define TRAINC_XPULP_BACK \
    "slli x1, x11, 1\n\tadd x1, x1, x11\n\tneg x1, x1\n\taddi x1, x1, 4\n\t"
#define TRAINC_XPULP_TURN "lw x5, 12(x10)\n\t" TRAINC_XPULP_BACK
#define TRAINC_XPULP_SUMS "lw x9, 24(x10)\n\tlw x5, 28(x10)\n\tlw x28, 32(x10)\n\t"
#define TRAINC_XPULP_CLOSE "sw x28, 32(x10)\n\t.option pop"

/* 24 instructions for 64 products; the loads are those of a word of each row. */
#define TRAINC_XPULP_MULTIPLY4(name, ...) \
    static inline void name(struct trainc_xpulp_tile *tile) \
    { \
        register struct trainc_xpulp_tile *x10 __asm__("x10") = tile; \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_OPEN \
            TRAINC_XPULP_START(x12, x13, x14, x15) TRAINC_XPULP_START(x16, x17, x18, x19) \
            TRAINC_XPULP_START(x20, x21, x22, x23) TRAINC_XPULP_START(x24, x25, x26, x27) \
            TRAINC_XPULP_TURN TRAINC_XPULP_LOOP(0, 5, 9) __VA_ARGS__ \
            TRAINC_XPULP_LW(x5, x11, x9) TRAINC_XPULP_LW(x6, x11, x9) \
            TRAINC_XPULP_LANE(x12, x16, x20, x24, x5) \
            TRAINC_XPULP_LW(x5, x11, x9) \
            TRAINC_XPULP_LANE(x13, x17, x21, x25, x6) \
            TRAINC_XPULP_LW(x6, x1, x9) \
            TRAINC_XPULP_LANE(x14, x18, x22, x26, x5) \
            TRAINC_XPULP_SDOT(x15, x28, x6) TRAINC_XPULP_SDOT(x19, x29, x6) \
            TRAINC_XPULP_SDOT(x23, x30, x6) "9: " TRAINC_XPULP_SDOT(x27, x31, x6) \
            TRAINC_XPULP_SUMS \
            TRAINC_XPULP_STORE(x12, x13, x14, x15) TRAINC_XPULP_STORE(x16, x17, x18, x19) \
            TRAINC_XPULP_STORE(x20, x21, x22, x23) TRAINC_XPULP_STORE(x24, x25, x26, x27) \
            TRAINC_XPULP_CLOSE \
            : : "r"(x10) \
            : "x1", "x5", "x6", "x7", "x9", "x11", "x12", "x13", "x14", "x15", "x16", "x17", \
              "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", \
              "x30", "x31", "memory"); \
    }
TRAINC_XPULP_MULTIPLY4(trainc_xpulp_multiply4,
    TRAINC_XPULP_LW(x28, x11, x7) TRAINC_XPULP_LW(x29, x11, x7)
    TRAINC_XPULP_LW(x30, x11, x7) TRAINC_XPULP_LW(x31, x1, x7))
/* Tiles of four rows below each other, which start from zeros: their first words' products are not
 * added to anything, so vectors have at least two words. Rows and sums move on to behind the tiles.
 * `step` prints how x7, which the loads of words have moved on, comes to the next tile's rows. */
#define TRAINC_XPULP_DOT(rd, a, b) TRAINC_XPULP_PV(1, 0x4c, rd, a, b)
#define TRAINC_XPULP_WORD(of, ...) \
    __VA_ARGS__ \
    TRAINC_XPULP_LW(x5, x11, x9) TRAINC_XPULP_LW(x6, x11, x9) \
    of(x12, x28, x5) of(x16, x29, x5) of(x20, x30, x5) of(x24, x31, x5) \
    TRAINC_XPULP_LW(x5, x11, x9) \
    of(x13, x28, x6) of(x17, x29, x6) of(x21, x30, x6) of(x25, x31, x6) \
    TRAINC_XPULP_LW(x6, x1, x9) \
    of(x14, x28, x5) of(x18, x29, x5) of(x22, x30, x5) of(x26, x31, x5) \
    of(x15, x28, x6) of(x19, x29, x6) of(x23, x30, x6)
#define TRAINC_XPULP_MULTIPLY_TILES(name, step, ...) \
    static inline void name(struct trainc_xpulp_tile *tile, int32_t tiles) \
    { \
        register struct trainc_xpulp_tile *x10 __asm__("x10") = tile; \
        register int32_t x12 __asm__("x12") = tiles; \
        __asm__ volatile(TRAINC_XPULP_BEGIN \
            "lw x11, 8(x10)\n\tlw x7, 0(x10)\n\t" TRAINC_XPULP_BACK \
            TRAINC_XPULP_LOOP(1, 12, 8) "lw x9, 4(x10)\n\t" \
            TRAINC_XPULP_WORD(TRAINC_XPULP_DOT, __VA_ARGS__) "lw x5, 12(x10)\n\t" \
            TRAINC_XPULP_DOT(x27, x31, x6) "addi x5, x5, -1\n\t" \
            TRAINC_XPULP_LOOP(0, 5, 9) TRAINC_XPULP_WORD(TRAINC_XPULP_SDOT, __VA_ARGS__) \
            "9: " TRAINC_XPULP_SDOT(x27, x31, x6) \
            step TRAINC_XPULP_SUMS \
            TRAINC_XPULP_STORE(x12, x13, x14, x15) TRAINC_XPULP_STORE(x16, x17, x18, x19) \
            TRAINC_XPULP_STORE(x20, x21, x22, x23) TRAINC_XPULP_STORE(x24, x25, x26, x27) \
            "sw x9, 24(x10)\n\t8: sw x28, 32(x10)\n\tsw x7, 0(x10)\n\t.option pop" \
            : "+r"(x12) : "r"(x10) \
            : "x1", "x5", "x6", "x7", "x9", "x11", "x13", "x14", "x15", "x16", "x17", \
              "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", \
              "x30", "x31", "memory"); \
    }
/* From the second row of a tile to the next tile's first one: three rows. */
TRAINC_XPULP_MULTIPLY_TILES(trainc_xpulp_multiply_tiles, "sub x7, x7, x1\n\taddi x7, x7, 4\n\t",
    TRAINC_XPULP_LW(x28, x11, x7) TRAINC_XPULP_LW(x29, x11, x7)
    TRAINC_XPULP_LW(x30, x11, x7) TRAINC_XPULP_LW(x31, x1, x7))

/* 14 instructions for 32 products: of two rows. */
#define TRAINC_XPULP_MULTIPLY2(name, ...) \
    static inline void name(struct trainc_xpulp_tile *tile) \
    { \
        register struct trainc_xpulp_tile *x10 __asm__("x10") = tile; \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_OPEN \
            TRAINC_XPULP_START(x12, x13, x14, x15) TRAINC_XPULP_START(x16, x17, x18, x19) \
            TRAINC_XPULP_TURN "neg x30, x11\n\taddi x30, x30, 4\n\t" TRAINC_XPULP_LOOP(0, 5, 9) \
            __VA_ARGS__ TRAINC_XPULP_LW(x5, x11, x9) TRAINC_XPULP_LW(x6, x11, x9) \
            TRAINC_XPULP_SDOT(x12, x28, x5) TRAINC_XPULP_SDOT(x16, x29, x5) \
            TRAINC_XPULP_LW(x5, x11, x9) \
            TRAINC_XPULP_SDOT(x13, x28, x6) TRAINC_XPULP_SDOT(x17, x29, x6) \
            TRAINC_XPULP_LW(x6, x1, x9) \
            TRAINC_XPULP_SDOT(x14, x28, x5) TRAINC_XPULP_SDOT(x18, x29, x5) \
            TRAINC_XPULP_SDOT(x15, x28, x6) "9: " TRAINC_XPULP_SDOT(x19, x29, x6) \
            TRAINC_XPULP_SUMS \
            TRAINC_XPULP_STORE(x12, x13, x14, x15) TRAINC_XPULP_STORE(x16, x17, x18, x19) \
            TRAINC_XPULP_CLOSE \
            : : "r"(x10) \
            : "x1", "x5", "x6", "x7", "x9", "x11", "x12", "x13", "x14", "x15", "x16", "x17", \
              "x18", "x19", "x28", "x29", "x30", "memory"); \
    }
TRAINC_XPULP_MULTIPLY2(trainc_xpulp_multiply2,
    TRAINC_XPULP_LW(x28, x11, x7) TRAINC_XPULP_LW(x29, x30, x7))

/* 9 instructions for 16 products: of one row. */
static inline void trainc_xpulp_multiply1(struct trainc_xpulp_tile *tile)
{
    register struct trainc_xpulp_tile *x10 __asm__("x10") = tile;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_OPEN
        TRAINC_XPULP_START(x12, x13, x14, x15) TRAINC_XPULP_TURN TRAINC_XPULP_LOOP(0, 5, 9)
        TRAINC_XPULP_LW(x5, x11, x9) TRAINC_XPULP_LWI(x28, 4, x7) TRAINC_XPULP_LW(x6, x11, x9)
        TRAINC_XPULP_SDOT(x12, x28, x5)
        TRAINC_XPULP_LW(x5, x11, x9)
        TRAINC_XPULP_SDOT(x13, x28, x6)
        TRAINC_XPULP_LW(x6, x1, x9)
        TRAINC_XPULP_SDOT(x14, x28, x5) "9: " TRAINC_XPULP_SDOT(x15, x28, x6) TRAINC_XPULP_SUMS
        TRAINC_XPULP_STORE(x12, x13, x14, x15) TRAINC_XPULP_CLOSE
        : : "r"(x10)
        : "x1", "x5", "x6", "x7", "x9", "x11", "x12", "x13", "x14", "x15", "x28", "x29", "memory");
}

/* A tile of the first rows of it. */
static inline void trainc_xpulp_multiply(struct trainc_xpulp_tile *tile, int32_t rows)
{
    if (rows > 2) {
        trainc_xpulp_multiply4(tile);
    } else if (rows == 2) {
        trainc_xpulp_multiply2(tile);
    } else {
        trainc_xpulp_multiply1(tile);
    }
}

/* Of two lanes. */
#define TRAINC_XPULP_STORE2(a, b) \
    TRAINC_XPULP_SWI(a, 4, x9) TRAINC_XPULP_SW(b, x5, x9) \
    TRAINC_XPULP_WIDTH(a) TRAINC_XPULP_WIDTH(b)

/* Tiles of rows whose words lie side by side, by vectors in segments of at least two words: the
 * first word's products, those of all others, and what is stored. Where taps are left out, `skip`
 * moves the rows on. */
#define TRAINC_XPULP_SKIP "lw x28, 60(x10)\n\tadd x7, x7, x28\n\t"
#define TRAINC_XPULP_SEGMENTS(name, word, last, ...) \
    TRAINC_XPULP_SEGMENTS_BY(name, word, last, , __VA_ARGS__) \
    TRAINC_XPULP_SEGMENTS_BY(name##_trimmed, word, last, TRAINC_XPULP_SKIP, __VA_ARGS__)
#define TRAINC_XPULP_SEGMENTS_BY(name, word, last, skip, ...) \
    static inline void name(struct trainc_xpulp_tile *tile) \
    { \
        register struct trainc_xpulp_tile *x10 __asm__("x10") = tile; \
        __asm__ volatile(TRAINC_XPULP_BEGIN "lw x1, 52(x10)\n\tlw x7, 0(x10)\n\t" \
            "lw x11, 8(x10)\n\t7: lw x9, 4(x10)\n\t" \
            word(TRAINC_XPULP_DOT) "lw x5, 12(x10)\n\t" last(TRAINC_XPULP_DOT) \
            "lw x6, 36(x10)\n\taddi x5, x5, -1\n\t" \
            TRAINC_XPULP_LOOP(1, 6, 8) TRAINC_XPULP_LOOP(0, 5, 9) \
            word(TRAINC_XPULP_SDOT) "9: " last(TRAINC_XPULP_SDOT) \
            "lw x6, 40(x10)\n\t" skip "lw x5, 12(x10)\n\t8: add x9, x9, x6\n\t" \
            "lw x6, 44(x10)\n\t" TRAINC_XPULP_SUMS "add x7, x7, x6\n\t" __VA_ARGS__ \
            "lw x5, 48(x10)\n\tsw x9, 24(x10)\n\tsw x28, 32(x10)\n\tbne x7, x5, 7b\n\t" \
            ".option pop" \
            : : "r"(x10) \
            : "x1", "x5", "x6", "x7", "x9", "x11", "x12", "x13", "x14", "x15", "x16", "x17", \
              "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", \
              "x30", "x31", "memory"); \
    }
/* Four rows by four lanes: 24 instructions for 64 products. */
#define TRAINC_XPULP_WORD4(of) \
    TRAINC_XPULP_WORD(of, TRAINC_XPULP_LWI(x28, 4, x7) TRAINC_XPULP_LWI(x29, 4, x7) \
        TRAINC_XPULP_LWI(x30, 4, x7) TRAINC_XPULP_LWI(x31, 4, x7))
#define TRAINC_XPULP_LAST4(of) of(x27, x31, x6)
TRAINC_XPULP_SEGMENTS(trainc_xpulp_segments4, TRAINC_XPULP_WORD4, TRAINC_XPULP_LAST4,
    TRAINC_XPULP_STORE(x12, x13, x14, x15) TRAINC_XPULP_STORE(x16, x17, x18, x19)
    TRAINC_XPULP_STORE(x20, x21, x22, x23) TRAINC_XPULP_STORE(x24, x25, x26, x27))
/* Four rows by two lanes: 14 instructions for 32 products. */
#define TRAINC_XPULP_WORD_PAIR(of) \
    TRAINC_XPULP_LWI(x28, 4, x7) TRAINC_XPULP_LWI(x29, 4, x7) \
    TRAINC_XPULP_LWI(x30, 4, x7) TRAINC_XPULP_LWI(x31, 4, x7) \
    TRAINC_XPULP_LW(x5, x11, x9) TRAINC_XPULP_LW(x6, x1, x9) \
    of(x12, x28, x5) of(x16, x29, x5) of(x20, x30, x5) of(x24, x31, x5) \
    of(x13, x28, x6) of(x17, x29, x6) of(x21, x30, x6)
#define TRAINC_XPULP_LAST_PAIR(of) of(x25, x31, x6)
TRAINC_XPULP_SEGMENTS(trainc_xpulp_segments_pair, TRAINC_XPULP_WORD_PAIR, TRAINC_XPULP_LAST_PAIR,
    "addi x5, x5, 8\n\t" TRAINC_XPULP_STORE2(x12, x13) TRAINC_XPULP_STORE2(x16, x17)
    TRAINC_XPULP_STORE2(x20, x21) TRAINC_XPULP_STORE2(x24, x25))
/* Two rows by four lanes: the same. */
#define TRAINC_XPULP_WORD2(of) \
    TRAINC_XPULP_LWI(x28, 4, x7) TRAINC_XPULP_LWI(x29, 4, x7) \
    TRAINC_XPULP_LW(x5, x11, x9) TRAINC_XPULP_LW(x6, x11, x9) \
    of(x12, x28, x5) of(x16, x29, x5) TRAINC_XPULP_LW(x5, x11, x9) \
    of(x13, x28, x6) of(x17, x29, x6) TRAINC_XPULP_LW(x6, x1, x9) \
    of(x14, x28, x5) of(x18, x29, x5) of(x15, x28, x6)
#define TRAINC_XPULP_LAST2(of) of(x19, x29, x6)
TRAINC_XPULP_SEGMENTS(trainc_xpulp_segments2, TRAINC_XPULP_WORD2, TRAINC_XPULP_LAST2,
    TRAINC_XPULP_STORE(x12, x13, x14, x15) TRAINC_XPULP_STORE(x16, x17, x18, x19))
/* One row: 9 instructions for 16 products. */
#define TRAINC_XPULP_WORD1(of) \
    TRAINC_XPULP_LW(x5, x11, x9) TRAINC_XPULP_LWI(x28, 4, x7) TRAINC_XPULP_LW(x6, x11, x9) \
    of(x12, x28, x5) TRAINC_XPULP_LW(x5, x11, x9) of(x13, x28, x6) TRAINC_XPULP_LW(x6, x1, x9) \
    of(x14, x28, x5)
#define TRAINC_XPULP_LAST1(of) of(x15, x28, x6)
TRAINC_XPULP_SEGMENTS(trainc_xpulp_segments1, TRAINC_XPULP_WORD1, TRAINC_XPULP_LAST1,
    TRAINC_XPULP_STORE(x12, x13, x14, x15))

/* Four rows by four lanes of windows of three columns, which are the lanes' strides: of a word of each
 * column the rows' three words lie side by side, and two columns more are all that lanes meet: 66
 * instructions for 192 products. */
#define TRAINC_XPULP_BY_LANES(of, a, b, c, d, row, e, f, g, h) \
    of(a, row, e) of(b, row, f) of(c, row, g) of(d, row, h)
#define TRAINC_XPULP_ROW_WORD(row) TRAINC_XPULP_LWI(row, 4, x7)
#define TRAINC_XPULP_THREE_ROWS(of, e, f, g, h) \
    TRAINC_XPULP_BY_LANES(of, x12, x13, x14, x15, x5, e, f, g, h) TRAINC_XPULP_ROW_WORD(x5) \
    TRAINC_XPULP_BY_LANES(of, x16, x17, x18, x19, x6, e, f, g, h) TRAINC_XPULP_ROW_WORD(x6) \
    TRAINC_XPULP_BY_LANES(of, x20, x21, x22, x23, x5, e, f, g, h)
#define TRAINC_XPULP_FOUR_ROWS(of, e, f, g, h) \
    TRAINC_XPULP_THREE_ROWS(of, e, f, g, h) TRAINC_XPULP_ROW_WORD(x5) \
    TRAINC_XPULP_BY_LANES(of, x24, x25, x26, x27, x6, e, f, g, h) TRAINC_XPULP_ROW_WORD(x6)
#define TRAINC_XPULP_WORD_JOINED(of) \
    TRAINC_XPULP_LW(x28, x11, x9) TRAINC_XPULP_LW(x29, x11, x9) TRAINC_XPULP_LW(x30, x11, x9) \
    TRAINC_XPULP_LW(x31, x11, x9) TRAINC_XPULP_ROW_WORD(x5) TRAINC_XPULP_ROW_WORD(x6) \
    TRAINC_XPULP_FOUR_ROWS(of, x28, x29, x30, x31) TRAINC_XPULP_LW(x28, x11, x9) \
    TRAINC_XPULP_FOUR_ROWS(TRAINC_XPULP_SDOT, x29, x30, x31, x28) TRAINC_XPULP_LW(x29, x1, x9) \
    TRAINC_XPULP_THREE_ROWS(TRAINC_XPULP_SDOT, x30, x31, x28, x29) \
    TRAINC_XPULP_SDOT(x24, x6, x30) TRAINC_XPULP_SDOT(x25, x6, x31) TRAINC_XPULP_SDOT(x26, x6, x28)
#define TRAINC_XPULP_LAST_JOINED(of) TRAINC_XPULP_SDOT(x27, x6, x29)
TRAINC_XPULP_SEGMENTS_BY(trainc_xpulp_segments_joined, TRAINC_XPULP_WORD_JOINED,
    TRAINC_XPULP_LAST_JOINED, ,
    TRAINC_XPULP_STORE(x12, x13, x14, x15) TRAINC_XPULP_STORE(x16, x17, x18, x19)
    TRAINC_XPULP_STORE(x20, x21, x22, x23) TRAINC_XPULP_STORE(x24, x25, x26, x27))

/* Tiles of rows below each other, whose words lie side by side, where lanes' sums lie apart: a row's
 * start, by x6 and x28, and its end. */
#define TRAINC_XPULP_START_APART(a, b, c, d) \
    TRAINC_XPULP_LW(a, x6, x5) TRAINC_XPULP_LW(b, x6, x5) TRAINC_XPULP_LW(c, x6, x5) \
    TRAINC_XPULP_LW(d, x28, x5)
#define TRAINC_XPULP_STORE_APART(a, b, c, d) \
    TRAINC_XPULP_SW(a, x6, x9) TRAINC_XPULP_SW(b, x6, x9) TRAINC_XPULP_SW(c, x6, x9) \
    TRAINC_XPULP_SW(d, x5, x9) TRAINC_XPULP_WIDTH(a) TRAINC_XPULP_WIDTH(b) \
    TRAINC_XPULP_WIDTH(c) TRAINC_XPULP_WIDTH(d)
#define TRAINC_XPULP_TILES_APART(name, word, last, stores, ...) \
    static inline void name(struct trainc_xpulp_tile *tile, int32_t tiles) \
    { \
        register struct trainc_xpulp_tile *x10 __asm__("x10") = tile; \
        register int32_t x12 __asm__("x12") = tiles; \
        __asm__ volatile(TRAINC_XPULP_BEGIN "lw x11, 8(x10)\n\tlw x7, 0(x10)\n\t" TRAINC_XPULP_BACK \
            TRAINC_XPULP_LOOP(1, 12, 8) __VA_ARGS__ \
            TRAINC_XPULP_LOOP(0, 5, 9) word(TRAINC_XPULP_SDOT) \
            "9: " last(TRAINC_XPULP_SDOT) "lw x6, 56(x10)\n\t" TRAINC_XPULP_SUMS stores \
            "sw x9, 24(x10)\n\t8: sw x28, 32(x10)\n\tsw x7, 0(x10)\n\t.option pop" \
            : "+r"(x12) : "r"(x10) \
            : "x1", "x5", "x6", "x7", "x9", "x11", "x13", "x14", "x15", "x16", "x17", "x18", "x19", \
              "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "x31", \
              "memory"); \
    }
/* From zeros: at least two words. To the sums that are there. */
#define TRAINC_XPULP_FROM_ZEROS(word, last) \
    "lw x9, 4(x10)\n\t" word(TRAINC_XPULP_DOT) "lw x5, 12(x10)\n\t" last(TRAINC_XPULP_DOT) \
    "addi x5, x5, -1\n\t"
#define TRAINC_XPULP_FROM_SUMS(rows) \
    "lw x5, 24(x10)\n\tlw x6, 56(x10)\n\tlw x28, 28(x10)\n\t" rows(TRAINC_XPULP_START_APART) \
    "lw x5, 12(x10)\n\tlw x9, 4(x10)\n\t"
/* Of four rows. */
#define TRAINC_XPULP_APART4(of) \
    of(x12, x13, x14, x15) of(x16, x17, x18, x19) of(x20, x21, x22, x23) of(x24, x25, x26, x27)
TRAINC_XPULP_TILES_APART(trainc_xpulp_multiply_tiles_apart, TRAINC_XPULP_WORD4, TRAINC_XPULP_LAST4,
    TRAINC_XPULP_APART4(TRAINC_XPULP_STORE_APART),
    TRAINC_XPULP_FROM_ZEROS(TRAINC_XPULP_WORD4, TRAINC_XPULP_LAST4))
TRAINC_XPULP_TILES_APART(trainc_xpulp_add_tiles_apart, TRAINC_XPULP_WORD4, TRAINC_XPULP_LAST4,
    TRAINC_XPULP_APART4(TRAINC_XPULP_STORE_APART), TRAINC_XPULP_FROM_SUMS(TRAINC_XPULP_APART4))
/* Of two rows. */
#define TRAINC_XPULP_APART2(of) of(x12, x13, x14, x15) of(x16, x17, x18, x19)
TRAINC_XPULP_TILES_APART(trainc_xpulp_multiply_pairs_apart, TRAINC_XPULP_WORD2, TRAINC_XPULP_LAST2,
    TRAINC_XPULP_APART2(TRAINC_XPULP_STORE_APART),
    TRAINC_XPULP_FROM_ZEROS(TRAINC_XPULP_WORD2, TRAINC_XPULP_LAST2))
TRAINC_XPULP_TILES_APART(trainc_xpulp_add_pairs_apart, TRAINC_XPULP_WORD2, TRAINC_XPULP_LAST2,
    TRAINC_XPULP_APART2(TRAINC_XPULP_STORE_APART), TRAINC_XPULP_FROM_SUMS(TRAINC_XPULP_APART2))

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
/* Some rows and lanes of a tile; words of a row lie so many bytes apart, rows likewise. */
static inline void trainc_xpulp_multiply_some(struct trainc_xpulp_tile *tile, int32_t rows,
    int32_t lanes, int32_t word, int32_t stride)
{
    for (int32_t row = 0; row < 4 && row < rows; row++) {
        for (int32_t lane = 0; lane < lanes; lane++) {
            const int8_t *const a = tile->rows + row * stride;
            const int8_t *const b = tile->lanes + lane * tile->stride;
            uint32_t sum = (uint32_t)tile->start[row * (tile->start_stride / 4) + lane];
            for (int32_t i = 0; i < tile->words; i++) {
#if defined(TRAINC_XPULP_BUILTINS)
                sum = trainc_xpulp_sdotsp_b(sum, trainc_xpulp_load(a + i * word),
                    trainc_xpulp_load(b + 4 * i));
#else
                for (int32_t k = 0; k < 4; k++) {
                    sum += (uint32_t)(a[i * word + k] * b[4 * i + k]);
                }
#endif
            }
            tile->sums[row * (tile->next / 4 + 3) + lane] = (int32_t)sum;
            tile->largest = trainc_xpulp_maxu(tile->largest, trainc_xpulp_abs(sum));
        }
    }
}

static inline void trainc_xpulp_multiply(struct trainc_xpulp_tile *tile, int32_t rows)
{
    trainc_xpulp_multiply_some(tile, rows, 4, 4, tile->stride);
}

static inline void trainc_xpulp_multiply_tiles(struct trainc_xpulp_tile *tile, int32_t tiles)
{
    for (; tiles > 0; tiles--) {
        trainc_xpulp_multiply(tile, 4);
        tile->rows += 4 * tile->stride;
        tile->sums += tile->next + 12;
    }
}

/* Tiles of some rows and lanes by vectors in segments, of so many lanes' strides for each word. */
static inline void trainc_xpulp_segments_some(struct trainc_xpulp_tile *tile, int32_t rows,
    int32_t lanes, int32_t columns)
{
    while (tile->rows != tile->behind) {
        for (int32_t row = 0; row < rows; row++) {
            for (int32_t lane = 0; lane < lanes; lane++) {
                const int8_t *a = tile->rows + 4 * row, *b = tile->lanes + lane * tile->stride;
                uint32_t sum = 0;
                for (int32_t n = 0; n < tile->segments; n++, a += tile->skip, b += tile->jump) {
                    for (int32_t i = 0; i < columns * tile->words; i++, a += 4 * rows) {
                        const int8_t *const at = b + 4 * (i / columns) + i % columns * tile->stride;
#if defined(TRAINC_XPULP_BUILTINS)
                        sum = trainc_xpulp_sdotsp_b(sum, trainc_xpulp_load(a),
                            trainc_xpulp_load(at));
#else
                        for (int32_t k = 0; k < 4; k++) {
                            sum += (uint32_t)(a[k] * at[k]);
                        }
#endif
                    }
                    b += 4 * tile->words;
                }
                tile->sums[row * (tile->next / 4 + 3) + lane] = (int32_t)sum;
                tile->largest = trainc_xpulp_maxu(tile->largest, trainc_xpulp_abs(sum));
            }
        }
        tile->rows += tile->segments * (4 * rows * columns * tile->words + tile->skip) + tile->rest;
        tile->sums += rows * (tile->next / 4 + 3);
    }
}

#define TRAINC_XPULP_SEGMENTS(name, rows, lanes) \
    static inline void name(struct trainc_xpulp_tile *tile) \
    { \
        trainc_xpulp_segments_some(tile, rows, lanes, 1); \
    } \
    static inline void name##_trimmed(struct trainc_xpulp_tile *tile) \
    { \
        trainc_xpulp_segments_some(tile, rows, lanes, 1); \
    }
static inline void trainc_xpulp_segments_joined(struct trainc_xpulp_tile *tile)
{
    trainc_xpulp_segments_some(tile, 4, 4, 3);
}
TRAINC_XPULP_SEGMENTS(trainc_xpulp_segments4, 4, 4)
TRAINC_XPULP_SEGMENTS(trainc_xpulp_segments_pair, 4, 2)
TRAINC_XPULP_SEGMENTS(trainc_xpulp_segments2, 2, 4)
TRAINC_XPULP_SEGMENTS(trainc_xpulp_segments1, 1, 4)

/* Tiles of some rows, from zeros or not. */
static inline void trainc_xpulp_some_apart(struct trainc_xpulp_tile *tile, int32_t tiles,
    int32_t rows, int32_t adds)
{
    const int32_t apart = tile->apart / 4, stride = tile->next / 4 + 3 * apart;
    for (; tiles > 0; tiles--) {
        int32_t sums[16];
        for (int32_t n = 0; n < 4 * rows; n++) {
            const int8_t *a = tile->rows + 4 * (n >> 2), *b = tile->lanes + (n & 3) * tile->stride;
            uint32_t sum =
                adds ? (uint32_t)tile->sums[(n >> 2) * stride + (n & 3) * apart] : 0;
            for (int32_t i = 0; i < tile->words; i++, a += 4 * rows, b += 4) {
#if defined(TRAINC_XPULP_BUILTINS)
                sum = trainc_xpulp_sdotsp_b(sum, trainc_xpulp_load(a), trainc_xpulp_load(b));
#else
                for (int32_t k = 0; k < 4; k++) {
                    sum += (uint32_t)(a[k] * b[k]);
                }
#endif
            }
            sums[n] = (int32_t)sum;
            tile->largest = trainc_xpulp_maxu(tile->largest, trainc_xpulp_abs(sum));
        }
        /* Lanes may be the same. */
        for (int32_t n = 0; n < 4 * rows; n++) {
            tile->sums[(n >> 2) * stride + (n & 3) * apart] = sums[n];
        }
        tile->sums += rows * stride;
        tile->rows += 4 * rows * tile->words;
    }
}

static inline void trainc_xpulp_multiply_tiles_apart(struct trainc_xpulp_tile *tile, int32_t tiles)
{
    trainc_xpulp_some_apart(tile, tiles, 4, 0);
}

static inline void trainc_xpulp_add_tiles_apart(struct trainc_xpulp_tile *tile, int32_t tiles)
{
    trainc_xpulp_some_apart(tile, tiles, 4, 1);
}

static inline void trainc_xpulp_multiply_pairs_apart(struct trainc_xpulp_tile *tile, int32_t tiles)
{
    trainc_xpulp_some_apart(tile, tiles, 2, 0);
}

static inline void trainc_xpulp_add_pairs_apart(struct trainc_xpulp_tile *tile, int32_t tiles)
{
    trainc_xpulp_some_apart(tile, tiles, 2, 1);
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

static inline void trainc_xpulp_zero(void *to, int32_t bytes)
{
    uint8_t *at = (uint8_t *)to;
#if defined(TRAINC_XPULP_INSN)
    if (bytes >= 16) {
        register uint8_t *x10 __asm__("x10") = at;
        register int32_t x11 __asm__("x11") = bytes >> 4;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 11, 9)
            TRAINC_XPULP_SWI(x0, 4, x10) TRAINC_XPULP_SWI(x0, 4, x10) TRAINC_XPULP_SWI(x0, 4, x10)
            "9: " TRAINC_XPULP_SWI(x0, 4, x10) ".option pop"
            : "+r"(x10) : "r"(x11) : "memory");
        at = x10;
        bytes &= 15;
    }
#endif
    for (; bytes >= 4; bytes -= 4, at += 4) {
        trainc_xpulp_store(at, 0);
    }
    for (; bytes > 0; bytes--) {
        *at++ = 0;
    }
}

/* The same, which cores share by 64 bytes. */
struct trainc_xpulp_zeroed {
    uint8_t *to;
    int32_t bytes;
};

static inline void trainc_xpulp_zero_some(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_zeroed *const work = (const struct trainc_xpulp_zeroed *)context;
    trainc_xpulp_zero(work->to + 64 * begin,
        (64 * end < work->bytes ? 64 * end : work->bytes) - 64 * begin);
}

static inline void trainc_xpulp_zero_shared(void *to, int32_t bytes)
{
    struct trainc_xpulp_zeroed work = { (uint8_t *)to, bytes };
    if (!TRAINC_DIVIDED(1, 0)) {
        trainc_xpulp_zero(to, bytes);
        return;
    }
    TRAINC_PARALLEL_FOR(&work, (bytes + 63) >> 6, trainc_xpulp_zero_some);
}

/* Vectors that are pieces of a volume: vector (a, b, c) starts at the sum of a, b and c by their
 * strides; element (a, b, c) of it lies as far from there as the sum of these by theirs. */
struct trainc_xpulp_windows {
    int32_t vectors[2], vector_strides[3];
    int32_t counts[3], strides[3];
};

/* What the vectors of a set are: in words already; rows of a matrix, or its columns; pieces of a
 * volume; input channels of a convolution's weights, by output channels and some taps in reverse. */
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
    /* Elements of a channel's weights; of the taps that count, the last and how they lie. */
    int32_t taps, last, tap_rows, tap_columns, tap_down, tap_right;
    const struct trainc_xpulp_windows *windows;
};

/* Four rows of four columns each as four words, as often as count says, at least once. */
static inline const int8_t *trainc_xpulp_turn(const int8_t *from, int32_t stride, int32_t count,
    int8_t *to, int32_t bytes)
{
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = from;
    register int32_t x11 __asm__("x11") = stride;
    register int8_t *x12 __asm__("x12") = to;
    register int8_t *x13 __asm__("x13") = to + bytes;
    register int8_t *x14 __asm__("x14") = to + 2 * bytes;
    register int8_t *x15 __asm__("x15") = to + 3 * bytes;
    register int32_t x16 __asm__("x16") = count;
    register uint32_t x17 __asm__("x17") = 0x05010400;
    register uint32_t x28 __asm__("x28") = 0x07030602;
    register uint32_t x29 __asm__("x29") = 0x07060302;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 16, 9)
        TRAINC_XPULP_LW(x5, x11, x10) TRAINC_XPULP_LW(x6, x11, x10)
        TRAINC_XPULP_LW(x7, x11, x10) TRAINC_XPULP_LW(x30, x11, x10)
        "mv x31, x5\n\t" TRAINC_XPULP_PV(1, 0x64, x31, x6, x17) TRAINC_XPULP_PV(1, 0x64, x5, x6, x28)
        "mv x6, x7\n\t" TRAINC_XPULP_PV(1, 0x64, x6, x30, x17) TRAINC_XPULP_PV(1, 0x64, x7, x30, x28)
        TRAINC_XPULP_PV(0, 0x68, x30, x6, x31) TRAINC_XPULP_SWI(x30, 4, x12)
        TRAINC_XPULP_PV(1, 0x64, x31, x6, x29) TRAINC_XPULP_SWI(x31, 4, x13)
        TRAINC_XPULP_PV(0, 0x68, x30, x7, x5) TRAINC_XPULP_SWI(x30, 4, x14)
        TRAINC_XPULP_PV(1, 0x64, x5, x7, x29) "9: " TRAINC_XPULP_SWI(x5, 4, x15) ".option pop"
        : "+r"(x10), "+r"(x12), "+r"(x13), "+r"(x14), "+r"(x15)
        : "r"(x11), "r"(x16), "r"(x17), "r"(x28), "r"(x29)
        : "x5", "x6", "x7", "x30", "x31", "memory");
    return x10;
#else
    for (int32_t i = 0; i < 4 * count; i++, from += stride) {
        for (int32_t l = 0; l < 4; l++) {
            to[l * bytes + i] = from[l];
        }
    }
    return from;
#endif
}

/* Four columns as vectors. */
static inline void trainc_xpulp_columns(const int8_t *from, int32_t stride, int32_t length,
    int8_t *to, int32_t bytes)
{
    int32_t i = length & ~3;
    if (i > 0) {
        from = trainc_xpulp_turn(from, stride, i >> 2, to, bytes);
    }
    for (; i < length; i++, from += stride) {
        for (int32_t l = 0; l < 4; l++) {
            to[l * bytes + i] = from[l];
        }
    }
}

/* Some rows of bytes that are `step` bytes apart: rows begin so many bytes after each other. */
static inline void trainc_xpulp_rows_apart(const int8_t *from, int32_t from_stride, int32_t step,
    int8_t *to, int32_t to_stride, int32_t rows, int32_t bytes)
{
#if defined(TRAINC_XPULP_INSN) && !defined(__OPTIMIZE_SIZE__)
    if (bytes >= 8 && step == 1) {
        /* The last two words overlap others, unless all are pairs. */
        const int32_t pairs = bytes >> 3, back = (bytes & 7) == 0 ? 0 : (bytes & 7) - 8;
        register const int8_t *x10 __asm__("x10") = from;
        register int8_t *x11 __asm__("x11") = to;
        register int32_t x12 __asm__("x12") = rows;
        register int32_t x13 __asm__("x13") = pairs;
        register int32_t x14 __asm__("x14") = back;
        register int32_t x16 __asm__("x16") = from_stride - (8 * pairs + back);
        register int32_t x17 __asm__("x17") = to_stride - (8 * pairs + back);
#define TRAINC_XPULP_PAIRS(first, second) \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 12, 8) TRAINC_XPULP_LOOP(0, 13, 9) \
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_SWI(x5, 4, x11) \
            "9: " TRAINC_XPULP_SWI(x6, 4, x11) first "add x10, x10, x16\n\t" second \
            "8: add x11, x11, x17\n\t.option pop" \
            : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), "r"(x14), "r"(x16), "r"(x17) \
            : "x5", "x6", "memory")
        if (back == 0) {
            TRAINC_XPULP_PAIRS("", "");
        } else {
            TRAINC_XPULP_PAIRS("add x10, x10, x14\n\tadd x11, x11, x14\n\t"
                "lw x5, 0(x10)\n\tlw x6, 4(x10)\n\t", "sw x5, 0(x11)\n\tsw x6, 4(x11)\n\t");
        }
#undef TRAINC_XPULP_PAIRS
        return;
    }
#endif
#if defined(TRAINC_XPULP_INSN)
    if (bytes >= 4 && step <= 2) {
        /* The last word overlaps others. */
        const int32_t words = bytes >> 2, back = (bytes & 3) - 4;
        register const int8_t *x10 __asm__("x10") = from;
        register int8_t *x11 __asm__("x11") = to;
        register int32_t x12 __asm__("x12") = rows;
        register int32_t x13 __asm__("x13") = words;
        register int32_t x14 __asm__("x14") = back * step;
        register int32_t x15 __asm__("x15") = back;
        register int32_t x16 __asm__("x16") = from_stride - (4 * words + back) * step;
        register int32_t x17 __asm__("x17") = to_stride - (4 * words + back);
        register uint32_t x28 __asm__("x28") = 0x07050200;
#define TRAINC_XPULP_SHIFT(word, ...) \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 12, 8) TRAINC_XPULP_LOOP(0, 13, 9) \
            word "9: " TRAINC_XPULP_SWI(x5, 4, x11) "add x10, x10, x14\n\tadd x11, x11, x15\n\t" \
            __VA_ARGS__ "add x10, x10, x16\n\tsw x5, 0(x11)\n\t8: add x11, x11, x17\n\t.option pop" \
            : "+r"(x10), "+r"(x11) : "r"(x12), "r"(x13), "r"(x14), "r"(x15), "r"(x16), "r"(x17), \
              "r"(x28) \
            : "x5", "x6", "memory")
        if (step == 1) {
            TRAINC_XPULP_SHIFT(TRAINC_XPULP_LWI(x5, 4, x10) "nop\n\t", "lw x5, 0(x10)\n\t");
        } else {
            /* Every other byte of seven. */
            TRAINC_XPULP_SHIFT(TRAINC_XPULP_LWI(x5, 3, x10) TRAINC_XPULP_LWI(x6, 5, x10)
                "nop\n\t" TRAINC_XPULP_PV(1, 0x64, x5, x6, x28),
                "lw x5, 0(x10)\n\tlw x6, 3(x10)\n\tnop\n\t" TRAINC_XPULP_PV(1, 0x64, x5, x6, x28));
        }
#undef TRAINC_XPULP_SHIFT
        return;
    }
#endif
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < bytes; i++) {
            to[row * to_stride + i] = from[row * from_stride + i * step];
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
        trainc_xpulp_rows_apart(from, w->strides[1], w->strides[2], to, w->counts[2], w->counts[1],
            w->counts[2]);
        to += w->counts[1] * w->counts[2];
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
        from += n * set->taps + set->last;
        for (int32_t i = 0; i < set->length; i += set->tap_rows * set->tap_columns) {
            const int8_t *row = from;
            for (int32_t down = 0; down < set->tap_rows; down++, row -= set->tap_down) {
                const int8_t *tap = row;
                for (int32_t right = 0; right < set->tap_columns; right++, tap -= set->tap_right) {
                    *to++ = *tap;
                }
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
    for (int32_t l = left < 4 || set->length < bytes ? 0 : 4; l < 4; l++) {
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

/* The product of two sets, its lanes in parts of about as many tiles each. */
struct trainc_xpulp_product {
    /* In words, as long as the lanes'. */
    const int8_t *rows;
    int32_t row_count;
    struct trainc_xpulp_set lanes;
    int32_t lane_tiles, parts;
    /* Of the rows' tiles, as many each, where there are less tiles of lanes than cores. */
    int32_t pieces;
    /* Room for a tile of lanes for each part, if they are not in place. */
    int8_t *packed;
    /* [rows][lanes], whole tiles each; whether to add to them. */
    int32_t *sums;
    int32_t sums_stride, adds;
    /* The largest of the sums' magnitudes, by tiles of lanes and pieces. */
    uint32_t *largest;
};

static const int32_t trainc_xpulp_zeros[4] = { 0, 0, 0, 0 };

/* A tile of lanes by some rows, as of place `at` of the largest. */
static inline void trainc_xpulp_multiply_tile(const struct trainc_xpulp_product *work, int32_t n,
    const int8_t *packed, int32_t first, int32_t count, int32_t at)
{
    const int32_t bytes = work->lanes.bytes;
    struct trainc_xpulp_tile tile;
    tile.lanes = work->lanes.kind == TRAINC_XPULP_IN_PLACE ? work->lanes.from + 4 * n * bytes
        : packed;
    tile.rows = work->rows + first * bytes;
    tile.stride = bytes;
    tile.words = bytes >> 2;
    tile.sums = work->sums + first * work->sums_stride + 4 * n;
    tile.next = 4 * work->sums_stride - 12;
    tile.start = work->adds ? tile.sums : trainc_xpulp_zeros;
    tile.start_stride = work->adds ? 4 * work->sums_stride : 0;
    tile.largest = 0;
    int32_t row = 0;
    if (!work->adds && tile.words > 1 && count >= 4) {
        row = count & ~3;
        trainc_xpulp_multiply_tiles(&tile, row >> 2);
    }
    for (; row < count; row += 4) {
        trainc_xpulp_multiply(&tile, count - row);
        tile.rows += 4 * bytes;
        tile.sums += work->sums_stride * 4;
        tile.start = work->adds ? tile.sums : tile.start;
    }
    work->largest[at] = trainc_xpulp_maxu(work->adds ? 0 : work->largest[at], tile.largest);
}

#if defined(TRAINC_XPULP_INSN)
/* What vectors of eight elements have: blocks of assembler know the places. */
struct trainc_xpulp_eights {
    const int8_t *rows;
    /* Of rows; from a row of the lanes' matrix to the next, and from behind the last one to the next
     * tile of columns; from behind the last row of sums to the next tile's first. */
    int32_t pairs, stride, back, sums_back;
    uint32_t even, odd, upper;
};

/* Some tiles of lanes that are columns of eight elements, from zeros, by an even number of rows;
 * returns the largest magnitude. 44 instructions for 64 products: the words of four lanes stay where
 * they are. */
static inline uint32_t trainc_xpulp_multiply_eights(const struct trainc_xpulp_product *work,
    int32_t first, int32_t last)
{
    const int32_t stride = work->lanes.stride, sums_stride = 4 * work->sums_stride;
    const struct trainc_xpulp_eights eights = {
        work->rows, work->row_count >> 1, stride, 4 - 8 * stride,
        16 - work->row_count * sums_stride, 0x05010400, 0x07030602, 0x07060302,
    };
    /* Four columns of rows r0 to r3, of which a and r0 become the second and the last. */
#define TRAINC_XPULP_TURN_FOUR(col0, a, col2, r0, r1, r2, r3) \
    "mv " #a ", " #r0 "\n\t" TRAINC_XPULP_PV(1, 0x64, a, r1, x9) TRAINC_XPULP_PV(1, 0x64, r0, r1, x30) \
    "mv x1, " #r2 "\n\t" TRAINC_XPULP_PV(1, 0x64, x1, r3, x9) TRAINC_XPULP_PV(1, 0x64, r2, r3, x30) \
    TRAINC_XPULP_PV(0, 0x68, col0, x1, a) TRAINC_XPULP_PV(1, 0x64, a, x1, x31) \
    TRAINC_XPULP_PV(0, 0x68, col2, r2, r0) TRAINC_XPULP_PV(1, 0x64, r0, r2, x31)
#define TRAINC_XPULP_BY_FOUR(of, a, b, c, d, row, e, f, g, h) \
    of(a, row, e) of(b, row, f) of(c, row, g) of(d, row, h)
#define TRAINC_XPULP_LARGEST(a) TRAINC_XPULP_SCALAR(0, x1, a, x0) TRAINC_XPULP_SCALAR(7, x11, x11, x1)
#define TRAINC_XPULP_STORE_ROW(a, b, c, d) \
    TRAINC_XPULP_SWI(a, 4, x13) TRAINC_XPULP_SWI(b, 4, x13) TRAINC_XPULP_SWI(c, 4, x13) \
    TRAINC_XPULP_SW(d, x14, x13) TRAINC_XPULP_LARGEST(a) TRAINC_XPULP_LARGEST(b) \
    TRAINC_XPULP_LARGEST(c)
    register int32_t x10 __asm__("x10") = last - first;
    register uint32_t x11 __asm__("x11") = 0;
    register const struct trainc_xpulp_eights *x12 __asm__("x12") = &eights;
    register int32_t *x13 __asm__("x13") = work->sums + 4 * first;
    register int32_t x14 __asm__("x14") = sums_stride - 12;
    register const int8_t *x15 __asm__("x15") = work->lanes.from + 4 * first;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(1, 10, 8)
        "lw x5, 8(x12)\n\tlw x6, 12(x12)\n\tlw x9, 20(x12)\n\tlw x30, 24(x12)\n\t"
        TRAINC_XPULP_LW(x22, x5, x15) TRAINC_XPULP_LW(x24, x5, x15)
        TRAINC_XPULP_LW(x25, x5, x15) TRAINC_XPULP_LW(x26, x5, x15)
        TRAINC_XPULP_LW(x23, x5, x15) TRAINC_XPULP_LW(x27, x5, x15)
        TRAINC_XPULP_LW(x28, x5, x15) TRAINC_XPULP_LW(x29, x5, x15)
        "lw x31, 28(x12)\n\tadd x15, x15, x6\n\tlw x10, 0(x12)\n\t"
        TRAINC_XPULP_TURN_FOUR(x16, x18, x20, x22, x24, x25, x26)
        TRAINC_XPULP_TURN_FOUR(x17, x19, x21, x23, x27, x28, x29)
        "lw x1, 4(x12)\n\tnop\n\t" TRAINC_XPULP_LOOP(0, 1, 9)
        TRAINC_XPULP_LWI(x28, 4, x10) TRAINC_XPULP_LWI(x29, 4, x10)
        TRAINC_XPULP_LWI(x30, 4, x10) TRAINC_XPULP_LWI(x31, 4, x10)
        TRAINC_XPULP_BY_FOUR(TRAINC_XPULP_DOT, x24, x25, x26, x27, x28, x16, x18, x20, x22)
        TRAINC_XPULP_BY_FOUR(TRAINC_XPULP_DOT, x5, x6, x7, x9, x30, x16, x18, x20, x22)
        TRAINC_XPULP_BY_FOUR(TRAINC_XPULP_SDOT, x24, x25, x26, x27, x29, x17, x19, x21, x23)
        TRAINC_XPULP_BY_FOUR(TRAINC_XPULP_SDOT, x5, x6, x7, x9, x31, x17, x19, x21, x23)
        TRAINC_XPULP_STORE_ROW(x24, x25, x26, x27) TRAINC_XPULP_LARGEST(x27)
        TRAINC_XPULP_STORE_ROW(x5, x6, x7, x9) TRAINC_XPULP_SCALAR(0, x1, x9, x0)
        "9: " TRAINC_XPULP_SCALAR(7, x11, x11, x1)
        "lw x5, 16(x12)\n\tnop\n\t8: add x13, x13, x5\n\t.option pop"
        : "+r"(x10), "+r"(x11), "+r"(x13), "+r"(x15) : "r"(x12), "r"(x14)
        : "x1", "x5", "x6", "x7", "x9", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24",
          "x25", "x26", "x27", "x28", "x29", "x30", "x31", "memory");
#undef TRAINC_XPULP_TURN_FOUR
#undef TRAINC_XPULP_BY_FOUR
#undef TRAINC_XPULP_LARGEST
#undef TRAINC_XPULP_STORE_ROW
    return x11;
}
#endif

/* Some pieces of tiles of lanes that are packed already. */
static inline void trainc_xpulp_multiply_pieces(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_product *const work = (const struct trainc_xpulp_product *)context;
    const int32_t rows = work->row_count, each = ((rows + 3) & ~3) / work->pieces;
    for (int32_t n = begin; n < end; n++) {
        const int32_t tile = n / work->pieces, first = (n - tile * work->pieces) * each;
        const int8_t *const packed =
            work->packed == 0 ? 0 : work->packed + 4 * tile * work->lanes.bytes;
        trainc_xpulp_multiply_tile(work, tile, packed, first,
            rows - first < each ? rows - first : each, n);
    }
}

/* How many tiles of lanes are left over when all parts have as many, where these are few and cores
 * share each, by tiles of rows; 0 if they do not. */
static inline int32_t trainc_xpulp_left_over(const struct trainc_xpulp_product *work)
{
    const int32_t left_over = work->lane_tiles % work->parts;
    return TRAINC_DIVIDED(1, 0) && work->adds == 0 && 2 * left_over <= work->parts
        && work->row_count > 4 && work->lanes.length != 8 ? left_over : 0;
}

/* Some parts, whose rows are in one piece. */
static inline void trainc_xpulp_multiply_parts(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_product *const work = (const struct trainc_xpulp_product *)context;
#if defined(TRAINC_XPULP_INSN)
    const int32_t eights = work->lanes.kind == TRAINC_XPULP_COLUMNS && work->lanes.length == 8
        && work->adds == 0 && (work->row_count & 1) == 0;
#endif
    for (int32_t part = begin; part < end; part++) {
        int8_t *const packed = work->lanes.kind == TRAINC_XPULP_IN_PLACE
            ? 0 : work->packed + 4 * part * work->lanes.bytes;
        int32_t first = part * work->lane_tiles / work->parts;
        int32_t last = (part + 1) * work->lane_tiles / work->parts;
        const int32_t left_over = trainc_xpulp_left_over(work);
        if (left_over > 0) {
            /* Some parts share a tile that is left over, which they pack each. */
            const int32_t each = work->lane_tiles / work->parts, row_tiles = (work->row_count + 3) >> 2;
            const int32_t pieces = trainc_minimum32(work->parts / left_over, row_tiles);
            const int32_t n = each * work->parts + part / pieces, piece = part % pieces;
            first = part * each;
            last = first + each;
            if (n < work->lane_tiles) {
                const int32_t row = 4 * (piece * row_tiles / pieces);
                const int32_t behind = trainc_minimum32(4 * ((piece + 1) * row_tiles / pieces),
                    work->row_count);
                if (packed != 0) {
                    trainc_xpulp_pack(&work->lanes, n, packed);
                }
                trainc_xpulp_multiply_tile(work, n, packed, row, behind - row, first);
            }
        }
#if defined(TRAINC_XPULP_INSN)
        const int32_t whole = trainc_minimum32(last, work->lanes.count >> 2);
        if (eights && first < whole) {
            const uint32_t largest = trainc_xpulp_multiply_eights(work, first, whole);
            work->largest[first] = trainc_xpulp_maxu(work->largest[first], largest);
            first = whole;
        }
#endif
        for (int32_t n = first; n < last; n++) {
            if (packed != 0) {
                trainc_xpulp_pack(&work->lanes, n, packed);
            }
            trainc_xpulp_multiply_tile(work, n, packed, 0, work->row_count, n);
        }
    }
}

/* All of a product. */
static inline void trainc_xpulp_multiply_all(struct trainc_xpulp_product *work)
{
    if (!TRAINC_DIVIDED(1, 0) || work->pieces == 1) {
        TRAINC_PARALLEL_FOR(work, work->parts, trainc_xpulp_multiply_parts);
        return;
    }
    if (work->packed != 0) {
        struct trainc_xpulp_packing packing;
        packing.set = work->lanes;
        packing.to = work->packed;
        TRAINC_PARALLEL_FOR(&packing, work->lane_tiles, trainc_xpulp_pack_tiles);
    }
    TRAINC_PARALLEL_FOR(work, work->lane_tiles * work->pieces, trainc_xpulp_multiply_pieces);
}

/* A volume with room around its planes, and between its elements, of zeros. */
struct trainc_xpulp_volume {
    const int8_t *from;
    int8_t *to;
    int32_t height, width, down, right;
    /* Bytes of a row and of a plane there, and of what is above and left of the first element. */
    int32_t row, plane, before;
};

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
