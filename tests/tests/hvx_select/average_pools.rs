//! The vector kernels of average pools and their gradients against the operations, with the bytes around the results.

use std::collections::BTreeMap;

use trainc_hvx::kernels::{DataObject, GlobalAverage, Pool};
use trainc_hvx::lower;
use trainc_hvx::machine::{Function, Options, Version, compile};
use trainc_ir::ops::{AvgPool2d, AvgPool2dGradient};
use trainc_ir::{Data, Op, RunContext, Tensor};
use trainc_tests::random::Random;

use super::harness::{Image, assemble, folder};
use super::pools::{SHAPES, bytes, contents};
use super::{assembly, check, text};

/// Planes, rows, columns of averages of whole planes: powers of two and others, planes shorter and longer than a vector,
/// whole and part vectors and groups of planes.
const PLANES: [[usize; 3]; 17] = [
    [1, 1, 1],
    [65, 1, 1],
    [1, 7, 7],
    [64, 7, 7],
    [320, 8, 5],
    [33, 4, 4],
    [200, 2, 2],
    [96, 1, 3],
    [31, 3, 3],
    [40, 8, 16],
    [3, 14, 14],
    [35, 14, 14],
    [2, 28, 28],
    [34, 16, 32],
    [5, 56, 13],
    [70, 11, 12],
    [129, 1, 127],
];

struct Kernel {
    function: Function,
    table: Option<DataObject>,
    scratch: usize,
}

/// The kernel of a pool of whole planes, or of windows of 2x2.
fn kernel(name: &str, [planes, height, width]: [usize; 3], whole: bool, gradient: bool) -> Kernel {
    let (function, table, scratch) = if whole {
        let average = GlobalAverage { planes, size: height * width };
        assert!(average.is_supported(), "{average:?}");
        if gradient {
            (average.gradient(name).expect("a kernel"), None, average.scratch_bytes())
        } else {
            let (function, table) = average.forward(name).expect("a kernel");
            (function, Some(table), 0)
        }
    } else {
        let pool = Pool { planes, height, width };
        let made = if gradient { pool.average_gradient(name) } else { pool.sums(name) };
        let (function, table) = made.expect("a kernel");
        (function, Some(table), 0)
    };
    Kernel { function, table, scratch }
}

fn operation([height, width]: [usize; 2], whole: bool, gradient: bool) -> Op {
    let (kernel, strides) = if whole { ([height, width], [1, 1]) } else { ([2, 2], [2, 2]) };
    let (pads, ceil, count_include_pad) = ([0; 4], false, false);
    let input_size = [height, width];
    match gradient {
        false => AvgPool2d { kernel, strides, pads, ceil, count_include_pad }.into(),
        true => {
            AvgPool2dGradient { kernel, strides, pads, ceil, count_include_pad, input_size }.into()
        }
    }
}

/// The operand's shape, and how many elements it has.
fn operand([planes, height, width]: [usize; 3], whole: bool, gradient: bool) -> [usize; 4] {
    match (gradient, whole) {
        (false, _) => [1, planes, height, width],
        (true, true) => [1, planes, 1, 1],
        (true, false) => [1, planes, height / 2, width / 2],
    }
}

