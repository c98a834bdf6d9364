/* Counting in the simulator: a mark when an entry begins and after each launch; with CORES, the
 * rounds of loops on that many cores. */
#ifndef TRAINC_COUNTING_HOOKS_H
#define TRAINC_COUNTING_HOOKS_H

#include "host.h"

#define TRAINC_COUNTED(label) host_mark((int32_t)(label))
#ifndef TRAINC_UNMARKED
#ifndef TRAINC_ENTERED
#define TRAINC_ENTERED(arena, state, entry) host_mark((int32_t)(UINT32_C(0x80000000) | (entry)))
#endif
#define TRAINC_LAUNCHED(arena, state, launch, node) host_mark((int32_t)(launch))
#endif

#ifdef CORES
static inline void counting_parallel(void *context, int32_t count, trainc_body body)
{
    for (int32_t core = 0; core < CORES; core++) {
        const int32_t begin = core * count / CORES, end = (core + 1) * count / CORES;
        host_share_begin(core);
        if (begin < end) {
            body(context, begin, end);
        }
        host_share_end();
    }
    host_region_end();
}
#define TRAINC_PARALLEL_FOR(context, count, body) counting_parallel(context, count, body)
#endif

#endif
