"""Writes tests/data/carrier/qas-NAME.onnx and qas-NAME.qas.npz: two small int8 networks and three steps of fine-tuning them under `qas`.

Run: python make_qas.py [output folder] (numpy and onnx). Written from Lin et al., On-Device Training Under 256KB Memory, NeurIPS 2022,
section 3.1, not from the algorithm file. `lenet` has ONNX's QuantizeLinear and DequantizeLinear, `residual` QONNX's Quant, which TensorFlow
Lite files become.

An activation is (q - zero) * step, a weight round(w) * step where w, the integer with a fraction, is what is trained. Forward products
are of integers. The literal formulas of the paper, in integers' units and double precision, are asserted beside what is stored.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from make_fixtures import BATCH, CLASSES, RATES, STEPS, Conv, F, Linear, dequantized, ops


class Quantizer:
    """One step and zero for a tensor; `linear`: ONNX's order, which rounds before it adds the zero."""

    def __init__(self, values, signed, linear, symmetric=False):
        least, largest = min(values.min(), 0), max(values.max(), 0)
        self.low, self.high = (-128, 127) if signed else (0, 255)
        # Two thirds of the range, so that some values lie outside.
        self.step = F((largest - least) / 170)
        zero = 0 if symmetric else int(np.clip(round(self.low - least / 1.5 / self.step), self.low, self.high))
        self.zero, self.linear, self.signed = zero, linear, signed

    def rounded(self, x):
        if self.linear:
            return np.rint(x / self.step) + F(self.zero)
        return np.rint(x / self.step + F(self.zero))

    def __call__(self, x):
        self.x = x
        self.q = np.clip(self.rounded(x), self.low, self.high).astype(np.int64)
        return self

    def value(self):
        return (self.q - self.zero).astype(F) * self.step

    def moved(self, change):
        other = object.__new__(Quantizer)
        other.__dict__.update(self.__dict__)
        other.q = change(self.q)
        return other

    def error(self, e):
        y = self.rounded(self.x)
        return np.where((y < self.low) | (y > self.high), F(0), e)


class Layer:
    def __init__(self, product, w, b, x_step, per_channel=True):
        self.product = product
        axes = tuple(range(1, w.ndim))
        largest = np.abs(w).max(axes if per_channel else None, keepdims=True)
        self.step = (largest / 127).astype(F)
        # Integers have no -0.
        self.w = (np.clip(np.rint(w / self.step), -127, 127) + 0).astype(F)
        self.bias_step = (np.full(len(b), x_step) * np.broadcast_to(self.step.ravel(), len(b))).astype(F)
        self.b = (np.rint(b / self.bias_step) + 0).astype(F)
        if isinstance(product, Conv):
            product.kernel = w.shape[2:]

    def codes(self):
        return np.clip(np.rint(self.w), -128, 127)

    def forward(self, x):
        """Of a quantizer's integers."""
        self.x = x
        q = self.codes().astype(np.int64)
        inside = dequantized(self.product.forward(self.product.one_row(x.q), q))
        sums = dequantized(self.product.forward(x.q, q)) - F(x.zero) * inside
        out = (1, -1) + (1,) * (sums.ndim - 2)
        y = sums * (x.step * self.step.reshape(out))
        self.q = q
        return y + (np.rint(self.b) * self.bias_step).reshape(out)

    def backward(self, e, rate, first):
        db, dw = ops.channel_sums(e), self.product.float_gradient(self.x.value(), e)
        gw, gb = dw * self.step, db * self.bias_step
        self.literal(e, gw, gb)
        error = None if first else self.product.float_error(e, self.codes() * self.step)
        step = gw / (self.step * self.step)
        self.w = np.maximum(np.minimum(self.w - F(rate) * step, F(127)), F(-128))
        step = gb / (self.bias_step * self.bias_step)
        self.b = np.maximum(np.minimum(self.b - F(rate) * step, F(2**31)), F(-(2**31)))
        return error

    def literal(self, e, gw, gb):
        """The paper's gradients of the integers: gc = e_y * eff, dW = x - zero with gc, over step^2; db over (step * x's step)^2.

        With an output of step 1, e_y is e. Whatever that step is, it cancels."""
        sy = 0.37
        out = (1, -1) + (1,) * (e.ndim - 2)
        eff = float(self.x.step) * self.step.astype(np.float64).reshape(out) / sy
        gc = (e.astype(np.float64) * sy) * eff
        x = (self.x.q - self.x.zero).astype(np.float64)
        dw = gradient64(self.product, x, gc, self.w.shape) / self.step.astype(np.float64) ** 2
        assert np.allclose(dw, gw / self.step**2, rtol=1e-3, atol=1e-4 * np.abs(dw).max())
        db = gc.sum(tuple(i for i in range(e.ndim) if i != 1)) / (self.step.astype(np.float64).ravel() * self.x.step) ** 2
        assert np.allclose(db, gb / self.bias_step**2, rtol=1e-3, atol=1e-4 * np.abs(db).max())


