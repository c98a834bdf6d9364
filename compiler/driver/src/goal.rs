//! What a model is trained for, seen from the data: what a training step gets of a batch beside the images, and how well
//! inference meets it.

use trainc_data::{Split, TargetValues, Targets};
use trainc_ir::{Element, Op, Shape, TensorType};

use crate::error::{Context, Result, bail, ensure};
use crate::model::scores_output;
use crate::options::LossFunction;
use crate::session::{INFER, Session};

/// How one result of inference is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Measure {
    /// The share of samples (of their positions) whose class has the highest score: scores [batch, classes, ...].
    Accuracy,
    /// The mean cross-entropy of those; of what a final softmax gives, or its logarithms.
    CrossEntropy(Scores),
    /// The mean of squared differences.
    SquaredError,
    /// The mean binary cross-entropy, of logits or of probabilities.
    BinaryCrossEntropy { probabilities: bool },
}

/// What scores are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scores {
    Logits,
    Probabilities,
    Logarithms,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    parts: Vec<Part>,
}

/// What one result is trained for.
#[derive(Clone, Debug)]
struct Part {
    measure: Measure,
    /// Position among the outputs of inference.
    output: usize,
    /// Its name.
    name: String,
    /// Dimensions of one example's output.
    shape: Vec<usize>,
    /// The factor of its loss.
    factor: f64,
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
        let (asked, own) = (session.config.loss, &session.config.output_loss);
        let mut found = Vec::new();
        if asked == LossFunction::Model && own.is_empty() {
            let scores = scores_output(graph);
            let scores = scores.context("the model has no output of shape [batch, classes]")?;
            found.push((scores, asked, 1.0));
        } else {
            for (i, output) in graph.outputs().iter().enumerate() {
                let all = (asked != LossFunction::Model).then_some((asked, 1.0));
                let own = own.get(&output.name).map(|own| (own.loss, own.factor));
                if let (true, Some((loss, factor))) = (graph.ty(output.value).is_f32(), own.or(all))
                {
                    found.push((i, loss, factor));
                }
            }
        }
        ensure!(!found.is_empty(), "the model has no FP32 output");
        let alone = found.len() == 1;
        let part = |(output, loss, factor): (usize, LossFunction, f64)| {
            let result = &graph.outputs()[output];
            let producer = graph.producer(result.value).map(|node| &node.op);
            let measure = match loss {
                LossFunction::Model => Measure::Accuracy,
                LossFunction::CrossEntropy if alone && factor == 1.0 => Measure::Accuracy,
                LossFunction::CrossEntropy => Measure::CrossEntropy(match producer {
                    Some(Op::Softmax(_)) => Scores::Probabilities,
                    Some(Op::LogSoftmax(_)) => Scores::Logarithms,
                    _ => Scores::Logits,
                }),
                LossFunction::MeanSquaredError => Measure::SquaredError,
                LossFunction::BinaryCrossEntropy => Measure::BinaryCrossEntropy {
                    probabilities: matches!(producer, Some(Op::Sigmoid(_))),
                },
            };
            let shape = graph.ty(result.value).shape.get(1..).unwrap_or_default().to_vec();
            Part { measure, output, name: result.name.clone(), shape, factor }
        };
        Ok(Goal { parts: found.into_iter().map(part).collect() })
    }

    /// Positions among the outputs of inference.
    pub(crate) fn outputs(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.output).collect()
    }

    /// Whether inference is judged by how many are right.
    pub(crate) fn is_accuracy(&self) -> bool {
        matches!(&self.parts[..], [Part { measure: Measure::Accuracy, .. }])
    }

    /// The number of classes, if there are.
    pub(crate) fn classes(&self) -> Option<usize> {
        match &self.parts[..] {
            [part] if self.is_accuracy() => part.shape.first().copied(),
            _ => None,
        }
    }

    /// Adds the output at a position of [`Goal::outputs`] of the examples at `indices`.
    pub(crate) fn add(
        &self,
        sum: &mut Sum,
        (part, outputs): (usize, &[f32]),
        split: &Split,
        indices: &[usize],
    ) {
        self.parts[part].add(sum, outputs, split, indices);
    }

    /// The share that is right, or the loss, of what was added for each output.
    pub(crate) fn judged(&self, sums: &[Sum]) -> f64 {
        self.parts.iter().zip(sums).map(|(part, sum)| part.factor * sum.mean()).sum()
    }
}

