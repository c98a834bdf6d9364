"""Writes the NITI fixtures of tests/data/niti: whole training steps of small nets, and primitive vectors.

Run: python make_fixtures.py [output folder]; with --check nothing is written and the stored arrays are compared
with freshly computed ones. tests/data/niti/README.md documents the keys.
"""

import json
import sys
from pathlib import Path

import numpy as np

import network as net
import niti
from primitive_vectors import primitive_vectors

STEPS = 3
SYMMETRIC = (1, 1, 1, 1)


def cases():
    """(name, what it covers, nodes, input shape, mu, seed, {parameter: factor on its float values})."""
    source = net.INPUT
    yield ("mlp", "three linear layers of odd sizes, window branch of the loss", [
        net.linear("fc1", source, 17), net.relu("relu1", "fc1"),
        net.linear("fc2", "relu1", 11), net.relu("relu2", "fc2"),
        net.linear("fc3", "relu2", 7)], (5, 13), 5, 1, {"fc3.weight": 8.0})
    yield ("lenet", "convolution, relu and pooling twice, then two linear layers; polynomial branch of the loss", [
        net.conv("conv1", source, 5, (3, 3), pads=SYMMETRIC), net.relu("relu1", "conv1"),
        net.maxpool("pool1", "relu1", (2, 2), (2, 2)),
        net.conv("conv2", "pool1", 7, (3, 3)), net.relu("relu2", "conv2"),
        net.maxpool("pool2", "relu2", (2, 2), (2, 2)), net.flatten("flat", "pool2"),
        net.linear("fc1", "flat", 13), net.relu("relu3", "fc1"),
        net.linear("fc2", "relu3", 10)], (3, 1, 12, 12), 3, 0xFEDCBA9876543210, {"fc2.weight": 1 / 16})
    yield ("convolutions", "stride, asymmetric padding, dilation, groups, depthwise; logits exponent above 0", [
        net.conv("strided", source, 6, (3, 3), (2, 1), (1, 1), (0, 1, 2, 1)), net.relu("relu1", "strided"),
        net.conv("dilated", "relu1", 8, (3, 2), (1, 1), (2, 2), (2, 1, 2, 1)), net.relu("relu2", "dilated"),
        net.conv("grouped", "relu2", 6, (3, 3), (1, 2), (1, 1), (1, 0, 1, 1), 2), net.relu("relu3", "grouped"),
        net.conv("depthwise", "relu3", 6, (3, 3), (2, 1), (1, 1), SYMMETRIC, 6),
        net.flatten("flat", "depthwise"), net.linear("fc", "flat", 7)],
        (2, 2, 10, 8), 0, 77, {"fc.weight": 1024.0})
    yield ("residual", "three residual adds whose operands have near, neighbouring and far exponents", [
        net.conv("conv1", source, 5, (3, 3), pads=SYMMETRIC), net.relu("relu1", "conv1"),
        net.conv("conv2", "relu1", 5, (3, 3), pads=SYMMETRIC), net.relu("relu2", "conv2"),
        net.conv("conv3", "relu2", 5, (3, 3), pads=SYMMETRIC), net.add("add1", "conv3", "relu1"),
        net.relu("relu3", "add1"),
        net.conv("conv4", "relu3", 5, (1, 1)), net.add("add2", "relu3", "conv4"), net.relu("relu4", "add2"),
        net.conv("conv5", "relu4", 5, (1, 1)), net.add("add3", "conv5", "relu4"),
        net.avgpool("average", "add3", (4, 4), (4, 4)), net.flatten("flat", "average"),
        net.linear("fc", "flat", 6)], (2, 3, 8, 8), -1, 2**32 + 5, {"conv4.weight": 0.5, "conv5.weight": 1 / 16})
    yield ("bias", "biases, overlapping padded maxpool, averages over 9 elements", [
        net.conv("conv1", source, 5, (3, 3), pads=SYMMETRIC, bias=True), net.relu("relu1", "conv1"),
        net.maxpool("pool1", "relu1", (3, 3), (2, 2), SYMMETRIC),
        net.conv("conv2", "pool1", 6, (3, 3), pads=SYMMETRIC, bias=True),
        net.avgpool("average", "conv2", (3, 3), (2, 2)), net.flatten("flat", "average"),
        net.linear("fc1", "flat", 9, bias=True), net.relu("relu2", "fc1"),
        net.linear("fc2", "relu2", 7, bias=True)], (2, 2, 13, 13), 5, 4242, {})
    yield ("concat", "concatenation, a tensor with three consumers, overlapping averages over 4 elements", [
        net.conv("stem", source, 4, (3, 3), pads=SYMMETRIC), net.relu("relu1", "stem"),
        net.conv("point", "relu1", 3, (1, 1)), net.conv("wide", "relu1", 5, (3, 3), pads=SYMMETRIC),
        net.concat("joined", "point", "wide", "relu1"), net.relu("relu2", "joined"),
        net.avgpool("average", "relu2", (2, 2), (1, 1)), net.flatten("flat", "average"),
        net.linear("fc", "flat", 8)], (3, 2, 6, 5), 3, 2**64 - 1, {"point.weight": 0.125, "wide.weight": 0.5})
    yield ("average", "overlapping averages over 16 elements whose sums lose several bits", [
        net.conv("conv1", source, 4, (3, 3), pads=SYMMETRIC), net.relu("relu1", "conv1"),
        net.avgpool("average", "relu1", (4, 4), (2, 2)), net.flatten("flat", "average"),
        net.linear("fc", "flat", 5)], (3, 2, 8, 8), 4, 99, {})
    yield ("partial", "overlapping averages without their padding, at one stride and at another", [
        net.conv("conv1", source, 4, (3, 3), pads=SYMMETRIC), net.relu("relu1", "conv1"),
        net.avgpool("average1", "relu1", (3, 3), (1, 1), SYMMETRIC),
        net.conv("conv2", "average1", 5, (3, 3), pads=SYMMETRIC), net.relu("relu2", "conv2"),
        net.avgpool("average2", "relu2", (3, 2), (2, 3), (1, 0, 0, 1)), net.flatten("flat", "average2"),
        net.linear("fc", "flat", 6)], (3, 2, 7, 9), 4, 1234, {})
    yield ("normalized", "batch normalization of maps by integers, with scales below 0 and of 0, before a residual add", [
        net.conv("conv1", source, 5, (3, 3), pads=SYMMETRIC), net.batchnorm("bn1", "conv1", 1e-3), net.relu("relu1", "bn1"),
        net.conv("conv2", "relu1", 5, (3, 3), pads=SYMMETRIC), net.add("add1", "conv2", "relu1"), net.relu("relu2", "add1"),
        net.avgpool("average", "relu2", (4, 2), (3, 2)), net.flatten("flat", "average"),
        net.linear("fc", "flat", 7)], (5, 2, 7, 6), 4, 31337, {"bn1.bias": 8.0})
    yield ("rows", "batch normalization of rows by integers", [
        net.flatten("flat", source), net.linear("fc1", "flat", 9), net.batchnorm("bn", "fc1"), net.relu("relu", "bn"),
        net.linear("fc2", "relu", 7)], (11, 2, 3, 5), 0, 271828, {})


