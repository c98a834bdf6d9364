/* Products of groups with FP32 scales: what stands around the sums of their parts. */
#ifndef TRAINC_HVX_GROUPS_H
#define TRAINC_HVX_GROUPS_H

#include <stdint.h>

#include "trainc_rt.h"

/* A part's images and features, and from a scale of an image's or of a feature's to the next. */
struct trainc_hvx_scales {
    int32_t images, features, image, feature;
};

static inline void trainc_hvx_begin(float *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = 0;
    }
}

/* Each image's scale by each feature's. */
static inline void trainc_hvx_scales(const struct trainc_hvx_scales *s, const float *images,
    const float *features, float *products)
{
    for (int32_t n = 0; n < s->images; n++) {
        const float image = images[n * s->image];
        for (int32_t f = 0; f < s->features; f++) {
            *products++ = image * features[f * s->feature];
        }
    }
}

/* Multiplies by 2 to the exponent, in two factors: beyond 1000 both are at their end. */
static inline void trainc_hvx_end(float *y, int32_t count, int32_t exponent)
{
    const int32_t all = trainc_minimum32(trainc_maximum32(exponent, -1000), 1000);
    const int32_t first = trainc_minimum32(trainc_maximum32(all, -126), 127);
    const int32_t second = trainc_minimum32(trainc_maximum32(all - first, -126), 127);
    const float factors[2] = { trainc_float((first + 127) << 23), trainc_float((second + 127) << 23) };
    for (int32_t i = 0; i < count; i++) {
        y[i] = y[i] * factors[0] * factors[1];
    }
}

#endif
