/* The packing of convolutions' and matrices' operands into panels (trainc_neon.h). */
#ifndef TRAINC_NEON_PACKING_H
#define TRAINC_NEON_PACKING_H

#include "trainc_neon.h"

/* dst[p][c] = src[c][p] of an image: channels planes of plane bytes become plane pixels of
 * channels bytes, padded to pixel_bytes (a multiple of 16) with zeros. */
TRAINC_SHARED void trainc_channels_last(const int8_t *src, int32_t channels, int32_t plane,
    int8_t *dst, int32_t pixel_bytes)
{
    int8_t tile[256];
    for (int32_t p = 0; channels < pixel_bytes && p < plane; p++) {
        trainc_zero(dst + p * pixel_bytes + channels, pixel_bytes - channels);
    }
    if (channels >= 16 && plane >= 16) {
        /* The last tile of a direction overlaps the one before. */
        for (int32_t c = 0; c < channels; c += 16) {
            c = c > channels - 16 ? channels - 16 : c;
            for (int32_t p = 0; p < plane; p += 16) {
                p = p > plane - 16 ? plane - 16 : p;
                trainc_transpose16(src + c * plane + p, plane, tile);
                int8_t *to = dst + p * pixel_bytes + c;
                for (int32_t i = 0; i < 256; i += 16) {
                    vst1q_s8(to, vld1q_s8(tile + i));
                    to += pixel_bytes;
                }
            }
        }
        return;
    }
    int32_t c = 0;
    for (; plane == 4 && c + 16 <= channels; c += 16) {
        const int8x16x4_t v = vld4q_s8(src + 4 * c);
        vst1q_s8(dst + c, v.val[0]);
        vst1q_s8(dst + pixel_bytes + c, v.val[1]);
        vst1q_s8(dst + 2 * pixel_bytes + c, v.val[2]);
        vst1q_s8(dst + 3 * pixel_bytes + c, v.val[3]);
    }
    for (; plane == 1 && c + 16 <= channels; c += 16) {
        vst1q_s8(dst + c, vld1q_s8(src + c));
    }
    for (; c < channels; c++) {
        for (int32_t p = 0; p < plane; p++) {
            dst[p * pixel_bytes + c] = src[c * plane + p];
        }
    }
}

/* Nine vectors: out[t][c] = src[9 c + t] of 16 channels, out_stride bytes from tap to tap. */
TRAINC_PART void trainc_nine_taps(const int8_t *src, int8_t *out, int32_t out_stride)
{
#ifdef __aarch64__
    /* Byte c of a column kw in steps of three, by kh. */
    static const uint8_t third[16] = {0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45};
    const uint8x16_t row0 = vld1q_u8(third);
    const uint8x16_t row1 = vaddq_u8(row0, vdupq_n_u8(1)), row2 = vaddq_u8(row0, vdupq_n_u8(2));
    const int8x16x3_t a = vld3q_s8(src), b = vld3q_s8(src + 48), c = vld3q_s8(src + 96);
    for (int32_t kw = 0; kw < 3; kw++) {
        const int8x16x3_t column = {{a.val[kw], b.val[kw], c.val[kw]}};
        vst1q_s8(out + kw * out_stride, vqtbl3q_s8(column, row0));
        vst1q_s8(out + (3 + kw) * out_stride, vqtbl3q_s8(column, row1));
        vst1q_s8(out + (6 + kw) * out_stride, vqtbl3q_s8(column, row2));
    }
#else
    for (int32_t t = 0; t < 9; t++) {
        for (int32_t c = 0; c < 16; c++) {
            out[t * out_stride + c] = src[9 * c + t];
        }
    }
#endif
}

/* out[t][c] = src[taps c + t] of up to 16 channels; zeros behind them. Rows of out are 16 bytes,
 * out_stride apart. */
TRAINC_SHARED void trainc_taps_apart(const int8_t *src, int32_t channels, int32_t taps,
    int8_t *out, int32_t out_stride)
{
    if (channels == 16 && taps == 9) {
        trainc_nine_taps(src, out, out_stride);
        return;
    }
    if (channels == 16 && taps == 1) {
        vst1q_s8(out, vld1q_s8(src));
        return;
    }
    for (int32_t t = 0; t < taps; t++) {
        int8_t *to = out + t * out_stride;
        vst1q_s8(to, vdupq_n_s8(0));
        for (int32_t c = 0; c < channels; c++) {
            to[c] = src[c * taps + t];
        }
    }
}

