"""Writes tests/data/int8_master: training steps of a small network under int8_master.toml, in numpy.

Run: python make_fixtures.py [output folder] (numpy and onnx). The algorithm: weights and biases are FP32 with momentum, and
int8 in products; an operand of a product is quantized to int8 by one power of two a tensor, its int32 sums become FP32 at
once. What the file says is written out here by hand: nothing reads it. FP32 steps round once an operation, in this order.
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
BATCH, STEPS, CLASSES, MOMENTUM = 4, 4, 5, F(0.9)
STRIDES, PADS = (2, 2), (1, 0, 0, 1)
RATES = (0.05, 0.1, 0.02, 0.1)
SHAPES = {"conv.weight": (3, 2, 3, 3), "fc1.weight": (7, 48), "fc1.bias": (7,), "fc2.weight": (CLASSES, 7), "fc2.bias": (CLASSES,)}


def narrowed(x):
    return ops.quantize_exponent(x)


class Network:
    def __init__(self, parameters):
        self.master = {name: value.copy() for name, value in parameters.items()}
        self.m = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.stored = {name: ops.quantize_parameter(value, "i8") for name, value in parameters.items()}

    def product(self, x, name):
        """FP32 to FP32 through int8: a fully connected layer with its int8 bias; what its gradients need."""
        (q, e), (w, ew) = narrowed(x), self.stored[name + ".weight"]
        y = ops.dequantize(ops.niti.linear(q, w), e + ew) + ops.dequantize(*self.stored[name + ".bias"])
        return y.astype(F), (q, e)

    def product_backward(self, dy, operand, name):
        (d, ed), (q, e), (w, ew) = narrowed(dy), operand, self.stored[name + ".weight"]
        bias = np.zeros(dy.shape[1], F)
        for row in dy:
            bias = bias + row
        gradients = {name + ".weight": ops.dequantize(ops.niti.linear_backward_weight(d, q), ed + e), name + ".bias": bias}
        return ops.dequantize(ops.niti.linear_backward_input(d, w), ed + ew), gradients

    def step(self, images, labels, rate):
        (x, ex), (w, ew) = narrowed(images), self.stored["conv.weight"]
        conv = ops.dequantize(ops.niti.conv(x, w, STRIDES, (1, 1), PADS, 1), ex + ew)
        act1 = np.maximum(conv, F(0))
        flat = act1.reshape(len(act1), -1)
        fc1, operand1 = self.product(flat, "fc1")
        act2 = np.maximum(fc1, F(0))
        scores, operand2 = self.product(act2, "fc2")
        loss = ops.cross_entropy(scores, labels)
        error, gradients = self.product_backward(ops.cross_entropy_gradient(scores, labels), operand2, "fc2")
        error, more = self.product_backward(np.where(fc1 > 0, error, F(0)), operand1, "fc1")
        gradients.update(more)
        error = np.where(conv > 0, error.reshape(conv.shape), F(0))
        d, ed = narrowed(error)
        gradients["conv.weight"] = ops.dequantize(ops.niti.conv_backward_weight(d, x, w, STRIDES, (1, 1), PADS, 1), ed + ex)
        for name, gradient in gradients.items():
            self.m[name] = MOMENTUM * self.m[name] + gradient
            self.master[name] = self.master[name] - F(rate) * self.m[name]
            assert self.m[name].dtype == self.master[name].dtype == F
            self.stored[name] = ops.quantize_parameter(self.master[name], "i8")
        return loss

    def state(self):
        state = {f"{name}.m": value for name, value in self.m.items()}
        state.update({f"{name}.master": value for name, value in self.master.items()})
        state.update({name: q.astype(np.int8) for name, (q, _) in self.stored.items()})
        return state, {name: int(e) for name, (_, e) in self.stored.items()}


def onnx_model(parameters):
    nodes = [
        helper.make_node("Conv", ["images", "conv.weight"], ["conv"], name="conv", kernel_shape=[3, 3], strides=STRIDES, pads=PADS),
        helper.make_node("Relu", ["conv"], ["act1"], name="act1"),
        helper.make_node("Flatten", ["act1"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "fc1.weight", "fc1.bias"], ["fc1"], name="fc1", transB=1),
        helper.make_node("Relu", ["fc1"], ["act2"], name="act2"),
        helper.make_node("Gemm", ["act2", "fc2.weight", "fc2.bias"], ["fc2"], name="fc2", transB=1),
    ]
    initializers = [numpy_helper.from_array(value, name) for name, value in parameters.items()]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 2, 8, 8])],
        [helper.make_tensor_value_info("fc2", TensorProto.FLOAT, ["batch", CLASSES])], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "int8_master"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    rng = np.random.default_rng(11)
    parameters = {name: rng.normal(0, 0.3, shape).astype(F) for name, shape in SHAPES.items()}
    images = rng.normal(0, 1, (STEPS, BATCH, 2, 8, 8)).astype(F)
    labels = rng.integers(0, CLASSES, (STEPS, BATCH)).astype(np.int32)
    net = Network(parameters)
    states = [net.state()]
    losses = []
    for step in range(STEPS):
        losses.append(net.step(images[step], labels[step], RATES[step]))
        states.append(net.state())
    moved = sum(int((states[-1][0][name] != states[0][0][name]).sum()) for name in SHAPES)
    assert moved > 100, "int8 weights are to move"
    arrays = {f"state.{key}": np.stack([state[key] for state, _ in states]) for key in states[0][0]}
    arrays.update(images=images, labels=labels, rates=np.array(RATES, F), losses=np.array(losses, F))
    np.savez_compressed(folder / "steps.npz", **arrays)
    facts = {"exponents": {name: [exponents[name] for _, exponents in states] for name in SHAPES}}
    (folder / "steps.json").write_text(json.dumps(facts, indent=1) + "\n")
    (folder / "net.onnx").write_bytes(onnx_model(parameters))


if __name__ == "__main__":
    main()
