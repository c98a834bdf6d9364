//! Gradient rules against central differences: elementwise operations, reductions, normalisation, losses.
//!
//! The loss is the sum of an operation's results times fixed weights. The difference quotient runs the operation
//! itself; the gradient is what its rule builds, run by the interpreter.

use trainc_ir::attributes::F32;
use trainc_ir::graph::Graph;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::nll_loss::Reduction;
use trainc_ir::ops::{self, Differentiated};
use trainc_ir::{InputRole, Op, RunContext, Tensor};

const RUN: RunContext = RunContext { seed: 7, step: 2 };

/// Values in `low..high`, spread without order so that neighbours differ.
fn spread(count: usize, low: f32, high: f32, salt: usize) -> Vec<f32> {
    (0..count)
        .map(|i| low + (high - low) * (((i * 61 + salt * 17 + 5) % 127) as f32 + 0.5) / 127.0)
        .collect()
}

fn tensor(shape: &[usize], low: f32, high: f32, salt: usize) -> Tensor {
    Tensor::f32(shape, spread(shape.iter().product(), low, high, salt))
}

fn loss(op: &Op, inputs: &[Tensor], weights: &[Tensor]) -> f64 {
    let operands: Vec<&Tensor> = inputs.iter().collect();
    let outputs = op.evaluate(&operands, &RUN);
    let products = outputs.iter().zip(weights).flat_map(|(output, weight)| {
        output.as_f32().iter().zip(weight.as_f32()).map(|(x, w)| f64::from(*x) * f64::from(*w))
    });
    products.sum()
}

/// Gradients of all operands by the rule; only `wanted` ones are asked for.
fn by_rule(op: &Op, inputs: &[Tensor], weights: &[Tensor], wanted: &[bool]) -> Vec<Option<Tensor>> {
    let mut graph = Graph::new("gradient");
    let ids: Vec<_> = inputs
        .iter()
        .map(|tensor| graph.add_input("x", tensor.ty().clone(), InputRole::Data))
        .collect();
    let outputs = graph.add(op.clone(), &ids, "y").expect("types");
    let errors: Vec<_> = weights
        .iter()
        .map(|w| Some(graph.add_input("dy", w.ty().clone(), InputRole::Data)))
        .collect();
    let node =
        Differentiated { inputs: &ids, outputs: &outputs, output_gradients: &errors, wanted };
    let gradients = op.gradient(&mut graph, &node).unwrap_or_else(|e| panic!("{op}: {e}"));
    assert_eq!(gradients.len(), inputs.len(), "{op}: one gradient an operand");
    for (gradient, input) in gradients.iter().zip(inputs) {
        if let Some(gradient) = gradient {
            assert_eq!(graph.ty(*gradient), input.ty(), "{op}: type of a gradient");
            graph.add_output("gradient", *gradient);
        }
    }
    let all: Vec<Tensor> = inputs.iter().chain(weights).cloned().collect();
    let mut results = Interpreter::new(&graph).step(&all, &RUN).expect("inputs").into_iter();
    gradients.iter().map(|gradient| gradient.and_then(|_| results.next())).collect()
}

