//! The meaning of HVX instructions.

use super::error::MachineError;
use super::evaluate::{Step, VECTOR, Value, scalar};
use super::instructions::Opcode;
use super::lanes::{B, H, Lane, UB, UH, UW, W, get, map, narrow, put, saturate, widen, zip};
use super::table::{Effect, Role};

/// Executes a vector instruction; false if it is none.
pub(crate) fn execute(step: &mut Step<'_>) -> Result<bool, MachineError> {
    if step.opcode().row().form.contains("vmem") {
        memory(step)?;
        return Ok(true);
    }
    if let Some(value) = single(step)? {
        step.write(0, value);
        return Ok(true);
    }
    if let Some((low, high)) = pair(step)? {
        step.write_pair(0, low, high);
        return Ok(true);
    }
    Ok(false)
}

/// Vector loads and stores; aligned ones drop the low bits of the address.
fn memory(step: &mut Step<'_>) -> Result<(), MachineError> {
    let row = step.opcode().row();
    let conditional = row.form.starts_with("if (");
    let store = row.effect() == Effect::Store;
    let address = if store { usize::from(conditional) } else { 1 };
    let base = step.word(address)?;
    let second = step.word(address + 1)?;
    let modifier =
        row.form.contains("++") && step.class(address + 1) == Some(super::registers::Class::M);
    let offset = if modifier { second } else { second.wrapping_mul(VECTOR as u32) };
    let moved = base.wrapping_add(offset);
    let updates = row.fields[address].role == Role::Update;
    let at = if updates { base } else { moved };
    let at = if row.form.contains("vmemu") { at } else { at & !127 };
    if store {
        let value = step.value(row.fields.len() - 1);
        match step.opcode() {
            Opcode::StoreVIf => {
                if step.predicate(0) & 1 == 1 {
                    step.store(at, &value)?;
                }
            }
            Opcode::StoreVIfQ
            | Opcode::StoreVIfNotQ
            | Opcode::StoreVIfQNext
            | Opcode::StoreVIfNotQNext
            | Opcode::StoreVIfQStep => {
                let wanted = u8::from(!row.form.contains('!'));
                let lanes = step.value(0);
                step.load(at, VECTOR)?;
                for (i, byte) in value.iter().enumerate() {
                    if lanes[i] == wanted {
                        step.store(at + i as u32, &[*byte])?;
                    }
                }
            }
            _ => step.store(at, &value)?,
        }
    } else {
        let mut value = [0; VECTOR];
        value.copy_from_slice(step.load(at, VECTOR)?);
        step.write(0, value);
    }
    if updates {
        step.write_word(address, moved);
    }
    Ok(())
}

/// Instructions with one vector, vector predicate or scalar as result.
fn single(step: &Step<'_>) -> Result<Option<Value>, MachineError> {
    if let Some(value) = arithmetic(step).or_else(|| permute(step)) {
        return Ok(Some(value));
    }
    if let Some(value) = by_scalar(step)? {
        return Ok(Some(value));
    }
    Ok(multiply(step))
}

