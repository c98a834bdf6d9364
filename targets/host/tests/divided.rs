//! Loops that threads share, against their evaluation, bit for bit: every case of every operation in ranges, the last first, and
//! one long enough to be divided by itself, on one thread and on several.

mod common;

use common::program::{Interpreted, ProgramBuilder, assert_bits};
use common::{Random, run_divided};
use trainc_host::HostProgram;
use trainc_host::kernels::set_threads;
use trainc_ir::graph::InputRole;
use trainc_ir::loops;
use trainc_ir::ops::{QuantizeExponent, Softmax};
use trainc_ir::{Element, OpKind, RunContext, Tensor, TensorType};

const CONTEXT: RunContext = RunContext { seed: 0x0123_4567_89ab_cdef, step: 41 };

#[test]
fn every_operation_in_ranges() {
    let mut divided = 0;
    for &kind in OpKind::ALL {
        for (n, case) in kind.cases().into_iter().enumerate() {
            let inputs: Vec<&Tensor> = case.inputs.iter().collect();
            let types: Vec<&TensorType> = inputs.iter().map(|tensor| tensor.ty()).collect();
            let outputs = case.op.infer(&types).expect("the case types");
            let narrow = |ty: &&TensorType| ty.element.bits() < 8;
            if types.iter().copied().chain(&outputs).any(|ty| narrow(&ty)) {
                continue;
            }
            let kernel = case.op.lower(&types, &outputs.iter().collect::<Vec<_>>());
            // What calls one loop kernel here passes at most 16 addresses, two of which divided ones may add.
            if kernel.buffers.len() > 14 {
                continue;
            }
            let expected = loops::evaluate::run(&kernel, &inputs, &outputs, &CONTEXT);
            let (found, sections) = run_divided(&kernel, &inputs, &outputs, &CONTEXT);
            assert_bits(&format!("{} case {n}", kind.name()), &expected, &found);
            divided += usize::from(sections > 0);
        }
    }
    assert!(divided > 200, "only {divided} cases have loops that can be divided");
}

/// Tensors whose loops are worth dividing: with what one loop leaves for the next, and with loops that stay whole.
#[test]
fn long_tensors_on_several_threads() {
    let mut b = ProgramBuilder::new("long");
    let x = b.input("x", TensorType::f32([40, 3000]), InputRole::Data);
    let rows = b.op(Softmax { axis: 1 }, &[x])[0];
    let codes = TensorType::shared([40, 3000], Element::I8);
    let y = b.output("y", codes);
    b.op_into(QuantizeExponent {}, &[rows], &[y]);
    b.entry("infer");
    let program = b.finish();
    let mut compiled = HostProgram::compile(&program).expect("the program compiles");
    let mut reference = Interpreted::new(&program);
    let mut random = Random(5);
    for threads in [1, 3] {
        set_threads(threads);
        let data: Vec<f32> = (0..40 * 3000).map(|_| random.integer() as f32 / 1e9).collect();
        let x = Tensor::f32([40, 3000], data);
        let expected = reference.run("infer", &[&x], &CONTEXT);
        let found = compiled.run("infer", &[&x], &CONTEXT).expect("inference");
        assert_bits(&format!("{threads} threads"), &expected, &found);
    }
}
