"""NITI integer training arithmetic: rounding shifts, quantisers, layers, loss gradient.

Source: M. Wang, S. Rasoulinezhad, P. Leong, H. So, "NITI: Training Integer Neural Networks Using
Integer-only Arithmetic", IEEE TPDS 2022 (arXiv:2009.13108); tests/data/niti/README.md says which choice comes from where.

A quantised tensor is a pair (q, e): q is int8, the value of an element is q * 2**e, and e is one Python int
for the whole tensor. Images are NCHW, batches come first. All arithmetic is carried in int64 and checked
against int32 wherever the definition says int32, so an overflow is an AssertionError and not a wrong answer.
Only the two quantisers at the border (`quantize_input`, `quantize_weight`) see floating point.
"""

import math

import numpy as np

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


# ---------------------------------------------------------------- integer primitives

def as_int32(x):
    """Assert that every element of `x` lies in int32; returns it in its int64 carrier."""
    x = np.asarray(x)
    assert np.issubdtype(x.dtype, np.integer), x.dtype
    x = x.astype(np.int64)
    assert x.size == 0 or (x.min() >= INT32_MIN and x.max() <= INT32_MAX), "accumulator leaves int32"
    return x


def saturate8(x):
    """SAT8: clamp to [-127, 127], int8."""
    return np.clip(x, -127, 127).astype(np.int8)


def max_abs(x):
    """MAXABS: largest magnitude as a Python int (|-2**31| is 2**31), 0 for an empty tensor."""
    return int(np.abs(np.asarray(x).astype(np.int64)).max(initial=0))


def bit_width(v):
    """BW: number of bits of the unsigned integer v, 0 for 0 (32 - clz in 32 bits)."""
    assert v >= 0
    return int(v).bit_length()


def truncate(x, s):
    """TRUNC: shift right by s >= 0 towards zero."""
    x = np.asarray(x).astype(np.int64)
    return np.sign(x) * (np.abs(x) >> s)


def round_half_away(x, s):
    """RHA: shift right by s >= 1 to nearest, halves away from zero."""
    assert s >= 1
    x = np.asarray(x).astype(np.int64)
    m = np.abs(x)
    return np.sign(x) * ((m >> s) + ((m >> (s - 1)) & 1))


def pseudo_stochastic(x, s):
    """PSTO: shift right by s >= 0; the discarded bits of the magnitude decide the rounding.

    Their upper ceil(s/2) bits are a probability, their lower floor(s/2) bits the random number it is compared
    with (doubled when s is odd, so that both have one scale). |x| < 2**62; for s >= 63 nothing is left.
    """
    assert s >= 0
    x = np.asarray(x).astype(np.int64)
    m = np.abs(x)
    assert m.size == 0 or int(m.max()) < 2**62
    # With |x| < 2**62, s >= 124 leaves no probability bit; numpy shifts by 64 or more are undefined.
    if s >= 124:
        return np.zeros_like(x)
    half = s >> 1
    p = m & ((1 << s) - 1) if s < 63 else m
    probability = p >> half
    random = p & ((1 << half) - 1)
    if s & 1:
        random = random << 1
    kept = m >> s if s < 63 else np.zeros_like(m)
    return np.sign(x) * (kept + (probability > random))


def stochastic(x, s, uniform):
    """STO: shift right by s >= 0, up with probability (discarded bits)/2**s.

    `uniform` holds one integer in [0, 2**s) per element.
    """
    x = np.asarray(x).astype(np.int64)
    uniform = np.asarray(uniform).astype(np.int64)
    assert uniform.shape == x.shape and (uniform >= 0).all() and (uniform < (1 << s)).all()
    m = np.abs(x)
    return np.sign(x) * ((m >> s) + ((m & ((1 << s) - 1)) > uniform))


# ---------------------------------------------------------------- counter-based generator

