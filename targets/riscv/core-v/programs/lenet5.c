/* Two training steps of LeNet-5 on numbers of a generator: the loss of each, then all weights. The last is marked. */
#include "lenet5.h"

#include "host.h"

enum { IMAGES = LENET5_BATCH, STEPS = 2 };

TRAINC_ALIGNED(LENET5_ALIGNMENT) static unsigned char arena[LENET5_ARENA_BYTES];
TRAINC_ALIGNED(LENET5_ALIGNMENT) static unsigned char state[LENET5_STATE_BYTES];
static float input[LENET5_INPUT_ELEMENTS];
static int32_t labels[IMAGES];

static uint32_t next(void)
{
    static uint32_t at = 20210407;
    at = at * 1664525u + 1013904223u;
    return at >> 16;
}

int main(void)
{
    lenet5_init(state);
    for (uint32_t step = 0; step < STEPS; step++) {
        float loss;
        for (int32_t i = 0; i < LENET5_INPUT_ELEMENTS; i++) {
            input[i] = (float)(next() & 255) / 256.0f;
        }
        for (int32_t i = 0; i < IMAGES; i++) {
            labels[i] = (int32_t)(next() % 10);
        }
        if (step == STEPS - 1) {
            host_mark(0);
        }
        lenet5_train_step(arena, state, 7, step, input, labels, 3, &loss);
        if (step == STEPS - 1) {
            host_mark(1);
        }
        host_write(&loss, sizeof loss);
    }
    host_write(state, sizeof state);
    return 0;
}
