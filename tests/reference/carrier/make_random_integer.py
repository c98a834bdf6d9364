"""Writes, for the networks of make_random.py, three steps under `niti` and `niti-2020`, tests/data/carrier/random-N.niti.npz and
.niti-2020.npz, and the same layers quantized already with a step under `qas`, qas-random-N.onnx and .qas.npz.

Run: python make_random_integer.py [output folder] (numpy and onnx). The formulas are those of ../niti and make_qas.py.
"""

import sys
from pathlib import Path

import numpy as np

import make_qas
from make_fixtures import Conv, F, Linear
from make_qas import Model
from make_random import INNER, drawn, network

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "niti"))
import make_2020
import network as net
import niti

# Bits of the updates of NITI's steps; a rate.
BITS, RATE = (5, 3, 4), 0.05


def niti_nodes(kind):
    def conv(name, source, shape):
        _, outputs, groups, kernel, strides, pads = shape
        return net.conv(name, source, outputs, kernel, strides, pads=pads, groups=groups, bias=True)

    nodes = [conv("l1", net.INPUT, kind.FIRST), net.relu("act1", "l1")]
    if len(kind.BETWEEN) == 2:
        nodes += [net.flatten("flat", "act1"), net.linear("l2", "flat", kind.BETWEEN[1], bias=True), net.relu("act2", "l2")]
        last = "act2"
    else:
        nodes += [conv("l2", "act1", kind.BETWEEN), net.relu("act2", "l2"), net.flatten("flat", "act2")]
        last = "flat"
    return nodes + [net.linear("l3", last, kind.SHAPES["l3.bias"][0], bias=True)]


def write_niti(path, kind, parameters, images, labels):
    model = net.Network({"nodes": niti_nodes(kind), "logits": "l3"}, parameters)
    states = [dict(model.q)]
    for step, bits in enumerate(BITS):
        model.step(images[0], labels[0], bits, 0, step)
        states.append(dict(model.q))
    arrays = {f"state.{name}": np.stack([state[name] for state in states]) for name in parameters}
    assert all((value[0] != value[1]).any() for name, value in arrays.items() if "weight" in name), path
    arrays.update({f"exponent.{name}": np.array(model.exponent[name], np.int32) for name in parameters})
    again = lambda drawn: np.repeat(drawn, len(BITS), axis=0)
    np.savez_compressed(path, images=again(images), labels=again(labels), rates=np.array(BITS, np.int32), **arrays)


class Quantized(make_qas.LeNet):
    """The layers of a random network, their operands quantized as ONNX does or as TensorFlow Lite does."""

    def __init__(self, kind, linear, parameters, images):
        self.kind, self.LINEAR, self.IMAGE = kind, linear, kind.IMAGE
        self.flat = len(kind.BETWEEN) == 2
        self.quantizers, self.layers = {}, {}
        own = lambda name: (parameters[name + ".weight"], parameters[name + ".bias"])
        conv = lambda shape: Conv(shape[4], shape[5], shape[2])
        rows = lambda x: x.moved(lambda q: q.reshape(len(images), -1))
        x = self.add_quantizer("images", images, True)
        x = self.add_quantizer("act1", np.maximum(self.add("l1", conv(kind.FIRST), *own("l1"), x), F(0)), False)
        between = Linear() if self.flat else conv(kind.BETWEEN)
        x = self.add("l2", between, *own("l2"), rows(x) if self.flat else x)
        x = rows(self.add_quantizer("act2", np.maximum(x, F(0)), True))
        self.add("l3", Linear(), *own("l3"), x, per_channel=False)

    def forward(self, images):
        q, l = self.quantizers, self.layers
        rows = lambda x: x.moved(lambda q: q.reshape(len(images), -1))
        self.a = l["l1"].forward(q["images"](images))
        x = q["act1"](np.maximum(self.a, F(0)))
        self.b = l["l2"].forward(rows(x) if self.flat else x)
        return l["l3"].forward(rows(q["act2"](np.maximum(self.b, F(0)))))

    def backward(self, e, rate):
        q, l = self.quantizers, self.layers
        e = l["l3"].backward(e, rate, False).reshape(self.b.shape)
        e = l["l2"].backward(np.where(self.b > 0, q["act2"].error(e), F(0)), rate, False).reshape(self.a.shape)
        l["l1"].backward(np.where(self.a > 0, q["act1"].error(e), F(0)), rate, True)

    def nodes(self, g):
        def conv(name, x, shape):
            _, _, groups, _, strides, pads = shape
            return g.conv(name, x, strides=strides, pads=pads, group=groups)

        flat = lambda x: g.node("Flatten", "flat", [x])
        x = g.quantizer("act1", g.relu("act1", conv("l1", g.quantizer("images", "images"), self.kind.FIRST)))
        x = g.gemm("l2", flat(x)) if self.flat else conv("l2", x, self.kind.BETWEEN)
        x = g.quantizer("act2", g.relu("act2", x))
        return g.gemm("l3", x if self.flat else flat(x))


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    of_2021 = niti.quantize_input, niti.requantize
    for number, inner in enumerate(INNER):
        kind = network(number, inner)
        parameters, images, labels = drawn(kind)
        niti.quantize_input, niti.requantize = of_2021
        write_niti(folder / f"random-{number}.niti.npz", kind, parameters, images, labels)
        niti.quantize_input, niti.requantize = make_2020.quantize_input, make_2020.requantize
        write_niti(folder / f"random-{number}.niti-2020.npz", kind, parameters, images, labels)
        model = Quantized(kind, number % 2 == 0, parameters, images[0])
        (folder / f"qas-random-{number}.onnx").write_bytes(Model(model).bytes())
        make_qas.write_steps(folder / f"qas-random-{number}.qas.npz", model, images, labels, (RATE,))


if __name__ == "__main__":
    main()
