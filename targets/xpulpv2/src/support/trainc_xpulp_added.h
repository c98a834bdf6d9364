/* Errors of matrix products of at most four images: rows of weights are added up by their errors, in
 * registers; of a single image those whose errors are not 0. */
#ifndef TRAINC_XPULP_ADDED_H
#define TRAINC_XPULP_ADDED_H

#include "trainc_xpulp_rounding.h"

struct trainc_xpulp_added {
    /* [rows][lanes], at least 8 lanes, and of several images at least 4 rows. */
    const int8_t *weights;
    /* [images][rows] */
    const int8_t *errors;
    int32_t row_count, lane_count, images, parts;
    /* Of a single image the rows that count, by where they begin, and their errors, filled up to whole
     * words, at least one, by errors of 0. Of more the errors of fours of rows, four words for each. */
    int32_t *listed;
    int8_t *factors;
    int32_t count;
    /* [images][stride] */
    int32_t *sums;
    int32_t stride;
    /* The largest of the sums' magnitudes, by parts. */
    uint32_t *largest;
};

/* Parts of the rows that are listed side by side, and from how many rows on. */
#define TRAINC_XPULP_LISTS 8
#define TRAINC_XPULP_LISTED 32

/* Lists the rows of some parts, behind those before; the last one fills up. */
static inline void trainc_xpulp_list_parts(void *context, int32_t begin, int32_t end)
{
    struct trainc_xpulp_added *const work = (struct trainc_xpulp_added *)context;
    const int32_t fours = work->row_count >> 2;
    const int32_t first = 4 * (begin * fours / TRAINC_XPULP_LISTS);
    const int32_t last = end == TRAINC_XPULP_LISTS ? work->row_count
        : 4 * (end * fours / TRAINC_XPULP_LISTS);
    int32_t count = 0, at = first * work->lane_count;
    for (int32_t row = 0; row < first; row += 4) {
        count += trainc_xpulp_counting(work->errors + row);
    }
    for (int32_t row = first; row < last; row++, at += work->lane_count) {
        const int8_t error = work->errors[row];
        if (error != 0) {
            work->listed[count] = at;
            work->factors[count++] = error;
        }
    }
    if (end == TRAINC_XPULP_LISTS) {
        for (; count == 0 || (count & 3) != 0; count++) {
            work->listed[count] = 0;
            work->factors[count] = 0;
        }
        work->count = count;
    }
}

static inline void trainc_xpulp_list_rows(struct trainc_xpulp_added *work)
{
    if (TRAINC_DIVIDED(1, 0) && work->row_count >= TRAINC_XPULP_LISTED) {
        TRAINC_PARALLEL_FOR(work, TRAINC_XPULP_LISTS, trainc_xpulp_list_parts);
    } else {
        trainc_xpulp_list_parts(work, 0, TRAINC_XPULP_LISTS);
    }
}

/* Errors of fours of rows, an image after the other; the last four overlap others, whose errors are 0
 * there. */
static inline void trainc_xpulp_list_words(struct trainc_xpulp_added *work)
{
    const int32_t rest = work->row_count & 3;
    int8_t *to = work->factors;
    for (int32_t row = 0; row < work->row_count; row += 4) {
        const int32_t at = trainc_minimum32(row, work->row_count - 4);
        const uint32_t mask = row > at ? UINT32_MAX << (32 - 8 * rest) : UINT32_MAX;
        for (int32_t image = 0; image < 4; image++, to += 4) {
            trainc_xpulp_store(to, image < work->images
                ? trainc_xpulp_load(work->errors + image * work->row_count + at) & mask : 0);
        }
    }
}

/* Of words of four rows in x5, x6, x7 and x30 those of their columns, in x30, x31, x6 and x5; a, b and c
 * say which bytes of two. */
#define TRAINC_XPULP_COLUMNS(a, b, c) \
    "mv x31, x5\n\t" TRAINC_XPULP_PV(1, 0x64, x31, x6, a) TRAINC_XPULP_PV(1, 0x64, x5, x6, b) \
    "mv x6, x7\n\t" TRAINC_XPULP_PV(1, 0x64, x6, x30, a) TRAINC_XPULP_PV(1, 0x64, x7, x30, b) \
    TRAINC_XPULP_PV(0, 0x68, x30, x6, x31) TRAINC_XPULP_PV(1, 0x64, x31, x6, c) \
    TRAINC_XPULP_PV(0, 0x68, x6, x7, x5) TRAINC_XPULP_PV(1, 0x64, x5, x7, c)
