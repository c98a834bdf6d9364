//! Whole NITI training steps against the independent numpy implementation (tests/reference/niti), bit for bit.
//!
//! Each case of tests/data/niti is built as an FP32 model, differentiated, translated and interpreted for the stored
//! steps. The translated module must give every stored tensor: activations, errors, gradient accumulators, gradients
//! and weights with their exponents. Optimised modules must give the same wherever they still compute the tensor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainc_data::{NpyArray, NpyData, read_npz};
use trainc_ir::attributes::F32;
use trainc_ir::graph::{Graph, InputRole, Node, ValueId};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{
    Add, AvgPool2d, BatchNorm, BatchStatistics, Concat, Conv2d, MatMul, MaxPool2d, ProductRole,
    Relu, Reshape,
};
use trainc_ir::target::{
    ArtifactFile, Cost, EmitError, Selection, Signature, Target, TargetDescription,
};
use trainc_ir::types::{Element, Scale, TensorType};
use trainc_ir::verify::Stage;
use trainc_ir::{Op, RunContext, Tensor};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::optimise::{OptimiseOptions, Strategy, optimise};
use trainc_opt::training::{LOSS, training_graph};
use trainc_opt::translate::translate;

/// Largest relative difference of the displayed loss, which is FP32, from one in double precision.
const LOSS_TOLERANCE: f64 = 1e-5;
/// Every case of the fixtures.
const CASES: &[&str] = &[
    "mlp",
    "lenet",
    "convolutions",
    "residual",
    "bias",
    "concat",
    "average",
    "partial",
    "normalized",
    "rows",
];
/// The case of shifts that are kept between steps, of another folder.
const ADAPTIVE: &str = "niti_adaptive/adaptive";

/// A target that prefers fewer elements touched and fewer launches, so that optimisation has something to gain.
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

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

fn folder() -> PathBuf {
    data().join("niti")
}

/// A stored case: its description and its arrays.
struct Case {
    name: String,
    facts: Value,
    arrays: BTreeMap<String, NpyArray>,
}

impl Case {
    fn read(name: &str) -> Case {
        Case::of(&folder().join(name), name)
    }

    fn adaptive() -> Case {
        Case::of(&data().join(ADAPTIVE), "adaptive")
    }

    fn of(folder: &Path, name: &str) -> Case {
        let text = std::fs::read_to_string(folder.join("case.json")).expect("the description");
        let arrays = read_npz(&folder.join("tensors.npz")).expect("the arrays");
        Case {
            name: name.to_string(),
            facts: serde_json::from_str(&text).expect("JSON"),
            arrays: arrays.into_iter().collect(),
        }
    }

    fn nodes(&self) -> &[Value] {
        self.facts["network"]["nodes"].as_array().expect("nodes")
    }

    fn steps(&self) -> usize {
        self.facts["steps"].as_u64().expect("a number") as usize
    }

    fn logits(&self) -> &str {
        text(&self.facts["network"], "logits")
    }

    fn parameters(&self) -> Vec<String> {
        let list = self.facts["parameters"].as_array().expect("parameters");
        list.iter().map(|p| text(p, "name").to_string()).collect()
    }

    fn array(&self, key: &str) -> &NpyArray {
        self.arrays.get(key).unwrap_or_else(|| panic!("{}: no array `{key}`", self.name))
    }

    /// Whether a parameter stays FP32.
    fn is_float(&self, parameter: &str) -> bool {
        !self.arrays.contains_key(&format!("parameter.exponent.{parameter}"))
    }

    /// Shape and integers of an array, or of its row `step`.
    fn integers(&self, key: &str, step: Option<usize>) -> (Vec<usize>, Vec<i64>) {
        let array = self.array(key);
        let all: Vec<i64> = array.data.to_integers().expect("integers");
        row(&array.shape, &all, step)
    }

    fn floats(&self, key: &str, step: Option<usize>) -> Tensor {
        let array = self.array(key);
        let NpyData::F32(all) = &array.data else { panic!("{key} is not f32") };
        let (shape, values) = row(&array.shape, all, step);
        Tensor::f32(shape, values)
    }
}

