//! How an operation runs: its loops as OpenCL kernels, or a kernel made for it.

use trainc_ir::implementation::{Cost, Implementation};
use trainc_ir::loops::LoopKernel;
use trainc_ir::program::Kernel;

use crate::apart::Apart;
use crate::bits::Bits;
use crate::bytes::Bytes;
use crate::loops::Loops;
use crate::printed::PrintedPhase;
use crate::tiled::Tile;

/// How an operation runs.
#[derive(Debug)]
pub(crate) enum Way {
    /// As its loops.
    Loops(Loops),
    /// As a convolution of bits.
    Bits(Bits),
    /// As a convolution of bytes.
    Bytes(Bytes),
}

impl Way {
    /// The buffers that pointers number, the same of all its kernels.
    pub(crate) fn buffers(&self) -> Result<&LoopKernel, String> {
        match self {
            Way::Loops(loops) => loops.buffers(),
            Way::Bits(bits) => Ok(&bits.kernel),
            Way::Bytes(bytes) => Ok(&bytes.kernel),
        }
    }

    /// Its kernels in order; `name` gives each a name that no other has.
    ///
    /// # Errors
    /// If the loops are not well formed.
    pub(crate) fn print(
        &self,
        name: &mut dyn FnMut(&str) -> String,
        own: &str,
    ) -> Result<Vec<PrintedPhase>, String> {
        match self {
            Way::Loops(loops) => loops.print(name, own),
            Way::Bits(bits) => {
                let plain = bits.print(name, own);
                let tiled = Tile::of(bits).map(|tile| tile.print(bits, name, own));
                let mut all = vec![plain];
                all.extend(tiled);
                if bits.marks() > 0 {
                    all.extend(Apart::print(bits, name, own));
                    all[0].first = Apart::pays(bits).then_some(all.len() - 2);
                }
                Ok(all)
            }
            Way::Bytes(bytes) => Ok(bytes.print(name, own)),
        }
    }
}

impl Implementation for Way {
    fn name(&self) -> &'static str {
        match self {
            Way::Loops(_) => "loops",
            Way::Bits(_) => Bits::NAME,
            Way::Bytes(_) => Bytes::NAME,
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Way::Loops(loops) => loops.cost(),
            Way::Bits(bits) => Apart::cost(bits),
            Way::Bytes(bytes) => bytes.cost(),
        }
    }

    fn scratch_bytes(&self) -> usize {
        match self {
            Way::Loops(loops) => loops.scratch_bytes(),
            Way::Bits(bits) => bits.marks(),
            Way::Bytes(bytes) => bytes.scratch_bytes(),
        }
    }
}

/// How a kernel runs.
///
/// # Errors
/// If its program was planned for another target.
pub(crate) fn of(kernel: &Kernel) -> Result<&Way, String> {
    let found = kernel.selection.implementation();
    found.ok_or_else(|| "the program was planned for another target".to_string())
}
