/* Errors of matrix products of a single image: the rows of weights whose errors are not 0, by these,
 * are added up. */
#ifndef TRAINC_XPULP_ADDED_H
#define TRAINC_XPULP_ADDED_H

#include "trainc_xpulp_rounding.h"

struct trainc_xpulp_added {
    /* [rows][lanes] */
    const int8_t *weights;
    /* A byte a row. */
    const int8_t *errors;
    int32_t row_count, lane_count, parts;
    /* The rows that count and their errors, filled up to whole words by errors of 0. */
    int32_t *listed;
    int8_t *factors;
    int32_t count;
    int32_t *sums;
    /* The largest of the sums' magnitudes, by parts. */
    uint32_t *largest;
};

static inline void trainc_xpulp_list_rows(struct trainc_xpulp_added *work)
{
    int32_t count = 0;
    for (int32_t row = 0; row < work->row_count; row++) {
        if (work->errors[row] != 0) {
            work->listed[count] = row;
            work->factors[count++] = work->errors[row];
        }
    }
    for (; (count & 3) != 0; count++) {
        work->listed[count] = 0;
        work->factors[count] = 0;
    }
    work->count = count;
}

/* Four rows, each by a byte of the factors, added to sums; four lanes at a time, at least once. */
static inline void trainc_xpulp_add_four(const int8_t *const rows[4], uint32_t factors,
    int32_t *sums, int32_t count)
{
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = rows[0];
    register const int8_t *x11 __asm__("x11") = rows[1];
    register const int8_t *x12 __asm__("x12") = rows[2];
    register const int8_t *x13 __asm__("x13") = rows[3];
    register int32_t *x14 __asm__("x14") = sums;
    register uint32_t x15 __asm__("x15") = factors;
    register int32_t x16 __asm__("x16") = count;
    register uint32_t x17 __asm__("x17") = 0x05010400;
    register uint32_t x28 __asm__("x28") = 0x07030602;
    register uint32_t x29 __asm__("x29") = 0x07060302;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 16, 9)
        TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11)
        TRAINC_XPULP_LWI(x7, 4, x12) TRAINC_XPULP_LWI(x30, 4, x13)
        "lw x18, 0(x14)\n\tlw x19, 4(x14)\n\tlw x20, 8(x14)\n\tlw x21, 12(x14)\n\t"
        "mv x31, x5\n\t" TRAINC_XPULP_PV(1, 0x64, x31, x6, x17) TRAINC_XPULP_PV(1, 0x64, x5, x6, x28)
        "mv x6, x7\n\t" TRAINC_XPULP_PV(1, 0x64, x6, x30, x17) TRAINC_XPULP_PV(1, 0x64, x7, x30, x28)
        TRAINC_XPULP_PV(0, 0x68, x30, x6, x31) TRAINC_XPULP_SDOT(x18, x30, x15)
        TRAINC_XPULP_PV(1, 0x64, x31, x6, x29) TRAINC_XPULP_SDOT(x19, x31, x15)
        TRAINC_XPULP_PV(0, 0x68, x30, x7, x5) TRAINC_XPULP_SDOT(x20, x30, x15)
        TRAINC_XPULP_PV(1, 0x64, x5, x7, x29) TRAINC_XPULP_SDOT(x21, x5, x15)
        TRAINC_XPULP_SWI(x18, 4, x14) TRAINC_XPULP_SWI(x19, 4, x14) TRAINC_XPULP_SWI(x20, 4, x14)
        "9: " TRAINC_XPULP_SWI(x21, 4, x14) ".option pop"
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x13), "+r"(x14)
        : "r"(x15), "r"(x16), "r"(x17), "r"(x28), "r"(x29)
        : "x5", "x6", "x7", "x18", "x19", "x20", "x21", "x30", "x31", "memory");
#else
    for (int32_t lane = 0; lane < 4 * count; lane++) {
        for (int32_t i = 0; i < 4; i++) {
            sums[lane] += rows[i][lane] * (int8_t)(factors >> 8 * i & 0xff);
        }
    }
#endif
}

/* The lanes of some parts. */
static inline void trainc_xpulp_add_rows(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_added *const work = (const struct trainc_xpulp_added *)context;
    const int32_t tiles = (work->lane_count + 3) >> 2;
    for (int32_t part = begin; part < end; part++) {
        const int32_t first = 4 * (part * tiles / work->parts);
        const int32_t last = trainc_minimum32(4 * ((part + 1) * tiles / work->parts),
            work->lane_count);
        const int32_t whole = (last - first) & ~3;
        int32_t *const sums = work->sums + first;
        trainc_xpulp_zero(sums, 4 * (last - first));
        for (int32_t n = 0; n < work->count; n += 4) {
            const int8_t *rows[4];
            for (int32_t i = 0; i < 4; i++) {
                rows[i] = work->weights + work->listed[n + i] * work->lane_count + first;
            }
            if (whole > 0) {
                trainc_xpulp_add_four(rows, trainc_xpulp_load(work->factors + n), sums, whole >> 2);
            }
            for (int32_t lane = whole; lane < last - first; lane++) {
                for (int32_t i = 0; i < 4; i++) {
                    sums[lane] += rows[i][lane] * work->factors[n + i];
                }
            }
        }
        uint32_t largest = 0;
        for (int32_t lane = 0; lane < last - first; lane++) {
            largest = trainc_xpulp_maxu(largest, trainc_xpulp_abs((uint32_t)sums[lane]));
        }
        work->largest[part] = largest;
    }
}

#endif
