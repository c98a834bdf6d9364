//! Hexagon's depthwise kernels under the emulator against the reference operations, byte for byte, with the bytes around
//! the results.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use trainc_hvx::kernels::{Depthwise, Kernel, Span};
use trainc_hvx::machine::{Options, Version, compile};
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::{Conv2d, Conv2dGradientInput, Conv2dGradientWeight, Operator, Requantize};
use trainc_ir::{Op, RunContext, Tensor};
use trainc_tests::hexagon::{Call, Outcome, run};
use trainc_tests::hexagon_convolution::{Fill, Memory, Random, assembly, entry_call};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Forward,
    Error,
    Weight,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    images: usize,
    channels: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    pads: [usize; 4],
    dilation: usize,
}

const fn square(images: usize, channels: usize, size: usize, kernel: usize, stride: usize) -> Case {
    Case {
        images,
        channels,
        size: [size; 2],
        kernel: [kernel; 2],
        strides: [stride; 2],
        pads: [kernel / 2; 4],
        dilation: 1,
    }
}

/// Whole and part vectors, several images a vector and several vectors an image, results shorter than a vector, both
/// ways to read the word behind a vector, kernels of several words.
const CASES: [Case; 32] = [
    square(1, 1, 1, 1, 1),
    square(1, 1, 1, 3, 1),
    square(1, 32, 14, 3, 1),
    square(2, 5, 14, 3, 2),
    square(1, 3, 28, 3, 1),
    square(2, 3, 28, 3, 2),
    square(5, 7, 7, 3, 1),
    square(3, 7, 7, 3, 2),
    square(9, 3, 4, 3, 1),
    square(7, 4, 2, 3, 1),
    square(33, 2, 1, 3, 1),
    square(64, 3, 2, 3, 2),
    square(1, 2, 56, 3, 1),
    square(1, 1, 112, 3, 2),
    square(1, 2, 112, 3, 1),
    square(1, 1, 127, 3, 1),
    square(1, 1, 128, 3, 1),
    square(2, 1, 126, 3, 2),
    square(1, 3, 65, 3, 1),
    square(2, 3, 9, 5, 1),
    square(2, 3, 12, 5, 2),
    square(1, 2, 11, 7, 1),
    square(3, 5, 6, 1, 1),
    square(2, 3, 9, 2, 1),
    Case { pads: [0; 4], ..square(3, 5, 10, 3, 1) },
    Case { pads: [0, 1, 1, 0], ..square(3, 5, 9, 2, 2) },
    Case { strides: [2, 1], pads: [0, 1, 1, 2], ..square(2, 3, 13, 4, 1) },
    Case { strides: [1, 2], ..square(2, 3, 13, 3, 1) },
    Case { size: [3, 40], kernel: [1, 8], pads: [0, 3, 0, 4], ..square(2, 3, 0, 3, 1) },
    Case { size: [60, 4], kernel: [5, 1], pads: [2, 0, 2, 0], ..square(2, 3, 0, 3, 1) },
    Case { strides: [3, 3], ..square(2, 3, 17, 3, 1) },
    Case { kernel: [3, 1], dilation: 2, pads: [2, 0, 2, 0], ..square(2, 3, 8, 3, 1) },
];

impl Case {
    fn output(&self) -> [usize; 2] {
        std::array::from_fn(|i| {
            let extent = (self.kernel[i] - 1) * self.dilations()[i] + 1;
            (self.size[i] + self.pads[i] + self.pads[i + 2] - extent) / self.strides[i] + 1
        })
    }

    fn dilations(&self) -> [usize; 2] {
        [self.dilation, 1]
    }

    fn depthwise(&self) -> Depthwise {
        let output = self.output();
        let [vertical, horizontal] = std::array::from_fn(|i| Span {
            input: self.size[i],
            output: output[i],
            kernel: self.kernel[i],
            stride: self.strides[i],
            dilation: self.dilations()[i],
            before: self.pads[i],
        });
        Depthwise { images: self.images, channels: self.channels, vertical, horizontal }
    }