/// Checks the operands in `differentiable`; each alone must also give the same gradient and no other.
fn check(op: impl Into<Op>, inputs: &[Tensor], differentiable: &[usize]) {
    let op = op.into();
    let types: Vec<_> = inputs.iter().map(Tensor::ty).collect();
    let outputs = op.infer(&types).unwrap_or_else(|e| panic!("{op}: {e}"));
    let weights: Vec<Tensor> = outputs
        .iter()
        .enumerate()
        .map(|(i, ty)| tensor(ty.shape.dims(), -1.0, 1.5, i + 3))
        .collect();
    let wanted: Vec<bool> = (0..inputs.len()).map(|i| differentiable.contains(&i)).collect();
    let gradients = by_rule(&op, inputs, &weights, &wanted);
    for &operand in differentiable {
        let gradient = gradients[operand].as_ref().unwrap_or_else(|| panic!("{op}: {operand}"));
        let values = inputs[operand].as_f32();
        let mut changed = inputs.to_vec();
        let mut quotients = Vec::new();
        for (i, &value) in values.iter().enumerate() {
            let step = 2f32.powi(-9) * value.abs().max(0.5);
            let mut at = |value: f32| {
                let mut moved = values.to_vec();
                moved[i] = value;
                changed[operand] = Tensor::f32(inputs[operand].shape().dims(), moved);
                loss(&op, &changed, &weights)
            };
            let (above, below) = (value + step, value - step);
            quotients.push((at(above) - at(below)) / (f64::from(above) - f64::from(below)));
        }
        // Relative to the largest gradient of the operand: rounding of the loss is absolute.
        let largest = quotients.iter().fold(1e-3f64, |largest, q| largest.max(q.abs()));
        for (i, (quotient, found)) in quotients.iter().zip(gradient.as_f32()).enumerate() {
            let error = (quotient - f64::from(*found)).abs();
            assert!(
                error <= 1e-2 * quotient.abs() + 2e-3 * largest,
                "{op}: operand {operand}, element {i}: rule {found}, difference {quotient}"
            );
        }
        let alone: Vec<bool> = (0..inputs.len()).map(|i| i == operand).collect();
        let only = by_rule(&op, inputs, &weights, &alone);
        for (i, found) in only.iter().enumerate() {
            match found {
                Some(found) => assert!(i == operand && found.bits_equal(gradient), "{op}: {i}"),
                None => assert!(i != operand, "{op}: {i}"),
            }
        }
    }
}

#[test]
fn unary() {
    let anywhere = || [tensor(&[3, 5], -2.05, 2.0, 1)];
    let positive = || [tensor(&[3, 5], 0.3, 4.0, 1)];
    check(ops::Abs {}, &anywhere(), &[0]);
    check(ops::Neg {}, &anywhere(), &[0]);
    check(ops::Exp {}, &anywhere(), &[0]);
    check(ops::Log {}, &positive(), &[0]);
    check(ops::Sqrt {}, &positive(), &[0]);
    check(ops::Reciprocal {}, &positive(), &[0]);
    check(ops::Tanh {}, &anywhere(), &[0]);
    check(ops::Sigmoid {}, &anywhere(), &[0]);
    check(ops::Erf {}, &anywhere(), &[0]);
    check(ops::Relu {}, &anywhere(), &[0]);
    check(ops::LeakyRelu { alpha: F32::new(0.1) }, &anywhere(), &[0]);
    check(ops::Clip { min: F32::new(-1.0), max: F32::new(0.7) }, &anywhere(), &[0]);
    check(ops::Clip { min: F32::new(-1.0), max: F32::new(f32::INFINITY) }, &anywhere(), &[0]);
    check(ops::Dropout { ratio: F32::new(0.5), stream: 3 }, &anywhere(), &[0]);
    check(ops::Dropout { ratio: F32::new(0.25), stream: 4 }, &anywhere(), &[0]);
}

#[test]
fn steps_have_no_gradient() {
    for op in [Op::from(ops::Sign {}), Op::from(ops::Floor {}), Op::from(ops::Ceil {})] {
        let x = [tensor(&[5], -2.0, 2.0, 1)];
        assert_eq!(by_rule(&op, &x, &x, &[true]), [None]);
    }
}

#[test]
fn comparisons_have_no_gradient() {
    for &comparison in ops::Comparison::ALL {
        let x = [tensor(&[5], -2.0, 2.0, 1), tensor(&[5], -2.0, 2.0, 2)];
        let op = Op::from(ops::Compare { comparison });
        assert_eq!(by_rule(&op, &x, &x[..1], &[true, true]), [None, None]);
    }
}

#[test]
fn selections() {
    let condition = |shape: &[usize]| {
        let count = shape.iter().product();
        Tensor::f32(shape, (0..count).map(|i: usize| (i % 3) as f32 - 1.0).collect())
    };
    let of = |c: &[usize], a: &[usize], b: &[usize]| {
        [condition(c), tensor(a, -2.0, 2.0, 1), tensor(b, -1.7, 1.9, 2)]
    };
    check(ops::Select {}, &of(&[2, 3], &[2, 3], &[2, 3]), &[1, 2]);
    check(ops::Select {}, &of(&[5, 1], &[4], &[]), &[1, 2]);
    check(ops::Select {}, &of(&[3], &[2, 1], &[4, 1, 1]), &[1, 2]);
}

