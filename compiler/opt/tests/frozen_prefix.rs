//! The part of a training step before its first trained layer.

use trainc_ir::attributes::F32;
use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{Add, Dropout, MatMul, ProductRole, Relu};
use trainc_ir::{RunContext, Tensor, TensorType};
use trainc_opt::frozen_prefix::{FrozenPrefix, frozen_prefix};
use trainc_opt::one_by_one::one_by_one;
use trainc_opt::training::{LossSource, training_graph};

fn weight(rows: usize, columns: usize, step: f32) -> Tensor {
    let values = (0..rows * columns).map(|i| (i as f32 * step).sin()).collect();
    Tensor::f32([rows, columns], values)
}

/// Three layers, the first `frozen` of them constants, with something after the first one.
fn network(batch: usize, frozen: usize, after: impl Fn(&mut Graph, ValueId) -> ValueId) -> Graph {
    let mut g = Graph::new("network");
    let mut x = g.add_input("x", TensorType::f32([batch, 3]), InputRole::Data);
    for (i, (rows, columns)) in [(3, 4), (4, 4), (4, 2)].into_iter().enumerate() {
        let value = weight(rows, columns, 1.3 + i as f32);
        let w = match i < frozen {
            true => g.add_constant(format!("w{i}"), value),
            false => g.add_parameter(format!("w{i}"), value, true),
        };
        let op = MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
        x = g.add1(op, &[x, w], format!("product{i}")).unwrap();
        if i < 2 {
            x = g.add1(Relu {}, &[x], format!("relu{i}")).unwrap();
        }
        if i == 0 {
            x = after(&mut g, x);
        }
    }
    g.add_output("scores", x);
    training_graph(&g, Some(LossSource::Scores(x))).unwrap()
}

fn split(frozen: usize, after: impl Fn(&mut Graph, ValueId) -> ValueId) -> Option<FrozenPrefix> {
    frozen_prefix(&network(5, frozen, &after), &network(1, frozen, &after)).unwrap()
}

fn nothing(_: &mut Graph, x: ValueId) -> ValueId {
    x
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.nodes().iter().map(|n| n.name.as_str()).collect()
}

#[test]
fn both_parts_together_are_the_step() {
    for frozen in 1..3 {
        let whole = network(5, frozen, nothing);
        let split = split(frozen, nothing).expect("layers before the first trained one");
        let expected = &["product0", "relu0", "product1", "relu1"][..2 * frozen];
        assert_eq!(names(&split.prefix), expected);
        assert!(names(&split.rest).iter().all(|name| !expected.contains(name)));
        let joined = split.join(&one_by_one(&split.prefix, 5).unwrap(), &split.rest).unwrap();
        let inputs = |g: &Graph| {
            g.inputs().iter().map(|i| (g.value(i.value).name.clone(), i.role)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(&joined), inputs(&whole));
        let x = weight(5, 3, 0.7);
        let types: Vec<TensorType> =
            whole.inputs().iter().map(|i| whole.ty(i.value).clone()).collect();
        let operands: Vec<Tensor> = whole
            .inputs()
            .iter()
            .zip(&types)
            .map(|(input, ty)| match input.role {
                InputRole::Data => x.clone(),
                InputRole::Labels => Tensor::i32([5], vec![0, 1, 1, 0, 1]),
                InputRole::LearningRate | InputRole::Scheduled => {
                    Tensor::f32(ty.shape.clone(), vec![0.125])
                }
            })
            .collect();
        let (mut one, mut two) = (Interpreter::new(&whole), Interpreter::new(&joined));
        for _ in 0..3 {
            let run = RunContext::default();
            assert_eq!(one.step(&operands, &run).unwrap(), two.step(&operands, &run).unwrap());
            assert_eq!(one.parameters(), two.parameters());
        }
    }
}

#[test]
fn where_it_ends() {
    // A row of constants for each example of the batch belongs to the batch.
    let rows = |g: &mut Graph, x: ValueId| {
        let batch = g.ty(x).shape[0];
        let rows = g.add_constant("rows", weight(batch, 4, 0.3));
        g.add1(Add {}, &[x, rows], "by example").unwrap()
    };
    assert_eq!(names(&split(2, rows).unwrap().prefix), ["product0", "relu0"]);
    // Random numbers are drawn for the batch.
    let dropout = |g: &mut Graph, x: ValueId| {
        g.add(Dropout { ratio: F32::new(0.5), stream: 1 }, &[x], "dropout").unwrap()[0]
    };
    assert_eq!(names(&split(2, dropout).unwrap().prefix), ["product0", "relu0"]);
    // A second use of the input.
    let skip = |g: &mut Graph, x: ValueId| {
        let input = g.inputs()[0].value;
        let w = g.add_parameter("skip", weight(3, 4, 0.9), true);
        let op = MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
        let y = g.add1(op, &[input, w], "skip").unwrap();
        g.add1(Add {}, &[x, y], "sum").unwrap()
    };
    assert!(split(2, skip).is_none());
    assert!(split(0, nothing).is_none());
    assert!(frozen_prefix(&network(1, 2, nothing), &network(1, 2, nothing)).unwrap().is_none());
}
