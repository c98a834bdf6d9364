//! Products of bytes on maps of few positions, of which most windows reach over the border: lanes are images, or channels, so that a
//! position takes those of its taps alone that lie inside. Products of 2x2 maps by 3x3 windows with padding do 4 of 9 multiplications,
//! those of 4x4 maps 100 of 144.

use core::sync::atomic::{AtomicU32, Ordering};

use super::depthwise::Scalar;
use super::engine::{Engine, Largest, Nest, Panel, Side};
use super::engines::{most_tiles_i8, with_i8};
use super::geometry::{ConvGeometry, Pass};
use super::own::Own;
use super::path::KernelPath;
use super::scratch::{Scratch, words_bytes, words_of, words_of_mut};
use super::threads;

/// Most positions of a map.
const MOST_POSITIONS: usize = 64;

/// Fewest channels and images.
const LEAST: usize = 16;

/// Most images: beyond, what is laid out leaves the caches.
const MOST_IMAGES: usize = 1024;

/// Most units of channels that are summed over before the next ones: with all taps and positions few enough for the nearest cache, and as
/// many as tiles take steps.
const MOST_UNITS: usize = 16;

/// What has products of this form. FP32 has none, for whose sums the order counts.
pub(crate) trait ImagesBeside: Scalar {
    /// The result of a pass from its two operands, and its largest magnitude; `None` where another form is shorter.
    fn product(
        _path: KernelPath,
        _pass: Pass,
        _g: &ConvGeometry,
        _operands: [&[Self]; 2],
        _out: &mut [Self::Sum],
        _scratch: &mut [u8],
    ) -> Option<u32> {
        None
    }

    /// Bytes of working memory.
    fn bytes(_pass: Pass, _g: &ConvGeometry) -> usize {
        0
    }
}

impl ImagesBeside for f32 {}

impl ImagesBeside for i8 {
    fn product(
        path: KernelPath,
        pass: Pass,
        g: &ConvGeometry,
        operands: [&[i8]; 2],
        out: &mut [i32],
        scratch: &mut [u8],
    ) -> Option<u32> {
        let beside = Beside::of(pass, g)?;
        Some(with_i8!(path, E if beside.suits::<E>() => match pass {
            Pass::WeightGradient => beside.weights::<E>(operands, out, scratch),
            _ => beside.maps::<E>(operands, out, scratch),
        }))
    }

    fn bytes(pass: Pass, g: &ConvGeometry) -> usize {
        Beside::of(pass, g).map_or(0, |beside| {
            most_tiles_i8!(E => match pass {
                Pass::WeightGradient => beside.weights_bytes::<E>(),
                _ => beside.maps_bytes::<E>(),
            })
        })
    }
}

/// Whether products of bytes have this form.
pub(crate) fn is_shorter(pass: Pass, g: &ConvGeometry) -> bool {
    Beside::of(pass, g).is_some()
}

/// One direction of a map.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    output: usize,
    stride: usize,
    dilation: usize,
    pad: usize,
    taps: usize,
}

impl Axis {
    /// Where the tap of an output lies in the input.
    const fn input(&self, output: usize, tap: usize) -> Option<usize> {
        let at = output * self.stride + tap * self.dilation;
        if at < self.pad || at - self.pad >= self.input { None } else { Some(at - self.pad) }
    }

    /// Whose tap an input is.
    fn output(&self, input: usize, tap: usize) -> Option<usize> {
        let at = (input + self.pad).checked_sub(tap * self.dilation)?;
        let whole = at.is_multiple_of(self.stride) && at / self.stride < self.output;
        whole.then_some(at / self.stride)
    }

    /// The outputs whose tap lies inside.
    fn inside(&self, tap: usize) -> core::ops::Range<usize> {
        let is = |&output: &usize| self.input(output, tap).is_some();
        let first = (0..self.output).find(is).unwrap_or(self.output);
        first..first + (first..self.output).take_while(is).count()
    }

    /// The taps for which `place` gives one, which are evenly spaced, as are their places.
    fn line(&self, place: impl Fn(usize) -> Option<usize>) -> Option<Line> {
        let mut taps = (0..self.taps).filter_map(|tap| Some((tap, place(tap)?)));
        let (first, from) = taps.next()?;
        let Some((second, next)) = taps.next() else {
            return Some(Line { count: 1, first, step: 0, from, slope: 0 });
        };
        let slope = next as isize - from as isize;
        Some(Line { count: 2 + taps.count(), first, step: second - first, from, slope })
    }

