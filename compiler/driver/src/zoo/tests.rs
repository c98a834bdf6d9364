//! Every model is imported again; counts are compared with published ones or with sums over its layers by hand.

use std::path::Path;

use trainc_ir::graph::Definition;
use trainc_ir::interpreter::Interpreter;
use trainc_ir::{RunContext, Tensor};
use trainc_onnx_import::{ExternalLocation, ImportOptions, Imported, WarningKind, import_bytes};

use super::{MAX_DIMENSION, OUTPUT, Width, ZooError, ZooSpec, build, find, names};

fn spec(name: &str, input: [usize; 3], classes: usize) -> ZooSpec {
    ZooSpec { input, classes, ..ZooSpec::new(name).expect("a known model") }
}

fn import(spec: &ZooSpec, batch: usize) -> Imported {
    let bytes = build(spec).expect("builds");
    let none = |_: &ExternalLocation| Err("no files".to_string());
    let options = ImportOptions { batch: Some(batch), training: true, ..ImportOptions::default() };
    let imported = import_bytes(&bytes, &none, &options)
        .unwrap_or_else(|e| panic!("{} does not import: {e}", spec.name));
    let [output] = imported.graph.outputs() else { panic!("{}: one output", spec.name) };
    assert_eq!(output.name, OUTPUT);
    let mut shape = vec![batch, spec.classes];
    if spec.name == "language" {
        shape.push(spec.input[2]);
    }
    if spec.name == "yolov2-tiny-binary" {
        shape = vec![batch, 5 * (5 + spec.classes), spec.input[1] / 32, spec.input[2] / 32];
    }
    assert_eq!(imported.graph.ty(output.value).shape.dims(), shape, "{}", spec.name);
    imported
}

/// Trained parameters.
fn parameters(imported: &Imported) -> usize {
    let graph = &imported.graph;
    graph
        .parameters()
        .iter()
        .filter(|p| p.trainable)
        .map(|p| graph.ty(p.value).shape.dims().iter().product::<usize>())
        .sum()
}

/// Multiplications with weights of convolutions and fully connected layers, of an imported batch of one.
fn products(imported: &Imported) -> usize {
    let graph = &imported.graph;
    let elements = |id| graph.ty(id).shape.dims().iter().product::<usize>();
    graph
        .nodes()
        .iter()
        .map(|node| match node.op.kind().name() {
            // Each element of the result is a sum over one filter.
            "conv2d" => {
                let filters = graph.ty(node.inputs[1]).shape.dims()[0];
                elements(node.outputs[0]) * (elements(node.inputs[1]) / filters)
            }
            "matmul" => elements(node.inputs[1]),
            _ => 0,
        })
        .sum()
}

fn shape_of(imported: &Imported, name: &str) -> Vec<usize> {
    let graph = &imported.graph;
    let value = graph
        .values()
        .iter()
        .find(|v| v.name == name && matches!(v.definition, Definition::Parameter(_)))
        .unwrap_or_else(|| panic!("no parameter `{name}`"));
    value.ty.shape.dims().to_vec()
}

/// Nets whose usual form has too many weights for a test: small forms stand for them.
const LARGE: [&str; 2] = ["alexnet-binary", "vgg16-binary"];

#[test]
fn every_model_imports_with_the_parameters_of_the_table() {
    for model in names().iter().filter(|model| !LARGE.contains(&model.name)) {
        let imported = import(&ZooSpec::new(model.name).expect("known"), 2);
        assert_eq!(parameters(&imported), model.parameters, "{}", model.name);
        assert!(imported.warnings.is_empty(), "{}: {:?}", model.name, imported.warnings);
    }
}

