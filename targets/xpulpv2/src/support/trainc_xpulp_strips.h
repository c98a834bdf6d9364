/* Sums over windows of neighbouring columns, which overlap: a line of results has one strip of its
 * operand, in which a column holds the elements of all channels and of all rows of a window. The
 * window of the next column starts so many columns further on, so that windows lie there whole. */
#ifndef TRAINC_XPULP_STRIPS_H
#define TRAINC_XPULP_STRIPS_H

#include "trainc_xpulp_rounding.h"

/* Weights as rows of words: of a tile all first words, then all second ones. */
struct trainc_xpulp_taps {
    const int8_t *from;
    /* Rows and channels, and elements from each to the next. */
    int32_t count, row_step, channels, channel_step;
    /* The taps of a channel, and where in a row the first channel of each goes; -1 if nowhere. */
    int32_t taps;
    const int16_t *places;
    /* From four channels of a tap to its next ones, in words. */
    int32_t every;
    int8_t *to;
    /* Of a row. */
    int32_t bytes;
    /* Four times as many bytes as channels for each tile, where taps go that count nowhere. */
    int8_t *unused;
};

/* The words of four rows of bytes, by columns: as many groups of four as count says, at least one.
 * Those of a column go to its own place, each step further on. */
static TRAINC_XPULP_INLINE void trainc_xpulp_turn_to(const int8_t *const from[4], int32_t stride,
    int32_t count, int8_t *const to[4], int32_t step)
{
#if defined(TRAINC_XPULP_INSN)
    register const int8_t *x10 __asm__("x10") = from[0];
    register const int8_t *x11 __asm__("x11") = from[1];
    register const int8_t *x12 __asm__("x12") = from[2];
    register const int8_t *x13 __asm__("x13") = from[3];
    register int8_t *x14 __asm__("x14") = to[0];
    register int8_t *x15 __asm__("x15") = to[1];
    register int8_t *x16 __asm__("x16") = to[2];
    register int8_t *x17 __asm__("x17") = to[3];
    register int32_t x18 __asm__("x18") = step;
    register int32_t x19 __asm__("x19") = stride;
    register int32_t x20 __asm__("x20") = count;
    register uint32_t x21 __asm__("x21") = 0x05010400;
    register uint32_t x28 __asm__("x28") = 0x07030602;
    register uint32_t x29 __asm__("x29") = 0x07060302;
    __asm__ volatile(TRAINC_XPULP_BEGIN TRAINC_XPULP_LOOP(0, 20, 9)
        TRAINC_XPULP_LW(x5, x19, x10) TRAINC_XPULP_LW(x6, x19, x11)
        TRAINC_XPULP_LW(x7, x19, x12) TRAINC_XPULP_LW(x30, x19, x13)
        "mv x31, x5\n\t" TRAINC_XPULP_PV(1, 0x64, x31, x6, x21) TRAINC_XPULP_PV(1, 0x64, x5, x6, x28)
        "mv x6, x7\n\t" TRAINC_XPULP_PV(1, 0x64, x6, x30, x21) TRAINC_XPULP_PV(1, 0x64, x7, x30, x28)
        TRAINC_XPULP_PV(0, 0x68, x30, x6, x31) TRAINC_XPULP_SW(x30, x18, x14)
        TRAINC_XPULP_PV(1, 0x64, x31, x6, x29) TRAINC_XPULP_SW(x31, x18, x15)
        TRAINC_XPULP_PV(0, 0x68, x30, x7, x5) TRAINC_XPULP_SW(x30, x18, x16)
        TRAINC_XPULP_PV(1, 0x64, x5, x7, x29) "9: " TRAINC_XPULP_SW(x5, x18, x17) ".option pop"
        : "+r"(x10), "+r"(x11), "+r"(x12), "+r"(x13), "+r"(x14), "+r"(x15), "+r"(x16), "+r"(x17)
        : "r"(x18), "r"(x19), "r"(x20), "r"(x21), "r"(x28), "r"(x29)
        : "x5", "x6", "x7", "x30", "x31", "memory");
#else
    for (int32_t n = 0; n < count; n++) {
        for (int32_t column = 0; column < 4; column++) {
            for (int32_t row = 0; row < 4; row++) {
                to[column][n * step + row] = from[row][n * stride + column];
            }
        }
    }
#endif
}