def philox4x32(counter, key):
    """Philox4x32-10 (Salmon et al., SC'11). counter: (..., 4), key: (..., 2), 32-bit words; returns (..., 4)."""
    mask = np.uint64(0xFFFFFFFF)
    low = np.uint64(32)
    c0, c1, c2, c3 = (np.asarray(counter)[..., i].astype(np.uint64) & mask for i in range(4))
    k0, k1 = (np.asarray(key)[..., i].astype(np.uint64) & mask for i in range(2))
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0  # 32 x 32 bits fit in 64
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> low) ^ c1 ^ k0, p1 & mask, (p0 >> low) ^ c3 ^ k1, p0 & mask
        k0 = (k0 + np.uint64(0x9E3779B9)) & mask
        k1 = (k1 + np.uint64(0xBB67AE85)) & mask
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def uniform_bits(seed, step, stream, count, bits):
    """`count` uniform integers in [0, 2**bits), element i depending only on (seed, step, stream, i); int64."""
    assert 0 <= seed < 2**64 and 0 <= step < 2**32 and 0 <= stream < 2**32 and 1 <= bits <= 32
    element = np.arange(count, dtype=np.uint64)
    counter = np.zeros((count, 4), np.uint64)
    counter[:, 0] = element >> np.uint64(2)
    counter[:, 1] = step
    counter[:, 2] = stream
    key = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint64)
    words = philox4x32(counter, np.broadcast_to(key, (count, 2)))
    word = words[np.arange(count), (element & np.uint64(3)).astype(np.int64)]
    return (word >> np.uint32(32 - bits)).astype(np.int64)


# ---------------------------------------------------------------- quantisers

def ceil_log2(value):
    """Exact ceil(log2(value)) of a positive finite float32, subnormals included."""
    mantissa, exponent = math.frexp(float(value))  # value = mantissa * 2**exponent, mantissa in [0.5, 1)
    assert value > 0 and math.isfinite(float(value))
    return exponent - 1 if mantissa == 0.5 else exponent


def quantize_input(x):
    """Float32 batch to (int8, exponent): one power of two scale from the batch maximum; may give -128."""
    x = np.asarray(x, np.float32)
    assert np.isfinite(x).all()
    largest = np.abs(x).max(initial=np.float32(0))
    if largest == 0:
        return np.zeros(x.shape, np.int8), 0
    b = ceil_log2(largest)
    # A power of two scale is exact in float64 for every finite float32; in float32 it could overflow.
    scaled = np.ldexp(x.astype(np.float64), 7 - b)
    return np.clip(np.rint(scaled), -128, 127).astype(np.int8), b - 7


def quantize_weight(w):
    """Float32 weight or bias to (int8, exponent). The stored pair rescales the tensor by up to 2; NITI does so too.

    All zeros (a fresh bias; the paper has no biases) get exponent -14, so that adding them does not push the
    activations out of their eight bits."""
    w = np.asarray(w, np.float32)
    assert np.isfinite(w).all()
    largest = np.abs(w).max(initial=np.float32(0))
    if largest == 0:
        return np.zeros(w.shape, np.int8), -14
    scaled = (w / largest) * np.float32(127)
    assert scaled.dtype == np.float32
    return np.rint(scaled).astype(np.int8), ceil_log2(largest) - 7


def requantize(accumulator, exponent):
    """int32 accumulator to (int8, exponent): keep 7 magnitude bits of the largest element, nearest rounding."""
    accumulator = as_int32(accumulator)
    s = bit_width(max_abs(accumulator)) - 7
    if s > 0:
        return saturate8(round_half_away(accumulator, s)), exponent + s
    return accumulator.astype(np.int8), exponent


def quantize_gradient(accumulator, mu):
    """int32 gradient accumulator to the int8 step; mu is the number of magnitude bits kept, may be 0 or less."""
    accumulator = as_int32(accumulator)
    b = bit_width(max_abs(accumulator))
    if b == 0:
        return np.zeros(accumulator.shape, np.int8)
    s = b - mu
    return saturate8(accumulator) if s < 1 else saturate8(pseudo_stochastic(accumulator, s))


def update(weight, gradient):
    """W <- SAT8(W - g), the difference taken wide."""
    return saturate8(weight.astype(np.int64) - gradient.astype(np.int64))


# ---------------------------------------------------------------- elementwise layers