/// Published numbers of parameters, less the biases that a model here does not have.
#[test]
fn published_parameters() {
    let large = [3, 224, 224];
    for (name, input, classes, published, biases) in [
        // LeCun et al., with every connection between the convolutions; and Caffe's.
        ("lenet5", [1, 28, 28], 10, 61_706, 6 + 16 + 120 + 84 + 10),
        ("lenet20-50", [1, 28, 28], 10, 431_080, 20 + 50 + 500 + 10),
        // torchvision's feature layers, and 512 weights a class.
        ("vgg11", [3, 32, 32], 10, 9_220_480 + 5120, 64 + 128 + 2 * 256 + 4 * 512),
        ("vgg16", [3, 32, 32], 10, 14_714_688 + 5120, 2 * 64 + 2 * 128 + 3 * 256 + 6 * 512),
        ("vgg19", [3, 32, 32], 10, 20_024_384 + 5120, 2 * 64 + 2 * 128 + 4 * 256 + 8 * 512),
        // The form for CIFAR, as published with it.
        ("resnet18", [3, 32, 32], 10, 11_173_962, 0),
        ("resnet34", [3, 32, 32], 10, 21_282_122, 0),
        // torchvision's.
        ("resnet18", large, 1000, 11_689_512, 0),
        ("resnet34", large, 1000, 21_797_672, 0),
        ("mobilenetv2", large, 1000, 3_504_872, 0),
        // 27,161,264 with the auxiliary classifier's 3,326,696.
        ("inceptionv3", [3, 299, 299], 1000, 27_161_264 - 3_326_696, 0),
    ] {
        let imported = import(&spec(name, input, classes), 2);
        assert_eq!(parameters(&imported), published - biases, "{name} {input:?}");
    }
}

/// Parameters of `torchvision.models.mobilenet_v2(width_mult=...)`.
#[test]
fn published_parameters_of_widths() {
    let at = |text: &str| text.parse::<Width>().expect("a width");
    for (width, published) in [
        ("0.25", 1_519_112),
        ("0.35", 1_677_128),
        ("0.5", 1_968_680),
        ("0.75", 2_636_424),
        ("1.0", 3_504_872),
        ("1.4", 6_108_776),
    ] {
        let spec = ZooSpec { width: at(width), ..spec("mobilenetv2", [3, 224, 224], 1000) };
        assert_eq!(parameters(&import(&spec, 2)), published, "{width}");
    }
    for wrong in ["0", "0.004", "0.333", "-1", "4.01", "NaN", "1e300", "", "x"] {
        wrong.parse::<Width>().expect_err(wrong);
    }
    assert_eq!((at("0.35").to_string(), at("4").to_string()), ("0.35".into(), "4".into()));
    let spec = ZooSpec { width: at("0.5"), ..ZooSpec::new("vgg11").expect("known") };
    assert_eq!(build(&spec), Err(ZooError::Width { model: "vgg11".into() }));
}

