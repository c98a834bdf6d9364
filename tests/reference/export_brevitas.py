#!/usr/bin/env python3
"""Train small quantized nets with Brevitas, export them, and record what the qonnx package computes with them.

    pip install brevitas==0.13.4 qonnx==1.0.0 onnxoptimizer==0.4.2 onnxruntime==1.31.1 torch==2.15.0 \
        onnx==1.20.1 onnxscript==0.7.2 numpy==2.4.6
    python tests/reference/export_brevitas.py [case ...]

Writes `tests/data/brevitas/`: per case a model and a NumPy archive, and `manifest.json`;
`tests/data/brevitas/README.md` explains them. Every case has its own seed.
"""

import dataclasses
import gzip
import json
import pathlib
import sys

import numpy as np
import onnx
import torch
from brevitas.core.bit_width import BitWidthConst
from brevitas.core.function_wrapper import CeilSte, FloorSte, Identity, RoundSte, RoundToZeroSte
from brevitas.core.quant import ClampedBinaryQuant, IntQuant, TruncIntQuant
from brevitas.core.scaling import ConstScaling
from brevitas.export import export_onnx_qcdq, export_qonnx
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes
from qonnx.util.cleanup import cleanup_model

import brevitas_nets as nets

TESTS = pathlib.Path(__file__).resolve().parent.parent
DESTINATION = TESTS / "data" / "brevitas"
DIGITS = TESTS.parent / "compiler" / "data" / "digits"
SAMPLES = 8


@dataclasses.dataclass
class Case:
    """One exported model."""

    name: str
    net: callable
    seed: int
    dynamo: bool = False
    affine: bool = False
    """Whether to export ONNX's own quantization instead of QONNX's."""
    opset: int = 17
    epochs: int = 12
    clean: bool = True


CASES = [
    Case("mixed", nets.Mixed, 1),
    Case("mixed_power_of_two", nets.MixedPowerOfTwo, 2),
    Case("mixed_dynamo", nets.Mixed, 3, dynamo=True, opset=20, clean=False),
    Case("bipolar_trunc", nets.BipolarTrunc, 4),
    Case("affine", nets.Affine, 5, affine=True),
    Case("binary", nets.Binary, 7, epochs=20),
]


