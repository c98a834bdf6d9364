//! Nanoseconds an element of operations by their loops.
//!
//! `cargo run --release -p trainc-host --example loop_speed`

use std::slice;
use std::time::Instant;
use trainc_host::LoopFunction;
use trainc_ir::attributes::F32;
use trainc_ir::numeric::Rounding;
use trainc_ir::ops::*;
use trainc_ir::{Element, Op, TensorType, loops::Role};

fn time(op: impl Into<Op>, inputs: &[TensorType]) {
    let op = op.into();
    let types: Vec<&TensorType> = inputs.iter().collect();
    let results = match op.infer(&types) {
        Ok(r) => r,
        Err(e) => {
            println!("{op}: {e}");
            return;
        }
    };
    let outputs: Vec<&TensorType> = results.iter().collect();
    let kernel = op.lower(&types, &outputs);
    let begin = Instant::now();
    let function = LoopFunction::compile(&kernel).expect("compiles");
    let compile = begin.elapsed();
    let mut buffers: Vec<Vec<u8>> = kernel
        .buffers
        .iter()
        .map(|b| {
            let n = b.element.bytes(b.count);
            match b.role {
                Role::Input(_) if b.element == Element::F32 => (0..b.count)
                    .flat_map(|i| ((i % 97) as f32 * 0.01 - 0.3).to_le_bytes())
                    .collect(),
                Role::Input(_) => (0..n).map(|i| (i * 7 % 251) as u8).collect(),
                _ => vec![0; n],
            }
        })
        .collect();
    let count: usize = results.iter().map(|t| t.count()).sum::<usize>().max(inputs[0].count());
    let mut best = f64::MAX;
    for _ in 0..7 {
        let t = Instant::now();
        function.run(&mut buffers).expect("runs");
        best = best.min(t.elapsed().as_secs_f64());
    }
    let clif = function.listing().0;
    println!(
        "{:32} {:>24} {:7.3} ns/element  compile {:5.2} ms  vector {}",
        op.kind().name(),
        inputs[0].to_string(),
        best * 1e9 / count as f64,
        compile.as_secs_f64() * 1e3,
        clif.contains("x4")
    );
}

fn main() {
    let a = [64, 64, 16, 16];
    let i8 = TensorType::shared(a, Element::I8);
    let i32 = TensorType::shared(a, Element::I32);
    let f = TensorType::f32(a);
    let rounding = Rounding::PseudoStochastic;
    time(Relu {}, slice::from_ref(&f));
    time(Relu {}, slice::from_ref(&i8));
    time(ReluGradient {}, &[f.clone(), f.clone()]);
    time(ReluGradient {}, &[i8.clone(), i8.clone()]);
    time(Add {}, &[f.clone(), f.clone()]);
    time(Add {}, &[f.clone(), TensorType::f32([64, 1, 1])]);
    time(Mul {}, &[f.clone(), TensorType::f32([])]);
    time(Exp {}, slice::from_ref(&f));
    time(Tanh {}, slice::from_ref(&f));
    time(SgdUpdate {}, &[f.clone(), f.clone(), TensorType::f32([])]);
    time(SaturatingSubtract {}, &[i8.clone(), i8.clone()]);
    time(Requantize { bits: 7, rounding, low: -127 }, slice::from_ref(&i32));
    time(QuantizeGradient { rounding }, &[i32.clone(), TensorType::new([], Element::I32)]);
    time(
        ShiftRight { amount: 3, rounding: Rounding::HalfAway, element: Element::I8 },
        slice::from_ref(&i32),
    );
    time(AlignedAdd {}, &[i8.clone(), i8.clone()]);
    time(QuantizeExponent {}, slice::from_ref(&f));
    time(QuantizeWeight {}, slice::from_ref(&f));
    time(Dequantize {}, slice::from_ref(&i8));
    time(Dropout { ratio: F32::new(0.5), stream: 1 }, slice::from_ref(&i8));
    time(Dropout { ratio: F32::new(0.5), stream: 1 }, slice::from_ref(&f));
    for ty in [&i8, &f] {
        let o = ty.with_shape([64, 64, 8, 8]);
        let pool = MaxPool2d {
            kernel: [2, 2],
            strides: [2, 2],
            pads: [0; 4],
            dilations: [1, 1],
            ceil: false,
        };
        time(pool, slice::from_ref(ty));
        time(
            MaxPool2dGradient {
                kernel: [2, 2],
                strides: [2, 2],
                pads: [0; 4],
                dilations: [1, 1],
                ceil: false,
            },
            &[ty.clone(), o.clone()],
        );
        time(
            AvgPool2d {
                kernel: [2, 2],
                strides: [2, 2],
                pads: [0; 4],
                ceil: false,
                count_include_pad: true,
            },
            slice::from_ref(ty),
        );
        time(Transpose { permutation: vec![1, 0, 2, 3] }, slice::from_ref(ty));
        time(Transpose { permutation: vec![0, 2, 3, 1] }, slice::from_ref(ty));
        time(Reshape { shape: [64, 64 * 256].into() }, slice::from_ref(ty));
    }
    time(BatchStatistics {}, slice::from_ref(&f));
    let c = TensorType::f32([64]);
    time(
        BatchNorm { epsilon: F32::new(1e-5), batch: true },
        &[f.clone(), c.clone(), c.clone(), c.clone(), c.clone()],
    );
    time(
        BatchNormGradient { epsilon: F32::new(1e-5), batch: true },
        &[f.clone(), c.clone(), c.clone(), c.clone(), f.clone()],
    );
    time(ReduceSum { axes: vec![0, 2, 3], keep_dims: false }, slice::from_ref(&f));
    time(Softmax { axis: 1 }, &[TensorType::f32([4096, 10])]);
    time(
        IntegerCrossEntropyGradient { stream: 1 },
        &[TensorType::shared([4096, 10], Element::I8), TensorType::new([4096], Element::I32)],
    );
}
