//! `max_pool2d`. See [`MaxPool2d`].

use crate::graph::{Graph, ValueId};
use crate::loops::builder::LoopBuilder;
use crate::loops::{Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::{Examples, Work};
use crate::ops::rule::{self, operands};
use crate::ops::support::movement::keep_exponent;
use crate::ops::support::pool::Pool;
use crate::ops::support::{derivation, sample};
use crate::ops::support::window::Geometry;
use crate::ops::{Case, Differentiated, GradientError, MaxPool2dGradient, Operator, TypeError};
use crate::random::RunContext;
use crate::tensor::{Data, Tensor};
use crate::types::{Element, Shape, TensorType};

operator! {
    /// Maximum over windows of `[B,C,H,W]`; padding never wins. FP32, or i8 or u8 with a shared exponent, which
    /// is kept.
    pub struct MaxPool2d = "max_pool2d" {
        /// Window.
        pub kernel: [usize; 2],
        /// Vertical, horizontal.
        pub strides: [usize; 2],
        /// Top, left, bottom, right.
        pub pads: [usize; 4],
        /// Vertical, horizontal.
        pub dilations: [usize; 2],
        /// Whether a last, partial window counts (ONNX's ceil_mode, with its rule that a window starts inside the padded operand).
        pub ceil: bool,
    }
}

impl MaxPool2d {
    fn pool(&self, x: &Shape) -> Result<Pool, TypeError> {
        let geometry = Geometry {
            kernel: self.kernel,
            strides: self.strides,
            pads: self.pads,
            dilations: self.dilations,
            ceil: self.ceil,
        };
        Pool::new("max_pool2d", &geometry, x)
    }
}

/// The maximum of each window, starting from `least`; what does not compare (NaN) never wins.
fn maxima<T: Copy + PartialOrd>(pool: &Pool, x: &[T], least: T) -> Vec<T> {
    x.chunks_exact(pool.x_plane())
        .flat_map(|x| {
            pool.outputs().map(move |window| {
                let taps = pool.positions(window).map(|at| x[at]);
                taps.fold(least, |most, tap| if tap > most { tap } else { most })
            })
        })
        .collect()
}

impl Operator for MaxPool2d {
    const WORK: Work = Work::Windows;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = operands("max_pool2d", inputs)?;
        rule::f32_or_shared_byte("max_pool2d", x)?;
        Ok(vec![x.with_shape(self.pool(&x.shape)?.y())])
    }

    fn evaluate(&self, inputs: &[&Tensor], _run: &RunContext) -> Vec<Tensor> {
        let x = inputs[0];
        let pool = self.pool(x.shape()).expect("the type rule has checked the operand");
        let data = match x.data() {
            Data::F32(x) => Data::F32(maxima(&pool, x, f32::NEG_INFINITY)),
            Data::U8(x) => Data::U8(maxima(&pool, x, u8::MIN)),
            _ => Data::I8(maxima(&pool, x.as_i8(), i8::MIN)),
        };
        vec![Tensor::new(x.ty().with_shape(pool.y()), data, *x.scale())]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        let MaxPool2d { kernel, strides, pads, dilations, ceil } = self.clone();
        let op = MaxPool2dGradient { kernel, strides, pads, dilations, ceil };
        let name = derivation::name(graph, node, "gradient_input");
        Ok(vec![Some(graph.add1(op, &[node.inputs[0], node.output_gradient()], name)?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let pool = self.pool(&inputs[0].shape).expect("the type rule has checked the operand");
        let mut b = LoopBuilder::new(inputs, outputs, false);
        let (x, y) = (b.input(0), b.output(0));
        keep_exponent(&mut b, outputs[0]);
        b.for_("plane", pool.planes(), |b, plane| {
            pool.for_windows(b, &plane, |b, window| {
                let most = b.local(
                    "most",
                    match inputs[0].element {
                        Element::F32 => Expr::f32(f32::NEG_INFINITY),
                        Element::U8 => Expr::i32(0),
                        _ => Expr::i32(i32::from(i8::MIN)),
                    },
                );
                window.for_taps(b, |b, tap| {
                    let tap = b.load(x, window.x_plane.clone() + tap);
                    // The tap first: it wins only if it is greater.
                    b.set(most, tap.maximum(b.get(most)));
                });
                b.store(y, window.at.clone(), b.get(most));
            });
        });
        b.finish()
    }

    fn by_example(&self, operands: &Examples<'_>) -> bool {
        operands.only_first()
    }

    fn cases() -> Vec<Case> {
        let plain = |kernel| MaxPool2d {
            kernel,
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            ceil: false,
        };
        let counted = |size: usize| {
            let shape = [1, 1, size, size];
            Tensor::f32(shape, (1..=size * size).map(|i| i as f32).collect())
        };
        vec![
            // The examples of ONNX's MaxPool.
            Case::new(
                MaxPool2d { strides: [2, 2], ceil: true, ..plain([3, 3]) },
                vec![counted(4)],
                vec![Tensor::f32([1, 1, 2, 2], vec![11., 12., 15., 16.])],
            ),
            Case::new(
                MaxPool2d { dilations: [2, 2], ..plain([2, 2]) },
                vec![counted(4)],
                vec![Tensor::f32([1, 1, 2, 2], vec![11., 12., 15., 16.])],
            ),
            Case::new(
                MaxPool2d { strides: [2, 2], ..plain([2, 2]) },
                vec![counted(5)],
                vec![Tensor::f32([1, 1, 2, 2], vec![7., 9., 17., 19.])],
            ),
            // Padding never wins, whatever the sign; -128 is an ordinary number.
            Case::new(
                MaxPool2d { pads: [0, 1, 0, 1], ..plain([1, 2]) },
                vec![Tensor::i8_shared([1, 1, 1, 3], vec![-128, -128, -1], -6)],
                vec![Tensor::i8_shared([1, 1, 1, 4], vec![-128, -128, -1, -1], -6)],
            ),
            // Of +0 and -0 the first stays; NaN does not win.
            Case::new(
                plain([1, 2]),
                vec![Tensor::f32([1, 1, 1, 4], vec![-0.0, 0.0, f32::NAN, -7.0])],
                vec![Tensor::f32([1, 1, 1, 3], vec![-0.0, 0.0, -7.0])],
            ),
            Case::shape_only(
                MaxPool2d {
                    strides: [2, 3],
                    pads: [1, 0, 2, 1],
                    dilations: [2, 1],
                    ceil: true,
                    ..plain([3, 2])
                },
                vec![sample::f32([2, 3, 7, 9], 1)],
            ),
            Case::shape_only(
                MaxPool2d { strides: [3, 2], pads: [0, 1, 1, 1], ceil: true, ..plain([2, 3]) },
                vec![sample::i8_shared([1, 3, 6, 5], 2, 9)],
            ),
            Case::new(
                MaxPool2d { pads: [0, 1, 0, 1], ..plain([1, 2]) },
                vec![sample::shared_of([1, 1, 1, 3], Element::U8, &[0, 200, 255], -6)],
                vec![sample::shared_of([1, 1, 1, 4], Element::U8, &[0, 200, 255, 255], -6)],
            ),
            Case::shape_only(
                MaxPool2d { strides: [2, 2], ..plain([2, 2]) },
                vec![sample::shared([2, 3, 8, 12], Element::U8, 2, 9)],
            ),
        ]
    }
}
