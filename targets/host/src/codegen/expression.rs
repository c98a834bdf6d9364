//! Scalar expressions.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use trainc_ir::Element;
use trainc_ir::loops::{Binary, Buffer, Comparison, Expr, Node, Scalar, Unary};
use trainc_loops::{Linear, may_compute_both};

use super::loop_kernel::Emitter;

/// The register type of a scalar. A truth value is 0 or 1.
pub(super) fn register(scalar: Scalar) -> Type {
    match scalar {
        Scalar::I32 => types::I32,
        Scalar::I64 => types::I64,
        Scalar::F32 => types::F32,
        Scalar::Bool => types::I8,
    }
}

/// Log2 of the bytes of an element as loop kernels keep it (at least one).
pub(super) fn element_shift(element: Element) -> i64 {
    match element.bits() {
        32 => 2,
        16 => 1,
        _ => 0,
    }
}

impl Emitter<'_, '_> {
    pub(super) fn integer(&mut self, ty: Scalar, value: i64) -> Value {
        // Immediates narrower than 64 bits are zero-extended.
        let bits = match ty {
            Scalar::I32 => i64::from(value as u32),
            Scalar::Bool => i64::from(value != 0),
            Scalar::I64 | Scalar::F32 => value,
        };
        self.builder.ins().iconst(register(ty), bits)
    }

    pub(super) fn value(&mut self, expr: &Expr) -> Value {
        match &*expr.node {
            Node::Integer(value) => self.integer(expr.ty, *value),
            Node::Float(value) => self.builder.ins().f32const(value.get()),
            Node::Local(local) => {
                let variable = self.locals[local.0 as usize];
                self.builder.use_var(variable)
            }
            Node::Load(buffer, index) => self.load(*buffer, index),
            Node::Unary(op, x) => self.unary(*op, x),
            Node::Binary(op, a, b) => self.binary(*op, a, b),
            Node::Compare(comparison, a, b) => self.compare(*comparison, a, b),
            Node::Select(condition, a, b) => self.select(condition, a, b),
        }
    }

    /// Address of an element, and a constant offset from it.
    pub(super) fn address(&mut self, buffer: Buffer, index: &Expr) -> (Value, i32) {
        let shift = element_shift(self.kernel.buffers[buffer.0 as usize].element);
        let linear = Linear::of(index);
        // The terms of the outer loops leave the inner ones, and the innermost fits the processor's addressing mode.
        let mut terms: Vec<(usize, i64, &Expr)> = linear
            .terms
            .iter()
            .map(|(factor, e)| (self.depth_of(e), factor.wrapping_shl(shift as u32), e))
            .collect();
        terms.sort_by_key(|(depth, ..)| *depth);
        let mut address = self.pointers[buffer.0 as usize];
        let constant = linear.constant.wrapping_shl(shift as u32);
        let offset = match i32::try_from(constant) {
            Ok(offset) => offset,
            Err(_) => {
                address = self.builder.ins().iadd_imm_s(address, constant);
                0
            }
        };
        for (_, factor, e) in terms {
            let value = self.value(e);
            let scaled = match factor {
                0 => continue,
                1 => value,
                f if f > 0 && f.count_ones() == 1 => {
                    self.builder.ins().ishl_imm_u(value, i64::from(f.trailing_zeros()))
                }
                f => self.builder.ins().imul_imm_s(value, f),
            };
            address = self.builder.ins().iadd(address, scaled);
        }
        (address, offset)
    }

    /// Flags of a load: what is read-only and not behind a condition may be moved out of loops.
    pub(super) fn load_flags(&self, buffer: Buffer, index: &Expr) -> MemFlagsData {
        let flags = MemFlagsData::new().with_notrap();
        // A load behind a condition may be out of bounds when the condition does not hold.
        let always_in_bounds = self.guards == 0 || self.intervals.in_bounds(buffer, index);
        if self.readonly[buffer.0 as usize] && always_in_bounds {
            flags.with_readonly().with_can_move()
        } else {
            flags
        }
    }

