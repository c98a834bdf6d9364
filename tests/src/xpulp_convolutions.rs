//! Random convolutions of quantized inference, with output stages that spread their results.

use trainc_ir::ops::{Chain, IntegerConv2d, ScaleShift, Threshold};
use trainc_ir::tensor::ScaleData;
use trainc_ir::{Element, Op, RunContext, Tensor, TensorType};

use crate::cases::Case;
use crate::random::Random;

/// A convolution without its elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Images, rows, columns, channels.
    pub x: [usize; 4],
    /// Filters.
    pub filters: usize,
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Vertical, horizontal.
    pub strides: [usize; 2],
    /// Top, left, bottom, right.
    pub pads: [usize; 4],
    /// Vertical, horizontal.
    pub dilations: [usize; 2],
    /// Channel groups.
    pub groups: usize,
    /// Whether the integer that stands for 0 is not 0.
    pub padded: bool,
}

impl Shape {
    /// 3x3, padded by 1.
    pub fn three(x: [usize; 4], filters: usize) -> Shape {
        Shape { kernel: [3, 3], pads: [1; 4], ..Shape::one(x, filters) }
    }

    /// 1x1.
    pub fn one(x: [usize; 4], filters: usize) -> Shape {
        Shape {
            x,
            filters,
            kernel: [1, 1],
            strides: [1, 1],
            pads: [0; 4],
            dilations: [1, 1],
            groups: 1,
            padded: false,
        }
    }

    /// 16 rows, 16 columns, 32 channels; 64 filters.
    pub fn reference() -> Shape {
        Shape::three([1, 16, 16, 32], 64)
    }
}

/// Elements of operand, weights and result; I32 results are the sums.
pub type Elements = [Element; 3];

/// A random tensor of all values of its element, the extremes often.
pub fn tensor(shape: &[usize], element: Element, random: &mut Random) -> Tensor {
    let (low, high) = element.integer_range().expect("an integer element");
    let ty = TensorType::new(shape.to_vec(), element);
    let values: Vec<i64> = (0..ty.count()).map(|_| random.between(low, high)).collect();
    Tensor::from_i64(&ty, &values, ScaleData::None)
}

/// A random case. `flips`: with thresholds, channels of falling stairs.
pub fn convolution(
    shape: &Shape,
    [x, w, y]: Elements,
    flips: bool,
    constant: bool,
    random: &mut Random,
) -> Case {
    let (low, high) = x.integer_range().expect("an integer element");
    let padding = if shape.padded { random.between(low, high) } else { 0 };
    let conv = Op::IntegerConv2d(IntegerConv2d {
        strides: shape.strides,
        pads: shape.pads,
        dilations: shape.dilations,
        groups: shape.groups,
        padding: padding as i32,
    });
    let inputs = shape.x[3] / shape.groups;
    let [rows, columns] = shape.kernel;
    let mut operands = vec![
        tensor(&shape.x, x, random),
        tensor(&[shape.filters, rows, columns, inputs], w, random),
    ];
    let what = format!("{shape:?} {x:?} {w:?} {y:?} flips {flips} constant {constant}");
    if y == Element::I32 {
        return Case { what, op: conv, inputs: operands, constant };
    }
    let by_reference: Vec<&Tensor> = operands.iter().collect();
    let sums = conv.evaluate(&by_reference, &RunContext { seed: 0, step: 0 }).remove(0);
    let channels = shape.filters;
    let of_channel = |channel: usize| sums.as_i32().iter().skip(channel).step_by(channels).copied();
    let stage = if y.bits() == 8 {
        let (low, high) = y.integer_range().expect("an integer element");
        // Most products fit, some wrap.
        let most = sums.as_i32().iter().map(|s| s.unsigned_abs()).max().unwrap_or(1).max(1);
        let shift = 12;
        let scale = (256u64 << shift) / u64::from(most).max(1);
        let scale = i32::try_from(scale.max(1)).unwrap_or(1 << 20);
        let mut scales: Vec<i32> = (0..channels)
            .map(|_| random.between(-i64::from(scale), i64::from(scale)) as i32)
            .collect();
        let mut offsets: Vec<i32> =
            (0..channels).map(|_| random.between(-(60 << shift), 200 << shift) as i32).collect();
        if channels > 4 {
            (scales[1], offsets[2]) = (i32::MAX, i32::MIN);
        }
        operands.push(Tensor::i32([channels], scales));
        operands.push(Tensor::i32([channels], offsets));
        let narrower = random.next().is_multiple_of(4);
        let (low, high) = if narrower { (low + 3, high - 5) } else { (low, high) };
        Op::ScaleShift(ScaleShift { shift, low: low as i32, high: high as i32, element: y })
    } else {
        let (low, high) = y.integer_range().expect("an integer element");
        let levels = (high - low) as usize;
        let mut flip = Vec::new();
        let mut thresholds = Vec::new();
        for channel in 0..channels {
            let falls = flips && random.next().is_multiple_of(2);
            flip.push(-i32::from(falls));
            let of = |sum: i32| if falls { !sum } else { sum };
            let least = of_channel(channel).map(of).min().unwrap_or(0);
            let most = of_channel(channel).map(of).max().unwrap_or(0);
            let mut row: Vec<i32> = (0..levels)
                .map(|_| random.between(i64::from(least) - 1, i64::from(most) + 1) as i32)
                .collect();
            // Constant channels, and thresholds that are met.
            match random.next() % 8 {
                0 => row.fill(i32::MIN),
                1 => row.fill(i32::MAX),
                2 => row[0] = i32::MIN,
                3 => row[levels - 1] = i32::MAX,
                _ => row[levels / 2] = of_channel(channel).map(of).next().unwrap_or(0),
            }
            row.sort_unstable();
            thresholds.extend(row);
        }
        operands.push(Tensor::i32([channels, levels], thresholds));
        if flips {
            operands.push(Tensor::i32([channels], flip));
        }
        Op::Threshold(Threshold { low: low as i32, element: y })
    };
    let op = Op::Chain(Chain { ops: vec![conv, stage] });
    Case { what, op, inputs: operands, constant }
}

/// The 27 combinations of unsigned operands and results of 8, 4 and 2 bits.
pub fn combinations() -> Vec<Elements> {
    let unsigned = [Element::U8, Element::U4, Element::U2];
    let signed = [Element::I8, Element::I4, Element::I2];
    let all = signed.into_iter().flat_map(|w| {
        unsigned.into_iter().flat_map(move |x| unsigned.into_iter().map(move |y| [x, w, y]))
    });
    all.collect()
}
