/* The DSP's clock under qemu-hexagon, and lines of what launches take. Without a library. On a device a clock
 * of its own stands here. */
#include <stdint.h>

#include "trainc_rt.h"

enum { WRITE = 64, CLOCK_GETTIME = 113, MONOTONIC = 1 };

static long call(long number, long a, long b, long c)
{
    register long r6 __asm__("r6") = number;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r6), "r"(r1), "r"(r2) : "memory");
    return r0;
}

static char *decimal(char *end, uint64_t number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return end;
}

/* Puts a word in front. */
static char *word(char *from, const char *text)
{
    const char *end = text;
    while (*end != '\0') {
        end++;
    }
    while (end != text) {
        *--from = *--end;
    }
    return from;
}

uint64_t trainc_clock(void)
{
    int32_t time[2] = { 0, 0 };
    (void)call(CLOCK_GETTIME, MONOTONIC, (long)(uintptr_t)time, 0);
    return (uint64_t)(uint32_t)time[0] * UINT64_C(1000000000) + (uint32_t)time[1];
}

void trainc_profile(void *arena, uint32_t entry, uint32_t launch, uint64_t cycles)
{
    char text[96];
    char *const end = text + sizeof text;
    char *from = end;
    (void)arena;
    *--from = '\n';
    from = decimal(from, cycles);
    *--from = ' ';
    from = decimal(from, launch);
    *--from = ' ';
    from = word(decimal(from, entry), "trainc-time hvx ");
    (void)call(WRITE, 2, (long)(uintptr_t)from, (long)(end - from));
}
