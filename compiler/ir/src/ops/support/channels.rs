//! Operands of shape [batch, channel, space...]: checks, evaluation by runs of space, and loops.

use crate::attributes::F32;
use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, Unary};
use crate::ops::support::partial_sums::{self, PartialSumLoops, PartialSums};
use crate::ops::{TypeError, rule};
use crate::types::{Element, TensorType};

/// Terms of 15 bits of which i32 holds the sum.
const STRETCH: usize = 1 << 16;

/// How loops go through a `[batch, channel, space...]` operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChannelWalk {
    /// Channel by channel, all images of each: what a channel has stays in registers.
    Channels,
    /// Image by image through all channels, with what a channel has beside each element of an image: where planes are shorter
    /// than a vector.
    Images,
}

/// Sizes of a [batch, channel, space...] operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Channels {
    /// Batch size.
    pub(crate) batch: usize,
    /// Channels.
    pub(crate) channels: usize,
    /// Elements of one channel of one sample, contiguous.
    pub(crate) space: usize,
}

impl Channels {
    /// The sizes of `x`, which needs at least two dimensions.
    pub(crate) fn of(name: &str, x: &TensorType) -> Result<Channels, TypeError> {
        match x.shape.dims() {
            [batch, channels, space @ ..] => {
                let space = space.iter().fold(1usize, |count, &dim| count.saturating_mul(dim));
                Ok(Channels { batch: *batch, channels: *channels, space })
            }
            _ => Err(TypeError::new(format!("{name} takes [batch, channel, ...], here {x}"))),
        }
    }

    /// Elements of one channel.
    pub(crate) fn count(self) -> usize {
        self.batch.saturating_mul(self.space)
    }

    /// Checks that each of `vectors` has one element a channel.
    pub(crate) fn check(self, name: &str, vectors: &[&TensorType]) -> Result<(), TypeError> {
        match vectors.iter().find(|ty| ty.shape.dims() != [self.channels]) {
            None => Ok(()),
            Some(ty) => Err(TypeError::new(format!(
                "{name} takes one element for each of {} channels, here {ty}",
                self.channels
            ))),
        }
    }

    /// Checks that a channel has elements to average.
    pub(crate) fn check_count(self, name: &str) -> Result<(), TypeError> {
        rule::ensure(self.count() > 0, || format!("{name}: a channel without elements"))
    }

    /// Ranges of flat indices of one channel, by ascending batch index.
    pub(crate) fn runs(self, channel: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        (0..self.batch).map(move |b| {
            let start = (b * self.channels + channel) * self.space;
            start..start + self.space
        })
    }

    /// Sums `f` of each flat index of a channel, by batch, then space: element `i` of a sample's channel is added to partial
    /// sum `i mod 16` of the whole channel.
    pub(crate) fn sum(self, channel: usize, f: impl Fn(usize) -> f32) -> f32 {
        let mut sums = PartialSums::default();
        for run in self.runs(channel) {
            run.enumerate().for_each(|(i, at)| sums.add(i, f(at)));
        }
        sums.total()
    }

    /// Sums of integers of at most 15 bits of each flat index of a channel.
    pub(crate) fn integer_sums<const N: usize>(
        self,
        channel: usize,
        f: impl Fn(usize) -> [i32; N],
    ) -> [i64; N] {
        let mut sums = [0; N];
        for i in self.runs(channel).flatten() {
            sums.iter_mut().zip(f(i)).for_each(|(sum, term)| *sum += i64::from(term));
        }
        sums
    }

    /// [`Channels::integer_sums`] (I64) in one walk as loops: stretches of a plane are summed in I32.
    pub(crate) fn lower_integer_sums<const N: usize>(
        self,
        builder: &mut LoopBuilder,
        names: [&str; N],
        channel: &Expr,
        f: &IntegerTerms<'_, N>,
    ) -> [Expr; N] {
        let sums = names.map(|name| builder.local(name, Expr::i64(0)));
        let stretch = |builder: &mut LoopBuilder, start: Expr, count: usize| {
            let parts = names.map(|name| builder.local(&format!("{name}_part"), Expr::i32(0)));
            builder.for_("i", count, |builder, i| {
                let terms = f(builder, start + i);
                for (&part, term) in parts.iter().zip(terms) {
                    let sum = builder.get(part) + term;
                    builder.set(part, sum);
                }
            });
            for (&sum, part) in sums.iter().zip(parts) {
                let total = builder.get(sum) + builder.get(part).extend();
                builder.set(sum, total);
            }
        };
        builder.for_("b", self.batch, |builder, b| {
            let start =
                (b * Expr::index(self.channels) + channel.clone()) * Expr::index(self.space);
            let start = builder.let_("start", start);
            builder.for_("stretch", self.space / STRETCH, |builder, s| {
                let first = builder.let_("first", start.clone() + s * Expr::index(STRETCH));
                stretch(builder, first, STRETCH);
            });
            let rest = self.space % STRETCH;
            if rest > 0 {
                let first = builder.let_("first", start + Expr::index(self.space - rest));
                stretch(builder, first, rest);
            }
        });
        sums.map(|sum| builder.get(sum))
    }

    /// Elements of one image.
    pub(crate) fn image(self) -> usize {
        self.channels * self.space
    }

