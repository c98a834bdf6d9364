"""Writes tests/data/carrier/NETWORK.octo.npz: three training steps of the two small networks under `octo`, in numpy.

Run: python make_octo.py [output folder] (numpy and onnx). Written from Zhou et al., Octo (USENIX ATC 2021) and its released code, not from
the algorithm file:

  forward   of convolutions: step s = (largest - least) / 255, zero z = round(-128 - least / s), q = floor(x / s + z + u) within a byte,
            u uniform; y = sum (qx - zx) (qw - zw) sx sw, and loss-aware compensation: y + alpha mu + delta, one of each for each element
            of an example; mu and delta decay by 0.1
  backward  of convolutions: x, w and e clipped to 0.95 of their least and largest, then s = max| | / 127, q = round( / s)
  updates   Adam

Matrix products and what stands between products are float32, each step rounded once in the order written here. First values of mu and delta
are 0.001 (the sum of twelve uniform numbers - 6), by Philox 4x32-10 under FNV-1a of the parameter's name.
"""

import sys
from pathlib import Path

import numpy as np

from make_fixtures import F, NETWORKS, RELU, Adam, Conv, dequantized, drawn_data, ops, uniform, write_steps

RATES = (0.001, 0.002, 0.0005)


class Octo:
    def __init__(self):
        self.streams = 0

    def codes(self, x):
        """(codes, zero, step)."""
        step = np.maximum((x.max() - x.min()) / F(255), F(1e-8))
        zero = np.clip(np.rint(F(-128) - x.min() / step), F(-128), F(127))
        q = np.floor((x / step + zero) + uniform(self.run, self.streams, x.shape))
        self.streams += 1
        return np.clip(q, -128, 127).astype(np.int64), zero, step

    @staticmethod
    def clipped(x):
        least, largest = x.min() * F(0.95), x.max() * F(0.95)
        step = np.maximum(-least, largest) / F(127)
        q = np.rint(np.maximum(np.minimum(x, largest), least) / step)
        return np.clip(np.nan_to_num(q), -127, 127).astype(np.int64), step

    def forward(self, layer, x, w):
        own, layer.x, layer.w = layer.product, x, w
        if not isinstance(own, Conv):
            return own.float_forward(x, w)
        (qx, zx, sx), (qw, zw, sw) = self.codes(x), self.codes(w)
        one_x, one_w = own.one_row(qx), own.one_weight(qw, False)
        p = lambda a, b: dequantized(own.forward(a, b))
        y = p(qx, qw) - zw * p(qx, one_w) - zx * p(one_x, qw) + (zx * zw) * p(one_x, one_w)
        return y * (sx * sw)

    def error_codes(self, layer, e, run):
        layer.e = e

    def error(self, layer):
        own = layer.product
        if not isinstance(own, Conv):
            return own.float_error(layer.e, layer.w)
        (e, se), (w, sw) = self.clipped(layer.e), self.clipped(layer.w)
        return dequantized(own.error(e, w)) * (se * sw)

    def gradient(self, layer):
        own = layer.product
        if not isinstance(own, Conv):
            return own.float_gradient(layer.x, layer.e)
        (x, sx), (e, se) = self.clipped(layer.x), self.clipped(layer.e)
        return dequantized(own.gradient(x, e)) * (sx * se)


class DecayedAdam(Adam):
    EPSILON = 1e-8

    def update(self, weights, gradients, rate):
        decayed = {name: g + F(0.1) * weights[name] if name.endswith((".mu", ".delta")) else g for name, g in gradients.items()}
        super().update(weights, decayed, rate)


def of_octo(kind):
    """The network with compensation behind its convolutions."""
    class Own(kind):
        def product(self, name, x):
            layer, own = self.layers[name], self.weights
            y = self.algorithm.forward(layer, x, own[name + ".weight"])
            if isinstance(layer.product, Conv):
                alpha, mu, delta = (own[f"{name}/product.{part}"] for part in ("alpha", "mu", "delta"))
                y = (y + alpha * mu) + delta
            return y + own[name + ".bias"].reshape((1, -1) + (1,) * (y.ndim - 2))

        def product_error(self, name, e, gradients, run):
            if isinstance(self.layers[name].product, Conv):
                total = np.zeros((1,) + e.shape[1:], F)
                for own in e:
                    total = total + own[None]
                gradients[f"{name}/product.alpha"] = total * self.weights[f"{name}/product.mu"]
                gradients[f"{name}/product.mu"] = total * self.weights[f"{name}/product.alpha"]
                gradients[f"{name}/product.delta"] = total
            return super().product_error(name, e, gradients, run)
    return Own


def drawn(name, shape, deviation):
    """First values of a parameter of that name."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    total = np.zeros(int(np.prod(shape)))
    for stream in range(12):
        total = total + (ops.niti.uniform_bits(key, 0, 2**32 - 1 - stream, len(total), 32) + 0.5) / 2.0**32
    return ((total - 6.0) * deviation).astype(F).reshape(shape)


def with_compensation(weights, results):
    """The weights and what is added of convolutions that give these shapes."""
    weights = dict(weights)
    for name, shape in results.items():
        shape = (1,) + shape
        weights[f"{name}/product.alpha"] = np.ones(shape, F)
        for part in ("mu", "delta"):
            weights[f"{name}/product.{part}"] = drawn(f"{name}/product.{part}", shape, 0.001)
    return weights


# What convolutions give.
RESULTS = {"lenet": {"conv1": (3, 4, 4), "conv2": (4, 3, 3)}, "residual": {"conv1": (4, 4, 4), "conv2": (4, 4, 4), "conv3": (4, 4, 4)}}


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for number, (network, kind) in enumerate(NETWORKS.items()):
        # The networks and data of make_fixtures.
        weights, images, labels = drawn_data(number, kind)[1:]
        weights = with_compensation(weights, RESULTS[network])
        net = of_octo(kind)(Octo(), weights, DecayedAdam(weights), RELU)
        write_steps(folder / f"{network}.octo.npz", net, images, labels, RATES)


if __name__ == "__main__":
    main()