def gradient64(product, x, e, shape):
    if isinstance(product, Linear):
        return e.T @ x
    y = np.zeros(shape)
    inputs, per_group = shape[1], shape[0] // product.groups
    for i, j, view, _ in product._taps(x):
        for o in range(shape[0]):
            first = o // per_group * inputs
            y[o, :, i, j] = np.einsum("bhw,bchw->c", e[:, o], view[:, first:first + inputs])
    return y


def relu(x):
    return np.maximum(x, F(0))


class Network:
    def step(self, images, labels, rate):
        scores = self.forward(images)
        loss = ops.cross_entropy(scores, labels)
        self.backward(ops.cross_entropy_gradient(scores, labels), rate)
        return loss

    def state(self):
        own = {}
        for name, layer in self.layers.items():
            own[f"{name}.weight.codes"], own[f"{name}.bias.codes"] = layer.w.copy(), layer.b.copy()
        return own


class LeNet(Network):
    LINEAR, IMAGE = True, (2, 8, 8)

    def __init__(self, rng, images):
        w = lambda *shape: rng.normal(0, 0.4, shape).astype(F)
        self.quantizers, self.layers = {}, {}
        x = self.add_quantizer("images", images, True)
        x = self.add("conv1", Conv((2, 2), (1, 0, 0, 1)), w(3, 2, 3, 3), w(3), x)
        x = self.add_quantizer("act1", relu(x), False)
        x = self.add("conv2", Conv((1, 1), (1, 0, 0, 1)), w(4, 3, 3, 3), w(4), x)
        x = self.add_quantizer("act2", relu(x), True)
        x = self.add("fc1", Linear(), w(7, 36), w(7), x.moved(lambda q: q.reshape(len(images), -1)))
        x = self.add_quantizer("act3", relu(x), False)
        x = self.add("fc2", Linear(), w(CLASSES, 7), w(CLASSES), x, per_channel=False)
        self.add_quantizer("scores", x, True)

    def add_quantizer(self, name, values, signed):
        self.quantizers[name] = Quantizer(values, signed, self.LINEAR)
        return self.quantizers[name](values)

    def add(self, name, product, w, b, x, per_channel=True):
        self.layers[name] = Layer(product, w, b, x.step, per_channel)
        return self.layers[name].forward(x)

    def forward(self, images):
        q, l = self.quantizers, self.layers
        self.a = l["conv1"].forward(q["images"](images))
        self.b = l["conv2"].forward(q["act1"](relu(self.a)))
        self.c = l["fc1"].forward(q["act2"](relu(self.b)).moved(lambda q: q.reshape(len(images), -1)))
        return q["scores"](l["fc2"].forward(q["act3"](relu(self.c)))).value()

    def backward(self, e, rate):
        q, l = self.quantizers, self.layers
        e = l["fc2"].backward(q["scores"].error(e), rate, False)
        e = l["fc1"].backward(np.where(self.c > 0, q["act3"].error(e), F(0)), rate, False)
        e = l["conv2"].backward(np.where(self.b > 0, q["act2"].error(e.reshape(self.b.shape)), F(0)), rate, False)
        l["conv1"].backward(np.where(self.a > 0, q["act1"].error(e), F(0)), rate, True)

    def nodes(self, g):
        x = g.quantizer("images", "images")
        x = g.quantizer("act1", g.relu("act1", g.conv("conv1", x, strides=[2, 2], pads=[1, 0, 0, 1])))
        x = g.quantizer("act2", g.relu("act2", g.conv("conv2", x, pads=[1, 0, 0, 1])))
        x = g.node("Flatten", "flat", [x])
        x = g.quantizer("act3", g.relu("act3", g.gemm("fc1", x)))
        return g.quantizer("scores", g.gemm("fc2", x))


