//! The count of what inference gets right: ties, NaN, unfinished batches.

use std::sync::Arc;

use trainc_c::C;
use trainc_ir::graph::InputRole;
use trainc_ir::ops::{Neg, Relu, SoftmaxCrossEntropy};
use trainc_ir::program::{
    Argument, Buffer, BufferId, DeviceId, Entry, Kernel, KernelId, Launch, MemoryPlan, Notes,
    Program, Region, Step,
};
use trainc_ir::program_verify::verify_program;
use trainc_ir::target::Target;
use trainc_ir::{Element, Op, Tensor, TensorType, Verified};

use crate::support::{SANITIZED, cc, execute, folder, text, write, write_all};

const BATCH: usize = 5;
const CLASSES: usize = 4;

/// Inference that is one operation on scores, and "training" that only computes a loss.
fn scores(op: Op, ty: &TensorType) -> Program {
    let float = TensorType::new([BATCH, CLASSES], Element::F32);
    let labels = TensorType::new([BATCH], Element::I32);
    let scalar = TensorType::new([0usize; 0], Element::F32);
    let buffer = |name: &str, ty: &TensorType, region: Region| Buffer {
        name: name.into(),
        ty: ty.clone(),
        region,
        offset: 0,
    };
    let argument = |name: &str, buffer: usize, role: InputRole| Argument {
        name: name.into(),
        buffer: BufferId(buffer),
        role,
    };
    // Launches have the arena for themselves.
    let launch = |kernel: usize, inputs: &[usize], output: usize| {
        Step::Launch(Launch {
            kernel: KernelId(kernel),
            device: DeviceId(0),
            inputs: inputs.iter().map(|&i| BufferId(i)).collect(),
            outputs: vec![BufferId(output)],
            scratch: Some(0),
            name: "node".into(),
        })
    };
    let kernel = |name: &str, op: Op, inputs: Vec<TensorType>, output: &TensorType| {
        Kernel::new(name, op, inputs, vec![output.clone()], |signature| C.select(signature))
    };
    let loss: Op = SoftmaxCrossEntropy {}.into();
    let initial = Arc::new(Tensor::f32([0usize; 0], vec![0.0]));
    let kernels = vec![
        kernel("loss", loss, vec![float.clone(), labels.clone()], &scalar),
        kernel("own", op, vec![ty.clone()], ty),
    ];
    let arena_bytes = kernels.iter().map(Kernel::scratch_bytes).max().unwrap_or(0);
    Program {
        name: "scores".into(),
        devices: vec!["cpu".into()],
        buffers: vec![
            buffer("x", &float, Region::Input(0)),
            buffer("labels", &labels, Region::Input(1)),
            buffer("loss", &scalar, Region::Output(0)),
            buffer("examples", ty, Region::Input(0)),
            buffer("y", ty, Region::Output(0)),
            buffer("unused", &scalar, Region::State { index: 0, initial }),
        ],
        kernels,
        entries: vec![
            Entry {
                name: "train_step".into(),
                inputs: vec![
                    argument("x", 0, InputRole::Data),
                    argument("labels", 1, InputRole::Labels),
                ],
                outputs: vec![argument("loss", 2, InputRole::Data)],
                steps: vec![launch(0, &[0, 1], 2)],
            },
            Entry {
                name: "infer".into(),
                // A name that the function's own arguments have.
                inputs: vec![argument("examples", 3, InputRole::Data)],
                outputs: vec![argument("y", 4, InputRole::Data)],
                steps: vec![launch(1, &[3], 4)],
            },
        ],
        notes: Notes::default(),
        memory: MemoryPlan {
            arena_bytes,
            arena_lower_bound_bytes: arena_bytes,
            state_bytes: 4,
            constant_bytes: 0,
        },
    }
}

fn valid(program: &Program) -> Verified<Program> {
    verify_program(program.clone()).expect("a valid program")
}

