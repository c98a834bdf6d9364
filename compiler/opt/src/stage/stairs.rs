//! Thresholds of a chain: a monotone staircase from integer sums to narrow integers, exactly.
//!
//! For each channel and level the least sum that reaches the level is found by bisection of the chain itself.

use super::chain::Chain;

/// A chain as the operands of `threshold`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stairs {
    /// Result below all thresholds.
    pub(crate) low: i32,
    /// Number of thresholds of a channel, at least 1.
    pub(crate) levels: usize,
    /// `[channels, levels]`, each row ascending.
    pub(crate) thresholds: Vec<i32>,
    /// 0, or -1 for channels whose stairs fall; absent if none does.
    pub(crate) flip: Option<Vec<i32>>,
}

/// Most sums (of all channels) that are tried one by one.
const EXHAUSTIVE: i64 = 1 << 24;
/// Rows of a call.
const ROWS: i64 = 1 << 10;

impl Stairs {
    /// The stairs of a chain for sums within bounds (one pair, or one a channel). `None` if the chain gives numbers
    /// that are not finite, or is not seen to be monotone.
    pub(crate) fn of(chain: &Chain, bounds: &[(i64, i64)]) -> Option<Stairs> {
        let channels = chain.channels;
        let limit = |v: i64| i32::try_from(v).ok();
        let bound =
            |c: usize| bounds.get(c).or_else(|| bounds.first().filter(|_| bounds.len() == 1));
        let mut least = Vec::with_capacity(channels);
        let mut most = Vec::with_capacity(channels);
        for c in 0..channels {
            let &(low, high) = bound(c)?;
            least.push(limit(low)?);
            most.push(limit(high)?);
        }
        let (at_least, at_most) = (chain.evaluate(&least)?, chain.evaluate(&most)?);
        let falls: Vec<bool> = at_least.iter().zip(&at_most).map(|(a, b)| a > b).collect();
        let high = *at_least.iter().chain(&at_most).max()?;
        // A level at least, and none past the element's.
        let highest = chain.element.integer_range()?.1;
        let low = (*at_least.iter().chain(&at_most).min()?).min(highest - 1);
        let levels = usize::try_from(high - low).ok()?.max(1);
        // Complements turn falling stairs into rising ones: they exchange the bounds.
        let turned = |c: usize, v: i32| if falls[c] { !v } else { v };
        let first: Vec<i64> = (0..channels)
            .map(|c| turned(c, if falls[c] { most[c] } else { least[c] }).into())
            .collect();
        let last: Vec<i64> = (0..channels)
            .map(|c| turned(c, if falls[c] { least[c] } else { most[c] }).into())
            .collect();
        let ends = |c: usize| {
            if falls[c] { (at_most[c], at_least[c]) } else { (at_least[c], at_most[c]) }
        };
        // Row by row a level, so that a call takes them all: invariants value(below) < level <= value(above).
        let mut below: Vec<i64> = Vec::with_capacity(levels * channels);
        let mut above = Vec::with_capacity(levels * channels);
        for level in 0..levels {
            let level = low + 1 + level as i64;
            for c in 0..channels {
                let (bottom, top) = ends(c);
                if bottom >= level {
                    below.push(i64::from(i32::MIN) - 1);
                    above.push(i64::from(i32::MIN));
                } else if top < level {
                    // Above every sum there must be a number to compare with.
                    if last[c] >= i64::from(i32::MAX) {
                        return None;
                    }
                    below.push(i64::from(i32::MAX) - 1);
                    above.push(i64::from(i32::MAX));
                } else {
                    below.push(first[c]);
                    above.push(last[c]);
                }
            }
        }
        while below.iter().zip(&above).any(|(b, a)| a - b > 1) {
            let middle: Vec<i64> = below.iter().zip(&above).map(|(b, a)| b + (a - b) / 2).collect();
            let sums: Vec<i32> = middle
                .iter()
                .enumerate()
                .map(|(i, &m)| {
                    let c = i % channels;
                    turned(c, m.clamp(first[c], last[c]) as i32)
                })
                .collect();
            let found = chain.evaluate(&sums)?;
            for (i, found) in found.into_iter().enumerate() {
                if above[i] - below[i] <= 1 {
                    continue;
                }
                let level = low + 1 + (i / channels) as i64;
                if found >= level { above[i] = middle[i] } else { below[i] = middle[i] }
            }
        }
        let mut thresholds = Vec::with_capacity(levels * channels);
        for c in 0..channels {
            thresholds.extend((0..levels).map(|level| above[level * channels + c] as i32));
        }
        let flip = falls.contains(&true).then(|| falls.iter().map(|&f| -i32::from(f)).collect());
        let stairs = Stairs { low: i32::try_from(low).ok()?, levels, thresholds, flip };
        (chain.is_monotone() || stairs.agrees(chain, &least, &most)?).then_some(stairs)
    }

    /// The result for a sum of a channel.
    pub(crate) fn value(&self, channel: usize, sum: i32) -> i64 {
        let flip = self.flip.as_ref().map_or(0, |f| f[channel]);
        let row = &self.thresholds[channel * self.levels..][..self.levels];
        i64::from(self.low) + row.iter().filter(|&&t| sum ^ flip >= t).count() as i64
    }

    /// Whether stairs and chain agree on every sum; `None` if there are too many to try.
    fn agrees(&self, chain: &Chain, least: &[i32], most: &[i32]) -> Option<bool> {
        let longest =
            least.iter().zip(most).map(|(&l, &m)| i64::from(m) - i64::from(l) + 1).max()?;
        if longest.saturating_mul(chain.channels as i64) > EXHAUSTIVE {
            return None;
        }
        let mut start = 0;
        while start < longest {
            let rows = ROWS.min(longest - start);
            let mut sums = Vec::with_capacity(rows as usize * chain.channels);
            for row in start..start + rows {
                let at = |(&l, &m): (&i32, &i32)| (i64::from(l) + row).min(m.into()) as i32;
                sums.extend(least.iter().zip(most).map(at));
            }
            let found = chain.evaluate(&sums)?;
            let same = |(i, found): (usize, i64)| self.value(i % chain.channels, sums[i]) == found;
            if !found.into_iter().enumerate().all(same) {
                return Some(false);
            }
            start += rows;
        }
        Some(true)
    }
}
