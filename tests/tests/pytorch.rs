//! FP32 training of models that PyTorch exported, against PyTorch: outputs, losses, and every parameter and running
//! statistic after three steps of gradient descent. tests/data/pytorch/README.md says what the archives hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainc_data::{NpyArray, NpyData, read_npz};
use trainc_ir::graph::Definition;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{Add, Reshape};
use trainc_ir::types::Element;
use trainc_ir::{Graph, InputRole, Op, RunContext, Tensor, ValueId};
use trainc_onnx_import::{ImportOptions, Imported, import_path};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::training::{LOSS, LossSource, training_graph, training_graph_under};
use trainc_opt::translate::translate;

/// Largest difference of an output, relative to the largest output (at least 1).
const OUTPUT_TOLERANCE: f32 = 1e-4;
/// Largest relative difference of a loss.
const LOSS_TOLERANCE: f32 = 1e-4;
/// Largest difference of a parameter after training, relative to its largest element.
const PARAMETER_TOLERANCE: f32 = 1e-3;
/// Largest difference of a parameter after training, relative to how far training moved its furthest element.
const MOVEMENT_TOLERANCE: f32 = 1e-3;
/// Added to both: rounding of parameters that are, or stay, near zero.
const ROUNDING: f32 = 1e-6;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/pytorch")
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("manifest.json")).expect("the manifest");
    let manifest: Value = serde_json::from_str(&text).expect("JSON");
    let list = manifest["cases"].as_array().expect("cases");
    list.iter().map(|facts| Case::read(facts.clone())).collect()
}

/// A model with what PyTorch computed.
struct Case {
    facts: Value,
    arrays: BTreeMap<String, Tensor>,
}

fn tensor(array: &NpyArray) -> Tensor {
    let shape = array.shape.clone();
    match &array.data {
        NpyData::F32(values) => Tensor::f32(shape, values.clone()),
        data => Tensor::i32(shape, data.to_integers().expect("integers")),
    }
}

impl Case {
    fn read(facts: Value) -> Case {
        let archive = folder().join(facts["archive"].as_str().expect("a file"));
        let arrays = read_npz(&archive).expect("the archive");
        let arrays = arrays.iter().map(|(name, array)| (name.clone(), tensor(array))).collect();
        Case { facts, arrays }
    }

    fn text(&self, key: &str) -> &str {
        self.facts[key].as_str().unwrap_or_else(|| panic!("`{key}` of {}", self.facts))
    }

    fn names(&self, key: &str) -> Vec<&str> {
        let list = self.facts[key].as_array().expect("a list");
        list.iter().map(|v| v.as_str().expect("a name")).collect()
    }

    fn number(&self, key: &str) -> f64 {
        self.facts[key].as_f64().expect("a number")
    }

    /// The model as exported: batch norm in the form that the recorded steps used.
    fn import(&self) -> Imported {
        let options = ImportOptions {
            batch: Some(self.number("batch") as usize),
            training: true,
            ..ImportOptions::default()
        };
        import_path(&folder().join(self.text("model")), &options).unwrap_or_else(|e| panic!("{e}"))
    }

    fn training(&self) -> Graph {
        let imported = self.import();
        let loss = imported.loss.as_ref().map(|loss| loss.value);
        assert_eq!(loss.is_some(), self.text("loss") == "in_graph", "{}", self.text("name"));
        let mut graph = imported.graph;
        for (_, weight, bias) in LEFT_OUT.iter().filter(|(case, ..)| *case == self.text("name")) {
            graph = with_bias(&graph, weight, bias);
        }
        training_graph(&graph, loss.map(LossSource::Model))
            .unwrap_or_else(|e| panic!("{}: {e}", self.text("name")))
    }

    /// Inputs of a training graph for a step; steps past the last take the first batch.
    fn inputs(&self, graph: &Graph, step: usize) -> Vec<Tensor> {
        let of = |name: &str| {
            let own = format!("step{step}/{name}");
            self.arrays.get(&own).unwrap_or_else(|| &self.arrays[name]).clone()
        };
        let inputs = graph.inputs().iter();
        inputs
            .map(|input| match input.role {
                InputRole::Data => of(&format!("input/{}", graph.value(input.value).name)),
                InputRole::Labels => of("labels"),
                InputRole::LearningRate | InputRole::Scheduled => {
                    Tensor::f32([], vec![self.number("learning_rate") as f32])
                }
            })
            .collect()
    }
}

