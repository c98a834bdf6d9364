//! Weight gradients of few channels: lanes are those of neighbouring columns, so that a vector is of several taps.
//!
//! The operand lies in rows with zeros left and right of them, `[group][position][channel][image]`, 128 added: from a position on,
//! a vector holds the channels of as many columns as fit. Taps of those stand side by side in a row of windows, and go as one; windows
//! that read the zeros are no exception. All else is as of other [weight gradients](super::weight_gradient), whose 32 channels these
//! columns stand for.

use super::DataObject;
use super::plane_memory::advance;
use super::product::{GROUP, LANES, OperandStrides, VECTOR};
use super::support::{loop_over, rotate_in, zero_vector};
use super::weight_gradient::{ROWS, WeightGradient, word};
use super::window::{Axis, Span};
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Register};

/// Few channels, and what stands beside them in a vector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Narrow {
    /// Channels of the operand: lanes of a column.
    pub channels: usize,
    /// Taps of a row of windows.
    pub taps: usize,
    /// Columns of the operand, and zeros before them.
    pub width: usize,
    /// Zeros.
    pub before: usize,
}

impl Narrow {
    /// Columns of a vector.
    pub(crate) fn columns(&self) -> usize {
        LANES / self.channels
    }
}

impl WeightGradient {
    /// The gradient of a convolution with these rows and columns of windows, in the cheaper of both orders; `None` if these kernels
    /// cannot do it.
    #[must_use]
    pub fn of(
        images: usize,
        channels: usize,
        features: usize,
        [vertical, horizontal]: [&Span; 2],
    ) -> Option<WeightGradient> {
        let wide = Self::wide([images, channels, features], [vertical, horizontal]);
        let narrow = Self::narrowed(&wide, horizontal);
        let all = [Some(wide), narrow].into_iter().flatten();
        all.filter(WeightGradient::is_supported).min_by_key(WeightGradient::launch_packets)
    }

    /// The gradient whose lanes are channels alone, supported or not.
    #[must_use]
    pub fn wide(
        [images, channels, features]: [usize; 3],
        [vertical, horizontal]: [&Span; 2],
    ) -> WeightGradient {
        WeightGradient {
            images,
            channels,
            features,
            vertical: vertical.forward(),
            horizontal: horizontal.forward(),
            narrow: None,
            unsigned: false,
        }
    }

    /// The same with neighbouring columns side by side; `None` where nothing is gained.
    #[must_use]
    pub fn narrowed(wide: &WeightGradient, horizontal: &Span) -> Option<WeightGradient> {
        let Span { input, output, kernel, stride, dilation, before } = *horizontal;
        let pitch = (before + input).max((output.max(1) - 1) * stride + kernel);
        if wide.channels > LANES / 2 || kernel < 2 || dilation != 1 || pitch > VECTOR || output == 0
        {
            return None;
        }
        let narrow = Narrow { channels: wide.channels, taps: kernel, width: input, before };
        let columns = narrow.columns();
        let taps = kernel.div_ceil(columns);
        let reads =
            |window: usize| (0..taps).map(move |tap| (tap, window * stride + tap * columns));
        let horizontal = Axis {
            input: pitch,
            taps,
            reads: (0..output).map(|window| reads(window).collect()).collect(),
        };
        Some(WeightGradient { channels: LANES, horizontal, narrow: Some(narrow), ..wide.clone() })
    }

    /// Whether vectors have lanes that no tap is for.
    pub(crate) fn has_idle_columns(&self) -> bool {
        let idle = |narrow: &Narrow| {
            let columns = narrow.columns();
            !narrow.taps.is_multiple_of(columns) || columns * narrow.channels < LANES
        };
        self.narrow.as_ref().is_some_and(idle)
    }

    /// Which lanes of each tap's vector are taps of the weights.
    pub(crate) fn column_table(&self, symbol: &str) -> Option<DataObject> {
        let narrow = self.narrow.as_ref()?;
        let (taps, columns) = (self.horizontal.taps, narrow.columns());
        let lane = |tap: usize, lane: usize| {
            let column = lane / narrow.channels;
            -i32::from(column < columns && tap % taps * columns + column < narrow.taps)
        };
        let words =
            (0..self.taps()).flat_map(|tap| (0..LANES).map(move |l| lane(tap, l))).collect();
        Some(DataObject { symbol: symbol.into(), words })
    }

    /// Bytes of the operand's rows with their zeros, and of what is written behind them.
    pub(crate) fn padded_bytes(&self) -> usize {
        match &self.narrow {
            Some(narrow) => self.images * narrow.channels * self.inputs() + 2 * VECTOR,
            None => 0,
        }
    }

    /// Where the operand's bytes lie, with their zeros.
    pub(crate) fn operand_strides(&self) -> OperandStrides {
        let channels = self.narrow.as_ref().map_or(self.channels, |narrow| narrow.channels);
        OperandStrides::natural(channels, self.inputs())
    }

