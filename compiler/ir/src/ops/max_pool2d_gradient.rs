//! `max_pool2d_gradient`. See [`MaxPool2dGradient`].

use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, LoopKernel};
use crate::numeric::saturate_i8;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::rule::{self, ensure, operands};
use crate::ops::support::pool::{Pool, saturated};
use crate::ops::support::{pool, sample};
use crate::ops::support::window::Geometry;
use crate::ops::{Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{Data, Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// The error of each window goes to its first (row-major) maximum. Operands: `x` (the pool's operand),
    /// `dy`. FP32 (windows in row-major order), or i8 with shared exponents (`x` also u8): summed
    /// wide, then clamped to +-127; exponent of `dy`.
    pub struct MaxPool2dGradient = "max_pool2d_gradient" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// Vertical, horizontal.
        pub dilations: [usize; 2],
        /// As in `max_pool2d`.
        pub ceil: bool,
    }
}

impl MaxPool2dGradient {
    /// The loops; `apart`: with working memory for each plane, so that none waits for another.
    fn lower_planes(
        &self,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
        apart: bool,
    ) -> LoopKernel {
        let pool = self.pool(&inputs[0].shape).expect("the type rule has checked the operand");
        let float = inputs[0].element == Element::F32;
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, dy, dx) = (b.input(0), b.input(1), b.output(0));
        let (least, zero) = match float {
            true => (Expr::f32(f32::NEG_INFINITY), Expr::f32(0.0)),
            false if inputs[0].element == Element::U8 => (Expr::i32(0), Expr::i32(0)),
            false => (Expr::i32(i32::from(i8::MIN)), Expr::i32(0)),
        };
        // Integers add up in a wide plane and are clamped once.
        let wide: Option<Buffer> = match float {
            true => None,
            false => Some(b.scratch("sums", Element::I32, pool.x_plane() * if apart { pool.planes() } else { 1 })),
        };
        if wide.is_some() {
            b.set_output_exponent(0, b.input_exponent(1));
        }
        b.for_("plane", pool.planes(), |b, plane| {
            let start = b.let_("start", plane.clone() * Expr::index(pool.x_plane()));
            let sums = wide.unwrap_or(dx);
            let offset = if wide.is_some() && !apart { Expr::i64(0) } else { start.clone() };
            b.for_("i", pool.x_plane(), |b, i| b.store(sums, offset.clone() + i, zero));
            pool.for_windows(b, &plane, |b, window| {
                let most = b.local("most", least);
                let winner = b.local("winner", window.first());
                window.for_taps(b, |b, tap| {
                    let tap = b.let_("tap", tap);
                    let value = b.let_("value", b.load(x, window.x_plane.clone() + tap.clone()));
                    b.if_(b.get(most).less(value.clone()), |b| {
                        b.set(most, value);
                        b.set(winner, tap);
                    });
                });
                let at = b.let_("winner_index", offset.clone() + b.get(winner));
                let sum = b.load(sums, at.clone()) + b.load(dy, window.at.clone());
                b.store(sums, at, sum);
            });
            if let Some(sums) = wide {
                b.for_("i", pool.x_plane(), |b, i| {
                    let sum = b.load(sums, offset.clone() + i.clone());
                    b.store(dx, start + i, saturated(sum));
                });
            }
        });
        b.finish()
    }

    fn pool(&self, x: &Shape) -> Result<Pool, TypeError> {
        let geometry = Geometry {
            kernel: self.kernel,
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            ceil: self.ceil,
        };
        Pool::new("max_pool2d_gradient", &geometry, x)
    }
}

/// Adds the error of each window to the sum at its first maximum (the first tap if none compares greater than
/// `least`).
fn scatter<T: Copy + PartialOrd, E: Copy, S>(
    pool: &Pool,
    (x, least): (&[T], T),
    dy: &[E],
    dx: &mut [S],
    add: impl Fn(&mut S, E),
) {
    let planes = x.chunks_exact(pool.x_plane()).zip(dy.chunks_exact(pool.y_plane()));
    for ((x, dy), dx) in planes.zip(dx.chunks_exact_mut(pool.x_plane())) {
        for (window, &error) in pool.outputs().zip(dy) {
            let mut most = least;
            let mut winner = None;
            for tap in pool.positions(window) {
                if x[tap] > most {
                    (most, winner) = (x[tap], Some(tap));
                }
                winner.get_or_insert(tap);
            }
            if let Some(winner) = winner {
                add(&mut dx[winner], error);
            }
        }
    }
}