impl Part {
    fn add(&self, sum: &mut Sum, outputs: &[f32], split: &Split, indices: &[usize]) {
        let size = self.shape.iter().product::<usize>().max(1);
        let targets = targets(split, &self.name);
        for (row, &index) in outputs.chunks_exact(size).zip(indices) {
            match self.measure {
                Measure::Accuracy | Measure::CrossEntropy(_) => {
                    let classes = self.shape.first().copied().unwrap_or(1).max(1);
                    let places = size / classes;
                    for place in 0..places {
                        let label = label(split, targets, index, place, places);
                        let Ok(label) = usize::try_from(label) else { continue };
                        let scores = row[place..].iter().step_by(places);
                        sum.total += match self.measure {
                            Measure::CrossEntropy(of) => surprise(of, scores, label),
                            _ => f64::from(u8::from(highest(scores) == label)),
                        };
                        sum.count += 1;
                    }
                }
                _ => {
                    for (i, &y) in row.iter().enumerate() {
                        let target = target(split, targets, index, i, size);
                        sum.total += self.loss(f64::from(y), target);
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

/// The cross-entropy of a class.
fn surprise<'s>(of: Scores, scores: impl Iterator<Item = &'s f32> + Clone, label: usize) -> f64 {
    let Some(own) = scores.clone().nth(label).copied().map(f64::from) else { return f64::NAN };
    match of {
        Scores::Logarithms => -own,
        // A probability of FP32 that is 0 was rounded to it.
        Scores::Probabilities => -own.max(1e-38).ln(),
        Scores::Logits => {
            let most = scores.clone().fold(f64::NEG_INFINITY, |most, &x| most.max(x.into()));
            scores.map(|&x| (f64::from(x) - most).exp()).sum::<f64>().ln() + most - own
        }
    }
}

/// What the samples shall be in a result, or in the input of a training step that it has.
fn targets<'s>(split: &'s Split, name: &str) -> Option<&'s Targets> {
    let result = name.strip_suffix(".targets").or(name.strip_suffix(".labels")).unwrap_or(name);
    let named = split.named.iter().find(|(known, _)| known == result);
    // One result alone needs no name.
    let only = split.named.first().filter(|_| split.named.len() == 1);
    named.or(only).map(|(_, targets)| targets).or(split.targets.as_ref())
}

/// Class of a place; negative where none counts.
fn label(
    split: &Split,
    targets: Option<&Targets>,
    index: usize,
    place: usize,
    places: usize,
) -> i64 {
    match targets.map(|targets| &targets.values) {
        Some(TargetValues::I32(values)) => values[index * places + place].into(),
        Some(TargetValues::F32(_)) => -1,
        None => split.labels[index].into(),
    }
}

fn target(split: &Split, targets: Option<&Targets>, index: usize, i: usize, size: usize) -> f64 {
    match targets.map(|targets| &targets.values) {
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

/// What a training step gets as labels or targets of the examples at `indices`, in the input of that name and element.
pub(crate) fn wanted(
    split: &Split,
    indices: &[usize],
    (name, element): (&str, Element),
) -> Vec<[u8; 4]> {
    let targets = targets(split, name);
    let size = targets.map_or(1, |t| t.shape.iter().product());
    let places = indices.iter().flat_map(|&index| index * size..(index + 1) * size);
    let word = |value: f64| match element {
        Element::F32 => (value as f32).to_le_bytes(),
        _ => (value as i32).to_le_bytes(),
    };
    match targets.map(|targets| &targets.values) {
        None => places.map(|i| word(split.labels[i].into())).collect(),
        Some(TargetValues::F32(values)) => places.map(|i| word(values[i].into())).collect(),
        Some(TargetValues::I32(values)) => places.map(|i| word(values[i].into())).collect(),
    }
}

/// That a split's labels or targets are what an input of a training step takes.
///
/// # Errors
/// If their type or shape differs.
pub(crate) fn check(
    split: &Split,
    (argument, input): (&str, &TensorType),
    name: &str,
) -> Result<()> {
    let one = Shape::from(input.shape.get(1..).unwrap_or_default());
    let size: usize = one.iter().product();
    let (shape, floats) = match targets(split, argument) {
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
    use trainc_data::Images;

    use super::*;

    fn split(shape: &[usize], values: TargetValues) -> Split {
        let targets = Some(Targets { shape: shape.to_vec(), values });
        let (images, labels) = (Images::U8(vec![0; 2]), vec![0; 2]);
        Split { shape: [1, 1, 1], images, labels, targets, named: Vec::new() }
    }

    fn mean(measure: Measure, shape: &[usize], outputs: &[f32], split: &Split) -> f64 {
        let (name, shape) = ("y".to_string(), shape.to_vec());
        let part = Part { measure, output: 0, name, shape, factor: 1.0 };
        let mut sum = Sum::default();
        part.add(&mut sum, outputs, split, &[0, 1]);
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
        assert!(check(&values, ("y", &TensorType::f32([8, 2])), "d").is_ok());
        let error = check(&values, ("y", &TensorType::f32([8, 3])), "d").unwrap_err().to_string();
        assert!(error.contains("[2, 1]") && error.contains("[3]"), "{error}");
        let error = check(&values, ("y", &TensorType::new([8], Element::I32)), "d").unwrap_err();
        assert!(error.to_string().contains("--loss mse"), "{error}");
        assert_eq!(wanted(&values, &[1], ("y", Element::F32)), [[0; 4], [0; 4]]);
    }
}
