//! Which operations are products (convolutions, their gradients, matrix products, alone or with what rounds their sums),
//! and of what shape: the one recogniser of every target's product kernels.

use crate::numeric::Rounding;
use crate::ops::{
    Conv2d, Conv2dGradientInput, Conv2dGradientWeight, IntegerConv2d, MatMul, Op, ScaleShift,
    Threshold,
};
use crate::types::{Element, Scale, TensorType};

/// Which sums of a convolution are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// `y` of `x` and `w`.
    Forward,
    /// The error of `x`, of `dy` and `w`.
    Error,
    /// The gradient of `w`, of `x` and `dy`.
    Gradient,
}

/// What is multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// FP32.
    Float,
    /// Signed bytes with one run-time exponent a tensor.
    Bytes,
    /// Unsigned bytes by signed ones, each with one run-time exponent a tensor.
    Unsigned,
    /// Plain integers of at most 8 bits, channels last.
    Plain,
}

/// Sizes of a convolution: `x` `[images, groups channels, height, width]`, `w` `[groups outputs, channels, taps]`, `y`
/// `[images, groups outputs, rows, columns]`. Pairs are vertical and horizontal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Convolution {
    /// Which sums.
    pub pass: Pass,
    /// Whether the operands stand in the other order.
    pub swapped: bool,
    /// Images.
    pub images: usize,
    /// Groups of channels.
    pub groups: usize,
    /// Input channels of a group.
    pub channels: usize,
    /// Output channels of a group.
    pub outputs: usize,
    /// Rows of `x`.
    pub height: usize,
    /// Columns of `x`.
    pub width: usize,
    /// Rows of `y`.
    pub rows: usize,
    /// Columns of `y`.
    pub columns: usize,
    /// Of a window.
    pub taps: [usize; 2],
    /// From a window to the next.
    pub strides: [usize; 2],
    /// From a tap to the next.
    pub dilations: [usize; 2],
    /// Top, left, bottom, right.
    pub pads: [usize; 4],
    /// What positions outside `x` hold.
    pub padding: i32,
}

/// Sizes of matrix products `a b`, each of them transposed in memory or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Matrices {
    /// Matrices on the left, on the right: as many, or one for all.
    pub count: [usize; 2],
    /// Rows of the result.
    pub rows: usize,
    /// Columns of the result.
    pub columns: usize,
    /// Products that are summed.
    pub depth: usize,
    /// Whether `a` and `b` are stored transposed.
    pub transposed: [bool; 2],
}

/// A product's sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Of a convolution.
    Convolution(Convolution),
    /// Of matrices.
    Matrices(Matrices),
}

/// How sums with an exponent become signed bytes with one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Narrowing {
    /// To the sums' own width.
    Requantize {
        /// Most bits of a result's magnitude.
        bits: u8,
        /// How.
        rounding: Rounding,
        /// The lower clamp.
        low: i8,
    },
    /// To the sums' own width where the last operand, a state, says so, and elsewhere by the shift that it keeps.
    Adaptive {
        /// Most bits of a result's magnitude.
        bits: u8,
        /// How.
        rounding: Rounding,
        /// The lower clamp.
        low: i8,
    },
    /// To a width given at run time, the last operand.
    Gradient {
        /// How.
        rounding: Rounding,
    },
    /// By a constant.
    Shift {
        /// Bits.
        amount: u8,
        /// How.
        rounding: Rounding,
    },
}

impl Narrowing {
    /// How it rounds.
    pub fn rounding(self) -> Rounding {
        match self {
            Narrowing::Requantize { rounding, .. }
            | Narrowing::Adaptive { rounding, .. }
            | Narrowing::Gradient { rounding }
            | Narrowing::Shift { rounding, .. } => rounding,
        }
    }

    /// Operands besides the sums.
    pub fn operands(self) -> usize {
        usize::from(matches!(self, Narrowing::Gradient { .. } | Narrowing::Adaptive { .. }))
    }

