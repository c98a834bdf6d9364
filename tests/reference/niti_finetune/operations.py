"""The operations of `niti-finetune` in numpy, from the documentation of compiler/ir/src/ops and compiler/ir/src/numeric.

A quantized tensor is int64 elements `q` with one exponent `e` (value q * 2**e); which element of the compiler holds them
(i8, u8, i16, i32) is said by the function and asserted of its result. Images are NCHW. FP32 steps are numpy float32, one
rounding an operation, in the documented order. Products, windows and the Philox generator are those of ../niti/niti.py.
"""

import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "niti"))
import niti  # noqa: E402

RANGES = {"i8": (-128, 127), "u8": (0, 255), "i16": (-(2**15), 2**15 - 1), "i32": (-(2**31), 2**31 - 1)}
F32_MAX = float(np.finfo(np.float32).max)
F = np.float32


def as_element(q, element):
    """int64 elements that lie in the element's range."""
    q = np.asarray(q).astype(np.int64)
    low, high = RANGES[element]
    assert q.size == 0 or (low <= q.min() and q.max() <= high), (element, q.min(), q.max())
    return q


def limit(element):
    """Largest magnitude of the symmetric range."""
    return RANGES[element][1]


def wrap32(x):
    """Two's complement in 32 bits."""
    return (x + 2**31) % 2**32 - 2**31


def shift_half_away(x, s):
    """Right shift by s >= 0 to nearest, halves away from zero."""
    return niti.round_half_away(x, s) if s > 0 else np.asarray(x).astype(np.int64)


def power_times(bound, e):
    """bound * 2**-e exactly, for a finite bound."""
    return Fraction(bound) * Fraction(2) ** -e


# ---------------------------------------------------------------- random bits

