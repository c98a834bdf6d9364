//! Vectors as lanes, for the evaluator.

use super::evaluate::{VECTOR, Value};

/// Width and sign of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) bytes: usize,
    pub(crate) signed: bool,
}

pub(crate) const B: Lane = Lane { bytes: 1, signed: true };
pub(crate) const UB: Lane = Lane { bytes: 1, signed: false };
pub(crate) const H: Lane = Lane { bytes: 2, signed: true };
pub(crate) const UH: Lane = Lane { bytes: 2, signed: false };
pub(crate) const W: Lane = Lane { bytes: 4, signed: true };
pub(crate) const UW: Lane = Lane { bytes: 4, signed: false };

impl Lane {
    /// Lanes of a vector.
    pub(crate) fn count(self) -> usize {
        VECTOR / self.bytes
    }

    /// The number that the lane holds after a write of `value`.
    pub(crate) fn wrap(self, value: i64) -> i64 {
        let unused = 64 - 8 * self.bytes;
        match self.signed {
            true => value << unused >> unused,
            false => (value.cast_unsigned() << unused >> unused).cast_signed(),
        }
    }
}

pub(crate) fn get(lane: Lane, value: &Value, index: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes[..lane.bytes].copy_from_slice(&value[index * lane.bytes..][..lane.bytes]);
    lane.wrap(i64::from_le_bytes(bytes))
}

pub(crate) fn put(lane: Lane, value: &mut Value, index: usize, number: i64) {
    value[index * lane.bytes..][..lane.bytes].copy_from_slice(&number.to_le_bytes()[..lane.bytes]);
}

pub(crate) fn map(lane: Lane, a: &Value, f: impl Fn(i64) -> i64) -> Value {
    zip(lane, a, a, |x, _| f(x))
}

pub(crate) fn zip(lane: Lane, a: &Value, b: &Value, f: impl Fn(i64, i64) -> i64) -> Value {
    let mut out = [0; VECTOR];
    for i in 0..lane.count() {
        put(lane, &mut out, i, f(get(lane, a, i), get(lane, b, i)));
    }
    out
}

/// The nearest number that the lane holds.
pub(crate) fn saturate(lane: Lane, value: i64) -> i64 {
    let bits = 8 * lane.bytes;
    match lane.signed {
        true => value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => value.clamp(0, (1 << bits) - 1),
    }
}

/// Even lanes give the low result, odd lanes the high one.
pub(crate) fn widen(
    a: (Lane, &Value),
    b: (Lane, &Value),
    to: Lane,
    f: impl Fn(i64, i64) -> i64,
) -> (Value, Value) {
    let (mut low, mut high) = ([0; VECTOR], [0; VECTOR]);
    for i in 0..to.count() {
        let at = |index: usize| f(get(a.0, a.1, index), get(b.0, b.1, index));
        put(to, &mut low, i, at(2 * i));
        put(to, &mut high, i, at(2 * i + 1));
    }
    (low, high)
}

/// Even lanes of the result come from `b`, odd ones from `a`.
pub(crate) fn narrow(from: Lane, to: Lane, a: &Value, b: &Value, f: impl Fn(i64) -> i64) -> Value {
    let mut out = [0; VECTOR];
    for i in 0..from.count() {
        put(to, &mut out, 2 * i, f(get(from, b, i)));
        put(to, &mut out, 2 * i + 1, f(get(from, a, i)));
    }
    out
}