/* Packs the weights of one output channel, src[channels][taps], as a row of a panel of
 * taps x blocks of 16 channels. A block of all taps passes through temporary: 16 bytes a tap. */
TRAINC_PART void trainc_row_of_taps(const int8_t *src, int32_t channels, int32_t taps,
    int8_t *panel, int32_t row, int8_t *temporary, trainc_put *put)
{
    const int32_t tap_bytes = (channels + 15) / 16 * 128;
    for (int32_t c = 0; c < channels; c += 16) {
        const int32_t count = channels - c < 16 ? channels - c : 16;
        trainc_taps_apart(src + c * taps, count, taps, temporary, 16);
        for (int32_t t = 0; t < taps; t++) {
            put(panel + t * tap_bytes + 8 * c, row, vld1q_s8(temporary + 16 * t));
        }
    }
}

/* Words of 4 outputs by 16 channels: src[4 outputs][16 channels] as [16 channels][4 outputs]. */
TRAINC_PART void trainc_words_of_outputs(const int8_t *src, int8x16_t *words)
{
    const int8x16x2_t even = vzipq_s8(vld1q_s8(src), vld1q_s8(src + 32));
    const int8x16x2_t odd = vzipq_s8(vld1q_s8(src + 16), vld1q_s8(src + 48));
    const int8x16x2_t low = vzipq_s8(even.val[0], odd.val[0]);
    const int8x16x2_t high = vzipq_s8(even.val[1], odd.val[1]);
    words[0] = low.val[0];
    words[1] = low.val[1];
    words[2] = high.val[0];
    words[3] = high.val[1];
}

/* A block of panels of 8 channels in quarters, from src[16 outputs][16 channels]; there is a second
 * panel for more than 8. */
TRAINC_PART void trainc_outputs_in_quarters(const int8_t *src, int32_t channels, int8_t *panel,
    int32_t panel_bytes)
{
    for (int32_t o = 0; o < 4; o++) {
        int8x16_t words[4];
        trainc_words_of_outputs(src + 64 * o, words);
        vst1q_s8(panel + 32 * o, words[0]);
        vst1q_s8(panel + 32 * o + 16, words[1]);
        if (channels > 8) {
            vst1q_s8(panel + panel_bytes + 32 * o, words[2]);
            vst1q_s8(panel + panel_bytes + 32 * o + 16, words[3]);
        }
    }
}

/* The same in halves. */
TRAINC_PART void trainc_outputs_in_halves(const int8_t *src, int32_t channels, int8_t *panel,
    int32_t panel_bytes)
{
    for (int32_t o = 0; o < 2; o++) {
        int8x16_t first[4], second[4];
        trainc_words_of_outputs(src + 128 * o, first);
        trainc_words_of_outputs(src + 128 * o + 64, second);
        for (int32_t i = 0; i < (channels > 8 ? 4 : 2); i++) {
            const int32x4x2_t both = vzipq_s32(vreinterpretq_s32_s8(first[i]),
                vreinterpretq_s32_s8(second[i]));
            int8_t *const to = panel + i / 2 * panel_bytes + 64 * o + 32 * (i % 2);
            vst1q_s8(to, vreinterpretq_s8_s32(both.val[0]));
            vst1q_s8(to + 16, vreinterpretq_s8_s32(both.val[1]));
        }
    }
}

/* Packs weights w[outputs][channels][taps] for the error of the operand, in which channels are the
 * rows and outputs are summed: panels of 8 channels, each taps x blocks of 16 outputs, panel_bytes
 * apart; panels without a channel are left as they are. w_stride is the distance of outputs.
 * temporary takes 256 bytes a tap. */
