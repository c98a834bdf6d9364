//! A product as sets of vectors: which tensors they are made of, and where they lie in the working memory.

use trainc_c::text::Scratch;
use trainc_ir::product::{Convolution, Pass};

use super::added::Added;
use super::phases::Phase;
use super::shifted::Shifted;
use super::strips::Strips;

/// Most cores that multiply side by side.
pub(super) const CORES: usize = 8;

/// A number where lines are divided among cores, and where one core has them all.
pub(crate) fn divided(parts: usize, whole: usize) -> String {
    match parts == whole {
        true => whole.to_string(),
        false => format!("TRAINC_DIVIDED({parts}, {whole})"),
    }
}

/// Parts, as long as one another and at least `least`, of so many elements, which cores share best; `part` has the cycles of a part
/// and of an element.
pub(crate) fn even_parts(count: usize, least: usize, [part, element]: [usize; 2]) -> Option<usize> {
    let slowest = |parts: usize| parts.div_ceil(CORES) * (part + count / parts * element);
    let even =
        (1..=16 * CORES).filter(|&parts| count.is_multiple_of(parts) && count / parts >= least);
    even.min_by_key(|&parts| slowest(parts))
}

/// How many pieces of `size` each cores share best, where there are `count` of them: the fewest, unless more save some
/// hundredths.
pub(super) fn even_pieces(count: usize, size: usize) -> usize {
    // In thousandths of a piece.
    let longest = |pieces: usize| (count * pieces).div_ceil(CORES) * 1000 / pieces;
    let mut best = 1;
    for pieces in (2..=CORES).filter(|&pieces| size.is_multiple_of(pieces)) {
        if longest(pieces) * 100 < longest(best) * 97 {
            best = pieces;
        }
    }
    best
}

/// Cycles of a tile of four rows beside its products, and of a word of each of its vectors; of two rows, and of one.
const TILE: u64 = 68;
const WORDS: u64 = 24;
const TILE_OF_TWO: u64 = 90;
const WORDS_OF_TWO: u64 = 14;
const TILE_OF_ONE: u64 = 70;
const WORDS_OF_ONE: u64 = 9;
/// Cycles of four lanes beside their tiles and packing.
const LANES: u64 = 60;
/// Of four lanes that are columns of eight elements, and of a pair of rows by these.
const EIGHTS: u64 = 45;
const PAIR_BY_EIGHTS: u64 = 44;
/// Cycles for a byte of a matrix that is packed, and for one of weights' channels.
const BYTE: u64 = 2;
const CHANNEL: u64 = 11;
/// Cycles of a window, of a piece of it, of a piece's words, and of a byte alone.
const WINDOW: u64 = 60;
const PIECE: u64 = 6;
const LONG_PIECE: u64 = 30;
const SINGLE: u64 = 8;
/// Of every other byte of at least seven.
const APART: u64 = 2;
/// Cycles of a row that is copied to where it has room.
const LINE: u64 = 40;

/// An estimate of the cycles that packing a set takes.
fn set_cycles(set: &Set, windows: Option<&Windows>) -> u64 {
    let [count, length] = [set.count, set.length].map(|n| n as u64);
    match (set.kind, windows) {
        (Kind::InPlace, _) => 0,
        (Kind::Channels, _) => count * length * CHANNEL,
        (Kind::Windows, Some(w)) => {
            let [planes, rows, bytes] = w.counts.map(|n| n as u64);
            let piece = match w.strides[2] {
                1 if bytes < 8 => PIECE + bytes / 2,
                1 => PIECE + bytes,
                2 if bytes >= 4 => PIECE + APART * bytes,
                _ => SINGLE * bytes,
            };
            let calls = if w.strides[2] == 1 && bytes < 8 { 0 } else { planes * LONG_PIECE };
            count * (WINDOW + calls + planes * rows * piece)
        }
        _ => count * length * BYTE,
    }
}

/// What the vectors of a set are; `enum trainc_xpulp_kind` of the support header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Rows that are whole words.
    InPlace,
    Rows,
    Columns,
    Windows,
    Channels,
}

