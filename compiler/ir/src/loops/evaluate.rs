//! Runs loop kernels on any machine: the check of lowerings against meanings.

use super::{Binary, Comparison, Expr, LoopKernel, Node, Role, Scalar, Stmt, Unary};
use crate::random::RunContext;
use crate::tensor::{Data, ScaleData, Tensor};
use crate::tensor_bytes::{packed_elements, unpacked_elements};
use crate::types::TensorType;

#[derive(Clone, Copy, Debug)]
enum Value {
    Int(i64),
    Float(f32),
}

impl Value {
    fn int(self) -> i64 {
        match self {
            Value::Int(v) => v,
            Value::Float(_) => panic!("a float where an integer is expected"),
        }
    }

    fn float(self) -> f32 {
        match self {
            Value::Float(v) => v,
            Value::Int(_) => panic!("an integer where a float is expected"),
        }
    }
}

struct Machine {
    buffers: Vec<Data>,
    locals: Vec<Value>,
}

/// Runs a kernel that was lowered for operands of these tensors' types and results of `outputs`; buffers of the kernel
/// with another element than their tensor hold it packed. Panics if bits behind a packed result's last element are not 0.
pub fn run(
    kernel: &LoopKernel,
    inputs: &[&Tensor],
    outputs: &[TensorType],
    context: &RunContext,
) -> Vec<Tensor> {
    let buffers = kernel
        .buffers
        .iter()
        .map(|parameter| match parameter.role {
            Role::Input(i) if inputs[i].ty().element == parameter.element => {
                inputs[i].data().clone()
            }
            Role::Input(i) => Data::U8(packed_elements(inputs[i].ty().element, inputs[i].data())),
            Role::InputScale(i) => Data::I32(vec![inputs[i].exponent()]),
            Role::RunContext => Data::I32(vec![
                context.seed as u32 as i32,
                (context.seed >> 32) as u32 as i32,
                context.step as i32,
            ]),
            Role::Output(_) | Role::OutputScale(_) | Role::Scratch => {
                poisoned(Data::zeros(parameter.element, parameter.count))
            }
        })
        .collect();
    let locals = kernel
        .locals
        .iter()
        .map(|(_, ty)| if *ty == Scalar::F32 { Value::Float(0.0) } else { Value::Int(0) })
        .collect();
    let mut machine = Machine { buffers, locals };
    machine.block(&kernel.body);
    let of_role = |role: Role| {
        let found = kernel.buffers.iter().position(|b| b.role == role);
        found.map(|i| (machine.buffers[i].clone(), kernel.buffers[i].element))
    };
    outputs
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            let data = match of_role(Role::Output(i)).expect("a buffer for each result") {
                (Data::U8(bytes), element) if element != ty.element => {
                    let data = unpacked_elements(ty, &bytes);
                    let again = packed_elements(ty.element, &data);
                    assert_eq!(bytes, again, "bits behind the last element of {ty}");
                    data
                }
                (data, _) => data,
            };
            let scale = match of_role(Role::OutputScale(i)) {
                Some((Data::I32(v), _)) => ScaleData::Exponent(v[0]),
                _ => ScaleData::None,
            };
            Tensor::new(ty.clone(), data, scale)
        })
        .collect()
}

/// Fills memory that a kernel must write before reading with a pattern that shows.
fn poisoned(mut data: Data) -> Data {
    match &mut data {
        Data::F32(v) => v.fill(f32::from_bits(0x7fa5_a5a5)),
        Data::I8(v) => v.fill(0x5a),
        Data::I16(v) => v.fill(0x5a5a),
        Data::I32(v) => v.fill(0x5a5a_5a5a),
        Data::U8(v) => v.fill(0xa5),
        Data::U16(v) => v.fill(0xa5a5),
        Data::U32(v) => v.fill(0xa5a5_a5a5),
    }
    data
}

impl Machine {
    fn block(&mut self, block: &[Stmt]) {
        for statement in block {
            match statement {
                Stmt::Assign(local, value) => {
                    self.locals[local.0 as usize] = self.value(value);
                }
                Stmt::Store(buffer, index, value) => {
                    let (index, value) = (self.value(index).int() as usize, self.value(value));
                    match &mut self.buffers[buffer.0 as usize] {
                        Data::F32(v) => v[index] = value.float(),
                        Data::I8(v) => v[index] = value.int() as i8,
                        Data::I16(v) => v[index] = value.int() as i16,
                        Data::I32(v) => v[index] = value.int() as i32,
                        Data::U8(v) => v[index] = value.int() as u8,
                        Data::U16(v) => v[index] = value.int() as u16,
                        Data::U32(v) => v[index] = value.int() as u32,
                    }
                }
                Stmt::For { variable, start, end, body } => {
                    let (start, end) = (self.value(start).int(), self.value(end).int());
                    for i in start..end {
                        self.locals[variable.0 as usize] = Value::Int(i);
                        self.block(body);
                    }
                }
                Stmt::If { condition, then, otherwise } => {
                    let branch = if self.value(condition).int() != 0 { then } else { otherwise };
                    self.block(branch);
                }
            }
        }
    }

