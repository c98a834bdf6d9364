//! The operations: one file each, holding attributes, type rule, meaning, gradient, loop lowering and cases.
//!
//! Operations are polymorphic over representations: `conv2d` of FP32 operands is FP32, of int8 operands with
//! shared exponents it gives int32 accumulators with the sum of the exponents. The type rule says which
//! combinations exist; the verifier refuses the rest.
//!
//! To add an operation: write its file, add its line to `operations!` below.

use std::fmt;

use crate::attributes::{Attribute, Attributes};
use crate::graph::{Graph, ValueId};
use crate::loops::{LoopKernel, packed};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::text::cursor::{Cursor, SyntaxError};
use crate::text::nearest::did_you_mean;
use crate::types::TensorType;
use properties::{Examples, Order, Property, Work};

/// Why operands do not fit an operation.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TypeError(pub String);

impl TypeError {
    /// An error with that text.
    pub fn new(text: impl Into<String>) -> TypeError {
        TypeError(text.into())
    }
}

/// Why an operation has no gradient, or a gradient could not be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GradientError {
    /// The operation is not differentiable (or is itself part of a backward pass).
    #[error("`{0}` has no gradient")]
    NotDifferentiable(&'static str),
    /// The rule built operations that do not type.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// One node's view in reverse-mode differentiation.
#[derive(Debug)]
pub struct Differentiated<'a> {
    /// The node's operands.
    pub inputs: &'a [ValueId],
    /// The node's results.
    pub outputs: &'a [ValueId],
    /// Gradient of the loss with respect to each result; `None` where the loss does not depend on it.
    pub output_gradients: &'a [Option<ValueId>],
    /// Which operands' gradients are wanted; the others may be `None` to save work.
    pub wanted: &'a [bool],
}

impl Differentiated<'_> {
    /// The gradient of the only result.
    pub fn output_gradient(&self) -> ValueId {
        self.output_gradients[0]
            .expect("a node is differentiated only when its result has a gradient")
    }
}

/// A documented example that is also a unit test and a fuzz seed.
#[derive(Clone, Debug)]
pub struct Case {
    /// Attributes.
    pub op: Op,
    /// Operands.
    pub inputs: Vec<Tensor>,
    /// Results, worked out by hand or by an independent source; empty to only compare evaluation and lowering.
    pub outputs: Vec<Tensor>,
}

impl Case {
    /// A case with known results.
    pub fn new(op: impl Into<Op>, inputs: Vec<Tensor>, outputs: Vec<Tensor>) -> Case {
        Case { op: op.into(), inputs, outputs }
    }

    /// A case that only compares evaluation with lowering (extreme values, odd sizes).
    pub fn shape_only(op: impl Into<Op>, inputs: Vec<Tensor>) -> Case {
        Case { op: op.into(), inputs, outputs: Vec::new() }
    }
}

/// What one operation is. What has a default says why silence is safe.
pub trait Operator: Attributes + Into<Op> {
    /// What its loops do beside reading operands and writing results.
    const WORK: Work;

    /// What rules and passes may count on. By default nothing: they leave the operation as it is.
    const PROPERTIES: &'static [Property] = &[];

    /// The type rule: result types of operands, or why they do not fit. Also checks the attributes.
    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError>;

    /// The meaning. Operands have been checked by [`Operator::infer`]; this never fails.
    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor>;

    /// The gradient rule (FP32): appends nodes that compute the gradient of each operand. By default there is none, which
    /// is an error where one is asked for.
    fn gradient(
        &self,
        _graph: &mut Graph,
        _node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        Err(GradientError::NotDifferentiable(Self::NAME))
    }

    /// The loops that compute the same bits as [`Operator::evaluate`], with a place for each element, however narrow.
    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel;

    /// [`Operator::lower`] for machines that run many rounds at a time: where a result's terms come from several rounds there,
    /// one round gathers them here, with the same bits. By default the same loops, of which fewer run at a time.
    fn lower_apart(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower(inputs, outputs)
    }

    /// Whether result 0 may be written over an operand, given that both have the same type: element `i` of the result
    /// depends on element `i` of that operand only, or the loops are done with all other elements before. Every target must
    /// honour this. By default not: a buffer more.
    fn may_overwrite(&self, _operand: usize) -> bool {
        false
    }

    /// As [`Operator::may_overwrite`], of any result. By default only the first may be.
    fn overwrites(&self, result: usize, operand: usize) -> bool {
        result == 0 && self.may_overwrite(operand)
    }

