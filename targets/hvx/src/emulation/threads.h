/* Counting with THREADS hardware threads, a model: of the ranges that run at the same time the most
 * packets of one count. What threads share (issue, caches, the vector units) is not modelled. */
#ifdef THREADS
#include <stdint.h>

/* Packets so far, as the emulator's register C20 has them. */
uint32_t trainc_count_packets(void);
/* So many of them were executed at the same time as others. */
void trainc_count_less(uint32_t packets);

static inline void threads_parallel(void *context, int32_t count,
    void (*body)(void *context, int32_t begin, int32_t end))
{
    const uint32_t begun = trainc_count_packets();
    uint32_t most = 0;
    for (int32_t thread = 0; thread < THREADS; thread++) {
        const int32_t begin = thread * count / THREADS, end = (thread + 1) * count / THREADS;
        if (begin < end) {
            const uint32_t before = trainc_count_packets();
            body(context, begin, end);
            const uint32_t own = trainc_count_packets() - before;
            most = own > most ? own : most;
        }
    }
    trainc_count_less(trainc_count_packets() - begun - most);
}
#define TRAINC_PARALLEL_FOR(context, count, body) threads_parallel(context, count, body)
#endif
