//! Integer statistics and sums of batch normalization: a kernel sums codes and products of all channels, loops over channels make
//! floats of them.

use std::fmt::Write as _;

use trainc_ir::implementation::{Memory, Signature};
use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Expr, LoopKernel, Role, Unary};
use trainc_ir::numeric::exponent;
use trainc_ir::{Element, Op, TensorType};

use crate::glue::{Glue, Printed, parameters};
use crate::kernels::ChannelSums;
use crate::machine::MachineError;
use crate::select::{SelectError, select};

/// Packets of a channel's floats: of statistics, and of gradients.
const STATISTICS: u64 = 8;
const GRADIENTS: u64 = 9;
/// Packets of a call.
const CALL: u64 = 30;
/// Bits of a code's product with another.
const PRODUCT_BITS: u32 = 14;

/// Statistics of channels, or the gradients of scale and bias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelFloats {
    sums: ChannelSums,
    inputs: Vec<TensorType>,
    outputs: Vec<TensorType>,
}

impl ChannelFloats {
    /// The operation that a kernel is; `None` if it is none.
    ///
    /// # Errors
    /// Why its loops serve.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Result<ChannelFloats, String>> {
        let Signature { op, inputs, outputs, .. } = *signature;
        let squares = match op {
            Op::IntegerBatchStatistics(_) => true,
            Op::IntegerBatchNormSums(_) => false,
            _ => return None,
        };
        let [images, channels, space @ ..] = inputs.first()?.shape.dims() else { return None };
        let positions = space.iter().product();
        let sums = ChannelSums { images: *images, channels: *channels, positions, squares };
        let owned = |types: &[&TensorType]| types.iter().map(|&ty| ty.clone()).collect();
        Some(
            sums.is_supported()
                .then(|| ChannelFloats { sums, inputs: owned(inputs), outputs: owned(outputs) })
                .ok_or_else(|| "its planes are no whole parts of vectors".into()),
        )
    }

    /// The floats of all channels, from the operands and, behind them, two sums (I32) of each channel.
    fn floats(&self) -> LoopKernel {
        let channels = self.sums.channels;
        let words = TensorType::new([channels], Element::I32);
        let mut inputs: Vec<&TensorType> = self.inputs.iter().collect();
        let own = inputs.len();
        inputs.extend([&words, &words]);
        let outputs: Vec<&TensorType> = self.outputs.iter().collect();
        let mut b = LoopBuilder::new(&inputs, &outputs, false);
        let [sums, products] = [own, own + 1].map(|i| b.input(i));
        let [first, second] = [0, 1].map(|i| b.output(i));
        let factors: Vec<[Expr; 2]> = (0..if self.sums.squares { 1 } else { 2 })
            .map(|i| {
                let e = b.input_exponent(i);
                exponent::power_of_two_factors(&mut b, e)
            })
            .collect();
        let scaled = |x: Expr, i: usize| {
            let [first, second] = &factors[i];
            x * first.clone() * second.clone()
        };
        let count = self.sums.images * self.sums.positions;
        b.for_("c", channels, |b, c| {
            let [sum, product] = [(sums, "sum"), (products, "product")].map(|(buffer, name)| {
                let value = b.load(buffer, c.clone());
                b.let_(name, value)
            });
            if self.sums.squares {
                let divided = |x: Expr| x.divide(Expr::f32(count as f32));
                b.store(first, c.clone(), scaled(divided(float(sum.clone())), 0));
                let spread = self.spread(b, sum, product);
                let variance = divided(divided(spread));
                b.store(second, c, scaled(scaled(variance, 0), 0));
            } else {
                let [mean, inverse] = [2, 3].map(|i| b.load(b.input(i), c.clone()));
                let bias = b.let_("bias", scaled(float(sum), 1));
                let product = scaled(scaled(float(product), 1), 0);
                let slope = (product - mean * bias.clone()) * inverse;
                let slope = b.let_("slope", slope);
                b.store(first, c.clone(), slope);
                b.store(second, c, bias);
            }
        });
        b.finish()
    }

    /// `count * squares - sum * sum` as a float, rounded once. It is not negative, and below 2^46.
    fn spread(&self, b: &mut LoopBuilder, sum: Expr, squares: Expr) -> Expr {
        let count = self.sums.images * self.sums.positions;
        if (count * count) << PRODUCT_BITS < 1 << 31 {
            return float(Expr::i32(count as i32) * squares - sum.clone() * sum);
        }
        let [sum, squares] = [sum.extend(), squares.extend()];
        let spread = Expr::i64(count as i64) * squares - sum.clone() * sum;
        let spread = b.let_("spread", spread);
        let part = |x: Expr| float(x.and(Expr::i64(0xff_ffff)).truncate());
        let high = part(spread.clone().shift_right(Expr::i64(24)));
        high * Expr::f32(16_777_216.0) + part(spread)
    }
}

/// Rounded once, as the floats of wide integers are.
fn float(x: Expr) -> Expr {
    x.unary(Unary::ToFloat)
}

impl Glue for ChannelFloats {
    const NAME: &str = "channel sums";

    fn packets(&self) -> u64 {
        let channel = if self.sums.squares { STATISTICS } else { GRADIENTS };
        self.sums.packets() as u64 + self.sums.channels as u64 * channel + CALL
    }

    fn scratch_bytes(&self) -> Result<usize, MachineError> {
        Ok(self.sums.memory_bytes())
    }

    fn print(&self, name: &str, head: &str) -> Result<Printed, SelectError> {
        let [own, finish] = ["sums", "floats"].map(|part| format!("{name}_{part}"));
        let loops = self.floats();
        let selected = select(&finish, "Floats of each channel's sums.", &loops, Memory::Caller)?;
        let operands = self.inputs.len();
        let [sums, products] = self.sums.results();
        let place = |at: usize| format!("(const int32_t *)(const void *)(scratch + {at})");
        let buffers = parameters(&loops.buffers, false);
        let arguments: Vec<String> = loops
            .buffers
            .iter()
            .zip(&buffers)
            .map(|(buffer, (_, name))| match buffer.role {
                Role::Input(i) if i == operands => place(sums),
                Role::Input(i) if i == operands + 1 => place(products),
                _ => name.clone(),
            })
            .collect();
        let taken: Vec<String> = buffers.iter().map(|(ty, name)| format!("{ty}{name}")).collect();
        // Codes that are summed, and what they are multiplied by.
        let [codes, others] = if self.sums.squares { ["x0"; 2] } else { ["x1", "x0"] };
        let mut source = String::new();
        let _ = write!(
            source,
            "void {own}(const int8_t *codes, const int8_t *others, uint8_t *scratch);\n\
             void {finish}({});\n\n\
             {head}\n{{\n    {own}({codes}, {others}, scratch);\n    {finish}({});\n}}\n",
            taken.join(", "),
            arguments.join(",\n        "),
        );
        let functions = vec![self.sums.function(&own)?, selected.function];
        let routines = selected.routines;
        Ok(Printed { functions, tables: String::new(), source, routines })
    }
}
