//! Snapshots of what the compiler makes of small models, for reviewers: `golden/<model>/*.snap`; and of what a target
//! emits for a chosen few kernels of LeNet-5: `golden/<target>/*.snap`.
//!
//! `INSTA_UPDATE=always cargo test -p trainc-tests --test golden` rewrites them.

use trainc_driver::zoo::{ZooSpec, build};
use trainc_ir::graph::Graph;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{
    Chain, Conv2d, Conv2dGradientInput, GroupedProduct, IntegerAdd, IntegerMaxPool2d, ProductOf,
    RequantizeAdaptive, ScaleShift,
};
use trainc_ir::program::Program;
use trainc_ir::target::Target;
use trainc_ir::text::Printer;
use trainc_ir::{Element, Op, Tensor, TensorType, Verified};
use trainc_onnx_import::{ImportOptions, import_bytes};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::inference::inference_graph;
use trainc_opt::optimise::{OptimiseOptions, optimise};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_opt::training::training_graph;
use trainc_opt::translate::{remove_operations, translate};
use trainc_tests::cases::Case;
use trainc_tests::programs::stage;
use trainc_tests::random::Random;
use trainc_tests::xpulp_convolutions::{Shape, convolution, tensor};
use trainc_xpulpv2::XPULPV2;

/// Training and inference modules of a zoo model at batch 4, optimised for a target.
fn modules(model: &str, target: &dyn Target) -> [Graph; 3] {
    let spec = ZooSpec::new(model).expect("a model of the zoo");
    let bytes = build(&spec).expect("the zoo builds");
    let options = ImportOptions { batch: Some(4), ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &|_| Err("no external data".into()), &options);
    let niti = Algorithm::built_in("niti").expect("niti");
    let forward = remove_operations(&imported.expect("imports").graph, &niti.remove);
    let training = training_graph(&forward, None).expect("trains");
    let inference = inference_graph(&forward).expect("infers");
    let [step, infer] = [&training, &inference].map(|graph| {
        let (module, translation) = translate(graph, &niti).expect("translates");
        let stage = stage(&niti, &translation);
        optimise(&module, &stage, target, &OptimiseOptions::default()).expect("optimises").0
    });
    [training, step, infer]
}

fn planned(model: &str, [_, step, infer]: &[Graph; 3], target: &dyn Target) -> Verified<Program> {
    let entries =
        [PlanEntry { name: "train_step", graph: step }, PlanEntry { name: "infer", graph: infer }];
    plan(model, &entries, target, &PlanOptions::default()).expect("plans").0
}

fn settings(folder: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("../../golden/{folder}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

fn snapshots(model: &str) {
    let modules = modules(model, &trainc_host::HOST);
    let program = planned(model, &modules, &trainc_host::HOST);
    let [training, step, _] = modules;
    let settings = settings(model);
    let printer = Printer::default();
    settings.bind(|| {
        insta::assert_snapshot!("training", printer.graph(&training));
        insta::assert_snapshot!("niti", printer.graph(&step));
        insta::assert_snapshot!("program", program.to_string());
    });
}

#[test]
fn digits() {
    snapshots("digits");
}

#[test]
fn residual() {
    snapshots("residual");
}

/// The same input gives the same bytes, whatever ran before in the process.
#[test]
fn stages_are_deterministic() {
    let text = |[a, b, c]: [Graph; 3]| format!("{a}{b}{c}");
    let modules = || modules("depthwise", &trainc_host::HOST);
    assert_eq!(text(modules()), text(modules()));
}

/// The part of a C source from the comment of a function to its end.
fn function<'a>(source: &'a str, name: &str) -> &'a str {
    let head = source
        .find(&format!("static void {name}("))
        .or_else(|| source.find(&format!("\nvoid {name}(")))
        .or_else(|| source.find(&format!("__kernel void {name}(")))
        .unwrap_or_else(|| panic!("there is no function {name}"));
    let start = source[..head].rfind("\n/* ").map_or(0, |at| at + 1);
    let end = source[head..].find("\n}\n").map_or(source.len(), |at| head + at + 3);
    &source[start..end]
}

/// What a target of the C family emits for LeNet-5 at batch 4, file by file.
fn emitted(target: &dyn Target) -> impl Fn(&str) -> String {
    let program = planned("lenet5", &modules("lenet5", target), target);
    let files = target.emit(&program).expect("emits");
    move |name| {
        let file = files.iter().find(|f| f.name == name).expect("the file is emitted");
        String::from_utf8(file.contents.clone()).expect("text")
    }
}

