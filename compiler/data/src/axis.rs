//! Axes of charts: ranges, round ticks, and numbers as text. No logarithm or power from a system's library takes part.

/// A linear scale with its ticks.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// The value at its beginning.
    pub low: f64,
    /// The value at its end.
    pub high: f64,
    /// Its ticks, ascending.
    pub ticks: Vec<Tick>,
}

/// A tick.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// Where.
    pub value: f64,
    /// Its number as text.
    pub label: String,
}

impl Axis {
    /// Where a value lies, 0 at the low end and 1 at the high end.
    pub fn fraction(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// From the first epoch to the last, with ticks at round numbers between; at `whole` ones where all epochs are.
    pub fn of_epochs(epochs: impl Iterator<Item = f64>, whole: bool) -> Self {
        let (low, high) = range(epochs).unwrap_or((0.0, 1.0));
        let (low, high) = if low == high { (low - 1.0, high + 1.0) } else { (low, high) };
        let mut step = Step::for_span((high - low) / 10.0);
        if whole && step.value() < 1.0 {
            step = Step { mantissa: 1, exponent: 0 };
        }
        Self { low, high, ticks: step.ticks(low, high) }
    }

    /// To above the highest value from below the lowest, or from 0 where the lowest is less than a `share` of the highest.
    pub fn of_values(values: impl Iterator<Item = f64>, share: f64) -> Self {
        let (low, high) = range(values).unwrap_or((0.0, 1.0));
        let low = if low > 0.0 && low < high * share { 0.0 } else { low };
        Self::rounded_out(low, high)
    }

    /// Of percentages: at most 100 where none is more.
    pub fn of_percentages(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = range(values).unwrap_or((0.0, 100.0));
        let low = if low > 0.0 && low < high * 0.3 { 0.0 } else { low };
        let axis = Self::rounded_out(low, high);
        if high <= 100.0 && axis.high > 100.0 { Self::with_high(axis, 100.0) } else { axis }
    }

    fn with_high(mut self, high: f64) -> Self {
        self.high = high;
        self.ticks.retain(|tick| tick.value <= high);
        self
    }

    /// The range widened to the ticks around it.
    pub fn rounded_out(low: f64, high: f64) -> Self {
        let (low, high) = match low == high {
            true if low == 0.0 => (0.0, 1.0),
            true => (low - low.abs() * 0.1, high + low.abs() * 0.1),
            false => (low, high),
        };
        let step = Step::for_span((high - low) / 5.0);
        let size = step.value();
        let low = (low / size).floor() * size;
        let high = (high / size).ceil() * size;
        Self { low, high, ticks: step.ticks(low, high) }
    }
}

/// A round distance of ticks: 1, 2 or 5 times a power of ten.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    mantissa: u32,
    exponent: i32,
}

impl Step {
    /// The smallest round step that is at least `least`.
    fn for_span(least: f64) -> Self {
        (-300..=307)
            .flat_map(|exponent| [1, 2, 5].map(|mantissa| Step { mantissa, exponent }))
            .find(|step| step.value() >= least)
            .unwrap_or(Step { mantissa: 1, exponent: 308 })
    }

    /// Parsing rounds correctly on every machine, which powers of ten do not.
    fn value(self) -> f64 {
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::MAX)
    }

    /// The multiples of the step from `low` to `high`.
    fn ticks(self, low: f64, high: f64) -> Vec<Tick> {
        let size = self.value();
        // A hair of room, for a multiple that rounding put just outside.
        let first = (low / size - 1e-6).ceil();
        let last = (high / size + 1e-6).floor();
        let decimals = usize::try_from(-self.exponent).unwrap_or(0);
        // At most a dozen by construction; the bound is for values whose spacing is below their precision.
        let count = ((last - first).clamp(0.0, 20.0)) as u32;
        (0..=count)
            .map(|index| {
                let value = (first + f64::from(index)) * size;
                Tick { value, label: decimal(value, decimals) }
            })
            .collect()
    }
}

/// A value with fixed decimals, or in scientific notation where that would be long.
pub fn decimal(value: f64, decimals: usize) -> String {
    if value != 0.0 && (value.abs() >= 1e6 || decimals > 6) {
        return format!("{value:.1e}");
    }
    let text = format!("{value:.decimals$}");
    // No "-0.00".
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_string(),
        _ => text,
    }
}

/// The least and the greatest value.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}
