//! What a model is trained for, seen from the data: what a training step gets of a batch beside the images, and how well
//! inference meets it.

use trainc_data::{Split, TargetValues};
use trainc_ir::{Element, Op, Shape, TensorType};

use crate::error::{Context, Result, bail, ensure};
use crate::model::scores_output;
use crate::options::LossFunction;
use crate::session::{INFER, Session};

/// How inference is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Measure {
    /// The share of samples (of their positions) whose class has the highest score: scores [batch, classes, ...].
    Accuracy,
    /// The mean of squared differences.
    SquaredError,
    /// The mean binary cross-entropy, of logits or of probabilities.
    BinaryCrossEntropy { probabilities: bool },
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    measure: Measure,
    /// Position among the outputs of inference.
    output: usize,
    /// Dimensions of one example's output.
    shape: Vec<usize>,
}

/// Sums over batches.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sum {
    total: f64,
    count: usize,
}

impl Goal {
    /// What a session's model is trained for.
    ///
    /// # Errors
    /// If inference has no such output.
    pub(crate) fn of(session: &Session) -> Result<Goal> {
        let graph = &session.entry(INFER)?.float;
        let measure = |output: usize| match session.config.loss {
            LossFunction::Model | LossFunction::CrossEntropy => Measure::Accuracy,
            LossFunction::MeanSquaredError => Measure::SquaredError,
            LossFunction::BinaryCrossEntropy => {
                let producer = graph.producer(graph.outputs()[output].value);
                let probabilities = producer.is_some_and(|node| matches!(node.op, Op::Sigmoid(_)));
                Measure::BinaryCrossEntropy { probabilities }
            }
        };
        let output = match session.config.loss {
            LossFunction::Model => {
                scores_output(graph).context("the model has no output of shape [batch, classes]")?
            }
            _ => {
                let float = |o: &trainc_ir::graph::Output| graph.ty(o.value).is_f32();
                graph.outputs().iter().position(float).context("the model has no FP32 output")?
            }
        };
        let dims = &graph.ty(graph.outputs()[output].value).shape;
        let shape = dims.get(1..).unwrap_or_default().to_vec();
        Ok(Goal { measure: measure(output), output, shape })
    }

    /// Position among the outputs of inference.
    pub(crate) fn output(&self) -> usize {
        self.output
    }

    /// Whether inference is judged by how many are right.
    pub(crate) fn is_accuracy(&self) -> bool {
        self.measure == Measure::Accuracy
    }

    /// The number of classes, if there are.
    pub(crate) fn classes(&self) -> Option<usize> {
        self.shape.first().copied().filter(|_| self.is_accuracy())
    }

    /// Adds the outputs of the examples at `indices`.
    pub(crate) fn add(&self, sum: &mut Sum, outputs: &[f32], split: &Split, indices: &[usize]) {
        let size = self.shape.iter().product::<usize>().max(1);
        for (row, &index) in outputs.chunks_exact(size).zip(indices) {
            match self.measure {
                Measure::Accuracy => {
                    let classes = self.shape.first().copied().unwrap_or(1).max(1);
                    let places = size / classes;
                    for place in 0..places {
                        let Ok(label) = usize::try_from(label(split, index, place, places)) else {
                            continue;
                        };
                        let scores = row[place..].iter().step_by(places);
                        sum.total += f64::from(u8::from(highest(scores) == label));
                        sum.count += 1;
                    }
                }
                _ => {
                    for (i, &y) in row.iter().enumerate() {
                        sum.total += self.loss(f64::from(y), target(split, index, i, size));
                        sum.count += 1;
                    }
                }
            }
        }
    }

    fn loss(&self, y: f64, target: f64) -> f64 {
        match self.measure {
            Measure::BinaryCrossEntropy { probabilities: false } => {
                y.max(0.0) - y * target + (-y.abs()).exp().ln_1p()
            }
            Measure::BinaryCrossEntropy { probabilities: true } => {
                // A probability of FP32 that is 0 or 1 was rounded to it.
                let p = y.clamp(1e-7, 1.0 - 1e-7);
                -(target * p.ln() + (1.0 - target) * (1.0 - p).ln())
            }
            _ => (y - target) * (y - target),
        }
    }
}

impl Sum {
    pub(crate) fn mean(self) -> f64 {
        self.total / self.count.max(1) as f64
    }
}

/// Class of a place; negative where none counts.
fn label(split: &Split, index: usize, place: usize, places: usize) -> i64 {
    match split.targets.as_ref().map(|targets| &targets.values) {
        Some(TargetValues::I32(values)) => values[index * places + place].into(),
        Some(TargetValues::F32(_)) => -1,
        None => split.labels[index].into(),
    }
}

fn target(split: &Split, index: usize, i: usize, size: usize) -> f64 {
    match split.targets.as_ref().map(|targets| &targets.values) {
        Some(TargetValues::F32(values)) => values[index * size + i].into(),
        Some(TargetValues::I32(values)) => values[index * size + i].into(),
        None => split.labels[index].into(),
    }
}

/// The position of the highest score; the first of equal ones, NaN never.
fn highest<'s>(scores: impl Iterator<Item = &'s f32>) -> usize {
    let mut best = (0, f32::NAN);
    for (i, &score) in scores.enumerate() {
        if score > best.1 || best.1.is_nan() && !score.is_nan() {
            best = (i, score);
        }
    }
    best.0
}

