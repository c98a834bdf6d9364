//! Quantized inference with packed operands, constants, results and memory between. Most numbers of elements do not fill the
//! last byte.

use trainc_driver::verify::{ProgramCall, verify_program};
use trainc_ir::Verified;
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::harness::{Harness, Toolchain};
use trainc_ir::interpreter::Interpreter;
use trainc_ir::ops::{
    BinaryConv2d, Chain, Concat, DequantizeLinear, IntegerAdd, IntegerConv2d, IntegerMaxPool2d,
    IntegerSumPool2d, QuantizeLinear, ScaleShift, Threshold, Transpose,
};
use trainc_ir::program::Program;
use trainc_ir::target::Target;
use trainc_ir::target::{ArtifactFile, EmitError, Selection, Signature, TargetDescription};
use trainc_ir::{Element, Op, RunContext, ScaleData, Tensor, TensorType, ValueId};
use trainc_opencl::OPENCL;
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};
use trainc_tests::random::Random;

use super::exceptions::Suite;
use super::{exceptions, side_by_side};

const IMAGES: usize = 3;

fn integers(random: &mut Random, shape: &[usize], element: Element, within: i64) -> Tensor {
    let ty = TensorType::new(shape, element);
    let (low, high) = element.integer_range().expect("an integer");
    let (low, high) = (low.max(-within), high.min(within));
    let values: Vec<i64> =
        (0..ty.count()).map(|_| low + ((random.next() >> 33) as i64) % (high - low + 1)).collect();
    Tensor::from_i64(&ty, &values, ScaleData::None)
}

/// Results are i2, u4 and i4; between them lie u4, u2 and i4.
fn network(random: &mut Random) -> Graph {
    fn add(g: &mut Graph, op: impl Into<Op>, operands: &[ValueId]) -> ValueId {
        g.add1(op, operands, "node").expect("the operation types")
    }
    let mut g = Graph::new("packed");
    let x = g.add_input("x", TensorType::f32([IMAGES, 3, 5, 7]), InputRole::Data);
    let q = g.add_input("q", TensorType::new([IMAGES, 5, 7, 3], Element::I2), InputRole::Data);
    let scale = g.add_constant("scale", Tensor::f32([], vec![0.11]));
    let zero = TensorType::new([0usize; 0], Element::U4);
    let zero = g.add_constant("zero", Tensor::from_i64(&zero, &[7], ScaleData::None));
    let x = add(&mut g, QuantizeLinear { axis: 0 }, &[x, scale, zero]);
    let x = add(&mut g, Transpose { permutation: vec![0, 2, 3, 1] }, &[x]);
    let w = g.add_constant("w", integers(random, &[5, 3, 3, 3], Element::I2, 2));
    let mut rows = integers(random, &[5, 3], Element::I32, 90).as_i32().to_vec();
    rows.chunks_exact_mut(3).for_each(|row| row.sort_unstable());
    let rows = g.add_constant("rows", Tensor::i32([5, 3], rows));
    let flip = g.add_constant("flip", Tensor::i32([5], vec![0, -1, 0, 0, -1]));
    let convolution =
        IntegerConv2d { strides: [1, 1], pads: [1; 4], dilations: [1, 1], groups: 1, padding: 7 };
    let stairs = Threshold { low: 0, element: Element::U2 };
    let chain = Chain { ops: vec![convolution.into(), stairs.into()] };
    let y = add(&mut g, chain, &[x, w, rows, flip]);
    let pool = IntegerMaxPool2d { kernel: [2, 2], strides: [2, 2], pads: [1, 0, 0, 0] };
    let y = add(&mut g, pool, &[y]);
    let vectors = [[20, -15, 9], [-600, 300, 0], [11, -7, 5], [100, -30, 0]]
        .map(|values| g.add_constant("vector", Tensor::i32([3], values.to_vec())));
    let sums = add(&mut g, IntegerAdd { factors: [3, -2] }, &[x, q]);
    let scaled = ScaleShift { shift: 7, low: -8, high: 7, element: Element::I4 };
    let z = add(&mut g, scaled, &[sums, vectors[0], vectors[1]]);
    let pool =
        IntegerSumPool2d { kernel: [2, 3], strides: [2, 1], pads: [0, 1, 1, 0], padding: -3 };
    let z_sums = add(&mut g, pool, &[z]);
    let scaled = ScaleShift { shift: 8, low: -2, high: 1, element: Element::I2 };
    let narrow = add(&mut g, scaled, &[z_sums, vectors[2], vectors[3]]);
    let joined = add(&mut g, Concat { axis: 1 }, &[x, x]);
    let scale = g.add_constant("scale", Tensor::f32([], vec![0.5]));
    let zero = TensorType::new([0usize; 0], Element::I4);
    let zero = g.add_constant("zero", Tensor::from_i64(&zero, &[-3], ScaleData::None));
    let real = add(&mut g, DequantizeLinear { axis: 0 }, &[z, scale, zero]);
    for (name, value) in
        [("y", y), ("z", z), ("narrow", narrow), ("joined", joined), ("real", real)]
    {
        g.add_output(name, value);
    }
    g
}