const CONVOLUTION: &str = "conv2d_requantize_i8_4x16x10x10";

/// Emitted C by kernel: a convolution, its two gradients, a pool, an update, the schedule of the whole step.
fn kernels(target: &dyn Target) {
    let text = emitted(target);
    let source = text("lenet5.c");
    settings(target.description().name).bind(|| {
        for name in [
            CONVOLUTION,
            "conv2d_gradient_input_requantize_i8_4x6x14x14",
            "conv2d_gradient_weight_quantize_gradient_i8_16x6x5x5",
            "max_pool2d_i8_4x16x5x5",
            "saturating_subtract_i8_16x6x5x5",
            "lenet5_train_step",
        ] {
            insta::assert_snapshot!(name, function(&source, name));
        }
    });
}

#[test]
fn c_kernels() {
    kernels(&trainc_c::C);
    let text = emitted(&trainc_c::C);
    settings("c").bind(|| {
        insta::assert_snapshot!("header", text("lenet5.h"));
        insta::assert_snapshot!("readme", text("README.md"));
        insta::assert_snapshot!("module", text("lenet5.rs"));
    });
}

#[test]
fn neon_kernels() {
    kernels(&trainc_neon::DOTPROD);
    for target in
        [&trainc_neon::NEON, &trainc_neon::I8MM, &trainc_neon::DISPATCH, &trainc_neon::ARMV7]
    {
        let source = emitted(target)("lenet5.c");
        settings(target.description().name).bind(|| {
            insta::assert_snapshot!(CONVOLUTION, function(&source, CONVOLUTION));
        });
    }
}

/// A convolution of FP32, and one of bytes whose planes have scales.
#[test]
fn neon_float_kernels() {
    let forward = Conv2d { strides: [2, 2], pads: [1; 4], dilations: [1, 1], groups: 1 };
    let error = Conv2dGradientInput {
        strides: [2, 2],
        pads: [1; 4],
        dilations: [1, 1],
        groups: 1,
        input_size: [16, 16],
    };
    let [x, w] = [[4, 12, 16, 16], [20, 12, 3, 3]].map(|dims| TensorType::f32(dims.to_vec()));
    let [dy, codes] =
        [[4, 20, 8, 8], [20, 12, 3, 3]].map(|dims| TensorType::shared(dims.to_vec(), Element::I8));
    let scales = [[4, 20, 1, 1], [20, 12, 1, 1]].map(|dims| TensorType::f32(dims.to_vec()));
    let grouped = GroupedProduct { of: ProductOf::Conv2dGradientInput(error) };
    for (name, op, inputs) in [
        ("float_forward", Op::from(forward), vec![x, w]),
        ("scaled_error", grouped.into(), [vec![dy, codes], scales.to_vec()].concat()),
    ] {
        let types: Vec<&TensorType> = inputs.iter().collect();
        let kernel = trainc_tests::kernels::kernel(&trainc_neon::NEON, name, &op, &types);
        let own = trainc_c::in_c(&kernel).expect("the target emits C");
        let text = own.emit(name, &kernel).expect("prints").text;
        settings("neon").bind(|| insta::assert_snapshot!(name, text));
    }
}

/// NEON: a convolution whose shift is kept between steps, in one pass and none of its sums in memory.
#[test]
fn neon_kept_shift() {
    let forward = Conv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1 };
    let round = RequantizeAdaptive { bits: 7, rounding: Rounding::HalfAway, low: 0 };
    let [x, w] =
        [[4, 16, 9, 9], [20, 16, 3, 3]].map(|dims| TensorType::shared(dims.to_vec(), Element::I8));
    let state = TensorType::f32([11]);
    let op = Op::from(Chain { ops: vec![forward.into(), round.into()] });
    let kernel =
        trainc_tests::kernels::kernel(&trainc_neon::NEON, "kept_shift", &op, &[&x, &w, &state]);
    let own = trainc_c::in_c(&kernel).expect("the target emits C");
    let text = own.emit("kept_shift", &kernel).expect("prints").text;
    settings("neon").bind(|| insta::assert_snapshot!("kept_shift", text));
}

