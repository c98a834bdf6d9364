//! Plans of vector loops, for a machine that takes all that a plan can say.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Buffer, Comparison, Expr, LoopKernel, Stmt};
use trainc_ir::{Element, TensorType};
use trainc_loops::{
    Form, Intervals, Known, Linear, Offers, Pair, Place, Reason, Reduction, Step, VectorLoop,
    Vectors, count_uses,
};

/// Lanes of 32 bits; eight rounds pay.
struct Machine;

impl Vectors for Machine {
    fn offers(&self) -> Offers {
        Offers { pairs: true, nests: true }
    }

    fn form<'e>(&self, e: &'e Expr, _: u32, _: &Known<'_>) -> Result<Form<'e>, Reason> {
        Ok(Form::of(e, 32))
    }

    fn reduction<'e>(&self, r: &'e Reduction, _: &Known<'_>) -> Result<Form<'e>, Reason> {
        Ok(Form::of_one(&r.value, 32))
    }

    fn least_rounds(&self, plan: &VectorLoop) -> i64 {
        8 + plan.reads_beyond()
    }
}

/// A kernel of a loop `i` over 32 bytes.
fn kernel(round: impl FnOnce(&mut LoopBuilder, [Buffer; 2], Expr)) -> LoopKernel {
    let [x, y] = [200, 64].map(|n| TensorType::new([n], Element::I8));
    let mut b = LoopBuilder::new(&[&x], &[&y], false);
    let buffers = [b.input(0), b.output(0)];
    b.for_("i", 32, |b, i| round(b, buffers, i));
    b.finish()
}

/// The plan of the outermost loop.
fn plan(kernel: &LoopKernel) -> Result<VectorLoop, Reason> {
    let (uses, intervals) = (count_uses(kernel, &kernel.body), Intervals::of_any_kernel(kernel));
    let found = kernel.body.iter().find_map(|statement| match statement {
        Stmt::For { variable, start, end, body } => Some((*variable, start, end, &body[..])),
        _ => None,
    });
    let (variable, start, end, body) = found.expect("a loop");
    let (uses, intervals) = (&uses[..], &intervals);
    VectorLoop::of(&Place { kernel, uses, intervals, variable, start, end, body }, &Machine)
}

#[test]
fn every_other_element_comes_in_pairs() {
    let two = |i: &Expr, more: i64| i.clone() * Expr::i64(2) + Expr::i64(more);
    let even = |i: Expr| i * Expr::i64(2);
    let of = |offsets: &'static [i64]| {
        plan(&kernel(|b, [x, y], i| {
            let loads = offsets.iter().map(|&n| b.load(x, two(&i, n)));
            let sum = loads.reduce(|a, b| a + b).expect("a load");
            b.store(y, i, sum);
        }))
        .expect("a plan")
    };
    let pair = |plan: &VectorLoop, n: i64| {
        let index = two(
            &Expr {
                ty: trainc_ir::loops::Scalar::I64,
                node: Box::new(trainc_ir::loops::Node::Local(plan.variable)),
            },
            n,
        );
        plan.pair(Buffer(0), &Linear::of(&index))
    };
    let both = of(&[1, 0]);
    assert_eq!([0, 1].map(|n| pair(&both, n)), [Pair { first: 0, both: true }; 2]);
    assert_eq!(both.reads_beyond(), 0);
    // The first two are neighbours; the third one is alone.
    let three = of(&[2, 0, 1]);
    assert_eq!(pair(&three, 2), Pair { first: 2, both: false });
    assert_eq!((pair(&three, 1).first, three.reads_beyond()), (0, 1));
    // A store waits for its neighbour, which does not come.
    let alone = plan(&kernel(|b, [x, y], i| {
        let value = b.load(x, i.clone());
        b.store(y, even(i), value);
    }));
    assert_eq!(alone, Err(Reason::Strided(Buffer(1), 2)));
    assert!(matches!(
        plan(&kernel(|b, [x, y], i| {
            let value = b.load(x, i.clone());
            b.store(y, even(i.clone()), value.clone());
            b.store(y, two(&i, 1), value);
        })),
        Ok(plan) if plan.accesses.len() == 3
    ));
}

#[test]
fn inner_loops_are_written_out_or_steps() {
    let of = |taps: usize| {
        plan(&kernel(|b, [x, y], i| {
            let sum = b.local("sum", Expr::i32(0));
            b.for_("tap", taps, |b, tap| {
                // Seven elements on in each tap: only the rounds are neighbours.
                let value = b.load(x, i.clone() + tap * Expr::i64(7));
                let more = b.get(sum) + value;
                b.set(sum, more);
            });
            let sum = b.get(sum);
            b.store(y, i, sum);
        }))
        .expect("a plan")
    };
    let written_out = of(4);
    assert_eq!(written_out.accesses.len(), 5);
    assert!(!written_out.steps.iter().any(|s| matches!(s, Step::Loop { .. })));
    let nested = of(6);
    let inside = nested.steps.iter().find_map(|s| match s {
        Step::Loop { steps, .. } => Some(steps),
        _ => None,
    });
    assert!(matches!(&inside.expect("a loop")[..], [Step::Change(..)]));
    assert!(nested.accesses.iter().any(|a| a.moves && !a.stored));
    // Loops inside that fill vectors are better.
    let better = plan(&kernel(|b, [x, y], i| {
        b.for_("j", 16, |b, j| {
            let value = b.load(x, i.clone() + j.clone());
            b.store(y, i * Expr::i64(0) + j, value);
        });
    }));
    assert_eq!(better, Err(Reason::InnerLoop));
}

#[test]
fn branches_are_selections_where_no_load_is_out_of_bounds() {
    let of = |reach: i64| {
        plan(&kernel(|b, [x, y], i| {
            let value = b.load(x, i.clone());
            let kept = b.local("kept", value.clone());
            b.if_(value.compare(Comparison::Less, Expr::i32(0)), |b| {
                let other = b.load(x, i.clone() + Expr::i64(reach));
                let other = b.let_("other", other);
                b.set(kept, other);
            });
            let kept = b.get(kept);
            b.store(y, i, kept);
        }))
    };
    assert!(of(168).is_ok());
    assert_eq!(of(169), Err(Reason::Speculation));
}
