"""Writes tests/data/carrier/NAME.npz and .json: three training steps of two small networks under `ui8`, `sbm`, `bnn-ste` and `dorefa`, in numpy.

Run: python make_fixtures.py [output folder] (numpy and onnx). Written from the papers' formulas, not from the algorithm files:

  ui8      Zhu et al., Towards Unified INT8 Training, CVPR 2020: sections 3 (symmetric int8), 4.1 (clip by direction), 4.2 (rates)
  sbm      Banner et al., Scalable Methods for 8-bit Training, NeurIPS 2018: section 3 (8 bits between least and largest), 5 (bifurcation)
  bnn-ste  Courbariaux et al., Binarized Neural Networks, 2016: sections 1.1 to 1.4
  dorefa   Zhou et al., DoReFa-Net, 2016: section 2.3 (weights), equations 5 (k bits) and 12 (errors)

Values between products are float32; every float32 step rounds once, in the order written here. Products of integers are exact.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.append(str(Path(__file__).resolve().parents[1] / "niti_finetune"))
import operations as ops  # noqa: E402

F = np.float32
BATCH, STEPS, CLASSES = 4, 3, 5
RATES = (0.05, 0.1, 0.02)
PARTS = 16


def dequantized(sums):
    return np.asarray(sums).astype(np.int64).astype(F)


def partial_sums(values):
    """16 partial sums, then these in order."""
    parts = np.zeros(PARTS, F)
    values = np.asarray(values, F).ravel()
    for start in range(0, len(values), PARTS):
        row = values[start:start + PARTS]
        parts[:len(row)] = parts[:len(row)] + row
    total = F(0)
    for part in parts:
        total = total + part
    return total


def uniform(run, stream, shape):
    return (ops.dither_bits(run, stream, shape) >> 8).astype(F) * F(2.0**-24)


# ---------------------------------------------------------------- products
# Each has the layer's linear maps as functions of any two operands, in integers and (sequential sums) in float32.

class Linear:
    def __init__(self):
        self.x_shape = None

    def forward(self, x, w):
        return ops.niti.linear(x, w)

    def error(self, e, w):
        return ops.niti.linear_backward_input(e, w)

    def gradient(self, x, e):
        return ops.niti.linear_backward_weight(e, x)

    @staticmethod
    def _sums(a, b):
        """Rows of a by columns of b."""
        y = np.zeros((a.shape[0], b.shape[1]), F)
        for k in range(a.shape[1]):
            y = y + a[:, k:k + 1] * b[k:k + 1]
        return y

    def float_forward(self, x, w):
        return self._sums(x, w.T)

    def float_error(self, e, w):
        return self._sums(e, w)

    def float_gradient(self, x, e):
        return self._sums(e.T, x)

    # Ones for a sum over what the other operand is multiplied with.
    def one_weight(self, w, of_error):
        return np.ones((w.shape[0], 1) if of_error else (1, w.shape[1]), np.int64)

    def one_row(self, x):
        return np.ones((1,) + x.shape[1:], np.int64)


class Conv:
    def __init__(self, strides=(1, 1), pads=(0, 0, 0, 0), groups=1):
        self.geometry = (strides, (1, 1), pads, groups)
        self.strides, self.pads, self.groups = strides, pads, groups

    def forward(self, x, w):
        self.size = x.shape[2:]
        return ops.niti.conv(x, w, *self.geometry)

    def error(self, e, w):
        shape = (len(e), w.shape[1] * self.groups) + self.size
        return ops.niti.conv_backward_input(e, w, shape, *self.geometry)

    def gradient(self, x, e):
        w = np.zeros((e.shape[1], x.shape[1] // self.groups) + self.kernel, np.int64)
        return ops.niti.conv_backward_weight(e, x, w, *self.geometry)

    def _taps(self, x):
        """For each tap of the kernel, the padded input that each output meets, and whether it lies inside."""
        padded = np.pad(x, ((0, 0), (0, 0), (self.pads[0], self.pads[2]), (self.pads[1], self.pads[3])))
        inside = np.pad(np.ones(x.shape[2:], bool), ((self.pads[0], self.pads[2]), (self.pads[1], self.pads[3])))
        rows = (padded.shape[2] - self.kernel[0]) // self.strides[0] + 1
        columns = (padded.shape[3] - self.kernel[1]) // self.strides[1] + 1
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                at = (slice(i, i + self.strides[0] * (rows - 1) + 1, self.strides[0]),
                      slice(j, j + self.strides[1] * (columns - 1) + 1, self.strides[1]))
                yield i, j, padded[(slice(None), slice(None)) + at], inside[at]

    def float_forward(self, x, w):
        assert self.groups == 1
        self.size = x.shape[2:]
        taps = list(self._taps(x))
        y = np.zeros((len(x), len(w)) + taps[0][2].shape[2:], F)
        for channel in range(x.shape[1]):
            for i, j, view, inside in taps:
                term = view[:, None, channel] * w[None, :, channel, i, j, None, None]
                y = np.where(inside, y + term, y)
        return y

    def float_error(self, e, w):
        """By (output channel within the group, kh, kw) ascending."""
        per_group = len(w) // self.groups
        inputs = w.shape[1]
        padded = np.zeros((len(e), inputs * self.groups, self.size[0] + self.pads[0] + self.pads[2],
                           self.size[1] + self.pads[1] + self.pads[3]), F)
        rows, columns = e.shape[2:]
        for feature in range(per_group):
            for i in range(self.kernel[0]):
                for j in range(self.kernel[1]):
                    at = (slice(i, i + self.strides[0] * (rows - 1) + 1, self.strides[0]),
                          slice(j, j + self.strides[1] * (columns - 1) + 1, self.strides[1]))
                    for group in range(self.groups):
                        own = group * per_group + feature
                        channels = slice(group * inputs, (group + 1) * inputs)
                        term = e[:, own, None] * w[None, own, :, i, j, None, None]
                        padded[(slice(None), channels) + at] += term
        top, left = self.pads[:2]
        return padded[:, :, top:top + self.size[0], left:left + self.size[1]]

    def float_gradient(self, x, e):
        """By (batch, oh, ow) ascending."""
        inputs, per_group = x.shape[1] // self.groups, e.shape[1] // self.groups
        y = np.zeros((e.shape[1], inputs) + self.kernel, F)
        for i, j, view, inside in self._taps(x):
            for b in range(len(x)):
                for oh in range(e.shape[2]):
                    for ow in range(e.shape[3]):
                        if inside[oh, ow]:
                            for group in range(self.groups):
                                own = slice(group * per_group, (group + 1) * per_group)
                                channels = slice(group * inputs, (group + 1) * inputs)
                                term = e[b, own, oh, ow][:, None] * view[b, channels, oh, ow][None]
                                y[own, :, i, j] = y[own, :, i, j] + term
        return y

    def one_weight(self, w, of_error):
        if self.groups > 1:
            return np.ones(w.shape, np.int64)
        shape = (w.shape[0], 1) if of_error else (1, w.shape[1])
        return np.ones(shape + w.shape[2:], np.int64)

    def one_row(self, x):
        return np.ones((1,) + x.shape[1:], np.int64)


# ---------------------------------------------------------------- algorithms

class Ui8:
    """Operands of products in int8, s = max|x| / 127; errors clipped and rounded stochastically; rates of layers."""

    def __init__(self):
        self.streams = 0

    @staticmethod
    def codes(x, step):
        with np.errstate(invalid="ignore"):
            q = np.rint(x / step)
        return np.clip(np.nan_to_num(q), -127, 127).astype(np.int64)

    @staticmethod
    def step(x):
        return F(max(-x.min(), x.max())) / F(127)

    @staticmethod
    def search(e):
        """The clip with the least cosine distance between e and e quantized, and that distance (4.1)."""
        m = np.abs(e).max()
        own = np.sqrt(partial_sums(e * e))
        best = (m, F(2.5))
        for n in range(20, 3, -1):
            c = m * (F(n) / F(20))
            step = c / F(127)
            v = np.clip(np.rint(e / step), F(-127), F(127)) * step
            d = F(1) - partial_sums(e * v) / (own * np.sqrt(partial_sums(v * v)))
            if d < best[1]:
                best = (c, d)
        return best

    def forward(self, layer, x, w):
        (sx, sw) = self.step(x), self.step(w)
        layer.x, layer.w = (self.codes(x, sx), sx), (self.codes(w, sw), sw)
        return dequantized(layer.product.forward(layer.x[0], layer.w[0])) * (sx * sw)

    def error_codes(self, layer, e, run):
        clip, distance = self.search(e)
        step = clip / F(127)
        q = np.floor(e / step + uniform(run, self.streams, e.shape))
        self.streams += 1
        rate = np.maximum(ops.exp32(distance * F(-20)), F(0.1))
        layer.e = np.clip(q, -127, 127).astype(np.int64), step, rate

    def error(self, layer):
        q, step, _ = layer.e
        return dequantized(layer.product.error(q, layer.w[0])) * (step * layer.w[1])

    def gradient(self, layer):
        q, step, rate = layer.e
        return (dequantized(layer.product.gradient(layer.x[0], q)) * (layer.x[1] * step)) * rate


class Sbm:
    """FW and BW bits between least and largest; weight gradients of errors as they are (section 5), or as they are rounded."""
    FW, BW, BIFURCATED = 8, 8, True

    def __init__(self):
        self.streams = 0

    @staticmethod
    def quantized(x, least, largest, bits, noise=None):
        """(codes less half their number, step, what a code of 0 stands for)."""
        top = 2**bits - 1
        step = np.maximum((F(largest) - F(least)) / F(top), F(1e-8))
        q = (x - F(least)) / step
        q = np.rint(q) if noise is None else np.floor(q + noise)
        half = 2**(bits - 1)
        return np.clip(q, 0, top).astype(np.int64) - half, step, F(least) + step * F(half)

    @classmethod
    def activation(cls, x):
        """Means of the examples' extremes."""
        least = largest = F(0)
        for row in x:
            least, largest = least + row.min(), largest + row.max()
        return cls.quantized(x, least / F(len(x)), largest / F(len(x)), cls.FW)

    @staticmethod
    def value(codes):
        q, step, origin = codes
        return dequantized(q) * step + origin

    @staticmethod
    def product(p, a, b, one_a, one_b):
        (qa, sa, oa), (qb, sb, ob) = a, b
        y = (sa * sb) * dequantized(p(qa, qb)) + (sa * ob) * dequantized(p(qa, one_b))
        return y + (oa * sb) * dequantized(p(one_a, qb)) + (oa * ob) * dequantized(p(one_a, one_b))

    def forward(self, layer, x, w):
        layer.x, layer.w = self.activation(x), self.quantized(w, w.min(), w.max(), self.FW)
        own = layer.product
        return self.product(own.forward, layer.x, layer.w, own.one_row(x), own.one_weight(w, False))

    def rounded_error(self, e, run):
        self.streams += 1
        return self.quantized(e, e.min(), e.max(), self.BW, uniform(run, self.streams - 1, e.shape))

    def error_codes(self, layer, e, run):
        layer.float_e, layer.e = e, None
        if not (layer.first and self.BIFURCATED):
            layer.e = self.rounded_error(e, run)

    def error(self, layer):
        own = layer.product
        return self.product(own.error, layer.e, layer.w, own.one_row(layer.float_e), own.one_weight(layer.w[0], True))

    def gradient(self, layer):
        if self.BIFURCATED:
            return layer.product.float_gradient(self.value(layer.x), layer.float_e)
        own, ones = layer.product, [np.ones_like(codes[0]) for codes in (layer.x, layer.e)]
        if isinstance(own, Linear):
            # Of a matrix product, the transposed error by the operand.
            return self.product(lambda e, x: own.gradient(x, e), layer.e, layer.x, *reversed(ones))
        return self.product(own.gradient, layer.x, layer.e, *ones)


