//! Gradients of products, pools and data movement against central differences.
//!
//! The loss is the sum of the result's elements times fixed weights, so the result's gradient is those weights.
//! Sums of the loss and differences are taken in f64.

use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::matmul::ProductRole;
use trainc_ir::ops::{
    AvgPool2d, Broadcast, Concat, Conv2d, Conv2dGradientInput, Differentiated, Gather, MatMul,
    MaxPool2d, Pad, Reshape, ScatterAdd, Slice, Transpose,
};
use trainc_ir::{Graph, InputRole, Op, RunContext, Tensor, TensorType, ValueId};

/// Distinct multiples of 1/64 in (-4, 4) in a scattered order.
fn operand(shape: &[usize], salt: usize) -> Tensor {
    let count: usize = shape.iter().product();
    assert!(count < 509, "values would repeat");
    let data = (0..count).map(|i| ((i * 197 + salt * 71 + 5) % 509) as f32 / 64.0 - 4.0).collect();
    Tensor::f32(shape, data)
}

/// The gradient rule of `op` at these operands: gradients of the wanted ones.
fn derive(op: &Op, operands: &[Tensor], wanted: &[bool]) -> (Tensor, Vec<Option<Tensor>>) {
    let mut graph = Graph::new("gradient");
    let inputs: Vec<ValueId> = operands
        .iter()
        .enumerate()
        .map(|(i, x)| graph.add_parameter(format!("x{i}"), x.clone(), true))
        .collect();
    let y = graph.add1(op.clone(), &inputs, "y").unwrap_or_else(|e| panic!("{op}: {e}"));
    let weights = operand(&graph.ty(y).shape.clone(), 3);
    let error = graph.add_constant("weights", weights.clone());
    let node =
        Differentiated { inputs: &inputs, outputs: &[y], output_gradients: &[Some(error)], wanted };
    let gradients = op.gradient(&mut graph, &node).unwrap_or_else(|e| panic!("{op}: {e}"));
    assert_eq!(gradients.len(), operands.len(), "{op}");
    for gradient in gradients.iter().flatten() {
        graph.add_output(format!("d{}", gradient.index()), *gradient);
    }
    let run = RunContext::default();
    let mut values = Interpreter::new(&graph).step(&[], &run).expect("no inputs").into_iter();
    let gradients = gradients.iter().map(|g| g.and_then(|_| values.next())).collect();
    (weights, gradients)
}

fn loss(op: &Op, operands: &[Tensor], weights: &Tensor) -> f64 {
    let operands: Vec<&Tensor> = operands.iter().collect();
    let y = &op.evaluate(&operands, &RunContext::default())[0];
    let products = y.as_f32().iter().zip(weights.as_f32());
    products.map(|(&y, &w)| f64::from(y) * f64::from(w)).sum()
}

/// Compares every element of every operand's gradient.
fn check(op: impl Into<Op>, shapes: &[&[usize]]) {
    // A power of two below the distance of two operand elements, so that no maximum changes.
    const STEP: f32 = 1.0 / 256.0;
    let op = op.into();
    let operands: Vec<Tensor> =
        shapes.iter().enumerate().map(|(i, shape)| operand(shape, i)).collect();
    let (weights, gradients) = derive(&op, &operands, &vec![true; operands.len()]);
    for (i, gradient) in gradients.iter().enumerate() {
        let gradient = gradient.as_ref().unwrap_or_else(|| panic!("{op}: no gradient {i}"));
        assert_eq!(gradient.ty(), operands[i].ty(), "{op}: gradient {i}");
        for (element, &found) in gradient.as_f32().iter().enumerate() {
            let moved = |by: f32| {
                let mut moved = operands.clone();
                let mut data = operands[i].as_f32().to_vec();
                data[element] += by;
                moved[i] = Tensor::f32(operands[i].shape().clone(), data);
                loss(&op, &moved, &weights)
            };
            let expected = (moved(STEP) - moved(-STEP)) / (2.0 * f64::from(STEP));
            let error = (f64::from(found) - expected).abs();
            assert!(
                error <= 1e-2 * expected.abs().max(1.0),
                "{op}: gradient {i}, element {element}: {found}, differences say {expected}"
            );
        }
    }
    // An operand whose gradient is not wanted costs nothing where there are several.
    if operands.len() > 1 {
        for unwanted in 0..operands.len() {
            let mut wanted = vec![true; operands.len()];
            wanted[unwanted] = false;
            let (_, some) = derive(&op, &operands, &wanted);
            assert!(some[unwanted].is_none(), "{op}: an unwanted gradient");
            for i in (0..operands.len()).filter(|&i| i != unwanted) {
                assert_eq!(some[i], gradients[i], "{op}");
            }
        }
    }
}

