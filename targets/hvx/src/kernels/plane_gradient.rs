//! The weight gradient of windows, lanes being positions: for few channels and features.
//!
//! Operand and error lie in frames of the same rows, the error with zeros between them, so that of each tap the products of all
//! positions of all images are those of two runs of bytes. At stride 2 the operand falls into parts as that of a product of planes. A tile is a few features times a few pairs of channel and tap; its
//! accumulators' lanes are added at the end, all together by shuffles.
//!
//! | what | layout |
//! |---|---|
//! | operand | `[channel][part][image][row of the frame][column]` i8 |
//! | error | `[feature][image][row of the frame][column]` i8, zeros elsewhere |
//! | sums, bytes | `[feature][channel, tap]` i32, i8, each row with room for a vector more |

use trainc_ir::product::{Convolution, Pass};

use super::interleave::quantize_gradient_in_order;
use super::kernel::{Argument, DataObject, Kernel, Phase, Scratch};
use super::plane_axis::{OperandPart, Part};
use super::plane_memory::{advance, put_rows};
use super::plane_product::PlaneProduct;
use super::plane_words::{last_words_bytes, put_word_rows, word_row_packets};
use super::product::VECTOR;
use super::run_products::Runs;
use super::support::{loop_over, zero_vector};
use super::weight_gradient::{phase, word};
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Register};

/// `dw[f, c, t] = sum over images n and positions p of dy[n, f, p] x[n, c, reads(p, t)]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaneGradient {
    /// The forward pass.
    windows: PlaneProduct,
}

/// Bytes of a plane in frames.
struct Planes {
    /// In memory: planes of an image, rows, columns.
    planes: usize,
    size: [usize; 2],
    /// Parts of a plane, each in a frame of its own, and from a position of theirs to the next.
    parts: Vec<[OperandPart; 2]>,
    strides: [usize; 2],
    /// Bytes of a part with all images.
    bytes: usize,
}

/// What comes before sums are put in order; the last phase returns the bitwise or of their magnitudes.
struct Products {
    phases: Vec<Phase>,
    scratch: Scratch,
    sums: Argument,
    data: Vec<DataObject>,
}