fn result_bytes(meaning: &Tensor) -> Vec<u8> {
    match meaning.data() {
        Data::I8(values) => bytes(values),
        _ => meaning.as_i32().iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

fn averages(name: &str, shapes: &[[usize; 3]], whole: bool, gradient: bool) {
    let (mut image, mut kernels) = (Image::default(), String::new());
    let mut random = Random(9);
    let mut texts: BTreeMap<Version, String> = BTreeMap::new();
    for &shape in shapes {
        let [planes, height, width] = shape;
        let symbol = format!("{name}_{planes}_{height}_{width}");
        let Kernel { function, table, scratch } = kernel(&symbol, shape, whole, gradient);
        for version in Version::ALL {
            let assembled = compile(&function, version, &Options::default()).expect("it compiles");
            assert_eq!(assembled.spills, 0, "{symbol}, {version}");
            texts.entry(version).or_default().push_str(&assembled.assembly());
        }
        kernels.push_str(&text(&function));
        kernels.extend(table.map(|table| table.assembly()));
        kernels.push_str("\t.text\n");
        for kind in 0..4 {
            let from = operand(shape, whole, gradient);
            let values = contents(&mut random, from.iter().product(), kind);
            let operand = Tensor::i8_shared(from, values.clone(), -3);
            let op = operation([height, width], whole, gradient);
            let meaning = op.evaluate(&[&operand], &RunContext::default()).remove(0);
            let expected = result_bytes(&meaning);
            let what = format!("{symbol}, contents {kind}");
            let mut arguments = vec![image.place(&what, Some(&bytes(&values)), None, values.len())];
            let what = format!("{what}: result");
            arguments.push(image.place(&what, None, Some(&expected), expected.len()));
            if scratch > 0 {
                arguments.push(image.reserve("working memory", scratch));
            }
            let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
            image.call(&symbol, &arguments);
        }
    }
    let versions = folder(&format!("{name}_versions"));
    for (version, text) in texts {
        let (source, object) = (format!("{version}.S"), format!("{version}.o"));
        std::fs::write(versions.join(&source), text).expect("the file is written");
        assemble(&versions, &source, &object, version.number());
    }
    let packets = check(&folder(name), &image, &kernels);
    println!("{name}: {packets} packets");
}

#[test]
fn windows() {
    averages("window_averages", &SHAPES, false, false);
}

#[test]
fn window_gradients() {
    averages("window_average_gradients", &SHAPES, false, true);
}

#[test]
fn planes() {
    averages("plane_averages", &PLANES, true, false);
}

#[test]
fn plane_gradients() {
    averages("plane_average_gradients", &PLANES, true, true);
}

/// Most packets of the kernels, and how many times fewer they are than the loops', at least.
#[test]
fn fewer_packets_than_loops_of_averages() {
    let cases = [
        ([64, 14, 14], false, false, 652, 50.0),
        ([64, 14, 14], false, true, 581, 90.0),
        ([64, 7, 7], true, false, 378, 12.0),
        ([64, 7, 7], true, true, 351, 75.0),
        ([32, 8, 8], true, false, 235, 11.0),
        ([32, 8, 8], true, true, 113, 75.0),
    ];
    let run = RunContext::default();
    let mut random = Random(3);
    let mut failures = Vec::new();
    for (shape, whole, gradient, most, least) in cases {
        let [planes, height, width] = shape;
        let what = format!("average {planes} {height} {width} {whole} {gradient}");
        let from = operand(shape, whole, gradient);
        let values = contents(&mut random, from.iter().product(), 0);
        let x = Tensor::i8_shared(from, values.clone(), 1);
        let op = operation([height, width], whole, gradient);
        let results = op.infer(&[x.ty()]).expect("the case types");
        let meaning = op.evaluate(&[&x], &run);
        let loops = lower(&op, &[x.ty()], &[&results[0]]);
        let mut image = Image::default();
        image.kernel("loops", &what, &loops, &[&x], &meaning, &run);
        let slow = check(&folder(&format!("{what} loops")), &image, &assembly("loops", &loops));

        let Kernel { function, table, scratch } = kernel("kernel", shape, whole, gradient);
        let mut image = Image::default();
        let mut arguments = vec![image.place(&what, Some(&bytes(&values)), None, values.len())];
        let expected = result_bytes(&meaning[0]);
        arguments.push(image.place(&what, None, Some(&expected), expected.len()));
        arguments.push(image.reserve("working memory", scratch.max(128)));
        let arguments: Vec<String> = arguments.iter().map(|at| format!("image+{at}")).collect();
        image.call("kernel", &arguments);
        let mut source = text(&function);
        source.extend(table.map(|table| table.assembly()));
        source.push_str("\t.text\n");
        let fast = check(&folder(&format!("{what} kernel")), &image, &source);
        let ratio = f64::from(slow) / f64::from(fast);
        println!("{what}: {slow} packets by loops, {fast} by the kernel: {ratio:.1}");
        if fast > most || ratio < least {
            failures.push(format!("{what}: {fast} packets, {ratio:.1} times fewer than loops"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