def mix(x):
    """lowbias32 of 32-bit words in int64."""
    x = np.asarray(x).astype(np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & mask
    return (x ^ (x >> np.uint64(16))).astype(np.int64)


def dither_bits(run, stream, shape):
    """32 bits for each element in row-major order; `run` is (seed, step)."""
    key = int(niti.uniform_bits(*run, stream, 1, 32)[0])
    return mix((key + np.arange(math.prod(shape), dtype=np.int64)) % 2**32).reshape(shape)


def shift_dithered(x, s, bits):
    """floor((x + u) / 2**s), u the s most significant of the 32 bits; beyond 31, s - 31 bits (at most 31) are dropped first."""
    x = np.asarray(x).astype(np.int64) >> min(max(s - 31, 0), 31)
    s = min(s, 31)
    return (x + (bits >> (32 - s))) >> s


# ---------------------------------------------------------------- from FP32

def floor_log2(value):
    return math.frexp(float(value))[1] - 1


def largest_finite(x):
    """Largest magnitude, at most the largest finite FP32; NaN does not count; 0 if there is none."""
    m = np.abs(np.asarray(x, F))
    return min(float(m[~np.isnan(m)].max(initial=F(0))), F32_MAX)


def scaled(x, e):
    """x * 2**-e in float64, exactly (infinities stay); NaN becomes 0."""
    x = np.asarray(x, F).astype(np.float64)
    return np.ldexp(np.where(np.isnan(x), 0.0, x), -e)


def quantize_exponent(x):
    """FP32 to i8."""
    m = largest_finite(x)
    if m == 0:
        return np.zeros(np.shape(x), np.int64), 0
    e = niti.ceil_log2(m) - 7
    return as_element(np.clip(np.rint(scaled(x, e)), -128, 127), "i8"), e


def quantize_parameter(x, element):
    """FP32 to i8 or i16 that keeps its value."""
    bits = {"i8": 8, "i16": 16}[element]
    m = largest_finite(x)
    e = -bits if m == 0 else floor_log2(m) + 2 - bits
    with np.errstate(over="ignore"):
        y = scaled(x, e).astype(F)
        y = np.trunc(y + np.copysign(F(0.5), y))
    assert y.dtype == F
    return as_element(np.clip(y, -limit(element), limit(element)), element), e


def quantize_bias(x, exponent):
    """FP32 to i32 of that exponent."""
    return as_element(np.clip(np.rint(scaled(x, exponent)), -limit("i32"), limit("i32")), "i32"), exponent


# ---------------------------------------------------------------- forward

def upper_byte(w, e):
    """What products take of an i16 weight: to nearest, half away from zero, at most 127."""
    return as_element(np.clip(shift_half_away(as_element(w, "i16"), 8), -127, 127), "i8"), e + 8


def accumulate_bias(x, ex, b, eb):
    """i32 sums and an i32 bias that broadcasts to them; i32."""
    x, b = as_element(x, "i32"), as_element(b, "i32")
    e = max(ex, eb + niti.bit_width(niti.max_abs(b)) - 30)
    aligned = shift_half_away(b, min(e - eb, 32)) if e > eb else wrap32(b << min(eb - e, 31))
    return wrap32((x >> min(e - ex, 31)) + aligned), e


def quantize_unsigned(x, e):
    """ReLU of integers as u8."""
    x = np.maximum(x, 0)
    s = max(niti.bit_width(niti.max_abs(x)) - 8, 0)
    return as_element(np.minimum(shift_half_away(x, s), 255), "u8"), e + s


def quantize_unsigned_float(x):
    """ReLU of FP32 as u8."""
    x = np.where(np.asarray(x, F) > 0, np.asarray(x, F), F(0))
    m = largest_finite(x)
    e = 0 if m == 0 else niti.ceil_log2(m) - 8
    return as_element(np.clip(np.rint(scaled(x, e)), 0, 255), "u8"), e


def clip(x, e, low, high, element):
    """Integers between real bounds, of the same element."""
    least, most = RANGES[element]
    at_least = least if low == -math.inf else min(max(math.ceil(power_times(low, e)), least), most)
    at_most = most if high == math.inf else min(max(math.floor(power_times(high, e)), least), most)
    return np.minimum(np.maximum(x, at_least), at_most), e


def requantize(x, e, bits=7, low=-127):
    """i32 to i8 by its own width, to nearest."""
    s = max(niti.bit_width(niti.max_abs(as_element(x, "i32"))) - bits, 0)
    return as_element(np.clip(shift_half_away(x, s), low, 127), "i8"), e + s


def aligned_sum(a, ea, element_a, b, eb, element_b):
    """Sum as i32."""
    headroom = {"i8": 21, "u8": 21, "i32": 0}
    e = max(ea - headroom[element_a], eb - headroom[element_b])

    def moved(x, ex):
        x = np.asarray(x).astype(np.int64)
        return x << (ex - e) if ex > e else x >> min(e - ex, 31)
    return wrap32(moved(a, ea) + moved(b, eb)), e


def max_pool(x, kernel, strides, pads, dilations=(1, 1)):
    """(maxima, row-major index in the window of each first maximum)."""
    out = niti.window_sizes(x.shape, kernel, strides, dilations, pads)
    outside = -(2**40)
    stacked = np.stack([v for _, _, v in niti.window_views(niti.pad(x, pads, outside), kernel, strides, dilations, out)])
    assert (stacked.max(axis=0) > outside).all()
    return stacked.max(axis=0), stacked.argmax(axis=0)


def _spread(shape, out, kernel, strides, pads, dilations, share):
    """Each operand element's sum of what `share(tap)` gives the windows that hold it."""
    padded = np.zeros((*shape[:2], shape[2] + pads[0] + pads[2], shape[3] + pads[1] + pads[3]), np.int64)
    for i, j, view in niti.window_views(padded, kernel, strides, dilations, out):
        view += share(i * kernel[1] + j)
    return niti.crop(padded, pads, shape)


def max_pool_gradient(error, winner, shape, kernel, strides, pads, dilations=(1, 1)):
    """i8 error of the pool's operand; the exponent is the error's."""
    share = lambda tap: np.where(winner == tap, error, 0)  # noqa: E731
    return np.clip(_spread(shape, error.shape[2:], kernel, strides, pads, dilations, share), -127, 127)


def _counts(shape, out, kernel, strides, pads, include_pad):
    """Elements of each window."""
    ones = np.ones((1, 1, *shape[2:]), np.int64)
    views = niti.window_views(niti.pad(ones, pads, int(include_pad)), kernel, strides, (1, 1), out)
    return sum(v for _, _, v in views)[0, 0]


def _reciprocal(count):
    return (2**16 + count) // (2 * count)


def _power_of_two(counts):
    """n, where every window holds 2**n elements; None otherwise."""
    n = int(counts.flat[0])
    return n.bit_length() - 1 if (counts == n).all() and n & (n - 1) == 0 else None


def average_pool(x, e, element, kernel, strides, pads=(0, 0, 0, 0), include_pad=False):
    """i32 means of i8 or u8."""
    out = niti.window_sizes(x.shape, kernel, strides, (1, 1), pads)
    counts = _counts(x.shape, out, kernel, strides, pads, include_pad)
    total = sum(v for _, _, v in niti.window_views(niti.pad(x, pads, 0), kernel, strides, (1, 1), out))
    if _power_of_two(counts) is not None:
        return total, e - _power_of_two(counts)
    if element == "i8" and (counts == counts.flat[0]).all():
        return np.clip(shift_half_away(total * _reciprocal(counts), 15), -127, 127), e
    return as_element(total * _reciprocal(counts), "i32"), e - 15


def average_pool_gradient(error, e, shape, kernel, strides, pads=(0, 0, 0, 0), include_pad=False):
    """i8 error of the pool's operand."""
    counts = _counts(shape, error.shape[2:], kernel, strides, pads, include_pad)
    spread = lambda x: _spread(shape, error.shape[2:], kernel, strides, pads, (1, 1), lambda _: x)  # noqa: E731
    if _power_of_two(counts) is not None:
        return np.clip(spread(error), -127, 127), e - _power_of_two(counts)
    # With one count everywhere the factor may as well be applied to the errors: both are exact.
    return np.clip(shift_half_away(as_element(spread(error * _reciprocal(counts)), "i32"), 15), -127, 127), e


def dequantize(q, e):
    """FP32, rounded once."""
    with np.errstate(over="ignore"):
        return np.ldexp(np.asarray(q).astype(np.float64), e).astype(F)


# ---------------------------------------------------------------- loss (FP32)

# Data of numeric/float.rs: ln 2 in two parts and the coefficients of both polynomials, lowest power first.
LN2_HIGH, LN2_LOW = F(0.6933594), F(-0.00021219444)
EXP = [F(c) for c in (0.49999994, 0.1666652, 0.0416684, 0.008368852, 0.0013814328)]
LOG = [F(c) for c in (0.6666666, 0.40000337, 0.2853717, 0.2358499)]


def horner(coefficients, x):
    y = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        y = y * x + c
    return y


def exp32(x):
    """e**x of FP32."""
    x = np.asarray(x, F)
    c = np.minimum(np.maximum(x, F(-104)), F(89))
    k = np.rint(c * F(math.log2(math.e)))
    r = (c - k * LN2_HIGH) - k * LN2_LOW
    p = (r * r) * horner(EXP, r) + r + F(1)
    n = k.astype(np.int64)
    with np.errstate(over="ignore", under="ignore"):
        y = p * np.ldexp(F(1), n >> 1) * np.ldexp(F(1), n - (n >> 1))
    assert y.dtype == F
    return y


def log32(x):
    """Natural logarithm of positive finite FP32."""
    x = np.asarray(x, F)
    m, k = np.frexp(x.astype(np.float64))  # m in [0.5, 1)
    # The border is the FP32 number next to sqrt(1/2), 0x3f3504f3.
    below = m < float(np.array(0x3F3504F3, np.uint32).view(F))
    m, k = np.where(below, 2 * m, m).astype(F), np.where(below, k - 1, k).astype(F)
    f = m - F(1)
    s = f / (F(2) + f)
    z = s * s
    h = F(0.5) * f * f
    y = k * LN2_HIGH - ((h - (s * (h + z * horner(LOG, z)) + k * LN2_LOW)) - f)
    assert y.dtype == F
    return y


def _softmax_terms(logits):
    """(largest, e**(x - largest), their sum) of each row, the sum from +0 along the row."""
    largest = logits.max(axis=1)
    terms = exp32(logits - largest[:, None])
    total = np.zeros(len(logits), F)
    for j in range(logits.shape[1]):
        total = total + terms[:, j]
    return largest, terms, total


def cross_entropy(logits, labels):
    """Mean over the batch; labels outside the classes contribute nothing."""
    logits = np.asarray(logits, F)
    largest, _, total = _softmax_terms(logits)
    loss = F(0)
    for i, label in enumerate(labels):
        if 0 <= label < logits.shape[1]:
            loss = loss + (log32(total[i]) - (logits[i, label] - largest[i]))
    return F(loss / F(len(labels)))


def cross_entropy_gradient(logits, labels):
    """(softmax - onehot) / B."""
    logits = np.asarray(logits, F)
    _, terms, total = _softmax_terms(logits)
    labels = np.asarray(labels)
    onehot = (np.arange(logits.shape[1]) == labels[:, None]).astype(F)
    y = (terms / total[:, None] - onehot) / F(len(labels))
    assert y.dtype == F
    return np.where(((labels >= 0) & (labels < logits.shape[1]))[:, None], y, F(0))


# ---------------------------------------------------------------- batch normalization and what is beside it (FP32)

def running_total(x):
    """The sum from +0 over axis 1, one after another."""
    y = np.add.accumulate(np.concatenate([np.zeros_like(x[:, :1]), x], axis=1), axis=1)[:, -1]
    assert y.dtype == F
    return y


def channel_sums(x):
    """Sums from +0 by batch, then space, of each channel of [B,C,...]; the last of the running sums."""
    return running_total(np.moveaxis(x, 1, 0).reshape(x.shape[1], -1))


def normalization_sums(x):
    """Sums of each channel of [B,C,...] as batch normalization makes them: 16 partial sums from +0, element i of a sample's channel
    to the one of i mod 16; then these from the first to the last."""
    space = np.moveaxis(x, 1, 0).reshape(x.shape[1], x.shape[0], -1)
    space = np.pad(space, [(0, 0), (0, 0), (0, -space.shape[2] % 16)])  # A partial sum is never -0, so +0 changes none.
    return running_total(running_total(space.reshape(len(space), -1, 16)))


def stretched(v, x):
    """A number for each channel beside [B,C,...]."""
    return v.reshape((1, -1) + (1,) * (x.ndim - 2))


def batch_statistics(x):
    """(mean, biased variance) of each channel."""
    n = F(x.size // x.shape[1])
    mean = normalization_sums(x) / n
    centred = x - stretched(mean, x)
    return mean, normalization_sums(centred * centred) / n


def batch_norm(x, scale, bias, mean, variance, epsilon):
    inverse = F(1) / np.sqrt(variance + F(epsilon))
    y = ((x - stretched(mean, x)) * stretched(inverse, x)) * stretched(scale, x) + stretched(bias, x)
    assert y.dtype == F
    return y


def batch_norm_gradient(x, scale, mean, variance, dy, epsilon):
    """(dx, dscale, dbias) through the batch's own statistics."""
    n = F(x.size // x.shape[1])
    inverse = F(1) / np.sqrt(variance + F(epsilon))
    normal = (x - stretched(mean, x)) * stretched(inverse, x)
    dbias, dscale, slope = normalization_sums(dy), normalization_sums(dy * normal), scale * inverse
    dx = stretched(slope / n, x) * ((n * dy - stretched(dbias, x)) - normal * stretched(dscale, x))
    assert dx.dtype == F
    return dx, dscale, dbias


def clip_float(x, low, high):
    x = np.where(F(low) > x, F(low), x)
    return np.where(F(high) < x, F(high), x)


def momentum_step_float(m, g, rate, momentum):
    return F(momentum) * m + F(rate) * g


# ---------------------------------------------------------------- backward

def requantize_stochastic(x, e, run, stream):
    """i32 to i8 errors."""
    s = max(niti.bit_width(niti.max_abs(as_element(x, "i32"))) - 7, 0)
    return np.clip(shift_dithered(x, s, dither_bits(run, stream, x.shape)), -127, 127), e + s


def requantize_stochastic_float(x, run, stream):
    """FP32 to i8 errors."""
    m = largest_finite(x)
    e = 0 if m == 0 else niti.ceil_log2(m) - 7
    fixed = np.clip(np.trunc(scaled(x, e - 16)), *RANGES["i32"]).astype(np.int64)
    return np.clip(shift_dithered(fixed, 16, dither_bits(run, stream, np.shape(x))), -127, 127), e


def relu_gradient(x, error):
    return np.where(x > 0, error, 0)


def clip_gradient(x, ex, error, low, high):
    """x is compared with the real bounds, exactly."""
    inside = np.ones(x.shape, bool)
    if low != -math.inf:
        inside &= x > math.floor(power_times(low, ex))
    if high != math.inf:
        inside &= x < math.ceil(power_times(high, ex))
    return np.where(inside, error, 0)


# ---------------------------------------------------------------- update

def rate_exponent(rate):
    """k of the power of two nearest to the rate in the logarithm; None if the rate is not positive, normal and finite."""
    rate = float(F(rate))
    if not (math.isfinite(rate) and rate >= 2.0**-126):
        return None
    k = floor_log2(rate)
    return k + (Fraction(rate) ** 2 > Fraction(2) ** (2 * k + 1))


def gradient_part(g, eg, e, rate, element, bits):
    """rate * gradient in units of 2**e."""
    k = rate_exponent(rate)
    if k is None:
        return np.zeros(np.shape(g), np.int64)
    s, most = min(max(e - eg - k, -62), 62), limit(element)
    if s > 0:
        return np.clip(shift_dithered(g, s, bits), -most, most)
    left = min(-s, {"i8": 8, "i16": 16, "i32": 32}[element] - 2)
    return np.clip(np.asarray(g).astype(np.int64), -(most >> left), most >> left) << left


def scaled_step(g, eg, e, rate, element, run, stream):
    return gradient_part(g, eg, e, rate, element, dither_bits(run, stream, np.shape(g)))


def momentum_step(m, e, g, eg, rate, momentum, element, run, stream):
    """m' of the exponent of m."""
    bits = dither_bits(run, stream, np.shape(m))
    c = math.floor(F(momentum) * F(256) + F(0.5))
    kept = (as_element(m, element) * c + (bits & 255)) >> 8
    return np.clip(kept + gradient_part(g, eg, e, rate, element, bits), -limit(element), limit(element))


def saturating_subtract(w, step, element):
    return np.clip(as_element(w, element) - as_element(step, element), -limit(element), limit(element))
