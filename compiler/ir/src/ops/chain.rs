//! `chain`. See [`Chain`].

use crate::loops::builder::LoopBuilder;
use crate::loops::{BufferParameter, LoopKernel, Role};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::rule::ensure;
use crate::ops::support::binary;
use crate::ops::support::channel_lines::{LaneWidths, RoundedSums};
use crate::ops::support::channels::ChannelWalk;
use crate::ops::support::fusion::{Fusion, Place};
use crate::ops::support::sample;
use crate::ops::{Case, Conv2d, Op, Operator, Relu, TypeError};
use crate::random::RunContext;
use crate::tensor::Tensor;
use crate::types::{Element, Scale, TensorType};

operator! {
    /// A fused kernel: the first operation, then each further one applied to the result so far (its operand
    /// 0).
    ///
    /// Operands: the first operation's, then the further operands of each later one. Its meaning is the
    /// composition, so fusing is exact by construction.
    pub struct Chain = "chain" {
        /// At least two operations with one result each.
        pub ops: Vec<Op>,
    }
}


/// One operation of a chain whose operands fit.
#[derive(Debug)]
struct Link<'a> {
    op: &'a Op,
    /// Position of the first of its operands among the chain's.
    first: usize,
    /// How many of its operands are the chain's.
    count: usize,
    /// Type of its result.
    result: TensorType,
}

impl Chain {
    /// The loops of a normalization by integers whose sums are rounded as they are made; `None` of other chains.
    pub(super) fn lower_along(
        &self,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
        walk: ChannelWalk,
        lanes: LaneWidths,
    ) -> Option<LoopKernel> {
        let [head, rounding] = &self.ops[..] else { return None };
        let rounding = Some((RoundedSums::of(rounding)?, lanes));
        match head {
            Op::IntegerBatchNorm(op) => Some(op.lower_along(inputs, outputs, rounding, walk)),
            Op::IntegerBatchNormError(op) => Some(op.lower_along(inputs, outputs, rounding, walk)),
            _ => None,
        }
    }

    /// The operations' loops in turn; results on the way are working memory. Bits of a convolution of bits are made of each sum, and
    /// sums of a normalization are rounded as they are made.
    fn lower_links(
        &self,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
        lower: impl Fn(&Op, &[&TensorType], &[&TensorType]) -> LoopKernel,
    ) -> LoopKernel {
        if let [Op::BinaryConv2d(conv), Op::Threshold(stage)] = &self.ops[..]
            && (stage.low, stage.element, inputs[2].shape[1]) == (0, Element::B1, 1)
        {
            return binary::lower(conv, inputs, outputs);
        }
        if let Some(kernel) = self.lower_along(inputs, outputs, ChannelWalk::Channels, LaneWidths::Words) {
            return kernel;
        }
        let links = self.links(inputs).expect("the type rule has checked the operands");
        let kernels: Vec<LoopKernel> = links
            .iter()
            .enumerate()
            .map(|(position, link)| {
                let before = position.checked_sub(1).map(|before| &links[before].result);
                let own = inputs[link.first..][..link.count].iter().copied();
                lower(link.op, &before.into_iter().chain(own).collect::<Vec<_>>(), &[&link.result])
            })
            .collect();
        let random =
            kernels.iter().flat_map(|kernel| &kernel.buffers).any(|b| b.role == Role::RunContext);
        let mut fusion = Fusion::new(LoopBuilder::new(inputs, outputs, random).finish().buffers);
        let between: Vec<_> = links[..links.len() - 1]
            .iter()
            .enumerate()
            .map(|(position, Link { result, .. })| {
                let mut scratch = |name: String, element, count| {
                    fusion.scratch(BufferParameter { name, element, count, role: Role::Scratch })
                };
                let elements = scratch(format!("t{position}"), result.element, result.count());
                let exponent = (result.scale == Scale::Exponent)
                    .then(|| scratch(format!("t{position}_exponent"), Element::I32, 1));
                (elements, exponent)
            })
            .collect();
        for (position, (link, kernel)) in links.iter().zip(&kernels).enumerate() {
            let so_far = position.checked_sub(1).map(|before| between[before]);
            // The chain's operand that is the kernel's operand `i`, unless that is the result so far.
            let own = |i: usize| (i + link.first).checked_sub(usize::from(so_far.is_some()));
            let exponent =
                |exponent| Place::Buffer(Option::expect(exponent, "the type has an exponent"));
            fusion.append(kernel, |role| match (role, so_far, between.get(position)) {
                (Role::Input(0), Some((elements, _)), _) => Place::Buffer(elements),
                (Role::InputScale(0), Some((_, scale)), _) => exponent(scale),
                (Role::Output(_), _, Some(&(elements, _))) => Place::Buffer(elements),
                (Role::OutputScale(_), _, Some(&(_, scale))) => exponent(scale),
                (Role::Input(i), ..) => {
                    Place::Role(Role::Input(own(*i).expect("operand 0 is the result so far")))
                }
                (Role::InputScale(i), ..) => {
                    Place::Role(Role::InputScale(own(*i).expect("operand 0 is the result so far")))
                }
                (Role::Output(_) | Role::OutputScale(_) | Role::RunContext | Role::Scratch, ..) => {
                    Place::Role(role.clone())
                }
            });
        }
        fusion.finish()
    }

