"""Input and output vectors of every NITI primitive over random and extreme values (primitives.npz)."""

import numpy as np

import niti

ROW = 16


def _extremes(bits=31):
    """0 and all +-(2**k - 1), 2**k, 2**k + 1 up to int32, both ends of int32 included."""
    values = {0, niti.INT32_MIN, -niti.INT32_MAX, niti.INT32_MAX}
    for k in range(bits):
        for v in (2**k - 1, 2**k, 2**k + 1):
            values |= {v, -v}
    return sorted(values)


def _mixed_magnitudes(rng, count):
    """Random int32 values, uniform in their number of bits."""
    bits = rng.integers(0, 32, count)
    return np.array([rng.integers(-(2**int(b)), 2**int(b)) for b in bits], np.int64).astype(np.int32)


def _shifts(rng, out):
    """Each value with each shift. PSTO has a table of its own for shifts beyond 31 bits."""
    values = np.concatenate([np.array(_extremes(), np.int64), _mixed_magnitudes(rng, 60)]).astype(np.int32)
    out["shift.x"] = values
    out["round_half_away.s"] = np.arange(1, 32, dtype=np.int32)
    out["round_half_away.y"] = np.stack([niti.round_half_away(values, int(s)) for s in out["round_half_away.s"]]).astype(np.int32)
    for name, shifts in (("pseudo_stochastic", range(0, 32)), ("pseudo_stochastic_wide", [*range(32, 40), 48, 62, 63, 64, 100])):
        out[name + ".s"] = np.array(shifts, np.int32)
        out[name + ".y"] = np.stack([niti.pseudo_stochastic(values, int(s)) for s in shifts]).astype(np.int32)
    x = np.concatenate([np.arange(-80, 81), rng.integers(-2**31, 2**31, 39)]).astype(np.int32)
    uniform = np.broadcast_to(np.arange(16, dtype=np.int32)[:, None], (16, len(x)))
    out["stochastic.x"], out["stochastic.uniform"] = x, uniform.copy()
    out["stochastic.s"] = np.array([4], np.int32)
    out["stochastic.y"] = np.stack([niti.stochastic(x, 4, u) for u in uniform]).astype(np.int32)


def _accumulators(rng):
    """Rows whose largest magnitude sits at every bit width, on and around powers of two, and zero."""
    rows = [np.zeros(ROW, np.int64)]
    for peak in [v for v in _extremes() if v]:
        row = rng.integers(-abs(peak), abs(peak) + 1, ROW)
        row[rng.integers(ROW)] = peak
        rows.append(np.clip(row, niti.INT32_MIN, niti.INT32_MAX))
    for _ in range(40):
        rows.append(_mixed_magnitudes(rng, ROW))
    return np.stack(rows).astype(np.int32)


def _tensor_quantisers(rng, out):
    accumulators = _accumulators(rng)
    exponents = rng.integers(-60, 30, len(accumulators)).astype(np.int32)
    results = [niti.requantize(row, int(e)) for row, e in zip(accumulators, exponents)]
    out["requantize.accumulator"], out["requantize.exponent"] = accumulators, exponents
    out["requantize.y"] = np.stack([q for q, _ in results])
    out["requantize.y_exponent"] = np.array([e for _, e in results], np.int32)

    out["gradient.accumulator"] = accumulators
    out["gradient.mu"] = np.array([8, 7, 5, 4, 3, 2, 1, 0, -1, -2, -5, -12], np.int32)
    table = [[niti.quantize_gradient(row, int(mu)) for row in accumulators] for mu in out["gradient.mu"]]
    out["gradient.y"] = np.array(table)
    widths = np.array([niti.bit_width(niti.max_abs(row)) for row in accumulators])
    out["gradient.shift"] = (widths[None, :] - out["gradient.mu"][:, None]).astype(np.int32)

    weights = rng.integers(-127, 128, 400).astype(np.int8)
    gradients = rng.integers(-127, 128, 400).astype(np.int8)
    weights[:4], gradients[:4] = (127, -127, 127, -127), (-127, 127, 127, -127)
    out["update.weight"], out["update.gradient"] = weights, gradients
    out["update.y"] = niti.update(weights, gradients)


def _aligned_add(rng, out):
    rows = []
    for difference in [*range(0, 10), 15, 16, 31, 32, 33, 40, 63, 64, 100]:
        for sign in (1, -1):
            for limit in (3, 63, 64, 128):
                base = int(rng.integers(-40, 20))
                a, b = (rng.integers(-limit, limit, ROW).clip(-limit, 127) for _ in range(2))
                if limit == 128:
                    a[:4], b[:4] = (127, -128, 127, -128), (127, -128, -128, 127)
                rows.append((a.astype(np.int8), base + sign * difference, b.astype(np.int8), base))
    results = [niti.aligned_add(*row) for row in rows]
    out["aligned_add.a"], out["aligned_add.b"] = np.stack([r[0] for r in rows]), np.stack([r[2] for r in rows])
    out["aligned_add.a_exponent"] = np.array([r[1] for r in rows], np.int32)
    out["aligned_add.b_exponent"] = np.array([r[3] for r in rows], np.int32)
    out["aligned_add.y"] = np.stack([q for q, _ in results])
    out["aligned_add.y_exponent"] = np.array([e for _, e in results], np.int32)


