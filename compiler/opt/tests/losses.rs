//! Losses that are asked for, and their gradients, against PyTorch's functions of that name.

use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{Sigmoid, Tanh};
use trainc_ir::{RunContext, Tensor};
use trainc_opt::losses::{Loss, add_loss};
use trainc_opt::training::{LossSource, TrainingError, training_graph};

/// The loss of a parameter that is the model's output, and what a step of size 1 takes from it.
fn loss_and_gradient(graph: Graph, loss: Loss, targets: &[Tensor]) -> (f32, Vec<f32>) {
    let mut graph = graph;
    let loss = add_loss(&mut graph, loss).unwrap();
    let training = training_graph(&graph, Some(LossSource::Model(loss))).unwrap();
    let place = training.outputs().iter().position(|o| o.value == loss).unwrap();
    let before = training.parameters()[0].initial.as_f32().to_vec();
    let mut targets = targets.iter().cloned();
    let inputs: Vec<Tensor> = training
        .inputs()
        .iter()
        .map(|input| match input.role {
            InputRole::LearningRate | InputRole::Scheduled => Tensor::f32([], vec![1.0]),
            _ => targets.next().unwrap(),
        })
        .collect();
    let mut interpreter = Interpreter::new(&training);
    let outputs = interpreter.step(&inputs, &RunContext::default()).unwrap();
    let after = interpreter.parameters()[0].as_f32();
    (outputs[place].as_f32()[0], before.iter().zip(after).map(|(b, a)| b - a).collect())
}

fn check((loss, gradient): (f32, Vec<f32>), expected: f32, gradients: &[f32]) {
    assert!((loss - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{loss}, not {expected}");
    assert_eq!(gradient.len(), gradients.len());
    for (i, (found, expected)) in gradient.iter().zip(gradients).enumerate() {
        // The step is taken from values of up to 40, which rounds it.
        assert!((found - expected).abs() <= 5e-6, "[{i}] {found}, not {expected}");
    }
}

fn model(values: &Tensor) -> Graph {
    let mut graph = Graph::new("model");
    let w = graph.add_parameter("w", values.clone(), true);
    graph.add_output("y", w);
    graph
}

fn scores() -> Tensor {
    Tensor::f32([2, 3], vec![0.0, -1.5, 2.0, 30.0, -0.25, -40.0])
}

fn targets() -> Tensor {
    Tensor::f32([2, 3], vec![1.0, 0.0, 0.25, 0.0, 1.0, 1.0])
}

#[test]
fn mean_squared_error() {
    let found = loss_and_gradient(model(&scores()), Loss::MeanSquaredError, &[targets()]);
    check(found, MSE, &MSE_GRADIENT);
}

#[test]
fn binary_cross_entropy_of_logits() {
    let found = loss_and_gradient(model(&scores()), Loss::BinaryCrossEntropy, &[targets()]);
    check(found, BCE, &BCE_GRADIENT);
}

/// A final sigmoid is part of the loss.
#[test]
fn binary_cross_entropy_of_probabilities() {
    let mut graph = Graph::new("model");
    let w = graph.add_parameter("w", scores(), true);
    let y = graph.add1(Sigmoid {}, &[w], "y").unwrap();
    graph.add_output("y", y);
    check(loss_and_gradient(graph, Loss::BinaryCrossEntropy, &[targets()]), BCE, &BCE_GRADIENT);
}

#[test]
fn cross_entropy_at_each_position() {
    let scores = vec![
        0.5, -1.0, 2.0, 0.0, 1.0, 1.0, -3.0, 0.25, 0.0, 2.0, 0.5, -0.5, 1.0, -2.0, 0.0, 0.0, 0.0,
        1.0, 2.0, 3.0, -1.0, 0.25, 0.75, 1.5,
    ];
    let labels = Tensor::i32([2, 4], vec![0, 2, 1, 1, 2, 2, 0, 1]);
    let model = model(&Tensor::f32([2, 3, 4], scores));
    check(loss_and_gradient(model, Loss::CrossEntropy, &[labels]), CE, &CE_GRADIENT);
}

/// Several results: an input each, the sum of their losses.
#[test]
fn several_outputs() {
    let mut graph = model(&Tensor::f32([2], vec![0.5, -1.0]));
    let w = graph.parameters()[0].value;
    let y = graph.add1(Tanh {}, &[w], "bent").unwrap();
    graph.add_output("bent", y);
    let mut named = graph.clone();
    add_loss(&mut named, Loss::MeanSquaredError).unwrap();
    let names: Vec<&str> = named.inputs().iter().map(|i| &*named.value(i.value).name).collect();
    assert_eq!(names, ["y.targets", "bent.targets"]);
    let targets = [Tensor::f32([2], vec![0.0, 0.0]), Tensor::f32([2], vec![0.0, 1.0])];
    let (loss, gradient) = loss_and_gradient(graph, Loss::MeanSquaredError, &targets);
    let bent: [f64; 2] = [0.5f64.tanh(), (-1.0f64).tanh()];
    let expected = (0.25 + 1.0) / 2.0 + (bent[0].powi(2) + (bent[1] - 1.0).powi(2)) / 2.0;
    assert!((f64::from(loss) - expected).abs() < 1e-6);
    let first = 0.5 + bent[0] * (1.0 - bent[0].powi(2));
    assert!((f64::from(gradient[0]) - first).abs() < 1e-6);
}

#[test]
fn scores_of_no_class_are_refused() {
    let mut graph = model(&Tensor::f32([3], vec![0.0; 3]));
    let error = add_loss(&mut graph, Loss::CrossEntropy).unwrap_err();
    assert!(matches!(error, TrainingError::NoLogits(_)), "{error}");
}

// torch.nn.functional.mse_loss, binary_cross_entropy_with_logits and cross_entropy of PyTorch 2.15 on these values, and
// the gradients that autograd gives.
const MSE: f32 = 431.479_16;
const MSE_GRADIENT: [f32; 6] = [-0.333_333_34, -0.5, 0.583_333_4, 10.0, -0.416_666_7, -13.666_667];
const BCE: f32 = 12.224_571;
const BCE_GRADIENT: [f32; 6] =
    [-0.083_333_34, 0.030_404_25, 0.105_132_84, 0.166_666_67, -0.093_696_08, -0.166_666_67];
const CE: f32 = 1.714_829_2;
const CE_GRADIENT: [f32; 24] = [
    -0.086_600_51,
    0.004_389_88,
    0.101_636_91,
    0.043_244_28,
    0.063_310_05,
    0.032_437_06,
    -0.124_315_17,
    -0.069_473_25,
    0.023_290_46,
    -0.036_826_94,
    0.022_678_26,
    0.026_228_98,
    0.083_155_12,
    0.004_088_54,
    -0.113_102_1,
    0.004_889_07,
    0.030_591_06,
    0.082_120_49,
    0.087_914_24,
    -0.026_800_37,
    -0.113_746_18,
    -0.086_209_03,
    0.025_187_85,
    0.021_911_3,
];
