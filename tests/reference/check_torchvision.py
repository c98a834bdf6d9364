#!/usr/bin/env python3
"""torchvision's classifiers, as both of PyTorch's exporters write them: that they compile, compute and train as in PyTorch.

    pip install torch==2.15.0 torchvision==0.29.2 onnx==1.20.1 onnxscript==0.7.2 numpy
    python tests/reference/check_torchvision.py TRAINC [--models NAME ...] [--checks CHECK ...] [--exports FOLDER]

TRAINC is the compiler's program. For each model and exporter, at batch 2 unless said otherwise:

    compile  seconds on the processor and peak memory of `trainc compile --algorithm niti`, reading included, against SECONDS and
             MEGABYTES, and the share of the training step's products that stays FP32
    fp32     that `trainc compile --algorithm fp32` gives an artifact
    outputs  `trainc run` beside PyTorch, the largest difference relative to the largest output (at least 1)
    steps    three steps of `trainc train --algorithm fp32` at batch 4 beside PyTorch's: of every parameter the norm of the
             difference from PyTorch's double precision, relative to how far the parameter moved, beside the same of
             PyTorch's single precision, the largest of images kept by planes and by channels, on one thread and on two; the
             median is printed, every parameter counts

Exports are of evaluation mode (outputs, compile, fp32), and of training mode with TorchScript's exporter or unoptimized with
dynamo's (steps). Norms have random scales, shifts and statistics, biases are random: none of them can be merged or dropped.
Masks of dropout and stochastic depth are random in both, so for the steps their probability is 0.
`--exports` keeps the files, and takes what is there.
"""

import argparse
import contextlib
import copy
import io
import json
import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
import torchvision

MODELS = {
    "alexnet": 64, "vgg11_bn": 32, "resnet18": 64, "resnet50": 64, "squeezenet1_1": 64, "densenet121": 64,
    "googlenet": 64, "inception_v3": 96, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "mnasnet0_5": 64,
    "shufflenet_v2_x0_5": 64, "efficientnet_b0": 64, "regnet_y_400mf": 64, "convnext_tiny": 64, "vit_b_16": 224, "swin_t": 64,
}
"""Rows and columns of the images that each gets."""
LARGER = {"alexnet": 224, "vgg11_bn": 224}
"""With TorchScript's exporter, which writes adaptive pools only where the input is a multiple of the result."""
WITHOUT_AUXILIARY = ("googlenet", "inception_v3")
CHECKS = ("compile", "fp32", "outputs", "steps")
SECONDS, MEGABYTES = 5.0, 1500
CLASSES, STEPS, BATCH = 10, 3, 4
PART = 2e-4
"""Of a parameter, by which a step moves it: the rate is a power of ten that gives about so much."""
OUTPUT_TOLERANCE = 1e-4
"""Of outputs, relative to the largest (at least 1)."""
STEP_TOLERANCE, ROUNDINGS = 1e-3, 10
"""Of a parameter, relative to its movement; or so many times PyTorch's own difference, where that is more (norms: a pool
whose two largest values are equal but for rounding may pass its error to either, ReLU6 at its corners all or nothing, and
each order of a convolution's sum rounds otherwise)."""


def build(name):
    """The model in evaluation mode with random norms and biases, and without zeros."""
    torch.manual_seed(0)
    options = {"aux_logits": False, "init_weights": False} if name in WITHOUT_AUXILIARY else {}
    net = getattr(torchvision.models, name)(num_classes=CLASSES, **options).eval()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(getattr(module, "bias", None), torch.Tensor):
                module.bias.uniform_(-0.1, 0.1)
            if "Norm" in type(module).__name__ and getattr(module, "weight", None) is not None:
                module.weight.uniform_(0.8, 1.2)
                # Mostly beyond ReLU's corner: else single precision tells nothing of the gradients of fifty layers.
                module.bias.uniform_(1, 2)
            if isinstance(getattr(module, "running_var", None), torch.Tensor):
                module.running_mean.uniform_(-0.1, 0.1)
                module.running_var.uniform_(0.5, 1.5)
        # Heads of transformers begin with zeros, and nothing would come through.
        for parameter in net.parameters():
            if not parameter.any():
                parameter.uniform_(-0.1, 0.1)
    return net


def without_masks(net):
    """The model in training mode without random masks."""
    net = copy.deepcopy(net).train()
    for module in net.modules():
        if isinstance(module, torch.nn.Dropout | torchvision.ops.StochasticDepth):
            module.p = 0.0
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0
    return net


