"""Writes tests/data/carrier/normalized.sbm.npz and normalized.sbm-4.npz: three training steps under `sbm` of the network with batch
normalization of make_wageubn.py, in numpy.

Run: python make_sbm.py [output folder] (numpy and onnx), behind make_wageubn.py. Written from Banner et al., Scalable Methods for 8-bit
Training of Neural Networks, NeurIPS 2018, not from the algorithm file:

  section 4   range batch normalization: a channel's batch and space are cut into 16 chunks of n elements; the deviation is the mean of
              their greatest less the mean of their least elements, times 0.175 (1 + sqrt(pi ln 4)) / sqrt(2 ln n); 1e-5 is added.
              Its operand and the error of its result are rounded as those of products are.
  section 5   weight gradients of errors as they are; `sbm-4` has 4 bits and errors that are rounded there, too

Where 16 do not divide a channel's N elements with two or more to a chunk, the greatest lesser number that does cuts them.
"""

import math
import sys
from pathlib import Path

import numpy as np

from make_fixtures import F, RATES, RELU, Sbm, Sgd, drawn_data, ops, write_steps
from make_wageubn import Normalized, with_norms

CHUNKS = 16


def in_chunks(x):
    """A channel's elements, by batch, then space: chunks by elements, for each channel."""
    rows = np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)
    count = next((k for k in range(CHUNKS, 1, -1) if rows.shape[1] % k == 0 and rows.shape[1] // k > 1), 1)
    return rows.reshape(x.shape[1], count, -1)


def factor(chunks):
    n = chunks.shape[2]
    return F(0.175 * (1 + math.sqrt(math.pi * math.log(4))) / math.sqrt(2 * math.log(n))) if n > 1 else F(0)


def mean_of(values):
    """Added in order."""
    total = np.zeros(len(values), F)
    for k in range(values.shape[1]):
        total = total + values[:, k]
    return total / F(values.shape[1])


class RangeNormalized(Normalized):
    def normalized(self, name, x):
        layer, own = self.layers[name], self.weights
        x = self.algorithm.value(self.algorithm.activation(x))
        mean = ops.normalization_sums(x) / F(x.size // x.shape[1])
        chunks = in_chunks(x)
        deviation = (mean_of(chunks.max(2)) - mean_of(chunks.min(2))) * factor(chunks) + F(1e-5)
        keep, take = F(0.9), F(1) - F(0.9)
        self.running[name + ".mean"] = self.running[name + ".mean"] * keep + mean * take
        self.running[name + ".variance"] = self.running[name + ".variance"] * keep + deviation * deviation * take
        layer.inverse, layer.into = F(1) / deviation, x
        layer.normal = (x - ops.stretched(mean, x)) * ops.stretched(layer.inverse, x)
        return layer.normal * ops.stretched(own[name + ".scale"], x) + ops.stretched(own[name + ".shift"], x)

    def normalized_error(self, name, e, gradients):
        layer, x = self.layers[name], self.layers[name].into
        e = self.algorithm.value(self.algorithm.rounded_error(e, self.algorithm.run))
        through = ops.normalization_sums(e * layer.normal)
        total = ops.normalization_sums(e)
        gradients[name + ".scale"], gradients[name + ".shift"] = through, total
        slope = self.weights[name + ".scale"] * layer.inverse
        dx = ops.stretched(slope, x) * (e - ops.stretched(total / F(x.size // x.shape[1]), x))
        chunks = in_chunks(x)
        # The mean of the greatest goes to the first greatest element of each chunk, that of the least to the first least.
        push = slope * through * (factor(chunks) / F(chunks.shape[1]))
        moved = np.ascontiguousarray(np.moveaxis(dx, 1, 0)).reshape(chunks.shape)
        for c in range(chunks.shape[0]):
            for k in range(chunks.shape[1]):
                moved[c, k, chunks[c, k].argmax()] -= push[c]
                moved[c, k, chunks[c, k].argmin()] += push[c]
        shape = (x.shape[1], x.shape[0]) + x.shape[2:]
        return np.ascontiguousarray(np.moveaxis(moved.reshape(shape), 0, 1))


class Sbm4(Sbm):
    FW, BW, BIFURCATED = 4, 4, False


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for name, algorithm in (("sbm", Sbm), ("sbm-4", Sbm4)):
        # The network and data of make_wageubn.
        rng, parameters, images, labels = drawn_data(2, Normalized)
        running = with_norms(rng, Normalized, parameters)
        net = RangeNormalized(algorithm(), parameters, Sgd(parameters), RELU)
        net.running = running
        write_steps(folder / f"normalized.{name}.npz", net, images, labels, RATES)


if __name__ == "__main__":
    main()