/// Products an image: torchvision states them in billions, to three places. They tell strides and sizes.
#[test]
fn published_products() {
    for (name, input, classes, thousandths) in [
        ("resnet18", [3, 224, 224], 1000, 1_814),
        ("resnet34", [3, 224, 224], 1000, 3_664),
        ("mobilenetv2", [3, 224, 224], 1000, 301),
        ("inceptionv3", [3, 299, 299], 1000, 5_713),
    ] {
        let products = products(&import(&spec(name, input, classes), 1));
        assert_eq!((products + 500_000) / 1_000_000, thousandths, "{name}: {products}");
    }
    // By hand: side^2 * outputs * inputs * 9 of each convolution, and the classifier.
    let vgg11 = 1024 * 64 * 27
        + 256 * 128 * 64 * 9
        + 64 * 256 * (128 + 256) * 9
        + 16 * 512 * (256 + 512) * 9
        + 4 * 512 * 2 * 512 * 9
        + 5120;
    assert_eq!(products(&import(&ZooSpec::new("vgg11").expect("known"), 1)), vgg11);
    // Per stage of a side: 16, 32 and 64 channels, 12 convolutions, the first of a stage from half of them, and its projection.
    let stage = |side: usize, channels: usize, first: usize| {
        side * side
            * channels
            * (9 * (first + 11 * channels) + if first < channels { first } else { 0 })
    };
    let resnet38 = 1024 * 16 * 27 + stage(32, 16, 16) + stage(16, 32, 16) + stage(8, 64, 32) + 640;
    assert_eq!(products(&import(&ZooSpec::new("resnet38").expect("known"), 1)), resnet38);
    // 28x28 of 5x5 over one channel, 10x10 of 5x5 over six, three matrices.
    let lenet5 = 784 * 6 * 25 + 100 * 16 * 150 + 400 * 120 + 120 * 84 + 840;
    assert_eq!(products(&import(&ZooSpec::new("lenet5").expect("known"), 1)), lenet5);
    // Halved three times (blocks of 16, 24, 32, 64, 96, 160 and 320 channels at 32, 32, 16, 8, 8, 4 and 4 pixels).
    let block = |side: usize, stride: usize, inputs: usize, channels: usize| {
        let out = side / stride;
        side * side * inputs * 6 * inputs + out * out * 6 * inputs * (9 + channels)
    };
    let mobile = 1024 * 32 * 27
        + 1024 * 32 * (9 + 16)
        + block(32, 1, 16, 24)
        + block(32, 1, 24, 24)
        + block(32, 2, 24, 32)
        + 2 * block(16, 1, 32, 32)
        + block(16, 2, 32, 64)
        + 3 * block(8, 1, 64, 64)
        + block(8, 1, 64, 96)
        + 2 * block(8, 1, 96, 96)
        + block(8, 2, 96, 160)
        + 2 * block(4, 1, 160, 160)
        + block(4, 1, 160, 320)
        + 16 * 320 * 1280
        + 12_800;
    assert_eq!(products(&import(&ZooSpec::new("mobilenetv2").expect("known"), 1)), mobile);
}

/// The tables of parameters of the binary nets. In their large forms they are the published numbers (62,378,344 of AlexNet in
/// one tower, 138,357,544 of torchvision's VGG-16, the 63,471,556 bytes of darknet's file for YOLOv2-Tiny less its running
/// statistics and head of 16 bytes), with a gain and a shift in place of each bias of the inner layers.
#[test]
fn parameters_of_binary_nets() {
    let usual = |name| find(name).expect("known").parameters;
    let inner = 96 + 256 + 384 + 384 + 256 + 2 * 4096;
    assert_eq!(usual("alexnet-binary"), 62_378_344 + inner);
    let inner = 2 * 64 + 2 * 128 + 3 * 256 + 6 * 512 + 2 * 4096;
    assert_eq!(usual("vgg16-binary"), 138_357_544 + inner);
    let inner = 16 + 32 + 64 + 128 + 256 + 512 + 2 * 1024;
    assert_eq!(usual("yolov2-tiny-binary"), (63_471_556 - 16) / 4 - 2 * inner);
    // Small forms: 512 features behind maps of 1x1, and the classes.
    let small = |from: usize, map: usize, inner: usize, channels: usize| {
        let large = (map * channels * 4096 + 4096 * 4096 + 4096 * 1000 + 1000) + 4 * 4096;
        from - large + channels * 512 + 512 * 512 + 4 * inner + 512 * 10 + 10
    };
    for (name, side, map, channels) in
        [("alexnet-binary", 64, 36, 256), ("vgg16-binary", 32, 49, 512)]
    {
        let found = parameters(&import(&spec(name, [3, side, side], 10), 1));
        assert_eq!(found, small(usual(name), map, 512, channels), "{name}");
    }
    let yolo = import(&spec("yolov2-tiny-binary", [3, 64, 32], 1), 1);
    assert_eq!(parameters(&yolo), usual("yolov2-tiny-binary") - 5 * 19 * 1025);
}