    /// Sums of integers of at most 15 bits, to be asked for channel by channel. Images by images, they are first summed (I32) for
    /// each element of an image; a channel has at most 2^16 elements then.
    pub(crate) fn lower_sums_along<'f, const N: usize>(
        self,
        builder: &mut LoopBuilder,
        walk: ChannelWalk,
        names: [&'f str; N],
        terms: &'f IntegerTerms<'f, N>,
    ) -> IntegerSumLoops<'f, N> {
        let images = (walk == ChannelWalk::Images).then(|| {
            let sums = names.map(|name| builder.scratch(name, Element::I32, self.image()));
            builder.for_("i", self.image(), |builder, i| {
                let first = terms(builder, i.clone());
                for (&sum, term) in sums.iter().zip(first) {
                    builder.store(sum, i.clone(), term);
                }
            });
            builder.for_("b", self.batch - 1, |builder, b| {
                let start = (b + Expr::index(1)) * Expr::index(self.image());
                let start = builder.let_("start", start);
                builder.for_("i", self.image(), |builder, i| {
                    let more = terms(builder, start + i.clone());
                    for (&sum, term) in sums.iter().zip(more) {
                        let all = builder.load(sum, i.clone()) + term;
                        builder.store(sum, i.clone(), all);
                    }
                });
            });
            sums
        });
        IntegerSumLoops { sizes: self, names, terms, images }
    }

    /// Loops over the flat indices of one channel.
    pub(crate) fn lower(
        self,
        builder: &mut LoopBuilder,
        channel: &Expr,
        body: impl FnOnce(&mut LoopBuilder, Expr),
    ) {
        builder.for_("b", self.batch, |builder, b| {
            let start =
                (b * Expr::index(self.channels) + channel.clone()) * Expr::index(self.space);
            let start = builder.let_("start", start);
            builder.for_("i", self.space, |builder, i| body(builder, start + i));
        });
    }

    /// Working memory for a sum of each channel.
    pub(crate) fn partial_sums(self, builder: &mut LoopBuilder, name: &str) -> Buffer {
        PartialSumLoops::many(builder, name, self.channels)
    }

    /// N times [`Channels::sum`] in one walk as loops: `f` gives the terms of an element.
    pub(crate) fn lower_sums<const N: usize>(
        self,
        builder: &mut LoopBuilder,
        sums: [(&str, Buffer); N],
        channel: &Expr,
        f: impl Fn(&mut LoopBuilder, Expr) -> [Expr; N],
    ) -> [Expr; N] {
        let names = sums.map(|(name, _)| name);
        let sums = sums.map(|(_, buffer)| PartialSumLoops::of(builder, buffer, channel));
        partial_sums::clear(builder, &sums.each_ref());
        builder.for_("b", self.batch, |builder, b| {
            let start =
                (b * Expr::index(self.channels) + channel.clone()) * Expr::index(self.space);
            let start = builder.let_("start", start);
            partial_sums::each(builder, self.space, |builder, p, i| {
                let terms = f(builder, start.clone() + i);
                for (sums, term) in sums.iter().zip(terms) {
                    sums.add(builder, p.clone(), term);
                }
            });
        });
        std::array::from_fn(|n| sums[n].total(builder, names[n]))
    }
}

/// What an element adds to sums (I32).
pub(crate) type IntegerTerms<'f, const N: usize> = dyn Fn(&mut LoopBuilder, Expr) -> [Expr; N] + 'f;

/// See [`Channels::lower_sums_along`].
pub(crate) struct IntegerSumLoops<'f, const N: usize> {
    sizes: Channels,
    names: [&'f str; N],
    terms: &'f IntegerTerms<'f, N>,
    images: Option<[Buffer; N]>,
}

impl<const N: usize> IntegerSumLoops<'_, N> {
    /// The sums of a channel (I64).
    pub(crate) fn of(&self, builder: &mut LoopBuilder, channel: &Expr) -> [Expr; N] {
        let Some(images) = self.images else {
            return self.sizes.lower_integer_sums(builder, self.names, channel, self.terms);
        };
        let sums = self.names.map(|name| builder.local(&format!("{name}_part"), Expr::i32(0)));
        let start = builder.let_("start", channel.clone() * Expr::index(self.sizes.space));
        builder.for_("i", self.sizes.space, |builder, i| {
            for (&sum, image) in sums.iter().zip(images) {
                let all = builder.get(sum) + builder.load(image, start.clone() + i.clone());
                builder.set(sum, all);
            }
        });
        sums.map(|sum| builder.get(sum).extend())
    }
}

/// Loads one element of a channel vector once.
pub(crate) fn load(builder: &mut LoopBuilder, name: &str, vector: Buffer, channel: &Expr) -> Expr {
    let value = builder.load(vector, channel.clone());
    builder.let_(name, value)
}

/// `1 / sqrt(variance + epsilon)` of a channel, by a local.
pub(crate) fn inverse_deviation(
    builder: &mut LoopBuilder,
    variance: Buffer,
    channel: &Expr,
    epsilon: F32,
) -> Expr {
    let value = builder.load(variance, channel.clone()) + Expr::f32(epsilon.get());
    builder.let_("inverse", Expr::f32(1.0).divide(value.unary(Unary::Sqrt)))
}
