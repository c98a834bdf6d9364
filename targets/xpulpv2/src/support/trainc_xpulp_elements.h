/* Element by element, four bytes at a time. */
#ifndef TRAINC_XPULP_ELEMENTS_H
#define TRAINC_XPULP_ELEMENTS_H

#include "trainc_rt.h"
#include "trainc_xpulp.h"
#include "trainc_xpulp_number.h"

/* Operands and result; count elements of a byte. */
struct trainc_xpulp_bytes {
    const int8_t *a, *b;
    int8_t *y;
    int32_t count;
};

/* The word of elements from i on; behind the last one it holds zeros. */
static inline uint32_t trainc_xpulp_word(const int8_t *at, int32_t i, int32_t count)
{
    uint32_t word = 0;
    if (i + 4 <= count) {
        return trainc_xpulp_load(at + i);
    }
    for (int32_t n = count - 1; n >= i; n--) {
        word = word << 8 | (uint8_t)at[n];
    }
    return word;
}

static inline void trainc_xpulp_put_word(int8_t *at, int32_t i, int32_t count, uint32_t word)
{
    if (i + 4 <= count) {
        trainc_xpulp_store(at + i, word);
        return;
    }
    for (; i < count; i++, word >>= 8) {
        at[i] = (int8_t)(word & 0xff);
    }
}

/* a - b, clamped to -127..=127: b is first brought to where the difference needs no clamping. */
static inline uint32_t trainc_xpulp_subtract(uint32_t a, uint32_t b)
{
    const uint32_t most = 0x7f7f7f7f;
    const uint32_t low = trainc_xpulp_sub_b(trainc_xpulp_max_b(a, 0xffffffff), most);
    const uint32_t high = trainc_xpulp_add_b(trainc_xpulp_min_b(a, 0), most);
    return trainc_xpulp_sub_b(a, trainc_xpulp_min_b(trainc_xpulp_max_b(b, low), high));
}

/* b where a is above 0, else 0. */
static inline uint32_t trainc_xpulp_where_above(uint32_t a, uint32_t b)
{
    const uint32_t above = trainc_xpulp_min_b(trainc_xpulp_max_b(a, 0), 0x01010101);
    return trainc_xpulp_sub_b(0, above) & b;
}

/* The same of an a without a sign, which is there or not. */
static inline uint32_t trainc_xpulp_where_any(uint32_t a, uint32_t b)
{
    return trainc_xpulp_sub_b(0, trainc_xpulp_minu_b(a, 0x01010101)) & b;
}

/* The upper seven bits of bytes, and the lowest one; of b nothing. */
static inline uint32_t trainc_xpulp_upper(uint32_t a, uint32_t b)
{
    (void)b;
    return a >> 1 & 0x7f7f7f7f;
}

static inline uint32_t trainc_xpulp_lowest(uint32_t a, uint32_t b)
{
    (void)b;
    return a & 0x01010101;
}

/* Bytes less 128; of b nothing. */
static inline uint32_t trainc_xpulp_offset(uint32_t a, uint32_t b)
{
    (void)b;
    return a ^ 0x80808080;
}

/* a where it is above 0, else 0; of b nothing. */
static inline uint32_t trainc_xpulp_positive(uint32_t a, uint32_t b)
{
    (void)b;
    return trainc_xpulp_max_b(a, 0);
}

#if defined(TRAINC_XPULP_INSN)
/* Whole words, at least one: 10 instructions, 5, and 4 and less. */
#define TRAINC_XPULP_WORDS_LOOP(name, ...) \
    static inline void trainc_xpulp_##name##_loop(const int8_t *a, const int8_t *b, int8_t *y, \
        int32_t words) \
    { \
        register const int8_t *x10 __asm__("x10") = a; \
        register const int8_t *x11 __asm__("x11") = b; \
        register int8_t *x12 __asm__("x12") = y; \
        register int32_t x13 __asm__("x13") = words; \
        register uint32_t x14 __asm__("x14") = 0x7f7f7f7f; \
        register uint32_t x15 __asm__("x15") = 0xffffffff; \
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 13, 9) \
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11) __VA_ARGS__ \
            "9: " TRAINC_XPULP_SWI(x5, 4, x12) ".option pop" \
            : "+r"(x10), "+r"(x11), "+r"(x12) : "r"(x13), "r"(x14), "r"(x15) \
            : "x5", "x6", "x7", "x28", "memory"); \
    }
TRAINC_XPULP_WORDS_LOOP(subtract,
    TRAINC_XPULP_PV(1, 0x18, x7, x5, x15) TRAINC_XPULP_PV(1, 0x10, x28, x5, x0)
    TRAINC_XPULP_PV(1, 0x04, x7, x7, x14) TRAINC_XPULP_PV(1, 0x00, x28, x28, x14)
    TRAINC_XPULP_PV(1, 0x18, x6, x6, x7) TRAINC_XPULP_PV(1, 0x10, x6, x6, x28)
    TRAINC_XPULP_PV(1, 0x04, x5, x5, x6))