def train(name, nodes, input_shape, mu, seed, factors, network=net.Network):
    """Arrays of the case and the facts of case.json that come out of training."""
    description = {"nodes": nodes, "logits": nodes[-1]["name"]}
    rng = np.random.default_rng([seed & 0xFFFFFFFF, seed >> 32, len(nodes)])
    shapes, tensor_shapes = net.parameter_shapes(description, input_shape)
    classes = tensor_shapes[description["logits"]][1]
    arrays = {}
    for parameter, shape in shapes.items():
        fan = np.prod(shape[1:]) + shape[0] * np.prod(shape[2:]) if len(shape) > 1 else 4 * shape[0]
        bound = np.sqrt(6 / fan) * factors.get(parameter, 1.0)
        values = rng.uniform(-bound, bound, shape)
        if description_op(nodes, parameter) == "batchnorm" and parameter.endswith(".weight"):
            values = 1 + values  # about 1, but for one that turns and one that is still
            values[:2] = -values[0], 0
        arrays["parameter.float." + parameter] = values.astype(np.float32)
    arrays["input.float"] = rng.normal(0.3, 1.0, (STEPS, *input_shape)).astype(np.float32)
    # The most negative element of the first step is a power of two, which the input quantiser maps to -128.
    first = arrays["input.float"][0].reshape(-1)
    first[int(rng.integers(first.size))] = -(2.0 ** np.ceil(np.log2(np.abs(first).max())))
    arrays["labels"] = rng.integers(0, classes, (STEPS, input_shape[0]))

    model = network(description, {p: arrays["parameter.float." + p] for p in shapes})
    for parameter in model.q:
        arrays["parameter.initial." + parameter] = model.q[parameter]
        arrays["parameter.exponent." + parameter] = np.array([model.exponent[parameter]], np.int32)
    for parameter, value in model.float.items():
        arrays["parameter.initial." + parameter] = value
    taken = []
    for step in range(STEPS):
        taken.append(model.step(arrays["input.float"][step], arrays["labels"][step], mu, seed, step))
        taken[-1]["after"] = model.q | model.float
    for kind in ("forward", "error"):
        for tensor in taken[0][kind]:
            arrays[f"{kind}.{tensor}"] = np.stack([t[kind][tensor][0] for t in taken])
            arrays[f"{kind}.exponent.{tensor}"] = np.array([t[kind][tensor][1] for t in taken], np.int32)
            assert arrays[f"{kind}.{tensor}"].dtype == np.int8
    for parameter in shapes:
        gradients = np.stack([t["accumulator"][parameter] for t in taken])
        if parameter in model.q:
            arrays["gradient.accumulator." + parameter] = gradients.astype(np.int32)
            arrays["gradient." + parameter] = np.stack([t["gradient"][parameter] for t in taken])
        else:
            arrays["gradient." + parameter] = gradients
        arrays["parameter.after." + parameter] = np.stack([t["after"][parameter] for t in taken])
    facts = {
        "parameters": [{"name": p, "shape": list(s), "exponent": model.exponent.get(p)} for p, s in shapes.items()],
        "tensors": [{"name": t, "shape": list(taken[0]["forward"][t][0].shape),
                     "forward_exponents": arrays["forward.exponent." + t].tolist(),
                     "error_exponents": arrays["error.exponent." + t].tolist() if t in taken[0]["error"] else None}
                    for t in taken[0]["forward"]],
    }
    return arrays, facts, description, classes


