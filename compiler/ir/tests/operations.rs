//! Every operation's cases: known results, and the loop lowering against the meaning, bit for bit.

use trainc_ir::{Op, OpKind, RunContext, Tensor, TensorType, loops};

fn check(kind: OpKind) {
    let run = RunContext { seed: 0x1234_5678_9abc_def0, step: 3 };
    let cases = kind.cases();
    assert!(cases.iter().any(|c| !c.outputs.is_empty()), "{}: no known result", kind.name());
    for (i, case) in cases.iter().enumerate() {
        let place = format!("{} case {i}: {}", kind.name(), case.op);
        assert_eq!(case.op.kind(), kind, "{place}");
        let operands: Vec<&Tensor> = case.inputs.iter().collect();
        let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
        let results = case.op.infer(&types).unwrap_or_else(|e| panic!("{place}: {e}"));
        let meaning = case.op.evaluate(&operands, &run);
        let meant: Vec<&TensorType> = meaning.iter().map(Tensor::ty).collect();
        assert_eq!(meant, results.iter().collect::<Vec<_>>(), "{place}: type of the result");
        if !case.outputs.is_empty() {
            assert_eq!(case.outputs.len(), meaning.len(), "{place}");
            for (expected, found) in case.outputs.iter().zip(&meaning) {
                assert!(
                    expected.bits_equal(found),
                    "{place}\nexpected {expected:?}\nfound {found:?}"
                );
            }
        }
        let kernel = case.op.lower(&types, &results.iter().collect::<Vec<_>>());
        let lowered = loops::evaluate::run(&kernel, &operands, &results, &run);
        for (expected, found) in meaning.iter().zip(&lowered) {
            assert!(
                expected.bits_equal(found),
                "{place}: lowering differs at {:?}\nmeaning {expected:?}\nlowered {found:?}",
                expected.first_difference(found)
            );
        }
        // The text form of the attributes reads back.
        let text = case.op.to_string();
        let mut cursor = trainc_ir::text::cursor::Cursor::new(&text);
        let parsed = <Op as trainc_ir::attributes::Attribute>::parse(&mut cursor)
            .unwrap_or_else(|e| panic!("{place}: {e}"));
        assert_eq!(parsed, case.op, "{place}");
    }
}

macro_rules! per_operation {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { check(OpKind::from_name(stringify!($name)).expect("a name")); })*

        #[test]
        fn every_operation_has_a_test() {
            let tested = [$(stringify!($name)),*];
            for kind in OpKind::ALL {
                assert!(tested.contains(&kind.name()), "{} is not tested", kind.name());
            }
        }
    };
}

per_operation! {
    abs, neg, exp, log, sqrt, reciprocal, tanh, sigmoid, erf, sign, floor, ceil, relu, relu_gradient,
    leaky_relu, leaky_relu_gradient, clip, clip_gradient, add, sub, mul, div, pow, maximum, minimum,
    reduce_sum, reduce_mean, reduce_max, reshape, transpose, concat, slice, pad, broadcast, matmul,
    conv2d, conv2d_gradient_input, conv2d_gradient_weight, max_pool2d, max_pool2d_gradient,
    avg_pool2d, avg_pool2d_gradient, batch_statistics, batch_norm, batch_norm_gradient, dropout,
    softmax, log_softmax, nll_loss, nll_loss_gradient, softmax_cross_entropy,
    softmax_cross_entropy_gradient, sgd_update, quantize_linear, dequantize_linear,
    quant, bipolar_quant, trunc, straight_through,
    quantize_exponent, quantize_weight, dequantize, requantize, quantize_gradient, shift_right,
    aligned_add, aligned_concat, saturating_subtract, integer_cross_entropy_gradient, integer_conv2d,
    quantize_parameter, quantize_bias, quantize_unsigned, requantize_stochastic, accumulate_bias,
    aligned_sum, scaled_step, momentum_step, normalized_update, split_byte, doubled_sum,
    integer_max_pool2d, integer_sum_pool2d, integer_add, scale_shift, threshold, chain,
}