    /// Pairs of an output and a tap that lies inside.
    fn pairs(&self) -> usize {
        (0..self.taps).map(|tap| self.inside(tap).len()).sum()
    }
}

/// The taps of one direction that lie inside for one position of the result.
#[derive(Clone, Copy)]
struct Line {
    count: usize,
    /// The first of them, and from one to the next.
    first: usize,
    step: usize,
    /// Where the first one reads, and from one to the next.
    from: usize,
    slope: isize,
}

/// A product of this form.
struct Beside<'g> {
    g: &'g ConvGeometry,
    pass: Pass,
    vertical: Axis,
    horizontal: Axis,
}

/// Sums that threads write to, each its own.
struct Sums(*mut i32);
// SAFETY: each thread writes the planes of its own channels.
unsafe impl Sync for Sums {}

impl<'g> Beside<'g> {
    /// `None` where it does not save a fifth of the multiplications.
    fn of(pass: Pass, g: &'g ConvGeometry) -> Option<Self> {
        let vertical = Axis {
            input: g.in_height,
            output: g.out_height,
            stride: g.stride_height,
            dilation: g.dilation_height,
            pad: g.pad_top,
            taps: g.kernel_height,
        };
        let horizontal = Axis {
            input: g.in_width,
            output: g.out_width,
            stride: g.stride_width,
            dilation: g.dilation_width,
            pad: g.pad_left,
            taps: g.kernel_width,
        };
        let few = g.in_plane().max(g.out_plane()) <= MOST_POSITIONS;
        let many = g.batch.min(g.in_channels).min(g.out_channels) >= LEAST;
        if g.groups > 1 || !few || !many || g.batch > MOST_IMAGES || g.output_len() == 0 {
            return None;
        }
        let done = g.batch.next_multiple_of(LEAST) * vertical.pairs() * horizontal.pairs();
        let shorter = 5 * done <= 4 * g.batch * g.out_plane() * g.taps();
        shorter.then_some(Self { g, pass, vertical, horizontal })
    }

    /// Channels and positions of what is read, and of what comes out.
    const fn maps_of(&self) -> [[usize; 2]; 2] {
        let input = [self.g.in_channels, self.g.in_plane()];
        let output = [self.g.out_channels, self.g.out_plane()];
        if matches!(self.pass, Pass::Forward) { [input, output] } else { [output, input] }
    }

    /// The taps of a result's position that lie inside: rows, then columns.
    fn taps(&self, position: usize) -> Option<[Line; 2]> {
        let (v, h) = (&self.vertical, &self.horizontal);
        if self.pass == Pass::Forward {
            let (row, column) = (position / h.output, position % h.output);
            return Some([v.line(|tap| v.input(row, tap))?, h.line(|tap| h.input(column, tap))?]);
        }
        let (row, column) = (position / h.input, position % h.input);
        Some([v.line(|tap| v.output(row, tap))?, h.line(|tap| h.output(column, tap))?])
    }

    /// Groups of units of channels, and units of each.
    const fn groups<E: Engine>(&self) -> [usize; 2] {
        let [[channels, _], _] = self.maps_of();
        let quads = channels.div_ceil(E::DEPTH);
        let groups = quads.div_ceil(MOST_UNITS);
        [groups, quads.div_ceil(groups)]
    }

    /// The walk over all taps of a group of units of channels, of which those over the taps of a position are parts.
    fn window<E: Engine>(&self) -> Nest {
        let [_, size] = self.groups::<E>();
        let [outer, middle] = [self.vertical.taps, self.horizontal.taps];
        let panel = Panel::Part { outer: middle * size, middle: size };
        Nest { outer, middle, panel, ..Nest::line(size, E::LANES) }
    }

    /// The walk over all positions of errors of the gradient of weights, of which those of taps are parts.
    fn plane<E: Engine>(&self) -> Nest {
        let (g, quads) = (self.g, self.g.batch.div_ceil(E::DEPTH));
        let panel = Panel::Part { outer: g.out_width * quads, middle: quads };
        Nest { outer: g.out_height, middle: g.out_width, panel, ..Nest::line(quads, E::LANES) }
    }

    /// Whether tiles of `E` are worth it.
    fn suits<E: Engine>(&self) -> bool {
        match self.pass {
            Pass::WeightGradient => E::suits(E::block(self.g.out_channels), &self.plane::<E>()),
            _ => E::suits(E::block(self.maps_of()[1][0]), &self.window::<E>()),
        }
    }