def description_op(nodes, parameter):
    """The operation whose parameter it is."""
    return next(node["op"] for node in nodes if node["name"] == parameter.rsplit(".", 1)[0])


def coverage(description, arrays):
    """Which branches of the arithmetic the case takes, as a set of words; asserted over all cases."""
    seen = set()
    for step in range(STEPS):
        def exponent(tensor, kind="forward"):
            return int(arrays[f"{kind}.exponent.{tensor}"][step])
        e = exponent(description["logits"])
        seen.add("loss above" if e >= 0 else "loss window" if e > -7 else "loss polynomial")
        for node in description["nodes"]:
            if node["op"] == "add":
                first, second = (exponent(i) for i in node["inputs"])
                seen.add(f"add difference {min(abs(first - second), 2)}")
                seen.add("add shifted" if exponent(node["name"]) > max(first, second) else "add copied")
            if node["op"] == "avgpool" and "pads" not in node:
                # log2 of the window was taken off the exponent; the rest is the shift of the requantisation.
                window = node["kernel"][0] * node["kernel"][1]
                shift = exponent(node["name"]) - exponent(node["inputs"][0]) + window.bit_length() - 1
                if window & (window - 1) == 0 and shift > 1:  # by one bit all roundings agree
                    seen.add("average rounds")
            if node["op"] == "concat":
                seen.add("concat aligned" if len({exponent(i) for i in node["inputs"]}) > 1 else "concat equal")
    for key, value in arrays.items():
        if key.startswith(("error.", "forward.")) and "exponent" not in key:
            for step in range(STEPS):
                assert value[step].any(), f"{key} vanishes in step {step}"
    if (arrays["forward.input"] == -128).any():
        seen.add("input -128")
    changed = [(arrays["gradient." + p] != 0).any() for p in parameter_names(arrays)]
    assert all(changed), "a parameter never moves"
    return seen