class BnnSte:
    """Weights and activations -1 or 1; first layer of real inputs, last layer float32."""

    def __init__(self):
        self.streams = 0

    @staticmethod
    def sign(x):
        return np.where(x >= 0, F(1), F(-1))

    def forward(self, layer, x, w):
        layer.x = x if layer.first or layer.last else self.sign(x)
        layer.w = w if layer.last else self.sign(w)
        if layer.first or layer.last:
            return layer.product.float_forward(layer.x, layer.w)
        return dequantized(layer.product.forward(layer.x.astype(np.int64), layer.w.astype(np.int64)))

    def error_codes(self, layer, e, run):
        layer.e = e

    def error(self, layer):
        return layer.product.float_error(layer.e, layer.w)

    def gradient(self, layer):
        return layer.product.float_gradient(layer.x, layer.e)


def tanh32(x):
    """tanh of FP32: a polynomial below 0.625, else (1 - e) / (1 + e) of e = exp(-2 |x|)."""
    coefficients = [F(c) for c in (-0.3333333, 0.13333195, -0.053945377, 0.021692606, -0.008156277, 0.0021227433)]
    a = np.abs(x)
    z = a * a
    e = ops.exp32(F(-2) * a)
    return np.copysign(np.where(a < F(0.625), a + a * (z * ops.horner(coefficients, z)), (F(1) - e) / (F(1) + e)), x)


