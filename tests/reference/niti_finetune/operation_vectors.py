"""Single operations on random and extreme operands, as the text of tests/data/niti_finetune/operations.txt."""

import math

import numpy as np

import operations as ops

F = np.float32
WIDTHS = (0, 7, 8, 9, 24, 31)


class Vectors:
    """Collects cases: an operation, its operands and its result, row-major."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.lines = []

    def text(self):
        return "\n".join(self.lines) + "\n"

    def _tensor(self, word, x):
        q, *rest = x
        q = np.asarray(q)
        if rest:
            e, element = rest
            values, kind = ops.as_element(q, element).ravel().tolist(), f"{element}^{e}"
        elif q.dtype == F:
            values, kind = [format(v, "x") for v in np.atleast_1d(q).view(np.uint32).ravel().tolist()], "f32"
        else:
            values, kind = q.ravel().tolist(), "i32"
        self.lines.append(f"{word} {kind} [{','.join(map(str, q.shape))}] " + " ".join(map(str, values)))

    def case(self, op, operands, result, run=None):
        """Operands and result are (q, exponent, element), or (array,) of FP32 or plain i32."""
        self.lines.append(f"op {op}")
        if run:
            self.lines.append(f"run {run[0]} {run[1]}")
        for x in operands:
            self._tensor("operand", x)
        self._tensor("result", result)

    def integers(self, element, shape, bits=None):
        """Random of at most `bits` magnitude bits; a fifth are an end of that range."""
        low, high = ops.RANGES[element]
        if bits is not None:
            low, high = max(low, -(2**bits) + 1), min(high, 2**bits - 1)
        x = self.rng.integers(low, high + 1, shape, dtype=np.int64)
        return np.where(self.rng.random(shape) < 0.2, self.rng.choice(np.array([low, high]), shape), x)

    def floats(self, shape, scale):
        x = self.rng.normal(0, 1, shape) * scale
        with np.errstate(over="ignore"):
            return np.where(self.rng.random(shape) < 0.1, 0, x).astype(F)

    def exponent(self):
        return int(self.rng.integers(-40, 20))

    def run(self):
        return int(self.rng.integers(0, 2**64, dtype=np.uint64)), int(self.rng.integers(0, 2**32))

    def stream(self):
        return int(self.rng.integers(0, 1000))


def float_rows(v):
    """Tensors of FP32: usual, tiny, huge, powers of two and their neighbours, not numbers."""
    for scale in (1e-44, 1e-38, 0.03, 1.0, 300.0, 1e38):
        yield v.floats((10,), scale)
    for k in (-149, -126, 0, 127):
        p = F(2.0) ** F(k)
        for top in (p, np.nextafter(p, F(0)), np.nextafter(p, F(3.4e38))):
            yield np.array([top, -top, top / F(2), top / F(3), -top / F(256), top / F(1000), 0], F)
    yield np.zeros(3, F)
    yield np.array([np.nan, 1.5, -2.25, 0.1], F)
    yield np.array([np.inf, 1.5, -2.25, -np.inf], F)
    yield np.array([np.nan, np.nan], F)
    yield np.array([-1.0, -0.25, -0.0], F)


def quantizers(v):
    for x in float_rows(v):
        v.case("quantize_exponent", [(x,)], (*ops.quantize_exponent(x), "i8"))
        for element in ("i8", "i16"):
            v.case(f"quantize_parameter{{element={element}}}", [(x,)], (*ops.quantize_parameter(x, element), element))
        v.case("quantize_unsigned", [(x,)], (*ops.quantize_unsigned_float(x), "u8"))
    # FP32 makes 1 of the number just below a half, plus a half.
    x = np.array([1.0, 0.5 / 2**14, np.nextafter(F(0.5), F(0)) / F(2**14), -1.5 / 2**14], F)
    v.case("quantize_parameter{element=i16}", [(x,)], (*ops.quantize_parameter(x, "i16"), "i16"))
    for exponent in (-24, -3, 0):
        for x in (v.floats((10,), 1.0), v.floats((6,), 300.0), (np.arange(-5, 6) * 2.0 ** (exponent - 1)).astype(F),
                  np.array([np.nan, np.inf, -np.inf, 128, -128, 127.99999], F)):
            v.case(f"quantize_bias{{exponent={exponent}}}", [(x,)], (*ops.quantize_bias(x, exponent), "i32"))


def forward(v):
    for bits in WIDTHS:
        x, e = v.integers("i32", (2, 4), bits), v.exponent()
        if bits == 31:
            x[0, 0] = -(2**31)
        v.case("quantize_unsigned", [(x, e, "i32")], (*ops.quantize_unsigned(x, e), "u8"))
        for low, kept in ((-127, 7), (0, 7), (-127, 5)):
            v.case(f"requantize{{bits={kept}, rounding=half_away, low={low}}}", [(x, e, "i32")],
                   (*ops.requantize(x, e, kept, low), "i8"))
        w = v.integers("i16", (10,), min(bits, 15))
        v.case("shift_right{amount=8, rounding=half_away, element=i8}", [(w, e, "i16")], (*ops.upper_byte(w, e), "i8"))
        for bias_bits, reach in ((0, 60), (5, 40), (20, 30), (31, 60)):
            b = v.integers("i32", (1, 4), bias_bits)
            for eb in (e - int(v.rng.integers(0, reach)), e + int(v.rng.integers(0, reach))):
                v.case("accumulate_bias", [(x, e, "i32"), (b, eb, "i32")], (*ops.accumulate_bias(x, e, b, eb), "i32"))
        # 2**-e * bound within, at and far beyond the elements.
        for element in ("i32", "u8", "i8") if bits in (0, 8, 24, 31) else ("i32",):
            y = v.integers(element, (6,), bits)
            for ey, (low, high) in ((-bits, (0.0, 6.0)), (3 - bits, (0.0, 1.0)), (-5, (-0.3, 6.0)), (-5, (0.0, 6.0)),
                                    (e, (-1.0, math.inf)), (3, (0.0, 6.0)), (-60, (-math.inf, 6.0))):
                v.case(f"clip{{min={low}, max={high}}}", [(y, ey, element)], (*ops.clip(y, ey, low, high, element), element))
                if element != "i32":
                    dy = v.integers("i8", (6,))
                    v.case(f"clip_gradient{{min={low}, max={high}}}", [(y, ey, element), (dy, 3, "i8")],
                           (ops.clip_gradient(y, ey, dy, low, high), 3, "i8"))
    # Elements at and next to the bounds.
    y, dy = np.array([191, 192, 193, 0, 1, 255]), np.array([1, -2, 3, -4, 5, -128])
    v.case("clip_gradient{min=0.0, max=6.0}", [(y, -5, "u8"), (dy, 3, "i8")],
           (ops.clip_gradient(y, -5, dy, 0.0, 6.0), 3, "i8"))
    for element in ("i8", "u8"):
        x, dy = v.integers(element, (3, 5)), v.integers("i8", (3, 5))
        x[0, :2] = 0
        v.case("relu_gradient", [(x, -4, element), (dy, 2, "i8")], (ops.relu_gradient(x, dy), 2, "i8"))
        v.case("quantize_unsigned", [(x, -4, element)], (*ops.quantize_unsigned(x, -4), "u8"))
    for a, b in (("i8", "i8"), ("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i32", "i8"), ("u8", "i32"), ("i32", "i32")):
        for distance in (0, -9, 20, -21, 22, -31, 70):
            x, y, e = v.integers(a, (2, 2)), v.integers(b, (1, 2)), v.exponent()
            total = ops.aligned_sum(x, e, a, y, e + distance, b)
            v.case("aligned_sum", [(x, e, a), (y, e + distance, b)], (*total, "i32"))


def products(v):
    geometries = (((2, 2, 5, 4), (3, 2, 3, 2), (2, 1), (1, 2), (1, 0, 2, 1), 1), ((1, 2, 5, 4), (4, 1, 3, 3), (1, 2), (1, 1), (1, 1, 1, 1), 2))
    for shape, weight, strides, dilations, pads, groups in geometries:
        attributes = f"strides={list(strides)}, pads={list(pads)}, dilations={list(dilations)}, groups={groups}"
        geometry = (strides, dilations, pads, groups)
        for element in ("i8", "u8"):
            x, w = v.integers(element, shape), v.integers("i8", weight)
            y = ops.niti.conv(x, w, *geometry)
            dy = v.integers("i8", y.shape)
            v.case(f"conv2d{{{attributes}}}", [(x, -3, element), (w, -7, "i8")], (y, -10, "i32"))
            if element == "i8":
                v.case(f"conv2d_gradient_input{{{attributes}, input_size={list(shape[2:])}}}", [(dy, -9, "i8"), (w, -7, "i8")],
                       (ops.niti.conv_backward_input(dy, w, shape, *geometry), -16, "i32"))
            v.case(f"conv2d_gradient_weight{{{attributes}, kernel_size={list(weight[2:])}}}", [(x, -3, element), (dy, -9, "i8")],
                   (ops.niti.conv_backward_weight(dy, x, w, *geometry), -12, "i32"))
    for element in ("i8", "u8"):
        x, w, dy = v.integers(element, (4, 7)), v.integers("i8", (5, 7)), v.integers("i8", (4, 5))
        product = "matmul{{transpose_a={}, transpose_b={}, role={}}}"
        v.case(product.format("false", "true", "forward"), [(x, 1, element), (w, -7, "i8")], (ops.niti.linear(x, w), -6, "i32"))
        v.case(product.format("false", "false", "error"), [(dy, -9, "i8"), (w, -7, "i8")],
               (ops.niti.linear_backward_input(dy, w), -16, "i32"))
        v.case(product.format("true", "false", "gradient"), [(dy, -9, "i8"), (x, 1, element)],
               (ops.niti.linear_backward_weight(dy, x), -8, "i32"))
    dy = v.integers("i8", (3, 4, 2, 3))
    v.case("reduce_sum{axes=[0, 2, 3], keep_dims=true}", [(dy, -9, "i8")],
           (ops.niti.bias_backward(dy).reshape(1, 4, 1, 1), -9, "i32"))


def pools(v):
    for kernel, strides, pads in (((2, 2), (2, 2), (0, 0, 0, 0)), ((3, 3), (2, 2), (1, 1, 1, 1)), ((3, 2), (1, 2), (1, 0, 0, 1)),
                                  ((3, 3), (1, 1), (0, 0, 0, 0))):
        window = f"kernel={list(kernel)}, strides={list(strides)}, pads={list(pads)}"
        for element, dilations in (("i8", (1, 1)), ("u8", (1, 1)), ("u8", (1, 2))):
            x = v.integers(element, (1, 1, 6, 5))
            x[0, 0] = x[0, 0] // 64 * 64  # equal maxima
            y, winner = ops.max_pool(x, kernel, strides, pads, dilations)
            dy = v.integers("i8", y.shape)
            attributes = f"{{{window}, dilations={list(dilations)}, ceil=false}}"
            v.case("max_pool2d" + attributes, [(x, -3, element)], (y, -3, element))
            v.case("max_pool2d_gradient" + attributes, [(x, -3, element), (dy, -8, "i8")],
                   (ops.max_pool_gradient(dy, winner, x.shape, kernel, strides, pads, dilations), -8, "i8"))
        for element in ("i8", "u8"):
            for include in (False, True):
                x = v.integers(element, (1, 1, 6, 5))
                y, e = ops.average_pool(x, -3, element, kernel, strides, pads, include)
                dy = v.integers("i8", y.shape, 7 if element == "u8" else 5)
                back = ops.average_pool_gradient(dy, -8, x.shape, kernel, strides, pads, include)
                attributes = f"{window}, ceil=false, count_include_pad={str(include).lower()}"
                v.case(f"avg_pool2d{{{attributes}}}", [(x, -3, element)], (y, e, "i32"))
                v.case(f"avg_pool2d_gradient{{{attributes}, input_size=[6, 5]}}", [(dy, -8, "i8")], (*back, "i8"))


def loss(v):
    for e in (-200, -149, -140, -30, -20, 0, 100, 127):
        x = np.concatenate([v.integers("i32", (7,)), v.integers("i32", (4,), 3), [2**24 + 1, -(2**24) - 3]])
        v.case("dequantize", [(x, e, "i32")], (ops.dequantize(x, e),))
    for scale in (0.0, 1e-6, 3.0, 40.0, 200.0):
        for classes in (1, 2, 7):
            logits = v.floats((4, classes), scale)
            labels = v.rng.integers(0, classes, 4)
            labels[v.rng.integers(0, 4)] = v.rng.choice([-1, classes])
            operands = [(logits,), (labels.astype(np.int32),)]
            v.case("softmax_cross_entropy", operands, (np.array(ops.cross_entropy(logits, labels), F),))
            v.case("softmax_cross_entropy_gradient", operands, (ops.cross_entropy_gradient(logits, labels),))


def stochastic(v):
    for bits in WIDTHS:
        for shape in ((9,), (2, 3, 2)):
            x, e, run, stream = v.integers("i32", shape, bits), v.exponent(), v.run(), v.stream()
            if bits == 31:
                x.flat[0] = -(2**31)
            v.case(f"requantize_stochastic{{stream={stream}}}", [(x, e, "i32")],
                   (*ops.requantize_stochastic(x, e, run, stream), "i8"), run)
    for x in float_rows(v):
        run, stream = v.run(), v.stream()
        v.case(f"requantize_stochastic{{stream={stream}}}", [(x,)], (*ops.requantize_stochastic_float(x, run, stream), "i8"), run)


def updates(v):
    rates = [F(2**-7), F(0.01), F(0.3), np.nextafter(F(2**0.5), F(0)), F(2**0.5), np.nextafter(F(2**0.5), F(2)), F(1.0), F(0), F(-1), F(np.nan), F(np.inf), F(1e-39), F(3e38), F(1.2e-38)]
    for element, g_element in (("i16", "i32"), ("i32", "i32"), ("i8", "i8")):
        for shift in (-70, -14, -6, 0, 1, 8, 24, 31, 32, 45, 90):
            rate = rates[int(v.rng.integers(0, 6))]
            eg, run, stream = v.exponent(), v.run(), v.stream()
            e = shift + eg + ops.rate_exponent(rate)
            m = v.integers(element, (4,), int(v.rng.integers(3, 32)))
            g = v.integers(g_element, (4,), int(v.rng.integers(0, 32)))
            operands = [(g, eg, g_element), (m, e, element), (np.array(rate, F),)]
            v.case(f"scaled_step{{stream={stream}}}", operands,
                   (ops.scaled_step(g, eg, e, rate, element, run, stream), e, element), run)
            operands = [(m, e, element), (g, eg, g_element), (np.array(rate, F),)]
            momentum = [0.0, 0.5, 0.9, 0.99][int(v.rng.integers(0, 4))]
            v.case(f"momentum_step{{momentum={momentum}, stream={stream}}}", operands,
                   (ops.momentum_step(m, e, g, eg, rate, momentum, element, run, stream), e, element), run)
        w, step = v.integers(element, (10,)), v.integers(element, (10,))
        v.case("saturating_subtract", [(w, -9, element), (step, -9, element)],
               (ops.saturating_subtract(w, step, element), -9, element))
    for rate in rates:
        m, g, run, stream = v.integers("i16", (5,)), v.integers("i32", (5,), 20), v.run(), v.stream()
        v.case(f"momentum_step{{momentum=0.9, stream={stream}}}", [(m, -15, "i16"), (g, -20, "i32"), (np.array(rate, F),)],
               (ops.momentum_step(m, -15, g, -20, rate, 0.9, "i16", run, stream), -15, "i16"), run)


def text():
    """All cases."""
    v = Vectors(20260131)
    for part in (quantizers, forward, products, pools, loss, stochastic, updates):
        part(v)
    return v.text()


if __name__ == "__main__":
    print(len(text()), "characters")
