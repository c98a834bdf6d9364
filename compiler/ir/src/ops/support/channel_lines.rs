//! Sums of 8-bit codes by integer coefficients of each channel, `a[c] * p + b[c] * q + r[c]`: what FP32 coefficients become beside
//! one exponent, evaluation, and loops.

use crate::loops::builder::LoopBuilder;
use crate::loops::{Buffer, Expr, Unary};
use crate::numeric::dither::DitherLoop;
use crate::numeric::integer::{self, HalvesShift, RightShift, SmallShift};
use crate::numeric::{self, Rounding, exponent};
use crate::ops::support::channels::{ChannelWalk, Channels};
use crate::ops::{Op, Requantize, RequantizeStochastic};
use crate::tensor::Tensor;
use crate::types::Element;

/// Bits of the magnitude of what a code is multiplied by.
const FACTOR_BITS: i64 = 15;
/// Bits of the magnitude of what is added: no sum overflows beside two products of 22 bits.
const OFFSET_BITS: i64 = 30;
/// In the place of a largest magnitude of 0.
const LEAST: f32 = f32::from_bits(1);

/// FP32 coefficients of one channel: of the codes of each operand, and what is added.
pub(crate) struct Line<const N: usize, T> {
    /// What a code of each operand stands for, without the operand's exponent.
    pub(crate) factors: [T; N],
    /// What is added.
    pub(crate) offset: T,
}

/// As integers beside an exponent: `factors[n][c]`, `offsets[c]`.
struct Integers<const N: usize> {
    factors: [Vec<i32>; N],
    offsets: Vec<i32>,
    exponent: i64,
}

/// The exponent is the least at which each factor's magnitude stays below 2^15 and each offset's within 2^30, by the powers of two
/// that bound their largest; then all are rounded to nearest, ties to even.
fn integers<const N: usize>(lines: &[Line<N, f32>], exponents: [i32; N]) -> Integers<N> {
    let column = |f: &dyn Fn(&Line<N, f32>) -> f32| lines.iter().map(f).collect::<Vec<f32>>();
    let factors: [Vec<f32>; N] = std::array::from_fn(|n| column(&|line| line.factors[n]));
    let offsets = column(&|line| line.offset);
    let width =
        |values: &[f32]| i64::from(numeric::ceil_log2(numeric::largest_finite(values).max(LEAST)));
    let bounds = (0..N).map(|n| i64::from(exponents[n]) + width(&factors[n]) - FACTOR_BITS);
    let exponent = bounds.fold(width(&offsets) - OFFSET_BITS, i64::max);
    let round = |values: &[f32], by: i64, limit: i32| {
        let by = by.clamp(-1000, 1000) as i32;
        let rounded = |&x: &f32| numeric::scale_by_power_of_two(x, by).round_ties_even() as i32;
        values.iter().map(|x| rounded(x).clamp(-limit, limit)).collect::<Vec<i32>>()
    };
    Integers {
        factors: std::array::from_fn(|n| {
            round(&factors[n], i64::from(exponents[n]) - exponent, (1 << FACTOR_BITS) - 1)
        }),
        offsets: round(&offsets, -exponent, 1 << OFFSET_BITS),
        exponent,
    }
}

/// The sums of some operands' codes as i32 with a shared exponent.
pub(crate) fn evaluate<const N: usize>(
    sizes: Channels,
    operands: [&Tensor; N],
    lines: &[Line<N, f32>],
) -> Tensor {
    let integers = integers(lines, operands.map(Tensor::exponent));
    let codes = operands.map(Tensor::to_i64);
    let mut sums = vec![0i32; codes[0].len()];
    for c in 0..sizes.channels {
        for i in sizes.runs(c).flatten() {
            let products = (0..N).map(|n| integers.factors[n][c] * codes[n][i] as i32);
            sums[i] = products.sum::<i32>() + integers.offsets[c];
        }
    }
    Tensor::i32_shared(operands[0].shape().clone(), sums, integers.exponent as i32)
}

/// What loops that round sums are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaneWidths {
    /// Any machine: sums are not kept, and rounded in words.
    Words,
    /// Vectors whose lanes halve for one instruction a pair: sums that are measured one by one are kept, and rounded in halves of
    /// words.
    Halves,
    /// A machine that rounds by a function of its own, for which what it takes is left in working memory.
    Own,
}