fn row<T: Clone>(shape: &[usize], all: &[T], step: Option<usize>) -> (Vec<usize>, Vec<T>) {
    match step {
        None => (shape.to_vec(), all.to_vec()),
        Some(step) => {
            let size: usize = shape[1..].iter().product();
            (shape[1..].to_vec(), all[step * size..(step + 1) * size].to_vec())
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("`{key}` of {value}"))
}

fn sizes<const N: usize>(value: &Value, key: &str) -> [usize; N] {
    let list = value[key].as_array().unwrap_or_else(|| panic!("`{key}` of {value}"));
    let list: Vec<usize> = list.iter().map(|v| v.as_u64().expect("a size") as usize).collect();
    list.try_into().expect("as many as the operation takes")
}

/// Names of a node's operands.
fn inputs(node: &Value) -> Vec<&str> {
    let list = node["inputs"].as_array().expect("inputs");
    list.iter().map(|v| v.as_str().expect("a name")).collect()
}

/// Name of the product of a convolution or dense layer, before its bias is added.
fn product_name(node: &Value) -> String {
    let name = text(node, "name");
    if node["bias"] == true { format!("{name}.product") } else { name.to_string() }
}

fn model(case: &Case) -> Graph {
    let mut g = Graph::new(&case.name);
    let ty = TensorType::f32(case.floats("input.float", Some(0)).shape().clone());
    let input = g.add_input("input", ty, InputRole::Data);
    let mut values = BTreeMap::from([("input".to_string(), input)]);
    for node in case.nodes() {
        let name = text(node, "name");
        let operands: Vec<ValueId> = inputs(node).iter().map(|&s| values[s]).collect();
        let x = operands[0];
        let shape = g.ty(x).shape.to_vec();
        let parameter = |g: &mut Graph, kind: &str| {
            let name = format!("{name}.{kind}");
            let initial = case.floats(&format!("parameter.float.{name}"), None);
            g.add_parameter(name, initial, true)
        };
        let value = match text(node, "op") {
            op @ ("conv" | "linear") => {
                let weight = parameter(&mut g, "weight");
                let product: Op = if op == "linear" {
                    let role = ProductRole::Forward;
                    MatMul { transpose_a: false, transpose_b: true, role }.into()
                } else {
                    Conv2d {
                        strides: sizes(node, "strides"),
                        pads: sizes(node, "pads"),
                        dilations: sizes(node, "dilations"),
                        groups: node["groups"].as_u64().expect("a number") as usize,
                    }
                    .into()
                };
                let product = g.add1(product, &[x, weight], product_name(node)).unwrap();
                if node["bias"] == true {
                    let bias = parameter(&mut g, "bias");
                    let mut shape = vec![1; g.ty(product).shape.rank()];
                    shape[1] = g.ty(bias).count();
                    let op = Reshape { shape: shape.into() };
                    let bias = g.add1(op, &[bias], format!("{name}.bias/reshape")).unwrap();
                    g.add1(Add {}, &[product, bias], name).unwrap()
                } else {
                    product
                }
            }
            "batchnorm" => {
                let statistics = format!("{name}/statistics");
                let moments = g.add(BatchStatistics {}, &[x], statistics).unwrap();
                let (scale, bias) = (parameter(&mut g, "weight"), parameter(&mut g, "bias"));
                let epsilon = F32::new(node["epsilon"].as_f64().expect("a number") as f32);
                let op = BatchNorm { epsilon, batch: true };
                g.add1(op, &[x, scale, bias, moments[0], moments[1]], name).unwrap()
            }
            "relu" => g.add1(Relu {}, &[x], name).unwrap(),
            "maxpool" => {
                let op = MaxPool2d {
                    kernel: sizes(node, "kernel"),
                    strides: sizes(node, "strides"),
                    pads: sizes(node, "pads"),
                    dilations: [1, 1],
                    ceil: false,
                };
                g.add1(op, &[x], name).unwrap()
            }
            "avgpool" => {
                let padded = node.get("pads").is_some();
                let op = AvgPool2d {
                    kernel: sizes(node, "kernel"),
                    strides: sizes(node, "strides"),
                    pads: if padded { sizes(node, "pads") } else { [0; 4] },
                    ceil: false,
                    count_include_pad: false,
                };
                g.add1(op, &[x], name).unwrap()
            }
            "flatten" => {
                let flat = [shape[0], shape[1..].iter().product()];
                g.add1(Reshape { shape: flat.into() }, &[x], name).unwrap()
            }
            "add" => g.add1(Add {}, &operands, name).unwrap(),
            "concat" => g.add1(Concat { axis: 1 }, &operands, name).unwrap(),
            op => panic!("operation `{op}`"),
        };
        values.insert(name.to_string(), value);
    }
    g.add_output("logits", values[case.logits()]);
    g
}

/// What one step computed.
struct Step<'g> {
    graph: &'g Graph,
    values: BTreeMap<ValueId, Tensor>,
}