def sequential_sum(values):
    total = F(0)
    for value in np.asarray(values, F).ravel():
        total = total + value
    return total


class Dorefa:
    """Weights of w bits, activations of a bits in [0, 1], errors of g bits with a scale for each example; FP32 outer layers.

    Integers k of n = 2**bits - 1 steps stand for k / n: weights 2 k / n - 1 (of one bit, their mean magnitude times that), errors
    2 M (k / n - 1/2). With c = k - 2**(bits - 1), 2 k - n is 2 c + 1, and products of c are integer products.
    """
    BITS = (8, 8, 8)

    def __init__(self):
        self.streams = 0
        self.w, self.a, self.g = self.BITS

    @staticmethod
    def k(x, bits):
        return np.rint(x * F(2**bits - 1)).astype(np.int64)

    def weight(self, layer, w):
        """Codes c and what 2 c + 1 is multiplied by."""
        if self.w == 1:
            return (w >= 0).astype(np.int64) - 1, sequential_sum(np.abs(w)) / F(w.size)
        layer.t = tanh32(w)
        layer.m = np.abs(layer.t).max()
        layer.v = layer.t / layer.m
        return self.k(layer.v * F(0.5) + F(0.5), self.w) - 2**(self.w - 1), F(1 / (2**self.w - 1))

    def forward(self, layer, x, w):
        if layer.first or layer.last:
            layer.x, layer.w = x, w
            return layer.product.float_forward(x, w)
        n = F(2**self.a - 1)
        q = np.clip(self.k(x, self.a), 0, 2**self.a - 1)
        layer.x, layer.w = dequantized(q) / n, self.weight(layer, w)
        own, (c, scale) = layer.product, layer.w
        sums = dequantized(own.forward(q, c)) * F(2) + dequantized(own.forward(q, own.one_weight(c, False)))
        return (scale / n) * sums

    def error_codes(self, layer, e, run):
        layer.e = e
        if layer.first or layer.last:
            return
        each = (len(e),) + (1,) * (e.ndim - 1)
        m = np.abs(e).reshape(len(e), -1).max(axis=1).reshape(each)
        n = F(2**self.g - 1)
        with np.errstate(invalid="ignore"):
            k = np.nan_to_num(np.floor((e / (m * F(2)) + F(0.5)) * n + uniform(run, self.streams, e.shape)))
        self.streams += 1
        c = np.clip(k, 0, 2**self.g - 1).astype(np.int64) - 2**(self.g - 1)
        layer.codes = c, m / n
        layer.e = (dequantized(c) * F(2) + F(1)) * (m / n)

    def error(self, layer):
        own = layer.product
        if layer.first or layer.last:
            return own.float_error(layer.e, layer.w)
        (e, se), (w, sw) = layer.codes, layer.w
        one_e, one_w = own.one_row(e), own.one_weight(w, True)
        p = lambda a, b: dequantized(own.error(a, b))
        return (se * sw) * (p(e, w) * F(4) + p(e, one_w) * F(2) + p(one_e, w) * F(2) + p(one_e, one_w))

    def gradient(self, layer):
        g = layer.product.float_gradient(layer.x, layer.e)
        if layer.first or layer.last or self.w == 1:
            return g
        # v = t / m, m = max |t|, t = tanh(w).
        left = g / layer.m
        right = np.zeros(g.size, F)
        right[np.abs(layer.t).argmax()] = sequential_sum(-(left * layer.v))
        t = right.reshape(g.shape) * np.sign(layer.t) + left
        return t * (F(1) - layer.t * layer.t)