#define TRAINC_XPULP_FOUR_AT(at) \
    TRAINC_XPULP_LW_AT(x5, x27, at) TRAINC_XPULP_LW_AT(x6, x28, at) \
    TRAINC_XPULP_LW_AT(x7, x29, at) TRAINC_XPULP_LW_AT(x30, x9, at)

/* Eight lanes of listed rows; returns the largest magnitude of their sums: 41 instructions for 32
 * products. */
static inline uint32_t trainc_xpulp_add_eight(const struct trainc_xpulp_added *work, int32_t lane)
{
    int32_t *const sums = work->sums + lane;
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = work->weights + lane;
    register const int8_t *x11 __asm__("x11") = work->weights + lane + 4;
    register const int32_t *x12 __asm__("x12") = work->listed;
    register const int8_t *x13 __asm__("x13") = work->factors;
    register int32_t x14 __asm__("x14") = work->count >> 2;
    register uint32_t x15 __asm__("x15") = 0x05010400;
    register uint32_t x16 __asm__("x16") = 0x07030602;
    register uint32_t x17 __asm__("x17") = 0x07060302;
    register int32_t *x18 __asm__("x18") = sums;
    __asm__ volatile(TRAINC_XPULP_BEGIN
        "li x19, 0\n\tli x20, 0\n\tli x21, 0\n\tli x22, 0\n\tli x23, 0\n\tli x24, 0\n\t"
        "li x25, 0\n\tli x26, 0\n\t" TRAINC_XPULP_LOOP(0, 14, 9)
        TRAINC_XPULP_LWI(x27, 4, x12) TRAINC_XPULP_LWI(x28, 4, x12)
        TRAINC_XPULP_LWI(x29, 4, x12) TRAINC_XPULP_LWI(x9, 4, x12) TRAINC_XPULP_FOUR_AT(x10)
        TRAINC_XPULP_LWI(x1, 4, x13) TRAINC_XPULP_COLUMNS(x15, x16, x17)
        TRAINC_XPULP_SDOT(x19, x30, x1) TRAINC_XPULP_SDOT(x20, x31, x1)
        TRAINC_XPULP_SDOT(x21, x6, x1) TRAINC_XPULP_SDOT(x22, x5, x1)
        TRAINC_XPULP_FOUR_AT(x11) TRAINC_XPULP_COLUMNS(x15, x16, x17)
        TRAINC_XPULP_SDOT(x23, x30, x1) TRAINC_XPULP_SDOT(x24, x31, x1)
        TRAINC_XPULP_SDOT(x25, x6, x1) "9: " TRAINC_XPULP_SDOT(x26, x5, x1)
        TRAINC_XPULP_SWI(x19, 4, x18) TRAINC_XPULP_SWI(x20, 4, x18) TRAINC_XPULP_SWI(x21, 4, x18)
        TRAINC_XPULP_SWI(x22, 4, x18) TRAINC_XPULP_SWI(x23, 4, x18) TRAINC_XPULP_SWI(x24, 4, x18)
        TRAINC_XPULP_SWI(x25, 4, x18) TRAINC_XPULP_SWI(x26, 4, x18) ".option pop"
        : "+r"(x12), "+r"(x13), "+r"(x18)
        : "r"(x10), "r"(x11), "r"(x14), "r"(x15), "r"(x16), "r"(x17)
        : "x1", "x5", "x6", "x7", "x9", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
          "x27", "x28", "x29", "x30", "x31", "memory");
#else
    for (int32_t i = 0; i < 8; i++) {
        sums[i] = 0;
        for (int32_t n = 0; n < work->count; n++) {
            sums[i] += work->weights[work->listed[n] + lane + i] * work->factors[n];
        }
    }
#endif
    return trainc_xpulp_largest_sum(sums, 8);
}

/* Four sums of an image, in place of those that are there or added to them; and their largest magnitude
 * so far. */