/// What is wrong with it on a target. The bits behind last elements are compared, too.
fn failures(target: &dyn Target) -> Vec<String> {
    let mut random = Random(41);
    let graph = network(&mut random);
    let x = (0..IMAGES * 105).map(|_| (random.next() >> 40) as f32 / (1 << 22) as f32 - 2.0);
    let operands = vec![
        Tensor::f32([IMAGES, 3, 5, 7], x.collect()),
        integers(&mut random, &[IMAGES, 5, 7, 3], Element::I2, 2),
    ];
    let expected = interpreted(&graph, &operands);
    let packed: Vec<&Tensor> = expected.iter().filter(|t| t.ty().element.bits() < 8).collect();
    for tensor in &packed {
        let values = tensor.to_i64();
        assert!(values.iter().any(|v| *v != values[0]), "{} is constant", tensor.ty());
    }
    let bits = |t: &&&Tensor| t.ty().count() * t.ty().element.bits() as usize;
    assert_eq!(packed.iter().filter(|t| bits(t) % 8 != 0).count(), 3, "bytes that are not full");
    differences(target, &graph, operands)
}

fn interpreted(graph: &Graph, operands: &[Tensor]) -> Vec<Tensor> {
    Interpreter::new(graph).step(operands, &RunContext::default()).expect("interprets")
}

