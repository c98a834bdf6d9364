//! First layers of binary networks: FP32 products of an image's bytes with signs, as sums of integers.

use trainc_ir::ops::{Conv2d, DequantizeLinear, IntegerConv2d, MatMul, ProductRole, Reshape};
use trainc_ir::types::{Shape, TensorType};
use trainc_ir::{Element, ScaleData, Tensor};

use super::instance::{Builder, Instance};
use super::signs::{TO_FIRST, TO_LAST, moved, number};
use super::{Condition, Exactness, Patterns, Rule, Sides};
use crate::egraph::saturate::Term;

/// Integers up to this are FP32 numbers, and so are their sums.
const EXACT: i64 = 1 << 24;

/// What makes an FP32 product one of bytes by signs that rounds nowhere.
const BYTES_BY_SIGNS: &[(&str, Condition)] = &[
    ("s is a power of two far from the ends of the range", |m| {
        let s = number(m, "s")?;
        Some((2f32.powi(-64)..=2f32.powi(64)).contains(&s) && s.to_bits() << 9 == 0)
    }),
    ("z is 0", |m| Some(m.constant("z")?.to_i64() == [0])),
    ("w is known, -1 and 1 throughout", |m| {
        Some(m.constant("w")?.as_f32().iter().all(|w| w.abs() == 1.0))
    }),
    ("x has 8 bits, and sums are below 2^24", |m| {
        let w = m.ty("w")?;
        let features = match m.op::<MatMul>("a") {
            Some(product) if !product.transpose_b => w.shape[1],
            _ => w.shape[0],
        };
        let taps = (w.count() / features.max(1)) as i64;
        let bytes = matches!(m.ty("x")?.element, Element::U8 | Element::I8);
        Some(bytes && taps * 256 <= EXACT)
    }),
];