def digits():
    """Training and test images [N, 1, 8, 8] in [0, 1] and labels: the project's own split of its digits."""

    def idx(path, header):
        return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)[header:]

    images = idx(DIGITS / "images.idx3.gz", 16).reshape(-1, 1, 8, 8)
    labels = idx(DIGITS / "labels.idx1.gz", 8)
    # Full is 16; bytes as `Dataset::digits()` scales them, then [0, 1].
    images = ((images.astype(np.uint16) * 255 + 8) // 16).astype(np.float32) / np.float32(255)
    seen, test = np.zeros(10, int), np.zeros(len(labels), bool)
    for i, label in enumerate(labels):
        seen[label] += 1
        test[i] = seen[label] % 4 == 0
    return images[~test], labels[~test].astype(np.int64), images[test], labels[test].astype(np.int64)


def train(net, images, labels, epochs):
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    net.train()
    for _ in range(epochs):
        order = torch.randperm(len(labels))
        for batch in order.split(64):
            logits = net(images[batch])
            logits = logits.value if hasattr(logits, "value") else logits
            loss = torch.nn.functional.cross_entropy(logits, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    net.eval()


def evaluate(net, images):
    with torch.no_grad():
        logits = net(torch.from_numpy(images))
    return (logits.value if hasattr(logits, "value") else logits).numpy()


def export(case, net):
    """The exported model: node names and tensor names are the exporter's (qonnx's cleanup renames them)."""
    path = DESTINATION / f"{case.name}.onnx"
    image = torch.zeros(1, 1, 8, 8)
    names = {"input_names": ["image"], "output_names": ["logits"]}
    exporter = export_onnx_qcdq if case.affine else export_qonnx
    options = {"optimize": True, "external_data": False} if case.dynamo else {"keep_initializers_as_inputs": False}
    exporter(net, args=image, export_path=str(path), opset_version=case.opset, dynamo=case.dynamo, **names, **options)
    if case.clean and not case.affine:
        cleanup_model(ModelWrapper(str(path))).save(str(path))
    model = onnx.load(path)
    # Notes on where each node came from, which name files of the exporting machine.
    for node in model.graph.node:
        del node.metadata_props[:]
    for value in model.graph.value_info:
        del value.metadata_props[:]
    onnx.save(model, path)
    return path


def run(path, images):
    """What qonnx computes for each image: output and tensors of the model, stacked where they depend on the image."""
    # This sorts the nodes and keeps their names.
    model = ModelWrapper(str(path)).transform(InferShapes())
    image = model.graph.input[0].name
    contexts = [execute_onnx(model, {image: x[None]}, return_full_exec_context=True) for x in images]
    depends = {image}
    tensors = {}
    for node in model.graph.node:
        name = node.output[0]
        if depends & set(node.input):
            depends.add(name)
            tensors[f"tensor/{name}"] = np.concatenate([c[name] for c in contexts])
        else:
            tensors[f"constant/{name}"] = contexts[0][name]
    output = model.graph.output[0].name
    return np.concatenate([c[output] for c in contexts]), tensors


def make(case, data):
    torch.manual_seed(case.seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train_images, train_labels, test_images, test_labels = data
    net = case.net()
    train(net, train_images, train_labels, case.epochs)
    scores = evaluate(net, test_images)
    path = export(case, net)
    images, labels = test_images[:SAMPLES], test_labels[:SAMPLES]
    output, tensors = run(path, images)
    model = onnx.load(path)
    archive = {f"input/{model.graph.input[0].name}": images, "labels": labels}
    archive[f"output/{model.graph.output[0].name}"] = output
    archive.update(tensors)
    np.savez_compressed(DESTINATION / f"{case.name}.npz", **archive)
    correct = int((scores.argmax(1) == test_labels).sum())
    difference = float(np.abs(output - evaluate(net, images)).max())
    counts = {}
    for node in model.graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    print(case.name, path.stat().st_size, correct, len(test_labels), difference, counts)
    return {
        "name": case.name,
        "model": path.name,
        "archive": f"{case.name}.npz",
        "exporter": "dynamo" if case.dynamo else "torchscript",
        "format": "qcdq" if case.affine else "qonnx",
        "input": model.graph.input[0].name,
        "output": model.graph.output[0].name,
        "samples": SAMPLES,
        "test_images": len(test_labels),
        "correct": correct,
        "brevitas_difference": difference,
    }


def gradients():
    """What Brevitas passes back through its quantizers: operand, scales, error of the result, error of the operand."""
    random = np.random.default_rng(6)
    # Brevitas multiplies and divides an error by the scale: powers of two, so that nothing is rounded.
    archive = {}

    def record(name, quantizer, x, **factors):
        x = torch.from_numpy(x.astype(np.float32)).requires_grad_()
        factors = {key: torch.from_numpy(np.asarray(value, np.float32)) for key, value in factors.items()}
        y = quantizer(x, **factors)
        error = torch.from_numpy(random.normal(size=y.shape).astype(np.float32))
        y.backward(error)
        values = {"x": x, "error": error, "gradient": x.grad, "result": y, **factors}
        archive.update({f"{name}/{key}": value.detach().numpy() for key, value in values.items()})

    def integer(rounding, signed, narrow, bits):
        quantizer = IntQuant(narrow_range=narrow, signed=signed, input_view_impl=Identity(), float_to_int_impl=rounding)
        return lambda x, scale, zero: quantizer(scale, zero, torch.tensor(float(bits)), x)

    x = random.normal(size=(4, 3, 5, 5)) * 2
    channels = np.array([0.25, 0.5, 1.0]).reshape(3, 1, 1)
    record("quant_half_even_signed_narrow_4", integer(RoundSte(), True, True, 4), x, scale=channels, zero=0)
    record("quant_floor_unsigned_3", integer(FloorSte(), False, False, 3), x, scale=0.5, zero=[2])
    record("quant_ceil_signed_2", integer(CeilSte(), True, False, 2), x, scale=channels, zero=0)
    record("quant_down_unsigned_narrow_4", integer(RoundToZeroSte(), False, True, 4), x, scale=0.25, zero=1)
    binary = ClampedBinaryQuant(scaling_impl=ConstScaling(0.75))
    record("bipolar", lambda x, scale: binary(x)[0], x, scale=0.75)

    def trunc(x, scale, zero, output_scale):
        quantizer = TruncIntQuant(FloorSte(), BitWidthConst(4))
        y, found, _, _ = quantizer(x, scale, zero, torch.tensor(6.0), True)
        assert torch.equal(found, output_scale)
        return y

    # Brevitas keeps the zero point's share; integers on the grid, some beyond what 6 bits hold.
    x = random.integers(-40, 40, size=(3, 4, 5)) * 0.125
    record("trunc_floor_signed_4", trunc, x, scale=0.125, zero=0, output_scale=0.5)
    np.savez_compressed(DESTINATION / "gradients.npz", **archive)


def main():
    DESTINATION.mkdir(parents=True, exist_ok=True)
    manifest = DESTINATION / "manifest.json"
    known = json.loads(manifest.read_text())["cases"] if manifest.exists() else []
    found = {case["name"]: case for case in known}
    data = digits()
    gradients()
    for case in CASES:
        if len(sys.argv) < 2 or case.name in sys.argv[1:]:
            found[case.name] = make(case, data)
            listed = [found[case.name] for case in CASES if case.name in found]
            manifest.write_text(json.dumps({"cases": listed}, indent=1) + "\n")


if __name__ == "__main__":
    main()
