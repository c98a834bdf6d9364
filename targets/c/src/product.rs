//! Kernels that start with a product of signed bytes, as targets of C with product kernels of their own print them: the
//! product with its finish, then the loops behind it.

use trainc_ir::implementation::Signature;
use trainc_ir::numeric::Rounding;
use trainc_ir::product::{Convolution, Finish, Narrowing, Product};
use trainc_ir::program::Kernel;
use trainc_ir::{Op, TensorType};

use crate::behind::Behind;
use crate::text::Text;

/// Suffix of the functions that store results narrowed so; `None` if there are none.
fn named(narrowing: Narrowing) -> Option<&'static str> {
    match narrowing.rounding() {
        Rounding::HalfAway => Some("half_away"),
        Rounding::PseudoStochastic => Some("pseudo_stochastic"),
        Rounding::Truncate | Rounding::Floor => None,
    }
}

/// Suffix of the functions that store results.
pub fn suffix(finish: Option<Narrowing>) -> &'static str {
    finish.map_or("sums", |narrowing| named(narrowing).unwrap_or_default())
}

/// The C of whether a step looks at its sums' width, by the state `x2` of a shift that is kept.
pub const DUE: &str = "x2[0] <= 0.0f";

/// The C of that shift, of a width of `bits`.
pub fn kept_shift(bits: u8) -> String {
    let most = 32 - u32::from(bits);
    format!("x2[1] > 0.0f ? x2[1] < {most}.0f ? (int32_t)x2[1] : {most} : 0")
}

/// Sets the result's exponent and, if there is a shift, the rounding by it. `width` is the C of the bits of the sums'
/// largest magnitude; `round` prints how to round by `shift` to a lower clamp.
pub fn emit_finish(
    finish: Option<Narrowing>,
    out: &mut Text,
    width: &str,
    round: impl FnOnce(&mut Text, i8),
) {
    let exponent = "trainc_add32(x0_exponent[0], x1_exponent[0])";
    let (shift, low) = match finish {
        None => {
            out.line(format!("y0_exponent[0] = {exponent};"));
            return;
        }
        Some(Narrowing::Requantize { bits, low, .. }) => {
            out.line(format!("const int32_t width = {width};"));
            out.line(format!("const int32_t shift = trainc_maximum32(width - {bits}, 0);"));
            ("shift", low)
        }
        Some(Narrowing::Adaptive { bits, low, .. }) => {
            out.line(format!("int32_t shift = {};", kept_shift(bits)));
            out.open(format!("if ({DUE}) {{"));
            out.line(format!("const int32_t width = {width};"));
            out.line(format!("shift = trainc_maximum32(width - {bits}, 0);"));
            out.close();
            ("shift", low)
        }
        Some(Narrowing::Gradient { .. }) => {
            out.line(format!("const int64_t width = {width};"));
            out.line("const int64_t shift = trainc_maximum64(width - x2[0], 0);");
            ("(int32_t)shift", -127)
        }
        Some(Narrowing::Shift { amount, .. }) => {
            out.line(format!("const int32_t shift = {amount};"));
            ("shift", -127)
        }
    };
    out.line(format!("y0_exponent[0] = trainc_add32({exponent}, {shift});"));
    round(out, low);
}

/// See the module documentation.
#[derive(Debug)]
pub struct ProductKernel {
    /// Its sizes.
    pub convolution: Convolution,
    /// What becomes of the sums.
    pub finish: Option<Narrowing>,
    /// Type of their result.
    pub result: TensorType,
    /// What becomes of that.
    then: Then,
}

/// What follows a product with its finish.
#[derive(Debug)]
enum Then {
    /// Loops, or nothing.
    Loops(Behind),
    /// It is subtracted from weights by loops.
    SubtractedByLoops(Behind),
    /// The kernel subtracts it from weights.
    Subtracted,
}

impl ProductKernel {
    /// The product that a kernel starts with; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why it is none of those.
    pub fn of(signature: &Signature<'_>) -> Option<Result<ProductKernel, String>> {
        Some(ProductKernel::of_any(signature)?.and_then(|kernel| {
            if kernel.convolution.is_depthwise() {
                return Err("each channel is convolved by itself".into());
            }
            Ok(kernel)
        }))
    }

