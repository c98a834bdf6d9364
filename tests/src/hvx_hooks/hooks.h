/* Every hook of Hexagon does something, and checks that it comes when it should. */
/* The command includes it everywhere. */
#if !defined(HVX_HOOKS_TEST_H) && !defined(__ASSEMBLER__)
#define HVX_HOOKS_TEST_H

#include <stdint.h>

/* One of all sources. */
__attribute__((weak)) int32_t hooks_depth;
__attribute__((weak)) uint8_t hooks_vtcm[1 << 16] __attribute__((aligned(128)));

static inline void hooks_expect(int32_t depth, int32_t next)
{
    if (hooks_depth != depth) {
        __builtin_trap();
    }
    hooks_depth = next;
}

#define TRAINC_HVX_ACQUIRE() hooks_expect(0, 1)
#define TRAINC_HVX_RELEASE() hooks_expect(1, 0)
#define TRAINC_L2FETCH(address, width, height, stride) \
    do { \
        hooks_expect(1, 1); \
        trainc_hvx_l2fetch(address, width, height, stride); \
    } while (0)
/* Working memory that holds other bytes than the program's would, if it is large enough. */
static inline uint8_t *hooks_working(uint8_t *memory, uint32_t bytes)
{
    if (bytes > sizeof hooks_vtcm) {
        return memory;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        hooks_vtcm[i] = (uint8_t)(i * 37 + 11);
    }
    return hooks_vtcm;
}
#define TRAINC_HVX_WORKING(memory, bytes) hooks_working(memory, bytes)

/* Ranges of uneven lengths, the last first, as hardware threads might run them. */
static inline void hooks_parallel(void *context, int32_t count,
    void (*body)(void *context, int32_t begin, int32_t end))
{
    for (int32_t end = count, length = 1; end > 0; length += 2) {
        const int32_t begin = end > length ? end - length : 0;
        body(context, begin, end);
        end = begin;
    }
}
#define TRAINC_PARALLEL_FOR(context, count, body) hooks_parallel(context, count, body)

#endif
