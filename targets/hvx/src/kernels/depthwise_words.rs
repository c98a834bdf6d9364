//! The kernels of a depthwise convolution as words that products take: of each channel its rows, a word each, and what the 128
//! that is added to every position adds, times -1.

use super::kernel::DataObject;
use super::pool::{VECTOR, gather, number, table};
use super::support::loop_over;
use crate::machine::{Builder, Function, MachineError, Opcode};

/// Channels of a vector, and words of a channel.
const CHANNELS: usize = 8;
pub(super) const WORDS: usize = 4;
/// Most rows and columns: a word is left for the sum.
const ROWS: usize = WORDS - 1;
const COLUMNS: usize = 4;

/// Kernels `[channel][row][column]`, i8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelWords {
    pub(super) channels: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Whether the columns of a row are turned around.
    pub(super) turned: bool,
}

impl KernelWords {
    pub(super) fn is_supported(&self) -> bool {
        let fits = (1..=ROWS).contains(&self.rows) && (1..=COLUMNS).contains(&self.columns);
        fits && gather(&self.places()).is_some()
    }

    /// Bytes of the words.
    pub(super) fn bytes(&self) -> usize {
        4 * WORDS * self.channels.next_multiple_of(CHANNELS)
    }

    fn vectors(&self) -> usize {
        self.channels.div_ceil(CHANNELS)
    }

    /// An estimate of the packets of [`Self::function`].
    pub(super) fn packets(&self) -> usize {
        7 * self.vectors() + 15
    }

    /// Where the bytes of a vector's kernels go.
    fn places(&self) -> Vec<usize> {
        let row = |row: usize| (0..self.columns).map(move |column| 4 * row + column);
        let kernel =
            |channel: usize| (0..self.rows).flat_map(row).map(move |at| 4 * WORDS * channel + at);
        (0..CHANNELS).flat_map(kernel).collect()
    }

    /// `void words(kernels, words)`, and the table that it reads.
    pub(super) fn function(&self, name: &str) -> Result<(Function, DataObject), MachineError> {
        let mut b = Builder::new(name, 2);
        b.purpose("Rows of kernels in words, with their sums.");
        let (weights, words) = (b.parameter(0), b.parameter(1));
        let memory = (b.object("kernels"), b.object("words"), b.object("table"));
        let places = self.places();
        let (mut mask, mut turn, mut sums) = ([0; VECTOR], [0; VECTOR], [0; VECTOR]);
        places.iter().for_each(|&at| mask[at] = 0xff);
        // Column i comes from columns - 1 - i, which differ in the same bits throughout, or not at all.
        for &at in &places {
            turn[at] = ((at % 4) ^ (self.columns - 1 - at % 4)) as u8;
        }
        (0..VECTOR).filter(|at| at / 4 % WORDS == ROWS).for_each(|at| sums[at] = 0xff);
        let network = gather(&places).unwrap_or([0; VECTOR]);
        let table = table(name, [&network, &mask, &turn, &sums]);
        let address = b.address(&table.symbol, 0);
        let [network, mask, turn, sums] =
            [0, 1, 2, 3].map(|i| b.load(Opcode::LoadV, (address, i), memory.2));
        let all = b.constant(-1);
        let sums = b.emit(Opcode::QandVR, (sums, all));
        let bias = b.constant(-128);
        let bias = b.emit(Opcode::VsplatB, (bias,));
        let [one, two] = [1, 2].map(|words| b.constant(number(VECTOR - 4 * words)));
        let taps = self.rows * self.columns;
        // Nothing behind the kernels' last block of 128 bytes is read.
        let readable = (self.channels * taps).next_multiple_of(VECTOR) - VECTOR;
        let last = b.emit(Opcode::AddImmediate, (weights, number(readable)));
        let (from, to) = (b.copy(weights), b.copy(words));
        loop_over(&mut b, self.vectors(), "channels", |b| {
            let address = b.emit(Opcode::MinU, (from, last));
            let distance = b.emit(Opcode::Sub, (from, address));
            let rows = b.load(Opcode::LoadVUnaligned, (address, 0), memory.0);
            let rows = b.emit(Opcode::Vror, (rows, distance));
            let rows = b.emit(Opcode::Vdelta, (rows, network));
            let mut rows = b.emit(Opcode::Vand, (rows, mask));
            if self.turned {
                rows = b.emit(Opcode::Vdelta, (rows, turn));
            }
            let mut sum = b.emit(Opcode::VrmpyBBv, (rows, bias));
            for words in [one, two] {
                let before = b.emit(Opcode::Vror, (sum, words));
                sum = b.emit(Opcode::VaddW, (sum, before));
            }
            let both = b.emit(Opcode::Vmux, (sums, sum, rows));
            b.store(Opcode::StoreVNext, (to, 1, both), memory.1);
            b.emit_to(from, Opcode::AddImmediate, (from, number(CHANNELS * taps)));
        });
        Ok((b.finish(None)?, table))
    }
}