#[test]
fn names_are_pytorchs() {
    let net = import(&ZooSpec::new("resnet18").expect("known"), 1);
    assert_eq!(shape_of(&net, "conv1.weight"), [64, 3, 3, 3]);
    assert_eq!(shape_of(&net, "layer2.0.downsample.0.weight"), [128, 64, 1, 1]);
    assert_eq!(shape_of(&net, "layer4.1.bn2.running_var"), [512]);
    assert_eq!(shape_of(&net, "fc.bias"), [10]);
    assert!(net.graph.nodes().iter().any(|n| n.name == "layer3.1.conv2"));
    let net = import(&ZooSpec::new("vgg11").expect("known"), 1);
    assert_eq!(shape_of(&net, "features.18.weight"), [512, 512, 3, 3]);
    let net = import(&ZooSpec::new("mobilenetv2").expect("known"), 1);
    assert_eq!(shape_of(&net, "features.1.conv.0.0.weight"), [32, 1, 3, 3]);
    assert_eq!(shape_of(&net, "features.17.conv.2.weight"), [320, 960, 1, 1]);
    assert_eq!(shape_of(&net, "classifier.1.weight"), [10, 1280]);
    let net = import(&spec("inceptionv3", [3, 75, 75], 10), 1);
    // Counts do not tell a window from its transpose; torchvision's order is this one.
    for (branch, window) in [
        ("Mixed_6e.branch7x7_2", [1, 7]),
        ("Mixed_6e.branch7x7_3", [7, 1]),
        ("Mixed_6e.branch7x7dbl_2", [7, 1]),
        ("Mixed_6e.branch7x7dbl_3", [1, 7]),
        ("Mixed_6e.branch7x7dbl_4", [7, 1]),
        ("Mixed_6e.branch7x7dbl_5", [1, 7]),
        ("Mixed_7a.branch7x7x3_2", [1, 7]),
        ("Mixed_7a.branch7x7x3_3", [7, 1]),
        ("Mixed_7c.branch3x3_2a", [1, 3]),
        ("Mixed_7c.branch3x3_2b", [3, 1]),
        ("Mixed_7c.branch3x3dbl_3a", [1, 3]),
        ("Mixed_7c.branch3x3dbl_3b", [3, 1]),
    ] {
        assert_eq!(shape_of(&net, &format!("{branch}.conv.weight"))[2..], window, "{branch}");
    }
    assert_eq!(shape_of(&net, "Mixed_7c.branch3x3_2b.bn.weight"), [384]);
}

#[test]
fn large_images_take_the_large_form() {
    let stem = |side| shape_of(&import(&spec("resnet18", [3, side, side], 10), 1), "conv1.weight");
    assert_eq!(stem(64), [64, 3, 3, 3]);
    assert_eq!(stem(65), [64, 3, 7, 7]);
    let pools = |side| {
        let net = import(&spec("vgg11", [3, side, side], 10), 1);
        net.graph.nodes().iter().filter(|n| n.name == "avgpool").count()
    };
    assert_eq!((pools(32), pools(64)), (0, 1));
    // Both LeNet forms give 16 maps of 5x5.
    for input in [[1, 28, 28], [3, 32, 32]] {
        assert_eq!(shape_of(&import(&spec("lenet5", input, 10), 1), "fc1.weight"), [120, 400]);
    }
}

#[test]
fn batch_norm_in_both_forms() {
    let training = ZooSpec::new("residual").expect("known");
    let imported = import(&training, 2);
    // Six batch norms: the stem, two a block, the projection.
    assert_eq!(imported.graph.updates().len(), 2 * 6);
    let imported = import(&ZooSpec { training: false, ..training }, 2);
    assert_eq!(imported.graph.updates().len(), 0);
    assert_eq!(imported.warnings.len(), 1);
    assert_eq!(imported.warnings[0].kind, WarningKind::InferenceBatchNorm);
}

#[test]
fn initial_values() {
    let imported = import(&ZooSpec::new("residual").expect("known"), 1);
    let graph = &imported.graph;
    for parameter in graph.parameters() {
        let name = &graph.value(parameter.value).name;
        let data = parameter.initial.as_f32();
        let (first, spread) = (data[0], data.iter().any(|v| *v != data[0]));
        let dims = graph.ty(parameter.value).shape.dims();
        match name.rsplit('.').next() {
            Some("bias" | "running_mean") => assert!(first == 0.0 && !spread, "{name}"),
            Some("running_var") => assert!(first == 1.0 && !spread, "{name}"),
            _ if dims.len() == 1 => assert!(first == 1.0 && !spread, "{name}"),
            _ => {
                let area: usize = dims[2..].iter().product();
                let bound = (6.0 / (dims[1] * area) as f32).sqrt();
                let largest = data.iter().fold(0f32, |m, v| m.max(v.abs()));
                assert!(largest < bound && largest > 0.8 * bound, "{name}: {largest} of {bound}");
            }
        }
    }
}