    fn value(&self, expr: &Expr) -> Value {
        match &*expr.node {
            Node::Integer(v) => Value::Int(*v),
            Node::Float(v) => Value::Float(v.get()),
            Node::Local(local) => self.locals[local.0 as usize],
            Node::Load(buffer, index) => {
                let index = self.value(index).int() as usize;
                match &self.buffers[buffer.0 as usize] {
                    Data::F32(v) => Value::Float(v[index]),
                    Data::I8(v) => Value::Int(i64::from(v[index])),
                    Data::I16(v) => Value::Int(i64::from(v[index])),
                    Data::I32(v) => Value::Int(i64::from(v[index])),
                    Data::U8(v) => Value::Int(i64::from(v[index])),
                    Data::U16(v) => Value::Int(i64::from(v[index])),
                    Data::U32(v) => Value::Int(i64::from(v[index] as i32)),
                }
            }
            Node::Unary(op, x) => unary(*op, x.ty, self.value(x)),
            Node::Binary(op, a, b) => binary(*op, a.ty, self.value(a), self.value(b)),
            Node::Compare(comparison, a, b) => {
                let (x, y) = (self.value(a), self.value(b));
                let result = match (x, y) {
                    (Value::Float(x), Value::Float(y)) => match comparison {
                        Comparison::Equal => x == y,
                        Comparison::NotEqual => x != y,
                        Comparison::Less => x < y,
                        Comparison::LessEqual => x <= y,
                        Comparison::LessUnsigned => panic!("unsigned comparison of floats"),
                    },
                    _ => match comparison {
                        Comparison::Equal => x.int() == y.int(),
                        Comparison::NotEqual => x.int() != y.int(),
                        Comparison::Less => x.int() < y.int(),
                        Comparison::LessEqual => x.int() <= y.int(),
                        Comparison::LessUnsigned if a.ty == Scalar::I32 => {
                            (x.int() as u32) < (y.int() as u32)
                        }
                        Comparison::LessUnsigned => (x.int() as u64) < (y.int() as u64),
                    },
                };
                Value::Int(i64::from(result))
            }
            Node::Select(condition, a, b) => {
                self.value(if self.value(condition).int() != 0 { a } else { b })
            }
        }
    }
}

fn unary(op: Unary, ty: Scalar, x: Value) -> Value {
    match op {
        Unary::Negate => match x {
            Value::Float(x) => Value::Float(-x),
            Value::Int(x) => Value::Int(wrap(ty, x.wrapping_neg())),
        },
        Unary::FloatAbs => Value::Float(x.float().abs()),
        Unary::Sqrt => Value::Float(x.float().sqrt()),
        Unary::RoundTiesEven => Value::Float(x.float().round_ties_even()),
        Unary::Floor => Value::Float(x.float().floor()),
        Unary::Ceil => Value::Float(x.float().ceil()),
        Unary::LeadingZeros => Value::Int(i64::from((x.int() as u32).leading_zeros())),
        Unary::Extend => x,
        Unary::ExtendUnsigned => Value::Int(i64::from(x.int() as u32)),
        Unary::Truncate => Value::Int(wrap(Scalar::I32, x.int())),
        Unary::ToFloat => Value::Float(x.int() as i32 as f32),
        Unary::ToInteger => Value::Int(i64::from(x.float() as i32)),
        Unary::ToBits => Value::Int(i64::from(x.float().to_bits() as i32)),
        Unary::FromBits => Value::Float(f32::from_bits(x.int() as u32)),
        Unary::Not => Value::Int(i64::from(x.int() == 0)),
        Unary::BoolToInteger => x,
    }
}

fn wrap(ty: Scalar, x: i64) -> i64 {
    if ty == Scalar::I32 { i64::from(x as i32) } else { x }
}

fn binary(op: Binary, ty: Scalar, a: Value, b: Value) -> Value {
    if let (Value::Float(a), Value::Float(b)) = (a, b) {
        return Value::Float(match op {
            Binary::Add => a + b,
            Binary::Subtract => a - b,
            Binary::Multiply => a * b,
            Binary::Divide => a / b,
            Binary::Minimum => {
                if a < b {
                    a
                } else {
                    b
                }
            }
            Binary::Maximum => {
                if a > b {
                    a
                } else {
                    b
                }
            }
            _ => panic!("{op:?} of floats"),
        });
    }
    let (a, b) = (a.int(), b.int());
    let width = if ty == Scalar::I32 { 32 } else { 64 };
    let amount = || {
        assert!((0..width).contains(&b), "a shift by {b} of {width} bits");
        b as u32
    };
    Value::Int(wrap(
        ty,
        match op {
            Binary::Add => a.wrapping_add(b),
            Binary::Subtract => a.wrapping_sub(b),
            Binary::Multiply => a.wrapping_mul(b),
            Binary::Divide => wrap(ty, a).wrapping_div(b),
            Binary::Remainder => a.wrapping_rem(b),
            Binary::Minimum => a.min(b),
            Binary::Maximum => a.max(b),
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::ShiftLeft => a.wrapping_shl(amount()),
            Binary::ShiftRight => a >> amount(),
            Binary::ShiftRightUnsigned if width == 32 => i64::from((a as u32) >> amount()),
            Binary::ShiftRightUnsigned => ((a as u64) >> amount()) as i64,
        },
    ))
}