class Residual(LeNet):
    """A depthwise convolution between two others, and around it and the second a shortcut."""
    LINEAR = False

    def __init__(self, rng, images):
        w = lambda *shape: rng.normal(0, 0.4, shape).astype(F)
        self.quantizers, self.layers = {}, {}
        x = self.add_quantizer("images", images, True)
        x = self.add("conv1", Conv((2, 2), (1, 1, 1, 1)), w(4, 2, 3, 3), w(4), x)
        kept = self.add_quantizer("act1", relu(x), True)
        x = self.add("conv2", Conv((1, 1), (1, 1, 1, 1), 4), w(4, 1, 3, 3), w(4), kept)
        x = self.add_quantizer("act2", relu(x), False)
        x = self.add_quantizer("third", self.add("conv3", Conv(), w(4, 4, 1, 1), w(4), x), True)
        x = self.add_quantizer("act3", relu(x.value() + kept.value()), True)
        self.add("fc", Linear(), w(CLASSES, 64), w(CLASSES), x.moved(lambda q: q.reshape(len(images), -1)))

    def forward(self, images):
        q, l = self.quantizers, self.layers
        self.a = l["conv1"].forward(q["images"](images))
        kept = q["act1"](relu(self.a))
        self.b = l["conv2"].forward(kept)
        third = q["third"](l["conv3"].forward(q["act2"](relu(self.b))))
        self.c = third.value() + kept.value()
        return l["fc"].forward(q["act3"](relu(self.c)).moved(lambda q: q.reshape(len(images), -1)))

    def backward(self, e, rate):
        q, l = self.quantizers, self.layers
        e = l["fc"].backward(e, rate, False).reshape(self.c.shape)
        joined = np.where(self.c > 0, q["act3"].error(e), F(0))
        e = l["conv3"].backward(q["third"].error(joined), rate, False)
        e = l["conv2"].backward(np.where(self.b > 0, q["act2"].error(e), F(0)), rate, False)
        e = q["act1"].error(e + joined)
        l["conv1"].backward(np.where(self.a > 0, e, F(0)), rate, True)

    def nodes(self, g):
        x = g.quantizer("images", "images")
        kept = g.quantizer("act1", g.relu("act1", g.conv("conv1", x, strides=[2, 2], pads=[1] * 4)))
        x = g.quantizer("act2", g.relu("act2", g.conv("conv2", kept, pads=[1] * 4, group=4)))
        x = g.quantizer("third", g.conv("conv3", x))
        x = g.quantizer("act3", g.relu("act3", g.node("Add", "sum", [x, kept])))
        return g.gemm("fc", g.node("Flatten", "flat", [x]))


class Model:
    """An ONNX file of a network."""

    def __init__(self, network):
        self.network, self.all, self.tensors = network, [], []
        self.output = network.nodes(self)

    def node(self, op, name, inputs, **attributes):
        self.all.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def tensor(self, name, value):
        self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def relu(self, name, x):
        return self.node("Relu", name, [x])

    def quantizer(self, name, x):
        q = self.network.quantizers[name]
        step = self.tensor(name + ".step", F(q.step))
        if not q.linear:
            zero, bits = self.tensor(name + ".zero", F(q.zero)), self.tensor(name + ".bits", F(8))
            return self.node("Quant", name + ".value", [x, step, zero, bits], domain="qonnx.custom_op.general",
                             signed=int(q.signed), narrow=0, rounding_mode="ROUND")
        zero = self.tensor(name + ".zero", (np.int8 if q.signed else np.uint8)(q.zero))
        integers = self.node("QuantizeLinear", name + ".integers", [x, step, zero])
        return self.node("DequantizeLinear", name + ".value", [integers, step, zero])

    def weights(self, name):
        layer = self.network.layers[name]
        step = layer.step.ravel() if layer.step.size > 1 else layer.step.reshape(())
        w = [self.tensor(name + ".weight", layer.w.astype(np.int8)), self.tensor(name + ".weight.step", step)]
        b = [self.tensor(name + ".bias", layer.b.astype(np.int32)), self.tensor(name + ".bias.step", layer.bias_step)]
        return [self.node("DequantizeLinear", name + ".weight.value", w, axis=0),
                self.node("DequantizeLinear", name + ".bias.value", b, axis=0)]

    def conv(self, name, x, **attributes):
        return self.node("Conv", name, [x] + self.weights(name), **attributes)

    def gemm(self, name, x):
        return self.node("Gemm", name, [x] + self.weights(name), transB=1)

    def bytes(self):
        graph = helper.make_graph(
            self.all, "net", [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", *self.network.IMAGE])],
            [helper.make_tensor_value_info(self.output, TensorProto.FLOAT, ["batch", CLASSES])], self.tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("qonnx.custom_op.general", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model)
        return model.SerializeToString(deterministic=True)


def write_steps(path, net, images, labels, rates):
    """Trains, a step for each rate, and writes what went in and what came of it."""
    states, losses = [net.state()], []
    for step, rate in enumerate(rates):
        losses.append(net.step(images[step], labels[step], rate))
        states.append(net.state())
    arrays = {f"state.{key}": np.stack([state[key] for state in states]) for key in states[0]}
    assert all(value.dtype == F for value in arrays.values())
    moved = [np.abs(np.rint(v[-1]) - np.rint(v[0])).max() for k, v in arrays.items() if "weight" in k]
    print(path.name, "integers of weights moved by up to", moved)
    arrays.update(images=images, labels=labels, rates=np.array(rates, F), losses=np.array(losses, F))
    np.savez_compressed(path, **arrays)


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for number, (name, kind) in enumerate({"lenet": LeNet, "residual": Residual}.items()):
        rng = np.random.default_rng(31 + number)
        images = rng.normal(0, 1, (STEPS, BATCH, 2, 8, 8)).astype(F)
        labels = rng.integers(0, CLASSES, (STEPS, BATCH)).astype(np.int32)
        net = kind(rng, images[0])
        (folder / f"qas-{name}.onnx").write_bytes(Model(net).bytes())
        write_steps(folder / f"qas-{name}.qas.npz", net, images, labels, RATES)


if __name__ == "__main__":
    main()
