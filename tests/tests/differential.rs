//! Whole training steps on the host against the reference interpreter, bit for bit.
//!
//! The interpreter runs the module as translated, before any optimisation or planning; the host runs the optimised,
//! planned program. Losses, scores and every weight and exponent must agree after each step.

use trainc_driver::zoo::{ZooSpec, build};
use trainc_host::{HOST, HostProgram};
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::{RunContext, Tensor, TensorType};
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::inference::inference_graph;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::rules::instance::Random;
use trainc_opt::training::training_graph;
use trainc_opt::translate::{remove_operations, translate};
use trainc_tests::programs::stage;

/// Images like normalised pixels.
fn images(random: &mut Random, ty: &TensorType) -> Tensor {
    let unit = |bits: u64| (bits >> 40) as f32 / (1u32 << 24) as f32;
    let data = (0..ty.count()).map(|_| unit(random.bits()) * 3.0 - 1.0).collect();
    Tensor::f32(ty.shape.clone(), data)
}

fn inputs(graph: &Graph, random: &mut Random, learning_rate: &Tensor) -> Vec<Tensor> {
    let mut input = |role: InputRole, ty: &TensorType| match role {
        InputRole::Data => images(random, ty),
        InputRole::Labels => {
            let labels = (0..ty.count()).map(|_| (random.bits() % 10) as i32).collect();
            Tensor::i32(ty.shape.clone(), labels)
        }
        InputRole::LearningRate | InputRole::Scheduled => learning_rate.clone(),
    };
    let roles: Vec<(InputRole, TensorType)> =
        graph.inputs().iter().map(|i| (i.role, graph.ty(i.value).clone())).collect();
    roles.iter().map(|(role, ty)| input(*role, ty)).collect()
}

/// Trains `steps` steps on both sides, then infers with what was trained.
fn check(model: &str, algorithm: &str, batch: usize, steps: u32) {
    let bytes = build(&ZooSpec::new(model).expect("a model")).expect("the zoo builds");
    let options = ImportOptions { batch: Some(batch), ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &|_| Err("none".into()), &options).expect("imports");
    let algorithm = Algorithm::built_in(algorithm).expect("an algorithm");
    let forward = remove_operations(&imported.graph, &algorithm.remove);
    let graphs = [
        training_graph(&forward, None).expect("trains"),
        inference_graph(&forward).expect("infers"),
    ];
    let translated = graphs.map(|g| translate(&g, &algorithm).expect("translates"));
    let [fast_step, fast_infer] = [0, 1].map(|i| {
        let (module, translation) = &translated[i];
        let stage = stage(&algorithm, translation);
        optimise(module, &stage, &HOST, &OptimiseOptions::default()).expect("optimises").0
    });
    let [step, infer] = translated.map(|(module, _)| module);
    let entries = [
        PlanEntry { name: "train_step", graph: &fast_step },
        PlanEntry { name: "infer", graph: &fast_infer },
    ];
    let (program, _) = plan(model, &entries, &HOST, &PlanOptions::default()).expect("plans");
    let mut host = HostProgram::compile(&program).expect("compiles");
    let mut reference = Interpreter::new(&step);
    let mut random = Random::new(7);
    let learning_rate = match algorithm.learning_rate {
        trainc_ir::Element::I32 => Tensor::i32([], vec![5]),
        _ => Tensor::f32([], vec![0.05]),
    };
    for i in 0..steps {
        let run = RunContext { seed: 0x1234_5678_9abc, step: 11 + i };
        let inputs = inputs(&step, &mut random, &learning_rate);
        let expected = reference.step(&inputs, &run).expect("interprets");
        let operands: Vec<&Tensor> = inputs.iter().collect();
        let found = host.run("train_step", &operands, &run).expect("runs");
        for (output, (a, b)) in step.outputs().iter().zip(expected.iter().zip(&found)) {
            assert!(a.bits_equal(b), "{model}, step {i}: `{}` differs", output.name);
        }
        let state = host.state().expect("state");
        let mut compared = 0;
        for (parameter, value) in step.parameters().iter().zip(reference.parameters()) {
            let name = trainc_ir::names::identifier(&step.value(parameter.value).name);
            let own = state.iter().find(|(n, _)| *n == name);
            // A parameter that no entry uses has no state.
            if let Some((_, own)) = own {
                compared += 1;
                assert!(value.bits_equal(own), "{model}, step {i}: `{name}` differs");
            }
        }
        assert_eq!(compared, state.len(), "{model}: state without a parameter");
    }
    let mut inference = Interpreter::new(&infer);
    for (i, parameter) in infer.parameters().iter().enumerate() {
        let name = &infer.value(parameter.value).name;
        let trained = step.parameter_named(name).expect("the same parameters");
        inference.set_parameter(i, reference.parameters()[trained].clone());
    }
    let run = RunContext::default();
    let inputs = inputs(&infer, &mut random, &learning_rate);
    let expected = inference.step(&inputs, &run).expect("interprets");
    let found = host.run("infer", &inputs.iter().collect::<Vec<_>>(), &run).expect("runs");
    assert!(expected.iter().zip(&found).all(|(a, b)| a.bits_equal(b)), "{model}: inference");
}

#[test]
fn digits() {
    check("digits", "niti", 5, 4);
    check("digits", "fp32", 5, 3);
}

#[test]
fn lenet5() {
    check("lenet5", "niti", 3, 3);
    check("lenet5", "fp32", 3, 2);
}

#[test]
fn residual() {
    check("residual", "niti", 4, 3);
    check("residual", "fp32", 4, 3);
}

#[test]
fn depthwise() {
    check("depthwise", "niti", 1, 3);
    check("depthwise", "fp32", 3, 3);
}

#[test]
fn mobilenet() {
    check("mobilenetv2", "niti", 1, 1);
}