fn is_shared_i8(ty: &TensorType) -> bool {
    ty.element == Element::I8 && ty.scale == Scale::Exponent
}

impl<'g> Step<'g> {
    fn nodes(&self, name: &str) -> impl Iterator<Item = &'g Node> {
        self.graph.nodes().iter().filter(move |n| n.name == name)
    }

    /// The last int8 value that a node of that name computes.
    fn named(&self, name: &str) -> Option<&Tensor> {
        let value =
            self.nodes(name).map(|n| n.outputs[0]).filter(|&v| is_shared_i8(self.graph.ty(v)));
        self.values.get(&value.last()?)
    }

    /// The operand of the only node of that name and operation.
    fn operand(&self, name: &str, op: &str, operand: usize) -> Option<&Tensor> {
        let node = self.nodes(name).find(|n| n.op.kind().name() == op)?;
        self.values.get(&node.inputs[operand])
    }

    /// Backward pass of the ReLU of that name, found by its operand: the forward result.
    fn relu_gradient(&self, name: &str) -> Option<&'g Node> {
        self.graph.nodes().iter().find(|n| {
            n.op.kind().name() == "relu_gradient"
                && self.graph.producer(n.inputs[0]).is_some_and(|p| p.name == name)
        })
    }

    /// The loss's error at the logits.
    fn loss_gradient(&self) -> Option<&Tensor> {
        let is_loss = |n: &&Node| n.op.kind().name() == "integer_cross_entropy_gradient";
        self.values.get(&self.graph.nodes().iter().find(is_loss)?.outputs[0])
    }

    /// The error at a node's output: what the node's own backward pass takes, and what its only consumer's gives.
    fn errors(&self, case: &Case, node: &Value) -> Vec<(&'static str, &Tensor)> {
        let name = text(node, "name");
        let gradient = format!("{name}/gradient_input");
        let weight_gradient = format!("{}/gradient_weight", product_name(node));
        let own = match text(node, "op") {
            "conv" => self.operand(&weight_gradient, "conv2d_gradient_weight", 1),
            "linear" => self.operand(&weight_gradient, "matmul", 0),
            "relu" => self.relu_gradient(name).and_then(|n| self.values.get(&n.inputs[1])),
            "batchnorm" => {
                let gradient = format!("{name}/batch_norm_gradient");
                self.operand(&gradient, "integer_batch_norm_sums", 1)
            }
            "maxpool" => self.operand(&gradient, "max_pool2d_gradient", 1),
            "avgpool" => self.operand(&gradient, "avg_pool2d_gradient", 0),
            "concat" => self.operand(&format!("{name}/gradient0"), "slice", 0),
            _ => None,
        };
        let is_consumer = |n: &&Value| inputs(n).contains(&name);
        let consumers: Vec<&Value> = case.nodes().iter().filter(is_consumer).collect();
        let given = match consumers[..] {
            [] => self.loss_gradient(),
            [consumer] => match text(consumer, "op") {
                "relu" => self
                    .relu_gradient(text(consumer, "name"))
                    .and_then(|n| self.values.get(&n.outputs[0])),
                "batchnorm" => {
                    self.named(&format!("{}/batch_norm_gradient", text(consumer, "name")))
                }
                "conv" | "linear" | "maxpool" | "avgpool" => {
                    self.named(&format!("{}/gradient_input", product_name(consumer)))
                }
                _ => None,
            },
            _ => None,
        };
        let found = [("taken", own), ("given", given)];
        found.into_iter().filter_map(|(side, tensor)| Some((side, tensor?))).collect()
    }
}

/// Compares tensors and counts; collects differences so that a failure shows where the bits part first.
struct Comparison<'c> {
    case: &'c Case,
    compared: usize,
    differences: Vec<String>,
}