def export(net, path, form, training, size):
    """Writes a model with an exporter; why not, or nothing."""
    how = {"input_names": ["images"], "output_names": ["scores"]}
    if form == "torchscript":
        how |= {"dynamo": False, "dynamic_axes": {"images": {0: "batch"}, "scores": {0: "batch"}}}
        if training:
            how |= {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
    else:
        how |= {"dynamo": True, "external_data": False, "dynamic_shapes": ({0: torch.export.Dim("batch")},)}
        how |= {"optimize": False} if training else {}
    example = torch.randn(2, 3, size, size)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            # Dynamo's exporter writes batch norm in its inference form only, which `--batch-norm training` changes.
            torch.onnx.export(net.eval() if form == "dynamo" else net, (example,), path, **how)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "nsupported" in line or "rror" in line]
        path.unlink(missing_ok=True)
        return (lines or [type(error).__name__])[0][:200]
    return ""


def rate_of(net, images, labels):
    """A rate for the net."""
    torch.nn.functional.cross_entropy(net(images[:BATCH]), labels[:BATCH]).backward()
    parts = sorted(float((p.grad.norm() / p.norm()).detach()) for p in net.parameters())
    return 10.0 ** math.floor(math.log10(PART / parts[len(parts) // 2]))


def train(net, images, labels, rate):
    """Parameters and running means after the steps."""
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for image, label in zip(images.split(BATCH), labels.split(BATCH), strict=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(image), label).backward()
        optimizer.step()
    state = net.state_dict().items()
    return {name: v.double().numpy() for name, v in state if v.is_floating_point() and v.shape and "running_var" not in name}


def norm(x):
    """Euclidean."""
    return np.linalg.norm(x.ravel())


def size_of(name, form):
    """Rows and columns of the images."""
    return LARGER.get(name, MODELS[name]) if form == "torchscript" else MODELS[name]


def prepare(name, form, folder):
    """Exports and what PyTorch computes, as far as they are not there; the name of the latter's files, and of each running
    mean its first value and what the steps leave of it."""
    size = size_of(name, form)
    net = build(name)
    for training in (False, True):
        path = folder / f"{name}_{form}{'_train' if training else ''}.onnx"
        refused = path.with_suffix(".refused")
        if not path.exists() and not refused.exists():
            if reason := export(without_masks(net) if training else net.eval(), path, form, training, size):
                refused.write_text(reason)
    name = f"{name}_{size}"
    if not (folder / f"{name}.npz").exists():
        torch.manual_seed(1)
        images = torch.rand(STEPS * BATCH, 3, size, size) * 2 - 1
        labels = torch.randint(CLASSES, (STEPS * BATCH,))
        with torch.no_grad():
            scores = net.eval()(images[:2]).numpy()
        before = {key: value.double().numpy() for key, value in net.state_dict().items()}
        rate = rate_of(without_masks(net), images, labels)
        # Each order of sums rounds otherwise.
        singles = []
        for threads in (2, 1):
            torch.set_num_threads(threads)
            for order in (torch.contiguous_format, torch.channels_last):
                own = without_masks(net).to(memory_format=order)
                singles.append(train(own, images.to(memory_format=order), labels, rate))
        double = train(without_masks(net).double(), images.double(), labels, rate)
        arrays = {"images": images[:2].numpy(), "scores": scores}
        arrays |= {"x_train": images.numpy(), "y_train": labels.numpy(), "x_test": images[:4].numpy(), "y_test": labels[:4].numpy()}
        moved = {}
        for key, value in double.items():
            own = max(float(norm(value - rounded[key])) for rounded in singles)
            moved[key] = [float(norm(value - before[key])), own]
            arrays[f"after/{key}"] = value.astype(np.float32)
        np.savez(folder / f"{name}.npz", **arrays)
        (folder / f"{name}.json").write_text(json.dumps({"rate": rate, "moved": moved}))
    means = {
        f"{key}.running_mean": (module.running_mean.numpy(), (1 - module.momentum) ** STEPS)
        for key, module in net.named_modules() if isinstance(getattr(module, "running_mean", None), torch.Tensor)
    }
    return name, means


MEASURE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime, usage.ru_maxrss)
"""


def call(*command):
    """Runs a command; its status, what it said, its seconds on the processor (without the system's) and megabytes."""
    # By a small process: the peak of a child begins with that of its parent.
    words = [sys.executable, "-S", "-c", MEASURE, *map(str, command)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    status, seconds, kilobytes = done.stdout.split()
    return int(status), done.stderr, float(seconds), int(kilobytes) / 1024


def complaint(said):
    """The error in what a command said."""
    lines = [line.strip() for line in said.splitlines() if line.startswith(("error", " ", "thread"))]
    return " ".join(lines)[:300]


def read_safetensors(path):
    """The arrays of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    kinds = {"F32": np.float32, "I32": np.int32, "I8": np.int8}
    return {
        name: np.frombuffer(data[8 + length + at["data_offsets"][0]:8 + length + at["data_offsets"][1]], kinds[at["dtype"]])
        .reshape(at["shape"])
        for name, at in json.loads(data[8:8 + length]).items() if name != "__metadata__"
    }


def check_compile(trainc, model, algorithm, target, folder):
    """Compiles; whether it was good, and what was seen."""
    out = folder / f"{model.stem}_{algorithm}"
    status, said, seconds, megabytes = call(
        trainc, "compile", model, "--algorithm", algorithm, "--target", target, "--batch", 2, "-o", out)
    if status:
        return False, f"{algorithm} {complaint(said)}"
    if algorithm != "niti":
        return True, f"{algorithm} {seconds:.1f} s {megabytes:.0f} MB"
    floats = re.search(r"(\d+) operations of the training step are computed in FP32[^\n]*", said)
    share = floats.group(0)[:160] if floats else "nothing in FP32"
    return seconds <= SECONDS and megabytes <= MEGABYTES, f"{algorithm} {seconds:.1f} s {megabytes:.0f} MB, {share}"


def check_outputs(trainc, model, name, folder):
    """Beside PyTorch's outputs."""
    out = folder / "out.npz"
    exports = model.parent
    status, said, *_ = call(trainc, "run", model, "--input", exports / f"{name}.npz", "--output", out)
    if status:
        return False, f"run {complaint(said)}"
    with np.load(out) as found, np.load(exports / f"{name}.npz") as arrays:
        expected = arrays["scores"]
        difference = abs(found["scores"] - expected).max() / max(1, abs(expected).max())
    return bool(difference <= OUTPUT_TOLERANCE), f"outputs {difference:.1e}"


def check_steps(trainc, model, name, means, folder):
    """Beside PyTorch's steps."""
    out = folder / "weights.safetensors"
    exports = model.parent
    facts = json.loads((exports / f"{name}.json").read_text())
    status, said, *_ = call(
        trainc, "train", model, "--algorithm", "fp32", "--data", exports / f"{name}.npz", "--batch", BATCH, "--steps", STEPS,
        "--no-shuffle", "--learning-rate", facts["rate"], "--batch-norm", "training", "--weights-out", out)
    if status:
        return False, f"train {complaint(said)}"
    found = read_safetensors(out)
    initial = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model).graph.initializer if t.name in means}
    worst, shares = (0.0, 0.0, 0.0, 0.0, "nothing"), []
    missing = []
    with np.load(exports / f"{name}.npz") as arrays:
        for key, (moved, rounding) in facts["moved"].items():
            if key not in found:
                missing.append(key)
                continue
            expected = arrays[f"after/{key}"]
            if key in means:
                # TorchScript's exporter runs a model that trains, which moves its running means, before it writes them.
                first, left = means[key]
                expected = expected + left * (initial[key] - first)
            value = found[key] if found[key].shape == expected.shape else found[key].T
            error = float(norm(value.astype(np.float64) - expected))
            allowed = max(STEP_TOLERANCE * moved, ROUNDINGS * rounding, 1e-6 * float(norm(expected)))
            worst = max(worst, (error / allowed, error, rounding, moved, key))
            if moved > 1e-5 * float(norm(expected)):
                shares.append((error / moved, rounding / moved))
    good = worst[0] <= 1
    found, own = (sorted(column)[len(shares) // 2] for column in zip(*shares, strict=True))
    text = f"steps {found:.1e} (PyTorch's own {own:.1e}) in the median"
    if not good:
        text += f", {worst[4]} moved by {worst[3]:.1e} and {worst[1]:.1e} apart (PyTorch's own {worst[2]:.1e})"
    if missing:
        text += f", {len(missing)} names not found ({missing[0]}, ...)"
    return good and not missing, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trainc", type=pathlib.Path)
    parser.add_argument("--target", default="c")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--checks", nargs="*", choices=CHECKS, default=list(CHECKS))
    parser.add_argument("--exports", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    bad = every = 0
    with tempfile.TemporaryDirectory() as scratch:
        exports = arguments.exports or pathlib.Path(scratch)
        exports.mkdir(exist_ok=True)
        for name in arguments.models:
            for form in ("torchscript", "dynamo"):
                reference, means = prepare(name, form, exports)
                for check in arguments.checks:
                    model = exports / f"{name}_{form}{'_train' if check == 'steps' else ''}.onnx"
                    if not model.exists():
                        print(f"{name} {form} {check}: not exported: {model.with_suffix('.refused').read_text()[:100]}", flush=True)
                        continue
                    with tempfile.TemporaryDirectory() as folder:
                        folder = pathlib.Path(folder)
                        good, said = {
                            "compile": lambda: check_compile(arguments.trainc, model, "niti", arguments.target, folder),
                            "fp32": lambda: check_compile(arguments.trainc, model, "fp32", arguments.target, folder),
                            "outputs": lambda: check_outputs(arguments.trainc, model, reference, folder),
                            "steps": lambda: check_steps(arguments.trainc, model, reference, means, folder),
                        }[check]()
                    every += 1
                    bad += not good
                    print(f"{name} {form}: {'' if good else 'BAD '}{said}", flush=True)
            if not arguments.exports:
                for path in exports.iterdir():
                    path.unlink()
    print(f"{every - bad} of {every} checks hold")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
