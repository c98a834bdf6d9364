//! Every operation's cases: its loops by Cranelift against its meaning, bit for bit.

mod common;

use common::run_compiled;
use trainc_ir::{OpKind, RunContext, Tensor, TensorType};

fn check(kind: OpKind) {
    let run = RunContext { seed: 0x1234_5678_9abc_def0, step: 3 };
    let cases = kind.cases();
    assert!(!cases.is_empty(), "{}: no case", kind.name());
    for (i, case) in cases.iter().enumerate() {
        let place = format!("{} case {i}: {}", kind.name(), case.op);
        let operands: Vec<&Tensor> = case.inputs.iter().collect();
        let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
        let results = case.op.infer(&types).unwrap_or_else(|e| panic!("{place}: {e}"));
        let meaning = case.op.evaluate(&operands, &run);
        let kernel = case.op.lower(&types, &results.iter().collect::<Vec<_>>());
        let found = run_compiled(&kernel, &operands, &results, &run);
        for (expected, found) in meaning.iter().zip(&found) {
            assert!(
                expected.bits_equal(found),
                "{place}: compiled code differs at {:?}\nmeaning {expected:?}\nfound {found:?}",
                expected.first_difference(found)
            );
        }
    }
}

#[test]
fn every_operation() {
    let mut failures = Vec::new();
    for &kind in OpKind::ALL {
        if let Err(payload) = std::panic::catch_unwind(|| check(kind)) {
            let message = payload.downcast_ref::<String>().cloned().unwrap_or_default();
            failures.push(format!("{}: {message}", kind.name()));
        }
    }
    assert!(failures.is_empty(), "{} operations:\n{}", failures.len(), failures.join("\n"));
}