TRAINC_XPULP_WORDS_LOOP(where_above,
    TRAINC_XPULP_PV(1, 0x0a, x5, x5, x0) "and x5, x5, x6\n\t")
TRAINC_XPULP_WORDS_LOOP(where_any,
    TRAINC_XPULP_PV(1, 0x06, x5, x5, x0) "and x5, x5, x6\n\t")
TRAINC_XPULP_WORDS_LOOP(positive, TRAINC_XPULP_PV(1, 0x18, x5, x5, x0))
/* p.srl and p.and of bytes by 1. */
TRAINC_XPULP_WORDS_LOOP(upper, TRAINC_XPULP_PV(7, 0x21, x5, x5, x0))
TRAINC_XPULP_WORDS_LOOP(lowest, TRAINC_XPULP_PV(7, 0x35, x5, x5, x0))
TRAINC_XPULP_WORDS_LOOP(offset, "xor x5, x5, x14\n\txori x5, x5, -1\n\t")
#else
#define TRAINC_XPULP_WORDS_LOOP(name) \
    static inline void trainc_xpulp_##name##_loop(const int8_t *a, const int8_t *b, int8_t *y, \
        int32_t words) \
    { \
        for (int32_t i = 0; i < 4 * words; i += 4) { \
            trainc_xpulp_store(y + i, \
                trainc_xpulp_##name(trainc_xpulp_load(a + i), trainc_xpulp_load(b + i))); \
        } \
    }
TRAINC_XPULP_WORDS_LOOP(subtract)
TRAINC_XPULP_WORDS_LOOP(where_above)
TRAINC_XPULP_WORDS_LOOP(where_any)
TRAINC_XPULP_WORDS_LOOP(positive)
TRAINC_XPULP_WORDS_LOOP(upper)
TRAINC_XPULP_WORDS_LOOP(lowest)
TRAINC_XPULP_WORDS_LOOP(offset)
#endif

/* Some words of results. */
#define TRAINC_XPULP_WORDS_OF(name) \
    static inline void trainc_xpulp_##name##_words(void *context, int32_t begin, int32_t end) \
    { \
        const struct trainc_xpulp_bytes work = *(const struct trainc_xpulp_bytes *)context; \
        int32_t i = 4 * begin; \
        const int32_t whole = 4 * end <= work.count ? 4 * end : work.count & ~3; \
        if (i < whole) { \
            trainc_xpulp_##name##_loop(work.a + i, work.b + i, work.y + i, (whole - i) >> 2); \
            i = whole; \
        } \
        if (i < 4 * end) { \
            const uint32_t a = trainc_xpulp_word(work.a, i, work.count); \
            const uint32_t b = trainc_xpulp_word(work.b, i, work.count); \
            trainc_xpulp_put_word(work.y, i, work.count, trainc_xpulp_##name(a, b)); \
        } \
    }
TRAINC_XPULP_WORDS_OF(subtract)
TRAINC_XPULP_WORDS_OF(where_above)
TRAINC_XPULP_WORDS_OF(where_any)
TRAINC_XPULP_WORDS_OF(positive)
TRAINC_XPULP_WORDS_OF(upper)
TRAINC_XPULP_WORDS_OF(lowest)
TRAINC_XPULP_WORDS_OF(offset)

/* mantissa 2^power, whose magnitude is below 2^24 before, rounded down and up and within +-2^9. */
static inline int32_t trainc_xpulp_floor(int32_t mantissa, int64_t power)
{
    if (power > 9) {
        return mantissa == 0 ? 0 : mantissa < 0 ? -512 : 512;
    }
    if (power > 0) {
        mantissa = trainc_maximum32(trainc_minimum32(mantissa, 512), -512);
        mantissa *= 1 << power;
    } else {
        mantissa >>= power < -31 ? 31 : -power;
    }
    return trainc_maximum32(trainc_minimum32(mantissa, 512), -512);
}

static inline int32_t trainc_xpulp_ceiling(int32_t mantissa, int64_t power)
{
    return -trainc_xpulp_floor(-mantissa, power);
}

/* Bytes of a, clipped to the bounds; or kept where x lies within them, else 0. */
struct trainc_xpulp_clip {
    const int8_t *x, *a;
    int8_t *y;
    int32_t count;
    int32_t low, high;
};

/* The bounds of a clip as bytes. */
static inline int32_t trainc_xpulp_clip_low(int32_t mantissa, int64_t power)
{
    return trainc_maximum32(trainc_minimum32(trainc_xpulp_ceiling(mantissa, power), 127), -128);
}

static inline int32_t trainc_xpulp_clip_high(int32_t mantissa, int64_t power)
{
    return trainc_maximum32(trainc_minimum32(trainc_xpulp_floor(mantissa, power), 127), -128);
}

/* The least whole number above the lower bound, the largest one below the upper bound. */
static inline int32_t trainc_xpulp_clip_above(int32_t mantissa, int64_t power)
{
    return trainc_xpulp_floor(mantissa, power) + 1;
}

static inline int32_t trainc_xpulp_clip_below(int32_t mantissa, int64_t power)
{
    return trainc_xpulp_ceiling(mantissa, power) - 1;
}

/* Some words. */
static inline void trainc_xpulp_clip_words(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_clip *const work = (const struct trainc_xpulp_clip *)context;
    const int32_t low = work->low, high = work->high;
    const int32_t last = trainc_minimum32(4 * end, work->count);
    int32_t i = 4 * begin;
#if defined(TRAINC_XPULP_INSN)
    const int32_t pairs = (last - i) >> 3;
    if (pairs > 0) {
        register const int8_t *x10 __asm__("x10") = work->a + i;
        register int8_t *x12 __asm__("x12") = work->y + i;
        register int32_t x13 __asm__("x13") = pairs;
        register int32_t x14 __asm__("x14") = low;
        register int32_t x15 __asm__("x15") = high;
        /* Two words, so that none is used as it arrives. */
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 13, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            TRAINC_XPULP_PV(5, 0x18, x5, x5, x14) TRAINC_XPULP_PV(5, 0x18, x6, x6, x14)
            TRAINC_XPULP_PV(5, 0x10, x5, x5, x15) TRAINC_XPULP_PV(5, 0x10, x6, x6, x15)
            TRAINC_XPULP_SWI(x5, 4, x12) "9: " TRAINC_XPULP_SWI(x6, 4, x12) ".option pop"
            : "+r"(x10), "+r"(x12) : "r"(x13), "r"(x14), "r"(x15) : "x5", "x6", "memory");
        i += 8 * pairs;
    }
#endif
    for (; i < last; i++) {
        work->y[i] = (int8_t)trainc_minimum32(trainc_maximum32(work->a[i], low), high);
    }
}

/* Some words of what is kept where x, with a sign or without, lies from low to high, both of its type:
 * where it lies no further above low, modulo 256, than high does. */
static inline void trainc_xpulp_between(const struct trainc_xpulp_clip *work, int32_t begin,
    int32_t end, int32_t low, int32_t high)
{
    const int32_t last = trainc_minimum32(4 * end, work->count);
    const uint32_t range = (uint32_t)(high - low);
    int32_t i = 4 * begin;
#if defined(TRAINC_XPULP_INSN)
    const int32_t words = low <= high ? (last - i) >> 2 : 0;
    if (words > 0) {
        register const int8_t *x10 __asm__("x10") = work->a + i;
        register const int8_t *x11 __asm__("x11") = work->x + i;
        register int8_t *x12 __asm__("x12") = work->y + i;
        register int32_t x13 __asm__("x13") = words;
        register int32_t x14 __asm__("x14") = low;
        register uint32_t x15 __asm__("x15") = range;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 13, 9)
            TRAINC_XPULP_LWI(x6, 4, x11) TRAINC_XPULP_LWI(x5, 4, x10)
            TRAINC_XPULP_PV(5, 0x04, x6, x6, x14) TRAINC_XPULP_PV(5, 0x26, x6, x6, x15)
            "and x5, x5, x6\n\t9: " TRAINC_XPULP_SWI(x5, 4, x12) ".option pop"
            : "+r"(x10), "+r"(x11), "+r"(x12) : "r"(x13), "r"(x14), "r"(x15)
            : "x5", "x6", "memory");
        i += 4 * words;
    }
