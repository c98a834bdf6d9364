//! Schedules: the value of an input of a training step, by how far the training is.
//!
//! What is between two points is computed in FP32, one rounding an operation, so that a device has the same bits.

/// Where a point of a schedule is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Position {
    /// A fraction of the training, 0 to 1.
    Fraction(f64),
    /// So many steps after its start.
    Steps(u32),
    /// So many epochs after its start, in a schedule that counts epochs.
    Epochs(u32),
}

/// What a schedule counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Per {
    /// Training steps: a value for each.
    #[default]
    Step,
    /// Epochs: a value for all steps of one.
    Epoch,
}

impl Per {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Per::Step => "step",
            Per::Epoch => "epoch",
        }
    }
}

/// An input of a training step that a schedule gives, beside the step size.
#[derive(Clone, PartialEq, Debug)]
pub struct Scheduled {
    /// The input's name.
    pub name: String,
    /// What its schedule counts.
    pub per: Per,
    /// Its schedule ([`check_per`]).
    pub points: Vec<Point>,
}

/// How a value goes on from a point to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    /// It stays, and jumps at the next point.
    #[default]
    Constant,
    /// In a straight line.
    Linear,
    /// By half a period of a cosine: slowly at both ends.
    Cosine,
}

impl Shape {
    /// Every shape.
    pub const ALL: [Shape; 3] = [Shape::Constant, Shape::Linear, Shape::Cosine];

    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Constant => "constant",
            Shape::Linear => "linear",
            Shape::Cosine => "cosine",
        }
    }
}

/// A point of a schedule: from where on, which value, and how it goes on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Where it is.
    pub from: Position,
    /// The value there.
    pub value: f64,
    /// How it goes on to the next point.
    pub shape: Shape,
}

impl Position {
    /// Reads `0.5`, a fraction, `100s`, steps, or `5e`, epochs.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Position, String> {
        let expected = || {
            format!(
                "`{text}` is no fraction of the training (0.5), nor a number of steps (100s) or epochs (5e)"
            )
        };
        let text = text.trim();
        let count = |count: &str| count.trim().parse().map_err(|_| expected());
        match (text.strip_suffix('s'), text.strip_suffix('e')) {
            (Some(steps), _) => count(steps).map(Position::Steps),
            (None, Some(epochs)) => count(epochs).map(Position::Epochs),
            (None, None) => text.parse().map(Position::Fraction).map_err(|_| expected()),
        }
    }

    /// Whether a step (from 0) of a training of `steps` is there or behind; an epoch of so many, where epochs are counted.
    pub fn reached(self, step: u64, steps: u64) -> bool {
        match self {
            Position::Fraction(from) => step as f64 / steps.max(1) as f64 >= from,
            Position::Steps(from) | Position::Epochs(from) => step >= u64::from(from),
        }
    }

    /// The step that it is, as FP32.
    fn step(self, steps: u64) -> f32 {
        match self {
            Position::Fraction(from) => from as f32 * steps.max(1) as f32,
            Position::Steps(from) | Position::Epochs(from) => from as f32,
        }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Position::Fraction(from) => write!(f, "{from}"),
            Position::Steps(from) => write!(f, "{from}s"),
            Position::Epochs(from) => write!(f, "{from}e"),
        }
    }
}

impl Point {
    /// A value that stays.
    pub fn constant(from: f64, value: f64) -> Point {
        Point { from: Position::Fraction(from), value, shape: Shape::Constant }
    }

    /// The fraction and the value, if that is all that it says.
    pub fn plain(&self) -> Option<(f64, f64)> {
        match (self.from, self.shape) {
            (Position::Fraction(from), Shape::Constant) => Some((from, self.value)),
            _ => None,
        }
    }

    /// Reads `FROM:VALUE`, or `FROM:VALUE~SHAPE`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Point, String> {
        let expected = || format!("expected FROM:VALUE or FROM:VALUE~SHAPE, not `{text}`");
        let (from, value) = text.split_once(':').ok_or_else(expected)?;
        let (value, shape) = match value.split_once('~') {
            Some((value, shape)) => (value, shape.trim()),
            None => (value, Shape::Constant.name()),
        };
        let known = Shape::ALL.map(Shape::name);
        let shape = Shape::ALL.into_iter().find(|s| s.name() == shape).ok_or_else(|| {
            format!("there is no shape `{shape}`; there are {}", known.join(", "))
        })?;
        let value = value.trim().parse().map_err(|_| expected())?;
        Ok(Point { from: Position::parse(from)?, value, shape })
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.from, self.value)?;
        if self.shape == Shape::Constant { Ok(()) } else { write!(f, "~{}", self.shape.name()) }
    }
}

/// Checks that points are a schedule by steps: the first at the start, each of a kind behind the one before.
///
/// # Errors
/// What they must be.
pub fn check(points: &[Point]) -> Result<(), String> {
    check_per(points, Per::Step)
}

