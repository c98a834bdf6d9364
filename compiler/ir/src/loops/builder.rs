//! Building loop kernels: expressions by operators, loops by closures.

use super::{
    Binary, Buffer, BufferParameter, Comparison, Draw, Expr, Local, LoopKernel, Node, Role, Scalar,
    Stmt, Unary,
};
use crate::attributes::F32;
use crate::random::{PHILOX_M0, PHILOX_M1, PHILOX_ROUNDS, PHILOX_W0, PHILOX_W1};
use crate::types::{Element, Scale, TensorType};

impl Expr {
    fn new(ty: Scalar, node: Node) -> Expr {
        Expr { ty, node: Box::new(node) }
    }

    /// An I32 constant.
    pub fn i32(value: i32) -> Expr {
        Expr::new(Scalar::I32, Node::Integer(i64::from(value)))
    }

    /// An I64 constant.
    pub fn i64(value: i64) -> Expr {
        Expr::new(Scalar::I64, Node::Integer(value))
    }

    /// An index constant (I64).
    pub fn index(value: usize) -> Expr {
        Expr::i64(value as i64)
    }

    /// An F32 constant.
    pub fn f32(value: f32) -> Expr {
        Expr::new(Scalar::F32, Node::Float(F32::new(value)))
    }

    /// The value if this is an integer constant.
    pub fn as_constant(&self) -> Option<i64> {
        match *self.node {
            Node::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// A unary operation; the result type follows from it.
    pub fn unary(self, op: Unary) -> Expr {
        let ty = match op {
            Unary::Extend | Unary::ExtendUnsigned => Scalar::I64,
            Unary::Truncate | Unary::ToInteger | Unary::ToBits | Unary::BoolToInteger => {
                Scalar::I32
            }
            Unary::ToFloat | Unary::FromBits => Scalar::F32,
            Unary::Negate
            | Unary::FloatAbs
            | Unary::Sqrt
            | Unary::RoundTiesEven
            | Unary::Floor
            | Unary::Ceil
            | Unary::LeadingZeros
            | Unary::Not => self.ty,
        };
        Expr::new(ty, Node::Unary(op, self))
    }

    /// A binary operation. Panics if the types differ: a bug of the lowering.
    pub fn binary(self, op: Binary, other: Expr) -> Expr {
        assert_eq!(self.ty, other.ty, "operands of {op:?}");
        let ty = self.ty;
        if let (Some(a), Some(b), Scalar::I64) = (self.as_constant(), other.as_constant(), ty) {
            match op {
                Binary::Add => return Expr::i64(a.wrapping_add(b)),
                Binary::Subtract => return Expr::i64(a.wrapping_sub(b)),
                Binary::Multiply => return Expr::i64(a.wrapping_mul(b)),
                _ => {}
            }
        }
        if ty == Scalar::I64 {
            match (op, self.as_constant(), other.as_constant()) {
                (Binary::Add, Some(0), _) | (Binary::Multiply, Some(1), _) => return other,
                (
                    Binary::Add | Binary::Subtract | Binary::ShiftLeft | Binary::ShiftRight,
                    _,
                    Some(0),
                )
                | (Binary::Multiply | Binary::Divide, _, Some(1)) => return self,
                (Binary::Multiply, Some(0), _) | (Binary::Multiply, _, Some(0)) => {
                    return Expr::i64(0);
                }
                _ => {}
            }
        }
        Expr::new(ty, Node::Binary(op, self, other))
    }

    /// A comparison.
    pub fn compare(self, comparison: Comparison, other: Expr) -> Expr {
        assert_eq!(self.ty, other.ty, "operands of {comparison:?}");
        Expr::new(Scalar::Bool, Node::Compare(comparison, self, other))
    }

    /// `self < other` (signed, or floats).
    pub fn less(self, other: Expr) -> Expr {
        self.compare(Comparison::Less, other)
    }

    /// `self <= other`.
    pub fn less_equal(self, other: Expr) -> Expr {
        self.compare(Comparison::LessEqual, other)
    }

    /// `self == other`.
    pub fn equal(self, other: Expr) -> Expr {
        self.compare(Comparison::Equal, other)
    }

    /// `self != other`.
    pub fn not_equal(self, other: Expr) -> Expr {
        self.compare(Comparison::NotEqual, other)
    }

    /// Logical or bitwise and.
    pub fn and(self, other: Expr) -> Expr {
        self.binary(Binary::And, other)
    }

    /// Logical or bitwise or.
    pub fn or(self, other: Expr) -> Expr {
        self.binary(Binary::Or, other)
    }

    /// Bitwise exclusive or.
    pub fn xor(self, other: Expr) -> Expr {
        self.binary(Binary::Xor, other)
    }

    /// `if self { a } else { b }` for a Bool.
    pub fn select(self, a: Expr, b: Expr) -> Expr {
        assert_eq!((self.ty, a.ty), (Scalar::Bool, b.ty), "select");
        Expr::new(a.ty, Node::Select(self, a, b))
    }

    /// The smaller.
    pub fn minimum(self, other: Expr) -> Expr {
        self.binary(Binary::Minimum, other)
    }

    /// The larger.
    pub fn maximum(self, other: Expr) -> Expr {
        self.binary(Binary::Maximum, other)
    }

    /// Left shift.
    pub fn shift_left(self, amount: Expr) -> Expr {
        self.binary(Binary::ShiftLeft, amount)
    }

    /// Arithmetic right shift.
    pub fn shift_right(self, amount: Expr) -> Expr {
        self.binary(Binary::ShiftRight, amount)
    }

    /// Logical right shift.
    pub fn shr_unsigned(self, amount: Expr) -> Expr {
        self.binary(Binary::ShiftRightUnsigned, amount)
    }

    /// Quotient. By a constant power of two it is a product, which has the same bits and takes less.
    pub fn divide(self, other: Expr) -> Expr {
        if let Node::Float(divisor) = *other.node
            && let Some(reciprocal) = exact_reciprocal(divisor.get())
        {
            return self * Expr::f32(reciprocal);
        }
        self.binary(Binary::Divide, other)
    }

    /// Remainder.
    pub fn remainder(self, other: Expr) -> Expr {
        self.binary(Binary::Remainder, other)
    }

    /// I32 to I64.
    pub fn extend(self) -> Expr {
        self.unary(Unary::Extend)
    }

    /// I64 to I32.
    pub fn truncate(self) -> Expr {
        self.unary(Unary::Truncate)
    }
}

/// `1 / x` of a power of two where that is a normal number, so that products by it round as quotients by `x` do.
fn exact_reciprocal(x: f32) -> Option<f32> {
    let reciprocal = x.recip();
    let power = |x: f32| x.is_normal() && x.to_bits() & 0x7f_ffff == 0;
    (power(x) && power(reciprocal)).then_some(reciprocal)
}

macro_rules! operators {
    ($($operator:ident $method:ident $op:ident),*) => {$(
        impl std::ops::$operator for Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                self.binary(Binary::$op, other)
            }
        }
    )*};
}
operators!(Add add Add, Sub sub Subtract, Mul mul Multiply);

