//! What an artifact is run on: seeded random steps one after another, then single steps on extreme data.

use trainc_ir::graph::InputRole;
use trainc_ir::program::{Entry, Program};
use trainc_ir::{Data, Element, RunContext, ScaleData, Tensor, TensorType};

use super::artifact::Rates;

/// One training step (or inference) with its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    /// For people, unique in a run: `step 0`, `zeros`.
    pub(crate) name: String,
    /// The step's number, for random numbers.
    pub(crate) step: u32,
    pub(crate) kind: Kind,
}

/// What the data of a case are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Uniform around zero, with a magnitude that changes by the step. Goes on from the state before.
    Random,
    /// The others start from the initial state. All zeros.
    Zeros,
    /// The highest finite value everywhere.
    Highest,
    /// The lowest finite value everywhere.
    Lowest,
    /// Floats of any exponent, large ones of both signs among them.
    AnyExponent,
    /// Floats around the smallest normal one.
    Tiny,
}

const EXTREMES: [(&str, Kind); 5] = [
    ("zeros", Kind::Zeros),
    ("highest", Kind::Highest),
    ("lowest", Kind::Lowest),
    ("any-exponent", Kind::AnyExponent),
    ("tiny", Kind::Tiny),
];

/// The cases of a run.
pub(crate) fn cases(steps: u32, extremes: bool) -> Vec<Case> {
    let random =
        (0..steps).map(|step| Case { name: format!("step {step}"), step, kind: Kind::Random });
    let extremes = EXTREMES.iter().filter(|_| extremes).map(|&(name, kind)| Case {
        name: name.to_string(),
        step: 0,
        kind,
    });
    random.chain(extremes).collect()
}

/// The operands of an entry for a case. Data of one name are the same in every entry.
pub(crate) fn operands(
    program: &Program,
    entry: &Entry,
    case: &Case,
    seed: u64,
    (classes, rows, rates): (usize, Option<usize>, &Rates),
) -> Vec<Tensor> {
    entry
        .inputs
        .iter()
        .map(|argument| {
            let ty = &program.buffer(argument.buffer).ty;
            let run = RunContext { seed, step: case.step };
            match argument.role {
                InputRole::LearningRate | InputRole::Scheduled => {
                    let values = match argument.role {
                        InputRole::LearningRate => Some(&rates.learning_rates),
                        _ => rates.scheduled.get(&argument.name),
                    };
                    let value = values.and_then(|values| {
                        values.get(case.step as usize % values.len().max(1)).copied()
                    });
                    scalar(ty, value.unwrap_or(1.0))
                }
                InputRole::Labels => {
                    let classes = classes.min(i32::MAX as usize) as u64;
                    from(ty, |i| match case.kind {
                        Kind::Zeros | Kind::Lowest => 0,
                        Kind::Highest => classes as i64 - 1,
                        _ => ((u64::from(draw(&run, 0, i)) * classes) >> 32) as i64,
                    })
                }
                InputRole::Data => match (ty.element, rows) {
                    (Element::I32, Some(rows)) => indices(ty, case, &run, rows),
                    _ => data(ty, case, &run),
                },
            }
        })
        .collect()
}

/// Indices of rows, from either end and just outside; at the extremes any number.
fn indices(ty: &TensorType, case: &Case, run: &RunContext, rows: usize) -> Tensor {
    if matches!(case.kind, Kind::Highest | Kind::Lowest) {
        return data(ty, case, run);
    }
    let reach = rows.min(i32::MAX as usize / 2) as u64 + 1;
    from(ty, |i| match case.kind {
        Kind::Zeros => 0,
        _ => ((u64::from(draw(run, 1, i)) * 2 * reach) >> 32) as i64 - reach as i64,
    })
}

/// 32 random bits; streams of programs have other numbers.
fn draw(run: &RunContext, stream: u32, i: usize) -> u32 {
    run.draw(0x7665_7200 + stream, i as u32)
}

fn scalar(ty: &TensorType, value: f64) -> Tensor {
    match ty.element {
        Element::F32 => floats(ty, |_| value as f32),
        _ => from(ty, |_| value as i64),
    }
}