/* A row of weights, whose words go so far apart. */
static inline void trainc_xpulp_pack_row(const struct trainc_xpulp_taps *work, const int8_t *from,
    int8_t *to, int32_t rows, int8_t *unused)
{
    int32_t done = 0;
    if ((work->channels & 3) == 0 && work->taps >= 4) {
        const int32_t stride = work->channel_step;
        const int8_t *const first[4] = { from, from + stride, from + 2 * stride, from + 3 * stride };
        for (; done < work->taps; done += 4) {
            /* The last four overlap those before. */
            const int32_t tap = done + 4 <= work->taps ? done : work->taps - 4;
            const int8_t *const rows_of[4] = { first[0] + tap, first[1] + tap, first[2] + tap,
                first[3] + tap };
            int8_t *places[4];
            for (int32_t i = 0; i < 4; i++) {
                const int32_t place = work->places[tap + i];
                places[i] = place < 0 ? unused : to + place * rows;
            }
            trainc_xpulp_turn_to(rows_of, 4 * stride, work->channels >> 2, places,
                4 * rows * work->every);
        }
        return;
    }
    for (; done < work->taps; done++) {
        const int32_t place = work->places[done];
        const int8_t *at = from + done;
        for (int32_t channel = 0; place >= 0 && channel < work->channels; channel++) {
            const int32_t i = place + (channel & ~3) * work->every + (channel & 3);
            to[(i & ~3) * rows + (i & 3)] = *at;
            at += work->channel_step;
        }
    }
}

/* Packs some rows, where zeros are. */
static inline void trainc_xpulp_pack_taps(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_taps *const work = (const struct trainc_xpulp_taps *)context;
    for (int32_t n = begin; n < end; n++) {
        const int32_t left = work->count - (n & ~3), rows = left > 2 ? 4 : left;
        trainc_xpulp_pack_row(work, work->from + n * work->row_step,
            work->to + (n & ~3) * work->bytes + 4 * (n & 3), rows,
            work->unused + (n & ~3) * work->channels + 4 * (n & 3));
    }
}

/* The products of windows. */
struct trainc_xpulp_strips {
    /* [images][channels][height][width] */
    const int8_t *from;
    int32_t images, channels, height, width;
    /* As many zeros as a row has elements. */
    const int8_t *zeros;
    /* Rows of a window, from each to the next, from a line's window to the next line's, and those
     * above the operand. */
    int32_t taps, dilation, down, top;
    /* Columns of a strip before the operand's, and how many of these it holds: at least four. */
    int32_t left, used;
    /* Bytes of a column, of a strip, and from a window to the next: whole words, but for columns of
     * strips; words of a window, and of each of its segments; from a segment's end to the next one. */
    int32_t column, bytes, right, words, segment, jump;
    /* Columns of a window; read where those that meet nothing are left out. */
    int32_t across;
    /* One for each part; or, where the operand's rows are turned once, one for each of these. */
    int8_t *strips;
    /* As trainc_xpulp_pack_taps leaves them. */
    const int8_t *rows;
    int32_t row_count;
    /* Results: at least four columns. */
    int32_t lines, columns, parts;
    /* Of lines in pieces, the rows' tiles and the columns of a piece, these whole fours. */
    int32_t piece_tiles, piece_columns;
    /* How many pieces all lines have, and from one to the next that a core takes. */
    int32_t pieces, step;
    /* [images][rows][lines][columns] */
    int32_t *sums;
    int32_t sums_stride, image_sums;
    /* The largest of the sums' magnitudes, by parts, or by pieces of lines. */
    uint32_t *largest;
};

