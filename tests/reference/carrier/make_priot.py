"""Writes tests/data/carrier/NETWORK.priot.npz and NETWORK.priot-fixed.npz: three training steps of the two small networks under `priot` and
`priot:a=3,e=5`, in numpy.

Run: python make_priot.py [output folder] (numpy and onnx). Written from Anada et al., PRIOT (2025), and Ramanujan et al., What's Hidden in a
Randomly Weighted Neural Network? (2020, edge-popup), not from the algorithm file. Weights w and biases stay as they are. With R = max|w|:

  scales    of each product's activation and error, 2^ceil(log2(max|x| / 127)) of the first step's; or 8 / 128 of activations and
            2^-5 / 128 of errors
  forward   q = round(127 (w / R) mask), mask 1 where the score is at least -0.5; activations round(x / scale) within 127; products of
            these as float32, by both steps, by R
  backward  errors by R, then floor(e / scale + u) within 127, u uniform; a score's gradient is half its weight's by w / R
  updates   score - rate * g / max|g| to a multiple of 1/128 by chance, within 127/128

Values between products are float32, each step rounded once in the order written here. First scores are 0.25 (the sum of twelve uniform numbers
- 6), drawn as in make_octo.py.
"""

import sys
from pathlib import Path

import numpy as np

from make_fixtures import F, NETWORKS, RELU, dequantized, drawn_data, uniform, write_steps
from make_formats import Afp
from make_octo import drawn

RATES = (0.03, 0.5, 0.015)
WEIGHT = F(1 / 127)
# Integers that the scales of later steps' own values would have made others.
STALE = []


class Calibrated:
    """A scale that is found once."""

    def __init__(self):
        self.exponent, self.steps = None, 0

    def of(self, x):
        mantissa, exponent = np.frexp(np.abs(x).max() / F(127))
        exponent -= int(mantissa == 0.5)
        if self.exponent is None:
            self.exponent = exponent
        STALE.append(exponent != self.exponent)
        self.steps += 1
        return F(2.0**self.exponent)

    def state(self):
        """Steps until it is found again (as many as there may be), bits, exponent, (not used), steps."""
        if self.exponent is None:
            return np.zeros(5, F)
        return np.array([2**24 - 1 - self.steps, 8, self.exponent, 0, self.steps], F)


class Fixed:
    """Scales of activations and of errors."""

    def __init__(self):
        self.streams, self.activation, self.error_of = 0, lambda layer, x: F(8 / 128), lambda layer, e: F(2.0**-5 / 128)

    @staticmethod
    def codes(x, step):
        return np.clip(np.rint(x / step), -127, 127).astype(np.int64)

    def forward(self, layer, x, w):
        layer.largest = np.abs(w).max()
        layer.share = w / layer.largest
        mask = (layer.scores >= F(-0.5)).astype(F)
        layer.of_x = self.activation(layer, x)
        layer.x, layer.w = self.codes(x, layer.of_x), self.codes((layer.share * mask) * F(127), F(1))
        return (dequantized(layer.product.forward(layer.x, layer.w)) * (layer.of_x * WEIGHT)) * layer.largest

    def error_codes(self, layer, e, run):
        e = e * layer.largest
        layer.of_e = self.error_of(layer, e)
        q = np.floor(e / layer.of_e + uniform(run, self.streams, e.shape))
        self.streams += 1
        layer.e = np.clip(q, -127, 127).astype(np.int64)

    def error(self, layer):
        return dequantized(layer.product.error(layer.e, layer.w)) * (layer.of_e * WEIGHT)

    def gradient(self, layer):
        g = dequantized(layer.product.gradient(layer.x, layer.e)) * (layer.of_x * layer.of_e)
        return (g * layer.share) * F(0.5)


class Priot(Fixed):
    """A scale for each product's activation and for its error, of the first step."""

    def __init__(self, network):
        super().__init__()
        self.names = {layer: (x, layer + "/product/mul") for layer, (x, _) in Afp.NAMES[network].items()}
        self.scales = {name: Calibrated() for names in self.names.values() for name in names}
        self.activation = lambda layer, x: self.scales[self.names[layer.name][0]].of(x)
        self.error_of = lambda layer, e: self.scales[self.names[layer.name][1]].of(e)

    def state(self):
        return {f"{name}.scale": scale.state() for name, scale in self.scales.items()}


class Scores:
    """Updates of scores, on from the streams of errors."""

    def __init__(self, scores):
        self.scores = scores

    def update(self, weights, gradients, rate):
        streams = self.algorithm.streams
        for name, s in self.scores.items():
            g = gradients[name.removesuffix(".scores")]
            moved = s - F(rate) * (g / np.abs(g).max())
            steps = np.floor(np.abs(moved) * F(128) + uniform(self.run, streams, s.shape))
            streams += 1
            self.scores[name] = (np.sign(moved) * np.minimum(steps, F(127)) * F(1 / 128) + F(0)).astype(F)

    def state(self):
        return {name: value.copy() for name, value in self.scores.items()}


def first_scores(weights):
    """Those of each weight."""
    return {f"{name}.scores": drawn(f"{name}.scores", value.shape, 0.25) for name, value in weights.items() if name.endswith("weight")}


def of_priot(kind):
    """The network with the scores of its layers."""
    class Own(kind):
        def product(self, name, x):
            self.layers[name].scores = self.optimizer.scores[name + ".weight.scores"]
            return super().product(name, x)

        def state(self):
            biases = {name: value.copy() for name, value in self.weights.items() if name.endswith(".bias")}
            return {**biases, **self.optimizer.state(), **getattr(self.algorithm, "state", dict)()}
    return Own


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for number, (network, kind) in enumerate(NETWORKS.items()):
        # The networks and data of make_fixtures.
        weights, images, labels = drawn_data(number, kind)[1:]
        for name, algorithm in (("priot", Priot(network)), ("priot-fixed", Fixed())):
            optimizer = Scores(first_scores(weights))
            net = of_priot(kind)(algorithm, {**weights}, optimizer, RELU)
            optimizer.algorithm = algorithm
            write_steps(folder / f"{network}.{name}.npz", net, images, labels, RATES)
    print(f"{sum(STALE)} of {len(STALE)} scales are not their own step's")


if __name__ == "__main__":
    main()
