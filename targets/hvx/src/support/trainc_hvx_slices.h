/* Slices of a tensor: the planes of one group of channels of each image, which lie apart where there are
 * several groups. */
#ifndef TRAINC_HVX_SLICES_H
#define TRAINC_HVX_SLICES_H

#include "trainc_hvx_bands.h"

/* Bytes of an image's slice, and from an image to the next. */
struct trainc_hvx_slices {
    int32_t images, bytes, stride;
};

/* Copies these bytes, which do not overlap, and no others. */
static inline void trainc_hvx_slice(int8_t *to, const int8_t *from, int32_t bytes)
{
    const int32_t whole = bytes & ~127;
    trainc_hvx_copy(to, from, whole);
    if (bytes == whole) {
        return;
    }
    if (whole > 0) {
        /* The last vector, some of which has been copied. */
        trainc_hvx_copy(to + bytes - 128, from + bytes - 128, 128);
        return;
    }
    for (int32_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
}

/* A group's slices of all images, one behind the other. */
static inline void trainc_hvx_gather(const struct trainc_hvx_slices *s, const int8_t *from, int8_t *to)
{
    for (int32_t image = 0; image < s->images; image++, from += s->stride, to += s->bytes) {
        trainc_hvx_slice(to, from, s->bytes);
    }
}

/* And back to where they belong. */
static inline void trainc_hvx_scatter(const struct trainc_hvx_slices *s, const int8_t *from, int8_t *to)
{
    for (int32_t image = 0; image < s->images; image++, from += s->bytes, to += s->stride) {
        trainc_hvx_slice(to, from, s->bytes);
    }
}

#endif