/* Fills the strip of an image's line, in which columns outside of the operand hold zeros already. */
static TRAINC_XPULP_INLINE void trainc_xpulp_fill_strip(const struct trainc_xpulp_strips *work,
    int32_t image, int32_t line, int8_t *strip)
{
    const int32_t plane = work->height * work->width, rest = work->used & 3;
    const int32_t skipped = work->used - 4, over = work->column & 3;
    int32_t channel = 0, row = line * work->down - work->top, last = row + work->taps * work->dilation;
    int32_t at = image * work->channels * plane + row * work->width;
    const int8_t *rows[4] = { 0, 0, 0, 0 };
    for (int32_t k = 0; k < work->column; k += 4) {
        /* The last four rows overlap those before, where columns are no whole words. */
        const int32_t fresh = over > 0 && k + 4 > work->column ? over : 4;
        for (int32_t i = 0; i < 4 - fresh; i++) {
            rows[i] = rows[i + fresh];
        }
        for (int32_t i = 4 - fresh; i < 4; i++) {
            rows[i] = row < 0 || row >= work->height || row >= last ? work->zeros
                : work->from + at;
            at += plane;
            if (++channel == work->channels) {
                channel = 0;
                row += work->dilation;
                at += work->dilation * work->width - work->channels * plane;
            }
        }
        int8_t *const to = strip + work->left * work->column + k + fresh - 4;
        int8_t *places[4];
        for (int32_t i = 0; i < 4; i++) {
            places[i] = to + i * work->column;
        }
        trainc_xpulp_turn_to(rows, 4, work->used >> 2, places, 4 * work->column);
        if (rest > 0) {
            /* The last four columns overlap those before. */
            const int8_t *last_of[4];
            for (int32_t i = 0; i < 4; i++) {
                last_of[i] = rows[i] + skipped;
                places[i] += skipped * work->column;
            }
            trainc_xpulp_turn_to(last_of, 4, 1, places, 4);
        }
    }
}

/* Leaves out the taps of a tile that meet no column of the operand: windows lie side by side, from a
 * column of results on. */
static inline void trainc_xpulp_trim(const struct trainc_xpulp_strips *work,
    struct trainc_xpulp_tile *tile, int32_t column, int32_t rows, int32_t lanes)
{
    const int32_t first = trainc_maximum32(work->left - (column + lanes - 1), 0);
    const int32_t behind = trainc_minimum32(work->left + work->used - column, work->across);
    tile->words = (behind - first) * work->column >> 2;
    const int32_t left_out = 4 * (work->segment - tile->words);
    tile->jump = work->jump + left_out;
    tile->skip = rows * left_out;
    tile->lanes += first * work->column;
    tile->rows += rows * first * work->column;
    tile->behind += rows * first * work->column;
}

/* The windows of a line's piece, which begins at a tile of rows and at a column: segments of
 * `work->segment` words each, from `lanes` on, of which the first has number `first` of a vector; at
 * least one. Of those `trims` leaves out taps. */
