"""Batch normalization of 8-bit codes as `niti` has it (the paper has none): exact sums of codes as integers, float32 once a channel, and for
each element products with integer coefficients that share an exponent, brought to 8 bits as a product is.

Written from docs/operations.md (`integer_batch_statistics`, `integer_batch_norm`, `integer_batch_norm_sums`, `integer_batch_norm_error`,
`requantize_stochastic`, `normalized_update`). Codes are int8 (B, C, ...); vectors are float32 (C).
"""

import numpy as np

import niti

F = np.float32


def wide(sums):
    """float32 of integers by their parts of 24 bits, each step rounded."""
    sums = np.asarray(sums, np.int64)
    high, middle, low = sums >> 48, (sums >> 24) & 0xFFFFFF, sums & 0xFFFFFF
    return (high.astype(F) * F(2**24) + middle.astype(F)) * F(2**24) + low.astype(F)


def _by_channel(q):
    """(C, elements) of codes, as wide integers."""
    return np.moveaxis(q.astype(np.int64), 1, 0).reshape(q.shape[1], -1)


def _stretched(vector, q):
    return vector.reshape((1, -1) + (1,) * (q.ndim - 2))


def statistics(q, e):
    codes = _by_channel(q)
    n = codes.shape[1]
    total, squares = codes.sum(1), (codes * codes).sum(1)
    variance = wide(n * squares - total * total) / F(n) / F(n)
    return np.ldexp(wide(total) / F(n), e), np.ldexp(variance, 2 * e)


def inverse_deviation(variance, epsilon):
    return F(1) / np.sqrt(variance + F(epsilon))


def _width(vector):
    """ceil(log2 max |v|) by the parts of the float."""
    mantissa, exponent = np.frexp(max(np.abs(vector).max(), F(2.0**-149)))
    return int(exponent) - (mantissa == 0.5)


def sums(terms, offset):
    """(int sums, exponent) of codes by factors, [(codes, exponent, factors)], and what is added."""
    s = max([e + _width(a) - 15 for _, e, a in terms] + [_width(offset) - 30])
    total = _stretched(np.rint(np.ldexp(offset, -s)).astype(np.int64), terms[0][0])
    for q, e, a in terms:
        factor = np.clip(np.rint(np.ldexp(a, e - s)).astype(np.int64), -(2**15) + 1, 2**15 - 1)
        total = total + _stretched(factor, q) * q.astype(np.int64)
    return total, s


def _mix(x):
    """The hash lowbias32 of 32-bit words."""
    x = (x ^ (x >> 16)) * 0x7FEB352D % 2**32
    x = (x ^ (x >> 15)) * 0x846CA68B % 2**32
    return x ^ (x >> 16)


def requantize_stochastic(x, e, seed, step, stream):
    """8 bits of sums: (x + u) / 2^s, rounded down, u the upper s bits of a word for each element."""
    s = max(int(np.abs(x).max()).bit_length() - 7, 0)
    key = int(niti.uniform_bits(seed, step, stream, 1, 32)[0])
    words = _mix((key + np.arange(x.size, dtype=np.uint64)) % 2**32).astype(np.int64).reshape(x.shape)
    return np.clip((x + (words >> (32 - s))) >> s, -127, 127).astype(np.int8), e + s


def forward(q, e, scale, bias, epsilon):
    """The normalized codes, and mean and variance."""
    mean, variance = statistics(q, e)
    slope = scale * inverse_deviation(variance, epsilon)
    return niti.requantize(*sums([(q, e, slope)], bias - mean * slope)), (mean, variance)


def error_sums(q, e, error, e_error, scale, moments, epsilon):
    """The error of the codes as sums with an exponent, and the gradients of scale and bias."""
    mean, variance = moments
    inverse = inverse_deviation(variance, epsilon)
    errors, codes = _by_channel(error), _by_channel(q)
    dbias = np.ldexp(wide(errors.sum(1)), e_error)
    product = np.ldexp(wide((errors * codes).sum(1)), e_error + e)
    dscale = (product - mean * dbias) * inverse
    slope = scale * inverse
    share = slope / F(codes.shape[1])
    turn = -(share * dscale * inverse)
    offset = -(share * dbias) - turn * mean
    return sums([(error, e_error, slope), (q, e, turn)], offset), dscale, dbias


def backward(q, e, error, e_error, scale, moments, epsilon, draw):
    """The error of the codes in 8 bits, and the gradients of scale and bias; `draw` is seed, step and stream."""
    back, dscale, dbias = error_sums(q, e, error, e_error, scale, moments, epsilon)
    return requantize_stochastic(*back, *draw), dscale, dbias


def update(w, gradient, bits):
    """The step of a float32 parameter: 2^(bits - 10) of its gradient beside the largest."""
    largest = np.abs(gradient).max()
    if bits <= 0 or largest == 0:
        return w
    return w - F(2.0 ** (bits - 10)) * (gradient / largest)