impl Comparison<'_> {
    fn tensor(
        &mut self,
        what: &str,
        found: &Tensor,
        key: &str,
        exponent: Option<&str>,
        step: Option<usize>,
    ) {
        self.compared += 1;
        let case = &self.case.name;
        let (shape, expected) = self.case.integers(key, step);
        if found.shape().to_vec() != shape {
            return self.differences.push(format!(
                "{case}, step {step:?}, {what}: shape {} not {shape:?}",
                found.ty()
            ));
        }
        let found_integers = found.to_i64();
        let wrong = found_integers.iter().zip(&expected).filter(|(a, b)| a != b).count();
        if let Some(i) = found_integers.iter().zip(&expected).position(|(a, b)| a != b) {
            self.differences.push(format!(
                "{case}, step {step:?}, {what}: {wrong} of {} elements differ, first {i}: {} not {}",
                expected.len(),
                found_integers[i],
                expected[i]
            ));
        }
        if let Some(exponent) = exponent {
            let (_, stored) = self.case.integers(exponent, None);
            let stored = stored[step.unwrap_or(0)];
            if i64::from(found.exponent()) != stored {
                self.differences.push(format!(
                    "{case}, step {step:?}, {what}: exponent {} not {stored}",
                    found.exponent()
                ));
            }
        }
    }

    fn parameters(
        &mut self,
        what: &str,
        graph: &Graph,
        tensors: &[Tensor],
        key: &str,
        step: Option<usize>,
    ) {
        for name in self.case.parameters() {
            let position = graph.parameter_named(&name).expect("the parameter");
            if self.case.is_float(&name) {
                let what = format!("{what} {name}");
                self.floats(&what, &tensors[position], &format!("{key}.{name}"), step);
                continue;
            }
            let exponent = format!("parameter.exponent.{name}");
            let (_, stored) = self.case.integers(&exponent, None);
            // Exponents of parameters never change.
            assert_eq!(
                i64::from(tensors[position].exponent()),
                stored[0],
                "{}: {name}",
                self.case.name
            );
            self.tensor(
                &format!("{what} {name}"),
                &tensors[position],
                &format!("{key}.{name}"),
                None,
                step,
            );
        }
    }
}

impl Comparison<'_> {
    /// FP32 values, bit for bit.
    fn floats(&mut self, what: &str, found: &Tensor, key: &str, step: Option<usize>) {
        self.compared += 1;
        let expected = self.case.floats(key, step);
        let bits =
            |tensor: &Tensor| tensor.as_f32().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        if bits(found) != bits(&expected) {
            self.differences.push(format!(
                "{}, step {step:?}, {what}: {:?} not {:?}",
                self.case.name,
                found.as_f32(),
                expected.as_f32()
            ));
        }
    }

    /// What is kept of rescalings, of cases that have it.
    fn states(&mut self, graph: &Graph, tensors: &[Tensor], step: usize) {
        let keys =
            self.case.arrays.keys().filter_map(|key| Some((key, key.strip_prefix("state.")?)));
        for (key, name) in keys {
            let position = graph.parameter_named(&format!("{name}.shift")).expect("the state");
            let expected = self.case.floats(key, Some(step));
            self.compared += 1;
            if tensors[position] != expected {
                self.differences.push(format!(
                    "adaptive, step {step}, state of {name}: {:?} not {:?}",
                    tensors[position].as_f32(),
                    expected.as_f32()
                ));
            }
        }
    }
}

/// Runs the stored steps on a module. `complete`: every stored tensor must be found; else those that are there.
fn run(case: &Case, graph: &Graph, complete: bool) -> (usize, Vec<String>) {
    let mut comparison = Comparison { case, compared: 0, differences: Vec::new() };
    let mut interpreter = Interpreter::new(graph);
    comparison.parameters("initial", graph, interpreter.parameters(), "parameter.initial", None);
    for step in 0..case.steps() {
        let labels = case.integers("labels", Some(step));
        let labels = Tensor::i32(labels.0, labels.1.iter().map(|&l| l as i32).collect());
        let inputs: Vec<Tensor> = graph
            .inputs()
            .iter()
            .map(|input| match input.role {
                InputRole::Data => case.floats("input.float", Some(step)),
                InputRole::Labels => labels.clone(),
                InputRole::LearningRate | InputRole::Scheduled => {
                    Tensor::i32([], vec![case.facts["mu"].as_i64().expect("mu") as i32])
                }
            })
            .collect();
        let run =
            RunContext { seed: case.facts["seed"].as_u64().expect("a seed"), step: step as u32 };
        let mut values = BTreeMap::new();
        let outputs = interpreter
            .step_watching(&inputs, &run, |id, tensor| {
                values.insert(id, tensor.clone());
            })
            .unwrap();
        let state = Step { graph, values };
        compare_step(&mut comparison, &state, step, complete);
        compare_outputs(&mut comparison, graph, &outputs, labels.as_i32(), step);
        let after = interpreter.parameters().to_vec();
        comparison.parameters("after", graph, &after, "parameter.after", Some(step));
        comparison.states(graph, &after, step);
    }
    (comparison.compared, comparison.differences)
}

