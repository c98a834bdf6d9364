//! Gradients of whole networks against central differences of their loss.
//!
//! The networks are PyTorch's exports; what is differentiated is the mean cross entropy, computed here in double
//! precision from the interpreter's outputs. Each network is checked at random elements of its parameters, and for each
//! parameter along its gradient and along random signs, which every element takes part in.

use std::path::Path;

use trainc_ir::graph::Definition;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{AvgPool2d, MaxPool2d, SoftmaxCrossEntropy, Tanh};
use trainc_ir::types::{Element, TensorType};
use trainc_ir::{Graph, InputRole, Op, RunContext, Tensor, ValueId};
use trainc_onnx_import::{DropoutMode, ImportOptions, import_path};
use trainc_opt::autodiff::differentiate;
use trainc_opt::training::logits;

/// What is checked, and what each brings.
const NETWORKS: &[(&str, &str)] = &[
    ("lenet_smooth_ts16_train", "smooth activations, average pooling"),
    ("residual_ts17_train", "batch norm with batch statistics, strides, residual sums"),
    ("mobile_ts15_train", "depthwise convolutions, clipping, batch norm with batch statistics"),
    ("preactivation_dyn18_unoptimized", "batch norm with running statistics"),
    ("inception_ts16_train", "concatenation, average pooling with padding"),
    ("pooling_ts17_train", "pooling with ceiling and dilation, a weight that is used twice"),
    ("asymmetric_ts14_train", "asymmetric padding"),
    ("sequence_ts15_train", "products with leading dimensions"),
];
/// Elements checked a network.
const ELEMENTS: usize = 12;
/// Samples a batch.
const BATCH: usize = 4;
/// Rounding of the loss: a mean over outputs that are below 1, where a unit of FP32 is 2^-24.
const LOSS_ROUNDING: f64 = 3e-8;

/// How a network is checked.
struct Check {
    /// Whether kinks are replaced: ReLU and clipping by tanh, maximum by average pooling.
    smooth: bool,
    /// Steps, relative to the largest element of the parameter (along a direction, to its norm). One of them must fit:
    /// the smaller crosses fewer kinks, the larger suffers less from rounding.
    steps: &'static [f64],
    /// Largest difference, relative to the largest element of the parameter's gradient (along a direction, to its
    /// norm).
    tolerance: f64,
}

/// Without kinks the differences are sharp; with them a kink next to the very parameters moves them by some percent.
const CHECKS: [Check; 2] = [
    Check { smooth: true, steps: &[1e-2, 1e-3], tolerance: 2e-3 },
    Check { smooth: false, steps: &[3e-3, 3e-4, 1e-4], tolerance: 1e-2 },
];

struct Network {
    /// Outputs the class scores.
    forward: Graph,
    inputs: Vec<Tensor>,
    labels: Vec<i32>,
    /// Trained parameters with the gradient that differentiation gives, where the loss depends on them.
    gradients: Vec<(usize, Tensor)>,
}