static inline uint32_t trainc_xpulp_put_four(int32_t *to, int32_t adds, int32_t a, int32_t b,
    int32_t c, int32_t d, uint32_t largest)
{
    if (adds) {
        a += to[0];
        b += to[1];
        c += to[2];
        d += to[3];
    }
    to[0] = a;
    to[1] = b;
    to[2] = c;
    to[3] = d;
    largest = trainc_xpulp_maxu(largest, trainc_xpulp_abs((uint32_t)a));
    largest = trainc_xpulp_maxu(largest, trainc_xpulp_abs((uint32_t)b));
    largest = trainc_xpulp_maxu(largest, trainc_xpulp_abs((uint32_t)c));
    return trainc_xpulp_maxu(largest, trainc_xpulp_abs((uint32_t)d));
}

/* Four lanes of as many fours of rows, of four images: 36 instructions for 64 products. */
static inline uint32_t trainc_xpulp_add_images(const struct trainc_xpulp_added *work, int32_t lane,
    int32_t row, const int8_t *factors, int32_t fours, int32_t adds)
{
    const int8_t *const from = work->weights + row * work->lane_count + lane;
    int32_t *const to = work->sums + lane;
    uint32_t largest = 0;
#if defined(TRAINC_XPULP_INSN)
    register int32_t a0 __asm__("x11");
    register int32_t a1 __asm__("x12");
    register int32_t a2 __asm__("x13");
    register int32_t a3 __asm__("x14");
    register int32_t b0 __asm__("x15");
    register int32_t b1 __asm__("x16");
    register int32_t b2 __asm__("x17");
    register int32_t b3 __asm__("x18");
    register int32_t c0 __asm__("x19");
    register int32_t c1 __asm__("x20");
    register int32_t c2 __asm__("x21");
    register int32_t c3 __asm__("x22");
    register int32_t d0 __asm__("x23");
    register int32_t d1 __asm__("x24");
    register int32_t d2 __asm__("x25");
    register int32_t d3 __asm__("x26");
    register const int8_t *x27 __asm__("x27") = from;
    register int32_t x28 __asm__("x28") = work->lane_count;
    register const int8_t *x29 __asm__("x29") = factors;
    register int32_t x1 __asm__("x1") = fours;
    register uint32_t x10 __asm__("x10") = 0x05010400;
    register uint32_t x9 __asm__("x9") = 0x07030602;
    /* Columns are in x30, x6, x31 and x7: upper halves are put together without a third mask. */
    __asm__ volatile(TRAINC_XPULP_BEGIN
        "li x11, 0\n\tli x12, 0\n\tli x13, 0\n\tli x14, 0\n\tli x15, 0\n\tli x16, 0\n\t"
        "li x17, 0\n\tli x18, 0\n\tli x19, 0\n\tli x20, 0\n\tli x21, 0\n\tli x22, 0\n\t"
        "li x23, 0\n\tli x24, 0\n\tli x25, 0\n\tli x26, 0\n\t" TRAINC_XPULP_LOOP(0, 1, 9)
        TRAINC_XPULP_LW(x5, x28, x27) TRAINC_XPULP_LW(x6, x28, x27)
        TRAINC_XPULP_LW(x7, x28, x27) TRAINC_XPULP_LW(x30, x28, x27)
        "mv x31, x5\n\t" TRAINC_XPULP_PV(1, 0x64, x31, x6, x10) TRAINC_XPULP_PV(1, 0x64, x5, x6, x9)
        "mv x6, x7\n\t" TRAINC_XPULP_PV(1, 0x64, x6, x30, x10) TRAINC_XPULP_PV(1, 0x64, x7, x30, x9)
        TRAINC_XPULP_PV(0, 0x68, x30, x6, x31) "srli x31, x31, 16\n\t"
        TRAINC_XPULP_INSERT_HALF(x6, x31) TRAINC_XPULP_LWI(x1, 4, x29)
        TRAINC_XPULP_PV(0, 0x68, x31, x7, x5) "srli x5, x5, 16\n\t"
        TRAINC_XPULP_INSERT_HALF(x7, x5) TRAINC_XPULP_LWI(x5, 4, x29)
        TRAINC_XPULP_BY_LANES(TRAINC_XPULP_SDOT, x11, x12, x13, x14, x1, x30, x6, x31, x7)
        TRAINC_XPULP_LWI(x1, 4, x29)
        TRAINC_XPULP_BY_LANES(TRAINC_XPULP_SDOT, x15, x16, x17, x18, x5, x30, x6, x31, x7)
        TRAINC_XPULP_LWI(x5, 4, x29)
        TRAINC_XPULP_BY_LANES(TRAINC_XPULP_SDOT, x19, x20, x21, x22, x1, x30, x6, x31, x7)
        TRAINC_XPULP_SDOT(x23, x5, x30) TRAINC_XPULP_SDOT(x24, x5, x6)
        TRAINC_XPULP_SDOT(x25, x5, x31) "9: " TRAINC_XPULP_SDOT(x26, x5, x7) ".option pop"
        : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3), "=r"(b0), "=r"(b1), "=r"(b2), "=r"(b3),
          "=r"(c0), "=r"(c1), "=r"(c2), "=r"(c3), "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3),
          "+r"(x27), "+r"(x29), "+r"(x1) : "r"(x28), "r"(x10), "r"(x9)
        : "x5", "x6", "x7", "x30", "x31", "memory");
    /* Calls change the registers. */
    const int32_t sums[16] = { a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 };
    largest = trainc_xpulp_put_four(to, adds, sums[0], sums[1], sums[2], sums[3], largest);
    if (work->images > 1) {
        largest = trainc_xpulp_put_four(to + work->stride, adds, sums[4], sums[5], sums[6], sums[7],
            largest);
    }
    if (work->images > 2) {
        largest = trainc_xpulp_put_four(to + 2 * work->stride, adds, sums[8], sums[9], sums[10],
            sums[11], largest);
    }
    if (work->images > 3) {
        largest = trainc_xpulp_put_four(to + 3 * work->stride, adds, sums[12], sums[13], sums[14],
            sums[15], largest);
    }
