/* LeNet-5's training steps in the simulator, on numbers of a generator, with the counters after
 * each launch and the sum of all weights at the end. BATCH and STEPS are defined by the caller. */
#include "lenet5.h"

#include "host.h"

TRAINC_ALIGNED(LENET5_ALIGNMENT) static unsigned char arena[LENET5_ARENA_BYTES];
TRAINC_ALIGNED(LENET5_ALIGNMENT) static unsigned char state[LENET5_STATE_BYTES];
static float input[BATCH * 784];
static int32_t labels[BATCH];

static uint32_t next(void)
{
    static uint32_t state32 = 12345;
    state32 = state32 * 1664525u + 1013904223u;
    return state32 >> 16;
}

int main(void)
{
    lenet5_init(state);
    for (uint32_t step = 0; step < STEPS; step++) {
        float loss;
        for (int32_t i = 0; i < BATCH * 784; i++) {
            input[i] = (float)(next() & 255) / 256.0f;
        }
        for (int32_t i = 0; i < BATCH; i++) {
            labels[i] = (int32_t)(next() % 10);
        }
        host_mark(1000);
        lenet5_train_step(arena, state, 7, step, input, labels, 3, &loss);
        host_mark(2000);
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < LENET5_STATE_BYTES; i++) {
        sum = sum * 31 + state[i];
    }
    host_write(&sum, sizeof sum);
    return 0;
}