/// The innermost body of nested loops, given one index a dimension.
type NestBody<'a> = Box<dyn FnOnce(&mut LoopBuilder, &[Expr]) + 'a>;

/// Names of buffers and the current block of statements.
#[derive(Debug)]
pub struct LoopBuilder {
    kernel: LoopKernel,
    blocks: Vec<Vec<Stmt>>,
}

impl LoopBuilder {
    /// A builder with the standard parameters: operands and results, each followed by its exponent if it has one,
    /// then the run context if `random`.
    pub fn new(inputs: &[&TensorType], outputs: &[&TensorType], random: bool) -> LoopBuilder {
        let mut buffers = Vec::new();
        let mut tensors = |types: &[&TensorType], name: &str, input: bool| {
            for (i, ty) in types.iter().enumerate() {
                let (elements, scale) = if input {
                    (Role::Input(i), Role::InputScale(i))
                } else {
                    (Role::Output(i), Role::OutputScale(i))
                };
                buffers.push(BufferParameter {
                    name: format!("{name}{i}"),
                    element: ty.element,
                    count: ty.count(),
                    role: elements,
                });
                if ty.scale == Scale::Exponent {
                    buffers.push(BufferParameter {
                        name: format!("{name}{i}_exponent"),
                        element: Element::I32,
                        count: 1,
                        role: scale,
                    });
                }
            }
        };
        tensors(inputs, "x", true);
        tensors(outputs, "y", false);
        if random {
            buffers.push(BufferParameter {
                name: "run".into(),
                element: Element::I32,
                count: 3,
                role: Role::RunContext,
            });
        }
        LoopBuilder {
            kernel: LoopKernel { buffers, locals: Vec::new(), body: Vec::new(), draws: Vec::new() },
            blocks: vec![Vec::new()],
        }
    }