def _pools(rng, out):
    """Pooling both ways at the extremes: ties, -128, padding next to negative values, sums that saturate."""
    shape = (2, 3, 9, 8)
    for i, (kernel, strides, pads) in enumerate([((3, 3), (2, 2), (1, 1, 1, 1)), ((3, 3), (1, 1), (1, 1, 1, 1)),
                                                 ((2, 2), (2, 2), (0, 0, 0, 0)), ((2, 3), (1, 2), (1, 0, 0, 2))]):
        x = rng.integers(-128, (-123, 3)[i % 2], shape).astype(np.int8)
        y, winner = niti.max_pool(x, kernel, strides, pads)
        error = (127 - rng.integers(0, 9, y.shape)) * np.where(rng.random(y.shape) < 0.2, -1, 1)
        name = f"max_pool{i}."
        out[name + "kernel"], out[name + "strides"], out[name + "pads"] = (np.array(v, np.int32) for v in (kernel, strides, pads))
        out[name + "x"], out[name + "y"], out[name + "error"] = x, y, error.astype(np.int8)
        out[name + "back"] = niti.max_pool_backward(out[name + "error"], winner, shape, kernel, strides, pads)
    for i, (kernel, strides) in enumerate([((4, 4), (4, 4)), ((2, 2), (1, 1)), ((3, 3), (2, 2)), ((3, 2), (1, 1)),
                                           ((2, 4), (2, 3)), ((5, 7), (2, 1)), ((1, 1), (2, 1))]):
        x = rng.integers(-128, 128, shape).astype(np.int8)
        x[0] = rng.integers(-128, -120, shape[1:])
        y, y_exponent = niti.average_pool(x, -6, kernel, strides)
        error = ((127 - rng.integers(0, 9, y.shape)) * np.where(rng.random(y.shape) < 0.2, -1, 1)).astype(np.int8)
        back, back_exponent = niti.average_pool_backward(error, 2, shape, kernel, strides)
        name = f"average_pool{i}."
        out[name + "kernel"], out[name + "strides"] = np.array(kernel, np.int32), np.array(strides, np.int32)
        out[name + "x"], out[name + "y"], out[name + "error"], out[name + "back"] = x, y, error, back
        # x, y, error, back, in this order
        out[name + "exponents"] = np.array([-6, y_exponent, 2, back_exponent], np.int32)


def _loss(rng, out):
    """Seven classes over all exponents; eight too, where p of equal logits is exact and one ulp of u shows."""
    _loss_table(rng, out, "loss.", 7, [*range(-40, 21), 24, 25, 60, 100, -100])
    _loss_table(rng, out, "loss_eight.", 8, range(-30, 3))


def _loss_table(rng, out, name, classes, exponents):
    logits = np.zeros((len(exponents), 6, classes), np.int8)
    labels = rng.integers(0, classes, logits.shape[:2])
    seeds = rng.integers(0, 2**64, len(exponents), np.uint64)
    seeds[:3] = (0, 2**64 - 1, 2**32)
    steps = rng.integers(0, 2**32, len(exponents))
    steps[:2] = (0, 2**32 - 1)
    streams = rng.integers(0, 4, len(exponents))
    p, y = np.zeros(logits.shape, np.int32), np.zeros(logits.shape, np.int8)
    for i, e in enumerate(exponents):
        logits[i] = rng.integers(-128, 128, (6, classes))
        logits[i, 0], logits[i, 1], logits[i, 2] = 127, -128, 0
        logits[i, 3], logits[i, 3, i % classes] = -128, 127
        logits[i, 4] = rng.integers(-9, 10, classes)
        p[i] = niti.loss_probabilities(logits[i], e, labels[i])
        y[i] = niti.loss_gradient(logits[i], e, labels[i], int(seeds[i]), int(steps[i]), int(streams[i]))
    arrays = {"logits": logits, "exponent": np.array(exponents, np.int32), "labels": labels, "seed": seeds,
              "step": steps.astype(np.uint32), "stream": streams.astype(np.uint32), "probability": p, "y": y}
    out.update({name + key: value for key, value in arrays.items()})