    /// Words that a thread of [`Self::maps`] takes: of rows as units, of their panel, of sums, of a channel's results, of its biases, and
    /// of a position's.
    fn maps_words<E: Engine>(&self) -> [usize; 6] {
        let [_, [rows, positions]] = self.maps_of();
        let (n, taps, [groups, size]) = (E::block(rows), self.g.taps(), self.groups::<E>());
        let images = self.g.batch.next_multiple_of(E::LANES);
        let group = n * taps * size;
        let staging = group.max(E::arrangement(group));
        let biases = groups * taps * n;
        [staging, groups * group, positions * images * n, E::LANES * positions, biases, n]
    }

    fn maps_bytes<E: Engine>(&self) -> usize {
        let [[_, from], _] = self.maps_of();
        let ([groups, size], staging) = (self.groups::<E>(), words_bytes(E::LANES * from));
        let images = self.g.batch.next_multiple_of(E::LANES);
        let shared = words_bytes(groups * size * from * images);
        let own: usize = self.maps_words::<E>().map(words_bytes).iter().sum();
        2 * Scratch::LOSS + shared + own.max(staging)
    }

    /// The sums of maps: rows are channels, lanes images.
    fn maps<E: Engine<Element = i8, Sum = i32>>(
        &self,
        [source, w]: [&[i8]; 2],
        out: &mut [i32],
        scratch: &mut [u8],
    ) -> u32 {
        let [[channels, from], [rows, positions]] = self.maps_of();
        let (batch, [groups, size]) = (self.g.batch, self.groups::<E>());
        let images = batch.next_multiple_of(E::LANES);
        let mut scratch = Scratch::new(scratch);
        // [tile of images][group of units][position][unit of channels][image]
        let units = scratch.units(groups * size * from * images);
        let rest = scratch.rest();
        let own = Own::new(&mut *rest);
        let work = self.g.multiplications();
        let part = from * size * E::LANES;
        threads::fill(units, part, work, &|first, units| {
            own.with(Scratch::LOSS + words_bytes(E::LANES * from), |bytes| {
                let staging = Scratch::new(bytes).units(E::LANES * from);
                for (number, units) in (first..).zip(units.chunks_exact_mut(part)) {
                    let (image, quad) = (number / groups * E::LANES, number % groups * size);
                    let here = E::LANES.min(batch - image);
                    for k in 0..size {
                        let channel = (quad + k) * E::DEPTH;
                        let present = E::DEPTH.min(channels.saturating_sub(channel));
                        if present == 0 {
                            break;
                        }
                        let staging = &mut staging[..here * from];
                        for (image, staging) in (image..).zip(staging.chunks_exact_mut(from)) {
                            let source = &source[(image * channels + channel) * from..];
                            E::interleave(Side::Lanes, source, from, present, staging);
                        }
                        let to = &mut units[k * E::LANES..];
                        E::transpose(staging, from, here, from, to, size * E::LANES);
                    }
                }
            });
        });
        let units = &*units;
        let n = E::block(rows);
        let blocks = rows.div_ceil(n);
        let count = threads::parts(work, blocks);
        let (sums, found) = (&Sums(out.as_mut_ptr()), AtomicU32::new(0));
        assert_eq!(out.len(), batch * rows * positions, "maps");
        let words = self.maps_words::<E>();
        let bytes = Scratch::LOSS + words.map(words_bytes).iter().sum::<usize>();
        let own = Own::new(rest);
        threads::run(count, &|index| {
            own.with(bytes, |bytes| {
                let mut scratch = Scratch::new(bytes);
                let [staging, panel] = [words[0], words[1]].map(|n| scratch.units(n));
                let tiles = scratch.sums::<i32>(words[2]);
                let planes = scratch.sums::<i32>(words[3]);
                let [biases, bias] = [words[4], words[5]].map(|n| scratch.sums::<i32>(n));
                let mut largest = Largest::default();
                for block in threads::piece(blocks, 1, count, index) {
                    let first = block * n;
                    let n = n.min(rows - first);
                    self.pack::<E>(w, first, n, staging, panel, biases);
                    self.tiles::<E>(units, n, panel, biases, bias, tiles);
                    for row in 0..n {
                        for (tile, image) in (0..batch).step_by(E::LANES).enumerate() {
                            let here = E::LANES.min(batch - image);
                            let from = &words_of(tiles)[(tile * n + row) * E::LANES..];
                            let planes = &mut planes[..here * positions];
                            let to = words_of_mut(planes);
                            E::transpose(from, images * n, positions, here, to, positions);
                            E::fold_max(&mut largest, planes, 0, 1, here * positions);
                            for (i, plane) in planes.chunks_exact(positions).enumerate() {
                                let at = ((image + i) * rows + first + row) * positions;
                                // SAFETY: the plane of an image and of a channel of this thread's, of which the output has `batch`
                                // times `rows`.
                                unsafe {
                                    let to = sums.0.add(at);
                                    core::ptr::copy_nonoverlapping(plane.as_ptr(), to, positions);
                                }
                            }
                        }
                    }
                }
                found.fetch_max(largest.value(), Ordering::Relaxed);
            });
        });
        found.into_inner()
    }