fn arithmetic(step: &Step<'_>) -> Option<Value> {
    use Opcode::*;
    let v = |i: usize| step.value(i);
    let two = |lane: Lane, f: fn(i64, i64) -> i64| zip(lane, &v(1), &v(2), f);
    let saturated = |lane: Lane, f: fn(i64, i64) -> i64| {
        zip(lane, &v(1), &v(2), |a, b| saturate(lane, f(a, b)))
    };
    let add = |a: i64, b: i64| a + b;
    let sub = |a: i64, b: i64| a - b;
    let compare = |lane: Lane, f: fn(i64, i64) -> bool| {
        let all = zip(lane, &v(1), &v(2), |a, b| if f(a, b) { -1 } else { 0 });
        all.map(|byte| byte & 1)
    };
    let masked = |lane: Lane, when: u8, sign: i64| {
        let (old, q) = (v(0), v(1));
        let new = zip(lane, &old, &v(2), |a, b| a + sign * b);
        std::array::from_fn(|i| if q[i] == when { new[i] } else { old[i] })
    };
    Some(match step.opcode() {
        Vassign => v(1),
        VaddB => two(B, add),
        VaddH => two(H, add),
        VaddW => two(W, add),
        VaddBSaturate => saturated(B, add),
        VaddUbSaturate => saturated(UB, add),
        VaddHSaturate => saturated(H, add),
        VaddUhSaturate => saturated(UH, add),
        VaddWSaturate => saturated(W, add),
        VsubB => two(B, sub),
        VsubH => two(H, sub),
        VsubW => two(W, sub),
        VsubBSaturate => saturated(B, sub),
        VsubUbSaturate => saturated(UB, sub),
        VsubHSaturate => saturated(H, sub),
        VsubWSaturate => saturated(W, sub),
        VavgUb => two(UB, |a, b| (a + b) >> 1),
        VavgUbRound => two(UB, |a, b| (a + b + 1) >> 1),
        VavgH => two(H, |a, b| (a + b) >> 1),
        VavgW => two(W, |a, b| (a + b) >> 1),
        VavgWRound => two(W, |a, b| (a + b + 1) >> 1),
        VmaxB => two(B, i64::max),
        VmaxUb => two(UB, i64::max),
        VmaxH => two(H, i64::max),
        VmaxUh => two(UH, i64::max),
        VmaxW => two(W, i64::max),
        VminB => two(B, i64::min),
        VminUb => two(UB, i64::min),
        VminH => two(H, i64::min),
        VminUh => two(UH, i64::min),
        VminW => two(W, i64::min),
        VabsB => map(B, &v(1), i64::abs),
        VabsH => map(H, &v(1), i64::abs),
        VabsW => map(W, &v(1), i64::abs),
        VabsHSaturate => map(H, &v(1), |a| saturate(H, a.abs())),
        VabsWSaturate => map(W, &v(1), |a| saturate(W, a.abs())),
        VabsDiffUb => two(UB, |a, b| (a - b).abs()),
        Vand => two(UB, |a, b| a & b),
        Vor => two(UB, |a, b| a | b),
        Vxor => two(UB, |a, b| a ^ b),
        Vnot => map(UB, &v(1), |a| !a),
        VcompareEqB => compare(B, |a, b| a == b),
        VcompareEqH => compare(H, |a, b| a == b),
        VcompareEqW => compare(W, |a, b| a == b),
        VcompareGtB => compare(B, |a, b| a > b),
        VcompareGtUb => compare(UB, |a, b| a > b),
        VcompareGtH => compare(H, |a, b| a > b),
        VcompareGtUh => compare(UH, |a, b| a > b),
        VcompareGtW => compare(W, |a, b| a > b),
        VcompareGtUw => compare(UW, |a, b| a > b),
        QAnd => two(UB, |a, b| a & b),
        QOr => two(UB, |a, b| a | b),
        QXor => two(UB, |a, b| a ^ b),
        QNot => map(UB, &v(1), |a| a ^ 1),
        Vmux => {
            let (q, yes, no) = (v(1), v(2), v(3));
            std::array::from_fn(|i| if q[i] == 1 { yes[i] } else { no[i] })
        }
        VaddWIfQ => masked(W, 1, 1),
        VaddWIfNotQ => masked(W, 0, 1),
        VsubWIfQ => masked(W, 1, -1),
        VaddHIfQ => masked(H, 1, 1),
        VaddBIfQ => masked(B, 1, 1),
        VaslHv => two(H, |a, b| shift(H, a, -signed_bits(b, 5))),
        VaslWv => two(W, |a, b| shift(W, a, -signed_bits(b, 6))),
        VasrHv => two(H, |a, b| shift(H, a, signed_bits(b, 5))),
        VasrWv => two(W, |a, b| shift(W, a, signed_bits(b, 6))),
        VlsrHv => two(UH, |a, b| shift(UH, a, signed_bits(b, 5))),
        VlsrWv => two(UW, |a, b| shift(UW, a, signed_bits(b, 6))),
        VcountZerosH => map(UH, &v(1), |a| i64::from((a as u16).leading_zeros())),
        VcountZerosW => map(UW, &v(1), |a| i64::from((a as u32).leading_zeros())),
        VnormAmountW => map(W, &v(1), |a| {
            i64::from((a as u32).leading_zeros().max((a as u32).leading_ones()) - 1)
        }),
        VpopCountH => map(UH, &v(1), |a| i64::from((a as u16).count_ones())),
        _ => return None,
    })
}

