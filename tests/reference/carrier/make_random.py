"""Writes tests/data/carrier/random-N.onnx and random-N.NAME.npz: a step of networks of three random layers under each algorithm, in numpy.

Run: python make_random.py [output folder] (numpy and onnx). A first convolution, a layer of odd sizes between (a convolution with strides
and uneven padding, a depthwise one, one in groups, one by one, or a matrix product), and a last matrix product: what algorithms
do with errors and with inner layers shows in the one between. The formulas are those of make_fixtures.py, make_formats.py, make_wageubn.py,
make_octo.py and make_priot.py.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import helper

import make_fixtures
import make_formats
from make_fixtures import CLASSES, RELU, Conv, F, Layer, Linear, Network, onnx_model, write_steps
from make_formats import Afp, scaled
from make_octo import DecayedAdam, Octo, of_octo, with_compensation
from make_priot import Fixed, Priot, Scores, first_scores, of_priot
from make_wageubn import Updates, Wageubn, of_wageubn

BATCH = 3
# Channels in and out, groups, kernel, strides, pads of the inner layer; "linear" has features alone.
INNER = [
    (5, 7, 1, (2, 3), (1, 2), (0, 1, 1, 2)),
    (5, 10, 5, (3, 1), (2, 1), (1, 0, 0, 0)),
    (6, 9, 3, (1, 2), (1, 1), (0, 0, 0, 1)),
    (3, 5, 1, (1, 1), (2, 2), (0, 0, 0, 0)),
    (3, 11),
]


def network(number, inner):
    rng = np.random.default_rng(71 + number)
    channels, size = int(rng.integers(1, 4)), (int(rng.integers(6, 9)), int(rng.integers(5, 8)))
    kernel = tuple(int(k) for k in rng.integers(1, 4, 2))
    strides = tuple(int(s) for s in rng.integers(1, 3, 2))
    pads = tuple(int(p) for p in rng.integers(0, min(kernel), 4)) if min(kernel) > 1 else (0, 0, 0, 0)
    after = lambda size, k, s, p: tuple((size[i] + p[i] + p[i + 2] - k[i]) // s[i] + 1 for i in (0, 1))
    first = (channels, inner[0], 1, kernel, strides, pads)
    middle = after(size, kernel, strides, pads)
    shapes = {"l1.weight": (inner[0], channels) + kernel, "l1.bias": (inner[0],)}
    results = {"l1": (inner[0],) + middle}
    linear = len(inner) == 2
    if linear:
        shapes.update({"l2.weight": (inner[1], inner[0] * middle[0] * middle[1]), "l2.bias": (inner[1],)})
        features = inner[1]
    else:
        out = after(middle, *inner[3:])
        shapes.update({"l2.weight": (inner[1], inner[0] // inner[2]) + inner[3], "l2.bias": (inner[1],)})
        features = inner[1] * out[0] * out[1]
        results["l2"] = (inner[1],) + out
    shapes.update({"l3.weight": (CLASSES, features), "l3.bias": (CLASSES,)})

    class Random(Network):
        SHAPES, RESULTS, IMAGE, RNG = shapes, results, (channels,) + size, rng
        # Channels in and out, groups, kernel, strides, pads of both layers before the last; "linear" has features alone.
        FIRST, BETWEEN = first, inner

        def make_layers(self):
            between = Linear() if linear else Conv(inner[4], inner[5], inner[2])
            return {"l1": Layer(Conv(first[4], first[5]), first=True), "l2": Layer(between), "l3": Layer(Linear(), last=True)}

        def forward(self, images):
            self.a = self.product("l1", images)
            x = self.active(self.a)
            self.b = self.product("l2", x.reshape(len(x), -1) if linear else x)
            return self.product("l3", self.active(self.b).reshape(len(images), -1))

        def backward(self, e, gradients, run):
            e = self.product_error("l3", e, gradients, run)
            e = self.product_error("l2", self.active_error(self.b, e.reshape(self.b.shape)), gradients, run)
            self.product_error("l1", self.active_error(self.a, e.reshape(self.a.shape)), gradients, run)

        @staticmethod
        def nodes():
            def conv(name, x, _, __, groups, kernel, strides, pads):
                return helper.make_node("Conv", [x, name + ".weight", name + ".bias"], [name], name=name,
                                        kernel_shape=kernel, strides=strides, pads=pads, group=groups)
            gemm = lambda name, x: helper.make_node("Gemm", [x, name + ".weight", name + ".bias"], [name], name=name, transB=1)
            relu = lambda name, x: helper.make_node("Relu", [x], [name], name=name)
            flat = lambda x: helper.make_node("Flatten", [x], ["flat"], name="flat")
            if linear:
                between = [flat("act1"), gemm("l2", "flat"), relu("act2", "l2"), gemm("l3", "act2")]
            else:
                between = [conv("l2", "act1", *inner), relu("act2", "l2"), flat("act2"), gemm("l3", "flat")]
            return [conv("l1", "images", *first), relu("act1", "l1")] + between, "l3"

    names = ("flat", "act2") if linear else ("act1", "flat")
    Afp.NAMES[f"random-{number}"] = {
        "l1": ("images", "act1/relu_gradient"), "l2": (names[0], "act2/relu_gradient"),
        "l3": (names[1], "loss/softmax_cross_entropy_gradient")}
    return Random


def drawn(kind):
    """Parameters, images and labels of a step."""
    parameters = {name: kind.RNG.normal(0, 0.4, shape).astype(F) for name, shape in kind.SHAPES.items()}
    images = kind.RNG.normal(0, 1, (1, BATCH) + kind.IMAGE).astype(F)
    return parameters, images, kind.RNG.integers(0, CLASSES, (1, BATCH)).astype(np.int32)


def algorithms(number):
    """Name, the algorithm, its optimizer, bounds of its activations."""
    for name, (algorithm, optimizer, bounds) in make_fixtures.ALGORITHMS.items():
        yield name, algorithm(), optimizer, bounds
    for name, (algorithm, optimizer) in make_formats.ALGORITHMS.items():
        # The other settings of `afp` need several steps to differ.
        if name != "afp-wide" and name != "afp-stale":
            yield name, algorithm(f"random-{number}"), optimizer, RELU
    yield "wageubn", Wageubn(), Updates, RELU
    yield "octo", Octo(), DecayedAdam, RELU
    yield "priot", Priot(f"random-{number}"), lambda weights: Scores(first_scores(weights)), RELU
    yield "priot-fixed", Fixed(), lambda weights: Scores(first_scores(weights)), RELU


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for number, inner in enumerate(INNER):
        kind = network(number, inner)
        parameters, images, labels = drawn(kind)
        (folder / f"random-{number}.onnx").write_bytes(onnx_model(kind, parameters, kind.IMAGE))
        print(number, kind.IMAGE, kind.SHAPES)
        for name, algorithm, optimizer, bounds in algorithms(number):
            weights = {key: value.copy() for key, value in parameters.items()}
            others = {"wageubn": of_wageubn, "octo": of_octo, "priot": of_priot, "priot-fixed": of_priot}
            own = others[name](kind) if name in others else scaled(kind, getattr(algorithm, "LOSS_SCALE", F(1)))
            if name == "octo":
                weights = with_compensation(weights, kind.RESULTS)
            net = own(algorithm, weights, optimizer(weights), bounds)
            if name == "wageubn":
                net.optimizer.products, net.optimizer.inner = {"l1.weight", "l2.weight", "l3.weight"}, {"l2.weight"}
            net.optimizer.algorithm = net.algorithm
            write_steps(folder / f"random-{number}.{name}.npz", net, images, labels, (0.05,))


if __name__ == "__main__":
    main()
