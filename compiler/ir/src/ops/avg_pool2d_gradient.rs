//! `avg_pool2d_gradient`. See [`AvgPool2dGradient`].

use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::numeric::saturate_i8;
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::rule::{self, operands};
use crate::ops::support::convolution::rank4;
use crate::ops::support::pool::{
    self, Mean, Pool, lower_reciprocal, reciprocal, saturated,
};
use crate::ops::support::sample;
use crate::ops::{AvgPool2d, Case, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// Each element sums its share of the errors of the windows that hold it. Operand: `dy`. FP32:
    /// sequential sum from +0 over windows in row-major order of `dy / count`; or i8 with a shared exponent
    /// `e`: the sum, wide, of the errors; if every window holds `2^n` elements clamped to +-127 with
    /// exponent `e - n`, else times `round(2^15 / count)` shifted right by 15, half away from zero,
    /// clamped, with exponent `e`. If counts differ each error is first multiplied by that factor of its own window, and
    /// the sum of the products shifted and clamped once.
    pub struct AvgPool2dGradient = "avg_pool2d_gradient" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// As in `max_pool2d`.
        pub ceil: bool,
        /// As in `avg_pool2d`.
        pub count_include_pad: bool,
        /// H and W of the pool's operand.
        pub input_size: [usize; 2],
    }
}

impl AvgPool2dGradient {
    /// The loops; `apart`: with working memory for each plane, so that none waits for another.
    fn lower_planes(
        &self,
        inputs: &[&TensorType],
        outputs: &[&TensorType],
        apart: bool,
    ) -> LoopKernel {
        let float = inputs[0].is_f32();
        let pool = self.pool(&inputs[0].shape).expect("the type rule has checked the operand");
        let op = self.forward();
        let mean = op.mean(&pool, Element::I8);
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (dy, dx) = (b.input(0), b.output(0));
        // Integers add up in a wide plane and are clamped once.
        let wide = match float {
            true => None,
            false => Some(b.scratch("sums", Element::I32, pool.x_plane() * if apart { pool.planes() } else { 1 })),
        };
        if wide.is_some() {
            let exponent = mean.lower_exponent(b.input_exponent(0));
            b.set_output_exponent(0, exponent);
        }
        b.for_("plane", pool.planes(), |b, plane| {
            let start = b.let_("start", plane.clone() * Expr::index(pool.x_plane()));
            let sums = wide.unwrap_or(dx);
            let offset = if wide.is_some() && !apart { Expr::i64(0) } else { start.clone() };
            let zero = if float { Expr::f32(0.0) } else { Expr::i32(0) };
            b.for_("i", pool.x_plane(), |b, i| b.store(sums, offset.clone() + i, zero));
            pool.for_windows(b, &plane, |b, window| {
                let error = b.load(dy, window.at.clone());
                let share = match (float, mean) {
                    (true, _) => error.divide(op.lower_count(b, &pool, window)),
                    (false, Mean::Windows) => {
                        let count = op.lower_integer_count(&pool, window);
                        error * lower_reciprocal(b, count)
                    }
                    (false, _) => error,
                };
                let share = b.let_("share", share);
                window.for_taps(b, |b, tap| {
                    let tap = b.let_("tap", offset.clone() + tap);
                    let sum = b.load(sums, tap.clone()) + share;
                    b.store(sums, tap, sum);
                });
            });
            if let Some(sums) = wide {
                b.for_("i", pool.x_plane(), |b, i| {
                    let sum = b.load(sums, offset.clone() + i.clone());
                    let mean = mean.lower(b, sum);
                    b.store(dx, start + i, saturated(mean));
                });
            }
        });
        b.finish()
    }

    fn forward(&self) -> AvgPool2d {
        let AvgPool2dGradient { kernel, strides, pads, ceil, count_include_pad, .. } = *self;
        AvgPool2d { kernel, strides, pads, ceil, count_include_pad }
    }