/// Largest difference; NaN if any element is.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |m, d| if d.is_nan() || m.is_nan() { f32::NAN } else { m.max(d) })
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |m, x| m.max(x.abs()))
}

/// What was compared and what was wrong.
#[derive(Default)]
struct Comparison {
    compared: usize,
    worst: f32,
    failures: Vec<String>,
}

impl Comparison {
    /// Notes a failure unless `difference <= allowed` (NaN never is).
    fn check(&mut self, what: String, difference: f32, allowed: f32) {
        self.compared += 1;
        self.worst = self.worst.max(difference / allowed);
        if difference.is_nan() || difference > allowed {
            self.failures.push(format!("{what}: {difference:e} is more than {allowed:e}"));
        }
    }

    fn outputs(&mut self, case: &Case, key: &str, graph: &Graph, outputs: &[Tensor]) {
        let name = case.text("name");
        let mut seen = 0;
        for (output, found) in graph.outputs().iter().zip(outputs) {
            let Some(expected) = case.arrays.get(&format!("{key}/{}", output.name)) else {
                continue;
            };
            assert_eq!(found.shape(), expected.shape(), "{name}: {}", output.name);
            let allowed = OUTPUT_TOLERANCE * largest(expected.as_f32()).max(1.0);
            let what = format!("{name}: {key}/{}", output.name);
            self.check(what, difference(found.as_f32(), expected.as_f32()), allowed);
            seen += 1;
        }
        assert!(seen > 0, "{name}: nothing in {key} is an output of the model");
    }

    fn parameter(&mut self, what: String, found: &Tensor, expected: &Tensor, initial: &Tensor) {
        assert_eq!(found.shape(), expected.shape(), "{what}");
        let worst = difference(found.as_f32(), expected.as_f32());
        let relative = PARAMETER_TOLERANCE * largest(expected.as_f32());
        let moved = MOVEMENT_TOLERANCE * difference(initial.as_f32(), expected.as_f32());
        self.check(what, worst, relative.min(moved) + ROUNDING);
    }
}

/// Value of a parameter that the file lacks because the exporter merged it with an equal one: found by its place in the
/// batch norm node that uses it, or by its name. Names are `<module>.<kind>`; `modules` are those with batch norm, in order.
fn merged_parameter(graph: &Graph, modules: &[&str], name: &str) -> Option<ValueId> {
    if let Some(position) = graph.parameter_named(name) {
        return Some(graph.parameters()[position].value);
    }
    let (module, kind) = name.rsplit_once('.')?;
    let position = modules.iter().position(|m| *m == module)?;
    let is_batch_norm = |op: &Op| matches!(op, Op::BatchNorm(_));
    let node = graph.nodes().iter().filter(|n| is_batch_norm(&n.op)).nth(position)?;
    let operand =
        ["weight", "bias", "running_mean", "running_var"].iter().position(|k| *k == kind)?;
    Some(node.inputs[1 + operand])
}

