/* Products of packed bits that stand for 1 and -1: exclusive or, and counts of ones (p.cnt). */
#ifndef TRAINC_XPULP_BITS_H
#define TRAINC_XPULP_BITS_H

#include "trainc_rt.h"
#include "trainc_xpulp.h"

/* A convolution of maps whose pixels are whole words. Its sums are stored, or become bits: 1 where
 * a sum, or its complement where flips has -1, is at least the feature's threshold. */
struct trainc_xpulp_bits {
    const uint8_t *x, *w;
    const int32_t *thresholds, *flips;
    int32_t *sums;
    uint8_t *bits;
    /* Of the operand, of the weights, of the result; bytes of a pixel, channels that count. */
    int32_t height, width, features, rows, columns, y_height, y_width, bytes, channels;
    int32_t down, right, top, left;
};

/* Adds how many bits of some words, at least one, differ from those of four features, which lie
 * `feature` bytes apart: 17 cycles a word. */
static inline void trainc_xpulp_bits_differ(
    const uint8_t *x, const uint8_t *w, int32_t feature, int32_t words, uint32_t differ[4])
{
#if defined(TRAINC_XPULP_INSN)
    register const uint8_t *x10 __asm__("x10") = x;
    register const uint8_t *x11 __asm__("x11") = w;
    register const uint8_t *x12 __asm__("x12") = w + feature;
    register const uint8_t *x13 __asm__("x13") = w + 2 * feature;
    register const uint8_t *x14 __asm__("x14") = w + 3 * feature;
    register int32_t x15 __asm__("x15") = words;
    register uint32_t x28 __asm__("x28") = differ[0];
    register uint32_t x29 __asm__("x29") = differ[1];
    register uint32_t x30 __asm__("x30") = differ[2];
    register uint32_t x31 __asm__("x31") = differ[3];
#define TRAINC_XPULP_COUNT(rd) ".insn r 0x33, 3, 0x08, " #rd ", " #rd ", x0\n\t"
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 15, 9)
        TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11) TRAINC_XPULP_LWI(x7, 4, x12)
        "xor x6, x6, x5\n\t" "xor x7, x7, x5\n\t"
        TRAINC_XPULP_COUNT(x6) TRAINC_XPULP_COUNT(x7)
        "add x28, x28, x6\n\t" "add x29, x29, x7\n\t"
        TRAINC_XPULP_LWI(x6, 4, x13) TRAINC_XPULP_LWI(x7, 4, x14)
        "xor x6, x6, x5\n\t" "xor x7, x7, x5\n\t"
        TRAINC_XPULP_COUNT(x6) TRAINC_XPULP_COUNT(x7)
        "add x30, x30, x6\n\t" "9: add x31, x31, x7\n\t" ".option pop"
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x13), "+r"(x14), "+r"(x28), "+r"(x29),
          "+r"(x30), "+r"(x31)
        : "r"(x15) : "x5", "x6", "x7", "memory");
#undef TRAINC_XPULP_COUNT
    differ[0] = x28;
    differ[1] = x29;
    differ[2] = x30;
    differ[3] = x31;
#else
    for (int32_t i = 0; i < words; i++) {
        const uint32_t word = trainc_xpulp_load((const int8_t *)x + 4 * i);
        for (int32_t n = 0; n < 4; n++) {
            uint32_t a = word ^ trainc_xpulp_load((const int8_t *)w + n * feature + 4 * i);
            a -= a >> 1 & 0x55555555;
            a = (a & 0x33333333) + (a >> 2 & 0x33333333);
            differ[n] += ((a + (a >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
        }
    }
#endif
}

/* Some rows of results. */
static inline void trainc_xpulp_bits_rows(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_bits work = *(const struct trainc_xpulp_bits *)context;
    const int32_t feature = work.rows * work.columns * work.bytes;
    for (int32_t row = begin; row < end; row++) {
        const int32_t top = row % work.y_height * work.down - work.top;
        const int32_t kh = top < 0 ? -top : 0;
        const int32_t below = work.height - top < work.rows ? work.height - top : work.rows;
        const int32_t line = (row / work.y_height * work.height + top) * work.width;
        for (int32_t ow = 0; ow < work.y_width; ow++) {
            const int32_t left = ow * work.right - work.left;
            const int32_t kw = left < 0 ? -left : 0;
            const int32_t beyond =
                work.width - left < work.columns ? work.width - left : work.columns;
            /* A window beside the map has none. */
            const int32_t columns = below > kh && beyond > kw ? beyond - kw : 0;
            const int32_t most = columns * (below - kh) * work.channels;
            const int32_t pixel = row * work.y_width + ow;
            uint32_t byte = 0;
            for (int32_t first = 0; first < work.features; first += 4) {
                uint32_t differ[4] = { 0, 0, 0, 0 };
                for (int32_t at = kh; columns > 0 && at < below; at++) {
                    const uint8_t *x = work.x + (line + at * work.width + left + kw) * work.bytes;
                    const uint8_t *w =
                        work.w + first * feature + (at * work.columns + kw) * work.bytes;
                    trainc_xpulp_bits_differ(x, w, feature, columns * work.bytes >> 2, differ);
                }
                for (int32_t n = 0; n < 4; n++) {
                    const int32_t sum = most - 2 * (int32_t)differ[n], at = first + n;
                    if (work.bits == 0) {
                        work.sums[pixel * work.features + at] = sum;
                    } else {
                        const int32_t flip = work.flips == 0 ? 0 : work.flips[at];
                        byte |= (uint32_t)(work.thresholds[at] <= (sum ^ flip)) << (at & 7);
                    }
                }
                if (work.bits != 0 && (first & 4) != 0) {
                    work.bits[(pixel * work.features + first) >> 3] = (uint8_t)byte;
                    byte = 0;
                }
            }
        }
    }
}

#endif
