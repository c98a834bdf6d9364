//! Whole training steps of `niti-finetune` against the independent numpy implementation (tests/reference/niti_finetune),
//! bit for bit: state, losses, scores, and on the way activations and errors. FP32 too: there is no tolerance.
//!
//! The models of tests/data/niti_finetune are compiled by the driver. The translated module must give every stored tensor;
//! optimised modules the same wherever they still compute it, and the host's code the same state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainc_data::{NpyArray, NpyData, read_npz};
use trainc_driver::config::{Config, OptimiserStrategy};
use trainc_driver::model::ModelSource;
use trainc_driver::session::{Entries, INFER, Session, TRAIN_STEP};
use trainc_driver::trained::FINE_TUNING;
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::types::{Element, Scale, TensorType};
use trainc_ir::{Op, RunContext, ScaleData, Tensor};
use trainc_opt::algorithm::{Algorithm, BUILT_IN};
use trainc_opt::training::LOSS;
use trainc_opt::translate::translate;

const CASES: [&str; 4] = ["lenet", "residual", "normalized", "integers"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/niti_finetune").join(name)
}

/// A stored case: its facts and its arrays.
struct Case {
    name: &'static str,
    facts: Value,
    arrays: BTreeMap<String, NpyArray>,
}

impl Case {
    fn read(name: &'static str) -> Case {
        let text = std::fs::read_to_string(file(&format!("{name}.json"))).expect("the facts");
        let arrays = read_npz(&file(&format!("{name}.npz"))).expect("the arrays");
        let facts = serde_json::from_str(&text).expect("JSON");
        Case { name, facts, arrays: arrays.into_iter().collect() }
    }

    fn source(&self) -> ModelSource {
        ModelSource::File(file(&format!("{}.onnx", self.name)))
    }

    fn steps(&self) -> usize {
        self.arrays["labels"].shape[0]
    }

    /// Row `row` of an array, with its stored exponent if it is of integers that have one.
    fn row(&self, key: &str, row: usize) -> Tensor {
        let array = &self.arrays[key];
        let shape = array.shape[1..].to_vec();
        let size: usize = shape.iter().product();
        let range = row * size..(row + 1) * size;
        let element = match &array.data {
            NpyData::F32(all) => return Tensor::f32(shape, all[range].to_vec()),
            NpyData::I8(_) => Element::I8,
            NpyData::U8(_) => Element::U8,
            NpyData::I16(_) => Element::I16,
            NpyData::I32(_) => Element::I32,
            _ => panic!("{key}: what element?"),
        };
        let all = array.data.to_integers().expect("integers");
        match &self.facts["exponents"][key] {
            Value::Null => {
                let ty = TensorType::new(shape, element);
                Tensor::from_i64(&ty, &all[range], ScaleData::None)
            }
            exponents => {
                let exponent = exponents[row].as_i64().expect("an exponent") as i32;
                let ty = TensorType::shared(shape, element);
                Tensor::from_i64(&ty, &all[range], ScaleData::Exponent(exponent))
            }
        }
    }

    /// Names of the stored arrays that begin with a word.
    fn names(&self, word: &str) -> impl Iterator<Item = &str> {
        self.arrays.keys().filter_map(move |key| key.strip_prefix(word))
    }

    /// One has its batch normalizations by integers.
    fn algorithm(&self) -> String {
        format!("{FINE_TUNING}:norm={}", u8::from(self.name == "integers"))
    }

    fn session(&self, batch: usize, target: &str, strategy: OptimiserStrategy) -> Session {
        let config = Config {
            algorithm: self.algorithm(),
            target: target.into(),
            batch: Some(batch),
            opt: strategy,
            ..Config::default()
        };
        Session::new(&self.source(), &config, Entries::TrainAndInfer)
            .unwrap_or_else(|e| panic!("{}: {e:#}", self.name))
    }

    fn batch(&self) -> usize {
        self.arrays["labels"].shape[1]
    }
}

fn parameter_name(graph: &Graph, index: usize) -> &str {
    &graph.value(graph.parameters()[index].value).name
}