/// What brings sums to 8 bits as they are made.
#[derive(Clone, Copy)]
pub(crate) enum RoundedSums<'a> {
    Fixed(&'a Requantize),
    Stochastic(&'a RequantizeStochastic),
}

/// The 8 bits of sum number `i`.
type Rounded<'a> = Box<dyn FnOnce(&mut LoopBuilder, Expr, &Expr) -> Expr + 'a>;

impl<'a> RoundedSums<'a> {
    /// The rounding that an operation is.
    pub(crate) fn of(op: &'a Op) -> Option<RoundedSums<'a>> {
        match op {
            Op::Requantize(op) => Some(RoundedSums::Fixed(op)),
            Op::RequantizeStochastic(op) => Some(RoundedSums::Stochastic(op)),
            _ => None,
        }
    }

    /// Whether it draws random numbers.
    pub(crate) fn draws(self) -> bool {
        matches!(self, RoundedSums::Stochastic(_))
    }

    /// Sets the result's exponent, and stores the shift and the key of the random bits (0 where there are none).
    fn leave(self, b: &mut LoopBuilder, magnitudes: Expr, exponent: Expr) {
        let left = b.scratch("rounding", Element::I32, 2);
        let (shift, key) = match self {
            RoundedSums::Fixed(op) => (op.shift(b, magnitudes, exponent), Expr::i32(0)),
            RoundedSums::Stochastic(op) => {
                let shift = RequantizeStochastic::amount(b, magnitudes, exponent);
                (shift, b.draw(op.stream, Expr::i64(0)))
            }
        };
        b.store(left, Expr::i64(0), shift);
        b.store(left, Expr::i64(1), key);
    }

    /// Sets the result's exponent: what rounds one sum.
    fn prepare(
        self,
        b: &mut LoopBuilder,
        lanes: LaneWidths,
        magnitudes: Expr,
        exponent: Expr,
    ) -> Rounded<'a> {
        match self {
            RoundedSums::Fixed(op) => {
                let s = op.shift(b, magnitudes, exponent);
                if op.rounding == Rounding::HalfAway && lanes == LaneWidths::Halves && op.bits == 7
                {
                    // Shifts of 8 bits' magnitudes below 25.
                    let shift = HalvesShift::new(b, s.minimum(Expr::i32(24)));
                    return Box::new(move |b, sum, _| {
                        let q = shift.apply(b, sum);
                        op.clamped(q)
                    });
                }
                if op.rounding == Rounding::HalfAway {
                    // Sums stay below 2^30 + 2^23, shifts below 25.
                    let shift = SmallShift::new(b, s);
                    return Box::new(move |b, sum, _| {
                        let q = shift.apply(b, sum);
                        op.clamped(q)
                    });
                }
                let shift = RightShift::run_time(b, s, op.rounding);
                Box::new(move |b, sum, _| {
                    let q = shift.apply(b, sum);
                    op.clamped(q)
                })
            }
            RoundedSums::Stochastic(op) => {
                let dither = DitherLoop::new(b, op.stream);
                let shift = RequantizeStochastic::shift(b, magnitudes, exponent);
                Box::new(move |b, sum, i| RequantizeStochastic::rounded(b, &dither, &shift, sum, i))
            }
        }
    }
}

/// The loops of sums: the operands by position, and the FP32 coefficients of a channel.
pub(crate) struct Lines<'a, const N: usize> {
    /// Sizes of each operand.
    pub(crate) sizes: Channels,
    /// How loops go through them.
    pub(crate) walk: ChannelWalk,
    /// Positions of the operands.
    pub(crate) operands: [usize; N],
    /// The coefficients of a channel.
    pub(crate) line: &'a dyn Fn(&mut LoopBuilder, &Expr) -> Line<N, Expr>,
}