    /// Divides the chain's operands among its operations: each takes the most that it types with.
    fn links(&self, inputs: &[&TensorType]) -> Result<Vec<Link<'_>>, TypeError> {
        ensure(self.ops.len() >= 2, || {
            format!("a chain has at least two operations, here {}", self.ops.len())
        })?;
        let mut links: Vec<Link<'_>> = Vec::with_capacity(self.ops.len());
        let mut first = 0;
        for (position, op) in self.ops.iter().enumerate() {
            // These take any number of operands, so that nothing would say which are theirs.
            let refused = op.kind().has(Property::Variadic);
            ensure(!refused, || {
                format!("a chain cannot hold `{}` (operation {position})", op.kind().name())
            })?;
            let so_far = links.last().map(|link| link.result.clone());
            let mut refusals: Vec<String> = Vec::new();
            // The most, so that an optional operand is not left over.
            let mut fitting = None;
            for count in 0..=inputs.len() - first {
                let own = &inputs[first..first + count];
                let operands: Vec<&TensorType> = so_far.iter().chain(own.iter().copied()).collect();
                match op.infer(&operands) {
                    Ok(results) => fitting = Some((count, results)),
                    Err(error) => refusals.push(format!("{} operand(s): {error}", operands.len())),
                }
            }
            let Some((count, results)) = fitting else {
                return Err(TypeError::new(format!(
                    "chain: operation {position} does not fit; {}",
                    refusals.join("; ")
                )));
            };
            let Ok([result]) = <[TensorType; 1]>::try_from(results) else {
                return Err(TypeError::new(format!(
                    "chain: operation {position}, `{}`, has not one result",
                    op.kind().name()
                )));
            };
            links.push(Link { op, first, count, result });
            first += count;
        }
        ensure(first == inputs.len(), || {
            format!("chain: takes {first} operand(s), here {}", inputs.len())
        })?;
        Ok(links)
    }

    /// The chain's operations, each with the types of its operands and of its result.
    ///
    /// # Errors
    /// As the type rule.
    pub fn parts(&self, inputs: &[&TensorType]) -> Result<Vec<Part<'_>>, TypeError> {
        let links = self.links(inputs)?;
        let parts = links.iter().enumerate().map(|(position, link)| {
            let before = position.checked_sub(1).map(|before| links[before].result.clone());
            let own = inputs[link.first..][..link.count].iter().map(|&ty| ty.clone());
            (link.op, before.into_iter().chain(own).collect(), link.result.clone())
        });
        Ok(parts.collect())
    }
}

/// An operation of a chain, the types of its operands, and that of its result.
pub type Part<'a> = (&'a Op, Vec<TensorType>, TensorType);