impl PlaneGradient {
    /// The gradient of a convolution's weights.
    ///
    /// # Errors
    /// Why these kernels cannot do it.
    pub fn new(c: &Convolution) -> Result<PlaneGradient, &'static str> {
        let windows = PlaneProduct::of_channels(&Convolution { pass: Pass::Forward, ..c.clone() })?;
        let gradient = PlaneGradient { windows };
        if gradient.windows.pitch() > VECTOR {
            return Err("its rows are too large");
        }
        let sizes =
            [gradient.operand(), gradient.error()].map(|p| p.planes * p.parts.len() * p.bytes);
        if sizes.into_iter().any(|bytes| bytes >= 1 << 28) || !gradient.runs().is_supported() {
            return Err("its sums or frames are too large, or too few");
        }
        Ok(gradient)
    }

    /// The same of unsigned operands.
    #[must_use]
    pub fn of_unsigned(self, unsigned: bool) -> PlaneGradient {
        PlaneGradient { windows: PlaneProduct { unsigned, ..self.windows } }
    }

    /// Whether operands are unsigned.
    #[must_use]
    pub fn is_unsigned(&self) -> bool {
        self.windows.unsigned
    }

    /// Most products of a sum.
    #[must_use]
    pub fn depth(&self) -> usize {
        let [rows, columns] = self.windows.output();
        self.windows.images * rows * columns
    }

    /// Multiplications, those with padding included.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        self.windows.multiplications()
    }

    /// Bytes from an image's frame to the next.
    fn span(&self) -> usize {
        let [rows, _] = &self.windows.axes;
        let held = rows.operand.iter().map(|operand| operand.first + operand.part.count);
        (rows.output + rows.last_place()).max(held.max().unwrap_or(0)) * self.windows.pitch()
    }

    /// Vectors of positions, an even number.
    fn vectors(&self) -> usize {
        (self.windows.images * self.span()).div_ceil(VECTOR).next_multiple_of(2)
    }

    fn operand(&self) -> Planes {
        let w = &self.windows;
        let [rows, columns] = &w.axes;
        let reach = rows.last_place() * w.pitch() + columns.last_place();
        Planes {
            planes: w.channels,
            size: w.input(),
            parts: w.operand_parts(),
            strides: [rows.operand_stride, columns.operand_stride],
            bytes: self.vectors() * VECTOR + reach.next_multiple_of(VECTOR),
        }
    }

    fn error(&self) -> Planes {
        let w = &self.windows;
        let size = w.output();
        let all = size.map(|count| OperandPart { part: Part { start: 0, count }, first: 0 });
        let bytes = self.vectors() * VECTOR;
        Planes { planes: w.features, size, parts: vec![all], strides: [1, 1], bytes }
    }

    fn runs(&self) -> Runs {
        let w = &self.windows;
        let operand = self.operand();
        let [down, across] = &w.axes;
        // A convolution's windows have all taps.
        let mut taps = vec![0; w.tap_count()];
        for row in down.result.iter().flat_map(|result| &result.taps) {
            for column in across.result.iter().flat_map(|result| &result.taps) {
                let part = row.operand * across.operand.len() + column.operand;
                let place = row.place * w.pitch() + column.place;
                taps[row.tap * across.taps + column.tap] = part * operand.bytes + place;
            }
        }
        let plane = operand.parts.len() * operand.bytes;
        Runs {
            left: w.features,
            left_bytes: self.error().bytes,
            right: (0..w.channels)
                .flat_map(|k| taps.iter().map(move |tap| k * plane + tap))
                .collect(),
            vectors: self.vectors(),
            unsigned: w.unsigned,
        }
    }

    /// An estimate of the packets of a launch.
    #[must_use]
    pub fn packets(&self) -> usize {
        let runs = self.runs();
        let rows = runs.left * (runs.row() / VECTOR * 7 + runs.right.len() / 48 + 4);
        self.product_packets() + rows
    }

    /// An estimate of the packets of a launch of [`Self::sums_kernel`].
    #[must_use]
    pub fn sums_packets(&self) -> usize {
        let runs = self.runs();
        self.product_packets() + word_row_packets(runs.left, runs.right.len())
    }

    /// Packets of all but what is done with sums.
    fn product_packets(&self) -> usize {
        let framed = |p: &Planes| -> usize {
            let part = |part: &[OperandPart; 2]| 3 * part[0].part.count + 6;
            self.windows.images * p.planes * p.parts.iter().map(part).sum::<usize>()
        };
        framed(&self.operand()) + framed(&self.error()) + self.runs().packets() + 80
    }

    /// `int kernel(x, dy, bits, dw, working memory)`: `dw = quantize_gradient(product, bits)` with pseudo-stochastic
    /// rounding; `bits` is the address of the number of bits. Returns the shift.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let [bits, dw] = [2, 3].map(Argument::Parameter);
        let Products { mut phases, mut scratch, sums, data } = self.product_phases(name, 0)?;
        let magnitudes = Argument::Result(phases.len() - 1);
        let runs = self.runs();
        let (features, columns) = (runs.left, runs.right.len());
        let bytes = scratch.take(runs.sums_bytes() / 4 + VECTOR);
        let dense = scratch.take(features * columns + VECTOR);
        let most = self.depth().saturating_mul(1 << 14);
        let width = usize::BITS - most.leading_zeros();
        let vectors = runs.sums_bytes() / VECTOR;
        let [round, long] = quantize_gradient_in_order(&phase_name("quantize"), vectors, width)?;
        let rows = put_rows(&phase_name("rows"), features, runs.row(), columns)?;
        phases.extend([
            phase(round, &[sums, bytes, magnitudes, bits]),
            phase(rows, &[bytes, dense, dw]),
        ]);
        Ok(Kernel {
            name: name.into(),
            purpose: "The weight gradient of planes, quantised to a run-time number of bits."
                .into(),
            parameters: 4,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: vec![long],
            data,
        })
    }

    /// `int kernel(x, dy, dw, working memory)`: `dw = product` in 32 bits; what it returns says nothing.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn sums_kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        // Rows are read by whole vectors.
        let Products { mut phases, mut scratch, sums, data } = self.product_phases(name, VECTOR)?;
        let runs = self.runs();
        let (features, columns) = (runs.left, runs.right.len());
        let last = scratch.take(last_words_bytes(features, columns));
        let rows = put_word_rows(&format!("{name}_rows"), features, runs.row(), columns)?;
        phases.push(phase(rows, &[sums, last, Argument::Parameter(2)]));
        Ok(Kernel {
            name: name.into(),
            purpose: "The weight gradient of planes, in 32 bits.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data,
        })
    }

    /// Frames of both operands, then the products, with so many bytes behind their sums.
    fn product_phases(&self, name: &str, behind: usize) -> Result<Products, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let [x, dy] = [0, 1].map(Argument::Parameter);
        let mut scratch = Scratch::default();
        let size = |p: Planes| p.planes * p.parts.len() * p.bytes + 2 * VECTOR;
        let operand = scratch.take(size(self.operand()));
        let error = scratch.take(size(self.error()));
        let runs = self.runs();
        let sums = scratch.take(runs.sums_bytes() + behind);
        let tables = runs.tables(name);
        let symbols = tables.each_ref().map(|table| table.symbol.as_str());
        let products = runs.products(&phase_name("products"), symbols)?;
        let phases = vec![
            phase(self.frames(&phase_name("operand"), &self.operand())?, &[x, operand]),
            phase(self.frames(&phase_name("error"), &self.error())?, &[dy, error]),
            phase(products, &[operand, error, sums]),
        ];
        Ok(Products { phases, scratch, sums, data: tables.into() })
    }

    /// `void frames(x, frames)`: `[image][plane][row][column]` to frames. Reads up to 127 bytes beyond the end of `x`.
    fn frames(&self, name: &str, planes: &Planes) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Puts the planes of all images one behind the other, with zeros between rows.");
        let (x, frames) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("x"), b.object("frames"));
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let [height, width] = planes.size;
        let (pitch, span, images) = (self.windows.pitch(), self.span(), self.windows.images);
        let inside = (width < VECTOR).then(|| {
            let columns = b.constant(word(width));
            b.emit(Opcode::Vsetq, (columns,))
        });
        let fill = |b: &mut Builder, place: Register, bytes: usize| {
            loop_over(b, bytes.div_ceil(VECTOR), "zeros", |b| {
                b.store(Opcode::StoreVUnaligned, (place, 0, zero), memory.1);
                advance(b, place, VECTOR);
            });
        };
        let half = b.constant(word(VECTOR / 2));
        let low = b.emit(Opcode::Vsetq, (half,));
        loop_over(&mut b, planes.planes, "planes", |b| {
            for &[rows, columns] in &planes.parts {
                let first = rows.first * pitch + columns.first;
                let start = b.emit(Opcode::AddImmediate, (x, word(rows.part.start * width)));
                let (image, to) = (start, b.copy(frames));
                loop_over(b, images, "images", |b| {
                    let place = b.copy(to);
                    fill(b, place, first);
                    let row = b.emit(Opcode::AddImmediate, (to, word(first)));
                    let from = b.copy(image);
                    loop_over(b, rows.part.count, "rows", |b| {
                        let mut bytes = b.load(Opcode::LoadVUnaligned, (from, 0), memory.0);
                        if let Some(inside) = inside {
                            bytes = b.emit(Opcode::Vmux, (inside, bytes, zero));
                        }
                        if planes.strides[1] > 1 {
                            // Even columns before odd ones.
                            bytes = b.emit(Opcode::VdealB, (bytes,));
                            if columns.part.start > 0 {
                                bytes = b.emit(Opcode::Vror, (bytes, half));
                            }
                            bytes = b.emit(Opcode::Vmux, (low, bytes, zero));
                        }
                        b.store(Opcode::StoreVUnaligned, (row, 0, bytes), memory.1);
                        advance(b, from, planes.strides[0] * width);
                        advance(b, row, pitch);
                    });
                    fill(b, row, span.saturating_sub(first + rows.part.count * pitch));
                    advance(b, image, planes.planes * height * width);
                    advance(b, to, span);
                });
                fill(b, to, self.vectors() * VECTOR - images * span);
                advance(b, frames, planes.bytes);
            }
            advance(b, x, height * width);
        });
        b.finish(None)
    }
}