impl<const N: usize> Lines<'_, N> {
    /// i32 sums with a shared exponent.
    pub(crate) fn lower(&self, b: &mut LoopBuilder) {
        let integers = self.integers(b);
        b.set_output_exponent(0, integers.exponent.clone().truncate());
        let y = b.output(0);
        self.each(b, &integers, |b, sum, i| b.store(y, i, sum));
    }

    /// The sums rounded to 8 bits. In words they are not kept: they are made once for their width and once more for the result.
    /// With [`LaneWidths::Own`] no result is made: what rounds has the sums in `sums` or, where they are of one code each and rounded to
    /// nearest, the coefficients of channels in `codes0` and `added`; and in `rounding` the shift and the key of the random bits.
    pub(crate) fn lower_rounded(
        &self,
        b: &mut LoopBuilder,
        rounding: RoundedSums<'_>,
        lanes: LaneWidths,
    ) {
        let integers = self.integers(b);
        let count = self.sizes.batch * self.sizes.image();
        let by_extremes = N == 1 && self.walk == ChannelWalk::Channels && !rounding.draws();
        let kept = (lanes != LaneWidths::Words && !by_extremes)
            .then(|| b.scratch("sums", Element::I32, count));
        let bits = b.local("magnitude_bits", Expr::i32(0));
        let y = b.output(0);
        let measure = |b: &mut LoopBuilder, sum: Expr| {
            let sum = b.let_("sum", sum);
            let all = b.get(bits).or(integer::magnitude(sum));
            b.set(bits, all);
        };
        if let Some(kept) = kept {
            self.each(b, &integers, |b, sum, i| {
                let sum = b.let_("sum", sum);
                measure(b, sum.clone());
                b.store(kept, i, sum);
            });
        } else if N == 1 && self.walk == ChannelWalk::Channels {
            b.for_("c", self.sizes.channels, |b, c| {
                let line = integers.of(b, &c);
                // A sum moves one way with its code: the least code and the greatest give the largest.
                let [least, greatest] = self.extremes(b, &c);
                for code in [least, greatest] {
                    measure(b, code * line.factors[0].clone() + line.offset.clone());
                }
            });
        } else {
            self.each(b, &integers, |b, sum, _| measure(b, sum));
        }
        let magnitudes = b.get(bits);
        let exponent = integers.exponent.clone().truncate();
        if lanes == LaneWidths::Own {
            return rounding.leave(b, magnitudes, exponent);
        }
        if let (RoundedSums::Stochastic(op), Some(kept)) = (rounding, kept) {
            return op.round_in_halves(b, kept, count, magnitudes, exponent);
        }
        let rounded = rounding.prepare(b, lanes, magnitudes, exponent);
        if let Some(kept) = kept {
            return b.for_("i", count, |b, i| {
                let sum = b.load(kept, i.clone());
                let rounded = rounded(b, sum, &i);
                b.store(y, i, rounded);
            });
        }
        self.each(b, &integers, |b, sum, i| {
            let rounded = rounded(b, sum, &i);
            b.store(y, i, rounded);
        });
    }

    /// Loops over all sums and their flat indices.
    fn each(
        &self,
        b: &mut LoopBuilder,
        integers: &IntegerLoops<N>,
        body: impl FnOnce(&mut LoopBuilder, Expr, Expr),
    ) {
        let sizes = self.sizes;
        match self.walk {
            ChannelWalk::Channels => b.for_("c", sizes.channels, |b, c| {
                let line = integers.of(b, &c);
                sizes.lower(b, &c, |b, i| {
                    let sum = self.sum(b, &line, &i);
                    body(b, sum, i);
                });
            }),
            ChannelWalk::Images => b.for_("b", sizes.batch, |b, n| {
                let start = b.let_("start", n * Expr::index(sizes.image()));
                b.for_("i", sizes.image(), |b, own| {
                    let line = integers.beside(b, &own);
                    let i = start + own;
                    let sum = self.sum(b, &line, &i);
                    body(b, sum, i);
                });
            }),
        }
    }

    fn sum(&self, b: &mut LoopBuilder, line: &Line<N, Expr>, i: &Expr) -> Expr {
        let products =
            (0..N).map(|n| b.load(b.input(self.operands[n]), i.clone()) * line.factors[n].clone());
        let products = products.reduce(|sum, product| sum + product).expect("an operand");
        products + line.offset.clone()
    }

    /// The least and the greatest code of a channel; no elements give the other way round.
    fn extremes(&self, b: &mut LoopBuilder, c: &Expr) -> [Expr; 2] {
        let x = b.input(self.operands[0]);
        let least = b.local("least", Expr::i32(127));
        let greatest = b.local("greatest", Expr::i32(-128));
        self.sizes.lower(b, c, |b, i| {
            let code = b.load(x, i);
            let code = b.let_("code", code);
            let less = b.get(least).minimum(code.clone());
            b.set(least, less);
            let greater = b.get(greatest).maximum(code);
            b.set(greatest, greater);
        });
        [b.get(least), b.get(greatest)]
    }

    /// Working memory with each channel's coefficients as integers, and their exponent (I64).
    fn integers(&self, b: &mut LoopBuilder) -> IntegerLoops<N> {
        let channels = self.sizes.channels;
        let factors: [Buffer; N] =
            std::array::from_fn(|n| b.scratch(&format!("factors{n}"), Element::F32, channels));
        let offsets = b.scratch("offsets", Element::F32, channels);
        b.for_("c", channels, |b, c| {
            let line = (self.line)(b, &c);
            for (buffer, factor) in factors.into_iter().zip(line.factors) {
                b.store(buffer, c.clone(), factor);
            }
            b.store(offsets, c, line.offset);
        });
        let width = |b: &mut LoopBuilder, buffer: Buffer| {
            let largest = exponent::largest_finite(b, buffer, channels);
            exponent::ceil_log2(b, largest.maximum(Expr::f32(LEAST))).extend()
        };
        let mut exponent = width(b, offsets) - Expr::i64(OFFSET_BITS);
        let own = self.operands.map(|n| {
            let own = b.input_exponent(n).extend();
            b.let_("own", own)
        });
        for (buffer, own) in factors.into_iter().zip(&own) {
            let bound = own.clone() + width(b, buffer) - Expr::i64(FACTOR_BITS);
            exponent = exponent.maximum(bound);
        }
        let exponent = b.let_("exponent", exponent);
        let integers = |b: &mut LoopBuilder, name: &str, from: Buffer, by: Expr, limit: i32| {
            let by = by.maximum(Expr::i64(-1000)).minimum(Expr::i64(1000)).truncate();
            let [first, second] = exponent::power_of_two_factors(b, by);
            let to = b.scratch(name, Element::I32, channels);
            b.for_("c", channels, |b, c| {
                let scaled = b.load(from, c.clone()) * first * second;
                let q = scaled.unary(Unary::RoundTiesEven).unary(Unary::ToInteger);
                b.store(to, c, integer::clamp(q, -limit, limit));
            });
            to
        };
        let factors = std::array::from_fn(|n| {
            let by = own[n].clone() - exponent.clone();
            integers(b, &format!("codes{n}"), factors[n], by, (1 << FACTOR_BITS) - 1)
        });
        let by = Expr::i64(0) - exponent.clone();
        let offsets = integers(b, "added", offsets, by, 1 << OFFSET_BITS);
        let mut loops = IntegerLoops { factors, offsets, images: None, exponent };
        if self.walk == ChannelWalk::Images {
            loops.images = Some(self.images(b, &loops));
        }
        loops
    }

    /// Working memory with the coefficients beside each element of an image.
    fn images(&self, b: &mut LoopBuilder, integers: &IntegerLoops<N>) -> ([Buffer; N], Buffer) {
        let count = self.sizes.image();
        let factors: [Buffer; N] =
            std::array::from_fn(|n| b.scratch(&format!("factor{n}_of"), Element::I16, count));
        let offsets = b.scratch("offset_of", Element::I32, count);
        b.for_("c", self.sizes.channels, |b, c| {
            let line = integers.of(b, &c);
            let start = b.let_("start", c * Expr::index(self.sizes.space));
            b.for_("i", self.sizes.space, |b, i| {
                let i = start + i;
                for (&to, factor) in factors.iter().zip(&line.factors) {
                    b.store(to, i.clone(), factor.clone());
                }
                b.store(offsets, i, line.offset.clone());
            });
        });
        (factors, offsets)
    }
}