pub(super) const RULES: &[Rule] = &[
    // Each partial sum is an integer of at most 24 bits times a power of two, so FP32 rounds nowhere. A sum of zeros is +0.
    Rule {
        name: "conv2d-of-bytes-by-signs",
        summary: "conv2d(dequantize_linear(x, s, 0), w) = dequantize_linear(integer_conv2d(x, w), s, 0), channels last; x of 8 \
                  bits, s a power of two, known w -1 and 1, sums below 2^24",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[("(conv2d ?a (dequantize_linear ?real ?x ?s ?z) ?w)", "?sums")],
            guards: &["?a.groups = 1"],
            conditions: BYTES_BY_SIGNS,
            computed: (&["sums"], |m| {
                let conv = m.op::<Conv2d>("a")?;
                let w = m.constant("w")?;
                let [features, channels, rows, columns] =
                    <[usize; 4]>::try_from(w.shape().dims()).ok()?;
                let w = w.as_f32();
                let mut codes = Vec::with_capacity(w.len());
                for feature in 0..features {
                    for tap in 0..rows * columns {
                        codes.extend((0..channels).map(|channel| {
                            w[(feature * channels + channel) * rows * columns + tap] as i64
                        }));
                    }
                }
                let ty = TensorType::new([features, rows, columns, channels], Element::I8);
                let codes = Tensor::from_i64(&ty, &codes, ScaleData::None);
                let product = IntegerConv2d {
                    strides: conv.strides,
                    pads: conv.pads,
                    dilations: conv.dilations,
                    groups: 1,
                    padding: 0,
                };
                let x = moved(TO_LAST, Term::Class(m.id("x")?));
                let sums = Term::operation(product, vec![x, Term::Constant("signs", codes)]);
                let zero = Term::Integers("zero_point", [0usize; 0].into(), vec![0]);
                let scale = Term::Class(m.id("s")?);
                let sums = vec![moved(TO_FIRST, sums), scale, zero];
                Some(vec![Term::operation(DequantizeLinear { axis: 0 }, sums)])
            }),
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let (channels, features) = (r.range(1, 4), r.range(1, 5));
            let element = r.choose(&[Element::U8, Element::I8]);
            let shape = [r.range(1, 2), channels, r.range(3, 5), r.range(3, 5)];
            let x = i.input(TensorType::new(shape, element));
            let s =
                i.constant(Tensor::f32([], vec![r.choose(&[1.0, 0.25, 65536.0, 2f32.powi(-64)])]));
            let zero = TensorType::new([0usize; 0], element);
            let z = i.constant(Tensor::from_i64(&zero, &[0], ScaleData::None));
            let x = i.op(DequantizeLinear { axis: 0 }, &[x, s, z]);
            let shape = [features, channels, r.range(1, 3), r.range(1, 3)];
            let count = shape.iter().product();
            let w = (0..count).map(|_| 1.0 - 2.0 * (r.bits() >> 63) as f32).collect();
            let w = i.constant(Tensor::f32(shape, w));
            let conv = Conv2d {
                strides: [r.range(1, 2), r.range(1, 2)],
                pads: [r.range(0, 1), r.range(0, 2), r.range(0, 1), r.range(0, 1)],
                dilations: [1, r.range(1, 1 + usize::from(shape[3] < 3))],
                groups: 1,
            };
            let y = i.op(conv, &[x, w]);
            i.finish(y)
        }),
    },
    Rule {
        name: "matmul-of-bytes-by-signs",
        summary: "matmul(dequantize_linear(x, s, 0), w) = dequantize_linear(integer_conv2d(x, w), s, 0), rows as pixels; x of 8 bits, \
                  also of another shape before, s a power of two, known w -1 and 1, sums below 2^24",
        exactness: Exactness::Bit,
        sides: Sides::Patterns(Patterns {
            forms: &[
                ("(matmul ?a (dequantize_linear ?real ?x ?s ?z) ?w)", "?sums"),
                ("(matmul ?a (reshape ?to (dequantize_linear ?real ?x ?s ?z)) ?w)", "?sums"),
            ],
            guards: &["?a.transpose_a = false"],
            conditions: BYTES_BY_SIGNS,
            computed: (&["sums"], |m| {
                let product = m.op::<MatMul>("a")?;
                let w = m.constant("w")?;
                let [first, second] = <[usize; 2]>::try_from(w.shape().dims()).ok()?;
                let (features, inputs) =
                    if product.transpose_b { (first, second) } else { (second, first) };
                let rows = m.ty("x")?.count() / inputs.max(1);
                if rows * inputs != m.ty("x")?.count() || rows == 0 {
                    return None;
                }
                let place = |at: usize| match product.transpose_b {
                    true => at,
                    false => at % inputs * features + at / inputs,
                };
                let w = w.as_f32();
                let codes: Vec<i64> = (0..w.len()).map(|at| w[place(at)] as i64).collect();
                let ty = TensorType::new([features, 1, 1, inputs], Element::I8);
                let codes = Tensor::from_i64(&ty, &codes, ScaleData::None);
                let product = IntegerConv2d {
                    strides: [1, 1],
                    pads: [0; 4],
                    dilations: [1, 1],
                    groups: 1,
                    padding: 0,
                };
                let shape = |shape: Shape, x| Term::operation(Reshape { shape }, vec![x]);
                let x = shape([rows, 1, 1, inputs].into(), Term::Class(m.id("x")?));
                let sums = Term::operation(product, vec![x, Term::Constant("signs", codes)]);
                let zero = Term::Integers("zero_point", [0usize; 0].into(), vec![0]);
                let sums = shape([rows, features].into(), sums);
                let scale = Term::Class(m.id("s")?);
                Some(vec![Term::operation(DequantizeLinear { axis: 0 }, vec![sums, scale, zero])])
            }),
        }),
        instance: Instance::Built(|r| {
            let mut i = Builder::new();
            let (inputs, features) = (r.choose(&[4, 12, 36]), r.range(1, 5));
            let element = r.choose(&[Element::U8, Element::I8]);
            let (rows, is_map) = (r.range(1, 3), r.range(0, 1) == 0);
            let shape: Shape = match is_map {
                true => [rows, inputs / 4, 2, 2].into(),
                false => [rows, inputs].into(),
            };
            let x = i.input(TensorType::new(shape, element));
            let s =
                i.constant(Tensor::f32([], vec![r.choose(&[1.0, 0.5, 65536.0, 2f32.powi(-64)])]));
            let zero = TensorType::new([0usize; 0], element);
            let z = i.constant(Tensor::from_i64(&zero, &[0], ScaleData::None));
            let mut x = i.op(DequantizeLinear { axis: 0 }, &[x, s, z]);
            if is_map {
                x = i.op(Reshape { shape: [rows, inputs].into() }, &[x]);
            }
            let transpose_b = r.range(0, 1) == 0;
            let shape = if transpose_b { [features, inputs] } else { [inputs, features] };
            let w = (0..inputs * features).map(|_| 1.0 - 2.0 * (r.bits() >> 63) as f32).collect();
            let w = i.constant(Tensor::f32(shape, w));
            let role = ProductRole::Forward;
            let y = i.op(MatMul { transpose_a: false, transpose_b, role }, &[x, w]);
            i.finish(y)
        }),
    },
];