/// The low bits as a signed number.
fn signed_bits(number: i64, bits: u32) -> i64 {
    number << (64 - bits) >> (64 - bits)
}

/// Shift right; left if negative.
fn shift(lane: Lane, value: i64, by: i64) -> i64 {
    if by >= 0 { value >> by } else { lane.wrap(value << -by) }
}

fn permute(step: &Step<'_>) -> Option<Value> {
    use Opcode::*;
    let v = |i: usize| step.value(i);
    let (a, b) = (v(1), v(2));
    // Bytes of elements: element `size` bytes from each source by the rule (source, index).
    let gather = |size: usize, rule: &dyn Fn(usize) -> (usize, usize)| -> Value {
        std::array::from_fn(|i| {
            let (source, element) = rule(i / size);
            [a, b][source][element * size + i % size]
        })
    };
    let half = |size: usize| VECTOR / size / 2;
    let number = |operand: usize| step.word(operand).unwrap_or(0) as usize;
    let window = |start: usize| -> Value {
        std::array::from_fn(
            |i| if i + start >= VECTOR { a[i + start - VECTOR] } else { b[i + start] },
        )
    };
    // Packing: the low half from the second source.
    let pack = |from: Lane, to: Lane, f: &dyn Fn(i64) -> i64| -> Value {
        let mut out = [0; VECTOR];
        for i in 0..from.count() {
            put(to, &mut out, i, f(get(from, &b, i)));
            put(to, &mut out, i + from.count(), f(get(from, &a, i)));
        }
        out
    };
    Some(match step.opcode() {
        VshuffB => gather(1, &|i| (0, i / 2 + i % 2 * half(1))),
        VshuffH => gather(2, &|i| (0, i / 2 + i % 2 * half(2))),
        VdealB => gather(1, &|i| (0, i % half(1) * 2 + i / half(1))),
        VdealH => gather(2, &|i| (0, i % half(2) * 2 + i / half(2))),
        VdealBW => gather(1, &|i| (1 - i / 64, i % 32 * 4 + i / 32 % 2 * 2)),
        VshuffeB => gather(1, &|i| (1 - i % 2, i & !1)),
        VshuffoB => gather(1, &|i| (1 - i % 2, i | 1)),
        VshuffeH => gather(2, &|i| (1 - i % 2, i & !1)),
        VshuffoH => gather(2, &|i| (1 - i % 2, i | 1)),
        Valign => window(number(3) % VECTOR),
        ValignImmediate => window(number(3)),
        Vlalign => window(VECTOR - number(3) % VECTOR),
        VlalignImmediate => window(VECTOR - number(3)),
        Vror => std::array::from_fn(|i| a[(i + number(2)) % VECTOR]),
        Vdelta | Vrdelta => {
            let mut steps: Vec<usize> = (0..7).map(|bit| 1 << bit).collect();
            if step.opcode() == Vdelta {
                steps.reverse();
            }
            let mut now = a;
            for offset in steps {
                let before = now;
                now = std::array::from_fn(|k| {
                    before[if usize::from(b[k]) & offset != 0 { k ^ offset } else { k }]
                });
            }
            now
        }
        Vlut32 | Vlut32Or => {
            let (wanted, odd) = (number(3) & 7, number(3) >> 1 & 1);
            let old = if step.opcode() == Vlut32Or { v(0) } else { [0; VECTOR] };
            std::array::from_fn(|i| {
                let index = usize::from(a[i]);
                let found = if index >> 5 == wanted { b[index % 64 * 2 + odd] } else { 0 };
                old[i] | found
            })
        }
        VpackeB => pack(H, B, &|x| x),
        VpackeH => pack(W, H, &|x| x),
        VpackoB => pack(H, B, &|x| x >> 8),
        VpackoH => pack(W, H, &|x| x >> 16),
        VpackHBSaturate => pack(H, B, &|x| saturate(B, x)),
        VpackHUbSaturate => pack(H, UB, &|x| saturate(UB, x)),
        VpackWHSaturate => pack(W, H, &|x| saturate(H, x)),
        VpackWUhSaturate => pack(W, UH, &|x| saturate(UH, x)),
        VroundWH => narrow(W, H, &a, &b, |x| saturate(H, (x + 0x8000) >> 16)),
        VroundHB => narrow(H, B, &a, &b, |x| saturate(B, (x + 0x80) >> 8)),
        VroundHUb => narrow(H, UB, &a, &b, |x| saturate(UB, (x + 0x80) >> 8)),
        VsatWH => narrow(W, H, &a, &b, |x| saturate(H, x)),
        VsatHUb => narrow(H, UB, &a, &b, |x| saturate(UB, x)),
        _ => return None,
    })
}