#[test]
fn three_steps_give_the_weights_of_pytorch() {
    let mut comparison = Comparison::default();
    for case in cases() {
        let name = case.text("name");
        let graph = case.training();
        let mut interpreter = Interpreter::new(&graph);
        let run = |interpreter: &mut Interpreter<'_>, step: usize| {
            let context = RunContext { seed: 1, step: step as u32 };
            interpreter
                .step(&case.inputs(&graph, step), &context)
                .unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        let loss = graph.outputs().iter().position(|o| o.name == LOSS).expect("the loss");
        if case.facts["comparable"] != true {
            let outputs = run(&mut interpreter, 0);
            assert!(outputs[loss].as_f32()[0].is_finite(), "{name}");
            continue;
        }
        let steps = case.number("steps") as usize;
        for step in 0..steps {
            let outputs = run(&mut interpreter, step);
            if step == 0 {
                comparison.outputs(&case, "output", &graph, &outputs);
            }
            let expected = case.arrays[&format!("step{step}/loss")].as_f32()[0];
            let found = outputs[loss].as_f32();
            let what = format!("{name}: loss of step {step}");
            let allowed = LOSS_TOLERANCE * expected.abs();
            comparison.check(what, difference(found, &[expected]), allowed);
        }
        compare_parameters(&mut comparison, &case, &graph, interpreter.parameters());
        let outputs = run(&mut interpreter, steps);
        comparison.outputs(&case, "output_after", &graph, &outputs);
        println!(
            "{name}: {} values compared so far, worst {}",
            comparison.compared, comparison.worst
        );
    }
    let Comparison { compared, failures, .. } = comparison;
    assert!(compared > 500, "only {compared} values compared");
    assert!(failures.is_empty(), "{} failure(s):\n{}", failures.len(), failures.join("\n"));
}

fn compare_parameters(
    comparison: &mut Comparison,
    case: &Case,
    graph: &Graph,
    parameters: &[Tensor],
) {
    let name = case.text("name");
    let expected_after = |parameter: &str| {
        // ONNX's running variance is that of the population.
        let population = case.arrays.get(&format!("after_population/{parameter}"));
        population.or_else(|| case.arrays.get(&format!("after/{parameter}")))
    };
    let mut left: Vec<String> = case
        .arrays
        .keys()
        .filter_map(|key| key.strip_prefix("after/").map(str::to_string))
        .collect();
    for parameter in case.names("parameters").into_iter().chain(case.names("statistics")) {
        let position = graph
            .parameter_named(parameter)
            .unwrap_or_else(|| panic!("{name}: no parameter `{parameter}`"));
        if case.names("omitted").contains(&parameter) {
            continue;
        }
        let expected = expected_after(parameter).unwrap_or_else(|| panic!("{name}: {parameter}"));
        let initial = &graph.parameters()[position].initial;
        let what = format!("{name}: after/{parameter}");
        comparison.parameter(what, &parameters[position], expected, initial);
        left.retain(|l| l != parameter);
    }
    let merged = case.facts["merged"].as_object().expect("a map");
    let modules: Vec<&str> =
        merged.keys().filter_map(|key| key.strip_suffix(".running_mean")).collect();
    for parameter in merged.keys() {
        let Some(value) = merged_parameter(graph, &modules, parameter) else { continue };
        let position = graph
            .parameters()
            .iter()
            .position(|p| p.value == value)
            .unwrap_or_else(|| panic!("{name}: `{parameter}` is no parameter"));
        let expected = expected_after(parameter).unwrap_or_else(|| panic!("{name}: {parameter}"));
        let initial = &graph.parameters()[position].initial;
        let what = format!("{name}: after/{parameter}");
        comparison.parameter(what, &parameters[position], expected, initial);
        left.retain(|l| l != parameter);
    }
    assert!(left.is_empty(), "{name}: not compared: {left:?}");
    assert!(parameters.iter().all(|p| p.ty().element == Element::F32), "{name}");
}

/// Zero biases that an exporter left out of the file: case, the convolution's weight, the bias. The steps that PyTorch
/// recorded train them, so they are put back.
const LEFT_OUT: &[(&str, &str, &str)] = &[("preactivation_dyn22_merged", "c1.weight", "c1.bias")];

