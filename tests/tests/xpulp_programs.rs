//! Programs of quantized convolutions on XpulpV2: constants lie in the order in which kernels read them, once, and results are the
//! interpreter's.

use std::path::Path;
use std::process::Command;

use trainc_c::RUNTIME_SOURCE;
use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::IntegerAdd;
use trainc_ir::program_interpreter::ProgramInterpreter;
use trainc_ir::target::Target;
use trainc_ir::tensor_bytes::tensor_bytes;
use trainc_ir::{Element, RunContext, Tensor};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_tests::random::Random;
use trainc_tests::xpulp_convolutions::{Elements, Shape, convolution, tensor};
use trainc_xpulpv2::XPULPV2;

struct Net {
    graph: Graph,
    random: Random,
}

impl Net {
    /// A convolution of `x` with constants; its weights are `w` if given. Result and weights.
    fn convolution(
        &mut self,
        x: ValueId,
        elements: Elements,
        w: Option<ValueId>,
        name: &str,
    ) -> [ValueId; 2] {
        let dims = self.graph.ty(x).shape.dims();
        let shape = Shape::three([dims[0], dims[1], dims[2], dims[3]], 8);
        let case = convolution(&shape, elements, false, true, &mut self.random);
        let mut operands = vec![x];
        for (i, operand) in case.inputs.iter().enumerate().skip(1) {
            operands.push(match w.filter(|_| i == 1) {
                Some(w) => w,
                None => self.graph.add_constant(format!("{name}.{i}"), operand.clone()),
            });
        }
        let y = self.graph.add1(case.op, &operands, name).expect("the operands fit");
        [y, operands[1]]
    }
}

fn c_bytes(name: &str, bytes: &[u8]) -> String {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    format!("static TRAINC_ALIGNED(16) unsigned char {name}[] = {{{}}};\n", numbers.join(","))
}

#[test]
fn constants_are_arranged_once() {
    use Element::{I4, I8, U4, U8};
    let mut random = Random(3);
    let x = tensor(&[1, 9, 10, 8], U8, &mut random);
    let mut net = Net { graph: Graph::new("net"), random };
    let input = net.graph.add_input("x", x.ty().clone(), InputRole::Data);
    let [first, shared] = net.convolution(input, [U8, I4, U4], None, "first");
    // One kernel with weights of its own, then with the first's.
    let [second, _] = net.convolution(first, [U4, I4, U4], None, "second");
    let [third, _] = net.convolution(second, [U4, I4, U4], Some(shared), "third");
    let [last, _] = net.convolution(third, [U4, I8, U8], None, "last");
    // Something else reads these weights as they are.
    let twice = IntegerAdd { factors: [1, 1] };
    let doubled = net.graph.add1(twice, &[shared, shared], "doubled").expect("one shape");
    net.graph.add_output("y", last);
    net.graph.add_output("doubled", doubled);

    let entries = [PlanEntry { name: "infer", graph: &net.graph }];
    let (program, _) = plan("net", &entries, &XPULPV2, &PlanOptions::default()).expect("plans");
    let mut reference = ProgramInterpreter::new(&program);
    let results = reference
        .run("infer", std::slice::from_ref(&x), &RunContext { seed: 0, step: 0 })
        .expect("the entry runs");
    let files = XPULPV2.emit(&program).expect("emits");

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xpulp_programs");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    for file in &files {
        std::fs::write(folder.join(&file.name), &file.contents).expect("a file is written");
    }
    assert!(files.iter().any(|f| f.contents == RUNTIME_SOURCE.as_bytes()));
    let data = std::fs::read_to_string(folder.join("net_data.c")).expect("data");
    // Thresholds of three layers, scale and offset of one, the first weights as they are; all else is arranged.
    let plain = 3 * 4 * 8 * 15 + 2 * 4 * 8 + 8 * 72 / 2;
    assert!(data.contains(&format!("net_constants[{}] =", plain / 4)), "{data}");
    assert_eq!(data.matches("in the order in which its kernel reads it").count(), 4, "{data}");

    let bytes = |t: &Tensor| tensor_bytes(t);
    let mut main =
        String::from("#include <string.h>\n#include \"net.h\"\n#include \"trainc_rt.h\"\n");
    main.push_str(&c_bytes("x", &bytes(&x)));
    main.push_str(&c_bytes("expected_y", &bytes(&results[0])));
    main.push_str(&c_bytes("expected_doubled", &bytes(&results[1])));
    main.push_str(
        "static TRAINC_ALIGNED(16) unsigned char y[sizeof expected_y], doubled[sizeof expected_doubled];\n\
         static TRAINC_ALIGNED(16) unsigned char arena[NET_ARENA_BYTES + 16];\n\
         int main(void)\n{\n    net_infer(arena, 0, x, y, (int32_t *)(void *)doubled);\n\
         \u{20}   return memcmp(y, expected_y, sizeof y) != 0 || memcmp(doubled, expected_doubled, sizeof doubled) != 0;\n}\n",
    );
    std::fs::write(folder.join("main.c"), main).expect("the driver is written");
    let compiled = Command::new("cc")
        .current_dir(&folder)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined,address"])
        .args(["-fno-sanitize=alignment", "-o", "net"])
        .args(["main.c", "net.c", "net_data.c", "trainc_rt.c"])
        .output()
        .expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(folder.join("net")).output().expect("the program starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
