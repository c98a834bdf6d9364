"""Writes tests/data/carrier/NAME.npz for `fp8-chunk`, `mls` and `afp`: three training steps of the two small networks, in numpy.

Run: python make_formats.py [output folder] (numpy and onnx). Written from the papers' formulas, not from the algorithm files:

  fp8-chunk  Wang et al., Training DNNs with 8-bit Floating Point Numbers, NeurIPS 2018: sections 2 to 4
  mls        Zhong et al., Exploring the Potential of Low-bit Training of CNNs, 2020: section 3
  afp        Zhang et al., Fixed-Point Back-Propagation Training, CVPR 2020: section 3, with the state of its intervals

Rounding to small formats goes by way of frexp in float64; every float32 step rounds once, in the order written here.
"""

import sys
from pathlib import Path

import numpy as np

from make_fixtures import F, NETWORKS, RATES, RELU, Conv, Sgd, dequantized, drawn_data, ops, partial_sums, uniform, write_steps


class Format:
    """e exponent bits, m mantissa bits, all codes numbers."""

    def __init__(self, e, m, bias):
        self.m, self.least = m, 1 - bias
        self.largest = (2 - 2.0**-m) * 2.0 ** (2**e - 1 - bias)

    def _rounded(self, x, whole):
        a = np.minimum(np.abs(np.nan_to_num(np.asarray(x, np.float64))), self.largest)
        exponent = np.maximum(np.frexp(a)[1] - 1, self.least)
        step = 2.0 ** (exponent - self.m)
        rounded = np.minimum(whole(a / step) * step, self.largest)
        return (np.sign(np.nan_to_num(x)) * rounded + 0.0).astype(F)

    def nearest(self, x):
        return self._rounded(x, np.rint)

    def up(self, x):
        return self._rounded(x, np.ceil)

    def by_chance(self, x, u):
        return self._rounded(x, lambda steps: np.floor(steps.astype(F) + u))


FP8, FP16 = Format(5, 2, 15), Format(6, 9, 31)


# ---------------------------------------------------------------- sums in chunks

class Chunks:
    """Sums of a result of that shape, `chunk` terms at a time (section 2.3)."""

    def __init__(self, shape, chunk=64):
        self.total, self.sum = np.zeros(shape, F), np.zeros(shape, F)
        self.terms, self.chunk = np.zeros(shape, int), chunk

    def add(self, at, term, inside=True):
        """Adds a term to a part of the result, where `inside`."""
        before, total, terms = self.sum[at], self.total[at], self.terms[at]
        after = np.where(inside, FP16.nearest(before + term), before)
        terms = terms + np.broadcast_to(inside, terms.shape)
        full = terms == self.chunk
        self.total[at] = np.where(full, FP16.nearest(total + after), total)
        self.sum[at] = np.where(full, F(0), after)
        self.terms[at] = np.where(full, 0, terms)

    def result(self):
        return FP16.nearest(self.total + self.sum)


ALL = (Ellipsis,)


def sources(conv, features, inputs):
    """The first channel that each feature is made of."""
    return np.arange(features) // (features // conv.groups) * inputs


def place(conv, i, j, rows, columns):
    """Where tap (i, j) of all windows lies in the padded operand."""
    (down, right), (kh, kw) = conv.strides, (i, j)
    return slice(kh, kh + down * (rows - 1) + 1, down), slice(kw, kw + right * (columns - 1) + 1, right)


def padded_shape(conv, count, channels):
    (top, left, bottom, right), (height, width) = conv.pads, conv.size
    return count, channels, height + top + bottom, width + left + right


def inner(conv, x):
    top, left = conv.pads[:2]
    return x[:, :, top:top + conv.size[0], left:left + conv.size[1]]


def chunked_forward(product, x, w):
    if not isinstance(product, Conv):
        y = Chunks((len(x), len(w)))
        for k in range(x.shape[1]):
            y.add(ALL, x[:, k:k + 1] * w[None, :, k])
        return y.result()
    product.size = x.shape[2:]
    taps, source = list(product._taps(x)), sources(product, len(w), w.shape[1])
    y = Chunks((len(x), len(w)) + taps[0][2].shape[2:])
    for channel in range(w.shape[1]):
        for i, j, view, inside in taps:
            y.add(ALL, view[:, source + channel] * w[None, :, channel, i, j, None, None], inside)
    return y.result()


