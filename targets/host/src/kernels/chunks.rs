//! Products whose sums are rounded while they are near: a few images at a time, by a shift that is guessed from the last step, as few
//! tensors' largest magnitudes change their width from one step to the next. Where the guess was wrong, all is done once more: results
//! do not depend on it.

use core::sync::atomic::{AtomicU32, Ordering};

use super::finish::{Finish, Further, Narrow};
use super::geometry::ConvGeometry;
use super::launch::Product;
use super::threads;

/// Sums of a chunk, for each thread: half of a usual second-level cache.
const SUMS: usize = 128 * 1024;

/// Sums from which on they do not stay near.
const MANY: usize = 1 << 20;

/// Multiplications of a sum up to which its way to memory and back takes as long as they do.
const FEW: usize = 200;

/// A product by chunks of images.
pub(super) struct Chunks {
    geometry: ConvGeometry,
    forward: bool,
    images: usize,
    /// Elements of an image of the source, and of the result.
    image: [usize; 2],
}

impl Chunks {
    /// `None` where it would not pay: few sums, many multiplications for each, or weights that take longer to pack for each chunk than
    /// sums to go to memory.
    pub(super) fn of(product: &Product) -> Option<Chunks> {
        let (geometry, forward) = match *product {
            Product::Forward(geometry) => (geometry, true),
            Product::InputGradient(geometry) => (geometry, false),
            _ => return None,
        };
        let g = &geometry;
        let (input, output) = (g.in_channels * g.in_plane(), g.out_channels * g.out_plane());
        let image = if forward { [input, output] } else { [output, input] };
        let sums = g.batch * image[1];
        let threads = threads::threads();
        let images = (SUMS * threads / image[1].max(1) / threads * threads).max(threads);
        let chunks = g.batch.div_ceil(images);
        // Each phase of strides writes to all rows of an image.
        let strided = !forward && g.stride_height * g.stride_width > 1;
        let light = strided || g.multiplications() <= FEW * sums;
        let pays = sums >= MANY && chunks > 1 && light && chunks * g.weight_len() <= sums;
        pays.then_some(Chunks { geometry, forward, images, image })
    }

    /// The bytes of all sums, and how they were rounded; `hint` is the width of the largest of the last step plus one, if there was one.
    #[allow(clippy::too_many_arguments, reason = "the operands of one launch")]
    pub(super) fn run(
        &self,
        finish: &Finish,
        further: Further<'_>,
        run: &dyn Fn() -> [u32; 3],
        [source, w]: [&[i8]; 2],
        sums: &mut [i32],
        scratch: &mut [u8],
        out: &mut [i8],
        hint: &AtomicU32,
    ) -> Narrow {
        let narrow = |largest: u32| finish.narrow(|| largest, further, run);
        let width = |largest: u32| u32::BITS - largest.leading_zeros();
        let mut guess = hint.load(Ordering::Relaxed).checked_sub(1);
        loop {
            // Without a guess, sums are looked at alone.
            let mut rounded = guess.map(|bits| narrow(largest_of(bits)));
            let mut largest = 0;
            let [from, to] = self.image.map(|image| image * self.images);
            for (number, out) in out.chunks_mut(to).enumerate() {
                let images = out.len() / self.image[1];
                let geometry = ConvGeometry { batch: images, ..self.geometry };
                let product = match self.forward {
                    true => Product::Forward(geometry),
                    false => Product::InputGradient(geometry),
                };
                let source = &source[number * from..][..images * self.image[0]];
                let sums = &mut sums[..out.len()];
                largest = largest.max(product.run_i8(source, w, sums, scratch));
                if rounded.is_some_and(|rounded| rounded.shift != narrow(largest).shift)
                    && guess.is_none_or(|bits| width(largest) > bits)
                {
                    rounded = None;
                }
                if let Some(rounded) = &rounded {
                    rounded.round(sums, number * to, out);
                }
            }
            let exact = narrow(largest);
            if let Some(rounded) = rounded.filter(|rounded| rounded.shift == exact.shift) {
                hint.store(width(largest) + 1, Ordering::Relaxed);
                return rounded;
            }
            guess = Some(width(largest));
        }
    }
}

/// A magnitude of so many bits.
const fn largest_of(bits: u32) -> u32 {
    if bits == 0 { 0 } else { u32::MAX >> (u32::BITS - bits) }
}