class Dorefa124(Dorefa):
    BITS = (1, 2, 4)


# ---------------------------------------------------------------- optimizers

class Sgd:
    """torch.optim.SGD with momentum 0.9 and weight decay 1e-4."""
    STATE = ("m",)

    def __init__(self, parameters):
        self.m = {name: np.zeros_like(value) for name, value in parameters.items()}

    def update(self, weights, gradients, rate):
        for name, g in gradients.items():
            self.m[name] = F(0.9) * self.m[name] + (g + F(1e-4) * weights[name])
            weights[name] = weights[name] - F(rate) * self.m[name]

    def state(self):
        return {f"{name}.m": value.copy() for name, value in self.m.items()}


class Adam:
    """torch.optim.Adam; with `BOUND`, weights of products are kept between -1 and 1."""
    EPSILON, BOUND = 1e-5, False

    def __init__(self, parameters):
        self.m = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.v = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.c1 = self.c2 = F(0)

    def update(self, weights, gradients, rate):
        b1, b2 = F(0.9), F(0.999)
        r1, r2 = F(1 - 0.9), F(1 - 0.999)
        self.c1, self.c2 = b1 * self.c1 + r1, b2 * self.c2 + r2
        for name, g in gradients.items():
            self.m[name] = b1 * self.m[name] + r1 * g
            self.v[name] = b2 * self.v[name] + r2 * (g * g)
            step = F(rate) / self.c1 * (self.m[name] / (np.sqrt(self.v[name]) / np.sqrt(self.c2) + F(self.EPSILON)))
            weights[name] = weights[name] - step
            if not self.BOUND:
                continue
            bound = F(1) if name.endswith("weight") else F(1e30)
            weights[name] = np.maximum(np.minimum(weights[name], bound), -bound)

    def state(self):
        own = {f"{name}.m": value.copy() for name, value in self.m.items()}
        own.update({f"{name}.v": value.copy() for name, value in self.v.items()})
        own["optimizer.c1"], own["optimizer.c2"] = np.array(self.c1), np.array(self.c2)
        return own