#else
    for (int32_t image = 0; image < work->images; image++) {
        int32_t sums[4] = { 0, 0, 0, 0 };
        for (int32_t n = 0; n < 4 * fours; n++) {
            const int32_t factor = factors[16 * (n >> 2) + 4 * image + (n & 3)];
            for (int32_t i = 0; i < 4; i++) {
                sums[i] += from[n * work->lane_count + i] * factor;
            }
        }
        largest = trainc_xpulp_put_four(to + image * work->stride, adds, sums[0], sums[1], sums[2],
            sums[3], largest);
    }
#endif
    return largest;
}

/* The lanes of some parts, eight or four at a time, of which the last ones overlap others. */
#define TRAINC_XPULP_ADD_PARTS(name, step, add) \
    static inline void name(void *context, int32_t begin, int32_t end) \
    { \
        const struct trainc_xpulp_added *const work = (const struct trainc_xpulp_added *)context; \
        const int32_t tiles = (work->lane_count + 3) >> 2; \
        for (int32_t part = begin; part < end; part++) { \
            const int32_t last = trainc_minimum32(4 * ((part + 1) * tiles / work->parts), \
                work->lane_count); \
            uint32_t largest = 0; \
            for (int32_t lane = 4 * (part * tiles / work->parts); lane < last; lane += step) { \
                const int32_t at = trainc_minimum32(lane, last - step); \
                largest = trainc_xpulp_maxu(largest, add(work, at)); \
            } \
            work->largest[part] = largest; \
        } \
    }
TRAINC_XPULP_ADD_PARTS(trainc_xpulp_add_rows, 8, trainc_xpulp_add_eight)

/* Four lanes of all rows, of which the last ones come first where they are no four. */
static inline uint32_t trainc_xpulp_add_four(const struct trainc_xpulp_added *work, int32_t lane)
{
    const int32_t fours = work->row_count >> 2, rest = work->row_count & 3;
    if (rest != 0) {
        (void)trainc_xpulp_add_images(work, lane, work->row_count - 4, work->factors + 16 * fours, 1,
            0);
    }
    return trainc_xpulp_add_images(work, lane, 0, work->factors, fours, rest != 0);
}
TRAINC_XPULP_ADD_PARTS(trainc_xpulp_add_rows_of_images, 4, trainc_xpulp_add_four)

#endif