    /// A block of the weights' rows into a panel, `[group of units][tap][unit of channels][row]`, and the biases of each group and tap.
    fn pack<E: Engine<Element = i8, Sum = i32>>(
        &self,
        w: &[i8],
        first: usize,
        n: usize,
        staging: &mut [u32],
        panel: &mut [u32],
        biases: &mut [i32],
    ) {
        let [[channels, _], [rows, _]] = self.maps_of();
        let (taps, [groups, size]) = (self.g.taps(), self.groups::<E>());
        let (group, window) = (taps * size * n, self.window::<E>());
        let panels = panel[..groups * group].chunks_exact_mut(group);
        let biases = biases.chunks_mut(taps * n);
        for ((number, panel), biases) in panels.enumerate().zip(biases) {
            for k in 0..size {
                let channel = (number * size + k) * E::DEPTH;
                let present = E::DEPTH.min(channels.saturating_sub(channel));
                if present == 0 {
                    panel.chunks_exact_mut(size * n).for_each(|tap| tap[k * n..].fill(0));
                    break;
                }
                let units = &mut staging[..n * taps];
                if self.pass == Pass::Forward {
                    for (row, units) in (first..).zip(units.chunks_exact_mut(taps)) {
                        let w = &w[(row * channels + channel) * taps..];
                        E::interleave(Side::Rows, w, taps, present, units);
                    }
                } else {
                    let w = &w[(channel * rows + first) * taps..];
                    E::interleave(Side::Rows, w, rows * taps, present, units);
                }
                E::transpose(units, taps, n, taps, &mut panel[k * n..], size * n);
            }
            for (tap, bias) in panel.chunks_exact(size * n).zip(biases.chunks_exact_mut(n)) {
                E::bias(tap, n, bias);
            }
            E::arrange(panel, n, &window, staging);
        }
    }

    /// The sums of a block of rows, `[position][tile of images][row][image]`.
    fn tiles<E: Engine<Element = i8, Sum = i32>>(
        &self,
        units: &[u32],
        n: usize,
        panel: &[u32],
        biases: &[i32],
        bias: &mut [i32],
        tiles: &mut [i32],
    ) {
        let [[_, from], [_, positions]] = self.maps_of();
        let (taps, [groups, size]) = (self.g.taps(), self.groups::<E>());
        let (tile, part, group) = (n * E::LANES, from * size * E::LANES, taps * size * n);
        let images = self.g.batch.div_ceil(E::LANES);
        let (of_tap, of_place) = (size * n, size * E::LANES);
        let width = self.horizontal.taps;
        let across = match self.pass {
            Pass::Forward => self.horizontal.input,
            _ => self.horizontal.output,
        };
        let bias = &mut bias[..n];
        for number in 0..groups {
            let panel = &panel[number * group..][..group];
            for position in 0..positions {
                let tiles = &mut tiles[position * images * tile..][..images * tile];
                let Some([rows, columns]) = self.taps(position) else {
                    tiles.fill(0);
                    continue;
                };
                let nest = Nest {
                    outer: rows.count,
                    outer_step: rows.slope * (across * of_place) as isize,
                    middle: columns.count,
                    middle_step: columns.slope * of_place as isize,
                    panel: Panel::Part {
                        outer: rows.step * width * size,
                        middle: columns.step * size,
                    },
                    ..Nest::line(size, E::LANES)
                };
                bias.fill(0);
                for row in 0..rows.count {
                    for column in 0..columns.count {
                        let tap = (rows.first + row * rows.step) * width
                            + columns.first
                            + column * columns.step;
                        let of_tap = &biases[(number * taps + tap) * n..][..n];
                        bias.iter_mut().zip(of_tap).for_each(|(sum, bias)| *sum += bias);
                    }
                }
                let panel = &panel[(rows.first * width + columns.first) * of_tap..];
                let first = (rows.from * across + columns.from) * of_place;
                assert!(nest.panel_steps() * n <= panel.len() && n <= E::ROWS);
                assert!(nest.is_within(first, E::LANES, part));
                for (image, sums) in tiles.chunks_exact_mut(tile).enumerate() {
                    let units = &units[(image * groups + number) * part..][..part];
                    // SAFETY: the assertions give panel and units their lengths; a tile writes its own sums.
                    unsafe {
                        E::tile(
                            n,
                            panel.as_ptr(),
                            units[first..].as_ptr(),
                            &nest,
                            bias.as_ptr(),
                            number > 0,
                            sums.as_mut_ptr(),
                            E::LANES,
                        );
                    }
                }
            }
        }
    }

