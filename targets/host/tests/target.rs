//! The host as the compiler sees it: costs that order its choices, and memory that kernels really get.

mod common;

use trainc_host::{HOST, HostProgram};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Chain, Conv2d, MatMul, ProductRole, QuantizeGradient, Relu, ReluGradient, Requantize,
};
use trainc_ir::target::{Signature, Target};
use trainc_ir::{Element, Op, TensorType};

fn cost(op: &Op, inputs: &[&TensorType]) -> u64 {
    let results = op.infer(inputs).expect("the operands fit");
    let results: Vec<&TensorType> = results.iter().collect();
    HOST.select(&Signature::new(op, inputs, &results)).cost().cycles().expect("the host can run it")
}

fn requantize() -> Op {
    Requantize { bits: 7, rounding: Rounding::PseudoStochastic, low: -127 }.into()
}

fn conv() -> Op {
    Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 }.into()
}

#[test]
fn a_product_that_is_requantized_at_once_costs_less() {
    let x = TensorType::shared([8, 16, 14, 14], Element::I8);
    let w = TensorType::shared([32, 16, 3, 3], Element::I8);
    let sums = TensorType::shared([8, 32, 14, 14], Element::I32);
    let bits = TensorType::new([], Element::I32);
    let product = cost(&conv(), &[&x, &w]);
    let chain = Op::from(Chain { ops: vec![conv(), requantize()] });
    assert!(cost(&chain, &[&x, &w]) < product + cost(&requantize(), &[&sums]));
    let gradient = Op::from(QuantizeGradient { rounding: Rounding::PseudoStochastic });
    let chain = Op::from(Chain { ops: vec![conv(), gradient.clone()] });
    assert!(cost(&chain, &[&x, &w, &bits]) < product + cost(&gradient, &[&sums, &bits]));
    // FP32 products are dearer than those of i8.
    let floats = [TensorType::f32([8, 16, 14, 14]), TensorType::f32([32, 16, 3, 3])];
    assert!(cost(&conv(), &[&floats[0], &floats[1]]) > product);
}

/// A chain that the host runs one after the other is not cheaper for being a chain.
#[test]
fn a_chain_that_is_not_fused_costs_its_parts() {
    let x = TensorType::shared([64, 256], Element::I8);
    let w = TensorType::shared([256, 128], Element::I8);
    let matmul =
        Op::from(MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Error });
    let before = Op::from(ReluGradient {});
    let chain = Op::from(Chain { ops: vec![before.clone(), matmul.clone()] });
    let parts = cost(&before, &[&x, &x]) + cost(&matmul, &[&x, &w]);
    assert_eq!(cost(&chain, &[&x, &x, &w]), parts);
    let floats = [TensorType::f32([64, 256]), TensorType::f32([256, 128])];
    let relu = Op::from(Relu {});
    let chain = Op::from(Chain { ops: vec![matmul.clone(), relu.clone()] });
    let parts =
        cost(&matmul, &[&floats[0], &floats[1]]) + cost(&relu, &[&TensorType::f32([64, 128])]);
    assert_eq!(cost(&chain, &[&floats[0], &floats[1]]), parts);
}

#[test]
fn programs_move_between_threads() {
    fn movable<T: Send>() {}
    movable::<HostProgram>();
    assert_eq!(HOST.description().name, "host");
}

/// Thousands of launches compile in seconds also without optimisation of this crate.
#[test]
fn long_schedules_compile() {
    let mut b = common::program::ProgramBuilder::new("long");
    let ty = TensorType::f32([16]);
    let mut x = b.input("x", ty.clone(), trainc_ir::InputRole::Data);
    for _ in 0..400 {
        x = b.op(Relu {}, &[x])[0];
    }
    let y = b.output("y", ty);
    b.op_into(Relu {}, &[x], &[y]);
    b.entry("infer");
    let program = b.finish();
    let begin = std::time::Instant::now();
    let mut compiled = HostProgram::compile(&program).expect("the program compiles");
    let seconds = begin.elapsed().as_secs_f64();
    eprintln!("401 kernels: {seconds:.2} s");
    let values: Vec<f32> = (0..16).map(|i| i as f32 - 8.0).collect();
    let x = trainc_ir::Tensor::f32([16], values);
    let found = compiled.run("infer", &[&x], &Default::default()).expect("it runs");
    assert_eq!(found[0].as_f32()[15], 7.0);
    assert_eq!(found[0].as_f32()[0], 0.0);
}
