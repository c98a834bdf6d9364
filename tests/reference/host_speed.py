#!/usr/bin/env python3
"""A training step on this machine: trainc's host target beside PyTorch's FP32 and bfloat16, the same networks in one run.

    pip install torch==2.15.0 onnx==1.20.1 numpy
    python tests/reference/host_speed.py TRAINC [--models NAME ...] [--batches N ...] [--threads N ...] [--rounds N]

TRAINC is the compiler's program, built with `--release`. The networks are those of `trainc zoo`; PyTorch runs the same file,
node by node, in training mode, with SGD. Rounds alternate between all of them; printed are medians of the rounds, in
milliseconds, their spread, and ratios to PyTorch's FP32. trainc's time is `trainc bench`'s: the second step, all launches.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional as F


class Network:
    """A zoo model's nodes as PyTorch computes them."""

    def __init__(self, path):
        graph = onnx.load(path).graph
        self.nodes = list(graph.node)
        self.output = graph.output[0].name
        self.input = next(i for i in graph.input if i.name not in {t.name for t in graph.initializer})
        self.values, self.trained = {}, []
        statistics_of = {n for node in self.nodes if node.op_type == "BatchNormalization" for n in node.input[3:]}
        for tensor in graph.initializer:
            value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
            if value.is_floating_point() and tensor.name not in statistics_of:
                value.requires_grad_()
                self.trained.append(value)
            self.values[tensor.name] = value

    def shape(self):
        """Channels, rows and columns of an image."""
        return [d.dim_value for d in self.input.type.tensor_type.shape.dim][1:]

    def __call__(self, images):
        values = {**self.values, self.input.name: images}
        for node in self.nodes:
            operands = [values.get(name) for name in node.input]
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            values[node.output[0]] = self.apply(node.op_type, operands, attributes)
        return values[self.output]

    @staticmethod
    def apply(kind, x, a):
        """One node."""
        def even(pads):
            assert pads[:2] == pads[2:], pads
            return pads[:2]

        if kind == "Conv":
            bias = x[2] if len(x) > 2 else None
            pads = even(a.get("pads", [0] * 4))
            return F.conv2d(x[0], x[1], bias, a.get("strides", 1), pads, a.get("dilations", 1), a.get("group", 1))
        if kind == "BatchNormalization":
            return F.batch_norm(x[0], x[3], x[4], x[1], x[2], True, 0.1, a.get("epsilon", 1e-5))
        if kind == "Clip":
            return torch.clamp(x[0], x[1].item(), x[2].item())
        if kind == "MaxPool":
            return F.max_pool2d(x[0], a["kernel_shape"], a.get("strides", 1), even(a.get("pads", [0] * 4)))
        if kind == "AveragePool":
            return F.avg_pool2d(x[0], a["kernel_shape"], a.get("strides", 1), even(a.get("pads", [0] * 4)))
        if kind == "Gemm":
            y = x[0] @ (x[1].T if a.get("transB") else x[1])
            return y + x[2] if len(x) > 2 else y
        simple = {
            "Relu": lambda: F.relu(x[0]),
            "GlobalAveragePool": lambda: x[0].mean((2, 3), keepdim=True),
            "Add": lambda: x[0] + x[1],
            "MatMul": lambda: x[0] @ x[1],
            "Flatten": lambda: x[0].flatten(1),
            "Reshape": lambda: x[0].reshape(x[0].shape[0], -1),
        }
        return simple[kind]()


def pytorch_step(path, batch, kind):
    """A function that takes one step."""
    network = Network(path)
    images, labels = torch.randn(batch, *network.shape()), torch.randint(0, 10, (batch,))
    optimizer = torch.optim.SGD(network.trained, 0.01)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16"):
            scores = network(images)
        F.cross_entropy(scores.float(), labels).backward()
        optimizer.step()

    for _ in range(2):
        step()
    return step


def milliseconds(step):
    """Of one call."""
    before = time.perf_counter()
    step()
    return (time.perf_counter() - before) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainc")
    parser.add_argument("--models", nargs="*", default=["vgg11", "vgg16", "resnet18", "resnet8", "mobilenetv2", "lenet5"])
    parser.add_argument("--batches", nargs="*", type=int, default=[64, 1])
    parser.add_argument("--threads", nargs="*", type=int, default=[2])
    parser.add_argument("--algorithms", nargs="*", default=["niti", "fp32"])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    def trainc(*words, threads=1):
        environment = {"TRAINC_THREADS": str(threads), "PATH": "/usr/bin:/bin"}
        return subprocess.run([arguments.trainc, *words], check=True, capture_output=True, text=True, env=environment).stdout

    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models:
            path = str(pathlib.Path(folder) / f"{name}.onnx")
            trainc("zoo", name, "-o", path)
            for batch in arguments.batches:
                for threads in arguments.threads:
                    torch.set_num_threads(threads)
                    steps = {f"PyTorch {kind}": pytorch_step(path, batch, kind) for kind in ("FP32", "bfloat16")}
                    times = {}
                    for _ in range(arguments.rounds):
                        for what, step in steps.items():
                            times.setdefault(what, []).append(milliseconds(step))
                        for algorithm in arguments.algorithms:
                            words = ["bench", path, "--algorithm", algorithm, "--target", "host", "--batch", str(batch)]
                            lines = trainc(*words, "--message-format", "json", threads=threads).splitlines()
                            times.setdefault(algorithm, []).append(json.loads(lines[-1])["units"] / 1e6)
                    first = statistics.median(times["PyTorch FP32"])
                    shown = [
                        f"{what} {statistics.median(all_of):.1f} ({min(all_of):.1f} to {max(all_of):.1f}), {first / statistics.median(all_of):.2f}x"
                        for what, all_of in times.items()
                    ]
                    print(f"{name}, batch {batch}, {threads} threads: " + "; ".join(shown), flush=True)


if __name__ == "__main__":
    main()