/// Compares tensors and counts; collects differences so that a failure shows where the bits part first.
struct Comparison<'c> {
    case: &'c Case,
    module: String,
    compared: usize,
    differences: Vec<String>,
}

impl Comparison<'_> {
    fn new(case: &Case, module: String) -> Comparison<'_> {
        Comparison { case, module, compared: 0, differences: Vec::new() }
    }

    fn tensor(&mut self, what: &str, found: &Tensor, expected: &Tensor) {
        self.compared += 1;
        if found.bits_equal(expected) {
            return;
        }
        let at = match found.first_difference(expected) {
            Some(i) if found.ty() == expected.ty() && i != usize::MAX => format!("element {i}"),
            _ => "type or exponent".to_string(),
        };
        let text = format!(
            "{} {}: {what}: {at}\n  found    {found:?}\n  expected {expected:?}",
            self.case.name, self.module
        );
        self.differences.push(text.chars().take(600).collect());
    }

    fn state(&mut self, graph: &Graph, parameters: &[Tensor], row: usize) {
        assert_eq!(parameters.len(), self.case.names("state.").count(), "{}", self.module);
        for (i, tensor) in parameters.iter().enumerate() {
            let key = format!("state.{}", parameter_name(graph, i));
            let expected = self.case.row(&key, row);
            self.tensor(&format!("{key} after {row} steps"), tensor, &expected);
        }
    }

    /// The stored scores of single examples, computed from a state by a module for one example.
    fn scores(&mut self, graph: &Graph, key: &str, row: usize) {
        let mut interpreter = Interpreter::new(graph);
        for i in 0..graph.parameters().len() {
            let state = self.case.row(&format!("state.{}", parameter_name(graph, i)), row);
            interpreter.set_parameter(i, state);
        }
        let images = self.case.row("images", 0);
        let shape: Vec<usize> = images.shape().to_vec();
        let size: usize = shape[1..].iter().product();
        let one: Vec<usize> = [1].into_iter().chain(shape[1..].iter().copied()).collect();
        for (i, image) in images.as_f32().chunks_exact(size).enumerate() {
            let x = Tensor::f32(one.clone(), image.to_vec());
            let found = interpreter.step(&[x], &RunContext::default()).unwrap();
            let expected = self.case.row(key, i);
            let expected = Tensor::f32(found[0].shape().clone(), expected.as_f32().to_vec());
            self.tensor(&format!("{key} of example {i}"), &found[0], &expected);
        }
    }

    /// What a step takes, in the order of an entry's inputs, and its run.
    fn inputs(&self, step: usize) -> ([Tensor; 3], RunContext) {
        let case = self.case;
        let seed = case.facts["seed"].as_u64().expect("a seed");
        let inputs = ["images", "labels", "rates"].map(|key| case.row(key, step));
        (inputs, RunContext { seed, step: step as u32 })
    }

    /// Training steps by the host's code.
    fn train_on_host(&mut self, session: &Session) {
        let mut host = session.on_this_machine().unwrap();
        for step in 0..self.case.steps() {
            let ([images, labels, rate], run) = self.inputs(step);
            let outputs = host.run(TRAIN_STEP, &[&images, &labels, &rate], &run).unwrap();
            let loss = self.case.row("losses", step);
            self.tensor(&format!("loss of step {step}"), &outputs[0], &loss);
            let (names, state) = (session.state_names(), host.state().unwrap());
            assert_eq!([names.len(), state.len()], [self.case.names("state.").count(); 2]);
            for (name, (_, tensor)) in names.iter().zip(state) {
                let expected = self.case.row(&format!("state.{name}"), step + 1);
                self.tensor(&format!("{name} after {} steps", step + 1), &tensor, &expected);
            }
        }
    }

    /// Training steps. `complete`: every stored tensor must be found; else those that are there.
    fn train(&mut self, graph: &Graph, complete: bool) {
        let case = self.case;
        let mut interpreter = Interpreter::new(graph);
        self.state(graph, interpreter.parameters(), 0);
        for step in 0..case.steps() {
            let (inputs, run) = self.inputs(step);
            let roles = [InputRole::Data, InputRole::Labels, InputRole::LearningRate];
            assert!(graph.inputs().iter().map(|i| i.role).eq(roles));
            let mut values = BTreeMap::new();
            let outputs = interpreter
                .step_watching(&inputs, &run, |id, tensor| {
                    values.insert(id, tensor.clone());
                })
                .unwrap();
            for name in case.names("value.") {
                let nodes = graph.nodes().iter().rev().filter(|n| n.name == name);
                let narrow =
                    |ty: &TensorType| ty.element.bits() == 8 && ty.scale == Scale::Exponent;
                let value = nodes.map(|n| n.outputs[0]).find(|&v| narrow(graph.ty(v)));
                match value.and_then(|v| values.get(&v)) {
                    Some(found) => {
                        let expected = case.row(&format!("value.{name}"), step);
                        self.tensor(&format!("`{name}` in step {step}"), found, &expected);
                    }
                    None => assert!(!complete, "{}: no `{name}` in 8 bits", case.name),
                }
            }
            let loss = graph.outputs().iter().position(|o| o.name == LOSS).expect("the loss");
            self.tensor(&format!("loss of step {step}"), &outputs[loss], &case.row("losses", step));
            self.state(graph, interpreter.parameters(), step + 1);
        }
    }
}