TRAINC_PART void trainc_rows_of_errors(const int8_t *w, int32_t outputs, int32_t channels,
    int32_t taps, int32_t w_stride, int8_t *panels, int32_t panel_bytes, int8_t *temporary,
    trainc_put *put)
{
    const int32_t tap_bytes = (outputs + 15) / 16 * 128;
    for (int32_t o = 0; o < outputs; o += 16) {
        for (int32_t c = 0; c < channels; c += 16) {
            const int32_t count = channels - c < 16 ? channels - c : 16;
            for (int32_t i = 0; i < 16; i++) {
                if (o + i < outputs) {
                    trainc_taps_apart(w + (o + i) * w_stride + c * taps, count, taps,
                        temporary + 16 * i, 256);
                } else {
                    for (int32_t t = 0; t < taps; t++) {
                        vst1q_s8(temporary + 256 * t + 16 * i, vdupq_n_s8(0));
                    }
                }
            }
            for (int32_t t = 0; t < taps; t++) {
                int8_t tile[256];
                int8_t *panel = panels + c / 8 * panel_bytes + t * tap_bytes + 8 * o;
                if (put == trainc_put_quarters) {
                    trainc_outputs_in_quarters(temporary + 256 * t, count, panel, panel_bytes);
                    continue;
                }
                if (put == trainc_put_halves) {
                    trainc_outputs_in_halves(temporary + 256 * t, count, panel, panel_bytes);
                    continue;
                }
                trainc_transpose16(temporary + 256 * t, 16, tile);
                for (int32_t i = 0; i < count; i++) {
                    put(panel + i / 8 * panel_bytes, i % 8, vld1q_s8(tile + 16 * i));
                }
            }
        }
    }
}

/* Windows over a plane. Window (r, c) meets the plane for tap (i, j) at the row
 * top + r down + i tap_down and the column left + c right + j tap_right, or beyond its border. */
struct trainc_windows {
    int32_t rows, columns;
    int32_t height, width;
    int32_t top, left;
    int32_t down, right;
    int32_t taps_high, taps_wide;
    int32_t tap_down, tap_right;
};

/* What the lanes of a forward product or an error are: all windows of all images, `group` images
 * first, then by columns, rows, and further groups. Image n's window (r, c) gives the result at
 * first + n image_stride + r row_stride + c column_stride; tap (i, j) is at
 * first_tap + i tap_row + j tap_column of the rows' panels. */
struct trainc_places {
    int32_t images, group;
    int32_t first, image_stride, row_stride, column_stride;
    int32_t first_tap, tap_row, tap_column;
};

/* Eight lanes: where their windows start, and their results. */
struct trainc_lanes {
    int32_t image[8], row[8], column[8];
    int32_t count;
};

TRAINC_SHARED void trainc_find_lanes(const struct trainc_windows *w,
    const struct trainc_places *p, int32_t place, struct trainc_lanes *lanes, int32_t *offsets)
{
    const int32_t all = p->images * w->rows * w->columns;
    int32_t member = place % p->group, rest = place / p->group;
    int32_t column = rest % w->columns;
    rest /= w->columns;
    int32_t row = rest % w->rows, image = rest / w->rows * p->group;
    lanes->count = all - place < 8 ? all - place : 8;
    for (int32_t l = 0; l < 8; l++) {
        if (l >= lanes->count) {
            /* No tap meets anything. */
            lanes->image[l] = 0;
            lanes->row[l] = lanes->column[l] = INT32_MIN / 2;
            offsets[l] = 0;
            continue;
        }
        lanes->image[l] = image + member;
        lanes->row[l] = w->top + row * w->down;
        lanes->column[l] = w->left + column * w->right;
        offsets[l] = p->first + (image + member) * p->image_stride + row * p->row_stride
            + column * p->column_stride;
        if (++member == p->group) {
            member = 0;
            if (++column == w->columns) {
                column = 0;
                if (++row == w->rows) {
                    row = 0;
                    image += p->group;
                }
            }
        }
    }
}

/* Which of some taps meet [0, size) from any of 8 starts: first and behind the last. */
TRAINC_PART void trainc_meeting(const int32_t *starts, int32_t step, int32_t taps, int32_t size,
    int32_t *first, int32_t *end)
{
    *first = taps;
    *end = 0;
    for (int32_t tap = 0; tap < taps; tap++) {
        int any = 0;
        for (int32_t l = 0; l < 8; l++) {
            any |= (uint32_t)(starts[l] + tap * step) < (uint32_t)size;
        }
        if (any) {
            *first = tap < *first ? tap : *first;
            *end = tap + 1;
        }
    }
}