fn matmul(transpose_a: bool, transpose_b: bool) -> MatMul {
    MatMul { transpose_a, transpose_b, role: ProductRole::Forward }
}

#[test]
fn matmul_all_transpositions() {
    for (ta, a) in [(false, [2, 3]), (true, [3, 2])] {
        for (tb, b) in [(false, [3, 4]), (true, [4, 3])] {
            check(matmul(ta, tb), &[&a, &b]);
        }
    }
}

#[test]
fn matmul_with_leading_axes() {
    for (ta, a) in [(false, [2, 3]), (true, [3, 2])] {
        for (tb, b) in [(false, [3, 4]), (true, [4, 3])] {
            let with = |leading: &[usize], matrix: [usize; 2]| [leading, &matrix].concat();
            for (la, lb) in [
                (&[5][..], &[][..]),
                (&[2, 2][..], &[1][..]),
                (&[][..], &[3][..]),
                (&[2, 1][..], &[1, 2][..]),
                (&[2][..], &[3, 1][..]),
                (&[1][..], &[1, 1][..]),
            ] {
                check(matmul(ta, tb), &[&with(la, a), &with(lb, b)]);
            }
        }
    }
}

#[test]
fn convolutions() {
    let plain = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
    check(plain.clone(), &[&[2, 2, 4, 3], &[3, 2, 2, 2]]);
    check(
        Conv2d { strides: [2, 3], pads: [0, 2, 3, 1], dilations: [2, 1], groups: 1 },
        &[&[2, 2, 7, 8], &[2, 2, 3, 2]],
    );
    check(Conv2d { groups: 2, ..plain.clone() }, &[&[1, 4, 3, 3], &[2, 2, 2, 2]]);
    check(Conv2d { groups: 3, pads: [1; 4], ..plain }, &[&[1, 3, 3, 3], &[6, 1, 3, 3]]);
}

/// Convolutions turned round, as models have them.
#[test]
fn transposed_convolutions() {
    let plain = Conv2dGradientInput {
        strides: [1, 1],
        pads: [0; 4],
        dilations: [1, 1],
        groups: 1,
        input_size: [4, 4],
    };
    check(plain.clone(), &[&[2, 2, 3, 3], &[2, 3, 2, 2]]);
    check(
        Conv2dGradientInput {
            strides: [2, 3],
            pads: [0, 2, 3, 1],
            dilations: [2, 1],
            input_size: [7, 8],
            ..plain.clone()
        },
        &[&[2, 2, 3, 4], &[2, 2, 3, 2]],
    );
    check(Conv2dGradientInput { groups: 2, ..plain }, &[&[1, 4, 3, 3], &[4, 1, 2, 2]]);
}

/// Rows by index: repeated, from the end, and outside.
#[test]
fn indexed_rows() {
    let with = |op: Op, shape: &[usize], indices: Tensor| {
        let x = operand(shape, 1);
        let (weights, gradients) = derive(&op, &[x.clone(), indices.clone()], &[true, true]);
        assert_eq!(gradients[1], None, "{op}: indices have no gradient");
        let found = gradients[0].as_ref().expect("of the rows");
        for element in 0..x.ty().count() {
            let moved = |by: f32| {
                let mut data = x.as_f32().to_vec();
                data[element] += by;
                let x = Tensor::f32(x.shape().clone(), data);
                loss(&op, &[x, indices.clone()], &weights)
            };
            let expected = moved(1.0) - moved(0.0);
            let found = f64::from(found.as_f32()[element]);
            assert!((found - expected).abs() <= 1e-3, "{op}: {element}: {found}, {expected}");
        }
        let (_, none) = derive(&op, &[x, indices], &[false, false]);
        assert_eq!(none, [None, None], "{op}");
    };
    let indices = || Tensor::i32([2, 2], vec![2, -1, 0, 7]);
    with(Gather { axis: 0 }.into(), &[3, 4], indices());
    with(Gather { axis: 1 }.into(), &[2, 3, 2], indices());
    with(Gather { axis: 2 }.into(), &[2, 2, 3], Tensor::i32([], vec![1]));
    with(ScatterAdd { axis: 0, size: 3 }.into(), &[2, 2, 5], indices());
    with(ScatterAdd { axis: 1, size: 4 }.into(), &[3, 2, 2, 2], indices());
    with(ScatterAdd { axis: 1, size: 2 }.into(), &[3, 2], Tensor::i32([], vec![-2]));
}

