#!/usr/bin/env python3
"""Personalise a network by the device's own program: MNIST rotated by 30 and 45 degrees, as docs/personalise.md tells.

    pip install torch==2.15.0 numpy
    python tests/reference/personalise_device.py DATA TRAINC [--target neon+dotprod] [--seeds 3] [--angles 30 45]
    python tests/reference/personalise_device.py DATA TRAINC --angles 0 --images 60000 --epochs 1 --batch 64 --seeds 1
                                                 [--network depthwise_torchscript]   (an epoch of the data that it knows)

DATA is a folder with MNIST's four IDX files, compressed; TRAINC the compiler's program. For every angle and seed it draws
1,024 training images, compiles the pretrained LeNet-5 of tests/data/personalise with `--example` (whole, and the last layer
alone), builds the example with the target's C compiler, and runs it, under qemu where it is not this machine's: ten epochs of
batch 32, scored on the 10,000 rotated test images before and after. The same images train the same layers of LeNet-5 in FP32
by PyTorch (SGD with momentum 0.9, the better of three rates), where the angle is not 0. The protocol is PRIOT's (arXiv 2503.16860, section 5).
"""

import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

import personalise_nets as nets

NETWORKS = pathlib.Path(__file__).resolve().parent.parent / "data" / "personalise"
LENET = "lenet_torchscript"
TOOLS = {
    "c": (["cc"], []),
    "neon+dotprod": (["aarch64-linux-gnu-gcc", "-march=armv8.2-a+dotprod", "-static"], ["qemu-aarch64"]),
}
"""Compiler and emulator of each target."""
LAYERS = {"whole": [], "fc3": ["--train", "fc3"], "fc": ["--train", "fc"]}
RATES = (0.02, 0.01, 0.005)


def rotated(pixels, degrees):
    """Images [n, 1, 28, 28] of 0 to 255, turned about their middle, bilinearly; 0 to 1."""
    angle = np.deg2rad(degrees)
    turn = torch.tensor([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0]], dtype=torch.float32)
    parts = []
    for part in (pixels.float() / 255).split(1000):
        grid = F.affine_grid(turn.expand(len(part), 2, 3), part.shape, align_corners=False)
        parts.append(F.grid_sample(part, grid, align_corners=False))
    return torch.cat(parts)


def write(path, images, labels):
    """The examples as the emitted program reads them."""
    records = np.empty(len(labels), [("x", "<f4", images[0].numel()), ("y", "<i4")])
    records["x"], records["y"] = images.flatten(1).numpy(), labels.numpy()
    records.tofile(path)


def on_device(arguments, folder, layers, seed, train, test):
    """Per cent right before and after, by the emitted program."""
    out = folder / f"{layers}-{seed}"
    program = folder / f"{layers}-{seed}.elf"
    if not program.exists():
        subprocess.run(
            [arguments.trainc, "compile", NETWORKS / f"{arguments.network}.onnx", "--target", arguments.target, "--batch",
             str(arguments.batch), *LAYERS[layers], "--example", "-o", out], check=True, capture_output=True)
        compiler, _ = TOOLS[arguments.target]
        sources = sorted(str(p) for p in out.glob("*.c"))
        command = [*compiler, "-std=c11", "-O2", f"-DSEED=UINT64_C({seed})", "-I", out, *sources, "-o", program]
        subprocess.run(command, check=True)
    run = [*TOOLS[arguments.target][1], program, train, str(arguments.epochs), test]
    lines = subprocess.run(run, check=True, capture_output=True, text=True).stdout.splitlines()
    found = {}
    for line in lines:
        if line.endswith(" examples right"):
            when, counts = line.split(": ")
            right, _, all_, *_ = counts.split()
            found[when] = 100 * int(right) / int(all_)
    return found["before training"], found["after training"]


def pretrained():
    """The network of the file."""
    graph = onnx.load(NETWORKS / f"{LENET}.onnx").graph
    values = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in graph.initializer}
    net = nets.LeNet()
    net.load_state_dict({name: values[name] for name in net.state_dict()})
    return net


def in_floats(arguments, layers, seed, train, test):
    """Per cent right after fine-tuning in FP32, at the better rate."""
    best = 0.0
    for rate in RATES:
        torch.manual_seed(seed)
        net = pretrained()
        for name, parameter in net.named_parameters():
            parameter.requires_grad = layers == "whole" or name.startswith(layers)
        trained = [p for p in net.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(trained, rate, momentum=0.9)
        steps, step = arguments.epochs * (len(train[1]) // arguments.batch), 0
        for _ in range(arguments.epochs):
            for x, y in zip(train[0].split(arguments.batch), train[1].split(arguments.batch)):
                # The schedule of niti-finetune.
                fraction = step / steps
                scale = 1 if fraction < 0.4 else 0.5 if fraction < 0.6 else 0.25 if fraction < 0.8 else 0.125
                optimizer.param_groups[0]["lr"] = rate * scale
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
                step += 1
        best = max(best, nets.accuracy(net, *test))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("trainc")
    parser.add_argument("--target", choices=TOOLS, default="c")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--angles", type=int, nargs="+", default=[30, 45])
    parser.add_argument("--layers", choices=LAYERS, nargs="+", default=["whole", "fc3"])
    parser.add_argument("--network", default=LENET)
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    normalization = "normalized" if arguments.network.startswith("depthwise") else "unit"

    def prepared(images, angle):
        unit = rotated(images, angle) if angle else images.float() / 255
        return nets.scaled(unit * 255, normalization)

    all_images, all_labels = nets.mnist(arguments.data, "train")
    test_images, test_labels = nets.mnist(arguments.data, "t10k")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for angle in arguments.angles:
            test = prepared(test_images, angle), test_labels
            write(folder / "test.bin", *test)
            for layers in arguments.layers:
                rows = []
                for seed in range(arguments.seeds):
                    order = torch.randperm(len(all_labels), generator=torch.Generator().manual_seed(seed))[: arguments.images]
                    train = prepared(all_images[order], angle), all_labels[order]
                    write(folder / "train.bin", *train)
                    before, after = on_device(arguments, folder, layers, seed, folder / "train.bin", folder / "test.bin")
                    floats = np.nan
                    if angle and arguments.network == LENET:
                        floats = in_floats(arguments, layers, seed, train, test)
                    rows.append((before, after, floats))
                    print(f"  seed {seed}: %.2f to %.2f; FP32 %.2f" % rows[-1], flush=True)
                before, after, floats = np.mean(rows, axis=0)
                line = f"{arguments.target}, {angle} degrees, {layers}: {before:.2f} to {after:.2f}"
                if not np.isnan(floats):
                    share = 100 * (after - before) / (floats - before)
                    line += f"; FP32 {floats:.2f}; {share:.0f} % of what FP32 gains"
                print(line, flush=True)


if __name__ == "__main__":
    main()