/* Packs 8 windows over pixels of pixel_bytes (a multiple of 16; the pixels of all images, then one
 * of zeros) as a panel of the taps that meet the plane, and tells where those taps are. Returns the
 * number of runs, at most one a tap; sets the offsets of the results. */
TRAINC_PART int32_t trainc_window_panel(const struct trainc_windows *w,
    const struct trainc_places *p, int32_t place, const int8_t *pixels, int32_t pixel_bytes,
    int8_t *panel, struct trainc_run *runs, int32_t *offsets, trainc_pack *pack)
{
    struct trainc_lanes lanes;
    const int8_t *sources[8];
    int32_t i0, i1, j0, j1, count = 0, filled = 0;
    const int8_t *const zeros = pixels + p->images * w->height * w->width * pixel_bytes;
    trainc_find_lanes(w, p, place, &lanes, offsets);
    trainc_meeting(lanes.row, w->tap_down, w->taps_high, w->height, &i0, &i1);
    trainc_meeting(lanes.column, w->tap_right, w->taps_wide, w->width, &j0, &j1);
    for (int32_t i = i0; i < i1; i++) {
        for (int32_t j = j0; j < j1; j++) {
            for (int32_t l = 0; l < 8; l++) {
                const int32_t y = lanes.row[l] + i * w->tap_down;
                const int32_t x = lanes.column[l] + j * w->tap_right;
                sources[l] = (uint32_t)y < (uint32_t)w->height && (uint32_t)x < (uint32_t)w->width
                    ? pixels + ((lanes.image[l] * w->height + y) * w->width + x) * pixel_bytes
                    : zeros;
            }
            pack(sources, pixel_bytes / 16, panel + filled);
            const int32_t tap = p->first_tap + i * p->tap_row + j * p->tap_column;
            if (count > 0 && runs[count - 1].rows + 128 * runs[count - 1].blocks == tap) {
                runs[count - 1].blocks += pixel_bytes / 16;
            } else {
                runs[count].rows = tap;
                runs[count].lanes = filled;
                runs[count].blocks = pixel_bytes / 16;
                count++;
            }
            filled += 8 * pixel_bytes;
        }
    }
    return count;
}

/* dst[l][k] = src[k][l] of 16 by 8 bytes; rows of dst are dst_stride apart. */
TRAINC_PART void trainc_transpose16x8(const int8_t *src, int8_t *dst, int32_t dst_stride)
{
    const int8x16x4_t a = vld4q_s8(src), b = vld4q_s8(src + 64);
    for (int32_t l = 0; l < 4; l++) {
        const int8x16x2_t k = vuzpq_s8(a.val[l], b.val[l]);
        vst1q_s8(dst + l * dst_stride, k.val[0]);
        vst1q_s8(dst + (l + 4) * dst_stride, k.val[1]);
    }
}

/* Packs 8 windows of x[images][..channels..][height][width], whose images are image_bytes apart, as
 * a panel in the order of the weights: channel, tap row, tap column, padded to patch_bytes (a
 * multiple of 16). patches takes 16 patch_bytes. For few channels, which would not fill blocks. */