def aligned_add(a, ea, b, eb):
    """Sum of two int8 tensors (b may broadcast to a's shape) of different exponents; returns (int8, exponent)."""
    wide_a, wide_b = np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64)
    difference = abs(ea - eb)
    exponent = ea
    if difference == 1:
        exponent = min(ea, eb)
        wide_a, wide_b = (wide_a << (ea - exponent)), (wide_b << (eb - exponent))
    elif difference > 1:
        exponent = max(ea, eb)
        wide_a, wide_b = pseudo_stochastic(wide_a, exponent - ea), pseudo_stochastic(wide_b, exponent - eb)
    total = as_int32(wide_a + wide_b)
    if max_abs(total) > 127:
        return saturate8(pseudo_stochastic(total, 2)), exponent + 2
    return total.astype(np.int8), exponent


def concat(operands):
    """Channel concatenation of [(q, e), ...]: all are brought to the largest exponent by PSTO."""
    exponent = max(e for _, e in operands)
    return np.concatenate([pseudo_stochastic(q, exponent - e) for q, e in operands], axis=1).astype(np.int8), exponent


def relu(q):
    return np.maximum(q, 0).astype(np.int8)


def relu_backward(error, q_in):
    return np.where(q_in > 0, error, 0).astype(np.int8)


# ---------------------------------------------------------------- windows

def output_size(size, kernel, stride, dilation, before, after):
    span = dilation * (kernel - 1) + 1
    assert size + before + after >= span
    return (size + before + after - span) // stride + 1


def window_views(padded, kernel, strides, dilations, out):
    """Yield (row, column, view): for each kernel position, in row-major order, the elements it meets, as a view."""
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilations[0], j * dilations[1]
            rows = slice(top, top + strides[0] * (out[0] - 1) + 1, strides[0])
            columns = slice(left, left + strides[1] * (out[1] - 1) + 1, strides[1])
            yield i, j, padded[:, :, rows, columns]