#endif
    for (; i < last; i++) {
        const uint32_t above = (uint32_t)(uint8_t)work->x[i] - (uint32_t)low;
        work->y[i] = low <= high && (above & 255) <= range ? work->a[i] : 0;
    }
}

static inline void trainc_xpulp_within_words(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_clip *const work = (const struct trainc_xpulp_clip *)context;
    trainc_xpulp_between(work, begin, end, trainc_maximum32(work->low, -128),
        trainc_minimum32(work->high, 127));
}

/* The same of an x without signs. */
static inline void trainc_xpulp_within_unsigned_words(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_clip *const work = (const struct trainc_xpulp_clip *)context;
    trainc_xpulp_between(work, begin, end, trainc_maximum32(work->low, 0),
        trainc_minimum32(work->high, 255));
}

/* The errors of windows that do not overlap, by planes. */
struct trainc_xpulp_pool {
    const int8_t *x, *dy;
    int8_t *dx;
    int32_t height, width, rows, columns, down, right;
};

#if defined(TRAINC_XPULP_INSN)
/* A row of pairs of windows of two by two: of the two rows of x and dx the upper ones. An element
 * wins that is the largest unless one before it is, too. */
static inline void trainc_xpulp_unpool_pairs(const int8_t *x, int32_t width, const int8_t *dy,
    int8_t *dx, int32_t pairs)
{
    register const int8_t *x10 __asm__("x10") = x;
    register const int8_t *x11 __asm__("x11") = x + width;
    register const int8_t *x12 __asm__("x12") = dy;
    register int8_t *x13 __asm__("x13") = dx;
    register int8_t *x14 __asm__("x14") = dx + width;
    register int32_t x15 __asm__("x15") = pairs;
    register uint32_t x16 __asm__("x16") = 0x02030001;
    register uint32_t x17 __asm__("x17") = 0xff00ff00;
    register uint32_t x18 __asm__("x18") = 0x01010000;
    register int32_t x19 __asm__("x19") = -127;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 15, 9)
        TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x11) TRAINC_XPULP_LHI(x7, 2, x12)
        /* Neighbours, the largest of a row's two and of all four, and whether it lies above. */
        TRAINC_XPULP_PV(1, 0x60, x28, x5, x16) TRAINC_XPULP_PV(1, 0x60, x29, x6, x16)
        TRAINC_XPULP_PV(1, 0x18, x30, x5, x28) TRAINC_XPULP_PV(1, 0x18, x31, x6, x29)
        TRAINC_XPULP_PV(1, 0x18, x9, x30, x31) TRAINC_XPULP_PV(1, 0x02, x30, x30, x9)
        TRAINC_XPULP_PV(1, 0x02, x5, x5, x9) TRAINC_XPULP_PV(1, 0x02, x28, x28, x9)
        "and x28, x28, x17\n\tand x28, x28, x5\n\txor x5, x5, x28\n\t"
        TRAINC_XPULP_PV(1, 0x02, x6, x6, x9) TRAINC_XPULP_PV(1, 0x02, x29, x29, x9)
        "and x29, x29, x17\n\tand x29, x29, x6\n\txor x6, x6, x29\n\t"
        "and x30, x30, x6\n\txor x6, x6, x30\n\t"
        TRAINC_XPULP_PV(1, 0x60, x7, x7, x18) TRAINC_XPULP_PV(5, 0x18, x7, x7, x19)
        "and x5, x5, x7\n\tand x6, x6, x7\n\t" TRAINC_XPULP_SWI(x5, 4, x13)
        "9: " TRAINC_XPULP_SWI(x6, 4, x14) ".option pop"
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x13), "+r"(x14)
        : "r"(x15), "r"(x16), "r"(x17), "r"(x18), "r"(x19)
        : "x5", "x6", "x7", "x9", "x28", "x29", "x30", "x31", "memory");
}
#endif

