//! A fully connected layer at small batches: every row of the operand times every row of the weights, as they lie in memory.
//!
//! Products of two runs of bytes (`run_products.rs`): the operand's rows are copied with zeros behind
//! them; the weights are copied only so that something may be read behind them.

use super::kernel::{Argument, Kernel, Phase, Scratch};
use super::plane_memory::{advance, put_rows};
use super::product::VECTOR;
use super::requantize::requantize_in_order;
use super::run_products::Runs;
use super::support::{loop_over, zero_vector};
use super::weight_gradient::word;
use crate::machine::{Builder, Class, Function, MachineError, Opcode, Register};

/// `y[n, f] = sum over k of x[n, k] w[f, k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DotProduct {
    /// Rows of the operand.
    pub images: usize,
    /// Products of a sum.
    pub channels: usize,
    /// Rows of the weights.
    pub features: usize,
}

impl DotProduct {
    /// Whether the kernels can do it.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let some = self.images > 0 && self.features > 0 && self.channels > 0;
        let small = |bytes: usize| bytes < 1 << 28;
        some && small(self.features * self.channels)
            && small(self.images * self.row_bytes())
            && self.runs().is_supported()
    }

    fn runs(&self) -> Runs {
        Runs {
            left: self.images,
            left_bytes: self.row_bytes(),
            right: (0..self.features).map(|f| f * self.channels).collect(),
            vectors: self.row_bytes() / VECTOR,
            unsigned: false,
        }
    }

    /// An even number of vectors.
    fn row_bytes(&self) -> usize {
        self.channels.next_multiple_of(2 * VECTOR)
    }

    /// Multiplications.
    #[must_use]
    pub fn multiplications(&self) -> usize {
        self.images * self.features * self.channels
    }

    /// An estimate of the packets of a launch.
    #[must_use]
    pub fn packets(&self) -> usize {
        let runs = self.runs();
        let rows = self.images * (self.row_bytes() / VECTOR * 3 + 8);
        let results = runs.left * (runs.row() / VECTOR * 6 + self.features / 32 + 6);
        self.features * self.channels / VECTOR + rows + runs.packets() + results + 80
    }

    /// `int kernel(x, weights, y, working memory)`: `y = requantize(product)`; returns the shift.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn kernel(&self, name: &str, bits: u8, low: i8) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let runs = self.runs();
        let [x, weights, y] = [0, 1, 2].map(Argument::Parameter);
        let mut scratch = Scratch::default();
        let left = scratch.take(self.images * self.row_bytes() + VECTOR);
        let right = scratch.take(self.features * self.channels + self.row_bytes() + 2 * VECTOR);
        let sums = scratch.take(runs.sums_bytes());
        let bytes = scratch.take(runs.sums_bytes() / 4 + VECTOR);
        let dense = scratch.take(self.images * self.features + VECTOR);
        let tables = runs.tables(name);
        let symbols = tables.each_ref().map(|table| table.symbol.as_str());
        let products = runs.products(&phase_name("products"), symbols)?;
        let vectors = runs.sums_bytes() / VECTOR;
        let round = requantize_in_order(&phase_name("requantize"), vectors, bits, low)?;
        let rows = put_rows(&phase_name("rows"), self.images, runs.row(), self.features)?;
        let phase = |function: Function, arguments: &[Argument]| Phase {
            function,
            arguments: arguments.to_vec(),
        };
        let phases = vec![
            phase(self.copies(&phase_name("copies"))?, &[x, left, weights, right]),
            phase(products, &[right, left, sums]),
            phase(round, &[sums, bytes, Argument::Result(1)]),
            phase(rows, &[bytes, dense, y]),
        ];
        Ok(Kernel {
            name: name.into(),
            purpose: "Rows times rows, requantised by the largest magnitude.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data: tables.into(),
        })
    }

    /// `void copies(x, rows, weights, copy)`. Reads up to 127 bytes beyond the end of `x`.
    fn copies(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 4);
        b.purpose("Puts zeros behind rows, and copies weights.");
        let (x, left) = (b.parameter(0), b.parameter(1));
        let (weights, right) = (b.parameter(2), b.parameter(3));
        let memory = ["x", "rows", "weights", "copy"].map(|name| b.object(name));
        let zero = b.fresh(Class::V);
        zero_vector(&mut b, zero);
        let rest = self.channels % VECTOR;
        let inside = (rest > 0).then(|| {
            let rest = b.constant(word(rest));
            b.emit(Opcode::Vsetq, (rest,))
        });
        loop_over(&mut b, self.images, "rows", |b| {
            let from = b.copy(x);
            let put = |b: &mut Builder, x: Register| {
                b.store(Opcode::StoreVNext, (left, 1, x), memory[1]);
            };
            loop_over(b, self.channels / VECTOR, "128 bytes", |b| {
                let x = b.load(Opcode::LoadVUnalignedNext, (from, 1), memory[0]);
                put(b, x);
            });
            if let Some(inside) = inside {
                let x = b.load(Opcode::LoadVUnaligned, (from, 0), memory[0]);
                let x = b.emit(Opcode::Vmux, (inside, x, zero));
                put(b, x);
            }
            if self.channels.div_ceil(VECTOR) % 2 == 1 {
                put(b, zero);
            }
            advance(b, x, self.channels);
        });
        loop_over(&mut b, (self.features * self.channels).div_ceil(VECTOR), "128 weights", |b| {
            let bytes = b.load(Opcode::LoadVNext, (weights, 1), memory[2]);
            b.store(Opcode::StoreVNext, (right, 1, bytes), memory[3]);
        });
        b.finish(None)
    }
}