/// As [`check`], of a schedule that counts steps or epochs.
///
/// # Errors
/// What they must be.
pub fn check_per(points: &[Point], per: Per) -> Result<(), String> {
    let fail = |words: &str| Err(words.to_string());
    for point in points {
        match (point.from, per) {
            (Position::Epochs(_), Per::Step) => {
                return fail("a value for each step counts steps (100s), not epochs");
            }
            (Position::Steps(_), Per::Epoch) => {
                return fail("a value for each epoch counts epochs (5e), not steps");
            }
            _ => {}
        }
    }
    if !points.first().is_some_and(|p| p.from.reached(0, 1)) {
        return fail("expected points with ascending positions, the first at 0");
    }
    let (mut fraction, mut count) = (f64::NEG_INFINITY, None);
    for (i, point) in points.iter().enumerate() {
        // The end may be what a line leads to.
        let leads = i > 0 && points[i - 1].shape != Shape::Constant;
        let ascends = match point.from {
            Position::Fraction(from) => {
                let inside = (0.0..1.0).contains(&from) || leads && from == 1.0;
                let ascends = from > fraction;
                fraction = from;
                inside && ascends
            }
            Position::Steps(from) | Position::Epochs(from) => {
                let ascends = count < Some(from);
                count = Some(from);
                ascends
            }
        };
        if !ascends || !point.value.is_finite() {
            return fail(
                "expected points with ascending positions below 1, the first at 0 (the last may be 1 where a line leads to it)",
            );
        }
    }
    if points.last().is_some_and(|p| p.shape != Shape::Constant) {
        return fail("a line or cosine needs a point that it leads to");
    }
    Ok(())
}

/// The value at a step (from 0) of a training of `steps`, or at an epoch of so many: that of the last point that is reached, or between it and the next.
pub fn value(points: &[Point], step: u64, steps: u64) -> f64 {
    let Some(at) = points.iter().rposition(|p| p.from.reached(step, steps)) else { return 0.0 };
    let point = &points[at];
    let (Some(next), true) = (points.get(at + 1), point.shape != Shape::Constant) else {
        return point.value;
    };
    let (start, end) = (point.from.step(steps), next.from.step(steps));
    let way = (step as f32 - start) / (end - start);
    let way = if way > 1.0 { 1.0 } else { way };
    let way = if way > 0.0 { way } else { 0.0 };
    let (first, last) = (point.value as f32, next.value as f32);
    f64::from(match point.shape {
        Shape::Constant | Shape::Linear => first + (last - first) * way,
        Shape::Cosine => last + (first - last) * (0.5 * (1.0 + cosine(way))),
    })
}

/// Coefficients of a sine's odd powers from the third on.
pub const SINE: [f32; 5] =
    [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0];
/// The circle's constant.
pub const PI: f32 = std::f32::consts::PI;

/// `cos(pi * way)` for `way` from 0 to 1: the sine of what is missing to the middle, by its series.
fn cosine(way: f32) -> f32 {
    let angle = PI * (0.5 - way);
    let square = angle * angle;
    let series = SINE.iter().rev().fold(0.0, |sum, c| (sum + c) * square);
    angle * (1.0 + series)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(text: &str) -> Vec<Point> {
        text.split(',').map(|p| Point::parse(p).unwrap()).collect()
    }

    #[test]
    fn values() {
        let plain = points("0:0.1,0.5:0.01");
        assert_eq!([0, 4, 5, 9].map(|s| value(&plain, s, 10)), [0.1, 0.1, 0.01, 0.01]);
        // A warm-up of 4 steps, then half a cosine.
        let warm = points("0:0~linear,4s:1~cosine,1:0");
        check(&warm).unwrap();
        for (step, expected) in [(0, 0.0), (1, 0.25), (3, 0.75), (4, 1.0), (12, 0.5), (20, 0.0)] {
            let found = value(&warm, step, 20);
            assert!((found - expected).abs() < 2e-7, "{step}: {found}");
        }
        // Against the definition.
        for step in 4..20 {
            let way = f64::from(step - 4) / 16.0;
            let expected = (1.0 + (std::f64::consts::PI * way).cos()) / 2.0;
            assert!((value(&warm, step as u64, 20) - expected).abs() < 3e-7, "{step}");
        }
        // A training that ends before the line does.
        assert_eq!(value(&warm, 1, 2), 0.25);
    }

    #[test]
    fn texts() {
        for text in ["0:0.1", "0:0~linear", "100s:0.5~cosine", "0.5:3", "5e:2"] {
            assert_eq!(Point::parse(text).unwrap().to_string(), text);
        }
        for text in ["0", "0:x", "0:1~cosin", "1x:2", "-1s:3", "-1e:3"] {
            assert!(Point::parse(text).is_err(), "{text}");
        }
        assert!(Point::parse("0:1~cosin").unwrap_err().contains("constant, linear, cosine"));
    }

    #[test]
    fn what_is_no_schedule() {
        for text in
            ["0.1:1", "0:1,1:2", "0:1,0:2", "0:1~linear", "0:1,5s:2,5s:3", "0:1,0.5:2,0.4:3"]
        {
            assert!(check(&points(text)).is_err(), "{text}");
        }
        assert!(check(&points("0:1~linear,1:2")).is_ok());
        assert!(check(&[]).is_err());
        assert!(check(&points("0:1,2e:2")).unwrap_err().contains("steps (100s)"));
        assert!(check_per(&points("0:1,2s:2"), Per::Epoch).unwrap_err().contains("epochs (5e)"));
        assert!(check_per(&points("0:1,2e:2,0.5:3"), Per::Epoch).is_ok());
    }
}