static TRAINC_XPULP_INLINE uint32_t trainc_xpulp_multiply_line(const struct trainc_xpulp_strips *work,
    const int8_t *lanes, int32_t first, int32_t segments, int32_t *sums, int32_t from_tile,
    int32_t from_column, int32_t trims)
{
    /* Of three last rows a fourth fills up a tile. */
    int32_t tiles = ((work->row_count + 1) >> 2) - from_tile, last = work->row_count & 3;
    const int8_t *const own = work->rows + 16 * from_tile * work->words;
    const int32_t skipped = work->words - segments * work->segment;
    const int32_t to_column =
        trainc_minimum32(from_column + work->piece_columns, work->columns);
    if (tiles >= work->piece_tiles) {
        tiles = work->piece_tiles;
        last = 0;
    }
    sums += 4 * from_tile * work->sums_stride;
    struct trainc_xpulp_tile tile;
    tile.stride = work->right;
    tile.words = work->segment;
    tile.next = 4 * work->sums_stride - 12;
    tile.largest = 0;
    tile.skip = 0;
    tile.segments = segments;
    tile.jump = work->jump;
    tile.rest = 16 * skipped;
    tile.back = 4 - 3 * work->right;
    const int8_t *at = lanes + from_column * work->right;
    int32_t *to = sums + from_column, left = work->columns - from_column;
    const int32_t behind = work->columns - to_column;
    const int8_t *rows = own + 16 * first * work->segment;
    for (; tiles > 0 && left > behind; left -= 4, at += 4 * work->right, to += 4) {
        tile.rows = rows;
        tile.behind = rows + 16 * tiles * work->words;
        tile.lanes = at;
        tile.sums = to;
        if (left <= 2) {
            tile.lanes -= (2 - left) * work->right;
            tile.sums -= 2 - left;
            tile.back = 4 - work->right;
            if (trims) {
                trainc_xpulp_trim(work, &tile, work->columns - 2, 4, 2);
                trainc_xpulp_segments_pair_trimmed(&tile);
            } else {
                trainc_xpulp_segments_pair(&tile);
            }
        } else {
            if (left == 3) {
                /* The last windows overlap those before. */
                tile.lanes -= work->right;
                tile.sums--;
            }
            if (trims) {
                trainc_xpulp_trim(work, &tile, work->columns - trainc_maximum32(left, 4), 4, 4);
                trainc_xpulp_segments4_trimmed(&tile);
            } else {
                trainc_xpulp_segments4(&tile);
            }
        }
    }
    if (last != 1 && last != 2) {
        return tile.largest;
    }
    tile.rest = 0;
    tile.back = 4 - 3 * work->right;
    at = lanes + from_column * work->right;
    to = sums + 4 * tiles * work->sums_stride + from_column;
    rows = own + 16 * tiles * work->words + 4 * last * first * work->segment;
    for (left = work->columns - from_column; left > behind; left -= 4) {
        const int32_t back = left < 4 ? 4 - left : 0;
        tile.rows = rows;
        tile.behind = rows + 4 * last * segments * work->segment;
        tile.lanes = at - back * work->right;
        tile.sums = to - back;
        if (trims) {
            trainc_xpulp_trim(work, &tile, work->columns - left - back, last, 4);
            if (last == 2) {
                trainc_xpulp_segments2_trimmed(&tile);
            } else {
                trainc_xpulp_segments1_trimmed(&tile);
            }
        } else if (last == 2) {
            trainc_xpulp_segments2(&tile);
        } else {
            trainc_xpulp_segments1(&tile);
        }
        at += 4 * work->right;
        to += 4;
    }
    return tile.largest;
}

/* The same without and with such. */
static TRAINC_XPULP_INLINE uint32_t trainc_xpulp_plain_line(const struct trainc_xpulp_strips *work,
    const int8_t *lanes, int32_t first, int32_t segments, int32_t *sums, int32_t from_tile,
    int32_t from_column)
{
    return trainc_xpulp_multiply_line(work, lanes, first, segments, sums, from_tile, from_column, 0);
}

static TRAINC_XPULP_INLINE uint32_t trainc_xpulp_trimmed_line(const struct trainc_xpulp_strips *work,
    const int8_t *lanes, int32_t first, int32_t segments, int32_t *sums, int32_t from_tile,
    int32_t from_column)
{
    return trainc_xpulp_multiply_line(work, lanes, first, segments, sums, from_tile, from_column, 1);
}

/* The same where all are whole tiles: rows, and columns of results, but for a last one less of either,
 * whose tile overlaps others. `words` of a segment are the lanes' from one column to the next. */
static TRAINC_XPULP_INLINE uint32_t trainc_xpulp_multiply_whole(
    const struct trainc_xpulp_strips *work, const int8_t *lanes, int32_t first, int32_t segments,
    int32_t *sums, int32_t from_tile, int32_t from_column, int32_t words, int32_t back,
    void (*multiply)(struct trainc_xpulp_tile *tile))
{
    const int32_t tiles =
        trainc_minimum32(((work->row_count + 1) >> 2) - from_tile, work->piece_tiles);
    const int32_t to_column =
        trainc_minimum32(from_column + work->piece_columns, work->columns);
    const int8_t *const rows = work->rows + 16 * (from_tile * work->words + first * work->segment);
    struct trainc_xpulp_tile tile;
    tile.stride = work->right;
    tile.words = words;
    tile.next = 4 * work->sums_stride - 12;
    tile.largest = 0;
    tile.segments = segments;
    tile.jump = work->jump;
    tile.rest = 16 * (work->words - segments * work->segment);
    tile.behind = rows + 16 * tiles * work->words;
    tile.back = back;
    tile.skip = 0;
    sums += 4 * from_tile * work->sums_stride;
    for (int32_t column = from_column; column < to_column; column += 4) {
        const int32_t at = trainc_minimum32(column, work->columns - 4);
        tile.rows = rows;
        tile.lanes = lanes + at * work->right;
        tile.sums = sums + at;
        multiply(&tile);
    }
    return tile.largest;
}

