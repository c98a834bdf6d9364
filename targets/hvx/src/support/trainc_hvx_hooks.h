/* What a device may do while a program runs, with no effect on its results. Each macro is empty unless
 * the header that TRAINC_HOOKS names defines it, or the compiler's command does.
 *
 * TRAINC_HVX_ACQUIRE(), TRAINC_HVX_RELEASE(): around what a call computes: the thread takes its vector
 * context, and gives it back.
 *
 * TRAINC_L2FETCH(address, width, height, stride): a launch is about to read `height` rows of `width`
 * bytes, a row `stride` bytes behind the one before. trainc_hvx_l2fetch has the instruction.
 *
 * TRAINC_HVX_WORKING(memory, bytes): where a launch's working memory lies: `memory`, or any other memory of
 * so many bytes, aligned to 128, that nobody else uses meanwhile (VTCM). Its contents need not last.
 *
 * TRAINC_HVX_RESIDENT_BYTES: for trainc_hvx_resident.c, which keeps packed constants; 0 keeps none. */
#ifndef TRAINC_HVX_HOOKS_H
#define TRAINC_HVX_HOOKS_H

#include <stdint.h>

#ifndef TRAINC_HVX_ACQUIRE
#define TRAINC_HVX_ACQUIRE() ((void)0)
#endif
#ifndef TRAINC_HVX_RELEASE
#define TRAINC_HVX_RELEASE() ((void)0)
#endif
#ifndef TRAINC_L2FETCH
#define TRAINC_L2FETCH(address, width, height, stride) ((void)0)
#endif
#ifndef TRAINC_HVX_WORKING
#define TRAINC_HVX_WORKING(memory, bytes) (memory)
#endif
#ifndef TRAINC_HVX_RESIDENT_BYTES
#define TRAINC_HVX_RESIDENT_BYTES 0
#endif

/* Fetches rows into the second level's cache while the program goes on; all numbers are below 65536. */
static inline void trainc_hvx_l2fetch(const void *address, uint32_t width, uint32_t height,
    uint32_t stride)
{
#ifdef __hexagon__
    const uint64_t rows = (uint64_t)stride << 32 | width << 16 | height;
    __asm__ volatile("l2fetch(%0,%1)" : : "r"(address), "r"(rows));
#else
    (void)address, (void)width, (void)height, (void)stride;
#endif
}

/* Where the packed form of a constant lies that a kernel reads: 1 if it is there, 0 if the kernel must write
 * it there. A kernel has a number, since each has an order of its own. */
#if TRAINC_HVX_RESIDENT_BYTES > 0
int trainc_hvx_kept(uint32_t kernel, const void *constant, uint32_t bytes, uint8_t **place);
#define TRAINC_HVX_KEPT(kernel, operand, bytes, place) \
    (TRAINC_HVX_CONSTANT(operand) && trainc_hvx_kept(kernel, operand, bytes, place))
#else
#define TRAINC_HVX_KEPT(kernel, operand, bytes, place) 0
#endif

/* Whether an operand lies in an array. */
static inline int trainc_hvx_within(const void *operand, const void *array, uint32_t bytes)
{
    return (uintptr_t)operand - (uintptr_t)array < bytes;
}

#endif
