//! Planes of bytes that fill vectors as they are: rows follow each other without room between them.
//!
//! | what | layout |
//! |---|---|
//! | planes of a vector or more | `[image][channel][vector]`, as in memory |
//! | several planes a vector, of one channel or two | `[images of a vector][channel]`, each vector `[row][channel][image][column]` |
//! | several planes a vector, several vectors a channel | `[images][channel][row][image][column]` |
//!
//! In all, a row of a vector lies a fixed distance behind the row before, and what is shifted in at a plane's border is padding.

use super::pool::{VECTOR, number};
use super::support::{loop_over, rotate_in, rotate_out};
use crate::machine::{Builder, Function, MachineError, Opcode, Register};

/// Most vectors of a plane: they are written out.
const LONGEST: usize = 8;
/// Fewest columns: a word.
const NARROWEST: usize = 4;
/// Most channels side by side in a vector: each takes products of its own.
const CHANNELS: usize = 2;

/// Planes `[image][channel][row][column]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sheet {
    pub(super) images: usize,
    pub(super) channels: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Sheet {
    /// Bytes of a plane.
    pub(super) fn plane(&self) -> usize {
        self.rows * self.columns
    }

    /// Planes of a vector.
    pub(super) fn planes(&self) -> usize {
        (VECTOR / self.plane()).max(1)
    }

    /// Vectors of a plane.
    pub(super) fn vectors(&self) -> usize {
        self.plane().div_ceil(VECTOR)
    }

    /// Images of a vector that is put in order.
    pub(super) fn beside(&self) -> usize {
        self.planes().min(1 << self.images.trailing_zeros())
    }

    /// Channels of a vector that is put in order.
    pub(super) fn channels_beside(&self) -> usize {
        self.planes() / self.beside()
    }

    /// Bytes from a row of a vector that is put in order to the next.
    pub(super) fn row(&self) -> usize {
        self.columns * self.planes()
    }

    /// Vectors, or groups of vectors of one plane, of some images: those of all channels.
    pub(super) fn groups(&self) -> usize {
        self.channels / self.channels_beside()
    }

    /// Vectors of all planes.
    pub(super) fn all_vectors(&self) -> usize {
        self.images * self.channels * self.plane() / VECTOR
    }

    /// Bytes of all planes.
    pub(super) fn bytes(&self) -> usize {
        self.images * self.channels * self.plane()
    }

    /// Whether planes fill vectors as they lie in memory.
    pub(super) fn fills(&self) -> bool {
        let plane = self.plane();
        let whole = match plane < VECTOR {
            true => self.rows.is_power_of_two(),
            false => plane.is_multiple_of(VECTOR) && self.vectors() <= LONGEST,
        };
        whole
            && self.columns.is_power_of_two()
            && (NARROWEST..=VECTOR).contains(&self.columns)
            && self.images > 0
            && self.channels > 0
            && self.channels.is_multiple_of(self.planes())
    }

    /// Whether planes of one channel or two fill vectors.
    pub(super) fn is_supported(&self) -> bool {
        self.fills()
            && self.channels_beside() <= CHANNELS
            && self.channels.is_multiple_of(self.planes() * self.channels_beside())
    }

    /// The vectors that go together when planes of one channel, or two, fill vectors.
    pub(super) fn beside_all(&self) -> Beside {
        Beside { sheet: *self, images: self.beside(), blocks: self.channels_beside() }
    }
}

/// Planes of some images side by side: of each row the images', one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    /// As they lie in memory.
    pub(super) sheet: Sheet,
    /// Images that go together, a power of two.
    pub(super) images: usize,
    /// Blocks of channels of an image that go together, likewise.
    pub(super) blocks: usize,
}

impl Beside {
    /// Vectors that are exchanged with each other.
    fn together(&self) -> usize {
        self.images * self.blocks
    }

    /// Whether vectors stay as they lie in memory.
    pub(super) fn is_ordered(&self) -> bool {
        self.together() == 1
    }

    /// Bytes of a block of an image's channels.
    fn block(&self) -> usize {
        self.sheet.channels * self.sheet.plane() / self.blocks
    }

    /// The same planes of 32-bit numbers.
    pub(super) fn wide(&self) -> Beside {
        let columns = 4 * self.sheet.columns;
        Beside { sheet: Sheet { columns, ..self.sheet }, ..*self }
    }

    /// Whether rows come apart within vectors.
    pub(super) fn is_divisible(&self) -> bool {
        self.is_ordered() || 2 * self.sheet.columns <= VECTOR
    }

    pub(super) fn is_supported(&self) -> bool {
        self.sheet.fills()
            && self.sheet.images.is_multiple_of(self.images)
            && self.sheet.channels.is_multiple_of(self.blocks * self.sheet.planes())
    }

    /// `void side_by_side(planes, vectors in order)`, or back.
    pub(super) fn function(&self, name: &str, back: bool) -> Result<Function, MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose(match back {
            false => "Puts planes of several images side by side.",
            true => "Puts planes in the order image, channel.",
        });
        let (from, to) = (b.parameter(0), b.parameter(1));
        let (source, target) = (b.object("from"), b.object("to"));
        let (together, block) = (self.together(), self.block());
        let image = block * self.blocks;
        let starts = (0..together).map(|i| i % self.images * image + i / self.images * block);
        let outside = if back { to } else { from };
        let pointers: Vec<Register> =
            starts.map(|at| b.emit(Opcode::AddImmediate, (outside, number(at)))).collect();
        let inside = b.copy(if back { from } else { to });
        let unit = number(self.sheet.columns);
        loop_over(&mut b, self.sheet.images / self.images, "images", |b| {
            loop_over(b, block / VECTOR, "channels", |b| {
                let loaded: Vec<Register> = (0..together)
                    .map(|i| if back { inside } else { pointers[i] })
                    .map(|at| b.load(Opcode::LoadVNext, (at, 1), source))
                    .collect();
                let turned = match back {
                    false => rotate_in(b, &loaded, unit, together),
                    true => rotate_out(b, &loaded, unit),
                };
                for (i, vector) in turned.into_iter().enumerate() {
                    let at = if back { pointers[i] } else { inside };
                    b.store(Opcode::StoreVNext, (at, 1, vector), target);
                }
            });
            for &pointer in &pointers {
                let rest = number(self.images * image) - number(block);
                b.emit_to(pointer, Opcode::AddImmediate, (pointer, rest));
            }
        });
        b.finish(None)
    }

    /// An estimate of the packets of [`Self::function`].
    pub(super) fn packets(&self) -> usize {
        match self.together().ilog2() as usize {
            0 => 0,
            stages => self.sheet.all_vectors() * (stages + 1) / 2 + 30,
        }
    }
}

/// A vector of a plane shifted by so many bytes, a vector at most: what is shifted in comes from the vectors before and after. The
/// control is the distance without its sign.
pub(super) fn rows_apart(
    b: &mut Builder,
    result: Register,
    own: Register,
    [before, after]: [Register; 2],
    (distance, control): (isize, Register),
) {
    match (distance < 0, distance.unsigned_abs() == VECTOR) {
        (true, true) => b.emit_to(result, Opcode::Vassign, (before,)),
        (true, false) => b.emit_to(result, Opcode::Vlalign, (own, before, control)),
        (false, true) => b.emit_to(result, Opcode::Vassign, (after,)),
        (false, false) => b.emit_to(result, Opcode::Valign, (after, own, control)),
    }
}