def _float_rows(rng):
    """Float32 rows: every kind of maximum (powers of two, their neighbours, subnormals, huge), zeros, ties."""
    tiny = np.float32(2.0**-149)
    peaks = [np.float32(2.0**k) for k in (-126, -30, -8, -1, 0, 1, 2, 7, 30, 127)]
    peaks += [np.nextafter(v, np.float32(0)) for v in peaks] + [np.nextafter(v, np.float32(3.4e38)) for v in peaks]
    peaks += [np.float32(v) for v in (0.1, 0.3, 1.7, 5.0, 255.0, 3.4028235e38)]
    rows = [np.zeros(ROW, np.float32), np.full(ROW, -0.0, np.float32), np.full(ROW, tiny, np.float32)]
    rows.append((np.arange(-8, 8) * 3 * tiny).astype(np.float32))
    for peak in peaks:
        for sign in (1, -1):
            row = (rng.uniform(-1, 1, ROW).astype(np.float32) * peak).astype(np.float32)
            row[0], row[1], row[2] = sign * peak, peak / 2, -peak / 4
            rows.append(row)
    for e in (-3, 0, 4):  # halves of the input's last place: ties go to even
        row = ((2 * rng.integers(-127, 127, ROW) + 1) * 2.0 ** (e - 8)).astype(np.float32)
        row[0] = 2.0**e
        rows.append(row)
    for _ in range(20):
        rows.append((rng.normal(0, 1, ROW) * 10.0 ** rng.integers(-6, 6)).astype(np.float32))
    for _ in range(60):  # next to a tie of the weight quantiser: the order of division and multiplication shows
        peak = np.float32(rng.uniform(0.01, 4))
        row = (peak * (rng.integers(-127, 127, ROW) + 0.5) / 127).astype(np.float32)
        row[::2] = np.nextafter(row[::2], np.float32(rng.choice([-9, 9])))
        row[0] = peak
        rows.append(row)
    return np.stack(rows)


def _border_quantisers(rng, out):
    rows = _float_rows(rng)
    for name, quantise in (("input_quantiser", niti.quantize_input), ("weight_quantiser", niti.quantize_weight)):
        results = [quantise(row) for row in rows]
        out[name + ".x"] = rows
        out[name + ".y"] = np.stack([q for q, _ in results])
        out[name + ".y_exponent"] = np.array([e for _, e in results], np.int32)
    assert (out["input_quantiser.y"] == -128).any()


def _generator(rng, out):
    counters = rng.integers(0, 2**32, (20, 4), np.uint32)
    keys = rng.integers(0, 2**32, (20, 2), np.uint32)
    counters[:3] = [[0] * 4, [0xFFFFFFFF] * 4, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]]
    keys[:3] = [[0] * 2, [0xFFFFFFFF] * 2, [0xA4093822, 0x299F31D0]]
    out["philox.counter"], out["philox.key"] = counters, keys
    out["philox.y"] = niti.philox4x32(counters, keys)
    seeds, steps, streams = [0, 2**64 - 1, 0x0123456789ABCDEF], [0, 3, 2**32 - 1], [0, 1, 7]
    out["uniform.seed"] = np.array(seeds, np.uint64)
    out["uniform.step"], out["uniform.stream"] = np.array(steps, np.uint32), np.array(streams, np.uint32)
    out["uniform.bits"] = np.array([1, 4, 32], np.int32)
    out["uniform.y"] = np.array([[niti.uniform_bits(a, b, c, 11, int(bits)) for bits in out["uniform.bits"]]
                                 for a, b, c in zip(seeds, steps, streams)], np.int64).astype(np.uint32)


def _partial_pools(rng, out):
    """Averages without their padding: windows of one element beside whole ones, sums that saturate."""
    shape = (2, 3, 9, 8)
    for i, (kernel, strides, pads) in enumerate([((3, 3), (1, 1), (1, 1, 1, 1)), ((2, 2), (1, 1), (1, 1, 0, 0)),
                                                 ((3, 2), (2, 3), (1, 0, 0, 1)), ((5, 7), (2, 1), (4, 0, 1, 6)),
                                                 ((1, 2), (1, 1), (0, 1, 0, 1)), ((9, 8), (9, 8), (3, 0, 6, 0))]):
        x = rng.integers(-128, 128, shape).astype(np.int8)
        x[0] = rng.integers(-128, -120, shape[1:])
        y, y_exponent = niti.partial_average_pool(x, -6, kernel, strides, pads)
        error = ((127 - rng.integers(0, 9, y.shape)) * np.where(rng.random(y.shape) < 0.2, -1, 1)).astype(np.int8)
        back, back_exponent = niti.partial_average_pool_backward(error, 2, shape, kernel, strides, pads)
        name = f"partial_average_pool{i}."
        for key, value in (("kernel", kernel), ("strides", strides), ("pads", pads)):
            out[name + key] = np.array(value, np.int32)
        out[name + "x"], out[name + "y"], out[name + "error"], out[name + "back"] = x, y, error, back
        out[name + "exponents"] = np.array([-6, y_exponent, 2, back_exponent], np.int32)


def primitive_vectors():
    rng = np.random.default_rng(20211101)
    out = {}
    for part in (_shifts, _tensor_quantisers, _aligned_add, _pools, _loss, _border_quantisers, _generator,
                 _partial_pools):
        part(rng, out)
    return out
