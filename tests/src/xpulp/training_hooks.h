/* Hooks for measurements in the simulator: a mark after each launch, and with -DCORES the rounds
 * of loops on that many cores. */
#ifndef TRAINC_TRAINING_HOOKS_H
#define TRAINC_TRAINING_HOOKS_H

#include "host.h"

#define TRAINC_LAUNCHED(arena, state, launch, node) host_mark(launch)

#ifdef CORES
static inline void training_parallel(void *context, int32_t count, trainc_body body)
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
#define TRAINC_PARALLEL_FOR(context, count, body) training_parallel(context, count, body)
#endif

#endif
