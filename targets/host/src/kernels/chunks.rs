//! Products whose sums are rounded while they are near: a few images at a time, by a shift that is guessed from the last step, as few
//! tensors' largest magnitudes change their width from one step to the next. Where the guess was wrong, all sums are rounded once more,
//! and made once more where they were not kept: results do not depend on it.

use super::convolution::Near;
use super::finish::{Finish, Further, Narrow};
use super::geometry::{ConvGeometry, Pass};
use super::launch::Product;
use super::memo::Hint;
use super::path::active_path;
use super::products::near_i8;

/// Sums of a thread that are near: a quarter of a usual second-level cache.
const SUMS: usize = 64 * 1024;

/// Most sums of an image.
const MOST: usize = 128 * 1024;

/// Sums from which on all of them are not.
const MANY: usize = 1 << 20;

/// Multiplications of a sum up to which its way to memory takes as long as they do: then it is not kept.
const FEW: usize = 200;

/// A product by chunks of images.
pub(super) struct Chunks<'p> {
    product: &'p Product,
    geometry: &'p ConvGeometry,
    pass: Pass,
    /// Elements of an image of the result.
    image: usize,
    /// Whether sums go to memory, too.
    keeps: bool,
}

/// Bytes that threads write to, each its own.
struct Bytes(*mut i8);
// SAFETY: each thread writes the bytes of its own images.
unsafe impl Sync for Bytes {}

impl<'p> Chunks<'p> {
    /// `None` where sums are few, or those of an image many.
    pub(super) fn of(product: &'p Product) -> Option<Self> {
        let (geometry, pass) = match product {
            Product::Forward(geometry) => (geometry, Pass::Forward),
            Product::InputGradient(geometry) => (geometry, Pass::InputGradient),
            _ => return None,
        };
        let g = geometry;
        let image = match pass {
            Pass::Forward => g.out_channels * g.out_plane(),
            _ => g.in_channels * g.in_plane(),
        };
        let sums = g.batch * image;
        let keeps = g.multiplications() > FEW * sums;
        let pays = sums >= MANY && image <= MOST;
        pays.then_some(Self { product, geometry, pass, image, keeps })
    }

    /// The bytes of all sums, and how they were rounded.
    #[allow(clippy::too_many_arguments, reason = "the operands of one launch")]
    pub(super) fn run(
        &self,
        finish: &Finish,
        further: Further<'_>,
        run: &dyn Fn() -> [u32; 3],
        operands: [&[i8]; 2],
        sums: &mut [i32],
        scratch: &mut [u8],
        out: &mut [i8],
        hint: Hint<'_>,
    ) -> Narrow {
        let narrow = |largest: u32| finish.narrow(|| largest, further, run);
        if let Some(last) = hint.last() {
            let guess = narrow(last);
            assert_eq!(out.len(), self.geometry.batch * self.image, "bytes of all images");
            let bytes = &Bytes(out.as_mut_ptr());
            let take = &|first: usize, sums: &[i32]| {
                let start = first * self.image;
                // SAFETY: those of images that this thread alone has the sums of, of which there are `batch`.
                let out = unsafe {
                    core::slice::from_raw_parts_mut(bytes.0.wrapping_add(start), sums.len())
                };
                guess.round_here(sums, start, out);
            };
            let images = (SUMS / self.image.max(1)).max(1);
            let near = Near { images, keeps: self.keeps, take };
            let (pass, g) = (self.pass, self.geometry);
            if let Some(largest) = near_i8(active_path(), pass, g, operands, sums, scratch, &near) {
                hint.tell(largest);
                let exact = narrow(largest);
                if exact.shift == guess.shift {
                    return guess;
                }
                if self.keeps {
                    exact.round(sums, 0, out);
                    return exact;
                }
            }
        }
        let largest = self.product.run_i8(operands[0], operands[1], sums, scratch, None);
        hint.tell(largest);
        let exact = narrow(largest);
        exact.round(sums, 0, out);
        exact
    }
}
