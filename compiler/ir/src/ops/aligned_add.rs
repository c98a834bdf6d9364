//! `aligned_add`. See [`AlignedAdd`].

use crate::attributes::Attributes;
use crate::loops::builder::{LoopBuilder, broadcast_index, flat_index};
use crate::loops::{Expr, LoopKernel};
use crate::numeric::integer::{self, RightShift};
use crate::numeric::{self, Rounding};
use crate::operator;
use crate::ops::properties::{Property, Work};
use crate::ops::{Case, Operator, TypeError, rule};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Scale, TensorType};

operator! {
    /// NITI's residual addition of two i8 with shared exponents `ea`, `eb`, NumPy broadcasting. D = |ea -
    /// eb|: D > 1: the operand with the smaller exponent is shifted right by D (pseudo-stochastic),
    /// exponent the larger; D = 1: the operand with the larger exponent is doubled, exponent the smaller; D
    /// = 0: as they are. If max |sum| > 127 the sum is shifted right by 2 (pseudo-stochastic), clamped to
    /// +-127, exponent + 2.
    pub struct AlignedAdd = "aligned_add" {
    }
}

/// How the operands of an [`AlignedAdd`] come to have one exponent, in loops.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// Of the operands.
    exponents: [Expr; 2],
    /// `|ea - eb|` as I64.
    pub distance: Expr,
    /// Whether the operand with the larger exponent is doubled.
    pub doubles: Expr,
    /// That of the sums.
    pub exponent: Expr,
}

impl Alignment {
    /// Of a kernel's first two operands.
    pub fn new(b: &mut LoopBuilder) -> Alignment {
        let e = [0, 1].map(|i| b.input_exponent(i));
        let e = [b.let_("e0", e[0].clone()), b.let_("e1", e[1].clone())];
        let larger = b.let_("larger", e[0].clone().maximum(e[1].clone()));
        let smaller = b.let_("smaller", e[0].clone().minimum(e[1].clone()));
        let distance = larger.clone().extend() - smaller.clone().extend();
        let distance = b.let_("distance", distance);
        let doubles = b.let_("doubles", distance.clone().equal(Expr::i64(1)));
        let exponent = doubles.clone().select(smaller, larger);
        let exponent = b.let_("exponent", exponent);
        Alignment { exponents: e, distance, doubles, exponent }
    }

    /// Whether the first operand's exponent is the larger one.
    pub fn ordered(&self, b: &mut LoopBuilder) -> Expr {
        let [first, second] = self.exponents.clone();
        b.let_("ordered", second.less(first))
    }
}