#[test]
fn binary_with_every_broadcast() {
    let shapes: [(&[usize], &[usize]); 6] = [
        (&[], &[]),
        (&[2, 3], &[2, 3]),
        (&[2, 3, 5], &[3, 1]),
        (&[], &[2, 3]),
        (&[2, 1, 3], &[4, 1]),
        (&[1], &[3]),
    ];
    for (a, b) in shapes {
        let operands = || [tensor(a, -2.0, 2.0, 1), tensor(b, -1.7, 1.9, 2)];
        let positive = || [tensor(a, 0.3, 2.0, 1), tensor(b, 0.4, 2.9, 2)];
        check(ops::Add {}, &operands(), &[0, 1]);
        check(ops::Sub {}, &operands(), &[0, 1]);
        check(ops::Mul {}, &operands(), &[0, 1]);
        check(ops::Div {}, &positive(), &[0, 1]);
        check(ops::Maximum {}, &operands(), &[0, 1]);
        check(ops::Minimum {}, &operands(), &[0, 1]);
        check(ops::Pow {}, &positive(), &[0, 1]);
    }
    let integral = Tensor::f32([4], vec![2.0, 3.0, -1.0, 0.0]);
    check(ops::Pow {}, &[tensor(&[4], -2.0, -0.5, 1), integral], &[0]);
}

#[test]
fn reductions() {
    let x = || [tensor(&[2, 3, 2, 5], -2.0, 2.0, 1)];
    for axes in [&[0][..], &[1], &[3], &[0, 2, 3], &[1, 2], &[0, 1, 2, 3], &[]] {
        for keep_dims in [false, true] {
            check(ops::ReduceSum { axes: axes.to_vec(), keep_dims }, &x(), &[0]);
            check(ops::ReduceMean { axes: axes.to_vec(), keep_dims }, &x(), &[0]);
            check(ops::ReduceMax { axes: axes.to_vec(), keep_dims }, &x(), &[0]);
        }
    }
}

#[test]
fn maximum_goes_to_the_first() {
    let op = Op::from(ops::ReduceMax { axes: vec![0], keep_dims: false });
    let x = Tensor::f32([3, 2], vec![1.0, 5.0, 4.0, 5.0, 4.0, 2.0]);
    let dy = Tensor::f32([2], vec![10.0, 20.0]);
    let expected = Tensor::f32([3, 2], vec![0.0, 20.0, 10.0, 0.0, 0.0, 0.0]);
    assert_eq!(by_rule(&op, &[x], &[dy], &[true]), [Some(expected)]);
    // A tie of two operands goes to the second, which is the result.
    let pair = [Tensor::f32([1], vec![2.0]), Tensor::f32([1], vec![2.0])];
    let dy = [Tensor::f32([1], vec![3.0])];
    let found = by_rule(&Op::from(ops::Maximum {}), &pair, &dy, &[true, true]);
    let expected = [0.0, 3.0].map(|x| Some(Tensor::f32([1], vec![x])));
    assert_eq!(found, expected);
}

#[test]
fn batch_statistics() {
    check(ops::BatchStatistics {}, &[tensor(&[3, 2, 2, 3], -2.0, 2.0, 1)], &[0]);
    check(ops::BatchStatistics {}, &[tensor(&[5, 3], -2.0, 2.0, 1)], &[0]);
}

#[test]
fn batch_norm_with_frozen_statistics() {
    let inputs = [
        tensor(&[3, 2, 2, 3], -2.0, 2.0, 1),
        tensor(&[2], 0.5, 1.5, 2),
        tensor(&[2], -1.0, 1.0, 3),
        tensor(&[2], -1.0, 1.0, 4),
        tensor(&[2], 0.5, 2.0, 5),
    ];
    check(ops::BatchNorm { epsilon: F32::new(1e-3), batch: false }, &inputs, &[0, 1, 2]);
}

