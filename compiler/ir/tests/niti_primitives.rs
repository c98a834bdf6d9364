//! The operations of NITI against vectors computed independently (tests/data/niti/README.md), bit for bit: the
//! meaning and the loop lowering.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use trainc_ir::loops::builder::LoopBuilder;
use trainc_ir::loops::{self, Expr, LoopKernel};
use trainc_ir::numeric::{self, Rounding, integer::RightShift};
use trainc_ir::ops::{
    AlignedAdd, AvgPool2d, AvgPool2dGradient, IntegerCrossEntropyGradient, MaxPool2d,
    MaxPool2dGradient, QuantizeExponent, QuantizeGradient, QuantizeWeight, Requantize,
    SaturatingSubtract, ShiftRight,
};
use trainc_ir::random::philox4x32;
use trainc_ir::types::Element;
use trainc_ir::{Op, RunContext, Tensor, TensorType};

/// An array of an .npz file: shape and little-endian elements.
struct Array {
    shape: Vec<usize>,
    kind: String,
    bytes: Vec<u8>,
}

impl Array {
    fn elements<T, const N: usize>(&self, kind: &str, read: fn([u8; N]) -> T) -> Vec<T> {
        assert_eq!(self.kind, kind);
        self.bytes.as_chunks::<N>().0.iter().map(|&bytes| read(bytes)).collect()
    }

    fn i8(&self) -> Vec<i8> {
        self.elements("|i1", i8::from_le_bytes)
    }

    fn i32(&self) -> Vec<i32> {
        self.elements("<i4", i32::from_le_bytes)
    }

    fn i64(&self) -> Vec<i64> {
        self.elements("<i8", i64::from_le_bytes)
    }

    fn u32(&self) -> Vec<u32> {
        self.elements("<u4", u32::from_le_bytes)
    }

    fn u64(&self) -> Vec<u64> {
        self.elements("<u8", u64::from_le_bytes)
    }

    fn f32(&self) -> Vec<f32> {
        self.elements("<f4", f32::from_le_bytes)
    }

    /// Elements a row, a row being what the first `dims` dimensions count.
    fn row(&self, dims: usize) -> usize {
        self.shape[dims..].iter().product()
    }
}

fn primitives() -> BTreeMap<String, Array> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/niti/primitives.npz");
    let mut archive =
        zip::ZipArchive::new(std::fs::File::open(path).expect("the fixture")).unwrap();
    (0..archive.len())
        .map(|i| {
            let mut file = archive.by_index(i).unwrap();
            let name = file.name().unwrap().strip_suffix(".npy").unwrap().to_string();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
            let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
            let header = std::str::from_utf8(&bytes[10..end]).unwrap();
            assert!(header.contains("'fortran_order': False"));
            let kind = header.split('\'').nth(3).unwrap().to_string();
            let shape = header.split(['(', ')']).nth(1).unwrap();
            let shape = shape.split(',').filter_map(|d| d.trim().parse().ok()).collect();
            (name, Array { shape, kind, bytes: bytes[end..].to_vec() })
        })
        .collect()
}

/// Checks evaluation and lowering of `op` against the result.
fn check(op: impl Into<Op>, inputs: &[Tensor], expected: &Tensor, run: &RunContext, place: &str) {
    let op = op.into();
    let operands: Vec<&Tensor> = inputs.iter().collect();
    let types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
    let results = op.infer(&types).unwrap_or_else(|e| panic!("{place}: {e}"));
    let meaning = op.evaluate(&operands, run);
    assert!(
        expected.bits_equal(&meaning[0]),
        "{place}: {op}\ninputs {inputs:?}\nexpected {expected:?}\nfound {:?}",
        meaning[0]
    );
    let kernel = op.lower(&types, &results.iter().collect::<Vec<_>>());
    let lowered = loops::evaluate::run(&kernel, &operands, &results, run);
    assert!(expected.bits_equal(&lowered[0]), "{place}: {op}: lowering {:?}", lowered[0]);
}

/// A kernel that shifts operand 0 by operand 1.
fn shift_kernel(count: usize, wide: bool, rounding: Rounding) -> LoopKernel {
    let (x, s) = (TensorType::new([count], Element::I32), TensorType::new([], Element::I32));
    let mut b = LoopBuilder::new(&[&x, &s], &[&x], false);
    let amount = b.load(b.input(1), Expr::i64(0));
    let shift = if wide {
        RightShift::wide(&mut b, amount.extend(), rounding)
    } else {
        RightShift::run_time(&mut b, amount, rounding)
    };
    let (x, y) = (b.input(0), b.output(0));
    b.for_("i", count, |b, i| {
        let x = b.load(x, i.clone());
        let shifted = shift.apply(b, x);
        b.store(y, i, shifted);
    });
    b.finish()
}