    /// `void pad(x, padded)`: rows with zeros left and right. Reads up to 127 bytes beyond the end of `x`.
    pub(crate) fn pad(&self, name: &str, narrow: &Narrow) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts zeros left and right of rows.");
        let (x, to) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("x"), b.object("padded"));
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let inside = (narrow.width < VECTOR).then(|| {
            let columns = b.constant(word(narrow.width));
            b.emit(Opcode::Vsetq, (columns,))
        });
        b.store(Opcode::StoreV, (to, 0, zero), memory.1);
        advance(&mut b, to, narrow.before);
        // What a row is stored with reaches beyond the zeros before the next.
        loop_over(&mut b, self.images * narrow.channels * self.vertical.input, "rows", |b| {
            let mut bytes = b.load(Opcode::LoadVUnaligned, (x, 0), memory.0);
            if let Some(inside) = inside {
                bytes = b.emit(Opcode::Vmux, (inside, bytes, zero));
            }
            b.store(Opcode::StoreVUnaligned, (to, 0, bytes), memory.1);
            advance(b, x, narrow.width);
            advance(b, to, self.horizontal.input);
        });
        b.finish(None)
    }

    /// `void lanes(packed as planes, packed operand)`: brings the channels of a position together and adds 128.
    pub(crate) fn narrow_lanes(
        &self,
        name: &str,
        narrow: &Narrow,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Brings the channels of a position together, and adds 128.");
        let (source, target) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("planes"), b.object("packed operand"));
        let flip = b.constant(0x8080_8080_u32.cast_signed());
        let flip = b.emit(Opcode::VsplatW, (flip,));
        let plane = self.operand().plane_bytes();
        let step = b.constant(word(plane));
        let step = b.emit(Opcode::ModifierFromR, (step,));
        // A position's bytes in whole quads, of which a power of two is interleaved.
        let quads = narrow.channels.div_ceil(4).next_power_of_two();
        let whole = narrow.channels == 4 * quads;
        let turns: Vec<Register> =
            (0..8 / quads).map(|at| b.constant(word(16 * quads * at))).collect();
        loop_over(&mut b, self.groups(), "groups of images", |b| {
            let first = b.copy(source);
            loop_over(b, plane / VECTOR, "8 positions", |b| {
                let from = b.copy(first);
                let loaded: Vec<Register> =
                    (0..quads).map(|_| b.load(Opcode::LoadVStep, (from, step), memory.0)).collect();
                for vector in rotate_in(b, &loaded, 16, quads) {
                    let vector = b.emit(Opcode::Vxor, (vector, flip));
                    if whole {
                        b.store(Opcode::StoreVNext, (target, 1, vector), memory.1);
                        continue;
                    }
                    // Position by position, each with what the next ones overwrite.
                    for (at, &turn) in turns.iter().enumerate() {
                        let position = match at {
                            0 => vector,
                            _ => b.emit(Opcode::Vror, (vector, turn)),
                        };
                        b.store(Opcode::StoreVUnaligned, (target, 0, position), memory.1);
                        advance(b, target, GROUP * narrow.channels);
                    }
                }
                advance(b, first, VECTOR);
            });
            advance(b, source, quads * plane);
        });
        b.finish(None)
    }

    /// `void scatter(bytes, dw)`: taps of a channel side by side, byte by byte.
    pub(crate) fn narrow_scatter(
        &self,
        name: &str,
        narrow: &Narrow,
    ) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts taps side by side, byte by byte.");
        let (bytes, dw) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("bytes"), b.object("dw"));
        let quad = |b: &mut Builder, features: usize| {
            for feature in 0..features {
                let from = b.emit(Opcode::AddImmediate, (bytes, word(feature)));
                loop_over(b, narrow.channels, "channels", |b| {
                    let row = b.copy(from);
                    loop_over(b, self.vertical.taps, "rows of taps", |b| {
                        for tap in 0..narrow.taps {
                            let (vector, column) = (tap / narrow.columns(), tap % narrow.columns());
                            let at = vector * VECTOR + 4 * column * narrow.channels;
                            let y = b.load(Opcode::LoadB, (row, word(at)), memory.0);
                            b.store(Opcode::StoreBNext, (dw, 1, y), memory.1);
                        }
                        advance(b, row, self.horizontal.taps * VECTOR);
                    });
                    advance(b, from, 4);
                });
            }
            advance(b, bytes, self.taps() * VECTOR);
        };
        loop_over(&mut b, self.features / ROWS, "quads of features", |b| quad(b, ROWS));
        if !self.features.is_multiple_of(ROWS) {
            quad(&mut b, self.features % ROWS);
        }
        b.finish(None)
    }
}