    /// Words that a thread of [`Self::weights`] takes: of rows as units, of their panel, of sums, of a row's results, and of biases.
    fn weights_words<E: Engine>(&self) -> [usize; 5] {
        let (n, quads) = (E::block(self.g.out_channels), self.g.batch.div_ceil(E::DEPTH));
        let (rows, taps) = (n * self.g.out_plane(), self.g.taps());
        let staging = rows.max(E::arrangement(rows * quads));
        [staging, rows * quads, taps * n * E::LANES, taps * E::LANES, rows + n]
    }

    fn weights_bytes<E: Engine>(&self) -> usize {
        let (input, channels) = (self.g.in_plane(), self.g.in_channels);
        let lanes = channels.next_multiple_of(E::LANES);
        let quads = self.g.batch.div_ceil(E::DEPTH);
        let own: usize = self.weights_words::<E>().map(words_bytes).iter().sum();
        let staging = words_bytes(E::LANES * input);
        2 * Scratch::LOSS + words_bytes(input * quads * lanes) + own.max(staging)
    }

    /// The gradient of the weights: rows are channels of the errors, lanes channels of the input; images and positions are summed over.
    fn weights<E: Engine<Element = i8, Sum = i32>>(
        &self,
        [x, dy]: [&[i8]; 2],
        dw: &mut [i32],
        scratch: &mut [u8],
    ) -> u32 {
        let g = self.g;
        let (input, channels, taps) = (g.in_plane(), g.in_channels, g.taps());
        let (lanes, quads) = (channels.next_multiple_of(E::LANES), g.batch.div_ceil(E::DEPTH));
        let mut scratch = Scratch::new(scratch);
        // [block of channels][position][unit of images][channel]
        let units = scratch.units(input * quads * lanes);
        let rest = scratch.rest();
        let own = Own::new(&mut *rest);
        let part = input * quads * E::LANES;
        threads::fill(units, part, g.multiplications(), &|first, units| {
            own.with(Scratch::LOSS + words_bytes(E::LANES * input), |bytes| {
                let staging = Scratch::new(bytes).units(E::LANES * input);
                for (block, units) in (first..).zip(units.chunks_exact_mut(part)) {
                    let channel = block * E::LANES;
                    let here = E::LANES.min(channels - channel);
                    for quad in 0..quads {
                        let present = E::DEPTH.min(g.batch - quad * E::DEPTH);
                        let x = &x[(quad * E::DEPTH * channels + channel) * input..];
                        let staging = &mut staging[..here * input];
                        E::interleave(Side::Lanes, x, channels * input, present, staging);
                        let to = &mut units[quad * E::LANES..];
                        E::transpose(staging, input, here, input, to, quads * E::LANES);
                    }
                }
            });
        });
        let units = &*units;
        let n = E::block(g.out_channels);
        let own = Own::new(rest);
        let words = self.weights_words::<E>();
        let bytes = Scratch::LOSS + words.map(words_bytes).iter().sum::<usize>();
        let found = AtomicU32::new(0);
        threads::fill(dw, n * channels * taps, g.multiplications(), &|block, dw| {
            own.with(bytes, |bytes| {
                let mut scratch = Scratch::new(bytes);
                let [staging, panel] = [words[0], words[1]].map(|n| scratch.units(n));
                let [sums, row, biases] =
                    [words[2], words[3], words[4]].map(|n| scratch.sums::<i32>(n));
                let mut largest = Largest::default();
                for (block, dw) in (block..).zip(dw.chunks_mut(n * channels * taps)) {
                    let first = block * n;
                    let n = dw.len() / (channels * taps);
                    self.pack_errors::<E>(dy, first, n, staging, panel, biases);
                    for (channel, units) in
                        (0..).step_by(E::LANES).zip(units.chunks_exact(input * quads * E::LANES))
                    {
                        self.tile_of_weights::<E>(units, panel, biases, n, sums);
                        let here = E::LANES.min(channels - channel);
                        for (r, dw) in dw.chunks_exact_mut(channels * taps).enumerate() {
                            let from = &words_of(sums)[r * E::LANES..];
                            let row = &mut row[..here * taps];
                            E::transpose(from, n * E::LANES, taps, here, words_of_mut(row), taps);
                            E::fold_max(&mut largest, row, 0, 1, here * taps);
                            dw[channel * taps..][..here * taps].copy_from_slice(row);
                        }
                    }
                }
                found.fetch_max(largest.value(), Ordering::Relaxed);
            });
        });
        found.into_inner()
    }