/// OpenCL: a convolution with its rounding, an update, and the launches of inference.
#[test]
fn opencl_kernels() {
    let text = emitted(&trainc_opencl::OPENCL);
    let (kernels, source) = (text("lenet5.cl"), text("lenet5.c"));
    settings("opencl").bind(|| {
        let parts = (1..=3).map(|part| function(&kernels, &format!("{CONVOLUTION}_part{part}")));
        insta::assert_snapshot!(CONVOLUTION, parts.collect::<Vec<_>>().join("\n"));
        let update = "saturating_subtract_i8_16x6x5x5";
        insta::assert_snapshot!(update, function(&kernels, update));
        insta::assert_snapshot!("lenet5_infer", function(&source, "lenet5_infer"));
        insta::assert_snapshot!("readme", text("README.md"));
    });
}

#[test]
fn xpulpv2_kernels() {
    kernels(&XPULPV2);
}

/// What XpulpV2 emits for a kernel by itself, with the weights in their order if they are constants.
fn xpulpv2_kernel(name: &str, case: &Case) -> String {
    let types: Vec<&TensorType> = case.inputs.iter().map(Tensor::ty).collect();
    let kernel = trainc_tests::kernels::kernel(&XPULPV2, name, &case.op, &types);
    let own = trainc_c::in_c(&kernel).expect("the target emits C");
    let emitted = match case.constant {
        true => own.emit_arranged(name, &kernel),
        false => own.emit(name, &kernel),
    };
    emitted.expect("prints").text
}

/// Quantized inference: convolutions with thresholds and with scale and shift, an addition, a pool.
#[test]
fn xpulpv2_mixed_precision() {
    use Element::{I4, I8, U4, U8};
    let mut random = Random(1);
    let layer = Shape::three([1, 8, 8, 32], 16);
    let mut convolution = |elements| convolution(&layer, elements, false, true, &mut random);
    let cases = [
        ("integer_conv2d_threshold_u4_i4_u4", convolution([U4, I4, U4])),
        ("integer_conv2d_scale_shift_u8_i8_u8", convolution([U8, I8, U8])),
    ];
    let mut one = |op: Op, channels: usize, elements: &[Element], vectors: usize| {
        let operand = |element: &Element| tensor(&[1, 8, 8, channels], *element, &mut random);
        let mut inputs: Vec<Tensor> = elements.iter().map(operand).collect();
        inputs.extend((0..vectors).map(|_| Tensor::i32([channels], vec![1; channels])));
        Case { what: op.to_string(), op, inputs, constant: false }
    };
    let add = IntegerAdd { factors: [77, -13] };
    let stage = ScaleShift { shift: 8, low: 0, high: 255, element: U8 };
    let add = Op::Chain(Chain { ops: vec![add.into(), stage.into()] });
    let pool = IntegerMaxPool2d { kernel: [2, 2], strides: [2, 2], pads: [0; 4] };
    let more = [
        ("integer_add_scale_shift_u8_u4", one(add, 8, &[U8, U4], 2)),
        ("integer_max_pool2d_u4", one(pool.into(), 16, &[U4], 0)),
    ];
    settings("xpulpv2").bind(|| {
        for (name, case) in cases.iter().chain(&more) {
            insta::assert_snapshot!(*name, xpulpv2_kernel(name, case));
        }
    });
}

/// The part of an assembly source from the comment of a function to its end.
fn assembly<'a>(source: &'a str, name: &str) -> &'a str {
    let label = source.find(&format!("\n{name}:")).unwrap_or_else(|| panic!("no {name}"));
    let start = source[..label].rfind("\n\n").map_or(0, |at| at + 2);
    let end = source[label..].find("\n    .size").map_or(source.len(), |at| label + at + 1);
    &source[start..end]
}

/// Hexagon assembly: the products of a convolution, of its error gradient and of its weight gradient, the pass that
/// rounds, a pool, an update; and the C around a convolution.
#[test]
fn hvx_kernels() {
    let text = emitted(&trainc_hvx::HVX);
    let (kernels, source) = (text("lenet5_kernels.S"), text("lenet5.c"));
    settings("hvx").bind(|| {
        let convolution = format!("lenet5_{CONVOLUTION}");
        insta::assert_snapshot!(CONVOLUTION, function(&source, &convolution));
        for (name, phase) in [
            (CONVOLUTION, "_product_products"),
            (CONVOLUTION, "_product_requantize"),
            ("conv2d_gradient_input_requantize_i8_4x6x14x14", "_product_products"),
            ("conv2d_gradient_weight_quantize_gradient_i8_16x6x5x5", "_product_products"),
            ("max_pool2d_i8_4x16x5x5", "_pool"),
            ("saturating_subtract_i8_16x6x5x5", ""),
        ] {
            let name = format!("{name}{phase}");
            insta::assert_snapshot!(&*name, assembly(&kernels, &format!("lenet5_{name}")));
        }
    });
}