    /// Whether it asks for the sums' largest magnitude.
    pub fn asks_magnitude(self) -> bool {
        !matches!(self, Narrowing::Shift { .. })
    }
}

/// What turns sums into the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finish {
    /// Of sums with an exponent.
    Narrow(Narrowing),
    /// Of plain sums, by a multiplication and a shift.
    ScaleShift(ScaleShift),
    /// Of plain sums, by the thresholds that they reach.
    Threshold(Threshold),
}

/// A product with its finish, at the head of a sequence of operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Product {
    /// Sizes.
    pub shape: Shape,
    /// What is multiplied.
    pub numbers: Numbers,
    /// Type of the sums.
    pub sums: TensorType,
    /// What becomes of them; `None` if they are the result.
    pub finish: Option<Finish>,
    /// Type of the result.
    pub result: TensorType,
    /// Operands of product and finish.
    pub operands: usize,
    /// Operations of product and finish.
    pub ops: usize,
}

impl Product {
    /// The product that a sequence of operations, each applied to the result so far, starts with, its next operation
    /// included where `fuses` says so. `None` if it starts with another operation.
    ///
    /// # Errors
    /// Why no kernel of products can do it.
    pub fn of(
        ops: &[Op],
        inputs: &[&TensorType],
        fuses: impl Fn(&Finish) -> bool,
    ) -> Option<Result<Product, String>> {
        let first = ops.first()?;
        let is_product = matches!(
            first,
            Op::Conv2d(_)
                | Op::Conv2dGradientInput(_)
                | Op::Conv2dGradientWeight(_)
                | Op::IntegerConv2d(_)
                | Op::MatMul(_)
        );
        is_product.then(|| Product::of_product(first, ops.get(1), inputs, fuses))
    }

    fn of_product(
        first: &Op,
        next: Option<&Op>,
        inputs: &[&TensorType],
        fuses: impl Fn(&Finish) -> bool,
    ) -> Result<Product, String> {
        let &[a, b, ref further @ ..] = inputs else {
            return Err("it has fewer than two operands".into());
        };
        let sums = one(first, &[a, b])?;
        let numbers = numbers(first, a, b, &sums)?;
        if [a, b, &sums].iter().any(|ty| ty.count() == 0) {
            return Err("a tensor has no elements".into());
        }
        let shape = shape(first, a, b, &sums)?;
        let mut product = Product {
            shape,
            numbers,
            result: sums.clone(),
            sums,
            finish: None,
            operands: 2,
            ops: 1,
        };
        let finish = next.and_then(|op| Some((op, Finish::of(op, &product.sums)?)));
        if let Some((op, finish)) = finish.filter(|(_, finish)| fuses(finish)) {
            // The most that it types with, as a chain divides its operands.
            let fitting = (0..=further.len()).rev().find_map(|n| {
                let operands: Vec<&TensorType> =
                    std::iter::once(&product.sums).chain(further[..n].iter().copied()).collect();
                Some((n, one(op, &operands).ok()?))
            });
            if let Some((n, result)) = fitting {
                product =
                    Product { finish: Some(finish), result, operands: 2 + n, ops: 2, ..product };
            }
        }
        Ok(product)
    }

    /// The convolution that it is; a product of single matrices is one of a single place, and each of several by its own is a
    /// group of channels.
    ///
    /// # Errors
    /// For other products of matrices.
    pub fn convolution(&self) -> Result<Convolution, String> {
        match &self.shape {
            Shape::Convolution(convolution) => Ok(convolution.clone()),
            Shape::Matrices(matrices) => matrices.convolution(),
        }
    }

    /// How its sums are narrowed, if they have exponents and are.
    pub fn narrowing(&self) -> Option<Narrowing> {
        self.finish.as_ref()?.narrowing()
    }