/// Instructions whose second or third operand is a scalar.
fn by_scalar(step: &Step<'_>) -> Result<Option<Value>, MachineError> {
    use Opcode::*;
    let v = |i: usize| step.value(i);
    let shifted = |from: Lane, to: Lane, round: bool, keep: bool| -> Result<Value, MachineError> {
        let by = step.word(3)? & if from.bytes == 4 { 15 } else { 7 };
        let half = if round && by > 0 { 1i64 << (by - 1) } else { 0 };
        let finish = |x: i64| if keep { x } else { saturate(to, x) };
        Ok(narrow(from, to, &v(1), &v(2), |x| finish((x + half) >> by)))
    };
    Ok(Some(match step.opcode() {
        VsplatW => put_all(W, i64::from(step.word(1)?)),
        VsplatH => put_all(H, i64::from(step.word(1)?)),
        VsplatB => put_all(B, i64::from(step.word(1)?)),
        VinsertW => {
            let mut out = v(0);
            put(W, &mut out, 0, i64::from(step.word(1)?));
            out
        }
        VextractW => {
            let lane = (step.word(2)? & 127) as usize / 4;
            scalar(get(UW, &v(1), lane) as u32)
        }
        Vsetq => {
            let count = step.word(1)? as usize % VECTOR;
            std::array::from_fn(|i| u8::from(i < count))
        }
        Vsetq2 => {
            let last = step.word(1)?.wrapping_sub(1) as usize % VECTOR;
            std::array::from_fn(|i| u8::from(i <= last))
        }
        VandQR => {
            let (q, bytes) = (v(1), step.word(2)?.to_le_bytes());
            std::array::from_fn(|i| if q[i] == 1 { bytes[i % 4] } else { 0 })
        }
        QandVR => {
            let (a, bytes) = (v(1), step.word(2)?.to_le_bytes());
            std::array::from_fn(|i| u8::from(a[i] & bytes[i % 4] != 0))
        }
        VaslH => {
            let by = step.word(2)? & 15;
            map(H, &v(1), |a| a << by)
        }
        VaslW | VaslWAccumulate => {
            let by = step.word(2)? & 31;
            let product = map(W, &v(1), |a| a << by);
            match step.opcode() {
                VaslW => product,
                _ => zip(W, &v(0), &product, |a, b| a + b),
            }
        }
        VasrH => {
            let by = step.word(2)? & 15;
            map(H, &v(1), |a| a >> by)
        }
        VasrW | VasrWAccumulate => {
            let by = step.word(2)? & 31;
            let shifted = map(W, &v(1), |a| a >> by);
            match step.opcode() {
                VasrW => shifted,
                _ => zip(W, &v(0), &shifted, |a, b| a + b),
            }
        }
        VlsrB => {
            let by = step.word(2)? & 7;
            map(UB, &v(1), |a| a >> by)
        }
        VlsrH => {
            let by = step.word(2)? & 15;
            map(UH, &v(1), |a| a >> by)
        }
        VlsrW => {
            let by = step.word(2)? & 31;
            map(UW, &v(1), |a| a >> by)
        }
        VasrWHSaturate => shifted(W, H, false, false)?,
        VasrWHRoundSaturate => shifted(W, H, true, false)?,
        VasrWH => shifted(W, H, false, true)?,
        VasrWUhSaturate => shifted(W, UH, false, false)?,
        VasrWUhRoundSaturate => shifted(W, UH, true, false)?,
        VasrHBSaturate => shifted(H, B, false, false)?,
        VasrHBRoundSaturate => shifted(H, B, true, false)?,
        VasrHUbSaturate => shifted(H, UB, false, false)?,
        VasrHUbRoundSaturate => shifted(H, UB, true, false)?,
        _ => return Ok(None),
    }))
}

