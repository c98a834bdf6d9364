"""Checks niti.py against independent scalar evaluations in Python integers and fractions, and published vectors.

Run: python check_niti.py. Nothing here calls the function under check to obtain an expectation.
"""

import itertools
from fractions import Fraction

import numpy as np

import niti

rng = np.random.default_rng(20090131)


def check_philox():
    """The known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10)."""
    vectors = [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for counter, key, expected in vectors:
        words = [np.array([int(w, 16) for w in text.split()], np.uint64) for text in (counter, key, expected)]
        assert (niti.philox4x32(words[0], words[1]) == words[2]).all(), counter
    draws = niti.uniform_bits(0, 0, 0, 4, 4)
    assert draws.tolist() == [0x6, 0xE, 0xB, 0x9], draws
    # Element 5 is word 1 of counter block 1: order and count of the other draws do not matter.
    block = niti.philox4x32(np.array([1, 7, 2, 0], np.uint64), np.array([0x89ABCDEF, 0x01234567], np.uint64))
    assert niti.uniform_bits(0x0123456789ABCDEF, 7, 2, 6, 32)[5] == int(block[1])


def text_psto(x, s):
    """PSTO on the binary digits as text: the discarded s digits split into a probability and a random number."""
    digits = format(abs(x), "b").zfill(s + 1)
    kept, discarded = (digits[:-s], digits[-s:]) if s else (digits, "")
    split = len(discarded) - s // 2
    probability, random = discarded[:split], discarded[split:] + "0" * (s % 2)
    up = int(probability or "0", 2) > int(random or "0", 2)
    magnitude = int(kept, 2) + up
    return -magnitude if x < 0 else magnitude


def check_shifts():
    extremes = [0, 1, 2, 3, 127, 128, 2**31 - 1, 2**31]
    values = sorted({sign * v for v in extremes + [2**k + d for k in range(32) for d in (-1, 0, 1) if 2**k + d <= 2**31]
                     for sign in (1, -1)} | set(rng.integers(-2**31, 2**31, 300).tolist()))
    for s in list(range(0, 48)) + [62, 63, 64, 100, 123, 124, 200]:
        assert niti.pseudo_stochastic(np.array(values), s).tolist() == [text_psto(v, s) for v in values], s
        if 1 <= s < 40:
            def half_away(v):
                scaled = Fraction(abs(v), 2**s)
                n = int(scaled) + (scaled - int(scaled) >= Fraction(1, 2))
                return -n if v < 0 else n
            assert niti.round_half_away(np.array(values), s).tolist() == [half_away(v) for v in values], s
    # Mean bias in units of the last place for a uniform remainder.
    for s, bias in {1: .25, 2: -.125, 3: .062, 4: -.094, 5: .016, 6: -.055, 8: -.029, 10: -.015, 12: -.008}.items():
        x = np.arange(2**s)
        mean = (niti.pseudo_stochastic(x, s) - x / 2**s).mean()
        assert abs(mean - bias) < 0.001, (s, mean)
    # A remainder p out of 16 goes up for exactly p of the 16 draws.
    for p, sign in itertools.product(range(16), (1, -1)):
        up = sum(abs(int(niti.stochastic(np.array(sign * (48 + p)), 4, np.array(u)))) - 3 for u in range(16))
        assert up == p


def weight_ties(rng, largest):
    """Float32 elements next to (n + 1/2) / 127 of the maximum, which comes first."""
    w = (largest * (rng.integers(-127, 127, 300) + 0.5) / 127).astype(np.float32)
    for _ in range(2):
        w = np.where(rng.random(300) < 0.5, np.nextafter(w, np.float32(rng.choice([-9, 9]))), w)
    return np.concatenate([[largest], w]).astype(np.float32)


def check_quantisers():
    powers = [np.float32(2.0) ** np.float32(k) for k in range(-149, 128)]
    values = powers + [np.nextafter(v, np.float32(0)) for v in powers[1:]] + [np.nextafter(v, np.float32(3e38)) for v in powers]
    for v in values:
        exact, b = Fraction(float(v)), niti.ceil_log2(v)
        assert Fraction(2) ** (b - 1) < exact <= Fraction(2) ** b, v
    for scale in (1e-44, 1e-30, 0.3, 1.0, 2.0, 77.0, 3e38):
        x = (rng.uniform(-1, 1, 200) * scale).astype(np.float32)
        x[:3] = [0, scale, -scale] if rng.integers(2) else [0, -scale, -scale]
        q, e = niti.quantize_input(x)
        largest = max(abs(Fraction(float(v))) for v in x)
        assert Fraction(2) ** (e + 6) < largest <= Fraction(2) ** (e + 7)
        # Python's round of a Fraction is to the nearest, ties to even.
        assert q.tolist() == [min(127, max(-128, round(Fraction(float(v)) / Fraction(2) ** e))) for v in x]
    assert niti.quantize_input(np.float32([-4, 4, 0.03125 * 0.5]))[0].tolist() == [-128, 127, 0]
    assert niti.quantize_weight(np.float32([0.5, -0.5, 0.25])) [0].tolist() == [127, -127, 64]  # 63.5 goes to even
    assert niti.quantize_weight(np.float32([0.5, -0.5]))[1] == -8 and niti.quantize_weight(np.float32([0.51]))[1] == -7
    # Both steps of w / M * 127 round to float32. Elements within a few places of a tie tell any other order apart.
    other_order = 0
    for _ in range(60):
        largest = np.float32(rng.uniform(0.01, 4))
        w = weight_ties(rng, largest)
        # float64 quotients and products of float32 operands, rounded once more, are the float32 ones.
        ratio = [np.float32(float(v) / float(largest)) for v in w]
        expected = [round(Fraction(float(np.float32(float(r) * 127.0)))) for r in ratio]
        assert niti.quantize_weight(w)[0].tolist() == expected
        other_order += sum(int(np.rint(v * (np.float32(127) / largest))) != n for v, n in zip(w, expected))
    assert other_order > 0, "the elements do not tell the order of the operations"
    for quantize, exponent in ((niti.quantize_input, 0), (niti.quantize_weight, -14)):
        q, e = quantize(np.zeros(3, np.float32))
        assert q.tolist() == [0, 0, 0] and e == exponent

    # By hand: |max| 300 has 9 bits, shift 2; 298/4 = 74.5 goes away from zero.
    q, e = niti.requantize(np.array([300, -298, 1, 2]), -9)
    assert q.tolist() == [75, -75, 0, 1] and e == -7
    q, e = niti.requantize(np.array([128, -1]), 3)  # a power of two maximum needs its own bit
    assert q.tolist() == [64, -1] and e == 4
    q, e = niti.requantize(np.array([255, 1]), 0)  # 127.5 rounds to 128 and saturates
    assert q.tolist() == [127, 1] and e == 1
    q, e = niti.requantize(np.array([-127, 5]), 4)
    assert q.tolist() == [-127, 5] and e == 4
    q, e = niti.requantize(np.array([-2**31, 0]), 0)
    assert q.tolist() == [-64, 0] and e == 25

    assert niti.quantize_gradient(np.array([0, 0]), -3).tolist() == [0, 0]
    assert niti.quantize_gradient(np.array([31, -31]), 5).tolist() == [31, -31]
    assert niti.quantize_gradient(np.array([300]), 20).tolist() == [127]
    for mu in (5, 3, 0, -1, -20):
        x = rng.integers(-2**20, 2**20, 100)
        s = int(abs(x).max()).bit_length() - mu
        assert niti.quantize_gradient(x, mu).tolist() == [text_psto(int(v), s) for v in x]
    assert niti.update(np.int8([127, -127, 0]), np.int8([-127, 127, -5])).tolist() == [127, -127, 5]
    try:
        niti.requantize(np.array([2**31]), 0)
    except AssertionError:
        pass
    else:
        raise RuntimeError("an accumulator beyond int32 went unnoticed")


def check_aligned_add():
    def expected(a, ea, b, eb):
        d = abs(ea - eb)
        if d > 1:
            e = max(ea, eb)
            a, b = [text_psto(v, e - ea) for v in a], [text_psto(v, e - eb) for v in b]
        else:
            e = min(ea, eb)
            a, b = [v * 2 ** (ea - e) for v in a], [v * 2 ** (eb - e) for v in b]
        total = [v + w for v, w in zip(a, b)]
        if max(abs(v) for v in total) > 127:
            return [max(-127, min(127, text_psto(v, 2))) for v in total], e + 2
        return total, e

    for ea, eb, limit in itertools.product((-9, 0, 3), range(-45, 45, 1), (128, 40)):
        a, b = rng.integers(-limit, limit, 20).tolist(), rng.integers(-limit, limit, 20).tolist()
        q, e = niti.aligned_add(np.int8(a), ea, np.int8(b), eb)
        assert q.dtype == np.int8 and (q.tolist(), e) == expected(a, ea, b, eb), (ea, eb)


def naive_conv(x, w, error, strides, dilations, pads, groups):
    """Accumulators (y, dX, dW) by visiting every product once."""
    (batch, _, height, width), (outputs, per_group, kh, kw) = x.shape, w.shape
    ho = (height + pads[0] + pads[2] - dilations[0] * (kh - 1) - 1) // strides[0] + 1
    wo = (width + pads[1] + pads[3] - dilations[1] * (kw - 1) - 1) // strides[1] + 1
    y = np.zeros((batch, outputs, ho, wo), object)
    dx, dw = np.zeros(x.shape, object), np.zeros(w.shape, object)
    if error is None:
        error = rng.integers(-127, 128, y.shape)
    for b, o, r, c, k, i, j in itertools.product(*map(range, (batch, outputs, ho, wo, per_group, kh, kw))):
        row, column = r * strides[0] + i * dilations[0] - pads[0], c * strides[1] + j * dilations[1] - pads[1]
        if 0 <= row < height and 0 <= column < width:
            channel = o // (outputs // groups) * per_group + k
            y[b, o, r, c] += int(x[b, channel, row, column]) * int(w[o, k, i, j])
            dx[b, channel, row, column] += int(error[b, o, r, c]) * int(w[o, k, i, j])
            dw[o, k, i, j] += int(error[b, o, r, c]) * int(x[b, channel, row, column])
    return error.astype(np.int8), y, dx, dw


def check_conv():
    cases = [((2, 3, 5, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
             ((2, 4, 7, 6), (6, 2, 3, 2), (2, 1), (1, 2), (0, 1, 2, 1), 2),
             ((1, 3, 8, 9), (6, 1, 3, 3), (2, 3), (2, 1), (2, 0, 1, 3), 3),
             ((3, 2, 4, 4), (5, 2, 1, 1), (3, 2), (1, 1), (0, 0, 0, 0), 1)]
    for shape, weight, *geometry in cases:
        x, w = rng.integers(-128, 128, shape, np.int8), rng.integers(-127, 128, weight, np.int8)
        error, y, dx, dw = naive_conv(x, w, None, *geometry)
        assert (niti.conv(x, w, *geometry) == y).all()
        assert (niti.conv_backward_input(error, w, shape, *geometry) == dx).all()
        assert (niti.conv_backward_weight(error, x, w, *geometry) == dw).all()
    x, w, error = (rng.integers(-128, 128, s, np.int8) for s in ((3, 4), (5, 4), (3, 5)))
    # A linear layer is a 1x1 convolution on a 1x1 image.
    _, y, dx, dw = naive_conv(x[..., None, None], w[..., None, None], error[..., None, None], (1, 1), (1, 1), (0,) * 4, 1)
    assert (niti.linear(x, w) == y[..., 0, 0]).all()
    assert (niti.linear_backward_input(error, w) == dx[..., 0, 0]).all()
    assert (niti.linear_backward_weight(error, x) == dw[..., 0, 0]).all()


def check_elementwise():
    x, error = np.int8([-128, -1, 0, 1, 127]), np.int8([5, -6, 7, -8, 9])
    assert niti.relu(x).tolist() == [0, 0, 0, 1, 127] and niti.relu_backward(error, x).tolist() == [0, 0, 0, -8, 9]
    a, b, c = (rng.integers(-128, 128, (2, n, 3, 2)).astype(np.int8) for n in (1, 3, 2))
    q, e = niti.concat([(a, -9), (b, -3), (c, -4)])
    assert e == -3 and q.dtype == np.int8 and (q[:, 1:4] == b).all()
    assert q[:, :1].reshape(-1).tolist() == [text_psto(int(v), 6) for v in a.reshape(-1)]
    assert q[:, 4:].reshape(-1).tolist() == [text_psto(int(v), 1) for v in c.reshape(-1)]


def check_pools():
    for kernel, strides, pads in (((3, 3), (2, 2), (1, 1, 1, 1)), ((2, 2), (2, 2), (0,) * 4), ((2, 3), (1, 2), (1, 0, 0, 2)),
                                  ((3, 3), (1, 1), (1, 1, 1, 1))):
        x = rng.integers(-128, -120, (2, 3, 6, 7), np.int8)  # negative with many ties: padding must not win
        out = niti.window_sizes(x.shape, kernel, strides, (1, 1), pads)
        error = rng.integers(-127, 128, (2, 3, *out), np.int8)
        y, back = np.zeros((2, 3, *out), int), np.zeros(x.shape, int)
        for b, c, r, s in itertools.product(range(2), range(3), range(out[0]), range(out[1])):
            best = None
            for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
                at = (b, c, r * strides[0] + i - pads[0], s * strides[1] + j - pads[1])
                if 0 <= at[2] < 6 and 0 <= at[3] < 7 and (best is None or x[at] > x[best]):
                    best = at
            y[b, c, r, s] = x[best]
            back[best] += error[b, c, r, s]
        maxima, winner = niti.max_pool(x, kernel, strides, pads)
        assert (maxima == y).all()
        got = niti.max_pool_backward(error, winner, x.shape, kernel, strides, pads)
        assert (got == np.clip(back, -127, 127)).all()
        assert kernel == (2, 2) or abs(back).max() > 127, "the saturation was not met"
    for kernel, strides in (((4, 4), (4, 4)), ((3, 3), (2, 2)), ((2, 2), (1, 1)), ((1, 3), (3, 1)), ((2, 4), (2, 3))):
        x = rng.integers(-128, 128, (2, 2, 9, 8), np.int8)
        out = niti.window_sizes(x.shape, kernel, strides, (1, 1), (0,) * 4)
        count = kernel[0] * kernel[1]
        error = rng.integers(-127, 128, (2, 2, *out), np.int8)
        total, back = np.zeros((2, 2, *out), int), np.zeros(x.shape, int)
        for b, c, r, s, i, j in itertools.product(*map(range, (2, 2, *out, *kernel))):
            at = (b, c, r * strides[0] + i, s * strides[1] + j)
            total[b, c, r, s] += x[at]
            back[at] += error[b, c, r, s]
        y, e = niti.average_pool(x, -5, kernel, strides)
        d, ed = niti.average_pool_backward(error, -9, x.shape, kernel, strides)
        if count in (4, 8, 16):
            wanted, e_wanted = niti.requantize(total, -5 - {4: 2, 8: 3, 16: 4}[count])
            assert (y == wanted).all() and e == e_wanted
            assert (d == np.clip(back, -127, 127)).all() and ed == -9 - {4: 2, 8: 3, 16: 4}[count]
        else:
            factor = round(Fraction(2**15, count))
            def divided(v):
                return int(np.clip(np.sign(v) * ((abs(int(v)) * factor * 2 + 2**15) // 2**16), -127, 127))
            assert (y == np.vectorize(divided)(total)).all() and e == -5
            assert (d == np.vectorize(divided)(back)).all() and ed == -9


def check_partial_pools():
    for kernel, strides, pads in (((3, 3), (1, 1), (1, 1, 1, 1)), ((2, 3), (2, 2), (1, 2, 0, 1)), ((1, 2), (1, 1), (0, 1, 0, 1))):
        x = rng.integers(-128, 128, (2, 2, 7, 8), np.int8)
        out = niti.window_sizes(x.shape, kernel, strides, (1, 1), pads)
        error = rng.integers(-127, 128, (2, 2, *out), np.int8)
        total, back = np.zeros((2, 2, *out), int), np.zeros(x.shape, object)
        for b, c, r, s in itertools.product(*map(range, (2, 2, *out))):
            rows = [v for i in range(kernel[0]) if 0 <= (v := r * strides[0] + i - pads[0]) < 7]
            columns = [v for j in range(kernel[1]) if 0 <= (v := s * strides[1] + j - pads[1]) < 8]
            factor = round(Fraction(2**15, len(rows) * len(columns)))
            for at in itertools.product([b], [c], rows, columns):
                total[b, c, r, s] += int(x[at]) * factor
                back[at] += int(error[b, c, r, s]) * factor
        y, e = niti.partial_average_pool(x, -5, kernel, strides, pads)
        wanted, e_wanted = niti.requantize(total, -20)
        assert (y == wanted).all() and e == e_wanted
        d, ed = niti.partial_average_pool_backward(error, -9, x.shape, kernel, strides, pads)
        def divided(v):
            return int(np.clip(np.sign(v) * ((abs(int(v)) * 2 + 2**15) // 2**16), -127, 127))
        assert (d == np.vectorize(divided)(back)).all() and ed == -9


def scalar_probabilities(logits, exponent, label):
    """One row of the integer softmax gradient, unbounded integers."""
    if exponent > -7:
        s = [(abs(v) * 47274 >> 15) * (1 if v >= 0 else -1) for v in logits]
        s = [v * 2**exponent if exponent >= 0 else (abs(v) >> -exponent) * (1 if v >= 0 else -1) for v in s]
        u = [2 ** max(v - (max(s) - 10), 0) - 1 for v in s]
    elif exponent < -25:
        u = [1 for _ in logits]
    else:
        u = [2 ** (1 - 2 * exponent) + v * 2 ** (1 - exponent) + v * v for v in logits]
    p = [v * 2048 // sum(u) for v in u]
    total = sum(p)
    p[label] -= total
    return p


def check_loss():
    for exponent, classes in itertools.product(list(range(-40, 30)) + [60, 200] + 20 * list(range(-6, 2)), (7, 8)):
        logits = rng.integers(-128, 128, (5, classes), np.int8)
        logits[0], logits[1], logits[2, :2] = 127, -128, (127, -128)
        labels = rng.integers(0, classes, 5)
        p = niti.loss_probabilities(logits, exponent, labels)
        expected = [scalar_probabilities([int(v) for v in row], exponent, int(t)) for row, t in zip(logits, labels)]
        assert p.tolist() == expected, exponent
        assert (p.sum(axis=1) == 0).all() and abs(p).max() <= 2048
        error = niti.loss_gradient(logits, exponent, labels, 9, 4)
        draws = niti.uniform_bits(9, 4, 0, 5 * classes, 4)
        for i, v in enumerate(p.reshape(-1).tolist()):
            magnitude = min(127, abs(v) // 16 + (abs(v) % 16 > draws[i]))
            assert error.reshape(-1)[i] == (magnitude if v > 0 else -magnitude)


if __name__ == "__main__":
    for check in (check_philox, check_shifts, check_quantisers, check_aligned_add, check_elementwise, check_conv,
                  check_pools, check_partial_pools, check_loss):
        check()
        print("ok", check.__name__)
