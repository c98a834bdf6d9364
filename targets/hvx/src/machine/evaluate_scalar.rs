//! The meaning of scalar instructions.

use super::error::MachineError;
use super::evaluate::Step;
use super::instructions::Opcode;
use super::registers::Class;
use super::table::{Effect, Role};

/// NaN that arithmetic gives.
const DEFAULT_NAN: u32 = 0xffff_ffff;

/// Executes a scalar instruction; false if it is none.
pub(crate) fn execute(step: &mut Step<'_>) -> Result<bool, MachineError> {
    use Opcode::*;
    let row = step.opcode().row();
    if row.form.contains("mem") && !row.form.contains("vmem") {
        memory(step)?;
        return Ok(true);
    }
    if let Some(result) = wide(step)? {
        match result {
            Wide::Double(d) => step.write_double(0, d),
            Wide::Word(w) => step.write_word(0, w),
            Wide::Flag(f) => step.write_word(0, if f { 0xff } else { 0 }),
        }
        return Ok(true);
    }
    if let Some(word) = float(step)? {
        step.write_word(0, word);
        return Ok(true);
    }
    let w = |i: usize| step.word(i);
    let s = |i: usize| step.word(i).map(u32::cast_signed);
    let clamp = |x: i64, low: i64, high: i64| x.clamp(low, high) as u32;
    let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
    let result: u32 = match step.opcode() {
        Move | Constant | AddressOf | ModifierFromR | ModifierToR => w(1)?,
        Add | AddImmediate => w(1)?.wrapping_add(w(2)?),
        AddSaturate => clamp(i64::from(s(1)?) + i64::from(s(2)?), least, most),
        Sub | SubFromImmediate => w(1)?.wrapping_sub(w(2)?),
        SubSaturate => clamp(i64::from(s(1)?) - i64::from(s(2)?), least, most),
        And | AndImmediate => w(1)? & w(2)?,
        Or | OrImmediate => w(1)? | w(2)?,
        Xor => w(1)? ^ w(2)?,
        SignExtendB => i32::from(w(1)? as i8).cast_unsigned(),
        SignExtendH => i32::from(w(1)? as i16).cast_unsigned(),
        ZeroExtendB => w(1)? & 0xff,
        ZeroExtendH => w(1)? & 0xffff,
        ShiftLeft => shift(i64::from(w(1)?), w(2)?, false, true) as u32,
        ArithmeticLeft => shift(i64::from(s(1)?), w(2)?, false, false) as u32,
        ArithmeticRight => shift(i64::from(s(1)?), w(2)?, true, false) as u32,
        LogicalRight => shift(i64::from(w(1)?), w(2)?, true, true) as u32,
        ShiftLeftImmediate => w(1)? << w(2)?,
        ArithmeticRightImmediate => (s(1)? >> w(2)?).cast_unsigned(),
        LogicalRightImmediate => w(1)? >> w(2)?,
        AddShifted => w(1)?.wrapping_add(w(2)? << w(3)?),
        Max => s(1)?.max(s(2)?).cast_unsigned(),
        MaxU => w(1)?.max(w(2)?),
        Min => s(1)?.min(s(2)?).cast_unsigned(),
        MinU => w(1)?.min(w(2)?),
        Abs => s(1)?.wrapping_abs().cast_unsigned(),
        CountLeadingZeros => w(1)?.leading_zeros(),
        CountLeadingBits => w(1)?.leading_zeros().max(w(1)?.leading_ones()),
        CountTrailingZeros => w(1)?.trailing_zeros(),
        SaturateB => clamp(i64::from(s(1)?), -128, 127),
        SaturateUb => clamp(i64::from(s(1)?), 0, 255),
        SaturateH => clamp(i64::from(s(1)?), -32768, 32767),
        SaturateD => clamp(step.double(1).cast_signed(), least, most),
        SplatB => (w(1)? & 0xff) * 0x0101_0101,
        ExtractBits => (w(1)? >> w(3)?) & mask(w(2)?),
        InsertBits => {
            let (bits, offset) = (mask(w(2)?), w(3)?);
            let field = u64::from(bits) << offset;
            ((u64::from(w(0)?) & !field) | (u64::from(w(1)? & bits) << offset)) as u32
        }
        Multiply | MultiplyImmediate => w(1)?.wrapping_mul(w(2)?),
        MultiplyAccumulate => w(0)?.wrapping_add(w(1)?.wrapping_mul(w(2)?)),
        MultiplyHigh => ((i64::from(s(1)?) * i64::from(s(2)?)) >> 32) as u32,
        MultiplyHighU => ((u64::from(w(1)?) * u64::from(w(2)?)) >> 32) as u32,
        CountLeadingZerosD => step.double(1).leading_zeros(),
        CountLeadingBitsD => step.double(1).leading_zeros().max(step.double(1).leading_ones()),
        PredicateAnd => w(1)? & w(2)?,
        PredicateOr => w(1)? | w(2)?,
        PredicateXor => w(1)? ^ w(2)?,
        PredicateNot => !w(1)? & 0xff,
        PredicateToR | PredicateFromR => w(1)? & 0xff,
        Mux | MuxImmediate | MuxImmediateR | MuxRImmediate => {
            w(if step.predicate(1) & 1 == 1 { 2 } else { 3 })?
        }
        MoveIf | MoveIfNot => match (step.predicate(1) & 1 == 1) == (step.opcode() == MoveIf) {
            true => w(2)?,
            false => w(0)?,
        },
        AddIf | AddIfNot => match (step.predicate(1) & 1 == 1) == (step.opcode() == AddIf) {
            true => w(2)?.wrapping_add(w(3)?),
            false => w(0)?,
        },
        _ => return Ok(false),
    };
    step.write_word(0, result);
    Ok(true)
}

