//! First layers of binary networks: FP32 products of an image's bytes with signs, as sums of integers.

use trainc_ir::ops::{Conv2d, DequantizeLinear, IntegerConv2d};
use trainc_ir::types::TensorType;
use trainc_ir::{Element, ScaleData, Tensor};

use super::instance::{Builder, Instance};
use super::signs::{TO_FIRST, TO_LAST, moved, number};
use super::{Exactness, Patterns, Rule, Sides};
use crate::egraph::saturate::Term;

/// Integers up to this are FP32 numbers, and so are their sums.
const EXACT: i64 = 1 << 24;

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
            conditions: &[
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
                    let taps = (w.count() / w.shape[0].max(1)) as i64;
                    let bytes = matches!(m.ty("x")?.element, Element::U8 | Element::I8);
                    Some(bytes && taps * 256 <= EXACT)
                }),
            ],
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
];