/// Where a program of the graph differs from the interpreter.
fn differences(target: &dyn Target, graph: &Graph, operands: Vec<Tensor>) -> Vec<String> {
    let entries = [PlanEntry { name: "infer", graph }];
    let (program, _) = plan("packed", &entries, target, &PlanOptions::default()).expect("plans");
    let calls = [ProgramCall { entry: 0, step: 0, operands }];
    let name = target.description().name;
    let mut failures = Vec::new();
    // What leaves its memory, OpenCL's interpreter alone sees.
    let interpreted = (name == "opencl").then(|| exceptions::builds(name, Some(Suite::Quantized)));
    for build in exceptions::builds(name, None).into_iter().chain(interpreted.into_iter().flatten())
    {
        let options = build.options();
        match verify_program(&program, target, &calls, &options) {
            Ok(report) => failures.extend(report.findings.iter().map(|f| format!("{name}: {f}"))),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    failures
}

/// Products of bits of all widths of words, and of bytes, with borders, strides and windows that lie beside the map, as sums and as bits.
fn bit_products(target: &dyn Target) -> Vec<String> {
    let mut random = Random(43);
    let mut g = Graph::new("bits");
    let mut operands = Vec::new();
    // Groups, stored channels and channels of each, features, rows and columns of the window.
    for (at, (groups, stored, channels, features, window)) in [
        (1, 8, 5, 8, [3, 3]),
        (1, 16, 16, 11, [2, 3]),
        (1, 24, 24, 16, [1, 2]),
        (1, 32, 32, 8, [3, 1]),
        (1, 64, 57, 16, [3, 3]),
        (1, 128, 128, 5, [2, 2]),
        (1, 192, 192, 8, [3, 3]),
        (1, 256, 256, 8, [2, 1]),
        (1, 512, 512, 16, [3, 3]),
        (1, 1024, 1024, 8, [1, 1]),
        (1, 8, 8, 9, [7, 7]),
        (1, 64, 64, 40, [3, 2]),
        (2, 64, 60, 32, [3, 3]),
        (3, 24, 24, 15, [2, 2]),
        (4, 16, 16, 8, [3, 1]),
        (16, 8, 8, 16, [3, 3]),
        // Many channels, of words of two and of sixteen bytes.
        (1, 272, 270, 24, [3, 3]),
        (1, 384, 380, 16, [2, 2]),
    ]
    .into_iter()
    .enumerate()
    {
        // All differ where counts are most.
        let within = i64::from(window != [7, 7]);
        let map = if within == 0 || at > 10 { [8, 19] } else { [4, 5] };
        let shape = [2, map[0], map[1], groups * stored];
        let x = integers(&mut random, &shape, Element::B1, within);
        let shape = [features, window[0], window[1], stored];
        let mut w = integers(&mut random, &shape, Element::B1, 1);
        if within == 0 {
            let ones = vec![1; w.ty().count()];
            w = Tensor::from_i64(w.ty(), &ones, ScaleData::None);
        }
        let op = BinaryConv2d {
            strides: [1 + at % 2, 1 + at / 2 % 2],
            pads: [at % 3, 1, at / 3 % 2, 2],
            dilations: [1, 1],
            groups,
            padding: 0,
            channels,
        };
        let x_id = g.add_input(format!("x{at}"), x.ty().clone(), InputRole::Data);
        let w = g.add_constant(format!("w{at}"), w);
        let mut inputs = vec![x_id, w];
        let mut ops: Vec<Op> = vec![op.into()];
        if features % 8 == 0 && at != 3 {
            ops.push(Threshold { low: 0, element: Element::B1 }.into());
            let rows = integers(&mut random, &[features, 1], Element::I32, 9);
            inputs.push(g.add_constant("rows", rows));
            if at % 4 == 0 {
                let flip = (0..features).map(|f| -((f % 3 == 1) as i32)).collect();
                inputs.push(g.add_constant("flip", Tensor::i32([features], flip)));
            }
        }
        let op = if ops.len() == 1 { ops.remove(0) } else { Chain { ops }.into() };
        let y = g.add1(op, &inputs, "node").expect("the operation types");
        g.add_output(format!("y{at}"), y);
        operands.push(x);
    }
    for (at, (channels, features, window, element)) in [
        (3, 24, [3, 3], Element::U8),
        (5, 21, [2, 3], Element::I8),
        (1, 16, [1, 1], Element::U8),
        (4, 8, [3, 2], Element::I8),
    ]
    .into_iter()
    .enumerate()
    {
        let x = integers(&mut random, &[2, 4, 5, channels], element, 255);
        let shape = [features, window[0], window[1], channels];
        let w = integers(&mut random, &shape, Element::I8, 127);
        let op = IntegerConv2d {
            strides: [1 + at % 2, 1 + at / 2 % 2],
            pads: [at % 3, 1, at / 2, 2],
            dilations: [1, 1],
            groups: 1,
            padding: 0,
        };
        let x_id = g.add_input(format!("b{at}"), x.ty().clone(), InputRole::Data);
        let mut inputs = vec![x_id, g.add_constant("w", w)];
        let mut ops: Vec<Op> = vec![op.into()];
        if features % 8 == 0 && at != 2 {
            ops.push(Threshold { low: 0, element: Element::B1 }.into());
            let rows = integers(&mut random, &[features, 1], Element::I32, 9000);
            inputs.push(g.add_constant("rows", rows));
            if at == 0 {
                let flip = (0..features).map(|f| -((f % 3 == 1) as i32)).collect();
                inputs.push(g.add_constant("flip", Tensor::i32([features], flip)));
            }
        }
        let op = if ops.len() == 1 { ops.remove(0) } else { Chain { ops }.into() };
        let y = g.add1(op, &inputs, "node").expect("the operation types");
        g.add_output(format!("z{at}"), y);
        operands.push(x);
    }
    for result in interpreted(&g, &operands) {
        let values = result.to_i64();
        assert!(values.iter().any(|v| *v != values[0]), "{} is constant", result.ty());
    }
    differences(target, &g, operands)
}

#[test]
fn bit_products_everywhere() {
    side_by_side(&[()], |_, (), target| bit_products(target));
}

/// OpenCL with a variant by name of each kernel that has it, and how many of [`bit_products`]' do.
#[derive(Clone, Debug)]
struct Chosen(&'static str, usize);

impl Target for Chosen {
    fn description(&self) -> &TargetDescription {
        OPENCL.description()
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        OPENCL.select(signature)
    }

    fn emit(&self, program: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        let mut files = OPENCL.emit(program)?;
        let tuning = OPENCL.tuning(program)?.expect("OpenCL has choices");
        let Chosen(name, count) = self;
        let named =
            tuning.tunables.iter().map(|t| t.candidates.iter().position(|c| c.name == *name));
        let named: Vec<Option<usize>> = named.collect();
        assert_eq!(named.iter().flatten().count(), *count, "kernels that are {name}");
        let choice: Vec<usize> = named.into_iter().map(Option::unwrap_or_default).collect();
        let file = files.iter_mut().find(|file| file.name == tuning.file).expect("its file");
        file.contents = tuning.contents(&choice, None).into_bytes();
        Ok(files)
    }

    fn toolchain(&self) -> Option<Toolchain> {
        OPENCL.toolchain()
    }

    fn harness(&self, program: &Verified<Program>) -> Result<Option<Harness>, EmitError> {
        OPENCL.harness(program)
    }
}

/// What `trainc tune` may choose gives the same bits, too: on this machine's driver and in OpenCL's interpreter.
#[test]
fn bit_products_as_tuned() {
    let asked = std::env::var("TRAINC_TARGET").ok().filter(|name| name != "opencl");
    if asked.is_none() {
        for chosen in [Chosen("tiled", 12), Chosen("apart", 4)] {
            assert_eq!(bit_products(&chosen), Vec::<String>::new(), "{chosen:?}");
        }
    }
}

#[test]
fn packed_values_everywhere() {
    side_by_side(&[()], |_, (), target| failures(target));
}
