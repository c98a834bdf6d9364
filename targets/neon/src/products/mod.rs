//! Products of 8-bit integers: convolutions, their gradients and matrix products, alone or with what makes 8-bit
//! integers of their sums.
//!
//! One scheme for all levels: both operands are packed into panels of 8 rows or lanes (`support/trainc_neon.h`), a tile kernel
//! multiplies pairs of panels into 8 by 8 sums, and a last pass rounds and orders them. What differs between levels is the
//! tile kernel and the order of bytes in a block of a panel, not their sizes. Where processors multiply a lane's k as they lie
//! (`sdot`, `smmla`), only rows are packed ([`in_place`]), or nothing is ([`few`], [`outer`]), if that takes fewer instructions.
//! Convolutions of each channel by itself have a kernel of their own there ([`depthwise`]).

mod cost;
mod depthwise;
mod few;
mod float;
mod gradient;
mod in_place;
mod outer;
pub(crate) mod parts;
mod phases;
mod scales;
mod shape;
mod windows;

use trainc_c::product::{self, ProductKernel};
use trainc_c::text::{self, Text};
use trainc_c::{CKernel, Emitted};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::product::{Convolution, Narrowing, Pass};
use trainc_ir::program::Kernel;

use crate::level::Level;
use crate::loops::Loops;
pub(crate) use depthwise::DepthwiseProduct;
use few::FewImages;
pub(crate) use float::FloatProduct;
use gradient::GradientProduct;
use in_place::{GradientInPlace, ShiftedGradient, WindowsInPlace};
use parts::{Parts, of_panel};
use windows::WindowProduct;

/// Instructions of a call: set-up of panels, loops.
const CALL: u64 = 500;

/// A kernel that starts with a product.
#[derive(Debug)]
pub(crate) struct Product {
    level: Level,
    kernel: ProductKernel,
    /// Working memory of the product itself.
    scratch_bytes: usize,
}

impl Product {
    /// The name for readers.
    pub(crate) const NAME: &str = "products in panels";

    /// See [`ProductKernel::of`].
    pub(crate) fn of(level: Level, signature: &Signature<'_>) -> Option<Result<Product, String>> {
        let product = ProductKernel::of(signature)?.and_then(|kernel| Product::new(level, kernel));
        Some(product.and_then(|product| {
            let c = &product.kernel.convolution;
            // Small matrices fill no panels.
            let matrices = c.groups > 1 && c.swapped;
            if matrices && product.cost() >= Loops::of(level, signature).cost() {
                return Err("loops take fewer instructions".into());
            }
            Ok(product)
        }))
    }

    fn new(level: Level, kernel: ProductKernel) -> Result<Product, String> {
        let c = &kernel.convolution;
        let bytes = 128 * (c.places() + 64) * (c.channels + 16);
        if c.images * bytes >= 1 << 38 || c.sums() >= 1 << 28 {
            return Err("its offsets exceed 32 bits".into());
        }
        let scratch_bytes = Way::of(level, c, kernel.finish).scratch_bytes(level, c);
        if scratch_bytes >= 1 << 31 {
            return Err("its panels take 2 GiB or more".into());
        }
        Ok(Product { level, kernel, scratch_bytes })
    }

    fn way(&self) -> Way<'_> {
        Way::of(self.level, &self.kernel.convolution, self.kernel.finish)
    }

    fn body(&self, parts: &mut Parts<'_>, out: &mut Text) {
        let (level, finish) = (self.level, self.kernel.finish);
        match self.way() {
            Way::Outer => outer::emit(&self.kernel.convolution, level, finish, out),
            Way::FewImages(product) => product.emit(finish, parts, out),
            Way::WindowsInPlace(product) => product.emit(finish, parts, out),
            Way::GradientInPlace(product) => product.emit(finish, parts, out),
            Way::ShiftedGradient(product) => product.emit(finish, parts, out),
            Way::Gradient(product) => {
                emit_level(level, out);
                product.emit(level, finish, parts, out);
            }
            Way::Windows(product) => {
                emit_level(level, out);
                product.emit(level, finish, parts, out);
            }
        }
    }
}

