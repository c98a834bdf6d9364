//! Chunks of a channel, and the least and the greatest element of each: what range normalization measures instead of a variance.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr};
use crate::ops::support::channels::Channels;

/// A channel's elements, by batch, then space, in chunks of equal size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks {
    sizes: Channels,
    /// How many.
    pub(crate) count: usize,
    /// Elements of each.
    pub(crate) size: usize,
}

/// Flat indices of a chunk's least and greatest element, the first of equal ones, and the elements.
pub(crate) struct Ends<Index, Value> {
    pub(crate) least: (Index, Value),
    pub(crate) greatest: (Index, Value),
}

impl Chunks {
    /// The greatest number of chunks, at most `most`, that have equal sizes of two elements at least; one where none has.
    pub(crate) fn of(sizes: Channels, most: usize) -> Chunks {
        let elements = sizes.count();
        let suits = |&count: &usize| elements.is_multiple_of(count) && elements / count >= 2;
        let count = (2..=most).rev().find(suits).unwrap_or(1);
        Chunks { sizes, count, size: elements / count }
    }

    /// What the mean range of normally distributed chunks is multiplied with to be their standard deviation: with n elements a chunk
    /// `0.175 (1 + sqrt(pi ln 4)) / sqrt(2 ln n)`, 0 for one element.
    pub(crate) fn factor(self) -> f32 {
        if self.size < 2 {
            return 0.0;
        }
        let expected = 1.0 + (std::f64::consts::PI * 4f64.ln()).sqrt();
        (0.175 * expected / (2.0 * (self.size as f64).ln()).sqrt()) as f32
    }

    /// Each chunk's ends. NaN are neither: a chunk of NaN alone has its first index, and infinities.
    pub(crate) fn ends(self, channel: usize, x: &[f32]) -> impl Iterator<Item = Ends<usize, f32>> {
        let Channels { channels, space, .. } = self.sizes;
        let at = move |e: usize| (e / space * channels + channel) * space + e % space;
        (0..self.count).map(move |chunk| {
            let first = chunk * self.size;
            let mut least = (at(first), f32::INFINITY);
            let mut greatest = (at(first), f32::NEG_INFINITY);
            for i in (first..first + self.size).map(at) {
                if x[i] < least.1 {
                    least = (i, x[i]);
                }
                if greatest.1 < x[i] {
                    greatest = (i, x[i]);
                }
            }
            Ends { least, greatest }
        })
    }

    /// Loops over the chunks of a channel with each one's ends.
    pub(crate) fn lower(
        self,
        builder: &mut LoopBuilder,
        channel: &Expr,
        x: Buffer,
        body: impl FnOnce(&mut LoopBuilder, Ends<Expr, Expr>),
    ) {
        let Channels { channels, space: width, .. } = self.sizes;
        let [channels, space] = [channels, width].map(Expr::index);
        let at = |e: Expr| {
            let row = e.clone().divide(space.clone()) * channels.clone() + channel.clone();
            row * space.clone() + e.remainder(space.clone())
        };
        builder.for_("chunk", self.count, |builder, chunk| {
            let first = builder.let_("first", chunk * Expr::index(self.size));
            let start = builder.let_("start", at(first.clone()));
            let places = ["least_at", "greatest_at"].map(|name| builder.local(name, start.clone()));
            let values = [("least", f32::INFINITY), ("greatest", f32::NEG_INFINITY)]
                .map(|(name, value)| builder.local(name, Expr::f32(value)));
            let take = |builder: &mut LoopBuilder, i: Expr| {
                let i = builder.let_("i", i);
                let value = builder.load(x, i.clone());
                let value = builder.let_("x", value);
                for (end, (place, found)) in places.into_iter().zip(values).enumerate() {
                    let before = builder.get(found);
                    let beyond = match end {
                        0 => value.clone().less(before.clone()),
                        _ => before.clone().less(value.clone()),
                    };
                    let beyond = builder.let_("beyond", beyond);
                    let moved = beyond.clone().select(i.clone(), builder.get(place));
                    builder.set(place, moved);
                    builder.set(found, beyond.select(value.clone(), before));
                }
            };
            // Quotients for every element are left to chunks that are no whole rows and no parts of one.
            if self.size.is_multiple_of(width) {
                builder.for_("row", self.size / width, |builder, row| {
                    let skip = row * channels.clone() * space.clone();
                    let row = builder.let_("row_start", start.clone() + skip);
                    match width {
                        1 => take(builder, row),
                        _ => builder.for_("e", width, |builder, e| take(builder, row.clone() + e)),
                    }
                });
            } else if width.is_multiple_of(self.size) {
                builder.for_("e", self.size, |builder, e| take(builder, start.clone() + e));
            } else {
                builder.for_("e", self.size, |builder, e| take(builder, at(first.clone() + e)));
            }
            let [least, greatest] =
                [0, 1].map(|end| (builder.get(places[end]), builder.get(values[end])));
            body(builder, Ends { least, greatest });
        });
    }
}