def chunked_error(product, e, w):
    if not isinstance(product, Conv):
        y = Chunks((len(e), w.shape[1]))
        for o in range(len(w)):
            y.add(ALL, e[:, o:o + 1] * w[None, o])
        return y.result()
    inputs, per_group = w.shape[1], len(w) // product.groups
    channels = np.arange(inputs * product.groups)
    y = Chunks(padded_shape(product, len(e), len(channels)))
    for member in range(per_group):
        feature = channels // inputs * per_group + member
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                term = e[:, feature] * w[feature, channels % inputs, i, j][None, :, None, None]
                y.add((slice(None), slice(None)) + place(product, i, j, *e.shape[2:]), term)
    return inner(product, y.result())


def chunked_gradient(product, x, e):
    if not isinstance(product, Conv):
        y = Chunks((e.shape[1], x.shape[1]))
        for n in range(len(x)):
            y.add(ALL, e[n][:, None] * x[n][None])
        return y.result()
    inputs = x.shape[1] // product.groups
    source = sources(product, e.shape[1], inputs)[:, None] + np.arange(inputs)
    y = Chunks((e.shape[1], inputs) + product.kernel)
    for i, j, view, inside in product._taps(x):
        for n in range(len(x)):
            for oh, ow in np.argwhere(inside):
                y.add((slice(None), slice(None), i, j), e[n, :, oh, ow][:, None] * view[n, source, oh, ow])
    return y.result()


class Fp8Chunk:
    """Operands in FP8, but for the first layer's input and the last layer's, in FP16."""
    LOSS_SCALE = F(1000)

    def __init__(self):
        self.streams = 0

    def forward(self, layer, x, w):
        layer.x = (FP16 if layer.first or layer.last else FP8).nearest(x)
        layer.w = (FP16 if layer.last else FP8).nearest(w)
        return chunked_forward(layer.product, layer.x, layer.w)

    def error_codes(self, layer, e, run):
        layer.e = (FP16 if layer.last else FP8).nearest(e)

    def error(self, layer):
        return chunked_error(layer.product, layer.e, layer.w)

    def gradient(self, layer):
        return chunked_gradient(layer.product, layer.x, layer.e)


class Fp16Sgd:
    """Weight decay, momentum and step as three sums, each rounded to FP16 by chance (section 3.2)."""

    def __init__(self, parameters):
        self.m = {name: np.zeros_like(value) for name, value in parameters.items()}

    def rounded(self, x):
        u = uniform(self.run, self.streams, x.shape)
        self.streams += 1
        return FP16.by_chance(x, u)

    def update(self, weights, gradients, rate):
        self.streams = 0
        for name in weights:
            decayed = self.rounded(gradients[name] / Fp8Chunk.LOSS_SCALE + F(1e-4) * weights[name])
            self.m[name] = self.rounded(F(0.9) * self.m[name] + decayed)
            weights[name] = self.rounded(weights[name] - F(rate) * self.m[name])

    def state(self):
        return {f"{name}.m": value.copy() for name, value in self.m.items()}


# ---------------------------------------------------------------- groups

def grouped_forward(product, x, w, sx, sw):
    if not isinstance(product, Conv):
        return (x @ w.T).astype(F) * (sx * sw.T)
    product.size = x.shape[2:]
    taps, source = list(product._taps(x)), sources(product, len(w), w.shape[1])
    y = np.zeros((len(x), len(w)) + taps[0][2].shape[2:], F)
    for channel in range(w.shape[1]):
        part = sum(view[:, source + channel] * w[None, :, channel, i, j, None, None] for i, j, view, _ in taps)
        y = y + part.astype(F) * (sx[:, source + channel] * sw[None, :, channel])
    return y


def grouped_error(product, e, w, se, sw):
    if not isinstance(product, Conv):
        y = np.zeros((len(e), w.shape[1]), F)
        for o in range(len(w)):
            y = y + (e[:, o:o + 1] * w[None, o]).astype(F) * (se * sw[o])
        return y
    inputs, per_group = w.shape[1], len(w) // product.groups
    channels = np.arange(inputs * product.groups)
    y = np.zeros(padded_shape(product, len(e), len(channels)), F)
    for member in range(per_group):
        feature = channels // inputs * per_group + member
        part = np.zeros(y.shape, np.int64)
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                at = (slice(None), slice(None)) + place(product, i, j, *e.shape[2:])
                part[at] += e[:, feature] * w[feature, channels % inputs, i, j][None, :, None, None]
        y = y + part.astype(F) * (se[:, feature] * sw[feature, channels % inputs][None])
    return inner(product, y)