#[test]
fn shifts() {
    let data = primitives();
    let x = data["shift.x"].i32();
    let count = x.len();
    let operand = Tensor::i32([count], x.clone());
    for (name, rounding) in [
        ("round_half_away", Rounding::HalfAway),
        ("pseudo_stochastic", Rounding::PseudoStochastic),
        ("pseudo_stochastic_wide", Rounding::PseudoStochastic),
    ] {
        let amounts = data[&format!("{name}.s")].i32();
        let expected = data[&format!("{name}.y")].i32();
        assert_eq!(expected.len(), amounts.len() * count);
        for (&s, expected) in amounts.iter().zip(expected.chunks(count)) {
            for (x, y) in x.iter().zip(expected) {
                let found = numeric::shift_right(i64::from(*x), s as u32, rounding);
                assert_eq!(found, i64::from(*y), "{name} {x} by {s}");
            }
            for wide in [true, false] {
                if s < 32 || wide {
                    let kernel = shift_kernel(count, wide, rounding);
                    let amount = Tensor::i32([], vec![s]);
                    let types = [operand.ty().clone()];
                    let run = RunContext::default();
                    let found = loops::evaluate::run(&kernel, &[&operand, &amount], &types, &run);
                    assert_eq!(found[0].as_i32(), expected, "{name} by {s}, wide: {wide}");
                }
            }
            if s < 32 {
                // The operation clamps to the symmetric range.
                let clamped = expected.iter().map(|&y| y.max(-i32::MAX)).collect();
                let op = ShiftRight { amount: s as u8, rounding, element: Element::I32 };
                let expected = Tensor::i32([count], clamped);
                check(op, std::slice::from_ref(&operand), &expected, &RunContext::default(), name);
            }
        }
    }
}

#[test]
fn stochastic_shift() {
    let data = primitives();
    let x = data["stochastic.x"].i32();
    let s = data["stochastic.s"].i32()[0] as u32;
    let uniform = data["stochastic.uniform"].i32();
    let expected = data["stochastic.y"].i32();
    assert_eq!(uniform.len(), expected.len());
    for (i, (&u, &y)) in uniform.iter().zip(&expected).enumerate() {
        let x = i64::from(x[i % x.len()]);
        assert_eq!(numeric::shift_right_stochastic(x, s, u as u64), i64::from(y), "{x} with {u}");
    }
}

#[test]
fn quantisers() {
    let data = primitives();
    let run = RunContext::default();
    let width = data["requantize.accumulator"].row(1);
    let accumulators = data["requantize.accumulator"].i32();
    let exponents = data["requantize.exponent"].i32();
    let (y, ye) = (data["requantize.y"].i8(), data["requantize.y_exponent"].i32());
    assert!(exponents.len() > 200);
    for (i, row) in accumulators.chunks(width).enumerate() {
        let op = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
        let x = Tensor::i32_shared([width], row.to_vec(), exponents[i]);
        let y = Tensor::i8_shared([width], y[i * width..][..width].to_vec(), ye[i]);
        check(op, &[x], &y, &run, &format!("requantize {i}"));
    }

    let accumulators = data["gradient.accumulator"].i32();
    let (y, shift) = (data["gradient.y"].i8(), data["gradient.shift"].i32());
    let rows = accumulators.len() / width;
    for (m, mu) in data["gradient.mu"].i32().into_iter().enumerate() {
        for (i, row) in accumulators.chunks(width).enumerate() {
            let at = m * rows + i;
            let x = Tensor::i32_shared([width], row.to_vec(), -9);
            let expected = y[at * width..][..width].to_vec();
            let y = Tensor::i8_shared([width], expected, -9 + shift[at].max(0));
            let op = QuantizeGradient { rounding: Rounding::PseudoStochastic };
            check(op, &[x, Tensor::i32([], vec![mu])], &y, &run, &format!("gradient {mu} {i}"));
        }
    }

    for (name, op) in [
        ("input_quantiser", Op::from(QuantizeExponent {})),
        ("weight_quantiser", Op::from(QuantizeWeight {})),
    ] {
        let array = |key: &str| &data[&format!("{name}.{key}")];
        let (y, ye) = (array("y").i8(), array("y_exponent").i32());
        let width = array("x").row(1);
        for (i, row) in array("x").f32().chunks(width).enumerate() {
            let x = Tensor::f32([width], row.to_vec());
            let y = Tensor::i8_shared([width], y[i * width..][..width].to_vec(), ye[i]);
            check(op.clone(), &[x], &y, &run, &format!("{name} {i}"));
        }
    }
}

#[test]
fn update_and_aligned_add() {
    let data = primitives();
    let run = RunContext::default();
    let tensor = |key: &str, e: i32| {
        let q = data[key].i8();
        Tensor::i8_shared([q.len()], q, e)
    };
    let inputs = [tensor("update.weight", -8), tensor("update.gradient", 11)];
    check(SaturatingSubtract {}, &inputs, &tensor("update.y", -8), &run, "update");

    let width = data["aligned_add.a"].row(1);
    let tensors = |key: &str| -> Vec<Tensor> {
        let exponents = data[&format!("aligned_add.{key}_exponent")].i32();
        let q = data[&format!("aligned_add.{key}")].i8();
        let rows = q.chunks(width).zip(exponents);
        rows.map(|(q, e)| Tensor::i8_shared([width], q.to_vec(), e)).collect()
    };
    let (a, b, y) = (tensors("a"), tensors("b"), tensors("y"));
    assert!(a.len() > 100);
    for (i, ((a, b), y)) in a.into_iter().zip(b).zip(y).enumerate() {
        check(AlignedAdd {}, &[a, b], &y, &run, &format!("aligned_add {i}"));
    }
}