impl Operator for MaxPool2dGradient {
    const WORK: Work = Work::Windows;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let name = "max_pool2d_gradient";
        let [x, dy] = operands(name, inputs)?;
        rule::f32_or_shared_byte(name, x)?;
        rule::f32_or_shared_i8(name, dy)?;
        ensure(x.is_f32() == dy.is_f32(), || {
            format!("{name} takes operands of one representation, here {x} and {dy}")
        })?;
        pool::integer_window(name, x, self.kernel)?;
        self.pool(&x.shape)?.fits_error(name, &dy.shape)?;
        Ok(vec![dy.with_shape(x.shape.clone())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let (x, dy) = (inputs[0], inputs[1]);
        let pool = self.pool(x.shape()).expect("the type rule has checked the operand");
        let data = match x.data() {
            Data::F32(x) => {
                let mut dx = vec![0.0; x.len()];
                scatter(&pool, (x, f32::NEG_INFINITY), dy.as_f32(), &mut dx, |dx, e| *dx += e);
                Data::F32(dx)
            }
            integers => {
                let mut dx = vec![0i64; integers.len()];
                let add = |dx: &mut i64, e| *dx += i64::from(e);
                match integers {
                    Data::U8(x) => scatter(&pool, (x, u8::MIN), dy.as_i8(), &mut dx, add),
                    _ => scatter(&pool, (x.as_i8(), i8::MIN), dy.as_i8(), &mut dx, add),
                }
                Data::I8(dx.into_iter().map(saturate_i8).collect())
            }
        };
        vec![Tensor::new(dy.ty().with_shape(pool.x()), data, *dy.scale())]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_planes(inputs, outputs, false)
    }

    fn lower_apart(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_planes(inputs, outputs, true)
    }

    fn cases() -> Vec<Case> {
        let plain = |kernel| MaxPool2dGradient {
            kernel,
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            ceil: false,
        };
        vec![
            Case::new(
                MaxPool2dGradient { strides: [2, 2], ..plain([2, 2]) },
                vec![
                    Tensor::f32([1, 1, 2, 4], vec![1., 5., 7., 7., 5., 2., 7., 0.]),
                    Tensor::f32([1, 1, 1, 2], vec![10., 20.]),
                ],
                // The first of equals, row by row.
                vec![Tensor::f32([1, 1, 2, 4], vec![0., 10., 20., 0., 0., 0., 0., 0.])],
            ),
            // Overlapping windows add up; the third lies half in the padding.
            Case::new(
                MaxPool2dGradient { pads: [0, 0, 0, 1], ..plain([1, 2]) },
                vec![
                    Tensor::f32([1, 1, 1, 3], vec![-3., 9., -5.]),
                    Tensor::f32([1, 1, 1, 3], vec![1., 2., 4.]),
                ],
                vec![Tensor::f32([1, 1, 1, 3], vec![0., 3., 4.])],
            ),
            // Integers: 127 + 127 clamps to 127, -128 - 128 to -127; the exponent is the error's.
            Case::new(
                plain([1, 2]),
                vec![
                    Tensor::i8_shared([1, 2, 1, 3], vec![0, 1, 0, -128, 5, -128], 3),
                    Tensor::i8_shared([1, 2, 1, 2], vec![127, 127, -128, -128], -11),
                ],
                vec![Tensor::i8_shared([1, 2, 1, 3], vec![0, 127, 0, 0, -127, 0], -11)],
            ),
            // A sum that leaves 8 bits on the way: 127 + 127 - 128.
            Case::new(
                plain([1, 3]),
                vec![
                    Tensor::i8_shared([1, 1, 1, 5], vec![-128, -128, -127, -128, -128], 0),
                    Tensor::i8_shared([1, 1, 1, 3], vec![127, 127, -128], 0),
                ],
                vec![Tensor::i8_shared([1, 1, 1, 5], vec![0, 0, 126, 0, 0], 0)],
            ),
            // Nothing compares greater than the least value: the first tap inside takes the error.
            Case::new(
                MaxPool2dGradient { pads: [0, 1, 0, 0], ..plain([1, 2]) },
                vec![
                    Tensor::i8_shared([1, 1, 1, 2], vec![-128, -128], 0),
                    Tensor::i8_shared([1, 1, 1, 2], vec![3, 4], 0),
                ],
                vec![Tensor::i8_shared([1, 1, 1, 2], vec![7, 0], 0)],
            ),
            Case::shape_only(
                MaxPool2dGradient {
                    strides: [2, 3],
                    pads: [1, 0, 2, 1],
                    dilations: [2, 1],
                    ceil: true,
                    ..plain([3, 2])
                },
                vec![sample::f32([2, 3, 7, 9], 1), sample::f32([2, 3, 4, 3], 2)],
            ),
            Case::shape_only(
                MaxPool2dGradient { pads: [0, 1, 1, 1], ..plain([2, 3]) },
                vec![sample::i8_shared([2, 3, 6, 5], 3, 9), sample::i8_shared([2, 3, 6, 5], 4, -9)],
            ),
            // u8: 255 is the largest; of zeros the first.
            Case::new(
                MaxPool2dGradient { strides: [1, 2], ..plain([1, 2]) },
                vec![
                    sample::shared_of([1, 1, 1, 4], Element::U8, &[127, 255, 0, 0], 3),
                    Tensor::i8_shared([1, 1, 1, 2], vec![5, -6], -11),
                ],
                vec![Tensor::i8_shared([1, 1, 1, 4], vec![0, 5, -6, 0], -11)],
            ),
            Case::shape_only(
                MaxPool2dGradient { strides: [2, 2], ..plain([2, 2]) },
                vec![
                    sample::shared([2, 3, 8, 12], Element::U8, 2, 9),
                    sample::i8_shared([2, 3, 4, 6], 4, -9),
                ],
            ),
        ]
    }
}