/// The graph with a zero bias, a trained parameter, added to the convolution of that weight, which has none.
fn with_bias(graph: &Graph, weight: &str, bias: &str) -> Graph {
    let mut result = Graph::new(graph.name());
    let mut values: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let weight = graph.parameters()[graph.parameter_named(weight).expect("the weight")].value;
    let mut added = 0;
    for id in graph.value_ids() {
        let value = graph.value(id);
        let new = match &value.definition {
            Definition::Input(i) => {
                result.add_input(&value.name, value.ty.clone(), graph.inputs()[*i].role)
            }
            Definition::Parameter(i) => {
                let parameter = &graph.parameters()[*i];
                result.add_parameter(&value.name, parameter.initial.clone(), parameter.trainable)
            }
            Definition::Constant(tensor) => result.add_constant(&value.name, tensor.clone()),
            Definition::Result { slot, .. } if *slot > 0 => continue,
            Definition::Result { node, .. } => {
                let node = graph.node(*node);
                let operands: Vec<ValueId> = node.inputs.iter().map(|v| values[v]).collect();
                let mut results = result.add(node.op.clone(), &operands, &node.name).unwrap();
                for (old, new) in node.outputs.iter().zip(&results).skip(1) {
                    values.insert(*old, *new);
                }
                if matches!(node.op, Op::Conv2d(_)) && node.inputs[1] == weight {
                    let used = graph.nodes().iter().filter(|n| n.inputs.contains(&node.outputs[0]));
                    assert!(used.clone().all(|n| !matches!(n.op, Op::Add(_))), "it has a bias");
                    let channels = value.ty.shape[1];
                    let zeros = Tensor::f32([channels], vec![0.0; channels]);
                    let bias = result.add_parameter(bias, zeros, true);
                    let op = Reshape { shape: [1, channels, 1, 1].into() };
                    let bias = result.add1(op, &[bias], "bias").unwrap();
                    results[0] = result.add1(Add {}, &[results[0], bias], "biased").unwrap();
                    added += 1;
                }
                results[0]
            }
        };
        values.insert(id, new);
    }
    assert_eq!(added, 1);
    for output in graph.outputs() {
        result.add_output(&output.name, values[&output.value]);
    }
    assert!(graph.updates().is_empty());
    result
}

/// Nets of embeddings, recurrence, transposed convolutions and normalization by group train in integers, what has no rule
/// in FP32 between; which parameters are integers is part of what the algorithm promises.
#[test]
fn new_constructs_train_in_integers() {
    // The scores of the second are means over 437 places: NITI's integer mean leaves each of them less than a unit of error,
    // so nothing before it learns.
    let integers = [
        ("text_ts17_train", "embedding.weight", true),
        ("upsampling_ts17_train", "t1.weight", false),
        ("recurrent_ts17_train", "f.weight", true),
        ("groups_ts17_train", "c1.weight", true),
    ];
    let niti = Algorithm::built_in("niti").expect("a built-in algorithm");
    for (name, weight, learns) in integers {
        let case = cases().into_iter().find(|c| c.text("name") == name).expect("the case");
        let float = training_graph_under(&case.import().graph, None, &niti).expect("trains");
        let (module, report) = translate(&float, &niti).unwrap_or_else(|e| panic!("{name}: {e}"));
        let position = module.parameter_named(weight).expect("the weight");
        let ty = module.parameters()[position].initial.ty().clone();
        assert_eq!(ty.element, Element::I8, "{name}: {weight} is {ty}");
        println!("{name}: {} of {} nodes in FP32", report.floated.len(), module.nodes().len());
        let mut interpreter = Interpreter::new(&module);
        let loss = module.outputs().iter().position(|o| o.name == LOSS).expect("the loss");
        let mut losses = Vec::new();
        for step in 0..30 {
            let mut inputs = case.inputs(&module, 0);
            let rate = module.inputs().iter().position(|i| i.role == InputRole::LearningRate);
            inputs[rate.expect("a step size")] = Tensor::i32([], vec![3]);
            let context = RunContext { seed: 1, step };
            let outputs =
                interpreter.step(&inputs, &context).unwrap_or_else(|e| panic!("{name}: {e}"));
            losses.push(outputs[loss].as_f32()[0]);
        }
        assert!(losses.iter().all(|loss| loss.is_finite()), "{name}: {losses:?}");
        if !learns {
            continue;
        }
        let least = losses.iter().copied().fold(f32::INFINITY, f32::min);
        assert!(least < 0.8 * losses[0], "{name}: {losses:?}");
        let trained = interpreter.parameters()[position].clone();
        assert!(!trained.bits_equal(&module.parameters()[position].initial), "{name}: {weight}");
    }
}