    /// Multiplications, those with padding included.
    pub fn multiplications(&self) -> usize {
        match &self.shape {
            Shape::Convolution(convolution) => convolution.multiplications(),
            Shape::Matrices(m) => {
                m.count.into_iter().max().unwrap_or(1) * m.rows * m.columns * m.depth
            }
        }
    }

    /// Checks that signed bytes with exponents are multiplied.
    ///
    /// # Errors
    /// If not.
    pub fn of_bytes(self) -> Result<Product, String> {
        match self.numbers {
            Numbers::Bytes => Ok(self),
            Numbers::Unsigned => Err("an operand is u8".into()),
            Numbers::Float => Err("the operands are f32".into()),
            Numbers::Plain => Err("the operands are plain integers".into()),
        }
    }
}

fn one(op: &Op, operands: &[&TensorType]) -> Result<TensorType, String> {
    let mut results = op.infer(operands).map_err(|e| e.to_string())?;
    match (results.pop(), results.is_empty()) {
        (Some(result), true) => Ok(result),
        _ => Err("it has not one result".into()),
    }
}

fn numbers(op: &Op, a: &TensorType, b: &TensorType, sums: &TensorType) -> Result<Numbers, String> {
    let all = [a, b];
    let bytes = |ty: &&TensorType| ty.element == Element::I8 && ty.scale == Scale::Exponent;
    let wide = sums.element == Element::I32;
    if matches!(op, Op::IntegerConv2d(_)) {
        return Ok(Numbers::Plain);
    }
    if all.iter().all(|ty| ty.is_f32()) && sums.is_f32() {
        return Ok(Numbers::Float);
    }
    if all.iter().all(bytes) && wide && sums.scale == Scale::Exponent {
        return Ok(Numbers::Bytes);
    }
    let unsigned = a.element == Element::U8 && a.scale == Scale::Exponent;
    if unsigned && bytes(&b) && wide && sums.scale == Scale::Exponent {
        return Ok(Numbers::Unsigned);
    }
    Err(format!("its kernels multiply f32, or i8 with an exponent each, here {a} by {b}"))
}

fn shape(op: &Op, a: &TensorType, b: &TensorType, y: &TensorType) -> Result<Shape, String> {
    let dims = |ty: &TensorType| -> Result<[usize; 4], String> {
        ty.shape.dims().try_into().map_err(|_| format!("{ty} has not four dimensions"))
    };
    let taps = |w: [usize; 4]| [w[2], w[3]];
    Ok(Shape::Convolution(match op {
        Op::Conv2d(Conv2d { strides, pads, dilations, groups }) => {
            let window = (taps(dims(b)?), *strides, *dilations, *pads);
            Convolution::new(Pass::Forward, dims(a)?, dims(y)?, *groups, window)
        }
        Op::Conv2dGradientInput(op) => {
            let Conv2dGradientInput { strides, pads, dilations, groups, .. } = op;
            let window = (taps(dims(b)?), *strides, *dilations, *pads);
            Convolution::new(Pass::Error, dims(y)?, dims(a)?, *groups, window)
        }
        Op::Conv2dGradientWeight(op) => {
            let Conv2dGradientWeight { strides, pads, dilations, groups, kernel_size } = op;
            let window = (*kernel_size, *strides, *dilations, *pads);
            Convolution::new(Pass::Gradient, dims(a)?, dims(b)?, *groups, window)
        }
        Op::IntegerConv2d(IntegerConv2d { strides, pads, dilations, groups, padding }) => {
            let first = |[n, h, w, c]: [usize; 4]| [n, c, h, w];
            let w = first(dims(b)?);
            let window = (taps(w), *strides, *dilations, *pads);
            let (x, y) = (first(dims(a)?), first(dims(y)?));
            let convolution = Convolution::new(Pass::Forward, x, y, *groups, window);
            Convolution { padding: *padding, ..convolution }
        }
        Op::MatMul(op) => return Ok(Shape::Matrices(Matrices::of(op, a, b)?)),
        _ => return Err("it is no product".into()),
    }))
}