static TRAINC_XPULP_INLINE uint32_t trainc_xpulp_whole_line(const struct trainc_xpulp_strips *work,
    const int8_t *lanes, int32_t first, int32_t segments, int32_t *sums, int32_t from_tile,
    int32_t from_column)
{
    return trainc_xpulp_multiply_whole(work, lanes, first, segments, sums, from_tile, from_column,
        work->segment, 4 - 3 * work->right, trainc_xpulp_segments4);
}

/* Where neighbouring windows are of three columns, which are loaded once for a tile. */
static TRAINC_XPULP_INLINE uint32_t trainc_xpulp_joined_line(const struct trainc_xpulp_strips *work,
    const int8_t *lanes, int32_t first, int32_t segments, int32_t *sums, int32_t from_tile,
    int32_t from_column)
{
    return trainc_xpulp_multiply_whole(work, lanes, first, segments, sums, from_tile, from_column,
        work->column >> 2, 4 - 5 * work->right, trainc_xpulp_segments_joined);
}

/* What multiplies a line's piece. */
typedef uint32_t trainc_xpulp_line(const struct trainc_xpulp_strips *work, const int8_t *lanes,
    int32_t first, int32_t segments, int32_t *sums, int32_t from_tile, int32_t from_column);

/* Some parts of all images' lines. */
static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_parts_of_lines(
    const struct trainc_xpulp_strips *work, int32_t begin, int32_t end, trainc_xpulp_line *multiply)
{
    const int32_t lines = work->images * work->lines;
    /* One core takes lines whole. */
    const int32_t pieces = TRAINC_DIVIDED((work->columns + work->piece_columns - 1)
        / work->piece_columns, 1);
    for (int32_t part = begin; part < end; part++) {
        int8_t *const strip = work->strips + part * work->bytes;
        trainc_xpulp_zero(strip, work->bytes);
        const int32_t first = part * lines * pieces / work->parts;
        int32_t line = first / pieces, column = (first - line * pieces) * work->piece_columns;
        int32_t image = line / work->lines, filled = -1;
        line -= image * work->lines;
        for (int32_t left = (part + 1) * lines * pieces / work->parts - first; left > 0; left--) {
            if (filled != line) {
                trainc_xpulp_fill_strip(work, image, line, strip);
                filled = line;
            }
            const uint32_t largest = multiply(work, strip, 0, 1,
                work->sums + image * work->image_sums + line * work->columns, 0, column);
            work->largest[part] = trainc_xpulp_maxu(work->largest[part], largest);
            column += work->piece_columns;
            if (pieces > 1 && column < work->columns) {
                continue;
            }
            column = 0;
            filled = -1;
            if (++line == work->lines) {
                line = 0;
                image++;
            }
        }
    }
}

static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_strips(void *context, int32_t begin, int32_t end)
{
    trainc_xpulp_multiply_parts_of_lines((const struct trainc_xpulp_strips *)context, begin, end,
        trainc_xpulp_plain_line);
}

static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_whole_strips(void *context, int32_t begin,
    int32_t end)
{
    trainc_xpulp_multiply_parts_of_lines((const struct trainc_xpulp_strips *)context, begin, end,
        trainc_xpulp_whole_line);
}

