//! `aligned_concat`. See [`AlignedConcat`].

use crate::attributes::Attributes;
use crate::loops::builder::{LoopBuilder, flat_index};
use crate::loops::{Expr, LoopKernel};
use crate::numeric::integer::RightShift;
use crate::numeric::{self, Rounding};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Scale, Shape, TensorType};

operator! {
    /// i8 operands with shared exponents joined along an axis: each is shifted right (pseudo-stochastic) to
    /// the largest exponent.
    pub struct AlignedConcat = "aligned_concat" {
        /// Axis.
        pub axis: usize,
    }
}

impl Operator for AlignedConcat {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::Variadic];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let Some(&first) = inputs.first() else {
            return Err(TypeError::new(format!("{} takes at least one operand", Self::NAME)));
        };
        rule::ensure(self.axis < first.shape.rank(), || {
            format!("{}: {first} has no axis {}", Self::NAME, self.axis)
        })?;
        let mut dims = first.shape.to_vec();
        dims[self.axis] = 0;
        for ty in inputs {
            rule::ensure(ty.element == Element::I8 && ty.scale == Scale::Exponent, || {
                format!("{} takes i8<2^e>, here {ty}", Self::NAME)
            })?;
            let others = |ty: &TensorType| {
                let mut dims = ty.shape.to_vec();
                (self.axis < dims.len()).then(|| dims.remove(self.axis))?;
                Some(dims)
            };
            rule::ensure(others(ty) == others(first), || {
                format!("{}: {first} and {ty} differ besides axis {}", Self::NAME, self.axis)
            })?;
            dims[self.axis] = dims[self.axis].saturating_add(ty.shape[self.axis]);
        }
        Ok(vec![first.with_shape(dims)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let exponent = inputs.iter().map(|x| x.exponent()).max().expect("at least one operand");
        let types: Vec<&TensorType> = inputs.iter().map(|x| x.ty()).collect();
        let shape = self.result_shape(&types);
        let inner: usize = shape[self.axis + 1..].iter().product();
        let outer: usize = shape[..self.axis].iter().product();
        let mut data = Vec::with_capacity(shape.count());
        for o in 0..outer {
            for x in inputs {
                let run = x.shape()[self.axis] * inner;
                let distance = exponent.abs_diff(x.exponent());
                data.extend(x.as_i8()[o * run..(o + 1) * run].iter().map(|&q| {
                    numeric::shift_right(q.into(), distance, Rounding::PseudoStochastic) as i8
                }));
            }
        }
        let ty = TensorType::shared(shape, Element::I8);
        vec![Tensor::new(ty, Data::I8(data), ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let y = b.output(0);
        let largest = (1..inputs.len())
            .fold(b.input_exponent(0), |largest, i| largest.maximum(b.input_exponent(i)));
        let largest = b.let_("exponent", largest);
        b.set_output_exponent(0, largest.clone());
        let mut offset = 0;
        for (i, ty) in inputs.iter().enumerate() {
            // i8 magnitudes vanish from a shift of 16 on.
            let distance = largest.clone().extend() - b.input_exponent(i).extend();
            let amount = distance.minimum(Expr::i64(31)).truncate();
            let shift = RightShift::run_time(&mut b, amount, Rounding::PseudoStochastic);
            let x = b.input(i);
            b.for_shape("i", &ty.shape, |b, indices| {
                let q = b.load(x, flat_index(&ty.shape, indices));
                let q = shift.apply(b, q);
                let mut target = indices.to_vec();
                target[self.axis] = target[self.axis].clone() + Expr::index(offset);
                b.store(y, flat_index(&outputs[0].shape, &target), q);
            });
            offset += ty.shape[self.axis];
        }
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let vector = |(q, e): (&[i8], i32)| Tensor::i8_shared([q.len()], q.to_vec(), e);
        let case = |operands: &[(&[i8], i32)], y: (&[i8], i32)| {
            let operands = operands.iter().map(|&x| vector(x)).collect();
            Case::new(AlignedConcat { axis: 0 }, operands, vec![vector(y)])
        };
        let mut cases = vec![
            case(&[(&[1, -128, 127], 4)], (&[1, -128, 127], 4)),
            case(&[(&[1, 2], 4), (&[-128], 4)], (&[1, 2, -128], 4)),
            // D = 1 rounds odd values away from zero; D = 2: remainder 2 goes up, 3 does not.
            case(&[(&[5, -5, 4], -1), (&[9], 0)], (&[3, -3, 2, 9], 0)),
            case(&[(&[9], 0), (&[5, 6, -7, -128], -2), (&[1], -1)], (&[9, 1, 2, -1, -32, 1], 0)),
            // D = 15: q = 1 > 0; D = 16, 31, 40, 200: 0.
            case(&[(&[7], 15), (&[-128], 0), (&[127], 0)], (&[7, -1, 0], 15)),
            case(&[(&[7], 16), (&[-128], 0)], (&[7, 0], 16)),
            case(&[(&[7], 31), (&[-128], 0)], (&[7, 0], 31)),
            case(&[(&[7], 40), (&[-128], 0)], (&[7, 0], 40)),
            case(&[(&[-128], -100), (&[7], 100)], (&[0, 7], 100)),
            case(&[(&[-128], i32::MIN), (&[7], i32::MAX)], (&[0, 7], i32::MAX)),
            Case::new(
                AlignedConcat { axis: 1 },
                vec![
                    Tensor::i8_shared([2, 1, 2], vec![1, 2, 3, 4], 0),
                    Tensor::i8_shared([2, 2, 2], vec![8, 16, 24, 32, -8, -16, -24, -32], -3),
                ],
                vec![Tensor::i8_shared([2, 3, 2], vec![1, 2, 1, 2, 3, 4, 3, 4, -1, -2, -3, -4], 0)],
            ),
        ];
        let pattern = |n: i32, count: i32| (0..count).map(|i| (i * n % 256) as u8 as i8).collect();
        for (axis, shapes) in [
            (0, [[1, 3, 5], [2, 3, 5], [1, 3, 5]]),
            (1, [[1, 3, 5], [1, 1, 5], [1, 7, 5]]),
            (2, [[3, 3, 1], [3, 3, 2], [3, 3, 0]]),
        ] {
            let operand = |i: usize, n: i32, e: i32| {
                Tensor::i8_shared(shapes[i], pattern(n, shapes[i].iter().product::<usize>() as i32), e)
            };
            cases.push(Case::shape_only(
                AlignedConcat { axis },
                vec![operand(0, 37, -3), operand(1, 91, 0), operand(2, 53, -9)],
            ));
        }
        cases
    }
}

impl AlignedConcat {
    fn result_shape(&self, inputs: &[&TensorType]) -> Shape {
        let mut dims = inputs[0].shape.to_vec();
        dims[self.axis] = inputs.iter().map(|ty| ty.shape[self.axis]).sum();
        dims.into()
    }
}
