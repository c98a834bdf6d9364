/* Images in bands of rows: where there are fewer images than vectors take, bands of an image stand
 * for images, each with the rows around it that its windows read. */
#ifndef TRAINC_HVX_BANDS_H
#define TRAINC_HVX_BANDS_H

#include <stdint.h>

/* Planes of an image; its bands have some rows each, of which the first lies that much before the
 * plane, and then a step from a band to the next. Rows outside the plane are zeros. */
struct trainc_hvx_bands {
    int32_t images, planes, height, width, bands, rows, step, before;
};

/* Copies bytes that do not overlap, as many at a time as all addresses allow. */
#define TRAINC_HVX_COPY(size) \
    for (int32_t i = 0; i < bytes; i += size) { \
        __builtin_memcpy(__builtin_assume_aligned(to + i, size), \
            __builtin_assume_aligned(from + i, size), size); \
    }
static inline void trainc_hvx_copy(int8_t *to, const int8_t *from, int32_t bytes)
{
    const uintptr_t all = (uintptr_t)to | (uintptr_t)from | (uintptr_t)bytes;
    if ((all & 7) == 0) {
        TRAINC_HVX_COPY(8)
    } else if ((all & 3) == 0) {
        TRAINC_HVX_COPY(4)
    } else if ((all & 1) == 0) {
        TRAINC_HVX_COPY(2)
    } else {
        TRAINC_HVX_COPY(1)
    }
}

static inline int8_t *trainc_hvx_zeros(int8_t *to, int32_t bytes)
{
    for (int32_t i = 0; i < bytes; i++) {
        to[i] = 0;
    }
    return to + bytes;
}

/* From [image][plane][row][column] to [image][band][plane][row of the band][column]. */
static inline void trainc_hvx_split(const struct trainc_hvx_bands *b, const int8_t *x, int8_t *to)
{
    const int32_t plane = b->height * b->width;
    for (int32_t image = 0; image < b->images; image++, x += b->planes * plane) {
        for (int32_t band = 0; band < b->bands; band++) {
            const int32_t first = band * b->step - b->before, last = first + b->rows;
            const int32_t begin = first < 0 ? 0 : first;
            const int32_t end = last > b->height ? b->height : last;
            for (int32_t n = 0; n < b->planes; n++) {
                to = trainc_hvx_zeros(to, (begin - first) * b->width);
                trainc_hvx_copy(to, x + n * plane + begin * b->width, (end - begin) * b->width);
                to += (end - begin) * b->width;
                to = trainc_hvx_zeros(to, (last - end) * b->width);
            }
        }
    }
}

/* From [image][band][plane][row of the band][column] to [image][plane][row][column]; the bands lie one
 * behind the other. */
static inline void trainc_hvx_join(const struct trainc_hvx_bands *b, const int8_t *from, int8_t *y)
{
    const int32_t band_bytes = b->rows * b->width;
    for (int32_t image = 0; image < b->images; image++) {
        for (int32_t n = 0; n < b->planes; n++) {
            for (int32_t band = 0; band < b->bands; band++, y += band_bytes) {
                const int32_t place = (image * b->bands + band) * b->planes + n;
                trainc_hvx_copy(y, from + place * band_bytes, band_bytes);
            }
        }
    }
}

#endif