/// What a training step gets as labels or targets of the examples at `indices`, of an input of that element.
pub(crate) fn wanted(split: &Split, indices: &[usize], element: Element) -> Vec<[u8; 4]> {
    let size = split.targets.as_ref().map_or(1, |t| t.shape.iter().product());
    let places = indices.iter().flat_map(|&index| index * size..(index + 1) * size);
    let word = |value: f64| match element {
        Element::F32 => (value as f32).to_le_bytes(),
        _ => (value as i32).to_le_bytes(),
    };
    match split.targets.as_ref().map(|targets| &targets.values) {
        None => places.map(|i| word(split.labels[i].into())).collect(),
        Some(TargetValues::F32(values)) => places.map(|i| word(values[i].into())).collect(),
        Some(TargetValues::I32(values)) => places.map(|i| word(values[i].into())).collect(),
    }
}

/// That a split's labels or targets are what an input of a training step takes.
///
/// # Errors
/// If their type or shape differs.
pub(crate) fn check(split: &Split, input: &TensorType, name: &str) -> Result<()> {
    let one = Shape::from(input.shape.get(1..).unwrap_or_default());
    let size: usize = one.iter().product();
    let (shape, floats) = match &split.targets {
        None => (Vec::new(), false),
        Some(t) => (t.shape.clone(), matches!(t.values, TargetValues::F32(_))),
    };
    if floats && input.element != Element::F32 {
        bail!(
            "`{name}` has float targets, and the loss takes class labels (integers); train for values with `--loss mse`, \
             or for probabilities with `--loss bce`"
        );
    }
    let plain = |dims: &[usize]| dims.iter().copied().filter(|&d| d != 1).collect::<Vec<_>>();
    ensure!(
        plain(&shape) == plain(&one) && size == shape.iter().product::<usize>().max(1),
        "`{name}` has targets {shape:?} for each sample, the loss takes {:?}",
        one.to_vec()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use trainc_data::{Images, Targets};

    use super::*;

    fn split(shape: &[usize], values: TargetValues) -> Split {
        let targets = Some(Targets { shape: shape.to_vec(), values });
        Split { shape: [1, 1, 1], images: Images::U8(vec![0; 2]), labels: vec![0; 2], targets }
    }

    fn mean(measure: Measure, shape: &[usize], outputs: &[f32], split: &Split) -> f64 {
        let goal = Goal { measure, output: 0, shape: shape.to_vec() };
        let mut sum = Sum::default();
        goal.add(&mut sum, outputs, split, &[0, 1]);
        sum.mean()
    }

    #[test]
    fn highest_score() {
        assert_eq!(highest([0.0, 3.0, 3.0, -1.0].iter()), 1);
        assert_eq!(highest([f32::NAN, -5.0, -6.0].iter()), 1);
    }

    #[test]
    fn losses_by_hand() {
        let values = split(&[2], TargetValues::F32(vec![1.0, 0.0, 0.5, 1.0]));
        let y = [3.0, 0.0, 0.5, 0.0];
        assert_eq!(mean(Measure::SquaredError, &[2], &y, &values), (4.0 + 0.0 + 0.0 + 1.0) / 4.0);
        // ln(1 + e^-3), ln 2, ln(1 + e^0.5) - 0.25, ln 2.
        let logits = Measure::BinaryCrossEntropy { probabilities: false };
        let two = 2f64.ln();
        let expected = [(-3f64).exp().ln_1p(), two, 0.5f64.exp().ln_1p() - 0.25, two];
        let expected = expected.iter().sum::<f64>() / 4.0;
        assert!((mean(logits, &[2], &y, &values) - expected).abs() < 1e-12);
        let squashed = y.map(|x: f32| 1.0 / (1.0 + (-x).exp()));
        let probabilities = Measure::BinaryCrossEntropy { probabilities: true };
        assert!((mean(probabilities, &[2], &squashed, &values) - expected).abs() < 1e-6);
    }

    /// Scores [2 classes, 3 positions] of two examples; a negative label counts for nothing.
    #[test]
    fn positions_are_judged_one_by_one() {
        let labels = split(&[3], TargetValues::I32(vec![0, 1, -1, 1, 1, 0]));
        let scores = [2.0, 2.0, 9.0, 1.0, 1.0, 0.0, 0.0, 0.0, 5.0, 1.0, 1.0, 1.0];
        assert_eq!(mean(Measure::Accuracy, &[2, 3], &scores, &labels), 4.0 / 5.0);
    }

    #[test]
    fn targets_must_fit() {
        let values = split(&[2, 1], TargetValues::F32(vec![0.0; 4]));
        assert!(check(&values, &TensorType::f32([8, 2]), "d").is_ok());
        let error = check(&values, &TensorType::f32([8, 3]), "d").unwrap_err().to_string();
        assert!(error.contains("[2, 1]") && error.contains("[3]"), "{error}");
        let error = check(&values, &TensorType::new([8], Element::I32), "d").unwrap_err();
        assert!(error.to_string().contains("--loss mse"), "{error}");
        assert_eq!(wanted(&values, &[1], Element::F32), [[0; 4], [0; 4]]);
    }
}