class ClippedAdam(Adam):
    EPSILON, BOUND = 1e-8, True


# ---------------------------------------------------------------- networks

class Layer:
    def __init__(self, product, first=False, last=False):
        self.product, self.first, self.last = product, first, last


class Network:
    """Layers with biases; `bounds` is the activation: a hard tanh or a clip to [0, 1] in place of the ReLU."""

    def __init__(self, algorithm, weights, optimizer, bounds):
        self.algorithm, self.weights, self.optimizer, self.bounds = algorithm, weights, optimizer, bounds
        self.layers = self.make_layers()
        for name, layer in self.layers.items():
            layer.name = name
            if isinstance(layer.product, Conv):
                layer.product.kernel = weights[name + ".weight"].shape[2:]

    def product(self, name, x):
        layer = self.layers[name]
        y = self.algorithm.forward(layer, x, self.weights[name + ".weight"])
        bias = self.weights[name + ".bias"]
        return y + bias.reshape((1, -1) + (1,) * (y.ndim - 2))

    def product_error(self, name, e, gradients, run):
        layer = self.layers[name]
        gradients[name + ".bias"] = ops.channel_sums(e)
        self.algorithm.error_codes(layer, e, run)
        gradients[name + ".weight"] = self.algorithm.gradient(layer)
        return None if layer.first else self.algorithm.error(layer)

    def active(self, x):
        low, high = self.bounds
        return np.minimum(np.maximum(x, F(low)), F(high))

    def active_error(self, x, e):
        low, high = self.bounds
        if self.bounds == CLIP:
            return e * ((x >= low) & (x <= high)).astype(F)
        return np.where((x > low) & (x < high), e, F(0))

    def step(self, images, labels, rate, run):
        self.algorithm.streams = 0
        scores = self.forward(images)
        loss = ops.cross_entropy(scores, labels)
        gradients = {}
        self.backward(ops.cross_entropy_gradient(scores, labels), gradients, run)
        assert set(gradients) == set(self.weights)
        self.optimizer.update(self.weights, gradients, rate)
        for value in self.weights.values():
            assert value.dtype == F
        return loss

    def state(self):
        own = {name: value.copy() for name, value in self.weights.items()}
        own.update(self.optimizer.state())
        own.update(getattr(self.algorithm, "state", dict)())
        return own