def grouped_gradient(product, x, e, sx, se):
    if not isinstance(product, Conv):
        y = np.zeros((e.shape[1], x.shape[1]), F)
        for n in range(len(x)):
            y = y + (e[n][:, None] * x[n][None]).astype(F) * (sx[n] * se[n])
        return y
    inputs = x.shape[1] // product.groups
    source = sources(product, e.shape[1], inputs)[:, None] + np.arange(inputs)
    y = np.zeros((e.shape[1], inputs) + product.kernel, F)
    taps = list(product._taps(x))
    for n in range(len(x)):
        part = np.zeros(y.shape, np.int64)
        for i, j, view, _ in taps:
            part[:, :, i, j] = (view[n, source] * e[n][:, None]).sum((2, 3))
        y = y + part.astype(F) * (sx[n, source] * se[n][:, None])
    return y


class Mls:
    """Elements of e exponent and m mantissa bits by the scale of a group by that of the tensor (section 3.1); first and last
    layers float32."""

    def __init__(self, e=2, m=4):
        # Exponents -1, -2, ... of 2^e - 1 codes, and numbers below them.
        self.streams, self.element, self.unit = 0, Format(e, m, 2**e), 2.0 ** (2**e - 1 + m)
        self.group = Format(7, 1, 126)

    def codes(self, x):
        """(integers in units of 2^-7, scales of groups, scale of the tensor)."""
        total = np.abs(x).max()
        axes = tuple(range(2 if x.ndim == 4 else 1, x.ndim))
        with np.errstate(invalid="ignore", divide="ignore"):
            group = self.group.up(np.abs(x).max(axes, keepdims=True) / total)
            u = uniform(self.run, self.streams, x.shape)
            element = self.element.by_chance(x / (group * total), u)
        self.streams += 1
        return np.rint(element.astype(np.float64) * self.unit).astype(np.int64), group, total

    def scaled(self, y, a, b):
        return (y * F(self.unit**-2)) * (a[2] * b[2])

    def forward(self, layer, x, w):
        if layer.first or layer.last:
            layer.x, layer.w = x, w
            return layer.product.float_forward(x, w)
        layer.x, layer.w = self.codes(x), self.codes(w)
        y = grouped_forward(layer.product, layer.x[0], layer.w[0], layer.x[1], layer.w[1])
        return self.scaled(y, layer.x, layer.w)

    def error_codes(self, layer, e, run):
        layer.e = e if layer.first or layer.last else self.codes(e)

    def error(self, layer):
        if layer.first or layer.last:
            return layer.product.float_error(layer.e, layer.w)
        y = grouped_error(layer.product, layer.e[0], layer.w[0], layer.e[1], layer.w[1])
        return self.scaled(y, layer.e, layer.w)

    def gradient(self, layer):
        if layer.first or layer.last:
            return layer.product.float_gradient(layer.x, layer.e)
        y = grouped_gradient(layer.product, layer.x[0], layer.e[0], layer.x[1], layer.e[1])
        return self.scaled(y, layer.x, layer.e)


# ---------------------------------------------------------------- fixed point

class Schedule:
    """When a tensor's step and width are looked at, and what they are (section 3.3); widths never shrink."""
    ALPHA, GAMMA, DELTA = F(0.04), F(2), F(100)

    def __init__(self, widths, tolerance, beta, epoch):
        self.widths, self.tolerance, self.beta, self.epoch, self.warm = widths, F(tolerance), F(beta), epoch, epoch / 10
        self.left = self.exponent = self.average = F(0)
        self.width = self.steps = 0

    def look(self, x):
        mean = partial_sums(np.abs(x))
        for width in self.widths:
            if width < self.width and width != self.widths[-1]:
                continue
            largest = np.abs(x).max() / F(2 ** (width - 1) - 1)
            mantissa, exponent = np.frexp(largest)
            exponent = exponent - int(mantissa == 0.5)
            step = F(2.0**exponent)
            kept = partial_sums(np.abs(np.rint(x / step) * step))
            share = np.abs(mean - kept) / mean
            if share <= self.tolerance:
                break
        self.width, self.exponent = width, F(exponent)
        error = ops.log32(F(1) + share) * F(1.4426950408889634)
        movement = self.ALPHA * np.abs(self.exponent - self.average)
        self.average = self.ALPHA * self.exponent + (F(1) - self.ALPHA) * self.average
        if self.steps < self.warm:
            return F(1)
        if self.steps >= self.epoch:
            return F(self.epoch)
        change = np.maximum(self.DELTA * (error * error), movement)
        return np.minimum(np.maximum(np.rint(self.beta / change - self.GAMMA), F(1)), F(self.epoch))

    def integers(self, x):
        looks = self.left <= 0
        if looks:
            self.left = self.look(x)
        LOOKS.append((looks, self.width))
        self.left = self.left - F(1)
        self.steps = min(self.steps + 1, self.epoch)
        step, half = F(2.0 ** int(self.exponent)), 2 ** (self.width - 1)
        q = np.rint(x / step)
        SATURATED.append(int((q < -half).sum() + (q > half - 1).sum()))
        return np.clip(q, -half, half - 1).astype(np.int64), step

    def state(self):
        return np.array([self.left, self.width, self.exponent, self.average, self.steps], F)