fn put_all(lane: Lane, value: i64) -> Value {
    let mut out = [0; VECTOR];
    for i in 0..lane.count() {
        put(lane, &mut out, i, value);
    }
    out
}

/// A scalar register's bytes in every word.
fn repeated(step: &Step<'_>, operand: usize) -> Value {
    put_all(W, i64::from(step.word(operand).unwrap_or(0)))
}

/// Sums of products of neighbouring lanes.
fn dot(accumulator: &Value, a: (Lane, &Value), b: (Lane, &Value), to: Lane) -> Value {
    let (each, mut out) = (to.bytes / a.0.bytes, *accumulator);
    for i in 0..to.count() {
        let sum: i64 = (0..each)
            .map(|k| {
                // The narrower operand counts lanes in its own width within the wide lane.
                let index = i * each + k;
                get(a.0, a.1, index) * get(b.0, b.1, index % b.0.count())
            })
            .sum();
        put(to, &mut out, i, get(to, accumulator, i) + sum);
    }
    out
}

fn multiply(step: &Step<'_>) -> Option<Value> {
    use Opcode::*;
    let v = |i: usize| step.value(i);
    let zero = [0; VECTOR];
    let words = |f: &dyn Fn(usize) -> i64| {
        let mut out = zero;
        for i in 0..W.count() {
            put(W, &mut out, i, f(i));
        }
        out
    };
    let (a, b) = (v(1), v(2));
    let even = |lane: Lane, i: usize| get(lane, &b, 2 * i);
    let odd = |lane: Lane, i: usize| get(lane, &b, 2 * i + 1);
    let word = |i: usize| get(W, &a, i);
    let old = |i: usize| get(W, &v(0), i);
    Some(match step.opcode() {
        VrmpyUbUb => dot(&zero, (UB, &a), (UB, &repeated(step, 2)), W),
        VrmpyUbUbAccumulate => dot(&v(0), (UB, &a), (UB, &repeated(step, 2)), W),
        VrmpyUbB => dot(&zero, (UB, &a), (B, &repeated(step, 2)), W),
        VrmpyUbBAccumulate => dot(&v(0), (UB, &a), (B, &repeated(step, 2)), W),
        VrmpyUbUbv => dot(&zero, (UB, &a), (UB, &b), W),
        VrmpyUbUbvAccumulate => dot(&v(0), (UB, &a), (UB, &b), W),
        VrmpyUbBv => dot(&zero, (UB, &a), (B, &b), W),
        VrmpyUbBvAccumulate => dot(&v(0), (UB, &a), (B, &b), W),
        VrmpyBBv => dot(&zero, (B, &a), (B, &b), W),
        VrmpyBBvAccumulate => dot(&v(0), (B, &a), (B, &b), W),
        VdmpyUbB => dot(&zero, (UB, &a), (B, &repeated(step, 2)), H),
        VdmpyUbBAccumulate => dot(&v(0), (UB, &a), (B, &repeated(step, 2)), H),
        VdmpyHB => dot(&zero, (H, &a), (B, &repeated(step, 2)), W),
        VdmpyHBAccumulate => dot(&v(0), (H, &a), (B, &repeated(step, 2)), W),
        VdmpyHHSaturate | VdmpyHHv | VdmpyHHvAccumulate => {
            let with = if step.opcode() == VdmpyHHSaturate { repeated(step, 2) } else { b };
            words(&|i| {
                let sum: i64 =
                    (0..2).map(|k| get(H, &a, 2 * i + k) * get(H, &with, 2 * i + k)).sum();
                let before = if step.opcode() == VdmpyHHvAccumulate { old(i) } else { 0 };
                saturate(W, before + sum)
            })
        }
        VmpyiH => zip(H, &a, &b, |x, y| x * y),
        VmpyiHAccumulate => {
            let product = zip(H, &a, &b, |x, y| x * y);
            zip(H, &v(0), &product, |x, y| x + y)
        }
        VmpyiHB => {
            let bytes = repeated(step, 2);
            let mut out = zero;
            for i in 0..H.count() {
                put(H, &mut out, i, get(H, &a, i) * get(B, &bytes, i % 4));
            }
            out
        }
        VmpyiWB => words(&|i| word(i) * get(B, &repeated(step, 2), i % 4)),
        VmpyiWBAccumulate => words(&|i| old(i) + word(i) * get(B, &repeated(step, 2), i % 4)),
        VmpyiWUb => words(&|i| word(i) * get(UB, &repeated(step, 2), i % 4)),
        VmpyiWH => words(&|i| word(i) * get(H, &repeated(step, 2), i % 2)),
        VmpyiWHAccumulate => words(&|i| old(i) + word(i) * get(H, &repeated(step, 2), i % 2)),
        VmpyieWUh => words(&|i| word(i) * even(UH, i)),
        VmpyieWUhAccumulate => words(&|i| old(i) + word(i) * even(UH, i)),
        VmpyioWH => words(&|i| word(i) * odd(H, i)),
        VmpyieoH => words(&|i| (get(H, &a, 2 * i) * odd(H, i)) << 16),
        VmpyeWUh => words(&|i| (word(i) * even(UH, i)) >> 16),
        VmpyoWHShiftRoundSaturate => {
            words(&|i| saturate(W, (((word(i) * odd(H, i)) >> 14) + 1) >> 1))
        }
        VmpyoWHShiftRoundAccumulate => {
            words(&|i| saturate(W, (((old(i) + word(i) * odd(H, i)) >> 14) + 1) >> 1))
        }
        _ => return None,
    })
}

