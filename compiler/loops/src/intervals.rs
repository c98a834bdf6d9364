//! What is known about the integers of a loop kernel: an interval for each local and expression.
//!
//! The analysis does not follow the order of statements, but for sums: a local that is set once and then only added
//! to is bounded by the rounds of the loops between. It decides which arithmetic cannot overflow, and so may be
//! printed as plain C, which values fit narrow lanes, which indices fit 32 bits, and which loads are in bounds whatever
//! a condition says.

use trainc_ir::Element;
use trainc_ir::loops::{
    Binary, Buffer, Comparison, Expr, Local, LoopKernel, Node, Scalar, Stmt, Unary,
};

use crate::locals::Locals;

/// Smallest and largest value.
pub type Interval = (i128, i128);

/// Changes of a local's interval before what still grows is taken to have any value.
const PATIENCE: usize = 6;

/// All values of a type.
pub fn all(ty: Scalar) -> Interval {
    match ty {
        Scalar::I32 => (i32::MIN.into(), i32::MAX.into()),
        Scalar::I64 => (i64::MIN.into(), i64::MAX.into()),
        Scalar::Bool => (0, 1),
        // Floats have no interval; this one is never looked at.
        Scalar::F32 => (0, 0),
    }
}

/// Whether every value of `inner` is one of `outer`.
pub fn within(inner: Interval, outer: Interval) -> bool {
    outer.0 <= inner.0 && inner.1 <= outer.1
}

/// Whether every value fits 32 bits.
pub fn is_narrow(interval: Interval) -> bool {
    bits_of(interval) <= 32
}

fn join(a: Option<Interval>, b: Option<Interval>) -> Option<Interval> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, None) => a,
        (None, b) => b,
    }
}

/// Intervals of a kernel's locals.
#[derive(Clone, Debug)]
pub struct Intervals<'k> {
    kernel: &'k LoopKernel,
    /// `None` until something is assigned.
    locals: Vec<Option<Interval>>,
}

/// `x` of `local = local + x`, where `x` does not read the local.
pub fn addend(local: Local, value: &Expr) -> Option<&Expr> {
    let Node::Binary(Binary::Add, a, b) = &*value.node else { return None };
    match (&*a.node, &*b.node) {
        (Node::Local(l), _) if *l == local && !b.mentions(|l| l == local) => Some(b),
        (_, Node::Local(l)) if *l == local && !a.mentions(|l| l == local) => Some(a),
        _ => None,
    }
}