/* The errors of some planes go to the first largest element of their window. */
static inline void trainc_xpulp_unpool(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_pool work = *(const struct trainc_xpulp_pool *)context;
    const int32_t plane = work.height * work.width;
    const int8_t *dy = work.dy + begin * work.rows * work.columns;
    int32_t pairs = 0, whole = 0;
#if defined(TRAINC_XPULP_INSN)
    if (work.down == 2 && work.right == 2) {
        pairs = work.columns >> 1;
    }
    /* Pairs cover all, of an odd number of columns the last one overlaps others. */
    whole = pairs > 0 && work.height == 2 * work.rows && work.width == 2 * work.columns;
#endif
    for (int32_t n = begin; n < end; n++) {
        int8_t *const dx = work.dx + n * plane;
        int32_t i = whole ? plane : 0;
        for (; i + 4 <= plane; i += 4) {
            trainc_xpulp_store(dx + i, 0);
        }
        for (; i < plane; i++) {
            dx[i] = 0;
        }
        for (int32_t row = 0; row < work.rows; row++) {
            const int32_t top = n * plane + row * work.down * work.width;
#if defined(TRAINC_XPULP_INSN)
            if (pairs > 0) {
                trainc_xpulp_unpool_pairs(work.x + top, work.width, dy, work.dx + top, pairs);
                if (whole) {
                    dy += work.columns;
                    if ((work.columns & 1) != 0) {
                        const int32_t last = top + work.width - 4;
                        trainc_xpulp_unpool_pairs(work.x + last, work.width, dy - 2, work.dx + last, 1);
                    }
                    continue;
                }
                dy += 2 * pairs;
            }
#endif
            for (int32_t column = 2 * pairs; column < work.columns; column++, dy++) {
                const int32_t first = top + column * work.right;
                int32_t winner = first, most = work.x[first];
                for (int32_t down = 0; down < work.down; down++) {
                    const int32_t at = first + down * work.width;
                    for (int32_t right = 0; right < work.right; right++) {
                        const int32_t value = work.x[at + right];
                        if (value > most) {
                            most = value;
                            winner = at + right;
                        }
                    }
                }
                /* As of a sum that is clamped. */
                work.dx[winner] = (int8_t)(*dy < -127 ? -127 : *dy);
            }
        }
    }
}

/* Four windows of two by two. */
static inline uint32_t trainc_xpulp_pool_four(const int8_t *top, const int8_t *bottom)
{
    const uint32_t a = trainc_xpulp_max_b(trainc_xpulp_load(top), trainc_xpulp_load(bottom));
    const uint32_t b = trainc_xpulp_max_b(trainc_xpulp_load(top + 4), trainc_xpulp_load(bottom + 4));
    return trainc_xpulp_max_b(trainc_xpulp_shuffle2_b(a, b, 0x06040200),
        trainc_xpulp_shuffle2_b(a, b, 0x07050301));
}

/* The largest elements of windows of two by two, which lie side by side, of some planes: x, and dx
 * in the place of the result. */
