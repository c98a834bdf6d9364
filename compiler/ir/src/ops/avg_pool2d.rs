//! `avg_pool2d`. See [`AvgPool2d`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel, Unary};
use crate::operator;
use crate::ops::properties::{Examples, Property, Work};
use crate::ops::rule::{self, operands};
use crate::ops::support::pool::{
    self, Mean, Pool, RECIPROCAL_BITS, lower_reciprocal, reciprocal,
};
use crate::ops::support::{derivation, sample};
use crate::ops::support::window::{Axis, Geometry, Windows};
use crate::ops::{Case, Differentiated, GradientError, AvgPool2dGradient, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// Mean over windows of `[B,C,H,W]`. FP32; or i8 or u8 with a shared exponent `e` giving i32: if every window holds
    /// `2^n` elements the sum with exponent `e - n`; else, of i8, if all hold one count, the sum times
    /// `round(2^15 / count)` shifted right by 15, half away from zero, clamped to +-127, with exponent `e`; else (u8, or
    /// counts that differ: padding that does not count) each sum times `round(2^15 / count)` of its own window, with
    /// exponent `e - 15`.
    ///
    /// FP32 order: sequential sum from +0 in row-major order, then one division by the count.
    pub struct AvgPool2d = "avg_pool2d" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// As in `max_pool2d`.
        pub ceil: bool,
        /// Whether padding counts as zeros (never the extra border that `ceil` adds).
        pub count_include_pad: bool,
    }
}

impl AvgPool2d {
    /// The checked pool of an operand `[B,C,H,W]`.
    pub(crate) fn pool(&self, name: &str, x: &Shape) -> Result<Pool, TypeError> {
        let geometry = Geometry {
            kernel: self.kernel,
            strides: self.strides,
            pads: self.pads,
            dilations: [1, 1],
            ceil: self.ceil,
        };
        Pool::new(name, &geometry, x)
    }

    /// The fewest and the most elements that a window's sum is divided by.
    pub(crate) fn counts(&self, windows: &Windows) -> [usize; 2] {
        let Windows { vertical, horizontal } = windows;
        let along = |axis: &Axis| {
            let counts = (0..axis.output).map(|window| self.along(axis, window));
            counts.fold([usize::MAX, 0], |[fewest, most], n| [fewest.min(n), most.max(n)])
        };
        let (rows, columns) = (along(vertical), along(horizontal));
        [0, 1].map(|i| rows[i].saturating_mul(columns[i]).max(1))
    }

    /// How integers are divided.
    pub(crate) fn mean(&self, pool: &Pool, element: Element) -> Mean {
        match Mean::of(self.counts(&pool.windows)) {
            // A rounded mean has 8 bits and no sign to spare.
            Mean::Factor(_) if element == Element::U8 => Mean::Windows,
            mean => mean,
        }
    }

    /// What a window's sum is divided by.
    pub(crate) fn count(&self, windows: &Windows, [oh, ow]: [usize; 2]) -> usize {
        self.along(&windows.vertical, oh) * self.along(&windows.horizontal, ow)
    }

    /// The elements of a window along one axis.
    fn along(&self, axis: &Axis, window: usize) -> usize {
        match self.count_include_pad {
            true => axis.padded_taps(window),
            false => axis.taps(window).len(),
        }
    }

    /// [`AvgPool2d::count`] in loops, as F32: a constant where all windows have the same.
    pub(crate) fn lower_count(&self, b: &mut LoopBuilder, pool: &Pool, window: &pool::Window) -> Expr {
        let [fewest, most] = self.counts(&pool.windows);
        if fewest == most {
            return Expr::f32(most as f32);
        }
        let count = self.lower_integer_count(pool, window);
        b.let_("count", count.unary(Unary::ToFloat))
    }