def pad(x, pads, value=0):
    """int64 copy of x with `pads` = (top, left, bottom, right) of `value`."""
    top, left, bottom, right = pads
    return np.pad(x.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def crop(padded, pads, shape):
    top, left, _, _ = pads
    return padded[:, :, top:top + shape[2], left:left + shape[3]]


def window_sizes(shape, kernel, strides, dilations, pads):
    return (output_size(shape[2], kernel[0], strides[0], dilations[0], pads[0], pads[2]),
            output_size(shape[3], kernel[1], strides[1], dilations[1], pads[1], pads[3]))


# ---------------------------------------------------------------- convolution and linear
# x: (B, C, H, W); w: (O, C/groups, kh, kw); error: (B, O, Ho, Wo). Results are int32 accumulators.

def _columns(x, w, strides, dilations, pads, groups):
    """Gathered inputs (groups, B*Ho*Wo, C/groups*kh*kw) and the output size."""
    kernel = w.shape[2:]
    out = window_sizes(x.shape, kernel, strides, dilations, pads)
    batch, channels = x.shape[:2]
    assert channels == w.shape[1] * groups and w.shape[0] % groups == 0
    gathered = np.stack([v for _, _, v in window_views(pad(x, pads), kernel, strides, dilations, out)], axis=2)
    gathered = gathered.reshape(batch, groups, w.shape[1] * kernel[0] * kernel[1], out[0] * out[1])
    return gathered.transpose(1, 0, 3, 2).reshape(groups, batch * out[0] * out[1], -1), out


def _per_group(error, groups):
    """(B, O, Ho, Wo) to (groups, B*Ho*Wo, O/groups)."""
    batch, outputs, height, width = error.shape
    split = error.astype(np.int64).reshape(batch, groups, outputs // groups, height * width)
    return split.transpose(1, 0, 3, 2).reshape(groups, batch * height * width, outputs // groups)


def conv(x, w, strides, dilations, pads, groups):
    columns, out = _columns(x, w, strides, dilations, pads, groups)
    matrix = w.astype(np.int64).reshape(groups, w.shape[0] // groups, -1)
    y = columns @ matrix.transpose(0, 2, 1)
    y = y.reshape(groups, x.shape[0], out[0], out[1], -1).transpose(1, 0, 4, 2, 3)
    return as_int32(y.reshape(x.shape[0], w.shape[0], out[0], out[1]))


def conv_backward_input(error, w, shape, strides, dilations, pads, groups):
    """Accumulator of the error at the input of shape `shape`: every product goes back to where its operand came from."""
    kernel = w.shape[2:]
    batch, channels, height, width = shape
    out = error.shape[2:]
    matrix = w.astype(np.int64).reshape(groups, w.shape[0] // groups, -1)
    spread = (_per_group(error, groups) @ matrix).reshape(groups, batch, out[0], out[1], w.shape[1], *kernel)
    spread = spread.transpose(1, 0, 4, 2, 3, 5, 6).reshape(batch, channels, out[0], out[1], *kernel)
    padded = np.zeros((batch, channels, height + pads[0] + pads[2], width + pads[1] + pads[3]), np.int64)
    for i, j, view in window_views(padded, kernel, strides, dilations, out):
        view += spread[..., i, j]
    return as_int32(crop(padded, pads, shape))


def conv_backward_weight(error, x, w, strides, dilations, pads, groups):
    columns, _ = _columns(x, w, strides, dilations, pads, groups)
    return as_int32((_per_group(error, groups).transpose(0, 2, 1) @ columns).reshape(w.shape))


def linear(x, w):
    """x: (B, I), w: (O, I) -> (B, O) accumulator."""
    return as_int32(x.astype(np.int64) @ w.astype(np.int64).T)


def linear_backward_input(error, w):
    return as_int32(error.astype(np.int64) @ w.astype(np.int64))


def linear_backward_weight(error, x):
    return as_int32(error.astype(np.int64).T @ x.astype(np.int64))


def bias_backward(error):
    """Accumulator of the bias gradient: the sum of the error over all axes but the channel axis 1."""
    return as_int32(error.astype(np.int64).sum(axis=tuple(i for i in range(error.ndim) if i != 1)))


# ---------------------------------------------------------------- pooling

def max_pool(x, kernel, strides, pads):
    """Returns (int8 maxima, winner): winner is the row-major index in the window of its first maximum."""
    out = window_sizes(x.shape, kernel, strides, (1, 1), pads)
    outside = -1000  # below every int8, so padding never wins
    stacked = np.stack([v for _, _, v in window_views(pad(x, pads, outside), kernel, strides, (1, 1), out)])
    y = stacked.max(axis=0)
    assert (y > outside).all(), "a window lies wholly in the padding"
    return y.astype(np.int8), stacked.argmax(axis=0)  # numpy's argmax is the first maximum


def max_pool_backward(error, winner, shape, kernel, strides, pads):
    """Errors of overlapping windows meet in wide integers and saturate once."""
    padded = np.zeros((shape[0], shape[1], shape[2] + pads[0] + pads[2], shape[3] + pads[1] + pads[3]), np.int64)
    for i, j, view in window_views(padded, kernel, strides, (1, 1), error.shape[2:]):
        view += np.where(winner == i * kernel[1] + j, error.astype(np.int64), 0)
    return saturate8(crop(padded, pads, shape))


def _window_count(kernel):
    """(elements of the window, log2 of it or None when it is no power of two)."""
    count = kernel[0] * kernel[1]
    return count, (count.bit_length() - 1 if count & (count - 1) == 0 else None)


def reciprocal_multiply(total, count):
    """SAT8(RHA(total * round(2**15 / count), 15)): division by a window that is no power of two."""
    factor = (2 * 2**15 + count) // (2 * count)  # round(2**15/count); a half cannot occur for such counts
    return saturate8(round_half_away(as_int32(total * factor), 15))


def average_pool(x, exponent, kernel, strides):
    """Unpadded average; returns (int8, exponent)."""
    out = window_sizes(x.shape, kernel, strides, (1, 1), (0, 0, 0, 0))
    total = as_int32(sum(v for _, _, v in window_views(x.astype(np.int64), kernel, strides, (1, 1), out)))
    count, log2 = _window_count(kernel)
    if log2 is not None:
        return requantize(total, exponent - log2)
    return reciprocal_multiply(total, count), exponent


def average_pool_backward(error, exponent, shape, kernel, strides):
    """Each input position sums the errors of the windows that contain it; returns (int8, exponent)."""
    total = np.zeros(shape, np.int64)
    for _, _, view in window_views(total, kernel, strides, (1, 1), error.shape[2:]):
        view += error.astype(np.int64)
    count, log2 = _window_count(kernel)
    if log2 is not None:
        return saturate8(total), exponent - log2
    return reciprocal_multiply(total, count), exponent


def _partial_counts(shape, out, kernel, strides, pads):
    """int64 (out): how many elements of each window lie in the operand."""
    inside = np.zeros((1, 1, shape[2] + pads[0] + pads[2], shape[3] + pads[1] + pads[3]), np.int64)
    crop(inside, pads, (1, 1, *shape[2:]))[...] = 1
    return sum(v for _, _, v in window_views(inside, kernel, strides, (1, 1), out))[0, 0]


def partial_average_pool(x, exponent, kernel, strides, pads):
    """Average over the elements inside the operand, where windows hold different counts; returns (int8, exponent).

    The accumulator of a window is its sum times round(2**15 / count), count its own; it is then requantised.
    """
    out = window_sizes(x.shape, kernel, strides, (1, 1), pads)
    counts = _partial_counts(x.shape, out, kernel, strides, pads)
    assert counts.min() != counts.max(), "all windows are alike"
    views = window_views(pad(x, pads, 0).astype(np.int64), kernel, strides, (1, 1), out)
    total = sum(v for _, _, v in views)
    return requantize(as_int32(total * ((2**16 + counts) // (2 * counts))), exponent - 15)


def partial_average_pool_backward(error, exponent, shape, kernel, strides, pads):
    """Errors times round(2**15 / count) of their windows add up wide; SAT8(RHA(sum, 15)); returns (int8, exponent)."""
    counts = _partial_counts(shape, error.shape[2:], kernel, strides, pads)
    shares = error.astype(np.int64) * ((2**16 + counts) // (2 * counts))
    padded = np.zeros((*shape[:2], shape[2] + pads[0] + pads[2], shape[3] + pads[1] + pads[3]), np.int64)
    for _, _, view in window_views(padded, kernel, strides, (1, 1), error.shape[2:]):
        view += shares
    return saturate8(round_half_away(as_int32(crop(padded, pads, shape)), 15)), exponent


# ---------------------------------------------------------------- loss

def loss_probabilities(logits, exponent, labels):
    """11-bit integer softmax minus one-hot: int64 (B, classes), every row sums to 0.

    logits: int8 (B, classes) of value logits * 2**exponent; labels: (B,).
    """
    s = np.asarray(logits).astype(np.int64)
    if exponent > -7:
        s = truncate(s * 47274, 15)  # times log2(e)
        if exponent >= 0:
            # Scores are integers, so a shift by 4 already moves distinct ones more than the window of 10 apart:
            # clamping the shift changes no result, it only keeps the value in range.
            s = s << min(exponent, 24)
        else:
            s = truncate(s, -exponent)
        s = np.maximum(s - (s.max(axis=1, keepdims=True) - 10), 0)
        u = (np.int64(1) << s) - 1
    elif exponent >= -25:
        u = (1 << (1 - 2 * exponent)) + s * (1 << (1 - exponent)) + s * s  # 2**(1-2E) * (1 + x + x*x/2)
    else:
        u = np.ones_like(s)  # u * 2048 would leave int64; exp(x) is 1 to within 2**-18 here
    p = u * 2048 // u.sum(axis=1, keepdims=True)
    p[np.arange(len(p)), labels] -= p.sum(axis=1)
    return p


def loss_gradient(logits, exponent, labels, seed, step, stream=0):
    """Softmax cross-entropy error at the logits, int8; its exponent is 0. Stochastic rounding by 4 bits."""
    p = loss_probabilities(logits, exponent, labels)
    uniform = uniform_bits(seed, step, stream, p.size, 4).reshape(p.shape)
    return saturate8(stochastic(p, 4, uniform))