    /// How the result moves with an operand, the others held. By default not known: no quantizer is folded through it.
    fn order(&self, _operand: usize) -> Option<Order> {
        None
    }

    /// Whether row `i` of the result depends on row `i` of the operands that hold a row an example, and on no other row.
    /// By default not known: the examples of a batch stay together.
    fn by_example(&self, _operands: &Examples<'_>) -> bool {
        false
    }

    /// Examples: at least one with known results, and the extremes.
    fn cases() -> Vec<Case>;
}

mod along;
pub mod properties;
pub(crate) mod support;

macro_rules! operations {
    // Those of the language, and those that programs alone make.
    ($($module:ident :: $name:ident),* ; $($further:ident :: $made:ident),* $(,)?) => {
        operations!(@all $($module::$name,)* $($further::$made,)*);

        impl OpKind {
            /// Every operation of the language, in the order of the registry.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$name),*];
        }
    };
    (@all $($module:ident :: $name:ident,)*) => {
        $(pub mod $module;)*
        $(pub use $module::$name;)*

        /// Any operation with its attributes.
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Op {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name)),*
        }

        /// An operation without its attributes.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum OpKind {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name),*
        }

        $(impl From<$name> for Op {
            fn from(op: $name) -> Op {
                Op::$name(op)
            }
        }

        impl<'a> TryFrom<&'a Op> for &'a $name {
            type Error = OpKind;

            /// The operation itself, or which other one it is.
            fn try_from(op: &'a Op) -> Result<&'a $name, OpKind> {
                match op {
                    Op::$name(found) => Ok(found),
                    other => Err(other.kind()),
                }
            }
        })*

        impl OpKind {
            /// Name in the text form.
            pub fn name(self) -> &'static str {
                match self { $(OpKind::$name => <$name as Attributes>::NAME),* }
            }

            /// What the operation does: its documentation.
            pub fn summary(self) -> &'static str {
                match self { $(OpKind::$name => <$name as Attributes>::SUMMARY),* }
            }

            /// Names of the attributes.
            pub fn fields(self) -> &'static [&'static str] {
                match self { $(OpKind::$name => <$name as Attributes>::FIELDS),* }
            }

            /// The operation's examples.
            pub fn cases(self) -> Vec<Case> {
                match self { $(OpKind::$name => <$name as Operator>::cases()),* }
            }

            /// See [`Operator::WORK`].
            pub fn work(self) -> Work {
                match self { $(OpKind::$name => <$name as Operator>::WORK),* }
            }

            /// See [`Operator::PROPERTIES`].
            pub fn properties(self) -> &'static [Property] {
                match self { $(OpKind::$name => <$name as Operator>::PROPERTIES),* }
            }

            /// The operation of that name.
            pub fn from_name(name: &str) -> Option<OpKind> {
                OpKind::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// The operation of that name, or why there is none: the nearest names.
            pub fn named(name: &str) -> Result<OpKind, String> {
                OpKind::from_name(name).ok_or_else(|| {
                    let near = did_you_mean(name, OpKind::ALL.iter().map(|kind| kind.name()));
                    format!("unknown operation `{name}`{near}")
                })
            }

            /// The text form of a value of one attribute, of any text that reads as one.
            pub fn canonical_attribute(self, field: &str, value: &str) -> Result<String, SyntaxError> {
                match self { $(OpKind::$name => <$name as Attributes>::canonical(field, value)),* }
            }

            /// Reads this operation's attributes.
            pub fn parse_attributes(self, cursor: &mut Cursor<'_>) -> Result<Op, SyntaxError> {
                match self { $(OpKind::$name => <$name as Attributes>::parse(cursor).map(Op::$name)),* }
            }
        }

        impl Op {
            /// Which operation this is.
            pub fn kind(&self) -> OpKind {
                match self { $(Op::$name(_) => OpKind::$name),* }
            }

            /// See [`Operator::infer`].
            pub fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
                match self { $(Op::$name(op) => op.infer(inputs)),* }
            }

            /// See [`Operator::evaluate`].
            pub fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
                match self { $(Op::$name(op) => op.evaluate(inputs, run)),* }
            }

            /// See [`Operator::gradient`].
            pub fn gradient(
                &self,
                graph: &mut Graph,
                node: &Differentiated<'_>,
            ) -> Result<Vec<Option<ValueId>>, GradientError> {
                match self { $(Op::$name(op) => op.gradient(graph, node)),* }
            }

            /// See [`Operator::may_overwrite`].
            pub fn may_overwrite(&self, operand: usize) -> bool {
                match self { $(Op::$name(op) => op.may_overwrite(operand)),* }
            }

            /// See [`Operator::overwrites`].
            pub fn overwrites(&self, result: usize, operand: usize) -> bool {
                match self { $(Op::$name(op) => op.overwrites(result, operand)),* }
            }

            /// See [`Operator::order`].
            pub fn order(&self, operand: usize) -> Option<Order> {
                match self { $(Op::$name(op) => op.order(operand)),* }
            }

            /// See [`Operator::by_example`].
            pub fn by_example(&self, operands: &Examples<'_>) -> bool {
                match self { $(Op::$name(op) => op.by_example(operands)),* }
            }

            /// See [`Operator::lower`]: loops over elements, however narrow they are.
            pub(crate) fn lower_elements(
                &self,
                inputs: &[&TensorType],
                outputs: &[&TensorType],
            ) -> LoopKernel {
                match self { $(Op::$name(op) => op.lower(inputs, outputs)),* }
            }

            /// See [`Operator::lower_apart`]: loops over elements, however narrow they are.
            pub(crate) fn lower_elements_apart(
                &self,
                inputs: &[&TensorType],
                outputs: &[&TensorType],
            ) -> LoopKernel {
                match self { $(Op::$name(op) => op.lower_apart(inputs, outputs)),* }
            }

            /// The text form of one attribute's value.
            pub fn attribute_text(&self, field: &str) -> Option<String> {
                match self { $(Op::$name(op) => Attributes::field_text(op, field)),* }
            }

            /// Appends the attributes' text form.
            pub fn print_attributes(&self, out: &mut String) {
                match self { $(Op::$name(op) => Attributes::print(op, out)),* }
            }
        }
    };
}

