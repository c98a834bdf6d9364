//! Arithmetic that the IR defines, for launches that compute more than products: the static library is without the IR. Tests compare them
//! with `trainc_ir::numeric` and `trainc_ir::random`.

/// 32 random bits of one element of a stream, for seed (lower half first) and step: Philox4x32-10.
pub(crate) fn draw(&[low, high, step]: &[u32; 3], stream: u32, element: u32) -> u32 {
    let (mut c, mut k) = ([element >> 2, step, stream, 0], [low, high]);
    for _ in 0..10 {
        let [p, q] = [(0xD251_1F53, c[0]), (0xCD9E_8D57, c[2])]
            .map(|(multiplier, word): (u32, u32)| u64::from(multiplier) * u64::from(word));
        c = [(q >> 32) as u32 ^ c[1] ^ k[0], q as u32, (p >> 32) as u32 ^ c[3] ^ k[1], p as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c[element as usize & 3]
}

/// The hash that makes an element's bits of a tensor's draw.
#[inline(always)]
pub(crate) fn mix(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// `ceil(log2 m)` of a positive finite float.
pub(crate) fn ceil_log2(m: f32) -> i32 {
    let bits = m.to_bits();
    let (exponent, mantissa) = ((bits >> 23) as i32, bits & 0x7f_ffff);
    if exponent == 0 {
        let width = 32 - mantissa.leading_zeros() as i32;
        return width - 150 + i32::from(!mantissa.is_power_of_two());
    }
    exponent - 127 + i32::from(mantissa != 0)
}

/// The largest magnitude but infinity, which counts as the largest finite one; NaN does not.
pub(crate) fn largest_finite(values: &[f32]) -> f32 {
    values.iter().fold(0.0f32, |m, x| if x.abs() > m { x.abs() } else { m }).min(f32::MAX)
}

/// Two normal powers of two whose product is `2^exponent`, or what is as good.
pub(crate) fn power_of_two_factors(exponent: i32) -> [f32; 2] {
    let exponent = exponent.clamp(-1000, 1000);
    let first = exponent.clamp(-126, 127);
    let second = (exponent - first).clamp(-126, 127);
    [first, second].map(|exponent| f32::from_bits(((exponent + 127) as u32) << 23))
}

/// `x * 2^exponent` by two multiplications with normal powers of two.
pub(crate) fn scale_by_power_of_two(x: f32, exponent: i32) -> f32 {
    let [first, second] = power_of_two_factors(exponent);
    x * first * second
}

/// The nearest integer within `limit`, which is below 2^31, halves to even; 0 of NaN.
pub(crate) fn round_ties_even(x: f32, limit: i32) -> i32 {
    /// From here on floats are integers.
    const WHOLE: f32 = 8_388_608.0;
    let magnitude = x.abs();
    let rounded = if magnitude < WHOLE { (magnitude + WHOLE) - WHOLE } else { magnitude };
    let rounded = (rounded as i32).min(limit);
    if x < 0.0 { -rounded } else { rounded }
}

/// The float of a 64-bit integer, by parts of 24 bits.
pub(crate) fn float_of_wide(x: i64) -> f32 {
    let part = |shift: u32| ((x >> shift) & 0xff_ffff) as f32;
    ((x >> 48) as f32 * 16_777_216.0 + part(24)) * 16_777_216.0 + part(0)
}

/// `bound * 2^-exponent`, or a number on the same side of (or equal to) every byte.
pub(crate) fn scaled_bound(bound: f32, exponent: i32) -> f32 {
    if bound == 0.0 || !bound.is_finite() {
        return bound;
    }
    let subnormal = bound.abs() < f32::MIN_POSITIVE;
    let normal = if subnormal { bound * 8_388_608.0 } else { bound };
    let own = (normal.to_bits() >> 23 & 0xff) as i32 - 127 - if subnormal { 23 } else { 0 };
    let mantissa = f32::from_bits(normal.to_bits() & 0x807f_ffff | 0x3f80_0000);
    let by = (own - exponent.clamp(-1000, 1000)).clamp(-2, 10);
    mantissa * f32::from_bits(((by + 127) as u32) << 23)
}
