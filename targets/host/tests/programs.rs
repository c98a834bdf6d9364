//! Whole programs in memory against their interpretation, bit for bit.

mod common;

use common::models::{operands, small_model};
use common::program::{Interpreted, ProgramBuilder, assert_bits};
use trainc_host::{HostError, HostProgram, decode_tensor};
use trainc_ir::graph::InputRole;
use trainc_ir::ops::Neg;
use trainc_ir::program::{Program, Region};
use trainc_ir::program_verify::verify_program;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{RunContext, Tensor, TensorType};

fn state_of(program: &HostProgram) -> Vec<Tensor> {
    program.state().expect("the state decodes").into_iter().map(|(_, t)| t).collect()
}

#[test]
fn steps_of_training_and_inference() {
    let program = small_model();
    for generic in [false, true] {
        let compile = if generic { HostProgram::compile_generic } else { HostProgram::compile };
        let mut compiled = compile(&program).expect("the program compiles");
        let mut reference = Interpreted::new(&program);
        let names: Vec<String> =
            compiled.state().expect("state").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["conv.weight", "fc1.weight", "fc2.weight", "bias", "steps"]);
        let first = state_of(&compiled);
        for step in 0..6 {
            let run = RunContext { seed: 0xfeed_0000_0001, step: step as u32 };
            let inputs = operands(step);
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            let expected = reference.run("train_step", &inputs, &run);
            let found = compiled.run("train_step", &inputs, &run).expect("a step");
            assert_bits(&format!("step {step}"), &expected, &found);
            let expected: Vec<Tensor> = reference.state().into_iter().map(|(_, t)| t).collect();
            assert_bits(&format!("state after step {step}"), &expected, &state_of(&compiled));
            let expected = reference.run("infer", &inputs[..1], &run);
            let found = compiled.run("infer", &inputs[..1], &run).expect("inference");
            assert_bits(&format!("inference after step {step}"), &expected, &found);
        }
        let trained = state_of(&compiled);
        assert!(first.iter().zip(&trained).all(|(a, b)| !a.bits_equal(b)), "all state changes");
        // What was saved can be set again, and the initial state comes back.
        compiled.reset().expect("the initial state");
        assert_bits("reset", &first, &state_of(&compiled));
        for (name, tensor) in names.iter().zip(&trained) {
            compiled.set_state(name, tensor).expect("the state takes it");
        }
        assert_bits("set", &trained, &state_of(&compiled));
    }
}

/// Slices at any address, results into the caller's memory.
#[test]
fn runs_on_bytes() {
    let program = small_model();
    let mut compiled = HostProgram::compile(&program).expect("the program compiles");
    let entry = compiled.entry("infer").expect("there is inference");
    assert!(compiled.entry("none").is_none());
    let images = &operands(0)[0];
    let run = RunContext::default();
    let expected = compiled.run("infer", &[images], &run).expect("inference");
    let bytes = tensor_bytes(images);
    for shift in 0..4 {
        let mut input = vec![0u8; shift];
        input.extend(&bytes);
        let mut output = vec![0u8; shift + 24];
        compiled
            .run_raw(entry, &[&input[shift..]], &mut [&mut output[shift..]], &run)
            .expect("it fits");
        let found = decode_tensor(expected[0].ty(), &output[shift..]).expect("it decodes");
        assert_bits(&format!("at {shift}"), &expected, &[found]);
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let mut compiled = HostProgram::compile(&small_model()).expect("the program compiles");
    let run = RunContext::default();
    let images = &operands(0)[0];
    let refused = |result: Result<Vec<Tensor>, HostError>| match result {
        Err(HostError::Argument(message)) => message,
        other => panic!("not refused: {other:?}"),
    };
    assert!(refused(compiled.run("train", &[images], &run)).contains("no entry `train`"));
    assert!(refused(compiled.run("infer", &[], &run)).contains("1 operands, here 0"));
    let other = Tensor::f32([3], vec![0.0; 3]);
    assert!(refused(compiled.run("infer", &[&other], &run)).contains("`images` is f32[4,2,4,4]"));
    let error = compiled.set_state("bias", &Tensor::f32([2], vec![0.0; 2]));
    assert!(matches!(error, Err(HostError::Argument(_))));
    assert!(matches!(compiled.set_state("none", &other), Err(HostError::Argument(_))));
}

/// Generated code trusts the plan, so a plan that lies must not get that far; and it reads whole words.
#[test]
fn plans_that_lie_are_refused() {
    let build = || {
        let mut b = ProgramBuilder::new("one");
        let x = b.input("x", TensorType::f32([4]), InputRole::Data);
        let t = b.op(Neg {}, &[x])[0];
        let y = b.output("y", TensorType::f32([4]));
        b.op_into(Neg {}, &[t], &[y]);
        b.entry("infer");
        b.finish()
    };
    assert!(HostProgram::compile(&build()).is_ok());
    let changed = |change: &dyn Fn(&mut Program)| {
        let mut program = build().into_inner();
        change(&mut program);
        verify_program(program)
    };
    let refused = |change: &dyn Fn(&mut Program)| changed(change).expect_err("a lie").to_string();
    let beyond = refused(&|p| p.memory.arena_bytes = 12);
    assert!(beyond.contains("ends beyond its region"), "{beyond}");
    let offset = refused(&|p| p.buffers[1].offset = usize::MAX - 3);
    assert!(offset.contains("beyond"), "{offset}");
    let types = refused(&|p| p.kernels[0].inputs[0] = TensorType::f32([5]));
    assert!(types.contains("takes f32[5]"), "{types}");
    let input = refused(&|p| p.buffers[0].region = Region::Input(1));
    assert!(input.contains("is not input 0"), "{input}");
    let crooked = changed(&|p| {
        p.memory.arena_bytes += 2;
        p.buffers[1].offset += 2;
    });
    let crooked =
        HostProgram::compile(&crooked.expect("a valid program")).expect_err("half a word");
    assert!(crooked.to_string().contains("not 4-byte aligned"), "{crooked}");
}