    fn kernel(&self, name: &str, pass: Pass) -> Kernel {
        let depthwise = self.depthwise();
        match pass {
            Pass::Forward => depthwise.convolution(name, 7, -127),
            Pass::Error => depthwise.error_gradient(name, 7, -127),
            Pass::Weight => depthwise.weight_gradient(name),
        }
        .unwrap_or_else(|e| panic!("{self:?}, {pass:?}: {e}"))
    }

    /// Whether a kernel is expected.
    fn supports(&self, pass: Pass) -> bool {
        let depthwise = self.depthwise();
        match pass {
            Pass::Forward => depthwise.is_supported(),
            Pass::Error => depthwise.is_error_supported(),
            Pass::Weight => depthwise.is_gradient_supported(),
        }
    }

    /// The operands of a pass, and the operation.
    fn operation(&self, pass: Pass, random: &mut Random, fill: Fill) -> (Op, Tensor, Tensor) {
        let Case { strides, pads, images, channels, size, kernel, .. } = *self;
        let [oh, ow] = self.output();
        let (dilations, groups) = (self.dilations(), channels);
        let shape = |kind: usize| match kind {
            0 => [images, channels, size[0], size[1]],
            1 => [channels, 1, kernel[0], kernel[1]],
            _ => [images, channels, oh, ow],
        };
        let mut tensor = |kind: usize, exponent: i32| {
            let shape = shape(kind);
            let values = random.bytes(shape.iter().product(), fill);
            Tensor::i8_shared(shape, values, exponent)
        };
        match pass {
            Pass::Forward => {
                let op = Conv2d { strides, pads, dilations, groups };
                (op.into(), tensor(0, -3), tensor(1, -4))
            }
            Pass::Error => {
                let op = Conv2dGradientInput { strides, pads, dilations, groups, input_size: size };
                (op.into(), tensor(2, -3), tensor(1, -4))
            }
            Pass::Weight => {
                let op =
                    Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size: kernel };
                (op.into(), tensor(0, -3), tensor(2, -4))
            }
        }
    }
}

/// A run of one kernel.
struct Run {
    what: String,
    /// Where the result lies, what it must be, and what the call must return.
    result: usize,
    expected: Vec<u8>,
    returned: Option<i32>,
}

#[derive(Default)]
struct Batch {
    text: String,
    memory: Vec<u8>,
    /// Memory of which nothing is expected.
    free: Vec<std::ops::Range<usize>>,
    calls: Vec<Call>,
    runs: Vec<Run>,
}

impl Batch {
    fn reserve(&mut self, contents: &[i8], free: bool) -> usize {
        let mut memory = Memory { bytes: std::mem::take(&mut self.memory) };
        // What lies between must stay.
        memory.reserve(128);
        let at = memory.place(contents);
        self.memory = memory.bytes;
        if free {
            self.free.push(at..self.memory.len());
        }
        at
    }

    fn add(&mut self, case: &Case, pass: Pass, kernel: &Kernel, fill: Fill, random: &mut Random) {
        let (op, first, second) = case.operation(pass, random, fill);
        let context = RunContext { seed: 0, step: 0 };
        let sums = op.evaluate(&[&first, &second], &context).remove(0);
        let (expected, returned, size) = match pass {
            Pass::Weight => {
                let words: Vec<u8> = sums.as_i32().iter().flat_map(|x| x.to_le_bytes()).collect();
                (words, None, case.depthwise().gradient_sum_bytes())
            }
            _ => {
                let requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
                let result = requantize.evaluate(&[&sums], &context).remove(0);
                let bytes: Vec<u8> = result.as_i8().iter().map(|x| x.cast_unsigned()).collect();
                let size = bytes.len();
                (bytes, Some(result.exponent() + 7), size)
            }
        };
        let operands = [&first, &second].map(|operand| self.reserve(operand.as_i8(), false));
        let result = self.reserve(&vec![0x5a; size], false);
        // Behind a gradient's sums the block may be filled.
        self.free.push(result + expected.len()..result + size);
        let scratch = self.reserve(&vec![0x5a; kernel.scratch_bytes], true);
        self.calls.push(entry_call(kernel, &[operands[0], operands[1], result], scratch));
        let what = format!("{pass:?} {fill:?} {case:?}");
        self.runs.push(Run { what, result, expected, returned });
    }