class LeNet(Network):
    SHAPES = {"conv1.weight": (3, 2, 3, 3), "conv1.bias": (3,), "conv2.weight": (4, 3, 3, 3), "conv2.bias": (4,),
              "fc1.weight": (7, 36), "fc1.bias": (7,), "fc2.weight": (CLASSES, 7), "fc2.bias": (CLASSES,)}

    def make_layers(self):
        return {"conv1": Layer(Conv((2, 2), (1, 0, 0, 1)), first=True), "conv2": Layer(Conv((1, 1), (1, 0, 0, 1))),
                "fc1": Layer(Linear()), "fc2": Layer(Linear(), last=True)}

    def forward(self, images):
        self.a = self.product("conv1", images)
        self.b = self.product("conv2", self.active(self.a))
        self.c = self.product("fc1", self.active(self.b).reshape(len(images), -1))
        return self.product("fc2", self.active(self.c))

    def backward(self, e, gradients, run):
        e = self.product_error("fc2", e, gradients, run)
        e = self.product_error("fc1", self.active_error(self.c, e), gradients, run)
        e = self.product_error("conv2", self.active_error(self.b, e.reshape(self.b.shape)), gradients, run)
        self.product_error("conv1", self.active_error(self.a, e), gradients, run)

    @staticmethod
    def nodes():
        conv = lambda name, x, **a: helper.make_node("Conv", [x, name + ".weight", name + ".bias"], [name], name=name, **a)
        gemm = lambda name, x: helper.make_node("Gemm", [x, name + ".weight", name + ".bias"], [name], name=name, transB=1)
        relu = lambda name, x: helper.make_node("Relu", [x], [name], name=name)
        return [conv("conv1", "images", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 0, 1]), relu("act1", "conv1"),
                conv("conv2", "act1", kernel_shape=[3, 3], pads=[1, 0, 0, 1]), relu("act2", "conv2"),
                helper.make_node("Flatten", ["act2"], ["flat"], name="flat"), gemm("fc1", "flat"), relu("act3", "fc1"),
                gemm("fc2", "act3")], "fc2"


