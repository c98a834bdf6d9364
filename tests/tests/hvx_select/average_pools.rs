//! Packets of the kernels of average pools and their gradients beside those of the loops that they replace.

use trainc_hvx::kernels::{DataObject, GlobalAverage, Pool};
use trainc_hvx::lower;
use trainc_hvx::machine::Function;
use trainc_ir::ops::{AvgPool2d, AvgPool2dGradient};
use trainc_ir::{Data, Op, RunContext, Tensor};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check, text};

fn contents(random: &mut Random, count: usize, kind: usize) -> Vec<i8> {
    (0..count)
        .map(|_| {
            let any = random.next() >> 40;
            match kind {
                0 => any as i8,
                // Ties.
                1 => (any % 3) as i8 - 1,
                2 => [-128, -127, 127, 126][any as usize % 4],
                _ => -128,
            }
        })
        .collect()
}

fn bytes(values: &[i8]) -> Vec<u8> {
    values.iter().map(|&v| v.cast_unsigned()).collect()
}

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

/// Most packets of the kernels, and how many times fewer they are than the loops', at least.
#[test]
fn fewer_packets_than_loops_of_averages() {
    let cases = [
        ([64, 14, 14], false, false, 652, 50.0),
        ([64, 14, 14], false, true, 582, 80.0),
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