impl<'k> Intervals<'k> {
    /// Analyses a kernel whose locals have been.
    pub fn of_kernel(kernel: &'k LoopKernel, locals: &Locals) -> Intervals<'k> {
        let count = kernel.locals.len();
        let initial = |i: usize| match kernel.locals[i].1 {
            Scalar::F32 => Some((0, 0)),
            // A local that is declared before its first assignment starts as 0.
            _ if locals.is_hoisted(Local(i as u32)) => Some((0, 0)),
            _ => None,
        };
        let mut this = Intervals { kernel, locals: (0..count).map(initial).collect() };
        let mut changes = vec![0; count];
        loop {
            let mut pass = Pass {
                intervals: &this,
                locals,
                rounds: Vec::new(),
                next: this.locals.clone(),
                growth: vec![(0, 0); count],
            };
            pass.block(&kernel.body);
            let Pass { mut next, growth, .. } = pass;
            for (i, (interval, growth)) in next.iter_mut().zip(growth).enumerate() {
                if growth != (0, 0)
                    && let Some((low, high)) = locals.sum_start(i).and_then(|e| this.of(e))
                {
                    let grown = (low.saturating_add(growth.0), high.saturating_add(growth.1));
                    *interval = join(*interval, Some(grown));
                }
                let bounds = all(kernel.locals[i].1);
                changes[i] += usize::from(*interval != this.locals[i]);
                if interval.is_some_and(|v| changes[i] > PATIENCE || !within(v, bounds)) {
                    *interval = Some(bounds);
                }
            }
            if next == this.locals {
                break;
            }
            this.locals = next;
        }
        this
    }

    /// As [`Self::of_kernel`]; nothing is known of the locals of a kernel that uses a loop variable outside of its loop.
    pub fn of_any_kernel(kernel: &'k LoopKernel) -> Intervals<'k> {
        match Locals::of_kernel(kernel) {
            Ok(locals) => Intervals::of_kernel(kernel, &locals),
            Err(_) => {
                let types = kernel.locals.iter();
                Intervals { kernel, locals: types.map(|(_, ty)| Some(all(*ty))).collect() }
            }
        }
    }

    /// The interval of a local (everything if nothing is ever assigned).
    pub fn local(&self, local: Local) -> Interval {
        let i = local.0 as usize;
        self.locals[i].unwrap_or(all(self.kernel.locals[i].1))
    }

    /// The interval of an expression.
    pub fn get(&self, e: &Expr) -> Interval {
        self.of(e).unwrap_or(all(e.ty))
    }

    fn of(&self, e: &Expr) -> Option<Interval> {
        interval_of(e, self)
    }

    /// Whether a load is in bounds wherever its index can be computed.
    pub fn in_bounds(&self, buffer: Buffer, index: &Expr) -> bool {
        in_bounds(self.kernel, buffer, self.get(index))
    }
}

/// Whether an element with an index of these is one of a buffer.
pub fn in_bounds(kernel: &LoopKernel, buffer: Buffer, (low, high): Interval) -> bool {
    low >= 0 && high < kernel.buffers[buffer.0 as usize].count as i128
}

/// What is known of the leaves of expressions.
pub trait Leaves {
    /// The interval of a local; `None` if nothing is assigned to it so far.
    fn local(&self, local: Local) -> Option<Interval>;

    /// The interval of a buffer's elements.
    fn element(&self, buffer: Buffer) -> Interval;

    /// What a local always is, if that is known.
    fn definition(&self, _local: Local) -> Option<&Expr> {
        None
    }
}

impl Leaves for Intervals<'_> {
    fn local(&self, local: Local) -> Option<Interval> {
        self.locals.get(local.0 as usize).copied().flatten()
    }

    fn element(&self, buffer: Buffer) -> Interval {
        element_interval(self.kernel.buffers[buffer.0 as usize].element)
    }
}

/// The interval of an expression; `None` if it reads what nothing is assigned to.
pub fn interval_of(e: &Expr, leaves: &dyn Leaves) -> Option<Interval> {
    let of = |e: &Expr| interval_of(e, leaves);
    let all_values = all(e.ty);
    let fitting = |v: Interval| if within(v, all_values) { v } else { all_values };
    Some(match &*e.node {
        Node::Integer(value) => (i128::from(*value), i128::from(*value)),
        Node::Float(_) => (0, 0),
        Node::Local(local) => return leaves.local(*local),
        Node::Load(buffer, _) => leaves.element(*buffer),
        Node::Unary(op, x) => match op {
            Unary::Negate => {
                let (low, high) = of(x)?;
                fitting((-high, -low))
            }
            Unary::Extend | Unary::BoolToInteger => of(x)?,
            Unary::ExtendUnsigned => match of(x)? {
                (low, high) if low >= 0 => (low, high),
                _ => (0, u32::MAX.into()),
            },
            Unary::Truncate => fitting(of(x)?),
            Unary::LeadingZeros => (0, 32),
            _ => all_values,
        },
        Node::Binary(op, a, b) => exact(*op, e.ty, of(a)?, of(b)?).map_or(all_values, fitting),
        Node::Compare(..) => (0, 1),
        Node::Select(c, a, b) => match magnitude_of(c, a, b, leaves) {
            Some(x) => {
                let (low, high) = of(x)?;
                fitting((0, low.abs().max(high.abs())))
            }
            None => return join(of(a), of(b)),
        },
    })
}

/// `x` if a selection is `x < 0 ? -x : x` of integers.
pub fn magnitude_of<'e>(
    condition: &Expr,
    negated: &Expr,
    plain: &'e Expr,
    leaves: &dyn Leaves,
) -> Option<&'e Expr> {
    let Node::Unary(Unary::Negate, x) = &*negated.node else { return None };
    let condition = condition.as_local().and_then(|l| leaves.definition(l)).unwrap_or(condition);
    let Node::Compare(Comparison::Less, compared, zero) = &*condition.node else { return None };
    let same = x == plain && compared == plain && zero.as_constant() == Some(0);
    (same && plain.ty != Scalar::F32).then_some(plain)
}