    fn role(&self, role: Role) -> Buffer {
        let position = self.kernel.buffers.iter().position(|b| b.role == role);
        match position {
            Some(i) => Buffer(i as u32),
            None => panic!("the kernel has no buffer {role:?}"),
        }
    }

    /// Elements of operand `i`.
    pub fn input(&self, i: usize) -> Buffer {
        self.role(Role::Input(i))
    }

    /// Elements of result `i`.
    pub fn output(&self, i: usize) -> Buffer {
        self.role(Role::Output(i))
    }

    /// The shared exponent of operand `i` (I32).
    pub fn input_exponent(&self, i: usize) -> Expr {
        self.load(self.role(Role::InputScale(i)), Expr::i64(0))
    }

    /// Sets the shared exponent of result `i`.
    pub fn set_output_exponent(&mut self, i: usize, exponent: Expr) {
        let buffer = self.role(Role::OutputScale(i));
        self.store(buffer, Expr::i64(0), exponent);
    }

    /// Adds working memory.
    pub fn scratch(&mut self, name: &str, element: Element, count: usize) -> Buffer {
        self.kernel.buffers.push(BufferParameter {
            name: name.into(),
            element,
            count,
            role: Role::Scratch,
        });
        Buffer(self.kernel.buffers.len() as u32 - 1)
    }

    /// Makes a buffer of packed elements one of the bytes that hold them, which loads and stores then count.
    pub fn packed_bytes(&mut self, buffer: Buffer) {
        let parameter = &mut self.kernel.buffers[buffer.0 as usize];
        parameter.count = parameter.element.bytes(parameter.count);
        parameter.element = Element::U8;
    }

    /// Loads an element.
    pub fn load(&self, buffer: Buffer, index: Expr) -> Expr {
        assert_eq!(index.ty, Scalar::I64, "index");
        let ty = match self.kernel.buffers[buffer.0 as usize].element {
            Element::F32 => Scalar::F32,
            _ => Scalar::I32,
        };
        Expr::new(ty, Node::Load(buffer, index))
    }

    /// Stores an element.
    pub fn store(&mut self, buffer: Buffer, index: Expr, value: Expr) {
        assert_eq!(index.ty, Scalar::I64, "index");
        self.push(Stmt::Store(buffer, index, value));
    }

    fn push(&mut self, statement: Stmt) {
        self.blocks.last_mut().expect("the body is open").push(statement);
    }

    /// A new local with a first value.
    pub fn local(&mut self, name: &str, value: Expr) -> Local {
        let local = Local(self.kernel.locals.len() as u32);
        self.kernel.locals.push((name.into(), value.ty));
        self.push(Stmt::Assign(local, value));
        local
    }

    /// Names a value so that it is computed once.
    pub fn let_(&mut self, name: &str, value: Expr) -> Expr {
        let local = self.local(name, value);
        self.get(local)
    }

    /// A local's value.
    pub fn get(&self, local: Local) -> Expr {
        Expr::new(self.kernel.locals[local.0 as usize].1, Node::Local(local))
    }

    /// Sets a local.
    pub fn set(&mut self, local: Local, value: Expr) {
        assert_eq!(self.kernel.locals[local.0 as usize].1, value.ty, "assignment");
        self.push(Stmt::Assign(local, value));
    }

    /// `for name in 0..count`; a loop of one round is unrolled.
    pub fn for_(&mut self, name: &str, count: usize, body: impl FnOnce(&mut LoopBuilder, Expr)) {
        if count == 1 {
            return body(self, Expr::i64(0));
        }
        self.for_range(name, Expr::i64(0), Expr::index(count), body);
    }

    /// `for name in start..end`.
    pub fn for_range(
        &mut self,
        name: &str,
        start: Expr,
        end: Expr,
        body: impl FnOnce(&mut LoopBuilder, Expr),
    ) {
        let variable = Local(self.kernel.locals.len() as u32);
        self.kernel.locals.push((name.into(), Scalar::I64));
        self.blocks.push(Vec::new());
        let value = self.get(variable);
        body(self, value);
        let body = self.blocks.pop().expect("the loop is open");
        self.push(Stmt::For { variable, start, end, body });
    }