/* Some rows of the operand as columns of all channels, where columns outside of it are zeros. */
static inline void trainc_xpulp_turn_rows(void *context, int32_t begin, int32_t end)
{
    const struct trainc_xpulp_strips *const work = (const struct trainc_xpulp_strips *)context;
    const int32_t plane = work->height * work->width, rest = work->used & 3;
    const int32_t channels = work->channels;
    int32_t image = 0, above = begin;
    while (above >= work->height) {
        above -= work->height;
        image++;
    }
    for (int32_t row = begin; row < end; row++) {
        const int8_t *from = work->from + image * channels * plane + above * work->width;
        if (++above == work->height) {
            above = 0;
            image++;
        }
        int8_t *to = work->strips + row * work->bytes + work->left * channels;
        for (int32_t k = 0; k < channels; k += 4, from += 4 * plane, to += 4) {
            const int8_t *const rows[4] = { from, from + plane, from + 2 * plane, from + 3 * plane };
            int8_t *const places[4] = { to, to + channels, to + 2 * channels, to + 3 * channels };
            trainc_xpulp_turn_to(rows, 4, work->used >> 2, places, 4 * channels);
            if (rest > 0) {
                /* The last four columns overlap those before. */
                const int32_t skip = work->used - 4;
                const int8_t *const last[4] = { rows[0] + skip, rows[1] + skip, rows[2] + skip,
                    rows[3] + skip };
                int8_t *const ends[4] = { places[0] + skip * channels, places[1] + skip * channels,
                    places[2] + skip * channels, places[3] + skip * channels };
                trainc_xpulp_turn_to(last, 4, 1, ends, 4 * channels);
            }
        }
    }
}

/* Some lines, or pieces of them, all lines' first before the second, of an operand whose rows were
 * turned, by what multiplies one: rows of windows outside of it are skipped. */
static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_pieces_of_lines(
    const struct trainc_xpulp_strips *work, int32_t begin, int32_t end, trainc_xpulp_line *multiply)
{
    const int32_t pieces = work->pieces, step = work->step, lines = work->images * work->lines;
    int32_t piece = begin * step % pieces;
    for (int32_t n = begin; n < end; n++, piece += piece + step < pieces ? step : step - pieces) {
        int32_t line = piece, tile = 0, column = 0;
        while (line >= lines) {
            line -= lines;
            column += work->piece_columns;
            if (column >= work->columns) {
                column = 0;
                tile += work->piece_tiles;
            }
        }
        const int8_t *strips = work->strips;
        int32_t *sums = work->sums;
        for (; line >= work->lines; line -= work->lines) {
            strips += work->height * work->bytes;
            sums += work->image_sums;
        }
        const int32_t top = line * work->down - work->top;
        int32_t first = 0, behind = work->taps;
        while (first < behind && top + first * work->dilation < 0) {
            first++;
        }
        while (behind > first && top + (behind - 1) * work->dilation >= work->height) {
            behind--;
        }
        sums += line * work->columns;
        if (first < behind) {
            const uint32_t largest = multiply(work,
                strips + (top + first * work->dilation) * work->bytes, first, behind - first,
                sums, tile, column);
            work->largest[piece] = trainc_xpulp_maxu(work->largest[piece], largest);
            continue;
        }
        for (int32_t row = 0; row < work->row_count; row++) {
            trainc_xpulp_zero(sums + row * work->sums_stride, 4 * work->columns);
        }
    }
}

static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_lines(void *context, int32_t begin, int32_t end)
{
    trainc_xpulp_multiply_pieces_of_lines((const struct trainc_xpulp_strips *)context, begin, end,
        trainc_xpulp_plain_line);
}

static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_whole_lines(void *context, int32_t begin,
    int32_t end)
{
    trainc_xpulp_multiply_pieces_of_lines((const struct trainc_xpulp_strips *)context, begin, end,
        trainc_xpulp_whole_line);
}

static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_trimmed(void *context, int32_t begin, int32_t end)
{
    trainc_xpulp_multiply_pieces_of_lines((const struct trainc_xpulp_strips *)context, begin, end,
        trainc_xpulp_trimmed_line);
}

static TRAINC_XPULP_INLINE void trainc_xpulp_multiply_joined(void *context, int32_t begin, int32_t end)
{
    trainc_xpulp_multiply_pieces_of_lines((const struct trainc_xpulp_strips *)context, begin, end,
        trainc_xpulp_joined_line);
}

#endif
