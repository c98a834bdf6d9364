/* FP32 products: 8 rows (channels of the result) by 8 lanes (its places, or a weight's channels and
 * taps) at a time. Each sum is that of its terms in order from 0, each product and each addition
 * rounded; what lies beside a plane is a term of 0. C99 with NEON intrinsics, for AArch64.
 *
 * Bytes whose groups have scales are multiplied alike: the sum of a group is an integer that a
 * float holds exactly. */
#ifndef TRAINC_NEON_FLOAT_H
#define TRAINC_NEON_FLOAT_H

#include "trainc_neon_packing.h"

/* Sizes of a product. A part is what is summed of one plane. */
struct trainc_product {
    int32_t rows, row_stride;
    int32_t parts, part_stride;
    /* From an image of the lanes' operand to the next, from a plane to the next. */
    int32_t image_stride, plane;
    /* From a row of the result to the next. */
    int32_t result_stride;
};

/* Scales of groups: a row's at row * row_step + part * row_part, a lane's (of its image, of a
 * weight's gradient its channel) likewise. */
struct trainc_scales {
    const float *rows, *lanes;
    int32_t row_step, row_part, lane_step, lane_part;
    float factors[2];
};

/* Sums of 8 rows and 8 lanes. */
struct trainc_float_sums {
    float32x4_t of[8][2];
};

TRAINC_PART float trainc_float_at(const void *from, int bytes, int32_t at)
{
    return bytes ? (float)((const int8_t *)from)[at] : ((const float *)from)[at];
}

#define TRAINC_FLOAT_ROW(row, a, lane)                                       \
    s.of[row][0] = vaddq_f32(s.of[row][0], vmulq_laneq_f32(x, a, lane));     \
    s.of[row][1] = vaddq_f32(s.of[row][1], vmulq_laneq_f32(y, a, lane))

/* Adds the products of `depth` terms. */
TRAINC_PART struct trainc_float_sums trainc_float_products(
    struct trainc_float_sums s, const float *rows, const float *lanes, int32_t depth)
{
    for (int32_t k = 0; k < depth; k++) {
        const float32x4_t a = vld1q_f32(rows), b = vld1q_f32(rows + 4);
        const float32x4_t x = vld1q_f32(lanes), y = vld1q_f32(lanes + 4);
        TRAINC_FLOAT_ROW(0, a, 0);
        TRAINC_FLOAT_ROW(1, a, 1);
        TRAINC_FLOAT_ROW(2, a, 2);
        TRAINC_FLOAT_ROW(3, a, 3);
        TRAINC_FLOAT_ROW(4, b, 0);
        TRAINC_FLOAT_ROW(5, b, 1);
        TRAINC_FLOAT_ROW(6, b, 2);
        TRAINC_FLOAT_ROW(7, b, 3);
        rows += 8;
        lanes += 8;
    }
    return s;
}

/* tile[8 rows][8 lanes] += products. */
TRAINC_SHARED void trainc_float_tile(
    const float *rows, const float *lanes, int32_t depth, float *tile)
{
    struct trainc_float_sums s;
    for (int32_t r = 0; r < 8; r++) {
        s.of[r][0] = vld1q_f32(tile + 8 * r);
        s.of[r][1] = vld1q_f32(tile + 8 * r + 4);
    }
    s = trainc_float_products(s, rows, lanes, depth);
    for (int32_t r = 0; r < 8; r++) {
        vst1q_f32(tile + 8 * r, s.of[r][0]);
        vst1q_f32(tile + 8 * r + 4, s.of[r][1]);
    }
}

/* The same of parts of `depth` terms: tile += sum of a part * (scale of the row * scale of the
 * lane), part by part. Scales are [parts][8]. */
TRAINC_SHARED void trainc_scaled_tile(const float *rows, const float *lanes, int32_t parts,
    int32_t depth, const float *row_scales, const float *lane_scales, float *tile)
{
    for (int32_t part = 0; part < parts; part++) {
        struct trainc_float_sums s;
        for (int32_t r = 0; r < 8; r++) {
            s.of[r][0] = s.of[r][1] = vdupq_n_f32(0.0f);
        }
        s = trainc_float_products(s, rows, lanes, depth);
        const float32x4_t x = vld1q_f32(lane_scales), y = vld1q_f32(lane_scales + 4);
        for (int32_t r = 0; r < 8; r++) {
            float *const to = tile + 8 * r;
            const float scale = row_scales[r];
            vst1q_f32(to, vaddq_f32(vld1q_f32(to), vmulq_f32(s.of[r][0], vmulq_n_f32(x, scale))));
            vst1q_f32(to + 4,
                vaddq_f32(vld1q_f32(to + 4), vmulq_f32(s.of[r][1], vmulq_n_f32(y, scale))));
        }
        rows += 8 * depth;
        lanes += 8 * depth;
        row_scales += 8;
        lane_scales += 8;
    }
}

