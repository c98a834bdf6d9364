//! Whether a model brings trained weights, which decides the algorithm where the user names none.

use trainc_ir::Op;
use trainc_ir::graph::{Definition, Graph, ValueId};
use trainc_onnx_import::ImportOptions;

use crate::config::{Config, WeightSource};
use crate::model::ModelSource;

/// The algorithm for networks that were trained elsewhere.
pub const FINE_TUNING: &str = "niti-finetune";

/// Kurtosis of a uniform distribution, and how far a sample of a fresh weight may be from it.
const UNIFORM: (f64, f64) = (1.8, 0.25);
/// How far from 0 and 1 a few runs may leave running means, and variances below.
const NEAR: f32 = 0.5;
/// Weights of fewer elements say nothing about a distribution.
const FEWEST: usize = 64;

/// Sets the algorithm to [`FINE_TUNING`] if the model's weights are to be kept and look trained. What to tell the user,
/// then.
pub fn choose_algorithm(source: &ModelSource, config: &mut Config) -> Option<String> {
    if config.init == WeightSource::Random || config.precision.is_some() {
        return None;
    }
    let options = ImportOptions { batch: Some(1), ..config.training_import() };
    // An error is reported where the model is imported for good.
    let imported = source.import(&options).ok()?;
    let why = looks_trained(&imported.graph)?;
    config.algorithm = FINE_TUNING.to_string();
    Some(format!(
        "the model brings trained weights ({why}), so the algorithm is `{FINE_TUNING}`, which keeps their values; \
         `--algorithm niti` trains from random weights better"
    ))
}

/// Why a model's weights look trained; `None` if they look as frameworks initialise them: batch normalization that has
/// seen no data but an export's own, biases and gains all equal, or weights drawn from uniform distributions.
pub fn looks_trained(graph: &Graph) -> Option<&'static str> {
    let parameters = || {
        graph.parameters().iter().filter(|p| p.initial.ty().is_f32() && p.initial.ty().count() > 0)
    };
    let equal = |values: &[f32]| values.windows(2).all(|w| w[0] == w[1]);
    let vectors = || parameters().filter(|p| p.initial.shape().rank() == 1);
    let statistics: Vec<bool> =
        vectors().filter(|p| !p.trainable).map(|p| equal(p.initial.as_f32())).collect();
    if !statistics.is_empty() {
        let fresh = statistics.iter().all(|&fresh| fresh) || is_only_traced(graph);
        return (!fresh).then_some("its batch normalization has seen data");
    }
    if vectors().all(|p| equal(p.initial.as_f32())) && vectors().next().is_some() {
        return None;
    }
    let weights: Vec<f64> = parameters()
        .filter(|p| p.initial.shape().rank() > 1 && p.initial.ty().count() >= FEWEST)
        .map(|p| kurtosis(p.initial.as_f32()))
        .collect();
    let uniform = |k: &f64| (k - UNIFORM.0).abs() < UNIFORM.1;
    let trained = !weights.is_empty() && !weights.iter().all(uniform);
    trained.then_some("they are not distributed as fresh ones are")
}

/// Whether batch normalization is as an export in training form leaves that of a fresh model: the export runs the model, once or a
/// few times, which moves the statistics by a tenth each time, and nothing else. Scales and offsets are as they were made.
fn is_only_traced(graph: &Graph) -> bool {
    let values = |v: ValueId| match graph.value(v).definition {
        Definition::Parameter(i) => Some(graph.parameters()[i].initial.as_f32()),
        _ => None,
    };
    let all = |v: ValueId, expected: f32| {
        values(v).is_none_or(|values| values.iter().all(|&x| x == expected))
    };
    let nodes = || graph.node_ids().map(|id| graph.node(id));
    let untouched = nodes().filter(|node| matches!(node.op, Op::BatchNorm(_))).all(|node| {
        let [_, scale, offset, ..] = node.inputs[..] else { return false };
        all(scale, 1.0) && all(offset, 0.0)
    });
    let statistics = graph.parameters().iter().filter(|p| !p.trainable && p.initial.ty().is_f32());
    let near_first = |values: &[f32]| {
        values.iter().all(|x| x.abs() <= NEAR) || values.iter().all(|&x| x >= 1.0 - NEAR)
    };
    untouched && statistics.map(|p| p.initial.as_f32()).all(near_first)
}

/// Fourth moment over the square of the second, about the mean; 0 for a constant.
fn kurtosis(values: &[f32]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let moment =
        |power: i32| values.iter().map(|&x| (f64::from(x) - mean).powi(power)).sum::<f64>() / n;
    let square = moment(2).powi(2);
    if square == 0.0 { 0.0 } else { moment(4) / square }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::attributes::F32;
    use trainc_ir::graph::InputRole;
    use trainc_ir::ops::BatchNorm;
    use trainc_ir::{RunContext, Tensor, TensorType};

    fn graph(draw: impl Fn(f64) -> f64, bias: f32) -> Graph {
        let run = RunContext { seed: 3, step: 0 };
        let unit = |i: u32| f64::from(run.draw(1, i)) / 2f64.powi(32) - 0.5;
        let mut graph = Graph::new("g");
        let data = (0..1024).map(|i| draw(unit(i)) as f32).collect();
        graph.add_parameter("w", Tensor::f32([32, 32], data), true);
        graph.add_parameter("b", Tensor::f32([2], vec![0.5, 0.5 + bias]), true);
        graph
    }

    #[test]
    fn fresh_and_trained() {
        // Uniform weights; a bias that is the same everywhere; neither.
        assert_eq!(looks_trained(&graph(|u| u, 1.0)), None);
        assert_eq!(looks_trained(&graph(|u| u * u * u, 0.0)), None);
        assert!(looks_trained(&graph(|u| u * u * u, 1.0)).is_some());
        let mut normalized = graph(|u| u, 1.0);
        normalized.add_parameter("mean", Tensor::f32([2], vec![0.0, 0.0]), false);
        assert_eq!(looks_trained(&normalized), None);
        normalized.add_parameter("variance", Tensor::f32([2], vec![1.0, 0.3]), false);
        assert!(looks_trained(&normalized).is_some());
    }

    /// A batch normalization with that scale and these statistics.
    fn normalization(scale: f32, mean: f32, variance: f32) -> Graph {
        let mut graph = graph(|u| u * u * u, 1.0);
        let x = graph.add_input("x", TensorType::f32([3, 2, 4, 4]), InputRole::Data);
        let mut add = |name: &str, values: [f32; 2], trains: bool| {
            graph.add_parameter(name, Tensor::f32([2], values.to_vec()), trains)
        };
        let scale = add("scale", [1.0, scale], true);
        let offset = add("offset", [0.0, 0.0], true);
        let mean = add("mean", [0.0, mean], false);
        let variance = add("variance", [0.9, variance], false);
        let op = BatchNorm { epsilon: F32::new(1e-5), batch: false };
        graph.add1(op, &[x, scale, offset, mean, variance], "norm").expect("it types");
        graph
    }

    /// An export in training form runs the model: it moves statistics, but neither scales nor offsets.
    #[test]
    fn statistics_of_an_export_alone() {
        assert_eq!(looks_trained(&normalization(1.0, 0.04, 1.7)), None);
        for trained in [
            normalization(1.01, 0.04, 1.7),
            normalization(1.0, 0.9, 1.7),
            normalization(1.0, 0.04, 0.2),
        ] {
            assert!(looks_trained(&trained).is_some());
        }
    }
}
