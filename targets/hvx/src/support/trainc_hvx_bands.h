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

/* A vector of bytes anywhere. */
typedef int32_t trainc_hvx_bytes __attribute__((vector_size(128), aligned(1), may_alias));

/* Copies bytes that do not overlap, and up to 127 behind them. */
static inline int8_t *trainc_hvx_copy(int8_t *to, const int8_t *from, int32_t bytes)
{
    for (int32_t i = 0; i < bytes; i += 128) {
        *(trainc_hvx_bytes *)(to + i) = *(const trainc_hvx_bytes *)(from + i);
    }
    return to + bytes;
}

/* The same of zeros. */
static inline int8_t *trainc_hvx_zeros(int8_t *to, int32_t bytes)
{
    for (int32_t i = 0; i < bytes; i += 128) {
        *(trainc_hvx_bytes *)(to + i) = (trainc_hvx_bytes){0};
    }
    return to + bytes;
}

/* From [image][plane][row][column] to [image][band][plane][row of the band][column]; reads and writes
 * up to 127 bytes behind both. */
static inline void trainc_hvx_split(const struct trainc_hvx_bands *b, const int8_t *x, int8_t *to)
{
    const int32_t plane = b->height * b->width;
    for (int32_t image = 0; image < b->images; image++, x += b->planes * plane) {
        for (int32_t band = 0; band < b->bands; band++) {
            const int32_t first = band * b->step - b->before, last = first + b->rows;
            const int32_t begin = first < 0 ? 0 : first;
            const int32_t end = last > b->height ? b->height : last;
            const int8_t *from = x + begin * b->width;
            for (int32_t n = 0; n < b->planes; n++, from += plane) {
                to = trainc_hvx_zeros(to, (begin - first) * b->width);
                to = trainc_hvx_copy(to, from, (end - begin) * b->width);
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
    const int8_t *const end = y + b->images * b->planes * b->bands * band_bytes;
    for (int32_t image = 0; image < b->images; image++) {
        for (int32_t n = 0; n < b->planes; n++) {
            for (int32_t band = 0; band < b->bands; band++) {
                const int32_t place = (image * b->bands + band) * b->planes + n;
                const int8_t *const x = from + place * band_bytes;
                int32_t whole = band_bytes;
                /* Nothing is written behind the result. */
                if (end - y < band_bytes + 127) {
                    whole = band_bytes & ~127;
                    for (int32_t i = whole; i < band_bytes; i++) {
                        y[i] = x[i];
                    }
                }
                trainc_hvx_copy(y, x, whole);
                y += band_bytes;
            }
        }
    }
}

#endif
