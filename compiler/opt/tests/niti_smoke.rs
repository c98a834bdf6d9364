//! A small convolutional net from FP32 graph to an optimised NITI module, judged by the interpreter.

use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{Add, Conv2d, MatMul, MaxPool2d, ProductRole, Relu, Reshape};
use trainc_ir::target::{
    ArtifactFile, Cost, EmitError, Selection, Signature, Target, TargetDescription,
};
use trainc_ir::types::TensorType;
use trainc_ir::verify::{Stage, verify};
use trainc_ir::{RunContext, Tensor};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::egraph::saturate::Limits;
use trainc_opt::optimise::{OptimiseOptions, Strategy, optimise};
use trainc_opt::training::training_graph;
use trainc_opt::translate::translate;

struct Counting;

impl Target for Counting {
    fn description(&self) -> &TargetDescription {
        &TargetDescription {
            name: "counting",
            summary: "a test",
            alignment: 16,
            vector_bytes: 16,
            cost_unit: "cycles",
            devices: &["cpu"],
        }
    }

    /// Elements touched, plus a launch; what a chain keeps to itself is free.
    fn select(&self, signature: &Signature<'_>) -> Selection {
        let Signature { inputs, outputs, .. } = *signature;
        let touched: usize = inputs.iter().chain(outputs).map(|ty| ty.count()).sum();
        Selection::known("any", Cost::new(touched as u64 + 10), 0)
    }

    fn emit(
        &self,
        _: &trainc_ir::Verified<trainc_ir::program::Program>,
    ) -> Result<Vec<ArtifactFile>, EmitError> {
        Ok(Vec::new())
    }
}

fn weights(seed: u32, shape: &[usize]) -> Tensor {
    let run = RunContext { seed: u64::from(seed), step: 0 };
    let count = shape.iter().product::<usize>();
    let data =
        (0..count).map(|i| (run.draw(7, i as u32) >> 8) as f32 / (1 << 24) as f32 - 0.5).collect();
    Tensor::f32(shape, data)
}

fn net() -> Graph {
    let mut g = Graph::new("net");
    let x = g.add_input("x", TensorType::f32([3, 2, 8, 8]), InputRole::Data);
    let w1 = g.add_parameter("conv1.weight", weights(1, &[4, 2, 3, 3]), true);
    let b1 = g.add_parameter("conv1.bias", weights(2, &[4]), true);
    let w2 = g.add_parameter("fc.weight", weights(3, &[5, 64]), true);
    let conv = Conv2d { strides: [1, 1], pads: [1, 1, 1, 1], dilations: [1, 1], groups: 1 };
    let y = g.add1(conv, &[x, w1], "conv1").unwrap();
    let b = g.add1(Reshape { shape: [1, 4, 1, 1].into() }, &[b1], "conv1/bias").unwrap();
    let y = g.add1(Add {}, &[y, b], "conv1/add").unwrap();
    let y = g.add1(Relu {}, &[y], "relu1").unwrap();
    let pool =
        MaxPool2d { kernel: [2, 2], strides: [2, 2], pads: [0; 4], dilations: [1, 1], ceil: false };
    let y = g.add1(pool, &[y], "pool1").unwrap();
    let y = g.add1(Reshape { shape: [3, 64].into() }, &[y], "flatten").unwrap();
    let fc = MatMul { transpose_a: false, transpose_b: true, role: ProductRole::Forward };
    let y = g.add1(fc, &[y, w2], "fc").unwrap();
    g.add_output("logits", y);
    g
}

#[test]
fn optimised_modules_keep_every_bit() {
    let model = net();
    let training = training_graph(&model, None).unwrap();
    verify(&training, &Stage::Float).unwrap();
    let niti = Algorithm::built_in("niti").unwrap();
    let (module, translation) = translate(&training, &niti).unwrap();
    println!("{translation:?}\n{module}");
    let stage = Stage::Quantized { float_operations: niti.float_operations.clone() };
    let default = OptimiseOptions::default();
    let mut searches: Vec<OptimiseOptions> = [Strategy::Saturate, Strategy::Ordered, Strategy::Off]
        .map(|strategy| OptimiseOptions { strategy, ..default })
        .to_vec();
    // Limits that stop the search early: the result is as right, and the report says so.
    for limits in [Limits { iterations: 1, nodes: 100_000 }, Limits { iterations: 30, nodes: 1 }] {
        searches.push(OptimiseOptions { limits, ..default });
    }
    for options in searches {
        let strategy = options.strategy;
        let (optimised, report) = optimise(&module, &stage, &Counting, &options).unwrap();
        assert_eq!(report.limit.is_some(), options.limits != Limits::default());
        println!("{strategy:?}: {report:#?}");
        if strategy == Strategy::Saturate && report.limit.is_none() {
            println!("{optimised}");
            assert!(report.saturated && report.cost_after < report.cost_before);
        }
        let mut a = Interpreter::new(&module);
        let mut b = Interpreter::new(&optimised);
        for step in 0..3 {
            let run = RunContext { seed: 9, step };
            let inputs = [
                weights(100 + step, &[3, 2, 8, 8]),
                Tensor::i32([3], vec![0, 4, 2]),
                Tensor::i32([], vec![5]),
            ];
            let x = a.step(&inputs, &run).unwrap();
            let y = b.step(&inputs, &run).unwrap();
            assert!(x.iter().zip(&y).all(|(x, y)| x.bits_equal(y)));
            assert!(a.parameters().iter().zip(b.parameters()).all(|(x, y)| x.bits_equal(y)));
        }
    }
}
