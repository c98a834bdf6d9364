//! Products that take their batch in parts: with every way to divide them the bits of the whole.

use std::collections::BTreeSet;

use trainc_ir::batch_split::{MicroBatch, Splitting};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::matmul::ProductRole;
use trainc_ir::ops::{
    AlignedAdd, Chain, Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul, QuantizeGradient,
    Relu, Requantize,
};
use trainc_ir::program::Program;
use trainc_ir::target::Target;
use trainc_ir::{Op, Tensor, TensorType};
use trainc_opt::plan::PlanOptions;
use trainc_tests::cases::{self, Case, GraphCase, Place};
use trainc_tests::random::Random;

use super::exceptions::{self, Suite};
use super::products::{InferShape, Shape, Values, tensor};
use super::{folder, side_by_side};

/// Images whose bytes, and those of some channels, are whole vectors of any target, and odd ones.
const SHAPES: &[Shape] = &[
    (4, 1, [16, 32], [8, 8], [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 1, [8, 128], [4, 8], [3, 3], [1, 1], [1, 1], [1; 4]),
    (6, 1, [32, 8], [8, 8], [1, 1], [2, 2], [1, 1], [0; 4]),
    (6, 2, [16, 8], [4, 8], [3, 3], [1, 1], [1, 1], [1; 4]),
    (4, 1, [5, 7], [9, 7], [3, 3], [1, 1], [1, 1], [1; 4]),
    (2, 1, [64, 32], [4, 8], [3, 3], [1, 1], [1, 1], [1; 4]),
];

/// What is asked of each: numbers of images, and local memories that hold ever less.
const ASKED: [(MicroBatch, usize); 4] = [
    (MicroBatch::Images(3), 1),
    (MicroBatch::Images(1), 1),
    (MicroBatch::Fit, 24 << 10),
    (MicroBatch::Fit, 13 << 10),
];

fn all() -> Vec<GraphCase> {
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    let values = [(Values::Any, Values::Any), (Values::Extremes, Values::All(-128))];
    let mut cases = Vec::new();
    let mut push = |op: Op, shapes: [&[usize]; 2]| {
        let n = cases.len();
        let (a, b) = values[n % 2];
        let mut inputs = vec![tensor(&mut random, shapes[0], a), tensor(&mut random, shapes[1], b)];
        let types: Vec<&TensorType> = inputs.iter().map(Tensor::ty).collect();
        let sums = op.infer(&types).expect("it types").remove(0);
        let rounding = Rounding::HalfAway;
        let rest: Vec<Op> = match n % 4 {
            0 => vec![],
            1 => vec![Requantize { bits: 7, rounding, low: -127 }.into()],
            2 => {
                inputs.push(Tensor::i32([0usize; 0], vec![5]));
                vec![QuantizeGradient { rounding: Rounding::PseudoStochastic }.into()]
            }
            _ => {
                inputs.push(tensor(&mut random, &sums.shape, Values::Any));
                let round = Requantize { bits: 7, rounding, low: -127 };
                vec![round.into(), AlignedAdd {}.into(), Relu {}.into()]
            }
        };
        let ops: Vec<Op> = std::iter::once(op).chain(rest).collect();
        let op = match &ops[..] {
            [one] => one.clone(),
            _ => Chain { ops }.into(),
        };
        let what = format!("{n}: {op}");
        let case = Case { what, op, inputs, constant: n % 3 == 0 };
        cases.push(case.placed(if n % 5 == 0 { Place::Caller } else { Place::Arena }));
    };
    for &(images, groups, [c, o], size, taps, strides, dilations, pads) in SHAPES {
        let x = [images, groups * c, size[0], size[1]];
        let w = [groups * o, c, taps[0], taps[1]];
        let forward = Conv2d { strides, pads, dilations, groups };
        let y = forward.clone().infer_shape(&x, &w).expect("they fit");
        let error = Conv2dGradientInput { strides, pads, dilations, groups, input_size: size };
        let gradient = Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size: taps };
        push(forward.into(), [&x, &w]);
        push(error.into(), [&y, &w]);
        push(gradient.into(), [&x, &y]);
    }
    let [m, k, n] = [6, 128, 64];
    let matmul = |transpose_a, transpose_b, role| MatMul { transpose_a, transpose_b, role };
    push(matmul(false, true, ProductRole::Forward).into(), [&[m, k], &[n, k]]);
    push(matmul(false, false, ProductRole::Error).into(), [&[m, k], &[k, n]]);
    push(matmul(true, false, ProductRole::Gradient).into(), [&[m, k], &[m, n]]);
    cases
}

/// What the products of a program are made of: words for tests.
fn kinds(program: &Program, target: &dyn Target) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for kernel in &program.kernels {
        let outcomes = &kernel.selection.splits;
        for part in outcomes.iter().filter_map(|outcome| outcome.part.as_ref()) {
            let of = kernel.name.split("_i8").next().unwrap_or_default();
            let first = ["gradient_input", "gradient_weight"].into_iter().find(|w| of.contains(w));
            let axis = if part.contains("features") { "features" } else { "images" };
            kinds.insert(format!("{} by {axis}", first.unwrap_or("forward")));
        }
        let several = target.description().name == "neon+hvx";
        assert!(outcomes.len() <= if several { 2 } else { 1 }, "{outcomes:?}");
    }
    kinds
}

#[test]
fn products_in_parts() {
    let cases = all();
    let seen = std::sync::Mutex::new(std::collections::BTreeMap::new());
    side_by_side(&ASKED, |n, &(micro_batch, bytes), target| {
        let name = target.description().name;
        // The levels of NEON and the versions of Hexagon differ in kernels, not in what calls them.
        let other = name.starts_with("armv7") || name.contains('+') && name != "neon+hvx";
        // A pair calls what its machines' targets have.
        if other || name == "neon+hvx" && micro_batch != MicroBatch::Fit {
            return Vec::new();
        }
        // Hexagon's is for working memory alone, which comes in whole vectors.
        let bytes = if name == "hvx" { 2 * bytes } else { bytes };
        let splitting = Splitting { micro_batch, local_bytes: Some(bytes) };
        let options = PlanOptions { splitting, ..PlanOptions::default() };
        let program = cases::planned(target, &cases, &options).expect("plans");
        let found = kinds(&program, target);
        if found.is_empty() {
            return Vec::new();
        }
        seen.lock().expect("no panic").entry(name).or_insert_with(BTreeSet::new).extend(found);
        let builds = exceptions::builds(name, Some(Suite::Products));
        let build = builds.last().expect("a build");
        let what = format!("products_in_parts-{name}-{n}");
        let keep = std::env::var_os(super::ONE_TARGET).map(|_| folder(&what));
        let options = trainc_driver::verify::VerifyOptions { keep, ..build.options() };
        let report = match cases::run_planned(&program, target, &cases, &options) {
            Ok(report) => report,
            Err(error) => return vec![format!("{what}: {error}")],
        };
        report.findings.iter().map(|finding| format!("{what}: {finding}")).collect()
    });
    let seen = seen.into_inner().expect("no panic");
    let passes = ["forward", "gradient_input", "gradient_weight"];
    for (name, kinds) in &seen {
        for pass in passes {
            for axis in ["images", "features"] {
                let kind = format!("{pass} by {axis}");
                assert!(kinds.contains(&kind), "{name}: no case has `{kind}`: {kinds:?}");
            }
        }
    }
    if std::env::var_os(super::ONE_TARGET).is_none() {
        let names: Vec<&str> = seen.keys().copied().collect();
        assert_eq!(names, ["c", "hvx", "neon", "neon+hvx", "xpulpv2"]);
    }
}