operations! {
    // Elementwise, one operand.
    abs::Abs, neg::Neg, exp::Exp, log::Log, sqrt::Sqrt, reciprocal::Reciprocal, tanh::Tanh,
    sigmoid::Sigmoid, erf::Erf, sign::Sign, floor::Floor, ceil::Ceil,
    relu::Relu, relu_gradient::ReluGradient, leaky_relu::LeakyRelu,
    leaky_relu_gradient::LeakyReluGradient, clip::Clip, clip_gradient::ClipGradient,
    // Elementwise, two operands, broadcasting.
    add::Add, sub::Sub, mul::Mul, div::Div, pow::Pow, maximum::Maximum, minimum::Minimum,
    compare::Compare,
    // Elementwise, three operands, broadcasting.
    select::Select,
    // Reductions.
    reduce_sum::ReduceSum, reduce_mean::ReduceMean, reduce_max::ReduceMax,
    // Movement.
    reshape::Reshape, transpose::Transpose, concat::Concat, slice::Slice, pad::Pad,
    broadcast::Broadcast,
    // Movement by run-time indices.
    gather::Gather, scatter_add::ScatterAdd,
    // Matrix products.
    matmul::MatMul, conv2d::Conv2d, conv2d_gradient_input::Conv2dGradientInput,
    conv2d_gradient_weight::Conv2dGradientWeight,
    // Pooling.
    max_pool2d::MaxPool2d, max_pool2d_gradient::MaxPool2dGradient, avg_pool2d::AvgPool2d,
    avg_pool2d_gradient::AvgPool2dGradient,
    // Normalisation, regularisation.
    batch_statistics::BatchStatistics, batch_norm::BatchNorm,
    batch_norm_gradient::BatchNormGradient, range_statistics::RangeStatistics,
    range_norm_gradient::RangeNormGradient, dropout::Dropout,
    integer_batch_statistics::IntegerBatchStatistics, inverse_deviation::InverseDeviation, integer_batch_norm::IntegerBatchNorm,
    integer_batch_norm_sums::IntegerBatchNormSums, integer_batch_norm_error::IntegerBatchNormError,
    // Classification.
    softmax::Softmax, log_softmax::LogSoftmax, nll_loss::NllLoss,
    nll_loss_gradient::NllLossGradient, softmax_cross_entropy::SoftmaxCrossEntropy,
    softmax_cross_entropy_gradient::SoftmaxCrossEntropyGradient,
    // Optimisers.
    sgd_update::SgdUpdate, formula::Formula, squared_norm::SquaredNorm,
    // Quantization: ONNX's affine pair.
    quantize_linear::QuantizeLinear, dequantize_linear::DequantizeLinear,
    with_exponent::WithExponent,
    // Functions of codes by their tables, products of codes.
    every_code::EveryCode, occurring::Occurring, lookup::Lookup, integer_mul::IntegerMul,
    // Quantization: FP32 on a grid, as QONNX defines it.
    quant::Quant, bipolar_quant::BipolarQuant, trunc::Trunc, straight_through::StraightThrough,
    // Quantization: shared exponents.
    quantize_exponent::QuantizeExponent, quantize_weight::QuantizeWeight, dequantize::Dequantize,
    requantize::Requantize, quantize_gradient::QuantizeGradient, shift_right::ShiftRight,
    requantize_adaptive::RequantizeAdaptive, shift_schedule::ShiftSchedule,
    requantize_pseudo::RequantizePseudo, aligned_add::AlignedAdd, aligned_concat::AlignedConcat,
    saturating_subtract::SaturatingSubtract, saturating_subtract_from::SaturatingSubtractFrom,
    // Quantization: scales that are values.
    extremes::Extremes, nearest_power_of_two::NearestPowerOfTwo, quantize_steps::QuantizeSteps, ones::Ones, clip_search::ClipSearch,
    width_search::WidthSearch, width_schedule::WidthSchedule, quantize_float::QuantizeFloat, chunked_product::ChunkedProduct,
    grouped_product::GroupedProduct,
    quantize_blocks::QuantizeBlocks, block_product::BlockProduct, block_sensitivity::BlockSensitivity,
    block_widths::BlockWidths,
    one_hot_largest::OneHotLargest, example_precision::ExamplePrecision, chosen_step::ChosenStep,
    // Fine-tuning: values keep their meaning, steps their size.
    quantize_parameter::QuantizeParameter, quantize_bias::QuantizeBias,
    quantize_unsigned::QuantizeUnsigned, requantize_stochastic::RequantizeStochastic,
    accumulate_bias::AccumulateBias, aligned_sum::AlignedSum, scaled_step::ScaledStep,
    momentum_step::MomentumStep, normalized_update::NormalizedUpdate,
    integer_cross_entropy_gradient::IntegerCrossEntropyGradient,
    split_byte::SplitByte, doubled_sum::DoubledSum, offset_sum::OffsetSum,
    // Quantized inference: plain integers, channels last.
    integer_conv2d::IntegerConv2d, integer_max_pool2d::IntegerMaxPool2d,
    integer_sum_pool2d::IntegerSumPool2d, integer_add::IntegerAdd, scale_shift::ScaleShift,
    threshold::Threshold,
    // Bits that stand for 1 and -1, channels last.
    sign_bits::SignBits, binary_conv2d::BinaryConv2d,
    // Fusion.
    chain::Chain;
    // Of programs alone.
    loops::Loops,
}