fn run(name: &str, program: &Program, main: &str) {
    let folder = folder(name);
    let files = trainc_c::C.emit(&valid(program)).expect("emitted");
    write_all(&folder, &files);
    let head = "#include <stdio.h>\n#include <math.h>\n#include \"scores.h\"\n\
        #define CHECK(x) do { if (!(x)) { printf(\"line %d: \" #x \"\\n\", __LINE__); return 1; } } while (0)\n\
        static _Alignas(16) unsigned char arena[SCORES_ARENA_BYTES], state[SCORES_STATE_BYTES];\n";
    write(&folder, "main.c", format!("{head}{main}"));
    let mut flags = vec!["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"];
    flags.extend(SANITIZED);
    flags.extend(["main.c", "scores.c", "scores_data.c", "trainc_rt.c", "-o", "scores"]);
    cc(&folder, &flags);
    execute(&folder, "scores", &[]);
}

#[test]
fn floats() {
    let program = scores(Neg {}.into(), &TensorType::new([BATCH, CLASSES], Element::F32));
    run(
        "scores_float",
        &program,
        r#"
_Static_assert(SCORES_BATCH == 5 && SCORES_CLASSES == 4 && SCORES_EXAMPLES_ELEMENTS == 20, "");
int main(void)
{
    /* Negated: the lowest wins. */
    const float x[20] = { 1, -3, -3, 0,  NAN, 5, 6, 7,  0, NAN, -2, -2,  NAN, NAN, NAN, NAN,
        INFINITY, 9, -INFINITY, -9 };
    const int32_t right[5] = { 1, 1, 2, 3, 2 }, wrong[5] = { 2, 0, 3, 0, 3 }, bad[5] = { -1, 4, 9, -9, 2 };
    float y[20];
    scores_init(state);
    CHECK(scores_evaluate(arena, state, x, right, 5, y) == 5);
    CHECK(y[0] == -1 && y[18] == INFINITY);
    CHECK(scores_evaluate(arena, state, x, right, 2, y) == 2);
    CHECK(scores_evaluate(arena, state, x, right, 0, y) == 0);
    CHECK(scores_evaluate(arena, state, x, right, 100, y) == 5);
    CHECK(scores_evaluate(arena, state, x, wrong, 5, y) == 0);
    CHECK(scores_evaluate(arena, state, x, bad, 5, y) == 1);
    return 0;
}
"#,
    );
}

#[test]
fn bytes_with_an_exponent() {
    let program = scores(Relu {}.into(), &TensorType::shared([BATCH, CLASSES], Element::I8));
    run(
        "scores_bytes",
        &program,
        r#"
int main(void)
{
    const scores_infer_examples x = { { 1, 3, 3, 0,  -1, -5, -6, -7,  0, 9, 127, 127,  1, 2, 3, 4,
        -128, 0, 1, -1 }, 3 };
    const int32_t right[5] = { 1, 0, 2, 3, 2 }, wrong[5] = { 2, 1, 3, 0, 0 };
    scores_infer_y y;
    scores_init(state);
    CHECK(scores_evaluate(arena, state, &x, right, 5, &y) == 5);
    CHECK(y.elements[10] == 127 && y.exponent == 3);
    CHECK(scores_evaluate(arena, state, &x, wrong, 5, &y) == 0);
    return 0;
}
"#,
    );
}

/// Without scores of one label each there is nothing to count.
#[test]
fn only_where_it_makes_sense() {
    let header =
        |program: &Program| text(&trainc_c::C.emit(&valid(program)).expect("emitted"), "scores.h");
    let ty = TensorType::new([BATCH, CLASSES], Element::F32);
    let whole = scores(Neg {}.into(), &ty);
    assert!(header(&whole).contains("uint32_t scores_evaluate("));
    let mut renamed = whole.clone();
    renamed.entries[1].name = "predict".into();
    assert!(!header(&renamed).contains("scores_evaluate"));
    let mut clash = whole.clone();
    clash.entries[0].name = "evaluate".into();
    assert!(header(&clash).contains("void scores_evaluate("));
    assert!(!header(&clash).contains("uint32_t scores_evaluate("));
    let mut unlabelled = whole;
    unlabelled.entries[0].inputs[1].role = InputRole::Data;
    assert!(!header(&unlabelled).contains("scores_evaluate"));
    assert!(trainc_c::example(&valid(&unlabelled)).is_err());
}
