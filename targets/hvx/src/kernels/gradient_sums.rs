//! The weight gradient of a convolution whose sums stay 32 bits wide.

use super::kernel::{Argument, Kernel};
use super::plane_words::{
    copy_last, last_bytes, last_words_bytes, put_word_rows, word_row_packets,
};
use super::product::{LANES, VECTOR};
use super::support::loop_over;
use super::weight_gradient::{Packed, ROWS, WeightGradient, phase, word};
use super::word_order::{MOST_ROWS, store_lanes, store_packets};
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

impl WeightGradient {
    /// The same of unsigned operands.
    #[must_use]
    pub fn of_unsigned(self, unsigned: bool) -> WeightGradient {
        WeightGradient { unsigned, ..self }
    }

    /// Whether there is a kernel whose sums stay as they are.
    #[must_use]
    pub fn has_sums_kernel(&self) -> bool {
        // Of several blocks of a vector, two quads of features with their taps take more registers than there are.
        let crowded = self.block() == 1 && self.blocks() > 1 && self.taps() > 1;
        self.narrow.is_none()
            && self.is_supported()
            && !(crowded && self.feature_quads().is_multiple_of(2))
            && self.taps() <= MOST_ROWS
            && self.channels * self.taps() >= LANES
    }

    /// An estimate of the packets of a launch of [`Self::sums_kernel`].
    #[must_use]
    pub(crate) fn sums_packets(&self) -> usize {
        let order = match self.taps() {
            1 if self.are_rows_the_result() => 0,
            1 => word_row_packets(self.features, self.channels),
            taps => self.features * self.vectors() * (store_packets(taps, LANES) + taps + 6),
        };
        let sums = self.sums_bytes() / VECTOR;
        self.packets_before_finish() + 2 * sums + order
    }

    /// Whether sums lie as the result does.
    fn are_rows_the_result(&self) -> bool {
        self.taps() == 1
            && self.channels.is_multiple_of(LANES)
            && self.features.is_multiple_of(ROWS)
    }

    /// `int kernel(x, dy, dw, working memory)`: `dw = product` in 32 bits; what it returns says nothing.
    ///
    /// # Errors
    /// Of the machine layer.
    pub fn sums_kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        let phase_name = |phase: &str| format!("{name}_{phase}");
        let dw = Argument::Parameter(2);
        let Packed { mut phases, data, mut scratch, tables, operand, error } =
            self.packed(name, false)?;
        let starts = scratch.take(self.feature_quads() * self.taps() * VECTOR);
        let sums = match self.are_rows_the_result() {
            true => {
                // Behind the error, from which the last step reads ahead.
                scratch.take(self.ahead_bytes());
                dw
            }
            false => scratch.take(self.sums_bytes().max(self.ahead_bytes()) + VECTOR),
        };
        let in_rows = self.taps() == 1;
        let products = self.products(&phase_name("products"), &tables.taps, None, in_rows)?;
        phases.extend([
            phase(self.start_values(&phase_name("starts"), &tables.masks)?, &[error, starts]),
            phase(products, &[operand, error, starts, sums]),
        ]);
        let columns = self.channels * self.taps();
        if in_rows && !self.are_rows_the_result() {
            let last = scratch.take(last_words_bytes(self.features, columns));
            let pitch = self.vectors() * LANES;
            let rows = put_word_rows(&phase_name("rows"), self.features, pitch, columns)?;
            phases.push(phase(rows, &[sums, last, dw]));
        } else if !in_rows {
            let last = scratch.take(last_bytes(columns));
            phases.push(phase(self.order_sums(&phase_name("order"))?, &[sums, last, dw]));
        }
        Ok(Kernel {
            name: name.into(),
            purpose: "The weight gradient, in 32 bits.".into(),
            parameters: 3,
            scratch_bytes: scratch.bytes,
            phases,
            helpers: Vec::new(),
            data,
        })
    }

    /// `void order(sums, last, dw)`: from `[quad of features][block][tap][feature of the quad][vector of the block][32 lanes]` to
    /// `[feature][channel][tap]`. A channel is stored with what its vector holds besides, which the next one overwrites; the last
    /// feature is put together in working memory first.
    fn order_sums(&self, name: &str) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 3);
        b.purpose("Puts taps side by side.");
        let [sums, last, dw] = [0, 1, 2].map(|at| b.parameter(at));
        let memory = ["sums", "last", "dw"].map(|name| b.object(name));
        let (taps, block) = (self.taps(), self.block());
        let step = b.constant(word(ROWS * block * VECTOR));
        let step = b.emit(Opcode::ModifierFromR, (step,));
        let vector = |b: &mut Builder, from: Register, lanes: usize, to: (Register, Object)| {
            let tap = b.copy(from);
            let rows: Vec<Register> =
                (0..taps).map(|_| b.load(Opcode::LoadVStep, (tap, step), memory[0])).collect();
            store_lanes(b, &rows, lanes, to);
            b.emit_to(from, Opcode::AddImmediate, (from, word(VECTOR)));
        };
        let block_bytes = taps * ROWS * block * VECTOR;
        let rest = self.channels % LANES;
        let feature = |b: &mut Builder, from: Register, to: (Register, Object)| {
            let from = b.copy(from);
            let whole = if rest == 0 { self.blocks() } else { self.blocks() - 1 };
            let skip = word(block_bytes - block * VECTOR);
            loop_over(b, whole, "blocks of channels", |b| {
                loop_over(b, block, "32 channels", |b| vector(b, from, LANES, to));
                b.emit_to(from, Opcode::AddImmediate, (from, skip));
            });
            if rest > 0 {
                loop_over(b, block - 1, "32 channels", |b| vector(b, from, LANES, to));
                vector(b, from, rest, to);
            }
        };
        let next = word(block * VECTOR);
        let to = (dw, memory[2]);
        let features = |b: &mut Builder, count: usize| {
            let from = b.copy(sums);
            loop_over(b, count, "features", |b| {
                feature(b, from, to);
                b.emit_to(from, Opcode::AddImmediate, (from, next));
            });
            from
        };
        let y = b.copy(dw);
        loop_over(&mut b, self.feature_quads() - 1, "quads of features", |b| {
            features(b, ROWS);
            let quad = word(self.blocks() * block_bytes);
            b.emit_to(sums, Opcode::AddImmediate, (sums, quad));
        });
        let from = features(&mut b, self.features - 1 - ROWS * (self.feature_quads() - 1));
        let to_last = b.copy(last);
        feature(&mut b, from, (to_last, memory[1]));
        let columns = self.channels * taps;
        copy_last(&mut b, [last, y], [memory[1], memory[2]], [columns, self.features * columns]);
        b.finish(None)
    }
}
