"""Writes networks with batch normalization in training form: python nets.py cnn|mlp|narrow|lenet OUTPUT.onnx; for the 8x8 digits, but the
last.

cnn: two 3x3 convolutions (16, 32), each with batch normalization, ReLU and 2x2 max pooling, then 64 features with batch
normalization and ReLU, then the classes. mlp: three hidden layers of 512 features, each with batch normalization and ReLU;
narrow: the same of 128, 128 and 64. lenet: for MNIST, LeNet-5's layers (two 3x3 convolutions of 6 and 16 channels with pools, 120 and 84
features), each with batch normalization and ReLU.
Weights are uniform in +-sqrt(6 / (inputs + outputs)), by seed 0; `trainc train --init random --seed N` draws others.
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper


class Builder:
    def __init__(self):
        self.nodes, self.weights, self.rng = [], {}, np.random.default_rng(0)

    def weight(self, name, *shape):
        receptive = int(np.prod(shape[2:]))
        limit = np.sqrt(6 / ((shape[0] + shape[1]) * receptive))
        self.weights[name] = self.rng.uniform(-limit, limit, shape).astype(np.float32)
        return name

    def node(self, op, name, inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def norm(self, x, channels):
        names = []
        for part, value in (("scale", 1), ("bias", 0), ("mean", 0), ("variance", 1)):
            names.append(f"{x}.{part}")
            self.weights[names[-1]] = np.full(channels, value, np.float32)
        outputs = [x + ".norm", x + ".next_mean", x + ".next_variance"]
        self.nodes.append(helper.make_node("BatchNormalization", [x, *names], outputs, name=outputs[0], training_mode=1, epsilon=1e-4))
        return self.node("Relu", x + ".relu", outputs[:1])

    def conv(self, name, x, inputs, outputs):
        y = self.node("Conv", name, [x, self.weight(name + ".weight", outputs, inputs, 3, 3)], kernel_shape=[3, 3], pads=[1] * 4)
        return self.node("MaxPool", name + ".pool", [self.norm(y, outputs)], kernel_shape=[2, 2], strides=[2, 2])

    def linear(self, name, x, inputs, outputs):
        return self.node("Gemm", name, [x, self.weight(name + ".weight", outputs, inputs)], transB=1)

    def last(self, x, inputs):
        self.weights["last.bias"] = np.zeros(10, np.float32)
        return self.node("Gemm", "last", [x, self.weight("last.weight", 10, inputs), "last.bias"], transB=1)


def cnn(b):
    x = b.conv("conv2", b.conv("conv1", "images", 1, 16), 16, 32)
    x = b.node("Flatten", "flat", [x])
    b.last(b.norm(b.linear("fc", x, 128, 64), 64), 64)


def mlp(b, sizes=(512, 512, 512)):
    x, inputs = b.node("Flatten", "flat", ["images"]), 64
    for i, outputs in enumerate(sizes):
        x = b.norm(b.linear(f"fc{i + 1}", x, inputs, outputs), outputs)
        inputs = outputs
    b.last(x, inputs)


def narrow(b):
    mlp(b, (128, 128, 64))


def lenet(b):
    x = b.conv("conv2", b.conv("conv1", "images", 1, 6), 6, 16)
    x = b.node("Flatten", "flat", [x])
    x = b.norm(b.linear("fc1", x, 784, 120), 120)
    b.last(b.norm(b.linear("fc2", x, 120, 84), 84), 84)


def main():
    name, output = sys.argv[1:]
    b = Builder()
    {"cnn": cnn, "mlp": mlp, "narrow": narrow, "lenet": lenet}[name](b)
    size = 28 if name == "lenet" else 8
    graph = helper.make_graph(
        b.nodes, name, [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 1, size, size])],
        [helper.make_tensor_value_info("last", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(value, key) for key, value in b.weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    Path(output).write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
