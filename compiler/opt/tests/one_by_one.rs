//! Inference one by one: each example as if it were alone.

use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{Add, MatMul, ProductRole, Relu};
use trainc_ir::{RunContext, Tensor, TensorType};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::one_by_one::one_by_one;
use trainc_opt::translate::translate;

/// Two layers for `batch` examples, and a row of weights as a second output, which depends on no example.
fn network(batch: usize) -> Graph {
    let mut g = Graph::new("network");
    let x = g.add_input("x", TensorType::f32([batch, 3]), InputRole::Data);
    let weight = |rows: usize, columns: usize, step: f32| {
        let values = (0..rows * columns).map(|i| (i as f32 * step).sin()).collect();
        Tensor::f32([rows, columns], values)
    };
    let first = g.add_parameter("first", weight(3, 4, 1.7), true);
    let second = g.add_parameter("second", weight(4, 2, 2.3), true);
    let bias = g.add_parameter("bias", Tensor::f32([1, 2], vec![0.25, -0.5]), true);
    let h = g
        .add1(
            MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward },
            &[x, first],
            "hidden",
        )
        .unwrap();
    let h = g.add1(Relu {}, &[h], "relu").unwrap();
    let y = g
        .add1(
            MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward },
            &[h, second],
            "scores",
        )
        .unwrap();
    g.add_output("scores", y);
    let twice = g.add1(Add {}, &[bias, bias], "twice").unwrap();
    g.add_output("twice", twice);
    g
}

fn run(graph: &Graph, rows: &[[f32; 3]]) -> Vec<Tensor> {
    let x = Tensor::f32([rows.len(), 3], rows.concat());
    Interpreter::new(graph).step(&[x], &RunContext::default()).expect("it runs")
}

#[test]
fn neighbours_change_nothing() {
    let algorithm = Algorithm::built_in("niti").expect("built in");
    let one = translate(&network(1), &algorithm).expect("it translates").0;
    let three = one_by_one(&one, 3).expect("three");
    let rows = [[0.3, -0.7, 0.1], [900.0, -1200.0, 77.0], [1e-3, 2e-3, -1e-3]];
    let found = run(&three, &rows);
    for (row, scores) in rows.iter().zip(found[0].as_f32().chunks(2)) {
        assert_eq!(run(&one, &[*row])[0].as_f32(), scores);
    }
    assert_eq!(found[1], run(&one, &rows[..1])[1]);
    // That it matters: one exponent for the batch loses the small examples.
    let shared = translate(&network(3), &algorithm).expect("it translates").0;
    assert_ne!(run(&shared, &rows)[0].as_f32(), found[0].as_f32());
    // Parameters and what depends on them alone are there once.
    assert_eq!(three.parameters().len(), one.parameters().len());
    assert_eq!(three.nodes().iter().filter(|n| n.name.contains("twice")).count(), {
        one.nodes().iter().filter(|n| n.name.contains("twice")).count()
    });
}

#[test]
fn what_has_no_dimension_for_examples() {
    let mut g = Graph::new("sum");
    let x = g.add_input("x", TensorType::f32([1, 3]), InputRole::Data);
    let op = trainc_ir::ops::Reshape { shape: [3].into() };
    let flat = g.add1(op, &[x], "flat").unwrap();
    g.add_output("flat", flat);
    assert_eq!(one_by_one(&g, 1).unwrap(), g);
    let error = one_by_one(&g, 2).unwrap_err().to_string();
    assert!(error.contains("`flat`") && error.contains("no dimension for examples"), "{error}");
    g.add_parameter("w", Tensor::f32([1, 3], vec![0.0; 3]), true);
    g.add_update(0, x);
    assert!(one_by_one(&g, 2).unwrap_err().to_string().contains("updates"));
}
