"""Checks operations.py against scalar evaluations in fractions and double precision, and network.py against finite differences.

Run: python check.py. Nothing here calls the function under check to obtain an expectation; the generator's known answers are
checked by ../niti/check_niti.py.
"""

import math
from fractions import Fraction

import numpy as np

import make_fixtures
import network as net
import operations as ops

rng = np.random.default_rng(20260131)


def unit(e):
    return Fraction(2) ** e


def check_random_bits():
    def scalar(x):
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
            x = (x ^ x >> shift) * factor % 2**32
        return x
    words = [0, 1, 2**32 - 1, *rng.integers(0, 2**32, 200).tolist()]
    assert ops.mix(np.array(words)).tolist() == [scalar(w) for w in words]
    assert len(set(ops.mix(np.arange(2**16) * 65537 % 2**32).tolist())) == 2**16
    for s in range(0, 64):
        x = rng.integers(-(2**31), 2**31, 50)
        bits = rng.integers(0, 2**32, 50)
        found = ops.shift_dithered(x, s, bits)
        for v, b, y in zip(x.tolist(), bits.tolist(), found.tolist()):
            # As if in one step, x / 2**s rounded by a fraction of the draw: exact up to 31 bits, else within 2**-31.
            draw = Fraction(b >> (32 - min(s, 31)), 2 ** min(s, 31))
            exact = Fraction(v, 2**s)
            assert math.floor(exact - Fraction(s > 31, 2**31) + draw) <= y <= math.floor(exact + draw), (v, s, b)
    for x in range(-40, 40):  # every draw of 3 bits: the mean is the quotient
        draws = ops.shift_dithered(np.full(8, x), 3, np.arange(8) << 29)
        assert int(draws.sum()) == x


def check_quantizers():
    for scale in (1e-40, 1e-20, 0.01, 1.0, 3.0, 1e20):
        x = (rng.normal(0, 1, 300) * scale).astype(np.float32)
        for (q, e), bits, signed in ((ops.quantize_parameter(x, "i8"), 7, True), (ops.quantize_parameter(x, "i16"), 15, True),
                                     (ops.quantize_exponent(x), 7, True), (ops.quantize_unsigned_float(x), 8, False)):
            assert 2 ** (bits - 1) <= np.abs(q).max() <= 2**bits, "a bit is wasted"
            for v, y in zip(x.tolist(), q.tolist()):
                v = Fraction(v) if signed or v > 0 else Fraction(0)
                # Half a unit; a whole one where the largest number is limited.
                allowed = unit(e) / 2 if abs(y) < 2**bits - 1 else unit(e)
                assert abs(y * unit(e) - v) <= allowed * (1 + Fraction(1, 2**20)), (v, y, e)
    x = rng.normal(0, 1, 300).astype(np.float32)
    assert ops.quantize_bias(x, -24)[0].tolist() == [round(Fraction(v) * 2**24) for v in x.tolist()]


def check_sums():
    for _ in range(400):
        bits = rng.integers(1, 31, 2)
        ex, eb = rng.integers(-60, 30, 2).tolist()
        x, b = (rng.integers(-(2 ** int(n)) + 1, 2 ** int(n), 5) for n in bits)
        x //= 2  # beside sums of 31 bits a bias may overflow; the definition wraps there
        y, e = ops.accumulate_bias(x, ex, b, eb)
        for p, q, r in zip(x.tolist(), b.tolist(), y.tolist()):
            exact = (p * unit(ex) + q * unit(eb)) / unit(e)
            # The sums lose less than a unit downward, the bias half of one.
            assert -Fraction(3, 2) < r - exact <= Fraction(1, 2) or abs(exact) >= 2**31 - 2, (p, q, r)
        for kinds in (("i8", "u8"), ("u8", "i8"), ("i8", "i32"), ("i32", "i32")):
            operands = [rng.integers(max(low, -(2**30)), min(high, 2**30), 5) for low, high in (ops.RANGES[k] for k in kinds)]
            y, e = ops.aligned_sum(operands[0], ex, kinds[0], operands[1], eb, kinds[1])
            for p, q, r in zip(operands[0].tolist(), operands[1].tolist(), y.tolist()):
                assert -2 < r - (p * unit(ex) + q * unit(eb)) / unit(e) <= 0
        for kind, x in (("i32", x), ("u8", rng.integers(0, 256, 5))):
            low, high = sorted(np.round(rng.normal(0, 5, 2), 1).tolist())
            y, _ = ops.clip(x, ex, low, high, kind)
            passed = ops.clip_gradient(x, ex, np.ones(5, np.int64), low, high)
            for p, r, gate in zip(x.tolist(), y.tolist(), passed.tolist()):
                value = p * unit(ex)
                assert gate == (Fraction(low) < value < Fraction(high))
                inside = Fraction(low) <= r * unit(ex) <= Fraction(high)
                assert (r == p) if Fraction(low) <= value <= Fraction(high) else (inside or abs(high - low) < unit(ex) or
                                                                                 r in ops.RANGES[kind])