TRAINC_PART void trainc_patch_panel(const struct trainc_windows *w, const struct trainc_places *p,
    int32_t place, const int8_t *x, int32_t channels, int32_t image_bytes, int8_t *patches,
    int32_t patch_bytes, int8_t *panel, struct trainc_run *run, int32_t *offsets,
    trainc_pack *pack)
{
    struct trainc_lanes lanes;
    const int8_t *sources[8];
    trainc_find_lanes(w, p, place, &lanes, offsets);
    for (int32_t l = 0; l < 8; l++) {
        sources[l] = patches + l * patch_bytes;
    }
    const int32_t left = lanes.column[0], reach = 8 + (w->taps_wide - 1) * w->tap_right;
    if (w->right == 1 && reach <= 64 && lanes.count == 8 && lanes.row[7] == lanes.row[0]
        && lanes.column[7] - left == 7 && lanes.image[7] == lanes.image[0]) {
        /* Windows side by side: the 8 bytes of a tap lie together in a row of the plane. */
        int8_t *const taps = patches + 8 * patch_bytes;
        int8_t *to = taps;
        const int8_t *const image = x + lanes.image[0] * image_bytes;
        const int inner = left >= 0 && left + reach <= w->width;
        const int32_t first = left < 0 ? -left : 0;
        const int32_t end = left + reach <= w->width ? reach : w->width - left;
        int8_t border[64] = {0};
        for (int32_t c = 0; c < channels; c++) {
            for (int32_t i = 0; i < w->taps_high; i++) {
                const int32_t row = lanes.row[0] + i * w->tap_down;
                if ((uint32_t)row >= (uint32_t)w->height) {
                    trainc_zero(to, 8 * w->taps_wide);
                    to += 8 * w->taps_wide;
                    continue;
                }
                const int8_t *from = image + (c * w->height + row) * w->width + left;
                if (!inner) {
                    for (int32_t at = first; at < end; at++) {
                        border[at] = from[at];
                    }
                    from = border;
                }
                for (int32_t j = 0; j < w->taps_wide; j++) {
                    vst1_s8(to, vld1_s8(from));
                    from += w->tap_right;
                    to += 8;
                }
            }
        }
        trainc_zero(to, (int32_t)(taps + 8 * patch_bytes - to));
        for (int32_t k = 0; k < patch_bytes; k += 16) {
            trainc_transpose16x8(taps + 8 * k, patches + k, patch_bytes);
        }
    } else {
        for (int32_t l = 0; l < 8; l++) {
            int8_t *to = patches + l * patch_bytes;
            const int8_t *const end = to + patch_bytes;
            const int8_t *image = x + lanes.image[l] * image_bytes;
            for (int32_t c = 0; c < channels; c++) {
                for (int32_t i = 0; i < w->taps_high; i++) {
                    const int32_t row = lanes.row[l] + i * w->tap_down;
                    const int inside = (uint32_t)row < (uint32_t)w->height;
                    const int8_t *from = image + (inside ? (c * w->height + row) * w->width : 0);
                    int32_t column = lanes.column[l];
                    for (int32_t j = 0; j < w->taps_wide; j++) {
                        *to++ = inside && (uint32_t)column < (uint32_t)w->width ? from[column] : 0;
                        column += w->tap_right;
                    }
                }
            }
            while (to != end) {
                *to++ = 0;
            }
        }
    }
    pack(sources, patch_bytes / 16, panel);
    run->rows = run->lanes = 0;
    run->blocks = patch_bytes / 16;
}

/* Packs rows of `length` bytes, `stride` apart, as panels of 8 of them, each padded with zeros to
 * whole blocks. temporary takes a row of whole blocks. */
TRAINC_PART void trainc_rows(const int8_t *src, int32_t rows, int32_t length, int32_t stride,
    int8_t *panels, int8_t *temporary, trainc_put *put)
{
    const int32_t blocks = (length + 15) / 16;
    for (int32_t r = 0; r < (rows + 7) / 8 * 8; r++) {
        int8_t *panel = panels + r / 8 * blocks * 128;
        for (int32_t b = 0; b < blocks; b++) {
            const int32_t left = length - 16 * b;
            int8x16_t k = vdupq_n_s8(0);
            if (r < rows && left >= 16) {
                k = vld1q_s8(src + r * stride + 16 * b);
            } else if (r < rows) {
                vst1q_s8(temporary, k);
                for (int32_t i = 0; i < left; i++) {
                    temporary[i] = src[r * stride + 16 * b + i];
                }
                k = vld1q_s8(temporary);
            }
            put(panel + 128 * b, r % 8, k);
        }
    }
}

/* Packs one panel of up to 8 channels for sums over images and places, 16 images a block:
 * [plane][blocks of images][128]. Images are image_bytes apart; missing images and channels give
 * zeros. */