#[test]
fn deterministic_and_seeded() {
    let seed = |seed| build(&ZooSpec { seed, ..ZooSpec::new("lenet5").expect("known") });
    assert_eq!(seed(3), seed(3));
    assert_ne!(seed(3), seed(4));
}

#[test]
fn refusals() {
    assert_eq!(
        ZooSpec::new("lenet").expect_err("unknown").to_string(),
        "there is no model `lenet`; there are digits, mlp, lenet5, lenet20-50, vgg11, vgg16, vgg19, resnet8, \
         resnet38, resnet74, resnet18, resnet34, residual, depthwise, mobilenetv2, inceptionv3, encoder, language, \
         lenet-binary, alexnet-binary, vgg16-binary, yolov2-tiny-binary"
    );
    assert_eq!(
        build(&spec("inceptionv3", [3, 299, 74], 10)).expect_err("too small").to_string(),
        "inceptionv3 needs images of at least 75x75, not 299x74"
    );
    let huge = MAX_DIMENSION;
    assert!(matches!(build(&spec("mlp", [huge, huge, huge], 10)), Err(ZooError::TooLarge { .. })));
    for (input, classes) in
        [([0, 8, 8], 10), ([1, 8, 0], 10), ([1, 8, 8], 0), ([1, 8, 8], huge + 1)]
    {
        let error = build(&spec("digits", input, classes)).expect_err("out of range");
        assert!(matches!(error, ZooError::Dimension { .. }), "{error}");
    }
}

/// Scores of a position come of the bytes up to it, and of each of them.
#[test]
fn the_language_model_looks_back() {
    let spec = spec("language", [1, 1, 5], 7);
    let imported = import(&spec, 1);
    let scores = |bytes: [i32; 5]| {
        let mut interpreter = Interpreter::new(&imported.graph);
        let input = Tensor::i32([1, 5], bytes.to_vec());
        let outputs = interpreter.step(&[input], &RunContext::default()).expect("runs");
        outputs[0].as_f32().to_vec()
    };
    let before = scores([3, 1, 4, 1, 5]);
    for changed in 0..5 {
        let mut bytes = [3, 1, 4, 1, 5];
        bytes[changed] = 6;
        let after = scores(bytes);
        for position in 0..5 {
            let of =
                |all: &[f32]| (0..7).map(|c| all[c * 5 + position].to_bits()).collect::<Vec<_>>();
            assert_eq!(of(&before) == of(&after), position < changed, "{changed}, {position}");
        }
    }
}

/// The table's smallest image is the smallest that the layers take.
#[test]
fn smallest_images() {
    for model in names() {
        let small = spec(model.name, [1, model.smallest, model.smallest], 10);
        import(&small, 1);
        if model.smallest > 1 {
            let below = ZooSpec { input: [1, model.smallest - 1, model.smallest], ..small };
            assert!(matches!(build(&below), Err(ZooError::InputTooSmall { .. })));
            let layers = (find(model.name).expect("known").build)(&below);
            assert!(matches!(layers, Err(ZooError::Layer { .. })), "{}", model.name);
        }
    }
}

/// The models in tests/data/models are what the zoo builds today.
#[test]
fn committed_models() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models");
    for (name, input) in [
        ("mlp", [1, 8, 8]),
        ("lenet5", [1, 28, 28]),
        ("residual", [1, 8, 8]),
        ("depthwise", [1, 8, 8]),
    ] {
        let file = folder.join(format!("{name}.onnx"));
        let committed = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(committed == build(&spec(name, input, 10)).expect("builds"), "{name} differs");
    }
}