class _FoldedFromTheRight(net.Network):
    @staticmethod
    def fold(contributions):
        return net.Network.fold(contributions[::-1])


def assert_fold_order_matters():
    """The three-consumer tensor of the concat case must tell the order of its contributions."""
    name, _, *rest = next(c for c in cases() if c[0] == "concat")
    errors = [train(name, *rest, network=kind)[0]["error.relu1"] for kind in (net.Network, _FoldedFromTheRight)]
    assert (errors[0][0] != errors[1][0]).any(), "the order of the contributions makes no difference"


def parameter_names(arrays):
    prefix = "parameter.float."
    return [key[len(prefix):] for key in arrays if key.startswith(prefix)]


def case_text(case):
    """JSON with one node, parameter or tensor a line."""
    parts = []
    for key, value in case.items():
        if key == "network":
            rows = ",\n".join("      " + json.dumps(node) for node in value["nodes"])
            parts.append(f'  "network": {{\n    "logits": {json.dumps(value["logits"])},\n    "nodes": [\n{rows}\n    ]\n  }}')
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join("    " + json.dumps(row) for row in value)
            parts.append(f'  "{key}": [\n{rows}\n  ]')
        else:
            parts.append(f'  "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def build():
    """Everything to store: {relative path: dict of arrays or text}."""
    files, seen = {}, set()
    for name, covers, nodes, input_shape, mu, seed, factors in cases():
        arrays, facts, description, classes = train(name, nodes, input_shape, mu, seed, factors)
        seen |= coverage(description, arrays)
        case = {"case": name, "covers": covers, "input_shape": list(input_shape), "classes": classes, "steps": STEPS,
                "mu": mu, "seed": seed, "stream": 0, "network": description, **facts}
        files[f"{name}/case.json"] = case_text(case)
        files[f"{name}/tensors.npz"] = arrays
    wanted = {"loss above", "loss window", "loss polynomial", "add difference 0", "add difference 1", "add difference 2",
              "add shifted", "add copied", "average rounds", "concat aligned", "input -128"}
    assert wanted <= seen, f"not covered: {sorted(wanted - seen)}"
    assert_fold_order_matters()
    files["primitives.npz"] = primitive_vectors()
    return files


def write(folder, files):
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            target.write_text(content)
        else:
            np.savez_compressed(target, **content)


def compare(folder, files):
    """Raise if a stored file differs from `files` in any key, type, shape or value."""
    for path, content in files.items():
        if isinstance(content, str):
            assert (folder / path).read_text() == content, path
            continue
        with np.load(folder / path) as stored:
            assert set(stored.files) == set(content), path
            for key, value in content.items():
                value = np.asarray(value)
                same = stored[key].dtype == value.dtype and stored[key].shape == value.shape
                assert same and (stored[key] == value).all(), (path, key)


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    output = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[2] / "data" / "niti"
    built = build()
    if "--check" in sys.argv:
        compare(output, built)
        print("stored fixtures agree")
    else:
        write(output, built)
        print(sum((output / path).stat().st_size for path in built), "bytes in", len(built), "files")