static inline void trainc_xpulp_pool_planes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_pool work = *(const struct trainc_xpulp_pool *)context;
    for (int32_t n = begin; n < end; n++) {
        const int8_t *top = work.x + n * work.height * work.width;
        int8_t *to = work.dx + n * work.rows * work.columns;
        for (int32_t row = 0; row < work.rows; row++, top += 2 * work.width, to += work.columns) {
            const int8_t *const bottom = top + work.width;
            int32_t column = 0;
#if defined(TRAINC_XPULP_INSN)
            if (work.columns >= 4) {
                register const int8_t *x10 __asm__("x10") = top;
                register const int8_t *x11 __asm__("x11") = bottom;
                register int8_t *x12 __asm__("x12") = to;
                register int32_t x13 __asm__("x13") = work.columns >> 2;
                register uint32_t x14 __asm__("x14") = 0x06040200;
                register uint32_t x15 __asm__("x15") = 0x07050301;
                __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 13, 9)
                    TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
                    TRAINC_XPULP_LWI(x7, 4, x11) TRAINC_XPULP_LWI(x28, 4, x11)
                    TRAINC_XPULP_PV(1, 0x18, x5, x5, x7) TRAINC_XPULP_PV(1, 0x18, x6, x6, x28)
                    "mv x7, x5\n\t" TRAINC_XPULP_PV(1, 0x64, x7, x6, x14)
                    TRAINC_XPULP_PV(1, 0x64, x5, x6, x15) TRAINC_XPULP_PV(1, 0x18, x5, x5, x7)
                    "9: " TRAINC_XPULP_SWI(x5, 4, x12) ".option pop"
                    : "+r"(x10), "+r"(x11), "+r"(x12) : "r"(x13), "r"(x14), "r"(x15)
                    : "x5", "x6", "x7", "x28", "memory");
                column = work.columns & ~3;
            }
#endif
            for (; column < work.columns; column += 4) {
                if (work.columns >= 4) {
                    /* The last four overlap those before. */
                    const int32_t at = trainc_minimum32(column, work.columns - 4);
                    trainc_xpulp_store(to + at, trainc_xpulp_pool_four(top + 2 * at,
                        bottom + 2 * at));
                    continue;
                }
                for (int32_t i = column; i < work.columns; i++) {
                    const int32_t above = trainc_maximum32(top[2 * i], top[2 * i + 1]);
                    const int32_t below = trainc_maximum32(bottom[2 * i], bottom[2 * i + 1]);
                    to[i] = (int8_t)trainc_maximum32(above, below);
                }
            }
        }
    }
}

/* A byte a plane, which fills it. */
struct trainc_xpulp_spread {
    const int8_t *x;
    int8_t *y;
    int32_t plane;
};

/* Some planes, clamped to -127 and above. */
static inline void trainc_xpulp_spread_planes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_spread work = *(const struct trainc_xpulp_spread *)context;
    for (int32_t n = begin; n < end; n++) {
        const int32_t value = trainc_maximum32(work.x[n], -127);
        const uint32_t word = (uint8_t)value * UINT32_C(0x01010101);
        int8_t *const to = work.y + n * work.plane;
        int32_t i = 0;
        for (; i + 4 <= work.plane; i += 4) {
            trainc_xpulp_store(to + i, word);
        }
        if (i < work.plane) {
            trainc_xpulp_put_word(to, i, work.plane, word);
        }
    }
}

/* An operand of which each byte is that of a run of neighbours, or, in runs of one, of a whole row. */
struct trainc_xpulp_repeat {
    const int8_t *x;
    int8_t *y;
    int32_t channels, run;
};

/* Some runs, of all images in turn. */
static inline void trainc_xpulp_repeat_runs(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_repeat work = *(const struct trainc_xpulp_repeat *)context;
    int8_t *to = work.y + begin * work.run;
    int32_t channel = begin % work.channels;
    for (int32_t n = begin; n < end; n++, to += work.run) {
        const uint32_t word = (uint8_t)work.x[channel] * UINT32_C(0x01010101);
        for (int32_t i = 0; i < work.run; i += 4) {
            trainc_xpulp_put_word(to, i, work.run, word);
        }
        channel = channel + 1 < work.channels ? channel + 1 : 0;
    }
}

/* Some rows. */
static inline void trainc_xpulp_repeat_rows(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_repeat work = *(const struct trainc_xpulp_repeat *)context;
    for (int32_t n = begin; n < end; n++) {
        int8_t *const to = work.y + n * work.channels;
        for (int32_t i = 0; i < work.channels; i += 4) {
            trainc_xpulp_put_word(to, i, work.channels, trainc_xpulp_word(work.x, i, work.channels));
        }
    }
}

/* Floats by an exponent to bytes, without arithmetic of floats. */
struct trainc_xpulp_floats {
    const float *x;
    int8_t *y;
    int32_t exponent;
    /* Whether all are known to be finite numbers. */
    int32_t finite;
};

