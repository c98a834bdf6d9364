//! Products of bytes whose groups read a single channel, by units of neighbouring taps: a plane of bytes becomes units, of which a tile
//! takes as many lanes as follow each other, whatever row they are of. Planes of several images lie one below the other, so that small
//! ones fill tiles, too; what lies between outputs is computed and dropped.

use core::ops::Range;

use super::engine::{Engine, Nest, Panel, Side};
use super::geometry::ConvGeometry;
use super::scratch::{Scratch, items_bytes, words_bytes};

/// Elements of the planes that are laid out at once, if one image has fewer.
const ELEMENTS: usize = 4096;

/// Most columns of a window.
const MOST_COLUMNS: usize = 64;

/// One direction: places of a plane's elements, and of windows and taps on them.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// Elements of the source.
    source: usize,
    /// Places from one element to the next.
    step: usize,
    /// Places ahead of the first, which hold zeros.
    lead: usize,
    /// Every how many places a window begins: as many planes of residues there are.
    residues: usize,
    /// Taps.
    taps: usize,
    /// Places between taps.
    dilation: usize,
    /// Windows.
    windows: usize,
    /// Places of a plane, of one residue.
    places: usize,
}

impl Axis {
    /// `None` where windows lie in more padding than they have taps, or taps and windows both leave places out.
    fn new(
        [source, step, residues]: [usize; 3],
        lead: usize,
        [taps, dilation]: [usize; 2],
        windows: usize,
    ) -> Option<Axis> {
        if source == 0 || windows == 0 || taps == 0 || residues > 1 && dilation > 1 {
            return None;
        }
        let reach = (taps - 1) * dilation;
        let places = if residues > 1 {
            windows + reach / residues
        } else {
            // Rows share what padding is between them: what one needs behind its last element lies ahead of the next one's first.
            let extent = (source - 1) * step + 1;
            let trail = (windows + reach).saturating_sub(lead + extent);
            extent + lead.max(trail)
        };
        let fits = places >= windows;
        fits.then_some(Axis { source, step, lead, residues, taps, dilation, windows, places })
    }

    /// Taps of a residue.
    const fn taps_of(&self, residue: usize) -> usize {
        (self.taps.saturating_sub(residue)).div_ceil(self.residues)
    }

    /// The places of a residue's plane that hold elements, and the first's element; the elements follow each other by
    /// [`Self::residues`], the places by [`Self::step`].
    fn held(&self, residue: usize) -> (usize, usize, usize) {
        if self.residues == 1 {
            return (self.lead, 0, self.source);
        }
        // Place p holds element p * residues + residue - lead.
        let first = self.lead.saturating_sub(residue).div_ceil(self.residues);
        let element = first * self.residues + residue - self.lead;
        let count = self.source.saturating_sub(element).div_ceil(self.residues);
        (first, element, count.min(self.places.saturating_sub(first)))
    }
}

/// How the planes of a product are laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    vertical: Axis,
    horizontal: Axis,
    /// Whether the taps are taken from the last to the first.
    flipped: bool,
    /// Images that lie one below the other.
    images: usize,
    /// Channels of the source, and of the result.
    channels: [usize; 2],
}

impl Units {
    /// Of `y = conv(x, w)`; `None` of shapes that it does not have.
    pub(crate) fn forward(g: &ConvGeometry) -> Option<Units> {
        let vertical = Axis::new(
            [g.in_height, 1, g.stride_height],
            g.pad_top,
            [g.kernel_height, g.dilation_height],
            g.out_height,
        )?;
        let horizontal = Axis::new(
            [g.in_width, 1, g.stride_width],
            g.pad_left,
            [g.kernel_width, g.dilation_width],
            g.out_width,
        )?;
        Units::new(g, vertical, horizontal, false)
    }

    /// Of the gradient of the input: errors stand as far apart as their windows, the taps are turned around.
    pub(crate) fn input_gradient(g: &ConvGeometry) -> Option<Units> {
        if g.group_out_channels() != 1 {
            return None;
        }
        let lead =
            |taps: usize, dilation: usize, pad: usize| ((taps - 1) * dilation).checked_sub(pad);
        let vertical = Axis::new(
            [g.out_height, g.stride_height, 1],
            lead(g.kernel_height, g.dilation_height, g.pad_top)?,
            [g.kernel_height, g.dilation_height],
            g.in_height,
        )?;
        let horizontal = Axis::new(
            [g.out_width, g.stride_width, 1],
            lead(g.kernel_width, g.dilation_width, g.pad_left)?,
            [g.kernel_width, g.dilation_width],
            g.in_width,
        )?;
        Units::new(g, vertical, horizontal, true)
    }