fn report(differences: &[String]) {
    let shown: Vec<&str> = differences.iter().take(12).map(String::as_str).collect();
    assert!(differences.is_empty(), "{} difference(s):\n{}", differences.len(), shown.join("\n"));
}

/// The fixture's streams are those that translation gave, one for each stochastic operation.
fn assert_streams(case: &Case, graph: &Graph) {
    let streams = graph.nodes().iter().filter_map(|n| Some((n.name.clone(), n.op.stream()?)));
    let found: BTreeMap<String, u32> = streams.collect();
    let stored = case.facts["streams"].as_object().expect("streams");
    let stored: BTreeMap<String, u32> =
        stored.iter().map(|(k, v)| (k.clone(), v.as_u64().expect("a stream") as u32)).collect();
    assert_eq!(found, stored, "{}: random streams", case.name);
}

/// An entry's module as translated, and optimised.
fn modules<'s>(session: &'s Session, entry: &str) -> [&'s Graph; 2] {
    let stages = session.entry(entry).expect("the entry");
    [&stages.module, &stages.optimised]
}

/// Targets and strategies whose optimised modules differ.
const OPTIMISERS: [(&str, OptimiserStrategy); 3] = [
    ("host", OptimiserStrategy::Saturate),
    ("host", OptimiserStrategy::Ordered),
    ("hvx", OptimiserStrategy::Saturate),
];

#[test]
fn training_steps_and_scores_are_those_of_the_reference() {
    let mut differences = Vec::new();
    for name in CASES {
        let case = Case::read(name);
        let mut complete = 0;
        for (target, strategy) in OPTIMISERS {
            let train = case.session(case.batch(), target, strategy);
            let infer = case.session(1, target, strategy);
            if target == "host" {
                let mut comparison =
                    Comparison::new(&case, format!("on this machine ({strategy:?})"));
                comparison.train_on_host(&train);
                println!("{name} {}: {} tensors", comparison.module, comparison.compared);
                differences.extend(comparison.differences);
            }
            let (train, infer) = (modules(&train, TRAIN_STEP), modules(&infer, INFER));
            assert_streams(&case, train[0]);
            for (i, form) in ["translated", "optimised"].into_iter().enumerate() {
                let module = format!("{form} ({target}, {strategy:?})");
                let mut comparison = Comparison::new(&case, module);
                comparison.train(train[i], i == 0);
                comparison.scores(infer[i], "scores.before", 0);
                comparison.scores(infer[i], "scores.after", case.steps());
                println!("{name} {}: {} tensors", comparison.module, comparison.compared);
                complete = complete.max(comparison.compared);
                // State, losses, scores and most activations are left whatever is fused.
                assert!(2 * comparison.compared > complete, "{name} {}", comparison.module);
                differences.extend(comparison.differences);
            }
        }
    }
    report(&differences);
}