pub use aligned_add::Alignment;
pub use along::{lower_by_images, lower_in_halves, lower_unrounded};
pub use compare::Comparison;
pub use example_precision::PrecisionOf;
pub use matmul::ProductRole;
pub use nll_loss::Reduction;
pub use quantize_float::FloatRounding;
pub use quantize_steps::StepRounding;
pub use split_byte::BytePart;
pub use support::blocks::BlockAxes;
pub use support::grid::{MAX_BITS, Rounding, grid_bounds};
pub use support::terms::ProductOf;

impl OpKind {
    /// Whether the operation has a property.
    pub fn has(self, property: Property) -> bool {
        self.properties().contains(&property)
    }

    /// The operations that have a property, in the order of the registry.
    pub fn all_with(property: Property) -> impl Iterator<Item = OpKind> {
        OpKind::ALL.iter().copied().filter(move |kind| kind.has(property))
    }
}

impl Op {
    /// The loops that compute the same bits as [`Op::evaluate`], over buffers as programs hold them: elements narrower
    /// than a byte are packed ([`packed::packed`]).
    pub fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        packed::packed(self.lower_elements(inputs, outputs))
    }

    /// [`Op::lower`] for machines that run many rounds at a time: results made by rounds of their own, where there are such
    /// loops.
    pub fn lower_apart(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        packed::packed(self.lower_elements_apart(inputs, outputs))
    }

    /// The random stream that the operation draws from, if it draws.
    pub fn stream(&self) -> Option<u32> {
        let draws = match self {
            Op::QuantizeSteps(op) => op.rounding == StepRounding::Stochastic,
            Op::QuantizeFloat(op) => op.rounding == FloatRounding::Stochastic,
            _ => true,
        };
        if !draws {
            return None;
        }
        self.attribute_text("stream")?.parse().ok()
    }

    /// The operation with another random stream; itself if it draws from none.
    pub fn with_stream(&self, stream: u32) -> Op {
        let mut text = String::new();
        for (i, &field) in self.kind().fields().iter().enumerate() {
            let value = match field {
                "stream" => stream.to_string(),
                _ => self.attribute_text(field).unwrap_or_default(),
            };
            text.push_str(&format!("{}{field}={value}", if i == 0 { "{" } else { ", " }));
        }
        if !text.is_empty() {
            text.push('}');
        }
        self.kind().parse_attributes(&mut Cursor::new(&text)).unwrap_or_else(|_| self.clone())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.kind().name().to_string();
        self.print_attributes(&mut text);
        f.write_str(&text)
    }
}

