//! The vector kernels of 2x2 pools and their gradients against the operations, with the bytes around the results.

use trainc_hvx::kernels::Pool;
use trainc_hvx::machine::{Options, Version, compile};
use trainc_ir::ops::{MaxPool2d, MaxPool2dGradient};
use trainc_ir::{Op, RunContext, Tensor};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{check, text};

/// Planes, rows, columns: even and odd sizes, several planes a vector and several vectors a plane, whole and part
/// vectors, results shorter than a vector.
pub(super) const SHAPES: [[usize; 3]; 27] = [
    [1, 2, 2],
    [1, 3, 3],
    [64, 2, 2],
    [300, 2, 3],
    [40, 28, 28],
    [5, 28, 28],
    [48, 10, 10],
    [48, 16, 16],
    [24, 32, 32],
    [96, 8, 8],
    [200, 4, 4],
    [70, 7, 7],
    [70, 5, 7],
    [13, 9, 6],
    [9, 9, 11],
    [9, 13, 13],
    [7, 15, 30],
    [5, 21, 33],
    [5, 17, 64],
    [5, 18, 64],
    [4, 16, 65],
    [4, 33, 63],
    [3, 15, 66],
    [3, 10, 127],
    [3, 10, 128],
    [3, 9, 128],
    [6, 3, 126],
];

pub(super) fn contents(random: &mut Random, count: usize, kind: usize) -> Vec<i8> {
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

pub(super) fn bytes(values: &[i8]) -> Vec<u8> {
    values.iter().map(|&v| v.cast_unsigned()).collect()
}

fn pools(gradient: bool) {
    let (mut image, mut kernels) = (Image::default(), String::new());
    let mut random = Random(7);
    let run = RunContext::default();
    let mut results = 0;
    for [planes, height, width] in SHAPES {
        let pool = Pool { planes, height, width };
        assert!(pool.is_supported(), "{pool:?}");
        let name = format!("pool_{planes}_{height}_{width}");
        let (function, table) = match gradient {
            false => pool.forward(&name),
            true => pool.gradient(&name),
        }
        .expect("a kernel");
        for version in Version::ALL {
            let assembled = compile(&function, version, &Options::default()).expect("it compiles");
            assert_eq!(assembled.spills, 0, "{name}, {version}");
        }
        kernels.push_str(&text(&function));
        kernels.push_str(&table.assembly());
        kernels.push_str("\t.text\n");
        let (strides, pads, dilations, ceil) = ([2, 2], [0; 4], [1, 1], false);
        for kind in 0..4 {
            let x = contents(&mut random, planes * height * width, kind);
            let y = [1, planes, height / 2, width / 2];
            let dy = contents(&mut random, y.iter().product(), [0, 2, 0, 3][kind]);
            let operands = [
                Tensor::i8_shared([1, planes, height, width], x.clone(), -3),
                Tensor::i8_shared(y, dy.clone(), -5),
            ];
            let kernel = [2, 2];
            let (op, operands): (Op, Vec<&Tensor>) = match gradient {
                false => (
                    MaxPool2d { kernel, strides, pads, dilations, ceil }.into(),
                    operands.iter().take(1).collect(),
                ),
                true => (
                    MaxPool2dGradient { kernel, strides, pads, dilations, ceil }.into(),
                    operands.iter().collect(),
                ),
            };
            let meaning = op.evaluate(&operands, &run);
            let expected = bytes(meaning[0].as_i8());
            let what = format!("{name}, contents {kind}");
            let mut arguments = Vec::new();
            for operand in operands {
                let operand = bytes(operand.as_i8());
                let at = image.place(&what, Some(&operand), None, operand.len());
                arguments.push(format!("image+{at}"));
            }
            results += expected.len();
            let what = format!("{what}: result");
            let at = image.place(&what, None, Some(&expected), expected.len());
            arguments.push(format!("image+{at}"));
            image.call(&name, &arguments);
        }
    }
    let name = if gradient { "pool_gradients" } else { "pools" };
    let packets = check(&folder(name), &image, &kernels);
    println!("{results} results: {packets} packets");
}

#[test]
fn maxima() {
    pools(false);
}

#[test]
fn gradients() {
    pools(true);
}