fn compare_step(comparison: &mut Comparison<'_>, state: &Step<'_>, step: usize, complete: bool) {
    let case = comparison.case;
    let missing = |what: String| {
        assert!(!complete, "{}: the module has no {what}", case.name);
    };
    for tensor in case.facts["tensors"].as_array().expect("tensors") {
        let name = text(tensor, "name");
        match state.named(name) {
            Some(found) => {
                let keys = (format!("forward.{name}"), format!("forward.exponent.{name}"));
                comparison.tensor(&keys.0, found, &keys.0, Some(&keys.1), Some(step));
            }
            None => missing(format!("activation `{name}`")),
        }
    }
    for node in case.nodes() {
        let name = text(node, "name");
        if !case.arrays.contains_key(&format!("error.{name}")) {
            continue;
        }
        let found = state.errors(case, node);
        // An add hands its error on as it is, so what flows into its operands need not name it.
        if found.is_empty() {
            missing(format!("error at `{name}`"));
        }
        for (side, found) in found {
            let keys = (format!("error.{name}"), format!("error.exponent.{name}"));
            comparison.tensor(
                &format!("{} ({side})", keys.0),
                found,
                &keys.0,
                Some(&keys.1),
                Some(step),
            );
        }
    }
    for parameter in case.parameters() {
        let update = format!("{parameter}/update");
        if case.is_float(&parameter) {
            let key = format!("gradient.{parameter}");
            match state.operand(&update, "normalized_update", 1) {
                Some(found) => comparison.floats(&key, found, &key, Some(step)),
                None => missing(key),
            }
            continue;
        }
        let accumulator = state.operand(&update, "quantize_gradient", 0);
        // The update's own result bears the name too: the gradient is its operand.
        let gradient = state.operand(&update, "saturating_subtract", 1);
        for (kind, found) in [("gradient.accumulator", accumulator), ("gradient", gradient)] {
            let key = format!("{kind}.{parameter}");
            match found {
                Some(found) => comparison.tensor(&key, found, &key, None, Some(step)),
                None => missing(key),
            }
        }
    }
}

/// The dequantised logits exactly, and the displayed loss against one in double precision.
fn compare_outputs(
    comparison: &mut Comparison<'_>,
    graph: &Graph,
    outputs: &[Tensor],
    labels: &[i32],
    step: usize,
) {
    let case = comparison.case;
    let of = |name: &str| {
        let position = graph.outputs().iter().position(|o| o.name == name).expect("the output");
        &outputs[position]
    };
    let logits = case.logits();
    let (shape, stored) = case.integers(&format!("forward.{logits}"), Some(step));
    let (_, exponents) = case.integers(&format!("forward.exponent.{logits}"), None);
    let unit = 2f64.powi(exponents[step] as i32);
    let expected: Vec<f64> = stored.iter().map(|&q| q as f64 * unit).collect();
    let found: Vec<f64> = of("logits").as_f32().iter().map(|&x| f64::from(x)).collect();
    if found != expected {
        comparison.differences.push(format!("{}, step {step}: output `logits`", case.name));
    }
    let losses = expected.chunks_exact(shape[1]).zip(labels).map(|(row, &label)| {
        let largest = row.iter().fold(f64::MIN, |m, &x| m.max(x));
        let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        sum.ln() + largest - row[label as usize]
    });
    let expected = losses.sum::<f64>() / labels.len() as f64;
    let found = f64::from(of(LOSS).as_f32()[0]);
    if (found - expected).abs() > LOSS_TOLERANCE * expected.abs() {
        comparison
            .differences
            .push(format!("{}, step {step}: loss {found} not {expected}", case.name));
    }
    comparison.compared += 2;
}

fn report(differences: &[String]) {
    let shown: Vec<&str> = differences.iter().take(12).map(String::as_str).collect();
    assert!(differences.is_empty(), "{} difference(s):\n{}", differences.len(), shown.join("\n"));
}

