//! Loops of batch normalization in training for a scalar core: partial sums stay in registers, four at a time, each with
//! the elements that it adds in their order; a normal that two passes need is kept, for one channel at a time.
//!
//! The bits are those of the generic loops, which walk all 16 partial sums in memory side by side.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Expr, LoopKernel, Unary};
use trainc_ir::ops::BatchNormGradient;
use trainc_ir::{Element, TensorType};

/// Partial sums of a sum, by the definition of batch statistics.
const PARTS: usize = 16;
/// Partial sums that are in registers at a time, of all sums together: more leave too few registers for rounds to overlap.
const CHAINS: usize = 4;
/// Elements of a round of the second pass: an odd number of operations would leave a slot empty.
const PAIR: usize = 2;

/// A `[batch, channel, space...]` operand whose channels have whole rows of partial sums.
#[derive(Clone, Copy)]
struct Planes {
    batch: usize,
    channels: usize,
    space: usize,
}

impl Planes {
    fn of(x: &TensorType) -> Option<Planes> {
        let [batch, channels, space @ ..] = x.shape.dims() else { return None };
        let space = space.iter().product::<usize>();
        let whole = space > 0 && space.is_multiple_of(PARTS);
        whole.then_some(Planes { batch: *batch, channels: *channels, space })
    }

    fn count(self) -> Expr {
        Expr::f32((self.batch * self.space) as f32)
    }

    /// Stores a value for every element of a channel; `value` takes its place in the operand, and in the channel.
    fn each(
        self,
        b: &mut LoopBuilder,
        c: &Expr,
        to: Buffer,
        value: impl Fn(&mut LoopBuilder, Expr, Expr) -> Expr,
    ) {
        b.for_("b", self.batch, |b, n| {
            let (start, own) = self.starts(b, &n, c, &Expr::i64(0));
            b.for_("pair", self.space / PAIR, |b, pair| {
                let i = |k| pair.clone() * Expr::index(PAIR) + Expr::index(k);
                let place = |k| (start.clone() + i(k), own.clone() + i(k));
                let values = [0, 1].map(|k| {
                    let (i, own) = place(k);
                    let value = value(b, i, own);
                    b.let_("value", value)
                });
                (0..).zip(values).for_each(|(k, value)| b.store(to, place(k).0, value));
            });
        });
    }

    fn starts(self, b: &mut LoopBuilder, n: &Expr, c: &Expr, first: &Expr) -> (Expr, Expr) {
        let plane = n.clone() * Expr::index(self.channels) + c.clone();
        let start = plane * Expr::index(self.space) + first.clone();
        let own = n.clone() * Expr::index(self.space) + first.clone();
        (b.let_("start", start), b.let_("own", own))
    }

    /// Sums of a channel's terms in partial sums; `terms` takes an element's place in the operand, and in the channel.
    fn sums<const N: usize>(
        self,
        b: &mut LoopBuilder,
        parts: [Buffer; N],
        c: &Expr,
        terms: impl Fn(&mut LoopBuilder, Expr, Expr) -> [Expr; N],
    ) -> [Expr; N] {
        let chains = CHAINS / N;
        b.for_("chains", PARTS / chains, |b, some| {
            let first = b.let_("first", some * Expr::index(chains));
            let sums: [Vec<_>; N] = std::array::from_fn(|_| {
                (0..chains).map(|k| b.local(&format!("sum{k}"), Expr::f32(0.0))).collect()
            });
            b.for_("b", self.batch, |b, n| {
                let (start, own) = self.starts(b, &n, c, &first);
                b.for_("row", self.space / PARTS, |b, row| {
                    for k in 0..chains {
                        let i = row.clone() * Expr::index(PARTS) + Expr::index(k);
                        let terms = terms(b, start.clone() + i.clone(), own.clone() + i);
                        for (sums, term) in sums.iter().zip(terms) {
                            let sum = b.get(sums[k]) + term;
                            b.set(sums[k], sum);
                        }
                    }
                });
            });
            for (part, sums) in parts.iter().zip(sums) {
                for (k, sum) in sums.into_iter().enumerate() {
                    let sum = b.get(sum);
                    b.store(*part, first.clone() + Expr::index(k), sum);
                }
            }
        });
        parts.map(|part| {
            let sum = b.local("sum", Expr::f32(0.0));
            b.for_("p", PARTS, |b, p| {
                let value = b.get(sum) + b.load(part, p);
                b.set(sum, value);
            });
            let total = b.get(sum);
            b.let_("total", total)
        })
    }
}

fn parts(b: &mut LoopBuilder, name: &str) -> Buffer {
    b.scratch(name, Element::F32, PARTS)
}

/// The loops of batch statistics; `None` where the generic ones serve.
pub(crate) fn statistics(inputs: &[&TensorType], outputs: &[&TensorType]) -> Option<LoopKernel> {
    let planes = Planes::of(inputs[0])?;
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let (x, mean_of, variance_of) = (b.input(0), b.output(0), b.output(1));
    let parts = parts(&mut b, "parts");
    b.for_("c", planes.channels, |b, c| {
        let [sum] = planes.sums(b, [parts], &c, |b, i, _| [b.load(x, i)]);
        let mean = b.let_("mean", sum.divide(planes.count()));
        let [squares] = planes.sums(b, [parts], &c, |b, i, _| {
            let centred = b.load(x, i) - mean.clone();
            let centred = b.let_("centred", centred);
            [centred.clone() * centred]
        });
        b.store(mean_of, c.clone(), mean);
        b.store(variance_of, c, squares.divide(planes.count()));
    });
    Some(b.finish())
}

/// The loops of the gradient; `None` where the generic ones serve.
pub(crate) fn gradient(
    op: &BatchNormGradient,
    inputs: &[&TensorType],
    outputs: &[&TensorType],
) -> Option<LoopKernel> {
    let planes = Planes::of(inputs[0]).filter(|_| op.batch)?;
    let mut b = LoopBuilder::new(inputs, outputs, false);
    let [x, scale, mean, variance, dy] = [0, 1, 2, 3, 4].map(|i| b.input(i));
    let [dx, dscale, dbias] = [0, 1, 2].map(|i| b.output(i));
    let both = ["sums", "products"].map(|name| parts(&mut b, name));
    // Of one channel: `dx` may be where `x` or `dy` is.
    let normals = b.scratch("normals", Element::F32, planes.batch * planes.space);
    b.for_("c", planes.channels, |b, c| {
        let inverse = b.load(variance, c.clone()) + Expr::f32(op.epsilon.get());
        let inverse = Expr::f32(1.0).divide(inverse.unary(Unary::Sqrt));
        let inverse = b.let_("inverse", inverse);
        let mean = b.load(mean, c.clone());
        let mean = b.let_("mean", mean);
        let [sum, product] = planes.sums(b, both, &c, |b, i, own| {
            let normal = (b.load(x, i.clone()) - mean.clone()) * inverse.clone();
            let normal = b.let_("normal", normal);
            b.store(normals, own, normal.clone());
            let dy = b.load(dy, i);
            let dy = b.let_("dy", dy);
            [dy.clone(), dy * normal]
        });
        let factor = (b.load(scale, c.clone()) * inverse.clone()).divide(planes.count());
        let factor = b.let_("factor", factor);
        planes.each(b, &c, dx, |b, i, own| {
            let normal = b.load(normals, own);
            let error = planes.count() * b.load(dy, i) - sum.clone() - normal * product.clone();
            factor.clone() * error
        });
        b.store(dscale, c.clone(), product);
        b.store(dbias, c, sum);
    });
    Some(b.finish())
}
