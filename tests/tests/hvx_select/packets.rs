//! Packets of operations that run once an element, by the emulator's counter: how many elements a packet does.

use trainc_hvx::lower;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{AlignedAdd, QuantizeGradient, ReluGradient, Requantize, SaturatingSubtract};
use trainc_ir::{Op, RunContext, Tensor, TensorType};
use trainc_tests::random::Random;

use super::harness::{Image, folder};
use super::{assembly, check};

const COUNT: usize = 16_384;

#[test]
fn elements_of_a_packet() {
    let mut random = Random(5);
    let bytes = |random: &mut Random, exponent: i32| {
        let values = (0..COUNT).map(|_| (random.next() >> 56) as i8).collect();
        Tensor::i8_shared([COUNT], values, exponent)
    };
    let words = (0..COUNT).map(|_| (random.next() >> 40) as i32 - (1 << 23)).collect();
    let words = Tensor::i32_shared([COUNT], words, -7);
    let requantize = |rounding| Op::from(Requantize { bits: 7, rounding, low: -127 });
    let cases: Vec<(&str, Op, Vec<Tensor>, f64)> = vec![
        ("requantize, half away", requantize(Rounding::HalfAway), vec![words.clone()], 5.0),
        (
            "requantize, pseudo-stochastic",
            requantize(Rounding::PseudoStochastic),
            vec![words.clone()],
            2.5,
        ),
        (
            "quantize gradient",
            QuantizeGradient { rounding: Rounding::PseudoStochastic }.into(),
            vec![words, Tensor::i32([], vec![5])],
            2.5,
        ),
        (
            "relu gradient",
            ReluGradient {}.into(),
            vec![bytes(&mut random, 0), bytes(&mut random, 1)],
            32.0,
        ),
        (
            "saturating subtract",
            SaturatingSubtract {}.into(),
            vec![bytes(&mut random, 0), bytes(&mut random, 0)],
            16.0,
        ),
        (
            "aligned add",
            AlignedAdd {}.into(),
            vec![bytes(&mut random, 0), bytes(&mut random, 3)],
            1.3,
        ),
    ];
    let run = RunContext::default();
    for (what, op, operands, least) in cases {
        let operands: Vec<&Tensor> = operands.iter().collect();
        let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
        let results = op.infer(&types).expect("the case types");
        let meaning = op.evaluate(&operands, &run);
        let kernel = lower(&op, &types, &results.iter().collect::<Vec<_>>());
        let mut image = Image::default();
        image.kernel("kernel", what, &kernel, &operands, &meaning, &run);
        let text = assembly("kernel", &kernel);
        let packets = check(&folder(&what.replace([',', ' '], "_")), &image, &text);
        let elements = COUNT as f64 / f64::from(packets);
        println!("{what}: {elements:.2} elements a packet");
        assert!(elements >= least, "{what}: {elements} elements a packet, not {least}");
    }
}
