//! Products of bytes on maps of few positions, of which most windows reach over the border: lanes are images, or channels, so that a
//! position takes those of its taps alone that lie inside. Products of 2x2 maps by 3x3 windows with padding do 4 of 9 multiplications,
//! those of 4x4 maps 100 of 144.

use core::sync::atomic::{AtomicU32, Ordering};

use super::depthwise::Scalar;
use super::engine::{Engine, Largest, Nest, Side};
use super::engines::{most_i8, with_i8};
use super::geometry::ConvGeometry;
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

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Forward,
    InputGradient,
    WeightGradient,
}

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
        Some(with_i8!(path, E => match pass {
            Pass::WeightGradient => beside.weights::<E>(operands, out, scratch),
            _ => beside.maps::<E>(operands, out, scratch),
        }))
    }

    fn bytes(pass: Pass, g: &ConvGeometry) -> usize {
        Beside::of(pass, g).map_or(0, |beside| {
            most_i8!(E => match pass {
                Pass::WeightGradient => beside.weights_bytes::<E>(),
                _ => beside.maps_bytes::<E>(),
            })
        })
    }
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

    /// Pairs of an output and a tap that lies inside.
    fn pairs(&self) -> usize {
        (0..self.taps).map(|tap| self.inside(tap).len()).sum()
    }
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

    /// The position that a result's position reads with a tap.
    fn read(&self, position: usize, tap: usize) -> Option<usize> {
        let (v, h) = (&self.vertical, &self.horizontal);
        let (row, column) = (tap / h.taps, tap % h.taps);
        if self.pass == Pass::Forward {
            let (r, c) = (position / h.output, position % h.output);
            return Some(v.input(r, row)? * h.input + h.input(c, column)?);
        }
        let (r, c) = (position / h.input, position % h.input);
        Some(v.output(r, row)? * h.output + h.output(c, column)?)
    }

    /// Rows of a tile.
    const fn block<E: Engine>(rows: usize) -> usize {
        rows.div_ceil(rows.div_ceil(E::ROWS))
    }

    /// Words that a thread of [`Self::maps`] takes: of rows as units, of their panel, of sums, of a channel's results, and of its bias.
    fn maps_words<E: Engine>(&self) -> [usize; 5] {
        let [[channels, _], [rows, positions]] = self.maps_of();
        let (n, depth) = (Self::block::<E>(rows), channels.div_ceil(E::DEPTH) * self.g.taps());
        let images = self.g.batch.next_multiple_of(E::LANES);
        [n * depth, n * depth, positions * images * n, E::LANES * positions, n]
    }

    fn maps_bytes<E: Engine>(&self) -> usize {
        let [[channels, from], _] = self.maps_of();
        let images = self.g.batch.next_multiple_of(E::LANES);
        let shared = words_bytes(channels.div_ceil(E::DEPTH) * from * images);
        let own: usize = self.maps_words::<E>().map(words_bytes).iter().sum();
        2 * Scratch::LOSS + shared + own.max(words_bytes(self.g.batch * from))
    }

    /// The sums of maps: rows are channels, lanes images.
    fn maps<E: Engine<Element = i8, Sum = i32>>(
        &self,
        [source, w]: [&[i8]; 2],
        out: &mut [i32],
        scratch: &mut [u8],
    ) -> u32 {
        let [[channels, from], [rows, positions]] = self.maps_of();
        let (batch, quads) = (self.g.batch, channels.div_ceil(E::DEPTH));
        let images = batch.next_multiple_of(E::LANES);
        let mut scratch = Scratch::new(scratch);
        let units = scratch.units(quads * from * images);
        let rest = scratch.rest();
        let own = Own::new(&mut *rest);
        let work = self.g.multiplications();
        threads::fill(units, from * images, work, &|first, units| {
            own.with(Scratch::LOSS + words_bytes(batch * from), |bytes| {
                let staging = Scratch::new(bytes).units(batch * from);
                for (quad, units) in (first..).zip(units.chunks_exact_mut(from * images)) {
                    let present = E::DEPTH.min(channels - quad * E::DEPTH);
                    for (image, staging) in staging.chunks_exact_mut(from).enumerate() {
                        let at = (image * channels + quad * E::DEPTH) * from;
                        E::interleave(Side::Lanes, &source[at..], from, present, staging);
                    }
                    E::transpose(staging, from, batch, from, units, images);
                }
            });
        });
        let units = &*units;
        let n = Self::block::<E>(rows);
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
                let bias = scratch.sums::<i32>(words[4]);
                let mut largest = Largest::default();
                for block in threads::piece(blocks, 1, count, index) {
                    let first = block * n;
                    let n = n.min(rows - first);
                    self.pack::<E>(w, first, n, staging, panel);
                    self.tiles::<E>(units, images, n, panel, bias, tiles);
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

    /// A block of the weights' rows into a panel, tap by tap: `[tap][unit of channels][row]`.
    fn pack<E: Engine<Element = i8, Sum = i32>>(
        &self,
        w: &[i8],
        first: usize,
        n: usize,
        staging: &mut [u32],
        panel: &mut [u32],
    ) {
        let [[channels, _], [rows, _]] = self.maps_of();
        let (taps, quads) = (self.g.taps(), channels.div_ceil(E::DEPTH));
        let depth = quads * taps;
        for quad in 0..quads {
            let present = E::DEPTH.min(channels - quad * E::DEPTH);
            let (from, stride) = if self.pass == Pass::Forward {
                for row in 0..n {
                    let w = &w[((first + row) * channels + quad * E::DEPTH) * taps..];
                    let units = &mut staging[row * depth + quad * taps..][..taps];
                    E::interleave(Side::Rows, w, taps, present, units);
                }
                (&staging[quad * taps..], depth)
            } else {
                let w = &w[(quad * E::DEPTH * rows + first) * taps..];
                let units = &mut staging[..n * taps];
                E::interleave(Side::Rows, w, rows * taps, present, units);
                (&*staging, taps)
            };
            E::transpose(from, stride, n, taps, &mut panel[quad * n..], quads * n);
        }
    }

    /// The sums of a block of rows, `[position][tile of images][row][image]`.
    fn tiles<E: Engine<Element = i8, Sum = i32>>(
        &self,
        units: &[u32],
        images: usize,
        n: usize,
        panel: &[u32],
        bias: &mut [i32],
        tiles: &mut [i32],
    ) {
        let [[channels, from], [_, positions]] = self.maps_of();
        let quads = channels.div_ceil(E::DEPTH);
        let nest = Nest::line(quads, from * images);
        assert!(nest.is_within((from - 1) * images, images, units.len()));
        let mut seen = [false; MOST_POSITIONS];
        for tap in 0..self.g.taps() {
            let panel = &panel[tap * quads * n..][..quads * n];
            E::bias(panel, n, &mut bias[..n]);
            for (position, seen) in seen.iter_mut().enumerate().take(positions) {
                let Some(read) = self.read(position, tap) else { continue };
                let tiles =
                    tiles[position * images * n..][..images * n].chunks_exact_mut(n * E::LANES);
                for (tile, sums) in tiles.enumerate() {
                    // SAFETY: the panel has its length; images of the position that is read lie within the units at each step, as
                    // asserted for the last one; a tile writes its own sums.
                    unsafe {
                        E::tile(
                            n,
                            panel.as_ptr(),
                            units[read * images + tile * E::LANES..].as_ptr(),
                            &nest,
                            bias.as_ptr(),
                            *seen,
                            sums.as_mut_ptr(),
                            E::LANES,
                        );
                    }
                }
                *seen = true;
            }
        }
        for position in (0..positions).filter(|&position| !seen[position]) {
            tiles[position * images * n..][..images * n].fill(0);
        }
    }

    /// Words that a thread of [`Self::weights`] takes: of rows as units, of their panel, of sums, of a row's results, and of biases.
    fn weights_words<E: Engine>(&self) -> [usize; 5] {
        let (n, quads) = (Self::block::<E>(self.g.out_channels), self.g.batch.div_ceil(E::DEPTH));
        let (rows, taps) = (n * self.g.out_plane(), self.g.taps());
        let biases = taps * self.g.out_height * n;
        [rows, rows * quads, taps * n * E::LANES, taps * E::LANES, biases]
    }

    fn weights_bytes<E: Engine>(&self) -> usize {
        let (input, channels) = (self.g.in_plane(), self.g.in_channels);
        let lanes = channels.next_multiple_of(E::LANES);
        let quads = self.g.batch.div_ceil(E::DEPTH);
        let own: usize = self.weights_words::<E>().map(words_bytes).iter().sum();
        2 * Scratch::LOSS + words_bytes(input * quads * lanes) + words_bytes(channels * input) + own
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
        // [position][unit of images][channel]
        let units = scratch.units(input * quads * lanes);
        let staging = scratch.units(channels * input);
        for quad in 0..quads {
            let present = E::DEPTH.min(g.batch - quad * E::DEPTH);
            let x = &x[quad * E::DEPTH * channels * input..];
            E::interleave(Side::Lanes, x, channels * input, present, staging);
            E::transpose(
                staging,
                input,
                channels,
                input,
                &mut units[quad * lanes..],
                quads * lanes,
            );
        }
        let units = &*units;
        let n = Self::block::<E>(g.out_channels);
        let own = Own::new(scratch.rest());
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
                    let plane = g.out_plane();
                    for quad in 0..quads {
                        let present = E::DEPTH.min(g.batch - quad * E::DEPTH);
                        let dy = &dy[(quad * E::DEPTH * g.out_channels + first) * plane..];
                        let staging = &mut staging[..n * plane];
                        E::interleave(Side::Rows, dy, g.out_channels * plane, present, staging);
                        E::transpose(staging, plane, n, plane, &mut panel[quad * n..], quads * n);
                    }
                    self.biases::<E>(panel, n, biases);
                    for channel in (0..channels).step_by(E::LANES) {
                        self.tile_of_weights::<E>(&units[channel..], panel, biases, n, sums);
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

    /// The rows of errors that a tap reads, with the first of their columns and how many there are, and the first input.
    fn rows(&self, tap: usize) -> impl Iterator<Item = (usize, core::ops::Range<usize>, usize)> {
        let (v, h) = (self.vertical, self.horizontal);
        let (row, column) = (tap / h.taps, tap % h.taps);
        let columns = h.inside(column);
        let from = h.input(columns.start, column);
        v.inside(row)
            .filter_map(move |r| Some((r, columns.clone(), v.input(r, row)? * h.input + from?)))
    }

    /// The panel of a row of errors, `[column][unit of images][row]`.
    fn line<'p>(
        &self,
        panel: &'p [u32],
        row: usize,
        columns: &core::ops::Range<usize>,
        size: usize,
    ) -> &'p [u32] {
        let at = row * self.g.out_width + columns.start;
        &panel[at * size..][..columns.len() * size]
    }

    /// What cancels the lanes' encoding, for each tap and row of errors.
    fn biases<E: Engine<Element = i8, Sum = i32>>(
        &self,
        panel: &[u32],
        n: usize,
        biases: &mut [i32],
    ) {
        let size = self.g.batch.div_ceil(E::DEPTH) * n;
        for tap in 0..self.g.taps() {
            for (row, columns, _) in self.rows(tap) {
                let line = self.line(panel, row, &columns, size);
                E::bias(line, n, &mut biases[(tap * self.g.out_height + row) * n..][..n]);
            }
        }
    }

    /// The sums of a block of rows and of a tile of channels, `[tap][row][channel]`.
    fn tile_of_weights<E: Engine<Element = i8, Sum = i32>>(
        &self,
        units: &[u32],
        panel: &[u32],
        biases: &[i32],
        n: usize,
        sums: &mut [i32],
    ) {
        let g = self.g;
        let quads = g.batch.div_ceil(E::DEPTH);
        let lanes = g.in_channels.next_multiple_of(E::LANES);
        for (tap, sums) in sums.chunks_exact_mut(n * E::LANES).take(g.taps()).enumerate() {
            let mut seen = false;
            for (row, columns, from) in self.rows(tap) {
                let line = self.line(panel, row, &columns, quads * n);
                let nest = Nest {
                    outer: 1,
                    outer_step: 0,
                    middle: columns.len(),
                    middle_step: (g.stride_width * quads * lanes) as isize,
                    inner: quads,
                    inner_step: lanes as isize,
                };
                assert!(line.len() == nest.steps() * n);
                assert!(nest.is_within(from * quads * lanes, E::LANES, units.len()));
                let bias = &biases[(tap * g.out_height + row) * n..][..n];
                // SAFETY: the assertions give the operands their lengths; sums are of `n` rows.
                unsafe {
                    E::tile(
                        n,
                        line.as_ptr(),
                        units[from * quads * lanes..].as_ptr(),
                        &nest,
                        bias.as_ptr(),
                        seen,
                        sums.as_mut_ptr(),
                        E::LANES,
                    );
                }
                seen = true;
            }
            if !seen {
                sums.fill(0);
            }
        }
    }
}
