#!/usr/bin/env python3
"""Personalise a pretrained VGG-11 (half its width) on the host: CIFAR-10 rotated by 30 and 45 degrees.

    pip install torch==2.15.0 numpy pillow
    python tests/reference/personalise_cifar.py pretrain CIFAR WORK     (20 epochs: half an hour on two cores)
    python tests/reference/personalise_cifar.py tune CIFAR WORK TRAINC  (half an hour)

CIFAR is a folder `train/CLASS/*`, `test/CLASS/*` of images, WORK one for results in between, TRAINC the compiler's program.
`pretrain` trains the network on upright images (SGD with momentum, half a cosine, crops and flips; bfloat16 products) and
exports it. `tune` draws 1,024 training images, rotates them and the test images, and fine-tunes for ten epochs of batch 32: by
`trainc train --fine-tune` with its defaults, and in FP32 by PyTorch at several rates with the same schedule. The protocol is
PRIOT's (arXiv 2503.16860, section 5).
"""

import argparse
import math
import pathlib
import subprocess

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

LAYERS = [32, "M", 64, "M", 128, 128, "M", 256, 256, "M", 256, 256, "M"]
MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1)
RATES = (0.02, 0.01, 0.003)
SEEDS = (0, 1, 2)


class Vgg11(nn.Module):
    """Eight convolutions with biases, five pools, one linear layer."""

    def __init__(self):
        super().__init__()
        parts, channels = [], 3
        for layer in LAYERS:
            if layer == "M":
                parts.append(nn.MaxPool2d(2))
            else:
                convolution = nn.Conv2d(channels, layer, 3, 1, 1)
                nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
                nn.init.zeros_(convolution.bias)
                parts += [convolution, nn.ReLU()]
                channels = layer
        self.features, self.fc = nn.Sequential(*parts), nn.Linear(channels, 10)
        nn.init.normal_(self.fc.weight, 0, 0.01)

    def forward(self, x):
        return self.fc(torch.flatten(self.features(x), 1))


def images(folder, part):
    """uint8 [n, 3, 32, 32] and classes, the folders in the order of their names."""
    pixels, labels = [], []
    for label, name in enumerate(sorted((pathlib.Path(folder) / part).iterdir())):
        for file in sorted(name.iterdir()):
            pixels.append(np.asarray(Image.open(file).convert("RGB")).transpose(2, 0, 1))
            labels.append(label)
    return torch.tensor(np.stack(pixels)), torch.tensor(labels)


def scaled(pixels):
    """With mean and deviation of upright CIFAR-10 taken out."""
    return (pixels.float() / 255 - MEAN) / DEVIATION


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return 100 * sum((net(a).argmax(1) == b).sum().item() for a, b in zip(x.split(500), y.split(500))) / len(y)


def pretrain(arguments):
    x, y = images(arguments.cifar, "train")
    test_x, test_y = images(arguments.cifar, "test")
    torch.manual_seed(0)
    net, padded = Vgg11(), F.pad(x, (4, 4, 4, 4))
    random = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    batch, batches, step = 128, len(y) // 128, 0
    for epoch in range(arguments.epochs):
        net.train()
        order = torch.randperm(len(y), generator=random)
        for chosen in order.split(batch)[:batches]:
            down, right = torch.randint(0, 9, (2,), generator=random).tolist()
            part = padded[chosen][:, :, down : down + 32, right : right + 32]
            flipped = torch.rand(batch, generator=random) < 0.5
            part = scaled(torch.where(flipped.view(-1, 1, 1, 1), part.flip(3), part))
            warm = min(1, (step + 1) / (batches // 2))
            rate = 0.05 * warm * 0.5 * (1 + math.cos(math.pi * step / (arguments.epochs * batches)))
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                scores = net(part)
            F.cross_entropy(scores.float(), y[chosen]).backward()
            optimizer.step()
            step += 1
        print(f"epoch {epoch + 1}: {accuracy(net, scaled(test_x), test_y):.2f}", flush=True)
    torch.save(net.state_dict(), arguments.work / "vgg11.pt")
    net.eval()
    torch.onnx.export(net, (torch.zeros(1, 3, 32, 32),), arguments.work / "vgg11.onnx", dynamo=False,
                      input_names=["input"], output_names=["scores"], dynamic_axes={"input": {0: "batch"}})


def rotated(pixels, degrees):
    """Turned about the middle, bilinearly, rounded."""
    a = math.radians(degrees)
    turn = torch.tensor([[math.cos(a), -math.sin(a), 0], [math.sin(a), math.cos(a), 0]])
    parts = []
    for part in pixels.split(1000):
        grid = F.affine_grid(turn.expand(len(part), 2, 3), part.shape, align_corners=False)
        parts.append(F.grid_sample(part.float(), grid, align_corners=False).round().to(torch.uint8))
    return torch.cat(parts)


def in_floats(weights, rate, seed, train, test):
    """Accuracy after fine-tuning in FP32, by the schedule of niti-finetune."""
    torch.manual_seed(seed)
    net = Vgg11()
    net.load_state_dict(weights)
    optimizer = torch.optim.SGD(net.parameters(), rate, momentum=0.9)
    step, steps = 0, 10 * (len(train[1]) // 32)
    for _ in range(10):
        net.train()
        for chosen in torch.randperm(len(train[1])).split(32):
            done = step / steps
            scale = 1 if done < 0.4 else 0.5 if done < 0.6 else 0.25 if done < 0.8 else 0.125
            optimizer.param_groups[0]["lr"] = rate * scale
            optimizer.zero_grad()
            F.cross_entropy(net(train[0][chosen]), train[1][chosen]).backward()
            optimizer.step()
            step += 1
    return accuracy(net, *test)


def tune(arguments):
    x, y = images(arguments.cifar, "train")
    test_x, test_y = images(arguments.cifar, "test")
    weights = torch.load(arguments.work / "vgg11.pt")
    some = torch.randperm(len(y), generator=torch.Generator().manual_seed(7))[:1024]
    for degrees in (30, 45):
        train = scaled(rotated(x[some], degrees)), y[some]
        test = scaled(rotated(test_x, degrees)), test_y
        data = arguments.work / f"rotated{degrees}.npz"
        np.savez(data, x_train=train[0].numpy(), y_train=train[1].numpy(), x_test=test[0].numpy(), y_test=test[1].numpy())
        for seed in SEEDS:
            subprocess.run([arguments.trainc, "train", arguments.work / "vgg11.onnx", "--data", data, "--fine-tune",
                            "--epochs", "10", "--batch", "32", "--seed", str(seed), "--normalization", "none"], check=True)
            for rate in RATES:
                print(f"{degrees} degrees, seed {seed}, FP32 at {rate}: {in_floats(weights, rate, seed, train, test):.2f}",
                      flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, run in (("pretrain", pretrain), ("tune", tune)):
        command = commands.add_parser(name)
        command.add_argument("cifar")
        command.add_argument("work", type=pathlib.Path)
        if run is tune:
            command.add_argument("trainc")
        else:
            command.add_argument("--epochs", type=int, default=20)
        command.set_defaults(run=run)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