TRAINC_PART void trainc_zero_tile(float *tile)
{
    for (int32_t i = 0; i < 64; i += 4) {
        vst1q_f32(tile + i, vdupq_n_f32(0.0f));
    }
}

/* The factors that a result is multiplied by, one after the other: 2 to the exponent. */
TRAINC_PART void trainc_set_factors(struct trainc_scales *scales, int32_t exponent)
{
    for (int32_t i = 0; i < 2; i++) {
        const int32_t own = trainc_maximum32(trainc_minimum32(exponent, 127), -126);
        const uint32x2_t bits = vdup_n_u32((uint32_t)(own + 127) << 23);
        scales->factors[i] = vget_lane_f32(vreinterpret_f32_u32(bits), 0);
        exponent = trainc_maximum32(trainc_minimum32(exponent, 1000), -1000) - own;
    }
}

TRAINC_PART void trainc_multiply_tile(float *tile, const float factors[2])
{
    for (int32_t i = 0; i < 64; i += 4) {
        vst1q_f32(tile + i,
            vmulq_n_f32(vmulq_n_f32(vld1q_f32(tile + i), factors[0]), factors[1]));
    }
}

/* Stores the first `rows` rows of a tile and the first `lanes` lanes, each at its offset. Returns
 * whether all are numbers. */
TRAINC_SHARED int trainc_store_tile(const float *tile, int32_t rows, int32_t lanes,
    const int32_t *offsets, int32_t stride, float *y)
{
    int straight = lanes == 8, numbers = 1;
    for (int32_t l = 1; l < lanes; l++) {
        straight &= offsets[l] == offsets[0] + l;
    }
    if (straight) {
        uint32x4_t all = vdupq_n_u32(UINT32_MAX);
        for (int32_t r = 0; r < rows; r++) {
            const float32x4_t a = vld1q_f32(tile + 8 * r), b = vld1q_f32(tile + 8 * r + 4);
            float *const to = y + r * stride + offsets[0];
            vst1q_f32(to, a);
            vst1q_f32(to + 4, b);
            all = vandq_u32(all, vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b)));
        }
        return vminvq_u32(all) != 0;
    }
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t l = 0; l < lanes; l++) {
            const float value = tile[8 * r + l];
            y[r * stride + offsets[l]] = value;
            numbers &= value == value;
        }
    }
    return numbers;
}

/* Weights as panels of 8 rows: [parts][taps][8], rows that are none 0. */
TRAINC_PART void trainc_float_rows(const struct trainc_product *p, const struct trainc_windows *w,
    const struct trainc_places *places, const void *weights, int bytes, float *rows)
{
    const int32_t depth = p->parts * w->taps_high * w->taps_wide;
    for (int32_t row = 0; row < (p->rows + 7) / 8 * 8; row++) {
        float *to = rows + row / 8 * 8 * depth + row % 8;
        if (row >= p->rows) {
            for (int32_t k = 0; k < depth; k++) {
                to[8 * k] = 0.0f;
            }
            continue;
        }
        for (int32_t part = 0; part < p->parts; part++) {
            const int32_t from = row * p->row_stride + part * p->part_stride + places->first_tap;
            for (int32_t i = 0; i < w->taps_high; i++) {
                for (int32_t j = 0; j < w->taps_wide; j++) {
                    const int32_t tap = i * places->tap_row + j * places->tap_column;
                    *to = trainc_float_at(weights, bytes, from + tap);
                    to += 8;
                }
            }
        }
    }
}

