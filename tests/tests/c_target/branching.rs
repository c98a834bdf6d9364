//! Branches, constants, tensors with exponents as arguments, and what cannot be emitted.

use std::sync::Arc;

use trainc_c::C;
use trainc_ir::graph::InputRole;
use trainc_ir::ops::{Dropout, Relu, SaturatingSubtract};
use trainc_ir::program::{
    Argument, Buffer, BufferId, DeviceId, Entry, Kernel, KernelId, Launch, MemoryPlan, Notes,
    Program, Region, Step,
};
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::program_verify::verify_program;
use trainc_ir::target::Target;
use trainc_ir::tensor_bytes::element_bytes;
use trainc_ir::{Element, Op, RunContext, Tensor, TensorType};

use crate::support::{SANITIZED, SEED, cc, execute, folder, write, write_all};

/// A branch, a constant, tensors with exponents as arguments, and random numbers: what the networks above lack.
fn branching() -> Program {
    let ty = TensorType::shared([5], Element::I8);
    let flag = TensorType::new([0usize; 0], Element::I32);
    let buffer = |name: &str, ty: &TensorType, region: Region, offset: usize| Buffer {
        name: name.into(),
        ty: ty.clone(),
        region,
        offset,
    };
    let constant = Arc::new(Tensor::i8_shared([5], vec![100, -100, 3, -4, 0], -2));
    let initial = Arc::new(Tensor::i8_shared([5], vec![0; 5], 0));
    let kernel = |name: &str, op: Op, inputs: usize| {
        Kernel::new(name, op, vec![ty.clone(); inputs], vec![ty.clone()], |signature| {
            C.select(signature)
        })
    };
    let launch = |kernel: usize, inputs: &[usize], output: usize| {
        Step::Launch(Launch {
            kernel: KernelId(kernel),
            device: DeviceId(0),
            inputs: inputs.iter().map(|&i| BufferId(i)).collect(),
            outputs: vec![BufferId(output)],
            scratch: None,
            name: "node */".into(),
        })
    };
    let argument = |name: &str, buffer: usize| Argument {
        name: name.into(),
        buffer: BufferId(buffer),
        role: InputRole::Data,
    };
    let dropout = Dropout { ratio: 0.5f32.into(), stream: 6 };
    Program {
        name: "Branching 1".into(),
        devices: vec!["cpu".into()],
        buffers: vec![
            buffer("x", &ty, Region::Input(0), 0),
            buffer("flag", &flag, Region::Input(1), 0),
            buffer("c", &ty, Region::Constant(constant), 16),
            buffer("t", &ty, Region::Arena, 32),
            buffer("y", &ty, Region::Output(0), 0),
            buffer("int", &ty, Region::State { index: 0, initial }, 0),
        ],
        kernels: vec![
            kernel("difference", SaturatingSubtract {}.into(), 2),
            kernel("dropout", dropout.into(), 1),
            kernel("relu", Relu {}.into(), 1),
        ],
        entries: vec![Entry {
            name: "run".into(),
            inputs: vec![argument("state", 0), argument("double", 1)],
            outputs: vec![argument("state", 4)],
            steps: vec![
                launch(0, &[0, 2], 3),
                Step::Branch {
                    condition: BufferId(1),
                    then: vec![launch(1, &[3], 4)],
                    otherwise: vec![launch(2, &[3], 4)],
                },
                launch(2, &[4], 5),
            ],
        }],
        notes: Notes::default(),
        memory: MemoryPlan {
            arena_bytes: 48,
            arena_lower_bound_bytes: 48,
            state_bytes: 12,
            constant_bytes: 28,
        },
    }
}

#[test]
fn branches_constants_and_exponents() {
    let program = verify_program(branching()).expect("a valid program");
    let folder = folder("branching");
    let files = trainc_c::C.emit(&program).expect("emitted");
    write_all(&folder, &files);
    write(
        &folder,
        "main.c",
        format!(
            r#"
#include <stdio.h>
#include "branching_1.h"
int main(void)
{{
    static _Alignas(16) unsigned char arena[BRANCHING_1_ARENA_BYTES], state[BRANCHING_1_STATE_BYTES];
    branching_1_init(state);
    for (uint32_t step = 0; step < 4; step++) {{
        branching_1_run_state_2 x = {{ {{ 1, -2, 127, -128, 50 }}, 3 }};
        branching_1_run_state_3 y;
        int32_t flag[1] = {{ (int32_t)(step & 1) }};
        branching_1_run(arena, state, UINT64_C({SEED}), step, &x, flag, &y);
        fwrite(y.elements, 1, sizeof y.elements, stdout);
        fwrite(&y.exponent, 1, sizeof y.exponent, stdout);
        fwrite(state, 1, 5, stdout);
        fwrite(state + 8, 1, 4, stdout);
    }}
    return 0;
}}
"#
        ),
    );
    let sources = ["main.c", "branching_1.c", "branching_1_data.c", "trainc_rt.c"];
    let mut flags = vec!["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"];
    flags.extend(SANITIZED);
    cc(&folder, &[&flags[..], &sources, &["-o", "branching"]].concat());
    let found = execute(&folder, "branching", &[]);
    let mut reference = ProgramInterpreter::new(&program);
    let x = Tensor::i8_shared([5], vec![1, -2, 127, -128, 50], 3);
    let mut expected = Vec::new();
    for step in 0..4 {
        let flag = Tensor::i32([0usize; 0], vec![(step & 1) as i32]);
        let run = RunContext { seed: SEED, step };
        let results = reference.run("run", &[x.clone(), flag], &run).expect("it runs");
        for tensor in [&results[0], &reference.state()[0].1] {
            expected.extend(element_bytes(tensor));
            expected.extend(tensor.exponent().to_le_bytes());
        }
    }
    assert_eq!(found, expected);
}

/// What C cannot express is an error and not a wrong program.
#[test]
fn refusals() {
    let refused = |change: &dyn Fn(&mut Program)| {
        let mut program = branching();
        change(&mut program);
        let program = verify_program(program).expect("a valid program");
        trainc_c::C.emit(&program).expect_err("refused").to_string()
    };
    let clash = refused(&|p| p.entries[0].name = "init".into());
    assert!(clash.starts_with("target c: "), "{clash}");
    assert!(clash.contains("`branching_1_init`"), "{clash}");
    // The runtime's own files keep their names.
    let mut reserved = branching();
    reserved.name = "trainc_rt".into();
    let reserved = verify_program(reserved).expect("a valid program");
    let files = trainc_c::C.emit(&reserved).expect("under another name");
    let headers: Vec<&str> =
        files.iter().map(|f| f.name.as_str()).filter(|name| name.ends_with(".h")).collect();
    assert_eq!(headers, ["trainc_rt_model.h", "trainc_rt.h"]);
}