TRAINC_PART void trainc_images_last(const int8_t *src, int32_t images, int32_t image_bytes,
    int32_t channels, int32_t plane, int8_t *panel, trainc_put *put)
{
    const int32_t blocks = (images + 15) / 16, bytes = channels * plane;
    int8_t from[256], tile[256];
    if (channels < 8) {
        trainc_zero(panel, plane * blocks * 128);
    }
    for (int32_t block = 0; block < blocks; block++) {
        const int8_t *image = src + 16 * block * image_bytes;
        const int32_t rows = images - 16 * block < 16 ? images - 16 * block : 16;
        int32_t channel = 0, place = 0;
        for (int32_t at = 0; at < bytes; at += 16) {
            const int32_t count = bytes - at < 16 ? bytes - at : 16;
            if (rows == 16 && count == 16) {
                trainc_transpose16(image + at, image_bytes, tile);
            } else {
                trainc_zero(from, 256);
                for (int32_t i = 0; i < rows; i++) {
                    for (int32_t j = 0; j < count; j++) {
                        from[16 * i + j] = image[i * image_bytes + at + j];
                    }
                }
                trainc_transpose16(from, 16, tile);
            }
            for (int32_t j = 0; j < count; j++) {
                put(panel + (place * blocks + block) * 128, channel, vld1q_s8(tile + 16 * j));
                if (++place == plane) {
                    place = 0;
                    channel++;
                }
            }
        }
    }
}

/* The runs of tap (i, j) of panels by trainc_images_last: those of the rows of windows (blocks
 * blocks a window), and those of what the tap meets. Returns how many, at most one a window. */
TRAINC_SHARED int32_t trainc_tap_runs(const struct trainc_windows *w, int32_t i, int32_t j,
    int32_t blocks, struct trainc_run *runs)
{
    int32_t count = 0;
    for (int32_t r = 0; r < w->rows; r++) {
        const int32_t y = w->top + r * w->down + i * w->tap_down;
        for (int32_t c = 0; c < w->columns; c++) {
            const int32_t x = w->left + c * w->right + j * w->tap_right;
            if ((uint32_t)y >= (uint32_t)w->height || (uint32_t)x >= (uint32_t)w->width) {
                continue;
            }
            const int32_t row = (r * w->columns + c) * blocks * 128;
            const int32_t lane = (y * w->width + x) * blocks * 128;
            struct trainc_run *last = runs + count - 1;
            if (count > 0 && last->rows + 128 * last->blocks == row
                && last->lanes + 128 * last->blocks == lane) {
                last->blocks += blocks;
            } else {
                runs[count].rows = row;
                runs[count].lanes = lane;
                runs[count].blocks = blocks;
                count++;
            }
        }
    }
    return count;
}

/* Packs one panel of up to 8 channels for sums over images and windows in order, as tap (i, j)
 * meets them: [blocks of 16 windows][128]. Images are image_bytes apart. temporary takes 8 rows of
 * whole blocks. */
TRAINC_PART void trainc_tap_panel(const struct trainc_windows *w, int32_t i, int32_t j,
    const int8_t *src, int32_t images, int32_t image_bytes, int32_t channels, int8_t *panel,
    int8_t *temporary, trainc_pack *pack)
{
    const int32_t blocks = (images * w->rows * w->columns + 15) / 16;
    const int32_t from = w->left + j * w->tap_right;
    const int8_t *sources[8];
    /* Windows of a row that meet the plane. */
    int32_t first = 0, end = w->columns;
    while (first < end && from + first * w->right < 0) {
        first++;
    }
    while (end > first && from + (end - 1) * w->right >= w->width) {
        end--;
    }
    trainc_zero(temporary, 128 * blocks);
    for (int32_t l = 0; l < 8; l++) {
        int8_t *to = temporary + l * 16 * blocks;
        sources[l] = to;
        if (l >= channels) {
            continue;
        }
        for (int32_t n = 0; n < images; n++) {
            const int8_t *plane = src + n * image_bytes + l * w->height * w->width;
            for (int32_t r = 0; r < w->rows; r++) {
                const int32_t y = w->top + r * w->down + i * w->tap_down;
                if ((uint32_t)y < (uint32_t)w->height && first < end) {
                    const int8_t *x = plane + y * w->width + from;
                    if (w->right == 1) {
                        int32_t c = first;
                        for (; c + 8 <= end; c += 8) {
                            vst1_s8(to + c, vld1_s8(x + c));
                        }
                        for (; c < end; c++) {
                            to[c] = x[c];
                        }
                    } else {
                        for (int32_t c = first; c < end; c++) {
                            to[c] = x[c * w->right];
                        }
                    }
                }
                to += w->columns;
            }
        }
    }
    pack(sources, blocks, panel);
}

