//! Operands that broadcasting repeats.

/// How an operand of `channels` elements broadcasts to `[images, channels, run]`: a bias of channels, of columns (a run of one) or of
/// rows (one image).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repeated {
    /// How often all of it is repeated.
    pub images: usize,
    /// Its elements.
    pub channels: usize,
    /// Neighbours in the result that each element is for.
    pub run: usize,
}

impl Repeated {
    /// How an operand of shape `own` becomes `shape`, to which it broadcasts; `None` if its elements are no single stretch of
    /// dimensions, or one element.
    #[must_use]
    pub fn of(own: &[usize], shape: &[usize]) -> Option<Repeated> {
        let missing = shape.len().checked_sub(own.len())?;
        let own = |d: usize| d.checked_sub(missing).map_or(1, |d| own[d]);
        let varies: Vec<usize> = (0..shape.len()).filter(|&d| own(d) > 1).collect();
        let (&first, &last) = (varies.first()?, varies.last()?);
        let whole = (first..=last).all(|d| own(d) == shape[d]);
        let product = |dims: &[usize]| dims.iter().product();
        whole.then(|| Repeated {
            images: product(&shape[..first]),
            channels: product(&shape[first..=last]),
            run: product(&shape[last + 1..]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_of_dimensions() {
        let of = |own: &[usize], shape: &[usize]| {
            Repeated::of(own, shape).map(|r| [r.images, r.channels, r.run])
        };
        assert_eq!(of(&[1, 3, 1, 1], &[2, 3, 5, 7]), Some([2, 3, 35]));
        assert_eq!(of(&[3, 1, 1], &[2, 3, 5, 7]), Some([2, 3, 35]));
        assert_eq!(of(&[7], &[2, 3, 5, 7]), Some([30, 7, 1]));
        assert_eq!(of(&[2, 3, 1, 1], &[2, 3, 5, 7]), Some([1, 6, 35]));
        assert_eq!(of(&[1, 3, 1, 7], &[2, 3, 5, 7]), None);
        assert_eq!(of(&[1], &[2, 3]), None);
    }
}
