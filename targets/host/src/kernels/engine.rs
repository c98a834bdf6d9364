//! What one instruction set contributes to the products: a register tile and the passes that
//! put operands into the order that the tile reads.
//!
//! Every operand is packed into *units* of four bytes. A unit holds [`Engine::DEPTH`]
//! consecutive steps of the reduction: four `i8` for dot-product instructions, two widened `i16`
//! for multiply-add pairs, one `f32`. A tile multiplies a panel of *rows* (broadcast, at most
//! [`Engine::ROWS`] wide) by a panel of *lanes* (vectors, [`Engine::LANES`] wide):
//! `c[r][l] += sum over k of rows[k][r] . lanes[k][l]`. As sums never cross lanes, an FP32 sum
//! keeps the order of its terms.

/// Which operand a packing pass fills; the two may be encoded differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Broadcast operand.
    Rows,
    /// Vector operand.
    Lanes,
}

/// Where a walk reads the panel of rows, which [`Engine::arrange`] has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panel {
    /// Straight through: the panel is this walk's.
    Whole,
    /// Inner walks of a larger walk's, which lie one behind the other there, in the order of that walk: so many steps from one outer walk
    /// to the next, and from one middle walk.
    Part { outer: usize, middle: usize },
}

/// The walk of a tile over the lanes' units: three nested counted steps, forwards or backwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nest {
    pub(crate) outer: usize,
    pub(crate) outer_step: isize,
    pub(crate) middle: usize,
    pub(crate) middle_step: isize,
    pub(crate) inner: usize,
    pub(crate) inner_step: isize,
    pub(crate) panel: Panel,
}

impl Nest {
    /// `count` steps of `step` units.
    pub(crate) const fn line(count: usize, step: usize) -> Self {
        let inner_step = step as isize;
        let panel = Panel::Whole;
        Self { outer: 1, outer_step: 0, middle: 1, middle_step: 0, inner: count, inner_step, panel }
    }

    /// The same walk, which reads all of its panel, with steps that follow each other evenly counted together.
    pub(crate) const fn merged(mut self) -> Self {
        assert!(matches!(self.panel, Panel::Whole));
        if self.middle == 1 || self.middle_step == self.inner as isize * self.inner_step {
            self.inner *= self.middle;
            self.middle = self.outer;
            self.middle_step = self.outer_step;
            self.outer = 1;
            self.outer_step = 0;
            if self.middle == 1 || self.middle_step == self.inner as isize * self.inner_step {
                self.inner *= self.middle;
                self.middle = 1;
                self.middle_step = 0;
            }
        }
        self
    }

    /// Steps of the whole walk.
    pub(crate) const fn steps(&self) -> usize {
        self.outer * self.middle * self.inner
    }

    /// Where an inner walk starts, in units.
    #[inline(always)]
    pub(crate) const fn middle_start(&self, outer: usize, middle: usize) -> isize {
        outer as isize * self.outer_step + middle as isize * self.middle_step
    }

    /// Which step of the panel an inner walk starts with.
    #[inline(always)]
    pub(crate) const fn panel_start(&self, outer: usize, middle: usize) -> usize {
        match self.panel {
            Panel::Whole => (outer * self.middle + middle) * self.inner,
            Panel::Part { outer: outer_steps, middle: middle_steps } => {
                outer * outer_steps + middle * middle_steps
            }
        }
    }

    /// Steps of a panel that it reads the last of.
    pub(crate) const fn panel_steps(&self) -> usize {
        if self.steps() == 0 {
            return 0;
        }
        self.panel_start(self.outer - 1, self.middle - 1) + self.inner
    }

    /// Whether every step of a tile of `lanes` that begins at `first` lies within `length` units.
    pub(crate) fn is_within(&self, first: usize, lanes: usize, length: usize) -> bool {
        if self.steps() == 0 {
            return true;
        }
        let [mut lowest, mut highest] = [0; 2];
        for (count, step) in [
            (self.outer, self.outer_step),
            (self.middle, self.middle_step),
            (self.inner, self.inner_step),
        ] {
            let last = (count - 1) as isize * step;
            lowest += last.min(0);
            highest += last.max(0);
        }
        let first = first as isize;
        first + lowest >= 0 && (first + highest) as usize + lanes <= length
    }
}

/// A run of consecutive lanes that are evenly spaced in the source plane.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Run {
    /// First unit in the source plane.
    pub(crate) source: usize,
    /// First lane.
    pub(crate) lane: usize,
    /// Lanes.
    pub(crate) length: usize,
}

/// Units that a gathering pass may read past the end of a run, or write past the end of a panel:
/// every packed buffer ends with this much slack.
pub(crate) const SLACK: usize = 32;

/// A running maximum of magnitudes, spread over independent lanes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Largest(pub(crate) [u32; 16]);

impl Largest {
    /// The maximum.
    pub(crate) fn value(&self) -> u32 {
        self.0.into_iter().fold(0, u32::max)
    }
}

/// Operand type.
pub(crate) trait Element:
    super::scratch::Plain + Default + Send + Sync + PartialEq + 'static
{
    /// The operands as units, where a unit is a single operand as it lies in memory.
    fn as_units(operands: &[Self]) -> Option<&[u32]>;
}

impl Element for i8 {
    #[inline(always)]
    fn as_units(_: &[Self]) -> Option<&[u32]> {
        None
    }
}

impl Element for f32 {
    #[inline(always)]
    fn as_units(operands: &[Self]) -> Option<&[u32]> {
        Some(super::scratch::words_of(operands))
    }
}

/// Accumulator type.
pub(crate) trait Sum: Copy + Default + Send + Sync + 'static {
    /// Magnitude as it is reported to the caller; 0 for FP32.
    fn magnitude(self) -> u32;
}

