//! Which kernels of a program are products of 8-bit integers that [`kernels`](crate::kernels) has, and their glue: a C
//! function that packs weights, calls the assembly and sets the exponent.

use std::fmt::Write as _;

use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul};
use trainc_ir::{Element, Op, Scale, TensorType};

use crate::kernels::{
    DataObject, Kernel, Span, StaticShift, WeightGradient, WeightStrides, WindowProduct,
    convolution, static_convolution,
};
use crate::machine::{Function, MachineError};

/// A product with its finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// A sum over windows.
    Windows {
        product: WindowProduct,
        /// Of the weights, operand 1.
        strides: WeightStrides,
        finish: Finish,
    },
    /// A gradient of weights.
    Gradient {
        gradient: WeightGradient,
        /// Which operand is the forward pass's, and which the error.
        operands: [usize; 2],
        /// Known ahead; otherwise by a run-time width: operand 2.
        shift: Option<StaticShift>,
    },
}

/// What sums over windows are shifted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// What brings them to a width.
    Requantize { bits: u8, low: i8 },
    /// A number known ahead.
    Shift(StaticShift),
}

/// Functions and tables in assembly, and the C around them.
#[derive(Debug)]
pub(crate) struct Glue {
    /// Functions that are called from C or from one another.
    pub(crate) functions: Vec<Function>,
    /// Tables, as assembly.
    pub(crate) tables: String,
    /// Declarations and the kernel's C function.
    pub(crate) source: String,
}

