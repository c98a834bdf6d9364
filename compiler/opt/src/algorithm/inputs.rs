//! Inputs of a training step that a schedule gives: the step size, and others that an algorithm declares.

use std::collections::BTreeMap;

use trainc_ir::schedule::{self, Per, Point, Scheduled, Shape};
use trainc_ir::text::nearest::did_you_mean;
use trainc_ir::{Element, names};

use super::file::{InputText, schedule_per};
use super::stages::STAGE;

/// Names that an artifact has for functions of its own.
const TAKEN: [&str; 10] = [
    "init",
    "save",
    "load",
    "evaluate",
    "learning_rate",
    "schedule",
    "train_step",
    "infer",
    "epoch_end",
    STAGE,
];

/// An input that a schedule gives.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduledInput {
    /// Its element type, f32 or i32.
    pub element: Element,
    /// What its schedule counts.
    pub per: Per,
    /// Its schedule.
    pub points: Vec<Point>,
    /// The least and the largest value.
    pub range: (f64, f64),
    /// What it is.
    pub about: String,
}

/// The element type of a number that a schedule gives.
pub(super) fn element(name: &str) -> Result<Element, String> {
    Element::from_name(name)
        .filter(|e| matches!(e, Element::F32 | Element::I32))
        .ok_or_else(|| format!("unknown element type `{name}`, expected `f32` or `i32`"))
}

/// A range as files have it.
pub(super) fn range(range: Option<[f64; 2]>, none: [f64; 2]) -> Result<(f64, f64), String> {
    let [least, largest] = range.unwrap_or(none);
    match least > largest || least.is_nan() || largest.is_nan() {
        true => Err("expected [LEAST, LARGEST]".into()),
        false => Ok((least, largest)),
    }
}

/// Reads what a file declares; errors are the key and what is wrong with it.
pub(super) fn read(
    declared: &BTreeMap<String, InputText>,
) -> Result<BTreeMap<String, ScheduledInput>, (String, String)> {
    let mut inputs = BTreeMap::new();
    for (name, text) in declared {
        let at = |key: &str| format!("optimizer.inputs.{name}{key}");
        if names::identifier(name) != *name || names::snake(name) != *name {
            let message = format!(
                "`{name}` is no name that emitted code can have: small letters, digits and `_`, no word of C or Rust"
            );
            return Err((at(""), message));
        }
        if TAKEN.contains(&name.as_str()) {
            return Err((at(""), format!("`{name}` has a meaning already")));
        }
        let input = ScheduledInput {
            element: element(&text.element).map_err(|e| (at(".element"), e))?,
            per: text.per.into(),
            points: schedule_per(&text.schedule, text.per.into())
                .map_err(|e| (at(".schedule"), e))?,
            range: range(text.range, [f64::NEG_INFINITY, f64::INFINITY])
                .map_err(|e| (at(".range"), e))?,
            about: text.about.clone(),
        };
        input.check(&input.points).map_err(|e| (at(".schedule"), e))?;
        inputs.insert(name.clone(), input);
    }
    Ok(inputs)
}

impl ScheduledInput {
    /// Whether it may have that schedule.
    ///
    /// # Errors
    /// What it must be.
    pub fn check(&self, points: &[Point]) -> Result<(), String> {
        schedule::check_per(points, self.per)?;
        fits(points, self.element, self.range)
    }

    /// Its value for a step of so many in all, which is in an epoch of so many (all counts from 0).
    pub fn value(&self, (step, steps): (u64, u64), (epoch, epochs): (u64, u64)) -> f64 {
        match self.per {
            Per::Step => schedule::value(&self.points, step, steps),
            Per::Epoch => schedule::value(&self.points, epoch, epochs),
        }
    }
}

/// Whether a schedule's values are an element's and in a range.
///
/// # Errors
/// What they must be.
pub fn fits(
    points: &[Point],
    element: Element,
    (least, largest): (f64, f64),
) -> Result<(), String> {
    let whole = element == Element::I32;
    for Point { value, shape, .. } in points {
        if !(least..=largest).contains(value) || whole && value.fract() != 0.0 {
            let kind = if whole { "a whole number" } else { "a number" };
            let range = match (least.is_finite(), largest.is_finite()) {
                (false, false) => String::new(),
                _ => format!(" from {least} to {largest}"),
            };
            return Err(format!("it is {kind}{range}, not {value}"));
        }
        if whole && *shape != Shape::Constant {
            let shape = shape.name();
            return Err(format!("it is a whole number: it jumps, and has no shape `{shape}`"));
        }
    }
    Ok(())
}

/// Puts schedules that a user gives in place of an algorithm's.
///
/// # Errors
/// If there is no such input, or it may not have that schedule.
pub fn set<'a>(
    inputs: &mut BTreeMap<String, ScheduledInput>,
    given: impl Iterator<Item = (&'a String, &'a Vec<Point>)>,
) -> Result<(), String> {
    for (name, points) in given {
        let known: Vec<String> = inputs.keys().map(|name| format!("`{name}`")).collect();
        let near = did_you_mean(name, inputs.keys().map(String::as_str));
        let Some(input) = inputs.get_mut(name) else {
            return Err(match &known[..] {
                [] => format!("there is no input `{name}`; it has none beside the step size"),
                _ => format!("there is no input `{name}`{near}; there are {}", known.join(", ")),
            });
        };
        input.check(points).map_err(|e| format!("input `{name}`: {e}"))?;
        input.points.clone_from(points);
    }
    Ok(())
}

/// What artifacts are told of inputs.
pub fn notes(inputs: &BTreeMap<String, ScheduledInput>) -> Vec<Scheduled> {
    let note = |(name, input): (&String, &ScheduledInput)| Scheduled {
        name: name.clone(),
        per: input.per,
        points: input.points.clone(),
    };
    inputs.iter().map(note).collect()
}