/// The numbers of an attribute.
fn sizes<const N: usize>(array: &Array) -> [usize; N] {
    let sizes: Vec<usize> = array.i32().iter().map(|&n| n as usize).collect();
    sizes.try_into().expect("as many as the operation takes")
}

fn shared(array: &Array, exponent: i32) -> Tensor {
    Tensor::i8_shared(array.shape.clone(), array.i8(), exponent)
}

#[test]
fn max_pools() {
    let data = primitives();
    let run = RunContext::default();
    for i in 0..4 {
        let array = |key: &str| &data[&format!("max_pool{i}.{key}")];
        let (kernel, strides) = (sizes(array("kernel")), sizes(array("strides")));
        let (pads, dilations, ceil) = (sizes(array("pads")), [1, 1], false);
        let x = shared(array("x"), -6);
        let op = MaxPool2d { kernel, strides, pads, dilations, ceil };
        let name = format!("max pool {i}");
        check(op, std::slice::from_ref(&x), &shared(array("y"), -6), &run, &name);
        let op = MaxPool2dGradient { kernel, strides, pads, dilations, ceil };
        check(op, &[x, shared(array("error"), 2)], &shared(array("back"), 2), &run, &name);
    }
}

#[test]
fn average_pools() {
    let data = primitives();
    let run = RunContext::default();
    for (name, count, padded) in [("average_pool", 7, false), ("partial_average_pool", 6, true)] {
        for i in 0..count {
            let array = |key: &str| &data[&format!("{name}{i}.{key}")];
            let (kernel, strides) = (sizes(array("kernel")), sizes(array("strides")));
            let pads = if padded { sizes(array("pads")) } else { [0; 4] };
            let (ceil, count_include_pad) = (false, false);
            let exponents = array("exponents").i32();
            let tensor = |key: &str, position: usize| shared(array(key), exponents[position]);
            let x = tensor("x", 0);
            let input_size = [x.shape()[2], x.shape()[3]];
            let pool = Op::from(AvgPool2d { kernel, strides, pads, ceil, count_include_pad });
            let sums = pool.evaluate(&[&x], &run).remove(0);
            // The stored result is that of both operations.
            let requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low: -127 };
            check(requantize.clone(), std::slice::from_ref(&sums), &tensor("y", 1), &run, name);
            check(pool, &[x], &sums, &run, name);
            let op =
                AvgPool2dGradient { kernel, strides, pads, ceil, count_include_pad, input_size };
            check(op, &[tensor("error", 2)], &tensor("back", 3), &run, &format!("{name} {i}"));
        }
    }
}

#[test]
fn loss() {
    let data = primitives();
    for name in ["loss", "loss_eight"] {
        let array = |key: &str| &data[&format!("{name}.{key}")];
        let shape = array("logits").shape.clone();
        let (row, labels) = (array("logits").row(1), array("labels").i64());
        let (logits, y) = (array("logits").i8(), array("y").i8());
        let exponents = array("exponent").i32();
        assert_eq!(exponents.len(), shape[0]);
        for (i, &e) in exponents.iter().enumerate() {
            let run = RunContext { seed: array("seed").u64()[i], step: array("step").u32()[i] };
            let op = IntegerCrossEntropyGradient { stream: array("stream").u32()[i] };
            let tensor = |q: &[i8], e: i32| {
                Tensor::i8_shared([shape[1], shape[2]], q[i * row..][..row].to_vec(), e)
            };
            let labels = labels[i * shape[1]..][..shape[1]].iter().map(|&t| t as i32).collect();
            let inputs = [tensor(&logits, e), Tensor::i32([shape[1]], labels)];
            check(op, &inputs, &tensor(&y, 0), &run, &format!("{name} {i}, exponent {e}"));
        }
    }
}

#[test]
fn generator() {
    let data = primitives();
    let (counters, keys) = (data["philox.counter"].u32(), data["philox.key"].u32());
    for ((c, k), y) in counters
        .as_chunks::<4>()
        .0
        .iter()
        .zip(keys.as_chunks::<2>().0)
        .zip(data["philox.y"].u32().as_chunks::<4>().0)
    {
        assert_eq!(philox4x32(*c, *k), *y);
    }
    let bits = data["uniform.bits"].i32();
    let y = data["uniform.y"].u32();
    let draws = data["uniform.y"].shape[2];
    for (k, seed) in data["uniform.seed"].u64().into_iter().enumerate() {
        let run = RunContext { seed, step: data["uniform.step"].u32()[k] };
        let stream = data["uniform.stream"].u32()[k];
        for (b, bits) in bits.iter().enumerate() {
            for i in 0..draws {
                let expected = y[(k * 3 + b) * draws + i];
                assert_eq!(run.draw(stream, i as u32) >> (32 - bits), expected, "{k} {b} {i}");
            }
        }
    }
}