/* The packing functions of a level, by the orders of its panels. */
#define TRAINC_PACKING(level, rows, lanes)                                                        \
    TRAINC_SHARED void trainc_row_of_taps_##level(const int8_t *src, int32_t channels,            \
        int32_t taps, int8_t *panel, int32_t row, int8_t *temporary)                              \
    {                                                                                             \
        trainc_row_of_taps(src, channels, taps, panel, row, temporary, trainc_put_##rows);        \
    }                                                                                             \
    TRAINC_SHARED void trainc_rows_of_errors_##level(const int8_t *w, int32_t outputs,            \
        int32_t channels, int32_t taps, int32_t w_stride, int8_t *panels, int32_t panel_bytes,    \
        int8_t *temporary)                                                                        \
    {                                                                                             \
        trainc_rows_of_errors(w, outputs, channels, taps, w_stride, panels, panel_bytes,          \
            temporary, trainc_put_##rows);                                                        \
    }                                                                                             \
    TRAINC_SHARED void trainc_rows_##level(const int8_t *src, int32_t rows_, int32_t length,      \
        int32_t stride, int8_t *panels, int8_t *temporary)                                        \
    {                                                                                             \
        trainc_rows(src, rows_, length, stride, panels, temporary, trainc_put_##rows);            \
    }                                                                                             \
    TRAINC_SHARED int32_t trainc_window_panel_##level(const struct trainc_windows *w,             \
        const struct trainc_places *p, int32_t place, const int8_t *pixels, int32_t pixel_bytes,  \
        int8_t *panel, struct trainc_run *runs, int32_t *offsets)                                 \
    {                                                                                             \
        return trainc_window_panel(w, p, place, pixels, pixel_bytes, panel, runs, offsets,        \
            trainc_pack_##lanes);                                                                 \
    }                                                                                             \
    TRAINC_SHARED void trainc_patch_panel_##level(const struct trainc_windows *w,                 \
        const struct trainc_places *p, int32_t place, const int8_t *x, int32_t channels,          \
        int32_t image_bytes, int8_t *patches, int32_t patch_bytes, int8_t *panel,                 \
        struct trainc_run *run, int32_t *offsets)                                                 \
    {                                                                                             \
        trainc_patch_panel(w, p, place, x, channels, image_bytes, patches, patch_bytes, panel,    \
            run, offsets, trainc_pack_##lanes);                                                   \
    }                                                                                             \
    TRAINC_SHARED void trainc_images_last_rows_##level(const int8_t *src, int32_t images,         \
        int32_t image_bytes, int32_t channels, int32_t plane, int8_t *panel)                      \
    {                                                                                             \
        trainc_images_last(src, images, image_bytes, channels, plane, panel, trainc_put_##rows);  \
    }                                                                                             \
    TRAINC_SHARED void trainc_images_last_lanes_##level(const int8_t *src, int32_t images,        \
        int32_t image_bytes, int32_t channels, int32_t plane, int8_t *panel)                      \
    {                                                                                             \
        trainc_images_last(src, images, image_bytes, channels, plane, panel, trainc_put_##lanes); \
    }                                                                                             \
    TRAINC_SHARED void trainc_tap_panel_rows_##level(const struct trainc_windows *w, int32_t i,   \
        int32_t j, const int8_t *src, int32_t images, int32_t image_bytes, int32_t channels,      \
        int8_t *panel, int8_t *temporary)                                                         \
    {                                                                                             \
        trainc_tap_panel(w, i, j, src, images, image_bytes, channels, panel, temporary,           \
            trainc_pack_##rows);                                                                  \
    }                                                                                             \
    TRAINC_SHARED void trainc_tap_panel_lanes_##level(const struct trainc_windows *w, int32_t i,  \
        int32_t j, const int8_t *src, int32_t images, int32_t image_bytes, int32_t channels,      \
        int8_t *panel, int8_t *temporary)                                                         \
    {                                                                                             \
        trainc_tap_panel(w, i, j, src, images, image_bytes, channels, panel, temporary,           \
            trainc_pack_##lanes);                                                                 \
    }

#endif