fn uniform(stream: u32, count: usize) -> Vec<f32> {
    let run = RunContext { seed: 20, step: 0 };
    (0..count).map(|i| (run.draw(stream, i as u32) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

impl Network {
    fn read(name: &str, smooth: bool) -> Network {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("data/pytorch/{name}.onnx"));
        let options = ImportOptions {
            batch: Some(BATCH),
            training: true,
            dropout: DropoutMode::Off,
            ..ImportOptions::default()
        };
        let model = import_path(&path, &options).unwrap_or_else(|e| panic!("{name}: {e}")).graph;
        let scores = logits(&model).unwrap();
        let model = if smooth { copy(&model, &[], without_kinks) } else { model };
        let forward = copy(&model, &[scores], Op::clone);
        let classes = model.ty(scores).shape[1];
        let labels: Vec<i32> = (0..BATCH).map(|i| (3 * i % classes) as i32).collect();
        let mut inputs: Vec<Tensor> = model
            .inputs()
            .iter()
            .map(|input| {
                let ty = model.ty(input.value);
                Tensor::f32(ty.shape.clone(), uniform(0, ty.count()))
            })
            .collect();
        let mut backward = model;
        let ty = TensorType::new([BATCH], Element::I32);
        let label_input = backward.add_input("labels", ty, InputRole::Labels);
        let loss = backward.add1(SoftmaxCrossEntropy {}, &[scores, label_input], "loss").unwrap();
        let trained: Vec<usize> = (0..backward.parameters().len())
            .filter(|&i| backward.parameters()[i].trainable)
            .collect();
        let values: Vec<ValueId> =
            trained.iter().map(|&i| backward.parameters()[i].value).collect();
        let gradients = differentiate(&mut backward, loss, &values).unwrap();
        let gradients: Vec<ValueId> = gradients
            .into_iter()
            .map(|g| g.expect("the loss depends on every parameter"))
            .collect();
        let backward = copy(&backward, &gradients, Op::clone);
        let batch = inputs.clone();
        inputs.push(Tensor::i32([BATCH], labels.clone()));
        let outputs = Interpreter::new(&backward).step(&inputs, &RunContext::default()).unwrap();
        let gradients = trained.into_iter().zip(outputs).collect();
        Network { forward, inputs: batch, labels, gradients }
    }

    /// Mean cross entropy with one parameter replaced.
    fn loss(&self, parameter: usize, value: &Tensor) -> f64 {
        let mut interpreter = Interpreter::new(&self.forward);
        interpreter.set_parameter(parameter, value.clone());
        let scores = interpreter.step(&self.inputs, &RunContext::default()).unwrap();
        let classes = scores[0].shape()[1];
        let rows = scores[0].as_f32().chunks_exact(classes).zip(&self.labels);
        let losses = rows.map(|(row, &label)| {
            let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
            let largest = row.iter().fold(f64::MIN, |m, &x| m.max(x));
            let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
            sum.ln() + largest - row[label as usize]
        });
        losses.sum::<f64>() / self.labels.len() as f64
    }

    /// Slope of the loss along `direction`, and how far rounding may move it.
    fn slope(&self, parameter: usize, direction: &[f64], step: f64) -> (f64, f64) {
        let initial = &self.forward.parameters()[parameter].initial;
        // The distance really taken, after rounding to FP32.
        let moved = |sign: f64| {
            let at = initial.as_f32().iter().zip(direction);
            let values: Vec<f32> =
                at.map(|(&w, d)| (f64::from(w) + sign * step * d) as f32).collect();
            Tensor::f32(initial.shape().clone(), values)
        };
        let (ahead, behind) = (moved(1.0), moved(-1.0));
        let squared: f64 = direction.iter().map(|d| d * d).sum();
        let taken: f64 = ahead
            .as_f32()
            .iter()
            .zip(behind.as_f32())
            .zip(direction)
            .map(|((a, b), d)| (f64::from(*a) - f64::from(*b)) * d)
            .sum::<f64>()
            / squared;
        let (a, b) = (self.loss(parameter, &ahead), self.loss(parameter, &behind));
        ((a - b) / taken, 2.0 * LOSS_ROUNDING / taken)
    }
}

/// An operation of the same type without kinks, where there is one.
fn without_kinks(op: &Op) -> Op {
    match op {
        Op::Relu(_) | Op::Clip(_) => Tanh {}.into(),
        Op::MaxPool2d(pool) if pool.dilations == [1, 1] => {
            let MaxPool2d { kernel, strides, pads, ceil, .. } = pool.clone();
            AvgPool2d { kernel, strides, pads, ceil, count_include_pad: false }.into()
        }
        op => op.clone(),
    }
}

/// The graph with other outputs and no updates; each operation is replaced by what `replace` gives. Ids stay.
fn copy(graph: &Graph, outputs: &[ValueId], replace: impl Fn(&Op) -> Op) -> Graph {
    let mut result = Graph::new(graph.name());
    for id in graph.value_ids() {
        let value = graph.value(id);
        match &value.definition {
            Definition::Input(i) => {
                result.add_input(&value.name, value.ty.clone(), graph.inputs()[*i].role);
            }
            Definition::Parameter(i) => {
                let parameter = &graph.parameters()[*i];
                result.add_parameter(&value.name, parameter.initial.clone(), parameter.trainable);
            }
            Definition::Constant(tensor) => {
                result.add_constant(&value.name, tensor.clone());
            }
            Definition::Result { node, slot: 0 } => {
                let node = graph.node(*node);
                result.add(replace(&node.op), &node.inputs, &node.name).unwrap();
            }
            Definition::Result { .. } => {}
        }
    }
    for (i, &output) in outputs.iter().enumerate() {
        assert_eq!(result.ty(output), graph.ty(output));
        result.add_output(format!("output{i}"), output);
    }
    result
}

fn largest(values: &[f32]) -> f64 {
    values.iter().fold(0.0, |m, x| m.max(f64::from(x.abs())))
}

/// A direction in which a parameter is moved.
struct Move {
    what: String,
    parameter: usize,
    direction: Vec<f64>,
    /// What steps are relative to.
    size: f64,
    /// The slope by differentiation.
    slope: f64,
    /// What the tolerance is relative to.
    scale: f64,
}

impl Network {
    fn initial(&self, parameter: usize) -> &[f32] {
        self.forward.parameters()[parameter].initial.as_f32()
    }

    fn parameter_name(&self, parameter: usize) -> &str {
        &self.forward.value(self.forward.parameters()[parameter].value).name
    }

    /// Random elements; for each parameter its gradient and random signs.
    fn moves(&self) -> Vec<Move> {
        let draws = RunContext { seed: 21, step: 0 };
        let mut moves = Vec::new();
        for i in 0..ELEMENTS as u32 {
            let which = draws.draw(0, i) as usize % self.gradients.len();
            let (parameter, gradient) = &self.gradients[which];
            let element = draws.draw(1, i) as usize % gradient.ty().count();
            let mut direction = vec![0.0; gradient.ty().count()];
            direction[element] = 1.0;
            moves.push(Move {
                what: format!("{}[{element}]", self.parameter_name(*parameter)),
                parameter: *parameter,
                direction,
                size: largest(self.initial(*parameter)).max(0.1),
                slope: f64::from(gradient.as_f32()[element]),
                scale: largest(gradient.as_f32()),
            });
        }
        for (parameter, gradient) in &self.gradients {
            let norm =
                |values: &[f32]| values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
            let slope = norm(gradient.as_f32());
            let unit = |&g: &f32| f64::from(g) / slope.max(f64::MIN_POSITIVE);
            moves.push(Move {
                what: format!("{} along its gradient", self.parameter_name(*parameter)),
                parameter: *parameter,
                direction: gradient.as_f32().iter().map(unit).collect(),
                size: norm(self.initial(*parameter)).max(0.1),
                slope,
                scale: slope,
            });
            let sign = |i: usize| f64::from(draws.draw(2, i as u32) >> 31) * 2.0 - 1.0;
            let signs: Vec<f64> = (0..gradient.ty().count()).map(sign).collect();
            moves.push(Move {
                what: format!("{} along random signs", self.parameter_name(*parameter)),
                parameter: *parameter,
                slope: gradient.as_f32().iter().zip(&signs).map(|(&g, s)| f64::from(g) * s).sum(),
                direction: signs,
                size: largest(self.initial(*parameter)).max(0.1),
                scale: slope,
            });
        }
        moves
    }
}

#[test]
fn gradients_are_central_differences() {
    let mut failures = Vec::new();
    for (name, what) in NETWORKS {
        for check in CHECKS {
            let network = Network::read(name, check.smooth);
            let mut worst = 0f64;
            for to in network.moves() {
                let of_step = check.steps.iter().map(|step| {
                    let (found, rounding) =
                        network.slope(to.parameter, &to.direction, step * to.size);
                    (found - to.slope).abs() / (check.tolerance * to.scale + rounding)
                });
                // NaN is not less than anything, so it fails.
                let least = of_step.fold(f64::INFINITY, |m, d| if d < m { d } else { m });
                worst = worst.max(least);
                if least > 1.0 {
                    let what = &to.what;
                    failures.push(format!("{name}: {what}: {least} of what is allowed"));
                }
            }
            let kinks = if check.smooth { "without kinks" } else { "as it is" };
            println!("{name} ({what}) {kinks}: at worst {worst:.3} of what is allowed");
        }
    }
    assert!(failures.is_empty(), "{} failure(s):\n{}", failures.len(), failures.join("\n"));
}