class Afp:
    """Powers of two as steps; errors of the least width that keeps their mean magnitude (section 3.3). Tolerances below the paper's
    2^0.03 - 1, for these small errors keep theirs at 8 bits."""
    # The compiler's names of each layer's operands: activation, error.
    NAMES = {
        "lenet": {"conv1": ("images", "act1/relu_gradient"), "conv2": ("act1", "act2/relu_gradient"),
                  "fc1": ("flat", "act3/relu_gradient"), "fc2": ("act3", "loss/softmax_cross_entropy_gradient")},
        "residual": {"conv1": ("images", "act1/relu_gradient"), "conv2": ("act1", "act2/relu_gradient"),
                     "conv3": ("act2", "act3/relu_gradient"), "fc": ("flat", "loss/softmax_cross_entropy_gradient")},
    }

    def __init__(self, network, tolerance=0.001, beta=0.1, epoch=100):
        self.streams, self.sites = 0, {}
        for layer, (x, e) in self.NAMES[network].items():
            narrow, wide = ([8], tolerance, beta, epoch), ([8, 16, 24], tolerance, beta, epoch)
            names = (x, layer + ".weight", e)
            self.sites[layer] = dict(zip(names, (Schedule(*narrow), Schedule(*narrow), Schedule(*wide))))

    def state(self):
        sites = [site for layer in self.sites.values() for site in layer.items()]
        return {f"{name}.schedule": schedule.state() for name, schedule in sites}

    def forward(self, layer, x, w):
        of_x, of_w, layer.of_e = self.sites[layer.name].values()
        layer.x, layer.w = of_x.integers(x), of_w.integers(w)
        return dequantized(layer.product.forward(layer.x[0], layer.w[0])) * (layer.x[1] * layer.w[1])

    def error_codes(self, layer, e, run):
        layer.e = layer.of_e.integers(e)

    @staticmethod
    def wide(product, q):
        """A product that is linear in q, of q's bytes."""
        parts = [dequantized(product(part)) for part in (q >> 16, q >> 8 & 255, q & 255)]
        return (parts[0] * F(65536) + parts[1] * F(256)) + parts[2]

    def error(self, layer):
        q, step = layer.e
        return self.wide(lambda q: layer.product.error(q, layer.w[0]), q) * (step * layer.w[1])

    def gradient(self, layer):
        q, step = layer.e
        return self.wide(lambda q: layer.product.gradient(layer.x[0], q), q) * (layer.x[1] * step)


LOOKS, SATURATED = [], []

ALGORITHMS = {"afp": (Afp, Sgd), "afp-wide": (lambda n: Afp(n, 3e-6), Sgd), "afp-stale": (lambda n: Afp(n, 0.001, 5, 5), Sgd), 
              "fp8-chunk": (lambda n: Fp8Chunk(), Fp16Sgd), "mls": (lambda n: Mls(), Sgd)}


def scaled(kind, scale):
    """A network whose loss is multiplied for the backward pass."""
    class Scaled(kind):
        def backward(self, e, gradients, run):
            super().backward(e * scale, gradients, run)
    return Scaled


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for number, (network, kind) in enumerate(NETWORKS.items()):
        # The networks and data of make_fixtures.
        parameters, images, labels = drawn_data(number, kind)[1:]
        for name, (algorithm, optimizer) in ALGORITHMS.items():
            weights = {key: value.copy() for key, value in parameters.items()}
            of = algorithm(network)
            own = scaled(kind, getattr(of, "LOSS_SCALE", F(1)))
            net = own(of, weights, optimizer(weights), RELU)
            write_steps(folder / f"{network}.{name}.npz", net, images, labels, RATES)
            if name.startswith("afp"):
                # The fixtures show several widths, steps without a look, and values beyond a step that is stale.
                widths = [width for _, width in LOOKS]
                print(network, name, "widths", {w: widths.count(w) for w in set(widths)}, "without a look",
                      sum(not looks for looks, _ in LOOKS), "saturated", sum(SATURATED))
                LOOKS.clear(), SATURATED.clear()


if __name__ == "__main__":
    main()