/* The largest of the bits of magnitudes, NaNs and infinities among them, doubled. */
static inline uint32_t trainc_xpulp_most_bits(const void *x, int32_t count)
{
    uint32_t most = 0;
    int32_t i = 0;
#if defined(TRAINC_XPULP_INSN)
    if (count > 1) {
        register const void *x10 __asm__("x10") = x;
        register int32_t x12 __asm__("x12") = count >> 1;
        register uint32_t x13 __asm__("x13") = 0;
        __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
            TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10)
            "slli x5, x5, 1\n\tslli x6, x6, 1\n\t" TRAINC_XPULP_SCALAR(7, x13, x13, x5)
            "9: " TRAINC_XPULP_SCALAR(7, x13, x13, x6) ".option pop"
            : "+r"(x10), "+r"(x13) : "r"(x12) : "x5", "x6", "memory");
        most = x13;
        i = count & ~1;
    }
#endif
    for (; i < count; i++) {
        most = trainc_xpulp_maxu(most, trainc_xpulp_load((const char *)x + 4 * i) << 1);
    }
    return most;
}

/* Floats of which cores take parts. */
struct trainc_xpulp_most {
    const float *x;
    int32_t count;
    uint32_t most[8];
};

static inline void trainc_xpulp_most_parts(void *context, int32_t begin, int32_t end)
{
    struct trainc_xpulp_most *const work = (struct trainc_xpulp_most *)context;
    const int32_t each = (work->count + 7) >> 3;
    for (int32_t part = begin; part < end; part++) {
        const int32_t first = trainc_minimum32(part * each, work->count);
        work->most[part] = trainc_xpulp_most_bits(work->x + first,
            trainc_minimum32(first + each, work->count) - first);
    }
}

/* As trainc_xpulp_most_bits. */
static inline uint32_t trainc_xpulp_most_shared(const float *x, int32_t count)
{
    if (!TRAINC_DIVIDED(1, 0) || count < 256) {
        return trainc_xpulp_most_bits(x, count);
    }
    struct trainc_xpulp_most work = { x, count, { 0, 0, 0, 0, 0, 0, 0, 0 } };
    TRAINC_PARALLEL_FOR(&work, 8, trainc_xpulp_most_parts);
    uint32_t most = 0;
    for (int32_t part = 0; part < 8; part++) {
        most = trainc_xpulp_maxu(most, work.most[part]);
    }
    return most;
}

/* The bits of the largest finite magnitude that does not lie below any; NaNs do not count. `most` is
 * trainc_xpulp_most_bits. */
static inline int32_t trainc_xpulp_finite(const void *x, int32_t count, uint32_t most)
{
    int32_t largest = 0;
    if (most < UINT32_C(0xff000000)) {
        return (int32_t)(most >> 1);
    }
    for (int32_t i = 0; i < count; i++) {
        const int32_t bits =
            (int32_t)trainc_xpulp_load((const char *)x + 4 * i) & INT32_MAX;
        if (bits > largest && bits <= 0x7f800000) {
            largest = bits;
        }
    }
    return largest < 0x7f7fffff ? largest : 0x7f7fffff;
}

static inline int32_t trainc_xpulp_largest(const void *x, int32_t count)
{
    return trainc_xpulp_finite(x, count, trainc_xpulp_most_shared(x, count));
}

#if defined(TRAINC_XPULP_INSN)
/* The rounded magnitude of the float in x in the register m; x9 is free. Where it is not above half of a
 * unit, too much is shifted out for anything to be left. */
#define TRAINC_XPULP_TO_MAGNITUDE(m, x) \
    ".insn r 0x33, 1, 0x67, x9, " #x ", x23\n\t" ".insn r 0x33, 1, 0x76, " #m ", " #x ", x0\n\t" \
    "sub x9, x13, x9\n\tor " #m ", " #m ", x14\n\t" TRAINC_XPULP_SCALAR(5, x9, x9, x15) \
    "srl x18, " #m ", x9\n\tandi x18, x18, 1\n\taddi x18, x18, -1\n\t" \
    TRAINC_XPULP_ADDU_ROUND(m, x18, x9)

/* Fours of floats, at least one, none of them a NaN or infinite, subnormal numbers less than half a
 * unit: trainc_xpulp_to_bytes. */
