/* Calls of the simulator's host: see targets/riscv/src/host.rs. */
#ifndef TRAINC_RISCV_HOST_H
#define TRAINC_RISCV_HOST_H

#include <stddef.h>
#include <stdint.h>

static inline int32_t host_call(int32_t number, int32_t first, const void *second, size_t third)
{
    register int32_t a0 __asm__("a0") = first;
    register const void *a1 __asm__("a1") = second;
    register size_t a2 __asm__("a2") = third;
    register int32_t a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

/* Bytes read from standard input, 0 at its end. */
static inline int32_t host_read(void *place, size_t bytes) { return host_call(63, 0, place, bytes); }

/* Writes to standard output. */
static inline int32_t host_write(const void *place, size_t bytes) { return host_call(64, 1, place, bytes); }

static inline void host_exit(int32_t code) { host_call(93, code, 0, 0); }

/* A parallel region: begin and end of each core's shares, then the region's end. */
static inline void host_share_begin(int32_t core) { host_call(500, core, 0, 0); }
static inline void host_share_end(void) { host_call(501, 0, 0, 0); }
static inline void host_region_end(void) { host_call(502, 0, 0, 0); }

/* Records the counters under a label. */
static inline void host_mark(int32_t label) { host_call(503, label, 0, 0); }

#endif
