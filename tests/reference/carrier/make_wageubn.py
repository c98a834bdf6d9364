"""Writes tests/data/carrier/NETWORK.wageubn.npz: three training steps of three small networks under `wageubn`, in numpy.

Run: python make_wageubn.py [output folder] (numpy and onnx). Written from Yang et al., Training High-Performance and Large-Scale Deep
Neural Networks with Full 8-bit Integers (2020), section 3, not from the algorithm file. Q(x, k) is x to the nearest multiple of 2^(1-k),
R(x) the power of two whose logarithm is nearest to that of max|x|:

  weights      Q(w, 8) within 1 - 2^-7
  activations  Q(x, 8), unbounded
  normalization  Q((x - Q(mean, 16)) / (Q(deviation, 16) + 2^-15), 8) Q(scale, 8) + Q(bias, 8), differentiated through all roundings
  errors       at activations R clamp(Q(e / R, 8), -1, 1), which pass where the rounded activation is above 0; at products' results,
               with s = R / 2^7, s round(e / s) where |e / s| rounds to 2^-7 steps of 1 or more, else s Q(e / s, 8)
  gradients    of inner weights, with L levels: n = L g / R rounded by chance, within L - 1, as n 2^-14; of all else Q(g, 15)
  updates      m = Q(m / 4 + g, 13), w = Q(w - Q(rate, 10) m, 24); 1e-4 of a weight enters its gradient before

The first and the last layer's products are float32 of float32. Values between products are float32, each step rounded once in the order
written here. `normalized` has batch normalization, whose layers have no biases.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import helper

from make_fixtures import CLASSES, F, NETWORKS, RELU, Conv, Layer, Linear, Network, dequantized, drawn_data, onnx_model, ops, uniform, write_steps

RATES, LEVELS = (0.05, 0.006, 0.003), (128, 128, 32)


def fixed(x, k):
    step = F(2.0 ** (1 - k))
    # A zero's sign does not pass the addition.
    return (np.rint(x / step + F(0)) * step).astype(F)


def power(x):
    m = np.abs(x).max()
    return F(2.0 ** np.rint(np.log2(np.float64(m)))) if m > 0 else F(2.0**-126)


class Wageubn:
    def __init__(self):
        self.streams = 0

    def forward(self, layer, x, w):
        if layer.first or layer.last:
            layer.x, layer.w = x, w
            return layer.product.float_forward(x, w)
        numbers = np.rint(x * F(128)).astype(np.int64)
        upper = numbers >> 8
        layer.x = upper, numbers - (upper << 8)
        layer.w = np.clip(np.rint(w * F(128)), -127, 127).astype(np.int64)
        upper, lower = (dequantized(layer.product.forward(part, layer.w)) for part in layer.x)
        return (upper * F(256) + lower) * F(2.0**-14)

    def error_codes(self, layer, e, run):
        layer.e = e
        if layer.first or layer.last:
            return
        layer.step = power(e) * F(2.0**-7)
        d = e / layer.step
        fine = np.rint(d * F(128))
        coarse = np.abs(fine) >= 128
        high = np.where(coarse, np.clip(np.rint(d), -127, 127), 0).astype(np.int64)
        layer.codes = high, np.where(coarse, 0, fine).astype(np.int64)

    def error(self, layer):
        if layer.first or layer.last:
            return layer.product.float_error(layer.e, layer.w)
        high, low = (dequantized(layer.product.error(codes, layer.w)) for codes in layer.codes)
        return (high * F(128) + low) * (layer.step * F(2.0**-14))

    def gradient(self, layer):
        if layer.first or layer.last:
            return layer.product.float_gradient(layer.x, layer.e)
        by_part = []
        for codes in layer.codes:
            upper, lower = (dequantized(layer.product.gradient(part, codes)) for part in layer.x)
            by_part.append(upper * F(256) + lower)
        return (by_part[0] * F(128) + by_part[1]) * (layer.step * F(2.0**-14))


class Updates:
    def __init__(self, parameters):
        self.m = {name: np.zeros_like(value) for name, value in parameters.items()}

    def update(self, weights, gradients, rate):
        streams = 0
        rate, levels = np.maximum(fixed(F(rate), 10), F(2.0**-9)), F(LEVELS[RATES.index(rate)])
        for name, g in gradients.items():
            assert g.shape == weights[name].shape
        for name in weights:
            g = gradients.get(name)
            if g is None:
                continue
            if name in self.products:
                g = g + F(1e-4) * weights[name]
            if name in self.inner:
                n = g * (levels / power(g))
                whole = np.floor(np.abs(n) + uniform(self.run, streams, g.shape))
                streams += 1
                g = (np.sign(n) * np.minimum(whole, levels - 1) * F(2.0**-14) + F(0)).astype(F)
            else:
                g = fixed(g, 15)
            self.m[name] = fixed(F(0.25) * self.m[name] + g, 13)
            weights[name] = fixed(weights[name] - rate * self.m[name], 24)

    def state(self):
        return {f"{name}.m": value.copy() for name, value in self.m.items()}


def of_wageubn(kind):
    """The network with activations and their errors on the grid."""
    class Own(kind):
        def active(self, x):
            return fixed(np.maximum(x, F(0)), 8)

        def active_error(self, x, e):
            r = power(e)
            e = np.clip(fixed(e / r, 8), F(-1), F(1)) * r
            return np.where(self.active(x) > 0, e, F(0))
    return Own


class Normalized(Network):
    """Two convolutions with batch normalization, an inner matrix product with it, and classes."""
    SHAPES = {"conv1.weight": (3, 2, 3, 3), "conv2.weight": (4, 3, 3, 3), "fc1.weight": (7, 36), "fc2.weight": (CLASSES, 7), "fc2.bias": (CLASSES,)}
    NORMS = {"conv1": 3, "conv2": 4, "fc1": 7}

    def make_layers(self):
        return {"conv1": Layer(Conv((2, 2), (1, 0, 0, 1)), first=True), "conv2": Layer(Conv((1, 1), (1, 0, 0, 1))),
                "fc1": Layer(Linear()), "fc2": Layer(Linear(), last=True)}

    def normalized(self, name, x):
        layer, own = self.layers[name], self.weights
        mean, variance = ops.batch_statistics(x)
        keep, take = F(0.9), F(1) - F(0.9)
        self.running[name + ".mean"] = self.running[name + ".mean"] * keep + mean * take
        self.running[name + ".variance"] = self.running[name + ".variance"] * keep + variance * take
        layer.mean, deviation = fixed(mean, 16), fixed(np.sqrt(variance), 16) + F(2.0**-15)
        layer.deviation, layer.into = deviation, x
        layer.normal = fixed((x - ops.stretched(layer.mean, x)) * ops.stretched(F(1) / deviation, x), 8)
        layer.scale = fixed(own[name + ".scale"], 8)
        return layer.normal * ops.stretched(layer.scale, x) + ops.stretched(fixed(own[name + ".shift"], 8), x)

    def normalized_error(self, name, e, gradients):
        layer, x = self.layers[name], self.layers[name].into
        gradients[name + ".scale"] = ops.normalization_sums(e * layer.normal)
        gradients[name + ".shift"] = ops.normalization_sums(e)
        squares = layer.deviation * layer.deviation
        return ops.batch_norm_gradient(x, layer.scale, layer.mean, squares, e, 0)[0]

    def product(self, name, x):
        layer = self.layers[name]
        y = self.algorithm.forward(layer, x, self.weights[name + ".weight"])
        if name in self.NORMS:
            return self.normalized(name, y)
        return y + self.weights[name + ".bias"][None]

    def product_error(self, name, e, gradients, run):
        layer = self.layers[name]
        if name in self.NORMS:
            e = self.normalized_error(name, e, gradients)
        else:
            gradients[name + ".bias"] = ops.channel_sums(e)
        self.algorithm.error_codes(layer, e, run)
        gradients[name + ".weight"] = self.algorithm.gradient(layer)
        return None if layer.first else self.algorithm.error(layer)

    forward, backward = NETWORKS["lenet"].forward, NETWORKS["lenet"].backward

    def state(self):
        return {**super().state(), **self.running}

    @staticmethod
    def nodes():
        def norm(x):
            names = [f"{x}.{part}" for part in ("scale", "shift", "mean", "variance")]
            outputs = [x + "/norm", x + "/mean", x + "/variance"]
            return helper.make_node("BatchNormalization", [x, *names], outputs, name=outputs[0], training_mode=1)
        conv = lambda name, x, **a: helper.make_node("Conv", [x, name + ".weight"], [name], name=name, **a)
        relu = lambda name, x: helper.make_node("Relu", [x], [name], name=name)
        return [conv("conv1", "images", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 0, 1]), norm("conv1"), relu("act1", "conv1/norm"),
                conv("conv2", "act1", kernel_shape=[3, 3], pads=[1, 0, 0, 1]), norm("conv2"), relu("act2", "conv2/norm"),
                helper.make_node("Flatten", ["act2"], ["flat"], name="flat"),
                helper.make_node("Gemm", ["flat", "fc1.weight"], ["fc1"], name="fc1", transB=1), norm("fc1"), relu("act3", "fc1/norm"),
                helper.make_node("Gemm", ["act3", "fc2.weight", "fc2.bias"], ["fc2"], name="fc2", transB=1)], "fc2"


def with_norms(rng, kind, parameters):
    """Draws the parameters of its normalizations; their running statistics."""
    running = {}
    for name, channels in getattr(kind, "NORMS", {}).items():
        parameters[name + ".scale"] = rng.uniform(0.5, 1.5, channels).astype(F)
        parameters[name + ".shift"] = rng.normal(0, 0.3, channels).astype(F)
        running.update({name + ".mean": np.zeros(channels, F), name + ".variance": np.ones(channels, F)})
    return running


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for number, (network, kind) in enumerate({**NETWORKS, "normalized": Normalized}.items()):
        # The networks and data of make_fixtures, and one more.
        rng, parameters, images, labels = drawn_data(number, kind)
        running = with_norms(rng, kind, parameters)
        if running:
            (folder / f"{network}.onnx").write_bytes(onnx_model(kind, {**parameters, **running}))
        optimizer = Updates(parameters)
        net = of_wageubn(kind)(Wageubn(), parameters, optimizer, RELU)
        net.running = running
        optimizer.products = {name + ".weight" for name in net.layers}
        optimizer.inner = {name + ".weight" for name, layer in net.layers.items() if not (layer.first or layer.last)}
        write_steps(folder / f"{network}.wageubn.npz", net, images, labels, RATES)


if __name__ == "__main__":
    main()
