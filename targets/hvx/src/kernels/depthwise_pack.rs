//! Copies planes with their padding. A vector of the operand's rows is spread by a delta network, zeros in between, and
//! stored whole: its zeros behind the rows are overwritten by the rows that follow.

use super::kernel::DataObject;
use super::pool::{VECTOR, gather, number, table};
use super::support::loop_over;
use crate::machine::{Builder, Function, MachineError, Object, Opcode, Register};

/// Largest buffer.
const LARGEST: usize = 1 << 29;
/// Most vectors of a channel or of a plane that are written out: the loop around them then runs several rounds at a time.
const WRITTEN_OUT: usize = 6;

/// Planes `[image][channel][row][column]` into `[channel][image][row][column]` with room between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanePacking {
    pub(super) images: usize,
    pub(super) channels: usize,
    /// Of the operand's planes.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Padded rows from a row to the next, padded columns from a column to the next.
    pub(super) steps: [usize; 2],
    /// Bytes from a padded row, plane, channel to the next.
    pub(super) row: usize,
    pub(super) plane: usize,
    pub(super) channel: usize,
    /// Bytes before the first row.
    pub(super) first: usize,
    /// Whether 128 is added.
    pub(super) flip: bool,
}

/// What stays in registers.
struct Constants {
    network: Register,
    mask: Register,
    /// A vector of zeros, with 128 added if that is wanted.
    zeros: Register,
    /// The last address from which a vector can be read.
    last: Register,
    memory: (Object, Object),
}

impl PlanePacking {
    /// Bytes between rows that follow each other in the operand.
    fn pitch(&self) -> usize {
        self.steps[0] * self.row
    }

    /// Bytes of a spread row.
    fn span(&self) -> usize {
        (self.columns - 1) * self.steps[1] + 1
    }

    /// Rows of a vector.
    fn together(&self) -> usize {
        ((VECTOR - self.span()) / self.pitch() + 1).min(self.rows)
    }

    fn places(&self) -> Vec<usize> {
        let row = |r: usize| (0..self.columns).map(move |c| r * self.pitch() + c * self.steps[1]);
        (0..self.together()).flat_map(row).collect()
    }

    /// Bytes of the padded planes, with what loads of whole vectors reach behind them.
    pub(super) fn bytes(&self) -> usize {
        (self.channels * self.channel + self.first + self.row + 4 * VECTOR).next_multiple_of(VECTOR)
    }

    /// Vectors of rows of a channel.
    pub(super) fn vectors(&self) -> usize {
        self.images * self.rows.div_ceil(self.together())
    }

    fn source_bytes(&self) -> usize {
        self.images * self.channels * self.rows * self.columns
    }

    pub(super) fn is_supported(&self) -> bool {
        self.span() <= VECTOR && self.bytes() < LARGEST && gather(&self.places()).is_some()
    }

    /// `void pack(planes, padded planes)`, and the table that it reads.
    pub(super) fn function(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Copies planes with zeros around them.");
        let (x, planes) = (b.parameter(0), b.parameter(1));
        let (memory, object) = ((b.object("x"), b.object("planes")), b.object("table"));
        let places = self.places();
        let mut mask = [0; VECTOR];
        places.iter().for_each(|&at| mask[at] = 0xff);
        let table = table(name, [&gather(&places).unwrap_or([0; VECTOR]), &mask]);
        let address = b.address(&table.symbol, 0);
        let zero = b.constant(if self.flip { -128 } else { 0 });
        let readable = self.source_bytes().next_multiple_of(VECTOR) - VECTOR;
        let constants = Constants {
            network: b.load(Opcode::LoadV, (address, 0), object),
            mask: b.load(Opcode::LoadV, (address, 1), object),
            zeros: b.emit(Opcode::VsplatB, (zero,)),
            last: b.emit(Opcode::AddImmediate, (x, number(readable))),
            memory,
        };
        let lead = b.copy(planes);
        constants.zeros(&mut b, lead, self.first.div_ceil(VECTOR));
        let (from_channel, to_channel) = (b.copy(x), b.fresh(planes.class()));
        step(&mut b, to_channel, planes, self.first);
        let plane = self.rows * self.columns;
        let channels = |b: &mut Builder, count: usize, guarded: bool| {
            loop_over(b, count, "channels", |b| {
                self.one_channel(b, from_channel, to_channel, &constants, guarded);
                step(b, from_channel, from_channel, plane);
                step(b, to_channel, to_channel, self.channel);
            });
        };
        let free = self.unguarded_channels();
        channels(&mut b, free, false);
        channels(&mut b, self.channels - free, true);
        Ok((b.finish(None)?, table))
    }

    /// Channels, from the first on, of whose rows whole vectors can be read in all images.
    fn unguarded_channels(&self) -> usize {
        let plane = self.rows * self.columns;
        let last = ((self.images - 1) * self.channels + 1) * plane - self.together() * self.columns;
        let bytes = self.source_bytes().next_multiple_of(VECTOR);
        let room = (bytes + plane).saturating_sub(last + VECTOR) / plane;
        room.min(self.channels)
    }