/* What 8 windows see, as a panel [parts][taps][8]. */
TRAINC_PART void trainc_float_lanes(const struct trainc_product *p, const struct trainc_windows *w,
    const struct trainc_lanes *lanes, const void *x, int bytes, float *panel)
{
    const int32_t stride = 8 * w->taps_high * w->taps_wide;
    for (int32_t i = 0; i < w->taps_high; i++) {
        for (int32_t j = 0; j < w->taps_wide; j++, panel += 8) {
            int32_t from[8];
            int straight = 1;
            for (int32_t l = 0; l < 8; l++) {
                const int32_t h = lanes->row[l] + i * w->tap_down;
                const int32_t v = lanes->column[l] + j * w->tap_right;
                const int inside = (uint32_t)h < (uint32_t)w->height && (uint32_t)v < (uint32_t)w->width;
                from[l] = inside ? lanes->image[l] * p->image_stride + h * w->width + v : -1;
                straight &= inside && from[l] == from[0] + l;
            }
            if (straight) {
                int32_t at = from[0];
                float *to = panel;
                for (int32_t part = 0; part < p->parts; part++, at += p->plane, to += stride) {
                    if (bytes) {
                        const int16x8_t wide = vmovl_s8(vld1_s8((const int8_t *)x + at));
                        vst1q_f32(to, vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))));
                        vst1q_f32(to + 4, vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide))));
                    } else {
                        vst1q_f32(to, vld1q_f32((const float *)x + at));
                        vst1q_f32(to + 4, vld1q_f32((const float *)x + at + 4));
                    }
                }
                continue;
            }
            for (int32_t l = 0; l < 8; l++) {
                int32_t at = from[l];
                float *to = panel + l;
                for (int32_t part = 0; part < p->parts; part++, at += p->plane, to += stride) {
                    *to = from[l] < 0 ? 0.0f : trainc_float_at(x, bytes, at);
                }
            }
        }
    }
}

/* A forward product or an error; `scales` is null of floats. Returns whether all are numbers. */
TRAINC_PART int trainc_window_products(const struct trainc_product *p,
    const struct trainc_windows *w, const struct trainc_places *places, const void *x,
    const void *weights, int bytes, const struct trainc_scales *scales, float *y, float *rows,
    float *panel, float *row_scales, float *lane_scales)
{
    const int32_t taps = w->taps_high * w->taps_wide, depth = p->parts * taps;
    int numbers = 1;
    trainc_float_rows(p, w, places, weights, bytes, rows);
    if (scales) {
        for (int32_t row = 0; row < (p->rows + 7) / 8 * 8; row++) {
            float *to = row_scales + row / 8 * 8 * p->parts + row % 8;
            for (int32_t part = 0; part < p->parts; part++, to += 8) {
                const int32_t at = row * scales->row_step + part * scales->row_part;
                *to = row < p->rows ? scales->rows[at] : 0.0f;
            }
        }
    }
    for (int32_t place = 0; place < places->images * w->rows * w->columns; place += 8) {
        struct trainc_lanes lanes;
        int32_t offsets[8];
        trainc_find_lanes(w, places, place, &lanes, offsets);
        trainc_float_lanes(p, w, &lanes, x, bytes, panel);
        for (int32_t part = 0; scales && part < p->parts; part++) {
            for (int32_t l = 0; l < 8; l++) {
                lane_scales[8 * part + l] =
                    scales->lanes[lanes.image[l] * scales->lane_step + part * scales->lane_part];
            }
        }
        for (int32_t row = 0; row < p->rows; row += 8) {
            float tile[64];
            trainc_zero_tile(tile);
            if (scales) {
                trainc_scaled_tile(rows + row * depth, panel, p->parts, taps,
                    row_scales + row * p->parts, lane_scales, tile);
                trainc_multiply_tile(tile, scales->factors);
            } else {
                trainc_float_tile(rows + row * depth, panel, depth, tile);
            }
            numbers &= trainc_store_tile(tile, trainc_minimum32(p->rows - row, 8), lanes.count,
                offsets, p->result_stride, y + row * p->result_stride);
        }
    }
    return numbers;
}

TRAINC_SHARED int trainc_float_windows(const struct trainc_product *p,
    const struct trainc_windows *w, const struct trainc_places *places, const float *x,
    const float *weights, float *y, float *rows, float *panel)
{
    return trainc_window_products(p, w, places, x, weights, 0, NULL, y, rows, panel, NULL, NULL);
}

TRAINC_SHARED void trainc_scaled_windows(const struct trainc_product *p,
    const struct trainc_windows *w, const struct trainc_places *places, const int8_t *x,
    const int8_t *weights, const struct trainc_scales *scales, float *y, float *rows, float *panel,
    float *row_scales, float *lane_scales)
{
    trainc_window_products(
        p, w, places, x, weights, 1, scales, y, rows, panel, row_scales, lane_scales);
}

/* An image's errors as panels of 8 rows [places][8]. */
TRAINC_PART void trainc_error_rows(
    const struct trainc_product *p, const void *dy, int bytes, int32_t at, int32_t places, float *rows)
{
    for (int32_t row = 0; row < (p->rows + 7) / 8 * 8; row++, at += places) {
        float *to = rows + row / 8 * 8 * places + row % 8;
        for (int32_t k = 0; k < places; k++, to += 8) {
            *to = row < p->rows ? trainc_float_at(dy, bytes, at + k) : 0.0f;
        }
    }
}

