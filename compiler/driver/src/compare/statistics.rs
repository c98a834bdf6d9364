//! Means over seeds, and whether a difference of two is more than the seeds explain.

use serde::Serialize;

/// Mean and deviation of a quantity over runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Number of runs.
    pub count: usize,
    /// The mean; 0 of no runs.
    pub mean: f64,
    /// The sample's standard deviation (over n - 1), of two runs and more.
    pub deviation: Option<f64>,
}

impl Spread {
    /// That of some values.
    pub fn of(values: impl Iterator<Item = f64>) -> Spread {
        let values: Vec<f64> = values.collect();
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count.max(1) as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        Spread { count, mean, deviation }
    }

    /// The square of the mean's standard error.
    fn error(&self) -> Option<f64> {
        Some(self.deviation?.powi(2) / self.count as f64)
    }
}

/// How the means of two algorithms differ.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// The algorithms.
    pub pair: [String; 2],
    /// The first's mean less the second's.
    pub difference: f64,
    /// Half of the interval that holds it in 95 of 100 cases, by Welch's test; none of a single run.
    pub uncertainty: Option<f64>,
    /// Whether the difference is more than the seeds explain: the interval leaves out zero.
    pub exceeds: bool,
}

/// Quantiles of Student's distribution at 97.5 %, for 1 to 30 degrees of freedom (any table of it).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Difference {
    /// Between two algorithms, by name and spread.
    pub fn between(a: (&str, &Spread), b: (&str, &Spread)) -> Difference {
        let difference = a.1.mean - b.1.mean;
        let uncertainty = a.1.error().zip(b.1.error()).map(|(x, y)| {
            let sum = x + y;
            // Welch and Satterthwaite's degrees of freedom, rounded down; equal values have no spread at all.
            let parts = x * x / (a.1.count - 1) as f64 + y * y / (b.1.count - 1) as f64;
            let freedom = if parts > 0.0 { sum * sum / parts } else { f64::MAX };
            let place = (freedom.min(30.0) as usize).clamp(1, 30);
            STUDENT[place - 1] * sum.sqrt()
        });
        Difference {
            pair: [a.0.to_string(), b.0.to_string()],
            difference,
            uncertainty,
            exceeds: uncertainty.is_some_and(|half| difference.abs() > half),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied())
    }

    #[test]
    fn spreads() {
        assert_eq!(spread(&[1.0, 2.0, 3.0, 6.0]).deviation, Some((14.0f64 / 3.0).sqrt()));
        assert_eq!(spread(&[4.0]), Spread { count: 1, mean: 4.0, deviation: None });
        assert_eq!(spread(&[]).mean, 0.0);
    }

    /// SciPy's `ttest_ind(a, b, equal_var=False)` gives p = 0.0253 for the first pair, p = 0.1336 for the second.
    #[test]
    fn differences_as_welch_sees_them() {
        let a = [97.9, 98.1, 98.4, 98.0, 98.3, 98.2];
        let b = [97.6, 97.9, 98.2, 97.7, 97.8, 97.9];
        let found = Difference::between(("a", &spread(&a)), ("b", &spread(&b)));
        assert!(found.exceeds && (found.difference - 0.3).abs() < 1e-9, "{found:?}");
        let far = [97.6, 97.9, 98.5, 97.7, 97.8, 97.9];
        let found = Difference::between(("a", &spread(&a)), ("b", &spread(&far)));
        assert!(!found.exceeds, "{found:?}");
        let once = Difference::between(("a", &spread(&[1.0])), ("b", &spread(&[9.0, 9.1])));
        assert_eq!((once.uncertainty, once.exceeds), (None, false));
        // Runs that do not differ at all.
        let same = Difference::between(("a", &spread(&[1.0, 1.0])), ("b", &spread(&[2.0, 2.0])));
        assert!(same.exceeds);
        let equal = Difference::between(("a", &spread(&[1.0, 1.0])), ("b", &spread(&[1.0, 1.0])));
        assert!(!equal.exceeds);
    }
}