    /// A block of the errors' rows into a panel, `[position][unit of images][row]`, and the biases of each position.
    fn pack_errors<E: Engine<Element = i8, Sum = i32>>(
        &self,
        dy: &[i8],
        first: usize,
        n: usize,
        staging: &mut [u32],
        panel: &mut [u32],
        biases: &mut [i32],
    ) {
        let (g, plane) = (self.g, self.g.out_plane());
        let quads = g.batch.div_ceil(E::DEPTH);
        let panel = &mut panel[..plane * quads * n];
        for quad in 0..quads {
            let present = E::DEPTH.min(g.batch - quad * E::DEPTH);
            let dy = &dy[(quad * E::DEPTH * g.out_channels + first) * plane..];
            let units = &mut staging[..n * plane];
            E::interleave(Side::Rows, dy, g.out_channels * plane, present, units);
            E::transpose(units, plane, n, plane, &mut panel[quad * n..], quads * n);
        }
        for (panel, bias) in panel.chunks_exact(quads * n).zip(biases.chunks_exact_mut(n)) {
            E::bias(panel, n, bias);
        }
        E::arrange(panel, n, &self.plane::<E>(), staging);
    }

    /// The gradients of a block of rows and of lanes, `[tap][row][lane]`.
    fn tile_of_weights<E: Engine<Element = i8, Sum = i32>>(
        &self,
        units: &[u32],
        panel: &[u32],
        biases: &mut [i32],
        n: usize,
        sums: &mut [i32],
    ) {
        let (g, v, h) = (self.g, self.vertical, self.horizontal);
        let quads = g.batch.div_ceil(E::DEPTH);
        let of_place = quads * E::LANES;
        let (biases, bias) = biases.split_at_mut(g.out_plane() * n);
        let bias = &mut bias[..n];
        for (tap, sums) in sums.chunks_exact_mut(n * E::LANES).take(g.taps()).enumerate() {
            let (down, right) = (tap / h.taps, tap % h.taps);
            let (rows, columns) = (v.inside(down), h.inside(right));
            let from = v.input(rows.start, down).zip(h.input(columns.start, right));
            let Some((row, column)) = from.filter(|_| !rows.is_empty() && !columns.is_empty())
            else {
                sums.fill(0);
                continue;
            };
            let whole = self.plane::<E>();
            let nest = Nest {
                outer: rows.len(),
                outer_step: (g.stride_height * h.input * of_place) as isize,
                middle: columns.len(),
                middle_step: (g.stride_width * of_place) as isize,
                ..whole
            };
            bias.fill(0);
            for row in rows.clone() {
                for column in columns.clone() {
                    let of_place = &biases[(row * g.out_width + column) * n..][..n];
                    bias.iter_mut().zip(of_place).for_each(|(sum, bias)| *sum += bias);
                }
            }
            let panel = &panel[(rows.start * g.out_width + columns.start) * quads * n..];
            let first = (row * h.input + column) * of_place;
            assert!(nest.panel_steps() * n <= panel.len() && n <= E::ROWS);
            assert!(nest.is_within(first, E::LANES, units.len()));
            // SAFETY: the assertions give the operands their lengths; sums are of `n` rows.
            unsafe {
                E::tile(
                    n,
                    panel.as_ptr(),
                    units[first..].as_ptr(),
                    &nest,
                    bias.as_ptr(),
                    false,
                    sums.as_mut_ptr(),
                    E::LANES,
                );
            }
        }
    }
}