impl Convolution {
    fn new(
        pass: Pass,
        x: [usize; 4],
        y: [usize; 4],
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
            pads,
            padding: 0,
        }
    }

    /// Which operand stands for `x` (of an error, for that of `y`), and which for what it is multiplied by.
    pub fn operands(&self) -> [usize; 2] {
        if self.swapped { [1, 0] } else { [0, 1] }
    }

    /// Multiplications, those with padding included.
    pub fn multiplications(&self) -> usize {
        let outputs = self.images * self.groups * self.outputs * self.places();
        outputs * self.channels * self.tap_count()
    }

    /// Sums that are wanted.
    pub fn sums(&self) -> usize {
        let [images, groups] = [self.images, self.groups];
        match self.pass {
            Pass::Forward => images * groups * self.outputs * self.places(),
            Pass::Error => images * groups * self.channels * self.plane(),
            Pass::Gradient => groups * self.outputs * self.channels * self.tap_count(),
        }
    }

    /// Whether each channel is convolved by itself.
    pub fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.channels == 1
    }

    /// Windows of an image.
    pub fn places(&self) -> usize {
        self.rows * self.columns
    }

    /// Elements of a plane of `x`.
    pub fn plane(&self) -> usize {
        self.height * self.width
    }

    /// Taps of a channel.
    pub fn tap_count(&self) -> usize {
        self.taps[0] * self.taps[1]
    }
}

impl Matrices {
    fn of(op: &MatMul, a: &TensorType, b: &TensorType) -> Result<Matrices, String> {
        let split = |ty: &TensorType| {
            let (leading, matrix) = ty.shape.split_at(ty.shape.rank() - 2);
            let trimmed = leading.iter().copied().skip_while(|&d| d == 1).collect::<Vec<_>>();
            (trimmed, matrix[0], matrix[1])
        };
        let ((leading_a, rows_a, columns_a), (leading_b, rows_b, columns_b)) = (split(a), split(b));
        let count = [&leading_a, &leading_b].map(|leading| leading.iter().product::<usize>());
        if count[0] > 1 && count[1] > 1 && leading_a != leading_b {
            return Err("both sides repeat matrices of the other".into());
        }
        let (rows, depth) = if op.transpose_a { (columns_a, rows_a) } else { (rows_a, columns_a) };
        let columns = if op.transpose_b { rows_b } else { columns_b };
        let transposed = [op.transpose_a, op.transpose_b];
        Ok(Matrices { count, rows, columns, depth, transposed })
    }

    /// As a convolution of one place and one tap. With `x` `[images, channels]`, `w` `[outputs, channels]` and `y`
    /// `[images, outputs]`: y = x w', dx = dy w, dw = dy' x.
    ///
    /// # Errors
    /// If it is none.
    pub fn convolution(&self) -> Result<Convolution, String> {
        let one = |pass, swapped, images, channels, outputs| Convolution {
            swapped,
            ..Convolution::new(
                pass,
                [images, channels, 1, 1],
                [images, outputs, 1, 1],
                1,
                ([1, 1], [1, 1], [1, 1], [0; 4]),
            )
        };
        if self.count[1] > 1 {
            return self.grouped();
        }
        if self.count[0] > 1 && self.transposed[0] {
            return Err("the matrices on the left are several and transposed".into());
        }
        // Rows of several matrices on the left are rows of one.
        let rows = self.count[0] * self.rows;
        match self.transposed {
            [false, true] => Ok(one(Pass::Forward, false, rows, self.depth, self.columns)),
            [false, false] => Ok(one(Pass::Error, false, rows, self.columns, self.depth)),
            [true, false] => Ok(one(Pass::Gradient, true, self.depth, self.columns, rows)),
            [true, true] => Err("both matrices are transposed".into()),
        }
    }