/* What 8 taps of channels, from number `first` of `lanes` on, meet in an image: [places][8]. */
TRAINC_PART void trainc_tap_lanes(const struct trainc_product *p, const struct trainc_windows *w,
    int32_t first, int32_t lanes, const void *x, int bytes, int32_t image, float *panel)
{
    const int32_t taps = w->taps_high * w->taps_wide;
    for (int32_t l = 0; l < 8; l++) {
        const int32_t tap = (first + l) % taps;
        const int32_t top = w->top + tap / w->taps_wide * w->tap_down;
        const int32_t left = w->left + tap % w->taps_wide * w->tap_right;
        float *to = panel + l;
        for (int32_t r = 0; r < w->rows; r++) {
            const int32_t h = top + r * w->down;
            const int inside = (uint32_t)h < (uint32_t)w->height && first + l < lanes;
            const int32_t from = image + (first + l) / taps * p->plane + h * w->width;
            int32_t v = left;
            for (int32_t c = 0; c < w->columns; c++, v += w->right, to += 8) {
                *to = inside && (uint32_t)v < (uint32_t)w->width
                    ? trainc_float_at(x, bytes, from + v)
                    : 0.0f;
            }
        }
    }
}

/* A weight's gradient: images are the parts. */
TRAINC_PART int trainc_gradient_products(const struct trainc_product *p,
    const struct trainc_windows *w, const void *x, const void *dy, int bytes,
    const struct trainc_scales *scales, float *y, float *rows, float *panel, float *tiles)
{
    const int32_t places = w->rows * w->columns, lanes = p->result_stride;
    const int32_t lane_panels = (lanes + 7) / 8;
    int numbers = 1;
    for (int32_t i = 0; i < (p->rows + 7) / 8 * lane_panels; i++) {
        trainc_zero_tile(tiles + 64 * i);
    }
    for (int32_t image = 0; image < p->parts; image++) {
        trainc_error_rows(p, dy, bytes, image * p->part_stride, places, rows);
        for (int32_t lane = 0; lane < lane_panels; lane++) {
            float lane_scales[8], row_scales[8];
            trainc_tap_lanes(
                p, w, 8 * lane, lanes, x, bytes, image * p->image_stride, panel);
            for (int32_t l = 0; scales && l < 8; l++) {
                const int32_t channel = trainc_minimum32(8 * lane + l, lanes - 1)
                    / (w->taps_high * w->taps_wide);
                lane_scales[l] =
                    scales->lanes[channel * scales->lane_step + image * scales->lane_part];
            }
            for (int32_t row = 0; row < p->rows; row += 8) {
                float *const tile = tiles + 8 * row * lane_panels + 64 * lane;
                if (!scales) {
                    trainc_float_tile(rows + row * places, panel, places, tile);
                    continue;
                }
                for (int32_t r = 0; r < 8; r++) {
                    const int32_t own = trainc_minimum32(row + r, p->rows - 1);
                    row_scales[r] =
                        scales->rows[own * scales->row_step + image * scales->row_part];
                }
                trainc_scaled_tile(
                    rows + row * places, panel, 1, places, row_scales, lane_scales, tile);
            }
        }
    }
    for (int32_t row = 0; row < p->rows; row += 8) {
        for (int32_t lane = 0; lane < lane_panels; lane++) {
            float *const tile = tiles + 8 * row * lane_panels + 64 * lane;
            const int32_t at = 8 * lane;
            const int32_t offsets[8] = {at, at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7};
            if (scales) {
                trainc_multiply_tile(tile, scales->factors);
            }
            numbers &= trainc_store_tile(tile, trainc_minimum32(p->rows - row, 8),
                trainc_minimum32(lanes - at, 8), offsets, lanes, y + row * lanes);
        }
    }
    return numbers;
}

TRAINC_SHARED int trainc_float_gradient(const struct trainc_product *p,
    const struct trainc_windows *w, const float *x, const float *dy, float *y, float *rows,
    float *panel, float *tiles)
{
    return trainc_gradient_products(p, w, x, dy, 0, NULL, y, rows, panel, tiles);
}

TRAINC_SHARED void trainc_scaled_gradient(const struct trainc_product *p,
    const struct trainc_windows *w, const int8_t *x, const int8_t *dy,
    const struct trainc_scales *scales, float *y, float *rows, float *panel, float *tiles)
{
    trainc_gradient_products(p, w, x, dy, 1, scales, y, rows, panel, tiles);
}

#endif