    fn new(g: &ConvGeometry, vertical: Axis, horizontal: Axis, flipped: bool) -> Option<Units> {
        let images = (ELEMENTS / (vertical.places * horizontal.places)).clamp(1, g.batch.max(1));
        let channels =
            if flipped { [g.out_channels, g.in_channels] } else { [g.in_channels, g.out_channels] };
        (g.kernel_width <= MOST_COLUMNS).then_some(Units {
            vertical,
            horizontal,
            flipped,
            images,
            channels,
        })
    }

    /// Places of one image.
    const fn image(&self) -> usize {
        self.vertical.places * self.horizontal.places
    }

    const fn residues(&self) -> usize {
        self.vertical.residues * self.horizontal.residues
    }

    /// Places from the first window of so many images to behind the last.
    const fn span(&self, images: usize) -> usize {
        ((images - 1) * self.vertical.places + self.vertical.windows - 1) * self.horizontal.places
            + self.horizontal.windows
    }

    /// Places from a window's first tap to its last.
    const fn reach(&self) -> usize {
        let vertical = (self.vertical.taps - 1) * self.vertical.dilation;
        let horizontal = (self.horizontal.taps - 1) * self.horizontal.dilation;
        vertical * self.horizontal.places + horizontal
    }

    /// Places of a plane of bytes, so that vectors of `lanes` may read from any window's tap.
    const fn bytes(&self, lanes: usize) -> usize {
        let span = self.span(self.images).next_multiple_of(lanes) + self.reach() + lanes;
        let images = self.images * self.image();
        if span > images { span } else { images }
    }

    /// Lays out the planes of one channel of images from `x`, which has them `stride` apart; `planes` holds zeros where nothing was laid.
    #[inline(always)]
    fn lay(&self, x: &[i8], stride: usize, images: usize, planes: &mut [i8], size: usize) {
        let (v, h) = (&self.vertical, &self.horizontal);
        for residue in 0..self.residues() {
            let (row, first, rows) = v.held(residue / h.residues);
            let (column, from, columns) = h.held(residue % h.residues);
            let plane = &mut planes[residue * size..][..size];
            for image in 0..images {
                let x = &x[image * stride..][..v.source * h.source];
                for r in 0..rows {
                    let x = &x[(first + r * v.residues) * h.source..][..h.source];
                    let at = (image * v.places + row + r * v.step) * h.places + column;
                    if h.residues == 1 && h.step == 1 {
                        copy(x, &mut plane[at..][..columns]);
                    } else if columns > 0 {
                        let to = plane[at..][..(columns - 1) * h.step + 1].iter_mut();
                        let x = x[from..].iter().step_by(h.residues);
                        to.step_by(h.step).zip(x).for_each(|(to, &x)| *to = x);
                    }
                }
            }
        }
    }

    /// Bytes of working memory of [`Self::run`].
    pub(crate) fn run_bytes<E: Engine>(&self) -> usize {
        let size = self.bytes(E::LANES);
        Scratch::LOSS
            + items_bytes::<i8>(self.residues() * (size + self.tail::<E>()))
            + words_bytes(self.residues() * size)
            + words_bytes(self.span(self.images).next_multiple_of(E::LANES))
            + words_bytes(self.vertical.taps * self.horizontal.taps)
            + words_bytes(self.residues())
    }

    /// Bytes that the last units reach beyond their plane.
    const fn tail<E: Engine>(&self) -> usize {
        (E::DEPTH - 1) * self.horizontal.dilation
    }

