//! Whether a model brings trained weights, which decides the algorithm where the user names none.

use trainc_ir::graph::Graph;
use trainc_onnx_import::ImportOptions;

use crate::config::{Config, WeightSource};
use crate::model::ModelSource;

/// The algorithm for networks that were trained elsewhere.
pub const FINE_TUNING: &str = "niti-finetune";

/// Kurtosis of a uniform distribution, and how far a sample of a fresh weight may be from it.
const UNIFORM: (f64, f64) = (1.8, 0.25);
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
/// seen no data, biases and gains all equal, or weights drawn from uniform distributions.
pub fn looks_trained(graph: &Graph) -> Option<&'static str> {
    let parameters = || {
        graph.parameters().iter().filter(|p| p.initial.ty().is_f32() && p.initial.ty().count() > 0)
    };
    let equal = |values: &[f32]| values.windows(2).all(|w| w[0] == w[1]);
    let vectors = || parameters().filter(|p| p.initial.shape().rank() == 1);
    let statistics: Vec<bool> =
        vectors().filter(|p| !p.trainable).map(|p| equal(p.initial.as_f32())).collect();
    if !statistics.is_empty() {
        let fresh = statistics.iter().all(|&fresh| fresh);
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
    use trainc_ir::{RunContext, Tensor};

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
        normalized.add_parameter("variance", Tensor::f32([2], vec![1.0, 2.0]), false);
        assert!(looks_trained(&normalized).is_some());
    }
}
