/* Packed constants that kernels keep between calls, within a budget that all programs of a process share.
 * What has no room makes some: the fewest others give way, and of these the most recently used, for a
 * training runs its kernels in one order over and over, so that what ran last is needed last. Kernels find
 * their bytes wherever they lie, so that results do not depend on the budget. One call runs at a time.
 *
 * TRAINC_HVX_RESIDENT_BYTES is the budget, TRAINC_HVX_RESIDENT_MEMORY where it lies (aligned to 128), if not
 * here, TRAINC_HVX_RESIDENT_REGIONS how many packed constants at most. */
#ifdef TRAINC_HOOKS
#include TRAINC_HOOKS
#endif
#include "trainc_hvx_hooks.h"

#if TRAINC_HVX_RESIDENT_BYTES > 0

#ifndef TRAINC_HVX_RESIDENT_REGIONS
#define TRAINC_HVX_RESIDENT_REGIONS 256
#endif
#ifndef TRAINC_HVX_RESIDENT_MEMORY
static uint8_t memory[TRAINC_HVX_RESIDENT_BYTES] __attribute__((aligned(128)));
#define TRAINC_HVX_RESIDENT_MEMORY memory
#endif

struct region {
    const void *constant;
    uint32_t kernel, bytes, at;
};

/* The most recently used last. */
static struct region regions[TRAINC_HVX_RESIDENT_REGIONS];
static uint32_t count, used;
/* Numbers of regions, the largest region's first, while some give way. */
static uint16_t by_size[TRAINC_HVX_RESIDENT_REGIONS];

/* For measurements: how often something was packed, of how many uses. */
uint32_t trainc_hvx_prepared, trainc_hvx_used;

static void drop(uint32_t at)
{
    used -= regions[at].bytes;
    for (count--; at < count; at++) {
        regions[at] = regions[at + 1];
    }
}

static void sort(void)
{
    for (uint32_t n = 0; n < count; n++) {
        uint32_t at = n;
        for (; at > 0 && regions[by_size[at - 1]].bytes < regions[n].bytes; at--) {
            by_size[at] = by_size[at - 1];
        }
        by_size[at] = (uint16_t)n;
    }
}

/* The sum of the `most` largest of the first `length`, of `sorted` ones: those used before the others. */
static uint32_t largest(uint32_t sorted, uint32_t length, uint32_t most)
{
    uint32_t sum = 0;
    for (uint32_t n = 0; n < sorted && most > 0; n++) {
        if (by_size[n] < length) {
            sum += regions[by_size[n]].bytes;
            most--;
        }
    }
    return sum;
}

static void release(uint32_t need)
{
    const uint32_t sorted = count;
    uint32_t left = 1, sum = 0;
    sort();
    while (left < count && largest(sorted, count, left) < need) {
        left++;
    }
    /* What is dropped moves only what was used after it, which was looked at before. */
    for (uint32_t i = count; i-- > 0 && left > 0;) {
        if (sum + regions[i].bytes + largest(sorted, i, left - 1) >= need) {
            sum += regions[i].bytes;
            left--;
            drop(i);
        }
    }
}

/* The first place with room, or the budget if all of it is in pieces that are smaller. */
static uint32_t room(uint32_t size)
{
    const uint32_t budget = TRAINC_HVX_RESIDENT_BYTES;
    uint32_t at = 0;
    for (uint32_t i = 0; i < count && size <= budget - at;) {
        if (regions[i].at < at + size && at < regions[i].at + regions[i].bytes) {
            at = regions[i].at + regions[i].bytes;
            i = 0;
        } else {
            i++;
        }
    }
    return size <= budget - at ? at : budget;
}

/* Moves all to the beginning; gives where they end. */
static uint32_t compact(void)
{
    typedef uint64_t __attribute__((may_alias)) word;
    uint8_t *const all = TRAINC_HVX_RESIDENT_MEMORY;
    uint32_t behind = 0;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t first = count;
        for (uint32_t i = 0; i < count; i++) {
            if (regions[i].at >= behind && (first == count || regions[i].at < regions[first].at)) {
                first = i;
            }
        }
        word *const to = (word *)(void *)(all + behind);
        const word *const from = (const word *)(void *)(all + regions[first].at);
        for (uint32_t i = 0; i < regions[first].bytes / sizeof(word) && to != from; i++) {
            to[i] = from[i];
        }
        regions[first].at = behind;
        behind += regions[first].bytes;
    }
    return behind;
}

int trainc_hvx_kept(uint32_t kernel, const void *constant, uint32_t bytes, uint8_t **place)
{
    const uint32_t size = (bytes + 127) & ~UINT32_C(127), budget = TRAINC_HVX_RESIDENT_BYTES;
    trainc_hvx_used++;
    for (uint32_t i = 0; i < count; i++) {
        if (regions[i].constant == constant && regions[i].kernel == kernel) {
            const struct region found = regions[i];
            for (uint32_t n = i + 1; n < count; n++) {
                regions[n - 1] = regions[n];
            }
            regions[count - 1] = found;
            *place = TRAINC_HVX_RESIDENT_MEMORY + found.at;
            return 1;
        }
    }
    trainc_hvx_prepared++;
    if (size > budget) {
        return 0;
    }
    if (size > budget - used) {
        release(size - (budget - used));
    }
    if (count == TRAINC_HVX_RESIDENT_REGIONS) {
        drop(count - 1);
    }
    uint32_t at = room(size);
    if (at == budget) {
        at = compact();
    }
    const struct region new_one = { constant, kernel, size, at };
    regions[count++] = new_one;
    *place = TRAINC_HVX_RESIDENT_MEMORY + at;
    used += size;
    return 0;
}

#else
typedef int trainc_hvx_keeps_nothing;
#endif