impl Kind {
    /// The name in C.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::InPlace => "TRAINC_XPULP_IN_PLACE",
            Kind::Rows => "TRAINC_XPULP_ROWS",
            Kind::Columns => "TRAINC_XPULP_COLUMNS",
            Kind::Windows => "TRAINC_XPULP_WINDOWS",
            Kind::Channels => "TRAINC_XPULP_CHANNELS",
        }
    }
}

/// The taps of weights that count, in reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taps {
    /// Elements of a channel.
    pub(crate) channel: usize,
    /// The first tap.
    pub(crate) first: usize,
    /// Rows and columns of them, and elements between them.
    pub(crate) counts: [usize; 2],
    pub(crate) strides: [usize; 2],
}

impl Taps {
    /// All taps of a channel.
    fn all(taps: [usize; 2]) -> Taps {
        Taps { channel: taps[0] * taps[1], first: 0, counts: taps, strides: [taps[1], 1] }
    }
}

/// A set of vectors of one tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Set {
    pub(crate) kind: Kind,
    /// The operand of the kernel.
    pub(crate) operand: usize,
    /// Vectors and their elements.
    pub(crate) count: usize,
    pub(crate) length: usize,
    /// Bytes between rows of a matrix, or between output channels of weights.
    pub(crate) stride: usize,
    /// Of channels of weights.
    pub(crate) taps: Taps,
    /// Bytes from one group to the next, and from one image to the next.
    pub(crate) group_step: usize,
    pub(crate) image_step: usize,
}

impl Set {
    fn new(kind: Kind, operand: usize, count: usize, length: usize, stride: usize) -> Set {
        let whole = kind == Kind::Rows
            && length.is_multiple_of(4)
            && count.is_multiple_of(4)
            && stride == length;
        let kind = if whole { Kind::InPlace } else { kind };
        Set {
            kind,
            operand,
            count,
            length,
            stride,
            taps: Taps::all([1, 1]),
            group_step: 0,
            image_step: 0,
        }
    }

    /// Of rows, the last tile has as many as there are; but three are filled up.
    fn as_rows(self) -> Set {
        let whole = self.kind == Kind::Rows
            && self.length.is_multiple_of(4)
            && self.count % 4 != 3
            && self.stride == self.length;
        Set { kind: if whole { Kind::InPlace } else { self.kind }, ..self }
    }

    fn steps(self, group_step: usize, image_step: usize) -> Set {
        let aligned = (group_step | image_step).is_multiple_of(4);
        let kind = if self.kind == Kind::InPlace && !aligned { Kind::Rows } else { self.kind };
        Set { kind, group_step, image_step, ..self }
    }

    /// Tiles of four vectors.
    pub(crate) fn tiles(&self) -> usize {
        self.count.div_ceil(4)
    }

    /// Bytes of a vector in words.
    pub(crate) fn bytes(&self) -> usize {
        self.length.next_multiple_of(4)
    }
}

/// Vectors that are pieces of a volume; `struct trainc_xpulp_windows` of the support header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Windows {
    pub(crate) vectors: [usize; 2],
    pub(crate) vector_strides: [usize; 3],
    pub(crate) counts: [usize; 3],
    pub(crate) strides: [usize; 3],
}

/// A volume with room of zeros around and between the elements of its planes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Volume {
    pub(crate) planes: usize,
    /// Of the operand.
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// With the room.
    pub(crate) rows: usize,
    pub(crate) row: usize,
    pub(crate) steps: [usize; 2],
    pub(crate) top: usize,
    pub(crate) left: usize,
}

impl Volume {
    fn is_plain(&self) -> bool {
        // Steps apart need room, but for a single row or column.
        self.rows == self.height && self.row == self.width && self.top == 0 && self.left == 0
    }

    /// Bytes of a plane.
    pub(crate) fn plane(&self) -> usize {
        self.rows * self.row
    }
}

/// A product: for each group and each block (an image, or all of them), rows by lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) groups: usize,
    pub(crate) blocks: usize,
    /// Whether blocks add up to one matrix of sums; else each has its own.
    pub(crate) adds: bool,
    pub(crate) rows: Set,
    /// Whether rows are the same for all blocks.
    pub(crate) rows_stay: bool,
    pub(crate) lanes: Set,
    pub(crate) windows: Option<Windows>,
    /// Where windows are of a copy with room.
    pub(crate) volume: Option<Volume>,
    /// Where windows are of strips instead.
    pub(crate) strips: Option<Strips>,
    /// Where windows are of shifted copies instead.
    pub(crate) shifted: Option<Shifted>,
    /// Where rows of weights are added up instead.
    pub(crate) added: Option<Added>,
    /// Bytes of the volume before the first window.
    pub(crate) start: usize,
    /// Places in the working memory.
    pub(crate) sums: usize,
    pub(crate) bits: usize,
    pub(crate) packed_rows: usize,
    pub(crate) packed_lanes: usize,
    pub(crate) placed: usize,
    pub(crate) bytes: usize,
}