/// Fewest bits of 8, 16, 32, 64 of a signed integer that hold all values.
pub fn bits_of((low, high): Interval) -> u32 {
    let fits = |bits: &u32| low >= -(1i128 << (bits - 1)) && high < 1i128 << (bits - 1);
    [8u32, 16, 32].into_iter().find(fits).unwrap_or(64)
}

/// The interval of the exact result, which may exceed the type; `None` if nothing is known.
pub fn exact(op: Binary, ty: Scalar, (a0, a1): Interval, (b0, b1): Interval) -> Option<Interval> {
    let width = if ty == Scalar::I32 { 32 } else { 64 };
    let amounts = || (b0.max(0) as u32, b1.clamp(0, width - 1) as u32);
    let largest = |x: i128, y: i128| x.abs().max(y.abs());
    let hull = |values: [i128; 4]| {
        let [first, rest @ ..] = values;
        rest.iter().fold((first, first), |(low, high), &v| (low.min(v), high.max(v)))
    };
    Some(match op {
        Binary::Add => (a0 + b0, a1 + b1),
        Binary::Subtract => (a0 - b1, a1 - b0),
        Binary::Multiply => hull([a0 * b0, a0 * b1, a1 * b0, a1 * b1]),
        // Toward zero is monotone.
        Binary::Divide if b0 == b1 && b0 > 0 => (a0 / b0, a1 / b0),
        Binary::Divide if a0 >= 0 && b0 > 0 => (0, a1),
        Binary::Divide => (-largest(a0, a1), largest(a0, a1)),
        Binary::Remainder => {
            let most = (largest(b0, b1) - 1).max(0);
            (if a0 >= 0 { 0 } else { -most }, if a1 <= 0 { 0 } else { most.min(largest(a0, a1)) })
        }
        Binary::Minimum => (a0.min(b0), a1.min(b1)),
        Binary::Maximum => (a0.max(b0), a1.max(b1)),
        Binary::And if a0 >= 0 && b0 >= 0 => (0, a1.min(b1)),
        Binary::And if a0 >= 0 => (0, a1),
        Binary::And if b0 >= 0 => (0, b1),
        Binary::Or | Binary::Xor if a0 >= 0 && b0 >= 0 => {
            (0, (1 << (128 - a1.max(b1).leading_zeros())) - 1)
        }
        Binary::And | Binary::Or | Binary::Xor => return None,
        Binary::ShiftLeft if b0 < 0 || b1 >= width => return None,
        Binary::ShiftLeft => {
            let (b0, b1) = amounts();
            hull([a0 << b0, a0 << b1, a1 << b0, a1 << b1])
        }
        Binary::ShiftRight => {
            let (b0, b1) = amounts();
            hull([a0 >> b0, a0 >> b1, a1 >> b0, a1 >> b1])
        }
        Binary::ShiftRightUnsigned if a0 >= 0 => {
            let (b0, b1) = amounts();
            (a0 >> b1, a1 >> b0)
        }
        Binary::ShiftRightUnsigned if b0 > 0 => (0, (1 << (width - b0).max(0)) - 1),
        Binary::ShiftRightUnsigned => return None,
    })
}