def check_float_functions():
    x = np.concatenate([rng.uniform(-87, 88, 5000), rng.uniform(-1, 1, 5000)]).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(ops.exp32(x) - exact) <= np.spacing(exact.astype(np.float32))).all()
    x = np.concatenate([rng.uniform(0.5, 2, 5000), np.exp(rng.uniform(-80, 80, 5000))]).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    assert (np.abs(ops.log32(x) - exact) <= np.abs(np.spacing(exact.astype(np.float32)))).all()
    logits, labels = rng.normal(0, 3, (6, 5)).astype(np.float32), rng.integers(0, 5, 6)
    p = np.exp(logits.astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    assert abs(ops.cross_entropy(logits, labels) + np.log(p[np.arange(6), labels]).mean()) < 1e-6
    p[np.arange(6), labels] -= 1
    assert np.abs(ops.cross_entropy_gradient(logits, labels) - p / 6).max() < 1e-7


def check_steps():
    """The mean of many steps is the real step."""
    g, eg, e, rate, m = np.array([1000, -1000, 3, -7]), -22, -14, 2.0**-7, np.array([100, -100, 7, 0])
    found = np.mean([ops.momentum_step(m, e, g, eg, rate, 0.9, "i16", (5, i), 3) for i in range(4000)], axis=0)
    wanted = m * (230 / 256) + g * 2.0 ** (eg - e) * rate
    assert np.abs(found - wanted).max() < 0.05, (found, wanted)


def float_windows(x, node, outside):
    """(B, C, Ho, Wo, kh, kw) windows of a padded image."""
    top, left, bottom, right = node["pads"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=outside)
    rows, columns = node["strides"]
    return np.lib.stride_tricks.sliding_window_view(padded, node["kernel"], axis=(2, 3))[:, :, ::rows, ::columns]


def float_loss(nodes, images, labels, real):
    """Loss in double precision; the arithmetic that the integers approximate."""
    values = {net.INPUT: images}
    for node in nodes:
        name, op = node["name"], node["op"]
        a = values[node["inputs"][0]]
        if op == "conv":
            x = np.split(float_windows(a, node, 0.0), node["groups"], axis=1)
            w = np.split(real[name + ".weight"], node["groups"], axis=0)
            y = np.concatenate([np.einsum("bchwij,ocij->bohw", u, v) for u, v in zip(x, w)], axis=1)
            y = y + real[name + ".bias"][:, None, None] if node["bias"] else y
        elif op == "norm":
            mean, variance = a.mean(axis=(0, 2, 3), keepdims=True), a.var(axis=(0, 2, 3), keepdims=True)
            scale, bias = (real[f"{name}.{kind}"][:, None, None] for kind in ("weight", "bias"))
            y = (a - mean) / np.sqrt(variance + net.EPSILON) * scale + bias
        elif op == "linear":
            y = a @ real[name + ".weight"].T + real[name + ".bias"]
        elif op == "relu":
            y = np.maximum(a, 0)
        elif op == "hardswish":
            y = a * np.clip(a / 6 + 0.5, 0, 1)
        elif op == "clip":
            y = np.clip(a, node["low"], node["high"])
        elif op == "maxpool":
            y = float_windows(a, node, -np.inf).max(axis=(4, 5))
        elif op == "avgpool":
            y = np.nanmean(float_windows(a, node, np.nan), axis=(4, 5))
        elif op == "flatten":
            y = a.reshape(len(a), -1)
        elif op == "add":
            y = a + values[node["inputs"][1]]
        values[name] = y
    rows = y - y.max(axis=1, keepdims=True)
    return (np.log(np.exp(rows).sum(axis=1)) - rows[np.arange(len(labels)), labels]).mean()


def check_gradients():
    """Every gradient against finite differences: its direction and its size, exponent included."""
    for name, nodes, shape, *rest in make_fixtures.cases():
        arrays, _, parameters = make_fixtures.train(name, nodes, shape, *rest)
        model = net.Network(nodes, parameters, name not in make_fixtures.IN_FLOAT)
        images, labels = arrays["images"][0], arrays["labels"][0]
        # The mean over seeds: rounding is right in the mean, and behind batch normalization little is left of large errors.
        runs = [net.Step(model, (seed, 0)) for seed in range(50)]
        runs = [step.backward(step.forward(images), labels) for step in runs]
        gradients = {p: np.mean([run[p][0] * 2.0 ** (run[p][1] or 0) for run in runs], axis=0) for p in runs[0]}
        q, e = ops.quantize_exponent(images)
        x = q * 2.0**e
        real = {}
        for p in gradients:
            if model.elements[p] == "f32":
                real[p] = model.state[p].astype(np.float64)
                continue
            byte = model.weight_byte(p[:-7]) if p.endswith(".weight") else (model.state[p], model.exponents[p])
            real[p] = byte[0] * 2.0 ** byte[1]
        worst = (1.0, 1.0)
        for p in gradients:
            integer, wanted = gradients[p], np.zeros(real[p].shape)
            for index in np.ndindex(wanted.shape):
                sides = []
                for sign in (1, -1):
                    moved = dict(real)
                    moved[p] = real[p].copy()
                    moved[p][index] += sign * 1e-6
                    sides.append(float_loss(nodes, x, labels, moved))
                wanted[index] = (sides[0] - sides[1]) / 2e-6
            cosine = (integer * wanted).sum() / np.sqrt((integer**2).sum() * (wanted**2).sum())
            ratio = np.sqrt((integer**2).sum() / (wanted**2).sum())
            # A normalization cancels most of an error on its way to the parameters before it; by integers what is left is of the size of
            # roundings: sizes are compared to 20 % there, and of norm2's scale and bias, of which least is left, nothing.
            integers = name == "integers"
            if integers and p.startswith("norm2"):
                continue
            assert cosine > 0.97 and abs(ratio - 1) < (0.2 if integers else 0.1), (name, p, cosine, ratio)
            worst = min(worst, (cosine, ratio))
        print(f"{name}: least cosine {worst[0]:.4f}, its size ratio {worst[1]:.3f}")


if __name__ == "__main__":
    for check in (check_random_bits, check_quantizers, check_sums, check_float_functions, check_steps, check_gradients):
        check()
        print("ok", check.__name__)
