//! Random loops over neighbouring elements, long enough for vectors, against the evaluation of loop kernels.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Binary, Comparison, Expr, Scalar, Unary};
use trainc_ir::{Element, RunContext, ScaleData, Tensor, TensorType};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check};

const ELEMENTS: [Element; 6] =
    [Element::I8, Element::U8, Element::I16, Element::U16, Element::I32, Element::U32];

struct Generator {
    random: Random,
    /// Loaded values, locals, and what stays the same.
    leaves: Vec<Expr>,
    /// Operations that keep values small alone.
    small: bool,
}

impl Generator {
    fn below(&mut self, n: usize) -> usize {
        (self.random.next() >> 33) as usize % n
    }

    fn number(&mut self) -> i32 {
        let any = self.random.next();
        if self.small {
            return (any >> 56) as i8 as i32;
        }
        match self.below(3) {
            0 => [0, 1, -1, 127, -128, i32::MAX, i32::MIN][self.below(7)],
            1 => (any >> 40) as i32,
            _ => (any >> 32) as i32 >> 26,
        }
    }

    fn truth(&mut self, depth: usize) -> Expr {
        let comparison = [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessEqual,
            Comparison::LessUnsigned,
        ][self.below(5)];
        let compared = self.expr(depth).compare(comparison, self.expr(depth));
        match self.below(7) {
            0 => compared.and(self.truth(depth.saturating_sub(1))),
            1 => compared.or(self.truth(depth.saturating_sub(1))),
            2 => compared.xor(self.truth(depth.saturating_sub(1))),
            3 => compared.unary(Unary::Not),
            4 => {
                let (a, b) =
                    (self.expr(depth).less(Expr::i32(9)), self.expr(depth).equal(Expr::i32(1)));
                compared.select(a, b)
            }
            _ => compared,
        }
    }

    fn expr(&mut self, depth: usize) -> Expr {
        if depth == 0 {
            if self.below(4) == 0 {
                return Expr::i32(self.number());
            }
            let at = self.below(self.leaves.len());
            return self.leaves[at].clone();
        }
        let d = depth - 1;
        let (a, b) = (self.expr(d), self.expr(d));
        let small = [3, 4, 5, 6, 7, 8, 10, 12, 13, 14];
        let kind = if self.small { small[self.below(10)] } else { self.below(15) };
        match kind {
            0 => a.shift_left(b.and(Expr::i32(31))),
            1 => a.shift_right(b.and(Expr::i32(31))),
            2 => a.shr_unsigned(b.and(Expr::i32(31))),
            3 => a.minimum(b),
            4 => a.maximum(b),
            5 => a.and(b),
            6 => a.or(b),
            7 => a.xor(b),
            8 => a.unary(Unary::Negate),
            9 => a * b,
            10 => a - b,
            11 => a.unary(Unary::LeadingZeros),
            12 => self.truth(d).select(a, b),
            13 => self.truth(d).unary(Unary::BoolToInteger),
            _ => a + b,
        }
    }
}

#[test]
fn random_vectors() {
    let run = RunContext::default();
    let (mut image, mut text) = (Image::default(), String::new());
    let (mut vectors, mut bytes) = (0, 0);
    for n in 0..240u64 {
        let mut random = Random(n * 131 + 17);
        random.next();
        let mut g = Generator { random, leaves: Vec::new(), small: n >= 120 };
        let count = 100 + g.below(500);
        let inputs: Vec<TensorType> = (0..3)
            .map(|_| {
                TensorType::new(
                    [count + 3],
                    ELEMENTS[if g.small { 2 * g.below(2) } else { g.below(6) }],
                )
            })
            .collect();
        let stored = ELEMENTS[g.below(if g.small { 4 } else { 6 })];
        let outputs = [TensorType::new([count], stored), TensorType::new([4], Element::I32)];
        let types: Vec<&TensorType> = inputs.iter().collect();
        let mut builder = LoopBuilder::new(&types, &outputs.iter().collect::<Vec<_>>(), false);
        let folded = [Binary::Add, Binary::Or, Binary::Minimum, Binary::Maximum];
        let used = 1 + g.below(3);
        let locals: Vec<_> = (0..4).map(|k| builder.local("sum", Expr::i32(3 * k - 5))).collect();
        let invariant = builder.load(builder.input(0), Expr::i64(2));
        let invariant = builder.let_("same", invariant);
        let y = builder.output(0);
        builder.for_("i", count, |b, i| {
            g.leaves.push(invariant.clone());
            for k in 0..used {
                let offset = Expr::i64(g.below(4) as i64);
                let value = b.load(b.input(k), i.clone() + offset);
                g.leaves.push(b.let_("x", value));
            }
            let value = g.expr(2);
            let value = b.let_("value", value);
            g.leaves.push(value);
            let truth = g.truth(1);
            let truth = b.let_("truth", truth);
            assert_eq!(truth.ty, Scalar::Bool);
            let (p, q) = (g.expr(1), g.expr(1));
            g.leaves.push(b.let_("chosen", truth.select(p, q)));
            let stored = g.expr(2);
            b.store(y, i.clone(), stored);
            for (k, op) in folded.into_iter().enumerate() {
                if !g.small && g.below(2) == 0 {
                    let (sum, more) = (b.get(locals[k]), g.expr(1));
                    b.set(locals[k], sum.binary(op, more));
                }
            }
        });
        let sums = builder.output(1);
        for (k, local) in locals.iter().enumerate() {
            let value = builder.get(*local);
            builder.store(sums, Expr::i64(k as i64), value);
        }
        let kernel = builder.finish();
        let operands: Vec<Tensor> = inputs
            .iter()
            .map(|ty| {
                let values: Vec<i64> = (0..ty.count()).map(|_| i64::from(g.number())).collect();
                Tensor::from_i64(ty, &values, ScaleData::None)
            })
            .collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let meaning = trainc_ir::loops::evaluate::run(&kernel, &operands, &outputs, &run);
        let name = format!("kernel_{n}");
        let code = assembly(&name, &kernel);
        vectors += usize::from(code.contains("vmemu"));
        bytes +=
            usize::from(n >= 120 && (code.contains(".b = vsub") || code.contains(".h = vsub")));
        text.push_str(&code);
        image.kernel(&name, &format!("random {n}"), &kernel, &operands, &meaning, &run);
    }
    let packets = check(&folder("vectors"), &image, &text);
    println!(
        "240 loops, {vectors} on vectors, {bytes} subtract in bytes or halves: {packets} packets"
    );
    assert!(bytes > 10, "{bytes} loops have narrow lanes");
    assert!(vectors > 200, "{vectors} of 240 loops run on vectors");
}