/// Values of a load.
pub fn element_interval(element: Element) -> Interval {
    match element {
        Element::F32 => (0, 0),
        Element::I2 | Element::I4 | Element::I8 => (i8::MIN.into(), i8::MAX.into()),
        Element::I16 => (i16::MIN.into(), i16::MAX.into()),
        Element::B1 | Element::U2 | Element::U4 | Element::U8 => (0, u8::MAX.into()),
        Element::U16 => (0, u16::MAX.into()),
        Element::I32 | Element::U32 => all(Scalar::I32),
    }
}

/// One round of the analysis.
struct Pass<'a, 'k> {
    intervals: &'a Intervals<'k>,
    locals: &'a Locals,
    /// Most rounds of each open loop.
    rounds: Vec<i128>,
    next: Vec<Option<Interval>>,
    /// What sums gain in all rounds.
    growth: Vec<Interval>,
}

impl Pass<'_, '_> {
    fn block(&mut self, block: &[Stmt]) {
        for statement in block {
            match statement {
                Stmt::Assign(local, value) => self.assign(*local, value),
                Stmt::Store(..) => {}
                Stmt::For { variable, start, end, body } => {
                    let bounds = (self.intervals.of(start), self.intervals.of(end));
                    let (Some((first, _)), Some((_, end))) = bounds else { continue };
                    if end <= first {
                        continue;
                    }
                    self.join(*variable, Some((first, end - 1)));
                    self.rounds.push(end - first);
                    self.block(body);
                    self.rounds.pop();
                }
                Stmt::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
            }
        }
    }

    fn join(&mut self, local: Local, interval: Option<Interval>) {
        let place = &mut self.next[local.0 as usize];
        *place = join(*place, interval);
    }

    fn assign(&mut self, local: Local, value: &Expr) {
        let i = local.0 as usize;
        let Some(depth) = self.locals.sum_depth(i) else {
            return self.join(local, self.intervals.of(value));
        };
        let Some(addend) = addend(local, value) else {
            return self.join(local, self.intervals.of(value));
        };
        let Some((low, high)) = self.intervals.of(addend) else { return };
        let rounds = self.rounds[depth..].iter().fold(1i128, |n, r| n.saturating_mul(*r));
        let gain = (low.min(0).saturating_mul(rounds), high.max(0).saturating_mul(rounds));
        let growth = &mut self.growth[i];
        *growth = (growth.0.saturating_add(gain.0), growth.1.saturating_add(gain.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::TensorType;
    use trainc_ir::loops::builder::LoopBuilder;

    /// What is computed at the end of a long chain is as known as what it begins with.
    #[test]
    fn chains_stay_known() {
        let bytes = TensorType::shared([4], Element::I8);
        let mut b = LoopBuilder::new(&[&bytes], &[&bytes], false);
        let (x, y) = (b.input(0), b.output(0));
        b.for_("i", 4, |b, i| {
            let mut sum = b.load(x, i.clone());
            for _ in 0..3 * PATIENCE {
                sum = b.let_("sum", sum + Expr::i32(1));
            }
            b.store(y, i, sum);
        });
        let kernel = b.finish();
        let intervals = Intervals::of_any_kernel(&kernel);
        let added = 3 * PATIENCE as i128;
        let last = Local(kernel.locals.len() as u32 - 1);
        assert_eq!(intervals.local(last), (added - 128, added + 127));
    }

    /// What grows from round to round has any value.
    #[test]
    fn what_grows_is_given_up() {
        let bytes = TensorType::shared([4], Element::I8);
        let mut b = LoopBuilder::new(&[&bytes], &[&bytes], false);
        let (x, y) = (b.input(0), b.output(0));
        let product = b.local("product", Expr::i32(1));
        b.for_("i", 4, |b, i| {
            let grown = b.get(product) * b.load(x, i.clone());
            b.set(product, grown);
            let all = b.get(product);
            b.store(y, i, all);
        });
        let kernel = b.finish();
        let local = (0..kernel.locals.len()).find(|&i| kernel.locals[i].0 == "product");
        let local = Local(local.expect("it is there") as u32);
        assert_eq!(Intervals::of_any_kernel(&kernel).local(local), all(Scalar::I32));
    }
}