fn data(ty: &TensorType, case: &Case, run: &RunContext) -> Tensor {
    let Some((low, high)) = ty.element.integer_range() else {
        let magnitude = 2f32.powi(case.step as i32 % 5 - 2);
        return floats(ty, |i| {
            let bits = draw(run, 1, i);
            match case.kind {
                // A multiple of 2^-23 in [-1, 1).
                Kind::Random => ((bits >> 8) as f32 / (1 << 23) as f32 - 1.0) * magnitude,
                Kind::Zeros => 0.0,
                Kind::Highest => f32::MAX,
                Kind::Lowest => f32::MIN,
                // Exponent 255 is that of infinities.
                Kind::AnyExponent => match f32::from_bits(bits) {
                    x if x.is_finite() => x,
                    _ => f32::from_bits(bits & 0x807f_ffff | 0x7f00_0000),
                },
                // Exponents 0 (subnormal) to 3.
                Kind::Tiny => f32::from_bits(bits & 0x81ff_ffff),
            }
        });
    };
    let span = (high - low + 1) as u64;
    from(ty, |i| match case.kind {
        Kind::Zeros => 0,
        Kind::Highest => high,
        Kind::Lowest => low,
        Kind::Random | Kind::AnyExponent | Kind::Tiny => {
            low + ((u64::from(draw(run, 1, i)) * span) >> 32) as i64
        }
    })
}

/// Integer elements; a run-time scale is 1.
fn from(ty: &TensorType, value: impl Fn(usize) -> i64) -> Tensor {
    let values: Vec<i64> = (0..ty.count()).map(value).collect();
    if ty.element.integer_range().is_none() {
        return floats(ty, |i| values[i] as f32);
    }
    Tensor::from_i64(ty, &values, *Tensor::zeros(ty).scale())
}

fn floats(ty: &TensorType, value: impl Fn(usize) -> f32) -> Tensor {
    let zeros = Tensor::zeros(ty);
    let data = match zeros.data() {
        Data::F32(_) => Data::F32((0..ty.count()).map(value).collect()),
        // Narrow floats as their bits: any but those of infinities and NaNs.
        _ => Data::U8((0..ty.count()).map(|i| (value(i).to_bits() >> 24) as u8 & 0xbb).collect()),
    };
    let scale: ScaleData = *zeros.scale();
    Tensor::new(ty.clone(), data, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, ty: &TensorType) -> Tensor {
        let case = Case { name: String::new(), step: 3, kind };
        data(ty, &case, &RunContext { seed: 9, step: 3 })
    }

    #[test]
    fn data_are_what_their_kind_says() {
        let ty = TensorType::new([1000], Element::F32);
        let values = |kind| of(kind, &ty).as_f32().to_vec();
        // Step 3 has magnitude 2.
        let random = values(Kind::Random);
        assert!(random.iter().all(|x| (-2.0..2.0).contains(x)));
        assert!(random.iter().any(|x| *x > 1.5) && random.iter().any(|x| *x < -1.5));
        assert_eq!(random, values(Kind::Random));
        let any = values(Kind::AnyExponent);
        assert!(any.iter().all(|x| x.is_finite()));
        assert!(any.iter().any(|x| x.abs() > 1e30) && any.iter().any(|x| x.abs() < 1e-30));
        let tiny = values(Kind::Tiny);
        assert!(tiny.iter().any(|x| x.is_subnormal()) && tiny.iter().any(|x| x.is_normal()));
        assert!(tiny.iter().all(|x| x.abs() < 1e-37));
        let bytes = TensorType::new([300], Element::I8);
        assert!(of(Kind::Lowest, &bytes).as_i8().iter().all(|x| *x == -128));
        assert!(of(Kind::Random, &bytes).as_i8().iter().any(|x| *x > 100));
    }

    #[test]
    fn indices_name_rows_and_some_none() {
        let ty = TensorType::new([500], Element::I32);
        let case = Case { name: String::new(), step: 0, kind: Kind::Random };
        let found = indices(&ty, &case, &RunContext { seed: 9, step: 0 }, 3);
        let found: std::collections::BTreeSet<i32> = found.as_i32().iter().copied().collect();
        assert_eq!(found, (-4..4).collect());
    }

    #[test]
    fn steps_then_extremes() {
        let names: Vec<String> = cases(2, true).into_iter().map(|c| c.name).collect();
        let expected = ["step 0", "step 1", "zeros", "highest", "lowest", "any-exponent", "tiny"];
        assert_eq!(names, expected);
        assert_eq!(cases(3, false).len(), 3);
    }
}
