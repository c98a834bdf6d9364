//! Hooks of loops whose rounds may run in any order, and which loops these are.

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{Expr, LoopKernel};
use trainc_ir::ops::{IntegerMaxPool2d, ScaleShift};
use trainc_ir::target::Target;
use trainc_ir::{Element, Op, TensorType};

use crate::support::{program, text};

/// A hook that runs the rounds one by one, the last one first.
pub(crate) const REVERSED: &str = "\
#define TRAINC_PARALLEL_FOR(context, count, body) \\
    for (int32_t backwards = (count); backwards-- > 0;) { body(context, backwards, backwards + 1); }
";

/// A hook that divides the rounds among three threads.
pub(crate) const THREADS_HEADER: &str = "\
void on_threads(void *context, int32_t count, trainc_body body);
#define TRAINC_PARALLEL_FOR(context, count, body) on_threads(context, count, body)
";

pub(crate) const THREADS_FLAGS: &[&str] =
    &["-O1", "-fsanitize=thread", "-pthread", "-DTRAINC_HOOKS=\"threads.h\""];

/// Three threads, each with a third of the rounds (the last with what is left over).
pub(crate) const THREADS_SOURCE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include "trainc_rt.h"
struct third { void *context; trainc_body body; int32_t begin, end; };
static void *run(void *of)
{
    const struct third *third = of;
    if (third->begin < third->end) {
        third->body(third->context, third->begin, third->end);
    }
    return NULL;
}
void on_threads(void *context, int32_t count, trainc_body body)
{
    struct third thirds[3];
    pthread_t threads[3];
    for (int32_t i = 0; i < 3; i++) {
        thirds[i] = (struct third){ context, body, i * (count / 3), i == 2 ? count : (i + 1) * (count / 3) };
        if (pthread_create(&threads[i], NULL, run, &thirds[i]) != 0) {
            abort();
        }
    }
    for (int32_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
}
"#;

/// A kernel over an i32 operand and result of 64 elements: four rounds, in each a loop of 16.
fn kernel(make: impl FnOnce(&mut LoopBuilder)) -> LoopKernel {
    let ty = TensorType::new([64], Element::I32);
    let mut builder = LoopBuilder::new(&[&ty], &[&ty], false);
    make(&mut builder);
    builder.finish()
}

fn is_divided(make: impl FnOnce(&mut LoopBuilder)) -> bool {
    trainc_c::function("kernel", &kernel(make)).expect("it prints").contains("TRAINC_PARALLEL_FOR")
}

/// `y[stride * round + i] = x[stride * round + i + shift]`.
fn copies(stride: usize, shift: usize) -> bool {
    is_divided(|b| {
        b.for_("round", 4, |b, round| {
            b.for_("i", 16, |b, i| {
                let at = b.let_("at", round.clone() * Expr::index(stride) + i);
                let x = b.load(b.input(0), at.clone() + Expr::index(shift));
                b.store(b.output(0), at, x);
            });
        });
    })
}

#[test]
fn rounds_that_write_apart_are_divided() {
    assert!(copies(16, 0));
}

#[test]
fn rounds_that_write_the_same_are_not() {
    assert!(!copies(15, 0));
    assert!(!copies(0, 0));
}

/// The operand may lie in the result's place.
#[test]
fn rounds_that_read_what_others_write_are_not() {
    assert!(!copies(16, 1));
    let back = |factor: i64| {
        is_divided(|b| {
            b.for_("round", 4, |b, round| {
                b.for_("i", 16, |b, i| {
                    let at = b.let_("at", round.clone() * Expr::index(16) + i.clone());
                    let from = round.clone() * Expr::i64(factor) + i;
                    let y = b.load(b.output(0), from);
                    b.store(b.output(0), at, y);
                });
            });
        })
    };
    assert!(back(16));
    assert!(!back(8));
}

/// Rows that share bytes of a packed result are not divided, rows of whole bytes are.
#[test]
fn packed_rows() {
    let is_divided = |op: Op, inputs: &[&TensorType]| {
        let results = op.infer(inputs).expect("the operands fit");
        let lowered = op.lower(inputs, &results.iter().collect::<Vec<_>>());
        trainc_c::function("kernel", &lowered).expect("it prints").contains("TRAINC_PARALLEL_FOR")
    };
    for (element, per_byte) in [(Element::I4, 2), (Element::U2, 4), (Element::U8, 1)] {
        for channels in [3, 4, 5, 6, 8] {
            let whole = channels % per_byte == 0;
            let (low, high) = element.integer_range().expect("an integer");
            let rescale = ScaleShift { shift: 3, low: low as i32, high: high as i32, element };
            let acc = TensorType::new([6, channels], Element::I32);
            let vector = TensorType::new([channels], Element::I32);
            let divided = is_divided(rescale.into(), &[&acc, &vector, &vector]);
            assert_eq!(divided, whole, "scale_shift to {element}, {channels}");
            let x = TensorType::new([1, 6, 8, channels], element);
            let pool = IntegerMaxPool2d { kernel: [2, 2], strides: [2, 2], pads: [0; 4] };
            assert_eq!(is_divided(pool.into(), &[&x]), whole, "max_pool of {element}, {channels}");
        }
    }
}

/// A sum over all rounds; the same within each.
#[test]
fn rounds_that_pass_a_local_on_are_not() {
    let sums = |outside: bool| {
        is_divided(|b| {
            let total = b.local("total", Expr::i32(0));
            b.for_("round", 4, |b, round| {
                let own = b.local("own", Expr::i32(0));
                b.for_("i", 16, |b, i| {
                    let sum = if outside { total } else { own };
                    let x = b.load(b.input(0), round.clone() * Expr::index(16) + i);
                    let more = b.get(sum) + x;
                    b.set(sum, more);
                });
                let value = b.get(own);
                b.store(b.output(0), round * Expr::index(16), value);
            });
            let value = b.get(total);
            b.store(b.output(0), Expr::index(63), value);
        })
    };
    assert!(sums(false));
    assert!(!sums(true));
}

#[test]
fn rounds_that_share_working_memory_are_not() {
    let through = |apart: bool| {
        is_divided(|b| {
            let scratch = b.scratch("t", Element::I32, 64);
            b.for_("round", 4, |b, round| {
                let place = if apart { round.clone() * Expr::index(16) } else { Expr::index(0) };
                b.for_("i", 16, |b, i| b.store(scratch, place.clone() + i, Expr::i32(1)));
                let value = b.load(scratch, place);
                b.store(b.output(0), round, value);
            });
        })
    };
    assert!(through(true));
    assert!(!through(false));
}

/// The products of a training step are divided, whatever the batch.
#[test]
fn products_are_divided() {
    for batch in [1, 4] {
        let source = text(
            &trainc_c::C.emit(&program("digits", "niti", batch)).expect("emitted"),
            "digits.c",
        );
        let kernels = source
            .split("static void ")
            .filter(|f| f.starts_with("conv2d") || f.starts_with("matmul"));
        let whole: Vec<&str> = kernels.filter(|f| f.contains("uint8_t *scratch)")).collect();
        assert!(whole.len() >= 8);
        for kernel in whole {
            let name = kernel.split('(').next().unwrap_or_default();
            assert!(kernel.contains("TRAINC_PARALLEL_FOR"), "batch {batch}: {name}");
        }
    }
}