impl Layout {
    /// Plans a product.
    ///
    /// # Errors
    /// If its sizes do not suit.
    pub(crate) fn of(c: &Convolution) -> Result<Layout, String> {
        let [layout] = Layout::all([Layout::sets(c, Taps::all(c.taps))])?;
        Ok(layout)
    }

    /// Plans the phases of a product.
    ///
    /// # Errors
    /// If their sizes do not suit.
    pub(crate) fn of_phases(phases: &[Phase]) -> Result<Vec<Layout>, String> {
        let sets: Vec<Layout> =
            phases.iter().map(|phase| Layout::sets(&phase.convolution, phase.taps)).collect();
        let shared = Layout::sharing(phases, &sets).map(Layout::all);
        let plain = Layout::all(sets)?;
        let Some(Ok(shared)) = shared else { return Ok(plain) };
        let cycles = |layouts: &[Layout]| layouts.iter().map(Layout::cycles).sum::<u64>();
        let room = |layouts: &[Layout]| layouts.iter().map(|layout| layout.bytes).max();
        // A quarter more room.
        let fits = room(&shared).map(|bytes| 4 * bytes) <= room(&plain).map(|bytes| 5 * bytes);
        Ok(if fits && cycles(&shared) < cycles(&plain) { shared } else { plain })
    }

    /// All phases by strips that share what they can; `None` where they do not.
    fn sharing(phases: &[Phase], sets: &[Layout]) -> Option<Vec<Layout>> {
        let by_strips = |(phase, layout): (&Phase, &Layout)| {
            let strips = Some(Strips::by_rows(&phase.convolution, phase.taps)?);
            Some(Layout { strips, ..layout.clone() })
        };
        let mut layouts: Vec<Layout> =
            phases.iter().zip(sets).map(by_strips).collect::<Option<_>>()?;
        let images = layouts.first().filter(|layout| layout.groups == 1)?.blocks;
        let mut strips: Vec<&mut Strips> =
            layouts.iter_mut().filter_map(|layout| layout.strips.as_mut()).collect();
        Strips::share(&mut strips, images).then_some(layouts)
    }

    /// Gives each its sums, and all of them the same place for what is packed.
    fn all<T: AsMut<[Layout]>>(mut layouts: T) -> Result<T, String> {
        let mut scratch = Scratch::default();
        for layout in layouts.as_mut() {
            layout.lay_out_sums(&mut scratch);
        }
        for layout in layouts.as_mut() {
            layout.lay_out(scratch.clone());
            // Offsets are 32-bit.
            if layout.bytes >= 1 << 30 {
                return Err("its working memory takes 1 GiB or more".into());
            }
        }
        Ok(layouts)
    }

    /// Parts of the lanes, of which each has its own room to pack in and may have a core of its own.
    pub(crate) fn parts(&self) -> usize {
        self.lanes.tiles().min(CORES)
    }

    /// Pieces of the rows that cores share, where there are less tiles of lanes than cores.
    pub(crate) fn row_pieces(&self) -> usize {
        if self.lanes.tiles() < CORES {
            even_pieces(self.lanes.tiles(), self.rows.tiles())
        } else {
            1
        }
    }

    /// Matrices of sums.
    pub(crate) fn matrices(&self) -> usize {
        if self.adds { self.groups } else { self.blocks * self.groups }
    }