    /// The planes of the result from number `first` on, as many as there are.
    pub(crate) fn run<E: Engine<Element = i8, Sum = i32>>(
        &self,
        x: &[i8],
        w: &[i8],
        first: usize,
        out: &mut [i32],
        scratch: &mut [u8],
    ) {
        let (v, h) = (&self.vertical, &self.horizontal);
        let plane = v.windows * h.windows;
        let [sources, channels] = self.channels;
        let multiplier = channels / sources;
        let (size, tail) = (self.bytes(E::LANES), self.tail::<E>());
        let mut scratch = Scratch::new(scratch);
        let bytes = scratch.items::<i8>(self.residues() * (size + tail));
        bytes.fill(0);
        let units = scratch.units(self.residues() * size);
        let sums = scratch.sums::<i32>(self.span(self.images).next_multiple_of(E::LANES));
        let panel = scratch.units(v.taps * h.taps);
        let bias = scratch.sums::<i32>(self.residues());
        let source = v.source * h.source;
        let planes = out.len() / plane;
        // Whole images are taken channel by channel, what else there is plane by plane.
        let whole = first.is_multiple_of(channels) && planes.is_multiple_of(channels);
        let stack = if whole { self.images } else { 1 };
        let images = if whole { planes / channels } else { planes };
        let mut done = 0;
        while done < images {
            let count = stack.min(images - done);
            let (image, range) = if whole {
                (first / channels + done, 0..channels)
            } else {
                let at = first + done;
                (at / channels, at % channels..at % channels + 1)
            };
            let begin = range.start;
            for channel in range {
                if channel == begin || channel % multiplier == 0 {
                    let from = (image * sources + channel / multiplier) * source;
                    self.lay(&x[from..], sources * source, count, bytes, size + tail);
                    for residue in 0..self.residues() {
                        let columns = h.taps_of(residue % h.residues);
                        E::interleave(
                            Side::Lanes,
                            &bytes[residue * (size + tail)..][..size + tail],
                            h.dilation,
                            columns.clamp(1, E::DEPTH),
                            &mut units[residue * size..][..size],
                        );
                    }
                }
                let w = &w[channel * v.taps * h.taps..][..v.taps * h.taps];
                self.pack::<E>(w, panel, bias);
                self.tiles::<E>(
                    units,
                    size,
                    panel,
                    bias,
                    &mut sums[..self.span(count).next_multiple_of(E::LANES)],
                );
                for image in 0..count {
                    let at = if whole {
                        ((done + image) * channels + channel) * plane
                    } else {
                        done * plane
                    };
                    let rows = out[at..][..plane].chunks_exact_mut(h.windows);
                    let sums = &sums[image * self.image()..];
                    for (row, out) in rows.enumerate() {
                        copy(&sums[row * h.places..][..h.windows], out);
                    }
                }
            }
            done += count;
        }
    }

    /// The residues that have taps, with where each one's units begin in the panel, rows of taps, and units of a row.
    fn parts<E: Engine>(&self) -> impl Iterator<Item = (usize, Range<usize>, usize, usize)> {
        let (v, h) = (self.vertical, self.horizontal);
        let mut at = 0;
        (0..self.residues()).filter_map(move |residue| {
            let rows = v.taps_of(residue / h.residues);
            let columns = h.taps_of(residue % h.residues).div_ceil(E::DEPTH);
            let range = at..at + rows * columns;
            at = range.end;
            (!range.is_empty()).then_some((residue, range, rows, columns))
        })
    }

    /// One channel's taps as units, residue by residue, and what cancels the lanes' encoding.
    fn pack<E: Engine<Element = i8, Sum = i32>>(
        &self,
        w: &[i8],
        panel: &mut [u32],
        bias: &mut [i32],
    ) {
        let (v, h) = (&self.vertical, &self.horizontal);
        for (residue, range, _, columns) in self.parts::<E>() {
            let units = panel[range.clone()].chunks_exact_mut(columns);
            let rows = (residue / h.residues..v.taps).step_by(v.residues);
            for (row, units) in rows.zip(units) {
                let mut line = [0i8; MOST_COLUMNS];
                let mut count = 0;
                for column in (residue % h.residues..h.taps).step_by(h.residues) {
                    let tap = row * h.taps + column;
                    line[count] = w[if self.flipped { w.len() - 1 - tap } else { tap }];
                    count += 1;
                }
                E::widen(Side::Rows, &line[..count], units);
            }
            E::bias(&panel[range], 1, &mut bias[residue..=residue]);
        }
    }

