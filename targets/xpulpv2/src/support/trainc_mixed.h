/* What kernels of quantized inference share. */
#ifndef TRAINC_MIXED_H
#define TRAINC_MIXED_H

#include "trainc_rt.h"
#include "trainc_xpulp.h"

/* Hooks for a cluster with a memory of its own, of which trainc_rt.h tells how to define them. Kernels whose operands do not
 * fit it bring them there piece by piece, the next piece while one is worked on.
 *
 * TRAINC_L1(scratch, bytes): so many bytes of that memory, aligned to 16, for the time of a kernel. The
 * kernel's working memory is as large and serves by default.
 *
 * TRAINC_DMA_COPY(to, from, bytes): starts a copy into it. TRAINC_DMA_WAIT(): returns when all copies
 * that were started are done. */
#ifndef TRAINC_L1
#define TRAINC_L1(scratch, bytes) (scratch)
#endif
#ifndef TRAINC_DMA_COPY
#define TRAINC_DMA_COPY(to, from, bytes) trainc_copy(to, from, bytes)
#define TRAINC_DMA_WAIT() ((void)0)
#endif

/* What the parts of a convolution work on. */
struct trainc_mixed_work {
    const uint8_t *x;       /* the operand, or the image's part of it */
    const uint8_t *other;   /* the second operand of a sum */
    uint8_t *lines;         /* lines of bytes, as tiles read them */
    const uint8_t *window;  /* where a tile reads */
    const uint8_t *weights; /* in the order in which tiles read them */
    const uint8_t *first;   /* operands of the output stage */
    const uint8_t *second;
    uint8_t *y;             /* results of the image, or of a tile */
    int32_t image;
    int32_t row;            /* the strip's first row of results */
    int32_t pixel;          /* the tile's first column, counted from the first image on */
    int32_t line;           /* the operand's row at x, if x is a piece of it */
    int32_t group;          /* first group of filters of a piece of the weights */
    int32_t groups;         /* and how many they are */
};

static inline void trainc_mixed_store8(uint8_t *at, uint32_t value)
{
    *at = (uint8_t)value;
}

static inline void trainc_mixed_store16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline uint32_t trainc_mixed_load16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

/* Element index of packed elements of 2, 4 or 8 bits: the first one in the lowest bits. */
static inline int32_t trainc_mixed_get(const uint8_t *from, int32_t index, int32_t bits, int is_signed)
{
    const int32_t bit = index * bits;
    const uint32_t up = (uint32_t)from[bit >> 3] << (32 - bits - (bit & 7));
    return is_signed ? (int32_t)up >> (32 - bits) : (int32_t)(up >> (32 - bits));
}

static inline void trainc_mixed_put(uint8_t *to, int32_t index, int32_t bits, int32_t value)
{
    const int32_t bit = index * bits;
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    uint8_t *const place = to + (bit >> 3);
    *place = (uint8_t)((*place & ~(mask << (bit & 7))) | (((uint32_t)value & mask) << (bit & 7)));
}

/* (sum * scale + offset) >> shift with sign; what comes before the shift wraps. */
static inline uint32_t trainc_mixed_shifted(uint32_t sum, int32_t scale, int32_t offset,
    int32_t shift)
{
    return (uint32_t)((int32_t)(sum * (uint32_t)scale + (uint32_t)offset) >> shift);
}

/* (sum * scale + offset) >> shift, which wraps, in low..=high. */
static inline int32_t trainc_mixed_scale_shift(int32_t sum, int32_t scale, int32_t offset,
    int32_t shift, int32_t low, int32_t high)
{
    const int32_t value = trainc_add32(trainc_multiply32(sum, scale), offset) >> shift;
    return value < low ? low : value > high ? high : value;
}

/* How many of the ascending thresholds are not above the sum. */
static inline int32_t trainc_mixed_threshold(int32_t sum, const int32_t *thresholds, int32_t count)
{
    int32_t low = 0, high = count;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (sum >= thresholds[middle]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The same of three. */
static inline uint32_t trainc_mixed_threshold3(int32_t sum, const int32_t *thresholds)
{
    return (uint32_t)(sum >= thresholds[0]) + (uint32_t)(sum >= thresholds[1])
        + (uint32_t)(sum >= thresholds[2]);
}

/* The same of fifteen. */
static inline uint32_t trainc_mixed_threshold15(int32_t sum, const int32_t *thresholds)
{
    const int32_t *at = thresholds;
    at += (sum >= at[7]) * 8;
    at += (sum >= at[3]) * 4;
    at += (sum >= at[1]) * 2;
    at += sum >= at[0];
    return (uint32_t)(at - thresholds);
}

#endif