    fn sets(c: &Convolution, taps_of_weights: Taps) -> Layout {
        let plain = Layout {
            groups: c.groups,
            blocks: c.images,
            adds: false,
            rows: Set::new(Kind::Rows, 0, 1, 1, 1),
            rows_stay: true,
            lanes: Set::new(Kind::Rows, 0, 1, 1, 1),
            windows: None,
            volume: None,
            strips: None,
            shifted: None,
            added: None,
            start: 0,
            sums: 0,
            bits: 0,
            packed_rows: 0,
            packed_lanes: 0,
            placed: 0,
            bytes: 0,
        };
        if is_matrix(c) {
            let added = Added::of(c);
            return Layout { blocks: 1, added, ..Layout::matrices_of(c, plain) };
        }
        let (taps, inputs, outputs) = (c.tap_count(), c.channels, c.outputs);
        let (x_image, y_image) = (c.groups * inputs * c.plane(), c.groups * outputs * c.places());
        let same = [c.height, c.width] == [c.rows, c.columns] && c.pads[..2] == [0, 0];
        let pointwise = taps == 1 && c.strides == [1, 1] && same;
        let weights = outputs * inputs * taps;
        let x_windows = |vectors, vector_strides, counts, strides| {
            Some(Windows { vectors, vector_strides, counts, strides })
        };
        // Of a gradient the second is the error.
        let [x, w] = c.operands();
        match c.pass {
            Pass::Forward => {
                let length = inputs * taps;
                let rows =
                    Set::new(Kind::Rows, w, outputs, length, length).as_rows().steps(weights, 0);
                if pointwise {
                    let lanes = Set::new(Kind::Columns, x, c.places(), inputs, c.plane())
                        .steps(inputs * c.plane(), x_image);
                    return Layout { rows, lanes, ..plain };
                }
                let volume = padded(c);
                let (row, plane) = (volume.row, volume.plane());
                let lanes = Set::new(Kind::Windows, x, c.places(), length, 0)
                    .steps(inputs * c.plane(), x_image);
                let windows = x_windows(
                    [c.rows, c.columns],
                    [0, c.strides[0] * row, c.strides[1]],
                    [inputs, c.taps[0], c.taps[1]],
                    [plane, c.dilations[0] * row, c.dilations[1]],
                );
                Layout { rows, lanes, windows, volume: Some(volume), ..plain }
                    .simplified()
                    .or_strips(c, taps_of_weights)
            }
            Pass::Error => {
                let length = outputs * taps;
                let channel = taps_of_weights.channel;
                let mut rows = Set::new(Kind::Channels, w, inputs, length, inputs * channel)
                    .steps(outputs * inputs * channel, 0);
                rows.taps = taps_of_weights;
                if channel == 1 {
                    // Weights of a single tap are a matrix.
                    rows = Set::new(Kind::Columns, w, inputs, length, inputs)
                        .steps(outputs * inputs, 0);
                }
                if pointwise {
                    let lanes = Set::new(Kind::Columns, x, c.plane(), outputs, c.places())
                        .steps(outputs * c.places(), y_image);
                    return Layout { rows, lanes, ..plain };
                }
                let (volume, start) = spread(c);
                let (row, plane) = (volume.row, volume.plane());
                let lanes = Set::new(Kind::Windows, x, c.plane(), length, 0)
                    .steps(outputs * c.places(), y_image);
                let windows = x_windows(
                    [c.height, c.width],
                    [0, row, 1],
                    [outputs, c.taps[0], c.taps[1]],
                    [plane, c.dilations[0] * row, c.dilations[1]],
                );
                let volume = Some(volume);
                Layout { rows, lanes, windows, volume, start, ..plain }
                    .simplified()
                    .or_strips(c, taps_of_weights)
            }
            Pass::Gradient => {
                let length = c.places();
                let rows = Set::new(Kind::Rows, w, outputs, length, length)
                    .as_rows()
                    .steps(outputs * length, y_image);
                let adding = Layout { adds: true, rows_stay: false, rows, ..plain };
                if pointwise {
                    let lanes = Set::new(Kind::Rows, x, inputs, length, length)
                        .steps(inputs * c.plane(), x_image);
                    return Layout { lanes, ..adding };
                }
                let volume = padded(c);
                let (row, plane) = (volume.row, volume.plane());
                let lanes = Set::new(Kind::Windows, x, inputs * taps, length, 0)
                    .steps(inputs * c.plane(), x_image);
                let windows = x_windows(
                    c.taps,
                    [plane, c.dilations[0] * row, c.dilations[1]],
                    [1, c.rows, c.columns],
                    [0, c.strides[0] * row, c.strides[1]],
                );
                Layout { lanes, windows, volume: Some(volume), ..adding }.simplified().or_shifted(c)
            }
        }
    }