    /// Matrices that each have their own on the right, as a convolution of one image and one tap whose groups they are. With `x`
    /// `[groups channels, places]`, `w` `[groups outputs, channels]` and `y` `[groups outputs, places]`, for each group: y = w x,
    /// dx = w' dy, dw = dy x'.
    fn grouped(&self) -> Result<Convolution, String> {
        let groups = self.count[1];
        if self.count[0] != groups {
            return Err("several matrices on the right share the one on the left".into());
        }
        let (pass, channels, outputs, places) = match self.transposed {
            [false, false] => (Pass::Forward, self.depth, self.rows, self.columns),
            [true, false] => (Pass::Error, self.rows, self.depth, self.columns),
            [false, true] => (Pass::Gradient, self.columns, self.rows, self.depth),
            [true, true] => return Err("both matrices are transposed".into()),
        };
        if channels == 1 {
            return Err("several matrices have one row or one column each".into());
        }
        let plane = |channels| [1, groups * channels, 1, places];
        let window = ([1, 1], [1, 1], [1, 1], [0; 4]);
        let convolution = Convolution::new(pass, plane(channels), plane(outputs), groups, window);
        Ok(Convolution { swapped: true, ..convolution })
    }
}

impl Finish {
    /// The finish that an operation on sums of that type is.
    pub fn of(op: &Op, sums: &TensorType) -> Option<Finish> {
        if sums.element != Element::I32 {
            return None;
        }
        let narrow = |narrowing| Some(Finish::Narrow(narrowing));
        match (op, sums.scale) {
            (Op::Requantize(op), Scale::Exponent) => {
                narrow(Narrowing::Requantize { bits: op.bits, rounding: op.rounding, low: op.low })
            }
            (Op::RequantizeAdaptive(op), Scale::Exponent) => {
                narrow(Narrowing::Adaptive { bits: op.bits, rounding: op.rounding, low: op.low })
            }
            (Op::QuantizeGradient(op), Scale::Exponent) => {
                narrow(Narrowing::Gradient { rounding: op.rounding })
            }
            (Op::ShiftRight(op), Scale::Exponent) if op.element == Element::I8 => {
                narrow(Narrowing::Shift { amount: op.amount, rounding: op.rounding })
            }
            (Op::ScaleShift(op), Scale::None) => Some(Finish::ScaleShift(op.clone())),
            (Op::Threshold(op), Scale::None) => Some(Finish::Threshold(op.clone())),
            _ => None,
        }
    }

