/* Inference of the quantized network of 8-, 4- and 2-bit layers on images of a generator: the logits of each. */
#include "mixed.h"

#include "host.h"

enum { IMAGES = 8 };

TRAINC_ALIGNED(MIXED_ALIGNMENT) static unsigned char arena[MIXED_ARENA_BYTES];
/* Nothing is kept between calls, and C knows no empty arrays. */
TRAINC_ALIGNED(MIXED_ALIGNMENT) static unsigned char state[MIXED_STATE_BYTES + 1];
static float image[MIXED_GLOBAL_IN_ELEMENTS], logits[MIXED_GLOBAL_OUT_ELEMENTS];

static uint32_t next(void)
{
    static uint32_t at = 20210407;
    at = at * 1664525u + 1013904223u;
    return at >> 16;
}

int main(void)
{
    mixed_init(state);
    for (int32_t n = 0; n < IMAGES; n++) {
        for (int32_t i = 0; i < MIXED_GLOBAL_IN_ELEMENTS; i++) {
            image[i] = (float)(next() & 255) / 255.0f;
        }
        host_mark(2 * n);
        mixed_infer(arena, state, image, logits);
        host_mark(2 * n + 1);
        host_write(logits, sizeof logits);
    }
    return 0;
}
