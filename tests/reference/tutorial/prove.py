"""Three steps under levels.toml, in numpy (docs/tutorial.md; numpy and onnx).

python prove.py write: net.onnx, steps.npz, and expected.npz, the weights after the steps. python prove.py check: compares levels.safetensors.
"""
import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = np.float32
BITS, RATE = 6, F(0.1)
rng = np.random.default_rng(0)
W1, W2 = rng.normal(0, 0.5, (8, 6)).astype(F), rng.normal(0, 0.5, (2, 8)).astype(F)
X, T = rng.normal(0, 1, (12, 6)).astype(F), rng.normal(0, 1, (12, 2)).astype(F)


def write():
    nodes = [helper.make_node("Gemm", ["x", "w1"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["a"]),
             helper.make_node("Gemm", ["a", "w2"], ["y"], transB=1)]
    tensor = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
    weights = [numpy_helper.from_array(W1, "w1"), numpy_helper.from_array(W2, "w2")]
    graph = helper.make_graph(nodes, "net", [tensor("x", 6)], [tensor("y", 2)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "net.onnx")
    np.savez("steps.npz", x_train=X, y_train=T, x_test=X[:4], y_test=T[:4])
    np.savez("expected.npz", **trained())


def quantized(x, levels):
    """Codes, and what one stands for."""
    step = np.abs(x).max() / F(levels)
    return np.clip(np.rint(x / step), -levels, levels).astype(np.int64), step


def product(a, b):
    return (a[0] @ b[0]).astype(F) * (a[1] * b[1])


def transposed(a):
    return a[0].T, a[1]


def trained():
    levels = 2 ** (BITS - 1) - 1
    weights, momenta = [W1.copy(), W2.copy()], [np.zeros_like(W1), np.zeros_like(W2)]
    for at in range(0, 12, 4):
        x, target = X[at:at + 4], T[at:at + 4]
        w1, w2 = quantized(weights[0], levels), quantized(weights[1], levels)
        qx = quantized(x, levels)
        h = product(qx, transposed(w1))
        a = quantized(np.maximum(h, F(0)), levels)
        y = product(a, transposed(w2))
        # The mean of 8 squares; division by a power of two is exact.
        e2 = quantized((y - target) * F(2 / 8), 127)
        e1 = np.where(h > 0, product(e2, w2), F(0))
        e1 = quantized(e1, 127)
        gradients = [product(transposed(e1), qx), product(transposed(e2), a)]
        for i, gradient in enumerate(gradients):
            momenta[i] = F(0.9) * momenta[i] + gradient
            weights[i] = weights[i] - RATE * momenta[i]
    return {"w1": weights[0], "w2": weights[1]}


def check():
    data = open("levels.safetensors", "rb").read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    for name, expected in trained().items():
        begin, end = header[name]["data_offsets"]
        found = np.frombuffer(data[8 + size + begin:8 + size + end], F).reshape(expected.shape)
        print(name, "equal" if np.array_equal(found.view(np.int32), expected.view(np.int32)) else f"differs\n{found}\n{expected}")


{"write": write, "check": check}[sys.argv[1]]()