class Residual(Network):
    """A depthwise convolution between two others, and around it and the second a shortcut."""
    SHAPES = {"conv1.weight": (4, 2, 3, 3), "conv1.bias": (4,), "conv2.weight": (4, 1, 3, 3), "conv2.bias": (4,),
              "conv3.weight": (4, 4, 1, 1), "conv3.bias": (4,), "fc.weight": (CLASSES, 64), "fc.bias": (CLASSES,)}

    def make_layers(self):
        return {"conv1": Layer(Conv((2, 2), (1, 1, 1, 1)), first=True), "conv2": Layer(Conv((1, 1), (1, 1, 1, 1), 4)),
                "conv3": Layer(Conv()), "fc": Layer(Linear(), last=True)}

    def forward(self, images):
        self.a = self.product("conv1", images)
        self.kept = self.active(self.a)
        self.b = self.product("conv2", self.kept)
        self.c = self.product("conv3", self.active(self.b)) + self.kept
        return self.product("fc", self.active(self.c).reshape(len(images), -1))

    def backward(self, e, gradients, run):
        e = self.product_error("fc", e, gradients, run)
        joined = self.active_error(self.c, e.reshape(self.c.shape))
        e = self.product_error("conv3", joined, gradients, run)
        e = self.product_error("conv2", self.active_error(self.b, e), gradients, run)
        self.product_error("conv1", self.active_error(self.a, joined + e), gradients, run)

    @staticmethod
    def nodes():
        conv = lambda name, x, **a: helper.make_node("Conv", [x, name + ".weight", name + ".bias"], [name], name=name, **a)
        relu = lambda name, x: helper.make_node("Relu", [x], [name], name=name)
        return [conv("conv1", "images", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), relu("act1", "conv1"),
                conv("conv2", "act1", kernel_shape=[3, 3], pads=[1] * 4, group=4), relu("act2", "conv2"),
                conv("conv3", "act2", kernel_shape=[1, 1]), helper.make_node("Add", ["conv3", "act1"], ["sum"], name="sum"),
                relu("act3", "sum"), helper.make_node("Flatten", ["act3"], ["flat"], name="flat"),
                helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["fc"], name="fc", transB=1)], "fc"


RELU, HARD_TANH, CLIP = (0, np.inf), (-1, 1), (0, 1)
ALGORITHMS = {"ui8": (Ui8, Sgd, RELU), "sbm": (Sbm, Sgd, RELU), "bnn-ste": (BnnSte, ClippedAdam, HARD_TANH),
              "dorefa": (Dorefa, Adam, CLIP), "dorefa-1-2-4": (Dorefa124, Adam, CLIP)}
NETWORKS = {"lenet": LeNet, "residual": Residual}


def onnx_model(kind, parameters, image=(2, 8, 8)):
    nodes, output = kind.nodes()
    initializers = [numpy_helper.from_array(value, name) for name, value in parameters.items()]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", *image])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", CLASSES])], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def drawn_data(number, kind):
    """(random numbers that go on, parameters, images, labels) of a small network."""
    rng = np.random.default_rng(17 + number)
    parameters = {name: rng.normal(0, 0.3, shape).astype(F) for name, shape in kind.SHAPES.items()}
    images = rng.normal(0, 1, (STEPS, BATCH, 2, 8, 8)).astype(F)
    return rng, parameters, images, rng.integers(0, CLASSES, (STEPS, BATCH)).astype(np.int32)


def write_steps(path, net, images, labels, rates):
    """Trains, a step for each rate, and writes what went in and what came of it."""
    states, losses = [net.state()], []
    for step, rate in enumerate(rates):
        net.algorithm.run = net.optimizer.run = (0, step)
        losses.append(net.step(images[step], labels[step], rate, (0, step)))
        states.append(net.state())
    arrays = {f"state.{key}": np.stack([state[key] for state in states]) for key in states[0]}
    arrays.update(images=images, labels=labels, rates=np.array(rates, F), losses=np.array(losses, F))
    np.savez_compressed(path, **arrays)


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for number, (network, kind) in enumerate(NETWORKS.items()):
        parameters, images, labels = drawn_data(number, kind)[1:]
        (folder / f"{network}.onnx").write_bytes(onnx_model(kind, parameters))
        for name, (algorithm, optimizer, bounds) in ALGORITHMS.items():
            weights = {key: value.copy() for key, value in parameters.items()}
            net = kind(algorithm(), weights, optimizer(weights), bounds)
            write_steps(folder / f"{network}.{name}.npz", net, images, labels, RATES)


if __name__ == "__main__":
    main()