    /// `x` `[images, channels]`, `w` `[outputs, channels]`, `y` `[images, outputs]`: y = x w', dx = dy w, dw = dy' x.
    fn matrices_of(c: &Convolution, plain: Layout) -> Layout {
        let (images, inputs, outputs) = (c.images, c.channels, c.outputs);
        let (rows, lanes) = match c.pass {
            Pass::Forward => (
                Set::new(Kind::Rows, 0, images, inputs, inputs).as_rows(),
                Set::new(Kind::Rows, 1, outputs, inputs, inputs),
            ),
            Pass::Error => (
                Set::new(Kind::Rows, 0, images, outputs, outputs).as_rows(),
                Set::new(Kind::Columns, 1, inputs, outputs, inputs),
            ),
            Pass::Gradient => {
                let [x, dy] = c.operands();
                (
                    Set::new(Kind::Columns, dy, outputs, images, outputs),
                    Set::new(Kind::Columns, x, inputs, images, inputs),
                )
            }
        };
        Layout { rows, lanes, ..plain }
    }

    /// Without a copy of a volume that has no room.
    fn simplified(mut self) -> Layout {
        self.volume = self.volume.filter(|volume| !volume.is_plain());
        self
    }

    /// By strips, where that takes less.
    fn or_strips(self, c: &Convolution, weights: Taps) -> Layout {
        let strips = Layout { strips: Strips::of(c, weights), ..self.clone() };
        if strips.strips.is_some() && strips.cycles() < self.cycles() { strips } else { self }
    }

    /// By shifted copies, where that takes less and not much more room.
    fn or_shifted(self, c: &Convolution) -> Layout {
        let Some(shifted) = Shifted::of(c) else { return self };
        let placed = self.volume.map_or(0, |volume| volume.planes * volume.plane());
        let rows =
            if self.rows.kind == Kind::InPlace { 0 } else { self.rows.bytes() * self.rows.count };
        let room = placed + self.parts() * 4 * self.lanes.bytes() + rows;
        let sums = self.matrices() * self.sum_rows() * self.lanes.tiles() * 16;
        // Half as much more for what is packed, or a quarter of all.
        let fits = |shifted: &Shifted| {
            2 * shifted.room() <= 3 * room || 4 * (shifted.room() + sums) <= 5 * (room + sums)
        };
        let Some(shifted) = shifted.in_portions().into_iter().find(fits) else { return self };
        let shifted = Layout { shifted: Some(shifted), ..self.clone() };
        if shifted.cycles() < self.cycles() { shifted } else { self }
    }

    /// An estimate of the cycles.
    pub(crate) fn cycles(&self) -> u64 {
        if let Some(shifted) = &self.shifted {
            return (self.groups * self.blocks) as u64 * shifted.cycles();
        }
        if let Some(added) = &self.added {
            return added.cycles();
        }
        if let Some(strips) = &self.strips {
            let (weights, image) = strips.cycles();
            return self.groups as u64 * (weights + self.blocks as u64 * image);
        }
        let blocks = self.blocks as u64;
        let rows = set_cycles(&self.rows, None) * if self.rows_stay { 1 } else { blocks };
        let words = (self.lanes.bytes() / 4) as u64;
        // Of the last rows, one or two have a tile of their own.
        let last = match self.rows.count % 4 {
            0 => 0,
            1 => TILE_OF_ONE + WORDS_OF_ONE * words,
            2 => TILE_OF_TWO + WORDS_OF_TWO * words,
            _ => TILE + WORDS * words,
        };
        let column = (self.rows.count / 4) as u64 * (TILE + WORDS * words) + last;
        let placed = self.volume.map_or(0, |volume| {
            let (read, all) = (volume.height * volume.width, volume.plane());
            volume.planes as u64 * (volume.height as u64 * LINE + (read + all) as u64)
        });
        let products = if self.has_eights() {
            let pairs = (self.rows.count / 2) as u64;
            self.lanes.tiles() as u64 * (EIGHTS + pairs * PAIR_BY_EIGHTS)
        } else {
            let lanes = set_cycles(&self.lanes, self.windows.as_ref());
            self.lanes.tiles() as u64 * (LANES + column) + lanes
        };
        let block = products + placed;
        self.groups as u64 * (blocks * block + rows)
    }

