//! Every operation's cases: known results, and the loop lowering against the meaning, bit for bit.

use trainc_ir::ops::{lower_by_images, lower_in_halves};
use trainc_ir::{Op, OpKind, RunContext, Tensor, TensorType, loops};

/// The number of kernels that go image by image.
fn check(kind: OpKind) -> usize {
    let mut by_images = 0;
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
        let outputs: Vec<&TensorType> = results.iter().collect();
        let same = |kernel: &loops::LoopKernel, how: &str| {
            let lowered = loops::evaluate::run(kernel, &operands, &results, &run);
            for (expected, found) in meaning.iter().zip(&lowered) {
                assert!(
                    expected.bits_equal(found),
                    "{place}: lowering {how}differs at {:?}\nmeaning {expected:?}\nlowered {found:?}",
                    expected.first_difference(found)
                );
            }
        };
        same(&case.op.lower(&types, &outputs), "");
        same(&case.op.lower_apart(&types, &outputs), "apart ");
        for vector in [2, 8, 41, 128] {
            if let Some(kernel) = lower_by_images(&case.op, &types, &outputs, vector) {
                same(&kernel, "by images ");
                by_images += 1;
            }
            if let Some(kernel) = lower_in_halves(&case.op, &types, &outputs, vector) {
                same(&kernel, "in halves ");
            }
        }
        // The text form of the attributes reads back.
        let text = case.op.to_string();
        let mut cursor = trainc_ir::text::cursor::Cursor::new(&text);
        let parsed = <Op as trainc_ir::attributes::Attribute>::parse(&mut cursor)
            .unwrap_or_else(|e| panic!("{place}: {e}"));
        assert_eq!(parsed, case.op, "{place}");
    }
    by_images
}

#[test]
fn every_operation() {
    let by_images: usize = OpKind::ALL.iter().map(|&kind| check(kind)).sum();
    assert!(by_images > 50, "{by_images}");
}