    fn check(mut self, name: &str) -> Outcome {
        self.reserve(&[0], false);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hvx_depthwise").join(name);
        let outcome = run(&folder, 66, &self.text, &self.memory, &self.calls);
        let mut expected = self.memory.clone();
        let mut failures = Vec::new();
        for (index, run) in self.runs.iter().enumerate() {
            let place = run.result..run.result + run.expected.len();
            let found = &outcome.memory[place.clone()];
            let wrong: Vec<usize> =
                (0..found.len()).filter(|&i| found[i] != run.expected[i]).collect();
            if let Some(&first) = wrong.first() {
                failures.push(format!(
                    "{}: {} of {} bytes differ, at {:?}: {} instead of {}",
                    run.what,
                    wrong.len(),
                    found.len(),
                    (first, wrong.last()),
                    found[first].cast_signed(),
                    run.expected[first].cast_signed()
                ));
            }
            if run.returned.is_some_and(|shift| shift != outcome.results[index]) {
                failures.push(format!("{}: shift {}", run.what, outcome.results[index]));
            }
            expected[place].copy_from_slice(&run.expected);
        }
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
        for range in &self.free {
            expected[range.clone()].copy_from_slice(&outcome.memory[range.clone()]);
        }
        let stray = (0..expected.len()).find(|&i| expected[i] != outcome.memory[i]);
        assert_eq!(stray, None, "a byte outside of the results changed");
        outcome
    }
}

/// The assembler takes what was made for a version.
fn assembles(name: &str, version: Version, text: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hvx_depthwise").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = folder.join(format!("{version}.S"));
    std::fs::write(&source, text).expect("the source is written");
    let output = Command::new("llvm-mc-19")
        .args(["-triple=hexagon", &format!("-mcpu=hexagon{version}")])
        .arg(format!("-mattr=+hvx{version},+hvx-length128b"))
        .args(["-filetype=obj", "-o"])
        .arg(folder.join(format!("{version}.o")))
        .arg(&source)
        .output()
        .unwrap_or_else(|e| panic!("llvm-mc-19 (Debian: llvm-19): {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}, {version}:\n{errors}");
}

fn check(pass: Pass) {
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    let mut batch = Batch::default();
    let mut count = 0;
    let mut texts: BTreeMap<Version, String> = BTreeMap::new();
    for (index, case) in CASES.iter().enumerate() {
        // Errors of a stride take as much room as the operand.
        if !case.supports(pass) {
            println!("{pass:?}: no kernel for {case:?}");
            continue;
        }
        count += 1;
        let kernel = case.kernel(&format!("case_{index}"), pass);
        let entry = kernel.entry().expect("an entry");
        for function in kernel.functions() {
            for version in Version::ALL {
                let assembled = compile(function, version, &Options::default())
                    .unwrap_or_else(|e| panic!("{case:?}, {version}: {e}"));
                assert_eq!(assembled.spills, 0, "{case:?}, {version}: {}", function.name);
                texts.entry(version).or_default().push_str(&assembled.assembly());
            }
        }
        let functions = std::iter::once(&entry).chain(kernel.functions());
        batch.text.push_str(&assembly(functions, &kernel));
        batch.text.push_str("\t.text\n");
        let fills = [Fill::Random, Fill::Small, Fill::Extreme, Fill::Lowest, Fill::Zero];
        for fill in fills {
            batch.add(case, pass, &kernel, fill, &mut random);
        }
    }
    for (version, text) in texts {
        assembles(&format!("{pass:?}"), version, &text);
    }
    let least = if pass == Pass::Forward { CASES.len() } else { CASES.len() - 1 };
    assert!(count >= least, "{count} kernels");
    let outcome = batch.check(&format!("{pass:?}"));
    println!("{pass:?}: {count} kernels, {} packets", outcome.packets.iter().sum::<u32>());
}

#[test]
fn convolutions() {
    check(Pass::Forward);
}

#[test]
fn error_gradients() {
    check(Pass::Error);
}

#[test]
fn weight_gradients() {
    check(Pass::Weight);
}