    fn tiles<E: Engine<Element = i8, Sum = i32>>(
        &self,
        units: &[u32],
        size: usize,
        panel: &[u32],
        bias: &[i32],
        sums: &mut [i32],
    ) {
        let (v, h) = (&self.vertical, &self.horizontal);
        for (number, (residue, range, rows, columns)) in self.parts::<E>().enumerate() {
            let row = if v.residues == 1 { v.dilation * h.places } else { h.places };
            let nest = Nest {
                outer: 1,
                outer_step: 0,
                middle: rows,
                middle_step: row as isize,
                inner: columns,
                inner_step: (E::DEPTH * h.dilation) as isize,
                panel: Panel::Whole,
            };
            let (units, panel) = (&units[residue * size..][..size], &panel[range]);
            assert!(panel.len() == nest.steps() && sums.len().is_multiple_of(E::LANES));
            assert!(nest.is_within(sums.len() - E::LANES, E::LANES, size));
            for (at, sums) in (0..).step_by(E::LANES).zip(sums.chunks_exact_mut(E::LANES)) {
                // SAFETY: the assertions give the panel its length, and the last tile's units lie within the plane; a tile of one row
                // writes as many sums as it has lanes.
                unsafe {
                    E::tile(
                        1,
                        panel.as_ptr(),
                        units[at..].as_ptr(),
                        &nest,
                        &raw const bias[residue],
                        number > 0,
                        sums.as_mut_ptr(),
                        E::LANES,
                    );
                }
            }
        }
    }

    /// Bytes of working memory of [`Self::weight_gradient`].
    pub(crate) const fn gradient_bytes(&self) -> usize {
        let size = self.bytes(1);
        Scratch::LOSS
            + items_bytes::<i8>(self.residues() * size)
            + items_bytes::<i8>(self.images * self.image())
    }

    /// `dw` of the channels of the result from number `first` on: each tap's products of errors with what the tap reads of them.
    #[inline(always)]
    pub(crate) fn weight_gradient(
        &self,
        batch: usize,
        x: &[i8],
        dy: &[i8],
        first: usize,
        dw: &mut [i32],
        scratch: &mut [u8],
    ) {
        let (v, h) = (&self.vertical, &self.horizontal);
        let [sources, channels] = self.channels;
        let multiplier = channels / sources;
        let size = self.bytes(1);
        let mut scratch = Scratch::new(scratch);
        let bytes = scratch.items::<i8>(self.residues() * size);
        let errors = scratch.items::<i8>(self.images * self.image());
        bytes.fill(0);
        errors.fill(0);
        dw.fill(0);
        let (source, plane) = (v.source * h.source, v.windows * h.windows);
        for (channel, dw) in (first..).zip(dw.chunks_exact_mut(v.taps * h.taps)) {
            for image in (0..batch).step_by(self.images) {
                let count = self.images.min(batch - image);
                let from = (image * sources + channel / multiplier) * source;
                self.lay(&x[from..], sources * source, count, bytes, size);
                for i in 0..count {
                    let dy = &dy[((image + i) * channels + channel) * plane..][..plane];
                    for (row, dy) in dy.chunks_exact(h.windows).enumerate() {
                        let at = (i * v.places + row) * h.places;
                        copy(dy, &mut errors[at..][..h.windows]);
                    }
                }
                let errors = &errors[..self.span(count)];
                for (tap, sum) in dw.iter_mut().enumerate() {
                    let (row, column) = (tap / h.taps * v.dilation, tap % h.taps * h.dilation);
                    let residue = row % v.residues * h.residues + column % h.residues;
                    let shift = row / v.residues * h.places + column / h.residues;
                    let source = &bytes[residue * size + shift..][..errors.len()];
                    *sum = sum.wrapping_add(dot(errors, source));
                }
            }
        }
    }
}

/// Copies a row, which is short: by pieces of a fixed length, of which the last overlaps the one before it.
#[inline(always)]
fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    #[inline(always)]
    fn by<const N: usize, T: Copy>(from: &[T], to: &mut [T]) {
        let last = from.len() - N;
        for at in (0..last).step_by(N).chain([last]) {
            let piece: [T; N] = from[at..][..N].try_into().expect("so many elements");
            to[at..][..N].copy_from_slice(&piece);
        }
    }
    match from.len() {
        16.. => by::<16, T>(from, to),
        8.. => by::<8, T>(from, to),
        4.. => by::<4, T>(from, to),
        2.. => by::<2, T>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// The sum of products, modulo 2^32.
#[inline(always)]
fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).fold(0i32, |sum, (&a, &b)| sum.wrapping_add(i32::from(a) * i32::from(b)))
}
