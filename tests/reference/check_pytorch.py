#!/usr/bin/env python3
"""Check the PyTorch fixtures against the ONNX reference evaluator, without PyTorch.

    pip install onnx==1.20.1 numpy
    python tests/reference/check_pytorch.py

For each case that can be compared: the model gives the recorded outputs; the
model with the recorded parameters after the steps put under their names gives
the recorded outputs after the steps (so the names are right); every parameter
moved; and groups of parameters that the file merged moved apart.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

DESTINATION = pathlib.Path(__file__).resolve().parent.parent / "data" / "pytorch"
TOLERANCE = 1e-4


def with_parameters(model, values):
    """A copy of the model with initializers, or what stands for them, set to `values`."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph = model.graph
    kept = [item for item in graph.initializer if item.name not in values]
    del graph.initializer[:]
    graph.initializer.extend(kept + [numpy_helper.from_array(value, name) for name, value in values.items()])
    nodes = [node for node in graph.node if not (node.op_type == "Identity" and node.output[0] in values)]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def evaluate(model, arrays):
    """The outputs of a model for a case's first batch, by name."""
    feeds = {value.name: arrays[f"input/{value.name}"] for value in model.graph.input}
    names = [value.name for value in model.graph.output]
    return dict(zip(names, ReferenceEvaluator(model).run(None, feeds), strict=True))


def check(case, folder, fail):
    """Check one case; returns the largest differences before and after the steps, and the least movement."""
    model = onnx.load(folder / case["model"])
    with np.load(folder / case["archive"]) as archive:
        arrays = dict(archive)
    name = case["name"]
    if not case["comparable"]:
        if any(key.startswith(("output", "after", "step")) for key in arrays):
            fail(f"{name}: nothing to compare, and yet it is there")
        return None

    def distance(found, prefix):
        worst = 0.0
        for key, value in found.items():
            expected = arrays[f"{prefix}/{key}"]
            if value.shape != expected.shape or expected.dtype != np.float32:
                fail(f"{name}: {prefix}/{key} is {value.shape}, expected {expected.shape} {expected.dtype}")
            else:
                worst = max(worst, float(np.abs(value - expected).max()))
        if not worst <= TOLERANCE:
            fail(f"{name}: {prefix} differs by {worst}")
        return worst

    before = distance(evaluate(model, arrays), "output")

    initial = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    initial.update({alias: initial[source] for alias, source in case["aliases"].items()})
    initial.update({merged: initial[source] for merged, source in case["merged"].items()})
    after = {key[6:]: value for key, value in arrays.items() if key.startswith("after/")}
    expected = set(case["parameters"]) | set(case["statistics"]) | set(case["merged"])
    if set(after) != expected - set(case["omitted"]):
        fail(f"{name}: recorded {sorted(set(after) ^ (expected - set(case['omitted'])))}")
    moving = [key for key in after if key not in case["statistics"] and not key.endswith(("running_mean", "running_var"))]
    if case["batch_norm"] == "batch statistics":
        moving += case["statistics"]
    moved = {key: float(np.abs(after[key] - initial[key]).max()) for key in moving}
    for key, distance_moved in moved.items():
        if (distance_moved > 1e-5) == (key in case["still"]):
            fail(f"{name}: {key} moved by {distance_moved}")
    if case["batch_norm"] == "running statistics":
        for key in set(after) - set(moving):
            if not np.array_equal(after[key], initial[key]):
                fail(f"{name}: {key} moved")
    groups = {}
    for key, source in {**case["aliases"], **case["merged"]}.items():
        if key in moving:
            groups.setdefault(source, []).append(key)
    for source, members in groups.items():
        members = ([source] if source in moving else []) + members
        # Biases of two convolutions that are then added do stay equal.
        apart = max(float(np.abs(after[members[0]] - after[key]).max()) for key in members)
        if len(members) > 1 and not apart > 1e-5:
            fail(f"{name}: {members} stayed equal")
        tied = [arrays[f"after_tied/{key}"] for key in members]
        if not all(np.array_equal(tied[0], value) for value in tied):
            fail(f"{name}: after_tied is not tied for {members}")
    if not case["omitted"]:
        first, last = float(arrays["step0/loss"]), float(arrays[f"step{case['steps'] - 1}/loss"])
        if case["batches"] == 1 and not last < first:
            fail(f"{name}: the loss went from {first} to {last}")
    late = None
    if not case["merged"] and not case["omitted"]:
        late = distance(evaluate(with_parameters(model, after), arrays), "output_after")
    return before, late, min(value for key, value in moved.items() if key not in case["still"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=DESTINATION)
    folder = parser.parse_args().data
    failures = []
    cases = json.loads((folder / "manifest.json").read_text())["cases"]
    worst = [0.0, 0.0]
    for case in cases:
        result = check(case, folder, failures.append)
        if result is None:
            print(f"{case['name']:34} nothing to compare")
            continue
        before, late, least = result
        worst = [max(worst[0], before), max(worst[1], late or 0.0)]
        late = "not checked" if late is None else f"{late:.1e}"
        print(f"{case['name']:34} output {before:.1e}, after the steps {late}, least movement {least:.1e}")
    print(f"{len(cases)} cases, largest difference {worst[0]:.1e} before and {worst[1]:.1e} after the steps")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