impl Operator for Chain {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Variadic];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        Ok(self.links(inputs)?.pop().map(|link| link.result).into_iter().collect())
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let types: Vec<&TensorType> = inputs.iter().map(|x| x.ty()).collect();
        let links = self.links(&types).expect("the type rule has checked the operands");
        let mut so_far: Vec<Tensor> = Vec::new();
        for link in links {
            let own = &inputs[link.first..][..link.count];
            let operands: Vec<&Tensor> = so_far.iter().chain(own.iter().copied()).collect();
            so_far = link.op.evaluate(&operands, run);
        }
        so_far
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_links(inputs, outputs, Op::lower_elements)
    }

    fn lower_apart(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_links(inputs, outputs, Op::lower_elements_apart)
    }

    // An update ends with the weights: an element of them is read when all sums are made, and then written.
    fn may_overwrite(&self, operand: usize) -> bool {
        match &self.ops[..] {
            [product, Op::QuantizeGradient(_), Op::SaturatingSubtractFrom(_)] => {
                product.kind().has(Property::Bilinear) && operand == 3
            }
            _ => false,
        }
    }

    fn cases() -> Vec<Case> {
        let relu = || Op::from(Relu {});
        let chain = |ops: Vec<Op>| Chain { ops };
        let product = |transpose_b| crate::ops::MatMul {
            transpose_a: false,
            transpose_b,
            role: crate::ops::matmul::ProductRole::Forward,
        };
        let convolution =
            Conv2d { strides: [1, 2], pads: [1, 0, 0, 1], dilations: [1, 1], groups: 1 };
        let dropout = |ratio: f32, stream| crate::ops::Dropout { ratio: ratio.into(), stream };
        // Bits of sums, whole bytes of them and others.
        let bits = |features: usize, flips: bool| {
            let product = crate::ops::BinaryConv2d {
                strides: [1, 2],
                pads: [1, 0, 1, 1],
                dilations: [1, 1],
                groups: 1,
                padding: 0,
                channels: 20,
            };
            let stage = crate::ops::Threshold { low: 0, element: Element::B1 };
            let thresholds = (0..features as i32).map(|c| [3, -2, i32::MIN, 0, i32::MAX][c as usize % 5]);
            let mut inputs = vec![
                sample::integers([2, 3, 5, 24], Element::B1, 8),
                sample::integers([features, 2, 3, 24], Element::B1, 9),
                Tensor::i32([features, 1], thresholds.collect()),
            ];
            if flips {
                let flip = (0..features as i32).map(|c| -(c % 2));
                inputs.push(Tensor::i32([features], flip.collect()));
            }
            Case::shape_only(chain(vec![product.into(), stage.into()]), inputs)
        };
        // The gradient of a weight, narrowed, and subtracted from it.
        let update = || {
            let rounding = crate::numeric::Rounding::PseudoStochastic;
            let role = crate::ops::matmul::ProductRole::Gradient;
            let product = crate::ops::MatMul { transpose_a: true, transpose_b: false, role };
            let narrow = crate::ops::QuantizeGradient { rounding };
            chain(vec![product.into(), narrow.into(), crate::ops::SaturatingSubtractFrom {}.into()])
        };
        // Sums of a normalization, and of its error, in 8 bits: rounded up, down, and not at all.
        let normalized = |shape: &[usize], [low, e]: [i32; 2], [error, stochastic]: [bool; 2]| {
            let head: Op = match error {
                true => crate::ops::IntegerBatchNormError { batch: true }.into(),
                false => crate::ops::IntegerBatchNorm {}.into(),
            };
            let rounding = crate::numeric::Rounding::HalfAway;
            let tail: Op = match stochastic {
                true => crate::ops::RequantizeStochastic { stream: 3 }.into(),
                false => crate::ops::Requantize { bits: 7, rounding, low: low as i8 }.into(),
            };
            let codes = (0..1 + u32::from(error)).map(|i| sample::i8_shared(shape, 8 + i, e));
            let vectors = (0..if error { 5 } else { 4 }).map(|i| sample::f32([shape[1]], 20 + i));
            let positive = |x: Tensor| {
                Tensor::f32(x.shape().dims(), x.as_f32().iter().map(|x| x.abs()).collect::<Vec<_>>())
            };
            let inverse = if error { 2 } else { 3 };
            let vectors = vectors.enumerate().map(|(i, x)| if i == inverse { positive(x) } else { x });
            Case::shape_only(chain(vec![head, tail]), codes.chain(vectors).collect())
        };
        let three_quarters = |x: &[i8], e: i32, y: &[i8], ye: i32| {
            let norm = crate::ops::IntegerBatchNorm {};
            let rounding = crate::numeric::Rounding::HalfAway;
            let tail = crate::ops::Requantize { bits: 7, rounding, low: -127 };
            let shape = [1, 1, x.len()];
            let vectors = [0.75, 0.0, 0.0, 1.0].map(|v| Tensor::f32([1], vec![v]));
            let inputs = [vec![Tensor::i8_shared(shape, x.to_vec(), e)], vectors.to_vec()].concat();
            let outputs = vec![Tensor::i8_shared(shape, y.to_vec(), ye)];
            Case::new(chain(vec![norm.into(), tail.into()]), inputs, outputs)
        };
        vec![
            normalized(&[2, 5, 3, 7], [-127, -6], [false, false]),
            normalized(&[3, 4, 40], [0, -40], [false, false]),
            normalized(&[2, 5, 128], [-127, -6], [false, false]),
            normalized(&[2, 3, 703], [-127, -6], [false, false]),
            normalized(&[2, 3, 703], [0, -6], [false, false]),
            normalized(&[3, 40, 4, 4], [0, 90], [false, false]),
            normalized(&[1, 6, 8, 8], [-127, i32::MIN], [false, false]),
            normalized(&[9, 5], [-127, 90], [false, true]),
            normalized(&[2, 5, 3, 7], [-127, -6], [true, false]),
            normalized(&[3, 4, 40], [0, -40], [true, true]),
            normalized(&[2, 3, 703], [-127, -6], [true, true]),
            normalized(&[9, 5], [-127, 90], [true, true]),
            // The product is 3 - 2 = 1; relu(1 - 2) and relu(1 + 4).
            Case::new(
                chain(vec![product(false).into(), crate::ops::Add {}.into(), relu()]),
                vec![
                    Tensor::f32([1, 2], vec![1., -2.]),
                    Tensor::f32([2, 1], vec![3., 1.]),
                    Tensor::f32([2], vec![-2., 4.]),
                ],
                vec![Tensor::f32([1, 2], vec![0., 5.])],
            ),
            // The sums, 16384 + 16129 and 254 - 128, keep their 32 bits between the operations.
            Case::new(
                chain(vec![
                    product(true).into(),
                    crate::ops::Transpose { permutation: vec![1, 0] }.into(),
                ]),
                vec![
                    Tensor::i8_shared([1, 2], vec![-128, 127], -3),
                    Tensor::i8_shared([2, 2], vec![-128, 127, 1, 2], -4),
                ],
                vec![Tensor::i32_shared([2, 1], vec![32513, 126], -7)],
            ),
            Case::shape_only(
                chain(vec![convolution.clone().into(), crate::ops::Add {}.into(), relu()]),
                vec![
                    sample::f32([2, 3, 5, 6], 1),
                    sample::f32([4, 3, 2, 3], 2),
                    sample::f32([1, 4, 1, 1], 3),
                ],
            ),
            // Two random operations: one run context, two streams.
            Case::shape_only(
                chain(vec![relu(), dropout(0.25, 1).into(), dropout(0.5, 7).into()]),
                vec![sample::f32([3, 7], 4)],
            ),
            Case::shape_only(
                chain(vec![relu(), dropout(0.5, 3).into(), relu()]),
                vec![sample::i8_shared([3, 7], 5, -6)],
            ),
            // An operation with its own working memory in the middle.
            Case::shape_only(
                chain(vec![
                    relu(),
                    crate::ops::AvgPool2dGradient {
                        kernel: [2, 2],
                        strides: [1, 1],
                        pads: [0; 4],
                        ceil: false,
                        count_include_pad: false,
                        input_size: [4, 4],
                    }
                    .into(),
                    convolution.into(),
                ]),
                vec![sample::i8_shared([1, 2, 3, 3], 6, 2), sample::i8_shared([3, 2, 2, 3], 7, -9)],
            ),
            // Sums 6 and -120, 7 bits: to 4 bits by a shift of 3, 1 (6 leaves 3 above 0) and -15.
            Case::new(
                update(),
                vec![
                    Tensor::i8_shared([1, 2], vec![1, -20], -3),
                    Tensor::i8_shared([1, 1], vec![6], -4),
                    Tensor::i32([], vec![4]),
                    Tensor::i8_shared([2, 1], vec![-127, 120], -8),
                ],
                vec![Tensor::i8_shared([2, 1], vec![-127, 127], -8)],
            ),
            Case::shape_only(
                update(),
                vec![
                    sample::i8_shared([3, 5], 5, -6),
                    sample::i8_shared([3, 9], 6, 2),
                    Tensor::i32([], vec![7]),
                    sample::i8_shared([5, 9], 8, -3),
                ],
            ),
            bits(16, false),
            bits(16, true),
            bits(5, true),
            // 3/4 of the codes, by a' = 3 * 2^13 and a shift of 15: halves go away from zero on both sides.
            three_quarters(&[126, 2, -2, 6, -6, 10, -10, 3], -5, &[95, 2, -2, 5, -5, 8, -8, 2], -5),
            // As many as make a table of codes worth while.
            three_quarters(
                &[126, 2, -2, 6, -6, 10, -10, 3].repeat(176),
                -5,
                &[95, 2, -2, 5, -5, 8, -8, 2].repeat(176),
                -5,
            ),
            // Small codes of one sign: by a shift of 10 alone.
            three_quarters(&[5, 1, 2, 3, 4, 5, 1, 2], 0, &[120, 24, 48, 72, 96, 120, 24, 48], -5),
        ]
    }
}
