/* The processor's clock, and lines of what launches take. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "trainc_rt.h"

uint64_t trainc_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

void trainc_profile(void *arena, uint32_t entry, uint32_t launch, uint64_t cycles)
{
    (void)arena;
    fprintf(stderr, "trainc-time cpu %lu %lu %llu\n", (unsigned long)entry, (unsigned long)launch,
        (unsigned long long)cycles);
}