impl Sum for i32 {
    #[inline(always)]
    fn magnitude(self) -> u32 {
        self.unsigned_abs()
    }
}

impl Sum for f32 {
    #[inline(always)]
    fn magnitude(self) -> u32 {
        0
    }
}

/// One instruction set. The default bodies are portable; an implementation repeats them under its
/// target features or replaces them.
///
/// Implementations for an instruction set may be called only where the machine has it, which
/// [`super::path`] sees to.
pub(crate) trait Engine: 'static {
    /// Operand type.
    type Element: Element;
    /// Accumulator type.
    type Sum: Sum;
    /// Steps of the reduction in one unit.
    const DEPTH: usize;
    /// Most rows of a tile.
    const ROWS: usize;
    /// Lanes of a tile.
    const LANES: usize;
    /// The unit of zeros on the lane side.
    const LANE_ZERO: u32;
    /// Fewest rows that are worth a tile.
    const LEAST_ROWS: usize = 1;

    /// Rows of a tile but for the last, of so many.
    fn block(rows: usize) -> usize {
        rows.div_ceil(rows.div_ceil(Self::ROWS).max(1))
    }

    /// `out[i]` = the unit of `source[i]`, `source[i + stride]`, .. of `count <= DEPTH` streams,
    /// missing streams being zero.
    fn interleave(
        side: Side,
        source: &[Self::Element],
        stride: usize,
        count: usize,
        out: &mut [u32],
    );

    /// `out[i]` = the unit of `source[i * DEPTH..]`, zeros after its end.
    fn widen(side: Side, source: &[Self::Element], out: &mut [u32]);

    /// `out[c * out_stride + r] = source[r * source_stride + c]`, writing nothing else.
    fn transpose(
        source: &[u32],
        source_stride: usize,
        rows: usize,
        columns: usize,
        out: &mut [u32],
        out_stride: usize,
    ) {
        super::pack::transpose(source, source_stride, rows, columns, out, out_stride);
    }

    /// For each `offsets[k]`: fills `out[k * LANES..]` with the runs, `source[offset + run.source +
    /// i * step]`.
    fn gather(source: &[u32], offsets: &[usize], runs: &[Run], step: usize, out: &mut [u32]) {
        super::pack::gather(source, offsets, runs, step, Self::LANES, out);
    }

    /// What each accumulator of a row starts from so that the encoding of the lanes cancels, for
    /// a packed panel of `rows` rows.
    fn bias(panel: &[u32], rows: usize, bias: &mut [Self::Sum]) {
        let _ = panel;
        bias[..rows].fill(Self::Sum::default());
    }

    /// Units of the buffer that [`Self::arrange`] takes for a panel of so many units.
    fn arrangement(units: usize) -> usize {
        let _ = units;
        0
    }

    /// Puts what a call of [`Self::tile`] reads of a packed panel of `rows` rows, `[step][row]`, into the order in which it reads it: once,
    /// behind [`Self::bias`], by a nest whose counts are those of the call's, or those of the walk of which calls read a [`Panel::Part`];
    /// that one is marked so, too.
    fn arrange(panel: &mut [u32], rows: usize, nest: &Nest, buffer: &mut [u32]) {
        let _ = (panel, rows, nest, buffer);
    }

    /// Whether tiles of so many rows are worth it along such a walk; where not, vectors of another engine are shorter.
    fn suits(rows: usize, nest: &Nest) -> bool {
        let _ = (rows, nest);
        true
    }

    /// Multiplies: `c[r * c_stride + l]` for `r < rows`, `l < LANES` becomes `bias[r]` (plus what
    /// it was, where `accumulate`) plus the sums over `nest`.
    ///
    /// # Safety
    /// `rows` is in `1..=ROWS`; `a` holds `nest.panel_steps() * rows` units, which [`Self::arrange`] has seen; from `b` on, every step of
    /// `nest` has `LANES` units; `bias` holds `rows` sums; `c` holds `(rows - 1) * c_stride +
    /// LANES` sums that nothing else reads or writes.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    unsafe fn tile(
        rows: usize,
        a: *const u32,
        b: *const u32,
        nest: &Nest,
        bias: *const Self::Sum,
        accumulate: bool,
        c: *mut Self::Sum,
        c_stride: usize,
    );

    /// As [`Self::tile`], and folds the magnitudes of what becomes of `c` into `largest`.
    ///
    /// # Safety
    /// Likewise.
    #[allow(clippy::too_many_arguments, reason = "the operands of one product")]
    unsafe fn measured_tile(
        rows: usize,
        a: *const u32,
        b: *const u32,
        nest: &Nest,
        bias: *const Self::Sum,
        accumulate: bool,
        c: *mut Self::Sum,
        c_stride: usize,
        largest: &mut Largest,
    ) {
        // SAFETY: the caller's promise, by which the sums are this call's, and all written.
        let sums = unsafe {
            Self::tile(rows, a, b, nest, bias, accumulate, c, c_stride);
            core::slice::from_raw_parts(c, (rows - 1) * c_stride + Self::LANES)
        };
        Self::fold_max(largest, sums, c_stride, rows, Self::LANES);
    }

    /// Writes sums `step` apart, and nothing between them.
    fn spread(sums: &[Self::Sum], step: usize, out: &mut [Self::Sum]) {
        super::pack::spread(sums, step, out);
    }

    /// Folds the magnitudes of `rows` rows of `count` sums, `stride` apart, into `largest`.
    fn fold_max(
        largest: &mut Largest,
        values: &[Self::Sum],
        stride: usize,
        rows: usize,
        count: usize,
    ) {
        super::pack::fold_max(largest, values, stride, rows, count);
    }
}
