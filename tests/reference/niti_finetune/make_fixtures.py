"""Writes tests/data/niti_finetune: training steps and scores of two small networks, and vectors of each operation.

Run: python make_fixtures.py [output folder] (numpy and onnx); with --check nothing is written, and the stored files are
compared with fresh ones. tests/data/niti_finetune/README.md documents the files.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import network as net
import operation_vectors

CLASSES = 5


def cases():
    """(name, nodes, input shape, scale of the inputs, seed, rate of each step)."""
    yield ("lenet", [
        net.conv("conv1", net.INPUT, 4, (3, 3)), net.relu("relu1", "conv1"),
        net.pool("maxpool", "pool1", "relu1", (2, 2), (2, 2)),
        net.conv("conv2", "pool1", 6, (3, 3), pads=(1, 1, 1, 1)), net.relu("relu2", "conv2"), net.flatten("flat", "relu2"),
        net.linear("fc", "flat", CLASSES)], (3, 1, 10, 8), 1.0, 0xFEDCBA9876543210, (0.0078125, 0.012, 0.25))
    # An average of bytes over windows of different sizes, then one of signed bytes over 16.
    yield ("residual", [
        net.conv("stem", net.INPUT, 6, (3, 3), pads=(1, 1, 1, 1)), net.clip("clip1", "stem"),
        net.pool("avgpool", "average1", "clip1", (3, 3), (2, 2), (1, 1, 1, 1)),
        net.conv("expand", "average1", 9, (1, 1)), net.clip("clip2", "expand"),
        net.conv("depthwise", "clip2", 9, (3, 3), pads=(1, 1, 1, 1), groups=9), net.clip("clip3", "depthwise"),
        net.conv("project", "clip3", 6, (1, 1)), net.add("sum", "average1", "project"),
        net.pool("avgpool", "average2", "sum", (4, 4), (4, 4)), net.flatten("flat", "average2"),
        net.linear("fc", "flat", CLASSES)], (2, 2, 8, 8), 4.0, 77, (0.0078125, 0.0009765625, 0.1))
    # Batch normalizations between integer products; one of them leads to a residual addition in 8 bits.
    yield ("normalized", [
        net.conv("stem", net.INPUT, 5, (3, 3), (2, 2), (1, 1, 1, 1), bias=False), net.norm("norm1", "stem"), net.clip("clip1", "norm1"),
        net.conv("depthwise", "clip1", 5, (3, 3), pads=(1, 1, 1, 1), groups=5, bias=False), net.norm("norm2", "depthwise"),
        net.relu("relu2", "norm2"),
        net.conv("project", "relu2", 5, (1, 1), bias=False), net.norm("norm3", "project"), net.add("sum", "clip1", "norm3"),
        net.pool("avgpool", "average", "sum", (4, 4), (4, 4)), net.flatten("flat", "average"),
        net.linear("fc", "flat", CLASSES)], (3, 1, 8, 8), 1.0, 2**32 + 5, (0.0078125, 0.012, 0.1))
    # Batch normalizations by integers, and hard swishes by tables: of sums, and of an activation that two others read.
    yield ("integers", [
        net.conv("stem", net.INPUT, 5, (3, 3), pads=(1, 1, 1, 1), bias=False), net.norm("norm1", "stem"), net.hardswish("swish1", "norm1"),
        net.conv("depthwise", "swish1", 5, (3, 3), pads=(1, 1, 1, 1), groups=5, bias=False), net.norm("norm2", "depthwise"),
        net.relu("relu2", "norm2"),
        net.conv("project", "relu2", 5, (1, 1), bias=False), net.norm("norm3", "project"), net.add("sum", "swish1", "norm3"),
        net.hardswish("swish2", "sum"),
        net.pool("avgpool", "average", "swish2", (4, 4), (4, 4)), net.flatten("flat", "average"),
        net.linear("fc", "flat", CLASSES)], (8, 1, 8, 8), 1.0, 11, (0.0078125, 0.012, 0.1))


# Whose batch normalizations are in FP32; the others' are by integers (`norm=1`).
IN_FLOAT = ("normalized",)


def trained(rng, shapes):
    """Parameters as training leaves them: scales that differ by channel, biases that are not 0."""
    parameters = {}
    for name, shape in shapes.items():
        if name.endswith(("running_var", "norm1.weight")):
            parameters[name] = np.exp(rng.normal(1, 0.5, shape)).astype(np.float32)
        elif len(shape) == 1:
            parameters[name] = rng.normal(0, 0.3, shape).astype(np.float32)
        else:
            channel = np.exp(rng.normal(0, 0.4, (shape[0],) + (1,) * (len(shape) - 1)))
            parameters[name] = (rng.laplace(0, np.sqrt(1 / np.prod(shape[1:])), shape) * channel).astype(np.float32)
    return parameters


def onnx_model(name, nodes, shape, parameters):
    """The network for the importer; values bear the names of their nodes."""
    written, constants = [], []
    for node in nodes:
        op, inputs, outputs, attributes = node["op"], list(node["inputs"]), [node["name"]], {}
        if op in ("conv", "linear"):
            inputs += [node["name"] + ".weight"] + [node["name"] + ".bias"] * node["bias"]
        if op == "conv":
            attributes = {"kernel_shape": node["kernel"], "strides": node["strides"], "pads": node["pads"],
                          "group": node["groups"]}
        elif op == "norm":
            inputs += [f"{node['name']}.{kind}" for kind in net.NORM]
            attributes = {"epsilon": net.EPSILON, "momentum": net.RUNNING, "training_mode": 1}
            outputs += [f"{node['name']}.{kind}_after" for kind in net.NORM[2:]]
        elif op == "linear":
            attributes = {"transB": 1}
        elif op in ("maxpool", "avgpool"):
            attributes = {"kernel_shape": node["kernel"], "strides": node["strides"], "pads": node["pads"]}
        elif op == "clip":
            for bound in ("low", "high"):
                inputs.append(f"{node['name']}.{bound}")
                constants.append(numpy_helper.from_array(np.array(node[bound], np.float32), inputs[-1]))
        kind = {"conv": "Conv", "linear": "Gemm", "relu": "Relu", "clip": "Clip", "maxpool": "MaxPool",
                "avgpool": "AveragePool", "flatten": "Flatten", "add": "Add",
                "norm": "BatchNormalization", "hardswish": "HardSwish"}[op]
        written.append(helper.make_node(kind, inputs, outputs, name=node["name"], **attributes))
    initializers = [numpy_helper.from_array(v, k) for k, v in parameters.items()] + constants
    graph = helper.make_graph(
        written, name, [helper.make_tensor_value_info(net.INPUT, TensorProto.FLOAT, ["batch", *shape[1:]])],
        [helper.make_tensor_value_info(nodes[-1]["name"], TensorProto.FLOAT, ["batch", CLASSES])], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def train(name, nodes, shape, scale, seed, rates):
    """Arrays and facts of a case, and its parameters in FP32."""
    rng = np.random.default_rng([seed & 0xFFFFFFFF, seed >> 32])
    shapes, _ = net.parameter_shapes(nodes, shape)
    parameters = trained(rng, shapes)
    model = net.Network(nodes, parameters, name not in IN_FLOAT)
    steps, exponents = len(rates), {}
    arrays = {"images": (rng.normal(0.2, 1, (steps, *shape)) * scale).astype(np.float32),
              "labels": rng.integers(0, CLASSES, (steps, shape[0])).astype(np.int32),
              "rates": np.array(rates, np.float32)}

    def scores():
        return np.concatenate([model.infer(image[None]) for image in arrays["images"][0]])

    def kept(key, q, e, element):
        arrays.setdefault(key, []).append(q.astype({"i8": "i1", "u8": "u1", "i16": "i2", "i32": "i4", "f32": "f4"}[element]))
        if e is not None:
            exponents.setdefault(key, []).append(int(e))

    def keep_state():
        for parameter, q in model.state.items():
            kept("state." + parameter, q, model.exponents[parameter], model.elements[parameter])

    arrays["scores.before"], losses = scores(), []
    keep_state()
    for i, rate in enumerate(arrays["rates"]):
        loss, step = model.step(arrays["images"][i], arrays["labels"][i], rate, (seed, i))
        losses.append(loss)
        keep_state()
        for key, value in step.tensors.items():
            kept("value." + key, *value)
    arrays["scores.after"], arrays["losses"] = scores(), np.array(losses, np.float32)
    arrays = {k: np.stack(v) if isinstance(v, list) else v for k, v in arrays.items()}
    check_coverage(name, nodes, arrays, exponents)
    return arrays, {"name": name, "seed": seed, "streams": step.streams, "exponents": exponents}, parameters


def check_coverage(name, nodes, arrays, exponents):
    """The fixture is worth comparing with: nothing vanishes, everything moves, bounds are met and not met."""
    for key, value in arrays.items():
        if key.startswith("value."):
            assert all(v.any() for v in value), (name, key, "vanishes")
        if key.startswith("state."):
            assert all((value[i] != value[i + 1]).any() for i in range(len(value) - 1)), (name, key, "does not move")
            assert len(set(exponents.get(key, []))) <= 1
    for node in nodes:
        if node["op"] == "clip":
            value, e = arrays["value." + node["name"]], exponents["value." + node["name"]]
            at = np.stack([v == node["high"] * 2.0 ** -float(x) for v, x in zip(value, e)])
            assert at.any() and not at.all() and (value == 0).any(), (name, node["name"], at.mean())


def facts_text(facts):
    """JSON with one key a line."""
    def line(key, value):
        if not isinstance(value, dict):
            return f'  "{key}": {json.dumps(value)}'
        rows = ",\n".join(f'    "{k}": {json.dumps(v)}' for k, v in value.items())
        return f'  "{key}": {{\n{rows}\n  }}'
    return "{\n" + ",\n".join(line(k, v) for k, v in facts.items()) + "\n}\n"


def build():
    """All files, by name: text, bytes or arrays."""
    files = {"operations.txt": operation_vectors.text()}
    for name, nodes, shape, *rest in cases():
        arrays, facts, parameters = train(name, nodes, shape, *rest)
        files[name + ".onnx"] = onnx_model(name, nodes, shape, parameters)
        files[name + ".json"] = facts_text(facts)
        files[name + ".npz"] = arrays
    return files


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        if isinstance(content, str):
            (folder / path).write_text(content)
        elif isinstance(content, bytes):
            (folder / path).write_bytes(content)
        else:
            np.savez_compressed(folder / path, **content)


def compare(folder, files):
    """Raise if a stored file differs."""
    for path, content in files.items():
        if isinstance(content, str):
            assert (folder / path).read_text() == content, path
        elif isinstance(content, bytes):
            assert (folder / path).read_bytes() == content, path
        else:
            with np.load(folder / path) as stored:
                assert set(stored.files) == set(content), path
                for key, value in content.items():
                    same = stored[key].dtype == value.dtype and stored[key].shape == value.shape
                    assert same and stored[key].tobytes() == value.tobytes(), (path, key)


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    output = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[2] / "data" / "niti_finetune"
    built = build()
    if "--check" in sys.argv:
        compare(output, built)
        print("stored fixtures agree")
    else:
        write(output, built)
        print(sum((output / path).stat().st_size for path in built), "bytes in", len(built), "files")
