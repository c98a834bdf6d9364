//! The products as one shape: a convolution, of which a matrix product is the case of a single place.

use trainc_ir::ops::{Conv2d, Conv2dGradientInput, Conv2dGradientWeight, MatMul};
use trainc_ir::{Element, Op, TensorType};

/// Which sums of a convolution are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// `y` of `x` and `w`.
    Forward,
    /// The error of `x`, of `dy` and `w`.
    Error,
    /// The gradient of `w`, of `x` and `dy`.
    Gradient,
}

/// Sizes of a convolution of 8-bit integers: `x` `[images, groups channels, height, width]`, `w`
/// `[groups outputs, channels, taps]`, `y` `[images, groups outputs, rows, columns]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Convolution {
    pub(crate) pass: Pass,
    /// Whether the operands stand in the other order.
    pub(crate) swapped: bool,
    pub(crate) images: usize,
    pub(crate) groups: usize,
    /// Input channels of a group.
    pub(crate) channels: usize,
    /// Output channels of a group.
    pub(crate) outputs: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) taps: [usize; 2],
    pub(crate) strides: [usize; 2],
    pub(crate) dilations: [usize; 2],
    /// Top, left.
    pub(crate) pads: [usize; 2],
}

impl Convolution {
    /// The product that an operation is; `None` if it is none, of other elements, without multiplications, or
    /// depthwise.
    pub(crate) fn of(op: &Op, inputs: &[&TensorType]) -> Option<Convolution> {
        let [a, b] = inputs else { return None };
        let output = op.infer(inputs).ok()?.pop()?;
        if [a, b].iter().any(|ty| ty.element != Element::I8 || !ty.is_shared_integer())
            || output.element != Element::I32
            || a.count() == 0
            || b.count() == 0
            || output.count() == 0
        {
            return None;
        }
        let convolution = match op {
            Op::Conv2d(Conv2d { strides, pads, dilations, groups }) => {
                let taps = [b.shape[2], b.shape[3]];
                let window = (taps, *strides, *dilations, *pads);
                Convolution::new(Pass::Forward, &a.shape, &output.shape, *groups, window)
            }
            Op::Conv2dGradientInput(op) => {
                let Conv2dGradientInput { strides, pads, dilations, groups, .. } = op;
                let taps = [b.shape[2], b.shape[3]];
                let window = (taps, *strides, *dilations, *pads);
                Convolution::new(Pass::Error, &output.shape, &a.shape, *groups, window)
            }
            Op::Conv2dGradientWeight(op) => {
                let Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size } = op;
                let window = (*kernel_size, *strides, *dilations, *pads);
                Convolution::new(Pass::Gradient, &a.shape, &b.shape, *groups, window)
            }
            Op::MatMul(op) => Convolution::of_matrices(op, a, b)?,
            _ => return None,
        };
        let depthwise = convolution.groups > 1 && convolution.channels == 1;
        (!depthwise).then_some(convolution)
    }

    fn new(
        pass: Pass,
        x: &[usize],
        y: &[usize],
        groups: usize,
        (taps, strides, dilations, pads): ([usize; 2], [usize; 2], [usize; 2], [usize; 4]),
    ) -> Convolution {
        Convolution {
            pass,
            swapped: false,
            images: x[0],
            groups,
            channels: x[1] / groups,
            outputs: y[1] / groups,
            height: x[2],
            width: x[3],
            rows: y[2],
            columns: y[3],
            taps,
            strides,
            dilations,
            pads: [pads[0], pads[1]],
        }
    }

    /// A matrix product as a convolution of one place and one tap. With `x` `[images, channels]`, `w`
    /// `[outputs, channels]` and `y` `[images, outputs]`: y = x w', dx = dy w, dw = dy' x.
    fn of_matrices(op: &MatMul, a: &TensorType, b: &TensorType) -> Option<Convolution> {
        let split = |ty: &TensorType| {
            let (leading, matrix) = ty.shape.split_at(ty.shape.rank() - 2);
            (leading.iter().product::<usize>(), matrix[0], matrix[1])
        };
        let ((matrices, rows_a, columns_a), (matrices_b, rows_b, columns_b)) = (split(a), split(b));
        let one = |pass, swapped, images, channels, outputs| Convolution {
            pass,
            swapped,
            images,
            groups: 1,
            channels,
            outputs,
            height: 1,
            width: 1,
            rows: 1,
            columns: 1,
            taps: [1, 1],
            strides: [1, 1],
            dilations: [1, 1],
            pads: [0, 0],
        };
        // Rows of several matrices on the left are rows of one.
        if matrices_b > 1 || (matrices > 1 && op.transpose_a) {
            return None;
        }
        let images = matrices * rows_a;
        match (op.transpose_a, op.transpose_b) {
            (false, true) => Some(one(Pass::Forward, false, images, columns_a, rows_b)),
            (false, false) => Some(one(Pass::Error, false, images, columns_b, columns_a)),
            (true, false) => Some(one(Pass::Gradient, true, rows_a, columns_b, columns_a)),
            (true, true) => None,
        }
    }

    /// Windows of an image.
    pub(crate) fn places(&self) -> usize {
        self.rows * self.columns
    }

    /// Elements of a plane of `x`.
    pub(crate) fn plane(&self) -> usize {
        self.height * self.width
    }

    /// Taps of a channel.
    pub(crate) fn tap_count(&self) -> usize {
        self.taps[0] * self.taps[1]
    }
}