    fn load(&mut self, buffer: Buffer, index: &Expr) -> Value {
        let (address, offset) = self.address(buffer, index);
        let flags = self.load_flags(buffer, index);
        let element = self.kernel.buffers[buffer.0 as usize].element;
        let ins = self.builder.ins();
        match element {
            Element::F32 => ins.load(types::F32, flags, address, offset),
            Element::I32 | Element::U32 => ins.load(types::I32, flags, address, offset),
            Element::I16 => ins.sload16(types::I32, flags, address, offset),
            Element::U16 => ins.uload16(types::I32, flags, address, offset),
            Element::I2 | Element::I4 | Element::I8 => {
                ins.sload8(types::I32, flags, address, offset)
            }
            Element::B1 | Element::U2 | Element::U4 | Element::U8 => {
                ins.uload8(types::I32, flags, address, offset)
            }
        }
    }

    pub(super) fn store(&mut self, buffer: Buffer, index: &Expr, value: &Expr) {
        let mut stored = self.value(value);
        if value.ty == Scalar::Bool {
            stored = self.builder.ins().uextend(types::I32, stored);
        }
        let (address, offset) = self.address(buffer, index);
        let flags = MemFlagsData::new().with_notrap();
        let ins = self.builder.ins();
        match element_shift(self.kernel.buffers[buffer.0 as usize].element) {
            2 => ins.store(flags, stored, address, offset),
            1 => ins.istore16(flags, stored, address, offset),
            _ => ins.istore8(flags, stored, address, offset),
        };
    }

    fn unary(&mut self, op: Unary, operand: &Expr) -> Value {
        let x = self.value(operand);
        let float = operand.ty == Scalar::F32;
        let ins = self.builder.ins();
        match op {
            Unary::Negate if float => ins.fneg(x),
            Unary::Negate => ins.ineg(x),
            Unary::FloatAbs => ins.fabs(x),
            Unary::Sqrt => ins.sqrt(x),
            Unary::RoundTiesEven => ins.nearest(x),
            Unary::Floor => ins.floor(x),
            Unary::Ceil => ins.ceil(x),
            Unary::LeadingZeros => ins.clz(x),
            Unary::Extend => ins.sextend(types::I64, x),
            Unary::ExtendUnsigned => ins.uextend(types::I64, x),
            Unary::Truncate => ins.ireduce(types::I32, x),
            Unary::ToFloat => ins.fcvt_from_sint(types::F32, x),
            Unary::ToInteger => ins.fcvt_to_sint_sat(types::I32, x),
            Unary::ToBits => ins.bitcast(types::I32, MemFlagsData::new(), x),
            Unary::FromBits => ins.bitcast(types::F32, MemFlagsData::new(), x),
            Unary::Not => ins.bxor_imm_u(x, 1),
            Unary::BoolToInteger => ins.uextend(types::I32, x),
        }
    }

    fn binary(&mut self, op: Binary, left: &Expr, right: &Expr) -> Value {
        let a = self.value(left);
        let b = self.value(right);
        if left.ty == Scalar::F32 {
            let ins = self.builder.ins();
            return match op {
                Binary::Add => ins.fadd(a, b),
                Binary::Subtract => ins.fsub(a, b),
                Binary::Multiply => ins.fmul(a, b),
                Binary::Divide => ins.fdiv(a, b),
                Binary::Minimum => {
                    let less = ins.fcmp(FloatCC::LessThan, a, b);
                    self.builder.ins().select(less, a, b)
                }
                Binary::Maximum => {
                    let less = ins.fcmp(FloatCC::LessThan, b, a);
                    self.builder.ins().select(less, a, b)
                }
                _ => unreachable!("{op:?} of floats: a bug of the lowering"),
            };
        }
        if let Binary::Divide | Binary::Remainder = op {
            return self.division(op, left.ty, a, b, right.as_constant());
        }
        let ins = self.builder.ins();
        match op {
            Binary::Add => ins.iadd(a, b),
            Binary::Subtract => ins.isub(a, b),
            Binary::Multiply => ins.imul(a, b),
            Binary::Minimum => ins.smin(a, b),
            Binary::Maximum => ins.smax(a, b),
            Binary::And => ins.band(a, b),
            Binary::Or => ins.bor(a, b),
            Binary::Xor => ins.bxor(a, b),
            Binary::ShiftLeft => ins.ishl(a, b),
            Binary::ShiftRight => ins.sshr(a, b),
            Binary::ShiftRightUnsigned => ins.ushr(a, b),
            Binary::Divide | Binary::Remainder => unreachable!("done above"),
        }
    }