fn adaptive() -> Algorithm {
    Algorithm::built_in("niti").unwrap().with_parameters("adaptive=1").unwrap()
}

#[test]
fn training_steps_are_those_of_the_reference() {
    let niti = Algorithm::built_in("niti").unwrap();
    let cases: Vec<Case> = CASES.iter().map(|name| Case::read(name)).collect();
    compare(&niti, &cases);
}

#[test]
fn steps_with_shifts_that_are_kept_are_those_of_the_reference() {
    let case = Case::adaptive();
    assert_eq!(text(&case.facts, "algorithm"), adaptive().spelled());
    compare(&adaptive(), &[case]);
}

fn compare(niti: &Algorithm, cases: &[Case]) {
    let stage = Stage::Quantized { float_operations: niti.float_operations.clone() };
    let mut differences = Vec::new();
    for case in cases {
        let name = &case.name;
        let training = training_graph(&model(case), None).unwrap();
        let (module, _) = translate(&training, niti).unwrap();
        let (compared, found) = run(case, &module, true);
        println!("{name}: translated: {compared} tensors compared");
        differences.extend(found.into_iter().map(|d| format!("translated: {d}")));
        for strategy in [Strategy::Saturate, Strategy::Ordered] {
            let options = OptimiseOptions { strategy, ..OptimiseOptions::default() };
            let (optimised, report) = optimise(&module, &stage, &Counting, &options).unwrap();
            assert!(report.cost_after < report.cost_before, "{name}: {strategy:?} gains nothing");
            let (count, found) = run(case, &optimised, false);
            println!("{name}: {strategy:?}: {count} tensors compared");
            // Weights, outputs and most activations are left whatever is fused.
            assert!(
                2 * count > compared,
                "{name}: {strategy:?}: only {count} of {compared} compared"
            );
            differences.extend(found.into_iter().map(|d| format!("{strategy:?}: {d}")));
        }
    }
    report(&differences);
}

/// The fixtures tell each choice of the algorithm file: one changed word at a time must change some bits. (Random streams
/// are numbered by translation, whatever the file says.)
#[test]
fn every_rounding_of_the_algorithm_matters() {
    let (_, text) = trainc_opt::algorithm::BUILT_IN.iter().find(|(n, _)| *n == "niti").unwrap();
    let changes = [
        ("rounding=half_away", "rounding=pseudo_stochastic"),
        ("rounding=pseudo_stochastic", "rounding=half_away"),
        ("bits=7", "bits=6"),
    ];
    let mut changed = 0;
    for (word, other) in changes {
        for (at, _) in text.match_indices(word) {
            // No network of the paper narrows sums of errors; tests/filetests/translate/niti_shared_rows.qir does.
            if text[..at].lines().next_back().is_some_and(|line| line.starts_with("narrow")) {
                continue;
            }
            let mutated = format!("{}{other}{}", &text[..at], &text[at + word.len()..]);
            let rule = text[..at].rsplit("name = ").next().unwrap().lines().next().unwrap();
            // With `adaptive=1`, inference and transposed convolutions round as without it.
            // No network of the paper multiplies tensors: compiler/opt/tests/functions.rs has some.
            if rule.starts_with("\"product") {
                continue;
            }
            if rule.ends_with("-inference\"") || rule.ends_with("-backward\"") {
                continue;
            }
            let niti = Algorithm::parse("changed", &mutated).unwrap();
            let (niti, cases) = match rule.ends_with("-adaptive\"") {
                true => (niti.with_parameters("adaptive=1").unwrap(), vec![Case::adaptive()]),
                false => (niti, CASES.iter().map(|name| Case::read(name)).collect()),
            };
            let seen = cases.into_iter().any(|case| {
                let training = training_graph(&model(&case), None).unwrap();
                let (module, _) = translate(&training, &niti).unwrap();
                !run(&case, &module, true).1.is_empty()
            });
            assert!(seen, "rule {rule} with {other} gives the same bits");
            changed += 1;
        }
    }
    assert!(changed >= 15, "only {changed} changes tried");
}

#[test]
fn every_stored_case_is_run() {
    let mut stored: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    stored.sort();
    let mut run = CASES.to_vec();
    run.sort_unstable();
    assert_eq!(stored, run);
}