impl Operator for AlignedAdd {
    const WORK: Work = Work::Little;
    const PROPERTIES: &'static [Property] = &[Property::BeginsChain, Property::ContinuesChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x, y] = rule::operands(Self::NAME, inputs)?;
        let shared = |ty: &TensorType| ty.element == Element::I8 && ty.scale == Scale::Exponent;
        rule::ensure(shared(x) && shared(y), || {
            format!("{} takes two i8<2^e>, here {x} and {y}", Self::NAME)
        })?;
        let shape = x.shape.broadcast(&y.shape).ok_or_else(|| {
            TypeError::new(format!("{}: {x} and {y} do not broadcast", Self::NAME))
        })?;
        Ok(vec![x.with_shape(shape)])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let [x, y] = [0, 1].map(|i: usize| inputs[i]);
        let (ex, ey) = (x.exponent(), y.exponent());
        // At most 2^32 - 1.
        let distance = ex.abs_diff(ey);
        let align = |tensor: &Tensor, other: i32| -> Vec<i64> {
            let values = tensor.to_i64();
            let align = |&q: &i64| match distance {
                0 => q,
                1 if tensor.exponent() > other => 2 * q,
                1 => q,
                _ if tensor.exponent() > other => q,
                _ => numeric::shift_right(q, distance, Rounding::PseudoStochastic),
            };
            values.iter().map(align).collect()
        };
        let exponent = if distance > 1 { ex.max(ey) } else { ex.min(ey) };
        let (a, b) = (align(x, ey), align(y, ex));
        let shape = x.shape().broadcast(y.shape()).expect("checked by the type rule");
        let sums: Vec<i64> = broadcast_positions(&shape, x.shape())
            .zip(broadcast_positions(&shape, y.shape()))
            .map(|(i, j)| a[i] + b[j])
            .collect();
        let (amount, exponent) = if sums.iter().any(|sum| sum.abs() > 127) {
            (2, exponent.wrapping_add(2))
        } else {
            (0, exponent)
        };
        let narrow = |&sum: &i64| {
            numeric::saturate_i8(numeric::shift_right(sum, amount, Rounding::PseudoStochastic))
        };
        let data = Data::I8(sums.iter().map(narrow).collect());
        vec![Tensor::new(x.ty().with_shape(shape), data, ScaleData::Exponent(exponent))]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let shape = outputs[0].shape.clone();
        let y = b.output(0);
        let alignment = Alignment::new(&mut b);
        let Alignment { distance, doubles, exponent, .. } = &alignment;
        // i8 magnitudes vanish from a shift of 16 on. Which operand is shifted is decided outside of the loops; the other one,
        // `above`, is doubled where the shift is 0.
        let amount = distance.clone().minimum(Expr::i64(31)).truncate();
        let amount = doubles.clone().select(Expr::i32(0), amount);
        let shift = RightShift::run_time(&mut b, amount, Rounding::PseudoStochastic);
        let factor = b.let_("factor", doubles.clone().select(Expr::i32(2), Expr::i32(1)));
        // The sums are computed twice: to see whether they fit, and to store them.
        let sum = |b: &mut LoopBuilder, above: usize, indices: &[Expr]| {
            let load = |b: &mut LoopBuilder, i: usize| {
                b.load(b.input(i), broadcast_index(&inputs[i].shape, indices))
            };
            let (high, low) = (load(b, above), load(b, 1 - above));
            let low = shift.apply(b, low);
            b.let_("sum", high * factor.clone() + low)
        };
        let bits = b.local("magnitude_bits", Expr::i32(0));
        let measure = |b: &mut LoopBuilder, above: usize| {
            b.for_shape("i", &shape, |b, indices| {
                let sum = sum(b, above, indices);
                let all = b.get(bits).or(integer::magnitude(sum));
                b.set(bits, all);
            });
        };
        let ordered = alignment.ordered(&mut b);
        b.if_else(ordered.clone(), |b| measure(b, 0), |b| measure(b, 1));
        let exceeds = Expr::i32(127).less(b.get(bits));
        let last = b.let_("last", exceeds.select(Expr::i32(2), Expr::i32(0)));
        b.set_output_exponent(0, exponent.clone() + last.clone());
        let narrow = RightShift::run_time(&mut b, last, Rounding::PseudoStochastic);
        let store = |b: &mut LoopBuilder, above: usize| {
            b.for_shape("i", &shape, |b, indices| {
                let sum = sum(b, above, indices);
                let q = narrow.apply(b, sum);
                b.store(y, flat_index(&shape, indices), integer::clamp(q, -127, 127));
            });
        };
        b.if_else(ordered, |b| store(b, 0), |b| store(b, 1));
        b.finish()
    }

    fn cases() -> Vec<Case> {
        let case = |x: (&[i8], i32), y: (&[i8], i32), z: (&[i8], i32)| {
            let tensor = |(q, e): (&[i8], i32)| Tensor::i8_shared([q.len()], q.to_vec(), e);
            Case::new(AlignedAdd {}, vec![tensor(x), tensor(y)], vec![tensor(z)])
        };
        let mut cases = vec![
            // D = 0; the largest sum that fits.
            case((&[100, -100, 1], -3), (&[27, -27, 2], -3), (&[127, -127, 3], -3)),
            // 128 does not fit: remainders 0, 0, 2, 1, 3 of 4.
            case(
                (&[100, -50, 6, 5, -7], -3),
                (&[28, -50, 0, 0, 0], -3),
                (&[32, -25, 2, 1, -1], -1),
            ),
            case((&[-128, 127], 0), (&[-128, 127], 0), (&[-64, 64], 2)),
            case((&[-128], 0), (&[1], 0), (&[-127], 0)),
            // D = 1, either way round.
            case((&[10, -10], -3), (&[5, 5], -4), (&[25, -15], -4)),
            case((&[5, 5], -4), (&[10, -10], -3), (&[25, -15], -4)),
            case((&[-128, 127], 1), (&[-128, 127], 0), (&[-96, 95], 2)),
            // D = 2: 6 -> 2, -5 -> -1, 127 -> 31.
            case((&[10, -10, 1], -2), (&[6, -5, 127], -4), (&[12, -11, 32], -2)),
            // D = 8: -128 has q = 8, r = 0; 37 has q = 2, r = 5. D = 14, 15: q = 1 > 0; D = 16: q = 0.
            case((&[-128, 37], 0), (&[3, 3], 8), (&[2, 3], 8)),
            case((&[-128, 3], 0), (&[0, 0], 14), (&[-1, 0], 14)),
            case((&[-128, 3], 0), (&[0, 0], 15), (&[-1, 0], 15)),
            case((&[-128, 3], 0), (&[0, 0], 16), (&[0, 0], 16)),
            case((&[1, -128], 31), (&[-128, 127], 0), (&[0, -32], 33)),
            case((&[1, -127], 31), (&[-128, 127], 0), (&[1, -127], 31)),
            case((&[1, -127], 0), (&[-100, 127], 40), (&[-100, 127], 40)),
            case((&[1, -127], -100), (&[-100, 127], 100), (&[-100, 127], 100)),
            case((&[1, -127], i32::MIN), (&[-1, 2], i32::MAX), (&[-1, 2], i32::MAX)),
            case((&[127], i32::MAX), (&[127], i32::MAX), (&[64], i32::MIN + 1)),
            case((&[], 0), (&[], 7), (&[], 7)),
            // A bias [1,2,1,1].
            Case::new(
                AlignedAdd {},
                vec![
                    Tensor::i8_shared([2, 2, 1, 2], vec![1, 2, 3, 4, 5, 6, 7, 8], 0),
                    Tensor::i8_shared([1, 2, 1, 1], vec![10, -20], 0),
                ],
                vec![Tensor::i8_shared([2, 2, 1, 2], vec![11, 12, -17, -16, 15, 16, -13, -12], 0)],
            ),
        ];
        let pattern =
            |n: i32, count: i32| (0..count).map(|i| (i * n % 256) as u8 as i8).collect();
        for distance in [0, 1, 2, 3, 7, 14, 31, 40, 200] {
            for (ex, ey) in [(distance - 5, -5), (-5, distance - 5)] {
                cases.push(Case::shape_only(
                    AlignedAdd {},
                    vec![
                        Tensor::i8_shared([1, 3, 1, 5], pattern(37, 15), ex),
                        Tensor::i8_shared([7, 5], pattern(91, 35), ey),
                    ],
                ));
            }
        }
        cases
    }
}

/// For each element of `shape`, its position in an operand of shape `own`.
fn broadcast_positions<'a>(shape: &'a [usize], own: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let count: usize = shape.iter().product();
    (0..count).map(move |mut flat| {
        let (mut position, mut stride) = (0, 1);
        for (i, &dim) in shape.iter().enumerate().rev() {
            let index = flat % dim;
            flat /= dim;
            let missing = shape.len() - own.len();
            if i >= missing {
                if own[i - missing] != 1 {
                    position += index * stride;
                }
                stride *= own[i - missing];
            }
        }
        position
    })
}