    /// [`AvgPool2d::count`] in loops, as I32.
    pub(crate) fn lower_integer_count(&self, pool: &Pool, window: &pool::Window) -> Expr {
        let count = if self.count_include_pad {
            let Windows { vertical, horizontal } = &pool.windows;
            let along = |axis: &Axis, window: &Expr| {
                let rest = Expr::index(axis.before + axis.input + axis.after)
                    - window.clone() * Expr::index(axis.stride);
                rest.minimum(Expr::index(axis.kernel))
            };
            along(vertical, &window.place[0]) * along(horizontal, &window.place[1])
        } else {
            window.taps()
        };
        count.truncate()
    }
}

impl Operator for AvgPool2d {
    const WORK: Work = Work::Windows;
    const PROPERTIES: &'static [Property] = &[Property::BeginsChain];

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let name = "avg_pool2d";
        let [x] = operands(name, inputs)?;
        rule::f32_or_shared_byte(name, x)?;
        pool::integer_window(name, x, self.kernel)?;
        let shape = self.pool(name, &x.shape)?.y();
        Ok(vec![match x.is_f32() {
            true => TensorType::f32(shape),
            false => TensorType::shared(shape, Element::I32),
        }])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let pool =
            self.pool("avg_pool2d", x.shape()).expect("the type rule has checked the operand");
        vec![match x.data() {
            Data::F32(x) => {
                let means = x.chunks_exact(pool.x_plane()).flat_map(|x| {
                    pool.outputs().map(move |window| {
                        let sum = pool.positions(window).fold(0.0, |sum, tap| sum + x[tap]);
                        sum / self.count(&pool.windows, window) as f32
                    })
                });
                Tensor::f32(pool.y(), means.collect())
            }
            _ => {
                let mean = self.mean(&pool, x.ty().element);
                let elements = x.to_i64();
                let means = elements.chunks_exact(pool.x_plane()).flat_map(|x| {
                    pool.outputs().map(move |window| {
                        let sum = pool.positions(window).map(|tap| x[tap]).sum::<i64>();
                        match mean {
                            Mean::Windows => {
                                sum * i64::from(reciprocal(self.count(&pool.windows, window)))
                            }
                            mean => mean.apply(sum),
                        }
                    })
                });
                let exponent = match mean {
                    Mean::Windows => x.exponent().wrapping_sub(RECIPROCAL_BITS as i32),
                    mean => mean.exponent(x.exponent()),
                };
                let ty = TensorType::shared(pool.y(), Element::I32);
                let scale = ScaleData::Exponent(exponent);
                Tensor::from_i64(&ty, &means.collect::<Vec<_>>(), scale)
            }
        }]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let AvgPool2d { kernel, strides, pads, ceil, count_include_pad } = self.clone();
        let shape = &graph.ty(node.inputs[0]).shape;
        let input_size = [shape[2], shape[3]];
        let op =
            AvgPool2dGradient { kernel, strides, pads, ceil, count_include_pad, input_size };
        let name = derivation::name(graph, node, "gradient_input");
        Ok(vec![Some(graph.add1(op, &[node.output_gradient()], name)?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let float = inputs[0].is_f32();
        let pool = self
            .pool("avg_pool2d", &inputs[0].shape)
            .expect("the type rule has checked the operand");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        let mean = self.mean(&pool, inputs[0].element);
        if !float {
            let exponent = match mean {
                Mean::Windows => b.input_exponent(0) - Expr::i32(RECIPROCAL_BITS as i32),
                mean => mean.lower_exponent(b.input_exponent(0)),
            };
            b.set_output_exponent(0, exponent);
        }
        b.for_("plane", pool.planes(), |b, plane| {
            pool.for_windows(b, &plane, |b, window| {
                let sum = b.local("sum", if float { Expr::f32(0.0) } else { Expr::i32(0) });
                window.for_taps(b, |b, tap| {
                    let tap = b.load(x, window.x_plane.clone() + tap);
                    b.set(sum, b.get(sum) + tap);
                });
                let result = match (float, mean) {
                    (true, _) => b.get(sum).divide(self.lower_count(b, &pool, window)),
                    (false, Mean::Windows) => {
                        let count = self.lower_integer_count(&pool, window);
                        b.get(sum) * lower_reciprocal(b, count)
                    }
                    (false, mean) => mean.lower(b, b.get(sum)),
                };
                b.store(y, window.at.clone(), result);
            });
        });
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        let plain = |kernel| AvgPool2d {
            kernel,
            strides: [1, 1],
            pads: [0; 4],
            ceil: false,
            count_include_pad: false,
        };
        let counted = |size: usize| {
            let shape = [1, 1, size, size];
            Tensor::f32(shape, (1..=size * size).map(|i| i as f32).collect())
        };
        vec![
            // The examples of ONNX's AveragePool.
            Case::new(
                AvgPool2d { strides: [2, 2], ceil: true, ..plain([3, 3]) },
                vec![counted(4)],
                vec![Tensor::f32([1, 1, 2, 2], vec![6., 7.5, 12., 13.5])],
            ),
            Case::new(
                AvgPool2d { pads: [2; 4], strides: [2, 2], ..plain([5, 5]) },
                vec![counted(5)],
                vec![Tensor::f32([1, 1, 3, 3], vec![7., 8., 9., 12., 13., 14., 17., 18., 19.])],
            ),
            // Windows 0 1 2 | 2 5 _ of the padded row: its padding counts, the element that `ceil` adds does not.
            Case::new(
                AvgPool2d {
                    strides: [1, 2],
                    pads: [0, 1, 0, 0],
                    ceil: true,
                    count_include_pad: true,
                    ..plain([1, 3])
                },
                vec![Tensor::f32([1, 1, 1, 3], vec![1., 2., 5.])],
                vec![Tensor::f32([1, 1, 1, 2], vec![1., 3.5])],
            ),
            Case::new(
                AvgPool2d { pads: [0, 1, 0, 1], count_include_pad: true, ..plain([1, 2]) },
                vec![Tensor::f32([1, 1, 1, 2], vec![6., 2.])],
                vec![Tensor::f32([1, 1, 1, 3], vec![3., 4., 1.])],
            ),
            // Four elements: the sum, two bits lower.
            Case::new(
                AvgPool2d { strides: [2, 2], ..plain([2, 2]) },
                vec![Tensor::i8_shared([1, 1, 2, 4], vec![-128, -128, 127, 1, -128, -128, 0, 3], -5)],
                vec![Tensor::i32_shared([1, 1, 1, 2], vec![-512, 131], -7)],
            ),
            // Padding counts: two elements everywhere, the sum one bit lower.
            Case::new(
                AvgPool2d { pads: [0, 1, 0, 1], count_include_pad: true, ..plain([1, 2]) },
                vec![Tensor::i8_shared([1, 1, 1, 2], vec![6, 2], 3)],
                vec![Tensor::i32_shared([1, 1, 1, 3], vec![6, 8, 2], 2)],
            ),
            // Three elements: round(2^15 / 3) = 10923. 10923 * 381 = 4161663 = 127 * 2^15 + 127;
            // 10923 * -4 = -43692 = -1.33 * 2^15; 5 gives 54615 = 1.67 * 2^15.
            Case::new(
                AvgPool2d { strides: [1, 3], ..plain([1, 3]) },
                vec![Tensor::i8_shared([1, 1, 1, 9], vec![127, 127, 127, -1, -1, -2, 5, 0, 0], 4)],
                vec![Tensor::i32_shared([1, 1, 1, 3], vec![127, -1, 2], 4)],
            ),
            // Six elements: round(2^15 / 6) = 5461; 3 * 5461 = 16383 is just below a half.
            Case::new(
                AvgPool2d { strides: [1, 6], ..plain([1, 6]) },
                vec![Tensor::i8_shared(
                    [1, 1, 1, 12],
                    vec![3, 0, 0, 0, 0, 0, -4, 0, 0, 0, 0, 0],
                    0,
                )],
                vec![Tensor::i32_shared([1, 1, 1, 2], vec![0, -1], 0)],
            ),
            // Padding does not count: 2, 3 and 2 elements; round(2^15 / 2) = 16384, round(2^15 / 3) = 10923.
            Case::new(
                AvgPool2d { pads: [0, 1, 0, 1], ..plain([1, 3]) },
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![127, -128, 5], 4)],
                vec![Tensor::i32_shared([1, 1, 1, 3], vec![-16_384, 43_692, -2_015_232], -11)],
            ),
            // The last window, which `ceil` adds, holds one element: 2^15 times it.
            Case::new(
                AvgPool2d { strides: [1, 2], ceil: true, ..plain([1, 2]) },
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![1, 2, -128], 15)],
                vec![Tensor::i32_shared([1, 1, 1, 2], vec![49_152, -4_194_304], 0)],
            ),
            // Every window holds the whole operand of 3 elements.
            Case::new(
                AvgPool2d { pads: [0, 2, 0, 2], ..plain([1, 5]) },
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![5, 1, -2], 4)],
                vec![Tensor::i32_shared([1, 1, 1, 3], vec![1, 1, 1], 4)],
            ),
            Case::shape_only(
                AvgPool2d { strides: [2, 3], pads: [1, 0, 2, 1], ceil: true, ..plain([3, 2]) },
                vec![sample::f32([2, 3, 7, 9], 1)],
            ),
            Case::shape_only(
                AvgPool2d { strides: [2, 3], pads: [1, 0, 2, 1], ceil: true, ..plain([3, 2]) },
                vec![sample::i8_shared([2, 3, 7, 9], 1, i32::MIN)],
            ),
            Case::shape_only(
                AvgPool2d {
                    strides: [2, 3],
                    pads: [1, 2, 0, 1],
                    ceil: true,
                    count_include_pad: true,
                    ..plain([2, 3])
                },
                vec![sample::i8_shared([2, 3, 6, 9], 2, 7)],
            ),
            Case::shape_only(
                AvgPool2d { pads: [1; 4], ..plain([3, 3]) },
                vec![sample::i8_shared([2, 2, 6, 35], 5, -3)],
            ),
            Case::shape_only(
                AvgPool2d {
                    strides: [2, 3],
                    pads: [1, 2, 0, 1],
                    ceil: true,
                    count_include_pad: true,
                    ..plain([2, 3])
                },
                vec![sample::f32([2, 3, 6, 9], 2)],
            ),
            Case::shape_only(
                AvgPool2d { pads: [1; 4], count_include_pad: true, ..plain([3, 3]) },
                vec![sample::i8_shared([2, 2, 5, 4], 5, i32::MIN)],
            ),
            Case::shape_only(plain([7, 5]), vec![sample::i8_shared([2, 2, 7, 5], 3, i32::MIN)]),
            Case::shape_only(plain([4, 2]), vec![sample::i8_shared([2, 1, 5, 5], 4, i32::MIN)]),
            // u8: 2 taps; then 3 taps of 255 times round(2^15 / 3) = 10923.
            Case::new(
                AvgPool2d { kernel: [1, 2], strides: [1, 1], pads: [0; 4], ceil: false, count_include_pad: true },
                vec![sample::shared_of([1, 1, 1, 3], Element::U8, &[255, 255, 0], -6)],
                vec![Tensor::i32_shared([1, 1, 1, 2], vec![510, 255], -7)],
            ),
            Case::new(
                AvgPool2d { kernel: [1, 3], strides: [1, 1], pads: [0; 4], ceil: false, count_include_pad: true },
                vec![sample::shared_of([1, 1, 1, 3], Element::U8, &[255, 255, 255], -6)],
                vec![Tensor::i32_shared([1, 1, 1, 1], vec![765 * 10923], -21)],
            ),
            Case::shape_only(
                AvgPool2d { kernel: [7, 7], strides: [1, 1], pads: [0; 4], ceil: false, count_include_pad: true },
                vec![sample::shared([2, 5, 7, 7], Element::U8, 2, 9)],
            ),
        ]
    }
}
