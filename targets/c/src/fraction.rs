//! From which step on a fraction of a training is done, in integers alone.

use std::cmp::Ordering;

/// A fraction of a training in lowest terms: reached by a step (from 0) of `steps` where
/// `step * denominator >= steps * numerator`. Neither is beyond 32 bits, so neither product is beyond 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fraction {
    pub(crate) numerator: u64,
    pub(crate) denominator: u64,
}

/// The most steps of a training on a device.
const MOST: u128 = u32::MAX as u128;
/// Bits after the point of the numbers here: those of the middle between two neighbours from `LEAST` on.
const BITS: i32 = 87;
/// Below this, the first step reaches every fraction but zero: 2^-33.
const LEAST: f64 = 1.0 / (1u64 << 33) as f64;

impl Fraction {
    /// The fraction that the same steps reach as `from` (0 to 1), for every step and total of 32 bits: those where the
    /// quotient of step and total, rounded to the nearest double, is at least `from`.
    ///
    /// They are those whose exact quotient is above the middle between `from` and the double before it. None is that
    /// middle: it takes 2^54 parts to write it down. So it is the least of the fractions above with at most 32 bits,
    /// here found in the tree of Stern and Brocot. For a decimal fraction that is the one that was meant: 2/5 for 0.4,
    /// which as a double is above 2/5.
    pub(crate) fn reached(from: f64) -> Fraction {
        let of = |(numerator, denominator): (u128, u128)| Fraction {
            numerator: numerator as u64,
            denominator: denominator as u64,
        };
        if from <= 0.0 {
            return of((0, 1));
        }
        if from < LEAST {
            return of((1, MOST));
        }
        // Multiplied by a power of two, both are whole.
        let scaled = |x: f64| (x * 2f64.powi(BITS - 1)) as u128;
        let (middle, one) = (scaled(from) + scaled(from.next_down()), 1u128 << BITS);
        // How far a fraction is below the middle (or above), times its denominator.
        let below = |(n, d): (u128, u128)| middle * d - n * one;
        let above = |(n, d): (u128, u128)| n * one - middle * d;
        let (mut low, mut high) = ((0u128, 1u128), (1u128, 1u128));
        while low.1 + high.1 <= MOST {
            let between = (low.0 + high.0, low.1 + high.1);
            match (between.0 * one).cmp(&(middle * between.1)) {
                // As many steps towards the other end as stay on this side.
                Ordering::Less | Ordering::Equal => {
                    let times = (below(low) / above(high)).min((MOST - low.1) / high.1);
                    low = (low.0 + times * high.0, low.1 + times * high.1);
                }
                Ordering::Greater => {
                    let times = (above(high) / below(low)).min((MOST - high.1) / low.1);
                    high = (high.0 + times * low.0, high.1 + times * low.1);
                }
            }
        }
        of(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a training on the host decides it.
    fn quotient(from: f64, step: u64, steps: u64) -> bool {
        from <= step as f64 / steps.max(1) as f64
    }

    fn integers(from: f64, step: u64, steps: u64) -> bool {
        let Fraction { numerator, denominator } = Fraction::reached(from);
        step * denominator >= steps.max(1) * numerator
    }

    /// Equal at the steps next to where the fraction is reached, which are the only ones in doubt, and at the ends.
    fn same(from: f64, steps: u64) {
        let middle = (from * steps as f64) as u64;
        let last = u64::from(u32::MAX);
        for step in (middle.saturating_sub(3)..middle + 4).chain([0, 1, steps, last]) {
            let step = step.min(last);
            assert_eq!(
                integers(from, step, steps),
                quotient(from, step, steps),
                "{from:?}: {step} of {steps}"
            );
        }
    }

    /// A generator of random numbers (Knuth's constants).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            self.0 ^ self.0 >> 29
        }
    }

    #[test]
    fn decimals_are_what_was_meant() {
        let cases = [
            (0.0, (0, 1)),
            (0.4, (2, 5)),
            (0.6, (3, 5)),
            (0.8, (4, 5)),
            (0.75, (3, 4)),
            (0.123, (123, 1000)),
            (1.0 / 3.0, (1, 3)),
            (1.0, (1, 1)),
            (1e-300, (1, u64::from(u32::MAX))),
        ];
        for (from, (numerator, denominator)) in cases {
            assert_eq!(Fraction::reached(from), Fraction { numerator, denominator }, "{from:?}");
        }
        // The double after that of 0.3: a quotient of 3 and 10 does not reach it.
        assert_ne!(Fraction::reached(0.1 + 0.2), Fraction::reached(0.3));
    }

    #[test]
    fn every_step_of_many_trainings() {
        for from in [0.0, 0.1, 0.3, 0.1 + 0.2, 0.4, 0.5, 0.6, 0.75, 0.8, 0.95, 1.0 / 3.0, 1.0] {
            for steps in 0..300 {
                for step in 0..=steps + 2 {
                    let expected = quotient(from, step, steps);
                    assert_eq!(
                        integers(from, step, steps),
                        expected,
                        "{from:?}: {step} of {steps}"
                    );
                }
            }
        }
    }

    /// Fractions with few digits, with all their bits, near each other, small; totals up to the largest.
    #[test]
    fn any_fraction_of_any_training() {
        let mut random = Random(1);
        for _ in 0..2000 {
            let bits = random.next() as u32;
            let ratio = f64::from(bits) / f64::from((random.next() as u32).max(bits).max(1));
            let any = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
            let decimal = (any * 1000.0).round() / 1000.0;
            let small = any / (1u64 << (random.next() % 40)) as f64;
            for from in [ratio, ratio.next_up().min(1.0), ratio.next_down(), any, decimal, small] {
                for _ in 0..8 {
                    same(from, random.next() >> (32 + random.next() % 32));
                }
                same(from, u64::from(u32::MAX));
                // A total of which the fraction is nearly a whole number of steps.
                same(from, Fraction::reached(from).denominator);
                same(from, Fraction::reached(from.next_down()).denominator);
            }
        }
    }
}