/// Instructions with a pair of vectors as result.
fn pair(step: &Step<'_>) -> Result<Option<(Value, Value)>, MachineError> {
    use Opcode::*;
    let v = |i: usize| step.value(i);
    let (a, b) = (v(1), v(2));
    let old = || (v(0), step.high(0));
    let both = |lane: Lane, f: fn(i64, i64) -> i64| {
        (zip(lane, &a, &b, f), zip(lane, &step.high(1), &step.high(2), f))
    };
    let product = |x: i64, y: i64| x * y;
    let add = |lane: Lane, (low, high): (Value, Value)| {
        let (l, h) = old();
        (zip(lane, &l, &low, |x, y| x + y), zip(lane, &h, &high, |x, y| x + y))
    };
    Ok(Some(match step.opcode() {
        Vcombine => (b, a),
        VaddHPair => both(H, |x, y| x + y),
        VaddWPair => both(W, |x, y| x + y),
        VsubHPair => both(H, |x, y| x - y),
        VsubWPair => both(W, |x, y| x - y),
        VaddUbWiden => widen((UB, &a), (UB, &b), H, |x, y| x + y),
        VaddHWiden => widen((H, &a), (H, &b), W, |x, y| x + y),
        VsubUbWiden => widen((UB, &a), (UB, &b), H, |x, y| x - y),
        VsubHWiden => widen((H, &a), (H, &b), W, |x, y| x - y),
        VmpyUbB => widen((UB, &a), (B, &repeated(step, 2)), H, product),
        VmpyUbBAccumulate => add(H, widen((UB, &a), (B, &repeated(step, 2)), H, product)),
        VmpyHH => widen((H, &a), (H, &repeated(step, 2)), W, product),
        VmpyHHSaturateAccumulate => {
            let (low, high) = widen((H, &a), (H, &repeated(step, 2)), W, product);
            let (l, h) = old();
            let sum = |x: i64, y: i64| saturate(W, x + y);
            (zip(W, &l, &low, sum), zip(W, &h, &high, sum))
        }
        VmpyBBv => widen((B, &a), (B, &b), H, product),
        VmpyBBvAccumulate => add(H, widen((B, &a), (B, &b), H, product)),
        VmpyUbBv => widen((UB, &a), (B, &b), H, product),
        VmpyUbBvAccumulate => add(H, widen((UB, &a), (B, &b), H, product)),
        VmpyUbUbv => widen((UB, &a), (UB, &b), H, product),
        VmpyHHv => widen((H, &a), (H, &b), W, product),
        VmpyHHvAccumulate => add(W, widen((H, &a), (H, &b), W, product)),
        VmpyHUhv => widen((H, &a), (UH, &b), W, product),
        VmpyUhUhv => widen((UH, &a), (UH, &b), W, product),
        VmpyeD | VmpyoDAccumulate => {
            let (mut low, mut high) = old();
            for i in 0..W.count() {
                let x = get(W, &a, i);
                if step.opcode() == VmpyeD {
                    let all = x * get(UH, &b, 2 * i);
                    put(W, &mut low, i, all << 16);
                    put(W, &mut high, i, all >> 16);
                } else {
                    let all = x * get(H, &b, 2 * i + 1) + get(W, &high, i);
                    let kept = get(UW, &low, i) >> 16;
                    put(W, &mut low, i, all << 16 | kept);
                    put(W, &mut high, i, all >> 16);
                }
            }
            (low, high)
        }
        VrmpyUbBPair | VrmpyUbBPairAccumulate => {
            let one = step.word(3)? as usize;
            let bytes = repeated(step, 2);
            let sources = [a, step.high(1)];
            let (mut low, mut high) = match step.opcode() {
                VrmpyUbBPair => ([0; VECTOR], [0; VECTOR]),
                _ => old(),
            };
            for i in 0..W.count() {
                let term = |source: usize, k: usize, byte: usize| {
                    get(UB, &sources[source], 4 * i + k) * get(B, &bytes, (byte + 4 - one) % 4)
                };
                let first = term(one, 0, 0) + term(0, 1, 1) + term(0, 2, 2) + term(0, 3, 3);
                let second = term(1, 0, 2) + term(1, 1, 3) + term(one, 2, 0) + term(0, 3, 1);
                let (l, h) = (get(W, &low, i), get(W, &high, i));
                put(W, &mut low, i, l + first);
                put(W, &mut high, i, h + second);
            }
            (low, high)
        }
        VzxtB => widen((UB, &a), (UB, &a), H, |x, _| x),
        VzxtH => widen((UH, &a), (UH, &a), W, |x, _| x),
        VsxtB => widen((B, &a), (B, &a), H, |x, _| x),
        VsxtH => widen((H, &a), (H, &a), W, |x, _| x),
        VunpackUb => unpack(UB, H, &a),
        VunpackUh => unpack(UH, W, &a),
        VunpackB => unpack(B, H, &a),
        VunpackH => unpack(H, W, &a),
        VshuffoeB | VshuffoeH => {
            let lane = if step.opcode() == VshuffoeB { UB } else { UH };
            let (mut low, mut high) = ([0; VECTOR], [0; VECTOR]);
            for i in 0..lane.count() {
                let from = if i % 2 == 0 { &b } else { &a };
                put(lane, &mut low, i, get(lane, from, i & !1));
                put(lane, &mut high, i, get(lane, from, i | 1));
            }
            (low, high)
        }
        Vshuff | Vdeal => {
            let bits = step.word(3)?;
            let mut steps: Vec<usize> =
                (0..7).map(|bit| 1 << bit).filter(|offset| bits as usize & offset != 0).collect();
            if step.opcode() == Vdeal {
                steps.reverse();
            }
            let (mut low, mut high) = (b, a);
            for offset in steps {
                for k in (0..VECTOR).filter(|k| k & offset == 0) {
                    std::mem::swap(&mut high[k], &mut low[k + offset]);
                }
            }
            (low, high)
        }
        _ => return Ok(None),
    }))
}

fn unpack(from: Lane, to: Lane, a: &Value) -> (Value, Value) {
    let (mut low, mut high) = ([0; VECTOR], [0; VECTOR]);
    for i in 0..to.count() {
        put(to, &mut low, i, get(from, a, i));
        put(to, &mut high, i, get(from, a, i + to.count()));
    }
    (low, high)
}
