"""Writes tests/data/carrier/niti-2020.npz and .onnx: training steps of a small residual network under `niti-2020`.

Run: python make_2020.py [output folder] (numpy and onnx). NITI's code of 2020 differs from that of 2021 (niti.py) in this:
the input is rint(x / max * 127); activations and errors are rescaled with pseudo-stochastic rounding, by 2 bits where it would be 1.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import network as net
import niti

STEPS, BATCH, CLASSES, SEED = 4, 4, 6, 0
BITS = (3, 2, 0, -1)
PADS = (1, 1, 1, 1)


def quantize_input(x):
    return niti.quantize_weight(x)


def requantize(accumulator, exponent):
    accumulator = niti.as_int32(accumulator)
    s = niti.bit_width(niti.max_abs(accumulator)) - 7
    if s <= 0:
        return accumulator.astype(np.int8), exponent
    s = 2 if s == 1 else s
    return niti.saturate8(niti.pseudo_stochastic(accumulator, s)), exponent + s


def main():
    here = Path(__file__).resolve().parents[2] / "data" / "carrier"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    niti.quantize_input, niti.requantize = quantize_input, requantize
    nodes = [
        net.conv("conv1", net.INPUT, 5, (3, 3), pads=PADS), net.relu("act1", "conv1"),
        net.maxpool("pool", "act1", (2, 2), (2, 2)),
        net.conv("conv2", "pool", 5, (3, 3), pads=PADS), net.relu("act2", "conv2"),
        net.conv("conv3", "act2", 5, (3, 3), pads=PADS), net.add("sum", "conv3", "pool"),
        net.relu("act3", "sum"), net.flatten("flat", "act3"),
        net.linear("fc1", "flat", 9), net.relu("act4", "fc1"), net.linear("fc2", "act4", CLASSES)]
    description = {"nodes": nodes, "logits": "fc2"}
    shapes, _ = net.parameter_shapes(description, (BATCH, 2, 8, 8))
    rng = np.random.default_rng(2020)
    parameters = {}
    for name, shape in shapes.items():
        bound = np.sqrt(6 / (np.prod(shape[1:]) + shape[0] * np.prod(shape[2:])))
        parameters[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
    images = rng.normal(0, 1, (STEPS, BATCH, 2, 8, 8)).astype(np.float32)
    labels = rng.integers(0, CLASSES, (STEPS, BATCH)).astype(np.int32)
    model = net.Network(description, parameters)
    states = [dict(model.q)]
    for step in range(STEPS):
        model.step(images[step], labels[step], BITS[step], SEED, step)
        states.append(dict(model.q))
    assert all((states[-1][name] != states[0][name]).any() for name in shapes)
    arrays = {f"state.{name}": np.stack([state[name] for state in states]) for name in shapes}
    arrays.update({f"exponent.{name}": np.array(model.exponent[name], np.int32) for name in shapes})
    arrays.update(images=images, labels=labels, rates=np.array(BITS, np.int32))
    np.savez_compressed(folder / "niti-2020.npz", **arrays)
    made = []
    for node in nodes:
        name, op = node["name"], node["op"]
        inputs = ["images" if i == net.INPUT else i for i in node["inputs"]]
        if op in ("conv", "linear"):
            inputs.append(name + ".weight")
        kind, attributes = {
            "conv": ("Conv", {"pads": PADS, "kernel_shape": node.get("kernel")}), "linear": ("Gemm", {"transB": 1}),
            "relu": ("Relu", {}), "maxpool": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
            "add": ("Add", {}), "flatten": ("Flatten", {})}[op]
        made.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
    graph = helper.make_graph(
        made, "net", [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 2, 8, 8])],
        [helper.make_tensor_value_info("fc2", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in parameters.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    (folder / "niti-2020.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