static inline void trainc_xpulp_fours_to_bytes(const float *x, int8_t *y, int32_t fours,
    int32_t exponent)
{
    register const float *x10 __asm__("x10") = x;
    register int8_t *x11 __asm__("x11") = y;
    register int32_t x12 __asm__("x12") = fours;
    register int32_t x13 __asm__("x13") = exponent + 150;
    register int32_t x14 __asm__("x14") = 0x800000;
    register int32_t x15 __asm__("x15") = 31;
    register uint32_t x16 __asm__("x16") = 0x07030703;
    register uint32_t x17 __asm__("x17") = 0x7f7f7f7f;
    /* Signs, in all bits of a byte of x5: magnitudes are at most 127, or 128 with a sign. */
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 12, 9)
        TRAINC_XPULP_LWI(x5, 4, x10) TRAINC_XPULP_LWI(x6, 4, x10) TRAINC_XPULP_LWI(x7, 4, x10)
        TRAINC_XPULP_LWI(x19, 4, x10) TRAINC_XPULP_TO_MAGNITUDE(x28, x5)
        TRAINC_XPULP_TO_MAGNITUDE(x29, x6) TRAINC_XPULP_TO_MAGNITUDE(x30, x7)
        TRAINC_XPULP_TO_MAGNITUDE(x31, x19) TRAINC_XPULP_BYTES(x28, x28, x29, x30, x31)
        TRAINC_XPULP_PV(1, 0x64, x5, x6, x16) TRAINC_XPULP_PV(1, 0x64, x7, x19, x16)
        TRAINC_XPULP_PV(0, 0x68, x5, x7, x5) TRAINC_XPULP_PV(7, 0x25, x5, x5, x3)
        TRAINC_XPULP_PV(1, 0x04, x6, x17, x5) TRAINC_XPULP_PV(1, 0x14, x28, x28, x6)
        "xor x28, x28, x5\n\t" TRAINC_XPULP_PV(1, 0x04, x28, x28, x5)
        "9: " TRAINC_XPULP_SWI(x28, 4, x11) ".option pop"
        : "+r"(x10), "+r"(x11)
        : "r"(x12), "r"(x13), "r"(x14), "r"(x15), "r"(x16), "r"(x17)
        : "x5", "x6", "x7", "x19", "x9", "x18", "x28", "x29", "x30", "x31", "memory");
}
#endif

/* x / 2^exponent, rounded to nearest with ties to even, clamped to bytes; 0 for NaN. Magnitudes are
 * at most 2^(exponent + 7), but for infinities. */
static inline void trainc_xpulp_to_bytes(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_floats work = *(const struct trainc_xpulp_floats *)context;
#if defined(TRAINC_XPULP_INSN)
    if (end - begin >= 4 && work.exponent >= -124 && work.finite) {
        const int32_t fours = (end - begin) >> 2;
        trainc_xpulp_fours_to_bytes(work.x + begin, work.y + begin, fours, work.exponent);
        begin += 4 * fours;
    }
#endif
    for (int32_t i = begin; i < end; i++) {
        const int32_t bits = trainc_bits(work.x[i]);
        const int32_t biased = (bits >> 23) & 255;
        const int32_t fraction = bits & 0x7fffff;
        /* The magnitude is mantissa / 2^down units. */
        const uint32_t mantissa = (uint32_t)(biased > 0 ? fraction | 0x800000 : fraction);
        const int32_t down = work.exponent + 150 - (biased > 0 ? biased : 1);
        uint32_t q = 0;
        if (biased == 255) {
            q = fraction == 0 ? 128 : 0;
        } else if (down <= 0) {
            q = mantissa << -down;
        } else if (down < 26) {
            const uint32_t even = (mantissa >> down) & 1;
            q = (mantissa + (UINT32_C(1) << (down - 1)) - 1 + even) >> down;
        }
        const int32_t y = (int32_t)(bits < 0 ? 0 - q : q);
        work.y[i] = (int8_t)(y > 127 ? 127 : y);
    }
}

/* The product of a float by 2^exponent where both are normal numbers, in `to`; 0 if not. Zeros have
 * the same product by any. */
static inline int trainc_xpulp_moved(float x, int32_t exponent, float *to)
{
    const int32_t bits = trainc_bits(x), biased = (bits >> 23) & 255;
    const int32_t moved = biased + exponent;
    if ((uint32_t)biased - 1 < 254 && (uint32_t)moved - 1 < 254) {
        *to = trainc_float(bits + (int32_t)((uint32_t)exponent << 23));
        return 1;
    }
    *to = x;
    return (uint32_t)bits << 1 == 0;
}

/* Parameters less a power of two of what gradients are of a divisor: w - rate (g / divisor). */
struct trainc_xpulp_update {
    const float *w, *g;
    float *y;
    float rate, divisor;
};

/* The rate of a step of so many bits, and the divisor, which is the largest finite magnitude. */
static inline void trainc_xpulp_update_start(struct trainc_xpulp_update *work, int32_t bits,
    int32_t count)
{
    const int32_t largest = trainc_xpulp_largest(work->g, count);
    const int32_t kept = trainc_maximum32(trainc_minimum32(bits, 7), 0);
    work->rate = largest == 0 || kept == 0 ? 0.0f : trainc_float((kept + 117) << 23);
    work->divisor = largest == 0 ? 1.0f : trainc_float(largest);
}