/// The gradient of `x` through statistics that `operands` computes of it, beside difference quotients that compute them again.
fn check_through_statistics(
    norm: &Op,
    x: &Tensor,
    dy: &Tensor,
    operands: impl Fn(&Tensor) -> Vec<Tensor>,
    found: &Tensor,
) {
    for (i, &found) in found.as_f32().iter().enumerate() {
        let at = |step: f32| {
            let mut moved = x.as_f32().to_vec();
            moved[i] += step;
            let moved = Tensor::f32(x.shape().dims(), moved);
            loss(norm, &operands(&moved), std::slice::from_ref(dy))
        };
        let step = 2f32.powi(-8);
        let quotient = (at(step) - at(-step)) / (2.0 * f64::from(step));
        let error = (quotient - f64::from(found)).abs();
        assert!(error < 1e-2 * quotient.abs() + 1e-3, "{i}: rule {found}, difference {quotient}");
    }
}

/// With the batch's statistics the difference quotient must recompute them.
#[test]
fn batch_norm_with_its_own_statistics() {
    let norm = Op::from(ops::BatchNorm { epsilon: F32::new(1e-3), batch: true });
    let x = tensor(&[3, 2, 2, 3], -2.0, 2.0, 1);
    let (scale, bias) = (tensor(&[2], 0.5, 1.5, 2), tensor(&[2], -1.0, 1.0, 3));
    let dy = [tensor(&[3, 2, 2, 3], -1.0, 1.5, 4)];
    let operands = |x: &Tensor| {
        let mut operands = vec![x.clone(), scale.clone(), bias.clone()];
        operands.extend(Op::from(ops::BatchStatistics {}).evaluate(&[x], &RUN));
        operands
    };
    let found = by_rule(&norm, &operands(&x), &dy, &[true, true, true, true, true]);
    assert_eq!((&found[3], &found[4]), (&None, &None));
    check_through_statistics(&norm, &x, &dy[0], operands, found[0].as_ref().expect("wanted"));
}

/// Normalization by ranges has no rule: algorithms put it in the place of batch normalization and of its gradient.
#[test]
fn range_norm_with_its_own_statistics() {
    let norm = Op::from(ops::BatchNorm { epsilon: F32::new(0.0), batch: false });
    let x = tensor(&[3, 2, 2, 3], -2.0, 2.0, 1);
    let (scale, bias) = (tensor(&[2], 0.5, 1.5, 2), tensor(&[2], -1.0, 1.0, 3));
    let dy = tensor(&[3, 2, 2, 3], -1.0, 1.5, 4);
    for chunks in [16, 3, 1] {
        let statistics = ops::RangeStatistics { chunks, epsilon: F32::new(1e-3) };
        let statistics = |x: &Tensor| Op::from(statistics.clone()).evaluate(&[x], &RUN);
        let operands =
            |x: &Tensor| [vec![x.clone(), scale.clone(), bias.clone()], statistics(x)].concat();
        let of_x = statistics(&x);
        let inputs = [&x, &scale, &of_x[0], &of_x[1], &dy];
        let found = Op::from(ops::RangeNormGradient { chunks }).evaluate(&inputs, &RUN);
        check_through_statistics(&norm, &x, &dy, operands, &found[0]);
    }
}

#[test]
fn softmax_family() {
    for (axis, shape) in [(0, &[5][..]), (1, &[3, 4]), (1, &[2, 3, 4])] {
        check(ops::Softmax { axis }, &[tensor(shape, -2.0, 2.0, 1)], &[0]);
        check(ops::LogSoftmax { axis }, &[tensor(shape, -2.0, 2.0, 1)], &[0]);
    }
}

#[test]
fn losses() {
    let labels = Tensor::i32([4], vec![2, 0, 3, 1]);
    check(ops::SoftmaxCrossEntropy {}, &[tensor(&[4, 3], -2.0, 2.0, 1), labels], &[0]);
    let labels = || Tensor::i32([2, 3], vec![2, 0, 3, 1, -1, 1]);
    for &reduction in Reduction::ALL {
        for ignore_index in [-1, 1] {
            let op = ops::NllLoss { reduction, ignore_index };
            let scores = tensor(&[2, 3, 3], -4.0, -0.1, 1);
            check(op.clone(), &[scores.clone(), labels()], &[0]);
            check(op, &[scores, labels(), tensor(&[3], 0.5, 2.0, 2)], &[0]);
        }
    }
}