    /// How sums with an exponent are narrowed; `None` of plain sums.
    pub fn narrowing(&self) -> Option<Narrowing> {
        match self {
            Finish::Narrow(narrowing) => Some(*narrowing),
            Finish::ScaleShift(_) | Finish::Threshold(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Chain, ProductRole, Relu, Requantize};

    fn matmul(transpose_a: bool, transpose_b: bool) -> Op {
        MatMul { transpose_a, transpose_b, role: ProductRole::Forward }.into()
    }

    fn of(ops: &[Op], inputs: &[&TensorType]) -> Option<Result<Product, String>> {
        Product::of(ops, inputs, |_| true)
    }

    #[test]
    fn each_matrix_product_is_a_pass_of_a_convolution() {
        let bytes = |shape: [usize; 2]| TensorType::shared(shape, Element::I8);
        // 3 images, 5 channels, 7 outputs.
        let (x, w, dy) = (bytes([3, 5]), bytes([7, 5]), bytes([3, 7]));
        for (op, a, b, pass, swapped) in [
            (matmul(false, true), &x, &w, Pass::Forward, false),
            (matmul(false, false), &dy, &w, Pass::Error, false),
            (matmul(true, false), &dy, &x, Pass::Gradient, true),
        ] {
            let product = of(&[op], &[a, b]).expect("a product").expect("of bytes");
            let c = product.convolution().expect("one convolution");
            assert_eq!((c.pass, c.swapped), (pass, swapped));
            assert_eq!((c.images, c.channels, c.outputs), (3, 5, 7));
            assert_eq!(c.sums(), product.sums.count());
            assert_eq!(c.multiplications(), product.multiplications());
        }
        // Six pairs of matrices.
        let bytes =
            |shape: [usize; 2]| TensorType::shared([&[2, 3][..], &shape].concat(), Element::I8);
        let (x, w, y) = (bytes([5, 4]), bytes([7, 5]), bytes([7, 4]));
        for (op, a, b, pass) in [
            (matmul(false, false), &w, &x, Pass::Forward),
            (matmul(true, false), &w, &y, Pass::Error),
            (matmul(false, true), &y, &x, Pass::Gradient),
        ] {
            let product = of(&[op], &[a, b]).expect("a product").expect("of bytes");
            let c = product.convolution().expect("one convolution");
            assert_eq!((c.pass, c.operands()), (pass, [1, 0]));
            assert_eq!((c.images, c.groups, c.channels, c.outputs, c.places()), (1, 6, 5, 7, 4));
            assert_eq!(c.sums(), product.sums.count());
            assert_eq!(c.multiplications(), product.multiplications());
        }
        let column = bytes([5, 1]);
        let vectors =
            of(&[matmul(true, false)], &[&column, &x]).expect("a product").expect("of bytes");
        assert!(vectors.convolution().unwrap_err().contains("one row or one column"));
        let bytes = |shape: [usize; 2]| TensorType::shared(shape, Element::I8);
        let (x, w) = (bytes([5, 3]), bytes([7, 5]));
        let both = of(&[matmul(true, true)], &[&x, &w]).expect("a product").expect("of bytes");
        assert!(both.convolution().unwrap_err().contains("transposed"));
    }

    /// A scale that is no exponent must not be taken for one, whatever type rules allow.
    #[test]
    fn elements_and_scales_of_both_operands_count() {
        let bytes = TensorType::shared([2, 2], Element::I8);
        let sums = TensorType::shared([2, 2], Element::I32);
        let float = TensorType::f32([2, 2]);
        let op = matmul(false, true);
        assert_eq!(numbers(&op, &bytes, &bytes, &sums), Ok(Numbers::Bytes));
        assert_eq!(numbers(&op, &float, &float, &float), Ok(Numbers::Float));
        let plain = TensorType::new([2, 2], Element::I8);
        let unsigned = TensorType::shared([2, 2], Element::U8);
        assert_eq!(numbers(&op, &unsigned, &bytes, &sums), Ok(Numbers::Unsigned));
        assert!(numbers(&op, &bytes, &unsigned, &sums).is_err());
        assert!(numbers(&op, &unsigned, &unsigned, &sums).is_err());
        for other in [&plain, &float] {
            for (a, b) in [(&bytes, other), (other, &bytes)] {
                assert!(numbers(&op, a, b, &sums).is_err(), "{a} by {b}");
            }
        }
        assert!(numbers(&op, &bytes, &bytes, &TensorType::new([2, 2], Element::I32)).is_err());
        assert!(of(&[Relu {}.into()], &[&bytes]).is_none());
    }

    #[test]
    fn a_finish_is_taken_where_it_is_wanted() {
        let bytes = TensorType::shared([4, 4], Element::I8);
        let requantize = Requantize { bits: 7, rounding: Rounding::HalfAway, low: 0 };
        let chain = Chain { ops: vec![matmul(false, true), requantize.into(), Relu {}.into()] };
        let inputs = [&bytes, &bytes];
        let product = of(&chain.ops, &inputs).unwrap().unwrap();
        let expected = Narrowing::Requantize { bits: 7, rounding: Rounding::HalfAway, low: 0 };
        assert_eq!((product.narrowing(), product.ops), (Some(expected), 2));
        assert_eq!(product.result, bytes);
        let sums = Product::of(&chain.ops, &inputs, |_| false).unwrap().unwrap();
        assert_eq!((sums.narrowing(), sums.ops), (None, 1));
        assert_eq!(sums.result.element, Element::I32);
    }
}