    /// Nested loops over a shape; the closure gets one index a dimension.
    pub fn for_shape(
        &mut self,
        name: &str,
        shape: &[usize],
        body: impl FnOnce(&mut LoopBuilder, &[Expr]),
    ) {
        fn nest(
            builder: &mut LoopBuilder,
            name: &str,
            shape: &[usize],
            indices: &mut Vec<Expr>,
            body: NestBody<'_>,
        ) {
            match shape.get(indices.len()) {
                None => body(builder, indices),
                Some(&count) => {
                    let variable = format!("{name}{}", indices.len());
                    builder.for_(&variable, count, |builder, index| {
                        indices.push(index);
                        nest(builder, name, shape, indices, body);
                    });
                }
            }
        }
        nest(self, name, shape, &mut Vec::new(), Box::new(body));
    }

    /// `if condition { then }`.
    pub fn if_(&mut self, condition: Expr, then: impl FnOnce(&mut LoopBuilder)) {
        self.if_else(condition, then, |_| {});
    }

    /// `if condition { then } else { otherwise }`.
    pub fn if_else(
        &mut self,
        condition: Expr,
        then: impl FnOnce(&mut LoopBuilder),
        otherwise: impl FnOnce(&mut LoopBuilder),
    ) {
        self.blocks.push(Vec::new());
        then(self);
        let then = self.blocks.pop().expect("the branch is open");
        self.blocks.push(Vec::new());
        otherwise(self);
        let otherwise = self.blocks.pop().expect("the branch is open");
        self.push(Stmt::If { condition, then, otherwise });
    }

    /// 32 uniform bits (as I32) for `element` (I64) of `stream`: [`crate::random::RunContext::draw`] in scalar code.
    pub fn draw(&mut self, stream: u32, element: Expr) -> Expr {
        let run = self.role(Role::RunContext);
        let word = |value: u32| Expr::i32(value as i32);
        let low = self.let_("element", element.truncate());
        let mut c = [
            low.clone().shr_unsigned(Expr::i32(2)),
            self.load(run, Expr::i64(2)),
            word(stream),
            word(0),
        ];
        let mut k = [self.load(run, Expr::i64(0)), self.load(run, Expr::i64(1))];
        let wide = |a: Expr, m: u32| a.unary(Unary::ExtendUnsigned) * Expr::i64(i64::from(m));
        let high = |p: &Expr| p.clone().shr_unsigned(Expr::i64(32)).truncate();
        for round in 0..PHILOX_ROUNDS {
            let p0 = self.let_("p0", wide(c[0].clone(), PHILOX_M0));
            let p1 = self.let_("p1", wide(c[2].clone(), PHILOX_M1));
            let [_, c1, _, c3] = c;
            let c0 = high(&p1).xor(c1).xor(k[0].clone());
            let c2 = high(&p0).xor(c3).xor(k[1].clone());
            c = [self.let_("c0", c0), p1.truncate(), self.let_("c2", c2), p0.truncate()];
            if round + 1 < PHILOX_ROUNDS {
                k = [k[0].clone() + word(PHILOX_W0), k[1].clone() + word(PHILOX_W1)];
                k = [self.let_("k0", k[0].clone()), self.let_("k1", k[1].clone())];
            }
        }
        let lane = self.let_("lane", low.clone().and(Expr::i32(3)));
        let [c0, c1, c2, c3] = c;
        let pick = |n: i32, a: Expr, b: Expr| lane.clone().equal(Expr::i32(n)).select(a, b);
        let value = pick(0, c0, pick(1, c1, pick(2, c2, c3)));
        let draw = self.let_("draw", value);
        if let (Node::Local(element), Node::Local(bits)) = (&*low.node, &*draw.node) {
            self.kernel.draws.push(Draw { stream, element: *element, bits: *bits });
        }
        draw
    }

    /// The finished kernel.
    pub fn finish(mut self) -> LoopKernel {
        self.kernel.body = self.blocks.pop().expect("the body is open");
        assert!(self.blocks.is_empty(), "an open block");
        self.kernel
    }
}

/// Flat row-major index of `indices` in `shape`.
pub fn flat_index(shape: &[usize], indices: &[Expr]) -> Expr {
    let mut index = Expr::i64(0);
    for (&dim, i) in shape.iter().zip(indices) {
        index = index * Expr::index(dim) + i.clone();
    }
    index
}

/// Index of `indices` (of the broadcast result) in an operand of shape `shape`: size-1 dimensions read index 0.
pub fn broadcast_index(shape: &[usize], indices: &[Expr]) -> Expr {
    let own = &indices[indices.len() - shape.len()..];
    let mut index = Expr::i64(0);
    for (&dim, i) in shape.iter().zip(own) {
        if dim != 1 {
            index = index * Expr::index(dim) + i.clone();
        }
    }
    index
}