/// What a product is made by.
#[derive(Debug)]
enum Way<'a> {
    Outer,
    FewImages(FewImages<'a>),
    Windows(WindowProduct<'a>),
    Gradient(GradientProduct<'a>),
    WindowsInPlace(WindowsInPlace<'a>),
    GradientInPlace(GradientInPlace<'a>),
    ShiftedGradient(ShiftedGradient<'a>),
}

impl<'a> Way<'a> {
    /// The way of the fewest instructions, about.
    fn of(level: Level, c: &'a Convolution, finish: Option<Narrowing>) -> Way<'a> {
        if outer::suits(c, finish) {
            return Way::Outer;
        }
        let panels = cost::instructions(c, level, finish.is_some());
        let less = |instructions: usize| (instructions as u64) < panels;
        let few = FewImages::of(level, c, finish);
        if let Some(product) = few.filter(|product| less(product.instructions())) {
            return Way::FewImages(product);
        }
        match c.pass {
            Pass::Gradient => {
                let in_place = GradientInPlace::of(level, c, finish)
                    .map(|product| (product.instructions(), Way::GradientInPlace(product)));
                let shifted = ShiftedGradient::of(level, c, finish)
                    .map(|product| (product.instructions(), Way::ShiftedGradient(product)));
                let least = [in_place, shifted].into_iter().flatten().min_by_key(|(n, _)| *n);
                least
                    .filter(|(instructions, _)| less(*instructions))
                    .map_or_else(|| Way::Gradient(GradientProduct::new(c)), |(_, way)| way)
            }
            Pass::Forward | Pass::Error => WindowsInPlace::of(level, c, finish)
                .filter(|product| less(product.instructions()))
                .map_or_else(|| Way::Windows(WindowProduct::new(c, finish)), Way::WindowsInPlace),
        }
    }

    fn scratch_bytes(&self, level: Level, c: &Convolution) -> usize {
        match self {
            Way::Outer => outer::scratch_bytes(c, level),
            Way::FewImages(product) => product.scratch_bytes(),
            Way::Windows(product) => product.scratch_bytes(),
            Way::Gradient(product) => product.scratch_bytes(),
            Way::WindowsInPlace(product) => product.scratch_bytes(),
            Way::GradientInPlace(product) => product.scratch_bytes(),
            Way::ShiftedGradient(product) => product.scratch_bytes(),
        }
    }
}

/// Declares the functions of the processor's level, where that is known at run time alone.
fn emit_level(level: Level, out: &mut Text) {
    if level == Level::Dispatch {
        out.line("const struct trainc_level *const level = trainc_level();");
    }
}

impl Implementation for Product {
    fn name(&self) -> &'static str {
        Product::NAME
    }

    fn cost(&self) -> Cost {
        let c = &self.kernel.convolution;
        let product = match self.way() {
            Way::Outer => CALL + outer::instructions(c, self.level),
            Way::FewImages(product) => product.instructions() as u64,
            Way::WindowsInPlace(product) => product.instructions() as u64,
            Way::GradientInPlace(product) => product.instructions() as u64,
            Way::ShiftedGradient(product) => product.instructions() as u64,
            Way::Windows(_) | Way::Gradient(_) => {
                cost::instructions(c, self.level, self.kernel.finish.is_some())
            }
        };
        Cost::new(product + self.kernel.rest_cycles())
    }

    fn scratch_bytes(&self) -> usize {
        self.kernel.scratch_bytes(self.scratch_bytes)
    }
}

impl CKernel for Product {
    fn emit(&self, name: &str, kernel: &Kernel) -> Result<Emitted, String> {
        let mut parts = Parts::new(name);
        let text = self.kernel.emit(name, kernel, |out| self.body(&mut parts, out))?;
        Ok(Emitted::from(parts.finish() + &text))
    }
}

/// The names of a product's operands, as [`Convolution::operands`] orders them.
fn operands(c: &Convolution) -> [&'static str; 2] {
    c.operands().map(|operand| ["x0", "x1"][operand])
}

/// The last argument of the storing functions, where the rounding is taken.
fn argument(finish: Option<Narrowing>) -> &'static str {
    if finish.is_some() { ", rounding" } else { "" }
}

/// The C of the width of the sums, whose magnitudes `bits` holds.
const WIDTH: &str = "32 - trainc_leading_zeros(bits)";

/// Sets the result's exponent and, if there is a shift, declares `rounding`. `bits` holds the sums' magnitudes.
fn emit_finish(finish: Option<Narrowing>, out: &mut Text) {
    product::emit_finish(finish, out, WIDTH, |out, low| {
        out.line("struct trainc_rounding rounding;");
        out.line(format!("trainc_set_rounding(&rounding, shift, {low});"));
        // Kept and constant shifts know nothing of the sums at hand.
        if let Some(Narrowing::Requantize { .. } | Narrowing::Gradient { .. }) = finish {
            out.line("trainc_round_short(&rounding, bits);");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A convolution of planes as large as its result's, up to the stride.
    fn convolution(
        pass: Pass,
        images: usize,
        [channels, outputs]: [usize; 2],
        size: usize,
        tap: usize,
        stride: usize,
    ) -> Convolution {
        let places = size.div_ceil(stride);
        Convolution {
            pass,
            swapped: false,
            images,
            groups: 1,
            channels,
            outputs,
            height: size,
            width: size,
            rows: places,
            columns: places,
            taps: [tap; 2],
            strides: [stride; 2],
            dilations: [1; 2],
            pads: [tap / 2; 4],
            padding: 0,
        }
    }

    #[test]
    fn operands_of_gradients_are_copied_where_that_takes_less() {
        let copied = |level, channels, size, stride| {
            let c = convolution(Pass::Gradient, 8, channels, size, 3, stride);
            let sums =
                Some(Narrowing::Gradient { rounding: trainc_ir::numeric::Rounding::HalfAway });
            matches!(Way::of(level, &c, sums), Way::ShiftedGradient(_))
        };
        for level in [Level::Dotprod, Level::I8mm] {
            assert!(copied(level, [16, 16], 32, 1) && copied(level, [16, 32], 32, 2));
            assert!(copied(level, [64, 64], 8, 1));
            // Channels fill no panels, columns no unit of 8.
            assert!(!copied(level, [3, 16], 32, 1) && !copied(level, [64, 64], 4, 1));
        }
        // Errors are read in place by `sdot` where rows have whole units.
        assert!(!copied(Level::Dotprod, [32, 32], 20, 1) && copied(Level::I8mm, [32, 32], 20, 1));
        assert!(!copied(Level::Baseline, [16, 16], 32, 1));
    }

    #[test]
    fn lanes_are_read_in_place_where_that_takes_less() {
        let narrowing =
            Some(Narrowing::Gradient { rounding: trainc_ir::numeric::Rounding::HalfAway });
        let way = |level, pass, images, channels, size, tap, stride| {
            let c = convolution(pass, images, channels, size, tap, stride);
            match Way::of(level, &c, narrowing) {
                Way::Outer => "outer",
                Way::FewImages(_) => "few images",
                Way::Windows(_) | Way::Gradient(_) => "panels",
                Way::WindowsInPlace(_) | Way::GradientInPlace(_) | Way::ShiftedGradient(_) => {
                    "in place"
                }
            }
        };
        use Pass::{Error, Forward, Gradient};
        for level in [Level::Dotprod, Level::I8mm] {
            for pass in [Forward, Error, Gradient] {
                assert_eq!(way(level, pass, 1, [16, 16], 32, 3, 1), "in place", "{pass:?}");
                assert_eq!(way(level, pass, 4, [16, 32], 32, 3, 2), "in place", "{pass:?}");
                assert_eq!(way(level, pass, 2, [24, 144], 16, 1, 1), "in place", "{pass:?}");
            }
            assert_eq!(way(level, Forward, 1, [400, 120], 1, 1, 1), "few images");
            assert_eq!(way(level, Error, 4, [400, 120], 1, 1, 1), "few images");
            assert_eq!(way(level, Gradient, 2, [400, 120], 1, 1, 1), "outer");
            // Most of 2x2 windows' taps meet padding, which panels of images leave out.
            assert_eq!(way(level, Forward, 16, [64, 64], 2, 3, 1), "panels");
        }
        for level in [Level::Armv7, Level::Baseline, Level::Dispatch] {
            assert_eq!(way(level, Forward, 1, [16, 16], 32, 3, 1), "panels");
            assert_eq!(way(level, Forward, 1, [400, 120], 1, 1, 1), "panels");
        }
    }
}