    /// Whether lanes are columns of eight elements, whose words stay where they are for all rows.
    fn has_eights(&self) -> bool {
        let adds = self.adds && self.blocks > 1;
        self.lanes.kind == Kind::Columns
            && self.lanes.length == 8
            && self.rows.count.is_multiple_of(2)
            && !adds
    }

    /// Rows of a matrix of sums: of the last ones, three fill a tile, one or two have a tile of their own.
    pub(crate) fn sum_rows(&self) -> usize {
        self.rows.count + usize::from(self.rows.count % 4 == 3)
    }

    fn lay_out_sums(&mut self, scratch: &mut Scratch) {
        self.sums = scratch.take(self.matrices() * self.sum_rows() * self.lanes.tiles() * 16);
        // Rounding reads a word behind the sums.
        self.bits = scratch.take(self.groups * self.widths() * 4);
    }

    /// Widths of a group's sums.
    pub(crate) fn widths(&self) -> usize {
        match (&self.strips, &self.added, &self.shifted) {
            (Some(strips), _, _) => strips.widths(),
            (None, Some(added), _) => added.parts(),
            (None, None, Some(shifted)) => shifted.widths(),
            (None, None, None) => self.lanes.tiles() * self.row_pieces(),
        }
    }

    fn lay_out(&mut self, mut scratch: Scratch) {
        if let Some(added) = &mut self.added {
            added.lay_out(&mut scratch);
            self.bytes = scratch.bytes();
            return;
        }
        if let Some(strips) = &mut self.strips {
            strips.lay_out(&mut scratch, self.groups);
            self.bytes = scratch.bytes();
            return;
        }
        if let Some(shifted) = &mut self.shifted {
            shifted.lay_out(&mut scratch);
            self.bytes = scratch.bytes();
            return;
        }
        let row_tiles = self.rows.tiles();
        if self.rows.kind != Kind::InPlace {
            let all = if self.rows_stay { self.groups } else { 1 };
            self.packed_rows = scratch.take(all * row_tiles * 4 * self.rows.bytes());
        }
        if self.lanes.kind != Kind::InPlace {
            self.packed_lanes = scratch.take(self.parts() * 4 * self.lanes.bytes());
        }
        if let Some(volume) = &self.volume {
            self.placed = scratch.take(volume.planes * volume.plane());
        }
        self.bytes = scratch.bytes();
    }
}

/// Whether it is a product of single matrices.
pub(super) fn is_matrix(c: &Convolution) -> bool {
    c.groups == 1 && c.tap_count() == 1 && c.plane() == 1 && c.places() == 1
}

/// A group of `x` with its padding.
fn padded(c: &Convolution) -> Volume {
    // Of the padding below and on the right as much as a window meets.
    let size = |axis: usize| {
        let last = [c.rows, c.columns][axis].saturating_sub(1) * c.strides[axis];
        let reach = last + (c.taps[axis] - 1) * c.dilations[axis] + 1;
        reach.max(c.pads[axis] + [c.height, c.width][axis])
    };
    Volume {
        planes: c.channels,
        height: c.height,
        width: c.width,
        rows: size(0),
        row: size(1),
        steps: [1, 1],
        top: c.pads[0],
        left: c.pads[1],
    }
}

/// A group of `dy`, its elements as far apart as windows are, with room such that each place of `x` has a window
/// of all taps there; and where the first one starts.
fn spread(c: &Convolution) -> (Volume, usize) {
    let axis = |axis: usize| {
        let reach = (c.taps[axis] - 1) * c.dilations[axis];
        let before = reach.saturating_sub(c.pads[axis]);
        // Windows of `y` that lie in the padding alone are passed by.
        let start = c.pads[axis].saturating_sub(reach);
        let size = [c.rows, c.columns][axis];
        let all = before + (size - 1) * c.strides[axis] + 1;
        (before, start, all.max(start + [c.height, c.width][axis] + reach))
    };
    let ((top, down, rows), (left, right, row)) = (axis(0), axis(1));
    let volume = Volume {
        planes: c.outputs,
        height: c.rows,
        width: c.columns,
        rows,
        row,
        steps: c.strides,
        top,
        left,
    };
    (volume, down * row + right)
}