impl Attribute for Op {
    fn print(&self, out: &mut String) {
        out.push_str(self.kind().name());
        self.print_attributes(out);
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Op, SyntaxError> {
        let at = cursor.clone();
        let name = cursor.word()?;
        let kind = OpKind::named(name).map_err(|message| at.error(message))?;
        kind.parse_attributes(cursor)
    }
}

/// Helpers of type rules.
pub(crate) mod rule {
    use super::TypeError;
    use crate::types::{Element, Scale, TensorType};

    /// Exactly `N` operands.
    pub(crate) fn operands<'a, const N: usize>(
        name: &str,
        inputs: &[&'a TensorType],
    ) -> Result<[&'a TensorType; N], TypeError> {
        inputs.try_into().map_err(|_| {
            TypeError::new(format!("{name} takes {N} operand(s), here {}", inputs.len()))
        })
    }

    /// All operands are unscaled FP32.
    pub(crate) fn all_f32(name: &str, inputs: &[&TensorType]) -> Result<(), TypeError> {
        match inputs.iter().find(|ty| !ty.is_f32()) {
            None => Ok(()),
            Some(ty) => Err(TypeError::new(format!("{name} takes f32 operands, here {ty}"))),
        }
    }

    /// Whether elements are i8 or u8 with a shared exponent.
    pub(crate) fn is_shared_byte(ty: &TensorType) -> bool {
        matches!(ty.element, Element::I8 | Element::U8) && ty.scale == Scale::Exponent
    }

    /// The result of a product of `a` and `b`: FP32 of FP32, or i32 accumulators with a shared exponent of two i8
    /// with shared exponents, one of which may be u8.
    pub(crate) fn product(
        name: &str,
        a: &TensorType,
        b: &TensorType,
    ) -> Result<(Element, Scale), TypeError> {
        let signed = a.element == Element::I8 || b.element == Element::I8;
        if a.is_f32() && b.is_f32() {
            Ok((Element::F32, Scale::None))
        } else if is_shared_byte(a) && is_shared_byte(b) && signed {
            Ok((Element::I32, Scale::Exponent))
        } else {
            Err(TypeError::new(format!(
                "{name} takes two f32 or two i8 with shared exponents (one may be u8), here {a} and {b}"
            )))
        }
    }

    /// FP32, or i8 or u8 with a shared exponent.
    pub(crate) fn f32_or_shared_byte(name: &str, ty: &TensorType) -> Result<(), TypeError> {
        ensure(ty.is_f32() || is_shared_byte(ty), || {
            format!("{name} takes f32, i8<2^e> or u8<2^e>, here {ty}")
        })
    }

    /// FP32, or i8 with a shared exponent.
    pub(crate) fn f32_or_shared_i8(name: &str, ty: &TensorType) -> Result<(), TypeError> {
        if ty.is_f32() || (ty.element == Element::I8 && ty.scale == Scale::Exponent) {
            Ok(())
        } else {
            Err(TypeError::new(format!("{name} takes f32 or i8<2^e>, here {ty}")))
        }
    }

    /// A condition with its message.
    pub(crate) fn ensure(
        condition: bool,
        message: impl FnOnce() -> String,
    ) -> Result<(), TypeError> {
        if condition { Ok(()) } else { Err(TypeError::new(message())) }
    }
}