impl Product {
    /// The product that an operation is; `None` if its loops serve.
    pub(crate) fn of(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<Product> {
        let Op::Chain(chain) = op else { return None };
        let [product, finish] = &chain.ops[..] else { return None };
        let shared = |ty: &&TensorType| ty.element == Element::I8 && ty.scale == Scale::Exponent;
        if inputs.len() < 2 || !inputs[..2].iter().all(shared) || !outputs.iter().all(shared) {
            return None;
        }
        let two = inputs.len() == 2;
        let windows = |finish: Finish| {
            let (product, strides) = windows(product, inputs, outputs[0])?;
            Some(Product::Windows { product, strides, finish })
        };
        let gradient = |shift: Option<StaticShift>| {
            let (gradient, operands) = gradient(product, inputs, outputs[0])?;
            Some(Product::Gradient { gradient, operands, shift })
        };
        let result = match finish {
            Op::Requantize(op) if op.rounding == Rounding::HalfAway && two => {
                windows(Finish::Requantize { bits: op.bits, low: op.low })?
            }
            Op::QuantizeGradient(op)
                if op.rounding == Rounding::PseudoStochastic && inputs.len() == 3 =>
            {
                gradient(None)?
            }
            Op::ShiftRight(op) if two => {
                let shift = StaticShift { amount: op.amount, rounding: op.rounding };
                windows(Finish::Shift(shift)).or_else(|| gradient(Some(shift)))?
            }
            _ => return None,
        };
        let supported = match &result {
            Product::Windows { product, finish, .. } => {
                product.is_supported()
                    && match finish {
                        Finish::Requantize { .. } => true,
                        Finish::Shift(shift) => shift.is_supported(product.depth()),
                    }
            }
            Product::Gradient { gradient, shift, .. } => {
                gradient.is_supported()
                    && shift.is_none_or(|shift| shift.is_supported(gradient.depth()))
            }
        };
        supported.then_some(result)
    }

    fn kernel(&self, name: &str) -> Result<Kernel, MachineError> {
        match self {
            Product::Windows { product, finish, .. } => match *finish {
                Finish::Requantize { bits, low } => convolution(name, product, bits, low),
                Finish::Shift(shift) => static_convolution(name, product, shift),
            },
            Product::Gradient { gradient, shift: Some(shift), .. } => {
                gradient.static_kernel(name, *shift)
            }
            Product::Gradient { gradient, .. } => gradient.kernel(name),
        }
    }

    /// The shift, if it is known ahead.
    fn shift(&self) -> Option<StaticShift> {
        match self {
            Product::Windows { finish: Finish::Shift(shift), .. } => Some(*shift),
            Product::Windows { .. } => None,
            Product::Gradient { shift, .. } => *shift,
        }
    }

    /// Multiplications, those with padding left out.
    pub(crate) fn multiplications(&self) -> usize {
        match self {
            Product::Windows { product, .. } => product.multiplications_inside(),
            Product::Gradient { gradient, .. } => gradient.multiplications_inside(),
        }
    }

    /// Bytes of packed weights, before the kernel's own working memory.
    fn weight_bytes(&self) -> usize {
        match self {
            Product::Windows { product, .. } => product.weight_bytes().next_multiple_of(128),
            Product::Gradient { .. } => 0,
        }
    }

    /// Working memory.
    pub(crate) fn scratch_bytes(&self) -> Result<usize, MachineError> {
        Ok(self.weight_bytes() + self.kernel("kernel")?.scratch_bytes)
    }

    /// Everything for the kernel of that name; `head` is its C function's `static void name(...)`.
    pub(crate) fn glue(&self, name: &str, head: &str) -> Result<Glue, MachineError> {
        let own = format!("{name}_product");
        let mut kernel = self.kernel(&own)?;
        let mut functions: Vec<Function> = kernel.functions().cloned().collect();
        functions.push(kernel.entry()?);
        let mut source = String::new();
        let (result, exponent) = match self.shift() {
            Some(StaticShift { amount, .. }) => ("void", format!("{amount}")),
            None => ("int32_t", "shift".to_string()),
        };
        let set = if self.shift().is_some() { "" } else { "const int32_t shift =\n        " };
        let exponent = format!(
            "y0_exponent[0] = trainc_add32(trainc_add32(x0_exponent[0], x1_exponent[0]), {exponent});"
        );
        match self {
            Product::Windows { product, strides, .. } => {
                let pack = format!("{name}_pack_weights");
                let (function, table) = product.pack_weights(&pack, strides)?;
                functions.push(function);
                kernel.data.extend(table);
                let bytes = self.weight_bytes();
                let _ = write!(
                    source,
                    "void {pack}(const int8_t *weights, uint8_t *packed);\n\
                     {result} {own}(const int8_t *x, const uint8_t *weights, int8_t *y,\n    uint8_t *scratch);\n\n\
                     {head}\n{{\n    {pack}(x1, scratch);\n    \
                     {set}{own}(x0, scratch, y0, scratch + {bytes});\n    \
                     {exponent}\n}}\n"
                );
            }
            Product::Gradient { operands: [x, dy], shift, .. } => {
                let (bits, width) = match shift {
                    Some(_) => ("", ""),
                    None => (" const int32_t *bits,\n   ", " x2,"),
                };
                let _ = write!(
                    source,
                    "{result} {own}(const int8_t *x, const int8_t *dy,{bits} \
                     int8_t *dw, uint8_t *scratch);\n\n\
                     {head}\n{{\n    \
                     {set}{own}(x{x}, x{dy},{width} y0, scratch);\n    \
                     {exponent}\n}}\n"
                );
            }
        }
        let tables = kernel.data.iter().map(DataObject::assembly).collect();
        Ok(Glue { functions, tables, source })
    }
}

fn spans(
    x: &TensorType,
    y: &TensorType,
    kernel: [usize; 2],
    strides: [usize; 2],
    pads: [usize; 4],
    dilations: [usize; 2],
) -> [Span; 2] {
    std::array::from_fn(|i| Span {
        input: x.shape[2 + i],
        output: y.shape[2 + i],
        kernel: kernel[i],
        stride: strides[i],
        dilation: dilations[i],
        before: pads[i],
    })
}

/// One position of one tap: what a matrix product is.
fn point() -> Span {
    Span { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0 }
}

fn matrices(inputs: &[&TensorType], output: &TensorType) -> bool {
    inputs[..2].iter().chain([&output]).all(|ty| ty.shape.rank() == 2 && ty.count() > 0)
}

fn windows(
    op: &Op,
    inputs: &[&TensorType],
    output: &TensorType,
) -> Option<(WindowProduct, WeightStrides)> {
    let w = &inputs[1].shape;
    Some(match op {
        Op::Conv2d(Conv2d { strides, pads, dilations, groups: 1 }) => {
            let taps = w[2] * w[3];
            let [vertical, horizontal] =
                spans(inputs[0], output, [w[2], w[3]], *strides, *pads, *dilations);
            let product = WindowProduct {
                images: output.shape[0],
                channels: w[1],
                features: w[0],
                vertical: vertical.forward(),
                horizontal: horizontal.forward(),
            };
            (product, WeightStrides { feature: w[1] * taps, channel: taps, tap: 1 })
        }
        Op::Conv2dGradientInput(Conv2dGradientInput {
            strides,
            pads,
            dilations,
            groups: 1,
            ..
        }) => {
            let taps = w[2] * w[3];
            let [vertical, horizontal] =
                spans(output, inputs[0], [w[2], w[3]], *strides, *pads, *dilations);
            let product = WindowProduct {
                images: output.shape[0],
                channels: w[0],
                features: w[1],
                vertical: vertical.error(),
                horizontal: horizontal.error(),
            };
            (product, WeightStrides { feature: taps, channel: w[1] * taps, tap: 1 })
        }
        Op::MatMul(MatMul { transpose_a: false, transpose_b, .. }) => {
            if !matrices(inputs, output) {
                return None;
            }
            let (channels, features) = if *transpose_b { (w[1], w[0]) } else { (w[0], w[1]) };
            let (feature, channel) = if *transpose_b { (channels, 1) } else { (1, features) };
            let product = WindowProduct {
                images: output.shape[0],
                channels,
                features,
                vertical: point().forward(),
                horizontal: point().forward(),
            };
            (product, WeightStrides { feature, channel, tap: 1 })
        }
        _ => return None,
    })
}

fn gradient(
    op: &Op,
    inputs: &[&TensorType],
    output: &TensorType,
) -> Option<(WeightGradient, [usize; 2])> {
    let [a, b] = [inputs[0], inputs[1]];
    Some(match op {
        Op::Conv2dGradientWeight(Conv2dGradientWeight {
            strides,
            pads,
            dilations,
            groups: 1,
            kernel_size,
        }) => {
            let [vertical, horizontal] = spans(a, b, *kernel_size, *strides, *pads, *dilations);
            let gradient = WeightGradient {
                images: a.shape[0],
                channels: a.shape[1],
                features: b.shape[1],
                vertical: vertical.forward(),
                horizontal: horizontal.forward(),
            };
            (gradient, [0, 1])
        }
        Op::MatMul(MatMul { transpose_a: true, transpose_b: false, .. }) => {
            if !matrices(inputs, output) {
                return None;
            }
            let gradient = WeightGradient {
                images: a.shape[0],
                channels: b.shape[1],
                features: a.shape[1],
                vertical: point().forward(),
                horizontal: point().forward(),
            };
            (gradient, [1, 0])
        }
        _ => return None,
    })
}