    /// The same, where channels may be convolved by themselves, too.
    ///
    /// # Errors
    /// Why it is none of those.
    pub fn of_any(signature: &Signature<'_>) -> Option<Result<ProductKernel, String>> {
        let fuses = |finish: &Finish| finish.narrowing().and_then(named).is_some();
        let product = Product::of(signature.ops(), signature.inputs, fuses)?;
        Some(product.and_then(Product::of_bytes).and_then(|p| ProductKernel::new(signature, &p)))
    }

    /// The convolution of each channel by itself that a kernel starts with; `None` if it starts with something else.
    ///
    /// # Errors
    /// Why it is none of those.
    pub fn of_depthwise(signature: &Signature<'_>) -> Option<Result<ProductKernel, String>> {
        let fuses = |finish: &Finish| finish.narrowing().and_then(named).is_some();
        let product = Product::of(signature.ops(), signature.inputs, fuses)?;
        let convolution = product.as_ref().ok()?.convolution().ok()?;
        convolution.is_depthwise().then(|| {
            product.and_then(Product::of_bytes).and_then(|p| ProductKernel::new(signature, &p))
        })
    }

    fn new(signature: &Signature<'_>, product: &Product) -> Result<ProductKernel, String> {
        let convolution = product.convolution()?;
        let behind = Behind::of(signature, product.ops, product.operands, &product.result);
        let finish = product.narrowing();
        let then = match (finish, &signature.ops()[product.ops..]) {
            (Some(Narrowing::Gradient { .. }), [Op::SaturatingSubtractFrom(_)]) => {
                Then::SubtractedByLoops(behind)
            }
            _ => Then::Loops(behind),
        };
        Ok(ProductKernel { convolution, finish, result: product.result.clone(), then })
    }

    /// The kernel whose product's own function subtracts its result, a rounded gradient, from weights, operand `x3`; as it is
    /// where anything else follows.
    #[must_use]
    pub fn subtracting(self) -> ProductKernel {
        let then = match self.then {
            Then::SubtractedByLoops(_) => Then::Subtracted,
            then => then,
        };
        ProductKernel { then, ..self }
    }

    /// Whether the product's own function subtracts its result from weights.
    pub fn subtracts(&self) -> bool {
        matches!(self.then, Then::Subtracted)
    }

    /// What follows the product's own function.
    fn behind(&self) -> Option<&Behind> {
        match &self.then {
            Then::Loops(behind) | Then::SubtractedByLoops(behind) => Some(behind),
            Then::Subtracted => None,
        }
    }

    /// Cycles of the loops behind it.
    pub fn rest_cycles(&self) -> u64 {
        self.behind().map_or(0, Behind::cycles)
    }

    /// Working memory, of which the product takes some itself.
    pub fn scratch_bytes(&self, own: usize) -> usize {
        self.behind().map_or(own, |behind| behind.scratch_bytes(own))
    }

    /// The kernel's function, and before it those that it calls; `body` prints the product's, of operands `x0`, `x1`, `x2`, `x3`
    /// and result `y0`, with their exponents, and `scratch`.
    ///
    /// # Errors
    /// If loops behind the product cannot be printed.
    pub fn emit(
        &self,
        name: &str,
        kernel: &Kernel,
        body: impl FnOnce(&mut Text),
    ) -> Result<String, String> {
        match self.behind() {
            Some(behind) => behind.emit(name, kernel, |name| Ok(self.function(name, body))),
            None => Ok(self.function(name, body)),
        }
    }

    /// The C of the finish's operand, if it has one: a width given at run time, or the state of a shift that is kept.
    fn third(&self) -> Option<&'static str> {
        match self.finish? {
            Narrowing::Gradient { .. } => Some("const int32_t *x2, "),
            Narrowing::Adaptive { .. } => Some("const float *x2, "),
            Narrowing::Requantize { .. } | Narrowing::Shift { .. } => None,
        }
    }

    /// The product's own function.
    fn function(&self, name: &str, body: impl FnOnce(&mut Text)) -> String {
        let mut out = Text::default();
        let result = if self.finish.is_some() { "int8_t" } else { "int32_t" };
        let third = self.third().unwrap_or_default();
        let weights = match self.subtracts() {
            true => "const int8_t *x3, const int32_t *x3_exponent, ",
            false => "",
        };
        out.long(format!(
            "static void {name}(const int8_t *x0, const int32_t *x0_exponent, const int8_t *x1, const int32_t *x1_exponent, {third}{weights}{result} *y0, int32_t *y0_exponent, uint8_t *scratch)"
        ));
        out.open("{");
        body(&mut out);
        out.close();
        out.finish()
    }
}