fn mask(width: u32) -> u32 {
    ((1u64 << width) - 1) as u32
}

/// Shifts by the low seven bits, signed; a negative number shifts the other way.
fn shift(value: i64, by: u32, right: bool, logical: bool) -> i64 {
    let amount = i32::from((by << 1) as i8 >> 1);
    let amount = if right { -amount } else { amount };
    if amount >= 0 {
        value.checked_shl(amount.cast_unsigned()).unwrap_or(0)
    } else if logical {
        value.cast_unsigned().checked_shr(amount.unsigned_abs()).unwrap_or(0).cast_signed()
    } else {
        value >> amount.unsigned_abs().min(63)
    }
}

enum Wide {
    Double(u64),
    Word(u32),
    Flag(bool),
}

/// Pairs and comparisons.
fn wide(step: &Step<'_>) -> Result<Option<Wide>, MachineError> {
    use Opcode::*;
    use Wide::{Double, Flag, Word};
    let w = |i: usize| step.word(i);
    let s = |i: usize| step.word(i).map(|x| i64::from(x.cast_signed()));
    let d = |i: usize| step.double(i);
    let long = |i: usize| step.double(i).cast_signed();
    Ok(Some(match step.opcode() {
        Combine | CombineImmediate => Double(u64::from(w(1)?) << 32 | u64::from(w(2)?)),
        SignExtendW => Double(s(1)?.cast_unsigned()),
        AddD => Double(d(1).wrapping_add(d(2))),
        SubD => Double(d(1).wrapping_sub(d(2))),
        NegD => Double(d(1).wrapping_neg()),
        AbsD => Double(long(1).wrapping_abs().cast_unsigned()),
        AndD => Double(d(1) & d(2)),
        OrD => Double(d(1) | d(2)),
        XorD => Double(d(1) ^ d(2)),
        NotD => Double(!d(1)),
        MaxD => Double(long(1).max(long(2)).cast_unsigned()),
        MinD => Double(long(1).min(long(2)).cast_unsigned()),
        ShiftLeftD => Double(shift(long(1), w(2)?, false, true).cast_unsigned()),
        ArithmeticLeftD => Double(shift(long(1), w(2)?, false, false).cast_unsigned()),
        ArithmeticRightD => Double(shift(long(1), w(2)?, true, false).cast_unsigned()),
        LogicalRightD => Double(shift(long(1), w(2)?, true, true).cast_unsigned()),
        ShiftLeftDImmediate => Double(d(1) << w(2)?),
        ArithmeticRightDImmediate => Double((long(1) >> w(2)?).cast_unsigned()),
        LogicalRightDImmediate => Double(d(1) >> w(2)?),
        MultiplyD => Double((s(1)? * s(2)?).cast_unsigned()),
        MultiplyDU => Double(u64::from(w(1)?) * u64::from(w(2)?)),
        MultiplyDAccumulate => Double(d(0).wrapping_add((s(1)? * s(2)?).cast_unsigned())),
        MultiplyDUAccumulate => Double(d(0).wrapping_add(u64::from(w(1)?) * u64::from(w(2)?))),
        CompareEq | CompareEqImmediate => Flag(w(1)? == w(2)?),
        CompareGt | CompareGtImmediate => Flag(s(1)? > s(2)?),
        CompareGtU | CompareGtUImmediate => Flag(w(1)? > w(2)?),
        CompareEqD => Flag(d(1) == d(2)),
        CompareGtD => Flag(long(1) > long(2)),
        CompareGtUD => Flag(d(1) > d(2)),
        TestBit => Flag(w(1)? >> w(2)? & 1 == 1),
        FloatCompareEq => Flag(f32::from_bits(w(1)?) == f32::from_bits(w(2)?)),
        FloatCompareGt => Flag(f32::from_bits(w(1)?) > f32::from_bits(w(2)?)),
        FloatCompareGe => Flag(f32::from_bits(w(1)?) >= f32::from_bits(w(2)?)),
        FloatCompareUnordered => {
            Flag(f32::from_bits(w(1)?).is_nan() || f32::from_bits(w(2)?).is_nan())
        }
        FloatToD | FloatToDChop => {
            let x = f32::from_bits(w(1)?);
            let x = if step.opcode() == FloatToD { x.round_ties_even() } else { x };
            Double(if x.is_nan() { u64::MAX } else { (x as i64).cast_unsigned() })
        }
        FloatToW | FloatToWChop => {
            let x = f32::from_bits(w(1)?);
            let x = if step.opcode() == FloatToW { x.round_ties_even() } else { x };
            Word(if x.is_nan() { u32::MAX } else { (x as i32).cast_unsigned() })
        }
        FloatToUw | FloatToUwChop => {
            let x = f32::from_bits(w(1)?);
            let x = if step.opcode() == FloatToUw { x.round_ties_even() } else { x };
            Word(if x.is_nan() { u32::MAX } else { x as u32 })
        }
        _ => return Ok(None),
    }))
}