    fn pool(&self, dy: &Shape) -> Result<Pool, TypeError> {
        let name = "avg_pool2d_gradient";
        let [batch, channels, ..] = rank4(name, "dy", dy)?;
        let [height, width] = self.input_size;
        let pool = self.forward().pool(name, &[batch, channels, height, width].into())?;
        pool.fits_error(name, dy)?;
        Ok(pool)
    }
}

impl Operator for AvgPool2dGradient {
    const WORK: Work = Work::Windows;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let name = "avg_pool2d_gradient";
        let [dy] = operands(name, inputs)?;
        rule::f32_or_shared_i8(name, dy)?;
        pool::integer_window(name, dy, self.kernel)?;
        let pool = self.pool(&dy.shape)?;
        let [fewest, most] = self.forward().counts(&pool.windows);
        if !dy.is_f32() && fewest != most {
            pool::integer_overlap(name, &pool.windows, fewest)?;
        }
        Ok(vec![dy.with_shape(pool.x())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let dy = inputs[0];
        let pool = self.pool(dy.shape()).expect("the type rule has checked the operand");
        let ty = dy.ty().with_shape(pool.x());
        let (x_plane, y_plane) = (pool.x_plane(), pool.y_plane());
        vec![match dy.data() {
            Data::F32(dy) => {
                let op = self.forward();
                let mut dx = vec![0.0; ty.count()];
                for (dx, dy) in dx.chunks_exact_mut(x_plane).zip(dy.chunks_exact(y_plane)) {
                    for (window, error) in pool.outputs().zip(dy) {
                        let share = error / op.count(&pool.windows, window) as f32;
                        pool.positions(window).for_each(|tap| dx[tap] += share);
                    }
                }
                Tensor::new(ty, Data::F32(dx), ScaleData::None)
            }
            _ => {
                let op = self.forward();
                let mean = op.mean(&pool, Element::I8);
                let mut dx = vec![0i64; ty.count()];
                let planes = dx.chunks_exact_mut(x_plane).zip(dy.as_i8().chunks_exact(y_plane));
                for (dx, dy) in planes {
                    for (window, &error) in pool.outputs().zip(dy) {
                        let factor = match mean {
                            Mean::Windows => reciprocal(op.count(&pool.windows, window)),
                            _ => 1,
                        };
                        let share = i64::from(error) * i64::from(factor);
                        pool.positions(window).for_each(|tap| dx[tap] += share);
                    }
                }
                let dx = dx.into_iter().map(|sum| saturate_i8(mean.apply(sum))).collect();
                let exponent = mean.exponent(dy.exponent());
                Tensor::new(ty, Data::I8(dx), ScaleData::Exponent(exponent))
            }
        }]
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_planes(inputs, outputs, false)
    }

    fn lower_apart(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        self.lower_planes(inputs, outputs, true)
    }

    fn cases() -> Vec<Case> {
        let plain = |kernel, input_size| AvgPool2dGradient {
            kernel,
            strides: [1, 1],
            pads: [0; 4],
            ceil: false,
            count_include_pad: false,
            input_size,
        };
        vec![
            Case::new(
                plain([1, 2], [1, 3]),
                vec![Tensor::f32([1, 1, 1, 2], vec![2., 6.])],
                vec![Tensor::f32([1, 1, 1, 3], vec![1., 4., 3.])],
            ),
            // A column that no window holds gets +0.
            Case::new(
                AvgPool2dGradient { strides: [2, 2], ..plain([2, 2], [2, 3]) },
                vec![Tensor::f32([1, 1, 1, 1], vec![8.])],
                vec![Tensor::f32([1, 1, 2, 3], vec![2., 2., 0., 2., 2., 0.])],
            ),
            // Half of the first window is padding: it counts, or not.
            Case::new(
                AvgPool2dGradient { pads: [0, 1, 0, 0], ..plain([1, 2], [1, 2]) },
                vec![Tensor::f32([1, 1, 1, 2], vec![2., 6.])],
                vec![Tensor::f32([1, 1, 1, 2], vec![5., 3.])],
            ),
            Case::new(
                AvgPool2dGradient {
                    pads: [0, 1, 0, 0],
                    count_include_pad: true,
                    ..plain([1, 2], [1, 2])
                },
                vec![Tensor::f32([1, 1, 1, 2], vec![2., 6.])],
                vec![Tensor::f32([1, 1, 1, 2], vec![4., 3.])],
            ),
            // Two elements: the sum clamped, one bit lower.
            Case::new(
                plain([1, 2], [1, 4]),
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![-128, -128, 127], 2)],
                vec![Tensor::i8_shared([1, 1, 1, 4], vec![-127, -127, -1, 127], 1)],
            ),
            // Padding counts: each element is in two windows.
            Case::new(
                AvgPool2dGradient {
                    pads: [0, 1, 0, 1],
                    count_include_pad: true,
                    ..plain([1, 2], [1, 2])
                },
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![2, 6, 4], 0)],
                vec![Tensor::i8_shared([1, 1, 1, 2], vec![8, 10], -1)],
            ),
            // Three elements, factor 10923: 127 -> 42.3, 254 -> 84.7, 126 -> 42.0, -1 -> -0.3, -128 -> -42.7.
            Case::new(
                plain([1, 3], [1, 5]),
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![127, 127, -128], -3)],
                vec![Tensor::i8_shared([1, 1, 1, 5], vec![42, 85, 42, 0, -43], -3)],
            ),
            // Padding does not count: windows of 2, 3 and 2 elements, factors 16384, 10923, 16384.
            // 127 f - 128 g = 682624 = 20.8 * 2^15, then less 5 f: 600704 = 18.3 * 2^15; -128 g - 5 f = -45.2 * 2^15.
            Case::new(
                AvgPool2dGradient { pads: [0, 1, 0, 1], ..plain([1, 3], [1, 3]) },
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![127, -128, -5], 4)],
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![21, 18, -45], 4)],
            ),
            // Windows of 1, 2 and 1: an error alone is passed on whole, a sum is clamped.
            Case::new(
                AvgPool2dGradient { pads: [0, 1, 0, 1], ..plain([1, 2], [1, 2]) },
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![127, 3, -128], 0)],
                vec![Tensor::i8_shared([1, 1, 1, 2], vec![127, -127], 0)],
            ),
            Case::shape_only(
                AvgPool2dGradient {
                    strides: [2, 3],
                    pads: [1, 0, 2, 1],
                    ceil: true,
                    ..plain([3, 2], [7, 9])
                },
                vec![sample::i8_shared([2, 3, 4, 3], 1, i32::MIN)],
            ),
            Case::shape_only(
                AvgPool2dGradient { pads: [1; 4], ..plain([3, 3], [6, 35]) },
                vec![sample::i8_shared([2, 2, 6, 35], 5, -3)],
            ),
            Case::shape_only(
                AvgPool2dGradient {
                    strides: [2, 3],
                    pads: [1, 0, 2, 1],
                    ceil: true,
                    ..plain([3, 2], [7, 9])
                },
                vec![sample::f32([2, 3, 4, 3], 1)],
            ),
            Case::shape_only(
                AvgPool2dGradient {
                    strides: [2, 3],
                    pads: [1, 2, 0, 1],
                    ceil: true,
                    count_include_pad: true,
                    ..plain([2, 3], [6, 9])
                },
                vec![sample::f32([2, 3, 4, 4], 2)],
            ),
            Case::shape_only(
                AvgPool2dGradient {
                    pads: [1; 4],
                    count_include_pad: true,
                    ..plain([3, 3], [5, 4])
                },
                vec![sample::i8_shared([2, 2, 5, 4], 5, i32::MIN)],
            ),
            Case::shape_only(
                plain([3, 4], [6, 7]),
                vec![sample::i8_shared([2, 3, 4, 4], 3, i32::MIN)],
            ),
            Case::shape_only(
                plain([4, 2], [5, 7]),
                vec![sample::i8_shared([1, 2, 2, 6], 4, i32::MIN)],
            ),
        ]
    }
}