/// A function whose result a frozen prefix hands on is part of it, by a table for each example as in inference.
#[test]
fn functions_at_the_border_of_what_is_frozen_have_tables() {
    let case = Case::read("integers");
    let config = Config {
        algorithm: case.algorithm(),
        batch: Some(case.batch()),
        freeze: vec!["stem*".into(), "norm1*".into()],
        ..Config::default()
    };
    let session = Session::new(&case.source(), &config, Entries::TrainAndInfer).unwrap();
    let module = &session.entry(TRAIN_STEP).unwrap().module;
    let lookups = module.nodes().iter().filter(|node| matches!(node.op, Op::Lookup(_)));
    let alone = lookups.filter(|node| module.ty(node.outputs[0]).shape.first() == Some(&1));
    assert_eq!(alone.count(), case.batch(), "{module}");
    for node in module.nodes().iter().filter(|node| matches!(node.op, Op::Formula(_))) {
        assert_eq!(module.ty(node.outputs[0]).count(), 256, "{module}");
    }
}

/// The fixtures tell each choice of the algorithm file: one changed word at a time must change some bits.
#[test]
fn every_choice_of_the_algorithm_matters() {
    let (_, text) = BUILT_IN.iter().find(|(name, _)| *name == FINE_TUNING).unwrap();
    let changes = [
        ("gather_functions = 256", "gather_functions = 100000"),
        ("bits=7", "bits=6"),
        ("low=-127", "low=0"),
        ("amount=8, rounding=half_away", "amount=8, rounding=pseudo_stochastic"),
        ("amount=8", "amount=9"),
        ("element=i16", "element=i8"),
        ("exponent=-24", "exponent=-23"),
        ("(quantize_unsigned (lowered ?x))", "(quantize_unsigned (narrowed ?x))"),
        (
            "(quantize_unsigned (clip ?a (lowered ?x)))",
            "(quantize_unsigned (clip ?a (narrowed ?x)))",
        ),
        ("(aligned_sum (narrowed ?x) (narrowed ?y))", "(aligned_sum (lowered ?x) (narrowed ?y))"),
        (
            "i32 = \"(requantize_stochastic{stream=0} ?q)\"",
            "i32 = \"(requantize{bits=7, rounding=half_away, low=-127} ?q)\"",
        ),
        ("f32 = \"(requantize_stochastic{stream=0} ?q)\"", "f32 = \"(quantize_exponent ?q)\""),
        ("f32 = \"(quantize_exponent ?q)\"", "f32 = \"(quantize_unsigned ?q)\""),
    ];
    let graphs = CASES.map(|name| {
        let case = Case::read(name);
        let session = case.session(case.batch(), "host", OptimiserStrategy::Off);
        let float = session.entry(TRAIN_STEP).unwrap().float.clone();
        (case, float)
    });
    for (word, other) in changes {
        assert!(text.contains(word), "{word}");
        for (at, _) in text.match_indices(word) {
            let section = text[..at].rfind("\n[").map_or("", |start| &text[start + 1..at]);
            // Errors are never int16: what the way back says of them is not reached.
            if word.starts_with("amount") && section.starts_with("[backpropagation]") {
                continue;
            }
            let mutated = format!("{}{other}{}", &text[..at], &text[at + word.len()..]);
            let seen = graphs.iter().any(|(case, float)| {
                let algorithm = Algorithm::parse("changed", &mutated).unwrap();
                let own = format!("norm={}", u8::from(case.name == "integers"));
                let algorithm = algorithm.with_parameters(&own).unwrap();
                let (module, _) = translate(float, &algorithm).unwrap();
                let mut comparison = Comparison::new(case, word.to_string());
                comparison.train(&module, false);
                !comparison.differences.is_empty()
            });
            let line = text[..at].matches('\n').count() + 1;
            assert!(seen, "line {line} with {other} gives the same bits");
        }
    }
}