    /// All images of a channel, with the zeros behind them.
    fn one_channel(
        &self,
        b: &mut Builder,
        from: Register,
        to: Register,
        constants: &Constants,
        guarded: bool,
    ) {
        let plane = self.rows * self.columns;
        let vectors = self.rows.div_ceil(self.together());
        let end = self.images * self.plane;
        if vectors * self.images <= WRITTEN_OUT {
            for image in 0..self.images {
                let from = moved(b, from, image * self.channels * plane);
                let to = moved(b, to, image * self.plane);
                self.one_plane(b, from, to, constants, guarded);
            }
        } else {
            let (from, to) = (b.copy(from), b.copy(to));
            loop_over(b, self.images, "images", |b| {
                self.one_plane(b, from, to, constants, guarded);
                step(b, from, from, self.channels * plane);
                step(b, to, to, self.plane);
            });
        }
        // The last plane's vectors reach behind it.
        let written = end - self.plane + self.written();
        if written < self.channel {
            let to = b.emit(Opcode::AddImmediate, (to, number(written)));
            constants.zeros(b, to, (self.channel - written).div_ceil(VECTOR));
        }
    }

    /// Bytes from a plane's first row to the end of what its vectors write, zeros behind it included.
    fn written(&self) -> usize {
        let done = (self.rows - self.together()) * self.pitch() + VECTOR;
        done + self.plane.saturating_sub(done).next_multiple_of(VECTOR)
    }

    fn one_plane(
        &self,
        b: &mut Builder,
        from: Register,
        to: Register,
        constants: &Constants,
        guarded: bool,
    ) {
        let rows = self.together();
        // Zeros behind the vector of some rows, up to the next.
        let gap = (rows * self.pitch()).saturating_sub(VECTOR).div_ceil(VECTOR);
        let last = self.rows - rows;
        let vector = |b: &mut Builder, source: Register, target: Register| {
            constants.rows(b, source, target, guarded);
            if gap > 0 {
                let behind = b.emit(Opcode::AddImmediate, (target, number(VECTOR)));
                constants.zeros(b, behind, gap);
            }
        };
        if self.rows.div_ceil(rows) <= WRITTEN_OUT {
            for row in (0..=last).step_by(rows) {
                let source = moved(b, from, row * self.columns);
                let target = moved(b, to, row * self.pitch());
                vector(b, source, target);
            }
        } else {
            let (source, target) = (b.copy(from), b.copy(to));
            loop_over(b, self.rows / rows, "vectors of rows", |b| {
                vector(b, source, target);
                step(b, source, source, rows * self.columns);
                step(b, target, target, rows * self.pitch());
            });
        }
        if !self.rows.is_multiple_of(rows) {
            let source = moved(b, from, last * self.columns);
            let target = moved(b, to, last * self.pitch());
            constants.rows(b, source, target, guarded);
        }
        let done = last * self.pitch() + VECTOR;
        let behind = self.plane.saturating_sub(done).div_ceil(VECTOR);
        if behind > 0 {
            let target = moved(b, to, done);
            constants.zeros(b, target, behind);
        }
    }
}

impl Constants {
    /// A vector of rows. Guarded, nothing behind the operand's last block of 128 bytes is read.
    fn rows(&self, b: &mut Builder, source: Register, target: Register, guarded: bool) {
        let rows = if guarded {
            let address = b.emit(Opcode::MinU, (source, self.last));
            let turn = b.emit(Opcode::Sub, (source, address));
            let rows = b.load(Opcode::LoadVUnaligned, (address, 0), self.memory.0);
            b.emit(Opcode::Vror, (rows, turn))
        } else {
            b.load(Opcode::LoadVUnaligned, (source, 0), self.memory.0)
        };
        let rows = b.emit(Opcode::Vdelta, (rows, self.network));
        let rows = b.emit(Opcode::Vand, (rows, self.mask));
        let rows = b.emit(Opcode::Vxor, (rows, self.zeros));
        b.store(Opcode::StoreVUnaligned, (target, 0, rows), self.memory.1);
    }

    /// Vectors of zeros; moves the pointer.
    fn zeros(&self, b: &mut Builder, to: Register, count: usize) {
        loop_over(b, count, "zeros", |b| {
            b.store(Opcode::StoreVUnalignedNext, (to, 1, self.zeros), self.memory.1);
        });
    }
}

/// `source + bytes`, in a register of its own.
pub(super) fn moved(b: &mut Builder, source: Register, bytes: usize) -> Register {
    let result = b.fresh(source.class());
    step(b, result, source, bytes);
    result
}

/// `result = source + bytes`.
pub(super) fn step(b: &mut Builder, result: Register, source: Register, bytes: usize) {
    b.emit_to(result, Opcode::AddImmediate, (source, number(bytes)));
}
