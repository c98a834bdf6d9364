/* The levels of AArch64 in one program: what the processor has decides at run time.
 *
 * Panels have the same sizes at all levels, so that a kernel is the same but for the functions that
 * it calls. */
#ifndef TRAINC_NEON_DISPATCH_H
#define TRAINC_NEON_DISPATCH_H

#include "trainc_neon_baseline.h"
#include "trainc_neon_dotprod.h"
#include "trainc_neon_i8mm.h"

/* The functions of a level. */
struct trainc_level {
    trainc_tile *(*tile_for)(const int8_t *rows, int32_t bytes);
    void (*row_of_taps)(const int8_t *src, int32_t channels, int32_t taps, int8_t *panel,
        int32_t row, int8_t *temporary);
    void (*rows_of_errors)(const int8_t *w, int32_t outputs, int32_t channels, int32_t taps,
        int32_t w_stride, int8_t *panels, int32_t panel_bytes, int8_t *temporary);
    void (*rows)(const int8_t *src, int32_t rows_, int32_t length, int32_t stride, int8_t *panels,
        int8_t *temporary);
    int32_t (*window_panel)(const struct trainc_windows *w, const struct trainc_places *p,
        int32_t place, const int8_t *pixels, int32_t pixel_bytes, int8_t *panel,
        struct trainc_run *runs, int32_t *offsets);
    void (*patch_panel)(const struct trainc_windows *w, const struct trainc_places *p,
        int32_t place, const int8_t *x, int32_t channels, int32_t image_bytes, int8_t *patches,
        int32_t patch_bytes, int8_t *panel, struct trainc_run *run, int32_t *offsets);
    void (*images_last_rows)(const int8_t *src, int32_t images, int32_t image_bytes,
        int32_t channels, int32_t plane, int8_t *panel);
    void (*images_last_lanes)(const int8_t *src, int32_t images, int32_t image_bytes,
        int32_t channels, int32_t plane, int8_t *panel);
    void (*tap_panel_rows)(const struct trainc_windows *w, int32_t i, int32_t j, const int8_t *src,
        int32_t images, int32_t image_bytes, int32_t channels, int8_t *panel, int8_t *temporary);
    void (*tap_panel_lanes)(const struct trainc_windows *w, int32_t i, int32_t j,
        const int8_t *src, int32_t images, int32_t image_bytes, int32_t channels, int8_t *panel,
        int8_t *temporary);
};

/* -DTRAINC_LEVEL=0, 1 or 2, or an expression, replaces the question to Linux where there is none:
 * baseline, dotprod, i8mm. */
#ifndef TRAINC_LEVEL
/* The C library's; AT_HWCAP is 16, AT_HWCAP2 is 26. */
extern unsigned long getauxval(unsigned long type);
#define TRAINC_LEVEL                                       \
    (getauxval(26) >> 13 & 1          ? 2 /* i8mm */       \
            : getauxval(16) >> 20 & 1 ? 1 /* asimddp */    \
                                      : 0)
#endif

#define TRAINC_FUNCTIONS(level)                                                           \
    {                                                                                     \
        trainc_tile_for_##level, trainc_row_of_taps_##level,                              \
        trainc_rows_of_errors_##level, trainc_rows_##level,                               \
        trainc_window_panel_##level, trainc_patch_panel_##level,                          \
        trainc_images_last_rows_##level, trainc_images_last_lanes_##level,                \
        trainc_tap_panel_rows_##level, trainc_tap_panel_lanes_##level                     \
    }

TRAINC_SHARED const struct trainc_level *trainc_level(void)
{
    static const struct trainc_level levels[3] = {
        TRAINC_FUNCTIONS(baseline),
        TRAINC_FUNCTIONS(dotprod),
        TRAINC_FUNCTIONS(i8mm),
    };
    return &levels[TRAINC_LEVEL];
}

#endif
