//! `dropout`. See [`Dropout`].

use crate::attributes::{F32};
use crate::graph::{Graph, ValueId};
use crate::loops::builder::{LoopBuilder};
use crate::loops::{Comparison, Expr, LoopKernel};
use crate::operator;
use crate::ops::properties::Work;
use crate::ops::support::{elementwise, sample};
use crate::ops::{Case, Differentiated, GradientError, Operator, TypeError, rule};
use crate::random::{RunContext};
use crate::tensor::{ScaleData, Tensor};
use crate::types::{Element, TensorType};

operator! {
    /// Elements dropped at random (a draw of `stream` for each element of each step). FP32: kept ones times
    /// `1 / (1 - ratio)` (f32), dropped ones +0. An element is kept if its draw (of its flat index) is at least
    /// `floor(ratio * 2^32)`, unsigned. i8 or u8 with a shared exponent (ratio 0.5 only): the exponent grows by one. Its
    /// gradient is the same operation on the error: the mask is drawn again.
    pub struct Dropout = "dropout" {
        /// Probability of dropping, in [0, 1).
        pub ratio: F32,
        /// Which random stream.
        pub stream: u32,
    }
}

/// A draw below this (unsigned) drops the element: `floor(ratio * 2^32)`, exact.
fn threshold(ratio: f32) -> u32 {
    (f64::from(ratio) * 4_294_967_296.0) as u32
}

impl Operator for Dropout {
    const WORK: Work = Work::Series;

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let [x] = rule::operands::<1>("dropout", inputs)?;
        rule::f32_or_shared_byte("dropout", x)?;
        let ratio = self.ratio.get();
        rule::ensure((0.0..1.0).contains(&ratio), || {
            format!("dropout: the ratio must be in [0, 1), here {ratio}")
        })?;
        rule::ensure(x.is_f32() || ratio == 0.5, || {
            format!("dropout of i8<2^e> takes ratio 0.5, here {ratio}")
        })?;
        rule::ensure(u32::try_from(x.count()).is_ok(), || {
            format!("dropout: {x} has more elements than a stream has draws")
        })?;
        Ok(vec![x.clone()])
    }

    fn evaluate(&self, inputs: &[&Tensor], run: &RunContext) -> Vec<Tensor> {
        let (x, threshold) = (inputs[0], threshold(self.ratio.get()));
        let kept = (0u32..).map(|i| run.draw(self.stream, i) >= threshold);
        let shape = x.shape().dims();
        if x.ty().is_f32() {
            let factor = 1.0 / (1.0 - self.ratio.get());
            let pairs = x.as_f32().iter().zip(kept);
            let elements = pairs.map(|(&x, kept)| if kept { x * factor } else { 0.0 }).collect();
            return vec![Tensor::f32(shape, elements)];
        }
        let pairs = x.to_i64().into_iter().zip(kept);
        let elements: Vec<i64> = pairs.map(|(x, kept)| if kept { x } else { 0 }).collect();
        let exponent = ScaleData::Exponent(x.exponent().wrapping_add(1));
        vec![Tensor::from_i64(x.ty(), &elements, exponent)]
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: &Differentiated<'_>,
    ) -> Result<Vec<Option<ValueId>>, GradientError> {
        if !node.wanted[0] {
            return Ok(vec![None]);
        }
        Ok(vec![Some(graph.add1(self.clone(), &[node.output_gradient()], "dropout/gradient")?)])
    }

    fn lower(&self, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
        let mut builder = LoopBuilder::new(inputs, outputs, true);
        let float = inputs[0].is_f32();
        if !float {
            let exponent = builder.input_exponent(0);
            builder.set_output_exponent(0, exponent + Expr::i32(1));
        }
        let (x, y) = (builder.input(0), builder.output(0));
        let threshold = Expr::i32(threshold(self.ratio.get()) as i32);
        let factor = 1.0 / (1.0 - self.ratio.get());
        builder.for_("i", inputs[0].count(), |builder, i| {
            let draw = builder.draw(self.stream, i.clone());
            let dropped = draw.compare(Comparison::LessUnsigned, threshold);
            let value = builder.load(x, i.clone());
            let value = if float {
                dropped.select(Expr::f32(0.0), value * Expr::f32(factor))
            } else {
                dropped.select(Expr::i32(0), value)
            };
            builder.store(y, i, value);
        });
        builder.finish()
    }

    fn may_overwrite(&self, operand: usize) -> bool {
        operand == 0
    }

    fn cases() -> Vec<Case> {
        let dropout = |ratio: f32, stream| Dropout { ratio: F32::new(ratio), stream };
        let mut cases = vec![
            Case::new(
                dropout(0.0, 1),
                vec![Tensor::f32([3], vec![1.5, -2.0, 0.0])],
                vec![Tensor::f32([3], vec![1.5, -2.0, 0.0])],
            ),
            Case::new(
                dropout(0.5, 1),
                vec![Tensor::i8_shared([3], vec![0, 0, 0], -4)],
                vec![Tensor::i8_shared([3], vec![0, 0, 0], -3)],
            ),
            // Draws of stream 5 at seed 0x123456789abcdef0, step 3, by an independent Philox: top bits 0, 1, 0, 0,
            // 1, 1, 1, 0, 1, 1; only elements 0, 3 and 7 are below 2^30.
            Case::new(
                dropout(0.5, 5),
                vec![Tensor::f32([10], vec![1.0; 10])],
                vec![Tensor::f32([10], vec![0.0, 2.0, 0.0, 0.0, 2.0, 2.0, 2.0, 0.0, 2.0, 2.0])],
            ),
            Case::new(
                dropout(0.5, 5),
                vec![Tensor::i8_shared([5], vec![-128, -128, 3, 4, 127], -4)],
                vec![Tensor::i8_shared([5], vec![0, -128, 0, 0, 127], -3)],
            ),
            Case::new(
                dropout(0.25, 5),
                vec![Tensor::f32([8], vec![3.0; 8])],
                vec![Tensor::f32([8], vec![0.0, 4.0, 4.0, 0.0, 4.0, 4.0, 4.0, 0.0])],
            ),
            Case::shape_only(dropout(0.25, u32::MAX), vec![elementwise::extreme_tensor()]),
            Case::shape_only(dropout(0.5, 2), vec![Tensor::f32([], vec![4.0])]),
            Case::shape_only(dropout(f32::from_bits(0x3f7f_ffff), 3), vec![elementwise::extreme_tensor()]),
        ];
        for exponent in [-9, 0, i32::MAX] {
            let elements = (0..105).map(|i| (i * 5 - 127) as i8).collect();
            let x = Tensor::i8_shared([3, 5, 7], elements, exponent);
            cases.push(Case::shape_only(dropout(0.5, 7), vec![x]));
        }
        cases.push(Case::shape_only(
            dropout(0.5, 7),
            vec![sample::shared([3, 5, 7], Element::U8, 1, -9)],
        ));
        cases
    }
}