/// Binary32 arithmetic.
fn float(step: &Step<'_>) -> Result<Option<u32>, MachineError> {
    use Opcode::*;
    let f = |i: usize| step.word(i).map(f32::from_bits);
    let result = match step.opcode() {
        FloatAdd => f(1)? + f(2)?,
        FloatSub => f(1)? - f(2)?,
        FloatMultiply => f(1)? * f(2)?,
        FloatMultiplyAdd => f(1)?.mul_add(f(2)?, f(0)?),
        FloatMultiplySub => (-f(1)?).mul_add(f(2)?, f(0)?),
        FloatMax => extreme(f(1)?, f(2)?, true),
        FloatMin => extreme(f(1)?, f(2)?, false),
        FloatFromW => step.word(1)?.cast_signed() as f32,
        FloatFromUw => step.word(1)? as f32,
        FloatFromD => step.double(1).cast_signed() as f32,
        FloatFromUd => step.double(1) as f32,
        _ => return Ok(None),
    };
    Ok(Some(if result.is_nan() { DEFAULT_NAN } else { result.to_bits() }))
}

/// The larger or smaller number; a number wins over NaN, +0 is larger than -0.
fn extreme(a: f32, b: f32, larger: bool) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => {
            let first = a.total_cmp(&b).is_gt();
            if first == larger { a } else { b }
        }
    }
}

/// Loads and stores.
fn memory(step: &mut Step<'_>) -> Result<(), MachineError> {
    let row = step.opcode().row();
    let form = row.form;
    let conditional = form.starts_with("if (");
    // Index of the first address operand.
    let address = match row.effect() {
        Effect::Store => usize::from(conditional),
        _ => 1 + usize::from(conditional),
    };
    let base = step.word(address)?;
    let second = step.word(address + 1)?;
    let (at, next) = if row.fields[address].role == Role::Update {
        (base, Some(base.wrapping_add(second)))
    } else if form.contains("<<") {
        (base.wrapping_add(second << step.word(address + 2)?), None)
    } else {
        (base.wrapping_add(second), None)
    };
    let runs = !conditional || step.predicate(address - 1) & 1 == 1;
    let width = match () {
        () if form.contains("memd") => 8,
        () if form.contains("memw") => 4,
        () if form.contains("memh") || form.contains("memuh") => 2,
        () => 1,
    };
    if runs && row.effect() == Effect::Store {
        let last = row.fields.len() - 1;
        let bytes = match step.class(last) {
            Some(Class::RR) => step.double(last),
            _ => u64::from(step.word(last)?),
        };
        step.store(at, &bytes.to_le_bytes()[..width])?;
    } else if runs {
        let mut bytes = [0u8; 8];
        bytes[..width].copy_from_slice(step.load(at, width)?);
        let value = u64::from_le_bytes(bytes);
        match width {
            8 => step.write_double(0, value),
            1 if form.contains("memb") => {
                step.write_word(0, i32::from(value as i8).cast_unsigned());
            }
            2 if form.contains("memh") => {
                step.write_word(0, i32::from(value as i16).cast_unsigned());
            }
            _ => step.write_word(0, value as u32),
        }
    } else if row.effect() == Effect::Load {
        let old = step.word(0)?;
        step.write_word(0, old);
    }
    if let Some(next) = next {
        step.write_word(address, next);
    }
    Ok(())
}