/// [`Integers`] of a loop kernel.
struct IntegerLoops<const N: usize> {
    factors: [Buffer; N],
    offsets: Buffer,
    /// Factors and offsets of each element of an image.
    images: Option<([Buffer; N], Buffer)>,
    exponent: Expr,
}

impl<const N: usize> IntegerLoops<N> {
    /// The coefficients beside an element of an image.
    fn beside(&self, b: &mut LoopBuilder, own: &Expr) -> Line<N, Expr> {
        let (factors, offsets) = self.images.expect("a walk by images");
        Line {
            factors: factors.map(|factors| b.load(factors, own.clone())),
            offset: b.load(offsets, own.clone()),
        }
    }

    /// The coefficients of a channel, loaded once.
    fn of(&self, b: &mut LoopBuilder, c: &Expr) -> Line<N, Expr> {
        let factors = self.factors.map(|buffer| {
            // Within 16 bits, which loops of vectors are told so.
            let factor = integer::clamp(
                b.load(buffer, c.clone()),
                -(1 << FACTOR_BITS) + 1,
                (1 << FACTOR_BITS) - 1,
            );
            b.let_("factor", factor)
        });
        let offset = b.load(self.offsets, c.clone());
        Line { factors, offset: b.let_("offset", offset) }
    }
}