    /// Division toward zero that never traps: the processor faults on a divisor of 0 (which may be computed on the
    /// side of a select that is not taken) and on the smallest integer by -1 (which wraps).
    fn division(
        &mut self,
        op: Binary,
        ty: Scalar,
        a: Value,
        b: Value,
        constant: Option<i64>,
    ) -> Value {
        let quotient = op == Binary::Divide;
        if !matches!(constant, None | Some(0 | -1)) {
            let ins = self.builder.ins();
            return if quotient { ins.sdiv(a, b) } else { ins.srem(a, b) };
        }
        let ty = register(ty);
        let one = self.builder.ins().iconst(ty, 1);
        let zero = self.builder.ins().iconst(ty, 0);
        let is_zero = self.builder.ins().icmp(IntCC::Equal, b, zero);
        let all_ones = self.builder.ins().isub(zero, one);
        let is_minus_one = self.builder.ins().icmp(IntCC::Equal, b, all_ones);
        let special = self.builder.ins().bor(is_zero, is_minus_one);
        let divisor = self.builder.ins().select(special, one, b);
        if quotient {
            let plain = self.builder.ins().sdiv(a, divisor);
            let negated = self.builder.ins().isub(zero, a);
            self.builder.ins().select(is_minus_one, negated, plain)
        } else {
            // The remainder by 1 is the remainder by -1: 0.
            self.builder.ins().srem(a, divisor)
        }
    }

    fn compare(&mut self, comparison: Comparison, left: &Expr, right: &Expr) -> Value {
        let a = self.value(left);
        let b = self.value(right);
        let ins = self.builder.ins();
        if left.ty == Scalar::F32 {
            let code = match comparison {
                Comparison::Equal => FloatCC::Equal,
                Comparison::NotEqual => FloatCC::NotEqual,
                Comparison::Less => FloatCC::LessThan,
                Comparison::LessEqual => FloatCC::LessThanOrEqual,
                Comparison::LessUnsigned => {
                    unreachable!("an unsigned comparison of floats: a bug of the lowering")
                }
            };
            return ins.fcmp(code, a, b);
        }
        ins.icmp(integer_condition(comparison), a, b)
    }

    /// Whether both sides of a select may be computed.
    pub(super) fn may_select(&self, condition: &Expr, then: &Expr, otherwise: &Expr) -> bool {
        let in_bounds = |buffer, index: &Expr| self.intervals.in_bounds(buffer, index);
        may_compute_both(&[condition], [then, otherwise], &in_bounds)
    }

    fn select(&mut self, condition: &Expr, then: &Expr, otherwise: &Expr) -> Value {
        if self.may_select(condition, then, otherwise) {
            let c = self.value(condition);
            let a = self.value(then);
            let b = self.value(otherwise);
            return self.builder.ins().select(c, a, b);
        }
        // A side loads what the condition may protect from being out of bounds: take one side only.
        let c = self.value(condition);
        let [yes, no, done] = [(); 3].map(|()| self.builder.create_block());
        self.builder.append_block_param(done, register(then.ty));
        self.builder.ins().brif(c, yes, &[], no, &[]);
        self.guards += 1;
        for (block, side) in [(yes, then), (no, otherwise)] {
            self.builder.seal_block(block);
            self.builder.switch_to_block(block);
            let value = self.value(side);
            self.builder.ins().jump(done, &[value.into()]);
        }
        self.guards -= 1;
        self.builder.seal_block(done);
        self.builder.switch_to_block(done);
        self.builder.block_params(done)[0]
    }
}

pub(super) fn integer_condition(comparison: Comparison) -> IntCC {
    match comparison {
        Comparison::Equal => IntCC::Equal,
        Comparison::NotEqual => IntCC::NotEqual,
        Comparison::Less => IntCC::SignedLessThan,
        Comparison::LessEqual => IntCC::SignedLessThanOrEqual,
        Comparison::LessUnsigned => IntCC::UnsignedLessThan,
    }
}