#[test]
fn pools() {
    let max = |kernel, strides, pads, dilations, ceil| MaxPool2d {
        kernel,
        strides,
        pads,
        dilations,
        ceil,
    };
    check(max([2, 2], [2, 2], [0; 4], [1, 1], false), &[&[1, 2, 4, 5]]);
    check(max([3, 2], [1, 1], [1, 1, 0, 1], [1, 1], false), &[&[1, 2, 4, 5]]);
    check(max([2, 2], [2, 3], [1, 0, 1, 1], [2, 1], true), &[&[2, 1, 5, 6]]);
    for count_include_pad in [false, true] {
        let average = |kernel, strides, pads, ceil| AvgPool2d {
            kernel,
            strides,
            pads,
            ceil,
            count_include_pad,
        };
        check(average([2, 2], [2, 2], [0; 4], false), &[&[1, 2, 4, 5]]);
        check(average([3, 2], [1, 1], [1, 1, 0, 1], false), &[&[1, 2, 4, 5]]);
        check(average([3, 3], [2, 2], [1, 0, 1, 1], true), &[&[1, 1, 6, 6]]);
    }
}

#[test]
fn movement() {
    check(Reshape { shape: vec![4, 3].into() }, &[&[2, 6]]);
    check(Transpose { permutation: vec![2, 0, 1] }, &[&[2, 3, 4]]);
    check(Concat { axis: 1 }, &[&[2, 1, 3], &[2, 4, 3], &[2, 2, 3]]);
    check(Pad { before: vec![1, 0], after: vec![0, 3], value: 7.0.into() }, &[&[2, 3]]);
    check(Broadcast { shape: vec![2, 3, 4].into() }, &[&[3, 1]]);
    check(Broadcast { shape: vec![2, 3].into() }, &[&[]]);
    check(Broadcast { shape: vec![2, 3].into() }, &[&[2, 3]]);
}

#[test]
fn slices() {
    let slice = |starts: &[usize], lengths: &[usize], steps: &[i64]| Slice {
        starts: starts.to_vec(),
        lengths: lengths.to_vec(),
        steps: steps.to_vec(),
    };
    check(slice(&[1, 0], &[2, 3], &[1, 1]), &[&[4, 3]]);
    check(slice(&[1, 0], &[2, 3], &[2, 3]), &[&[5, 9]]);
    check(slice(&[4, 8], &[3, 3], &[-2, -3]), &[&[5, 9]]);
    check(slice(&[4, 1], &[3, 2], &[-1, 4]), &[&[5, 9]]);
    check(slice(&[2, 8], &[1, 3], &[i64::MIN, -4]), &[&[5, 9]]);
    check(slice(&[2, 1], &[0, 3], &[1, 1]), &[&[5, 9]]);
}

/// The product that leads to a trainable parameter is a weight gradient, any other an error.
#[test]
fn roles_of_products() {
    let mut graph = Graph::new("roles");
    let x = graph.add_input("x", TensorType::f32([2, 3]), InputRole::Data);
    let weight = graph.add_parameter("w", operand(&[4, 3], 0), true);
    let turned = graph.add1(Transpose { permutation: vec![1, 0] }, &[weight], "t").expect("types");
    let frozen = graph.add_parameter("f", operand(&[3, 4], 1), false);
    for (right, expected) in [(turned, ProductRole::Gradient), (frozen, ProductRole::Error)] {
        let inputs = [x, right];
        let y = graph.add1(matmul(false, false), &inputs, "y").expect("types");
        let error = graph.add_constant("dy", operand(&[2, 4], 2));
        let node = Differentiated {
            inputs: &inputs,
            outputs: &[y],
            output_gradients: &[Some(error)],
            wanted: &[true, true],
        };
        let gradients = Op::from(matmul(false, false)).gradient(&mut graph, &node).expect("rule");
        let role = |i: usize| match &graph.producer(gradients[i].expect("wanted")).expect("node").op
        {
            Op::MatMul(product) => product.role,
            other => panic!("{other}"),
        };
        assert_eq!([role(0), role(1)], [ProductRole::Error, expected]);
    }
}