static inline void trainc_xpulp_updates(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_update work = *(const struct trainc_xpulp_update *)context;
    const int32_t rate = trainc_bits(work.rate);
    const int32_t chains = TRAINC_XPULP_CHAINS && rate != 0 && trainc_bits(work.divisor) >= 0x800000;
    const struct trainc_xpulp_divisor divisor =
        trainc_xpulp_divisor(chains ? work.divisor : 1.0f);
    for (int32_t i = begin; i < end; i++) {
        if (chains) {
            uint32_t largest = 0;
            const struct trainc_xpulp_number quotient = trainc_xpulp_over(
                trainc_xpulp_number(work.g[i], &largest), &divisor, &largest);
            const struct trainc_xpulp_number w = trainc_xpulp_number(work.w[i], &largest);
            const float y = trainc_xpulp_float(trainc_xpulp_minus(w,
                trainc_xpulp_times_power(quotient, (rate >> 23) - 127, &largest), &largest));
            if (TRAINC_XPULP_MOSTLY(largest <= TRAINC_XPULP_MOST_EXPONENT)) {
                work.y[i] = y;
                continue;
            }
        }
        float step = work.g[i] / work.divisor;
        if (rate == 0 || !trainc_xpulp_moved(step, (rate >> 23) - 127, &step)) {
            step = work.rate * step;
        }
        work.y[i] = work.w[i] - step;
    }
}

/* Sums of two operands by the same two numbers, one or two sums for each element: statistics that
 * follow those of batches. */
struct trainc_xpulp_blends {
    /* The operands and the result of each sum; none of the second one where there is but one. */
    const float *x[2][2];
    float *y[2];
    float factors[2];
};

static inline float trainc_xpulp_blend(float a, float b, const struct trainc_xpulp_number *factors,
    const struct trainc_xpulp_blends *work, uint32_t first)
{
    uint32_t largest = first;
    if (TRAINC_XPULP_CHAINS) {
        const float y = trainc_xpulp_float(trainc_xpulp_plus(
            trainc_xpulp_times(trainc_xpulp_number(a, &largest), factors[0], &largest),
            trainc_xpulp_times(trainc_xpulp_number(b, &largest), factors[1], &largest), &largest));
        if (TRAINC_XPULP_MOSTLY(largest <= TRAINC_XPULP_MOST_EXPONENT)) {
            return y;
        }
    }
    return a * work->factors[0] + b * work->factors[1];
}

/* An element's results are stored when all of its operands are read. */
static inline void trainc_xpulp_blend_elements(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_blends work = *(const struct trainc_xpulp_blends *)context;
    uint32_t first = 0;
    const struct trainc_xpulp_number factors[2] = {
        trainc_xpulp_number(work.factors[0], &first), trainc_xpulp_number(work.factors[1], &first)
    };
    for (int32_t i = begin; i < end; i++) {
        float other = 0.0f;
        if (work.y[1] != 0) {
            other = trainc_xpulp_blend(work.x[1][0][i], work.x[1][1][i], factors, &work, first);
        }
        work.y[0][i] = trainc_xpulp_blend(work.x[0][0][i], work.x[0][1][i], factors, &work, first);
        if (work.y[1] != 0) {
            work.y[1][i] = other;
        }
    }
}

/* Bytes by an exponent to floats. */
struct trainc_xpulp_scaled {
    const int8_t *x;
    float *y;
    /* The bits of the floats of 0 to 127, then -128 to -1; or the exponent of few. */
    const int32_t *table;
    int32_t exponent;
};

/* The bits of q 2^exponent, q from 1 to 128. */
static inline int32_t trainc_xpulp_scaled_bits(int32_t q, int32_t exponent)
{
    if (exponent >= -126 && exponent <= 120) {
        const int32_t log = 31 - trainc_leading_zeros(q);
        return ((log + 127 + exponent) << 23) + ((q << (23 - log)) & 0x7fffff);
    }
    /* By two powers of two, of which the first leaves it exact. */
    const int32_t e = exponent < -300 ? -300 : exponent > 300 ? 300 : exponent;
    const int32_t first = e < -126 ? -126 : e > 127 ? 127 : e;
    const int32_t rest = e - first < -126 ? -126 : e - first > 127 ? 127 : e - first;
    return trainc_bits((float)q * trainc_float((first + 127) << 23)
        * trainc_float((rest + 127) << 23));
}

static inline void trainc_xpulp_scaled_table(int32_t *table, int32_t exponent)
{
    table[0] = 0;
    for (int32_t q = 1; q <= 128; q++) {
        const int32_t bits = trainc_xpulp_scaled_bits(q, exponent);
        table[256 - q] = bits | INT32_MIN;
        if (q < 128) {
            table[q] = bits;
        }
    }
}

/* Without a table. */
static inline void trainc_xpulp_scale(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_scaled work = *(const struct trainc_xpulp_scaled *)context;
    for (int32_t i = begin; i < end; i++) {
        const int32_t x = work.x[i], magnitude = (int32_t)trainc_xpulp_abs((uint32_t)x);
        const int32_t bits = x == 0 ? 0 : trainc_xpulp_scaled_bits(magnitude, work.exponent);
        work.y[i] = trainc_float(x < 0 ? bits | INT32_MIN : bits);
    }
}

static inline void trainc_xpulp_to_floats(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_scaled work = *(const struct trainc_xpulp_scaled *)context;
    for (int32_t i = begin; i < end; i++) {
        work.y[i] = trainc_float(work.table[(uint8_t)work.x[i]]);
    }
}

#endif
